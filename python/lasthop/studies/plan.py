"""What runs a study consists of, and the identity of each.

The identity is a hash of the resolved scenario, the contents of the files that it reads, the source of the
senders written in Python, the seed and the engine's version: equal identity, equal result. Called by
`execute`.
"""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop import _native
from lasthop.columns import on_demand
from lasthop.errors import ScenarioError
from lasthop.studies.store import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lasthop._native import ArrowTable
    from lasthop.history import Entry as HistoryEntry
    from lasthop.scenario import Scenario
    from lasthop.sources import Source
    from lasthop.studies.parts import Keep, Point
    from lasthop.studies.study import Study

#: Keys of a scenario that change nothing in a run: its title, and the seed that it would have by itself.
NO_MATTER = ("name", "seed")
IDENTITY_DIGITS = 32


@dataclass(frozen=True, slots=True)
class Setup:
    """A resolved scenario, ready to run with any seed.

    Attributes
    ----------
    plan : Plan
        What the engine runs, with the history of paths if the scenario names one.
    text : str
        The scenario as JSON, without name and seed.
    inputs : dict
        SHA-256 of each file that it reads, by its path.
    folder : Path
        What the files in `text` are relative to.
    history : tuple
        What the file of ``[history]`` held when the study began.
    digest : str
        Hash of all that.
    senders : dict
        Source of each sender written in Python, by its name; part of `digest`.
    """

    plan: _native.Plan
    text: str
    inputs: dict[str, str]
    folder: Path
    history: tuple[HistoryEntry, ...]
    digest: str
    senders: dict[str, Source]

    def identity(self, seed: int) -> str:
        """Return the identity of the run with this seed."""
        return hashlib.sha256(f"{self.digest} {seed}".encode()).hexdigest()[:IDENTITY_DIGITS]

    def portable(self) -> tuple[str, dict[str, bytes]]:
        """Return the scenario and the contents of its files, by the names that it then has for them."""
        names = {Path(path): f"input-{number}" for number, path in enumerate(self.inputs)}
        text = json.dumps(_renamed(json.loads(self.text), names, self.folder))
        return text, {name: path.read_bytes() for path, name in names.items()}


@dataclass(slots=True)
class Cell:
    """A point of a study with its scenario and its seeds."""

    point: Point
    setup: Setup
    seeds: list[int]


@dataclass(frozen=True, slots=True)
class Task:
    """One run to be made, and what is to be kept of it."""

    run: str
    setup: Setup
    seed: int
    keep: tuple[Keep, ...]
    text: str

    @property
    def series(self) -> bool:
        """Whether a kept table needs ``series=True``."""
        return any(on_demand()[keep.table] == "series" for keep in self.keep)

    @property
    def trace(self) -> bool:
        """Whether a kept table needs ``trace=True``."""
        return any(on_demand()[keep.table] == "trace" for keep in self.keep)

    @property
    def frames(self) -> bool:
        """Whether the frames on the air are kept, which are many more than packets."""
        return any(keep.table == "frames" for keep in self.keep)

    def entry(
        self,
        measured: Mapping[str, ArrowTable] | None,
        kept: dict[str, ArrowTable],
        error: str | None = None,
    ) -> Entry:
        """Return what the store keeps of it."""
        inputs = {Path(path).name: digest for path, digest in self.setup.inputs.items()}
        inputs |= {name: source.digest for name, source in self.setup.senders.items()}
        return Entry(self.run, self.seed, self.setup.text, inputs, measured, error, kept)


def cells_of(studies: Sequence[Study]) -> dict[str, list[Cell]]:
    """Return the points of each study; equal scenarios share one setup."""
    known: dict[str, Setup] = {}
    cells: dict[str, list[Cell]] = {}
    for study in studies:
        cells[study.name] = []
        for point in study.points():
            setup = setup_of(study.scenario_of(point))
            cells[study.name].append(Cell(point, known.setdefault(setup.digest, setup), list(study.seeds)))
    return cells


def setup_of(scenario: Scenario) -> Setup:
    """Resolve a scenario, read what it depends on, and hash it."""
    content = {key: value for key, value in scenario.to_dict().items() if key not in NO_MATTER}
    text = json.dumps(content, separators=(",", ":"))
    history = tuple(scenario.read_history())
    inputs = {path: _digest_of(path) for path in getattr(scenario.plan, "input_files", [])}
    hashed = {
        "scenario": content,
        # Where a file lies does not matter, only what it says; they stand in the order of the scenario.
        "inputs": list(inputs.values()),
        "history": history,
        "engine": _native.__version__,
    }
    senders = scenario.sender_sources
    if senders:
        hashed["senders"] = {name: source.digest for name, source in senders.items()}
    digest = hashlib.sha256(json.dumps(hashed, sort_keys=True).encode()).hexdigest()
    plan = scenario.plan.with_history(history) if history else scenario.plan
    return Setup(plan, text, inputs, scenario.folder, history, digest, senders)


def _renamed(value: Any, names: Mapping[Path, str], folder: Path) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        return {
            key: names.get(folder / inner, inner)
            if key == "file" and isinstance(inner, str)
            else _renamed(inner, names, folder)
            for key, inner in value.items()
        }
    return [_renamed(inner, names, folder) for inner in value] if isinstance(value, list) else value


def tasks_of(studies: Sequence[tuple[Study, Sequence[Cell]]]) -> dict[str, Task]:
    """Return every distinct run of some studies by its identity.

    They come seed by seed, so that the time left can be told early from runs of every point.
    """
    wanted: dict[str, tuple[int, Task]] = {}
    for study, cells in studies:
        for cell in cells:
            for position, seed in enumerate(cell.seeds):
                run = cell.setup.identity(seed)
                text = f"{study.name}: {cell.point.text}, seed {seed}"
                known = wanted.get(run)
                keep = study.keep if known is None else _united(known[1].keep, study.keep)
                if known is not None:
                    position, text = min(position, known[0]), known[1].text  # noqa: PLW2901 - the earliest
                wanted[run] = (position, Task(run, cell.setup, seed, keep, text))
    return {run: task for run, (_, task) in sorted(wanted.items(), key=lambda item: item[1][0])}


def _united(first: Sequence[Keep], second: Sequence[Keep]) -> tuple[Keep, ...]:
    return tuple({keep.identity: keep for keep in (*first, *second)}.values())


def kept_tables(keep: Sequence[Keep], table: Callable[[str], ArrowTable | None]) -> dict[str, ArrowTable]:
    """Return the part of each large table that is kept of a run."""
    import fnmatch

    kept = {}
    for one in keep:
        whole = table(one.table)
        if whole is None:
            continue
        name = one.column
        if one.rows:
            names = {
                value
                for value in whole.unique(name)
                if any(fnmatch.fnmatchcase(value, pattern) for pattern in one.rows)
            }
            whole = whole.matching(name, names)
        if one.columns:
            # Which link or flow a row is of is kept in any case.
            columns = dict.fromkeys([name, *one.columns])
            whole = whole.select(list(columns))
        kept[one.identity] = whole
    return kept


@functools.lru_cache(maxsize=1024)
def _digest_at(path: str, changed_ns: int, size: int) -> str:  # noqa: ARG001 - they name the content
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest_of(path: str) -> str:
    try:
        known = Path(path).stat()
        return _digest_at(path, known.st_mtime_ns, known.st_size)
    except OSError as error:
        raise ScenarioError(f"cannot read '{path}', which the scenario names: {error.strerror}") from None
