"""Decides comparisons at a level, several of one claim together, and says how large effects are.

`evaluation` computes the quantities, and asks here what they show. A comparison comes down to quantities that
must not be positive. Where one of several comparisons is enough to decide a claim, Holm's procedure keeps the
chance of a wrong decision below the level for all of them together; where every one is needed, each is
decided by itself (an intersection-union test). The rules are those of docs/reference/claims.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from lasthop.stats import CONFIDENCE, Estimate, student_t_quantile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: Chance of a wrong decision that verdicts accept.
LEVEL = 1 - CONFIDENCE
#: The one of which it is printed how many verdicts it would change.
STRICT_LEVEL = 0.01
#: How often runs show an effect of the size that they are said to show.
POWER = 0.8
#: Differences below this share of the larger side are rounding.
ROUNDING = 1e-12


class Outcome(Enum):
    """What the data say of a predicate."""

    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "undecided"
    #: The two sides are equal in every seed: more seeds would not decide.
    TIE = "an exact tie"
    MISSING = "missing"

    def denied(self) -> Outcome:
        """Return the outcome of the denial."""
        swapped = {Outcome.HOLDS: Outcome.FAILS, Outcome.FAILS: Outcome.HOLDS}
        return swapped.get(self, self)


def conjunction(outcomes: Sequence[Outcome]) -> Outcome:
    """Return what holds of all: decided as soon as one fails (Kleene's logic).

    Examples
    --------
    >>> conjunction([Outcome.HOLDS, Outcome.UNDECIDED]), conjunction([Outcome.FAILS, Outcome.MISSING])
    (<Outcome.UNDECIDED: 'undecided'>, <Outcome.FAILS: 'fails'>)
    """
    for outcome in (Outcome.FAILS, Outcome.MISSING, Outcome.UNDECIDED, Outcome.TIE):
        if outcome in outcomes:
            return outcome
    return Outcome.HOLDS


def disjunction(outcomes: Sequence[Outcome]) -> Outcome:
    """Return what holds of at least one: decided as soon as one holds."""
    return conjunction([outcome.denied() for outcome in outcomes]).denied()


def quantified(quantifier: str, outcomes: Sequence[Outcome]) -> Outcome:
    """Return the outcome of a quantifier over combinations; `most` means more than half.

    Examples
    --------
    >>> quantified("most", [Outcome.HOLDS, Outcome.HOLDS, Outcome.UNDECIDED])
    <Outcome.HOLDS: 'holds'>
    """
    if quantifier == "all":
        return conjunction(outcomes)
    if quantifier == "some":
        return disjunction(outcomes)
    if quantifier == "none":
        return disjunction(outcomes).denied()
    half = len(outcomes) / 2
    holding, failing = outcomes.count(Outcome.HOLDS), outcomes.count(Outcome.FAILS)
    if holding > half:
        return Outcome.HOLDS
    if failing >= half:
        return Outcome.FAILS
    return Outcome.MISSING if Outcome.MISSING in outcomes else Outcome.UNDECIDED


def joined(
    quantifier: str, outcomes: Sequence[Outcome], corrected: Sequence[Outcome]
) -> tuple[Outcome, Outcome]:
    """Return the outcome of a quantifier, and the one that corrected comparisons alone give.

    What needs every part to be decided is decided by the parts as they are; what one part is enough for, or
    some of them, by the corrected ones.

    Examples
    --------
    >>> one, none = [Outcome.HOLDS, Outcome.FAILS], [Outcome.HOLDS, Outcome.UNDECIDED]
    >>> joined("all", one, none)[0], joined("all", one, one)[0]
    (<Outcome.UNDECIDED: 'undecided'>, <Outcome.FAILS: 'fails'>)
    >>> joined("all", [Outcome.HOLDS] * 2, [Outcome.UNDECIDED] * 2)[0]
    <Outcome.HOLDS: 'holds'>
    """
    strict = quantified(quantifier, corrected)
    if quantifier == "most":
        return strict, strict
    # One part that comes out so is enough, and what is known then.
    enough, known = ENOUGH[quantifier]
    if strict is known:
        return strict, strict
    rest = [Outcome.UNDECIDED if one is enough else one for one in outcomes]
    return quantified(quantifier, rest), strict


#: By quantifier the outcome of a part that decides alone, and what it decides.
ENOUGH = {
    "all": (Outcome.FAILS, Outcome.FAILS),
    "some": (Outcome.HOLDS, Outcome.HOLDS),
    "none": (Outcome.HOLDS, Outcome.FAILS),
}


@dataclass(frozen=True, slots=True)
class Tested:
    """What a comparison or a trend comes down to.

    Attributes
    ----------
    variants : tuple of tuple of Estimate
        Quantities that must not be positive, once for each choice that the runs leave open. What choices
        decide differently is not decided.
    scale : float
        Size of the sides, for rounding.
    strict : bool
        Whether zero does not do.
    several : bool
        Whether more than one of the quantities may be positive, as the steps of a trend.
    """

    variants: tuple[tuple[Estimate, ...], ...]
    scale: float
    strict: bool
    several: bool = False

    def at(self, level: float) -> Outcome:
        """Return the outcome at a level, such as 0.05."""
        outcomes = {self._decide(one, level) for one in self.variants}
        return outcomes.pop() if len(outcomes) == 1 else Outcome.UNDECIDED

    def _decide(self, excesses: Sequence[Estimate], level: float) -> Outcome:
        signs = [
            sign(one, self.scale, level, strict=self.strict and (not self.several or at == 0))
            for at, one in enumerate(excesses)
        ]
        if self.several and Outcome.FAILS in signs:
            share = level / len(excesses)
            shown = [sign(one, self.scale, share, strict=False) for one in excesses]
            signs = [
                Outcome.UNDECIDED if one is Outcome.FAILS and by_itself is not Outcome.FAILS else one
                for one, by_itself in zip(signs, shown, strict=True)
            ]
        return conjunction(signs)


def sign(excess: Estimate, scale: float, level: float, *, strict: bool) -> Outcome:
    """Decide whether a quantity is negative; `strict` if zero does not do."""
    found = widened(excess, level)
    if found.low is None or found.high is None:
        return Outcome.UNDECIDED
    low, high = (0.0 if abs(end) <= ROUNDING * scale else end for end in (found.low, found.high))
    if high < 0 or (high == 0 and not strict):
        return Outcome.HOLDS
    # Between simulated quantities, equality is a tie; between constants it is a fact.
    if low > 0 or (excess.n == 0 and high == 0):
        return Outcome.FAILS
    # No seed differs from the others, and none differs at all.
    if excess.n > 1 and low == high == 0:
        return Outcome.TIE
    return Outcome.UNDECIDED


def widened(value: Estimate, level: float) -> Estimate:
    """Return an estimate whose interval, of 95 %, is that of another level instead.

    Examples
    --------
    >>> widened(Estimate(2.0, 1.0, 3.0, 10), 0.01)
    Estimate(mean=2.0, low=0.563..., high=3.436..., n=10)
    """
    half = value.half_width
    if half is None or not math.isfinite(half) or half == 0 or value.n <= 1 or level == LEVEL:
        return value
    freedom = value.n - 1
    half *= student_t_quantile(1 - level / 2, freedom) / student_t_quantile(1 - LEVEL / 2, freedom)
    return Estimate(value.mean, value.mean - half, value.mean + half, value.n)


def holm(at: Mapping[str, Callable[[float], Outcome]], level: float) -> dict[str, Outcome]:
    """Decide several comparisons together by Holm's procedure (1979).

    Parameters
    ----------
    at : dict
        For each comparison its outcome at a level.
    level : float
        The chance of deciding any of them wrongly.
    """
    decided: dict[str, Outcome] = {}
    while len(decided) < len(at):
        share = level / (len(at) - len(decided))
        found = {
            name: outcome
            for name, one in at.items()
            if name not in decided and (outcome := one(share)) in {Outcome.HOLDS, Outcome.FAILS}
        }
        if not found:
            break
        decided |= found
    return {name: decided.get(name) or _open(one(level)) for name, one in at.items()}


def _open(outcome: Outcome) -> Outcome:
    return Outcome.UNDECIDED if outcome in {Outcome.HOLDS, Outcome.FAILS} else outcome


@dataclass(frozen=True, slots=True)
class Effect:
    """How large what a comparison is about is.

    Attributes
    ----------
    size : Estimate
        The difference of the two sides or the change along a trend, as a share, or the quantity itself.
    relative : bool
        Whether it is a share.
    """

    size: Estimate
    relative: bool

    @property
    def least(self) -> float | None:
        """The least size that such runs show in four of five cases; `None` without an interval."""
        half, freedom = self.size.half_width, self.size.n - 1
        if half is None or freedom < 1 or not math.isfinite(half) or half == 0:
            return None
        quantile = student_t_quantile(1 - LEVEL / 2, freedom)
        return half / quantile * (quantile + student_t_quantile(POWER, freedom))

    def __str__(self) -> str:
        """Return it as tables have it: size, interval and the least that would be seen."""
        factor, unit = (100.0, " %") if self.relative else (1.0, "")
        size = self.size.scaled(factor)
        half, least = size.half_width, self.least
        if not math.isfinite(size.mean):
            return ""
        if half is None or least is None or half <= ROUNDING * abs(size.mean) or not math.isfinite(half):
            return f"{size.mean:+.3g}{unit}"
        decimals = max(0, 1 - math.floor(math.log10(half))) if half < MANY else 0
        seen = f"{least * factor:.2g}" if least * factor < MANY else f"{least * factor:.0f}"
        return f"{size.mean:+.{decimals}f} ± {half:.{decimals}f}{unit} (sees {seen})"


#: From here on decimals say nothing.
MANY = 10.0
