"""Linux on the paths of `docs/reference/stacks.md`: `python -m validation.linux_beside_stacks`.

The kernel of the virtual machine (`make kernel-guest`) carries one flow over each path with Reno, CUBIC and
BBR. What it did is kept in ``crates/lasthop-stacks/src/bin/lasthop-stacks/linux.json``, with the kernel's
version; `lasthop-stacks --table` puts our own TCP beside it. What the file already has of this kernel is not
run again. Half an hour of two cores.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import lasthop as lh
from lasthop import guest

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "crates/lasthop-stacks/src/bin/lasthop-stacks/linux.json"
PATHS = ("cargo", "run", "--quiet", "--locked", "--release", "-p", "lasthop-stacks", "--", "--paths")
#: Controllers by their name in the tables, and what the kernel calls them.
LAWS = {"newreno": "reno", "cubic": "cubic", "bbr": "bbr"}
#: Runs of a path that draws losses or delays; the others are the same with every seed.
SEEDS = 3
DRAWS = ("packet_error_rate", "jitter")


def figures(run: lh.Run) -> list[float]:
    """Return goodput (Mbit/s), mean one-way delay (ms), retransmitted packets (%) and lateness (ms)."""
    flow = run.record["flows"][0]
    over = flow["completion_s"]
    goodput = flow["bytes_delivered"] * 8 / over if over else flow["goodput_bit_s"]
    again = flow["retransmitted_packets"] / flow["packets_sent"] * 100
    late = run.record["live"]["late_p99_s"] or 0.0
    return [round(value, 4) for value in (goodput / 1e6, flow["delay_mean_s"] * 1e3, again, late * 1e3)]


def wanted(paths: dict[str, str], seeds: int) -> list[tuple[int, str, str]]:
    """Return seed, path and controller of all runs; those of one seed together."""
    found = []
    for name, text in paths.items():
        of_path = seeds if any(word in text for word in DRAWS) else 1
        found += [(seed, name, law) for law in LAWS for seed in range(1, of_path + 1)]
    return sorted(found, key=lambda one: one[0])


def main() -> int:
    """Run what is missing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help="runs of each path that draws something")
    arguments = parser.parse_args()
    listed = subprocess.run(PATHS, cwd=ROOT, check=True, capture_output=True, text=True)
    paths: dict[str, str] = json.loads(listed.stdout)
    release = guest.find().release
    kept: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    if kept.get("kernel") != release:
        kept = {"kernel": release, "runs": {}}
    runs: dict[str, dict[str, dict[str, list[float]]]] = kept["runs"]
    missing = [
        (seed, name, law)
        for seed, name, law in wanted(paths, arguments.seeds)
        if str(seed) not in runs.get(name, {}).get(law, {})
    ]
    scenarios = {name: lh.Scenario(tomllib.loads(text)) for name, text in paths.items()}
    orders = [(scenarios[name], LAWS[law], seed) for seed, name, law in missing]
    done = zip(missing, guest.emulate_all(orders), strict=True)
    for number, ((seed, name, law), run) in enumerate(done, start=1):
        runs.setdefault(name, {}).setdefault(law, {})[str(seed)] = figures(run)
        print(f"{number} of {len(missing)}: {name}, {law}, seed {seed}", file=sys.stderr, flush=True)
        KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
