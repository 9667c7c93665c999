"""Digests of saved results: what is read back is bit for bit what was written, or it is refused.

``result.json``, ``comparison.json`` and ``study.json`` end in the SHA-256 of all that stands before it, and
name that of each table and capture beside them. Parquet files of the store of a study carry their own in the
gap before the footer, which every reader of Parquet passes over. What was saved before there were digests is
read with a warning.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from typing import TYPE_CHECKING, Any

from lasthop.errors import UncheckedWarning
from lasthop.files import LONGEST, not_a_pipe, read_at_most

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

#: Of the JSON files: 1 had no digests. A single flipped bit cannot make one of the other.
FORMAT = 2
FORMAT_KEY, FILES_KEY, DIGEST_KEY = "format", "files", "sha256"
#: Before the digest in a Parquet file.
MARK = b"lasthop.sha256="
HEX = 64
CHUNK = 1 << 20
#: Bytes that are checked in passing, whether they are shown now or not; larger files when they are read.
SMALL = 1 << 26
#: The length of the footer and "PAR1".
TAIL = 8
CHANGED = "it is not what was written: its SHA-256 differs"


class DamagedError(Exception):
    """A file that is not what was written; the text says what is wrong."""


def read_sealed(file: Path) -> tuple[dict[str, Any], bool]:
    """Return what `checked` does of a file.

    Raises
    ------
    DamagedError
        If it is no JSON object, or not what was written.
    OSError
        If it cannot be read.
    """
    raw = read_at_most(file, LONGEST)
    if raw is None:
        raise DamagedError(f"it has more than {LONGEST} bytes")
    return checked(raw)


def digest_of(file: Path) -> str:
    """Return the SHA-256 of a file."""
    with not_a_pipe(file).open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def sealed(content: Mapping[str, Any]) -> str:
    """Return JSON text that `read` accepts only as it stands.

    Examples
    --------
    >>> text = sealed({"name": "lab"})
    >>> checked(text.encode())
    ({'name': 'lab', 'format': 2}, True)
    >>> checked(text.replace("lab", "lap").encode())
    Traceback (most recent call last):
    lasthop.seals.DamagedError: it is not what was written: its SHA-256 differs
    """
    text = json.dumps({**content, FORMAT_KEY: FORMAT, DIGEST_KEY: ""}, indent=1) + "\n"
    digest = hashlib.sha256(text.encode()).hexdigest()
    return text.removesuffix(_end("")) + _end(digest)


def _end(digest: str) -> str:
    return f'"{digest}"\n}}\n'


def checked(raw: bytes) -> tuple[dict[str, Any], bool]:
    """Return the content of JSON text that `sealed` made, and whether it has a digest at all.

    Raises
    ------
    DamagedError
        If it is no JSON object, or not what was written.
    """
    try:
        content = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DamagedError(str(error)) from None
    if not isinstance(content, dict):
        raise DamagedError("it holds no JSON object")
    # What was saved without digests has none of these, and no single flipped bit takes all of them away.
    if content.get(FORMAT_KEY, 1) == 1 and not {DIGEST_KEY, FILES_KEY} & content.keys():
        return content, False
    digest = content.pop(DIGEST_KEY, None)
    if content.get(FORMAT_KEY) != FORMAT and isinstance(digest, str) and _is_sealed(raw, digest):
        found = content.get(FORMAT_KEY)
        raise DamagedError(f"it has format {found}, this lasthop reads {FORMAT}: a newer one reads it")
    if not isinstance(digest, str) or not _is_sealed(raw, digest):
        raise DamagedError(CHANGED)
    return content, True


def _is_sealed(raw: bytes, digest: str) -> bool:
    end = _end(digest).encode(errors="replace")
    if not raw.endswith(end):
        return False
    return hashlib.sha256(raw.removesuffix(end) + _end("").encode()).hexdigest() == digest


def warn_unchecked(path: Path) -> None:
    """Say of results without digests that they are not checked."""
    text = f"'{path}' was saved by an older lasthop, without checksums: whether it is damaged is not known"
    warnings.warn(text, UncheckedWarning, stacklevel=4)


class Seals:
    """The digests of the files in a folder; each file is checked once, when it is first read.

    Parameters
    ----------
    folder : path
        Where the files are.
    digests : mapping or None
        SHA-256 by name; `None` for a folder of before there were any.
    """

    def __init__(self, folder: Path, digests: Mapping[str, str] | None) -> None:
        self._folder = folder
        self._digests = digests
        self._whole: set[str] = set()

    def check(self, name: str) -> None:
        """Raise `DamagedError` if a file is not what was written."""
        if self._digests is None or name in self._whole:
            return
        path = self._folder / name
        if name not in self._digests:
            raise DamagedError("it was not saved with the results beside it")
        if not path.exists():
            raise DamagedError("it is gone")
        if digest_of(path) != self._digests[name]:
            raise DamagedError(CHANGED)
        self._whole.add(name)

    def names(self) -> Collection[str]:
        """Return the names of the files that there should be."""
        return () if self._digests is None else self._digests.keys()


def parquet_parts(content: bytes) -> tuple[memoryview, bytes, memoryview]:
    """Return a Parquet file with its digest in it, as three pieces to be written one behind the other."""
    end = _footer(len(content), content[-TAIL:])
    whole = memoryview(content)
    return whole[:end], MARK + hashlib.sha256(content).hexdigest().encode(), whole[end:]


def check_parquet(path: Path) -> bool:
    """Return whether a Parquet file carries a digest; raise `OSError` if it is not what was written."""
    size = not_a_pipe(path).stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - TAIL))
        place = _footer(size, file.read(TAIL)) - len(MARK) - HEX
        if place < 0:
            return False
        file.seek(place)
        if not (mark := file.read(len(MARK) + HEX)).startswith(MARK):
            return False
        whole = hashlib.sha256()
        file.seek(0)
        left = place
        while left and (chunk := file.read(min(left, CHUNK))):
            whole.update(chunk)
            left -= len(chunk)
        file.seek(place + len(mark))
        while chunk := file.read(CHUNK):
            whole.update(chunk)
    if whole.hexdigest().encode() != mark.removeprefix(MARK):
        raise OSError(CHANGED)
    return True


def _footer(size: int, tail: bytes) -> int:
    """Return where the footer of a Parquet file begins, as its last bytes say."""
    return size - TAIL - int.from_bytes(tail[:4], "little")
