"""The study of real-time media: its cases are scenarios, its figures what they say, its page whole."""

from __future__ import annotations

import itertools
import math
import random
from typing import TYPE_CHECKING

import pytest
from validation import engine, media, media_cases, media_cellular, media_wifi

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("case", media_cases.CASES, ids=lambda case: case.name)
def test_every_case_of_rfc_8867_is_a_scenario(case: media_cases.Case) -> None:
    make = media_cases.two_bottlenecks if case.name == "6.3" else media_cases.scenario
    for sender in case.senders:
        engine.plan(make(case, sender))


@pytest.mark.parametrize("case", media_wifi.CASES, ids=lambda case: case.name)
def test_every_case_of_rfc_8869_is_a_scenario(case: media_wifi.WifiCase) -> None:
    for sender in (*case.senders, None):
        engine.plan(media_wifi.scenario(case, sender))


@pytest.mark.parametrize("case", media_cellular.CASES, ids=lambda case: case.name)
def test_every_cellular_case_of_rfc_8869_is_a_scenario(case: media_cellular.CellCase, tmp_path: Path) -> None:
    for node, text in media_cellular.channels(case, 1).items():
        (tmp_path / node).write_text(text)
    for sender in (*case.senders, None):
        engine.plan(media_cellular.scenario(case, sender, 1), tmp_path)


def test_calls_come_as_often_as_the_rfc_says() -> None:
    """One for each cell and 30 s at an intensity of 0.7 a second over 21 cells."""
    case = next(case for case in media_cellular.CASES if case.intensity == 7.0)
    found = [len(media_cellular.calls(case, seed)) for seed in range(1, 201)]
    # 20 in 60 s, and a Poisson process has as much variance.
    assert sum(found) / len(found) == pytest.approx(20, abs=3 * math.sqrt(20 / 200))


@pytest.mark.parametrize("speed_km_h", [3, 30])
def test_fading_is_that_of_rayleigh(speed_km_h: float) -> None:
    """Gains are exponential, and cross their mean upwards sqrt(2 pi) f exp(-1) times a second (Rice)."""
    draws = random.Random(1)  # noqa: S311
    gains = [media_cellular.fading(draws, speed_km_h, 0, 20) for _ in range(40)]
    every = [gain for one in gains for gain in one]
    assert sum(every) / len(every) == pytest.approx(1, rel=0.05)
    assert sum(gain < 0.1 for gain in every) / len(every) == pytest.approx(1 - math.exp(-0.1), rel=0.1)
    rises = sum(low < 1 <= high for one in gains for low, high in itertools.pairwise(one))
    doppler_hz = speed_km_h / 3.6 * 2e9 / 299_792_458
    seconds = len(every) * media_cellular.STEP_S
    # A fade shorter than a step is not seen: 5 ms are a quarter of a wave at 30 km/h.
    missed = 0.1 if speed_km_h == 3 else 0.25
    assert rises / seconds == pytest.approx(math.sqrt(2 * math.pi) * doppler_hz / math.e, rel=missed)


def test_link_adaptation_is_that_of_tr_36_942() -> None:
    """10 dB: 0.6 x log2(11) x 180 / 120 = 3.11 bit per symbol, so CQI 10; upwards 2.08, CQI 8."""
    assert media_cellular.cqi(10, up=False) == 10
    assert media_cellular.cqi(10, up=True) == 8
    assert media_cellular.cqi(1e6, up=False) == 15
    assert media_cellular.cqi(1e6, up=True) == 10
    assert media_cellular.cqi(0.0, up=False) == 1


def test_a_clean_reverse_path_costs_nothing() -> None:
    """Case 5.3 is measured beside the same path with a wide way back, at which no sender has less."""
    case = next(case for case in media_cases.CASES if case.name == "5.3")
    for sender in case.senders:
        assert media.measure(case, sender, 1)["feedback"] < 1.2, sender


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
    for case in (*media_cases.CASES, *media_wifi.CASES, *media_cellular.CASES):
        assert f"# {case.name}: {case.title}\n" in page
        _, _, rest = page.partition(f"# {case.name}: {case.title}\n")
        table = rest.split("\n#")[0]
        assert [sender for sender in case.senders if f"| `{sender}` |" not in table] == []
