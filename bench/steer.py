"""What steering costs: `python -m bench.steer [--seconds N]`. Called by `make bench-live`.

Kernel sockets over an emulated link, with controllers of this package deciding in a process of their own; and
a thousand connections at once over a loopback. Writes `bench/STEER.md`; needs what `lasthop steer` needs.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime as dt
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.live import WIDTH, scenario

from lasthop import live, steer

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "STEER.md"
LAWS = ("reno", "cubic", "veno", "bbr")
RATES = (10, 100)
#: Lateness is no matter here.
BUDGET_S = 0.1
CONNECTIONS = 1000
HEADINGS = (
    "Mbit/s",
    "law",
    "goodput (Mbit/s)",
    "decided (us)",
    "in the kernel (ns)",
    "process",
    "ACKs",
    "records",
    "missed",
    "load",
)
SYS_BPF = {"x86_64": 321, "aarch64": 280}
ENABLE_STATS = 32

#: Opens a number of connections to itself and sends a little over each, for a number of seconds.
CROWD = """
import resource, selectors, socket, sys, time
count, seconds = int(sys.argv[1]), float(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (4 * count, 4 * count))
server = socket.create_server(("127.0.0.1", 0), backlog=4096)
pairs = []
for _ in range(count):
    source = socket.create_connection(server.getsockname())
    pairs.append((source, server.accept()[0]))
end = time.monotonic() + seconds
while time.monotonic() < end:
    for source, sink in pairs:
        source.send(bytes(20000))
        sink.recv(1 << 20)
    time.sleep(0.01)
"""


@contextmanager
def counted() -> Iterator[None]:
    """Let the kernel count what BPF programs take, for as long as this lasts."""
    attributes = (ctypes.c_uint32 * 16)()
    number = SYS_BPF[platform.machine()]
    descriptor = ctypes.CDLL(None, use_errno=True).syscall(
        number, ENABLE_STATS, ctypes.byref(attributes), ctypes.sizeof(attributes)
    )
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "the kernel does not count what BPF programs take")
    try:
        yield
    finally:
        os.close(descriptor)


def per_call() -> float | None:
    """Return the nanoseconds of a call for an ACK, over all sessions."""
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])
    words = [shutil.which("bpftool", path=path) or "bpftool", "-j", "prog", "show"]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    found = [one for one in json.loads(text) if one.get("name") == "lh_cong_control"]
    calls = sum(one.get("run_cnt", 0) for one in found)
    return sum(one.get("run_time_ns", 0) for one in found) / calls if calls else None


def processor_s(process: int) -> float:
    """Return the processor time that a process has taken."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(law: str, rate: int, seconds: float) -> dict[str, Any]:
    """Steer one flow by a process of its own."""
    with tempfile.TemporaryDirectory() as folder, counted():
        told = Path(folder) / "session.json"
        words = [sys.executable, "-m", "lasthop", "steer", "--cc", law, "--json", str(told)]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            name = next(line for line in process.stderr if " decides" in line).split(":")[-2].strip()
            before, began = processor_s(process.pid), time.monotonic()
            run = live.emulate(scenario(rate, seconds), kernel=name, budget_s=BUDGET_S)
            share = (processor_s(process.pid) - before) / (time.monotonic() - began)
            in_kernel = per_call()
            process.send_signal(signal.SIGTERM)
            process.stderr.read()
        session = json.loads(told.read_text(encoding="utf-8"))
    return {
        "goodput_bit_s": run.totals["goodput_bit_s"],
        "in_kernel_ns": in_kernel,
        "share": share,
        "session": session,
        "load": os.getloadavg()[0],
    }


def crowd(count: int, seconds: float) -> steer.Session:
    """Steer this many connections at once."""
    words = [sys.executable, "-c", CROWD, str(count), f"{seconds:g}"]
    done = steer.steer("reno", words)
    if done.status or not isinstance(done.session, steer.Session):
        raise RuntimeError(f"the crowd ended with status {done.status}")
    return done.session


def parts_of(found: list[dict[str, Any]]) -> str:
    """Return what a call in the kernel takes by itself, and what waking the process takes, from all runs."""
    known = [one for one in found if one["in_kernel_ns"] is not None]
    sessions = [one["session"] for one in known]
    shares = [one["records"] / (one["applied"] + one["on_its_own"]) for one in sessions]
    fit = statistics.linear_regression(shares, [one["in_kernel_ns"] for one in known])
    return (
        f"Over all {len(known)} runs a call takes {fit.intercept:.0f} ns, and {fit.slope / 1e3:.1f} us more "
        "when it tells the process something (least squares, calls by the share that tell)."
    )


def row(law: str, rate: int, found: dict[str, Any]) -> str:
    """Return a line of the table."""
    session = found["session"]
    decided = [session["decided_p50_s"], session["decided_p99_s"]]
    shown = [
        f"{found['goodput_bit_s'] / 1e6:.2f}",
        " / ".join("–" if one is None else f"{one * 1e6:.0f}" for one in decided),
        "–" if found["in_kernel_ns"] is None else f"{found['in_kernel_ns']:.0f}",
        f"{found['share']:.1%}",
        f"{session['applied']:,} / {session['on_its_own']:,}",
        f"{session['records']:,}",
        f"{session['missed']:,}",
        f"{found['load']:.1f}",
    ]
    return f"| {rate} | {law} | {' | '.join(shown)} |"


def page(rows: list[str], parts: str, many: steer.Session, seconds: float) -> str:
    """Return the page."""
    today = dt.datetime.now(dt.UTC).date().isoformat()
    setting = (
        f"Written by `make bench-live` on {today}: {os.cpu_count()} cores, Linux {platform.release()}. One "
        "kernel socket over one emulated link of 10 ms with a buffer of two products of rate and delay, "
        f"{seconds:g} s after 3 s that do not count, steered by a process of its own."
    )
    reading = (
        "*Decided* is the time from an ACK in the kernel to the decision in its slot, p50 / p99; 20 and 60 "
        "us are wanted. *In the kernel* is what a call of `cong_control` takes for an ACK, its share of "
        "waking the process included; below 600 ns is wanted. *Process* is the share of a core that it "
        "took; below 5 % is wanted. *ACKs* are those that applied a decision, and those for which the "
        "kernel's half decided by itself. *Load* is the load average of the machine afterwards: on two "
        "cores, more than two means that the deciding process waited for a processor."
    )
    late = [f"{(one or 0) * 1e6:,.0f}" for one in (many.decided_p50_s, many.decided_p99_s)]
    crowded = (
        f"{CONNECTIONS:,} connections at once over a loopback, both ends steered: {many.connections:,} "
        f"sockets, {many.applied:,} ACKs applied a decision and {many.on_its_own:,} were the kernel's own, "
        f"{many.records:,} records, {many.missed:,} missed, decided in {late[0]} / {late[1]} us."
    )
    head = [
        "# What steering costs",
        "",
        textwrap.fill(setting, WIDTH),
        "",
        textwrap.fill(reading, WIDTH),
        "",
        f"| {' | '.join(HEADINGS)} |",
        f"|{' --- |' * len(HEADINGS)}",
    ]
    said = [textwrap.fill(text, WIDTH) for text in (parts, crowded)]
    return "\n".join([*head, *rows, "", said[0], "", said[1], ""])


def main() -> int:
    """Run everything and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="measured seconds of each run")
    arguments = parser.parse_args()
    live.refuse_without_means()
    steer.refuse_without_means()
    rows, every = [], []
    for rate in RATES:
        for law in LAWS:
            print(f"{rate} Mbit/s, {law}", file=sys.stderr)
            every.append(measure(law, rate, arguments.seconds))
            rows.append(row(law, rate, every[-1]))
    many = crowd(CONNECTIONS, arguments.seconds)
    RESULTS.write_text(page(rows, parts_of(every), many, arguments.seconds), encoding="utf-8")
    print(f"wrote {RESULTS.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
