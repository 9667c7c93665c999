"""Threads beside a main thread to which Ctrl-C may come at any time.

Python raises what a handler of a signal raises wherever the main thread is. Inside `threading` and
`concurrent.futures` that may be between taking a lock and entering the block that gives it back: the other
threads then wait for it for ever. So signals are held back there, and delivered where no lock is held.
"""

from __future__ import annotations

import signal
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from types import FrameType

T = TypeVar("T")
U = TypeVar("U")

#: Those that ask a command to end.
HELD = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
#: How long a main thread waits before it looks for signals, in seconds.
POLL_INTERVAL_S = 0.1
#: For how long work may take to end before another signal leaves it alone, in seconds.
PATIENCE_S = 2.0


class Signals:
    """Signals that are held back."""

    def __init__(self) -> None:
        self._came: list[tuple[int, FrameType | None]] = []
        self.handlers: dict[int, Callable[[int, FrameType | None], object]] = {}
        #: They are no longer held back: what still comes here goes on to its handler.
        self.released = False

    def take(self, number: int, frame: FrameType | None) -> None:
        """Keep one; the handler of all of them meanwhile."""
        if self.released:
            self.handlers[number](number, frame)
        else:
            self._came.append((number, frame))

    def deliver(self) -> None:
        """Call the handlers of those that came, in this order.

        Raises
        ------
        KeyboardInterrupt
            Or whatever else the first of them raises that raises something; all are called.
        """
        raised: BaseException | None = None
        while self._came:
            number, frame = self._came.pop(0)
            try:
                self.handlers[number](number, frame)
            except BaseException as error:  # noqa: BLE001 - it is raised below
                raised = raised or error
        if raised is not None:
            raise raised


@contextmanager
def signals_held() -> Iterator[Signals]:
    """Hold Ctrl-C, SIGTERM and SIGHUP back; what came and was not delivered is delivered at the end.

    Those that have no handler in Python act as ever. Outside of the main thread nothing is held back, because
    handlers never run there.
    """
    signals = Signals()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    try:
        for number in HELD:
            handler = signal.getsignal(number)
            if callable(handler):
                signals.handlers[number] = handler
                signal.signal(number, signals.take)
        yield signals
    finally:
        # One may come between these lines whose handler raises: what is not given back passes on what comes.
        signals.released = True
        for number, handler in signals.handlers.items():
            signal.signal(number, handler)
        signals.deliver()


def end(
    pool: ThreadPoolExecutor,
    running: Iterable[Future[Any]],
    cancel: Callable[[], object],
    signals: Signals,
) -> None:
    """Drop what waits in a pool, ask what it runs to end, and wait until it has.

    What does not end can be left by another signal after `PATIENCE_S`; that of a closed terminal comes twice.
    """
    # In this order: what ends makes room for what waits.
    pool.shutdown(wait=False, cancel_futures=True)
    cancel()
    begin = time.monotonic()
    # One that was dropped counts as ended for all but `wait`.
    pending = {future for future in running if not future.cancelled()}
    while pending:
        _, pending = wait(pending, POLL_INTERVAL_S)
        if time.monotonic() - begin > PATIENCE_S:
            signals.deliver()


def in_order(
    work: Callable[[T], U],
    items: Sequence[T],
    at_once: int,
    cancel: Callable[[], object] = lambda: None,
) -> Generator[U, None, None]:
    """Work on items in threads, and yield the results in the order of the items.

    Parameters
    ----------
    work : callable
        What is done with each item. What it raises is raised here.
    items : sequence
        What there is to do.
    at_once : int
        Number of threads.
    cancel : callable
        Asks what runs to end; called when this is left, by Ctrl-C too. Items that wait are then not begun.
    """
    pool = ThreadPoolExecutor(at_once)
    futures: list[Future[U]] = []
    try:
        with signals_held():
            futures = [pool.submit(work, item) for item in items]
            futures.reverse()
        while futures:
            with signals_held() as signals:
                while not futures[-1].done():
                    wait(futures[-1:], POLL_INTERVAL_S)
                    signals.deliver()
                result = futures.pop().result()
            yield result
    finally:
        with signals_held() as signals:
            end(pool, futures, cancel, signals)
