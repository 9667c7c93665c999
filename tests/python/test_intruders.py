"""Other users of the machine: nothing that they put into a shared folder is loaded, read or believed.

Most of it needs root, to be another user for a moment, and says so where it is skipped.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lasthop as lh
from lasthop import live, real_stack, steer
from lasthop.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OBJECTS = Path(__file__).parents[2] / "crates" / "lasthop-live" / "bpf"
#: A user that is neither root nor anybody who runs these tests.
STRANGER = 65534
#: Digits that no session has: those of process 12252 and beyond what it counts.
DIGITS = "0badbeef"

as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")
_missing = [*live.lacking(), *steer.lacking()]
_lacking = "; ".join(f"{need.what}: {need.text}, {need.remedy}" for need in _missing)
needs_steering = pytest.mark.skipif(bool(_lacking), reason=f"no steering here: {_lacking}")


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder that everyone may reach and write into, as /tmp, where temporary files go."""
    assert tmp_path.exists(), "it is made first, where it always is"
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o1777)
        monkeypatch.setenv("TMPDIR", made)
        monkeypatch.setattr("tempfile.tempdir", made)
        yield folder


@pytest.fixture
def without_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Say of /run that it may not be written into, as in a container that is read only."""
    real = os.access

    def access(path: os.PathLike[str] | str, mode: int) -> bool:
        return not str(path).startswith("/run") and real(path, mode)

    monkeypatch.setattr(os, "access", access)


# ------------------------------------------------------------------------------------------------------------
# What a run starts is noted where no other user writes


def _folder(place: Path) -> None:
    place.mkdir(mode=0o700)


def _strangers(place: Path) -> None:
    place.mkdir(mode=0o700)
    os.chown(place, STRANGER, STRANGER)


def _open(place: Path) -> None:
    place.mkdir()
    place.chmod(0o777)


def _link(place: Path) -> None:
    (place.parent / "elsewhere").mkdir(mode=0o700)
    place.symlink_to(place.parent / "elsewhere")


def _file(place: Path) -> None:
    place.write_text("")


@as_root
@pytest.mark.usefixtures("without_run")
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_folder, None),
        (_strangers, "belongs to another user (65534)"),
        (_open, "is open to other users (mode 0777)"),
        (_link, "is no folder"),
        (_file, "is no folder"),
    ],
)
def test_a_journal_of_others_is_refused(shared: Path, make: Callable[[Path], None], said: str | None) -> None:
    """Its entries say which processes to end: only those of this user count."""
    place = shared / f"lasthop-{os.geteuid()}"
    make(place)
    victim = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"], env={**os.environ, live.MARK: "0123"}
    )
    try:
        if place.is_dir():
            entry = {"mark": "0123", "owner": victim.pid, "owner_started": -1, "commands": []}
            (place / "0123.json").write_text(json.dumps(entry), encoding="utf-8")
        if said is None:
            assert live.clean() == ["a run that was killed had left 1 process: ended"]
            return
        for use in (live.clean, live.journal("4567", []).__enter__):
            with pytest.raises(RunError, match=re.escape(f"'{place}', which {said}: look at it")):
                use()
        assert victim.poll() is None
        assert not list(place.glob("4567*")) if place.is_dir() else True
    finally:
        victim.kill()
        victim.wait()


@as_root
@pytest.mark.usefixtures("without_run")
def test_a_journal_that_appears_meanwhile_is_refused(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at its name and its first use."""
    real = live.journal_folder
    place = shared / "lasthop-0"

    def late() -> Path:
        found = real()
        _strangers(place)
        return found

    monkeypatch.setattr(live, "clean", list)
    monkeypatch.setattr(live, "journal_folder", late)
    with pytest.raises(RunError, match="belongs to another user"):
        live.journal("4567", []).__enter__()
    assert not list(place.iterdir())


def _as_namespaced(user: int, answer: Callable[[], str]) -> str:
    """Return what this says in a process of this user that is root in a user namespace of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            # PR_SET_DUMPABLE: otherwise /proc/self is not ours after the change of user.
            libc.prctl(4, 1, 0, 0, 0)
            if libc.unshare(0x1000_0000) != 0:
                os.write(writing, b"no user namespace")
            else:
                Path("/proc/self/uid_map").write_text(f"0 {user} 1\n")
                os.write(writing, answer().encode())
        except BaseException as error:  # noqa: BLE001 - it is told to the test
            os.write(writing, repr(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return said


@as_root
@pytest.mark.skipif(not Path("/proc/self/uid_map").exists(), reason="needs user namespaces")
@pytest.mark.usefixtures("without_run")
def test_two_users_who_are_root_in_namespaces_do_not_meet(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are user 0 there, and each has a journal."""
    monkeypatch.setattr(live, "clean", list)

    def answer() -> str:
        with live.journal("0123", []):
            return f"{os.geteuid()} {live.journal_folder().name}"

    for user in (12_001, 12_002):
        said = _as_namespaced(user, answer)
        if said == "no user namespace":
            pytest.skip("this kernel makes no user namespaces for ordinary users")
        assert said == f"0 lasthop-{user}"
        found = (shared / f"lasthop-{user}").stat()
        assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (user, 0o700)


# ------------------------------------------------------------------------------------------------------------
# No name that can be guessed


def _occupy(folder: Path, process: int) -> int:
    """As another user, take every name that a process of this number could; return how many there are."""
    law = (OBJECTS / "steer.bpf.o").read_bytes().replace(b"Lh0Id0Tk", DIGITS.encode())
    names = [f"lasthop-{process << 10 | count:08x}.o" for count in range(1 << 10)]
    names += [f"lasthop-{process}-{number}" for number in range(64)]
    names += [f"lasthop-{process}", f"lasthop-{process}.o", f"lasthop-{process}.json"]
    for name in names:
        place = folder / name
        place.write_bytes(law)
        os.chown(place, STRANGER, STRANGER)
    return len(names)


def _started(folder: Path, arguments: list[str]) -> subprocess.Popen[str]:
    """Start the command under a number that is known, and occupied, before it begins."""
    words = ["sh", "-c", 'read -r go && exec "$@"', "sh", sys.executable, "-m", "lasthop", *arguments]
    child = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert _occupy(folder, child.pid) > 1 << 10
    return child


@as_root
@needs_steering
@pytest.mark.parametrize("law", [["--cc", "reno"], ["--cc", "veno", "--twin"]])
def test_root_loads_no_program_of_others_into_the_kernel(shared: Path, law: list[str]) -> None:
    """Every name in the shared folder is taken by another user: it changes nothing."""
    child = _started(shared, ["steer", *law, "--", "cat", "/proc/sys/net/ipv4/tcp_congestion_control"])
    out, notes = child.communicate("go\n", timeout=60)
    assert child.returncode == 0, notes
    assert out.strip().startswith("lh")
    assert not [name for name in live.algorithms() if DIGITS in name]


SCENARIO = """
duration = "1 s"
[topology]
kind = "graph"
nodes = ["server", "phone"]
links = [{ from = "server", to = "phone", rate = "10 Mbit/s", delay = "5 ms" }]
[[flows]]
source = "server"
sink = "phone"
transport = "cubic"
"""


@as_root
@needs_steering
def test_programs_at_hosts_read_our_names_and_not_those_of_others(shared: Path, tmp_path: Path) -> None:
    """Another user has taken the names of the files that stand in for /etc/hosts."""
    file = tmp_path / "small.toml"
    file.write_text(SCENARIO)
    # Not root: such programs read the names too.
    drop = ["setpriv", "--reuid", str(STRANGER)] if shutil.which("setpriv") else []
    words = [*drop, "cat", "/etc/hosts", "/etc/resolv.conf"]
    child = _started(shared, ["emulate", str(file), "--budget", "100", "--", *words])
    out, notes = child.communicate("go\n", timeout=60)
    assert "10.0.0.1 server\n10.0.0.2 phone\nnameserver 127.0.0.1\n" in out, notes
    assert child.returncode in (0, 1), notes


@as_root
@needs_steering
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace (Debian package strace)")
@pytest.mark.parametrize("kind", ["steer", "emulate"])
def test_no_name_in_a_shared_folder_can_be_guessed(shared: Path, tmp_path: Path, kind: str) -> None:
    """By the word of the kernel: what is made there is made anew, and not of the number of the process."""
    file, log = tmp_path / "small.toml", tmp_path / "strace"
    file.write_text(SCENARIO)
    words = (
        ["steer", "--cc", "reno", "--", "true"]
        if kind == "steer"
        else ["emulate", str(file), "--budget", "100", "--", "true"]
    )
    traced = ["strace", "-f", "-o", str(log), "-e", "trace=open,openat,creat,mkdir,mkdirat,rename"]
    done = subprocess.run(
        [*traced, sys.executable, "-m", "lasthop", *words], check=False, capture_output=True
    )
    assert done.returncode in (0, 1), done.stderr
    lines = [line for line in log.read_text().splitlines() if f'"{shared}' in line]
    made = [line for line in lines if "O_CREAT" in line or "mkdir" in line or "creat(" in line]
    assert made or kind == "steer", "the names of hosts"
    for line in made:
        process = int(line.split()[0])
        assert "mkdir" in line or "O_EXCL" in line, line
        name = line.split('"')[1].removeprefix(str(shared))
        assert str(process) not in name, line
        assert f"{process << 10:08x}"[:-3] not in name, line


@pytest.mark.parametrize("path", [None, "", ":/bin", ".:/bin"])
def test_no_program_is_taken_from_the_current_folder(tmp_path: Path, path: str | None) -> None:
    """Whatever PATH says: the folder in which root stands may be anybody's."""
    for name in ("ip", "nft", "bpftool"):
        (tmp_path / name).write_text("#!/bin/sh\ntouch mark\n")
        (tmp_path / name).chmod(0o755)
    environment = {name: text for name, text in os.environ.items() if name != "PATH"}
    if path is not None:
        environment["PATH"] = path
    code = (
        "import shutil; from lasthop import outside, steer; print(steer._bpftool().text); "
        "print(*(shutil.which(name, path=outside.PLACES) for name in ('ip', 'nft')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    for found in done.stdout.split():
        assert found in ("None", "not", "installed") or Path(found).is_absolute(), done.stdout
    assert not (tmp_path / "mark").exists()


def test_ends_of_a_real_stack_load_no_module_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`parity --stack` runs them as root, wherever it is called."""
    started: list[list[str]] = []

    def take(_scenario: object, main: list[str], *, beside: list[tuple[str, list[str]]], **_: object) -> None:
        started.extend([main, *(words for _, words in beside)])
        raise RunError("that is all")

    monkeypatch.setattr(live, "emulate", take)
    with pytest.raises(RunError, match="that is all"):
        real_stack.emulate(lh.Scenario(lh.EXAMPLE), 1)
    for name in ("json.py", "socket.py", "lasthop.py"):
        (tmp_path / name).write_text("from pathlib import Path\nPath('MARK').touch()\n")
    for words in started:
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        # The job has gone with its folder, which is as far as the end comes.
        assert "No such file" in done.stderr
        assert not (tmp_path / "MARK").exists()
    assert len(started) >= 2
