"""What tests of real packets share: paths, runs repeated on a busy machine, captures read by tshark."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import lasthop as lh
from lasthop import live

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path


#: How late 1 % of the packets may be in these runs: none of what is asserted depends on less.
BUDGET_S = 0.01
TRIES = 3

_lacking = "; ".join(f"{need.what}: {need.text}, {need.remedy}" for need in live.lacking())
needs_kernel = pytest.mark.skipif(bool(_lacking), reason=f"no real packets here: {_lacking}")


def path(
    rate: str,
    delay: str = "20 ms",
    *,
    duration: str = "6 s",
    flow: Mapping[str, Any] | None = None,
    **last: Any,
) -> lh.Scenario:
    """Return a wired link and a last hop with one flow over them."""
    last = {"queue": {"kind": "drop-tail", "limit": "60 packets"}, **last}
    return lh.Scenario(
        {
            "name": "path",
            "duration": duration,
            "warmup": "2 s",
            "topology": {
                "kind": "graph",
                "nodes": ["server", "base", "phone"],
                "links": [
                    {"from": "server", "to": "base", "rate": "200 Mbit/s", "delay": "5 ms"},
                    {"from": "base", "to": "phone", "rate": rate, "delay": delay, **last},
                ],
            },
            "flows": [
                {
                    "name": "download",
                    "source": "server",
                    "sink": "phone",
                    "transport": "cubic",
                    "traffic": {"kind": "ftp"},
                    **(flow or {}),
                }
            ],
        }
    )


def emulated(scenario: lh.Scenario, *arguments: Any, **options: Any) -> lh.Run:
    """Run, again if the machine was too busy; skip if it always is."""
    reasons: list[str] = []
    for _ in range(TRIES):
        run = live.emulate(scenario, *arguments, budget_s=BUDGET_S, **options)
        reasons = run.record["live"]["invalid_because"]
        if not reasons:
            return run
    pytest.skip(f"the machine is too busy for real time: {'; '.join(reasons)}")


def side_by_side(*runs: Callable[[], lh.Run]) -> list[lh.Run]:
    """Return runs that went on at the same time: each takes a few percent of a processor, and real time."""
    with ThreadPoolExecutor(len(runs)) as pool:
        return [future.result() for future in [pool.submit(run) for run in runs]]


def run_command(*arguments: object) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "lasthop", "emulate", "--budget", "20", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


def scenario_file(folder: Path, scenario: lh.Scenario) -> Path:
    file = folder / "path.json"
    file.write_text(json.dumps(scenario.to_dict()), encoding="utf-8")
    return file


#: Fields that are no numbers, or not always.
TEXT = ("ip.src", "tcp.payload", "tcp.flags.syn", "_ws.malformed")


def read_capture(file: Path, *fields: str, text: Sequence[str] = ()) -> pl.DataFrame:
    """Return fields of each packet, as tshark reads them."""
    words = ["tshark", "-r", str(file), "-T", "fields", "-E", "header=y", "-E", "separator=;"]
    # Of an ICMP message its own header, and not that of the packet that it is about.
    words += [
        "-E",
        "occurrence=f",
        "-o",
        "tcp.relative_sequence_numbers:FALSE",
        "-o",
        "tcp.check_checksum:TRUE",
    ]
    done = subprocess.run(
        [*words, *(word for field in fields for word in ("-e", field))], capture_output=True, check=True
    )
    return pl.read_csv(
        done.stdout,
        separator=";",
        infer_schema_length=None,
        schema_overrides={name: pl.String for name in fields if name in {*TEXT, *text}},
    )


needs_tshark = pytest.mark.skipif(
    shutil.which("tshark") is None, reason="tshark is not installed (Debian package tshark)"
)


def until(holds: Callable[[], bool]) -> None:
    asked = time.monotonic()
    while not holds():
        assert time.monotonic() - asked < 20, "it never came"
        time.sleep(0.02)
