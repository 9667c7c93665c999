"""Figures: a run over time (window, queue, throughput, RTT), and a comparison (a bar per transport).

matplotlib draws PNG, SVG and PDF; plotly draws HTML that needs no network. Both show the same `Panel`s,
worked out here once. Called by `Run.plot`, `Comparison.plot` and `lasthop plot`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop import stats
from lasthop.errors import ArgumentError
from lasthop.output import check_file, replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lasthop.comparison import Comparison, Metric
    from lasthop.results import Run

STATIC_FORMATS = (".png", ".svg", ".pdf")
ALL_FORMATS = (*STATIC_FORMATS, ".html")

# Okabe and Ito's palette without its yellow (too pale on white): told apart with every common colour
# blindness. Line styles differ too, for print in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MATPLOTLIB_DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 2)),
    (0, (1, 1.2)),
    (0, (5, 1.5, 1, 1.5)),
    (0, (9, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
)
PLOTLY_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
GREY = "#9A9A9A"

#: More flows than this are not all drawn in colour.
COLOURED_MAX = 6
#: Links in the queue panel.
QUEUES_MAX = 3
#: Spread of the values from which an axis without zero is logarithmic.
LOGARITHMIC_FROM = 8
#: Links whose mean queue is below this share of the longest are not drawn.
QUEUE_SHARE_MIN = 0.05
#: So many grey lines at most; beyond, a band that holds eight of ten flows.
GREY_MAX = 60
#: Points per line; more would only be a blur.
POINTS_MAX = 600
RATE_POINTS = 120
#: Share of a bin by which times may be off without falling into the next.
ROUNDING = 1e-6


@dataclass(slots=True)
class Line:
    """One line of a panel; grey ones have no name."""

    name: str
    x: list[float]
    y: list[float | None]
    style: int | None


@dataclass(slots=True)
class Panel:
    """One quantity over time."""

    title: str
    unit: str
    lines: list[Line] = field(default_factory=list)
    band: tuple[list[float], list[float | None], list[float | None]] | None = None
    #: The lines are links rather than flows: another legend, and values that jump.
    links: bool = False
    #: The axis starts at zero; else where the values do, with a logarithmic scale if they span decades.
    from_zero: bool = True

    @property
    def logarithmic(self) -> bool:
        """Whether single large values would press all others flat on a linear axis."""
        values = [value for line in self.lines for value in line.y if value]
        return not self.from_zero and bool(values) and max(values) > LOGARITHMIC_FROM * min(values)


def plot_run(run: Run, *paths: str | Path) -> None:
    """Draw a run into each path; the ending chooses the format."""
    draw(paths, lambda: run_figure(run), lambda: run_page(run))


def plot_comparison(comparison: Comparison, *paths: str | Path) -> None:
    """Draw a comparison into each path; the ending chooses the format."""
    draw(paths, lambda: comparison_figure(comparison), lambda: comparison_page(comparison))


def check_paths(paths: Sequence[str | Path]) -> list[Path]:
    """Return the paths; each must end in a format that can be drawn and be writable."""
    checked = [Path(path) for path in paths]
    for path in checked:
        if path.suffix.lower() not in ALL_FORMATS:
            raise ArgumentError(
                f"cannot draw '{path}': its name must end in {', '.join(STATIC_FORMATS)} or .html"
            )
        check_file(path)
    return checked


def run_panels(run: Run) -> list[Panel]:
    """Work out what the four panels show."""
    flows, links = run.series, run.link_series
    picked = pick_flows(run.flows)
    interval_s = _interval_s(flows)
    bin_s = whole_intervals(run.duration_s / POINTS_MAX, interval_s)
    # Packets come one at a time: a rate per short interval would be all spikes.
    rate_bin_s = whole_intervals(run.duration_s / RATE_POINTS, interval_s)
    rate = Panel(f"throughput, mean over {rate_bin_s:.2g} s", "Mbit/s")
    return [
        _with_flows(Panel("cwnd", "segments"), flows, "cwnd_segments", picked, bin_s, 1.0),
        _queue_panel(run, links, bin_s),
        _with_flows(rate, flows, "throughput_bit_s", picked, rate_bin_s, 1e-6),
        _with_flows(Panel("RTT", "ms", from_zero=False), flows, "rtt_s", picked, bin_s, 1e3),
    ]


def pick_flows(flows: pl.DataFrame) -> dict[str, str]:
    """Names and labels of the flows to colour: all if few, else most, middle and least goodput."""
    if flows.height <= COLOURED_MAX:
        return {name: name for name in flows["name"]}
    ranked = flows.sort("goodput_bit_s", descending=True, nulls_last=True)["name"].to_list()
    picked = {"most goodput": ranked[0], "middle": ranked[len(ranked) // 2], "least goodput": ranked[-1]}
    return {name: f"{name} ({rank})" for rank, name in picked.items()}


def run_figure(run: Run) -> Figure:
    """Draw the four panels with matplotlib."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 9.0), layout="constrained")
    panels = run_panels(run)
    all_axes = figure.subplots(len(panels), 1, sharex=True)
    for place, (panel, axes) in enumerate(zip(panels, all_axes, strict=True)):
        # The flows look alike in every panel: one legend does.
        _draw_panel(axes, panel, legend=panel.links or place == 0)
    all_axes[-1].set_xlabel("time (s)")
    all_axes[-1].set_xlim(0, run.duration_s)
    figure.suptitle(_run_title(run), fontsize=11)
    return figure


def run_page(run: Run) -> Any:  # noqa: ANN401 - untyped
    """Draw the four panels with plotly."""
    from plotly.subplots import make_subplots

    panels = run_panels(run)
    titles = [f"{panel.title} ({panel.unit})" for panel in panels]
    page = make_subplots(
        rows=len(panels), cols=1, shared_xaxes=True, vertical_spacing=0.05, subplot_titles=titles
    )
    shown: set[str] = set()
    for row, panel in enumerate(panels, start=1):
        _add_panel(page, row, panel, shown)
        if panel.logarithmic:
            page.update_yaxes(type="log", dtick="D2", row=row)
    page.update_xaxes(range=[0, run.duration_s])
    page.update_xaxes(title_text="time (s)", row=len(panels))
    page.update_layout(title=_run_title(run), template="plotly_white", height=1050, hovermode="x")
    return page


def comparison_figure(comparison: Comparison) -> Figure:
    """Draw one panel per metric with matplotlib."""
    from matplotlib.figure import Figure

    metrics = comparison.metrics

    columns = 4
    rows = -(-len(metrics) // columns)
    figure = Figure(figsize=(12, 3.3 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, metric in zip(grid, metrics, strict=False):
        _draw_bars(axes, comparison, metric)
    for axes in grid[len(metrics) :]:
        axes.set_axis_off()
    figure.suptitle(_comparison_title(comparison), fontsize=11)
    return figure


def comparison_page(comparison: Comparison) -> Any:  # noqa: ANN401 - untyped
    """Draw one panel per metric with plotly."""
    from plotly.graph_objects import Bar
    from plotly.subplots import make_subplots

    metrics = comparison.metrics

    columns = 4
    rows = -(-len(metrics) // columns)
    titles = [_metric_title(comparison, metric)[0] for metric in metrics]
    page = make_subplots(rows=rows, cols=columns, subplot_titles=titles, horizontal_spacing=0.06)
    for index, metric in enumerate(metrics):
        _, factor = _metric_title(comparison, metric)
        means, errors = _bars(comparison, metric, factor)
        colours = [COLOURS[place % len(COLOURS)] for place in range(len(means))]
        bars = Bar(
            x=comparison.transports,
            y=means,
            error_y={"type": "data", "array": errors},
            marker_color=colours,
            showlegend=False,
            name=metric.label,
        )
        page.add_trace(bars, row=index // columns + 1, col=index % columns + 1)
    page.update_layout(title=_comparison_title(comparison), template="plotly_white", height=380 * rows)
    return page


def draw(paths: Sequence[str | Path], figure: Callable[[], Figure], page: Callable[[], Any]) -> None:
    """Draw into each path what `figure` makes with matplotlib, or for HTML what `page` makes with plotly."""
    drawn: Figure | None = None
    for path in check_paths(paths):
        if path.suffix.lower() == ".html":
            html = page().to_html(include_plotlyjs=True, full_html=True, config={"displaylogo": False})
            with replacing(path) as temporary:
                temporary.write_text(html, encoding="utf-8")
            continue
        drawn = drawn or figure()
        with replacing(path) as temporary:
            save_figure(drawn, temporary)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure; the same figure gives the same bytes."""
    import matplotlib as mpl

    # Without a date and with a fixed salt, the same run gives the same file.
    dateless: dict[str, Any] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(
        path.suffix.lower(), {}
    )
    with mpl.rc_context({"svg.hashsalt": "lasthop"}):
        figure.savefig(path, dpi=150, metadata=dateless)


def _with_flows(
    panel: Panel, series: pl.DataFrame, column: str, picked: dict[str, str], bin_s: float, factor: float
) -> Panel:
    """Fill a panel with one column of the flow series: some flows in colour, the others in grey."""
    import polars as pl

    thin = _thinned(series.select("time_s", "flow", pl.col(column).alias("value") * factor), "flow", bin_s)
    per_flow = {str(name): table for (name,), table in thin.partition_by("flow", as_dict=True).items()}
    rest = [name for name in per_flow if name not in picked]
    if len(rest) > GREY_MAX:
        others = (
            thin.filter(~pl.col("flow").is_in(list(picked)))
            .group_by("time_s")
            .agg(
                pl.col("value").quantile(0.1).alias("low"),
                pl.col("value").quantile(0.9).alias("high"),
            )
            .sort("time_s")
        )
        panel.band = others["time_s"].to_list(), others["low"].to_list(), others["high"].to_list()
    else:
        panel.lines += [_line("", per_flow[name], None) for name in rest]
    panel.lines += [
        _line(label, per_flow[name], style)
        for style, (name, label) in enumerate(picked.items())
        if name in per_flow
    ]
    return panel


def _queue_panel(run: Run, series: pl.DataFrame, bin_s: float) -> Panel:
    """Panel of the links that queue most: at most three, and none far below the first."""
    import polars as pl

    panel = Panel("queue", "packets", links=True)
    ranked = run.links.sort("avg_queue_packets", descending=True, nulls_last=True).head(QUEUES_MAX)
    queue = pl.col("avg_queue_packets").fill_null(0)
    fullest = ranked.filter(queue >= queue.max() * QUEUE_SHARE_MIN)["name"].to_list()
    named = series.select("time_s", "link", pl.col("queue_packets").cast(pl.Float64).alias("value"))
    thin = _thinned(named.filter(pl.col("link").is_in(fullest)), "link", bin_s)
    for style, name in enumerate(fullest):
        panel.lines.append(_line(name, thin.filter(pl.col("link") == name), style))
    return panel


def _thinned(series: pl.DataFrame, key: str, bin_s: float) -> pl.DataFrame:
    """Mean per bin, in order of time; a row's time, and a bin's, is the end of its interval."""
    import polars as pl

    return (
        series.with_columns((pl.col("time_s") / bin_s - ROUNDING).ceil() * bin_s)
        .group_by("time_s", key)
        .agg(pl.col("value").mean())
        .sort("time_s", key)
    )


def whole_intervals(wanted_s: float, interval_s: float) -> float:
    """Return the wanted bin, made a whole number of intervals."""
    return max(1, math.ceil(wanted_s / interval_s - ROUNDING)) * interval_s


def _line(name: str, table: pl.DataFrame, style: int | None) -> Line:
    return Line(name, table["time_s"].to_list(), table["value"].to_list(), style)


def _interval_s(series: pl.DataFrame) -> float:
    times = series["time_s"].unique().sort()
    return float(times[1] - times[0]) if len(times) > 1 else 1.0


def _draw_panel(axes: Axes, panel: Panel, *, legend: bool) -> None:
    if panel.band is not None:
        x, low, high = panel.band
        axes.fill_between(x, _gaps(low), _gaps(high), color=GREY, alpha=0.35, lw=0, label="8 of 10 others")
    grey = True
    for line in panel.lines:
        if line.style is None:
            axes.plot(line.x, _gaps(line.y), color=GREY, lw=0.5, alpha=0.5, label="others" if grey else None)
            grey = False
            continue
        axes.plot(
            line.x,
            _gaps(line.y),
            color=COLOURS[line.style % len(COLOURS)],
            linestyle=MATPLOTLIB_DASHES[line.style % len(MATPLOTLIB_DASHES)],
            lw=0.8 if panel.links else 1.2,
            drawstyle="steps-pre" if panel.links else "default",
            label=line.name,
        )
    axes.set_ylabel(f"{panel.title.split(',')[0]} ({panel.unit})")
    if "," in panel.title:
        axes.set_title(panel.title, fontsize=9, loc="left")
    if panel.from_zero:
        axes.set_ylim(bottom=0)
    if panel.logarithmic:
        _use_logarithmic(axes)
    axes.grid(visible=True, color="#E6E6E6", lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    if legend:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, frameon=False)


def _use_logarithmic(axes: Axes) -> None:
    from matplotlib.ticker import LogLocator, NullLocator, ScalarFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(ScalarFormatter())


def _add_panel(page: Any, row: int, panel: Panel, shown: set[str]) -> None:  # noqa: ANN401 - untyped
    from plotly.graph_objects import Scatter

    if panel.band is not None:
        x, low, high = panel.band
        edge = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "legendgroup": "others"}
        page.add_trace(Scatter(x=x, y=low, showlegend=False, **edge), row=row, col=1)
        page.add_trace(
            Scatter(
                x=x,
                y=high,
                fill="tonexty",
                fillcolor="rgba(154,154,154,0.35)",
                name="8 of 10 others",
                showlegend="others" not in shown,
                **edge,
            ),
            row=row,
            col=1,
        )
        shown.add("others")
    for line in panel.lines:
        name = line.name or "others"
        if panel.links:
            name = f"queue: {name}"
        look = (
            {"color": GREY, "width": 0.6}
            if line.style is None
            else {
                "color": COLOURS[line.style % len(COLOURS)],
                "dash": PLOTLY_DASHES[line.style % len(PLOTLY_DASHES)],
                "width": 1.0 if panel.links else 1.6,
            }
        )
        trace = Scatter(
            x=line.x,
            y=line.y,
            mode="lines",
            line=look | ({"shape": "vh"} if panel.links else {}),
            opacity=0.5 if line.style is None else 1.0,
            name=name,
            legendgroup=name,
            showlegend=name not in shown,
            hoverinfo="skip" if line.style is None else None,
        )
        page.add_trace(trace, row=row, col=1)
        shown.add(name)


def _draw_bars(axes: Axes, comparison: Comparison, metric: Metric) -> None:
    title, factor = _metric_title(comparison, metric)
    means, errors = _bars(comparison, metric, factor)
    colours = [COLOURS[index % len(COLOURS)] for index in range(len(means))]
    axes.bar(comparison.transports, means, yerr=errors, color=colours, capsize=4, width=0.7)
    axes.set_title(title, fontsize=9, loc="left")
    # Head room, so that no bar runs into the remark above it.
    highest = max(mean + error for mean, error in zip(means, errors, strict=True))
    axes.set_ylim(0, 1.12 * highest if highest > 0 else 1)
    axes.tick_params(labelsize=8)
    if len(means) > 4:  # noqa: PLR2004 - more labels than fit side by side
        axes.tick_params(axis="x", rotation=30)
    axes.grid(visible=True, axis="y", color="#E6E6E6", lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.text(
        1.0,
        1.0,
        "higher is better" if metric.higher_is_better else "lower is better",
        transform=axes.transAxes,
        ha="right",
        va="top",
        fontsize=7,
        color="#666666",
    )


def _bars(comparison: Comparison, metric: Metric, factor: float) -> tuple[list[float], list[float]]:
    """Return the height and the half interval of each transport's bar."""
    estimates = [
        stats.estimate(comparison.values(transport, metric.key)) for transport in comparison.transports
    ]
    means = [0.0 if one is None else one.mean / factor for one in estimates]
    errors = [0.0 if one is None else (one.half_width or 0.0) / factor for one in estimates]
    return means, errors


def _metric_title(comparison: Comparison, metric: Metric) -> tuple[str, float]:
    from lasthop.tables import prefix_for

    values = [stats.mean(comparison.values(transport, metric.key)) for transport in comparison.transports]
    factor, unit = prefix_for(
        max((abs(value) for value in values if value is not None), default=0.0), metric.unit
    )
    return f"{metric.label} ({unit})" if unit else metric.label, factor


def _comparison_title(comparison: Comparison) -> str:
    seeds = len(comparison.seeds)
    count = f"mean over {seeds} seeds with 95 % interval" if seeds > 1 else "one seed"
    return f"{comparison.scenario.get('name', 'scenario')}: {count}"


def _run_title(run: Run) -> str:
    goodput = run.totals["goodput_bit_s"]
    total = "" if goodput is None else f", goodput of all flows {goodput / 1e6:.3g} Mbit/s"
    return f"{run.scenario.get('name', 'scenario')}, seed {run.seed}{total}"


def _gaps(values: Sequence[float | None]) -> list[float]:
    """Missing values become gaps in the line."""
    return [float("nan") if value is None else value for value in values]
