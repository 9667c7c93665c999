"""Computes the formula of a claim over simulated data, with what is uncertain kept uncertain.

`judge` calls `evaluate` and turns its outcome into a verdict. A quantity is the formula applied to means over
the seeds; its interval comes from leaving out each seed in turn (jackknife), which for sums and differences
is the paired Student t interval. The rules are those of docs/reference/claims.md. Nothing here runs or reads
anything.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, cast

from lasthop.extras import np
from lasthop.papers.grammar import (
    Arithmetic,
    Binary,
    Call,
    Comparison,
    Joined,
    Not,
    Number,
    Predicate,
    Quantified,
    Series,
    Trend,
    axes_of_name,
    bracket,
    format_value,
    series_in,
    show,
)
from lasthop.papers.library import SAMPLE_AXES, PaperError
from lasthop.papers.measurement import (
    AGGREGATE_FUNCTIONS,
    FREE,
    Curve,
    Dataset,
    Measured,
    Missing,
    Reference,
    inside,
    normal,
    value_of,
)
from lasthop.stats import Estimate, jackknife

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from lasthop.papers.library import Claim, Experiment, Paper, Tolerance, Value, Vocabulary

    Floats = NDArray[np.float64]
    Scope = dict[str, Value]

#: `flat` allows at least this spread.
LEAST_FLAT_SPREAD = 0.02
#: Differences below this share of the larger side are rounding.
ROUNDING = 1e-12
#: A quantifier over at most this many comparisons shows each of them.
SHOWN_COMPARISONS = 3


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


#: What tells most against a claim comes first.
SEVERITY = {Outcome.FAILS: 0, Outcome.MISSING: 1, Outcome.UNDECIDED: 2, Outcome.TIE: 3, Outcome.HOLDS: 4}


@dataclass(frozen=True, slots=True)
class Atom:
    """One comparison or trend test, with what was measured.

    Attributes
    ----------
    text : str
        The formula, values in the place of bound names.
    outcome : Outcome
        What the data say.
    figures : str
        The formula with its measured values and the outcome in words.
    left, right : Estimate or None
        The two sides of a comparison; the change from first to last of a trend is `left`.
    margin : float
        How clearly it holds, relative to the larger side; negative if it fails.
    """

    text: str
    outcome: Outcome
    figures: str
    left: Estimate | None = None
    right: Estimate | None = None
    margin: float = 0.0


@dataclass(frozen=True, slots=True)
class Finding:
    """What the data say of a predicate, condensed and in full."""

    outcome: Outcome
    summary: str
    atoms: tuple[Atom, ...]

    @property
    def margin(self) -> float:
        """The least margin of its atoms."""
        return min((atom.margin for atom in self.atoms), default=0.0)


def evaluate(
    claim: Claim,
    predicate: Predicate,
    paper: Paper,
    data: Dataset,
    only: Mapping[str, Iterable[Value]] | None = None,
) -> Finding:
    """Say what the data tell of a claim's formula.

    Parameters
    ----------
    claim : Claim
        Gives the tolerance, the kind and the experiments.
    predicate : Predicate
        Its formula, parsed.
    paper : Paper
        Gives grids and defaults.
    data : Dataset
        What was measured.
    only : mapping, optional
        The points of an axis to which quantifiers and running axes are confined, for a quick look.
    """
    confined = {axis: {normal(value) for value in values} for axis, values in (only or {}).items()}
    return _Evaluator(claim, paper, data, confined).finding(predicate, {})


@dataclass
class _Evaluator:
    claim: Claim
    paper: Paper
    data: Dataset
    only: Mapping[str, set[Value]]
    vocabulary: Vocabulary = field(init=False)

    def __post_init__(self) -> None:
        self.vocabulary = self.paper.vocabulary

    def finding(self, node: Predicate, scope: Scope) -> Finding:
        match node:
            case Comparison() | Trend():
                atom = self._atom(node, scope)
                return Finding(atom.outcome, atom.figures, (atom,))
            case Not():
                inner = self.finding(node.body, scope)
                return Finding(inner.outcome.denied(), f"not ({inner.summary})", inner.atoms)
            case Joined():
                parts = [self.finding(part, scope) for part in node.parts]
                outcomes = [part.outcome for part in parts]
                outcome = conjunction(outcomes) if node.word == "and" else disjunction(outcomes)
                return Finding(outcome, "; ".join(part.summary for part in parts), _atoms(parts))
            case Quantified():
                return self._quantified(node, scope)

    def _quantified(self, node: Quantified, scope: Scope) -> Finding:
        names = [name for name, _ in node.bindings]
        sets = [self._values(name, values, node.body) for name, values in node.bindings]
        findings = [
            self.finding(node.body, scope | dict(zip(names, values, strict=True)))
            for values in itertools.product(*sets)
        ]
        if not findings:
            return Finding(Outcome.MISSING, f"no points for {', '.join(names)}", ())
        findings, silent = self._speaking(findings)
        outcome = quantified(node.quantifier, [one.outcome for one in findings])
        # What decides: the worst case of `all` and `most`, the best of `some` and `none`.
        best = node.quantifier in {"some", "none"}
        ordered = sorted(findings, key=lambda one: (SEVERITY[one.outcome], one.margin), reverse=best)
        atoms = _atoms(findings)
        if len(atoms) <= SHOWN_COMPARISONS:
            return Finding(outcome, "; ".join(one.summary for one in findings) + silent, atoms)
        summary = f"{counted(findings)}{silent}; {'best' if best else 'worst'}: {ordered[0].summary}"
        return Finding(outcome, summary, atoms)

    def _speaking(self, findings: list[Finding]) -> tuple[list[Finding], str]:
        """Leave out points without any of what the claim is about, unless all are, and say how many."""
        without = sum(one.outcome is Outcome.MISSING for one in findings)
        if self.claim.about is None or without in {0, len(findings)}:
            return findings, ""
        rest = [one for one in findings if one.outcome is not Outcome.MISSING]
        return rest, f"; {without} more have no {self.claim.about}"

    def _values(self, name: str, values: str | tuple[Value, ...], body: Predicate) -> list[Value]:
        points = self.vocabulary.grids[values] if isinstance(values, str) else values
        allowed = [self.only[axis] for axis in axes_of_name(name, body, self.vocabulary) if axis in self.only]
        return [point for point in points if all(normal(point) in one for one in allowed)]

    def _atom(self, node: Comparison | Trend, scope: Scope) -> Atom:
        text = show(node, scope)
        sides = (node.left, node.right) if isinstance(node, Comparison) else (node.curve,)
        along: str | None = node.axis if isinstance(node, Trend) else None
        try:
            found = [one for side in sides for one in self._references(side, scope, along)]
            measured = Measured(self.paper.number, self.data, found)
            quantities = [measured.compute(side, scope, along, self._reference) for side in sides]
        except Missing as error:
            return Atom(text, Outcome.MISSING, f"{text}: {error}")
        if isinstance(node, Trend):
            curve = quantities[0]
            if not isinstance(curve, Curve) or len(curve.points) < 2:  # noqa: PLR2004 - a step has two ends
                return Atom(text, Outcome.MISSING, f"{text}: fewer than two points along {node.axis}")
            return _trend(node, text, curve, self.claim.tolerance)
        for side, quantity in zip(sides, quantities, strict=True):
            if not isinstance(quantity, np.ndarray):
                raise PaperError(
                    f"{self.claim.id}: {show(side, scope)} is a curve; compare an aggregate of it"
                )
        left, right = cast("list[Floats]", quantities)
        shown = (show(node.left, scope), show(node.right, scope))
        slack = self.claim.tolerance.absolute if self.claim.kind == "bound" else 0.0
        return _comparison(node, shown, (left, right), _Limits(self.claim.tolerance, slack, bool(found)))

    def _references(self, node: Arithmetic, scope: Scope, along: str | None) -> list[Reference]:
        match node:
            case Series():
                return [self._reference(node, scope, along)]
            case Binary():
                return self._references(node.left, scope, along) + self._references(node.right, scope, along)
            case Call():
                inner, arguments = inside(node, along)
                return [one for argument in arguments for one in self._references(argument, scope, inner)]
            case _:
                return []

    def _reference(self, node: Series, scope: Scope, along: str | None) -> Reference:
        """Find the settings at which a series is meant."""
        series = self.vocabulary.series[node.name]
        given = {axis: value_of(item, scope) for axis, item in bracket(node, self.vocabulary)}
        omitted = [axis for axis in series.axes if axis not in given and axis not in SAMPLE_AXES]
        experiment = self._experiment(node.name, given, omitted, along)
        fixed = {axis: value for axis, value in experiment.fixed.items() if axis not in given}
        axis = along
        if along == FREE:
            axis = experiment.x if experiment.x in omitted and series.sample_axis is None else None
        text = show(node, scope)
        if axis is not None and axis not in omitted and axis not in SAMPLE_AXES:
            raise PaperError(
                f"{self.claim.id}: {text} cannot run along {axis}, which is given or not its axis"
            )
        settings = self.vocabulary.settings({**fixed, **given})
        open_axes = [one for one in omitted if one != axis and one not in settings]
        if open_axes:
            raise Missing(f"{text} is said of no {open_axes[0]}")
        if axis is None or axis in SAMPLE_AXES:
            return Reference(text, node.name, settings, None, ())
        settings.pop(axis, None)
        points = self._points(node.name, settings, axis, experiment)
        return Reference(text, node.name, settings, axis, points)

    def _experiment(
        self, series: str, given: Mapping[str, Value], omitted: Sequence[str], along: str | None
    ) -> Experiment:
        """Choose the experiment of the claim that a series belongs to: no contradiction, then x, then y."""

        def unfit(experiment: Experiment) -> tuple[int, bool, bool]:
            conflicts = sum(
                axis in given and normal(given[axis]) != normal(value)
                for axis, value in experiment.fixed.items()
            )
            wrong_x = experiment.x not in omitted if along == FREE else along not in {None, experiment.x}
            return conflicts, wrong_x, series not in experiment.y

        return min((self.paper.experiments[name] for name in self.claim.experiments), key=unfit)

    def _points(
        self, series: str, settings: Mapping[str, Value], axis: str, experiment: Experiment
    ) -> tuple[Value, ...]:
        grid: Sequence[Value] = experiment.grid if experiment.x == axis else ()
        if not grid:
            of_axis = (one.grid for one in self.paper.experiments.values() if one.x == axis and one.grid)
            grid = next(of_axis, ()) or self.data.points(series, settings, axis)
        allowed = self.only.get(axis)
        return tuple(point for point in grid if allowed is None or normal(point) in allowed)


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


def counted(findings: Sequence[Finding]) -> str:
    """Say how many hold, fail and neither."""
    outcomes = [one.outcome for one in findings]
    words = {
        Outcome.HOLDS: "hold",
        Outcome.FAILS: "fail",
        Outcome.UNDECIDED: "undecided",
        Outcome.TIE: "tied",
        Outcome.MISSING: "without data",
    }
    counts = [(outcomes.count(outcome), word) for outcome, word in words.items()]
    holding, others = counts[0], [f"{count} {word}" for count, word in counts[1:] if count]
    return ", ".join([f"{holding[0]} of {len(findings)} hold", *others])


def write_estimate(value: Estimate) -> str:
    """Write a mean and half its interval, to the digits that the interval leaves.

    Examples
    --------
    >>> write_estimate(Estimate(0.41234, 0.40198, 0.4227, 10))
    '0.412 ± 0.010'
    """
    half = value.half_width
    if not math.isfinite(value.mean):
        return "infinite" if math.isinf(value.mean) else "undefined"
    if half is None or half <= ROUNDING * abs(value.mean) or not math.isfinite(half):
        return f"{value.mean:.4g}"
    decimals = max(0, 1 - math.floor(math.log10(half)))
    # A wide interval leaves no digits; the mean is shown all the same.
    return f"{value.mean:.{decimals}f} ± {half:.{decimals}f}"


@dataclass(frozen=True)
class _Limits:
    """What a comparison allows: tolerance, the slack of a bound; and whether anything in it is simulated."""

    tolerance: Tolerance
    slack: float
    simulated: bool

    def estimate(self, values: Floats) -> Estimate | None:
        value = float(values[0])
        if self.simulated or not math.isfinite(value):
            return jackknife(values.tolist())
        return Estimate(value, value, value, 0)

    def excesses(self, operator: str, left: Floats, right: Floats) -> list[Estimate | None]:
        """Return the quantities that must not be positive for the comparison to hold."""
        relative = self.tolerance.relative
        with np.errstate(all="ignore"):
            match operator:
                case "<":
                    quantities = [left - right]
                case "<=":
                    quantities = [left - right - self.slack]
                case ">":
                    quantities = [right - left]
                case ">=":
                    quantities = [right - left - self.slack]
                case "<<":
                    quantities = [left - (1 - relative) * right]
                case ">>":
                    quantities = [(1 + relative) * right - left]
                case "~=":
                    allowed = np.maximum(self.tolerance.absolute, relative * np.abs(right))
                    quantities = [left - right - allowed, right - left - allowed]
                case _:
                    quantities = [np.abs(left - right)]
        return [self.estimate(one) for one in quantities]


def _comparison(
    node: Comparison, shown: tuple[str, str], sides: tuple[Floats, Floats], limits: _Limits
) -> Atom:
    """Compare two quantities given by their replicates."""
    left, right = sides
    text = f"{shown[0]} {node.operator} {shown[1]}"
    estimates = (limits.estimate(left), limits.estimate(right))
    figures = " ".join(
        (_side(shown[0], node.left, estimates[0]), node.operator, _side(shown[1], node.right, estimates[1]))
    )
    excesses = [one for one in limits.excesses(node.operator, left, right) if one is not None]
    if not excesses or None in estimates:
        return Atom(text, Outcome.UNDECIDED, f"{figures}: undefined, a division by zero", *estimates)
    scale = max((abs(float(side[0])) for side in sides if math.isfinite(side[0])), default=0.0) or 1.0
    if node.operator == "==":
        same = np.allclose(left, right, rtol=ROUNDING, atol=ROUNDING)
        outcome = Outcome.HOLDS if same else Outcome.FAILS
    else:
        strict = node.operator not in {"<=", ">=", "~="}
        outcome = conjunction([_sign(one, scale, strict=strict) for one in excesses])
    words = _doubt(node, excesses) if outcome is Outcome.UNDECIDED else outcome.value
    margin = min(-one.mean for one in excesses) / scale
    return Atom(text, outcome, f"{figures}: {words}", *estimates, margin=margin)


def _sign(excess: Estimate, scale: float, *, strict: bool) -> Outcome:
    """Decide whether a quantity is negative; `strict` if zero does not do."""
    if excess.low is None or excess.high is None:
        return Outcome.UNDECIDED
    low, high = (0.0 if abs(end) <= ROUNDING * scale else end for end in (excess.low, excess.high))
    if high < 0 or (high == 0 and not strict):
        return Outcome.HOLDS
    # Between simulated quantities, equality is a tie; between constants it is a fact.
    if low > 0 or (excess.n == 0 and high == 0):
        return Outcome.FAILS
    # No seed differs from the others, and none differs at all.
    if excess.n > 1 and low == high == 0:
        return Outcome.TIE
    return Outcome.UNDECIDED


def _doubt(node: Comparison, excesses: Sequence[Estimate]) -> str:
    """Say why a comparison is undecided."""
    if excesses[0].n == 1:
        return "undecided, one seed gives no interval"
    if node.operator in {"<", ">", "<=", ">="} and not isinstance(node.right, Number):
        difference = excesses[0].scaled(-1 if node.operator in {">", ">="} else 1)
        return f"a tie, difference {write_estimate(difference)}"
    return "undecided, the interval straddles the limit"


def _trend(node: Trend, text: str, curve: Curve, tolerance: Tolerance) -> Atom:
    """Test where a curve goes."""
    values = curve.values
    drawn = ", ".join(f"{value:.4g}" for value in values[0])
    over = ", ".join(format_value(point) for point in curve.points)
    figures = f"{text} is {drawn} over {node.axis} {over}"
    change = jackknife((values[:, -1] - values[:, 0]).tolist())
    if node.direction == "flat":
        return _flat(text, figures, values, max(tolerance.relative, LEAST_FLAT_SPREAD))
    up = values if node.direction == "rising" else -values
    allowed = tolerance.relative * np.abs(values.mean(axis=1))
    backward = (up[:, at] - up[:, at + 1] - allowed for at in range(up.shape[1] - 1))
    overall, *steps = (jackknife(one.tolist()) for one in (up[:, 0] - up[:, -1], *backward))
    if overall is None or None in steps:
        return Atom(text, Outcome.UNDECIDED, f"{figures}: undefined, a division by zero")
    scale = float(np.abs(values[0]).max()) or 1.0
    # Within the tolerance a step is fine: that is what it is for. Beyond it, the seeds must show it.
    decided = [
        Outcome.HOLDS if step.mean <= ROUNDING * scale else _sign(step, scale, strict=False)
        for step in cast("list[Estimate]", steps)
    ]
    outcome = conjunction([_sign(overall, scale, strict=True), *decided])
    return Atom(text, outcome, f"{figures}: {_word(outcome)}", change, margin=-overall.mean / scale)


def _flat(text: str, figures: str, values: Floats, allowed: float) -> Atom:
    """Test whether a curve's spread is within what is allowed."""
    with np.errstate(all="ignore"):
        spread = jackknife(AGGREGATE_FUNCTIONS["spread"](values).tolist())
    if spread is None:
        return Atom(text, Outcome.UNDECIDED, f"{figures}: undefined, a division by zero")
    excess = Estimate(
        spread.mean - allowed,
        None if spread.low is None else spread.low - allowed,
        None if spread.high is None else spread.high - allowed,
        spread.n,
    )
    outcome = _sign(excess, 1.0, strict=False)
    figures = f"{figures}; spread {write_estimate(spread)}, allowed {allowed:g}"
    return Atom(text, outcome, f"{figures}: {_word(outcome)}", spread, margin=-excess.mean)


def _word(outcome: Outcome) -> str:
    return "undecided, an interval straddles the limit" if outcome is Outcome.UNDECIDED else outcome.value


def _side(text: str, node: Arithmetic, estimate: Estimate | None) -> str:
    if isinstance(node, Number):
        return text
    value = "undefined" if estimate is None else write_estimate(estimate)
    return f"{text} {value}" if next(series_in(node), None) else f"{text} ({value})"


def _atoms(findings: Iterable[Finding]) -> tuple[Atom, ...]:
    return tuple(atom for finding in findings for atom in finding.atoms)
