"""Runs many (plan, seed) pairs on a pool of threads, watches them, and stops them in good order.

The native module releases the GIL, so threads use all cores; only senders written in Python take turns.
Called by `lasthop.api` and `lasthop.studies`; does not use a terminal: a caller that shows progress
passes an observer.
"""

from __future__ import annotations

import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lasthop import _native
from lasthop.errors import ScenarioError
from lasthop.spool import Spool
from lasthop.threads import POLL_INTERVAL_S, end, signals_held

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

#: No further run begins while this many rows of large tables wait to be handed on; each is some 100 bytes.
ROWS_HELD_MAX = 300_000
#: Tables of what a run measured.
SUMMARIES = ("runs", "flows", "links")


@dataclass(frozen=True, slots=True)
class Job:
    """One run to make; `series` and `trace` ask for its large tables, `frames` for the largest of them."""

    plan: _native.Plan
    seed: int
    series: bool = False
    trace: bool = False
    frames: bool = True


@dataclass(frozen=True, slots=True)
class Snapshot:
    """How far a batch is."""

    runs_finished: int
    runs_total: int
    simulated_s: float
    simulated_total_s: float
    packet_hops: int
    elapsed_s: float

    @property
    def realtime_ratio(self) -> float:
        """Simulated seconds per second on the wall, all runs together."""
        return self.simulated_s / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def packet_hops_per_s(self) -> float:
        """Packet-hops per second on the wall."""
        return self.packet_hops / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def remaining_s(self) -> float | None:
        """Wall-clock time left if the rest goes on at this pace; `None` before anything moved."""
        if self.simulated_s <= 0:
            return None
        return max(0.0, self.simulated_total_s - self.simulated_s) / self.realtime_ratio


@dataclass(slots=True)
class Finished:
    """A finished run: what it measured, and the native result if it carries series or a trace.

    Attributes
    ----------
    text : str
        What it measured, as JSON.
    summaries : dict
        The same as tables: ``runs``, ``flows`` and ``links``.
    packet_hops : int
        The amount of work.
    native : RunResult or None
        Where the large tables are, if they are in memory.
    spool : Spool or None
        The same, if they are in files.
    """

    text: str
    summaries: dict[str, _native.ArrowTable]
    packet_hops: int
    native: _native.RunResult | None
    spool: Spool | None = None

    @property
    def record(self) -> dict[str, Any]:
        """What it measured, as the JSON object of a run."""
        content: dict[str, Any] = json.loads(self.text)
        return content


def finished_of(result: _native.RunResult, *, keep_native: bool) -> Finished:
    """Return what is kept of a run."""
    summaries = {name: table for name in SUMMARIES if (table := result.table(name)) is not None}
    return Finished(result.to_json(), summaries, result.packet_hops, result if keep_native else None)


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of one job of a batch that goes on after failures: a result, or the error's text."""

    index: int
    finished: Finished | None
    error: str | None = None


@dataclass(slots=True)
class Outcome:
    """What became of a batch; `results` has one place per job, `None` where a job did not finish."""

    results: list[Finished | None]
    interrupted: bool = False
    failure: str | None = None
    #: The exception of a sender written in Python that was the failure.
    cause: BaseException | None = None


@dataclass(slots=True)
class _Batch:
    jobs: Sequence[Job]
    series: bool
    trace: bool
    results: list[Finished | None]
    #: Where large tables are written while runs go on; kept in memory if nowhere.
    spool: Path | None = None
    #: Where packets are captured, into files of the spool.
    capture_at: Sequence[str] = ()
    #: Whether results are handed on as they come, failures among them, instead of being gathered.
    streaming: bool = False
    delivered: list[Delivery] = field(default_factory=list)
    failure: str | None = None
    cause: BaseException | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    lock: threading.Condition = field(default_factory=threading.Condition)
    running: dict[int, _native.Progress] = field(default_factory=dict)
    next_job: int = 0
    runs_finished: int = 0
    simulated_finished_s: float = 0.0
    packet_hops_finished: int = 0
    #: Rows of large tables that have been made and not been handed on.
    rows_held: int = 0

    def take(self) -> tuple[int, _native.Progress] | None:
        with self.lock:
            # Writing them may be slower than making them.
            self.lock.wait_for(lambda: self.stop.is_set() or self.rows_held < ROWS_HELD_MAX)
            if self.stop.is_set() or self.next_job >= len(self.jobs):
                return None
            index = self.next_job
            self.next_job += 1
            self.running[index] = _native.Progress()
            return index, self.running[index]

    def work(self) -> None:
        """Body of each thread: take jobs until none is left or the batch is stopped."""
        while (taken := self.take()) is not None:
            index, progress = taken
            job = self.jobs[index]
            series, trace = self.series or job.series, self.trace or job.trace
            spool = None
            try:
                if self.spool is not None and (series or trace or self.capture_at):
                    spool = Spool(self.spool, self.capture_at)
                result = _native.run(
                    job.plan,
                    job.seed,
                    series=series,
                    trace=trace,
                    frames=trace and job.frames,
                    progress=progress,
                    spool=None if spool is None else spool.folder,
                    captures=[] if spool is None else list(spool.captures.items()),
                )
            except BaseException as error:
                if spool is not None:
                    spool.discard()
                if isinstance(error, _native.Interrupted):
                    return
                if isinstance(error, _native.ScenarioError):
                    # Nothing has run: the scenario is not for this build.
                    raise ScenarioError(str(error)) from None
                if not isinstance(error, _native.RunError):
                    raise
                if not self.streaming:
                    self.fail(f"seed {job.seed}: {error}", error.__cause__)
                    return
                self.deliver(job, Delivery(index, None, str(error)), 0)
                continue
            finally:
                with self.lock:
                    del self.running[index]
            finished = finished_of(result, keep_native=spool is None and (series or trace))
            finished.spool = spool
            self.deliver(job, Delivery(index, finished), finished.packet_hops)

    def deliver(self, job: Job, delivery: Delivery, packet_hops: int) -> None:
        with self.lock:
            if self.streaming:
                self.delivered.append(delivery)
                self.rows_held += _rows_of(delivery)
            else:
                self.results[delivery.index] = delivery.finished
            self.runs_finished += 1
            self.simulated_finished_s += job.plan.duration_s
            self.packet_hops_finished += packet_hops

    def hand_on(self, take: Callable[[list[Delivery]], None]) -> None:
        """Give what has finished since the last call; if Ctrl-C comes meanwhile, keep it for the next."""
        with self.lock:
            delivered, self.delivered = self.delivered, []
        try:
            if delivered:
                take(delivered)
        except KeyboardInterrupt:
            with self.lock:
                self.delivered = delivered + self.delivered
            raise
        with self.lock:
            self.rows_held -= sum(map(_rows_of, delivered))
            self.lock.notify_all()

    def fail(self, message: str, cause: BaseException | None) -> None:
        with self.lock:
            if self.failure is None:
                self.failure, self.cause = message, cause
        self.cancel()

    def cancel(self) -> None:
        with self.lock:
            self.stop.set()
            self.lock.notify_all()
            for progress in self.running.values():
                progress.cancel()

    def snapshot(self, simulated_total_s: float, elapsed_s: float) -> Snapshot:
        with self.lock:
            running = list(self.running.values())
            return Snapshot(
                runs_finished=self.runs_finished,
                runs_total=len(self.jobs),
                simulated_s=self.simulated_finished_s + sum(one.simulated_s for one in running),
                simulated_total_s=simulated_total_s,
                packet_hops=self.packet_hops_finished + sum(one.packet_hops for one in running),
                elapsed_s=elapsed_s,
            )


def _rows_of(delivery: Delivery) -> int:
    if delivery.finished is None or delivery.finished.native is None:
        return 0
    return delivery.finished.native.rows_kept


def available_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_jobs(
    jobs: Sequence[Job],
    *,
    series: bool = False,
    trace: bool = False,
    workers: int | None = None,
    observer: Callable[[Snapshot], None] | None = None,
    spool: Path | None = None,
    capture_at: Sequence[str] = (),
) -> Outcome:
    """Run every job; after Ctrl-C or the first failure, stop what runs and keep what is finished."""
    batch = _Batch(jobs, series, trace, [None] * len(jobs), spool, capture_at)
    interrupted = _work_through(batch, workers, observer, None)
    return Outcome(batch.results, interrupted, batch.failure, batch.cause)


def stream_jobs(
    jobs: Sequence[Job],
    deliver: Callable[[list[Delivery]], None],
    *,
    workers: int | None = None,
    observer: Callable[[Snapshot], None] | None = None,
) -> bool:
    """Run every job and hand on about ten times a second what has finished; return whether Ctrl-C came.

    A run that fails is handed on too, and the others go on. What `deliver` raises stops what runs.
    """
    batch = _Batch(jobs, series=False, trace=False, results=[], streaming=True)
    return _work_through(batch, workers, observer, deliver)


def _work_through(
    batch: _Batch,
    workers: int | None,
    observer: Callable[[Snapshot], None] | None,
    deliver: Callable[[list[Delivery]], None] | None,
) -> bool:
    """Work on a batch until it is done or stopped; return whether it was interrupted."""
    jobs = batch.jobs
    threads = max(1, min(workers or available_cores(), len(jobs)))
    simulated_total_s = sum(job.plan.duration_s for job in jobs)
    started = time.monotonic()
    interrupted = False
    failure: BaseException | None = None
    try:
        with signals_held() as signals:
            pool = ThreadPoolExecutor(threads, thread_name_prefix="lasthop")
            # The main thread never enters the native module: only so does Ctrl-C reach it at once.
            pending = running = {pool.submit(batch.work) for _ in range(threads)}
            try:
                while pending:
                    done, pending = wait(pending, timeout=POLL_INTERVAL_S)
                    for future in done:
                        future.result()
                    if deliver is not None:
                        batch.hand_on(deliver)
                    if observer is not None:
                        observer(batch.snapshot(simulated_total_s, time.monotonic() - started))
                    signals.deliver()
            except KeyboardInterrupt:
                interrupted = True
            except BaseException as error:  # noqa: BLE001 - it is raised below
                # Also if Ctrl-C comes while the others end.
                failure = error
            end(pool, running, batch.cancel, signals)
    except KeyboardInterrupt:
        interrupted = True
    if failure is not None:
        raise failure
    if deliver is not None:
        batch.hand_on(deliver)
    # All were done when the interruption came: then there is nothing to report.
    return interrupted and batch.runs_finished < len(jobs)
