"""`lasthop check-transport`: versions are small programs whose figures are known."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from typer.testing import Result

ROOT = Path(__file__).parents[2]

#: A version: goodput with a spread by the seed, times a factor, and up and down in turn.
VERSION = """
import json, sys
scenario, seed, factor, noise = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
common, own = 8 + seed * 7 % 11 / 3, noise * (-1) ** seed
print(json.dumps({"goodput": common * factor + own, "delay": 0.1 / factor, "fairness": 1, "what": scenario}))
"""


@pytest.fixture
def version(tmp_path: Path) -> Callable[..., str]:
    """Return the command of a version."""
    program = tmp_path / "version.py"
    program.write_text(VERSION)
    return lambda factor, noise=0.0: f"{sys.executable} {program} {{scenario}} {{seed}} {factor} {noise}"


def test_what_did_not_change_holds(command: Callable[..., Result], version: Callable[..., str]) -> None:
    done = command("check-transport", "a.toml", "b.toml", "--old", version(1), "--new", version(1))
    assert done.exit_code == 0, done.output
    assert done.stdout.count("holds") == 6
    assert "holds     a.toml  fairness: 1 -> 1, +0.00 % (+0.00 to +0.00), bound -5 %" in done.stdout


def test_worse_is_found_and_can_be_run_again(
    command: Callable[..., Result], version: Callable[..., str]
) -> None:
    # 8 % less at every seed: the spread of 20 % between seeds hides it, but for the pairs.
    done = command("check-transport", "a.toml", "--old", version(1), "--new", version(0.92))
    assert done.exit_code == 1
    worse, replay, delay, *_ = done.stdout.splitlines()
    assert worse.startswith("worse     a.toml  goodput: ")
    assert "-8.00 % (-8.00 to -8.00), bound -5 %" in worse
    assert delay.startswith("holds     a.toml  delay: 0.1 -> 0.108696, +8.70 %")
    # The seed that lost most is the one with the greatest goodput, 8 + 10 / 3: the loss is a share of it.
    assert replay.split()[-4:] == ["a.toml", "3", "0.92", "0.0"]


def test_what_is_not_decided_passes_unless_strict(
    command: Callable[..., Result], version: Callable[..., str]
) -> None:
    words = (
        "check-transport",
        "a.toml",
        "--old",
        version(1),
        "--new",
        version(0.97, 3),
        "--bound",
        "goodput=-5%",
    )
    done = command(*words, "--seeds", "1-4")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("undecided a.toml  goodput: ")
    assert command(*words, "--seeds", "1-4", "--strict").exit_code == 1


def test_findings_as_json(command: Callable[..., Result], version: Callable[..., str]) -> None:
    words = ("--old", version(1), "--new", version(1.1), "--bound", "delay=+5%", "--json", "-")
    done = command("check-transport", "a.toml", *words)
    (found,) = json.loads(done.stdout)["findings"]
    assert done.exit_code == 0
    assert found["verdict"] == "holds"
    assert found["bound"] == {"figure": "delay", "limit": 0.05}
    assert found["difference"]["mean"] == pytest.approx(1 / 1.1 - 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--new", "x {scenario}"],
            "--new has no {seed}: write the command that runs one scenario with one seed",
        ),
        (["--old", "x '{scenario} {seed}"], "No closing quotation"),
        (["--bound", "goodput=5"], "bad bound 'goodput=5': write FIGURE=-5% or FIGURE=+10%"),
        (["--bound", "a=1%", "--bound", "a=2%"], "--bound names a figure twice: give each once"),
        (
            ["--bound", "stalls=+1%"],
            "a.toml has no figure 'stalls': it has delay, fairness, goodput",
        ),
        (["--new", "/no/such {scenario} {seed}"], "/no/such cannot be run: No such file or directory"),
        (["--seeds", "x"], "x"),
    ],
)
def test_mistakes_are_answered(
    refused: Callable[..., str], version: Callable[..., str], words: list[str], message: str
) -> None:
    given = ["--old", version(1), "--new", version(1)]
    assert message in refused("check-transport", "a.toml", *given, *words)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("import sys; sys.exit('it broke')", "ended with exit code 1: it broke"),
        ("print('[]')", "did not print a JSON object of figures"),
        ("print('no')", "did not print a JSON object of figures"),
        ("import time; time.sleep(60)", "had not ended after 1 s: raise --timeout"),
    ],
)
def test_a_version_that_fails_is_named(
    command: Callable[..., Result], version: Callable[..., str], tmp_path: Path, program: str, message: str
) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text(program)
    new = f"{sys.executable} {bad} {{scenario}} {{seed}}"
    done = command("check-transport", "a.toml", "--old", version(1), "--new", new, "--timeout", "1")
    assert done.exit_code == 1
    assert message in done.stderr
    assert "bad.py a.toml" in done.stderr


def test_the_workflow_names_options_that_are_there(command: Callable[..., Result]) -> None:
    workflow = (ROOT / "examples" / "check-transport.yml").read_text(encoding="utf-8")
    offered = command("check-transport", "--help").stdout
    used = {word for word in workflow.replace("'", " ").split() if word.startswith("--")}
    assert {"--old", "--new", "--bound", "--seeds"} <= used
    assert all(word in offered for word in ("--old", "--new", "--bound", "--seeds"))
