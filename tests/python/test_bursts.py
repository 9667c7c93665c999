"""The study of Prague and CUBIC over bursts: its traces carry the rate, and its scenarios are sound."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import polars as pl
import pytest
from validation import bursts

import lasthop as lh

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("every_ms", "rate"), list(product(bursts.BATCHES_MS, bursts.RATES_MBIT)))
def test_batches_carry_the_rate(every_ms: int, rate: int) -> None:
    times = [int(line) for line in bursts.batches(every_ms, rate).split()]
    assert set(times) == {every_ms, 2 * every_ms, 3 * every_ms}
    assert abs(len(times) * bursts.PACKET_BITS - rate * 1000 * times[-1]) < bursts.PACKET_BITS


@pytest.mark.parametrize("queue", bursts.QUEUES)
def test_every_case_is_a_scenario(queue: str, tmp_path: Path) -> None:
    for case in bursts.cases():
        if case.queue == queue:
            names = lh.Scenario(bursts.content(case, tmp_path), folder=tmp_path).flow_names
            assert names[:2] == ["cubic", "prague"]


def test_the_page_is_that_of_the_stored_rows() -> None:
    assert bursts.page(pl.read_parquet(bursts.DATA)) == bursts.PAGE.read_text(encoding="utf-8")
