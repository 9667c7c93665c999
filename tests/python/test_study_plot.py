"""What the figures of studies show, and that they can be told apart; drawn from tables made by hand."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import lasthop as lh
from lasthop import for_paper
from lasthop.errors import ArgumentError
from lasthop.studies import charts, plot, show
from lasthop.studies.charts import Look, Style, make_chart

if TYPE_CHECKING:
    from pathlib import Path

PROTOS = ("reno", "vegas", "udp")


def a_table(
    seeds: int = 4,
    counts: tuple[Any, ...] = (1, 10, 100),
    protos: tuple[str, ...] = PROTOS,
    envs: tuple[str, ...] = ("wired",),
) -> pl.DataFrame:
    """Return a tidy table: 10 Mbit/s for each place in `protos`, over the step in `counts`, plus noise."""
    rows = [
        {
            "env": env,
            "n": count,
            "proto": proto,
            "seed": seed,
            "goodput": 1e7 * (place + 1) / (step + 1) * (1 + 0.01 * seed),
            "state": "done",
        }
        for env in envs
        for step, count in enumerate(counts)
        for place, proto in enumerate(protos)
        for seed in range(1, seeds + 1)
    ]
    return pl.DataFrame(rows)


LOOK = Look(
    title="Goodput", labels={"n": "flows"}, units={"goodput": "bit/s"}, names={"proto": {"udp": "UDP"}}
)


def test_no_axis_goes_beyond_what_is_possible() -> None:
    table = a_table().with_columns(pl.col("goodput") / pl.col("goodput").max())
    free = make_chart(table, "goodput", "n", "proto")
    bounded = make_chart(table, "goodput", "n", "proto", look=Look(most={"goodput": 1.0}))
    assert free.top > 1.0
    assert bounded.top == 1.0


def test_a_chart_has_a_line_per_value_with_intervals_in_a_readable_unit() -> None:
    chart = make_chart(a_table(), "goodput", "n", "proto", look=LOOK)
    (panel,) = chart.panels
    assert [line.name for line in panel.lines] == ["reno", "vegas", "UDP"]
    reno = panel.lines[0]
    assert reno.x == [1.0, 10.0, 100.0]
    assert reno.mean[0] == pytest.approx(10.25)
    assert reno.low[0] is not None
    assert reno.low[0] < 10.25
    assert (chart.title, chart.x_label, chart.y_label) == ("Goodput", "flows", "goodput (Mbit/s)")
    assert chart.note == "mean of 4 seeds; bars: 95 % interval"
    assert (chart.x_log, chart.from_zero, chart.ticks) == (True, True, [1.0, 10.0, 100.0])


def test_the_order_asked_for_is_kept_and_other_values_are_left_out() -> None:
    look = Look(order={"proto": ["udp", "reno", "cubic"]})
    chart = make_chart(a_table(), "goodput", "n", "proto", look=look)
    assert [line.name for line in chart.panels[0].lines] == ["udp", "reno"]


def test_further_axes_are_small_multiples_on_the_same_scales() -> None:
    table = a_table(envs=("wired", "wireless"))
    chart = make_chart(table, "goodput", "n", "proto", ["env"])
    assert [panel.name for panel in chart.panels] == ["wired", "wireless"]
    figure = plot.draw_chart(chart)
    first, second = figure.axes
    assert first.get_ylim() == second.get_ylim()
    assert (first.get_title(loc="left"), second.get_title(loc="left")) == ("wired", "wireless")
    numbers = make_chart(table, "goodput", "proto", "env", ["n"], Look(labels={"n": "flows"}))
    assert [panel.name for panel in numbers.panels] == ["flows 1", "flows 10", "flows 100"]


def test_names_along_x_become_points_side_by_side() -> None:
    chart = make_chart(a_table(), "goodput", "proto", "n", look=LOOK)
    assert chart.categories == ["reno", "vegas", "UDP"]
    assert chart.legend == "flows"
    (axes,) = plot.draw_chart(chart).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["reno", "vegas", "UDP"]
    places = sorted(container[0].get_xdata()[0] for container in axes.containers)
    assert places == pytest.approx([-0.275, 0.0, 0.275])
    assert all(container[0].get_linestyle() == "None" for container in axes.containers)


def test_one_seed_has_no_intervals_and_says_so() -> None:
    chart = make_chart(a_table(seeds=1), "goodput", "n", "proto")
    assert chart.note == "one seed: no intervals"
    assert not any(line.has_intervals for line in chart.panels[0].lines)
    plot.draw_chart(chart)


def test_points_with_failed_seeds_are_counted_and_without_any_are_gaps() -> None:
    reno, ten = pl.col("proto") == "reno", pl.col("n") == 10
    failed = (reno & ten) | ((pl.col("proto") == "udp") & (pl.col("seed") == 1))
    table = a_table().with_columns(state=pl.when(failed).then(pl.lit("failed")).otherwise(pl.lit("done")))
    chart = make_chart(table, "goodput", "n", "proto")
    lines = {line.name: line for line in chart.panels[0].lines}
    assert lines["reno"].mean[1] is None
    assert lines["udp"].seeds == [3, 3, 3]
    assert chart.note == "mean of 3 to 4 seeds; bars: 95 % interval"
    plot.draw_chart(chart)
    plot.chart_page(chart)


def test_lines_differ_in_more_than_colour() -> None:
    styles = [Style(place) for place in range(24)]
    looks = [(style.colour, str(style.matplotlib_dash), style.matplotlib_marker) for style in styles]
    pages = [(style.colour, style.plotly_dash, style.plotly_marker) for style in styles]
    assert len(set(looks)) == len(set(pages)) == 24
    # In grey, the first lines are still told apart by dashes and by markers alike.
    assert len({dash for _, dash, _ in looks[:6]}) == len({marker for _, _, marker in looks[:6]}) == 6
    for one, other in itertools.combinations(looks[:12], 2):
        assert one[1:] != other[1:]


@pytest.mark.parametrize(
    ("counts", "logarithmic"),
    [
        ((1, 10, 20, 40, 80), False),
        ((1, 2, 4, 8, 16, 32), True),
        ((0, 0.01, 0.1, 1), False),
        ((20, 80), False),
    ],
)
def test_x_is_logarithmic_where_that_spaces_the_values_evenly(
    counts: tuple[float, ...], logarithmic: bool
) -> None:
    assert make_chart(a_table(counts=counts), "goodput", "n", "proto").x_log is logarithmic


def test_scales_may_be_chosen() -> None:
    look = Look(x_scale="linear", y_scale="log")
    chart = make_chart(a_table(), "goodput", "n", "proto", look=look)
    assert (chart.x_log, chart.y_log, chart.from_zero) == (False, True, False)
    (axes,) = plot.draw_chart(chart).axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "log")


def test_values_far_from_zero_are_not_pressed_flat() -> None:
    table = a_table(counts=(1, 2)).with_columns(goodput=100 + pl.col("goodput") / 1e7)
    assert not make_chart(table, "goodput", "n", "proto").from_zero


def test_a_series_is_a_line_over_time_with_a_band() -> None:
    rows = [
        {"limit": limit, "seed": seed, "time_s": 0.1 * step, "queue_packets": limit / 2 + seed}
        for limit in (30, 50)
        for seed in range(1, 6)
        for step in range(1, 1001)
    ]
    series = pl.DataFrame(rows)
    look = Look(labels={"limit": "buffer"}, units={"time_s": "s", "limit": "packets"})
    thin = charts.over_time(series, "queue_packets", ["limit"])
    assert thin.height == 2 * 5 * 334
    chart = make_chart(thin, "queue_packets", "time_s", "limit", look=look)
    assert (chart.dense, chart.legend) == (True, "buffer (packets)")
    assert chart.note == "mean of 5 seeds; bands: 95 % interval"
    assert chart.panels[0].lines[0].mean[0] == pytest.approx(18.0)
    assert chart.panels[0].lines[0].x[-1] == pytest.approx(100.2, abs=0.3)
    one = plot.draw_series(series, "queue_packets", "limit", look=look, seed=2)
    assert one.texts[1].get_text() == "seed 2"
    assert [axes.get_title(loc="left") for axes in one.axes] == ["buffer 30 packets", "buffer 50 packets"]
    few = charts.make_series_chart(series.filter(pl.col("seed") < 3), "queue_packets", "limit", look=look)
    assert few.note == "mean of 2 seeds: too few for intervals over time"
    assert not any(line.has_intervals for panel in few.panels for line in panel.lines)
    with pytest.raises(lh.ArgumentError, match="the series has no seed 9: it has 1, 2, 3, 4, 5"):
        plot.draw_series(series, "queue_packets", "limit", seed=9)


def test_names_of_lines_do_not_overlap() -> None:
    heights = plot.spread_apart([0.01, 0.02, 0.5, 0.51, 0.99], 0.1)
    assert all(later - earlier >= 0.1 - 1e-12 for earlier, later in itertools.pairwise(heights))
    assert min(heights) >= 0
    assert max(heights) <= 1


def test_pictures_are_small_and_the_same_each_time(tmp_path: Path) -> None:
    for ending in ("png", "svg", "pdf"):
        first, second = tmp_path / f"1.{ending}", tmp_path / f"2.{ending}"
        for path in (first, second):
            plot.save_figure(plot.draw_metric(a_table(), "goodput", "n", "proto", look=LOOK), path)
        assert first.read_bytes() == second.read_bytes()
        assert first.stat().st_size < 60_000
    from PIL import Image

    with Image.open(tmp_path / "1.png") as picture:
        assert picture.mode == "P"
        assert picture.width == 896


def test_the_page_shows_what_the_picture_shows() -> None:
    chart = make_chart(a_table(envs=("wired", "a<b>c")), "goodput", "n", "proto", ["env"], LOOK)
    page = plot.chart_page(chart)
    assert [trace.name for trace in page.data] == ["reno", "vegas", "UDP"] * 2
    assert [trace.showlegend for trace in page.data] == [True] * 3 + [False] * 3
    assert [trace.line.color for trace in page.data[:3]] == [Style(place).colour for place in range(3)]
    assert page.data[0].error_y.array[0] == pytest.approx(
        (chart.panels[0].lines[0].high[0] or 0) - (chart.panels[0].lines[0].mean[0] or 0)
    )
    assert [note.text for note in page.layout.annotations] == ["wired", "a&lt;b&gt;c"]


def message(**options: Any) -> str:
    with pytest.raises(lh.ArgumentError) as caught:
        make_chart(**({"table": a_table(), "metric": "goodput", "x": "n", "lines": "proto"} | options))
    return str(caught.value)


def test_what_cannot_be_drawn_is_refused() -> None:
    assert message(metric="godput").startswith("unknown metric 'godput': did you mean 'goodput'?")
    assert message(x="m").startswith("unknown axis 'm'")
    failed = a_table().with_columns(state=pl.lit("failed"))
    assert message(table=failed) == "nothing to draw: no run has a value of 'goodput'"
    many = a_table(envs=tuple(f"env-{place}" for place in range(25)))
    assert message(table=many, panels=["env"]) == (
        "'goodput' would take 25 panels, one for each value of env: pick some with --where AXIS=VALUE"
    )


@pytest.mark.parametrize(("envs", "width_in"), [(("wired",), 3.5), (("wired", "radio"), 7.16)])
def test_a_figure_for_a_paper_is_as_wide_as_its_columns(
    tmp_path: Path, envs: tuple[str, ...], width_in: float
) -> None:
    """A title and names beside the lines lay over one another in a column."""
    with for_paper.styled("paper"):
        chart = make_chart(a_table(envs=envs), "goodput", "n", "proto", ["env"], look=LOOK)
        figure = plot.draw_chart(chart)
        figure.savefig(tmp_path / "drawn.pdf")
    assert figure.get_size_inches()[0] == pytest.approx(width_in)
    assert not figure.texts
    (legend,) = figure.legends
    boxes = [axes.get_tightbbox() for axes in figure.axes]
    assert all(box is not None and box.y1 <= legend.get_window_extent().y0 + 1 for box in boxes)
    assert all(box is not None and box.x1 <= figure.bbox.width for box in boxes)


@pytest.mark.parametrize(("asked", "ending"), [(None, ".pdf"), ("svg", ".svg")])
def test_figures_for_a_paper_are_vectors(tmp_path: Path, asked: str | None, ending: str) -> None:
    assert show.format_of(tmp_path / "goodput", asked) in (asked, "png")
    with for_paper.styled("paper"):
        assert f".{show.format_of(tmp_path / 'goodput', asked)}" == ending
        with pytest.raises(ArgumentError, match=r"goodput.png' for a paper"):
            show.format_of(tmp_path / "goodput", "png")
