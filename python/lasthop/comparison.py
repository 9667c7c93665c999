"""Compares transports, and helpers in the network: means, paired differences, verdicts in plain words.

Called by `lasthop.compare` and `lasthop compare`. Named so because `lasthop.compare` is the function.
"""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from lasthop import _native, stats
from lasthop.columns import AT, compared, known_names, matching, named, named_at, nearest, on_demand
from lasthop.errors import ArgumentError, RunError, ScenarioError
from lasthop.laws import find as find_law
from lasthop.laws import of_scenario
from lasthop.quantities import quantity
from lasthop.records import bottleneck_name, is_same, metric_value
from lasthop.runner import Finished, Job, Outcome, Snapshot, run_jobs
from lasthop.shown import OverTime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    import polars as pl
    from rich.console import RenderableType

    from lasthop._native import ArrowTable
    from lasthop.arrow import Table
    from lasthop.columns import Metric
    from lasthop.drawing import Picture
    from lasthop.laws import Promise
    from lasthop.scenario import Scenario
    from lasthop.stats import Estimate

#: Large tables that a comparison may carry.
SERIES = tuple(name for name, switch in on_demand().items() if switch == "series")
#: No helper in the network.
NO_HELPER = "none"
#: A bottleneck that is this much less busy than another is idle beside it.
IDLE = 0.5


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
    #: The same as a fraction of the baseline's mean; `None` where that is not shown to differ from zero.
    relative: Estimate | None
    #: All seeds of both gave the same run: the difference is what it is.
    same: bool = False

    @property
    def better(self) -> bool | None:
        """Whether the transport is shown to be better (worse: `False`); `None` if no difference is shown.

        Where all seeds gave the same run there is nothing to be shown: the difference is what it is.
        """
        if self.estimate is None or not self.estimate.excludes_zero():
            return None
        if self.metric.higher_is_better is None:
            return None
        return (self.estimate.mean > 0) == self.metric.higher_is_better

    @property
    def verdict(self) -> str:
        """The difference in plain words.

        Examples
        --------
        >>> from lasthop.stats import Estimate
        >>> goodput = named("goodput_bit_s")
        >>> lower, equal = Estimate(-0.12, -0.14, -0.10, 10), Estimate(0.01, -0.02, 0.04, 10)
        >>> Difference(goodput, "vegas", "reno", lower.scaled(1e6), lower).verdict
        'vegas carries 12 % less than reno (-14..-10 %)'
        >>> Difference(goodput, "sack", "reno", equal.scaled(1e6), equal).verdict
        'no difference shown between sack and reno in goodput (-2.0..+4.0 %)'
        >>> again, more = named("retransmitted_share"), Estimate(5.1, 4.4, 6.0, 10)
        >>> Difference(again, "reno", "snoop", more.scaled(0.01), more).verdict
        'reno retransmits 6.1 times as much per packet as snoop (5.4..7.0 times)'
        >>> Difference(goodput, "sack", "reno", equal.scaled(0), equal.scaled(0)).verdict
        'an exact tie between sack and reno in goodput'
        """
        return self._texts[0]

    @property
    def interval_text(self) -> str:
        """The interval alone, relative if possible; the difference itself if all seeds gave the same run."""
        return self._texts[1]

    @property
    def _texts(self) -> tuple[str, str]:
        """Return the verdict and the interval, as the page says them too."""
        metric = self.metric
        words = (metric.label, metric.unit, metric.share, metric.more, metric.less, metric.times)
        given = [
            None if one is None else (one.mean, one.low, one.high, one.n)
            for one in (self.estimate, self.relative)
        ]
        return _native.verdict(words, (self.transport, self.baseline), given[0], given[1], self.same)


@dataclass(frozen=True, slots=True)
class Axes:
    """Senders times helpers in the network, each pair of them one of what is compared.

    Attributes
    ----------
    senders : tuple of str
        Transports; empty if flows keep those of the scenario.
    helpers : tuple of str
        Helpers, or several that go together, such as ``fec+snoop``; ``none`` for none.
    """

    senders: tuple[str, ...]
    helpers: tuple[str, ...]

    def label(self, sender: str, helper: str) -> str:
        """Return what a pair is called.

        Examples
        --------
        >>> Axes(("reno",), ("none", "snoop")).label("reno", "snoop")
        'reno+snoop'
        """
        if not sender:
            return helper
        return sender if helper == NO_HELPER else f"{sender}+{helper}"

    def pairs(self) -> list[tuple[str, str]]:
        """Every sender with every helper."""
        return [(sender, helper) for sender in self.senders or ("",) for helper in self.helpers]


@dataclass(frozen=True, slots=True)
class Promises:
    """The predictions of a model for everything compared, from the scenario alone.

    Attributes
    ----------
    law : str
        One of `lasthop.laws.LAWS`.
    said : dict
        For each transport, or pair of transport and helper, the flows for which the model has a prediction.
    """

    law: str
    said: dict[str, dict[str, Promise]]

    def to_dict(self) -> dict[str, Any]:
        """Return it as ``comparison.json`` has it."""
        return {
            "name": self.law,
            "said": {
                transport: {flow: asdict(promise) for flow, promise in flows.items()}
                for transport, flows in self.said.items()
            },
        }

    @classmethod
    def of_dict(cls, content: Mapping[str, Any]) -> Promises:
        """Read what `to_dict` wrote."""
        from lasthop.laws import Promise

        return cls(
            content["name"],
            {
                transport: {flow: Promise(**promise) for flow, promise in flows.items()}
                for transport, flows in content["said"].items()
            },
        )

    def of_metric(self, transport: str, metric: Metric) -> float | None:
        """Return the prediction for a metric; `None` unless it is of goodput."""
        from lasthop.laws import of_metric

        return of_metric(self.said.get(transport, {}), metric)


class Comparison(OverTime):
    """Transports compared over the same channels, with and without helpers in the network.

    Attributes
    ----------
    runs : dict
        For each transport, the records of its runs, one per seed. With helpers, for each pair of transport
        and helper, such as ``reno+snoop``.
    baseline : str
        The transport that the others are compared with.
    axes : Axes or None
        The senders and helpers, if helpers are compared.
    promises : Promises or None
        The predictions of a model, if one was requested.

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
        metrics: Sequence[Metric] | None = None,
        series: Mapping[str, Callable[[], Table]] | None = None,
        axes: Axes | None = None,
    ) -> None:
        super().__init__()
        #: How to get each table over time, and those that were.
        self._series = dict(series or {})
        self._known: dict[str, Table] = {}
        self.scenario = dict(scenario)
        self.engine_version = engine_version
        self.runs = {transport: list(records) for transport, records in runs.items()}
        self.baseline = baseline
        self.axes = axes
        self.promises: Promises | None = None
        self.bottleneck = bottleneck_name(self.runs[baseline])
        #: Asked for by name: these are shown even where no run has them.
        self._asked = metrics is not None
        self._wanted = [
            one.at(one.link or self.bottleneck) for one in (compared() if metrics is None else metrics)
        ]
        self._values = {
            (transport, metric.name): [metric_value(record, metric, self.bottleneck) for record in records]
            for transport, records in self.runs.items()
            for metric in self._wanted
        }

    @property
    def same(self) -> bool:
        """Whether all seeds of each transport gave the same run: nothing in the scenario is random."""
        return len(self.seeds) > 1 and all(map(is_same, self.runs.values()))

    @property
    def of_baseline(self) -> str:
        """Say whose the mean of the baseline is."""
        return "without a helper" if self.baseline == NO_HELPER else f"of {self.baseline}"

    @property
    def metrics(self) -> list[Metric]:
        """The metrics asked for; if none was, those of the usual ones that these runs have."""
        return [one for one in self._wanted if self._asked or self._has(one)]

    def _has(self, metric: Metric) -> bool:
        # A flow that is alone shares with none.
        if metric.field == "jain_index" and all(
            len(record["flows"]) < 2  # noqa: PLR2004 - it takes two to share
            for records in self.runs.values()
            for record in records
        ):
            return False
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

    def estimate(self, transport: str, metric: Metric) -> Estimate | None:
        """Return the mean of a metric for a transport, without interval if all seeds gave the same run."""
        found = stats.estimate(self.values(transport, metric.name))
        return found.exact() if found is not None and self.same else found

    def list_means(self) -> list[Mean]:
        """Return the mean of every metric for every transport."""
        return [
            Mean(metric, transport, self.estimate(transport, metric))
            for metric in self.metrics
            for transport in self.transports
        ]

    def list_differences(self) -> list[Difference]:
        """Return the paired difference of every metric for every transport but the baseline."""
        return [
            self.difference(metric, transport, self.baseline)
            for metric in self.metrics
            for transport in self.transports
            if transport != self.baseline
        ]

    def difference(self, metric: Metric, transport: str, baseline: str) -> Difference:
        """Return how a transport differs from any other in a metric, seed by seed."""
        pair = self.values(transport, metric.name), self.values(baseline, metric.name)
        found, relative = stats.paired_difference(*pair), stats.relative_difference(*pair)
        if self.same:
            found, relative = found and found.exact(), relative and relative.exact()
        return Difference(metric, transport, baseline, found, relative, self.same)

    @property
    def has_matrix(self) -> bool:
        """Whether several senders are compared with several helpers."""
        return self.axes is not None and len(self.axes.senders) > 1 and len(self.axes.helpers) > 1

    @property
    def means(self) -> pl.DataFrame:
        """One row per metric and transport: mean over seeds and its 95 % interval."""
        return self._frame("means")

    @property
    def differences(self) -> pl.DataFrame:
        """One row per metric and transport: paired difference from the baseline, 95 % interval, verdict."""
        return self._frame("differences")

    @property
    def verdicts(self) -> list[str]:
        """One sentence per metric and transport."""
        return [difference.verdict for difference in self.list_differences()]

    @property
    def idle(self) -> list[str]:
        """Say of which transports delays and queues are short because they leave the bottleneck idle."""
        share = named("utilisation")
        if share is None:
            return []
        busy = {
            name: stats.mean(metric_value(record, share, self.bottleneck) for record in records)
            for name, records in self.runs.items()
        }
        told = {}
        for difference in self.list_differences():
            metric = difference.metric
            waits = metric.unit == "s" or "queue" in metric.field
            if difference.better is None or metric.higher_is_better is not False or not waits:
                continue
            pair = (difference.transport, difference.baseline)
            short, long = pair if difference.better else pair[::-1]
            few, many = busy[short], busy[long]
            if few is not None and many is not None and few < IDLE * many:
                told[short] = (
                    f"{short} keeps {self.bottleneck} {quantity(few, 'share')} busy, {long} "
                    f"{quantity(many, 'share')}: delays and queues are shorter there because less is sent."
                )
        return list(told.values())

    def to_dict(self) -> dict[str, Any]:
        """Return everything, as ``lasthop compare --json`` prints it."""
        return {
            "scenario": self.scenario,
            "engine_version": self.engine_version,
            "baseline": self.baseline,
            "transports": self.transports,
            **(
                {"senders": list(self.axes.senders), "helpers": list(self.axes.helpers)}
                if self.axes is not None
                else {}
            ),
            **({} if self.promises is None else {"law": self.promises.to_dict()}),
            "seeds": self.seeds,
            "bottleneck": self.bottleneck,
            **({"metrics": [one.name for one in self._wanted]} if self._asked else {}),
            "means": [_mean_row(mean) for mean in self.list_means()],
            "differences": [_difference_row(difference) for difference in self.list_differences()],
            "runs": [
                {"transport": transport} | dict(record)
                for transport, records in self.runs.items()
                for record in records
            ],
        }

    def plot(self, *paths: str | Path, cdf: str | None = None, box: str | None = None) -> Picture:
        """Draw a panel per metric with a dot per transport; with series, each transport over time.

        With `cdf` draw instead the distribution of a column over flows and seeds, such as ``"goodput"``, or
        with series over time, such as ``"rtt"``; with `box` a box of a column of flows for each class, of
        ``"completion"`` also by length. Each path's ending chooses the format. Returns what was
        drawn: a notebook shows it, its ``figure`` is matplotlib's.
        """
        from lasthop.plot import plot_comparison

        return plot_comparison(self, *paths, cdf=cdf, box=box)

    @property
    def has_series(self) -> bool:
        """Whether it has tables over time."""
        return bool(self._series)

    def table(self, name: str) -> Table:
        """Return a table as it is there: any library that speaks Arrow takes it, and no package is needed.

        Parameters
        ----------
        name : str
            ``means``, ``differences``, ``flow_series`` or ``link_series``.
        """
        from lasthop.arrow import table_of_rows

        if name == "means":
            return table_of_rows(map(_mean_row, self.list_means()))
        if name == "differences":
            return table_of_rows(map(_difference_row, self.list_differences()))
        if name not in self._series:
            raise ArgumentError(
                "this comparison has no series: compare with --series (series=True in Python)"
            )
        if name not in self._known:
            self._known[name] = self._series[name]()
        return self._known[name]

    def _content(self) -> RenderableType:
        from lasthop.tables import comparison_table

        return comparison_table(self)

    def _save(self, folder: str | Path, table_format: str, *, force: bool) -> None:
        from lasthop.output import save_comparison

        save_comparison(self, folder, table_format, force=force)


def choose_metrics(texts: Iterable[str]) -> list[Metric]:
    """Return the metrics that some words mean; a word may leave out the unit.

    Examples
    --------
    >>> [metric.name for metric in choose_metrics(["goodput", "rtt_p95_s"])]
    ['goodput_bit_s', 'rtt_p95_s']
    """
    chosen: dict[str, Metric] = {}
    for text in texts:
        plain, mark, link = text.partition(AT)
        found = named(text)
        if found is None and mark:
            (one,) = choose_metrics([plain])
            found = named_at(one.field, link) if one.source == "links" else None
            if found is None:
                wrong = "write a figure of links and a link, such as avg_queue@wifi"
                raise ArgumentError(f"metric {text!r}: {wrong}")
        if found is None:
            names = matching(text, known_names())
            if len(names) > 1:
                raise ArgumentError(
                    f"metric {text!r} is ambiguous, it may be any of {', '.join(names)}: write one of them"
                )
            near = nearest(text, known_names())
            hint = f"did you mean {near!r}? " if near else ""
            found = named(names[0]) if names else None
            if found is None:
                raise ArgumentError(f"unknown metric {text!r}: {hint}'lasthop metrics' lists them")
        chosen[found.name] = found
    return list(chosen.values())


def _check_links(metrics: Iterable[Metric], scenario: Scenario) -> None:
    """Refuse a metric of a link that the scenario has not; each has one each way."""
    known = [name for link in scenario.link_names for name in (link, f"{link} (reverse)")]
    for one in metrics:
        if one.link and one.link not in known:
            near = nearest(one.link, known)
            hint = f"did you mean {near!r}? " if near else ""
            raise ArgumentError(
                f"metric {one.name!r}: there is no such link; {hint}known: {', '.join(known[:20])}"
            )


def transport_overrides(scenario: Mapping[str, Any], transport: str) -> dict[str, str]:
    """Return the overrides that give every flow that is not UDP the transport.

    Beside senders of the simulator, flows that a real stack carries keep it.

    Examples
    --------
    >>> transport_overrides({"flows": [{"transport": "reno"}, {"transport": "udp"}]}, "vegas")
    {'flows.0.transport': 'vegas'}
    >>> beside = {"flows": [{"transport": "reno"}, {"transport": {"stack": "quinn"}}]}
    >>> transport_overrides(beside, "vegas")
    {'flows.0.transport': 'vegas'}
    """
    from lasthop.scenario import transports as list_transports

    stacks = {one["name"].partition(":")[0] for one in list_transports() if one["kind"] == "stack"}
    given = {index: flow.get("transport") for index, flow in enumerate(scenario["flows"])}
    yielding = {index: transport for index, transport in given.items() if transport != "udp"}
    simulated = [index for index, transport in yielding.items() if not _is_stack(transport, stacks)]
    return {f"flows.{index}.transport": transport for index in simulated or yielding}


def _is_stack(transport: object, names: set[str]) -> bool:
    if isinstance(transport, str):
        return transport.partition(":")[0] in names
    return isinstance(transport, dict) and "stack" in transport


def compare_transports(  # noqa: PLR0913 - as `lasthop.compare`
    scenario: Scenario,
    transports: list[str],
    seeds: list[int],
    baseline: str | None,
    jobs: int | None,
    observer: Callable[[Snapshot], None] | None,
    metrics: Iterable[str] | None = None,
    *,
    series: bool = False,
    helpers: Sequence[str] = (),
    at: str | None = None,
    law: str | None = None,
) -> Comparison:
    """Run every transport with every helper and every seed and compare; see `lasthop.compare`."""
    from lasthop.finished import collect, raise_if_ended_early

    if law is not None:
        find_law(law)
    if at is not None and not helpers:
        raise ArgumentError("at says where helpers stand: name them with helpers (--helpers)")
    axes = Axes(tuple(transports), tuple(helpers)) if helpers else None
    check_helpers(helpers)
    names = transports if axes is None else [axes.label(*pair) for pair in axes.pairs()]
    baseline = check_transports(names, baseline)
    wanted = None if metrics is None else choose_metrics(metrics)
    _check_links(wanted or (), scenario)
    overrides = transport_overrides(scenario.to_dict(), transports[0]) if transports else {}
    if transports and not overrides:
        raise ScenarioError(
            f"scenario {scenario.name!r} has UDP flows only: there is no transport to compare"
        )
    variants = [
        _with_helpers(_with_transport(scenario, list(overrides), sender), helper, at)
        for sender, helper in (axes.pairs() if axes is not None else [(name, "") for name in names])
    ]
    pairs = zip(names, variants, strict=True)
    promised = {} if law is None else {name: of_scenario(variant, law) for name, variant in pairs}
    known = scenario.read_history()
    plans = [variant.plan.with_history(known) if known else variant.plan for variant in variants]
    # Seed by seed, so that runs that meet the same channel are made about the same time.
    todo = [Job(plan, seed) for seed in seeds for plan in plans]
    outcome = run_jobs(todo, series=series, workers=jobs, observer=observer)
    comparison = _of_whole_seeds(scenario, outcome, names, baseline, wanted, axes)
    if comparison is not None and law is not None:
        comparison.promises = Promises(law, promised)
    if outcome.failure is not None or outcome.interrupted:
        finished = collect(scenario, outcome)
        total = len(seeds) * len(names)
        whole = 0 if comparison is None else len(comparison.seeds)
        reached = f"{whole} of {len(seeds)} seeds compared" if whole else "nothing compared"
        try:
            raise_if_ended_early(outcome, finished, f"{len(finished)} of {total} runs finished, {reached}")
        except RunError as error:
            error.comparison = comparison
            raise
    assert comparison is not None  # noqa: S101 - every run has finished
    return comparison


def _of_whole_seeds(
    scenario: Scenario,
    outcome: Outcome,
    transports: list[str],
    baseline: str,
    metrics: Sequence[Metric] | None,
    axes: Axes | None,
) -> Comparison | None:
    """Compare the seeds that every transport has finished, if there are any."""
    count = len(transports)
    by_seed = [outcome.results[place : place + count] for place in range(0, len(outcome.results), count)]
    whole = [[one for one in results if one is not None] for results in by_seed if all(results)]
    if not whole:
        return None
    runs = {name: [results[place].record for results in whole] for place, name in enumerate(transports)}
    series = {
        table: partial(_over_time, table, transports, [one for results in whole for one in results])
        for table in SERIES
        if whole[0][0].native is not None
    }
    return Comparison(scenario.to_dict(), _native.__version__, runs, baseline, metrics, series, axes)


def _over_time(table: str, transports: list[str], results: Sequence[Finished]) -> ArrowTable:
    """Return one table of all runs, which come transport by transport within each seed."""
    from lasthop._native import ArrowTable

    parts = []
    for place, result in enumerate(results):
        rows = None if result.native is None else result.native.table(table)
        if rows is not None:
            transport = transports[place % len(transports)]
            parts.append(rows.led_by("seed", result.record["seed"]).led_by("transport", transport))
    return ArrowTable.concat(parts)


def _with_transport(scenario: Scenario, keys: list[str], transport: str) -> Scenario:
    if not transport:
        return scenario
    try:
        return scenario.overridden(dict.fromkeys(keys, transport))
    except ScenarioError as error:
        # The diagnostic names the override; the user wrote an option.
        text = str(error).replace(f"--set {keys[0]}={transport}", f"--transport {transport}")
        raise type(error)(text) from None


def helper_entries(
    helper: str, at: str | None, own: Sequence[Mapping[str, Any]] = ()
) -> list[dict[str, Any]]:
    """Return the list ``helpers`` of a scenario that a name means.

    A helper that the scenario has itself, in `own`, keeps the keys that it has there.

    Examples
    --------
    >>> helper_entries("arq+snoop", "radio")
    [{'kind': 'arq', 'at': 'radio'}, {'kind': 'snoop', 'at': 'radio'}]
    >>> helper_entries("snoop", None, [{"kind": "snoop", "cache": 20}])
    [{'kind': 'snoop', 'cache': 20}]
    >>> helper_entries("fec:direction=down:k=4", None)
    [{'kind': 'fec', 'direction': 'down', 'k': 4}]
    """
    entries: list[dict[str, Any]] = []
    for kind, keys in [] if helper == NO_HELPER else map(_helper_keys, helper.split("+")):
        found = [dict(entry) for entry in own if entry["kind"] == kind] or [{"kind": kind}]
        entries += [entry | keys | ({} if at is None else {"at": at}) for entry in found]
    return entries


def _helper_keys(text: str) -> tuple[str, dict[str, Any]]:
    """Read a helper with some of its keys, such as ``fec:direction=down``."""
    kind, *settings = (part.strip() for part in text.split(":"))
    keys: dict[str, Any] = {}
    for setting in settings:
        key, mark, value = setting.partition("=")
        if not mark or not key.strip() or not value.strip():
            raise ArgumentError(f"helper {text!r}: write a key and its value, as in fec:direction=down")
        keys[key.strip()] = _value(value.strip())
    return kind, keys


def _value(text: str) -> Any:  # noqa: ANN401 - whatever TOML has
    """Read a value of TOML; what is none is text without its quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def _with_helpers(scenario: Scenario, helper: str, at: str | None) -> Scenario:
    from lasthop.scenario import toml_value

    if not helper:
        return scenario
    own = scenario.to_dict().get("helpers", [])
    own = [{"kind": entry} if isinstance(entry, str) else entry for entry in own]
    value = toml_value(helper_entries(helper, at, own))
    try:
        return scenario.overridden({"helpers": value})
    except ScenarioError as error:
        option = f"--helpers {helper}" + ("" if at is None else f" --at {at}")
        raise type(error)(str(error).replace(f"--set helpers={value}", option)) from None


def check_helpers(helpers: Iterable[str]) -> None:
    """Refuse helpers that are not known, or given twice."""
    from lasthop.scenario import helpers as list_helpers

    known = [NO_HELPER, *(one["name"] for one in list_helpers())]
    names = list(helpers)
    for place, name in enumerate(names):
        if name in names[:place]:
            raise ArgumentError(f"helper {name!r} is given twice")
        kinds = [_helper_keys(part)[0] for part in name.split("+")]
        wrong = next((kind for kind in kinds if kind not in known), None)
        if wrong is not None:
            near = nearest(wrong, known)
            hint = f"did you mean {near!r}? " if near else ""
            raise ArgumentError(f"unknown helper {wrong!r}: {hint}'lasthop helpers' lists them")
        if len(kinds) > 1 and NO_HELPER in kinds:
            raise ArgumentError(f"helper {name!r}: {NO_HELPER!r} goes with nothing else")


def check_transports(transports: Iterable[str], baseline: str | None) -> str:
    """Return the baseline; there must be two transports or more, each once, and the baseline among them."""
    names = list(transports)
    twice = next((name for index, name in enumerate(names) if name in names[:index]), None)
    if twice is not None:
        raise ArgumentError(f"transport {twice!r} is given twice")
    if len(names) < 2:  # noqa: PLR2004 - a comparison takes two
        raise ArgumentError(
            "give at least two transports to compare, such as reno,vegas, or helpers, such as none,snoop"
        )
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
