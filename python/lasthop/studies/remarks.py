"""What is worth a sentence about runs of a study: the remarks that a single run gets, once per kind.

Each kind names the points that have it. The scenario that the points start from is no run, and gets none.
Called by the commands `run`, `show` and `report` of studies.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lasthop.columns import declared
from lasthop.remarks import REMARKS
from lasthop.studies.store import FLOWS, LINKS, RUNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lasthop._native import ArrowTable
    from lasthop.studies.folder import StudyResult
    from lasthop.studies.study import Study

#: A figure in a sentence, with the prefix of its unit.
FIGURE = re.compile(r"[\d.]+( [kMGmµ](?=[a-zA-Z]))?")
#: Points that a remark names; of more it says how many there are.
NAMED_MAX = 4
#: Columns that remarks look at, and those that helpers declare for what they repeat.
OF_TOTALS = ("goodput_bit_s", "throughput_bit_s")
OF_FLOWS = ("name", "packets_sent", "bytes_delivered", "completion_s")
OF_LINKS = (
    "name",
    "utilisation",
    "packets_sent",
    "tied_drops",
    "tied_arrivals",
    "marks",
    "avg_queue_found_packets",
    "dropped_queue_overflow_packets",
    "dropped_early_drop_packets",
)
REPEATED = ("repairs", "retransmissions")


def of_scenarios(study: Study) -> list[str]:
    """Return what its scenarios say that their author may not have meant."""
    found: dict[str, list[tuple[str, str]]] = {}
    points = study.points()
    for point in points:
        for sentence in study.scenario_of(point).advice:
            # One kind with other figures is one remark.
            found.setdefault(FIGURE.sub("#", sentence), []).append((point.text, sentence))
    return [_told(of_kind, len(points)) for of_kind in found.values()]


def of_runs(result: StudyResult) -> list[str]:
    """Return what its runs show that the table of metrics does not."""
    points = _records_of(result)
    said = []
    for find in REMARKS:
        of_kind = [(text, " ".join(found)) for text, records in points.items() if (found := find(records))]
        if of_kind:
            said.append(_told(of_kind, len(points)))
    return said


def _told(of_kind: Sequence[tuple[str, str]], count: int) -> str:
    """Say a remark of one kind, and of which points it holds; figures are those of the first."""
    texts = list(dict.fromkeys(text for text, _ in of_kind))
    first, sentence = of_kind[0]
    if len(texts) == count:
        where = "every point" if count > 1 else first
    else:
        further = len(texts) - NAMED_MAX
        more = f" and {further} more point{'s' if further > 1 else ''}" if further > 0 else ""
        where = "; ".join(texts[:NAMED_MAX]) + more
    alike = len({sentence for _, sentence in of_kind}) == 1
    return f"{where}: {sentence}" if alike else f"{where}; at {first}: {sentence}"


def _records_of(result: StudyResult) -> dict[str, list[dict[str, Any]]]:
    """Return what remarks need of the runs at each point, in the form of records of runs."""
    totals, links = result.stored(RUNS, OF_TOTALS), result.stored(LINKS, _link_columns())
    of_flow: dict[str, list[dict[str, Any]]] = {}
    for run, flow in _rows(result.stored(FLOWS, OF_FLOWS), "flows"):
        of_flow.setdefault(run, []).append(flow)
    of_link: dict[str, list[dict[str, Any]]] = {}
    for run, link in _rows(links, "links"):
        # A cause that no run of the part had is no column there.
        link.setdefault("drops", {}).setdefault("queue-overflow", 0)
        of_link.setdefault(run, []).append(link)
    of_run = {
        run: {"totals": row, "flows": of_flow.get(run, []), "links": of_link.get(run, [])}
        for run, row in _rows(totals, "totals")
    }
    points: dict[str, list[dict[str, Any]]] = {}
    names = [axis.name for axis in result.study.axes]
    columns = [result.rows[name] for name in ("run", "state", *names)]
    for run, state, *settings in zip(*columns, strict=True):
        if state == "done" and run in of_run:
            text = ", ".join(f"{name}={value}" for name, value in zip(names, settings, strict=True))
            points.setdefault(text or "the only point", []).append(of_run[run])
    return points


def _link_columns() -> tuple[str, ...]:
    repeated = [
        name for name, column in declared("links").items() if column.group and column.path[-1] in REPEATED
    ]
    return (*OF_LINKS, *repeated)


def _rows(table: ArrowTable | None, kind: str) -> Iterable[tuple[str, dict[str, Any]]]:
    """Return rows as records have them: what a column declares as its path is one."""
    if table is None:
        return
    paths = {name: column.path for name, column in declared(kind).items()}
    names = [name for name in table.columns if name in paths]
    for run, *values in zip(table["run"], *(table[name] for name in names), strict=True):
        yield run, _nested({paths[name]: value for name, value in zip(names, values, strict=True)})


def _nested(values: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    """Return values by their paths as tables within tables; what is not there is left out."""
    nested: dict[str, Any] = {}
    for (*outer, last), value in values.items():
        if value is None:
            continue
        inner = nested
        for key in outer:
            inner = inner.setdefault(key, {})
        inner[last] = value
    return nested
