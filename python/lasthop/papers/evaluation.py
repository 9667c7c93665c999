"""Computes the formula of a claim over simulated data, with what is uncertain kept uncertain.

`judge` calls `evaluate` and turns its outcome into a verdict. A quantity is the formula applied to means over
the seeds; its interval comes from leaving out each seed in turn (jackknife), which for sums and differences
is the paired Student t interval. `decisions` says what such quantities show. The rules are those of
docs/reference/claims.md. Nothing here runs or reads anything.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from lasthop.extras import np
from lasthop.papers.decisions import (
    LEVEL,
    ROUNDING,
    STRICT_LEVEL,
    Effect,
    Outcome,
    Tested,
    holm,
    joined,
    quantified,
)
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
    FREE,
    Curve,
    Dataset,
    Measured,
    Missing,
    Reference,
    inside,
    normal,
    spreads,
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
#: Quantifiers that one point can decide by holding.
MEETS_BEST = frozenset({"some", "none"})
#: Functions whose value is a share already, and those that keep what they are given.
SHARES = frozenset({"gain", "drop", "rise", "spread", "cv"})
KEEPING = frozenset({"abs", "max", "min", "mean", "median", "first", "last"})
#: A quantifier over at most this many comparisons shows each of them.
SHOWN_COMPARISONS = 3


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
    tested : Tested or None
        What decides it at any level; `None` if no level plays a part.
    effect : Effect or None
        How large what it is about is.
    """

    text: str
    outcome: Outcome
    figures: str
    left: Estimate | None = None
    right: Estimate | None = None
    margin: float = 0.0
    tested: Tested | None = None
    effect: Effect | None = None

    def at(self, level: float) -> Outcome:
        """Return the outcome at a level."""
        return self.outcome if self.tested is None else self.tested.at(level)


@dataclass(frozen=True, slots=True)
class Finding:
    """What the data say of a predicate, condensed and in full.

    Attributes
    ----------
    outcome, at_99 : Outcome
        What they say at the level of verdicts, and at that of 99 %.
    summary : str
        In words.
    atoms : tuple of Atom
        Its comparisons.
    corrected : Outcome
        What comparisons say that are corrected for each other.
    deciding : Atom or None
        The comparison that decides.
    """

    outcome: Outcome
    summary: str
    atoms: tuple[Atom, ...]
    corrected: Outcome
    deciding: Atom | None = None
    at_99: Outcome = Outcome.MISSING

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
    evaluator = _Evaluator(claim, paper, data, confined)
    found = evaluator.at(LEVEL, predicate)
    return replace(found, at_99=evaluator.at(STRICT_LEVEL, predicate).outcome)


@dataclass
class _Evaluator:
    """What evaluates one claim; comparisons are computed once, and decided at any level."""

    claim: Claim
    paper: Paper
    data: Dataset
    only: Mapping[str, set[Value]]
    vocabulary: Vocabulary = field(init=False)
    level: float = LEVEL
    computed: dict[str, Atom] = field(default_factory=dict)
    corrected: Mapping[str, Outcome] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.vocabulary = self.paper.vocabulary

    def at(self, level: float, predicate: Predicate) -> Finding:
        """Evaluate the formula at a level: every comparison by itself first, then all together."""
        self.level, self.corrected = level, {}
        self.finding(predicate, {})
        self.corrected = holm({text: atom.at for text, atom in self.computed.items()}, level)
        return self.finding(predicate, {})

    def finding(self, node: Predicate, scope: Scope) -> Finding:
        match node:
            case Comparison() | Trend():
                text = show(node, scope)
                if text not in self.computed:
                    self.computed[text] = self._atom(node, scope, text)
                atom = self.computed[text]
                outcome = atom.at(self.level)
                corrected = self.corrected.get(text, outcome)
                return Finding(outcome, atom.figures, (atom,), corrected, atom)
            case Not():
                inner = self.finding(node.body, scope)
                return replace(
                    inner,
                    outcome=inner.outcome.denied(),
                    summary=f"not ({inner.summary})",
                    corrected=inner.corrected.denied(),
                )
            case Joined():
                parts = [self.finding(part, scope) for part in node.parts]
                summary = "; ".join(part.summary for part in parts)
                return self._joined("all" if node.word == "and" else "some", parts, summary)
            case Quantified():
                return self._quantified(node, scope)

    def _joined(self, quantifier: str, parts: Sequence[Finding], summary: str) -> Finding:
        """Join findings, and say where they would be decided but for the correction."""
        by_themselves = [one.outcome for one in parts]
        outcome, corrected = joined(quantifier, by_themselves, [one.corrected for one in parts])
        uncorrected = quantified(quantifier, by_themselves)
        if outcome is not uncorrected and uncorrected in {Outcome.HOLDS, Outcome.FAILS}:
            summary += f"; not decided after correction for {len(self.computed)} comparisons"
        worst = _ordered(quantifier, parts)[0]
        return Finding(outcome, summary, _atoms(parts), corrected, worst.deciding)

    def _quantified(self, node: Quantified, scope: Scope) -> Finding:
        names = [name for name, _ in node.bindings]
        sets = [self._values(name, values, node.body) for name, values in node.bindings]
        findings = [
            self.finding(node.body, scope | dict(zip(names, values, strict=True)))
            for values in itertools.product(*sets)
        ]
        if not findings:
            return Finding(Outcome.MISSING, f"no points for {', '.join(names)}", (), Outcome.MISSING)
        findings, silent = self._speaking(findings)
        if sum(len(one.atoms) for one in findings) <= SHOWN_COMPARISONS:
            summary = "; ".join(one.summary for one in findings) + silent
        else:
            word = "best" if node.quantifier in MEETS_BEST else "worst"
            shown = _ordered(node.quantifier, findings)[0].summary
            summary = f"{counted(findings)}{silent}; {word}: {shown}"
        return self._joined(node.quantifier, findings, summary)

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

    def _atom(self, node: Comparison | Trend, scope: Scope, text: str) -> Atom:
        sides = (node.left, node.right) if isinstance(node, Comparison) else (node.curve,)
        along: str | None = node.axis if isinstance(node, Trend) else None
        try:
            found = [one for side in sides for one in self._references(side, scope, along)]
            measured = Measured(self.paper.number, self.data, found)
            variants = measured.variants(sides, scope, along, self._reference)
        except Missing as error:
            return Atom(text, Outcome.MISSING, f"{text}: {error}")
        if isinstance(node, Trend):
            curve = variants[0][0]
            if not isinstance(curve, Curve) or len(curve.points) < 2:  # noqa: PLR2004 - a step has two ends
                return Atom(text, Outcome.MISSING, f"{text}: fewer than two points along {node.axis}")
            return _trend(node, text, curve, self.claim.tolerance)
        for side, quantity in zip(sides, variants[0], strict=True):
            if not isinstance(quantity, np.ndarray):
                raise PaperError(
                    f"{self.claim.id}: {show(side, scope)} is a curve; compare an aggregate of it"
                )
        values = [cast("tuple[Floats, Floats]", tuple(one)) for one in variants]
        shown = (show(node.left, scope), show(node.right, scope))
        slack = self.claim.tolerance.absolute if self.claim.kind == "bound" else 0.0
        return _comparison(node, shown, values, _Limits(self.claim.tolerance, slack, bool(found)))

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


def _ordered(quantifier: str, parts: Iterable[Finding]) -> list[Finding]:
    """Sort by what decides: the worst of `all` and `most` first, the best of `some` and `none`."""
    return sorted(
        parts, key=lambda one: (SEVERITY[one.outcome], one.margin), reverse=quantifier in MEETS_BEST
    )


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

    def spanning(self, variants: Sequence[Floats]) -> Estimate | None:
        """Return the first quantity with an interval that spans those of all choices."""
        found = [self.estimate(one) for one in variants]
        if None in found or any(one is not None and one.low is None for one in found):
            return found[0]
        ends = [(one.low, one.high) for one in found if one and one.low is not None and one.high is not None]
        first = cast("Estimate", found[0])
        return replace(first, low=min(low for low, _ in ends), high=max(high for _, high in ends))

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
    node: Comparison,
    shown: tuple[str, str],
    variants: Sequence[tuple[Floats, Floats]],
    limits: _Limits,
) -> Atom:
    """Compare two quantities given by their replicates, once for each choice that the runs leave open."""
    left, right = variants[0]
    text = f"{shown[0]} {node.operator} {shown[1]}"
    estimates = (limits.spanning([one for one, _ in variants]), limits.spanning([one for _, one in variants]))
    figures = " ".join(
        (_side(shown[0], node.left, estimates[0]), node.operator, _side(shown[1], node.right, estimates[1]))
    )
    found = [limits.excesses(node.operator, *sides) for sides in variants]
    if None in estimates or any(None in one for one in found):
        return Atom(text, Outcome.UNDECIDED, f"{figures}: undefined, a division by zero", *estimates)
    excesses = cast("list[list[Estimate]]", found)
    scale = max((abs(float(side[0])) for side in variants[0] if math.isfinite(side[0])), default=0.0) or 1.0
    tested = None
    if node.operator == "==":
        same = np.allclose(left, right, rtol=ROUNDING, atol=ROUNDING)
        outcome = Outcome.HOLDS if same else Outcome.FAILS
    else:
        strict = node.operator not in {"<=", ">=", "~="}
        tested = Tested(tuple(tuple(one) for one in excesses), scale, strict)
        outcome = tested.at(LEVEL)
    words = _doubt(node, excesses[0]) if outcome is Outcome.UNDECIDED else outcome.value
    if len(variants) > 1:
        words += f" (the runs leave open which point or order it is: {len(variants)} choices)"
    margin = min(-one.mean for one in excesses[0]) / scale
    effect = _effect(node, variants, limits)
    return Atom(text, outcome, f"{figures}: {words}", *estimates, margin=margin, tested=tested, effect=effect)


def _effect(node: Comparison, variants: Sequence[tuple[Floats, Floats]], limits: _Limits) -> Effect | None:
    """Return how far the left side is from the right one, as a share of it; a share is left as it is."""
    if not limits.simulated or node.operator == "==":
        return None
    share = _is_share(node.left)
    relative = not share and not (isinstance(node.right, Number) and node.right.value == 0)
    with np.errstate(all="ignore"):
        size = limits.spanning([left / right - 1 if relative else left for left, right in variants])
    if size is None or not math.isfinite(size.mean):
        return None
    return Effect(size, relative or share)


def _is_share(node: Arithmetic) -> bool:
    """Whether a quantity is a share, such as a gain or the largest of several."""
    if not isinstance(node, Call):
        return False
    return node.function in SHARES or (node.function in KEEPING and _is_share(node.arguments[0]))


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
    within = (
        Estimate(0.0, 0.0, 0.0, step.n) if step.mean <= ROUNDING * scale else step
        for step in cast("list[Estimate]", steps)
    )
    tested = Tested(((overall, *within),), scale, strict=True, several=True)
    outcome = tested.at(LEVEL)
    with np.errstate(all="ignore"):
        size = jackknife((values[:, -1] / values[:, 0] - 1).tolist())
    return Atom(
        text,
        outcome,
        f"{figures}: {_word(outcome)}",
        change,
        margin=-overall.mean / scale,
        tested=tested,
        effect=None if size is None or not math.isfinite(size.mean) else Effect(size, relative=True),
    )


def _flat(text: str, figures: str, values: Floats, allowed: float) -> Atom:
    """Test whether a curve's spread is within what is allowed, for all that may be its extremes."""
    with np.errstate(all="ignore"):
        found = [jackknife(one.tolist()) for one in spreads(values)]
    if None in found:
        return Atom(text, Outcome.UNDECIDED, f"{figures}: undefined, a division by zero")
    known = cast("list[Estimate]", found)
    spread = known[0]
    excesses = tuple((one.shifted(-allowed),) for one in known)
    tested = Tested(excesses, 1.0, strict=False)
    outcome = tested.at(LEVEL)
    figures = f"{figures}; spread {write_estimate(spread)}, allowed {allowed:g}"
    return Atom(
        text,
        outcome,
        f"{figures}: {_word(outcome)}",
        spread,
        margin=allowed - spread.mean,
        tested=tested,
        effect=Effect(spread, relative=True),
    )


def _word(outcome: Outcome) -> str:
    return "undecided, an interval straddles the limit" if outcome is Outcome.UNDECIDED else outcome.value


def _side(text: str, node: Arithmetic, estimate: Estimate | None) -> str:
    if isinstance(node, Number):
        return text
    value = "undefined" if estimate is None else write_estimate(estimate)
    return f"{text} {value}" if next(series_in(node), None) else f"{text} ({value})"


def _atoms(findings: Iterable[Finding]) -> tuple[Atom, ...]:
    return tuple(atom for finding in findings for atom in finding.atoms)
