"""The 22 example cases of draft-ietf-ccwg-bbr (text of August 2026), as scenarios with a verdict each.

A case that says "upon entering X" is two runs of one seed: the first tells when the sender enters X, the
second makes the change at that time. Both are equal until then, and the verdict is refused if they are not.
The verdicts read what the law says of itself (`Run.windows`), so that they need a sender with a model.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lasthop import api
from lasthop.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from lasthop.results import Run

#: Packets of 1500 B per second of a Mbit/s.
PER_MBIT = 1e6 / 12_000


@dataclass(frozen=True, slots=True)
class Scene:
    """A path and what is sent over it; the defaults are those of most cases."""

    mbit: float = 10
    rtt_ms: float = 40
    #: Room of the bottleneck in packets; 67 are two products of the default path.
    queue: int = 67
    duration_s: float = 12
    #: Megabits of payload per second that the application writes; all that fits if not given.
    app_mbit: float | None = None
    traffic: dict[str, Any] | str | None = None
    #: Rate from then on.
    later: tuple[tuple[float, float], ...] = ()
    #: Losses of the bottleneck, of the last link.
    error: dict[str, Any] | None = None
    last_error: dict[str, Any] | None = None
    handoff: dict[str, Any] | None = None
    middleboxes: tuple[dict[str, Any], ...] = ()
    #: Mahimahi's opportunities for ACKs, in ms.
    ack_times: tuple[int, ...] = ()
    #: From when on a path shorter by a third is taken.
    shorter_from: float | None = None
    delayed_acks: bool = False
    warmup_s: float = 0
    #: Profile of TCP.
    profile: str = "rfc"

    def bottleneck(self) -> dict[str, Any]:
        """Return the link of that name."""
        link: dict[str, Any] = {
            "rate": f"{self.mbit:.9g} Mbit/s",
            "delay": f"{self.rtt_ms / 4:.9g} ms",
            "queue": {"kind": "drop-tail", "limit": f"{self.queue} packets"},
        }
        if self.later:
            link["rate_changes"] = [
                {"at": f"{at:.9f} s", "rate": f"{mbit:.9g} Mbit/s"} for at, mbit in self.later
            ]
        if self.error:
            link["error"] = self.error
        if self.handoff:
            link["handoff"] = self.handoff
        if self.middleboxes:
            link["middleboxes"] = list(self.middleboxes)
        # ACKs find a link as fast as the access, and lose nothing.
        link["reverse"] = {
            "rate": "1 Gbit/s",
            "error": "none",
            "middleboxes": [],
            "queue": {"kind": "drop-tail", "limit": "10000 packets"},
        }
        return link

    def scenario(self, sender: dict[str, Any], folder: Path) -> api.Scenario:
        """As a scenario."""
        wide = {"kind": "drop-tail", "limit": "10000 packets"}
        transport = {**sender, "delayed_ack": self.delayed_acks}
        traffic = self.traffic or "ftp"
        if self.app_mbit is not None:
            # Writes of two segments.
            interval = 2896 * 8 / self.app_mbit
            traffic = {"kind": "paced-ftp", "write": "2896 B", "interval": f"{interval:.6f} us"}
        flow: dict[str, Any] = {"name": "f", "transport": transport, "traffic": traffic, "start": "0 s"}
        bottleneck = self.bottleneck()
        if self.ack_times:
            file = folder / "acks.trace"
            file.write_text("".join(f"{at}\n" for at in self.ack_times), encoding="ascii")
            reverse = bottleneck["reverse"]
            del reverse["rate"], reverse["error"]
            reverse["trace"] = {"kind": "mahimahi", "file": str(file), "opportunity": "65535 B"}
        access = {"rate": "1 Gbit/s", "delay": f"{self.rtt_ms / 8:.9g} ms", "queue": wide}
        topology: dict[str, Any]
        if self.shorter_from is None:
            last = {"error": self.last_error} if self.last_error else {}
            topology = {"kind": "dumbbell", "bottleneck": bottleneck, "access": access, "sink_access": last}
        else:
            far = {"rate": "1 Gbit/s", "queue": wide}
            topology = {
                "kind": "graph",
                "nodes": ["s", "left", "far", "right", "d"],
                "links": [
                    {"from": "s", "to": "left", **access},
                    {"from": "left", "to": "right", "name": "bottleneck", **bottleneck},
                    {"from": "right", "to": "far", **far, "delay": "0.001 ms"},
                    # What is under way on the last link arrives, late; ACKs do not wait.
                    {
                        "from": "far",
                        "to": "d",
                        **far,
                        "delay": f"{self.rtt_ms / 3:.9g} ms",
                        "reverse": {"delay": "0.001 ms"},
                    },
                    {"from": "right", "to": "d", **far, "delay": "0.001 ms"},
                ],
            }
            long, short = ["s", "left", "right", "far", "d"], ["s", "left", "right", "d"]
            flow |= {"source": "s", "sink": "d"}
            flow["reroute"] = [
                {"at": "1 ns", "nodes": long},
                {"at": f"{self.shorter_from:.9f} s", "nodes": short},
            ]
        content = {
            "name": "case",
            "duration": f"{self.duration_s:.9g} s",
            "tcp": {"profile": self.profile},
            "topology": topology,
            "flows": [flow],
        }
        if self.warmup_s:
            content["warmup"] = f"{self.warmup_s:.9g} s"
        return api.Scenario(content)


class Track:
    """What the law said of itself over a run."""

    def __init__(self, run: Run, changed: float = 0.0, before: Track | None = None) -> None:
        frame = run.windows
        if frame["state"].null_count() == len(frame):
            raise ArgumentError(
                "the sender tells no states: the cases of BBR need one with a model of the path"
            )
        frame = frame.filter(frame["state"].is_not_null())
        self.run = run
        #: When the last change was made.
        self.changed = changed
        #: The run without it.
        self.before = before
        self.t: NDArray[np.float64] = frame["time_ns"].to_numpy() / 1e9
        self.states: list[str] = frame["state"].to_list()
        self._frame = frame
        changes = [i for i in range(1, len(self.states)) if self.states[i] != self.states[i - 1]]
        #: First row and state of each stay.
        self.stays: list[tuple[int, str]] = [(0, self.states[0]), *((i, self.states[i]) for i in changes)]

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a column."""
        return self._frame[name].to_numpy()

    def entry(self, state: str, *, nth: int = 1, after: float = 0) -> int | None:
        """Row at which a state is entered for the n-th time after a time."""
        rows = [row for row, name in self.stays if name == state and self.t[row] > after]
        return rows[nth - 1] if len(rows) >= nth else None

    def end(self, row: int) -> int | None:
        """Row at which the stay that begins with `row` has ended."""
        return next((first for first, _ in self.stays if first > row), None)

    def product(self, row: int) -> float:
        """Segments that fill the path, by the estimates."""
        rate = min(self["greatest_rate_segments_s"][row], self["short_term_rate_segments_s"][row])
        return float(rate * self["least_rtt_s"][row])

    def row_at(self, time: float) -> int:
        """Find the last row at or before a time."""
        return max(int(np.searchsorted(self.t, time, side="right")) - 1, 0)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a case went as it should, and the figures for that."""

    holds: bool
    says: str


#: What is run again once the first run has told when.
Step = tuple["Callable[[Track], float | None]", "Callable[[Scene, float, Track], Scene]"]


@dataclass(frozen=True, slots=True)
class Case:
    """A case, or one form of it: a path, changes at times that the run before tells, and what is expected."""

    number: int
    title: str
    path: Scene
    judge: Callable[[Track], Verdict]
    steps: tuple[Step, ...] = ()
    #: Keys of the transport that the case needs.
    keys: tuple[tuple[str, Any], ...] = ()
    #: What sets this form of the case apart from others.
    form: str = ""
    #: Why BBRv3 does not show what the case expects, where that is known.
    differs: str = ""

    def outcome(self, verdict: Verdict) -> str:
        """Name what came out: it holds, differs for a known reason, or fails."""
        if verdict.holds:
            return "holds"
        return "differs" if self.differs else "fails"


def at_entry(state: str, *, after: float = 0, nth: int = 1) -> Callable[[Track], float | None]:
    """When a state is entered."""

    def when(track: Track) -> float | None:
        row = track.entry(state, nth=nth, after=after)
        return None if row is None else float(track.t[row])

    return when


def run_case(case: Case, sender: str, *, seed: int = 1) -> Verdict:
    """Run one case.

    Parameters
    ----------
    case : Case
        What to run.
    sender : str
        Name of a transport whose law keeps a model of the path.
    seed : int
        Seed of the runs.

    Returns
    -------
    Verdict
        Whether it went as it should.

    Raises
    ------
    ArgumentError
        If the sender tells nothing of its model.
    """
    # Losses are told apart, and nothing is held back by what the receiver offers.
    transport = {"cc": sender, "recovery": "rack", "receiver_window": "20000 packets"} | dict(case.keys)
    with tempfile.TemporaryDirectory(prefix="lasthop-") as name:
        path = case.path
        track = Track(api.run(path.scenario(transport, Path(name)), seed=seed, trace=True))
        for when, change in case.steps:
            at = when(track)
            if at is None:
                return Verdict(holds=False, says="the state in which something is to change was not reached")
            path = change(path, at, track)
            run = api.run(path.scenario(transport, Path(name)), seed=seed, trace=True)
            again = Track(run, at, track)
            before = track.t < at
            if not np.array_equal(track.t[before], again.t[again.t < at]):
                return Verdict(holds=False, says=f"the runs differ before the change at {at:.3f} s")
            track = again
        return case.judge(track)


def bernoulli(share: float, start: float, end: float | None = None) -> dict[str, Any]:
    """Random losses from a time on."""
    model = {"kind": "bernoulli", "packet_error_rate": share, "from": f"{start:.9f} s"}
    return model if end is None else {**model, "until": f"{end:.9f} s"}


def rate_from(factor: float) -> Callable[[Scene, float, Track], Scene]:
    """Give the bottleneck another rate from the entry on."""
    return lambda path, at, _: replace(path, later=((at, path.mbit * factor),))
