"""RED in lasthop and ns-2 side by side: `python -m validation.red [--full] [--jobs N]`.

A bottleneck with RED, its parameters the classic ones or those that ns-2 derives, with and without ECN, for
20 and 40 flows of each sender; and the wired part of the network of paper 001, whose two links of 1 Mbit/s
have RED. Each metric's means must agree: zero lies in the 95 % interval of their difference (Welch), or they
are within 3 % of each other. `--full` runs all of it and writes `docs/reference/validation-red.md`; without
it a few cases are run and printed. Called by `make validate`; the differential tests run cells of it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import polars as pl

from validation import engine, ns2, statistics
from validation.side_by_side import Column, SideBySide, describe
from validation.statistics import CONFIDENCE, STAGGER_MS, Comparison, Sample

if TYPE_CHECKING:
    from lasthop import _native

SENDERS = ("reno", "newreno", "sack", "vegas")
FLOWS = (20, 40)
RUNS = range(1, 6)
SECOND_LOOK = range(11, 31)

SIDES = SideBySide(
    "red",
    "Compare RED with ns-2.",
    {
        "goodput_mbit_s": Column("goodput (Mbit/s)", 3, 0.03),
        "avg_queue_packets": Column("queue (packets)", 2, 0.03),
        "drops": Column("drops", 0, 0.03),
        "marks": Column("marks", 0, 0.03),
    },
)

CLASSIC = {"measure": "packets", "min_th": "5 packets", "max_th": "15 packets", "w_q": 0.002}


@dataclass(frozen=True)
class Cell:
    """One comparison."""

    sender: str
    flows: int
    automatic: bool
    ecn: bool
    #: The wired part of the network of paper 001 in place of the dumbbell.
    paper_001: bool = False

    @property
    def key(self) -> str:
        """What the page calls it."""
        values = "automatic" if self.automatic else "classic"
        return f"{self.sender}, {self.flows} flows, {values}{', ECN' if self.ecn else ''}"

    def scenario(self) -> dict[str, Any]:
        """Flows that start within the first second; no two sources are equally far away."""
        red: dict[str, Any] = {"kind": "red", "profile": "ns2", "limit": "60 packets", "ecn": self.ecn}
        if not self.automatic:
            red |= CLASSIC
        middle = ["left", "right"]
        links = [{"rate": "10 Mbit/s", "delay": "25 ms", "queue": red}]
        if self.paper_001:
            slow = {"rate": "1 Mbit/s", "delay": "1 ms", "queue": red | {"limit": "50 packets"}}
            middle = ["left", "lan-1", "lan-2", "right"]
            links = [slow, {"rate": "10 Mbit/s", "delay": "1 ms"}, slow]
        hops = [{"from": a, "to": b, **link} for a, b, link in zip(middle, middle[1:], links, strict=False)]
        access = {"rate": "10 Mbit/s", "queue": {"kind": "drop-tail", "limit": "100 packets"}}
        pairs = range(1, self.flows + 1)
        for n in pairs:
            near = f"{10 + n * STAGGER_MS:.4f} ms"
            hops.append({"from": f"source-{n}", "to": "left", "delay": near, **access})
            hops.append({"from": "right", "to": f"sink-{n}", "delay": "10 ms", **access})
        window = "20 packets" if self.paper_001 else "64 packets"
        ends = [f"{end}-{n}" for n in pairs for end in ("source", "sink")]
        return {
            "name": self.key,
            "duration": "20 s",
            "processing_time": "1 ms",
            "topology": {"kind": "graph", "nodes": [*middle, *ends], "links": hops},
            "tcp": {"profile": "ns2", "receiver_window": window, "initial_ssthresh": window},
            "flows": [
                {
                    "name": f"flow-{n}",
                    "source": f"source-{n}",
                    "sink": f"sink-{n}",
                    "transport": {"preset": self.sender, "ecn": self.ecn},
                    "start": {"uniform": ["0 s", "1 s"]},
                }
                for n in pairs
            ],
        }

    @property
    def first_link(self) -> str:
        """The link whose queue is compared."""
        return "left-lan-1" if self.paper_001 else "left-right"


def grid() -> list[Cell]:
    """Every cell. ns-2's Vegas never sends packets that can be marked, so its ECN is left out."""
    ways = [(sender, ecn) for sender in SENDERS for ecn in (False, True) if not (sender == "vegas" and ecn)]
    cells = [
        Cell(sender, flows, automatic, ecn)
        for (sender, ecn), flows, automatic in product(ways, FLOWS, (False, True))
    ]
    return cells + [Cell(sender, 6, automatic=True, ecn=ecn, paper_001=True) for sender, ecn in ways]


def compare(cell: Cell, runs: range = RUNS, confidence: float = CONFIDENCE) -> list[Comparison]:
    """Run a cell on both sides and compare every metric."""
    scenario = cell.scenario()
    plan = engine.plan(scenario)
    ours = [_ours(plan, cell, seed) for seed in runs]
    theirs = [_theirs(scenario, cell, substream) for substream in runs]
    return [statistics.compared(cell, metric, ours, theirs, confidence) for metric in SIDES.columns]


def _ours(plan: _native.Plan, cell: Cell, seed: int) -> Sample:
    run = engine.count_totals(plan, seed)
    link = next(link for link in run["links"] if link["name"] == cell.first_link)
    return {
        "goodput_mbit_s": run["totals"]["goodput_bit_s"] / 1e6,
        "avg_queue_packets": link["avg_queue_packets"],
        "drops": float(sum(link["drops"].values())),
        "marks": float(link["marks"]),
    }


def _theirs(scenario: dict[str, Any], cell: Cell, substream: int) -> Sample:
    totals = ns2.count_totals(scenario, substream)
    link = totals.links.filter(pl.col("link") == cell.first_link)
    return {
        "goodput_mbit_s": totals.flows["goodput_bit_s"].sum() / 1e6,
        "avg_queue_packets": link["avg_queue_packets"].item(),
        "drops": float(link["drops"].item()),
        "marks": float(link["marks"].item()),
    }


INTRODUCTION = """# RED against ns-2

Generated by `python -m validation.red --full`; do not edit.

A bottleneck of 10 Mbit/s and 25 ms with RED for 60 packets; access 10 Mbit/s, 10 ms and a little more for
each further source; hosts take a random time of up to 1 ms, so that packets do not arrive in the instant in
which others leave, as those of a sender in slow start do otherwise; window of 64 packets of 1000 B; flows
start in the first second; {runs} runs of 20 s a side, senders and RED in the profile `ns2`. Classic:
`min_th` 5, `max_th` 15, `w_q` 0.002, in packets. Automatic: what ns-2 derives from the link, in bytes; 60
packets then are 30 kB. Marks and drops are those of the bottleneck. ns-2's Vegas never sends packets that
can be marked.

Each entry is lasthop's mean / ns-2's mean. **Bold**: zero is outside the 95 % interval of the difference
(Welch), and the means are more than 3 % apart. Without any real difference up to one comparison in twenty
would be outside.

That the average itself is the same, the differential tests show: with parameters that leave nothing to
chance, every packet of a connection has the same fate at the same time, through its pauses too.

- lasthop {version}, {rival}
- {date}
- {count} comparisons, {differing} outside
"""

PAPER_001 = """## The wired part of paper 001

Six flows with windows of 20 packets over two links of 1 Mbit/s and 1 ms with RED and automatic values,
between them a LAN of 10 Mbit/s and 1 ms as a link; without the radio, so that the first RED queue is the
bottleneck, which it never is behind the radio of the paper. Marks and drops are those of the first queue.
"""


def again(one: Comparison) -> str:
    """What comes of a comparison that differs, with fresh seeds."""
    fresh = next(other for other in compare(one.cell, SECOND_LOOK) if other.metric == one.metric)
    verdict = "agrees" if SIDES.agrees(fresh) else "still differs"
    means, runs = SIDES.means(fresh, " and "), len(SECOND_LOOK)
    return f"{describe(one)}. It {verdict} in {runs} fresh runs a side ({means})."


def page(comparisons: list[Comparison]) -> str:
    """The reference page."""
    introduction = INTRODUCTION.format(runs=len(RUNS), **SIDES.facts(comparisons))
    lines = [*introduction.splitlines(), ""]
    lines += SIDES.table([one for one in comparisons if not one.cell.paper_001])
    lines += ["", *PAPER_001.splitlines(), ""]
    lines += SIDES.table([one for one in comparisons if one.cell.paper_001])
    lines += ["", "## Exceptions", ""]
    outside = [line for one in SIDES.outside(comparisons) for line in statistics.item(again(one))]
    lines += outside or ["None."]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Entry point; 1 if more comparisons differ than chance explains."""
    few = [Cell("newreno", 20, automatic, ecn=True) for automatic in (False, True)]
    return SIDES.main(grid(), few, compare, page)


if __name__ == "__main__":
    sys.exit(main())
