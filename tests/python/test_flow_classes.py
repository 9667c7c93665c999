"""Flows whose results are told by class: the same run, and the same figures, as told by flow."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import lasthop as lh
from lasthop import stats
from lasthop.columns import declared
from lasthop.flow_groups import NUMBER

BOTTLENECK = {"rate": "100 Mbit/s", "delay": "10 ms"}
LIMITED = {"kind": "drop-tail", "limit": "30 packets"}
WEB = {
    "name": "web",
    "transport": "cubic",
    "traffic": {"kind": "transfer", "size": {"kind": "pareto", "mean": "30 kB", "shape": 1.5}},
    "start": {"arrivals": "poisson", "load": 0.6},
}

DOWNLOAD = {"name": "download", "transport": "bbr"}
TALK = {"kind": "on-off", "rate": "100 kbit/s", "packet": "500 B", "on": "1 s", "off": "1 s"}
EVERY = {"arrivals": "poisson", "every": "100 ms"}


def scenario(*flows: dict[str, Any], queue: Any = LIMITED, **more: Any) -> dict[str, Any]:
    access = {"rate": "1 Gbit/s", "delay": "2 ms"}
    topology = {"kind": "dumbbell", "bottleneck": BOTTLENECK | {"queue": queue}, "access": access}
    return {"name": "classes", "duration": "10 s", "topology": topology, "flows": list(flows), **more}


def both(run: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the records of a run that is told by flow, and by class where flows arrive."""
    told = [flow | {"results": "class"} if "start" in flow else flow for flow in run["flows"]]
    by_flow, by_class = (lh.run(lh.Scenario(one)).record for one in (run, run | {"flows": told}))
    assert by_class["fingerprint"] == by_flow["fingerprint"]
    assert by_class["packet_hops"] == by_flow["packet_hops"]
    return by_flow, by_class


def check_rows(by_flow: dict[str, Any], by_class: dict[str, Any]) -> None:
    """Check that each row is made of those of its flows as columns say, and that the totals are the same."""
    for row in by_class["flows"]:
        members = [flow for flow in by_flow["flows"] if NUMBER.sub("", flow["name"]) == row["name"]]
        # Of those that would arrive after the end a row by flow still tells the length.
        members = [flow for flow in members if flow["start_s"] is not None]
        for column in declared("flows").values():
            if column.path[0] == "class" or column.over not in ("sum", "mean"):
                continue
            of_each = [value for value in column.of_all(members) if value is not None]
            [told] = column.of_all([row])
            fold = sum(of_each) if column.over == "sum" else stats.mean(of_each)
            if not of_each:
                assert told in (None, 0), column.name
            else:
                rounded = 0.5 if column.name == "transfer_bytes" else 0
                assert told == pytest.approx(fold, rel=1e-9, abs=rounded), (row["name"], column.name)
        if "class" in row:
            assert row["class"]["flows"] >= len(members)
            times = sorted(flow["completion_s"] or float("inf") for flow in members)
            finished = sum(time < float("inf") for time in times)
            # Over what sends nothing again there is no count of what finished.
            assert row["class"]["finished"] in ((finished,) if finished else (0, None))
            for percent in (50, 95, 99):
                time = times[-(-len(times) * percent // 100) - 1]
                found = row["class"][f"completion_p{percent}_s"]
                assert found == (None if time == float("inf") else time)
    for name, value in by_flow["totals"].items():
        assert by_class["totals"][name] == (pytest.approx(value) if isinstance(value, float) else value), name


def test_ten_thousand_transfers_by_class_are_those_by_flow() -> None:
    run = scenario(WEB | {"count": 10_000, "start": {"arrivals": "poisson", "every": "900 us"}})
    by_flow, by_class = both(run)
    assert len(by_flow["flows"]) == 10_000
    assert by_flow["totals"]["retransmitted_packets"] > 100
    assert [row["name"] for row in by_class["flows"]] == ["web"]
    assert by_class["flows"][0]["class"]["flows"] == 10_000
    check_rows(by_flow, by_class)


MIXES = {
    "fair queue": scenario(WEB, queue="fq-codel"),
    "cake": scenario(WEB, queue={"kind": "cake", "bandwidth": "90 Mbit/s"}),
    "beside others": scenario(DOWNLOAD, WEB, {"name": "last", "transport": "reno"}),
    "two classes": scenario(
        WEB | {"start": {"arrivals": "on-off", "on": "1 s", "off": "2 s", "load": 0.3}},
        WEB | {"name": "more", "transport": "vegas", "start": {"arrivals": "periodic", "every": "11 ms"}},
    ),
    "several hosts": scenario(WEB | {"hosts": 3}, queue="fq-codel"),
    "hosts that take time": scenario(WEB, processing_time="1 ms"),
    "a warm-up and a stop": scenario(WEB | {"stop": "7 s"}, warmup="3 s"),
    "short clocks": scenario(WEB | {"transport": {"preset": "reno", "profile": "ns2"}}),
    "datagrams": scenario(WEB | {"transport": "udp", "traffic": TALK, "stop": "8 s", "start": EVERY}),
    "losses that are told apart": scenario(WEB | {"transport": "veno"}),
    "a rate-based sender": scenario(WEB | {"transport": "tfrc", "start": EVERY}),
}  # fmt: skip


@pytest.mark.parametrize("mix", MIXES)
def test_a_class_does_what_its_flows_do(mix: str) -> None:
    check_rows(*both(MIXES[mix]))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"start": "0 s", "count": 2}, "results by class are for flows that arrive one after another"),
        (
            {"traffic": "web", "start": EVERY},
            "no results by class: calls, pages",
        ),
        ({"transport": "freeze"}, "no results by class: the sender uses signals of links"),
    ],
)
def test_what_is_told_of_each_flow_is_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(lh.ScenarioError, match=message):
        lh.Scenario(scenario(WEB | {"results": "class"} | more))


def test_what_knows_each_flow_is_refused() -> None:
    with pytest.raises(
        lh.ScenarioError, match="no results by class: helpers on links keep state for each flow"
    ):
        lh.Scenario(scenario(WEB | {"results": "class"}, helpers=[{"kind": "snoop", "at": "bottleneck"}]))
    with pytest.raises(lh.RunError, match="has results by class, and a recording tells of every flow"):
        lh.run(lh.Scenario(scenario(WEB | {"results": "class"})), series=True)


def test_too_many_flows_name_the_way_out() -> None:
    many = {"start": {"arrivals": "poisson", "every": "10 us"}}
    with pytest.raises(lh.ScenarioError, match='write count, or add results = "class"'):
        lh.Scenario(scenario(WEB | many))
    with pytest.raises(lh.ScenarioError, match='lower count, or add results = "class"'):
        lh.Scenario(scenario(WEB | many | {"count": 200_000}))
    lh.Scenario(scenario(WEB | many | {"results": "class"}))


MANY = """
import re, lasthop as lh
flows = {
    "name": "web",
    "transport": "cubic",
    "traffic": {"kind": "transfer", "size": {"kind": "exponential", "mean": "5 kB"}},
    "start": {"arrivals": "poisson", "every": "1 ms"},
    "results": "class",
}
link = {"rate": "1 Gbit/s", "delay": "5 ms"}
topology = {"kind": "dumbbell", "bottleneck": link, "access": {"rate": "10 Gbit/s", "delay": "1 ms"}}
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
lh.run(lh.Scenario({"duration": "1 s", "topology": topology, "flows": [flows]}))
before = peak()
run = lh.run(lh.Scenario({"duration": "100 s", "topology": topology, "flows": [flows]}))
assert run.record["flows"][0]["class"]["flows"] == 100_000
print(peak() - before)
"""
#: For 100,000 flows of a class, in kB; by flow they take 650,000.
MOST_KB = 50_000


def test_flows_of_a_class_leave_little_behind() -> None:
    told = subprocess.run([sys.executable, "-c", MANY], check=True, capture_output=True, text=True)
    assert int(told.stdout) < MOST_KB
