"""Times the same scenarios in lasthop and in other simulators, alternating, and every sender: `make bench`.

A packet-hop is one packet transmitted over one link. Every figure is CPU time per packet-hop, as the system
counts it for the whole process, and for the event loop alone (without start-up and building the
topology). A full run writes `bench/RESULTS.md`; `--case` and `--runs` give a quick look and write nothing.
`--quick` runs every part once, some seconds of each: whether all of it works, not how fast it is.
`--senders` times the senders alone, each controller by itself and each preset in the dumbbell of paper 004,
and replaces that part of the page. Whatever is registered is timed.

`--against BINARY` alternates an older `lasthop-bench` with the present one instead, and `--instructions`
counts instructions with callgrind, which no other load on the machine can disturb. Both write nothing.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from validation import ns2, ns3, process, wlan  # noqa: E402, the tree's own packages are found from its root
from validation.network import Network, read  # noqa: E402

SCENARIOS = ROOT / "bench" / "scenarios"
RESULTS = ROOT / "bench" / "RESULTS.md"
DUMBBELL = ROOT / "scenarios" / "lossy-last-hop.toml"
RUNS = 5

#: Letters of all cases: (a) to (e) lie in `SCENARIOS`, (f) and (p) are made here, the others are `TWINS`.
CASES = "abcdefghijklmnopqrs"

#: How much of a case `--quick` simulates: its outages have room, and in the large ones all flows have begun.
QUICK_DURATION_S = 6.0
QUICK_DURATION_LARGE_S = 1.2
#: The large cases.
LARGE = "de"

#: With more nodes than this, computing ns-2's routes takes longer than the simulation.
ROUTES_BY_HAND = 500

#: ns-3 needs a hundred times longer: it runs this much of each case, once.
NS3_DURATION_S = 3.0

#: With more nodes than this, building the network takes ns-2 many times longer than the simulation: 7 s for
#: the 2,002 nodes of 1,000 flows, and more than 6 minutes for 20,002.
MOST_NODES_NS2 = 5_000

#: Case -> nanoseconds per packet-hop that lasthop aims at.
TARGETS = {"a": 30.0, "b": 30.0, "c": 15.0, "d": 40.0}

#: Case -> scenarios in `twins` that differ in one thing, the plain one last, and the most that it may cost,
#: where there is an aim.
TWINS: dict[str, tuple[str, str, float | None]] = {
    "g": ("g-fq-codel", "g-drop-tail", 2.0),
    "h": ("h-recording", "h-plain", 2.0),
    "i": ("i-snoop", "i-plain", 3.0),
    "j": ("i-snoop-1000", "i-snoop", 2.0),
    "k": ("i-fec", "i-plain", None),
    "l": ("i-fec-1000", "i-fec", None),
    "m": ("i-split", "i-plain", None),
    "n": ("i-split-1000", "i-split", None),
    "o": ("o-cell-50", "o-cell-5", 2.0),
    "q": ("g-cake", "g-fq-codel", 2.0),
    "s": ("g-dual-pi2", "g-drop-tail", 2.0),
}

TWINS_HEADING = """## Queues, recordings and helpers

CPU time of the event loop per packet-hop, medians of {runs} runs that alternate: FQ-CoDel beside drop-tail,
a link that follows a recording (Mahimahi) beside a plain one, and a Snoop agent, FEC (one repair for four
packets) and a split with 20 flows beside none, each with 1,000 flows beside that. FEC is two devices, and
sends the repairs as well; a split has twice the senders and receivers. Case (o) is a saturated cell of
802.11ac with aggregates of 32, 50 stations beside five: a packet-hop is a datagram that is offered, of which
a part does not fit. Aim with five: 40 ns. Cases (q) and (s) are (g) again, with CAKE beside FQ-CoDel and
DualPI2 beside drop-tail.

Not the queue alone makes the ratio of (g): drop-tail lets packets of one flow follow each other, FQ-CoDel
takes the flows in turn, so that the state of their ends leaves the first cache in between. Of all reads
that miss it (callgrind: 8.6 a packet-hop against 1.3), 56 % are those of senders and receivers and 8 %
those of the queue; in instructions the ratio is 2.5.
"""

#: Stations of case (f), what lasthop aims at with the first, and the simulated seconds.
CELLS = (5, 10, 20, 50)
CELL_AIM = 300.0
CELL_DURATION_S = 60.0

CELLS_HEADING = """## Cells

Case (f): stations of 802.11b at 11 Mbit/s with FTP up over an access point, {duration:g} s, both sides as
ns-2's `Mac/802_11` without RTS; CPU time of the event loop per packet-hop, medians of {runs} runs that
alternate. A packet-hop is a packet over the air once, however often it was repeated. Aim with {first}
stations: {aim:g} ns.
"""

#: Scenarios of case (r), the connections in each, and the CPU seconds that they may take.
STACKS: dict[str, tuple[str, int, float]] = {
    "one": ("a connection, 10 Mbit/s, 60 s", 1, 0.2),
    "many": ("1,000 connections, 1 Gbit/s, 20 s", 1000, 60.0),
}

STACKS_HEADING = """## Real stacks

Case (r): bulk transfers of quinn (CUBIC), both ends with TLS, over one link of 20 ms: CPU time of the whole
process, of which 0.005 s are start-up, and per datagram that an end sent; medians of {runs} runs. Of the time
of one connection quinn and its TLS take 73 %, network and timers 15 %, the driver the rest (perf).
quic-network-simulator carries real processes in real time: its 60 s take 60 s.
"""

TRANSFERS_HEADING = """## Many transfers, and captures

Case (p): 100,000 transfers of 20 kB in the mean over one bottleneck, 40 s, from reading the scenario to its
summary; ten times as many in ten times the time, told by class (`results`), one run; and reading a capture of
1,000,000 packets (pcap, 60 B of each) with what is found of its flows and path. CPU time of the whole
process, that of the capture without the start of Python; medians of {runs} runs.
"""
#: CPU seconds and MiB that 100,000 transfers may take, and CPU seconds of a capture.
TRANSFERS_AIM = (10.0, 1024.0)
CAPTURE_AIM_S = 2.0

#: Scenario -> times in s between which instructions are counted: some 200,000 packet-hops.
COUNTED_S = {
    "a-80-flows": (2.0, 5.0),
    "b-wireless-dumbbell": (10.0, 40.0),
    "c-one-fast-flow": (1.0, 2.0),
    "d-1000-flows": (1.5, 2.0),
    "e1-1000-flows": (1.5, 2.0),
    "e2-10000-flows": (1.5, 1.6),
}

#: Nanoseconds per ACK that a controller may take.
CONTROLLER_AIM = 50.0

#: Why a controller takes longer than that.
REASONS = {"wsc": "clusters its last 64 RTT samples anew at every 16th (k-means); 0 with clusters = false"}

#: Where the part on senders begins.
SENDERS_HEADING = "## Senders"

SENDERS_INTRODUCTION = f"""{SENDERS_HEADING}

Written by `python bench/run.py --senders`, as part of `make bench`.

Each controller alone, nanoseconds of CPU time per ACK: a connection of 30 Mbit/s and 20 ms is driven for it,
whose queue overflows when its window grows beyond, and every hook that it needs is called. What the drive
itself takes is taken off. Aim: {CONTROLLER_AIM:g} ns.

{{controllers}}

Each preset in `{{scenario}}`, the wireless dumbbell of paper 004: CPU time of the event
loop per packet-hop, median of {{runs}} runs, and relative to `reno`, which runs alternately. A sender that
sends less, or loses more, has other packets to handle: the ratio is no verdict on its law.

{{presets}}

- {{machine}}
- {{date}}
- lasthop {{version}}
"""

INTRODUCTION = """# Benchmarks

Written by `{command}`; do not edit. What the senders cost stands at the end; `bench/PAGE.md`, written by
`make bench-page`, has the page.

The scenarios are in `bench/scenarios`. Runs of the simulators alternate; figures are medians of {runs}
runs. A packet-hop is one packet transmitted over one link. Times are CPU time of the whole process per
packet-hop, in brackets that of the event loop alone, without start-up and building the topology; so are
the ratios, how many times longer ns-2 takes. ns-2 runs in its fast setting: three packet headers, no
traces, and from 500 nodes on routes written by hand, because computing them would take longer than the
simulation. It does not run where building the network alone takes it many minutes. ns-3 runs once, and
only the first {ns3:g} s of cases (a) to (d). Memory is the largest resident set; per flow, without the
{base:.1f} MiB that a run of one flow takes.

- {machine}
- {date}
- lasthop {version}
- {rivals}
"""


@dataclass(frozen=True)
class Timing:
    """One run of one simulator on one case."""

    packet_hops: int
    cpu_s: float
    loop_s: float
    setup_s: float
    max_rss_kib: int

    @property
    def ns_per_hop(self) -> float:
        """CPU time of the process for each packet-hop."""
        return 1e9 * self.cpu_s / self.packet_hops

    @property
    def loop_ns_per_hop(self) -> float:
        """CPU time of the event loop for each packet-hop."""
        return 1e9 * self.loop_s / self.packet_hops


@dataclass(frozen=True)
class Row:
    """Medians of one case."""

    case: str
    name: str
    flows: int
    base_kib: int
    ours: Timing
    theirs: Timing | None
    ns3: Timing | None


def say(text: str) -> None:
    """Progress, apart from the results."""
    print(text, file=sys.stderr, flush=True)


def build_lasthop() -> Path:
    """Build the benchmark's program and return its path."""
    return build("lasthop-bench")


def build(program: str) -> Path:
    """Build a program of the tree and return its path."""
    command = ["cargo", "build", "--release", "--locked", "--bin", program, "--message-format=json"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"bench: cargo could not build {program}")
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    return next(Path(message["executable"]) for message in messages if message.get("executable"))


def time_lasthop(program: Path, scenario: Path, seed: int, settings: tuple[str, ...] = ()) -> Timing:
    """Run lasthop once; its program reports what it did as JSON."""
    options = [word for setting in settings for word in ("--set", setting)]
    output, cost = process.run([str(program), str(scenario), "--seed", str(seed), *options])
    answer = json.loads(output)
    # Start-up, reading and building are left out, as those of ns-2 are with its run of no length.
    loop = answer["run_cpu_s"] - answer["setup_s"]
    return Timing(
        answer["packet_hops"], cost.cpu_s, loop, answer["setup_s"], answer["max_rss_kib"] or cost.max_rss_kib
    )


@dataclass(frozen=True)
class Ns2:
    """ns-2 on one case, with what is measured apart: packet-hops (counting costs time) and set-up."""

    script: str
    packet_hops: int
    setup_s: float

    @classmethod
    def prepare(cls, network: Network) -> Ns2:
        """Count the packet-hops and time a run of no length."""
        routes = len(network.nodes) > ROUTES_BY_HAND
        lines, _ = ns2.run(ns2.fast_script(network, hops=True, routes=routes))
        hops = sum(int(line.split()[3]) for line in lines if line.startswith("l "))
        _, empty = ns2.run(ns2.fast_script(replace(network, duration_s=0.0), hops=False, routes=routes))
        return cls(ns2.fast_script(network, hops=False, routes=routes), hops, empty.cpu_s)

    def time(self) -> Timing:
        """Run once."""
        _, cost = ns2.run(self.script)
        return Timing(self.packet_hops, cost.cpu_s, cost.cpu_s - self.setup_s, self.setup_s, cost.max_rss_kib)


def median(timings: list[Timing]) -> Timing:
    """Median of each figure."""
    return Timing(
        packet_hops=int(statistics.median(timing.packet_hops for timing in timings)),
        cpu_s=statistics.median(timing.cpu_s for timing in timings),
        loop_s=statistics.median(timing.loop_s for timing in timings),
        setup_s=statistics.median(timing.setup_s for timing in timings),
        max_rss_kib=int(statistics.median(timing.max_rss_kib for timing in timings)),
    )


def time_ns3(program: Path, network: Network) -> Timing:
    """Run ns-3 once; it counts packet-hops itself."""
    with tempfile.TemporaryDirectory() as folder:
        description = Path(folder, "description")
        description.write_text(ns3.describe(network))
        answer, cost = ns3.time(program, description)
    loop = cost.cpu_s - answer["setup_s"]
    return Timing(answer["packet_hops"], cost.cpu_s, loop, answer["setup_s"], cost.max_rss_kib)


def quick_duration_s(case: str) -> float:
    """Return how much of a case `--quick` simulates."""
    return QUICK_DURATION_LARGE_S if case in LARGE else QUICK_DURATION_S


def shortened(case: str, *, quick: bool) -> tuple[str, ...]:
    """Return the settings with which lasthop runs a case."""
    return (f"duration={quick_duration_s(case):g} s",) if quick else ()


def base_kib(program: Path) -> int:
    """Memory of a run of one flow that hardly begins."""
    one_flow = SCENARIOS / "c-one-fast-flow.toml"
    return time_lasthop(program, one_flow, 1, ("duration=100 ms",)).max_rss_kib


def run_case(
    program: Path, ns3_program: Path | None, scenario: Path, runs: int, *, quick: bool = False
) -> Row:
    """Alternate the simulators on one case, so that a busy moment of the machine hits both."""
    structure = tomllib.loads(scenario.read_text(encoding="utf-8"))
    say(f"{structure['name']}")
    network = read(structure)
    case = scenario.name[0]
    if quick:
        network = replace(network, duration_s=quick_duration_s(case))
    rival = None
    if len(network.nodes) > (ROUTES_BY_HAND if quick else MOST_NODES_NS2):
        say("  ns-2 would take too long to build it")
    elif shutil.which("ns") is not None:
        say("  ns-2: counting packet-hops")
        rival = Ns2.prepare(network)
    ours: list[Timing] = []
    theirs: list[Timing] = []
    for number in range(1, runs + 1):
        ours.append(time_lasthop(program, scenario, number, shortened(case, quick=quick)))
        line = f"  run {number}/{runs}: lasthop {ours[-1].ns_per_hop:.1f} ns per packet-hop"
        if rival is not None:
            theirs.append(rival.time())
            line += f", ns-2 {theirs[-1].ns_per_hop:.1f}"
        say(line)
    third = None
    if ns3_program is not None and case in TARGETS:
        third = time_ns3(ns3_program, replace(network, duration_s=min(network.duration_s, NS3_DURATION_S)))
        say(f"  ns-3, {NS3_DURATION_S:g} simulated seconds: {third.ns_per_hop:,.0f} ns per packet-hop")
    return Row(
        case,
        structure["name"],
        len(network.flows),
        base_kib(program),
        median(ours),
        median(theirs) if theirs else None,
        third,
    )


def twins_part(program: Path, cases: str, runs: int, *, quick: bool = False) -> str:
    """Time each scenario of `twins` in turn with its plain twin; return the part of the page that tells."""
    lines = [
        TWINS_HEADING.format(runs=runs),
        "| case | packet-hops | ns | plain: packet-hops | ns | ratio | aim |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for case, (name, plain, aim) in TWINS.items():
        if case not in cases:
            continue
        paths = [SCENARIOS / "twins" / f"{one}.toml" for one in (name, plain)]
        settings = shortened(case, quick=quick)
        pairs = [
            [time_lasthop(program, path, number, settings) for path in paths] for number in range(1, runs + 1)
        ]
        own, other = (median([pair[side] for pair in pairs]) for side in (0, 1))
        ratio = statistics.median(one.loop_ns_per_hop / two.loop_ns_per_hop for one, two in pairs)
        title = tomllib.loads(paths[0].read_text(encoding="utf-8"))["name"]
        lines.append(
            f"| {title} | {own.packet_hops:,} | {own.loop_ns_per_hop:.1f} | {other.packet_hops:,} | "
            f"{other.loop_ns_per_hop:.1f} | {ratio:.2f} | {'-' if aim is None else format(aim, 'g')} |"
        )
        say(f"  {title}: {own.loop_ns_per_hop:.1f} ns per packet-hop, {ratio:.2f} times the plain one")
    return "\n".join(lines) + "\n"


def cells_part(program: Path, runs: int, *, quick: bool = False) -> str:
    """Time cells of more and more stations, the smallest beside ns-2; return their part of the page."""
    duration_s = QUICK_DURATION_S if quick else CELL_DURATION_S
    heading = CELLS_HEADING.format(duration=duration_s, runs=runs, first=CELLS[0], aim=CELL_AIM)
    lines = [heading, "| stations | packet-hops | lasthop (ns) | ns-2 (ns) |"]
    lines.append("| ---: | ---: | ---: | ---: |")
    for stations in CELLS:
        cell = wlan.Cell(stations, "up")
        rival = stations == CELLS[0] and shutil.which("ns") is not None
        ours, theirs = [], []
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "cell.json")
            path.write_text(json.dumps(wlan.scenario(cell, duration_s)), encoding="utf-8")
            for number in range(1, runs + 1):
                ours.append(time_lasthop(program, path, number))
                if rival:
                    theirs.append(wlan.their_time(cell, number, duration_s))
        own = median(ours)
        other = f"{statistics.median(theirs):,.0f}" if theirs else "-"
        lines.append(f"| {stations} | {own.packet_hops:,} | {own.loop_ns_per_hop:.0f} | {other} |")
        say(f"  (f) {stations} stations: {own.loop_ns_per_hop:.0f} ns per packet-hop, ns-2 {other}")
    return "\n".join(lines) + "\n"


def transfers_part(program: Path, runs: int, *, quick: bool = False) -> str:
    """Time many short transfers and the reading of a large capture; return their part of the page."""
    path = SCENARIOS / "twins" / "p-short-transfers.toml"
    settings = ("flows.0.count=2000",) if quick else ()
    ours = median([time_lasthop(program, path, number, settings) for number in range(1, runs + 1)])
    many = ("flows.0.results=class",) + (settings or ("flows.0.count=1000000", "duration=400 s"))
    million = time_lasthop(program, path, 1, many)
    read_s = statistics.median(capture_s(20_000 if quick else 1_000_000) for _ in range(runs))
    say(f"  (p) {ours.cpu_s:.2f} s, {ours.max_rss_kib / 1024:.0f} MiB; a capture in {read_s:.2f} s")
    most_s, most_mib = TRANSFERS_AIM
    work = f"{ours.packet_hops:,} packet-hops"
    memory = f"{ours.max_rss_kib / 1024:.0f} MiB | {most_mib:g} MiB"
    memory_of_many = f"{million.max_rss_kib // 1024} MiB"
    by_class = f"{million.packet_hops:,} packet-hops | {million.cpu_s:.1f} s | - | {memory_of_many}"
    lines = [
        TRANSFERS_HEADING.format(runs=runs),
        "| case | work | CPU time | aim | memory | aim |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        f"| (p) 100,000 transfers | {work} | {ours.cpu_s:.1f} s | {most_s:g} s | {memory} |",
        f"| (p) 1,000,000 by class | {by_class} | - |",
        f"| a capture read | 1,000,000 packets | {read_s:.2f} s | {CAPTURE_AIM_S:g} s | - | - |",
    ]
    return "\n".join(lines) + "\n"


def stacks_part(runs: int, *, quick: bool = False) -> str:
    """Time quinn over a link; return its part of the page."""
    program = build("lasthop-stacks")
    lines = [
        STACKS_HEADING.format(runs=runs),
        "| case | datagrams | CPU time | aim | per datagram |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, (title, connections, aim_s) in STACKS.items():
        scenario = SCENARIOS / "stacks" / f"{name}.toml"
        some = min(connections, 10) if quick else connections
        words = ["--from", "server", "--to", "phone", "--connections", str(some)]
        made = [process.run([str(program), str(scenario), *words]) for _ in range(runs)]
        spent_s = statistics.median(cost.cpu_s for _, cost in made)
        found = re.search(r"^datagrams of both ends: (\d+)$", made[0][0], re.MULTILINE)
        if found is None:
            raise SystemExit("bench: lasthop-stacks did not say how much was sent")
        datagrams = int(found[1])
        say(f"  (r) {title}: {spent_s:.3f} s")
        each = f"{1e6 * spent_s / datagrams:.2f} µs"
        lines.append(f"| (r) {title} | {datagrams:,} | {spent_s:.3g} s | {aim_s:g} s | {each} |")
    return "\n".join(lines) + "\n"


def capture_s(packets: int) -> float:
    """Return the CPU seconds that reading a capture of that many datagrams takes."""
    from lasthop.captured import Captured

    # Ethernet, IPv4 and UDP from 10.0.0.1 to 10.0.0.2, of which the capture has 60 bytes.
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 1028, 0, 0, 64, 17, 0, b"\x0a\0\0\x01", b"\x0a\0\0\x02")
    frame = bytes(12) + b"\x08\x00" + ip + struct.pack(">HHHH", 5000, 6000, 1008, 0)
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 60, 1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "large.pcap")
        with path.open("wb") as file:
            file.write(head)
            for number in range(packets):
                seconds, micros = divmod(number * 20, 1_000_000)
                file.write(struct.pack("<IIII", seconds, micros, 60, 1042) + frame.ljust(60, b"\0"))
        begun = time.process_time()
        found = Captured(path).found["packets"]
        spent = time.process_time() - begun
    if found != packets:
        raise SystemExit(f"bench: {found} of {packets} packets were found")
    return spent


def table(rows: list[Row]) -> str:
    """The results as Markdown."""
    heads = ["case", "packet-hops", "lasthop (ns)", "aim", "ns-2 (ns)", "ratio", "ns-3 (ns)", "memory"]
    heads += ["per flow", "set-up"]
    lines = ["| " + " | ".join(heads) + " |", "| --- |" + " ---: |" * (len(heads) - 1)]
    for row in rows:
        ours, theirs = row.ours, row.theirs
        cells = [
            row.name,
            f"{ours.packet_hops:,}, {theirs.packet_hops:,}" if theirs else f"{ours.packet_hops:,}",
            f"{ours.ns_per_hop:.1f} ({ours.loop_ns_per_hop:.1f})",
            f"{TARGETS[row.case]:.0f}" if row.case in TARGETS else "-",
            f"{theirs.ns_per_hop:.0f} ({theirs.loop_ns_per_hop:.0f})" if theirs else "-",
            f"{theirs.ns_per_hop / ours.ns_per_hop:.1f} ({theirs.loop_ns_per_hop / ours.loop_ns_per_hop:.1f})"
            if theirs
            else "-",
            f"{row.ns3.ns_per_hop:,.0f}" if row.ns3 else "-",
            f"{ours.max_rss_kib / 1024:.1f} MiB"
            + (f", {theirs.max_rss_kib / 1024:.1f} MiB" if theirs else ""),
            f"{(ours.max_rss_kib - row.base_kib) / row.flows:.1f} KiB",
            f"{1e3 * ours.setup_s:.1f} ms" + (f", {1e3 * theirs.setup_s:.0f} ms" if theirs else ""),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def compare(programs: dict[str, Path], scenarios: list[Path], runs: int) -> str:
    """Alternate two builds of lasthop on every case."""
    lines = [
        "| case | packet-hops | old (ns) | new (ns) | new / old | memory | new / old |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for scenario in scenarios:
        timings: dict[str, list[Timing]] = {name: [] for name in programs}
        for number in range(1, runs + 1):
            for name, program in programs.items():
                timings[name].append(time_lasthop(program, scenario, number))
            say(f"  {scenario.stem}, run {number}/{runs}")
        pairs = list(zip(timings["old"], timings["new"], strict=True))
        if any(old.packet_hops != new.packet_hops for old, new in pairs):
            say(f"  {scenario.stem}: the two builds do not do the same")
        whole = statistics.median(new.ns_per_hop / old.ns_per_hop for old, new in pairs)
        loop = statistics.median(new.loop_ns_per_hop / old.loop_ns_per_hop for old, new in pairs)
        old, new = median(timings["old"]), median(timings["new"])
        cells = [
            scenario.stem,
            f"{new.packet_hops:,}",
            f"{old.ns_per_hop:.1f} ({old.loop_ns_per_hop:.1f})",
            f"{new.ns_per_hop:.1f} ({new.loop_ns_per_hop:.1f})",
            f"{whole:.3f} ({loop:.3f})",
            f"{old.max_rss_kib / 1024:.1f} MiB, {new.max_rss_kib / 1024:.1f} MiB",
            f"{new.max_rss_kib / old.max_rss_kib:.2f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def instructions(programs: dict[str, Path], scenarios: list[Path]) -> str:
    """Count instructions per packet-hop in every case; start and set-up cancel out."""
    lines = [
        "| case | " + " | ".join(f"{name} (instructions per packet-hop)" for name in programs) + " |",
        "| --- |" + " ---: |" * len(programs),
    ]
    for scenario in scenarios:
        if scenario.stem not in COUNTED_S:
            say(f"  {scenario.stem}: left out, callgrind would take too long")
            continue
        cells = [scenario.stem]
        for program in programs.values():
            (hops, count), (more_hops, more) = (
                count_instructions(program, scenario, until) for until in COUNTED_S[scenario.stem]
            )
            cells.append(f"{(more - count) / (more_hops - hops):.1f}")
            say(f"  {scenario.stem}: {cells[-1]}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def count_instructions(program: Path, scenario: Path, duration_s: float) -> tuple[int, int]:
    """Packet-hops and instructions of a run of this many seconds."""
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder, "profile")
        callgrind = ["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={profile}"]
        setting = f"duration={duration_s:g} s"
        output, _ = process.run([*callgrind, str(program), str(scenario), "--seed", "1", "--set", setting])
        totals = next(line for line in profile.read_text().splitlines() if line.startswith("totals:"))
    return json.loads(output)["packet_hops"], int(totals.split()[1])


def senders_part(program: Path, runs: int, *, quick: bool = False) -> str:
    """Time every controller and every preset; return the part of the page that tells."""
    say("controllers, each alone")
    output, _ = process.run([str(program), "--controllers"])
    controllers = ["| controller | ns per ACK | |", "| --- | ---: | --- |"]
    for one in json.loads(output):
        nanos, name = one["ns_per_ack"], one["name"]
        remark = REASONS.get(name, "beyond the aim") if nanos > CONTROLLER_AIM else ""
        controllers.append(f"| {name} | {nanos:.1f} | {remark} |")
        say(f"  {name}: {nanos:.1f} ns per ACK")
    return SENDERS_INTRODUCTION.format(
        controllers="\n".join(controllers),
        presets=presets_table(program, runs, quick=quick),
        scenario=DUMBBELL.relative_to(ROOT),
        runs=runs,
        machine=machine(),
        date=dt.datetime.now(tz=dt.UTC).date().isoformat(),
        version=lasthop_version(),
    )


def presets_table(program: Path, runs: int, *, quick: bool = False) -> str:
    """One row for each preset and rate-based transport, timed in turn with Reno."""
    import lasthop

    names = [
        one["name"]
        for one in lasthop.transports()
        if one["kind"] in ("preset", "rate") and one["name"] != "udp"
    ]
    say(f"presets in {DUMBBELL.relative_to(ROOT)}")
    lines = [
        "| preset | packet-hops | ns per packet-hop | relative to reno |",
        "| --- | ---: | ---: | ---: |",
    ]
    settings = shortened("b", quick=quick)
    for name in names:
        pairs = [
            [
                time_lasthop(program, DUMBBELL, number, (f"flows.0.transport={one}", *settings))
                for one in (name, "reno")
            ]
            for number in range(1, runs + 1)
        ]
        own = median([pair[0] for pair in pairs])
        ratio = statistics.median(one.loop_ns_per_hop / reno.loop_ns_per_hop for one, reno in pairs)
        lines.append(f"| {name} | {own.packet_hops:,} | {own.loop_ns_per_hop:.1f} | {ratio:.2f} |")
        say(f"  {name}: {own.loop_ns_per_hop:.1f} ns per packet-hop, {ratio:.2f} times reno")
    return "\n".join(lines)


def parts() -> tuple[str, str]:
    """The page as it stands: the part on other simulators, and the part on senders."""
    page = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else ""
    first, heading, second = page.partition(SENDERS_HEADING)
    return first.rstrip("\n"), heading + second


def write(first: str, second: str) -> None:
    """Write the page."""
    RESULTS.write_text(
        "\n\n".join(part.strip("\n") for part in (first, second) if part) + "\n", encoding="utf-8"
    )
    say(f"wrote {RESULTS.relative_to(ROOT)}")


def machine() -> str:
    """Processor, cores and system."""
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return f"{model}, {os.cpu_count()} cores, {platform.system()} {platform.release()}"


def lasthop_version() -> str:
    """Version in the workspace's manifest, and the commit."""
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    version = str(manifest["workspace"]["package"]["version"])
    git = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(git, capture_output=True, text=True, check=False)
    return f"{version}, commit {done.stdout.strip()}" if done.returncode == 0 else version


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="bench/run.py", description="Time lasthop against other simulators."
    )
    parser.add_argument("--case", default=CASES, help="letters of the cases to run (default: all)")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"runs of each simulator (default: {RUNS})")
    parser.add_argument("--quick", action="store_true", help="run every part once and shortly; write nothing")
    parser.add_argument("--senders", action="store_true", help="time the senders alone, and write their part")
    parser.add_argument("--against", metavar="BINARY", type=Path, help="compare with an older lasthop-bench")
    parser.add_argument("--instructions", action="store_true", help="count instructions, with callgrind")
    arguments = parser.parse_args()
    if not set(arguments.case) & set(CASES) or arguments.runs < 1:
        parser.error("nothing to run")
    if arguments.quick:
        arguments.runs = 1
    return arguments


def main() -> int:
    """Run what was asked for."""
    arguments = parsed()
    try:
        if arguments.senders:
            part = senders_part(build_lasthop(), arguments.runs, quick=arguments.quick)
            print(part)
            if not arguments.quick:
                write(parts()[0], part)
        elif arguments.against or arguments.instructions:
            programs = {"old": arguments.against.resolve()} if arguments.against else {}
            programs["new"] = build_lasthop()
            if arguments.instructions:
                print(instructions(programs, scenarios_of(arguments.case)))
            else:
                print(compare(programs, scenarios_of(arguments.case), arguments.runs))
        else:
            rivals(arguments.case, arguments.runs, quick=arguments.quick)
    except (process.ProcessError, ns2.FailedError) as error:
        say(f"bench: {error}")
        return 2
    return 0


def scenarios_of(cases: str) -> list[Path]:
    """Return the scenarios of cases (a) to (e)."""
    return [path for path in sorted(SCENARIOS.glob("*.toml")) if path.name[0] in cases]


def rivals(cases: str, runs: int, *, quick: bool = False) -> None:
    """Run cases beside other simulators and print the tables; those of all cases are also written down."""
    versions = f"ns-2: {ns2.version()}; ns-3: {ns3.version()}"
    say(f"{machine()}; {versions}")
    program = build_lasthop()
    with tempfile.TemporaryDirectory() as folder:
        wanted = any(case in cases for case in TARGETS) and ns3.version() != "not installed"
        third = ns3.build(Path(folder)) if wanted else None
        rows = [run_case(program, third, path, runs, quick=quick) for path in scenarios_of(cases)]
    twins = twins_part(program, cases, runs, quick=quick) if set(cases) & set(TWINS) else ""
    cells = cells_part(program, runs, quick=quick) if "f" in cases else ""
    transfers = transfers_part(program, runs, quick=quick) if "p" in cases else ""
    stacks = stacks_part(runs, quick=quick) if "r" in cases else ""
    shown = (table(rows) if rows else "", twins, cells, transfers, stacks)
    print("\n".join(part for part in shown if part))
    if not set(cases) >= set(CASES):
        return
    if quick:
        print(senders_part(program, runs, quick=quick))
    elif runs >= RUNS:
        introduction = INTRODUCTION.format(
            command="make bench",
            runs=runs,
            ns3=NS3_DURATION_S,
            base=rows[0].base_kib / 1024,
            machine=machine(),
            date=dt.datetime.now(tz=dt.UTC).date().isoformat(),
            version=lasthop_version(),
            rivals=versions,
        )
        write(
            "\n".join((introduction, table(rows), twins, cells, transfers, stacks)),
            senders_part(program, runs),
        )


if __name__ == "__main__":
    sys.exit(main())
