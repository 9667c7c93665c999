"""Files: checked before anything runs, written whole or not at all, read up to a limit.

Every file is written under a temporary name and renamed when complete. What a file says is no concern here.
"""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lasthop import unfinished
from lasthop.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Bytes of saved results in JSON that are read: ten times what 100,000 flows take.
LONGEST = 1 << 30


def check_folder(folder: str | Path) -> None:
    """Make the folder if need be and refuse it if nothing can be written in it."""
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise OutputError(f"cannot write results in '{path}': it is a file, not a folder")
    try:
        path.mkdir(parents=True, exist_ok=True)
        _probe(path)
    except OSError as error:
        raise OutputError(
            f"cannot write results in '{path}': {reason_of(error)}; choose a folder that you may write to"
        ) from None


def check_file(file: str | Path, *, replace: bool = True) -> None:
    """Refuse a file that cannot be written, or without `replace` one that is there and not empty."""
    path = Path(file)
    if path.is_dir():
        raise OutputError(f"cannot write '{path}': it is a folder, not a file")
    if path.exists() and not path.is_file():
        return  # A pipe or a device takes what it is given.
    if not replace and path.exists() and path.stat().st_size > 0:
        raise OutputError(
            f"'{path}' is already there and would be lost: choose another name, or say --force to replace it"
        )
    if not path.parent.is_dir():
        lacks = f"the folder '{path.parent}' does not exist"
        why = f"'{path.parent}' is not a folder" if path.parent.exists() else lacks
        raise OutputError(f"cannot write '{path}': {why}")
    try:
        _probe(path.parent)
    except OSError as error:
        raise OutputError(
            f"cannot write '{path}': {reason_of(error)}; choose a place that you may write to"
        ) from None


def write_text(file: str | Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    path = Path(file)
    if path.exists() and not path.is_file():
        with output_errors(path):
            path.write_text(text, encoding="utf-8")
        return
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path` that takes its place when the block ends well."""
    with output_errors(path), unfinished.file_beside(path) as temporary:
        yield temporary
        temporary.chmod(0o666 & ~umask())
        unfinished.settle(temporary, path)


def _probe(folder: Path) -> None:
    """Write nothing in a folder, and put away what a killed process left there."""
    unfinished.sweep(folder)
    with tempfile.TemporaryFile(dir=folder, prefix=unfinished.PREFIX):
        pass


@contextmanager
def output_errors(path: Path) -> Iterator[None]:
    """Name the file that could not be written, and why."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot write '{path}': {reason_of(error)}") from None


def reason_of(error: OSError) -> str:
    """Return the system's reason alone, in lower case."""
    # Errors that come from the native module have only a text, which ends in the reason.
    text = error.strerror or str(error).rpartition(": ")[2].partition(" (os error")[0]
    return text.lower()


def not_a_pipe(path: Path) -> Path:
    """Return the path of a file that is to be read; a pipe of others would wait for its writer without end.

    Those of the shell, as in ``lasthop run <(…)``, have names below ``/dev`` or ``/proc``.

    Raises
    ------
    OSError
        It is a pipe with a name of its own, or it cannot be looked at.
    """
    if stat.S_ISFIFO(path.stat().st_mode) and path.parts[:2] not in (("/", "dev"), ("/", "proc")):
        raise OSError("it is a pipe, not a file")
    return path


def read_at_most(path: Path, most: int) -> bytes | None:
    """Return the content of a file; `None` if it has more bytes than that, since a device has no end."""
    with not_a_pipe(path).open("rb") as file:
        # What says its length is not read to find out; a device says 0.
        if os.fstat(file.fileno()).st_size > most:
            return None
        content = file.read(most + 1)
    return content if len(content) <= most else None


def umask() -> int:
    """Return the bits that new files of this process do not get."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
