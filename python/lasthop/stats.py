"""Means and intervals over seeds: the only place where lasthop does statistics.

Used by the tables and by `lasthop.comparison`. Seeds are independent replications, so the mean over seeds has
a Student t interval; two transports that met the same channel are compared seed by seed (paired t).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

CONFIDENCE = 0.95


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

    def scaled(self, factor: float) -> Estimate:
        """Return the estimate of `factor` times the quantity."""
        ends = (
            None if self.low is None or self.high is None else sorted((self.low * factor, self.high * factor))
        )
        low, high = ends or (None, None)
        return Estimate(self.mean * factor, low, high, self.n)


def student_t_quantile(probability: float, degrees_of_freedom: int) -> float:
    """Quantile of Student's t distribution.

    `scipy.special` has the function that `scipy.stats.t.ppf` calls, and is imported five times as fast.
    """
    from scipy.special import stdtrit

    return float(stdtrit(degrees_of_freedom, probability))


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
