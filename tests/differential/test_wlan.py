"""IEEE 802.11 against ns-2's `Mac/802_11`: deterministic exchanges to the microsecond, means on a few cells.

`python -m validation.wlan` runs the whole grid. Seeds are fixed: a test must not fail by chance after each
change of a random stream.
"""

import shutil
import statistics

import pytest
from validation import engine, two_cells, wlan
from validation.wlan import Cell

pytestmark = pytest.mark.skipif(shutil.which("ns") is None, reason="ns-2 is not installed")


@pytest.mark.parametrize("rts", wlan.RTS)
def test_exchanges_of_a_lone_station(rts: str) -> None:
    assert wlan.deviation(rts, 3.0) < 1e-6


@pytest.mark.parametrize("per", [0.0, 0.05])
def test_two_cells_joined_by_wires(per: float) -> None:
    goodput, _ = two_cells.compare(two_cells.Case(1, per), range(1, 3))
    assert goodput.agrees(), goodput.means()


@pytest.mark.parametrize(
    "cell",
    [
        Cell(5, "udp"),
        Cell(2, "up", "on"),
        Cell(5, "down"),
        Cell(5, "up", per=0.05),
        Cell(2, "up", per=0.05, after=True),
        # A lost CTS occupies the station that has sent it.
        Cell(1, "udp", "on", 0.2),
    ],
    ids=str,
)
def test_same_means(cell: Cell) -> None:
    for one in wlan.compare(cell, range(1, 4)):
        assert one.agrees(), (one.metric, one.means())


def test_ns2_loses_slots_to_rounding() -> None:
    """One flow up is 0.5 % slower in ns-2 while its clock loses slots, and as fast as here at other times."""
    times = (16.0, 32.0, 128.0, 256.0)
    assert wlan.slots_lost(16, 32) > 0.8
    assert wlan.slots_lost(128, 256) == 0
    cell = Cell(1, "up")
    theirs = [wlan.their_goodputs(cell, seed, times) for seed in range(1, 7)]
    early, _, late = (statistics.fmean(column) for column in zip(*theirs, strict=True))
    plan = engine.plan(wlan.scenario(cell, 128.0))
    runs = [engine.count_totals(plan, seed)["totals"]["goodput_bit_s"] / 1e6 for seed in range(1, 7)]
    here = statistics.fmean(runs)
    assert here == pytest.approx(late, rel=1e-3)
    assert 0.003 < 1 - early / here < 0.007
