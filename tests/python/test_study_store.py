"""The store of studies, seen from a reader: what was written in order comes back in order."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import polars as pl

from lasthop.studies.store import Entry, Store

if TYPE_CHECKING:
    from pathlib import Path


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
    series = pl.DataFrame({"link": ["bottleneck"] * 9_000, "time_s": times, "queue_packets": queue})
    store = Store(tmp_path)
    for run in runs:
        store.append([Entry(run, 1, "{}", {}, None, "failed, and kept something", {"queue": series})])
    store.compact()
    for _ in range(5):
        table = Store(tmp_path).table("series/queue", reversed(runs))
        assert table is not None
        assert table.height == 30 * 9_000
        in_order = table.group_by("run").agg(pl.col("time_s").is_sorted())
        assert in_order["time_s"].all()
