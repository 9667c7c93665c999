"""Figures in notes are drawn from the series, and clear words say where they make no sense."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lasthop.papers import prose, summary
from lasthop.papers.library import Paper, PaperError, load_paper, paper_folders

if TYPE_CHECKING:
    from lasthop.papers.measurement import Dataset

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def paper() -> Paper:
    return next(one for one in map(load_paper, paper_folders()) if one.number == "001")


@pytest.fixture(scope="module")
def datasets(paper: Paper) -> dict[str, Dataset]:
    return summary.read_series(paper, ROOT / "docs/papers/001" / summary.SERIES)


def test_a_figure_is_that_of_the_series(paper: Paper, datasets: dict[str, Dataset]) -> None:
    by_seed = datasets["main"].find("throughput", {"variant": "vegas", "snoop": "on", "dir": "bi"})
    mean = sum(float(value) for value in by_seed.values() if isinstance(value, float)) / len(by_seed)
    text = prose.filled("It is {{main: throughput[vegas,snoop=on,dir=bi] | .3f}}.", paper, datasets)
    assert text == f"It is {mean:.3f}."
    with_interval = prose.filled("{{main: throughput[vegas,\nsnoop=on,dir=bi]}}", paper, datasets)
    assert with_interval.startswith(f"{mean:.1f} ± ")


def test_a_paragraph_with_figures_is_broken_anew(paper: Paper, datasets: dict[str, Dataset]) -> None:
    long = "a word " * 30 + "{{main: throughput[vegas,snoop=on,dir=bi] | .0f}} " + "and more " * 20
    made = prose.filled(f"# Title\n\n{long}\n\nas\nit was", paper, datasets)
    assert all(len(line) <= prose.LINE_WIDTH for line in made.splitlines())
    assert made.endswith("\n\nas\nit was")


def test_items_with_figures_are_broken_each_for_itself(paper: Paper, datasets: dict[str, Dataset]) -> None:
    figure = "{{main: throughput[vegas,snoop=on,dir=bi] | .0f}}"
    made = prose.filled(f"- one {figure}\n  and more\n- two\n  as\n  it was", paper, datasets).splitlines()
    assert (made[0].startswith("- one "), made[0].endswith(" and more")) == (True, True)
    assert made[1:] == ["- two", "  as", "  it was"]


def test_a_setting_that_was_not_run_is_said_so(paper: Paper, datasets: dict[str, Dataset]) -> None:
    main = {"main": datasets["main"]}
    text = prose.filled("{{per_flow: throughput[vegas,snoop=on,dir=bi]}} kbit/s", paper, main)
    assert text == "(not run) kbit/s"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{nowhere: throughput[vegas,snoop=on,dir=bi]}}", "there is no setting 'nowhere'"),
        ("{{main: speed[vegas]}}", "notes of paper 001: .*speed"),
        ("{{main: throughput[vegas] +}}", "notes of paper 001: "),
        ("{{main: not throughput[vegas]}}", "notes of paper 001: "),
    ],
)
def test_a_figure_that_makes_no_sense_is_refused(
    paper: Paper, datasets: dict[str, Dataset], text: str, message: str
) -> None:
    with pytest.raises(PaperError, match=message):
        prose.filled(text, paper, datasets)


def test_no_figure_of_a_report_is_left_open() -> None:
    for folder in (ROOT / "docs/papers").glob("0*"):
        notes = (folder / "report.md").read_text(encoding="utf-8").partition("## Notes")[2]
        assert "{{" not in notes
        assert prose.NOT_RUN not in notes
