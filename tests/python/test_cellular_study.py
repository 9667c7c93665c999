"""The study beside ns-3's LTE: its scenarios are sound, and blocks have the size that they are given."""

from __future__ import annotations

import pytest
from validation import cellular, engine


@pytest.mark.parametrize("size", [903, 1191, 1980, 2769, 3662, 4395])
def test_a_block_has_the_size_that_it_is_given(size: int) -> None:
    blocks, symbols = cellular.grid(size)
    assert blocks * symbols * 55_547 // 10_000 // 8 == pytest.approx(size, rel=0.001, abs=2)


@pytest.mark.parametrize("case", cellular.cases(), ids=lambda case: case.key)
def test_every_case_is_a_scenario(case: cellular.Case) -> None:
    sizes = [3000 + 100 * place for place in range(len(case.distances))]
    engine.plan(cellular.scenario(case, cellular.Channel(3000, (0.1, 0.0, 0.0, 0.0)), sizes))


def test_a_quantile_is_a_value_that_was_seen() -> None:
    assert [cellular.quantile([4.0, 1.0, 3.0, 2.0], share) for share in (0.25, 0.5, 0.99)] == [1.0, 2.0, 4.0]
