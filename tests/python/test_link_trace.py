"""Recordings of links: what `lasthop trace` understands, converts and refuses, and what runs make of them."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

import lasthop as lh
from lasthop.errors import ArgumentError, OutputError
from lasthop.link_trace import LinkTrace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from typer.testing import Result

#: 4 Mbit/s for 0.1 s, 2 for 1.1 s, none for 1.2 s, 0.5 for 1.1 s.
BUS = "0.1\t4.0\n1.2\t2.0\n2.4\t0\n3.5\t0.5\n"
CELL = (
    "Timestamp,Longitude,DL_bitrate,UL_bitrate,State\n2019.11.25_15.34.34,-8.4,900,30,D\n"
    "2019.11.25_15.34.35,-8.4,1100,30,D\n2019.11.25_15.34.40,-,500,10,I\n"
)
LOG = (
    "# mahimahi mm-link (uplink) [a] > b\n# base timestamp: 20\n21 # 1504\n21 + 1500\n24 # 1504\n30 # 1504\n"
)
SCENARIO = """
duration = "7 s"
[topology]
kind = "graph"
nodes = ["a", "b"]
links = [{{ from = "a", to = "b", delay = "1 ms", queue = "unlimited", trace = {trace},
            reverse = {{ rate = "10 Mbit/s" }} }}]
[[flows]]
transport = "udp"
start = "0 s"
source = "a"
sink = "b"
traffic = {{ kind = "cbr", rate = "10 Mbit/s", packet = "472 B" }}
"""


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def carried_bits(path: Path, trace: str) -> float:
    """Return what a link with this trace carries in 7 s."""
    scenario = lh.Scenario.load(written(path.parent, "path.toml", SCENARIO.format(trace=trace)))
    return float(lh.run(scenario).flows["bytes_delivered"][0] * 8 * 500 / 472)


@pytest.mark.parametrize(
    ("text", "kind", "length_s", "mean"),
    [
        (BUS, "rates", 3.5, 3.15e6 / 3.5),
        (CELL, "rates", 11.0, (5 * 0.9e6 + 1.1e6 + 5 * 0.5e6) / 11.0),
        (LOG, "mahimahi", 0.01, 3 * 8 * 1504 / 0.01),
        ("0\n5\n5\n10\n", "mahimahi", 0.01, 4.8e6),
        ("time_ms,rate_kbit_s\n0,100\n500,300\n1000,300\n", "csv", 1.0, 200e3),
        ("3.5,Mbits/sec\n500,Kbits/sec\n", "rates", 2.0, 2e6),
        ("1289406399 549692 59.8 10.7 248069 1008\n", "rates", 1.008, 248069 * 8 / 1.008),
    ],
)
def test_layouts(tmp_path: Path, text: str, kind: str, length_s: float, mean: float) -> None:
    trace = LinkTrace(written(tmp_path, "file.txt", text))
    assert trace.summary["kind"] == kind
    assert trace.summary["length_s"] == pytest.approx(length_s)
    assert trace.summary["mean_rate_bit_s"] == pytest.approx(mean, rel=1e-6)
    assert kind in trace.line()


def test_a_run_carries_what_the_file_says(tmp_path: Path) -> None:
    """Two rounds of 3.15 Mbit; as converted, the same within two packets; a pause at the beginning is one."""
    path = written(tmp_path, "bus.txt", BUS)
    assert carried_bits(path, '{ kind = "rates", file = "bus.txt" }') == pytest.approx(6.3e6, abs=8000)
    for target, kind in (("csv", "csv"), ("pensieve", "rates"), ("mahimahi", "mahimahi")):
        written(tmp_path, "other", LinkTrace(path).convert(target))
        said = f'{{ kind = "{kind}", file = "other", repeat = true }}'
        assert carried_bits(path, said) == pytest.approx(6.3e6, abs=5 * 12_000), target
    written(tmp_path, "late", "1 0\n2 1.0\n7 0\n")
    assert carried_bits(path, '{ kind = "rates", file = "late" }') == pytest.approx(1e6, abs=8000)


def test_the_command(command: Callable[..., Result], tmp_path: Path) -> None:
    path = written(tmp_path, "cell.csv", CELL)
    down = command("trace", path)
    assert "Irish 4G and 5G" in down.stdout
    assert 'trace = { kind = "rates", file = "cell.csv" }' in down.stdout
    up = command("trace", path, "--direction", "up", "--json")
    assert json.loads(up.stdout)["mean_rate_bit_s"] == pytest.approx(30e3 * 6 / 11 + 10e3 * 5 / 11)
    out = tmp_path / "cell.down"
    assert command("trace", path, "--to", "mahimahi", "--out", out).exit_code == 0
    assert LinkTrace(out).summary["mean_rate_bit_s"] == pytest.approx(8.1e6 / 11, abs=12_000 / 11)
    again = command("trace", path, "--to", "csv", "--out", out)
    assert again.exit_code == 2
    assert "--force" in again.stderr
    both = written(tmp_path, "both.csv", "time_s,rate_bit_s,delay_ms\n0,1e6,10\n1,1e6,10\n")
    assert "pensieve has no delay" in command("trace", both, "--to", "pensieve").stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0.1 4\n0.05 2\n", "file.txt:2:1"),
        ("0.1 4\n0.2 x\n", 'no number: "x"'),
        ("a b c\n", "no layout of rates begins like this"),
        ("", "the trace is empty"),
        ("1\n2\n1.5\n", "file.txt:3:1"),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(OutputError, match="error: the trace: ") as refused:
        LinkTrace(written(tmp_path, "file.txt", text))
    assert message in str(refused.value)


def test_what_cannot_be_converted(tmp_path: Path) -> None:
    delays = LinkTrace(written(tmp_path, "d.csv", "time_s,delay_ms\n0,10\n1,20\n"))
    with pytest.raises(ArgumentError, match="the trace has no rates"):
        delays.convert("mahimahi")
    with pytest.raises(OutputError, match="there is no such file"):
        LinkTrace(tmp_path / "none")
    with pytest.raises(OutputError, match="not a regular file"):
        LinkTrace(tmp_path)


def test_a_conversion_is_no_longer_than_what_can_be_read(tmp_path: Path) -> None:
    """Found by a search for inputs: nine bytes became 353 MB, of which 256 MiB are read at most."""
    fast = LinkTrace(written(tmp_path, "fast.txt", "2486\t226"))
    with pytest.raises(ArgumentError, match="more than 33 million lines"):
        fast.convert("mahimahi")


@pytest.mark.parametrize("line", ["0.5 1.5\n", "7\n"])
def test_a_large_wrong_file_is_refused_at_once(tmp_path: Path, line: str) -> None:
    """A mistake at the end of 200 MB is found within two seconds, as is a file that is too long."""
    path = tmp_path / "large"
    with path.open("w") as file:
        for _ in range(100):
            file.write(line * (2_000_000 // len(line)))
        file.write("x\n")
    begun = time.process_time()
    with pytest.raises(OutputError):
        LinkTrace(path)
    # An idle machine needs a second; other work may slow this one down.
    assert time.process_time() - begun < 10
