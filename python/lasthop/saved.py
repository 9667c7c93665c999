"""Reads saved runs and comparisons, checked against their digests: what `lasthop.output` wrote.

Called by `lasthop.load_runs` and the commands that look at results.
"""

from __future__ import annotations

import io
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop import columns, unfinished
from lasthop._native import ArrowTable
from lasthop.errors import ArgumentError, OutputError
from lasthop.files import reason_of
from lasthop.places import COMPARISON, RESULT, TABLE_FORMATS, captures_in, not_captured, qlogs_in
from lasthop.results import Run, Runs
from lasthop.seals import FILES_KEY, SMALL, DamagedError, Seals, read_sealed, warn_unchecked
from lasthop.shape import check_record, check_shape

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from lasthop.comparison import Comparison

#: What is read of a saved run or comparison, beside the records of runs themselves.
_OF_RUNS = {"runs": [{}], "scenario": {}, "engine_version": str, f"{FILES_KEY}?": {"*": str}}
SHAPES = {
    RESULT: _OF_RUNS,
    COMPARISON: {
        **_OF_RUNS,
        "transports": [str],
        "baseline": str,
        "metrics?": [str],
        "senders?": [str],
        "helpers?": [str],
        "runs": [{"transport": str}],
    },
}


def load_runs(folder: str | Path) -> Runs:
    """Read what `save_runs` wrote; the large tables are read when asked for."""
    path = Path(folder)
    content, seals = _load(path, RESULT)
    try:
        _check_runs(content)
        return Runs(
            Run(
                record,
                content["scenario"],
                content["engine_version"],
                SavedTables(path, record["seed"], seals),
            )
            for record in content["runs"]
        )
    except DamagedError as error:
        raise _damaged(path / RESULT, str(error)) from None
    except (KeyError, TypeError, ArgumentError) as error:
        raise _damaged(path / RESULT, _lack(error)) from None


def load_comparison(folder: str | Path) -> Comparison:
    """Read what `save_comparison` wrote."""
    # Not needed for runs, nor by a command that only starts.
    from lasthop.comparison import SERIES, Axes, Comparison, Promises, choose_metrics

    path = Path(folder)
    content, seals = _load(path, COMPARISON)
    try:
        _check_runs(content)
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
    except DamagedError as error:
        raise _damaged(path / COMPARISON, str(error)) from None
    except (KeyError, TypeError) as error:
        raise _damaged(path / COMPARISON, _lack(error)) from None
    return comparison


def _check_runs(content: dict[str, Any]) -> None:
    """Raise `DamagedError` if the runs of a saved file are none."""
    for number, record in enumerate(content["runs"]):
        try:
            check_record(record)
        except DamagedError as error:
            raise DamagedError(f"runs[{number}]: {error}") from None


def check_saved(folder: str | Path) -> None:
    """Raise `OutputError`, with the remedy, if a saved run or comparison could not be read back."""
    path = Path(folder)
    if is_comparison(path):
        load_comparison(path)
    else:
        load_runs(path)
    _, seals = _load(path, COMPARISON if is_comparison(path) else RESULT)
    for name in seals.names():
        _check(seals, path / name)
    for table in sorted(path.glob("*.parquet")):
        if table.name.startswith(unfinished.PREFIX):
            # Of a call that was killed: no result, and the next one takes it away.
            continue
        try:
            ArrowTable.parquet_footer(table)
        except OSError as error:
            raise _damaged(table, str(error).splitlines()[0]) from None


def is_comparison(folder: str | Path) -> bool:
    """Whether the folder holds a comparison rather than a run."""
    path = Path(folder)
    unfinished.finish(path)
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

    def logged(self) -> list[str]:
        """Return the flows of this seed whose qlog was saved."""
        return list(qlogs_in(self._folder, self._seed))

    def write_log(self, path: Path, flow: str) -> None:
        """Copy the qlog of one of them."""
        file = qlogs_in(self._folder, self._seed)[flow]
        _check(self._seals, file)
        shutil.copyfile(file, path)


def _has_table(folder: Path, name: str, seals: Seals) -> bool:
    files = [f"{name}.{table_format}" for table_format in TABLE_FORMATS]
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
        "csv": partial(_scan_csv, name),
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


def _scan_csv(name: str, place: Path | io.BytesIO) -> pl.LazyFrame:
    """Open the table called `name` with the types that its columns have: an empty cell tells of none."""
    from lasthop.extras import pl

    present = pl.scan_csv(place, infer_schema=False).collect_schema().names()
    if isinstance(place, io.BytesIO):
        place.seek(0)
    known = {column: columns.find(name, column) for column in present}
    types = {column: getattr(pl, columns.TYPES[of.kind]) for column, of in known.items() if of is not None}
    return pl.scan_csv(place, schema_overrides=types, infer_schema_length=None)


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
    unfinished.finish(folder)
    path = folder / name
    if not path.exists() and ((folder / "study.json").exists() or (folder / "studies").is_dir()):
        raise OutputError(
            f"no run at '{folder}': it is the folder of a study; 'lasthop study show' and 'lasthop study "
            "plot' look at its results"
        )
    if not path.exists():
        raise OutputError(
            f"no run at '{folder}': it has no {name}; 'lasthop run FILE --out DIR' makes such a folder"
        )
    try:
        content, has_digests = read_sealed(path)
        check_shape(content, SHAPES[name])
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
