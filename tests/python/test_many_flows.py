"""The largest counts that are allowed: no square of time in reading, setting up, or telling the results."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest

import lasthop as lh

HELPERS = ("snoop", "arq", "split", "fec", "wtcp", "ack-filter")
#: CPU seconds for 100,000 flows; an idle machine needs less than 2.
READING_S = 4.0
SETTING_UP_S = 10.0
#: Memory of a process with 100,000 short transfers, in kB; it took 693,000 when this was written.
MOST_KB = 1_000_000


def dumbbell(flows: int, **more: Any) -> dict[str, Any]:
    bottleneck = {"rate": "1 Gbit/s", "delay": "10 ms", **more.pop("bottleneck", {})}
    access = {"rate": "1 Gbit/s", "delay": "1 ms"}
    return {
        "name": "many",
        "duration": "1 ms",
        "topology": {"kind": "dumbbell", "bottleneck": bottleneck, "access": access},
        "flows": [{"transport": "newreno", "count": flows, "start": "900 us"}],
        **more,
    }


def handoffs(flows: int, **more: Any) -> dict[str, Any]:
    lossy = {"error": {"kind": "bernoulli", "packet_error_rate": 0.01}}
    pairs = [
        ("server", "core", {}),
        ("core", "a", {}),
        ("a", "host", lossy),
        ("core", "b", {}),
        ("b", "host", lossy),
    ]
    links = [
        {"from": one, "to": other, "rate": "1 Gbit/s", "delay": "5 ms"} | extra for one, other, extra in pairs
    ]
    later = [
        {"at": f"{100 * number} us", "nodes": ["server", "core", "ab"[number % 2], "host"]}
        for number in range(1, 6)
    ]
    flow = {"transport": "newreno", "count": flows, "source": "server", "sink": "host", "start": "900 us"}
    return {
        "name": "handoffs",
        "duration": "1 ms",
        "topology": {"kind": "graph", "nodes": ["server", "core", "a", "b", "host"], "links": links},
        "flows": [flow | {"reroute": later}],
        **more,
    }


def helper_at(flows: int, helper: str, at: str) -> dict[str, Any]:
    return dumbbell(flows, helpers=[{"kind": helper, "at": at}])


CASES = {
    "agent": lambda flows: dumbbell(flows, bottleneck={"middleboxes": [{"kind": "snoop"}]}),
    "handoffs": handoffs,
    **{
        f"{helper} at {at}": lambda flows, helper=helper, at=at: helper_at(flows, helper, at)
        for helper in HELPERS
        for at in ("bottleneck", "sink-access")
    },
    **{
        f"handoffs with {helper}": lambda flows, helper=helper: handoffs(flows, helpers=[helper])
        for helper in ("snoop", "split", "wtcp")
    },
}


@pytest.mark.parametrize("case", CASES)
def test_a_hundred_thousand_flows_are_read_at_once(case: str) -> None:
    begun = time.process_time()
    lh.Scenario(CASES[case](100_000))
    assert time.process_time() - begun < READING_S


@pytest.mark.parametrize("case", CASES)
def test_ten_thousand_flows_are_set_up_and_told_at_once(case: str) -> None:
    scenario = lh.Scenario(CASES[case](10_000))
    begun = time.process_time()
    assert len(lh.run(scenario).record["flows"]) == 10_000
    assert time.process_time() - begun < SETTING_UP_S


def test_changes_of_paths_have_a_limit_in_all() -> None:
    with pytest.raises(lh.ScenarioError, match="more than 1000000 changes of paths in all"):
        lh.Scenario(
            handoffs(100_000)
            | {
                "flows": [
                    handoffs(100_000)["flows"][0]
                    | {
                        "reroute": [
                            {"at": f"{number} us", "nodes": ["server", "core", "ab"[number % 2], "host"]}
                            for number in range(1, 20)
                        ]
                    }
                ]
            }
        )


def test_a_study_reads_the_scenario_of_each_point_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from lasthop.studies import Study
    from lasthop.studies.plan import cells_of

    read = []
    overridden = lh.Scenario.overridden
    monkeypatch.setattr(
        lh.Scenario, "overridden", lambda *given, **options: read.append(1) or overridden(*given, **options)
    )
    axis = {"name": "loss", "key": "channel.error.packet_error_rate", "values": [0, 0.01, 0.02]}
    study = Study.parse(
        {
            "name": "races",
            "scenario": lh.EXAMPLE,
            "seeds": "1-2",
            "metrics": ["goodput_bit_s"],
            "axes": [axis],
        }
    )
    cells_of([study.with_seeds([1])])
    # The scenario that the study holds, and each of its three points.
    assert len(read) == 4


FLEETING = """
import re, lasthop as lh
flows = {
    "transport": "cubic",
    "traffic": {"kind": "transfer", "size": {"kind": "exponential", "mean": "5 kB"}},
    "start": {"arrivals": "poisson", "every": "1 ms"},
}
link = {"rate": "1 Gbit/s", "delay": "5 ms"}
topology = {"kind": "dumbbell", "bottleneck": link, "access": {"rate": "10 Gbit/s", "delay": "1 ms"}}
run = lh.run(lh.Scenario({"duration": "100 s", "topology": topology, "flows": [flows]}))
assert run.flows.height == 100_000
# What getrusage tells begins with the memory of the process that started this one.
print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""


def test_flows_that_come_and_go_need_little_memory() -> None:
    """A hundred thousand transfers, their results as a table included."""
    told = subprocess.run([sys.executable, "-c", FLEETING], check=True, capture_output=True, text=True)
    assert int(told.stdout) < MOST_KB
