"""Fills the figures of a paper's notes from what was measured, so that no sentence says what no table does.

`report` calls `filled`. In notes.md a figure is written ``{{setting: formula | format}}``: the formula is one
side of a comparison, the format one of Python's for numbers, and without one the mean has its interval.
Nothing is run.
"""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from lasthop.papers.evaluation import evaluate, write_estimate
from lasthop.papers.grammar import Comparison, check, parse
from lasthop.papers.library import Claim, PaperError, Tolerance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lasthop.papers.library import Paper
    from lasthop.papers.measurement import Dataset
    from lasthop.stats import Estimate

FIGURE = re.compile(r"\{\{\s*(?P<setting>\w+):(?P<formula>[^|}]+?)(?:\|\s*(?P<format>[^|}]+?))?\s*\}\}")
#: Where an item of a list begins, behind another.
ITEM = re.compile(r"\n(?=- )")
#: What stands in place of a figure whose setting was not run.
NOT_RUN = "(not run)"
#: Longest line of a paragraph that has figures.
LINE_WIDTH = 118


def filled(text: str, paper: Paper, datasets: Mapping[str, Dataset]) -> str:
    """Return the text with its figures; paragraphs that have some are broken anew.

    Raises
    ------
    PaperError
        A figure makes no sense, or is not there though its setting was run.
    """

    def figure(match: re.Match[str]) -> str:
        data = datasets.get(match["setting"])
        if data is None:
            if not any(one.name == match["setting"] for one in paper.alternatives):
                raise PaperError(f"notes of paper {paper.number}: there is no setting '{match['setting']}'")
            return NOT_RUN
        found = value(" ".join(match["formula"].split()), paper, data)
        if found is None:
            return NOT_RUN
        return write_estimate(found) if match["format"] is None else format(found.mean, match["format"])

    def made(part: str) -> str:
        found = FIGURE.sub(figure, part)
        if found == part or part.startswith(("|", "#")):
            return found
        return textwrap.fill(
            " ".join(found.split()),
            LINE_WIDTH,
            subsequent_indent="  " if part.startswith("- ") else "",
            break_long_words=False,
            break_on_hyphens=False,
        )

    # Items of a list are broken each for itself.
    return "\n\n".join("\n".join(map(made, ITEM.split(part))) for part in text.split("\n\n"))


def value(formula: str, paper: Paper, data: Dataset) -> Estimate | None:
    """Return what a formula gives; `None` without data."""
    try:
        predicate = parse(f"{formula} > 0")
        check(predicate, paper.vocabulary)
    except PaperError as error:
        raise PaperError(f"notes of paper {paper.number}: {error}") from None
    if not isinstance(predicate, Comparison):
        raise PaperError(f"notes of paper {paper.number}: '{formula}' is no quantity")
    claim = Claim(
        id="notes",
        experiments=tuple(paper.experiments),
        figure="",
        text="",
        kind="number",
        predicate=f"{formula} > 0",
        tolerance=Tolerance(0.0, 0.0, ""),
        strength="supporting",
        basis="",
        unit=None,
        reference=(),
        note=None,
        cannot_fail=None,
        about=None,
    )
    (atom,) = evaluate(claim, predicate, paper, data).atoms
    return atom.left
