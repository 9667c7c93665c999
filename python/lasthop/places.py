"""Folders of results: what one holds, who is at work in it, and the refusal to lose what is there.

Every writer of a folder goes through `reserved` or `refuse_other`, whatever it writes: runs, comparisons,
studies, reproductions. Nothing here writes results or deletes any.
"""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from lasthop import unfinished
from lasthop.columns import on_demand
from lasthop.errors import ArgumentError, OutputError
from lasthop.files import LONGEST, check_folder, read_at_most

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

RESULT, COMPARISON, STUDY, STUDIES, REPORT = (
    "result.json",
    "comparison.json",
    "study.json",
    "studies",
    "report.md",
)
#: Folders of the store of a study.
STORE = ("runs", STUDIES)
#: Tables that a run or a comparison may leave, and the formats they may have.
TABLES = ("flows", "links", *on_demand(), "means", "differences")
TABLE_FORMATS = ("parquet", "csv", "arrow")
NAMED_MAX = 4
#: Where packets are captured if nothing else is asked for: at the hosts of the senders.
SENDERS = "senders"


def kind_of(folder: str | Path) -> str | None:
    """Return what is there: ``run``, ``comparison``, ``study``, ``reproduction``, ``tables`` or `None`."""
    path = Path(folder)
    unfinished.finish(path)
    if (path / RESULT).exists():
        return "run"
    if (path / COMPARISON).exists():
        return "comparison"
    if (path / REPORT).exists() and (path / "runs").is_dir():
        return "reproduction"
    if (path / STUDY).exists() or any((path / name).is_dir() for name in STORE):
        return "study"
    with suppress(OSError):
        if any(is_table(file.name) for file in path.iterdir()):
            return "tables"
    return None


def capture_file(place: str, seed: int | None = None) -> str:
    """Return the name of the file with what was captured at a place; `seed` where several are in a folder.

    Examples
    --------
    >>> capture_file("senders"), capture_file("access link 1"), capture_file("left", 7)
    ('capture.pcapng', 'capture-at-access%20link%201.pcapng', 'capture-7-at-left.pcapng')
    """
    of_seed = "" if seed is None else f"-{seed}"
    at = "" if place == SENDERS else f"-at-{quote(place, safe='')}"
    return f"capture{of_seed}{at}.pcapng"


def captures_in(folder: Path, seed: int) -> dict[str, Path]:
    """Return the captures of a seed in a folder: place -> file."""
    found: dict[str, Path] = {}
    for start in (f"capture-{seed}", "capture"):
        for path in sorted(folder.glob(f"{start}*.pcapng")):
            rest = path.stem.removeprefix(start)
            if not rest or rest.startswith("-at-"):
                found.setdefault(unquote(rest.removeprefix("-at-")) or SENDERS, path)
    return found


def qlog_file(flow: str, seed: int | None = None) -> str:
    """Return the name of the file with the qlog of a flow; `seed` where several are in a folder.

    Examples
    --------
    >>> qlog_file("a/b"), qlog_file("left", 7)
    ('qlog-of-a%2Fb.sqlog', 'qlog-7-of-left.sqlog')
    """
    return f"qlog{'' if seed is None else f'-{seed}'}-of-{quote(flow, safe='')}.sqlog"


def qlogs_in(folder: Path, seed: int) -> dict[str, Path]:
    """Return the qlogs of a seed in a folder: flow -> file."""
    found: dict[str, Path] = {}
    for start in (f"qlog-{seed}-of-", "qlog-of-"):
        for path in sorted(folder.glob(f"{start}*.sqlog")):
            found.setdefault(unquote(path.stem.removeprefix(start)), path)
    return found


def not_captured(at: str, known: Sequence[str]) -> ArgumentError:
    """Return the error of a run that was captured elsewhere."""
    there = ", ".join(repr(place) for place in known)
    return ArgumentError(
        f"this run was not captured at {at!r} but at {there}: "
        f"run it with capture_at=[{at!r}] (--capture-at {at})"
    )


def is_table(name: str) -> bool:
    """Whether a file has the name of a table, capture or qlog that a run or a comparison writes.

    Examples
    --------
    >>> names = ("flows.parquet", "capture-3.pcapng", "qlog-of-left.sqlog", "flows.toml", "notes.csv")
    >>> [is_table(name) for name in names]
    [True, True, True, False, False]
    """
    stem, _, ending = name.partition(".")
    if ending == "pcapng":
        return stem == "capture" or stem.startswith("capture-")
    if name.endswith(".sqlog"):
        return name.startswith("qlog-")
    return stem in TABLES and ending in TABLE_FORMATS


@contextmanager
def reserved(folder: str | Path, *, force: bool = False) -> Iterator[None]:
    """Hold a folder for the runs or the comparison to be written there, made if need be.

    Parameters
    ----------
    folder : path
        Refused if results are in it, or if another process writes there.
    force : bool
        Whether a run or a comparison that is there may be replaced. A study never is: it moves aside by
        ``study run --fresh``.

    Raises
    ------
    OutputError
        Saying what is there and what to do.
    """
    from lasthop.studies.locks import WHOLE, locked

    path = Path(folder)
    check_folder(path)
    before = set(path.iterdir())
    with locked(path, None):
        try:
            refuse_used(path, force=force)
            yield
        finally:
            # A process that opened it sees that it is gone and takes another. A study keeps its own.
            if path / WHOLE not in before:
                with suppress(OSError):
                    (path / WHOLE).unlink()


def refuse_used(folder: Path, *, force: bool) -> None:
    """Refuse a folder that holds results, or with `force` only those that are never replaced."""
    kind = kind_of(folder)
    if kind is None or (force and kind in ("run", "comparison", "tables")):
        return
    if kind in ("study", "reproduction"):
        raise OutputError(
            f"'{folder}' holds {_described(folder, kind)}, and its results would be mixed with others: "
            "choose another folder"
        )
    raise OutputError(
        f"'{folder}' holds {_described(folder, kind)}, which would be lost: choose another folder, or say "
        "--force (force=True) to replace it"
    )


def refuse_other(folder: Path, *allowed: str) -> None:
    """Refuse a folder that holds anything but what is to be continued there."""
    kind = kind_of(folder)
    if kind is not None and kind not in allowed:
        raise OutputError(
            f"'{folder}' holds {_described(folder, kind)}, and its results would be mixed with others: "
            "choose another folder with --out"
        )


def _described(folder: Path, kind: str) -> str:
    """Return what is there for people."""
    if kind == "tables":
        return "tables of an unfinished run"
    if kind == "reproduction":
        return "the reproduction of a paper"
    if kind == "study":
        name = _read(folder / STUDY).get("study", {}).get("name")
        return f"the study {name!r}" if name else "runs of studies"
    content = _read(folder / (RESULT if kind == "run" else COMPARISON))
    name = content.get("scenario", {}).get("name")
    of = f" of {name!r}" if name else ""
    if kind == "comparison":
        return f"a comparison{of}"
    seeds = [str(run.get("seed")) for run in content.get("runs", []) if isinstance(run, dict)]
    if not seeds:
        return f"a run{of}"
    shown = ", ".join(seeds[:NAMED_MAX]) + (", …" if len(seeds) > NAMED_MAX else "")
    return f"a run{of}, seed{'s' if len(seeds) > 1 else ''} {shown}"


def _read(path: Path) -> dict[str, Any]:
    """Read a description; one that is damaged describes nothing."""
    try:
        content = json.loads(read_at_most(path, LONGEST) or b"")
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
