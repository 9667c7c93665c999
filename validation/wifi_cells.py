"""Cells of 802.11n, ac and ax beside ns-3.44: `python -m validation.wifi_cells [--ns3 FOLDER] [--runs N]`.

`FOLDER` is that of `validation.wifi`; the program of ns-3 is `validation/ns3/cells.cc`. Cells are drawn by a
script with a fixed seed: stations that contend, losses of MPDUs and answers, access categories against each
other, hidden stations with and without RTS, downloads to several stations. lasthop runs in profile `ns3`. The
command writes `docs/reference/validation-wifi-cells.md`.
"""

from __future__ import annotations

import math
import random
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from validation import engine, process, wifi

SOURCE = wifi.ROOT / "validation" / "ns3" / "cells.cc"
PAGE = wifi.ROOT / "docs" / "reference" / "validation-wifi-cells.md"
#: Measured, after the first second.
SECONDS = 1
RUNS = 4
#: Relative difference of the means that is allowed beyond twice its standard error.
BAR = 0.01
#: The usual guard interval.
GUARD_NS = 800
#: Code points whose three highest bits are the user priority of a category.
CODE_POINTS = {"bk": 8, "be": 0, "vi": 40, "vo": 48}
#: Cells of each kind.
COUNTS = {"contention": 24, "losses": 16, "categories": 14, "hidden": 16, "downloads": 5}


@dataclass(frozen=True)
class Cell:
    """What is compared."""

    kind: str
    generation: str
    mcs: int
    width: int
    ampdu: int
    stations: int
    payload: int
    loss: float = 0.0
    categories: tuple[str, ...] = ("be",)
    rts: bool = False
    request: bool = True

    @property
    def name(self) -> str:
        """As the page writes it."""
        more = []
        if self.loss:
            more.append(f"{self.loss:.0%} lost")
        if len(self.categories) > 1:
            more.append(" and ".join(self.categories))
        if self.rts:
            more.append("RTS")
        if not self.request:
            more.append("no BlockAckReq")
        return (
            f"{self.kind} | {self.generation} | {self.mcs} | {self.width} | {self.ampdu} | {self.stations} "
            f"| {self.payload} | {', '.join(more)}"
        )


def standard_error(values: list[float]) -> float:
    """Of the mean; 0 for a single value, which does not tell."""
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0


class Result(NamedTuple):
    """Goodput of each category over the runs, in Mbit/s."""

    ours: dict[str, list[float]]
    theirs: dict[str, list[float]]

    def differences(self) -> dict[str, tuple[float, float]]:
        """The relative difference of each category's means, with its standard error.

        Examples
        --------
        >>> difference, error = Result({"be": [9.0, 11.0]}, {"be": [10.0, 10.0]}).differences()["be"]
        >>> round(difference, 3), round(error, 3)
        (0.0, 0.1)
        """
        found = {}
        for category, mine in self.ours.items():
            other = self.theirs[category]
            mean = statistics.fmean(other)
            errors = [standard_error(part) for part in (mine, other)]
            # What carries nothing in either has no relative difference.
            least = max(mean, 1e-3)
            found[category] = ((statistics.fmean(mine) - mean) / least, math.hypot(*errors) / least)
        return found

    def is_alike(self) -> bool:
        """Whether the means of every category agree."""
        return all(abs(difference) <= BAR + 2 * error for difference, error in self.differences().values())


def chosen() -> list[Cell]:
    """The cells, by a script: what they are, no person has chosen."""
    draw = random.Random(2027)
    found: list[Cell] = []
    for kind, count in COUNTS.items():
        while sum(cell.kind == kind for cell in found) < count:
            cell = drawn(kind, draw)
            # MCS 9 of 802.11ac needs 40 MHz, and ns-3 falls back to 20 MHz within an opportunity.
            narrow = cell.width == 20 or kind == "categories"
            exists = not (cell.generation == "ac" and cell.mcs == 9 and narrow)
            if exists and cell not in found:
                found.append(cell)
    return found


def drawn(kind: str, draw: random.Random) -> Cell:
    """Any cell of this kind."""
    generation = draw.choice(("n", "ac", "ax"))
    highest = {"n": 7, "ac": 9, "ax": 11}[generation]
    cell: dict[str, Any] = {
        "kind": kind,
        "generation": generation,
        # Two colliding frames of equal power must not be readable.
        "mcs": draw.randint(2, highest),
        "width": draw.choice((20, 40) if generation == "n" else (20, 40, 80)),
        "ampdu": draw.choice((4_095, 16_383, 65_535)),
        "stations": draw.choice((5, 5, 5, 20)),
        "payload": draw.choice((200, 700, 1472)),
        "request": draw.choice((True, False)),
    }
    if kind == "losses":
        cell |= {"stations": draw.choice((1, 5)), "loss": draw.choice((0.02, 0.05, 0.1, 0.2))}
    elif kind == "categories":
        pairs = (("vo", "be"), ("vi", "be"), ("be", "bk"), ("vo", "vi"), ("vi", "bk"))
        cell |= {"stations": draw.choice((2, 6)), "categories": draw.choice(pairs)}
    elif kind == "hidden":
        cell |= {"stations": draw.choice((2, 3)), "rts": draw.choice((True, True, False))}
    elif kind == "downloads":
        cell |= {"request": True}
    return Cell(**cell)


def offered_mbit(cell: Cell) -> float:
    """What each station sends: none of them ever has nothing to send, not even one that has the air alone."""
    rate = wifi.rate_mbit(cell.generation, cell.mcs, cell.width, GUARD_NS, 1)
    return rate * min(1.0, (2 if cell.kind == "contention" else 6) / cell.stations)


def scenario(cell: Cell) -> dict[str, Any]:
    """The cell in lasthop's words."""
    traffic = {"kind": "cbr", "rate": f"{offered_mbit(cell):.3f} Mbit/s", "packet": f"{cell.payload} B"}
    names = [f"station-{number}" for number in range(1, cell.stations + 1)]
    flows = []
    for number, name in enumerate(names):
        ends = ("ap", name) if cell.kind == "downloads" else (name, "ap")
        category = cell.categories[number % len(cell.categories)]
        flows.append(
            {
                "name": f"{category}-{number}",
                "source": ends[0],
                "sink": ends[1],
                "start": f"{700_000 + number * 137} us",
                "transport": "udp",
                "traffic": traffic,
                "dscp": CODE_POINTS[category],
            }
        )
    hidden = cell.kind == "hidden"
    angles = [2 * math.pi * number / cell.stations for number in range(cell.stations)]
    # Frames reach 128 m: the access point, but no other station; else all are within 4 m.
    radius = 80 if hidden else 2
    stations = [
        {"node": name, "position": [radius * math.cos(angle), radius * math.sin(angle)]}
        for name, angle in zip(names, angles, strict=True)
    ]
    radio: dict[str, Any] = {
        "access_point": "ap",
        "profile": "ns3",
        "phy": f"802.11{cell.generation}",
        "mcs": cell.mcs,
        "width": cell.width,
        "guard_interval": f"{GUARD_NS} ns",
        "dscp_map": "top-bits",
        "propagation_delay": "7 ns",
        "queue": {"kind": "drop-tail", "limit": "500 packets"},
        "aggregation": {
            "ampdu": f"{cell.ampdu} B",
            "driver": 256,
            "after_lost_block_ack": "request" if cell.request else "retry",
        },
        "stations": stations,
    }
    if hidden:
        # What cannot be received is not sensed either, and does not drown out what the access point sends;
        # frames of two stations drown out each other.
        radio |= {"receive_threshold": -64.37, "sense_threshold": -64.37, "capture": 3}
    if cell.rts:
        radio |= {"rts_threshold": "0 B"}
    if cell.loss:
        radio |= {"error": {"kind": "bernoulli", "packet_error_rate": cell.loss}}
    return {
        "duration": f"{1 + SECONDS} s",
        "warmup": "1 s",
        "udp": {"header": "28 B"},
        "topology": {"kind": "graph", "nodes": ["ap", *names], "cells": [radio]},
        "flows": flows,
    }


def by_category(cell: Cell, goodputs: list[float]) -> dict[str, float]:
    """The sum over the stations of each category."""
    count = len(cell.categories)
    return {category: sum(goodputs[place::count]) for place, category in enumerate(cell.categories)}


def ours(cell: Cell, seed: int) -> dict[str, float]:
    """Goodput in Mbit/s."""
    flows = engine.count_totals(engine.plan(scenario(cell)), seed)["flows"]
    return by_category(cell, [float(flow["goodput_bit_s"]) / 1e6 for flow in flows])


def theirs(program: Path, cell: Cell, seed: int) -> dict[str, float]:
    """The same in ns-3."""
    options = {
        "generation": cell.generation,
        "categories": ",".join(cell.categories),
        "mcs": cell.mcs,
        "width": cell.width,
        "guard": GUARD_NS,
        "ampdu": cell.ampdu,
        "stations": cell.stations,
        "payload": cell.payload,
        "seed": seed,
        "loss": cell.loss,
        "mbit": offered_mbit(cell),
        "seconds": SECONDS,
        "down": int(cell.kind == "downloads"),
        "hidden": int(cell.kind == "hidden"),
        "rts": int(cell.rts),
        "request": int(cell.request),
    }
    output, _ = process.run([str(program), *(f"--{key}={value}" for key, value in options.items())], 3600.0)
    return by_category(cell, [8 * int(line) / SECONDS / 1e6 for line in output.split()])


def compare(program: Path, cell: Cell, runs: int) -> Result:
    """Run both."""
    seeds = range(1, runs + 1)
    mine, other = [ours(cell, seed) for seed in seeds], [theirs(program, cell, seed) for seed in seeds]
    sides = [{key: [run[key] for run in side] for key in cell.categories} for side in (mine, other)]
    return Result(*sides)


def rows(cell: Cell, result: Result) -> list[str]:
    """A line of the page for each category."""
    lines = []
    for category, (difference, error) in result.differences().items():
        mine, other = (statistics.fmean(side[category]) for side in result)
        mark = "" if abs(difference) <= BAR + 2 * error else " outside"
        what = f" {category}" if len(cell.categories) > 1 else ""
        figures = f"{mine:.2f} | {other:.2f} | {difference:+.1%} ± {2 * error:.1%}{mark}"
        lines.append(f"| {cell.name}{what} | {figures} |")
    return lines


def page(found: list[tuple[Cell, Result]], runs: int) -> str:
    """The comparison as a page of the reference."""
    lines = [
        "# Cells of 802.11n, ac and ax beside ns-3",
        "",
        "Written by `python -m validation.wifi_cells`; do not edit. An access point and its stations at",
        "5 GHz, in ns-3.44 and in lasthop's profile `ns3`, with more datagrams than the air carries; they",
        f"go up, but in downloads. Mbit/s of payload over {SECONDS} s, runs: {runs}. Cells are drawn by a",
        f"script. A cell agrees if the means are within {BAR:.0%} and two standard errors, which stand",
        "behind ±.",
        "What parts, and why as far as it is known: [802.11](wlan.md).",
        "",
        "| kind | cells | agree |",
        "| --- | ---: | ---: |",
    ]
    for kind in COUNTS:
        alike = [result.is_alike() for cell, result in found if cell.kind == kind]
        lines.append(f"| {kind} | {len(alike)} | {sum(alike)} |")
    lines += [
        "",
        "| kind | 802.11 | MCS | MHz | A-MPDU, B | stations | payload, B | more | lasthop | ns-3 | apart |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: | ---: |",
    ]
    for cell, result in found:
        lines += rows(cell, result)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Compare and write the page."""
    parser = wifi.parser(__doc__, RUNS)
    parser.add_argument("--kind", choices=list(COUNTS), help="only these cells; writes nothing")
    options = parser.parse_args()
    if options.ns3 is None:
        print(f"no --ns3 and no NS3_WHEEL: {PAGE.name} stays as it is")
        return
    found = []
    with tempfile.TemporaryDirectory() as folder:
        program = wifi.build(options.ns3, Path(folder), SOURCE)
        for cell in chosen():
            if options.kind in (None, cell.kind):
                found.append((cell, compare(program, cell, options.runs)))
                print(*rows(*found[-1]), sep="\n", flush=True)
    if options.kind is None:
        PAGE.write_text(page(found, options.runs), encoding="utf-8")
        print(f"written: {PAGE.name}")


if __name__ == "__main__":
    main()
