"""What is measured, as the engine declares it: columns, their units and meanings, and the names of metrics.

Everything that shows, stores or asks for a figure looks it up here: tables, plots, studies, comparisons, the
reference pages. Nothing about a column is said anywhere in Python: a new one appears here by itself.
"""

from __future__ import annotations

import difflib
import functools
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lasthop import _native

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import polars as pl

#: Tables that every run has and that metrics are taken from.
SOURCES = ("flows", "links", "totals")
#: Before the name of a column of the links: its value at the bottleneck.
BOTTLENECK = "bottleneck_"
#: Stands before the name of a link, behind a column of the links.
AT = "@"
#: What words about links call the one whose queue is compared, until its name is known.
THE_BOTTLENECK = "the bottleneck"
#: In the name of a column that stands for several: their number.
X = "<x>"
#: How the columns with what a scenario left to chance begin, and how their names end with which unit.
DRAWN = "drawn_"
DRAWN_UNITS = {"_bit_s": "bit/s", "_s": "s", "_bytes": "bytes", "_packets": "packets"}
#: Types of columns, as Polars calls them.
TYPES = {
    "count": "Int64",
    "unsigned": "UInt64",
    "short": "UInt32",
    "number": "Float64",
    "text": "String",
    "flag": "Boolean",
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table of results.

    Attributes
    ----------
    table, name : str
        Where it is; the name ends in the unit.
    pattern : str
        The name with ``<cause>`` or ``<x>`` where its siblings differ; empty for most.
    path : tuple of str
        Keys that lead to it in the JSON object of a row.
    group : str or None
        The first of them, if not every row has it; a table in which no row has it lacks the column.
    kind : str
        One of `TYPES`.
    unit : str
        Of the SI; empty for a plain number.
    share : bool
        Whether it is a fraction from 0 to 1, which tables show in per cent.
    label, heading, help : str
        For people: its name, the same for a narrow column, its meaning.
    higher_is_better : bool or None
        Which direction is good.
    over : str
        How the rows of a run become one figure: ``nothing``, ``sum``, ``mean`` or ``bottleneck``.
    shown, compared : bool
        Whether the tables of a run show it, and whether transports are compared by it.
    more, less : str
        How to say that one transport is above (below) another by ``{}``.
    times : str
        How to say that one is ``{}`` times another, from twice as much on; empty where nothing is said so.
    whole : str
        The column that says how many there are of what is counted here; empty for most.
    """

    table: str
    name: str
    pattern: str
    path: tuple[str, ...]
    group: str | None
    kind: str
    unit: str
    share: bool
    label: str
    heading: str
    help: str
    higher_is_better: bool | None
    over: str
    shown: bool
    compared: bool
    more: str
    less: str
    times: str
    whole: str

    @property
    def is_number(self) -> bool:
        """Whether it may be a metric."""
        return self.kind in ("count", "number", "short")

    @property
    def shown_unit(self) -> str:
        """Unit in tables, where shares are in per cent."""
        return "share" if self.share else self.unit

    def of(self, row: Mapping[str, Any]) -> Any:  # noqa: ANN401 - of the type that the column has
        """Return its value in the JSON object of a row; counts by cause are added."""
        return self.of_all((row,))[0]

    def of_all(self, rows: Iterable[Mapping[str, Any]]) -> list[Any]:
        """Return its values in many rows: a table of a hundred thousand flows takes most of its time here.

        Examples
        --------
        >>> declared("flows")["lost_packets"].of_all([{"packets_lost": {"outage": 2, "policed": 1}}, {}])
        [3, None]
        """
        values: list[Any] = list(rows)
        for key in self.path:
            values = [value.get(key) if isinstance(value, dict) else None for value in values]
        if not any(isinstance(value, dict) for value in values):
            return values
        if self.kind == "text":
            return [
                json.dumps(one, separators=(",", ":")) if isinstance(one, dict) else one for one in values
            ]
        return [sum(one.values()) if isinstance(one, dict) else one for one in values]

    def standing_for(self, x: str) -> Column:
        """Return one of the columns that this one stands for."""
        name = self.name.replace(X, x)
        label, heading = self.label.replace(X, x), self.heading.replace(X, x)
        # The names of random values end with their units.
        drawn = (unit for ending, unit in DRAWN_UNITS.items() if name.endswith(ending))
        unit = next(drawn, "") if name.startswith(DRAWN) else self.unit
        return replace(
            self,
            name=name,
            path=(*self.path[:-1], name),
            label=label,
            heading=heading,
            unit=unit,
            group=None if self.group is None else self.group.replace(X, x),
        )


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure per run.

    Attributes
    ----------
    name : str
        Column of the table.
    label, unit : str
        For people; the unit is that of the value after `scale`.
    source : str
        ``flows``, ``links``, ``totals`` or the name of a kept table (``from`` in a study file).
    field : str
        Column of that table.
    where : str or None
        Pattern for the names of flows or links, such as ``rest*``; all rows if `None`.
    by : str
        How the rows selected become one figure. ``bottleneck`` takes the row of the link called
        ``bottleneck``, or of the busiest link if none has that name.
    scale : float
        Shown values are multiplied by it; tables hold them as they are.
    higher_is_better : bool or None
        Which direction is good; `None` where neither is.
    table_unit : str
        Unit of the values in tables, of the SI.
    help : str
        What it is.
    more, less : str
        How to say that one is above (below) the other by ``{}``.
    times : str
        How to say that one is ``{}`` times the other; empty where nothing is said so.
    optional : bool
        Not every run has it: it comes last in comparisons.
    share : bool
        Whether it is a fraction from 0 to 1, which tables show in per cent.
    link : str
        The link that stands for the bottleneck, if the name says one: ``avg_queue_packets@wifi``.
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
    table_unit: str = ""
    help: str = ""
    more: str = "has {} more"
    less: str = "has {} less"
    times: str = ""
    optional: bool = False
    share: bool = False
    link: str = ""

    @property
    def shown_unit(self) -> str:
        """Unit in tables, where shares are in per cent."""
        return "share" if self.share else self.unit

    @property
    def most(self) -> float | None:
        """The largest value that is possible, after `scale`; `None` if there is none.

        Examples
        --------
        >>> named("jain_index").most, named("goodput_bit_s").most
        (1.0, None)
        """
        is_bounded = self.by == "jain" or (self.field == "jain_index" and self.by != "sum")
        return self.scale if is_bounded or (self.share and self.by != "sum") else None

    def at(self, link: str) -> Metric:
        """Return the same with the name of the link that counts as the bottleneck in its words.

        Examples
        --------
        >>> metric(declared("links")["avg_queue_packets"], "bottleneck").at("wifi (reverse)").label
        'mean queue at wifi (reverse)'
        """
        if self.by != "bottleneck" or link in ("", "bottleneck"):
            return self
        words = {
            field: getattr(self, field).replace(f"at {THE_BOTTLENECK}", f"at {link}")
            for field in ("label", "more", "less", "times")
        }
        return replace(self, **words)

    @property
    def key(self) -> str:
        """Name in JSON."""
        return self.name

    @property
    def meaning(self) -> dict[str, str]:
        """What the metadata of a column say of it."""
        said = {"unit": self.table_unit, "label": self.label, "help": self.help}
        return {key: text for key, text in said.items() if text}


@functools.cache
def _declaration() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(_native.columns())
    return content


@functools.cache
def declared(table: str) -> dict[str, Column]:
    """Return the columns of a table by name, in their order; empty for an unknown table.

    Examples
    --------
    >>> declared("flows")["rtt_mean_s"].unit
    's'
    """
    return {
        row["name"]: Column(**row | {"path": tuple(row["path"])})
        for row in _declaration()["columns"]
        if row["table"] == table
    }


def causes() -> dict[str, str]:
    """Every cause of loss with its meaning."""
    return {one["name"]: one["help"] for one in _declaration()["causes"]}


def on_demand() -> dict[str, str]:
    """Tables that a run carries if asked to, and the switch that asks."""
    return dict(_declaration()["on_demand"])


def find(table: str, name: str) -> Column | None:
    """Return a column of a table; also one whose name depends on the scenario.

    Examples
    --------
    >>> find("flows", "success_95_percent").label
    '95 % application success'
    >>> find("links", "wind_speed") is None
    True
    """
    known = declared(table)
    if name in known:
        return None if X in name else known[name]
    for column in known.values():
        head, mark, tail = column.name.partition(X)
        x = name.removeprefix(head).removesuffix(tail)
        if mark and name == f"{head}{x}{tail}" and x:
            return column.standing_for(x)
    return None


def find_anywhere(name: str) -> Column | None:
    """Return the column of this name of whichever table has one first."""
    tables = (*on_demand(), *SOURCES)
    return next((column for table in tables if (column := find(table, name)) is not None), None)


def metric(column: Column, by: str, name: str | None = None) -> Metric:
    """Return the figure that a column and a reduction give."""
    endings = {"bottleneck": f" at {THE_BOTTLENECK}", "mean": ", mean of flows"}
    ending = "" if column.table == "totals" else endings.get(by, "")
    return Metric(
        name=name or column.name,
        label=f"{column.label}{ending}",
        unit=column.unit,
        source=column.table,
        field=column.name,
        by=by,
        higher_is_better=column.higher_is_better,
        table_unit=column.unit,
        help=column.help,
        more=column.more.replace("{link}", THE_BOTTLENECK),
        less=column.less.replace("{link}", THE_BOTTLENECK),
        times=column.times.replace("{link}", THE_BOTTLENECK),
        share=column.share,
        optional=column.group is not None,
    )


def named(name: str) -> Metric | None:
    """Return the metric that a name alone stands for; `None` if it stands for none.

    A name of a column of the totals is that, unless it is a mean over the flows; then come the flows, added
    or averaged, and the links, added or at the bottleneck. ``bottleneck_`` before any column of the links is
    its value there.

    Examples
    --------
    >>> named("jain_index").source, named("rtt_mean_s").by, named("utilisation").by
    ('totals', 'mean', 'bottleneck')
    >>> named("arq_retransmissions").source
    'links'
    >>> named("wind_speed") is None
    True
    """
    if name.startswith(BOTTLENECK):
        column = find("links", name.removeprefix(BOTTLENECK))
        return metric(column, "bottleneck", name) if column is not None and column.is_number else None
    flows = find("flows", name)
    if flows is not None and flows.over == "mean":
        return metric(flows, "mean")
    totals = find("totals", name)
    if totals is not None:
        return metric(totals, "mean")
    column = flows or find("links", name)
    return metric(column, column.over) if column is not None and column.is_number else None


def named_at(field: str, link: str) -> Metric | None:
    """Return the metric that is a column of the links at one of them; `None` if there is no such column.

    Examples
    --------
    >>> named_at("avg_queue_packets", "wifi").name, named_at("avg_queue_packets", "wifi").label
    ('avg_queue_packets@wifi', 'mean queue at wifi')
    """
    column = find("links", field)
    if column is None or not column.is_number or not link:
        return None
    return replace(metric(column, "bottleneck", f"{field}{AT}{link}"), link=link).at(link)


@functools.cache
def known_names() -> tuple[str, ...]:
    """Every name that stands for a metric, those of columns at the bottleneck last."""
    plain = [
        name
        for table in ("totals", "flows", "links")
        for name, one in declared(table).items()
        if one.is_number
    ]
    at_bottleneck = [f"{BOTTLENECK}{name}" for name, one in declared("links").items() if one.is_number]
    return tuple(dict.fromkeys((*plain, *at_bottleneck)))


def listed() -> list[dict[str, Any]]:
    """Return every metric with its meaning; see `lasthop.metrics`."""
    found = []
    for name in known_names():
        one = named(name.replace(X, "90"))
        plain = named(name.removeprefix(BOTTLENECK))
        if one is None or (name.startswith(BOTTLENECK) and plain is not None and plain.by == "bottleneck"):
            continue
        found.append(
            {
                "name": name,
                "unit": one.table_unit,
                "label": one.label.replace("90", X) if X in name else one.label,
                "help": one.help,
                "from": one.source,
                "by": "" if one.source == "totals" else one.by,
                "higher_is_better": one.higher_is_better,
            }
        )
    return found


@functools.cache
def compared() -> tuple[Metric, ...]:
    """Return the metrics that transports are compared by; what not every run has comes last."""
    totals = [metric(one, "mean") for one in declared("totals").values() if one.compared]
    flows = [metric(one, one.over) for one in declared("flows").values() if one.compared]
    links = [
        metric(one, "bottleneck", f"{BOTTLENECK}{name}")
        for name, one in declared("links").items()
        if one.compared
    ]
    return tuple(sorted((*totals, *flows, *links), key=lambda one: one.optional))


def matching(text: str, names: Iterable[str]) -> list[str]:
    """Return the names that are meant: the one of this name, or without its unit, or all that begin so.

    Examples
    --------
    >>> matching("goodput", ["goodput_bit_s", "throughput_bit_s"])
    ['goodput_bit_s']
    >>> matching("delay", ["delay_mean_s", "delay_p95_s"])
    ['delay_mean_s', 'delay_p95_s']
    """
    known = list(dict.fromkeys(names))
    if text in known:
        return [text]
    without = [name for name in known if without_unit(name) == text]
    return without or [name for name in known if text and name.startswith(text)]


@functools.cache
def _endings() -> tuple[str, ...]:
    units = {column["unit"].replace("/", "_") for column in _declaration()["columns"]} - {"", "%"}
    return tuple(sorted((f"_{unit}" for unit in units), key=len, reverse=True))


def without_unit(name: str) -> str:
    """Return a name without the unit that it ends in.

    Examples
    --------
    >>> without_unit("goodput_bit_s"), without_unit("rtt_mean_s"), without_unit("timeouts")
    ('goodput', 'rtt_mean', 'timeouts')
    """
    return next((name.removesuffix(ending) for ending in _endings() if name.endswith(ending)), name)


def nearest(text: str, names: Sequence[str]) -> str | None:
    """Return the name that is most like a text, with or without their units; `None` if none is."""
    whole = difflib.get_close_matches(text, names, n=1)
    if whole:
        return whole[0]
    stems = {without_unit(name): name for name in reversed(names)}
    near = difflib.get_close_matches(text, list(stems), n=1)
    return stems[near[0]] if near else None


def meanings(table: str, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return unit, label and meaning of the columns of a table, as files carry them."""
    found = {}
    for name in names:
        column = find(table, name) or (find("totals", name) if table == "runs" else None)
        if column is not None:
            said = {"unit": column.unit, "label": column.label, "help": column.help}
            found[name] = {key: text for key, text in said.items() if text}
    return found


def scaled(table: pl.DataFrame, metrics: Iterable[Metric]) -> pl.DataFrame:
    """Return a table with a column per metric in the units in which the metrics are shown."""
    from lasthop.extras import pl

    return table.with_columns(
        pl.col(one.name) * one.scale for one in metrics if one.scale != 1 and one.name in table.columns
    )


def table_of(table: str, rows: Sequence[Mapping[str, Any]]) -> _native.ArrowTable:
    """Return the table that JSON objects of rows stand for, typed as declared.

    Examples
    --------
    >>> rows = [{"name": "a", "drops": {"outage": 2}}]
    >>> table_of("links", rows)["dropped_outage_packets"]
    [2]
    """
    present = [
        one for one in _expanded(table, rows) if one.group is None or any(_has(row, one) for row in rows)
    ]
    return _native.ArrowTable.from_columns(
        [(column.name, TYPES[column.kind], column.of_all(rows)) for column in present]
    )


def _has(row: Mapping[str, Any], column: Column) -> bool:
    return column.group is not None and row.get(column.group) is not None


def _expanded(table: str, rows: Sequence[Mapping[str, Any]]) -> Iterable[Column]:
    """Columns of a table, those that stand for several replaced by the ones that the rows have."""
    for column in declared(table).values():
        if X not in column.name:
            yield column
            continue
        keys: dict[str, None] = {}
        for row in rows:
            inside: Any = row
            for key in column.path[:-1]:
                inside = inside.get(key) if isinstance(inside, dict) else None
            keys |= dict.fromkeys(inside or ())
        yield from (found for key in keys if (found := find(table, key)) is not None and found.pattern)
