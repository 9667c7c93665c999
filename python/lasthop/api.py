"""The Python API: run a scenario with one or many seeds, compare transports, read results.

The package re-exports it and what `lasthop.scenario` has; the command line calls nothing else to run
anything.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop import stand_ins
from lasthop.errors import ArgumentError
from lasthop.finished import add_to_history, collect, raise_if_ended_early
from lasthop.places import SENDERS
from lasthop.results import Run, Runs
from lasthop.runner import Job, Snapshot, run_jobs
from lasthop.scenario import (
    EXAMPLE,
    SEEDS_MAX,
    Scenario,
    as_scenario,
    check_seeds,
    helpers,
    metrics,
    schema,
    toml_value,
    transports,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lasthop.comparison import Comparison
    from lasthop.frames import Traffic
    from lasthop.scenario import Senders

__all__ = [
    "EXAMPLE",
    "SEEDS_MAX",
    "Scenario",
    "as_scenario",
    "check_places",
    "check_seeds",
    "compare",
    "helpers",
    "load_runs",
    "metrics",
    "run",
    "run_seeds",
    "schema",
    "toml_value",
    "traffic",
    "transports",
]


def run(
    scenario: Scenario | str | Path | Mapping[str, Any],
    *,
    seed: int | None = None,
    series: bool = False,
    trace: bool = False,
    transports: Senders | None = None,
    trust: bool = False,
) -> Run:
    """Run a scenario once.

    Parameters
    ----------
    scenario : Scenario, path or mapping
        What to simulate.
    seed : int, optional
        Seed of every random draw; the scenario's own if not given.
    series : bool
        Also record windows, queues, throughput and RTT per interval.
    trace : bool
        Also record every packet on every link.
    transports : mapping, optional
        Senders written in Python: classes that inherit from `Sender`, by the names that flows have for them.
    trust : bool
        Whether senders that the scenario names ``FILE.py:CLASS`` are loaded, which executes their files; of a
        `Scenario` it says so itself.

    Returns
    -------
    Run
        Summaries, and the tables asked for.

    Examples
    --------
    >>> import lasthop as lh
    >>> result = lh.run(lh.Scenario(lh.EXAMPLE), seed=7)
    >>> result.totals["goodput_bit_s"] > 1e6
    True
    >>> result.fingerprint == lh.run(lh.Scenario(lh.EXAMPLE), seed=7).fingerprint
    True
    """
    opened = as_scenario(scenario, transports, trust=trust)
    return run_seeds(opened, [opened.seed if seed is None else seed], series=series, trace=trace)[0]


def run_seeds(  # noqa: PLR0913 - all but two are keywords
    scenario: Scenario | str | Path | Mapping[str, Any],
    seeds: Iterable[int],
    *,
    series: bool = False,
    trace: bool = False,
    jobs: int | None = None,
    observer: Callable[[Snapshot], None] | None = None,
    transports: Senders | None = None,
    learn: bool = True,
    spool: str | Path | None = None,
    capture_at: Sequence[str] | None = None,
    trust: bool = False,
) -> Runs:
    """Run a scenario with several seeds, in parallel on all cores.

    Parameters
    ----------
    scenario : Scenario, path or mapping
        What to simulate.
    seeds : iterable of int
        Each seed once.
    series, trace : bool
        As for `run`.
    jobs : int, optional
        How many runs at once; one per core if not given.
    observer : callable, optional
        Called about ten times a second with how far the runs are.
    transports : mapping, optional
        As for `run`. The threads share one interpreter: what Python computes does not run in parallel.
    learn : bool
        Whether the connections that end are added to the history file of the scenario, if it names one. All
        runs of a call start from the file as it is before the call; none sees what another adds.
    spool : path, optional
        A folder in which series and traces are written while the runs go on, instead of being kept in memory.
        They are read when asked for, `Runs.save` puts them together without reading them whole, and they go
        when the result does.
    capture_at : sequence of str, optional
        With `spool`: nodes and links at which packets are captured, ``"senders"`` for the hosts of all
        senders, or ``"links"`` for every link. With `trace` the senders if not given, otherwise nothing. A
        trace in memory needs no choice: `Run.write_pcapng` looks at it from everywhere.
    trust : bool
        As for `run`.

    Returns
    -------
    Runs
        In the order of `seeds`.

    Raises
    ------
    Interrupted
        After Ctrl-C; its ``finished`` holds the seeds that were complete.
    RunError
        If a run passes one of its limits, or a sender written in Python raises an exception; ``finished`` as
        above.
    """
    wanted = check_seeds(seeds)
    scenario = as_scenario(scenario, transports, trust=trust)
    known = scenario.read_history()
    plan = scenario.plan.with_history(known) if known else scenario.plan
    outcome = run_jobs(
        [Job(plan, seed) for seed in wanted],
        series=series,
        trace=trace,
        workers=jobs,
        observer=observer,
        spool=None if spool is None else Path(spool),
        capture_at=check_places(scenario, capture_at, spooled=spool is not None, trace=trace),
    )
    finished = collect(scenario, outcome)
    if learn:
        add_to_history(scenario, finished)
    raise_if_ended_early(outcome, finished, f"{len(finished)} of {len(wanted)} seeds finished")
    return Runs(finished)


def compare(  # noqa: PLR0913 - all but two are keywords
    scenario: Scenario | str | Path | Mapping[str, Any],
    transports: Iterable[str] = (),
    *,
    seeds: Iterable[int] = range(1, 11),
    baseline: str | None = None,
    jobs: int | None = None,
    observer: Callable[[Snapshot], None] | None = None,
    metrics: Iterable[str] | None = None,
    series: bool = False,
    helpers: Iterable[str] = (),
    at: str | None = None,
    law: str | None = None,
    trust: bool = False,
) -> Comparison:
    """Run a scenario with each transport and helper over the same channels, and compare seed by seed.

    Parameters
    ----------
    scenario : Scenario, path or mapping
        What to simulate; the transport of every flow that is not UDP is replaced.
    transports : iterable of str
        At least two names from ``lasthop transports``, or ``FILE.py:CLASS`` for a sender written in Python.
        With helpers one will do, and without any the flows keep those of the scenario.
    seeds : iterable of int
        Each transport runs with the same ones, so that it meets the same channel errors.
    baseline : str, optional
        The transport that the others are compared with; the first if not given.
    jobs : int, optional
        How many runs at once; one per core if not given.
    observer : callable, optional
        Called about ten times a second with how far the runs are.
    metrics : iterable of str, optional
        What they are compared by: names from ``lasthop metrics``, whose units may be left out; with
        ``@LINK`` behind it, what a link is compared by is that of another one than the bottleneck.
    series : bool
        Also keep windows, queues and rates over time, for `Comparison.plot`.
    helpers : iterable of str
        Names from ``lasthop helpers``, each in place of the list ``helpers`` of the scenario, with the keys
        that it has there, if it is in the list; ``none`` for none, ``arq+snoop`` for two in series. With
        several transports every pair is run.
    at : str, optional
        The link at which helpers stand; in front of those that lose packets if not given.
    law : str, optional
        One of `lasthop.laws.LAWS`: what it says of each sender with each helper stands beside the dots of
        goodput, and is shown beside what was measured.
    trust : bool
        As for `run`; those among `transports` are loaded anyway.

    Raises
    ------
    Interrupted
        After Ctrl-C; its ``comparison`` is of the seeds that every transport had finished.

    Notes
    -----
    All runs start from the same history of paths, if the scenario names a file, and nothing is added to it:
    what one transport learns would be to the good of another in the next comparison.

    Examples
    --------
    >>> import lasthop as lh
    >>> result = lh.compare(lh.Scenario(lh.EXAMPLE), ["reno", "cubic"], seeds=range(1, 5))
    >>> result.baseline
    'reno'
    >>> result.means.columns
    ['metric', 'unit', 'transport', 'mean', 'low', 'high', 'n']
    """
    from lasthop.comparison import compare_transports

    for name, given in (("transports", transports), ("helpers", helpers)):
        if isinstance(given, str):
            names = [one.strip() for one in given.split(",")]
            raise ArgumentError(f"{name} is the text {given!r}: give a list of names, {names}")
    return compare_transports(
        as_scenario(scenario, trust=trust),
        list(transports),
        check_seeds(seeds),
        baseline,
        jobs,
        observer,
        metrics,
        series=series,
        helpers=list(helpers),
        at=at,
        law=law,
    )


def traffic(
    scenario: Scenario | str | Path | Mapping[str, Any],
    *,
    flow: str | None = None,
    seeds: Iterable[int] | None = None,
    frames: int = 60_000,
    lags: Iterable[int] = (1, 2, 5, 10, 20, 50),
) -> Traffic:
    """Make the frames that a flow sends, and their statistics, without running the scenario.

    Parameters
    ----------
    scenario : Scenario, path or mapping
        With a flow whose traffic is of kind ``mpeg4`` or ``frames``.
    flow : str, optional
        Name of the flow; the first that sends frames if not given.
    seeds : iterable of int, optional
        Seeds of the runs whose frames these are; the scenario's own if not given.
    frames : int
        Frames per seed; a list that does not repeat may have fewer.
    lags : iterable of int
        At which distances the autocorrelation is worked out.

    Examples
    --------
    >>> import lasthop as lh
    >>> scenario = lh.Scenario(lh.EXAMPLE).replace({"flows.0.traffic": "mpeg4"})
    >>> video = lh.traffic(scenario, seeds=[1, 2], frames=12_000)
    >>> video.flow, video.series
    ('left', ['all', 'I', 'P', 'B', 'group', 'second'])
    >>> 0.7e6 < video.rate_bit_s.mean < 0.85e6
    True
    """
    from lasthop.frames import traffic_of

    # Nothing runs, so no sender that the scenario names is executed.
    with stand_ins.unexecuted():
        opened = as_scenario(scenario)
    return traffic_of(opened, flow, check_seeds([opened.seed] if seeds is None else seeds), frames, lags)


def load_runs(folder: str | Path) -> Runs:
    """Read the runs that ``lasthop run --out`` or `Runs.save` wrote.

    Parameters
    ----------
    folder : path
        The folder.

    Examples
    --------
    >>> import lasthop as lh, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lh.run_seeds(lh.Scenario(lh.EXAMPLE), [1, 2]).save(folder)
    ...     lh.load_runs(folder).seeds
    [1, 2]
    """
    from lasthop.saved import load_runs as load

    return load(folder)


def check_places(
    scenario: Scenario, places: Sequence[str] | None, *, spooled: bool, trace: bool
) -> list[str]:
    """Return where to capture packets, and refuse places that the scenario does not have."""
    if places is None:
        return [SENDERS] if spooled and trace else []
    if isinstance(places, str):
        raise ArgumentError(f"capture_at is a list of places: say capture_at=[{places!r}]")
    if not spooled:
        raise ArgumentError(
            "capture_at writes files while runs go on: say where with spool=, or run with trace=True and "
            "choose the place in write_pcapng"
        )
    for place in places:
        try:
            scenario.plan.check_place(place)
        except ValueError as error:
            raise ArgumentError(str(error)) from None
    return list(dict.fromkeys(places))
