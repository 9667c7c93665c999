"""Nothing is ever overwritten in silence: folders and files with results are refused, whatever made them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl
import pytest

import lasthop as lh
from lasthop.places import reserved

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from typer.testing import Result

    Command = Callable[..., Result]

SHORT = ("--set", "duration=1 s", "--set", "warmup=0 s")
COMPARE = ("--transport", "reno,vegas", "--seeds", "1-2", *SHORT)
STUDY = """
name     = "grid"
scenario = "small.toml"
seeds    = [1]
metrics  = ["goodput_bit_s"]
set      = { duration = "1 s" }
"""


@pytest.fixture
def study_file(scenario_file: Path) -> Path:
    path = scenario_file.with_name("grid.toml")
    path.write_text(STUDY)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(result: Result, message: str) -> None:
    assert (result.exit_code, result.stderr) == (2, f"error: {message}\n")
    assert result.stdout == ""


def test_a_run_is_not_lost_to_the_next(command: Command, scenario_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "st"
    assert command("run", scenario_file, "--series", "--trace", "--out", out, *SHORT).exit_code == 0
    before = contents(out)
    message = (
        f"'{out}' holds a run of 'small', seed 1, which would be lost: choose another folder, or say --force "
        "(force=True) to replace it"
    )
    refused(command("run", scenario_file, "--seed", "7", "--out", out, *SHORT), message)
    refused(command("compare", scenario_file, "--out", out, *COMPARE), message)
    with pytest.raises(lh.OutputError) as caught:
        lh.run_seeds(lh.EXAMPLE, [7]).save(out)
    assert str(caught.value) == message
    assert contents(out) == before


def test_force_replaces_it_whole(command: Command, scenario_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "st"
    command("run", scenario_file, "--series", "--trace", "--out", out, *SHORT)
    (out / "notes.txt").write_text("mine")
    assert command("compare", scenario_file, "--out", out, "--force", *COMPARE).exit_code == 0
    assert sorted(contents(out)) == ["comparison.json", "differences.parquet", "means.parquet", "notes.txt"]
    refused(
        command("run", scenario_file, "--out", out, *SHORT),
        f"'{out}' holds a comparison of 'small', which would be lost: choose another folder, or say --force "
        "(force=True) to replace it",
    )
    lh.run_seeds(lh.EXAMPLE, [7]).save(out, force=True)
    assert sorted(contents(out)) == ["flows.parquet", "links.parquet", "notes.txt", "result.json"]


def test_a_study_is_never_replaced_or_mixed(command: Command, study_file: Path, tmp_path: Path) -> None:
    out, scenario_file = tmp_path / "st", study_file.with_name("small.toml")
    assert command("study", "run", study_file, "--out", out).exit_code == 0
    before = contents(out)
    message = (
        f"'{out}' holds the study 'grid', and its results would be mixed with others: choose another folder"
    )
    for force in ((), ("--force",)):
        refused(command("run", scenario_file, "--out", out, *SHORT, *force), message)
        refused(command("compare", scenario_file, "--out", out, *COMPARE, *force), message)
    assert contents(out) == before


def test_a_study_does_not_go_where_a_run_is(command: Command, study_file: Path, tmp_path: Path) -> None:
    out, scenario_file = tmp_path / "st", study_file.with_name("small.toml")
    command("run", scenario_file, "--out", out, *SHORT)
    before = contents(out)
    message = (
        f"'{out}' holds a run of 'small', seed 1, and its results would be mixed with others: choose another "
        "folder with --out"
    )
    refused(command("study", "run", study_file, "--out", out), message)
    refused(command("study", "run", study_file, "--out", out, "--fresh"), message)
    refused(command("reproduce", "004", "--out", out), message)
    assert contents(out) == before


def test_tables_of_a_run_that_did_not_end_are_kept(
    command: Command, scenario_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "flows.parquet").write_bytes(b"half a table")
    refused(
        command("run", scenario_file, "--out", tmp_path, *SHORT),
        f"'{tmp_path}' holds tables of an unfinished run, which would be lost: choose another folder, or say "
        "--force (force=True) to replace it",
    )
    assert command("run", scenario_file, "--out", tmp_path, "--force", *SHORT).exit_code == 0


def test_the_second_of_two_writers_is_refused(
    command: Command, start: Callable[..., subprocess.Popen[str]], scenario_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "tw"
    with reserved(out):
        process = start("run", scenario_file, "--out", out)
        printed, message = process.communicate(timeout=60)
        assert (process.returncode, printed) == (2, "")
        assert message.startswith(f"error: '{out}' is in use by process ")
        assert message.endswith(": wait for it, or choose another folder with --out\n")
    assert command("run", scenario_file, "--out", out, *SHORT).exit_code == 0
    assert sorted(contents(out)) == ["flows.parquet", "links.parquet", "result.json"]


def test_files_that_are_there_are_kept(command: Command, scenario_file: Path, tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    target.write_text("mine")
    message = (
        f"'{target}' is already there and would be lost: choose another name, or say --force to replace it"
    )
    refused(command("run", scenario_file, "--json", target, *SHORT), message)
    refused(command("compare", scenario_file, "--json", target, *COMPARE), message)
    video = ("traffic", scenario_file, "--set", "flows.0.traffic=mpeg4", "--frames", "1200", "--json", target)
    refused(command(*video), message)
    assert target.read_text() == "mine"
    assert command("run", scenario_file, "--json", target, "--force", *SHORT).exit_code == 0
    assert json.loads(target.read_text())["scenario"]["name"] == "small"


def test_an_exported_history_is_kept(command: Command, tmp_path: Path) -> None:
    source, known, target = tmp_path / "in.csv", tmp_path / "history.db", tmp_path / "out.csv"
    source.write_text("endpoint,hour,weekday,month,window_segments\nhost,7,1,3,12.5\n")
    imported = command("history", "import", known, source)
    assert imported.exit_code == 0, imported.stderr
    assert command("history", "export", known, target).exit_code == 0
    refused(
        command("history", "export", known, target),
        f"'{target}' is already there and would be lost: choose another name, or say --force to replace it",
    )
    assert command("history", "export", known, target, "--force").exit_code == 0


def test_parquet_says_what_it_is_of(command: Command, scenario_file: Path, tmp_path: Path) -> None:
    command("run", scenario_file, "--seeds", "3,4", "--series", "--out", tmp_path / "run", *SHORT)
    command("compare", scenario_file, "--out", tmp_path / "compare", *COMPARE)
    for path, seeds in (
        (tmp_path / "run" / "flows.parquet", [3, 4]),
        (tmp_path / "run" / "flow_series.parquet", [3, 4]),
        (tmp_path / "compare" / "means.parquet", [1, 2]),
    ):
        about = pl.read_parquet_metadata(path)
        assert json.loads(about["lasthop.scenario"])["name"] == "small"
        assert json.loads(about["lasthop.seeds"]) == seeds
        assert about["lasthop.engine_version"] == lh.__version__
