"""Tables for papers: LaTeX, Markdown, CSV and HTML, with intervals.

Called by ``lasthop compare --table`` and ``lasthop study show --table``. What stands in a table is worked out
by `comparison` and `studies.digest`; here it is only written down. CSV has the numbers in full, the others
have them as people read them.
"""

from __future__ import annotations

import csv
import html
import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lasthop import stats
from lasthop.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType

    from lasthop.comparison import Comparison
    from lasthop.studies.digest import Digest, Grid

FORMATS = ("latex", "markdown", "csv", "html")

#: What LaTeX would take for a command.
LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "µ": r"\textmu{}",
    "…": r"\dots{}",
    "−": "$-$",
}


@dataclass(frozen=True, slots=True)
class Sheet:
    """One table: texts for people, and the same as rows of numbers.

    Attributes
    ----------
    caption : str
        What it shows.
    header : tuple of str
        Titles of the columns.
    rows : list of tuple of str
        One text per column; the first is what the row is about, the others are numbers.
    records : list of dict
        The numbers in base units, one mapping per estimate.
    """

    caption: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    records: list[dict[str, object]] = field(default_factory=list)


def check_table_format(name: str) -> None:
    """Refuse a format that is not one of `FORMATS`."""
    if name not in FORMATS:
        raise ArgumentError(f"unknown table {name!r}: use one of {', '.join(FORMATS)}")


def write(sheets: Sequence[Sheet], name: str) -> str:
    """Return tables as text in the format chosen, ending in a line break.

    Examples
    --------
    >>> sheet = Sheet("goodput of 2 seeds", ("", "reno"), [("goodput (Mbit/s)", "4.2 ± 0.1")])
    >>> print(write([sheet], "markdown"))
    goodput of 2 seeds
    <BLANKLINE>
    |                  |      reno |
    | :--------------- | --------: |
    | goodput (Mbit/s) | 4.2 ± 0.1 |
    <BLANKLINE>
    """
    check_table_format(name)
    if name == "csv":
        return _csv(record for sheet in sheets for record in sheet.records)
    writer = {"latex": _latex, "markdown": _markdown, "html": _html}[name]
    return "\n".join(writer(sheet) for sheet in sheets)


def comparison_text(comparison: Comparison, name: str) -> str:
    """Return the means and the paired differences of a comparison.

    Examples
    --------
    >>> import lasthop as lh
    >>> result = lh.compare(lh.Scenario(lh.EXAMPLE), ["reno", "vegas"], seeds=[1, 2])
    >>> comparison_text(result, "csv").splitlines()[0]
    'table,metric,unit,transport,baseline,mean,low,high,n'
    """
    return write(comparison_sheets(comparison), name)


def comparison_sheets(comparison: Comparison) -> list[Sheet]:
    """Return the means, and from two seeds on the paired differences."""
    from lasthop.quantities import estimate_texts

    seeds, certainty = len(comparison.seeds), ""
    name = str(comparison.scenario.get("name", "scenario"))
    if comparison.same:
        how, certainty = f"{seeds} seeds, {stats.SAME}", stats.SAME
    elif seeds > 1:
        how, certainty = f"mean over {seeds} seeds with 95 % intervals", "paired by seed, 95 % intervals"
    else:
        how = f"seed {comparison.seeds[0]}"
    means = Sheet(f"{name}: {how}", ("", *comparison.transports), [])
    for metric in comparison.metrics:
        estimates = [comparison.estimate(one, metric) for one in comparison.transports]
        texts, unit = estimate_texts(estimates, metric.unit)
        means.rows.append((f"{metric.label} ({unit})" if unit else metric.label, *texts))
        means.records.extend(
            _record("mean", metric.key, metric.unit, transport, "", estimate)
            for transport, estimate in zip(comparison.transports, estimates, strict=True)
        )
    sheets = matrix_sheets(comparison, means) if comparison.has_matrix else [means]
    if seeds == 1:
        return sheets
    others = [one for one in comparison.transports if one != comparison.baseline]
    caption = f"{name}: difference from {comparison.baseline}, {certainty}"
    differences = Sheet(caption, ("", *others), [])
    listed = comparison.list_differences()
    for metric in comparison.metrics:
        of_metric = [one for one in listed if one.metric is metric]
        differences.rows.append((metric.label, *(one.interval_text for one in of_metric)))
        differences.records.extend(
            _record("difference", metric.key, metric.unit, one.transport, one.baseline, one.estimate)
            for one in of_metric
        )
    return [*sheets, differences]


def matrix_sheets(comparison: Comparison, means: Sheet) -> list[Sheet]:
    """Return the means of senders times helpers as one table per metric."""
    axes = comparison.axes
    assert axes is not None  # noqa: S101 - the caller has asked
    sheets = []
    for place, metric in enumerate(comparison.metrics):
        title, *texts = means.rows[place]
        of_metric = [record for record in means.records if record["metric"] == metric.key]
        sheet = Sheet(f"{means.caption}: {title}", ("", *axes.helpers), [], of_metric)
        width = len(axes.helpers)
        for number, sender in enumerate(axes.senders):
            sheet.rows.append((sender, *texts[number * width : (number + 1) * width]))
        sheets.append(sheet)
    return sheets


def digest_text(digest: Digest, name: str) -> str:
    """Return the means and the paired differences of a study."""
    return write(digest_sheets(digest), name)


def digest_sheets(digest: Digest) -> list[Sheet]:
    """Return one table of means per metric, and one of differences where there is a baseline."""
    sheets = []
    for metric in digest.metrics:
        means, changes = digest.means(metric), digest.changes(metric)
        unit = f" ({means.unit})" if means.unit else ""
        caption = f"{digest.study.title}: {metric.label}{unit}, {digest.seeds} per point"
        rows = digest.summary.filter(digest.summary["metric"] == metric.name).to_dicts()
        sheets.append(_grid_sheet(means, caption, [{"table": "mean"} | row for row in rows]))
        if changes is None or digest.differences is None or digest.seeds == "one seed":
            continue
        caption = f"{digest.study.title}: {metric.label}, difference from {digest.baseline_text}"
        sheets.append(_grid_sheet(changes, caption, []))
        listed = digest.differences.filter(digest.differences["metric"] == metric.name).to_dicts()
        sheets[-1].records.extend({"table": "difference"} | row for row in listed)
    return sheets


def _grid_sheet(grid: Grid, caption: str, records: list[dict[str, object]]) -> Sheet:
    rows = [(*places, *(cell.text for cell in cells)) for places, cells in grid.rows]
    return Sheet(caption, (*grid.down, *grid.across), rows, records)


def as_html(content: RenderableType, width: int = 120) -> str:
    r"""Return what the command would print, as HTML for a notebook.

    Examples
    --------
    >>> from rich.text import Text
    >>> as_html(Text("4 < 5", style="bold"))
    '<pre style="line-height:1.2"><span style="font-weight: bold">4 &lt; 5</span>\n</pre>'
    """
    from rich.console import Console

    console = Console(file=io.StringIO(), record=True, width=width, force_terminal=True, markup=False)
    console.print(content)
    code = '<pre style="line-height:1.2">{code}</pre>'
    return console.export_html(inline_styles=True, code_format=code)


def _record(
    table: str, metric: str, unit: str, transport: str, baseline: str, estimate: stats.Estimate | None
) -> dict[str, object]:
    named = {"table": table, "metric": metric, "unit": unit, "transport": transport, "baseline": baseline}
    if estimate is None:
        return named | {"mean": None, "low": None, "high": None, "n": 0}
    return named | {"mean": estimate.mean, "low": estimate.low, "high": estimate.high, "n": estimate.n}


def _latex(sheet: Sheet) -> str:
    columns = "l" + "r" * (len(sheet.header) - 1)
    lines = [
        "% \\usepackage{booktabs}",
        "\\begin{table}",
        "  \\centering",
        f"  \\caption{{{_latex_text(sheet.caption)}}}",
        f"  \\begin{{tabular}}{{{columns}}}",
        "    \\toprule",
        f"    {_latex_row(sheet.header)}",
        "    \\midrule",
        *(f"    {_latex_row(row)}" for row in sheet.rows),
        "    \\bottomrule",
        "  \\end{tabular}",
        "\\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_row(row: Sequence[str]) -> str:
    return " & ".join(map(_latex_text, row)) + r" \\"


def _latex_text(text: str) -> str:
    r"""Return text that LaTeX sets as it stands; a range has its own dash, a difference a true minus.

    Examples
    --------
    >>> print(_latex_text("loss_rate 50 % ± 2"), _latex_text("-12..+3 %"))
    loss\_rate 50 \% $\pm$ 2 $-$12 to +3 \%
    """
    ranged = text.replace("..", " to ")
    words = [
        "−" + word[1:] if word[:1] == "-" and word[1:2].isdigit() else word for word in ranged.split(" ")
    ]
    return "".join(LATEX.get(letter, letter) for letter in " ".join(words))


def _markdown(sheet: Sheet) -> str:
    rows = [[cell.replace("|", "\\|") for cell in row] for row in (sheet.header, *sheet.rows)]
    widths = [max(3, *(len(row[column]) for row in rows)) for column in range(len(sheet.header))]

    def line(row: Sequence[str]) -> str:
        cells = [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]
        return f"| {' | '.join(cells)} |"

    rule = [":" + "-" * (widths[0] - 1), *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [sheet.caption, "", line(rows[0]), f"| {' | '.join(rule)} |", *map(line, rows[1:])]
    return "\n".join(lines) + "\n"


def _html(sheet: Sheet) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in sheet.header)
    body = "\n".join(f"  <tr>{_html_cells(row)}</tr>" for row in sheet.rows)
    return (
        f"<table>\n<caption>{html.escape(sheet.caption)}</caption>\n<thead>\n  <tr>{head}</tr>\n"
        f"</thead>\n<tbody>\n{body}\n</tbody>\n</table>\n"
    )


def _html_cells(row: Sequence[str]) -> str:
    first, *others = (html.escape(cell) for cell in row)
    return f'<th scope="row">{first}</th>' + "".join(f"<td>{cell}</td>" for cell in others)


def _csv(records: Iterable[dict[str, object]]) -> str:
    listed = list(records)
    target = io.StringIO()
    # Means and differences share most columns; what one lacks stays empty.
    columns = list(dict.fromkeys(key for record in listed for key in record))
    writer = csv.DictWriter(target, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(listed)
    return target.getvalue()
