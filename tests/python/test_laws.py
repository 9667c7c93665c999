"""Closed forms against vectors worked by hand, and against simulations of the path that they describe."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

import lasthop as lh
from lasthop import laws, studies
from lasthop.columns import named
from lasthop.errors import ArgumentError
from lasthop.saved import load_comparison
from lasthop.studies.digest import make_digest
from lasthop.studies.show import write_figures

#: Loss; square-root law and TFRC in bytes per second; full model in packets per second, its window and share
#: of timeouts; approximation. 1000 B, 0.1 s, timeout of 0.4 s; the models with two packets per ACK and a
#: window of 64.
VECTORS = [
    (0.001, 387298.3, 383843.6, 269.0912, 37.169, 0.0848, 271.4184),
    (0.01, 122474.5, 112332.2, 77.8465, 12.175, 0.2799, 79.4309),
    (0.02, 86602.5, 73249.0, 50.8546, 8.777, 0.3994, 51.7948),
    (0.03, 70710.7, 55338.9, 38.7619, 7.266, 0.4888, 39.1305),
    (0.04, 61237.2, 44425.3, 31.5718, 6.363, 0.5611, 31.4134),
    (0.05, 54772.3, 36858.9, 26.7141, 5.744, 0.6218, 26.0631),
    (0.1, 38729.8, 17701.0, 15.1481, 4.194, 0.8241, 12.5165),
]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector[0]))
def test_rates_are_those_worked_by_hand(vector: tuple[float, ...]) -> None:
    loss, mathis, tfrc, full, window, timeouts, approximate = vector
    assert laws.mathis(1000, 0.1, loss) == pytest.approx(mathis, abs=0.05)
    assert 1000 * laws.tfrc(loss, 0.1, 0.4) == pytest.approx(tfrc, abs=0.05)
    assert laws.padhye(loss, 0.1, 0.4, 64) == pytest.approx(full, abs=5e-5)
    assert laws.padhye_window(loss) == (pytest.approx(window, abs=5e-4), pytest.approx(timeouts, abs=5e-5))
    assert laws.padhye_approximate(loss, 0.1, 0.4, 64) == pytest.approx(approximate, abs=5e-5)


def test_local_repair_makes_the_path_lose_less_and_the_sender_faster() -> None:
    before, after = laws.path_loss([0.01, 0.02, 0.05]), laws.path_loss([0.01, 0.02])
    assert (before, after) == (pytest.approx(0.07831), pytest.approx(0.0298))
    rates = [8e-6 * laws.mathis(1000, 0.1, loss) for loss in (before, after)]
    assert rates == [pytest.approx(0.350128, abs=5e-7), pytest.approx(0.567581, abs=5e-7)]
    assert rates[1] / rates[0] == pytest.approx(1.621065, abs=5e-7)


def test_a_single_flow_leaves_the_hop_unused() -> None:
    sending, capacity = laws.mathis(1000, 0.1, 0.01), 5e6 / 8
    assert 8e-6 * sending == pytest.approx(0.979796, abs=5e-7)
    assert 8e-6 * sending * 0.99 == pytest.approx(0.969998, abs=5e-7)
    assert laws.is_underused(sending, 0.01, capacity, 0.01)
    fills = [laws.mathis_loss(1000, rtt, capacity) for rtt in (0.1, 0.05)]
    assert fills == [pytest.approx(3.84e-4, rel=1e-3), pytest.approx(1.536e-3, rel=1e-3)]
    assert not laws.is_underused(laws.mathis(1000, 0.1, 3e-4), 3e-4, capacity, 3e-4)


def test_delays_add_up_hop_by_hop() -> None:
    lan = laws.Hop(10e6 / 8, 1e-3)
    assert laws.one_way_delay(1000, [lan, laws.Hop(5e6 / 8, 10e-3, 20e-3), lan]) == pytest.approx(35.2e-3)


def test_limits_of_the_laws() -> None:
    assert laws.mathis(1000, 0.1, 0) == math.inf
    assert laws.tfrc(0, 0.1, 0.4) == math.inf
    assert laws.padhye(0, 0.1, 0.4, 64) == laws.padhye_approximate(0, 0.1, 0.4, 64) == 640
    assert laws.padhye(1, 0.1, 0.4, 64) == 0
    assert laws.padhye(1e-6, 0.1, 0.4, 64) < 640
    # The bound of TFRC's middle factor matters above 8/27 only.
    assert laws.tfrc(0.29, 0.1, 0.4, bounded=True) == laws.tfrc(0.29, 0.1, 0.4)
    assert laws.tfrc(0.3, 0.1, 0.4, bounded=True) > laws.tfrc(0.3, 0.1, 0.4)
    assert laws.repaired_loss(0.1) == 0
    assert laws.repaired_loss(1.0) == 1


@pytest.mark.parametrize(
    ("loss", "rtt_s"), [(-0.1, 0.1), (1.1, 0.1), (math.nan, 0.1), (0.1, 0.0), (0.1, -1.0)]
)
def test_nonsense_is_refused(loss: float, rtt_s: float) -> None:
    for law in (laws.mathis, laws.padhye, laws.tfrc):
        arguments = (1000.0, rtt_s, loss) if law is laws.mathis else (loss, rtt_s, 0.4)
        with pytest.raises(ArgumentError, match=r"loss rate is from|above 0 s"):
            law(*arguments)


def lossy_path(loss: float) -> dict[str, object]:
    """Return a path of 100 ms with room for any window, that loses data and no ACKs."""
    return {
        "duration": "200 s",
        "warmup": "10 s",
        "topology": {
            "kind": "graph",
            "nodes": ["a", "b"],
            "links": [
                {
                    "from": "a",
                    "to": "b",
                    "rate": "100 Mbit/s",
                    "delay": "50 ms",
                    "queue": {"kind": "drop-tail", "limit": "10000 packets"},
                    "error": {"kind": "bernoulli", "packet_error_rate": loss},
                    "reverse": {"error": "none"},
                }
            ],
        },
        "tcp": {"profile": "ns2", "packet_size": "960 B", "receiver_window": "1000 packets"},
        "flows": [{"source": "a", "sink": "b", "transport": "sack"}],
    }


@pytest.mark.parametrize("loss", [0.001, 0.003, 0.01])
def test_a_simulation_keeps_to_the_square_root_law(loss: float) -> None:
    flows = [lh.run(lossy_path(loss), seed=seed).flows.to_dicts()[0] for seed in (1, 2, 3, 4)]
    sent = sum(flow["packets_sent"] for flow in flows) / 4 / 190
    rtt_s = sum(flow["rtt_mean_s"] for flow in flows) / 4
    assert sent == pytest.approx(laws.mathis(1, rtt_s, loss), rel=0.15)


def test_a_law_is_laid_over_a_run(tmp_path: Path) -> None:
    run = lh.run(lossy_path(0.01) | {"duration": "60 s"}, seed=1, series=True)
    flow = run.flows.to_dicts()[0]
    said = laws.of_run(run, "mathis")
    assert said == {flow["name"]: pytest.approx(flow["throughput_bit_s"], rel=0.3)}
    assert laws.of_run(run, "padhye")[flow["name"]] < said[flow["name"]]
    figure = run.plot(tmp_path / "law.png", law="mathis").figure
    assert "square-root law" in figure.axes[2].get_title(loc="left")
    with pytest.raises(ArgumentError, match="unknown model 'matis': there are mathis, tfrc"):
        run.plot(law="matis")


def test_a_flow_without_losses_has_no_law() -> None:
    assert laws.of_run(lh.run(lossy_path(0.0) | {"duration": "20 s"}, seed=1), "padhye") == {}


def test_datagrams_have_no_law() -> None:
    scenario = lh.Scenario(lossy_path(0.01) | {"duration": "20 s"})
    two = scenario.to_dict()
    call = {"kind": "cbr", "rate": "64 kbit/s", "packet": "160 B"}
    two["flows"].append(two["flows"][0] | {"name": "call", "transport": "udp", "traffic": call})
    said = laws.of_run(lh.run(lh.Scenario(two), seed=1), "mathis")
    assert list(said) == [lh.Scenario(two).flow_names[0]]


def helped_path(loss: float, **more: object) -> dict[str, object]:
    """Return 40 ms of wire and a radio of 20 Mbit/s and 5 ms that loses data, with helpers that have room."""
    radio = {
        "name": "radio",
        "from": "b",
        "to": "c",
        "rate": "20 Mbit/s",
        "delay": "5 ms",
        "queue": {"kind": "drop-tail", "limit": "1000 packets"},
        "error": {"kind": "bernoulli", "packet_error_rate": loss},
        "reverse": {"error": "none"},
    }
    wire = {"name": "wire", "from": "a", "to": "b", "rate": "100 Mbit/s", "delay": "40 ms"}
    wire |= {"queue": {"kind": "drop-tail", "limit": "1000 packets"}}
    return {
        "duration": "120 s",
        "warmup": "10 s",
        "topology": {"kind": "graph", "nodes": ["a", "b", "c"], "links": [wire, radio]},
        "tcp": {"profile": "ns2", "packet_size": "960 B", "receiver_window": "400 packets"},
        "helpers": [
            {"kind": "fec", "order": "in-order"},
            {"kind": "split", "buffer": "4 MB"},
            {"kind": "snoop", "cache": 1000},
        ],
        "flows": [{"source": "a", "sink": "c", "transport": "sack"}],
        **more,
    }


HELPERS = ["none", "arq", "split", "fec", "fec+snoop", "snoop"]


@pytest.fixture(scope="module")
def compared() -> lh.Comparison:
    metrics = ["goodput_bit_s", "rtt_mean_s", "delay_mean_s"]
    path = helped_path(0.01)
    return lh.compare(path, ["sack"], seeds=range(1, 5), helpers=HELPERS, law="mathis", metrics=metrics)


def test_promises_of_helpers_are_worked_by_hand() -> None:
    """1000 B over 20 Mbit/s and 1 % of loss: the wire 0.08 ms, the radio 0.4 ms, ACKs of 40 B 0.0192 ms."""
    said = {
        helper: laws.of_scenario(helped_path(0.01) | {"helpers": entries}, "mathis")["flow"]
        for helper, entries in {
            "none": [],
            "arq": ["arq"],
            "snoop": ["snoop"],
            "split": [{"kind": "split", "buffer": "4 MB"}],
            "fec": ["fec"],
        }.items()
    }
    rtt_s = 0.09 + 0.00008 + 0.0004 + 0.0000032 + 0.000016
    bare = 0.99 * 8 * 960 * laws.mathis(1, rtt_s, 0.01)
    assert said["none"].goodput_bit_s == pytest.approx(bare)
    assert (said["none"].rtt_s, said["none"].limit) == (pytest.approx(rtt_s), "sender")
    # Equation 7, queues empty: the wire 0.08 ms and 35 ms, the radio 0.4 ms and 10 ms.
    assert said["none"].delay_s == pytest.approx(0.045 + 0.00008 + 0.0004)
    assert said["fec"].delay_s == said["split"].delay_s == said["none"].delay_s
    # Snoop waits for the host's answer, 1 / 0.99 - 1 times.
    assert said["snoop"].delay_s == pytest.approx(said["none"].delay_s + (0.01 + 0.0004 + 0.000016) / 99)
    # Sixteen frames of 0.4 ms until an acknowledgement is back, which takes 10 ms and 0.0056 ms for its 14 B.
    timeout_s = 0.0004 + 0.0000056 + 0.01 + 0.001
    late_s = (laws.transmissions(0.01, 3) - 1) * timeout_s
    assert said["arq"].goodput_bit_s == pytest.approx(8 * 960 * 16 / (0.0004 + 0.0000056 + 0.01 + late_s))
    assert (said["arq"].loss, said["arq"].limit) == (pytest.approx(1e-8), "link")
    assert said["snoop"].goodput_bit_s == pytest.approx(20e6 * 0.99 * 0.96)
    assert said["snoop"].loss == pytest.approx(0, abs=1e-12)
    radio_s = 0.01 + 0.0004 + 0.000016
    assert said["split"].goodput_bit_s == pytest.approx(0.99 * 8 * 960 * laws.mathis(1, radio_s, 0.01))
    assert said["fec"].loss == pytest.approx(laws.coded_loss(0.01, 8, 10))
    assert said["fec"].goodput_bit_s == pytest.approx(0.8 * 20e6 * 0.96, rel=1e-3)


@pytest.mark.parametrize(
    ("helper", "least", "most"),
    [
        ("none", 0.8, 1.1),
        ("arq", 0.97, 1.01),
        ("split", 0.8, 1.1),
        ("fec", 0.9, 1.01),
        ("fec+snoop", 0.95, 1.01),
        ("snoop", 0.95, 1.01),
    ],
)
def test_simulations_keep_to_what_the_law_says_of_helpers(
    compared: lh.Comparison, helper: str, least: float, most: float
) -> None:
    name = "sack" if helper == "none" else f"sack+{helper}"
    metric = named("goodput_bit_s")
    assert metric is not None
    assert compared.promises is not None
    estimate, said = compared.estimate(name, metric), compared.promises.of_metric(name, metric)
    assert estimate is not None
    assert said is not None
    assert least <= estimate.mean / said <= most


@pytest.mark.parametrize(("field", "most"), [("rtt_mean_s", 1.005), ("delay_mean_s", 1.05)])
def test_a_path_with_empty_queues_takes_the_time_that_is_said(
    compared: lh.Comparison, field: str, most: float
) -> None:
    """A window of a dozen packets fills no queue; one packet of a hundred comes a round trip later."""
    metric = named(field)
    assert metric is not None
    assert compared.promises is not None
    estimate, said = compared.estimate("sack", metric), compared.promises.of_metric("sack", metric)
    assert estimate is not None
    assert said is not None
    assert said < estimate.mean < most * said


def test_laws_of_helpers_are_shown_drawn_and_kept(compared: lh.Comparison, tmp_path: Path) -> None:
    assert "What the law says: square-root law" in str(compared)
    figure = compared.plot(tmp_path / "bars.png").figure
    assert "strokes: square-root law" in figure.get_suptitle()
    goodput = figure.axes[0]
    assert len([one for one in goodput.lines if one.get_marker() == "|"]) >= len(HELPERS)
    compared.plot(tmp_path / "bars.html")
    compared.save(tmp_path / "kept")
    assert load_comparison(tmp_path / "kept").promises == compared.promises
    with pytest.raises(ArgumentError, match="unknown model 'matis'"):
        lh.compare(helped_path(0.01), ["sack"], helpers=["none", "arq"], law="matis")


def test_what_no_law_can_know_has_no_promise() -> None:
    flows = [
        {
            "source": "a",
            "sink": "c",
            "transport": "udp",
            "traffic": {"kind": "cbr", "rate": "1 Mbit/s", "packet": "960 B"},
        }
    ]
    assert laws.of_scenario(helped_path(0.01, flows=flows, helpers=[]), "mathis") == {}
    assert laws.of_scenario(helped_path(0.01, helpers=[{"kind": "fec", "target": 0.001}]), "mathis") == {}
    with pytest.raises(ArgumentError, match="a code has"):
        laws.coded_loss(0.1, 5, 4)


STUDY = """
name = "helped"
scenario = "scenario.toml"
seeds = "1-2"
[set]
duration = "5 s"
[[axes]]
name = "per"
key = "topology.links.1.error.packet_error_rate"
values = [0.01, 0.03]
[[axes]]
name = "helper"
points = [{ name = "none", set = { helpers = [] } }, { name = "arq", set = { helpers = ["arq"] } }]
[[metrics]]
name = "goodput_bit_s"
[[metrics]]
name = "rtt_mean_s"
[[metrics]]
name = "timeouts"
"""


def test_a_law_is_laid_over_the_points_of_a_study(tmp_path: Path) -> None:
    ready = Path(__file__).parents[2] / "scenarios" / "snoop.toml"
    (tmp_path / "scenario.toml").write_text(ready.read_text("utf-8"), "utf-8")
    (tmp_path / "study.toml").write_text(STUDY, "utf-8")
    study = studies.Study.load(tmp_path / "study.toml")
    result = studies.run(study, tmp_path / "out")
    digest = replace(make_digest(study, result.table), x="per", lines="helper", panels=[])
    goodput, rtt, timeouts = (digest.chart(metric, "mathis") for metric in digest.metrics)
    assert goodput.note.endswith("dotted: square-root law")
    (panel,) = goodput.panels
    assert [line.name for line in panel.laws] == ["none", "arq"]
    none, arq = panel.laws
    assert arq.mean == [pytest.approx(5 * (1 - loss) * 1448 / 1500, rel=1e-3) for loss in (0.01, 0.03)]
    assert none.mean[0] == pytest.approx(math.sqrt(3) * none.mean[1], rel=0.03)
    trips = [line.mean for line in rtt.panels[0].laws]
    assert trips[0][0] == trips[0][1] < trips[1][0] < trips[1][1]
    assert timeouts.panels[0].laws == []
    for path in (tmp_path / "law.png", tmp_path / "law.html"):
        (written,) = write_figures(replace(digest, metrics=digest.metrics[:1]), path, law="mathis")
        assert written.stat().st_size > 1000


def test_parity_in_place_of_repetitions_has_its_law() -> None:
    assert [round(laws.hybrid_loss(0.1, 8, 2, attempts), 4) for attempts in (1, 2, 3)] == [
        0.5695,
        0.0702,
        0.0043,
    ]
    assert laws.hybrid_load(0.1, 8, 2, 3) == pytest.approx(1 + 0.25 * (0.5695 + 0.0702), abs=1e-4)
    assert laws.hybrid_loss(0.1, 8, 2, 0) == 1
    arq = {"kind": "arq", "window": 500, "attempts": 4, "hybrid": {"pieces": 8, "parity": 2}}
    # One segment per round trip: half a minute until the hop is full.
    scenario = helped_path(0.02, helpers=[arq], duration="60 s", warmup="35 s")
    (promise,) = laws.of_scenario(scenario, "mathis").values()
    load, left = laws.hybrid_load(0.02, 8, 2, 4), laws.hybrid_loss(0.02, 8, 2, 4)
    assert promise.loss == pytest.approx(left)
    assert promise.goodput_bit_s == pytest.approx(20e6 * 0.96 * (1 - left) / load, rel=1e-6)
    (flow,) = lh.run(scenario, seed=1).flows.to_dicts()
    assert 0.95 < flow["goodput_bit_s"] / promise.goodput_bit_s < 1.01
