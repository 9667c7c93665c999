"""Simulation beside the kernel in virtual time, over a grid: `python -m validation.kernel`.

One flow over one path, simulated in the profile ``linux`` and carried by sockets of Linux 6.1 in the virtual
machine of `lasthop.guest`, with the same losses: each controller with losses and two buffers, with jitter
that reorders, with applications that write now and then, and with queues that mark. Writes
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
from itertools import product
from pathlib import Path
from typing import Any

import lasthop as lh
from lasthop import guest, parity, runner

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
#: A cell whose two sides differ by more is named: of the goodput; of repeated packets, as a
#: share or as a number.
GOODPUT, REPEATED, REPEATED_PACKETS = 0.02, 0.05, 3
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


def measure(duration_s: float, seeds: int, axes: str, release: str) -> dict[str, Any]:
    """Ask the kernel for the cells that are missing, simulate all, and return them."""
    KEPT.parent.mkdir(exist_ok=True)
    kept: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    of = [duration_s, seeds, release]
    every = {key: cell for key, cell in cells(duration_s).items() if key.startswith(axes)}
    wanted = {key: cell for key, cell in every.items() if kept.get(key, {}).get("of") != of}
    orders = [(path, law, seed) for law, path in wanted.values() for seed in range(1, seeds + 1)]
    carried = guest.emulate_all(orders)
    for number, key in enumerate(wanted, start=1):
        kernel = [next(carried) for _ in range(seeds)]
        late = [run.record["live"]["late_p99_s"] or 0.0 for run in kernel]
        kept[key] = {"of": of, "kernel": [values(run) for run in kernel], "late_p99_s": max(late)}
        print(f"{number} of {len(wanted)}: {key}", file=sys.stderr)
        KEPT.write_text(json.dumps(kept), encoding="utf-8")
    found = {}
    for key, (_, path) in every.items():
        simulated = [values(run) for run in lh.run_seeds(path, range(1, seeds + 1))]
        found[key] = kept[key] | {"simulated": simulated}
    return found


def means(rows: list[list[float]]) -> list[float]:
    """Return the mean of each column."""
    return [sum(column) / len(column) for column in zip(*rows, strict=True)]


def verdict(cell: dict[str, Any]) -> tuple[bool, bool]:
    """Whether the goodput differs, and the number of repeated packets."""
    (ours, again, _), (theirs, kernel_again, _) = means(cell["simulated"]), means(cell["kernel"])
    goodput = abs(ours - theirs) > GOODPUT * theirs
    repeated = abs(again - kernel_again) > max(REPEATED_PACKETS, REPEATED * kernel_again)
    return goodput, repeated


def page(found: dict[str, Any], duration_s: float, seeds: int, release: str) -> str:
    """Return the page."""
    today = dt.datetime.now(dt.UTC).date().isoformat()
    every = [verdict(cell) for cell in found.values()]
    differing = sum(goodput or repeated for goodput, repeated in every)
    late = max(cell["late_p99_s"] for cell in found.values())
    of_seeds, lose = ("of one seed", "loses") if seeds == 1 else (f"means over {seeds} seeds", "lose")
    about = (
        f"One flow over 5 Mbit/s and 2 x 20 ms, simulated in the profile `linux`, and carried by sockets of "
        f"Linux {release} in virtual time over the same links ([how](../how-to/ask-the-kernel.md)). Each run "
        f"lasts {duration_s:g} s; entries are simulated / kernel, {of_seeds}, which {lose} the same packets "
        "on both sides as long as these come in the same order. **Bold**: goodput differs by "
        f"more than {GOODPUT:.0%}, or repeated packets by more than {REPEATED:.0%} and {REPEATED_PACKETS} "
        f"packets. That is so in {differing} of {len(every)} cells. 99 % of the packets of a run left less "
        f"than {late * 1e3:.2f} ms late."
    )
    lines = [
        "# Simulation beside the kernel in virtual time",
        "",
        f"Written by `make validate-kernel` on {today}.",
        "",
        textwrap.fill(about, WIDTH, break_on_hyphens=False),
        "",
    ]
    for axis in dict.fromkeys(key.split("/")[0] for key in found):
        lines += [f"## {axis[0].upper()}{axis[1:]}", ""]
        lines += ["| | | goodput (Mbit/s) | difference | repeated (packets) | mean queue (packets) |"]
        lines += ["| --- | --- | --- | --- | --- | --- |"]
        for key, cell in found.items():
            of, setting, law = key.split("/")
            if of != axis:
                continue
            ours, theirs = means(cell["simulated"]), means(cell["kernel"])
            goodput, repeated = verdict(cell)
            gap = f"{ours[0] / theirs[0] - 1:+.1%}"
            again = f"{ours[1]:.0f} / {theirs[1]:.0f}"
            lines.append(
                f"| {setting} | {law} | {ours[0] / 1e6:.3f} / {theirs[0] / 1e6:.3f} "
                f"| {f'**{gap}**' if goodput else gap} | {f'**{again}**' if repeated else again} "
                f"| {ours[2]:.1f} / {theirs[2]:.1f} |"
            )
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
    parser.add_argument("--seeds", type=int, default=3, help="runs of each cell")
    parser.add_argument("--axes", default="", help="only cells whose names begin so")
    arguments = parser.parse_args()
    machine = guest.find()
    print(f"{runner.available_cores()} machines at a time", file=sys.stderr)
    found = measure(arguments.duration, arguments.seeds, arguments.axes, machine.release)
    PAGE.write_text(page(found, arguments.duration, arguments.seeds, machine.release), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
