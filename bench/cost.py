"""Counts what a packet-hop costs, by part of the engine, where no other load can disturb: `make bench-cost`.

Callgrind counts instructions and branches of the event loop, and simulates two caches of fixed sizes. Two
runs of different length are subtracted, so that start, reading and building cancel out. A full run writes
`bench/COST.md` and `bench/cost.toml`, to which `tests/python/test_cost.py` holds the engine of this tree.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.run import build_lasthop, say  # noqa: E402, the tree's own packages are found from its root
from validation import process, wlan  # noqa: E402

SCENARIOS = ROOT / "bench" / "scenarios"
PAGE, COUNTS = ROOT / "bench" / "COST.md", ROOT / "bench" / "cost.toml"

#: First and last levels of cache: bytes, ways, bytes of a line. Fixed, so that machines agree.
CACHES = ("--I1=32768,8,64", "--D1=32768,8,64", "--LL=8388608,16,64")
#: Callgrind's events: instructions, conditional branches, data that missed the first and the last level.
INSTRUCTIONS, BRANCHES = ("Ir",), ("Bc", "Bi")
MISSES, FAR = ("D1mr", "D1mw"), ("DLmr", "DLmw")
#: What `make bench-cost` holds in the gate: the small case of `tests/python/test_cost.py`.
SMALL = SCENARIOS / "b-wireless-dumbbell.toml"


class Case(NamedTuple):
    """A scenario of the bench and the times in s between which is counted."""

    letter: str
    name: str
    scenario: str
    between_s: tuple[float, float]


CASES = (
    Case("a", "80 flows", "a-80-flows", (2.0, 4.0)),
    Case("b", "wireless dumbbell", "b-wireless-dumbbell", (10.0, 30.0)),
    Case("c", "one fast flow", "c-one-fast-flow", (1.0, 1.3)),
    Case("d", "1,000 flows", "d-1000-flows", (1.2, 1.4)),
    Case("e", "10,000 flows", "e2-10000-flows", (1.02, 1.04)),
    Case("f", "a cell of five stations", "cell-5", (6.0, 20.0)),
    Case("f", "a cell of fifty stations", "cell-50", (6.0, 20.0)),
    Case("g", "drop-tail", "twins/g-drop-tail", (1.2, 1.4)),
    Case("g", "FQ-CoDel", "twins/g-fq-codel", (1.2, 1.4)),
    Case("g", "DualPI2", "twins/g-dual-pi2", (1.2, 1.4)),
    Case("i", "no helper", "twins/i-plain", (5.0, 20.0)),
    Case("i", "Snoop", "twins/i-snoop", (5.0, 20.0)),
)

#: Parts by the beginning of a file's path below `crates`, the longest one counts.
PARTS = {
    "lasthop-core/src/event": "waiting for the clock",
    "lasthop-core/src/calendar": "waiting for the clock",
    "lasthop-core/src": "packets, times, random numbers",
    "lasthop-net/src/network": "the walk from place to place",
    "lasthop-net/src/world": "the walk from place to place",
    "lasthop-net/src/link": "links, queues, channels",
    "lasthop-net/src/queue": "links, queues, channels",
    "lasthop-net/src/channel": "links, queues, channels",
    "lasthop-net/src/device": "helpers, radio",
    "lasthop-net/src/transport": "senders",
    "lasthop-net/src/transport/tcp/receiver": "receivers",
    "lasthop-net/src/transport/tcp/reassembly": "receivers",
    "lasthop-net/src/traffic": "senders",
    "lasthop-net/src/measure": "counting",
    "lasthop-net/src": "the walk from place to place",
    "lasthop-cc/src": "senders",
}
LIBRARY = "the library, called from all"
#: What a packet-hop cannot do without, in instructions.
NEEDED = {
    "the walk from place to place": (25, "read the packet's place, its link and where it goes next"),
    "waiting for the clock": (30, "one place in time: put in, take out"),
    "links, queues, channels": (30, "compare room, add a time of transmission, one counter of the link"),
    "senders": (40, "a third of an ACK: window, RTT, timer, the segment it allows"),
    "receivers": (12, "a third of a segment: in order or not, the ACK"),
    "counting": (10, "a third of a delay into its histogram"),
    "packets, times, random numbers": (3, "a slot taken and given back once a path"),
    LIBRARY: (0, "vectors and integers: belong to the above"),
}


class Cost(NamedTuple):
    """What was counted of a run: packet-hops, and events by part."""

    packet_hops: int
    events: dict[str, Counter[str]]

    def per_hop(self, before: Cost) -> dict[str, Counter[str]]:
        """Return the events of a packet-hop between the end of a shorter run and that of this one."""
        hops = self.packet_hops - before.packet_hops
        parts = self.events.keys() | before.events.keys()
        none: Counter[str] = Counter()
        return {
            part: Counter(
                {
                    event: (count - before.events.get(part, none)[event]) / hops
                    for event, count in self.events.get(part, none).items()
                }
            )
            for part in parts
        }


def part_of(file: str) -> str:
    """Return the part of the engine to which a source file belongs.

    Examples
    --------
    >>> part_of("/somewhere/crates/lasthop-net/src/transport/tcp/receiver.rs"), part_of("alloc/vec.rs")
    ('receivers', 'the library, called from all')
    """
    _, found, below = file.rpartition("crates/lasthop-")
    below = f"lasthop-{below}" if found else ""
    fitting = [start for start in PARTS if below.startswith(start)]
    return PARTS[max(fitting, key=len)] if fitting else LIBRARY


def read_profile(text: str) -> dict[str, Counter[str]]:
    """Return the events of each part from what callgrind wrote without compression.

    Examples
    --------
    >>> lines = ["events: Ir D1mr", "fl=crates/lasthop-cc/src/reno.rs", "fn=ack", "7 20 1"]
    >>> lines += ["calls=1 3", "8 900 9", "fi=/rustc/vec.rs", "9 5"]
    >>> read_profile("\\n".join(lines))
    {'senders': Counter({'Ir': 20, 'D1mr': 1}), 'the library, called from all': Counter({'Ir': 5})}
    """
    names: list[str] = []
    parts: dict[str, Counter[str]] = {}
    here, skip = LIBRARY, False
    for line in text.splitlines():
        if line[:1].isdigit():
            if not skip:
                counts = parts.setdefault(here, Counter())
                for name, count in zip(names, line.split()[1:], strict=False):
                    counts[name] += int(count)
            skip = False
        elif line.startswith("events:"):
            names = line.split()[1:]
        elif line.startswith(("fl=", "fi=", "fe=")):
            here = part_of(line[3:])
        elif line.startswith("calls="):
            # The line that follows has what was called, which stands in its own place, too.
            skip = True
    return parts


def counted(command: list[str], *, caches: bool) -> tuple[str, dict[str, Counter[str]]]:
    """Run a command under callgrind; return what it printed and what was counted."""
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder, "profile")
        options = ["--compress-strings=no", "--compress-pos=no", f"--callgrind-out-file={profile}"]
        if caches:
            options += ["--cache-sim=yes", "--branch-sim=yes", *CACHES]
        output, _ = process.run(["valgrind", "--quiet", "--tool=callgrind", *options, *command])
        return output, read_profile(profile.read_text(encoding="utf-8", errors="replace"))


def cost_of(program: Path, scenario: Path, duration_s: float) -> Cost:
    """Count a run of this length."""
    setting = f"duration={duration_s:g} s"
    output, events = counted([str(program), str(scenario), "--seed", "1", "--set", setting], caches=True)
    # Before it stand warnings about the caches of this machine, which are not used.
    return Cost(json.loads(output.splitlines()[-1])["packet_hops"], events)


def scenario_of(case: Case, folder: Path) -> Path:
    """Return the file of a case; that of a cell is written."""
    if not case.scenario.startswith("cell-"):
        return SCENARIOS / f"{case.scenario}.toml"
    path = folder / f"{case.scenario}.json"
    cell = wlan.Cell(int(case.scenario.removeprefix("cell-")), "up")
    path.write_text(json.dumps(wlan.scenario(cell, case.between_s[1])), encoding="utf-8")
    return path


def total(parts: dict[str, Counter[str]], events: tuple[str, ...]) -> float:
    """Add events over all parts."""
    return sum(counts[event] for counts in parts.values() for event in events)


def figures(counts: Counter[str]) -> str:
    """Return instructions, and lines that were not in the first cache in brackets."""
    return f"{counts['Ir']:.0f} ({sum(counts[event] for event in MISSES):.1f})"


def small_count(python: Path) -> float:
    """Return instructions per packet-hop of the small case in the module that Python loads."""
    code = (
        "import sys, lasthop\n"
        f"scenario = lasthop.Scenario.load({str(SMALL)!r}).replace({{'duration': sys.argv[1]}})\n"
        "print(lasthop.run(scenario).packet_hops)"
    )
    found = []
    # The order of Python's sets is no part of what is counted.
    os.environ["PYTHONHASHSEED"] = "0"
    for duration in ("10 s", "20 s"):
        command = [str(python), "-c", code, duration]
        output, events = counted(command, caches=False)
        found.append((int(output.split()[-1]), total(events, INSTRUCTIONS)))
    (hops, count), (more_hops, more) = found
    return (more - count) / (more_hops - hops)


def compiler() -> str:
    """Return the version of the compiler of this tree: counts of another are others."""
    told = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True)
    return told.stdout.split(" (")[0].strip()


def page(rows: list[tuple[Case, dict[str, Counter[str]]]]) -> str:
    """Return the page."""
    lines = [
        "<!-- Written by `python bench/cost.py`; changes here are overwritten. -->",
        "",
        "# What a packet-hop costs, counted",
        "",
        f"By callgrind with {compiler()}: events of the event loop per packet-hop. The caches are simulated,",
        "32 KiB and 8 MiB, without prefetching; a miss of the first is a line of 64 bytes that has to come",
        "from further away. No load of the machine changes these figures.",
        "",
        "| case | instructions | branches | lines not in L1 | lines not in L3 |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| ({case.letter}) {case.name} | {total(parts, INSTRUCTIONS):.0f} | {total(parts, BRANCHES):.0f} | "
        f"{total(parts, MISSES):.1f} | {total(parts, FAR):.2f} |"
        for case, parts in rows
    ]
    by_case = {case.letter: parts for case, parts in rows[:5]}
    names = sorted(NEEDED, key=lambda part: -by_case["a"].get(part, Counter())["Ir"])
    lines += [
        "",
        "## By part",
        "",
        "Instructions per packet-hop, and lines not in L1 in brackets. *Needed* is a count from below: what",
        "a packet-hop cannot do without.",
        "",
        "| part | needed | " + " | ".join(f"({letter})" for letter in by_case) + " | needed for |",
        "| --- | ---: |" + " ---: |" * len(by_case) + " --- |",
    ]
    for name in names:
        cells = [figures(parts.get(name, Counter())) for parts in by_case.values()]
        least, why = NEEDED[name]
        lines.append(f"| {name} | {least} | " + " | ".join(cells) + f" | {why} |")
    least = sum(count for count, _ in NEEDED.values())
    sums = [figures(sum(parts.values(), Counter())) for parts in by_case.values()]
    lines.append(f"| all | {least} | " + " | ".join(sums) + " | |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Count all cases, or some without writing anything."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", metavar="LETTERS", help="only these cases; writes nothing")
    chosen = parser.parse_args().case
    program = build_lasthop()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            if chosen and case.letter not in chosen:
                continue
            scenario = scenario_of(case, Path(folder))
            before, after = (cost_of(program, scenario, until) for until in case.between_s)
            rows.append((case, after.per_hop(before)))
            say(f"  ({case.letter}) {case.name}: {figures(sum(rows[-1][1].values(), Counter()))}")
    if chosen:
        return
    PAGE.write_text(page(rows), encoding="utf-8")
    small = small_count(Path(sys.executable))
    say(f"  the small case of the gate: {small:.1f}")
    COUNTS.write_text(
        "# Written by `python bench/cost.py`; tests/python/test_cost.py holds the engine to it.\n"
        f'compiler = "{compiler()}"\ninstructions = {small:.1f}\n',
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
