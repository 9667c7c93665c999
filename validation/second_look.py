"""A second look at the papers' claims, from packets: `python -m validation.second_look [--jobs N]`.

Twenty claims that rest on simulation are drawn by a fixed seed. At a few of the points at which each of them
looks, the figure is worked out again from the packet trace of the run (`from_packets`) and compared with what
`lasthop reproduce` makes of the same point and seed. Writes `docs/reference/validation-claims.md`. Called by
`make validate`; the tests of the front look at a few points.
"""

from __future__ import annotations

import argparse
import datetime as dt
import math
import random
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lasthop
from lasthop import LasthopError, studies
from lasthop.papers import grammar, reproduce
from lasthop.papers.grammar import Call, Name, Number, Quantified, Series, Trend
from lasthop.papers.library import Claim, Experiment, Paper, Source, Value, load_paper, paper_folders
from lasthop.papers.measurement import normal
from lasthop.studies import Point, Study, StudyResult
from lasthop.studies.content import read_content
from validation import statistics
from validation.from_packets import FROM_PACKETS, Figure, Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "validation-claims.md"

DRAWN_BY = 1
CLAIMS = 20
POINTS = 4
SEED = 1
#: Sums in another order differ in their last digits, relative.
ROUNDING = 1e-9
DIFFERS = "**differs**"

Settings = dict[str, Value]


@dataclass(frozen=True)
class Spot:
    """A point of a study at which a claim looks, for one of its series."""

    paper: Paper
    claim: Claim
    series: str
    file: str
    settings: tuple[tuple[str, Value], ...]

    @property
    def run(self) -> tuple[str, str, tuple[tuple[str, Value], ...]]:
        """What tells its run apart from others."""
        return self.paper.number, self.file, self.settings

    @property
    def text(self) -> str:
        """The point in words."""
        return ", ".join(f"{axis} {value}" for axis, value in self.settings)

    @property
    def from_packets(self) -> Callable[[Trace], Figure]:
        """How the series is worked out from packets."""
        return FROM_PACKETS[self.paper.number, self.series]


@dataclass(frozen=True)
class Look:
    """A figure of the studies, and the same from packets."""

    spot: Spot
    ours: float
    again: Figure

    @property
    def verdict(self) -> str:
        """Equal up to rounding, or the reading that explains the difference, or that none does."""
        if same(self.ours, self.again.value):
            return "equal"
        for words, value in self.again.readings.items():
            if same(self.ours, value):
                return f"explained: {words}"
        return DIFFERS


def same(a: float, b: float) -> bool:
    """Whether two figures are equal up to rounding."""
    return math.isclose(a, b, rel_tol=ROUNDING, abs_tol=1e-12)


def papers() -> list[Paper]:
    """The papers of the package."""
    return [load_paper(folder) for folder in paper_folders()]


def simulated() -> list[tuple[Paper, Claim]]:
    """The claims all of whose experiments are simulated."""

    def is_simulated(paper: Paper, name: str) -> bool:
        experiment = paper.experiments[name]
        return bool(experiment.studies) and not paper.is_closed_form(experiment)

    return [
        (paper, claim)
        for paper in papers()
        for claim in paper.claims
        if all(is_simulated(paper, name) for name in claim.experiments)
    ]


def draw(seed: int = DRAWN_BY) -> tuple[list[tuple[Paper, Claim]], list[Spot], list[tuple[Claim, str]]]:
    """Draw claims, and points for each of their series; also the series that packets do not give."""
    chance = random.Random(seed)
    chosen = chance.sample(simulated(), CLAIMS)
    wanted: list[Spot] = []
    unseen: list[tuple[Claim, str]] = []
    for paper, claim in chosen:
        for series, places in spots(paper, claim).items():
            if places and (paper.number, series) in FROM_PACKETS:
                wanted += chance.sample(places, min(POINTS, len(places)))
            else:
                unseen.append((claim, f"{series}, {paper.vocabulary.series[series].means}"))
    return chosen, wanted, unseen


def looks_at(
    node: grammar.Node, paper: Paper, scope: Settings, free: str | None = None
) -> Iterator[tuple[str, Settings, str | None]]:
    """Yield each series of a formula, what its bracket says, and the axis along which it runs, if any.

    Bound names take each of their values. The axis of a mean and the like, which depends on the experiment,
    is ``x``.
    """
    match node:
        case Series():
            given = {
                axis: item.value if isinstance(item, Number) else scope.get(item.name, item.name)
                for axis, item in grammar.bracket(node, paper.vocabulary)
            }
            yield node.name, given, free
        case Quantified():
            (name, values), *others = node.bindings
            inner = Quantified(node.quantifier, tuple(others), node.body) if others else node.body
            for value in paper.vocabulary.grids[values] if isinstance(values, str) else values:
                yield from looks_at(inner, paper, scope | {name: value}, free)
        case Trend():
            yield from looks_at(node.curve, paper, scope, node.axis)
        case Call() if node.function in grammar.AGGREGATES | grammar.WITH_AXIS:
            last = node.arguments[-1]
            along = last.name if isinstance(last, Name) else "x"
            for argument in node.arguments:
                yield from looks_at(argument, paper, scope, along)
        case _:
            for child in grammar.children(node):
                yield from looks_at(child, paper, scope, free)


def spots(paper: Paper, claim: Claim) -> dict[str, list[Spot]]:
    """By series of a claim, the points of studies at which it looks; a series that no study has, has none."""
    found: dict[str, dict[tuple[str, Any], Spot]] = {}
    for series, given, free in looks_at(grammar.parse(claim.predicate), paper, {}):
        of_series = found.setdefault(series, {})
        for name in claim.experiments:
            experiment = paper.experiments[name]
            for file, more in experiment.studies.items():
                study = read(paper, file)
                if not has(study, paper.sources[series]):
                    continue
                for point in study.points():
                    if meant(
                        paper, series, (given, free), experiment, settings_of(paper, study, point, more)
                    ):
                        settings = tuple(point.settings.items())
                        of_series[file, settings] = Spot(paper, claim, series, file, settings)
    return {series: list(of_series.values()) for series, of_series in found.items()}


def settings_of(paper: Paper, study: Study, point: Point, more: Mapping[str, Value]) -> Settings:
    """What a point is on the axes of the claims."""
    axes = reproduce.claim_axes(paper, study)
    named = {ours: reproduce.claim_value(paper, ours, point.settings[axis]) for axis, ours in axes.items()}
    return {**more, **named}


def meant(
    paper: Paper,
    series: str,
    asked: tuple[Settings, str | None],
    experiment: Experiment,
    settings: Settings,
) -> bool:
    """Whether a claim that says so much of a series looks at these settings of an experiment."""
    given, free = asked
    running = experiment.x if free == "x" else free
    wanted = paper.vocabulary.settings({**experiment.fixed, **given})
    have = paper.vocabulary.settings({**experiment.fixed, **settings})
    return all(
        axis in have and normal(have[axis]) == normal(wanted[axis])
        for axis in paper.vocabulary.series[series].axes
        if axis in wanted and (axis in given or axis != running)
    )


def has(study: Study, source: Source) -> bool:
    """Whether a study has what a series is made of."""
    if source.table is not None:
        found = source.table in {one.name for one in study.keep}
    else:
        used = {source.metric} if source.metric else reproduce.formula(str(source.formula))[1]
        found = used <= {metric.name for metric in study.metrics}
    return found or (source.otherwise is not None and has(study, source.otherwise))


_studies: dict[tuple[str, str], Study] = {}


def read(paper: Paper, file: str) -> Study:
    """A study of a paper, read once."""
    key = (paper.number, file)
    if key not in _studies:
        _studies[key] = Study.load(paper.study_path(file))
    return _studies[key]


def narrowed(spot: Spot, name: str) -> Study:
    """The study of a spot with that point and seed alone."""
    path = spot.paper.study_path(spot.file)
    content = read_content(path)
    axes = []
    for axis in content["axes"]:
        whole = read(spot.paper, spot.file).axis(axis["name"])
        at = whole.values.index(dict(spot.settings)[axis["name"]])
        lists = [key for key in ("points", "values", "names", "labels") if key in axis]
        axes.append(axis | {key: [axis[key][at]] for key in lists})
    return Study.parse(
        content | {"name": name, "axes": axes, "seeds": str(SEED)}, file=str(path), folder=path.parent
    )


def studied(wanted: Sequence[Spot], folder: Path, jobs: int | None = None) -> list[float]:
    """The figures of the study machinery, as `lasthop reproduce` makes them."""
    names = {spot.run: f"look-{at}" for at, spot in enumerate(wanted)}
    of_run = {spot.run: spot for spot in wanted}
    plans = {run: narrowed(spot, names[run]) for run, spot in of_run.items()}
    results = studies.run_many(list(plans.values()), folder, jobs=jobs)
    return [figure_of(results[names[spot.run]], spot) for spot in wanted]


def figure_of(result: StudyResult, spot: Spot) -> float:
    """The one figure of a study of one point and seed."""
    table = reproduce.figures(result, spot.series, spot.paper.sources[spot.series])
    if table is None or table.height != 1 or table[spot.series].null_count():
        raise LasthopError(f"{spot.claim.id}: no figure for {spot.series} at {spot.text}")
    return float(table[spot.series].item())


def traced(spot: Spot) -> Trace:
    """The packets of a spot's run, and its scenario."""
    study = read(spot.paper, spot.file)
    point = next(one for one in study.points() if tuple(one.settings.items()) == spot.settings)
    scenario = study.scenario_of(point)
    return Trace(lasthop.run(scenario, seed=SEED, trace=True).hops, scenario.to_dict())


def look(wanted: Sequence[Spot], folder: Path, jobs: int | None = None) -> list[Look]:
    """Compare the figures of some spots with those from packets, saying how far it is."""
    note("running the points in their studies")
    ours = studied(wanted, folder, jobs)
    found: dict[int, Look] = {}
    by_run: dict[Any, list[int]] = {}
    for at, spot in enumerate(wanted):
        by_run.setdefault(spot.run, []).append(at)
    for number, places in enumerate(by_run.values(), start=1):
        trace = traced(wanted[places[0]])
        for at in places:
            found[at] = Look(wanted[at], ours[at], wanted[at].from_packets(trace))
        verdicts = "; ".join(f"{wanted[at].series} {found[at].verdict}" for at in places)
        spot = wanted[places[0]]
        note(f"[{number}/{len(by_run)}] {spot.paper.number} {spot.file}, {spot.text}: {verdicts}")
    return [found[at] for at in range(len(wanted))]


def note(text: str) -> None:
    """Say how far it is."""
    print(text, file=sys.stderr, flush=True)


INTRODUCTION = """# Claims of the papers, from packets

Generated by `python -m validation.second_look`; do not edit.

The figures behind a verdict come out of the engine's counters, the metrics of a study and functions
over tables. Here some are worked out another way. {claims} claims were drawn by
`random.Random({drawn_by})` from the {pool} of the five papers that rest on simulation, and for each
series of a claim up to {points} of the points at which the claim looks. Each point was run with seed
{seed} and a packet trace, and the series worked out from the packets and the text of the scenario
alone, by the definition of the paper. `validation/from_packets.py`, which does so, uses neither
counters nor metrics of lasthop. Beside it stands the figure that `lasthop reproduce` makes of that
point and seed.

*Equal*: up to the rounding of sums, a relative {rounding:g}. *Explained*: the study reads the
definition another way, which is named, and by that reading the packets give the figure of the study.

- lasthop {version}
- {date}
- {count} figures of {claims} claims: {equal} equal, {explained} explained, {differing} that differ

## Definitions

- **Goodput**: payload handed to the application, each byte once and over TCP in order, in the measured
  interval, over that interval. What waits behind a gap counts when the gap is filled.
- **Real-time index** (75 ms in 000, 100 ms in 004): of the packets that left the sender first in the
  measured interval; late is one that arrives longer than the threshold after the next lower one that
  has arrived, at the transport, without retransmissions. Mean over the flows of (received - late) / sent.
- **Loss** (004): transmissions of data lost over transmissions of data, mean over the flows. **Packets
  lost** (002): transmissions of data that were lost.
- **Delay** (002): from the first transmission of a range of data to its first arrival, so that the wait
  for a retransmission is part of it; mean over what arrived.
- **Mean queue** (004): the times that packets waited before the bottleneck, added up, over the measured
  interval. The packet in transmission is not in the queue, and neither is one that found it full.
- **Fairness** (004): Jain's index of the flows' throughput, bytes on the wire that arrived.
- **Share delivered** (003): packets of data that arrived over packets of data sent.
- **Greatest throughput** (001): bytes on the wire, headers and retransmissions included, that reached the
  receivers of all flows, by whole seconds from 10 s on.

Packets do not show what an application generated and its sender never sent. So the real-time index
"over what the application sent" can be worked out over what left the sender, as the studies have it,
and not over all that was generated, their alternative setting.
"""

#: Why a study reads a definition otherwise, and what comes of it.
EXPLANATIONS = {
    ("003", "pdr"): (
        "Share delivered (003). The study has 1 - lost / sent. By the letter, delivered over sent, "
        "what is on its way when the run ends counts like a loss: some 10 of 1100 packets. The paper "
        "cannot have counted so: its lower row has 5 of 1193 packets that were not delivered, while "
        "three flows of 784 kbit/s whose packets take at least 40.3 ms always have 10 on their way. "
        "The study also counts a flow's SYN as a packet sent, which changes the fifth digit."
    ),
    ("004", "fairness"): (
        "Fairness (004). The paper's index is over throughput, which the studies of 000 take as "
        "bytes on the wire; those of 004 take goodput, so that headers and retransmissions do not "
        "count. Over throughput the index of 80 Vegas flows is 0.0024 higher and that of 40 UDP "
        "flows 0.0001 (means of ten seeds), and both claims on the video rate are judged the same. "
        "The two rates give one figure here because with this seed every sender always has more to "
        "send than it may."
    ),
}


def page(
    chosen: Sequence[tuple[Paper, Claim]], found: Sequence[Look], unseen: Sequence[tuple[Claim, str]]
) -> str:
    """The reference page."""
    verdicts = [one.verdict for one in found]
    introduction = INTRODUCTION.format(
        claims=len(chosen),
        pool=len(simulated()),
        drawn_by=DRAWN_BY,
        points=POINTS,
        seed=SEED,
        rounding=ROUNDING,
        version=lasthop.__version__,
        date=dt.datetime.now(tz=dt.UTC).date().isoformat(),
        count=len(found),
        equal=verdicts.count("equal"),
        explained=sum(one.startswith("explained") for one in verdicts),
        differing=verdicts.count(DIFFERS),
    )
    lines = [*introduction.splitlines(), "", "## What differs", ""]
    series = {(one.spot.paper.number, one.spot.series) for one in found if one.verdict != "equal"}
    for key in sorted(series):
        lines += statistics.item(EXPLANATIONS.get(key, f"{key[1]} ({key[0]}): not explained yet."))
    lines += [] if series else ["Nothing."]
    lines += ["", "## Not worked out from packets", ""]
    lines += [f"- {claim.id}: {text}" for claim, text in unseen] or ["Nothing of what was drawn."]
    lines += ["", "## Figures", ""]
    lines += ["| claim | series | point | study | from packets | difference | |"]
    lines += ["| --- | --- | --- | ---: | ---: | ---: | --- |"]
    lines += [row(one) for one in found]
    return "\n".join(lines) + "\n"


def row(one: Look) -> str:
    """A line of the table."""
    unit = one.spot.paper.vocabulary.series[one.spot.series].unit
    difference = 0.0 if one.verdict == "equal" else one.ours - one.again.value
    figures = f"{one.ours:.6g} | {one.again.value:.6g} | {difference:.2g}"
    return (
        f"| {one.spot.claim.id} | {one.spot.series} ({unit}) | {one.spot.text} | {figures} | {one.verdict} |"
    )


def main() -> int:
    """Entry point; 1 if a figure differs and nothing explains it."""
    parser = argparse.ArgumentParser(
        prog="python -m validation.second_look", description="Work out claims of the papers from packets."
    )
    parser.add_argument("--jobs", type=int, help="runs at a time (default: cores)")
    arguments = parser.parse_args()
    chosen, wanted, unseen = draw()
    with tempfile.TemporaryDirectory() as folder:
        found = look(wanted, Path(folder), arguments.jobs)
    PAGE.write_text(page(chosen, found, unseen), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    for one in found:
        if one.verdict != "equal":
            print(row(one))
    return int(any(one.verdict == DIFFERS for one in found))


if __name__ == "__main__":
    sys.exit(main())
