"""Fills the figures of what is said of several papers together from what their reports left.

`overview` calls `filled` for the short form, `tools/papers_page.py` for the page in docs/explanation. So no
table contradicts them. A figure is written ``{{004 both_queues: formula | format}}``: paper, reading, and
what `prose` knows, or one of

- ``claims holds tab1.reno tab2``: how many claims whose names begin so have this outcome at the reading;
  ``claims all tab1`` how many there are, ``headline holds`` and ``headline all`` the headline claims alone;
- ``seeds``: how many seeds the reading has;
- ``least of F``, ``most of F``, ``deviation of F``: over the values that each seed gives F;
- ``sees``: the median of the least effects, in per cent, that the runs behind the verdicts show.

Nothing is run.
"""

from __future__ import annotations

import csv
import re
import statistics
import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lasthop.papers import prose, summary
from lasthop.papers.library import DATA, PaperError
from lasthop.papers.measurement import Dataset
from lasthop.papers.readings import READINGS, decided_by_no_run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from lasthop.papers.library import Paper

FIGURE = re.compile(
    r"\{\{\s*(?P<number>\d+)\s+(?P<reading>\w+):(?P<formula>[^|}]+?)(?:\|\s*(?P<format>[^|}]+?))?\s*\}\}"
)
#: The page, in docs/explanation, and the text that it is made from, in the folder of the papers.
PAGE, TEXT = "what-the-papers-teach.md", "teaching.md.template"
#: What a formula may begin with: how the values of the seeds become one.
OVER_SEEDS: dict[str, Callable[[list[float]], float]] = {
    "least of": min,
    "most of": max,
    "deviation of": statistics.stdev,
}
#: The least effect that runs show, as `verdicts.csv` has it beside a share.
SEES = re.compile(r"% \(sees ([\d.]+)\)")


@dataclass
class Evidence:
    """What the reports of papers left: series, outcomes at each reading, verdicts; read when it is asked for.

    Parameters
    ----------
    papers : sequence of Paper
        Whose reports.
    folders : dict
        The folder of each report, by number.
    """

    papers: Sequence[Paper]
    folders: Mapping[str, Path]
    _datasets: dict[str, dict[str, Dataset]] = field(default_factory=dict)

    def paper(self, number: str) -> Paper | None:
        """Return a paper that has a report of all figures; `None` if there is none."""
        paper = next((one for one in self.papers if one.number == number), None)
        return paper if paper and (self.folders[number] / summary.SERIES).is_file() else None

    def datasets(self, paper: Paper) -> dict[str, Dataset]:
        """Return the series of each setting."""
        if paper.number not in self._datasets:
            path = self.folders[paper.number] / summary.SERIES
            self._datasets[paper.number] = summary.read_series(paper, path)
        return self._datasets[paper.number]

    def values(self, paper: Paper, setting: str, formula: str) -> list[float]:
        """Return what a formula gives for each seed alone."""
        data = self.datasets(paper)[setting]
        alone: dict[int, Dataset] = {}
        for series, point, seed, value in data.rows():
            alone.setdefault(seed, Dataset(paper.vocabulary)).add(series, point, seed, value)
        found = (prose.value(formula, paper, one) for seed, one in sorted(alone.items()) if seed)
        return [one.mean for one in found if one is not None]

    def outcomes(self, paper: Paper, reading: str) -> dict[str, str]:
        """Return the outcome of each claim at a reading."""
        path = self.folders[paper.number] / READINGS
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        if not rows or reading not in rows[0]:
            raise PaperError(f"{path} has no reading '{reading}'")
        return {row["claim"]: row[reading] for row in rows}

    def sees(self, paper: Paper) -> float:
        """Return the median of the least effects that the runs show, in per cent."""
        path = self.folders[paper.number] / summary.VERDICTS
        with path.open(encoding="utf-8", newline="") as file:
            found = [SEES.search(row["effect"]) for row in csv.DictReader(file)]
        return statistics.median(float(one[1]) for one in found if one)

    def figure(self, number: str, reading: str, formula: str, form: str | None = None) -> str:
        """Return a figure as it stands in a text."""
        paper = self.paper(number)
        if paper is None:
            return prose.NOT_RUN
        word, _, rest = formula.partition(" ")
        if word in {"claims", "headline"}:
            return str(self._count(paper, reading, rest.split(), headline=word == "headline"))
        if formula == "sees":
            return format(self.sees(paper), form or ".0f")
        if formula == "seeds":
            seeds = {seed for *_, seed, _ in self.datasets(paper)[reading].rows() if seed}
            return str(len(seeds))
        of, separator, inner = formula.partition(" of ")
        if separator:
            gathered = OVER_SEEDS[f"{of} of"](self.values(paper, reading, inner))
            return format(gathered, form or ".3g")
        told = f"{{{{{reading}: {formula}{f' | {form}' if form else ''}}}}}"
        return prose.filled(told, paper, self.datasets(paper))

    def _count(self, paper: Paper, reading: str, words: Sequence[str], *, headline: bool) -> int:
        outcome, *beginnings = words
        strengths = {claim.id: claim.strength for claim in paper.claims}
        empty = {claim.id for claim in paper.claims if decided_by_no_run(paper, claim) is not None}
        within = tuple(f"{paper.id}.{one}" for one in beginnings) or ("",)
        return sum(
            outcome in {"all", found} and claim.startswith(within)
            for claim, found in self.outcomes(paper, reading).items()
            if claim not in empty and (not headline or strengths.get(claim) == "headline")
        )


def page(evidence: Evidence) -> str:
    """Return the text of the page."""
    return filled((DATA / TEXT).read_text(encoding="utf-8"), evidence)


def filled(text: str, evidence: Evidence) -> str:
    """Return the text with its figures; paragraphs that have some are broken anew."""

    def made(part: str) -> str:
        found = FIGURE.sub(
            lambda match: evidence.figure(
                match["number"],
                match["reading"],
                " ".join(match["formula"].split()),
                match["format"],
            ),
            part,
        )
        if found == part or part.startswith(("|", "#", "![")):
            return found
        return textwrap.fill(
            " ".join(found.split()),
            prose.LINE_WIDTH,
            subsequent_indent="  " if part.startswith("- ") else "",
            break_long_words=False,
            break_on_hyphens=False,
        )

    return "\n\n".join("\n".join(map(made, prose.ITEM.split(part))) for part in text.split("\n\n"))
