"""The wired test cases of RFC 8867 as scenarios, for `validation.media`."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

#: Senders by the name that the page gives them, and their transport.
SENDERS: dict[str, Any] = {
    "nada": {"rate": "nada"},
    "nada, 0.5 s": {"rate": "nada", "signal_limit_s": 0.5},
    "gcc": {"rate": "gcc"},
    "scream": {"rate": "scream"},
    "tfrc": {"rate": "tfrc"},
    "ssvp": {"rate": "ssvp"},
    "tcp-real": {"preset": "tcp-real"},
}
#: Those that routers may not mark; queues that mark drop their packets.
UNMARKED = ("gcc", "ssvp")
WARMUP_S = 5


# ----------------------------------------------------------------------------------------------------
# The networks


@dataclass(frozen=True)
class Call:
    """A video call with its audio."""

    start: float = 0
    stop: float | None = None
    owd_ms: float = 50
    back: bool = False
    pause: tuple[float, float] | None = None
    priority: float = 1


@dataclass(frozen=True)
class Case:
    """A case of the RFC."""

    name: str
    title: str
    duration: float
    #: Capacity in Mbit/s from these times on, in s.
    capacity: tuple[tuple[float, float], ...]
    calls: tuple[Call, ...]
    #: What is judged, beside queueing delay and loss where `clean`.
    checks: tuple[str, ...]
    back: tuple[tuple[float, float], ...] | None = None
    queue_ms: float = 300
    #: The capacity that the queue is counted at, if not the first.
    reference: float | None = None
    tcp: tuple[dict[str, Any], ...] = ()
    queue: dict[str, Any] | None = None
    ecn: bool = False
    #: Nothing but media: queue and losses are its own.
    clean: bool = True
    senders: tuple[str, ...] = tuple(SENDERS)
    fair: tuple[float, float] = (0, 0)


def call_over_radio(number: int, sender: str | None, ends: dict[str, str]) -> list[dict[str, Any]]:
    """Return the flows of a call and its audio; without a sender a file over NewReno stands in its place."""
    name = f"video{number}"
    if sender is None:
        return [{"name": name, **ends, "transport": "newreno", "traffic": "ftp"}]
    video = {"kind": "video-call", "model": "rfc8867"}
    audio = {"kind": "cbr", "rate": "20 kbit/s", "packet": "50 B"}
    return [
        {"name": name, **ends, "transport": dict(SENDERS[sender]), "traffic": video},
        {"name": f"audio{number}", **ends, "transport": "udp", "traffic": audio},
    ]


def jitter() -> list[str]:
    """Return steps of |N(0, 5 ms)| up to 15 ms, the NR-BPDV of RFC 8868 as a table of delays."""
    normal = statistics.NormalDist(0, 5)
    steps = [min(15.0, normal.inv_cdf(0.5 + share / 80)) for share in range(40)]
    return [f"{round(step * 1000)} us" for step in (*steps, 15.0)]


def rates(steps: tuple[tuple[float, float], ...]) -> dict[str, Any]:
    """Return the keys of a link whose rate changes."""
    later = [{"at": f"{at:g} s", "rate": f"{rate:g} Mbit/s"} for at, rate in steps[1:]]
    return {"rate": f"{steps[0][1]:g} Mbit/s", **({"rate_changes": later} if later else {})}


def transport(sender: str, case: Case, call: Call) -> Any:
    """Return the transport of a call."""
    keys = dict(SENDERS[sender])
    if case.ecn and sender not in UNMARKED:
        keys["ecn"] = True
    if call.priority != 1:
        keys["priority"] = call.priority
    return keys


def scenario(case: Case, sender: str) -> dict[str, Any]:
    """Return the scenario of a case."""
    nodes = ["r1", "r2", "r3"]
    flows: list[dict[str, Any]] = []
    links: list[dict[str, Any]] = []
    queue = case.queue or {
        "kind": "drop-tail",
        "limit": f"{round((case.reference or case.capacity[0][1]) * 125 * case.queue_ms)} B",
    }
    reverse = (
        {**rates(case.back), "queue": queue} if case.back else {"rate": "100 Mbit/s", "queue": "unlimited"}
    )
    links.append(
        {
            "name": "bottleneck",
            "from": "r1",
            "to": "r2",
            "delay": "0 s",
            **rates(case.capacity),
            "queue": queue,
            "reverse": reverse,
        }
    )
    impair = [{"kind": "impair", "distribution": "table", "table": jitter()}]
    fast = {"rate": "100 Mbit/s", "queue": "unlimited"}
    links.append({"name": "jitter", "from": "r2", "to": "r3", "delay": "0 s", **fast, "middleboxes": impair})
    for number, call in enumerate(case.calls, 1):
        near, far = f"s{number}", f"d{number}"
        nodes += [near, far]
        links.append({"from": near, "to": "r1", "delay": f"{call.owd_ms:g} ms", **fast})
        links.append({"from": "r3", "to": far, "delay": "0 s", **fast})
        ends = {"source": far, "sink": near} if call.back else {"source": near, "sink": far}
        times = {"start": f"{call.start:g} s", **({"stop": f"{call.stop:g} s"} if call.stop else {})}
        traffic: dict[str, Any] = {"kind": "video-call", "model": "rfc8867"}
        if call.pause:
            traffic["pause"] = [f"{time:g} s" for time in call.pause]
        flows.append(
            {
                "name": f"video{number}",
                **ends,
                **times,
                "transport": transport(sender, case, call),
                "traffic": traffic,
            }
        )
        audio = {"kind": "cbr", "rate": "20 kbit/s", "packet": "50 B"}
        flows.append({"name": f"audio{number}", **ends, **times, "transport": "udp", "traffic": audio})
    if case.tcp:
        nodes += ["st", "dt"]
        links.append({"from": "st", "to": "r1", "delay": "50 ms", **fast})
        links.append({"from": "r3", "to": "dt", "delay": "0 s", **fast})
        flows += [{"source": "st", "sink": "dt", **tcp} for tcp in case.tcp]
    return {
        "name": case.name,
        "duration": f"{case.duration:g} s",
        "warmup": f"{WARMUP_S} s",
        "measure": {"series_interval": "200 ms"},
        "topology": {"kind": "graph", "nodes": nodes, "links": links},
        "flows": flows,
    }


def two_bottlenecks(case: Case, sender: str) -> dict[str, Any]:
    """Return the scenario of section 6.3: A-B 2, B-C 8, C-D 1.5 Mbit/s."""
    made = scenario(case, sender)
    fast = {"rate": "100 Mbit/s", "queue": "unlimited"}

    def tight(name: str, ends: tuple[str, str], rate: float) -> dict[str, Any]:
        queue = {"kind": "drop-tail", "limit": f"{round(rate * 125 * 300)} B"}
        reverse = {"rate": "100 Mbit/s", "queue": "unlimited"}
        link = {"name": name, "from": ends[0], "to": ends[1], "delay": "0 s"}
        return {**link, "rate": f"{rate} Mbit/s", "queue": queue, "reverse": reverse}

    places = {"s1": "a", "s2": "a", "s3": "c", "d1": "d", "d2": "b", "d3": "d"}
    made["topology"]["nodes"] = ["a", "b", "c", "d", *places]
    links = [
        tight("bottleneck", ("a", "b"), 2),
        tight("middle", ("b", "c"), 8),
        tight("second", ("c", "d"), 1.5),
    ]
    for node, place in places.items():
        delay = f"{case.calls[int(node[1]) - 1].owd_ms if node[0] == 's' else 0:g} ms"
        ends = {"from": node, "to": place} if node[0] == "s" else {"from": place, "to": node}
        links.append({**ends, "delay": delay, **fast})
    made["topology"]["links"] = links
    return made


def equal(count: int, **more: Any) -> tuple[Call, ...]:
    """Return equal calls."""
    return tuple(Call(**more) for _ in range(count))


NEWRENO = {"name": "tcp", "transport": "newreno", "traffic": "ftp", "start": "0 s"}
ONE = ((0, 1.0), (40, 2.5), (60, 0.6), (80, 1.0))
TWO = ((0, 2.0), (25, 1.0), (50, 1.75), (75, 0.5), (100, 1.0))
FORWARD = ((0, 2.0), (20, 1.0), (40, 0.5), (60, 2.0))
BACKWARD = ((0, 2.0), (35, 0.8), (70, 2.0))
PIE = {"kind": "pie", "limit": "1000 packets"}
CODEL = {"kind": "fq-codel"}
ALIKE = (Call(0, 119), Call(20, 119), Call(40, 119))


def on_off(count: int) -> tuple[dict[str, Any], ...]:
    """Return on-off TCPs: 40 kB at once, and 10 s of silence on average, as arrivals at that rate."""
    traffic = {"kind": "ftp", "bytes": "40 kB"}
    start = {"arrivals": "poisson", "every": f"{10 / count:g} s"}
    return ({"name": "short", "transport": "newreno", "traffic": traffic, "start": start, "stop": "295 s"},)


CASES = (
    Case("5.1", "One flow, variable capacity", 100, ONE, (Call(0, 99),), ("utilisation", "recovery")),
    Case(
        "5.2",
        "Two flows, variable capacity",
        125,
        TWO,
        equal(2),
        ("utilisation", "recovery", "ratio"),
        fair=(60, 75),
    ),
    Case(
        "5.3",
        "Congested reverse path",
        100,
        FORWARD,
        (Call(0, 99), Call(0, 99, back=True)),
        ("feedback",),
        back=BACKWARD,
    ),
    Case(
        "5.4",
        "Three equal flows, started one after another",
        120,
        ((0, 3.5),),
        ALIKE,
        ("utilisation", "ratio"),
        fair=(80, 119),
    ),
    Case(
        "5.5",
        "Five flows of 10 to 150 ms",
        300,
        ((0, 4.0),),
        tuple(Call(10 * number, 299, owd) for number, owd in enumerate((10, 25, 50, 100, 150))),
        ("utilisation", "ratio"),
        fair=(200, 299),
    ),
    Case(
        "5.6",
        "Beside a long TCP, queue of 300 ms",
        120,
        ((0, 2.0),),
        (Call(5, 119),),
        ("starved",),
        tcp=(NEWRENO,),
        clean=False,
    ),
    Case(
        "5.6 b",
        "Beside a long TCP, queue of 1000 ms",
        120,
        ((0, 2.0),),
        (Call(5, 119),),
        ("starved",),
        tcp=(NEWRENO,),
        queue_ms=1000,
        clean=False,
    ),
    Case(
        "5.7",
        "Two flows beside short TCPs",
        300,
        ((0, 2.0),),
        equal(2, start=5, stop=299),
        ("starved",),
        tcp=on_off(10),
        clean=False,
    ),
    Case(
        "5.8",
        "Three flows, one pauses from 40 to 60 s",
        120,
        ((0, 3.5),),
        (Call(0, 119), Call(0, 119, pause=(40, 60)), Call(0, 119)),
        ("utilisation", "ratio", "resume"),
        fair=(80, 119),
    ),
    Case(
        "6.1",
        "Three flows of priority 2, 1, 1",
        120,
        ((0, 3.5),),
        (Call(0, 119, priority=2), Call(20, 119), Call(40, 119)),
        ("utilisation", "priority"),
        fair=(80, 119),
        senders=("nada", "nada, 0.5 s"),
    ),
    Case(
        "6.2 a",
        "5.1 with marks by PIE",
        100,
        ONE,
        (Call(0, 99),),
        ("utilisation", "recovery"),
        queue=PIE,
        ecn=True,
    ),
    Case(
        "6.2 b",
        "5.4 with marks by PIE",
        120,
        ((0, 3.5),),
        ALIKE,
        ("utilisation", "ratio"),
        queue=PIE,
        ecn=True,
        fair=(80, 119),
    ),
    Case(
        "6.2 c",
        "5.1 with marks by FQ-CoDel",
        100,
        ONE,
        (Call(0, 99),),
        ("utilisation", "recovery"),
        queue=CODEL,
        ecn=True,
    ),
    Case(
        "6.2 d",
        "5.4 with marks by FQ-CoDel",
        120,
        ((0, 3.5),),
        ALIKE,
        ("utilisation", "ratio"),
        queue=CODEL,
        ecn=True,
        fair=(80, 119),
    ),
    Case(
        "6.3",
        "Two bottlenecks",
        300,
        ((0, 2.0),),
        (Call(0, 299, 100), Call(0, 299, 40), Call(0, 299, 40)),
        ("utilisation", "starved", "second"),
    ),
)
