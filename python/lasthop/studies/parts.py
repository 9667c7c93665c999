"""What a study is made of: `Axis`, `Keep` and `Point`, and the names that its tables take.

`reader` makes them of a file, and `Study` holds them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


#: Where an axis stands.
Value = str | int | float | bool


#: Columns of the tidy table that are neither axis nor metric.
RESULT_COLUMNS = (
    "seed",
    "state",
    "error",
    "run",
    "fingerprint",
    "packet_hops",
    "wall_s",
    "engine_version",
)


#: Large tables whose rows are of links.
LINK_TABLES = ("link_series", "radio_series", "helper_series", "hops")


#: Columns of the tables that plots and reports derive: no axis may be called so.
DERIVED_COLUMNS = (
    *("metric", "seeds", "baseline", "baseline_mean", "study"),
    *("mean", "low", "high", "sd", "median", "trimmed_mean", "trimmed_low", "trimmed_high", "outliers"),
    *("difference", "relative", "relative_low", "relative_high", "median_difference"),
    *("p_signed_rank", "agrees", "better", "same", "verdict"),
    *("time_s", "link", "flow"),
)


#: Columns that the tidy table gets in passing, while differences are taken or a figure is drawn.
PASSING_COLUMNS = ("study", "_baseline")


@dataclass(frozen=True, slots=True)
class Axis:
    """One dimension of the grid.

    Attributes
    ----------
    name : str
        Column of the tidy table.
    label, unit : str
        For people.
    values : tuple
        Where the axis stands: all numbers, or all text.
    labels : tuple of str
        The values for people.
    settings : tuple of dict
        For each value, the keys of the scenario that it sets.
    """

    name: str
    label: str
    values: tuple[Value, ...]
    labels: tuple[str, ...]
    settings: tuple[dict[str, Any], ...]
    unit: str = ""

    @property
    def is_numeric(self) -> bool:
        """Whether all values are numbers."""
        return all(is_number(value) for value in self.values)

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key that some value sets."""
        return tuple(dict.fromkeys(key for one in self.settings for key in one))

    def find(self, value: Value) -> Value | None:
        """Return the value itself, or the one with this label; `None` if there is neither."""
        if value in self.values:
            return self.values[self.values.index(value)]
        return self.values[self.labels.index(value)] if value in self.labels else None


@dataclass(frozen=True, slots=True)
class Keep:
    """Part of a large table that is kept of every run.

    Attributes
    ----------
    name : str
        How metrics and readers call it.
    table : str
        One of the large tables of a run, such as ``link_series``.
    rows : tuple of str
        Patterns for the names of links or flows; all rows if empty.
    columns : tuple of str
        Columns kept; all if empty.
    by_flow : bool
        Whether `rows` are names of flows in a table that has links as well.
    """

    name: str
    table: str
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    by_flow: bool = False

    @property
    def column(self) -> str:
        """Column that `rows` are names in: ``link`` or ``flow``."""
        return "link" if self.table in LINK_TABLES and not self.by_flow else "flow"

    @property
    def identity(self) -> str:
        """Name of the folder in the store: equal for equal content, whatever its name in a study."""
        import hashlib

        named = [self.table, sorted(self.rows), sorted(self.columns), *(["flow"] if self.by_flow else [])]
        content = json.dumps(named)
        return f"{self.table}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True)
class Point:
    """One place of the grid.

    Attributes
    ----------
    settings : dict
        For each axis, where it stands.
    overrides : dict
        The keys of the scenario that this place sets, those of ``[set]`` first.
    """

    settings: dict[str, Value]
    overrides: dict[str, Any]

    @property
    def text(self) -> str:
        """The settings for people: ``n=10, proto=reno``."""
        return ", ".join(f"{name}={value}" for name, value in self.settings.items()) or "the only point"


def point_keys(axes: Iterable[Axis]) -> set[str]:
    """Every key that some axis sets."""
    return {key for axis in axes for key in axis.keys}


def is_number(value: object) -> bool:
    """Whether the value is a number; truth values are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
