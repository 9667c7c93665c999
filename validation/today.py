"""Which sender for which last hop: `python -m validation.today [--seeds N] [--jobs N]`.

Every sender of today carries a download, alone and beside others, and short transfers over five last hops.
Differences are taken seed by seed. The command writes `docs/reference/senders-today.md`; what its first table
says is made from the others.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lasthop as lh
from lasthop import stats
from lasthop.starter import ready
from validation.media import items, wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lasthop.stats import Estimate

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "senders-today.md"

#: Congestion controllers, all with the loss recovery and the profile of Linux.
SENDERS = ("reno", "cubic", "bbr", "bbr3", "copa", "c2tcp", "vegas", "veno", "westwood+")
RIVAL = "cubic"
SEEDS = 10
SECONDS, WARMUP = 40, 5
#: Goodput from which on a sender counts among those that fill the hop, as a share of the best.
FILLS = 0.9
SHORT_BYTES = 100_000


@dataclass(frozen=True)
class Hop:
    """A last hop: what it is, its usual rate in Mbit/s, and the links and cells between server and host."""

    title: str
    says: str
    mbit: float
    topology: Callable[[Path], dict[str, Any]]


def _path(**last: Any) -> dict[str, Any]:
    """A server behind a fast link, and the last hop."""
    return {
        "kind": "graph",
        "nodes": ["server", "edge", "host"],
        "links": [
            {"from": "server", "to": "edge", "rate": "1 Gbit/s", "delay": "10 ms", "queue": "unlimited"},
            {"from": "edge", "to": "host", **last},
        ],
    }


def _dsl(packets: int) -> Callable[[Path], dict[str, Any]]:
    def topology(_: Path) -> dict[str, Any]:
        return _path(
            rate="10 Mbit/s",
            delay="5 ms",
            queue={"kind": "drop-tail", "limit": f"{packets} packets"},
            error={"kind": "bernoulli", "packet_error_rate": 0.01},
            reverse={"rate": "2 Mbit/s", "queue": {"kind": "drop-tail", "limit": "100 packets"}},
        )

    return topology


def _train(folder: Path) -> dict[str, Any]:
    for name in ("train.down", "train.up"):
        (folder / name).write_bytes((ready("scenarios")["train-ride"].parent / name).read_bytes())
    return _path(
        delay="10 ms",
        trace={"kind": "mahimahi", "file": "train.down"},
        queue={"kind": "drop-tail", "limit": "2000 packets"},
        reverse={"trace": {"kind": "mahimahi", "file": "train.up"}},
    )


def _orbit(folder: Path) -> dict[str, Any]:
    """Another satellite every 15 s: 100 ms without a link, then another delay."""
    rows = ["time_s,rate_mbit_s,delay_ms,loss"]
    for number, delay in enumerate((15, 30, 10, 25)):
        if number:
            rows.append(f"{15 * number},0,{delay},0")
        rows.append(f"{15 * number + (0.1 if number else 0)},50,{delay},0")
    (folder / "orbit.csv").write_text("\n".join(rows) + "\n")
    return _path(
        trace={"kind": "csv", "file": "orbit.csv"},
        queue={"kind": "drop-tail", "limit": "250 packets"},
        reverse={"rate": "10 Mbit/s", "delay": "15 ms"},
    )


def _wifi(_: Path) -> dict[str, Any]:
    return {
        "kind": "graph",
        "nodes": ["server", "edge", "host", "neighbour"],
        "links": [
            {"from": "server", "to": "edge", "rate": "1 Gbit/s", "delay": "10 ms", "queue": "unlimited"}
        ],
        "cells": [
            {
                "access_point": "edge",
                "position": [0, 0],
                "phy": "802.11n",
                "width": 20,
                "streams": 2,
                "mcs": 7,
                "queues": "airtime",
                "aggregation": {"ppdu": "4 ms", "mpdus": 32},
                "stations": [
                    {"node": "host", "position": [4, 0]},
                    {"node": "neighbour", "position": [0, 5]},
                ],
            }
        ],
    }


HOPS: dict[str, Hop] = {
    "wifi": Hop(
        "Wi-Fi",
        "802.11n, two streams, with airtime fairness; a neighbour downloads with CUBIC",
        50,
        _wifi,
    ),
    "train": Hop(
        "LTE on a train",
        "the recording `train.down` of the ready scenario, replayed as by Mahimahi; 2000 packets",
        10,
        _train,
    ),
    "orbit": Hop(
        "Low orbit",
        "50 Mbit/s; every 15 s an outage of 100 ms and a new delay (10 to 30 ms); 250 packets",
        50,
        _orbit,
    ),
    "lossy-shallow": Hop("Lossy line, short queue", "10 Mbit/s, 1 % random loss, 25 packets", 10, _dsl(25)),
    "lossy-deep": Hop("Lossy line, long queue", "10 Mbit/s, 1 % random loss, 200 packets", 10, _dsl(200)),
}


def _flow(name: str, transport: object, **keys: Any) -> dict[str, Any]:
    start = {"start": {"uniform": ["0 s", "1 s"]}}
    return {"name": name, "source": "server", "sink": "host", "transport": transport} | start | keys


def _sender(cc: str) -> dict[str, Any]:
    # BBR sets the window by the delivery rate; nothing reduces it proportionally.
    prr = {} if cc.startswith("bbr") else {"prr": "ssrb"}
    return {"cc": cc, "recovery": "rack", "tlp": True} | prr


def _bulk(cc: str, _: Hop) -> list[dict[str, Any]]:
    return [_flow("s", _sender(cc), traffic="ftp")]


def _short(cc: str, hop: Hop) -> list[dict[str, Any]]:
    every = SHORT_BYTES * 8 / (0.2 * hop.mbit * 1e6)
    arrivals = {"arrivals": "poisson", "every": f"{every * 1e3:.9g} ms"}
    traffic = {"kind": "ftp", "bytes": f"{SHORT_BYTES} B"}
    return [_flow("s", _sender(cc), traffic=traffic, start=arrivals)]


def _call(cc: str, hop: Hop) -> list[dict[str, Any]]:
    call = {"kind": "cbr", "rate": "64 kbit/s", "packet": "160 B"}
    return [*_bulk(cc, hop), _flow("o", "udp", traffic=call)]


def _cubic(cc: str, hop: Hop) -> list[dict[str, Any]]:
    return [*_bulk(cc, hop), _flow("o", _sender(RIVAL), traffic="ftp")]


def column(flow: str, column: str, scale: float) -> Callable[[lh.Run], float | None]:
    """Return what takes a column of a flow, in other units."""

    def of(run: lh.Run) -> float | None:
        for name, value in zip(run.flows["name"], run.flows[column], strict=True):
            if name == flow:
                return None if value is None else float(value) * scale
        return None

    return of


def total(key: str, scale: float) -> Callable[[lh.Run], float | None]:
    """Return what takes a total of a run, in other units."""

    def of(run: lh.Run) -> float | None:
        value = run.totals.get(key)
        return None if value is None else float(value) * scale

    return of


@dataclass(frozen=True)
class Measure:
    """What is measured: name, unit, the flows of its runs, how it is taken, and whether more is better."""

    name: str
    unit: str
    flows: Callable[[str, Hop], list[dict[str, Any]]]
    of: Callable[[lh.Run], float | None]
    more: bool = False


MEASURES: dict[str, Measure] = {
    "goodput": Measure(
        "goodput of a download", "Mbit/s", _bulk, column("s", "goodput_bit_s", 1e-6), more=True
    ),
    "delay": Measure("its delay, 95th percentile", "ms", _bulk, column("s", "delay_p95_s", 1e3)),
    "median": Measure("100 kB, median", "ms", _short, total("completion_p50_s", 1e3)),
    "tail": Measure("100 kB, 95th percentile", "ms", _short, total("completion_p95_s", 1e3)),
    "call": Measure("delay of a call beside, 95th percentile", "ms", _call, column("o", "delay_p95_s", 1e3)),
    "other": Measure(
        "goodput of a CUBIC beside", "Mbit/s", _cubic, column("o", "goodput_bit_s", 1e-6), more=True
    ),
}


def content(cc: str, hop: Hop, flows: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
    """Return the scenario of a sender over a hop; files that it names are written into `folder`."""
    topology = hop.topology(folder)
    if "neighbour" in topology["nodes"]:
        flows = [*flows, _flow("n", _sender(RIVAL), traffic="ftp", sink="neighbour")]
    return {
        "name": f"{cc}, {hop.title}",
        "duration": f"{SECONDS} s",
        "warmup": f"{WARMUP} s",
        "tcp": {"profile": "linux", "receiver_window": "3000 packets"},
        "topology": topology,
        "flows": flows,
    }


#: By hop and measure: of each sender a value per seed.
Values = dict[tuple[str, str], dict[str, list[float | None]]]


def _measured(task: tuple[str, str, str, int]) -> list[tuple[str, list[float | None]]]:
    """Run one kind of traffic of a sender over a hop; by measure the values of its seeds."""
    hop, cc, first, seeds = task
    flows = MEASURES[first].flows
    with tempfile.TemporaryDirectory() as folder:
        scenario = content(cc, HOPS[hop], flows(cc, HOPS[hop]), Path(folder))
        runs = lh.run_seeds(lh.Scenario(scenario, folder=folder), range(1, seeds + 1), jobs=1)
        return [
            (name, [measure.of(run) for run in runs])
            for name, measure in MEASURES.items()
            if measure.flows is flows
        ]


def measure(seeds: int, jobs: int | None) -> Values:
    """Run everything."""
    firsts = [
        name
        for name, one in MEASURES.items()
        if name == next(other for other, of in MEASURES.items() if of.flows is one.flows)
    ]
    tasks = [(hop, cc, first, seeds) for hop, cc, first in product(HOPS, SENDERS, firsts)]
    values: Values = {(hop, name): {} for hop, name in product(HOPS, MEASURES)}
    with ProcessPoolExecutor(jobs) as pool:
        for number, (task, found) in enumerate(zip(tasks, pool.map(_measured, tasks), strict=True), 1):
            for name, of_seeds in found:
                values[task[0], name][task[1]] = of_seeds
            print(f"\r{number} of {len(tasks)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return values


def _mean(values: Values, hop: str, name: str, cc: str) -> float | None:
    return stats.mean(values[hop, name][cc])


def best(values: Values, hop: str, name: str, among: Iterable[str] = SENDERS) -> tuple[str, ...]:
    """Return the best sender by its mean, then those whose paired difference from it shows nothing."""
    one = MEASURES[name]
    means = {cc: mean for cc in among if (mean := _mean(values, hop, name, cc)) is not None}
    if not means:
        return ()
    order = sorted(means, key=lambda cc: -means[cc] if one.more else means[cc])
    first = values[hop, name][order[0]]

    def differs(cc: str) -> bool:
        difference = stats.paired_difference(values[hop, name][cc], first)
        return difference is None or difference.excludes_zero()

    return (order[0], *(cc for cc in order[1:] if not differs(cc)))


def filling(values: Values, hop: str) -> tuple[str, ...]:
    """Return the senders that carry at least `FILLS` of what the best one does."""
    means = {cc: _mean(values, hop, "goodput", cc) or 0.0 for cc in SENDERS}
    return tuple(cc for cc, mean in means.items() if mean >= FILLS * max(means.values()))


def cost(values: Values, hop: str) -> dict[str, Estimate]:
    """Return the change of a CUBIC's goodput beside each other sender, relative to CUBIC beside CUBIC."""
    beside = values[hop, "other"]
    ratios = {cc: stats.relative_difference(beside[cc], beside[RIVAL]) for cc in SENDERS if cc != RIVAL}
    return {cc: ratio for cc, ratio in ratios.items() if ratio is not None}


def _named(senders: Iterable[str]) -> str:
    return ", ".join(f"`{cc}`" for cc in senders) or "–"


def advice(values: Values) -> str:
    """Return the table of which sender for which hop."""
    rows = [
        "| last hop | most goodput | least delay | 100 kB soonest | least delay beside | takes from CUBIC |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for key, hop in HOPS.items():
        full = filling(values, key)
        takers = [
            f"`{cc}` ({100 * ratio.mean:+.0f} %)"
            for cc, ratio in sorted(cost(values, key).items(), key=lambda item: item[1].mean)
            if ratio.high is not None and ratio.high < 0
        ]
        cells = [
            hop.title,
            _named(best(values, key, "goodput")),
            _named(best(values, key, "delay", full)),
            _named(best(values, key, "median")),
            _named(best(values, key, "call", full)),
            ", ".join(takers) or "–",
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def cell(values: list[float | None]) -> str:
    """Return the mean over seeds and its interval."""
    found = stats.estimate(values)
    if found is None:
        return "–"
    return figure(found.mean) + ("" if found.half_width is None else f" ± {figure(found.half_width)}")


def figure(value: float) -> str:
    """Return it with two digits after the point below 10, one below 100, none beyond."""
    return f"{value:.{2 if abs(value) < 10 else 1 if abs(value) < 100 else 0}f}"


def table(values: Values, hop: str) -> str:
    """Return the figures of a hop, a row for each sender."""
    names = [f"{one.name} ({one.unit})" for one in MEASURES.values()]
    rows = [f"| sender | {' | '.join(names)} |", f"| --- |{' ---: |' * len(names)}"]
    for cc in SENDERS:
        cells = [cell(values[hop, name][cc]) for name in MEASURES]
        rows.append(f"| `{cc}` | {' | '.join(cells)} |")
    return "\n".join(rows)


INTRODUCTION = """
Nine senders carry the same traffic over five last hops. All use the loss recovery of Linux (RACK-TLP
with PRR) and the `linux` profile; they differ only in congestion control. Values are means with 95 %
intervals over {seeds} seeds of {seconds} s, without the first {warmup} s."""
RULE = """
A cell names the sender with the best mean, then those that do not differ significantly from it over
{seeds} seeds (paired, 95 %). Delays, of the download and of a competing call, are compared among
senders with at least {fills:.0f} % of the best goodput over the hop, because a sender that sends little
has little delay. The last column has the senders beside which a CUBIC gets less than beside another
CUBIC, and how much less."""
LEFT = tuple(
    """
Senders and hops are our own. [The kernel](kernel-parity.md) and [Wi-Fi](validation-wifi.md) say what was \
compared with Linux and ns-3.
There is one path for each hop, one recording of LTE, and one competing flow. Round trips are 30 to 80 ms.
Transfers of 100 kB arrive at a fifth of the usual rate of the hop; each is a connection of its own.
Video, ECN and L4S are not covered; [media](media.md) has senders made for calls.
""".strip().split("\n")
)


def page(values: Values, seeds: int) -> str:
    """Return the page."""
    blocks = [
        "# Which sender for which last hop",
        "<!-- Written by `python -m validation.today`; changes here are overwritten. -->",
        wrap(INTRODUCTION.format(seeds=seeds, seconds=SECONDS, warmup=WARMUP)),
        advice(values),
        wrap(RULE.format(seeds=seeds, fills=100 * FILLS)),
    ]
    for key, hop in HOPS.items():
        blocks += [f"## {hop.title}", wrap(f"{hop.says[0].upper()}{hop.says[1:]}."), table(values, key)]
    return "\n\n".join([*blocks, "## What this does not show", items(LEFT)]) + "\n"


def asked(description: str | None, seeds: int) -> argparse.Namespace:
    """Return what the command line of a study over seeds says."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=None, help="runs at once; one per core if not given")
    parser.add_argument("--seeds", type=int, default=seeds, help="seeds of each run")
    return parser.parse_args()


def main() -> None:
    """Run everything and write the page."""
    arguments = asked(__doc__, SEEDS)
    PAGE.write_text(page(measure(arguments.seeds, arguments.jobs), arguments.seeds), encoding="utf-8")


if __name__ == "__main__":
    main()
