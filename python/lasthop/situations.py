"""Random situations of one TCP connection, by kind: what is written, and what path and receiver do with it.

`lasthop.fuzz` plays them against the engine. A situation is a function of its kind, its controller and its
number: the same three give the same situation on every machine.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

from lasthop import _native
from lasthop.errors import native_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    Situation = dict[str, Any]

#: Controllers that every Linux kernel has, with the preset that follows them.
PRESETS = {"reno": "sack", "cubic": "cubic"}
#: Headers without options, and what timestamps add, in bytes.
HEADERS, TIMESTAMPS = 40, 12
#: Microseconds.
MS = 1_000


def _often(draw: random.Random, share: float) -> bool:
    return draw.random() < share


def _no_loss(_: random.Random, situation: Situation) -> None:
    situation["acks"]["jitter_us"] = 2 * MS


def _loss(draw: random.Random, situation: Situation) -> None:
    situation["data"]["loss"] = draw.choice([0.02, 0.05, 0.05, 0.1])
    situation["acks"]["loss"] = draw.choice([0.0, 0.05])


def _jitter(draw: random.Random, situation: Situation) -> None:
    _loss(draw, situation)
    for way in ("data", "acks"):
        situation[way].update(jitter_us=4 * MS, overtaking=True)


def _reordering(draw: random.Random, situation: Situation) -> None:
    late_us = draw.choice([10, 40]) * MS
    situation["data"].update(late=draw.choice([0.03, 0.06]), late_us=late_us)
    if _often(draw, 0.5):
        situation["acks"].update(late=0.05, late_us=draw.choice([5, 10]) * MS)


def _duplicates(draw: random.Random, situation: Situation) -> None:
    for way in ("data", "acks"):
        situation[way].update(duplicate=0.05, loss=draw.choice([0.0, 0.02]))


def _marks(draw: random.Random, situation: Situation) -> None:
    situation["head"]["transport"]["ecn"] = situation["peer"]["ecn"] = True
    situation["data"].update(mark=draw.choice([0.02, 0.05, 0.2]), loss=draw.choice([0.0, 0.0, 0.02]))


def _windows(draw: random.Random, situation: Situation) -> None:
    payload = situation["payload"]
    closed, at = [], draw.randrange(150, 400)
    while at < situation["until_us"] // MS - 200:
        until = at + draw.randrange(40, 250)
        closed.append([at * MS, until * MS])
        at = until + draw.randrange(100, 400)
    situation["room"] = {"bytes": payload * draw.randrange(4, 30), "closed_us": closed}
    situation["data"]["loss"] = draw.choice([0.0, 0.0, 0.02])


def _writes(draw: random.Random, situation: Situation) -> None:
    situation["writes"] = _pieces(draw, situation, whole=False)
    situation["data"]["loss"] = draw.choice([0.0, 0.0, 0.03])
    if _often(draw, 0.3):
        situation["close_us"] = situation["writes"][-1][0] + draw.choice([0, 100 * MS])


def _no_sack(draw: random.Random, situation: Situation) -> None:
    situation["peer"].update(preset="newreno", sack_blocks=0)
    situation["data"]["loss"] = draw.choice([0.02, 0.05])
    if _often(draw, 0.3):
        situation["data"].update(late=0.03, late_us=10 * MS)


def _mixed(draw: random.Random, situation: Situation) -> None:
    parts = [_loss, _jitter, _reordering, _duplicates, _marks, _windows, _writes]
    for part in draw.sample(parts, draw.randrange(2, 4)):
        part(draw, situation)


#: What may happen, by name: in words, and what it puts into a situation.
KINDS: dict[str, tuple[str, Callable[[random.Random, Situation], None]]] = {
    "no-loss": ("everything arrives, in order", _no_loss),
    "loss": ("5 % of segments and ACKs are lost", _loss),
    "jitter": ("losses, and delays of up to 4 ms that let packets overtake", _jitter),
    "reordering": ("some segments or ACKs come 10 or 40 ms late; nothing is lost", _reordering),
    "duplicates": ("segments and ACKs come twice, and some are lost", _duplicates),
    "marks": ("segments are marked, and a few are lost", _marks),
    "windows": ("the receiver has little room and stops reading now and then", _windows),
    "writes": ("the application writes now and then, not in whole segments, and may close", _writes),
    "no-sack": ("the receiver does not do SACK, and some segments are lost or late", _no_sack),
    "mixed": ("several of the others at once", _mixed),
}


def draw(kind: str, controller: str, number: int) -> Situation:
    """Draw a situation.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    controller : str
        One of `PRESETS`.
    number : int
        Which of its kind.

    Returns
    -------
    dict
        What `script_of` takes.

    Examples
    --------
    >>> draw("loss", "reno", 1) == draw("loss", "reno", 1)
    True
    >>> draw("marks", "cubic", 3)["peer"]["ecn"]
    True
    """
    drawn = random.Random(f"{kind} {controller} {number}")  # noqa: S311 (situations, not secrets)
    payload = drawn.choice([1000, 1000, 1448, 536, drawn.randrange(300, 1449)])
    timestamps = _often(drawn, 0.5)
    packet = f"{payload + HEADERS + TIMESTAMPS * timestamps} B"
    ends = {"profile": "linux", "packet_size": packet, "timestamps": timestamps}
    delay_us = drawn.randrange(10, 60) * MS
    situation: Situation = {
        "payload": payload,
        "head": {
            "title": f"{kind} {number}: {KINDS[kind][0]}",
            "sources": ["written down from the engine"],
            "transport": {"preset": PRESETS[controller], **ends},
            "kernel": controller,
        },
        "peer": {"preset": "sack", **ends, "delayed_ack": _often(drawn, 0.5)},
        "seed": drawn.randrange(1 << 32),
        "delay_us": delay_us,
        "spacing_us": drawn.randrange(200, 4_000),
        "data": {},
        "acks": {},
        "until_us": 1_500 * MS,
    }
    # Before the connection is open, it is a kernel's choice whether data go with the ACK of the SYN-ACK.
    opened_us = 2 * delay_us + MS
    bulk = _often(drawn, 0.6)
    at_once = [[drawn.choice([0, 100]) * MS, payload * drawn.randrange(15, 70)]]
    situation["writes"] = at_once if bulk else _pieces(drawn, situation, whole=True)
    KINDS[kind][1](drawn, situation)
    situation["writes"] = [[opened_us + at, size] for at, size in situation["writes"]]
    if "close_us" in situation:
        situation["close_us"] += opened_us
    return situation


def _pieces(draw: random.Random, situation: Situation, *, whole: bool) -> list[list[int]]:
    """Return writes with pauses between them."""
    payload, writes, at = situation["payload"], [], draw.randrange(0, 200)
    for _ in range(draw.randrange(3, 9)):
        size = payload * draw.randrange(1, 16)
        writes.append([at * MS, size if whole else max(1, size - draw.randrange(payload))])
        at += draw.randrange(5, 300)
    return writes


def script_of(situation: Situation) -> str:
    """Play a situation against the engine and return what it did as a script."""
    played = {key: value for key, value in situation.items() if key != "payload"}
    with native_errors():
        return _native.play_situation(json.dumps(played))
