"""The library's network from Python, and aioquic over it."""

from __future__ import annotations

import re
import runpy
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

import lasthop as lh

ROOT = Path(__file__).parents[2]
PATH = """
duration = "60 s"
[topology]
kind = "graph"
nodes = ["server", "phone"]
links = [{ from = "server", to = "phone", rate = "10 Mbit/s", delay = "20 ms", queue = QUEUE }]
"""
CLEAN = PATH.replace("QUEUE", '{ kind = "drop-tail", limit = "50 packets" }')


def test_a_datagram_there_and_back() -> None:
    network = lh.Network.read(CLEAN, seed=3)
    server, phone = network.attach("server", "2001:db8::1"), network.attach("phone", "2001:db8::2")
    network.keep_fates()
    first = network.send(server, 443, ("2001:db8::2", 1000), b"a" * 1000, ecn=1)
    network.set_timer(phone, 7, 5_000_000)
    assert network.next_event() == ("timer", phone, 7)
    assert network.next_event(10_000_000).kind == "until"
    assert network.fate(first) == ("under-way", None, None, 0, None, None)
    assert network.next_event().kind == "arrivals"
    arrival = network.recv()
    assert arrival is not None
    assert arrival[:5] == (20_838_400, phone, ("2001:db8::1", 443), ("2001:db8::2", 1000), 1)
    assert arrival.data == b"a" * 1000
    assert network.recv() is None
    assert network.fate(first) == ("delivered", 20_838_400, 1, 1, None, None)
    assert len(network.entropy(phone, "keys", 32)) == 32
    assert network.entropy(phone, "keys", 32)[:4] == network.entropy(phone, "keys", 4)
    results = network.finish()
    assert results["flows"][0]["bytes_delivered"] == 1000


def test_addresses_and_buffers_are_taken_as_libraries_have_them() -> None:
    network = lh.Network.read(CLEAN)
    server, _ = (network.attach(node, ip_address(f"10.0.0.{n}")) for n, node in ((1, "server"), (2, "phone")))
    sent = [b"abc", bytearray(b"abc"), memoryview(b"xabcx")[1:4]]
    for data in sent:
        network.send(server, 443, (ip_address("10.0.0.2"), 1000), data)
    while network.next_event().kind == "arrivals":
        while (arrival := network.recv()) is not None:
            assert (arrival.data, arrival.source) == (b"abc", ("10.0.0.1", 443))
            sent.pop()
    assert not sent
    with pytest.raises(TypeError):
        network.send(server, 443, ("10.0.0.2", 1000), "abc")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda net: net.attach("nowhere", "10.0.0.9"), 'no node "nowhere"'),
        (lambda net: net.attach("phone", "10.0.0.300"), '"10.0.0.300" is no address of IPv4 or IPv6'),
        (lambda net: net.send(0, 1, ("10.0.0.7", 1), b""), "no host has the address 10.0.0.7:1"),
        (lambda net: net.send(0, 1, ("10.0.0.2", 1), bytes(1473)), "exceeds the MTU of 1500 B"),
        (lambda net: net.send(5, 1, ("10.0.0.2", 1), b""), "there is no host 5"),
        (lambda net: net.send(0, 1, ("10.0.0.2", 1), b"", ecn=4), "ecn is 0, 1, 2 or 3"),
        (lambda net: net.send(-1, 1, ("10.0.0.2", 1), b""), "a number is out of range"),
        (lambda net: (net.finish(), net.now), "the run is over"),
    ],
)
def test_mistakes_are_named(wrong: Any, message: str) -> None:
    network = lh.Network.read(CLEAN.replace("queue =", 'mtu = "1500 B", queue ='))
    network.attach("server", "10.0.0.1")
    network.attach("phone", "10.0.0.2")
    with pytest.raises(lh.ArgumentError, match=re.escape(message)):
        wrong(network)


@pytest.mark.parametrize(
    ("cut", "flip", "told"), [(2, 0, "cut is 2"), (0, -1, "flip is -1"), (0, float("nan"), "nan")]
)
def test_damage_takes_probabilities(cut: float, flip: float, told: str) -> None:
    with pytest.raises(lh.ArgumentError, match=f"{told}.*between 0 and 1"):
        lh.Network.read(CLEAN).damage(cut, flip)


def test_a_wrong_scenario_is_a_scenario_error() -> None:
    with pytest.raises(lh.ScenarioError, match="no such file"):
        lh.Network.load("nowhere.toml")
    with pytest.raises(lh.ScenarioError, match="missing key"):
        lh.Network.read("duration = '1 s'\n")
    with pytest.raises(lh.ScenarioError, match="missing key"):
        lh.Network({"duration": "1 s"})
    with pytest.raises(lh.ScenarioError, match="found str: Network"):
        lh.Network("scenario.toml")  # type: ignore[arg-type]


def test_aioquic_in_simulated_time() -> None:
    pytest.importorskip("aioquic", reason="aioquic is not installed")
    download = runpy.run_path(str(ROOT / "examples" / "aioquic_in_simulated_time.py"))["Download"]
    first, again = (download(lh.Network.read(CLEAN), 1_000_000) for _ in range(2))
    # 1 MB with its headers at 10 Mbit/s, a handshake and a slow start.
    assert 0.9 < first.run() < 1.6
    assert first.done == again.run()
    results = first.network.finish()
    flows = {flow["name"]: flow for flow in results["flows"]}
    assert flows["10.0.0.1:443 > 10.0.0.2:5000"]["bytes_delivered"] > 1_000_000
