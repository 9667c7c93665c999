"""What files say cannot steer the terminal: on a pty, no control character of a file arrives.

Titles, labels, names and keys of every kind of file hold an escape sequence here, a colour, a bell, an 8-bit
control character and what rich takes for a link.
"""

from __future__ import annotations

import ast
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import termios
import zipfile
from pathlib import Path

import pytest

import lasthop as lh
from lasthop.bundle import bundle, digest_of
from lasthop.visible import visible

FRONT = Path(lh.__file__).parent
#: A colour that is not ours, a title for the window, an 8-bit control, a turn of direction, a link of rich.
FOREIGN = "\x1b[38;5;201m\x1b]0;OWNED\x07\x9b2J\u202e[link=http://foreign]x[/link][/nope]"
OURS = re.compile(rb"\x1b\[[0-9;]*m")


def _json(text: str) -> str:
    return json.dumps(text)


SCENARIO = """
duration = "1 s"
[topology]
kind = "dumbbell"
bottleneck = { rate = "5 Mbit/s", delay = "20 ms" }
access = { rate = "4 Mbit/s", delay = "5 ms" }
[[flows]]
name = "left"
transport = "reno"
"""
STUDY = """
name = "grid"
title = TEXT
scenario = "plain.toml"
seeds = [1]
metrics = ["goodput_bit_s"]
[[axes]]
name = "sender"
label = TEXT
unit = TEXT
key = "flows.0.transport"
values = ["reno", "vegas"]
labels = [TEXT, "second"]
"""


def on_a_terminal(folder: Path, *words: str) -> bytes:
    """Return every byte that the command sends to its terminal."""
    ours, its = pty.openpty()
    modes = termios.tcgetattr(its)
    modes[1] &= ~termios.OPOST
    termios.tcsetattr(its, termios.TCSANOW, modes)
    child = subprocess.Popen(
        [sys.executable, "-m", "lasthop", *words],
        *(-1, None, its, its, its),
        cwd=folder,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "200"},
    )
    os.close(its)
    told = b""
    try:
        while part := os.read(ours, 65_536):
            told += part
    except OSError:
        # So Linux says that the other side has gone.
        pass
    os.close(ours)
    child.wait()
    return told


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of foreign files and results."""
    place = tmp_path_factory.mktemp("foreign")
    (place / "plain.toml").write_text(SCENARIO)
    (place / "named.toml").write_text(f"name = {_json(FOREIGN)}\n{SCENARIO}")
    (place / "flow.toml").write_text(SCENARIO.replace('"left"', _json(FOREIGN)))
    (place / "link.toml").write_text(SCENARIO.replace('"left"', '"[link=http://foreign]x[/link][/nope]"'))
    (place / "key.toml").write_text(f"{_json(FOREIGN)} = 1\n{SCENARIO}")
    (place / "value.toml").write_text(SCENARIO.replace('"1 s"', _json(FOREIGN)))
    (place / "transport.toml").write_text(SCENARIO.replace('"reno"', _json(FOREIGN)))
    (place / "raw.toml").write_text(f"# {FOREIGN}\nname = {FOREIGN}\n")
    (place / "grid.toml").write_text(STUDY.replace("TEXT", _json(FOREIGN)))
    (place / "bad-key.toml").write_text(f"{_json(FOREIGN)} = 1\n" + STUDY.replace("TEXT", '"x"'))
    (place / "bad-name.toml").write_text(STUDY.replace('"grid"', _json(FOREIGN)).replace("TEXT", '"x"'))
    (place / "bad-file.toml").write_text(
        STUDY.replace("plain.toml", FOREIGN.encode().hex()).replace("TEXT", '"x"')
    )
    (place / "bad-value.toml").write_text(STUDY.replace('"vegas"', _json(FOREIGN)).replace("TEXT", '"x"'))
    (place / "packets.toml").write_text(f"title = {_json(FOREIGN)}\n{_json(FOREIGN)} = 2\n")
    study = lh.studies.Study.load(place / "grid.toml")
    lh.studies.run(study, place / "results")
    lh.run_seeds(lh.Scenario.load(place / "plain.toml"), [1]).save(place / "run")
    record = (place / "run" / "result.json").read_text()
    shutil.copytree(place / "run", place / "changed")
    (place / "changed" / "result.json").write_text(record.replace('"left"', _json(FOREIGN)))
    _bundles(place)
    return place


def _bundles(place: Path) -> None:
    bundle([place / "plain.toml"], place / "good.zip")
    text = (place / "plain.toml").read_bytes()
    good = json.loads(zipfile.ZipFile(place / "good.zip").read("manifest.json"))
    entry = {"sha256": digest_of(place / "plain.toml"), "bytes": len(text)}
    for name, listed in (
        ("unlisted.zip", {}),
        ("changed.zip", {FOREIGN: entry | {"sha256": "0" * 64}}),
        ("outside.zip", {f"../{FOREIGN}": entry}),
        ("names.zip", {FOREIGN: entry}),
    ):
        with zipfile.ZipFile(place / name, "w") as archive:
            archive.writestr("manifest.json", json.dumps(good | {"files": listed}))
            archive.writestr(next(iter(listed), FOREIGN), text)


@pytest.mark.parametrize(
    "words",
    [
        *(["run", f"{name}.toml"] for name in ("named", "flow", "link", "key", "value", "transport", "raw")),
        ["run", "plain.toml", "--set", f"name={FOREIGN}"],
        ["compare", "link.toml", "--transport", f"reno,{FOREIGN}"],
        *(["study", "run", f"{name}.toml", "--dry-run"] for name in ("grid", "bad-key", "bad-name")),
        *(["study", "run", f"{name}.toml", "--dry-run"] for name in ("bad-file", "bad-value")),
        ["study", "run", "grid.toml", "--out", "again"],
        ["study", "show", "results"],
        *(["study", "show", "results", "--table", name] for name in ("csv", "markdown", "latex")),
        ["study", "report", "results", "--out", "page.html"],
        ["show", "run"],
        ["show", "changed"],
        *(["unbundle", f"{name}.zip", "--out", f"to-{name}"] for name in ("unlisted", "changed", "outside")),
        ["unbundle", "names.zip", "--out", "to-names"],
        ["bundle", "to-names", "--out", "again.zip"],
        ["script", "packets.toml"],
        ["show", f"no-{FOREIGN}".replace("/", "")],
    ],
    ids=lambda words: visible(" ".join(words))[:40],
)
def test_no_control_character_of_a_file_reaches_the_terminal(folder: Path, words: list[str]) -> None:
    told = on_a_terminal(folder, *words)
    assert told, "it says something"
    assert b"Traceback" not in told, told.decode(errors="replace")
    assert b"\x1b[38;5;201m" not in told
    assert b"\x1b]8" not in told
    left = OURS.sub(b"", told).decode()
    assert not [letter for letter in left if letter not in "\n\t" and visible(letter) != letter]


def test_what_is_escaped_is_still_seen(folder: Path) -> None:
    assert b"\\u001b]0;OWNED\\u0007\\u009b2J\\u202e[link=http://foreign]x" in on_a_terminal(
        folder, "study", "run", "grid.toml", "--dry-run"
    )
    assert b"[link=http://foreign]x[/link][/nope]" in on_a_terminal(folder, "run", "link.toml")


def test_python_shows_no_more_than_the_command(folder: Path) -> None:
    text = str(lh.studies.load(folder / "results"))
    assert visible(text) == text


@pytest.mark.parametrize(
    "file", sorted(FRONT.rglob("*.py")), ids=lambda file: file.relative_to(FRONT).as_posix()
)
def test_all_text_goes_through_one_place(file: Path) -> None:
    """No other module prints: what it would print, nothing would look through."""
    own = {"terminal.py": ("print", "Console"), "progress.py": ("print", "Console"), "live.py": ("print",)}
    # These draw into a text, which is printed by the one place, or written into a file.
    own |= {"tables.py": ("Console",), "formats.py": ("Console",)}
    called = {
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    }
    found = called & {"echo", "secho", "Console", "print_exc"}
    found |= {"print"} if re.search(r"(?<![\w.>])print\(", _code(file)) else set()
    assert found <= set(own.get(file.name, ()))


def _code(file: Path) -> str:
    """Return a file without its texts: examples in documentation print too."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
    return ast.unparse(tree)
