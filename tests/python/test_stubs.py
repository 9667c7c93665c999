"""The types that are shipped for the compiled module are those of the compiled module."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from lasthop.steer import Session, Twin

LIVE = Path(__file__).parents[2] / "crates" / "lasthop-live" / "src"


def test_the_stub_agrees_with_the_compiled_module() -> None:
    command = [sys.executable, "-m", "mypy.stubtest", "lasthop._native"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize(
    ("file", "structure", "kind"), [("steer.rs", "SessionReport", Session), ("twin.rs", "TwinReport", Twin)]
)
def test_reports_of_steering_have_the_same_fields_in_both_languages(
    file: str, structure: str, kind: type[Session | Twin]
) -> None:
    """They cross as JSON, and only root can make one: the declarations are compared."""
    source = (LIVE / file).read_text(encoding="utf-8")
    body = source.split(f"pub struct {structure} {{\n", 1)[1].split("\n}\n", 1)[0]
    assert re.findall(r"^    pub (\w+):", body, flags=re.MULTILINE) == [field.name for field in fields(kind)]
