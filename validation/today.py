"""Which sender for which last hop: `python -m validation.today [--seeds N] [--jobs N]`.

Every sender of today carries a transfer, alone and beside others, short transfers and a video over the last
hops of today. The command stores what each run gave in `docs/reference/senders-today.parquet`. From these
rows alone come the page and its figure (`validation/today_page.py`).
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

import polars as pl

import lasthop as lh
from lasthop.starter import ready

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "docs" / "reference" / "senders-today.parquet"

#: Loss recovery of Linux. PRR is for windows that every loss reduces.
RACK = {"recovery": "rack", "tlp": True}
PRR = RACK | {"prr": "ssrb"}

#: What stands on the page and the transport of it.
SENDERS: dict[str, dict[str, Any]] = {
    "reno": {"cc": "reno"} | PRR,
    "cubic": {"cc": "cubic"} | PRR,
    "cubic rfc": {"cc": "cubic", "whole_segments": False, "hystart": "plusplus", "slow_start_limit": 8} | PRR,
    "cubic filter": {"cc": "cubic", "loss_filter": 0.15} | RACK,
    "cubic search": {"cc": "cubic", "hystart": "search"} | PRR,
    "satcp": {"cc": "satcp"} | PRR,
    "abba": {"cc": "abba"} | PRR,
    "bbr": {"cc": "bbr"} | RACK,
    "bbr3": {"cc": "bbr3"} | RACK,
    "copa": {"cc": "copa"} | PRR,
    "copa competing": {"cc": "copa", "competes": True} | PRR,
    "c2tcp": {"cc": "c2tcp"} | PRR,
    "ledbat++": {"cc": "ledbat++"} | PRR,
    "prague": {"preset": "prague", "accurate_ecn": True},
    "vegas": {"cc": "vegas"} | PRR,
    "veno": {"cc": "veno"} | PRR,
    "westwood+": {"cc": "westwood+"} | PRR,
}
RIVAL = "cubic"
SEEDS = 10
SECONDS, WARMUP = 60, 5
SHORT_BYTES = 100_000


@dataclass(frozen=True)
class Hop:
    """A last hop: what it is, its usual rate in Mbit/s, and the links and cells between server and host."""

    title: str
    says: str
    mbit: float
    topology: Callable[[Path], dict[str, Any]]
    #: Whether the host sends, not the server.
    upload: bool = False
    #: Whether all senders ask for ECN; without it only those do that live by marks.
    ecn: bool = False


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


def _dish(_: Path) -> dict[str, Any]:
    """What a dish sees of such a grid: outages that it announces to the host, and that lose packets."""
    handoff = {
        "at": [f"{at} s" for at in range(12, SECONDS, 15)],
        "outage": "100 ms",
        "warning": "500 ms",
        "policy": "drop-air",
    }
    up = {"rate": "20 Mbit/s", "handoff": handoff, "queue": {"kind": "drop-tail", "limit": "100 packets"}}
    return _path(rate="100 Mbit/s", delay="20 ms", queue="unlimited", reverse=up)


def _marking(_: Path) -> dict[str, Any]:
    return _path(
        rate="50 Mbit/s",
        delay="5 ms",
        queue="dual-pi2",
        reverse={"rate": "10 Mbit/s", "queue": {"kind": "drop-tail", "limit": "100 packets"}},
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
    "dish": Hop(
        "Low orbit, upload",
        "the host sends over 20 Mbit/s; every 15 s an outage of 100 ms, which its dish announces to it "
        "500 ms before; 100 packets",
        20,
        _dish,
        upload=True,
    ),
    "lossy-shallow": Hop("Lossy line, short queue", "10 Mbit/s, 1 % random loss, 25 packets", 10, _dsl(25)),
    "lossy-deep": Hop("Lossy line, long queue", "10 Mbit/s, 1 % random loss, 200 packets", 10, _dsl(200)),
    "marking": Hop("Line with L4S", "50 Mbit/s, DualPI2; all senders ask for ECN", 50, _marking, ecn=True),
}


def _flow(name: str, transport: object, hop: Hop, **keys: Any) -> dict[str, Any]:
    source, sink = ("host", "server") if hop.upload else ("server", "host")
    flow = {"name": name, "source": source, "sink": sink, "transport": transport}
    return flow | {"start": {"uniform": ["0 s", "1 s"]}} | keys


def _transport(sender: str, hop: Hop) -> dict[str, Any]:
    return SENDERS[sender] | ({"ecn": True} if hop.ecn else {})


def _bulk(sender: str, hop: Hop) -> list[dict[str, Any]]:
    return [_flow("s", _transport(sender, hop), hop, traffic="ftp")]


def _short(sender: str, hop: Hop) -> list[dict[str, Any]]:
    every = SHORT_BYTES * 8 / (0.2 * hop.mbit * 1e6)
    arrivals = {"arrivals": "poisson", "every": f"{every * 1e3:.9g} ms"}
    traffic = {"kind": "ftp", "bytes": f"{SHORT_BYTES} B"}
    return [_flow("s", _transport(sender, hop), hop, traffic=traffic, start=arrivals)]


def _rival(hop: Hop) -> dict[str, Any]:
    return _flow("o", _transport(RIVAL, hop), hop, traffic="ftp")


def _video(sender: str, hop: Hop) -> list[dict[str, Any]]:
    return [_flow("s", _transport(sender, hop), hop, traffic="video-on-demand"), _rival(hop)]


def _call(sender: str, hop: Hop) -> list[dict[str, Any]]:
    call = {"kind": "cbr", "rate": "64 kbit/s", "packet": "160 B"}
    return [*_bulk(sender, hop), _flow("o", "udp", hop, traffic=call)]


def _cubic(sender: str, hop: Hop) -> list[dict[str, Any]]:
    return [*_bulk(sender, hop), _rival(hop)]


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
        "goodput of a transfer", "Mbit/s", _bulk, column("s", "goodput_bit_s", 1e-6), more=True
    ),
    "delay": Measure("its delay, 95th percentile", "ms", _bulk, column("s", "delay_p95_s", 1e3)),
    "median": Measure("100 kB, median", "ms", _short, total("completion_p50_s", 1e3)),
    "tail": Measure("100 kB, 95th percentile", "ms", _short, total("completion_p95_s", 1e3)),
    "rate": Measure(
        "bit rate of a video beside a CUBIC",
        "Mbit/s",
        _video,
        column("s", "player_bit_rate_bit_s", 1e-6),
        more=True,
    ),
    "stalled": Measure("its time in stalls", "%", _video, column("s", "player_stall_share", 1e2)),
    "quality": Measure("its quality", "Mbit/s", _video, column("s", "player_quality_bit_s", 1e-6), more=True),
    "call": Measure("delay of a call beside, 95th percentile", "ms", _call, column("o", "delay_p95_s", 1e3)),
    "other": Measure(
        "goodput of a CUBIC beside", "Mbit/s", _cubic, column("o", "goodput_bit_s", 1e-6), more=True
    ),
}


def content(sender: str, hop: Hop, flows: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
    """Return the scenario of a sender over a hop; files that it names are written into `folder`."""
    topology = hop.topology(folder)
    if "neighbour" in topology["nodes"]:
        flows = [*flows, _flow("n", _transport(RIVAL, hop), hop, traffic="ftp", sink="neighbour")]
    return {
        "name": f"{sender}, {hop.title}",
        "duration": f"{SECONDS} s",
        "warmup": f"{WARMUP} s",
        "tcp": {"profile": "linux", "receiver_window": "3000 packets"},
        "topology": topology,
        "flows": flows,
    }


@dataclass(frozen=True)
class Case:
    """What is run over all seeds: a hop, a sender, and the measures that its runs give."""

    hop: str
    sender: str
    measures: tuple[str, ...]


def cases() -> list[Case]:
    """Return everything that is run. A host that uploads serves no video."""
    together: dict[Any, list[str]] = {}
    for name, one in MEASURES.items():
        together.setdefault(one.flows, []).append(name)
    return [
        Case(hop, sender, tuple(measures))
        for hop, sender, (flows, measures) in product(HOPS, SENDERS, together.items())
        if not (HOPS[hop].upload and flows is _video)
    ]


#: What a row of the stored data says; without a value where a run has none.
SCHEMA: dict[str, Any] = {
    "hop": pl.String,
    "sender": pl.String,
    "measure": pl.String,
    "seed": pl.Int32,
    "value": pl.Float64,
}


def rows(task: tuple[Case, int]) -> list[tuple[str, str, str, int, float | None]]:
    """Run a case over seeds; return its rows, as `SCHEMA` says."""
    case, seeds = task
    hop = HOPS[case.hop]
    flows = MEASURES[case.measures[0]].flows(case.sender, hop)
    with tempfile.TemporaryDirectory() as folder:
        scenario = lh.Scenario(content(case.sender, hop, flows, Path(folder)), folder=folder)
        runs = lh.run_seeds(scenario, range(1, seeds + 1), jobs=1)
        return [
            (case.hop, case.sender, name, seed, MEASURES[name].of(run))
            for seed, run in enumerate(runs, 1)
            for name in case.measures
        ]


def run_all(
    rows: Callable[[tuple[Any, int]], list[Any]],
    cases: Sequence[Any],
    schema: dict[str, Any],
    asked: argparse.Namespace,
) -> pl.DataFrame:
    """Run every case over the seeds that are asked for, and say how far it is; return all rows."""
    tasks = [(case, asked.seeds) for case in cases]
    found: list[Any] = []
    with ProcessPoolExecutor(asked.jobs) as pool:
        for number, of_case in enumerate(pool.map(rows, tasks), 1):
            found += of_case
            print(f"\r{number} of {len(tasks)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return pl.DataFrame(found, schema=schema, orient="row")


def keep(data: pl.DataFrame, file: Path) -> None:
    """Store rows, the same bytes for the same rows."""
    data.write_parquet(file, compression="zstd", statistics=False)


def asked(description: str | None, seeds: int) -> argparse.Namespace:
    """Return what the command line of a study over seeds says, whose rows are stored."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=None, help="runs at once; one per core if not given")
    parser.add_argument("--seeds", type=int, default=seeds, help="seeds of each run")
    parser.add_argument(
        "--page", action="store_true", help="write the page from the stored rows, run nothing"
    )
    return parser.parse_args()


def main() -> None:
    """Run everything and store the rows, then write page and figure."""
    from validation import today_page

    arguments = asked(__doc__, SEEDS)
    if not arguments.page:
        keep(run_all(rows, cases(), SCHEMA, arguments), DATA)
    today_page.write(pl.read_parquet(DATA))


if __name__ == "__main__":
    main()
