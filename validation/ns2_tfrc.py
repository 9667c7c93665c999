"""Runs ns-2's `Agent/TFRC` on a scenario whose flows are TFRC of the `ns2` profile.

Called by `tests/differential/test_tfrc.py`, which compares departures, rates and goodput with lasthop's.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from validation import ns2
from validation.network import Network, UnsupportedError, read

if TYPE_CHECKING:
    from collections.abc import Mapping

    from validation.network import Scenario

#: Time between two samples of the rate.
SAMPLE_S = 0.1

_SAMPLER = """
proc sample {flows} {
    global ns tfrc
    for {set i 0} {$i < $flows} {incr i} { puts "r [$ns now] $i [$tfrc($i) set rate_]" }
    $ns after %s "sample $flows"
}
proc packet {line} {
    global ns
    set line [string trim $line]
    if {[string index $line 0] == "+"} { puts "p [$ns now]" }
}
"""

#: What both simulators are told.
PACKET_BYTES = 1000
_WIRE_BYTES = PACKET_BYTES + 32


@dataclass(frozen=True)
class Run:
    """Rates over time (bit/s), departures of the first flow (s), and the goodput of every flow (bit/s)."""

    rates: pl.DataFrame
    departures_s: list[float]
    goodput_bit_s: list[float]


def run(scenario: Scenario, substream: int | None = None, *, packets: bool = True) -> Run:
    """Run `scenario`; random losses need a substream, and `packets` keeps the departures."""
    network = _network(scenario)
    output, _ = ns2.run(script(network, substream, packets=packets))
    rates: list[dict[str, Any]] = []
    departures: list[float] = []
    received: list[int] = []
    for line in output:
        match line.split():
            case ["r", time, flow, rate]:
                name = network.flows[int(flow)].name
                rates.append({"time_s": float(time), "flow": name, "rate_bit_s": 8 * float(rate)})
            case ["p", time]:
                departures.append(float(time))
            case ["f", _, wire_bytes]:
                received.append(int(wire_bytes))
            case _:
                raise ns2.FailedError(f"unexpected output of ns-2: {line}")
    goodput = [8 * bytes_ / _WIRE_BYTES * PACKET_BYTES / network.duration_s for bytes_ in received]
    return Run(pl.DataFrame(rates), departures, goodput)


def script(network: Network, substream: int | None, *, packets: bool) -> str:
    """The script that samples every rate and, for one flow, logs every departure."""
    lines = ["set out stdout", "set ns [new Simulator]", _SAMPLER % SAMPLE_S]
    lines += ns2.topology(network)
    if packets:
        first = network.access_link(network.flows[0])
        source, target = (network.nodes.index(name) for name in (first.source, first.target))
        lines.append(f"[$ns link $node({source}) $node({target})] trace-callback $ns packet")
    lines += ns2.errors(network, substream)
    lines.append(f"Agent/TFRC set packetSize_ {PACKET_BYTES}")
    for number, flow in enumerate(network.flows):
        source, sink = network.nodes.index(flow.source), network.nodes.index(flow.sink)
        lines.append(f"set tfrc({number}) [new Agent/TFRC]; set sink({number}) [new Agent/TFRCSink]")
        lines.append(f"$tfrc({number}) set fid_ {number}")
        lines.append(f"$ns attach-agent $node({source}) $tfrc({number})")
        lines.append(f"$ns attach-agent $node({sink}) $sink({number})")
        lines.append(f"$ns connect $tfrc({number}) $sink({number})")
        low, high = flow.start_s
        if low != high:
            raise UnsupportedError("a random start differs between simulators")
        lines.append(f'$ns at {low} "$tfrc({number}) start"')
    lines.append(f"""
proc finish {{}} {{
    global sink
    for {{set i 0}} {{$i < {len(network.flows)}}} {{incr i}} {{ puts "f $i [$sink($i) set bytes_]" }}
    puts end
    exit 0
}}
""")
    lines.append(f'$ns at {SAMPLE_S} "sample {len(network.flows)}"')
    lines.append(f'$ns at {network.duration_s} "finish"')
    lines.append("$ns run")
    return "\n".join(lines) + "\n"


def _network(scenario: Scenario) -> Network:
    """The network of a scenario of TFRC flows, read as if they were TCP."""
    tcp: dict[str, Any] = copy.deepcopy(dict(scenario))
    for flow in tcp["flows"]:
        transport: str | Mapping[str, Any] = flow["transport"]
        if transport not in ("tfrc", {"rate": "tfrc"}):
            raise UnsupportedError(f"transport {transport!r}")
        flow["transport"] = "reno"
    return read(tcp)
