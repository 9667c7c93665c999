"""Helpers in the network from Python and from the command line: listed, compared, refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import lasthop as lh
from lasthop import api, studies
from lasthop.cli import app
from lasthop.comparison import Axes, helper_entries
from lasthop.errors import ArgumentError, ScenarioError
from lasthop.studies.digest import make_digest
from lasthop.studies.show import write_figures

SCENARIO = Path(__file__).resolve().parents[2] / "scenarios" / "snoop.toml"
SHORT = {"duration": "10 s"}


@pytest.fixture
def scenario() -> lh.Scenario:
    return lh.Scenario.load(SCENARIO).replace(SHORT)


def test_every_helper_has_a_page() -> None:
    pages = Path(__file__).resolve().parents[2] / "docs" / "reference" / "helpers"
    for helper in lh.helpers():
        text = (pages / f"{helper['name']}.md").read_text(encoding="utf-8")
        for heading in ("What it does", "Keys", "Differs from its paper", "Validation", "Limitations"):
            assert f"\n## {heading}\n" in text, (helper["name"], heading)


def test_senders_meet_helpers(scenario: lh.Scenario) -> None:
    found = lh.compare(
        scenario, ["reno", "vegas"], helpers=["none", "snoop"], seeds=[1, 2], metrics=["goodput"]
    )
    assert found.transports == ["reno", "reno+snoop", "vegas", "vegas+snoop"]
    assert found.has_matrix
    helped, alone = (found.values(name, "goodput_bit_s") for name in ("reno+snoop", "reno"))
    assert all(one > 2 * other for one, other in zip(helped, alone, strict=True))
    assert found.to_dict()["helpers"] == ["none", "snoop"]
    assert "reno: change" in repr(found)


def test_repairs_are_columns_for_everybody(scenario: lh.Scenario, tmp_path: Path) -> None:
    found = lh.compare(scenario, helpers=["none", "snoop", "arq"], seeds=[1, 2])
    names = [metric.name for metric in found.metrics]
    assert {
        "retransmitted_share",
        "helper_retransmission_share",
        "link_retransmission_share",
    } <= set(names)
    assert found.values("none", "helper_retransmission_share") == [None, None]
    assert all(found.values("snoop", "helper_retransmission_share"))
    assert all(found.values("arq", "link_retransmission_share"))
    found.save(tmp_path / "kept")
    from lasthop.saved import load_comparison

    assert load_comparison(tmp_path / "kept").axes == Axes((), ("none", "snoop", "arq"))


@pytest.mark.parametrize("form", ["latex", "markdown", "csv"])
def test_matrices_are_tables_for_papers(form: str) -> None:
    words = [
        *("compare", str(SCENARIO), "--transport", "reno,vegas", "--helpers", "none,snoop"),
        *("--seeds", "1-2", "--metric", "goodput", "--table", form, "--set", "duration=10 s"),
    ]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "snoop" in result.output


@pytest.mark.parametrize(
    ("helpers", "at", "message"),
    [
        (["none", "snop"], None, "unknown helper 'snop': did you mean 'snoop'?"),
        (["snoop", "snoop"], None, "helper 'snoop' is given twice"),
        (["none", "none+snoop"], None, "'none' goes with nothing else"),
        (["none"], None, "give at least two transports to compare"),
        ([], "radio", "name them with helpers"),
    ],
)
def test_bad_helpers_are_refused(
    scenario: lh.Scenario, helpers: list[str], at: str | None, message: str
) -> None:
    with pytest.raises(ArgumentError, match=message.replace("?", r"\?").replace("(", r"\(")):
        lh.compare(scenario, ["reno"], helpers=helpers, at=at, seeds=[1])


def test_a_wrong_place_names_the_option(scenario: lh.Scenario) -> None:
    with pytest.raises(ScenarioError, match="--helpers snoop --at rado"):
        lh.compare(scenario, helpers=["none", "snoop"], at="rado", seeds=[1])


def test_helpers_are_listed() -> None:
    result = CliRunner().invoke(app, ["helpers", "--json"])
    assert [one["name"] for one in json.loads(result.output)] == [one["name"] for one in lh.helpers()]
    assert "unknown helper 'snop'" in CliRunner().invoke(app, ["helpers", "snop"]).output
    assert helper_entries("none", None) == []


@pytest.mark.parametrize("helpers", ["snoop", "arq", "fec", "wtcp", "arq+snoop", "fec+snoop"])
def test_counters_over_time_add_up_to_those_of_the_run(helpers: str) -> None:
    kinds = [{"kind": kind} | ({"order": "in-order"} if kind == "fec" else {}) for kind in helpers.split("+")]
    settings = {"helpers": api.toml_value(kinds), "duration": "20 s", "tcp.timestamps": "true"}
    run = lh.run(lh.Scenario.load(SCENARIO).overridden(settings), series=True)
    series = run.helper_series.filter(pl.col("link") == "radio")
    (of_link,) = run.links.filter(pl.col("name") == "radio").to_dicts()
    counters = [name for name in series.columns if name in of_link and name != "link"]
    assert {name.split("_")[0] for name in counters if series[name].sum()} == set(helpers.split("+"))
    for name in counters:
        if of_link[name] is None:
            assert series[name].null_count() == series.height
        elif "_most_" in name:
            assert series[name][-1] == of_link[name]
        else:
            # The last interval of a run ends with it, and those of the warm-up count nothing.
            assert series[name].sum() == pytest.approx(of_link[name]), name
    if "snoop" in helpers:
        assert 0 < series["snoop_cached"].max() <= of_link["snoop_most_kept"]
    if helpers == "arq":
        assert 0 < series["arq_outstanding"].max() <= 16


def test_what_proxies_hold_is_seen_over_time() -> None:
    settings = {"helpers": '["split"]', "duration": "20 s"}
    run = lh.run(lh.Scenario.load(SCENARIO).overridden(settings), series=True)
    held = run.series.group_by("flow", maintain_order=True).agg(pl.col("split_held_bytes"))
    bare, proxy = held["split_held_bytes"].to_list()
    assert set(bare) == {None}
    (flow,) = run.flows.to_dicts()
    assert 0 < max(proxy) <= flow["split_max_held_bytes"]
    assert sum(proxy[20:]) / len(proxy[20:]) == pytest.approx(flow["split_avg_held_bytes"], rel=0.1)
    assert not run.has_table("helper_series")


KEPT = """
name = "kept"
scenario = "scenario.toml"
seeds = "1-2"
set = { duration = "5 s" }
[[axes]]
name = "helper"
points = [{ name = "arq", set = { helpers = ["arq"] } }, { name = "snoop", set = { helpers = ["snoop"] } }]
[[keep]]
name = "repairs"
table = "helper_series"
links = ["radio"]
columns = ["time_s", "link", "snoop_repeats_by_duplicate", "snoop_cached", "arq_retransmissions"]
[[metrics]]
name = "most_cached"
from = "repairs"
field = "snoop_cached"
by = "max"
"""


def test_counters_over_time_are_named_in_studies(tmp_path: Path) -> None:
    (tmp_path / "scenario.toml").write_text(SCENARIO.read_text("utf-8"), "utf-8")
    (tmp_path / "study.toml").write_text(KEPT, "utf-8")
    result = studies.run(studies.Study.load(tmp_path / "study.toml"), tmp_path / "out")
    most = dict(result.table.group_by("helper").agg(pl.col("most_cached").max()).iter_rows())
    assert most["arq"] is None
    assert most["snoop"] > 1
    series = result.series("repairs")
    assert series.filter(pl.col("helper") == "arq")["arq_retransmissions"].sum() > 0
    digest = make_digest(result.study, result.table)
    (written, *_) = write_figures(
        replace(digest, metrics=[]), tmp_path / "figures", series={"repairs": series}
    )
    assert written.stat().st_size > 1000
