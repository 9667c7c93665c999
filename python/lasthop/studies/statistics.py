"""Statistics of a study's results: means with intervals per point, and paired differences from a baseline.

Called by the figures, the report and `lasthop study show`. Reads the tidy table (one row per point and seed)
and returns tables. The estimates are those of `lasthop.stats` and `scipy.stats`: nothing is estimated here.
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from typing import TYPE_CHECKING, Any, TypeVar

from lasthop import stats
from lasthop.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    import polars as pl

    Key = tuple[Hashable, ...]

#: Share of the seeds that the trimmed mean leaves out at each end.
TRIMMED = 0.2
#: With fewer seeds nothing would be left out: there is no trimmed mean.
TRIMMED_FROM = 5
#: With fewer pairs the signed-rank test cannot reach 5 %, whatever the pairs are.
SIGNED_RANK_FROM = 6
#: With this many pairs or fewer, ties are tested exactly.
EXACT_TO = 13
#: Numbers in memory at once for that.
BATCH = 4_000_000
SIGNIFICANCE = 1 - stats.CONFIDENCE
#: Mean and trimmed mean closer than this share of a standard error of the mean agree: small counts have
#: trimmed intervals without width. One far outlier takes them apart by a whole one.
APART_FROM = 0.5
#: Differences of this relative size are rounding.
ROUNDING = 1e-9

#: Columns of the two tables behind those of the axes, and what they hold.
SUMMARY = {
    "metric": "String",
    "seeds": "Int64",
    "mean": "Float64",
    "low": "Float64",
    "high": "Float64",
    "sd": "Float64",
    "median": "Float64",
    "trimmed_mean": "Float64",
    "trimmed_low": "Float64",
    "trimmed_high": "Float64",
    "outliers": "Boolean",
    "same": "Boolean",
}
DIFFERENCES = {
    "metric": "String",
    "baseline": "String",
    "seeds": "Int64",
    "baseline_mean": "Float64",
    "difference": "Float64",
    "low": "Float64",
    "high": "Float64",
    "relative": "Float64",
    "relative_low": "Float64",
    "relative_high": "Float64",
    "median_difference": "Float64",
    "p_signed_rank": "Float64",
    "agrees": "Boolean",
    "better": "Boolean",
    "same": "Boolean",
    "verdict": "String",
}
Result = TypeVar("Result")


def summarise(
    table: pl.DataFrame, axes: Sequence[str], metrics: Sequence[str], *, robust: bool = True
) -> pl.DataFrame:
    """Mean, interval, spread and an outlier-safe estimate of every metric at every point.

    The mean has Student's t interval over the seeds, which are independent replications. The outlier-safe
    estimate is the 20 % trimmed mean with its own t interval from the Winsorised variance
    (`scipy.stats.mstats.trimmed_mean_ci`; Tukey and McLaughlin 1963): with ten seeds it leaves out the two
    smallest and the two largest. Of what scipy offers it suits ten seeds best: a bootstrap resamples the
    outlier along with the rest and is too narrow with so few values, and the interval of the median is two
    fifths wider than that of the mean and needs six seeds to exist at all. The trimmed one is wider by a
    seventh where nothing is amiss (normally distributed values, ten seeds).

    Parameters
    ----------
    table : polars.DataFrame
        One row per point and seed: the axes, ``seed``, the metrics, and ``state`` if runs may have failed.
    axes : sequence of str
        Columns that make a point.
    metrics : sequence of str
        Columns to summarise, each in its own unit.
    robust : bool
        Whether to work out the trimmed means, which cost most of the time.

    Returns
    -------
    polars.DataFrame
        One row per metric and point: the axes, ``metric``, ``seeds`` (how many have a value), ``mean`` with
        ``low`` and ``high``, ``sd``, ``median``, ``trimmed_mean`` with its ends, and ``outliers``: whether
        the mean lies outside the interval of the trimmed mean or the trimmed mean outside that of the mean,
        so that a few seeds make the mean. Of normally distributed values one point in five hundred is flagged
        by chance (ten seeds). ``same`` says whether all seeds gave the same run. What does not exist is null:
        intervals of one seed or of the same run, trimmed means of less than five.

    Raises
    ------
    ArgumentError
        An axis or a metric that the table does not have, or an axis with the name of a statistic.

    Examples
    --------
    >>> import polars as pl
    >>> table = pl.DataFrame({"n": [1, 1, 1], "seed": [1, 2, 3], "goodput": [1.0, 2.0, 3.0]})
    >>> summarise(table, ["n"], ["goodput"]).select("n", "metric", "seeds", "mean", "median").rows()
    [(1, 'goodput', 3, 2.0, 2.0)]
    """
    check_columns(table, axes, metrics, SUMMARY)
    points = _points(table, axes)
    rows: list[dict[str, Any]] = []
    for metric in metrics:
        samples = [finite(part[metric]) for part in points.values()]
        trimmed = _trimmed_means(samples) if robust else [None] * len(samples)
        for (key, part), values, safe in zip(points.items(), samples, trimmed, strict=True):
            row = _row(values, safe, same=_is_same(part))
            rows.append(dict(zip(axes, key, strict=True)) | {"metric": metric} | row)
    return _frame(rows, table, axes, SUMMARY)


def differences(
    table: pl.DataFrame,
    axes: Sequence[str],
    metrics: Mapping[str, bool | None],
    baseline: Mapping[str, Any],
) -> pl.DataFrame:
    """Differences from a baseline, seed by seed: the same seed means the same channel for both.

    The mean difference has a paired t interval. Wilcoxon's signed-rank test (`scipy.stats.wilcoxon`, exact
    for few seeds; pairs without any difference left out) is the outlier-safe second opinion: it looks at
    ranks only.

    Parameters
    ----------
    table : polars.DataFrame
        As for `summarise`.
    axes : sequence of str
        Columns that make a point.
    metrics : mapping
        For each metric whether higher is better; `None` where neither is.
    baseline : mapping
        For one axis or several, the value that the others are compared with; what the other axes say is kept.

    Returns
    -------
    polars.DataFrame
        One row per metric and point that is not a baseline: the axes, ``metric``, ``baseline``, ``seeds``
        (pairs), ``baseline_mean``, ``difference`` with ``low`` and ``high``, the same three ``relative`` to
        the baseline's mean (`lasthop.stats.relative_difference`), ``median_difference``, ``p_signed_rank``,
        ``agrees`` (whether the test and the interval say the same; null with fewer than six pairs, of which
        the test can say nothing), ``better`` (null if no difference is shown or neither direction is good),
        ``same`` (whether all seeds of both gave the same run) and ``verdict`` in words.

    Raises
    ------
    ArgumentError
        An axis or a metric that the table does not have, or a baseline that it has no runs of.
    """
    from lasthop.extras import pl

    check_columns(table, axes, [*metrics], DIFFERENCES)
    for axis, value in baseline.items():
        check_name("axis", axis, axes)
        if value not in table[axis].to_list():
            known = ", ".join(str(one) for one in table[axis].unique(maintain_order=True))
            raise ArgumentError(f"baseline {axis}={value} is not in the results: {axis} is one of {known}")
    named = ", ".join(f"{axis}={value}" for axis, value in baseline.items())
    points = _points(table, axes)
    compared: list[tuple[Key, Key]] = []
    for key in points:
        against = tuple(baseline.get(axis, value) for axis, value in zip(axes, key, strict=True))
        if against != key and against in points:
            compared.append((key, against))
    rows: list[dict[str, Any]] = []
    for metric, higher_is_better in metrics.items():
        pairs = [
            points[key]
            .select("seed", metric)
            .join(points[against].select("seed", pl.col(metric).alias("_baseline")), on="seed")
            .drop_nulls()
            .filter(pl.col(metric).is_finite() & pl.col("_baseline").is_finite())
            for key, against in compared
        ]
        changes = [(pair[metric] - pair["_baseline"]).to_list() for pair in pairs]
        probabilities = _signed_rank(changes)
        for (key, against), pair, change, probability in zip(
            compared, pairs, changes, probabilities, strict=True
        ):
            same = _is_same(points[key]) and _is_same(points[against])
            relative = stats.relative_difference(pair[metric].to_list(), pair["_baseline"].to_list())
            found = stats.estimate(change)
            rows.append(
                dict(zip(axes, key, strict=True))
                | {"metric": metric, "baseline": named, "baseline_mean": stats.mean(pair["_baseline"])}
                | _difference_row(
                    change,
                    found if found is None or not same else found.exact(),
                    relative if relative is None or not same else relative.exact(),
                    probability,
                    higher_is_better=higher_is_better,
                    same=same,
                )
            )
    return _frame(rows, table, axes, DIFFERENCES)


def check_name(kind: str, name: str, known: Iterable[str]) -> None:
    """Refuse a name that is not among the known ones, with the nearest."""
    import difflib

    names = list(known)
    if name in names:
        return
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "this study has"
    listed = ", ".join(names) or "none"
    raise ArgumentError(f"unknown {kind} {name!r}: {hint} {f'known: {listed}' if near else listed}")


def check_columns(
    table: pl.DataFrame, axes: Sequence[str], metrics: Sequence[str], taken: Iterable[str] = ()
) -> None:
    """Refuse axes and metrics that the table lacks, and axes called like a column of the result."""
    columns = [name for name in table.columns if name != "seed"]
    for axis in axes:
        check_name("axis", axis, columns)
        if axis in taken:
            raise ArgumentError(f"axis {axis!r} has the name of a statistic: rename it in the study file")
    for metric in metrics:
        check_name("metric", metric, columns)


def finished(table: pl.DataFrame) -> pl.DataFrame:
    """Rows of the runs that did not fail."""
    from lasthop.extras import pl

    return table.filter(pl.col("state") == "done") if "state" in table.columns else table


def finite(values: Iterable[float | None]) -> list[float]:
    """Return the values that exist and are finite."""
    return [float(value) for value in values if value is not None and math.isfinite(value)]


def seeds_text(counts: Iterable[int]) -> str:
    """Say how many seeds there are per point.

    Examples
    --------
    >>> seeds_text([10, 10]), seeds_text([7, 10]), seeds_text([1])
    ('10 seeds', '7 to 10 seeds', 'one seed')
    """
    numbers = sorted(set(counts)) or [0]
    if numbers == [1]:
        return "one seed"
    if len(numbers) == 1:
        return f"{numbers[0]} seeds"
    return f"{numbers[0]} to {numbers[-1]} seeds"


def _points(table: pl.DataFrame, axes: Sequence[str]) -> dict[Key, pl.DataFrame]:
    """Return the rows of each point, in the table's order; values of failed runs are missing."""
    from lasthop.extras import pl

    if "state" in table.columns:
        done = pl.col("state") == "done"
        others = [name for name in table.columns if name not in {*axes, "seed", "state"}]
        table = table.with_columns(pl.when(done).then(pl.col(others)))
    if not axes:
        return {(): table}
    return table.partition_by(list(axes), as_dict=True, maintain_order=True)


def _is_same(rows: pl.DataFrame) -> bool:
    """Whether the seeds of a point gave one and the same run: nothing in it is random."""
    if "fingerprint" not in rows.columns:
        return False
    known = rows["fingerprint"].drop_nulls()
    return len(known) > 1 and known.n_unique() == 1


def _row(values: list[float], trimmed: stats.Estimate | None, *, same: bool) -> dict[str, Any]:
    from statistics import median, stdev

    mean = stats.estimate(values)
    if mean is not None and same:
        mean, trimmed = mean.exact(), None
    return {
        "seeds": len(values),
        "mean": None if mean is None else mean.mean,
        "low": None if mean is None else mean.low,
        "high": None if mean is None else mean.high,
        "sd": stdev(values) if len(values) > 1 else None,
        "median": median(values) if values else None,
        "trimmed_mean": None if trimmed is None else trimmed.mean,
        "trimmed_low": None if trimmed is None else trimmed.low,
        "trimmed_high": None if trimmed is None else trimmed.high,
        "outliers": None if mean is None or trimmed is None else _disagree(mean, trimmed, stdev(values)),
        "same": same,
    }


def _disagree(mean: stats.Estimate, trimmed: stats.Estimate, deviation: float) -> bool:
    """Whether one of the two lies outside the interval of the other, and not by a trifle."""
    apart = abs(mean.mean - trimmed.mean)
    if apart < APART_FROM * deviation / math.sqrt(mean.n) or apart <= ROUNDING * abs(mean.mean):
        return False
    return any(apart > (one.half_width or 0.0) for one in (mean, trimmed))


def _trimmed_means(samples: Sequence[list[float]]) -> list[stats.Estimate | None]:
    """Return the trimmed mean of each sample, worked out for all samples of one size at once."""
    from lasthop.extras import scipy

    def work(group: list[list[float]]) -> list[stats.Estimate | None]:
        lows, highs = scipy.stats.mstats.trimmed_mean_ci(
            group, limits=(TRIMMED, TRIMMED), alpha=1 - stats.CONFIDENCE, axis=1
        )
        return [
            stats.Estimate((low + high) / 2, low, high, len(sample))
            for sample, low, high in zip(group, lows.tolist(), highs.tolist(), strict=True)
        ]

    return _in_groups(samples, lambda sample: len(sample) if len(sample) >= TRIMMED_FROM else None, work)


def _signed_rank(changes: Sequence[list[float]]) -> list[float | None]:
    """Return the two-sided p value of each list of differences; `None` where nothing can be tested."""
    from lasthop.extras import np, scipy

    def work(group: list[list[float]]) -> list[float | None]:
        sample = np.asarray(group)
        if _is_tied(group[0]) and len(group[0]) <= EXACT_TO:
            # What `wilcoxon` does for ties too, row by row: a thousand times as long.
            ranks = scipy.stats.rankdata(np.abs(sample), axis=-1) * np.sign(sample)
            found: Any = scipy.stats.permutation_test(
                (ranks,),
                lambda signed, axis: signed.sum(axis=axis),
                permutation_type="samples",
                vectorized=True,
                n_resamples=2**EXACT_TO,
                batch=max(1, BATCH // sample.size),
                axis=-1,
            )
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = scipy.stats.wilcoxon(sample, axis=-1)
        return [float(value) for value in np.atleast_1d(found.pvalue)]

    differing = [[change for change in sample if change] for sample in changes]

    def group_of(sample: list[float]) -> tuple[int, bool] | None:
        # scipy takes the exact distribution for a whole group or for none: ties go apart.
        return (len(sample), _is_tied(sample)) if sample else None

    found = _in_groups(differing, group_of, work)
    # No pair differs at all: nothing could speak less for a difference.
    return [1.0 if sample and value is None else value for sample, value in zip(changes, found, strict=True)]


def _is_tied(sample: Sequence[float]) -> bool:
    return len({abs(value) for value in sample}) < len(sample)


def _in_groups(
    samples: Sequence[list[float]],
    group_of: Callable[[list[float]], Hashable],
    work: Callable[[list[list[float]]], list[Result | None]],
) -> list[Result | None]:
    """Apply a function to samples of one kind together; samples of kind `None` have no result."""
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for place, sample in enumerate(samples):
        groups[group_of(sample)].append(place)
    groups.pop(None, None)
    results: list[Result | None] = [None] * len(samples)
    for places in groups.values():
        for place, result in zip(places, work([samples[place] for place in places]), strict=True):
            results[place] = result
    return results


def _difference_row(
    change: list[float],
    found: stats.Estimate | None,
    relative: stats.Estimate | None,
    probability: float | None,
    *,
    higher_is_better: bool | None,
    same: bool,
) -> dict[str, Any]:
    from statistics import median

    shown = found is not None and found.excludes_zero()
    better = None
    if found is not None and shown and higher_is_better is not None:
        better = (found.mean > 0) == higher_is_better
    agrees = None
    if probability is not None and len(change) >= SIGNED_RANK_FROM and not same:
        agrees = (probability < SIGNIFICANCE) == shown
    return {
        "seeds": len(change),
        "difference": None if found is None else found.mean,
        "low": None if found is None else found.low,
        "high": None if found is None else found.high,
        "relative": None if relative is None else relative.mean,
        "relative_low": None if relative is None else relative.low,
        "relative_high": None if relative is None else relative.high,
        "median_difference": median(change) if change else None,
        "p_signed_rank": None if same else probability,
        "agrees": agrees,
        "better": better,
        "same": same,
        "verdict": _verdict(found, better=better, same=same),
    }


def _verdict(found: stats.Estimate | None, *, better: bool | None, same: bool) -> str:
    if found is None:
        return "no pairs"
    if found.n == 1:
        return "one seed cannot tell"
    if found.mean == 0 and found.low == found.high:
        return "an exact tie"
    if same or not found.excludes_zero():
        return stats.SAME if same else "no difference shown"
    if better is None:
        return "higher" if found.mean > 0 else "lower"
    return "better" if better else "worse"


def _frame(
    rows: list[dict[str, Any]], table: pl.DataFrame, axes: Sequence[str], types: Mapping[str, str]
) -> pl.DataFrame:
    from lasthop.extras import pl

    schema = {axis: table.schema[axis] for axis in axes}
    return pl.DataFrame(rows, schema=schema | {name: getattr(pl, kind) for name, kind in types.items()})
