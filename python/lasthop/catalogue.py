"""Tables of what there is to choose from: transports, helpers, metrics.

Called by `lasthop.commands.catalogue`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from lasthop.tables import simple_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType


def transports_table(listed: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Every transport with its summary and the names of its parameters."""
    by_kind = {
        kind: [one for one in listed if one["kind"] == kind]
        for kind in ("preset", "rate", "stack", "controller", "recovery")
    }
    presets = simple_table("preset", "transport = NAME")
    for column in ("congestion control", "loss recovery"):
        presets.add_column(column)
    for one in by_kind["preset"]:
        presets.add_row(one["name"], one["controller"] or one["summary"], one["recovery"] or "-")
    rates = simple_table("rate-based", "transport = NAME, or { rate = NAME, PARAMETER = VALUE, ... }")
    rates.add_column("what it does")
    for one in by_kind["rate"]:
        rates.add_row(one["name"], one["summary"])
    stacks = simple_table("real stack", "transport = NAME, or { stack = ..., congestion = ... }")
    stacks.add_column("what it is")
    for one in by_kind["stack"]:
        stacks.add_row(one["name"], one["summary"])
    controllers = simple_table("congestion control", "transport = { cc = NAME, PARAMETER = VALUE, ... }")
    for column in ("what it does", "parameters"):
        controllers.add_column(column)
    for one in by_kind["controller"]:
        parameters = ", ".join(parameter["name"] for parameter in one["parameters"])
        controllers.add_row(one["name"], one["summary"], parameters or "-")
    recoveries = simple_table("loss recovery", "transport = { cc = ..., recovery = NAME }")
    recoveries.add_column("what it does")
    for one in by_kind["recovery"]:
        recoveries.add_row(one["name"], one["summary"])
    hint = Text("'lasthop transports NAME' shows the parameters of one.", style="dim")
    return Group(presets, rates, stacks, controllers, recoveries, hint)


def transport_table(one: Mapping[str, Any]) -> RenderableType:
    """One transport with help, default and range of each parameter."""
    head = Text.assemble((one["name"], "bold"), f"  {one['kind']}: {one['summary']}")
    if one["kind"] == "preset" and one["controller"]:
        head.append(f"\ncongestion control {one['controller']}, loss recovery {one['recovery']}")
    if not one["parameters"]:
        return Group(head, Text("no parameters of its own", style="dim"))
    table = simple_table("parameter")
    for column in ("default", "range"):
        table.add_column(column, justify="right")
    table.add_column("what it does", ratio=1)
    for parameter in one["parameters"]:
        if parameter["switch"]:
            default, allowed = ("true" if parameter["default"] else "false"), "true, false"
        elif parameter["choices"]:
            default = parameter["choices"][int(parameter["default"])]
            allowed = ", ".join(parameter["choices"])
        else:
            default = f"{parameter['default']:g}"
            allowed = f"{_bound(parameter['min'])}..{_bound(parameter['max'])}"
        table.add_row(parameter["name"], default, allowed, parameter["help"])
    return Group(head, table)


def helpers_table(listed: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Every helper with what it does, where it may stand, its keys and where it comes from."""
    table = simple_table("helper", "helpers = [NAME], or [{ kind = NAME, KEY = VALUE, ... }]")
    for column in ("what it does", "where it may stand", "keys", "from"):
        table.add_column(column, ratio=1)
    for one in listed:
        keys = ", ".join(key["name"] for key in one["keys"])
        table.add_row(one["name"], one["summary"], one["stands"], keys, one["origin"])
    hint = Text("'lasthop helpers NAME' shows the keys of one.", style="dim")
    return Group(table, hint)


def helper_table(one: Mapping[str, Any]) -> RenderableType:
    """One helper with meaning, default and values of each key."""
    head = Text.assemble((one["name"], "bold"), f"  {one['summary']}")
    head.append(f"\nstands {one['stands']}; {one['origin']}")
    table = simple_table("key")
    table.add_column("default", justify="right")
    table.add_column("value")
    table.add_column("what it does", ratio=1)
    for key in one["keys"]:
        table.add_row(key["name"], key["default"] or "", key["values"], key["help"])
    return Group(head, table)


def metrics_table(listed: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Every metric with its unit, where it comes from, and its meaning."""
    sources = {
        "totals": "of the run",
        "flows": "of the flows: the sum, or the mean over those that have it",
        "links": "of the links: the sum, or that of the bottleneck",
    }
    parts: list[RenderableType] = []
    for source, title in sources.items():
        if not any(one["from"] == source for one in listed):
            continue
        table = simple_table(title)
        table.columns[0].no_wrap = True
        for heading in ("unit", "by", "meaning"):
            table.add_column(heading)
        for one in listed:
            if one["from"] == source:
                table.add_row(Text(one["name"]), one["unit"], one["by"], Text(one["help"]))
        parts.append(table)
    hint = (
        "The unit may be left out, as in --metric goodput; bottleneck_ before the name of one of the links "
        "is its value there."
    )
    return Group(*parts, Text(hint, style="dim"))


def _bound(value: float | None) -> str:
    return "" if value is None else f"{value:g}"
