"""What the figures show, worked out from tables made by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import lasthop as lh
from lasthop import plot
from lasthop.results import Run

if TYPE_CHECKING:
    from pathlib import Path


class Tables:
    """Series of `flows` flows over ten seconds at two intervals a second, and of two links."""

    def __init__(self, flows: int) -> None:
        self.flows = flows

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

    def write_pcapng(self, path: Path) -> None:
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
        "flows": [{"name": f"flow-{flow}", "goodput_bit_s": flow * 1e5} for flow in range(1, flows + 1)],
        "links": [
            {"name": "bottleneck", "avg_queue_packets": 20.0},
            {"name": "access", "avg_queue_packets": 0.1},
        ],
    }
    return Run(record, {"name": "lab"}, "0.1.0", Tables(flows))


def test_few_flows_are_all_in_colour() -> None:
    cwnd, _, throughput, _ = plot.run_panels(a_run(3))
    assert [line.name for line in cwnd.lines] == ["flow-1", "flow-2", "flow-3"]
    assert [line.style for line in cwnd.lines] == [0, 1, 2]
    assert throughput.lines[1].y[0] == pytest.approx(0.2)
    assert throughput.unit == "Mbit/s"


def test_of_many_flows_three_are_in_colour() -> None:
    cwnd = plot.run_panels(a_run(20))[0]
    named = [line.name for line in cwnd.lines if line.style is not None]
    assert named == ["flow-20 (most goodput)", "flow-10 (middle)", "flow-1 (least goodput)"]
    assert sum(line.style is None for line in cwnd.lines) == 17
    assert cwnd.band is None


def test_of_very_many_flows_the_rest_is_a_band() -> None:
    cwnd = plot.run_panels(a_run(203))[0]
    assert len(cwnd.lines) == 3
    assert cwnd.band is not None
    times, low, high = cwnd.band
    assert len(times) == 20
    assert (low[0], high[0]) == (pytest.approx(22, abs=1), pytest.approx(182, abs=1))


def test_links_that_hardly_queue_are_left_out() -> None:
    queue = plot.run_panels(a_run(2))[1]
    assert [line.name for line in queue.lines] == ["bottleneck"]


def test_missing_rtt_is_a_gap_and_a_wide_range_is_logarithmic() -> None:
    rtt = plot.run_panels(a_run(1))[3]
    assert rtt.lines[0].x[:2] == [0.5, 1.0]
    assert rtt.lines[0].y[:2] == [pytest.approx(100.0), None]
    assert rtt.logarithmic
    assert not plot.run_panels(a_run(1))[0].logarithmic


@pytest.mark.parametrize(
    ("wanted_s", "interval_s", "bin_s"),
    [(0.1, 0.1, 0.1), (0.05, 0.1, 0.1), (0.25, 0.1, 0.3), (0.3, 0.1, 0.3)],
)
def test_bins_are_whole_intervals(wanted_s: float, interval_s: float, bin_s: float) -> None:
    assert plot.whole_intervals(wanted_s, interval_s) == pytest.approx(bin_s)


def test_the_same_run_gives_the_same_picture(tmp_path: Path) -> None:
    for ending in ("png", "svg", "pdf"):
        first, second = tmp_path / f"1.{ending}", tmp_path / f"2.{ending}"
        a_run(20).plot(first)
        a_run(20).plot(second)
        assert first.read_bytes() == second.read_bytes()


def test_pictures_are_readable_in_grey(tmp_path: Path) -> None:
    """Lines that differ in colour differ in style too."""
    styles = [str(style) for style in plot.MATPLOTLIB_DASHES]
    assert len(set(styles)) == len(plot.COLOURS) == len(set(plot.PLOTLY_DASHES)) == plot.COLOURED_MAX


def test_a_wrong_ending_is_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    good, bad = tmp_path / "a.png", tmp_path / "a.gif"
    with pytest.raises(lh.ArgumentError) as caught:
        a_run(2).plot(good, bad)
    assert str(caught.value) == f"cannot draw '{bad}': its name must end in .png, .svg, .pdf or .html"
    assert not good.exists()
