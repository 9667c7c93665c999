"""Gives each claim of a paper its verdict, from data at the main setting and at alternative ones.

`reproduce` calls `judge`; `report` writes the verdicts. The rules are those of docs/reference/claims.md. What
the paper's authors or we expected plays no part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from lasthop.papers.decisions import Outcome
from lasthop.papers.evaluation import Finding, evaluate
from lasthop.papers.grammar import check, parse
from lasthop.papers.library import PaperError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lasthop.papers.library import Claim, Paper, Value
    from lasthop.papers.measurement import Dataset
    from lasthop.stats import Estimate

#: Name of the data at the paper's own setting, as far as it states it.
MAIN = "main"


class Verdict(Enum):
    """What became of a claim."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    TIE = "an exact tie"
    INCONCLUSIVE = "inconclusive"
    CONDITIONAL = "conditional"
    NOT_TESTABLE = "not testable"


VERDICT_OF = {
    Outcome.HOLDS: Verdict.REPRODUCED,
    Outcome.FAILS: Verdict.NOT_REPRODUCED,
    Outcome.UNDECIDED: Verdict.INCONCLUSIVE,
    Outcome.TIE: Verdict.TIE,
    Outcome.MISSING: Verdict.NOT_TESTABLE,
}


AT = {
    Outcome.HOLDS: "holds at",
    Outcome.FAILS: "fails at",
    Outcome.UNDECIDED: "undecided at",
    Outcome.TIE: "an exact tie at",
    Outcome.MISSING: "without data at",
}


@dataclass(frozen=True, slots=True)
class Judgement:
    """A claim with its verdict and the figures behind it.

    Attributes
    ----------
    claim : Claim
        What the paper says.
    verdict, at_99 : Verdict
        What became of it, and what would have if intervals were of 99 % instead of 95.
    findings : dict
        What was found at the main setting and at each alternative, by name.
    """

    claim: Claim
    verdict: Verdict
    at_99: Verdict
    findings: Mapping[str, Finding]

    @property
    def effect(self) -> str:
        """How large what decides at the main setting is, and the least that the runs would show."""
        deciding = self.findings[MAIN].deciding
        return "" if deciding is None or deciding.effect is None else str(deciding.effect)

    @property
    def reason(self) -> str:
        """The figures at the main setting, and how it comes out at others where these were run."""
        main = self.findings[MAIN]
        others = {name: finding for name, finding in self.findings.items() if name != MAIN}
        if self.verdict is Verdict.CONDITIONAL:
            return f"{_by_outcome(self.findings)}. {main.summary}"
        if not others:
            return main.summary
        if all(finding.outcome is main.outcome for finding in others.values()):
            return f"{main.summary}. The same at every other setting run ({len(others)})"
        return f"{main.summary}. At other settings: {_by_outcome(others)}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as verdicts.json has it, every comparison included."""
        claim = self.claim
        return {
            "claim": claim.id,
            "figure": claim.figure,
            "experiments": list(claim.experiments),
            "text": claim.text,
            "predicate": claim.predicate,
            "kind": claim.kind,
            "strength": claim.strength,
            "tolerance": {"rel": claim.tolerance.relative, "abs": claim.tolerance.absolute},
            "verdict": self.verdict.value,
            "at_99": self.at_99.value,
            "effect": self.effect,
            "reason": self.reason,
            "settings": {
                name: {
                    "outcome": finding.outcome.value,
                    "summary": finding.summary,
                    "comparisons": [
                        {
                            "formula": atom.text,
                            "outcome": atom.outcome.value,
                            "left": _estimate(atom.left),
                            "right": _estimate(atom.right),
                        }
                        for atom in finding.atoms
                    ],
                }
                for name, finding in self.findings.items()
            },
        }


def judge(
    paper: Paper,
    claims: Iterable[Claim],
    datasets: Mapping[str, Dataset],
    only: Mapping[str, Sequence[Value]] | None = None,
) -> list[Judgement]:
    """Judge claims.

    Parameters
    ----------
    paper : Paper
        Whose claims they are.
    claims : iterable of Claim
        Those to judge.
    datasets : dict
        What was measured at the setting `MAIN` and at the paper's alternatives, by name. An alternative is
        looked at for the claims whose experiments it concerns.
    only : dict, optional
        Points of an axis to which quantifiers and running axes are confined.
    """
    judgements = []
    for claim in claims:
        predicate = _parse(claim, paper)
        whole = [one for one in paper.alternatives if not one.part]
        names = [MAIN, *(one.name for one in whole if _concerned(claim, one.experiments))]
        findings = {
            name: evaluate(claim, predicate, paper, datasets[name], only)
            for name in names
            if name in datasets
        }
        silent = {one.name for one in paper.alternatives if one.no_vote is not None}
        voting = {name: finding for name, finding in findings.items() if name not in silent}
        verdict = _verdict({name: one.outcome for name, one in voting.items()})
        at_99 = _verdict({name: one.at_99 for name, one in voting.items()})
        judgements.append(Judgement(claim, verdict, at_99, findings))
    return judgements


def _parse(claim: Claim, paper: Paper) -> Any:  # noqa: ANN401 - a predicate, whose type is a union
    try:
        predicate = parse(claim.predicate)
        check(predicate, paper.vocabulary)
    except PaperError as error:
        raise PaperError(f"{claim.id}: {error}") from None
    return predicate


def _verdict(outcomes: Mapping[str, Outcome]) -> Verdict:
    if {Outcome.HOLDS, Outcome.FAILS} <= set(outcomes.values()):
        return Verdict.CONDITIONAL
    return VERDICT_OF[outcomes[MAIN]]


def changed_at_99(judgements: Sequence[Judgement]) -> int:
    """Return how many verdicts would be others if intervals were of 99 % instead of 95."""
    return sum(one.at_99 is not one.verdict for one in judgements)


def _by_outcome(findings: Mapping[str, Finding]) -> str:
    """Say at which settings a claim holds, fails or neither."""
    parts = []
    for outcome, word in AT.items():
        names = [name for name, finding in findings.items() if finding.outcome is outcome]
        if names:
            parts.append(f"{word} {', '.join(names)}")
    return "; ".join(parts)


def _concerned(claim: Claim, experiments: tuple[str, ...] | None) -> bool:
    if experiments is None:
        return True
    return any(one.partition(".")[2] in experiments for one in claim.experiments)


def _estimate(estimate: Estimate | None) -> dict[str, float | int | None] | None:
    if estimate is None:
        return None
    ends = {"mean": estimate.mean, "low": estimate.low, "high": estimate.high}
    # JSON has no infinity.
    finite = {key: end if end is not None and math.isfinite(end) else None for key, end in ends.items()}
    return {**finite, "n": estimate.n}
