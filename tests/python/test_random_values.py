"""Random values of a scenario, as users meet them: in tables, saved folders, comparisons and studies."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import lasthop as lh

if TYPE_CHECKING:
    from pathlib import Path

DELAY = {"distribution": "uniform", "low": "10 ms", "high": "80 ms"}
RATE = {"distribution": "normal", "mean": "5 Mbit/s", "deviation": "1 Mbit/s", "min": "2 Mbit/s"}


def scenario(**overrides: Any) -> lh.Scenario:
    changes = {
        "flows.0.delay": DELAY,
        "flows.1.delay": DELAY,
        "topology.bottleneck.rate": RATE,
        "duration": "3 s",
    }
    return lh.Scenario(lh.EXAMPLE).replace(changes | overrides)


@pytest.fixture(scope="module")
def runs() -> lh.Runs:
    return lh.run_seeds(scenario(), [1, 2, 3])


def test_each_run_and_flow_says_what_it_drew(runs: lh.Runs) -> None:
    delays = runs.flows["drawn_flow_delay_s"].to_list()
    assert len(set(delays)) == 6
    assert all(0.01 <= delay < 0.08 for delay in delays)
    rates = runs.totals["drawn_topology_bottleneck_rate_bit_s"].to_list()
    assert len(set(rates)) == 3
    assert all(rate >= 2e6 for rate in rates)
    record = runs.to_dict()["runs"][0]
    assert record["totals"]["drawn_topology_bottleneck_rate_bit_s"] == rates[0]
    assert record["flows"][0]["drawn_flow_delay_s"] == delays[0]
    # The scenario itself still says how they are drawn.
    assert runs.scenario["flows"][0]["delay"] == DELAY


def test_a_run_by_itself_draws_the_same(runs: lh.Runs) -> None:
    alone = lh.run(scenario(), seed=3)
    assert alone.fingerprint == runs[2].fingerprint
    assert alone.flows["drawn_flow_delay_s"][0] == runs[2].flows["drawn_flow_delay_s"][0]


def test_tables_show_it_and_saved_folders_keep_it(runs: lh.Runs, tmp_path: Path) -> None:
    assert "topology_bottleneck_rate_bit_s" in repr(runs)
    assert "flow_delay_s" in repr(runs)
    runs.save(tmp_path / "out")
    saved = lh.load_runs(tmp_path / "out")
    assert saved.flows["drawn_flow_delay_s"].to_list() == runs.flows["drawn_flow_delay_s"].to_list()
    assert "topology_bottleneck_rate_bit_s" in repr(saved)


def test_transports_that_are_compared_meet_the_same_values() -> None:
    compared = lh.compare(scenario(), ["reno", "cubic"], seeds=[1, 2])
    drawn = [
        [run["totals"]["drawn_topology_bottleneck_rate_bit_s"] for run in compared.runs[name]]
        for name in compared.transports
    ]
    assert drawn[0] == drawn[1]


def test_a_study_has_distributions_for_points_and_draws_for_metrics(tmp_path: Path) -> None:
    content = {
        "name": "chance",
        "scenario": scenario().to_dict(),
        "seeds": "1-2",
        "metrics": ["goodput_bit_s", "drawn_flow_delay_s", "drawn_topology_bottleneck_rate_bit_s"],
        "axes": [
            {
                "name": "delay",
                "key": "flows.0.delay",
                "values": [DELAY, {"distribution": "exponential", "mean": "1 ms"}],
                "names": ["far", "near"],
            }
        ],
    }
    study = lh.studies.Study.parse(content, folder=tmp_path)
    results = lh.studies.run(study, tmp_path / "out")
    table = results.table
    assert table.height == 4
    far = table.filter(table["delay"] == "far")["drawn_flow_delay_s"].mean()
    near = table.filter(table["delay"] == "near")["drawn_flow_delay_s"].mean()
    assert far > near
    assert table["drawn_topology_bottleneck_rate_bit_s"].n_unique() == 2


def test_a_draw_that_may_be_refused_is() -> None:
    with pytest.raises(lh.ScenarioError, match="which may be drawn"):
        scenario(**{"flows.0.delay": {"distribution": "normal", "mean": "5 ms", "deviation": "5 ms"}})


def test_the_schema_knows_it() -> None:
    schema = lh.schema()
    forms = schema["$defs"]["flow"]["properties"]["delay"]["anyOf"]
    assert {"$ref": "#/$defs/random-value"} in forms
    assert "random-value" not in json.dumps(schema["$defs"]["flow"]["properties"]["count"])
