"""Draws the figures of docs/explanation/what-the-papers-teach.md from the series beside the reports.

`papers_page.py` calls it. Each PNG says in its metadata which numbers it was drawn from, so that a test sees
when they have changed.
"""

from __future__ import annotations

import hashlib
import io
import json
from typing import TYPE_CHECKING, Any

from lasthop.drawing import COLOURS, INK
from lasthop.papers import prose
from lasthop.papers.grammar import format_value

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from matplotlib.axes import Axes

    from lasthop.papers.library import Paper
    from lasthop.papers.teaching import Evidence

    Numbers = dict[str, Any]

#: The key of the metadata.
DRAWN_FROM = "Drawn from"
SENDERS = {"reno": "Reno", "venoplus": "VenoPlus", "jtcp": "JTCP", "xjtcp": "XJTCP"}
TRANSPORTS = {"reno": "TCP Reno", "vegas": "TCP Vegas", "udp": "UDP"}
RATES = (0, 0.01, 0.05, 0.1)
MARKS = "os^D"
GAIN = "100*gain(thr_avg[wsc],thr_avg[newreno])"
VEGAS = "throughput[{},snoop=off,dir=uni]"
TIMEOUTS = {
    "literal": "0.5 s\n(literal)",
    "told_half": "10 ms, sender\ntold 0.5 s",
    "main": "10 ms\n(main)",
    "in_order": "10 ms,\nin order",
}


def _paper(evidence: Evidence, number: str) -> Paper:
    paper = evidence.paper(number)
    if paper is None:
        raise SystemExit(f"there is no report of paper {number}: make paper-report PAPER={number}")
    return paper


def _value(evidence: Evidence, number: str, setting: str, formula: str) -> tuple[float, float]:
    """Return what a formula gives, and half its interval."""
    paper = _paper(evidence, number)
    found = prose.value(formula, paper, evidence.datasets(paper)[setting])
    if found is None:
        raise SystemExit(f"paper {number} at '{setting}' has no value of {formula}")
    return round(found.mean, 6), round(found.half_width or 0.0, 6)


def _printed(evidence: Evidence, number: str, claim: str) -> float:
    paper = _paper(evidence, number)
    return next(one.reference[0] for one in paper.claims if one.id == f"p{number}.{claim}")


def queues(evidence: Evidence) -> Numbers:
    """Return the cells of paper 004's tables: transport, printed, time average, mean over both directions."""
    cells = []
    for table, flows in (("tab1", 20), ("tab2", 40)):
        for transport in TRANSPORTS:
            for limit in (20, 30, 50, 80):
                formula = f"avg_queue[{transport},limit={limit},n={flows}]"
                measured = [_value(evidence, "004", one, formula)[0] for one in ("main", "both_queues")]
                printed = _printed(evidence, "004", f"{table}.{transport}.{limit}")
                cells.append([transport, printed, *measured])
    return {"cells": cells}


def draw_queues(numbers: Numbers, axes: list[Axes]) -> None:
    """Draw what is printed along x, what is measured along y: on the diagonal they agree."""
    titles = ("Time average of waiting packets", "Mean of what arrivals find, both directions")
    for at, (place, title) in enumerate(zip(axes, titles, strict=True)):
        for (transport, name), colour, mark in zip(TRANSPORTS.items(), COLOURS, MARKS, strict=False):
            points = [cell for cell in numbers["cells"] if cell[0] == transport]
            place.plot(
                [cell[1] for cell in points],
                [cell[2 + at] for cell in points],
                mark,
                color=colour,
                label=name,
                markersize=5,
            )
        place.plot([2, 100], [2, 100], color=INK, linewidth=0.8)
        place.set(xscale="log", yscale="log", xlim=(2, 100), ylim=(2, 100), title=title)
        place.set_xlabel("printed (packets)")
        for axis in (place.xaxis, place.yaxis):
            axis.set_major_formatter(lambda value, _: f"{value:g}")
    axes[0].set_ylabel("measured (packets)")
    axes[0].legend(frameon=False)


def retries(evidence: Evidence) -> Numbers:
    """Return the goodput of four lone senders of paper 002 over the error rate, with halves of intervals."""
    return {
        setting: {
            sender: [
                _value(evidence, "002", setting, f"goodput[{sender},loss=random,cong=none,per={rate:g}]")
                for rate in RATES
            ]
            for sender in SENDERS
        }
        for setting in ("main", "after_mac")
    }


def draw_retries(numbers: Numbers, axes: list[Axes]) -> None:
    """Draw a panel for errors below the MAC, and one for errors behind it."""
    titles = ("Errors below seven attempts", "Errors behind the MAC (ours)")
    for place, title, senders in zip(axes, titles, numbers.values(), strict=True):
        for (sender, points), colour, mark in zip(senders.items(), COLOURS, MARKS, strict=False):
            place.errorbar(
                [100 * rate for rate in RATES],
                [mean for mean, _ in points],
                [half for _, half in points],
                marker=mark,
                color=colour,
                label=SENDERS[sender],
                markersize=4,
                linewidth=1,
                capsize=2,
            )
        place.set(title=title, ylim=(0, 1.75))
        place.set_xlabel("packet error rate (%)")
    axes[0].set_ylabel("goodput (Mbit/s)")
    axes[1].legend(frameon=False)


def timeout(evidence: Evidence) -> Numbers:
    """Return the packets that NewReno and WSC-TCP send at some link timeouts, and what the thesis prints."""
    senders = {"newreno": "NewReno", "wsc": "WSC-TCP"}
    return {
        "sent": {
            name: [_value(evidence, "003", setting, f"pkts_sent[{sender}]") for setting in TIMEOUTS]
            for sender, name in senders.items()
        },
        "printed": [_printed(evidence, "003", f"tab1.sent.{sender}") for sender in senders],
    }


def draw_timeout(numbers: Numbers, axes: list[Axes]) -> None:
    """Draw bars side by side, and a line at what is printed."""
    (place,) = axes
    for at, ((name, points), colour) in enumerate(zip(numbers["sent"].items(), COLOURS, strict=False)):
        places = [one + 0.36 * (at - 0.5) for one in range(len(points))]
        place.bar(
            places,
            [mean for mean, _ in points],
            0.34,
            yerr=[half for _, half in points],
            color=colour,
            label=name,
            capsize=2,
        )
        place.axhline(numbers["printed"][at], color=colour, linewidth=0.9, linestyle=(0, (5, 2)))
    printed = " and ".join(map(format_value, numbers["printed"]))
    place.set(title=f"Packets sent in 4.8 s, by link and sender (dashed: printed, {printed})")
    place.set_xticks(range(len(TIMEOUTS)), list(TIMEOUTS.values()))
    place.set(ylabel="packets", ylim=(0, 1600))
    place.legend(frameon=False, ncols=2, loc="upper left")


def vegas(evidence: Evidence) -> Numbers:
    """Return what Vegas carries in each run of paper 001 without ECN and with it, as ns-2 and as meant."""
    paper = _paper(evidence, "001")
    return {
        setting: [
            [round(value, 4) for value in evidence.values(paper, setting, VEGAS.format(sender))]
            for sender in ("vegas", "e_vegas")
        ]
        for setting in ("evegas_ns2", "main")
    }


def draw_vegas(numbers: Numbers, axes: list[Axes]) -> None:
    """Draw a point per seed; on the diagonal both carry the same."""
    titles = ("As ns-2 has it: no ECT", "As meant: ECT set")
    for place, title, (without, having) in zip(axes, titles, numbers.values(), strict=True):
        ends = [min(without + having) * 0.98, max(without + having) * 1.02]
        place.plot(ends, [1.4 * one for one in ends], color=COLOURS[1], linewidth=1, linestyle=(0, (5, 2)))
        place.annotate(
            "40 % more, as printed", (ends[0], 1.4 * ends[0]), fontsize=8, rotation=25, va="bottom"
        )
        place.plot(ends, ends, color=INK, linewidth=0.8)
        place.plot(without, having, "o", color=COLOURS[0], markersize=4)
        place.set(title=title, xlim=ends, ylim=(ends[0] * 0.95, ends[1] * 1.45))
        place.set_xlabel("Vegas (kbit/s)")
    axes[0].set_ylabel("Vegas with ECN (kbit/s)")


def one_run(evidence: Evidence) -> Numbers:
    """Return the gain of WSC-TCP in each run, its mean with half the interval, and what the thesis prints."""
    paper = _paper(evidence, "003")
    return {
        "runs": sorted(round(value, 4) for value in evidence.values(paper, "main", GAIN)),
        "mean": _value(evidence, "003", "main", GAIN),
        "printed": {
            "table, means: 7.9": [7.9, 7.9],
            "table, sums: 10.1": [10.1, 10.1],
            "abstract: 10-15": [10, 15],
            "results: 7-22": [7, 22],
            "conclusion: 15-17": [15, 17],
            "conclusion: 10-25": [10, 25],
        },
    }


def draw_one_run(numbers: Numbers, axes: list[Axes]) -> None:
    """Draw runs in order of their gain, the mean with its interval, and beside them the printed figures."""
    (place,) = axes
    runs, (mean, half) = numbers["runs"], numbers["mean"]
    place.axhspan(mean - half, mean + half, color=COLOURS[0], alpha=0.18, linewidth=0)
    place.axhline(mean, color=COLOURS[0], linewidth=1)
    place.plot(range(1, len(runs) + 1), runs, "o", color=COLOURS[0], markersize=4)
    place.axhline(0, color=INK, linewidth=0.6)
    for at, (name, (low, high)) in enumerate(numbers["printed"].items()):
        x = len(runs) + 3 + 2 * at
        place.plot([x, x], [low, high], "_-", color=COLOURS[1], linewidth=2, markersize=7)
        place.annotate(
            name, (x, high), (0, 4), textcoords="offset points", rotation=90, fontsize=7, ha="center"
        )
    place.set(title="Gain of WSC-TCP over NewReno in each run (left), and as printed (right)")
    place.set(xlabel="run, in order of the gain", ylabel="gain (%)", ylim=(-12, 58))
    place.set_xticks([1, *range(10, len(runs) + 1, 10)])


#: For each figure its numbers, how it is drawn, and how many panels it has.
FIGURES: dict[str, tuple[Callable[[Evidence], Numbers], Callable[[Numbers, list[Axes]], None], int]] = {
    "queues": (queues, draw_queues, 2),
    "retries": (retries, draw_retries, 2),
    "timeout": (timeout, draw_timeout, 1),
    "vegas": (vegas, draw_vegas, 2),
    "one-run": (one_run, draw_one_run, 1),
}


def digest(numbers: Numbers) -> str:
    """Return what tells these numbers from others."""
    return hashlib.sha256(json.dumps(numbers, sort_keys=True).encode()).hexdigest()[:16]


def drawn_from(path: Path) -> str | None:
    """Return from which numbers a figure was drawn."""
    from PIL import Image

    with Image.open(path) as picture:
        told = picture.info.get(DRAWN_FROM)
    return told if isinstance(told, str) else None


def write(evidence: Evidence, folder: Path) -> list[Path]:
    """Write the figures whose numbers have changed, and return them."""
    from matplotlib.figure import Figure
    from PIL import Image, PngImagePlugin

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, (numbers_of, draw, panels) in FIGURES.items():
        numbers = numbers_of(evidence)
        path = folder / f"{name}.png"
        if path.is_file() and drawn_from(path) == digest(numbers):
            continue
        figure = Figure(figsize=(7.2, 3.2), layout="constrained")
        places = [figure.add_subplot(1, panels, at + 1) for at in range(panels)]
        for place in places:
            place.spines[["top", "right"]].set_visible(False)
            place.tick_params(labelsize=8)
        draw(numbers, places)
        for place in places:
            place.title.set_fontsize(9)
        picture = io.BytesIO()
        figure.savefig(picture, format="png", dpi=130, facecolor="white")
        palette = Image.open(picture).convert("RGB").quantize(64, dither=Image.Dither.NONE)
        told = PngImagePlugin.PngInfo()
        told.add_text(DRAWN_FROM, digest(numbers))
        palette.save(path, format="PNG", optimize=True, pnginfo=told)
        written.append(path)
    return written
