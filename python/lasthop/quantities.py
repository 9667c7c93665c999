"""Numbers for people: with an SI prefix, as many digits as they are worth, and the interval of an estimate.

Called by tables, figures and reports. The texts are those of the engine, which the page shows too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lasthop import _native

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lasthop.stats import Estimate


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
