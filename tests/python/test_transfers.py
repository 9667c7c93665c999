"""Transfers in tables: of how many, over which seeds, and over transports that never finish one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import lasthop as lh

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from typer.testing import Result

#: Random arrivals: each seed has another number of transfers, and in some the longest do not finish.
ARRIVALS = """
name = "arrivals"
duration = "20 s"
processing_time = "1 ms"

[topology]
kind = "dumbbell"
bottleneck = { rate = "2 Mbit/s", delay = "10 ms", queue = { kind = "drop-tail", limit = "30 packets" } }
access = { rate = "100 Mbit/s", delay = "5 ms" }

[[flows]]
transport = "cubic"
traffic = { kind = "transfer", size = { kind = "pareto", mean = "50 kB", shape = 1.5 } }
start = { arrivals = "poisson", load = 0.7 }
"""

PAGES = """
[[flows]]
count = 3
transport = "cubic"
traffic = { kind = "web", objects = [{ size = "20 kB" }], think = "1 s" }
"""


@pytest.fixture
def arrivals(tmp_path: Path) -> Path:
    """Return the scenario as a file."""
    file = tmp_path / "arrivals.toml"
    file.write_text(ARRIVALS, encoding="utf-8")
    return file


def row(text: str, heading: str) -> str:
    """Return what follows a heading in a printed table."""
    found = re.search(rf"^ *{re.escape(heading)}  +(.*?) *$", text, re.MULTILINE)
    assert found is not None, text
    return re.sub(r" {2,}", " ", found[1])


def test_a_part_is_of_the_mean_over_seeds(arrivals: Path, command: Callable[..., Result]) -> None:
    """What the first seed had is not of how many the others finished."""
    text = ARRIVALS.partition("[[flows]]")[0] + PAGES
    arrivals.write_text(text, encoding="utf-8")
    scenario = lh.Scenario.load(arrivals)
    totals = [run.record["totals"] for run in lh.run_seeds(scenario, [1, 2, 3])]
    assert len({one["pages"] for one in totals}) > 1
    mean = sum(one["pages"] for one in totals) / len(totals)
    assert mean != totals[0]["pages"]
    assert row(command("run", arrivals, "--seeds", "1-3").stdout, "pages").endswith(f"of {mean:.6g}")
    compared = command("compare", arrivals, "--transport", "cubic,reno", "--seeds", "1-3").stdout
    assert f"of {mean:.6g}" in row(compared, "finished pages")


def test_seeds_without_a_value_are_told(arrivals: Path, command: Callable[..., Result]) -> None:
    """A percentile that falls among unfinished transfers has no value, and its mean is of the other seeds."""
    totals = [run.record["totals"] for run in lh.run_seeds(arrivals, [1, 2, 3, 4])]
    known = sum(one["completion_p99_s"] is not None for one in totals)
    assert 0 < known < len(totals)
    told = f"({known} of {len(totals)} seeds)"
    assert row(command("run", arrivals, "--seeds", "1-4").stdout, "p99 completion").endswith(told)
    compared = command("compare", arrivals, "--transport", "cubic,reno", "--seeds", "1-4").stdout
    assert told in row(compared, "p99 completion time")


def test_a_transport_that_sends_nothing_again_finishes_nothing(
    arrivals: Path, command: Callable[..., Result]
) -> None:
    """Its transfers are none that could finish: no verdict says that it finishes fewer."""
    scenario = lh.Scenario.load(arrivals).replace({"flows.0.transport": "tfrc"})
    run = lh.run_seeds(scenario, [1])[0]
    assert "transfers" not in run.record["totals"]
    assert all(flow["completion_s"] is None for flow in run.record["flows"])
    compared = command("compare", arrivals, "--transport", "cubic,tfrc", "--seeds", "1-2")
    assert compared.exit_code == 0
    assert "fewer transfers" not in compared.stdout
    assert re.fullmatch(r"\S+( ± \S+)? - of \d+", row(compared.stdout, "finished transfers"))
