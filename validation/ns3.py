"""Runs a scenario in ns-3 for the benchmarks: builds `bench/ns3/scenario.cc` and writes what it reads.

ns-3's TCP follows other rules than ns-2's (RFC 6675, PRR), so only times are compared, never packets.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from validation import process
from validation.network import UnsupportedError

if TYPE_CHECKING:
    from validation.network import Direction, Network

SOURCE = Path(__file__).resolve().parent.parent / "bench" / "ns3" / "scenario.cc"

_LIBRARIES = (
    "applications",
    "nix-vector-routing",
    "point-to-point",
    "traffic-control",
    "internet",
    "bridge",
    "network",
    "stats",
    "core",
)


def version() -> str:
    """Version of the installed library, from pkg-config."""
    if shutil.which("pkg-config") is not None and shutil.which("g++") is not None:
        for name in ("ns3-core", "libns3-core"):
            try:
                output, _ = process.run(["pkg-config", "--modversion", name])
            except process.ProcessError:
                continue
            return f"ns-{output.strip()}"
    return "not installed"


def build(folder: Path) -> Path:
    """Compile the program of scenarios into `folder`."""
    return compile_program(SOURCE, folder / "scenario")


def compile_program(source: Path, program: Path, also: tuple[str, ...] = ()) -> Path:
    """Compile a program against what wires and TCP need, and these libraries."""
    libraries = [f"-lns3-{name}" for name in (*also, *_LIBRARIES)]
    process.run(["g++", "-O2", "-std=c++17", "-o", str(program), str(source), *libraries])
    return program


def time(program: Path, description: Path) -> tuple[dict[str, Any], process.Resources]:
    """Run once; returns the program's own report and what the run cost."""
    output, resources = process.run([str(program), str(description)], 3600.0)
    return json.loads(output), resources


def describe(network: Network) -> str:
    """The scenario in the language of `scenario.cc`."""
    number = {name: index for index, name in enumerate(network.nodes)}
    lines = [f"nodes {len(network.nodes)}"]
    for forward, reverse in zip(network.directions[::2], network.directions[1::2], strict=True):
        if forward.delay_s != reverse.delay_s:
            raise UnsupportedError("ns-3's point-to-point link has one delay")
        ends = f"{number[forward.source]} {number[forward.target]}"
        rates = f"{forward.rate_bit_s} {reverse.rate_bit_s} {forward.delay_s}"
        queues = f"{forward.queue_packets} {reverse.queue_packets}"
        lines.append(f"link {ends} {rates} {queues} {_error_rate(forward)} {_error_rate(reverse)}")
        lines += [f"outage {ends} {start} {length}" for start, length in forward.outages]
    for flow in network.flows:
        tcp = flow.tcp
        sender = "sack" if tcp.sender == "sack" else "reno"
        start = " ".join(str(time) for time in flow.start_s)
        ends = f"{number[flow.source]} {number[flow.sink]}"
        lines.append(f"flow {ends} {sender} {tcp.packet_size} {tcp.receiver_window} {start}")
    lines.append(f"run {network.duration_s}")
    return "\n".join(lines) + "\n"


def _error_rate(direction: Direction) -> float:
    return 0.0 if direction.error is None else direction.error.packet_error_rate
