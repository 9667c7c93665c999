"""Studies as a user runs them: what is made, resumed and refused."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest
from polars.testing import assert_frame_equal
from tests.python.grid_study import changed, contents, ok, outcome

import lasthop as lh
from lasthop import _native, columns, stats
from lasthop.studies import metrics
from lasthop.studies import store as stores
from lasthop.studies.digest import make_digest
from lasthop.studies.show import digest_tables
from lasthop.tables import render

if TYPE_CHECKING:
    from collections.abc import Callable

    from typer.testing import Result

ROOT = Path(__file__).resolve().parents[2]


def test_every_point_runs_with_every_seed(command: Callable[..., Result], study_file: Path) -> None:
    assert ok(command("study", "run", study_file)).stderr == "results in out/grid: 8 of 8 runs\n"
    table = lh.studies.load("out/grid").table
    assert table.select("loss", "proto", "seed").rows() == [
        (loss, proto, seed) for loss in (0.0, 0.01) for proto in ("reno", "vegas") for seed in (1, 2)
    ]
    assert set(table["state"]) == {"done"}
    overrides = {
        "duration": "2 s",
        "channel.error.packet_error_rate": 0.01,
        "flows.0.transport": "vegas",
    }
    alone = lh.run(lh.Scenario.load("small.toml").replace(overrides), seed=2)
    row = table.row(7, named=True)
    assert row["fingerprint"] == alone.fingerprint
    assert row["goodput_bit_s"] == alone.totals["goodput_bit_s"]
    assert row["engine_version"] == lh.__version__


def test_what_is_there_is_not_made_again(
    command: Callable[..., Result], study_file: Path, made: list[int]
) -> None:
    ok(command("study", "run", study_file))
    assert len(made) == 8
    again = ok(command("study", "run", study_file)).stderr
    assert again == "nothing to do: all 8 runs are there\nresults in out/grid: 8 of 8 runs\n"
    ok(command("study", "run", study_file, "--seeds", "1-3", "--resume"))
    assert made[8:] == [3, 3, 3, 3]
    # Fewer seeds are asked for: nothing is made, and nothing is forgotten.
    fewer = ok(command("study", "run", study_file)).stderr
    assert "the table has 4 further runs, with seeds that were asked for before\n" in fewer
    assert fewer.endswith(
        "results in out/grid: 12 of 12 runs, 4 of them with seeds that the study does not name\n"
    )
    assert len(made) == 12
    assert outcome()["seed"].to_list() == [1, 2, 3] * 4
    ok(command("study", "run", study_file, "--seeds", "4", "--resume"))
    assert outcome()["seed"].to_list() == [4, 1, 2, 3] * 4


def test_a_changed_metric_runs_nothing(
    command: Callable[..., Result], study_file: Path, made: list[int]
) -> None:
    ok(command("study", "run", study_file))
    metrics = (
        'metrics = [{ name = "left", from = "flows", field = "goodput_bit_s", where = "le*", scale = 1e-6 }, '
        '{ name = "queue", from = "links", field = "avg_queue_packets", by = "bottleneck" }, '
        '{ name = "fair", field = "goodput_bit_s", by = "jain" }, "jain_index"]'
    )
    changed(study_file, 'metrics  = ["goodput_bit_s", "timeouts"]', metrics)
    ok(command("study", "run", study_file))
    assert len(made) == 8
    table = outcome()
    assert table["fair"].to_list() == pytest.approx(table["jain_index"].to_list())
    row = table.row(0, named=True)
    alone = lh.run(
        lh.Scenario.load("small.toml").replace({"duration": "2 s", "channel.error.packet_error_rate": 0}),
        seed=1,
    )
    assert row["left"] == alone.flows["goodput_bit_s"][0], "tables hold bit/s, whatever is shown"
    schema = pq.read_schema("out/grid/results.parquet")
    assert schema.field("left").metadata[b"unit"] == b"bit/s"
    assert schema.field("queue").metadata == {
        b"unit": b"packets",
        b"label": b"queue",
        b"help": b"at the bottleneck: time average of the packets waiting, without the one in transmission",
    }
    assert b"unit" not in schema.field("fair").metadata, "Jain's index has no unit"
    shown = render(digest_tables(make_digest(lh.studies.load("out/grid").study, table, metrics=["left"])))
    mean = table.filter(loss=row["loss"], proto=row["proto"])["left"].mean()
    assert f"{mean / 1e6:.2f} ± " in shown
    links = alone.links.filter(pl.col("name") == "bottleneck")
    assert row["queue"] == links["avg_queue_packets"][0]


def test_the_store_is_read_without_lasthop(command: Callable[..., Result], study_file: Path) -> None:
    ok(command("study", "run", study_file))
    for kind, height in (("runs", 8), ("flows", 16), ("links", 8 * 10)):
        files = f"out/grid/{kind}/*.parquet"
        read = pl.read_parquet(files)
        counted = duckdb.sql(f"select count(*), count(distinct run) from '{files}'").fetchall()  # noqa: S608
        assert counted == [(read.height, 8)]
        assert pd.read_parquet(f"out/grid/{kind}").shape == (read.height, read.width)
        assert read.height == height or kind == "links"
    runs = pl.read_parquet("out/grid/runs/*.parquet")
    scenario = json.loads(runs["scenario"][0])
    assert scenario["duration"] == "2 s"
    assert runs["engine_version"].unique().to_list() == [lh.__version__]
    assert {"python_version", "platform", "lasthop_version", "fingerprint", "made"} <= set(runs.columns)
    # The tidy table joins with the flows by the identity of the run.
    joined = duckdb.sql(
        "select r.proto, sum(f.goodput_bit_s) total, min(r.goodput_bit_s) said "
        "from 'out/grid/results.parquet' r join 'out/grid/flows/*.parquet' f using (run) "
        "group by r.proto, r.loss, r.seed"
    ).fetchall()
    assert len(joined) == 8
    assert all(total == pytest.approx(said) for _, total, said in joined)


def test_a_folder_that_was_begun_asks_what_to_do(
    command: Callable[..., Result], study_file: Path, made: list[int]
) -> None:
    ok(command("study", "run", study_file))
    result = command("study", "run", study_file, "--seeds", "1-3")
    assert result.exit_code == 2
    assert result.stderr == (
        "error: 'out/grid' holds 8 of the 12 runs: use --resume to make the 4 missing ones, --fresh to move "
        "the folder aside and begin anew, or another folder with --out\n"
    )
    assert len(made) == 8
    fresh = ok(command("study", "run", study_file, "--fresh", "--seeds", "1-3"))
    assert "'out/grid' is now 'out/grid.old-1'" in fresh.stderr
    assert (outcome().height, outcome("out/grid.old-1").height) == (12, 8)
    assert not list(Path("out/grid.old-1").glob(".lock*"))


def test_a_folder_of_another_study_is_refused(command: Callable[..., Result], study_file: Path) -> None:
    ok(command("study", "run", study_file))
    changed(study_file, '"grid"', '"other"')
    result = command("study", "run", study_file, "--out", "out/grid", "--resume")
    assert result.exit_code == 2
    assert result.stderr == (
        "error: 'out/grid' holds the study 'grid', not 'other': choose another folder with --out\n"
    )


def test_a_folder_of_another_engine_is_refused_and_left_alone(
    command: Callable[..., Result], study_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores.versions.cache_clear()
    with monkeypatch.context() as earlier:
        earlier.setattr(_native, "__version__", "0.0.9")
        ok(command("study", "run", study_file))
    stores.versions.cache_clear()
    before = contents(Path("out"))
    for option in ([], ["--resume"]):
        result = command("study", "run", study_file, *option)
        assert result.exit_code == 2
        assert result.stderr == (
            f"error: 'out/grid' was made by engine 0.0.9, this is {lh.__version__}: their results do not "
            "belong together. Use --fresh, which moves the folder aside, or choose another folder with "
            "--out; nothing was changed\n"
        )
    assert contents(Path("out")) == before
    ok(command("study", "run", study_file, "--fresh"))
    assert outcome("out/grid.old-1")["engine_version"][0] == "0.0.9"
    assert outcome()["engine_version"][0] == lh.__version__


def test_a_failed_run_is_kept_by_name_while_the_others_go_on(
    command: Callable[..., Result], study_file: Path, made: list[int]
) -> None:
    changed(study_file, '{ name = "vegas", set = {', '{ name = "vegas", set = { "limits.events" = 100,')
    result = command("study", "run", study_file)
    assert result.exit_code == 1
    assert "error: 4 of 8 runs failed; --resume tries them again\n" in result.stderr
    assert "  loss=0, proto=vegas, seed 1: the run took " in result.stderr
    table = lh.studies.load("out/grid").table
    assert table["state"].to_list() == ["done", "done", "failed", "failed"] * 2
    assert table.filter(pl.col("state") == "failed")["goodput_bit_s"].null_count() == 4
    assert [failure.settings["proto"] for failure in lh.studies.load("out/grid").failed] == ["vegas"] * 4
    assert command("study", "run", study_file, "--resume").exit_code == 1
    assert len(made) == 12
    with pytest.raises(
        lh.RunError, match=r"proto=vegas, seed \d: the run took \d+ events, and its limit is 100"
    ):
        lh.studies.run(lh.studies.Study.load(study_file), "out/other", keep_going=False)


def test_dry_run_writes_nothing(command: Callable[..., Result], study_file: Path, made: list[int]) -> None:
    result = ok(command("study", "run", study_file, "--dry-run", "--shard", "1/2"))
    assert "points  4 (loss 2 x proto 2)\n" in result.stdout
    assert "runs    8, of which 0 are in out/grid\n" in result.stdout
    assert re.search(r"shard   1/2 has \d of the runs\n", result.stdout)
    assert not Path("out").exists()
    assert made == []


def test_an_axis_that_does_not_exist_is_refused_before_anything_runs(
    command: Callable[..., Result], study_file: Path, made: list[int]
) -> None:
    changed(study_file, "channel.error.packet_error_rate", "channel.eror.packet_error_rate")
    result = command("study", "run", study_file)
    assert result.exit_code == 2
    assert result.stderr.startswith(
        'scenario error: unknown key "eror" in channel\n'
        "  at grid.toml: axes[0].values[0] (channel.eror.packet_error_rate = 0)\n"
        '     did you mean "error"?'
    )
    assert made == []
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shard", "3/2"], "bad --shard '3/2': write i/n with i from 1 to n, for example 1/8"),
        (["--until", "goodput"], "bad --until 'goodput': write a metric and a share, such as \"goodput 2%\""),
        (
            ["--until", "speed 2%"],
            "--until: 'speed' is no metric of the study; its metrics are goodput_bit_s, timeouts",
        ),
        (["--max-seeds", "9"], "--max-seeds limits --until: give both"),
        (["--resume", "--fresh"], "--resume and --fresh exclude each other: give one"),
        (
            ["--shard", "1/2", "--fresh"],
            "--shard and --fresh exclude each other: a shard knows only its own runs",
        ),
        (
            ["--until", "good 2%", "--max-seeds", "1"],
            "--max-seeds 1 is below the 2 seeds of the study: raise it",
        ),
        (["--out", "grid.toml"], "cannot write results in 'grid.toml': it is a file, not a folder"),
        (["--seeds", "2-1"], "bad --seeds '2-1': the range 2-1 runs backwards, write 1-2"),
    ],
)
def test_arguments_are_refused(
    command: Callable[..., Result], study_file: Path, arguments: list[str], message: str
) -> None:
    result = command("study", "run", study_file, *arguments)
    assert (result.exit_code, result.stderr) == (2, f"error: {message}\n")
    assert not Path("out").exists()


def test_a_metric_that_no_run_has_is_named_and_the_runs_are_kept(
    command: Callable[..., Result], study_file: Path, made: list[int]
) -> None:
    changed(study_file, '"timeouts"', '"success_95_percent"')
    result = command("study", "run", study_file)
    assert result.exit_code == 2
    assert "metric 'success_95_percent': no run has 'success_95_percent' in its flows" in result.stderr
    assert outcome()["success_95_percent"].null_count() == 8
    changed(study_file, '"success_95_percent"', '"timeouts"')
    ok(command("study", "run", study_file))
    assert len(made) == 8


def test_until_adds_seeds_point_by_point(
    command: Callable[..., Result], study_file: Path, made: list[int]
) -> None:
    changed(study_file, '"duration" = "2 s"', '"duration" = "20 s"')
    ok(command("study", "run", study_file, "--until", "goodput 2%"))
    table = outcome()
    for (loss, proto), rows in table.group_by("loss", "proto", maintain_order=True):
        assert rows["seed"].to_list() == list(range(1, rows.height + 1)), (loss, proto)
        estimate = stats.estimate(rows["goodput_bit_s"].to_list())
        assert estimate is not None
        assert estimate.half_width is not None
        assert estimate.half_width <= 0.02 * estimate.mean
    heights = table.group_by("loss", "proto").len()["len"]
    assert heights.n_unique() > 1
    assert heights.max() != 100
    count = len(made)
    assert count == table.height
    ok(command("study", "run", study_file, "--until", "goodput 2%"))
    assert len(made) == count
    assert_frame_equal(outcome(), table)
    # What was made for it is never dropped again.
    for words in (
        ["merge", study_file],
        ["run", study_file, "--resume"],
        ["run", study_file, "--seeds", "1-2"],
    ):
        said = ok(command("study", *words)).stderr
        assert f"the table has {count - 8} further runs, with seeds that were asked for before\n" in said
        assert f"results in out/grid: {count} of {count} runs" in said
        assert_frame_equal(outcome(), table)
    ok(command("study", "run", study_file, "--until", "goodput 90%"))
    assert len(made) == count
    assert_frame_equal(outcome(), table)
    planned = ok(command("study", "run", study_file, "--dry-run")).stdout
    assert f"  seeds   2 each, and {count - 8} runs of further seeds\n" in planned
    assert f"  runs    {count}, of which {count} are in out/grid\n" in planned


def test_further_seeds_that_failed_are_tried_again(
    command: Callable[..., Result], study_file: Path, made: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    native_run = _native.run

    def failing(plan: Any, seed: int, **options: Any) -> Any:
        if seed == 3:
            raise _native.RunError("the lights went out")
        return native_run(plan, seed, **options)

    with monkeypatch.context() as dark:
        dark.setattr("lasthop.runner._native.run", failing)
        assert command("study", "run", study_file, "--seeds", "1-3").exit_code == 1
    assert command("study", "merge", study_file).exit_code == 1
    ok(command("study", "run", study_file, "--resume"))
    assert made[8:] == [3] * 4
    assert set(outcome()["state"]) == {"done"}


def test_until_that_is_never_reached_stops_at_its_limit(
    command: Callable[..., Result], study_file: Path
) -> None:
    result = command("study", "run", study_file, "--until", "goodput 0.001%", "--max-seeds", "5")
    assert result.exit_code == 1
    assert re.search(r"error: --until was not reached at \d points\n", result.stderr)
    assert re.search(r"  loss=0.01, proto=reno: ± \S+ % of the mean with 5 seeds\n", result.stderr)
    assert lh.studies.load("out/grid").unmet
    assert outcome().height > 8


def test_many_points_are_shown_at_once(start: Callable[..., subprocess.Popen[str]], study_file: Path) -> None:
    """A hundred points took 2.9 s of CPU once; what is counted is the command, its imports included."""
    changed(study_file, "[0, 0.01]", str([place / 10_000 for place in range(50)]))
    made = start("study", "run", study_file)
    made.communicate(timeout=120)
    assert made.returncode == 0
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = start("study", "show", study_file)
    printed, _ = process.communicate(timeout=120)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert process.returncode == 0
    assert len(printed.splitlines()) > 50
    assert spent.ru_utime + spent.ru_stime - before.ru_utime - before.ru_stime < 2.5


@pytest.mark.parametrize("verb", ["run", "show", "plot", "report", "merge"])
def test_a_scenario_is_no_study_and_a_study_no_scenario(
    command: Callable[..., Result], study_file: Path, verb: str
) -> None:
    result = command("study", verb, "small.toml")
    assert result.exit_code == 2
    assert result.stderr == (
        "study error: it is a scenario, not a study\n  at small.toml\n"
        "     'lasthop run small.toml' runs it; a study names it with scenario = \"small.toml\", and "
        "'lasthop study new' writes one to start from\n"
    )
    result = command("run", study_file)
    assert result.exit_code == 2
    assert result.stderr == (
        "scenario error: it is a study, not a scenario\n  at grid.toml\n"
        "     'lasthop study run grid.toml' runs it\n"
    )


def test_a_study_to_start_from_runs(
    command: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = ok(command("study", "new", "lab")).stdout
    assert printed == "written: lab.toml, lab-scenario.toml\nnext:    lasthop study run lab.toml\n"
    ok(command("study", "run", "lab.toml", "--seeds", "1", "--set", "warmup=1 s"))
    result = command("study", "new", "no/lab")
    assert result.exit_code == 2
    assert result.stderr == (
        "error: cannot write 'no/lab-scenario.toml': the folder 'no' does not exist; make it first\n"
    )
    assert outcome("out/lab").height == 9
    again = command("study", "new", "lab")
    assert again.exit_code == 2
    assert "'lab-scenario.toml' is already there and is not overwritten" in again.stderr


def test_progress_has_lines_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, study_file: Path
) -> None:
    from lasthop import progress

    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
    with progress.shown_progress("runs") as observer:
        lh.studies.run(lh.studies.Study.load(study_file), "out", observer=observer)
    assert re.search(r"^8/8 runs  100 %  0:00 left", capsys.readouterr().err, re.MULTILINE)


def test_nothing_is_left_of_the_environment() -> None:
    """The store names no machine: who reads it elsewhere learns versions, not hosts."""
    assert set(stores.versions()) == {
        "lasthop_version",
        "engine_version",
        "engine_build",
        "python_version",
        "platform",
    }
    assert os.uname().nodename not in stores.versions()["platform"]


def test_the_reference_lists_every_known_metric() -> None:
    page = (ROOT / "docs" / "reference" / "studies.md").read_text(encoding="utf-8")
    names = [
        column.pattern or name
        for source in ("totals", "flows", "links")
        for name, column in columns.declared(source).items()
        if column.is_number
    ]
    assert [name for name in (*names, *metrics.REDUCTIONS) if f"`{name}`" not in page] == []


def test_the_array_job_of_the_documentation_works(study_file: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "run-on-a-cluster.md").read_text(encoding="utf-8")
    script = page.split("```bash\n")[1].split("```")[0].replace("study.toml", str(study_file))
    bash = shutil.which("bash")
    command = f"{sys.executable} -c 'from lasthop.cli import main; main()'"
    script = script.replace("lasthop study", f"{command} study")
    for index in ("1", "2"):
        job = {"SLURM_ARRAY_TASK_ID": index, "SLURM_ARRAY_TASK_COUNT": "2"}
        subprocess.run([str(bash), "-c", script], env=os.environ | job, check=True, capture_output=True)
    merged = lh.studies.run(lh.studies.Study.load(study_file), "results", execute=False)
    assert merged.is_complete
