"""Devices of the simulator under real packets: what the same datagrams meet in a simulation."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.python.real_packets import TRIES, emulated, needs_kernel, needs_tshark, path, read_capture

import lasthop as lh
from lasthop import live
from lasthop.scripts import run_script

#: 400 datagrams of 250 B in each second: 0.8 Mbit/s with headers.
PROBES = {"transport": "udp", "traffic": {"kind": "cbr", "rate": "0.8 Mbit/s", "packet": "250 B"}}


def both(**last: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the flow of probes over a last hop with these keys, simulated and with real datagrams.

    The sockets of the kernel may be woken late and then send several at once: there is room for them.
    """
    last = {"queue": {"kind": "drop-tail", "limit": "1000 packets"}, **last}
    scenario = path("2 Mbit/s", duration="8 s", flow=PROBES, **last)
    return lh.run(scenario).record["flows"][0], emulated(scenario, kernel="reno").record["flows"][0]


@needs_kernel
def test_a_link_repeats_real_packets() -> None:
    """ARQ over a channel that loses every fifth frame: nothing is lost, delays are as in a simulation."""
    error = {"kind": "bernoulli", "packet_error_rate": 0.2}
    ours, real = both(error=error, arq={"attempts": 12}, reverse={"error": "none"})
    for flow in (ours, real):
        assert flow["packets_lost"]["link-gave-up"] == 0
        assert flow["packets_sent"] == pytest.approx(2400, abs=40)
    assert real["delay_p50_s"] == pytest.approx(ours["delay_p50_s"], rel=0.1)


@needs_kernel
@pytest.mark.parametrize("policy", ["drop", "hold"])
def test_a_handoff_takes_real_packets(policy: str) -> None:
    """Half a second without a link: 200 datagrams are lost with what was under way, or wait."""
    handoff = {"at": ["4 s"], "outage": "500 ms", "policy": policy}
    ours, real = both(handoff=handoff)
    lost = [flow["packets_lost"].get("outage", 0) for flow in (ours, real)]
    assert lost[0] == pytest.approx(208 if policy == "drop" else 0, abs=3)
    assert lost[1] == pytest.approx(lost[0], abs=20)
    if policy == "hold":
        assert real["delay_p99_s"] == pytest.approx(ours["delay_p99_s"], rel=0.1)


@needs_kernel
def test_repairs_bring_real_packets_back() -> None:
    """Reed-Solomon, 4 of 6: of 5 % losses a twentieth is left, and what is rebuilt is what was sent."""
    error = {"kind": "bernoulli", "packet_error_rate": 0.05}
    fec = [{"kind": "fec", "k": 4, "n": 6}]
    ours, real = both(error=error, middleboxes=fec, reverse={"error": "none"})
    for flow in (ours, real):
        missing = 1 - flow["bytes_delivered"] / 250 / flow["packets_sent"]
        assert missing < 0.01, missing


@needs_kernel
@pytest.mark.parametrize("helper", [{"kind": "snoop"}, {"kind": "fec", "k": 4, "n": 6}])
def test_helpers_do_without_sack_and_scaled_windows(helper: dict[str, Any]) -> None:
    """The link loses 3 %, the sender little of its goodput, although its host has switched both off."""
    plain = "echo 0 >/proc/sys/net/ipv4/tcp_sack; echo 0 >/proc/sys/net/ipv4/tcp_window_scaling"
    error = {"kind": "bernoulli", "packet_error_rate": 0.03}
    scenario = path("5 Mbit/s", error=error, middleboxes=[helper], reverse={"error": "none"})
    run = emulated(scenario, kernel="reno", beside=[("server", ["sh", "-c", plain])], trace=True)
    [flow], hops = run.record["flows"], run.hops
    # IP and TCP, MSS and timestamps; a shift of windows would take four bytes, SACK blocks at least twelve.
    assert set(hops.filter(pl.col("kind") == "syn")["wire_bytes"]) == {20 + 20 + 4 + 12}
    assert set(hops.filter(pl.col("kind") == "ack")["wire_bytes"]) == {20 + 20 + 12}
    lost = hops.filter(pl.col("outcome") == "channel-error").height
    assert lost > 20
    assert flow["retransmitted_packets"] < 0.3 * lost, (flow["retransmitted_packets"], lost)
    # FEC spends a third on repairs; Reno alone has half a Mbit/s here.
    assert flow["goodput_bit_s"] > 2.5e6


@needs_kernel
def test_codel_keeps_the_queue_of_the_kernel_short() -> None:
    """CUBIC fills a buffer of 300 packets; CoDel drops early and keeps what waits to some of them."""
    queues = [
        {"kind": "drop-tail", "limit": "300 packets"},
        {"kind": "codel", "limit": "300 packets"},
    ]
    full, short = (
        emulated(path("5 Mbit/s", queue=queue, duration="8 s"), kernel="cubic") for queue in queues
    )
    waiting = [
        next(link for link in run.record["links"] if link["name"] == "base-phone")["avg_queue_packets"]
        for run in (full, short)
    ]
    assert waiting[1] < waiting[0] / 3, waiting
    assert short.record["flows"][0]["packets_lost"]["early-drop"] > 0
    assert short.totals["goodput_bit_s"] > 0.8 * full.totals["goodput_bit_s"]


#: Sends `TOTAL` bytes, the first of them `BEFORE` the end of sequence numbers. TCP_REPAIR and what goes
#: with it are options 19 to 21.
TOTAL, BEFORE = 600_000, 200_000
AROUND_THE_WRAP = f"""
import socket
s = socket.socket()
for option, value in ((19, 1), (20, 2), (21, -{BEFORE}), (19, 0)):
    s.setsockopt(socket.IPPROTO_TCP, option, value)
s.connect(("phone", 7777))
s.sendall(b"".join(n.to_bytes(4, 'big') for n in range({TOTAL // 4})))
s.shutdown(1)
assert s.recv(64) == b"whole", "bytes are missing, doubled or out of order"
"""
TAKEN_IN_ORDER = f"""
import socket
c = socket.create_server(("", 7777)).accept()[0]
came = bytearray()
while some := c.recv(65536):
    came += some
c.sendall(b"whole" if came == b"".join(n.to_bytes(4, 'big') for n in range({TOTAL // 4})) else b"broken")
c.close()
"""


@needs_kernel
@needs_tshark
@pytest.mark.parametrize("helper", [{"kind": "snoop"}, {"kind": "fec", "k": 4, "n": 6}])
def test_helpers_go_on_when_sequence_numbers_wrap(tmp_path: Path, helper: dict[str, Any]) -> None:
    """Every byte arrives once and in order, and the link goes on to repair losses after the wrap."""
    error = {"kind": "bernoulli", "packet_error_rate": 0.04}
    scenario = path("10 Mbit/s", "5 ms", duration="20 s", error=error, middleboxes=[helper])
    words = [[sys.executable, "-c", text] for text in (AROUND_THE_WRAP, TAKEN_IN_ORDER)]
    run = emulated(scenario, words[0], host="server", beside=[("phone", words[1])], trace=True, series=True)
    assert run.record["live"]["program_status"] == 0
    run.write_pcapng(tmp_path / "senders.pcapng", "senders")
    numbers = read_capture(tmp_path / "senders.pcapng", "ip.src", "tcp.seq_raw")
    numbers = numbers.filter(pl.col("ip.src") == "10.0.0.1")["tcp.seq_raw"]
    assert numbers[0] == 2**32 - BEFORE
    assert min(numbers) < TOTAL
    data = run.hops.filter((pl.col("kind") == "data") & (pl.col("seq") > BEFORE))
    wrapped = data["enqueue_ns"].min() / 1e9
    lost = data.filter((pl.col("link") == "base-phone") & (pl.col("outcome") == "channel-error")).height
    sent = data.filter(pl.col("link") == "server-base")["seq"]
    again = len(sent) - sent.n_unique()
    later = run.helper_series.filter(pl.col("time_s") > wrapped + 0.1)
    repairs = later.select(pl.selectors.matches("^snoop_repeats_by_|^fec_rebuilt$")).sum().row(0)
    assert sum(filter(None, repairs)) >= lost / 2
    assert lost >= 3
    assert again < lost / 2, (again, lost)


#: Datagrams as QUIC has them (RFC 9000) and packets of IPsec's ESP (RFC 4303, protocol 50): none but the ends
#: can read them. Sends 100 of each, and asks whether they came as they were.
UNREADABLE = """
import random, socket, time
draw = random.Random(1)
some = [bytes([0xC3]) + draw.randbytes(1199) for _ in range(100)]
esp = [(7).to_bytes(4, "big") + n.to_bytes(4, "big") + draw.randbytes(1000) for n in range(100)]
"""
SEEN_OFF = """
quic, ipsec = socket.socket(type=socket.SOCK_DGRAM), socket.socket(socket.AF_INET, socket.SOCK_RAW, 50)
for datagram, packet in zip(some, esp):
    quic.sendto(datagram, ("phone", 443))
    ipsec.sendto(packet, ("phone", 0))
    time.sleep(0.004)
quic.settimeout(5)
assert quic.recv(64) == b"whole"
"""
MET = """
ipsec, quic = socket.socket(socket.AF_INET, socket.SOCK_RAW, 50), socket.socket(type=socket.SOCK_DGRAM)
quic.bind(("", 443))
whole = True
for datagram, packet in zip(some, esp):
    came, sender = quic.recvfrom(2000)
    # A raw socket shows the IP header.
    whole &= came == datagram and ipsec.recv(2000)[20:] == packet
quic.sendto(b"whole" if whole else b"changed", sender)
time.sleep(1)
"""


@needs_kernel
@pytest.mark.parametrize("helper", [{"kind": "snoop"}, {"kind": "fec", "k": 4, "n": 6}])
def test_helpers_pass_what_they_cannot_read(helper: dict[str, Any]) -> None:
    scenario = path("10 Mbit/s", "5 ms", duration="20 s", middleboxes=[helper])
    words = [[sys.executable, "-c", UNREADABLE + text] for text in (SEEN_OFF, MET)]
    run = emulated(scenario, words[0], host="server", beside=[("phone", words[1])])
    assert run.record["live"]["program_status"] == 0
    assert run.record["live"]["opaque"] == 100


@needs_kernel
@pytest.mark.parametrize(("payload", "together"), [(1472, 1), (222, 6)])
def test_opportunities_of_mahimahi_carry_so_many_bytes(tmp_path: Path, payload: int, together: int) -> None:
    """Each line of the file lets 1500 B go: one packet of 1500 B, or six of 250 B."""
    at = [1, 2, 3, 20, 20, 21, 40, 41, 70, 71, 90, 100]
    (tmp_path / "bursts").write_text("".join(f"{millisecond}\n" for millisecond in at), encoding="utf-8")
    flow = {"transport": "udp", "traffic": {"kind": "cbr", "rate": "4 Mbit/s", "packet": f"{payload} B"}}
    content = path("5 Mbit/s", duration="8 s", flow=flow).to_dict()
    last = content["topology"]["links"][1]
    del last["rate"]
    last["trace"] = {"kind": "mahimahi", "file": "bursts"}
    last["queue"] = {"kind": "drop-tail", "limit": "50 packets"}
    file = tmp_path / "bursts.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    run = emulated(lh.Scenario.load(file), kernel="reno")
    bytes_carried = run.record["flows"][0]["throughput_bit_s"] / 8 * 6
    # 60 rounds of the file in 6 s. What does not fit goes on with the next opportunity.
    opportunities = 60 * len(at)
    assert bytes_carried == pytest.approx(opportunities * 1500, abs=3 * 1500 * together)


@needs_kernel
def test_a_cell_of_802_11_carries_real_packets() -> None:
    """Two stations upload over 802.11b: the kernel's TCP gets what the simulated one gets."""
    content = {
        "name": "cell",
        "duration": "8 s",
        "warmup": "2 s",
        "topology": {
            "kind": "wlan",
            "stations": 2,
            "radius": 10,
            "wire": {"rate": "100 Mbit/s", "delay": "10 ms"},
            "cell": {"phy": "802.11b"},
        },
        "flows": [{"count": 2, "transport": {"preset": "cubic", "profile": "linux"}, "traffic": "ftp"}],
    }
    scenario = lh.Scenario(content)
    ours, real = lh.run(scenario), emulated(scenario, kernel="cubic")
    assert len(real.record["flows"]) == 2
    assert real.totals["goodput_bit_s"] == pytest.approx(ours.totals["goodput_bit_s"], rel=0.15)


def mixed() -> lh.Scenario:
    """Return two flows that the kernel carries and one that it does not."""
    content = path("5 Mbit/s", duration="6 s").to_dict()
    flow = content["flows"][0]
    names = {"one": "kernel:cubic", "two": "kernel:reno", "three": "newreno"}
    content["flows"] = [{**flow, "name": name, "transport": transport} for name, transport in names.items()]
    return lh.Scenario(content)


def test_flows_of_the_kernel_are_not_simulated() -> None:
    scenario = mixed()
    assert scenario.transports == ["kernel:cubic", "kernel:reno", "newreno"]
    with pytest.raises(
        lh.RunError, match='flow "one" has the transport kernel:cubic, which real packets alone'
    ):
        lh.run(scenario)
    told = live.plan_text(scenario, [], None, [], None)
    assert "carry one with sockets of the kernel (cubic)\ncarry two with sockets of the kernel (reno)" in told
    assert "carry three" not in told


@needs_kernel
def test_flows_of_the_kernel_have_congestion_controls_of_their_own() -> None:
    run = emulated(mixed())
    told = {flow["name"]: flow["transport"] for flow in run.record["flows"]}
    assert told == {"one": "kernel:cubic", "two": "kernel:reno"}
    assert all(flow["goodput_bit_s"] > 0.3e6 for flow in run.record["flows"])
    assert run.totals["goodput_bit_s"] > 3e6
    content = mixed().to_dict()
    content["flows"][1]["transport"] = "kernel:nosuch"
    with pytest.raises(lh.ScenarioError, match='the kernel has no congestion control "nosuch"'):
        live.emulate(lh.Scenario(content))


@needs_kernel
def test_transfers_of_the_kernel_are_counted() -> None:
    """As those of a simulation are: one that does not finish is the longest."""
    content = path("5 Mbit/s", duration="6 s").to_dict()
    sizes = {"short": "50 kB", "long": "100 MB"}
    content["flows"] = [
        {
            **content["flows"][0],
            "name": name,
            "transport": "kernel:cubic",
            "traffic": {"kind": "transfer", "size": {"kind": "constant", "bytes": size}},
        }
        for name, size in sizes.items()
    ]
    run = emulated(lh.Scenario(content))
    took = {flow["name"]: flow["completion_s"] for flow in run.record["flows"]}
    assert took["short"] > 0
    assert took["long"] is None
    totals = run.record["totals"]
    assert (totals["transfers"], totals["finished_transfers"]) == (2, 1)
    assert totals["completion_p50_s"] == took["short"]
    assert totals["completion_p99_s"] is None


SCRIPTS = sorted((Path(__file__).parents[2] / "scripts").glob("*.script"))


@needs_kernel
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_kernel_does_what_a_script_says(path: Path) -> None:
    """A machine that is busy gets another try: times are real."""
    for _ in range(TRIES):
        try:
            outcome = run_script(path, kernel=True)
        except lh.RunError as error:
            if "has no congestion control" not in str(error):
                raise
            pytest.skip(str(error))
        if not outcome.ran:
            pytest.skip(f"the kernel differs: {outcome.not_on_kernel}")
        if outcome.holds:
            return
    shown = "\n".join(outcome.log)
    pytest.fail(f"{outcome.failure}\n{shown}")
