"""Comparison of transports on records made by hand: pairing, direction of good, words."""

from __future__ import annotations

import json
import math
from statistics import stdev
from typing import TYPE_CHECKING, Any

import pytest

import lasthop as lh
from lasthop.columns import Metric, named
from lasthop.comparison import (
    Comparison,
    Difference,
    choose_metrics,
    transport_overrides,
)
from lasthop.comparison_plot import figure_of, panel_of
from lasthop.records import bottleneck_name
from lasthop.saved import load_comparison
from lasthop.stats import Estimate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from typer.testing import Result


def record(seed: int, goodput_bit_s: float, timeouts: int = 3, queue: float = 10.0) -> dict[str, Any]:
    """One run with the keys that a comparison reads."""
    flow = {"name": "flow", "transport": "x", "rtt_mean_s": 0.1, "delay_p95_s": 0.05}
    return {
        "seed": seed,
        "totals": {
            "goodput_bit_s": goodput_bit_s,
            "jain_index": 1.0,
            "retransmitted_packets": 20,
            "retransmitted_share": 0.02,
            "timeouts": timeouts,
            "timeout_share": timeouts / 1000,
        },
        "flows": [flow, flow | {"rtt_mean_s": None}],
        "links": [
            {"name": "bottleneck", "avg_queue_packets": queue, "utilisation": 0.2},
            {"name": "busy", "avg_queue_packets": 1.0, "utilisation": 0.9},
        ],
    }


@pytest.fixture
def comparison() -> Comparison:
    """Vegas carries 10 % less than reno on a channel that varies far more than that from seed to seed."""
    channel = [1e6, 2e6, 3e6, 4e6, 5e6]
    reno = [record(seed, rate) for seed, rate in enumerate(channel)]
    vegas = [record(seed, 0.9 * rate, timeouts=seed) for seed, rate in enumerate(channel)]
    return Comparison({"name": "lab"}, "0.1.0", {"reno": reno, "vegas": vegas}, "reno")


def difference(
    low: float, middle: float, high: float, metric: str = "goodput_bit_s", of: float = 100.0
) -> Difference:
    found = Estimate(middle, low, high, 10)
    return Difference(the(metric), "vegas", "reno", found, found.scaled(1 / of) if of else None)


def the(name: str) -> Metric:
    found = named(name)
    assert found is not None
    return found


def test_pairs_are_compared_seed_by_seed(comparison: Comparison) -> None:
    goodput = comparison.list_differences()[0]
    assert goodput.estimate is not None
    assert goodput.estimate.mean == pytest.approx(-0.3e6)
    assert goodput.relative is not None
    assert goodput.relative.mean == pytest.approx(-0.1)
    assert goodput.better is False
    # Nine tenths for every seed: of the ratio nothing is uncertain, though the difference varies.
    assert goodput.verdict == "vegas carries 10 % less than reno (-10..-10 %)"


def test_no_difference_is_said_so(comparison: Comparison) -> None:
    verdicts = comparison.verdicts
    assert verdicts[1] == "an exact tie between vegas and reno in Jain index"
    assert verdicts[3].startswith("no difference shown between vegas and reno in timeouts per packet (")


@pytest.mark.parametrize(
    ("case", "better", "verdict"),
    [
        (difference(10, 12, 14), True, "vegas carries 12 % more than reno (+10..+14 %)"),
        (difference(-1, 1, 3), None, "no difference shown between vegas and reno in goodput (-1.0..+3.0 %)"),
        (
            difference(-41, -40, -39, "timeout_share"),
            True,
            "vegas has 40 % fewer timeouts per packet than reno (-41..-39 %)",
        ),
        (
            difference(3, 4, 5, "rtt_mean_s"),
            False,
            "vegas has a mean RTT 4.0 % longer than reno (+3.0..+5.0 %)",
        ),
        (
            difference(0.11, 0.12, 0.13, "retransmitted_share", of=0.0),
            False,
            "vegas retransmits 12 percentage points more per packet than reno (+11..+13 percentage points)",
        ),
        (
            difference(400, 500, 600, "retransmitted_share"),
            False,
            "vegas retransmits 6.0 times as much per packet as reno (5.0..7.0 times)",
        ),
        # Counts grow with what is carried: more of them is neither good nor bad.
        (
            difference(11, 12, 13, "retransmitted_packets", of=0.0),
            None,
            "vegas has 12 packets more in retransmissions than reno (+11..+13 packets)",
        ),
        (
            difference(0.001, 0.002, 0.003),
            True,
            "vegas carries 0.002 % more than reno (+0.001..+0.003 %)",
        ),
    ],
)
def test_words_follow_the_sign_and_the_metric(case: Difference, better: bool | None, verdict: str) -> None:
    assert (case.better, case.verdict) == (better, verdict)


def test_one_seed_shows_nothing() -> None:
    case = Difference(the("goodput_bit_s"), "vegas", "reno", Estimate(1.0, None, None, 1), None)
    assert (
        case.verdict == "one seed cannot show a difference between vegas and reno in goodput: use more seeds"
    )
    assert case.better is None
    assert case.interval_text == "-"


def test_a_metric_without_values_says_so() -> None:
    case = Difference(the("delay_p95_s"), "vegas", "reno", None, None)
    assert case.verdict == "no values to compare between vegas and reno in p95 one-way delay, mean of flows"


def test_the_bottleneck_is_the_link_of_that_name_or_the_busiest() -> None:
    named = record(1, 1e6)
    assert bottleneck_name([named]) == "bottleneck"
    unnamed = named | {
        "links": [link | {"name": link["name"].replace("bottleneck", "a")} for link in named["links"]]
    }
    assert bottleneck_name([unnamed]) == "busy"


def test_udp_flows_keep_their_transport() -> None:
    flows = [{"transport": "reno"}, {"transport": "udp"}, {"transport": {"cc": "vegas"}}]
    assert transport_overrides({"flows": flows}, "sack") == {
        "flows.0.transport": "sack",
        "flows.2.transport": "sack",
    }


def test_the_object_survives_json(comparison: Comparison) -> None:
    content = json.loads(comparison.to_json())
    assert list(content) == [
        "scenario",
        "engine_version",
        "baseline",
        "transports",
        "seeds",
        "bottleneck",
        "means",
        "differences",
        "runs",
    ]
    assert content["transports"] == ["reno", "vegas"]
    assert len(content["means"]) == 14
    assert content["differences"][0]["verdict"] == comparison.verdicts[0]
    assert {run["transport"] for run in content["runs"]} == {"reno", "vegas"}


def test_the_frames_have_one_row_per_metric_and_transport(comparison: Comparison) -> None:
    assert comparison.means.height == 14
    assert comparison.differences.height == 7
    assert comparison.means.filter(metric="rtt_mean_s", transport="reno")["mean"].item() == pytest.approx(0.1)


def test_a_ratio_keeps_to_its_bounds_and_agrees_with_the_difference() -> None:
    reno = [record(seed, 1e6, timeouts=count) for seed, count in enumerate([1, 9, 2, 14, 30])]
    none = [record(seed, 1e6, timeouts=0) for seed in range(5)]
    found = Comparison({}, "0.1.0", {"reno": reno, "none": none}, "reno").list_differences()[3]
    assert (
        found.verdict
        == "no difference shown between none and reno in timeouts per packet (-2.6..+0.3 percentage points)"
    )
    assert found.relative is None, "a mean that may be zero is nothing to be a share of"
    steady = [record(seed, 1e6, timeouts=count) for seed, count in enumerate([9, 11, 10, 12, 8])]
    rare = [record(seed, 1e6, timeouts=count) for seed, count in enumerate([0, 0, 1, 0, 0])]
    for other, low, high in ((none, -1.0, -1.0), (rare, -1.0, -0.92)):
        found = Comparison({}, "0.1.0", {"reno": steady, "none": other}, "reno").list_differences()[3]
        assert found.relative is not None
        assert found.relative.low == low
        assert found.relative.high == pytest.approx(high, abs=0.01)
        assert found.better is True


def test_without_randomness_nothing_is_uncertain() -> None:
    reno = [record(seed, 1e6) | {"fingerprint": "a"} for seed in range(5)]
    vegas = [record(seed, 1.1e6) | {"fingerprint": "b"} for seed in range(5)]
    found = Comparison({"name": "lab"}, "0.1.0", {"reno": reno, "vegas": vegas}, "reno")
    goodput = found.list_differences()[0]
    assert found.same
    assert goodput.verdict == "vegas carries 10 % more than reno: all seeds gave the same run"
    assert (goodput.better, goodput.interval_text) == (None, "+10 %")
    assert found.verdicts[1] == (
        "an exact tie between vegas and reno in Jain index: all seeds gave the same run"
    )
    assert "±" not in repr(found)
    assert "better" not in repr(found)
    vegas[2]["fingerprint"] = "c"
    assert not Comparison({}, "0.1.0", {"reno": reno, "vegas": vegas}, "reno").same


def test_any_metric_may_be_compared_and_units_left_out() -> None:
    scenario = lh.Scenario(lh.EXAMPLE)
    found = lh.compare(
        scenario, ["reno", "vegas"], seeds=[1, 2], metrics=["goodput", "rtt_p99_s", "bottleneck_utilisation"]
    )
    assert [one.name for one in found.metrics] == ["goodput_bit_s", "rtt_p99_s", "bottleneck_utilisation"]
    runs = lh.run_seeds(scenario.replace({"flows.0.transport": "reno", "flows.1.transport": "reno"}), [1, 2])
    assert found.values("reno", "rtt_p99_s") == [run.flows["rtt_p99_s"].mean() for run in runs]
    busy = [run.links.filter(name="bottleneck")["utilisation"].item() for run in runs]
    assert found.values("reno", "bottleneck_utilisation") == busy
    assert "p99 RTT" in found.verdicts[1]
    assert "p99 RTT, mean of flows" in repr(found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("godput", "unknown metric 'godput': did you mean 'goodput_bit_s'? 'lasthop metrics' lists them"),
        ("wind", "unknown metric 'wind': 'lasthop metrics' lists them"),
        (
            "delay_p",
            (
                "metric 'delay_p' is ambiguous, it may be any of delay_p50_s, delay_p95_s, delay_p99_s: "
                "write one of them"
            ),
        ),
    ],
)
def test_metrics_that_are_unknown_or_several(text: str, message: str) -> None:
    with pytest.raises(lh.ArgumentError) as caught:
        choose_metrics([text])
    assert str(caught.value) == message


def test_it_shows_itself(comparison: Comparison) -> None:
    text = repr(comparison)
    assert "vegas carries 10 % less than reno (-10..-10 %)" in text
    assert "lab  5 seeds, the same channel for each transport" in text
    assert "vegas carries 10 % less than reno (-10..-10 %)" in comparison._repr_html_()


@pytest.mark.parametrize(("share", "told"), [(0.02, True), (0.15, False)])
def test_delays_of_an_idle_link_are_said_to_be_that(share: float, *, told: bool) -> None:
    """Vegas keeps a shorter queue: no merit with a tenth of the load, one with three quarters."""
    full = [record(seed, 1e6) for seed in range(5)]
    less = [record(seed, 1e5, queue=1.0 + 0.1 * seed) for seed in range(5)]
    for one in less:
        one["links"][0]["utilisation"] = share
    for pair in ({"reno": full, "vegas": less}, {"vegas": less, "reno": full}):
        found = Comparison({"name": "lab"}, "0.1.0", pair, next(iter(pair)))
        words = "vegas keeps bottleneck 2.00 % busy, reno 20.0 %: delays and queues are shorter there"
        assert [text.startswith(words) for text in found.idle] == [True] * told
        assert (words[:30] in repr(found)) == told
        # What does not wait is not shorter for that.
        others = Comparison({"name": "lab"}, "0.1.0", pair, next(iter(pair)), [named("retransmitted_share")])
        assert others.idle == []


def test_one_seed_says_once_that_it_shows_nothing() -> None:
    alone = lh.compare(lh.Scenario(lh.EXAMPLE), ["reno", "vegas", "cubic"], seeds=[1])
    lines = [line.strip() for line in repr(alone).splitlines() if "seed" in line]
    assert lines == [
        "example  1 seed, the same channel for each transport",
        "One seed cannot show a difference: use more seeds, such as --seeds 1-10.",
    ]


def test_a_dot_carries_the_interval_of_its_paired_difference() -> None:
    """Senders meet the same channel: the difference seed by seed tells them apart, not their spread."""
    found = lh.compare(lh.Scenario(lh.EXAMPLE), ["reno", "vegas"], seeds=[1, 2, 3], metrics=["goodput"])
    metric = found.metrics[0]
    panel = panel_of(found, metric)
    reno, vegas = panel.dots
    pairs = zip(found.values("vegas", metric.name), found.values("reno", metric.name), strict=True)
    gaps = [(mine - other) / 1e6 for mine, other in pairs if mine is not None and other is not None]
    assert panel.title == "goodput (Mbit/s)"
    assert panel.baseline == reno.value
    assert (reno.low, reno.high) == (None, None)
    assert vegas.value == pytest.approx(panel.baseline + sum(gaps) / 3)
    half = 4.302_653 * stdev(gaps) / math.sqrt(3)  # Student's t, two degrees of freedom
    assert vegas.low == pytest.approx(vegas.value - half, rel=1e-6)
    assert vegas.high == pytest.approx(vegas.value + half, rel=1e-6)


def test_the_axis_of_a_comparison_shows_small_differences() -> None:
    """Bars from zero hide a difference of a few per cent that is beyond doubt."""
    found = lh.compare(lh.Scenario(lh.EXAMPLE), ["reno", "vegas"], seeds=[1, 2, 3], metrics=["goodput"])
    [axes] = figure_of(found).axes
    least, most = axes.get_xlim()
    marks = [x for line in axes.lines for x in line.get_xdata()]
    assert least < min(marks)
    assert max(marks) < most
    assert max(marks) - min(marks) > 0.8 * (most - least)


def test_one_seed_has_dots_without_intervals() -> None:
    found = lh.compare(lh.Scenario(lh.EXAMPLE), ["reno", "vegas"], seeds=[1])
    panels = [panel_of(found, metric) for metric in found.metrics]
    assert all(dot.low is None and dot.high is None for panel in panels for dot in panel.dots)
    assert all(line.get_marker() == "o" for axes in figure_of(found).axes for line in axes.lines[1:])


def test_figures_of_several_links(
    command: Callable[..., Result], scenario_file: Path, tmp_path: Path
) -> None:
    """Only the bottleneck had a queue; a comparison that is loaded again has those that were asked for."""
    names = "avg_queue@bottleneck,avg_queue_packets@source-access-1,max_queue@bottleneck (reverse)"
    words = ("compare", scenario_file, "--transport", "reno,vegas", "--seeds", "1-2", "--metric")
    shown = command(*words, names, "--out", tmp_path / "out")
    assert shown.exit_code == 0, shown.stderr
    comparison = load_comparison(tmp_path / "out")
    means = comparison.means.filter(comparison.means["transport"] == "reno")
    for link in ("bottleneck", "source-access-1"):
        records = comparison.runs["reno"]
        rows = [row for record in records for row in record["links"] if row["name"] == link]
        (mean,) = means.filter(means["metric"] == f"avg_queue_packets@{link}")["mean"]
        assert mean == pytest.approx(sum(row["avg_queue_packets"] for row in rows) / len(rows))
    for wrong, message in (
        ("avg_queue@bottlneck", "there is no such link; did you mean 'bottleneck'?"),
        ("goodput@bottleneck", "write a figure of links and a link, such as avg_queue@wifi"),
    ):
        refused = command(*words, wrong)
        assert (refused.exit_code, message in refused.stderr) == (2, True), refused.stderr
