"""A copy of the tree in which generators of code may write, for test_generators."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def copy_tree(target: Path) -> Path:
    """Copy what cargo and the generators read."""
    for name in ("Cargo.toml", "Cargo.lock", "rustfmt.toml"):
        shutil.copy(ROOT / name, target / name)
    for folder in ("crates", "tools"):
        shutil.copytree(ROOT / folder, target / folder)
    return target


def generate(tree: Path, tool: str, name: str) -> subprocess.CompletedProcess[str]:
    """Run the generator `tool` of the copy."""
    command = [sys.executable, f"tools/{tool}.py", name]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)


def cargo(tree: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run cargo in the copy, with further variables of the environment."""
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed")
    # What the crates outside the tree were built to is used again.
    environment = {"CARGO_TARGET_DIR": str(ROOT / "target")} | os.environ | settings
    command = ["cargo", *arguments]
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
