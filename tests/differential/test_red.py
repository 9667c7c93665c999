"""RED in the profile `ns2` against ns-2.35.

First with parameters that leave nothing to chance: below the upper threshold no packet is dropped, above it
everybody is. So every drop says on which side of the threshold the average was, and the idle times of a
connection that waits for its timer let it fall. Then a few cells of `python -m validation.red --full`.
"""

from __future__ import annotations

import copy
import shutil
import tomllib
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from validation import compare, engine, ns2, red
from validation.network import read
from validation.side_by_side import describe

pytestmark = pytest.mark.skipif(shutil.which("ns") is None, reason="ns-2 is not installed")

BASE = Path(__file__).parent / "cases" / "one-hop.toml"

#: Name -> keys of the queue beside those that take chance away.
QUEUES: dict[str, dict[str, Any]] = {
    "packets": {
        "measure": "packets",
        "limit": "20 packets",
        "w_q": 0.02,
        "min_th": "3 packets",
        "max_th": "9 packets",
    },
    "automatic": {"limit": "30 packets"},
    "automatic-fast-average": {"limit": "30 packets", "w_q": 0.05, "max_th": "12 packets"},
    "slow-average-overflows": {"measure": "packets", "limit": "12 packets", "w_q": 0.002},
}


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("sender", ["reno", "newreno", "sack", "vegas"])
def test_every_packet_has_the_same_fate(sender: str, queue: str) -> None:
    scenario = copy.deepcopy(tomllib.loads(BASE.read_text(encoding="utf-8")))
    scenario["duration"] = "12 s"
    scenario["tcp"] |= {"receiver_window": "64 packets", "initial_ssthresh": "64 packets"}
    scenario["flows"][0]["transport"] = sender
    certain = {"kind": "red", "profile": "ns2", "gentle": False, "max_p": 1e-9}
    scenario["topology"]["links"][1]["queue"] = certain | QUEUES[queue]
    theirs = ns2.trace_packets(scenario)
    ours = engine.trace_packets(scenario, theirs.clock_phases_s)
    divergence = compare.first_divergence(read(scenario), ours, theirs)
    assert divergence is None, str(divergence)
    lost = [
        hops.filter(pl.col("outcome").is_in(["early-drop", "queue-overflow"])).select("seq", "wire_bytes")
        for hops in (ours.hops.sort("enqueue_s"), theirs.hops.sort("enqueue_s"))
    ]
    assert lost[0].equals(lost[1])
    assert sender == "vegas" or lost[0].height > 5, "the case shows nothing"


@pytest.mark.parametrize("automatic", [False, True])
def test_same_means(automatic: bool) -> None:
    comparisons = red.compare(red.Cell("newreno", 20, automatic, ecn=True), range(1, 5), 0.999)
    differing = [describe(one) for one in red.SIDES.outside(comparisons)]
    assert not differing, "\n".join(differing)
