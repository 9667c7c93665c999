"""Temporary files and folders beside what they become: made, completed on the disk, swept when left.

All that lasthop writes goes through `file_beside` or `folder_beside` and ends with `settle`: content on the
disk, then the name. Each is locked while its process lives, so that `sweep` can tell what a killed process
left from what another one is writing. Raises plain `OSError`; `output` names the file.
"""

from __future__ import annotations

import json
import os
import shutil
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
        names = {new.name: path.name for path, new in self._ready.items()}
        content = {"names": names, "gone": [path.name for path in gone]}
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

    A plan names files of its own folder alone: that of another person can do nothing elsewhere.
    """
    with suppress(OSError, ValueError, TypeError, AttributeError, KeyError):
        descriptor = os.open(folder / PLAN, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            if not _is_left(descriptor, folder / PLAN):
                return
            plan = json.loads(os.read(descriptor, PLAN_MAX))
            changes = [(folder / _plain(new), folder / _plain(name)) for new, name in plan["names"].items()]
            old = [folder / _plain(name) for name in plan["gone"]]
            if not all(new.name.startswith(PREFIX) for new, _ in changes):
                return
            for new, path in changes:
                with suppress(FileNotFoundError):
                    new.replace(path)
            sync(folder)
            for path in old:
                path.unlink(missing_ok=True)
            (folder / PLAN).unlink()
        finally:
            os.close(descriptor)


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
        left = [Path(one.path) for one in os.scandir(folder) if one.name.startswith(PREFIX)]
        for path in left:
            _sweep_one(path)


def _sweep_one(path: Path) -> None:
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
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
