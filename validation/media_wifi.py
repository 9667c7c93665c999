"""The Wi-Fi test cases of RFC 8869 as scenarios, for `validation.media`.

A station for each call, an access point, and a wire behind it. Where the wire is the bottleneck the radio is
802.11n at MCS 11 as the RFC has it. Where the radio is, it is 802.11g at 54 Mbit/s: without aggregation it
carries about the 20 Mbit/s that the RFC expects of its cell, which 802.11n exceeds with A-MPDUs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from validation.media_cases import SENDERS, WARMUP_S, call_over_radio, jitter

N_52 = {"phy": "802.11n", "streams": 2, "mcs": 3}
G_54 = {"phy": "802.11g"}


@dataclass(frozen=True)
class WifiCase:
    """A case of the RFC."""

    name: str
    title: str
    #: Calls from stations and to them.
    up: int
    down: int
    #: What comes from stations beside them: from, until, and its traffic, for `others` stations.
    others: int = 0
    times: tuple[float, float] = (0, 119)
    tcp: bool = False
    #: Mbit/s of each of the others, if they are not TCP.
    rate: float = 0
    #: The bottleneck is the wire, of 1 Mbit/s.
    wired: bool = False
    duration: float = 120
    #: Calls come within the first 10 s and go within the last 10 s.
    staggered: bool = False

    @property
    def calls(self) -> int:
        """Return how many there are."""
        return self.up + self.down

    @property
    def senders(self) -> tuple[str, ...]:
        """Return the senders that it is run with."""
        return tuple(SENDERS)

    @property
    def checks(self) -> tuple[str, ...]:
        """Return what is judged, beside queueing delay and loss where `clean`."""
        own = "share" if not self.wired else "starved" if self.tcp else "wire"
        return (own, "alike") if self.calls > 1 else (own,)

    @property
    def clean(self) -> bool:
        """Return whether nothing but media fills queues."""
        return not self.tcp


CASES = (
    WifiCase("3.1 a", "Wire of 1 Mbit/s, one call up", 1, 0, wired=True),
    WifiCase("3.1 b", "One up, one down", 1, 1, wired=True),
    WifiCase("3.1 c", "And 300 kbit/s up until 60 s", 1, 1, 1, (0, 60), rate=0.3, wired=True),
    WifiCase("3.1 d", "And 300 kbit/s up from 60 s", 1, 1, 1, (60, 119), rate=0.3, wired=True),
    WifiCase("3.1 e", "One up beside a TCP", 1, 0, 1, tcp=True, wired=True),
    WifiCase("3.2 a", "Wi-Fi, 16 down", 0, 16),
    WifiCase("3.2 b", "16 up", 16, 0),
    WifiCase("3.2 c", "8 up, 8 down", 8, 8),
    WifiCase("3.2 d", "And 5 of 1 Mbit/s up until 60 s", 8, 8, 5, (0, 60), rate=1),
    WifiCase("3.2 e", "And 5 of 1 Mbit/s up from 61 s", 8, 8, 5, (61, 119), rate=1),
    WifiCase("3.2 f", "And 5 TCPs up from 40 to 80 s", 8, 8, 5, (40, 80), tcp=True),
    WifiCase("3.2 g 4", "4 down that come and go", 0, 4, staggered=True),
    WifiCase("3.2 g 8", "8 down that come and go", 0, 8, staggered=True),
    WifiCase("3.2 g 12", "12 down that come and go", 0, 12, staggered=True),
    WifiCase("3.2 g 16", "16 down that come and go", 0, 16, staggered=True),
    WifiCase("3.2 g 20", "20 down that come and go", 0, 20, staggered=True),
)


def scenario(case: WifiCase, sender: str | None) -> dict[str, Any]:
    """Return the scenario of a case; without a sender files over NewReno stand in the place of the calls."""
    wire: dict[str, Any] = {"rate": "100 Mbit/s", "delay": "50 ms", "queue": "unlimited"}
    if case.wired:
        wire |= {"rate": "1 Mbit/s", "queue": {"kind": "drop-tail", "limit": "37500 B"}}
        wire["middleboxes"] = [{"kind": "impair", "distribution": "table", "table": jitter()}]
    flows: list[dict[str, Any]] = []
    for number in range(1, case.calls + 1):
        is_up = number <= case.up
        station = "station-1" if case.wired else f"station-{number}"
        source, sink = (station, "server") if is_up else ("server", station)
        ends = {"source": source, "sink": sink}
        begin, end = 0.0, case.duration - 1
        if case.staggered:
            begin, end = 10 * (number - 1) / case.calls, 110 + 10 * (number - 1) / case.calls
        # No two people press a key in the same instant: the clocks of the encoders must not march in step.
        start: Any = f"{begin:g} s" if case.wired else {"uniform": [f"{begin:g} s", f"{begin + 1:g} s"]}
        times = {"start": start, "stop": f"{end:g} s"}
        flows += call_over_radio(number, sender, ends | times)
    first = 1 if case.wired else case.calls + 1
    for number in range(case.others):
        ends = {"source": f"station-{first + number}", "sink": "server"}
        times = {"start": f"{case.times[0]:g} s", "stop": f"{case.times[1]:g} s"}
        load: dict[str, Any] = {"transport": "newreno", "traffic": "ftp"}
        if not case.tcp:
            cbr = {"kind": "cbr", "rate": f"{case.rate:g} Mbit/s", "packet": "1200 B"}
            load = {"transport": "udp", "traffic": cbr}
        flows.append({"name": f"other{number + 1}", **ends, **times, **load})
    return {
        "name": case.name,
        "duration": f"{case.duration:g} s",
        "warmup": f"{WARMUP_S} s",
        "measure": {"series_interval": "1 s"},
        "topology": {
            "kind": "wlan",
            "stations": 1 if case.wired else case.calls + case.others,
            "cell": N_52 if case.wired else G_54,
            "wire": wire,
        },
        "flows": flows,
    }
