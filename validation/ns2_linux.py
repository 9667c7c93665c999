"""Runs ns-2's `Agent/TCP/Linux`: controllers of the Linux kernel (2.6) on ns-2's own SACK sender.

The agent offers westwood (that is Westwood+), veno, vegas, cubic and others under `select_ca`. Called by
`validation.senders`, which compares windows and goodput; the loss recovery around the controllers is ns-2's,
so no packet-exact agreement is to be expected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from validation import ns2
from validation.network import read

if TYPE_CHECKING:
    from validation.network import Scenario

#: Time between two samples of the window.
SAMPLE_S = 0.05

_SAMPLER = """
proc sample {} {
    global ns tcp
    puts "w [$ns now] [$tcp(0) set cwnd_] [$tcp(0) set ssthresh_]"
    $ns after %s sample
}
"""


@dataclass(frozen=True)
class Run:
    """Window of the first flow over time, and what every flow achieved."""

    windows: pl.DataFrame
    goodput_bit_s: float
    retransmitted: float
    timeouts: float


def run(scenario: Scenario, controller: str, substream: int = 0) -> Run:
    """Run `scenario` (SACK flows of the `ns2` profile) with `controller` in place of every sender's law."""
    network = read(scenario)
    lines = ["set out stdout", "set ns [new Simulator]", _SAMPLER % SAMPLE_S]
    lines += ns2.topology(network)
    lines += ns2.errors(network, substream)
    lines.append("Agent/TCPSink set ts_echo_rfc1323_ true")
    for number, flow in enumerate(network.flows):
        agent = ns2.tcp_agent(network, number, flow)
        lines += [line.replace("Agent/TCP/Sack1", "Agent/TCP/Linux") for line in agent]
        lines.append(f'$ns at 0.0 "$tcp({number}) select_ca {controller}"')
        low, high = flow.start_s
        lines += ns2.traffic(network, number, flow, f"{(low + high) / 2}")
    lines.append(f"""
proc finish {{}} {{
    global tcp sink
    for {{set i 0}} {{$i < {len(network.flows)}}} {{incr i}} {{
        puts "f [$sink($i) set bytes_] [$tcp($i) set nrexmitpack_] [$tcp($i) set nrexmit_]"
    }}
    puts end
    exit 0
}}
""")
    lines.append('$ns at 0.0 "sample"')
    lines.append(f'$ns at {network.duration_s} "finish"')
    lines.append("$ns run")
    output, _ = ns2.run("\n".join(lines) + "\n")
    windows, bytes_, retransmitted, timeouts = [], 0, 0.0, 0.0
    for line in output:
        words = line.split()
        if words[0] == "w":
            windows.append({"time_s": float(words[1]), "cwnd_segments": float(words[2])})
        elif words[0] == "f":
            bytes_ += ns2.payload_bytes(network.flows[0], int(words[1]))
            retransmitted += float(words[2])
            timeouts += float(words[3])
    return Run(pl.DataFrame(windows), 8 * bytes_ / network.duration_s, retransmitted, timeouts)
