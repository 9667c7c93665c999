"""The verdicts in docs/papers follow from the figures that lie beside them."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lasthop.papers import overview, summary
from lasthop.papers.grammar import parse, series_in
from lasthop.papers.library import load_paper, paper_folders

if TYPE_CHECKING:
    from lasthop.papers.library import Claim, Paper

ROOT = Path(__file__).parents[2]
REPORTS = Path(__file__).resolve().parents[2] / "docs" / "papers"
#: The largest folder of a report, in bytes.
LARGEST = 5_000_000
PAPERS = [load_paper(folder) for folder in paper_folders()]
STORED = [paper for paper in PAPERS if (REPORTS / paper.number / summary.SERIES).is_file()]


def over_samples(claim: Claim, paper: Paper) -> bool:
    """Whether a claim needs samples of a run, which are not kept."""
    named = series_in(parse(claim.predicate))
    return any(paper.vocabulary.series[one.name].sample_axis is not None for one in named)


@pytest.mark.parametrize("paper", STORED, ids=lambda paper: paper.number)
def test_stored_figures_give_the_stored_verdicts(paper: Paper) -> None:
    folder = REPORTS / paper.number
    stored = summary.read_verdicts(folder / summary.VERDICTS)
    again = summary.judged_again(paper, folder / summary.SERIES)
    assert stored.keys() == {one.claim.id for one in again}
    for one in again:
        if not over_samples(one.claim, paper):
            assert one.verdict.value == stored[one.claim.id], one.reason


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.number)
def test_reports_are_small(paper: Paper) -> None:
    files = [path for path in (REPORTS / paper.number).rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < LARGEST


def test_the_page_is_that_of_the_reports() -> None:
    folders = {paper.number: REPORTS / paper.number for paper in PAPERS}
    page = REPORTS / overview.PAGE
    assert page.read_text(encoding="utf-8") == overview.markdown(PAPERS, folders, REPORTS)


def test_the_lessons_count_what_the_reports_say() -> None:
    def counted(kinds: set[str], numbers: set[str]) -> tuple[int, int]:
        outcomes = [
            row["at_the_main_setting"]
            for paper in PAPERS
            if paper.number in numbers
            for row in csv.DictReader(
                io.StringIO((REPORTS / paper.number / summary.VERDICTS).read_text("utf-8"))
            )
            if next(claim.kind for claim in paper.claims if claim.id == row["claim"]) in kinds
        ]
        return outcomes.count("holds"), outcomes.count("holds") + outcomes.count("fails")

    text = " ".join(overview.lessons().split())
    directions = re.search(
        r"(\d+) of the (\d+) orderings and trends of 001, 003 and 004 that are decided", text
    )
    values = re.search(r"(\d+) of (\d+) values of 001 and 004", text)
    assert directions is not None
    assert values is not None
    assert tuple(map(int, directions.groups())) == counted({"ordering", "trend"}, {"001", "003", "004"})
    assert tuple(map(int, values.groups())) == counted({"number"}, {"001", "004"})


#: Figures in the prose of paper 002: setting, series, point, sender, decimals, and the words around each.
PROSE = [
    ("main", "goodput", {"cong": "none", "loss": "bursty", "per": 0.1}, "reno", 2, "Reno falls to {} Mbit/s"),
    ("main", "goodput", {"cong": "none", "loss": "bursty", "per": 0.1}, "xjtcp", 2, "XJTCP keeps {}, but"),
    ("main", "goodput", {"cong": "none", "loss": "bursty", "per": 0.1}, "xjtcp", 2, "segment: {} against"),
    (
        "main",
        "goodput",
        {"cong": "none", "loss": "bursty", "per": 0.1},
        "jtcp",
        2,
        "against {} Mbit/s at 10 %",
    ),
    ("main", "fairness", {"cong": "tcp", "loss": "bursty", "per": 0.0}, "jtcp", 2, "is {} to"),
    ("main", "fairness", {"cong": "tcp", "loss": "bursty", "per": 0.0}, "reno", 2, "to {} without any error"),
    ("main", "delay", {"cong": "udp", "loss": "bursty", "per": 0.1}, "xjtcp", 2, "at 10 %, {} s instead"),
    ("main", "delay", {"cong": "udp", "loss": "bursty", "per": 0.1}, "jtcp", 2, "instead of {} s on average"),
]


@pytest.mark.parametrize("case", PROSE, ids=[case[-1] for case in PROSE])
@pytest.mark.parametrize("file", ["papers/002-cross-layer-jitter-tcp/notes.md", "docs/papers/002/report.md"])
def test_prose_says_what_the_series_say(file: str, case: tuple[object, ...]) -> None:
    import polars as pl

    setting, series, point, sender, decimals, words = case
    stored = pl.read_parquet(ROOT / "docs/papers/002/series.parquet").cast(
        {"setting": pl.String, "series": pl.String}
    )
    rows = stored.filter((pl.col("setting") == setting) & (pl.col("series") == series))
    wanted = {**point, "proto": sender}  # type: ignore[dict-item]
    values = [value for at, value in rows.select("point", "value").iter_rows() if json.loads(at) == wanted]
    mean = sum(values) / len(values) / (1000 if series == "delay" else 1)
    text = " ".join((ROOT / file).read_text(encoding="utf-8").split())
    assert str(words).format(f"{mean:.{decimals}f}") in text
