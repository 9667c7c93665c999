"""Captures as input: what tshark counts, and parameters of simulated paths read back from their captures."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

import lasthop as lh
from lasthop.captured import Captured
from lasthop.errors import ArgumentError, OutputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from typer.testing import Result

PATH = """
duration = "{duration} s"
[topology]
kind = "graph"
nodes = ["server", "router", "client"]
[[topology.links]]
from = "server"
to = "router"
rate = "1 Gbit/s"
delay = "{near} ms"
queue = "unlimited"
[[topology.links]]
from = "router"
to = "client"
rate = "{rate} Mbit/s"
delay = "{far} ms"
queue = {{ kind = "drop-tail", limit = "{queue} packets" }}
error = {{ kind = "bernoulli", packet_error_rate = {loss} }}
reverse = {{ error = "none", rate = "1 Gbit/s" }}
[tcp]
profile = "{profile}"
timestamps = {timestamps}
[[flows]]
start = "0 s"
source = "server"
sink = "client"
transport = "{transport}"
"""


def drawn(number: int) -> dict[str, Any]:
    """Return a random path; the same number gives the same path."""
    draw = random.Random(number)  # noqa: S311 - a scenario, no secret
    rate = round(draw.uniform(1, 40), 2)
    near, far = round(draw.uniform(0.1, 5), 2), round(draw.uniform(1, 60), 2)
    product = rate * 1e6 * 2 * (near + far) / 1e3 / 12_000
    return {
        "duration": 20,
        "rate": rate,
        "near": near,
        "far": far,
        "queue": max(10, round(product * draw.uniform(0.5, 2))),
        "loss": draw.choice([0, 0, round(draw.uniform(0.0005, 0.02), 5)]),
        "profile": draw.choice(["linux", "rfc"]),
        "timestamps": draw.choice(["true", "false"]),
        "transport": draw.choice(["reno", "newreno", "cubic", "sack"]),
        "at": draw.choice(["senders", "client", "router"]),
    }


def captured(folder: Path, path: dict[str, Any]) -> tuple[Captured, lh.Run]:
    """Simulate a path and read the capture of it."""
    file = folder / "path.toml"
    file.write_text(PATH.format(**path))
    run = lh.run_seeds(lh.Scenario.load(file), [1], trace=True)[0]
    capture = folder / "capture.pcapng"
    run.write_pcapng(capture, at=path["at"])
    return Captured(capture), run


def inside(figure: dict[str, float | None] | None, value: float) -> bool:
    """Say whether a value is in an interval; what was not seen contradicts nothing."""
    if figure is None:
        return True
    low, high = figure["low"], figure["high"]
    assert low is not None
    return low <= value and (high is None or value <= high)


#: Paths that a search found hard: segments repeated in vain, queues that fill within a round trip, slow links
#: between the place of capture and the sender.
FOUND = [1003, 1012, 1017, 1037, 1054, 1071]


@pytest.mark.parametrize("number", [*range(50), *FOUND])
def test_parameters_are_inside_their_intervals(tmp_path: Path, number: int) -> None:
    """Rate, round trip, queue and loss of random paths, captured at either end or the router."""
    path = drawn(number)
    capture, run = captured(tmp_path, path)
    found = capture.found["path"]
    base = 2 * (path["near"] + path["far"]) / 1e3
    wrong = {
        name: (value, found[name])
        for name, value in (
            ("rate_bit_s", path["rate"] * 1e6),
            ("base_rtt_s", base),
            ("loss", path["loss"]),
            ("queue_bytes", path["queue"] * found["packet_bytes"]),
        )
        if not inside(found[name], value)
    }
    assert not wrong, path
    # None of these paths goes down: a full queue and losses by chance are no outages.
    assert found["outages"] == [], path
    dropped = run.links["dropped_packets"].sum()
    # What the sender repeated at its timer may have come through: those are told apart, and may be too many.
    assert found["lost"] - found["of_these_perhaps"] <= dropped, path
    assert found["lost"] <= max(dropped * 1.25, dropped + 2), path
    # Most is seen: of a transfer that lasts, the rate is known within a quarter.
    assert found["rate_bit_s"]["value"] == pytest.approx(path["rate"] * 1e6, rel=0.25), path
    assert found["base_rtt_s"]["value"] == pytest.approx(base, rel=0.1, abs=1e-3), path


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark (Debian package tshark)")
@pytest.mark.parametrize("number", [1, 2, 3])
def test_counts_are_those_of_tshark(tmp_path: Path, number: int) -> None:
    capture, _ = captured(tmp_path, drawn(number))
    fields = ["ip.src", "tcp.srcport", "ip.len", "tcp.len"]
    listed = [word for field in fields for word in ("-e", field)]
    command = ["tshark", "-r", str(capture.path), "-T", "fields", *listed]
    rows = [
        line.split("\t")
        for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    ]
    assert len(rows) == capture.found["packets"]
    (flow,) = capture.found["flows"]
    for way, host in enumerate((flow["from"], flow["to"])):
        own = [row for row in rows if row[0] == host]
        assert flow["packets"][way] == len(own)
        assert flow["bytes"][way] == sum(int(row[2]) for row in own)
        assert flow["payload"][way] == sum(int(row[3]) for row in own)


def pcap(link: int, frames: list[bytes], *, snap: int = 65535, magic: int = 0xA1B2C3D4) -> bytes:
    """Return a pcap file; frames come a millisecond apart and are cut at `snap`."""
    unit = 1000 if magic == 0xA1B2C3D4 else 1_000_000
    head = struct.pack("<IHHiIII", magic, 2, 4, 0, 0, snap, link)
    stored = [
        struct.pack("<IIII", 5, number * unit, min(len(frame), snap), len(frame)) + frame[:snap]
        for number, frame in enumerate(frames)
    ]
    return head + b"".join(stored)


def udp(version: int, payload: int) -> bytes:
    """Return an IP packet with a datagram from port 7 to port 9."""
    datagram = struct.pack(">HHHH", 7, 9, 8 + payload, 0) + bytes(payload)
    if version == 4:
        return (
            struct.pack(">BBHHHBBH4s4s", 0x45, 0, 28 + payload, 1, 0, 64, 17, 0, b"\x0a\0\0\1", b"\x0a\0\0\2")
            + datagram
        )
    ends = bytes(15) + b"\1" + bytes(15) + b"\2"
    return struct.pack(">IHBB", 0x60000000, 8 + payload, 17, 64) + ends + datagram


def outer(protocol: int, inside: int, head: bytes = b"") -> bytes:
    """Return an IPv4 header with the number of a protocol, before `head` and `inside` bytes."""
    length = 20 + len(head) + inside
    ends = b"\x0b\0\0\1\x0b\0\0\2"
    return struct.pack(">BBHHHBBH", 0x45, 0, length, 1, 0, 64, protocol, 0) + ends + head


def tunnel(port: int, head: bytes, inside: int) -> bytes:
    """Return IP and UDP towards the port of a tunnel, before `head` and `inside` bytes."""
    length = 8 + len(head) + inside
    return outer(17, inside, struct.pack(">HHHH", 2000, port, length, 0) + head)


SNAP = b"\xaa\xaa\3\0\0\0%e"
#: Of 802.11, to an access point: plain, and with a field of QoS.
TO_AP = b"\x08\1\0\0" + b"\2" * 18 + b"\x10\0"
WITH_QOS = b"\x88\1\0\0" + b"\2" * 18 + b"\x20\0\0\0"
RADIOTAP = struct.pack("<BBHIQBBH", 0, 0, 20, 3, 5, 0, 0, 0)
#: A datagram of 1000 bytes with its IP header: what the lengths of outer headers count.
HEADS = {
    "ethernet": (1, bytes(12) + b"%e"),
    "vlan": (1, bytes(12) + b"\x81\0\0\5%e"),
    "pppoe": (1, bytes(12) + b"\x88\x64\x11\0\0\1\4\6%p"),
    "mpls": (1, bytes(12) + b"\x88\x47\0\1\0\x40\0\2\1\x40"),
    "raw": (101, b""),
    "cooked": (113, bytes(14) + b"%e"),
    "cooked 2": (276, b"%e" + bytes(18)),
    "loopback": (0, b"\2\0\0\0"),
    "ppp": (9, b"\xff\3%p"),
    "802.11": (105, TO_AP + SNAP),
    "radiotap": (127, RADIOTAP + WITH_QOS + SNAP),
    "gtp-u": (101, tunnel(2152, struct.pack(">BBHI", 0x30, 255, 1028, 7), 1028)),
    "vxlan": (101, tunnel(4789, b"\x08\0\0\0\0\0\7\0" + bytes(12) + b"%e", 1028)),
    "gre": (101, outer(47, 1028, b"\0\0%e")),
}


def framed(head: bytes, version: int, payload: int) -> bytes:
    """Return a datagram behind a head, which has the number of IP where it asks for it."""
    ether, ppp = (b"\x08\x00", b"\0\x21") if version == 4 else (b"\x86\xdd", b"\0\x57")
    return head.replace(b"%e", ether).replace(b"%p", ppp) + udp(version, payload)


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize(("link", "head"), HEADS.values(), ids=HEADS)
def test_link_types_and_cut_packets(tmp_path: Path, version: int, link: int, head: bytes) -> None:
    frames = [framed(head, version, 1000) for _ in range(40)]
    if link in (105, 127):
        # The numbers of frames: each is another one.
        place = len(RADIOTAP) * (link == 127) + 22
        frames = [
            frame[:place] + struct.pack("<H", number << 4) + frame[place + 2 :]
            for number, frame in enumerate(frames)
        ]
    # A short frame of Ethernet is padded; what is no IP is counted.
    arp = bytes(12) + b"\x08\x06" + bytes(28)
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(link, [*frames, *([arp] if link == 1 else [])], snap=len(head) + 60))
    found = Captured(path).found
    (flow,) = found["flows"]
    assert (flow["packets"], flow["payload"]) == ([40, 0], [40_000, 0])
    assert flow["bytes"][0] == 40 * (1028 if version == 4 else 1048)
    assert found["others"] == (1 if link == 1 else 0)
    assert found["length_s"] == pytest.approx(0.039)
    assert found["path"]["rate_bit_s"]["high"] is None
    assert found["path"]["loss"] is None


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark (Debian package tshark)")
@pytest.mark.parametrize(("link", "head"), HEADS.values(), ids=HEADS)
def test_headers_are_those_of_tshark(tmp_path: Path, link: int, head: bytes) -> None:
    """The file is written by text2pcap, and the innermost datagram is the one that tshark shows."""
    sizes, text = [1000, 17, 400], tmp_path / "a.txt"
    frames = [framed(head, 4, size) for size in sizes]
    text.write_text("".join(f"000000 {frame.hex(' ')}\n\n" for frame in frames))
    path = tmp_path / "a.pcapng"
    subprocess.run(
        [str(shutil.which("text2pcap")), "-q", "-l", str(link), text, path], check=True, capture_output=True
    )
    fields = ["-e", "ip.src", "-e", "udp.srcport", "-e", "udp.length", "-E", "occurrence=l"]
    words = [str(shutil.which("tshark")), "-r", path, "-T", "fields", *fields]
    told = subprocess.run(words, check=True, capture_output=True, text=True)
    rows = [line.split("\t") for line in told.stdout.splitlines()]
    (flow,) = Captured(path).found["flows"]
    assert [row[:2] for row in rows] == [[flow["from"], str(flow["from_port"])]] * 3
    assert flow["packets"] == [3, 0]
    assert flow["payload"] == [sum(int(row[2]) - 8 for row in rows), 0] == [sum(sizes), 0]


def test_repeats_and_encrypted_frames(command: Callable[..., Result], tmp_path: Path) -> None:
    """A frame of 802.11 that was captured twice is one packet; what cannot be read is told apart."""
    plain = framed(TO_AP + SNAP, 4, 100)
    again = plain[:1] + b"\x09" + plain[2:]
    closed = plain[:1] + b"\x41" + plain[2:22] + b"\x30\0" + bytes(100)
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(105, [plain, again, closed]))
    assert (
        "1 packets of TCP and UDP, 1 repeated by 802.11, 1 encrypted, 0 s"
        in command("from-capture", path).stdout
    )
    path.write_bytes(pcap(105, [closed]))
    told = command("from-capture", path)
    assert told.exit_code == 2
    assert "one of 802.11 is encrypted: decrypt it first, for example with airdecap-ng" in told.stderr
    path.write_bytes(pcap(147, [closed]))
    assert "1 other packets; the link type 147 is not read" in command("from-capture", path).stderr


@pytest.mark.skipif(shutil.which("text2pcap") is None, reason="needs text2pcap (Debian package tshark)")
def test_interfaces_by_their_names(command: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"000000 {udp(4, 50).hex(' ')}\n")
    path = tmp_path / "a.pcapng"
    made = [str(shutil.which("text2pcap")), "-q", "-l", "101", "-N", "wwan0", tmp_path / "a.txt", path]
    subprocess.run(made, check=True, capture_output=True)
    assert command("from-capture", path, "--interface", "wwan0").exit_code == 0
    assert command("from-capture", path, "--interface", "0").exit_code == 0
    refused = command("from-capture", path, "--interface", "eth0")
    assert refused.exit_code == 2
    assert refused.stderr == (
        f"error: cannot read the capture '{path}': it has no interface \"eth0\": use one of 0 (wwan0)\n"
    )
    path.write_bytes(pcap(101, [udp(4, 50)]))
    assert 'it has no interface "7": use one of 0\n' in command("from-capture", path, "--interface", 7).stderr


def test_padding_is_no_payload(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(1, [bytes(12) + b"\x08\x00" + udp(4, 2) + bytes(16)] * 3, magic=0xA1B23C4D))
    (flow,) = Captured(path).found["flows"]
    assert flow["payload"] == [6, 0]
    assert flow["length_s"] == pytest.approx(0.002)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is no capture: it begins neither as pcap nor as pcapng does, it is empty"),
        (b"duration = 5", "it begins neither as pcap nor as pcapng does"),
        (b"\x1f\x8b\x08\x00 gz", "unpack it first"),
        (pcap(101, [])[:20], "it is damaged behind packet 0"),
        (pcap(1, [bytes(60)]), "it holds no packet of TCP or UDP over IP (1 other packets)"),
        (pcap(101, []), "it holds no packet of TCP or UDP over IP (0 other packets)"),
    ],
)
def test_wrong_files(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(content)
    with pytest.raises(OutputError) as refused:
        Captured(path)
    assert message in str(refused.value)


def test_a_file_that_was_cut_is_read_up_to_there(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(101, [udp(4, 100)] * 5)[:-20])
    found = Captured(path).found
    assert (found["packets"], found["truncated"]) == (4, True)


def test_the_command_writes_a_scenario_that_runs(command: Callable[..., Result], tmp_path: Path) -> None:
    """The estimate of a path, run again, gives a goodput near that of the first run."""
    chosen = {
        "rate": 10,
        "near": 1,
        "far": 20,
        "queue": 100,
        "loss": 0.004,
        "at": "senders",
        "transport": "reno",
    }
    path = drawn(7) | chosen
    capture, run = captured(tmp_path, path)
    out = tmp_path / "again.toml"
    told = command("from-capture", capture.path, "--out", out)
    assert told.exit_code == 0, told.output
    assert "RTT without queues" in told.stdout
    text = out.read_text()
    assert "between" in text
    assert "bernoulli" in text
    again = lh.run(lh.Scenario.load(out))
    sent, got = run.flows["bytes_delivered"][0], again.flows["bytes_delivered"][0]
    assert got == pytest.approx(sent, rel=0.2)
    assert command("from-capture", capture.path, "--out", out).exit_code == 2
    assert command("from-capture", tmp_path / "none.pcap").exit_code == 2


def test_packets_of_several_interfaces(command: Callable[..., Result], tmp_path: Path) -> None:
    """A capture of all links has each packet on every link: it is refused, one link of it is understood."""
    with pytest.raises(ArgumentError, match="the same packets on the interfaces 0, 2: choose one"):
        captured(tmp_path, drawn(5) | {"at": "links", "duration": 3})
    one = Captured(tmp_path / "capture.pcapng", 2).found
    (flow,) = one["flows"]
    assert flow["packets"][0] > 0
    assert flow["packets"][1] == 0
    assert command("from-capture", tmp_path / "capture.pcapng").exit_code == 2
    assert command("from-capture", tmp_path / "capture.pcapng", "--interface", 2).exit_code == 0


def test_a_million_packets_within_two_seconds(tmp_path: Path) -> None:
    path = tmp_path / "large.pcap"
    frame = bytes(12) + b"\x08\x00" + udp(4, 1000)
    record = struct.pack("<IIII", 5, 0, 60, len(frame)) + frame[:60]
    path.write_bytes(pcap(1, [], snap=60) + record * 1_000_000)
    begun = time.process_time()
    assert Captured(path).found["packets"] == 1_000_000
    assert time.process_time() - begun < 2


REPLAY = """
duration = "30 s"
[topology]
kind = "graph"
nodes = ["a", "b"]
links = [{{ from = "a", to = "b", rate = "100 Mbit/s", delay = "5 ms", queue = "unlimited" }}]
[[flows]]
start = "1 s"
source = "a"
sink = "b"
transport = "{transport}"
traffic = {{ kind = "capture", file = "capture.pcap"{more} }}
"""


def test_a_capture_is_sent_again(tmp_path: Path) -> None:
    """Datagrams leave at their times with their sizes; what is written to TCP arrives whole."""
    sizes = [100, 700, 1000, 3, 400]
    (tmp_path / "capture.pcap").write_bytes(pcap(101, [udp(4, size) for size in sizes]))
    file = tmp_path / "replay.toml"
    file.write_text(REPLAY.format(transport="udp", more=""))
    run = lh.run_seeds(lh.Scenario.load(file), [1], trace=True)[0]
    run.write_pcapng(tmp_path / "again.pcapng", at="a")
    (flow,) = Captured(tmp_path / "again.pcapng").found["flows"]
    assert flow["packets"] == [len(sizes), 0]
    assert flow["payload"] == [sum(sizes), 0]
    assert flow["length_s"] == pytest.approx(0.004, abs=2e-4)
    file.write_text(REPLAY.format(transport="cubic", more=""))
    row = lh.run(lh.Scenario.load(file)).flows
    assert row["bytes_delivered"][0] == sum(sizes)
    # One round trip for the last write, or two where it had to wait for an acknowledgement (Nagle).
    assert 0.013 < row["completion_s"][0] < 0.025


def sent_again(capture: Captured, folder: Path) -> lh.Run:
    """Run what a capture holds, over Reno."""
    capture.path.rename(folder / "capture.pcap")
    file = folder / "replay.toml"
    file.write_text(REPLAY.format(transport="reno", more=""))
    return lh.run(lh.Scenario.load(file))


def test_tcp_that_was_repeated_is_written_once(tmp_path: Path) -> None:
    path = drawn(3) | {"loss": 0.01, "at": "senders", "duration": 5}
    capture, run = captured(tmp_path, path)
    again = sent_again(capture, tmp_path)
    assert run.flows["retransmitted_packets"][0] > 0
    sent = run.flows["bytes_delivered"][0]
    # All that was sent for the first time, which is what arrived and what was still on its way.
    assert sent <= again.flows["bytes_delivered"][0] <= sent * 1.2


def test_what_a_repetition_filled_is_sent_again(tmp_path: Path) -> None:
    """Behind the losses a capture has holes that repetitions fill: all that arrived is written."""
    capture, run = captured(tmp_path, drawn(3) | {"loss": 0.03, "at": "client", "duration": 5})
    again = sent_again(capture, tmp_path)
    assert run.flows["lost_channel_error_packets"][0] > 0
    # The application does not get what lies behind a hole at the end.
    sent = run.flows["bytes_delivered"][0]
    assert sent <= again.flows["bytes_delivered"][0] <= sent * 1.05


def numbered(identification: int, at_us: int) -> bytes:
    """Return a record of pcap with a datagram of IPv4 with this identification."""
    frame = bytearray(udp(4, 160))
    frame[4:6] = identification.to_bytes(2, "big")
    return struct.pack("<IIII", 0, at_us, len(frame), len(frame)) + bytes(frame)


def test_datagrams_of_two_places_in_one_file(command: Callable[..., Result], tmp_path: Path) -> None:
    """Each datagram is there twice, 5 ms apart: neither an estimate nor what is sent again is made of it."""
    records = {number * 20_000 + late: number + 1 for number in range(40) for late in (0, 5_000)}
    path = tmp_path / "capture.pcap"
    path.write_bytes(pcap(101, []) + b"".join(numbered(records[at], at) for at in sorted(records)))
    refused = command("from-capture", path)
    assert refused.exit_code == 2
    assert "has the same packets twice, as of two places in one file" in refused.stderr
    file = tmp_path / "replay.toml"
    file.write_text(REPLAY.format(transport="udp", more=""))
    with pytest.raises(lh.ScenarioError, match="the same packets twice"):
        lh.Scenario.load(file)
    once = {at: number for at, number in records.items() if at % 20_000 == 0}
    path.write_bytes(pcap(101, []) + b"".join(numbered(once[at], at) for at in sorted(once)))
    assert command("from-capture", path).exit_code == 0
    assert lh.run(lh.Scenario.load(file)).flows["packets_sent"][0] == 40


def test_both_ends_in_one_file(tmp_path: Path) -> None:
    """Captures of both ends that were put into a pcap have each segment twice; a pcapng keeps them apart."""
    mergecap = shutil.which("mergecap")
    if mergecap is None:
        pytest.skip("needs mergecap (Debian package wireshark-common)")
    ends = []
    for at in ("server", "client"):
        captured(tmp_path, drawn(4) | {"at": at, "duration": 3})
        ends.append((tmp_path / "capture.pcapng").rename(tmp_path / f"{at}.pcapng"))
    for kind, message in (
        ("pcap", "the same packets twice"),
        ("pcapng", "the same packets on the interfaces"),
    ):
        both = tmp_path / f"both.{kind}"
        subprocess.run([mergecap, "-F", kind, "-w", both, *ends], check=True, capture_output=True)
        with pytest.raises(ArgumentError, match=message):
            Captured(both)
    assert Captured(both, 0).found["packets"] > 0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (", connection = 2", "the capture has no connection 2: it has 1"),
        (', direction = "less"', "this way of the connection carries no payload"),
        (', direction = "up"', "unknown direction"),
    ],
)
def test_wrong_sources(tmp_path: Path, more: str, message: str) -> None:
    (tmp_path / "capture.pcap").write_bytes(pcap(101, [udp(4, 100)]))
    file = tmp_path / "replay.toml"
    file.write_text(REPLAY.format(transport="udp", more=more))
    with pytest.raises(lh.ScenarioError) as refused:
        lh.Scenario.load(file)
    assert message in str(refused.value)
    file.write_text(REPLAY.format(transport="udp", more=""))
    (tmp_path / "capture.pcap").write_text("no capture")
    with pytest.raises(lh.ScenarioError, match="it begins neither as pcap nor as pcapng does"):
        lh.Scenario.load(file)


@pytest.mark.parametrize("at", ["senders", "router"])
@pytest.mark.parametrize("transport", ["newreno", "cubic", "sack"])
def test_outages_are_no_full_queue(tmp_path: Path, transport: str, at: str) -> None:
    """Losses of a link that is down count as such, and the scenario has the outages at their times."""
    path = drawn(7) | {"rate": 4, "loss": 0, "queue": 60, "transport": transport, "timestamps": "false"}
    handoff = 'handoff = { at = ["4 s", "9 s"], outage = "1 s" }\n'
    text = PATH.format(**path).replace("error = {", f"{handoff}error = {{", 1)
    file = tmp_path / "path.toml"
    file.write_text(text)
    run = lh.run_seeds(lh.Scenario.load(file), [1], trace=True)[0]
    run.write_pcapng(tmp_path / "capture.pcapng", at=at)
    capture = Captured(tmp_path / "capture.pcapng")
    found = capture.found["path"]
    down = run.links["dropped_outage_packets"].sum()
    assert len(found["outages"]) == 2
    for one, begin in zip(found["outages"], (4, 9), strict=True):
        # At the sender it seems to begin earlier, by what waits in the queue: 61 packets take 0.2 s.
        assert begin - 0.2 < one["at_s"] < begin + 0.1
        assert one["low_s"] <= 1.1
        assert one["high_s"] >= 0.9
    # What is lost in an outage is mostly seen as such, and nothing else is.
    assert 0.7 * down < found["lost_in_outages"] <= down
    out = tmp_path / "again.toml"
    out.write_text(capture.scenario())
    again = lh.run(lh.Scenario.load(out))
    assert again.links["dropped_outage_packets"].sum() > 0


def test_a_capture_of_one_direction_says_so(command: Callable[..., Result], tmp_path: Path) -> None:
    """Every figure was '-' without a word, and the scenario of ACKs alone had no flow and was refused."""
    with pytest.raises(ArgumentError):
        captured(tmp_path, drawn(5) | {"at": "links", "duration": 3})
    words = ("from-capture", tmp_path / "capture.pcapng", "--out", tmp_path / "path.toml")
    data, acks = (command(*words, "--interface", number, "--force") for number in (2, 3))
    assert "no acknowledgements are in the capture: take one where both directions pass" in data.stdout
    assert data.exit_code == 0
    assert "no data are in the capture" in acks.stdout
    assert "has no packet with data" in acks.stderr
    assert acks.exit_code == 2
    assert command("from-capture", tmp_path / "capture.pcapng", "--interface", 3).exit_code == 0
