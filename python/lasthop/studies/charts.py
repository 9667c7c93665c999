"""What the figures of a study show, worked out once for paper and screen: axes, scales, lines, intervals.

`plot` draws a `Chart` with matplotlib, `report` with plotly. Called by those two only; draws nothing itself.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from lasthop.drawing import COLOURS, MATPLOTLIB_DASHES, PLOTLY_DASHES
from lasthop.errors import ArgumentError
from lasthop.panels import whole_intervals
from lasthop.quantities import number_text, prefix_for
from lasthop.studies.statistics import check_columns, seeds_text, summarise

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import polars as pl

Scale = Literal["auto", "linear", "log"]

#: Told apart in print where colours are not.
MATPLOTLIB_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
PLOTLY_MARKERS = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "triangle-down",
    "cross",
    "x",
    "star",
)
#: More panels than this are not readable side by side.
PANELS_MAX = 24
#: From this many places along x on, intervals are bands and lines have no markers.
DENSE_FROM = 25
#: Bands of fewer seeds would hide the lines: with two, an interval is thirteen times the difference.
BAND_FROM = 5
#: Panels side by side; of lines over time, this many stand below each other first.
COLUMNS_MAX = 3
STACKED_MAX = 4
#: Points of a line over time.
TIMES_MAX = 400
#: An axis from one decade on is logarithmic if that spaces the values at least twice as evenly.
DECADE = 10
#: So far apart, values along y need a logarithmic axis.
LOGARITHMIC_Y_FROM = 200
#: Values that reach below this share of the largest are drawn from zero.
ZERO_BELOW = 0.55
#: Values are written on the axis if there are at most this many, not too close together.
TICKS_MAX = 12
TICK_GAP = 0.035


@dataclass(frozen=True, slots=True)
class Look:
    """How a figure is labelled and ordered; what is not given is taken from the table.

    Attributes
    ----------
    title : str
        Title; the metric's label if empty.
    labels : mapping
        Labels of axes and metrics, by name.
    units : mapping
        Units of axes and metrics, by name; those of metrics in bit/s and s get SI prefixes.
    most : mapping
        Largest possible values of metrics, by name: no axis goes beyond.
    order : mapping
        For an axis, its values in the order in which they are drawn; others are left out.
    names : mapping
        For an axis, how its values are called.
    x_scale, y_scale : str
        ``auto``, ``linear`` or ``log``.
    size_in : tuple of float
        Width and height of a figure with one panel, in inches.
    """

    title: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    most: Mapping[str, float] = field(default_factory=dict)
    order: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    names: Mapping[str, Mapping[Any, str]] = field(default_factory=dict)
    x_scale: Scale = "auto"
    y_scale: Scale = "auto"
    size_in: tuple[float, float] = (6.4, 4.0)

    def label(self, name: str) -> str:
        """Label of an axis or metric."""
        return self.labels.get(name) or name.replace("_", " ")

    def value(self, axis: str, value: Any) -> str:  # noqa: ANN401 - whatever an axis holds
        """Return what a value of an axis is called."""
        named = self.names.get(axis, {}).get(value)
        if named is not None:
            return named
        return number_text(value) if isinstance(value, float) else str(value)

    def full_value(self, axis: str, value: Any) -> str:  # noqa: ANN401 - whatever an axis holds
        """Return what a value is called where its axis is not in sight: numbers come with it."""
        text = self.value(axis, value)
        if not _is_number(value) or text != self.value("", value):
            return text
        return f"{self.label(axis)} {text} {self.units.get(axis, '')}".rstrip()


@dataclass(frozen=True, slots=True)
class Style:
    """Colour, dashes and marker of a line; no two of the first 24 lines are alike in all three."""

    place: int

    @property
    def colour(self) -> str:
        """Colour of Okabe and Ito's palette."""
        return COLOURS[self.place % len(COLOURS)]

    @property
    def _dash(self) -> int:
        return (self.place + self.place // len(COLOURS)) % len(MATPLOTLIB_DASHES)

    @property
    def matplotlib_dash(self) -> Any:  # noqa: ANN401 - as matplotlib takes it
        """Dashes for matplotlib."""
        return MATPLOTLIB_DASHES[self._dash]

    @property
    def plotly_dash(self) -> str:
        """Dashes for plotly."""
        return PLOTLY_DASHES[self._dash]

    @property
    def matplotlib_marker(self) -> str:
        """Marker for matplotlib."""
        return MATPLOTLIB_MARKERS[self.place % len(MATPLOTLIB_MARKERS)]

    @property
    def plotly_marker(self) -> str:
        """Marker for plotly."""
        return PLOTLY_MARKERS[self.place % len(PLOTLY_MARKERS)]


@dataclass(frozen=True, slots=True)
class Line:
    """One line: means with the ends of their intervals, `None` where there is none, in the chart's unit."""

    name: str
    style: Style
    x: list[float]
    mean: list[float | None]
    low: list[float | None]
    high: list[float | None]
    seeds: list[int]

    @property
    def has_intervals(self) -> bool:
        """Whether any point has an interval."""
        return any(end is not None for end in self.low)


@dataclass(frozen=True, slots=True)
class Panel:
    """One of the small multiples; a chart without them has one panel without a name."""

    name: str
    lines: list[Line]
    #: What a law says, for lines of the same names; without intervals.
    laws: list[Line] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure.

    Attributes
    ----------
    title, note : str
        What is shown, and how many seeds and what intervals.
    x_label, y_label : str
        With their units.
    categories : list of str
        Names along x if it is no number: then `Line.x` counts them from zero.
    ticks : list of float
        Where x is labelled; empty if the drawing may choose.
    x_log, y_log, from_zero : bool
        Scales; `from_zero` is whether y starts at zero, where intervals of what cannot be negative are cut.
    legend : str
        What the lines differ in; empty if their names say so.
    panels : list of Panel
        The small multiples.
    dense : bool
        Many points: bands rather than bars, no markers.
    """

    title: str
    note: str
    x_label: str
    y_label: str
    categories: list[str]
    ticks: list[float]
    x_log: bool
    y_log: bool
    from_zero: bool
    legend: str
    panels: list[Panel]
    dense: bool
    size_in: tuple[float, float]
    #: Largest value that is possible, as it is drawn.
    most: float | None = None

    @property
    def names(self) -> list[tuple[str, Style]]:
        """The lines of all panels, each once."""
        return list(dict.fromkeys((line.name, line.style) for panel in self.panels for line in panel.lines))

    @property
    def columns(self) -> int:
        """How many panels stand side by side."""
        if self.dense and len(self.panels) <= STACKED_MAX:
            return 1
        return min(len(self.panels), COLUMNS_MAX - 1 if self.dense else COLUMNS_MAX)

    @property
    def top(self) -> float:
        """Upper end of a y axis that starts at zero; bands beyond a third above the lines are cut."""
        means = [
            mean for panel in self.panels for line in panel.lines for mean in line.mean if mean is not None
        ]
        highs = [
            high for panel in self.panels for line in panel.lines for high in line.high if high is not None
        ]
        if self.most is not None:
            # Half an interval may lie beyond what is possible.
            highs = [min(high, self.most) for high in highs]
        said = [
            mean for panel in self.panels for line in panel.laws for mean in line.mean if mean is not None
        ]
        largest = max([*means, *highs, *said])
        if self.dense:
            largest = min(largest, 4 / 3 * max(means))
        if self.most is not None and largest <= self.most:
            return min(1.05 * largest, self.most) if largest > 0 else self.most
        return 1.05 * largest if largest > 0 else 1.0


def make_chart(
    table: pl.DataFrame,
    metric: str,
    x: str,
    lines: str | None = None,
    panels: Sequence[str] = (),
    look: Look | None = None,
    law: pl.DataFrame | None = None,
) -> Chart:
    """Work out the figure of one metric.

    Parameters
    ----------
    table : polars.DataFrame
        One row per point and seed, as `summarise` takes it.
    metric, x : str
        Columns along y and x.
    lines : str, optional
        Axis with a line per value.
    panels : sequence of str
        Axes with a panel per combination of values.
    look : Look, optional
        Labels, order and scales.
    law : polars.DataFrame, optional
        Predictions of a model for the metric, one row per point: the same axes, and the metric.

    Raises
    ------
    ArgumentError
        For names that the table does not have, nothing to draw, or too many panels.
    """
    look = look or Look()
    axes = list(dict.fromkeys([x, *([lines] if lines else []), *panels]))
    check_columns(table, axes, [metric])
    summary = summarise(table, axes, [metric], robust=False)
    if summary["mean"].null_count() == summary.height:
        raise ArgumentError(f"nothing to draw: no run has a value of {metric!r}")
    values = {axis: _in_order(summary, axis, look) for axis in axes}
    factor, unit = prefix_for(_typical(summary), look.units.get(metric, ""))
    numeric = all(_is_number(value) for value in values[x])
    places = {value: float(value) if numeric else float(index) for index, value in enumerate(values[x])}
    rows = {tuple(row[axis] for axis in axes): row for row in summary.iter_rows(named=True)}
    combinations = list(itertools.product(*(values[axis] for axis in panels)))
    said = (
        {}
        if law is None
        else {tuple(row[axis] for axis in axes): row for row in _law_rows(law, axes, metric)}
    )
    drawn: list[Panel] = []
    for combination in combinations:
        fixed = dict(zip(panels, combination, strict=True))
        of_panel = [
            _line(rows, axes, fixed | {lines: value} if lines else fixed, x, places, factor)
            for value in (values[lines] if lines else [None])
        ]
        named = [
            Line(look.value(lines, value) if lines else "", Style(place), *columns)
            for place, (value, columns) in enumerate(
                zip(values[lines] if lines else [None], of_panel, strict=True)
            )
            if any(mean is not None for mean in columns[1])
        ]
        if named:
            name = ", ".join(look.full_value(axis, value) for axis, value in fixed.items())
            lawful = [
                Line(
                    look.value(lines, value) if lines else "",
                    Style(place),
                    *_line(said, axes, fixed | {lines: value} if lines else fixed, x, places, factor),
                )
                for place, value in enumerate(values[lines] if lines else [None])
            ]
            shown = [line for line in lawful if any(mean is not None for mean in line.mean)]
            drawn.append(Panel(name, named, shown))
    if len(drawn) > PANELS_MAX:
        raise ArgumentError(
            f"{metric!r} would take {len(drawn)} panels, one for each value of {', '.join(panels)}: "
            "pick some with --where AXIS=VALUE"
        )
    seeds = [count for panel in drawn for line in panel.lines for count in line.seeds if count]
    dense = len(places) >= DENSE_FROM
    if dense and max(seeds) < BAND_FROM:
        drawn = [
            Panel(panel.name, [_without_intervals(line) for line in panel.lines], panel.laws)
            for panel in drawn
        ]
    known = sorted(places.values())
    means = [mean for panel in drawn for line in panel.lines for mean in line.mean if mean is not None]
    y_log = look.y_scale == "log" or (look.y_scale == "auto" and _needs_log_y(drawn))
    x_log = numeric and (look.x_scale == "log" or (look.x_scale == "auto" and _is_log(known)))
    return Chart(
        title=look.title or look.label(metric),
        note=_note(seeds, dense=dense),
        x_label=_with_unit(look.label(x), look.units.get(x, "")),
        y_label=_with_unit(look.label(metric), unit),
        categories=[] if numeric else [look.value(x, value) for value in values[x]],
        ticks=known if numeric and _fit(known, log=x_log) else [],
        x_log=x_log,
        y_log=y_log,
        from_zero=not y_log and 0 <= min(means) < ZERO_BELOW * max(means),
        legend=_legend(lines, values, look),
        panels=drawn,
        dense=dense,
        size_in=look.size_in,
        most=look.most[metric] / factor if metric in look.most else None,
    )


def make_series_chart(
    series: pl.DataFrame,
    column: str,
    lines: str | None = None,
    panels: Sequence[str] = (),
    look: Look | None = None,
    seed: int | None = None,
) -> Chart:
    """Work out the figure of a kept series over time: means over the seeds, or one seed.

    Parameters are those of `make_chart` and `over_time`. What would be the only lines become panels below
    each other: a queue that swings hides every other.
    """
    axes = [*([] if lines is None else [lines]), *panels]
    if lines is not None and not panels:
        panels, lines = [lines], None
    chart = make_chart(over_time(series, column, axes, seed), column, "time_s", lines, panels, look)
    return chart if seed is None else replace(chart, note=f"seed {seed}")


def over_time(
    series: pl.DataFrame, column: str, axes: Sequence[str], seed: int | None = None
) -> pl.DataFrame:
    """Make a kept series a table over `time_s`, thin enough to be drawn: means per bin.

    Parameters
    ----------
    series : polars.DataFrame
        The axes, ``seed``, ``time_s`` in s, the column, and ``link`` or ``flow`` if several are kept.
    column : str
        What to keep.
    axes : sequence of str
        Axes to keep.
    seed : int, optional
        The only seed to keep.

    Raises
    ------
    ArgumentError
        For names that the series does not have, or a seed without rows.
    """
    from lasthop.extras import pl

    check_columns(series, [*axes, "time_s"], [column])
    if seed is not None:
        seeds = series["seed"].unique().sort().to_list()
        if seed not in seeds:
            raise ArgumentError(f"the series has no seed {seed}: it has {', '.join(map(str, seeds))}")
        series = series.filter(pl.col("seed") == seed)
    times = series["time_s"].unique().sort()
    interval_s = float(times.diff().median() or 1.0)  # type: ignore[arg-type]
    bin_s = whole_intervals(float(times.max() or 1.0) / TIMES_MAX, interval_s)  # type: ignore[arg-type]
    return (
        series.with_columns((pl.col("time_s") / bin_s).round(6).ceil() * bin_s)
        .group_by([*axes, "seed", "time_s"], maintain_order=True)
        .agg(pl.col(column).cast(pl.Float64).mean())
        .sort("time_s", maintain_order=True)
    )


def _law_rows(law: pl.DataFrame, axes: Sequence[str], metric: str) -> Iterable[dict[str, Any]]:
    """Return predictions as `_line` reads them: means over axes that are not shown, no intervals."""
    from lasthop.extras import pl

    means = law.group_by(axes, maintain_order=True).agg(pl.col(metric).mean().alias("mean"))
    for row in means.iter_rows(named=True):
        yield row | {"low": None, "high": None, "seeds": 0}


def _line(
    rows: Mapping[tuple[Any, ...], Mapping[str, Any]],
    axes: Sequence[str],
    fixed: Mapping[str, Any],
    x: str,
    places: Mapping[Any, float],
    factor: float,
) -> tuple[list[float], list[float | None], list[float | None], list[float | None], list[int]]:
    points = [
        (place, rows.get(tuple((dict(fixed) | {x: value})[axis] for axis in axes)))
        for value, place in places.items()
    ]
    found = [(place, row) for place, row in points if row is not None]

    def column(name: str) -> list[float | None]:
        return [None if row[name] is None else row[name] / factor for _, row in found]

    return (
        [place for place, _ in found],
        column("mean"),
        column("low"),
        column("high"),
        [row["seeds"] for _, row in found],
    )


def _in_order(summary: pl.DataFrame, axis: str, look: Look) -> list[Any]:
    """Return the values of an axis: as asked for, else numbers by size and names as they come."""
    present = summary[axis].unique(maintain_order=True).to_list()
    wanted = look.order.get(axis)
    if wanted is not None:
        kept = [value for value in wanted if value in present]
        if kept:
            return sorted(kept) if all(_is_number(value) for value in kept) and axis == "time_s" else kept
    return sorted(present) if all(_is_number(value) for value in present) else present


def _typical(summary: pl.DataFrame) -> float:
    """Return the size that chooses the SI prefix: that of the largest mean."""
    largest = summary["mean"].abs().max()
    return float(largest) if isinstance(largest, (int, float)) else 0.0


def _is_log(values: Sequence[float]) -> bool:
    """Whether values along x spread over decades, so that only a logarithmic axis spaces them evenly.

    Examples
    --------
    >>> _is_log([1, 10, 100, 1000]), _is_log([1, 2, 4, 8, 16, 32]), _is_log([1, 10, 20, 40, 80])
    (True, True, False)
    """
    if len(values) < 3 or values[0] <= 0 or values[-1] < DECADE * values[0]:  # noqa: PLR2004 - two have one gap
        return False
    return 2 * _unevenness([math.log(value) for value in values]) < _unevenness(values)


def _unevenness(values: Sequence[float]) -> float:
    """Coefficient of variation of the gaps."""
    gaps = [later - earlier for earlier, later in itertools.pairwise(values)]
    mean = sum(gaps) / len(gaps)
    return math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) / mean


def _needs_log_y(panels: Sequence[Panel]) -> bool:
    means = [mean for panel in panels for line in panel.lines for mean in line.mean if mean is not None]
    lows = [low for panel in panels for line in panel.lines for low in line.low if low is not None]
    return min([*means, *lows]) > 0 and max(means) > LOGARITHMIC_Y_FROM * min(means)


def _fit(values: Sequence[float], *, log: bool) -> bool:
    """Whether every value can be written on the axis."""
    if len(values) > TICKS_MAX:
        return False
    if len(values) == 1:
        return True
    shown = [math.log(value) for value in values] if log else values
    gaps = [later - earlier for earlier, later in itertools.pairwise(shown)]
    return min(gaps) >= TICK_GAP * (shown[-1] - shown[0])


def _legend(lines: str | None, values: Mapping[str, Sequence[Any]], look: Look) -> str:
    """Return what the lines differ in, if their names alone do not say so: numbers do not."""
    if lines is None or not all(_is_number(value) for value in values[lines]):
        return ""
    return _with_unit(look.label(lines), look.units.get(lines, ""))


def _without_intervals(line: Line) -> Line:
    nothing: list[float | None] = [None] * len(line.x)
    return replace(line, low=nothing, high=nothing)


def _note(seeds: Sequence[int], *, dense: bool) -> str:
    if max(seeds, default=0) <= 1:
        return "one seed: no intervals"
    if dense and max(seeds) < BAND_FROM:
        return f"mean of {seeds_text(seeds)}: too few for intervals over time"
    return f"mean of {seeds_text(seeds)}; {'bands' if dense else 'bars'}: 95 % interval"


def _with_unit(label: str, unit: str) -> str:
    return f"{label} ({unit})" if unit else label


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
