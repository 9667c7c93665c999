"""Temporary files and folders beside what they become: made, completed on the disk, swept when left.

All that lasthop writes goes through `file_beside` or `folder_beside` and ends with `settle`: content on the
disk, then the name. Each is locked while its process lives, so that `sweep` can tell what a killed process
left from what another one is writing. Raises plain `OSError`; `output` names the file.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PREFIX = ".lasthop-"
#: Age at which a temporary is deleted where the file system has no locks, in seconds.
OLD_S = 86_400.0
#: What temporaries are called: by `tempfile`, and by `spool`.
NAMED = re.compile(r"\.lasthop-(?:spool-)?[a-z0-9_]{8}(?:\.[^/]*)?")
#: What says which names of a folder are about to change, and how long it may be, in bytes.
PLAN = f"{PREFIX}plan"
PLAN_MAX = 1 << 20


@contextmanager
def file_beside(path: Path) -> Iterator[Path]:
    """Give a temporary file in the folder of `path`; it is gone afterwards, unless `settle` renamed it."""
    temporary, lock = _claimed(path.parent, path.suffix, is_folder=False)
    try:
        yield temporary
    finally:
        with suppress(OSError):
            temporary.unlink()
        os.close(lock)


@contextmanager
def folder_beside(path: Path) -> Iterator[Path]:
    """Give a temporary folder beside `path`; it is gone afterwards, unless `settle` renamed it."""
    temporary, lock = _claimed(path.parent, "", is_folder=True)
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        os.close(lock)


def hold(folder: Path) -> int:
    """Lock a temporary folder that is to stay for longer; return the descriptor that holds it."""
    descriptor = os.open(folder, os.O_RDONLY)
    _lock(descriptor, wait=True)
    return descriptor


def settle(temporary: Path, path: Path) -> None:
    """Give a complete temporary its name: content first, then the name, both on the disk afterwards."""
    if temporary.is_dir():
        for folder, _, files in os.walk(temporary):
            for name in files:
                sync(Path(folder, name))
            sync(Path(folder))
        if path.exists():
            path.rmdir()
    else:
        sync(temporary)
    temporary.replace(path)
    sync(path.parent)


class Together:
    """Files of one folder that take their places together: all of them, or on an error none.

    What was there before stays as it is until all that is new is on the disk. Then a plan says which names
    change; if the process is killed while they do, `finish` completes what the plan says.
    """

    def __init__(self) -> None:
        self._open = ExitStack()
        self._ready: dict[Path, Path] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def file(self, path: Path) -> Path:
        """Return the temporary file that is to become `path`."""
        self._ready[path] = self._open.enter_context(file_beside(path))
        return self._ready[path]

    def settle(self, gone: Iterable[Path]) -> None:
        """Give all files their names, in the order in which they were asked for; then delete those `gone`."""
        for temporary in self._ready.values():
            sync(temporary)
        old = list(gone)
        before = {path: self._kept(path) for path in self._ready}
        folder = next(iter(self._ready)).parent
        try:
            self._write_plan(folder, old)
            for path, temporary in self._ready.items():
                temporary.replace(path)
            sync(folder)
        except BaseException:
            (folder / PLAN).unlink(missing_ok=True)
            _restore(before)
            raise
        for path in old:
            path.unlink(missing_ok=True)
        (folder / PLAN).unlink(missing_ok=True)

    def _write_plan(self, folder: Path, gone: Iterable[Path]) -> None:
        """Put on the disk which names are about to change; the plan is locked while this process lives."""
        temporary = self._open.enter_context(file_beside(folder / PLAN))
        content = {
            "folder": folder.stat().st_ino,
            "names": {new.name: [path.name, new.lstat().st_ino] for path, new in self._ready.items()},
            "gone": {path.name: path.lstat().st_ino for path in gone if path.exists()},
        }
        temporary.write_text(json.dumps(content), encoding="utf-8")
        settle(temporary, folder / PLAN)

    def _kept(self, path: Path) -> Path | None:
        """Return another name for the file that is there, if there is one."""
        if not path.exists():
            return None
        kept = self._open.enter_context(file_beside(path))
        kept.unlink()
        try:
            os.link(path, kept)
        except OSError:
            # Not every file system has links.
            shutil.copyfile(path, kept)
        return kept


def _restore(before: Mapping[Path, Path | None]) -> None:
    """Give files their names back; what had none goes."""
    for path, kept in before.items():
        with suppress(OSError):
            if kept is None:
                path.unlink()
            else:
                kept.replace(path)


def settle_new(temporary: Path, path: Path) -> None:
    """As `settle`, for a file; raise `FileExistsError` if there is one by that name."""
    sync(temporary)
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:
        # Not every file system has links.
        if path.exists():
            raise FileExistsError(str(path)) from None
        temporary.replace(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Force a file, or the names in a folder, to the disk; a folder only where the system can."""
    is_folder = path.is_dir()
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError:
        # The names of a folder cannot be forced everywhere; the content of a file can.
        if not is_folder:
            raise


def finish(folder: Path) -> None:
    """Complete the change of names in which a process was killed; who reads results calls it first.

    A plan counts only where it was made: it is a file of this user, and it gives the inodes of the folder and
    of each file, which nothing that was copied or unpacked has. One that came with a folder, or from another
    user, does nothing.
    """
    with suppress(OSError, ValueError, TypeError, AttributeError, KeyError):
        descriptor = _opened(folder / PLAN)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode) or not _is_left(descriptor, folder / PLAN):
                return
            plan = json.loads(os.read(descriptor, PLAN_MAX))
            if plan["folder"] != folder.stat().st_ino:
                return
            changes = [
                (folder / _plain(new), folder / _plain(name), number)
                for new, (name, number) in plan["names"].items()
            ]
            old = [(folder / _plain(name), number) for name, number in plan["gone"].items()]
            if not all(NAMED.fullmatch(new.name) for new, _, _ in changes):
                return
            for new, path, number in changes:
                if _is_the_one(new, number):
                    new.replace(path)
            sync(folder)
            for path, number in old:
                if _is_the_one(path, number):
                    path.unlink()
            (folder / PLAN).unlink()
        finally:
            os.close(descriptor)


def _is_the_one(path: Path, number: object) -> bool:
    """Whether there is a file by this name, this user's own, with this number."""
    with suppress(FileNotFoundError):
        about = path.lstat()
        return stat.S_ISREG(about.st_mode) and _is_mine(about) and about.st_ino == number
    return False


def _is_mine(about: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or about.st_uid == os.geteuid()


def _opened(path: Path) -> int:
    """Open a file or a folder of this user to read it; raise `OSError` for whatever else has its name."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    about = os.fstat(descriptor)
    if _is_mine(about) and (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
        return descriptor
    os.close(descriptor)
    raise PermissionError(errno.EPERM, "not a file of this user", str(path))


def _plain(name: str) -> str:
    """Return a name of a file in a folder; raise `ValueError` for one that leads elsewhere."""
    if Path(name).name != name:
        raise ValueError(name)
    return name


def _is_left(descriptor: int, path: Path) -> bool:
    """Whether the process that made a temporary has ended; takes its lock."""
    locked = _lock(descriptor, wait=False)
    return locked is not False and (locked is True or time.time() - path.stat().st_mtime >= OLD_S)


def sweep(folder: Path) -> None:
    """Delete temporaries in a folder whose process has ended, after what they were to become."""
    finish(folder)
    with suppress(OSError):
        left = [Path(one.path) for one in os.scandir(folder) if NAMED.fullmatch(one.name)]
        for path in left:
            _sweep_one(path)


def _sweep_one(path: Path) -> None:
    with suppress(OSError):
        descriptor = _opened(path)
        try:
            if not _is_left(descriptor, path):
                return
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
        finally:
            os.close(descriptor)


def _claimed(folder: Path, suffix: str, *, is_folder: bool) -> tuple[Path, int]:
    """Make a temporary and lock it, whatever sweeps meanwhile."""
    while True:
        if is_folder:
            temporary = Path(tempfile.mkdtemp(dir=folder, prefix=PREFIX))
            descriptor = os.open(temporary, os.O_RDONLY)
        else:
            descriptor, name = tempfile.mkstemp(dir=folder, prefix=PREFIX, suffix=suffix)
            temporary = Path(name)
        _lock(descriptor, wait=True)
        # Between its making and its lock another process may have taken it for one that was left.
        if temporary.exists():
            return temporary, descriptor
        os.close(descriptor)


def _lock(descriptor: int, *, wait: bool) -> bool | None:
    """Lock a temporary; return whether it was free, or nothing where that cannot be known."""
    try:
        import fcntl
    except ImportError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True
