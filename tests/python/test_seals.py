"""Damage of saved results: of all single flipped bits none is shown as a result.

The gate flips a sample of bits; ``LASTHOP_ALL_BITS=1`` (``make validate``) flips every one, in parts that run
side by side and have a verdict each.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from typing import TYPE_CHECKING

import pytest

import lasthop as lh
from lasthop import saved, seals
from lasthop.bundle import bundle
from lasthop.errors import LasthopError, UncheckedWarning
from lasthop.studies import folder as folders
from lasthop.studies.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ALL = bool(os.environ.get("LASTHOP_ALL_BITS"))
PARTS = 32 if ALL else 1
SAMPLE = 150
SHORT = {**lh.Scenario(lh.EXAMPLE).to_dict(), "duration": "1 s"}


def read_run(folder: Path) -> object:
    runs = lh.load_runs(folder)
    tables = [run.table(name).to_dicts() for run in runs for name in ("flow_series", "link_series")]
    for run in runs:
        for place in run.captured_at:
            run.write_pcapng(folder.parent / "copy.pcapng", place)
    return runs.to_dict(), tables


def read_comparison(folder: Path) -> object:
    comparison = saved.load_comparison(folder)
    return comparison.to_dict(), [
        comparison.table(name).to_dicts() for name in ("flow_series", "link_series")
    ]


def read_study(folder: Path) -> object:
    result = folders.load(folder)
    kept = [result.series(name).to_dicts() for name in ("flows", "links", "flow_series")]
    return result.study.to_dict(), result.rows.to_ipc(), kept, result.unfolded


def make_run(folder: Path, table_format: str = "parquet") -> None:
    lh.run_seeds(SHORT, [1], series=True, trace=True).save(folder, table_format=table_format)


def make_comparison(folder: Path) -> None:
    lh.compare(lh.Scenario(SHORT), ["reno", "vegas"], seeds=[1, 2], series=True).save(folder)


def make_study(folder: Path) -> None:
    content = {
        "name": "small",
        "scenario": SHORT,
        "seeds": "1-2",
        "metrics": ["goodput_bit_s"],
        "keep": [{"table": "flow_series"}],
        "axes": [{"name": "loss", "key": "channel.error.packet_error_rate", "values": [0, 0.01]}],
    }
    lh.studies.run(lh.studies.Study.parse(content), folder)


KINDS: dict[str, tuple[Callable[[Path], None], Callable[[Path], object]]] = {
    "run": (make_run, read_run),
    "run-csv": (lambda folder: make_run(folder, "csv"), read_run),
    "run-arrow": (lambda folder: make_run(folder, "arrow"), read_run),
    "comparison": (make_comparison, read_comparison),
    "study": (make_study, read_study),
}


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("error")
def test_no_flipped_bit_is_shown_as_a_result(tmp_path: Path, kind: str, part: int) -> None:
    make, read = KINDS[kind]
    folder = tmp_path / "saved"
    make(folder)
    read(folder)
    shown = []
    files = [file for file in sorted(folder.rglob("*")) if file.is_file() and file.stat().st_size]
    assert len(files) >= 4
    for file in files:
        whole = file.read_bytes()
        bits = 8 * len(whole)
        chosen = range(part, bits, PARTS) if ALL else _chosen(bits, random.Random(file.name))  # noqa: S311 - a sample
        for bit in chosen:
            broken = bytearray(whole)
            broken[bit // 8] ^= 1 << bit % 8
            file.write_bytes(broken)
            try:
                read(folder)
            except LasthopError as error:
                assert str(file.name) in str(error) or file.stem in str(error)  # noqa: PT017
            else:
                shown.append((file.name, bit))
        file.write_bytes(whole)
    assert not shown
    read(folder)


def _chosen(bits: int, chance: random.Random) -> list[int]:
    """Return a sample that has the ends of the file, where its digest is, in full measure."""
    near_end = range(max(0, bits - 8 * 300), bits)
    return [
        *chance.sample(range(bits), min(bits, SAMPLE)),
        *chance.sample(near_end, min(len(near_end), SAMPLE)),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_saved_without_digests_is_read_with_a_warning(tmp_path: Path, kind: str) -> None:
    make, read = KINDS[kind]
    folder = tmp_path / "saved"
    make(folder)
    shown = read(folder)
    for file in folder.glob("*.json"):
        content = json.loads(file.read_text())
        for key in ("sha256", "files", "format"):
            del content[key]
        file.write_text(json.dumps(content | ({"format": 1} if kind == "study" else {}), indent=1) + "\n")
    with pytest.warns(UncheckedWarning, match="saved by an older lasthop, without checksums"):
        assert repr(read(folder)) == repr(shown)


def test_a_table_of_another_run_is_refused(tmp_path: Path) -> None:
    for seed in (1, 2):
        lh.run_seeds(SHORT, [seed], series=True).save(tmp_path / str(seed))
    shutil.copy(tmp_path / "1" / "flow_series.parquet", tmp_path / "2")
    with pytest.raises(lh.OutputError, match=r"flow_series.parquet' is damaged \(it is not what was written"):
        read_run(tmp_path / "2")


def test_a_table_that_is_gone_is_named(tmp_path: Path) -> None:
    make_run(tmp_path)
    (tmp_path / "flow_series.parquet").unlink()
    with pytest.raises(lh.OutputError, match="flow_series"):
        read_run(tmp_path)


def test_a_study_killed_between_description_and_table_is_read(tmp_path: Path) -> None:
    make_study(tmp_path)
    table = (tmp_path / "results.parquet").read_bytes()
    content, _ = seals.checked((tmp_path / "study.json").read_bytes())
    digests = ["0" * 64, *content["files"]["results.parquet"]]
    (tmp_path / "study.json").write_text(seals.sealed(content | {"files": {"results.parquet": digests}}))
    read_study(tmp_path)
    (tmp_path / "results.parquet").write_bytes(table[:-1] + b"2")
    with pytest.raises(lh.OutputError, match="is damaged"):
        read_study(tmp_path)


@pytest.mark.parametrize("place", ["runs", "flows", "links", "series/*"])
def test_a_damaged_part_of_the_store_is_refused_by_all_that_reads_it(tmp_path: Path, place: str) -> None:
    make_study(tmp_path)
    (file,) = tmp_path.glob(f"{place}/*.parquet")
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 3] ^= 4
    file.write_bytes(raw)
    for act in (lambda: Store(tmp_path).check(series=True), lambda: bundle([tmp_path], tmp_path / "b.zip")):
        with pytest.raises(lh.OutputError, match="is damaged"):
            act()


def test_every_table_of_parquet_is_read_by_others_as_before(tmp_path: Path) -> None:
    import polars as pl

    make_study(tmp_path)
    for file in tmp_path.rglob("*.parquet"):
        assert pl.read_parquet(file).height
