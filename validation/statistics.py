"""Random runs of lasthop and ns-2 side by side: `python -m validation.statistics [--full] [--jobs N]`.

The wireless dumbbell of paper 004 without handoffs, for every sender, number of flows and packet error
rate. Each metric's means must agree: zero lies in the 95 % interval of their difference (Welch), or they
are within 2 % of each other. `--full` runs the whole grid and writes `docs/reference/validation-ns2.md`;
without it a few cases are run and printed. What is known to differ is named, with its cause, in
`exceptions.toml`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import math
import os
import platform
import statistics
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from scipy import stats

from lasthop import _native
from validation import engine, ns2
from validation.network import SENDERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "validation-ns2.md"
EXCEPTIONS = Path(__file__).with_name("exceptions.toml")

FLOWS = (1, 10, 20, 40)
ERROR_RATES = (0.0, 0.01, 0.03, 0.05)
RUNS = 10
CONFIDENCE = 0.95
SAME_MEAN = 0.02

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

    @property
    def key(self) -> str:
        """How `exceptions.toml` names it."""
        return f"{self.sender}, {self.flows} flows, PER {self.packet_error_rate:g}"

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
                    "queue": {"kind": "drop-tail", "limit": "30 packets"},
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
        return scenario


@dataclass(frozen=True)
class Comparison:
    """Means of one metric on both sides, and the interval of their difference (lasthop less ns-2)."""

    cell: Cell
    metric: str
    ours: float
    theirs: float
    low: float
    high: float

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


def compare(cell: Cell, runs: int = RUNS) -> list[Comparison]:
    """Run a cell on both sides and compare every metric."""
    scenario = cell.scenario()
    plan = engine.plan(scenario)
    ours = [_ours(plan, seed) for seed in range(1, runs + 1)]
    theirs = [_theirs(scenario, substream) for substream in range(1, runs + 1)]
    return [_compared(cell, metric, ours, theirs) for metric in METRICS]


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


def _compared(cell: Cell, metric: str, ours: list[Sample], theirs: list[Sample]) -> Comparison:
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
    half = float(stats.t.ppf((1.0 + CONFIDENCE) / 2.0, freedom)) * error
    return Comparison(cell, metric, *means, difference - half, difference + half)


def exceptions() -> dict[str, str]:
    """Cell and metric -> cause, for what is known to differ."""
    entries = tomllib.loads(EXCEPTIONS.read_text(encoding="utf-8")).get("exception", [])
    return {
        f"{sender}, {flows} flows, PER {rate:g}: {metric}": entry["cause"]
        for entry in entries
        for sender in entry.get("senders", SENDERS)
        for flows in entry.get("flows", FLOWS)
        for rate in entry.get("packet_error_rates", ERROR_RATES)
        for metric in entry.get("metrics", METRICS)
    }


def unexplained(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """What differs without a cause on record."""
    known = exceptions()
    return [one for one in comparisons if not one.agrees and f"{one.cell.key}: {one.metric}" not in known]


def describe(one: Comparison) -> str:
    """One line about one comparison."""
    digits = METRICS[one.metric]
    return (
        f"{one.cell.key}: {one.metric} lasthop {one.ours:.{digits}f}, ns-2 {one.theirs:.{digits}f}, "
        f"difference {one.low:+.{digits}f} to {one.high:+.{digits}f} ({100 * one.relative:.1f} %)"
    )


INTRODUCTION = """# Statistical agreement with ns-2

Generated by `{command}`; do not edit.

The dumbbell of paper 004: bottleneck 10 Mbit/s, 25 ms, 30 packets; access 1 Mbit/s, 10 ms, 50
packets; window of 64 packets of 1000 B; losses on the sink access links in both directions; no
handoffs. {runs} runs of 60 s a side, every sender in the `ns2` profile.

Each entry is lasthop's mean / ns-2's mean. **Bold**: zero is outside the 95 % interval of the
difference (Welch), and the means are more than 2 % apart; the list at the end gives the causes.

- lasthop {version}, {rival}
- Python {python}, {machine}
- {date}
- {count} comparisons, {differing} outside the bounds
"""


def page(comparisons: list[Comparison], command: str) -> str:
    """Write the generated reference page."""
    differing = [one for one in comparisons if not one.agrees]
    introduction = INTRODUCTION.format(
        command=command,
        runs=RUNS,
        version=_native.__version__,
        rival=ns2.version(),
        python=platform.python_version(),
        machine=f"{platform.system()} {platform.machine()}",
        date=dt.datetime.now(tz=dt.UTC).date().isoformat(),
        count=len(comparisons),
        differing=len(differing),
    )
    lines = [*introduction.splitlines(), ""]
    for sender in SENDERS:
        lines += [f"## {sender}", "", "| flows | PER | " + " | ".join(HEADINGS) + " |", "| ---: " * 7 + "|"]
        lines += [*_rows(comparisons, sender), ""]
    lines += ["## Exceptions", ""]
    known = exceptions()
    for one in differing:
        cause = known.get(f"{one.cell.key}: {one.metric}", "No cause on record.")
        lines.append(f"- {describe(one)}. {cause}")
    if not differing:
        lines.append("None.")
    return "\n".join(lines) + "\n"


def _rows(comparisons: list[Comparison], sender: str) -> Iterator[str]:
    cells = {one.cell: None for one in comparisons if one.cell.sender == sender}
    for cell in cells:
        entries = [str(cell.flows), f"{cell.packet_error_rate:g}"]
        for one in comparisons:
            if one.cell == cell:
                digits = METRICS[one.metric]
                text = f"{one.ours:.{digits}f} / {one.theirs:.{digits}f}"
                entries.append(text if one.agrees else f"**{text}**")
        yield "| " + " | ".join(entries) + " |"


def run_cells(cells: list[Cell], jobs: int, runs: int = RUNS) -> list[Comparison]:
    """Run the cells, `jobs` at a time, with a line of progress for each; the order stays that of `cells`."""
    done: list[Comparison] = []
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        results = pool.map(lambda cell: compare(cell, runs), cells)
        for number, result in enumerate(results, start=1):
            done += result
            outside = [one.metric for one in result if not one.agrees]
            verdict = "agrees" if not outside else "differs in " + ", ".join(outside)
            print(f"[{number}/{len(cells)}] {result[0].cell.key}: {verdict}", file=sys.stderr, flush=True)
    return done


def main() -> int:
    """Entry point; 1 if something differs without a cause on record."""
    parser = argparse.ArgumentParser(prog="python -m validation.statistics", description="Compare with ns-2.")
    parser.add_argument("--full", action="store_true", help="run the whole grid and write the reference page")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="cells at a time (default: cores)"
    )
    arguments = parser.parse_args()
    cells = grid() if arguments.full else [Cell(sender, 10, 0.01) for sender in SENDERS]
    try:
        comparisons = run_cells(cells, arguments.jobs)
    except ns2.FailedError as error:
        print(error, file=sys.stderr)
        return 2
    if arguments.full:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(page(comparisons, "python -m validation.statistics --full"), encoding="utf-8")
        print(f"wrote {PAGE.relative_to(ROOT)}")
    else:
        for one in comparisons:
            print(("   " if one.agrees else "!! ") + describe(one))
    missing = unexplained(comparisons)
    for one in missing:
        print(f"no cause on record: {describe(one)}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
