"""Parity: the same scenario in the simulator and with the TCP of the kernel, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.python.real_packets import (
    BUDGET_S,
    needs_kernel,
    path,
    scenario_file,
)

import lasthop as lh
from lasthop import parity

if TYPE_CHECKING:
    from collections.abc import Callable

    from typer.testing import Result


def test_parity_refuses_what_has_no_counterpart(command: Callable[..., Result], tmp_path: Path) -> None:
    said = command("parity", scenario_file(tmp_path, path("5 Mbit/s")), "--kernel", "reno,hybla")
    assert said.exit_code == 2
    assert "no counterpart of 'hybla'" in said.stderr


def test_parity_finds_what_lies_beside_the_scenario() -> None:
    scenario = lh.Scenario.load(Path(__file__).parents[2] / "scenarios" / "train-ride.toml")
    assert parity.simulated(scenario, "reno").folder == scenario.folder


READY = sorted((Path(__file__).parents[2] / "scenarios").glob("*.toml"))


@pytest.mark.parametrize("file", READY, ids=lambda file: file.stem)
def test_every_ready_scenario_has_a_counterpart(file: Path) -> None:
    """An entry of a file may stand for many flows, and flows begin at proxies that no entry names."""
    scenario = lh.Scenario.load(file)
    wanted = parity.simulated(scenario, "reno")
    before, after = scenario.transports, wanted.transports
    own = len(scenario.ends)
    assert len(before) == len(after)
    assert [name for name in after[:own] if name not in {"sack", "udp"}] == []
    assert [name == "udp" for name in before[:own]] == [name == "udp" for name in after[:own]]


@pytest.mark.parametrize("name", ["wlan", "hidden-terminals"])
def test_what_stations_share_is_judged(name: str) -> None:
    """The mean of a queue that serves several links stands in the row of one; in the others it is null."""
    run = lh.run(lh.Scenario.load(Path(__file__).parents[2] / "scenarios" / f"{name}.toml"), seed=1)
    assert None in [link["avg_queue_packets"] for link in run.record["links"]]
    known = {name: of(run) for name, _, of in parity.METRICS}
    assert known["goodput"]
    assert known["longest mean queue"]


@needs_kernel
def test_parity_of_an_entry_that_stands_for_several_flows() -> None:
    scenario = lh.Scenario.load(READY[0].parent / "fair-share.toml")
    short = scenario.replace({"duration": "2 s", "warmup": "0.5 s", "flows.0.count": "4"})
    found = parity.parity(short, ["reno"], runs=1, budget_s=BUDGET_S)
    if found.missing:
        pytest.skip(f"the machine is too busy for real time: {'; '.join(found.missing)}")
    assert all(value for value in found.rows[0].simulated.values + found.rows[0].emulated.values)


@needs_kernel
def test_simulation_and_kernel_agree_on_a_clean_path() -> None:
    """CUBIC fills the link on either side, and what waits there is much the same."""
    found = parity.parity(path("5 Mbit/s"), ["cubic"], runs=2, budget_s=BUDGET_S)
    if found.missing:
        pytest.skip(f"the machine is too busy for real time: {'; '.join(found.missing)}")
    rows = {row.metric: row for row in found.rows}
    assert rows["goodput"].ratio == pytest.approx(1, abs=0.05)
    assert rows["mean RTT"].ratio == pytest.approx(1, abs=0.2)
    assert [len(row.emulated.values) for row in found.rows] == [2] * 4
