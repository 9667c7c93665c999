"""Figures for a journal: column widths, a serif font of 8 points, and letters that are kept as letters.

`lasthop plot --style paper` draws what it always draws and then dresses it in this way. Widths are those of
two-column journals (IEEE, ACM): 3.5 inches for one column, 7.16 for both.
"""

from __future__ import annotations

import textwrap
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

from lasthop.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence, Sized
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

STYLES = ("screen", "paper")
#: What a journal takes: vectors.
VECTORS = (".pdf", ".svg")
ONE_COLUMN = 3.5
BOTH_COLUMNS = 7.16
#: Height of a panel over time, in inches, and of what is around all of them.
PANEL = 1.2
AROUND = 0.35
#: What a page has for a figure with its caption, in inches: many panels get lower.
MOST_HEIGHT = 8.8
#: Height of a figure of one panel that has its legend below.
SINGLE = 2.5
#: The first comes with matplotlib; where an SVG is shown without it, the others look like it.
FONTS = ["STIXGeneral", "Times New Roman", "Times"]
TEXT = 8
SMALL = 7
#: Width of a legend, and what an entry takes of it, in inches: its key, and each letter.
LEGEND = 2.9
KEY = 0.35
LETTER = 0.045
#: What a letter of the label of an axis takes, in inches.
LABEL_LETTER = 0.05
#: Points of a line that marks a place, and is no curve.
MARK = 2
#: What the engine calls a flow without a name: alone, it needs no legend.
NAMELESS = "flow"
#: Of a panel beside others: what a letter of its title takes, what is around the title, and a second line.
TITLE_LETTER = 0.06
BESIDE = 0.75
LINE = 0.13
#: Letters are embedded as TrueType in PDF, which journals ask for, and stay text in SVG.
SETTINGS: dict[str, Any] = {"pdf.fonttype": 42, "svg.fonttype": "none", "font.serif": FONTS}

_style: ContextVar[str] = ContextVar("style", default="screen")


@contextmanager
def styled(name: str) -> Iterator[None]:
    """Draw everything within in this style; one of `STYLES`."""
    if name not in STYLES:
        raise ArgumentError(f"there is no style '{name}': --style is {' or '.join(STYLES)}")
    before = _style.set(name)
    try:
        yield
    finally:
        _style.reset(before)


def is_paper() -> bool:
    """Whether figures are drawn for a journal at present."""
    return _style.get() == "paper"


def check_vectors(paths: Sequence[Path]) -> None:
    """Refuse a picture of points, or a page, where a figure for a journal is asked for."""
    for path in paths:
        if path.suffix.lower() not in VECTORS:
            raise ArgumentError(
                f"cannot draw '{path}' for a paper: its name must end in {' or '.join(VECTORS)}"
            )


def dress(figure: Figure) -> None:
    """Give a figure the size and the letters of a journal; its title goes into the caption of the paper."""
    specs = [axes.get_subplotspec() for axes in figure.axes]
    grids = [spec.get_gridspec() for spec in specs if spec is not None]
    columns = max((grid.ncols for grid in grids), default=1)
    rows = max((grid.nrows for grid in grids), default=1)
    width, height = figure.get_size_inches()
    panel = min(PANEL, (MOST_HEIGHT - AROUND) / rows)
    if columns == 1:
        high = panel * rows + AROUND
        # A panel that is alone keeps its shape: of boxes there may be many.
        high = max(high, min(MOST_HEIGHT, height * ONE_COLUMN / width)) if rows == 1 else high
        figure.set_size_inches(ONE_COLUMN, high)
        panel = (high - AROUND) / rows
        _draw_through(figure)
    else:
        lines = _break_titles(figure, int((BOTH_COLUMNS / columns - BESIDE) / TITLE_LETTER))
        figure.set_size_inches(BOTH_COLUMNS, height * BOTH_COLUMNS / width + LINE * rows * (lines - 1))
    figure.suptitle("")
    for axes in figure.axes:
        if columns == 1 and axes.get_ylabel():
            # The label beside the axis says the same, and the caption the rest.
            axes.set_title("", loc="left")
        _place_legend(axes)
        axes.tick_params(labelsize=SMALL)
        # What is long beside a high panel is cut off beside a low one.
        axes.set_ylabel(_broken(axes.get_ylabel(), int(panel / LABEL_LETTER)))
        # What the shades mean is for the caption too, and what the ends of a box are.
        axes.set_xlabel(axes.get_xlabel().partition(";")[0].partition(": ")[0])
    set_letters(figure)


def _broken(label: str, letters: int) -> str:
    r"""Break the label of an axis, before its unit and where it is longer than the axis.

    Examples
    --------
    >>> _broken("share of flows with at most this value", 30)
    'share of flows with at most\nthis value'
    >>> _broken("one-way delay of\ndatagrams (ms)", 30)
    'one-way delay of datagrams\n(ms)'
    """
    name, parenthesis, unit = label.replace("\n", " ").partition(" (")
    return "\n".join([*textwrap.wrap(name, max(1, letters)), *(["(" + unit] if parenthesis else [])])


def _draw_through(figure: Figure) -> None:
    """Draw curves without gaps that are alone wherever they are: dashes tell lines apart."""
    curves = {
        axes: [line for line in axes.get_lines() if len(cast("Sized", line.get_xdata())) > MARK]
        for axes in figure.axes
    }
    accompanied = {_look(line) for lines in curves.values() if len(lines) > 1 for line in lines}
    for lines in curves.values():
        for line in lines:
            if _look(line) not in accompanied:
                line.set_linestyle("-")


def _look(line: Line2D) -> tuple[object, float]:
    """Return what a line has in common with the others of its flow or link."""
    return line.get_color(), line.get_linewidth()


def _break_titles(figure: Figure, letters: int) -> int:
    """Break titles at the left that have more letters than this; return the most lines of one."""
    titles = [textwrap.fill(axes.get_title(loc="left"), letters) for axes in figure.axes]
    for axes, title in zip(figure.axes, titles, strict=True):
        axes.set_title(title, loc="left", fontsize=TEXT)
    return max(title.count("\n") + 1 for title in titles)


def legend_columns(labels: Sequence[str], width_in: float) -> int:
    """Return how many entries a legend above a figure has side by side.

    Examples
    --------
    >>> legend_columns(["reno", "cubic", "bbr", "vegas"], 3.5), legend_columns(["a long name " * 6], 3.5)
    (4, 1)
    """
    needed = KEY + LETTER * max(map(len, labels), default=0)
    return max(1, min(len(labels), int((width_in - ONE_COLUMN + LEGEND) / needed)))


def set_letters(figure: Figure) -> None:
    """Give every text of a figure the font of a journal, no larger than its text."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_fontfamily("serif")
        text.set_fontsize(min(TEXT, text.get_fontsize()))


def size_of(panels: int, columns: int, size_in: tuple[float, float]) -> tuple[float, float]:
    """Return the size of a figure of a study, in inches: one panel fills a column, several fill both.

    Examples
    --------
    >>> size_of(1, 1, (7.0, 4.2)), size_of(4, 2, (9.0, 6.0))[0]
    ((3.5, 2.5), 7.16)
    """
    if panels == 1:
        return ONE_COLUMN, SINGLE
    width, height = size_in
    return BOTH_COLUMNS, height * BOTH_COLUMNS / width if columns > 1 else height


def _place_legend(axes: Axes) -> None:
    """Put the legend above the axes: at their side it would take a third of a column."""
    legend = axes.get_legend()
    if legend is None:
        return
    handles, labels = axes.get_legend_handles_labels()
    if labels == [NAMELESS]:
        legend.remove()
        return
    axes.legend(
        handles,
        labels,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=legend_columns(labels, ONE_COLUMN),
        fontsize=SMALL,
        frameon=False,
        borderaxespad=0.1,
        handlelength=1.6,
        columnspacing=1.0,
    )
