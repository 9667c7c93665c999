"""Queues of lasthop and of Linux 6.1, packet by packet: `python -m validation.kernel_queues`.

The kernel of the virtual machine (`make kernel-guest`) gets the packets that our queue got, at the same
times; what either lets go, and when, is compared packet by packet. The command writes
`docs/reference/validation-linux-queues.md`.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

import lasthop as lh
from lasthop import guest

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parent.parent
NOTES = Path(__file__).parent / "kernel-queues-notes.md"
PAGE = ROOT / "docs" / "reference" / "validation-linux-queues.md"
RATE = 10_000_000
END_S = 12
#: The kernel needs some milliseconds for its first packet.
START_S = 0.2
HEADERS = 28
#: A token bucket for disciplines without a rate: a packet of 1000 bytes at a time.
BUCKET = f"qdisc add dev DEVICE root handle 1: tbf rate {RATE}bit burst 1540 limit 10000000"
BELOW = f"{BUCKET}\nqdisc add dev DEVICE parent 1:1 {{}}"


@dataclass(frozen=True)
class Sender:
    """A flow of datagrams at a constant rate."""

    rate_bit_s: int
    bytes: int = 1000
    dscp: int = 0
    start_s: float = START_S
    stop_s: float = END_S - 2


@dataclass(frozen=True)
class Case:
    """A queue under some senders: what it is called, ours, and what `tc` is told."""

    name: str
    queue: dict[str, Any]
    discipline: str
    senders: tuple[Sender, ...]

    @property
    def is_shaper(self) -> bool:
        """Whether the queue has a rate of its own."""
        return "bandwidth" in self.queue


@dataclass(frozen=True)
class Outcome:
    """What became of the packets of a case.

    Attributes
    ----------
    packets : DataFrame
        A row for each: ``flow`` (a number), when it came (``came_ns``), and when it left ours and theirs
        (``ours_ns``, ``theirs_ns``; null if it was dropped).
    late_ns : int
        By how much the kernel got packets late, at most.
    """

    packets: pl.DataFrame
    late_ns: int


def growing(count: int, together: float) -> tuple[Sender, ...]:
    """Senders with rates of 1:2:...:count, `together` times the bottleneck's in all, that start in turn."""
    parts = count * (count + 1) // 2
    return tuple(
        Sender(round(together * RATE * (place + 1) / parts), start_s=START_S + 0.0137 * place)
        for place in range(count)
    )


CAKE = {"kind": "cake", "bandwidth": f"{RATE} bit/s"}
AS_CAKE = f"qdisc add dev DEVICE root cake bandwidth {RATE}bit"
SPARSE = (Sender(12_000_000), Sender(9_000_000, start_s=0.213), Sender(64_000, bytes=200, start_s=0.25))
CLASSES = (
    Sender(6_000_000),
    Sender(6_000_000, dscp=8, start_s=0.213),
    Sender(3_000_000, dscp=46, start_s=0.221, bytes=500),
)
PIE, FQ_PIE = {"kind": "pie"}, {"kind": "fq-pie"}
AS_PIE = BELOW.format("pie limit 1000")
#: Linux has a second way to tell the delay, that of RFC 8033 section 4.2: the queue's length by its rate.
ESTIMATED = f"{AS_PIE} dq_rate_estimator"
#: `tc` derives the weight of a sample from `min` and `burst`, here 2^-7, and makes the slope a power of two,
#: as 0.125 over 2^15 bytes is.
THRESHOLDS = (15_000, 15_000 + (1 << 15))
RED = {
    "kind": "red",
    "limit": "1000 packets",
    "measure": "bytes",
    "mean_packet": "1000 B",
    "min_th": f"{THRESHOLDS[0]} B",
    "max_th": f"{THRESHOLDS[1]} B",
    "w_q": 1 / 128,
    "max_p": 0.125,
    "gentle": False,
    "wait": False,
}
AS_RED = BELOW.format(
    f"red limit 1000000 min {THRESHOLDS[0]} max {THRESHOLDS[1]} avpkt 1000 burst 57 probability 0.125 "
    f"bandwidth {RATE}bit"
)
CASES = (
    Case("cake, 1 flow", CAKE, AS_CAKE, growing(1, 1.2)),
    Case("cake, 5 flows", CAKE, AS_CAKE, growing(5, 1.2)),
    Case("cake, 2 flows and a sparse one", CAKE, AS_CAKE, SPARSE),
    Case("cake, three tins", CAKE, AS_CAKE, CLASSES),
    Case("cake, four tins", CAKE | {"tins": "diffserv4"}, f"{AS_CAKE} diffserv4", CLASSES),
    Case("cake, one tin", CAKE | {"tins": "besteffort"}, f"{AS_CAKE} besteffort", CLASSES),
    Case(
        "cake, ATM, overhead 44",
        CAKE | {"framing": "atm", "overhead": 44},
        f"{AS_CAKE} atm overhead 44",
        growing(3, 1.1),
    ),
    Case(
        "cake, PTM, overhead 22, MPU 64",
        CAKE | {"framing": "ptm", "overhead": 22, "mpu": 64},
        f"{AS_CAKE} ptm overhead 22 mpu 64",
        SPARSE,
    ),
    Case("cake, RTT 20 ms", CAKE | {"rtt": "20 ms"}, f"{AS_CAKE} rtt 20ms", growing(5, 1.2)),
    Case("cake, 64 kB", CAKE | {"memory": "64000 B"}, f"{AS_CAKE} memlimit 64000", growing(5, 1.5)),
    Case(
        "codel, 1 flow",
        {"kind": "codel"},
        BELOW.format("codel limit 1000"),
        growing(1, 1.2),
    ),
    Case(
        "codel, 5 flows",
        {"kind": "codel"},
        BELOW.format("codel limit 1000"),
        growing(5, 1.2),
    ),
    Case(
        "fq-codel, 5 flows",
        {"kind": "fq-codel"},
        BELOW.format("fq_codel"),
        growing(5, 1.2),
    ),
    Case(
        "fq-codel, 2 flows and a sparse one",
        {"kind": "fq-codel"},
        BELOW.format("fq_codel"),
        SPARSE,
    ),
    Case("pie, 1 flow", PIE, AS_PIE, growing(1, 1.2)),
    Case("pie, 1 flow, rate estimated", PIE, ESTIMATED, growing(1, 1.2)),
    Case("pie, 5 flows", PIE, AS_PIE, growing(5, 1.2)),
    Case("pie, 5 flows, rate estimated", PIE, ESTIMATED, growing(5, 1.2)),
    Case("pie, 5 flows, twice the rate", PIE, AS_PIE, growing(5, 2)),
    Case("fq-pie, 5 flows", FQ_PIE, BELOW.format("fq_pie"), growing(5, 1.2)),
    Case("fq-pie, 2 flows and a sparse one", FQ_PIE, BELOW.format("fq_pie"), SPARSE),
    Case("red, 1 flow, a little too fast", RED, AS_RED, growing(1, 1.05)),
    Case("red, 5 flows, a little too fast", RED, AS_RED, growing(5, 1.05)),
    Case("red, 5 flows", RED, AS_RED, growing(5, 1.2)),
    Case("red, 5 flows, adaptive", RED | {"adaptive": True}, f"{AS_RED} adaptive", growing(5, 1.2)),
)


def scenario(case: Case) -> lh.Scenario:
    """The case as a scenario: senders next to the queue, a link behind it."""
    wide = {"kind": "drop-tail", "limit": "100000 packets"}
    nodes = [f"source-{place}" for place in range(len(case.senders))]
    rate = "1 Gbit/s" if case.is_shaper else f"{RATE} bit/s"
    out = {"from": "router", "to": "sink", "rate": rate, "delay": "1 ms", "queue": case.queue}
    access = {"to": "router", "rate": "10 Gbit/s", "delay": "1 us", "queue": wide, "reverse": {"queue": wide}}
    flows = [
        {
            "name": str(place),
            "source": nodes[place],
            "sink": "sink",
            "transport": "udp",
            "dscp": sender.dscp,
            "start": f"{sender.start_s} s",
            "stop": f"{sender.stop_s} s",
            "traffic": {
                "kind": "cbr",
                "rate": f"{sender.rate_bit_s * (sender.bytes - HEADERS) / sender.bytes:.6f} bit/s",
                "packet": f"{sender.bytes - HEADERS} B",
            },
        }
        for place, sender in enumerate(case.senders)
    ]
    links = [out | {"reverse": {"queue": wide}}, *({"from": node, **access} for node in nodes)]
    graph = {"kind": "graph", "nodes": ["router", "sink", *nodes], "links": links}
    return lh.Scenario({"duration": f"{END_S} s", "topology": graph, "flows": flows})


def outcome(case: Case) -> Outcome:
    """Ask both."""
    run = lh.run(scenario(case), seed=1, trace=True)
    hops = (
        pl.DataFrame(run.table("hops")).filter(pl.col("link") == "router-sink").sort("enqueue_ns", "packet")
    )
    packets = hops.select(
        pl.col("flow").cast(pl.Int64),
        pl.col("enqueue_ns").alias("came_ns"),
        pl.col("transmit_ns").alias("ours_ns"),
        pl.col("wire_bytes").alias("bytes"),
    )
    sent = [
        (int(came), int(flow), case.senders[flow].dscp, int(size))
        for flow, came, size in packets.select("flow", "came_ns", "bytes").iter_rows()
    ]
    answer = guest.run_discipline(case.discipline.splitlines(), sent, END_S * 1_000_000_000)
    theirs: list[int | None] = [None] * len(sent)
    for place, time in answer["left"]:
        theirs[place] = time
    column = pl.Series("theirs_ns", theirs, dtype=pl.Int64)
    return Outcome(packets.with_columns(pl.col("ours_ns").cast(pl.Int64), column), answer["late_ns"])


def row(case: Case, found: Outcome) -> dict[str, Any]:
    """What is told of a case."""
    packets = found.packets
    ours, theirs = pl.col("ours_ns"), pl.col("theirs_ns")
    by_flow = (
        packets.group_by("flow").agg(ours.count().alias("ours"), theirs.count().alias("theirs")).sort("flow")
    )
    both = packets.filter(ours.is_not_null() & theirs.is_not_null())
    apart = (both["ours_ns"] - both["theirs_ns"]).abs()
    waits = packets.select((ours - pl.col("came_ns")).mean(), (theirs - pl.col("came_ns")).mean().alias("w"))
    return {
        "name": case.name,
        "packets": packets.height,
        "ours": by_flow["ours"].to_list(),
        "theirs": by_flow["theirs"].to_list(),
        "alike": packets.select((ours.is_null() == theirs.is_null()).mean()).item(),
        "wait_ms": [1e-6 * value for value in waits.row(0)],
        "apart_us": [1e-3 * float(apart.quantile(share) or 0) for share in (0.5, 0.99)],
        "late_us": found.late_ns / 1e3,
    }


INTRODUCTION = """\
# Queues against Linux, packet by packet

Generated by `python -m validation.kernel_queues`; do not edit.

A bottleneck of {rate} Mbit/s with the queue, and datagrams at constant rates for ten seconds. The queues of
Linux {release} stand in the virtual machine of `make kernel-guest`, at a device that is always read: they get
the packets that ours got, of the same flows, sizes and code points, at the same times. CAKE shapes by itself;
the others stand below a token bucket that holds one packet. Each row says how many packets of each flow left
ours / Linux', how long they waited on average, how many packets met the same fate in both, and by how much
those that left both left at another time (median and 99th percentile).

- {date}; packets came to Linux at most {late:.2f} ms late
- {cases} cases, {packets:,} packets

| queue | packets that left, by flow: ours / Linux' | mean wait (ms) | same fate | apart (ms) |
| --- | --- | ---: | ---: | ---: |
"""


def page(rows: Sequence[dict[str, Any]], release: str) -> str:
    """Return the page as Markdown."""
    text = INTRODUCTION.format(
        rate=RATE // 1_000_000,
        release=release,
        date=dt.datetime.now(tz=dt.UTC).date(),
        late=max(row["late_us"] for row in rows) / 1e3,
        cases=len(rows),
        packets=sum(row["packets"] for row in rows),
    )
    for one in rows:
        left = ", ".join(f"{a} / {b}" for a, b in zip(one["ours"], one["theirs"], strict=True))
        wait, apart = one["wait_ms"], [1e-3 * value for value in one["apart_us"]]
        text += (
            f"| {one['name']} | {left} | {wait[0]:.1f} / {wait[1]:.1f} | {100 * one['alike']:.0f} % "
            f"| {apart[0]:.2f}, {apart[1]:.1f} |\n"
        )
    return f"{text}\n{NOTES.read_text(encoding='utf-8')}"


def main() -> None:
    """Compare and write the page, if the machine is there."""
    if lack := guest.lacking():
        print(f"{lack}: {PAGE.name} stays as it is")
        return
    rows = []
    for case in CASES:
        rows.append(row(case, outcome(case)))
        print(f"{len(rows)} of {len(CASES)}: {case.name}", flush=True)
    PAGE.write_text(page(rows, guest.find().release), encoding="utf-8")
    print(f"written: {PAGE.name}")


if __name__ == "__main__":
    main()
