"""How well real packets keep time: `python bench/live.py [--seconds N]`. Called by `make bench-live`.

A link that the kernel's TCP keeps busy has to carry its rate, whatever the sender, and packets have to leave
when they should. Writes `bench/LIVE.md`; needs root and /dev/net/tun. Does nothing else at the time.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import lasthop as lh
from lasthop import live

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "LIVE.md"
KEPT = ROOT / "out" / "bench-live.json"

RATES = (5, 11, 50, 100, 500)
ALGORITHMS = ("reno", "cubic", "bbr")
#: What the rate of a link that is never idle may differ by, up to the rate that is promised.
WANTED = (0.997, 1.003)
PROMISED = 100
WARMUP_S = 3.0
#: A run is repeated that the machine was too busy for.
TRIES = 3
BUDGET_S = 2e-3
#: The type of an Enhanced Packet Block (draft-ietf-opsawg-pcapng, section 4.3).
PACKET_BLOCK = 6
#: Of the lines of the page.
WIDTH = 118
#: By how much 99 % of single packets may take longer than the link does; rates where that is measured.
DELAY_WANTED_S, DELAY_RATES = 2e-4, (5, 11, 50, 100)
PACKET = 1500

#: Writes how long each packet took to come: from the time in it to that at which the kernel had it.
RECEIVER = """
import json, socket, struct, sys
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS
own.bind(("", 5000))
taken = []
while True:
    data, about, _, _ = own.recvmsg(2048, 64)
    sent, = struct.unpack_from("=q", data)
    if not sent:
        break
    seconds, rest = struct.unpack("=qq", about[0][2])
    taken.append(seconds * 10**9 + rest - sent)
with open(sys.argv[1], "w") as file:
    json.dump(taken, file)
"""
#: Sends packets that never meet, and at the end one that says so.
SENDER = """
import random, socket, struct, sys, time
count, space = int(sys.argv[1]), float(sys.argv[2])
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.connect(("phone", 5000))
for _ in range(count):
    time.sleep(space * random.uniform(1, 2))
    own.send(struct.pack("=q", time.time_ns()) + bytes(1464))
time.sleep(0.5)
own.send(bytes(8))
time.sleep(0.5)
"""


def scenario(rate: int, seconds: float) -> lh.Scenario:
    """Return one link with a buffer of two products of rate and delay, and one flow."""
    packets = max(60, round(2 * rate * 1e6 * 0.02 / 8 / 1500))
    link = {
        "from": "server",
        "to": "phone",
        "rate": f"{rate} Mbit/s",
        "delay": "10 ms",
        "queue": {"kind": "drop-tail", "limit": f"{packets} packets"},
    }
    return lh.Scenario(
        {
            "name": "link",
            "duration": f"{seconds + WARMUP_S:g} s",
            "warmup": f"{WARMUP_S:g} s",
            "topology": {"kind": "graph", "nodes": ["server", "phone"], "links": [link]},
            "flows": [
                {"source": "server", "sink": "phone", "start": "0 s", "transport": "cubic", "traffic": "ftp"}
            ],
        }
    )


def measure(rate: int, algorithm: str, seconds: float) -> dict[str, Any]:
    """Run once, again if it was invalid, and return what counts."""
    for _ in range(TRIES):
        run = live.emulate(
            scenario(rate, seconds), kernel=algorithm, budget_s=BUDGET_S, capture_at=["phone"], snaplen=20
        )
        if run.record["live"]["valid"]:
            break
    link, report = run.record["links"][0], run.record["live"]
    return {
        "ratio": run.record["flows"][0]["throughput_bit_s"] / (rate * 1e6),
        "taken": wire_rate(run) / (rate * 1e6),
        "busy": link["utilisation"],
        "late_s": [report[f"late_{name}_s"] for name in ("p50", "p99", "p999", "max")],
        "core": report["busiest_second"],
        "scheduling": report["scheduling"],
        "invalid": report["invalid_because"],
        "load": os.getloadavg()[0],
    }


def wire_rate(run: lh.Run) -> float:
    """Return the bits per second that the receiving kernel took, by the clock of the machine.

    Those of IP packets from the first after the warm-up, which does not count, to the last.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "phone.pcapng"
        run.write_pcapng(file, "phone")
        content = file.read_bytes()
    times: list[float] = []
    at, octets = 0, 0
    while at < len(content):
        kind, length = struct.unpack_from(">II", content, at)
        if kind == PACKET_BLOCK:
            high, low, stored, original = struct.unpack_from(">4I", content, at + 12)
            # The first option of our blocks is that of flags; 1 is inbound.
            flags = struct.unpack_from(">I", content, at + 28 + (stored + 3) // 4 * 4 + 4)[0]
            seconds = (high << 32 | low) / 1e9
            if flags == 1 and seconds >= WARMUP_S:
                octets += original if times else 0
                times = [*times[:1], seconds]
        at += length
    return 8 * octets / (times[-1] - times[0]) if len(times) > 1 else 0.0


def delays(rate: int, seconds: float) -> list[float]:
    """Return by how much single packets take longer than the link says, in seconds, in ascending order."""
    # More than a transmission each, so that none waits for another.
    space = max(0.005, 2 * 8 * PACKET / (rate * 1e6))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "delays.json"
        live.emulate(
            scenario(rate, seconds + 10),
            [sys.executable, "-c", SENDER, str(round(seconds / space / 1.5)), str(space)],
            host="server",
            beside={"phone": [sys.executable, "-c", RECEIVER, str(file)]},
            budget_s=BUDGET_S,
        )
        taken = json.loads(file.read_text(encoding="utf-8"))
    return sorted(one / 1e9 - 0.01 - 8 * PACKET / (rate * 1e6) for one in taken)


def delays_part(found: dict[str, list[float]]) -> list[str]:
    """Return the part of the page on delays."""
    about = (
        f"Packets of {PACKET} bytes that a program sends one at a time, and by how much longer than the link "
        "says (10 ms and a transmission) each took: from the clock that the sender reads before it asks the "
        "kernel to send, to the kernel's own time of arrival, in microseconds. Nothing else is measured in "
        f"between. {DELAY_WANTED_S * 1e6:.0f} is wanted for 99 % at 5 Mbit/s."
    )
    lines = ["## Added delay", "", textwrap.fill(about, WIDTH), ""]
    lines += ["| Mbit/s | packets | p50 | p90 | p99 | largest |", "| --- | --- | --- | --- | --- | --- |"]
    for rate, over in found.items():
        shown = [over[min(len(over) - 1, int(share * len(over)))] for share in (0.5, 0.9, 0.99, 1.0)]
        texts = [f"{one * 1e6:,.0f}" for one in shown]
        if int(rate) == DELAY_RATES[0] and shown[2] > DELAY_WANTED_S:
            texts[2] = f"**{texts[2]}**"
        lines.append(f"| {rate} | {len(over):,} | {' | '.join(texts)} |")
    return [*lines, ""]


def row(rate: int, algorithm: str, found: dict[str, Any]) -> str:
    """Return a line of the table."""
    ratio, taken, busy = found["ratio"], found["taken"], found["busy"]
    while_busy = f"{taken / busy:.4f}"
    if rate <= PROMISED and not WANTED[0] <= taken / busy <= WANTED[1]:
        while_busy = f"**{while_busy}**"
    late = " / ".join(f"{seconds * 1e6:,.0f}" for seconds in found["late_s"])
    valid = "yes" if not found["invalid"] else "no"
    shown = [
        f"{ratio:.4f}",
        f"{taken:.4f}",
        f"{busy:.4f}",
        while_busy,
        late,
        f"{found['core']:.0%}",
        f"{found['load']:.1f}",
    ]
    return f"| {rate} | {algorithm} | {' | '.join(shown)} | {valid} |"


def page(found: dict[str, dict[str, Any]], over: dict[str, list[float]], seconds: float) -> str:
    """Return the page."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    named = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line]
    processor = named[0].partition(":")[2].strip() if named else platform.machine()
    today = dt.datetime.now(dt.UTC).date().isoformat()
    setting = (
        f"Written by `make bench-live` on {today}, commit {commit}: {processor}, "
        f"{os.cpu_count()} cores, Linux "
        f"{platform.release()}. One TCP of the kernel over one emulated link of 10 ms with a buffer of two "
        f"products of rate and delay, {seconds:g} s after {WARMUP_S:g} s that do not count."
    )
    reading = (
        "*Ratio* is what arrived over the rate of the link by its own account, *taken* the same by "
        "the capture of the receiving TUN device: bytes of IP packets that the kernel took between the first "
        "and the last after the warm-up, by the clock of the machine. *Busy* is the share of the time in "
        "which the link had something to send, which is the sender's doing (BBR drains it on purpose, and on "
        "a loaded machine its socket waits for a processor), and *while busy* what was taken over that. "
        f"{WANTED[0]} to {WANTED[1]} is wanted of that up to {PROMISED} Mbit/s; beyond, it is the best that "
        "the machine can do. *Late* is by how much packets left later than planned: p50 / p99 / p99.9 / "
        f"largest, in microseconds; a run is valid if p99 is below {BUDGET_S * 1e3:g} ms. *Core* is the "
        "share of a core that the emulator took in its busiest second, *load* the load average of the "
        "machine afterwards: where it is high, tails of lateness are those of other work."
    )
    lines = [
        "# Benchmarks of real packets",
        "",
        textwrap.fill(setting, WIDTH),
        "",
        textwrap.fill(reading, WIDTH),
        "",
        "| Mbit/s | sender | ratio | taken | busy | while busy | late (us) | core | load | valid |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for key, values in found.items():
        rate, algorithm = key.split("/")
        lines.append(row(int(rate), algorithm, values))
    return "\n".join([*lines, "", *delays_part(over), *beside(), ""])


def beside() -> list[str]:
    """Return what other emulators are there to compare with."""
    missing = [] if shutil.which("mm-link") else ["Mahimahi"]
    missing += [] if has_netem() else ["netem"]
    if not missing:
        return []
    return [f"Not measured beside it, since this machine does not have it: {', '.join(missing)}."]


def has_netem() -> bool:
    """Whether the kernel has netem: a queue of it on the loopback of a namespace that goes at once."""
    words = ["unshare", "--net", "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"]
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def main() -> int:
    """Run everything and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="measured seconds of each run")
    arguments = parser.parse_args()
    live.refuse_without_means()
    found = {}
    for rate in RATES:
        for algorithm in ALGORITHMS:
            if algorithm in live.algorithms():
                print(f"{rate} Mbit/s, {algorithm}", file=sys.stderr)
                found[f"{rate}/{algorithm}"] = measure(rate, algorithm, arguments.seconds)
    over = {}
    for rate in DELAY_RATES:
        print(f"{rate} Mbit/s, single packets", file=sys.stderr)
        over[str(rate)] = delays(rate, arguments.seconds)
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps(found, indent=1), encoding="utf-8")
    RESULTS.write_text(page(found, over, arguments.seconds), encoding="utf-8")
    print(f"wrote {RESULTS.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
