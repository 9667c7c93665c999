"""Random trees with mixed senders, for the packet-for-packet comparison with ns-2.

A seed makes a scenario: 2 to 8 flows between the leaves of a tree, in both directions, with any of the five
senders, windows, starts, delayed ACKs, timestamps, lost packets, and traffic without end, of finite length or
written piece by piece. Rates and delays have many digits, so that two events of one instant, which the two
simulators order by rules of their own, are rare. Called by the differential tests.
"""

from __future__ import annotations

import random
from typing import Any

from validation.network import SENDERS

DURATION_S = 12.0


def tree(seed: int) -> dict[str, Any]:
    """The scenario of a seed."""
    draw = random.Random(seed)
    routers = draw.randint(1, 4)
    count = draw.randint(2, 8)
    links = [
        _link(draw, f"trunk-{n}", f"router-{draw.randrange(n)}", f"router-{n}", (1.0, 6.0), trunk=True)
        for n in range(1, routers)
    ]
    flows = []
    for n in range(count):
        ends = [f"router-{draw.randrange(routers)}" for _ in range(2)]
        for end, router in zip(("left", "right"), ends, strict=True):
            links.append(_link(draw, f"{end}-{n}", f"{end}-{n}", router, (0.7, 9.0), trunk=False))
        source, sink = (f"left-{n}", f"right-{n}") if draw.random() < 0.6 else (f"right-{n}", f"left-{n}")
        flows.append(_flow(draw, n, source, sink))
    hosts = [f"{end}-{n}" for n in range(count) for end in ("left", "right")]
    return {
        "name": f"tree {seed}",
        "duration": f"{DURATION_S} s",
        "topology": {
            "kind": "graph",
            "nodes": [f"router-{n}" for n in range(routers)] + hosts,
            "links": links,
        },
        "tcp": {"profile": "ns2", "packet_size": "1000 B"},
        "flows": flows,
    }


def lone(seed: int, sender: str) -> dict[str, Any]:
    """One flow over two links, with the same variety."""
    draw = random.Random(seed)
    links = [
        _link(draw, "access", "source", "router", (5.0, 9.0), trunk=False, queue="unlimited"),
        _link(draw, "last-hop", "router", "sink", (1.0, 4.0), trunk=False),
    ]
    flow = _flow(draw, 0, "source", "sink")
    flow["transport"]["preset"] = sender
    return {
        "name": f"{sender} {seed}",
        "duration": f"{DURATION_S} s",
        "topology": {"kind": "graph", "nodes": ["source", "router", "sink"], "links": links},
        "tcp": {"profile": "ns2", "packet_size": "1000 B"},
        "flows": [flow],
    }


def marked(seed: int, sender: str) -> dict[str, Any]:
    """The same without end, with ECN, losses, and a queue that marks whatever finds five packets or more."""
    scenario = lone(seed, sender)
    draw = random.Random(seed)
    link, flow = scenario["topology"]["links"][1], scenario["flows"][0]
    link["queue"] = {
        "kind": "red",
        "profile": "ns2",
        "measure": "packets",
        "limit": "30 packets",
        "w_q": 1.0,
        "min_th": "5 packets",
        "max_th": "6 packets",
        "max_p": 1.0,
        "use_mark_p": False,
    }
    link["error"] = {"kind": "list", "packets": [k for k in range(3000) if draw.random() < 0.02]}
    link["delay"] = f"{draw.uniform(5, 40):.6f} ms"
    windows = {"receiver_window": "64 packets", "initial_ssthresh": "64 packets"}
    flow["transport"] |= {"ecn": True} | windows
    flow.pop("traffic", None)
    return scenario


def crowd(seed: int, sender: str) -> dict[str, Any]:
    """Six flows with ECN in a slow queue: windows of one to three segments, and often of less than one."""
    draw = random.Random(seed)
    slow = {"kind": "red", "profile": "ns2", "measure": "packets", "limit": "50 packets", "w_q": 1.0}
    slow |= {"min_th": "8 packets", "max_th": "9 packets", "max_p": 1.0, "use_mark_p": False}
    neck = {"from": "left", "to": "right", "rate": "1 Mbit/s", "delay": f"{draw.uniform(2, 30):.6f} ms"}
    nodes, links, flows = ["left", "right"], [neck | {"queue": slow}], []
    for n in range(1, 7):
        nodes += [f"source-{n}", f"sink-{n}"]
        for start, end in ((f"source-{n}", "left"), ("right", f"sink-{n}")):
            rate, delay = f"{draw.uniform(8, 12):.6f} Mbit/s", f"{draw.uniform(5, 20):.6f} ms"
            queue = {"kind": "drop-tail", "limit": "100 packets"}
            links.append({"from": start, "to": end, "rate": rate, "delay": delay, "queue": queue})
        flow = {"name": f"flow-{n}", "source": f"source-{n}", "sink": f"sink-{n}"}
        transport = {"preset": sender, "ecn": True}
        flows.append(flow | {"transport": transport, "start": f"{draw.uniform(0, 1):.9f} s"})
    windows = {"receiver_window": "20 packets", "initial_ssthresh": "20 packets"}
    return {
        "name": f"crowd {sender} {seed}",
        "duration": f"{DURATION_S} s",
        "topology": {"kind": "graph", "nodes": nodes, "links": links},
        "tcp": {"profile": "ns2", "packet_size": "1000 B"} | windows,
        "flows": flows,
    }


def _link(
    draw: random.Random,
    name: str,
    start: str,
    end: str,
    rates: tuple[float, float],
    *,
    trunk: bool,
    queue: str | None = None,
) -> dict[str, Any]:
    link: dict[str, Any] = {
        "name": name,
        "from": start,
        "to": end,
        "rate": f"{draw.uniform(*rates):.6f} Mbit/s",
        "delay": f"{draw.uniform(1.0, 30.0):.6f} ms",
        "queue": queue or {"kind": "drop-tail", "limit": f"{draw.randint(5, 60)} packets"},
    }
    for direction in (link, link.setdefault("reverse", {})):
        rate = 0.0 if trunk else draw.choice([0.0, 0.0, 0.003, 0.01, 0.03, 0.06])
        # Numbers of packets of that direction; 0 is often a SYN.
        lost = [k for k in range(3000) if draw.random() < rate]
        direction["error"] = {"kind": "list", "packets": lost} if lost else {"kind": "none"}
    return link


def _flow(draw: random.Random, number: int, source: str, sink: str) -> dict[str, Any]:
    sender = draw.choice(SENDERS)
    window = draw.choice([4, 8, 20, 32, 50, 64])
    transport: dict[str, Any] = {
        "preset": sender,
        "receiver_window": f"{window} packets",
        "initial_ssthresh": f"{window} packets",
    }
    if draw.random() < 0.25 and sender != "vegas":
        transport["timestamps"] = True
    if draw.random() < 0.3:
        transport["delayed_ack"] = {"timeout": f"{draw.uniform(60, 150):.6f} ms", "segments": 2, "quick": 0}
    flow: dict[str, Any] = {
        "name": f"flow-{number}",
        "source": source,
        "sink": sink,
        "transport": transport,
        "start": f"{draw.uniform(0.0, 2.0):.6f} s",
    }
    kind = draw.choice(["endless", "finite", "writes", "writes", "bursts"])
    if kind == "finite":
        flow["traffic"] = {"kind": "ftp", "bytes": f"{draw.randint(1, 400)} kB"}
    elif kind == "writes":
        interval = f"{draw.uniform(5.0, 60.0):.6f} ms"
        flow["traffic"] = {"kind": "paced-ftp", "write": f"{draw.randint(1, 3)} kB", "interval": interval}
    elif kind == "bursts":
        interval = f"{draw.uniform(0.2, 1.5):.6f} s"
        flow["traffic"] = {"kind": "paced-ftp", "write": f"{draw.randint(5, 60)} kB", "interval": interval}
    return flow
