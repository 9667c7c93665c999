"""qlog of TCP: what stands in it is what the trace and the tables of the run say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import lasthop as lh
from lasthop.places import qlog_file
from lasthop.qlog import flows_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from typer.testing import Result

#: 10 Mbit/s, 20 ms, a queue of 20 packets; one packet of data in a hundred is lost.
LOSSY: dict[str, Any] = {
    "duration": "20 s",
    "topology": {
        "kind": "graph",
        "nodes": ["server", "phone"],
        "links": [
            {
                "from": "server",
                "to": "phone",
                "rate": "10 Mbit/s",
                "delay": "20 ms",
                "queue": {"kind": "drop-tail", "limit": "20 packets"},
                "error": {"kind": "bernoulli", "packet_error_rate": 0.01},
                "reverse": {"error": "none"},
            }
        ],
    },
    "flows": [{"name": "down", "source": "server", "sink": "phone", "transport": "sack"}],
}


def records_of(path: Path) -> list[dict[str, Any]]:
    """Read JSON-SEQ (RFC 7464): a record separator before each text, a line feed behind it."""
    text = path.read_text(encoding="utf-8")
    assert text.startswith("\x1e")
    parts = text.split("\x1e")[1:]
    assert all(part.endswith("\n") for part in parts)
    return [json.loads(part) for part in parts]


@pytest.fixture(scope="module")
def run() -> lh.Run:
    return lh.run(LOSSY, seed=3, trace=True)


@pytest.fixture(scope="module")
def records(run: lh.Run, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    path = tmp_path_factory.mktemp("qlog") / "down.sqlog"
    run.write_qlog(path)
    return records_of(path)


def of(records: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Return the data of all events of this name."""
    return [one["data"] for one in records[1:] if one["name"] == name]


def test_the_head_says_what_it_is(records: list[dict[str, Any]]) -> None:
    head = records[0]
    assert head["qlog_version"] == "0.3"
    assert head["qlog_format"] == "JSON-SEQ"
    assert head["title"] == "down (sack), seed 3"
    assert head["trace"]["common_fields"]["time_format"] == "relative"
    times = [one["time"] for one in records[1:]]
    assert times == sorted(times)
    assert times[-1] <= 20_000


def test_every_packet_has_its_event(run: lh.Run, records: list[dict[str, Any]]) -> None:
    hops = run.hops
    sent = of(records, "transport:packet_sent")
    assert [one["header"]["packet_number"] for one in sent] == list(range(len(sent)))
    leaving = hops.filter(pl.col("kind").is_in(["syn", "data", "fin"]))
    assert [one["raw"]["length"] for one in sent] == leaving["wire_bytes"].to_list()
    received = of(records, "transport:packet_received")
    coming = hops.filter(pl.col("kind").is_in(["syn-ack", "ack"]) & (pl.col("outcome") == "delivered"))
    assert len(received) == len(coming)
    lost = of(records, "recovery:packet_lost")
    assert len(lost) == hops.filter(pl.col("retransmission") & (pl.col("kind") == "data")).height > 30


def test_what_is_acknowledged_was_sent_and_is_so_once(records: list[dict[str, Any]]) -> None:
    flight: dict[int, int] = {}
    for one in records[1:]:
        data = one["data"]
        if one["name"] == "transport:packet_sent":
            flight[data["header"]["packet_number"]] = data["raw"]["payload_length"]
        elif one["name"] == "recovery:packet_lost":
            flight.pop(data["header"]["packet_number"])
        elif one["name"] == "transport:packet_received":
            for frame in data["frames"]:
                for first, last in frame.get("acked_ranges", []):
                    for number in range(first, last + 1):
                        flight.pop(number)
        else:
            assert data["bytes_in_flight"] == sum(flight.values())
    # What is left was under way at the end: at most a full queue and a link of 40 ms.
    assert sum(map(bool, flight.values())) < 70


def test_windows_and_round_trips_are_those_of_the_run(run: lh.Run, records: list[dict[str, Any]]) -> None:
    metrics = of(records, "recovery:metrics_updated")
    windows = [one["congestion_window"] for one in metrics if "congestion_window" in one]
    # 1448 bytes in a segment: 1500 less the headers of IP and TCP with timestamps.
    assert windows == (run.windows["cwnd_segments"] * 1448).cast(pl.Int64).to_list()
    measured = [one["latest_rtt"] for one in metrics if "latest_rtt" in one]
    # 20 ms each way, 1500 bytes and an ACK at 10 Mbit/s; 20 packets wait at most.
    assert 41.2 < min(measured) < 42
    assert max(measured) < 40 + 22 * 1.2 + 100
    assert measured[-1] >= min(measured) == metrics[-1].get("min_rtt", min(measured))


def test_the_command_writes_one_for_each_flow(command: Callable[..., Result], tmp_path: Path) -> None:
    scenario = tmp_path / "lossy.json"
    two = LOSSY | {"duration": "2 s", "flows": [LOSSY["flows"][0], LOSSY["flows"][0] | {"name": "a/b"}]}
    scenario.write_text(json.dumps(two))
    out = tmp_path / "out"
    assert command("run", scenario, "--qlog", "--out", out, "--seeds", "1-2").exit_code == 0
    names = [qlog_file(flow, seed) for seed in (1, 2) for flow in ("down", "a/b")]
    assert sorted(path.name for path in out.glob("*.sqlog")) == sorted(names)
    assert len(records_of(out / "qlog-2-of-a%2Fb.sqlog")) > 100
    # From the folder again, and a run without them in its place.
    again = lh.load_runs(out)[1]
    again.write_qlog(tmp_path / "again.sqlog", "a/b")
    assert (tmp_path / "again.sqlog").read_bytes() == (out / "qlog-2-of-a%2Fb.sqlog").read_bytes()
    assert command("run", scenario, "--out", out, "--force").exit_code == 0
    assert list(out.glob("*.sqlog")) == []


def test_mistakes_are_answered(run: lh.Run, refused: Callable[..., str], tmp_path: Path) -> None:
    scenario = tmp_path / "lossy.json"
    scenario.write_text(json.dumps(LOSSY))
    assert refused("run", scenario, "--qlog") == ("error: --qlog writes files: say where with --out DIR\n")
    with pytest.raises(lh.ArgumentError, match="no flow 'up' sends TCP or kept the log of its stack: name"):
        run.write_qlog(tmp_path / "up.sqlog", "up")
    with pytest.raises(lh.ArgumentError, match="run it with --trace"):
        lh.run(LOSSY | {"duration": "1 s"}).write_qlog(tmp_path / "none.sqlog")
    udp = LOSSY | {"duration": "1 s", "flows": [LOSSY["flows"][0] | {"transport": "udp"}]}
    cbr = udp["flows"][0] | {"traffic": {"kind": "cbr", "rate": "1 Mbit/s", "packet": "1000 B"}}
    alone = lh.run(udp | {"flows": [cbr]}, trace=True)
    assert flows_of(alone) == []
    with pytest.raises(lh.ArgumentError, match="no flow of this run sends TCP"):
        alone.write_qlog(tmp_path / "none.sqlog")
