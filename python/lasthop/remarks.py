"""What tables of runs do not say by themselves: remarks on their records, one sentence or two each.

Called by `lasthop.tables` and by `lasthop.studies.remarks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lasthop import columns, stats
from lasthop.quantities import quantity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Say so when at least this many packets, and this share of those that found no room, lost a tie; or when
#: ties take this share of the queue that arriving packets find.
MANY_TIED_DROPS = 20
MUCH_TIED = 0.05
#: Flows that a remark names.
NAMED_MAX = 5
#: A link that is busy for more than this share of the time is full.
FULL = 0.95
#: Repairs that take this share of what a full link carries are what fills it.
MUCH_REPAIRED = 0.1


def above_throughput(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Explain a goodput that is above what crossed the links in the measured time."""
    totals = [record["totals"] for record in records]
    if not any(one["goodput_bit_s"] > one["throughput_bit_s"] for one in totals):
        return []
    remark = (
        "Goodput is above throughput: data that had arrived out of order before the warm-up ended was handed "
        "to the application after it. A longer run makes this small."
    )
    return [remark]


def repairs_on(link: Mapping[str, Any]) -> tuple[str, float] | None:
    """Return the helper that adds most packets to a direction of a link, and their share of what it carries.

    Examples
    --------
    >>> repairs_on({"packets_sent": 300, "fec": {"sources": 100, "repairs": 200}})
    ('fec', 0.6666666666666666)
    """
    added = {
        column.group: column.of(link) or 0
        for column in columns.declared("links").values()
        if column.group is not None and column.path[-1] in ("repairs", "retransmissions")
    }
    helper = max(added, key=lambda name: added[name], default=None)
    if helper is None or not added[helper] or not link["packets_sent"]:
        return None
    return helper, added[helper] / link["packets_sent"]


def filled_by_repairs(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Warn of links that are full, and carry many repairs of a helper."""
    said = []
    for place, first in enumerate(records[0]["links"]):
        links = [record["links"][place] for record in records]
        busy = stats.mean(link["utilisation"] for link in links) or 0.0
        found = [one for link in links if (one := repairs_on(link)) is not None]
        share = sum(share for _, share in found) / len(links)
        if busy > FULL and share > MUCH_REPAIRED:
            helper = found[0][0]
            advice = (
                'Protect one direction alone (direction = "down" or "up"), or send fewer repairs.'
                if helper == "fec"
                else "Let it repeat less often, or give the link more room."
            )
            said.append(
                f"{first['name']} is {quantity(busy, 'share')} busy, and {quantity(share, 'share')} of its "
                f"packets are repairs by {helper}: what waits there waits for them. {advice}"
            )
    return said


def tied_drops(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Warn that a lot decided which packet was dropped, if it did so often."""
    links = [link for record in records for link in record["links"]]
    tied = sum(link["tied_drops"] for link in links)
    overflows = sum(link["drops"]["queue-overflow"] for link in links)
    if tied < MANY_TIED_DROPS * len(records) or tied < MUCH_TIED * overflows:
        return []
    text = (
        f"{tied:,} of {overflows:,} drops at full queues ({tied / overflows:.0%}) were decided by a tie: "
        "packets met there in the same instant. A processing_time of about one transmission time at the "
        "bottleneck keeps flows from falling into step."
    )
    return [text]


def tied_arrivals(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Warn of managed queues whose law finds much less because arrivals coincide with departures."""
    said = []
    for place, first in enumerate(records[0]["links"]):
        links = [record["links"][place] for record in records]
        tied = sum(link.get("tied_arrivals") or 0 for link in links)
        acted = sum(link["drops"].get("early-drop", 0) + (link.get("marks") or 0) for link in links)
        if not acted or tied < MANY_TIED_DROPS * len(records):
            continue
        found = stats.mean(link.get("avg_queue_found_packets") or 0.0 for link in links) or 0.0
        arrived = sum(
            link["packets_sent"] + link["drops"].get("early-drop", 0) + link["drops"]["queue-overflow"]
            for link in links
        )
        # In each of them the law finds one packet less than if the departure went second.
        share = tied / arrived
        if share < MUCH_TIED * found:
            continue
        said.append(
            f"{tied:,} of {arrived:,} packets ({share:.0%}) came to the queue of {first['name']} in the same "
            "instant in which another left it. Departures go first: its law finds a packet less each time, "
            f"on a mean of {found:.1f}. A processing_time of about one transmission time ends such ties."
        )
    return said


def nothing_delivered(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name flows that sent packets and delivered nothing in any run."""
    silent = [
        flows[0]["name"]
        for flows in zip(*(record["flows"] for record in records), strict=True)
        if any(flow["packets_sent"] for flow in flows)
        and not any(flow["bytes_delivered"] or flow.get("completion_s") is not None for flow in flows)
    ]
    if not silent:
        return []
    named = ", ".join(silent[:NAMED_MAX]) + (
        f" and {len(silent) - NAMED_MAX} more" if len(silent) > NAMED_MAX else ""
    )
    lost = any(
        sum(flow["packets_lost"].values()) + sum((flow.get("acks_lost") or {}).values())
        for record in records
        for flow in record["flows"]
        if flow["name"] in silent
    )
    in_flight = any(record["totals"].get("packets_in_flight") for record in records)
    if not lost and not in_flight:
        text = (
            f"{named} delivered no data, though no packet was lost: the other end refused the connection, or "
            "had nothing to say before the end of the run."
        )
        return [text]
    text = (
        f"{named} delivered nothing: every packet was lost, or was still in flight at the end. Look at the "
        "losses and the delays of the path, and at the length of the run."
    )
    return [text]


#: What is said of runs of one scenario, by kind: each takes their records.
REMARKS = (above_throughput, nothing_delivered, filled_by_repairs, tied_drops, tied_arrivals)
