"""The figures of a paper as charts: what `report` saves as pictures, and `page` shows in a browser.

Which curves a figure has, its paper says in ``paper.toml``; where it does not, every axis of the study that
varies becomes lines or panels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lasthop.papers.grammar import format_value
from lasthop.papers.library import SERIES_OF_CURVE
from lasthop.papers.reproduce import claim_axes, claim_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from lasthop.papers.library import Experiment, Paper, Value
    from lasthop.papers.reproduce import Reproduction
    from lasthop.studies import StudyResult
    from lasthop.studies.charts import Chart

#: The column with the label of a curve.
CURVE = "curve"


def charts(reproduction: Reproduction, experiment: Experiment) -> dict[str, Chart]:
    """Return the charts of an experiment, by the name of their file; none if it was not run."""
    if experiment.x is None and experiment.figure.startswith("Table"):
        # Its cells stand in the report.
        return {}
    make = _with_curves if experiment.drawn else _by_axes
    drawn = make(reproduction, experiment)
    return {experiment.name: drawn[0][1]} if len(drawn) == 1 else dict(drawn)


def charts_of_now(reproduction: Reproduction) -> dict[str, Chart]:
    """Return what senders and queues of today do, by name: a chart for each metric."""
    from lasthop.columns import scaled
    from lasthop.extras import pl
    from lasthop.studies.charts import Look, make_chart

    drawn = {}
    for one in reproduction.paper.now:
        result = reproduction.now.get(one.study)
        if result is None:
            continue
        study = result.study
        table = scaled(result.table, study.metrics).filter(pl.col("state") == "done")
        x = study.x or study.axes[0].name
        lines = next((axis.name for axis in study.axes if axis.name != x), None)
        for metric in (metric for metric in study.metrics if metric.name in one.metrics):
            look = Look(
                title=f"{study.title}; not judged",
                labels={metric.name: metric.label, **{axis.name: axis.label for axis in study.axes}},
                units={metric.name: metric.unit, **{axis.name: axis.unit for axis in study.axes}},
                names=_names(result),
            )
            drawn[f"{one.study}-{metric.name}"] = make_chart(table, metric.name, x, lines, (), look)
    return drawn


@dataclass(frozen=True)
class Measured:
    """One series of one study, as a figure needs it.

    Attributes
    ----------
    table : polars.DataFrame
        A row per run, or per run and moment.
    column : str
        The column with the series.
    axes : dict
        The axis of the study for each axis of the claims.
    along : str or None
        The column along x.
    over_time : bool
        Whether the table has many rows per run.
    """

    table: pl.DataFrame
    column: str
    axes: Mapping[str, str]
    along: str | None
    over_time: bool


def _measured(
    reproduction: Reproduction,
    experiment: Experiment,
    file: str,
    name: str,
    chosen: Mapping[str, Value] | None = None,
) -> Measured | None:
    """Return a series of a study at what experiment, study and `chosen` fix; nothing if there is none."""
    from lasthop.extras import pl

    paper, result = reproduction.paper, reproduction.results_of(experiment)[file]
    source = paper.sources[name]
    axes = {ours: theirs for theirs, ours in claim_axes(paper, result.study).items()}
    over_time = source.column is not None
    if over_time:
        if source.table not in {one.name for one in result.study.keep}:
            return None
        table, column = result.series(str(source.table)), str(source.column)
    else:
        found = reproduction.known.get((result.study.name, name, source))
        if found is None:
            return None
        table, column = found, name
        over_time = "time_s" in found.columns
    given = {**experiment.fixed, **experiment.studies[file]}
    for ours, value in {**given, **(chosen or {})}.items():
        if ours in axes:
            theirs = paper.study_values.get(ours, {}).get(str(value), value)
            table = table.filter(pl.col(axes[ours]) == theirs)
        elif given.get(ours, value) != value:
            return None
    if table.is_empty() or table[column].is_null().all():
        return None
    along = "time_s" if over_time else axes.get(str(experiment.x)) or result.study.x
    return Measured(table, column, axes, along, over_time)


def _by_axes(reproduction: Reproduction, experiment: Experiment) -> list[tuple[str, Chart]]:
    drawn = []
    for file in reproduction.results_of(experiment):
        for series in (name for name in experiment.y if name in reproduction.paper.vocabulary.series):
            chart = _chart_by_axes(reproduction, experiment, file, series)
            if chart is not None:
                drawn.append((f"{experiment.name}-{file}-{series}", chart))
    return drawn


def _chart_by_axes(reproduction: Reproduction, experiment: Experiment, file: str, name: str) -> Chart | None:
    from lasthop.studies.charts import make_chart, make_series_chart

    paper, result = reproduction.paper, reproduction.results_of(experiment)[file]
    found = _measured(reproduction, experiment, file, name)
    if found is None or found.along is None:
        return None
    fixed = {**experiment.fixed, **experiment.studies[file]}
    varied = [ours for ours in found.axes if ours not in {experiment.x, *fixed}]
    varied = [ours for ours in varied if found.axes[ours] != found.along]
    lines = next((ours for ours in [*paper.vocabulary.series[name].axes, *varied] if ours in varied), None)
    panels = [
        found.axes[ours] for ours in varied if ours != lines and found.table[found.axes[ours]].n_unique() > 1
    ]
    of_lines = found.axes[lines] if lines else None
    order = _order(paper, experiment, result, found.axes, lines)
    look = _look(paper, experiment, result, {found.column: name}, order)
    if found.over_time:
        seed = min(result.study.seeds)
        return make_series_chart(found.table, found.column, of_lines, panels, look, seed)
    return make_chart(found.table, found.column, found.along, of_lines, panels, look)


def _with_curves(reproduction: Reproduction, experiment: Experiment) -> list[tuple[str, Chart]]:
    """Return a chart for each series, with the curves that the experiment names, from all of its studies."""
    from lasthop.extras import pl
    from lasthop.studies.charts import make_chart, make_series_chart

    paper = reproduction.paper
    known = [name for name in experiment.y if name in paper.vocabulary.series]
    mixed = any(SERIES_OF_CURVE in settings for settings in experiment.drawn.values())
    drawn = []
    for series in known[:1] if mixed else known:
        tables, along, over_time, last = [], None, False, None
        for label, settings in experiment.drawn.items():
            name = str(settings.get(SERIES_OF_CURVE, series))
            chosen = {axis: value for axis, value in settings.items() if axis != SERIES_OF_CURVE}
            for file, result in reproduction.results_of(experiment).items():
                found = _measured(reproduction, experiment, file, name, chosen)
                if found is not None and found.along is not None:
                    along, over_time, last = found.along, found.over_time, result
                    tables.append(
                        found.table.select(
                            pl.lit(label).alias(CURVE),
                            pl.col(along),
                            "seed",
                            pl.col(found.column).cast(pl.Float64).alias(series),
                        )
                    )
        if last is None or along is None:
            continue
        look = _look(paper, experiment, last, {series: series}, {CURVE: list(experiment.drawn)})
        table = pl.concat(tables, how="vertical_relaxed")
        if over_time:
            chart = make_series_chart(table, series, CURVE, (), look, min(last.study.seeds))
        else:
            chart = make_chart(table, series, along, CURVE, (), look)
        drawn.append((f"{experiment.name}-{series}", chart))
    return drawn


def _look(
    paper: Paper,
    experiment: Experiment,
    result: StudyResult,
    columns: Mapping[str, str],
    order: Mapping[str, Sequence[Any]],
) -> Any:  # noqa: ANN401 - a Look, which is imported where it is needed
    """Return labels, units and order; `columns` are those that are drawn, with their series."""
    from lasthop.studies.charts import Look

    mixed = any(SERIES_OF_CURVE in settings for settings in experiment.drawn.values())
    labels, units = {}, {}
    for column, name in columns.items():
        source, series = paper.sources[name], paper.vocabulary.series[name]
        label = next((one.label for one in result.study.metrics if one.name == source.metric), None)
        # Curves of several series share their unit alone.
        labels[column] = series.unit if mixed else label or series.in_words
        units[column] = "" if mixed or series.unit == "ratio" else series.unit
    return Look(
        title=f"{experiment.figure}: {experiment.title or result.study.title}",
        labels={
            "time_s": "time",
            CURVE: "",
            **labels,
            **{axis.name: axis.label for axis in result.study.axes},
        },
        units={"time_s": "s", **units, **{axis.name: axis.unit for axis in result.study.axes}},
        order=order,
        names=_names(result),
    )


def _names(result: StudyResult) -> dict[str, dict[Any, str]]:
    return {axis.name: dict(zip(axis.values, axis.labels, strict=True)) for axis in result.study.axes}


def _order(
    paper: Paper,
    experiment: Experiment,
    result: StudyResult,
    axes: Mapping[str, str],
    lines: str | None,
) -> dict[str, list[Any]]:
    """Return the paper's order of the curves, as the study's values; nothing where they are not the same."""
    if lines is None:
        return {}
    values = next(axis.values for axis in result.study.axes if axis.name == axes[lines])
    by_name = {format_value(claim_value(paper, lines, value)): value for value in values}
    curves = [curve.removeprefix(f"{lines} ") for curve in experiment.curves]
    if set(curves) != set(by_name):
        return {}
    return {axes[lines]: [by_name[curve] for curve in curves]}
