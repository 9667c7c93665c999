"""What the command meets outside of its files: closed streams, odd names, endless files, idle browsers."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lasthop as lh
from lasthop import history, view
from lasthop.studies import Study

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typer.testing import Result

LASTHOP = f"{sys.executable} -m lasthop"
#: A name that is not UTF-8.
ODD = os.fsdecode(b"a\xff b")
#: For reading what has no end; an idle machine needs 0.3 s.
REFUSED_S = 10.0
MEMORY = 600_000_000


def shell(line: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(  # noqa: S602 - redirections are what is tested
        line.replace("LASTHOP", LASTHOP),
        shell=True,
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        timeout=100,
        check=False,
    )


@pytest.fixture
def small(scenario_file: Path) -> Path:
    text = scenario_file.read_text()
    small = scenario_file.with_name("small.toml")
    small.write_text(text)
    return small


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_closed_streams_stop_no_run(small: Path, closed: str) -> None:
    done = shell(f"LASTHOP run small.toml --out out {closed}", small.parent)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    assert lh.load_runs(small.parent / "out").seeds
    # Nothing that was to be printed has gone into a file that took the stream's place.
    assert not [file for file in (small.parent / "out").iterdir() if b"results in" in file.read_bytes()]
    if closed == "2>&-":
        assert b"fingerprint" in done.stdout


@pytest.mark.parametrize("command", ["study --help", "--help", "--version", "run small.toml", "doctor"])
def test_a_full_standard_output_is_one_line(small: Path, command: str) -> None:
    done = shell(f"LASTHOP {command} > /dev/full", small.parent)
    lines = done.stderr.decode().splitlines()
    assert lines[-1] == "error: cannot use standard output: no space left on device"
    assert (done.returncode, "Traceback" in done.stderr.decode()) == (2, False)


@pytest.mark.parametrize("columns", ["0", "00", ""])
def test_a_width_of_nothing_shows_the_results(small: Path, columns: str) -> None:
    done = shell("LASTHOP run small.toml", small.parent, COLUMNS=columns)
    assert b"goodput" in done.stdout
    assert done.stdout == shell("LASTHOP run small.toml --seed 1", small.parent, COLUMNS="110").stdout or (
        b"fingerprint" in done.stdout
    )


def test_names_that_are_not_utf8_are_names(small: Path) -> None:
    folder = small.parent
    small.rename(folder / f"{ODD}.toml")
    for line in (
        "run {0}.toml --out {0}-out --series --trace",
        "show {0}-out",
        "plot {0}-out --out {0}.png",
        "compare {0}.toml --transport reno,vegas --seeds 1-2 --out {0}-both",
        "show {0}-both",
        "traffic {0}.toml",
        "script {0}.toml",
        "new {0}-new",
        "bundle {0}.toml --out {0}.zip",
        "history show {0}.db",
    ):
        done = subprocess.run(
            [*LASTHOP.split(), *(word.format(ODD) for word in line.split(" "))],
            cwd=folder,
            capture_output=True,
            check=False,
        )
        assert b"Traceback" not in done.stderr, (line, done.stderr.decode(errors="replace"))
    assert lh.load_runs(folder / f"{ODD}-out").seeds
    assert (folder / f"{ODD}.png").exists()


def test_letters_need_no_locale(small: Path) -> None:
    (small.parent / "é.toml").write_text(small.read_text())
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = shell("LASTHOP run é.toml --out é", small.parent, **plain)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    assert (small.parent / "é" / "result.json").exists()


def test_a_zero_byte_in_a_name_is_refused(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text('name = "x"\nscenario = "a\\u0000b"\nseeds = [1]\nmetrics = ["goodput_bit_s"]\n')
    with pytest.raises(lh.LasthopError):
        Study.load(study)
    with pytest.raises(lh.LasthopError):
        Study.load("a\0b")
    with pytest.raises(lh.LasthopError):
        lh.Scenario.load("a\0b")
    with pytest.raises(lh.OutputError, match="zero byte"):
        history.add("a\0b", [])
    named = {**lh.Scenario(lh.EXAMPLE).to_dict(), "history": {"file": "a\0b", "clock": "2026-01-01 00:00"}}
    with pytest.raises(lh.LasthopError):
        lh.run(lh.Scenario(named))
    with pytest.raises(lh.LasthopError):
        lh.Scenario(lh.EXAMPLE).replace({"flows.0.transport": "a\0b.py:Mine"})


ENDLESS = [
    "run {}",
    "study run {}",
    "study show {}",
    "compare {} --transport reno,vegas",
    "script {}",
    "traffic {}",
]


def limited() -> None:
    """Limit the memory and the time of a command that would read without end."""
    resource.setrlimit(resource.RLIMIT_AS, (8 * MEMORY, 8 * MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (100, 100))


@pytest.mark.parametrize("command", [*ENDLESS, "run - < {}", "history import h.db {} --format csv"])
@pytest.mark.parametrize("file", ["/dev/zero", "big.toml"])
def test_files_without_end_are_refused_at_once(tmp_path: Path, command: str, file: str) -> None:
    with (tmp_path / "big.toml").open("wb") as big:
        big.truncate(3 << 30)
    with (tmp_path / "said").open("wb") as said:
        running = subprocess.Popen(
            ["/bin/sh", "-c", f"{LASTHOP} {command.format(file)}"],
            cwd=tmp_path,
            stdout=said,
            stderr=said,
            preexec_fn=limited,  # noqa: PLW1509 - a fork: to a vfork the system adds the memory of its parent
        )
    # The memory of this command alone, not the most that any test before it took.
    _, status, used = os.wait4(running.pid, 0)
    running.returncode = os.waitstatus_to_exitcode(status)
    text = (tmp_path / "said").read_text()
    assert (running.returncode, "Traceback" in text) == (2, False), text
    assert used.ru_utime + used.ru_stime < REFUSED_S
    # What a process held before it became this command counts as its own.
    inherited = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert used.ru_maxrss * 1024 < max(MEMORY, inherited + 1)


@pytest.mark.parametrize("command", ["show", "plot", "study show"])
def test_results_without_end_are_refused_at_once(tmp_path: Path, command: str) -> None:
    """Holes take no disk, and would take all memory."""
    for name in ("result.json", "study.json"):
        with (tmp_path / name).open("wb") as big:
            big.truncate(3 << 30)
    told = subprocess.run(
        ["/bin/sh", "-c", f"{LASTHOP} {command} {tmp_path}"],
        capture_output=True,
        text=True,
        preexec_fn=limited,
        check=False,
    )
    assert (told.returncode, "Traceback" in told.stderr) == (2, False), told.stderr
    assert "more than 1073741824 bytes" in told.stderr


@pytest.mark.parametrize("option", [["--out", ""], ["--out="], ["--json", ""], [""]])
def test_an_empty_argument_means_no_folder(
    command: Callable[..., Result], small: Path, option: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(small.parent)
    before = sorted(small.parent.iterdir())
    refused = command("run", "small.toml", *option)
    assert (refused.exit_code, "empty" in refused.stderr) == (2, True)
    assert sorted(small.parent.iterdir()) == before


@pytest.mark.parametrize("key", ["receiver_window", "initial_window", "initial_ssthresh"])
def test_a_window_without_room_for_a_segment_is_refused(key: str) -> None:
    scenario = lh.Scenario(lh.EXAMPLE)
    with pytest.raises(lh.ScenarioError, match=f"{key} of 1 B holds no segment: a segment carries [0-9]+ B"):
        scenario.replace({f"tcp.{key}": "1 B"})
    assert scenario.replace({f"tcp.{key}": "2 kB"})


def test_one_seed_is_told_from_as_many(
    command: Callable[..., Result], small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(small.parent)
    Path("s.toml").write_text('name = "s"\nscenario = "small.toml"\nseeds = 5\nmetrics = ["goodput_bit_s"]\n')
    first = command("study", "run", "s.toml", "--seeds", "1-2")
    assert "is one seed" not in first.stderr
    done = command("study", "run", "s.toml", "--resume")
    assert 'note: seeds = 5 is one seed, number 5; 5 seeds are seeds = "1-5"' in done.stderr
    assert "results in out/s: 3 of 3 runs, 2 of them with seeds that the study does not name" in done.stderr


def test_a_new_study_on_a_full_disk_leaves_nothing(
    command: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lasthop import unfinished

    monkeypatch.chdir(tmp_path)
    settle, count = unfinished.settle_new, []

    def second_fails(temporary: Path, path: Path) -> None:
        count.append(path)
        if len(count) == 2:
            raise OSError(28, "No space left on device")
        settle(temporary, path)

    monkeypatch.setattr(unfinished, "settle_new", second_fails)
    refused = command("study", "new", "lab")
    assert refused.stderr == "error: cannot write 'lab.toml': no space left on device\n"
    assert list(tmp_path.iterdir()) == []
    assert command("study", "new", "lab").exit_code == 0


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[view.Server]:
    (tmp_path / "index.html").write_text("<head></head>" + "x" * (1 << 22))
    monkeypatch.setattr(view, "CONNECTIONS_MAX", 4)
    monkeypatch.setattr(view, "IDLE_S", 0.3)
    monkeypatch.setattr(view._Handler, "timeout", 0.3)  # noqa: SLF001 - its only name
    server = view.Server(tmp_path, None)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_browser_that_goes_prints_nothing(server: view.Server, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", server.server_port)) as browser:
            browser.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            request = f"GET /{server.token}/ HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n\r\n"
            browser.sendall(request.encode())
            browser.recv(10)
    time.sleep(0.5)
    assert capfd.readouterr().err == ""


def test_idle_browsers_hold_few_threads_and_not_for_ever(server: view.Server) -> None:
    before = threading.active_count()
    idle = [socket.create_connection(("127.0.0.1", server.server_port)) for _ in range(20)]
    time.sleep(0.2)
    assert threading.active_count() <= before + 4
    for one in idle:
        one.settimeout(20)
        assert one.recv(1) == b""
        one.close()


@pytest.mark.parametrize("kind", ["no text", "pipe"])
@pytest.mark.parametrize("line", ["plot small.toml", "study plot grid.toml"])
def test_settings_of_a_foreign_folder_are_not_read(small: Path, line: str, kind: str) -> None:
    """Matplotlib opens whatever is called matplotlibrc in the current folder."""
    folder = small.parent
    (folder / "grid.toml").write_text(
        'name = "grid"\nscenario = "small.toml"\nseeds = [1, 2]\nmetrics = ["goodput_bit_s"]\n'
        '[[axes]]\nname = "sender"\nkey = "flows.0.transport"\nvalues = ["reno", "cubic"]\n'
    )
    assert shell("LASTHOP study run grid.toml", folder).returncode == 0
    if kind == "pipe":
        os.mkfifo(folder / "matplotlibrc")
    else:
        (folder / "matplotlibrc").write_bytes(b"\xff\xfe")
    done = shell(f"LASTHOP {line}", folder)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False), done.stderr.decode()
