"""Ctrl-C in the middle of many seeds: what has finished is kept, and said so."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import lasthop as lh
from lasthop import _native, progress, runner, saved, terminal, threads

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SEEDS = 2000
PROMISED = re.compile(rf"interrupted: (\d+) of {SEEDS} seeds finished and kept in (.*)\n")


#: The command with a line of progress every tenth of a second, for a test that waits for one.
TALKATIVE = (
    "from lasthop import progress; progress.LINE_EVERY_S = 0.1; from lasthop.__main__ import main; main()"
)
PROGRESS = re.compile(r"(\d+)/\d+ \w+ .* simulated\n")


def interrupt(
    process: subprocess.Popen[str],
    finished: int,
    within_s: float = 60.0,
    number: signal.Signals = signal.SIGINT,
) -> tuple[str, str]:
    """Press Ctrl-C once the process says that `finished` runs have finished, and return what it printed.

    `number` is another signal than that of Ctrl-C. Its progress is left out. A process that has not ended
    within some seconds is killed.
    """
    assert process.stdout is not None
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        match = PROGRESS.fullmatch(line)
        if match is not None and int(match[1]) >= finished:
            break
    else:
        pytest.fail("it ended without having said how far it is: " + "".join(said))
    process.send_signal(number)
    watchdog = threading.Timer(within_s, process.kill)
    watchdog.start()
    with process:
        printed, rest = process.stdout.read(), process.stderr.readlines()
    watchdog.cancel()
    return printed, "".join(line for line in rest if not PROGRESS.fullmatch(line))


@pytest.fixture
def talkative(monkeypatch: pytest.MonkeyPatch) -> Callable[..., subprocess.Popen[str]]:
    """Return a function that starts the command as a process that often says how far it is."""

    def popen(*arguments: object) -> subprocess.Popen[str]:
        monkeypatch.setenv("COLUMNS", "120")
        words = [sys.executable, "-c", TALKATIVE, *map(str, arguments)]
        return subprocess.Popen(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    return popen


def skip_if_ignored(number: signal.Signals) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip(f"{number.name} is ignored here, as under nohup, and what is started inherits that")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_finished_seeds_are_kept_and_said_so(
    talkative: Callable[..., subprocess.Popen[str]],
    scenario_file: Path,
    tmp_path: Path,
    number: signal.Signals,
    code: int,
) -> None:
    """By Ctrl-C, by ``timeout`` or a job scheduler, and when the terminal is closed."""
    skip_if_ignored(number)
    out = tmp_path / "out"
    process = talkative(
        "run", scenario_file, "--seeds", f"1-{SEEDS}", "--set", "duration=300 s", "--out", out, "--json", "-"
    )
    printed, message = interrupt(process, finished=3, number=number)
    assert process.returncode == code
    match = PROMISED.fullmatch(message)
    assert match is not None, message
    assert match[2] == str(out)
    kept = lh.load_runs(out)
    assert 0 < len(kept) == int(match[1]) < SEEDS
    content = json.loads(printed)
    assert [run["seed"] for run in content["runs"]] == kept.seeds
    assert sorted(content["missing_seeds"] + kept.seeds) == list(range(1, SEEDS + 1))


def test_one_long_seed_stops_at_once(
    talkative: Callable[..., subprocess.Popen[str]], scenario_file: Path, tmp_path: Path
) -> None:
    process = talkative("run", scenario_file, "--set", "duration=1000000 s", "--out", tmp_path / "out")
    printed, message = interrupt(process, finished=0, within_s=5.0)
    assert process.returncode == 130
    assert (printed, message) == ("", "interrupted: 0 of 1 seeds finished\n")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_terminal_that_is_closed_takes_no_results_along(scenario_file: Path, tmp_path: Path) -> None:
    """SIGHUP comes, and nothing can be said any more: neither progress, nor tables, nor what was kept."""
    skip_if_ignored(signal.SIGHUP)
    pty, fcntl, termios = (pytest.importorskip(name) for name in ("pty", "fcntl", "termios"))
    out = tmp_path / "out"
    words = ["run", str(scenario_file), "--seeds", f"1-{SEEDS}", "--set", "duration=300 s", "--out", str(out)]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "lasthop", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no thread runs yet
    )
    os.close(theirs)
    shown = b""
    while not re.search(rb"[1-9]\d*/2000 ", shown):
        shown += os.read(ours, 1 << 16)
    os.close(ours)
    assert process.wait(60) == 128 + signal.SIGHUP
    assert lh.load_runs(out).seeds


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_trace_that_is_being_written_goes_with_its_run(
    talkative: Callable[..., subprocess.Popen[str]],
    scenario_file: Path,
    tmp_path: Path,
    number: signal.Signals,
    code: int,
) -> None:
    skip_if_ignored(number)
    out = tmp_path / "out"
    process = talkative(
        "run", scenario_file, "--set", "duration=1000000 s", "--series", "--trace", "--out", out
    )
    until = time.monotonic() + 30.0
    while not list(out.glob(".lasthop-*/hops.parquet")) and time.monotonic() < until:
        time.sleep(0.1)
    assert time.monotonic() < until, "it is written meanwhile"
    printed, message = interrupt(process, finished=0, number=number)
    assert process.returncode == code
    assert (printed, message) == ("", "interrupted: 0 of 1 seeds finished\n")
    assert list(out.iterdir()) == []


def test_compare_is_interrupted_too(
    talkative: Callable[..., subprocess.Popen[str]], scenario_file: Path
) -> None:
    arguments = ("--transport", "reno,vegas", "--seeds", "1-4", "--set", "duration=1000000 s")
    process = talkative("compare", scenario_file, *arguments)
    printed, message = interrupt(process, finished=0)
    assert process.returncode == 130
    assert (printed, message) == ("", "interrupted: 0 of 8 runs finished, nothing compared\n")


def test_an_interrupted_comparison_keeps_the_seeds_that_are_whole(
    talkative: Callable[..., subprocess.Popen[str]], scenario_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    arguments = (
        "--transport",
        "reno,vegas",
        "--seeds",
        f"1-{SEEDS}",
        "--set",
        "duration=300 s",
        "--out",
        out,
    )
    process = talkative("compare", scenario_file, *arguments)
    printed, message = interrupt(process, finished=3)
    assert process.returncode == 130
    counted = rf"interrupted: (\d+) of {2 * SEEDS} runs finished, (\d+) of {SEEDS} seeds compared"
    match = re.fullmatch(rf"written: {out}\n{counted}\n", message)
    assert match is not None, message
    kept = saved.load_comparison(out)
    assert 0 < len(kept.seeds) == int(match[2]) <= int(match[1]) / 2
    assert f"small  {len(kept.seeds)} seed" in printed


#: Presses Ctrl-C in the main thread just after it has taken its first, second ... lock.
PRESSED_WITH_A_LOCK = """
import os, signal, sys, threading
import lasthop as lh
from lasthop import runner

real, main = threading.Condition.__enter__, threading.get_ident()
left = -1

def enter(self):
    global left
    answer = real(self)
    if threading.get_ident() == main and left >= 0:
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGINT)
    return answer

threading.Condition.__enter__ = enter
plan = lh.Scenario.load(sys.argv[1]).plan
for number in range(12):
    left = number
    outcome = runner.run_jobs([runner.Job(plan, seed) for seed in range(1, 100_000)], workers=2)
    assert outcome.interrupted, number
    assert left < 0, number
print("ended each time")
"""


def test_ctrl_c_while_a_lock_is_taken_ends_the_runs(scenario_file: Path) -> None:
    """What Python raises there leaves the lock taken: the other threads, and with them the run, waited on."""
    words = [sys.executable, "-c", PRESSED_WITH_A_LOCK, str(scenario_file)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60.0)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended each time\n", "")


@pytest.mark.parametrize("pressed_at", [1, 2, 3])
def test_work_in_order_ends_by_ctrl_c(pressed_at: int) -> None:
    """What waits is not begun, what runs is told to end, and what came before is there."""
    over, begun, results = threading.Event(), [], []

    def work(item: int) -> int:
        begun.append(item)
        if item == pressed_at:
            os.kill(os.getpid(), signal.SIGINT)
        if item >= pressed_at:
            over.wait(30.0)
        return item * item

    with pytest.raises(KeyboardInterrupt):
        results.extend(threads.in_order(work, range(1000), 2, over.set))
    # How many depends on when the first looked.
    assert results == [item * item for item in range(len(results))]
    assert len(results) <= pressed_at
    assert over.is_set()
    assert len(begun) < 10


def test_work_that_does_not_end_can_be_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """By another Ctrl-C, some time after the first."""
    monkeypatch.setattr(threads, "PATIENCE_S", 0.2)
    over, begun = threading.Event(), threading.Event()

    def work(_: int) -> None:
        begun.set()
        over.wait(60.0)

    def press() -> None:
        begun.wait(60.0)
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1.0)

    pressing = threading.Thread(target=press, daemon=True)
    pressing.start()
    with pytest.raises(KeyboardInterrupt):
        list(threads.in_order(work, [1], 1))
    over.set()
    pressing.join()


def test_all_signals_are_delivered_and_handlers_return() -> None:
    """Two that came together; and one whose handler raises while the others are given back."""
    came: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: came.append(number))
    try:
        with threads.signals_held() as signals:
            signals.take(signal.SIGINT, None)
            signals.take(signal.SIGTERM, None)
            with pytest.raises(KeyboardInterrupt):
                signals.deliver()
        assert came == [signal.SIGTERM]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        # A handler that was not given back passes on what it gets.
        signals.take(signal.SIGTERM, None)
        assert came == [signal.SIGTERM] * 2
    finally:
        signal.signal(signal.SIGTERM, before)


def test_work_in_order_raises_what_a_thread_raised() -> None:
    def work(item: int) -> float:
        return 1 / item

    results = threads.in_order(work, [2, 4, 0, 8], 2)
    assert [next(results), next(results)] == [0.5, 0.25]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_signals_that_are_held_back_are_delivered_in_order() -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: came.append(number))
    try:
        with threads.signals_held() as signals:
            os.kill(os.getpid(), signal.SIGTERM)
            assert came == []
            signals.deliver()
            assert came == [signal.SIGTERM]
            os.kill(os.getpid(), signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                signals.deliver()
        os.kill(os.getpid(), signal.SIGTERM)
        assert came == [signal.SIGTERM] * 2
    finally:
        signal.signal(signal.SIGTERM, before)


def test_ctrl_c_while_importing_leaves_no_stack_trace() -> None:
    """The import of the command is where Ctrl-C comes: the same moment each time."""
    script = (
        "import builtins\n"
        "import lasthop.__main__ as start\n"
        "real = builtins.__import__\n"
        "def interrupted(name, *arguments, **options):\n"
        "    if name == 'typer':\n"
        "        raise KeyboardInterrupt\n"
        "    return real(name, *arguments, **options)\n"
        "builtins.__import__ = interrupted\n"
        "start.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_ctrl_c_inside_an_import_ends_at_once() -> None:
    """Where an exception would be hidden or wrapped: class bodies, callbacks of the garbage collector."""
    script = (
        "import builtins, os, signal\n"
        "import lasthop.__main__ as start\n"
        "real = builtins.__import__\n"
        "def interrupted(name, *arguments, **options):\n"
        "    if name == 'typer':\n"
        "        try:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "        except BaseException:\n"
        "            raise RuntimeError('hidden') from None\n"
        "    return real(name, *arguments, **options)\n"
        "builtins.__import__ = interrupted\n"
        "start.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


@pytest.mark.parametrize("again_s", [0, terminal.AGAIN_S])
def test_ctrl_c_inside_a_callback_is_not_lost(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, again_s: float
) -> None:
    """Where Python can raise nothing, and would say where it was and go on, however long it stays there."""
    monkeypatch.setattr(terminal, "AGAIN_S", again_s)

    class Interrupted:
        def __del__(self) -> None:
            raise KeyboardInterrupt

    lost: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    terminal.heed_lost_interrupts()
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        Interrupted()
        time.sleep(10)
    assert (lost, capsys.readouterr().err) == ([], "")


def test_a_long_run_says_how_far_it_is_without_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
    with progress.shown_progress("seeds") as observer:
        lh.run_seeds(lh.Scenario(lh.EXAMPLE), [1], observer=observer)
    assert re.search(r"^1/1 seeds  100 %  0:00 left", capsys.readouterr().err, re.MULTILINE)


def test_the_exception_carries_what_has_finished() -> None:
    seen: list[runner.Snapshot] = []

    def observer(snapshot: runner.Snapshot) -> None:
        seen.append(snapshot)
        if snapshot.runs_finished >= 3:
            raise KeyboardInterrupt

    scenario = lh.Scenario(lh.EXAMPLE).replace({"duration": "300 s"})
    with pytest.raises(lh.Interrupted, match=r"^interrupted: \d+ of 2000 seeds finished$") as caught:
        lh.run_seeds(scenario, range(2000), observer=observer)
    assert caught.value.finished is not None
    assert 3 <= len(caught.value.finished) < 2000
    last = seen[-1]
    assert 0 < last.simulated_s < last.simulated_total_s == 600_000
    assert last.packet_hops > 0
    assert last.remaining_s is not None


def test_a_seed_that_passes_a_limit_is_named(
    start: Callable[..., subprocess.Popen[str]], scenario_file: Path, tmp_path: Path
) -> None:
    arguments = ("--seed", "5", "--set", "limits.events=1000", "--out", tmp_path / "out")
    # A short run is over by the time that its events are counted: it is not said to have stopped at its end.
    short, long = (
        "took [0-9]+ events, and its limit is 1000",
        "passed its limit of 1000 events at .* of 900 s simulated",
    )
    for duration, what in (("10 s", short), ("900 s", long)):
        process = start("run", scenario_file, *arguments, "--set", f"duration={duration}")
        printed, message = process.communicate(timeout=60)
        assert process.returncode == 1
        assert printed == ""
        remedy = "raise limits.events, or shorten duration or the number of flows"
        assert re.fullmatch(f"error: seed 5: the run {what}: {remedy}\n", message), message


def test_jobs_limits_how_many_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    active, most = set[Any](), [0]
    native_run = _native.run

    def counting_run(*arguments: Any, **options: Any) -> Any:
        key = object()
        active.add(key)
        most[0] = max(most[0], len(active))
        try:
            return native_run(*arguments, **options)
        finally:
            active.remove(key)

    monkeypatch.setattr("lasthop.runner._native.run", counting_run)
    runs = lh.run_seeds(lh.Scenario(lh.EXAMPLE), range(20), jobs=1)
    assert (len(runs), most[0]) == (20, 1)
