"""SCReAM beside its authors' program: `python -m validation.scream_beside_authors FOLDER`.

FOLDER is a checkout of github.com/EricssonResearch/scream. Its sender and receiver are compiled with a link
between them (`scream_beside_authors.cc`), as a path of a scenario has it: capacity, one-way delay and a
drop-tail queue. Both sides have an encoder whose frames are all as large as the rate says, without marks.
The command writes `docs/reference/validation-scream.md` and needs a C++ compiler.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lasthop as lh

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "validation-scream.md"
COMMAND = "python -m validation.scream_beside_authors"
JUDGE = Path(__file__).with_suffix(".cc")
SOURCES = ("ScreamTx.cpp", "ScreamV2Tx.cpp", "ScreamV2TxStream.cpp", "ScreamRx.cpp", "RtpQueue.cpp")
FRAMES = 30
#: Seconds after a change of the capacity that are left out of the means.
SETTLING_S = 5


@dataclass(frozen=True)
class Way:
    """A path: its capacity in Mbit/s from these times on, one-way delay, and the queue in bytes."""

    name: str
    capacity: tuple[tuple[float, float], ...]
    owd_ms: float
    queue: int
    end: float


PATHS = (
    Way("1, 2.5, 0.6, 1 Mbit/s, 50 ms", ((0, 1), (40, 2.5), (60, 0.6), (80, 1)), 50, 37_500, 100),
    Way("the same, 10 ms", ((0, 1), (40, 2.5), (60, 0.6), (80, 1)), 10, 37_500, 100),
    Way("the same, 150 ms", ((0, 1), (40, 2.5), (60, 0.6), (80, 1)), 150, 37_500, 100),
    Way("0.5, 1 Mbit/s, 50 ms", ((0, 0.5), (60, 1)), 50, 37_500, 120),
)


@dataclass(frozen=True)
class Second:
    """What one second brought: Mbit/s that arrived, and the mean queueing delay in ms."""

    rate: float
    delay: float


def theirs(program: Path, path: Way) -> list[Second]:
    """Return what the authors' program does on a path."""
    steps = [word for at, rate in path.capacity for word in (str(at), str(rate * 1e6))]
    command = [program, str(path.owd_ms / 1e3), str(path.queue), str(FRAMES), str(path.end), *steps]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    return [Second(float(rate) / 1e6, float(delay) * 1e3) for rate, delay, *_ in lines]


def ours(path: Way) -> list[Second]:
    """Return what ours does there."""
    later = [{"at": f"{at} s", "rate": f"{rate} Mbit/s"} for at, rate in path.capacity[1:]]
    link: dict[str, Any] = {
        "from": "server",
        "to": "phone",
        "rate": f"{path.capacity[0][1]} Mbit/s",
        "rate_changes": later,
        "delay": f"{path.owd_ms} ms",
        "queue": {"kind": "drop-tail", "limit": f"{path.queue} B"},
        "reverse": {"rate": "1 Gbit/s", "rate_changes": [], "queue": "unlimited"},
    }
    even = {"kind": "video-call", "model": "rfc8867", "size_scale": 0, "burst": "10 B", "transient": 1}
    call = {
        "name": "call",
        "source": "server",
        "sink": "phone",
        "start": "0 s",
        "transport": "scream",
        "traffic": even,
    }
    run = lh.run(
        {
            "duration": f"{path.end} s",
            "measure": {"series_interval": "1 s"},
            "topology": {"kind": "graph", "nodes": ["server", "phone"], "links": [link]},
            "flows": [call],
        },
        seed=1,
        series=True,
        trace=True,
    )
    waits: list[list[float]] = [[] for _ in range(int(path.end))]
    for hop in run.hops.filter(run.hops["link"] == "server-phone").rows(named=True):
        if hop["transmit_ns"] is not None and hop["arrive_ns"] is not None:
            waits[int(hop["transmit_ns"] // 1e9)].append((hop["transmit_ns"] - hop["enqueue_ns"]) / 1e6)
    rates = run.series["throughput_bit_s"]
    return [Second(r / 1e6, statistics.mean(w) if w else 0.0) for r, w in zip(rates, waits, strict=True)]


def rows(program: Path, path: Way) -> list[str]:
    """Compare each phase of a path."""
    mine, authors = ours(path), theirs(program, path)
    found = []
    ends = [*(at for at, _ in path.capacity[1:]), path.end]
    for (begin, capacity), end in zip(path.capacity, ends, strict=True):
        late = slice(int(begin) + SETTLING_S, int(end))
        sides = (mine, authors)
        cells = [path.name, f"{begin:g} to {end:g} s, {capacity:g} Mbit/s"]
        cells += [f"{statistics.mean(one.rate for one in side[late]):.2f}" for side in sides]
        cells += [f"{min(one.rate for one in side[late]):.2f}" for side in sides]
        cells += [f"{statistics.mean(one.delay for one in side[late]):.0f}" for side in sides]
        cells += [f"{max(one.delay for one in side[int(begin) : int(end)]):.0f}" for side in sides]
        found.append(f"| {' | '.join(cells)} |")
    return found


def main() -> None:
    """Compile their program, compare, and write the page."""
    source = Path(sys.argv[1] if len(sys.argv) == 2 else sys.exit(f"usage: {COMMAND} FOLDER"))
    asked = ["git", "-C", source, "rev-parse", "--short=7", "HEAD"]
    version = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    code = source / "code"
    with tempfile.TemporaryDirectory() as name:
        program = Path(name) / "judge"
        files = [JUDGE, *(code / file for file in SOURCES)]
        options = ["-O2", "-std=c++17", "-w", "-I", code]
        subprocess.run(["g++", *options, *files, "-o", program, "-lpthread"], check=True)
        table = [row for path in PATHS for row in rows(program, path)]
    PAGE.write_text(
        f"""# SCReAM beside its authors' program

<!-- Written by `{COMMAND} FOLDER`; changes here are overwritten. -->

Sender and receiver of github.com/EricssonResearch/scream at {version}, with a link between them in a clock of
its own, and `scream` over the same path: capacity, one-way delay each way, a drop-tail queue of 37.5 kB. The
encoder of both makes {FRAMES} frames a second, each as large as the rate says, between 150 kbit/s and 1.5
Mbit/s. There is no ECN. Rates are in Mbit/s with headers, delays are those of the queue, in ms. Mean and
lowest rate of a second leave out the first {SETTLING_S} s of a phase, and so does the mean delay; the longest
delay is the highest mean of a second. Ours stands first in each pair, the authors' second.

| path | phase | rate | | lowest | | delay | | longest | |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
{chr(10).join(table)}

Three things differ. The authors divide what a delay takes off by the RTT over 30 ms, and do so twice; ours
does it once, by the RTT over 25 ms. At an RTT of 300 ms theirs therefore hardly gives way: its queue grows to
what the drops allow. Theirs updates the mean delay every 30 ms, the draft and ours once an RTT. And theirs
lowers the target by a tenth for large frames and grows more slowly while the delay varies, which ours leaves
out: up to an RTT of 100 ms it leaves a tenth of the link unused where ours does not. Ours in turn uses 0.47
to 1.02 Mbit/s at 300 ms where theirs uses 0.60 to 1.53, which those three leave partly open. Before this
comparison ours divided by nothing, as the draft has it, and had 0.72, 0.51 and 0.61 Mbit/s in the first,
third and fourth row, and 0.53, 0.31 and 0.54 at an RTT of 300 ms.
""",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
