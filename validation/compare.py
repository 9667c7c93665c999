"""Holds a run of lasthop against the same run of ns-2, packet by packet. Called by the differential tests.

Three sequences are compared: data packets as they leave on the source's link (sequence number and time),
ACKs as they reach the source (number, size and time), and the window after each change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from validation import engine, ns2
    from validation.network import Flow, Network

#: Times are equal within 1 us: lasthop counts whole nanoseconds, ns-2 sums floating-point numbers.
TIME_TOLERANCE_S = 1e-6
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
    (flow,) = network.flows
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
        "windows": (_windows(flow, ours.windows), _windows(flow, theirs.windows), []),
    }
    found = [_first(name, left, right, exact, end) for name, (left, right, exact) in pairs.items()]
    divergences = [divergence for divergence in found if divergence is not None]
    return min(divergences, key=lambda divergence: divergence.time_s, default=None)


def _data(network: Network, flow: Flow, hops: pl.DataFrame) -> pl.DataFrame:
    link = network.access_link(flow).link
    sent = hops.filter((pl.col("link") == link) & pl.col("transmit_s").is_not_null())
    return (
        sent.filter(~pl.col("kind").is_in(["ack", "syn-ack"]))
        .select(pl.col("transmit_s").alias("time_s"), "kind", "seq", "wire_bytes")
        .sort("time_s", maintain_order=True)
    )


def _acks(network: Network, flow: Flow, hops: pl.DataFrame) -> pl.DataFrame:
    links = [direction.link for direction in network.directions if direction.target == flow.source]
    return (
        hops.filter(pl.col("link").is_in(links) & (pl.col("outcome") == "delivered"))
        .filter(pl.col("kind").is_in(["ack", "syn-ack"]))
        .select(pl.col("arrive_s").alias("time_s"), "ack", "wire_bytes")
        .sort("time_s", maintain_order=True)
    )


def _windows(flow: Flow, windows: pl.DataFrame) -> pl.DataFrame:
    """Window and threshold after each instant at which either changed; steps in one instant count as one."""
    state = ["cwnd_segments", "ssthresh_segments"]
    last = (
        windows.filter(pl.col("flow") == flow.name)
        # Times of one instant differ by rounding only.
        .with_columns((pl.col("time_s") * 1e8).round().cast(pl.Int64).alias("instant"))
        .group_by("instant", maintain_order=True)
        .last()
        .sort("instant")
    )
    # A step of less than the tolerance (8.000000000000002 to 8) is none: ns-2's digits may not show it.
    rounded = [pl.col(column).round(9) for column in state]
    changed = pl.any_horizontal(value.ne_missing(value.shift(1)) for value in rounded)
    return last.filter(changed & (pl.col("time_s") > flow.start_s[0])).drop("instant", "flow")


def _first(
    name: str, ours: pl.DataFrame, theirs: pl.DataFrame, exact: list[str], end: float
) -> Divergence | None:
    ours, theirs = (frame.filter(pl.col("time_s") < end) for frame in (ours, theirs))
    left, right = ours.to_dicts(), theirs.to_dicts()
    for position in range(max(len(left), len(right))):
        mine = left[position] if position < len(left) else None
        yours = right[position] if position < len(right) else None
        if mine is not None and yours is not None and _same(mine, yours, exact):
            continue
        # An entry near the end that only one side still shows is no difference.
        time = min(row["time_s"] for row in (mine, yours) if row is not None)
        seqs = [row.get("seq", row.get("ack")) for row in (mine, yours) if row is not None]
        report = _report(name, position, ours, theirs)
        return Divergence(name, position, time, seqs[-1], report)
    return None


def _same(mine: dict[str, float], yours: dict[str, float], exact: list[str]) -> bool:
    if abs(mine["time_s"] - yours["time_s"]) > TIME_TOLERANCE_S:
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
