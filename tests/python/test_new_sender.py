"""`make new-sender`: what it writes compiles, fails its one open test, and overwrites nothing."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from tests.python.copied_tree import ROOT, cargo, copy_tree, generate

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a copy of what cargo and the generator read."""
    return copy_tree(tmp_path)


def test_a_new_sender_compiles_and_fails_its_first_vector_alone(tree: Path) -> None:
    written = generate(tree, "new_sender", "gentle-reno")
    assert written.returncode == 0, written.stderr
    assert written.stdout.startswith("written:    crates/lasthop-cc/src/gentle_reno.rs\n")
    library = (tree / "crates/lasthop-cc/src/lib.rs").read_text()
    assert "\nmod gentle_reno;\n" in library
    assert '    "gentle-reno" => gentle_reno::GentleReno,\n}\n' in library
    assert cargo(tree, "fmt", "--all", "--check").returncode == 0
    tested = cargo(tree, "test", "--offline", "--package", "lasthop-cc", "--lib", "--tests", "--no-fail-fast")
    failed = set(re.findall(r"^test (\S+) \.\.\. FAILED$", tested.stdout, re.MULTILINE))
    assert failed == {"gentle_reno::tests::the_first_vector"}, tested.stdout + tested.stderr
    assert "write the window that the paper gives in place of NaN" in tested.stdout
    assert "warning" not in tested.stderr


def test_what_it_prints_is_true_of_any_controller(tree: Path) -> None:
    """The command that it prints works: a name alone is a transport, with or without a row of presets."""
    printed = generate(tree, "new_sender", "gentle-reno").stdout
    assert "compare scenarios/lossy-last-hop.toml --transport reno,gentle-reno --seeds 1-10\n" in printed
    assert "PRESETS" not in printed
    page = (ROOT / "docs" / "how-to" / "add-a-controller.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| (?:new|edit) \| `([^`]+)`", page, re.MULTILINE)
    assert len(listed) == 4
    assert "You touch four files" in page


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "bad name nothing: use lower-case letters and digits, a letter first"),
        ("Gentle", "bad name 'Gentle': use lower-case letters and digits, a letter first"),
        ("4ever", "bad name '4ever': use lower-case letters"),
        ("../up", "bad name '../up': use lower-case letters"),
        ("a--b", "bad name 'a--b': use lower-case letters"),
        ("match", "bad name 'match': it is a word of Rust; choose another, such as match-tcp"),
        ("vegas", "'vegas' exists: `lasthop transports vegas` shows it; choose another name"),
        ("newreno", "'newreno' exists: `lasthop transports newreno` shows it; choose another name"),
        ("udp", "'udp' exists"),
        ("params", "crates/lasthop-cc/src/params.rs exists: it is part of the crate"),
    ],
)
def test_names_that_cannot_be_are_refused(tree: Path, name: str, message: str) -> None:
    library = tree / "crates/lasthop-cc/src/lib.rs"
    before = library.read_text()
    refused = generate(tree, "new_sender", name)
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"new-sender: {message}")
    assert "Traceback" not in refused.stderr
    assert library.read_text() == before


def test_make_passes_the_name_on() -> None:
    refused = subprocess.run(
        ["make", "--silent", "new-sender", "NAME=Not A Name"],  # noqa: S607 - whichever make there is
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode != 0
    assert "bad name 'Not A Name'" in refused.stderr
