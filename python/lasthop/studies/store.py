"""The runs of one or several studies in a folder of Parquet files, whole after a kill at any moment.

Runs arrive in parts. A part is a file of the same name in ``flows/``, ``links/``, perhaps ``series/…``, and
last in ``runs/``: that one commits it, and what has none is left over from a process that died. Small parts
are merged into larger ones; the merged part names those that it replaces, so that no run is ever lost or
counted twice. Called by `execute` (writing) and `table` (reading); knows nothing of grids and axes.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import platform
import re
import secrets
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lasthop import _native, columns, unfinished
from lasthop._native import ArrowTable
from lasthop.errors import OutputError
from lasthop.files import check_folder, not_a_pipe, output_errors
from lasthop.seals import SMALL, check_parquet, parquet_parts, warn_unchecked
from lasthop.studies.locks import Shard, locked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

#: Of the parts: files of 1 carry no digests.
FORMAT = 2
RUNS, FLOWS, LINKS, SERIES = "runs", "flows", "links", "series"
#: How parts are called; whatever else lies in a folder is not ours to delete.
PART_NAME = re.compile(r"\d{20}-(all|\d+of\d+)-[0-9a-f]{8}")
TEMPORARY = ".unfinished"
SET_ASIDE = "set-aside"
#: Key of our own words among the metadata of a file in ``runs/``.
METADATA = "lasthop"
#: Parts written since the last merge that make the next one worth while.
MERGE_AT = 64
#: Damaged files that a message names beside the first.
NAMED_MAX = 10
#: Rows of one table that a merge writes into one file, at most: up to 400 bytes each are held at once, and
#: packed. Parts with half as many are left alone.
MERGED_ROWS = 400_000


class GoneError(OutputError):
    """A file that a process at work has merged into another one."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A run to be stored.

    Attributes
    ----------
    run : str
        Its identity.
    seed : int
        Its seed.
    scenario : str
        Its scenario as JSON, without the seed.
    inputs : dict
        SHA-256 of each input file.
    measured : mapping or None
        What it measured: the tables ``runs``, ``flows`` and ``links``; `None` if it failed.
    error : str or None
        Why it failed.
    kept : dict
        Kept tables, by the identity of what is kept.
    """

    run: str
    seed: int
    scenario: str
    inputs: dict[str, str]
    measured: Mapping[str, ArrowTable] | None
    error: str | None = None
    kept: dict[str, ArrowTable] = field(default_factory=dict)

    @property
    def packet_hops(self) -> int:
        """How often a packet crossed a link; 0 if it failed."""
        return 0 if self.measured is None else int(self.measured[RUNS]["packet_hops"][0])


@dataclass(frozen=True, slots=True)
class Part:
    """A committed part; `tables` are those that it has a file of."""

    name: str
    tables: tuple[str, ...]
    replaces: tuple[str, ...]
    engine_version: str
    #: Whether its files carry digests.
    sealed: bool = True

    @property
    def tag(self) -> str:
        """Who wrote it: ``all``, or the mark of a shard."""
        return self.name.split("-")[1]


class Store:
    """A folder of runs.

    Parameters
    ----------
    folder : path
        Need not exist for reading: then there are no runs.
    tag : str
        Mark of the files that this process writes.
    """

    def __init__(self, folder: Path, tag: str = "all") -> None:
        self.folder = folder
        self._tag = tag
        self._fresh: list[str] = []
        #: Files found to be what was written. None is ever written twice under one name.
        self._whole: set[Path] = set()

    # Reading.

    def parts(self) -> list[Part]:
        """Return the committed parts that are whole and not replaced, oldest first."""
        whole = [part for part in self._committed() if not self._missing(part)]
        # A merged part that lost a file counts for nothing: what it replaced may still be there.
        replaced = {name for part in whole for name in part.replaces}
        return [part for part in whole if part.name not in replaced]

    def _committed(self) -> list[Part]:
        parts = []
        for path in sorted((self.folder / RUNS).glob("*.parquet")):
            # Other shards are at work on their own files; those of a whole run stand still meanwhile.
            if self._tag != "all" and path.stem.split("-")[1:2] not in (["all"], [self._tag]):
                continue
            with damage_named(path):
                words = ArrowTable.parquet_footer(not_a_pipe(path))[1].get(METADATA)
                try:
                    content = json.loads(words or "")
                    sealed = content["format"] != 1
                    self._check(path, sealed=sealed)
                    if content["format"] not in (1, FORMAT):
                        raise OutputError(
                            f"'{path}' has format {content['format']}, this lasthop reads {FORMAT}: "
                            "read it with the lasthop that wrote it, or choose another folder"
                        )
                    parts.append(
                        Part(
                            path.stem,
                            tuple(content["tables"]),
                            tuple(content["replaces"]),
                            content["engine_version"],
                            sealed,
                        )
                    )
                except (ValueError, KeyError, TypeError):
                    raise OSError("it was not written by lasthop") from None
        if any(not part.sealed for part in parts):
            warn_unchecked(self.folder / RUNS)
        return parts

    def _check(self, path: Path, *, sealed: bool) -> None:
        """Raise `OSError` if a file is not what was written; only those of format 1 may lack a digest."""
        if path in self._whole:
            return
        if not check_parquet(path) and sealed:
            raise OSError("it has lost its SHA-256")
        self._whole.add(path)

    def _read(
        self, table: str, part: Part, columns: Sequence[str] | None = None, runs: set[str] | None = None
    ) -> ArrowTable:
        """Read a table of a part, checked."""
        path = self._path(table, part.name)
        with damage_named(path):
            self._check(path, sealed=part.sealed)
            return ArrowTable.read_parquet(path, columns, runs)

    def _missing(self, part: Part) -> list[Path]:
        paths = [self._path(table, part.name) for table in part.tables]
        return [path for path in paths if not path.exists()]

    def _path(self, table: str, name: str) -> Path:
        return self.folder / table / f"{name}.parquet"

    def runs(self, columns: Sequence[str] | None = None) -> ArrowTable:
        """Return one row per run; of a run that is there twice, the one that succeeded or keeps most."""
        parts = self.parts()
        owned = self._owners(parts)
        if not owned:
            return ArrowTable.from_columns(
                [("run", "String", []), ("seed", "UInt64", []), ("state", "String", [])]
            )
        return self._gather(RUNS, parts, owned, columns)

    def table(
        self, name: str, runs: Iterable[str], columns: Iterable[str] | None = None
    ) -> ArrowTable | None:
        """Return the rows of some runs in a table; `None` if no part has it.

        Parameters
        ----------
        name : str
            ``flows``, ``links``, or ``series/`` and the identity of what was kept.
        runs : iterable of str
            Identities.
        columns : iterable of str, optional
            Columns wanted; those that no run has are left out.
        """
        parts = [part for part in self.parts() if name in part.tables]
        if not parts:
            return None
        wanted = set(runs)
        owned = {run: part for run, part in self._owners(parts, _kept(name)).items() if run in wanted}
        return self._gather(name, parts, owned, columns)

    def runs_together(self, name: str, runs: Iterable[str], rows: int) -> Iterator[list[str]]:
        """Yield runs whose rows in a table lie together, enough of them for about this many rows.

        Each file is read a few times, not once for each group of runs that happens to have one in it. Runs
        that have no rows come with the last, and nothing is yielded if there are no runs.

        Parameters
        ----------
        name : str
            As for `table`.
        runs : iterable of str
            Identities.
        rows : int
            Rows of a group; a run is never parted.
        """
        parts = [part for part in self.parts() if name in part.tables]
        owners = self._owners(parts, _kept(name))
        runs_of: Counter[str] = Counter(owners.values())
        by_part: dict[str | None, list[str]] = {part.name: [] for part in parts} | {None: []}
        for run in runs:
            by_part[owners.get(run)].append(run)
        group: list[str] = []
        filled = 0.0
        for part in parts:
            of_run = self._height(part, name) / max(1, runs_of[part.name])
            for run in by_part[part.name]:
                if group and filled + of_run > rows:
                    yield group
                    group, filled = [], 0.0
                group.append(run)
                filled += of_run
        if group or by_part[None]:
            yield [*group, *by_part[None]]

    def _owners(self, parts: Sequence[Part], kept: str | None = None) -> dict[str, str]:
        """Which part answers for which run."""
        listed = []
        for part in parts:
            table = self._read(RUNS, part, ["run", "state", "kept"])
            with damage_named(self._path(RUNS, part.name)):
                rows = zip(table["run"], table["state"], table["kept"], strict=True)
            listed += [
                (state == "done", len(keeps), part.name, run)
                for run, state, keeps in rows
                if kept is None or kept in keeps
            ]
        owned: dict[str, str] = {}
        # Of equal ones the last counts.
        for _, _, name, run in sorted(listed, key=lambda one: one[:3]):
            owned.pop(run, None)
            owned[run] = name
        return owned

    def _gather(
        self,
        table: str,
        parts: Iterable[Part],
        owned: Mapping[str, str],
        columns: Iterable[str] | None = None,
    ) -> ArrowTable:
        """Read the rows of a table that each part answers for."""
        named = {part.name: part for part in parts}
        by_part: dict[str, set[str]] = {}
        for run, name in owned.items():
            by_part.setdefault(name, set()).add(run)
        wanted = None if columns is None else ["run", *(one for one in columns if one != "run")]
        pieces = []
        for name, runs in by_part.items():
            piece = self._read(table, named[name], wanted, runs)
            if wanted is not None:
                piece = piece.select([one for one in wanted if one in piece.columns])
            pieces.append(piece)
        return ArrowTable.concat(pieces) if pieces else ArrowTable.from_columns([("run", "String", [])])

    def engine_versions(self) -> set[str]:
        """Return the versions of the engine that made what is there."""
        return {part.engine_version for part in self.parts()}

    def is_small(self) -> bool:
        """Whether all files can be checked in passing."""
        parts = self.parts()
        files = [self._path(table, part.name) for part in parts for table in (RUNS, *part.tables)]
        return sum(file.stat().st_size for file in files if file.exists()) <= SMALL

    def check(self, *, series: bool = False) -> None:
        """Refuse parts with files that are not what was written, whether their columns are wanted now or not.

        Of kept series, which may be large, only the ends are read, which a file that was cut off, or never
        reached the disk, lacks; with `series` all of them.
        """
        damaged: dict[Path, OutputError] = {}
        for part in self.parts():
            for table in part.tables:
                path = self._path(table, part.name)
                try:
                    with damage_named(path):
                        ArrowTable.parquet_footer(not_a_pipe(path))
                        if series or _kept(table) is None:
                            self._check(path, sealed=part.sealed)
                except GoneError:
                    raise
                except OutputError as error:
                    damaged[path] = error
        if damaged:
            first, *others = damaged
            named = ", ".join(f"'{path}'" for path in others[:NAMED_MAX])
            also = f". Damaged as well: {named}" if others else ""
            more = f" and {len(others) - NAMED_MAX} more" if len(others) > NAMED_MAX else ""
            raise OutputError(f"{damaged[first]}{also}{more}")

    # Writing.

    def append(self, entries: Sequence[Entry]) -> None:
        """Store runs: all of them, or none if the disk is full or the process dies."""
        name = self._new_name()
        tables = {
            FLOWS: _rows(entries, FLOWS),
            LINKS: _rows(entries, LINKS),
            **_series(entries),
        }
        contents = {
            table: functools.partial(_itself, content) for table, content in tables.items() if content.height
        }
        self._commit(name, _runs_table(entries), contents, ())
        self._fresh.append(name)
        if len(self._fresh) >= MERGE_AT:
            fresh, self._fresh = set(self._fresh), []
            self._merge_groups([part for part in self.parts() if part.name in fresh])

    def compact(self) -> None:
        """Merge parts that are not large into few; at no moment is a run lost."""
        self._merge_groups([part for part in self.parts() if self._tag in ("all", part.tag)])
        self._fresh = []
        if self._tag == "all":
            # Another shard may be about to write there.
            with suppress(OSError):
                (self.folder / TEMPORARY).rmdir()

    def _merge_groups(self, parts: Sequence[Part]) -> None:
        """Write parts together in groups that are not too large to be held, oldest first."""
        group: list[Part] = []
        rows = 0
        for part in parts:
            more = max(self._height(part, table) for table in (RUNS, *part.tables))
            if more > MERGED_ROWS // 2:
                continue
            if rows + more > MERGED_ROWS:
                self._merge(group)
                group, rows = [], 0
            group.append(part)
            rows += more
        self._merge(group)

    def _height(self, part: Part, table: str) -> int:
        """Return how many rows a part has of a table, as the end of the file says."""
        path = self._path(table, part.name)
        with damage_named(path):
            return ArrowTable.parquet_footer(not_a_pipe(path))[0]

    def _merge(self, parts: Sequence[Part]) -> None:
        """Write one part in place of several."""
        if len(parts) < 2:  # noqa: PLR2004 - one is merged already
            return
        owned = self._owners(parts)
        runs = self._gather(RUNS, parts, owned)
        # A run may have been made again to keep more: what was kept of it before is still there.
        kept: dict[str, set[str]] = {}
        for part in parts:
            table = self._read(RUNS, part, ["run", "kept"])
            for run, keeps in zip(table["run"], table["kept"], strict=True):
                kept.setdefault(run, set()).update(keeps)
        united = [sorted(kept[run]) for run in runs["run"]]
        others = runs.select([name for name in runs.columns if name != "kept"])
        runs = others.beside(ArrowTable.from_columns([("kept", "List(String)", united)]))
        names = dict.fromkeys(table for part in parts for table in part.tables)

        def content(table: str) -> ArrowTable:
            having = [part for part in parts if table in part.tables]
            wanted = _kept(table)
            owners = self._owners(having, wanted)
            if wanted is None:
                # A part without this table may answer for a run: then no other speaks for it.
                owners = {run: name for run, name in owners.items() if owned.get(run) == name}
            return self._gather(table, having, owners)

        replaces = [part.name for part in parts]
        self._commit(
            self._new_name(), runs, {table: functools.partial(content, table) for table in names}, replaces
        )
        self._discard(replaces)

    def _commit(
        self,
        name: str,
        runs: ArrowTable,
        tables: Mapping[str, Callable[[], ArrowTable]],
        replaces: Sequence[str],
    ) -> None:
        """Write every table of a part, and that of its runs last; all of it is on the disk then.

        The tables are asked for one at a time, so that a merge holds no more than one.
        """
        words = {
            "format": FORMAT,
            "tables": list(tables),
            "replaces": list(replaces),
            "engine_version": _native.__version__,
            **versions(),
        }
        written: list[Path] = []
        try:
            for table, made in tables.items():
                content = made()
                written.append(self._path(table, name))
                self._write(content, written[-1], columns.meanings(_declared(table), content.columns), {})
            said = columns.meanings(RUNS, runs.columns)
            self._write(runs, self._path(RUNS, name), said, {METADATA: json.dumps(words)})
        except BaseException:
            # Without its runs a part does not count: no reader should see half of it.
            if not self._path(RUNS, name).exists():
                for path in written:
                    with suppress(OSError):
                        path.unlink()
            raise

    def _write(
        self,
        content: ArrowTable,
        path: Path,
        said: Mapping[str, Mapping[str, str]],
        metadata: dict[str, str],
    ) -> None:
        with room_wanted(), output_errors(path):
            # Beside the tables, not among them: a reader of all files of a folder meets whole ones only.
            temporary = self.folder / TEMPORARY / f"{path.parent.name}-{path.name}"
            for place in (path.parent, temporary.parent):
                if place.is_symlink():
                    raise OutputError(
                        f"'{place}' is a link, and what a study writes stays in its folder: remove the link; "
                        "--out puts the whole folder elsewhere"
                    )
                place.mkdir(parents=True, exist_ok=True)
            try:
                # Through memory: a full disk then comes with the system's own words.
                pieces = parquet_parts(content.to_parquet(said, metadata))
                with temporary.open("wb") as file:
                    file.writelines(pieces)
                unfinished.settle(temporary, path)
            finally:
                with suppress(OSError):
                    temporary.unlink()

    def _new_name(self) -> str:
        return f"{time.time_ns():020}-{self._tag}-{secrets.token_hex(4)}"

    def _discard(self, names: Iterable[str]) -> None:
        for name in names:
            for path in (self._path(RUNS, name), *self._tables_of(name)):
                with suppress(OSError):
                    path.unlink()

    def _tables_of(self, name: str) -> list[Path]:
        return [path for path in self._table_files() if path.stem == name]

    def _table_files(self) -> list[Path]:
        """Return every file that is part of a part, but those in ``runs/``."""
        patterns = (f"{FLOWS}/*.parquet", f"{LINKS}/*.parquet", f"{SERIES}/*/*.parquet")
        return [path for pattern in patterns for path in self.folder.glob(pattern)]

    def clean(self) -> list[str]:
        """Put in order what a process left that died, and what lost a file; return notes for the user.

        Deletes what no committed part needs. What is left of a part that lost a file is moved aside, and its
        runs count as missing.
        """
        notes = []
        committed = [part for part in self._committed() if self._tag in ("all", part.tag)]
        replaced = {name for part in committed if not self._missing(part) for name in part.replaces}
        self._discard(part.name for part in committed if part.name in replaced)
        for part in committed:
            missing = [] if part.name in replaced else self._missing(part)
            if missing:
                notes.append(f"'{missing[0]}' is gone: its runs are made again")
                self._set_aside(part)
        known = {part.name for part in self._committed()}
        for path in self._table_files():
            if path.stem not in known and self._is_mine(path.stem):
                with suppress(OSError):
                    path.unlink()
        if self._tag == "all":
            for place in (self.folder, *self.folder.glob("studies/*/")):
                unfinished.sweep(place)
        for path in (self.folder / TEMPORARY).glob("*"):
            if self._tag == "all" or f"-{self._tag}-" in path.stem:
                with suppress(OSError):
                    path.unlink()
        return notes

    def _is_mine(self, name: str) -> bool:
        match = PART_NAME.fullmatch(name)
        return match is not None and self._tag in ("all", match[1])

    def _set_aside(self, part: Part) -> None:
        for table in (RUNS, *part.tables):
            path = self._path(table, part.name)
            if path.exists():
                target = self.folder / SET_ASIDE / table / path.name
                with output_errors(target):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    path.replace(target)


@contextmanager
def room_wanted() -> Iterator[None]:
    """Say of a file that could not be written what became of the others."""
    try:
        yield
    except OutputError as error:
        raise OutputError(
            f"{error}. What was stored before is whole; make room: 'lasthop study run' goes on with "
            "--resume, 'lasthop reproduce' by itself"
        ) from None


@contextmanager
def opened(folder: Path, shard: Shard | None) -> Iterator[Store]:
    """Give the store for writing, locked: the whole, or one shard of it."""
    check_folder(folder)
    with locked(folder, shard):
        yield Store(folder, "all" if shard is None else shard.tag)


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Name the file that cannot be read, and say what to do."""
    try:
        yield
    except FileNotFoundError:
        raise GoneError(f"'{path}' is gone: a study is at work there; read it again") from None
    except OSError as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise OutputError(
            f"'{path}' is damaged ({why}): move it away and run the study with --resume, which makes its "
            "runs again; nothing else was touched"
        ) from None


@functools.cache
def engine_build() -> str:
    """Twelve hex digits that differ when the compiled engine does; for notes, not for identities."""
    with Path(_native.__file__).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]


@functools.cache
def versions() -> dict[str, str]:
    """Return what made the runs, as it is kept with them."""
    try:
        package = importlib.metadata.version("lasthop")
    except importlib.metadata.PackageNotFoundError:
        package = _native.__version__
    return {
        "lasthop_version": package,
        "engine_version": _native.__version__,
        "engine_build": engine_build(),
        "python_version": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }


def _rows(entries: Iterable[Entry], kind: str) -> ArrowTable:
    measured = [(entry.run, entry.measured) for entry in entries if entry.measured is not None]
    return ArrowTable.concat([tables[kind].led_by("run", run) for run, tables in measured])


def _declared(table: str) -> str:
    """Return what the engine calls a table of the store; a kept one begins with it."""
    return table.removeprefix(f"{SERIES}/").rpartition("-")[0] if table.startswith(SERIES) else table


def _itself(table: ArrowTable) -> ArrowTable:
    return table


def _kept(table: str) -> str | None:
    """Return the identity of what was kept in a table; nothing for the tables of every run."""
    return table.removeprefix(f"{SERIES}/") if table.startswith(SERIES) else None


def _series(entries: Iterable[Entry]) -> dict[str, ArrowTable]:
    gathered: dict[str, list[ArrowTable]] = {}
    for entry in entries:
        for kept, table in entry.kept.items():
            gathered.setdefault(f"{SERIES}/{kept}", []).append(table.led_by("run", entry.run))
    return {name: ArrowTable.concat(tables) for name, tables in gathered.items()}


def _runs_table(entries: Sequence[Entry]) -> ArrowTable:
    made = datetime.now(UTC).isoformat(timespec="seconds")
    count = len(entries)
    first = ArrowTable.from_columns(
        [
            ("run", "String", [entry.run for entry in entries]),
            ("seed", "UInt64", [entry.seed for entry in entries]),
            ("state", "String", ["failed" if entry.measured is None else "done" for entry in entries]),
            ("error", "String", [entry.error for entry in entries]),
        ]
    )
    last = ArrowTable.from_columns(
        [
            ("scenario", "String", [entry.scenario for entry in entries]),
            ("inputs", "String", [json.dumps(entry.inputs, sort_keys=True) for entry in entries]),
            ("kept", "List(String)", [sorted(entry.kept) for entry in entries]),
            ("made", "String", [made] * count),
            *((name, "String", [version] * count) for name, version in versions().items()),
        ]
    )
    figures = _rows(entries, RUNS)
    if not figures.height:
        figures = columns.table_of(RUNS, []).led_by("run", "")
    # A run that failed has no figures.
    place = {run: number for number, run in enumerate(figures["run"])}
    names = [name for name in figures.columns if name not in {"run", "seed", "set_up_s"}]
    measured = figures.select(names).take([place.get(entry.run) for entry in entries])
    return first.beside(measured).beside(last)
