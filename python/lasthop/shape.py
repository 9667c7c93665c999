"""What a saved run may hold: the fields and types that the engine declares.

Called by `lasthop.saved` when results are read. Their digest says that a file is as it was written, not that
lasthop wrote it: a file of others has its own digest. What the product shows has been looked at here.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from lasthop.columns import X, declared, find
from lasthop.seals import DamagedError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Lists of a record with a column of their own kind in each row, and its only row of sums.
LISTS, SUMS = ("flows", "links"), "totals"
#: What a field of a kind must be.
MEANT = {
    "count": "a whole number",
    "unsigned": "a whole number",
    "short": "a whole number",
    "number": "a number",
    "text": "text",
    "flag": "true or false",
}
#: The kinds of Python's types.
KINDS = {int: "count", float: "number", str: "text", bool: "flag"}
#: How real-time figures were counted, in the row of a flow.
OPTIONS = {
    "threshold_s": "number",
    "missing": "text",
    "arrival": "text",
    "sent": "text",
    "delayed_over": "text",
}
#: Larger than any count and any figure of a run, and small enough to be squared and summed.
COUNT_MAX, NUMBER_MAX = 2**64, 1e100
#: Fields without which a run cannot be shown; real packets have been through less that is known.
NEEDED = {
    "runs": ("seed", "wall_s", "duration_s"),
    "totals": (),
    "flows": ("name", "transport"),
    "links": ("name",),
}
NEEDED_OF_SIMULATIONS = {
    "runs": ("packet_hops",),
    "totals": ("goodput_bit_s", "throughput_bit_s"),
    "flows": ("bytes_delivered", "packets_sent", "packets_lost"),
    "links": ("utilisation", "drops", "tied_drops"),
}


def check_shape(value: Any, shape: Any, place: str = "") -> None:  # noqa: ANN401 - whatever a file holds
    """Look at JSON.

    Parameters
    ----------
    value : object
        What the file holds there.
    shape : type, list or mapping
        A type stands for itself, a list for lists of one shape, a mapping for an object with these fields and
        others. A field called ``name?`` may be missing or null, ``*`` stands for every field.
    place : str
        Where it stands, for the error.

    Raises
    ------
    DamagedError
        Naming the first field that is something else.

    Examples
    --------
    >>> check_shape({"runs": {"wanted": 3, "more": 1}}, {"runs": {"wanted": int, "left?": [int]}})
    >>> check_shape({"runs": {"wanted": 3, "left": [1, ""]}}, {"runs": {"wanted": int, "left?": [int]}})
    Traceback (most recent call last):
    lasthop.seals.DamagedError: runs.left[1] should be a whole number
    """
    if isinstance(shape, type):
        if not _fits(value, kind := KINDS[shape]):
            raise DamagedError(f"{place} should be {MEANT[kind]}")
    elif isinstance(shape, list):
        if not isinstance(value, list):
            raise DamagedError(f"{place} should be a list")
        for number, one in enumerate(value):
            check_shape(one, shape[0], f"{place}[{number}]")
    else:
        _check_object(value, shape, place)


def _check_object(value: Any, shape: Mapping[str, Any], place: str) -> None:  # noqa: ANN401 - as above
    if not isinstance(value, dict):
        raise DamagedError(f"{place or 'it'} should be a JSON object")
    for pattern, inner in shape.items():
        name = pattern.removesuffix("?")
        for one in value if name == "*" else (name,):
            if value.get(one) is None and name != pattern:
                continue
            if one not in value:
                raise DamagedError(f"it has no {_at(place, one)!r}")
            check_shape(value[one], inner, _at(place, one))


def check_record(record: Any) -> None:  # noqa: ANN401 - whatever the file holds
    """Look at what a saved file has of one run.

    Raises
    ------
    DamagedError
        Naming the first field that cannot be what it should be.

    Examples
    --------
    >>> check_record({"totals": {}, "flows": [], "links": [], "seed": -1})
    Traceback (most recent call last):
    lasthop.seals.DamagedError: seed should be a whole number
    """
    if not isinstance(record, dict):
        raise DamagedError("a run should be a JSON object")
    for name in (SUMS, *LISTS):
        if name not in record:
            raise DamagedError(f"it has no {name!r}")
    needed = dict(NEEDED)
    if "live" not in record:
        needed = {table: (*names, *NEEDED_OF_SIMULATIONS[table]) for table, names in NEEDED.items()}
    _check_row(record, "runs", needed, "")
    _check_row(record[SUMS], SUMS, needed, SUMS)
    for name in LISTS:
        if not isinstance(record[name], list):
            raise DamagedError(f"{name} should be a list")
        for number, row in enumerate(record[name]):
            _check_row(row, name, needed, f"{name}[{number}]")


def _check_row(row: Any, table: str, needed: Mapping[str, tuple[str, ...]], place: str) -> None:  # noqa: ANN401
    _check(row, table, _kinds(table), place)
    for name in needed[table]:
        if row.get(name) is None:
            raise DamagedError(f"it has no {_at(place, name)!r}")


@functools.cache
def _kinds(table: str) -> dict[str, Any]:
    """Return the kinds of the columns of a table, nested as its rows are; ``*`` is that of other fields."""
    kinds: dict[str, Any] = {}
    # A column that is the sum of others comes before them here, and its kind is that of all of them.
    for column in sorted(declared(table).values(), key=lambda one: len(one.path)):
        at = kinds
        *parents, last = column.path
        for parent in parents:
            inner = at.get(parent, {})
            at[parent] = at = {"*": inner} if isinstance(inner, str) else inner
        at[last] = column.kind
    if "realtime" in kinds:
        kinds["realtime"]["options"] = OPTIONS
    return kinds


def _check(row: Any, table: str, kinds: Mapping[str, Any], place: str) -> None:  # noqa: ANN401 - as above
    if not isinstance(row, dict):
        raise DamagedError(f"{place} should be a JSON object")
    for name, value in row.items():
        kind = kinds.get(name) or kinds.get("*")
        if kind is None and (column := find(table, name)) is not None:
            kind = column.kind
        if kind is None or (value is None and "*" not in kinds):
            continue
        if isinstance(kind, str):
            if not _fits(value, kind):
                raise DamagedError(f"{_at(place, name)} should be {MEANT[kind]}")
        else:
            _check(value, table, kind, _at(place, name))
            # What a row has at all, it has whole.
            if missing := [one for one in kind if one != "*" and X not in one and one not in value]:
                raise DamagedError(f"it has no {_at(_at(place, name), missing[0])!r}")


def _fits(value: object, kind: str) -> bool:
    if kind == "text":
        return isinstance(value, str)
    if isinstance(value, bool) or kind == "flag":
        return isinstance(value, bool) and kind == "flag"
    if kind == "number":
        return isinstance(value, int | float) and abs(value) <= NUMBER_MAX
    return isinstance(value, int) and 0 <= value < COUNT_MAX


def _at(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name
