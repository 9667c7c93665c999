"""Boxes of a column of flows: median, middle half and 5 to 95 % of each class, of completion by length, too.

Called by `Run.plot`, `Comparison.plot` and ``lasthop plot`` with ``box``. Draws as `lasthop.plot` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lasthop.distribution import WITHOUT, quantity
from lasthop.errors import ArgumentError
from lasthop.flow_groups import NAMELESS, group_flows, took_part
from lasthop.quantities import number_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

    from lasthop.comparison import Comparison
    from lasthop.distribution import Quantity
    from lasthop.drawing import Picture
    from lasthop.results import Run

#: Upper ends of the classes of lengths in bytes, as the totals of a run have them.
LENGTHS = ((100_000, "up to 100 kB"), (1_000_000, "up to 1 MB"), (None, "above 1 MB"))
#: What a box and its whiskers reach over.
SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
#: The axis is logarithmic where values differ by more than this.
WIDE = 50.0


@dataclass(frozen=True, slots=True)
class Box:
    """The values of one class; `missing` counts flows that have none."""

    label: str
    sender: str
    values: list[float]
    missing: int

    def named(self) -> str:
        """Return the label with the number of values.

        Examples
        --------
        >>> Box("web", "cubic", [1.0, 2.0], 1).named(), Box("web", "cubic", [1.0], 0).named()
        ('web (2 of 3)', 'web (1)')
        """
        count = len(self.values)
        return (
            f"{self.label} ({count:,} of {count + self.missing:,})"
            if self.missing
            else f"{self.label} ({count:,})"
        )

    def corners(self) -> list[float]:
        """Return the values at `SHARES`.

        Examples
        --------
        >>> Box("web", "cubic", [float(value) for value in range(101)], 0).corners()
        [5.0, 25.0, 50.0, 75.0, 95.0]
        """
        ordered = sorted(self.values)
        places = [share * (len(ordered) - 1) for share in SHARES]
        return [
            ordered[int(place)]
            + (place % 1) * (ordered[min(int(place) + 1, len(ordered) - 1)] - ordered[int(place)])
            for place in places
        ]


def _wanted(name: str) -> Quantity:
    wanted = quantity(name)
    if wanted.table != "flows":
        raise ArgumentError(
            f"boxes are drawn of columns of flows, such as completion and goodput, not of {name}"
        )
    return wanted


def of_records(flows: Sequence[Mapping[str, Any]], name: str, front: str = "") -> list[Box]:
    """Return the boxes of rows of flows: by class, and where transfers are of several lengths by these.

    Examples
    --------
    >>> lengths = [10_000, 20_000, 5_000_000]
    >>> rows = [
    ...     {"name": f"web-{place}", "transport": "cubic", "completion_s": 1.0, "transfer_bytes": length}
    ...     for place, length in enumerate(lengths)
    ... ]
    >>> [box.named() for box in of_records(rows, "completion_s")]
    ['web, up to 100 kB (2)', 'web, above 1 MB (1)']
    """
    boxes = []
    for group in group_flows(flows):
        rows = [flows[place] for place in group.members if took_part(flows[place])]
        label = group.transport if group.name == NAMELESS else group.name
        parts = _by_length(rows) if name == "completion_s" else [("", rows)]
        for part, members in parts:
            values = [float(row[name]) for row in members if isinstance(row.get(name), int | float)]
            named = ", ".join(dict.fromkeys(word for word in (front, label, part) if word))
            if values:
                boxes.append(Box(named, front or group.transport, values, len(members) - len(values)))
    return boxes


def _by_length(rows: Sequence[Mapping[str, Any]]) -> Iterable[tuple[str, Sequence[Mapping[str, Any]]]]:
    """Divide transfers by their length, if they are of several classes."""
    divided: dict[str, list[Mapping[str, Any]]] = {label: [] for _, label in LENGTHS}
    for row in rows:
        length = row.get("transfer_bytes")
        if length is None:
            return [("", rows)]
        divided[next(label for most, label in LENGTHS if most is None or length <= most)].append(row)
    full = [(label, members) for label, members in divided.items() if members]
    return full if len(full) > 1 else [("", rows)]


def of_run(run: Run, name: str) -> list[Box]:
    """Return the boxes of a run."""
    return of_records(run.flows.to_dicts(), _wanted(name).name)


def of_comparison(comparison: Comparison, name: str) -> list[Box]:
    """Return the boxes of each transport of a comparison, over its seeds."""
    wanted = _wanted(name)
    return [
        box
        for transport in comparison.transports
        for box in of_records(
            [flow for record in comparison.runs[transport] for flow in record["flows"]],
            wanted.name,
            transport,
        )
    ]


def draw(boxes: Sequence[Box], name: str, title: str, *paths: str | Path) -> Picture:
    """Draw a box per class."""
    from lasthop import drawing

    wanted = _wanted(name)
    if not boxes:
        raise ArgumentError(f"there is no value of {name} here: {WITHOUT}")
    figure = _figure(boxes, wanted, title)
    drawing.draw(paths, lambda: figure, lambda: _page(boxes, wanted, title))
    return drawing.Picture(figure)


def _scale(boxes: Sequence[Box], wanted: Quantity) -> tuple[float, str, bool]:
    """Return the factor of the unit, the label of the axis, and whether it is logarithmic."""
    from lasthop.quantities import prefix_for

    corners = [corner for box in boxes for corner in box.corners()]
    factor, unit = prefix_for(max(abs(corner) for corner in corners), wanted.unit)
    least = min(corners)
    return factor, f"{wanted.label} ({unit})" if unit else wanted.label, 0 < WIDE * least < max(corners)


def _figure(boxes: Sequence[Box], wanted: Quantity, title: str) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    from lasthop.drawing import COLOURS, styles

    factor, label, logarithmic = _scale(boxes, wanted)
    chosen = styles(box.sender for box in boxes)
    figure = Figure(figsize=(7.2, 1.2 + 0.45 * len(boxes)), layout="constrained")
    axes = figure.subplots()
    for place, box in enumerate(boxes):
        low, first, middle, third, high = (corner / factor for corner in box.corners())
        colour = COLOURS[chosen[box.sender] % len(COLOURS)]
        axes.hlines(place, low, high, color=colour, zorder=1)
        axes.vlines([low, high], place - 0.15, place + 0.15, color=colour)
        axes.barh(place, third - first, 0.6, left=first, facecolor="white", edgecolor=colour, zorder=2)
        axes.vlines(middle, place - 0.3, place + 0.3, color="black", zorder=3)
    axes.set_yticks(range(len(boxes)), [box.named() for box in boxes])
    axes.invert_yaxis()
    axes.set_axisbelow(True)
    if logarithmic:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(f"{label}: {_shares_of(boxes)}")
    axes.grid(visible=True, axis="x", color="#e6e6e6", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{title}: {wanted.label}", fontsize=11)
    return figure


def _shares_of(boxes: Sequence[Box]) -> str:
    """Say what the corners of boxes are shares of."""
    shares = ", ".join(f"{100 * share:g}" for share in SHARES[:-1])
    of = "the flows that have one" if any(box.missing for box in boxes) else "flows"
    return f"{shares} and {100 * SHARES[-1]:g} % of {of}"


def _page(boxes: Sequence[Box], wanted: Quantity, title: str) -> Any:  # noqa: ANN401 - untyped
    import plotly.graph_objects as go

    from lasthop.drawing import COLOURS, styles

    factor, label, logarithmic = _scale(boxes, wanted)
    chosen = styles(box.sender for box in boxes)
    page = go.Figure()
    for box in boxes:
        low, first, middle, third, high = ([corner / factor] for corner in box.corners())
        page.add_box(
            y=[box.named()],
            lowerfence=low,
            q1=first,
            median=middle,
            q3=third,
            upperfence=high,
            orientation="h",
            name=box.named(),
            marker_color=COLOURS[chosen[box.sender] % len(COLOURS)],
            showlegend=False,
        )
    page.update_layout(
        title=f"{title}: {wanted.label}",
        template="plotly_white",
        xaxis_title=f"{label}: {_shares_of(boxes)}",
        xaxis_type="log" if logarithmic else "linear",
    )
    page.update_yaxes(autorange="reversed")
    return page
