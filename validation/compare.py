"""Holds a run of lasthop against the same run of ns-2, packet by packet. Called by the differential tests.

Three sequences are compared: data packets as they leave on the source's link (sequence number and time),
ACKs as they reach the source (number, size and time), and the window after each change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from validation import engine, ns2
    from validation.network import Flow, Network

#: Times are equal within 1 us: lasthop counts whole nanoseconds, ns-2 sums floating-point numbers.
TIME_TOLERANCE_S = 1e-6
#: lasthop rounds each transmission up to the next nanosecond, which adds up while a link stays busy.
ROUNDING_S = 1e-9
#: Windows are sums of fractions, added in the same order on both sides; but see `_same_window`.
WINDOW_TOLERANCE = 1e-9
#: What happens in the last instant may fall on either side of the end.
END_MARGIN_S = 1e-3
#: Lines of context on each side of a divergence.
CONTEXT = 4


@dataclass(frozen=True)
class Divergence:
    """The first place at which two runs differ."""

    sequence: str
    position: int
    time_s: float
    seq: int | None
    report: str

    def __str__(self) -> str:
        return self.report


def first_divergence(
    network: Network, ours: engine.PacketTrace, theirs: ns2.PacketTrace
) -> Divergence | None:
    """The earliest difference of the whole run, or `None`."""
    found = [_divergence(network, flow, ours, theirs) for flow in network.flows]
    return min(filter(None, found), key=lambda divergence: divergence.time_s, default=None)


def _divergence(
    network: Network, flow: Flow, ours: engine.PacketTrace, theirs: ns2.PacketTrace
) -> Divergence | None:
    end = network.duration_s - END_MARGIN_S
    pairs = {
        "data packets": (
            _data(network, flow, ours.hops),
            _data(network, flow, theirs.hops),
            ["kind", "seq", "wire_bytes"],
        ),
        "ACKs": (
            _acks(network, flow, ours.hops),
            _acks(network, flow, theirs.hops),
            ["ack", "wire_bytes"],
        ),
        "windows": (*_windows(flow, ours.windows, theirs.windows), []),
    }
    found = [
        _first(f"{flow.name}: {name}", left, right, exact, end)
        for name, (left, right, exact) in pairs.items()
    ]
    divergences = [divergence for divergence in found if divergence is not None]
    return min(divergences, key=lambda divergence: divergence.time_s, default=None)


def excuse(
    network: Network, ours: engine.PacketTrace, theirs: ns2.PacketTrace, found: Divergence
) -> str | None:
    """Why two runs may part where they do, if it is no fault of either's protocols; `None` if it is.

    "phantom": ns-2's Vegas has sent a packet that the application had not written. "tie": two packets were at
    one place in the same instant, which the two simulators order by rules of their own.
    """
    phantoms = [_phantom(network, flow, theirs.hops) for flow in network.flows if flow.tcp.sender == "vegas"]
    if any(time <= found.time_s + TIME_TOLERANCE_S for time in phantoms):
        return "phantom"
    return "tie" if _tied(ours.hops, theirs.hops) else None


def _phantom(network: Network, flow: Flow, hops: pl.DataFrame) -> float:
    """When ns-2 first sends beyond what has been written; infinite if it does not."""
    sent = _data(network, flow, hops, column="enqueue_s").select("time_s", "seq").to_dicts()
    beyond = (row["time_s"] for row in sent if row["seq"] > flow.written(row["time_s"] + TIME_TOLERANCE_S))
    return next(beyond, math.inf)


def _tied(ours: pl.DataFrame, theirs: pl.DataFrame) -> bool:
    """Whether the first packet that fares differently on a link met another there in the same instant."""
    key = ["link", "flow", "kind", "seq", "ack"]
    whole = {"seq": pl.Int64, "ack": pl.Int64}
    left, right = (
        hops.cast(whole)
        .sort("enqueue_s", maintain_order=True)
        .with_columns(count=pl.int_range(pl.len()).over(key))
        for hops in (ours, theirs)
    )
    both = left.join(right, on=[*key, "count"], how="full", suffix="_ns2", coalesce=True)
    drift = (pl.col("transmit_s") - pl.col("transmit_s_ns2")).abs() > 10 * TIME_TOLERANCE_S
    differs = pl.col("outcome").ne_missing(pl.col("outcome_ns2")) | drift.fill_null(value=False)
    when = pl.min_horizontal("enqueue_s", "enqueue_s_ns2").alias("time_s")
    differing = both.filter(differs).with_columns(when).sort("time_s")
    if differing.is_empty():
        return False
    first = differing.row(0, named=True)
    same = ours.filter(pl.col("link") == first["link"])
    # The packet itself, and whatever else enters or leaves the queue then.
    instant = (pl.col("enqueue_s") - first["time_s"]).abs() <= TIME_TOLERANCE_S
    leaves = (pl.col("transmit_s") - first["time_s"]).abs() <= TIME_TOLERANCE_S
    entered = same.filter(instant).height
    left_then = same.filter(
        leaves & ((pl.col("enqueue_s") - first["time_s"]).abs() > TIME_TOLERANCE_S)
    ).height
    return entered + left_then > 1


def _data(network: Network, flow: Flow, hops: pl.DataFrame, column: str = "transmit_s") -> pl.DataFrame:
    link = network.access_link(flow).link
    sent = hops.filter(
        (pl.col("link") == link) & (pl.col("flow") == flow.name) & pl.col(column).is_not_null()
    )
    return (
        sent.filter(~pl.col("kind").is_in(["ack", "syn-ack"]))
        .select(pl.col(column).alias("time_s"), "kind", "seq", "wire_bytes")
        .sort("time_s", maintain_order=True)
    )


def _acks(network: Network, flow: Flow, hops: pl.DataFrame) -> pl.DataFrame:
    links = [direction.link for direction in network.directions if direction.target == flow.source]
    return (
        hops.filter(
            pl.col("link").is_in(links) & (pl.col("flow") == flow.name) & (pl.col("outcome") == "delivered")
        )
        .filter(pl.col("kind").is_in(["ack", "syn-ack"]))
        .select(pl.col("arrive_s").alias("time_s"), "ack", "wire_bytes")
        .sort("time_s", maintain_order=True)
    )


def _windows(flow: Flow, ours: pl.DataFrame, theirs: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Window and threshold of both whenever ns-2's are known: after each of its packets.

    Steps in one instant count as one. A timer that expires while nothing is outstanding moves the window too;
    in ns-2 that shows with the next packet.
    """
    state = ["cwnd_segments", "ssthresh_segments"]
    seen = (
        theirs.filter(pl.col("flow") == flow.name)
        # Times of one instant differ by rounding only.
        .with_columns((pl.col("time_s") * 1e8).round().cast(pl.Int64).alias("instant"))
        .group_by("instant", maintain_order=True)
        .last()
        .filter(pl.col("time_s") > flow.start_s[0])
        .sort("instant")
        .drop("instant", "flow")
    )
    mine = (
        ours.filter(pl.col("flow") == flow.name).select("time_s", *state).sort("time_s", maintain_order=True)
    )
    late = TIME_TOLERANCE_S + pl.int_range(pl.len()) * ROUNDING_S
    at = seen.select("time_s", (pl.col("time_s") + late).alias("at"))
    known = at.join_asof(mine, left_on="at", right_on="time_s", suffix="_of_change").select(
        "time_s",
        # Before the first change: the SYN goes alone, and the threshold is the receiver's window.
        pl.col("cwnd_segments").fill_null(1.0),
        pl.col("ssthresh_segments").fill_null(float(flow.tcp.receiver_window)),
    )
    return known, seen


def _first(
    name: str, ours: pl.DataFrame, theirs: pl.DataFrame, exact: list[str], end: float
) -> Divergence | None:
    ours, theirs = (frame.filter(pl.col("time_s") < end) for frame in (ours, theirs))
    left, right = ours.to_dicts(), theirs.to_dicts()
    for position in range(max(len(left), len(right))):
        mine = left[position] if position < len(left) else None
        yours = right[position] if position < len(right) else None
        tolerance = TIME_TOLERANCE_S + position * ROUNDING_S
        if mine is not None and yours is not None and _same(mine, yours, exact, tolerance):
            continue
        # An entry near the end that only one side still shows is no difference.
        time = min(row["time_s"] for row in (mine, yours) if row is not None)
        seqs = [row.get("seq", row.get("ack")) for row in (mine, yours) if row is not None]
        report = _report(name, position, ours, theirs)
        return Divergence(name, position, time, seqs[-1], report)
    return None


def _same(mine: dict[str, float], yours: dict[str, float], exact: list[str], tolerance: float) -> bool:
    if abs(mine["time_s"] - yours["time_s"]) > tolerance:
        return False
    if any(mine[column] != yours[column] for column in exact):
        return False
    windows = [column for column in ("cwnd_segments", "ssthresh_segments") if column in yours]
    return all(_same_window(mine[column], yours[column]) for column in windows)


def _same_window(mine: float, yours: float) -> bool:
    """ns-2 shows six digits of a window that is reduced before the next new ACK, all digits of any other."""
    return abs(mine - yours) <= WINDOW_TOLERANCE * abs(yours) or float(f"{mine:.6g}") == yours


def _report(name: str, position: int, ours: pl.DataFrame, theirs: pl.DataFrame) -> str:
    lines = [f"{name} differ first at number {position}:"]
    for side, frame in (("lasthop", ours), ("ns-2", theirs)):
        lines.append(f"  {side}:")
        start = max(position - CONTEXT, 0)
        for number, row in enumerate(frame.slice(start, 2 * CONTEXT).to_dicts(), start=start):
            mark = ">" if number == position else " "
            values = ", ".join(
                f"{key} {value:.9f}" if key == "time_s" else f"{key} {value}" for key, value in row.items()
            )
            lines.append(f"  {mark} {number:5} {values}")
        if frame.height <= position:
            lines.append(f"  > {position:5} (nothing more)")
    return "\n".join(lines)
