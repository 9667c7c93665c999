"""Files: where results are written (checked before anything runs, never half written) and read back.

Every file is written under a temporary name and renamed when complete; ``result.json`` goes last, so a folder
that has one is whole. Called by the command line and by `Runs.save`, `Comparison.save` and
`lasthop.load_runs`.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import tempfile
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop import _native, columns, unfinished
from lasthop.errors import ArgumentError, OutputError
from lasthop.places import (
    COMPARISON,
    RESULT,
    TABLE_FORMATS,
    capture_file,
    captures_in,
    is_table,
    not_captured,
    reserved,
)
from lasthop.results import Run, Runs, arrow_of
from lasthop.seals import FILES_KEY, SMALL, DamagedError, Seals, checked, digest_of, sealed, warn_unchecked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import polars as pl

    from lasthop._native import ArrowTable
    from lasthop.comparison import Comparison
    from lasthop.results import Table

FORMATS = TABLE_FORMATS
LARGE_TABLES = tuple(columns.on_demand())


def check_format(table_format: str) -> None:
    """Refuse a table format that is not one of `FORMATS`."""
    if table_format not in FORMATS:
        from lasthop.formats import FORMATS as PAPER_FORMATS

        hint = f"; --table {table_format} prints one for a paper" if table_format in PAPER_FORMATS else ""
        raise ArgumentError(f"unknown table format {table_format!r}: use one of {', '.join(FORMATS)}{hint}")


def check_folder(folder: str | Path) -> None:
    """Make the folder if need be and refuse it if nothing can be written in it."""
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise OutputError(f"cannot write results in '{path}': it is a file, not a folder")
    try:
        path.mkdir(parents=True, exist_ok=True)
        _probe(path)
    except OSError as error:
        raise OutputError(
            f"cannot write results in '{path}': {reason_of(error)}; choose a folder that you may write to"
        ) from None


def check_file(file: str | Path, *, replace: bool = True) -> None:
    """Refuse a file that cannot be written, or without `replace` one that is there and not empty."""
    path = Path(file)
    if path.is_dir():
        raise OutputError(f"cannot write '{path}': it is a folder, not a file")
    if path.exists() and not path.is_file():
        return  # A pipe or a device takes what it is given.
    if not replace and path.exists() and path.stat().st_size > 0:
        raise OutputError(
            f"'{path}' is already there and would be lost: choose another name, or say --force to replace it"
        )
    if not path.parent.is_dir():
        raise OutputError(f"cannot write '{path}': the folder '{path.parent}' does not exist")
    try:
        _probe(path.parent)
    except OSError as error:
        raise OutputError(
            f"cannot write '{path}': {reason_of(error)}; choose a place that you may write to"
        ) from None


def write_text(file: str | Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    path = Path(file)
    if path.exists() and not path.is_file():
        with output_errors(path):
            path.write_text(text, encoding="utf-8")
        return
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path` that takes its place when the block ends well."""
    with output_errors(path), unfinished.file_beside(path) as temporary:
        yield temporary
        temporary.chmod(0o666 & ~umask())
        unfinished.settle(temporary, path)


def write_table(
    table: Table,
    path: Path,
    table_format: str,
    meanings: Mapping[str, Mapping[str, str]] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write one table in the format chosen, whole or not at all.

    In Parquet each column carries its unit, label and meaning, and the file what else is said of it.
    """
    # Made in memory: a full disk then comes with the system's own words.
    content = packed(table, table_format, meanings or {}, metadata or {})
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def packed(
    table: Table,
    table_format: str,
    meanings: Mapping[str, Mapping[str, str]],
    metadata: Mapping[str, str],
) -> bytes:
    """Return what `write_table` writes."""
    arrow = arrow_of(table)
    if table_format == "parquet":
        return arrow.to_parquet(meanings, metadata)
    return arrow.to_csv() if table_format == "csv" else arrow.to_ipc()


def about(scenario: Mapping[str, Any], engine_version: str, seeds: Sequence[int]) -> dict[str, str]:
    """Return what Parquet says a table is of: the scenario and the seeds as JSON, and the engine's version.

    Examples
    --------
    >>> about({"name": "lab"}, "0.1.0", [1, 2])
    {'lasthop.scenario': '{"name": "lab"}', 'lasthop.seeds': '[1, 2]', 'lasthop.engine_version': '0.1.0'}
    """
    return {
        "lasthop.scenario": json.dumps(scenario),
        "lasthop.seeds": json.dumps(list(seeds)),
        "lasthop.engine_version": engine_version,
    }


def save_runs(
    runs: Runs,
    folder: str | Path,
    table_format: str = "parquet",
    *,
    force: bool = False,
    held: bool = False,
    more: Mapping[str, object] | None = None,
) -> None:
    """Write result.json, the tables in the format chosen, and the captures of each seed.

    A folder that holds results is refused but for `force`; with `held` the caller has it reserved. Anything
    in `more` becomes a further key of result.json.
    """
    check_format(table_format)
    path = Path(folder)
    with nullcontext() if held else reserved(path, force=force), _replacing_results(path) as made:
        large = [name for name in LARGE_TABLES if runs[0].has_table(name)]
        of = about(runs.scenario, runs[0].engine_version, runs.seeds)
        for name in ("flows", "links", *large):
            target = f"{name}.{table_format}"
            parts = [part for run in runs if (part := run.table_file(name)) is not None]
            if len(parts) == len(runs):
                with made.file(target) as temporary:
                    _native.join_tables(parts, temporary, table_format, of)
            else:
                table = runs.table(name)
                made.table(target, table, table_format, columns.meanings(name, table.columns), of)
        for run in runs:
            for place in run.captured_at:
                with made.file(capture_file(place, run.seed if len(runs) > 1 else None)) as temporary:
                    run.write_pcapng(temporary, place)
        made.describe(RESULT, runs.to_dict() | dict(more or {}))


class _Results:
    """The files of a run or a comparison on their way into a folder."""

    def __init__(self, folder: Path, together: unfinished.Together) -> None:
        self._folder = folder
        self._together = together
        self._files: dict[str, Path] = {}

    @contextmanager
    def file(self, name: str) -> Iterator[Path]:
        """Give a temporary path for a file, which may be read by others afterwards."""
        with output_errors(self._folder / name):
            self._files[name] = self._together.file(self._folder / name)
            yield self._files[name]
            self._files[name].chmod(0o666 & ~umask())

    def table(
        self,
        name: str,
        table: Table,
        table_format: str,
        meanings: Mapping[str, Mapping[str, str]],
        metadata: Mapping[str, str],
    ) -> None:
        """Write a table."""
        content = packed(table, table_format, meanings, metadata)
        with self.file(name) as temporary:
            temporary.write_bytes(content)

    def describe(self, name: str, content: Mapping[str, Any]) -> None:
        """Write the description with the digests of all files, and put all of them in place."""
        digests = {file: digest_of(self._files[file]) for file in sorted(self._files)}
        with self.file(name) as temporary:
            temporary.write_text(sealed({**content, FILES_KEY: digests}), encoding="utf-8")
        old = {file for file in self._folder.iterdir() if is_table(file.name)}
        old |= {self._folder / other for other in (RESULT, COMPARISON)}
        with output_errors(self._folder / name):
            self._together.settle(old - {self._folder / file for file in self._files})


@contextmanager
def _replacing_results(folder: Path) -> Iterator[_Results]:
    """Give the means to replace all results in a folder; until the end what was there stays as it is."""
    with unfinished.Together() as together:
        yield _Results(folder, together)


def load_runs(folder: str | Path) -> Runs:
    """Read what `save_runs` wrote; the large tables are read when asked for."""
    path = Path(folder)
    content, seals = _load(path, RESULT)
    try:
        return Runs(
            Run(
                record,
                content["scenario"],
                content["engine_version"],
                SavedTables(path, record["seed"], seals),
            )
            for record in content["runs"]
        )
    except (KeyError, TypeError, ArgumentError) as error:
        raise _damaged(path / RESULT, _lack(error)) from None


def save_comparison(
    comparison: Comparison,
    folder: str | Path,
    table_format: str = "parquet",
    *,
    force: bool = False,
    held: bool = False,
) -> None:
    """Write comparison.json and its two tables; `force` and `held` as for `save_runs`."""
    check_format(table_format)
    path = Path(folder)
    with nullcontext() if held else reserved(path, force=force), _replacing_results(path) as made:
        of = about(comparison.scenario, comparison.engine_version, comparison.seeds)
        names = ["means", "differences", *(["flow_series", "link_series"] if comparison.has_series else [])]
        for name in names:
            table = comparison.table(name)
            meanings = columns.meanings(name, table.columns)
            made.table(f"{name}.{table_format}", table, table_format, meanings, of)
        made.describe(COMPARISON, comparison.to_dict())


def load_comparison(folder: str | Path) -> Comparison:
    """Read what `save_comparison` wrote."""
    from lasthop.comparison import SERIES, Axes, Comparison, Promises, choose_metrics

    path = Path(folder)
    content, seals = _load(path, COMPARISON)
    try:
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in content["transports"]}
        for record in content["runs"]:
            runs[record["transport"]].append(record)
        asked = content.get("metrics")
        metrics = None if asked is None else choose_metrics(asked)
        series = {
            name: partial(_found_table, path, name, seals) for name in SERIES if _has_table(path, name, seals)
        }
        axes = Axes(tuple(content["senders"]), tuple(content["helpers"])) if "helpers" in content else None
        comparison = Comparison(
            content["scenario"], content["engine_version"], runs, content["baseline"], metrics, series, axes
        )
        if "law" in content:
            comparison.promises = Promises.of_dict(content["law"])
    except (KeyError, TypeError) as error:
        raise _damaged(path / COMPARISON, _lack(error)) from None
    return comparison


def check_saved(folder: str | Path) -> None:
    """Raise `OutputError`, with the remedy, if a saved run or comparison could not be read back."""
    from lasthop._native import ArrowTable

    path = Path(folder)
    if is_comparison(path):
        load_comparison(path)
    else:
        load_runs(path)
    _, seals = _load(path, COMPARISON if is_comparison(path) else RESULT)
    for name in seals.names():
        _check(seals, path / name)
    for table in sorted(path.glob("*.parquet")):
        try:
            ArrowTable.parquet_footer(table)
        except OSError as error:
            raise _damaged(table, str(error).splitlines()[0]) from None


def is_comparison(folder: str | Path) -> bool:
    """Whether the folder holds a comparison rather than a run."""
    path = Path(folder)
    return (path / COMPARISON).exists() and not (path / RESULT).exists()


class SavedTables:
    """The large tables of one run in a saved folder."""

    def __init__(self, folder: Path, seed: int, seals: Seals) -> None:
        self._folder = folder
        self._seed = seed
        self._seals = seals

    def summary(self, name: str) -> ArrowTable | None:  # noqa: ARG002 - as other sources have it
        """Return nothing: the JSON has it in full, which not every table format can say."""
        return None

    def has(self, name: str) -> bool:
        """Whether the folder has the table called `name`."""
        return _has_table(self._folder, name, self._seals)

    def file(self, name: str) -> Path | None:  # noqa: ARG002 - as other sources have it
        """Return nothing: a file of the folder holds all seeds."""
        return None

    def table(self, name: str) -> pl.DataFrame | None:
        """Return the table called `name`, or `None` if the folder has none."""
        return _read_table(self._folder, name, self._seals, self._seed)

    def captured_at(self) -> list[str]:
        """Return the places of the captures of this seed."""
        return list(captures_in(self._folder, self._seed))

    def write_pcapng(self, path: Path, at: str) -> None:
        """Copy a capture of this seed."""
        captures = captures_in(self._folder, self._seed)
        if at not in captures:
            raise not_captured(at, list(captures))
        _check(self._seals, captures[at])
        shutil.copyfile(captures[at], path)


def _has_table(folder: Path, name: str, seals: Seals) -> bool:
    files = [f"{name}.{table_format}" for table_format in FORMATS]
    return any(file in seals.names() or (folder / file).exists() for file in files)


def _found_table(folder: Path, name: str, seals: Seals) -> pl.DataFrame:
    table = _read_table(folder, name, seals)
    if table is None:
        raise _lost(folder, name)
    return table


def _lost(folder: Path, name: str) -> OutputError:
    return OutputError(f"'{folder}' has lost its {name}: {_remedy(folder)}")


def _read_table(folder: Path, name: str, seals: Seals, seed: int | None = None) -> pl.DataFrame | None:
    """Return the table called `name` of a saved folder, or the rows of one seed; `None` if it has none."""
    from lasthop.extras import pl

    readers: dict[str, Callable[[Path | io.BytesIO], pl.LazyFrame]] = {
        "parquet": pl.scan_parquet,
        "csv": pl.scan_csv,
        "arrow": pl.scan_ipc,
    }
    for table_format, scan in readers.items():
        path = folder / f"{name}.{table_format}"
        if path.name in seals.names() or path.exists():
            if not path.exists():
                raise _lost(folder, name)
            _check(seals, path)
            try:
                rows = scan(path if _is_utf8(path) else io.BytesIO(path.read_bytes()))
                return (rows if seed is None else rows.filter(pl.col("seed") == seed).drop("seed")).collect()
            except (pl.exceptions.PolarsError, OSError) as error:
                raise _damaged(path, str(error).splitlines()[0]) from None
    return None


def _is_utf8(path: Path) -> bool:
    """Whether Polars, which takes names as text, can open a file by its name."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _load(folder: Path, name: str) -> tuple[dict[str, Any], Seals]:
    """Read the description of saved results, and check the files beside it, large ones when they are read."""
    if not folder.exists():
        raise OutputError(f"no run at '{folder}': there is no such folder")
    path = folder / name
    if not path.exists():
        raise OutputError(
            f"no run at '{folder}': it has no {name}; 'lasthop run FILE --out DIR' makes such a folder"
        )
    try:
        content, has_digests = checked(path.read_bytes())
    except OSError as error:
        raise OutputError(f"cannot read '{path}': {reason_of(error)}") from None
    except DamagedError as error:
        raise _damaged(path, str(error)) from None
    if not has_digests:
        warn_unchecked(path)
        return content, Seals(folder, None)
    seals = Seals(folder, content.get(FILES_KEY, {}))
    there = [file for name in seals.names() if (file := folder / name).exists()]
    for file in there if sum(file.stat().st_size for file in there) <= SMALL else ():
        _check(seals, file)
    return content, seals


def _check(seals: Seals, path: Path) -> None:
    try:
        seals.check(path.name)
    except DamagedError as error:
        raise _damaged(path, str(error)) from None
    except OSError as error:
        raise OutputError(f"cannot read '{path}': {reason_of(error)}") from None


def _damaged(path: Path, why: str) -> OutputError:
    return OutputError(f"'{path}' is damaged ({why}): {_remedy(path.parent)}")


def _lack(error: Exception) -> str:
    """Say what a file lacks whose content could not be taken."""
    return f"it has no {error}" if isinstance(error, KeyError) else "it holds something else than it should"


def _remedy(folder: Path) -> str:
    """Name the command that makes the folder of a run or a comparison anew."""
    command = "compare" if is_comparison(folder) else "run"
    return f"'lasthop {command} FILE --out {folder} --force' makes it anew, with the options that it had"


def _probe(folder: Path) -> None:
    """Write nothing in a folder, and put away what a killed process left there."""
    unfinished.sweep(folder)
    with tempfile.TemporaryFile(dir=folder, prefix=unfinished.PREFIX):
        pass


@contextmanager
def output_errors(path: Path) -> Iterator[None]:
    """Name the file that could not be written, and why."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot write '{path}': {reason_of(error)}") from None


def reason_of(error: OSError) -> str:
    """Return the system's reason alone, in lower case."""
    # Errors that come from the native module have only a text, which ends in the reason.
    text = error.strerror or str(error).rpartition(": ")[2].partition(" (os error")[0]
    return text.lower()


def read_at_most(path: Path, most: int) -> bytes | None:
    """Return the content of a file; `None` if it has more bytes than that, since a device has no end."""
    with path.open("rb") as file:
        content = file.read(most + 1)
    return content if len(content) <= most else None


def umask() -> int:
    """Return the bits that new files of this process do not get."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
