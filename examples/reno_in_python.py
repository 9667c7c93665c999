"""Reno, written in Python: the same windows as the built-in one, ACK by ACK.

Run it from the root of the tree: `.venv/bin/python examples/reno_in_python.py`. It compares the class with
the built-in sender and says what a call into Python costs. docs/how-to/write-a-sender-in-python.md explains.
"""

from __future__ import annotations

import time

import lasthop as lh
from lasthop.senders import Ack, Loss


class Reno(lh.Sender):
    """Additive increase, multiplicative decrease (RFC 5681)."""

    recovery = "reno"

    def __init__(self, alpha: float = 1.0, beta: float = 0.5) -> None:
        self.alpha = alpha
        self.beta = beta

    def on_ack(self, ack: Ack) -> None:
        """Slow start below ssthresh, `alpha` segments per round trip above."""
        if not ack.may_grow:
            return
        if self.cwnd < self.ssthresh:
            self.cwnd += 1
        else:
            self.cwnd += self.alpha / self.cwnd

    def on_loss(self, loss: Loss) -> None:
        """Keep `beta` of the flight."""
        self.ssthresh = self.cwnd = loss.flight * self.beta

    def on_timeout(self, loss: Loss) -> None:
        """Keep `beta` of the flight as the threshold, and start again from one segment."""
        self.ssthresh = loss.flight * self.beta
        self.cwnd = 1


class CountingReno(Reno):
    """The same, and it counts its calls."""

    calls = 0

    def on_ack(self, ack: Ack) -> None:
        """Count, then do as Reno does."""
        CountingReno.calls += 1
        super().on_ack(ack)


def main() -> None:
    """Compare results, and time both."""
    content = lh.EXAMPLE | {"duration": "100 s", "flows": [{"transport": "reno"}]}
    built_in = lh.Scenario(content)
    transports = {"python-reno": Reno, "counting-reno": CountingReno}
    written = built_in.with_transports(transports).replace({"flows.0.transport": "python-reno"})
    same = lh.run(built_in, seed=1).fingerprint == lh.run(written, seed=1).fingerprint
    print(f"same packets at the same times: {same}")

    lh.run(written.replace({"flows.0.transport": "counting-reno"}), seed=1)
    calls = CountingReno.calls
    cost = best_of(written) - best_of(built_in)
    print(f"{calls} ACKs, {1e9 * cost / calls:,.0f} ns more for each than the built-in sender takes")


def best_of(scenario: lh.Scenario, runs: int = 7) -> float:
    """CPU seconds of the fastest of several runs."""
    times = []
    for _ in range(runs):
        started = time.process_time()
        lh.run(scenario, seed=1)
        times.append(time.process_time() - started)
    return min(times)


if __name__ == "__main__":
    main()
