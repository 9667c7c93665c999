"""Scripts from Python and from the command line; `test_live_devices.py` runs them against the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import lasthop as lh
from lasthop.cli import app
from lasthop.scripts import run_script

FOLDER = Path(__file__).parents[2] / "scripts"
HEAD = 'title = "A SYN"\nsources = ["RFC 9293"]\ntransport = "newreno"\nkernel = "reno"\n---\n'


def test_a_script_that_holds() -> None:
    """A text is as good as a file."""
    outcome = run_script(HEAD + "0 connect\n+0 > S 0:0(0)\n+1 > S 0:0(0)\n")
    assert outcome.holds
    assert outcome.sources == ("RFC 9293",)
    assert [line.split(" win")[0] for line in outcome.log] == ["0.000000 > S 0:0(0)", "1.000000 > S 0:0(0)"]


def test_a_script_that_fails(tmp_path: Path) -> None:
    """The command says the file, the line and what happened, and exits with 1."""
    path = tmp_path / "late.script"
    path.write_text(HEAD + "0 connect\n+0 > S 0:0(0)\n+3 > S 0:0(0)\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["script", str(path)])
    assert result.exit_code == 1
    words = " ".join(result.stdout.split())
    assert "FAILS late: A SYN (RFC 9293)" in words
    assert (
        "late.script, line 8: +3 > S 0:0(0): at 3.000000 s it has to be sent, but it was at 1.000000 s"
        in words
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [("0 connect\n", "no line '---'"), (HEAD + "0 jump\n", 'script, line 6: "jump" after the time')],
)
def test_mistakes_are_refused(text: str, told: str) -> None:
    """What is no script is a scenario error with its line."""
    with pytest.raises(lh.ScenarioError, match=told.replace("(", r"\(")):
        run_script(text)


def test_what_no_line_names_may_wait() -> None:
    """As in packetdrill; without the key it is a mistake, and in either case the order counts."""
    waits = HEAD.replace("---", "unnamed_wait = true\ntolerance_ms = 150\n---")
    opening = "0 connect\n+0 > S 0:0(0)\n+.1 < S. 0:0(0) ack 1 win 65535 <mss 1000>\n+0 > . 1:1(0) ack 1\n"
    events = f"{opening}+.1 write 2000\n+.1 < . ack 1001\n"
    assert run_script(waits + events).holds
    assert run_script(f"{waits}{events}+0 > . 1:1001(1000) ack 1\n").holds
    assert "sequence number" in (run_script(f"{waits}{events}+0 > . 1001:2001(1000) ack 1\n").failure or "")
    assert "the stack sent" in (run_script(HEAD + events).failure or "")


def test_times_may_differ_by_a_tolerance() -> None:
    """And origin_lines name the lines of another file."""
    late = "0 connect\n+0 > S 0:0(0)\n+1.004 > S 0:0(0)\n"
    assert not run_script(HEAD + late).holds
    assert run_script(HEAD.replace("---", "tolerance_ms = 5\n---") + late).holds
    failure = run_script(HEAD.replace("---", "origin_lines = [3, 5, 8]\n---") + late).failure
    assert failure is not None
    assert "script, line 8: " in failure


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file, and one that is no text, exit with 2 and say so."""
    bad = tmp_path / "bad.script"
    bad.write_bytes(b"\xff\xfe\n")
    for path, told in [(tmp_path / "none.script", "cannot read"), (bad, "not a text in UTF-8")]:
        result = CliRunner().invoke(app, ["script", str(path)])
        assert result.exit_code == 2, result.output
        assert told in " ".join(result.stderr.split())


def test_every_script_of_ours_holds() -> None:
    """What the manual says: `lasthop script scripts/*.script`."""
    paths = sorted(FOLDER.glob("*.script"))
    result = CliRunner().invoke(app, ["script", *map(str, paths)])
    assert result.exit_code == 0, result.output
    assert result.stdout.count("holds    ") == len(paths) >= 40
