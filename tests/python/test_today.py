"""The study of senders over the last hops of today: sound scenarios, and advice that follows its figures."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl
import pytest
from validation import today, today_page

import lasthop as lh

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("hop", today.HOPS)
def test_every_case_has_a_sound_scenario(hop: str, tmp_path: Path) -> None:
    for case in today.cases():
        if case.hop == hop:
            flows = today.MEASURES[case.measures[0]].flows(case.sender, today.HOPS[hop])
            content = today.content(case.sender, today.HOPS[hop], flows, tmp_path)
            assert lh.Scenario(content, folder=tmp_path).flow_names[0].startswith("s")


def test_rows_say_what_was_run() -> None:
    """A case gives a row for each seed and measure; what it says of a run is that run's figure."""
    case = next(case for case in today.cases() if (case.hop, case.sender) == ("lossy-shallow", "reno"))
    rows = today.rows((case, 2))
    assert [row[:4] for row in rows] == [
        ("lossy-shallow", "reno", name, seed) for seed in (1, 2) for name in ("goodput", "delay")
    ]
    assert all(1.0 < row[4] < 100.0 for row in rows if row[4] is not None)


def test_no_video_is_uploaded() -> None:
    measured = {(case.hop, name) for case in today.cases() for name in case.measures}
    assert {hop for hop in today.HOPS if (hop, "quality") not in measured} == {"dish"}


def invented(better: str) -> today_page.Values:
    """Return values in which one sender has twice the goodput, and half of the rest, of all others."""
    return {
        (case.hop, name): {
            sender: [
                (10.0 + seed) * (1.0 if sender != better else 2.0 if today.MEASURES[name].more else 0.5)
                for seed in (0.0, 0.01, 0.02)
            ]
            for sender in today.SENDERS
        }
        for case in today.cases()
        for name in case.measures
    }


def test_the_best_is_named_alone_where_it_is_alone() -> None:
    values = invented("copa")
    assert today_page.best(values, "wifi", "goodput") == ("copa",)
    assert today_page.best(values, "wifi", "median") == ("copa",)
    assert today_page.filling(values, "wifi") == ("copa",)
    assert today_page.cost(values, "wifi")["copa"].mean == pytest.approx(1.0)


def test_senders_that_seeds_do_not_tell_apart_are_named_together() -> None:
    values = invented("copa")
    values["wifi", "goodput"]["bbr3"] = [20.2, 19.9, 20.1]
    assert set(today_page.best(values, "wifi", "goodput")) == {"copa", "bbr3"}


def test_a_sender_that_takes_from_a_cubic_is_named() -> None:
    values = invented("copa")
    values["train", "other"]["bbr"] = [5.0, 5.1, 5.2]
    line = next(line for line in today_page.advice(values).split("\n") if line.startswith("| LTE"))
    assert re.search(r"`bbr` \(-4\d %\) \|$", line)


def test_the_advice_of_the_page_is_that_of_its_tables() -> None:
    """The first sender of a cell of the first table has the best mean of the hop's own table."""
    text = today_page.PAGE.read_text(encoding="utf-8")
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
        assert list(means) == list(today.SENDERS)
        for column, (name, sign) in {0: ("goodput", -1), 2: ("median", 1)}.items():
            told = advice[hop.title][column].split(",")[0].strip("`")
            figures = {sender: sign * row[list(today.MEASURES).index(name)] for sender, row in means.items()}
            assert figures[told] == min(figures.values()), (hop.title, name)


def test_the_page_is_that_of_the_stored_rows() -> None:
    values = today_page.values_of(pl.read_parquet(today.DATA))
    assert today_page.page(values) == today_page.PAGE.read_text(encoding="utf-8")
