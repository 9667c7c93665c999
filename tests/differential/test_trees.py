"""Random trees and random lone flows against ns-2, packet for packet (see `validation.trees`).

Writes, pauses, losses, lost SYNs, finite transfers, traffic in both directions and mixed senders. Where two
packets meet in one instant, or ns-2's Vegas sends what was never written, the runs must agree until then.
"""

from __future__ import annotations

import shutil

import pytest
from validation import compare, engine, ns2, trees
from validation.network import SENDERS, Scenario, read

pytestmark = pytest.mark.skipif(shutil.which("ns") is None, reason="ns-2 is not installed")

#: Seeds of trees, and what ends the agreement of some. They change only with the generator or with ns-2.
TREES: dict[int, str | None] = dict.fromkeys(range(12)) | {8: "tie", 9: "tie"}
LONE: dict[tuple[str, int], str | None] = dict.fromkeys(
    (sender, seed) for sender in SENDERS for seed in range(6)
)
LONE |= {("vegas", 1): "phantom"}
#: Seeds with ECN: those in which no packet reaches the queue in the instant in which another leaves it.
MARKED = [
    (sender, seed) for sender in ("tahoe", "reno", "newreno", "sack") for seed in (100, 101, 102, 103, 104)
]


#: The same of six flows that share a slow queue.
CROWDS = [(sender, seed) for sender in ("tahoe", "reno", "newreno", "sack") for seed in (0, 1, 2, 3)]


def check(scenario: Scenario, expected: str | None) -> None:
    network = read(scenario)
    theirs = ns2.trace_packets(scenario)
    ours = engine.trace_packets(scenario, theirs.clock_phases_s)
    found = compare.first_divergence(network, ours, theirs)
    excuse = None if found is None else compare.excuse(network, ours, theirs, found)
    assert found is None or excuse is not None, f"{scenario['name']}: {found}"
    assert excuse == expected


@pytest.mark.parametrize("seed", TREES)
def test_trees(seed: int) -> None:
    check(trees.tree(seed), TREES[seed])


@pytest.mark.parametrize(("sender", "seed"), LONE)
def test_lone_flows(sender: str, seed: int) -> None:
    check(trees.lone(seed, sender), LONE[sender, seed])


@pytest.mark.parametrize(("sender", "seed"), MARKED)
def test_lone_flows_with_ecn(sender: str, seed: int) -> None:
    """Marks, losses, and retransmissions that may be marked as well, as ns-2's are."""
    scenario = trees.marked(seed, sender)
    check(scenario, None)


@pytest.mark.parametrize(("sender", "seed"), CROWDS)
def test_crowds_with_ecn(sender: str, seed: int) -> None:
    """Windows below a segment, with which ns-2 waits for its timer; lost SYNs; marks in a recovery."""
    scenario = trees.crowd(seed, sender)
    check(scenario, None)
