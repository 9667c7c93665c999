"""What video flows send: `lasthop traffic`, `lasthop.traffic`, and files of frames."""

from __future__ import annotations

import collections
import itertools
import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
import scipy.stats

import lasthop as lh
from lasthop import stats
from lasthop.frames import Traffic

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from typer.testing import Result

VIDEO = {"flows.1.traffic": "mpeg4"}


@pytest.fixture
def video_file(scenario_file: Path) -> Path:
    """Return a scenario whose second flow sends video."""
    scenario_file.write_text(
        scenario_file.read_text() + 'traffic = { kind = "mpeg4", rate = "400 kbit/s" }\n'
    )
    return scenario_file


def test_the_table_shows_every_series(command: Callable[..., Result], video_file: Path) -> None:
    result = command("traffic", video_file, "--frames", "6000", "--seeds", "1-3")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].strip() == ("small  frames of right, 6,000 frames at 25/s, 3 seeds: mean ± 95 % interval")
    assert lines[1].startswith("rate ")
    assert "kbit/s, standard deviation over seconds" in lines[1]
    assert any(line.split() == ["all", "I", "P", "B", "group", "second"] for line in lines)
    assert any(line.split() == ["number", "6,000", "500", "1,500", "4,000", "499", "240"] for line in lines)
    for label in ("mean (kB)", "CoV", "largest/mean", "ACF at 50"):
        assert label in result.stdout


def test_json_holds_every_figure(command: Callable[..., Result], video_file: Path) -> None:
    arguments = ("traffic", video_file, "--frames", "1200", "--seeds", "4,5", "--lags", "12,1")
    result = command(*arguments, "--json")
    assert result.exit_code == 0
    content = json.loads(result.stdout)
    assert content["flow"] == "right"
    assert content["lags"] == [1, 12]
    assert [run["seed"] for run in content["runs"]] == [4, 5]
    means = [run["all"]["mean"] for run in content["runs"]]
    assert content["means"]["all"]["mean"] == pytest.approx(sum(means) / 2)
    assert content["rate_bit_s"] == pytest.approx(content["means"]["all"]["mean"] * 200)
    assert content["rate_variance_bit2_s2"] == pytest.approx(content["rate_sd_bit_s"] ** 2)
    assert content["means"]["I"].keys() >= {"count", "sd", "cov", "min", "max", "acf_1", "acf_12"}
    assert result.stdout == command(*arguments, "--json").stdout, "the same seeds, the same bytes"


@pytest.mark.parametrize("ending", ["png", "html"])
def test_a_plot_is_drawn(
    command: Callable[..., Result], video_file: Path, tmp_path: Path, ending: str
) -> None:
    target = tmp_path / f"video.{ending}"
    result = command("traffic", video_file, "--frames", "600", "--plot", target)
    assert result.exit_code == 0, result.stderr
    assert result.stderr == f"written: {target}\n"
    assert target.stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--flow", "left"], "error: flow 'left' sends no frames: those that do are right\n"),
        (["--flow", "up"], "error: no flow 'up': the scenario has left, right\n"),
        (["--frames", "0"], "error: bad number of frames 0: ask for 1 to 10,000,000\n"),
        (["--lags", "0"], "error: bad lags: give at least one whole number from 1 on\n"),
        (["--lags", "1,x"], "error: bad --lags '1,x': 'x' is not a whole number; write for example 1,2,5\n"),
        (["--seed", "1", "--seeds", "1-2"], "error: --seed and --seeds exclude each other: give one\n"),
        (
            ["--set", "flows.1.traffic=ftp"],
            "error: no flow of 'small' sends frames: this looks at traffic of the kinds mpeg4 and frames\n",
        ),
        (["--plot", "x.gif"], "error: cannot draw 'x.gif': its name must end in .png, .svg, .pdf or .html\n"),
    ],
)
def test_mistakes(
    command: Callable[..., Result], video_file: Path, arguments: list[str], message: str
) -> None:
    result = command("traffic", video_file, *arguments)
    assert (result.exit_code, result.stderr, result.stdout) == (2, message, "")


def test_frames_are_those_of_a_run() -> None:
    """Every packet of a run over UDP belongs to the frames that are shown."""
    scenario = lh.Scenario(lh.EXAMPLE).replace(
        {"flows.0.transport": "udp", "flows.0.traffic": "mpeg4", "duration": "2 s", "flows.0.start": "0 s"}
    )
    run = lh.run(scenario, seed=3, trace=True)
    sent = run.hops.filter((pl.col("flow") == "left") & (pl.col("link") == "source-access-1"))
    per_frame = sent.group_by("enqueue_ns", maintain_order=True).agg(pl.col("payload_bytes").sum())
    video = lh.traffic(scenario, seeds=[3], frames=per_frame.height)
    assert per_frame["payload_bytes"].to_list() == video.frames["bytes"].to_list()
    assert (per_frame["enqueue_ns"] / 1e9).to_list() == pytest.approx(video.frames["time_s"].to_list())


def test_ns2_carries_whole_segments() -> None:
    scenario = lh.Scenario(lh.EXAMPLE).replace(VIDEO | {"tcp.profile": "ns2", "tcp.packet_size": "1000 B"})
    frames = lh.traffic(scenario, frames=1000).frames
    assert ((frames["bytes"] + 999) // 1000 * 1000).to_list() == frames["carried_bytes"].to_list()
    stream = lh.Scenario(lh.EXAMPLE).replace(VIDEO)
    frames = lh.traffic(stream, frames=1000).frames
    assert frames["bytes"].to_list() == frames["carried_bytes"].to_list()


def video_of(sizes: list[int], kinds: list[str], **more: Any) -> Traffic:
    frames = pl.DataFrame(
        {
            "seed": pl.Series([1] * len(sizes), dtype=pl.UInt64),
            "time_s": [number / 2 for number in range(len(sizes))],
            "kind": kinds,
            "bytes": pl.Series(sizes, dtype=pl.UInt64),
        }
    )
    return Traffic("hand", "made", 2.0, frames, **more)


def test_statistics_by_hand() -> None:
    video = video_of([8, 2, 6, 4, 7], ["I", "P", "I", "P", "I"], lags=[1, 3])
    assert video.series == ["all", "I", "P", "group", "second"]
    assert video.values("all", "mean") == [5.4]
    assert video.values("P", "sd") == [1.0]
    assert video.values("P", "cov") == [pytest.approx(1 / 3)]
    assert video.values("group", "count") == [2]
    assert video.values("group", "mean") == [10.0], "8 + 2 and 6 + 4: the last group is not whole"
    assert video.values("group", "acf_1") == [None], "they are all alike"
    assert video.values("second", "count") == [2], "two frames a second; the last second is not whole"
    assert video.values("I", "acf_1") == [pytest.approx((1 * -1 + -1 * 0) / 2)]
    assert video.values("I", "acf_3") == [None], "three values have no lag of three"
    rate = video.rate_bit_s
    assert rate is not None
    assert rate.mean == pytest.approx(5.4 * 16)


def test_without_types_there_are_no_groups() -> None:
    video = video_of([1, 2, 3], ["any"] * 3)
    assert video.series == ["all", "second"]
    assert "frames of made" in repr(video)


def test_a_file_of_frames(tmp_path: Path, command: Callable[..., Result]) -> None:
    (tmp_path / "film.txt").write_text("# a film\n3000\n1000\n2000\n")
    content = lh.EXAMPLE | {
        "flows": [
            {"transport": "udp", "traffic": {"kind": "frames", "file": "film.txt", "repeat": False}},
        ]
    }
    scenario = lh.Scenario(content, folder=tmp_path)
    assert scenario.input_files == [tmp_path / "film.txt"]
    assert lh.traffic(scenario).frames["bytes"].to_list() == [3000, 1000, 2000]
    assert lh.run(scenario.replace({"topology.bottleneck.delay": "1 ms"})).flows["bytes_delivered"][0] > 0
    path = tmp_path / "film.json"
    path.write_text(scenario.to_json())
    assert lh.Scenario.load(path).input_files == [tmp_path / "film.txt"]
    (tmp_path / "film.txt").write_text("3000\nlong\n")
    result = command("traffic", path)
    assert result.exit_code == 2
    assert result.stderr == (
        f'scenario error: no size of a frame: "long"\n  at {tmp_path}/film.txt:2:1\n2 | long\n'
        "  | ^^^^ expected a whole number of bytes\n"
    )


def test_the_engine_has_the_statistics_of_the_model() -> None:
    """As the report sees them: a looser look than the acceptance test of the engine."""
    video = lh.traffic(lh.Scenario(lh.EXAMPLE).replace(VIDEO), seeds=range(1, 11), frames=30_000)
    for kind, mean, cov, first in (
        ("I", 7172, 0.3025, 0.916),
        ("P", 4473, 0.513, 0.926),
        ("B", 3188, 0.577, 0.947),
    ):
        found = {column: stats.mean(video.values(kind, column)) for column in ("mean", "cov", "acf_1")}
        assert found["mean"] == pytest.approx(mean, rel=0.06)
        assert found["cov"] == pytest.approx(cov, rel=0.08)
        assert found["acf_1"] == pytest.approx(first, abs=0.02)


#: Lengths, and their distributions as SciPy has them.
LENGTHS = [
    ({"kind": "exponential", "mean": "50 kB"}, scipy.stats.expon(scale=50e3)),
    ({"kind": "pareto", "mean": "50 kB", "shape": 1.5}, scipy.stats.pareto(1.5, scale=50e3 / 3)),
    ({"kind": "log-normal", "median": "20 kB", "sigma": 1.0}, scipy.stats.lognorm(1.0, scale=20e3)),
]


@pytest.mark.parametrize(("length", "distribution"), LENGTHS, ids=[one["kind"] for one, _ in LENGTHS])
def test_lengths_and_arrivals_by_scipy(length: dict[str, Any], distribution: Any) -> None:
    """Five seeds: lengths and gaps by Kolmogorov and Smirnov, numbers in a second by chi-square."""

    def flows(seed: int, **more: Any) -> tuple[list[float], list[float]]:
        side = {"rate": "1 Gbit/s", "delay": "1 ms"}
        start = {"arrivals": "poisson", "every": "100 ms"}
        traffic = {"kind": "transfer", "size": length}
        content = {
            "duration": "160 s",
            "seed": seed,
            "topology": {"kind": "dumbbell", "bottleneck": side, "access": side},
            "flows": [
                {"name": length["kind"], "transport": "cubic", "traffic": traffic, "start": start} | more
            ],
        }
        rows = lh.run(lh.Scenario(content)).record["flows"]
        begun = [row for row in rows if row["start_s"] is not None]
        return [row["transfer_bytes"] for row in begun], sorted(row["start_s"] for row in begun)

    chances: dict[str, list[float]] = {"lengths": [], "times": [], "gaps": [], "numbers": []}
    for seed in range(1, 6):
        lengths, times = flows(seed)
        chances["lengths"].append(scipy.stats.kstest(lengths, distribution.cdf).pvalue)
        chances["times"].append(scipy.stats.kstest([time / 160 for time in times], "uniform").pvalue)
        # With a number each gap is drawn; the last of them may lie beyond the end.
        _, times = flows(seed, count=1400)
        times = [time for time in times if time < 120]
        gaps = [after - before for before, after in itertools.pairwise([0.0, *times])]
        chances["gaps"].append(scipy.stats.kstest(gaps, scipy.stats.expon(scale=0.1).cdf).pvalue)
        seconds = collections.Counter(int(time) for time in times)
        # Up to 6, 7 to 13 each, and 14 or more: each is expected at least 15 times in 120 s, or some 8.
        seen = collections.Counter(min(max(seconds[second], 6), 14) for second in range(120))
        poisson = scipy.stats.poisson(10)
        expected = [poisson.cdf(6), *(poisson.pmf(number) for number in range(7, 14)), poisson.sf(13)]
        observed = [seen[number] for number in range(6, 15)]
        chances["numbers"].append(scipy.stats.chisquare(observed, [120 * one for one in expected]).pvalue)
    for name, values in chances.items():
        # Fisher: chances of independent samples, taken together.
        assert scipy.stats.combine_pvalues(values).pvalue > 0.001, (name, values)
