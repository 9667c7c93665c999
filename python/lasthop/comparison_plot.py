"""Figures of a comparison: a panel per metric, a dot per transport, the baseline as a line.

The interval at a dot is that of the paired difference to the baseline: where it is clear of the line, a
difference is shown. Axes do not start at zero: what differs by a few per cent is to be seen. Called by
`lasthop.plot`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lasthop import stats
from lasthop.drawing import COLOURS, INK, styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lasthop.columns import Metric
    from lasthop.comparison import Comparison

COLUMNS = 3
#: Height of a panel without its dots, and of a dot, in inches.
AROUND = 0.85
PER_DOT = 0.24
#: Room beside the outermost mark, as a share of what is drawn.
MARGIN = 0.08
BETTER = {True: "→ better", False: "better ←", None: ""}


@dataclass(frozen=True, slots=True)
class Dot:
    """Where a transport stands in a panel, in the panel's unit.

    Attributes
    ----------
    name : str
        The transport.
    value : float or None
        The baseline's mean, or that plus the paired difference; `None` where nothing was measured.
    low, high : float or None
        The same for the ends of the interval of the difference; of the baseline there are none.
    """

    name: str
    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Panel:
    """One metric: its dots, the baseline's value, and what a closed form says."""

    title: str
    better: bool | None
    dots: tuple[Dot, ...]
    baseline: float | None
    levels: dict[str, float]

    @property
    def range(self) -> tuple[float, float]:
        """From where to where the axis goes."""
        ends = [end for dot in self.dots for end in (dot.value, dot.low, dot.high) if end is not None] + list(
            self.levels.values()
        )
        least, most = min(ends, default=0.0), max(ends, default=1.0)
        # Where all agree, their size says what would be much.
        margin = (most - least) * MARGIN or abs(most) * MARGIN or 1.0
        return least - margin, most + margin


def panel_of(comparison: Comparison, metric: Metric) -> Panel:
    """Return what the panel of a metric shows."""
    from lasthop.quantities import prefix_for

    means = {name: stats.mean(comparison.values(name, metric.key)) for name in comparison.transports}
    factor, unit = prefix_for(
        max((abs(value) for value in means.values() if value is not None), default=0.0), metric.shown_unit
    )
    baseline = means[comparison.baseline]
    dots = []
    for name in comparison.transports:
        value, low, high = means[name], None, None
        if name != comparison.baseline and baseline is not None:
            found = comparison.difference(metric, name, comparison.baseline).estimate
            if found is not None:
                value = baseline + found.mean
                if found.low is not None and found.high is not None and not comparison.same:
                    low, high = (baseline + found.low) / factor, (baseline + found.high) / factor
        dots.append(Dot(name, None if value is None else value / factor, low, high))
    levels = {}
    if comparison.promises is not None:
        said = {name: comparison.promises.of_metric(name, metric) for name in comparison.transports}
        levels = {name: value / factor for name, value in said.items() if value is not None}
    title = f"{metric.label} ({unit})" if unit else metric.label
    line = None if baseline is None else baseline / factor
    return Panel(title, metric.higher_is_better, tuple(dots), line, levels)


def figure_of(comparison: Comparison) -> Figure:
    """Draw one panel per metric with matplotlib."""
    from matplotlib.figure import Figure

    panels = [panel_of(comparison, metric) for metric in comparison.metrics]
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    high = (AROUND + PER_DOT * len(comparison.transports)) * rows + 0.4
    figure = Figure(figsize=(4.0 * columns, high), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    chosen = styles(comparison.transports)
    for place, (axes, panel) in enumerate(zip(grid, panels, strict=False)):
        _draw(axes, panel, chosen, named=place % columns == 0)
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    figure.suptitle(_title(comparison), fontsize=11)
    return figure


def _draw(axes: Axes, panel: Panel, chosen: dict[str, int], *, named: bool) -> None:
    if panel.baseline is not None:
        axes.axvline(panel.baseline, color="#9A9A9A", lw=0.9, zorder=1)
    places = {dot.name: -place for place, dot in enumerate(panel.dots)}
    for dot in panel.dots:
        colour = COLOURS[chosen[dot.name] % len(COLOURS)]
        if dot.low is not None and dot.high is not None:
            axes.plot([dot.low, dot.high], [places[dot.name]] * 2, color=colour, lw=2, solid_capstyle="butt")
        if dot.value is not None:
            axes.plot([dot.value], [places[dot.name]], "o", color=colour, markersize=5)
    for name, level in panel.levels.items():
        axes.plot([level], [places[name]], "|", color=INK, markersize=11, mew=1.6)
    axes.set_title(panel.title, fontsize=9, loc="left")
    axes.set_title(BETTER[panel.better], fontsize=7, loc="right", color="#666666")
    axes.set_xlim(*panel.range)
    axes.set_ylim(0.6 - len(panel.dots), 0.6)
    axes.set_yticks(list(places.values()), list(places) if named else [""] * len(places))
    axes.tick_params(labelsize=8, length=0, axis="y")
    axes.tick_params(labelsize=8, axis="x")
    axes.locator_params(axis="x", nbins=5)
    axes.grid(visible=True, axis="x", color="#E6E6E6", lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)


def page_of(comparison: Comparison) -> Any:  # noqa: ANN401 - untyped
    """Draw one panel per metric with plotly."""
    from plotly.graph_objects import Scatter
    from plotly.subplots import make_subplots

    panels = [panel_of(comparison, metric) for metric in comparison.metrics]
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    titles = [f"{panel.title}  {BETTER[panel.better]}" for panel in panels]
    page = make_subplots(
        rows=rows, cols=columns, subplot_titles=titles, horizontal_spacing=0.08, vertical_spacing=0.3 / rows
    )
    chosen = styles(comparison.transports)
    for index, panel in enumerate(panels):
        place = {"row": index // columns + 1, "col": index % columns + 1}
        known = [dot for dot in panel.dots if dot.value is not None]
        dots = Scatter(
            x=[dot.value for dot in known],
            y=[dot.name for dot in known],
            mode="markers",
            error_x={
                "type": "data",
                "symmetric": False,
                "array": [0.0 if dot.high is None else dot.high - (dot.value or 0.0) for dot in known],
                "arrayminus": [0.0 if dot.low is None else (dot.value or 0.0) - dot.low for dot in known],
            },
            marker={"color": [COLOURS[chosen[dot.name] % len(COLOURS)] for dot in known], "size": 9},
            showlegend=False,
            name=panel.title,
        )
        page.add_trace(dots, **place)
        if panel.baseline is not None:
            page.add_vline(x=panel.baseline, line={"color": "#9A9A9A", "width": 1}, **place)
        if panel.levels:
            law = Scatter(
                x=list(panel.levels.values()),
                y=list(panel.levels),
                mode="markers",
                marker={"symbol": "line-ns", "size": 16, "line": {"width": 2, "color": INK}},
                showlegend=False,
                name="what the model says",
            )
            page.add_trace(law, **place)
        page.update_xaxes(range=list(panel.range), **place)
        page.update_yaxes(autorange="reversed", showticklabels=index % columns == 0, **place)
    high = 110 + (90 + 28 * len(comparison.transports)) * rows
    page.update_layout(title=_title(comparison).replace("\n", "<br>"), template="plotly_white", height=high)
    return page


def _title(comparison: Comparison) -> str:
    """Say what dots, lines and intervals are."""
    told = comparison_title(comparison, "strokes", bars_are_of_means=False)
    if len(comparison.transports) == 1:
        return told
    means = f"{told}; line: {comparison.baseline}"
    if len(comparison.seeds) == 1 or comparison.same:
        return means
    # In two lines: the second says what the bars are.
    return f"{means}\nbars: 95 % interval of the difference from {comparison.baseline}, seed by seed"


def comparison_title(
    comparison: Comparison, law_is: str = "dotted", *, bars_are_of_means: bool = True
) -> str:
    """Say how many seeds a figure of a comparison has, and how a model is drawn in it."""
    seeds = len(comparison.seeds)
    interval = " with 95 % interval" if bars_are_of_means else ""
    if comparison.same:
        interval = f"; {stats.SAME}"
    count = f"mean over {seeds} seeds{interval}" if seeds > 1 else "one seed"
    law = ""
    if comparison.promises is not None:
        from lasthop.laws import find

        law = f"; {law_is}: {find(comparison.promises.law).label}"
    return f"{comparison.scenario.get('name', 'scenario')}: {count}{law}"
