"""Tables of results as they are held: of Arrow, as the engine and files have them, and as data frames.

A data frame needs Polars; everything else here needs no package. Called by results, comparisons and `output`.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from lasthop import _native

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import TypeAlias

    import polars as pl

    #: Runs have the one, and people are given the other.
    Table: TypeAlias = _native.ArrowTable | pl.DataFrame


def table_of_rows(rows: Iterable[Mapping[str, Any]]) -> _native.ArrowTable:
    """Table of rows; a column that has no value anywhere is a column of missing numbers.

    Examples
    --------
    >>> table_of_rows([{"n": 1, "low": None}, {"n": 2, "low": None}]).types
    ['Int64', 'Float64']
    """
    listed = list(rows)
    names = list(listed[0]) if listed else []
    values = {name: [row[name] for row in listed] for name in names}
    return _native.ArrowTable.from_columns([(name, _type_of(values[name]), values[name]) for name in names])


def _type_of(values: Iterable[object]) -> str:
    kinds = {type(value) for value in values if value is not None}
    known = {frozenset({bool}): "Boolean", frozenset({int}): "Int64", frozenset({str}): "String"}
    return known.get(frozenset(kinds), "Float64")


def frame_of(table: Table) -> pl.DataFrame:
    """Return a table as a data frame."""
    from lasthop.extras import pl

    return pl.DataFrame(table)


def arrow_of(table: Table) -> _native.ArrowTable:
    """Return a data frame as the table that we write."""
    if isinstance(table, _native.ArrowTable):
        return table
    from lasthop.extras import pl

    buffer = io.BytesIO()
    table.write_ipc(buffer, compat_level=pl.CompatLevel.oldest())
    return _native.ArrowTable.from_ipc(buffer.getvalue())
