"""Compares transports over the same channels: means, paired differences, and verdicts in plain words.

Called by `lasthop.compare` and `lasthop compare`. Named so because `lasthop.compare` is the function.
"""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lasthop import stats
from lasthop.errors import ArgumentError, ScenarioError
from lasthop.runner import Job, Snapshot, run_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    import polars as pl

    from lasthop.api import Scenario
    from lasthop.stats import Estimate


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure per run that transports are compared by.

    Attributes
    ----------
    key : str
        Name in JSON and tables, with its unit.
    label : str
        Name for people.
    unit : str
        Unit of the values; empty for a plain number.
    higher_is_better : bool
        Which direction is good.
    more, less : str
        How to say that one is above (below) the other by ``{}``.
    optional : bool
        Left out where no run has it.
    """

    key: str
    label: str
    unit: str
    higher_is_better: bool
    more: str
    less: str
    optional: bool = False


METRICS = (
    Metric(
        key="goodput_bit_s",
        label="goodput",
        unit="bit/s",
        higher_is_better=True,
        more="carries {} more",
        less="carries {} less",
    ),
    Metric(
        key="jain_index",
        label="Jain index",
        unit="",
        higher_is_better=True,
        more="shares {} more evenly",
        less="shares {} less evenly",
    ),
    Metric(
        key="retransmitted_packets",
        label="retransmissions",
        unit="packets",
        higher_is_better=False,
        more="retransmits {} more",
        less="retransmits {} less",
    ),
    Metric(
        key="timeouts",
        label="timeouts",
        unit="",
        higher_is_better=False,
        more="has {} more timeouts",
        less="has {} fewer timeouts",
    ),
    Metric(
        key="rtt_mean_s",
        label="mean RTT",
        unit="s",
        higher_is_better=False,
        more="has a mean RTT {} longer",
        less="has a mean RTT {} shorter",
    ),
    Metric(
        key="delay_p95_s",
        label="p95 one-way delay",
        unit="s",
        higher_is_better=False,
        more="has a p95 delay {} longer",
        less="has a p95 delay {} shorter",
    ),
    Metric(
        key="bottleneck_avg_queue_packets",
        label="mean bottleneck queue",
        unit="packets",
        higher_is_better=False,
        more="keeps the bottleneck queue {} longer",
        less="keeps the bottleneck queue {} shorter",
    ),
    Metric(
        key="realtime_index",
        label="real-time index",
        unit="",
        higher_is_better=True,
        more="delivers {} more packets in time",
        less="delivers {} fewer packets in time",
        optional=True,
    ),
    Metric(
        key="stall_share",
        label="share of time stalled",
        unit="",
        higher_is_better=False,
        more="stands still {} longer",
        less="stands still {} shorter",
        optional=True,
    ),
)

DECIMALS_MAX = 4
METRIC_BY_KEY = {metric.key: metric for metric in METRICS}


@dataclass(frozen=True, slots=True)
class Mean:
    """Mean of one metric over the seeds of one transport."""

    metric: Metric
    transport: str
    estimate: Estimate | None


@dataclass(frozen=True, slots=True)
class Difference:
    """How one transport differs from the baseline in one metric, seed by seed."""

    metric: Metric
    transport: str
    baseline: str
    estimate: Estimate | None
    baseline_mean: float | None

    @property
    def relative(self) -> Estimate | None:
        """The difference as a fraction of the baseline's mean; `None` where that is zero."""
        if self.estimate is None or not self.baseline_mean:
            return None
        return self.estimate.scaled(1 / self.baseline_mean)

    @property
    def better(self) -> bool | None:
        """Whether the transport is shown to be better (worse: `False`); `None` if no difference is shown."""
        if self.estimate is None or not self.estimate.excludes_zero():
            return None
        return (self.estimate.mean > 0) == self.metric.higher_is_better

    @property
    def verdict(self) -> str:
        """The difference in plain words.

        Examples
        --------
        >>> from lasthop.stats import Estimate
        >>> goodput = METRIC_BY_KEY["goodput_bit_s"]
        >>> Difference(goodput, "vegas", "reno", Estimate(-12.0, -14.0, -10.0, 10), 100.0).verdict
        'vegas carries 12 % less than reno (-14..-10 %)'
        >>> Difference(goodput, "sack", "reno", Estimate(1.0, -2.0, 4.0, 10), 100.0).verdict
        'no difference shown between sack and reno in goodput (-2.0..+4.0 %)'
        """
        about = f"between {self.transport} and {self.baseline} in {self.metric.label}"
        if self.estimate is None:
            return f"no values to compare {about}"
        if self.estimate.n == 1:
            return f"one seed cannot show a difference {about}: use more seeds"
        amount, interval = self._texts()
        if self.estimate.low == self.estimate.high == 0:
            return f"no difference at all {about}"
        if not self.estimate.excludes_zero():
            return f"no difference shown {about} ({interval})"
        words = self.metric.more if self.estimate.mean > 0 else self.metric.less
        return f"{self.transport} {words.format(amount)} than {self.baseline} ({interval})"

    @property
    def interval_text(self) -> str:
        """The interval alone, relative if possible."""
        if self.estimate is None or self.estimate.low is None:
            return "-"
        return self._texts()[1]

    def _texts(self) -> tuple[str, str]:
        """Return the amount and the interval; per cent of the baseline if that is not zero."""
        relative = self.relative
        shown, unit = (self.estimate, self.metric.unit) if relative is None else (relative.scaled(100), "%")
        assert shown is not None  # noqa: S101 - callers have looked
        low = shown.mean if shown.low is None else shown.low
        high = shown.mean if shown.high is None else shown.high
        decimals = _decimals(low, high)
        tail = f" {unit}" if unit else ""
        return f"{abs(shown.mean):.{decimals}f}{tail}", f"{low:+.{decimals}f}..{high:+.{decimals}f}{tail}"


def _decimals(low: float, high: float) -> int:
    """Decimals that show about two digits of the larger end, and that neither end is zero."""
    larger = max(abs(low), abs(high))
    decimals = 0 if larger >= 10 else 1 if larger >= 1 else 2  # noqa: PLR2004 - two digits
    while decimals < DECIMALS_MAX and any(end and round(end, decimals) == 0 for end in (low, high)):
        decimals += 1
    return decimals


class Comparison:
    """Transports compared over the same channels.

    Attributes
    ----------
    runs : dict
        For each transport, the records of its runs, one per seed.
    baseline : str
        The transport that the others are compared with.

    Examples
    --------
    >>> import lasthop as lh
    >>> result = lh.compare(lh.Scenario(lh.EXAMPLE), ["reno", "vegas"], seeds=range(1, 5))
    >>> len(result.verdicts)
    7
    >>> result.differences.height
    7
    """

    def __init__(
        self,
        scenario: Mapping[str, Any],
        engine_version: str,
        runs: Mapping[str, Sequence[Mapping[str, Any]]],
        baseline: str,
    ) -> None:
        self.scenario = dict(scenario)
        self.engine_version = engine_version
        self.runs = {transport: list(records) for transport, records in runs.items()}
        self.baseline = baseline
        self.bottleneck = bottleneck_name(self.runs[baseline])
        self._values = {
            (transport, metric.key): [metric_value(record, metric.key, self.bottleneck) for record in records]
            for transport, records in self.runs.items()
            for metric in METRICS
        }

    @property
    def metrics(self) -> list[Metric]:
        """The metrics that these runs have."""
        return [metric for metric in METRICS if not metric.optional or self._has(metric)]

    def _has(self, metric: Metric) -> bool:
        values = (self.values(transport, metric.key) for transport in self.transports)
        return any(value is not None for one in values for value in one)

    @property
    def transports(self) -> list[str]:
        """The transports, in the order asked for."""
        return list(self.runs)

    @property
    def seeds(self) -> list[int]:
        """The seeds that every transport ran with."""
        return [record["seed"] for record in self.runs[self.baseline]]

    def values(self, transport: str, metric: str) -> list[float | None]:
        """Return the values of one metric, one per seed."""
        return self._values[transport, metric]

    def list_means(self) -> list[Mean]:
        """Return the mean of every metric for every transport."""
        return [
            Mean(metric, transport, stats.estimate(self.values(transport, metric.key)))
            for metric in self.metrics
            for transport in self.transports
        ]

    def list_differences(self) -> list[Difference]:
        """Return the paired difference of every metric for every transport but the baseline."""
        return [
            Difference(
                metric,
                transport,
                self.baseline,
                stats.paired_difference(
                    self.values(transport, metric.key), self.values(self.baseline, metric.key)
                ),
                stats.mean(self.values(self.baseline, metric.key)),
            )
            for metric in self.metrics
            for transport in self.transports
            if transport != self.baseline
        ]

    @property
    def means(self) -> pl.DataFrame:
        """One row per metric and transport: mean over seeds and its 95 % interval."""
        from lasthop.results import frame

        return frame(_mean_row(mean) for mean in self.list_means())

    @property
    def differences(self) -> pl.DataFrame:
        """One row per metric and transport: paired difference from the baseline, 95 % interval, verdict."""
        from lasthop.results import frame

        return frame(_difference_row(difference) for difference in self.list_differences())

    @property
    def verdicts(self) -> list[str]:
        """One sentence per metric and transport."""
        return [difference.verdict for difference in self.list_differences()]

    def to_dict(self) -> dict[str, Any]:
        """Return everything, as ``lasthop compare --json`` prints it."""
        return {
            "scenario": self.scenario,
            "engine_version": self.engine_version,
            "baseline": self.baseline,
            "transports": self.transports,
            "seeds": self.seeds,
            "bottleneck": self.bottleneck,
            "means": [_mean_row(mean) for mean in self.list_means()],
            "differences": [_difference_row(difference) for difference in self.list_differences()],
            "runs": [
                {"transport": transport} | dict(record)
                for transport, records in self.runs.items()
                for record in records
            ],
        }

    def to_json(self) -> str:
        """Return the same object as JSON text."""
        return json.dumps(self.to_dict())

    def plot(self, *paths: str | Path) -> None:
        """Draw a panel per metric with a bar per transport; each path's ending chooses the format."""
        from lasthop.plot import plot_comparison

        plot_comparison(self, *paths)

    def save(self, folder: str | Path, table_format: str = "parquet") -> None:
        """Write the folder that ``lasthop compare --out`` writes."""
        from lasthop.output import save_comparison

        save_comparison(self, folder, table_format)

    def __repr__(self) -> str:
        from lasthop.tables import render_comparison

        return render_comparison(self)

    def _repr_html_(self) -> str:
        sentences = "".join(f"<li>{html.escape(verdict)}</li>" for verdict in self.verdicts)
        return f"{self.means._repr_html_()}<ul>{sentences}</ul>"


def metric_value(record: Mapping[str, Any], key: str, bottleneck: str) -> float | None:
    """Value of one metric in one run.

    RTT and delay are means over the flows of each flow's own figure: every flow counts alike.
    """
    if key in ("rtt_mean_s", "delay_p95_s"):
        return stats.mean(flow[key] for flow in record["flows"])
    if key == "bottleneck_avg_queue_packets":
        queues = [link["avg_queue_packets"] for link in record["links"] if link["name"] == bottleneck]
        return queues[0] if queues else None
    value = record["totals"].get(key) if METRIC_BY_KEY[key].optional else record["totals"][key]
    return None if value is None else float(value)


def bottleneck_name(records: Sequence[Mapping[str, Any]]) -> str:
    """Name of the link whose queue is compared: ``bottleneck`` if there is one, else the busiest."""
    busy: dict[str, float] = {}
    for record in records:
        for link in record["links"]:
            busy[link["name"]] = busy.get(link["name"], 0.0) + (link["utilisation"] or 0.0)
    return "bottleneck" if "bottleneck" in busy else max(busy, key=lambda name: busy[name], default="")


def transport_overrides(scenario: Mapping[str, Any], transport: str) -> dict[str, str]:
    """Return the overrides that give every flow that is not UDP the transport.

    Examples
    --------
    >>> transport_overrides({"flows": [{"transport": "reno"}, {"transport": "udp"}]}, "vegas")
    {'flows.0.transport': 'vegas'}
    """
    return {
        f"flows.{index}.transport": transport
        for index, flow in enumerate(scenario["flows"])
        if flow.get("transport") != "udp"
    }


def compare_transports(
    scenario: Scenario,
    transports: list[str],
    seeds: list[int],
    baseline: str | None,
    jobs: int | None,
    observer: Callable[[Snapshot], None] | None,
) -> Comparison:
    """Run every transport with every seed and compare; see `lasthop.compare`."""
    from lasthop.api import collect, raise_if_ended_early

    baseline = check_transports(transports, baseline)
    overrides = transport_overrides(scenario.to_dict(), baseline)
    if not overrides:
        raise ScenarioError(
            f"scenario {scenario.name!r} has UDP flows only: there is no transport to compare"
        )
    variants = [_with_transport(scenario, list(overrides), transport) for transport in transports]
    known = scenario.read_history()
    plans = [variant.plan.with_history(known) if known else variant.plan for variant in variants]
    # Seed by seed, so that runs that meet the same channel are made about the same time.
    outcome = run_jobs([Job(plan, seed) for seed in seeds for plan in plans], workers=jobs, observer=observer)
    if outcome.failure is not None or outcome.interrupted:
        finished = collect(scenario, outcome)
        total = len(seeds) * len(transports)
        raise_if_ended_early(outcome, finished, f"{len(finished)} of {total} runs finished, nothing compared")
    records = [result.record for result in outcome.results if result is not None]
    runs = {name: records[index :: len(transports)] for index, name in enumerate(transports)}
    from lasthop import _native

    return Comparison(scenario.to_dict(), _native.__version__, runs, baseline)


def _with_transport(scenario: Scenario, keys: list[str], transport: str) -> Scenario:
    try:
        return scenario.replace(dict.fromkeys(keys, transport))
    except ScenarioError as error:
        # The diagnostic names the override; the user wrote an option.
        text = str(error).replace(f"--set {keys[0]}={transport}", f"--transport {transport}")
        raise ScenarioError(text) from None


def check_transports(transports: Iterable[str], baseline: str | None) -> str:
    """Return the baseline; there must be two transports or more, each once, and the baseline among them."""
    names = list(transports)
    twice = next((name for index, name in enumerate(names) if name in names[:index]), None)
    if twice is not None:
        raise ArgumentError(f"transport {twice!r} is given twice")
    if len(names) < 2:  # noqa: PLR2004 - a comparison takes two
        raise ArgumentError("give at least two transports to compare, such as reno,vegas")
    if baseline is not None and baseline not in names:
        raise ArgumentError(f"baseline {baseline!r} is not among the transports {', '.join(names)}")
    return names[0] if baseline is None else baseline


def _mean_row(mean: Mean) -> dict[str, Any]:
    row = {"metric": mean.metric.key, "unit": mean.metric.unit, "transport": mean.transport}
    return row | _estimate_columns("mean", mean.estimate)


def _difference_row(difference: Difference) -> dict[str, Any]:
    relative = difference.relative
    return (
        {
            "metric": difference.metric.key,
            "unit": difference.metric.unit,
            "transport": difference.transport,
            "baseline": difference.baseline,
        }
        | _estimate_columns("difference", difference.estimate)
        | {
            "relative_difference": None if relative is None else relative.mean,
            "relative_low": None if relative is None else relative.low,
            "relative_high": None if relative is None else relative.high,
            "better": difference.better,
            "verdict": difference.verdict,
        }
    )


def _estimate_columns(name: str, value: Estimate | None) -> dict[str, float | int | None]:
    if value is None:
        return {name: None, "low": None, "high": None, "n": 0}
    return {name: value.mean, "low": value.low, "high": value.high, "n": value.n}
