"""Runs another program to its end and says what it cost. Called by `validation.ns2` and `bench/run.py`."""

from __future__ import annotations

import contextlib
import resource
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: How often the memory of the running program is read.
_POLL_S = 0.005


class ProcessError(Exception):
    """The program stopped with an error or took too long."""


@dataclass(frozen=True)
class Resources:
    """What a run cost, as the operating system saw it."""

    wall_s: float
    cpu_s: float
    max_rss_kib: int


def run(command: Sequence[str], timeout_s: float = 600.0) -> tuple[str, Resources]:
    """Run `command`; returns what it printed and what it cost.

    The CPU time is that of all children that ended meanwhile, so nothing else may run beside a timed program.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "output")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.perf_counter()
        with output.open("w") as stream:
            process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, cwd=folder)
            rss = _wait(process, timeout_s)
        wall = time.perf_counter() - started
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        text = output.read_text()
    if process.returncode != 0:
        last = "\n".join(text.splitlines()[-20:])
        raise ProcessError(f"{command[0]} ended with status {process.returncode}:\n{last}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return text, Resources(wall, cpu, rss)


def _wait(process: subprocess.Popen[bytes], timeout_s: float) -> int:
    """Wait for `process` and return its peak resident memory in KiB.

    It is read while the process runs: the figure in its resource usage is at least that of its parent.
    """
    status = Path(f"/proc/{process.pid}/status")
    deadline = time.monotonic() + timeout_s
    peak = 0
    while process.poll() is None:
        with contextlib.suppress(OSError):
            for line in status.read_text().splitlines():
                if line.startswith("VmHWM:"):
                    peak = int(line.split()[1])
        if time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise ProcessError(f"{process.args!r} took longer than {timeout_s:g} s")
        time.sleep(_POLL_S)
    return peak
