"""Snoop in the profile `ns2` against ns-2.35's `LLSnoop`: packet by packet, then a few cells of the grid."""

from __future__ import annotations

import random
import shutil

import polars as pl
import pytest
from validation import snoop
from validation.side_by_side import describe
from validation.snoop import Cell

pytestmark = pytest.mark.skipif(shutil.which("ns") is None, reason="ns-2 is not installed")


@pytest.mark.parametrize(
    ("sender", "flows", "losses"),
    [
        ("reno", 1, (30, 60, 61)),
        ("newreno", 1, (40, 41, 43, 90)),
        ("sack", 1, (35, 37, 80)),
        # Two flows overflow the queue of the LAN: behind a link layer it drops what is in the cache.
        ("reno", 2, (999_999,)),
    ],
)
@pytest.mark.parametrize("layer_s", [0.0, snoop.LAYER_S])
def test_every_packet_goes_the_same_way(
    sender: str, flows: int, losses: tuple[int, ...], layer_s: float
) -> None:
    cell = Cell(sender, flows, 0.0, losses=losses, layer_s=layer_s, duration_s=3, drain_s=1)
    theirs, ours = snoop.trace(cell), snoop.trace_ours(cell)
    for link in theirs["link"].unique().sort():
        sides = [side.filter(pl.col("link") == link).sort("time_s") for side in (theirs, ours)]
        # The one that is ahead may have a packet more within the run.
        length = min(side.height for side in sides)
        assert abs(sides[0].height - sides[1].height) <= 2, link
        one, other = (side.head(length) for side in sides)
        assert one["number"].cast(pl.Int64).equals(other["number"].cast(pl.Int64)), link
        apart = (one["time_s"] - other["time_s"]).to_list()
        # `SHIFT_S`, and what that makes of a packet that waited behind another.
        assert max(map(abs, apart)) < 2e-3, link


@pytest.mark.parametrize("layer_s", [0.0, snoop.LAYER_S])
@pytest.mark.parametrize("sender", ["reno", "sack"])
def test_a_minute_of_the_same_losses_counts_alike(sender: str, layer_s: float) -> None:
    """Two hundred losses, the same on both sides: the senders repeat equally often, to the packet."""
    rng = random.Random(1)  # noqa: S311
    losses = tuple(number for number in range(1, 40_000) if rng.random() < 0.01)
    cell = Cell(sender, 1, 0.0, losses=losses, layer_s=layer_s)
    repeats = []
    for side in (snoop.trace(cell), snoop.trace_ours(cell)):
        sent = side.filter((pl.col("link") == "fixed-1-base") & (pl.col("kind") == "tcp"))["number"]
        repeats.append(sent.len() - sent.n_unique())
        assert sent.n_unique() > 20_000
    assert repeats[0] == repeats[1] > 0, repeats


@pytest.mark.parametrize("cell", [Cell("reno", 1, 0.03), Cell("newreno", 5, 0.01)], ids=lambda cell: cell.key)
def test_random_runs_agree(cell: Cell) -> None:
    found = snoop.compare(cell, confidence=0.999)
    outside = [describe(one) for one in snoop.SIDES.outside(found)]
    assert not outside, outside
