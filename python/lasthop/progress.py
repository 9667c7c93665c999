"""Progress of a batch of runs on stderr: simulated time, speed, time left. Used by the command line only."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from lasthop.quantities import number_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.live import Live

    from lasthop.runner import Snapshot

#: Shorter batches show nothing.
QUIET_S = 1.0
BAR_WIDTH = 20
#: Without a terminal, a plain line comes as often as this.
LINE_EVERY_S = 10.0


@contextmanager
def shown_progress(
    what: str, line: Callable[[str, Snapshot], str] | None = None
) -> Iterator[Callable[[Snapshot], None] | None]:
    """Give an observer that draws a progress line after a second, made by `line`.

    If stderr is no terminal it prints a plain line every ten seconds, for the logs of long jobs.
    """
    if not sys.stderr.isatty():
        yield _Lines(what, line or progress_line).update
        return
    display = _Display(what, line or progress_line)
    try:
        yield display.update
    finally:
        display.close()


@contextmanager
def shown_count(what: str) -> Iterator[Callable[[int, int, str], None]]:
    """Give a function that is told how many things are done, of how many, and what else there is to say.

    A line on a terminal; elsewhere a plain one every ten seconds.
    """
    terminal = sys.stderr.isatty()
    begin = last = time.monotonic()

    def update(done: int, total: int, more: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - begin < QUIET_S or (not terminal and now - last < LINE_EVERY_S):
            return
        last = now
        text = f"{what}: {done} of {total}{', ' if more else ''}{more}"
        with suppress(OSError):
            print(
                f"\r{text:<70}" if terminal else text,
                end="" if terminal else "\n",
                file=sys.stderr,
                flush=True,
            )

    try:
        yield update
    finally:
        if terminal:
            with suppress(OSError):
                print(f"\r{'':<70}\r", end="", file=sys.stderr, flush=True)


class _Lines:
    def __init__(self, what: str, line: Callable[[str, Snapshot], str]) -> None:
        self._what, self._line = what, line
        self._last = time.monotonic()

    def update(self, snapshot: Snapshot) -> None:
        if time.monotonic() - self._last < LINE_EVERY_S:
            return
        self._last = time.monotonic()
        # A reader that has closed the pipe does not want it; the runs continue.
        with suppress(OSError):
            print(self._line(self._what, snapshot), file=sys.stderr, flush=True)


class _Display:
    def __init__(self, what: str, line: Callable[[str, Snapshot], str]) -> None:
        self._what, self._line = what, line
        self._live: Live | None = None

    def update(self, snapshot: Snapshot) -> None:
        # A terminal that was closed shows nothing; what was run is kept all the same.
        if snapshot.elapsed_s >= QUIET_S:
            with suppress(OSError):
                self._draw(snapshot)

    def _draw(self, snapshot: Snapshot) -> None:
        # rich is imported here so that short runs do without it.
        from rich.columns import Columns
        from rich.console import Console
        from rich.live import Live
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        if self._live is None:
            self._live = Live(console=Console(stderr=True), transient=True, auto_refresh=False)
            self._live.start()
        bar = ProgressBar(snapshot.simulated_total_s, snapshot.simulated_s, width=BAR_WIDTH)
        line = Text(self._line(self._what, snapshot), no_wrap=True, overflow="ellipsis")
        wide_enough = self._live.console.width > BAR_WIDTH + 1 + line.cell_len
        self._live.update(Columns([bar, line]) if wide_enough else line, refresh=True)

    def close(self) -> None:
        if self._live is not None:
            with suppress(OSError):
                self._live.stop()


def progress_line(what: str, snapshot: Snapshot) -> str:
    """Return the line.

    Examples
    --------
    >>> from lasthop.runner import Snapshot
    >>> progress_line("seeds", Snapshot(3, 10, 204.0, 600.0, 9_000_000, 2.0))
    '3/10 seeds  34 %  0:04 left  102x real time  4.50 M packet-hops/s  204/600 s simulated'
    """
    # The last ones are cut off first in a narrow terminal.
    return "  ".join(
        (
            *_how_far(what, snapshot, snapshot.remaining_s),
            f"{number_text(snapshot.realtime_ratio, 3)}x real time",
            f"{snapshot.packet_hops_per_s / 1e6:,.2f} M packet-hops/s",
            f"{snapshot.simulated_s:,.0f}/{snapshot.simulated_total_s:,.0f} s simulated",
        )
    )


def emulated_line(what: str, snapshot: Snapshot) -> str:
    """Return the line of live runs, which take the time that they take.

    Examples
    --------
    >>> from lasthop.runner import Snapshot
    >>> emulated_line("runs", Snapshot(3, 10, 204.0, 600.0, 9_000, 204.0))
    '3/10 runs  34 %  6:36 left  204/600 s emulated  9,000 packet-hops'
    """
    return "  ".join(
        (
            *_how_far(what, snapshot, snapshot.simulated_total_s - snapshot.simulated_s),
            f"{snapshot.simulated_s:,.0f}/{snapshot.simulated_total_s:,.0f} s emulated",
            f"{snapshot.packet_hops:,} packet-hops",
        )
    )


def _how_far(what: str, snapshot: Snapshot, left_s: float | None) -> tuple[str, str, str]:
    """Return runs, share and time left, as every line begins."""
    share = snapshot.simulated_s / snapshot.simulated_total_s if snapshot.simulated_total_s else 0.0
    return (
        f"{snapshot.runs_finished}/{snapshot.runs_total} {what}",
        f"{share:.0%}".replace("%", " %"),
        f"{_clock(left_s)} left",
    )


def _clock(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
