"""CUBIC against Prague over a last hop that comes in bursts: `python -m validation.bursts [--seeds N]`.

One flow of each, both with RACK-TLP and ECN, over the same queue; the last hop sends smoothly, in batches,
with pauses, or is a Wi-Fi cell with a busy neighbour. The command stores the runs in
`docs/reference/l4s-bursts.parquet` and writes `docs/reference/l4s-bursts.md` from them.
"""

from __future__ import annotations

import tempfile
from dataclasses import astuple, dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

import lasthop as lh
from validation.media import items, wrap
from validation.today import asked, column, keep, run_all
from validation.today_page import cell

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "docs" / "reference" / "l4s-bursts.parquet"
PAGE = DATA.with_suffix(".md")

SEEDS = 5
SECONDS, WARMUP = 120, 60
RATES_MBIT = (20, 50)
RTTS_MS = (10, 20, 50, 100)
PACKET_BITS = 12_000
BATCHES_MS = (1, 5, 10, 20)

#: The one of `QUEUES` whose marks come back by their number.
COUNTED = "DualPI2, marks counted"

QUEUES: dict[str, Any] = {
    "DualPI2": "dual-pi2",
    COUNTED: "dual-pi2",
    "FQ-CoDel, 1 ms for ECT(1)": {"kind": "fq-codel", "ce_threshold": "1 ms", "ce_threshold_for": "ect1"},
    "PIE": {"kind": "pie", "ecn": True},
}


def batches(every_ms: int, rate_mbit: int) -> str:
    """Return the opportunities of Mahimahi, a line each: all of a batch in the same millisecond."""
    lines, sent = [], 0
    for number in range(1, 4):
        at = every_ms * number
        due = rate_mbit * 1000 * at // PACKET_BITS
        lines += [str(at)] * (due - sent)
        sent = due
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Case:
    """What is run: queue, last hop, its rate in Mbit/s (0: a cell has its own), and base RTT in ms."""

    queue: str
    hop: str
    rate_mbit: int
    rtt_ms: int


def _smooth(case: Case, _: Path) -> dict[str, Any]:
    return {"rate": f"{case.rate_mbit} Mbit/s"}


def _batches(every_ms: int) -> Callable[[Case, Path], dict[str, Any]]:
    def link(case: Case, folder: Path) -> dict[str, Any]:
        (folder / "batches").write_text(batches(every_ms, case.rate_mbit), encoding="utf-8")
        return {"trace": {"kind": "mahimahi", "file": "batches"}}

    return link


def _pauses(case: Case, _: Path) -> dict[str, Any]:
    times = [f"{at} s" for at in range(15, SECONDS, 15)]
    return {
        "rate": f"{case.rate_mbit} Mbit/s",
        "handoff": {"outage": "100 ms", "at": times, "policy": "hold"},
    }


#: The last hop that is a cell, and what is said of its neighbour.
CELL = "Wi-Fi, a busy neighbour"

#: Last hops that are a link.
LINKS: dict[str, Callable[[Case, Path], dict[str, Any]]] = {
    "smooth": _smooth,
    **{f"batches every {every} ms": _batches(every) for every in BATCHES_MS},
    "pauses of 100 ms": _pauses,
}


def cases() -> list[Case]:
    """Return everything that is run."""
    of_links = [Case(*values) for values in product(QUEUES, LINKS, RATES_MBIT, RTTS_MS)]
    return of_links + [Case(queue, CELL, 0, rtt) for queue, rtt in product(QUEUES, RTTS_MS)]


def _topology(case: Case, folder: Path) -> dict[str, Any]:
    """Return a wire and the last hop; half of the RTT each, but for a cell, which adds none."""
    is_cell = case.hop == CELL
    delay = f"{case.rtt_ms * (500 if is_cell else 250)} us"
    wire = {"from": "server", "to": "edge", "rate": "1 Gbit/s", "delay": delay, "queue": "unlimited"}
    queue = {"queue": QUEUES[case.queue]}
    if not is_cell:
        reverse = {"rate": "100 Mbit/s", "queue": "unlimited", "handoff": "none"}
        last = {"from": "edge", "to": "host", "delay": delay, "reverse": reverse}
        links = [wire, last | queue | LINKS[case.hop](case, folder)]
        return {"kind": "graph", "nodes": ["server", "edge", "host"], "links": links}
    stations = [{"node": "host", "position": [4, 0]}, {"node": "neighbour", "position": [0, 5]}]
    radio = {"phy": "802.11n", "width": 20, "streams": 1, "mcs": 7}
    aggregation = {"aggregation": {"ppdu": "4 ms", "mpdus": 32}}
    place = {"access_point": "edge", "position": [0, 0], "stations": stations}
    nodes = ["server", "edge", "host", "neighbour"]
    return {"kind": "graph", "nodes": nodes, "links": [wire], "cells": [place | radio | aggregation | queue]}


def content(case: Case, folder: Path) -> dict[str, Any]:
    """Return the scenario; files that it names are written into `folder`."""
    flow = {"source": "server", "sink": "host", "start": {"uniform": ["0 s", "1 s"]}}
    counted = {"accurate_ecn": True} if case.queue == COUNTED else {}
    cubic = {"cc": "cubic", "recovery": "rack", "tlp": True, "ecn": True, **counted}
    flows = [
        {"name": "cubic", "transport": cubic, **flow},
        {"name": "prague", "transport": {"preset": "prague", **counted}, **flow},
    ]
    if case.hop == CELL:
        load = {"kind": "cbr", "rate": "60 Mbit/s", "packet": "1400 B"}
        ends = {"source": "neighbour", "sink": "server"}
        flows.append({"name": "neighbour", "transport": "udp", "traffic": load, **ends})
    return {
        "name": f"{case.queue}, {case.hop}"[:100],
        "duration": f"{SECONDS} s",
        "warmup": f"{WARMUP} s",
        "tcp": {"profile": "linux", "receiver_window": "3000 packets"},
        "topology": _topology(case, folder),
        "flows": flows,
    }


def _ratio(run: lh.Run) -> float | None:
    prague, cubic = (column(name, "goodput_bit_s", 1.0)(run) for name in ("prague", "cubic"))
    return None if not prague or not cubic else prague / cubic


def _together(run: lh.Run) -> float | None:
    both = [column(name, "goodput_bit_s", 1e-6)(run) for name in ("prague", "cubic")]
    return None if None in both else sum(one for one in both if one is not None)


def _waits(flow: str, quantile: str) -> Callable[[lh.Run], float | None]:
    return column(flow, f"delay_{quantile}_s", 1e3)


#: Heading of what is taken from a run. Delays are less the least that the path has: half of the base RTT.
MEASURES: dict[str, Callable[[lh.Run], float | None]] = {
    "goodput of Prague over that of CUBIC": _ratio,
    "goodput of both (Mbit/s)": _together,
    "wait of Prague, 50 % (ms)": _waits("prague", "p50"),
    "wait of Prague, 99 % (ms)": _waits("prague", "p99"),
    "wait of CUBIC, 50 % (ms)": _waits("cubic", "p50"),
    "wait of CUBIC, 99 % (ms)": _waits("cubic", "p99"),
}
#: What the page shows; the rest is in the rows.
SHOWN = tuple(name for name in MEASURES if "50 %" not in name)

SCHEMA: dict[str, Any] = {
    "queue": pl.String,
    "hop": pl.String,
    "rate_mbit": pl.Int32,
    "rtt_ms": pl.Int32,
    "measure": pl.String,
    "seed": pl.Int32,
    "value": pl.Float64,
}


def rows(task: tuple[Case, int]) -> list[tuple[Any, ...]]:
    """Run a case over seeds; return its rows, as `SCHEMA` says."""
    case, seeds = task
    with tempfile.TemporaryDirectory() as folder:
        scenario = lh.Scenario(content(case, Path(folder)), folder=folder)
        runs = lh.run_seeds(scenario, range(1, seeds + 1), jobs=1)
        found: list[tuple[Any, ...]] = []
        for (name, of), (seed, run) in product(MEASURES.items(), enumerate(runs, 1)):
            value = of(run)
            if value is not None and name.startswith("wait"):
                value -= case.rtt_ms / 2
            found.append((*astuple(case), name, seed, value))
    return found


INTRODUCTION = """
One CUBIC download and one Prague download share a last hop of 20 or 50 Mbit/s, or a cell of 802.11n whose
neighbour sends 60 Mbit/s of datagrams; both use RACK-TLP and ECN, and Prague sends ECT(1). The queue is in
front of the last hop, in the cell at the access point. Values are means with 95 % intervals over {seeds}
seeds of {seconds} s, without the first {warmup} s. A wait is a one-way delay less half of the base RTT."""
WHAT = """
Batches are those of a replayed trace: no packet for the length of an interval, then all the packets
that the rate allows in it. A queue that marks ECT(1) when a packet has waited for 1 ms, as DualPI2 and
`ce_threshold` do, marks nearly every packet behind batches of 5 ms and more, although no standing queue
exists. Prague then falls to its minimum window, and where CUBIC is limited as well, the hop stays
partly idle. RFC 9332 warns of this. PIE marks ECT(1) as rarely as it would drop, so Prague takes most
of the capacity from CUBIC: RFC 9331 allows ECT(1) only where a queue supports it. Counted marks
(Accurate ECN, RFC 9768) make little difference behind DualPI2. In the cell packets wait for the air, behind
the queue that marks: it sees few of them, and both senders wait for as long."""
LEFT = tuple(
    """
Both senders and all queues are our own. Prague was checked against the closed form of its steady state and \
against the source of its kernel module, not against a run of it.
Where marks are not counted (Accurate ECN, RFC 9768), feedback is the exact echo of DCTCP.
There is one flow of each. Marks are not counted by flow.
""".strip().split("\n")
)
AGAIN = """
Every value is a row of [`l4s-bursts.parquet`](l4s-bursts.parquet), medians of the waits included. `python -m
validation.bursts` runs everything; with `--page` it writes the page from the stored rows."""


def page(data: pl.DataFrame) -> str:
    """Return the page."""
    found: dict[tuple[Any, ...], list[float | None]] = {}
    for *key, _, value in data.iter_rows():
        found.setdefault(tuple(key), []).append(value)
    seeds = len(next(iter(found.values())))
    blocks = [
        "# Prague and CUBIC over a last hop in bursts",
        "<!-- Written by `python -m validation.bursts`; changes here are overwritten. -->",
        wrap(INTRODUCTION.format(seeds=seeds, seconds=SECONDS, warmup=WARMUP)),
        wrap(WHAT),
    ]
    hops = list(dict.fromkeys((case.hop, case.rate_mbit) for case in cases()))
    for queue, name in product(QUEUES, SHOWN):
        if name == SHOWN[0]:
            blocks.append(f"## {queue}")
        lines = [f"| last hop | Mbit/s | {' | '.join(f'RTT {rtt} ms' for rtt in RTTS_MS)} |"]
        lines.append("| --- | ---: |" + " ---: |" * len(RTTS_MS))
        for hop, rate in hops:
            cells = [cell(found[queue, hop, rate, rtt, name]) for rtt in RTTS_MS]
            lines.append(f"| {hop} | {rate or ''} | {' | '.join(cells)} |")
        blocks += [f"{name[0].upper()}{name[1:]}:", "\n".join(lines)]
    blocks += ["## What this does not show", items(LEFT), "## The runs", wrap(AGAIN)]
    return "\n\n".join(blocks) + "\n"


def main() -> None:
    """Run everything and store the rows, then write the page."""
    arguments = asked(__doc__, SEEDS)
    if not arguments.page:
        keep(run_all(rows, cases(), SCHEMA, arguments), DATA)
    PAGE.write_text(page(pl.read_parquet(DATA)), encoding="utf-8")


if __name__ == "__main__":
    main()
