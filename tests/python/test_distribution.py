"""Distributions: which values a curve is of, and what is drawn of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

import lasthop as lh
from lasthop import boxes, distribution, studies
from lasthop.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from typer.testing import Result


@pytest.fixture(scope="module")
def run() -> lh.Run:
    return lh.run(lh.Scenario(lh.EXAMPLE), seed=1, series=True, trace=True)


def test_curves_of_a_run_are_by_sender(run: lh.Run) -> None:
    goodputs = {sample.label: sample.values for sample in distribution.of_run(run, "goodput")}
    assert goodputs == {
        flow["transport"]: [flow["goodput_bit_s"]] for flow in run.flows.iter_rows(named=True)
    }
    (whole,) = distribution.of_run(run, "goodput", "both")
    assert sorted(whole.values) == sorted(run.flows["goodput_bit_s"])


def test_packets_take_what_the_summary_says(run: lh.Run) -> None:
    """But for those that are still under way at the end."""
    samples = {sample.label: sample.values for sample in distribution.of_run(run, "packet_delay")}
    for flow in run.flows.iter_rows(named=True):
        delays = samples[flow["transport"]]
        mean = sum(delays) / len(delays)
        assert mean == pytest.approx(flow["delay_mean_s"], rel=0.1)
        arrived = flow["packets_sent"] - flow["lost_packets"]
        assert 0.98 * arrived <= len(delays) <= arrived


def test_datagrams_take_what_the_summary_says() -> None:
    scenario = lh.Scenario(lh.EXAMPLE).to_dict()
    call = {"kind": "cbr", "rate": "64 kbit/s", "packet": "160 B"}
    scenario["flows"] = [scenario["flows"][0] | {"transport": "udp", "traffic": call}]
    run = lh.run(lh.Scenario(scenario), seed=1, trace=True)
    (sample,) = distribution.of_run(run, "packet_delay")
    assert sum(sample.values) / len(sample.values) == pytest.approx(run.flows["delay_mean_s"][0], rel=0.01)


def test_the_share_rises_by_one_of_all_at_each_value() -> None:
    sample = distribution.Sample("reno", "reno", [3e6, 1e6, 2e6])
    assert distribution._steps(sample, 1e6) == ([1, 1, 2, 3], [0, 1 / 3, 2 / 3, 1])  # noqa: SLF001


def test_a_comparison_pools_flows_and_seeds(tmp_path: Path, command: Callable[..., Result]) -> None:
    scenario = lh.Scenario(lh.EXAMPLE).replace({"duration": "5 s"})
    compared = lh.compare(scenario, ["reno", "vegas"], seeds=[1, 2, 3])
    flows = len(scenario.flow_names)
    assert [len(sample.values) for sample in distribution.of_comparison(compared, "goodput")] == [
        3 * flows
    ] * 2
    figure = compared.plot(tmp_path / "cdf.html", cdf="goodput").figure
    assert [line.get_label() for line in figure.axes[0].lines] == [
        f"{name} ({3 * flows})" for name in ("reno", "vegas")
    ]
    compared.save(tmp_path / "kept")
    assert command("plot", tmp_path / "kept", "--cdf", "goodput").exit_code == 0
    assert (tmp_path / "kept" / "cdf.png").stat().st_size > 1000
    with pytest.raises(ArgumentError, match="a comparison keeps no packets: run each with --trace"):
        compared.plot(cdf="packet_delay")


def test_what_has_no_distribution_is_named(command: Callable[..., Result], scenario_file: Path) -> None:
    refused = command("plot", scenario_file, "--cdf", "wind")
    assert refused.exit_code == 2
    assert refused.stderr == (
        "error: 'wind' has no distribution: there are the columns of flows, such as goodput "
        "and delay_p95; with --series those of flow_series, such as rtt and throughput; with --trace "
        "packet_delay\n"
    )
    both = command("plot", scenario_file, "--cdf", "rtt", "--law", "mathis")
    assert (both.exit_code, both.stderr) == (
        2,
        "error: --model and --cdf exclude each other: a model does not predict a distribution\n",
    )


def test_a_study_shows_itself() -> None:
    study = studies.Study.parse(
        {
            "name": "races",
            "scenario": lh.EXAMPLE,
            "seeds": "1-3",
            "metrics": ["goodput_bit_s"],
            "axes": [{"name": "loss", "key": "channel.error.packet_error_rate", "values": [0, 0.01]}],
        }
    )
    assert repr(study) == "<Study 'races': loss (2), 3 seeds, 1 metrics>"
    assert "<th>loss</th><td>0, 0.01</td>" in study._repr_html_()


BURSTS = """
duration = "20 s"
[topology]
kind = "dumbbell"
bottleneck = { rate = "10 Mbit/s", delay = "10 ms" }
access = { rate = "100 Mbit/s", delay = "1 ms" }
[[flows]]
name = "web"
transport = "cubic"
traffic = { kind = "transfer", size = "web-search" }
start = { arrivals = "on-off", every = "200 ms", on = "1 s", off = "9 s" }
"""


def test_what_comes_after_the_end_is_no_transfer(command: Callable[..., Result], tmp_path: Path) -> None:
    """Bursts bring fewer than their mean now and then: neither box nor table calls the others unfinished."""
    file = tmp_path / "bursts.toml"
    file.write_text(BURSTS)
    run = lh.run(lh.Scenario.load(file), seed=4)
    came = run.flows.filter(pl.col("start_s").is_not_null())
    assert len(came) < 100
    small = [box for box in boxes.of_run(run, "completion") if box.label == "web, up to 100 kB"]
    counted = len(came.filter(pl.col("transfer_bytes") <= 100_000))
    assert [len(box.values) + box.missing for box in small] == [counted]
    finished = came["completion_s"].drop_nulls().len()
    drawn = run.plot(tmp_path / "cdf.svg", cdf="completion").figure
    ((_, shares),) = [line.get_data() for line in drawn.axes[0].lines]
    assert max(shares) == pytest.approx(finished / len(came))
    assert drawn.axes[0].get_legend_handles_labels()[1] == [f"cubic ({finished} of {len(came)})"]
    told = command("run", file, "--seed", 4).stdout
    assert f"web ({len(came)} flows, cubic)" in told
    assert f"completion ({finished} of {len(came)} finished)" in told


def test_boxes_by_class_and_length(command: Callable[..., Result], tmp_path: Path) -> None:
    """A box of each class of flows; of completion times also by the length of transfers."""
    file = tmp_path / "web.toml"
    file.write_text(
        """
duration = "20 s"
[topology]
kind = "dumbbell"
bottleneck = { rate = "10 Mbit/s", delay = "10 ms" }
access = { rate = "100 Mbit/s", delay = "1 ms" }
[[flows]]
name = "web"
transport = "cubic"
traffic = { kind = "transfer", size = "web-search" }
start = { arrivals = "periodic", every = "1 s" }
[[flows]]
name = "mail"
transport = "reno"
traffic = { kind = "ftp", bytes = "20 kB" }
start = { arrivals = "periodic", every = "2 s" }
"""
    )
    run = lh.run(lh.Scenario.load(file))
    found = {box.label: box for box in boxes.of_run(run, "completion")}
    web = run.flows.filter(pl.col("name").str.starts_with("web-"))
    small = web.filter(pl.col("transfer_bytes") <= 100_000)
    assert found["web, up to 100 kB"].values == small["completion_s"].drop_nulls().to_list()
    assert sum(len(box.values) + box.missing for box in found.values() if box.label.startswith("web")) <= 20
    # All mails are of one length.
    assert len(found["mail"].values) + found["mail"].missing == 10
    drawn = run.plot(tmp_path / "box.svg", tmp_path / "box.html", box="completion").figure
    assert len(drawn.axes[0].get_yticklabels()) == len(found)
    assert [label.get_text() for label in drawn.axes[0].get_yticklabels()] == [
        box.named() for box in found.values()
    ]
    kept = tmp_path / "kept"
    assert (
        command("compare", file, "--transport", "reno,cubic", "--seeds", "1-2", "--out", kept).exit_code == 0
    )
    assert command("plot", kept, "--box", "completion").exit_code == 0
    assert (kept / "box.png").stat().st_size > 1000
    for arguments, message in (
        ((kept, "--box", "rtt"), "boxes are drawn of columns of flows"),
        ((kept, "--box", "completion", "--cdf", "goodput"), "--box draws one run or comparison"),
        ((kept, "--box", "nothing"), "'nothing' has no distribution"),
    ):
        refused = command("plot", *arguments)
        assert refused.exit_code == 2
        assert message in refused.stderr


def test_percentiles_of_a_study_count_what_did_not_finish(
    command: Callable[..., Result], tmp_path: Path
) -> None:
    """As in the totals of a run: transfers that came and did not finish are the longest; others are none."""
    (tmp_path / "bursts.toml").write_text(BURSTS)
    study = tmp_path / "study.toml"
    reductions = {"p50": "p50", "p95": "p95", "largest": "max", "middle": "median", "finished": "count"}
    metrics = [
        f'{{ name = "{name}", from = "flows", field = "completion_s", by = "{by}" }}'
        for name, by in reductions.items()
    ]
    study.write_text(
        'name = "late"\nscenario = "bursts.toml"\nseeds = [1, 4]\n'
        f'metrics = ["completion_p50_s", "completion_p95_s", "finished_transfers", {", ".join(metrics)}]\n'
    )
    assert command("study", "run", study, "--out", tmp_path / "out").exit_code == 0
    rows = pl.read_parquet(tmp_path / "out" / "results.parquet").to_dicts()
    for row in rows:
        assert row["p50"] == row["completion_p50_s"]
        assert row["p95"] == row["completion_p95_s"]
        assert row["finished"] == row["finished_transfers"]
        # Some did not finish at all.
        assert row["largest"] is None
    assert any(row["p50"] is not None and row["p95"] is None for row in rows)
