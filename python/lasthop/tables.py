"""Tables for people: runs, comparisons, transports. Drawn with rich; as plain text in a `repr`.

Called by the command line and by the `__repr__` of results. Numbers are shown with SI prefixes; the exact
ones are in the data frames and in the JSON.
"""

from __future__ import annotations

import io
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from lasthop import stats
from lasthop.results import LOSS_BELIEFS, LOSS_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rich.console import JustifyMethod, RenderableType

    from lasthop.comparison import Comparison
    from lasthop.frames import Traffic
    from lasthop.history import Entry
    from lasthop.results import Runs
    from lasthop.stats import Estimate

#: More rows than this are grouped.
ROWS_MAX = 12

FLOW_METRICS = (
    ("goodput_bit_s", "goodput", "bit/s"),
    ("retransmitted_packets", "retransmitted", "packets"),
    ("timeouts", "timeouts", ""),
    ("rtt_mean_s", "mean RTT", "s"),
    ("delay_p95_s", "p95 delay", "s"),
)
TOTAL_METRICS = (
    ("goodput_bit_s", "goodput", "bit/s"),
    ("throughput_bit_s", "throughput", "bit/s"),
    ("jain_index", "Jain index", ""),
    ("retransmitted_packets", "retransmitted", "packets"),
    ("timeouts", "timeouts", ""),
    ("packets_lost", "lost", "packets"),
)
LINK_METRICS = (
    ("avg_queue_packets", "mean queue", "packets"),
    ("max_queue_packets", "max queue", "packets"),
    ("utilisation", "utilisation", "%"),
    ("drops", "drops", "packets"),
)
#: In the nested object of a flow; the optional ones are shown only where a flow has them.
REALTIME_METRICS = (
    ("realtime_index", "timely", "%"),
    ("delayed_rate", "delayed", "%"),
    ("loss_over_sent", "lost", "%"),
    ("startup_s", "start-up", "s"),
    ("stalls", "stalls", ""),
    ("stall_share", "stalled", "%"),
    ("decodable_share", "decodable", "%"),
)
REALTIME_OPTIONAL = ("startup_s", "stalls", "stall_share", "decodable_share")
PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))


def prefix_for(size: float, unit: str) -> tuple[float, str]:
    """Return the factor and the prefixed unit in which a quantity of this size reads well.

    Examples
    --------
    >>> prefix_for(4.2e6, "bit/s")
    (1000000.0, 'Mbit/s')
    >>> prefix_for(0.07, "s")
    (0.001, 'ms')
    """
    if unit == "%":
        return 0.01, "%"
    if unit not in ("bit/s", "s"):
        return 1.0, unit
    largest = 1.0 if unit == "s" else 1e9
    for factor, prefix in PREFIXES:
        if factor <= largest and size >= factor:
            return factor, prefix + unit
    return 1.0, unit


def quantity(value: float | None, unit: str) -> str:
    """Write one value with its unit.

    Examples
    --------
    >>> quantity(4_234_000.0, "bit/s"), quantity(0.0712, "s"), quantity(None, "s"), quantity(0.5, "%")
    ('4.23 Mbit/s', '71.2 ms', '-', '50.0 %')
    """
    if value is None:
        return "-"
    factor, prefixed = prefix_for(abs(value), unit)
    return f"{_significant(value / factor)} {prefixed}".rstrip()


def estimate_texts(values: Sequence[Estimate | None], unit: str) -> tuple[list[str], str]:
    """Write means and half the widths of their intervals in one common unit, which comes with them.

    Examples
    --------
    >>> from lasthop.stats import Estimate
    >>> estimate_texts([Estimate(4.2e6, 4.1e6, 4.3e6, 10), Estimate(5e5, None, None, 1), None], "bit/s")
    (['4.20 ± 0.10', '0.50', '-'], 'Mbit/s')
    """
    factor, prefixed = prefix_for(max((abs(one.mean) for one in values if one), default=0.0), unit)
    return [_estimate_text(one, factor) for one in values], prefixed


def _estimate_text(value: Estimate | None, factor: float) -> str:
    if value is None:
        return "-"
    mean = value.mean / factor
    # A count of a single run is exact; only its mean over seeds has decimals.
    decimals = 0 if value.n == 1 and factor == 1 and mean.is_integer() else _decimals(mean)
    if value.half_width is None:
        return f"{mean:,.{decimals}f}"
    # An interval that is not zero is not shown as zero, within reason.
    finest = decimals + 2
    while value.half_width and decimals < finest and round(value.half_width / factor, decimals) == 0:
        decimals += 1
    return f"{mean:,.{decimals}f} ± {value.half_width / factor:,.{decimals}f}"


def runs_table(runs: Runs) -> RenderableType:
    """Totals, flows and links of runs of one scenario."""
    records = [run.record for run in runs]
    scenario = runs.scenario.get("name", "scenario")
    which = f"seed {runs[0].seed}" if len(runs) == 1 else f"{len(runs)} seeds: mean ± 95 % interval"
    title = Text.assemble((str(scenario), "bold"), f"  {runs[0].duration_s:g} s simulated, {which}")
    parts: list[RenderableType] = [
        title,
        _totals_table(records),
        _flows_table(records),
        *_realtime_tables(records),
        *_loss_tables(records),
        _links_table(records),
    ]
    if len(runs) == 1:
        speed = runs[0].packet_hops / runs[0].wall_s / 1e6 if runs[0].wall_s > 0 else 0.0
        parts.append(
            Text(
                f"fingerprint {runs[0].fingerprint}   {runs[0].packet_hops:,} packet-hops in "
                f"{quantity(runs[0].wall_s, 's')} ({speed:.3g} M/s)",
                style="dim",
            )
        )
    return Group(*parts)


def comparison_table(comparison: Comparison) -> RenderableType:
    """Means per transport, paired differences and a verdict per metric."""
    seeds = len(comparison.seeds)
    title = Text.assemble(
        (str(comparison.scenario.get("name", "scenario")), "bold"),
        f"  {seeds} seed{'s' if seeds > 1 else ''}, the same channel for each transport",
    )
    means = simple_table("mean" + (" ± 95 % interval" if seeds > 1 else ""))
    differences = simple_table(f"difference from {comparison.baseline}")
    for transport in comparison.transports:
        means.add_column(transport, justify="right")
        if transport != comparison.baseline:
            differences.add_column(transport, justify="right")
    means.add_column("")
    for metric in comparison.metrics:
        values = [stats.estimate(comparison.values(name, metric.key)) for name in comparison.transports]
        texts, prefixed = estimate_texts(values, metric.unit)
        means.add_row(metric.label, *texts, prefixed)
        of_metric = [one for one in comparison.list_differences() if one.metric is metric]
        intervals = (Text(one.interval_text, style=verdict_style(one.better)) for one in of_metric)
        differences.add_row(metric.label, *intervals)
    note = Text(
        "Differences are taken seed by seed; each interval holds with 95 % on its own, per cent are of the "
        f"{comparison.baseline} mean.",
        style="dim",
    )
    parts: list[RenderableType] = [title, means]
    if seeds > 1:
        parts.append(differences)
    return Group(*parts, _verdicts_table(comparison), note)


def _verdicts_table(comparison: Comparison) -> Table:
    """One sentence per transport and metric; per transport, differences that are shown come first."""
    table = Table.grid(padding=(0, 2))
    differences = comparison.list_differences()
    for transport in comparison.transports:
        of_transport = [one for one in differences if one.transport == transport]
        for one in sorted(of_transport, key=lambda one: one.better is None):
            mark = {True: "better", False: "worse", None: ""}[one.better]
            table.add_row(
                Text(mark, style=verdict_style(one.better)),
                Text(one.verdict, style="dim" if one.better is None else ""),
            )
    return table


def transports_table(listed: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Every transport with its summary and the names of its parameters."""
    by_kind = {
        kind: [one for one in listed if one["kind"] == kind]
        for kind in ("preset", "rate", "controller", "recovery")
    }
    presets = simple_table("preset", "transport = NAME")
    for column in ("congestion control", "loss recovery"):
        presets.add_column(column)
    for one in by_kind["preset"]:
        presets.add_row(one["name"], one["controller"] or one["summary"], one["recovery"] or "-")
    rates = simple_table("rate-based", "transport = NAME, or { rate = NAME, PARAMETER = VALUE, ... }")
    rates.add_column("what it does")
    for one in by_kind["rate"]:
        rates.add_row(one["name"], one["summary"])
    controllers = simple_table("congestion control", "transport = { cc = NAME, PARAMETER = VALUE, ... }")
    for column in ("what it does", "parameters"):
        controllers.add_column(column)
    for one in by_kind["controller"]:
        parameters = ", ".join(parameter["name"] for parameter in one["parameters"])
        controllers.add_row(one["name"], one["summary"], parameters or "-")
    recoveries = simple_table("loss recovery", "transport = { cc = ..., recovery = NAME }")
    recoveries.add_column("what it does")
    for one in by_kind["recovery"]:
        recoveries.add_row(one["name"], one["summary"])
    hint = Text("'lasthop transports NAME' shows the parameters of one.", style="dim")
    return Group(presets, rates, controllers, recoveries, hint)


def transport_table(one: Mapping[str, Any]) -> RenderableType:
    """One transport with help, default and range of each parameter."""
    head = Text.assemble((one["name"], "bold"), f"  {one['kind']}: {one['summary']}")
    if one["kind"] == "preset" and one["controller"]:
        head.append(f"\ncongestion control {one['controller']}, loss recovery {one['recovery']}")
    if not one["parameters"]:
        return Group(head, Text("no parameters of its own", style="dim"))
    table = simple_table("parameter")
    for column in ("default", "range"):
        table.add_column(column, justify="right")
    table.add_column("what it does", ratio=1)
    for parameter in one["parameters"]:
        if parameter["switch"]:
            default, allowed = ("true" if parameter["default"] else "false"), "true, false"
        elif parameter["choices"]:
            default = parameter["choices"][int(parameter["default"])]
            allowed = ", ".join(parameter["choices"])
        else:
            default = f"{parameter['default']:g}"
            allowed = f"{_bound(parameter['min'])}..{_bound(parameter['max'])}"
        table.add_row(parameter["name"], default, allowed, parameter["help"])
    return Group(head, table)


def history_table(entries: Sequence[Entry], file: str) -> RenderableType:
    """Per host and time: how many windows are known, their median and their range."""
    from statistics import median

    from lasthop.history import WEEKDAYS

    head = Text.assemble((file, "bold"), f"  {len(entries)} window{'s' if len(entries) != 1 else ''}")
    if not entries:
        return head
    groups: dict[tuple[str, int, int, int], list[float]] = defaultdict(list)
    for entry in entries:
        groups[entry.endpoint, entry.month, entry.weekday, entry.hour].append(entry.window_segments)
    table = simple_table("endpoint")
    for column in ("month", "day", "hour", "windows", "median", "least", "most"):
        table.add_column(column, justify="right")
    for (endpoint, month, weekday, hour), windows in sorted(groups.items()):
        spread = (f"{value:.1f}" for value in (median(windows), min(windows), max(windows)))
        # A name may hold what rich takes for a style.
        table.add_row(Text(endpoint), str(month), WEEKDAYS[weekday], f"{hour:02}", str(len(windows)), *spread)
    return Group(head, table, Text("Windows are in segments.", style="dim"))


def render(content: RenderableType, width: int = 100) -> str:
    """Return what would be printed, as plain text."""
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(content)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def render_runs(runs: Runs) -> str:
    """Return the tables of runs as plain text."""
    return render(runs_table(runs))


def render_comparison(comparison: Comparison) -> str:
    """Return the tables of a comparison as plain text."""
    return render(comparison_table(comparison))


def render_traffic(traffic: Traffic) -> str:
    """Return the statistics of a flow's frames as plain text."""
    return render(traffic_table(traffic), 120)


def _totals_table(records: Sequence[Mapping[str, Any]]) -> Table:
    table = simple_table("all flows")
    table.add_column("", justify="right")
    table.add_column("")
    for key, label, unit in TOTAL_METRICS:
        value = stats.estimate(_count(record["totals"][key]) for record in records)
        (text,), prefixed = estimate_texts([value], unit)
        table.add_row(label, text, prefixed)
    return table


def _flows_table(records: Sequence[Mapping[str, Any]]) -> Table:
    flows = records[0]["flows"]
    if len(flows) > ROWS_MAX:
        return _grouped_flows_table(records)
    columns = [
        _Column("flow", [flow["name"] for flow in flows]),
        _Column("transport", [flow["transport"] for flow in flows]),
    ]
    for key, label, unit in FLOW_METRICS:
        values = [
            stats.estimate(record["flows"][place][key] for record in records) for place in range(len(flows))
        ]
        columns.append(_numbers(label, values, unit))
    return _table_of(columns)


def _grouped_flows_table(records: Sequence[Mapping[str, Any]]) -> Table:
    """Per transport: smallest, mean and largest flow, each averaged over the seeds."""

    def value(flow: Mapping[str, Any], key: str) -> float | None:
        number: float | None = flow[key]
        return number

    members = range(len(records[0]["flows"]))
    return _grouped_table(records, members, FLOW_METRICS, value)


def _grouped_table(
    records: Sequence[Mapping[str, Any]],
    members: Iterable[int],
    metrics: Iterable[tuple[str, str, str]],
    value: Callable[[Mapping[str, Any], str], float | None],
    title: str | None = None,
) -> Table:
    """Smallest, mean and largest of these flows per transport; `value` finds a metric in a flow.

    Metrics of `REALTIME_METRICS` are left out where no flow of a transport has them.
    """
    groups: dict[str, list[int]] = defaultdict(list)
    for index in members:
        groups[records[0]["flows"][index]["transport"]].append(index)
    table = simple_table("flows", title)
    table.add_column("per flow")
    for column in ("min", "mean", "max"):
        table.add_column(column, justify="right")
    table.add_column("")
    for transport, of_transport in groups.items():
        name = f"{len(of_transport)} x {transport}"
        for key, label, unit in metrics:
            values = [[value(record["flows"][index], key) for index in of_transport] for record in records]
            if key in REALTIME_OPTIONAL and all(one is None for of_seed in values for one in of_seed):
                continue
            table.add_row(name, label, *_spread(values, unit))
            name = ""
        table.add_section()
    return table


def _realtime_tables(records: Sequence[Mapping[str, Any]]) -> list[Table]:
    """Show timely, delayed and lost packets and what viewers saw, of the flows that are measured so."""
    flows = records[0]["flows"]
    measured = [index for index, flow in enumerate(flows) if flow.get("realtime") is not None]
    if not measured:
        return []

    def value(flow: Mapping[str, Any], key: str) -> float | None:
        number: float | None = flow["realtime"][key]
        return number

    def values(index: int, key: str) -> list[float | None]:
        return [value(record["flows"][index], key) for record in records]

    shown = [
        (key, label, unit)
        for key, label, unit in REALTIME_METRICS
        if key not in REALTIME_OPTIONAL
        or any(one is not None for index in measured for one in values(index, key))
    ]
    if len(measured) > ROWS_MAX:
        table = _grouped_table(records, measured, shown, value, "real-time")
    else:
        columns = [
            _Column("flow", [flows[index]["name"] for index in measured]),
            _Column("transport", [flows[index]["transport"] for index in measured]),
        ]
        for key, label, unit in shown:
            columns.append(_numbers(label, [stats.estimate(values(index, key)) for index in measured], unit))
        table = _table_of(columns, "real-time")
    table.caption = _realtime_caption(flows[measured[0]]["realtime"]["options"])
    return [table]


def _realtime_caption(options: Mapping[str, Any]) -> str:
    """Say by which definitions the packets were told apart."""
    neighbour = {
        "next-lower": "the packet before it that arrived",
        "literal": "the packet before it",
        "last-arrival": "the packet before it, or else the last to arrive",
    }[options["missing"]]
    over = "received" if options["delayed_over"] == "received" else options["sent"]
    return (
        f"delayed: more than {quantity(options['threshold_s'], 's')} after {neighbour}, at the "
        f"{options['arrival']}; timely over packets {options['sent']}, delayed over packets {over}, "
        "lost over transmissions"
    )


def _loss_tables(records: Sequence[Mapping[str, Any]]) -> list[Table]:
    """Show what losses were and were taken for, per transport that tells them apart, over its flows."""
    groups: dict[str, list[int]] = defaultdict(list)
    for index, flow in enumerate(records[0]["flows"]):
        if flow.get("loss_verdicts") is not None:
            groups[flow["transport"]].append(index)
    if not groups:
        return []
    table = simple_table("transport", "what losses were taken for")
    for column in ("what it was", "taken for congestion", "taken for wireless"):
        table.add_column(column, justify="left" if column == "what it was" else "right")
    for transport, members in groups.items():
        name = f"{len(members)} x {transport}" if len(members) > 1 else transport
        for kind in LOSS_KINDS:
            values = [
                stats.estimate(
                    sum(record["flows"][index]["loss_verdicts"][kind][belief] for index in members)
                    for record in records
                )
                for belief in LOSS_BELIEFS
            ]
            table.add_row(name, kind, *(_estimate_text(value, 1.0) for value in values))
            name = ""
        table.add_section()
    return [table]


def _links_table(records: Sequence[Mapping[str, Any]]) -> Table:
    groups: dict[str, list[int]] = defaultdict(list)
    links = records[0]["links"]
    for index, link in enumerate(links):
        name = link["name"]
        groups[re.sub(r"-\d+(?= \(reverse\)$|$)", "-*", name) if len(links) > ROWS_MAX else name].append(
            index
        )
    columns = [
        _Column(
            "link",
            [f"{len(members)} x {name}" if len(members) > 1 else name for name, members in groups.items()],
        )
    ]
    for key, label, unit in LINK_METRICS:
        values = [
            stats.estimate(
                _combined(key, [_count(record["links"][index][key]) for index in members])
                for record in records
            )
            for members in groups.values()
        ]
        columns.append(_numbers(label, values, unit))
    table = _table_of(columns)
    if len(groups) < len(links):
        table.caption = "links in groups: mean of the means, max of the maxima, sum of the drops"
    return table


class _Column(NamedTuple):
    heading: str
    texts: list[str]
    justify: JustifyMethod = "left"


def _numbers(label: str, values: Sequence[Estimate | None], unit: str) -> _Column:
    """Column of estimates in one common unit, which stands in its heading."""
    texts, prefixed = estimate_texts(values, unit)
    return _Column(f"{label}\n{prefixed}" if prefixed else label, texts, "right")


def _table_of(columns: Sequence[_Column], title: str | None = None) -> Table:
    table = simple_table("", title)
    for column in columns:
        table.add_column(column.heading, justify=column.justify)
    for row in zip(*(column.texts for column in columns), strict=True):
        table.add_row(*row)
    return table


def _combined(key: str, values: list[float | None]) -> float | None:
    """One figure for a group of links."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    if key == "max_queue_packets":
        return max(known)
    return sum(known) if key == "drops" else stats.mean(known)


def _count(value: Mapping[str, int] | float | None) -> float | None:
    """Return a figure as it is, and the sum of counts by cause."""
    return value if value is None or isinstance(value, (int, float)) else float(sum(value.values()))


def _spread(values: Sequence[Sequence[float | None]], unit: str) -> tuple[str, str, str, str]:
    """Texts of min, mean and max over the flows, and their unit; `values` is one list of flows per seed."""
    known = [[value for value in flows if value is not None] for flows in values]

    def over_seeds(summary: Callable[[list[float]], float | None]) -> Estimate | None:
        return stats.estimate(summary(flows) for flows in known if flows)

    (smallest, mean, largest), prefixed = estimate_texts(
        [over_seeds(min), over_seeds(stats.mean), over_seeds(max)], unit
    )
    return smallest.split(" ")[0], mean, largest.split(" ")[0], prefixed


TRAFFIC_ROWS = (
    ("mean", "mean (kB)", 1e3),
    ("sd", "sd (kB)", 1e3),
    ("cov", "CoV", 1.0),
    ("min", "least (kB)", 1e3),
    ("max", "largest (kB)", 1e3),
    ("peak_to_mean", "largest/mean", 1.0),
)


def traffic_table(traffic: Traffic) -> RenderableType:
    """Sizes, rate and autocorrelation of the frames of a flow."""
    seeds = traffic.seeds
    which = f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds: mean ± 95 % interval"
    number = traffic.frames.height // len(seeds)
    length = f"{number:,} frames at {traffic.frame_rate:g}/s"
    (rate, deviation), unit = estimate_texts([traffic.rate_bit_s, traffic.rate_sd_bit_s], "bit/s")
    table = simple_table("")
    for series in traffic.series:
        table.add_column(series, justify="right", no_wrap=True)
    counts = [stats.mean(traffic.values(series, "count")) or 0.0 for series in traffic.series]
    table.add_row("number", *(f"{count:,.0f}" for count in counts))
    rows = [*TRAFFIC_ROWS, *((f"acf_{lag}", f"ACF at {lag}", 1.0) for lag in traffic.lags)]
    for column, label, factor in rows:
        estimates = [traffic.estimate(series, column) for series in traffic.series]
        table.add_row(label, *(_estimate_text(one, factor) for one in estimates))
    table.columns[0].no_wrap = True
    return Group(
        Text.assemble((traffic.name, "bold"), f"  frames of {traffic.flow}, {length}, {which}"),
        Text(f"rate {rate} {unit}, standard deviation over seconds {deviation} {unit}"),
        table,
        Text(
            "group: of pictures, from an I frame to the next. ACF: autocorrelation within the column.",
            style="dim",
        ),
    )


def simple_table(first_column: str, title: str | None = None) -> Table:
    """Return an empty table in the style of all; without a name there is no first column."""
    table = Table(
        title=title,
        title_justify="left",
        title_style="italic",
        box=box.SIMPLE_HEAD,
        header_style="bold",
        pad_edge=False,
        caption_justify="left",
    )
    if first_column:
        table.add_column(first_column)
    return table


def verdict_style(better: bool | None) -> str:  # noqa: FBT001 - the three values are the meaning
    """Return the colour of a verdict."""
    return {True: "green", False: "red", None: "dim"}[better]


def _significant(value: float) -> str:
    return f"{value:,.{_decimals(value)}f}"


def _decimals(value: float) -> int:
    """Decimals that leave three significant digits; whole numbers from a thousand on."""
    size = abs(value)
    if size >= 100 or value == 0:  # noqa: PLR2004
        return 0
    if size >= 10:  # noqa: PLR2004
        return 1
    return 2 if size >= 0.1 else 3  # noqa: PLR2004


def _bound(value: float | None) -> str:
    return "" if value is None else f"{value:g}"
