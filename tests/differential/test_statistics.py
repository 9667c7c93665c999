"""Random runs against ns-2 on a few cells of the grid that `python -m validation.statistics --full` runs.

Delays are staggered, so that no packets of two flows arrive in the same instant, which ns-2 orders by
rounding. Seeds are fixed and the interval is wide: a test must not fail by chance after each change of a
random stream.
"""

import shutil

import pytest
from validation import statistics
from validation.statistics import Cell

pytestmark = pytest.mark.skipif(shutil.which("ns") is None, reason="ns-2 is not installed")

RUNS = range(1, 6)
CONFIDENCE = 0.999


@pytest.mark.parametrize("flows", [1, 20])
@pytest.mark.parametrize("sender", ["reno", "newreno", "sack", "vegas"])
def test_same_means(sender: str, flows: int) -> None:
    comparisons = statistics.compare(Cell(sender, flows, 0.01, staggered=True), RUNS, CONFIDENCE)
    differing = statistics.unexplained(comparisons, statistics.exceptions())
    assert not differing, "\n".join(statistics.describe(one) for one in differing)
