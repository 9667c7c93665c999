"""Runs one flow over one path in ns-3: builds `validation/ns3/path.cc` and reads what it prints.

Called by `validation.senders`. ns-3's senders follow other rules than lasthop's around the controllers (PRR,
its own retransmission timer), so windows and goodput are compared, not packets.
"""

from __future__ import annotations

import functools
import tempfile
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from validation import ns3, process

SOURCE = Path(__file__).with_name("ns3") / "path.cc"

_LIBRARIES = (
    "applications",
    "point-to-point",
    "traffic-control",
    "internet",
    "bridge",
    "network",
    "stats",
    "core",
)


@dataclass(frozen=True)
class Path3:
    """The path: bit/s, seconds, packets, probability, seconds."""

    rate_bit_s: float
    delay_s: float
    queue_packets: int
    packet_error_rate: float
    duration_s: float


@dataclass(frozen=True)
class Run:
    """The window over time, and what the flow achieved."""

    windows: pl.DataFrame
    goodput_bit_s: float
    retransmitted: float


def is_installed() -> bool:
    """Whether the library and a compiler are there."""
    return ns3.version() != "not installed"


@functools.cache
def program() -> Path:
    """The compiled program; it lives until the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="lasthop-ns3-"))
    target = folder / "path"
    libraries = [f"-lns3-{name}" for name in _LIBRARIES]
    process.run(["g++", "-O2", "-std=c++17", "-o", str(target), str(SOURCE), *libraries])
    return target


def run(path: Path3, controller: str, seed: int = 1) -> Run:
    """One run with ns-3's class `controller`; `TcpWestwoodPlus` is a variant of `TcpWestwood`."""
    rate, per = path.rate_bit_s, path.packet_error_rate
    arguments = [rate, path.delay_s, path.queue_packets, per, path.duration_s, seed]
    output, _ = process.run([str(program()), controller, *(f"{value:g}" for value in arguments)], 600.0)
    rows = [line.split() for line in output.splitlines()]
    windows = [{"time_s": float(row[1]), "cwnd_segments": float(row[2])} for row in rows if row[0] == "w"]
    (last,) = (row for row in rows if row[0] == "f")
    return Run(pl.DataFrame(windows), float(last[1]), float(last[2]))
