"""The page that sets papers side by side: verdicts, where they contradict each other, what they teach.

`lasthop reproduce all` writes it beside the reports, `tools/papers_page.py` for docs/papers. It is made from
the files that the reports leave, and from each paper's folder; nothing is run.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lasthop.files import write_text
from lasthop.papers import readings, summary, teaching
from lasthop.papers.library import DATA, PaperError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lasthop.papers.library import Claim, Paper

PAGE = "README.md"
INTRODUCTION = """\
Every checkable statement of each paper, judged by one rule (`docs/reference/claims.md`) on one simulator. A
*reading* of a paper is a consistent set of choices: what it states, and one value for each setting that it
leaves open. Each reading is judged as a whole. A reading that contradicts the paper or our report is not
counted; the reports give the reason. Only claims that runs decide are counted: one that no run decides is
arithmetic, true by construction, or has a tolerance that zero effect would also meet. Further down, a verdict
is that of the main setting, and *conditional* if a claim holds at one counted setting and fails at another.\
"""
HEADS = (
    "paper",
    "best joint reading",
    "claims that hold",
    "headline claims",
    "read literally: claims, headline",
    "hold at every reading",
    "fail at every reading",
    "depend on the reading",
    "readings counted, of those tried",
    "not decided by a run",
    "verdicts that 99 % intervals would change",
)
#: What is said of several papers together: in the folder of the papers.
TOGETHER, LESSONS = "together.toml", "lessons.md"


@dataclass(frozen=True, slots=True)
class Question:
    """Something on which papers, or one paper with itself, say different things.

    Attributes
    ----------
    title, remark : str
        The question, and what the bench says of it.
    claims : tuple of str
        The claims that answer it.
    """

    title: str
    claims: tuple[str, ...]
    remark: str


def questions() -> tuple[Question, ...]:
    """Return the questions of the file `TOGETHER`."""
    path = DATA / TOGETHER
    with path.open("rb") as file:
        content = tomllib.load(file)
    return tuple(
        Question(one["title"], tuple(one["claims"]), one["remark"]) for one in content.get("question", [])
    )


def lessons(papers: Sequence[Paper], folders: Mapping[str, Path]) -> str:
    """Return what the papers teach together: the text of the file `LESSONS`, with figures of the reports."""
    text = (DATA / LESSONS).read_text(encoding="utf-8").strip()
    return teaching.filled(text, teaching.Evidence(papers, folders))


def write(papers: Sequence[Paper], folders: Mapping[str, Path], root: Path) -> Path:
    """Write the page into `root` and return its path.

    Parameters
    ----------
    papers : sequence of Paper
        By number.
    folders : dict
        The folder of each paper's report, by number; one without verdicts is said to have none.
    root : path
        Where the page goes.
    """
    path = root / PAGE
    write_text(path, markdown(papers, folders, root))
    return path


def markdown(papers: Sequence[Paper], folders: Mapping[str, Path], root: Path) -> str:
    """Return the text of the page."""
    verdicts = {paper.number: _verdicts(folders[paper.number]) for paper in papers}
    claims = {claim.id: claim for paper in papers for claim in paper.claims}
    found = {claim: verdict for of_paper in verdicts.values() for claim, verdict in of_paper.items()}
    parts = [
        "# Papers on one bench",
        INTRODUCTION,
        _table(papers, verdicts, folders, root),
        lessons(papers, folders),
        *_more(root),
        "## Where papers contradict each other, or themselves",
        *(_question(question, claims, found) for question in questions()),
    ]
    return "\n\n".join(parts) + "\n"


def _more(root: Path) -> list[str]:
    """Lead to the page that says the same with its evidence, where that page is."""
    page = root.parent / "explanation" / teaching.PAGE
    if not page.is_file():
        return []
    return [f"[What the five papers teach](../explanation/{teaching.PAGE}) has the evidence, with figures."]


def _verdicts(folder: Path) -> dict[str, str]:
    path = folder / summary.VERDICTS
    return summary.read_verdicts(path) if path.is_file() else {}


def _table(
    papers: Sequence[Paper],
    verdicts: Mapping[str, Mapping[str, str]],
    folders: Mapping[str, Path],
    root: Path,
) -> str:
    lines = [
        f"| {' | '.join(HEADS)} |",
        "| --- | --- |" + " ---: |" * (len(HEADS) - 2),
    ]
    for paper in papers:
        folder = folders[paper.number]
        if not verdicts[paper.number] or not (folder / readings.READINGS).is_file():
            lines.append(f"| {paper.number}: {paper.subject} | not judged yet |" + " |" * (len(HEADS) - 2))
            continue
        judged = readings.read(paper, folder / readings.READINGS)
        found = readings.overall(paper, judged)
        place = folder.relative_to(root) if folder.is_relative_to(root) else folder
        claims, headline = found.solid, found.headline
        letter = found.literal
        cells = [
            found.best.reading.name,
            f"{found.best.holding(claims)} of {len(claims)}",
            f"{found.best.holding(headline)} of {len(headline)}",
            "" if letter is None else f"{letter.holding(claims)}, {letter.holding(headline)}",
            *(str(len(one)) for one in (found.always, found.never, found.turning)),
            f"{found.voting} of {found.tried}",
            str(len(found.empty)),
            str(summary.changed_at_99(folder / summary.VERDICTS)),
        ]
        lines.append(f"| [{paper.number}]({place}/report.md): {paper.subject} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _question(question: Question, claims: Mapping[str, Claim], found: Mapping[str, str]) -> str:
    lines = [f"### {question.title}", "", "| claim | says | verdict |", "| --- | --- | --- |"]
    for name in question.claims:
        if name not in claims:
            raise PaperError(f"{DATA / TOGETHER}: there is no claim {name}")
        verdict = found.get(name, "not judged yet")
        lines.append(f"| {name} | {claims[name].text} | **{verdict}** |")
    return "\n".join([*lines, "", question.remark])
