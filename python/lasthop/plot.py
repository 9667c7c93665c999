"""Figures: a run over time (window, queue, throughput, RTT), and several over each other.

matplotlib draws PNG, SVG and PDF; plotly draws HTML that needs no network. Both show the same `Panel`s,
worked out here once; `lasthop.distribution` has the curves of distributions, `lasthop.comparison_plot` the
dots of comparisons, `lasthop.drawing` what all figures share. Called by `Run.plot`, `Comparison.plot` and
`lasthop plot`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from lasthop.drawing import (
    COLOURS,
    MATPLOTLIB_DASHES,
    PLOTLY_DASHES,
    Marks,
    Picture,
    check_paths,
    draw,
    marks_of,
    styles,
)
from lasthop.quantities import number_text, time_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lasthop.comparison import Comparison
    from lasthop.results import Run


GREY = "#9A9A9A"

#: More flows than this are not all drawn in colour.
COLOURED_MAX = 6
#: Links in the queue panel.
QUEUES_MAX = 3
#: Spread of the values from which an axis without zero is logarithmic.
LOGARITHMIC_FROM = 8
#: Links whose mean queue is below this share of the longest are not drawn.
QUEUE_SHARE_MIN = 0.05
#: At most this many grey lines; beyond, a band that holds eight of ten flows.
GREY_MAX = 60
#: Points per line; more would only be a blur.
POINTS_MAX = 600
RATE_POINTS = 120
SHARE_POINTS = 60
#: Counters of what a helper, or a link by itself, has sent again or rebuilt; of whom.
REPAIRS = re.compile(r"(.+?)_(?:repeats|retransmissions|rebuilt)(?:_.+)?")
#: What the dotted lines of round trips are.
DOTTED_RTT = ", dotted: of the path with empty queues, repairs included"
#: The link that is always drawn, if there is one of the name.
BOTTLENECK = "bottleneck"
MARK = "#C8C8C8"
#: A run that is idle for at least this share of its time at first, as while a program starts, is drawn from
#: where something happens, with `LEAD` of its time before.
IDLE_MIN = 0.05
LEAD = 0.02
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
    #: Room in the queues of this panel, by the names of their lines.
    limits: dict[str, float] = field(default_factory=dict)
    #: What a law says of lines of this panel: by their names a value, with the style of the line.
    levels: dict[str, tuple[float, int]] = field(default_factory=dict)

    @property
    def logarithmic(self) -> bool:
        """Whether single large values would press all others flat on a linear axis."""
        values = [value for line in self.lines for value in line.y if value]
        return not self.from_zero and bool(values) and max(values) > LOGARITHMIC_FROM * min(values)

    @property
    def is_measured(self) -> bool:
        """Whether a line of it has a value: datagrams have no window and no RTT."""
        known = (value for line in self.lines for value in line.y)
        return any(value is not None and value == value for value in known)  # noqa: PLR0124 - no NaN


def plot_run(
    run: Run, *paths: str | Path, law: str | None = None, cdf: str | None = None, box: str | None = None
) -> Picture:
    """Draw a run into each path; the ending chooses the format. `law` is one of `lasthop.laws.LAWS`."""
    check_paths(paths)
    if cdf is not None:
        return plot_distribution([run], ["run"], cdf, _name_of(run), *paths)
    if box is not None:
        from lasthop import boxes

        return boxes.draw(boxes.of_run(run, box), box, _name_of(run), *paths)
    figure = run_figure(run, law)
    draw(paths, lambda: figure, lambda: run_page(run, law))
    return Picture(figure)


def plot_distribution(
    runs: Sequence[Run], labels: Sequence[str], cdf: str, title: str, *paths: str | Path
) -> Picture:
    """Draw how a column is distributed: in one run by sender, in several a curve for each."""
    from lasthop import distribution

    alone = len(runs) == 1
    samples = [
        sample
        for run, label in zip(runs, labels, strict=True)
        for sample in distribution.of_run(run, cdf, None if alone else label)
    ]
    return distribution.draw(samples, cdf, title, *paths)


def plot_comparison(
    comparison: Comparison, *paths: str | Path, cdf: str | None = None, box: str | None = None
) -> Picture:
    """Draw a comparison into each path: over time if it has series, else by means."""
    check_paths(paths)
    seeds = len(comparison.seeds)
    title = f"{comparison.scenario.get('name', 'scenario')}, {seeds} seed{'s' if seeds > 1 else ''}"
    if box is not None:
        from lasthop import boxes

        return boxes.draw(boxes.of_comparison(comparison, box), box, title, *paths)
    if cdf is not None:
        from lasthop import distribution

        return distribution.draw(distribution.of_comparison(comparison, cdf), cdf, title, *paths)
    from lasthop import comparison_plot

    if comparison.has_series:
        return plot_overlay(tracks_of(comparison), comparison_plot.comparison_title(comparison), *paths)
    figure = comparison_plot.figure_of(comparison)
    draw(paths, lambda: figure, lambda: comparison_plot.page_of(comparison))
    return Picture(figure)


def run_panels(run: Run, law: str | None = None) -> list[Panel]:
    """Compute the panels, with a model's throughput and RTT; helpers have panels of their own."""
    flows, links = run.series, run.link_series
    picked = pick_flows(run.flows)
    limits = marks_of(run.scenario, run.seed).limits
    chosen = flow_styles(run.flows, picked)
    interval_s = _interval_s(flows)
    bin_s = whole_intervals(run.duration_s / POINTS_MAX, interval_s)
    # Packets come one at a time: a rate per short interval would be all spikes.
    rate_bin_s = whole_intervals(run.duration_s / RATE_POINTS, interval_s)
    rate = Panel(f"throughput, mean over {time_text(rate_bin_s, 2)}", "Mbit/s")
    rtt = Panel("RTT", "ms", from_zero=False)
    if law is not None:
        from lasthop import laws

        said = laws.of_run(run, law)
        rate.title += f"; dotted: {laws.find(law).label} at the measured loss and round trip"
        rate.levels = {name: (said[name] * 1e-6, chosen[name]) for name in picked if name in said}
        trips = _trips(run, law)
        rtt.levels = {name: (trips[name] * 1e3, chosen[name]) for name in picked if name in trips}
        if rtt.levels:
            rtt.title += DOTTED_RTT
    panels = [
        _with_flows(Panel("cwnd", "segments"), flows, "cwnd_segments", picked, chosen, bin_s, 1.0),
        _queue_panel(run, links, bin_s, limits),
        _with_flows(rate, flows, "throughput_bit_s", picked, chosen, rate_bin_s, 1e-6),
        _with_flows(rtt, flows, "rtt_s", picked, chosen, bin_s, 1e3),
        *_measured_panels(_datagram_measures(flows, run.duration_s, rate_bin_s), picked, chosen),
        *_measured_panels(_viewer_measures(flows, run.duration_s, bin_s), picked, chosen),
        *_helper_panels(run, bin_s, rate_bin_s),
    ]
    return [panel for panel in panels if panel.is_measured]


def _trips(run: Run, law: str) -> dict[str, float]:
    """Return the round trip of each flow's path with empty queues, in s, where it can be told."""
    from lasthop import laws
    from lasthop.errors import LasthopError

    try:
        return {name: promise.rtt_s for name, promise in laws.of_scenario(run.scenario, law).items()}
    except LasthopError:
        # This version cannot read the scenario, or a sender of the user's own is not here.
        return {}


def flow_styles(flows: pl.DataFrame, picked: Iterable[str]) -> dict[str, int]:
    """Return the style of each flow: its sender's where each has its own, else by place."""
    sender_of = dict(flows.select("name", "transport").iter_rows())
    names = list(picked)
    senders = [sender_of[name] for name in names]
    if len(set(senders)) < len(names):
        return {name: place for place, name in enumerate(names)}
    of_sender = styles(senders)
    return {name: of_sender[sender_of[name]] for name in names}


@dataclass(frozen=True, slots=True)
class Track:
    """What one line of an overlay shows: the series of one sender, or of one saved run.

    Attributes
    ----------
    label : str
        In the legend.
    sender : str
        Whose colour it has.
    flows, links : polars.DataFrame
        Tables over time, with a column ``seed`` if they are of several.
    bottleneck : str
        The link whose queue is drawn.
    duration_s : float
        Length of the run.
    marks : Marks
        Warm-up, outages and room in queues.
    """

    label: str
    sender: str
    flows: pl.DataFrame
    links: pl.DataFrame
    bottleneck: str
    duration_s: float
    marks: Marks
    #: What a law says of the throughput of all its flows, in bit/s, and of their mean round trip, in s.
    said: tuple[float, float] | None = None


def tracks_of(comparison: Comparison) -> list[Track]:
    """Return one track per sender of a comparison with series."""
    from lasthop.extras import pl

    marks = marks_of(comparison.scenario, comparison.seeds[0])
    flows, links = comparison.series, comparison.link_series
    said = {} if comparison.promises is None else comparison.promises.said
    totals = {
        name: (
            math.fsum(one.throughput_bit_s for one in promises.values()),
            math.fsum(one.rtt_s for one in promises.values()) / len(promises),
        )
        for name, promises in said.items()
        if promises
    }
    duration_s = float(comparison.runs[comparison.baseline][0]["duration_s"])
    return [
        Track(
            name,
            name,
            flows.filter(pl.col("transport") == name),
            links.filter(pl.col("transport") == name),
            comparison.bottleneck,
            duration_s,
            # Random outages differ from seed to seed: only those of a single one can be marked.
            marks if len(comparison.seeds) == 1 else Marks(marks.warmup_s, (), marks.limits),
            totals.get(name),
        )
        for name in comparison.transports
    ]


def track_of(run: Run, label: str) -> Track:
    """Return the track of one saved run."""
    from lasthop.records import bottleneck_name

    senders = sorted(set(run.flows["transport"]) - {"udp"})
    return Track(
        label,
        senders[0] if len(senders) == 1 else label,
        run.series,
        run.link_series,
        bottleneck_name([run.record]),
        run.duration_s,
        marks_of(run.scenario, run.seed),
    )


def measured_track(path: Path, first: Track) -> Track:
    """Return the track of a file of iperf3 or flent, to be drawn beside `first`."""
    from lasthop.measured import read

    measured = read(path)
    flows = measured.table()
    links = first.links.head(0)
    return Track(measured.label, measured.label, flows, links, first.bottleneck, first.duration_s, Marks())


def plot_overlay(tracks: Sequence[Track], title: str, *paths: str | Path) -> Picture:
    """Draw several runs over each other: a line per sender in each panel."""
    panels = overlay_panels(tracks)
    duration_s = max(track.duration_s for track in tracks)
    marks = tracks[0].marks if len({track.marks.outages for track in tracks}) == 1 else Marks()
    figure = panels_figure(panels, duration_s, title, marks)
    draw(paths, lambda: figure, lambda: panels_page(panels, duration_s, title, marks))
    return Picture(figure)


def overlay_panels(tracks: Sequence[Track]) -> list[Panel]:
    """Work out the panels of an overlay: means over flows and seeds, throughput summed over flows."""
    from lasthop.extras import pl

    chosen = styles(dict.fromkeys(track.sender for track in tracks))
    interval_s = _interval_s(tracks[0].flows)
    duration_s = max(track.duration_s for track in tracks)
    bin_s = whole_intervals(duration_s / POINTS_MAX, interval_s)
    rate_bin_s = whole_intervals(duration_s / RATE_POINTS, interval_s)
    cwnd = Panel("cwnd, mean of the flows", "segments")
    queue = Panel(f"queue, {tracks[0].bottleneck}", "packets")
    rate = Panel(f"throughput, all flows, mean over {time_text(rate_bin_s, 2)}", "Mbit/s")
    rtt = Panel("RTT, mean of the flows", "ms", from_zero=False)
    for track in tracks:
        seeded = ["seed"] if "seed" in track.flows.columns else []
        flows = track.flows.with_columns(pl.lit("").alias("line"))
        total = flows.group_by("time_s", "line", *seeded).agg(pl.col("throughput_bit_s").sum())
        link = track.links.filter(pl.col("link") == track.bottleneck).with_columns(pl.lit("").alias("line"))
        style = chosen[track.sender]
        for panel, table, column, factor, width_s in (
            (cwnd, flows, "cwnd_segments", 1.0, bin_s),
            (queue, link, "queue_packets", 1.0, bin_s),
            (rate, total, "throughput_bit_s", 1e-6, rate_bin_s),
            (rtt, flows, "rtt_s", 1e3, bin_s),
        ):
            named = table.select("time_s", "line", (pl.col(column) * factor).alias("value"))
            panel.lines.append(_line(track.label, _thinned(named, "line", width_s), style))
        if track.said is not None:
            rate.levels[track.label] = (track.said[0] * 1e-6, style)
            rtt.levels[track.label] = (track.said[1] * 1e3, style)
        limits = track.marks.limits
        if track.bottleneck in limits:
            queue.limits[track.bottleneck] = float(limits[track.bottleneck])
    if rate.levels:
        rate.title += "; dotted: what the law says"
        rtt.title += DOTTED_RTT
    panels = [cwnd, queue, rate, rtt, *_laid_panels(tracks, chosen, duration_s, bin_s, rate_bin_s)]
    return [panel for panel in panels if panel.is_measured]


def pick_flows(flows: pl.DataFrame) -> dict[str, str]:
    """Names and labels of the flows to colour: all if few, else most, middle and least goodput."""
    if flows.height <= COLOURED_MAX:
        return {name: name for name in flows["name"]}
    ranked = flows.sort("goodput_bit_s", descending=True, nulls_last=True)["name"].to_list()
    picked = {"most goodput": ranked[0], "middle": ranked[len(ranked) // 2], "least goodput": ranked[-1]}
    return {name: f"{name} ({rank})" for rank, name in picked.items()}


def run_figure(run: Run, law: str | None = None) -> Figure:
    """Draw the panels of a run with matplotlib."""
    marks = marks_of(run.scenario, run.seed)
    return panels_figure(run_panels(run, law), run.duration_s, _run_title(run), marks)


def run_page(run: Run, law: str | None = None) -> Any:  # noqa: ANN401 - untyped
    """Draw the panels of a run with plotly."""
    marks = marks_of(run.scenario, run.seed)
    return panels_page(run_panels(run, law), run.duration_s, _run_title(run), marks)


def first_s(panels: Sequence[Panel], duration_s: float) -> float:
    """Return where the time axis begins, in s: at zero, or shortly before anything happens.

    Examples
    --------
    >>> idle = Panel("queue", "packets", [Line("", [1.0, 2.0, 3.0], [0.0, None, 4.0], 0)])
    >>> round(first_s([idle], 10.0), 2), first_s([idle], 100.0), first_s([], 10.0)
    (1.8, 0.0, 0.0)
    """
    # A time is the end of its interval: what it has may have begun when the one before was over.
    starts = [
        start
        for panel in panels
        for line in panel.lines
        for start, y in zip([0.0, *line.x], line.y, strict=False)
        if y
    ]
    begin = min(starts, default=0.0)
    return begin - LEAD * duration_s if begin > IDLE_MIN * duration_s else 0.0


def panels_figure(panels: Sequence[Panel], duration_s: float, title: str, marks: Marks) -> Figure:
    """Draw panels below each other with matplotlib."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 2.25 * len(panels)), layout="constrained")
    all_axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for place, (panel, axes) in enumerate(zip(panels, all_axes, strict=True)):
        # The flows look alike in every panel: one legend does.
        _draw_marks(axes, marks)
        _draw_panel(axes, panel, legend=panel.links or place == 0)
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


def isolated(line: Line) -> tuple[list[float], list[float]]:
    """Return the points that no line shows, because their neighbours are missing.

    Examples
    --------
    >>> isolated(Line("", [1, 2, 3, 4, 5], [1.0, None, 2.0, None, 3.0], 0))
    ([1, 3, 5], [1.0, 2.0, 3.0])
    >>> isolated(Line("", [1, 2, 3], [1.0, 2.0, None], 0))
    ([], [])
    """
    padded = [None, *line.y, None]
    alone = [
        (x, y)
        for x, before, y, after in zip(line.x, padded, line.y, padded[2:], strict=False)
        if y is not None and before is None and after is None
    ]
    return [x for x, _ in alone], [y for _, y in alone]


def _with_flows(
    panel: Panel,
    series: pl.DataFrame,
    column: str,
    picked: dict[str, str],
    chosen: dict[str, int],
    bin_s: float,
    factor: float,
) -> Panel:
    """Fill a panel with one column of the flow series: some flows in colour, the others in grey."""
    from lasthop.extras import pl

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
        _line(label, per_flow[name], chosen[name]) for name, label in picked.items() if name in per_flow
    ]
    return panel


class _Measure(NamedTuple):
    """What is drawn over time of the flows that have it."""

    title: str
    unit: str
    #: With a row for each flow and interval.
    table: pl.DataFrame
    column: str
    bin_s: float
    factor: float
    #: A flow to which it never happens has nothing to show.
    is_event: bool = False


def _viewer_measures(series: pl.DataFrame, duration_s: float, bin_s: float) -> list[_Measure]:
    """Return what viewers and listeners had over time, in runs whose flows are measured so."""
    from lasthop.extras import pl

    if "settled_packets" not in series.columns:
        # A run of an older version.
        return []
    interval_s = _interval_s(series)
    share_bin_s = whole_intervals(duration_s / SHARE_POINTS, interval_s)
    shares = _shares(series, "timely_packets", pl.col("settled_packets"), share_bin_s)
    title = f"packets in time, over {time_text(share_bin_s, 2)}"
    return [
        _Measure(title, "%", shares, "timely_packets", share_bin_s, 100.0),
        _Measure("stall time so far", "s", series, "stall_s", bin_s, 1.0, is_event=True),
        *_video_measures(series, whole_intervals(duration_s / RATE_POINTS, interval_s)),
    ]


def _video_measures(series: pl.DataFrame, bin_s: float) -> list[_Measure]:
    """Return video over time: of calls, films and players of segments."""
    from lasthop.extras import pl

    if "video_buffer_s" not in series.columns:
        # A run of an older version.
        return []
    over = f"mean over {time_text(bin_s, 2)}"
    per_s = 1 / _interval_s(series)
    return [
        _Measure(title, unit, series.filter(pl.col(column).is_not_null()), column, bin_s, factor)
        for title, unit, column, factor in (
            (f"video rate, {over}", "Mbit/s", "video_rate_bit_s", 1e-6),
            (f"frames shown, {over}", "per s", "shown_frames", per_s),
            ("frame delay, from encoding to display", "ms", "frame_delay_s", 1e3),
            ("video buffer", "s", "video_buffer_s", 1.0),
        )
    ]


def _shares(series: pl.DataFrame, part: str, whole: pl.Expr, bin_s: float) -> pl.DataFrame:
    """Work out what share a column has of a whole, flow by flow, over bins of this length."""
    from lasthop.extras import pl

    return (
        series.filter(whole.is_not_null())
        .with_columns(
            ((pl.col("time_s") / bin_s - ROUNDING).ceil() * bin_s).alias("time_s"), whole.alias("whole")
        )
        .group_by("time_s", "flow")
        .agg(pl.col(part).sum() / pl.when(pl.col("whole").sum() > 0).then(pl.col("whole").sum()))
        .sort("time_s", "flow")
    )


def _datagram_measures(series: pl.DataFrame, duration_s: float, bin_s: float) -> list[_Measure]:
    """Return, of flows that have neither a window nor an RTT, how long packets take and how many are lost."""
    from lasthop.extras import pl

    if "delay_s" not in series.columns:
        # A run of an older version.
        return []
    is_bare = (pl.col("cwnd_segments").is_null() & pl.col("rtt_s").is_null()).all().over("flow")
    bare = series.filter(is_bare)
    share_bin_s = whole_intervals(duration_s / SHARE_POINTS, _interval_s(series))
    shares = _shares(bare, "lost_packets", pl.col("lost_packets") + pl.col("arrived_packets"), share_bin_s)
    lost = f"datagrams lost on the way, over {time_text(share_bin_s, 2)}"
    return [
        _Measure("one-way delay of datagrams", "ms", bare, "delay_s", bin_s, 1e3),
        _Measure(lost, "%", shares, "lost_packets", share_bin_s, 100.0, is_event=True),
    ]


def _measured_panels(
    measures: Iterable[_Measure], picked: dict[str, str], chosen: dict[str, int]
) -> list[Panel]:
    """Draw panels of a run, with a line for each flow that has something to show."""
    from lasthop.extras import pl

    panels = []
    for title, unit, table, column, bin_s, factor, is_event in measures:
        shown = table.filter((pl.col(column).max() > 0).over("flow")) if is_event else table
        panels.append(_with_flows(Panel(title, unit), shown, column, picked, chosen, bin_s, factor))
    return panels


def _laid_panels(
    tracks: Sequence[Track], chosen: dict[str, int], duration_s: float, bin_s: float, rate_bin_s: float
) -> list[Panel]:
    """Draw panels of several runs, with a line for each: the mean over its flows that are measured so."""
    from lasthop.extras import pl

    panels: dict[str, Panel] = {}
    happened = set()
    for track in tracks:
        if "flow" not in track.flows.columns:
            # Of a tool that measures no single flows.
            continue
        for title, unit, table, column, width_s, factor, is_event in (
            *_datagram_measures(track.flows, duration_s, rate_bin_s),
            *_viewer_measures(track.flows, duration_s, bin_s),
        ):
            value = (pl.col(column) * factor).alias("value")
            named = table.select("time_s", pl.lit("").alias("line"), value).drop_nulls()
            if named.is_empty():
                continue
            line = _line(track.label, _thinned(named, "line", width_s), chosen[track.sender])
            panels.setdefault(title, Panel(title, unit)).lines.append(line)
            if not is_event or any(line.y):
                happened.add(title)
    return [panel for title, panel in panels.items() if title in happened]


def _queue_panel(run: Run, series: pl.DataFrame, bin_s: float, limits: dict[str, int]) -> Panel:
    """Panel of the links that queue most, at most three, and the bottleneck; no other far below the first."""
    from lasthop.extras import pl

    panel = Panel("queue", "packets", links=True)
    ranked = run.links.sort("avg_queue_packets", descending=True, nulls_last=True).head(QUEUES_MAX)
    queue = pl.col("avg_queue_packets").fill_null(0)
    fullest = ranked.filter(queue >= queue.max() * QUEUE_SHARE_MIN)["name"].to_list()
    if BOTTLENECK in run.links["name"] and BOTTLENECK not in fullest:
        fullest = [BOTTLENECK, *fullest][:QUEUES_MAX]
    named = series.select("time_s", "link", pl.col("queue_packets").cast(pl.Float64).alias("value"))
    thin = _thinned(named.filter(pl.col("link").is_in(fullest)), "link", bin_s)
    for style, name in enumerate(fullest):
        panel.lines.append(_line(name, thin.filter(pl.col("link") == name), style))
    # One room is enough to read; that of the bottleneck, or of the link that queues most.
    shown = [BOTTLENECK] if BOTTLENECK in fullest else fullest[:1]
    panel.limits = {name: float(limits[name]) for name in shown if name in limits}
    return panel


def _helper_panels(run: Run, bin_s: float, rate_bin_s: float) -> list[Panel]:
    """Panels of what helpers repeat or rebuild, and of what they hold; those of which there is anything."""
    from lasthop import columns
    from lasthop.extras import pl

    if not run.has_table("helper_series"):
        return []
    series = run.helper_series
    counted = columns.declared("links")
    repairs: dict[str, list[str]] = {}
    held: dict[str, list[str]] = {}
    for column in series.columns:
        repair = REPAIRS.fullmatch(column)
        if repair is not None:
            repairs.setdefault(repair[1].replace("_", " "), []).append(column)
        elif column not in (*counted, "time_s", "link"):
            held[column.replace("_", " ")] = [column]
    interval_s = _interval_s(series)
    panels = []
    for title, unit, groups, width_s, factor in (
        (
            f"repairs, by helpers and links, mean over {time_text(rate_bin_s, 2)}",
            "per s",
            repairs,
            rate_bin_s,
            1 / interval_s,
        ),
        ("held, by helpers and links", "packets", held, bin_s, 1.0),
    ):
        panel = Panel(title, unit, links=True)
        for name, summed in groups.items():
            value = (pl.sum_horizontal(summed) * factor).alias("value")
            for link in series["link"].unique(maintain_order=True):
                found = series.filter(pl.col("link") == link).select("time_s", "link", value)
                if found["value"].max():
                    line = _line(f"{name}, {link}", _thinned(found, "link", width_s), len(panel.lines))
                    panel.lines.append(line)
        if panel.lines:
            panels.append(panel)
    return panels


def _thinned(series: pl.DataFrame, key: str, bin_s: float) -> pl.DataFrame:
    """Mean per bin, in order of time; a row's time, and a bin's, is the end of its interval."""
    from lasthop.extras import pl

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
        colour = COLOURS[line.style % len(COLOURS)]
        axes.plot(*isolated(line), linestyle="", marker=".", markersize=3, color=colour)
    for name, limit in panel.limits.items():
        axes.axhline(limit, color=GREY, lw=0.9, linestyle=":", label=f"room of {name}")
    for level, style in panel.levels.values():
        axes.axhline(level, color=COLOURS[style % len(COLOURS)], lw=1.1, linestyle=":")
    unit = f"{panel.unit}, logarithmic" if panel.logarithmic else panel.unit
    axes.set_ylabel(f"{panel.title.split(',')[0]} ({unit})")
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


def _run_title(run: Run) -> str:
    goodput = run.totals["goodput_bit_s"]
    total = "" if goodput is None else f", goodput of all flows {number_text(goodput / 1e6, 3)} Mbit/s"
    return f"{_name_of(run)}{total}"


def _name_of(run: Run) -> str:
    return f"{run.scenario.get('name', 'scenario')}, seed {run.seed}"


def _gaps(values: Sequence[float | None]) -> list[float]:
    """Missing values become gaps in the line."""
    return [float("nan") if value is None else value for value in values]
