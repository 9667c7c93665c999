"""Studies as a user runs them: what is made, kept, resumed and refused."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest
from polars.testing import assert_frame_equal

import lasthop as lh
from lasthop import _native, columns, seals, stats
from lasthop.studies import metrics
from lasthop.studies import store as stores
from lasthop.studies.digest import make_digest
from lasthop.studies.show import digest_tables
from lasthop.studies.store import Store
from lasthop.tables import render

if TYPE_CHECKING:
    from collections.abc import Callable

    from typer.testing import Result

STUDY = """\
name     = "grid"
scenario = "small.toml"
seeds    = "1-2"
metrics  = ["goodput_bit_s", "timeouts"]

[set]
"duration" = "2 s"

[[axes]]
name   = "loss"
key    = "channel.error.packet_error_rate"
values = [0, 0.01]

[[axes]]
name   = "proto"
points = [
  { name = "reno", set = { "flows.0.transport" = "reno" } },
  { name = "vegas", set = { "flows.0.transport" = "vegas" } },
]
"""
ROOT = Path(__file__).resolve().parents[2]
#: Columns that say when and where a run was made, not what came out.
INCIDENTAL = ["wall_s"]


@pytest.fixture
def study_file(scenario_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a study of eight runs, in the current folder."""
    monkeypatch.chdir(scenario_file.parent)
    path = Path("grid.toml")
    path.write_text(STUDY)
    return path


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the seed of every run that is made in this process."""
    seeds: list[int] = []
    native_run = _native.run

    def counting(plan: Any, seed: int, **options: Any) -> Any:
        seeds.append(seed)
        return native_run(plan, seed, **options)

    monkeypatch.setattr("lasthop.runner._native.run", counting)
    return seeds


def outcome(folder: str | Path = "out/grid") -> pl.DataFrame:
    """Return what came out of a study, without what differs from one time to the next."""
    return lh.studies.load(folder).table.drop(INCIDENTAL)


def ok(result: Result) -> Result:
    assert result.exit_code == 0, result.output
    return result


def changed(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


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


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".lock")
    }


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


@pytest.mark.parametrize("kind", ["runs", "flows", "links", "series/*"])
@pytest.mark.parametrize("damage", ["cut", "zeros", "empty"])
def test_a_damaged_file_is_named_and_its_runs_can_be_made_again(
    command: Callable[..., Result], study_file: Path, kind: str, damage: str
) -> None:
    # No metric reads the flows, the links or the series.
    study_file.write_text('keep = [{ table = "link_series", columns = ["time_s"] }]\n' + STUDY)
    changed(study_file, '"timeouts"]', '"jain_index"]')
    ok(command("study", "run", study_file))
    whole = outcome()
    damaged = next(Path("out/grid").glob(f"{kind}/*.parquet"))
    content = damaged.read_bytes()
    damaged.write_bytes({"cut": content[:-100], "zeros": content[:-100] + bytes(100), "empty": b""}[damage])
    before = contents(Path("out/grid"))
    result = command("study", "run", study_file, "--resume")
    assert result.exit_code == 2
    assert f"error: '{damaged}' is damaged (" in result.stderr
    assert "move it away and run the study with --resume, which makes its runs again" in result.stderr
    assert contents(Path("out/grid")) == before
    damaged.rename("away.parquet")
    ok(command("study", "run", study_file, "--resume"))
    assert_frame_equal(outcome(), whole)


def test_all_damaged_files_are_named_at_once(command: Callable[..., Result], study_file: Path) -> None:
    ok(command("study", "run", study_file))
    first, second = (next(Path("out/grid", kind).glob("*.parquet")) for kind in ("flows", "links"))
    for path in (first, second):
        path.write_bytes(b"PAR1")
    result = command("study", "run", study_file, "--resume")
    assert result.exit_code == 2
    assert f"error: '{first}' is damaged (" in result.stderr
    assert result.stderr.endswith(f". Damaged as well: '{second}'\n")


def test_a_merged_part_that_lost_a_file_gives_way_to_what_it_replaced(
    study_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = lh.studies.Study.load(study_file)
    with monkeypatch.context() as dying:
        dying.setattr(Store, "_discard", lambda *_: None)
        lh.studies.run(study, "out", seeds=[1])
        whole = lh.studies.run(study, "out").table
    *_, merged = sorted(Path("out/flows").glob("*.parquet"))
    merged.unlink()
    store = Store(Path("out"))
    assert store.runs().height == 8
    assert len(store.clean()) == 1
    assert store.runs().height == 8
    assert_frame_equal(lh.studies.run(study, "out", execute=False).table, whole)


def test_a_damaged_description_is_named(command: Callable[..., Result], study_file: Path) -> None:
    ok(command("study", "run", study_file))
    Path("out/grid/study.json").write_text("{")
    result = command("study", "run", study_file, "--resume")
    assert result.exit_code == 2
    assert "error: 'out/grid/study.json' is damaged" in result.stderr
    Path("out/grid/study.json").unlink()
    ok(command("study", "run", study_file, "--resume"))


# Processes that die, and processes that meet.


def longer(study_file: Path) -> None:
    """Make the study long enough to be stopped in the middle: three seconds of work or more."""
    changed(study_file, '"duration" = "2 s"', '"duration" = "400 s"')
    changed(study_file, '"1-2"', '"1-15"')


def wait_for_parts(process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 30
    while len(list(Path("out/grid/runs").glob("*.parquet"))) < 2:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_after_a_kill_only_what_was_in_flight_is_made_again(
    start: Callable[..., subprocess.Popen[str]],
    command: Callable[..., Result],
    study_file: Path,
    made: list[int],
) -> None:
    longer(study_file)
    process = start("study", "run", study_file, "--jobs", 1)
    wait_for_parts(process)
    process.kill()
    process.communicate()
    stored = Store(Path("out/grid")).runs().height
    assert 0 < stored < 60
    ok(command("study", "run", study_file, "--resume"))
    assert len(made) == 60 - stored
    ok(command("study", "run", study_file, "--out", "out/whole"))
    assert_frame_equal(outcome(), outcome("out/whole"))
    runs = pl.read_parquet("out/grid/runs/*.parquet")
    assert runs["run"].n_unique() == runs.height == 60
    assert pl.read_parquet("out/grid/flows/*.parquet").height == 120
    assert not Path("out/grid/.unfinished").exists()


def test_ctrl_c_keeps_what_has_finished(
    start: Callable[..., subprocess.Popen[str]], command: Callable[..., Result], study_file: Path
) -> None:
    longer(study_file)
    process = start("study", "run", study_file, "--jobs", 1)
    wait_for_parts(process)
    process.send_signal(signal.SIGINT)
    _, message = process.communicate(timeout=60)
    assert process.returncode == 130, message
    match = re.fullmatch(
        r"interrupted: (\d+) of 60 runs are in out/grid; --resume makes the others\n", message
    )
    assert match is not None, message
    assert outcome().height == int(match[1])
    merged = command("study", "merge", study_file)
    assert merged.exit_code == 1
    missing = 60 - int(match[1])
    assert f"{missing} of 60 runs are missing: 'lasthop study run --resume' makes them" in merged.stderr


def test_an_impatient_ctrl_c_keeps_what_has_finished(
    start: Callable[..., subprocess.Popen[str]], command: Callable[..., Result], study_file: Path
) -> None:
    longer(study_file)
    process = start("study", "run", study_file, "--jobs", 1)
    wait_for_parts(process)
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        time.sleep(0.01)
    _, message = process.communicate(timeout=60)
    # The last one may have come when Python was leaving already.
    assert process.returncode in (130, -signal.SIGINT), message
    assert message.startswith("interrupted")
    assert "Traceback" not in message
    stored = Store(Path("out/grid")).runs().height
    assert stored > 0
    ok(command("study", "run", study_file, "--resume"))
    assert outcome().height == 60


def test_a_second_process_is_refused_and_a_dead_one_blocks_no_other(
    start: Callable[..., subprocess.Popen[str]],
    command: Callable[..., Result],
    study_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lasthop.studies.locks.STARTING_S", 0.2)
    longer(study_file)
    process = start("study", "run", study_file, "--jobs", 1, "--set", "warmup=1 s", "--seeds", "1-500")
    wait_for_parts(process)
    for option in ("--resume", "--fresh", "--shard=1/2"):
        result = command("study", "run", study_file, option)
        assert result.exit_code == 2, result.output
        assert re.search(rf"'out/grid' is in use by process {process.pid} on \S+, since ", result.stderr)
        assert "wait for it, or choose another folder with --out" in result.stderr
    process.kill()
    process.communicate()
    ok(command("study", "run", study_file, "--resume", "--seeds", "1"))


def test_shards_work_in_one_folder_at_once(
    start: Callable[..., subprocess.Popen[str]],
    command: Callable[..., Result],
    study_file: Path,
    made: list[int],
) -> None:
    changed(study_file, '"duration" = "2 s"', '"duration" = "20 s"')
    changed(study_file, '"1-2"', '"1-6"')
    shards = [start("study", "run", study_file, "--shard", f"{index}/3") for index in (1, 2, 3)]
    for shard in shards:
        _, said = shard.communicate(timeout=60)
        assert shard.returncode == 0, said
        assert "after the last shard, 'lasthop study merge' makes the tables" in said
    ok(command("study", "merge", study_file))
    assert made == []
    assert len(list(Path("out/grid/runs").glob("*.parquet"))) == 1
    ok(command("study", "run", study_file, "--out", "out/whole"))
    assert_frame_equal(outcome(), outcome("out/whole"))


def test_a_shard_at_work_is_in_the_way_of_the_whole(
    start: Callable[..., subprocess.Popen[str]], command: Callable[..., Result], study_file: Path
) -> None:
    longer(study_file)
    process = start("study", "run", study_file, "--jobs", 1, "--shard", "1/2")
    wait_for_parts(process)
    for words in (["merge", study_file], ["run", study_file, "--shard", "1/2"]):
        result = command("study", *words)
        assert result.exit_code == 2, result.output
        assert f"'out/grid' is in use by process {process.pid}" in result.stderr
        assert "shard 1/2 is at work there; wait for it" in result.stderr
    process.kill()
    process.communicate()


# Disks that fill up.


def test_a_file_that_may_not_grow_stops_the_study_and_spares_what_is_stored(
    start: Callable[..., subprocess.Popen[str]],
    files_up_to: Callable[[int], Callable[[], None]],
    command: Callable[..., Result],
    study_file: Path,
) -> None:
    ok(command("study", "run", study_file))
    before = outcome()

    process = start("study", "run", study_file, "--seeds", "1-20", "--resume", preexec_fn=files_up_to(4096))
    _, message = process.communicate(timeout=60)
    assert process.returncode == 2, message
    assert "Traceback" not in message
    assert re.search(r"error: cannot write 'out/grid/.*parquet': file too large", message), message
    assert_frame_equal(outcome(), before)
    ok(command("study", "run", study_file, "--resume", "--seeds", "1-3"))


def test_a_full_disk_stops_the_study_and_spares_what_is_stored(
    start: Callable[..., subprocess.Popen[str]], command: Callable[..., Result], study_file: Path
) -> None:
    mount, umount = shutil.which("mount"), shutil.which("umount")
    small = Path("small-disk").absolute()
    small.mkdir()
    words = [str(mount), "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(small)]
    if mount is None or umount is None or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a small disk")
    try:
        folder = small / "grid"
        ok(command("study", "run", study_file, "--out", folder))
        before = outcome(folder)
        process = start("study", "run", study_file, "--seeds", "1-2000", "--resume", "--out", folder)
        _, message = process.communicate(timeout=60)
        assert process.returncode == 2, message
        assert "no space left on device" in message
        assert "What was stored before is whole; make room: 'lasthop study run' goes on with" in message
        assert "Traceback" not in message
        assert_frame_equal(outcome(folder), before)
        (small / "filler").write_bytes(b"")
        with suppress(OSError), (small / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(1024))
        for seeds in ("1-2", "1-3"):
            full = command("study", "run", study_file, "--seeds", seeds, "--resume", "--out", folder)
            assert full.exit_code == 2, full.output
            assert "no space left on device" in full.stderr
            assert (
                "What was stored before is whole; make room: 'lasthop study run' goes on with" in full.stderr
            )
        (small / "filler").unlink()
        assert_frame_equal(outcome(folder), before)
        kept = Store(folder).runs()
        assert kept.height >= 8
        assert set(before["run"]) <= set(kept["run"])
    finally:
        subprocess.run([str(umount), str(small)], check=True)


# More seeds where they are needed.


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


# The store.


def test_parts_are_merged_on_the_way_and_no_run_is_there_twice(
    study_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "MERGE_AT", 3)
    monkeypatch.setattr("lasthop.runner.POLL_INTERVAL_S", 0.001)
    study = lh.studies.Study.load(study_file).with_seeds(range(30))
    result = lh.studies.run(study, "out", jobs=1)
    assert result.table.height == 120
    assert pl.read_parquet("out/runs/*.parquet").height == 120
    assert pl.read_parquet("out/flows/*.parquet").height == 240


def test_a_merge_that_dies_before_it_cleans_up_doubles_nothing(
    study_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = lh.studies.Study.load(study_file)
    with monkeypatch.context() as dying:
        dying.setattr(Store, "_discard", lambda *_: None)
        dying.setattr(stores, "MERGE_AT", 1)
        lh.studies.run(study, "out", jobs=1)
        result = lh.studies.run(study.with_seeds([1, 2, 3]), "out", jobs=1)
    assert len(list(Path("out/runs").glob("*.parquet"))) > 1
    store = Store(Path("out"))
    assert store.runs().height == 12
    flows = store.table("flows", store.runs()["run"])
    assert flows is not None
    assert flows.height == 24
    lh.studies.run(study, "out")
    assert len(list(Path("out/runs").glob("*.parquet"))) == 1
    assert_frame_equal(lh.studies.load("out").table, result.table)


def test_a_part_without_its_runs_is_swept_away(study_file: Path) -> None:
    study = lh.studies.Study.load(study_file)
    whole = lh.studies.run(study, "out").table
    runs = next(Path("out/runs").glob("*.parquet"))
    orphan = Path("out/flows", f"{runs.stem[:-8]}deadbeef.parquet")
    shutil.copy(Path("out/flows") / runs.name, orphan)
    foreign = Path("out/flows/mine.parquet")
    shutil.copy(orphan, foreign)
    assert_frame_equal(lh.studies.load("out").table, whole)
    lh.studies.run(study, "out")
    assert not orphan.exists()
    assert foreign.exists()


def test_series_are_kept_and_made_up_for(study_file: Path, made: list[int]) -> None:
    study = lh.studies.Study.load(study_file)
    before = lh.studies.run(study, "out").table
    keep = (
        'keep = [{ table = "link_series", links = ["bottleneck"], columns = ["time_s", "queue_packets"] }]\n'
    )
    study_file.write_text(keep + STUDY)
    result = lh.studies.run(lh.studies.Study.load(study_file), "out")
    assert len(made) == 16
    assert_frame_equal(result.table.drop(INCIDENTAL), before.drop(INCIDENTAL))
    series = result.series("link_series")
    assert series.columns == ["loss", "proto", "seed", "link", "time_s", "queue_packets"]
    assert series["link"].unique().to_list() == ["bottleneck"]
    assert series.select("loss", "proto", "seed").unique().height == 8
    assert_frame_equal(lh.studies.load("out").series("link_series"), series)
    parts = list(result.series_in_parts("link_series", rows=series.height // 3))
    assert len(parts) > 2
    assert_frame_equal(pl.concat(parts), series)
    (only,) = result.series_in_parts("link_series", ["time_s", "no_such"])
    assert_frame_equal(only, series.drop("link", "queue_packets"))
    lh.studies.run(lh.studies.Study.load(study_file), "out")
    assert len(made) == 16
    assert result.series("flows").height == 16
    with pytest.raises(lh.OutputError, match="the study keeps no 'hops': it keeps flows, links, link_series"):
        result.series("hops")


def test_several_studies_share_a_folder_and_every_run_is_made_once(study_file: Path, made: list[int]) -> None:
    first = lh.studies.Study.load(study_file)
    other = Path("other.toml")
    other.write_text(
        'keep = [{ name = "queue", table = "link_series", columns = ["time_s", "queue_packets"] }]\n'
        + STUDY.replace('"grid"', '"other"')
        .replace("[0, 0.01]", "[0.01, 0.02]")
        .replace("timeouts", "jain_index")
    )
    second = lh.studies.Study.load(other)
    results = lh.studies.run_many([first, second], "out")
    assert len(made) == 12
    assert list(results) == ["grid", "other"]
    assert lh.studies.names_in("out") == ["grid", "other"]
    assert_frame_equal(lh.studies.load("out", "other").table, results["other"].table)
    shared = results["grid"].table.filter(pl.col("loss") == 0.01)["run"]
    assert shared.to_list() == results["other"].table.filter(pl.col("loss") == 0.01)["run"].to_list()
    assert results["other"].series("queue").select("loss", "proto", "seed").unique().height == 8
    with pytest.raises(lh.OutputError, match="'out' holds 2 studies, name one: grid, other"):
        lh.studies.load("out")
    with pytest.raises(lh.OutputError, match="'out' holds no study 'third': it holds grid, other"):
        lh.studies.load("out", "third")
    lh.studies.run_many([second, first], "out")
    assert len(made) == 12


def test_the_title_of_a_scenario_does_not_change_its_runs(study_file: Path, made: list[int]) -> None:
    study = lh.studies.Study.load(study_file)
    lh.studies.run(study, "out")
    changed(Path("small.toml"), '"small"', '"large"')
    lh.studies.run(lh.studies.Study.load(study_file), "out")
    assert len(made) == 8
    changed(Path("small.toml"), '"5 Mbit/s"', '"5.1 Mbit/s"')
    lh.studies.run(lh.studies.Study.load(study_file), "out")
    assert len(made) == 16


def test_a_file_that_the_scenario_reads_belongs_to_the_run(
    command: Callable[..., Result], study_file: Path, made: list[int]
) -> None:
    trace = Path("frames.txt")
    trace.write_text("1000\n2000\n1500\n")
    frames = '{ kind = "frames", file = "frames.txt", frame_rate = 25, repeat = true }'
    changed(study_file, "[set]", f'[set]\n"flows.1.traffic" = {frames}')
    changed(study_file, '"timeouts"', '"realtime_index"')
    ok(command("study", "run", study_file))
    before = outcome()
    assert before["realtime_index"].null_count() == 0
    runs = pl.read_parquet("out/grid/runs/*.parquet")
    assert list(json.loads(runs["inputs"][0])) == ["frames.txt"]
    flows = pl.read_parquet("out/grid/flows/*.parquet").filter(pl.col("name") == "right")
    assert json.loads(flows["realtime_options"][0])["threshold_s"] == 0.1
    trace.write_text("1000\n2000\n1501\n")
    assert command("study", "run", study_file).exit_code == 2
    ok(command("study", "run", study_file, "--resume"))
    assert len(made) == 16
    assert set(outcome()["run"]).isdisjoint(before["run"])


def test_a_scenario_inside_a_study_finds_its_files_beside_the_study(study_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "er"
    folder.mkdir(parents=True)
    (folder / "frames.txt").write_text("1000\n2000\n1500\n")
    traffic = {"kind": "frames", "file": "frames.txt", "frame_rate": 25, "repeat": True}
    with pytest.raises(lh.ScenarioError, match=r"frames\.txt"):
        lh.Scenario.load("small.toml").replace({"flows.0.traffic": traffic})
    content = {"name": "inside", "seeds": "1", "metrics": ["goodput_bit_s"], "scenario": lh.EXAMPLE}
    content["set"] = {"flows.0.traffic": traffic}
    (folder / "inside.json").write_text(json.dumps(content))
    assert lh.studies.run(lh.studies.Study.load(folder / "inside.json"), "out").is_complete


def test_the_hops_of_a_flow_can_be_kept(study_file: Path) -> None:
    study_file.write_text('keep = [{ table = "hops", flows = ["ri*"], columns = ["packet"] }]\n' + STUDY)
    hops = lh.studies.run(lh.studies.Study.load(study_file), "out", seeds=[1]).series("hops")
    assert hops.columns == ["loss", "proto", "seed", "flow", "packet"]
    assert hops["flow"].unique().to_list() == ["right"]


def test_a_merge_of_nothing_makes_no_folder(command: Callable[..., Result], study_file: Path) -> None:
    result = command("study", "merge", study_file)
    assert result.exit_code == 2
    assert result.stderr == (
        "error: nothing to merge: 'out/grid' holds no runs; name the folder of the shards with --out, or "
        "make them with 'lasthop study run'\n"
    )
    assert not Path("out").exists()


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


def test_after_a_kill_show_counts_what_the_folder_holds(
    command: Callable[..., Result], study_file: Path
) -> None:
    """Runs that were stored after the table was last written are there, and not missing."""
    ok(command("study", "run", study_file, "--seeds", "1"))
    table = Path("out/grid/results.parquet")
    described = Path("out/grid/study.json")
    before, said = table.read_bytes(), described.read_bytes()
    ok(command("study", "run", study_file, "--resume"))
    table.write_bytes(before)
    content, _ = seals.checked(said)
    content["runs"]["wanted"], content["study"]["seeds"] = 8, [1, 2]
    described.write_text(seals.sealed(content))
    shown = ok(command("study", "show", "out/grid"))
    assert shown.stderr == (
        "4 of 8 runs are not in the table, of which the folder holds 4: 'lasthop study merge' puts these in, "
        "'lasthop study run --resume' makes the others\n"
    )


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


# What the documentation says.


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
