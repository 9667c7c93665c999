"""A lasthop scenario, resolved just far enough to be written down for another simulator.

Called by `validation.ns2` and the benchmarks. lasthop checks scenarios itself, so here a scenario is taken
to be valid; whatever the other simulator cannot express raises `UnsupportedError` instead of being run as
something else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Scenario = Mapping[str, Any]

_UNITS = {
    "bit/s": Fraction(1),
    "kbit/s": Fraction(10**3),
    "Mbit/s": Fraction(10**6),
    "Gbit/s": Fraction(10**9),
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "ms": Fraction(1, 10**3),
    "s": Fraction(1),
    "min": Fraction(60),
    "h": Fraction(3600),
    "B": Fraction(1),
    "kB": Fraction(10**3),
    "MB": Fraction(10**6),
    "GB": Fraction(10**9),
    "packets": Fraction(1),
    "packet": Fraction(1),
    "%": Fraction(1, 100),
    "": Fraction(1),
}
_QUANTITY = re.compile(r"\s*([0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\s*(\S*)\s*")

#: Preset name -> recovery engine in the `ns2` profile.
SENDERS = ("tahoe", "reno", "newreno", "sack", "vegas")

#: A queue no packet ever fills.
UNLIMITED = 10**9


class UnsupportedError(Exception):
    """The scenario says something that the other simulator cannot do."""


def quantity(value: object) -> float:
    """The number behind `"25 ms"`, `"10 Mbit/s"` or `"30 packets"`, in seconds, bit/s, bytes or packets."""
    if isinstance(value, int | float):
        return float(value)
    return float(_exact(value))


def _exact(value: object) -> Fraction:
    match = _QUANTITY.fullmatch(str(value))
    if match is None or match[2] not in _UNITS:
        raise UnsupportedError(f"cannot read the quantity {value!r}")
    return Fraction(match[1].replace("_", "")) * _UNITS[match[2]]


@dataclass(frozen=True)
class ErrorModel:
    """What loses packets in one direction of a link."""

    packet_error_rate: float = 0.0
    packets: tuple[int, ...] = ()
    before_queue: bool = False


@dataclass(frozen=True)
class Red:
    """RED in the profile `ns2`, whose names are those of ns-2. `None`: what ns-2 derives from the link."""

    in_bytes: bool = True
    mean_packet: int = 500
    min_th: float | None = None
    max_th: float | None = None
    w_q: float | None = None
    max_p: float = 0.1
    gentle: bool = True
    wait: bool = True
    ecn: bool = True
    mark_p: float = 0.1
    use_mark_p: bool = True
    adaptive: bool = False


@dataclass(frozen=True)
class Direction:
    """One direction of a link."""

    link: str
    source: str
    target: str
    rate_bit_s: float
    delay_s: float
    queue_packets: int
    error: ErrorModel | None
    outages: tuple[tuple[float, float], ...] = ()
    red: Red | None = None


@dataclass(frozen=True)
class Tcp:
    """A TCP sender and its receiver, with the defaults of the `ns2` profile."""

    sender: str
    packet_size: int = 1000
    receiver_window: int = 20
    initial_window: float = 2.0
    rto_min_s: float = 0.2
    rto_max_s: float = 60.0
    rto_initial_s: float = 3.0
    tick_s: float = 0.01
    timestamps: bool = False
    sack_blocks: int = 3
    dsack: bool = False
    delayed_ack_s: float | None = None
    limited_transmit: bool = True
    dup_threshold: int = 3
    grow_when_limited_elsewhere: bool = True
    ecn: bool = False
    alpha: float = 1.0
    beta: float = 3.0
    gamma: float = 1.0


@dataclass(frozen=True)
class Writes:
    """Equal writes at equal intervals."""

    bytes: int
    interval_s: Fraction


@dataclass(frozen=True)
class Flow:
    """One unlimited, finite or paced FTP transfer; `start_s` is a time or an interval to draw it from."""

    name: str
    source: str
    sink: str
    tcp: Tcp
    start_s: tuple[float, float]
    stop_s: float | None
    bytes: int | None
    writes: Writes | None = None

    def written(self, time_s: float) -> float:
        """Bytes that the application has written by then, if it starts at a known time."""
        total = math.inf if self.bytes is None else self.bytes
        if self.writes is None:
            return total
        count = math.floor((time_s - self.start_s[0]) / self.writes.interval_s) + 1
        return min(total, count * self.writes.bytes)


@dataclass(frozen=True)
class Network:
    """Everything another simulator needs to run the scenario."""

    nodes: tuple[str, ...]
    directions: tuple[Direction, ...]
    flows: tuple[Flow, ...]
    duration_s: float
    #: Longest time that the host of a sender takes for a packet.
    processing_s: float = 0.0

    def access_link(self, flow: Flow) -> Direction:
        """The link on which the packets of `flow` leave their source."""
        return next(link for link in self.directions if link.source == flow.source)


def read(scenario: Scenario) -> Network:
    """Read what `scenario` describes.

    Raises `UnsupportedError` for what is not TCP over point-to-point links.
    """
    duration = quantity(scenario["duration"])
    topology = scenario["topology"]
    flows = _flows(scenario)
    if topology["kind"] == "graph":
        nodes = tuple(topology["nodes"])
        links = [dict(link) for link in topology["links"]]
    elif topology["kind"] == "dumbbell":
        nodes, links, flows = _dumbbell(scenario, flows)
    else:
        raise UnsupportedError(f"topology {topology['kind']!r}")
    directions = tuple(direction for link in links for direction in _directions(link, duration))
    processing = quantity(scenario.get("processing_time", 0.0))
    return Network(nodes, directions, tuple(flows), duration, processing)


def _flows(scenario: Scenario) -> list[Flow]:
    flows: list[Flow] = []
    for table in scenario["flows"]:
        count = int(table.get("count", 1))
        name = table.get("name", "flow")
        for _ in range(count):
            flows.append(
                Flow(
                    name=f"{name}-{len(flows) + 1}" if count > 1 else name,
                    source=table.get("source", ""),
                    sink=table.get("sink", ""),
                    tcp=_tcp(table.get("transport"), scenario.get("tcp", {})),
                    start_s=_start(table.get("start", 0.0)),
                    stop_s=quantity(table["stop"]) if "stop" in table else None,
                    bytes=_transfer(table.get("traffic", "ftp")),
                    writes=_writes(table.get("traffic", "ftp")),
                )
            )
    return flows


def _start(value: object) -> tuple[float, float]:
    if isinstance(value, Mapping):
        low, high = value["uniform"]
        return quantity(low), quantity(high)
    return quantity(value), quantity(value)


def _transfer(traffic: object) -> int | None:
    if traffic == "ftp":
        return None
    if isinstance(traffic, Mapping) and traffic.get("kind") in ("ftp", "paced-ftp"):
        return int(quantity(traffic["bytes"])) if "bytes" in traffic else None
    raise UnsupportedError(f"traffic {traffic!r}")


def _writes(traffic: object) -> Writes | None:
    if not isinstance(traffic, Mapping) or traffic["kind"] != "paced-ftp":
        return None
    return Writes(int(quantity(traffic["write"])), _exact(traffic["interval"]))


def _tcp(transport: object, defaults: Mapping[str, Any]) -> Tcp:
    table: dict[str, Any] = dict(defaults)
    if isinstance(transport, str):
        table["preset"] = transport
    elif isinstance(transport, Mapping):
        table.update(transport)
    if table.pop("profile", "rfc") != "ns2":
        raise UnsupportedError('only profile = "ns2" means the same in another simulator')
    values: dict[str, Any] = {"sender": table.pop("preset", None)}
    if values["sender"] not in SENDERS:
        raise UnsupportedError(f"sender {values['sender']!r}")
    # ns-2 sets its threshold to the receiver window when the agent is made and offers no other knob.
    ssthresh = quantity(table.pop("initial_ssthresh", Tcp.receiver_window))
    if ssthresh != quantity(table.get("receiver_window", Tcp.receiver_window)):
        raise UnsupportedError("ns-2 starts with the slow start threshold at the receiver window")
    values.update(_timer(table.pop("rto", {})))
    values["delayed_ack_s"] = _delayed_ack(table.pop("delayed_ack", False))
    unknown = table.keys() - Tcp.__dataclass_fields__.keys()
    if unknown:
        raise UnsupportedError(f"TCP keys {', '.join(sorted(unknown))}")
    values.update(
        {key: value if isinstance(value, bool) else quantity(value) for key, value in table.items()}
    )
    whole = ("packet_size", "receiver_window", "sack_blocks", "dup_threshold")
    values.update({key: int(values[key]) for key in whole if key in values})
    return Tcp(**values)


def _timer(settings: Mapping[str, Any]) -> dict[str, float]:
    """The phase of the clock is ns-2's own: it is read back after the run."""
    names = {"min": "rto_min_s", "max": "rto_max_s", "initial": "rto_initial_s", "tick": "tick_s"}
    return {names[key]: quantity(value) for key, value in settings.items() if key != "clock_phase"}


def _delayed_ack(setting: object) -> float | None:
    if setting is False:
        return None
    if not isinstance(setting, Mapping) or "timeout" not in setting:
        raise UnsupportedError("delayed_ack needs a timeout here")
    if int(setting.get("segments", 2)) != 2 or int(setting.get("quick", 0)) != 0:
        raise UnsupportedError("ns-2 acknowledges every second segment")
    return quantity(setting["timeout"])


def _dumbbell(
    scenario: Scenario, flows: list[Flow]
) -> tuple[tuple[str, ...], list[dict[str, Any]], list[Flow]]:
    topology = scenario["topology"]
    pairs = int(topology.get("pairs", len(flows)))
    access = topology["access"]
    channel = scenario.get("channel", {})
    numbers = range(1, pairs + 1)
    nodes = [f"source-{n}" for n in numbers] + ["left", "right"] + [f"sink-{n}" for n in numbers]
    bottleneck = {"name": "bottleneck", "from": "left", "to": "right", **topology["bottleneck"]}
    links = [bottleneck]
    for n in numbers:
        ends = {"name": f"source-access-{n}", "from": f"source-{n}", "to": "left"}
        links.append({**deepcopy(access), **topology.get("source_access", {}), **ends})
    for n in numbers:
        ends = {"name": f"sink-access-{n}", "from": "right", "to": f"sink-{n}"}
        links.append({**deepcopy(access), **topology.get("sink_access", {}), **channel, **ends})
    placed: list[Flow] = []
    for n, flow in enumerate(flows, start=1):
        source, sink = flow.source or f"source-{n}", flow.sink or f"sink-{n}"
        placed.append(Flow(**{**flow.__dict__, "source": source, "sink": sink}))
    return tuple(nodes), links, placed


def _directions(link: dict[str, Any], duration: float) -> tuple[Direction, Direction]:
    name = link.get("name", f"{link['from']}-{link['to']}")
    forward = _direction(name, link["from"], link["to"], link, duration)
    overridden = {**link, **link.get("reverse", {})}
    return forward, _direction(f"{name} (reverse)", link["to"], link["from"], overridden, duration)


def _direction(name: str, source: str, target: str, link: Mapping[str, Any], duration: float) -> Direction:
    queue = link.get("queue", {"kind": "drop-tail", "limit": "50 packets"})
    red = _red(queue)
    return Direction(
        link=name,
        source=source,
        target=target,
        rate_bit_s=quantity(link["rate"]),
        delay_s=quantity(link["delay"]),
        queue_packets=_queue(queue) if red is None else int(quantity(queue.get("limit", 50))),
        error=_error(link.get("error")),
        outages=_outages(link.get("handoff"), duration),
        red=red,
    )


def _red(queue: object) -> Red | None:
    if not isinstance(queue, Mapping) or queue.get("kind") != "red":
        return None
    if queue.get("profile") != "ns2" or not str(queue.get("limit", "50 packets")).endswith("packets"):
        raise UnsupportedError('only RED with profile = "ns2" and a limit in packets means the same in ns-2')
    values: dict[str, Any] = {"in_bytes": queue.get("measure", "bytes") == "bytes"}
    whole = {"min_th", "max_th", "w_q", "max_p", "mark_p", "mean_packet"}
    switches = {"gentle", "wait", "ecn", "use_mark_p", "adaptive"}
    unknown = queue.keys() - whole - switches - {"kind", "profile", "limit", "measure"}
    if unknown:
        raise UnsupportedError(f"RED keys {', '.join(sorted(unknown))}")
    values.update({key: quantity(queue[key]) for key in whole & queue.keys()})
    values.update({key: bool(queue[key]) for key in switches & queue.keys()})
    return Red(**values)


def _queue(queue: object) -> int:
    if queue == "unlimited":
        return UNLIMITED
    if not isinstance(queue, Mapping) or queue.get("kind", "drop-tail") != "drop-tail":
        raise UnsupportedError(f"queue {queue!r}")
    limit = str(queue["limit"])
    if limit == "unlimited":
        return UNLIMITED
    if not limit.endswith(("packet", "packets")):
        # ns-2 counts neither the packet in service nor true sizes in byte mode (network spec 1.2).
        raise UnsupportedError(f"queue limit {limit!r}: only packets mean the same in ns-2")
    packets = int(quantity(limit))
    if packets < 2:
        raise UnsupportedError("a queue limit of 1 delivers nothing in ns-2 (network spec 1.2)")
    return packets


def _error(error: Mapping[str, Any] | None) -> ErrorModel | None:
    if error is None or error.get("kind") == "none":
        return None
    before_queue = error.get("position", "after-transmission") == "before-queue"
    if error["kind"] == "bernoulli":
        return ErrorModel(packet_error_rate=quantity(error["packet_error_rate"]), before_queue=before_queue)
    if error["kind"] == "list":
        return ErrorModel(packets=tuple(error["packets"]), before_queue=before_queue)
    raise UnsupportedError(f"error model {error['kind']!r}")


def _outages(handoff: Mapping[str, Any] | None, duration: float) -> tuple[tuple[float, float], ...]:
    if not handoff:
        return ()
    if handoff.get("policy", "drop-air") != "drop-air":
        raise UnsupportedError("only the drop-air policy is an error model in ns-2")
    length = quantity(handoff["outage"])
    if "at" in handoff:
        return tuple((quantity(start), length) for start in handoff["at"])
    if handoff.get("placement", "even") != "even":
        raise UnsupportedError("random handoffs differ between simulators")
    count = int(handoff["count"])
    return tuple((k * duration / (count + 1), length) for k in range(1, count + 1))
