"""What is refused beside scenarios and the arguments of single runs: one exact message, and exit status 2.

`test_bad_input.py` has runs and comparisons, `scenario_errors.md` of the engine's tests has scenarios.
"""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING

import pytest

import lasthop as lh

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from typer.testing import Result


@pytest.fixture
def place(tmp_path: Path, scenario_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a current folder with files of many kinds in it."""
    folder = tmp_path / "place"
    (folder / "folder").mkdir(parents=True)
    monkeypatch.chdir(folder)
    (folder / "small.toml").write_text(scenario_file.read_text())
    (folder / "empty.toml").write_text("")
    (folder / "broken.toml").write_text("[[")
    (folder / "list.json").write_text("[1]")
    (folder / "table.csv").write_text("a,b\n1\n")
    (folder / "latin.toml").write_bytes(b'name = "caf\xe9"')
    (folder / "quotes.csv").write_text('endpoint,hour,weekday,month,window_segments\n"a"b,1,1,1,2\n')
    (folder / "text.db").write_text("not a database")
    for name, table in (("other.db", "t"), ("lacking.db", "windows")):
        with sqlite3.connect(folder / name) as database:
            database.execute(f"create table {table}(x)")
        database.close()
    return folder


REFUSED = [
    ("bundle folder --out x.zip", "error: nothing to bundle: 'folder' is empty"),
    ("bundle nope --out x.zip", "error: nothing to bundle: there is no file or folder 'nope'"),
    ("unbundle small.toml", "error: 'small.toml' is not a bundle, or it is damaged (File is not a zip file)"),
    (
        "compare small.toml --transport reno,vegas --series",
        "error: --series draws and keeps windows over time: say where with --plot or --out",
    ),
    (
        "compare small.toml --transport reno,vegas --baseline cubic",
        "error: baseline 'cubic' is not among the transports reno, vegas",
    ),
    (
        "plot small.toml small.toml",
        "error: several runs are laid over each other by their folders, not by files",
    ),
    (
        "traffic small.toml",
        "error: no flow of 'small' sends frames: this looks at traffic of the kinds mpeg4 and frames",
    ),
    ("metrics zzz", "error: no metric has 'zzz' in its name: 'lasthop metrics' lists all"),
    ("history show folder", "error: 'folder' is a folder, not a path history"),
    (
        "history show text.db",
        (
            "error: 'text.db' is not a path history, or it is damaged: file is not a database; delete "
            "it, or name another "
            "file in [history]"
        ),
    ),
    (
        "history show other.db",
        "error: 'other.db' is a database, but not a path history: it has no table 'windows'",
    ),
    (
        "history show lacking.db",
        (
            "error: 'lacking.db' is a database, but not a path history: its table 'windows' lacks id, "
            "endpoint, hour, "
            "weekday, month, window_segments"
        ),
    ),
    (
        "history import h.db table.csv",
        (
            "error: 'table.csv' has the columns a, b; expected endpoint, hour, weekday, month, "
            "window_segments, week"
        ),
    ),
    ("new a/b", "error: cannot write 'a/b.toml': the folder 'a' does not exist; make it first"),
    (
        "study run folder",
        "study error: it is a folder, not a study file\n  at folder\n     name a .toml or .json file",
    ),
    (
        "study run small.toml",
        (
            "study error: it is a scenario, not a study\n  at small.toml\n     'lasthop run "
            "small.toml' runs it; a study "
            "names it with scenario = \"small.toml\", and 'lasthop study new' writes one to start from"
        ),
    ),
    ("study run empty.toml", 'study error: missing key "name"\n  at empty.toml\n     add name = …'),
    (
        "study run broken.toml",
        (
            "study error: not valid TOML: unquoted keys cannot be empty, expected letters, numbers, "
            "`-`, `_`\n"
            "  at broken.toml:1:3\n"
            "1 | [[\n"
            "  |   ^ correct the file at this place"
        ),
    ),
    (
        "study run list.json",
        'study error: it holds no table\n  at list.json\n     start with {"name": …}',
    ),
    (
        "study run nope.toml",
        (
            "study error: there is no such file\n  at nope.toml\n     check the path; 'lasthop "
            "study new' writes a "
            "study to start from"
        ),
    ),
    (
        "study show folder",
        (
            "error: no study at 'folder': it has no study.json; 'lasthop study run FILE --out DIR' "
            "makes such "
            "a folder"
        ),
    ),
    (
        "show folder",
        "error: no run at 'folder': it has no result.json; 'lasthop run FILE --out DIR' makes such a folder",
    ),
    (
        "compare small.toml",
        "error: nothing to compare: give --transport reno,vegas, or --helpers none,snoop",
    ),
    (
        "compare small.toml --transport reno,vegas --at left",
        "error: at says where helpers stand: name them with helpers (--helpers)",
    ),
    (
        "compare small.toml --helpers none,snop",
        "error: unknown helper 'snop': did you mean 'snoop'? 'lasthop helpers' lists them",
    ),
    (
        "compare small.toml --transport reno,vegas --format latex",
        (
            "error: unknown table format 'latex': use one of parquet, csv, arrow; --table latex prints "
            "one for a paper"
        ),
    ),
    ("reproduce all --figure 3", "error: --figure needs one paper: each has figures of its own"),
    (
        "reproduce 04",
        (
            "error: unknown paper '04': did you mean '004'? there are 000-local-error-control, "
            "001-tcp-variants-ecn-snoop, 002-cross-layer-jitter-tcp, 003-wireless-santa-cruz-tcp, "
            "004-real-time-qos, or all; or name a folder with a claims.toml"
        ),
    ),
    ("emulate", "error: no scenario: give a FILE, or --clean"),
    (
        "emulate small.toml --beside sink-1 -- true",
        "error: --beside sink-1: give NODE=COMMAND, such as server='iperf3 -s'",
    ),
    (
        "emulate small.toml --host x -- true",
        "error: no host 'x': the hosts of this scenario are source-1, source-2, sink-1, sink-2",
    ),
    (
        "parity small.toml --kernel hybla",
        (
            "error: no counterpart of 'hybla' in a simulation: bbr, cubic, dctcp, reno, vegas, veno, "
            "westwood have one"
        ),
    ),
    (
        "plot folder folder --model mathis",
        "error: --model is drawn over a single run: give one folder of a run, or a scenario file",
    ),
    (
        "study new a+b",
        "error: a study cannot be called 'a+b': use letters, digits, '-', '_' and '.'",
    ),
    (
        "history import h.db quotes.csv",
        "error: 'quotes.csv' is not valid CSV: ',' expected after '\"'",
    ),
    (
        "run latin.toml",
        (
            "scenario error: this is not a text file: byte 11 is not UTF-8\n  at latin.toml\n"
            "     a scenario is TOML text in UTF-8"
        ),
    ),
    ("study run latin.toml", "study error: it cannot be read: it is not text in utf-8\n  at latin.toml"),
]


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("arguments", "message"), REFUSED, ids=[line for line, _ in REFUSED])
def test_commands(command: Callable[..., Result], arguments: str, message: str) -> None:
    result = command(*arguments.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == message + "\n"


CALLS: list[tuple[str, Callable[[], object], str]] = [
    ("no runs", lambda: lh.Runs([]), "no runs given: at least one is needed"),
    ("no seeds", lambda: lh.run_seeds(lh.EXAMPLE, []), "no seeds given: at least one is needed"),
    (
        "a seed in words",
        lambda: lh.run(lh.EXAMPLE, seed="x"),  # type: ignore[arg-type]
        "bad seed 'x': a seed is a whole number from 0 to 2^64-1",
    ),
    (
        "no series",
        lambda: lh.compare(lh.EXAMPLE, ["reno", "vegas"], seeds=[1]).table("flow_series"),
        "this comparison has no series: compare with --series (series=True in Python)",
    ),
]


@pytest.mark.parametrize(("call", "message"), [case[1:] for case in CALLS], ids=[case[0] for case in CALLS])
def test_calls(call: Callable[[], object], message: str) -> None:
    with pytest.raises(lh.ArgumentError) as caught:
        call()
    assert str(caught.value) == message


@pytest.mark.parametrize("name", ["result.json", "flows.parquet"])
def test_pipes_of_others_are_not_waited_for(
    command: Callable[..., Result], scenario_file: Path, tmp_path: Path, name: str
) -> None:
    """A pipe in a folder of results: whatever read it waited without end."""
    run = tmp_path / "run"
    assert command("run", scenario_file, "--set", "duration=3 s", "--out", run).exit_code == 0
    (run / name).unlink()
    os.mkfifo(run / name)
    refused = command("show", run)
    assert refused.exit_code == 2
    assert "it is a pipe, not a file" in refused.stderr


@pytest.mark.parametrize("table", ["runs", "flows", "links"])
def test_pipes_in_a_study_are_not_waited_for(
    command: Callable[..., Result], scenario_file: Path, tmp_path: Path, table: str
) -> None:
    """A pipe in place of a part of a study: no command that reads the study waits for a writer."""
    file, study = tmp_path / "study.toml", tmp_path / "results"
    file.write_text(
        f'name = "study"\nscenario = "{scenario_file.name}"\nseeds = "1"\nmetrics = ["goodput_bit_s"]\n'
        '[[axes]]\nname = "duration"\nkey = "duration"\nvalues = ["2 s", "3 s"]\n'
    )
    done = command("study", "run", file, "--out", study)
    assert done.exit_code == 0, done.stderr
    (part,) = (study / table).glob("*.parquet")
    part.unlink()
    os.mkfifo(part)
    for words in (
        ("study", "show", study),
        ("study", "plot", study, "--out", tmp_path / "plots"),
        ("study", "report", study, "--out", tmp_path / "report.html"),
        ("study", "run", file, "--out", study),
        ("study", "merge", file, "--out", study),
        ("bundle", study, "--out", tmp_path / "study.zip"),
    ):
        refused = command(*words)
        assert refused.exit_code == 2, words
        assert "it is a pipe, not a file" in refused.stderr, words
