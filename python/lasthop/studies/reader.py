"""Reads study files: loose TOML or JSON in, a checked `Study` out, or a message that names file and key.

Called by `Study.load` and `Study.parse` alone.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from lasthop.arguments import parse_seeds
from lasthop.columns import find
from lasthop.columns import nearest as nearest_name
from lasthop.errors import ArgumentError, ScenarioError, StudyError, TrustError
from lasthop.files import not_a_pipe, reason_of
from lasthop.scenario import Scenario, check_seeds, may_be_scenario, toml_value
from lasthop.studies.metrics import (
    REDUCTIONS,
    SOURCES,
    Metric,
    is_column,
    known_columns,
    known_names,
    named,
    on_demand,
    unit_of,
)
from lasthop.studies.parts import (
    DERIVED_COLUMNS,
    LINK_TABLES,
    PASSING_COLUMNS,
    RESULT_COLUMNS,
    Axis,
    Keep,
    Value,
    is_number,
    point_keys,
)
from lasthop.visible import typed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lasthop.scenario import Senders
    from lasthop.studies.study import Study

    Table = Mapping[str, Any]
    #: What a file says; the kind asked for names its type.
    Loose = Any

POINTS_MAX = 20_000
RUNS_MAX = 1_000_000
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the hint of a message: the nearest valid name, and the others.

    Examples
    --------
    >>> nearest("vlaues", ["name", "values"])
    'did you mean "values"? known: name, values'
    """
    names = list(dict.fromkeys(known))
    near = nearest_name(name, names)
    shown = ", ".join(names[:24]) + (f" and {len(names) - 24} more" if len(names) > 24 else "")  # noqa: PLR2004
    return (f'did you mean "{near}"? ' if near else "") + f"known: {shown}"


KINDS: dict[str, tuple[type, ...]] = {
    "a text": (str,),
    "a number": (int, float),
    "true or false": (bool,),
    "a list": (list, tuple),
    "a table": (dict,),
}


class Reader:
    """Reads one file; every message names it and the key."""

    def __init__(
        self, file: str, *, check: bool, transports: Senders | None = None, trust: bool = False
    ) -> None:
        self._file = file
        self._transports = transports
        self._trust = trust
        #: Without it the engine is not asked: a stored study is read by any version, without its input files.
        self._check = check

    def refuse(self, what: str, place: str, remedy: str = "") -> NoReturn:
        """Raise the message: what was found, where, and what to do."""
        at = f"{self._file}: {place}" if place else self._file
        raise StudyError(f"study error: {what}\n  at {at}" + (f"\n     {remedy}" if remedy else ""))

    def keys(self, table: Mapping[str, Any], place: str, known: Sequence[str]) -> None:
        """Refuse keys that mean nothing."""
        for key in table:
            if key not in known:
                inside = f" in {place}" if place else ""
                self.refuse(f'unknown key "{key}"{inside}', _join(place, key), nearest(str(key), known))

    def take(self, table: Table, place: str, key: str, kind: str, default: object = ...) -> Loose:
        """Return the value of a key, which must be of the kind."""
        where = _join(place, key)
        if key not in table:
            if default is ...:
                self.refuse(
                    f'missing key "{key}"' + (f" in {place}" if place else ""), place, f"add {key} = …"
                )
            return default
        return self.kind(table[key], where, kind)

    def kind(self, value: object, where: str, kind: str) -> Loose:
        """Return the value, which must be of the kind."""
        if not isinstance(value, KINDS[kind]) or (isinstance(value, bool) and bool not in KINDS[kind]):
            self.refuse(f"{_last(where)} cannot be {_shown(value)}", where, f"expected {kind}")
        return value

    def texts(self, table: Mapping[str, Any], place: str, key: str) -> tuple[str, ...]:
        """Return a list of texts, which may be a single one."""
        value = table.get(key, [])
        listed = [value] if isinstance(value, str) else self.kind(value, _join(place, key), "a list")
        return tuple(self.kind(one, f"{_join(place, key)}[{i}]", "a text") for i, one in enumerate(listed))

    def study(
        self, kind: type[Study], content: dict[str, Any], folder: Path, arguments: dict[str, str]
    ) -> Study:
        """Read the whole, as a study of this class."""
        known = (
            "name",
            "title",
            "description",
            "scenario",
            "seeds",
            "baseline",
            "x",
            "keep",
            "set",
            "axes",
            "metrics",
        )
        if "metrics" not in content and content.keys() & {"topology", "flows"}:
            self.refuse(
                "it is a scenario, not a study",
                "",
                f"'lasthop run {typed(self._file)}' runs it; a study names it with scenario = "
                f"\"{Path(self._file).name}\", and 'lasthop study new' writes one to start from",
            )
        self.keys(content, "", known)
        name = self.take(content, "", "name", "a text")
        if NAME.fullmatch(name) is None:
            self.refuse(
                f'name cannot be "{name}"',
                "name",
                "it names files: write up to 80 letters, digits, '-', '_' and '.', a letter or digit first",
            )
        self.take(content, "", "description", "a text", "")
        scenario, refusal = self.scenario(content, folder, name)
        settings = self.settings(self.take(content, "", "set", "a table", {}), "set")
        axes = self.axes(self.take(content, "", "axes", "a list", []))
        if "seed" in arguments:
            self.refuse("seed cannot be set", f"--set seed={arguments['seed']}", "give --seeds")
        for key in settings | arguments:
            if key in point_keys(axes):
                where = f"set.{key}" if key in settings else f"--set {key}={arguments[key]}"
                self.refuse(f"{key} is set twice", where, "an axis sets it: leave it to the axis")
        seeds = self.seeds(content)
        points = math.prod(len(axis.values) for axis in axes)
        if points > POINTS_MAX or points * len(seeds) > RUNS_MAX:
            self.refuse(
                f"{points:,} points with {len(seeds):,} seeds are too many",
                "axes",
                f"at most {POINTS_MAX:,} points and {RUNS_MAX:,} runs in one study: split it",
            )
        keep = self.keep(content.get("keep", []))
        metrics = self.metrics(self.take(content, "", "metrics", "a list"), keep, axes)
        return kind(
            name=name,
            title=self.take(content, "", "title", "a text", name),
            scenario=scenario,
            axes=axes,
            metrics=metrics,
            seeds=seeds,
            baseline=self.baseline(content.get("baseline", {}), axes),
            x=self.x(content, axes),
            keep=keep,
            settings=settings,
            content=content,
            file=self._file,
            arguments=arguments,
            refusal=refusal,
        )

    def scenario(
        self, content: Mapping[str, Any], folder: Path, name: str
    ) -> tuple[Scenario | None, ScenarioError | None]:
        """Read the scenario: a path relative to the study, or the scenario itself.

        It is no run of the study: what is wrong with it is returned, and counts if the points do not mend it.
        """
        given = content.get("scenario")
        if not self._check:
            return None, None
        if given is None:
            self.refuse(
                'missing key "scenario"',
                "",
                'add scenario = "file.toml", or the scenario itself as [scenario]',
            )
        transports, trust = self._transports, self._trust
        try:
            if isinstance(given, dict):
                given, where = {"name": name} | given, f"in {self._file}: scenario"
                draft = Scenario.draft(given, folder=folder, transports=transports, trust=trust)
                return draft.overridden({}), None
            given = folder / Path(self.kind(given, "scenario", "a text"))
            where = f"named by {self._file}: scenario"
            if given.suffix.lower() not in (".toml", ".json"):
                self.refuse(
                    f"no scenario by its name: '{given}'",
                    "scenario",
                    "name a file that ends in .toml or .json",
                )
            try:
                not_a_pipe(given)
            except OSError as error:
                if not isinstance(error, FileNotFoundError):
                    self.refuse(f"'{given}' cannot be read: {reason_of(error)}", "scenario")
            return Scenario.load(given, search=[folder], transports=transports, trust=trust), None
        except ScenarioError as error:
            refusal = type(error)(f"{error}\n  {where}")
        if isinstance(refusal, TrustError) or (isinstance(given, Path) and not may_be_scenario(given)):
            raise refusal
        beside = given.parent if isinstance(given, Path) else folder
        return Scenario.draft(
            given, folder=beside, search=[folder], transports=transports, trust=trust
        ), refusal

    def settings(self, table: dict[str, Any], place: str) -> dict[str, Any]:
        """Return a table of overrides; tables in it become dotted keys only where TOML made them so."""
        for key, value in table.items():
            self.scenario_key(key, place)
            self.value(value, _join(place, key))
        return dict(table)

    def scenario_key(self, key: str, place: str) -> None:
        """Refuse a key that no study may set."""
        if not key.strip():
            self.refuse("a key is empty", place, 'write "flows.0.transport" = "vegas"')
        if key == "seed":
            self.refuse("seed cannot be set", place, 'every point runs with each of the study\'s "seeds"')

    def value(self, value: object, where: str) -> object:
        """Return a value that a scenario can hold."""
        try:
            toml_value(value)
        except ArgumentError as error:
            self.refuse(str(error), where)
        if isinstance(value, float) and not math.isfinite(value):
            self.refuse(f"{value} is no value of a scenario", where, "write a finite number")
        return value

    def axes(self, tables: Sequence[object]) -> tuple[Axis, ...]:
        """Read all axes; no two may have one name or set one key."""
        axes: list[Axis] = []
        for index, table in enumerate(tables):
            place = f"axes[{index}]"
            axis = self.axis(self.kind(table, place, "a table"), place)
            if axis.name in [one.name for one in axes]:
                self.refuse(
                    f'axis "{axis.name}" is there twice', f"{place}.name", "give each axis its own name"
                )
            for earlier in axes:
                shared = set(earlier.keys) & set(axis.keys)
                if shared:
                    self.refuse(
                        f"{min(shared)} is set by two axes, {earlier.name} and {axis.name}",
                        place,
                        "the later one would undo the earlier: let one axis set it",
                    )
            axes.append(axis)
        return tuple(axes)

    def axis(self, table: dict[str, Any], place: str) -> Axis:
        """Read one axis, in one of its three forms."""
        known = ("name", "label", "unit", "key", "keys", "values", "names", "labels", "points")
        self.keys(table, place, known)
        name = self.column(table, place, RESULT_COLUMNS + (DERIVED_COLUMNS if self._check else ()))
        kinds = [kind for kind in ("key", "keys", "points") if kind in table]
        if len(kinds) != 1:
            what = f"{' and '.join(kinds)} exclude each other" if kinds else "the axis sets nothing"
            self.refuse(
                what,
                place,
                'give key = "flows.0.count", or keys = ["a.b", "c.d"], each with values; or points = [ … ]',
            )
        if "points" in table:
            for key in ("values", "names", "labels"):
                if key in table:
                    self.refuse(
                        f"{key} has no place beside points", f"{place}.{key}", "each point has its name"
                    )
            values, labels, settings = self.named_points(table, place)
        else:
            values, labels, settings = self.plain_values(table, place)
        return Axis(
            name=name,
            label=self.take(table, place, "label", "a text", name),
            unit=self.take(table, place, "unit", "a text", ""),
            values=self.distinct(table, values, place),
            labels=labels,
            settings=settings,
        )

    def plain_values(
        self, table: dict[str, Any], place: str
    ) -> tuple[list[Value], tuple[str, ...], tuple[dict[str, Any], ...]]:
        """Read an axis that moves one key, or several together."""
        paired = "keys" in table
        keys = self.texts(table, place, "keys") if paired else (self.take(table, place, "key", "a text"),)
        if not keys:
            self.refuse(
                "no key is given", f"{place}.{'keys' if paired else 'key'}", 'such as "flows.0.count"'
            )
        for key in keys:
            self.scenario_key(key, f"{place}.{'keys' if paired else 'key'}")
        if len(set(keys)) < len(keys):
            self.refuse("a key is there twice", f"{place}.keys", "each key moves once")
        given = self.take(table, place, "values", "a list")
        if not given:
            self.refuse("the grid is empty: the axis has no values", f"{place}.values", "give at least one")
        rows = []
        for index, value in enumerate(given):
            where = f"{place}.values[{index}]"
            row = self.kind(value, where, "a list") if paired else [value]
            if len(row) != len(keys):
                self.refuse(
                    f"{_shown(value)} has {len(row)} values for {len(keys)} keys",
                    where,
                    f"give one value for each of {', '.join(keys)}",
                )
            rows.append([self.value(one, where) for one in row])
        names = self.names(table, place, rows)
        labels = self.texts(table, place, "labels") or tuple(map(_text, names))
        if len(labels) != len(names):
            self.refuse(
                f"{len(labels)} labels for {len(names)} values", f"{place}.labels", "give one for each"
            )
        return names, labels, tuple(dict(zip(keys, row, strict=True)) for row in rows)

    def names(self, table: dict[str, Any], place: str, rows: list[list[Any]]) -> list[Value]:
        """Return the names of the axis's values: the names given, or the values themselves."""
        given = self.take(table, place, "names", "a list", None)
        if given is not None:
            if len(given) != len(rows):
                self.refuse(
                    f"{len(given)} names for {len(rows)} values", f"{place}.names", "give one for each"
                )
            for index, name in enumerate(given):
                self.scalar(name, f"{place}.names[{index}]")
            return list(given)
        for index, row in enumerate(rows):
            if any(isinstance(value, (dict, list)) for value in row):
                self.refuse(
                    f"{_shown(row[0])} needs a name",
                    f"{place}.values[{index}]",
                    "add names = [ … ], one for each value",
                )
        return [row[0] if len(row) == 1 else ", ".join(map(_text, row)) for row in rows]

    def named_points(
        self, table: dict[str, Any], place: str
    ) -> tuple[list[Value], tuple[str, ...], tuple[dict[str, Any], ...]]:
        """Read an axis that is a list of named settings."""
        given = self.take(table, place, "points", "a list")
        if not given:
            self.refuse("the grid is empty: the axis has no points", f"{place}.points", "give at least one")
        names: list[Value] = []
        labels: list[str] = []
        settings = []
        for index, point in enumerate(given):
            where = f"{place}.points[{index}]"
            self.kind(point, where, "a table")
            self.keys(point, where, ("name", "label", "set"))
            if "name" not in point:
                self.refuse(f'missing key "name" in {where}', where, 'add name = "reno"')
            names.append(self.scalar(point["name"], f"{where}.name"))
            labels.append(self.take(point, where, "label", "a text", _text(names[-1])))
            settings.append(self.settings(self.take(point, where, "set", "a table", {}), f"{where}.set"))
        return names, tuple(labels), tuple(settings)

    def scalar(self, value: object, where: str) -> Value:
        """Return where an axis may stand: a text, a number or a truth value."""
        if not isinstance(value, (str, int, float, bool)) or (isinstance(value, str) and not value.strip()):
            self.refuse(f"a name cannot be {_shown(value)}", where, "expected a text or a number")
        return value

    def distinct(self, table: Mapping[str, Any], values: list[Value], place: str) -> tuple[Value, ...]:
        """Return the values as one type; none may be there twice."""
        kind = "points" if "points" in table else "values"
        kinds = {"number" if is_number(value) else type(value).__name__ for value in values}
        # A column has one type: numbers beside words become words.
        alike = values if len(kinds) == 1 else [_text(value) for value in values]
        seen: set[Value] = set()
        for index, value in enumerate(alike):
            if value in seen:
                self.refuse(f"{_shown(value)} is there twice", f"{place}.{kind}[{index}]", "each value once")
            seen.add(value)
        return tuple(alike)

    def column(self, table: dict[str, Any], place: str, taken: Iterable[str]) -> str:
        """Return the name of an axis or metric, which becomes a column."""
        name: str = self.take(table, place, "name", "a text")
        if COLUMN.fullmatch(name) is None:
            self.refuse(
                f'name cannot be "{name}"',
                f"{place}.name",
                "it becomes a column: write letters, digits and '_', no digit first; a label may be anything",
            )
        if name in taken:
            remedy = "a column of the tables is called so: choose another; a label may be anything"
            self.refuse(f'name "{name}" is taken', f"{place}.name", remedy)
        return name

    def seeds(self, content: Mapping[str, Any]) -> tuple[int, ...]:
        """Read the seeds: a list as ``--seeds`` takes it, one number, or several."""
        given = content.get("seeds")
        if given is None:
            self.refuse('missing key "seeds"', "", 'add seeds = "1-10"')
        try:
            if isinstance(given, str):
                return tuple(parse_seeds(given))
            listed = given if isinstance(given, (list, tuple)) else [given]
            return tuple(check_seeds(-1 if isinstance(seed, bool) else seed for seed in listed))
        except ArgumentError as error:
            what = str(error).replace(f"bad --seeds '{given}': ", f'bad seeds "{given}": ')
            return self.refuse(what, "seeds", 'write for example "1-10" or "1,3,5-7" or [1, 2, 3]')

    def keep(self, given: object) -> tuple[Keep, ...]:
        """Read which series are kept."""
        kept: list[Keep] = []
        for index, table in enumerate(self.kind(given, "keep", "a list")):
            place = f"keep[{index}]"
            self.kind(table, place, "a table")
            self.keys(table, place, ("name", "table", "links", "flows", "columns"))
            source = self.take(table, place, "table", "a text")
            if source not in on_demand():
                self.refuse(f'unknown table "{source}"', f"{place}.table", nearest(source, on_demand()))
            name = self.take(table, place, "name", "a text", source)
            if COLUMN.fullmatch(name) is None or name in SOURCES or name in [one.name for one in kept]:
                self.refuse(f'name "{name}" is taken or unfit', f"{place}.name", "give it a name of its own")
            available = known_columns(source) if self._check else ()
            for kind in ("links", "flows"):
                if kind in table and kind[:-1] not in available and self._check:
                    other = "flows" if kind == "links" else "links"
                    self.refuse(f"{source} has no {kind}", f"{place}.{kind}", f"choose rows by {other}")
            columns = self.texts(table, place, "columns")
            for position, column in enumerate(columns):
                if column not in available and self._check:
                    self.refuse(
                        f'{source} has no column "{column}"',
                        f"{place}.columns[{position}]",
                        nearest(column, available),
                    )
            links, flows = self.texts(table, place, "links"), self.texts(table, place, "flows")
            if links and flows:
                self.refuse("links and flows exclude each other", place, "choose rows by one of them")
            kept.append(Keep(name, source, links or flows, columns, bool(flows) and source in LINK_TABLES))
        return tuple(kept)

    def metrics(
        self, tables: Sequence[object], keep: Sequence[Keep], axes: Sequence[Axis]
    ) -> tuple[Metric, ...]:
        """Read all metrics: names that are known, or tables."""
        if not tables:
            self.refuse("no metric is given", "metrics", 'add for example metrics = ["goodput_bit_s"]')
        taken = {*RESULT_COLUMNS, *(axis.name for axis in axes), *PASSING_COLUMNS}
        metrics: list[Metric] = []
        for index, table in enumerate(tables):
            place = f"metrics[{index}]"
            if isinstance(table, str):
                known = named(table)
                if known is None:
                    self.refuse(
                        f'unknown metric "{table}"',
                        place,
                        f"{nearest(table, known_names())}; 'lasthop metrics' lists all; "
                        "or write [[metrics]] with name, from, field and by",
                    )
                metric = known
                if metric.name in taken:
                    self.refuse(f'name "{metric.name}" is taken', place, "an axis has it: rename the axis")
            else:
                metric = self.metric(self.kind(table, place, "a table"), place, keep, taken)
            if metric.name in [one.name for one in metrics]:
                self.refuse(f'metric "{metric.name}" is there twice', place, "give each metric its own name")
            metrics.append(metric)
        return tuple(metrics)

    def metric(self, table: dict[str, Any], place: str, keep: Sequence[Keep], taken: Iterable[str]) -> Metric:
        """Read a metric that is written out."""
        options = ("name", "label", "unit", "from", "field", "where", "by", "scale", "higher_is_better")
        self.keys(table, place, options)
        name = self.column(table, place, taken)
        # A known name fills in whatever the table leaves out.
        known = named(name) if "from" not in table and "field" not in table else None
        source = known.source if known else self.take(table, place, "from", "a text", "flows")
        kept = {one.name: one for one in keep}
        if source not in (*SOURCES, *kept):
            self.refuse(f'unknown table "{source}"', f"{place}.from", nearest(source, (*SOURCES, *kept)))
        column = known.field if known else self.take(table, place, "field", "a text")
        self.metric_column(source, column, kept.get(source), f"{place}.field")
        by = self.take(table, place, "by", "a text", known.by if known else "mean")
        if by not in REDUCTIONS:
            self.refuse(f'unknown reduction "{by}"', f"{place}.by", nearest(by, REDUCTIONS))
        if by == "bottleneck" and source != "links":
            self.refuse('by = "bottleneck" is for links', f"{place}.by", f"the metric is from {source}")
        where = self.take(table, place, "where", "a text", None)
        if where is not None and source == "totals":
            self.refuse("totals have one row", f"{place}.where", 'leave where out, or choose from = "flows"')
        scale = self.take(table, place, "scale", "a number", 1.0)
        if not math.isfinite(scale) or scale <= 0:
            self.refuse(f"scale cannot be {scale}", f"{place}.scale", "write a finite number above zero")
        better = self.take(
            table, place, "higher_is_better", "true or false", known.higher_is_better if known else None
        )
        kept_of = kept[source].table if source in kept else source
        table_unit, declared = unit_of(kept_of, column, by), find(kept_of, column)

        over = {"totals": "", "bottleneck": "at the bottleneck: "}.get(
            source if source == "totals" else by, f"{by} over the {source}: "
        )
        return Metric(
            name=name,
            label=self.take(table, place, "label", "a text", known.label if known else name),
            unit=self.take(table, place, "unit", "a text", table_unit if scale == 1 else ""),
            source=source,
            field=column,
            where=where,
            by=by,
            scale=float(scale),
            higher_is_better=better,
            table_unit=table_unit,
            help="" if declared is None else f"{over}{declared.help}",
        )

    def metric_column(self, source: str, column: str, kept: Keep | None, place: str) -> None:
        """Refuse a column that no run can have."""
        if not self._check:
            return
        if kept is None:
            if not is_column(source, column):
                self.refuse(
                    f'{source} have no column "{column}"', place, nearest(column, known_columns(source))
                )
            return
        available = kept.columns or known_columns(kept.table)
        if column not in available:
            self.refuse(f'{source} keeps no column "{column}"', place, nearest(column, available))

    def baseline(self, given: object, axes: Sequence[Axis]) -> dict[str, Value]:
        """Read what paired differences are taken from."""
        by_name = {axis.name: axis for axis in axes}
        found: dict[str, Value] = {}
        for name, value in self.kind(given, "baseline", "a table").items():
            where = f"baseline.{name}"
            if name not in by_name:
                self.refuse(f'unknown axis "{name}"', where, nearest(name, by_name))
            standing = by_name[name].find(value)
            if standing is None:
                known = nearest(_text(value), map(_text, by_name[name].values))
                self.refuse(f"axis {name} has no value {_shown(value)}", where, known)
            found[name] = standing
        return found

    def x(self, content: Mapping[str, Any], axes: Sequence[Axis]) -> str | None:
        """Read the axis drawn along x, or choose the numeric one with most values."""
        names = [axis.name for axis in axes]
        given: str | None = self.take(content, "", "x", "a text", None)
        if given is not None:
            if given not in names:
                self.refuse(f'unknown axis "{given}"', "x", nearest(given, names))
            return given
        candidates = [axis for axis in axes if axis.is_numeric] or list(axes)
        return max(candidates, key=lambda axis: len(axis.values)).name if candidates else None


def _join(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def _last(where: str) -> str:
    return where.rpartition(".")[2]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _shown(value: object) -> str:
    """Write a value as the file has it, shortened."""
    try:
        text = toml_value(value)
    except ArgumentError:
        text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"  # noqa: PLR2004
