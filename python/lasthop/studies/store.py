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
import io
import json
import os
import platform
import re
import secrets
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop import _native, columns
from lasthop.errors import OutputError
from lasthop.output import TEMPORARY_PREFIX, check_folder, output_errors
from lasthop.studies.locks import Shard, locked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import polars as pl

FORMAT = 1
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
#: Parts with more than this are left alone, unless a run of theirs is there twice.
LARGE_BYTES = 256 << 20


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
    measured: Mapping[str, pl.DataFrame] | None
    error: str | None = None
    kept: dict[str, pl.DataFrame] = field(default_factory=dict)

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

    # Reading.

    def parts(self) -> list[Part]:
        """Return the committed parts that are whole and not replaced, oldest first."""
        whole = [part for part in self._committed() if not self._missing(part)]
        # A merged part that lost a file speaks for nobody: what it replaced may still be there.
        replaced = {name for part in whole for name in part.replaces}
        return [part for part in whole if part.name not in replaced]

    def _committed(self) -> list[Part]:
        import polars as pl

        parts = []
        for path in sorted((self.folder / RUNS).glob("*.parquet")):
            # Other shards are at work on their own files; those of a whole run stand still meanwhile.
            if self._tag != "all" and path.stem.split("-")[1:2] not in (["all"], [self._tag]):
                continue
            with damage_named(path):
                words = pl.read_parquet_metadata(path).get(METADATA)
                try:
                    content = json.loads(words or "")
                    if content["format"] != FORMAT:
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
                        )
                    )
                except (ValueError, KeyError, TypeError):
                    raise OSError("it was not written by lasthop") from None
        return parts

    def _missing(self, part: Part) -> list[Path]:
        paths = [self._path(table, part.name) for table in part.tables]
        return [path for path in paths if not path.exists()]

    def _path(self, table: str, name: str) -> Path:
        return self.folder / table / f"{name}.parquet"

    def runs(self, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return one row per run; of a run that is there twice, the one that succeeded or keeps most."""
        import polars as pl

        owned = self._owners(self.parts())
        if owned.is_empty():
            return pl.DataFrame(schema={"run": pl.String, "seed": pl.UInt64, "state": pl.String})
        return self._gather(RUNS, owned, columns)

    def table(
        self, name: str, runs: Iterable[str], columns: Iterable[str] | None = None
    ) -> pl.DataFrame | None:
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
        kept = name.removeprefix(f"{SERIES}/") if name.startswith(SERIES) else None
        owned = self._owners(parts, kept)
        import polars as pl

        wanted = pl.DataFrame({"run": list(runs)}, schema={"run": pl.String})
        return self._gather(name, owned.join(wanted, on="run", how="semi"), columns)

    def _owners(self, parts: Sequence[Part], kept: str | None = None) -> pl.DataFrame:
        """Which part answers for which run."""
        import polars as pl

        listed = []
        for part in parts:
            path = self._path(RUNS, part.name)
            with damage_named(path):
                table = pl.read_parquet(path, columns=["run", "state", "kept"])
            listed.append(table.with_columns(pl.lit(part.name).alias("part")))
        if not listed:
            return pl.DataFrame(schema={"run": pl.String, "part": pl.String})
        table = pl.concat(listed)
        if kept is not None:
            table = table.filter(pl.col("kept").list.contains(kept))
        return (
            table.with_columns(
                (pl.col("state") == "done").alias("_done"), pl.col("kept").list.len().alias("_kept")
            )
            .sort("_done", "_kept", "part", maintain_order=True)
            .unique("run", keep="last", maintain_order=True)
            .select("run", "part")
        )

    def _gather(self, table: str, owned: pl.DataFrame, columns: Iterable[str] | None = None) -> pl.DataFrame:
        """Read the rows of a table that each part answers for."""
        import polars as pl

        pieces = []
        for (name,), runs in owned.group_by("part", maintain_order=True):
            path = self._path(table, str(name))
            with damage_named(path):
                lazy = pl.scan_parquet(path)
                if columns is not None:
                    present = lazy.collect_schema().names()
                    lazy = lazy.select("run", *(one for one in columns if one in present and one != "run"))
                pieces.append(
                    lazy.join(
                        runs.lazy().select("run"), on="run", how="semi", maintain_order="left"
                    ).collect()
                )
        return (
            pl.concat(pieces, how="diagonal_relaxed") if pieces else pl.DataFrame(schema={"run": pl.String})
        )

    def engine_versions(self) -> set[str]:
        """Return the versions of the engine that made what is there."""
        return {part.engine_version for part in self.parts()}

    def check(self) -> None:
        """Refuse parts with files that cannot be read, whether anybody wants their columns now or not.

        Reads the ends of the files only, which a file that was cut off, or never reached the disk, lacks.
        """
        import polars as pl

        damaged: dict[Path, OutputError] = {}
        for path in (self._path(table, part.name) for part in self.parts() for table in part.tables):
            try:
                with damage_named(path):
                    pl.read_parquet_metadata(path)
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
        tables = {table: content for table, content in tables.items() if content.height}
        self._commit(name, _runs_frame(entries), tables, ())
        self._fresh.append(name)
        if len(self._fresh) >= MERGE_AT:
            fresh, self._fresh = set(self._fresh), []
            self._merge([part for part in self.parts() if part.name in fresh])

    def compact(self) -> None:
        """Merge all parts that are not large into one; at no moment is a run lost."""
        parts = [part for part in self.parts() if self._tag in ("all", part.tag)]
        owned = self._owners(parts)
        counts = dict(owned.group_by("part").len().iter_rows())
        small = [
            part
            for part in parts
            if self._size(part) < LARGE_BYTES or counts.get(part.name, 0) < self._height(part)
        ]
        if len(small) > 1:
            self._merge(small)
        self._fresh = []
        if self._tag == "all":
            # Another shard may be about to write there.
            with suppress(OSError):
                (self.folder / TEMPORARY).rmdir()

    def _size(self, part: Part) -> int:
        return sum(self._path(table, part.name).stat().st_size for table in (RUNS, *part.tables))

    def _height(self, part: Part) -> int:
        import polars as pl

        path = self._path(RUNS, part.name)
        with damage_named(path):
            return int(pl.scan_parquet(path).select(pl.len()).collect().item())

    def _merge(self, parts: Sequence[Part]) -> None:
        """Write one part in place of several."""
        import polars as pl

        owned = self._owners(parts)
        runs = self._gather(RUNS, owned)
        # A run may have been made again to keep more: what was kept of it before is still there.
        kept = (
            pl.concat(
                [pl.read_parquet(self._path(RUNS, part.name), columns=["run", "kept"]) for part in parts]
            )
            .explode("kept")
            .drop_nulls()
            .group_by("run")
            .agg(pl.col("kept").unique().sort())
        )
        empty = pl.lit([], dtype=pl.List(pl.String))
        runs = (
            runs.drop("kept").join(kept, on="run", how="left").with_columns(pl.col("kept").fill_null(empty))
        )
        names = dict.fromkeys(table for part in parts for table in part.tables)

        def content(table: str) -> pl.DataFrame:
            having = [part for part in parts if table in part.tables]
            wanted = table.removeprefix(f"{SERIES}/") if table.startswith(SERIES) else None
            owners = self._owners(having, wanted)
            if wanted is None:
                # A part without this table may answer for a run: then no other speaks for it.
                owners = owners.join(owned, on=["run", "part"], how="semi")
            return self._gather(table, owners)

        replaces = [part.name for part in parts]
        self._commit(self._new_name(), runs, {table: content(table) for table in names}, replaces)
        self._discard(replaces)

    def _commit(
        self,
        name: str,
        runs: pl.DataFrame,
        tables: Mapping[str, pl.DataFrame],
        replaces: Sequence[str],
    ) -> None:
        """Write every table of a part, and that of its runs last; all of it is on the disk then."""
        words = {
            "format": FORMAT,
            "tables": list(tables),
            "replaces": list(replaces),
            "engine_version": _native.__version__,
            **versions(),
        }
        written: list[Path] = []
        try:
            for table, content in tables.items():
                written.append(self._path(table, name))
                self._write(content, written[-1], columns.meanings(_declared(table), content.columns), {})
            said = columns.meanings(RUNS, runs.columns)
            self._write(runs, self._path(RUNS, name), said, {METADATA: json.dumps(words)})
        except BaseException:
            # Without its runs a part does not count: nobody should read half of it.
            if not self._path(RUNS, name).exists():
                for path in written:
                    with suppress(OSError):
                        path.unlink()
            raise
        # A name that a power cut takes costs runs, unless what they were merged from is deleted next.
        for table in (*tables, RUNS) if replaces else (RUNS,):
            _sync_folder(self.folder / table)

    def _write(
        self,
        content: pl.DataFrame,
        path: Path,
        said: Mapping[str, Mapping[str, str]],
        metadata: dict[str, str],
    ) -> None:
        with room_wanted(), output_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            # Beside the tables, not among them: whoever reads all files of a folder meets whole ones only.
            unfinished = self.folder / TEMPORARY / f"{path.parent.name}-{path.name}"
            unfinished.parent.mkdir(exist_ok=True)
            try:
                # Through memory: a full disk then comes with the system's own words.
                buffer = io.BytesIO()
                schema = columns.arrow_schema(content, said)
                content.write_parquet(buffer, arrow_schema=schema, metadata=metadata)
                with unfinished.open("wb") as file:
                    file.write(buffer.getbuffer())
                    file.flush()
                    os.fsync(file.fileno())
                unfinished.replace(path)
            finally:
                with suppress(OSError):
                    unfinished.unlink()

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
            for place in ("", "studies/*/"):
                for path in self.folder.glob(f"{place}{TEMPORARY_PREFIX}*"):
                    with suppress(OSError):
                        path.unlink()
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


def _sync_folder(folder: Path) -> None:
    """Force the names in a folder to the disk, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def room_wanted() -> Iterator[None]:
    """Say of a file that could not be written what became of the others."""
    try:
        yield
    except OutputError as error:
        raise OutputError(f"{error}. What was stored before is whole; make room and use --resume") from None


@contextmanager
def opened(folder: Path, shard: Shard | None) -> Iterator[Store]:
    """Give the store for writing, locked: the whole, or one shard of it."""
    check_folder(folder)
    with locked(folder, shard):
        yield Store(folder, "all" if shard is None else shard.tag)


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Name the file that cannot be read, and say what to do."""
    from polars.exceptions import PanicException, PolarsError

    try:
        yield
    except FileNotFoundError:
        raise OutputError(f"'{path}' is gone: a study is at work there; read it again") from None
    except (PolarsError, PanicException, OSError) as error:
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


def _rows(entries: Iterable[Entry], kind: str) -> pl.DataFrame:
    import polars as pl

    tables = [
        entry.measured[kind].select(pl.lit(entry.run).alias("run"), pl.all())
        for entry in entries
        if entry.measured is not None
    ]
    return pl.concat(tables, how="diagonal") if tables else pl.DataFrame()


def _declared(table: str) -> str:
    """Return what the engine calls a table of the store; a kept one begins with it."""
    return table.removeprefix(f"{SERIES}/").rpartition("-")[0] if table.startswith(SERIES) else table


def _series(entries: Iterable[Entry]) -> dict[str, pl.DataFrame]:
    import polars as pl

    gathered: dict[str, list[pl.DataFrame]] = {}
    for entry in entries:
        for kept, table in entry.kept.items():
            run = pl.lit(entry.run).alias("run")
            gathered.setdefault(f"{SERIES}/{kept}", []).append(table.select(run, pl.all()))
    return {name: pl.concat(tables) for name, tables in gathered.items()}


def _runs_frame(entries: Sequence[Entry]) -> pl.DataFrame:
    import polars as pl

    made = datetime.now(UTC).isoformat(timespec="seconds")
    rows = [
        {
            "run": entry.run,
            "seed": entry.seed,
            "state": "failed" if entry.measured is None else "done",
            "error": entry.error,
            "scenario": entry.scenario,
            "inputs": json.dumps(entry.inputs, sort_keys=True),
            "kept": sorted(entry.kept),
            "made": made,
            **versions(),
        }
        for entry in entries
    ]
    types: dict[str, Any] = {"seed": pl.UInt64, "error": pl.String, "kept": pl.List(pl.String)}
    table = pl.DataFrame(rows, infer_schema_length=None, schema_overrides=types)
    figures = _rows(entries, RUNS)
    if figures.is_empty():
        figures = columns.frame(RUNS, []).select(pl.lit("").alias("run"), pl.all()).clear()
    figures = figures.drop("seed", "set_up_s")
    first = ("run", "seed", "state", "error")
    joined = table.join(figures, on="run", how="left", maintain_order="left")
    return joined.select(*first, *figures.columns[1:], *(name for name in table.columns if name not in first))
