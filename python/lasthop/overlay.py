"""Several runs over each other: a line for each sender, or for each saved run, in every panel.

`lasthop.plot` draws them; a file of iperf3 or flent can be one of the lines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lasthop.drawing import Marks, marks_of, styles
from lasthop.panels import (
    DOTTED_RTT,
    POINTS_MAX,
    RATE_POINTS,
    Panel,
    flow_measures,
    interval_of,
    line_of,
    thinned,
    whole_intervals,
)
from lasthop.quantities import time_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import polars as pl

    from lasthop.comparison import Comparison
    from lasthop.results import Run


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


def overlay_panels(tracks: Sequence[Track]) -> list[Panel]:
    """Work out the panels of an overlay: means over flows and seeds, throughput summed over flows."""
    from lasthop.extras import pl

    chosen = styles(dict.fromkeys(track.sender for track in tracks))
    interval_s = interval_of(tracks[0].flows)
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
            panel.lines.append(line_of(track.label, thinned(named, "line", width_s), style))
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
        measures = flow_measures(track.flows, duration_s, bin_s, rate_bin_s)
        for title, unit, table, column, width_s, factor, is_event in measures:
            value = (pl.col(column) * factor).alias("value")
            named = table.select("time_s", pl.lit("").alias("line"), value).drop_nulls()
            if named.is_empty():
                continue
            line = line_of(track.label, thinned(named, "line", width_s), chosen[track.sender])
            panels.setdefault(title, Panel(title, unit)).lines.append(line)
            if not is_event or any(line.y):
                happened.add(title)
    return [panel for title, panel in panels.items() if title in happened]
