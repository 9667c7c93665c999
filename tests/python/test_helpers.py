"""Helpers in the network from Python and from the command line: listed, compared, refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import lasthop as lh
from lasthop.cli import app
from lasthop.comparison import Axes, helper_entries
from lasthop.errors import ArgumentError, ScenarioError

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
    assert {"retransmitted_packets", "helper_retransmissions", "link_retransmissions"} <= set(names)
    assert found.values("none", "helper_retransmissions") == [None, None]
    assert all(found.values("snoop", "helper_retransmissions"))
    assert all(found.values("arq", "link_retransmissions"))
    found.save(tmp_path / "kept")
    from lasthop.output import load_comparison

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
