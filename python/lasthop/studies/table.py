"""The tidy table of a study: one row per point and seed, with a column for each axis and metric.

Its values are as the engine measured them, in units of the SI: what a study scales is scaled where it is
shown. Evaluated from what the store holds, whenever asked. Called by `execute` at the end of every command
and by `--until` between its rounds.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lasthop.errors import StudyError
from lasthop.studies.store import FLOWS, LINKS, SERIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import polars as pl

    from lasthop.columns import Metric
    from lasthop.studies.store import Store
    from lasthop.studies.study import Axis, Study, Value

#: Columns that hold the name that `where` looks at.
NAME_COLUMNS = ("name", "link", "flow")


@dataclass(frozen=True, slots=True)
class Row:
    """A run that a study asks for, and where it stands."""

    settings: dict[str, Value]
    seed: int
    run: str


def tidy(study: Study, rows: Sequence[Row], store: Store) -> tuple[pl.DataFrame, list[str]]:
    """Return the table, and the metrics for which no run has the column.

    Rows stand in the order given; those that the store does not hold are left out.
    """
    import polars as pl

    places = pl.DataFrame(
        {axis.name: [row.settings[axis.name] for row in rows] for axis in study.axes}
        | {"seed": [row.seed for row in rows], "run": [row.run for row in rows]},
        schema={axis.name: _type(axis) for axis in study.axes} | {"seed": pl.UInt64(), "run": pl.String()},
    )
    runs = store.runs()
    wanted = ("state", "error", "fingerprint", "packet_hops", "wall_s", "engine_version")
    absent = [pl.lit(None).alias(name) for name in wanted if name not in runs.columns]
    table = places.join(
        runs.with_columns(absent).select("run", *wanted), on="run", how="inner", maintain_order="left"
    )
    done = table.filter(pl.col("state") == "done")["run"].unique().to_list()
    values, absent_fields = evaluate(study, study.metrics, store, done)
    order = [
        *(axis.name for axis in study.axes),
        "seed",
        *(metric.name for metric in study.metrics),
        *("state", "error", "run", "fingerprint", "packet_hops", "wall_s", "engine_version"),
    ]
    return table.join(values, on="run", how="left", maintain_order="left").select(order), absent_fields


def _type(axis: Axis) -> pl.DataType:
    import polars as pl

    if all(isinstance(value, bool) for value in axis.values):
        return pl.Boolean()
    if not axis.is_numeric:
        return pl.String()
    return pl.Float64() if any(isinstance(value, float) for value in axis.values) else pl.Int64()


def evaluate(
    study: Study, metrics: Iterable[Metric], store: Store, runs: Sequence[str]
) -> tuple[pl.DataFrame, list[str]]:
    """Return one row per run with its metrics, and the names of metrics for which no run has the column."""
    import polars as pl

    table = pl.DataFrame({"run": list(runs)}, schema={"run": pl.String})
    absent = []
    by_source: dict[str, list[Metric]] = {}
    for metric in metrics:
        by_source.setdefault(metric.source, []).append(metric)
    for source, wanted in by_source.items():
        read = _read(study, source, wanted, store, runs)
        for metric in wanted:
            if read is None or metric.field not in read.columns:
                absent.append(metric.name)
                table = table.with_columns(pl.lit(None, dtype=pl.Float64).alias(metric.name))
            else:
                table = table.join(_reduce(metric, read), on="run", how="left", maintain_order="left")
    return table, absent if runs else []


def _read(
    study: Study, source: str, metrics: Iterable[Metric], store: Store, runs: Sequence[str]
) -> pl.DataFrame | None:
    """Read the columns that some metrics need."""
    columns = {*NAME_COLUMNS, "utilisation", *(metric.field for metric in metrics)}
    if source == "totals":
        import polars as pl

        return store.runs(sorted(columns)).filter(pl.col("run").is_in(list(runs)))
    names = {FLOWS: FLOWS, LINKS: LINKS} | {keep.name: f"{SERIES}/{keep.identity}" for keep in study.keep}
    return store.table(names[source], runs, sorted(columns))


def _reduce(metric: Metric, read: pl.DataFrame) -> pl.DataFrame:
    """Turn the rows of each run into its figure."""
    import polars as pl

    name = next((column for column in NAME_COLUMNS if column in read.columns), None)
    if metric.where is not None and name is not None:
        names = [one for one in read[name].unique().to_list() if fnmatch.fnmatchcase(one, metric.where)]
        read = read.filter(pl.col(name).is_in(names))
    if metric.by == "bottleneck":
        read = read.filter(pl.col("name") == _bottleneck(read))
    x = pl.col(metric.field).cast(pl.Float64, strict=False)
    count, squares = x.count(), x.pow(2).sum()
    reductions = {
        "sum": pl.when(count > 0).then(x.sum()),
        "mean": x.mean(),
        "bottleneck": x.mean(),
        "median": x.median(),
        "min": x.min(),
        "max": x.max(),
        "count": count.cast(pl.Float64),
        # Jain's index, as the engine has it for all flows.
        "jain": pl.when(squares > 0).then(x.sum().pow(2) / (count * squares)),
        # All flows are there: the deviation is that of a population, not of a sample.
        "cv": pl.when(x.mean() != 0).then(x.std(ddof=0) / x.mean()),
    }
    value = reductions[metric.by].fill_nan(None).alias(metric.name)
    return read.group_by("run", maintain_order=True).agg(value)


def _bottleneck(links: pl.DataFrame) -> str:
    """Name of the link called ``bottleneck``, else of the busiest over all runs."""
    import polars as pl

    busy = links.group_by("name", maintain_order=True).agg(pl.col("utilisation").fill_null(0).sum())
    if busy.is_empty() or "bottleneck" in busy["name"]:
        return "bottleneck"
    return str(busy.sort("utilisation", descending=True, maintain_order=True)["name"][0])


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
