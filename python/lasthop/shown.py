"""What results of runs and of comparisons have in common: how they are shown, saved and framed as tables.

`Run` and `Runs` (results.py) and `Comparison` (comparison.py) say what their tables hold and what people see;
the rest follows from it here.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl
    from rich.console import RenderableType

    from lasthop.arrow import Table


class Shown:
    """Results that a terminal and a notebook show, that a folder keeps, and whose tables are frames.

    Examples
    --------
    >>> import lasthop as lh
    >>> run = lh.run(lh.Scenario(lh.EXAMPLE), seed=7)
    >>> run.to_json()[:24], run._repr_html_()[:4], repr(run).split()[0]
    ('{"scenario": {"name": "e', '<pre', 'example')
    """

    def __init__(self) -> None:
        self._frames: dict[str, pl.DataFrame] = {}

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return everything but the large tables, as the command prints it with ``--json``."""

    @abstractmethod
    def table(self, name: str) -> Table:
        """Return a table as it is there: any library that speaks Arrow takes it, and no package is needed."""

    @abstractmethod
    def _content(self) -> RenderableType:
        """Return what people see."""

    @abstractmethod
    def _save(self, folder: str | Path, table_format: str, *, force: bool) -> None:
        """Write the folder."""

    def to_json(self) -> str:
        """Return the same object as `to_dict` as JSON text."""
        return json.dumps(self.to_dict())

    def save(self, folder: str | Path, table_format: str = "parquet", *, force: bool = False) -> None:
        """Write the folder that the command writes with ``--out``; `lasthop.load_runs` reads runs back.

        Parameters
        ----------
        folder : path
            Made if need be; one that holds results is refused.
        table_format : {"parquet", "csv", "arrow"}
            Format of the tables.
        force : bool
            Replace the run or the comparison that is there.
        """
        self._save(folder, table_format, force=force)

    def _frame(self, name: str) -> pl.DataFrame:
        from lasthop.arrow import frame_of

        if name not in self._frames:
            self._frames[name] = frame_of(self.table(name))
        return self._frames[name]

    def __repr__(self) -> str:
        from lasthop.tables import render

        return render(self._content())

    def _repr_html_(self) -> str:
        from lasthop.formats import as_html

        return as_html(self._content())


class OverTime(Shown):
    """Results with tables over time."""

    @property
    def series(self) -> pl.DataFrame:
        """Window, threshold, RTT and throughput per flow and interval. Needs ``series=True``.

        Those of a comparison have columns with the transport and the seed in front, here as in `link_series`.
        """
        return self._frame("flow_series")

    @property
    def link_series(self) -> pl.DataFrame:
        """Queue, throughput and utilisation per link and interval. Needs ``series=True``."""
        return self._frame("link_series")
