"""Tables for papers: what `compare --table` and `study show --table` print."""

from __future__ import annotations

import csv
import io
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

import lasthop as lh
from lasthop.comparison import Comparison, choose_metrics
from lasthop.formats import Sheet, comparison_text, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from typer.testing import Result

    Command = Callable[..., Result]

COMPARE = ("--transport", "reno,vegas", "--seeds", "1-3")
STUDY = """\
name     = "grid"
scenario = "small.toml"
seeds    = [1, 2]
metrics  = ["goodput_bit_s"]
set      = { duration = "2 s" }
baseline = { sender = "reno" }

[[axes]]
name   = "sender"
key    = "flows.0.transport"
values = ["reno", "vegas"]
"""


def test_latex_has_escaped_text_and_intervals(command: Command, scenario_file: Path) -> None:
    printed = command("compare", scenario_file, *COMPARE, "--table", "latex")
    assert printed.exit_code == 0, printed.stderr
    lines = [line.strip() for line in printed.stdout.splitlines()]
    assert lines.count(r"\begin{tabular}{lrr}") == 1
    assert lines.count(r"\begin{tabular}{lr}") == 1
    assert r"\caption{small: mean over 3 seeds with 95 \% intervals}" in lines
    rows = [line for line in lines if line.startswith("goodput")]
    assert rows[0].startswith("goodput (Mbit/s) & ")
    assert rows[0].count(r"$\pm$") == 2
    assert rows[0].endswith(r"\\")
    assert r" to " in rows[1]
    assert r"\%" in rows[1]
    assert not any("±" in line or ".." in line for line in lines)


def test_what_latex_would_take_for_a_command_is_escaped() -> None:
    sheet = Sheet("100 % & {more} #1", ("", "a_b"), [("x^2 ~ $", "-1..+2 %")])
    text = write([sheet], "latex")
    assert r"100 \% \& \{more\} \#1" in text
    assert r" & a\_b \\" in text
    assert r"x\textasciicircum{}2 \textasciitilde{} \$ & $-$1 to +2 \% \\" in text


def test_csv_has_numbers_in_base_units(command: Command, scenario_file: Path) -> None:
    printed = command("compare", scenario_file, *COMPARE, "--table", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(printed)))
    goodput = [row for row in rows if row["metric"] == "goodput_bit_s"]
    assert [(row["table"], row["transport"]) for row in goodput] == [
        ("mean", "reno"),
        ("mean", "vegas"),
        ("difference", "vegas"),
    ]
    assert float(goodput[0]["mean"]) > 1e6
    assert float(goodput[0]["low"]) < float(goodput[0]["mean"]) < float(goodput[0]["high"])
    assert {row["n"] for row in goodput} == {"3"}


def test_what_is_exact_has_no_interval() -> None:
    runs = {
        name: [
            lh.run(lh.EXAMPLE | {"flows": [{"transport": name}]}).record | {"seed": seed} for seed in [1, 2]
        ]
        for name in ("reno", "vegas")
    }
    exact = Comparison({"name": "lab"}, "0.1.0", runs, "reno", choose_metrics(["goodput"]))
    printed = comparison_text(exact, "markdown")
    captions = [line for line in printed.splitlines() if line.startswith("lab: ")]
    assert captions == [
        "lab: 2 seeds, all seeds gave the same run",
        "lab: difference from reno, all seeds gave the same run",
    ]
    assert "±" not in printed
    assert ".." not in printed
    rows = csv.DictReader(io.StringIO(comparison_text(exact, "csv")))
    assert [(row["metric"], row["low"], row["n"]) for row in rows] == [("goodput_bit_s", "", "2")] * 3


def test_markdown_and_html_have_the_same_cells(command: Command, scenario_file: Path) -> None:
    markdown = command("compare", scenario_file, *COMPARE, "--table", "markdown").stdout
    page = command("compare", scenario_file, *COMPARE, "--table", "html").stdout

    class Cells(HTMLParser):
        found: list[str] = []  # noqa: RUF012 - read once

        def handle_data(self, data: str) -> None:
            if data.strip():
                self.found.append(data)

    Cells().feed(page)
    lines = [line for line in markdown.splitlines() if line.startswith("|") and ":-" not in line]
    cells = [cell.strip() for line in lines for cell in line.strip("|").split("|")]
    captions = [line for line in markdown.splitlines() if line and not line.startswith("|")]
    assert sorted(Cells.found) == sorted([*captions, *filter(None, cells)])
    assert any("±" in cell for cell in cells)


def test_a_study_has_them_too(command: Command, scenario_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(scenario_file.parent)
    scenario_file.with_name("grid.toml").write_text(STUDY)
    assert command("study", "run", "grid.toml").exit_code == 0
    markdown = command("study", "show", "grid.toml", "--table", "markdown").stdout
    assert "grid: " in markdown
    assert " ± " in markdown
    assert "difference from" in markdown
    rows = list(csv.DictReader(io.StringIO(command("study", "show", "out/grid", "--table", "csv").stdout)))
    assert [(row["table"], row["sender"]) for row in rows] == [
        ("mean", "reno"),
        ("mean", "vegas"),
        ("difference", "vegas"),
    ]
    assert command("study", "show", "out/grid", "--table", "latex").stdout.count(r"\toprule") == 2


@pytest.mark.parametrize("words", [("compare", "FILE", *COMPARE), ("study", "show", "out/grid")])
def test_an_unknown_table_is_refused(command: Command, scenario_file: Path, words: tuple[str, ...]) -> None:
    refused = command(*(str(scenario_file) if word == "FILE" else word for word in words), "--table", "xlsx")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr == "error: unknown table 'xlsx': use one of latex, markdown, csv, html\n"
