"""What a figure over time shows: the panels of a run, worked out from its tables.

A panel is one quantity, with a line for each flow or link; `lasthop.panel_figures` draws panels, and
`lasthop.overlay` has those of several runs over each other.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from lasthop.drawing import marks_of, styles
from lasthop.quantities import time_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import polars as pl

    from lasthop.results import Run

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
#: Counters of what a helper, or a link by itself, has retransmitted or rebuilt; of whom.
REPAIRS = re.compile(r"(.+?)_(?:repeats|retransmissions|rebuilt)(?:_.+)?")
#: What the dotted lines of round trips are.
DOTTED_RTT = ", dotted: of the path with empty queues, repairs included"
#: The link that is always drawn, if there is one of the name.
BOTTLENECK = "bottleneck"
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


def run_panels(run: Run, law: str | None = None) -> list[Panel]:
    """Compute the panels, with a model's throughput and RTT; helpers have panels of their own."""
    flows, links = run.series, run.link_series
    picked = pick_flows(run.flows)
    limits = marks_of(run.scenario, run.seed).limits
    chosen = flow_styles(run.flows, picked)
    interval_s = interval_of(flows)
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
        *_measured_panels(flow_measures(flows, run.duration_s, bin_s, rate_bin_s), picked, chosen),
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


def pick_flows(flows: pl.DataFrame) -> dict[str, str]:
    """Names and labels of the flows to colour: all if few, else most, middle and least goodput."""
    if flows.height <= COLOURED_MAX:
        return {name: name for name in flows["name"]}
    ranked = flows.sort("goodput_bit_s", descending=True, nulls_last=True)["name"].to_list()
    picked = {"most goodput": ranked[0], "middle": ranked[len(ranked) // 2], "least goodput": ranked[-1]}
    return {name: f"{name} ({rank})" for rank, name in picked.items()}


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

    thin = thinned(series.select("time_s", "flow", pl.col(column).alias("value") * factor), "flow", bin_s)
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
        panel.lines += [line_of("", per_flow[name], None) for name in rest]
    panel.lines += [
        line_of(label, per_flow[name], chosen[name]) for name, label in picked.items() if name in per_flow
    ]
    return panel


class Measure(NamedTuple):
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


def flow_measures(series: pl.DataFrame, duration_s: float, bin_s: float, rate_bin_s: float) -> list[Measure]:
    """Return what is drawn over time of the flows that have it, beside window, throughput and RTT."""
    return [
        *_datagram_measures(series, duration_s, rate_bin_s),
        *_viewer_measures(series, duration_s, bin_s),
        *_sign_measures(series, bin_s),
    ]


def _viewer_measures(series: pl.DataFrame, duration_s: float, bin_s: float) -> list[Measure]:
    """Return what viewers and listeners had over time, in runs whose flows are measured so."""
    from lasthop.extras import pl

    if "settled_packets" not in series.columns:
        # A run of an older version.
        return []
    interval_s = interval_of(series)
    share_bin_s = whole_intervals(duration_s / SHARE_POINTS, interval_s)
    shares = _shares(series, "timely_packets", pl.col("settled_packets"), share_bin_s)
    title = f"packets in time, over {time_text(share_bin_s, 2)}"
    return [
        Measure(title, "%", shares, "timely_packets", share_bin_s, 100.0),
        Measure("stall time so far", "s", series, "stall_s", bin_s, 1.0, is_event=True),
        *_video_measures(series, whole_intervals(duration_s / RATE_POINTS, interval_s)),
    ]


def _video_measures(series: pl.DataFrame, bin_s: float) -> list[Measure]:
    """Return video over time: of calls, films and players of segments."""
    from lasthop.extras import pl

    if "video_buffer_s" not in series.columns:
        # A run of an older version.
        return []
    over = f"mean over {time_text(bin_s, 2)}"
    per_s = 1 / interval_of(series)
    return [
        Measure(title, unit, series.filter(pl.col(column).is_not_null()), column, bin_s, factor)
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


def _sign_measures(series: pl.DataFrame, bin_s: float) -> list[Measure]:
    """Return, of senders that count signs of the causes of losses, what decides between them."""
    from lasthop.extras import pl

    if "theta" not in series.columns:
        # A run of an older version.
        return []
    counting = series.filter(pl.col("theta").is_not_null())
    return [
        Measure("theta, (N + 1) over (C + 1)", "ratio", counting, "theta", bin_s, 1.0),
        Measure("N, signs of a bad channel", "per window", counting, "channel_signs", bin_s, 1.0),
        Measure("C, signs of congestion", "per window", counting, "congestion_signs", bin_s, 1.0),
    ]


def _datagram_measures(series: pl.DataFrame, duration_s: float, bin_s: float) -> list[Measure]:
    """Return, of flows that have neither a window nor an RTT, how long packets take and how many are lost."""
    from lasthop.extras import pl

    if "delay_s" not in series.columns:
        # A run of an older version.
        return []
    is_bare = (pl.col("cwnd_segments").is_null() & pl.col("rtt_s").is_null()).all().over("flow")
    bare = series.filter(is_bare)
    share_bin_s = whole_intervals(duration_s / SHARE_POINTS, interval_of(series))
    shares = _shares(bare, "lost_packets", pl.col("lost_packets") + pl.col("arrived_packets"), share_bin_s)
    lost = f"datagrams lost in the network, over {time_text(share_bin_s, 2)}"
    return [
        Measure("one-way delay of datagrams", "ms", bare, "delay_s", bin_s, 1e3),
        Measure(lost, "%", shares, "lost_packets", share_bin_s, 100.0, is_event=True),
    ]


def _measured_panels(
    measures: Iterable[Measure], picked: dict[str, str], chosen: dict[str, int]
) -> list[Panel]:
    """Draw panels of a run, with a line for each flow that has something to show."""
    from lasthop.extras import pl

    panels = []
    for title, unit, table, column, bin_s, factor, is_event in measures:
        shown = table.filter((pl.col(column).max() > 0).over("flow")) if is_event else table
        panels.append(_with_flows(Panel(title, unit), shown, column, picked, chosen, bin_s, factor))
    return panels


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
    thin = thinned(named.filter(pl.col("link").is_in(fullest)), "link", bin_s)
    for style, name in enumerate(fullest):
        panel.lines.append(line_of(name, thin.filter(pl.col("link") == name), style))
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
    interval_s = interval_of(series)
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
                    line = line_of(f"{name}, {link}", thinned(found, "link", width_s), len(panel.lines))
                    panel.lines.append(line)
        if panel.lines:
            panels.append(panel)
    return panels


def thinned(series: pl.DataFrame, key: str, bin_s: float) -> pl.DataFrame:
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


def line_of(name: str, table: pl.DataFrame, style: int | None) -> Line:
    """Return a line of the thinned values of a table."""
    return Line(name, table["time_s"].to_list(), table["value"].to_list(), style)


def interval_of(series: pl.DataFrame) -> float:
    """Return the time between the rows of a table over time, in s."""
    times = series["time_s"].unique().sort()
    return float(times[1] - times[0]) if len(times) > 1 else 1.0


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
