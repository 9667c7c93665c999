"""Intervals against figures worked by hand and against textbook quantiles."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lasthop.stats import estimate, mean, paired_difference, student_t_quantile


@pytest.mark.parametrize(
    ("degrees", "quantile"), [(1, 12.7062), (2, 4.30265), (4, 2.77645), (9, 2.26216), (29, 2.04523)]
)
def test_quantiles_are_those_of_the_textbook(degrees: int, quantile: float) -> None:
    assert student_t_quantile(0.975, degrees) == pytest.approx(quantile, rel=1e-5)


def test_the_quantile_is_that_of_scipy_stats() -> None:
    stats = pytest.importorskip("scipy.stats")
    for degrees in (*range(1, 100), 199, 499, 999, 9_999):
        for probability in (0.75, 0.9, 0.95, 0.975, 0.99, 0.995, 0.9995):
            expected = stats.t.ppf(probability, degrees)
            assert student_t_quantile(probability, degrees) == pytest.approx(expected, rel=1e-10)


def test_interval_worked_by_hand() -> None:
    # Mean 3, variance 2.5, standard error sqrt(2.5 / 5) = 0.70711, quantile 2.77645.
    result = estimate([1, 2, 3, 4, 5])
    assert result is not None
    assert (result.mean, result.n) == (3.0, 5)
    assert result.half_width == pytest.approx(2.77645 * math.sqrt(0.5), rel=1e-5)


def test_missing_values_do_not_count() -> None:
    assert estimate([None, 4.0, None, float("nan")]) == estimate([4.0])
    assert estimate([None]) is None
    assert mean([None, 1.0, 3.0]) == 2.0
    assert mean([]) is None


def test_one_value_has_no_interval_and_shows_nothing() -> None:
    result = estimate([4.0])
    assert result is not None
    assert result.low is None
    assert result.half_width is None
    assert not result.excludes_zero()


def test_pairing_removes_what_both_share() -> None:
    channel = [1.0, 5.0, 9.0, 2.0, 7.0]
    result = paired_difference([value + 0.5 + 0.01 * i for i, value in enumerate(channel)], channel)
    assert result is not None
    assert result.excludes_zero()
    assert result.mean == pytest.approx(0.52)


def test_a_pair_that_lacks_one_value_is_left_out() -> None:
    result = paired_difference([1.0, None, 3.0], [0.0, 1.0, None])
    assert result is not None
    assert (result.mean, result.n) == (1.0, 1)


def test_scaling_by_a_negative_number_keeps_the_ends_in_order() -> None:
    result = estimate([1.0, 2.0, 3.0])
    assert result is not None
    scaled = result.scaled(-2.0)
    assert scaled.low is not None
    assert scaled.high is not None
    assert scaled.low < scaled.mean == -4.0 < scaled.high


@given(st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=30))
def test_the_mean_lies_within_its_interval_and_between_the_extremes(values: list[float]) -> None:
    result = estimate(values)
    assert result is not None
    assert result.low is not None
    assert result.high is not None
    assert result.low <= result.mean <= result.high
    slack = 1e-6 * (1 + max(map(abs, values)))
    assert min(values) - slack <= result.mean <= max(values) + slack
