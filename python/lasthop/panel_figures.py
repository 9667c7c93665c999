"""Panels as a figure: below each other, with matplotlib, or with plotly as a page that needs no network."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from lasthop.drawing import COLOURS, MATPLOTLIB_DASHES, PLOTLY_DASHES
from lasthop.panels import first_s, isolated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lasthop.drawing import Marks
    from lasthop.panels import Panel

GREY = "#9A9A9A"
MARK = "#C8C8C8"
#: Letters of the name of an axis that its panel has room for.
LABEL_WIDTH = 19


def panels_figure(panels: Sequence[Panel], duration_s: float, title: str, marks: Marks) -> Figure:
    """Draw panels below each other with matplotlib."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 2.25 * len(panels)), layout="constrained")
    all_axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    named: set[str] = set()
    for panel, axes in zip(panels, all_axes, strict=True):
        _draw_marks(axes, marks)
        _draw_panel(axes, panel)
        # The flows look alike in every panel: the first that has a flow names it.
        _draw_legend(axes, set() if panel.links else named)
    all_axes[-1].set_xlabel("time (s)" + _marks_text(marks))
    all_axes[-1].set_xlim(first_s(panels, duration_s), duration_s)
    figure.suptitle(title, fontsize=11)
    return figure


def panels_page(panels: Sequence[Panel], duration_s: float, title: str, marks: Marks) -> Any:  # noqa: ANN401
    """Draw panels below each other with plotly."""
    from plotly.subplots import make_subplots

    titles = [_panel_title(panel) for panel in panels]
    page = make_subplots(
        rows=len(panels), cols=1, shared_xaxes=True, vertical_spacing=0.05, subplot_titles=titles
    )
    shown: set[str] = set()
    for row, panel in enumerate(panels, start=1):
        _add_panel(page, row, panel, shown)
        for name, limit in panel.limits.items():
            page.add_hline(
                y=limit,
                row=row,
                col=1,
                line={"color": GREY, "dash": "dot", "width": 1},
                annotation_text=f"room of {name}",
            )
        for name, (level, style) in panel.levels.items():
            page.add_hline(
                y=level,
                row=row,
                col=1,
                line={"color": COLOURS[style % len(COLOURS)], "dash": "dot", "width": 1},
                annotation_text=f"law, {name}",
            )
        if panel.logarithmic:
            page.update_yaxes(type="log", dtick="D2", row=row)
    if marks.warmup_s > 0:
        page.add_vrect(x0=0, x1=marks.warmup_s, fillcolor=MARK, opacity=0.35, line_width=0)
    for start, end in marks.outages:
        page.add_vrect(x0=start, x1=end, fillcolor=MARK, opacity=0.7, line_width=0)
    page.update_xaxes(range=[first_s(panels, duration_s), duration_s])
    page.update_xaxes(title_text="time (s)" + _marks_text(marks), row=len(panels))
    page.update_layout(title=title, template="plotly_white", height=1050, hovermode="x")
    return page


def _panel_title(panel: Panel) -> str:
    scale = ", logarithmic" if panel.logarithmic else ""
    return f"{panel.title} ({panel.unit}{scale})"


def _marks_text(marks: Marks) -> str:
    """Say what the shades mean."""
    meant = [
        *(["warm-up, which does not count"] if marks.warmup_s > 0 else []),
        *(["outages of links"] if marks.outages else []),
    ]
    return f"; shaded: {', '.join(meant)}" if meant else ""


def _draw_marks(axes: Axes, marks: Marks) -> None:
    if marks.warmup_s > 0:
        axes.axvspan(0, marks.warmup_s, color=MARK, alpha=0.35, lw=0)
    for start, end in marks.outages:
        axes.axvspan(start, end, color=MARK, alpha=0.7, lw=0)


def _draw_legend(axes: Axes, named: set[str]) -> None:
    """Name what is not named yet, and take note of it."""
    entries = [(line, name) for line, name in zip(*axes.get_legend_handles_labels(), strict=True)]
    news = {name: line for line, name in entries if name not in named}
    named.update(news)
    if news:
        axes.legend(
            news.values(),
            news,
            loc="upper left",
            bbox_to_anchor=(1.0, 1.0),
            fontsize=8,
            frameon=False,
        )


def _draw_panel(axes: Axes, panel: Panel) -> None:
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
        colour = COLOURS[line.style % len(COLOURS)]
        axes.plot(*isolated(line), linestyle="", marker=".", markersize=3, color=colour)
    for name, limit in panel.limits.items():
        axes.axhline(limit, color=GREY, lw=0.9, linestyle=":", label=f"room of {name}")
    for level, style in panel.levels.values():
        axes.axhline(level, color=COLOURS[style % len(COLOURS)], lw=1.1, linestyle=":")
    unit = f"{panel.unit}, logarithmic" if panel.logarithmic else panel.unit
    name = panel.title.split(",")[0]
    fits = len(f"{name} ({unit})") <= LABEL_WIDTH
    axes.set_ylabel(f"{name} ({unit})" if fits else f"{textwrap.fill(name, LABEL_WIDTH)}\n({unit})")
    if "," in panel.title:
        axes.set_title(panel.title, fontsize=9, loc="left")
    if panel.from_zero:
        axes.set_ylim(bottom=0)
    if panel.logarithmic:
        _use_logarithmic(axes)
    axes.grid(visible=True, color="#E6E6E6", lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)


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
        x, y = isolated(line)
        if x:
            alone = Scatter(
                x=x,
                y=y,
                mode="markers",
                marker={"color": look["color"], "size": 4},
                name=name,
                legendgroup=name,
                showlegend=False,
            )
            page.add_trace(alone, row=row, col=1)


def _gaps(values: Sequence[float | None]) -> list[float]:
    """Missing values become gaps in the line."""
    return [float("nan") if value is None else value for value in values]
