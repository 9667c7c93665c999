"""Series and traces that are written while runs go on are those that are kept in memory."""

from __future__ import annotations

import gc
import json
import tempfile
import time
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lasthop as lh
from lasthop import _native, runner, spool, unfinished

TABLES = ("flow_series", "link_series", "hops", "windows")
READERS = {"parquet": pl.read_parquet, "csv": pl.read_csv, "arrow": pl.read_ipc}


def scenario() -> lh.Scenario:
    return lh.Scenario(lh.EXAMPLE).replace({"duration": "3 s"})


@pytest.mark.parametrize("table_format", ["parquet", "csv", "arrow"])
def test_spooled_results_are_the_same(tmp_path: Path, table_format: str) -> None:
    kept, written = tmp_path / "kept", tmp_path / "written"
    written.mkdir()
    lh.run_seeds(scenario(), [3, 1], series=True, trace=True).save(kept, table_format)
    runs = lh.run_seeds(scenario(), [3, 1], series=True, trace=True, spool=written)
    assert all(run.has_table(name) for run in runs for name in TABLES)
    runs.save(written, table_format)
    for name in TABLES:
        paths = [folder / f"{name}.{table_format}" for folder in (kept, written)]
        if table_format == "csv":
            assert paths[0].read_bytes() == paths[1].read_bytes(), name
            continue
        tables = [READERS[table_format](path) for path in paths]
        assert tables[0].equals(tables[1]), name
        assert tables[1]["seed"].unique(maintain_order=True).to_list() == [3, 1]
    for seed in (1, 3):
        names = [folder / f"capture-{seed}.pcapng" for folder in (kept, written)]
        assert names[0].read_bytes() == names[1].read_bytes()
    del runs
    gc.collect()
    hidden = [path.name for path in written.iterdir() if path.name.startswith(".lasthop-")]
    assert not [name for name in hidden if name.startswith(spool.PREFIX)]
    again = lh.load_runs(written)
    assert again[0].hops.height == lh.load_runs(kept)[0].hops.height


def test_files_say_what_they_are_of(tmp_path: Path) -> None:
    """As those of a table that was in memory: what the run was, and what each column means."""
    kept, written = tmp_path / "kept", tmp_path / "written"
    written.mkdir()
    lh.run_seeds(scenario(), [1, 2], series=True, trace=True).save(kept)
    lh.run_seeds(scenario(), [1, 2], series=True, trace=True, spool=written).save(written)
    for name in TABLES:
        files = [pq.ParquetFile(folder / f"{name}.parquet") for folder in (kept, written)]
        assert files[0].schema_arrow.equals(files[1].schema_arrow, check_metadata=True), name
        said = [{k: v for k, v in file.metadata.metadata.items() if k != b"ARROW:schema"} for file in files]
        assert said[0] == said[1]
        assert json.loads(said[1][b"lasthop.seeds"]) == [1, 2]


def test_rows_are_in_the_order_of_time(tmp_path: Path) -> None:
    run = lh.run_seeds(scenario(), [1], series=True, trace=True, spool=tmp_path)[0]
    assert run.hops["enqueue_ns"].is_sorted()
    assert run.windows["time_ns"].is_sorted()
    assert run.series["time_s"].is_sorted()
    assert run.link_series["time_s"].is_sorted()


def test_tables_can_be_read_without_saving(tmp_path: Path) -> None:
    run = lh.run_seeds(scenario(), [1], trace=True, spool=tmp_path)[0]
    assert run.hops.equals(lh.run(scenario(), seed=1, trace=True).hops)
    assert not run.has_table("flow_series")
    with pytest.raises(lh.ArgumentError, match="this run has no flow series"):
        _ = run.series
    run.write_pcapng(tmp_path / "one.pcapng")
    assert (tmp_path / "one.pcapng").stat().st_size > 1000


def test_a_run_that_ends_early_leaves_nothing(tmp_path: Path) -> None:
    endless = scenario().replace({"duration": "100000 s", "limits": {"events": 200_000}})
    with pytest.raises(lh.RunError, match=r"limits\.events"):
        lh.run_seeds(endless, [1], series=True, trace=True, spool=tmp_path)
    assert not list(tmp_path.iterdir())


def test_what_a_killed_process_left_is_cleared(tmp_path: Path) -> None:
    left = Path(tempfile.mkdtemp(prefix=spool.PREFIX, dir=tmp_path))
    (left / "hops.parquet").write_bytes(b"half")
    unfinished.sweep(tmp_path)
    assert not left.exists()


def test_no_run_begins_while_too_much_waits_to_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers may each have made one more run than there is room for."""
    plan = lh.Scenario(lh.EXAMPLE).plan
    monkeypatch.setattr(runner, "ROWS_HELD_MAX", 1)
    handed: list[int] = []

    def write_slowly(finished: list[runner.Delivery]) -> None:
        handed.extend(one.index for one in finished)
        batches.append(len(finished))
        time.sleep(0.05)

    batches: list[int] = []
    jobs = [runner.Job(plan, seed, trace=True) for seed in range(1, 13)]
    assert not runner.stream_jobs(jobs, write_slowly, workers=2)
    assert sorted(handed) == list(range(12))
    assert max(batches) <= 2


def test_a_trace_can_do_without_the_frames_on_the_air() -> None:
    """Studies keep packets of many runs, and a cell makes ten frames and more of each."""
    plan = lh.Scenario.load("scenarios/wlan.toml").replace({"duration": "3 s"}).plan
    whole = _native.run(plan, 1, trace=True)
    without = _native.run(plan, 1, trace=True, frames=False)
    frames, hops = whole.table("frames"), without.table("hops")
    assert frames is not None
    assert hops is not None
    assert (without.has("frames"), without.table("frames")) == (False, None)
    assert whole.rows_kept - without.rows_kept == pa.table(frames).num_rows > pa.table(hops).num_rows
    assert pa.table(hops).equals(pa.table(whole.table("hops")))
    with pytest.raises(ValueError, match=r"^the run keeps no frames in memory; run it with frames=True$"):
        without.write_pcapng("never.pcapng", "air")
