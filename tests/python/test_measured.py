"""Results of iperf3 and flent beside those of a scenario."""

from __future__ import annotations

import bz2
import gzip
import json
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from lasthop.errors import OutputError
from lasthop.measured import LONGEST_FILE, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from typer.testing import Result


def iperf3(**end: Any) -> dict[str, Any]:
    """Return what ``iperf3 --json`` writes of one stream over two seconds, the first omitted."""

    def interval(second: int, rate: float, rtt: int, *, omitted: bool) -> dict[str, Any]:
        stream = {
            "socket": 5,
            "end": second + 1.0,
            "bits_per_second": rate,
            "snd_cwnd": 14480,
            "rtt": rtt,
            "omitted": omitted,
        }
        return {"streams": [stream], "sum": {"bits_per_second": rate, "omitted": omitted}}

    sums = {
        "sum_sent": {"bits_per_second": 9e6, "retransmits": 12},
        "sum_received": {"bits_per_second": 8.5e6},
    }
    return {
        "start": {"tcp_mss_default": 1448},
        "intervals": [interval(0, 5e6, 90_000, omitted=True), interval(1, 9e6, 40_000, omitted=False)],
        "end": sums | end,
    }


def flent() -> dict[str, Any]:
    """Return what flent writes of a download and an upload beside a ping, by the names in its own files."""
    units = {
        "TCP download": "Mbits/s",
        "TCP upload": "Mbits/s",
        "Ping (ms) ICMP": "ms",
        "HTTP latency": "ms",
        "TCP totals": "Mbits/s",
        "TCP upload fairness": "Mbits/s",
    }
    late = {"RUNNER": "DiffRunner", "COMPUTED_LATE": False, "UNITS": "Mbits/s", "MEAN_VALUE": 8.0}
    described = {name: {"UNITS": unit} for name, unit in units.items()}
    return {
        "version": 4,
        "metadata": {"SERIES_META": {**described, "TCP difference": late}},
        "x_values": [0.2, 0.4, 0.6],
        "results": {
            "TCP download": [None, 20.0, 10.0],
            "TCP upload": [4.0, 2.0, None],
            "Ping (ms) ICMP": [30.0, None, 50.0],
            "HTTP latency": [900.0, 900.0, 900.0],
            "TCP totals": [4.0, 22.0, 10.0],
            "TCP upload fairness": [0.5, 1.0, 1.0],
            "TCP difference": [None, 18.0, None],
            "TCP download::tcp_cwnd": [1.0, 2.0, 3.0],
        },
        "raw_values": {},
    }


def test_iperf3(tmp_path: Path) -> None:
    file = tmp_path / "iperf.json"
    file.write_text(json.dumps(iperf3()))
    measured = read(file)
    assert measured.figures == {
        "goodput_bit_s": 8.5e6,
        "rtt_mean_s": 0.04,
        "rtt_p95_s": 0.04,
        "retransmitted_packets": 12.0,
    }
    assert measured.windows == [(2.0, 10.0)]
    sent = {"sum": {"bits_per_second": 1e6, "packets": 200, "lost_packets": 3, "jitter_ms": 0.5}}
    content = iperf3(**sent)
    del content["end"]["sum_received"]
    file.write_text(json.dumps(content))
    figures = read(file).figures
    assert (figures["goodput_bit_s"], figures["lost_share"], figures["jitter_s"]) == (1e6, 0.015, 0.0005)


def test_flent(tmp_path: Path) -> None:
    file = tmp_path / "rrul.flent.gz"
    file.write_bytes(gzip.compress(json.dumps(flent()).encode()))
    measured = read(file)
    assert measured.figures["goodput_bit_s"] == pytest.approx(18e6)
    assert measured.figures["rtt_mean_s"] == pytest.approx(0.04)
    assert [series.name for series in measured.series] == ["TCP download", "TCP upload", "Ping (ms) ICMP"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "of neither iperf3 (--json) nor flent"),
        ("[1]", "of neither iperf3 (--json) nor flent"),
        ("nonsense", "not valid JSON"),
        (json.dumps(iperf3() | {"error": "unable to connect"}), "iperf3 says 'unable to connect'"),
        (json.dumps(iperf3() | {"end": {}}), "damaged, or of another version"),
        (json.dumps(flent() | {"results": {}}), "holds no rate and no round trip"),
        (json.dumps(flent() | {"x_values": [1]}), "damaged, or of another version"),
        (json.dumps(iperf3(sum_received={"bits_per_second": -5})), "-5.0 is less than anything can be"),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "file.json"
    file.write_text(text)
    with pytest.raises(OutputError) as refused:
        read(file)
    assert message in str(refused.value)


def test_both_ways_of_datagrams_count(tmp_path: Path) -> None:
    """With --bidir each way has sums of its own: 1 and 3 lost of 100 and 300, jitter of 1 and 3 ms."""
    one = {"bits_per_second": 1e6, "packets": 100, "lost_packets": 1, "jitter_ms": 1.0}
    other = {"bits_per_second": 2e6, "packets": 300, "lost_packets": 3, "jitter_ms": 3.0}
    sums = {"sum": one, "sum_bidir_reverse": other}
    sums |= {"sum_received": one, "sum_received_bidir_reverse": other}
    file = tmp_path / "iperf.json"
    file.write_text(json.dumps(iperf3(**sums)))
    figures = read(file).figures
    assert (figures["goodput_bit_s"], figures["lost_share"], figures["jitter_s"]) == (3e6, 0.01, 0.002)


def test_a_server_that_sends_is_not_told_what_arrived(tmp_path: Path) -> None:
    """It writes 0 then, of one way or of both; that is no goodput."""
    nothing = {"bits_per_second": 0}
    for key in ("sum_received", "sum_received_bidir_reverse"):
        sent = {"sum_sent_bidir_reverse": {"bits_per_second": 9e6}}
        file = tmp_path / "server.json"
        file.write_text(json.dumps(iperf3(**sent, **{key: nothing})))
        figures = read(file).figures
        assert "goodput_bit_s" not in figures
        assert figures["rtt_mean_s"] == pytest.approx(0.04)


@pytest.mark.parametrize(("pack", "name"), [(gzip.compress, "a.flent.gz"), (bz2.compress, "a.flent.bz2")])
def test_packed_files(tmp_path: Path, pack: Callable[[bytes], bytes], name: str) -> None:
    """Both of flent's own packings; a file that was cut is named so, and one that unpacks to too much."""
    path = tmp_path / name
    whole = pack(json.dumps(flent()).encode())
    path.write_bytes(whole)
    assert read(path).figures["goodput_bit_s"] == pytest.approx(18e6)
    for content, message in ((whole[:-20], "not valid JSON"), (pack(b" " * (LONGEST_FILE + 9)), "more than")):
        path.write_bytes(content)
        with pytest.raises(OutputError, match=message):
            read(path)


def test_events_line_by_line(tmp_path: Path) -> None:
    """What iperf3 --json-stream writes says the same; one that was cut, or that failed, says so."""
    whole = iperf3()
    events = [("start", whole["start"]), *(("interval", one) for one in whole["intervals"])]
    lines = [json.dumps({"event": name, "data": data}) for name, data in [*events, ("end", whole["end"])]]
    path = tmp_path / "stream.json"
    path.write_text("\n".join(lines) + "\n")
    assert read(path).figures["goodput_bit_s"] == 8.5e6
    assert read(path).windows == [(2.0, 10.0)]
    failed = json.dumps({"event": "error", "data": "unable to connect"})
    for text, message in (
        ("\n".join(lines[:-1]), "was cut off: it has no end"),
        ("\n".join(lines * 2), "holds several measurements"),
        (json.dumps(whole) * 2, "holds several measurements"),
        (failed, "iperf3 says 'unable to connect'"),
        ("\n".join(lines)[:-5], "not valid JSON"),
        ("[ ID] Interval Transfer Bitrate", "measure with iperf3 --json"),
    ):
        path.write_text(text)
        with pytest.raises(OutputError, match=message):
            read(path)


def test_a_large_wrong_file_is_refused_at_once(tmp_path: Path) -> None:
    """As large as may be read, with a mistake at the end; and one byte more, which is not read."""
    path = tmp_path / "large.json"
    piece = '{"a": 1.25, "b": [1,2,3]},'
    text = '{"start": [' + piece * (LONGEST_FILE // len(piece) + 1)
    path.write_text(text[:LONGEST_FILE])
    begun = time.process_time()
    with pytest.raises(OutputError, match="not valid JSON"):
        read(path)
    # An idle machine needs a second; other work may slow this one down.
    assert time.process_time() - begun < 10
    path.write_text(text[: LONGEST_FILE + 1])
    with pytest.raises(OutputError, match="measure with longer intervals"):
        read(path)


def test_beside_runs_and_comparisons(
    command: Callable[..., Result], scenario_file: Path, tmp_path: Path
) -> None:
    files = [tmp_path / "iperf.json", tmp_path / "rrul.flent"]
    for file, content in zip(files, (iperf3(), flent()), strict=True):
        file.write_text(json.dumps(content))
    beside = [word for file in files for word in ("--beside", file)]
    out = tmp_path / "run"
    assert command("run", scenario_file, "--series", "--out", out).exit_code == 0
    shown = command("show", out, *beside)
    assert shown.exit_code == 0, shown.output
    for text in ("beside what was measured", "goodput, all flows", "8.50", "18.0", "RTT, mean", "40.0"):
        assert text in shown.stdout
    drawn = command("plot", out, *beside, "--out", tmp_path / "both.png")
    assert drawn.exit_code == 0, drawn.output
    assert (tmp_path / "both.png").stat().st_size > 10_000
    compared = command("compare", scenario_file, "--transport", "reno,cubic", "--seeds", "1-2", *beside)
    assert "beside what was measured" in compared.stdout
    assert command("plot", scenario_file, *beside).exit_code == 2
    assert command("show", out, "--beside", tmp_path / "none.json").exit_code == 2


IPERF3 = shutil.which("iperf3") or ""
needs_iperf3 = pytest.mark.skipif(not IPERF3, reason="needs iperf3 (Debian package iperf3)")


@contextmanager
def iperf3_server(log: Path) -> Iterator[str]:
    """Serve one test of iperf3 at the port that is given; its file is whole when this ends."""
    port = str(20_000 + hash(str(log)) % 20_000)
    server = subprocess.Popen([IPERF3, "-s", "-1", "-p", port, "--json", "--logfile", str(log)])
    try:
        time.sleep(0.5)
        yield port
        server.wait(timeout=10)
    finally:
        server.kill()
        server.wait()


@needs_iperf3
@pytest.mark.parametrize("more", [[], ["-R"]])
def test_files_that_iperf3_wrote(tmp_path: Path, more: list[str]) -> None:
    """Of the client, and of the server, which is told what it received and not what the client did."""
    log, file = tmp_path / "server.json", tmp_path / "iperf.json"
    with iperf3_server(log) as port:
        sent = [IPERF3, "-c", "127.0.0.1", "-p", port, "-t", "1", "-b", "20M", "--json", *more]
        text = subprocess.run(sent, capture_output=True, text=True, timeout=30, check=True).stdout
    file.write_text(text)
    figures, of_server = read(file).figures, read(log).figures
    assert figures["goodput_bit_s"] == pytest.approx(20e6, rel=0.2)
    if more:
        assert "goodput_bit_s" not in of_server
        assert of_server["rtt_mean_s"] > 0
    else:
        assert of_server["goodput_bit_s"] == pytest.approx(20e6, rel=0.2)
        assert figures["rtt_mean_s"] > 0


@needs_iperf3
@pytest.mark.parametrize("more", [[], ["-R"]])
def test_a_measurement_that_was_interrupted_has_results(tmp_path: Path, more: list[str]) -> None:
    """A client that received knows what arrived; one that sent writes 0, which is not what arrived."""
    file = tmp_path / "cut.json"
    with iperf3_server(tmp_path / "server.json") as port, file.open("w") as written:
        command = [IPERF3, "-c", "127.0.0.1", "-p", port, "-t", "60", "-i", "0.2", "-b", "20M", "--json"]
        client = subprocess.Popen([*command, *more], stdout=written)
        time.sleep(2)
        client.send_signal(signal.SIGINT)
        client.wait(timeout=30)
    measured = read(file)
    assert measured.label == "cut.json, interrupted"
    assert len(measured.series[0].values) > 2
    assert ("goodput_bit_s" in measured.figures) == bool(more)
