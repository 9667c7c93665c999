"""Figures of runs that are worked out from kept tables: each on a table made by hand."""

from __future__ import annotations

import random
from typing import Any

import polars as pl
import pytest

from lasthop.papers import derived
from lasthop.papers.library import PaperError

KEYS = ["seed"]


def figure(name: str, table: pl.DataFrame, at: float | None = None) -> Any:
    """Return the figure of the only run; a list if there are several."""
    values = derived.find(name, table.columns, at)(table, KEYS)[derived.FIGURE].to_list()
    return values[0] if len(values) == 1 else values


def hops(*rows: tuple[Any, ...]) -> pl.DataFrame:
    """Return hops: packet, link, kind, seq, ack, whether it is a repetition, times in ms, outcome."""
    columns = [
        "packet",
        "link",
        "kind",
        "seq",
        "ack",
        "retransmission",
        "enqueue_ns",
        "transmit_ns",
        "arrive_ns",
        "outcome",
    ]
    table = pl.DataFrame(rows, schema=columns, orient="row")
    times = pl.col("enqueue_ns", "transmit_ns", "arrive_ns") * 1_000_000
    size = pl.when(pl.col("kind") == "data").then(1000).otherwise(40)
    return table.with_columns(
        times, pl.lit(1).alias("seed"), pl.lit("f").alias("flow"), size.alias("wire_bytes")
    )


#: Packet 1 crosses both links, 2 is lost on the second, 3 repeats it.
TWO_LINKS = hops(
    (1, "a", "data", 1, 0, False, 0, 1, 10, "delivered"),
    (1, "b", "data", 1, 0, False, 10, 14, 20, "delivered"),
    (2, "a", "data", 2, 0, False, 5, 6, 15, "delivered"),
    (2, "b", "data", 2, 0, False, 15, 20, None, "channel-error"),
    (3, "a", "data", 2, 0, True, 100, 101, 110, "delivered"),
    (3, "b", "data", 2, 0, True, 110, 112, 130, "delivered"),
)


def test_delays_are_those_of_packets_that_came_to_their_end() -> None:
    assert figure("delay_min", TWO_LINKS) == pytest.approx(0.020)
    assert figure("delay_max", TWO_LINKS) == pytest.approx(0.030)
    assert figure("delay_mean", TWO_LINKS) == pytest.approx(0.025)


def test_queueing_is_taken_out_of_a_delay() -> None:
    assert figure("fixed_delays", TWO_LINKS) == pytest.approx([0.015, 0.027])


def test_packets_are_of_full_size_in_their_own_run() -> None:
    small = TWO_LINKS.with_columns(pl.lit(2).alias("seed"), pl.col("wire_bytes") - 40)
    both = pl.concat([TWO_LINKS, small])
    found = derived.find("fixed_delays", both.columns, None)(both, KEYS)
    assert found["seed"].to_list() == [1, 1, 2, 2]


def test_the_forms_of_the_jitter_agree() -> None:
    assert figure("jitter_forms_gap", TWO_LINKS) == pytest.approx(0, abs=1e-12)


def test_a_loss_is_recovered_when_its_repeat_reaches_the_next_node() -> None:
    # Lost when it came to the link at 15 ms, repaired at 130.
    assert figure("recovery_time", TWO_LINKS) == pytest.approx(0.115)


def test_a_loss_is_repaired_locally_if_the_next_copy_is_not_the_senders() -> None:
    table = hops(
        (1, "b", "data", 1, 0, False, 0, 1, None, "channel-error"),
        (2, "b", "data", 1, 0, False, 5, 6, None, "channel-error"),
        (3, "b", "data", 1, 0, True, 9, 9, None, "channel-error"),
        (4, "b", "data", 1, 0, True, 12, 12, 20, "delivered"),
        (5, "b", "data", 2, 0, False, 1, 1, None, "channel-error"),
        (6, "b", "data", 3, 0, False, 1, 1, 5, "delivered"),
    )
    # Two losses were not of the senders copies and came again: first from the link, then from the sender.
    assert figure("local_repairs", table) == 0.5


def overtaken(duplicates: int, lost: bool) -> pl.DataFrame:
    """Return a segment that is sent again behind `duplicates` duplicate ACKs, lost at first or not."""
    first = (
        2,
        "x",
        "data",
        2,
        0,
        False,
        1,
        1,
        None if lost else 50,
        "channel-error" if lost else "delivered",
    )
    acks = [
        (10 + number, "x (reverse)", "ack", 0, 2, False, 10 + number, 10, 12 + number, "delivered")
        for number in range(duplicates + 1)
    ]
    again = (3, "x", "data", 2, 0, True, 40, 40, 60, "delivered")
    return hops((1, "x", "data", 1, 0, False, 0, 0, 10, "delivered"), first, *acks, again)


@pytest.mark.parametrize(("duplicates", "lost", "count"), [(3, False, 1), (2, False, 0), (5, True, 0)])
def test_a_fast_retransmission_is_spurious_if_nothing_was_lost(
    duplicates: int, lost: bool, count: int
) -> None:
    assert figure("spurious_fast_retransmits", overtaken(duplicates, lost)) == count


def test_duplicate_acks_are_counted_where_they_arrive() -> None:
    assert figure("duplicate_acks", overtaken(4, lost=True)) == 4


def windows(*values: float | None) -> pl.DataFrame:
    """Return windows of one flow at 1, 2, 3, ... s, with round trips of 0.1 s and a rate of 8 kbit/s each."""
    rows = {
        "seed": 1,
        "flow": "f",
        "time_s": [float(second) for second in range(1, len(values) + 1)],
        "cwnd_segments": pl.Series(values, dtype=pl.Float64),
        "flight_segments": 1,
        "rtt_s": 0.1,
        "throughput_bit_s": pl.Series([8000.0 * (value or 0) for value in values]),
    }
    return pl.DataFrame(rows)


def test_falls_and_cuts_of_a_window_are_counted() -> None:
    assert figure("restarts", windows(4, 1, 2, 0.5, 1, 8, 1)) == 3
    assert figure("halvings", windows(10, 5, 10, 8, 10, 3.9, 4, 1)) == 2


def test_means_and_spreads_over_time() -> None:
    table = windows(100, 2, 4)
    assert figure("cwnd_mean", table, at=1.0) == 3
    assert figure("cwnd_cv", table, at=1.0) == pytest.approx(1 / 3)
    assert figure("cwnd_flow_cv", table) == 0
    assert figure("rtt_cv", table) == pytest.approx(0)
    assert figure("rate_cv", table, at=1.0) == pytest.approx(1 / 3)
    assert figure("throughput_max", table, at=1.0) == 32
    both = pl.concat(
        [table, table.with_columns(pl.lit("other").alias("flow"), pl.col("throughput_bit_s") * 2)]
    )
    assert figure("throughput_max", both, at=1.0) == 96
    assert figure("throughput_max_of_flow", both, at=1.0) == 48


def test_the_dip_behind_an_event() -> None:
    assert figure("window_dip", windows(10, 10, 4, 6, 1), at=2.0) == pytest.approx(0.6)
    assert figure("window_dip", windows(10, 10, 12), at=2.0) == 0


def test_the_time_to_the_steady_window() -> None:
    # Steady at 10 over the second half; at 9 after 2 s of its first.
    assert figure("ramp_time", windows(2, 4, 9, 10, 10, 10)) == 2


def test_clusters_of_round_trips() -> None:
    samples = [0.1, 0.101, 0.099] * 10 + [0.2, 0.202, 0.198] * 5 + [0.9]
    table = pl.DataFrame(
        {"seed": 1, "flow": "f", "time_s": [float(at) for at in range(len(samples))], "rtt_s": samples}
    )
    assert figure("cluster_gap", table) == pytest.approx(0.1)
    assert figure("cluster_gap", table.head(2)) is None


def test_a_formula_is_arithmetic_over_metrics() -> None:
    expression, used = derived.formula("abs(1 - lost / (sent - 2)) * 3")
    assert used == {"lost", "sent"}
    assert pl.DataFrame({"lost": 8, "sent": 6}).select(expression.alias("it"))["it"].item() == 3


@pytest.mark.parametrize("text", ["lost[reno]", "mean(lost)", "all n in N: n < 3", "lost /"])
def test_a_bad_formula_is_refused(text: str) -> None:
    with pytest.raises(PaperError):
        derived.formula(text)


def test_what_a_function_needs_is_told() -> None:
    with pytest.raises(PaperError, match="no function 'delay_top' of a kept table: there are delay_mean"):
        derived.find("delay_top", [])
    with pytest.raises(
        PaperError, match="delay_min needs the columns arrive_ns, enqueue_ns, kind, outcome, packet"
    ):
        derived.find("delay_min", ["link"])


def test_each_function_says_what_it_needs() -> None:
    assert derived.FUNCTIONS.keys() == derived.COLUMNS.keys()


MEANS = (
    "cwnd_mean",
    "cwnd_cv",
    "cwnd_flow_cv",
    "rtt_cv",
    "rate_cv",
    "throughput_max",
    "throughput_max_of_flow",
)


@pytest.mark.parametrize("name", MEANS)
def test_where_a_run_lies_in_the_table_changes_no_digit(name: str) -> None:
    """Runs lie in the order in which they came to their end, in files of any number of them."""
    draw = random.Random(7)  # noqa: S311
    rows = [(0.1 * row, f"f{flow}") for row in range(1, 301) for flow in range(12)]
    runs = [
        pl.DataFrame(
            {
                "seed": seed,
                "flow": [flow for _, flow in rows],
                "time_s": [time for time, _ in rows],
                **{
                    column: [draw.random() * 1e5 for _ in rows]
                    for column in ("cwnd_segments", "rtt_s", "throughput_bit_s")
                },
            }
        )
        for seed in range(20)
    ]
    together = derived.find(name, runs[0].columns)(pl.concat(runs, rechunk=False), ["seed"])
    draw.shuffle(runs)
    files = [pl.concat(runs[start : start + 3], rechunk=True) for start in range(0, 20, 3)]
    apart = derived.find(name, runs[0].columns)(pl.concat(files, rechunk=False), ["seed"])
    assert together.sort("seed").equals(apart.sort("seed"))
