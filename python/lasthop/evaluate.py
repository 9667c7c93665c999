"""Questions that a new sender should answer before it is used (RFC 9743), asked on any sender.

Each question is a scenario that is run twice per seed: with the sender, and with CUBIC in its place. What is
shown is the sender's mean and the difference, seed by seed, with its 95 % interval. A sender that keeps a
model of the path as BBRv3 does is put to the 22 cases of its draft as well (`bbr_verdicts`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lasthop import api, stats
from lasthop.bbr_cases import Case, Verdict, run_case
from lasthop.bbr_verdicts import CASES
from lasthop.errors import ArgumentError
from lasthop.quantities import number_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lasthop.results import Run
    from lasthop.stats import Estimate

#: What stands in the sender's place for comparison.
RIVAL = "cubic"
#: Seeds of the questions.
SEEDS = 5


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure of a run: what it is called, its unit, how it is taken, and which direction is better."""

    name: str
    unit: str
    of: Callable[[Run], float | None]
    #: Whether more is better; `None` if neither is.
    more: bool | None = None


def _flow(column: str, scale: float, prefix: str) -> Callable[[Run], float | None]:
    """Mean of a column over the flows whose name begins so."""

    def of(run: Run) -> float | None:
        flows = run.flows
        values = [
            value
            for name, value in zip(flows["name"], flows[column], strict=True)
            if name.startswith(prefix) and value is not None
        ]
        return sum(values) / len(values) * scale if values else None

    return of


def _total(key: str, scale: float = 1.0) -> Callable[[Run], float | None]:
    def of(run: Run) -> float | None:
        value = run.totals.get(key)
        return None if value is None else float(value) * scale

    return of


def _queue(run: Run) -> float | None:
    """Mean wait at the bottleneck in ms."""
    links = run.links
    for name, packets in zip(links["name"], links["avg_queue_packets"], strict=True):
        if name == "bottleneck" and packets is not None:
            return float(packets) * 12_000 / float(run.totals["throughput_bit_s"]) * 1e3
    return None


GOODPUT = Measure("goodput", "Mbit/s", _flow("goodput_bit_s", 1e-6, "s"), more=True)
DELAY = Measure("queue at the bottleneck", "ms", _queue, more=False)
RETRANSMITTED = Measure("retransmitted", "%", _total("retransmitted_share", 100), more=False)
JAIN = Measure("Jain's index", "", _total("jain_index"), more=True)
OTHER = Measure("goodput of the others", "Mbit/s", _flow("goodput_bit_s", 1e-6, "o"), more=True)
SHORT = Measure("completion of 100 kB, median", "s", _total("completion_p50_s"), more=False)
CALL = Measure("delay of a call, 95th percentile", "ms", _flow("delay_p95_s", 1e3, "o"), more=False)
USUAL = (GOODPUT, DELAY, RETRANSMITTED)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: a scenario by sender, and what of it is looked at."""

    group: str
    title: str
    content: Callable[[str], dict[str, Any]]
    measures: tuple[Measure, ...]


def _scenario(
    *flows: dict[str, Any],
    mbit: float = 20,
    rtt_ms: float = 40,
    products: float = 1,
    queue: dict[str, Any] | None = None,
    seconds: float = 30,
    last: dict[str, Any] | None = None,
    **link: Any,  # noqa: ANN401 - whatever a link takes
) -> dict[str, Any]:
    """Describe a dumbbell whose queue holds this many products of rate and RTT, but at least four packets."""
    room = max(4, round(products * mbit * rtt_ms / 12))
    bottleneck = {
        "rate": f"{mbit} Mbit/s",
        "delay": f"{rtt_ms / 4:.9g} ms",
        "queue": queue or {"kind": "drop-tail", "limit": f"{room} packets"},
        "reverse": {"queue": {"kind": "drop-tail", "limit": "10000 packets"}, "rate": "1 Gbit/s"},
        **link,
    }
    wide = {"kind": "drop-tail", "limit": "10000 packets"}
    return {
        "name": "question",
        "duration": f"{seconds} s",
        "warmup": f"{seconds / 6:.9g} s",
        "topology": {
            "kind": "dumbbell",
            "bottleneck": bottleneck,
            "access": {"rate": "1 Gbit/s", "delay": f"{rtt_ms / 8:.9g} ms", "queue": wide},
            "sink_access": last or {},
        },
        "flows": [{"start": {"uniform": ["0 s", "1 s"]}, "traffic": "ftp", **flow} for flow in flows],
    }


def _bulk(transport: str, count: int = 1, name: str = "s", **keys: str) -> dict[str, Any]:
    return {"name": name, "transport": transport, "count": count, **keys}


def _alone(title: str, **path: Any) -> Question:  # noqa: ANN401 - whatever a path takes
    return Question("Alone", title, lambda sender: _scenario(_bulk(sender), **path), USUAL)


def _beside(other: str, count: int) -> Question:
    def content(sender: str) -> dict[str, Any]:
        return _scenario(_bulk(sender), _bulk(other, count, "o"))

    return Question("Beside others", f"1 beside {count} of {other}", content, (GOODPUT, OTHER, JAIN, DELAY))


def _lossy(share: float) -> Question:
    error = {"kind": "bernoulli", "packet_error_rate": share}
    return _alone(f"random loss of {share:.2%}", last={"error": error})


QUESTIONS: tuple[Question, ...] = (
    *(
        _alone(f"drop-tail queue of {name} BDP", products=size)
        for name, size in (("1/4", 0.25), ("1", 1), ("4", 4))
    ),
    _alone("PIE", queue={"kind": "pie", "limit": "1000 packets"}),
    _alone("CoDel", queue={"kind": "codel", "limit": "1000 packets"}),
    _alone("RTT of 1 s", rtt_ms=1000, seconds=90),
    _alone("64 kbit/s and 10 ms", mbit=0.064, rtt_ms=10, products=100, seconds=120),
    *(_lossy(share) for share in (0.0001, 0.001, 0.01, 0.02, 0.05, 0.1)),
    _alone(
        "reordering by up to 10 ms",
        middleboxes=[{"kind": "impair", "jitter": "10 ms", "reorder": True}],
    ),
    _alone(
        "a policer of 10 Mbit/s",
        middleboxes=[{"kind": "policer", "rate": "10 Mbit/s", "burst": "150000 B"}],
    ),
    _alone(
        "the rate falls to a quarter and returns",
        rate_changes=[{"at": "10 s", "rate": "5 Mbit/s"}, {"at": "20 s", "rate": "20 Mbit/s"}],
    ),
    _alone("an outage of 1 s", handoff={"at": ["15 s"], "outage": "1 s"}),
    Question(
        "Beside itself",
        "2 flows",
        lambda sender: _scenario(_bulk(sender, 2)),
        (GOODPUT, JAIN, DELAY, RETRANSMITTED),
    ),
    Question(
        "Beside itself",
        "10 flows",
        lambda sender: _scenario(_bulk(sender, 10)),
        (GOODPUT, JAIN, DELAY, RETRANSMITTED),
    ),
    Question(
        "Beside itself",
        "a second flow starts 15 s later",
        lambda sender: _scenario(_bulk(sender), _bulk(sender, name="s-late", start="15 s"), seconds=60),
        (GOODPUT, JAIN),
    ),
    Question(
        "Beside itself",
        "RTTs of 20 and 100 ms",
        lambda sender: _scenario(
            _bulk(sender, delay="5 ms"), _bulk(sender, name="s-far", delay="45 ms"), rtt_ms=20, products=5
        ),
        (GOODPUT, JAIN, DELAY),
    ),
    *(_beside(other, count) for other in ("newreno", "cubic", "bbr") for count in (1, 9)),
    Question(
        "Beside others",
        "transfers of 100 kB, 30 % of the link",
        lambda sender: _scenario(
            _bulk(sender),
            {
                "name": "o",
                "transport": "newreno",
                "hosts": 20,
                "traffic": {"kind": "ftp", "bytes": "100000 B"},
                "start": {"arrivals": "poisson", "load": 0.3},
            },
        ),
        (GOODPUT, SHORT),
    ),
    Question(
        "Beside others",
        "a call of 500 kbit/s",
        lambda sender: _scenario(
            _bulk(sender),
            {
                "name": "o",
                "transport": "udp",
                "traffic": {"kind": "cbr", "rate": "500 kbit/s", "packet": "160 B"},
            },
        ),
        (GOODPUT, CALL),
    ),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """One measure of one question."""

    measure: Measure
    mean: float | None
    rival: float | None
    #: The difference, seed by seed.
    difference: Estimate | None

    @property
    def better(self) -> bool | None:
        """Whether the difference is for the better; `None` if it is not beyond the spread."""
        estimate = self.difference
        if estimate is None or estimate.low is None or estimate.high is None or self.measure.more is None:
            return None
        if estimate.low <= 0 <= estimate.high:
            return None
        return (estimate.mean > 0) == self.measure.more


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What was asked of a sender, and what came out."""

    sender: str
    seeds: tuple[int, ...]
    cases: tuple[tuple[Case, Verdict], ...] = ()
    answers: tuple[tuple[Question, tuple[Answer, ...]], ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, for ``--json``."""
        return {
            "sender": self.sender,
            "rival": RIVAL,
            "seeds": list(self.seeds),
            "cases": [
                {
                    "number": case.number,
                    "title": case.title,
                    "form": case.form,
                    "outcome": case.outcome(verdict),
                    "says": verdict.says,
                    "differs": case.differs,
                }
                for case, verdict in self.cases
            ],
            "questions": [
                {
                    "group": question.group,
                    "title": question.title,
                    "measure": answer.measure.name,
                    "unit": answer.measure.unit,
                    "mean": answer.mean,
                    "rival": answer.rival,
                    "difference": None if answer.difference is None else answer.difference.mean,
                    "low": None if answer.difference is None else answer.difference.low,
                    "high": None if answer.difference is None else answer.difference.high,
                }
                for question, answers in self.answers
                for answer in answers
            ],
        }


def has_cases(sender: str) -> bool:
    """Whether the 22 cases of BBRv3 can be asked of a sender: it tells the draft's states."""
    return sender == "bbr3"


def ask_cases(
    sender: str,
    numbers: Iterable[int] | None = None,
    *,
    seed: int = 1,
) -> tuple[tuple[Case, Verdict], ...]:
    """Run the cases of BBRv3, all or those with these numbers.

    Raises
    ------
    ArgumentError
        If there is no such case, or the sender tells no states.
    """
    wanted = None if numbers is None else list(numbers)
    known = {case.number for case in CASES}
    for number in wanted or ():
        if number not in known:
            raise ArgumentError(f"there is no case {number}: they are 1 to {max(known)}")
    chosen = CASES if wanted is None else tuple(case for case in CASES if case.number in wanted)
    return tuple((case, run_case(case, sender, seed=seed)) for case in chosen)


def ask_questions(
    sender: str, seeds: Sequence[int], *, step: Callable[[int], None] | None = None
) -> tuple[tuple[Question, tuple[Answer, ...]], ...]:
    """Ask every question with these seeds, of the sender and of CUBIC in its place.

    The sender is a name from ``lasthop transports``, or ``FILE.py:CLASS``, whose file is executed.
    """
    asked = []
    for question in QUESTIONS:
        # A sender that is named by its file here may be loaded.
        scenarios = [api.Scenario(question.content(name), trust=True) for name in (sender, RIVAL)]
        runs = [api.run_seeds(scenario, seeds) for scenario in scenarios]
        answers = []
        for measure in question.measures:
            values, rivals = ([measure.of(run) for run in side] for side in runs)
            answers.append(
                Answer(
                    measure, stats.mean(values), stats.mean(rivals), stats.paired_difference(values, rivals)
                )
            )
        asked.append((question, tuple(answers)))
        if step is not None:
            step(len(asked))
    return tuple(asked)


def shown(answer: Answer) -> tuple[str, str, str]:
    """Put a measure in words: the sender's mean, CUBIC's, and the difference with its interval."""
    estimate = answer.difference
    unit = f" {answer.measure.unit}" if answer.measure.unit else ""

    def text(value: float | None) -> str:
        return "–" if value is None else f"{number_text(value, 3)}{unit}"

    if estimate is None or estimate.low is None or estimate.high is None:
        return text(answer.mean), text(answer.rival), "–"
    difference = f"{estimate.mean:+.3g} ({estimate.low:+.3g} to {estimate.high:+.3g})"
    return text(answer.mean), text(answer.rival), difference


def page(evaluation: Evaluation) -> str:
    """One HTML page that needs no network."""
    from lasthop.studies.report import render

    groups: dict[str, list[tuple[str, list[dict[str, Any]]]]] = {}
    for question, answers in evaluation.answers:
        rows = [
            {"measure": answer.measure.name, "better": answer.better, "cells": shown(answer)}
            for answer in answers
        ]
        groups.setdefault(question.group, []).append((question.title, rows))
    return render(
        "evaluation.html",
        title=f"{evaluation.sender}: cases and questions",
        sender=evaluation.sender,
        rival=RIVAL,
        seeds=len(evaluation.seeds),
        cases=[(case, verdict) for case, verdict in evaluation.cases],
        groups=groups,
    )
