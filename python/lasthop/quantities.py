"""Numbers for people: with an SI prefix, as many digits as they are worth, and the interval of an estimate.

Called by tables, figures and reports. The texts are those of the engine, which the page shows too.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from lasthop import _native

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lasthop.stats import Estimate

#: Numbers in these bounds are written without powers of ten.
SMALLEST, LARGEST = 1e-9, 1e15
#: Below this, times are told in parts of a second.
SHORT_S = 1e-3


def prefix_for(size: float, unit: str) -> tuple[float, str]:
    """Return the factor and the prefixed unit in which a quantity of this size reads well.

    Examples
    --------
    >>> prefix_for(4.2e6, "bit/s")
    (1000000.0, 'Mbit/s')
    >>> prefix_for(0.07, "s")
    (0.001, 'ms')
    """
    return _native.multiple(size, unit)


def quantity(value: float | None, unit: str) -> str:
    """Write one value with its unit.

    Examples
    --------
    >>> quantity(4_234_000.0, "bit/s"), quantity(0.0712, "s"), quantity(None, "s"), quantity(0.5, "share")
    ('4.23 Mbit/s', '71.2 ms', '-', '50.0 %')
    """
    if value is None:
        return "-"
    factor, prefixed = prefix_for(abs(value), unit)
    return f"{_native.number(value / factor)} {prefixed}".rstrip()


def number_text(value: float, digits: int = 6) -> str:
    """Write a number with at most `digits` significant digits and no powers of ten.

    Examples
    --------
    >>> number_text(1e-6), number_text(2.0), number_text(123.4, 2), number_text(1e-30)
    ('0.000001', '2', '120', '1e-30')
    """
    text = f"{value:.{digits}g}"
    # Beyond these nothing can be read in either form.
    if "e" not in text or not SMALLEST <= abs(value) < LARGEST:
        return text
    return f"{Decimal(text):,f}"


def time_text(seconds: float, digits: int = 6) -> str:
    """Write a length of time in a unit that needs no powers of ten; unlike `quantity`, with all its digits.

    Examples
    --------
    >>> time_text(60.0), time_text(0.25), time_text(1e-6), time_text(1e6), time_text(0.0)
    ('60 s', '0.25 s', '1 µs', '1,000,000 s', '0 s')
    """
    factor, unit = prefix_for(seconds, "s") if 0 < seconds < SHORT_S else (1.0, "s")
    return f"{number_text(seconds / factor, digits)} {unit}"


def estimate_texts(values: Sequence[Estimate | None], unit: str) -> tuple[list[str], str]:
    """Write means and half the widths of their intervals in one common unit, which comes with them.

    Examples
    --------
    >>> from lasthop.stats import Estimate
    >>> estimate_texts([Estimate(4.2e6, 4.1e6, 4.3e6, 10), Estimate(5e5, None, None, 1), None], "bit/s")
    (['4.20 ± 0.10', '0.50', '-'], 'Mbit/s')
    """
    factor, prefixed = prefix_for(max((abs(one.mean) for one in values if one), default=0.0), unit)
    return [estimate_text(one, factor) for one in values], prefixed


def estimate_text(value: Estimate | None, factor: float) -> str:
    """Write a mean and half the width of its interval, in units of `factor`."""
    if value is None:
        return "-"
    mean, half = _native.mean((value.mean, value.low, value.high, value.n), factor)
    return mean if half is None else f"{mean} ± {half}"
