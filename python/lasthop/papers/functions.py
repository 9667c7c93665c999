"""Closed forms that the claims of a paper may call, in the paper's units. Used by `evaluation` only.

A function that a paper's claims.toml names and that is not here makes its claims not testable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def bandwidth_delay_packets(rate_mbit_s: float, delay_s: float, packet_bytes: float) -> float:
    """Packets that a link holds: rate times delay, over the packet's size.

    Examples
    --------
    >>> bandwidth_delay_packets(10, 0.025, 1000)
    31.25
    """
    return rate_mbit_s * 1e6 * delay_s / (8 * packet_bytes)


#: By number of the paper and name in its formulas.
CLOSED_FORMS: dict[tuple[str, str], Callable[..., float]] = {
    ("004", "bdp_packets"): bandwidth_delay_packets,
}
