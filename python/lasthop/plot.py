"""Figures: a run over time (window, queue, throughput, RTT), and several over each other.

matplotlib draws PNG, SVG and PDF; plotly draws HTML that needs no network. Both show the same panels, worked
out once: `lasthop.panels` has those of a run, `lasthop.overlay` those of several, `lasthop.panel_figures`
draws them. `lasthop.distribution` has the curves of distributions, `lasthop.comparison_plot` the dots of
comparisons, `lasthop.drawing` what all figures share. Called by `Run.plot`, `Comparison.plot` and
`lasthop plot`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lasthop.drawing import Marks, Picture, check_paths, draw, marks_of
from lasthop.overlay import overlay_panels, tracks_of
from lasthop.panel_figures import panels_figure, panels_page
from lasthop.panels import run_panels
from lasthop.quantities import number_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

    from lasthop.comparison import Comparison
    from lasthop.overlay import Track
    from lasthop.results import Run


def plot_run(
    run: Run, *paths: str | Path, law: str | None = None, cdf: str | None = None, box: str | None = None
) -> Picture:
    """Draw a run into each path; the ending chooses the format. `law` is one of `lasthop.laws.LAWS`."""
    check_paths(paths)
    if cdf is not None:
        return plot_distribution([run], ["run"], cdf, _name_of(run), *paths)
    if box is not None:
        from lasthop import boxes

        return boxes.draw(boxes.of_run(run, box), box, _name_of(run), *paths)
    figure = run_figure(run, law)
    draw(paths, lambda: figure, lambda: run_page(run, law))
    return Picture(figure)


def plot_distribution(
    runs: Sequence[Run], labels: Sequence[str], cdf: str, title: str, *paths: str | Path
) -> Picture:
    """Draw how a column is distributed: in one run by sender, in several a curve for each."""
    from lasthop import distribution

    alone = len(runs) == 1
    samples = [
        sample
        for run, label in zip(runs, labels, strict=True)
        for sample in distribution.of_run(run, cdf, None if alone else label)
    ]
    return distribution.draw(samples, cdf, title, *paths)


def plot_comparison(
    comparison: Comparison, *paths: str | Path, cdf: str | None = None, box: str | None = None
) -> Picture:
    """Draw a comparison into each path: over time if it has series, else by means."""
    check_paths(paths)
    seeds = len(comparison.seeds)
    title = f"{comparison.scenario.get('name', 'scenario')}, {seeds} seed{'s' if seeds > 1 else ''}"
    if box is not None:
        from lasthop import boxes

        return boxes.draw(boxes.of_comparison(comparison, box), box, title, *paths)
    if cdf is not None:
        from lasthop import distribution

        return distribution.draw(distribution.of_comparison(comparison, cdf), cdf, title, *paths)
    from lasthop import comparison_plot

    if comparison.has_series:
        return plot_overlay(tracks_of(comparison), comparison_plot.comparison_title(comparison), *paths)
    figure = comparison_plot.figure_of(comparison)
    draw(paths, lambda: figure, lambda: comparison_plot.page_of(comparison))
    return Picture(figure)


def plot_overlay(tracks: Sequence[Track], title: str, *paths: str | Path) -> Picture:
    """Draw several runs over each other: a line per sender in each panel."""
    panels = overlay_panels(tracks)
    duration_s = max(track.duration_s for track in tracks)
    marks = tracks[0].marks if len({track.marks.outages for track in tracks}) == 1 else Marks()
    figure = panels_figure(panels, duration_s, title, marks)
    draw(paths, lambda: figure, lambda: panels_page(panels, duration_s, title, marks))
    return Picture(figure)


def run_figure(run: Run, law: str | None = None) -> Figure:
    """Draw the panels of a run with matplotlib."""
    marks = marks_of(run.scenario, run.seed)
    return panels_figure(run_panels(run, law), run.duration_s, _run_title(run), marks)


def run_page(run: Run, law: str | None = None) -> Any:  # noqa: ANN401 - untyped
    """Draw the panels of a run with plotly."""
    marks = marks_of(run.scenario, run.seed)
    return panels_page(run_panels(run, law), run.duration_s, _run_title(run), marks)


def _run_title(run: Run) -> str:
    goodput = run.totals["goodput_bit_s"]
    total = "" if goodput is None else f", goodput of all flows {number_text(goodput / 1e6, 3)} Mbit/s"
    return f"{_name_of(run)}{total}"


def _name_of(run: Run) -> str:
    return f"{run.scenario.get('name', 'scenario')}, seed {run.seed}"
