"""Simulation and kernel compared in virtual time, over a grid: `python -m validation.kernel`.

One flow over one path, simulated in the profile ``linux`` and carried by sockets of Linux 6.1 in the virtual
machine of `lasthop.guest`, with the same losses: each controller with losses and two buffers, with jitter
that reorders, with applications that write now and then, and with queues that mark. Which packets meet
in the queue is chance on both sides: each kernel run is compared with simulations over paths that
differ by fractions of a millisecond, and only what is beyond their spread counts as a difference. Writes
`docs/reference/kernel-parity.md` with the remarks of ``validation/kernel-notes.md``. What the kernel did is
kept in ``out/kernel-parity.json``, so that only simulations run again. Called by `make validate-kernel`;
needs `make kernel-guest`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
import textwrap
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import lasthop as lh
from lasthop import guest, parity, runner, stats

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "kernel-parity.md"
NOTES = ROOT / "validation" / "kernel-notes.md"
KEPT = ROOT / "out" / "kernel-parity.json"

LAWS = ("reno", "cubic", "vegas", "veno", "westwood", "bbr", "dctcp")
LOSSES = (0.0, 0.001, 0.005, 0.01, 0.03)
#: The path: 5 Mbit/s and 2 x 20 ms. In products of rate and delay.
RATE_BIT_S, DELAY_S, PACKET = 5e6, 0.02, 1500
BUFFERS = (0.5, 2.0)
JITTERS_MS = (1, 5, 20)
APPLICATIONS: dict[str, dict[str, Any]] = {
    "video": {"kind": "mpeg4"},
    "30 kB each second": {"kind": "paced-ftp", "write": "30 kB", "interval": "1 s"},
}
MARKS: dict[str, dict[str, Any]] = {
    "CoDel": {"kind": "codel", "limit": "100 packets"},
    "threshold": {"kind": "drop-tail", "limit": "100 packets"},
}
#: Of the link that marks from a length of its queue on.
THRESHOLD: dict[str, Any] = {"mark": "10 packets"}
#: A cell whose two sides differ by more is named, if chance does not explain it: of the goodput; of repeated
#: packets, as a share or as a number.
GOODPUT, REPEATED, REPEATED_PACKETS = 0.02, 0.05, 3
#: Simulations beside each run of the kernel, and by how much their paths are shorter or longer at most.
BESIDE, ASIDE_MS = 20, 0.5
#: Runs of the kernel, each with a seed of its own, of cells where one late packet changes all that follows.
RUNS, CHAOTIC = 1, ("reordering/jitter up to 5 ms/", "reordering/jitter up to 20 ms/")
WIDTH = 118


def scenario(*, duration_s: float, loss: float = 0.0, buffer: float = 2.0, **changes: Any) -> lh.Scenario:
    """Return the path with one flow; `changes` are keys of the bottleneck, ``traffic`` one of the flow."""
    packets = round(buffer * RATE_BIT_S * 2 * DELAY_S / 8 / PACKET)
    traffic = changes.pop("traffic", "ftp")
    bottleneck: dict[str, Any] = {
        "rate": "5 Mbit/s",
        "delay": "20 ms",
        "queue": {"kind": "drop-tail", "limit": f"{packets} packets"},
    }
    if loss:
        bottleneck["error"] = {"kind": "bernoulli", "packet_error_rate": loss}
        bottleneck["reverse"] = {"error": "none"}
    access = {"rate": "1 Gbit/s", "delay": "0 ms", "queue": "unlimited"}
    return lh.Scenario(
        {
            "name": "beside the kernel",
            "duration": f"{duration_s:g} s",
            "topology": {"kind": "dumbbell", "bottleneck": bottleneck | changes, "access": access},
            "flows": [{"start": "0 s", "transport": "cubic", "traffic": traffic}],
        }
    )


def cells(duration_s: float) -> dict[str, tuple[str, lh.Scenario]]:
    """Return all cells: the law and the scenario by axis, setting and law."""
    found: dict[str, tuple[str, lh.Scenario]] = {}

    def add(axis: str, setting: str, path: lh.Scenario, *, marks: bool = False) -> None:
        for law in LAWS:
            wanted = parity.simulated(path, law)
            if marks:
                wanted = wanted.replace({"flows.0.transport.ecn": True})
            found[f"{axis}/{setting}/{law}"] = (law, wanted)

    for buffer, loss in product(BUFFERS, LOSSES):
        path = scenario(duration_s=duration_s, loss=loss, buffer=buffer)
        add(f"losses, buffer of {buffer:g} products", f"PER {loss:.1%}", path)
    for jitter in JITTERS_MS:
        boxes = [{"kind": "impair", "jitter": f"{jitter} ms", "reorder": True}]
        add("reordering", f"jitter up to {jitter} ms", scenario(duration_s=duration_s, middleboxes=boxes))
    for name, traffic in APPLICATIONS.items():
        add("application", name, scenario(duration_s=duration_s, traffic=traffic, loss=0.01))
    for name, queue in MARKS.items():
        path = scenario(duration_s=duration_s, queue=queue, **THRESHOLD if name == "threshold" else {})
        add("marks", name, path, marks=True)
    return found


def values(run: lh.Run) -> list[float]:
    """Return goodput (bit/s), repeated packets and the mean queue (packets)."""
    queue = max(link["avg_queue_packets"] or 0.0 for link in run.record["links"])
    return [run.totals["goodput_bit_s"], run.totals["retransmitted_packets"], queue]


def beside(path: lh.Scenario, seed: int) -> list[list[float]]:
    """Return the values of the simulations beside the kernel's run with this seed."""
    steps = [2.0 * number / (BESIDE - 1) - 1.0 for number in range(BESIDE)]
    delays = [f"{DELAY_S * 1e3 + step * ASIDE_MS:.6f} ms" for step in steps]
    paths = [path.replace({"topology.bottleneck.delay": delay}) for delay in delays]
    return [values(lh.run(one, seed=seed)) for one in paths]


class Kept:
    """What the kernel did, in a file: runs of each cell by their seed."""

    def __init__(self, file: Path, duration_s: float, release: str) -> None:
        self._file, self._of = file, f"{duration_s:g} s, Linux {release}"
        kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        #: Values of a run, and how late its packets were, by cell and seed.
        self.runs: dict[str, dict[str, list[float]]] = kept.get(self._of, {})

    def ask(self, wanted: list[tuple[str, int, str, lh.Scenario]]) -> None:
        """Ask the kernel for what is missing of these: cell, seed, congestion control, path."""
        missing = [one for one in wanted if str(one[1]) not in self.runs.get(one[0], {})]
        carried = guest.emulate_all([(path, law, seed) for _, seed, law, path in missing])
        for number, ((key, seed, _, _), run) in enumerate(zip(missing, carried, strict=True), start=1):
            late = run.record["live"]["late_p99_s"] or 0.0
            self.runs.setdefault(key, {})[str(seed)] = [*values(run), late]
            print(f"{number} of {len(missing)}: {key}, seed {seed}", file=sys.stderr)
            self._file.write_text(json.dumps({self._of: self.runs}), encoding="utf-8")

    def of_cell(self, key: str, seeds: int) -> list[list[float]]:
        """Return the first runs of a cell."""
        return [self.runs[key][str(seed)] for seed in range(1, seeds + 1)]


@dataclass(frozen=True, slots=True)
class Cell:
    """Both sides of a cell: goodput, repeated packets and mean queue."""

    #: By run of the kernel, the simulations beside it.
    simulated: list[list[list[float]]]
    #: With the lateness of each run behind it.
    kernel: list[list[float]]

    def means(self, place: int) -> tuple[float, float]:
        """Return the means of one quantity, simulated and of the kernel."""
        ours = [mean([run[place] for run in runs]) for runs in self.simulated]
        return mean(ours), mean([run[place] for run in self.kernel])

    def difference(self, place: int) -> tuple[float, float]:
        """Return how much more is simulated, and the half width of the 95 % interval of that.

        A run of the kernel is taken to scatter as the simulations beside it do.
        """
        ours, theirs = self.means(place)
        columns = [[run[place] for run in runs] for runs in self.simulated]
        squares = sum((value - mean(column)) ** 2 for column in columns for value in column)
        freedom = sum(len(column) - 1 for column in columns)
        of_one = 1.0 + 1.0 / len(columns[0])
        quantile = stats.student_t_quantile(0.975, freedom)
        return ours - theirs, quantile * (squares / freedom * of_one / len(columns)) ** 0.5

    def differs(self, place: int) -> bool | None:
        """Whether they differ by more than the bound; `None` if by more, and chance may explain it."""
        found, chance = self.difference(place)
        theirs = self.means(place)[1]
        bound = GOODPUT * theirs if place == 0 else max(REPEATED_PACKETS, REPEATED * theirs)
        if abs(found) <= bound:
            return False
        return True if abs(found) > chance else None


def measure(duration_s: float, runs: int, axes: str, release: str) -> dict[str, Cell]:
    """Ask the kernel for what is missing, simulate all, and return both sides of the cells."""
    KEPT.parent.mkdir(exist_ok=True)
    kept = Kept(KEPT, duration_s, release)
    every = {key: cell for key, cell in cells(duration_s).items() if key.startswith(axes)}
    seeds = {key: range(1, 1 + (runs if key.startswith(CHAOTIC) else 1)) for key in every}
    wanted = [(seed, key) for key in every for seed in seeds[key]]
    kept.ask([(key, seed, *every[key]) for seed, key in sorted(wanted, key=lambda one: one[0])])
    return {
        key: Cell([beside(path, seed) for seed in seeds[key]], kept.of_cell(key, len(seeds[key])))
        for key, (_, path) in every.items()
    }


def mean(numbers: list[float]) -> float:
    """Return the mean."""
    return sum(numbers) / len(numbers)


def told(cell: Cell, place: int, text: str) -> str:
    """Return an entry of the table, with what it says of chance."""
    verdict = cell.differs(place)
    return f"**{text}**" if verdict else f"{text} ?" if verdict is None else text


def row(setting: str, law: str, cell: Cell) -> str:
    """Return the row of a cell."""
    (goodput, again, queue) = (cell.means(place) for place in range(3))
    more, chance = (number / goodput[1] for number in cell.difference(0))
    gap = told(cell, 0, f"{more:+.1%} ± {chance:.1%}")
    repeated = told(cell, 1, f"{again[0]:.0f} / {again[1]:.0f} ± {cell.difference(1)[1]:.0f}")
    rates = f"{goodput[0] / 1e6:.3f} / {goodput[1] / 1e6:.3f}"
    return f"| {setting} | {law} | {rates} | {gap} | {repeated} | {queue[0]:.1f} / {queue[1]:.1f} |"


def page(found: dict[str, Cell], duration_s: float, release: str) -> str:
    """Return the page."""
    today = dt.datetime.now(dt.UTC).date().isoformat()
    every = [{cell.differs(0), cell.differs(1)} for cell in found.values()]
    differing = sum(True in verdicts for verdicts in every)
    chance = sum(None in verdicts and True not in verdicts for verdicts in every)
    late = max(run[3] for cell in found.values() for run in cell.kernel)
    about = (
        f"One flow over 5 Mbit/s and 2 x 20 ms, simulated in the profile `linux`, and carried by sockets of "
        f"Linux {release} in virtual time over the same links ([how](../how-to/ask-the-kernel.md)). Each run "
        f"lasts {duration_s:g} s; entries are simulated / kernel. A seed loses the same packets on both "
        "sides as long as they are sent in the same order. **Bold**: goodput differs by more than "
        f"{GOODPUT:.0%}, or retransmissions by more than {REPEATED:.0%} and {REPEATED_PACKETS} packets, and "
        f"chance does not explain it. This is the case in {differing} of {len(every)} cells. 99 % of the "
        f"packets of a run left less than {late * 1e3:.2f} ms late. Products are bandwidth-delay products."
    )
    most = max(len(cell.kernel) for cell in found.values())
    several = f"{most} runs of each cell with jitter of 5 and 20 ms, one of the others"
    of_kernel = "one run of each cell" if most == 1 else several
    chances = (
        f"How chance is measured: each kernel run is compared with {BESIDE} simulations of the same seed, "
        f"over paths that are up to {ASIDE_MS:g} ms shorter or longer each way. The first packet that meets "
        "another one in the queue changes all that follow, and so does one that leaves some microseconds "
        "late in the kernel. ± is the half width of the 95 % interval of the difference (t), assuming that "
        "kernel runs vary as the simulations do. A difference beyond the bounds but "
        f"within the interval has a question mark: {chance} cells. The kernel has {of_kernel}."
    )
    lines = [
        "# Simulation and kernel compared in virtual time",
        "",
        f"Written by `make validate-kernel` on {today}.",
        "",
        textwrap.fill(about, WIDTH, break_on_hyphens=False),
        "",
        textwrap.fill(chances, WIDTH, break_on_hyphens=False),
        "",
    ]
    for axis in dict.fromkeys(key.split("/")[0] for key in found):
        lines += [f"## {axis[0].upper()}{axis[1:]}", ""]
        lines += ["| | | goodput (Mbit/s) | difference | retransmissions (packets) | mean queue (packets) |"]
        lines += ["| --- | --- | --- | --- | --- | --- |"]
        for key, cell in found.items():
            of, setting, law = key.split("/")
            if of != axis:
                continue
            lines.append(row(setting, law, cell))
        lines.append("")
    if NOTES.exists():
        lines += [NOTES.read_text(encoding="utf-8").rstrip(), ""]
    return "\n".join(lines)


def main() -> int:
    """Run what is missing and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--duration", type=float, default=60.0, help="seconds of each run")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of the kernel of cells with much jitter")
    parser.add_argument("--axes", default="", help="only cells whose names begin so")
    arguments = parser.parse_args()
    machine = guest.find()
    print(f"{runner.available_cores()} machines at a time", file=sys.stderr)
    found = measure(arguments.duration, arguments.runs, arguments.axes, machine.release)
    PAGE.write_text(page(found, arguments.duration, machine.release), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
