"""The page on senders that classify losses, from the rows that `classifiers.py` stored.

Every figure on it, in tables and in prose, is computed here from the rows; nothing is run.
"""

from __future__ import annotations

import itertools
import textwrap
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from lasthop import stats
from validation.classifiers import (
    COMMAND,
    COUNTS,
    DATA,
    DURATION_S,
    LAWS,
    LOADS,
    OVER_QUIC,
    PATHS,
    PLAIN,
    QUIC,
    QUIC_CELLS,
    RADIO,
    ROC_CELLS,
    RULES,
    SEEDS,
    SENDERS,
    SILENT,
    THRESHOLDS,
    TOLD,
    WARMUP_S,
    YARDSTICKS,
    Cell,
    cells,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import polars as pl

PAGE = DATA.with_suffix(".md")
FIGURE = DATA.with_suffix(".svg")
JUDGES = tuple(name for name in SENDERS if name not in SILENT)
#: Losses of each kind, over all seeds, from which on a share of them is shown.
ENOUGH = 20


@dataclass(frozen=True)
class Runs:
    """The runs of one case: a value per seed."""

    goodput: list[float]
    rival: list[float]
    #: For each seed, by truth (congestion, wireless, nothing) and belief.
    counts: list[tuple[int, ...]]

    def recall(self, kind: int) -> stats.Estimate | None:
        """Return the share of the losses of this kind that were taken for it."""
        return self.over_seeds(lambda sums: _recall(sums, kind)) if self.judged(kind) >= ENOUGH else None

    def judged(self, kind: int) -> int:
        """Return how many losses of this kind were judged."""
        return sum(sum(counts[2 * kind : 2 * kind + 2]) for counts in self.counts)

    def skill(self) -> stats.Estimate | None:
        """Return the sum of both recalls less one, which is zero for those that do not look."""
        if min(self.judged(0), self.judged(1)) < ENOUGH:
            return None
        return self.over_seeds(lambda sums: _recall(sums, 0) + _recall(sums, 1) - 1)

    def over_seeds(self, of: Callable[[Sequence[int]], float]) -> stats.Estimate | None:
        """Return a function of the sums over seeds with the interval of the jackknife."""
        columns = [sum(column) for column in zip(*self.counts, strict=True)]
        without = (
            [total - one for total, one in zip(columns, counts, strict=True)] for counts in self.counts
        )
        return stats.jackknife([of(columns), *map(of, without)])


def _recall(sums: Sequence[int], kind: int) -> float:
    whole = sums[2 * kind] + sums[2 * kind + 1]
    return sums[3 * kind] / whole if whole else float("nan")


Key: TypeAlias = tuple[Cell, str, float | None]


def runs_of(data: pl.DataFrame) -> dict[Key, Runs]:
    """Return the runs of every case, seeds in order."""
    found: dict[Key, Runs] = {}
    for row in data.sort("seed", maintain_order=True).iter_rows(named=True):
        cell = Cell(*(row[name] for name in ("path", "buffer", "queue", "channel", "loss_rate", "load")))
        runs = found.setdefault((cell, row["sender"], row["threshold"]), Runs([], [], []))
        runs.goodput.append(row["goodput_bit_s"] / 1e6)
        runs.counts.append(tuple(row[name] for name in COUNTS))
        if row["rival_bit_s"] is not None:
            runs.rival.append(row["rival_bit_s"] / 1e6)
    return found


def shown(value: stats.Estimate | None, digits: int = 2) -> str:
    """Write a value with its interval."""
    if value is None:
        return "–"
    half = value.half_width
    mean = f"{value.mean:.{digits}f}".replace("-0.00", "0.00")
    return mean if half is None else f"{mean} ± {half:.{digits}f}"


def plain_of(sender: str) -> str:
    """Return what the sender would be if it did not ask: the same recovery, every loss congestion."""
    if sender.startswith(QUIC):
        return QUIC + plain_of(sender.removeprefix(QUIC))
    if sender.startswith("lda "):
        return "lda congestion"
    return "cubic" if sender.startswith("cubic") else PLAIN


def hears(sender: str, cell: Cell) -> bool:
    """Whether the sender gets any signal there: WSC hears its own link alone."""
    return sender != "wsc" or cell.load == "uplink"


def gain(cases: dict[Key, Runs], cell: Cell, sender: str) -> stats.Estimate | None:
    """Return the goodput over that of the same sender that does not ask, less one, seed by seed."""
    own, plain = (cases[cell, name, None].goodput for name in (sender, plain_of(sender)))
    return stats.relative_difference(own, plain)


def cost(cases: dict[Key, Runs], cell: Cell, sender: str) -> stats.Estimate | None:
    """Return what a rival NewReno loses or wins beside this sender instead of another NewReno."""
    return stats.relative_difference(cases[cell, sender, None].rival, cases[cell, PLAIN, None].rival)


def percent(value: stats.Estimate | None) -> str:
    """Write a change in per cent with its interval."""
    if value is None:
        return "–"
    ends = [value.mean, value.low, value.high] if value.half_width is not None else [value.mean]
    mean, *interval = [f"{round(100 * one):+d}" for one in ends if one is not None]
    return f"{mean} ({' to '.join(interval)})" if interval else mean


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table whose first column is text."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def wrap(text: str) -> str:
    """Break the lines of a paragraph."""
    flat = " ".join(text.split())
    return "\n".join(textwrap.wrap(flat, 110, break_long_words=False, break_on_hyphens=False))


# ----------------------------------------------------------------------------------------------------
# Results


def main_table(cases: dict[Key, Runs], cell: Cell) -> str:
    """Return recalls, goodput, and what the question is worth, of every sender in a cell."""
    has_rival = cell.load == "rival"
    head = ["sender", "overflows", "recall", "errors", "recall", "goodput (Mbit/s)", "gain (%)"]
    rows = []
    for sender in SENDERS:
        runs = cases[cell, sender, None]
        row = [f"`{sender}`"]
        for kind in range(2):
            if not hears(sender, cell):
                row += [str(runs.judged(kind)), "no signal"]
            else:
                row += ["", ""] if sender in SILENT else [str(runs.judged(kind)), shown(runs.recall(kind))]
        row += [shown(stats.estimate(runs.goodput))]
        row.append("" if sender in SILENT else percent(gain(cases, cell, sender)))
        if has_rival:
            row.append("" if sender == PLAIN else percent(cost(cases, cell, sender)))
        rows.append(row)
    return table([*head, *(["rival (%)"] if has_rival else [])], rows)


def quic_table(cases: dict[Key, Runs]) -> str:
    """Return recalls and gains of senders over TCP and of the same controllers over QUIC."""
    head = ["sender", "load"]
    head += [f"{what}, {way}" for what in ("congestion", "errors", "gain (%)") for way in ("TCP", "QUIC")]
    rows = []
    for cell, sender in itertools.product(QUIC_CELLS, OVER_QUIC):
        if sender == PLAIN:
            continue
        names = (sender, f"{QUIC}{sender}")
        recalls = [shown(cases[cell, name, None].recall(kind)) for kind in range(2) for name in names]
        gains = [percent(gain(cases, cell, name)) for name in names]
        rows.append([f"`{sender}`", LOADS[cell.load], *recalls, *gains])
    return table(head, rows)


#: What is changed of the middle path beside a rival, for the table of all conditions.
RIVAL = Cell(load="rival")
CONDITIONS = {
    "buffer 0.2": replace(RIVAL, buffer=0.2),
    "middle": RIVAL,
    "buffer 5": replace(RIVAL, buffer=5.0),
    "1 % errors": replace(RIVAL, loss_rate=0.01),
    "slow": replace(RIVAL, path="slow"),
    "fast": replace(RIVAL, path="fast"),
    "errors in bursts": replace(RIVAL, channel="bursts of 4"),
    "CoDel": replace(RIVAL, queue="codel"),
}


#: A cell of 802.11n in place of the last hop.
RADIO_CELL = replace(RIVAL, path=RADIO)


def radio(cases: dict[Key, Runs]) -> str:
    """Return what the cell does to those that classify, compared with the middle path."""
    moved: dict[bool, list[str]] = {False: [], True: []}
    calm = 0
    names = [*(law for law in LAWS if law != "wsc"), *(f"lda {rule}" for rule in RULES)]
    for name in names:
        path, cell = (cases[where, name, None].recall(1) for where in (RIVAL, RADIO_CELL))
        calm += cases[RADIO_CELL, name, None].judged(0) < ENOUGH
        if path is None or cell is None or path.half_width is None or cell.half_width is None:
            continue
        if abs(cell.mean - path.mean) > path.half_width + cell.half_width:
            moved[cell.mean > path.mean].append(f"`{name}` {path.mean:.2f} to {cell.mean:.2f}")
    return wrap(
        "The last hop is an access point of 802.11n with one station, beside a NewReno, with the same losses "
        "behind its MAC. Packets of an aggregate reach the station together, and then none for milliseconds: "
        "a rule on the gap behind a hole takes every loss for congestion. The MAC did not discard what is "
        "lost behind it, so its count is no signal. "
        f"Recall of errors falls ({', '.join(moved[False])}) or rises "
        f"({', '.join(moved[True])}). Overflows are rare: {calm} of {len(names)} senders met fewer than "
        f"{ENOUGH} in all runs."
    )


def conditions(cases: dict[Key, Runs], of: Callable[[dict[Key, Runs], Cell, str], str]) -> str:
    """Return something of every sender under every condition."""
    rows = [
        [f"`{sender}`", *(of(cases, cell, sender) for cell in CONDITIONS.values())]
        for sender in JUDGES
        if sender != "wsc"
    ]
    return table(["sender", *CONDITIONS], rows)


def skill_of(cases: dict[Key, Runs], cell: Cell, sender: str) -> str:
    """Write the skill of a sender in a cell."""
    return shown(cases[cell, sender, None].skill())


def cost_of(cases: dict[Key, Runs], cell: Cell, sender: str) -> str:
    """Write what a rival keeps."""
    value = cost(cases, cell, sender)
    return "–" if value is None else f"{round(100 * value.mean):+d}{'' if value.excludes_zero() else ' ?'}"


def curve(cases: dict[Key, Runs], cell: Cell, sender: str) -> list[tuple[float, float]]:
    """Return a sender's points as its threshold moves (overflows missed, recall of errors), and corners."""
    points = []
    for value in THRESHOLDS[sender][1]:
        runs = cases[cell, sender, float(value)]
        sums = [sum(column) for column in zip(*runs.counts, strict=True)]
        if sum(sums[:2]) and sum(sums[2:4]):
            points.append((1 - _recall(sums, 0), _recall(sums, 1)))
    return [(0.0, 0.0), *sorted(points), (1.0, 1.0)]


def area(points: Sequence[tuple[float, float]]) -> float:
    """Return the area under a curve."""
    return sum((x - w) * (y + z) / 2 for (w, z), (x, y) in itertools.pairwise(points))


def areas(cases: dict[Key, Runs]) -> str:
    """Return the areas under the curves."""
    head = ["sender", "threshold", "values", *(LOADS[cell.load] for cell in ROC_CELLS)]
    rows = []
    for sender, (names, values) in THRESHOLDS.items():
        row = [f"`{sender}`", ", ".join(f"`{name}`" for name in names), f"{values[0]:g} to {values[-1]:g}"]
        rows.append([*row, *(f"{area(curve(cases, cell, sender)):.2f}" for cell in ROC_CELLS)])
    return table(head, rows)


def unhelpful(cases: dict[Key, Runs]) -> str:
    """Return the cells in which asking is not shown to be better than a coin, or costs goodput."""
    rows = []
    judges = [name for name in JUDGES if name not in {f"lda {rule}" for rule in YARDSTICKS}]
    for sender in judges:
        known = [cell for cell in cells() if cell.loss_rate and hears(sender, cell)]
        skills = [skill for cell in known if (skill := cases[cell, sender, None].skill())]
        gains = [found for cell in known if (found := gain(cases, cell, sender))]
        blind = sum(not (skill.excludes_zero() and skill.mean > 0) for skill in skills)
        worse = sum(found.excludes_zero() and found.mean < 0 for found in gains)
        better = sum(found.excludes_zero() and found.mean > 0 for found in gains)
        cells_ = [f"{blind} of {len(skills)}", f"{better} of {len(gains)}", f"{worse} of {len(gains)}"]
        rows.append([f"`{sender}`", *cells_])
    return table(["sender", "no better than a coin", "more goodput", "less goodput"], rows)


def findings(cases: dict[Key, Runs]) -> str:
    """Return what the tables come to, in numbers drawn from them."""
    ranked = [*(law for law in LAWS if law != "wsc"), *(f"lda {rule}" for rule in RULES)]
    mixed = [cell for cell in CONDITIONS.values() if all(cases[cell, one, None].skill() for one in ranked)]

    def mean_skill(sender: str) -> float:
        found = [skill.mean for cell in mixed if (skill := cases[cell, sender, None].skill())]
        return sum(found) / len(found)

    ranked.sort(key=mean_skill, reverse=True)
    deaf = [one for one in ranked if one not in TOLD]
    named = ", ".join(f"`{one}` {mean_skill(one):.2f}" for one in deaf)
    skills = (
        f"Beside a rival, in the {len(mixed)} of {len(CONDITIONS)} conditions in which all classified enough "
        "losses of both kinds, the mean skill (recall of congestion plus recall of errors, minus one) of "
        f"senders that use only packets and ACKs is: {named}. The coin has {mean_skill('lda coin'):.2f}."
    )
    told = (
        "A direct signal is not enough: of the two that get the number of frames that the receiver's MAC "
        f"discarded, `venoplus` has {mean_skill('venoplus'):.2f} and `xjtcp` {mean_skill('xjtcp'):.2f}."
    )
    won = {rule: gain(cases, RIVAL, f"lda {rule}") for rule in YARDSTICKS}
    paid = {rule: cost(cases, RIVAL, f"lda {rule}") for rule in YARDSTICKS}
    worth = (
        "On the middle path beside a rival, knowing the truth is worth "
        f"{percent(won['oracle'])} % of goodput, a coin {percent(won['coin'])} %, and ignoring every loss "
        f"that duplicate ACKs show {percent(won['wireless'])} %. The rival gets {percent(paid['oracle'])}, "
        f"{percent(paid['coin'])} and {percent(paid['wireless'])} %: goodput alone cannot tell a classifier "
        "from a sender that ignores losses."
    )
    shared = (
        "Where four equal flows fill the link there is nothing to gain: the oracle gains "
        f"{percent(gain(cases, Cell(load='alike'), 'lda oracle'))} %."
    )
    return "\n".join(wrap(f"- {line}").replace("\n", "\n  ") for line in (skills, told, worth, shared))


# ----------------------------------------------------------------------------------------------------
# Words

QUESTION = """
Some senders classify a loss before they react to it: was it an overflow of a queue, or an error of the
channel? The simulator knows which. Here every such sender of lasthop, and the rules of the literature
with one common response, run over the same networks, and their verdicts are compared with the truth.
*Recall* of a kind is the share of its losses that were recognised. *Skill* is the sum of both recalls
minus one (Youden 1950); it is zero for a sender that does not classify. *Gain* is the goodput relative
to that of the same sender when it takes every loss for congestion: NewReno for the controllers, `lda
congestion` (SACK TCP) for the rules, and `cubic` (CUBIC on RACK-TLP) for `cubic filter`, which is the
same with `loss_filter = 0.15`. *Rival* is the goodput of a NewReno on the same link, relative to a
NewReno that competes with another NewReno. Most senders use only packets and ACKs. `venoplus` and
`xjtcp` also get the number of frames that the receiver's MAC has discarded, which counts the channel
errors themselves; `wsc` gets the reports of the sender's own link, and works only there."""

PATHS_NAMED = ", ".join(
    f"{name} ({path.rate} Mbit/s, {path.rtt} ms, {path.packets} packets)" for name, path in PATHS.items()
)
METHODS = f"""
**Networks.** A sender, a wire of 100 Mbit/s, a router, and a last hop with a buffer, which loses data
packets: {PATHS_NAMED}; buffers of 0.2, 1 and 5 bandwidth-delay products; drop-tail or CoDel;
independent errors, or Gilbert-Elliott with mean bursts of four packets; loss rates of 0.1 and 1 %, and
none; instead of the last hop a cell of 802.11n (MCS 1, one stream), whose MAC sends aggregates, contends
with those of the ACKs, retransmits after collisions, and loses 0.1 % of packets behind that. Loads:
{"; ".join(LOADS.values())}. The middle path is run in full; the other cells change one thing of it at a
time. **Replicates.** {len(SEEDS)} seeds of {DURATION_S - WARMUP_S} s after a warm-up
of {WARMUP_S} s. Start times are uniform over a second and hosts take up to a millisecond for each
packet, so that seeds differ even without errors. Intervals are 95 %: Student's t for goodput, Fieller's
for ratios, paired by seed, the jackknife over seeds for recalls. Counts are never pooled over buffers,
loads or paths; a share of fewer than {ENOUGH} losses is shown as a dash. **Verdicts.** One for each
recovery and, where the controller classifies them, each timeout; the true kind is that of the lost
packet. Profile `rfc`, every sender with its defaults. **Yardsticks.** `lda oracle` knows the truth,
`lda congestion` and `lda wireless` always give the same verdict, `lda coin` tosses a coin. All rules of
`lda` respond alike: congestion halves the window, an error leaves it."""

OVER_QUIC_WORDS = """
The same cells with the controllers in [quinn](stacks.md), a QUIC stack, compared with TCP. Shares are
recalls of the two kinds. quinn reports to its controllers neither arrival times nor the frames that the
receiver's MAC discarded, so the other senders do not run in it. An RTT includes the wait of delayed
acknowledgements, and there is one verdict for each reduction. Gain is relative to NewReno and `lda
congestion` in quinn; the rival is NewReno over TCP in both."""

THREATS = """
**Closed loop.** A verdict changes the window, and the window causes the next losses: two senders never
judge the same losses, and changing a threshold changes the mixture of losses. The curves therefore
describe controllers in operation, not a rule on fixed data. **One response.** Rules made for TFRC or
for a receiver run in a TCP sender with SACK and delayed ACKs; their arrival times come from an option
that no deployed receiver sends. **Constants** of the rules were checked against two public
implementations, not against the papers; the two disagree about ZigZag beyond three losses, so that
choice is a parameter. **Networks** are single bottlenecks that are the lossy hop themselves: no errors
behind the bottleneck, one station in the radio cell, no varying rate. **Many comparisons**: about five
of a hundred intervals miss the true value. **Steady flows**: these results say nothing about short
transfers."""

RELATED = """
Biaz and Vaidya (1998) tested three predictors of congestion against random losses and found them hardly
better than chance, "a negative result"; their rule of 1999 uses the gap behind the hole. Cen, Cosman
and Voelker (2003) compared it, its narrower form mBiaz, Spike (Tobe et al. 2000) and their own ZigZag
in simulations of TFRC, found none best everywhere, and combined three. Barman and Matta (2002) bound
the possible gain of classification. Fu and Liew (2003) built Veno on Vegas's backlog; Wu and Chen
(2004) built JTCP on jitter; Tsaoussidis and Badr (2000) probe after the event; Zhang and Tsaoussidis
(2001) measure at the receiver. New here are one response for all rules, the true causes from the
network, yardsticks, intervals, and the cost to others. Today's senders avoid the question: BBR does not
react to single losses, and ECN signals congestion without a loss."""

AGAIN = f"""
Every run is a row of [`{DATA.name}`]({DATA.name}): cell, sender, threshold, seed, goodput, the rival's, and
the six counts of the confusion matrix, which also give precision. `{COMMAND}` runs everything and writes
rows, page and figures; with `--page` it writes page and figures from the stored rows. The same engine gives
identical rows."""


def page(data: pl.DataFrame) -> str:
    """Return the page."""
    cases = runs_of(data)
    alone, alike, uplink = (Cell(load=load) for load in ("alone", "alike", "uplink"))
    blocks = [
        "# How well senders classify losses",
        f"<!-- Written by `{COMMAND}`; changes here are overwritten. -->",
        "## The question",
        wrap(QUESTION),
        "## In short",
        findings(cases),
        "## Methods",
        wrap(METHODS),
        "## One link, 0.1 % of errors",
        wrap("The middle path, a buffer of one product, independent errors. Beside a NewReno:"),
        main_table(cases, RIVAL),
        wrap("Four equal flows, which share the losses that they cause:"),
        main_table(cases, alike),
        wrap("One flow, alone on the link; with few overflows there is little to classify:"),
        main_table(cases, alone),
        wrap("An uplink whose own link retransmits each frame once and reports it, which `wsc` needs:"),
        main_table(cases, uplink),
        "## A radio cell",
        radio(cases),
        main_table(cases, RADIO_CELL),
        "## Over QUIC",
        wrap(OVER_QUIC_WORDS),
        quic_table(cases),
        "## Skill under other conditions",
        wrap("Beside a rival, 0.1 % of errors unless said otherwise."),
        conditions(cases, skill_of),
        "## What it costs others",
        wrap(
            "The change of the rival's goodput, in per cent of what it has beside another NewReno; `?` where "
            "the interval contains zero."
        ),
        conditions(cases, cost_of),
        "## Thresholds",
        wrap(
            "Each sender with its own threshold varied, on the middle path. The area under the ROC curve is "
            "0.5 for a coin and 1 for an oracle; straight lines join the ends of a curve to the corners. "
            "`venoplus` decides by thresholds here (`decide`). `tcp-real` and `wsc` have no threshold of "
            "their own, and `lda mbiaz` is the point 1.25 of `lda biaz`."
        ),
        f"![Recall of errors against overflows missed, as thresholds move]({FIGURE.name})",
        areas(cases),
        "## Where classifying does not help",
        wrap(
            "Cells with errors in which the skill is not significantly above zero, and those in which "
            "classifying gives more, or less, goodput. `wsc` is counted where its link reports."
        ),
        unhelpful(cases),
        "## Threats to validity",
        wrap(THREATS),
        "## What was known",
        wrap(RELATED),
        "## The runs",
        wrap(AGAIN),
    ]
    return "\n\n".join(blocks) + "\n"


def draw(data: pl.DataFrame, file: Path = FIGURE) -> None:
    """Write the figure: curves of the thresholds."""
    import matplotlib.pyplot as plt

    from validation import pictures

    pictures.begin()
    cases = runs_of(data)
    figure, axes = plt.subplots(1, len(ROC_CELLS), figsize=(11, 5.2), sharex=True, sharey=True)
    styles = itertools.cycle("osD^v<P>X*hd")
    markers = dict(zip(THRESHOLDS, styles, strict=False))
    for axis, cell in zip(axes, ROC_CELLS, strict=True):
        for sender, marker in markers.items():
            x, y = zip(*curve(cases, cell, sender)[1:-1], strict=True)
            axis.plot(x, y, f"{marker}-", markersize=5, linewidth=1, alpha=0.8, label=sender, clip_on=False)
        axis.plot((0, 1), (0, 1), color="0.8", linewidth=1, zorder=0)
        axis.set(title=LOADS[cell.load], xlim=(0, 1), ylim=(0, 1), xlabel="overflows taken for errors")
        axis.set_aspect("equal")
    axes[0].set_ylabel("recall of errors")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=6, frameon=False)
    figure.tight_layout(rect=(0, 0.1, 1, 1))
    pictures.save(figure, file)


def write(data: pl.DataFrame) -> None:
    """Write page and figure."""
    PAGE.write_text(page(data), encoding="utf-8")
    draw(data)
