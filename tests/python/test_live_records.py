"""What live runs leave: rows of flows, tables and captures, and that they tell the same."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import polars as pl
import pytest
from tests.python.real_packets import (
    emulated,
    needs_kernel,
    needs_tshark,
    path,
    read_capture,
    run_command,
    scenario_file,
    until,
)

import lasthop as lh
from lasthop import live
from lasthop.captured import Captured
from lasthop.view import given

if TYPE_CHECKING:
    from pathlib import Path


@needs_kernel
def test_a_run_is_recorded_as_a_simulation_is(tmp_path: Path) -> None:
    """Kernel Reno over a queue of 30 packets: what the tables say fits together and with the summary."""
    queue = {"kind": "drop-tail", "limit": "30 packets"}
    scenario = path("5 Mbit/s", queue=queue, duration="8 s", flow={"name": "file"})
    run = emulated(scenario, kernel="reno", series=True, trace=True)
    (flow,) = run.flows.to_dicts()
    series = run.series.filter(pl.col("time_s") > 3)
    assert set(series["flow"]) == {"file"}
    # Windows by the kernel's word, flights as seen from outside: no more is under way than the window allows.
    windows, flights = series["cwnd_segments"], series["flight_segments"]
    assert windows.null_count() == 0
    assert 5 < windows.mean() < 80
    assert (flights <= windows + 3).mean() > 0.9
    assert series["rtt_s"].mean() == pytest.approx(flow["rtt_mean_s"], rel=0.2)
    bottleneck = run.link_series.filter(pl.col("link") == "base-phone")
    assert 10 < bottleneck["queue_packets"].max() <= 31
    hops = run.hops
    assert set(hops["flow"]) == {"file"}
    data = hops.filter((pl.col("kind") == "data") & (pl.col("link") == "base-phone"))
    arrived = data.filter((pl.col("outcome") == "delivered") & (pl.col("arrive_ns") > 2e9))
    assert arrived["wire_bytes"].sum() * 8 / run.record["measured_s"] == pytest.approx(
        flow["throughput_bit_s"], rel=0.02
    )
    lost = hops.filter((pl.col("outcome") == "queue-overflow") & (pl.col("enqueue_ns") > 2e9))
    assert len(lost) == flow["lost_packets"] > 0
    # Sequence numbers begin with the SYN, and every byte between is there.
    assert data["seq"].min() == 1
    assert data.unique("seq")["payload_bytes"].sum() == data["seq"].max() + data["payload_bytes"].max() - 1
    lh.Runs([run]).save(tmp_path / "live")
    (again,) = lh.load_runs(tmp_path / "live")
    again.plot(tmp_path / "live.png")
    shown = given(str(tmp_path / "live"))
    assert shown is not None
    assert shown["title"].startswith("Scenario of the live run in")
    assert shown["fingerprints"] == {"as written": {}}
    again.write_pcapng(tmp_path / "live.pcapng")
    assert (tmp_path / "live.pcapng").stat().st_size > 100 * len(data)


@needs_kernel
@needs_tshark
def test_captures_hold_what_was_on_the_wire(tmp_path: Path) -> None:
    """100,000 bytes from host to host: ports, handshake, every byte of them, and what the link has lost."""
    take = "s = socket.create_server(('', 7777)); c = s.accept()[0]\nwhile c.recv(65536): 0"
    send = "s = socket.create_connection(('phone', 7777)); s.sendall(b'0123456789abcdef' * 6250)"
    send += "; s.shutdown(1); s.recv(1)"
    words = [[sys.executable, "-c", f"import socket; {what}"] for what in (take, send)]
    scenario = path("5 Mbit/s", error={"kind": "bernoulli", "packet_error_rate": 0.05}, duration="30 s")
    run = emulated(
        scenario, words[1], host="server", beside=[("phone", words[0])], capture_at=["senders", "phone"]
    )
    assert [(one["place"], one["missed"]) for one in run.record["live"]["captures"]] == [
        ("senders", 0),
        ("phone", 0),
    ]
    lh.Runs([run]).save(tmp_path / "out")
    fields = ["ip.src", "tcp.srcport", "tcp.dstport", "tcp.flags.syn", "tcp.seq_raw", "tcp.len"]
    fields += ["tcp.checksum.status", "frame.time_epoch", "tcp.payload", "tcp.options.mss_val", "frame.len"]
    sent = read_capture(tmp_path / "out" / "capture.pcapng", *fields)
    came = read_capture(tmp_path / "out" / "capture-at-phone.pcapng", *fields)
    shakes = sent.filter(pl.col("tcp.flags.syn").is_in(["1", "True", "true"]))
    assert shakes["ip.src"].to_list()[:: len(shakes) - 1] == ["10.0.0.1", "10.0.0.3"]
    assert set(shakes["tcp.options.mss_val"]) == {1460}
    # One write of 100,000 bytes: the kernel cuts what it would leave to an interface that cuts by itself.
    assert max(sent["frame.len"]) == 1500
    assert set(sent["tcp.checksum.status"]) | set(came["tcp.checksum.status"]) == {1}, "1 is good"
    # The kernel's own port and first number, no flow's number and zero.
    [near] = set(sent.filter(pl.col("ip.src") == "10.0.0.1")["tcp.srcport"])
    first = shakes["tcp.seq_raw"][0]
    assert near > 30_000
    assert first > 0
    frames = {}
    for name, table in (("sent", sent), ("came", came)):
        data = table.filter((pl.col("ip.src") == "10.0.0.1") & (pl.col("tcp.len") > 0))
        assert set(data["tcp.dstport"]) == {7777}
        stream = bytearray(100_000)
        for seq, payload in data.select("tcp.seq_raw", "tcp.payload").iter_rows():
            part = bytes.fromhex(payload)
            at = (seq - first - 1) % 2**32
            stream[at : at + len(part)] = part
        assert bytes(stream) == b"0123456789abcdef" * 6250
        frames[name] = data
    lost = next(link for link in run.record["links"] if link["name"] == "base-phone")["drops"]
    assert len(frames["sent"]) - len(frames["came"]) in range(lost["channel-error"] + 1)
    # 25 ms away, and each packet takes 2.4 ms at 5 Mbit/s.
    delays = frames["came"]["frame.time_epoch"][0] - frames["sent"]["frame.time_epoch"][0]
    assert 0.0274 <= delays < 0.2
    assert run.record["live"]["captures"][0]["packets"] == len(sent)


@needs_kernel
@needs_tshark
def test_an_interrupted_run_leaves_its_captures(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    file = scenario_file(tmp_path, path("5 Mbit/s", duration="60 s"))
    words = [sys.executable, "-m", "lasthop", "emulate", str(file), "--kernel", "reno", "--out", str(folder)]
    words += ["--capture-at", "phone", "--snaplen", "60"]
    run = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    capture = folder / "capture-at-phone.pcapng"
    until(lambda: capture.exists() and capture.stat().st_size > 20_000)
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=20)
    assert run.returncode == 130
    assert "interrupted at" in said
    assert (folder / "result.json").exists()
    read = read_capture(capture, "frame.len", "frame.cap_len", "_ws.malformed")
    assert max(read["frame.len"]) == 1500
    assert max(read["frame.cap_len"]) == 60
    assert read["_ws.malformed"].null_count() == len(read)


#: Several programs at once: a download, an upload over another connection, one connection with data both
#: ways, and datagrams that are answered.
SERVE_ALL = """
import socket, threading
def take(listening, act):
    talk = listening.accept()[0]
    act(talk)
    talk.close()
def drain(talk):
    while talk.recv(65536):
        pass
def both(talk):
    writer = threading.Thread(target=lambda: (talk.sendall(bytes(120_000)), talk.shutdown(1)))
    writer.start()
    drain(talk)
    writer.join()
acts = {8000: lambda talk: talk.sendall(bytes(200_000)), 8001: drain, 8002: both}
for port, act in acts.items():
    threading.Thread(target=take, args=(socket.create_server(("", port)), act)).start()
talk = socket.socket(type=socket.SOCK_DGRAM)
talk.bind(("", 8003))
while True:
    data, peer = talk.recvfrom(2000)
    talk.sendto(data[: len(data) // 2], peer)
"""
ASK_ALL = """
import socket, threading, time
def join(port):
    while True:
        try:
            return socket.create_connection(("server", port))
        except ConnectionRefusedError:
            time.sleep(0.02)
def drain(talk):
    while talk.recv(65536):
        pass
def up():
    talk = join(8001)
    talk.sendall(bytes(90_000))
    talk.shutdown(1)
    drain(talk)
def both():
    talk = join(8002)
    talk.sendall(bytes(70_000))
    talk.shutdown(1)
    drain(talk)
def ask():
    talk = socket.socket(type=socket.SOCK_DGRAM)
    talk.connect(("server", 8003))
    for _ in range(100):
        try:
            talk.send(bytes(600))
        except ConnectionRefusedError:
            pass
        time.sleep(0.005)
threads = [threading.Thread(target=act) for act in (lambda: drain(join(8000)), up, both, ask)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
time.sleep(0.3)
"""


def captured(file: Path) -> dict[tuple[str, str], tuple[int, int, int]]:
    """Return packets, bytes and segments sent again, by both ends, as a capture shows them."""
    fields = [
        "ip.src",
        "ip.dst",
        "ip.len",
        "ip.proto",
        "tcp.srcport",
        "tcp.dstport",
        "tcp.seq_raw",
        "tcp.len",
    ]
    table = read_capture(file, *fields, "udp.srcport", "udp.dstport", text=fields[:2])
    found: dict[tuple[str, str], tuple[int, int, int]] = {}
    highest: dict[tuple[str, str], int] = {}
    for row in table.to_dicts():
        kind = {1: "icmp", 6: "tcp", 17: "udp"}[row["ip.proto"]]
        port = {way: "" if kind == "icmp" else f":{row[f'{kind}.{way}port']}" for way in ("src", "dst")}
        ends = tuple(f"{row[f'ip.{way}']}{port[way]}" for way in ("src", "dst"))
        key = (f"{kind} {ends[0]}", ends[1])
        packets, size, again = found.get(key, (0, 0, 0))
        if kind == "tcp" and row["tcp.len"]:
            end = row["tcp.seq_raw"] + row["tcp.len"]
            again += end <= highest.get(key, 0)
            highest[key] = max(end, highest.get(key, 0))
        found[key] = (packets + 1, size + row["ip.len"], again)
    return found


@needs_kernel
@needs_tshark
def test_every_byte_of_a_capture_is_in_one_row(tmp_path: Path) -> None:
    """Both ends lose packets: each direction of each 5-tuple has the row that its sender's capture says."""
    lossy = {"kind": "bernoulli", "packet_error_rate": 0.03}
    scenario = path("4 Mbit/s", "10 ms", duration="30 s", error=lossy, reverse={"error": lossy})
    programs = [[sys.executable, "-c", text] for text in (SERVE_ALL, ASK_ALL)]
    run = live.emulate(
        scenario,
        programs[1],
        beside=[("server", programs[0])],
        capture_at=["server", "phone"],
        budget_s=1.0,
    )
    report = run.record["live"]
    assert report["program_status"] == 0
    assert not any(report["refused"].values())
    lh.Runs([run]).save(tmp_path / "out")
    shown: dict[tuple[str, str], tuple[int, int, int]] = {}
    for host, address in report["hosts"].items():
        sent = captured(tmp_path / "out" / f"capture-at-{host}.pcapng")
        shown |= {
            key: value for key, value in sent.items() if re.match(rf"{address}(:|$)", key[0].split()[1])
        }
    (again,) = lh.load_runs(tmp_path / "out")
    rows = pl.read_parquet(tmp_path / "out" / "flows.parquet").to_dicts()
    report = again.record["live"]
    assert len(rows) == len(report["connections"]) >= 6
    for row, told in zip(rows, report["connections"], strict=True):
        assert row["name"] == told["flow"] == told["tuple"]
        near, far = told["tuple"].split(" - ")
        packets, size, repeated = shown.pop((near, far))
        assert (told["packets"], told["bytes"]) == (packets, size), told
        # Nothing is left out by the warm-up, which programs do not have.
        assert row["packets_sent"] == packets
        kind, _, near = near.partition(" ")
        if kind == "tcp":
            assert row["retransmitted_packets"] == repeated
        else:
            assert row["retransmitted_packets"] is None
        assert row["timeouts"] is None
        # What came back is a row of its own, or counted here.
        if told["bytes_back"] is None:
            assert row["acks_sent"] is None
        else:
            packets, size, _ = shown.pop((f"{kind} {far}", near), (0, 0, 0))
            assert (told["packets_back"], told["bytes_back"]) == (packets, size), told
            assert row["acks_sent"] == packets
    assert shown == {}
    delivered = [
        row["bytes_delivered"] for row in rows if row["name"].startswith("tcp") and row["bytes_delivered"]
    ]
    assert sorted(delivered) == [70_000, 90_000, 120_000, 200_000]
    assert run.record["totals"]["retransmitted_packets"] > 0


@needs_kernel
def test_what_a_program_that_sends_nothing_is_told(tmp_path: Path) -> None:
    said = run_command(scenario_file(tmp_path, path("5 Mbit/s")), "--", "true")
    assert said.returncode == 0
    title, remark = said.stdout.splitlines()
    assert title.startswith("path  ")
    assert remark.startswith("no packet crossed the network (--dry-run shows the addresses of its hosts)")


@needs_kernel
def test_a_request_is_no_rival_of_its_answer() -> None:
    """A lone short connection: both directions have data for most of its life, and only one carries them."""
    serve = """
import socket
talk = socket.create_server(("", 8000)).accept()[0]
talk.recv(100)
talk.sendall(bytes(20_000))
talk.close()
"""
    ask = """
import socket
talk = socket.create_connection(("server", 8000))
talk.sendall(bytes(100))
while talk.recv(65536):
    pass
"""
    words = [[sys.executable, "-c", text] for text in (serve, ask)]
    run = live.emulate(path("5 Mbit/s"), words[1], beside=[("server", words[0])], budget_s=1.0)
    counted = {told["payload"]: told["in_jain_index"] for told in run.record["live"]["connections"]}
    assert counted == {20_000: True, 100: False}
    assert run.totals["jain_index"] == 1


@needs_kernel
def test_flows_in_both_directions_between_the_same_hosts_are_all_there(tmp_path: Path) -> None:
    """Datagrams down and up, and TCP down and up: each carries what it does alone in its direction."""
    call = {"transport": "udp", "traffic": {"kind": "cbr", "rate": "0.5 Mbit/s", "packet": "500 B"}}
    ends = {"down": {"source": "server", "sink": "phone"}, "up": {"source": "phone", "sink": "server"}}
    content = path("5 Mbit/s", duration="6 s").to_dict()
    content["flows"] = [
        {**content["flows"][0], **ends[way], "name": f"{name}-{way}", **more}
        for name, more in (("call", call), ("bulk", {}))
        for way in ends
    ]
    run = emulated(lh.Scenario(content), kernel="cubic")
    lh.Runs([run]).save(tmp_path / "out")
    flows = {row["name"]: row for row in pl.read_parquet(tmp_path / "out" / "flows.parquet").to_dicts()}
    assert list(flows) == ["call-down", "call-up", "bulk-down", "bulk-up"]
    for way in ends:
        told = flows[f"call-{way}"]
        assert told["throughput_bit_s"] == pytest.approx(0.5e6 * 528 / 500, rel=0.2)
        assert flows[f"bulk-{way}"]["goodput_bit_s"] > 2e6
        assert told["throughput_bit_s"] + flows[f"bulk-{way}"]["throughput_bit_s"] < 5.01e6


@needs_kernel
def test_a_call_of_real_packets_has_the_quality_of_a_simulated_one() -> None:
    """A path that is busy with losses alone: what is heard, and how late, is what the simulation says."""
    calls = [
        {
            "transport": "udp",
            "source": "server",
            "sink": "phone",
            "start": "100 ms",
            "name": codec,
            "traffic": {"kind": "voice", "codec": codec, "pause": "0 s"},
        }
        for codec in ("g711", "g729")
    ]
    error = {"kind": "bernoulli", "packet_error_rate": 0.05}
    content = path("10 Mbit/s", "60 ms", duration="12 s", error=error).to_dict()
    scenario = lh.Scenario({**content, "flows": calls})
    real = {row["name"]: row for row in emulated(scenario, kernel="cubic").record["flows"]}
    simulated = {row["name"]: row for row in lh.run(scenario).record["flows"]}
    for name, told in real.items():
        expected = simulated[name]["voice"]
        assert told["voice"]["mouth_to_ear_s"] == pytest.approx(expected["mouth_to_ear_s"], abs=0.005)
        # 500 packets, of which 5 % are lost by chance on either side.
        assert told["voice"]["unheard_share"] == pytest.approx(0.05, abs=0.035)
        assert told["voice"]["mos"] == pytest.approx(expected["mos"], abs=0.4)


@needs_kernel
def test_a_path_is_read_from_captures_of_the_kernel(tmp_path: Path) -> None:
    """Kernel Reno over 8 Mbit/s, 50 ms, 60 packets and 0.3 % of loss: what captures of both ends say."""
    error = {"kind": "bernoulli", "packet_error_rate": 0.003}
    scenario = path("8 Mbit/s", error=error, duration="10 s", reverse={"error": "none"})
    run = emulated(scenario, kernel="reno", capture_at=["server", "phone"])
    lh.Runs([run]).save(tmp_path / "out")
    for host in ("server", "phone"):
        found = Captured(tmp_path / "out" / f"capture-at-{host}.pcapng").found["path"]
        true = {"rate_bit_s": 8e6, "base_rtt_s": 0.05, "queue_bytes": 60 * 1500, "loss": 0.003}
        for name, value in true.items():
            figure = found[name]
            assert figure["low"] <= value, (host, name, figure)
            assert figure["high"] is None or value <= figure["high"], (host, name, figure)
