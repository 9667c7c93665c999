"""Means and intervals over seeds: the only place where lasthop does statistics.

Used by the tables and by `lasthop.comparison`. Seeds are independent replications, so the mean over seeds has
a Student t interval; two transports that met the same channel are compared seed by seed (paired t).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lasthop import _native

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

CONFIDENCE = 0.95
#: What is said where every seed has the same fingerprint: then there is nothing to be uncertain of.
SAME = "all seeds gave the same run"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over `n` seeds with its interval; without at least two values there is no interval.

    Attributes
    ----------
    mean : float
        Mean of the values.
    low, high : float or None
        Ends of the interval; `None` if `n` is 1.
    n : int
        Number of values.
    """

    mean: float
    low: float | None
    high: float | None
    n: int

    @property
    def half_width(self) -> float | None:
        """Half the width of the interval."""
        return None if self.high is None else self.high - self.mean

    def excludes_zero(self) -> bool:
        """Whether the interval lies on one side of zero: a difference is shown."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    def exact(self) -> Estimate:
        """Return the same without an interval: the seeds gave one and the same run."""
        return Estimate(self.mean, None, None, self.n)

    def shifted(self, by: float) -> Estimate:
        """Return the estimate of the quantity and a constant."""
        if self.low is None or self.high is None:
            return Estimate(self.mean + by, None, None, self.n)
        return Estimate(self.mean + by, self.low + by, self.high + by, self.n)

    def scaled(self, factor: float) -> Estimate:
        """Return the estimate of `factor` times the quantity."""
        ends = (
            None if self.low is None or self.high is None else sorted((self.low * factor, self.high * factor))
        )
        low, high = ends or (None, None)
        return Estimate(self.mean * factor, low, high, self.n)


def student_t_quantile(probability: float, degrees_of_freedom: int) -> float:
    """Quantile of Student's t distribution.

    Examples
    --------
    >>> round(student_t_quantile(0.975, 9), 3)
    2.262
    """
    return _native.student_t_quantile(probability, degrees_of_freedom)


def estimate(values: Iterable[float | None], confidence: float = CONFIDENCE) -> Estimate | None:
    """Mean and two-sided Student t interval of the values that exist; `None` if none does.

    Examples
    --------
    >>> estimate([1.0, 2.0, 3.0, None])
    Estimate(mean=2.0, low=-0.484..., high=4.484..., n=3)
    >>> estimate([5.0])
    Estimate(mean=5.0, low=None, high=None, n=1)
    >>> estimate([]) is None
    True
    """
    numbers = [float(value) for value in values if value is not None and math.isfinite(value)]
    count = len(numbers)
    if count == 0:
        return None
    mean = math.fsum(numbers) / count
    if count == 1:
        return Estimate(mean, None, None, 1)
    variance = math.fsum((number - mean) ** 2 for number in numbers) / (count - 1)
    half_width = student_t_quantile(0.5 + confidence / 2, count - 1) * math.sqrt(variance / count)
    return Estimate(mean, mean - half_width, mean + half_width, count)


def paired_difference(
    values: Sequence[float | None], baseline: Sequence[float | None], confidence: float = CONFIDENCE
) -> Estimate | None:
    """Mean of `values - baseline`, seed by seed, with a paired t interval; a seed needs both values.

    Examples
    --------
    >>> paired_difference([11.0, 22.0, 31.5], [10.0, 20.0, 30.0])
    Estimate(mean=1.5, low=0.257..., high=2.742..., n=3)
    """
    pairs = zip(values, baseline, strict=True)
    return estimate((a - b for a, b in pairs if a is not None and b is not None), confidence)


def relative_difference(
    values: Sequence[float | None], baseline: Sequence[float | None], confidence: float = CONFIDENCE
) -> Estimate | None:
    """Mean of `values` over that of `baseline`, less one, with Fieller's interval; a seed needs both values.

    The interval is that of a ratio of two means that are both uncertain (Fieller 1954), paired by the seed:
    the ratios ``r`` for which the paired t test does not reject that ``values - r * baseline`` is zero on
    average. It was chosen over the interval of the logarithm because that does not exist where a count is
    zero for every seed, and because this one excludes zero exactly if the interval of `paired_difference`
    does, so that no table contradicts itself. Where no value is negative neither is the ratio: the interval
    ends at minus one.

    `None` if the mean of the baseline is not shown to differ from zero: then there is nothing to be a share
    of.

    Examples
    --------
    >>> relative_difference([9.0, 10.0, 9.5], [10.0, 11.0, 10.2])
    Estimate(mean=-0.086..., low=-0.125..., high=-0.046..., n=3)
    >>> relative_difference([0.0, 1.0, 0.0], [9.0, 11.0, 10.0])
    Estimate(mean=-0.966..., low=-1.0, high=-0.853..., n=3)
    >>> relative_difference([0.0, 0.0, 0.0], [0.0, 5.0, 0.0]) is None
    True
    """
    pairs = [
        (float(a), float(b))
        for a, b in zip(values, baseline, strict=True)
        if a is not None and b is not None and math.isfinite(a) and math.isfinite(b)
    ]
    count = len(pairs)
    if count == 0:
        return None
    above = math.fsum(a for a, _ in pairs) / count
    below = math.fsum(b for _, b in pairs) / count
    if below == 0:
        return None
    if count == 1:
        return Estimate((above - below) / abs(below), None, None, 1)
    quantile = student_t_quantile(0.5 + confidence / 2, count - 1)
    # Variances and the covariance of the two means, times the square of the quantile.
    factor = quantile**2 / (count * (count - 1))
    in_above = factor * math.fsum((a - above) ** 2 for a, _ in pairs)
    in_below = factor * math.fsum((b - below) ** 2 for _, b in pairs)
    in_both = factor * math.fsum((a - above) * (b - below) for a, b in pairs)
    # (above - r below)^2 <= in_above - 2 r in_both + r^2 in_below
    square, middle, rest = below**2 - in_below, above * below - in_both, above**2 - in_above
    if square <= 0:
        return None
    root = math.sqrt(max(0.0, middle**2 - square * rest))
    low, high = (middle - root) / square, (middle + root) / square
    if all(a >= 0 and b >= 0 for a, b in pairs):
        low = max(low, 0.0)
    found = Estimate(above / below - 1, low - 1, high - 1, count)
    return found if below > 0 else found.scaled(-1)


def mean(values: Iterable[float | None]) -> float | None:
    """Mean of the values that exist; `None` if none does."""
    result = [value for value in values if value is not None]
    return math.fsum(result) / len(result) if result else None


def jackknife(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate | None:
    """Interval of a quantity computed from means over seeds, be it a ratio or a largest value.

    The first value is the quantity for all seeds, each other one without one of the seeds. For sums and
    differences of means this is the paired Student t interval. A quantity that is infinite for every choice
    of seeds is exactly that; `None` if some value is undefined.

    Examples
    --------
    >>> a, b = [11.0, 22.0, 31.5], [10.0, 20.0, 30.0]
    >>> without = [sum(a[:i] + a[i + 1:]) / 2 - sum(b[:i] + b[i + 1:]) / 2 for i in range(3)]
    >>> jackknife([1.5, *without]) == paired_difference(a, b)
    True
    """
    whole, *parts = (float(value) for value in values)
    if not math.isfinite(whole) or not all(map(math.isfinite, parts)):
        agree = math.isinf(whole) and all(part == whole for part in parts)
        return Estimate(whole, whole, whole, len(parts)) if agree and parts else None
    count = len(parts)
    if count < 2:  # noqa: PLR2004 - one value has no interval
        return Estimate(whole, None, None, 1)
    centre = math.fsum(parts) / count
    variance = math.fsum((part - centre) ** 2 for part in parts) * (count - 1) / count
    half_width = student_t_quantile(0.5 + confidence / 2, count - 1) * math.sqrt(variance)
    return Estimate(whole, whole - half_width, whole + half_width, count)
