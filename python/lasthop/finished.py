"""What became of a batch of runs: those that finished, what ended it early, what hosts learnt.

Called by `lasthop.api` and by comparisons, after `lasthop.runner`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lasthop import _native
from lasthop.errors import Interrupted, OutputError, RunError
from lasthop.results import NativeTables, Run, Runs
from lasthop.spool import SpooledTables

if TYPE_CHECKING:
    from lasthop.runner import Outcome
    from lasthop.scenario import Scenario


def collect(scenario: Scenario, outcome: Outcome) -> list[Run]:
    """Return the finished runs of a batch."""
    content = scenario.to_dict()
    return [
        Run(
            result.record,
            content,
            _native.__version__,
            NativeTables(result.native, result.summaries)
            if result.spool is None
            else SpooledTables(result.spool, result.summaries),
        )
        for result in outcome.results
        if result is not None
    ]


def add_to_history(scenario: Scenario, finished: list[Run]) -> None:
    """Write what finished runs learnt into the history file of the scenario, in one transaction."""
    file = scenario.history_file
    if file is None or not finished:
        return
    from lasthop import history

    try:
        history.add(file, history.from_records(run.record for run in finished))
    except OutputError as error:
        # The runs themselves are whole: the caller still gets them.
        failed = RunError(f"the runs are complete, but their history was not kept: {error}")
        failed.finished = Runs(finished)
        raise failed from None


def raise_if_ended_early(outcome: Outcome, finished: list[Run], so_far: str) -> None:
    """Raise what ended a batch early, carrying the runs that had finished."""
    if outcome.failure is None and not outcome.interrupted:
        return
    error = (
        RunError(outcome.failure) if outcome.failure is not None else Interrupted(f"interrupted: {so_far}")
    )
    error.finished = Runs(finished) if finished else None
    raise error from outcome.cause
