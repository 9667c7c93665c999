"""What all figures share: colours and dashes of senders, marks of a scenario, files by their endings.

matplotlib draws PNG, SVG and PDF; plotly draws HTML that needs no network. Called by `plot`, `distribution`,
`frames` and the figures of studies.
"""

from __future__ import annotations

import io
import logging
import os
import sys
from contextlib import chdir, contextmanager, nullcontext
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from lasthop import for_paper
from lasthop.errors import ArgumentError, LasthopError
from lasthop.extras import lacking
from lasthop.files import check_file, replacing
from lasthop.visible import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from matplotlib.figure import Figure


STATIC_FORMATS = (".png", ".svg", ".pdf")


ALL_FORMATS = (*STATIC_FORMATS, ".html")


# Okabe and Ito's palette without its yellow (too pale on white): told apart with every common colour
# blindness. Line styles differ too, for print in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


MATPLOTLIB_DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 2)),
    (0, (1, 1.2)),
    (0, (5, 1.5, 1, 1.5)),
    (0, (9, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
)


PLOTLY_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


#: Of the predictions of a model.
INK = "#222222"


#: Senders whose colours are theirs in every figure, before all others.
WELL_KNOWN = ("reno", "cubic", "vegas", "bbr", "newreno", "sack")


#: More outages than this would be a pattern, not a mark.
OUTAGES_MAX = 40


@dataclass(frozen=True, slots=True)
class Marks:
    """What a scenario says of the time axis: the end of the warm-up, outages, and the room in queues."""

    warmup_s: float = 0.0
    outages: tuple[tuple[float, float], ...] = ()
    limits: dict[str, int] = field(default_factory=dict)


class Picture:
    """A drawn figure: shown by a notebook, and written to files.

    Attributes
    ----------
    figure : matplotlib.figure.Figure
        The figure itself.
    """

    def __init__(self, figure: Figure) -> None:
        self.figure = figure

    def save(self, path: str | Path) -> None:
        """Write it; the path ends in .png, .svg or .pdf."""
        draw([path], lambda: self.figure, lambda: _refuse_page(path))

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        with literal(self.figure):
            self.figure.savefig(buffer, format="png", dpi=100)
        return buffer.getvalue()


def _refuse_page(path: str | Path) -> NoReturn:
    raise ArgumentError(f"cannot write '{path}': give it to plot() itself, which also draws pages")


def missing() -> str | None:
    """Return what to do before anything can be drawn here; `None` if all is there, and then it is loaded."""
    for package in ("matplotlib", "plotly"):
        if find_spec(package) is None:
            return lacking(package)
    _without_settings()
    return None


def check_paths(paths: Sequence[str | Path]) -> list[Path]:
    """Return the paths; each must end in a format that can be drawn and be writable."""
    if (lack := missing()) is not None:
        raise ArgumentError(lack)
    return check_names(paths)


def _without_settings() -> None:
    """Have pictures look the same everywhere: a ``matplotlibrc`` of the current folder may be anybody's.

    If matplotlib was imported before, as in a notebook, its settings stay. Where it cannot write into a home
    folder, it need not say so: pictures are the same.
    """
    if "matplotlib" not in sys.modules:
        logging.getLogger("matplotlib").setLevel(logging.ERROR)
        # Whatever has that name is read at the import: bytes that are no text end it, a pipe blocks it.
        is_there = os.path.lexists("matplotlibrc")
        with chdir(Path.cwd().anchor) if is_there else nullcontext():
            import matplotlib as mpl

        mpl.rcdefaults()


def check_names(paths: Sequence[str | Path]) -> list[Path]:
    """As `check_paths`, where what draws may be missing: the results do not wait for it."""
    checked = [Path(path) for path in paths]
    for path in checked:
        if path.suffix.lower() not in ALL_FORMATS:
            raise ArgumentError(
                f"cannot draw '{path}': its name must end in {', '.join(STATIC_FORMATS)} or .html"
            )
        check_file(path)
    if for_paper.is_paper():
        for_paper.check_vectors(checked)
    return checked


def _without_recordings(value: object) -> object:
    """Return a part of a scenario with a rate in place of every recording: its file may be gone by now."""
    if isinstance(value, list):
        return [_without_recordings(one) for one in value]
    if not isinstance(value, dict):
        return value
    kept = {key: _without_recordings(one) for key, one in value.items() if key != "trace"}
    return {"rate": "1 Mbit/s", "delay": "1 ms"} | kept if "trace" in value else kept


def marks_of(scenario: Mapping[str, Any], seed: int) -> Marks:
    """Return what is marked in figures of a run; nothing if this version cannot read its scenario."""
    from lasthop.scenario import Scenario

    # Neither outages nor queues depend on who sends; so no sender of the user's own is loaded for a figure.
    plain = {
        key: _without_recordings(value)
        for key, value in scenario.items()
        if key in ("duration", "warmup", "topology", "channel")
    }
    flows = [
        {key: value for key, value in flow.items() if key in ("name", "count", "source", "sink", "direction")}
        for flow in scenario.get("flows", [])
    ]
    try:
        plan = Scenario(plain | {"flows": [flow | {"transport": "reno"} for flow in flows]}).plan
        down = sorted({(start, end) for _, start, end in plan.outages(seed)})
    except LasthopError:
        return Marks()
    limits = {name: room for name, room in plan.queue_limits if room is not None}
    return Marks(plan.warmup_s, tuple(down) if len(down) <= OUTAGES_MAX else (), limits)


def styles(names: Iterable[str]) -> dict[str, int]:
    """Return the style of each sender: its own in every figure, unless another one there has it already.

    Examples
    --------
    >>> styles(["vegas", "reno"]) == {"vegas": 2, "reno": 0}
    True
    >>> styles(["tahoe", "reno", "cubic"])["reno"]
    0
    """
    from lasthop.scenario import transports

    others = [one["name"] for one in transports() if one["name"] not in WELL_KNOWN]
    order = {name: index for index, name in enumerate((*WELL_KNOWN, *dict.fromkeys(others)))}
    wanted = list(dict.fromkeys(names))
    chosen: dict[str, int] = {}
    for name in sorted(wanted, key=lambda one: (order.get(one.partition("/")[0], len(order)), one)):
        first = order.get(name.partition("/")[0], len(order)) % len(COLOURS)
        free = [(first + step) % len(COLOURS) for step in range(len(COLOURS))]
        chosen[name] = next((one for one in free if one not in chosen.values()), first)
    return chosen


def draw(paths: Sequence[str | Path], figure: Callable[[], Figure], page: Callable[[], Any]) -> None:
    """Draw into each path what `figure` makes with matplotlib, or for HTML what `page` makes with plotly."""
    drawn: Figure | None = None
    for path in check_paths(paths):
        if path.suffix.lower() == ".html":
            html = page().to_html(include_plotlyjs=True, full_html=True, config={"displaylogo": False})
            with replacing(path) as temporary:
                temporary.write_text(html, encoding="utf-8")
            continue
        if drawn is None:
            drawn = figure()
            if for_paper.is_paper():
                for_paper.dress(drawn)
        with replacing(path) as temporary:
            save_figure(drawn, temporary)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure; the same figure gives the same bytes."""
    import matplotlib as mpl

    # Without a date and with a fixed salt, the same run gives the same file.
    dateless: dict[str, Any] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(
        path.suffix.lower(), {}
    )
    settings = {"svg.hashsalt": "lasthop"} | (for_paper.SETTINGS if for_paper.is_paper() else {})
    with mpl.rc_context(settings), literal(figure):
        figure.savefig(path, dpi=150, metadata=dateless)


@contextmanager
def literal(figure: Figure) -> Iterator[None]:
    """Take names as they are while a figure is written: they come from files.

    Two dollars in a name began a formula, which could end in a traceback, and a letter that the font lacks
    gave a warning of the library with the letter in it.
    """
    import warnings

    import matplotlib as mpl
    from matplotlib.text import Text

    with mpl.rc_context({"text.parse_math": False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="(?s)Glyph .* missing from")
        for text in figure.findobj(Text):
            if isinstance(text, Text):
                text.set_parse_math(parse_math=False)
                text.set_text(visible(text.get_text()))
        yield
