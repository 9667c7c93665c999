"""The store of studies, seen from a reader: what was written in order comes back in order."""

from __future__ import annotations

import hashlib
import itertools
import os
import sys
from pathlib import Path

import polars as pl
import pytest

from lasthop._native import ArrowTable
from lasthop.errors import OutputError
from lasthop.studies.locks import locked
from lasthop.studies.store import Entry, Store


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_every_file_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forced: list[Path] = []
    force, take = os.fsync, Path.replace

    def forcing(descriptor: int) -> None:
        forced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        force(descriptor)

    def replacing(path: Path, target: Path) -> Path:
        assert forced[-1] == path
        return take(path, target)

    monkeypatch.setattr("lasthop.unfinished.os.fsync", forcing)
    monkeypatch.setattr(Path, "replace", replacing)
    store = Store(tmp_path)
    for run in ("a" * 32, "b" * 32):
        store.append([Entry(run, 1, "{}", {}, None, "failed")])
        assert forced[-1] == tmp_path / "runs"
    store.compact()
    assert forced[-1] == tmp_path / "runs"
    assert store.runs().height == 2


@pytest.mark.parametrize("name", ["runs", ".unfinished"])
def test_a_folder_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    (elsewhere := tmp_path / "elsewhere").mkdir()
    (folder := tmp_path / "study").mkdir()
    (folder / name).symlink_to(elsewhere)
    with pytest.raises(OutputError, match="is a link"):
        Store(folder).append([Entry("a" * 32, 1, "{}", {}, None, "failed")])
    assert not list(elsewhere.iterdir())


def test_the_note_of_a_lock_follows_no_link(tmp_path: Path) -> None:
    """One that another user has put there, to a file of ours; nor does a pipe keep a reader waiting."""
    (mine := tmp_path / "mine").write_text("mine")
    (folder := tmp_path / "study").mkdir()
    (folder / ".lock.json").symlink_to(mine)
    with locked(folder, None):
        assert mine.read_text() == "mine"
    (folder / ".lock.json").unlink(missing_ok=True)
    with locked(folder, None):
        (folder / ".lock.json").unlink()
        os.mkfifo(folder / ".lock.json")
        with pytest.raises(OutputError, match="is in use by another process"), locked(folder, None):
            pass


def test_a_shard_that_ends_leaves_the_place_where_others_write(tmp_path: Path) -> None:
    for tag in ("1of2", "2of2"):
        store = Store(tmp_path, tag)
        store.append([Entry(hashlib.sha256(tag.encode()).hexdigest()[:32], 1, "{}", {}, None, "failed")])
        store.compact()
        assert (tmp_path / ".unfinished").is_dir()
    Store(tmp_path).compact()
    assert not (tmp_path / ".unfinished").exists()


def test_rows_of_a_series_keep_their_order(tmp_path: Path) -> None:
    """A part of several row groups is read on several threads, which may not shuffle a run's rows."""
    runs = [hashlib.sha256(str(number).encode()).hexdigest()[:32] for number in range(30)]
    times = [float(step) for step in range(9_000)]
    queue = [float(step * 7919 % 10_007) for step in range(9_000)]
    series = ArrowTable.from_columns(
        [
            ("link", "String", ["bottleneck"] * 9_000),
            ("time_s", "Float64", times),
            ("queue_packets", "Float64", queue),
        ]
    )
    store = Store(tmp_path)
    for run in runs:
        store.append([Entry(run, 1, "{}", {}, None, "failed, and kept something", {"queue": series})])
    store.compact()
    for _ in range(5):
        table = Store(tmp_path).table("series/queue", reversed(runs))
        assert table is not None
        assert table.height == 30 * 9_000
        in_order = pl.DataFrame(table).group_by("run").agg(pl.col("time_s").is_sorted())
        assert in_order["time_s"].all()


def kept(store: Store, name: str, runs: int, rows: int, first: int = 0) -> None:
    """Store runs one by one, which keep a table if they have rows."""
    table = ArrowTable.from_columns([("time_s", "Float64", [float(row) for row in range(rows)])])
    for number in range(first, first + runs):
        run = hashlib.sha256(f"{name} {number}".encode()).hexdigest()[:32]
        store.append([Entry(run, 1, "{}", {}, None, "failed", {name: table} if rows else {})])


def test_a_merge_holds_a_bounded_number_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lasthop.studies.store.MERGED_ROWS", 100)
    store = Store(tmp_path)
    kept(store, "small", runs=7, rows=30)
    kept(store, "large", runs=2, rows=60)
    store.compact()
    sizes = {
        name: sorted(pl.read_parquet(file).height for file in (tmp_path / "series" / name).glob("*.parquet"))
        for name in ("small", "large")
    }
    assert sizes == {"small": [30, 90, 90], "large": [60, 60]}
    assert Store(tmp_path).runs().height == 9


def test_runs_are_read_together_that_lie_together(tmp_path: Path) -> None:
    """Those without rows count for nothing, and a run is never parted."""
    store = Store(tmp_path)
    kept(store, "queue", runs=3, rows=50)
    kept(store, "nothing", runs=27, rows=0)
    store.compact()
    kept(store, "queue", runs=4, rows=20, first=30)
    runs = store.runs()["run"]
    groups = [sorted(group) for group in store.runs_together("series/queue", runs, 100)]
    rows = [store.table("series/queue", group).height for group in groups]
    assert sorted(itertools.chain(*groups)) == sorted(runs)
    assert rows == [100, 90, 40]
    assert not list(store.runs_together("series/queue", [], 100))
