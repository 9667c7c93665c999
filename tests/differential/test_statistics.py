"""Random runs against ns-2 on a few cells of the grid that `python -m validation.statistics --full` runs.

Seeds are fixed, so the result is the same every time; five runs a side keep it short.
"""

import shutil

import pytest
from validation import statistics
from validation.statistics import Cell

pytestmark = pytest.mark.skipif(shutil.which("ns") is None, reason="ns-2 is not installed")

RUNS = 5


@pytest.mark.parametrize("flows", [1, 20])
@pytest.mark.parametrize("sender", ["reno", "newreno", "sack", "vegas"])
def test_same_means(sender: str, flows: int) -> None:
    comparisons = statistics.compare(Cell(sender, flows, 0.01), RUNS)
    differing = statistics.unexplained(comparisons)
    assert not differing, "\n".join(statistics.describe(one) for one in differing)
