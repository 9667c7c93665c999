"""Simulation beside the kernel's TCP over a grid: `python -m validation.parity [--runs N]`.

One flow over a wired link and a last hop, for each congestion control that the running kernel offers, each
loss rate and each buffer: simulated in the profile ``linux``, and emulated with sockets of the kernel in
real time with the same seeds, so that both lose the same packets. Writes `docs/reference/parity.md` with the
remarks of ``validation/parity-notes.md``; needs root and /dev/net/tun, and takes half an hour. What has been
run is kept in ``out/parity.json``, so that it can be gone on with. Called by `make bench-live`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import platform
import sys
import textwrap
from itertools import product
from pathlib import Path
from typing import Any

import lasthop as lh
from lasthop import live, parity, stats

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "parity.md"
KEPT = ROOT / "out" / "parity.json"

ALGORITHMS = ("reno", "cubic", "bbr", "vegas", "veno", "westwood")
LOSSES = (0.0, 0.005, 0.01, 0.03)
#: The last hop: 5 Mbit/s, and 2 x 70 ms there and back.
RATE_BIT_S, RTT_S, PACKET = 5e6, 0.14, 1500
#: In products of rate and delay.
BUFFERS = (0.5, 2.0)
#: How late 1 % of the packets may be: nothing that is compared here depends on less.
BUDGET_S = 2e-3
#: Of the lines of the page.
WIDTH = 118

METRICS = (
    ("goodput", "Mbit/s", 1e6, 2),
    ("retransmitted", "packets", 1, 0),
    ("longest mean queue", "packets", 1, 1),
    ("mean RTT", "ms", 1e-3, 0),
)


def scenario(loss: float, buffer: float, duration_s: float) -> lh.Scenario:
    """Return the path with one flow."""
    packets = round(buffer * RATE_BIT_S * RTT_S / 8 / PACKET)
    error: Any = {"kind": "bernoulli", "packet_error_rate": loss} if loss else "none"
    return lh.Scenario(
        {
            "name": "parity",
            "duration": f"{duration_s:g} s",
            "topology": {
                "kind": "graph",
                "nodes": ["server", "base", "phone"],
                "links": [
                    {
                        "from": "server",
                        "to": "base",
                        "rate": "100 Mbit/s",
                        "delay": "50 ms",
                        "queue": {"kind": "drop-tail", "limit": "1000 packets"},
                    },
                    {
                        "from": "base",
                        "to": "phone",
                        "rate": "5 Mbit/s",
                        "delay": "20 ms",
                        "queue": {"kind": "drop-tail", "limit": f"{packets} packets"},
                        "error": error,
                        "reverse": {"error": "none"},
                    },
                ],
            },
            "flows": [
                {
                    "name": "download",
                    "source": "server",
                    "sink": "phone",
                    "start": "0 s",
                    "transport": "cubic",
                    "traffic": "ftp",
                }
            ],
        }
    )


def cell(algorithm: str, loss: float, buffer: float, runs: int, duration_s: float) -> dict[str, Any]:
    """Run one cell on both sides; values by metric, and the emulated runs that are missing."""
    path = parity.simulated(scenario(loss, buffer, duration_s), algorithm)
    value_of = {name: value for name, _, value in parity.METRICS}
    seeds = range(1, runs + 1)
    ours = list(lh.run_seeds(path, seeds))
    theirs = [parity.punctual(path, algorithm, seed, BUDGET_S)[0] for seed in seeds]
    late = [run.record["live"]["late_p99_s"] for run in theirs if run is not None]
    return {
        "simulated": {name: [value_of[name](run) for run in ours] for name, *_ in METRICS},
        "emulated": {name: [run and value_of[name](run) for run in theirs] for name, *_ in METRICS},
        "late_p99_s": max(late, default=None),
        "missing": theirs.count(None),
    }


def differs(ours: list[float | None], theirs: list[float | None]) -> bool | None:
    """Whether the same seeds give something else, beyond chance and by more than is negligible."""
    difference = stats.paired_difference(theirs, ours)
    mean = stats.mean(ours)
    if difference is None or difference.low is None or mean is None:
        return None
    return difference.excludes_zero() and abs(difference.mean) > parity.NEGLIGIBLE * abs(mean)


def text_of(values: list[float | None], scale: float, digits: int) -> str:
    """Return a mean."""
    mean = stats.mean(values)
    return "–" if mean is None else f"{mean / scale:.{digits}f}"


def largest_gap(found: dict[str, Any], algorithm: str) -> float:
    """Return the largest difference of goodput between two runs of one seed, as a share of the simulated."""
    gaps = [
        abs(theirs / ours - 1)
        for key, values in found.items()
        if key.startswith(f"{algorithm}/")
        for ours, theirs in zip(values["simulated"]["goodput"], values["emulated"]["goodput"], strict=True)
        if theirs is not None
    ]
    return max(gaps, default=0.0)


def page(found: dict[str, Any], names: list[str], runs: int, duration_s: float) -> str:
    """Return the page."""
    absent = [name for name in ALGORITHMS if name not in names]
    today = dt.datetime.now(dt.UTC).date().isoformat()
    about = (
        "One flow over a wired link (100 Mbit/s, 50 ms) and a last hop (5 Mbit/s, 20 ms) that loses packets "
        "of its data: simulated in the profile `linux`, and emulated with sockets of the kernel over the "
        f"same links ([how](../how-to/emulate-a-path.md)), with the same {runs} seeds, {duration_s:g} s each "
        "from the opening of the connection on. The channel decides packet by packet, so that a seed loses "
        "the same packets on both sides as long as these come in the same order. The buffer before the last "
        "hop holds half a product of rate and delay, or two. Each entry is simulated / kernel, means over "
        "the seeds. **Bold**: they differ by more than 3 %, and seed by seed in the same sense (a paired "
        "interval of 95 % without zero)."
    )
    lines = [
        "# Simulation beside the kernel's TCP",
        "",
        f"Written by `make bench-live` on {today}, Linux {platform.release()}.",
        "",
        textwrap.fill(about, WIDTH, break_on_hyphens=False),
        "",
    ]
    if absent:
        lines += [
            f"This kernel offers {', '.join(live.algorithms())}; {', '.join(absent)} were not compared.",
            "",
        ]
    headings = [f"{name} ({unit})" for name, unit, *_ in METRICS]
    lines += [
        f"| | PER | buffer | {' | '.join(headings)} |",
        f"| --- | --- | --- |{' --- |' * len(headings)}",
    ]
    worst, missing, differ, compared = 0.0, 0, 0, 0
    for algorithm, loss, buffer in product(names, LOSSES, BUFFERS):
        values = found[f"{algorithm}/{loss:g}/{buffer:g}"]
        worst = max(worst, values["late_p99_s"] or 0.0)
        missing += values["missing"]
        row = [algorithm, f"{loss:.1%}", f"{buffer:g}"]
        for name, _, scale, digits in METRICS:
            ours, theirs = values["simulated"][name], values["emulated"][name]
            text = f"{text_of(ours, scale, digits)} / {text_of(theirs, scale, digits)}"
            real = differs(ours, theirs)
            compared += real is not None
            differ += bool(real)
            row.append(f"**{text}**" if real else text)
        lines.append(f"| {' | '.join(row)} |")
    summary = (
        f"{differ} of {compared} pairs differ. 99 % of the packets of a run were less than "
        f"{worst * 1e3:.2f} ms late; {missing} runs were later than {BUDGET_S * 1e3:g} ms three times over "
        "and are left out. The largest difference of goodput between two runs of one seed: "
        + ", ".join(f"{name} {largest_gap(found, name):.1%}" for name in names)
        + "."
    )
    lines += [
        "",
        textwrap.fill(summary, WIDTH),
        "",
    ]
    notes = ROOT / "validation" / "parity-notes.md"
    if notes.exists():
        lines += [notes.read_text(encoding="utf-8").rstrip(), ""]
    return "\n".join(lines)


def main() -> int:
    """Run what is missing and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=4, help="emulated runs of each cell")
    parser.add_argument("--duration", type=float, default=15.0, help="seconds of each run")
    arguments = parser.parse_args()
    live.refuse_without_means()
    names = [name for name in ALGORITHMS if name in live.algorithms()]
    KEPT.parent.mkdir(exist_ok=True)
    found: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    for algorithm, loss, buffer in product(names, LOSSES, BUFFERS):
        key = f"{algorithm}/{loss:g}/{buffer:g}"
        if key not in found:
            print(key, file=sys.stderr)
            found[key] = cell(algorithm, loss, buffer, arguments.runs, arguments.duration)
            KEPT.write_text(json.dumps(found), encoding="utf-8")
    PAGE.write_text(page(found, names, arguments.runs, arguments.duration), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
