"""Flows under the names that the user gave: each entry of ``[[flows]]`` as the group of its flows.

Called by the tables of a run and of a comparison. An entry with ``count`` makes flows ``web-1``, ``web-2``
and so on; where many flows are shown, one group of them is one row.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from lasthop import stats
from lasthop.quantities import number_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lasthop.columns import Column
    from lasthop.stats import Estimate

#: What the engine calls flows without a name, so that it says nothing.
NAMELESS = "flow"
#: The number of one flow among those of its entry.
NUMBER = re.compile(r"-\d+$")


class Group(NamedTuple):
    """Flows of one entry that run over one transport."""

    name: str
    transport: str
    #: Their places among the flows of a run.
    members: list[int]

    @property
    def label(self) -> str:
        """What a row about them is called.

        Examples
        --------
        >>> Group("web", "cubic", [0, 1]).label, Group("flow", "reno", [0, 1]).label
        ('web (2 flows, cubic)', '2 x reno')
        """
        if self.name == NAMELESS:
            return f"{len(self.members)} x {self.transport}"
        flows = f"{len(self.members)} flows, " if len(self.members) > 1 else ""
        return f"{self.name} ({flows}{self.transport})"


def group_flows(flows: Sequence[Mapping[str, Any]], among: Iterable[int] | None = None) -> list[Group]:
    """Return the groups of the flows of a run, in the order of the file.

    Examples
    --------
    >>> names = ["web-1", "web-2", "call-up"]
    >>> [group.label for group in group_flows([{"name": name, "transport": "cubic"} for name in names])]
    ['web (2 flows, cubic)', 'call-up (cubic)']
    """
    groups: dict[tuple[str, str], Group] = {}
    for place in range(len(flows)) if among is None else among:
        transport = flows[place]["transport"]
        name = NUMBER.sub("", flows[place]["name"])
        groups.setdefault((name, transport), Group(name, transport, [])).members.append(place)
    return list(groups.values())


def took_part(flow: Mapping[str, Any]) -> bool:
    """Say whether a transfer came before the end of the run: one that would have come later is none.

    Examples
    --------
    >>> took_part({"transfer_bytes": 1000, "start_s": None, "packets_sent": 0})
    False
    """
    never_began = flow.get("start_s", 0) is None and not flow.get("packets_sent")
    return not (never_began and flow.get("transfer_bytes") is not None)


def rows_of(records: Sequence[Mapping[str, Any]], members: Iterable[int]) -> list[list[Mapping[str, Any]]]:
    """Return the rows of some flows that took part, for each record."""
    places = list(members)
    return [[flow for place in places if took_part(flow := record["flows"][place])] for record in records]


def arrived(records: Sequence[Mapping[str, Any]], members: Iterable[int]) -> list[int]:
    """Return the places of those flows that took part in one of the runs at least, or all if none did."""
    places = list(members)
    came = [place for place in places if any(took_part(record["flows"][place]) for record in records)]
    return came or places


def group_mean(records: Sequence[Mapping[str, Any]], group: Group, column: Column) -> Estimate | None:
    """Return the mean over seeds of the mean over those flows of a group that have a value."""
    return stats.estimate(stats.mean(column.of_all(rows)) for rows in rows_of(records, group.members))


def unfinished(values: Sequence[Sequence[Any]], column: Column) -> str:
    """Say how many of some flows have a value, if some have none: a mean leaves those out.

    Examples
    --------
    >>> from lasthop.columns import find
    >>> unfinished([[1.5, None]], find("flows", "completion_s"))
    '1 of 2 finished'
    """
    if column.name != "completion_s":
        return ""
    known = [sum(value is not None for value in of_seed) for of_seed in values]
    finished = math.fsum(known) / len(known)
    # As many as come by chance; otherwise a whole number.
    flows = math.fsum(len(of_seed) for of_seed in values) / len(values)
    counted = f"{int(flows):,}" if flows.is_integer() else number_text(flows)
    share = f"{int(finished):,}" if finished.is_integer() else f"{finished:,.1f}"
    return "" if finished in (0, flows) else f"{share} of {counted} finished"
