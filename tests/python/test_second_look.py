"""Figures of the papers worked out from packets: the same as the studies', and a wrong one is noticed."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
import pytest
from validation import from_packets, second_look
from validation.from_packets import Arrival, Figure, Flow, Send, Trace
from validation.second_look import Look, Spot

if TYPE_CHECKING:
    from pathlib import Path

PAPERS = {paper.number: paper for paper in second_look.papers()}


def spot(claim: str, series: str, **wanted: str | float) -> Spot:
    """Return the first spot of a claim with these settings."""
    paper = PAPERS[claim[1:4]]
    found = second_look.spots(paper, next(one for one in paper.claims if one.id == claim))[series]
    return next(one for one in found if wanted.items() <= dict(one.settings).items())


def test_packets_give_the_figures_of_the_studies(tmp_path: Path) -> None:
    cheap = [
        spot("p000.fig3b.small_gain", "rtpi", n=1, snoop="on"),
        spot("p004.sec42.calibration", "goodput", proto="reno"),
        spot("p003.tab1.pdr.newreno", "pdr", impl="newreno"),
    ]
    index, goodput, share = second_look.look(cheap, tmp_path, jobs=1)
    assert (index.verdict, goodput.verdict) == ("equal", "equal")
    assert share.verdict.startswith("explained: what was under way at the end is not lost")
    assert share.ours - share.again.value == pytest.approx(0.01, abs=0.005)


def test_a_wrong_figure_is_noticed() -> None:
    place = spot("p003.tab1.pdr.newreno", "pdr", impl="newreno")
    trace = second_look.traced(place)
    right = place.from_packets(trace)
    assert Look(place, right.value, right).verdict == "equal"
    assert Look(place, right.value * (1 + 1e-6), right).verdict == second_look.DIFFERS
    # A trace that lacks one arrival, or has one twice, gives another figure.
    arrivals = trace.hops.with_row_index("row").filter(pl.col("outcome") == "delivered", kind="data")
    row = arrivals.filter(pl.col("link") == "down-1", flow="main-1")["row"][7]
    without = replace(trace, hops=trace.hops.with_row_index("row").filter(pl.col("row") != row))
    assert Look(place, right.value, place.from_packets(without)).verdict == second_look.DIFFERS


def test_no_figure_of_the_product_is_used_for_the_second_one() -> None:
    tree = ast.parse((second_look.ROOT / "validation" / "from_packets.py").read_text(encoding="utf-8"))
    names = [
        name
        for node in ast.walk(tree)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [one.name for one in node.names]
            if isinstance(node, ast.Import)
            else []
        )
    ]
    assert not [name for name in names if name.split(".")[0] in {"lasthop", "validation"}]


def test_the_same_claims_are_drawn_every_time() -> None:
    chosen, wanted, _ = second_look.draw()
    again, places, _ = second_look.draw()
    assert [claim.id for _, claim in chosen] == [claim.id for _, claim in again]
    assert [(one.claim.id, one.series, one.run) for one in wanted] == [
        (one.claim.id, one.series, one.run) for one in places
    ]
    assert len(chosen) == 20


def test_what_waits_behind_a_gap_is_handed_over_when_the_gap_is_filled() -> None:
    flow = Flow("one")
    flow.arrivals = [
        Arrival(10, 1, 5, 45),
        Arrival(20, 11, 5, 45),
        Arrival(30, 11, 5, 45),
        Arrival(40, 6, 5, 45),
    ]
    assert flow.deliveries() == [(10, 5), (40, 10)]
    assert flow.handed_over(20) == 10
    flow.ordered = False
    assert flow.deliveries() == [(10, 5), (20, 5), (40, 5)]


def test_the_real_time_index_by_hand() -> None:
    # Packets 0 to 5 leave together; 3 is lost, and comes at 310 ms in the second case.
    flow = Flow("video", ordered=False, sends=[Send(0, seq, lost=False) for seq in range(6)])
    times = {0: 0, 1: 40, 2: 90, 4: 260, 5: 300}
    flow.arrivals = [Arrival(at, seq, 1, 1) for seq, at in times.items()]
    assert from_packets.punctuality(flow, 0, 100) == (6, 5, 1)
    flow.arrivals.append(Arrival(310, 3, 1, 1))
    assert from_packets.punctuality(flow, 0, 100) == (6, 6, 2)


def test_the_mean_queue_by_hand() -> None:
    # 0 packets wait for 1 s, 4 for 3 s, 2 for 2 s.
    second = from_packets.SECOND_NS
    hops = pl.DataFrame(
        {
            "link": ["bottleneck"] * 5,
            "enqueue_ns": [second] * 5,
            "transmit_ns": [4 * second, 4 * second, None, None, None],
            "outcome": ["delivered", "delivered", "in-flight", "in-flight", "queue-overflow"],
        }
    )
    assert from_packets.mean_queue(Trace(hops, {"duration": "6 s"})) == Figure(pytest.approx(16 / 6))
