"""Simulation beside the kernel: the same scenario with the profile ``linux``, and with the kernel's own TCP.

A third side, if asked for, is the kernel's TCP steered by the controller of the simulation (`lasthop.steer`).
Where the kernel does not have a controller, a twin of ours stands in for it if there is one: it decides in
the kernel, on every ACK.

Links, queues and channels are the same code in both (`lasthop.live`), so what
differs is the TCP at the ends, and lateness. `lasthop parity` prints the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from lasthop import guest, live, stats, steer
from lasthop.api import run_seeds
from lasthop.errors import ArgumentError
from lasthop.quantities import time_text
from lasthop.runner import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lasthop.results import Run
    from lasthop.scenario import Scenario
    from lasthop.stats import Estimate

#: Transports that stand for the congestion controls of the kernel, which finds losses by RACK under each.
TRANSPORTS: dict[str, dict[str, str]] = {
    "bbr": {"preset": "bbr"},
    "cubic": {"preset": "cubic"},
    "dctcp": {"preset": "dctcp"},
    "reno": {"preset": "sack"},
    "vegas": {"cc": "vegas", "recovery": "rack"},
    "veno": {"cc": "veno", "recovery": "rack"},
    "westwood": {"cc": "westwood+", "recovery": "rack"},
}
#: What the kernel does besides: its receivers acknowledge every segment while their buffers grow.
AS_LINUX: dict[str, Any] = {"profile": "linux", "delayed_ack": {"autotuning": True}}
#: The controllers of these, which steer the kernel where that is asked for.
LAWS: dict[str, str] = {name: transport.get("cc", name) for name, transport in TRANSPORTS.items()}
#: How often an emulated run is repeated that the machine was too busy for.
TRIES = 3
#: Differences of less are of no interest, however certain.
NEGLIGIBLE = 0.03


@dataclass(frozen=True, slots=True)
class Side:
    """What one quantity was over the runs of one side."""

    values: tuple[float | None, ...]

    @property
    def estimate(self) -> Estimate | None:
        """Mean with a 95 % interval."""
        return stats.estimate(self.values)


@dataclass(frozen=True, slots=True)
class Difference:
    """One quantity of one congestion control: simulated, by the kernel, and by the kernel steered."""

    algorithm: str
    metric: str
    unit: str
    simulated: Side
    #: Without values if the kernel does not have it, nor a twin.
    emulated: Side
    #: Without values if that was not asked for.
    steered: Side = Side(())
    #: Whether what is emulated is our twin of a controller that the kernel does not have.
    is_twin: bool = False

    @property
    def ratio(self) -> float | None:
        """Emulated over simulated mean."""
        return _ratio(self.emulated, self.simulated)

    @property
    def steered_ratio(self) -> float | None:
        """Steered over what the kernel does itself, or over simulated where it does not have it."""
        return _ratio(self.steered, self.emulated if self.emulated.values else self.simulated)

    @property
    def is_real(self) -> bool | None:
        """Whether the means differ beyond the spread over runs (Welch, 95 %); `None` with too few runs."""
        return beyond_spread(self.simulated.values, self.emulated.values)


def _ratio(side: Side, beside: Side) -> float | None:
    first, second = side.estimate, beside.estimate
    if first is None or second is None or not second.mean:
        return None
    return first.mean / second.mean


@dataclass(frozen=True, slots=True)
class Parity:
    """The table, and the emulated runs that are missing because the machine was too busy."""

    rows: tuple[Difference, ...]
    missing: tuple[str, ...]
    #: What the simulation is compared with.
    beside: str = "kernel"


def beyond_spread(first: Sequence[float | None], second: Sequence[float | None]) -> bool | None:
    """Whether two means differ beyond the spread of their samples, by Welch's test at 95 %.

    Examples
    --------
    >>> beyond_spread([1.0, 1.1, 0.9], [2.0, 2.1, 1.9])
    True
    >>> beyond_spread([1.0, 1.4, 0.6], [1.1, 1.5, 0.7])
    False
    >>> beyond_spread([1.0, 1.0], [1.01, 1.01])
    False
    >>> beyond_spread([1.0], [2.0, 2.1]) is None
    True
    """
    samples = [[value for value in side if value is not None] for side in (first, second)]
    if min(map(len, samples)) < 2:  # noqa: PLR2004 - one value has no spread
        return None
    means = [sum(side) / len(side) for side in samples]
    if abs(means[1] - means[0]) <= NEGLIGIBLE * max(map(abs, means)):
        return False
    parts = [
        sum((value - mean) ** 2 for value in side) / (len(side) - 1) / len(side)
        for side, mean in zip(samples, means, strict=True)
    ]
    variance = sum(parts)
    if variance == 0:
        return True
    freedom = variance**2 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, samples, strict=True))
    bound = stats.student_t_quantile(0.975, max(1, int(freedom)))
    return bool(abs(means[1] - means[0]) > bound * variance**0.5)


def _rtt(run: Run) -> float | None:
    return stats.mean(flow["rtt_mean_s"] for flow in run.record["flows"])


def _queue(run: Run) -> float | None:
    """Return the mean queue of the link at which most wait; one that serves several has it in one row."""
    queues = (link["avg_queue_packets"] for link in run.record["links"])
    return max((queue for queue in queues if queue is not None), default=None)


METRICS: tuple[tuple[str, str, Callable[[Run], float | None]], ...] = (
    ("goodput", "bit/s", lambda run: run.totals["goodput_bit_s"]),
    ("retransmitted", "packets", lambda run: run.totals["retransmitted_packets"]),
    ("mean RTT", "s", _rtt),
    ("longest mean queue", "packets", _queue),
)


def simulated(scenario: Scenario, algorithm: str) -> Scenario:
    """Return the scenario with every TCP flow as the kernel would run it.

    Examples
    --------
    >>> import lasthop as lh
    >>> simulated(lh.Scenario(lh.EXAMPLE), "westwood").transports
    ['westwood+/rack', 'westwood+/rack']
    """
    if algorithm not in TRANSPORTS:
        raise ArgumentError(
            f"no counterpart of {algorithm!r} in a simulation: {', '.join(TRANSPORTS)} have one"
        )
    wanted: dict[str, Any] = {}
    # An entry of the file stands for `count` flows, and behind all of them come those that begin at proxies.
    transports = iter(scenario.transports)
    for number, entry in enumerate(scenario.to_dict()["flows"]):
        alike = list(islice(transports, int(entry.get("count", 1))))
        if alike and alike[0] != "udp":
            wanted[f"flows.{number}.transport"] = TRANSPORTS[algorithm] | AS_LINUX
    return scenario.replace(wanted)


def in_kernel(algorithm: str) -> str | None:
    """Return what decides in the running kernel: its own algorithm, our twin of it, or nothing.

    Examples
    --------
    >>> in_kernel("reno")
    'reno'
    """
    law = LAWS.get(algorithm, algorithm)
    if algorithm in live.algorithms():
        return algorithm
    return steer.TWIN + law if law in steer.TWINS and not steer.lacking() else None


def parity(  # noqa: PLR0913 - all but two are keywords
    scenario: Scenario,
    algorithms: Sequence[str],
    *,
    runs: int = 5,
    budget_s: float = live.BUDGET_S,
    steers: bool = False,
    virtual: bool = False,
    note: Callable[[str], None] = lambda _: None,
    observer: Callable[[Snapshot], None] | None = None,
) -> Parity:
    """Run a scenario in simulation and with the kernel's TCP, and compare.

    Parameters
    ----------
    scenario : Scenario
        Its TCP flows get each congestion control in turn.
    algorithms : sequence of str
        Names that the kernel has for them.
    runs : int
        Runs of each side, with the seeds from 1 on.
    budget_s : float
        As for `lasthop.live.emulate`. A run beyond it is repeated up to three times, and then left out.
        In virtual time a run is not repeated: it would be as late again.
    steers : bool
        Run it a third time, with the kernel's TCP steered by the controller of the simulation. What the
        kernel does not have, nor a twin of ours, is then left out on its side.
    note : callable
        Is told what is being run.
    observer : callable, optional
        Is called a few times a second with a `Snapshot` of how far the emulated runs are. In virtual time
        nothing is told before a run is over.
    """
    if steers:
        for algorithm in algorithms:
            steer.check(LAWS.get(algorithm, algorithm))
    if runs < 1:
        raise ArgumentError(f"{runs} runs: at least one is needed")
    rows: list[Difference] = []
    missing: list[str] = []
    chosen = {name: _kernels(name, steers=steers, virtual=virtual) for name in algorithms}
    watch = Watch(observer, runs * sum(len(kernels) for kernels in chosen.values()))
    for algorithm in algorithms:
        wanted = simulated(scenario, algorithm)
        ours = list(run_seeds(wanted, range(1, runs + 1)))
        own = next((kernel for kernel in chosen[algorithm] if not kernel.startswith(steer.STEERED)), "")
        carried: dict[str, list[Run]] = {}
        for kernel in chosen[algorithm]:
            carried[kernel] = []
            told = _carried(wanted, kernel, runs, budget_s, note, None if virtual else watch)
            for seed, (run, reason) in enumerate(told, start=1):
                if run is None:
                    missing.append(f"{kernel}, run {seed}: {reason}")
                else:
                    carried[kernel].append(run)
        sides = (ours, carried.get(own, []), carried.get(steer.STEERED + LAWS[algorithm], []))
        is_twin = own.startswith(steer.TWIN)
        for metric, unit, value in METRICS:
            first, second, third = (Side(tuple(map(value, side))) for side in sides)
            rows.append(Difference(algorithm, metric, unit, first, second, third, is_twin))
    return Parity(tuple(rows), tuple(missing))


def _kernels(algorithm: str, *, steers: bool, virtual: bool) -> list[str]:
    """Return what carries the emulated runs of an algorithm: the kernel's own, and the steered."""
    # Without a third side nothing would be left: the kernel says itself what it does not have.
    own = algorithm if virtual else in_kernel(algorithm) or ("" if steers else algorithm)
    return list(filter(None, [own, steer.STEERED + LAWS[algorithm] if steers else ""]))


class Watch:
    """Tells an observer of single runs how far all of them are."""

    def __init__(self, observer: Callable[[Snapshot], None] | None, total: int) -> None:
        self._observer, self._total, self._done = observer, total, -1

    def next_run(self) -> Callable[[Snapshot], None] | None:
        """Return an observer of the run that begins now."""
        self._done += 1
        return None if self._observer is None else self._look

    def _look(self, one: Snapshot) -> None:
        if self._observer is None:
            return
        length = one.simulated_total_s
        before = self._done * length
        done, elapsed = before + one.simulated_s, before + one.elapsed_s
        whole = self._total * length
        self._observer(Snapshot(self._done, self._total, done, whole, one.packet_hops, elapsed))


def _carried(
    scenario: Scenario,
    kernel: str,
    runs: int,
    budget_s: float,
    note: Callable[[str], None],
    watch: Watch | None,
) -> list[tuple[Run | None, str]]:
    """Emulate the runs, in virtual time without a `watch`; with the reason why one does not count."""
    seeds = range(1, runs + 1)
    told = [f"{kernel}, run {seed} of {runs}: {time_text(scenario.duration_s)}" for seed in seeds]
    found: list[tuple[Run | None, str]] = []
    if watch is not None:
        for seed, line in zip(seeds, told, strict=True):
            note(line)
            found.append(punctual(scenario, kernel, seed, budget_s, watch.next_run()))
        return found
    orders = [(scenario, kernel, seed) for seed in seeds]
    for line, run in zip(told, guest.emulate_all(orders, budget_s=budget_s), strict=True):
        note(line)
        report = run.record["live"]
        found.append((run, "") if report["valid"] else (None, "; ".join(report["invalid_because"])))
    return found


def punctual(
    scenario: Scenario,
    algorithm: str,
    seed: int,
    budget_s: float,
    observer: Callable[[Snapshot], None] | None = None,
) -> tuple[Run | None, str]:
    """Emulate with sockets of the kernel, again if the machine was too busy; or say why no run counts."""
    reason = ""
    for _ in range(TRIES):
        run = live.emulate(scenario, kernel=algorithm, seed=seed, budget_s=budget_s, observer=observer)
        report = run.record["live"]
        if report["valid"]:
            return run, ""
        reason = "; ".join(report["invalid_because"])
    return None, reason


def to_dict(found: Parity) -> dict[str, Any]:
    """Return the table as ``lasthop parity --json`` prints it."""
    rows = [
        {
            "algorithm": row.algorithm,
            "metric": row.metric,
            "unit": row.unit,
            "simulated": list(row.simulated.values),
            "emulated": list(row.emulated.values),
            "emulated_by_twin": row.is_twin,
            "steered": list(row.steered.values),
            "ratio": row.ratio,
            "steered_ratio": row.steered_ratio,
            "beyond_spread": row.is_real,
        }
        for row in found.rows
    ]
    return {"rows": rows, "missing": list(found.missing)}
