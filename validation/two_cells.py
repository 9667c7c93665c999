"""Two cells joined by wires in lasthop and ns-2 side by side: `python -m validation.two_cells [--runs N]`.

Paper 001's network as reconstructed: six stations around each of two base stations, 802.11 at 1 Mbit/s with
RTS, one channel, routes by DSDV, wires of 1 Mbit/s under RED and a LAN between them, NewReno from stations of
one cell to their partners in the other. The base stations stand so far apart that no station can read the
other cell: ns-2's DSDV would otherwise find routes from cell to cell through the air, which the wires are
for. Errors are per frame and receiver, answers and broadcasts included, so that this is also a test of RTS
under errors. Goodput is counted once routes have settled. The command writes
`docs/reference/validation-two-cells.md`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import math
import os
import statistics
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from validation import engine, ns2
from validation.wlan import PAYLOAD, SAME_GOODPUT, WIRE, Comparison

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "validation-two-cells.md"

STATIONS = 6
RADIUS_M = 60
DISTANCE_M = 380
START_S, WARMUP_S, END_S = 5, 75, 145
ERRORS = (0.0, 0.01, 0.05, 0.2)
FLOWS = (1, 6)
RUNS = range(1, 5)


@dataclass(frozen=True)
class Case:
    """What is compared."""

    flows: int
    per: float


# ----------------------------------------------------------------------------------------------------
# ns-2

# Nodes are numbered so that base stations come before stations; with exactly sixteen nodes ns-2 crashes.
_SCRIPT = """
for {set i 1} {$i < @seed@} {incr i} { $defaultRNG next-substream }
Mac/802_11 set dataRate_ 1Mb
Mac/802_11 set basicRate_ 1Mb
set ns [new Simulator]
$ns node-config -addressType hierarchical
AddrParams set domain_num_ 3
AddrParams set cluster_num_ {3 1 1}
AddrParams set nodes_num_ {1 1 1 @members@ @members@}
set out [open mac.tr w]
$ns trace-all $out
set topo [new Topography]
$topo load_flatgrid 1000 1000
create-god [expr 2 * @members@ + 3]
set chan [new Channel/WirelessChannel]
set router(1) [$ns node 0.0.0]
set router(2) [$ns node 0.1.0]
set spare [$ns node 0.2.0]
proc errors {} {
    set model [new ErrorModel]
    $model unit pkt
    $model set rate_ @per@
    $model ranvar [new RandomVariable/Uniform]
    return $model
}
$ns node-config -adhocRouting DSDV -llType LL -macType Mac/802_11 -ifqType Queue/DropTail/PriQueue \\
    -ifqLen 50 -antType Antenna/OmniAntenna -propType Propagation/TwoRayGround -phyType Phy/WirelessPhy \\
    -topoInstance $topo -channel $chan -wiredRouting ON -agentTrace OFF -routerTrace OFF -macTrace ON \\
    -movementTrace OFF @errors@
proc place {node x y} {
    $node random-motion 0
    $node set X_ $x
    $node set Y_ $y
    $node set Z_ 0
}
foreach {cell x} [list 1 200 2 [expr 200 + @distance@]] {
    set base($cell) [$ns node $cell.0.0]
    place $base($cell) [expr $x] 300
}
$ns node-config -wiredRouting OFF
set pi 3.141592653589793
foreach {cell x} [list 1 200 2 [expr 200 + @distance@]] {
    for {set i 1} {$i < @members@} {incr i} {
        set angle [expr 2 * $pi * ($i - 1) / (@members@ - 1)]
        set node($cell,$i) [$ns node $cell.0.$i]
        $node($cell,$i) base-station [AddrParams addr2id [$base($cell) node-addr]]
        place $node($cell,$i) [expr $x + @radius@ * cos($angle)] [expr 300 + @radius@ * sin($angle)]
    }
}
foreach cell {1 2} { $ns duplex-link $base($cell) $router($cell) 1Mb 1ms RED }
$ns duplex-link $router(1) $router(2) 10Mb 1ms DropTail
$ns duplex-link $router(1) $spare 10Mb 1ms DropTail
for {set i 1} {$i <= @flows@} {incr i} {
    set source [new Agent/TCP/Newreno]
    set sink($i) [new Agent/TCPSink]
    $ns attach-agent $node(1,$i) $source
    $ns attach-agent $node(2,$i) $sink($i)
    $ns connect $source $sink($i)
    set traffic [new Application/FTP]
    $traffic attach-agent $source
    $ns at @start@ "$traffic start"
}
proc mark {} {
    global sink base_bytes
    for {set i 1} {$i <= @flows@} {incr i} { set base_bytes($i) [$sink($i) set bytes_] }
}
proc finish {} {
    global sink base_bytes ns out
    $ns flush-trace
    close $out
    set total 0
    for {set i 1} {$i <= @flows@} {incr i} {
        set total [expr $total + [$sink($i) set bytes_] - $base_bytes($i)]
    }
    set updates 0
    set file [open mac.tr r]
    while {[gets $file line] >= 0} {
        if {[lindex $line 0] eq "s" && [lindex $line 3] eq "MAC" && [lindex $line 6] eq "message"
            && [lindex $line 1] >= @warmup@} { incr updates }
    }
    close $file
    puts "bytes $total"
    puts "updates $updates"
    puts "end"
    exit 0
}
$ns at @warmup@ mark
$ns at @end@ finish
$ns run
"""


def theirs(case: Case, seed: int) -> tuple[float, float]:
    """Goodput in kbit/s of payload, and DSDV updates per second of all stations, of one run of ns-2."""
    values = {
        "seed": seed,
        "members": STATIONS + 1,
        "per": case.per,
        "errors": "-IncomingErrProc errors" if case.per else "",
        "distance": DISTANCE_M,
        "radius": RADIUS_M,
        "flows": case.flows,
        "start": START_S,
        "warmup": WARMUP_S,
        "end": END_S,
    }
    script = _SCRIPT
    for name, value in values.items():
        script = script.replace(f"@{name}@", str(value))
    lines = ns2.run(script)[0]
    found = dict(line.split() for line in lines if line.startswith(("bytes ", "updates ")))
    seconds = END_S - WARMUP_S
    return int(found["bytes"]) / WIRE * PAYLOAD * 8 / seconds / 1e3, int(found["updates"]) / seconds


# ----------------------------------------------------------------------------------------------------
# lasthop


def scenario(case: Case) -> dict[str, Any]:
    """The same as data."""
    red = {"kind": "red", "profile": "ns2"}
    wire = {"rate": "1 Mbit/s", "delay": "1 ms", "queue": red}
    lan = {"rate": "10 Mbit/s", "delay": "1 ms", "queue": {"kind": "drop-tail", "limit": "50 packets"}}
    return {
        "duration": f"{END_S} s",
        "warmup": f"{WARMUP_S} s",
        "topology": {
            "kind": "graph",
            "nodes": [
                *(f"{cell}{number}" for cell in "ab" for number in range(1, STATIONS + 1)),
                *("base-a", "base-b", "router-a", "router-b"),
            ],
            "links": [
                {"from": "base-a", "to": "router-a", **wire},
                {"from": "router-a", "to": "router-b", **lan},
                {"from": "router-b", "to": "base-b", **wire},
            ],
            "cells": [_cell("a", 0, case.per), _cell("b", DISTANCE_M, case.per)],
        },
        "tcp": {
            "profile": "ns2",
            "packet_size": f"{PAYLOAD} B",
            "receiver_window": "20 packets",
            "initial_ssthresh": "20 packets",
        },
        "flows": [
            {"source": f"a{number}", "sink": f"b{number}", "transport": "newreno", "start": f"{START_S} s"}
            for number in range(1, case.flows + 1)
        ],
    }


def _cell(name: str, x: float, per: float) -> dict[str, Any]:
    angles = [2 * math.pi * number / STATIONS for number in range(STATIONS)]
    stations = [
        {
            "node": f"{name}{number}",
            "position": [x + RADIUS_M * math.cos(angle), RADIUS_M * math.sin(angle)],
        }
        for number, angle in enumerate(angles, 1)
    ]
    error = {"kind": "bernoulli", "packet_error_rate": per}
    return {
        "access_point": f"base-{name}",
        "position": [x, 0],
        "channel": 1,
        "profile": "ns2",
        "rate": "1 Mbit/s",
        "rts_threshold": "0 B",
        "routing": "dsdv",
        "queue": {"kind": "drop-tail", "limit": "50 packets"},
        "stations": stations,
        **({"error": error} if per else {}),
    }


def ours(case: Case, seed: int) -> tuple[float, float]:
    """The same figures of one run of lasthop."""
    totals = engine.count_totals(engine.plan(scenario(case)), seed)
    goodput = sum(flow["goodput_bit_s"] for flow in totals["flows"]) / 1e3
    updates = sum(link["radio"]["updates"] for link in totals["links"] if link.get("radio"))
    return goodput, updates / totals["measured_s"]


# ----------------------------------------------------------------------------------------------------
# Comparison


def compare(case: Case, runs: range = RUNS) -> list[Comparison[Case]]:
    """Run both sides over seeds."""
    mine = [ours(case, seed) for seed in runs]
    yours = [theirs(case, seed) for seed in runs]
    return [
        Comparison(case, name, [run[place] for run in mine], [run[place] for run in yours], SAME_GOODPUT)
        for place, name in enumerate(("goodput", "updates"))
    ]


def page(found: list[list[Comparison[Case]]]) -> str:
    """The page as Markdown."""
    outside = sum(not one.agrees() for many in found for one in many)
    runs = len(found[0][0].ours)
    lines = [
        "# Two cells against ns-2",
        "",
        "Generated by `python -m validation.two_cells`; do not edit.",
        "",
        f"Paper 001's network: {STATIONS} stations around each of two base stations, 802.11 at 1 Mbit/s",
        "with RTS as ns-2.35's `Mac/802_11`, one channel, DSDV, wires of 1 Mbit/s under RED, NewReno from",
        f"cell to cell. The base stations stand {DISTANCE_M} m apart: in ns-2 stations that can read the",
        "other cell route through the air, past the wires; here they take the wires. What is compared begins",
        "when routes have settled. PER is per frame and receiver, answers and updates included: where an",
        "update of the base station is lost, a station that hears the same number from another goes through",
        "that one until the next, over two hops of the air. That costs a tenth of the goodput at 0.2.",
        "",
        f"Each entry is lasthop's mean / ns-2's mean from {WARMUP_S} to {END_S} s. **Bold**: zero is outside",
        f"the 95 % interval of the difference (Welch), and the means are more than {SAME_GOODPUT:.0%} apart.",
        "",
        f"- {2 * len(found)} comparisons, {outside} outside; {runs} runs a side",
        f"- {dt.datetime.now(tz=dt.UTC).date()}",
        "",
        "| flows | PER | goodput (kbit/s) | DSDV updates (1/s) |",
        "| ---: | ---: | ---: | ---: |",
    ]
    for goodput, updates in found:
        case = goodput.cell
        row = [str(case.flows), f"{case.per:g}", goodput.entry(1), updates.entry(2)]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def spread(found: list[list[Comparison[Case]]]) -> float:
    """Greatest relative difference of goodput."""
    return max(abs(statistics.fmean(one.ours) / statistics.fmean(one.theirs) - 1) for one, _ in found)


def main() -> None:
    """Compare and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=len(RUNS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    runs = range(1, arguments.runs + 1)
    cases = [Case(flows, per) for flows, per in product(FLOWS, ERRORS)]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        found = list(pool.map(lambda case: compare(case, runs), cases))
    PAGE.write_text(page(found))
    print(f"written: {PAGE.name}; goodput differs by {spread(found):.1%} at most")


if __name__ == "__main__":
    main()
