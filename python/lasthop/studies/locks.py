"""Who may write in the folder of a study: one process, or any number of different shards.

The locks are the operating system's: they go with the process that holds them, however it ends. Beside each
lock lies a note that says who holds it, for the message to the next one. Called by `store`.
"""

from __future__ import annotations

import json
import os
import re
import socket
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lasthop.errors import ArgumentError, OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: How long a shard waits for another one that is just starting.
STARTING_S = 2.0
WHOLE = ".lock"
#: A note is a file: what another one has put there may lead elsewhere, or never answer.
ONLY_FILES = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


@dataclass(frozen=True, slots=True)
class Shard:
    """One of several equal parts of a study; `index` counts from 1."""

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read ``i/n``.

        Examples
        --------
        >>> Shard.parse("2/8")
        Shard(index=2, count=8)
        >>> Shard.parse("0/8")
        Traceback (most recent call last):
        lasthop.errors.ArgumentError: bad --shard '0/8': write i/n with i from 1 to n, for example 1/8
        """
        match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text.strip())
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise ArgumentError(f"bad --shard '{text}': write i/n with i from 1 to n, for example 1/8")
        return cls(int(match[1]), int(match[2]))

    def holds(self, run: str) -> bool:
        """Whether the run with this identity belongs to the shard."""
        return int(run[:8], 16) % self.count == self.index - 1

    @property
    def tag(self) -> str:
        """Mark of the files that the shard writes."""
        return f"{self.index}of{self.count}"


@contextmanager
def locked(folder: Path, shard: Shard | None) -> Iterator[None]:
    """Hold the folder, alone or as one shard among others.

    Raises
    ------
    OutputError
        If another process holds it, saying which.
    """
    with ExitStack() as stack:
        if shard is None:
            stack.enter_context(_hold(folder, WHOLE, 0.0))
            # The holder of the whole waits for no shard: none can start now, and those at work are refused.
            for other in sorted(folder.glob(".lock-*of*")):
                if not other.name.endswith(".json"):
                    with _hold(folder, other.name, 0.0, note=False):
                        pass
        else:
            with _hold(folder, WHOLE, STARTING_S, note=False):
                stack.enter_context(_hold(folder, f"{WHOLE}-{shard.tag}", 0.0))
        yield


def forget(folder: Path) -> None:
    """Remove every lock from a folder that its holder has moved: no other process is at work in it."""
    for path in folder.glob(f"{WHOLE}*"):
        with suppress(OSError):
            path.unlink()


@contextmanager
def _hold(folder: Path, name: str, timeout_s: float, *, note: bool = True) -> Iterator[None]:
    from filelock import FileLock, Timeout

    holder = folder / f"{name}.json"
    lock = FileLock(folder / name, timeout=timeout_s)
    try:
        lock.acquire()
    except Timeout:
        raise OutputError(f"'{folder}' is in use{_describe(holder)}: {_remedy(name)}") from None
    except (OSError, NotImplementedError) as error:
        raise OutputError(
            f"cannot lock '{folder}': {error}; choose a folder on another file system"
        ) from None
    try:
        if note:
            _write_note(holder)
        yield
    finally:
        if note:
            with suppress(OSError):
                holder.unlink()
        lock.release()


def _write_note(holder: Path) -> None:
    note = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    # A note that cannot be written is no reason to stop: only a message would be poorer.
    with suppress(OSError):
        descriptor = os.open(holder, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | ONLY_FILES, 0o666)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(json.dumps(note))


def _describe(holder: Path) -> str:
    try:
        with os.fdopen(os.open(holder, os.O_RDONLY | ONLY_FILES), encoding="utf-8") as file:
            note = json.load(file)
        return f" by process {note['pid']} on {note['host']}, since {note['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return " by another process"


def _remedy(name: str) -> str:
    if name == WHOLE:
        return "wait for it, or choose another folder with --out"
    return f"shard {name.rpartition('-')[2].replace('of', '/')} is at work there; wait for it"
