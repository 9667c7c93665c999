"""What the claims measure and no column of the results holds: worked out from the tables kept of each run.

`reproduce` calls `find` and `formula` for a series whose entry in paper.toml names a ``function`` or a
``formula``. A function takes the rows of all runs and the columns that tell the runs apart, and returns a row
per run with the column `FIGURE`; what it needs is said by `COLUMNS`.
Nothing here runs or reads anything.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from lasthop.extras import np, pl
from lasthop.papers.grammar import Binary, Call, Comparison, Name, Number, parse
from lasthop.papers.library import PaperError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from lasthop.papers.grammar import Arithmetic

    Floats = NDArray[np.float64]

#: Column of what a function returns.
FIGURE = "figure"
#: Duplicate ACKs behind a fast retransmission.
DUPLICATES = 3
#: Clusters of RTT samples, how many samples they are made of, and the share below which one is sporadic.
CLUSTERS, CLUSTERED_SAMPLES, SPORADIC = 3, 200, 0.05
#: Centres that still move after this many rounds move by nothing that counts.
MOST_ROUNDS = 100
#: What a halved window keeps.
HALVED = (0.4, 0.8)
TIMES = ("enqueue_ns", "arrive_ns")
#: Half a microsecond in s: what lies on the edge of two bins is of the first.
TINY = 5e-7
#: A window has come up when it is at this share of the steady one.
RAMPED = 0.9
#: Time in s in which a window may answer to an event.
AFTERMATH = 2.0


def formula(text: str) -> tuple[pl.Expr, set[str]]:
    """Return arithmetic over metrics as an expression, and the metrics that it uses.

    Raises
    ------
    PaperError
        It is no arithmetic over metrics.

    Examples
    --------
    >>> expression, used = formula("1 - lost / sent")
    >>> pl.DataFrame({"lost": [1.0], "sent": [4.0]}).select(expression.alias("share"))["share"].to_list()
    [0.75]
    >>> sorted(used)
    ['lost', 'sent']
    """
    tree = parse(f"{text} == 0")
    if not isinstance(tree, Comparison):
        raise PaperError(f"'{text}' is no arithmetic over metrics")
    used: set[str] = set()
    return _expression(tree.left, used, text), used


def _expression(node: Arithmetic, used: set[str], text: str) -> pl.Expr:
    match node:
        case Number(value):
            return pl.lit(value)
        case Name(name):
            used.add(name)
            return pl.col(name)
        case Binary(operator, left, right):
            a, b = _expression(left, used, text), _expression(right, used, text)
            return {"+": a + b, "-": a - b, "*": a * b, "/": a / b}[operator]
        case Call("abs", (argument,)):
            return _expression(argument, used, text).abs()
        case _:
            raise PaperError(f"'{text}' may hold numbers, metrics, + - * / and abs() only")


def columns_of(name: str) -> list[str]:
    """Return the columns that a function needs; none if there is no such function."""
    return COLUMNS.get(name, "").split()


def find(name: str, columns: Iterable[str], at: float | None = None) -> Callable[..., pl.DataFrame]:
    """Return a function by name, if the kept table has the columns that it needs.

    `at` is for the functions that are about a time, in s.

    Raises
    ------
    PaperError
        There is no such function, or the table lacks a column.
    """
    if name not in FUNCTIONS:
        raise PaperError(f"no function '{name}' of a kept table: there are {', '.join(FUNCTIONS)}")
    missing = set(columns_of(name)) - set(columns)
    if missing:
        raise PaperError(f"{name} needs the columns {', '.join(sorted(missing))}: keep them in the study")
    function = FUNCTIONS[name]
    return function if at is None else partial(function, at=at)


def delays(hops: pl.DataFrame, keys: Sequence[str] = ()) -> pl.DataFrame:
    """Return the time in s that each delivered packet of data spent in the network, without retransmissions.

    A row per packet, with the keys of its run and the column ``delay_s``.
    """
    data = hops.lazy().filter(pl.col("kind") == "data")
    per_packet = data.group_by(*keys, "packet", maintain_order=True).agg(
        ((pl.col("arrive_ns").max() - pl.col("enqueue_ns").min()) / 1e9).alias("delay_s"),
        pl.len().alias(".hops"),
        (pl.col("outcome") == "delivered").all().alias(".whole"),
    )
    # The path of a packet that came to its end is the longest.
    longest = pl.col(".hops").max().over(keys) if keys else pl.col(".hops").max()
    done = per_packet.filter(pl.col(".whole") & (pl.col(".hops") == longest))
    return done.select(*keys, "delay_s").collect()


def delay_mean(hops: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Mean of `delays` of each run."""
    return _mean_of_runs(delays(hops, keys), keys, "delay_s")


def delay_max(hops: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Greatest of `delays` of each run."""
    return _of_runs(delays(hops, keys), keys, pl.col("delay_s").max())


def delay_min(hops: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Least of `delays` of each run."""
    return _of_runs(delays(hops, keys), keys, pl.col("delay_s").min())


def _of_runs(table: pl.DataFrame, keys: Sequence[str], figure: pl.Expr) -> pl.DataFrame:
    """Return a figure of each run that is counted or chosen: no sum of fractions."""
    return table.group_by(keys, maintain_order=True).agg(figure.cast(pl.Float64).alias(FIGURE))


def _mean_of_runs(table: pl.DataFrame, keys: Sequence[str], column: str) -> pl.DataFrame:
    values = _gathered(table, keys, column)
    return values.select(*keys, pl.col(column).list.mean().alias(FIGURE)).collect()


def _gathered(table: pl.DataFrame | pl.LazyFrame, keys: Sequence[str], column: str) -> pl.LazyFrame:
    """Return the values of each group as a list.

    A mean that is taken in place depends, in its last digit, on where in the table the group stands, and so
    on the order in which runs came to their end.
    """
    return table.lazy().group_by(*keys, maintain_order=True).agg(pl.col(column))


def _variation(column: str) -> pl.Expr:
    """Return the coefficient of variation of a list."""
    values = pl.col(column).list
    return values.std(ddof=0) / values.mean()


def local_repairs(hops: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Share of the data lost in the air that come again from before the link, not from the sender.

    Of what the sender had sent once when it was lost, and what came again at all; the table has one link.
    """
    data = hops.lazy().filter(pl.col("kind") == "data").sort("enqueue_ns", maintain_order=True)
    again = pl.col("retransmission").shift(-1).over([*keys, "flow", "seq"]).alias(".again")
    lost = (pl.col("outcome") == "channel-error") & ~pl.col("retransmission")
    followed = data.with_columns(again).filter(lost & pl.col(".again").is_not_null()).collect()
    return _of_runs(followed, keys, 1 - pl.col(".again").mean())


def cwnd_mean(series: pl.DataFrame, keys: Sequence[str], at: float = 0.0) -> pl.DataFrame:
    """Mean window in segments of each run, over time from `at` on and over the flows."""
    return _mean_of_runs(_windows(series, keys, at), keys, "mean")


def cwnd_flow_cv(series: pl.DataFrame, keys: Sequence[str], at: float = 0.0) -> pl.DataFrame:
    """Coefficient of variation, across the flows of a run, of each flow's mean window."""
    windows = _gathered(_windows(series, keys, at), keys, "mean")
    return windows.select(*keys, _variation("mean").alias(FIGURE)).collect()


def cwnd_cv(series: pl.DataFrame, keys: Sequence[str], at: float = 0.0) -> pl.DataFrame:
    """Coefficient of variation of a flow's window over time, averaged over the flows."""
    return _mean_of_runs(_windows(series, keys, at), keys, "cv")


def _windows(series: pl.DataFrame, keys: Sequence[str], at: float) -> pl.DataFrame:
    window = "cwnd_segments"
    flows = _gathered(series.lazy().filter(pl.col("time_s") > at), [*keys, "flow"], window)
    means = pl.col(window).list.mean().alias("mean")
    return flows.select(*keys, "flow", means, _variation(window).alias("cv")).collect()


def rtt_cv(series: pl.DataFrame, keys: Sequence[str], at: float = 0.0) -> pl.DataFrame:
    """Coefficient of variation of a flow's round trips, averaged over the flows."""
    flows = _gathered(series.lazy().filter(pl.col("time_s") > at), [*keys, "flow"], "rtt_s")
    return _mean_of_runs(flows.select(*keys, _variation("rtt_s").alias("cv")).collect(), keys, "cv")


def rate_cv(series: pl.DataFrame, keys: Sequence[str], at: float = 0.0) -> pl.DataFrame:
    """Coefficient of variation of a flow's throughput in bins of a second, averaged over the flows."""
    rate = "throughput_bit_s"
    # A row is of the interval that ends at its time.
    second = (pl.col("time_s") - TINY).floor()
    rows = series.lazy().filter(pl.col("time_s") > at).with_columns(second.alias(".second"))
    bins = _gathered(rows, [*keys, "flow", ".second"], rate).with_columns(pl.col(rate).list.mean())
    flows = _gathered(bins, [*keys, "flow"], rate)
    return _mean_of_runs(flows.select(*keys, _variation(rate).alias("cv")).collect(), keys, "cv")


def fixed_delays(hops: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Return the one-way delay in s less what was queueing, of each delivered packet of full size."""
    data = hops.lazy().filter(pl.col("kind") == "data")
    full = data.filter(pl.col("wire_bytes") == pl.col("wire_bytes").max().over(*keys))
    per_packet = full.group_by(*keys, "packet", maintain_order=True).agg(
        ((pl.col("arrive_ns") - pl.col("transmit_ns")).sum() / 1e9).alias(FIGURE),
        (pl.col("outcome") == "delivered").all().alias(".whole"),
        pl.len().alias(".hops"),
    )
    whole = pl.col(".whole") & (pl.col(".hops") == pl.col(".hops").max())
    return per_packet.filter(whole).select(*keys, FIGURE).collect()


def jitter_forms_gap(hops: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Return how far the two forms of the jitter equation differ, in s, for each pair of arrivals."""
    data = hops.lazy().filter(pl.col("kind") == "data")
    per_packet = data.group_by(*keys, "flow", "packet", maintain_order=True).agg(
        (pl.col("enqueue_ns").min() / 1e9).alias("sent"),
        (pl.col("arrive_ns").max() / 1e9).alias("received"),
        (pl.col("outcome") == "delivered").all().alias(".whole"),
        pl.len().alias(".hops"),
    )
    done = per_packet.filter(pl.col(".whole") & (pl.col(".hops") == pl.col(".hops").max()))
    flow = [*keys, "flow"]
    sent, received = pl.col("sent"), pl.col("received")
    spacing = (received - received.shift(1).over(flow)) - (sent - sent.shift(1).over(flow))
    transit = (received - sent) - (received.shift(1).over(flow) - sent.shift(1).over(flow))
    ordered = done.sort("received", maintain_order=True)
    return ordered.select(*keys, (spacing - transit).abs().alias(FIGURE)).drop_nulls(FIGURE).collect()


def spurious_fast_retransmits(hops: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Count fast retransmissions of segments that the network had not lost.

    A retransmission is fast if three duplicate ACKs for its first byte had arrived; the segment was not lost
    if an earlier copy of it reaches the receiver.
    """
    flow = [*keys, "flow"]
    link, delivered = pl.col("link"), pl.col("outcome") == "delivered"
    data = hops.lazy().filter(pl.col("kind") == "data").sort("enqueue_ns", maintain_order=True)
    data = data.with_columns(link.first().over(flow).alias(".first"))
    # A packet that is delivered wherever it comes, and comes as far as any, reaches the receiver.
    packets = data.group_by(*flow, "packet").agg(
        link.n_unique().alias(".links"), delivered.all().alias(".whole")
    )
    longest = pl.col(".links") == pl.col(".links").max().over(flow)
    packets = packets.select(*flow, "packet", (pl.col(".whole") & longest).alias(".reaches"))
    sent = data.filter(link == pl.col(".first")).join(packets, on=[*flow, "packet"], maintain_order="left")
    earlier = pl.col(".reaches").cast(pl.UInt8).cum_max().shift(1, fill_value=0).over([*flow, "seq"])
    repeats = sent.filter(pl.col("retransmission") & (earlier > 0)).select(*flow, "seq", "enqueue_ns")
    # Where ACKs end is the other direction of the link on which data begin.
    first = data.select(*flow, ".first").unique(flow)
    other = (
        pl.when(pl.col(".first").str.ends_with(" (reverse)"))
        .then(pl.col(".first").str.strip_suffix(" (reverse)"))
        .otherwise(pl.col(".first") + " (reverse)")
    )
    acks = hops.lazy().filter((pl.col("kind") == "ack") & delivered).join(first, on=flow)
    acks = acks.filter(link == other).select(*flow, pl.col("ack").alias("seq"), "arrive_ns")
    heard = repeats.with_row_index(".repeat").join(acks, on=[*flow, "seq"])
    heard = heard.filter(pl.col("arrive_ns") <= pl.col("enqueue_ns")).group_by(*keys, ".repeat").len()
    # The first ACK of a number is no duplicate.
    fast = heard.filter(pl.col("len") - 1 >= DUPLICATES).group_by(keys).agg(pl.len().alias(FIGURE))
    runs = hops.lazy().select(keys).unique(maintain_order=True)
    counted = runs.join(fast, on=keys, how="left", maintain_order="left")
    return counted.with_columns(pl.col(FIGURE).fill_null(0).cast(pl.Float64)).collect()


def restarts(windows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Count falls of the congestion window to one segment or less: slow starts after the first."""
    now, before = pl.col("cwnd_segments"), pl.col(".before")
    return _of_runs(_steps(windows, keys), keys, ((now <= 1) & (before > 1)).sum())


def halvings(windows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Count cuts of the congestion window to between 0.4 and 0.8 of its value."""
    share = pl.col("cwnd_segments") / pl.col(".before")
    return _of_runs(_steps(windows, keys), keys, share.is_between(*HALVED).sum())


def _steps(windows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Return the windows, in the order of time, each with the one before it."""
    known = windows.drop_nulls("cwnd_segments")
    return known.with_columns(pl.col("cwnd_segments").shift(1).over([*keys, "flow"]).alias(".before"))


def throughput(series: pl.DataFrame, keys: Sequence[str], at: float = 0.0) -> pl.DataFrame:
    """Return the throughput in kbit/s of all flows together over time, from `at` on."""
    rows = series.lazy().filter(pl.col("time_s") > at)
    total = (pl.col("throughput_bit_s").list.sum() / 1e3).alias(FIGURE)
    return _gathered(rows, [*keys, "time_s"], "throughput_bit_s").select(*keys, "time_s", total).collect()


def throughput_max(series: pl.DataFrame, keys: Sequence[str], at: float = 0.0) -> pl.DataFrame:
    """Greatest value of `throughput`."""
    return _of_runs(throughput(series, keys, at).rename({FIGURE: "rate"}), keys, pl.col("rate").max())


def throughput_max_of_flow(series: pl.DataFrame, keys: Sequence[str], at: float = 0.0) -> pl.DataFrame:
    """Greatest value over time, from `at` on, of the mean throughput of a flow, in kbit/s."""
    rows = series.lazy().filter(pl.col("time_s") > at)
    mean = pl.col("throughput_bit_s").list.mean() / 1e3
    means = _gathered(rows, [*keys, "time_s"], "throughput_bit_s").with_columns(mean)
    return _of_runs(means.collect(), keys, pl.col("throughput_bit_s").max())


def duplicate_acks(hops: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Count ACKs that repeat the one before and reach the sender of the data."""
    acks = hops.lazy().filter((pl.col("kind") == "ack") & (pl.col("outcome") == "delivered"))
    # A packet reaches its end on the last of its links.
    last = acks.sort("arrive_ns", maintain_order=True).group_by(*keys, "flow", "packet", maintain_order=True)
    arrived = last.agg(pl.col("ack").last(), pl.col("arrive_ns").last(), pl.len().alias(".hops"))
    whole = arrived.filter(pl.col(".hops") == pl.col(".hops").max().over(*keys, "flow"))
    ordered = whole.sort("arrive_ns", maintain_order=True).collect()
    same = pl.col("ack") == pl.col("ack").shift(1).over([*keys, "flow"])
    return _of_runs(ordered.with_columns(same.alias(".same")), keys, pl.col(".same").sum())


def recovery_time(hops: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Mean time in s from the loss of data in the air until the same data reach the next node.

    The loss counts from when the lost packet came to its link; what is never repaired does not count.
    """
    data = hops.filter(pl.col("kind") == "data").select(*keys, "flow", "link", "seq", *TIMES, "outcome")
    place = [*keys, "flow", "link", "seq"]
    lost = data.filter(pl.col("outcome") == "channel-error").sort("enqueue_ns")
    came = data.filter(pl.col("outcome") == "delivered").select(*place, pl.col("arrive_ns").alias("repair"))
    pairs = lost.join_asof(
        came.sort("repair"),
        left_on="enqueue_ns",
        right_on="repair",
        by=place,
        strategy="forward",
        check_sortedness=False,
    )
    # Whole nanoseconds add up exactly.
    took = (pl.col("repair") - pl.col("enqueue_ns")).mean() / 1e9
    return _of_runs(pairs.drop_nulls("repair"), keys, took)


def ramp_time(series: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Time in s until the window is at 90 % of its mean over the second half, averaged over the flows."""
    time, window = pl.col("time_s"), pl.col("cwnd_segments")
    start, end = time.filter(pl.col("flight_segments") > 0).min(), time.max()
    steady = window.filter(time > (start + end) / 2).mean()
    up = time.filter((time >= start) & (window >= RAMPED * steady)).min()
    flows = series.lazy().drop_nulls("cwnd_segments").group_by(*keys, "flow", maintain_order=True)
    return _mean_of_runs(flows.agg((up - start).alias(".ramp")).collect(), keys, ".ramp")


def window_dip(series: pl.DataFrame, keys: Sequence[str], at: float) -> pl.DataFrame:
    """Share of the window that is lost within two seconds of a time, averaged over the flows.

    Of the smallest window in that time, against the one at its beginning; 0 if it only grew.
    """
    time, window = pl.col("time_s"), pl.col("cwnd_segments")
    before = window.filter(time <= at).last()
    after = window.filter((time > at) & (time <= at + AFTERMATH)).min()
    rows = series.lazy().drop_nulls("cwnd_segments").sort("time_s", maintain_order=True)
    flows = rows.group_by(*keys, "flow", maintain_order=True).agg((1 - after / before).clip(0).alias(".dip"))
    return _mean_of_runs(flows.collect(), keys, ".dip")


def cluster_gap(series: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Distance in s of the centres of the two largest clusters of RTT samples, averaged over the flows.

    K-means with three centres, which start at the least, the middle and the greatest of the latest 200
    samples; clusters of fewer than 5 % of them are sporadic and left out. Nothing where only one cluster is
    left.
    """
    rows = series.lazy().drop_nulls("rtt_s").sort("time_s", maintain_order=True)
    latest = pl.col("rtt_s").tail(CLUSTERED_SAMPLES)
    flows = rows.group_by(*keys, "flow", maintain_order=True).agg(latest).collect()
    gaps = [_gap_of_clusters(samples.to_numpy()) for samples in flows["rtt_s"]]
    found = flows.with_columns(pl.Series(".gap", gaps, dtype=pl.Float64).fill_nan(None))
    return _mean_of_runs(found, keys, ".gap")


def _gap_of_clusters(samples: Floats) -> float:
    enough = SPORADIC * len(samples)
    while len(samples) >= CLUSTERS:
        centres, nearest = _clustered(samples)
        sizes = np.bincount(nearest, minlength=CLUSTERS)
        sporadic = [at for at in range(CLUSTERS) if 0 < sizes[at] < enough]
        if not sporadic:
            kept = [at for at in np.argsort(-sizes) if sizes[at]]
            return abs(float(centres[kept[0]] - centres[kept[1]])) if len(kept) > 1 else math.nan
        # What is sporadic does not take a centre from the rest.
        samples = samples[~np.isin(nearest, sporadic)]
    return math.nan


def _clustered(samples: Floats) -> tuple[Floats, NDArray[np.intp]]:
    """Return the centres of the clusters, and the cluster of each sample."""
    centres = np.array([samples.min(), (samples.min() + samples.max()) / 2, samples.max()])
    nearest = np.zeros(len(samples), dtype=np.intp)
    for _ in range(MOST_ROUNDS):
        nearest = np.abs(samples[:, None] - centres[None, :]).argmin(axis=1)
        moved = np.array(
            [
                samples[nearest == at].mean() if np.any(nearest == at) else centres[at]
                for at in range(CLUSTERS)
            ]
        )
        if np.array_equal(moved, centres):
            break
        centres = moved
    return centres, nearest


FUNCTIONS: dict[str, Callable[..., pl.DataFrame]] = {
    "delay_mean": delay_mean,
    "delay_max": delay_max,
    "delay_min": delay_min,
    "spurious_fast_retransmits": spurious_fast_retransmits,
    "restarts": restarts,
    "halvings": halvings,
    "throughput": throughput,
    "throughput_max": throughput_max,
    "throughput_max_of_flow": throughput_max_of_flow,
    "duplicate_acks": duplicate_acks,
    "recovery_time": recovery_time,
    "ramp_time": ramp_time,
    "local_repairs": local_repairs,
    "cwnd_mean": cwnd_mean,
    "cwnd_flow_cv": cwnd_flow_cv,
    "cwnd_cv": cwnd_cv,
    "rtt_cv": rtt_cv,
    "rate_cv": rate_cv,
    "fixed_delays": fixed_delays,
    "jitter_forms_gap": jitter_forms_gap,
    "window_dip": window_dip,
    "cluster_gap": cluster_gap,
}
#: The columns that each needs.
COLUMNS = {
    "delay_mean": "packet link kind enqueue_ns arrive_ns outcome",
    "delay_max": "packet link kind enqueue_ns arrive_ns outcome",
    "delay_min": "packet link kind enqueue_ns arrive_ns outcome",
    "spurious_fast_retransmits": "packet flow link kind seq ack retransmission enqueue_ns arrive_ns outcome",
    "restarts": "flow cwnd_segments",
    "halvings": "flow cwnd_segments",
    "throughput": "flow time_s throughput_bit_s",
    "throughput_max": "flow time_s throughput_bit_s",
    "throughput_max_of_flow": "flow time_s throughput_bit_s",
    "duplicate_acks": "packet flow kind ack arrive_ns outcome",
    "recovery_time": "flow link kind seq enqueue_ns arrive_ns outcome",
    "ramp_time": "flow time_s cwnd_segments flight_segments",
    "local_repairs": "flow kind seq retransmission enqueue_ns outcome",
    "cwnd_mean": "flow time_s cwnd_segments",
    "cwnd_flow_cv": "flow time_s cwnd_segments",
    "cwnd_cv": "flow time_s cwnd_segments",
    "rtt_cv": "flow time_s rtt_s",
    "rate_cv": "flow time_s throughput_bit_s",
    "fixed_delays": "packet kind wire_bytes transmit_ns arrive_ns outcome",
    "jitter_forms_gap": "packet flow kind enqueue_ns arrive_ns outcome",
    "window_dip": "flow time_s cwnd_segments",
    "cluster_gap": "flow time_s rtt_s",
}
