"""Figures of the records of runs: what a metric is worth in one, which link is the bottleneck, what is alike.

A record is an element of ``runs[]`` in the JSON object. Called by comparisons, tables and plots.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lasthop import stats
from lasthop.columns import find

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lasthop.columns import Metric


def metric_value(record: Mapping[str, Any], metric: Metric, bottleneck: str) -> float | None:
    """Value of one metric in one run; what is averaged counts every flow alike."""
    column = find(metric.source, metric.field)
    if column is None:
        return None
    rows = [record["totals"]] if metric.source == "totals" else record[metric.source]
    if metric.by == "bottleneck":
        rows = rows_at(rows, metric.link or bottleneck, metric.field)
    values = [float(value) for row in rows if (value := column.of(row)) is not None]
    if not values:
        return None
    return math.fsum(values) if metric.by == "sum" else stats.mean(values)


def rows_at(links: Sequence[Mapping[str, Any]], name: str, field: str) -> list[Mapping[str, Any]]:
    """Return the row of a link, or of the one that tells of the queue that it shares with it.

    Examples
    --------
    >>> rows = [{"name": "a", "max_queue_packets": 3}, {"name": "b", "queue_of": "a", "utilisation": 1}]
    >>> rows_at(rows, "b", "max_queue_packets")[0]["name"], rows_at(rows, "b", "utilisation")[0]["name"]
    ('a', 'b')
    """
    own = [row for row in links if row["name"] == name]
    shared = own[0].get("queue_of") if own and own[0].get(field) is None else None
    return own if shared is None else [row for row in links if row["name"] == shared]


def is_same(records: Sequence[Mapping[str, Any]]) -> bool:
    """Whether several seeds gave one and the same run."""
    known = [record.get("fingerprint") for record in records]
    return len(known) > 1 and None not in known and len(set(known)) == 1


def bottleneck_name(records: Sequence[Mapping[str, Any]]) -> str:
    """Name of the link whose queue is compared: ``bottleneck`` if there is one, else the busiest."""
    busy = utilisations(records)
    return "bottleneck" if "bottleneck" in busy else max(busy, key=lambda name: busy[name], default="")


def utilisations(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Mean utilisation of every link."""
    busy: dict[str, float] = {}
    for record in records:
        for link in record["links"]:
            share = (link["utilisation"] or 0.0) / len(records)
            busy[link["name"]] = busy.get(link["name"], 0.0) + share
    return busy


def busiest(records: Sequence[Mapping[str, Any]]) -> tuple[str, float] | None:
    """Return the link that is busy most of the time, and the share of the time; `None` without links."""
    busy = utilisations(records)
    name = max(busy, key=lambda name: busy[name], default=None)
    return None if name is None else (name, busy[name])
