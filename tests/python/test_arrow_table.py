"""The tables of results without any further package, held against what other libraries make of them."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from polars.testing import assert_frame_equal

import lasthop as lh
from lasthop._native import ArrowTable
from lasthop.arrow import arrow_of, frame_of
from lasthop.studies.table import REDUCTIONS

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS: list[tuple[str, str, list[Any]]] = [
    ("flag", "Boolean", [True, None, False]),
    ("count", "Int64", [-1, 2, None]),
    ("short", "UInt32", [1, None, 4_294_967_295]),
    ("seed", "UInt64", [1, 18_446_744_073_709_551_615, None]),
    ("figure", "Float64", [0.1, None, 2.5e9]),
    ("name", "String", ['é, "x"', None, "a\nb"]),
    ("kept", "List(String)", [["a", "b"], [], ["c"]]),
]


@pytest.fixture
def table() -> ArrowTable:
    return ArrowTable.from_columns(COLUMNS)


@pytest.fixture
def frame() -> pl.DataFrame:
    types: dict[str, Any] = {
        "flag": pl.Boolean,
        "count": pl.Int64,
        "short": pl.UInt32,
        "seed": pl.UInt64,
        "figure": pl.Float64,
        "name": pl.String,
        "kept": pl.List(pl.String),
    }
    return pl.DataFrame({name: values for name, _, values in COLUMNS}, schema=types)


def test_columns_come_back(table: ArrowTable, frame: pl.DataFrame) -> None:
    assert table.columns == [name for name, _, _ in COLUMNS]
    assert table.types == [kind for _, kind, _ in COLUMNS]
    assert [table[name] for name in table.columns] == [values for _, _, values in COLUMNS]
    assert table.height == 3
    assert_frame_equal(frame_of(table), frame)
    assert_frame_equal(frame_of(arrow_of(frame)), frame)


def test_other_libraries_take_a_table(table: ArrowTable) -> None:
    ours = pa.table(table)
    assert ours.column("name").to_pylist() == COLUMNS[5][2]
    assert duckdb.sql("select count(name) from ours").fetchall() == [(2,)]


def test_parquet_is_what_others_read_and_write(
    table: ArrowTable, frame: pl.DataFrame, tmp_path: Path
) -> None:
    ours, theirs = tmp_path / "ours.parquet", tmp_path / "theirs.parquet"
    ours.write_bytes(table.to_parquet({"figure": {"unit": "s"}}, {"lasthop": "1"}))
    assert_frame_equal(pl.read_parquet(ours), frame)
    assert pl.read_parquet_metadata(ours)["lasthop"] == "1"
    schema = pq.read_schema(ours)
    assert schema.field("figure").metadata == {b"unit": b"s"}
    assert schema.field("name").type == pa.large_string()
    assert pq.read_metadata(ours).row_group(0).column(0).compression == "ZSTD"
    assert ArrowTable.parquet_footer(ours)[0] == 3
    assert ArrowTable.parquet_footer(ours)[1]["lasthop"] == "1"
    frame.write_parquet(theirs)
    assert_frame_equal(frame_of(ArrowTable.read_parquet(theirs)), frame)


def test_parquet_is_read_in_part(tmp_path: Path) -> None:
    path = tmp_path / "some.parquet"
    whole = ArrowTable.from_columns(
        [("run", "String", ["a", "b", "a"]), ("x", "Int64", [1, 2, 3]), ("y", "Int64", [4, 5, 6])]
    )
    path.write_bytes(whole.to_parquet({}, {}))
    part = ArrowTable.read_parquet(path, ["run", "y", "no such column"], {"a"})
    assert (part.columns, part["run"], part["y"]) == (["run", "y"], ["a", "a"], [4, 6])


@pytest.mark.parametrize("content", [b"", b"not parquet at all", b"PAR1" + bytes(40) + b"PAR1"])
def test_damaged_parquet_is_an_error_of_the_system(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "damaged.parquet"
    path.write_bytes(content)
    for read in (ArrowTable.read_parquet, ArrowTable.parquet_footer):
        with pytest.raises(OSError, match=r"."):
            read(path)
    with pytest.raises(FileNotFoundError):
        ArrowTable.read_parquet(tmp_path / "none")


def test_csv_is_that_of_polars(table: ArrowTable, frame: pl.DataFrame) -> None:
    names = [name for name in table.columns if name != "kept"]
    assert table.select(names).to_csv() == frame.select(names).write_csv().encode()


def test_arrow_files_are_what_others_read(table: ArrowTable, frame: pl.DataFrame) -> None:
    assert_frame_equal(pl.read_ipc(io.BytesIO(table.to_ipc())), frame)
    for content in (table.to_ipc(), table.to_ipc(compressed=True)):
        assert_frame_equal(frame_of(ArrowTable.from_ipc(content)), frame)


def test_tables_below_and_beside_each_other(table: ArrowTable) -> None:
    other = ArrowTable.from_columns([("count", "Int64", [7]), ("more", "String", ["x"])])
    together = ArrowTable.concat([table, other])
    assert together.columns == [*table.columns, "more"]
    assert (together["count"], together["more"]) == ([-1, 2, None, 7], [None, None, None, "x"])
    with pytest.raises(TypeError, match=r'column "count" is Int64 in one table and String in another'):
        ArrowTable.concat([table, ArrowTable.from_columns([("count", "String", [])])])
    led = table.led_by("run", "r").led_by("number", 5)
    assert (led.columns[:2], led.types[:2]) == (["number", "run"], ["UInt64", "String"])
    assert led["run"] == ["r", "r", "r"]
    assert together.beside(together.select([]))["more"] == together["more"]
    nothing = ArrowTable.concat([])
    assert (nothing.height, nothing.columns) == (0, [])


def test_rows_are_chosen(table: ArrowTable) -> None:
    # `None` is a row of missing values, also where there is nothing to take from.
    for rows in (table, ArrowTable.concat([table, table])):
        assert rows.take([2, None, 0])["figure"] == [2.5e9, None, 0.1]
        assert rows.take([2, None, 0])["name"] == ["a\nb", None, 'é, "x"']
    empty = table.matching("name", {"absent"})
    assert empty.take([None, None])["kept"] == [None, None]
    assert empty.take([None])["figure"] == [None]
    assert table.matching("name", {"a\nb"})["seed"] == [None]
    assert ArrowTable.concat([table, table]).unique("name") == ['é, "x"', "a\nb"]
    with pytest.raises(KeyError, match='no column "nothing": there are flag, '):
        table["nothing"]


def test_groups_are_reduced_as_polars_does() -> None:
    runs = ["a", "a", "b", "a", "b", "c", "d", "d"]
    values = [0.1, None, 2.0, 0.7, 4.0, None, 0.0, 0.0]
    table = ArrowTable.from_columns([("run", "String", runs), ("x", "Float64", values)])
    groups = table.groups("run", "x")
    assert groups == [("a", [0.1, 0.7]), ("b", [2.0, 4.0]), ("c", []), ("d", [0.0, 0.0])]
    x = pl.col("x")
    theirs = {
        "sum": pl.when(x.count() > 0).then(x.sum()),
        "mean": x.mean(),
        "bottleneck": x.mean(),
        "median": x.median(),
        "min": x.min(),
        "max": x.max(),
        "count": x.count().cast(pl.Float64),
        "jain": pl.when(x.pow(2).sum() > 0).then(x.sum().pow(2) / (x.count() * x.pow(2).sum())),
        "cv": pl.when(x.mean() != 0).then(x.std(ddof=0) / x.mean()),
    }
    percentiles = {"p50": 10.0, "p95": 19.0, "p99": 20.0}
    assert {*theirs, *percentiles} == set(REDUCTIONS)
    for name, value in percentiles.items():
        assert REDUCTIONS[name]([float(rank) for rank in range(20, 0, -1)]) == value, "by nearest rank"
        assert (REDUCTIONS[name]([7.0]), REDUCTIONS[name]([])) == (7.0, None)
    for name, expression in theirs.items():
        found = frame_of(table).group_by("run", maintain_order=True).agg(expression)["x"].to_list()
        for (_, group), value in zip(groups, found, strict=True):
            assert REDUCTIONS[name](group) == (value if value is None else pytest.approx(value, rel=1e-14)), (
                name
            )


def test_a_run_without_polars_and_numpy(tmp_path: Path, scenario_file: Path) -> None:
    """What `pip install lasthop` brings must do for runs, comparisons and studies."""
    study = tmp_path / "study.toml"
    study.write_text(
        f'name = "small"\nscenario = "{scenario_file}"\nseeds = "1-3"\n[set]\nduration = "2 s"\n'
        '[[metrics]]\nname = "goodput_bit_s"\n'
        '[[axes]]\nname = "sender"\nkey = "flows.0.transport"\nvalues = ["reno", "vegas"]\n'
    )
    script = (
        "import sys\n"
        "for name in ('polars', 'numpy', 'scipy', 'matplotlib', 'plotly', 'plotext'):\n"
        "    sys.modules[name] = None\n"
        "from lasthop.__main__ import main\n"
        "main()\n"
    )

    def lasthop(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", script, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)

    short = ("--set", "duration=2 s")
    senders = ("--transport", "reno,vegas", "--seeds", "1-3")
    for arguments in (
        ("run", scenario_file, *short, "--seeds", "1-2", "--series", "--trace", "--out", "run"),
        ("run", scenario_file, *short, "--out", "csv", "--format", "csv"),
        ("run", scenario_file, *short, "--out", "arrow", "--format", "arrow"),
        ("show", "run"),
        ("compare", scenario_file, *short, *senders, "--series", "--out", "compare"),
        ("show", "compare"),
        ("study", "run", study),
        ("study", "run", study, "--until", "goodput 50%", "--resume"),
    ):
        done = lasthop(*arguments)
        assert done.returncode == 0, (arguments, done.stderr)
    assert pl.read_parquet(tmp_path / "run" / "flow_series.parquet")["seed"].unique().len() == 2
    assert pl.read_parquet(tmp_path / "compare" / "differences.parquet").height > 3
    assert lh.studies.load(tmp_path / "out" / "small").done >= 6
    for arguments in (("study", "show", study), ("traffic", scenario_file)):
        done = lasthop(*arguments)
        assert (done.returncode, done.stdout) == (2, ""), arguments
        if arguments[0] == "study":
            assert done.stderr.startswith("error: a data frame needs the package polars: ")
            assert done.stderr.endswith(": pip install 'lasthop[analysis]'\n")
