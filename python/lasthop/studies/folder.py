"""The folder of a study: what describes it, its tidy table, and reading both back.

A folder of one study has ``study.json`` and ``results.parquet``; one of many has both in ``studies/<name>/``.
The runs beside them belong to the store. Called by `execute`, and by the readers of a study: plots, reports.
"""

from __future__ import annotations

import functools
import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop import _native
from lasthop._native import ArrowTable
from lasthop.arrow import frame_of
from lasthop.errors import OutputError
from lasthop.files import reason_of, replacing, write_text
from lasthop.output import packed
from lasthop.seals import FILES_KEY, DamagedError, digest_of, read_sealed, sealed, warn_unchecked
from lasthop.shape import check_shape
from lasthop.studies.store import (
    METADATA,
    RUNS,
    SERIES,
    GoneError,
    Store,
    damage_named,
    room_wanted,
    versions,
)
from lasthop.studies.study import Study

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import polars as pl

    from lasthop.studies.execute import Campaign
    from lasthop.studies.parts import Value

#: How many rows of a kept table are read at a time, about: a trace of one run may have a million.
ROWS_AT_ONCE = 300_000
STUDY, RESULTS, STUDIES = "study.json", "results.parquet", "studies"
#: What is read of the description.
SHAPE = {
    "study": {"name": str},
    "arguments": {},
    "versions": {"*": str},
    "runs": {"wanted": int},
    "until?": {"unmet?": [str]},
    f"{FILES_KEY}?": {"*": [str]},
}
#: Of the tidy table: 2 says that its values are in units of the SI, whatever the study scales.
TABLE_FORMAT = 2


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that failed.

    Attributes
    ----------
    settings : dict
        Where it stood on each axis.
    seed : int
        Its seed.
    error : str
        Why.
    """

    settings: dict[str, Value]
    seed: int
    error: str

    def __str__(self) -> str:
        places = [f"{name}={value}" for name, value in self.settings.items()]
        return f"{', '.join([*places, f'seed {self.seed}'])}: {self.error}"


class StudyResult:
    """A study and what its folder holds of it.

    Attributes
    ----------
    study : Study
        The study.
    rows : ArrowTable
        The same as `table`, without Polars.
    table : polars.DataFrame
        One row per point and seed: a column per axis, ``seed``, a column per metric, ``state``, ``error``,
        ``run``, ``fingerprint``, ``packet_hops``, ``wall_s``, ``engine_version``. Metrics are in their
        `Metric.table_unit`, not scaled.
    folder : Path
        Where it lies.
    versions : dict
        What made it.
    wanted : int
        How many runs the study asks for; fewer rows than that are there while it is not complete.
    unmet : list of str
        Points that ``--until`` gave up, with the reason.
    """

    def __init__(self, study: Study, rows: ArrowTable, folder: Path, description: dict[str, Any]) -> None:
        self.study = study
        self.rows = rows
        self.folder = folder
        self._table: pl.DataFrame | None = None
        self.versions: dict[str, str] = description["versions"]
        self.wanted: int = description["runs"]["wanted"]
        self.unmet: list[str] = (description.get("until") or {}).get("unmet", [])

    @functools.cached_property
    def _store(self) -> Store:
        # One for all: it checks each file once.
        return Store(self.folder)

    def check_store(self) -> None:
        """Refuse a study whose runs are damaged, whether they are read now or not; large ones when they are.

        While another process is at work there, its files change: then each is checked when it is read.
        """
        with suppress(GoneError):
            if self._store.is_small():
                self._store.check(series=True)

    @property
    def table(self) -> pl.DataFrame:
        """One row per point and seed, as a data frame."""
        if self._table is None:
            self._table = frame_of(self.rows)
        return self._table

    @property
    def done(self) -> int:
        """How many runs are there and did not fail."""
        return self.rows["state"].count("done")

    @property
    def failed(self) -> list[Failure]:
        """The runs that failed."""
        names = [axis.name for axis in self.study.axes]
        columns = [self.rows[name] for name in ("state", "seed", "error", *names)]
        # A column of numbers has one type; the file's own 0 is not 0.0.
        return [
            Failure(
                {
                    axis.name: axis.values[axis.values.index(value)]
                    for axis, value in zip(self.study.axes, settings, strict=True)
                },
                seed,
                error,
            )
            for state, seed, error, *settings in zip(*columns, strict=True)
            if state == "failed"
        ]

    @property
    def unfolded(self) -> int:
        """How many runs the folder holds that the table does not have yet, as after a kill."""
        runs = self._store.runs(["run", "seed"])
        known = set(self.rows["run"])
        mine = set(self.study.seeds)
        return sum(
            run not in known and seed in mine for run, seed in zip(runs["run"], runs["seed"], strict=True)
        )

    @property
    def is_complete(self) -> bool:
        """Whether every run is there and none failed."""
        return self.done == self.wanted

    def series(self, name: str) -> pl.DataFrame:
        """Return rows of all runs of the study: a column per axis, ``seed``, and those of the table.

        Parameters
        ----------
        name : str
            A kept table, or ``flows`` or ``links``.
        """
        return self._rows_of(name, self.rows["run"])

    def series_in_parts(
        self, name: str, columns: Iterable[str] | None = None, rows: int = ROWS_AT_ONCE
    ) -> Iterator[pl.DataFrame]:
        """Yield what `series` returns, some runs at a time: tables that are too large to be held at once.

        Runs come as they lie in files.

        Parameters
        ----------
        name : str
            As for `series`.
        columns : iterable of str, optional
            Columns of the table that are wanted; those that it does not have are left out.
        rows : int
            How many rows at a time, about; a run is never parted.
        """
        wanted = None if columns is None else list(columns)
        for runs in self._store.runs_together(self._stored(name), self.rows["run"], rows):
            yield self._rows_of(name, runs, wanted)

    def stored(self, name: str, columns: Sequence[str]) -> ArrowTable | None:
        """Return columns of ``runs``, ``flows`` or ``links`` for the runs of the study, led by ``run``.

        Those that are not there are left out.
        """
        runs = self.rows["run"]
        if name == RUNS:
            return self._store.runs(columns).matching("run", set(runs))
        return self._store.table(name, runs, columns)

    def _stored(self, name: str) -> str:
        """Return what the store calls a table."""
        kept = {keep.name: f"{SERIES}/{keep.identity}" for keep in self.study.keep}
        known = {"flows": "flows", "links": "links"} | kept
        if name not in known:
            raise OutputError(f"the study keeps no {name!r}: it keeps {', '.join(known)}")
        return known[name]

    def _rows_of(self, name: str, runs: Iterable[str], columns: Sequence[str] | None = None) -> pl.DataFrame:
        found = self._store.table(self._stored(name), runs, columns)
        places = self.table.select(*(axis.name for axis in self.study.axes), "seed", "run")
        if found is None:
            return places.clear().drop("run")
        rows = frame_of(found)
        clash = {column: f"{column}_of_row" for column in rows.columns if column in places.columns[:-1]}
        joined = places.join(rows.rename(clash), on="run", how="inner", maintain_order="left_right")
        return joined.drop("run")

    def _repr_html_(self) -> str:
        from lasthop.formats import as_html
        from lasthop.studies.digest import make_digest
        from lasthop.studies.show import digest_tables

        return as_html(digest_tables(make_digest(self.study, self.table)))

    def __repr__(self) -> str:
        return f"<StudyResult {self.study.name!r}: {self.done} of {self.wanted} runs in {self.folder}>"


def place_of(campaign: Campaign, study: Study) -> Path:
    """Return the folder that describes one study of a campaign."""
    return campaign.folder if campaign.single else campaign.folder / STUDIES / study.name


def has_results(folder: Path) -> bool:
    """Whether the folder is one of studies."""
    return any((folder / name).exists() for name in (STUDY, STUDIES, RUNS))


def check_made_by_this(campaign: Campaign, store: Store) -> None:
    """Refuse a folder of another study, or one made by another version of the engine."""
    described = [place_of(campaign, study) for study in campaign.studies]
    made_by = set(store.engine_versions())
    for place, study in zip(described, campaign.studies, strict=True):
        if (place / STUDY).exists():
            content = _describe(place / STUDY)
            made_by.add(content["versions"]["engine_version"])
            if content["study"]["name"] != study.name:
                raise OutputError(
                    f"'{place}' holds the study {content['study']['name']!r}, not {study.name!r}: "
                    "choose another folder with --out"
                )
    others = sorted(made_by - {_native.__version__})
    if others:
        raise OutputError(
            f"'{campaign.folder}' was made by engine {', '.join(others)}, this is {_native.__version__}: "
            "their results do not belong together. Use --fresh, which moves the folder aside, or choose "
            "another folder with --out; nothing was changed"
        )


def describe(campaign: Campaign) -> None:
    """Write ``study.json`` of each study before its runs, but where there is one that says the same."""
    for study in campaign.studies:
        path = place_of(campaign, study) / STUDY
        before = _describe(path) if path.exists() else {}
        content = _description(campaign, study)
        if {key: before.get(key) for key in ("study", "arguments")} != {
            key: json.loads(json.dumps(content[key])) for key in ("study", "arguments")
        }:
            _write_description(path, content, before, before.get(FILES_KEY, {}))


def _write_description(
    path: Path, content: dict[str, Any], before: dict[str, Any], files: dict[str, list[str]]
) -> None:
    created = before.get("created", datetime.now(UTC).isoformat(timespec="seconds"))
    path.parent.mkdir(parents=True, exist_ok=True)
    with room_wanted():
        write_text(path, sealed(content | {"created": created, FILES_KEY: files}))


def _description(campaign: Campaign, study: Study) -> dict[str, Any]:
    until = campaign.until
    return {
        "study": study.to_dict(),
        "arguments": study.arguments,
        "file": Path(study.file).name,
        "versions": versions(),
        "runs": {"wanted": sum(len(cell.seeds) for cell in campaign.cells[study.name])},
        "series": {keep.name: f"{SERIES}/{keep.identity}" for keep in study.keep},
        "until": None
        if until is None
        else {
            "metric": until.metric_of(study).name,
            "share": until.share,
            "seeds_max": campaign.seeds_max,
            "unmet": campaign.unmet.get(study.name, []),
        },
    }


def write_table_of(campaign: Campaign, study: Study, table: ArrowTable) -> None:
    """Write the tidy table of one study, and ``study.json`` with its digest before it.

    A process that is killed between the two leaves the table of before, whose digest stands there as well.
    """
    path, place = place_of(campaign, study) / RESULTS, place_of(campaign, study) / STUDY
    said = {metric.name: metric.meaning for metric in study.metrics} | {
        axis.name: {"label": axis.label, **({"unit": axis.unit} if axis.unit else {})} for axis in study.axes
    }
    metadata = {METADATA: json.dumps({"format": TABLE_FORMAT, "study": study.name, "units": "SI"})}
    content = packed(table, "parquet", said, metadata)
    digests = [hashlib.sha256(content).hexdigest()]
    before = _describe(place) if place.exists() else {}
    if path.exists() and (there := digest_of(path)) in before.get(FILES_KEY, {}).get(RESULTS, []):
        digests = list(dict.fromkeys([*digests, there]))
    updated = {"updated": datetime.now(UTC).isoformat(timespec="seconds")}
    _write_description(place, _description(campaign, study) | updated, before, {RESULTS: digests})
    with room_wanted(), replacing(path) as temporary:
        temporary.write_bytes(content)


def result_of(campaign: Campaign, study: Study, table: ArrowTable) -> StudyResult:
    """Return the result of one study of a campaign."""
    return StudyResult(study, table, campaign.folder, _description(campaign, study))


def load(folder: str | Path, name: str | None = None) -> StudyResult:
    """Read a study back from its folder.

    Parameters
    ----------
    folder : path
        What ``lasthop study run`` wrote.
    name : str, optional
        Which study, in a folder of several.

    Raises
    ------
    OutputError
        If there is none, or it is damaged.
    """
    folder = Path(folder)
    place = _find(folder, name)
    content = _describe(place / STUDY)
    path = place / RESULTS
    if not path.exists():
        there = len(set(Store(folder).runs(["run"])["run"]))
        so_far = f" but {there} runs" if there else ""
        raise OutputError(
            f"'{place}' has no {RESULTS} yet{so_far}: 'lasthop study run FILE --resume' makes what is "
            "missing and writes it"
        )
    with damage_named(path):
        digests = content.get(FILES_KEY, {}).get(RESULTS, [])
        if content.get("format") != 1 and digest_of(path) not in digests:
            raise OSError("it is not what was written: its SHA-256 differs")
        table = ArrowTable.read_parquet(path)
        words = ArrowTable.parquet_footer(path)[1].get(METADATA)
    if words is None:
        raise OutputError(
            f"'{path}' was written by an older lasthop, in units of the study: 'lasthop study run FILE "
            "--resume' writes it anew, in those of the SI, and runs nothing again"
        )
    study = Study.parse(
        content["study"], file=str(place / STUDY), arguments=content["arguments"], check=False
    )
    result = StudyResult(study, table, folder, content)
    result.check_store()
    return result


def names_in(folder: str | Path) -> list[str]:
    """Return the names of the studies in a folder."""
    folder = Path(folder)
    places = [folder, *sorted((folder / STUDIES).glob("*"))]
    return [_describe(place / STUDY)["study"]["name"] for place in places if (place / STUDY).exists()]


def _find(folder: Path, name: str | None) -> Path:
    if not folder.exists():
        raise OutputError(f"no study at '{folder}': there is no such folder")
    names = names_in(folder)
    if not names:
        raise OutputError(
            f"no study at '{folder}': it has no {STUDY}; 'lasthop study run FILE --out DIR' makes such a "
            "folder"
        )
    if name is None and len(names) > 1:
        raise OutputError(f"'{folder}' holds {len(names)} studies, name one: {', '.join(names)}")
    chosen = names[0] if name is None else name
    if chosen not in names:
        raise OutputError(f"'{folder}' holds no study {chosen!r}: it holds {', '.join(names)}")
    inside = folder / STUDIES / chosen
    return inside if (inside / STUDY).exists() else folder


def _describe(path: Path) -> dict[str, Any]:
    """Read a ``study.json``."""
    try:
        content, has_digest = read_sealed(path)
        if not has_digest:
            warn_unchecked(path)
        check_shape(content, SHAPE)
    except OSError as error:
        raise OutputError(f"cannot read '{path}': {reason_of(error)}") from None
    except DamagedError as error:
        raise OutputError(
            f"'{path}' is damaged ({error}): move it away and run the study with "
            "--resume, which writes it again; no run is lost"
        ) from None
    return content
