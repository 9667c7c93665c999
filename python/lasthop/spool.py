"""Files that a run writes while it goes on, instead of keeping its series and its trace in memory.

`runner` gives each run a folder of its own inside that of the results; `output` puts the tables of finished
runs together and copies their captures. What a run that did not finish has written is thrown away.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from lasthop import _native, unfinished
from lasthop.places import capture_file, not_captured

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PREFIX = f"{unfinished.PREFIX}spool-"


class Spool:
    """The files of one run, which last as long as this object.

    Parameters
    ----------
    parent : path
        The folder in which they get one of their own.
    places : sequence of str
        Where packets are captured: a file each.
    """

    def __init__(self, parent: Path, places: Sequence[str] = ()) -> None:
        self.captures = {place: capture_file(place) for place in places}
        self.folder = Path(tempfile.mkdtemp(dir=parent, prefix=PREFIX))
        # Held until it is gone: who sweeps can tell it from what a killed process left.
        self._end = weakref.finalize(self, _remove, self.folder, unfinished.hold(self.folder))

    def discard(self) -> None:
        """Remove the files now."""
        self._end()

    def file(self, table: str) -> Path | None:
        """Return the file of a table, if the run recorded it."""
        path = self.folder / f"{table}.parquet"
        return path if path.exists() else None

    def log(self, number: int) -> Path:
        """Return the file with the log that the stack of a flow wrote, if it did; flows are numbered."""
        return self.folder / f"log-{number}"


def _remove(folder: Path, held: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(held)


class SpooledTables:
    """The tables of a run whose large ones lie in files.

    Parameters
    ----------
    spool : Spool
        The files.
    summaries : mapping
        What it measured: its tables ``runs``, ``flows`` and ``links``.
    """

    def __init__(self, spool: Spool, summaries: Mapping[str, _native.ArrowTable]) -> None:
        self._spool = spool
        self._summaries = summaries

    def summary(self, name: str) -> _native.ArrowTable | None:
        """Return the table of runs, flows or links as it was made."""
        return self._summaries.get(name)

    def has(self, name: str) -> bool:
        """Whether the run carries the table called `name`."""
        return self._spool.file(name) is not None

    def table(self, name: str) -> _native.ArrowTable | None:
        """Return the table called `name`, or `None` if the run does not carry it."""
        file = self._spool.file(name)
        if file is None:
            return None
        table = _native.ArrowTable.read_parquet(file)
        return table.select([column for column in table.columns if column != "seed"])

    def file(self, name: str) -> Path | None:
        """Return the file of the table called `name`, which has the seed as its first column."""
        return self._spool.file(name)

    def captured_at(self) -> list[str]:
        """Return the places at which packets were captured."""
        return list(self._spool.captures)

    def write_pcapng(self, path: Path, at: str) -> None:
        """Copy the capture made at a place."""
        name = self._spool.captures.get(at)
        if name is None:
            raise not_captured(at, self.captured_at())
        shutil.copyfile(self._spool.folder / name, path)

    def logged(self) -> list[str]:
        """Return the flows whose real stacks wrote a log."""
        names = self._summaries["flows"]["name"]
        return [name for number, name in enumerate(names) if self._spool.log(number).exists()]

    def write_log(self, path: Path, flow: str) -> None:
        """Copy the log of one of them."""
        shutil.copyfile(self._spool.log(self._summaries["flows"]["name"].index(flow)), path)
