"""What a study may measure: the names that the engine declares, and how rows become one figure.

A metric is evaluated from what the store holds, never while a run is made: to change a metric costs nothing.
Called by `reader` (reading ``[[metrics]]``) and by `table` (the tidy table).
"""

from __future__ import annotations

from lasthop.columns import SOURCES, Metric, declared, find, known_names, named, on_demand

__all__ = [
    "REDUCTIONS",
    "SOURCES",
    "Metric",
    "is_column",
    "known_columns",
    "known_names",
    "named",
    "on_demand",
]

#: How the rows that a metric selects become one number.
REDUCTIONS = ("sum", "mean", "median", "p50", "p95", "p99", "min", "max", "jain", "cv", "count", "bottleneck")
#: Those whose result has no unit.
WITHOUT_UNIT = ("jain", "cv", "count")


def known_columns(source: str) -> tuple[str, ...]:
    """Columns that a table of a run may have; some only with certain senders, links or traffic.

    Examples
    --------
    >>> "goodput_bit_s" in known_columns("flows"), "arq_retransmissions" in known_columns("links")
    (True, True)
    """
    known = declared(source)
    if source not in SOURCES:
        return tuple(known)
    # Names and the like are no figures.
    return tuple(name for name, column in known.items() if column.is_number)


def is_column(source: str, field: str) -> bool:
    """Whether a table may have the column."""
    column = find(source, field)
    return column is not None and (source not in SOURCES or column.is_number)


def unit_of(source: str, field: str, by: str) -> str:
    """Return the unit of a column of a table once its rows have become one figure.

    Examples
    --------
    >>> unit_of("links", "max_queue_packets", "max"), unit_of("flows", "goodput_bit_s", "jain")
    ('packets', '')
    """
    column = find(source, field)
    return "" if column is None or by in WITHOUT_UNIT else column.unit
