"""Judges a paper as a whole under each reading of what it leaves open.

A reading is a set of choices that hold together. The main setting is one, each alternative alone is one, and
paper.toml declares others that join several alternatives (`[readings]`). Alternatives that measure different
things can be laid over one another without a run; where two change the same figure to different values, their
union needs a run of its own and is refused. `report` writes what is found, `overview` the front page. Format:
docs/reference/claims.md.
"""

from __future__ import annotations

import csv
import io
import textwrap
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lasthop.papers.decisions import Outcome
from lasthop.papers.evaluation import evaluate
from lasthop.papers.grammar import Comparison, Number, parse, series_in
from lasthop.papers.grammar import children as children_of
from lasthop.papers.judge import MAIN
from lasthop.papers.library import PaperError, Reading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lasthop.papers.grammar import Node
    from lasthop.papers.judge import Judgement
    from lasthop.papers.library import Alternative, Claim, Paper, Value
    from lasthop.papers.measurement import Dataset

#: Longest line of prose in reports.
LINE_WIDTH = 118
#: The file with the outcomes, beside the report.
READINGS = "readings.csv"
#: Name of the reading that follows the paper to the letter, where paper.toml declares it.
LITERAL = "letter_of_the_paper"
#: What claims are called that no run decides.
EMPTY = "decided by no run"


@dataclass(frozen=True, slots=True)
class Judged:
    """A reading and what the claims are under it.

    Attributes
    ----------
    reading : Reading
        The choices.
    outcomes : dict
        By claim, in the order of claims.toml.
    """

    reading: Reading
    outcomes: Mapping[str, Outcome]

    def holding(self, claims: Sequence[Claim]) -> int:
        """Return how many of these claims hold."""
        return sum(self.outcomes.get(claim.id) is Outcome.HOLDS for claim in claims)


def declared(paper: Paper) -> list[Reading]:
    """Return the readings of a paper: the main setting, each whole alternative, and those of paper.toml."""
    single = [Reading(MAIN, "the main setting", (), None)]
    whole = [one for one in paper.alternatives if not one.part]
    single += [Reading(one.name, one.title, (one.name,), one.no_vote) for one in whole]
    return [*single, *paper.readings]


def judge_readings(
    paper: Paper,
    judgements: Sequence[Judgement],
    datasets: Mapping[str, Dataset],
    only: Mapping[str, Sequence[Value]] | None = None,
) -> list[Judged]:
    """Judge each reading whose alternatives were run.

    Raises
    ------
    PaperError
        A reading joins alternatives that change the same figure to different values.
    """
    found = []
    for reading in declared(paper):
        if not set(reading.choices) <= datasets.keys():
            continue
        if len(reading.choices) <= 1:
            name = reading.choices[0] if reading.choices else MAIN
            outcomes = {
                one.claim.id: one.findings.get(name, one.findings[MAIN]).outcome for one in judgements
            }
        else:
            data = laid_over(paper, reading, datasets)
            outcomes = {
                one.claim.id: evaluate(one.claim, parse(one.claim.predicate), paper, data, only).outcome
                for one in judgements
            }
        found.append(Judged(reading, outcomes))
    return found


def laid_over(paper: Paper, reading: Reading, datasets: Mapping[str, Dataset]) -> Dataset:
    """Return the figures of a reading that joins alternatives: the main setting with what each changes.

    A later alternative may replace what an earlier one says if it makes all of the earlier one's choices.

    Raises
    ------
    PaperError
        Two of them change the same figure to different values.
    """
    alternatives = {one.name: one for one in paper.alternatives}
    main = datasets[MAIN]
    changes = {name: datasets[name].differing(main) for name in reading.choices}
    joined = main
    for at, name in enumerate(reading.choices):
        for earlier in reading.choices[:at]:
            both = (alternatives[earlier], alternatives[name])
            # What makes both choices, and was run, says what they give together.
            unions = [
                one for one in reading.choices[at:] if all(_includes(alternatives[one], it) for it in both)
            ]
            for series in changes[earlier].clashes(changes[name]):
                if not any(changes[one].has(series) for one in unions):
                    raise PaperError(
                        f"paper {paper.number}: the reading {reading.name} needs a run of its own: "
                        f"{earlier} and {name} both change {series}"
                    )
        joined = joined.updated(changes[name])
    return joined


def _includes(later: Alternative, earlier: Alternative) -> bool:
    """Whether one alternative makes every choice of another."""
    return all(
        mine.get(key) == value
        for mine, theirs in (
            (later.set, earlier.set),
            (later.sources, earlier.sources),
            (later.values, earlier.values),
            (later.studies, earlier.studies),
        )
        for key, value in theirs.items()
    )


def decided_by_no_run(paper: Paper, claim: Claim) -> str | None:
    """Say why no run can decide a claim; `None` if its verdict says something of the runs."""
    if claim.cannot_fail is not None:
        return claim.cannot_fail
    predicate = parse(claim.predicate)
    names = {series.name for series in series_in(predicate)}
    if not names or all(paper.is_rule(name) for name in names):
        return "arithmetic, without a run"
    if _covers_no_effect(predicate, claim):
        return "its tolerance covers no effect at all"
    return None


def by_kind(paper: Paper, judgements: Sequence[Judgement]) -> dict[str, list[Judgement]]:
    """Sort by the strength of the claim, and what no run decides apart."""
    kinds: dict[str, list[Judgement]] = {"headline": [], "supporting": [], EMPTY: []}
    for one in judgements:
        kinds[one.claim.strength if decided_by_no_run(paper, one.claim) is None else EMPTY].append(one)
    return kinds


def _covers_no_effect(predicate: Node, claim: Claim) -> bool:
    """Whether every comparison is of an effect with a number, and would hold if there were no effect."""
    pending: list[Node] = [predicate]
    comparisons: list[Node] = []
    while pending:
        node = pending.pop()
        if isinstance(node, Comparison):
            comparisons.append(node)
        else:
            pending += children_of(node)
    return bool(comparisons) and all(
        isinstance(one, Comparison)
        and one.operator == "~="
        and isinstance(one.right, Number)
        and getattr(one.left, "function", None) in {"gain", "drop", "rise"}
        and abs(one.right.value)
        <= max(claim.tolerance.absolute, claim.tolerance.relative * abs(one.right.value))
        for one in comparisons
    )


@dataclass(frozen=True, slots=True)
class Overall:
    """What the readings of a paper say together.

    Attributes
    ----------
    solid, headline : tuple of Claim
        Claims that runs decide, and the headline claims among them. Nothing else is counted.
    best, literal : Judged or None
        The reading under which most of these hold, and the one that follows the paper to the letter.
    voting, tried : int
        Readings that vote, and all that were judged; two names of the same choices are one reading.
    always, never, turning : tuple of Claim
        Claims that hold at each voting reading, that fail at each, and that hold at one and fail at another.
    empty : dict
        Claims that no run decides, with the reason.
    """

    solid: tuple[Claim, ...]
    headline: tuple[Claim, ...]
    best: Judged
    literal: Judged | None
    voting: int
    tried: int
    always: tuple[Claim, ...]
    never: tuple[Claim, ...]
    turning: tuple[Claim, ...]
    empty: Mapping[str, str]


def overall(paper: Paper, judged: Sequence[Judged]) -> Overall:
    """Weigh the readings against each other; one that does not vote decides nothing."""
    claims = [claim for claim in paper.claims if claim.id in judged[0].outcomes]
    empty = {claim.id: why for claim in claims if (why := decided_by_no_run(paper, claim)) is not None}
    solid = [claim for claim in claims if claim.id not in empty]
    headline = [claim for claim in solid if claim.strength == "headline"]
    voting = [one for one in judged if one.reading.no_vote is None]
    # Of equals the one declared first: the main setting before others.
    best = max(voting, key=lambda one: (one.holding(solid), one.holding(headline)))
    sets = {claim.id: {one.outcomes[claim.id] for one in voting} for claim in solid}
    return Overall(
        solid=tuple(solid),
        headline=tuple(headline),
        best=best,
        literal=next((one for one in judged if one.reading.name == LITERAL), None),
        voting=len({one.reading.choices for one in voting}),
        tried=len({one.reading.choices for one in judged}),
        always=tuple(claim for claim in solid if sets[claim.id] == {Outcome.HOLDS}),
        never=tuple(claim for claim in solid if sets[claim.id] == {Outcome.FAILS}),
        turning=tuple(claim for claim in solid if {Outcome.HOLDS, Outcome.FAILS} <= sets[claim.id]),
        empty=empty,
    )


def in_short(paper: Paper, judged: Sequence[Judged]) -> str:
    """Return what the best reading, the literal one and all of them say, in a paragraph."""
    found = overall(paper, judged)
    decided = (
        f"Runs decide {len(found.solid)} of {len(found.solid) + len(found.empty)} claims, and "
        f"{len(found.headline)} headline claims are among these; nothing else is counted."
    )
    told = [decided, f"The best joint reading is {_told(found)}."]
    if found.literal is not None:
        told.append(
            f"To the letter ({found.literal.reading.title}) it is "
            f"{found.literal.holding(found.solid)} and {found.literal.holding(found.headline)}."
        )
    told.append(
        f"{found.voting} of {found.tried} readings vote. Of the claims {len(found.always)} hold at each of "
        f"these, {len(found.never)} fail at each, and {len(found.turning)} hold at one and fail at another."
    )
    return " ".join(told)


def section(paper: Paper, judged: Sequence[Judged]) -> list[str]:
    """Return the report's part on readings: what the best, the literal and all of them say."""
    found = overall(paper, judged)
    solid, headline = found.solid, found.headline
    lines = [
        "| reading | choices | holds | fails | neither | headline claims that hold | votes |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for one in judged:
        counts = Counter(one.outcomes[claim.id] for claim in solid)
        holds, fails = counts[Outcome.HOLDS], counts[Outcome.FAILS]
        choices = ", ".join(one.reading.choices) if len(one.reading.choices) > 1 else one.reading.title
        lines.append(
            f"| {one.reading.name} | {choices} | {holds} | {fails} | {len(solid) - holds - fails} | "
            f"{one.holding(headline)} of {len(headline)} | {_vote(one.reading)} |"
        )
    parts = ["## Readings", in_short(paper, judged), "\n".join(lines)]
    if found.empty:
        by_reason: dict[str, list[str]] = {}
        for name, why in found.empty.items():
            by_reason.setdefault(why, []).append(name)
        parts.append("Claims that no run decides:")
        parts.append("\n".join(_item(f"{', '.join(names)}: {why}") for why, names in by_reason.items()))
    return parts


def _item(text: str) -> str:
    """Return an item of a list, in lines as short as those of prose."""
    return textwrap.fill(
        text,
        LINE_WIDTH,
        initial_indent="- ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def stated(paper: Paper) -> list[str]:
    """Return the report's part on what the paper states, and whether the main setting follows it."""
    if not paper.stated:
        return []
    lines = ["| setting | the paper | where | followed |", "| --- | --- | --- | --- |"]
    for one in paper.stated:
        followed = "yes" if one.departs is None else f"**no**: {one.departs}"
        followed += "".join(f"; not in {study}: {why}" for study, why in one.elsewhere.items())
        lines.append(f"| {one.setting} | {one.says} | {one.where} | {followed} |")
    return ["## Stated settings", "\n".join(lines)]


def _told(found: Overall) -> str:
    one = found.best
    return (
        f"*{one.reading.name}* ({one.reading.title}): {one.holding(found.solid)} of {len(found.solid)} "
        f"claims hold, {one.holding(found.headline)} of {len(found.headline)} headline claims"
    )


def _vote(reading: Reading) -> str:
    return "yes" if reading.no_vote is None else f"no: {reading.no_vote}"


def text(paper: Paper, judged: Sequence[Judged]) -> str:
    """Return the outcomes as CSV: a line per claim, a column per reading."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["claim", *(one.reading.name for one in judged)])
    for claim in paper.claims:
        if claim.id in judged[0].outcomes:
            writer.writerow([claim.id, *(one.outcomes[claim.id].value for one in judged)])
    return out.getvalue()


def read(paper: Paper, path: Path) -> list[Judged]:
    """Return the readings from a file that `text` made; those that paper.toml no longer has are left out."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        Judged(reading, {row["claim"]: Outcome(row[reading.name]) for row in rows})
        for reading in declared(paper)
        if rows and reading.name in rows[0]
    ]
