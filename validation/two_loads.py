"""Recordings of two loads beside the authors' program: `python -m validation.two_loads FOLDER [--cases N]`.

FOLDER is a checkout of CellReplay (github.com/williamsentosa95/cellreplay). Its queue is compiled with a
clock of its own (`two_loads.cc`) and gets the same packets at the same times as a link of a scenario, over
recordings that are drawn at random; what is compared is when each packet leaves. The program counts in whole
numbers of whatever unit its files have: here nanoseconds, so that what it rounds hardly ever decides which of
two things is first. The drawing is ours; the published recordings were not to be had.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import lasthop as lh

HERE = Path(__file__).resolve().parent
SOURCES = ("frontend/cellular_queue.cc", "util/ezio.cc", "util/file_descriptor.cc")
CASES = 300
#: Headers of IPv4 and UDP.
HEADERS = 28
END_US = 3_000_000
#: What the program counts of each microsecond.
THEIRS = 1000
#: Rounding of base delay and offset: single-precision numbers of some 10^7 ns.
NEAR_US = 0.05


@dataclass(frozen=True)
class Case:
    """What is replayed, in microseconds and bytes."""

    light: list[list[int]]
    heavy: list[int]
    sizes: list[int]
    timer: int
    packets: list[tuple[int, int]]


def drawn(seed: int) -> Case:
    """Draw recordings and packets: quiet flows, short bursts, and more than the link carries."""
    draw = random.Random(seed)
    spacing = draw.choice([500, 2000, 5000])
    light, at = [], 0
    while at < END_US // 3:
        offsets = [0]
        for _ in range(draw.randrange(1, 25)):
            offsets.append(offsets[-1] + draw.choice([0, 1, spacing // 2, spacing]))
        light.append([at, draw.randrange(5_000, 60_000), *offsets])
        at += draw.randrange(20_000, 200_000)
    heavy, at = [], 0
    while at < END_US // 4:
        at += draw.choice([0, 1, spacing // 4, spacing // 2, 20 * spacing])
        heavy.append(at)
    sizes = [draw.randrange(-300, 900) for _ in range(14)] if draw.random() < 0.5 else []
    packets, at = [(0, 1400)], 0
    while at < END_US - 500_000:
        at += draw.choice([1, 7, spacing // 3, spacing, 10_000, 150_000])
        packets += [
            (at, draw.choice([100, 578, 1400, draw.randrange(60, 1401)]))
            for _ in range(draw.randrange(1, 12))
        ]
    return Case(light, heavy, sizes, draw.choice([0, 0, 2_000, 30_000]), packets)


def recordings(case: Case, folder: Path, unit: int) -> tuple[Path, Path]:
    """Write both loads in units of which a microsecond has `unit`, and return the files."""
    light, heavy = folder / f"{unit}.light.us", folder / f"{unit}.heavy.us"
    lines = (" ".join(str(unit * value) for value in line) for line in case.light)
    light.write_text("".join(f"{line}\n" for line in lines))
    heavy.write_text("".join(f"{unit * at}\n" for at in case.heavy))
    return light, heavy


def theirs(program: Path, case: Case, folder: Path) -> list[float]:
    """Return when each packet leaves the authors' queue, in microseconds."""
    (folder / "log").mkdir(exist_ok=True)
    sizes = folder / "sizes"
    offsets = enumerate(case.sizes, 1)
    sizes.write_text("".join(f"{100 * number} {THEIRS * offset}\n" for number, offset in offsets))
    paths = [*recordings(case, folder, THEIRS), folder / "log"]
    ends = [str(THEIRS * case.timer), str(THEIRS * END_US)]
    command = [program, *paths, sizes if case.sizes else "", *ends]
    text = "".join(f"{THEIRS * at} {size}\n" for at, size in case.packets)
    subprocess.run(command, input=text, text=True, check=True)
    left: dict[int, float] = {}
    for line in (folder / "log" / "packet-log-uplink").read_text().splitlines()[3:]:
        words = line.split("\t")
        # Of each packet there is a line when it comes and one when it leaves.
        if words[1] == "OTHER":
            left[int(words[0])] = int(words[5]) / THEIRS
    return [left.get(number, END_US) for number in range(len(case.packets))]


def ours(case: Case, folder: Path) -> list[float]:
    """Return when each packet leaves a link of a scenario, in microseconds."""
    sizes = folder / "sizes.ms"
    sizes.write_text(
        "".join(f"{100 * number} {offset / 1000}\n" for number, offset in enumerate(case.sizes, 1))
    )
    light, heavy = recordings(case, folder, 1)
    trace = {
        "kind": "cellreplay",
        "file": str(heavy),
        "light": str(light),
        "timer": f"{case.timer} us",
    }
    if case.sizes:
        trace["sizes"] = str(sizes)
    link = {"from": "a", "to": "b", "delay": "0 s", "queue": "unlimited", "trace": trace}
    link["reverse"] = {"rate": "1 Gbit/s"}
    topology = {"kind": "graph", "nodes": ["a", "b"], "links": [link]}
    idle = {"source": "a", "sink": "b", "transport": "udp", "start": f"{END_US - 1} us"}
    idle["traffic"] = {"kind": "cbr", "rate": "1 kbit/s", "packet": "100 B"}
    network = lh.Network({"duration": f"{END_US} us", "topology": topology, "flows": [idle]})
    network.keep_fates()
    host, _ = network.attach("a", "10.0.0.1"), network.attach("b", "10.0.0.2")
    numbers = []
    for at, size in case.packets:
        while network.now < at * 1000:
            network.next_event(at * 1000)
            while network.recv():
                pass
        numbers.append(network.send(host, 1, ("10.0.0.2", 2), bytes(size - HEADERS)))
    while network.next_event().kind != "end":
        while network.recv():
            pass
    fates = [network.fate(number) for number in numbers]
    return [fate.at / 1000 if fate and fate.at is not None else END_US for fate in fates]


def main() -> None:
    """Compile their queue, and compare."""
    source, *more = sys.argv[1:] or sys.exit("usage: python -m validation.two_loads FOLDER [--cases N]")
    cases = int(more[1]) if more[:1] == ["--cases"] else CASES
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = folder / "theirs"
        parts = [f"-I{source}/src/{part}" for part in ("frontend", "packet", "util")]
        files = [HERE / "two_loads.cc", *(Path(source) / "src" / file for file in SOURCES)]
        subprocess.run(["g++", "-O1", "-std=c++14", "-w", *parts, *files, "-o", program], check=True)
        total = apart = light = 0
        for seed in range(cases):
            case = drawn(seed)
            left = list(zip(theirs(program, case, folder), ours(case, folder), strict=True))
            far = [number for number, (one, other) in enumerate(left) if abs(one - other) > NEAR_US]
            total, apart = total + len(left), apart + len(far)
            light += sum(one < END_US for one, _ in left)
            if far:
                one = far[0]
                print(f"case {seed}: {len(far)} of {len(left)}; {one}, {case.packets[one]}: {left[one]}")
        print(
            f"{cases} cases, {total} packets, of which {light} leave in time: {apart} leave at another time"
        )


if __name__ == "__main__":
    main()
