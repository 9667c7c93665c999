"""What a file of a link says: its rates over time, pauses and holes, as a table, a picture or another format.

The files are read in Rust, by the readers of scenarios. Called by ``lasthop trace``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from lasthop import _native
from lasthop.errors import ArgumentError, OutputError
from lasthop.quantities import quantity, time_text
from lasthop.tables import simple_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

#: Formats that can be written.
TARGETS = ("csv", "mahimahi", "pensieve")
WAYS = ("down", "up")
#: Interval of rates where a file has opportunities, in seconds.
INTERVAL_S = 0.1
#: Columns of the picture in the terminal, and points of a figure.
PICTURE_COLUMNS = 72
FIGURE_POINTS = 2000
LEVELS = " ▁▂▃▄▅▆▇█"
#: Rows further apart than this many times the usual distance are a hole.
HOLE = 3.0


class LinkTrace:
    """A file of what a link did over time.

    Parameters
    ----------
    path : str or Path
        A file that ``trace`` of a scenario's link takes: Mahimahi's traces and logs, tables with a heading,
        and rates of other tools and data sets.
    direction : {"down", "up"}, optional
        Which rate is meant where a row has both.

    Raises
    ------
    OutputError
        If the file cannot be read or is wrong; the text names the line.
    """

    def __init__(self, path: str | Path, direction: str = "down") -> None:
        if direction not in WAYS:
            raise ArgumentError(f"unknown direction {direction!r}: use one of {', '.join(WAYS)}")
        self.path = Path(path)
        try:
            self._read = _native.read_link_trace(self.path, direction)
        except _native.ScenarioError as error:
            # It is no scenario that is wrong.
            raise OutputError(str(error).replace("scenario error: ", "error: the trace: ", 1)) from None
        #: What the file says: lengths in seconds, rates in bit/s.
        self.summary: dict[str, Any] = json.loads(self._read.summary())
        self.direction = direction

    def rates(self, width_s: float) -> list[float]:
        """Return mean rates in bit/s of intervals of `width_s` seconds; none if the file has no rates."""
        return self._read.bins(width_s) or []

    def convert(self, target: str, interval_s: float = INTERVAL_S) -> str:
        """Return the same in another format, one of `TARGETS`.

        Parameters
        ----------
        target : str
            ``csv`` (rows hold from their time on), ``mahimahi`` (opportunities of 1500 B in whole ms) or
            ``pensieve`` (seconds and Mbit/s; rows hold up to their time).
        interval_s : float, optional
            Opportunities become mean rates of intervals of this length.

        Raises
        ------
        ArgumentError
            If the file has nothing that the format can hold, or would become too long.
        """
        try:
            return self._read.convert(target, interval_s)
        except ValueError as error:
            raise ArgumentError(f"cannot write '{self.path}' as {target}: {error}") from None

    def left_out(self, target: str) -> list[str]:
        """Return what of the file a format cannot hold."""
        kept = ("delay_s", "loss") if target == "csv" else ()
        names = {"delay_s": "delay", "loss": "loss"}
        return [name for key, name in names.items() if self.summary.get(key) and key not in kept]

    def line(self) -> str:
        """Return what a link of a scenario says to have this trace."""
        direction = ', direction = "up"' if self.summary["both_ways"] and self.direction == "up" else ""
        return f'trace = {{ kind = "{self.summary["kind"]}", file = "{self.path.name}"{direction} }}'

    def picture(self, columns: int = PICTURE_COLUMNS) -> str:
        """Return the rates over the length of the file as a line of bars; empty without rates."""
        # A little wider, so that rounding leaves no sliver at the end.
        rates = self.rates(self.summary["length_s"] / columns + 1e-9) if self.summary["length_s"] > 0 else []
        most = max(rates, default=0.0)
        if most <= 0:
            return ""
        last = len(LEVELS) - 1
        # A rate above nothing has a bar.
        return "".join(LEVELS[max(round(rate / most * last), int(rate > 0))] for rate in rates)

    def plot(self, *paths: str | Path) -> None:
        """Draw the rates over time; the ending chooses the format."""
        from lasthop.drawing import draw

        draw(paths, lambda: _figure(self), lambda: _page(self))

    def table(self) -> RenderableType:
        """Return what was understood, for a terminal."""
        summary = self.summary
        rows = simple_table("what")
        rows.show_header, rows.box = False, None
        rows.add_column("value")
        for name, value in _rows(summary):
            rows.add_row(name, value)
        parts: list[RenderableType] = [
            Text.assemble((self.path.name, "bold"), f"  {summary['layout']}"),
            rows,
        ]
        picture = self.picture()
        if picture:
            by_second = summary["rate_by_second_bit_s"]
            most = max(by_second["max"], summary["mean_rate_bit_s"])
            parts += [
                Text(picture),
                Text(f"0 to {time_text(summary['length_s'])}, up to {quantity(most, 'bit/s')}"),
            ]
        parts.append(Text(f"in a scenario: {self.line()}", style="dim"))
        return Group(*parts)


def _rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what the table says, name and value."""
    rows = [("length", time_text(summary["length_s"]))]
    if "opportunities" in summary:
        bytes_each = summary["opportunity_bytes"]
        rows.append(("opportunities", f"{summary['opportunities']:,} of {bytes_each} B"))
    if "rows" in summary:
        median, longest = summary["spacing"]["median_s"], summary["spacing"]["longest"]
        apart = "" if median is None else f", usually {quantity(median, 's')} apart"
        if longest and longest["length_s"] > HOLE * median:
            hole = f"{quantity(longest['length_s'], 's')} at {time_text(longest['at_s'])}"
            apart += f"; the longest hole is {hole}"
        rows.append(("rows", f"{summary['rows']:,}{apart}"))
    if "mean_rate_bit_s" in summary:
        rows.append(("mean rate", quantity(summary["mean_rate_bit_s"], "bit/s")))
        shares = summary["rate_by_second_bit_s"]
        texts = [
            f"{name} {quantity(shares[name], 'bit/s')}" for name in ("min", "p5", "median", "p95", "max")
        ]
        rows.append(("by second", ", ".join(texts)))
        pauses = summary["pauses"]
        text = "none"
        if pauses["count"]:
            longest = pauses["longest"]
            text = (
                f"{pauses['count']:,}, {quantity(pauses['total_s'], 's')} in all, "
                f"the longest {quantity(longest['length_s'], 's')} at {time_text(longest['at_s'])}"
            )
        rows.append(("pauses of 100 ms", text))
    for key, name, unit in (("delay_s", "delay", "s"), ("loss", "loss", "share")):
        values = summary.get(key)
        if values:
            texts = [f"{which} {quantity(values[which], unit)}" for which in ("min", "mean", "max")]
            rows.append((name, ", ".join(texts)))
    if summary["both_ways"]:
        rows.append(("directions", "both; --direction chooses"))
    return rows


def _points(trace: LinkTrace) -> tuple[list[float], list[float]]:
    """Return times in seconds and rates in Mbit/s for a figure."""
    length = trace.summary["length_s"]
    width = max(length / FIGURE_POINTS, INTERVAL_S)
    rates = trace.rates(width) if length > 0 else []
    if not rates:
        raise ArgumentError(f"'{trace.path}' has no rates to draw")
    return [place * width for place in range(len(rates))], [rate / 1e6 for rate in rates]


def _figure(trace: LinkTrace) -> Figure:
    from matplotlib.figure import Figure

    times, rates = _points(trace)
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    axes = figure.subplots()
    axes.step(times, rates, where="post", linewidth=0.9)
    axes.set(xlabel="time (s)", ylabel="rate (Mbit/s)", title=trace.path.name, ylim=(0, None))
    axes.grid(visible=True, alpha=0.3)
    return figure


def _page(trace: LinkTrace) -> Any:  # noqa: ANN401 - untyped
    from plotly.graph_objects import Figure as Page
    from plotly.graph_objects import Scatter

    times, rates = _points(trace)
    page = Page(Scatter(x=times, y=rates, mode="lines", line={"shape": "hv"}))
    page.update_layout(
        title=trace.path.name,
        template="plotly_white",
        xaxis_title="time (s)",
        yaxis_title="rate (Mbit/s)",
    )
    return page
