"""Random runs of lasthop and ns-2 side by side: `python -m validation.statistics [--full] [--jobs N]`.

The wireless dumbbell of paper 004 without handoffs, for every sender, number of flows and packet error
rate. Each metric's means must agree: zero lies in the 95 % interval of their difference (Welch), or they
are within 2 % of each other. What differs is looked at again, with fresh seeds and without simultaneous
packets; for the real differences `exceptions.toml` names the cause. `--full` runs the whole grid and
writes `docs/reference/validation-ns2.md`; without it a few cases are run and printed.
"""

from __future__ import annotations

import argparse
import datetime as dt
import math
import os
import platform
import statistics
import sys
import textwrap
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from scipy import stats

from lasthop import _native
from validation import engine, ns2
from validation.network import SENDERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "validation-ns2.md"
EXCEPTIONS = Path(__file__).with_name("exceptions.toml")

FLOWS = (1, 10, 20, 40)
ERROR_RATES = (0.0, 0.01, 0.03, 0.05)
#: Seeds of lasthop and substreams of ns-2.
RUNS = range(1, 11)
SECOND_LOOK = range(11, 31)
CONFIDENCE = 0.95
SAME_MEAN = 0.02

#: Share of the comparisons with a processing time that must agree.
ENOUGH = 0.97

#: In the staggered grid the access delays of two pairs differ by this.
STAGGER_MS = 0.0137

CHANCE = "Within chance: it agrees in 20 fresh runs a side"
TIES = "It agrees in the staggered grid, so simultaneous packets are the likely cause"

#: Metric -> digits after the point in the table.
METRICS = {
    "goodput_mbit_s": 3,
    "jain_index": 3,
    "avg_queue_packets": 2,
    "retransmitted_packets": 1,
    "timeouts": 1,
}
HEADINGS = ("goodput (Mbit/s)", "Jain's index", "queue (packets)", "retransmitted", "timeouts")

Sample = dict[str, float]


@dataclass(frozen=True)
class Cell:
    """One point of the grid."""

    sender: str
    flows: int
    packet_error_rate: float
    staggered: bool = False
    #: Packets that the bottleneck has room for.
    buffer: int = 30
    #: Without a radio: ten times the rates, five times the buffer.
    wired: bool = False
    #: The application writes 20 kB every 0.4 s instead of without end.
    writes: bool = False
    #: Hosts take a random time for a packet, about a transmission time of the bottleneck.
    processing: bool = False

    @property
    def key(self) -> str:
        """How `exceptions.toml` names it."""
        kinds = [
            ", wired" if self.wired else "",
            f", buffer {self.buffer}" if self.buffer != Cell.buffer else "",
            ", writes" if self.writes else "",
            ", processing time" if self.processing else "",
        ]
        return f"{self.sender}, {self.flows} flows, PER {self.packet_error_rate:g}" + "".join(kinds)

    def scenario(self) -> dict[str, Any]:
        """The wireless dumbbell of paper 004 without handoffs; flows start within the first second."""
        scenario: dict[str, Any] = {
            "name": self.key,
            "duration": "60 s",
            "topology": {
                "kind": "dumbbell",
                "bottleneck": {
                    "rate": "10 Mbit/s",
                    "delay": "25 ms",
                    "queue": {"kind": "drop-tail", "limit": f"{self.buffer} packets"},
                },
                "access": {
                    "rate": "1 Mbit/s",
                    "delay": "10 ms",
                    "queue": {"kind": "drop-tail", "limit": "50 packets"},
                },
            },
            "tcp": {
                "profile": "ns2",
                "packet_size": "1000 B",
                "receiver_window": "64 packets",
                "initial_ssthresh": "64 packets",
            },
            "flows": [
                {"count": self.flows, "transport": self.sender, "start": {"uniform": ["0 s", "1 s"]}},
            ],
        }
        if self.packet_error_rate > 0.0:
            error = {"kind": "bernoulli", "packet_error_rate": self.packet_error_rate}
            scenario["channel"] = {"error": error}
        if self.wired:
            topology = scenario["topology"]
            topology["bottleneck"]["rate"] = "100 Mbit/s"
            topology["bottleneck"]["queue"]["limit"] = f"{5 * self.buffer} packets"
            topology["access"]["rate"] = "10 Mbit/s"
            scenario["duration"] = "30 s"
        if self.writes:
            scenario["flows"][0]["traffic"] = {"kind": "paced-ftp", "write": "20 kB", "interval": "0.4 s"}
        if self.processing:
            scenario["processing_time"] = "100 us" if self.wired else "1 ms"
        if self.staggered:
            self._stagger(scenario)
        return scenario

    def _stagger(self, scenario: dict[str, Any]) -> None:
        """The same network as a graph in which no two sources are equally far away."""
        topology, channel, flow = scenario["topology"], scenario.pop("channel", {}), scenario["flows"][0]
        pairs = range(1, self.flows + 1)
        links = [{"name": "bottleneck", "from": "left", "to": "right", **topology["bottleneck"]}]
        for n in pairs:
            source = {**topology["access"], "delay": f"{10 + n * STAGGER_MS:.4f} ms"}
            links.append({"name": f"source-access-{n}", "from": f"source-{n}", "to": "left", **source})
            sink = {**topology["access"], **channel}
            links.append({"name": f"sink-access-{n}", "from": "right", "to": f"sink-{n}", **sink})
        ends = [f"{end}-{n}" for n in pairs for end in ("source", "sink")]
        scenario["topology"] = {"kind": "graph", "nodes": ["left", "right", *ends], "links": links}
        one = {key: value for key, value in flow.items() if key != "count"}
        scenario["flows"] = [
            {**one, "name": f"flow-{n}", "source": f"source-{n}", "sink": f"sink-{n}"} for n in pairs
        ]


@dataclass(frozen=True)
class Comparison:
    """Means of one metric on both sides, and the interval of their difference (lasthop less ns-2)."""

    #: A cell of this grid or of another one: it has a `key`.
    cell: Any
    metric: str
    ours: float
    theirs: float
    low: float
    high: float

    @property
    def key(self) -> str:
        """Cell and metric."""
        return f"{self.cell.key}: {self.metric}"

    @property
    def agrees(self) -> bool:
        """Whether the difference is within chance, or too small to matter."""
        return self.low <= 0.0 <= self.high or self.relative <= SAME_MEAN

    @property
    def relative(self) -> float:
        """Difference of the means, relative to ns-2's."""
        if self.ours == self.theirs:
            return 0.0
        return abs(self.ours - self.theirs) / abs(self.theirs) if self.theirs else math.inf


def grid() -> list[Cell]:
    """Every cell, in the order of the table."""
    return [Cell(*values) for values in product(SENDERS, FLOWS, ERROR_RATES)]


def extension() -> list[Cell]:
    """Cells beside the grid, where hosts take a random time for a packet in both simulators."""
    cells: list[Cell] = []
    for sender in SENDERS:
        cells += [Cell(sender, flows, rate) for flows, rate in product((10, 20, 40), (0.0, 0.01))]
        cells += [Cell(sender, flows, 0.0, wired=True) for flows in (10, 40)]
        cells += [Cell(sender, 20, 0.01, buffer=buffer) for buffer in (20, 50, 80)]
        cells += [Cell(sender, 1, rate) for rate in (0.003, 0.01, 0.03, 0.1)]
        cells += [Cell(sender, flows, rate, writes=True) for flows, rate in ((10, 0.01), (40, 0.0))]
    return [replace(cell, processing=True) for cell in cells]


def compare(cell: Cell, runs: range = RUNS, confidence: float = CONFIDENCE) -> list[Comparison]:
    """Run a cell on both sides and compare every metric."""
    scenario = cell.scenario()
    plan = engine.plan(scenario)
    ours = [_ours(plan, seed) for seed in runs]
    theirs = [_theirs(scenario, substream) for substream in runs]
    return [compared(cell, metric, ours, theirs, confidence) for metric in METRICS]


def examine(cell: Cell) -> tuple[list[Comparison], list[Comparison], dict[str, str]]:
    """Compare a cell, plain and staggered, and look again at what differs: metric -> cause."""
    plain, staggered = compare(cell), compare(replace(cell, staggered=True))
    return plain, staggered, causes_of(plain, staggered)


def causes_of(plain: list[Comparison], staggered: Sequence[Comparison] = ()) -> dict[str, str]:
    """Look again at what differs in a cell: metric -> cause, if one is found."""
    causes: dict[str, str] = {}
    differing = {one.metric for one in plain if not one.agrees}
    if differing:
        for cause, again in ((TIES, staggered), (CHANCE, compare(plain[0].cell, SECOND_LOOK))):
            for one in again:
                if one.metric in differing and one.agrees:
                    digits = METRICS[one.metric]
                    causes[one.metric] = f"{cause} ({one.ours:.{digits}f} and {one.theirs:.{digits}f})."
    return causes


def _ours(plan: _native.Plan, seed: int) -> Sample:
    run = engine.count_totals(plan, seed)
    totals = run["totals"]
    bottleneck = next(link for link in run["links"] if link["name"] == "bottleneck")
    return {
        "goodput_mbit_s": totals["goodput_bit_s"] / 1e6,
        "jain_index": totals["jain_index"],
        "avg_queue_packets": bottleneck["avg_queue_packets"],
        "retransmitted_packets": totals["retransmitted_packets"],
        "timeouts": totals["timeouts"],
    }


def _theirs(scenario: dict[str, Any], substream: int) -> Sample:
    totals = ns2.count_totals(scenario, substream)
    rates = totals.flows["goodput_bit_s"].to_list()
    squares = sum(rate * rate for rate in rates)
    bottleneck = totals.links.filter(pl.col("link") == "bottleneck")
    return {
        "goodput_mbit_s": sum(rates) / 1e6,
        "jain_index": sum(rates) ** 2 / (len(rates) * squares) if squares else 1.0,
        "avg_queue_packets": bottleneck["avg_queue_packets"].item(),
        "retransmitted_packets": float(totals.flows["retransmitted_packets"].sum()),
        "timeouts": float(totals.flows["timeouts"].sum()),
    }


def compared(
    cell: Any, metric: str, ours: list[Sample], theirs: list[Sample], confidence: float
) -> Comparison:
    """Welch's interval: the two sides may vary differently."""
    left, right = ([sample[metric] for sample in samples] for samples in (ours, theirs))
    means = statistics.fmean(left), statistics.fmean(right)
    parts = [statistics.variance(values) / len(values) for values in (left, right)]
    difference = means[0] - means[1]
    error = math.sqrt(sum(parts))
    if error == 0.0:
        return Comparison(cell, metric, *means, difference, difference)
    terms = (part * part / (len(values) - 1) for part, values in zip(parts, (left, right), strict=True))
    freedom = sum(parts) ** 2 / sum(terms)
    half = float(stats.t.ppf((1.0 + confidence) / 2.0, freedom)) * error
    return Comparison(cell, metric, *means, difference - half, difference + half)


def exceptions() -> dict[str, str]:
    """Cell and metric -> cause, for the real differences."""
    entries = tomllib.loads(EXCEPTIONS.read_text(encoding="utf-8")).get("exception", [])
    return {
        f"{cell}: {metric}": entry["cause"]
        for entry in entries
        for cell in entry.get("cells", _cells_of(entry))
        for metric in entry.get("metrics", METRICS)
    }


def _cells_of(entry: Mapping[str, Any]) -> list[str]:
    """The cells of the grid that an exception is about."""
    senders, flows = entry.get("senders", SENDERS), entry.get("flows", FLOWS)
    rates = entry.get("packet_error_rates", ERROR_RATES)
    return [Cell(*values).key for values in product(senders, flows, rates)]


def unexplained(comparisons: Iterable[Comparison], causes: Mapping[str, str]) -> list[Comparison]:
    """What differs without a cause."""
    return [one for one in comparisons if not one.agrees and one.key not in causes]


def describe(one: Comparison) -> str:
    """One line about one comparison."""
    digits = METRICS[one.metric]
    return (
        f"{one.key} lasthop {one.ours:.{digits}f}, ns-2 {one.theirs:.{digits}f}, "
        f"difference {one.low:+.{digits}f} to {one.high:+.{digits}f} ({100 * one.relative:.1f} %)"
    )


INTRODUCTION = """# Statistical agreement with ns-2

Generated by `{command}`; do not edit.

The dumbbell of paper 004: bottleneck 10 Mbit/s, 25 ms, 30 packets; access 1 Mbit/s, 10 ms, 50
packets; window of 64 packets of 1000 B; losses on the sink access links in both directions; no
handoffs. {runs} runs of 60 s a side, every sender in the `ns2` profile.

Each entry is lasthop's mean / ns-2's mean. **Bold**: zero is outside the 95 % interval of the
difference (Welch), and the means are more than 2 % apart. Without any real difference up to one
comparison in twenty would be outside by chance.

All delays of this dumbbell are equal, so packets of several flows reach the bottleneck in the same
instant, and the order of such events decides which flow meets the full buffer: in ns-2 the last bits of
floating-point sums, in lasthop an unbiased hash (decision 0013). Therefore every cell also runs in a
staggered grid, where the delays of the source links differ by multiples of 13.7 us and nothing else
changes. Cells that differ with equal delays also run again, 20 times a side with fresh seeds. The list
at the end has the results.

- lasthop {version}, {rival}
- Python {python}, {machine}
- {date}
- {count} comparisons each: {differing} outside with equal delays, {staggered} in the staggered grid
"""


def extended_section(comparisons: list[Comparison], causes: Mapping[str, str]) -> list[str]:
    """What agrees where hosts take a random time, and what does not."""
    agreeing = sum(one.agrees for one in comparisons)
    lines = ["", "## With processing time", ""]
    lines += textwrap.wrap(
        "Hosts of senders take a random time of up to one transmission time of the bottleneck for a "
        "packet, in lasthop by `processing_time` and in ns-2 by `overhead_`: no packets of different flows "
        "meet in one instant. "
        "Dumbbells wireless and wired, buffers of 20 to 80 packets, single flows over error rates up to 0.1, "
        "and "
        f"writes of 20 kB every 0.4 s. {agreeing} of {len(comparisons)} comparisons agree "
        f"({agreeing / len(comparisons):.1%}; {ENOUGH:.0%} are asked for).",
        100,
    )
    lines += ["", "| cell | " + " | ".join(HEADINGS) + " |", "| --- " + "| ---: " * len(HEADINGS) + "|"]
    for cell in dict.fromkeys(one.cell for one in comparisons):
        entries = [_entry(one) for one in comparisons if one.cell == cell]
        lines += [f"| {cell.key.removesuffix(', processing time')} | " + " | ".join(entries) + " |"]
    lines += ["", "## Exceptions with processing time", ""]
    outside = [item(f"{describe(one)}. {cause_of(one, causes)}") for one in comparisons if not one.agrees]
    return lines + ([line for item in outside for line in item] or ["None."])


def page(
    comparisons: list[Comparison],
    staggered: list[Comparison],
    extended: list[Comparison],
    causes: Mapping[str, str],
    command: str,
) -> str:
    """Write the generated reference page."""
    differing = [one for one in comparisons if not one.agrees]
    introduction = INTRODUCTION.format(
        command=command,
        runs=len(RUNS),
        version=_native.__version__,
        rival=ns2.version(),
        python=platform.python_version(),
        machine=f"{platform.system()} {platform.machine()}",
        date=dt.datetime.now(tz=dt.UTC).date().isoformat(),
        count=len(comparisons),
        differing=len(differing),
        staggered=sum(not one.agrees for one in staggered),
    )
    lines = [*introduction.splitlines(), ""]
    for sender in SENDERS:
        lines += [f"## {sender}", "", "| flows | PER | " + " | ".join(HEADINGS) + " |", "| ---: " * 7 + "|"]
        lines += [*_rows(comparisons, sender), ""]
    lines += ["## Exceptions", ""]
    for one in differing:
        lines += item(f"{describe(one)}. {cause_of(one, causes)}")
    if not differing:
        lines.append("None.")
    lines += ["", "## Exceptions in the staggered grid", ""]
    outside = [line for one in staggered if not one.agrees for line in item(f"{describe(one)}.")]
    lines += outside or ["None."]
    lines += extended_section(extended, causes)
    return "\n".join(lines) + "\n"


def cause_of(one: Comparison, causes: Mapping[str, str]) -> str:
    """Why a comparison differs, if that is known."""
    return causes.get(one.key, "No cause on record.")


def item(text: str) -> list[str]:
    """A list item of the page, wrapped."""
    return textwrap.wrap(text, 100, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)


def _rows(comparisons: list[Comparison], sender: str) -> Iterator[str]:
    cells = {one.cell: None for one in comparisons if one.cell.sender == sender}
    for cell in cells:
        entries = [str(cell.flows), f"{cell.packet_error_rate:g}"]
        entries += [_entry(one) for one in comparisons if one.cell == cell]
        yield "| " + " | ".join(entries) + " |"


def _entry(one: Comparison) -> str:
    digits = METRICS[one.metric]
    text = f"{one.ours:.{digits}f} / {one.theirs:.{digits}f}"
    return text if one.agrees else f"**{text}**"


def run_extension(cells: list[Cell], jobs: int) -> tuple[list[Comparison], dict[str, str]]:
    """Compare the cells of the extension, `jobs` at a time, with a line of progress for each."""
    comparisons: list[Comparison] = []
    causes: dict[str, str] = {}

    def looked_at(cell: Cell) -> tuple[list[Comparison], dict[str, str]]:
        found = compare(cell)
        return found, causes_of(found)

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        for number, (found, why) in enumerate(pool.map(looked_at, cells), start=1):
            comparisons += found
            causes |= {f"{found[0].cell.key}: {metric}": cause for metric, cause in why.items()}
            outside = [one.metric for one in found if not one.agrees]
            verdict = "agrees" if not outside else "differs in " + ", ".join(outside)
            print(f"[{number}/{len(cells)}] {found[0].cell.key}: {verdict}", file=sys.stderr, flush=True)
    return comparisons, causes


def run_cells(cells: list[Cell], jobs: int) -> tuple[list[Comparison], list[Comparison], dict[str, str]]:
    """Examine the cells, `jobs` at a time, with a line of progress for each, in the order of `cells`."""
    plain: list[Comparison] = []
    staggered: list[Comparison] = []
    causes: dict[str, str] = {}
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        for number, (comparisons, others, found) in enumerate(pool.map(examine, cells), start=1):
            plain += comparisons
            staggered += others
            cell = comparisons[0].cell
            causes.update({f"{cell.key}: {metric}": cause for metric, cause in found.items()})
            outside = [one.metric for one in comparisons if not one.agrees]
            verdict = "agrees" if not outside else "differs in " + ", ".join(outside)
            print(f"[{number}/{len(cells)}] {cell.key}: {verdict}", file=sys.stderr, flush=True)
    return plain, staggered, causes | exceptions()


def main() -> int:
    """Entry point; 1 if something differs without a cause on record."""
    parser = argparse.ArgumentParser(prog="python -m validation.statistics", description="Compare with ns-2.")
    parser.add_argument("--full", action="store_true", help="run the whole grid and write the reference page")
    parser.add_argument("--extension", action="store_true", help="run the cells with processing time alone")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="cells at a time (default: cores)"
    )
    arguments = parser.parse_args()
    cells = grid() if arguments.full else [Cell(sender, 10, 0.01) for sender in SENDERS]
    try:
        wanted = extension() if arguments.full or arguments.extension else []
        extended, found = run_extension(wanted, arguments.jobs)
        if arguments.extension:
            print("\n".join(extended_section(extended, found | exceptions())))
            return 0 if sum(one.agrees for one in extended) >= ENOUGH * len(extended) else 1
        comparisons, staggered, causes = run_cells(cells, arguments.jobs)
        causes = found | causes
    except ns2.FailedError as error:
        print(error, file=sys.stderr)
        return 2
    if arguments.full:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(
            page(comparisons, staggered, extended, causes, "python -m validation.statistics --full"),
            encoding="utf-8",
        )
        print(f"wrote {PAGE.relative_to(ROOT)}")
    else:
        for one in comparisons:
            print(("   " if one.agrees else "!! ") + describe(one))
    missing = unexplained(comparisons, causes)
    for one in missing:
        print(f"no cause on record: {describe(one)}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
