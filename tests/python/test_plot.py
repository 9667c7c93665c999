"""What the figures show, worked out from tables made by hand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import lasthop as lh
from lasthop import drawing, plot, saved
from lasthop.overlay import overlay_panels, track_of, tracks_of
from lasthop.panel_figures import panels_figure, panels_page
from lasthop.panels import COLOURED_MAX, POINTS_MAX, Line, Panel, run_panels, whole_intervals
from lasthop.papers import library
from lasthop.results import Run
from lasthop.studies.plot import draw_metric

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from matplotlib.figure import Figure
    from typer.testing import Result


class Tables:
    """Series of `flows` flows over ten seconds at two intervals a second, and of two links."""

    def __init__(self, flows: int) -> None:
        self.flows = flows

    def summary(self, name: str) -> pl.DataFrame | None:  # noqa: ARG002 - as other sources have it
        """Leave it to the record."""
        return None

    def has(self, name: str) -> bool:
        """Whether it is one of the two."""
        return name in ("flow_series", "link_series")

    def table(self, name: str) -> pl.DataFrame | None:
        """Return one of the two series."""
        times = [0.5 * step for step in range(1, 21)]
        if name == "flow_series":
            rows = [
                {
                    "time_s": time,
                    "flow": f"flow-{flow}",
                    "cwnd_segments": float(flow),
                    "rtt_s": None if time == 1.0 else 0.1 if time < 5 else 3.0,
                    "throughput_bit_s": flow * 1e5,
                }
                for time in times
                for flow in range(1, self.flows + 1)
            ]
        else:
            rows = [
                {"time_s": time, "link": link, "queue_packets": queue}
                for time in times
                for link, queue in (("bottleneck", 20), ("access", 0))
            ]
        return pl.DataFrame(rows)

    def write_pcapng(self, path: Path, at: str) -> None:
        """There is no trace."""
        raise NotImplementedError


def a_run(flows: int) -> Run:
    record: dict[str, Any] = {
        "seed": 1,
        "fingerprint": "0" * 16,
        "wall_s": 0.1,
        "packet_hops": 1,
        "duration_s": 10.0,
        "totals": {"goodput_bit_s": 1e6},
        "flows": [
            {"name": f"flow-{flow}", "transport": "reno", "goodput_bit_s": flow * 1e5}
            for flow in range(1, flows + 1)
        ],
        "links": [
            {"name": "bottleneck", "avg_queue_packets": 20.0},
            {"name": "access", "avg_queue_packets": 0.1},
        ],
    }
    return Run(record, {"name": "lab"}, "0.1.0", Tables(flows))


def test_few_flows_are_all_in_colour() -> None:
    cwnd, _, throughput, _ = run_panels(a_run(3))
    assert [line.name for line in cwnd.lines] == ["flow-1", "flow-2", "flow-3"]
    assert [line.style for line in cwnd.lines] == [0, 1, 2]
    assert throughput.lines[1].y[0] == pytest.approx(0.2)
    assert throughput.unit == "Mbit/s"


def test_of_many_flows_three_are_in_colour() -> None:
    cwnd = run_panels(a_run(20))[0]
    named = [line.name for line in cwnd.lines if line.style is not None]
    assert named == ["flow-20 (most goodput)", "flow-10 (middle)", "flow-1 (least goodput)"]
    assert sum(line.style is None for line in cwnd.lines) == 17
    assert cwnd.band is None


def test_of_very_many_flows_the_rest_is_a_band() -> None:
    cwnd = run_panels(a_run(203))[0]
    assert len(cwnd.lines) == 3
    assert cwnd.band is not None
    times, low, high = cwnd.band
    assert len(times) == 20
    assert (low[0], high[0]) == (pytest.approx(22, abs=1), pytest.approx(182, abs=1))


def test_links_that_hardly_queue_are_left_out() -> None:
    queue = run_panels(a_run(2))[1]
    assert [line.name for line in queue.lines] == ["bottleneck"]


def test_missing_rtt_is_a_gap_and_a_wide_range_is_logarithmic() -> None:
    rtt = run_panels(a_run(1))[3]
    assert rtt.lines[0].x[:2] == [0.5, 1.0]
    assert rtt.lines[0].y[:2] == [pytest.approx(100.0), None]
    assert rtt.logarithmic
    assert not run_panels(a_run(1))[0].logarithmic


@pytest.mark.parametrize(
    ("wanted_s", "interval_s", "bin_s"),
    [(0.1, 0.1, 0.1), (0.05, 0.1, 0.1), (0.25, 0.1, 0.3), (0.3, 0.1, 0.3)],
)
def test_bins_are_whole_intervals(wanted_s: float, interval_s: float, bin_s: float) -> None:
    assert whole_intervals(wanted_s, interval_s) == pytest.approx(bin_s)


def test_the_same_run_gives_the_same_picture(tmp_path: Path) -> None:
    for ending in ("png", "svg", "pdf"):
        first, second = tmp_path / f"1.{ending}", tmp_path / f"2.{ending}"
        a_run(20).plot(first)
        a_run(20).plot(second)
        assert first.read_bytes() == second.read_bytes()


def test_pictures_are_readable_in_grey(tmp_path: Path) -> None:
    """Lines that differ in colour differ in style too."""
    styles = [str(style) for style in drawing.MATPLOTLIB_DASHES]
    assert len(set(styles)) == len(drawing.COLOURS) == len(set(drawing.PLOTLY_DASHES)) == COLOURED_MAX


def test_a_wrong_ending_is_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    good, bad = tmp_path / "a.png", tmp_path / "a.gif"
    with pytest.raises(lh.ArgumentError) as caught:
        a_run(2).plot(good, bad)
    assert str(caught.value) == f"cannot draw '{bad}': its name must end in .png, .svg, .pdf or .html"
    assert not good.exists()


def handoffs(**more: object) -> lh.Run:
    """Return a run with a warm-up of 1 s, a buffer of 30 packets, and two outages."""
    content = lh.EXAMPLE | {
        "warmup": "1 s",
        "channel": {"handoff": {"count": 2, "outage": "500 ms"}},
        "flows": [{"name": "one", "transport": "vegas"}, {"name": "two", "transport": "bbr"}],
    }
    return lh.run(content | more, series=True)


def test_warm_up_outages_and_room_are_marked() -> None:
    run = handoffs()
    marks = drawing.marks_of(run.scenario, run.seed)
    assert marks.warmup_s == 1.0
    assert [round(end - start, 9) for start, end in marks.outages] == [0.5, 0.5]
    # While the last hops are down, nothing arrives.
    start, end = marks.outages[0]
    down = run.series.filter((pl.col("time_s") > start + 0.2) & (pl.col("time_s") <= end))
    assert down["throughput_bit_s"].sum() == 0
    queue = run_panels(run)[1]
    assert queue.limits["bottleneck"] == 30
    figure = plot.run_figure(run)
    assert figure.axes[-1].get_xlabel() == (
        "time (s); shaded: warm-up, which does not count, outages of links"
    )
    page = plot.run_page(run)
    assert len(page.layout.shapes) >= 3 * 4


def test_marks_need_no_sender_of_the_users_own() -> None:
    """A figure loads no file: the scenario of a saved run may name one that is gone."""
    run = handoffs()
    flows = [flow | {"transport": "gone.py:Mine"} for flow in run.scenario["flows"]]
    assert drawing.marks_of(run.scenario | {"flows": flows}, 1) == drawing.marks_of(run.scenario, 1)
    assert drawing.marks_of({"name": "of another version"}, 1) == drawing.Marks()


def test_marks_need_no_recording() -> None:
    """The file of a recorded link lies beside the scenario, not beside the results."""
    link = {
        "from": "server",
        "to": "phone",
        "delay": "10 ms",
        "queue": {"kind": "drop-tail", "limit": "70 packets"},
    }
    recorded = {"trace": {"kind": "mahimahi", "file": "gone.down"}}
    graph = {"kind": "graph", "nodes": ["server", "phone"]}
    flow = {"source": "server", "sink": "phone", "transport": "reno"}
    scenario = {"duration": "9 s", "warmup": "2 s", "flows": [flow]}
    marks = drawing.marks_of(
        scenario | {"topology": graph | {"links": [link | recorded | {"reverse": recorded}]}}, 1
    )
    assert marks.warmup_s == 2.0
    assert marks.limits["server-phone"] == 70


def test_what_a_sender_holds_for_the_cause_of_losses_is_drawn() -> None:
    """N, C and theta = (N + 1) / (C + 1) of XJTCP; its neighbour counts nothing."""
    bottleneck = {
        "rate": "5 Mbit/s",
        "delay": "20 ms",
        "queue": {"kind": "drop-tail", "limit": "20 packets"},
        "error": {"kind": "bernoulli", "packet_error_rate": 0.005},
    }
    topology = {"kind": "dumbbell", "bottleneck": bottleneck, "access": {"rate": "1 Gbit/s", "delay": "5 ms"}}
    flows = [{"name": law, "transport": law} for law in ("xjtcp", "jtcp")]
    run = lh.run({"duration": "30 s", "topology": topology, "flows": flows}, series=True, trace=True)
    series, windows = run.series, run.windows
    for table in (series, windows):
        assert table.filter(pl.col("flow") == "jtcp")["theta"].is_null().all()
        counts = table.filter(pl.col("flow") == "xjtcp")
        ratio = (counts["channel_signs"] + 1.0) / (counts["congestion_signs"] + 1.0)
        assert counts["theta"].to_list() == pytest.approx(ratio.to_list())
        assert counts["theta"].min() < 1.0 < counts["theta"].max()
    drawn = {panel.title: [line.name for line in panel.lines] for panel in run_panels(run)}
    for title in ("theta, (N + 1) over (C + 1)", "N, signs of a bad channel", "C, signs of congestion"):
        assert drawn[title] == ["xjtcp"], title
    # At a loss they are what the trace has at some decision, and the run's figures say so of all of them.
    counting, other = run.flows.select("^at_losses_.*$").iter_rows(named=True)
    assert set(other.values()) == {None}
    noted = windows.filter(pl.col("flow") == "xjtcp")["theta"].to_list()
    least, greatest = counting["at_losses_theta_least"], counting["at_losses_theta_greatest"]
    assert {least, greatest} <= set(noted)
    assert min(noted) <= least < counting["at_losses_theta_mean"] < greatest <= max(noted)
    assert counting["at_losses_channel_signs_mean"] > 0.0 < counting["at_losses_congestion_signs_mean"]


def test_a_logarithmic_axis_says_so() -> None:
    axes = plot.run_figure(a_run(1)).axes
    assert axes[3].get_ylabel().split() == ["RTT", "(ms,", "logarithmic)"]
    assert axes[0].get_ylabel() == "cwnd (segments)"
    titles = [note.text for note in plot.run_page(a_run(1)).layout.annotations]
    assert "RTT (ms, logarithmic)" in titles


def test_points_without_neighbours_are_drawn() -> None:
    line = Line("x", [1.0, 2.0, 3.0], [None, 7.0, None], 0)
    panel = Panel("RTT", "ms", [line])
    (axes,) = panels_figure([panel, panel], 4.0, "", drawing.Marks()).axes[:1]
    drawn = [one for one in axes.lines if one.get_marker() == "."]
    assert [list(one.get_xdata()) for one in drawn] == [[2.0]]


def test_the_time_before_anything_happens_is_not_drawn() -> None:
    """As while a program starts in a live run; a start within the first moments is."""
    times = [float(second) for second in range(1, 11)]
    for first, begin in ((5.0, 3.8), (0.0, 0.0)):
        line = Line("x", times, [3.0 if time >= first else 0.0 for time in times], 0)
        panel = Panel("throughput", "Mbit/s", [line])
        axes = panels_figure([panel], 10.0, "", drawing.Marks()).axes[0]
        assert axes.get_xlim() == (pytest.approx(begin), 10.0)
        page = panels_page([panel], 10.0, "", drawing.Marks())
        assert page.layout.xaxis.range == (pytest.approx(begin), 10.0)


def test_series_of_papers_are_called_by_words() -> None:
    """Their names are keys of the claims: an axis says what they mean."""
    short = {"thr", "rll", "est", "fr", "retx", "ll", "avg", "pdr", "cv", "owd", "pkts", "cwnd", "jit", "t1"}
    for folder in library.paper_folders():
        for series in library.load_paper(folder).vocabulary.series.values():
            assert not short & set(series.in_words.lower().split()), series.name


def test_the_bottleneck_is_always_drawn() -> None:
    """Even if other links queue more: it is what the scenario calls so."""
    run = a_run(2)
    run.record["links"][0]["avg_queue_packets"] = 0.1
    run.record["links"][1]["avg_queue_packets"] = 20.0
    assert [line.name for line in run_panels(run)[1].lines] == ["bottleneck", "access"]


def figures_of_each_kind() -> Iterator[tuple[str, Figure]]:
    run = lh.run_seeds(lh.EXAMPLE, [1], series=True)[0]
    yield "run", plot.run_figure(run)
    compared = lh.compare(lh.EXAMPLE, ["reno", "vegas"], seeds=[1, 2], series=True)
    yield "comparison", compared.plot().figure
    names = ["WTCP with losses told apart", "halved on hold", "rate of the first estimate", "reno"]
    rows = [
        {"sender": name, "seed": seed, "goodput_bit_s": 1e9 / 7 * (place + 1) + seed}
        for place, name in enumerate(names)
        for seed in (1, 2, 3)
    ]
    yield "study", draw_metric(pl.DataFrame(rows), "goodput_bit_s", "sender")


@pytest.mark.parametrize("home", ["none", "read-only"])
def test_surroundings_change_no_picture(tmp_path: Path, home: str) -> None:
    """Settings of the current folder may be anybody's, and a service may have no home folder to write to."""
    (tmp_path / "matplotlibrc").write_text("figure.facecolor: black\nlines.linewidth: 9\n")
    lh.run_seeds(lh.EXAMPLE, [1], series=True).save(tmp_path / "out")
    environment = {"PATH": os.defpath} if home == "none" else {"PATH": os.defpath, "HOME": "/proc"}
    pictures = []
    for folder in (tmp_path, tmp_path / "out"):
        words = [
            sys.executable,
            "-m",
            "lasthop",
            "plot",
            str(tmp_path / "out"),
            "--out",
            str(tmp_path / "a.png"),
        ]
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        pictures.append((tmp_path / "a.png").read_bytes())
    assert pictures[0] == pictures[1]


def test_labels_of_axes_do_not_touch_their_ticks() -> None:
    for name, figure in figures_of_each_kind():
        figure.draw_without_rendering()
        for axes in figure.axes:
            for axis in (axes.xaxis, axes.yaxis):
                label = axis.label.get_window_extent()
                ticks = [tick.get_window_extent() for tick in axis.get_ticklabels() if tick.get_text()]
                inside = [one for one in ticks if axis.label.get_text() and label.overlaps(one)]
                assert not inside, f"{name}: {axis.label.get_text()}"


def test_a_sender_has_its_colour_in_every_figure() -> None:
    one, other = (
        drawing.styles(["vegas", "reno", "cubic"]),
        drawing.styles(["cubic", "tahoe", "reno", "vegas"]),
    )
    assert {name: other[name] for name in one} == one
    assert len(set(other.values())) == 4
    run = handoffs()
    cwnd = run_panels(run)[0]
    assert [line.style for line in cwnd.lines] == [
        drawing.WELL_KNOWN.index("vegas"),
        drawing.WELL_KNOWN.index("bbr"),
    ]


def test_senders_are_laid_over_each_other(tmp_path: Path) -> None:
    compared = lh.compare(
        lh.EXAMPLE, ["reno", "vegas"], seeds=[1, 2], series=True, metrics=["goodput", "rtt_p99"]
    )
    panels = overlay_panels(tracks_of(compared))
    assert [[line.name for line in panel.lines] for panel in panels] == [["reno", "vegas"]] * 4
    total = compared.series.filter((pl.col("transport") == "vegas") & (pl.col("seed") == 1))
    per_run = total.group_by("time_s").agg(pl.col("throughput_bit_s").sum())["throughput_bit_s"].mean()
    assert per_run is not None
    shown = [value for value in panels[2].lines[1].y if value is not None]
    assert sum(shown) / len(shown) == pytest.approx(float(str(per_run)) / 1e6, rel=0.1)
    compared.save(tmp_path / "out")
    kept = saved.load_comparison(tmp_path / "out")
    assert kept.series.equals(compared.series)
    assert [one.name for one in kept.metrics] == ["goodput_bit_s", "rtt_p99_s"]
    picture = kept.plot(tmp_path / "a.png", tmp_path / "a.html")
    assert len(picture.figure.axes) == 4
    assert picture._repr_png_()[:4] == b"\x89PNG"


def test_saved_runs_are_laid_over_each_other(command: Callable[..., Result], tmp_path: Path) -> None:
    for sender in ("reno", "vegas", "cubic"):
        lh.run_seeds(lh.Scenario(lh.EXAMPLE).replace({"flows.1.transport": sender}), [1], series=True).save(
            tmp_path / sender
        )
    folders = [tmp_path / sender for sender in ("reno", "vegas", "cubic")]
    drawn = command("plot", *folders, "--out", tmp_path / "three.html")
    assert (drawn.exit_code, drawn.stdout) == (0, f"written: {tmp_path / 'three.html'}\n")
    assert all(f'"name":"{sender}"' in (tmp_path / "three.html").read_text() for sender in ("reno", "vegas"))
    again = command("plot", *folders, "--out", tmp_path / "three.html")
    assert again.stdout == f"written: {tmp_path / 'three.html'} (in place of the one before)\n"


def test_notebooks_show_tables_and_figures() -> None:
    runs = lh.run_seeds(lh.EXAMPLE, [1, 2])
    compared = lh.compare(lh.EXAMPLE, ["reno", "vegas"], seeds=[1, 2])
    assert "mean ± 95 % interval" in runs._repr_html_()
    assert "bottleneck" in runs[0]._repr_html_()
    page = compared._repr_html_()
    assert all(metric.label in page for metric in compared.metrics)


#: What a plain `pip install lasthop` lacks.
EXTRAS = ("matplotlib", "numpy", "plotext", "plotly", "polars", "scipy")
REMEDY = "drawing needs the package matplotlib: pip install 'lasthop[plot]'"


def without(packages: Iterable[str], *words: object) -> subprocess.CompletedProcess[str]:
    """Run the command where some packages cannot be imported."""
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({list(packages)}))\n"
        f"sys.argv = {['lasthop', *map(str, words)]}\n"
        "from lasthop.__main__ import main\nmain()"
    )
    python = [sys.executable, "-c", program]
    return subprocess.run(python, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("packages", [EXTRAS, ("matplotlib", "plotly", "plotext")])
def test_the_demo_needs_nothing_for_its_table(packages: tuple[str, ...], tmp_path: Path) -> None:
    done = without(packages, "demo", "--seeds", "1-2", "--out", tmp_path / "demo")
    assert done.returncode == 0, done.stderr
    assert "difference from reno" in done.stdout
    assert done.stdout.count("pip install") == 1
    assert f"no figures: {REMEDY}\ntry next:" in done.stdout


def test_results_come_before_the_remedy(scenario_file: Path, tmp_path: Path) -> None:
    """What was asked for beside the figure is there; that the figure is not is an error, told last."""
    target, out = tmp_path / "x.png", tmp_path / "out"
    words = ["compare", scenario_file, "--transport", "reno,vegas", "--seeds", "1-2", "--plot", target]
    done = without(EXTRAS, *words, "--out", out)
    assert done.returncode == 2
    assert "difference from reno" in done.stdout
    assert done.stderr.endswith(f"written: {out}\nerror: '{target}' is not written: {REMEDY}\n")
    assert (out / "comparison.json").exists()
    assert not target.exists()
    video = Path("scenarios/video.toml").resolve()
    done = without(["matplotlib"], "traffic", video, "--plot", target)
    assert (done.returncode, target.exists()) == (2, False)
    assert "ACF" in done.stdout
    assert done.stderr == f"error: '{target}' is not written: {REMEDY}\n"


def test_figures_alone_are_refused_at_once(scenario_file: Path, tmp_path: Path) -> None:
    done = without(["matplotlib"], "plot", scenario_file, "--out", tmp_path / "x.png")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {REMEDY}\n")
    study = tmp_path / "s.toml"
    study.write_text(
        f'name = "s"\nscenario = "{scenario_file}"\nseeds = "1"\nmetrics = ["goodput_bit_s"]\n',
        encoding="utf-8",
    )
    out = tmp_path / "out"
    assert without(EXTRAS, "study", "run", study, "--out", out).returncode == 0
    done = without(["matplotlib"], "study", "plot", out)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {REMEDY}\n")
    assert not (out / "figures").exists()


def test_a_reproduction_is_judged_without_figures(tmp_path: Path) -> None:
    words = ["reproduce", "003", "--quick", "--html", "--out", tmp_path / "003"]
    done = without(["matplotlib", "plotext", "plotly"], *words)
    assert done.returncode == 0, done.stderr
    assert "holds" in done.stdout
    assert done.stderr.endswith(f"it has no figures: {REMEDY}\nno papers.html without them\n")
    assert "![" not in (tmp_path / "003" / "report.md").read_text(encoding="utf-8")
    assert (tmp_path / "003" / "verdicts.json").exists()


def test_helpers_have_panels_of_their_own() -> None:
    snoop = lh.Scenario.load("scenarios/snoop.toml").replace({"duration": "20 s"})
    run = lh.run(snoop, seed=1, series=True)
    *_, repairs, held = run_panels(run)
    (line,), (cached,) = repairs.lines, held.lines
    assert (line.name, cached.name) == ("snoop, radio", "snoop cached, radio")
    (radio,) = (row for row in run.links.iter_rows(named=True) if row["name"] == "radio")
    counted = sum(radio[f"snoop_repeats_by_{why}"] for why in ("duplicate", "hole", "timer"))
    width_s = line.x[1] - line.x[0]
    assert sum(value for value in line.y if value is not None) * width_s == pytest.approx(counted)
    assert max(value for value in cached.y if value is not None) <= radio["snoop_most_kept"]
    plain = lh.run(snoop.replace({"helpers": []}), seed=1, series=True)
    assert len(run_panels(plain)) == len(run_panels(run)) - 2


def test_what_viewers_have_is_drawn_over_time() -> None:
    """The series add up to the results; who did not stall has no line, and downloads have no panel."""
    video = lh.Scenario.load("scenarios/video.toml").replace({"duration": "20 s", "flows.0.count": 4})
    run = lh.run(video, seed=1, series=True)
    by_flow = run.series.group_by("flow", maintain_order=True).agg(
        pl.col("first_sent_packets", "timely_packets").sum(), pl.col("stall_s").max()
    )
    columns = ("transmitted_packets", "timely_packets", "stall_s")
    assert [row[1:] for row in by_flow.iter_rows()] == list(run.flows.select(columns).iter_rows())
    timely, stall = viewer_panels(run)
    assert len(timely.lines) == 4
    assert 0 < len(stall.lines) == run.flows.filter(pl.col("stalls") > 0).height
    shares = [value for line in timely.lines for value in line.y if value is not None]
    index = run.flows["realtime_index"].mean()
    assert isinstance(index, float)
    assert sum(shares) / len(shares) == pytest.approx(100 * index, rel=0.05)
    # Packets that wait come in bursts: what arrives in time in an interval may be more than was sent in it.
    assert max(shares) <= 100.0


def test_viewers_and_datagrams_are_laid_over_each_other() -> None:
    """An overlay has the panels of a run, with means of flows; what never happens is not drawn."""
    video = lh.Scenario.load("scenarios/video.toml").replace({"duration": "20 s", "flows.0.count": 3})
    compared = lh.compare(video, ["reno", "vegas"], seeds=[1, 2], series=True)
    by_title = {panel.title: panel for panel in overlay_panels(tracks_of(compared))}
    alone = {panel.title.split(",")[0] for panel in run_panels(lh.run(video, seed=1, series=True))}
    assert {title.split(",")[0] for title in by_title} >= alone - {"queue"}
    assert all([line.name for line in panel.lines] == ["reno", "vegas"] for panel in by_title.values())
    stall = by_title["stall time so far"]
    for line in stall.lines:
        ends = [
            run.flows["stall_s"].mean()
            for run in (lh.run(video.replace({"flows.0.transport": line.name}), seed=seed) for seed in (1, 2))
        ]
        assert line.y[-1] == pytest.approx(sum(map(float, map(str, ends))) / 2, abs=0.3), line.name
    hidden = lh.Scenario.load("scenarios/hidden-terminals.toml").replace({"duration": "10 s"})
    runs = [lh.run(hidden, seed=seed, series=True) for seed in (1, 2)]
    panels = overlay_panels([track_of(run, f"seed {run.seed}") for run in runs])
    titles = [panel.title.split(",")[0] for panel in panels]
    assert "one-way delay of datagrams" in titles
    assert "datagrams lost in the network" in titles
    assert not [title for title in titles if "stall" in title or "cwnd" in title or "RTT" in title]


def test_datagrams_have_delay_and_losses() -> None:
    """The series add up to the results, and TCP has no such panels."""
    hidden = lh.Scenario.load("scenarios/hidden-terminals.toml").replace({"warmup": "0 s"})
    run = lh.run(hidden, seed=1, series=True)
    delay, loss = (panel for panel in run_panels(run) if "datagrams" in panel.title)
    assert [line.name for line in delay.lines] == [line.name for line in loss.lines] == ["west", "east"]
    by_flow = run.series.group_by("flow", maintain_order=True).agg(
        pl.col("lost_packets", "arrived_packets").sum(),
        (pl.col("delay_s") * pl.col("arrived_packets")).sum() / pl.col("arrived_packets").sum(),
    )
    for (name, lost, _, mean_s), row in zip(
        by_flow.iter_rows(), run.flows.iter_rows(named=True), strict=True
    ):
        assert name == row["name"]
        assert lost == row["lost_packets"]
        assert mean_s == pytest.approx(row["delay_mean_s"], abs=1e-8)
    shares = [value for line in loss.lines for value in line.y if value is not None]
    assert 0 < max(shares) <= 100
    plain = lh.run(lh.Scenario.load("scenarios/single-flow.toml"), seed=1, series=True)
    assert not [panel for panel in run_panels(plain) if "datagrams" in panel.title]

    demand = lh.Scenario.load("scenarios/train-video.toml")
    demand = demand.replace({"duration": "60 s", "flows.0.traffic.ladder": ["16 Mbit/s"]})
    run = lh.run(demand, seed=1, series=True)
    (stall,) = viewer_panels(run)
    (line,) = stall.lines
    assert line.y[-1] == pytest.approx(run.flows["player_stall_s"][0], abs=run.duration_s / POINTS_MAX)
    assert line.y[-1] > 1

    plain = lh.Scenario.load("scenarios/single-flow.toml").replace({"duration": "5 s"})
    assert viewer_panels(lh.run(plain, seed=1, series=True)) == []


def test_video_is_drawn_over_time() -> None:
    """Of a call there are four panels, which add up to its row; of a player two; of a download none."""
    call = {"kind": "video-call", "model": "rfc8867"}
    base = lh.Scenario.load("scenarios/single-flow.toml").replace({"duration": "20 s", "warmup": "0 s"})
    titles = ["video rate", "frames shown", "frame delay", "video buffer"]

    def panels(run: Run) -> dict[str, Panel]:
        named = {panel.title.split(",")[0]: panel for panel in run_panels(run)}
        return {title: named[title] for title in titles if title in named}

    run = lh.run(base.replace({"flows.0.transport": "gcc", "flows.0.traffic": call}), seed=1, series=True)
    found = panels(run)
    assert list(found) == titles
    (row,) = run.flows.iter_rows(named=True)
    assert run.series["shown_frames"].sum() == row["call_frames"] - row["call_frames_lost"]
    values = [value for value in found["video rate"].lines[0].y if value is not None]
    assert sum(values) / len(values) == pytest.approx(row["call_rate_bit_s"] * 1e-6, rel=0.01)
    player = lh.Scenario.load("scenarios/train-video.toml").replace({"duration": "30 s"})
    assert list(panels(lh.run(player, seed=1, series=True))) == ["video rate", "video buffer"]
    assert panels(lh.run(base, seed=1, series=True)) == {}


def viewer_panels(run: Run) -> list[Panel]:
    return [panel for panel in run_panels(run) if "in time" in panel.title or "stall" in panel.title]


def test_names_are_drawn_as_they_are(
    command: Callable[..., Result], scenario_file: Path, tmp_path: Path
) -> None:
    """Two dollars began a formula and ended in a traceback; letters that the font lacks gave warnings."""
    text = scenario_file.read_text()
    name = r"a $\\bad{ $ 北京"
    assert '"small"' in text
    scenario_file.write_text(text.replace('"small"', f'"{name}"'))
    drawn = tmp_path / "drawn.svg"
    words = ("compare", scenario_file, "--transport", "reno,vegas", "--seeds", "1-2", "--set", "duration=3 s")
    shown = command(*words, "--plot", drawn)
    assert (shown.exit_code, "Glyph" in shown.stderr) == (0, False), shown.stderr
    assert r"a $\bad{ $ 北京" in drawn.read_text()
    shown = command("plot", scenario_file, "--out", tmp_path / "drawn.png")
    assert (shown.exit_code, "Glyph" in shown.stderr) == (0, False), shown.stderr


def test_flows_are_named_where_they_are_first_drawn() -> None:
    """A call has no window, so that the first panel names no flow; another flow may stand in a later one."""
    rate = Panel("throughput", "Mbit/s", [Line("call", [0.0, 1.0], [1.0, 2.0], 0)])
    queue = Panel("queue", "packets", [Line("bottleneck", [0.0, 1.0], [1.0, 2.0], 0)], links=True)
    both = Panel(
        "one-way delay of datagrams of both",
        "ms",
        [Line(name, [0.0, 1.0], [1.0, 2.0], place) for place, name in enumerate(("call", "voice"))],
    )
    figure = panels_figure([queue, rate, both, rate], 1.0, "calls", drawing.Marks())
    legends = [axes.get_legend() for axes in figure.axes]
    named = [legend and [text.get_text() for text in legend.get_texts()] for legend in legends]
    assert named == [["bottleneck"], ["call"], ["voice"], None]
    figure.canvas.draw()
    for axes in figure.axes:
        label = axes.yaxis.label.get_window_extent()
        assert label.height <= axes.get_window_extent().height


def test_tables_in_csv_are_drawn_as_those_in_parquet(command: Callable[..., Result], tmp_path: Path) -> None:
    """An empty column is one of numbers all the same: a call has no window, and no RTT at its start."""
    topology = {
        "kind": "dumbbell",
        "bottleneck": {"rate": "2 Mbit/s", "delay": "20 ms", "queue": "unlimited"},
        "access": {"rate": "100 Mbit/s", "delay": "1 ms"},
    }
    call = {"name": "call", "transport": {"rate": "gcc"}, "traffic": {"kind": "video-call"}}
    runs = lh.run_seeds({"duration": "5 s", "topology": topology, "flows": [call]}, [1, 2], series=True)
    tables = {}
    for table_format in ("parquet", "csv"):
        folder = tmp_path / table_format
        runs.save(folder, table_format=table_format)
        tables[table_format] = saved.load_runs(folder)[1].series
        drawn = command("plot", folder, "--out", tmp_path / f"{table_format}.svg")
        assert drawn.exit_code == 0, drawn.stderr
    assert tables["csv"].schema == tables["parquet"].schema
    assert tables["csv"].equals(tables["parquet"])
