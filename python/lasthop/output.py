"""Writes runs and comparisons into folders: all files of a result, or none. `lasthop.saved` reads them back.

Every file is written under a temporary name and renamed when complete; ``result.json`` goes last, so a folder
that has one is whole. Called by the command line and by `Runs.save` and `Comparison.save`.
"""

from __future__ import annotations

import json
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop import _native, columns, qlog, unfinished
from lasthop.arrow import arrow_of
from lasthop.errors import ArgumentError
from lasthop.files import output_errors, replacing, umask
from lasthop.places import (
    COMPARISON,
    RESULT,
    TABLE_FORMATS,
    capture_file,
    is_table,
    qlog_file,
    reserved,
)
from lasthop.seals import FILES_KEY, digest_of, sealed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lasthop.arrow import Table
    from lasthop.comparison import Comparison
    from lasthop.results import Runs

FORMATS = TABLE_FORMATS
LARGE_TABLES = tuple(columns.on_demand())


def check_format(table_format: str) -> None:
    """Refuse a table format that is not one of `FORMATS`."""
    if table_format not in FORMATS:
        from lasthop.formats import FORMATS as PAPER_FORMATS

        hint = f"; --table {table_format} prints one for a paper" if table_format in PAPER_FORMATS else ""
        raise ArgumentError(f"unknown table format {table_format!r}: use one of {', '.join(FORMATS)}{hint}")


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
    with_qlog: bool = False,
) -> None:
    """Write result.json, the tables in the format chosen, and the captures of each seed.

    A folder that holds results is refused but for `force`; with `held` the caller has it reserved. Anything
    in `more` becomes a further key of result.json. `with_qlog` writes a file for each flow of TCP, and of
    stacks with a log, as well.
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
            for flow in qlog.flows_of(run) if with_qlog else ():
                with made.file(qlog_file(flow, run.seed if len(runs) > 1 else None)) as temporary:
                    qlog.write(run, temporary, flow)
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
