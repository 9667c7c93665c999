"""Runs studies: finds what a folder lacks, makes it on all cores, a shard of it or a cluster, and folds it.

Called by `lasthop.studies.run`, `run_many` and the command ``lasthop study run``. What a run is, and where it
is kept, is settled in `plan` and `store`.
"""

from __future__ import annotations

import itertools
import math
import re
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lasthop import _native
from lasthop.columns import matching
from lasthop.errors import ArgumentError, Interrupted, OutputError, RunError
from lasthop.places import refuse_other
from lasthop.studies import folder as folders
from lasthop.studies.locks import forget
from lasthop.studies.plan import Cell, Task, cells_of, tasks_of
from lasthop.studies.store import Entry, Store, engine_build, opened
from lasthop.studies.table import Row, evaluate, explain_absent, tidy
from lasthop.studies.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lasthop.columns import Metric
    from lasthop.runner import Snapshot
    from lasthop.studies.folder import StudyResult
    from lasthop.studies.locks import Shard
    from lasthop.studies.study import Study

#: Seeds that a point may reach with `Until`.
SEEDS_MAX = 100


@dataclass(frozen=True, slots=True)
class Until:
    """When a point has seeds enough: its interval is within a share of its mean.

    Attributes
    ----------
    metric : str
        Name of a metric, with or without its unit, or how it begins.
    share : float
        Half the width of the 95 % interval over the mean.
    """

    metric: str
    share: float

    @classmethod
    def parse(cls, text: str) -> Until:
        """Read ``METRIC SHARE%``.

        Examples
        --------
        >>> Until.parse("goodput 2%")
        Until(metric='goodput', share=0.02)
        >>> Until.parse("goodput")
        Traceback (most recent call last):
        lasthop.errors.ArgumentError: bad --until 'goodput': write a metric and a share, such as "goodput 2%"
        """
        match = re.fullmatch(r"\s*(\S+)\s+(\d+(?:\.\d+)?)\s*%\s*", text)
        if match is None or float(match[2]) <= 0:
            raise ArgumentError(f"bad --until '{text}': write a metric and a share, such as \"goodput 2%\"")
        return cls(match[1], float(match[2]) / 100)

    def metric_of(self, study: Study) -> Metric:
        """Return the metric of the study that is meant."""
        names = [metric.name for metric in study.metrics]
        found = matching(self.metric, names)
        if len(found) != 1:
            what = "begins several metrics" if found else "is no metric of the study"
            raise ArgumentError(f"--until: {self.metric!r} {what}; its metrics are {', '.join(names)}")
        return study.metrics[names.index(found[0])]


@dataclass(slots=True)
class Campaign:
    """Studies on their way into one folder."""

    folder: Path
    studies: list[Study]
    #: Whether the folder belongs to the one study, or may hold many.
    single: bool
    #: For each study its points; for each point its seeds, which `Until` may add to.
    cells: dict[str, list[Cell]]
    until: Until | None = None
    seeds_max: int = SEEDS_MAX
    #: For each study the points that `Until` gave up, with the reason.
    unmet: dict[str, list[str]] = field(default_factory=dict)

    def tasks(self) -> dict[str, Task]:
        """Return every distinct run, those with one seed beside each other."""
        return tasks_of([(study, self.cells[study.name]) for study in self.studies])

    def rows(self, study: Study) -> list[Row]:
        """Return the runs that a study asks for."""
        return [
            Row(cell.point.settings, seed, cell.setup.identity(seed))
            for cell in self.cells[study.name]
            for seed in cell.seeds
        ]


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a folder holds of what is wanted."""

    wanted: int
    done: int
    failed: int
    #: Runs of other points or seeds.
    others: int

    @property
    def missing(self) -> int:
        """Runs to be made, failed ones among them."""
        return self.wanted - self.done


def run(  # noqa: PLR0913 - all but two are keywords
    study: Study,
    folder: str | Path,
    *,
    jobs: int | None = None,
    seeds: Iterable[int] | None = None,
    observer: Callable[[Snapshot], None] | None = None,
    keep_going: bool = True,
    resume: bool = True,
    fresh: bool = False,
    shard: Shard | None = None,
    cluster: str | None = None,
    until: Until | str | None = None,
    seeds_max: int = SEEDS_MAX,
    execute: bool = True,
    note: Callable[[str], None] | None = None,
) -> StudyResult:
    """Make what a folder lacks of a study, and return all of it.

    Parameters
    ----------
    study : Study
        What to run.
    folder : path
        Made if need be.
    jobs : int, optional
        How many runs at once; one per core if not given.
    seeds : iterable of int, optional
        Instead of the study's own: those to be made. The table has every further seed that the folder holds.
    observer : callable, optional
        Called about ten times a second with how far the runs are.
    keep_going : bool
        Whether a failed run is kept by name while the others go on; otherwise the first one ends it all.
    resume : bool
        Whether a folder that holds a part of the study may be added to.
    fresh : bool
        Move a folder that holds results aside and begin anew.
    shard : Shard, optional
        Make one share of the runs only; several may be at work in one folder, on any machines.
    cluster : str, optional
        Address of a Dask scheduler that the runs are sent to.
    until : Until or str, optional
        Add seeds to each point until this holds, such as ``"goodput 2%"``.
    seeds_max : int
        Seeds that a point may reach by that.
    execute : bool
        Without it nothing is run: what is there is folded into tables.
    note : callable, optional
        Given sentences worth showing.

    Raises
    ------
    OutputError
        If the folder cannot be used: held by another process, made by another version of the engine,
        damaged, full.
    Interrupted
        After Ctrl-C; what had finished is in the folder.
    RunError
        Without `keep_going`, at the first failed run.

    Examples
    --------
    >>> import lasthop as lh, tempfile
    >>> study = lh.studies.Study.parse({
    ...     "name": "races",
    ...     "scenario": lh.EXAMPLE,
    ...     "seeds": "1-2",
    ...     "metrics": ["goodput_bit_s"],
    ...     "axes": [{"name": "loss", "key": "channel.error.packet_error_rate", "values": [0, 0.01]}],
    ... })
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = lh.studies.run(study, folder)
    >>> result.table.select("loss", "seed", "state").rows()
    [(0.0, 1, 'done'), (0.0, 2, 'done'), (0.01, 1, 'done'), (0.01, 2, 'done')]
    """
    study = study if seeds is None else study.with_seeds(seeds)
    campaign = prepare([study], Path(folder), single=True, until=until, seeds_max=seeds_max)
    return _carry_out(
        campaign,
        jobs=jobs,
        observer=observer,
        keep_going=keep_going,
        resume=resume,
        fresh=fresh,
        shard=shard,
        cluster=cluster,
        execute=execute,
        note=note or _silent,
    )[study.name]


def run_many(  # noqa: PLR0913 - all but two are keywords
    studies: Iterable[Study],
    folder: str | Path,
    *,
    jobs: int | None = None,
    seeds: Iterable[int] | None = None,
    observer: Callable[[Snapshot], None] | None = None,
    keep_going: bool = True,
    resume: bool = True,
    fresh: bool = False,
    shard: Shard | None = None,
    cluster: str | None = None,
    execute: bool = True,
    note: Callable[[str], None] | None = None,
) -> dict[str, StudyResult]:
    """Make what a folder lacks of several studies, every distinct run once; see `run`.

    Returns
    -------
    dict
        The result of each study, by its name.
    """
    chosen = None if seeds is None else list(seeds)
    listed = [study if chosen is None else study.with_seeds(chosen) for study in studies]
    return _carry_out(
        prepare(listed, Path(folder), single=False),
        jobs=jobs,
        observer=observer,
        keep_going=keep_going,
        resume=resume,
        fresh=fresh,
        shard=shard,
        cluster=cluster,
        execute=execute,
        note=note or _silent,
    )


def prepare(
    studies: Sequence[Study],
    folder: Path,
    *,
    single: bool,
    until: Until | str | None = None,
    seeds_max: int = SEEDS_MAX,
) -> Campaign:
    """Parse every point and settle which runs are wanted; touches no folder."""
    names = [study.name for study in studies]
    if not names:
        raise ArgumentError("no study given: at least one is needed")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ArgumentError(f"two studies are called {twice!r}: each needs its own name in one folder")
    until = Until.parse(until) if isinstance(until, str) else until
    if until is not None:
        for study in studies:
            until.metric_of(study)
            if seeds_max < len(study.seeds):
                raise ArgumentError(
                    f"--max-seeds {seeds_max} is below the {len(study.seeds)} seeds of the study: raise it"
                )
    cells = cells_of(studies)
    return Campaign(folder, list(studies), single, cells, until, seeds_max)


def adopt_seeds(campaign: Campaign, store: Store) -> int:
    """Add to each point the further seeds that the folder has of it; return how many runs that is.

    In a folder of several studies they may be another study's: there each has the seeds that it asks for.
    """
    if not campaign.single:
        return 0
    cells = [cell for study in campaign.studies for cell in campaign.cells[study.name]]
    stored = store.runs(["run", "seed"])
    runs = dict(zip(stored["run"], stored["seed"], strict=True))
    for cell in cells:
        for seed in cell.seeds:
            runs.pop(cell.setup.identity(seed), None)
    adopted = 0
    seeds = sorted(set(runs.values()))
    for cell in cells:
        further = [seed for seed in seeds if cell.setup.identity(seed) in runs]
        cell.seeds.extend(further)
        adopted += len(further)
    return adopted


def holdings(campaign: Campaign, store: Store) -> Holdings:
    """Count what a folder holds, without a lock: for a look, not for a decision."""
    tasks = campaign.tasks()
    runs = store.runs(["run", "state", "kept"])
    done = _satisfied(tasks, store)
    failed = {run for run, state in zip(runs["run"], runs["state"], strict=True) if state == "failed"} & set(
        tasks
    )
    return Holdings(len(tasks), len(done), len(failed), len(set(runs["run"]) - set(tasks)))


def _satisfied(tasks: dict[str, Task], store: Store) -> set[str]:
    """Return the wanted runs that are there with all that is to be kept of them."""
    runs = store.runs(["run", "state", "kept"])
    if not runs.height:
        return set()
    return {
        run
        for run, state, kept in zip(runs["run"], runs["state"], runs["kept"], strict=True)
        if state == "done" and run in tasks and {keep.identity for keep in tasks[run].keep} <= set(kept)
    }


def _carry_out(  # noqa: PLR0913 - keywords
    campaign: Campaign,
    *,
    jobs: int | None,
    observer: Callable[[Snapshot], None] | None,
    keep_going: bool,
    resume: bool,
    fresh: bool,
    shard: Shard | None,
    cluster: str | None,
    execute: bool,
    note: Callable[[str], None],
) -> dict[str, StudyResult]:
    if shard is not None and (fresh or campaign.until is not None):
        other = "--fresh" if fresh else "--until"
        raise ArgumentError(f"--shard and {other} exclude each other: a shard knows only its own runs")
    with ExitStack() as stack:
        stack.enter_context(_ctrl_c_explained(campaign.folder))
        # First: where no cluster answers, no folder is made or moved.
        workers = stack.enter_context(_workers(cluster, jobs, observer))
        refuse_other(campaign.folder, "study", "reproduction")
        if fresh:
            _begin_anew(campaign.folder, note)
        store = stack.enter_context(opened(campaign.folder, shard))
        folders.check_made_by_this(campaign, store)
        store.check()
        for sentence in store.clean():
            note(sentence)
        adopted = 0 if campaign.until is not None else adopt_seeds(campaign, store)
        if not (resume or fresh or shard is not None) and execute:
            _refuse_if_begun(campaign, store)
        _mention_other_builds(store, note)
        folders.describe(campaign)
        interrupted = False
        if execute:
            held = holdings(campaign, store)
            if not held.missing and campaign.until is None:
                note(f"nothing to do: all {held.wanted} runs are there")
            make = partial(_make_missing, campaign, store, workers, shard, keep_going=keep_going)
            interrupted = make()
            while not interrupted and _add_seeds(campaign, store):
                interrupted = make()
            if campaign.until is not None:
                # Not before: how many seeds a point gets may not depend on what an earlier command left.
                adopted = adopt_seeds(campaign, store)
                interrupted = interrupted or make()
        if adopted and shard is None:
            note(f"the table has {adopted} further runs, with seeds that were asked for before")
        store.compact()
        return _fold(campaign, store, shard, interrupted=interrupted)


@contextmanager
def _ctrl_c_explained(folder: Path) -> Iterator[None]:
    """Say what became of the runs if Ctrl-C comes while none is being made, or comes twice."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted: what had finished is in {folder}; --resume makes the others"
        ) from None


def _fold(
    campaign: Campaign, store: Store, shard: Shard | None, *, interrupted: bool
) -> dict[str, StudyResult]:
    """Write the tables and read them back as results."""
    results: dict[str, StudyResult] = {}
    unknown = None
    for study in campaign.studies:
        table, absent = tidy(study, campaign.rows(study), store)
        if shard is None:
            folders.write_table_of(campaign, study, table)
        if absent and unknown is None:
            unknown = explain_absent(study, absent)
        results[study.name] = folders.result_of(campaign, study, table)
    if interrupted:
        tasks = campaign.tasks()
        mine = [run for run in tasks if shard is None or shard.holds(run)]
        done = len(_satisfied({run: tasks[run] for run in mine}, store))
        raise Interrupted(
            f"interrupted: {done} of {len(mine)} runs are in {campaign.folder}; --resume makes the others"
        )
    if unknown is not None:
        raise unknown
    return results


def _make_missing(
    campaign: Campaign, store: Store, workers: Workers, shard: Shard | None, *, keep_going: bool
) -> bool:
    """Make the runs that the folder lacks and store them as they finish; return whether Ctrl-C came."""
    tasks = campaign.tasks()
    there = _satisfied(tasks, store)
    missing = [
        task for run, task in tasks.items() if run not in there and (shard is None or shard.holds(run))
    ]
    if not missing:
        return False

    def deliver(finished: list[tuple[Task, Entry]]) -> None:
        store.append([entry for _, entry in finished])
        failed = next(((task, entry) for task, entry in finished if entry.error is not None), None)
        if failed is not None and not keep_going:
            raise RunError(f"{failed[0].text}: {failed[1].error}")

    return workers.work(missing, deliver)


def _workers(
    cluster: str | None, jobs: int | None, observer: Callable[[Snapshot], None] | None
) -> AbstractContextManager[Workers]:
    if cluster is None:
        return nullcontext(Workers(jobs, observer))
    from lasthop.studies.cluster import connected

    return connected(cluster, observer)


def _add_seeds(campaign: Campaign, store: Store) -> bool:
    """Add seeds to the points that need more; return whether there are any."""
    if campaign.until is None:
        return False
    added = False
    for study in campaign.studies:
        metric = campaign.until.metric_of(study)
        rows = campaign.rows(study)
        values, _ = evaluate(study, [metric], store, [row.run for row in rows])
        by_run = values[metric.name]
        unmet = []
        for cell in campaign.cells[study.name]:
            found = [by_run.get(cell.setup.identity(seed)) for seed in cell.seeds]
            wanted, why = _seeds_wanted(found, campaign.until.share, campaign.seeds_max)
            if why:
                unmet.append(f"{cell.point.text}: {why}")
            if wanted > len(cell.seeds):
                following = itertools.count(max(cell.seeds) + 1)
                cell.seeds.extend(itertools.islice(following, wanted - len(cell.seeds)))
                added = True
        campaign.unmet[study.name] = unmet
    return added


def _seeds_wanted(values: Sequence[float | None], share: float, most: int) -> tuple[int, str]:
    """Return how many seeds a point should have next, and why it will never have enough, if so.

    Examples
    --------
    >>> _seeds_wanted([1.0, 1.001, 0.999], 0.01, 100)
    (3, '')
    >>> _seeds_wanted([1.0, 2.0, 3.0], 0.1, 100)
    (6, '')
    >>> _seeds_wanted([1.0, 2.0, 3.0], 0.1, 3)
    (3, '± 124 % of the mean with 3 seeds')
    """
    from lasthop import stats

    count = len(values)
    estimate = stats.estimate(values)
    if estimate is None:
        return count, "no run has a value"
    if estimate.half_width is None:
        return (min(most, 2 * count), "") if count < most else (count, "one value has no interval")
    if estimate.half_width == 0:
        return count, ""
    reached = estimate.half_width / abs(estimate.mean) if estimate.mean else math.inf
    if reached <= share:
        return count, ""
    if count >= most:
        return count, f"± {reached * 100:.3g} % of the mean with {count} seeds"
    # The interval narrows with the root of their number; never more than twice as many in one go.
    needed = 2 * count if math.isinf(reached) else math.ceil(count * (reached / share) ** 2)
    return min(most, max(count + 1, min(2 * count, needed))), ""


def _begin_anew(folder: Path, note: Callable[[str], None]) -> None:
    """Move a folder aside that holds results."""
    if not folders.has_results(folder):
        return
    with opened(folder, None):
        for number in itertools.count(1):
            aside = folder.with_name(f"{folder.name}.old-{number}")
            if not aside.exists():
                break
        try:
            folder.rename(aside)
        except OSError as error:
            raise OutputError(f"cannot move '{folder}' aside: {error}") from None
        forget(aside)
    note(f"'{folder}' is now '{aside}': delete it when you no longer need it")


def _refuse_if_begun(campaign: Campaign, store: Store) -> None:
    """Ask what to do with a folder that holds a part of the study already."""
    held = holdings(campaign, store)
    if not held.missing or not held.done + held.failed + held.others:
        return
    parts = [f"{held.done} of the {held.wanted} runs"]
    if held.failed:
        parts.append(f"{held.failed} that failed")
    if held.others:
        parts.append(f"{held.others} that this study does not ask for")
    raise OutputError(
        f"'{campaign.folder}' holds {', '.join(parts)}: use --resume to make the {held.missing} missing "
        "ones, --fresh to move the folder aside and begin anew, or another folder with --out"
    )


def _mention_other_builds(store: Store, note: Callable[[str], None]) -> None:
    """Note the runs of another build with the same version of the engine."""
    runs = store.runs(["engine_build", "platform"])
    if "engine_build" not in runs.columns:
        return
    from lasthop.studies.store import versions

    here = versions()["platform"]
    builds = zip(runs["engine_build"], runs["platform"], strict=True)
    others = sum(build != engine_build() and platform == here for build, platform in builds)
    if others:
        note(
            f"note: {others} of the runs in '{store.folder}' were made by another build of engine "
            f"{_native.__version__}; --fresh makes them again"
        )


def _silent(_: str) -> None:
    pass
