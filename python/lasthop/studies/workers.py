"""Makes the runs of a study on the cores of this machine; `cluster` does so elsewhere.

Called by `execute`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lasthop.results import NativeTables
from lasthop.runner import SUMMARIES, Delivery, Job, Snapshot, stream_jobs
from lasthop.studies.plan import Task, kept_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lasthop.studies.store import Entry


class Workers:
    """Makes runs on the cores of this machine."""

    def __init__(self, jobs: int | None, observer: Callable[[Snapshot], None] | None) -> None:
        self._jobs = jobs
        self._observer = observer

    def work(self, tasks: Sequence[Task], deliver: Callable[[list[tuple[Task, Entry]]], None]) -> bool:
        """Make every run, handing on what has finished; return whether Ctrl-C came."""

        def hand_on(deliveries: list[Delivery]) -> None:
            deliver([(tasks[one.index], _entry(tasks[one.index], one)) for one in deliveries])

        return stream_jobs(
            [Job(task.setup.plan, task.seed, task.series, task.trace, task.frames) for task in tasks],
            hand_on,
            workers=self._jobs,
            observer=self._observer,
        )


def _entry(task: Task, delivery: Delivery) -> Entry:
    if delivery.finished is None:
        return task.entry(None, {}, delivery.error)
    tables = NativeTables(delivery.finished.native, delivery.finished.summaries)
    measured = {name: table for name in SUMMARIES if (table := tables.summary(name)) is not None}
    return task.entry(measured, kept_tables(task.keep, tables.table))
