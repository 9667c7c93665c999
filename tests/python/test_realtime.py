"""Real-time metrics as users meet them: columns, tables, comparisons, files, older results."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import lasthop as lh
from lasthop import columns, tables
from lasthop.columns import table_of
from lasthop.results import NativeTables

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from typer.testing import Result

SCENARIO: dict[str, Any] = {
    "name": "viewers",
    "duration": "10 s",
    "topology": {
        "kind": "dumbbell",
        "bottleneck": {"rate": "2 Mbit/s", "delay": "25 ms"},
        "access": {"rate": "1 Mbit/s", "delay": "10 ms"},
    },
    "flows": [
        {"name": "film", "transport": "reno", "traffic": {"kind": "mpeg4", "rate": "400 kbit/s"}},
        {"name": "call", "transport": "udp", "traffic": {"kind": "mpeg4", "rate": "400 kbit/s"}},
        {"name": "file", "transport": "sack"},
    ],
}

COLUMNS = [
    "timely_packets",
    "delayed_packets",
    "received_packets",
    "generated_packets",
    "transmitted_packets",
    "transmissions",
    "lost_transmissions",
    "realtime_index",
    "delayed_rate",
    "delayed_over_sent",
    "delayed_over_received",
    "loss_over_generated",
    "loss_over_sent",
    "success_50_percent",
    "success_75_percent",
    "success_90_percent",
    "success_100_percent",
    "startup_s",
    "stalls",
    "stall_s",
    "stall_share",
    "decodable_share",
]


@pytest.fixture(scope="module")
def runs() -> lh.Runs:
    return lh.run_seeds(lh.Scenario(SCENARIO), [1, 2])


def without_realtime(runs: lh.Runs) -> lh.Runs:
    """Results as they were before there were real-time metrics."""
    older = []
    for run in runs:
        record = copy.deepcopy(run.record)
        for flow in record["flows"]:
            del flow["realtime"]
        older.append(lh.Run(record, run.scenario, run.engine_version, NativeTables(None)))
    return lh.Runs(older)


def test_every_number_is_a_column(runs: lh.Runs) -> None:
    flows = runs.flows
    assert [name for name in flows.columns if name in COLUMNS] == COLUMNS
    assert not {"options", "realtime"} & set(flows.columns)
    film, call, file = flows.filter(seed=1).to_dicts()
    assert film["timely_packets"] + film["delayed_packets"] == film["received_packets"]
    assert film["stall_share"] is not None
    assert film["decodable_share"] is None
    assert call["decodable_share"] is not None
    assert call["stalls"] is None
    assert all(file[name] is None for name in COLUMNS), "the file is no video"


def test_a_result_states_its_definitions(runs: lh.Runs) -> None:
    options = runs[0].record["flows"][0]["realtime"]["options"]
    assert options == {
        "threshold_s": 0.1,
        "missing": "next-lower",
        "arrival": "transport",
        "duplicates": "ignored",
        "sent": "transmitted",
        "delayed_over": "sent",
        "target_bit_s": 400_000,
        "slot_s": 1.0,
        "playout_s": 1.0,
        "rebuffer_s": 0.5,
    }


def test_totals_are_means_over_the_flows_that_have_them(runs: lh.Runs) -> None:
    film, call, _ = (flow["realtime"] for flow in runs[0].record["flows"])
    totals = runs.totals.filter(seed=1)
    assert totals["realtime_index"].item() == pytest.approx(
        (film["realtime_index"] + call["realtime_index"]) / 2
    )
    assert totals["stall_share"].item() == film["stall_share"]


@pytest.mark.parametrize("table_format", ["parquet", "csv", "arrow"])
def test_files_hold_the_columns(runs: lh.Runs, tmp_path: Path, table_format: str) -> None:
    runs.save(tmp_path / "out", table_format)
    path = next((tmp_path / "out").glob("flows.*"))
    read = {"parquet": pl.read_parquet, "csv": pl.read_csv, "arrow": pl.read_ipc}[table_format]
    assert read(path)["realtime_index"].to_list() == runs.flows["realtime_index"].to_list()
    again = lh.load_runs(tmp_path / "out")
    assert again[0].record["flows"] == runs[0].record["flows"]


def test_the_table(runs: lh.Runs) -> None:
    text = repr(runs)
    table = text[text.index("real-time") :]
    for word in ("timely", "delayed", "lost", "start-up", "stalled", "decodable", "film", "call"):
        assert word in table
    assert "more than 100 ms after the packet before it that arrived" in " ".join(table.split())
    assert "file" not in table.split("delayed: ")[0]


def test_columns_that_are_meant_for_people_are_in_a_table() -> None:
    groups = {one.group for one in columns.declared("flows").values() if one.shown and one.group}
    assert groups <= set(tables.PARTS), groups - set(tables.PARTS)


def test_a_call_shows_what_its_viewer_saw_and_what_was_repaired() -> None:
    call = {"name": "call", "transport": {"rate": "gcc", "nack": True, "fec": "row"}, "traffic": "video-call"}
    topology = SCENARIO["topology"]
    bottleneck = topology["bottleneck"] | {"error": {"kind": "bernoulli", "packet_error_rate": 0.02}}
    lossy = {**SCENARIO, "flows": [call], "topology": {**topology, "bottleneck": bottleneck}}
    text = repr(lh.run_seeds(lh.Scenario(lossy), [1, 2]))
    assert text.index("real-time") < text.index("video calls") < text.index("repairs")
    for word in ("video rate", "frames lost", "p95 frame delay", "freezes", "rebuilt by FEC"):
        assert word in text


def test_many_flows_are_grouped() -> None:
    scenario = lh.Scenario(SCENARIO).replace(
        {
            "flows.0.count": "8",
            "flows.1.count": "7",
            "duration": "4 s",
            "measure.realtime.delayed_over": "received",
        }
    )
    text = repr(lh.run_seeds(scenario, [1]))
    table = text[text.index("real-time") :]
    assert "film (8 flows, reno)" in table
    assert "file (sack)" in table, "the scenario asks for real-time metrics of all flows"
    assert "delayed over packets received" in " ".join(table.split())


def test_results_without_them_show_no_table(runs: lh.Runs) -> None:
    assert "real-time" not in repr(lh.run_seeds(lh.Scenario(lh.EXAMPLE), [1]))
    older = without_realtime(runs)
    assert "real-time" not in repr(older)
    assert "realtime_index" not in older.flows.columns


def test_no_column_for_a_flow_that_is_not_measured() -> None:
    measured = table_of("flows", [{"name": "a", "realtime": {"stalls": 1}}]).columns
    assert set(measured) - set(table_of("flows", [{"name": "a", "realtime": None}]).columns) >= set(
        COLUMNS[7:13]
    )


def test_transports_are_compared_by_what_viewers_see() -> None:
    comparison = lh.compare(lh.Scenario(SCENARIO), ["reno", "vegas"], seeds=[1, 2])
    keys = [metric.key for metric in comparison.metrics]
    assert keys[-2:] == ["realtime_index", "stall_share"]
    assert comparison.means.height == 2 * len(keys)
    assert "real-time index" in repr(comparison)
    plain = lh.compare(lh.Scenario(lh.EXAMPLE), ["reno", "vegas"], seeds=[1])
    assert "realtime_index" not in [metric.key for metric in plain.metrics]
    assert "real-time index" not in repr(plain)


def test_run_and_show_agree(command: Callable[..., Result], tmp_path: Path) -> None:
    path = tmp_path / "viewers.json"
    path.write_text(json.dumps(SCENARIO))
    shown = command("run", path, "--out", tmp_path / "out")
    assert shown.exit_code == 0, shown.output
    assert "real-time" in shown.output
    again = command("show", tmp_path / "out")
    assert again.output[again.output.index("real-time") :].split("fingerprint")[0] in shown.output


def test_a_wrong_option_names_its_place(command: Callable[..., Result], scenario_file: Path) -> None:
    result = command("run", scenario_file, "--set", "measure.realtime.arrival=antenna")
    assert result.exit_code == 2
    assert 'unknown arrival "antenna"' in result.output
