"""Closed forms for what TCP achieves on a path, with the limits within which each of them holds.

Public: import from here to set a simulation beside a formula. `lasthop plot --model` does it for a run,
`lasthop compare --model` for senders and helpers, `lasthop study plot --model` for the points of a study.
The claims of papers are judged with the same functions. Sizes are in bytes, times in seconds, and rates in
packets or bytes per second, as the names say. Nothing here simulates anything.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lasthop.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from lasthop.columns import Metric
    from lasthop.results import Run
    from lasthop.scenario import Scenario

#: Constant of the square-root formula for random losses and an ACK for every packet (Mathis et al. 1997).
MATHIS_C0 = math.sqrt(1.5)
#: Least timeouts of the profiles, in s.
LEAST_TIMEOUTS_S = {"rfc": 1.0, "ns2": 0.2, "linux": 0.2}
#: Up to this window a loss cannot be seen by three duplicate ACKs (Padhye et al. 2000).
TIMEOUT_WINDOW = 3


@dataclass(frozen=True, slots=True)
class Law:
    """A closed form by name, with its limits in words.

    Attributes
    ----------
    name, label : str
        As in ``--model``, and for people.
    limits : str
        Where it does not hold.
    packets_per_s : callable
        ``(loss, rtt_s, rto_s, window)`` to packets per second.
    """

    name: str
    label: str
    limits: str
    packets_per_s: Callable[[float, float, float, float], float]


def mathis(packet_bytes: float, rtt_s: float, loss: float, *, acked_at_once: int = 1) -> float:
    """Return the rate of the square-root formula in bytes per second: ``C0 s / (RTT sqrt(p))``.

    No timeouts: it promises too much above a loss of about 2 %. With no loss it is infinite; then the window
    or the link is the limit.

    Parameters
    ----------
    packet_bytes, rtt_s : float
        Size of a packet, and round trip time.
    loss : float
        Share of packets lost, each independently.
    acked_at_once : int
        Packets per ACK: 2 with delayed ACKs, which divides the constant by ``sqrt(2)``.

    Examples
    --------
    >>> round(mathis(1000, 0.1, 0.01), 1)
    122474.5
    """
    _check(loss, rtt_s)
    if loss == 0:
        return math.inf
    return MATHIS_C0 * packet_bytes / (rtt_s * math.sqrt(loss * acked_at_once))


def mathis_loss(packet_bytes: float, rtt_s: float, rate_bytes_s: float) -> float:
    """Return the loss at which the square-root formula gives a rate.

    Examples
    --------
    >>> f"{mathis_loss(1000, 0.1, 5e6 / 8):.3g}"
    '0.000384'
    """
    return (MATHIS_C0 * packet_bytes / (rtt_s * rate_bytes_s)) ** 2


def mathis_rtt(packet_bytes: float, loss: float, rate_bytes_s: float) -> float:
    """Return the round trip time in s at which the square-root formula gives a rate.

    Examples
    --------
    >>> round(1e3 * mathis_rtt(1000, 0.01, 5e6 / 8), 1)
    19.6
    """
    _check(loss, 1.0)
    return MATHIS_C0 * packet_bytes / (math.sqrt(loss) * rate_bytes_s) if loss else math.inf


def tfrc(loss: float, rtt_s: float, rto_s: float, *, bounded: bool = False) -> float:
    """Return the response function of TFRC in packets per second (one packet per ACK).

    Parameters
    ----------
    loss : float
        Loss event rate.
    rtt_s, rto_s : float
        Round trip time and retransmission timeout; RFC 5348 takes four round trips for the latter.
    bounded : bool
        Whether ``3 sqrt(3 p / 8)`` is bounded by 1 as in Padhye et al., which differs above a loss of 0.296;
        RFC 5348 does not bound it.

    Examples
    --------
    >>> round(tfrc(0.01, 0.1, 0.4), 1)
    112.3
    """
    _check(loss, rtt_s)
    if loss == 0:
        return math.inf
    timeouts = 3 * math.sqrt(3 * loss / 8)
    if bounded:
        timeouts = min(1.0, timeouts)
    return 1 / (rtt_s * math.sqrt(2 * loss / 3) + rto_s * timeouts * loss * (1 + 32 * loss**2))


def padhye(
    loss: float, rtt_s: float, rto_s: float, window: float = math.inf, *, acked_at_once: int = 2
) -> float:
    """Return the full model of Reno by Padhye, Firoiu, Towsley and Kurose (2000) in packets per second.

    It assumes that losses of one round trip come together, that the round trip does not depend on the window,
    and a flow that always has data. Above a loss of about 0.3 its timeouts are guesswork.

    Parameters
    ----------
    loss : float
        Probability that a packet is lost, given that the one before it was not.
    rtt_s, rto_s : float
        Round trip time and first timeout.
    window : float
        Largest window in packets.
    acked_at_once : int
        Packets per ACK.

    Examples
    --------
    >>> round(padhye(0.01, 0.1, 0.4, 64), 4)
    77.8465
    """
    _check(loss, rtt_s)
    if loss == 0:
        return window / rtt_s
    if loss == 1:
        return 0.0
    reached, _ = padhye_window(loss, acked_at_once=acked_at_once)
    limited = reached >= window
    peak = min(reached, window)
    by_timeout = padhye_timeouts(loss, peak)
    doublings = sum(2.0 ** (k - 1) * loss**k for k in range(1, 7)) + 1
    packets = (1 - loss) / loss + peak + by_timeout / (1 - loss)
    if limited:
        rounds = acked_at_once * window / 8 + (1 - loss) / (loss * window) + 2
    else:
        rounds = acked_at_once * peak / 2 + 1
    return packets / (rtt_s * rounds + by_timeout * doublings * rto_s / (1 - loss))


def padhye_window(loss: float, *, acked_at_once: int = 2) -> tuple[float, float]:
    """Return the mean window of that model at a loss, and the share of losses found by timeouts.

    Examples
    --------
    >>> [round(value, 4) for value in padhye_window(0.01)]
    [12.1751, 0.2799]
    """
    b = acked_at_once
    k = (2 + b) / (3 * b)
    window = k + math.sqrt(8 * (1 - loss) / (3 * b * loss) + k * k)
    return window, padhye_timeouts(loss, window)


def padhye_timeouts(loss: float, window: float) -> float:
    """Return the share of losses found by a timeout, at a window."""
    if window <= TIMEOUT_WINDOW:
        return 1.0
    kept = 1 - loss
    three = kept**3
    share: float = (1 - three) * (1 + three * (1 - kept ** (window - 3))) / (1 - kept**window)
    return min(1.0, share)


def padhye_approximate(
    loss: float, rtt_s: float, rto_s: float, window: float = math.inf, *, acked_at_once: int = 2
) -> float:
    """Return the approximation of `padhye` in packets per second.

    Within a few per cent of the full model below a loss of 5 %, a sixth too low at 10 %.

    Examples
    --------
    >>> round(padhye_approximate(0.01, 0.1, 0.4, 64), 4)
    79.4309
    """
    _check(loss, rtt_s)
    if loss == 0:
        return window / rtt_s
    b = acked_at_once
    timeouts = min(1.0, 3 * math.sqrt(3 * b * loss / 8)) * loss * (1 + 32 * loss**2)
    return min(window / rtt_s, 1 / (rtt_s * math.sqrt(2 * b * loss / 3) + rto_s * timeouts))


def path_loss(losses: Iterable[float]) -> float:
    """Return the loss of a path whose hops lose independently.

    Examples
    --------
    >>> round(path_loss([0.01, 0.02, 0.05]), 5), round(path_loss([0.01, 0.02]), 5)
    (0.07831, 0.0298)
    """
    kept = 1.0
    for loss in losses:
        _check(loss, 1.0)
        kept *= 1 - loss
    return 1 - kept


def repaired_loss(loss: float, retries: float = math.inf) -> float:
    """Return what remains of a hop's loss after retries; nothing if they never end.

    Examples
    --------
    >>> repaired_loss(0.1, 2), repaired_loss(0.1)
    (0.0010000000000000002, 0.0)
    """
    _check(loss, 1.0)
    return 0.0 if math.isinf(retries) and loss < 1 else loss ** (retries + 1)


def coded_loss(loss: float, k: int, n: int) -> float:
    """Return what a block code of `k` packets in `n` leaves of a hop's loss, if losses are independent.

    A packet is lost for good if it is lost and so are at least ``n - k`` of the other ``n - 1``.

    Examples
    --------
    >>> f"{coded_loss(0.05, 8, 10):.3e}", f"{coded_loss(0.01, 4, 5):.3e}"
    ('3.561e-03', '3.940e-04')
    """
    _check(loss, 1.0)
    if not 1 <= k <= n:
        raise ArgumentError(f"a code has 1 packet or more in a block of n, at least as many: found {k}, {n}")
    few = sum(math.comb(n - 1, lost) * loss**lost * (1 - loss) ** (n - 1 - lost) for lost in range(n - k))
    return loss * max(0.0, 1 - few)


def transmissions(loss: float, retries: float = math.inf) -> float:
    """Return the mean number of transmissions of a frame on a hop that retransmits until delivery or give-up.

    Examples
    --------
    >>> round(transmissions(0.05, 3), 6), transmissions(0.5)
    (1.052625, 2.0)
    """
    _check(loss, 1.0)
    if loss == 1:
        return retries + 1
    return (1 - repaired_loss(loss, retries)) / (1 - loss)


def hybrid_loss(loss: float, pieces: int, parity: int, attempts: int) -> float:
    """Return the chance that type-II hybrid ARQ has not delivered a frame after this many transmissions.

    The first sends the `pieces` of the frame, each later one `parity` more; any `pieces` of them rebuild it.

    Parameters
    ----------
    loss : float
        Share of pieces lost, each independently.
    pieces, parity, attempts : int
        As the link's ``hybrid`` and ``attempts`` have them.

    Examples
    --------
    >>> round(hybrid_loss(0.1, 8, 2, 1), 4), round(hybrid_loss(0.1, 8, 2, 2), 4)
    (0.5695, 0.0702)
    >>> hybrid_loss(0.1, 1, 1, 3) == repaired_loss(0.1, 2)
    True
    """
    _check(loss, 1.0)
    if attempts < 1:
        return 1.0
    if pieces == parity == 1:
        return repaired_loss(loss, attempts - 1)
    sent = pieces + (attempts - 1) * parity
    come = (math.comb(sent, here) * (1 - loss) ** here * loss ** (sent - here) for here in range(pieces))
    return math.fsum(come)


def hybrid_load(loss: float, pieces: int, parity: int, attempts: int) -> float:
    """Return the mean transmitted length of a frame relative to its own, including frames given up.

    Examples
    --------
    >>> round(hybrid_load(0.1, 8, 2, 4), 4), hybrid_load(0.1, 8, 2, 1)
    (1.161, 1.0)
    """
    again = (hybrid_loss(loss, pieces, parity, attempt) for attempt in range(1, attempts))
    return 1 + parity / pieces * math.fsum(again)


def is_underused(sending_bytes_s: float, loss: float, hop_bytes_s: float, hop_loss: float) -> bool:
    """Say whether a flow leaves capacity of the wireless hop unused: ``T (1 - p) < B (1 - pW)``.

    The sending rate is reduced by the loss of the whole path, the capacity of the hop by its own. The round
    trip is taken as given, although local repair lengthens it.

    Examples
    --------
    >>> is_underused(mathis(1000, 0.1, 0.01), 0.01, 5e6 / 8, 0.01)
    True
    """
    return sending_bytes_s * (1 - loss) < hop_bytes_s * (1 - hop_loss)


@dataclass(frozen=True, slots=True)
class Hop:
    """One hop of a path, for `one_way_delay`: rate in bytes per s, propagation and queueing in s."""

    rate_bytes_s: float
    propagation_s: float
    queueing_s: float = 0.0


def one_way_delay(
    packet_bytes: float, hops: Iterable[Hop], *, encoding_s: float = 0.0, playback_s: float = 0.0
) -> float:
    """Return the one-way delay of a packet in s: what the ends take, and each hop in turn.

    Examples
    --------
    >>> lan = Hop(10e6 / 8, 1e-3)
    >>> round(1e3 * one_way_delay(1000, [lan, Hop(5e6 / 8, 10e-3, 20e-3), lan]), 1)
    35.2
    """
    network = sum(packet_bytes / hop.rate_bytes_s + hop.queueing_s + hop.propagation_s for hop in hops)
    return encoding_s + network + playback_s


def spacing_jitter(sent_s: tuple[float, float], received_s: tuple[float, float]) -> float:
    """Return how much farther apart two packets arrived than they were sent, in s."""
    return (received_s[1] - received_s[0]) - (sent_s[1] - sent_s[0])


def transit_jitter(sent_s: tuple[float, float], received_s: tuple[float, float]) -> float:
    """Return the difference of two packets' transit times in s: the same as `spacing_jitter`.

    Examples
    --------
    >>> sent, received = (0.0, 0.02), (0.1, 0.15)
    >>> round(transit_jitter(sent, received) - spacing_jitter(sent, received), 12)
    0.0
    """
    return (received_s[1] - sent_s[1]) - (received_s[0] - sent_s[0])


def jitter_ratio(sent_s: tuple[float, float], received_s: tuple[float, float]) -> float:
    """Return the jitter ratio of JTCP: jitter over the spacing of the arrivals.

    Examples
    --------
    >>> round(jitter_ratio((0.0, 0.1), (0.0, 0.106)), 7)
    0.0566038
    """
    return spacing_jitter(sent_s, received_s) / (received_s[1] - received_s[0])


def jain(values: Iterable[float]) -> float:
    """Return Jain's fairness index.

    Examples
    --------
    >>> round(jain([1.72, 1, 1, 1, 1]), 3)
    0.94
    """
    rates = list(values)
    squares = sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares else 1.0


def find(name: str) -> Law:
    """Return a model by name.

    Raises
    ------
    ArgumentError
        There is none of that name; the text lists those there are.
    """
    if name not in LAWS:
        raise ArgumentError(f"unknown model '{name}': there are {', '.join(LAWS)}")
    return LAWS[name]


def of_run(run: Run, name: str) -> dict[str, float]:
    """Return a model's throughput in bit/s for each flow, from its measured loss and round trip.

    Of the losses those count that the sender had to repair itself. Packets are of the mean size that arrived,
    the first timeout is the 99th percentile of the round trips but at least the scenario's least one, and of
    the rate what is lost does not arrive. Flows without losses or round trips, such as those of UDP, are left
    out.

    Parameters
    ----------
    run : Run
        Of any scenario.
    name : str
        One of `LAWS`.
    """
    law = find(name)
    tcp = run.scenario.get("tcp", {})
    least_s = _seconds(tcp.get("rto", {}).get("min")) or LEAST_TIMEOUTS_S.get(tcp.get("profile", "rfc"), 1.0)
    room = str(tcp.get("receiver_window", "")).partition(" packets")
    window = float(room[0]) if room[1] else math.inf
    said = {}
    for flow in run.flows.iter_rows(named=True):
        # Datagrams are not retransmitted: null.
        if flow["retransmitted_packets"] is None:
            continue
        # What a helper repairs is lost as well, and is none of the sender's losses.
        lost = min(flow["lost_packets"], flow["retransmitted_packets"])
        arrived = flow["packets_sent"] - lost
        if flow["rtt_mean_s"] is None or not lost or arrived <= 0:
            continue
        loss = lost / flow["packets_sent"]
        wire_bits = flow["throughput_bit_s"] * run.record["measured_s"] / arrived
        rto_s = max(flow["rtt_p99_s"], least_s)
        rate = law.packets_per_s(loss, flow["rtt_mean_s"], rto_s, window)
        said[flow["name"]] = rate * (1 - loss) * wire_bits
    return said


@dataclass(frozen=True, slots=True)
class Promise:
    """The prediction of a model for a flow, without a simulation.

    Attributes
    ----------
    goodput_bit_s, throughput_bit_s : float
        Rate of data to the application, and of their packets to the receiver.
    loss : float
        Residual share of lost packets, which the sender has to repair.
    rtt_s : float
        Round trip with empty queues, including the time of repairs on the path.
    delay_s : float
        The same for a packet from end to end: equation 7 of paper 000 without encoding and playback. Of a
        split connection the sum of both halves.
    limit : str
        The limiting factor: ``sender``, ``window``, or ``link``, which is shared evenly.
    """

    goodput_bit_s: float
    throughput_bit_s: float
    loss: float
    rtt_s: float
    delay_s: float
    limit: str


def of_scenario(scenario: Scenario | str | Path | Mapping[str, Any], name: str) -> dict[str, Promise]:
    """Return the prediction of a model for each TCP flow from the scenario alone, helpers included.

    A link that retransmits has the residual loss ``p^N``, a block code that of `coded_loss` and ``k / n`` of
    the rate, Snoop and WTCP the loss after their retransmissions; a split makes two connections, of which the
    slower one counts. Local retransmissions increase the round trip by their mean number. A link carries
    ``1 - p`` of its rate, shared evenly by the flows over it.

    The limits are those of the model, and: repairs are perfect, no ACK is lost, queues are empty, losses are
    independent, every flow sends all the time on its first path. There is no prediction for flows over radio
    cells, outages, changing rates, losses at given times, or adaptive FEC.

    Parameters
    ----------
    scenario : Scenario, mapping or path
        What would be simulated.
    name : str
        One of `LAWS`.

    Examples
    --------
    >>> import lasthop as lh
    >>> [promise.limit for promise in of_scenario(lh.EXAMPLE, "mathis").values()]
    ['link', 'link']
    """
    from lasthop.scenario import as_scenario

    law = find(name)
    ways = json.loads(as_scenario(scenario).plan.ways())
    over = Counter(hop["link"] for way in ways if way is not None for hop in way["hops"])
    promises: dict[int, Promise] = {}
    said: dict[str, Promise] = {}
    for place, way in enumerate(ways):
        promise = None if way is None else _promise(way, law, over)
        if promise is None:
            continue
        if way["passes_on"] is None:
            promises[place], said[way["flow"]] = promise, promise
            continue
        # The halves of a split connection: the first has the name that people know.
        first = _first_half(ways, place)
        if first not in promises:
            continue
        slower = min(promises[first], promise, key=lambda one: one.goodput_bit_s)
        whole = replace(slower, delay_s=promises[first].delay_s + promise.delay_s)
        promises[first] = said[ways[first]["flow"]] = whole
    for place, way in enumerate(ways):
        # A half of which nothing can be said leaves nothing to say of the whole.
        if way is not None and way["passes_on"] is not None and _promise(way, law, over) is None:
            said.pop(ways[_first_half(ways, place)]["flow"], None)
    return said


def of_metric(said: Mapping[str, Promise], metric: Metric) -> float | None:
    """Return the prediction of a model for a metric of a run, in the unit of tables, or `None`.

    It speaks of goodput, and of the mean round trip and one-way delay of the path with empty queues.
    """
    figure = next((figure for end, figure in _PROMISED.items() if metric.field.endswith(end)), None)
    if figure is None or not said or metric.where is not None:
        return None
    values = [figure(promise) for promise in said.values()]
    whole = metric.by == "sum" or metric.source == "totals"
    return math.fsum(values) if whole else math.fsum(values) / len(values)


#: What of a promise belongs to which field of a metric, by its end.
_PROMISED: dict[str, Callable[[Promise], float]] = {
    "goodput_bit_s": lambda promise: promise.goodput_bit_s,
    "rtt_mean_s": lambda promise: promise.rtt_s,
    "delay_mean_s": lambda promise: promise.delay_s,
}


def _first_half(ways: list[dict[str, Any]], place: int) -> int:
    while ways[place]["passes_on"] is not None:
        place = ways[place]["passes_on"]
    return place


def _promise(way: dict[str, Any], law: Law, over: Counter[str]) -> Promise | None:
    """Return the prediction of a model for one connection, also for a half of a split one."""
    hops, packet_bits = way["hops"], 8 * way["packet_bytes"]
    payload = way["payload_bytes"] / way["packet_bytes"]
    there = [hop["delay_s"] + packet_bits / hop["rate_bit_s"] for hop in hops]
    back = [hop["back_delay_s"] + 8 * way["ack_bytes"] / hop["back_rate_bit_s"] for hop in hops]
    trips = [one + other for one, other in zip(there, back, strict=True)]
    losses, rates, added = [], [], 0.0
    for place, hop in enumerate(hops):
        loss, rate, arq, fec = hop["loss"], hop["rate_bit_s"], hop["arq"], hop["fec"]
        if loss is None or (fec is not None and fec["adaptive"]):
            return None
        carried = rate * (1 - loss)
        if arq is not None:
            attempts = arq["attempts"] if hop["before_repair"] else 1
            code = (loss, arq["pieces"], arq["parity"])
            late = math.fsum(hybrid_loss(*code, done) for done in range(1, attempts)) * arq["timeout_s"]
            added += late
            loss = hybrid_loss(*code, attempts)
            carried = rate * (1 - loss) / hybrid_load(*code, attempts)
            carried = min(carried, arq["window"] * packet_bits / (arq["cycle_s"] + late))
        if fec is not None:
            loss = coded_loss(loss, fec["k"], fec["n"])
            carried = rate * fec["k"] / fec["n"] * (1 - loss)
        if hop["repaired"]:
            repeats = math.inf if hop["local_repeats"] is None else hop["local_repeats"]
            added += (transmissions(loss, repeats) - 1) * sum(trips[place:])
            loss = repaired_loss(loss, repeats)
        losses.append(loss)
        rates.append(carried / over[hop["link"]])
    loss, rtt_s = path_loss(losses), sum(trips) + added
    window = way["window_packets"]
    packets = law.packets_per_s(loss, rtt_s, max(rtt_s, way["least_timeout_s"]), window)
    sent, most = packets * (1 - loss) * packet_bits, min(rates)
    limit = "link" if sent > most else "window" if packets >= window / rtt_s else "sender"
    arriving = min(sent, most)
    return Promise(arriving * payload, arriving, loss, rtt_s, sum(there) + added, limit)


def _seconds(text: str | None) -> float | None:
    """Return the seconds of a duration as scenarios have it, such as ``200 ms``."""
    if text is None:
        return None
    number, _, unit = str(text).partition(" ")
    return float(number) * {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}.get(unit, math.nan)


def _check(loss: float, rtt_s: float) -> None:
    if not 0 <= loss <= 1:
        raise ArgumentError(f"a loss rate is from 0 to 1, found {loss}")
    if not rtt_s > 0:
        raise ArgumentError(f"a round trip time is above 0 s, found {rtt_s}")


#: The models that ``--model`` accepts.
LAWS: dict[str, Law] = {
    one.name: one
    for one in (
        Law(
            "mathis",
            "square-root law",
            "no timeouts, so too high above 2 % loss; the round trip does not grow with the queue",
            lambda loss, rtt, _rto, window: min(window / rtt, mathis(1.0, rtt, loss)),
        ),
        Law(
            "tfrc",
            "TFRC's equation",
            "counts loss events, which are fewer than losses; rough above 30 % loss",
            lambda loss, rtt, rto, window: min(window / rtt, tfrc(loss, rtt, rto)),
        ),
        Law(
            "padhye",
            "Padhye et al., full model",
            "losses of a round trip come together, so too low where they are independent",
            lambda loss, rtt, rto, window: padhye(loss, rtt, rto, window, acked_at_once=1),
        ),
        Law(
            "padhye-approximate",
            "Padhye et al., approximation",
            "as the full model, and a sixth too low at 10 % loss",
            lambda loss, rtt, rto, window: padhye_approximate(loss, rtt, rto, window, acked_at_once=1),
        ),
    )
}
