"""What runs leave behind: `Run` (one seed) and `Runs` (several seeds of one scenario), with their tables.

Made by `lasthop.api` from native results and by `lasthop.output` from saved folders; read by tables, plots
and users.
"""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, overload

from lasthop.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    import polars as pl

    from lasthop import _native

#: Tables that a run may carry, and the switch that makes it carry them.
TABLE_SWITCH = {"flow_series": "series", "link_series": "series", "hops": "trace", "windows": "trace"}

#: Causes of loss; each becomes a column.
LOSS_CAUSES = ("queue-overflow", "channel-error", "outage", "link-gave-up")

#: What a loss was, and what a sender that tells losses apart may have taken it for.
LOSS_KINDS = ("congestion", "wireless", "nothing")
LOSS_BELIEFS = ("congestion", "wireless")

#: Names of those columns.
CAUSE_COLUMNS = {
    "packets_lost": "lost_{}_packets",
    "acks_lost": "lost_{}_acks",
    "drops": "dropped_{}_packets",
}


class TableSource(Protocol):
    """Where a run's large tables come from: the native module or a saved folder."""

    def table(self, name: str) -> pl.DataFrame | None:
        """Return the table called `name`, or `None` if the run does not carry it."""

    def write_pcapng(self, path: Path) -> None:
        """Write the packet trace as a capture file."""


class NativeTables:
    """The tables of a run that was made in this process, handed over as Arrow without copying."""

    def __init__(self, native: _native.RunResult | None) -> None:
        self._native = native

    def table(self, name: str) -> pl.DataFrame | None:
        """Return the table called `name`, or `None` if the run does not carry it."""
        import polars as pl

        table = None if self._native is None else self._native.table(name)
        return None if table is None else pl.DataFrame(table)

    def write_pcapng(self, path: Path) -> None:
        """Write the packet trace as a capture file."""
        if self._native is not None:
            self._native.write_pcapng(str(path))


class Run:
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
        self._record = dict(record)
        self._tables = tables
        self._cache: dict[str, pl.DataFrame] = {}
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
        return flows_frame([self._record])

    @property
    def links(self) -> pl.DataFrame:
        """One row per link and direction: queue, utilisation, drops by cause."""
        return links_frame([self._record])

    @property
    def series(self) -> pl.DataFrame:
        """Per flow and interval: window, threshold, RTT, throughput. Needs ``series=True``."""
        return self._table("flow_series")

    @property
    def link_series(self) -> pl.DataFrame:
        """Per link and interval: queue, throughput, utilisation. Needs ``series=True``."""
        return self._table("link_series")

    @property
    def hops(self) -> pl.DataFrame:
        """The packet trace: one row per packet and link. Needs ``trace=True``."""
        return self._table("hops")

    @property
    def windows(self) -> pl.DataFrame:
        """Every change of a congestion window. Needs ``trace=True``."""
        return self._table("windows")

    def has_table(self, name: str) -> bool:
        """Whether the run carries ``flow_series``, ``link_series``, ``hops`` or ``windows``."""
        if name not in self._cache and (table := self._tables.table(name)) is not None:
            self._cache[name] = table
        return name in self._cache

    def write_pcapng(self, path: str | Path) -> None:
        """Write the packet trace as a capture that Wireshark and tshark open. Needs ``trace=True``."""
        from pathlib import Path

        from lasthop.output import replacing

        if not self.has_table("hops"):
            raise _lacks("packet trace", "trace")
        with replacing(Path(path)) as temporary:
            self._tables.write_pcapng(temporary)

    def plot(self, *paths: str | Path) -> None:
        """Draw window, queue, throughput and RTT over time; each path's ending chooses PNG, SVG, PDF or HTML.

        Needs ``series=True``.

        Examples
        --------
        >>> import lasthop as lh, pathlib, tempfile
        >>> run = lh.run(lh.Scenario(lh.EXAMPLE), series=True)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     picture = pathlib.Path(folder, "run.svg")
        ...     run.plot(picture)
        ...     picture.exists()
        True
        """
        from lasthop.plot import plot_run

        plot_run(self, *paths)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the large tables, as ``lasthop run --json`` prints it."""
        return Runs([self]).to_dict()

    def to_json(self) -> str:
        """Return the same object as JSON text."""
        return json.dumps(self.to_dict())

    @property
    def record(self) -> dict[str, Any]:
        """The element of ``runs[]`` in the JSON object."""
        return self._record

    def _table(self, name: str) -> pl.DataFrame:
        if not self.has_table(name):
            raise _lacks(name, TABLE_SWITCH[name])
        return self._cache[name]

    def __repr__(self) -> str:
        from lasthop.tables import render_runs

        return render_runs(Runs([self]))

    def _repr_html_(self) -> str:
        return Runs([self])._repr_html_()


class Runs(Sequence[Run]):
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
        return flows_frame([run.record for run in self._runs], with_seed=True)

    @property
    def links(self) -> pl.DataFrame:
        """One row per seed, link and direction."""
        return links_frame([run.record for run in self._runs], with_seed=True)

    @property
    def totals(self) -> pl.DataFrame:
        """One row per seed: the sums over all flows."""
        return frame(
            {"seed": run.seed, "fingerprint": run.fingerprint, "wall_s": run.wall_s}
            | flatten_causes(run.totals)
            for run in self._runs
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the large tables, as ``lasthop run --json`` prints it."""
        first = self._runs[0]
        return {
            "scenario": first.scenario,
            "engine_version": first.engine_version,
            "runs": [run.record for run in self._runs],
        }

    def to_json(self) -> str:
        """Return the same object as JSON text."""
        return json.dumps(self.to_dict())

    def save(self, folder: str | Path, table_format: str = "parquet") -> None:
        """Write the folder that ``lasthop run --out`` writes; ``lasthop.load_runs`` reads it back.

        Parameters
        ----------
        folder : path
            Made if need be; a run that was saved there before is replaced.
        table_format : {"parquet", "csv", "arrow"}
            Format of the tables.
        """
        from lasthop.output import save_runs

        save_runs(self, folder, table_format)

    def __repr__(self) -> str:
        from lasthop.tables import render_runs

        return render_runs(self)

    def _repr_html_(self) -> str:
        name = html.escape(str(self.scenario.get("name", "scenario")))
        count = f"{len(self)} seeds" if len(self) > 1 else f"seed {self[0].seed}"
        return f"<p><b>{name}</b>, {count}</p>{self.totals._repr_html_()}{self.flows._repr_html_()}"


def flows_frame(records: Iterable[Mapping[str, Any]], *, with_seed: bool = False) -> pl.DataFrame:
    """Table of the flows of several run records; losses by cause become columns."""
    return frame(_rows(records, "flows", with_seed))


def links_frame(records: Iterable[Mapping[str, Any]], *, with_seed: bool = False) -> pl.DataFrame:
    """Table of the links of several run records; drops by cause become columns."""
    return frame(_rows(records, "links", with_seed))


def _rows(records: Iterable[Mapping[str, Any]], kind: str, with_seed: bool) -> Iterator[dict[str, Any]]:  # noqa: FBT001
    for record in records:
        seed = {"seed": record["seed"]} if with_seed else {}
        yield from (seed | flatten_causes(row) for row in record[kind])


def flatten_causes(row: Mapping[str, Any]) -> dict[str, Any]:
    """Replace each mapping from causes to counts by one column per cause, which every file format can hold.

    Examples
    --------
    >>> flatten_causes({"name": "a", "drops": {"outage": 2}})
    {'name': 'a', 'dropped_queue_overflow_packets': 0, 'dropped_channel_error_packets': 0,
     'dropped_outage_packets': 2, 'dropped_link_gave_up_packets': 0}
    """
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if name == "loss_verdicts":
            flat |= _flatten_verdicts(value)
        elif name == "realtime":
            flat |= _flatten_realtime(value)
        elif isinstance(value, dict):
            counts = dict.fromkeys(LOSS_CAUSES, 0) | value
            column = CAUSE_COLUMNS.get(name, f"{name}_{{}}")
            flat |= {column.format(cause.replace("-", "_")): count for cause, count in counts.items()}
        else:
            flat[name] = value
    return flat


def _flatten_verdicts(verdicts: Mapping[str, Mapping[str, int]] | None) -> dict[str, int]:
    """One column per field of the matrix, and none for senders that do not tell losses apart."""
    if verdicts is None:
        return {}
    return {
        f"{kind}_taken_for_{belief}_losses": verdicts[kind][belief]
        for kind in LOSS_KINDS
        for belief in LOSS_BELIEFS
    }


def _flatten_realtime(metrics: Mapping[str, Any] | None) -> dict[str, Any]:
    """One column per number, none for flows not measured so; the definitions stay in the JSON."""
    return {} if metrics is None else {name: value for name, value in metrics.items() if name != "options"}


def frame(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Table of rows; a column that has no value anywhere is a column of missing numbers."""
    import polars as pl

    table = pl.DataFrame(list(rows), infer_schema_length=None)
    return table.with_columns(pl.col(pl.Null).cast(pl.Float64))


def _lacks(what: str, switch: str) -> ArgumentError:
    return ArgumentError(f"this run has no {what.replace('_', ' ')}: run it with {switch}=True (--{switch})")
