"""Files: where results are written (checked before anything runs, never half written) and read back.

Every file is written under a temporary name and renamed when complete; ``result.json`` goes last, so a folder
that has one is whole. Called by the command line and by `Runs.save`, `Comparison.save` and
`lasthop.load_runs`.
"""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop.errors import ArgumentError, OutputError
from lasthop.results import TABLE_SWITCH, Run, Runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import polars as pl

    from lasthop.comparison import Comparison

FORMATS = ("parquet", "csv", "arrow")
RESULT = "result.json"
COMPARISON = "comparison.json"
LARGE_TABLES = tuple(TABLE_SWITCH)
TEMPORARY_PREFIX = ".lasthop-"


def check_format(table_format: str) -> None:
    """Refuse a table format that is not one of `FORMATS`."""
    if table_format not in FORMATS:
        raise ArgumentError(f"unknown table format {table_format!r}: use one of {', '.join(FORMATS)}")


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


def check_file(file: str | Path) -> None:
    """Refuse a file that cannot be written."""
    path = Path(file)
    if path.is_dir():
        raise OutputError(f"cannot write '{path}': it is a folder, not a file")
    if path.exists() and not path.is_file():
        return  # A pipe or a device takes what it is given.
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
    with output_errors(path):
        with tempfile.NamedTemporaryFile(
            dir=path.parent, prefix=TEMPORARY_PREFIX, suffix=path.suffix, delete=False
        ) as handle:
            temporary = Path(handle.name)
        try:
            yield temporary
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink()


def write_table(table: pl.DataFrame, path: Path, table_format: str) -> None:
    """Write one table in the format chosen, whole or not at all."""
    from polars.exceptions import PolarsError

    with replacing(path) as temporary:
        try:
            if table_format == "parquet":
                table.write_parquet(temporary)
            elif table_format == "csv":
                table.write_csv(temporary)
            else:
                table.write_ipc(temporary)
        except PolarsError as error:
            # A full disk, for one, reaches us in this guise.
            raise OSError(str(error)) from None


def save_runs(runs: Runs, folder: str | Path, table_format: str = "parquet", **more: object) -> None:
    """Write result.json, the tables in the format chosen, and a capture per seed where there is a trace.

    Anything in `more` becomes a further key of result.json.
    """
    check_format(table_format)
    check_folder(folder)
    path = Path(folder)
    # Without result.json the folder is not a run: it goes first and comes last.
    with output_errors(path):
        stale = {file for file in path.iterdir() if _is_ours(file.name)}
        (path / RESULT).unlink(missing_ok=True)
    written = {path / RESULT}
    tables = {"flows": runs.flows, "links": runs.links}
    for name in LARGE_TABLES:
        if runs[0].has_table(name):
            tables[name] = _over_seeds(runs, name)
    for name, table in tables.items():
        target = path / f"{name}.{table_format}"
        write_table(table, target, table_format)
        written.add(target)
    if runs[0].has_table("hops"):
        for run in runs:
            target = path / (f"capture-{run.seed}.pcapng" if len(runs) > 1 else "capture.pcapng")
            run.write_pcapng(target)
            written.add(target)
    with output_errors(path):
        for file in stale - written:
            file.unlink(missing_ok=True)
    write_text(path / RESULT, json.dumps(runs.to_dict() | more, indent=1) + "\n")


def load_runs(folder: str | Path) -> Runs:
    """Read what `save_runs` wrote; the large tables are read when asked for."""
    path = Path(folder)
    content = _load(path, RESULT)
    try:
        return Runs(
            Run(record, content["scenario"], content["engine_version"], SavedTables(path, record["seed"]))
            for record in content["runs"]
        )
    except (KeyError, TypeError, ArgumentError) as error:
        raise _damaged(path / RESULT, f"{type(error).__name__}: {error}") from None


def save_comparison(comparison: Comparison, folder: str | Path, table_format: str = "parquet") -> None:
    """Write comparison.json and its two tables."""
    check_format(table_format)
    check_folder(folder)
    path = Path(folder)
    write_table(comparison.means, path / f"means.{table_format}", table_format)
    write_table(comparison.differences, path / f"differences.{table_format}", table_format)
    write_text(path / COMPARISON, json.dumps(comparison.to_dict(), indent=1) + "\n")


def load_comparison(folder: str | Path) -> Comparison:
    """Read what `save_comparison` wrote."""
    from lasthop.comparison import Comparison

    path = Path(folder)
    content = _load(path, COMPARISON)
    try:
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in content["transports"]}
        for record in content["runs"]:
            runs[record["transport"]].append(record)
        return Comparison(content["scenario"], content["engine_version"], runs, content["baseline"])
    except (KeyError, TypeError) as error:
        raise _damaged(path / COMPARISON, f"{type(error).__name__}: {error}") from None


def is_comparison(folder: str | Path) -> bool:
    """Whether the folder holds a comparison rather than a run."""
    path = Path(folder)
    return (path / COMPARISON).exists() and not (path / RESULT).exists()


class SavedTables:
    """The large tables of one run in a saved folder."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._seed = seed

    def table(self, name: str) -> pl.DataFrame | None:
        """Return the table called `name`, or `None` if the folder has none."""
        import polars as pl

        readers: dict[str, Callable[[Path], pl.LazyFrame]] = {
            "parquet": pl.scan_parquet,
            "csv": pl.scan_csv,
            "arrow": pl.scan_ipc,
        }
        for table_format, scan in readers.items():
            path = self._folder / f"{name}.{table_format}"
            if path.exists():
                try:
                    return scan(path).filter(pl.col("seed") == self._seed).drop("seed").collect()
                except (pl.exceptions.PolarsError, OSError) as error:
                    raise _damaged(path, str(error).splitlines()[0]) from None
        return None

    def write_pcapng(self, path: Path) -> None:
        """Copy the capture of this seed."""
        names = (f"capture-{self._seed}.pcapng", "capture.pcapng")
        saved = next((self._folder / name for name in names if (self._folder / name).exists()), None)
        if saved is None:
            raise OutputError(f"'{self._folder}' has lost its {names[1]}; run the scenario again")
        path.write_bytes(saved.read_bytes())


def _over_seeds(runs: Runs, name: str) -> pl.DataFrame:
    import polars as pl

    parts = []
    for run in runs:
        table = run._table(name)  # noqa: SLF001 - the same package's own
        parts.append(table.select(pl.lit(run.seed, dtype=pl.UInt64).alias("seed"), pl.all()))
    return pl.concat(parts)


def _is_ours(name: str) -> bool:
    stem, _, ending = name.partition(".")
    if ending == "pcapng":
        return stem == "capture" or stem.startswith("capture-")
    return stem in {"flows", "links", *LARGE_TABLES} and ending in FORMATS


def _load(folder: Path, name: str) -> dict[str, Any]:
    if not folder.exists():
        raise OutputError(f"no run at '{folder}': there is no such folder")
    path = folder / name
    if not path.exists():
        raise OutputError(
            f"no run at '{folder}': it has no {name}; 'lasthop run FILE --out DIR' makes such a folder"
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise OutputError(f"cannot read '{path}': {reason_of(error)}") from None
    except ValueError as error:
        raise _damaged(path, str(error)) from None
    if not isinstance(content, dict):
        raise _damaged(path, "it holds no JSON object")
    return content


def _damaged(path: Path, why: str) -> OutputError:
    return OutputError(f"'{path}' is damaged ({why}); run the scenario again")


def _probe(folder: Path) -> None:
    with tempfile.TemporaryFile(dir=folder, prefix=TEMPORARY_PREFIX):
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


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
