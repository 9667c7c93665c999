"""What the results of a study come to: which axes go where, the statistics, and tables ready to be printed.

Called by `show` (tables and figures of the command) and by `report` (the page), so that both say the same. It
reads a `StudyResult` and writes nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lasthop import laws
from lasthop.columns import find_anywhere, matching, scaled
from lasthop.comparison import Difference
from lasthop.errors import ArgumentError
from lasthop.quantities import estimate_texts
from lasthop.stats import SAME, Estimate
from lasthop.studies.charts import Chart, Look, make_chart, make_series_chart
from lasthop.studies.statistics import check_name, differences, seeds_text, summarise

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import polars as pl

    from lasthop.columns import Metric
    from lasthop.studies.parts import Axis, Value
    from lasthop.studies.study import Study

#: With more values than this, an axis goes down a table rather than across.
ACROSS_MAX = 8
#: At most this many doubtful cells are listed.
DOUBTS_MAX = 8
#: Columns of a kept series that say which row it is, not what was measured.
ROWS_OF_SERIES = ("link", "flow")
KEYS_OF_SERIES = {"seed", "time_s", *ROWS_OF_SERIES}
#: With more links or flows than this, a series shows their mean.
ROWS_MAX = 6
#: Axis of a study that has none.
ONLY = "study"
WITH_UNIT = re.compile(r"\s*([+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*([A-Za-z%µ/]\S*)\s*")


@dataclass(frozen=True, slots=True)
class Cell:
    """One entry of a table: text, and what is to be said about it."""

    text: str
    better: bool | None = None
    #: The mean rests on few seeds (means), or the signed-rank test says something else (differences).
    doubtful: bool = False
    #: What a reader sees who points at it.
    more: str = ""
    #: Fewer seeds than elsewhere: their number stands behind the text, in brackets.
    short: bool = False


@dataclass(frozen=True, slots=True)
class Grid:
    """One table: rows for the places of the axes that go down, columns for the axis that goes across."""

    title: str
    unit: str
    down: list[str]
    across: list[str]
    rows: list[tuple[list[str], list[Cell]]]
    sentences: list[str] = field(default_factory=list)

    @property
    def is_short(self) -> bool:
        """Whether any cell has fewer seeds than others."""
        return any(cell.short for _, cells in self.rows for cell in cells)

    @property
    def doubts(self) -> list[str]:
        """Where a cell is doubtful, and why."""
        found = []
        for places, cells in self.rows:
            for across, cell in zip(self.across, cells, strict=True):
                if cell.doubtful:
                    named = [f"{axis} {place}" for axis, place in zip(self.down, places, strict=True)]
                    found.append(f"{', '.join(filter(None, [*named, across]))}: {cell.more}".lstrip(": "))
        more = [f"and {len(found) - DOUBTS_MAX} more"] if len(found) > DOUBTS_MAX else []
        return found[:DOUBTS_MAX] + more


@dataclass(frozen=True)
class Digest:
    """The results of a study, or of a part of it, and how they are laid out.

    Attributes
    ----------
    study : Study
        What was studied.
    table : polars.DataFrame
        The rows that are looked at.
    metrics : list of Metric
        Which metrics.
    x, lines : str or None
        Axis along x, and the one with a line or a column per value.
    panels : list of str
        Axes with a panel or a row per value.
    baseline : dict
        What differences are taken from; empty if there are none.
    chosen : dict
        Axes that stand still, and where.
    """

    study: Study
    table: pl.DataFrame
    metrics: list[Metric]
    x: str | None
    lines: str | None
    panels: list[str]
    baseline: dict[str, Value]
    chosen: dict[str, Value]
    summary: pl.DataFrame
    differences: pl.DataFrame | None

    @property
    def axes(self) -> list[str]:
        """Names of all axes of the study."""
        return [axis.name for axis in self.study.axes]

    @property
    def look(self) -> Look:
        """Labels, units and order as the study file says."""
        axes, metrics = self.study.axes, self.study.metrics
        return Look(
            labels={axis.name: axis.label for axis in axes} | {one.name: one.label for one in metrics},
            units={axis.name: axis.unit for axis in axes} | {one.name: one.shown_unit for one in metrics},
            most={one.name: one.most for one in metrics if one.most is not None and one.scale == 1},
            order={axis.name: axis.values for axis in axes},
            names={axis.name: dict(zip(axis.values, axis.labels, strict=True)) for axis in axes},
        )

    @property
    def seeds(self) -> str:
        """How many seeds the points have."""
        from lasthop.extras import pl

        return seeds_text(self.summary.filter(pl.col("seeds") > 0)["seeds"].to_list())

    @property
    def baseline_text(self) -> str:
        """The baseline for people."""
        return ", ".join(self.look.full_value(axis, value) for axis, value in self.baseline.items())

    @property
    def chosen_text(self) -> str:
        """Where the axes stand that are not looked at."""
        return ", ".join(self.look.full_value(axis, value) for axis, value in self.chosen.items())

    def is_drawable(self, metric: Metric) -> bool:
        """Whether any run has a value of the metric."""
        return self.table[metric.name].null_count() < self.table.height

    def chart(self, metric: Metric, law: str | None = None) -> Chart:
        """Return the figure of one metric, with the prediction of a model if there is one."""
        title = metric.label if not self.chosen else f"{metric.label} ({self.chosen_text})"
        table, x, look = self._along_x(scaled(self.table, [metric]), replace(self.look, title=title))
        said = None if law is None else self._said(metric, law)
        if law is None or said is None:
            return make_chart(table, metric.name, x, self.lines, self.panels, look)
        said, _, _ = self._along_x(scaled(said, [metric]), look)
        chart = make_chart(table, metric.name, x, self.lines, self.panels, look, said)
        return replace(chart, note=f"{chart.note}; dotted: {laws.find(law).label}")

    def _said(self, metric: Metric, law: str) -> pl.DataFrame | None:
        """Return the predictions for a metric at the selected points; `None` if there are none."""
        from lasthop.extras import pl

        names = [axis.name for axis in self.study.axes]
        rows = []
        looked_at = set(self.table.select(names).iter_rows())
        for point in self.study.points():
            place = tuple(point.settings[name] for name in names)
            if place not in looked_at:
                continue
            value = laws.of_metric(laws.of_scenario(self.study.scenario_of(point), law), metric)
            if value is not None:
                rows.append({**dict(zip(names, place, strict=True)), metric.name: value})
        return pl.DataFrame(rows) if rows else None

    def series_chart(self, series: pl.DataFrame, column: str, seed: int | None = None) -> Chart:
        """Return the figure of one column of a kept series: the text axes as lines, numbers as panels."""
        from lasthop.extras import pl

        for axis, value in self.chosen.items():
            series = series.filter(pl.col(axis) == value)
        axes = [axis for axis in (self.lines, self.x, *self.panels) if axis is not None and axis in self.axes]
        declared = find_anywhere(column)
        label, unit = (column, "") if declared is None else (declared.label, declared.unit)
        title = f"{label} ({self.chosen_text})" if self.chosen else label
        rows = next((name for name in ROWS_OF_SERIES if name in series.columns), None)
        count = 1 if rows is None else series[rows].n_unique()
        if rows is not None and 1 < count <= ROWS_MAX:
            axes.append(rows)
        elif count > ROWS_MAX:
            title += f", mean of {count} {rows}s"
        look = replace(
            self.look,
            title=title,
            labels={**self.look.labels, "time_s": "time", column: label},
            units={**self.look.units, "time_s": "s", column: unit},
        )
        lines, panels = (axes[0], axes[1:]) if axes else (None, [])
        return make_series_chart(series, column, lines, panels, look, seed)

    def means(self, metric: Metric) -> Grid:
        """Return the table of means of one metric."""
        rows = [row for row in self.summary.iter_rows(named=True) if row["metric"] == metric.name]
        estimates = [_estimate(row, "mean", metric.scale) for row in rows]
        texts, unit = estimate_texts(estimates, metric.shown_unit)
        most = max((row["seeds"] for row in rows), default=0)
        cells = {}
        for row, text in zip(rows, texts, strict=True):
            short = f" ({row['seeds']})" if 0 < row["seeds"] < most else ""
            cells[self._place(row)] = Cell(
                text + short,
                doubtful=bool(row["outliers"]),
                short=bool(short),
                more=self._more_of_mean(row, metric),
            )
        return self._grid(metric.label, unit, cells)

    def changes(self, metric: Metric) -> Grid | None:
        """Return the table of differences of one metric; `None` without a baseline or pairs."""
        if self.differences is None:
            return None
        rows = [row for row in self.differences.iter_rows(named=True) if row["metric"] == metric.name]
        if not rows:
            return None
        cells = {}
        for row in rows:
            found, relative = _estimate(row, "difference", metric.scale), _relative(row)
            text = Difference(metric, "", "", found, relative, same=row["same"]).interval_text
            p = row["p_signed_rank"]
            cells[self._place(row)] = Cell(
                text if found is None or found.n > 1 or row["same"] else "one seed",
                better=row["better"],
                doubtful=row["agrees"] is False,
                more=f"{row['verdict']}{f', {SAME}' if row['same'] else ''}; {row['seeds']} pairs"
                + ("" if p is None else f"; signed-rank test p = {p:.2g}"),
            )
        grid = self._grid(metric.label, "", cells)
        return replace(grid, sentences=self._sentences(rows))

    def to_dict(self) -> dict[str, Any]:
        """Return summary and differences, as ``lasthop study show --json`` prints them."""
        return {
            "study": self.study.name,
            "title": self.study.title,
            "axes": [
                {"name": axis.name, "label": axis.label, "unit": axis.unit, "values": [*axis.values]}
                for axis in self.study.axes
            ],
            "metrics": [
                {
                    "name": one.name,
                    "label": one.label,
                    "unit": one.table_unit,
                    "shown": {"unit": one.unit, "scale": one.scale},
                    "higher_is_better": one.higher_is_better,
                }
                for one in self.metrics
            ],
            "where": dict(self.chosen),
            "baseline": dict(self.baseline),
            "summary": self.summary.to_dicts(),
            "differences": [] if self.differences is None else self.differences.to_dicts(),
            "failed": failed_rows(self.table, self.axes),
        }

    def _along_x(self, table: pl.DataFrame, look: Look) -> tuple[pl.DataFrame, str, Look]:
        """Return what stands along x: texts such as ``25 ms`` become the numbers that they are."""
        from lasthop.extras import pl

        if self.x is None:
            named = replace(look, labels={**look.labels, ONLY: ""})
            return table.with_columns(pl.lit(self.study.title).alias(ONLY)), ONLY, named
        axis = self.study.axis(self.x)
        numbers = numbers_with_unit(axis.values)
        if numbers is None or axis.unit:
            return table, self.x, look
        known, unit = numbers
        mapped = table.with_columns(
            pl.col(self.x).replace_strict(known, default=None, return_dtype=pl.Float64)
        )
        return (
            mapped,
            self.x,
            replace(
                look,
                units={**look.units, self.x: unit},
                order={**look.order, self.x: [*known.values()]},
                names={**look.names, self.x: {}},
            ),
        )

    def _across(self) -> str | None:
        if self.lines is None or len(self.study.axis(self.lines).values) > ACROSS_MAX:
            return None
        return self.lines

    def _down(self) -> list[str]:
        across = self._across()
        axes = [*self.panels, *([self.x] if self.x else []), *([self.lines] if self.lines else [])]
        return [axis for axis in axes if axis != across]

    def _place(self, row: Mapping[str, Any]) -> tuple[tuple[Any, ...], Any]:
        across = self._across()
        return tuple(row[axis] for axis in self._down()), None if across is None else row[across]

    def _grid(self, title: str, unit: str, cells: Mapping[tuple[tuple[Any, ...], Any], Cell]) -> Grid:
        across, down, look = self._across(), self._down(), self.look
        order = {axis: {value: at for at, value in enumerate(self.study.axis(axis).values)} for axis in down}
        places = sorted(
            dict.fromkeys(place for place, _ in cells),
            key=lambda place: [
                order[axis].get(value, len(order[axis])) for axis, value in zip(down, place, strict=True)
            ],
        )
        present = {column for _, column in cells}
        columns = [None] if across is None else [v for v in self.study.axis(across).values if v in present]
        return Grid(
            title=title,
            unit=unit,
            down=[_with_unit(look.label(axis), look.units.get(axis, "")) for axis in down],
            across=["" if across is None else look.full_value(across, column) for column in columns],
            rows=[
                (
                    [look.value(axis, value) for axis, value in zip(down, place, strict=True)],
                    [cells.get((place, column), Cell("")) for column in columns],
                )
                for place in places
            ],
        )

    def _sentences(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        """Count the verdicts per value of the baseline's axis."""
        across = next(iter(self.baseline)) if len(self.baseline) == 1 else None
        groups: dict[Any, Counter[str]] = {}
        for row in rows:
            groups.setdefault(None if across is None else row[across], Counter())[row["verdict"]] += 1
        sentences = []
        for value, verdicts in groups.items():
            total = sum(verdicts.values())
            name = "" if across is None else f"{self.look.full_value(across, value)}: "
            counted = ", ".join(f"{verdict} at {count}" for verdict, count in verdicts.most_common())
            sentences.append(f"{name}{counted} of {total} point{'s' if total > 1 else ''}")
        return sentences

    def _more_of_mean(self, row: Mapping[str, Any], metric: Metric) -> str:
        if row["mean"] is None:
            return "no run has a value"
        parts = [f"{row['seeds']} seed{'s' if row['seeds'] > 1 else ''}"]
        if row["same"]:
            return f"{parts[0]}, {SAME}"
        for name, label in (("sd", "sd"), ("median", "median"), ("trimmed_mean", "trimmed mean")):
            if row[name] is not None:
                (text,), unit = estimate_texts(
                    [Estimate(row[name] * metric.scale, None, None, 2)], metric.shown_unit
                )
                parts.append(f"{label} {text} {unit}".rstrip())
        return "; ".join(parts)


def make_digest(
    study: Study,
    table: pl.DataFrame,
    *,
    metrics: Sequence[str] = (),
    x: str | None = None,
    lines: str | None = None,
    baseline: Mapping[str, str] | None = None,
    where: Mapping[str, str] | None = None,
) -> Digest:
    """Look at results, or at a part of them.

    Parameters
    ----------
    study : Study
        What was studied.
    table : polars.DataFrame
        Its tidy table.
    metrics : sequence of str
        Which metrics; all if empty.
    x, lines : str, optional
        Axis along x, and axis with a line per value; the study's own and the most fitting one if not given.
    baseline : mapping, optional
        Per axis the value that the others are compared with; the study's own if not given.
    where : mapping, optional
        Per axis the only value to look at.

    Raises
    ------
    ArgumentError
        For names that the study does not have, and if there is nothing to look at.
    """
    names = [axis.name for axis in study.axes]
    known = {metric.name: metric for metric in study.metrics}
    asked = [_metric_name(text, known) for text in metrics]
    for wish in (x, lines):
        if wish is not None:
            check_name("axis", wish, names)
    chosen = {axis: _find(study, axis, text, "--where") for axis, text in (where or {}).items()}
    table = _only(table, chosen)
    for axis in study.axes:
        if len(axis.values) == 1:
            chosen.setdefault(axis.name, axis.values[0])
    compared = dict(study.baseline)
    if baseline:
        compared = {axis: _find(study, axis, text, "--baseline") for axis, text in baseline.items()}
    compared = {axis: value for axis, value in compared.items() if axis not in chosen}
    free = [axis for axis in study.axes if axis.name not in chosen or axis.name in (x, lines)]
    # What the file says; `study.x` says something even if the file does not, and knows no units.
    own = study.content.get("x") if study.content.get("x") != lines else None
    x, lines = choose_axes(free, x or own, lines, compared)
    wanted = [known[name] for name in dict.fromkeys(asked)] or list(study.metrics)
    better = {metric.name: metric.higher_is_better for metric in wanted}
    return Digest(
        study=study,
        table=table,
        metrics=wanted,
        x=x,
        lines=lines,
        panels=[axis.name for axis in free if axis.name not in (x, lines)],
        baseline=compared,
        chosen={axis: value for axis, value in chosen.items() if axis not in (x, lines)},
        summary=summarise(table, names, [*better]),
        differences=differences(table, names, better, compared) if compared else None,
    )


def _metric_name(text: str, known: Mapping[str, Metric]) -> str:
    """Return the metric of a study that is meant: its name may lack the unit, or its end."""
    found = matching(text, known)
    if len(found) > 1:
        raise ArgumentError(
            f"metric {text!r} is ambiguous, it may be any of {', '.join(found)}: write one of them"
        )
    if not found:
        check_name("metric", text, known)
    return found[0]


def choose_axes(
    axes: Sequence[Axis], x: str | None, lines: str | None, baseline: Iterable[str]
) -> tuple[str | None, str | None]:
    """Choose what goes along x and what has a line per value.

    Without a wish, x is the numeric axis with most values, and the lines are the axis of the baseline, else
    the first axis of names, else the next.
    """
    names = [axis.name for axis in axes]
    if x is not None and x == lines:
        raise ArgumentError(f"axis {x!r} cannot be both along x and the lines: choose two axes")
    if x not in names:
        numeric = [axis for axis in axes if axis.name != lines and _is_numeric(axis)]
        others = [axis for axis in axes if axis.name != lines]
        best = max(numeric, key=lambda axis: len(axis.values), default=others[0] if others else None)
        x = None if best is None else best.name
    rest = [axis for axis in axes if axis.name != x]
    if lines is None and rest:
        fitting = [axis for axis in rest if axis.name in set(baseline)]
        fitting += [axis for axis in rest if not _is_numeric(axis)]
        lines = next(iter([*fitting, *rest])).name
    return x, lines


def _is_numeric(axis: Axis) -> bool:
    return axis.is_numeric or numbers_with_unit(axis.values) is not None


def numbers_with_unit(values: Sequence[Any]) -> tuple[dict[Any, float], str] | None:
    """Read values such as ``25 ms`` as numbers, if all have the same unit.

    Examples
    --------
    >>> numbers_with_unit(["10 ms", "25 ms"])
    ({'10 ms': 10.0, '25 ms': 25.0}, 'ms')
    >>> numbers_with_unit(["10 ms", "1 s"]) is None, numbers_with_unit(["reno", "vegas"]) is None
    (True, True)
    """
    matches = [WITH_UNIT.fullmatch(value) if isinstance(value, str) else None for value in values]
    numbers = {value: float(match[1]) for value, match in zip(values, matches, strict=True) if match}
    units = {match[2] for match in matches if match}
    if len(units) != 1 or len(set(numbers.values())) != len(matches):
        return None
    return numbers, units.pop()


def series_columns(series: pl.DataFrame, axes: Iterable[str]) -> list[str]:
    """Columns of a kept series that can be drawn over time."""
    from lasthop.extras import pl

    keys = KEYS_OF_SERIES | set(axes)
    if "time_s" not in series.columns:
        return []
    numeric = series.select(pl.selectors.numeric()).columns
    return [name for name in numeric if name not in keys]


def failed_rows(table: pl.DataFrame, axes: Sequence[str]) -> list[dict[str, Any]]:
    """Point, seed and error of every run that failed."""
    from lasthop.extras import pl

    if "state" not in table.columns:
        return []
    columns = [name for name in (*axes, "seed", "error") if name in table.columns]
    return table.filter(pl.col("state") == "failed").select(columns).to_dicts()


def _only(table: pl.DataFrame, chosen: Mapping[str, Any]) -> pl.DataFrame:
    from lasthop.extras import pl

    if table.is_empty():
        raise ArgumentError("nothing to look at: no run has finished; 'lasthop study run FILE' makes them")
    for axis, value in chosen.items():
        table = table.filter(pl.col(axis) == value)
        if table.is_empty():
            raise ArgumentError(f"nothing to look at: no run has {axis}={value} yet")
    if "state" in table.columns and not (table["state"] == "done").any():
        errors: Any = table["error"].drop_nulls() if "error" in table.columns else []
        first = f", the first with: {str(errors[0]).splitlines()[0]}" if len(errors) else ""
        raise ArgumentError(f"nothing to look at: all {table.height} runs failed{first}")
    return table


def _find(study: Study, axis: str, text: str, option: str) -> Value:
    """Return the value of an axis that a word of the command line means."""
    check_name("axis", axis, [one.name for one in study.axes])
    found = study.axis(axis)
    for value, label in zip(found.values, found.labels, strict=True):
        if text in (str(value), label):
            return value
    try:
        number = float(text)
    except ValueError:
        number = None
    if number is not None and found.is_numeric and number in found.values:
        return found.values[found.values.index(number)]
    import difflib

    known = [str(value) for value in found.values]
    near = difflib.get_close_matches(text, known, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ArgumentError(f"{option} {axis}={text}: {hint}{axis} is one of {', '.join(known)}")


def _estimate(row: Mapping[str, Any], name: str, scale: float) -> Estimate | None:
    if row[name] is None:
        return None
    return Estimate(row[name], row["low"], row["high"], row["seeds"]).scaled(scale)


def _relative(row: Mapping[str, Any]) -> Estimate | None:
    if row["relative"] is None:
        return None
    return Estimate(row["relative"], row["relative_low"], row["relative_high"], row["seeds"])


def _with_unit(label: str, unit: str) -> str:
    return f"{label} ({unit})" if unit else label
