"""GCC beside pion's: `python -m validation.gcc_beside_pion FOLDER`.

FOLDER is a checkout of github.com/pion/interceptor. Calls with GCC run over some paths; pion's delay-based
controller then gets the same packets with the same times of sending and arrival, report by report, in a clock
of its own (`gcc_beside_pion.go`). Compared is when both find that the path is overused. The command writes
`docs/reference/validation-gcc.md` and needs Go.
"""

from __future__ import annotations

import itertools
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

import lasthop as lh
from validation.media_cases import jitter

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "validation-gcc.md"
COMMAND = "python -m validation.gcc_beside_pion"
JUDGE = Path(__file__).with_suffix(".go")
SEEDS = range(1, 6)
DURATION_S = 120
#: What is over within this time is one decision, and decisions this near to each other are the same.
ONE_S, SAME_S = 1.0, 0.5
#: A fall of the rate within an interval of the series that is a decision.
FALL = 0.97
#: Of pion's threshold: its own, and those of WebRTC, which are ours.
GAINS = ("pion", "webrtc")
#: Steps of transport-wide feedback, in ns.
STEP_NS = 250_000


def steps(*others: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """Return a path of two nodes whose rate changes."""
    link = {
        "name": "path",
        "from": "server",
        "to": "phone",
        "rate": "1 Mbit/s",
        "rate_changes": [
            {"at": "40 s", "rate": "500 kbit/s"},
            {"at": "60 s", "rate": "1.2 Mbit/s"},
            {"at": "90 s", "rate": "600 kbit/s"},
        ],
        "delay": "50 ms",
        "queue": {"kind": "drop-tail", "limit": "37500 B"},
        "reverse": {"rate": "100 Mbit/s", "queue": "unlimited", "rate_changes": []},
        **keys,
    }
    topology = {"kind": "graph", "nodes": ["server", "phone"], "links": [link]}
    return {"topology": topology, "flows": list(others)}


def cell() -> dict[str, Any]:
    """Return a phone in a cell whose channel changes, with blocks that HARQ repairs."""
    cqi = {
        "start": 6,
        "changes": [{"at": "40 s", "cqi": 3}, {"at": "60 s", "cqi": 7}, {"at": "90 s", "cqi": 4}],
    }
    wire = {"from": "server", "to": "base", "rate": "1 Gbit/s", "delay": "30 ms", "queue": "unlimited"}
    radio = {"base": "base", "resource_blocks": 6, "users": [{"node": "phone", "cqi": cqi}]}
    nodes = ["server", "base", "phone"]
    return {
        "topology": {"kind": "graph", "nodes": nodes, "links": [wire], "cellular": [radio]},
        "flows": [],
    }


BESIDE = {
    "name": "file",
    "source": "server",
    "sink": "phone",
    "transport": "newreno",
    "traffic": "ftp",
    "start": "40 s",
    "stop": "80 s",
}
IMPAIR = {"kind": "impair", "distribution": "table", "table": jitter()}
PATHS: dict[str, dict[str, Any]] = {
    "rate of 1, 0.5, 1.2 and 0.6 Mbit/s": steps(),
    "the same, delays vary by up to 15 ms": steps(middleboxes=[IMPAIR]),
    "2 Mbit/s, beside a TCP from 40 to 80 s": steps(BESIDE, rate="2 Mbit/s", rate_changes=[]),
    "a cell, CQI of 6, 3, 7 and 4": cell(),
}


@dataclass(frozen=True)
class Decision:
    """When the path was found to be overused, and the rate at which packets then arrived, in bit/s."""

    at: float
    received: float


def scenario(path: dict[str, Any]) -> dict[str, Any]:
    """Return the scenario of a call over a path."""
    call = {
        "name": "call",
        "source": "server",
        "sink": "phone",
        "start": "0 s",
        "transport": {"rate": "gcc", "feedback": "transport-wide"},
        "traffic": {"kind": "video-call", "model": "rfc8867"},
    }
    measure = {"series_interval": "50 ms"}
    flows = [call, *path["flows"]]
    return {"duration": f"{DURATION_S} s", "measure": measure, "topology": path["topology"], "flows": flows}


def firsts(decisions: list[Decision]) -> list[Decision]:
    """Return the first of those that follow upon each other."""
    found: list[Decision] = []
    last = -ONE_S
    for one in decisions:
        if one.at - last >= ONE_S:
            found.append(one)
        last = one.at
    return found


def nearest(one: Decision, others: list[Decision]) -> Decision | None:
    """Return the one among others that is the same decision."""
    near = min(others, key=lambda other: abs(other.at - one.at), default=None)
    return near if near is not None and abs(near.at - one.at) <= SAME_S else None


def ours(run: lh.Run) -> list[Decision]:
    """Return when our rate fell."""
    series = run.series.filter(pl.col("flow") == "call")
    rates = list(zip(series["time_s"], series["allowed_rate_bit_s"], strict=True))
    return [
        Decision(at, rate / 0.85)
        for (_, before), (at, rate) in itertools.pairwise(rates)
        if before and rate and rate < FALL * before
    ]


def arrivals(run: lh.Run) -> str:
    """Return what reports told the sender: packets sent and arrived, and the reports, in order."""
    hops = run.hops.filter(pl.col("flow") == "call")
    whole = hops.group_by("packet").agg(
        pl.col("enqueue_ns").min().alias("sent"),
        pl.col("arrive_ns").max().alias("arrived"),
        pl.col("wire_bytes").first().alias("bytes"),
        (pl.col("outcome").cast(str) == "delivered").all().alias("delivered"),
        (pl.col("kind").cast(str) == "udp").first().alias("is_data"),
    )
    whole = whole.filter(pl.col("delivered"))
    packets = whole.filter(pl.col("is_data")).sort("arrived").rows(named=True)
    lines, taken = [], 0
    for report in whole.filter(~pl.col("is_data")).sort("sent").rows(named=True):
        until = taken
        while until < len(packets) and packets[until]["arrived"] <= report["sent"]:
            until += 1
        if until == taken:
            continue
        newest = packets[until - 1]
        told = sorted(packets[taken:until], key=lambda one: one["sent"])
        lines += [f"{one['sent']} {one['arrived'] // STEP_NS * STEP_NS} {one['bytes']}" for one in told]
        rtt = report["arrived"] - newest["sent"] - (report["sent"] - newest["arrived"])
        lines.append(f"{report['arrived']} {rtt} 0")
        taken = until
    return "\n".join(lines) + "\n"


def theirs(program: Path, run: lh.Run, gains: str, folder: Path) -> list[Decision]:
    """Return when pion found an overuse on the same arrivals."""
    listed, decided = folder / "arrivals", folder / "decisions"
    listed.write_text(arrivals(run))
    command = [program, "-test.run", "TestBesideLasthop"]
    environment = os.environ | {"ARRIVALS": str(listed), "DECISIONS": str(decided), "GAINS": gains}
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    lines = [line.split() for line in decided.read_text().splitlines()]
    return [Decision(int(at) / 1e9, float(rate)) for at, over, rate in lines if int(over)]


def row(name: str, gains: str, program: Path, folder: Path) -> str:
    """Compare over one path, with all seeds."""
    found, also, apart, rates, extra, lone = 0, 0, [], [], 0, 0
    for seed in SEEDS:
        run = lh.run(scenario(PATHS[name]), seed=seed, series=True, trace=True)
        mine, pion = ours(run), theirs(program, run, gains, folder)
        found += len(firsts(mine))
        also += len(firsts(pion))
        extra += sum(nearest(one, mine) is None for one in firsts(pion))
        for one in firsts(mine):
            near = nearest(one, pion)
            if near is None:
                lone += 1
                continue
            apart.append(near.at - one.at)
            rates.append(near.received / one.received)
    shift = f"{1e3 * statistics.median(apart):.0f}" if apart else "–"
    rate = f"{statistics.median(rates):.2f}" if rates else "–"
    return f"| {name} | {gains} | {found} | {also} | {found - lone} | {lone} | {extra} | {shift} | {rate} |"


def main() -> None:
    """Build pion with the judge in it, compare, and write the page."""
    source = Path(sys.argv[1] if len(sys.argv) == 2 else sys.exit(f"usage: {COMMAND} FOLDER"))
    version = subprocess.run(
        ["git", "-C", source, "rev-parse", "--short=7", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tree = shutil.copytree(source, folder / "pion", ignore=shutil.ignore_patterns(".git"))
        shutil.copy(JUDGE, tree / "pkg" / "gcc" / "beside_lasthop_test.go")
        program = folder / "judge"
        subprocess.run(["go", "test", "-c", "-o", program, "./pkg/gcc/"], cwd=tree, check=True)
        rows = [row(path, gains, program, folder) for gains in GAINS for path in PATHS]
    PAGE.write_text(
        f"""# GCC beside pion's

<!-- Written by `{COMMAND} FOLDER`; changes here are overwritten. -->

A call with `gcc` runs over a path for {DURATION_S} s. Then the delay-based controller of pion (Go,
github.com/pion/interceptor at {version}) gets the same packets, with the same times of sending and arrival in
steps of transport-wide feedback, in the same reports, in a clock of its own. Its rate leads nothing: only its
decisions are compared. A decision of ours is a fall of the rate, one of pion's an overuse; those that follow
within {ONE_S:g} s are one, and those of both within {SAME_S:g} s are the same. Sums over {len(SEEDS)} seeds;
medians of how much later pion's is, and of the rate that it has for what arrived, over ours.

| path | gains | ours | pion's | the same | ours alone | pion's alone | later by (ms) | received rate |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
{chr(10).join(rows)}

Both follow draft-ietf-rmcat-gcc, with other parts. Ours has the line through 20 points and the gains of the
threshold of WebRTC today (0.0087 up, 0.039 down); pion has the Kalman filter of the draft and 0.01 up,
0.00018 down, so its threshold hardly falls and it decides less often. With the gains of WebRTC it finds
nearly every overuse that ours finds; where delays vary it then finds twice as many more, since its filter
smooths less. Ours alone are also falls for losses. Where pion's overuse lasts, one of its decisions meets
several of ours. The received rate is measured over 500 ms there and by WebRTC's estimator here; what the rate
falls to is 0.85 of it in both.
""",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
