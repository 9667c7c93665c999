"""How well senders classify losses: `python -m validation.classifiers`.

Runs every sender that takes losses for congestion or for errors of the channel, the rules of the literature
under one answer (`lda`) and four yardsticks over the same networks, and stores a row per run in
`docs/reference/classifiers.parquet`. From these rows alone come the page and its figures
(`classifiers_page.py`); `--page` makes them anew without a run. The network records what each
loss was; the confusion matrix of the run has what the sender took it for.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from lasthop import _native
from validation import engine

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "docs" / "reference" / "classifiers.parquet"
COMMAND = "python -m validation.classifiers"

SEEDS = range(1, 21)
DURATION_S = 70
WARMUP_S = 10

#: Senders with a controller of their own. Without classification all but the last are NewReno.
LAWS = ("veno", "venoplus", "jtcp", "xjtcp", "tcp-real", "probing", "wsc", "cubic filter")
#: Rules of the literature under one answer, SACK TCP's.
RULES = ("biaz", "mbiaz", "spike", "zigzag", "vegas", "ntg", "ndg")
YARDSTICKS = ("oracle", "congestion", "wireless", "coin")
PLAIN = "newreno"
#: CUBIC on RACK-TLP, without its filter of losses and with it.
CUBIC = {"cc": "cubic", "recovery": "rack"}
CUBICS = {"cubic": CUBIC, "cubic filter": {**CUBIC, "loss_filter": 0.15}}
#: Senders that ask nothing.
SILENT = (PLAIN, "cubic")
#: Those that quinn, a stack of QUIC, can drive: it tells its controllers less than TCP does.
OVER_QUIC = (PLAIN, "veno", *(f"lda {rule}" for rule in ("vegas", "ntg", "ndg", *YARDSTICKS[1:])))
#: What stands before the names of those.
QUIC = "quic "
SENDERS = (*SILENT, *LAWS, *(f"lda {rule}" for rule in (*RULES, *YARDSTICKS)))

#: Each sender's own threshold, from low to high: parameters and the values that they take together.
THRESHOLDS: dict[str, tuple[tuple[str, ...], tuple[float, ...]]] = {
    "veno": (("beta",), (0.5, 1, 2, 3, 5, 10, 20)),
    "venoplus": (("rlr_threshold",), (0, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05)),
    "jtcp": (("k",), (0.1, 0.5, 0.9, 1.5, 2.5, 5, 10)),
    "xjtcp": (("k",), (0.1, 0.5, 0.9, 1.5, 2.5, 5, 10)),
    "probing": (("factor",), (1.01, 1.05, 1.1, 1.2, 1.4, 1.8, 3)),
    "cubic filter": (("loss_filter",), (0.005, 0.02, 0.05, 0.1, 0.15, 0.2, 0.4)),
    "lda biaz": (("upper",), (1.01, 1.1, 1.25, 1.5, 2, 3, 6)),
    "lda spike": (("spike_start", "spike_end"), (0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95)),
    "lda zigzag": (("shift",), (-2, -1, 0, 1, 2, 3, 4)),
    "lda vegas": (("vegas_bound",), (0.5, 1, 2, 4, 8, 16, 32)),
    "lda ntg": (("ntg_bound",), (-2, -0.5, 0, 0.25, 0.5, 0.75, 2)),
    "lda ndg": (("ndg_bound",), (-2, -0.5, 0, 0.25, 0.5, 1, 2)),
    "lda coin": (("wireless_share",), (0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95)),
}


#: What a law needs for its threshold to count.
WITH_THRESHOLD: dict[str, dict[str, Any]] = {"venoplus": {"decide": "thresholds", "clw_threshold": 1000}}
#: Laws that hear more than ACKs tell: the frames that the receiver's MAC discarded, or the sender's own link.
TOLD = ("venoplus", "xjtcp", "wsc")


@dataclass(frozen=True)
class Link:
    """A path: rate of its last hop in Mbit/s, its round trip in ms, and the packets that it holds."""

    rate: int
    rtt: int
    packets: int


PATHS = {"slow": Link(2, 100, 17), "middle": Link(10, 40, 33), "fast": Link(30, 60, 150)}
#: A cell of 802.11n as the last hop: MCS 1 carries about as much of TCP as the middle path, in aggregates and
#: between those of the ACKs. Packets are lost behind the retransmissions of the MAC, and when it gives up.
RADIO = "radio"
PATHS_AND_RADIO = {**PATHS, RADIO: Link(10, 40, 33)}
CELL = {"phy": "802.11n", "mcs": 1, "streams": 1}


@dataclass(frozen=True)
class Cell:
    """Where senders are compared."""

    path: str = "middle"
    #: Of the buffer, in what the path holds.
    buffer: float = 1.0
    queue: str = "drop-tail"
    channel: str = "independent"
    loss_rate: float = 0.001
    load: str = "alone"


#: The flows of each load: the sender's, and those beside it.
LOADS = {
    "alone": "one flow",
    "alike": "four equal flows",
    "rival": "beside a NewReno",
    "bursts": "beside bursts of datagrams",
    "uplink": "an uplink that retransmits frames",
}
BURSTS = {"kind": "on-off", "rate": "10 Mbit/s", "packet": "1000 B", "on": "100 ms", "off": "200 ms"}


def cells() -> Iterator[Cell]:
    """Yield every place: the middle path in full, and one thing changed at a time."""
    rates, loads = (0.001, 0.01), ("alone", "alike", "rival")
    for buffer, rate, load in itertools.product((0.2, 1.0, 5.0), rates, loads):
        yield Cell(buffer=buffer, loss_rate=rate, load=load)
    for load in loads:
        yield Cell(loss_rate=0.0, load=load)
    for rate, load in itertools.product(rates, ("bursts", "uplink")):
        yield Cell(loss_rate=rate, load=load)
    for rate, load in itertools.product(rates, ("alone", "rival")):
        yield Cell(path="slow", loss_rate=rate, load=load)
        yield Cell(path="fast", loss_rate=rate, load=load)
        yield Cell(channel="bursts of 4", loss_rate=rate, load=load)
        yield Cell(queue="codel", loss_rate=rate, load=load)
    yield Cell(path=RADIO, load="rival")


#: Where thresholds are moved: both kinds of losses happen there.
ROC_CELLS = (Cell(load="rival"), Cell(load="alike"))


#: Where they run over QUIC.
QUIC_CELLS = tuple(Cell(load=load) for load in ("rival", "alike", "alone"))


@dataclass(frozen=True)
class Case:
    """One sender in one cell; with a value of its threshold, or with its defaults."""

    cell: Cell
    sender: str
    threshold: float | None = None


def cases() -> Iterator[Case]:
    """Yield every case of the grid, then those of the thresholds, and those over QUIC."""
    for cell, sender in itertools.product(cells(), SENDERS):
        yield Case(cell, sender)
    for cell, (sender, (_, values)) in itertools.product(ROC_CELLS, THRESHOLDS.items()):
        for value in values:
            yield Case(cell, sender, float(value))
    for cell, sender in itertools.product(QUIC_CELLS, OVER_QUIC):
        yield Case(cell, f"{QUIC}{sender}")


def transport(case: Case) -> dict[str, Any]:
    """Return the sender of a case, as a scenario names it."""
    preset, _, rule = case.sender.removeprefix(QUIC).partition(" ")
    more = {"rule": rule} if rule else {}
    if case.sender.startswith(QUIC):
        law = "reno" if preset == PLAIN else preset
        return {"stack": "quinn", "congestion": f"lasthop:{law}", **more}
    table: dict[str, Any] = {"preset": preset, **more}
    table = dict(CUBICS.get(case.sender, table))
    if case.threshold is not None:
        table |= WITH_THRESHOLD.get(case.sender, {})
        table |= dict.fromkeys(THRESHOLDS[case.sender][0], case.threshold)
    return table


def scenario(case: Case) -> dict[str, Any]:
    """Return the scenario of a case.

    Starts are spread over a second and hosts take up to a millisecond for a packet: without that, runs
    without errors are one run however many seeds there are.
    """
    cell, path = case.cell, PATHS_AND_RADIO[case.cell.path]
    if cell.path == RADIO:
        return over_radio(case)
    air: dict[str, Any] = {
        "name": "air",
        "rate": f"{path.rate} Mbit/s",
        "queue": queue(cell, path),
        "error": channel(cell),
        "reverse": {"error": "none"},
    }
    wire: dict[str, Any] = {"name": "wire", "rate": "100 Mbit/s", "queue": "unlimited"}
    if cell.load == "uplink":
        # The sender's own link repeats a frame once and tells it how that went; it gives up as many packets
        # as the other networks lose.
        air["error"] = {"kind": "bernoulli", "packet_error_rate": round(cell.loss_rate**0.5, 6)}
        air["arq"] = {"attempts": 2, "window": 32, "order": "in-order"}
        links = [{**air, "delay": "1 ms"}, {**wire, "delay": f"{path.rtt // 2 - 1} ms"}]
    else:
        links = [{**wire, "delay": "5 ms"}, {**air, "delay": f"{path.rtt // 2 - 5} ms"}]
    ends = (("source", "router"), ("router", "sink"))
    return around(
        case, links=[{**link, "from": a, "to": b} for link, (a, b) in zip(links, ends, strict=True)]
    )


def around(case: Case, **parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the scenario of a case over a graph of these parts."""
    return {
        "name": "classifiers",
        "duration": f"{DURATION_S} s",
        "warmup": f"{WARMUP_S} s",
        "processing_time": "1 ms",
        "topology": {"kind": "graph", "nodes": ["source", "router", "sink"], **parts},
        "flows": flows(case),
    }


def over_radio(case: Case) -> dict[str, Any]:
    """Return the scenario of a case whose last hop is a radio cell."""
    cell, path = case.cell, PATHS_AND_RADIO[case.cell.path]
    air = {
        "access_point": "router",
        "stations": [{"node": "sink", "position": [10, 0]}],
        "queue": queue(cell, path),
        "error": {"kind": "bernoulli", "packet_error_rate": cell.loss_rate, "position": "after-arq"},
        **CELL,
    }
    wire = {"from": "source", "to": "router", "name": "wire", "rate": "100 Mbit/s", "queue": "unlimited"}
    return around(case, links=[{**wire, "delay": f"{path.rtt // 2} ms"}], cells=[air])


def queue(cell: Cell, path: Link) -> dict[str, Any]:
    """Return the queue of the last hop."""
    limit = f"{max(round(cell.buffer * path.packets), 1)} packets"
    return {"kind": cell.queue, "limit": limit}


def channel(cell: Cell) -> dict[str, Any] | str:
    """Return the errors of the last hop."""
    if cell.loss_rate == 0:
        return "none"
    if cell.channel == "independent":
        return {"kind": "bernoulli", "packet_error_rate": cell.loss_rate}
    return {"kind": "gilbert-elliott", "packet_error_rate": cell.loss_rate, "mean_burst": 4.0}


def flows(case: Case) -> list[dict[str, Any]]:
    """Return the flows: first those that are judged."""
    between = {"source": "source", "sink": "sink", "start": {"uniform": ["0 s", "1 s"]}}
    count = {"count": 4} if case.cell.load == "alike" else {}
    judged = {**between, **count, "name": "judged", "transport": transport(case)}
    beside = {
        "rival": [{**between, "name": "rival", "transport": PLAIN}],
        "bursts": [{**between, "name": "bursts", "transport": "udp", "traffic": BURSTS}],
    }
    return [judged, *beside.get(case.cell.load, [])]


def rows(case: Case, seeds: range = SEEDS) -> list[dict[str, Any]]:
    """Run a case, and return a row per seed."""
    plan = engine.plan(scenario(case))
    found = []
    for seed in seeds:
        run = json.loads(_native.run(plan, seed).to_json())
        row: dict[str, Any] = {**asdict(case.cell), "sender": case.sender, "threshold": case.threshold}
        row |= {"seed": seed, "goodput_bit_s": 0.0, "rival_bit_s": None}
        row |= dict.fromkeys(COUNTS, 0)
        for flow in run["flows"]:
            if flow["name"].startswith("judged"):
                row["goodput_bit_s"] += flow["goodput_bit_s"]
                for truth, beliefs in (flow["loss_verdicts"] or {}).items():
                    for belief, count in beliefs.items():
                        row[f"{truth}_as_{belief}"] += count
            elif flow["name"] == "rival":
                row["rival_bit_s"] = flow["goodput_bit_s"]
        found.append(row)
    return found


#: Columns of the confusion matrix: what it was and what it was taken for.
COUNTS = tuple(
    f"{truth}_as_{belief}"
    for truth in ("congestion", "wireless", "nothing")
    for belief in ("congestion", "wireless")
)

SCHEMA: dict[str, Any] = {
    "path": pl.String,
    "buffer": pl.Float64,
    "queue": pl.String,
    "channel": pl.String,
    "loss_rate": pl.Float64,
    "load": pl.String,
    "sender": pl.String,
    "threshold": pl.Float64,
    "seed": pl.Int32,
    "goodput_bit_s": pl.Float64,
    "rival_bit_s": pl.Float64,
    **dict.fromkeys(COUNTS, pl.Int32),
}


def measure(jobs: int, stored: pl.DataFrame | None = None) -> pl.DataFrame:
    """Run every case that is not stored; those over QUIC stay as they are in a build without stacks."""
    if stored is None:
        stored = pl.DataFrame(schema=SCHEMA)
        if not _native.HAS_STACKS:
            stored = pl.read_parquet(DATA).filter(pl.col("sender").str.starts_with(QUIC))
    names = [field.name for field in fields(Cell)]
    keys = stored.select(*names, "sender", "threshold").unique().rows()
    known = {Case(Cell(*key[:-2]), *key[-2:]) for key in keys}
    with ThreadPoolExecutor(jobs) as pool:
        found = list(pool.map(rows, (case for case in cases() if case not in known)))
    return pl.concat([stored, pl.DataFrame(list(itertools.chain.from_iterable(found)), schema=SCHEMA)])


def main() -> None:
    """Run every case and store the rows, then write page and figures."""
    from validation import classifiers_page

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at once")
    parser.add_argument(
        "--page", action="store_true", help="write the page from the stored rows, run nothing"
    )
    parser.add_argument("--missing", action="store_true", help="run only the cases that are not stored")
    arguments = parser.parse_args()
    if not arguments.page:
        data = measure(arguments.jobs, pl.read_parquet(DATA) if arguments.missing else None)
        data.write_parquet(DATA, compression="zstd", statistics=False)
    classifiers_page.write(pl.read_parquet(DATA))


if __name__ == "__main__":
    main()
