"""Random situations: what the engine does is a script that holds, and a kernel is asked to do the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from lasthop import fuzz, live
from lasthop.cli import app
from lasthop.scripts import ScriptOutcome, run_script
from lasthop.situations import KINDS, PRESETS, draw, script_of

if TYPE_CHECKING:
    from pathlib import Path

#: Of the scripts of a kind with losses, at least this share is alike.
ALIKE = 0.75

needs_kernel = pytest.mark.skipif(
    bool(live.lacking()), reason="; ".join(f"{need.what}: {need.text}" for need in live.lacking())
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("controller", PRESETS)
def test_what_the_engine_did_is_a_script_that_holds(kind: str, controller: str) -> None:
    """Each time, to the nanosecond; and twice the same."""
    for number in range(10):
        script = script_of(draw(kind, controller, number))
        outcome = run_script(script)
        assert outcome.holds, f"{outcome.failure}\n{script}"
        assert script_of(draw(kind, controller, number)) == script


def test_kinds_do_what_they_say() -> None:
    """Losses bring SACK blocks, marks echoes, short room small windows."""

    def scripts(kind: str) -> str:
        return "".join(script_of(draw(kind, "reno", number)) for number in range(10))

    assert "sack" not in scripts("no-loss").replace("sackOK", "").replace('"sack"', "")
    assert " <sack " in scripts("loss")
    assert "< E." in scripts("marks")
    assert " win 0" in scripts("windows")
    assert "sackOK" not in scripts("no-sack").replace("> S 0:0(0) <sackOK", "")
    assert "close" in scripts("writes")


def test_a_parting_is_cut_to_what_makes_it() -> None:
    """A judge that refuses one segment keeps only what that segment needs."""

    def judged(script: str) -> ScriptOutcome:
        lines = script.split("\n")
        seen = next((place for place, line in enumerate(lines, 1) if " > . 15001:" in line), None)
        told = None if seen is None else f"script, line {seen}: not this one"
        return ScriptOutcome("t", (), ran=True, failure=told, log=(), not_on_kernel=None)

    script = next(
        text
        for text in (script_of(draw("loss", "reno", number)) for number in range(50))
        if " > . 15001:" in text
    )
    least = fuzz.smallest(script, lambda scripts: [judged(one) for one in scripts])
    events = [line for line in least.split("\n---\n")[1].split("\n") if " > " not in line and line]
    assert least.startswith("# The kernel: line ")
    assert len(events) <= 8, least
    assert not judged(least).holds
    assert run_script(least).holds


def test_results_name_the_controller() -> None:
    """Under the word that the option has."""
    share = fuzz.Share("loss", "reno", asked=4, alike=3)
    assert fuzz.to_dict([share]) == {
        "shares": [{"kind": "loss", "controller": "reno", "asked": 4, "alike": 3, "late": 0, "partings": []}]
    }
    assert fuzz.table([share])[0].split() == ["kind", "controller", "asked", "alike", "share", "late"]


def test_scripts_without_a_kernel(tmp_path: Path) -> None:
    """Without --kernel they are written for another machine."""
    result = CliRunner().invoke(app, ["fuzz", "--kinds", "loss", "--count", "2", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert len(list(tmp_path.glob("loss-*.script"))) == 4


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--kinds", "lost", "--out", "x"], "there is no kind 'lost': there are no-loss, loss"),
        (["--controllers", "vegas", "--out", "x"], "there is no controller 'vegas': there are reno, cubic"),
        (["--laws", "vegas", "--out", "x"], "there is no controller 'vegas': there are reno, cubic"),
        ([], "give --kernel or --virtual, to ask a kernel, or --out"),
    ],
)
def test_mistakes_are_refused(words: list[str], told: str) -> None:
    """One sentence, exit code 2."""
    result = CliRunner().invoke(app, ["fuzz", *words])
    assert result.exit_code == 2
    assert told in " ".join(result.stderr.split())


@needs_kernel
def test_the_kernel_does_the_same() -> None:
    """A small round: always where nothing is lost, and mostly where something is."""
    kinds = ["no-loss", "loss", "windows"]
    shares = fuzz.fuzz(kinds, list(PRESETS), 12, seed=77, repeats=6, least=0)
    assert [share.asked for share in shares] == [12] * 6
    parted = [f"{one.name}: {one.failure}" for share in shares for one in share.partings]
    assert not [told for told in parted if told.startswith("no-loss")], parted
    assert all(share.share >= ALIKE for share in shares), parted


@needs_kernel
def test_the_command_asks_the_kernel(tmp_path: Path) -> None:
    """It says how many were asked, and exits with 1 if one parts."""
    words = ["fuzz", "--kernel", "--kinds", "loss", "--count", "5", "--least", "0", "--json", "-"]
    result = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "out")])
    assert result.exit_code in (0, 1), result.output
    assert '"asked": 5' in result.stdout
    assert (result.exit_code == 1) == any(tmp_path.glob("out/*.script"))


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    """A folder that cannot be written into is an error in words."""
    place = tmp_path / "file"
    place.write_text("")
    result = CliRunner().invoke(app, ["fuzz", "--kinds", "loss", "--count", "1", "--out", str(place / "in")])
    assert result.exit_code == 2, result.output
    assert "cannot write" in result.stderr
