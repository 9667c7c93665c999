"""The page on senders that tell losses apart: it says what its rows say, and the engine gives these rows."""

from __future__ import annotations

import polars as pl
import pytest
from validation import classifiers, classifiers_page
from validation.classifiers import Case, Cell

from lasthop import _native

STORED = pl.read_parquet(classifiers.DATA)


def test_the_page_is_what_the_rows_say() -> None:
    assert classifiers_page.PAGE.read_text(encoding="utf-8") == classifiers_page.page(STORED)


def test_every_case_is_stored_once_for_each_seed() -> None:
    wanted = sum(1 for _ in classifiers.cases()) * len(classifiers.SEEDS)
    key = ["path", "buffer", "queue", "channel", "loss_rate", "load", "sender", "threshold", "seed"]
    assert STORED.height == wanted
    assert STORED.select(key).is_duplicated().sum() == 0


@pytest.mark.parametrize(
    "case",
    [
        Case(Cell(load="rival"), "lda zigzag"),
        Case(Cell(load="alike"), "lda oracle"),
        Case(Cell(queue="codel", load="rival"), "veno"),
        Case(Cell(channel="bursts of 4", loss_rate=0.01), "lda biaz"),
        Case(Cell(load="rival"), "jtcp", 2.5),
    ],
    ids=lambda case: case.sender,
)
def test_the_engine_gives_the_stored_runs(case: Case) -> None:
    anew = pl.DataFrame(classifiers.rows(case, range(1, 3)), schema=classifiers.SCHEMA)
    assert set(anew.rows()) <= set(STORED.rows())


@pytest.mark.skipif(not _native.HAS_STACKS, reason="make build FEATURES=stacks has them")
@pytest.mark.parametrize("sender", ["quic veno", "quic lda ntg"])
def test_the_stack_gives_the_stored_runs(sender: str) -> None:
    case = Case(Cell(load="rival"), sender)
    anew = pl.DataFrame(classifiers.rows(case, range(1, 3)), schema=classifiers.SCHEMA)
    assert set(anew.rows()) <= set(STORED.rows())


def test_replicates_without_errors_differ() -> None:
    calm = STORED.filter((pl.col("loss_rate") == 0) & (pl.col("load") == "rival"))
    for _, runs in calm.group_by("sender"):
        assert runs.select("goodput_bit_s", "rival_bit_s").n_unique() == len(classifiers.SEEDS)


def test_yardsticks_are_what_they_say() -> None:
    repaired = STORED.filter(pl.col("threshold").is_null())
    oracle = repaired.filter(pl.col("sender") == "lda oracle")
    assert oracle["congestion_as_wireless"].sum() == 0
    congestion = repaired.filter(pl.col("sender") == "lda congestion")
    assert congestion.select("congestion_as_wireless", "wireless_as_wireless").sum().row(0) == (0, 0)
