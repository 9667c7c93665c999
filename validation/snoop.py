"""Snoop in lasthop and ns-2 side by side: `python -m validation.snoop [--full] [--jobs N]`.

The set-up of the dossier on ns-2's `LLSnoop`: fixed hosts, a base station, a LAN of 5 Mbit/s with the agent
at its near end, a router, and a lossy link of 10 Mbit/s to each mobile host. For every sender, number of
flows and loss rate: goodput within 5 % or the 95 % interval, retransmissions by the agent and by the senders
within 10 % or the interval. `--full` runs the whole grid and writes `docs/reference/validation-snoop.md`;
without it a few cells are run and printed. Called by `make validate`; the differential tests run cells of it
and a case packet by packet.
"""

from __future__ import annotations

import sys
import textwrap
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import polars as pl

from validation import engine, ns2, statistics
from validation.network import read
from validation.side_by_side import Column, SideBySide
from validation.statistics import CONFIDENCE, STAGGER_MS, Comparison, Sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lasthop import _native
    from validation.network import Network

SENDERS = ("reno", "newreno", "vegas", "sack")
FLOWS = (1, 5, 10, 20)
LOSSES = (0.0, 0.01, 0.03, 0.05)
RUNS = range(1, 6)
DURATION_S = 60
#: The applications stop so long before the end that nothing is under way then, and packets can be counted.
DRAIN_S = 10

SIDES = SideBySide(
    "snoop",
    "Compare Snoop with ns-2.",
    {
        "goodput_mbit_s": Column("goodput (Mbit/s)", 3, 0.05),
        "local": Column("retransmitted by the agent", 0, 0.1),
        "end_to_end": Column("by the senders", 0, 0.1),
    },
)

#: What a packet takes on ns-2's LAN: it occupies the station for itself and a header of 64 B, and arrives
#: after the delays of both link layers and 4 us, however long it is.
LAN_RATE = 5e6
LAN_HEADER = 64
LAN_DELAY_S = 0.004
LAN_LATENCY_S = LAN_DELAY_S + 4e-6
#: How much of the delay lies between the agent and the queue of the base station. `newLan` gives the link
#: layers of all stations the same; here it is a little more than half, because with 2 ms retransmissions and
#: data reach the queue in the same instant, and a tie is decided otherwise on either side.
LAYER_S = 0.0021
PACKET, ACK = 1000, 40
#: By how much a SYN arrives earlier here, where latency depends on size. All that follows is as much earlier,
#: and so must be the clocks in whose ticks senders measure, or a timeout comes a tick sooner or later.
SHIFT_S = (PACKET + LAN_HEADER) * 8 / LAN_RATE * (1 - ACK / PACKET)


@dataclass(frozen=True)
class Cell:
    """One comparison."""

    sender: str
    flows: int
    loss: float
    #: Numbers of the packets that the last link loses, in place of a rate.
    losses: tuple[int, ...] = ()
    agent: str | None = "ns2"
    #: Between the agent and the queue that it watches; the rest of the LAN's delay lies behind that.
    layer_s: float = LAYER_S
    #: One clock for all connections in ns-2, and retransmissions for one when data of another pass.
    integrate: bool = False
    duration_s: float = DURATION_S
    drain_s: float = DRAIN_S

    @property
    def key(self) -> str:
        """What the page calls it."""
        apart = "" if self.layer_s == LAYER_S else f", {self.layer_s * 1e3:g} ms to the queue"
        return f"{self.sender}, {self.flows} flow{'s' if self.flows > 1 else ''}, loss {self.loss:g}{apart}"

    def scenario(self, *, for_ns2: bool = False) -> dict[str, Any]:
        """The network; the LAN is a link that takes as long for packets of this size, or ns-2's own."""
        queue = {"kind": "drop-tail", "limit": "50 packets"}
        error: dict[str, Any] = {"kind": "none"}
        if self.losses:
            error = {"kind": "list", "packets": list(self.losses), "position": "before-queue"}
        elif self.loss:
            error = {"kind": "bernoulli", "packet_error_rate": self.loss, "position": "before-queue"}
        links: list[dict[str, Any]] = []
        if not for_ns2:
            layer_s = 0.0 if self.agent is None else self.layer_s
            links.append({"from": "base", "to": "router", "queue": queue, **_lan(layer_s)})
            if self.agent is not None:
                agent = {
                    "kind": "snoop",
                    "profile": self.agent,
                    "link_layer_delay": f"{layer_s * 1e9:.0f} ns",
                }
                links[0]["middleboxes"] = [agent]
                # The other end of ns-2's LAN has no agent.
                links[0]["reverse"]["middleboxes"] = []
        fast = {"rate": "10 Mbit/s", "queue": queue}
        for n in range(1, self.flows + 1):
            near = 20.0 + (n - 1) * STAGGER_MS
            links.append({"from": f"fixed-{n}", "to": "base", "delay": f"{near:.4f} ms", **fast})
            clean = {"reverse": {"error": {"kind": "none"}}}
            links.append(
                {"from": "router", "to": f"mobile-{n}", "delay": "5 ms", "error": error, **fast, **clean}
            )
        hosts = [f"{kind}-{n}" for n in range(1, self.flows + 1) for kind in ("fixed", "mobile")]
        start: Any = {"uniform": ["0 s", "1 s"]} if not self.losses else "0 s"
        return {
            "name": self.key,
            "duration": f"{self.duration_s} s",
            "topology": {"kind": "graph", "nodes": ["base", "router", *hosts], "links": links},
            "tcp": {
                "profile": "ns2",
                "packet_size": f"{PACKET - ACK} B",
                "receiver_window": "64 packets",
                "initial_ssthresh": "64 packets",
            },
            "flows": [
                {
                    "name": f"flow-{n}",
                    "source": f"fixed-{n}",
                    "sink": f"mobile-{n}",
                    "transport": self.sender,
                    "start": start,
                    "stop": f"{self.duration_s - self.drain_s} s",
                }
                for n in range(1, self.flows + 1)
            ],
        }


def _lan(layer_s: float) -> dict[str, Any]:
    """Rates and delays of a link on which data and ACKs take what they take on the LAN behind the agent."""
    latency_s = LAN_LATENCY_S - layer_s

    def direction(size: int) -> dict[str, str]:
        taken = (size + LAN_HEADER) * 8 / LAN_RATE
        return {"rate": f"{size * 8 / taken:.6f} bit/s", "delay": f"{(latency_s - taken) * 1e9:.0f} ns"}

    return direction(PACKET) | {"reverse": direction(ACK)}


def grid() -> list[Cell]:
    """Every cell."""
    return [Cell(sender, flows, loss) for sender, flows, loss in product(SENDERS, FLOWS, LOSSES)]


# ----------------------------------------------------------------------------------------------------
# ns-2


def script(cell: Cell, network: Network, substream: int | None) -> list[str]:
    """The script up to what it prints; deterministic without a substream."""
    lines = ["set out stdout", f"Mac set bandwidth_ {LAN_RATE:.0f}", "set ns [new Simulator]"]
    lines.insert(1, f"LL/LLSnoop set integrate_ {int(cell.integrate)}")
    if substream is not None:
        lines.append(f"for {{set i 0}} {{$i < {substream}}} {{incr i}} {{ $defaultRNG next-substream }}")
    else:
        lines.append(f"$defaultRNG seed {ns2.CLOCK_SEED}")
    lines += ns2.topology(network)
    kinds = "-llType LL -ifqType Queue/DropTail -macType Mac -chanType Channel"
    layer = "LL" if cell.agent is None else "LL/LLSnoop"
    base, router = (f"$node({network.nodes.index(name)})" for name in ("base", "router"))
    lines += [
        f'set lan [$ns newLan "{router}" {LAN_RATE:.0f} {LAN_DELAY_S - cell.layer_s:g} {kinds}]',
        f"$lan addNode [list {base}] {LAN_RATE:.0f} {cell.layer_s} {layer} Queue/DropTail Mac",
        f"set lanq [[$lan set lanIface_({base})] set ifq_]",
        "set lost(lan) [new Agent/LossMonitor]; $lanq drop-target $lost(lan)",
    ]
    lines += ns2.errors(network, substream)
    if substream is not None:
        lines.append(
            f"set start_rng [new RNG]; for {{set i 0}} {{$i < {substream}}} {{incr i}} "
            "{ $start_rng next-substream }"
        )
    for number, flow in enumerate(network.flows):
        lines += ns2.tcp_agent(network, number, flow)
        low, high = flow.start_s
        start = f"{low}" if low == high else f"[$start_rng uniform {low} {high}]"
        lines += ns2.traffic(network, number, flow, start)
    return lines


def count(cell: Cell, substream: int) -> Sample:
    """Counters of one random run of ns-2."""
    network = read(cell.scenario(for_ns2=True))
    lines = script(cell, network, substream)
    for number, link in enumerate(network.directions):
        ends = f"$node({network.nodes.index(link.source)}) $node({network.nodes.index(link.target)})"
        if link.target == "base":
            lines.append(f'set came({number}) [$ns monitor-queue {ends} ""]')
        if link.source == "router":
            lines.append(f'set went({number}) [$ns monitor-queue {ends} ""]')
    # What the router got beyond what was sent to the base station, the agent has repeated. Monitors of the
    # last links stand before what loses packets there; what a host's own queue refused never came.
    lines.append(
        """proc finish {} {
    global ns tcp came went lost
    set local 0
    foreach i [array names came] { set local [expr {$local - [$came($i) set pdepartures_]}] }
    foreach i [array names went] { set local [expr {$local + [$went($i) set parrivals_]}] }
    foreach i [array names lost] { set local [expr {$local + [$lost($i) set npkts_]}] }
    puts "local $local"
    foreach i [array names tcp] {
        set t $tcp($i)
        puts "flow [$t set ack_] [$t set nrexmitpack_]"
    }
    puts end
    exit 0
}"""
    )
    lines += [f'$ns at {network.duration_s} "finish"', "$ns run"]
    found, _ = ns2.run("\n".join(lines) + "\n")
    rows = [line.split() for line in found if line.startswith(("local ", "flow "))]
    flows = [row for row in rows if row[0] == "flow"]
    delivered = sum(float(row[1]) for row in flows) * (PACKET - ACK) * 8
    return {
        "goodput_mbit_s": delivered / cell.duration_s / 1e6,
        "local": float(next(row[1] for row in rows if row[0] == "local")),
        "end_to_end": sum(float(row[2]) for row in flows),
    }


def trace(cell: Cell) -> pl.DataFrame:
    """Every packet of a deterministic run of ns-2 on the links beside the LAN: when, where, what."""
    network = read(cell.scenario(for_ns2=True))
    lines = script(cell, network, None)
    lines.append('proc seen {link line} { global ns; puts "p [$ns now] $link $line" }')
    for number, link in enumerate(network.directions):
        ends = f"$node({network.nodes.index(link.source)}) $node({network.nodes.index(link.target)})"
        lines.append(f"[$ns link {ends}] trace-callback $ns {{seen {number}}}")
    lines += [f'$ns at {network.duration_s} "puts end; exit 0"', "$ns run"]
    found, _ = ns2.run("\n".join(lines) + "\n")
    rows = []
    for line in found:
        words = line.split()
        if words[:1] == ["p"] and words[3] == "r":
            link = network.directions[int(words[2])]
            rows.append((link.link, words[7], int(words[13]), float(words[1])))
    return pl.DataFrame(rows, schema=["link", "kind", "number", "time_s"], orient="row")


# ----------------------------------------------------------------------------------------------------
# lasthop


def ours(plan: _native.Plan, seed: int) -> Sample:
    """The same counters of one run."""
    run = engine.count_totals(plan, seed)
    return {
        "goodput_mbit_s": run["totals"]["goodput_bit_s"] / 1e6,
        "local": float(run["totals"].get("helper_retransmissions") or 0),
        "end_to_end": float(run["totals"]["retransmitted_packets"]),
    }


def trace_ours(cell: Cell) -> pl.DataFrame:
    """As `trace`, of a run of lasthop; packets have the numbers of ns-2."""
    trace = engine.trace_packets(cell.scenario(), [SHIFT_S] * cell.flows)
    hops = trace.hops.filter(pl.col("arrive_s").is_not_null())
    is_data = pl.col("kind").is_in(["data", "syn"])
    # ns-2 numbers packets from 0, the SYN; an ACK has the number of the last packet that it covers.
    size = PACKET - ACK
    data = pl.when(pl.col("kind") == "syn").then(0).otherwise((pl.col("seq") - 1) // size + 1)
    return (
        hops.filter(~pl.col("link").str.contains("base-router"))
        .with_columns(
            pl.when(is_data).then(pl.lit("tcp")).otherwise(pl.lit("ack")).alias("packet"),
            pl.when(is_data).then(data).otherwise((pl.col("ack") - 1) // size).alias("number"),
        )
        .select("link", pl.col("packet").alias("kind"), "number", pl.col("arrive_s").alias("time_s"))
    )


def compare(cell: Cell, runs: Sequence[int] = RUNS, confidence: float = CONFIDENCE) -> list[Comparison]:
    """Run a cell on both sides and compare every metric."""
    plan = engine.plan(cell.scenario())
    mine = [ours(plan, seed) for seed in runs]
    theirs = [count(cell, substream) for substream in runs]
    return [statistics.compared(cell, metric, mine, theirs, confidence) for metric in SIDES.columns]


INTRODUCTION = """# Snoop against ns-2

Generated by `python -m validation.snoop --full`; do not edit.

Fixed hosts, 10 Mbit/s and 20 ms and a little more for each further one, to a base station; a LAN of 5
Mbit/s and 4 ms with `LLSnoop` at its near end, {layer} ms of them between the agent and its queue; a
router; 10 Mbit/s and 5 ms to each mobile host, which loses data at the head of the link, as `lossmodel`
does. Packets of 1000 B, windows of 64, queues of 50 packets; flows start in the first second and stop
{drain} s before the end; {runs} runs of {duration} s a side, senders and agent in the profile `ns2`. In
lasthop the LAN is a link that occupies its station as long as ns-2's does, whose frames have 64 B more,
and delays as much.

Each entry is lasthop's mean / ns-2's mean. **Bold**: zero is outside the 95 % interval of the difference
(Welch), and the means are further apart than 5 % for goodput, 10 % for retransmissions. Without any real
difference up to one comparison in twenty would be outside.

With chosen losses a connection is the same packet by packet in both, with retransmissions, suppressed ACKs
and timers. Over a minute with the same two hundred losses the senders retransmit the same number of packets:
`tests/differential/test_snoop.py`.

Twenty flows of Vegas without losses have runs of two kinds, with a full queue or without, and five a side
do not decide: of 24 a side, in November 2026, 17 and 17 had a full queue, and the senders retransmitted 837
and 936 packets (p = 0.5).

`integrate_`, which is off in ns-2 by default, is not copied. {integrated}

- lasthop {version}, {rival}
- {date}
- {count} comparisons, {differing} outside
"""


def integrated() -> str:
    """What `integrate_` does in ns-2, measured."""
    cell = Cell("reno", 5, 0.01)
    off, on = (
        [count(replace(cell, integrate=switch), substream) for substream in RUNS] for switch in (False, True)
    )

    def mean(runs: list[Sample], metric: str) -> float:
        return sum(run[metric] for run in runs) / len(runs)

    return (
        f"With it the agent retransmits {mean(on, 'local'):.0f} packets instead of {mean(off, 'local'):.0f} "
        f"({cell.key}), most of them needlessly, and goodput falls from {mean(off, 'goodput_mbit_s'):.2f} to "
        f"{mean(on, 'goodput_mbit_s'):.2f} Mbit/s."
    )


def page(comparisons: list[Comparison]) -> str:
    """The reference page."""
    introduction = INTRODUCTION.format(
        runs=len(RUNS),
        duration=DURATION_S,
        drain=DRAIN_S,
        layer=f"{LAYER_S * 1e3:g}",
        integrated=integrated(),
        **SIDES.facts(comparisons),
    )
    paragraphs = [
        one if one.startswith(("#", "-")) else textwrap.fill(one, 107) for one in introduction.split("\n\n")
    ]
    return "\n\n".join(paragraphs).rstrip() + "\n\n" + "\n".join(SIDES.table(comparisons)) + "\n"


def main() -> int:
    """Entry point; 1 if more comparisons differ than chance explains."""
    few = [Cell("reno", 1, 0.03), Cell("newreno", 5, 0.01), Cell("vegas", 1, 0.01)]
    return SIDES.main(grid(), few, compare, page)


if __name__ == "__main__":
    sys.exit(main())
