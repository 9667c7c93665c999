"""Proxies that split connections of the kernel: what they help, and what goes through them whole."""

from __future__ import annotations

import json
import re
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from tests.python.real_packets import (
    emulated,
    needs_kernel,
    path,
    run_command,
    scenario_file,
    side_by_side,
)

import lasthop as lh
from lasthop import live

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("middlebox", "message"),
    [
        ({"kind": "wtcp"}, "wtcp cannot help real packets"),
        ({"kind": "split", "to_wireless": "probing"}, '"probing" needs what no real host gives'),
        (
            {"kind": "split", "to_wired": {"preset": "reno", "profile": "ns2"}},
            "no TCP that a real host understands; give to_wireless and to_wired another sender",
        ),
        ({"kind": "split", "zero_windows": True}, "leave out zero_windows"),
    ],
)
def test_helpers_that_no_real_host_understands_are_refused(middlebox: dict[str, Any], message: str) -> None:
    with pytest.raises(lh.ScenarioError, match=re.escape(message)):
        live.plan_text(path("5 Mbit/s", middleboxes=[middlebox]), [], None, [], "reno")


def split_path(**keys: Any) -> lh.Scenario:
    """Return a path of 100 ms of wire and a lossy hop, with a proxy between them."""
    error = {"kind": "bernoulli", "packet_error_rate": 0.02}
    sender = {"preset": "cubic", "profile": "linux"}
    proxy = {"kind": "split", "to_wireless": sender, "to_wired": sender, "buffer": "256 kB", **keys}
    scenario = path("5 Mbit/s", "10 ms", duration="7 s", error=error, middleboxes=[proxy])
    content = scenario.to_dict()
    # With room for what leaves at once when the proxy's window opens.
    queue = {"kind": "drop-tail", "limit": "300 packets"}
    content["topology"]["links"][0] |= {"rate": "100 Mbit/s", "delay": "100 ms", "queue": queue}
    return lh.Scenario(content)


@needs_kernel
def test_a_split_helps_the_tcp_of_the_kernel() -> None:
    """The proxy repeats what the hop loses within 20 ms, and the server, 200 ms away, hears of no loss."""
    scenario = split_path()
    content = scenario.to_dict()
    del content["topology"]["links"][1]["middleboxes"]
    simulated = lh.run(scenario).record["flows"][0]
    found = side_by_side(*(partial(emulated, one, kernel="reno") for one in (scenario, lh.Scenario(content))))
    flow, alone = (run.record["flows"][0] for run in found)
    assert flow["goodput_bit_s"] == pytest.approx(simulated["goodput_bit_s"], rel=0.3)
    assert not any(flow["packets_lost"].values())
    assert simulated["retransmitted_packets"] == 0
    # A timer of the kernel may run out while the machine is busy, and then it repeats a window.
    assert flow["retransmitted_packets"] <= flow["packets_sent"] / 10
    assert flow["rtt_mean_s"] == pytest.approx(0.2, abs=0.01)
    for told in (flow["split"], simulated["split"]):
        assert told["transport"] == "cubic"
        assert told["retransmitted_packets"] == pytest.approx(told["packets_lost"], rel=0.3)
        assert told["rtt_mean_s"] < 0.1
        assert 0 < told["avg_held_bytes"] <= told["max_held_bytes"] <= 256_000
        assert 0 < told["acked_not_delivered_bytes"] <= 256_000
    assert flow["delay_p50_s"] > 0.11, "from the server, not from the proxy"
    assert flow["goodput_bit_s"] > 3 * alone["goodput_bit_s"], (flow["goodput_bit_s"], alone["goodput_bit_s"])


#: A server that answers with as many bytes, reversed, once its peer has closed.
MIRROR = """
import socket
from pathlib import Path
for key, value in SYSCTLS.items():
    Path("/proc/sys/net/ipv4", key).write_text(value)
talk, _ = socket.create_server(("", 8000)).accept()
talk.sendall(b"".join(iter(lambda: talk.recv(65536), b""))[::-1])
"""
LOOK = """
import os, socket
data = os.urandom(150_000)
talk = socket.create_connection(("server", 8000))
talk.sendall(data)
talk.shutdown(socket.SHUT_WR)
answer = b"".join(iter(lambda: talk.recv(65536), b""))
print("whole" if answer == data[::-1] else f"{len(answer)} bytes")
"""
#: A server that breaks off, and then one that is left.
BREAK = """
import socket, struct
listening = socket.create_server(("", 8000))
talk, _ = listening.accept()
talk.recv(1)
talk.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
talk.close()
talk, _ = listening.accept()
try:
    while talk.recv(65536):
        pass
    print("closed", flush=True)
except ConnectionResetError:
    print("server heard of a reset", flush=True)
"""
LEAVE = """
import socket, struct, time
talk = socket.create_connection(("server", 8000))
talk.send(b"x")
try:
    print(f"got {talk.recv(10)!r}")
except ConnectionResetError:
    print("client heard of a reset")
began = time.monotonic()
try:
    socket.create_connection(("server", 9))
except ConnectionRefusedError:
    print(f"refused {'when the server was heard' if time.monotonic() - began > 0.2 else 'early'}")
talk = socket.create_connection(("server", 8000))
talk.send(bytes(1000))
time.sleep(0.3)
talk.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
talk.close()
time.sleep(0.5)
"""


def through_a_split(
    folder: Path, error: dict[str, Any], server: str, client: str
) -> tuple[list[str], str, Any]:
    """Return what a client and a server printed that have a proxy between them, and the run."""
    content = split_path(to_wired={"preset": "newreno", "profile": "linux"}).to_dict()
    for link in content["topology"]["links"]:
        link["error"] = error
    file = scenario_file(folder, lh.Scenario({**content, "duration": "40 s"}))
    serve, fetch, said = folder / "serve.py", folder / "fetch.py", folder / "said"
    serve.write_text(server, encoding="utf-8")
    fetch.write_text(client, encoding="utf-8")
    beside = f"server=sh -c '{sys.executable} {serve} >{said}'"
    results = folder / "run.json"
    done = run_command(file, "--beside", beside, "--json", results, "--", sys.executable, fetch)
    assert results.exists(), done.stderr
    told = json.loads(results.read_text(encoding="utf-8"))["runs"][0]
    return done.stdout.splitlines(), said.read_text(encoding="utf-8"), told


@needs_kernel
@pytest.mark.parametrize(
    "sysctls",
    [{}, {"tcp_sack": "0", "tcp_window_scaling": "0", "tcp_timestamps": "0"}],
    ids=["all options", "no options"],
)
def test_streams_through_a_split_arrive_whole(tmp_path: Path, sysctls: dict[str, str]) -> None:
    """Half-closed, both ways, over two links that lose packets, whatever options the server has."""
    lossy = {"kind": "bernoulli", "packet_error_rate": 0.02}
    lines, _, told = through_a_split(tmp_path, lossy, MIRROR.replace("SYSCTLS", repr(sysctls)), LOOK)
    assert lines[0] == "whole", lines
    # The answer, and the question, which went the other way: each is a row.
    assert [flow["bytes_delivered"] for flow in told["flows"]] == [150_000, 150_000]
    question, answer = sorted(
        (flow["split"] for flow in told["flows"]), key=lambda s: s["acked_not_delivered_bytes"]
    )
    assert question["retransmitted_packets"] > 0
    assert answer["retransmitted_packets"] > 0
    assert question["acked_not_delivered_bytes"] == 0
    # The run ends with the program: the last ACKs of the answer may be on their way to the proxy.
    assert answer["acked_not_delivered_bytes"] <= 15_000


@needs_kernel
def test_refusals_and_resets_go_through_a_split(tmp_path: Path) -> None:
    """Each is said once and never repeated, by a proxy as by a host: nothing may be lost here."""
    lines, said, told = through_a_split(tmp_path, {"kind": "none"}, BREAK, LEAVE)
    assert lines[:2] == ["client heard of a reset", "refused when the server was heard"], lines
    assert said == "server heard of a reset\n"
    assert [flow["split"]["resets"] for flow in told["flows"]] == [1, 1, 1]
