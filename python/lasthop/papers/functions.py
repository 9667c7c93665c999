"""Closed forms that the claims of a paper may call, and rules that it states, in the paper's units.

`measurement` calls the forms in `CLOSED_FORMS`, `reproduce` works out the series in `RULES`. A function that
a paper's claims.toml names and that is not here makes its claims not testable. The rules are written out as
the paper prints them; that the senders of the engine follow the same rules is checked by their test vectors.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

from lasthop import laws

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lasthop.papers.library import Value

# ------------------------------------------------------------------------------------------------------------
# Paper 000


def full_rtt(packet_bytes: float, loss: float, capacity_mbit_s: float) -> float:
    """Round trip time in ms at which the square-root formula equals a capacity.

    Examples
    --------
    >>> round(full_rtt(1000, 0.01, 5), 2)
    19.6
    """
    return 1e3 * laws.mathis_rtt(packet_bytes, loss, capacity_mbit_s * 1e6 / 8)


def vegas_step(backlog: float, alpha: float = 1, beta: float = 3) -> float:
    """Change of Vegas' window in packets per round trip, by the packets that it has in the queue.

    Examples
    --------
    >>> vegas_step(0.5), vegas_step(2), vegas_step(4)
    (1.0, 0.0, -1.0)
    """
    return float(backlog < alpha) - float(backlog > beta)


def tfrc_largest_increase(discounting: float) -> float:
    """Packets per RTT by which TFRC's rate grows at most, with or without history discounting.

    Worked out from the definition: an interval that grows by the packets of a round trip, eight weights of
    which the newest is a sixth of the sum (with discounting the older ones count half), and the response
    function without timeouts, ``1.2 / sqrt(p)`` packets per round trip.

    Examples
    --------
    >>> round(tfrc_largest_increase(0), 2), round(tfrc_largest_increase(1), 2)
    (0.12, 0.21)
    """
    newest = 1 / 6
    older = 0.5 if discounting else 1.0
    weight = newest / (newest + older * (1 - newest))
    # T = 1.2 sqrt(A) per RTT; in one RTT the mean interval A grows by weight * T: dT = 1.2^2 * weight / 2.
    return 1.2**2 * weight / 2


def tfrc_halving_round_trips() -> float:
    """Round trips with a loss event each until TFRC's rate has halved.

    Worked out from the definition: intervals of one round trip each come into a history of equal ones.

    Examples
    --------
    >>> tfrc_halving_round_trips()
    5.0
    """
    weights = [1, 1, 1, 1, 0.8, 0.6, 0.4, 0.2]
    # At 1.2 sqrt(A) packets per round trip; A large, so that an interval of one round trip is nearly nothing.
    start = 10_000.0
    history = [start] * len(weights)
    rate = begin = 1.2 * math.sqrt(start)
    for round_trips in range(1, 100):
        history = [rate, *history[:-1]]
        mean = sum(w * one for w, one in zip(weights, history, strict=True)) / sum(weights)
        rate = 1.2 * math.sqrt(mean)
        if rate <= begin / 2:
            return float(round_trips)
    return math.inf


# ------------------------------------------------------------------------------------------------------------
# Paper 002


def paced_rate(packet_bytes: float = 1024, interval_s: float = 5e-3) -> float:
    """Rate in Mbit/s of a source that makes a packet at equal intervals, headers included.

    Examples
    --------
    >>> round(paced_rate(), 3)
    1.638
    """
    return packet_bytes * 8 / interval_s / 1e6


def on_off_rate(peak_mbit_s: float = 2.5, on_s: float = 1.2, off_s: float = 1.8) -> float:
    """Mean rate of an on/off source.

    Examples
    --------
    >>> round(on_off_rate(), 3)
    1.0
    """
    return peak_mbit_s * on_s / (on_s + off_s)


def jitter_forms_gap(pairs: int = 1000) -> float:
    """Largest difference of the two forms of the jitter ratio over random pairs of packets."""
    draw = random.Random(2)  # noqa: S311 - no secret
    worst = 0.0
    for _ in range(pairs):
        sent = (draw.random(), 1 + draw.random())
        received = (sent[0] + draw.random(), sent[1] + 1 + draw.random())
        spacing = received[1] - received[0]
        form = 1 - (sent[1] - sent[0]) / spacing
        worst = max(worst, abs(form - laws.transit_jitter(sent, received) / spacing))
    return worst


def printed_ewma(alpha: float, newest: float, previous: float) -> float:
    """Smoothed counter as printed: of the newest and the raw previous count.

    Examples
    --------
    >>> printed_ewma(0.8, 10, 5)
    9.0
    """
    return alpha * newest + (1 - alpha) * previous


#: What XJTCP makes of the window: at an event, theta's side of 1, and the jitter ratio's of its threshold.
XJTCP_WINDOW: Mapping[tuple[str, str, str], Callable[[float], float]] = {
    (event, theta, jitter): action
    for event, random_loss, congestion in (
        ("tdack", lambda window: window, lambda window: window / 2),
        ("rto", lambda window: window / 2, lambda _window: 1.0),
    )
    for theta in ("above", "equal", "below")
    for jitter in ("low", "high")
    for action in [random_loss if theta == "above" or (theta == "equal" and jitter == "low") else congestion]
}


def xjtcp_factor(event: Value, theta: Value, jitter: Value, window: float = 20.0) -> float:
    """Return new window over old window, as XJTCP chooses.

    Examples
    --------
    >>> xjtcp_factor("tdack", "above", "high"), xjtcp_factor("rto", "equal", "low")
    (1.0, 0.5)
    """
    return xjtcp_window(event, theta, jitter, window) / window


def xjtcp_window(event: Value, theta: Value, jitter: Value, window: float = 20.0) -> float:
    """Window in segments that XJTCP chooses, from one of 20.

    Examples
    --------
    >>> xjtcp_window("rto", "below", "low")
    1.0
    """
    return XJTCP_WINDOW[str(event), str(theta), str(jitter)](window)


# ------------------------------------------------------------------------------------------------------------
# Paper 003


def corrected_rtt(rtt_s: float, retransmissions: float, timeout_s: float) -> float:
    """RTT less what link retransmissions took of it, as WSC-TCP prints it; it may come out negative.

    Examples
    --------
    >>> round(corrected_rtt(0.30, 2, 0.05), 9), round(corrected_rtt(0.0698, 1, 0.5), 4)
    (0.2, -0.4302)
    """
    return rtt_s - retransmissions * timeout_s


#: Sequences of local acknowledgements: segment numbers, everything below acknowledged at the start.
LOCAL_ACKS: Mapping[str, tuple[int, ...]] = {
    "inorder": (1, 2, 3, 4),
    "gap": (1, 2, 4, 5),
    "gap_filled": (1, 2, 4, 5, 3),
    "two_holes_one_filled": (1, 2, 4, 6, 7, 3),
}


def duplicate_threshold(sequence: Value) -> float:
    """Duplicate ACKs that WSC-TCP waits for after a sequence of local acknowledgements.

    The listing of the thesis, with the cumulative counter advanced over what is acknowledged in order, which
    the listing forgets.

    Examples
    --------
    >>> [duplicate_threshold(name) for name in LOCAL_ACKS]
    [3.0, 5.0, 3.0, 5.0]
    """
    threshold, highest, cumulative = 3, 0, 0
    acknowledged = {0}
    for current in LOCAL_ACKS[str(sequence)]:
        acknowledged.add(current)
        next_in_order = current == cumulative + 1
        if current > highest:
            highest = current
            threshold = 3 if next_in_order else threshold + 1
        elif next_in_order:
            index = current
            while index in acknowledged and index < highest:
                index += 1
            threshold = 3 + highest - index
        while cumulative + 1 in acknowledged:
            cumulative += 1
    return float(threshold)


# ------------------------------------------------------------------------------------------------------------
# Paper 004


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
    ("000", "t_mathis"): laws.mathis,
    ("000", "p_e2e"): lambda *losses: laws.path_loss(losses),
    ("000", "p_e2e_local"): lambda *losses: laws.path_loss(losses),
    ("000", "rtt_full"): full_rtt,
    ("000", "vegas_step"): vegas_step,
    ("000", "real_gamma"): lambda: 1 / 8,
    ("000", "tfrc"): laws.tfrc,
    ("000", "tfrc_incr_max"): tfrc_largest_increase,
    ("000", "tfrc_halving_rtts"): tfrc_halving_round_trips,
    ("002", "ftp_cap"): paced_rate,
    ("002", "udp_mean"): on_off_rate,
    ("002", "jr_gap"): jitter_forms_gap,
    ("002", "jain_one_vs_four"): lambda share: laws.jain((share, 1, 1, 1, 1)),
    ("002", "ewma"): printed_ewma,
    ("003", "corr_rtt"): corrected_rtt,
    ("003", "rll_default"): lambda: 0.5,
    ("004", "bdp_packets"): bandwidth_delay_packets,
}
#: By number of the paper and name of the series: its value at each point of its axes, without a run.
RULES: dict[tuple[str, str], Callable[..., float]] = {
    ("002", "cwnd_factor"): xjtcp_factor,
    ("002", "cwnd_after"): xjtcp_window,
    ("003", "dup_thr"): duplicate_threshold,
}
