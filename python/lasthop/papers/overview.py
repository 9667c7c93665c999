"""The page that sets papers side by side: verdicts, where they contradict each other, what they teach.

`lasthop reproduce all` writes it beside the reports, `tools/papers_page.py` for docs/papers. It is made from
the files that the reports leave, and from each paper's folder; nothing is run.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lasthop.output import write_text
from lasthop.papers import summary
from lasthop.papers.judge import Verdict
from lasthop.papers.library import DATA, PaperError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lasthop.papers.library import Claim, Paper

PAGE = "README.md"
INTRODUCTION = """\
Every checkable statement of each paper, judged by one rule on one simulator; the rule is that of
`docs/reference/claims.md`. A verdict is *conditional* where a statement holds at some readings of what the
paper leaves open and fails at others; the reports name them.\
"""
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


def lessons() -> str:
    """Return what the papers teach together: the text of the file `LESSONS`."""
    return (DATA / LESSONS).read_text(encoding="utf-8").strip()


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
        lessons(),
        "## Where papers contradict each other, or themselves",
        *(_question(question, claims, found) for question in questions()),
    ]
    return "\n\n".join(parts) + "\n"


def _verdicts(folder: Path) -> dict[str, str]:
    path = folder / summary.VERDICTS
    return summary.read_verdicts(path) if path.is_file() else {}


def _table(
    papers: Sequence[Paper],
    verdicts: Mapping[str, Mapping[str, str]],
    folders: Mapping[str, Path],
    root: Path,
) -> str:
    names = [verdict.value for verdict in Verdict]
    lines = [
        f"| paper | {' | '.join(names)} | not judged yet | all | of these headline claims, reproduced |",
        "| --- |" + " ---: |" * (len(names) + 3),
    ]
    for paper in papers:
        of_paper = verdicts[paper.number]
        counted = Counter(of_paper.get(claim.id, "") for claim in paper.claims)
        headline = [claim for claim in paper.claims if claim.strength == "headline"]
        held = sum(of_paper.get(claim.id) == Verdict.REPRODUCED.value for claim in headline)
        folder = folders[paper.number]
        place = folder.relative_to(root) if folder.is_relative_to(root) else folder
        name = f"[{paper.number}]({place}/report.md)" if of_paper else paper.number
        cells = [str(counted[one]) for one in names]
        lines.append(
            f"| {name}: {paper.subject} | {' | '.join(cells)} | {counted['']} | {len(paper.claims)} | "
            f"{held} of {len(headline)} |"
        )
    return "\n".join(lines)


def _question(question: Question, claims: Mapping[str, Claim], found: Mapping[str, str]) -> str:
    lines = [f"### {question.title}", "", "| claim | says | verdict |", "| --- | --- | --- |"]
    for name in question.claims:
        if name not in claims:
            raise PaperError(f"{DATA / TOGETHER}: there is no claim {name}")
        verdict = found.get(name, "not judged yet")
        lines.append(f"| {name} | {claims[name].text} | **{verdict}** |")
    return "\n".join([*lines, "", question.remark])
