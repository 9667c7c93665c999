"""What runs leave behind: `Run` (one seed) and `Runs` (several seeds of one scenario), with their tables.

Made by `lasthop.api` from native results and by `lasthop.saved` from saved folders; read by tables, plots
and users.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, overload

from lasthop import _native, columns
from lasthop.arrow import arrow_of, frame_of
from lasthop.errors import ArgumentError
from lasthop.places import SENDERS
from lasthop.runner import SUMMARIES
from lasthop.shown import OverTime, Shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path
    from typing import TypeAlias

    import polars as pl
    from rich.console import RenderableType

    from lasthop.drawing import Picture

    #: Runs have the one, and people are given the other.
    Table: TypeAlias = _native.ArrowTable | pl.DataFrame


class TableSource(Protocol):
    """Where a run's tables come from: the native module, files of the run, or a saved folder."""

    def summary(self, name: str) -> _native.ArrowTable | None:
        """Return the table of runs, flows or links as it was made; `None` if only the JSON is left."""

    def has(self, name: str) -> bool:
        """Whether the run carries the table called `name`."""

    def table(self, name: str) -> Table | None:
        """Return the table called `name`, or `None` if the run does not carry it."""

    def file(self, name: str) -> Path | None:
        """Return the file in which that table lies, behind a column with the seed, if it lies in one."""

    def captured_at(self) -> list[str]:
        """Return the places of the captures that belong to the run."""

    def write_pcapng(self, path: Path, at: str) -> None:
        """Write what was captured at a place."""

    def logged(self) -> list[str]:
        """Return the flows of which the run carries a log that needs no making."""

    def write_log(self, path: Path, flow: str) -> None:
        """Write the log of one of them."""


class NativeTables:
    """The tables of a run that was made in this process.

    Parameters
    ----------
    native : RunResult or None
        The run, if it carries large tables.
    summaries : mapping
        What it measured: its tables ``runs``, ``flows`` and ``links``.
    """

    def __init__(
        self, native: _native.RunResult | None, summaries: Mapping[str, _native.ArrowTable] | None = None
    ) -> None:
        self._native = native
        self._summaries = summaries or {}

    def summary(self, name: str) -> _native.ArrowTable | None:
        """Return the table of runs, flows or links as it was made; `None` if only the JSON is left."""
        return self._summaries.get(name)

    def has(self, name: str) -> bool:
        """Whether the run carries the table called `name`."""
        return self._native is not None and self._native.has(name)

    def file(self, name: str) -> Path | None:  # noqa: ARG002 - as other sources have it
        """Return nothing: tables are in memory."""
        return None

    def table(self, name: str) -> _native.ArrowTable | None:
        """Return the table called `name`, or `None` if the run does not carry it."""
        return None if self._native is None else self._native.table(name)

    def captured_at(self) -> list[str]:
        """Return the place taken if none is asked for; a trace in memory can be looked at from everywhere."""
        return [SENDERS] if self.has("hops") else []

    def write_pcapng(self, path: Path, at: str) -> None:
        """Write what was captured at a place."""
        if self._native is not None:
            try:
                self._native.write_pcapng(path, at)
            except ValueError as error:
                raise ArgumentError(str(error)) from None

    def logged(self) -> list[str]:
        """Return the flows whose real stacks wrote a log."""
        return [] if self._native is None else self._native.logged()

    def write_log(self, path: Path, flow: str) -> None:
        """Write the log of one of them."""
        if self._native is not None:
            self._native.write_log(path, flow)


class Run(OverTime):
    """The results of one run of a scenario with one seed.

    Attributes
    ----------
    seed : int
        Seed of the run.
    fingerprint : str
        Sixteen hex digits that are the same whenever the same packets met at the same times.
    scenario : dict
        The scenario that was run, after overrides.
    totals : dict
        Sums over all flows, such as ``goodput_bit_s``, ``jain_index`` and ``timeouts``.

    Examples
    --------
    >>> import lasthop as lh
    >>> run = lh.run(lh.Scenario(lh.EXAMPLE), seed=7)
    >>> run.seed
    7
    >>> run.flows["transport"].to_list()
    ['reno', 'vegas']
    >>> run.links.columns[:3]
    ['name', 'avg_queue_packets', 'avg_system_packets']
    """

    def __init__(
        self, record: Mapping[str, Any], scenario: Mapping[str, Any], engine_version: str, tables: TableSource
    ) -> None:
        super().__init__()
        self._record = dict(record)
        self._tables = tables
        self._known: dict[str, Table] = {}
        self.scenario = dict(scenario)
        self.engine_version = engine_version
        self.seed: int = self._record["seed"]
        self.fingerprint: str = self._record["fingerprint"]
        self.totals: dict[str, Any] = dict(self._record["totals"])

    @property
    def wall_s(self) -> float:
        """Seconds of wall-clock time that the run took."""
        return float(self._record["wall_s"])

    @property
    def duration_s(self) -> float:
        """Simulated seconds."""
        return float(self._record["duration_s"])

    @property
    def packet_hops(self) -> int:
        """How often a packet crossed a link: the amount of work in the run."""
        return int(self._record["packet_hops"])

    @property
    def flows(self) -> pl.DataFrame:
        """One row per flow: goodput, losses by cause, RTT, delay and so on."""
        return self.summary("flows")

    @property
    def links(self) -> pl.DataFrame:
        """One row per link and direction: queue, utilisation, drops by cause."""
        return self.summary("links")

    @property
    def radio_series(self) -> pl.DataFrame:
        """Per radio link, direction and interval: what the MACs counted. Needs ``series=True`` and a cell."""
        return self._frame("radio_series")

    @property
    def helper_series(self) -> pl.DataFrame:
        """Per link with a helper and interval: what it counted, and what it holds. Needs ``series=True``."""
        return self._frame("helper_series")

    @property
    def frames(self) -> pl.DataFrame:
        """The air: one row per frame and station that had it. Needs ``trace=True`` and a cell."""
        return self._frame("frames")

    @property
    def hops(self) -> pl.DataFrame:
        """The packet trace: one row per packet and link. Needs ``trace=True``."""
        return self._frame("hops")

    @property
    def windows(self) -> pl.DataFrame:
        """Every change of a congestion window. Needs ``trace=True``."""
        return self._frame("windows")

    def summary(self, name: str) -> pl.DataFrame:
        """Return the table ``runs`` (one row, with the totals), ``flows`` or ``links``."""
        return self._frame(name)

    def has_table(self, name: str) -> bool:
        """Whether the run carries a large table: ``flow_series``, ``hops``, ``windows`` and their like."""
        return name in self._known or self._tables.has(name)

    def table_file(self, name: str) -> Path | None:
        """Return the file in which a large table lies already, behind a column with the seed."""
        return self._tables.file(name)

    def table(self, name: str) -> Table:
        """Return a table as it is there: any library that speaks Arrow takes it, and no package is needed.

        Parameters
        ----------
        name : str
            ``runs``, ``flows``, ``links``, or one of those that `has_table` knows.
        """
        if name in SUMMARIES and name not in self._known:
            made = self._tables.summary(name)
            self._known[name] = summary_of(self._record, name) if made is None else made
        if name not in self._known:
            table = self._tables.table(name)
            if table is None:
                raise _lacks(name, columns.on_demand()[name])
            self._known[name] = table
        return self._known[name]

    @property
    def logged(self) -> list[str]:
        """The flows of which the run carries a qlog that is not made from the trace."""
        return self._tables.logged()

    def write_log(self, path: Path, flow: str) -> None:
        """Write the qlog of one of `logged` as it is there."""
        self._tables.write_log(path, flow)

    @property
    def captured_at(self) -> list[str]:
        """The places whose captures are saved with the run."""
        return self._tables.captured_at()

    def write_pcapng(self, path: str | Path, at: str | None = None) -> None:
        """Write a capture that Wireshark and tshark open. Needs ``trace=True`` or ``capture_at``.

        Parameters
        ----------
        path : path
            Where to.
        at : str, optional
            A node or a link by its name, ``"senders"`` for the hosts of all senders, or ``"links"`` for every
            link, on each of which a packet appears. The first of `captured_at` if not given: the senders, if
            nothing else was asked for.
        """
        from pathlib import Path

        from lasthop.files import replacing

        if not self.captured_at:
            raise _lacks("packet trace", "trace")
        with replacing(Path(path)) as temporary:
            self._tables.write_pcapng(temporary, self.captured_at[0] if at is None else at)

    def write_qlog(self, path: str | Path, flow: str | None = None) -> None:
        """Write what the sender of a flow did as qlog, which qvis opens. Needs ``trace=True``.

        Of TCP it is made from the trace; over a real stack that writes one, it is the stack's own.

        Parameters
        ----------
        path : path
            Where to. It is JSON-SEQ, whose files end in ``.sqlog``.
        flow : str, optional
            The flow by its name; need not be given if there is only one.

        Examples
        --------
        >>> import json, lasthop as lh, pathlib, tempfile
        >>> run = lh.run(lh.Scenario(lh.EXAMPLE), trace=True)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "flow.sqlog")
        ...     run.write_qlog(path, run.flows["name"][0])
        ...     head = json.loads(path.read_text().split(chr(30))[1])
        >>> head["qlog_version"], head["trace"]["common_fields"]["protocol_type"]
        ('0.3', ['TCP'])
        """
        from pathlib import Path

        from lasthop import qlog
        from lasthop.files import replacing

        with replacing(Path(path)) as temporary:
            qlog.write(self, temporary, flow)

    def plot(
        self, *paths: str | Path, law: str | None = None, cdf: str | None = None, box: str | None = None
    ) -> Picture:
        """Draw window, queue, throughput and RTT over time; each path's ending chooses PNG, SVG, PDF or HTML.

        `law` is a closed form to lay over the throughput, by its name in `lasthop.laws.LAWS`. Needs
        ``series=True``. With `cdf` draw instead the distribution of a column: of flows, such as
        ``"goodput"``; of their series, such as ``"rtt"``; or ``"packet_delay"``, which needs ``trace=True``.
        With `box` draw a box of a column of flows for each class, of ``"completion"`` also by length.
        Returns what was drawn: a notebook shows it, its ``figure`` is matplotlib's.

        Examples
        --------
        >>> import lasthop as lh, pathlib, tempfile
        >>> run = lh.run(lh.Scenario(lh.EXAMPLE), series=True)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     picture = pathlib.Path(folder, "run.svg")
        ...     drawn = run.plot(picture)
        ...     picture.exists(), len(drawn.figure.axes)
        (True, 4)
        """
        from lasthop.plot import plot_run

        return plot_run(self, *paths, law=law, cdf=cdf, box=box)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the large tables, as ``lasthop run --json`` prints it."""
        return Runs([self]).to_dict()

    @property
    def record(self) -> dict[str, Any]:
        """The element of ``runs[]`` in the JSON object."""
        return self._record

    def _content(self) -> RenderableType:
        from lasthop.tables import runs_table

        return runs_table(Runs([self]))

    def _save(self, folder: str | Path, table_format: str, *, force: bool) -> None:
        from lasthop.output import save_runs

        save_runs(Runs([self]), folder, table_format, force=force)


class Runs(Shown, Sequence[Run]):
    """Runs of one scenario with different seeds, in the order of the seeds asked for.

    Examples
    --------
    >>> import lasthop as lh
    >>> runs = lh.run_seeds(lh.Scenario(lh.EXAMPLE), range(1, 4))
    >>> [run.seed for run in runs]
    [1, 2, 3]
    >>> runs.totals["seed"].to_list()
    [1, 2, 3]
    >>> runs.flows.height
    6
    """

    def __init__(self, runs: Iterable[Run]) -> None:
        super().__init__()
        self._runs = list(runs)
        if not self._runs:
            raise ArgumentError("no runs given: at least one is needed")

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Run]: ...
    def __getitem__(self, index: int | slice) -> Run | Sequence[Run]:
        """Return one run, or several as a list."""
        return self._runs[index]

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    @property
    def scenario(self) -> dict[str, Any]:
        """The scenario that was run, after overrides."""
        return self._runs[0].scenario

    @property
    def seeds(self) -> list[int]:
        """The seeds."""
        return [run.seed for run in self._runs]

    @property
    def flows(self) -> pl.DataFrame:
        """One row per seed and flow."""
        return self._frame("flows")

    @property
    def links(self) -> pl.DataFrame:
        """One row per seed, link and direction."""
        return self._frame("links")

    @property
    def totals(self) -> pl.DataFrame:
        """One row per seed: the sums over all flows."""
        rows = _native.ArrowTable.concat([arrow_of(run.table("runs")) for run in self._runs])
        totals = [name for name in columns.declared("totals") if name in rows.columns]
        drawn = [name for name in rows.columns if name.startswith(columns.DRAWN)]
        return frame_of(rows.select(["seed", "fingerprint", "wall_s", *totals, *drawn]))

    def table(self, name: str) -> _native.ArrowTable:
        """Return the rows of every run in one table, behind their seed; see `Run.table`."""
        parts = [arrow_of(run.table(name)).led_by("seed", run.seed) for run in self._runs]
        together = _native.ArrowTable.concat(parts)
        return together.select(_in_usual_order(name, together.columns)) if name in SUMMARIES else together

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the large tables, as ``lasthop run --json`` prints it."""
        first = self._runs[0]
        return {
            "scenario": first.scenario,
            "engine_version": first.engine_version,
            "runs": [run.record for run in self._runs],
        }

    def _content(self) -> RenderableType:
        from lasthop.tables import runs_table

        return runs_table(self)

    def _save(self, folder: str | Path, table_format: str, *, force: bool) -> None:
        from lasthop.output import save_runs

        save_runs(self, folder, table_format, force=force)


def summary_of(record: Mapping[str, Any], name: str) -> _native.ArrowTable:
    """Return the table ``runs``, ``flows`` or ``links`` that the JSON object of a run stands for."""
    if name != "runs":
        return columns.table_of(name, record[name])
    return columns.table_of("runs", [record]).beside(columns.table_of("totals", [record["totals"]]))


def _in_usual_order(table: str, names: Iterable[str]) -> list[str]:
    """Return the names of columns in the order in which their table declares them, the seed first."""
    order = {name: place for place, name in enumerate(columns.declared(table))}

    def place(name: str) -> int:
        # Of one that its table has a pattern for, the place is that of the pattern.
        return order.get(name, order.get(_declared_name(table, name), -1))

    return sorted(names, key=place)


def _declared_name(table: str, name: str) -> str:
    column = columns.find(table, name)
    return "" if column is None else column.pattern


def _lacks(what: str, switch: str) -> ArgumentError:
    return ArgumentError(
        f"this run has no {what.replace('_', ' ')}: run it with --{switch} ({switch}=True in Python)"
    )
