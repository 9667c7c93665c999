"""What runs show: comparisons decided together, maxima near ties, effects, judged by data of known truth."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest

from lasthop.papers.decisions import LEVEL, Effect, Outcome, holm, joined, widened
from lasthop.papers.decisions import Tested as Claimed
from lasthop.papers.measurement import extreme_columns, spreads
from lasthop.stats import Estimate, estimate, jackknife, student_t_quantile

if TYPE_CHECKING:
    from numpy.typing import NDArray

HOLDS, FAILS, UNDECIDED = Outcome.HOLDS, Outcome.FAILS, Outcome.UNDECIDED
SEEDS = 10


def replicates(by_seed: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return means over all seeds, then those that leave out one each."""
    mean = by_seed.mean(axis=0, keepdims=True)
    return np.concatenate([mean, mean + (mean - by_seed) / (len(by_seed) - 1)])


def compared(values: NDArray[np.float64]) -> Claimed:
    found = estimate(values.tolist())
    assert found is not None
    return Claimed(((found,),), 1.0, strict=True)


def judged(quantifier: str, family: list[Claimed]) -> Outcome:
    """Judge "all of them are below zero", or some, as claims are."""
    corrected = holm({str(at): one.at for at, one in enumerate(family)}, LEVEL)
    return joined(quantifier, [one.at(LEVEL) for one in family], list(corrected.values()))[0]


def test_chance_fails_one_claim_of_twenty_and_not_three_of_four() -> None:
    """Fifty-four comparisons of equal senders: by themselves one is outside its interval mostly."""
    draw = np.random.default_rng(1)
    alone = together = 0
    for _ in range(200):
        family = [compared(values) for values in draw.normal(size=(54, SEEDS))]
        alone += any(one.at(LEVEL) is FAILS for one in family)
        together += judged("all", family) is FAILS
    assert alone > 120
    assert together <= 20


@pytest.mark.parametrize(("quantifier", "enough"), [("all", FAILS), ("some", HOLDS), ("none", FAILS)])
def test_what_one_comparison_decides_is_corrected(quantifier: str, enough: Outcome) -> None:
    draw = np.random.default_rng(2)
    families = [[compared(values) for values in draw.normal(size=(20, SEEDS))] for _ in range(200)]
    assert sum(judged(quantifier, family) is enough for family in families) <= 20


def test_what_needs_every_comparison_is_not_corrected() -> None:
    """Each is just outside its interval of 95 %, which Holm's procedure alone would not accept."""
    just = compared(np.array([-1.0, -0.2, -1.1, -0.4, -0.2]))
    assert just.at(LEVEL) is HOLDS
    assert just.at(LEVEL / 2) is UNDECIDED
    assert judged("all", [just, just, just]) is HOLDS
    assert judged("some", [just, just, just]) is UNDECIDED


def test_holm_is_holm() -> None:
    """Beside the textbook: sorted p-values against level over what is left."""
    draw = np.random.default_rng(3)
    for _ in range(100):
        values = draw.normal(draw.uniform(-1, 1, size=(6, 1)), 1.0, size=(6, SEEDS))
        family = [compared(one) for one in values]
        found = holm({str(at): one.at for at, one in enumerate(family)}, LEVEL)
        statistic = np.abs(values.mean(axis=1)) / (values.std(axis=1, ddof=1) / np.sqrt(SEEDS))
        decided = set()
        for left, at in zip(range(6, 0, -1), np.argsort(-statistic), strict=True):
            if statistic[at] <= student_t_quantile(1 - LEVEL / left / 2, SEEDS - 1):
                break
            decided.add(str(at))
        assert {name for name, outcome in found.items() if outcome is not UNDECIDED} == decided


def test_a_step_of_a_trend_is_one_of_several() -> None:
    """A curve that rises overall and is flat elsewhere: no step back of chance fails it."""
    draw = np.random.default_rng(4)
    failed = 0
    for _ in range(300):
        curve = replicates(draw.normal(np.array([0.0] * 9 + [9.0]), 1.0, size=(SEEDS, 10)))
        steps = [jackknife((curve[:, at] - curve[:, at + 1]).tolist()) for at in range(9)]
        overall = jackknife((curve[:, 0] - curve[:, -1]).tolist())
        assert overall is not None
        known = tuple(one for one in steps if one is not None)
        failed += Claimed(((overall, *known),), 1.0, strict=True, several=True).at(LEVEL) is FAILS
    assert failed <= 24


def test_the_interval_of_a_largest_value_holds_the_true_one() -> None:
    """Five equal points: the jackknife of the largest mean lies above the truth, all choices do not."""
    draw = np.random.default_rng(5)
    plain = spanning = 0
    for _ in range(400):
        values = replicates(draw.normal(size=(SEEDS, 5)))
        found = jackknife(values.max(axis=1).tolist())
        assert found is not None
        assert found.low is not None
        plain += found.low <= 0
        choices = [jackknife(values[:, column].tolist()) for column in extreme_columns(values, 1)]
        lows = [one.low for one in choices if one is not None and one.low is not None]
        spanning += min(lows) <= 0
    assert plain < 360
    assert spanning >= 380


def test_a_clear_largest_value_is_one_choice() -> None:
    values = replicates(np.random.default_rng(6).normal(np.array([0.0, 9.0, 1.0]), 0.1, size=(SEEDS, 3)))
    assert extreme_columns(values, 1) == [1]
    assert extreme_columns(values, -1) == [0]
    assert len(spreads(values)) == 1


def test_equal_seeds_leave_no_choice_of_the_largest() -> None:
    assert extreme_columns(np.array([[1.0, 2.0, 2.0]] * 4), 1) == [1]


def test_what_runs_would_see_is_what_they_see_four_times_in_five() -> None:
    draw = np.random.default_rng(7)
    leasts = []
    for _ in range(200):
        found = estimate(draw.normal(size=SEEDS).tolist())
        assert found is not None
        leasts.append(Effect(found, relative=True).least or 0.0)
    effect = float(np.mean(leasts))
    seen = 0
    for _ in range(1000):
        found = estimate(draw.normal(effect, 1.0, size=SEEDS).tolist())
        assert found is not None
        seen += found.excludes_zero()
    assert 740 < seen < 860


def test_wider_intervals_are_those_of_their_level() -> None:
    values = [1.0, 2.0, 4.0, 3.0]
    found, strict = estimate(values), estimate(values, 0.99)
    assert found is not None
    assert strict is not None
    wide = widened(found, 0.01)
    assert (wide.low, wide.high) == (pytest.approx(strict.low), pytest.approx(strict.high))
    one = Estimate(1.0, None, None, 1)
    assert widened(one, 0.01) == one


def test_parts_without_data_or_tied_stay_what_they_are() -> None:
    for quantifier, part in itertools.product(("all", "some", "none"), (Outcome.MISSING, Outcome.TIE)):
        assert joined(quantifier, [part], [part])[0] is part
