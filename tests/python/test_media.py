"""The study of real-time media: its cases are scenarios, its figures what they say, its page whole."""

from __future__ import annotations

import itertools
import math

import pytest
from validation import engine, media, media_cases, media_wifi


@pytest.mark.parametrize("case", media_cases.CASES, ids=lambda case: case.name)
def test_every_case_of_rfc_8867_is_a_scenario(case: media_cases.Case) -> None:
    make = media_cases.two_bottlenecks if case.name == "6.3" else media_cases.scenario
    for sender in case.senders:
        engine.plan(make(case, sender))


@pytest.mark.parametrize("case", media_wifi.CASES, ids=lambda case: case.name)
def test_every_case_of_rfc_8869_is_a_scenario(case: media_wifi.WifiCase) -> None:
    for sender in (*case.senders, None):
        engine.plan(media_wifi.scenario(case, sender))


def test_the_delay_variation_is_that_of_rfc_8868() -> None:
    """|N(0, 5 ms)| has a mean of 5 sqrt(2 / pi) = 3.99 ms, and nothing exceeds 15 ms."""
    steps = [int(step.split()[0]) / 1000 for step in media_cases.jitter()]
    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == (0, 15)
    mean = sum((low + high) / 2 for low, high in itertools.pairwise(steps)) / (len(steps) - 1)
    assert mean == pytest.approx(5 * math.sqrt(2 / math.pi), rel=0.02)


def test_phases_follow_capacity_and_starts() -> None:
    found = {case.name: list(media.phases(case)) for case in media_cases.CASES}
    assert found["5.1"] == [(0, 40, 1.0), (40, 60, 2.5), (60, 80, 0.6), (80, 99, 1.0)]
    assert found["5.4"] == [(0, 20, 3.5), (20, 40, 3.5), (40, 119, 3.5)]


def test_a_run_is_measured() -> None:
    case = next(case for case in media_cases.CASES if case.name == "5.8")
    found = media.measure(case, "nada", 1)
    assert 0.8 < found["utilisation"] <= 1.001
    assert 0.8 < found["resume"] < 1.05
    assert 1 <= found["ratio"] < 3
    assert found["loss"] == 0
    assert found["queue"] < media.QUEUE_MS
    assert media.misses(case, media.figures([found])) == []


def test_a_bar_that_is_missed_is_named() -> None:
    case = next(case for case in media_cases.CASES if case.name == "5.1")
    run = {"utilisation": 0.79, "recovery": 15, "queue": 101, "loss": 0.01}
    assert media.misses(case, media.figures([run])) == ["utilisation", "p95 queueing delay"]


def test_the_page_has_every_case_and_sender() -> None:
    page = media.PAGE.read_text(encoding="utf-8")
    for case in (*media_cases.CASES, *media_wifi.CASES):
        assert f"# {case.name}: {case.title}\n" in page
        _, _, rest = page.partition(f"# {case.name}: {case.title}\n")
        table = rest.split("\n#")[0]
        assert [sender for sender in case.senders if f"| `{sender}` |" not in table] == []
