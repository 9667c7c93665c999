"""The page on senders of today: what the stored rows say, in tables, sentences and a figure."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from lasthop import stats
from validation.media import items, wrap
from validation.today import DATA, HOPS, MEASURES, RIVAL, SECONDS, SENDERS, WARMUP

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import polars as pl

    from lasthop.stats import Estimate

PAGE = DATA.with_suffix(".md")
FIGURE = DATA.with_suffix(".svg")

#: Goodput from which on a sender counts among those that fill the hop, as a share of the best.
FILLS = 0.9
#: A difference below this share of a figure decides nothing.
NEGLIGIBLE = 0.005
#: Share of a CUBIC's goodput that a considerate sender may take.
TAKES = 0.05
#: By hop and measure: of each sender a value per seed.
Values = dict[tuple[str, str], dict[str, list[float | None]]]


def values_of(data: pl.DataFrame) -> Values:
    """Return the values of every hop and measure, seeds in order."""
    found: Values = {}
    for hop, sender, name, _, value in data.sort("seed", maintain_order=True).iter_rows():
        found.setdefault((hop, name), {}).setdefault(sender, []).append(value)
    return found


def _mean(values: Values, hop: str, name: str, sender: str) -> float | None:
    return stats.mean(values[hop, name][sender])


def best(values: Values, hop: str, name: str, among: Iterable[str] = tuple(SENDERS)) -> tuple[str, ...]:
    """Return the best sender by its mean, then those whose paired difference is small or shows nothing."""
    if (hop, name) not in values:
        return ()
    one = MEASURES[name]
    means = {sender: mean for sender in among if (mean := _mean(values, hop, name, sender)) is not None}
    if not means:
        return ()
    order = sorted(means, key=lambda sender: -means[sender] if one.more else means[sender])
    first = values[hop, name][order[0]]

    def differs(sender: str) -> bool:
        if abs(means[sender] - means[order[0]]) <= NEGLIGIBLE * abs(means[order[0]]):
            return False
        difference = stats.paired_difference(values[hop, name][sender], first)
        return difference is None or difference.excludes_zero()

    return (order[0], *(sender for sender in order[1:] if not differs(sender)))


def filling(values: Values, hop: str) -> tuple[str, ...]:
    """Return the senders that carry at least `FILLS` of what the best one does."""
    means = {sender: _mean(values, hop, "goodput", sender) or 0.0 for sender in SENDERS}
    return tuple(sender for sender, mean in means.items() if mean >= FILLS * max(means.values()))


def change(values: Values, hop: str, name: str, sender: str, beside: str = RIVAL) -> Estimate | None:
    """Return the change of a measure relative to another sender, paired by seed."""
    found = values[hop, name]
    return stats.relative_difference(found[sender], found[beside])


def cost(values: Values, hop: str) -> dict[str, Estimate]:
    """Return the change of a CUBIC's goodput beside each other sender, relative to CUBIC beside CUBIC."""
    ratios = {sender: change(values, hop, "other", sender) for sender in SENDERS if sender != RIVAL}
    return {sender: ratio for sender, ratio in ratios.items() if ratio is not None}


def _named(senders: Iterable[str]) -> str:
    return ", ".join(f"`{sender}`" for sender in senders) or "–"


def advice(values: Values) -> str:
    """Return the table of which sender for which hop."""
    heads = (
        "last hop",
        "most goodput",
        "least delay",
        "100 kB soonest",
        "best video beside CUBIC",
        "least delay of a call beside",
        "takes from CUBIC",
    )
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for key, hop in HOPS.items():
        full = filling(values, key)
        takers = [
            f"`{sender}` ({100 * ratio.mean:+.0f} %)"
            for sender, ratio in sorted(cost(values, key).items(), key=lambda item: item[1].mean)
            if ratio.high is not None and ratio.high < 0
        ]
        cells = [
            hop.title,
            _named(best(values, key, "goodput")),
            _named(best(values, key, "delay", full)),
            _named(best(values, key, "median")),
            _named(best(values, key, "quality")),
            _named(best(values, key, "call", full)),
            ", ".join(takers) or "–",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _percent(found: Estimate | None) -> str:
    if found is None or found.low is None or found.high is None:
        return "an unknown share"
    return f"{100 * found.mean:+.0f} ({100 * found.low:+.0f} to {100 * found.high:+.0f}) %"


def in_short(values: Values) -> str:
    """Return what the tables say in sentences; every figure is taken from the rows."""
    everywhere = [sender for sender in SENDERS if all(sender in filling(values, key) for key in HOPS)]
    costs = {key: cost(values, key) for key in HOPS}
    considerate = [
        sender
        for sender in SENDERS
        if sender != RIVAL and all(costs[key][sender].mean >= -TAKES for key in HOPS)
    ]
    worst = {sender: min(costs[key][sender].mean for key in HOPS) for sender in SENDERS if sender != RIVAL}
    first = min(worst, key=lambda sender: worst[sender])
    where = min(HOPS, key=lambda key: costs[key][first].mean)
    lossy = ("lossy-shallow", "lossy-deep")
    filters = [_percent(change(values, key, "goodput", "cubic filter")) for key in lossy]
    rivals = [_percent(costs[key]["cubic filter"]) for key in lossy]
    told = _percent(change(values, "dish", "goodput", "satcp"))
    quiet = min(
        filling(values, "marking"), key=lambda sender: _mean(values, "marking", "delay", sender) or 0.0
    )
    delay = {sender: cell(values["marking", "delay"][sender]) for sender in (quiet, RIVAL)}
    short = {sender: cell(values["marking", "median"][sender]) for sender in ("prague", RIVAL)}
    texts = [f"Over every hop at least {100 * FILLS:.0f} % of the best goodput: {_named(everywhere)}."]
    texts.append(
        f"Beside {_named(considerate)} a CUBIC keeps at least {100 * (1 - TAKES):.0f} % of what another "
        f"CUBIC leaves it, over every hop. `{first}` takes most: {_percent(costs[where][first])} "
        f"({HOPS[where].title})."
    )
    texts.append(
        "Over the lossy line, with the short and with the long queue, the loss filter changes the goodput of "
        f"CUBIC by {filters[0]} and {filters[1]}, and that of a CUBIC beside it by {rivals[0]} and "
        f"{rivals[1]}."
    )
    texts.append(
        f"Announced handovers change the goodput of an upload by {told}: `satcp` against `cubic`. Where the "
        "sender is the server nothing is announced to it, and `satcp` is CUBIC."
    )
    texts.append(
        f"Behind DualPI2 `{quiet}` has the least delay of those that fill the line: {delay[quiet]} ms at the "
        f"95th percentile; CUBIC has {delay[RIVAL]} ms."
    )
    texts.append(
        f"100 kB over that line take {short['prague']} ms with `prague` (median) and {short[RIVAL]} ms with "
        "CUBIC: Linux does not pace the first ten segments, and the marks of that burst end slow start."
    )
    return items(tuple(texts))


def cell(values: list[float | None]) -> str:
    """Return the mean over seeds and its interval."""
    found = stats.estimate(values)
    if found is None:
        return "–"
    return figure(found.mean) + ("" if found.half_width is None else f" ± {figure(found.half_width)}")


def figure(value: float) -> str:
    """Return it with two digits after the point below 10, one below 100, none beyond."""
    return f"{value:.{2 if abs(value) < 10 else 1 if abs(value) < 100 else 0}f}"


def table(values: Values, hop: str) -> str:
    """Return the figures of a hop, a row for each sender."""
    measured = {name: one for name, one in MEASURES.items() if (hop, name) in values}
    names = [f"{one.name} ({one.unit})" for one in measured.values()]
    lines = [f"| sender | {' | '.join(names)} |", f"| --- |{' ---: |' * len(names)}"]
    for sender in SENDERS:
        cells = [cell(values[hop, name][sender]) for name in measured]
        lines.append(f"| `{sender}` | {' | '.join(cells)} |")
    return "\n".join(lines)


METHODS = """
**Hops.** Each is a server, a wire of 1 Gbit/s and 10 ms, and a last hop as its section says. **Senders.**
All have the loss recovery of Linux (RACK-TLP, and PRR but for `cubic filter`, `bbr` and `bbr3`) and the
`linux` profile; for the rest they differ only in congestion control.
`cubic` counts whole segments as Linux does. `cubic rfc` is RFC 9438 with HyStart++,
on which `abba` and `c2tcp` stand. `cubic filter` has picoquic's loss filter (`loss_filter = 0.15`),
`cubic search` leaves slow start by SEARCH (`hystart = "search"`). `copa competing` has Copa's mode for
competitors (`competes = true`), which is off by default. `prague` sends ECT(1) and counts marks
(Accurate ECN). **Loads.** A bulk transfer alone; transfers of 100 kB that arrive by a Poisson process at a
fifth of the usual rate of the hop, each over a connection of its own; video in segments of 3 s, chosen by
BOLA from a ladder up to 6 Mbit/s, beside a CUBIC; a bulk transfer beside a voice call (64 kbit/s over UDP),
and beside a CUBIC. **Measures.** The quality of a video is that of Yin et al. (2015), per segment: its bit
rate, less the change of it and less the highest bit rate for each second of stalls and start-up. Delays are
one-way. **Replicates.** {seeds} seeds of {seconds} s, without the first {warmup} s; starts are uniform over
a second. Intervals are 95 % (Student's t); ratios and differences are paired by seed."""
RULE = """
A cell names the sender with the best mean, then those within {negligible} % of it and those that do not
differ significantly over {seeds} seeds (paired, 95 %, not corrected for the number of senders).
Delays, of the transfer and of a
competing call, are compared among senders with at least {fills:.0f} % of the best goodput over the hop,
because a sender that sends little has little delay. The last column has the senders beside which a CUBIC
gets less than beside another CUBIC, and how much less."""
THREATS = tuple(
    """
Senders and hops are our own. [The kernel](kernel-parity.md), [other stacks](stacks.md) and \
[Wi-Fi](validation-wifi.md) say what was compared with Linux, QUIC stacks and ns-3. `copa`, `c2tcp`, `abba`, \
`satcp`, `ledbat++`, `prague`, SEARCH and the loss filter were checked against their rules, not against a \
run of their authors' code.
There is one path for each hop, one recording of LTE, and one competing flow. Base RTTs are 22 to 65 ms.
The call is audio without feedback; [media](media.md) has calls that adapt, and the senders made for them.
Queues of the cellular and satellite hops are drop-tail; an AQM there changes delays more than any sender \
(see [queues](../how-to/keep-queues-short.md)).
""".strip().split("\n")
)
RELATED = """
Schapira and Winstein (HotNets 2017) asked which sender suits which path, and Pantheon (Yan et al., ATC
2018) compared senders over real and emulated paths, in bulk. Sprout (Winstein et al., NSDI 2013) brought
recordings of cellular links, C2TCP (Abbasloo et al., 2019) a target for delay on them. Cao and Zhang
(INFOCOM 2023) announce handovers of satellites. RFC 9743 lists what a new controller is to be asked;
`lasthop evaluate` asks it of one sender. Here all senders have one loss recovery, and short transfers,
video, calls and the cost to others stand beside bulk."""
AGAIN = """
Every value is a row of [`senders-today.parquet`](senders-today.parquet): hop, sender, measure, seed, value.
`python -m validation.today` runs everything and writes rows, page and figure; with `--page` it writes page
and figure from the stored rows. The same engine gives identical rows."""


def page(values: Values) -> str:
    """Return the page."""
    seeds = len(next(iter(next(iter(values.values())).values())))
    blocks = [
        "# Which sender for which last hop",
        "<!-- Written by `python -m validation.today`; changes here are overwritten. -->",
        wrap(
            f"{len(SENDERS)} senders carry bulk, short transfers and video over {len(HOPS)} last hops, alone "
            "and beside others."
        ),
        advice(values),
        wrap(RULE.format(seeds=seeds, fills=100 * FILLS, negligible=100 * NEGLIGIBLE)),
        "## In short",
        in_short(values),
        f"![Goodput and delay of every sender over every hop]({FIGURE.name})",
        wrap("A bulk transfer alone: means over seeds. Better is up and to the left."),
        "## Methods",
        wrap(METHODS.format(seeds=seeds, seconds=SECONDS, warmup=WARMUP)),
    ]
    for key, hop in HOPS.items():
        blocks += [f"## {hop.title}", wrap(f"{hop.says[0].upper()}{hop.says[1:]}."), table(values, key)]
    blocks += ["## Threats to validity", items(THREATS), "## What was known", wrap(RELATED)]
    return "\n\n".join([*blocks, "## The runs", wrap(AGAIN)]) + "\n"


def draw(values: Values, file: Path = FIGURE) -> None:
    """Write the figure: goodput over delay, a panel for each hop."""
    import matplotlib.pyplot as plt

    from validation import pictures

    pictures.begin()
    drawn, axes = plt.subplots(2, (len(HOPS) + 1) // 2, figsize=(11, 6.6))
    styles = dict(zip(SENDERS, itertools.cycle("osD^v<P>X*hdp8H"), strict=False))
    for axis, (key, hop) in zip(axes.flat, HOPS.items(), strict=False):
        for number, (sender, marker) in enumerate(styles.items()):
            at = [_mean(values, key, name, sender) for name in ("delay", "goodput")]
            if None not in at:
                axis.plot(*at, marker, color=f"C{number % 10}", alpha=0.8, label=sender, linestyle="none")
        axis.set(title=hop.title, xscale="log", ylim=(0, None))
        axis.grid(visible=True, alpha=0.3)
    for axis in axes.flat[len(HOPS) :]:
        axis.set_axis_off()
    for axis in axes[:, 0]:
        axis.set_ylabel("goodput (Mbit/s)")
    for axis in axes[-1]:
        axis.set_xlabel("delay, 95th percentile (ms)")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="lower center", ncols=8, frameon=False)
    drawn.tight_layout(rect=(0, 0.08, 1, 1))
    pictures.save(drawn, file)


def write(data: pl.DataFrame) -> None:
    """Write page and figure."""
    values = values_of(data)
    PAGE.write_text(page(values), encoding="utf-8")
    draw(values)
