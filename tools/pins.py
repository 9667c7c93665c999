"""Pins what runs do: the fingerprints of ready scenarios, studies and papers' quick runs, in `tests/pins`.

`make pins` writes the files anew, `make pins-check` compares all of them with what the engine does now, and
`tests/python/test_fingerprints.py` compares the part that takes seconds. A changed line is a changed run:
the commit says why the new run is right. Everything goes through the command as users type it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "tests" / "pins"

#: Papers whose studies are ready.
PAPERS = ("004",)

#: Seeds of a scenario; a study has its first, a paper those of its quick run.
SEEDS = "1-2"

HEADER = """\
# {title}: a name, then the fingerprint of each seed in ascending order.
# Written by `make pins`. A change of a line is a change of what a run does: the commit says why.
"""

#: Name of what ran -> the fingerprint of each seed.
Pins = dict[str, list[str]]


class PinsError(Exception):
    """A command failed."""


@dataclass(frozen=True)
class Group:
    """What one file pins: its name, what stands above it, and the function that runs it all."""

    file: str
    title: str
    run: Callable[[], Pins]


def lasthop(*arguments: object) -> str:
    """Run the command in a process of its own and return what it prints."""
    words = [sys.executable, "-c", "from lasthop.cli import main; main()", *map(str, arguments)]
    environment = os.environ | {"NO_COLOR": "1", "MPLBACKEND": "agg"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    if done.returncode != 0:
        raise PinsError(f"lasthop {' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return done.stdout


def files(folder: str) -> list[Path]:
    """Return the ready files of a folder of the tree."""
    return sorted((ROOT / folder).glob("*.toml"))


def of_scenario(file: Path, seeds: str = SEEDS) -> Pins:
    """Run a scenario."""
    answer = json.loads(lasthop("run", file, "--seeds", seeds, "--json", "-"))
    runs = sorted(answer["runs"], key=lambda run: run["seed"])
    return {file.stem: [run["fingerprint"] for run in runs]}


def of_study(file: Path) -> Pins:
    """Run a study with its first seed, every point of its grid."""
    with tempfile.TemporaryDirectory() as folder:
        lasthop("study", "run", file, "--seeds", 1, "--out", Path(folder, "out"))
        return _of_table(file.stem, Path(folder, "out"))


def of_paper(number: str, figures: str = "all") -> Pins:
    """Make the quick run of a paper, or of these figures of it."""
    with tempfile.TemporaryDirectory() as folder:
        lasthop("reproduce", number, "--quick", "--figure", figures, "--out", folder)
        studies = sorted(Path(folder, "runs", "studies").iterdir())
        return {name: pins for study in studies for name, pins in _of_table(study.name, study).items()}


def _of_table(study: str, folder: Path) -> Pins:
    import polars as pl

    axes = [axis["name"] for axis in json.loads((folder / "study.json").read_text())["study"]["axes"]]
    table = pl.read_parquet(folder / "results.parquet").sort("seed")
    pins: Pins = {}
    for row in table.select(*axes, "fingerprint").iter_rows(named=True):
        point = " ".join(f"{axis}={row[axis]}" for axis in axes)
        pins.setdefault(f"{study} {point}", []).append(row["fingerprint"] or "failed")
    return pins


def _all_scenarios() -> Pins:
    return {name: pins for file in files("scenarios") for name, pins in of_scenario(file).items()}


def _all_studies() -> Pins:
    return {name: pins for file in files("studies") for name, pins in of_study(file).items()}


GROUPS = (
    Group("scenarios.txt", f"The ready scenarios, seeds {SEEDS}", _all_scenarios),
    Group("studies.txt", "The ready studies, seed 1", _all_studies),
    *(Group(f"paper-{one}.txt", f"The quick run of paper {one}", partial(of_paper, one)) for one in PAPERS),
)


def pinned(file: str) -> Pins:
    """Read one of the files."""
    lines = (PINS / file).read_text(encoding="utf-8").splitlines()
    parts = (line.split("  ") for line in lines if not line.startswith("#"))
    return {name: fingerprints.split() for name, fingerprints in parts}


def write(group: Group) -> Path:
    """Run a group and write its file."""
    path = PINS / group.file
    lines = (f"{name}  {' '.join(fingerprints)}\n" for name, fingerprints in group.run().items())
    path.write_text(HEADER.format(title=group.title) + "".join(lines), encoding="utf-8")
    return path


def differences(wanted: Mapping[str, list[str]], made: Mapping[str, list[str]]) -> list[str]:
    """Compare what was made, perhaps with fewer seeds, with what is pinned; return the runs that differ."""
    found = []
    for name, fingerprints in made.items():
        old = wanted.get(name, [])
        if len(old) < len(fingerprints):
            found.append(f"{name}: {len(fingerprints)} seeds, but {len(old)} pinned")
        found += [
            f"{name}, seed {seed}: pinned {before}, now {now}"
            for seed, (before, now) in enumerate(zip(old, fingerprints, strict=False), start=1)
            if before != now
        ]
    return found


def main() -> int:
    """Write the files, or compare with all of them."""
    parser = argparse.ArgumentParser(prog="tools/pins.py", description="Pin the fingerprints of ready runs.")
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    arguments = parser.parse_args()
    changed = []
    try:
        for group in GROUPS:
            if not arguments.check:
                print(f"wrote {write(group).relative_to(ROOT)}")
                continue
            wanted, made = pinned(group.file), group.run()
            found = differences(wanted, made)
            found += [f"{name}: is pinned, but was not run" for name in wanted if name not in made]
            print(f"{group.file}: {len(made)} points, {len(found)} differ")
            changed += [f"{group.file}: {difference}" for difference in found]
    except PinsError as error:
        print(f"pins: {error}", file=sys.stderr)
        return 2
    for line in changed:
        print(line)
    if changed:
        print("If these changes are meant: make pins, and say in the commit why the new runs are right.")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
