"""What `lasthop study show`, `plot` and `report` do with a folder of results.

The commands themselves are declared in the study's command module; here are the tables for the terminal, the
choice of what is drawn, and where it is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from lasthop import files
from lasthop.errors import ArgumentError
from lasthop.studies.digest import Digest, failed_rows, series_columns
from lasthop.tables import TableColumn, Wide, verdict_style

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    import polars as pl
    from rich.console import RenderableType

    from lasthop.studies.charts import Chart
    from lasthop.studies.digest import Cell, Grid

FORMATS = ("png", "svg", "pdf", "html")
#: At most this many errors of failed runs are listed.
FAILED_MAX = 5


def digest_tables(digest: Digest) -> RenderableType:
    """Means per point, and paired differences with verdicts, one table per metric."""
    seeds = digest.seeds
    about = f"  {seeds} per point" + (f", {digest.chosen_text}" if digest.chosen else "")
    parts: list[RenderableType] = [Text.assemble((digest.study.title, "bold"), about)]
    doubts = disagreements = short = False
    for metric in digest.metrics:
        means = digest.means(metric)
        unit = f"  {means.unit}" if means.unit else ""
        interval = "" if seeds == "one seed" else "  mean ± 95 % interval"
        parts += [Text(), Text.assemble((metric.label, "bold"), unit, interval), _table(means, "†")]
        parts += [Text(f"† {doubt}", style="yellow") for doubt in means.doubts]
        doubts, short = doubts or bool(means.doubts), short or means.is_short
        changes = digest.changes(metric)
        if changes is None or seeds == "one seed":
            continue
        title = Text.assemble((metric.label, "bold"), f"  difference from {digest.baseline_text}")
        parts += [Text(), title, _table(changes, "‡")]
        parts += [Text(sentence, style="dim") for sentence in changes.sentences]
        parts += [Text(f"‡ {doubt}", style="yellow") for doubt in changes.doubts]
        disagreements = disagreements or bool(changes.doubts)
    if seeds == "one seed":
        parts.append(Text("One seed has no intervals and shows no difference: use more seeds.", style="dim"))
    elif digest.differences is not None:
        parts.append(
            Text(
                "Differences are taken seed by seed; each interval holds with 95 % on its own. ✓ better, "
                "✗ worse, no mark: these seeds show no difference.",
                style="dim",
            )
        )
    if short:
        parts.append(
            Text(
                "In brackets: how many seeds have a value, where fewer have one than elsewhere.", style="dim"
            )
        )
    if doubts:
        parts.append(
            Text(
                "† A few seeds decide this mean: without them it would be another.",
                style="dim",
            )
        )
    if disagreements:
        parts.append(Text("‡ The signed-rank test says otherwise than the interval.", style="dim"))
    failed = failed_rows(digest.table, digest.axes)
    if failed:
        parts.append(Text(f"{len(failed)} of {digest.table.height} runs failed:", style="red"))
        parts += [Text(f"  {_place(row)}: {_first_line(row.get('error'))}") for row in failed[:FAILED_MAX]]
        if len(failed) > FAILED_MAX:
            parts.append(Text(f"  and {len(failed) - FAILED_MAX} more"))
    return Group(*parts)


def write_figures(
    digest: Digest,
    target: Path,
    table_format: str | None = None,
    *,
    series: Mapping[str, pl.DataFrame] | None = None,
    seed: int | None = None,
    law: str | None = None,
) -> list[Path]:
    """Draw every metric of the digest, and every kept series given; return the files.

    Parameters
    ----------
    digest : Digest
        What to draw.
    target : path
        A folder, made if need be, or for one figure a file whose name ends in a format.
    table_format : str, optional
        ``png``, ``svg``, ``pdf`` or ``html``; the target's ending, else ``png``, for a paper ``pdf``.
    series : mapping, optional
        Kept series by name, drawn over time.
    seed : int, optional
        The only seed of the series; the mean over all if not given.
    law : str, optional
        One of `lasthop.laws.LAWS`, drawn over the figures of goodput.

    Raises
    ------
    ArgumentError
        For an unknown format, several figures for one file, or nothing to draw.
    """
    from lasthop.drawing import missing

    if (lack := missing()) is not None:
        raise ArgumentError(lack)
    ending = target.suffix.lower().removeprefix(".")
    is_file = ending in FORMATS and not target.is_dir()
    chosen = format_of(
        target if is_file else target / "figure", table_format or (ending if is_file else None)
    )
    if is_file and chosen != ending:
        raise ArgumentError(f"'{target}' does not end in .{chosen}: leave out --format, or rename the file")
    charts = _charts(digest, series or {}, seed, law)
    if not charts:
        names = ", ".join(metric.name for metric in digest.metrics)
        raise ArgumentError(f"nothing to draw: no run has a value of {names}")
    if is_file and len(charts) > 1:
        raise ArgumentError(
            f"'{target}' is one file, and there are {len(charts)} figures: "
            "name one with --metric, or give --out a folder"
        )
    if is_file:
        files.check_file(target)
    else:
        files.check_folder(target)
    written = []
    for name, chart in charts.items():
        path = target if is_file else target / f"{name}.{chosen}"
        _write(chart, path)
        written.append(path)
    return written


def format_of(example: Path, asked: str | None) -> str:
    """Return the format of figures: what is asked for, or what is usual in their style."""
    from lasthop import for_paper

    chosen = asked or ("pdf" if for_paper.is_paper() else "png")
    if chosen not in FORMATS:
        raise ArgumentError(f"unknown format {chosen!r}: use one of {', '.join(FORMATS)}")
    if for_paper.is_paper():
        for_paper.check_vectors([example.with_suffix(f".{chosen}")])
    return chosen


def _write(chart: Chart, path: Path) -> None:
    """Draw a chart in the present style."""
    from lasthop import for_paper
    from lasthop.studies.plot import draw_chart, save_figure, save_page

    if path.suffix == ".html":
        save_page(chart, path)
        return
    figure = draw_chart(chart)
    if for_paper.is_paper():
        for_paper.set_letters(figure)
    save_figure(figure, path)


def _charts(
    digest: Digest, series: Mapping[str, pl.DataFrame], seed: int | None, law: str | None
) -> dict[str, Chart]:
    charts = {one.name: digest.chart(one, law) for one in digest.metrics if digest.is_drawable(one)}
    for name, table in series.items():
        for column in series_columns(table, digest.axes):
            if table[column].null_count() < table.height:
                charts[f"{name}-{column}"] = digest.series_chart(table, column, seed)
    return charts


def parse_places(option: str, words: Iterable[str]) -> dict[str, str]:
    """Read ``AXIS=VALUE`` words.

    Examples
    --------
    >>> parse_places("--where", ["env=wired", "n=10"])
    {'env': 'wired', 'n': '10'}
    """
    places: dict[str, str] = {}
    for word in words:
        axis, equals, value = word.partition("=")
        if not equals or not axis or not value:
            raise ArgumentError(f"bad {option} {word!r}: write AXIS=VALUE, such as proto=reno")
        if axis in places:
            raise ArgumentError(f"{option} names {axis!r} twice: give one value")
        places[axis] = value
    return places


def _table(grid: Grid, sign: str) -> Wide:
    down = [
        TableColumn(Text(name), [Text(places[at]) for places, _ in grid.rows])
        for at, name in enumerate(grid.down)
    ]
    across = [
        TableColumn(Text(name), [_cell(cells[at], sign) for _, cells in grid.rows], "right")
        for at, name in enumerate(grid.across)
    ]
    return Wide([*down, *across])


def _cell(cell: Cell, sign: str) -> Text:
    mark = {True: "✓ ", False: "✗ ", None: ""}[cell.better]
    text = Text(mark + cell.text, style="" if cell.better is None else verdict_style(cell.better))
    if cell.doubtful:
        text.append(f" {sign}", style="yellow")
    return text


def _place(row: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in row.items() if name != "error")


def _first_line(error: object) -> str:
    lines = str(error or "no reason is known").splitlines()
    return lines[0] if lines else ""
