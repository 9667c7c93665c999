"""One page of all papers for a browser: figures to zoom into, claims to filter and search, their studies.

`lasthop reproduce --html` calls `write`. It is made from what the reports leave in their folders
(`write_charts` and `report.write` put it there) and from the papers' own files; nothing is run. The page is
one file, needs no network, and shows nothing unescaped but figures.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lasthop.files import reason_of, write_text
from lasthop.papers.grammar import format_value
from lasthop.papers.judge import Verdict
from lasthop.papers.library import PaperError
from lasthop.papers.overview import lessons, questions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from markupsafe import Markup

    from lasthop.papers.library import Experiment, Paper
    from lasthop.studies.charts import Chart

#: The charts of a report as plotly takes them, beside it, and what is no experiment in them.
CHARTS, NOW = "charts.json", "now"
#: The page of `lasthop reproduce all --html`, beside README.md.
PAGE = "papers.html"
TEMPLATE = "papers.html"


def write_charts(folder: Path, drawn: Mapping[str, Mapping[str, Chart]]) -> None:
    """Write the charts of a report into its folder, for a page that is made of several reports.

    Parameters
    ----------
    folder : path
        Of the report.
    drawn : dict
        The charts by the id of their experiment, each by the name of its file.
    """
    from lasthop.studies.report import figure_json, figure_width

    content = {
        of: {
            name: {
                "title": chart.title,
                "note": chart.note,
                "width": figure_width(chart),
                "figure": json.loads(figure_json(chart)),
            }
            for name, chart in charts.items()
        }
        for of, charts in drawn.items()
    }
    write_text(folder / CHARTS, json.dumps(content, separators=(",", ":")) + "\n")


def write(papers: Sequence[Paper], folders: Mapping[str, Path], path: Path) -> Path:
    """Write the page and return its path.

    Parameters
    ----------
    papers : sequence of Paper
        By number.
    folders : dict
        The folder of each paper's report, by number.
    path : path
        The page.

    Raises
    ------
    PaperError
        A report lacks what the page needs.
    """
    write_text(path, html(papers, folders))
    return path


def html(papers: Sequence[Paper], folders: Mapping[str, Path]) -> str:
    """Return the text of the page."""
    from lasthop.studies.report import render

    shown = [_paper(paper, folders[paper.number]) for paper in papers]
    several = len(papers) > 1
    return render(
        TEMPLATE,
        title="Papers on one bench" if several else f"Paper {papers[0].number}: {papers[0].subject}",
        papers=shown,
        claims=[claim for paper in shown for claim in paper["claims"]],
        verdicts=[verdict.value for verdict in Verdict],
        lessons=_rendered(lessons(papers, folders)) if several else "",
        questions=questions() if several else (),
    )


def _paper(paper: Paper, folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / "verdicts.json").read_text(encoding="utf-8"))
        charts = json.loads((folder / CHARTS).read_text(encoding="utf-8"))
    except OSError as error:
        raise PaperError(f"cannot read the report in '{folder}': {reason_of(error)}") from None
    except ValueError as error:
        raise PaperError(f"the report in '{folder}' is damaged: {error}") from None
    notes = {claim.id: claim.note for claim in paper.claims}
    claims = [
        {**one, "paper": paper.number, "note": notes.get(one["claim"]), "places": one["experiments"]}
        for one in found["claims"]
    ]
    verdicts = [one["verdict"] for one in claims]
    headline = [one["verdict"] for one in claims if one["strength"] == "headline"]
    studies = dict.fromkeys(
        [
            file
            for one in paper.experiments.values()
            for file in one.studies
            if paper.study_path(file).is_file()
        ]
        + [one.study for one in paper.now]
    )
    return {
        "number": paper.number,
        "subject": paper.subject,
        "title": paper.title,
        "citation": f"{', '.join(paper.authors)}{f', {paper.year}' if paper.year else ''}",
        "command": found["command"],
        "version": found["engine_version"],
        "quick": found["quick"],
        "failed": found["failed_runs"],
        "counts": [(verdict.value, verdicts.count(verdict.value)) for verdict in Verdict],
        "headline": f"{headline.count(Verdict.REPRODUCED.value)} of {len(headline)}",
        "claims": claims,
        "experiments": [
            _experiment(paper, one, charts.get(one.id, {}), claims)
            for one in paper.experiments.values()
            if one.id in found["figures"]
        ],
        "now": _charts(paper, charts.get(NOW, {})),
        "studies": [(file, paper.study_path(file).read_text(encoding="utf-8")) for file in studies],
        "notes": _rendered(found["notes"]),
    }


def _experiment(
    paper: Paper, experiment: Experiment, charts: Mapping[str, Any], claims: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    fixed = ", ".join(f"{axis} = {format_value(value)}" for axis, value in experiment.fixed.items())
    return {
        "id": experiment.id,
        "figure": experiment.figure,
        "title": experiment.title or "",
        "fixed": fixed,
        "note": experiment.note,
        "charts": _charts(paper, charts),
        "command": f"lasthop reproduce {paper.number} --figure {experiment.name}",
        "studies": list(filter(paper.has_study, experiment.studies)),
        "claims": [one for one in claims if experiment.id in one["experiments"]],
    }


def _charts(paper: Paper, charts: Mapping[str, Any]) -> list[dict[str, Any]]:
    from lasthop.studies.report import figure_script

    shown = []
    for name, chart in charts.items():
        place = f"figure-{paper.id}-{name}"
        text = json.dumps(chart["figure"], separators=(",", ":"))
        shown.append({**chart, "place": place, "script": figure_script(text, place)})
    return shown


def _rendered(text: str) -> Markup:
    """Return a text in Markdown as HTML; HTML inside it is shown, not used."""
    from markdown_it import MarkdownIt
    from markupsafe import Markup

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    lines = text.splitlines()
    # The page has a title of its own, and headings above these.
    kept = [f"##{line}" if line.startswith("#") else line for line in lines if not line.startswith("# ")]
    return Markup(parser.render("\n".join(kept)))  # noqa: S704 - the parser escapes
