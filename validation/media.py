"""The test cases of RFC 8867 for real-time media: `python -m validation.media`.

Writes `docs/reference/media.md`. Every case runs with the senders made for media and with three of the
papers' senders, all with the same encoder. The bars of the verdicts are here; the RFC has none in
numbers.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import statistics
import tempfile
import textwrap
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from lasthop import _native
from validation import engine, media_cellular, media_figure, media_wifi
from validation.media_cases import CASES, SENDERS, WARMUP_S, Case, scenario, two_bottlenecks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "media.md"
FIGURE = PAGE.with_name("media-rates.svg")
COMMAND = "python -m validation.media"

SEEDS = range(1, 11)
#: The first of these, for Wi-Fi and for a cell: they take longer than a wire.
WIFI_SEEDS, CELL_SEEDS = 3, 5
#: Highest and lowest rate of the encoder, and an audio flow with its headers, in Mbit/s.
MOST, LEAST, AUDIO = 1.5, 0.15, 50 * 78 * 8 / 1e6
#: Student's t for 95 %, by the number of seeds.
T = {2: 12.71, 3: 4.303, 4: 3.182, 5: 2.776, 10: 2.262}
#: Seconds between which the cases over Wi-Fi are judged.
JUDGED_S = (20, 110)

#: A case over a wire, over Wi-Fi or in a cell.
AnyCase = Case | media_wifi.WifiCase | media_cellular.CellCase

# ----------------------------------------------------------------------------------------------------
# The bars, set before the first run

#: Share of what the link or the encoders can carry, in the second half of every phase.
UTILISATION = 0.8
#: 95th percentile of the queueing delay, in ms: a third of the queue of 300 ms.
QUEUE_MS = 100
#: Packets of media lost.
LOSS = 0.01
#: Highest over lowest rate of flows that should be equal (RFC 8868).
RATIO = 3.0
#: Seconds after which the rate is at 90 % of what a rise of the capacity allows.
RECOVERY_S = 15
#: Share of the rate share of the rate with a clean reverse path that is left where that is congested.
FEEDBACK = 0.7
#: Mbit/s below which a flow beside TCP is starved: the encoder's lowest rate, within 10 %.
STARVED = 0.9 * LEAST
#: Priority of 2 against 1: at least this ratio.
PRIORITY = 1.5
#: Not judged: windows of fairness, in s, and the change of a rate that is an oscillation (RFC 8868).
WINDOWS_S = (1, 5, 20)
SWING = 4


# ----------------------------------------------------------------------------------------------------
# Measuring


@dataclass(frozen=True)
class Seen:
    """One run."""

    run: dict[str, Any]
    flows: pl.DataFrame
    links: pl.DataFrame

    def rate(self, flow: str, start: float, end: float) -> float:
        """Return the rate at which a flow arrived, headers included, in Mbit/s."""
        within = self.flows.filter(
            (pl.col("flow") == flow) & (pl.col("time_s") > start + 1e-6) & (pl.col("time_s") <= end + 1e-6)
        )
        mean = within["throughput_bit_s"].mean()
        return 0.0 if mean is None else float(mean) / 1e6  # type: ignore[arg-type]

    def busy(self, link: str, start: float, end: float) -> float:
        """Return the share of time that a link transmitted."""
        within = self.links.filter(
            (pl.col("link") == link) & (pl.col("time_s") > start + 1e-6) & (pl.col("time_s") <= end + 1e-6)
        )
        return float(within["utilisation"].mean())  # type: ignore[arg-type]


def run_of(made: dict[str, Any], seed: int, folder: Path | None = None) -> Seen:
    """Run a scenario, whose files are in a folder."""
    result = _native.run(engine.plan(made, folder), seed, series=True)
    flows, links = result.table("flow_series"), result.table("link_series")
    return Seen(json.loads(result.to_json()), pl.DataFrame(flows), pl.DataFrame(links))


def phases(case: Case) -> Iterator[tuple[float, float, float]]:
    """Yield start, end and capacity of every phase, to the end of the last flow."""
    end = min(case.duration, *(call.stop or case.duration for call in case.calls))
    starts = sorted({at for at, _ in case.capacity} | {call.start for call in case.calls if not call.back})
    for begin, until in zip(starts, [*starts[1:], end], strict=True):
        yield begin, until, next(rate for at, rate in reversed(case.capacity) if at <= begin)


def wanted(case: Case, at: float) -> float:
    """Return what the flows that have started can send, in Mbit/s."""
    forward = [call for call in case.calls if not call.back and call.start <= at]
    return len(forward) * (MOST + AUDIO)


def utilisation(case: Case, seen: Seen) -> float:
    """Return the least share of what could be carried, over the second halves of all phases."""
    return min(
        seen.busy("bottleneck", (begin + end) / 2, end) / min(1.0, wanted(case, begin) / capacity)
        for begin, end, capacity in phases(case)
    )


def recovery(case: Case, seen: Seen) -> float:
    """Return the longest time that a rise of the capacity took, in s."""
    longest = 0.0
    every = list(phases(case))
    for (_, _, before), (begin, end, capacity) in itertools.pairwise(every):
        if capacity <= before:
            continue
        attainable = 0.9 * min(capacity, wanted(case, begin))
        second = begin
        while second < end:
            total = sum(
                seen.rate(f"{kind}{number}", second, second + 1)
                for number in range(1, len(case.calls) + 1)
                for kind in ("video", "audio")
            )
            if total >= attainable:
                break
            second += 1
        longest = max(longest, second - begin)
    return longest


def ratio(case: Case, seen: Seen) -> float:
    """Return the highest over the lowest rate while all flows are there."""
    found = [seen.rate(f"video{number}", *case.fair) for number in range(1, len(case.calls) + 1)]
    return max(found) / max(min(found), 1e-3)


def starved(case: Case, seen: Seen) -> float:
    """Return the lowest mean rate of a video, in Mbit/s."""
    start = max(call.start for call in case.calls) + WARMUP_S
    end = min(call.stop or case.duration for call in case.calls)
    return min(seen.rate(f"video{number}", start, end) for number in range(1, len(case.calls) + 1))


def resume(_: Case, seen: Seen) -> float:
    """Return the lower rate of the two others late in the pause, over the highest of the encoder."""
    return min(seen.rate(name, 50, 60) for name in ("video1", "video3")) / MOST


def priority(case: Case, seen: Seen) -> float:
    """Return the rate of the first over the mean of the others."""
    first, *rest = (seen.rate(f"video{number}", *case.fair) for number in (1, 2, 3))
    return first / statistics.mean(rest)


def second(_: Case, seen: Seen) -> float:
    """Return the share of time that the second bottleneck transmitted."""
    return seen.busy("second", 150, 299)


#: How each check of a wired case is measured.
MEASURES: dict[str, Callable[[Case, Seen], float]] = {
    "utilisation": utilisation,
    "recovery": recovery,
    "ratio": ratio,
    "starved": starved,
    "resume": resume,
    "priority": priority,
    "second": second,
}
#: By name: what a check is called, its bar, whether higher is better, and how it is written.
CHECKS: dict[str, tuple[str, float, bool, str]] = {
    "utilisation": ("utilisation", UTILISATION, True, "{:.2f}"),
    "recovery": ("recovery (s)", RECOVERY_S, False, "{:.0f}"),
    "ratio": ("highest / lowest", RATIO, False, "{:.1f}"),
    "starved": ("lowest rate (Mbit/s)", STARVED, True, "{:.2f}"),
    "resume": ("others during the pause, relative to 1.5 Mbit/s", UTILISATION, True, "{:.2f}"),
    "priority": ("first / others", PRIORITY, True, "{:.1f}"),
    "second": ("second link", UTILISATION, True, "{:.2f}"),
    "feedback": ("share of the rate with a clean reverse path", FEEDBACK, True, "{:.2f}"),
    "wire": ("utilisation", UTILISATION, True, "{:.2f}"),
    "share": ("sum, relative to TCP", UTILISATION, True, "{:.2f}"),
    "alike": ("highest / lowest", RATIO, False, "{:.1f}"),
}
#: Where nothing but media fills queues.
CLEAN: dict[str, tuple[str, float, str]] = {
    "queue": ("p95 queueing delay (ms)", QUEUE_MS, "{:.0f}"),
    "loss": ("packets lost", LOSS, "{:.2%}"),
}


def seen_by_viewers(seen: Seen, duration: float, owd_ms: Callable[[int], float]) -> dict[str, float]:
    """Return what the calls of a run had; `owd_ms` is the delay of the path of each."""
    videos = [flow for flow in seen.run["flows"] if flow["name"].startswith("video")]
    queues = [
        flow["delay_p95_s"] * 1e3 - owd_ms(int(flow["name"][5:]))
        for flow in videos
        if flow["delay_p95_s"] is not None
    ]
    sent = sum(flow["packets_sent"] for flow in videos)
    delays = [flow["call"]["frame_delay_p95_s"] for flow in videos]
    shares = [flow["call"]["frames_lost_share"] for flow in videos]
    minutes = (duration - WARMUP_S) / 60
    return {
        "queue": max(queues, default=math.nan),
        "loss": sum(sum(flow["packets_lost"].values()) for flow in videos) / max(sent, 1),
        "rate": statistics.mean(flow["call"]["rate_bit_s"] / 1e6 for flow in videos),
        "frame": max((delay * 1e3 for delay in delays if delay is not None), default=math.nan),
        "freezes": statistics.mean((flow["call"]["freezes"] or 0) / minutes for flow in videos),
        "unshown": statistics.mean([share for share in shares if share is not None] or [1.0]),
    }


def forward(case: Case) -> list[str]:
    """Return the videos that share the bottleneck."""
    return [f"video{number}" for number, call in enumerate(case.calls, 1) if not call.back]


def alike(case: Case, seen: Seen, window_s: float) -> float:
    """Return the share of windows in which no flow has over three times the rate of another."""
    begin, end = case.fair
    starts = [begin + index * window_s for index in range(int((end - begin) // window_s))]
    rates = [[seen.rate(name, start, start + window_s) for name in forward(case)] for start in starts]
    return statistics.mean(max(found) <= RATIO * min(found) for found in rates) if rates else math.nan


def convergence(case: Case, seen: Seen) -> float:
    """Return after which time the rate stays within a tenth of its mean from then on, in s, for a phase."""
    times = []
    for begin, end, _ in phases(case):
        seconds = range(int(end - begin))
        rates = [sum(seen.rate(name, begin + at, begin + at + 1) for name in forward(case)) for at in seconds]
        tails = ((at, rates[at:], statistics.mean(rates[at:])) for at in seconds)
        times.append(next(at for at, tail, mean in tails if all(abs(r - mean) <= 0.1 * mean for r in tail)))
    return statistics.mean(times)


def oscillation(case: Case, seen: Seen) -> float:
    """Return how often a minute the rate of a flow changes by four from 200 ms to the next."""
    jumps = minutes = 0.0
    for name in forward(case):
        series = seen.flows.filter((pl.col("flow") == name) & (pl.col("time_s") > WARMUP_S))
        rates = [rate or 0.0 for rate in series["throughput_bit_s"]]
        pairs = [(one, other) for one, other in itertools.pairwise(rates) if one > 0 and other > 0]
        jumps += sum(max(pair) >= SWING * min(pair) for pair in pairs)
        minutes += len(rates) / 300
    return jumps / minutes


def steadiness(case: Case, seen: Seen) -> dict[str, float]:
    """Return what RFC 8868 asks for beside rates, delays and losses."""
    found = {f"alike {window}": alike(case, seen, window) for window in WINDOWS_S if case.fair[1]}
    return found | {"convergence": convergence(case, seen), "oscillation": oscillation(case, seen)}


def measure_wired(case: Case, sender: str, seed: int) -> dict[str, float]:
    """Run a case of RFC 8867 once and measure it."""
    make = two_bottlenecks if case.name == "6.3" else scenario
    seen = run_of(make(case, sender), seed)
    found = {name: MEASURES[name](case, seen) for name in case.checks if name in MEASURES}
    found |= seen_by_viewers(seen, case.duration, lambda number: case.calls[number - 1].owd_ms)
    if case.clean:
        found |= steadiness(case, seen)
    if "feedback" in case.checks:
        clean = run_of(scenario(replace(case, back=None), sender), seed)
        end = case.calls[0].stop or case.duration
        found["feedback"] = seen.rate("video1", WARMUP_S, end) / clean.rate("video1", WARMUP_S, end)
    tcp = [flow["goodput_bit_s"] / 1e6 for flow in seen.run["flows"] if flow["name"] == "tcp"]
    return found | ({"tcp": tcp[0]} if tcp else {})


@cache
def carried_by_tcp(case: media_wifi.WifiCase, seed: int) -> float:
    """Return what as many TCPs carry in place of the calls, in Mbit/s."""
    seen = run_of(media_wifi.scenario(case, None), seed)
    return sum(seen.rate(f"video{number}", *JUDGED_S) for number in range(1, case.calls + 1))


def measure_wifi(case: media_wifi.WifiCase, sender: str, seed: int) -> dict[str, float]:
    """Run a case of RFC 8869 once and measure it."""
    seen = run_of(media_wifi.scenario(case, sender), seed)
    rates = [seen.rate(f"video{number}", *JUDGED_S) for number in range(1, case.calls + 1)]
    audio = [seen.rate(f"audio{number}", *JUDGED_S) for number in range(1, case.calls + 1)]
    found = seen_by_viewers(seen, case.duration, lambda _: 50)
    found |= {"starved": min(rates), "alike": max(rates) / max(min(rates), 1e-3)}
    if case.wired:
        ways = ["wire"] * bool(case.up) + ["wire (reverse)"] * bool(case.down)
        found["wire"] = min(seen.busy(way, *JUDGED_S) for way in ways)
    else:
        most = min(carried_by_tcp(case, seed), case.calls * (MOST + AUDIO))
        found["share"] = (sum(rates) + sum(audio)) / most
    return found


def run_cell(case: media_cellular.CellCase, sender: str | None, seed: int) -> Seen:
    """Run a cellular case."""
    with tempfile.TemporaryDirectory() as name:
        for node, text in media_cellular.channels(case, seed).items():
            Path(name, node).write_text(text, encoding="ascii")
        return run_of(media_cellular.scenario(case, sender, seed), seed, Path(name))


def megabits(seen: Seen, kind: str, calls: Sequence[media_cellular.Call]) -> float:
    """Return what the calls carried in the judged time."""
    return sum(
        seen.rate(f"{kind}{number}", *call.judged) * call.judged_s
        for number, call in enumerate(calls, 1)
        if call.judged_s > 0
    )


@cache
def carried_by_tcp_in_cell(case: media_cellular.CellCase, seed: int) -> float:
    """Return what as many TCPs carry in place of the calls, in Mbit."""
    return megabits(run_cell(case, None, seed), "video", media_cellular.calls(case, seed))


def measure_cell(case: media_cellular.CellCase, sender: str, seed: int) -> dict[str, float]:
    """Run a cellular case of RFC 8869 once and measure it."""
    seen = run_cell(case, sender, seed)
    calls = media_cellular.calls(case, seed)
    found = seen_by_viewers(seen, media_cellular.CALL_S + WARMUP_S, lambda _: case.rtt_ms / 2)
    found["starved"] = min(
        seen.rate(f"video{number}", *call.judged)
        for number, call in enumerate(calls, 1)
        if call.judged_s >= WARMUP_S
    )
    wanted = sum(call.judged_s for call in calls) * (MOST + AUDIO)
    most = min(carried_by_tcp_in_cell(case, seed), wanted)
    found["share"] = (megabits(seen, "video", calls) + megabits(seen, "audio", calls)) / most
    return found


def measure(case: AnyCase, sender: str, seed: int) -> dict[str, float]:
    """Run a case once and measure it."""
    if isinstance(case, media_wifi.WifiCase):
        return measure_wifi(case, sender, seed)
    if isinstance(case, media_cellular.CellCase):
        return measure_cell(case, sender, seed)
    return measure_wired(case, sender, seed)


@dataclass(frozen=True)
class Figure:
    """A mean over all seeds, and half of its 95 % interval."""

    mean: float
    half: float

    def text(self, form: str) -> str:
        """Write it, with its interval if that shows."""
        if math.isnan(self.mean):
            return "–"
        shown, spread = form.format(self.mean), form.format(self.half)
        return shown if float(spread.rstrip("%")) == 0 else f"{shown} ± {spread}"


def figures(runs: list[dict[str, float]]) -> dict[str, Figure]:
    """Return the figures of all seeds."""
    found = {}
    for name in runs[0]:
        values = [run[name] for run in runs if not math.isnan(run[name])]
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        mean = statistics.mean(values) if values else math.nan
        found[name] = Figure(mean, T.get(len(values), 2.0) * spread / math.sqrt(max(len(values), 1)))
    return found


def misses(case: AnyCase, found: dict[str, Figure]) -> list[str]:
    """Return which bars a sender misses."""
    missed = []
    for name in case.checks:
        label, bar, higher, _ = CHECKS[name]
        mean = found[name].mean
        if mean < bar if higher else mean > bar:
            missed.append(label.split(" (")[0])
    if case.clean:
        for name, (label, bar, _) in CLEAN.items():
            if isinstance(case, Case) and case.back and name == "queue":
                # Congestion of the reverse path is part of the delay of the call that goes there.
                continue
            if not found[name].mean <= bar:
                missed.append(label.split(" (")[0])
    return missed


# ----------------------------------------------------------------------------------------------------
# The page

WIFI = f"""
There is a station for each call, an access point, and a wire of 50 ms behind it. In 3.1 the wire is the
bottleneck: it has 1 Mbit/s, with queue and delay variation as above, and all calls are at one station
of 802.11n with MCS 11. In 3.2 the radio is the bottleneck: 802.11g at 54 Mbit/s carries about the 20
Mbit/s that the RFC assumes, while 802.11n with A-MPDUs would carry more than the calls need. The sum of
the calls is compared with what the same number of TCP flows (NewReno) carries, or with the sum of the
encoders' highest rates if that is less. In 3.2 each call, and each TCP in its place, starts within a second
of its time, drawn for each seed: calls that start in the same instant send their frames in step for two
minutes. Means over {WIFI_SEEDS} seeds, rates from {JUDGED_S[0]} to {JUDGED_S[1]} s."""

MISSED = """
The bars that each sender misses, by case: first the wired cases of RFC 8867, then those of RFC 8869
over Wi-Fi and in a cell. What a viewer sees is in the tables below and not judged: without repair half a
percent of packets lost meets the bar and can freeze the picture 20 times a minute (3.2 a)."""

CELL = f"""
A server, a wire, and one LTE cell of 10 MHz (50 resource blocks, one layer, proportional fairness, RLC
in acknowledged mode, a buffer of 1 MB for each user) stand for the 21 cells of the RFC. Calls of
{media_cellular.CALL_S} s arrive as a Poisson process, with the RFC's intensity divided by
{media_cellular.CELLS}, and are judged between {media_cellular.JUDGED_S[0]:g} and
{media_cellular.JUDGED_S[1]:g} s. The channel of a user is Rayleigh fading at 2 GHz with two receive
antennas, at 3 km/h unless the case says otherwise, around a constant mean: {media_cellular.NEAR_DB:g}
and {media_cellular.FAR_DB:g} dB in turn in section 2.1, {media_cellular.EDGE_DB:g} dB in section 2.2.
Its rate follows from the SINR by TR 36.942 (A.2), and HARQ loses a tenth of all first transmissions.
The RTT is 40 ms unless the case says otherwise. The queueing delay is everything that the cell adds to
the wire: queueing, HARQ, RLC, and in the uplink the wait for a grant. The sum of the calls is compared
with what the same number of TCP flows (NewReno) carries, or with the sum of the encoders' highest rates
if that is less. A call starts at 150 kbit/s and ends after 30 s, so a sender that rises slowly misses
that bar even in an empty cell. Means over {CELL_SEEDS} seeds."""

INTRODUCTION = f"""
RFC 8867 describes test cases for congestion control of real-time media, and sets no pass criteria in
numbers. Here all of its wired cases are run. A flow is a video call: 150 kbit/s to 1.5 Mbit/s, 30
frames/s, with the encoder of the RFC's section 5 (within 5 % in each second, 100 ms to react) and audio
of 20 kbit/s beside each video. The one-way delay is 50 ms unless the case says otherwise, with a delay
variation of |N(0, 5 ms)| up to 15 ms without reordering, and a drop-tail queue of 300 ms at the initial
capacity. Values are means over {len(SEEDS)} seeds with 95 % intervals, from {WARMUP_S} s on; rates
include headers."""

SENDING = """
`nada`, `gcc` and `scream` are made for media; `nada, 0.5 s` is NADA with `signal_limit_s = 0.5`, the
limit that its authors' simulator sets to the signal. `tfrc`, `ssvp` and `tcp-real` are the senders of
the reproduced papers: the same encoder follows the rate that they allow, or window over RTT. Only
`tcp-real` retransmits; for the others the encoder makes a key frame after a loss."""

BARS = f"""
The bars were set before the first run and are the same for all senders: at least {UTILISATION:.0%} of
what the link or the encoders can carry in the second half of each phase; a 95th percentile of the
queueing delay, variation included, of at most {QUEUE_MS} ms; at most {LOSS:.0%} of packets lost;
highest over lowest rate at most {RATIO:g} (RFC 8868); at most {RECOVERY_S} s until 90 % of a rise of
the capacity is used; with a congested reverse path, {FEEDBACK:.0%} of the rate with a clean one; beside
TCP, at least the encoder's lowest rate, less 10 %; a ratio of {PRIORITY:g} for a priority of two. Queue
and losses are judged where only media share a queue; in 5.3 the queue is not, because the call on the
congested path back is among those measured. *meets*: the mean meets every bar."""

OPEN = (
    "The pass criteria: every number above is ours.",
    "What a sender does about a lost picture: no retransmission (NACK) and no FEC here.",
    "Where the delay variation is: here behind the bottleneck.",
    "The short TCP flows of 5.7: here transfers of 40 kB that arrive as from ten sources, one a second.",
    "The size of the queue while the capacity changes: it stays that of the first capacity, in bytes.",
    "Which flow pauses in 5.8: the text names the second and, later, the third. Here it is the second.",
    "Priorities (6.1) of controllers that have none: only NADA has them.",
    "Which queues mark in 6.2: here PIE and FQ-CoDel, in 5.1 and 5.4.",
    "What 6.2 does to `gcc`, which ignores marks, and `ssvp`, which slows down too little: they are dropped.",
)

LEFT = (
    "The interference between the 21 cells of RFC 8869, its handovers, and its web pages beside the calls.",
    "All steps of its load: here four of 15 down, three of ten up.",
    "Capacity steps by background traffic instead of the link, and other delays and losses of the path.",
    "Section 3.3 of RFC 8869: EDCA on and off, stations of unequal rates.",
    "Other programs: GCC is [beside pion's](validation-gcc.md), SCReAM [its authors'](validation-scream.md).",
)


def wrap(text: str) -> str:
    """Break the lines of a paragraph."""
    return "\n".join(textwrap.wrap(text.strip(), 110, break_long_words=False, break_on_hyphens=False))


def items(texts: tuple[str, ...]) -> str:
    """Return a list."""
    return "\n".join(
        textwrap.fill(
            f"- {text}", 110, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
        for text in texts
    )


Outcomes = dict[tuple[str, str], dict[str, Figure]]

STEADY = f"""
Not judged. Fairness is the share of windows of {WINDOWS_S[0]}, {WINDOWS_S[1]} and {WINDOWS_S[2]} s in which
the highest rate is at most {RATIO:g} times the lowest, where flows of the same priority share a queue.
Convergence is the time after which the sum of the videos stays within a tenth of its mean from then on,
averaged over the phases. An oscillation is a change of a flow's rate by a factor of {SWING} from 200 ms to
the next."""


def summary(outcomes: Outcomes, cases: Sequence[AnyCase]) -> str:
    """Return a verdict per case and sender."""
    rows = [
        f"| case | {' | '.join(f'`{sender}`' for sender in SENDERS)} |",
        f"| --- |{' --- |' * len(SENDERS)}",
    ]
    for case in cases:
        cells = []
        for sender in SENDERS:
            found = outcomes.get((case.name, sender))
            missed = misses(case, found) if found else None
            cells.append("–" if missed is None else "; ".join(missed) or "**meets**")
        rows.append(f"| {case.name} {case.title} | {' | '.join(cells)} |")
    return "\n".join(rows)


def table(case: AnyCase, outcomes: Outcomes) -> str:
    """Return the figures of a case."""
    heads = ["sender", *(CHECKS[name][0] for name in case.checks), *(label for label, _, _ in CLEAN.values())]
    heads += ["video rate (Mbit/s)", "p95 frame delay (ms)", "freezes a minute", "frames never shown"]
    if "tcp" in outcomes[case.name, case.senders[0]]:
        heads.append("TCP (Mbit/s)")
    rows = [f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 1)}"]
    for sender in case.senders:
        found = outcomes[case.name, sender]
        cells = [f"`{sender}`", *(found[name].text(CHECKS[name][3]) for name in case.checks)]
        cells += [found[name].text(form) for name, (_, _, form) in CLEAN.items()]
        forms = {
            "rate": "{:.2f}",
            "frame": "{:.0f}",
            "freezes": "{:.1f}",
            "unshown": "{:.1%}",
            "tcp": "{:.2f}",
        }
        cells += [found[name].text(form) for name, form in forms.items() if name in found]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def steady(outcomes: Outcomes) -> str:
    """Return the table of RFC 8868's other metrics."""
    heads = ["case", "sender", *(f"fair in {window} s" for window in WINDOWS_S)]
    heads += ["convergence (s)", "oscillations a minute"]
    rows = [f"| {' | '.join(heads)} |", f"| --- | --- |{' ---: |' * (len(heads) - 2)}"]
    for case in (case for case in CASES if case.clean):
        for sender in case.senders:
            found = outcomes[case.name, sender]
            names = [f"alike {window}" for window in WINDOWS_S]
            cells = [found[name].text("{:.0%}") if name in found else "–" for name in names]
            cells += [found["convergence"].text("{:.0f}"), found["oscillation"].text("{:.1f}")]
            rows.append(f"| {case.name} | `{sender}` | {' | '.join(cells)} |")
    return "\n".join(rows)


def draw() -> None:
    """Draw what each second brought in 5.1 with the first seed."""
    case = CASES[0]
    rates = {}
    for sender in case.senders:
        seen = run_of(scenario(case, sender), 1)
        seconds = range(int(case.duration))
        rates[sender] = {
            name: [seen.rate(name, second, second + 1) for second in seconds] for name in forward(case)
        }
    media_figure.draw(FIGURE, case.capacity, case.duration, rates)


def page(outcomes: Outcomes) -> str:
    """Return the page."""
    blocks = [
        "# Real-time media: the cases of RFC 8867 and RFC 8869",
        f"<!-- Written by `{COMMAND}`; changes here are overwritten. -->",
        *(wrap(text) for text in (INTRODUCTION, SENDING, BARS)),
        "## Verdicts",
        wrap(MISSED),
        summary(outcomes, CASES),
        summary(outcomes, media_wifi.CASES),
        summary(outcomes, media_cellular.CASES),
        "## What the RFC leaves open",
        items(OPEN),
        "## What is not run",
        items(LEFT),
    ]
    for case in CASES:
        blocks += [f"## {case.name}: {case.title}", table(case, outcomes)]
        if case is CASES[0]:
            blocks.append(f"![Rate of each sender over the capacity in 5.1, first seed]({FIGURE.name})")
    blocks += ["## Fairness, convergence and oscillation (RFC 8868)", wrap(STEADY), steady(outcomes)]
    blocks += ["## Over Wi-Fi: RFC 8869 section 3", wrap(WIFI)]
    for wifi in media_wifi.CASES:
        blocks += [f"### {wifi.name}: {wifi.title}", table(wifi, outcomes)]
    blocks += ["## In a cell: RFC 8869 section 2", wrap(CELL)]
    for cell in media_cellular.CASES:
        blocks += [f"### {cell.name}: {cell.title}", table(cell, outcomes)]
    return "\n\n".join(blocks) + "\n"


def main() -> None:
    """Run every case and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at once")
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="seeds of each case")
    arguments = parser.parse_args()
    every: list[tuple[AnyCase, str, int]] = []
    for case in (*CASES, *media_wifi.CASES, *media_cellular.CASES):
        most = {Case: len(SEEDS), media_wifi.WifiCase: WIFI_SEEDS, media_cellular.CellCase: CELL_SEEDS}
        seeds = min(arguments.seeds, most[type(case)])
        every += [(case, sender, seed) for sender in case.senders for seed in range(1, seeds + 1)]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        measured = list(pool.map(lambda one: measure(*one), every))
    runs: dict[tuple[str, str], list[dict[str, float]]] = {}
    for (case, sender, _), found in zip(every, measured, strict=True):
        runs.setdefault((case.name, sender), []).append(found)
    draw()
    PAGE.write_text(page({key: figures(found) for key, found in runs.items()}), encoding="utf-8")


if __name__ == "__main__":
    main()
