"""Metrics of a study: what they are, which names are known, and their values from the stored tables.

A metric is evaluated from what the store holds, never while a run is made: to change a metric costs nothing.
Called by `study` (reading ``[[metrics]]``) and by `results` (the tidy table).
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lasthop.comparison import METRICS as COMPARED
from lasthop.results import (
    CAUSE_COLUMNS,
    LOSS_BELIEFS,
    LOSS_CAUSES,
    LOSS_KINDS,
    TABLE_SWITCH,
    flatten_causes,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lasthop.results import Run

#: Tables that every run has.
SOURCES = ("flows", "links", "totals")
#: How the rows that a metric selects become one number.
REDUCTIONS = ("sum", "mean", "median", "min", "max", "jain", "cv", "count", "bottleneck")


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure per run.

    Attributes
    ----------
    name : str
        Column of the tidy table.
    label, unit : str
        For people; the unit is that of the value after `scale`.
    source : str
        ``flows``, ``links``, ``totals`` or the name of a kept table (``from`` in the file).
    field : str
        Column of that table.
    where : str or None
        Pattern for the names of flows or links, such as ``rest*``; all rows if `None`.
    by : str
        One of `REDUCTIONS`, over the rows selected. ``bottleneck`` takes the row of the link called
        ``bottleneck``, or of the busiest link if none has that name.
    scale : float
        The value is multiplied by it.
    higher_is_better : bool or None
        Which direction is good; `None` where neither is.
    """

    name: str
    label: str
    unit: str
    source: str
    field: str
    where: str | None = None
    by: str = "mean"
    scale: float = 1.0
    higher_is_better: bool | None = None


def _known() -> Iterable[Metric]:
    places = {
        "rtt_mean_s": ("flows", "rtt_mean_s", "mean"),
        "delay_p95_s": ("flows", "delay_p95_s", "mean"),
        "bottleneck_avg_queue_packets": ("links", "avg_queue_packets", "bottleneck"),
    }
    for one in COMPARED:
        source, field, by = places.get(one.key, ("totals", one.key, "mean"))
        yield Metric(one.key, one.label, one.unit, source, field, None, by, 1.0, one.higher_is_better)
    yield Metric("throughput_bit_s", "throughput", "bit/s", "totals", "throughput_bit_s")
    yield Metric("packets_sent", "packets sent", "packets", "totals", "packets_sent")
    yield Metric("packets_delivered", "packets delivered", "packets", "totals", "packets_delivered")
    flows: tuple[tuple[str, str, str, str, bool | None], ...] = (
        ("delay_mean_s", "mean one-way delay", "s", "mean", False),
        ("jitter_s", "jitter", "s", "mean", False),
        ("jitter_rfc3550_s", "jitter (RFC 3550)", "s", "mean", False),
        ("completion_s", "completion time", "s", "mean", False),
        ("timely_packets", "timely packets", "packets", "sum", True),
        ("delayed_packets", "delayed packets", "packets", "sum", False),
        ("received_packets", "packets received", "packets", "sum", None),
        ("generated_packets", "packets generated", "packets", "sum", None),
        ("transmitted_packets", "packets transmitted", "packets", "sum", None),
        ("transmissions", "transmissions", "packets", "sum", None),
        ("lost_transmissions", "transmissions lost", "packets", "sum", False),
        ("realtime_index", "real-time performance index", "", "mean", True),
        ("delayed_rate", "delayed packets rate", "", "mean", False),
        ("delayed_over_sent", "delayed packets, share of sent", "", "mean", False),
        ("delayed_over_received", "delayed packets, share of received", "", "mean", False),
        ("loss_over_generated", "packet loss rate, share of generated", "", "mean", False),
        ("loss_over_sent", "packet loss rate, share of sent", "", "mean", False),
        ("startup_s", "time to start of play", "s", "mean", False),
        ("stalls", "stalls", "", "mean", False),
        ("stall_s", "stall time", "s", "mean", False),
        ("stall_share", "share of time stalled", "", "mean", False),
        ("decodable_share", "share of frames decodable", "", "mean", True),
    )
    for name, label, unit, by, better in flows:
        yield Metric(name, label, unit, "flows", name, None, by, 1.0, better)


#: Metrics that a study may give by name alone.
KNOWN = {metric.name: metric for metric in _known()}

SUCCESS = re.compile(r"success_(\w+)_percent")


def known_metric(name: str) -> Metric | None:
    """Return the metric that a name alone stands for.

    Examples
    --------
    >>> known_metric("jain_index").source
    'totals'
    >>> known_metric("success_95_percent").by
    'mean'
    >>> known_metric("wind_speed") is None
    True
    """
    match = SUCCESS.fullmatch(name)
    if match is not None:
        label = f"{match[1].replace('_', '.')} % application success"
        return Metric(name, label, "", "flows", name, None, "mean", 1.0, higher_is_better=True)
    return KNOWN.get(name)


#: Attribute of `Run` for each large table.
TABLES = {"flow_series": "series", "link_series": "link_series", "hops": "hops", "windows": "windows"}
assert set(TABLES) == set(TABLE_SWITCH)  # noqa: S101 - the tables of a run are named in one place


def _short_run(*, large: bool) -> Run:
    from lasthop import api

    # Every flow has the real-time metrics, so that their columns are there.
    scenario = api.Scenario(api.EXAMPLE).replace({"duration": "50 ms", "measure.realtime": {}})
    return api.run(scenario, series=large, trace=large)


@functools.cache
def _summary_columns() -> dict[str, tuple[str, ...]]:
    """Ask the engine for the columns of its summaries, with a run of a few packets."""
    record = _short_run(large=False).record
    rows = {"flows": record["flows"][0], "links": record["links"][0], "totals": record["totals"]}
    return {
        # Names and the like are no figures.
        source: tuple(key for key, value in flatten_causes(row).items() if not isinstance(value, str))
        for source, row in rows.items()
    }


@functools.cache
def _large_columns() -> dict[str, tuple[str, ...]]:
    run = _short_run(large=True)
    return {table: tuple(getattr(run, name).columns) for table, name in TABLES.items()}


def known_columns(source: str) -> tuple[str, ...]:
    """Columns that a table of a run may have; some only with certain senders or traffic.

    Examples
    --------
    >>> "goodput_bit_s" in known_columns("flows"), "realtime_index" in known_columns("flows")
    (True, True)
    """
    columns = (_large_columns() if source in TABLES else _summary_columns())[source]
    if source != "flows":
        return columns
    verdicts = [f"{kind}_taken_for_{belief}_losses" for kind in LOSS_KINDS for belief in LOSS_BELIEFS]
    causes = [
        column.format(cause.replace("-", "_"))
        for kind, column in CAUSE_COLUMNS.items()
        if kind != "drops"
        for cause in LOSS_CAUSES
    ]
    listed = [metric.field for metric in KNOWN.values() if metric.source == "flows"]
    return tuple(dict.fromkeys((*columns, *causes, *verdicts, *listed)))


def is_column(source: str, field: str) -> bool:
    """Whether a table may have the column."""
    return field in known_columns(source) or (source == "flows" and SUCCESS.fullmatch(field) is not None)
