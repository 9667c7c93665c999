"""Full disks, closed pipes, terminals without Unicode: a message or silence, and never a stack trace."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Start = Callable[..., subprocess.Popen[str]]

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")


@needs_full
@pytest.mark.parametrize("more", [(), ("--json", "-")])
def test_standard_output_on_a_full_disk(start: Start, scenario_file: Path, more: tuple[str, ...]) -> None:
    with FULL.open("w") as full:
        process = start("run", scenario_file, *more, stdout=full)
        _, message = process.communicate(timeout=60)
    assert process.returncode == 2
    assert message == "error: cannot use standard output: no space left on device\n"


@needs_full
def test_standard_error_on_a_full_disk_stops_nothing(
    start: Start, scenario_file: Path, tmp_path: Path
) -> None:
    with FULL.open("w") as full:
        process = start("run", scenario_file, "--out", tmp_path / "out", stderr=full)
        printed, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "small  10 s simulated, seed 1" in printed


def test_a_reader_that_leaves_early(start: Start, scenario_file: Path) -> None:
    process = start("run", scenario_file, "--seeds", "1-50", "--json", "-")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr:
        assert process.stderr.read() == ""
    assert process.wait(timeout=60) == 1


@pytest.mark.parametrize(
    "arguments",
    [("transports",), ("metrics",), ("new", "--list"), ("compare", "FILE", "--transport", "reno,vegas")],
    ids=lambda words: words[0],
)
def test_a_pipe_that_is_closed_leaves_no_stack_trace(
    start: Start, scenario_file: Path, arguments: tuple[str, ...]
) -> None:
    process = start(*(scenario_file if word == "FILE" else word for word in arguments))
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr:
        assert process.stderr.read() == ""
    assert process.wait(timeout=60) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name)
@pytest.mark.parametrize("after_s", [0.02, 0.6])
def test_no_signal_leaves_a_stack_trace(
    start: Start, scenario_file: Path, tmp_path: Path, number: signal.Signals, after_s: float
) -> None:
    """Whenever it comes; `test_interrupt.py` has Ctrl-C."""
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip(f"{number.name} is ignored here, as under nohup, and what is started inherits that")
    long = ("--seeds", "1-1000", "--set", "duration=1000 s", "--out", tmp_path / "out")
    process = start("compare", scenario_file, "--transport", "reno,vegas", *long)
    time.sleep(after_s)
    process.send_signal(number)
    _, message = process.communicate(timeout=60)
    assert process.returncode in {128 + number, -number}
    assert "Traceback" not in message
    assert "Exception" not in message


def test_a_terminal_without_unicode(start: Start, scenario_file: Path) -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    arguments = ("--transport", "reno,vegas", "--seeds", "1-2")
    process = start("compare", scenario_file, *arguments, env=ascii_only)
    printed, message = process.communicate(timeout=60)
    assert (process.returncode, message) == (0, "")
    assert "mean +-95 % interval" in printed
    assert printed.isascii()
    # Letters that take more room than they stand for push no column out of its place.
    table = [line for line in printed.splitlines() if line.startswith(("|", "+--"))]
    assert {len(line) for line in table[: table.index(table[0], 1) + 1]} == {len(table[0])}


def test_a_scenario_from_standard_input(start: Start, scenario_file: Path) -> None:
    text = scenario_file.read_text()
    process = start("run", "-", "--set", "duration=2 s", stdin=subprocess.PIPE)
    printed, message = process.communicate(text, timeout=60)
    assert (process.returncode, message) == (0, "")
    assert printed.startswith("small  2 s simulated, seed 1\n")
    process = start("run", "-", stdin=subprocess.PIPE)
    printed, message = process.communicate("duration = 5", timeout=60)
    assert (process.returncode, printed) == (2, "")
    assert message == (
        "scenario error: duration: 5 has no unit\n  at standard input:1:12\n1 | duration = 5\n"
        '  |            ^ did you mean "5 s" or "5 ms"?\n'
    )
