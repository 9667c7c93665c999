"""Figures for a journal: as wide as its columns, with letters that stay letters; and what is refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import matplotlib as mpl
import pytest

import lasthop as lh
from lasthop import comparison_plot, for_paper

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

#: Points to an inch.
INCH = 72


@pytest.fixture
def saved(command: Callable[..., Result], scenario_file: Path, tmp_path: Path) -> Path:
    """Results with series of a run."""
    assert command("run", scenario_file, "--series", "--out", tmp_path / "one").exit_code == 0
    return tmp_path / "one"


def test_a_run_is_one_column_wide_with_letters_as_letters(
    command: Callable[..., Result], saved: Path
) -> None:
    result = command("plot", saved, "--style", "paper")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == f"written: {saved / 'plot.pdf'}\n"
    content = (saved / "plot.pdf").read_bytes()
    box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+) ?\]", content)
    assert box is not None
    assert float(box[1]) == pytest.approx(3.5 * INCH)
    # Journals refuse letters that are drawings (Type 3).
    assert b"/Type3" not in content
    assert b"STIXGeneral" in content


def test_a_comparison_takes_both_columns_and_svg_keeps_text(
    command: Callable[..., Result], scenario_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "two"
    senders = ("--transport", "reno,vegas", "--seeds", "1-2")
    assert command("compare", scenario_file, *senders, "--out", out).exit_code == 0
    picture = tmp_path / "two.svg"
    result = command("plot", out, "--style", "paper", "--out", picture)
    assert result.exit_code == 0, result.stderr
    content = picture.read_text()
    width = re.search(r'<svg[^>]* width="([\d.]+)pt"', content)
    assert width is not None
    assert float(width[1]) == pytest.approx(7.16 * INCH)
    assert ">vegas</text>" in content


def test_titles_of_a_comparison_stand_beside_what_is_better() -> None:
    """Of each panel: the title at the left, and at the right in which direction it is better."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    lossy = lh.Scenario.load("scenarios/lossy-last-hop.toml").replace({"duration": "10 s"})
    figure = comparison_plot.figure_of(lh.compare(lossy, ["reno", "vegas"], seeds=[1]))
    for_paper.dress(figure)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    for axes in figure.axes:
        shown = [text for text in axes.findobj(Text) if isinstance(text, Text) and text.get_text()]
        (hint,) = (text for text in shown if "better" in text.get_text()) if axes.axison else (None,)
        if hint is None:
            continue
        (title,) = (text for text in shown if text.get_text() == axes.get_title(loc="left"))
        renderer = canvas.get_renderer()
        assert title.get_window_extent(renderer).x1 < hint.get_window_extent(renderer).x0, title.get_text()


def test_curves_keep_the_width_whatever_the_legend_says(tmp_path: Path) -> None:
    """Long names beside or above the axes pressed them to half a column."""
    scenario = lh.Scenario.read("""
name = "lab"
duration = "2 s"
[topology]
kind = "dumbbell"
bottleneck = { rate = "2 Mbit/s", delay = "10 ms", queue = { kind = "drop-tail", limit = "20 packets" } }
access = { rate = "1 Mbit/s", delay = "1 ms", queue = { kind = "drop-tail", limit = "50 packets" } }
[[flows]]
count = 12
transport = "reno"
""")
    run = lh.run(scenario, series=True)
    with for_paper.styled("paper"), mpl.rc_context(for_paper.SETTINGS):
        figure = run.plot(tmp_path / "lab.svg").figure
        whole = figure.bbox.width
        for axes in figure.axes:
            assert axes.get_window_extent().width > 0.7 * whole
            legend = axes.get_legend()
            assert legend is None or legend.get_window_extent().x1 <= whole
            assert ";" not in axes.get_xlabel()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("--style", "paper", "--out", "a.png"),
            "cannot draw 'a.png' for a paper: its name must end in .pdf or .svg",
        ),
        (("--style", "poster"), "there is no style 'poster': --style is screen or paper"),
    ],
)
def test_what_no_journal_takes_is_refused(
    command: Callable[..., Result], saved: Path, words: tuple[str, ...], told: str
) -> None:
    result = command("plot", saved, *words)
    assert result.exit_code == 2
    assert told in " ".join(result.stderr.split())
    assert not (saved / "plot.pdf").exists()


def test_labels_of_every_figure_lie_within_it(tmp_path: Path) -> None:
    """Of one panel, of boxes, and of more panels than a column of usual ones has room for."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    video = lh.run(lh.Scenario.load("scenarios/video.toml").replace({"duration": "10 s"}), series=True)
    transfers = lh.run(lh.Scenario.load("scenarios/short-transfers.toml").replace({"duration": "20 s"}))
    out = tmp_path / "figure.svg"
    draws = (
        (lambda: video.plot(out), 10),
        (lambda: video.plot(out, cdf="goodput"), 1),
        (lambda: transfers.plot(out, box="completion"), 1),
    )
    for draw, rows in draws:
        with for_paper.styled("paper"), mpl.rc_context(for_paper.SETTINGS):
            figure = draw().figure
            canvas = FigureCanvasAgg(figure)
            canvas.draw()
            width, height = figure.get_size_inches()
            assert (width, len(figure.axes)) == (3.5, rows)
            assert height <= for_paper.MOST_HEIGHT
            for axes in figure.axes:
                labels = [axes.xaxis.label, axes.yaxis.label, *axes.get_yticklabels()]
                labels += axes.get_legend().get_texts() if axes.get_legend() else []
                for label in filter(lambda one: one.get_text(), labels):
                    assert isinstance(label, Text)
                    box = label.get_window_extent(canvas.get_renderer())
                    assert box.x0 >= 0, label.get_text()
                    assert box.x1 <= figure.bbox.x1, label.get_text()
                    assert box.y0 >= 0, label.get_text()
                    assert box.y1 <= figure.bbox.y1, label.get_text()


def test_dashes_tell_curves_apart_and_one_alone_has_none() -> None:
    alone = lh.Scenario.load("scenarios/walking-host.toml").replace({"duration": "20 s"})
    both = lh.Scenario.load("scenarios/hidden-terminals.toml").replace({"duration": "10 s"})
    looks = []
    for scenario in (alone, both):
        figure = lh.run(scenario, series=True).plot().figure
        for_paper.dress(figure)
        axes = next(one for one in figure.axes if "throughput" in one.get_ylabel())
        looks.append(
            (
                len({line.get_linestyle() for line in axes.get_lines() if len(line.get_xydata()) > 2}),
                all(line.get_linestyle() == "-" for line in axes.get_lines() if len(line.get_xydata()) > 2),
            )
        )
    assert looks == [(1, True), (2, False)]


def test_a_box_of_a_sender_is_named_once() -> None:
    lossy = lh.Scenario.load("scenarios/lossy-last-hop.toml").replace({"duration": "10 s"})
    figure = lh.compare(lossy, ["reno", "vegas"], seeds=[1]).plot(box="goodput").figure
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == ["reno (20)", "vegas (20)"]
