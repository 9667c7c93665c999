"""The study of senders over the last hops of today: sound scenarios, and advice that follows its figures."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from validation import today

import lasthop as lh

if TYPE_CHECKING:
    from pathlib import Path

KINDS = {one.flows.__name__: one.flows for one in today.MEASURES.values()}


@pytest.mark.parametrize("hop", today.HOPS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_sender_has_a_scenario(hop: str, kind: str, tmp_path: Path) -> None:
    for cc in today.SENDERS:
        flows = KINDS[kind](cc, today.HOPS[hop])
        content = today.content(cc, today.HOPS[hop], flows, tmp_path)
        assert lh.Scenario(content, folder=tmp_path).flow_names[0].startswith("s")


def invented(better: str) -> today.Values:
    """Return values in which one sender has twice the goodput, and half of the rest, of all others."""
    return {
        (hop, name): {
            cc: [
                (10.0 + seed) * (1.0 if cc != better else 2.0 if one.more else 0.5)
                for seed in (0.0, 0.01, 0.02)
            ]
            for cc in today.SENDERS
        }
        for hop in today.HOPS
        for name, one in today.MEASURES.items()
    }


def test_the_best_is_named_alone_where_it_is_alone() -> None:
    values = invented("copa")
    assert today.best(values, "wifi", "goodput") == ("copa",)
    assert today.best(values, "wifi", "median") == ("copa",)
    assert today.filling(values, "wifi") == ("copa",)
    assert today.cost(values, "wifi")["copa"].mean == pytest.approx(1.0)


def test_senders_that_seeds_do_not_tell_apart_are_named_together() -> None:
    values = invented("copa")
    values["wifi", "goodput"]["bbr3"] = [20.2, 19.9, 20.1]
    assert set(today.best(values, "wifi", "goodput")) == {"copa", "bbr3"}


def test_a_sender_that_takes_from_a_cubic_is_named() -> None:
    values = invented("copa")
    values["train", "other"]["bbr"] = [5.0, 5.1, 5.2]
    line = next(line for line in today.advice(values).split("\n") if line.startswith("| LTE"))
    assert re.search(r"`bbr` \(-4\d %\) \|$", line)


def test_the_advice_of_the_page_is_that_of_its_tables() -> None:
    """The first sender of a cell of the first table has the best mean of the hop's own table."""
    text = today.PAGE.read_text(encoding="utf-8")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.split("\n")
        if line.startswith("| ")
    ]
    advice = {row[0]: row[1:] for row in rows if row[0] in {hop.title for hop in today.HOPS.values()}}
    assert len(advice) == len(today.HOPS)
    for hop in today.HOPS.values():
        part = text.split(f"## {hop.title}\n")[1].split("\n## ")[0]
        means: dict[str, list[float]] = {}
        for line in part.split("\n"):
            if line.startswith("| `"):
                first, *cells = [cell.strip() for cell in line.strip("|").split("|")]
                means[first.strip("`")] = [float(cell.split(" ")[0]) for cell in cells]
        assert tuple(means) == today.SENDERS
        for column, (name, sign) in enumerate((("goodput", -1), ("median", 1))):
            told = advice[hop.title][(0, 2)[column]].split(",")[0].strip("`")
            figures = {cc: sign * row[list(today.MEASURES).index(name)] for cc, row in means.items()}
            assert figures[told] == min(figures.values()), (hop.title, name)
