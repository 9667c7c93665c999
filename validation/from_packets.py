"""What the claims of the papers measure, worked out from a packet trace and the text of a scenario alone.

Used by `second_look`. Written from the papers' definitions, without the engine's totals, the metrics of
studies or the functions of `lasthop.papers`, none of which may be imported here: two ways to a figure that
share code would share its mistakes.

A trace has a row per packet and link. Data begin on the link on which their flow's first packet is seen, and
have arrived when they are delivered over the last one. Times are in ns.
"""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

SECOND_NS = 1_000_000_000
UNITS_NS = {"s": SECOND_NS, "ms": 1_000_000, "us": 1_000, "ns": 1}
#: Outcomes of a packet on a link that are no loss.
NO_LOSS = frozenset({"delivered", "in-flight"})


def nanoseconds(text: str) -> int:
    """Return a time of a scenario, such as ``24.8 s``, in ns."""
    found = re.fullmatch(r"([0-9.]+) *(s|ms|us|ns)", text)
    if found is None:
        raise ValueError(f"'{text}' is no time, such as '75 ms'")
    return round(float(found[1]) * UNITS_NS[found[2]])


class Send(NamedTuple):
    """A packet with data as its sender handed it to the network."""

    at: int
    seq: int
    #: Whether the network lost it; not so if it has arrived or is under way.
    lost: bool


class Arrival(NamedTuple):
    """A packet with data as it reached the receiving transport."""

    at: int
    seq: int
    payload: int
    wire: int


@dataclass
class Flow:
    """What a flow sent and what arrived, each in the order of time."""

    name: str
    sends: list[Send] = field(default_factory=list)
    arrivals: list[Arrival] = field(default_factory=list)
    #: Packets from the sender without data (SYN, FIN, a last ACK), and how many of those were lost.
    bare: int = 0
    bare_lost: int = 0
    #: The receiver hands data over in order.
    ordered: bool = True

    def handed_over(self, since: int) -> int:
        """Bytes of payload handed to the application from a time on, each byte once."""
        return sum(size for at, size in self.deliveries() if at >= since)

    def deliveries(self) -> list[tuple[int, int]]:
        """When how many bytes reached the application: what waited behind a gap, when the gap is filled."""
        if not self.ordered:
            return [(one.at, one.payload) for one in self.first_arrivals()]
        # Data of a TCP begin at 1, behind the SYN.
        expected, waiting, found = 1, {}, []
        for one in self.arrivals:
            end = one.seq + one.payload
            waiting[one.seq] = max(end, waiting.get(one.seq, 0))
            before = expected
            while True:
                # Ranges are mostly those that were sent before, but a sender may cut them differently.
                ready = expected if expected in waiting else min(waiting, default=expected + 1)
                if ready > expected:
                    break
                expected = max(expected, waiting.pop(ready))
            if expected > before:
                found.append((one.at, expected - before))
        return found

    def first_sends(self) -> dict[int, int]:
        """When each range of data was first transmitted."""
        first: dict[int, int] = {}
        for one in self.sends:
            first.setdefault(one.seq, one.at)
        return first

    def first_arrivals(self) -> list[Arrival]:
        """The arrivals without what had arrived before."""
        first: dict[int, Arrival] = {}
        for one in self.arrivals:
            first.setdefault(one.seq, one)
        return list(first.values())


@dataclass(frozen=True)
class Trace:
    """A run: its packets, and the text of its scenario as a dictionary."""

    hops: pl.DataFrame
    scenario: Mapping[str, Any]

    @property
    def since(self) -> int:
        """When measuring begins, in ns."""
        return nanoseconds(self.scenario.get("warmup", "0 s"))

    @property
    def end(self) -> int:
        """When the run ends, in ns."""
        return nanoseconds(self.scenario["duration"])

    @property
    def measured_s(self) -> float:
        """The measured interval."""
        return (self.end - self.since) / SECOND_NS

    @property
    def threshold(self) -> int:
        """Gap between arrivals beyond which a packet is late, in ns."""
        return nanoseconds(self.scenario["measure"]["realtime"]["threshold"])

    @cached_property
    def flows(self) -> list[Flow]:
        """The flows that sent something."""
        parts = self.hops.partition_by("flow", maintain_order=True)
        return [flow for part in parts if (flow := _flow(part)) is not None]

    def named(self, prefix: str) -> list[Flow]:
        """Flows of one kind: those of a flow that is written once and counted many times have its name."""
        return [one for one in self.flows if one.name == prefix or one.name.startswith(f"{prefix}-")]


def _flow(hops: pl.DataFrame) -> Flow | None:
    data = hops.filter(pl.col("kind").is_in(["data", "udp"])).sort("enqueue_ns", maintain_order=True)
    if data.is_empty():
        return None
    first_link = data["link"][0]
    # Where packets end that came to an end: behind every other link they go on.
    ends = data.group_by("packet", maintain_order=True).agg(pl.col("link", "outcome").last())
    done = ends.filter(pl.col("outcome") == "delivered")["link"]
    last_link = done.value_counts(sort=True)["link"][0] if len(done) else ""
    lost = set(ends.filter(~pl.col("outcome").is_in(NO_LOSS))["packet"])
    flow = Flow(str(hops["flow"][0]), ordered="udp" not in set(data["kind"]))
    sent = data.filter(pl.col("link") == first_link).select("enqueue_ns", "seq", "packet")
    flow.sends = [Send(at, seq, packet in lost) for at, seq, packet in sent.iter_rows()]
    arrived = data.filter((pl.col("link") == last_link) & (pl.col("outcome") == "delivered"))
    columns = arrived.sort("arrive_ns", maintain_order=True).select(
        "arrive_ns", "seq", "payload_bytes", "wire_bytes"
    )
    flow.arrivals = [Arrival(*row) for row in columns.iter_rows()]
    forward = set(data["link"])
    bare = hops.filter(~pl.col("kind").is_in(["data", "udp"]) & pl.col("link").is_in(list(forward)))
    flow.bare = bare.filter(pl.col("link") == first_link)["packet"].n_unique()
    flow.bare_lost = bare.filter(~pl.col("outcome").is_in(NO_LOSS))["packet"].n_unique()
    return flow


@dataclass(frozen=True)
class Figure:
    """A figure by the definition of the claim, and by other readings of it, each in words."""

    value: float
    readings: Mapping[str, float] = field(default_factory=dict)


def goodput(flows: Sequence[Flow], trace: Trace) -> float:
    """Payload handed to the applications once, in bit/s of the measured interval."""
    return 8 * sum(flow.handed_over(trace.since) for flow in flows) / trace.measured_s


def system_goodput(trace: Trace) -> Figure:
    """Papers 000 and 004: over all flows, in Mbit/s."""
    return Figure(goodput(trace.flows, trace) / 1e6)


def study_goodput(trace: Trace) -> Figure:
    """Paper 002: of the flow under study, in Mbit/s."""
    return Figure(goodput(trace.named("study"), trace) / 1e6)


def goodput_of_all(trace: Trace) -> Figure:
    """Paper 001: of all flows, in kbit/s."""
    return Figure(goodput(trace.flows, trace) / 1e3)


def ftp_rest(trace: Trace) -> Figure:
    """Paper 004: of the competing transfers, the probe left out, in Mbit/s."""
    return Figure(goodput(trace.named("ftp"), trace) / 1e6)


class Punctuality(NamedTuple):
    """Packets of a flow that were sent, received and late."""

    sent: int
    received: int
    late: int


def punctuality(flow: Flow, since: int, threshold: int) -> Punctuality:
    """Algorithm 1 of paper 004: late is what arrives too long after the next lower number that has arrived.

    At the transport, without retransmissions; of the packets that left the sender first in the measured
    interval.
    """
    counted = {seq for seq, at in flow.first_sends().items() if at >= since}
    numbers: list[int] = []
    times: dict[int, int] = {}
    received = late = 0
    for one in flow.first_arrivals():
        place = bisect.bisect_left(numbers, one.seq)
        gap = one.at - times[numbers[place - 1]] if place else 0
        numbers.insert(place, one.seq)
        times[one.seq] = one.at
        if one.seq in counted:
            received += 1
            late += gap > threshold
    return Punctuality(len(counted), received, late)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else float("nan")


def realtime_index(trace: Trace) -> Figure:
    """Papers 000 and 004: timely packets over packets that left the sender, mean over the flows."""
    counts = [punctuality(flow, trace.since, trace.threshold) for flow in trace.flows]
    return Figure(_mean([(one.received - one.late) / one.sent for one in counts if one.sent]))


def delayed_rate(trace: Trace) -> Figure:
    """Papers 000 and 004: late packets over packets received, mean over the flows."""
    counts = [punctuality(flow, trace.since, trace.threshold) for flow in trace.flows]
    return Figure(_mean([one.late / one.received for one in counts if one.received]))


def loss_over_sent(trace: Trace) -> Figure:
    """Paper 004: packets lost over packets that the protocol sent, mean over the flows."""
    shares = []
    for flow in trace.flows:
        sends = [one for one in flow.sends if one.at >= trace.since]
        if sends:
            shares.append(sum(one.lost for one in sends) / len(sends))
    return Figure(_mean(shares))


def lost_packets(trace: Trace) -> Figure:
    """Paper 002: packets of data of the flow under study that never reached the receiver's TCP."""
    flows = trace.named("study")
    lost = sum(one.lost for flow in flows for one in flow.sends if one.at >= trace.since)
    bare = sum(flow.bare_lost for flow in flows)
    return Figure(lost, {"with lost packets that carry no data, such as a SYN": lost + bare})


def delay(trace: Trace) -> Figure:
    """Paper 002: from the first transmission of each range of data to its first arrival, mean, in ms."""
    delays = []
    for flow in trace.named("study"):
        first = flow.first_sends()
        delays += [one.at - first[one.seq] for one in flow.first_arrivals() if one.at >= trace.since]
    return Figure(_mean(delays) / 1e6)


def delivery_ratio(trace: Trace) -> Figure:
    """Paper 003: packets of data that arrived over those sent, of the flows under study."""
    flows = trace.named("main")
    sent = sum(len(flow.sends) for flow in flows)
    lost = sum(one.lost for flow in flows for one in flow.sends)
    arrived = sum(len(flow.arrivals) for flow in flows)
    all_lost, all_sent = lost + sum(one.bare_lost for one in flows), sent + sum(one.bare for one in flows)
    return Figure(
        arrived / sent,
        {
            "what was under way at the end is not lost": 1 - lost / sent,
            "what was under way at the end is not lost, and SYNs are packets": 1 - all_lost / all_sent,
        },
    )


def mean_queue(trace: Trace) -> Figure:
    """Paper 004: time mean of the packets that wait before the bottleneck, the one in transmission apart."""
    since, end = trace.since, trace.end
    waits = trace.hops.filter(
        (pl.col("link") == "bottleneck")
        # What found no room never waited.
        & (pl.col("transmit_ns").is_not_null() | (pl.col("outcome") == "in-flight"))
    ).select(
        pl.col("enqueue_ns").clip(since, end).alias("from"),
        pl.col("transmit_ns").fill_null(end).clip(since, end).alias("to"),
    )
    return Figure(sum(to - start for start, to in waits.iter_rows()) / (end - since))


def jain(values: Sequence[float]) -> float:
    """The square of the sum over the count times the sum of squares; 1 if all are zero."""
    squares = sum(one * one for one in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def fairness(trace: Trace) -> Figure:
    """Papers 000 and 004: Jain's index of the flows' throughput, as bytes on the wire that arrived."""
    wire = [sum(one.wire for one in flow.arrivals if one.at >= trace.since) for flow in trace.flows]
    payload = [flow.handed_over(trace.since) for flow in trace.flows]
    return Figure(jain(wire), {"throughput is what reached the application, once": jain(payload)})


#: By paper and series: how it is worked out.
FROM_PACKETS: dict[tuple[str, str], Callable[[Trace], Figure]] = {
    ("000", "goodput"): system_goodput,
    ("000", "rtpi"): realtime_index,
    ("000", "delayed"): delayed_rate,
    ("000", "fairness"): fairness,
    ("001", "throughput"): goodput_of_all,
    ("002", "goodput"): study_goodput,
    ("002", "lost"): lost_packets,
    ("002", "delay"): delay,
    ("003", "pdr"): delivery_ratio,
    ("004", "goodput"): system_goodput,
    ("004", "rtpi"): realtime_index,
    ("004", "delayed"): delayed_rate,
    ("004", "loss"): loss_over_sent,
    ("004", "fairness"): fairness,
    ("004", "avg_queue"): mean_queue,
    ("004", "ftp_rest"): ftp_rest,
}
