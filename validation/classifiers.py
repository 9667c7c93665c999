"""How well senders tell losses apart: `python -m validation.classifiers`.

Writes `docs/reference/classifiers.md` and its figure. Every sender that takes losses for congestion or for
errors of the channel is run over the same networks, with NewReno, which does not ask, beside it. What each
loss was is known to the network alone; what the sender took it for is in the confusion matrix of the run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import textwrap
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop import _native
from validation import engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "classifiers.md"
FIGURE = PAGE.with_suffix(".svg")
COMMAND = "python -m validation.classifiers"

BASELINE = "newreno"
CLASSIFIERS = ("veno", "venoplus", "jtcp", "xjtcp", "tcp-real", "probing", "wsc", "cubic/rack")
#: Those that are no preset: a setting of CUBIC asks too.
SETTING_OF = {"cubic/rack": {"cc": "cubic", "recovery": "rack", "loss_filter": 0.15}}
LOSS_RATES = (0.0, 0.001, 0.01, 0.03)
#: Packets that buffers hold, by what they are of the path, which holds 33.
BUFFERS = {"0.2": 7, "1": 33, "5": 167}
SEEDS = range(1, 6)
DURATION_S = 70
WARMUP_S = 10

KINDS = ("congestion", "wireless")
#: `counts[truth][belief]`; the third truth is that nothing was lost.
Matrix = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
NOTHING: Matrix = ((0, 0), (0, 0), (0, 0))


@dataclass(frozen=True)
class Case:
    """One sender on one path."""

    setting: str
    buffer: str
    loss_rate: float
    sender: str


@dataclass(frozen=True)
class Outcome:
    """What it came to over all seeds."""

    #: Of all flows with this sender, in Mbit/s.
    goodput: float
    matrix: Matrix

    def recall(self, kind: int) -> float | None:
        """Return the share of the losses of this kind that were taken for it."""
        return share(self.matrix[kind][kind], sum(self.matrix[kind]))

    def precision(self, kind: int) -> float | None:
        """Return the share of what was taken for this kind that was of it."""
        return share(self.matrix[kind][kind], sum(row[kind] for row in self.matrix))


def share(part: int, whole: int) -> float | None:
    """Return the quotient, or nothing of nothing."""
    return part / whole if whole else None


# ----------------------------------------------------------------------------------------------------
# The networks


def downlink(buffer: int, loss_rate: float, flows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a wired sender and a wireless last hop: 10 Mbit/s, 40 ms of round trip."""
    return network(
        {"name": "wire", "rate": "100 Mbit/s", "delay": "5 ms", "queue": "unlimited"},
        {
            "name": "air",
            "rate": "10 Mbit/s",
            "delay": "15 ms",
            "queue": {"kind": "drop-tail", "limit": f"{buffer} packets"},
            "error": {"kind": "bernoulli", "packet_error_rate": loss_rate},
            "reverse": {"error": "none"},
        },
        flows,
    )


def uplink(buffer: int, loss_rate: float, flows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a wireless sender, whose link repeats a frame once and tells it how that went.

    The link gives up as many packets as the other networks lose.
    """
    return network(
        {
            "name": "air",
            "rate": "10 Mbit/s",
            "delay": "1 ms",
            "queue": {"kind": "drop-tail", "limit": f"{buffer} packets"},
            "error": {"kind": "bernoulli", "packet_error_rate": round(loss_rate**0.5, 6)},
            "reverse": {"error": "none"},
            "arq": {"attempts": 2, "window": 32, "order": "in-order"},
        },
        {"name": "wire", "rate": "100 Mbit/s", "delay": "19 ms", "queue": "unlimited"},
        flows,
    )


def network(first: dict[str, Any], last: dict[str, Any], flows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the scenario of these two links in a row."""
    links = [{**first, "from": "source", "to": "router"}, {**last, "from": "router", "to": "sink"}]
    return {
        "name": "classifiers",
        "duration": f"{DURATION_S} s",
        "warmup": f"{WARMUP_S} s",
        "topology": {"kind": "graph", "nodes": ["source", "router", "sink"], "links": links},
        "flows": flows,
    }


def flow(transport: str, **more: Any) -> dict[str, Any]:
    """Return a flow from end to end."""
    used = SETTING_OF.get(transport, transport)
    return {"source": "source", "sink": "sink", "transport": used, "start": "0 s", **more}


#: A third of the link in the mean, all of it while a burst lasts.
BURSTS = {
    "kind": "on-off",
    "rate": "10 Mbit/s",
    "packet": "1000 B",
    "on": "100 ms",
    "off": "200 ms",
}


@dataclass(frozen=True)
class Setting:
    """A network with its load."""

    title: str
    text: str
    scenario: Callable[[int, float, str], dict[str, Any]]


SETTINGS = {
    "alone": Setting(
        "One flow",
        "The flow has the link to itself: every overflow is its own doing.",
        lambda buffer, rate, sender: downlink(buffer, rate, [flow(sender)]),
    ),
    "alike": Setting(
        "Four flows alike",
        "Four flows share link and buffer.",
        lambda buffer, rate, sender: downlink(buffer, rate, [flow(sender, count=4)]),
    ),
    "bursts": Setting(
        "Beside bursts",
        "Datagrams come in bursts at the rate of the link, a third of it in the mean.",
        lambda buffer, rate, sender: downlink(
            buffer, rate, [flow(sender), flow("udp", name="bursts", traffic=BURSTS)]
        ),
    ),
    "uplink": Setting(
        "An uplink that repeats frames",
        "The sender's own link repeats each frame once and reports it; what it gives up is an error.",
        lambda buffer, rate, sender: uplink(buffer, rate, [flow(sender)]),
    ),
}


# ----------------------------------------------------------------------------------------------------
# Running


def cases() -> Iterator[Case]:
    """Yield every sender on every path."""
    for setting in SETTINGS:
        for buffer in BUFFERS:
            for rate in LOSS_RATES:
                for sender in (BASELINE, *CLASSIFIERS):
                    yield Case(setting, buffer, rate, sender)


def outcome(case: Case) -> Outcome:
    """Run a case with every seed."""
    scenario = SETTINGS[case.setting].scenario(BUFFERS[case.buffer], case.loss_rate, case.sender)
    plan = engine.plan(scenario)
    goodput, matrix = 0.0, NOTHING
    for seed in SEEDS:
        run = json.loads(_native.run(plan, seed).to_json())
        for one in run["flows"]:
            if one["transport"] == case.sender:
                goodput += one["goodput_bit_s"] / 1e6 / len(SEEDS)
                matrix = added(matrix, one["loss_verdicts"])
    return Outcome(goodput, matrix)


def added(matrix: Matrix, verdicts: dict[str, dict[str, int]] | None) -> Matrix:
    """Return the matrix with the verdicts of one flow added."""
    if verdicts is None:
        return matrix
    rows = zip(matrix, (*KINDS, "nothing"), strict=True)
    first, second, third = (
        (row[0] + verdicts[truth][KINDS[0]], row[1] + verdicts[truth][KINDS[1]]) for row, truth in rows
    )
    return first, second, third


def pooled(outcomes: dict[Case, Outcome], sender: str, setting: str, buffer: str | None = None) -> Outcome:
    """Return what a sender did over all loss rates of a setting, with one buffer or all."""
    chosen = [
        found
        for case, found in outcomes.items()
        if (case.sender, case.setting) == (sender, setting) and buffer in (None, case.buffer)
    ]
    sums = [[sum(one.matrix[row][column] for one in chosen) for column in range(2)] for row in range(3)]
    first, second, third = ((row[0], row[1]) for row in sums)
    return Outcome(sum(one.goodput for one in chosen) / len(chosen), (first, second, third))


# ----------------------------------------------------------------------------------------------------
# The page


INTRODUCTION = """
Some senders ask what a loss was before they answer it: congestion, or an error of the channel. The network
knows. Here every such sender meets the same losses, and what it took them for is held against what they
were. *Recall* of a kind is the share of the losses of this kind that were recognised; *precision* the share
of those taken for it that were of it. A sender that calls everything congestion has a recall of 1 there and
of 0 for errors. Recognition is no end in itself: the goodput that it earned stands beside it, and that of
NewReno, which never asks."""

NETWORKS = f"""
Networks: 10 Mbit/s and 40 ms of round trip; a path holds 33 packets, buffers a fifth of it, as much, and
five times as much. Loss rates are those of data packets, independent of each other. Profile `rfc`, every
sender with its defaults, but for `cubic/rack`, which is CUBIC with `loss_filter = 0.15`;
{DURATION_S - WARMUP_S} s after {WARMUP_S} s, sums over {len(SEEDS)} seeds; a row that judged no loss of a
kind has a dash. A verdict is counted once for each recovery, and at timeouts where
the law judges them. Where several flows share a link, the kind is that of the packet that was lost."""


#: Losses of each kind from which on recall says something.
ENOUGH = 50
#: Recalls of a coin add up to one; up to here a sender is hardly better.
CHANCE = 1.05
#: Share of NewReno's goodput below which a sender would have done better not to ask.
WORSE = 0.95

NO_HELP = f"""
The recalls of a coin toss add up to one. The table has every path, all loss rates together, on
which a sender's add up to no more than {CHANCE:g} (at least {ENOUGH} losses of each kind), or on which it
earned less than {WORSE:g} of NewReno's goodput; why, stands below."""

#: Why each sender is in that table: traced on the paths that are named there.
REASONS = {
    "veno": "it measures what it has in the queue itself. Four flows in a buffer of seven packets "
    "have less there than the three (`beta`) from which on a loss is congestion, so that "
    "their overflows look random. With `beta = 1` recall is 0.92 of overflows and 0.72 of "
    "errors, and goodput 8.07 instead of 8.49 Mbit/s.",
    "tcp-real": "not its rule at a loss is the cause but gamma. Beside bursts the receiving rate falls "
    "when a burst takes its share of the link, and on a link that repeats frames it falls by "
    "chance; each time an eighth of the window goes, without a loss. With `gamma = 0` it "
    "earns 1.15 of NewReno on both paths, with `smooth = 3` 0.89 and 0.98.",
    "probing": "it asks after the event. A cycle of two probes begins with the third duplicate ACK and "
    "lasts two round trips, in which it sends nothing: the queue that overflowed has drained, "
    "and a probe of an error may meet a burst. Each cycle is paid for with the silence, and an "
    "overflow that passes for an error brings the next one soon.",
    "cubic/rack": "it goes by the share of packets lost of late, and asks nothing of the path. What a queue "
    "drops one by one, or two in a row, stays below its share of 0.15, so that nearly every overflow passes "
    "for an error, and the window grows on. Its goodput is paid for by those beside it: over 10 Mbit/s with "
    "room for 30 packets a CUBIC that answers every loss gets 0.1 to 0.2 Mbit/s.",
    "wsc": "it hears its own link alone. On a downlink that is a wire without errors, and it is NewReno.",
}


def page(outcomes: dict[Case, Outcome]) -> str:
    """Return the page."""
    blocks = [
        "# How well senders tell losses apart",
        f"<!-- Written by `{COMMAND}`; changes here are overwritten. -->",
        wrap(INTRODUCTION),
        wrap(NETWORKS),
        f"![Recall of errors against recall of congestion, for each load]({FIGURE.name})",
        wrap(
            "All buffers and loss rates together. Above on the right both kinds "
            "are recognised; on the left "
            "errors pass for congestion, below congestion passes for errors."
        ),
        "## In short",
        summary(outcomes),
        "## Where asking does not help",
        wrap(NO_HELP),
        weak(outcomes),
        *(wrap(f"`{sender}`: {reason}") for sender, reason in REASONS.items()),
    ]
    for name, setting in SETTINGS.items():
        blocks += [f"## {setting.title}", wrap(setting.text)]
        for buffer, packets in BUFFERS.items():
            blocks += [f"### Buffer of {buffer} paths ({packets} packets)", table(outcomes, name, buffer)]
    return "\n\n".join(blocks) + "\n"


def wrap(text: str) -> str:
    """Break the lines of a paragraph."""
    return "\n".join(textwrap.wrap(text.strip(), 110, break_long_words=False, break_on_hyphens=False))


def summary(outcomes: dict[Case, Outcome]) -> str:
    """Return recall over all buffers and loss rates of each setting, and the mean goodput."""
    head = ["sender", *(setting.title.lower() for setting in SETTINGS.values())]
    rows = [f"| {' | '.join(head)} |", f"| --- |{' ---: |' * len(SETTINGS)}"]
    for sender in (BASELINE, *CLASSIFIERS):
        cells = [f"`{sender}`"]
        for setting in SETTINGS:
            found = pooled(outcomes, sender, setting)
            recalls = "" if sender == BASELINE else f"{cell(found.recall(0))} / {cell(found.recall(1))}, "
            cells.append(f"{recalls}{found.goodput:.2f}")
        rows.append(f"| {' | '.join(cells)} |")
    note = wrap("Entries: recall of congestion / recall of errors, mean goodput of all flows in Mbit/s.")
    return "\n".join(rows) + "\n\n" + note


def weak(outcomes: dict[Case, Outcome]) -> str:
    """Return the paths on which a sender tells losses no better than a coin, or earns less than NewReno."""
    head = ("load", "buffer", "sender", "recall of congestion", "recall of errors", "goodput, of NewReno's")
    rows = [f"| {' | '.join(head)} |", f"| --- | ---: | --- |{' ---: |' * 3}"]
    found_weak = set()
    for setting, buffer, sender in itertools.product(SETTINGS, BUFFERS, CLASSIFIERS):
        found = pooled(outcomes, sender, setting, buffer)
        share_earned = found.goodput / pooled(outcomes, BASELINE, setting, buffer).goodput
        enough = all(sum(row) >= ENOUGH for row in found.matrix[:2])
        recalls = [found.recall(kind) or 0.0 for kind in range(2)]
        if (enough and sum(recalls) <= CHANCE) or share_earned < WORSE:
            found_weak.add(sender)
            shown = [f"{value:.2f}" for value in (*recalls, share_earned)]
            load = SETTINGS[setting].title.lower()
            rows.append(f"| {' | '.join((load, f'{buffer} paths', f'`{sender}`', *shown))} |")
    if found_weak != set(REASONS):
        raise SystemExit(f"reasons are wanted for {sorted(found_weak)}, and given for {sorted(REASONS)}")
    return "\n".join(rows)


def table(outcomes: dict[Case, Outcome], setting: str, buffer: str) -> str:
    """Return one row per loss rate and sender."""
    head = (
        "loss rate",
        "sender",
        "goodput (Mbit/s)",
        "overflows",
        "recall",
        "precision",
        "errors",
        "recall",
        "precision",
    )
    rows = [f"| {' | '.join(head)} |", f"| ---: | --- |{' ---: |' * (len(head) - 2)}"]
    for rate in LOSS_RATES:
        for sender in (BASELINE, *CLASSIFIERS):
            found = outcomes[Case(setting, buffer, rate, sender)]
            cells = [f"{rate:g}", f"`{sender}`", f"{found.goodput:.2f}"]
            for kind in range(2):
                judged = sum(found.matrix[kind])
                cells += [
                    "" if sender == BASELINE else str(judged),
                    cell(found.recall(kind)),
                    cell(found.precision(kind)),
                ]
            rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def cell(value: float | None) -> str:
    """Write a share, or a dash."""
    return "–" if value is None else f"{value:.2f}"


def draw(outcomes: dict[Case, Outcome]) -> None:
    """Write the figure."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "lasthop"
    figure, axes = plt.subplots(1, len(SETTINGS), figsize=(13, 3.9), sharex=True, sharey=True)
    markers = "osD^v<PX"
    for axis, (name, setting) in zip(axes, SETTINGS.items(), strict=True):
        for sender, marker in zip(CLASSIFIERS, markers, strict=True):
            found = pooled(outcomes, sender, name)
            x, y = found.recall(1), found.recall(0)
            if x is not None and y is not None:
                axis.plot(x, y, marker, markersize=9, alpha=0.8, label=sender, clip_on=False)
        axis.plot((0, 1), (1, 0), color="0.8", linewidth=1, zorder=0)
        axis.set(title=setting.title, xlim=(0, 1), ylim=(0, 1), xlabel="recall of errors")
        axis.title.set_fontsize(10)
        axis.set_aspect("equal")
    axes[0].set_ylabel("recall of congestion")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(CLASSIFIERS), frameon=False)
    figure.tight_layout(rect=(0, 0.1, 1, 1))
    figure.savefig(FIGURE, metadata={"Date": None})
    # matplotlib ends lines of paths with blanks.
    lines = FIGURE.read_text(encoding="utf-8").splitlines()
    FIGURE.write_text("".join(f"{line.rstrip()}\n" for line in lines), encoding="utf-8")
    plt.close(figure)


def main() -> None:
    """Run every case and write page and figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at once")
    arguments = parser.parse_args()
    every = list(cases())
    with ThreadPoolExecutor(arguments.jobs) as pool:
        outcomes = dict(zip(every, pool.map(outcome, every), strict=True))
    PAGE.write_text(page(outcomes), encoding="utf-8")
    draw(outcomes)


if __name__ == "__main__":
    main()
