"""Figures that say what they mean: which link, which flows, which transfers, and which of them are exact."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

import lasthop as lh
from lasthop.cli import app
from lasthop.comparison import Comparison
from lasthop.errors import ArgumentError
from lasthop.remarks import nothing_delivered
from lasthop.tables import render, runs_table

if TYPE_CHECKING:
    from lasthop.comparison import Difference

SNOOP = Path(__file__).parents[2] / "scenarios" / "snoop.toml"
#: Fifty pages, a file and a call over a last hop that is narrow on the way back and loses packets.
HOME = """
name = "home"
duration = "10 s"
warmup = "1 s"
[topology]
kind = "graph"
nodes = ["server", "station", "home"]
[[topology.links]]
name = "wire"
from = "server"
to = "station"
rate = "100 Mbit/s"
delay = "10 ms"
[[topology.links]]
name = "wifi"
from = "station"
to = "home"
rate = "20 Mbit/s"
delay = "5 ms"
error = { kind = "bernoulli", packet_error_rate = 0.02 }
reverse = { rate = "1.5 Mbit/s" }
[[flows]]
name = "web"
count = 50
source = "server"
sink = "home"
transport = "cubic"
start = { uniform = ["1 s", "9.9 s"] }
traffic = { kind = "ftp", bytes = "100 kB" }
[[flows]]
name = "bulk"
source = "server"
sink = "home"
transport = "cubic"
[[flows]]
name = "call-up"
source = "home"
sink = "server"
transport = "udp"
traffic = { kind = "cbr", rate = "1 Mbit/s", packet = "500 B" }
"""


@pytest.fixture(scope="module")
def home() -> lh.Scenario:
    return lh.Scenario.read(HOME)


@pytest.fixture(scope="module")
def with_fec(home: lh.Scenario) -> Comparison:
    return lh.compare(home, helpers=["none", "fec", "fec:direction=down"], seeds=range(1, 4))


def of(comparison: Comparison, metric: str, transport: str) -> Difference:
    found = comparison.list_differences()
    return next(one for one in found if (one.metric.name, one.transport) == (metric, transport))


def test_flows_are_called_as_in_the_file(home: lh.Scenario) -> None:
    text = render(runs_table(lh.run_seeds(home, [1])))
    assert all(name in text for name in ("web (50 flows, cubic)", "bulk (cubic)", "call-up (udp)"))
    assert "Jain" not in text, "pages, a file and a call share nothing alike"
    assert "of 50" in text
    assert "p95 completion" in text


@pytest.mark.parametrize(("count", "told"), [(1, False), (2, True)])
def test_a_lone_flow_shares_with_none(count: int, told: bool) -> None:
    """A table said 'Jain index 1' of a flow that is alone."""
    bottleneck = {"rate": "2 Mbit/s", "delay": "10 ms"}
    access = {"rate": "10 Mbit/s", "delay": "1 ms"}
    topology = {"kind": "dumbbell", "bottleneck": bottleneck, "access": access}
    flows = [{"count": count, "transport": "reno"}]
    runs = lh.run_seeds(lh.Scenario({"duration": "2 s", "topology": topology, "flows": flows}), [1, 2])
    assert ("Jain index" in repr(runs)) is told
    assert ("Jain index" in repr(runs[0])) is told
    assert runs[0].totals["jain_index"] is not None


def test_one_entry_is_not_averaged_with_another(with_fec: Comparison) -> None:
    text = render(with_fec, 160)
    assert "web (50 flows): completion" in text
    assert "bulk: goodput" in text
    assert "of 50 finished" in text, "the mean of completion times leaves out what did not finish"


def test_verdicts_and_tables_name_the_link(with_fec: Comparison) -> None:
    assert with_fec.bottleneck == "wifi (reverse)"
    verdict = of(with_fec, "bottleneck_avg_queue_packets", "fec").verdict
    assert "keeps the queue at wifi (reverse)" in verdict
    assert "mean queue at wifi (reverse)" in render(with_fec, 160)


def test_a_link_that_is_busier_than_the_bottleneck_is_named() -> None:
    record = {
        "totals": {"goodput_bit_s": 1e6},
        "flows": [],
        "links": [
            {"name": "bottleneck", "avg_queue_packets": 2.5, "utilisation": 0.5},
            {"name": "radio", "avg_queue_packets": 9.0, "utilisation": 0.875},
        ],
    }
    for busy, shown in ((0.875, True), (0.25, False)):
        record["links"][1]["utilisation"] = busy
        runs = [record | {"seed": seed} for seed in (1, 2)]
        text = render(Comparison({}, "0", {"a": runs, "b": runs}, "a"))
        assert ("radio, 87.5 %" in text) is shown


def test_a_helper_that_fills_a_link_is_named(with_fec: Comparison) -> None:
    text = " ".join(render(with_fec, 300).split())
    assert "fec: wifi (reverse) is 100 % busy" in text
    assert "packets are repairs by fec" in text
    assert "none: wifi" not in text


def test_a_helper_takes_keys(with_fec: Comparison) -> None:
    links = with_fec.runs["fec:direction=down"][0]["links"]
    assert ["fec" in link for link in links] == [False, False, True, False]
    with pytest.raises(ArgumentError, match="write a key and its value"):
        lh.compare(lh.Scenario.read(HOME), helpers=["none", "fec:down"], seeds=[1, 2])


def test_a_loser_does_not_retransmit_less() -> None:
    """Reno over a lossy hop repeats fewer packets than with Snoop, because it carries a ninth."""
    found = lh.compare(
        lh.Scenario.load(SNOOP).replace({"duration": "20 s"}),
        ["reno"],
        helpers=["snoop", "none"],
        seeds=range(1, 5),
    )
    counts = [
        sum(run["totals"]["retransmitted_packets"] for run in found.runs[name])
        for name in ("reno", "reno+snoop")
    ]
    assert counts[0] < counts[1]
    per_packet = of(found, "retransmitted_share", "reno")
    assert per_packet.better is False
    assert "more per packet than reno+snoop" in per_packet.verdict
    asked = lh.compare(
        lh.Scenario.load(SNOOP).replace({"duration": "20 s"}),
        ["reno"],
        helpers=["snoop", "none"],
        seeds=range(1, 5),
        metrics=["retransmitted", "timeouts", "lost_packets"],
    )
    assert [one.better for one in asked.list_differences()] == [None, None, None]


def test_the_table_counts_over_one_time() -> None:
    text = render(
        runs_table(
            lh.run_seeds(
                lh.Scenario(lh.EXAMPLE).replace({"duration": "20 s", "warmup": "5 s"}),
                [1],
            )
        )
    )
    totals = lh.run(lh.Scenario(lh.EXAMPLE).replace({"duration": "20 s", "warmup": "5 s"}), seed=1)
    lost = sum(totals.record["totals"]["packets_lost"].values())
    rows = totals.record["flows"]
    of_rows = sum(sum(row["packets_lost"].values()) + sum(row["acks_lost"].values()) for row in rows)
    assert lost == of_rows
    assert f"{lost:,}" in text


def test_a_tie_in_every_seed_is_one() -> None:
    record = {
        "seed": 1,
        "totals": {"goodput_bit_s": 1e6, "retransmitted_share": 0.0},
        "flows": [],
        "links": [{"name": "bottleneck", "avg_queue_packets": 2.5, "utilisation": 0.5}],
    }
    runs = [record | {"seed": seed} for seed in range(1, 6)]
    found = Comparison({}, "0", {"a": runs, "b": runs}, "a")
    assert set(found.verdicts) == {
        "an exact tie between b and a in goodput",
        "an exact tie between b and a in retransmissions per packet",
        "an exact tie between b and a in mean queue at the bottleneck",
    }
    assert "-0" not in render(found)
    assert "+0" not in render(found)


FAR = """
duration = "2 s"
[topology]
kind = "graph"
nodes = ["ap", "far"]
[[topology.cells]]
access_point = "ap"
position = [0, 0]
stations = [{ node = "far", position = [900, 0] }]
phy = "802.11b"
[[flows]]
source = "far"
sink = "ap"
transport = "udp"
traffic = { kind = "cbr", rate = "1 Mbit/s", packet = "1000 B" }
"""


def test_set_replaces_before_the_file_is_judged(tmp_path: Path) -> None:
    """The station is out of reach in the file, and within it by --set."""
    file = tmp_path / "far.toml"
    file.write_text(FAR, encoding="utf-8")
    with pytest.raises(lh.ScenarioError, match="900"):
        lh.Scenario.load(file)
    nearer = {"topology.cells.0.stations.0.position": "[20, 0]"}
    assert lh.Scenario.load(file, overrides=nearer).replace({"duration": "1 s"}).duration_s == 1
    words = ["run", str(file), "--set", "topology.cells.0.stations.0.position=[20, 0]"]
    assert CliRunner().invoke(app, words).exit_code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "single-flow"], "'lasthop new single-flow' writes single-flow.toml"),
        (["run", str(SNOOP), "--set", "tcp.mss=1000"], "it is called packet_size here"),
        (["run", str(SNOOP), "--set", "tcp.min_rto=1 s"], "it is called rto.min here"),
        (["reproduce", "2"], "did you mean '002'?"),
        (["reproduce", "XJTCP"], "did you mean '002'?"),
        (["reproduce", "002", "--figure", "90-95", "--show"], "has no figure '90-95'"),
    ],
)
def test_what_was_meant_is_said(words: list[str], said: str) -> None:
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert said in result.output


def test_a_wrong_node_of_a_dumbbell_is_named() -> None:
    flow = SNOOP.parent / "single-flow.toml"
    result = CliRunner().invoke(app, ["run", str(flow), "--set", "flows.0.source=foo"])
    assert 'unknown node "foo"' in result.output


def test_figures_may_be_a_range() -> None:
    from lasthop.papers.library import find_paper, load_paper
    from lasthop.papers.reproduce import choose

    names = [one.name for one in choose(load_paper(find_paper("002")), "4-9")]
    assert names == ["fig4", "fig5", "fig6", "fig7", "fig8", "fig9"]


def test_metrics_may_have_commas(tmp_path: Path) -> None:
    file = tmp_path / "home.toml"
    file.write_text(HOME, encoding="utf-8")
    words = ["compare", str(file), "--helpers", "none,arq", "--seeds", "1,2", "--json"]
    result = CliRunner().invoke(app, [*words, "--metric", "goodput,timeouts", "--metric", "jain_index"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["metrics"] == ["goodput_bit_s", "timeouts", "jain_index"]


def test_names_with_blanks_are_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["new", "a b"])
    assert "lasthop run 'a b.toml'" in result.output


def test_a_flow_that_nothing_happened_to_is_not_said_to_be_lost() -> None:
    """A connection that the other end refused has delivered nothing, and nothing was lost."""
    flow = {"name": "curl", "packets_sent": 1, "bytes_delivered": 0, "packets_lost": {}, "acks_lost": {}}
    record = {"flows": [flow], "totals": {"packets_in_flight": 0}}
    (remark,) = nothing_delivered([record])
    assert remark.startswith("curl delivered no data, though no packet was lost: the other end refused")
    (remark,) = nothing_delivered([record | {"totals": {"packets_in_flight": 1}}])
    assert "was still in flight at the end" in remark


def test_one_flow_shares_with_none() -> None:
    alone = lh.compare(lh.Scenario.load(SNOOP.with_name("single-flow.toml")), ["reno", "cubic"], seeds=[1, 2])
    assert "jain_index" not in [metric.field for metric in alone.metrics]
    two = lh.compare(lh.Scenario(lh.EXAMPLE), ["reno", "cubic"], seeds=[1, 2])
    assert "jain_index" in [metric.field for metric in two.metrics]


def test_a_flow_that_delivers_nothing_is_named() -> None:
    """A path longer than the run, or one that loses everything, is no result to be read without a word."""
    far = lh.Scenario(lh.EXAMPLE).replace({"topology.bottleneck.delay": "1000 s"})
    remark = "left, right delivered nothing: every packet was lost, or was still in flight at the end."
    assert remark in " ".join(render(runs_table(lh.run_seeds(far, [1])), width=100).split())
    deaf = lh.Scenario(lh.EXAMPLE).replace({"channel.error.packet_error_rate": 1})
    assert remark in " ".join(render(runs_table(lh.run_seeds(deaf, [1, 2])), width=100).split())
    assert "delivered nothing" not in render(
        runs_table(lh.run_seeds(lh.Scenario(lh.EXAMPLE), [1])), width=100
    )
    # A transfer that was whole before the warm-up ended delivered what it had.
    early = lh.Scenario(lh.EXAMPLE).replace(
        {"warmup": "9 s", "flows.0.traffic": {"kind": "ftp", "bytes": "10 kB"}, "flows.1.start": "9 s"}
    )
    assert "delivered nothing" not in render(runs_table(lh.run_seeds(early, [1])), width=100)


def test_runs_of_different_scenarios_are_said_to_be_so(tmp_path: Path) -> None:
    """Two runs over each other look like two senders on one path."""
    folders = [tmp_path / name for name in ("one", "two", "other")]
    for folder, scenario in zip(folders, ("single-flow", "single-flow", "snoop"), strict=True):
        words = [str(SNOOP.with_name(f"{scenario}.toml")), "--set", "duration=5 s", "--set", "warmup=0 s"]
        assert CliRunner().invoke(app, ["run", *words, "--series", "--out", str(folder)]).exit_code == 0
    one, two, other = map(str, folders)
    drawn = CliRunner().invoke(app, ["plot", one, two, "--out", str(tmp_path / "same.png")])
    assert drawn.exit_code == 0
    assert "different scenarios" not in drawn.output
    drawn = CliRunner().invoke(app, ["plot", one, other, "--out", str(tmp_path / "both.png")])
    assert "note: these are runs of different scenarios: single flow, " in drawn.output
