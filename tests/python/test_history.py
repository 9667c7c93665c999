"""The history of paths: the file between commands, its commands, two writers, a writer that is killed."""

from __future__ import annotations

import functools
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lasthop as lh
from lasthop import history
from lasthop.errors import ArgumentError, OutputError
from lasthop.history import Entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from typer.testing import Result

SCENARIO = """\
duration = "20 s"

[history]
clock = "2024-03-04T09:00"
file  = "paths.sqlite"

[topology]
kind  = "graph"
nodes = ["phone", "server"]

[[topology.links]]
from  = "phone"
to    = "server"
rate  = "5 Mbit/s"
delay = "20 ms"
queue = { kind = "drop-tail", limit = "30 packets" }

[[flows]]
source    = "phone"
sink      = "server"
transport = "wsc"
"""

ENTRIES = [
    Entry("server", 9, 0, 3, 20.0),
    Entry("server", 9, 0, 3, 30.5),
    Entry("server", 10, 6, 12, 1.0),
    Entry('a, "quoted" name', 0, 3, 1, 123.456789),
]


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """Return a scenario with a history in a folder of its own."""
    (tmp_path / "lab").mkdir()
    path = tmp_path / "lab" / "lab.toml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a history with four windows."""
    path = tmp_path / "paths.sqlite"
    history.add(path, ENTRIES)
    return path


@pytest.fixture
def refused(refused: Callable[..., str]) -> Callable[..., str]:
    """Return that of all tests, for a command of `lasthop history`."""
    return functools.partial(refused, "history")


def samples(runs: lh.Runs) -> list[int]:
    return runs.flows["history_samples"].to_list()


def fingerprints(runs: lh.Runs) -> list[str]:
    return [run.fingerprint for run in runs]


# Runs


def test_runs_learn_from_earlier_commands_and_not_from_each_other(lab: Path) -> None:
    scenario = lh.Scenario.load(lab)
    assert scenario.history_file == lab.parent / "paths.sqlite"
    first = lh.run_seeds(scenario, [1, 2, 3], jobs=1)
    assert samples(first) == [0, 0, 0]
    known = history.read(lab.parent / "paths.sqlite")
    assert [(*entry[:4],) for entry in known] == [("server", 9, 0, 3)] * 3
    assert all(5 < entry.window_segments < 60 for entry in known)
    second = lh.run_seeds(scenario, [1, 2, 3], jobs=3)
    assert samples(second) == [3, 3, 3]
    assert fingerprints(first) != fingerprints(second)
    assert len(history.read(lab.parent / "paths.sqlite")) == 6


def test_a_run_is_a_function_of_scenario_seed_and_snapshot(lab: Path) -> None:
    scenario = lh.Scenario.load(lab)
    lh.run_seeds(scenario, [1, 2, 3])
    one = lh.run_seeds(scenario, [5, 6], learn=False)
    other = lh.run_seeds(scenario, [6, 5], learn=False)
    assert fingerprints(one) == fingerprints(other)[::-1]
    assert len(history.read(lab.parent / "paths.sqlite")) == 3


def test_a_comparison_reads_and_does_not_write(lab: Path) -> None:
    scenario = lh.Scenario.load(lab)
    lh.run_seeds(scenario, [1, 2, 3])
    result = lh.compare(scenario, ["newreno", "wsc"], seeds=[1, 2])
    assert [run["flows"][0]["history_samples"] for run in result.runs["wsc"]] == [3, 3]
    assert [run["flows"][0]["history_samples"] for run in result.runs["newreno"]] == [0, 0]
    assert len(history.read(lab.parent / "paths.sqlite")) == 3


def test_a_plain_run_shows_nothing_of_it(scenario_file: Path) -> None:
    run = lh.run(lh.Scenario.load(scenario_file))
    assert "history" not in run.record
    assert "history_samples" not in run.flows.columns


def test_without_a_file_a_run_still_shows_what_it_learnt(lab: Path) -> None:
    content = lh.Scenario.load(lab).to_dict()
    del content["history"]["file"]
    run = lh.run(lh.Scenario(content))
    assert [row["endpoint"] for row in run.record["history"]] == ["server"]
    assert list(lab.parent.iterdir()) == [lab]


def test_a_damaged_history_is_refused_before_anything_runs(command: Callable[..., Result], lab: Path) -> None:
    target = lab.parent / "paths.sqlite"
    target.write_text("no database, but long enough to have been one" * 20)
    result = command("run", lab)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == (
        f"error: '{target}' is not a path history, or it is damaged: file is not a database; "
        "delete it, or name another file in [history]\n"
    )


def test_a_folder_that_does_not_exist_is_refused_before_anything_runs(
    command: Callable[..., Result], lab: Path
) -> None:
    result = command("run", lab, "--set", "history.file=nowhere/paths.sqlite")
    assert result.exit_code == 2
    where = lab.parent / "nowhere"
    assert result.stderr == (
        f"error: cannot write '{where / 'paths.sqlite'}': the folder '{where}' does not exist\n"
    )


def test_results_are_delivered_even_if_the_history_cannot_be_kept(
    command: Callable[..., Result], lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OutputError("the disk is full")

    monkeypatch.setattr(history, "add", fail)
    result = command("run", lab)
    assert result.exit_code == 1
    assert "goodput" in result.stdout
    assert result.stderr == "error: the runs are complete, but their history was not kept: the disk is full\n"


# The file


def test_only_the_newest_of_each_key_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "paths.sqlite"
    rows = [Entry("server", 9, 0, 3, 1.0 + number) for number in range(40)]
    history.add(path, rows[:20])
    history.add(path, [*rows[20:], Entry("server", 10, 0, 3, 5.0)])
    windows = [entry.window_segments for entry in history.read(path) if entry.hour == 9]
    assert windows == [1.0 + number for number in range(8, 40)]
    assert len(history.read(path)) == 33


def test_an_empty_file_is_an_empty_history(command: Callable[..., Result], lab: Path) -> None:
    """A writer that is killed before its first commit leaves one."""
    path = lab.parent / "paths.sqlite"
    path.touch()
    assert "0 windows" in command("history", "show", path).stdout
    assert history.clear(path) == 0
    assert samples(lh.run_seeds(lh.Scenario.load(lab), [1])) == [0]
    assert len(history.read(path)) == 1


WRITER = """
import sys
from lasthop import history
from lasthop.history import Entry
path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
for number in range(count):
    history.add(path, [Entry(name, hour, number % 7, 1 + number // 7, 10.0 + number) for hour in range(24)])
print("done", flush=True)
"""


def writer(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", WRITER, str(path), name, str(count)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "paths.sqlite"
    writers = [writer(path, name, 30) for name in ("one", "two")]
    for process in writers:
        _, stderr = process.communicate(timeout=120)
        assert process.returncode == 0, stderr
    known = history.read(path)
    for name in ("one", "two"):
        assert sum(entry.endpoint == name for entry in known) == 30 * 24


def test_two_commands_at_once_both_add(start: Callable[..., subprocess.Popen[str]], lab: Path) -> None:
    commands = [start("run", lab, "--seeds", seeds, "--json", "-") for seeds in ("1-4", "5-8")]
    for process in commands:
        _, stderr = process.communicate(timeout=120)
        assert process.returncode == 0, stderr
    assert len(history.read(lab.parent / "paths.sqlite")) == 8


def test_a_writer_that_is_killed_leaves_whole_transactions(tmp_path: Path) -> None:
    path = tmp_path / "paths.sqlite"
    known = 0
    for round_number in range(8):
        process = writer(path, f"host {round_number}", 80)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.01 + 0.02 * round_number)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
        if not path.exists():
            continue
        entries = history.read(path)
        assert len(entries) % 24 == 0, "a transaction is whole or not there at all"
        assert len(entries) >= known
        known = len(entries)
    history.add(path, ENTRIES)
    assert len(history.read(path)) == known + 4
    check = sqlite3.connect(path)
    assert check.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    check.close()


def test_a_history_without_weeks_gets_them(tmp_path: Path) -> None:
    """Files of before weeks were noted are read, and get the column when something is added."""
    path = tmp_path / "paths.sqlite"
    history.add(path, ENTRIES)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP INDEX windows_by_week")
        connection.execute("ALTER TABLE windows DROP COLUMN week")
    assert history.read(path) == ENTRIES
    new = Entry("server", 9, 0, 3, 40.0, week=10)
    history.add(path, [new])
    assert history.read(path) == [*ENTRIES, new]
    text = history.dump([*ENTRIES, new], "csv")
    assert history.parse(text, "csv", "a.csv") == [*ENTRIES, new]


def test_a_transaction_that_was_cut_is_rolled_back(tmp_path: Path) -> None:
    """The process dies between its insertions and the commit, with the pages already in the file."""
    path = tmp_path / "paths.sqlite"
    history.add(path, ENTRIES)
    script = (
        "import os, signal, sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.execute('PRAGMA cache_size = 1')\n"
        "connection.execute('BEGIN IMMEDIATE')\n"
        "rows = [(f'host {n}', 0, 0, 1, 5.0) for n in range(5000)]\n"
        "connection.executemany('INSERT INTO windows (endpoint, hour, weekday, month, window_segments) "
        "VALUES (?, ?, ?, ?, ?)', rows)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    process = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert process.returncode == -signal.SIGKILL
    assert Path(f"{path}-journal").exists(), "the file was being written"
    assert history.read(path) == ENTRIES


def test_a_writer_waits_and_then_gives_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "paths.sqlite"
    history.add(path, ENTRIES)
    monkeypatch.setattr(history, "BUSY_TIMEOUT_S", 0.2)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(OutputError, match=r"another process has held it for 0\.2 s; try again"):
        history.add(path, ENTRIES)
    other.execute("ROLLBACK")
    other.close()
    history.add(path, ENTRIES)


# Commands


def test_show(command: Callable[..., Result], file: Path) -> None:
    result = command("history", "show", file)
    assert result.exit_code == 0, result.stderr
    assert "4 windows" in result.stdout
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["server", "3", "–", "Mon", "09", "2", "25.2", "20.0", "30.5"] in rows
    assert ["server", "12", "–", "Sun", "10", "1", "1.0", "1.0", "1.0"] in rows


@pytest.mark.parametrize("ending", ["csv", "json", "CSV"])
def test_what_is_exported_is_imported_unchanged(
    command: Callable[..., Result], file: Path, tmp_path: Path, ending: str
) -> None:
    target, copy = tmp_path / f"all.{ending}", tmp_path / "copy.sqlite"
    assert command("history", "export", file, target).exit_code == 0
    result = command("history", "import", copy, target)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == f"imported: 4 windows into {copy}\n"
    assert history.read(copy) == ENTRIES


def test_clear_needs_a_word(command: Callable[..., Result], refused: Callable[..., str], file: Path) -> None:
    assert (
        refused("clear", file) == f"error: clear would delete all 4 windows of '{file}': say so with --yes\n"
    )
    assert len(history.read(file)) == 4
    result = command("history", "clear", file, "--yes")
    assert (result.exit_code, result.stdout) == (0, f"deleted: 4 windows of {file}\n")
    assert history.read(file) == []
    assert "0 windows" in command("history", "show", file).stdout


@pytest.mark.parametrize(("answer", "left"), [("y\n", 0), ("n\n", 4)])
def test_clear_asks_at_a_terminal(file: Path, answer: str, left: int) -> None:
    import pty

    controller, terminal = pty.openpty()
    words = [sys.executable, "-c", "from lasthop.cli import main; main()", "history", "clear", str(file)]
    process = subprocess.Popen(
        words, stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    os.close(terminal)
    os.write(controller, answer.encode())
    stdout, stderr = process.communicate(timeout=60)
    os.close(controller)
    assert "Delete all 4 windows" in stdout + stderr
    assert process.returncode == (0 if left == 0 else 1)
    assert len(history.read(file)) == left


@pytest.mark.parametrize("name", ["show", "clear", "export"])
def test_a_missing_history(refused: Callable[..., str], tmp_path: Path, name: str) -> None:
    missing = tmp_path / "missing.sqlite"
    more = [tmp_path / "all.csv"] if name == "export" else []
    assert refused(name, missing, *more) == (
        f"error: no path history at '{missing}': there is no such file; "
        "runs with [history] file = ... make one\n"
    )
    assert not missing.exists()


def bad_files(tmp_path: Path) -> dict[str, tuple[Path, str]]:
    folder = tmp_path / "folder"
    folder.mkdir()
    text = tmp_path / "text.sqlite"
    text.write_text("hello " * 1000)
    other = tmp_path / "other.sqlite"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE cats (name TEXT)")
    connection.close()
    columns = tmp_path / "columns.sqlite"
    connection = sqlite3.connect(columns)
    connection.execute("CREATE TABLE windows (id INTEGER, endpoint TEXT, size INTEGER)")
    connection.close()
    rows = tmp_path / "rows.sqlite"
    connection = sqlite3.connect(rows)
    connection.execute("CREATE TABLE windows (id, endpoint, hour, weekday, month, window_segments)")
    connection.execute("INSERT INTO windows VALUES (1, 'server', 25, 0, 1, 5)")
    connection.commit()
    connection.close()
    corrupt = tmp_path / "corrupt.sqlite"
    history.add(corrupt, [Entry(f"host {number}", 1, 1, 1, 5.0) for number in range(2000)])
    content = bytearray(corrupt.read_bytes())
    # The header stays whole; most pages do not.
    content[4096:] = b"\x5a" * (len(content) - 4096)
    corrupt.write_bytes(content)
    return {
        "folder": (folder, "is a folder, not a path history"),
        "text": (text, "is not a path history, or it is damaged: file is not a database"),
        "other": (other, "is a database, but not a path history: it has no table 'windows'"),
        "columns": (
            columns,
            "is a database, but not a path history: its table 'windows' lacks hour, weekday, month",
        ),
        "rows": (rows, "row 1: hour is 25; expected a whole number from 0 to 23"),
        "corrupt": (corrupt, "is not a path history, or it is damaged: database disk image is malformed"),
    }


@pytest.mark.parametrize("kind", ["folder", "text", "other", "columns", "rows", "corrupt"])
def test_files_that_are_no_history(refused: Callable[..., str], tmp_path: Path, kind: str) -> None:
    path, message = bad_files(tmp_path)[kind]
    before = path.read_bytes() if path.is_file() else b""
    for arguments in (["show", path], ["clear", path, "--yes"], ["export", path, tmp_path / "all.csv"]):
        stderr = refused(*arguments)
        assert stderr.startswith(f"error: '{path}'")
        assert message in stderr
    if path.is_file():
        assert path.read_bytes() == before


@pytest.mark.parametrize("kind", ["folder", "text", "other", "columns"])
def test_nothing_is_imported_into_what_is_no_history(
    refused: Callable[..., str], tmp_path: Path, kind: str
) -> None:
    path, message = bad_files(tmp_path)[kind]
    source = tmp_path / "all.csv"
    source.write_text(history.dump(ENTRIES, "csv"))
    assert message in refused("import", path, source)


HEAD = "endpoint,hour,weekday,month,window_segments\n"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "", "'{}' has the columns none; expected endpoint, hour, weekday, month, window_segments"),
        (
            "a.csv",
            "host,hour\na,1\n",
            "'{}' has the columns host, hour; expected endpoint, hour, weekday, month, window_segments",
        ),
        ("a.csv", HEAD + "a,24,0,1,5\n", "'{}', line 2: hour is '24'; expected a whole number from 0 to 23"),
        (
            "a.csv",
            HEAD + "a,1.5,0,1,5\n",
            "'{}', line 2: hour is '1.5'; expected a whole number from 0 to 23",
        ),
        ("a.csv", HEAD + "a,1,7,1,5\n", "'{}', line 2: weekday is '7'; expected a whole number from 0 to 6"),
        ("a.csv", HEAD + "a,1,0,0,5\n", "'{}', line 2: month is '0'; expected a whole number from 1 to 12"),
        (
            "a.csv",
            HEAD + "a,1,0,1,nan\n",
            "'{}', line 2: window_segments is 'nan'; expected a number of segments, at least 1",
        ),
        (
            "a.csv",
            HEAD + "a,1,0,1\n",
            "'{}', line 2: window_segments is None; expected a number of segments, at least 1",
        ),
        ("a.csv", HEAD + ",1,0,1,5\n", "'{}', line 2: endpoint is ''; expected the name of a node"),
        ("a.json", "{", "'{}' is not valid JSON: "),
        ("a.json", "{}", "'{}' holds no list of rows; 'lasthop history export' writes one"),
        ("a.json", "[1]", "'{}', row 1: it is no object with the keys endpoint, hour, weekday, month"),
        ("a.json", '[{"endpoint": "a"}]', "'{}', row 1, has the columns endpoint; expected endpoint, hour"),
        (
            "a.json",
            json.dumps([ENTRIES[0]._asdict() | {"hour": True}]),
            "'{}', row 1: hour is True; expected a whole number from 0 to 23",
        ),
        (
            "a.json",
            json.dumps([ENTRIES[0]._asdict() | {"window_segments": 10**400}]),
            "'{}', row 1: window_segments is 1000",
        ),
        (
            "a.json",
            json.dumps([ENTRIES[0]._asdict() | {"endpoint": "a" * 10**6}]),
            f"'{{}}', row 1: endpoint is '{'a' * 59}...; expected the name of a node",
        ),
        ("a.txt", HEAD, "'{}' ends neither in .csv nor in .json: the ending chooses the format"),
    ],
)
def test_files_that_cannot_be_imported(
    refused: Callable[..., str], tmp_path: Path, name: str, text: str, message: str
) -> None:
    source, target = tmp_path / name, tmp_path / "paths.sqlite"
    source.write_text(text)
    assert refused("import", target, source).startswith("error: " + message.format(source))
    assert not target.exists(), "all rows are checked before any is added"


def test_sources_and_targets_that_do_not_work(
    refused: Callable[..., str], file: Path, tmp_path: Path
) -> None:
    missing = tmp_path / "missing.csv"
    assert refused("import", file, missing) == f"error: cannot read '{missing}': no such file or directory\n"
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00")
    assert refused("import", file, binary) == f"error: cannot read '{binary}': it is not text in UTF-8\n"
    nowhere = tmp_path / "nowhere" / "all.csv"
    assert refused("export", file, nowhere) == (
        f"error: cannot write '{nowhere}': the folder '{nowhere.parent}' does not exist\n"
    )
    with pytest.raises(ArgumentError):
        history.format_of("a.parquet")


def test_a_database_with_programs_in_it_is_no_history(refused: Callable[..., str], tmp_path: Path) -> None:
    """A view without end and a trigger are never asked."""
    file = tmp_path / "view.db"
    history.add(file, [history.Entry("server", 9, 0, 3, 21.5)])
    for text in (
        "CREATE TRIGGER more AFTER DELETE ON windows BEGIN DELETE FROM windows; END",
        "DROP TABLE windows",
        (
            "CREATE VIEW windows AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
            "SELECT i AS id, 'a' AS endpoint, 1 AS hour, 1 AS weekday, 1 AS month, 1.0 AS window_segments "
            "FROM n"
        ),
    ):
        with closing(sqlite3.connect(file)) as connection:
            connection.execute(text)
            connection.commit()
        if not text.startswith("DROP"):
            for words in (("show", file), ("clear", file, "--yes")):
                assert "is no path history of ours" in refused(*words)


def test_a_file_keeps_no_history_elsewhere_unasked(lab: Path, tmp_path: Path) -> None:
    """Outside of its folder: with trust, or where the user says so."""
    folder = tmp_path / "foreign"
    folder.mkdir()
    copy = folder / lab.name
    for target in (tmp_path / "elsewhere.db", Path("..", "elsewhere.db")):
        copy.write_text(lab.read_text().replace("paths.sqlite", str(target)))
        with pytest.raises(lh.TrustError, match="outside of its folder"):
            lh.run(lh.Scenario.load(copy), seed=1)
        assert not (tmp_path / "elsewhere.db").exists()
    lh.run(lh.Scenario.load(copy, trust=True), seed=1)
    assert (tmp_path / "elsewhere.db").exists()
    asked = lh.Scenario.load(copy).replace({"history.file": str(tmp_path / "asked.db")})
    lh.run(asked, seed=1)
    assert (tmp_path / "asked.db").exists()
