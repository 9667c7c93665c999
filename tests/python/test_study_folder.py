"""The folder of a study: what is kept in it, merged and shared, and what a damaged file costs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from tests.python.grid_study import INCIDENTAL, STUDY, changed, contents, ok, outcome

import lasthop as lh
from lasthop.studies import store as stores
from lasthop.studies.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from typer.testing import Result


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
