"""The tidy table of a study: one row per point and seed, with a column for each axis and metric.

Its values are as the engine measured them, in units of the SI: what a study scales is scaled where it is
shown. Evaluated from what the store holds, whenever asked. Called by `execute` at the end of every command
and by `--until` between its rounds.
"""

from __future__ import annotations

import fnmatch
import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lasthop._native import ArrowTable
from lasthop.errors import StudyError
from lasthop.studies.store import FLOWS, LINKS, SERIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lasthop.columns import Metric
    from lasthop.studies.parts import Axis, Value
    from lasthop.studies.store import Store
    from lasthop.studies.study import Study

#: Columns that hold the name that `where` looks at.
NAME_COLUMNS = ("name", "link", "flow")
#: What transfers took, and the reductions to which those that did not finish are the longest.
COMPLETION = "completion_s"
BY_ORDER = ("median", "p50", "p95", "p99", "max")
#: Columns of the table that are those of its runs, and their types.
OF_RUNS = {
    "state": "String",
    "error": "String",
    "run": "String",
    "fingerprint": "String",
    "packet_hops": "Int64",
    "wall_s": "Float64",
    "engine_version": "String",
}


@dataclass(frozen=True, slots=True)
class Row:
    """A run that a study asks for, and where it stands."""

    settings: dict[str, Value]
    seed: int
    run: str


def tidy(study: Study, rows: Sequence[Row], store: Store) -> tuple[ArrowTable, list[str]]:
    """Return the table, and the metrics for which no run has the column.

    Rows stand in the order given; those that the store does not hold are left out.
    """
    runs = store.runs(list(OF_RUNS))
    held = {run: place for place, run in enumerate(runs["run"])}
    rows = [row for row in rows if row.run in held]
    states = runs["state"]
    done = list(dict.fromkeys(row.run for row in rows if states[held[row.run]] == "done"))
    values, absent = evaluate(study, study.metrics, store, done)
    table = ArrowTable.from_columns(
        [
            *((axis.name, _type(axis), [row.settings[axis.name] for row in rows]) for axis in study.axes),
            ("seed", "UInt64", [row.seed for row in rows]),
            *((name, "Float64", [of_run.get(row.run) for row in rows]) for name, of_run in values.items()),
        ]
    )
    missing = [
        (name, kind, [None] * runs.height) for name, kind in OF_RUNS.items() if name not in runs.columns
    ]
    found = runs.beside(ArrowTable.from_columns(missing)) if missing else runs
    return table.beside(found.select(list(OF_RUNS)).take([held[row.run] for row in rows])), absent


def _type(axis: Axis) -> str:
    if all(isinstance(value, bool) for value in axis.values):
        return "Boolean"
    if not axis.is_numeric:
        return "String"
    return "Float64" if any(isinstance(value, float) for value in axis.values) else "Int64"


def evaluate(
    study: Study, metrics: Iterable[Metric], store: Store, runs: Sequence[str]
) -> tuple[dict[str, dict[str, float | None]], list[str]]:
    """Return the figure of each run for each metric, and the metrics for which no run has the column."""
    values: dict[str, dict[str, float | None]] = {metric.name: {} for metric in metrics}
    absent = []
    by_source: dict[str, list[Metric]] = {}
    for metric in metrics:
        by_source.setdefault(metric.source, []).append(metric)
    for source, wanted in by_source.items():
        read = _read(study, source, wanted, store, runs)
        for metric in wanted:
            if read is None or metric.field not in read.columns:
                absent.append(metric.name)
            else:
                values[metric.name] = _reduce(metric, read)
    return values, absent if runs else []


def _read(
    study: Study, source: str, metrics: Iterable[Metric], store: Store, runs: Sequence[str]
) -> ArrowTable | None:
    """Read the columns that some metrics need."""
    columns = {*NAME_COLUMNS, "utilisation", *(metric.field for metric in metrics)}
    if COMPLETION in columns:
        columns |= {"transfer_bytes", "start_s"}
    if source == "totals":
        return store.runs(sorted(columns)).matching("run", set(runs))
    names = {FLOWS: FLOWS, LINKS: LINKS} | {keep.name: f"{SERIES}/{keep.identity}" for keep in study.keep}
    return store.table(names[source], runs, sorted(columns))


def _reduce(metric: Metric, read: ArrowTable) -> dict[str, float | None]:
    """Turn the rows of each run into its figure."""
    name = next((column for column in NAME_COLUMNS if column in read.columns), None)
    if metric.where is not None and name is not None:
        wanted = {one for one in read.unique(name) if fnmatch.fnmatchcase(one, metric.where)}
        read = read.matching(name, wanted)
    if metric.by == "bottleneck":
        read = read.matching("name", {_bottleneck(read)})
    reduction = REDUCTIONS[metric.by]
    late = _unfinished(read) if metric.field == COMPLETION and metric.by in BY_ORDER else Counter[str]()
    figures = {
        run: reduction(values + [math.inf] * late[run]) for run, values in read.groups("run", metric.field)
    }
    is_known = {run: figure is not None and math.isfinite(figure) for run, figure in figures.items()}
    return {run: figure if is_known[run] else None for run, figure in figures.items()}


def _unfinished(flows: ArrowTable) -> Counter[str]:
    """Count the transfers of each run that came and did not finish: the longest of all, as in the totals."""
    if not {"transfer_bytes", "start_s"} <= set(flows.columns):
        return Counter()
    rows = zip(*(flows[name] for name in ("run", COMPLETION, "transfer_bytes", "start_s")), strict=True)
    return Counter(
        run for run, done, length, began in rows if done is None and length is not None and began is not None
    )


def _mean(values: list[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _median(values: list[float]) -> float | None:
    ordered, middle = sorted(values), len(values) // 2
    if not ordered:
        return None
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _percentile(percent: int) -> Callable[[list[float]], float | None]:
    """Return the function that finds a percentile by nearest rank."""

    def found(values: list[float]) -> float | None:
        return sorted(values)[max(1, -(-len(values) * percent // 100)) - 1] if values else None

    return found


def _jain(values: list[float]) -> float | None:
    """Jain's index, as the engine has it for all flows."""
    squares = math.fsum(value * value for value in values)
    return math.fsum(values) ** 2 / (len(values) * squares) if squares > 0 else None


def _cv(values: list[float]) -> float | None:
    """Deviation over mean; all flows are there, so it is that of a population, not of a sample."""
    mean = _mean(values)
    if not mean:
        return None
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values)) / mean


#: What becomes of the values of a run.
REDUCTIONS: dict[str, Callable[[list[float]], float | None]] = {
    "sum": lambda values: math.fsum(values) if values else None,
    "mean": _mean,
    "bottleneck": _mean,
    "median": _median,
    "p50": _percentile(50),
    "p95": _percentile(95),
    "p99": _percentile(99),
    "min": lambda values: min(values, default=None),
    "max": lambda values: max(values, default=None),
    "count": lambda values: float(len(values)),
    "jain": _jain,
    "cv": _cv,
}


def _bottleneck(links: ArrowTable) -> str:
    """Name of the link called ``bottleneck``, else of the busiest over all runs."""
    busy = {name: math.fsum(values) for name, values in links.groups("name", "utilisation")}
    return "bottleneck" if "bottleneck" in busy or not busy else max(busy, key=lambda name: busy[name])


def explain_absent(study: Study, absent: Sequence[str]) -> StudyError:
    """Say which metrics have no column in any run."""
    lines = [
        f"metric {metric.name!r}: no run has {metric.field!r} in its {metric.source}"
        for metric in study.metrics
        if metric.name in absent
    ]
    return StudyError(
        f"{study.file}: "
        + "; ".join(lines)
        + ". All runs are stored: give the scenario what the metric measures, or change the metric and "
        "use --resume, which runs nothing again"
    )
