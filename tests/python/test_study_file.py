"""Study files: what is read, and the exact message for each mistake; nothing runs before all is checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lasthop as lh
from lasthop.studies import Study, StudyError
from lasthop.studies.digest import KEYS_OF_SERIES, ONLY
from lasthop.studies.statistics import DIFFERENCES, SUMMARY

GRID = """\
name     = "grid"
title    = "Loss and senders"
scenario = "small.toml"
seeds    = "1-3"
baseline = { proto = "Reno" }
keep     = [ { table = "link_series", links = ["bottleneck"], columns = ["time_s", "queue_packets"] } ]

[set]
"tcp.receiver_window" = "16 packets"

[[axes]]
name = "loss"; key = "channel.error.packet_error_rate"; values = [0, 0.01]

[[axes]]
name = "size"; keys = ["duration", "topology.bottleneck.rate"]
values = [["1 s", "5 Mbit/s"], ["2 s", "4 Mbit/s"]]
names = [1, 2]

[[axes]]
name = "proto"
points = [
  { name = "reno", label = "Reno", set = { "flows.0.transport" = "reno", "flows.1.transport" = "reno" } },
  { name = "vegas", set = { "flows.0.transport" = "vegas", "flows.1.transport" = "vegas" } },
]

[[metrics]]
name = "goodput_bit_s"

[[metrics]]
name = "right"; label = "goodput of the right flow"; unit = "Mbit/s"
from = "flows"; field = "goodput_bit_s"; where = "ri*"; by = "sum"; scale = 1e-6; higher_is_better = true

[[metrics]]
name = "queue"; from = "link_series"; field = "queue_packets"; by = "max"
""".replace("; ", "\n")


@pytest.fixture
def grid_file(scenario_file: Path) -> Path:
    path = scenario_file.parent / "grid.toml"
    path.write_text(GRID)
    return path


def content(**changes: Any) -> dict[str, Any]:
    """Return a small study, changed."""
    axis = {"name": "loss", "key": "channel.error.packet_error_rate", "values": [0, 0.01]}
    study = {"name": "s", "scenario": lh.EXAMPLE, "seeds": "1-2", "axes": [axis], "metrics": ["timeouts"]}
    return {key: value for key, value in (study | changes).items() if value is not None}


def test_a_study_is_read(grid_file: Path) -> None:
    study = Study.load(grid_file)
    assert (study.name, study.title, study.seeds) == ("grid", "Loss and senders", (1, 2, 3))
    assert [axis.name for axis in study.axes] == ["loss", "size", "proto"]
    assert study.axis("size").values == (1, 2)
    assert study.axis("proto").labels == ("Reno", "vegas")
    assert study.baseline == {"proto": "reno"}
    assert study.x == "loss"
    assert [metric.name for metric in study.metrics] == ["goodput_bit_s", "right", "queue"]
    assert study.metrics[0].label == "goodput"
    assert study.metrics[1].scale == 1e-6


def test_the_grid_is_the_product_and_the_last_axis_moves_fastest(grid_file: Path) -> None:
    points = Study.load(grid_file).points()
    assert len(points) == 8
    assert points[0].settings == {"loss": 0, "size": 1, "proto": "reno"}
    assert points[1].settings == {"loss": 0, "size": 1, "proto": "vegas"}
    assert points[7].overrides == {
        "tcp.receiver_window": "16 packets",
        "channel.error.packet_error_rate": 0.01,
        "duration": "2 s",
        "topology.bottleneck.rate": "4 Mbit/s",
        "flows.0.transport": "vegas",
        "flows.1.transport": "vegas",
    }


def test_a_point_has_its_scenario(grid_file: Path) -> None:
    study = Study.load(grid_file, arguments={"tcp.profile": "linux", "tcp.receiver_window": "8 packets"})
    scenario = study.scenario_of(study.points()[7]).to_dict()
    assert scenario["duration"] == "2 s"
    assert scenario["tcp"]["receiver_window"] == "8 packets"
    assert scenario["tcp"]["profile"] == "linux"


def test_json_says_the_same(grid_file: Path) -> None:
    import tomllib

    other = grid_file.with_suffix(".json")
    other.write_text(json.dumps(tomllib.loads(GRID)))
    assert Study.load(other).points() == Study.load(grid_file).points()


def test_a_study_holds_its_scenario_when_it_is_stored(grid_file: Path) -> None:
    study = Study.load(grid_file)
    again = Study.parse(json.loads(json.dumps(study.to_dict())))
    assert again.scenario_of(again.points()[3]).to_json() == study.scenario_of(study.points()[3]).to_json()


def test_numbers_beside_words_become_words() -> None:
    points = [{"name": 1}, {"name": "one"}]
    axis = Study.parse(content(axes=[{"name": "which", "points": points}])).axis("which")
    assert axis.values == ("1", "one")


def test_without_axes_there_is_one_point() -> None:
    study = Study.parse(content(axes=None))
    assert [point.settings for point in study.points()] == [{}]
    assert study.x is None


AXIS = {"name": "loss", "key": "channel.error.packet_error_rate", "values": [0, 0.01]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"axis": []}, 'unknown key "axis"\n  at s.toml: axis\n     did you mean "axes"?'),
        ({"name": None}, 'missing key "name"\n  at s.toml\n     add name = …'),
        ({"name": "a/b"}, 'name cannot be "a/b"\n  at s.toml: name\n     it names files'),
        ({"seeds": None}, 'missing key "seeds"\n  at s.toml\n     add seeds = "1-10"'),
        ({"seeds": []}, "no seeds given: at least one is needed\n  at s.toml: seeds"),
        ({"seeds": "3-1"}, 'bad seeds "3-1": the range 3-1 runs backwards, write 1-3\n  at s.toml: seeds'),
        ({"seeds": [1, 1]}, "seed 1 is given twice: the same seed gives the same run\n  at s.toml: seeds"),
        ({"scenario": None}, 'missing key "scenario"\n  at s.toml\n     add scenario = "file.toml"'),
        (
            {"axes": [AXIS | {"values": []}]},
            "the grid is empty: the axis has no values\n  at s.toml: axes[0].values",
        ),
        (
            {"axes": [{"name": "a", "points": []}]},
            "the grid is empty: the axis has no points\n  at s.toml: axes[0].points",
        ),
        (
            {"axes": [AXIS | {"vlaues": [1]}]},
            'unknown key "vlaues" in axes[0]\n  at s.toml: axes[0].vlaues\n     did you mean "values"?',
        ),
        ({"axes": [AXIS, AXIS]}, 'axis "loss" is there twice\n  at s.toml: axes[1].name'),
        (
            {"axes": [AXIS, AXIS | {"name": "b"}]},
            "channel.error.packet_error_rate is set by two axes, loss and b",
        ),
        ({"axes": [AXIS | {"values": [0, 0.0]}]}, "0.0 is there twice\n  at s.toml: axes[0].values[1]"),
        ({"axes": [AXIS | {"values": [{"kind": "none"}]}]}, "needs a name\n  at s.toml: axes[0].values[0]"),
        ({"axes": [AXIS | {"name": "seed"}]}, 'name "seed" is taken\n  at s.toml: axes[0].name'),
        *[
            ({"axes": [AXIS | {"name": name}]}, f'name "{name}" is taken\n  at s.toml: axes[0].name')
            for name in ("run", "state", *SUMMARY, *DIFFERENCES, *sorted(KEYS_OF_SERIES), ONLY)
        ],
        ({"metrics": [{"name": "study", "field": "timeouts"}]}, 'name "study" is taken'),
        ({"axes": [AXIS | {"name": "per cent"}]}, 'name cannot be "per cent"'),
        ({"axes": [{"name": "a"}]}, "the axis sets nothing\n  at s.toml: axes[0]"),
        ({"axes": [AXIS | {"keys": ["a"]}]}, "key and keys exclude each other"),
        (
            {"axes": [{"name": "a", "keys": ["duration", "warmup"], "values": [["3 s"]]}]},
            '["3 s"] has 1 values for 2 keys\n  at s.toml: axes[0].values[0]\n     give one value for each',
        ),
        ({"set": {"channel.error.packet_error_rate": 0}}, "channel.error.packet_error_rate is set twice"),
        ({"axes": [AXIS | {"key": "seed"}]}, "seed cannot be set\n  at s.toml: axes[0].key"),
        (
            {"keep": [{"table": "hops", "links": "bottleneck", "flows": "left"}]},
            "links and flows exclude each other\n  at s.toml: keep[0]",
        ),
        (
            {"keep": [{"table": "link_series", "links": ["bottle"]}]},
            'no link is called "bottle" at any point\n  at s.toml: keep[0].links\n     did you mean "bot',
        ),
        (
            {"keep": [{"table": "hops", "flows": ["lft"]}]},
            'no flow is called "lft" at any point\n  at s.toml: keep[0].flows\n     did you mean "left"?',
        ),
        (
            {"metrics": [{"name": "m", "field": "timeouts", "where": "rest*"}]},
            'no flow is called "rest*" at any point\n  at s.toml: metrics[0].where\n     known: left, right',
        ),
        (
            {
                "keep": [{"table": "link_series", "links": ["bottleneck"]}],
                "metrics": [
                    {"name": "m", "from": "link_series", "field": "utilisation", "where": "source*"},
                ],
            },
            'no link is called "source*" at any point\n  at s.toml: metrics[0].where\n     known: bottleneck',
        ),
        ({"set": {"seed": 3}}, "seed cannot be set\n  at s.toml: set"),
        ({"axes": [AXIS | {"key": " "}]}, "a key is empty\n  at s.toml: axes[0].key"),
        ({"metrics": []}, "no metric is given\n  at s.toml: metrics"),
        (
            {"metrics": ["goodput"]},
            'unknown metric "goodput"\n  at s.toml: metrics[0]\n     did you mean "goodput_bit_s"?',
        ),
        ({"metrics": ["timeouts", "timeouts"]}, 'metric "timeouts" is there twice\n  at s.toml: metrics[1]'),
        (
            {"metrics": [{"name": "m", "field": "timeout"}]},
            'flows have no column "timeout"\n  at s.toml: metrics[0].field\n     did you mean "timeouts"?',
        ),
        (
            {"metrics": [{"name": "m", "from": "flow", "field": "timeouts"}]},
            'unknown table "flow"\n  at s.toml: metrics[0].from\n     did you mean "flows"?',
        ),
        (
            {"metrics": [{"name": "m", "field": "timeouts", "by": "sums"}]},
            'unknown reduction "sums"\n  at s.toml: metrics[0].by\n     did you mean "sum"?',
        ),
        ({"metrics": [{"name": "loss", "field": "timeouts"}]}, 'name "loss" is taken'),
        (
            {"keep": [{"table": "links_series"}]},
            'unknown table "links_series"\n  at s.toml: keep[0].table\n     did you mean "link_series"?',
        ),
        (
            {"keep": [{"table": "link_series", "columns": ["queue"]}]},
            'link_series has no column "queue"\n  at s.toml: keep[0].columns[0]',
        ),
        (
            {"baseline": {"los": 0}},
            'unknown axis "los"\n  at s.toml: baseline.los\n     did you mean "loss"?',
        ),
        (
            {"baseline": {"loss": 0.5}},
            "axis loss has no value 0.5\n  at s.toml: baseline.loss\n     known: 0, 0.01",
        ),
        ({"x": "los"}, 'unknown axis "los"\n  at s.toml: x\n     did you mean "loss"?'),
        ({"title": 3}, "title cannot be 3\n  at s.toml: title\n     expected a text"),
        ({"axes": [AXIS | {"values": list(range(20_001))}]}, "20,001 points with 2 seeds are too many"),
    ],
)
def test_a_mistake_is_named_with_its_place(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError) as caught:
        Study.parse(content(**changes), file="s.toml")
    assert str(caught.value).startswith("study error: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"axes": [AXIS | {"key": "chanel.error.packet_error_rate"}]},
            'at s.toml: axes[0].values[0] (chanel.error.packet_error_rate = 0)\n     did you mean "channel"?',
        ),
        (
            {"axes": [AXIS, {"name": "p", "points": [{"name": "a", "set": {"flows.0.transport": "vega"}}]}]},
            'at s.toml: axes[1].points[0] (flows.0.transport = "vega")\n     did you mean "vegas"?',
        ),
        (
            {"set": {"durtion": "1 s"}},
            'at s.toml: set.durtion (durtion = "1 s")\n     did you mean "duration"?',
        ),
        (
            {"axes": [AXIS | {"values": [0, 7]}]},
            "at s.toml: axes[0].values[1] (channel.error.packet_error_rate = 7)",
        ),
        ({"scenario": {"duration": "1 s"}}, "in s.toml: scenario"),
        ({"scenario": "nowhere.toml"}, "named by s.toml: scenario"),
    ],
)
def test_what_the_engine_refuses_is_placed_in_the_study(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(lh.ScenarioError) as caught:
        Study.parse(content(**changes), file="s.toml")
    assert message in str(caught.value)


def test_a_mistake_on_the_command_line_is_placed_there() -> None:
    with pytest.raises(lh.ScenarioError, match=r"at --set durtion=1 s\n"):
        Study.parse(content(), file="s.toml", arguments={"durtion": "1 s"})


BOTH = 'name = "x"\nscenario = "s.toml"\nseeds = [1]\nmetrics = ["goodput_bit_s"]\n[[metrics]]\nname = "a"\n'


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.toml", "name = \n", "a text without quotes, or no value\n  at a.toml:1:8\n1 | name =\n"),
        (
            "d.toml",
            BOTH,
            'duplicate key "metrics"\n  at d.toml:5:3\n5 | [[metrics]]\n  |   ^^^^^^^ metrics = ',
        ),
        ("c.toml", "a = {b = 1,}", "not valid TOML: invalid initial character for a key part (at "),
        ("a.json", "{", "not valid JSON: EOF while parsing an object at line 1 column 1"),
        ("a.json", "[]", "it holds no table"),
    ],
)
def test_files_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(text)
    with pytest.raises(StudyError) as caught:
        Study.load(name)
    assert message in str(caught.value)
    with pytest.raises(StudyError, match=r"there is no such file\n  at b\.toml"):
        Study.load("b.toml")
