"""The cellular test cases of RFC 8869 as scenarios, for `validation.media`.

The RFC has 21 cells that disturb one another, and users who walk or drive through them. Here is one cell, and
the channel of each user is drawn: fading at a walk or in a car around a mean that stays.
"""

from __future__ import annotations

import bisect
import itertools
import math
import random
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from validation.media_cases import SENDERS, WARMUP_S, call_over_radio

#: Length of a case, of a call, and between when it is judged, in s (RFC 8869, table 1).
DURATION_S, CALL_S = 91, 30
JUDGED_S = (30.0, 60.0)
#: Cells of the RFC, over which its users are spread.
CELLS = 21

#: Mean SINR in dB of the users of section 2.1, who take turns, and of all those of section 2.2.
NEAR_DB, FAR_DB, EDGE_DB = 15.0, 3.0, 0.0
#: Carrier (3GPP case 1), receiving antennas, and sinusoids of the fading of each.
CARRIER_HZ, ANTENNAS, WAVES = 2e9, 2, 12
LIGHT_M_S = 299_792_458
#: Share of Shannon's bound that link adaptation reaches, and its most in bit/s/Hz; up: True (TR 36.942, A.2).
ATTENUATION, MOST = {False: 0.6, True: 0.4}, {False: 4.4, True: 2.0}
#: Hz of a resource block, and symbols a second of it that carry data.
BLOCK_HZ, SYMBOLS_S = 180e3, 120e3
#: How often the channel is looked at, in s: as often as the cell has it reported.
STEP_S = 0.005
#: Bit per symbol of CQI 1 to 15 (TS 36.213, table 7.2.3-1).
EFFICIENCIES = (
    *(0.1523, 0.2344, 0.3770, 0.6016, 0.8770, 1.1758, 1.4766, 1.9141),
    *(2.4063, 2.7305, 3.3223, 3.9023, 4.5234, 5.1152, 5.5547),
)


@dataclass(frozen=True)
class CellCase:
    """A case of the RFC."""

    name: str
    title: str
    #: Arrivals a second in all cells of the RFC.
    intensity: float
    up: bool = False
    edge: bool = False
    speed_km_h: float = 3
    rtt_ms: float = 40
    aqm: bool = False
    #: Mbit/s of files over TCP beside the calls.
    files: float = 0

    @property
    def senders(self) -> tuple[str, ...]:
        """Return the senders that it is run with."""
        return tuple(SENDERS)

    @property
    def checks(self) -> tuple[str, ...]:
        """Return what is judged, beside queueing delay and loss where `clean`."""
        return ("share", "starved")

    @property
    def clean(self) -> bool:
        """Return whether nothing but media fills queues: files have a bearer of their own."""
        return True


def load_of(intensity: float) -> str:
    """Return how many calls there are in the mean, in words."""
    calls = round(intensity * CALL_S / CELLS)
    return f"{calls} call{'s' if calls > 1 else ''} a cell"


CASES = (
    *(CellCase(f"2.1 down {load:g}", load_of(load), load) for load in (0.7, 3.5, 7.0, 10.5)),
    CellCase("2.1 down 7 a", "In cars of 30 km/h", 7.0, speed_km_h=30),
    CellCase("2.1 down 7 b", "RTT of 150 ms", 7.0, rtt_ms=150),
    CellCase("2.1 down 7 c", "With CoDel", 7.0, aqm=True),
    CellCase("2.1 down 7 d", "And 4 Mbit/s of files", 7.0, files=4),
    *(CellCase(f"2.1 up {load:g}", load_of(load), load, up=True) for load in (0.7, 3.5, 7.0)),
    *(
        CellCase(f"2.2 down {load:g}", f"Far away, {load_of(load)}", load, edge=True)
        for load in (0.7, 3.5, 7.0)
    ),
    *(
        CellCase(f"2.2 up {load:g}", f"Far away, {load_of(load)}", load, up=True, edge=True)
        for load in (0.7, 3.5, 7.0)
    ),
)


@dataclass(frozen=True)
class Call:
    """When a call is there, in s."""

    start: float
    stop: float

    @property
    def judged(self) -> tuple[float, float]:
        """Return the part of the judged time in which it is there, empty if there is none."""
        start = max(self.start, JUDGED_S[0])
        return start, max(start, min(self.stop, JUDGED_S[1]))

    @property
    def judged_s(self) -> float:
        """Return how long that is."""
        start, end = self.judged
        return end - start


def calls(case: CellCase, seed: int) -> list[Call]:
    """Return the calls of a case, whose users come as a Poisson process."""
    draws = random.Random(f"arrivals {case.intensity} {seed}")
    found: list[Call] = []
    at = draws.expovariate(case.intensity / CELLS)
    while at < JUDGED_S[1]:
        found.append(Call(round(at, 3), round(at + CALL_S, 3)))
        at += draws.expovariate(case.intensity / CELLS)
    # A run without a call in the judged time could not be judged.
    return found if any(call.judged_s >= WARMUP_S for call in found) else [Call(20, 20 + CALL_S)]


def fading(draws: random.Random, speed_km_h: float, start: float, end: float) -> np.ndarray:
    """Return the gain of a Rayleigh channel at each step, as a sum of sinusoids; its mean is 1."""
    doppler_hz = speed_km_h / 3.6 * CARRIER_HZ / LIGHT_M_S
    times = start + np.arange(math.ceil((end - start) / STEP_S)) * STEP_S
    total = np.zeros(len(times), dtype=complex)
    for wave in range(WAVES):
        shift_hz = doppler_hz * math.cos(math.tau * (wave + draws.random()) / WAVES)
        total += np.exp(1j * math.tau * (shift_hz * times + draws.random()))
    return np.abs(total) ** 2 / WAVES


def cqi(sinr: float, *, up: bool) -> int:
    """Return the channel quality that link adaptation would choose at a SINR."""
    bit_s_hz = min(ATTENUATION[up] * math.log2(1 + sinr), MOST[up])
    return max(1, bisect.bisect_right(EFFICIENCIES, bit_s_hz * BLOCK_HZ / SYMBOLS_S))


def channel(case: CellCase, number: int, seed: int, call: Call) -> str:
    """Return the channel quality of a user while the call lasts, as lines of a file."""
    draws = random.Random(f"channel {number} {seed}")
    mean_db = EDGE_DB if case.edge else (NEAR_DB, FAR_DB)[number % 2]
    branches = [fading(draws, case.speed_km_h, call.start, call.stop) for _ in range(ANTENNAS)]
    found = [cqi(sinr, up=case.up) for sinr in 10 ** (mean_db / 10) * sum(branches)]
    lines = [f"0 {found[0]}"]
    for step, (before, now) in enumerate(itertools.pairwise(found), 1):
        if now != before:
            lines.append(f"{call.start + step * STEP_S:.3f} {now}")
    return "\n".join(lines) + "\n"


@cache
def channels(case: CellCase, seed: int) -> dict[str, str]:
    """Return the files with the channels of all users, by their names."""
    found = {f"user{number}": call for number, call in enumerate(calls(case, seed), 1)}
    if case.files:
        found["reader"] = Call(0, DURATION_S)
    return {node: channel(case, number, seed, call) for number, (node, call) in enumerate(found.items(), 1)}


def scenario(case: CellCase, sender: str | None, seed: int) -> dict[str, Any]:
    """Return the scenario of a case; without a sender files over NewReno stand in the place of the calls.

    The channel of a user is in the file of that name, which `channels` has.
    """
    flows: list[dict[str, Any]] = []
    for number, call in enumerate(calls(case, seed), 1):
        node = f"user{number}"
        source, sink = (node, "server") if case.up else ("server", node)
        ends = {
            "source": source,
            "sink": sink,
            "start": f"{call.start:g} s",
            "stop": f"{call.stop:g} s",
        }
        flows += call_over_radio(number, sender, ends)
    if case.files:
        flows.append(
            {
                "name": "files",
                "source": "server",
                "sink": "reader",
                "transport": "newreno",
                "traffic": {"kind": "ftp", "bytes": "500 kB"},
                "start": {"arrivals": "poisson", "every": f"{500e3 * 8 / (case.files * 1e6):g} s"},
            }
        )
    nodes = list(channels(case, seed))
    users = [{"node": node, "cqi": {"file": node}} for node in nodes]
    wire = {"rate": "10 Gbit/s", "delay": f"{case.rtt_ms / 2:g} ms", "queue": "unlimited"}
    cell: dict[str, Any] = {"base": "base", "scheduler": "proportional-fair", "users": users}
    if case.aqm:
        cell["queue"] = {"kind": "codel", "limit": "1 MB"}
    return {
        "name": case.name,
        "duration": f"{DURATION_S} s",
        "warmup": f"{WARMUP_S} s",
        "measure": {"series_interval": "1 s"},
        "topology": {
            "kind": "graph",
            "nodes": ["server", "base", *nodes],
            "links": [{"name": "wire", "from": "server", "to": "base", **wire}],
            "cellular": [cell],
        },
        "flows": flows,
    }
