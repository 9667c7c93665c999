"""Delays by chance on a link: by distributions, a table, and packets that go ahead."""

from __future__ import annotations

import pytest

import lasthop as lh

SCENARIO = """
duration = "20 s"
[topology]
kind = "graph"
nodes = ["a", "b"]
[[topology.links]]
from = "a"
to = "b"
rate = "100 Mbit/s"
delay = "1 ms"
middleboxes = [{{ kind = "impair", {keys} }}]
[[flows]]
start = "0 s"
source = "a"
sink = "b"
transport = "udp"
traffic = {{ kind = "cbr", rate = "400 kbit/s", packet = "100 B" }}
"""


@pytest.mark.parametrize(
    ("keys", "mean_s", "p99_s"),
    [
        # 1 ms of the link; 2.326 deviations above the mean for 99 % of a normal variable.
        ('delay = "50 ms", jitter = "10 ms", distribution = "normal", reorder = true', 0.051, 0.0743),
        # A Pareto variable with the index 3: (100^(1/3) - 1.5) / 0.866 deviations.
        ('delay = "50 ms", jitter = "10 ms", distribution = "pareto", reorder = true', 0.051, 0.0873),
        ('distribution = "table", table = ["10 ms", "20 ms", "60 ms"], reorder = true', 0.0285, 0.0602),
        ('delay = "10 ms", ahead = 0.25', 0.0085, 0.011),
    ],
)
def test_delays_of_a_run(keys: str, mean_s: float, p99_s: float) -> None:
    flow = lh.run(lh.Scenario.read(SCENARIO.format(keys=keys)), seed=3).flows
    assert flow["delay_mean_s"][0] == pytest.approx(mean_s, rel=0.02)
    assert flow["delay_p99_s"][0] == pytest.approx(p99_s, rel=0.05)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ('distribution = "normal"', "distribution changes nothing here"),
        ("correlation = 0.5", "correlation changes nothing here"),
        ("ahead = 0.5", "ahead changes nothing here"),
        ('delay = "1 ms", ahead_gap = 2', "ahead_gap changes nothing here"),
        ('distribution = "table"', "delays of a table without one"),
        ('distribution = "table", table = ["1 ms"]', "a table of one delay"),
        ('table = ["1 ms", "2 ms"]', "a table of delays that have another distribution"),
        ('distribution = "table", table = ["1 ms", "2 ms"], jitter = "1 ms"', "a table says how much"),
    ],
)
def test_keys_that_do_not_fit(keys: str, message: str) -> None:
    with pytest.raises(lh.ScenarioError, match=message):
        lh.Scenario.read(SCENARIO.format(keys=keys))
