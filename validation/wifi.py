"""One station of 802.11n, ac and ax beside ns-3.44: `python -m validation.wifi [--ns3 FOLDER] [--runs N]`.

`FOLDER`, or else the environment's `NS3_WHEEL`, is where a wheel of ns-3.44 was unpacked: `pip download
--no-deps ns3==3.44.post0`, then `unzip` of what comes. The program of ns-3 is `validation/ns3/modes.cc`.
Cells are chosen by a script with a fixed seed among generations, MCS, widths, guard intervals, streams and
limits of aggregates; each carries datagrams up, or a TCP connection in one direction. lasthop runs in profile
`ns3`. Goodput of datagrams must agree within 1 %, that of TCP within 3 %, over the mean of the runs. The
command writes `docs/reference/validation-wifi.md`.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from validation import engine, process

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "validation" / "ns3" / "modes.cc"
PAGE = ROOT / "docs" / "reference" / "validation-wifi.md"

LIBRARIES = [
    "core",
    "network",
    "internet",
    "wifi",
    "mobility",
    "applications",
    "propagation",
    "spectrum",
    "antenna",
    "stats",
    "traffic-control",
    "energy",
    "bridge",
]
#: Measured, after as long again. ns-3 takes some seconds to recover from a connection's first overflow.
SECONDS = {"udp": 2, "tcp": 4}
RUNS = 2
#: Relative differences of means that are allowed.
BARS = {"udp": 0.01, "tcp": 0.03}
#: Cells with datagrams of each generation, and with TCP.
DATAGRAMS = 8
CONNECTIONS = 2

Traffic = Literal["udp", "tcp"]


@dataclass(frozen=True)
class Cell:
    """What is compared."""

    generation: str
    mcs: int
    width: int
    guard_ns: int
    streams: int
    ampdu: int
    traffic: Traffic
    direction: str

    @property
    def name(self) -> str:
        """As the page writes it."""
        return (
            f"{self.generation} | {self.mcs} | {self.width} | {self.guard_ns / 1000:g} | {self.streams} "
            f"| {self.ampdu} | {self.traffic} {self.direction}"
        )


def exists(cell: Cell) -> bool:
    """Whether the standard has the mode."""
    return not (cell.generation == "ac" and cell.mcs == 9 and cell.width == 20)


def chosen() -> list[Cell]:
    """The cells, by a script: what they are, no person has chosen."""
    draw = random.Random(2026)
    found: list[Cell] = []
    for generation, highest, widths, guards, window in (
        ("n", 7, (20, 40), (800, 400), 65_535),
        ("ac", 9, (20, 40, 80, 160), (800, 400), 1_048_575),
        ("ax", 11, (20, 40, 80, 160), (800, 3200), 6_500_631),
    ):
        kinds: list[tuple[Traffic, str]] = [("udp", "up")] * DATAGRAMS
        kinds += [("tcp", direction) for direction in ("up", "down") for _ in range(CONNECTIONS)]
        for traffic, direction in kinds:
            while True:
                cell = Cell(
                    generation,
                    draw.randint(0, highest),
                    draw.choice(widths),
                    draw.choice(guards),
                    draw.randint(1, 2),
                    draw.choice((8_191, 65_535, window)),
                    traffic,
                    direction,
                )
                if exists(cell) and cell not in found:
                    found.append(cell)
                    break
    return found


def scenario(cell: Cell, offered_mbit: float) -> dict[str, Any]:
    """The cell in lasthop's words."""
    ends = ("one", "ap") if cell.direction == "up" else ("ap", "one")
    flow: dict[str, Any] = {"source": ends[0], "sink": ends[1], "start": "0 s"}
    if cell.traffic == "udp":
        traffic = {"kind": "cbr", "rate": f"{offered_mbit:.3f} Mbit/s", "packet": "1472 B"}
        flow |= {"transport": "udp", "traffic": traffic}
    else:
        flow |= {"transport": "newreno"}
    return {
        "duration": f"{2 * SECONDS[cell.traffic]} s",
        "warmup": f"{SECONDS[cell.traffic]} s",
        "udp": {"header": "28 B"},
        "tcp": {"receiver_window": "5800 packets"},
        "topology": {
            "kind": "graph",
            "nodes": ["ap", "one"],
            "cells": [
                {
                    "access_point": "ap",
                    "profile": "ns3",
                    "phy": f"802.11{cell.generation}",
                    "mcs": cell.mcs,
                    "width": cell.width,
                    "guard_interval": f"{cell.guard_ns} ns",
                    "streams": cell.streams,
                    "queue": {"kind": "drop-tail", "limit": "500 packets"},
                    "aggregation": {"ampdu": f"{cell.ampdu} B", "driver": 256},
                    "stations": [{"node": "one", "position": [2, 0]}],
                }
            ],
        },
        "flows": [flow],
    }


def rate_mbit(generation: str, mcs: int, width: int, guard_ns: int, streams: int) -> float:
    """What the air carries without any overhead."""
    carriers = {20: 52, 40: 108, 80: 234, 160: 468}
    if generation == "ax":
        carriers = {20: 234, 40: 468, 80: 980, 160: 1960}
    bits = (0.5, 1, 1.5, 2, 3, 4, 4.5, 5, 6, 20 / 3, 7.5, 25 / 3)[mcs]
    symbol_us = (12.8 if generation == "ax" else 3.2) + guard_ns / 1000
    return carriers[width] * bits * streams / symbol_us


def offered_mbit(cell: Cell) -> float:
    """More than the air carries."""
    return rate_mbit(cell.generation, cell.mcs, cell.width, cell.guard_ns, cell.streams)


def ours(cell: Cell, seed: int) -> float:
    """Goodput in Mbit/s."""
    totals = engine.count_totals(engine.plan(scenario(cell, offered_mbit(cell))), seed)["totals"]
    return float(totals["goodput_bit_s"]) / 1e6


def theirs(program: Path, cell: Cell, seed: int) -> float:
    """The same in ns-3."""
    words = (cell.generation, cell.mcs, cell.width, cell.guard_ns, cell.streams, cell.ampdu)
    seconds = SECONDS[cell.traffic]
    more = (cell.traffic, cell.direction, offered_mbit(cell), seconds, seed)
    output, _ = process.run([str(program), *map(str, words + more)], 3600.0)
    return 8 * int(output) / seconds / 1e6


def build(wheel: Path, folder: Path, source: Path = SOURCE) -> Path:
    """Compile a program against an unpacked wheel."""
    package = wheel / "ns3" if (wheel / "ns3" / "lib64").exists() else wheel
    library = package / "lib64"
    program = folder / source.stem
    links = [f"{library}/libns3.44-{name}.so" for name in LIBRARIES]
    command = ["g++", "-std=c++20", "-O1", f"-I{package}/include", str(source), "-o", str(program)]
    flags = [f"-L{library}", f"-Wl,-rpath,{library}", "-Wl,--allow-shlib-undefined"]
    process.run([*command, *flags, *links])
    return program


def page(found: list[tuple[Cell, float, float]], runs: int) -> str:
    """The comparison as a page of the reference."""
    outside = [cell for cell, mine, other in found if abs(mine / other - 1) > BARS[cell.traffic]]
    lines = [
        "# One station of 802.11n, ac and ax beside ns-3",
        "",
        "Written by `python -m validation.wifi`; do not edit. A station and its access point at 5 GHz",
        "without errors, in ns-3.44 and in lasthop's profile `ns3`: datagrams of 1472 B up, more than",
        "the air carries, or one NewReno connection. Mbit/s of payload over",
        f"{SECONDS['udp']} and {SECONDS['tcp']} s, runs: {runs}. Cells are drawn by a script. Datagrams must",
        f"agree within {BARS['udp']:.0%}, TCP within {BARS['tcp']:.0%}:",
        f"{len(outside)} of {len(found)} cells are outside.",
        "",
        "| 802.11 | MCS | MHz | guard, us | streams | A-MPDU, B | traffic | lasthop | ns-3 | difference |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: | ---: |",
    ]
    for cell, mine, other in found:
        mark = " outside" if cell in outside else ""
        lines.append(f"| {cell.name} | {mine:.2f} | {other:.2f} | {mine / other - 1:+.2%}{mark} |")
    return "\n".join(lines) + "\n"


def parser(description: str | None, runs: int) -> argparse.ArgumentParser:
    """What a comparison with ns-3.44 may be told."""
    made = argparse.ArgumentParser(description=description)
    wheel = os.environ.get("NS3_WHEEL")
    made.add_argument("--ns3", type=Path, default=wheel, help="folder of an unpacked wheel of ns-3.44")
    made.add_argument("--runs", type=int, default=runs)
    return made


def main() -> None:
    """Compare and write the page."""
    options = parser(__doc__, RUNS).parse_args()
    if options.ns3 is None:
        print(f"no --ns3 and no NS3_WHEEL: {PAGE.name} stays as it is")
        return
    seeds = range(1, options.runs + 1)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        program = build(options.ns3, Path(folder))
        for cell in chosen():
            mine = statistics.fmean(ours(cell, seed) for seed in seeds)
            other = statistics.fmean(theirs(program, cell, seed) for seed in seeds)
            print(f"{cell.name} | {mine:.2f} | {other:.2f} | {mine / other - 1:+.2%}", flush=True)
            found.append((cell, mine, other))
    PAGE.write_text(page(found, options.runs), encoding="utf-8")
    print(f"written: {PAGE.name}")


if __name__ == "__main__":
    main()
