"""Means, trimmed means and paired differences of studies, against figures worked by hand and known laws."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest

import lasthop as lh
from lasthop.studies import statistics


def table_of(points: dict[tuple[str, int], list[float | None]], **more: list[Any]) -> pl.DataFrame:
    """Return a tidy table with the axes `proto` and `n`, the metric `goodput`, and a seed per value."""
    rows = [
        {"proto": proto, "n": n, "seed": seed, "goodput": value, "state": "done"}
        for (proto, n), values in points.items()
        for seed, value in enumerate(values, start=1)
    ]
    return pl.DataFrame(rows).with_columns(**{name: pl.Series(values) for name, values in more.items()})


def only(table: pl.DataFrame) -> dict[str, Any]:
    assert table.height == 1
    return table.row(0, named=True)


def test_mean_and_interval_are_those_worked_by_hand() -> None:
    row = only(statistics.summarise(table_of({("reno", 1): [1, 2, 3, 4, 5]}), ["proto", "n"], ["goodput"]))
    assert (row["proto"], row["n"], row["metric"], row["seeds"]) == ("reno", 1, "goodput", 5)
    assert (row["mean"], row["median"]) == (3.0, 3.0)
    # Variance 2.5, standard error sqrt(2.5 / 5) = 0.70711, t quantile of four degrees 2.77645.
    assert row["sd"] == pytest.approx(math.sqrt(2.5))
    assert row["high"] - 3.0 == pytest.approx(2.77645 * math.sqrt(0.5), rel=1e-5)
    # Trimmed to 2, 3, 4. Winsorised 2 2 3 4 4: variance 1, standard error 1 / ((1 - 0.4) sqrt(5)) = 0.74536;
    # t quantile of two degrees 4.30265.
    assert row["trimmed_mean"] == pytest.approx(3.0)
    assert row["trimmed_high"] - 3.0 == pytest.approx(4.30265 * 0.745356, rel=1e-4)
    assert row["outliers"] is False


def test_one_wild_seed_is_flagged_and_hardly_moves_the_trimmed_mean() -> None:
    calm = [10.0, 10.1, 9.9, 10.2, 9.8, 10.05, 9.95, 10.1, 9.9]
    points = {("reno", 1): [*calm, 10.0], ("reno", 2): [*calm, 100.0]}
    summary = statistics.summarise(table_of(points), ["proto", "n"], ["goodput"])
    assert summary["outliers"].to_list() == [False, True]
    assert summary["mean"][1] == pytest.approx(19.0)
    assert summary["trimmed_mean"][1] == pytest.approx(10.0, abs=0.1)
    assert summary["median"][1] == pytest.approx(10.025)


def test_equal_values_are_no_outliers() -> None:
    row = only(statistics.summarise(table_of({("reno", 1): [0.1] * 10}), ["proto", "n"], ["goodput"]))
    assert (row["sd"], row["outliers"]) == (0.0, False)
    assert row["low"] == row["high"] == pytest.approx(0.1)


def test_small_counts_are_no_outliers_and_a_single_large_one_is() -> None:
    """Most seeds agree, so that the trimmed interval has no width: that alone means nothing."""
    points: dict[tuple[str, int], list[float | None]] = {
        ("reno", 1): [3, 4, 4, 4, 6],
        ("reno", 2): [4, 4, 4, 4, 40],
    }
    summary = statistics.summarise(table_of(points), ["proto", "n"], ["goodput"])
    assert summary["trimmed_low"].to_list() == summary["trimmed_high"].to_list() == [4.0, 4.0]
    assert summary["outliers"].to_list() == [False, True]


def test_one_seed_has_a_mean_and_nothing_else() -> None:
    row = only(statistics.summarise(table_of({("reno", 1): [7.0]}), ["proto", "n"], ["goodput"]))
    assert (row["mean"], row["median"], row["seeds"]) == (7.0, 7.0, 1)
    assert [row[name] for name in ("low", "high", "sd", "trimmed_mean", "outliers")] == [None] * 5


def test_with_four_seeds_nothing_can_be_trimmed() -> None:
    row = only(statistics.summarise(table_of({("reno", 1): [1, 2, 3, 4]}), ["proto", "n"], ["goodput"]))
    assert (row["low"] is not None, row["trimmed_mean"], row["outliers"]) == (True, None, None)


def test_failed_runs_and_missing_values_do_not_count_but_their_points_stay() -> None:
    table = table_of(
        {("reno", 1): [1.0, 2.0, 99.0], ("vegas", 1): [None, None, 5.0]},
        state=["done", "done", "failed", "done", "done", "failed"],
    )
    summary = statistics.summarise(table, ["proto", "n"], ["goodput"])
    assert summary.select("proto", "seeds", "mean").rows() == [("reno", 2, 1.5), ("vegas", 0, None)]


def test_a_study_without_axes_is_one_point() -> None:
    table = table_of({("reno", 1): [1.0, 3.0]}).drop("proto", "n")
    assert only(statistics.summarise(table, [], ["goodput"]))["mean"] == 2.0


def test_pairs_are_taken_seed_by_seed_whatever_the_order_of_rows() -> None:
    channel = [1.0, 5.0, 9.0, 2.0, 7.0, 4.0]
    table = table_of({("reno", 1): [*channel], ("vegas", 1): [value + 0.5 for value in channel]})
    row = only(statistics.differences(table.reverse(), ["proto", "n"], {"goodput": True}, {"proto": "reno"}))
    assert (row["proto"], row["baseline"], row["seeds"]) == ("vegas", "proto=reno", 6)
    assert row["difference"] == row["low"] == row["high"] == row["median_difference"] == 0.5
    assert row["relative"] == pytest.approx(0.5 / (28 / 6))
    # Six differences of one sign: 2 / 2^6.
    assert row["p_signed_rank"] == pytest.approx(2 / 64)
    assert (row["better"], row["verdict"], row["agrees"]) == (True, "better", True)


def test_other_axes_stay_where_they_are() -> None:
    points = {(proto, n): [n * factor + seed for seed in range(6)] for proto, factor in
              (("reno", 1.0), ("vegas", 2.0)) for n in (10, 20)}  # fmt: skip
    found = statistics.differences(table_of(points), ["proto", "n"], {"goodput": False}, {"proto": "reno"})
    assert found.select("n", "difference", "verdict").rows() == [(10, 10.0, "worse"), (20, 20.0, "worse")]


def test_a_wild_seed_makes_test_and_interval_disagree() -> None:
    zero = [0.0] * 10
    wild = [0.1, 0.2, 0.15, 0.12, 0.3, 0.11, 0.22, 0.18, 0.14, 40.0]
    table = table_of({("reno", 1): zero, ("vegas", 1): wild})
    row = only(statistics.differences(table, ["proto", "n"], {"goodput": None}, {"proto": "reno"}))
    assert (row["verdict"], row["better"]) == ("no difference shown", None)
    assert row["p_signed_rank"] == pytest.approx(2 / 1024)
    assert row["agrees"] is False
    assert row["relative"] is None


def test_where_neither_direction_is_good_the_verdict_is_higher_or_lower() -> None:
    table = table_of({("reno", 1): [1.0, 2.0, 3.0], ("vegas", 1): [3.0, 4.1, 5.2]})
    row = only(statistics.differences(table, ["proto", "n"], {"goodput": None}, {"proto": "reno"}))
    assert (row["verdict"], row["better"], row["agrees"]) == ("higher", None, None)


@pytest.mark.parametrize(
    ("reno", "vegas", "seeds", "verdict", "probability"),
    [
        ([1.0], [2.0], 1, "one seed cannot tell", 1.0),
        ([1.0, None], [None, 2.0], 0, "no pairs", None),
        ([3.0, 4.0], [3.0, 4.0], 2, "an exact tie", 1.0),
    ],
)
def test_too_few_pairs_show_nothing(
    reno: list[float | None],
    vegas: list[float | None],
    seeds: int,
    verdict: str,
    probability: float | None,
) -> None:
    table = table_of({("reno", 1): reno, ("vegas", 1): vegas})
    row = only(statistics.differences(table, ["proto", "n"], {"goodput": True}, {"proto": "reno"}))
    assert (row["seeds"], row["verdict"], row["p_signed_rank"]) == (seeds, verdict, probability)


def test_groups_give_what_single_samples_give() -> None:
    """The library works on many points at once; ties in one must not change the p value of another."""
    from scipy.stats import wilcoxon

    tied = [1.0, 1.0, 2.0, -1.0, 3.0, 4.0, 5.0]
    plain = [0.3, -0.1, 0.7, 0.9, -0.4, 1.1, 1.3]
    table = table_of({("reno", 1): [0.0] * 7, ("a", 1): tied, ("b", 1): plain})
    found = statistics.differences(table, ["proto", "n"], {"goodput": True}, {"proto": "reno"})
    assert found["p_signed_rank"].to_list() == pytest.approx([wilcoxon(tied).pvalue, wilcoxon(plain).pvalue])


def message(call: Any, *arguments: Any) -> str:
    with pytest.raises(lh.ArgumentError) as caught:
        call(*arguments)
    return str(caught.value)


def test_unknown_names_are_refused_with_the_nearest() -> None:
    table = table_of({("reno", 1): [1.0], ("vegas", 1): [1.0]})
    assert message(statistics.summarise, table, ["proto", "n"], ["goodputt"]).startswith(
        "unknown metric 'goodputt': did you mean 'goodput'?"
    )
    assert message(statistics.summarise, table, ["protto"], ["goodput"]).startswith(
        "unknown axis 'protto': did you mean 'proto'?"
    )
    assert (
        message(statistics.differences, table, ["proto", "n"], {"goodput": True}, {"proto": "cubic"})
        == "baseline proto=cubic is not in the results: proto is one of reno, vegas"
    )


def test_an_axis_called_like_a_statistic_is_refused() -> None:
    table = table_of({("reno", 1): [1.0]}).rename({"n": "mean"})
    assert (
        message(statistics.summarise, table, ["mean"], ["goodput"])
        == "axis 'mean' has the name of a statistic: rename it in the study file"
    )
