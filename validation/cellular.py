"""A cellular cell in lasthop and ns-3 side by side: `python -m validation.cellular [--jobs N]`.

ns-3's LTE comes with a physical layer of its own; what it did to transport blocks (their size, and how many
of each transmission failed) is counted and given to lasthop, as are its timers. Everything after that is
compared: how packets are put into blocks, what HARQ and RLC make of lost ones, how users share the cell. ns-3
is built from `validation/ns3/cellular.cc`. The command writes `docs/reference/validation-cellular.md`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import math
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from validation import engine, ns3, process
from validation.media import items, wrap
from validation.media_cellular import EFFICIENCIES

if TYPE_CHECKING:
    from collections.abc import Collection

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "validation-cellular.md"
SOURCE = ROOT / "validation" / "ns3" / "cellular.cc"

LIBRARIES = (
    "lte",
    "virtual-net-device",
    "buildings",
    "propagation",
    "spectrum",
    "antenna",
    "mobility",
)
#: Bytes of the IP packets, and when counting begins and ends.
BYTES = 1200
WARMUP_S, END_S = 1.0, 11.0
RUNS = range(1, 4)
#: In ns-3 a block is retransmitted 7 ms later.
HARQ_MS = 7
#: What ns-3's delay has beyond the wire, the wait for a TTI and the TTI; from the clean case.
REST_MS = 2.0
REORDERING_MS = 10
#: From a STATUS to the retransmission in ns-3: request, grant, its TTI and processing.
STATUS_MS = 7
#: By how much goodput may differ, and quantiles of the delay in ms: a TTI and 2 ms.
SAME_GOODPUT = 0.05
SAME_DELAY_MS = 3.0
QUANTILES = (0.5, 0.9, 0.99)

#: Distances (m) at which ns-3 loses more and more first transmissions, with so bold a choice of modulation.
BOLD = 0.02
LOSSY = (2650, 2675, 2700, 2725)
#: The same without HARQ, where every failure is for RLC.
RARE = (2600, 2625, 2650, 2675)


@dataclass(frozen=True)
class Case:
    """What is compared: offered bit/s by user (0: one TCP connection), and how."""

    title: str
    rate: float
    distances: tuple[int, ...]
    rlc: str = "am"
    scheduler: str = "rr"
    harq: bool = False
    ber: float = BOLD

    @property
    def key(self) -> str:
        """Its name."""
        places = ", ".join(f"{one} m" for one in self.distances)
        return f"{self.title}, {self.rlc.upper()}, {places}"


def cases() -> list[Case]:
    """Return everything that is compared."""
    clean: dict[str, Any] = {"harq": True, "ber": 0.00005}
    found = [Case("clean", rate, (2000,), **clean) for rate in (2e6, 8e6, 16e6)]  # type: ignore[arg-type]
    found += [Case("saturated", 60e6, (place,), **clean) for place in (100, 1000, 3000, 5000)]  # type: ignore[arg-type]
    found += [
        Case(f"saturated, {scheduler}", 60e6, places, scheduler=scheduler, **clean)
        for scheduler, places in product(("rr", "pf"), ((1000, 4000), (1000, 2000, 4000, 6000)))
    ]
    found += [
        Case(f"HARQ at {rate / 1e6:g} Mbit/s", rate, (place,), rlc, harq=True)
        for rlc, rate, place in product(("am", "um"), (4e6, 14e6), LOSSY)
    ]
    found += [
        Case(f"RLC at {rate / 1e6:g} Mbit/s", rate, (place,), rlc)
        for rlc, rate, place in product(("am", "um"), (4e6, 14e6), RARE)
    ]
    # In AM a STATUS for TCP's ACKs takes a whole block of the downlink in ns-3.
    found += [Case("TCP", 0, (place,), "um", harq=True) for place in LOSSY]
    return found


@dataclass(frozen=True)
class Measured:
    """Mbit/s of payload by user, and delays of all datagrams in ms."""

    goodput: list[float]
    delays: list[float]


@dataclass(frozen=True)
class Channel:
    """What ns-3's physical layer did: bytes of the usual block, and by transmission the share that failed."""

    bytes: int
    failed: tuple[float, ...]


def build(folder: Path) -> Path:
    """Compile the program for ns-3 into `folder`."""
    return ns3.compile_program(SOURCE, folder / "cellular", LIBRARIES)


def theirs(program: Path, case: Case, seed: int) -> tuple[Measured, Channel]:
    """One run of ns-3."""
    words = [
        case.rlc,
        case.scheduler,
        int(case.harq),
        1,
        case.ber,
        case.rate,
        BYTES,
        WARMUP_S,
        END_S,
        seed,
        REORDERING_MS,
        *case.distances,
    ]
    told = json.loads(process.run([str(program), *map(str, words)], 600.0)[0])
    goodput = [count * 8 / (END_S - WARMUP_S) / 1e6 for count in told["bytes"]]
    delays = [delay / 1e3 for user in told["delays"] for delay in user]
    counts = [told["blocks"].get(str(version), [0, 0]) for version in range(4 if case.harq else 1)]
    failed = tuple(lost / (lost + came) if lost + came else 0.0 for lost, came in counts)
    size = int(max(told["sizes"], key=told["sizes"].__getitem__))
    return Measured(goodput, delays), Channel(size, failed)


def grid(size: int) -> tuple[int, int]:
    """Return resource blocks and symbols with which a block at CQI 15 has this many bytes, or nearly."""
    best = min(
        product(range(20, 111), range(50, 169)),
        key=lambda pair: abs(pair[0] * pair[1] * 55547 // 10_000 - 8 * size),
    )
    return best[0], best[1]


def scenario(
    case: Case, channel: Channel, sizes: list[int], active: Collection[int] | None = None
) -> dict[str, Any]:
    """The same as data; `sizes` are those of whole blocks by user, of whom all or `active` get something."""
    blocks, symbols = grid(max(sizes))
    fits = [size / max(sizes) * EFFICIENCIES[-1] for size in sizes]
    cqi = [
        min(range(15), key=lambda place, wanted=fit: abs(EFFICIENCIES[place] - wanted)) + 1 for fit in fits
    ]
    nodes = [f"u{user}" for user in range(len(sizes))]
    rlc: dict[str, Any] = {"kind": "unacknowledged"}
    if case.rlc == "am":
        rlc = {
            "kind": "acknowledged",
            "status_prohibit": "0 ms",
            "poll_retransmit": "1 s",
            "poll_pdus": 1,
            "poll_bytes": "50 B",
            "max_retransmissions": 5,
            "status_delay": f"{STATUS_MS} ms",
        }
    cell = {
        "base": "base",
        "users": [{"node": node, "cqi": value} for node, value in zip(nodes, cqi, strict=True)],
        "resource_blocks": blocks,
        "symbols": symbols,
        "scheduler": "round-robin" if case.scheduler == "rr" else "proportional-fair",
        "block_errors": list(channel.failed),
        "harq_delay": f"{HARQ_MS} ms",
        "rlc": {**rlc, "reordering": f"{REORDERING_MS} ms"},
        "delay": f"{REST_MS} ms",
        # RLC 4 B, and the length of each packet beside PDCP's 2 B.
        "block_header": "4 B",
        "packet_header": "4 B",
    }
    flows: list[dict[str, Any]] = []
    for user, node in enumerate(nodes):
        if active is not None and user not in active:
            continue
        flow: dict[str, Any] = {"source": "server", "sink": node, "start": {"uniform": ["0.5 s", "0.6 s"]}}
        if case.rate:
            rate = case.rate * (BYTES - 28) / BYTES
            traffic = {"kind": "cbr", "rate": f"{rate:.3f} bit/s", "packet": f"{BYTES - 28} B"}
            flows.append({**flow, "transport": "udp", "traffic": traffic})
        else:
            flows.append({**flow, "transport": "sack"})
    wide = {"kind": "drop-tail", "limit": "100000 packets"}
    return {
        "name": case.key[:100],
        "duration": f"{END_S} s",
        "warmup": f"{WARMUP_S} s",
        "topology": {
            "kind": "graph",
            "nodes": ["server", "base", *nodes],
            "links": [{"from": "server", "to": "base", "rate": "1 Gbit/s", "delay": "10 ms", "queue": wide}],
            "cellular": [cell],
        },
        "tcp": {
            "packet_size": f"{BYTES} B",
            "initial_window": "10 packets",
            "receiver_window": "3400 packets",
        },
        "flows": flows,
    }


def ours(
    case: Case, channel: Channel, sizes: list[int], seed: int, active: Collection[int] | None = None
) -> Measured:
    """One run of lasthop."""
    content = scenario(case, channel, sizes, active)
    totals = engine.count_totals(engine.plan(content), seed)
    goodput = [flow["goodput_bit_s"] / 1e6 for flow in totals["flows"]]
    if not case.rate or len(sizes) > 1:
        return Measured(goodput, [])
    hops = engine.trace_packets({**content, "seed": seed}).hops
    keys = ["packet", "flow"]
    sent = hops.filter(pl.col("link") == "server-base").select(*keys, "enqueue_s")
    radio = hops.filter(pl.col("link") != "server-base").select(*keys, "arrive_s")
    both = sent.join(radio, on=keys).filter(pl.col("arrive_s") >= WARMUP_S)
    return Measured(goodput, ((both["arrive_s"] - both["enqueue_s"]) * 1e3).drop_nulls().to_list())


@dataclass(frozen=True)
class Comparison:
    """One figure on both sides."""

    name: str
    ours: float
    theirs: float
    within: float
    relative: bool

    @property
    def agrees(self) -> bool:
        """Whether they differ by no more than is allowed."""
        difference = abs(self.ours - self.theirs)
        return difference <= self.within * (self.theirs if self.relative else 1.0)

    def entry(self) -> str:
        """Both, for a table; in bold where they differ."""
        text = f"{self.ours:.2f} / {self.theirs:.2f}"
        return text if self.agrees else f"**{text}**"


def quantile(values: list[float], share: float) -> float:
    """The least value that this share of them does not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * share) - 1)]


def compare(program: Path, case: Case) -> tuple[Case, Channel, list[Comparison]]:
    """Run both sides over seeds."""
    yours = [theirs(program, case, seed) for seed in RUNS]
    alone = [Case("alone", 60e6, (place,), ber=case.ber, harq=True) for place in case.distances]
    single = [theirs(program, one, RUNS[0]) for one in alone]
    sizes = [channel.bytes for _, channel in single]
    failed = tuple(
        sum(one) / len(yours) for one in zip(*(channel.failed for _, channel in yours), strict=True)
    )
    channel = Channel(max(sizes), failed)
    mine = [ours(case, channel, sizes, seed) for seed in RUNS]
    if len(sizes) > 1:
        # The steps of CQI are not those of ns-3's modulations: shares of what each user has alone.
        my_alone = [ours(case, channel, sizes, RUNS[0], (user,)) for user in range(len(sizes))]
        return (
            case,
            channel,
            [
                Comparison(
                    f"share {user + 1}",
                    mean([run.goodput[user] for run in mine]) / own.goodput[0],
                    mean([run.goodput[user] for run, _ in yours]) / other.goodput[0],
                    SAME_GOODPUT,
                    relative=True,
                )
                for user, (own, (other, _)) in enumerate(zip(my_alone, single, strict=True))
            ],
        )
    found = [
        Comparison(
            "goodput",
            mean([run.goodput[0] for run in mine]),
            mean([run.goodput[0] for run, _ in yours]),
            SAME_GOODPUT,
            relative=True,
        )
    ]
    if case.rate and case.title != "saturated":
        my_delays = [delay for run in mine for delay in run.delays]
        your_delays = [delay for run, _ in yours for delay in run.delays]
        found += [
            Comparison(
                f"{share:.0%}",
                quantile(my_delays, share),
                quantile(your_delays, share),
                SAME_DELAY_MS,
                relative=False,
            )
            for share in QUANTILES
        ]
    return case, channel, found


INTRODUCTION = """
One cell of 50 resource blocks, one or more users that do not move, a server 10 ms away, packets of {bytes}
bytes from {warmup:g} to {end:g} s, {runs} runs a side. ns-3 has a physical layer of its own: the size of its
blocks and the share of each transmission that fails are counted and given to lasthop, as are the 7 ms from
one transmission of HARQ to the next and t-Reordering of {reordering} ms. Two constants are read from one case
each: the rest of the delay ({rest:g} ms, clean at 2 Mbit/s) and the time from a STATUS to what it causes
({status} ms, RLC alone at 4 Mbit/s, 2600 m). Everything else follows from both models.
"""
RULE = """
Each entry is lasthop's figure / ns-3's. **Bold**: goodput differs by more than 5 %, or a quantile of the
delay by more than 3 ms, which is a TTI and 2 ms. Of several users the share is compared that each has of what
it gets alone.
"""
DIFFERS = """
- ns-3 answers a poll at once; TS 36.322, section 5.2.3, has it wait until nothing before the PDU can come any
  more. With a t-StatusProhibit of 10 ms that holds back the STATUS that matters; with 0, as here on both
  sides, PDUs that are already retransmitted are requested again: where many PDUs are lost, ns-3 is slower.
- When t-Reordering ends in ns-3, the STATUS goes with the next PDU that polls, not at once: at 4 Mbit/s
  2.4 ms later.
- When t-PollRetransmit ends, ns-3 retransmits all unacknowledged PDUs; lasthop retransmits the last one.
  Here it is 1 s on both sides, so it hardly ever ends.
- A STATUS of ns-3 takes a whole block, because a block carries one PDU: with a t-StatusProhibit of 10 ms TCP
  gets nine tenths of the cell in AM (18.99 of 21.1 Mbit/s without losses). In lasthop a STATUS takes no room.
  TCP is compared in UM.
- ns-3 cuts no PDU anew when it is retransmitted; here every block is large enough for it.
"""


def mean(values: list[float]) -> float:
    """The mean."""
    return sum(values) / len(values)


def page(found: list[tuple[Case, Channel, list[Comparison]]], version: str) -> str:
    """The page as Markdown."""
    single = [one for one in found if len(one[0].distances) == 1]
    several = [one for one in found if len(one[0].distances) > 1]
    everything = [one for _, _, many in found for one in many]
    outside = sum(not one.agrees for one in everything)
    heads = ["goodput (Mbit/s)", *(f"delay, {share:.0%} (ms)" for share in QUANTILES)]
    rows = [f"| case | RLC | ns-3 loses of first transmissions | {' | '.join(heads)} |"]
    rows.append("| --- | --- | ---: |" + " ---: |" * len(heads))
    for case, channel, many in single:
        cells = [one.entry() for one in many] + ["–"] * (len(heads) - len(many))
        name = f"{case.title}, {case.distances[0]} m"
        rows.append(
            f"| {name} | {case.rlc.upper()} | {100 * channel.failed[0]:.1f} % | {' | '.join(cells)} |"
        )
    shares = ["| users at | scheduler | shares |", "| --- | --- | --- |"]
    for case, _, many in several:
        places = ", ".join(f"{place} m" for place in case.distances)
        shares.append(f"| {places} | {case.scheduler.upper()} | {'; '.join(one.entry() for one in many)} |")
    blocks = [
        "# The cellular cell against ns-3",
        "Generated by `python -m validation.cellular`; do not edit.",
        wrap(
            INTRODUCTION.format(
                bytes=BYTES,
                warmup=WARMUP_S,
                end=END_S,
                runs=len(RUNS),
                reordering=REORDERING_MS,
                rest=REST_MS,
                status=STATUS_MS,
            )
        ),
        items(
            (
                f"{version}, {dt.datetime.now(tz=dt.UTC).date()}",
                f"{len(everything)} figures, {outside} outside",
            )
        ),
        wrap(RULE),
        "\n".join(rows),
        "\n".join(shares),
        "## Where ns-3 reads TS 36.322 otherwise",
        DIFFERS.strip(),
    ]
    return "\n\n".join(blocks) + "\n"


def main() -> None:
    """Compare and write the page, if ns-3 is there."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="cases at once")
    arguments = parser.parse_args()
    version = ns3.version()
    if version == "not installed":
        print(f"ns-3 is not installed (Debian package libns3-dev): {PAGE.name} stays as it is")
        return
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        with ThreadPoolExecutor(arguments.jobs) as pool:
            found = list(pool.map(lambda case: compare(program, case), cases()))
    PAGE.write_text(page(found, version), encoding="utf-8")
    print(f"written: {PAGE.name}")


if __name__ == "__main__":
    main()
