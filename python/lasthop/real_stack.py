"""Real stacks in real time: `lasthop parity --stack` lays them beside the same stacks in simulated time.

Each end of a flow is a process of its own, ``python -m lasthop.real_stack JOB``, in the namespace of its
host: the stack of the simulation, made of the same scenario and seed, over a UDP socket and the clock of the
machine. Links, losses, queues and helpers between them are those of `lasthop.live`. What differs: the clock,
the sockets, and which packets meet which losses.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from lasthop import _native, live
from lasthop.api import run_seeds
from lasthop.errors import ArgumentError, LasthopError, native_errors
from lasthop.parity import TRIES, Difference, Parity, Side, Watch
from lasthop.scenario import Scenario, transports
from lasthop.stats import mean

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lasthop.results import Run
    from lasthop.runner import Snapshot

#: Ports of receivers: that of the flow with the number 0, the others behind it.
PORT = 4433
#: How long after its end a run goes on, in seconds: processes begin one after the other.
SLACK_S = 6.0
#: How long the first sender outlives what it carries, until the others have written what they have to say.
LINGER_S = 3.0
#: What stands for the kernel in the table.
BESIDE = "real time"

#: Stacks over UDP, for which a process has sockets.
OVER_SOCKETS = ("quinn", "noq")
#: The traffic that a stack carries over sockets.
FILES = ("ftp", "transfer")
METRICS = (("goodput", "bit/s"), ("taken for lost", "packets"), ("mean RTT", "s"))


def carried(scenario: Scenario, stack: str) -> Scenario:
    """Return the scenario with every TCP flow and every flow of a stack carried by this one, and no warm-up.

    Parameters
    ----------
    scenario : Scenario
        What is compared.
    stack : str
        A stack and its congestion control, such as ``"quinn:cubic"``.

    Raises
    ------
    ArgumentError
        If this build does not have it, or the scenario has flows of UDP or that carry no files.
    """
    if not _native.HAS_STACKS:
        raise ArgumentError("this build has no stacks: build lasthop with 'make build FEATURES=stacks'")
    names = [one["name"] for one in transports() if one["kind"] == "stack"]
    over_sockets = [name for name in names if name.partition(":")[0] in OVER_SOCKETS]
    if stack.partition(":")[0] not in OVER_SOCKETS:
        there = any(name.partition(":")[0] == stack.partition(":")[0] for name in names)
        what = f"{stack} runs in simulated time alone" if there else f"no stack {stack!r}"
        raise ArgumentError(f"{what}: choose one of {', '.join(over_sockets)}")
    if "udp" in scenario.transports:
        name = scenario.flow_names[scenario.transports.index("udp")]
        raise ArgumentError(f"flow {name!r} is UDP, which no stack sends: leave it out with --set")
    flows = range(len(scenario.to_dict()["flows"]))
    for number, flow in enumerate(scenario.to_dict()["flows"]):
        traffic = flow.get("traffic", "ftp")
        kind = traffic.get("kind", "ftp") if isinstance(traffic, dict) else traffic
        if kind not in FILES:
            raise ArgumentError(
                f"flows.{number} carries {kind}, and over sockets a stack carries files alone: "
                f"write --set flows.{number}.traffic=ftp"
            )
    return scenario.replace({f"flows.{flow}.transport": stack for flow in flows} | {"warmup": "0 s"})


def parity(
    scenario: Scenario,
    stacks: Sequence[str],
    *,
    runs: int = 5,
    budget_s: float = live.BUDGET_S,
    note: Callable[[str], None] = lambda _: None,
    observer: Callable[[Snapshot], None] | None = None,
) -> Parity:
    """Run a scenario with real stacks, in simulated time and in real time, and compare.

    Parameters
    ----------
    scenario : Scenario
        Its TCP flows get each stack in turn.
    stacks : sequence of str
        Stacks with their congestion controls, such as ``"quinn:cubic"``.
    runs : int
        Runs of each side, with the seeds from 1 on.
    budget_s : float
        How late 1 % of the packets may leave; a run beyond it is repeated up to three times, then left out.
    note : callable
        Is told what is being run.
    observer : callable, optional
        Is called a few times a second with a `Snapshot` of how far the emulated runs are.
    """
    if runs < 1:
        raise ArgumentError(f"{runs} runs: at least one is needed")
    wanted = {stack: carried(scenario, stack) for stack in stacks}
    watch = Watch(observer, runs * len(wanted))
    rows, missing = [], []
    for stack, one in wanted.items():
        simulated = [_simulated(run) for run in run_seeds(one, range(1, runs + 1))]
        real = []
        for seed in range(1, runs + 1):
            note(f"{stack}, run {seed} of {runs}: {one.duration_s:g} s")
            values, reason = _punctual(one, seed, budget_s, watch.next_run())
            if values is None:
                missing.append(f"{stack}, run {seed}: {reason}")
            else:
                real.append(values)
        for place, (metric, unit) in enumerate(METRICS):
            first, second = (Side(tuple(values[place] for values in side)) for side in (simulated, real))
            rows.append(Difference(stack, metric, unit, first, second))
    return Parity(tuple(rows), tuple(missing), BESIDE)


Values = tuple[float | None, float | None, float | None]


def _simulated(run: Run) -> Values:
    flows = run.record["flows"]
    delivered = sum(flow["bytes_delivered"] for flow in flows)
    lost = sum(flow["retransmitted_packets"] for flow in flows)
    return delivered * 8 / run.duration_s, lost, mean(flow["rtt_mean_s"] for flow in flows)


def _punctual(
    scenario: Scenario, seed: int, budget_s: float, observer: Callable[[Snapshot], None] | None
) -> tuple[Values | None, str]:
    reason = ""
    for _ in range(TRIES):
        run, said = emulate(scenario, seed, budget_s=budget_s, observer=observer)
        report = run.record["live"]
        reason = "; ".join(report["invalid_because"])
        if not reason and len(said) < 2 * len(scenario.flow_names):
            reason = "a process of a stack failed; what it said is above"
        if not reason:
            senders, receivers = said[0::2], said[1::2]
            delivered = sum(one["delivered_bytes"] for one in receivers)
            lost = sum(one["lost_packets"] or 0 for one in senders)
            rtt = mean(one["rtt_mean_s"] for one in senders)
            return (delivered * 8 / scenario.duration_s, lost, rtt), ""
    return None, reason


def emulate(
    scenario: Scenario,
    seed: int,
    *,
    budget_s: float = live.BUDGET_S,
    observer: Callable[[Snapshot], None] | None = None,
) -> tuple[Run, list[dict[str, Any]]]:
    """Carry the flows of a scenario by real stacks in real time.

    Returns
    -------
    Run
        What the emulation saw of it.
    list of dict
        What each end said: the sender of a flow, its receiver, those of the next flow. Missing are ends that
        failed.
    """
    longer = scenario.replace({"duration": f"{scenario.duration_s + SLACK_S + LINGER_S:g} s"})
    with TemporaryDirectory(prefix="lasthop-stack-") as folder:
        told, words = [], {}
        for flow, (source, sink) in enumerate(scenario.ends):
            for node, peer in ((source, sink), (sink, None)):
                said = Path(folder) / f"{flow}-{'receiver' if peer is None else 'sender'}.json"
                job = {
                    "scenario": scenario.to_dict(),
                    "folder": str(scenario.folder.resolve()),
                    "trust": scenario.is_trusted,
                    "seed": seed,
                    "flow": flow,
                    "port": PORT + flow,
                    "peer": peer,
                    "lasts_s": scenario.duration_s,
                    "said": str(said),
                    "linger_s": LINGER_S if (flow, peer) == (0, sink) else 0.0,
                }
                file = said.with_suffix(".job")
                file.write_text(json.dumps(job), encoding="utf-8")
                told.append(said)
                # Root runs them in any folder: no module of the current one stands before Python's (-P).
                words[said] = (node, [sys.executable, "-P", "-m", "lasthop.real_stack", str(file)])
        host, main = words.pop(told[0])
        # Receivers have to be there first.
        others = sorted(words.items(), key=lambda one: one[0].stem.endswith("sender"))
        run = live.emulate(
            longer,
            main,
            host=host,
            beside=[one for _, one in others],
            seed=seed,
            budget_s=budget_s,
            observer=observer,
        )
        return run, [json.loads(file.read_text(encoding="utf-8")) for file in told if file.exists()]


def _carry(job: dict[str, Any]) -> None:
    """Be one end of a flow, and write what it has to say."""
    scenario = Scenario(job["scenario"], folder=job["folder"], trust=job["trust"])
    peer = job["peer"]
    place = None if peer is None else f"{socket.gethostbyname(peer)}:{job['port']}"
    with native_errors():
        done = _native.carry_stack(
            scenario.plan,
            job["seed"],
            job["flow"],
            port=job["port"] if peer is None else 0,
            peer=place,
            lasts_s=job["lasts_s"],
        )
    kept = ("delivered_bytes", "finished_s", "closed", "rtt_mean_s", "lost_packets", "sent", "received")
    said = Path(job["said"])
    part = said.with_suffix(".part")
    part.write_text(json.dumps({name: getattr(done, name) for name in kept}), encoding="utf-8")
    part.replace(said)
    time.sleep(job["linger_s"])


if __name__ == "__main__":
    try:
        _carry(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    except (LasthopError, OSError) as error:
        raise SystemExit(f"error: {error}") from None
    sys.stdout.flush()
    # Whatever the interpreter would still tidy up is not ours to wait for.
    os._exit(0)
