"""CUBIC against Prague over a last hop that comes in bursts: `python -m validation.bursts [--seeds N]`.

One flow of each, both with RACK-TLP and ECN, over the same queue; the last hop sends smoothly, in batches, or
with pauses. The command writes `docs/reference/l4s-bursts.md`.
"""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lasthop as lh
from validation.media import wrap
from validation.today import asked, column, total
from validation.today_page import cell

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "l4s-bursts.md"

SEEDS = 5
SECONDS, WARMUP = 60, 15
RATE_MBIT = 20
RTTS_MS = (10, 50)
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


def batches(every_ms: int) -> str:
    """Return the opportunities of Mahimahi, a line each: all of a batch in the same millisecond."""
    lines, sent = [], 0
    for number in range(1, 4):
        at = every_ms * number
        due = RATE_MBIT * 1000 * at // PACKET_BITS
        lines += [str(at)] * (due - sent)
        sent = due
    return "\n".join(lines) + "\n"


def _smooth(queue: Any, _: Path) -> dict[str, Any]:
    return {"rate": f"{RATE_MBIT} Mbit/s", "queue": queue}


def _batches(every_ms: int) -> Callable[[Any, Path], dict[str, Any]]:
    def link(queue: Any, folder: Path) -> dict[str, Any]:
        (folder / "batches").write_text(batches(every_ms), encoding="utf-8")
        return {"trace": {"kind": "mahimahi", "file": "batches"}, "queue": queue}

    return link


def _pauses(queue: Any, _: Path) -> dict[str, Any]:
    times = [f"{at} s" for at in range(15, SECONDS, 15)]
    handoff = {"outage": "100 ms", "at": times, "policy": "hold"}
    return {"rate": f"{RATE_MBIT} Mbit/s", "queue": queue, "handoff": handoff}


HOPS: dict[str, Callable[[Any, Path], dict[str, Any]]] = {
    "smooth": _smooth,
    **{f"batches every {every} ms": _batches(every) for every in BATCHES_MS},
    "pauses of 100 ms": _pauses,
}


@dataclass(frozen=True)
class Case:
    """What is run: the queue, the last hop and the base RTT in ms."""

    queue: str
    hop: str
    rtt_ms: int


def content(case: Case, folder: Path) -> dict[str, Any]:
    """Return the scenario; files that it names are written into `folder`."""
    last = HOPS[case.hop](QUEUES[case.queue], folder)
    flow = {"source": "server", "sink": "host", "start": {"uniform": ["0 s", "1 s"]}}
    counted = {"accurate_ecn": True} if case.queue == COUNTED else {}
    cubic = {"cc": "cubic", "recovery": "rack", "tlp": True, "ecn": True, **counted}
    return {
        "name": f"{case.queue}, {case.hop}"[:100],
        "duration": f"{SECONDS} s",
        "warmup": f"{WARMUP} s",
        "tcp": {"profile": "linux", "receiver_window": "3000 packets"},
        "topology": {
            "kind": "graph",
            "nodes": ["server", "edge", "host"],
            "links": [
                {
                    "from": "server",
                    "to": "edge",
                    "rate": "1 Gbit/s",
                    "delay": f"{case.rtt_ms * 250} us",
                    "queue": "unlimited",
                },
                {"from": "edge", "to": "host", "delay": f"{case.rtt_ms * 250} us", **last}
                | {"reverse": {"rate": "100 Mbit/s", "queue": "unlimited", "handoff": "none"}},
            ],
        },
        "flows": [
            {"name": "cubic", "transport": cubic, **flow},
            {"name": "prague", "transport": {"preset": "prague", **counted}, **flow},
        ],
    }


def _ratio(run: lh.Run) -> float | None:
    prague, cubic = (column(name, "goodput_bit_s", 1.0)(run) for name in ("prague", "cubic"))
    return None if not prague or not cubic else prague / cubic


#: Heading and what is taken from a run.
MEASURES: dict[str, Callable[[lh.Run], float | None]] = {
    "Prague / CUBIC": _ratio,
    "together (Mbit/s)": total("goodput_bit_s", 1e-6),
    "Prague, delay 50 % (ms)": column("prague", "delay_p50_s", 1e3),
    "Prague, delay 99 % (ms)": column("prague", "delay_p99_s", 1e3),
    "CUBIC, delay 50 % (ms)": column("cubic", "delay_p50_s", 1e3),
    "CUBIC, delay 99 % (ms)": column("cubic", "delay_p99_s", 1e3),
}

#: By measure the values of seeds.
Values = dict[str, list[float | None]]


def measured(task: tuple[Case, int]) -> Values:
    """Run a case over seeds."""
    case, seeds = task
    with tempfile.TemporaryDirectory() as folder:
        scenario = lh.Scenario(content(case, Path(folder)), folder=folder)
        runs = lh.run_seeds(scenario, range(1, seeds + 1), jobs=1)
    return {name: [of(run) for run in runs] for name, of in MEASURES.items()}


INTRODUCTION = """
One CUBIC download and one Prague download share {rate} Mbit/s; both use RACK-TLP and ECN, and Prague
sends ECT(1). The queue is in front of the last hop. Values are means with 95 % intervals over {seeds}
seeds of {seconds} s, without the first {warmup} s. Delays are one-way and include half of the base RTT."""
WHAT = """
Batches are those of a replayed trace: no packet for the length of an interval, then all the packets
that the rate allows in it. A queue that marks ECT(1) when a packet has waited for 1 ms, as DualPI2 and
`ce_threshold` do, marks nearly every packet behind batches of 5 ms and more, although no standing queue
exists. Prague then falls to its minimum window, and where CUBIC is limited as well, the hop stays
partly idle. RFC 9332 warns of this. PIE marks ECT(1) as rarely as it would drop, so Prague takes most
of the capacity from CUBIC: RFC 9331 allows ECT(1) only where a queue supports it. Counted marks
(Accurate ECN, RFC 9768) make no difference behind DualPI2."""
LEFT = """
- Both senders and all queues are our own. Prague was checked against the closed form of its steady state and
  against the source of its kernel module, not against a run of it.
- Where marks are not counted (Accurate ECN, RFC 9768), feedback is the exact echo of DCTCP.
- There is one flow of each, and no Wi-Fi cell.
"""


def page(found: dict[Case, Values], seeds: int) -> str:
    """Return the page."""
    blocks = [
        "# Prague and CUBIC over a last hop in bursts",
        "<!-- Written by `python -m validation.bursts`; changes here are overwritten. -->",
        wrap(INTRODUCTION.format(rate=RATE_MBIT, seeds=seeds, seconds=SECONDS, warmup=WARMUP)),
        wrap(WHAT),
    ]
    for queue in QUEUES:
        rows = [f"| last hop | base RTT (ms) | {' | '.join(MEASURES)} |"]
        rows.append("| --- | ---: |" + " ---: |" * len(MEASURES))
        for hop, rtt in product(HOPS, RTTS_MS):
            cells = [cell(values) for values in found[Case(queue, hop, rtt)].values()]
            rows.append(f"| {hop} | {rtt} | {' | '.join(cells)} |")
        blocks += [f"## {queue}", "\n".join(rows)]
    return "\n\n".join([*blocks, "## What this does not show", LEFT.strip()]) + "\n"


def main() -> None:
    """Run everything and write the page."""
    arguments = asked(__doc__, SEEDS)
    cases = [Case(*values) for values in product(QUEUES, HOPS, RTTS_MS)]
    found: dict[Case, Values] = {}
    with ProcessPoolExecutor(arguments.jobs) as pool:
        tasks = [(case, arguments.seeds) for case in cases]
        for number, (case, values) in enumerate(zip(cases, pool.map(measured, tasks), strict=True), 1):
            found[case] = values
            print(f"\r{number} of {len(cases)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    PAGE.write_text(page(found, arguments.seeds), encoding="utf-8")


if __name__ == "__main__":
    main()
