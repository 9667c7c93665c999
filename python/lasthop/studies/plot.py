"""Figures of studies: one per metric, with intervals, readable in grey and by the colour-blind.

Called by `lasthop study plot`, by the report of a paper, and from notebooks. What is drawn is worked out in
`charts`; here it becomes a picture.
"""

from __future__ import annotations

import html
import io
import itertools
import math
from typing import TYPE_CHECKING, Any

from lasthop import for_paper
from lasthop.drawing import literal
from lasthop.drawing import save_figure as save_vectors
from lasthop.files import replacing
from lasthop.quantities import number_text
from lasthop.studies.charts import Chart, Line, Look, make_chart, make_series_chart

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, FAINT, RULE = "#222222", "#666666", "#E6E6E6"
#: Width and height of one of several panels, in inches.
PANEL_IN = (2.5, 2.2)
STACKED_IN = (5.2, 1.25)
#: Height of a line of the direct legend in inches.
LEGEND_LINE_IN = 0.17
#: Height of title and note in inches.
HEAD_IN = 0.5
#: Of a page: from the axis to the legend below its label, and to the lower edge, in CSS pixels.
LEGEND_BELOW_PX, BOTTOM_PX = 55, 90
#: What may be done with a figure of a page; nothing that would need a network.
PAGE_CONFIG = {
    "displaylogo": False,
    "responsive": True,
    "modeBarButtons": [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
}
#: Share of the gap between two names along x that the lines take side by side.
SPREAD = 0.55
#: Half the length of the stroke of a prediction, where x is no number.
LAW_REACH = 0.06
#: Share of the axis by which lines over numbers are moved to either side, so that their bars stand apart.
HAIR = 0.007


def draw_metric(
    table: pl.DataFrame,
    metric: str,
    x: str,
    lines: str | None = None,
    panels: Sequence[str] = (),
    look: Look | None = None,
) -> Figure:
    """Draw one metric of a study.

    Parameters
    ----------
    table : polars.DataFrame
        One row per point and seed, as ``StudyResult.table``; filter it first to draw a part.
    metric, x : str
        Columns along y and x. Text along x is drawn as points side by side.
    lines : str, optional
        Axis with a line per value, each with a colour, dashes and marker of its own.
    panels : sequence of str
        Axes with a panel per combination of values.
    look : Look, optional
        Title, labels, units, order and names of the values, scales, size.

    Raises
    ------
    ArgumentError
        For names that the table does not have, nothing to draw, or too many panels.

    Examples
    --------
    >>> import polars as pl
    >>> table = pl.DataFrame({"n": [1, 1, 2, 2], "seed": [1, 2, 1, 2], "goodput": [1.0, 2.0, 2.0, 4.0]})
    >>> figure = draw_metric(table, "goodput", "n", look=Look(title="Goodput", units={"goodput": "bit/s"}))
    >>> figure.axes[0].get_ylabel()
    'goodput (bit/s)'
    """
    return draw_chart(make_chart(table, metric, x, lines, panels, look))


def draw_series(
    series: pl.DataFrame,
    column: str,
    lines: str | None = None,
    panels: Sequence[str] = (),
    look: Look | None = None,
    *,
    seed: int | None = None,
) -> Figure:
    """Draw a kept series over time: the mean over the seeds with its interval, or one seed.

    Parameters are those of `draw_metric`; `series` is what ``StudyResult.series`` returns. Lines become
    panels below each other if there are no panels otherwise.
    """
    return draw_chart(make_series_chart(series, column, lines, panels, look, seed))


def save_figure(figure: Figure, path: Path, *, dpi: int = 140, colours: int = 96) -> None:
    """Write a figure, whole or not at all; PNGs have a palette of few colours and are small.

    Parameters
    ----------
    figure : Figure
        What to write.
    path : path
        Ends in .png, .svg or .pdf.
    dpi : int
        Pixels per inch of a PNG.
    colours : int
        Colours of a PNG.
    """
    if path.suffix.lower() != ".png":
        with replacing(path) as temporary:
            save_vectors(figure, temporary)
        return
    from PIL import Image

    picture = io.BytesIO()
    with literal(figure):
        figure.savefig(picture, format="png", dpi=dpi, facecolor="white")
    palette = Image.open(picture).convert("RGB").quantize(colours, dither=Image.Dither.NONE)
    with replacing(path) as temporary:
        palette.save(temporary, format="PNG", optimize=True)


def draw_chart(chart: Chart) -> Figure:
    """Draw a chart with matplotlib."""
    several, columns = len(chart.panels) > 1, chart.columns
    rows = -(-len(chart.panels) // columns)
    figure = _empty_figure(chart, rows)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for axes, panel in zip(grid, chart.panels, strict=False):
        _draw_lines(axes, chart, panel.lines)
        _draw_laws(axes, chart, panel.laws)
        _set_scales(axes, chart)
        if panel.name:
            axes.set_title(panel.name, fontsize=9, loc="left", color=INK)
    for axes in grid[len(chart.panels) :]:
        axes.set_axis_off()
    # The panel below these, if any, is empty: they carry the numbers.
    for axes in grid[max(0, len(chart.panels) - columns) : len(chart.panels)]:
        axes.tick_params(labelbottom=True)
        axes.set_xlabel(chart.x_label, fontsize=9)
    y_label = chart.y_label.replace(", ", ",\n") if for_paper.is_paper() else chart.y_label
    if rows > 1:
        figure.supylabel(y_label, fontsize=9)
    else:
        grid[0].set_ylabel(y_label, fontsize=9)
    names = chart.names
    if len(names) < 2 and not any(name for name, _ in names):  # noqa: PLR2004 - one line needs no legend
        return figure
    axes_in = figure.get_size_inches()[1] - HEAD_IN - 0.7
    if several or for_paper.is_paper() or len(names) * LEGEND_LINE_IN > axes_in or chart.categories:
        _draw_legend(figure, chart)
    else:
        _draw_direct_legend(grid[0], chart, LEGEND_LINE_IN / axes_in)
    return figure


def _empty_figure(chart: Chart, rows: int) -> Figure:
    """Return a figure of the right size; with its head, unless it is for a paper."""
    from matplotlib.figure import Figure

    width, height = chart.size_in
    if len(chart.panels) > 1:
        panel_in = STACKED_IN if chart.columns == 1 else PANEL_IN
        width = max(width, chart.columns * panel_in[0] + 1.3)
        height = HEAD_IN + rows * panel_in[1] + 0.3
    if for_paper.is_paper():
        size = for_paper.size_of(len(chart.panels), chart.columns, (width, height - HEAD_IN))
        return Figure(figsize=size, layout="constrained")
    figure = Figure(figsize=(width, height), layout="constrained")
    _draw_head(figure, chart)
    return figure


def _draw_head(figure: Figure, chart: Chart) -> None:
    """Draw title and note above the axes; in a paper the caption has them."""
    width, height = figure.get_size_inches()
    figure.get_layout_engine().set(rect=(0, 0, 1, 1 - HEAD_IN / height))  # type: ignore[union-attr,call-arg]
    figure.text(0.1 / width, 1 - 0.07 / height, chart.title, fontsize=11, weight="bold", color=INK, va="top")
    figure.text(0.1 / width, 1 - 0.29 / height, chart.note, fontsize=8, color=FAINT, va="top")


def chart_page(chart: Chart, *, titled: bool = True) -> Any:  # noqa: ANN401 - untyped
    """Draw a chart with plotly, in the same colours, dashes and markers.

    Parameters
    ----------
    chart : Chart
        What to draw.
    titled : bool
        Whether title and note are part of the figure.
    """
    from plotly.subplots import make_subplots

    several = len(chart.panels) > 1
    columns = chart.columns
    rows = -(-len(chart.panels) // columns)
    page = make_subplots(
        rows=rows,
        cols=columns,
        shared_xaxes="all",
        shared_yaxes="all",
        horizontal_spacing=0.04,
        vertical_spacing=min(0.18, 0.45 / rows),
        subplot_titles=[html.escape(panel.name) for panel in chart.panels] if several else None,
    )
    for place, trace in _all_traces(chart):
        page.add_trace(trace, row=place // columns + 1, col=place % columns + 1)
    x_axis: dict[str, Any] = {"type": "log"} if chart.x_log else {}
    if chart.categories:
        names = [html.escape(name) for name in chart.categories]
        x_axis = {"tickvals": [*range(len(names))], "ticktext": names, "range": [-0.5, len(names) - 0.5]}
    elif chart.ticks:
        x_axis |= {"tickvals": chart.ticks, "ticktext": [number_text(tick) for tick in chart.ticks]}
    y_axis: dict[str, Any] = {"type": "log"} if chart.y_log else {}
    if chart.from_zero:
        y_axis["range"] = [0, chart.top]
    page.update_xaxes(showline=True, ticks="outside", zeroline=False, **x_axis)
    page.update_yaxes(showline=True, ticks="outside", **y_axis)
    for place in range(len(chart.panels)):
        row, column = place // columns + 1, place % columns + 1
        if place + columns >= len(chart.panels):
            page.update_xaxes(title_text=html.escape(chart.x_label), showticklabels=True, row=row, col=column)
        if column == 1:
            page.update_yaxes(title_text=html.escape(chart.y_label), row=row, col=column)
    title = f"<b>{html.escape(chart.title)}</b><br><sub>{html.escape(chart.note)}</sub>"
    top = (80 if titled else 35) + 20 * several
    height = (430 if rows == 1 else (190 if columns == 1 else 290) * rows) + top
    page.update_layout(
        template="plotly_white",
        title={"text": title, "x": 0.01, "xanchor": "left"} if titled else None,
        height=height,
        margin={"l": 70, "r": 15, "t": top, "b": BOTTOM_PX},
        hovermode="x" if not chart.categories and not several else "closest",
        legend={
            "title": {"text": html.escape(chart.legend)},
            "orientation": "h",
            "yanchor": "top",
            "y": -LEGEND_BELOW_PX / (height - top - BOTTOM_PX),
            "x": 0,
        },
        showlegend=any(name for name, _ in chart.names),
    )
    return page


def save_page(chart: Chart, path: Path) -> None:
    """Write a chart as a page of HTML that needs no network."""
    text = chart_page(chart).to_html(include_plotlyjs=True, full_html=True, config=PAGE_CONFIG)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _all_traces(chart: Chart) -> Iterator[tuple[int, Any]]:
    """Every line and model with the number of its panel; the legend names each line once."""
    shown: set[str] = set()
    for place, panel in enumerate(chart.panels):
        for line in panel.lines:
            for trace in _traces(chart, line, named=line.name not in shown):
                yield place, trace
            shown.add(line.name)
        for line in panel.laws:
            yield place, _law_trace(chart, line)


def _traces(chart: Chart, line: Line, *, named: bool) -> list[Any]:
    from plotly.graph_objects import Scatter

    style = line.style
    shared = {"name": html.escape(line.name) or html.escape(chart.y_label), "legendgroup": line.name}
    look = {"color": style.colour, "dash": style.plotly_dash, "width": 2}
    if chart.dense:
        traces = []
        if line.has_intervals:
            edge = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False} | shared
            red, green, blue = (int(style.colour[at : at + 2], 16) for at in (1, 3, 5))
            traces.append(Scatter(x=line.x, y=line.low, **edge))
            traces.append(
                Scatter(
                    x=line.x,
                    y=line.high,
                    fill="tonexty",
                    fillcolor=f"rgba({red},{green},{blue},0.2)",
                    **edge,
                )
            )
        return [*traces, Scatter(x=line.x, y=line.mean, mode="lines", line=look, showlegend=named, **shared)]
    shift = _shift(chart, line)
    error = {
        "type": "data",
        "symmetric": False,
        "array": _arms(line.mean, line.high),
        "arrayminus": _arms(line.mean, line.low),
        "thickness": 1.3,
        "width": 4,
    }
    return [
        Scatter(
            x=[place + shift for place in line.x],
            y=line.mean,
            error_y=error if line.has_intervals else None,
            mode="markers" if chart.categories else "lines+markers",
            line=look,
            marker={"symbol": style.plotly_marker, "size": 8, "color": style.colour},
            customdata=line.seeds,
            hovertemplate="%{y:.4g} (%{customdata} seeds)",
            showlegend=named,
            **shared,
        )
    ]


def _shift(chart: Chart, line: Line) -> float:
    """Return how far beside its name a line's points stand, so that no two lie on each other."""
    if not chart.categories or len(chart.names) < 2:  # noqa: PLR2004 - one line has the place to itself
        return 0.0
    last = max(style.place for _, style in chart.names)
    return SPREAD * (line.style.place / last - 0.5)


def _draw_lines(axes: Axes, chart: Chart, lines: Sequence[Line]) -> None:
    for line in lines:
        style = line.style
        mean = _gaps(line.mean)
        look: dict[str, Any] = {"color": style.colour, "zorder": 3}
        if chart.dense:
            axes.plot(line.x, mean, linestyle=style.matplotlib_dash, lw=1.2, **look)
            if line.has_intervals:
                low, high = _gaps(line.low), _gaps(line.high)
                axes.fill_between(line.x, low, high, color=style.colour, alpha=0.18, lw=0, zorder=2)
            continue
        axes.errorbar(
            _places(chart, line),
            mean,
            yerr=[_arms(line.mean, line.low), _arms(line.mean, line.high)] if line.has_intervals else None,
            linestyle="none" if chart.categories else style.matplotlib_dash,
            marker=style.matplotlib_marker,
            markersize=5.0 if style.matplotlib_marker != "*" else 7.0,
            markeredgecolor="white",
            markeredgewidth=0.5,
            lw=1.4,
            elinewidth=1.0,
            capsize=2.5,
            capthick=1.0,
            **look,
        )


def _draw_laws(axes: Axes, chart: Chart, laws: Sequence[Line]) -> None:
    """Draw the predictions of a model: dotted, or where x is no number a short stroke beside the point."""
    for line in laws:
        if chart.categories:
            places, mean = _places(chart, line), _gaps(line.mean)
            lows, highs = [at - LAW_REACH for at in places], [at + LAW_REACH for at in places]
            axes.hlines(mean, lows, highs, color=line.style.colour, linestyle=":", lw=1.6, zorder=2)
            continue
        axes.plot(line.x, _gaps(line.mean), color=line.style.colour, linestyle=":", lw=1.1, zorder=2)


def _law_trace(chart: Chart, line: Line) -> Any:  # noqa: ANN401 - untyped
    from plotly.graph_objects import Scatter

    colour = line.style.colour
    strokes = {"symbol": "line-ew", "size": 18, "line": {"width": 2, "color": colour}}
    return Scatter(
        x=[place + _shift(chart, line) for place in line.x],
        y=line.mean,
        mode="markers" if chart.categories else "lines",
        marker=strokes,
        line={"color": colour, "dash": "dot", "width": 1.2},
        name=f"law, {html.escape(line.name)}",
        legendgroup=line.name,
        showlegend=False,
        hovertemplate="%{y:.4g}",
    )


def _places(chart: Chart, line: Line) -> list[float]:
    """Return where a line's points stand: by a hair beside each other, so that no bar hides another."""
    if chart.categories or len(chart.names) < 2:  # noqa: PLR2004 - one line has the place to itself
        shift = _shift(chart, line)
        return [place + shift for place in line.x]
    known = sorted({place for panel in chart.panels for one in panel.lines for place in one.x})
    if chart.x_log:
        known = [math.log(place) for place in known]
    gaps = [later - earlier for earlier, later in itertools.pairwise(known)]
    if not gaps:
        return line.x
    reach = min(HAIR * (known[-1] - known[0]), min(gaps) / 6)
    shift = reach * (2 * line.style.place / max(style.place for _, style in chart.names) - 1)
    return [place * math.exp(shift) if chart.x_log else place + shift for place in line.x]


def _set_scales(axes: Axes, chart: Chart) -> None:
    from matplotlib.ticker import FuncFormatter, NullLocator

    if chart.categories:
        long = sum(map(len, chart.categories)) > 50  # noqa: PLR2004 - characters that fit side by side
        axes.set_xticks(
            range(len(chart.categories)),
            chart.categories,
            rotation=25 if long else 0,
            ha="right" if long else "center",
        )
        axes.set_xlim(-0.5, len(chart.categories) - 0.5)
        for border in range(1, len(chart.categories)):
            axes.axvline(border - 0.5, color=RULE, lw=0.6, zorder=1)
    elif chart.x_log:
        axes.set_xscale("log")
    elif chart.dense:
        axes.margins(x=0.01)
    if chart.ticks:
        axes.set_xticks(chart.ticks, [number_text(tick) for tick in chart.ticks])
        axes.xaxis.set_minor_locator(NullLocator())
    elif chart.x_log:
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))
    if chart.y_log:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))
    elif chart.from_zero:
        axes.set_ylim(0, chart.top)
    axes.tick_params(labelsize=8, color=FAINT)
    axes.grid(visible=True, axis="y" if chart.categories else "both", color=RULE, lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)


def _draw_legend(figure: Figure, chart: Chart) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [],
            [],
            color=style.colour,
            linestyle="none" if chart.categories else style.matplotlib_dash,
            marker="none" if chart.dense else style.matplotlib_marker,
            markersize=5.5,
            markeredgecolor="white",
            markeredgewidth=0.5,
            lw=1.4,
            label=name,
        )
        for name, style in chart.names
    ]
    # In a paper a legend at the side would take a third of a column.
    width = for_paper.legend_columns([name for name, _ in chart.names], figure.get_size_inches()[0])
    above: dict[str, Any] = {"loc": "outside upper left", "ncols": width, "columnspacing": 1.0}
    place = above if for_paper.is_paper() else {"loc": "outside right upper"}
    figure.legend(
        handles=handles,
        fontsize=8.5,
        title=chart.legend or None,
        title_fontsize=8.5,
        frameon=False,
        handlelength=1.2 if chart.categories else 3.2,
        alignment="left",
        **place,
    )


def _draw_direct_legend(axes: Axes, chart: Chart, line_height: float) -> None:
    """Name each line at its right end, with a sample of it; names that would overlap move apart."""
    from matplotlib.lines import Line2D

    ends: list[tuple[float, Line]] = []
    for line in chart.panels[0].lines:
        last = max(place for place, mean in enumerate(line.mean) if mean is not None)
        display = axes.transData.transform((line.x[last], line.mean[last] or 0.0))
        ends.append((float(axes.transAxes.inverted().transform(display)[1]), line))
    ends.sort(key=lambda end: end[0])
    heights = spread_apart([height for height, _ in ends], line_height)
    if chart.legend:
        axes.text(
            1.03, heights[-1] + line_height, chart.legend, transform=axes.transAxes, fontsize=8.5, va="center"
        )
    for (height, line), place in zip(ends, heights, strict=True):
        style = line.style
        if abs(height - place) > line_height / 3:
            leader = Line2D([1.0, 1.025], [height, place], color="#BBBBBB", lw=0.6)
            _add_outside(axes, leader)
        sample = Line2D(
            [1.03, 1.075, 1.12],
            [place] * 3,
            color=style.colour,
            linestyle=style.matplotlib_dash,
            marker="none" if chart.dense else style.matplotlib_marker,
            markevery=[1],
            markersize=5.5,
            markeredgecolor="white",
            markeredgewidth=0.5,
            lw=1.4,
        )
        _add_outside(axes, sample)
        axes.text(1.135, place, line.name, transform=axes.transAxes, fontsize=8.5, va="center", color=INK)


def _add_outside(axes: Axes, artist: Any) -> None:  # noqa: ANN401 - any artist
    artist.set_transform(axes.transAxes)
    artist.set_clip_on(False)
    axes.add_artist(artist)


def spread_apart(heights: Sequence[float], gap: float) -> list[float]:
    """Move heights, given in rising order, apart to at least `gap`, each as little as may be, within 0 to 1.

    Examples
    --------
    >>> spread_apart([0.2, 0.5, 0.9], 0.1)
    [0.2, 0.5, 0.9]
    >>> [round(height, 2) for height in spread_apart([0.5, 0.5, 0.5], 0.1)]
    [0.4, 0.5, 0.6]
    """
    # Blocks of names that touch, each around the mean of where its names want to be.
    blocks: list[list[float]] = []
    for height in heights:
        blocks.append([height])
        while len(blocks) > 1 and _lowest(blocks[-1], gap) < _lowest(blocks[-2], gap) + gap * len(blocks[-2]):
            last = blocks.pop()
            blocks[-1] += last
    return [_lowest(block, gap) + gap * place for block in blocks for place in range(len(block))]


def _lowest(block: Sequence[float], gap: float) -> float:
    """Return the height of the lowest name of a block that lies within 0 to 1."""
    reach = gap * (len(block) - 1)
    return max(0.0, min(sum(block) / len(block) - reach / 2, 1.0 - reach))


def _arms(mean: Sequence[float | None], end: Sequence[float | None]) -> list[float]:
    return [
        float("nan") if one is None or other is None else abs(other - one)
        for one, other in zip(mean, end, strict=True)
    ]


def _gaps(values: Sequence[float | None]) -> list[float]:
    return [float("nan") if value is None else value for value in values]
