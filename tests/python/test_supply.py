"""What we build on: hashes of what is installed, licences of what is compiled in, promised versions."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
WORKSPACE = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")

needs_cargo = pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo")


def _licences() -> ModuleType:
    spec = importlib.util.spec_from_file_location("licences", ROOT / "tools" / "licences.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["licences"] = module
    spec.loader.exec_module(module)
    return module


def _cargo(*words: str) -> str:
    cargo = shutil.which("cargo") or "cargo"
    return subprocess.run([cargo, *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def test_everything_that_is_installed_has_its_hash() -> None:
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    entries = re.split(r"\n(?=\S)", text.strip())
    without = [entry.split()[0] for entry in entries if entry[0] != "#" and "--hash=sha256:" not in entry]
    assert len(entries) > 50
    assert without == []
    assert "://" not in text, "hashes hold wherever the files come from"
    assert "--require-hashes" in (ROOT / "Makefile").read_text(encoding="utf-8")


@needs_cargo
def test_the_texts_of_every_compiled_crate_are_collected() -> None:
    licences = _licences()
    text = licences.collected()
    listed, _, texts = text.partition("-" * 80)
    names = {name for engine, target in licences.ENGINES for name in licences.compiled(engine, target)}
    ours = {name for name in names if name.startswith(("lasthop ", "lasthop-"))}
    assert len(names) > 100
    for name in names - ours:
        assert f"{name}: " in listed
        assert re.search(rf"(^|, ){re.escape(name)}(,|$)", texts, re.MULTILINE), name
    # Code in C that is compiled along: its BSD licence wants its text.
    assert "Copyright (c) Meta Platforms, Inc. and affiliates" in texts or "Copyright (c) Facebook" in texts


@needs_cargo
def test_a_licence_without_a_text_is_refused(tmp_path: Path) -> None:
    licences = _licences()
    with pytest.raises(licences.MissingError, match=r"some 1\.0 \(BSD-3-Clause\) brings no licence text"):
        licences.texts_of(licences.Package("some 1.0", "BSD-3-Clause", "", tmp_path))
    (text,) = licences.texts_of(licences.Package("some 1.0", "MIT", "A. Author", tmp_path))
    assert "Copyright (c) A. Author" in text


@needs_cargo
def test_nothing_that_is_locked_wants_a_newer_rust_than_is_promised() -> None:
    """``make msrv`` compiles with it; this asks what every package says."""

    def release(text: str) -> tuple[int, ...]:
        return tuple(map(int, text.split(".")[:2]))

    told = json.loads(_cargo("metadata", "--locked", "--format-version", "1"))
    packages = {one["id"]: one for one in told["packages"]}
    needed = {one["id"]: {edge["pkg"] for edge in one["deps"]} for one in told["resolve"]["nodes"]}
    (stacks,) = (id_ for id_ in told["workspace_members"] if packages[id_]["name"] == "lasthop-stacks")

    def newer_than(members: set[str], promised: str) -> list[str]:
        found, open_ = set(members), list(members)
        while open_:
            fresh = needed[open_.pop()] - found
            found |= fresh
            open_ += fresh
        wanted = ((packages[id_]["name"], packages[id_]["rust_version"]) for id_ in sorted(found))
        return [f"{name} wants {rust}" for name, rust in wanted if rust and release(rust) > release(promised)]

    # Real stacks want a later one: an older one leaves their crate out of the tests.
    assert newer_than(set(told["workspace_members"]) - {stacks}, WORKSPACE["rust-version"]) == []
    assert newer_than({stacks}, packages[stacks]["rust_version"]) == []
    for page in ("README.md", "CONTRIBUTING.md", "Makefile"):
        named = re.findall(r"Rust (?:>= )?(\d+\.\d+)", (ROOT / page).read_text(encoding="utf-8"))
        assert set(named) <= {WORKSPACE["rust-version"]}, page


def test_the_promised_versions_of_python_are_those_of_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    classified = re.findall(r"Python :: (3\.\d+)", " ".join(project["project"]["classifiers"]))
    assert classified == ["3.11", "3.12", "3.13", "3.14"]
    assert project["project"]["requires-python"] == f">={classified[0]}"
    # One file for all of them.
    assert f"pyo3/abi3-py{classified[0].replace('.', '')}" in project["tool"]["maturin"]["features"]


@pytest.mark.parametrize(
    "crate", ["lasthop", "lasthop-cc", "lasthop-net", "lasthop-py", "lasthop-sim", "lasthop-web"]
)
def test_crates_without_system_calls_forbid_unsafe_code(crate: str) -> None:
    text = (ROOT / "crates" / crate / "src" / "lib.rs").read_text(encoding="utf-8")
    assert "\n#![forbid(unsafe_code)]\n" in text


def test_what_is_unsafe_stands_in_few_places_and_says_why() -> None:
    """The others ask the system or the processor for something; the lint wants a reason for each."""
    places = {
        file.relative_to(ROOT / "crates").parts[0]
        for file in (ROOT / "crates").glob("*/src/**/*.rs")
        if re.search(r"\bunsafe (\{|fn|impl)", file.read_text(encoding="utf-8"))
    }
    assert places <= {"lasthop-core", "lasthop-ffi", "lasthop-guest", "lasthop-live"}


@pytest.mark.parametrize(("build", "tests"), [(3, 0), (1, 1), (101, 101)])
def test_only_what_is_missing_skips_the_tests_of_the_page(tmp_path: Path, build: int, tests: int) -> None:
    """A page that is too large, or whose sources do not compile, is no page that cannot be built here."""
    tools = tmp_path / "tools"
    tools.mkdir()
    shutil.copy(ROOT / "tools" / "test_page.sh", tools)
    (tools / "build_page.sh").write_text(f"#!/bin/sh\nexit {build}\n", encoding="utf-8")
    (tools / "build_page.sh").chmod(0o755)
    run = subprocess.run([str(tools / "test_page.sh")], check=False, capture_output=True, text=True)
    assert run.returncode == tests
    assert ("are skipped" in run.stdout) == (build == 3)


def test_only_what_is_missing_leaves_a_wheel_without_a_page(tmp_path: Path) -> None:
    """The line of the recipe, with a page that cannot be built and with one that fails."""
    (line,) = re.findall(r"^wheel:.*?\n(?:\t.*\n)*?\t@(tools/build_page\.sh .*)$", MAKEFILE, re.MULTILINE)
    (tmp_path / "tools").mkdir()
    script = tmp_path / "tools" / "build_page.sh"
    for build, expected in ((0, 0), (3, 0), (1, 1)):
        script.write_text(f"#!/bin/sh\nexit {build}\n", encoding="utf-8")
        script.chmod(0o755)
        shell = ["sh", "-c", line.replace("$$", "$")]
        assert subprocess.run(shell, check=False, cwd=tmp_path, capture_output=True).returncode == expected
