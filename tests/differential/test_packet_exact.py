"""The `ns2` profile against ns-2.35, packet for packet: departures of data packets, ACKs and window changes.

A case is a base scenario of `cases/` and changes to it. Where lasthop knowingly departs from ns-2, `KNOWN`
says why, and the test checks the first packet at which they part.
"""

from __future__ import annotations

import copy
import random
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from validation import compare, engine, ns2
from validation.network import SENDERS, read

pytestmark = pytest.mark.skipif(shutil.which("ns") is None, reason="ns-2 is not installed")

Scenario = dict[str, Any]
Change = Callable[[Scenario], None]

CASES_FOLDER = Path(__file__).parent / "cases"

#: A packet in the middle of slow start, with 16 to 24 packets outstanding. The SYN is number 0.
FIRST_LOSS = 30


def nothing(_scenario: Scenario) -> None:
    """Leave the base as it is."""


def lose(*packets: int) -> Change:
    """Lose these packets of the sender on the last hop."""

    def change(scenario: Scenario) -> None:
        scenario["topology"]["links"][1]["error"] = {"kind": "list", "packets": sorted(packets)}
        scenario["topology"]["links"][1].setdefault("reverse", {}).setdefault("error", {"kind": "none"})

    return change


def lose_acks(*packets: int) -> Change:
    """Lose these packets of the receiver on the last hop."""

    def change(scenario: Scenario) -> None:
        scenario["topology"]["links"][1]["reverse"] = {"error": {"kind": "list", "packets": sorted(packets)}}

    return change


def lose_retransmission(scenario: Scenario) -> None:
    """Lose a packet and its retransmission, whose number on the link depends on the sender: ask ns-2."""
    lose(FIRST_LOSS)(scenario)
    hops = ns2.trace_packets(scenario).hops.filter(
        (pl.col("link") == "last-hop")
        & pl.col("transmit_s").is_not_null()
        & pl.col("kind").is_in(["syn", "data"])
    )
    sent = hops.sort("transmit_s")["seq"].to_list()
    again = sent.index(sent[FIRST_LOSS], FIRST_LOSS + 1)
    lose(FIRST_LOSS, again)(scenario)


def lose_at_random(seed: int, rate: float) -> Change:
    """Lose packets of both directions at random, the same ones for both simulators."""

    def change(scenario: Scenario) -> None:
        numbers = random.Random(seed)  # noqa: S311, nothing secret is drawn
        forward, reverse = ([k for k in range(1, 5000) if numbers.random() < rate] for _ in range(2))
        scenario["duration"] = "20 s"
        lose_acks(*reverse)(scenario)
        lose(*forward)(scenario)

    return change


def tcp(**settings: object) -> Change:
    """Change settings of the sender and the receiver."""

    def change(scenario: Scenario) -> None:
        scenario["tcp"].update(settings)

    return change


def window(packets: int) -> Change:
    """Set the receiver window, and with it ns-2's initial slow start threshold."""
    return tcp(receiver_window=f"{packets} packets", initial_ssthresh=f"{packets} packets")


def queue(packets: int) -> Change:
    """Shorten the queue at the last hop."""

    def change(scenario: Scenario) -> None:
        scenario["topology"]["links"][1]["queue"] = {"kind": "drop-tail", "limit": f"{packets} packets"}

    return change


def start(time: str) -> Change:
    """Start later than at zero: ns-2's Vegas takes the time of its first ACK for a round-trip time."""

    def change(scenario: Scenario) -> None:
        scenario["flows"][0]["start"] = time

    return change


def last(duration: str) -> Change:
    """Run longer, so that the connection recovers from its backed-off timer."""

    def change(scenario: Scenario) -> None:
        scenario["duration"] = duration

    return change


DELAYED_ACKS = tcp(delayed_ack={"timeout": "100 ms", "segments": 2, "quick": 0})
LATE_LOSSES = (FIRST_LOSS, FIRST_LOSS + 3)

#: Name -> base scenario and changes. Fall & Floyd's cases lose 1 to 4 packets of one window.
CASES: dict[str, tuple[str, tuple[Change, ...]]] = {
    "no-loss": ("one-hop", (nothing,)),
    "1-drop": ("one-hop", (lose(30),)),
    "2-drops": ("one-hop", (lose(30, 32),)),
    "3-drops": ("one-hop", (lose(30, 32, 34),)),
    "4-drops": ("one-hop", (lose(30, 32, 34, 36),)),
    "4-drops-in-a-row": ("one-hop", (lose(30, 31, 32, 33),)),
    "4-drops-patient-timer": ("one-hop", (tcp(rto={"min": "1 s"}), lose(30, 32, 34, 36))),
    "first-data-packet-lost": ("one-hop", (lose(1),)),
    "syn-lost": ("one-hop", (lose(0),)),
    "syn-ack-lost": ("one-hop", (lose_acks(0),)),
    "lost-retransmission": ("one-hop", (lose_retransmission,)),
    "lost-ack-burst": ("one-hop", (lose_acks(*range(20, 28)),)),
    "lost-window-of-acks": ("one-hop", (last("20 s"), lose_acks(*range(25, 70)))),
    "backed-off-timeouts": ("one-hop", (last("20 s"), lose(*range(30, 75)))),
    "delayed-acks": ("one-hop", (DELAYED_ACKS,)),
    "delayed-acks-2-drops": ("one-hop", (DELAYED_ACKS, lose(*LATE_LOSSES))),
    "timestamps": ("one-hop", (tcp(timestamps=True),)),
    "timestamps-2-drops": ("one-hop", (tcp(timestamps=True), lose(*LATE_LOSSES))),
    "timestamps-delayed-acks-2-drops": ("one-hop", (tcp(timestamps=True), DELAYED_ACKS, lose(*LATE_LOSSES))),
    "buffer-overflow": ("one-hop", (queue(8), window(64))),
    "buffer-overflow-20": ("one-hop", (queue(20), window(64))),
    "small-window": ("one-hop", (window(4), lose(30))),
    "window-of-8": ("one-hop", (window(8), lose(30, 33))),
    "no-limited-transmit": ("one-hop", (tcp(limited_transmit=False), lose(*LATE_LOSSES))),
    "late-start": ("one-hop", (start("1.37 s"), lose(*LATE_LOSSES))),
    "random-losses-1": ("one-hop", (lose_at_random(1, 0.01),)),
    "random-losses-2": ("one-hop", (lose_at_random(2, 0.03),)),
    "random-losses-3": ("one-hop", (lose_at_random(3, 0.05),)),
    "random-losses-timestamps": ("one-hop", (lose_at_random(4, 0.03), tcp(timestamps=True))),
    "random-losses-delayed-acks": ("one-hop", (lose_at_random(6, 0.03), DELAYED_ACKS)),
    "dumbbell": ("dumbbell", (nothing,)),
    "dumbbell-late-start": ("dumbbell", (start("0.31 s"),)),
}

#: (case, sender) -> why lasthop departs, the sequence in which it shows first, and the sequence number there.
KNOWN: dict[tuple[str, str], tuple[str, str, int | None]] = {}


def scenario_of(case: str, sender: str) -> Scenario:
    base, changes = CASES[case]
    scenario: Scenario = copy.deepcopy(tomllib.loads((CASES_FOLDER / f"{base}.toml").read_text()))
    scenario["flows"][0]["transport"] = sender
    for change in changes:
        change(scenario)
    return scenario


@pytest.mark.parametrize("sender", SENDERS)
@pytest.mark.parametrize("case", CASES)
def test_same_packets(case: str, sender: str) -> None:
    scenario = scenario_of(case, sender)
    theirs = ns2.trace_packets(scenario)
    ours = engine.trace_packets(scenario, theirs.clock_phases_s)
    found = compare.first_divergence(read(scenario), ours, theirs)
    known = KNOWN.get((case, sender))
    if known is None:
        assert found is None, f"{case}, {sender}: {found}"
    else:
        reason, sequence, seq = known
        assert found is not None, f"no longer departs from ns-2; it did because {reason}"
        assert (found.sequence, found.seq) == (sequence, seq), (
            f"departs elsewhere than known ({reason}): {found}"
        )
