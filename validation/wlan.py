"""IEEE 802.11 in lasthop and ns-2 side by side: `python -m validation.wlan [--runs N]`.

Stations on a circle of ten metres around a node that is their access point, or in ns-2 one more station in
ad-hoc mode, whose scan after three failures would disturb what is compared. No two of them stand exactly
opposite each other: what crosses the circle is then on its way for twice as long as what goes to its middle
and arrives at the very instant at which a countdown ends, and in ns-2 the rounding of times decides whether
both collide. Both sides have profile `ns2`: 11 Mbit/s, answers at 1 Mbit/s, `Mac/802_11` with a queue of 50
packets, two-ray ground. A contention window of one slot makes an exchange deterministic: then arrivals must
agree to a microsecond. Otherwise means over seeds must: zero lies in the 95 % interval of their difference
(Welch), or they are within 3 % of each other, 5 % for retries, collisions and drops. The command writes
`docs/reference/validation-wlan.md`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import math
import os
import random
import statistics
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import polars as pl
from scipy import stats

from lasthop import _native
from validation import engine, ns2

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "validation-wlan.md"

DURATION_S = 33
WARMUP_S = 3
STATIONS = (1, 2, 5, 10)
RTS = {"off": "3000 B", "on": "0 B"}
RUNS = range(1, 6)
CONFIDENCE = 0.95
#: Relative differences of means that are allowed where the interval excludes zero.
SAME_GOODPUT = 0.03
SAME_RETRIES = 0.05
#: TCP: payload, and ns-2's header. UDP: bytes of a datagram, to which ns-2 adds nothing.
PAYLOAD = 1000
WIRE = 1040
DATAGRAM = 1024

Traffic = Literal["up", "down", "udp"]

METRICS = ("goodput", "retries", "collisions", "drops")

#: What a comparison is about.
C = TypeVar("C")


@dataclass(frozen=True)
class Cell:
    """What is compared."""

    stations: int
    traffic: Traffic
    rts: str = "off"
    per: float = 0.0
    #: Packets are lost behind the retries of the MAC, not frames before them.
    after: bool = False


@dataclass(frozen=True)
class Measured:
    """One run of one side: Mbit/s of payload; attempts that nothing answered, frames that began while another
    did, and packets that were dropped, each per second."""

    goodput: float
    retries: float
    collisions: float
    drops: float


# ----------------------------------------------------------------------------------------------------
# ns-2

_SCRIPT = """
remove-all-packet-headers
add-packet-header IP TCP Flags Mac LL ARP RTP
for {set i 1} {$i < @seed@} {incr i} { $defaultRNG next-substream }
Mac/802_11 set dataRate_ 11Mb
Mac/802_11 set basicRate_ 1Mb
Mac/802_11 set RTSThreshold_ @rts@
Mac/802_11 set CWMin_ @cw_min@
Mac/802_11 set CWMax_ @cw_max@
set ns [new Simulator]
set out [open @trace@ w]
$ns trace-all $out
set topo [new Topography]
$topo load_flatgrid 1000 1000
create-god [expr @stations@ + 1]
set chan [new Channel/WirelessChannel]
proc errors {} {
    set model [new ErrorModel]
    $model unit pkt
    $model set rate_ @per@
    $model ranvar [new RandomVariable/Uniform]
    return $model
}
$ns node-config -adhocRouting DumbAgent -llType LL -macType Mac/802_11 \\
    -ifqType Queue/DropTail -ifqLen 50 \\
    -antType Antenna/OmniAntenna -propType Propagation/TwoRayGround -phyType Phy/WirelessPhy \\
    -topoInstance $topo -channel $chan -agentTrace @agents@ -routerTrace OFF -macTrace @macs@ \\
    -movementTrace OFF \\
    @errors@
set pi 3.141592653589793
for {set i 0} {$i <= @stations@} {incr i} {
    set node($i) [$ns node]
    $node($i) random-motion 0
    set radius [expr $i > 0 ? 10 : 0]
    $node($i) set X_ [expr 500 + $radius * cos(2 * $pi * ($i - 1) / (@stations@ + 0.5))]
    $node($i) set Y_ [expr 500 + $radius * sin(2 * $pi * ($i - 1) / (@stations@ + 0.5))]
    $node($i) set Z_ 0
    @behind@
}
"""

# What the link layer hands up is lost behind the retries of the MAC.
_BEHIND = """
    set model($i) [errors]
    $model($i) target [$node($i) entry]
    $model($i) drop-target [new Agent/Null]
    [$node($i) set ll_(0)] up-target $model($i)
"""

_UDP = """
for {set i 1} {$i <= @stations@} {incr i} {
    set source [new Agent/UDP]
    set sink($i) [new Agent/LossMonitor]
    $source set packetSize_ @datagram@
    $ns attach-agent $node($i) $source
    $ns attach-agent $node(0) $sink($i)
    $ns connect $source $sink($i)
    set traffic [new Application/Traffic/CBR]
    $traffic attach-agent $source
    $traffic set packetSize_ @datagram@
    $traffic set interval_ @interval@
    # Resolves the address before anybody is saturated.
    $ns at [expr 0.1 + 0.05 * $i] "$source send 40"
    $ns at 2.0 "$traffic start"
}
"""

# Addresses are resolved before anybody sends: a lost answer would keep a flow from starting for many seconds.
_TCP = """
for {set i 1} {$i <= @stations@} {incr i} {
    set probe [new Agent/UDP]
    set nowhere [new Agent/Null]
    $ns attach-agent $node(@from@) $probe
    $ns attach-agent $node(@to@) $nowhere
    $ns connect $probe $nowhere
    $ns at [expr 0.05 * $i] "$probe send 40"
    set source [new Agent/TCP/Newreno]
    set sink($i) [new Agent/TCPSink]
    $source set packetSize_ @payload@
    $source set window_ 20
    $ns attach-agent $node(@from@) $source
    $ns attach-agent $node(@to@) $sink($i)
    $ns connect $source $sink($i)
    set traffic [new Application/FTP]
    $traffic attach-agent $source
    $ns at [expr 0.6 + 0.1 * $i] "$traffic start"
}
"""

_END = """
proc mark {} {
    global sink base
    for {set i 1} {$i <= @stations@} {incr i} { set base($i) [$sink($i) set bytes_] }
}
proc finish {} {
    global sink base ns out
    $ns flush-trace
    close $out
    set total 0
    for {set i 1} {$i <= @stations@} {incr i} { set total [expr $total + [$sink($i) set bytes_] - $base($i)] }
    puts "bytes $total"
    puts "end"
    exit 0
}
$ns at @warmup@ mark
$ns at @duration@ finish
$ns run
"""


def _script(
    cell: Cell, seed: int, trace: str, *, window: tuple[int, int], interval: float, end: float
) -> str:
    parts = [_SCRIPT, _UDP if cell.traffic == "udp" else _TCP, _END]
    values = {
        "seed": seed,
        "rts": 0 if cell.rts == "on" else 3000,
        "cw_min": window[0],
        "cw_max": window[1],
        "trace": trace,
        "stations": cell.stations,
        "per": cell.per,
        "errors": "-IncomingErrProc errors" if cell.per and not cell.after else "",
        "behind": _BEHIND if cell.after else "",
        "agents": "OFF",
        "macs": "OFF" if trace == "/dev/null" else "ON",
        "datagram": DATAGRAM,
        "payload": PAYLOAD,
        "interval": interval,
        "from": "$i" if cell.traffic == "up" else 0,
        "to": 0 if cell.traffic == "up" else "$i",
        "warmup": min(WARMUP_S, end),
        "duration": end,
    }
    text = "\n".join(parts)
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    return text


def theirs(cell: Cell, seed: int) -> Measured:
    """What the page compares, of one run of ns-2."""
    script = _script(cell, seed, "mac.tr", window=(31, 1023), interval=0.0015, end=DURATION_S)
    script = script.replace('puts "bytes $total"', _COUNT + '\n    puts "bytes $total"')
    names = ("bytes ", "missed ", "collisions ", "drops ")
    found = dict(line.split() for line in ns2.run(script)[0] if line.startswith(names))
    wire, payload = (1, 1) if cell.traffic == "udp" else (WIRE, PAYLOAD)
    seconds = DURATION_S - WARMUP_S
    goodput = int(found["bytes"]) / wire * payload * 8 / seconds / 1e6
    rates = [int(found[name.strip()]) / seconds for name in names[1:]]
    return Measured(goodput, *rates)


def their_goodputs(cell: Cell, seed: int, times: Sequence[float]) -> list[float]:
    """Mbit/s of payload of TCP between each two of these times, of one run of ns-2."""
    told = [f"$ns at {time} told" for time in times]
    sinks = " ".join(f"[$sink({number}) set bytes_]" for number in range(1, cell.stations + 1))
    told.insert(0, f'proc told {{}} {{ global sink; puts "told {sinks}" }}')
    plain = {"window": (31, 1023), "interval": 0.0015}
    script = _script(cell, seed, "/dev/null", **plain, end=times[-1] + 1e-3)
    script = script.replace("$ns run", "\n".join([*told, "$ns run"]))
    rows = [line.split() for line in ns2.run(script)[0] if line.startswith("told ")]
    totals = [sum(map(int, row[1:])) for row in rows]
    return [
        (late - early) / WIRE * PAYLOAD * 8 / (end - start) / 1e6
        for (early, late), (start, end) in zip(pairwise(totals), pairwise(times), strict=True)
    ]


def slots_lost(start: float, end: float, count: int = 20_000) -> float:
    """Share of countdowns of which ns-2 counts a slot too few, between two times of its clock.

    Both ends of an exchange wait DIFS and then slots from its last acknowledgement on. If the end that
    sent it is the first to transmit again, the other hears that exactly whole slots after its own wait
    began: propagation takes as long for the acknowledgement as for the frame. ns-2 divides the time
    between the two by the slot and cuts off. In floating point the quotient lies on either side of the
    whole number, and the spacing of floating-point numbers at the time of its clock decides how often it
    lies below.
    """
    draws = random.Random(1)
    slot, difs, crossing, airtime = 20e-6, 10e-6 + 2 * 20e-6, 10 / 3e8, 304e-6
    lost = 0
    for _ in range(count):
        sent = start + draws.random() * (end - start)
        idle_here, idle_there = sent + airtime, (sent + crossing) + airtime
        slots = draws.randrange(31)
        heard = (idle_here + (slots * slot + difs)) + crossing
        lost += int((heard - (idle_there + difs)) / slot) < slots
    return lost / count


def their_time(cell: Cell, seed: int, end: float) -> float:
    """Nanoseconds of CPU time that ns-2 takes per packet over the air: a segment of TCP or its ACK."""
    plain = {"window": (31, 1023), "interval": 0.0015}
    script = _script(cell, seed, "/dev/null", **plain, end=end)
    lines, cost = ns2.run(script.replace("$ns at @warmup@ mark", "$ns at 0.05 mark"))
    _, empty = ns2.run(_script(cell, seed, "/dev/null", **plain, end=0.06))
    found = dict(line.split() for line in lines if line.startswith("bytes "))
    return 1e9 * (cost.cpu_s - empty.cpu_s) / (2 * int(found["bytes"]) / WIRE)


# The trace is read by the script's own process. Every RTS asks for a CTS, and data for an acknowledgement, of
# which the trace of the receiver tells. Stations that begin within a microsecond have not heard each other.
_COUNT = """
    puts [exec awk {
        $2 < @warmup@ || $7 == "ARP" { next }
        $1 == "s" && $4 == "MAC" { if ($2 - last < 1e-6) collisions++; last = $2 }
        $1 == "s" && $4 == "MAC" && $7 != "CTS" && $7 != "ACK" { missed++ }
        $1 == "r" && $4 == "MAC" && ($7 == "CTS" || $7 == "ACK") { missed-- }
        $1 == "D" && $7 ~ /^(tcp|ack|cbr)$/ && ($4 == "IFQ" || $5 == "RET") { drops++ }
        END { printf "missed %d\\ncollisions %d\\ndrops %d\\n", missed, collisions, drops }
    } mac.tr]
""".replace("@warmup@", str(WARMUP_S))


def their_arrivals(rts: str, end: float) -> list[float]:
    """Times in s at which datagrams of a lone station, 10 ms apart, reach the other's link layer."""
    cell = Cell(1, "udp", rts)
    script = _script(cell, 1, "mac.tr", window=(1, 1), interval=0.01, end=end)
    lines = [
        "    set file [open mac.tr r]",
        '    while {[gets $file line] >= 0} { if {[lindex $line 6] eq "cbr"} { puts $line } }',
        "    close $file",
        '    puts "bytes $total"',
    ]
    script = script.replace('    puts "bytes $total"', "\n".join(lines))
    words = [line.split() for line in ns2.run(script)[0]]
    data = [line for line in words if line[0] == "r" and line[2] == "_0_" and int(line[7]) >= DATAGRAM]
    # The trace names the end of the frame; the link layer adds 25 us.
    return [float(line[1]) + 25e-6 for line in data]


# ----------------------------------------------------------------------------------------------------
# lasthop


def scenario(cell: Cell, end: float = DURATION_S, **radio: Any) -> dict[str, Any]:
    """The same as data."""
    rules: dict[str, Any] = {
        "profile": "ns2",
        "rate": "11 Mbit/s",
        "rts_threshold": RTS[cell.rts],
        **radio,
    }
    if cell.per:
        rules["error"] = {"kind": "bernoulli", "packet_error_rate": cell.per}
        if cell.after:
            rules["error"]["position"] = "after-arq"
    stations = [
        {"node": f"s{number}", "position": _on_circle(number, cell.stations)}
        for number in range(cell.stations)
    ]
    flows: list[dict[str, Any]] = []
    for number in range(cell.stations):
        ends = {"source": f"s{number}", "sink": "ap"}
        if cell.traffic == "down":
            ends = {"source": "ap", "sink": f"s{number}"}
        if cell.traffic == "udp":
            traffic = {"kind": "cbr", "rate": f"{DATAGRAM * 8 / 0.0015:.0f} bit/s", "packet": f"{DATAGRAM} B"}
            flow = {"transport": "udp", "traffic": traffic, "start": "2 s"}
        else:
            flow = {"transport": "newreno", "start": f"{0.6 + 0.1 * (number + 1):.1f} s"}
        flows.append({"name": f"f{number}", **ends, **flow})
    return {
        "duration": f"{end} s",
        "warmup": f"{min(WARMUP_S, end / 2)} s",
        "topology": {
            "kind": "graph",
            "nodes": ["ap", *(station["node"] for station in stations)],
            "cells": [{"access_point": "ap", "stations": stations, **rules}],
        },
        "tcp": {
            "profile": "ns2",
            "packet_size": f"{PAYLOAD} B",
            "receiver_window": "20 packets",
            "initial_ssthresh": "20 packets",
        },
        "flows": flows,
    }


def _on_circle(number: int, count: int) -> list[float]:
    angle = 2 * math.pi * number / (count + 0.5)
    return [10 * math.cos(angle), 10 * math.sin(angle)]


def ours(cell: Cell, seed: int) -> Measured:
    """The same figures of one run of lasthop."""
    result = _native.run(engine.plan(scenario(cell)), seed, trace=True)
    totals = json.loads(result.to_json())
    seconds = totals["measured_s"]
    radios = [link["radio"] for link in totals["links"]]
    missed = sum(radio["rts_failures"] + radio["ack_failures"] for radio in radios)
    drops = sum(link["drops"]["queue-overflow"] + link["drops"]["link-gave-up"] for link in totals["links"])
    frames = pl.DataFrame(result.table("frames"))
    sent = frames.filter((pl.col("outcome") == "sent") & (pl.col("start_ns") >= WARMUP_S * 10**9))
    collisions = sent["start_ns"].sort().diff().drop_nulls().lt(1000).sum()
    goodput = sum(flow["goodput_bit_s"] for flow in totals["flows"]) / 1e6
    return Measured(goodput, missed / seconds, collisions / seconds, drops / seconds)


def our_arrivals(rts: str, end: float) -> list[float]:
    """The arrivals of `their_arrivals` in lasthop."""
    data = scenario(Cell(1, "udp", rts), end, cw_min=1, cw_max=1)
    data["flows"][0]["traffic"]["rate"] = f"{DATAGRAM * 800} bit/s"
    hops = engine.trace_packets(data).hops
    return hops["arrive_s"].drop_nulls().to_list()


# ----------------------------------------------------------------------------------------------------
# Comparison


@dataclass(frozen=True)
class Comparison(Generic[C]):
    """One metric of one cell."""

    cell: C
    metric: str
    ours: list[float]
    theirs: list[float]
    tolerance: float

    def means(self) -> tuple[float, float]:
        """Ours and theirs."""
        return statistics.fmean(self.ours), statistics.fmean(self.theirs)

    def agrees(self) -> bool:
        """Whether the means are close, or nothing shows that they differ."""
        mine, yours = self.means()
        if yours == mine or abs(mine - yours) <= self.tolerance * max(abs(yours), abs(mine)):
            return True
        if len(set(self.ours)) == len(set(self.theirs)) == 1:
            return False
        return float(stats.ttest_ind(self.ours, self.theirs, equal_var=False).pvalue) > 1 - CONFIDENCE

    def entry(self, digits: int) -> str:
        """Both means as an entry of a table, bold if they do not agree."""
        mine, yours = self.means()
        text = f"{mine:.{digits}f} / {yours:.{digits}f}"
        return text if self.agrees() else f"**{text}**"


def compare(cell: Cell, runs: range = RUNS) -> list[Comparison[Cell]]:
    """Run both sides over seeds."""
    mine = [ours(cell, seed) for seed in runs]
    yours = [theirs(cell, seed) for seed in runs]
    return [
        Comparison(
            cell,
            name,
            [getattr(run, name) for run in mine],
            [getattr(run, name) for run in yours],
            SAME_GOODPUT if name == "goodput" else SAME_RETRIES,
        )
        for name in METRICS
    ]


def cells() -> list[Cell]:
    """Everything that the page shows."""
    kinds: tuple[Traffic, ...] = ("udp", "up", "down")
    found = [Cell(count, kind, rts) for kind, rts, count in product(kinds, RTS, STATIONS)]
    found += [Cell(5, kind, rts, per) for kind, rts, per in product(kinds, RTS, (0.02, 0.05, 0.1))]
    found += [Cell(5, kind, rts, per, after=True) for kind, rts, per in product(kinds[1:], RTS, (0.02, 0.1))]
    for kind, count, after in product(kinds[1:], (1, 2, 10), (False, True)):
        found.append(Cell(count, kind, "off", 0.05, after))
    return found


def page(comparisons: list[Comparison[Cell]], deviation: dict[str, float]) -> str:
    """The page as Markdown."""
    failed = sum(not comparison.agrees() for comparison in comparisons)
    runs = len(comparisons[0].ours)
    exact = " and ".join(f"{value * 1e9:.0f} ns (RTS {rts})" for rts, value in deviation.items())
    lines = [
        "# IEEE 802.11 against ns-2",
        "",
        "Generated by `python -m validation.wlan`; do not edit.",
        "",
        "Stations on a circle of ten metres around their access point, no two of them exactly opposite each",
        "other, both sides as ns-2.35's `Mac/802_11`: 11 Mbit/s, answers at 1 Mbit/s, queues of 50 packets.",
        "UDP saturates every station with packets of 1024 B; TCP is NewReno with a window of 20 packets of",
        "1000 B, up to the access point or down from it.",
        "PER is per frame and receiver, answers included, or of packets behind the retries of the MAC",
        "(*after*). ns-2 runs in ad-hoc mode, and has resolved addresses before the traffic begins.",
        "",
        "Each entry is lasthop's mean / ns-2's mean. **Bold**: zero is outside the 95 % interval of the",
        "difference (Welch), and the means are more than 3 % apart, 5 % for the other three: retries are RTS",
        "and data that nothing has answered, collisions are frames that began within a microsecond of",
        "another, and drops are packets that a full queue or a retry limit has cost, each per second.",
        "Without any real difference up to one comparison in twenty would be outside.",
        "",
        f"- {len(comparisons)} comparisons, {failed} outside; {runs} runs of {DURATION_S} s a side",
        f"- deterministic exchanges of a lone station: arrivals differ by at most {exact}",
        f"- {dt.datetime.now(tz=dt.UTC).date()}",
        "",
        "| traffic | RTS | PER | stations | goodput (Mbit/s) | retries | collisions | drops |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for place in range(0, len(comparisons), len(METRICS)):
        goodput, *counts = comparisons[place : place + len(METRICS)]
        cell = goodput.cell
        row = [
            cell.traffic,
            cell.rts,
            f"{cell.per:g}{' after' if cell.after else ''}",
            str(cell.stations),
            goodput.entry(3),
            *(count.entry(1) for count in counts),
        ]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def deviation(rts: str, end: float = 6.0) -> float:
    """Greatest difference of arrival times of a lone station, in s."""
    mine, yours = our_arrivals(rts, end), their_arrivals(rts, end)
    count = min(len(mine), len(yours))
    if count < (end - 2.0) * 99:
        raise ns2.FailedError(f"{len(mine)} and {len(yours)} arrivals in {end} s")
    return max(abs(one - other) for one, other in zip(mine, yours, strict=False))


def main() -> None:
    """Compare and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=len(RUNS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    runs = range(1, arguments.runs + 1)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        found = [one for many in pool.map(lambda cell: compare(cell, runs), cells()) for one in many]
    PAGE.write_text(page(found, {rts: deviation(rts) for rts in RTS}))
    print(f"written: {PAGE.name}")


if __name__ == "__main__":
    main()
