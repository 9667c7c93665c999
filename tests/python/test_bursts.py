"""The study of Prague and CUBIC over bursts: its traces carry the rate, and its scenarios are sound."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest
from validation import bursts

import lasthop as lh

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("every_ms", bursts.BATCHES_MS)
def test_batches_carry_the_rate(every_ms: int) -> None:
    times = [int(line) for line in bursts.batches(every_ms).split()]
    assert set(times) == {every_ms, 2 * every_ms, 3 * every_ms}
    assert len(times) * bursts.PACKET_BITS == bursts.RATE_MBIT * 1000 * times[-1]


@pytest.mark.parametrize(("queue", "hop"), list(product(bursts.QUEUES, bursts.HOPS)))
def test_every_case_is_a_scenario(queue: str, hop: str, tmp_path: Path) -> None:
    case = bursts.Case(queue, hop, bursts.RTTS_MS[0])
    assert lh.Scenario(bursts.content(case, tmp_path), folder=tmp_path).flow_names == ["cubic", "prague"]
