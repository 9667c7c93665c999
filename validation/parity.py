"""Simulation beside the kernel's TCP over a grid: `python -m validation.parity [--runs N]`.

One flow over a wired link and a last hop, for each congestion control, each loss rate and each buffer:
simulated in the profile ``linux``, emulated with sockets of the kernel in real time, if the running kernel
offers it or there is a twin of ours, and emulated with these sockets steered by the controller of the
simulation; all with the same seeds, so that they lose the same packets. Writes `docs/reference/parity.md`
with the remarks of ``validation/parity-notes.md``; needs root and what `lasthop steer` needs, and takes five
minutes with sixteen emulations at a time, each of which takes a few percent of a core. What has been run is
kept in ``out/parity.json``, so that it can be gone on with. Called by `make bench-live`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import multiprocessing
import os
import platform
import sys
import textwrap
from itertools import product
from pathlib import Path
from typing import Any

import lasthop as lh
from lasthop import live, parity, stats, steer

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "parity.md"
KEPT = ROOT / "out" / "parity.json"
PICTURE = PAGE.with_name("parity-windows.png")
#: Of whose windows there is a picture.
WINDOWS = ("reno", "cubic", "bbr")

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
#: Steered Reno has to do as the kernel's Reno does: how closely, in how many runs, at which PER.
CLOSE, CLOSE_RUNS, CLOSE_LOSSES = 0.05, 10, LOSSES[:3]
SIDES = ("simulated", "emulated", "steered")

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
    """Run one cell on each side; values by metric, and the emulated runs that are missing."""
    path = parity.simulated(scenario(loss, buffer, duration_s), algorithm)
    seeds = range(1, runs + 1)

    def carried(kernel: str) -> list[lh.Run | None]:
        return [parity.punctual(path, kernel, seed, BUDGET_S)[0] for seed in seeds]

    sides: dict[str, Any] = {
        "simulated": list(lh.run_seeds(path, seeds)),
        "emulated": carried(own) if (own := parity.in_kernel(algorithm)) else [],
        "steered": carried(steer.STEERED + parity.LAWS[algorithm]),
    }
    real = [run for side in ("emulated", "steered") for run in sides[side]]
    late = [run.record["live"]["late_p99_s"] for run in real if run is not None]
    value_of = {name: value for name, _, value in parity.METRICS}
    found: dict[str, Any] = {
        side: {name: [run and value_of[name](run) for run in of_side] for name, *_ in METRICS}
        for side, of_side in sides.items()
    }
    return found | {
        "late_p99_s": max(late, default=None),
        "missing": real.count(None),
        "load": os.getloadavg()[0],
    }


def draw_windows(duration_s: float = 60.0) -> None:
    """Draw windows and queues over time: one run of each side, one below the other, with the same losses."""
    from matplotlib.figure import Figure

    from lasthop.drawing import COLOURS

    rows = [(name, loss) for name in WINDOWS if name in live.algorithms() for loss in (0.0, 0.005)]
    figure = Figure(figsize=(9.6, 2.3 * len(rows)), layout="constrained")
    for (name, loss), axes in zip(rows, figure.subplots(len(rows), 1, sharex=True), strict=True):
        path = parity.simulated(scenario(loss, 2.0, duration_s), name)
        sides = {
            "simulated": lh.run(path, seed=1, series=True),
            "kernel": live.emulate(path, kernel=name, seed=1, budget_s=BUDGET_S, series=True),
        }
        for (side, run), colour, dash in zip(sides.items(), COLOURS, ("-", "--"), strict=False):
            series = run.series
            axes.plot(series["time_s"], series["cwnd_segments"], color=colour, linestyle=dash, label=side)
        axes.set_ylabel(f"{name}, PER {loss:g}" + chr(10) + "cwnd (segments)")
        axes.grid(visible=True, color="#e6e6e6", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8, loc="upper right")
    axes.set_xlabel("time (s)")
    axes.set_xlim(0, duration_s)
    figure.savefig(PICTURE, dpi=110)
    print(f"wrote {PICTURE.relative_to(ROOT)}")


def runs_of(algorithm: str, loss: float, runs: int) -> int:
    """Return how many runs a cell takes: Reno, which the steered one has to equal, takes more."""
    return max(runs, CLOSE_RUNS) if algorithm == "reno" and loss in CLOSE_LOSSES else runs


def run_cell(order: tuple[str, float, float, int, float]) -> tuple[str, dict[str, Any]]:
    """Run one cell in a process of its own."""
    algorithm, loss, buffer, *_ = order
    return f"{algorithm}/{loss:g}/{buffer:g}", cell(*order)


def differs(ours: list[float | None], theirs: list[float | None]) -> bool | None:
    """Whether the same seeds give something else, beyond chance and by more than is negligible."""
    if not theirs:
        return None
    difference = stats.paired_difference(theirs, ours)
    mean = stats.mean(ours)
    if difference is None or difference.low is None or mean is None:
        return None
    return difference.excludes_zero() and abs(difference.mean) > parity.NEGLIGIBLE * abs(mean)


def text_of(values: list[float | None], scale: float, digits: int) -> str:
    """Return a mean."""
    mean = stats.mean(values)
    return "–" if mean is None else f"{mean / scale:.{digits}f}"


def entry(values: dict[str, Any], name: str, scale: float, digits: int) -> tuple[str, list[bool | None]]:
    """Return what a cell says of a metric, and whether kernel and steered kernel differ from their side."""
    ours, theirs, steered = (values[side][name] for side in SIDES)
    real = [differs(ours, theirs), differs(theirs or ours, steered)]
    shown = [text_of(side, scale, digits) for side in (theirs, steered)]
    marked = [f"**{text}**" if is_real else text for text, is_real in zip(shown, real, strict=True)]
    return " / ".join([text_of(ours, scale, digits), *marked]), real


def closeness(found: dict[str, Any]) -> list[str]:
    """Return the table of steered Reno and the kernel's Reno."""
    lines = [
        "## Steered Reno compared with the kernel's Reno",
        "",
        textwrap.fill(
            f"The same cells, with means of the goodput over {CLOSE_RUNS} seeds (Mbit/s). Steering may "
            f"change it by {CLOSE:.0%}. The last column is a 95 % interval of the difference seed by seed.",
            WIDTH,
        ),
        "",
        "| PER | buffer | kernel | steered | difference | interval |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for loss, buffer in product(CLOSE_LOSSES, BUFFERS):
        values = found[f"reno/{loss:g}/{buffer:g}"]
        kernel, steered = values["emulated"]["goodput"], values["steered"]["goodput"]
        both = [(a, b) for a, b in zip(kernel, steered, strict=True) if a is not None and b is not None]
        first, second = (sum(side) / len(both) for side in zip(*both, strict=True))
        gap = second / first - 1
        change = stats.paired_difference([b for _, b in both], [a for a, _ in both])
        ends = [] if change is None else [change.low, change.high]
        interval = " to ".join("–" if end is None else f"{end / first:+.1%}" for end in ends) or "–"
        shown = f"{gap:+.1%}" if abs(gap) <= CLOSE else f"**{gap:+.1%}**"
        lines.append(
            f"| {loss:.1%} | {buffer:g} | {first / 1e6:.3f} | {second / 1e6:.3f} | {shown} | {interval} |"
        )
    return [*lines, ""]


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


def page(found: dict[str, Any], runs: int, duration_s: float) -> str:
    """Return the page."""
    absent = [name for name in ALGORITHMS if not parity.in_kernel(name)]
    twins = [name for name in ALGORITHMS if (parity.in_kernel(name) or "").startswith(steer.TWIN)]
    today = dt.datetime.now(dt.UTC).date().isoformat()
    about = (
        "One flow over a wired link (100 Mbit/s, 50 ms) and a last hop (5 Mbit/s, 20 ms) that loses packets "
        "of its data: simulated in the profile `linux`, emulated with sockets of the kernel over the "
        "same links ([how](../how-to/emulate-a-path.md)), and emulated with these sockets steered by the "
        "controller of the simulation ([how](../how-to/try-your-own-controller.md)). Each with the same "
        f"{runs} seeds (Reno up to 1 %: {CLOSE_RUNS}), {duration_s:g} s "
        "from the opening of the connection on. The channel decides packet by packet, so that a seed loses "
        "the same packets on each side as long as they come in the same order. The buffer before the last "
        "hop holds half a bandwidth-delay product, or two. Each entry is simulated / kernel / steered, "
        "means over the seeds. **Bold**: the kernel differs from the simulation, or the steered kernel from "
        "the kernel itself (from the simulation where the kernel does not have the controller), by more than "
        "3 %, and the paired 95 % interval excludes zero."
    )
    lines = [
        "# Simulation compared with the kernel's TCP",
        "",
        f"Written by `make bench-live` on {today}, Linux {platform.release()}.",
        "",
        textwrap.fill(about, WIDTH, break_on_hyphens=False),
        "",
    ]
    lacks = [
        *([f"{', '.join(absent)}, whose middle values are missing"] if absent else []),
        *([f"{', '.join(twins)}, for which our twins run in the kernel (†)"] if twins else []),
    ]
    if lacks:
        lines += [textwrap.fill(f"This kernel does not have {'; nor '.join(lacks)}.", WIDTH), ""]
    headings = [f"{name} ({unit})" for name, unit, *_ in METRICS]
    lines += [
        f"| | PER | buffer | {' | '.join(headings)} |",
        f"| --- | --- | --- |{' --- |' * len(headings)}",
    ]
    worst, missing, load = 0.0, 0, 0.0
    verdicts: list[list[bool | None]] = []
    for algorithm, loss, buffer in product(ALGORITHMS, LOSSES, BUFFERS):
        values = found[f"{algorithm}/{loss:g}/{buffer:g}"]
        worst, load = max(worst, values["late_p99_s"] or 0.0), max(load, values["load"])
        missing += values["missing"]
        entries = [entry(values, name, scale, digits) for name, _, scale, digits in METRICS]
        verdicts += [real for _, real in entries]
        name = f"{algorithm} †" if algorithm in twins else algorithm
        lines.append(f"| {name} | {loss:.1%} | {buffer:g} | {' | '.join(text for text, _ in entries)} |")
    counts = [
        f"{sum(map(bool, side))} of {sum(real is not None for real in side)}"
        for side in zip(*verdicts, strict=True)
    ]
    gaps = [name for name in ALGORITHMS if name not in absent]
    summary = (
        f"{counts[0]} pairs of simulation and kernel differ, and {counts[1]} of kernel and steered kernel. "
        f"99 % of the packets of a run were less than {worst * 1e3:.2f} ms late, at load averages of up to "
        f"{load:.1f}; {missing} runs were later than {BUDGET_S * 1e3:g} ms three times and are left out. "
        "The largest difference of goodput between a simulation and a run of the kernel with one seed: "
        + ", ".join(f"{name} {largest_gap(found, name):.1%}" for name in gaps)
        + "."
    )
    lines += ["", textwrap.fill(summary, WIDTH), "", *closeness(found)]
    notes = ROOT / "validation" / "parity-notes.md"
    if notes.exists():
        lines += [notes.read_text(encoding="utf-8").rstrip(), ""]
    about = "Windows of Reno, CUBIC and BBR over time, simulated and in the kernel"
    lines += [f"![{about}]({PICTURE.name})", ""]
    return "\n".join(lines)


def main() -> int:
    """Run what is missing and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3, help="emulated runs of each cell")
    parser.add_argument("--duration", type=float, default=15.0, help="seconds of each run")
    parser.add_argument("--jobs", type=int, default=16, help="emulations at a time")
    parser.add_argument("--windows", action="store_true", help="draw windows over time, and nothing else")
    arguments = parser.parse_args()
    live.refuse_without_means()
    if arguments.windows:
        draw_windows()
        return 0
    KEPT.parent.mkdir(exist_ok=True)
    found: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    orders = [
        (*which, runs_of(which[0], which[1], arguments.runs), arguments.duration)
        for which in product(ALGORITHMS, LOSSES, BUFFERS)
        if "{}/{:g}/{:g}".format(*which) not in found
    ]
    # The longest ones are the first: Reno's.
    with multiprocessing.get_context("spawn").Pool(arguments.jobs, maxtasksperchild=1) as pool:
        for key, values in pool.imap_unordered(run_cell, orders):
            print(key, file=sys.stderr)
            found[key] = values
            KEPT.write_text(json.dumps(found), encoding="utf-8")
    draw_windows()
    PAGE.write_text(page(found, arguments.runs, arguments.duration), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
