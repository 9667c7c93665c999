"""Tables for people: runs, comparisons, transports. Drawn with rich; as plain text in a `repr`.

Called by the command line and by the `__repr__` of results. Numbers are shown with SI prefixes; the exact
ones are in the data frames and in the JSON.
"""

from __future__ import annotations

import io
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from lasthop import stats
from lasthop.comparison import METRICS, Comparison

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import RenderableType

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
LINK_METRICS = (
    ("avg_queue_packets", "mean queue", "packets"),
    ("max_queue_packets", "max queue", "packets"),
    ("utilisation", "utilisation", "%"),
    ("drops", "drops", "packets"),
)
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
    if unit not in ("bit/s", "s", "packet-hops/s"):
        return 1.0, "" if unit == "packets" else unit
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


def estimate_text(value: Estimate | None, unit: str) -> str:
    """Write a mean and half the width of its interval.

    Examples
    --------
    >>> from lasthop.stats import Estimate
    >>> estimate_text(Estimate(4.2e6, 4.1e6, 4.3e6, 10), "bit/s")
    '4.20 ± 0.10 Mbit/s'
    """
    if value is None:
        return "-"
    if value.half_width is None:
        return quantity(value.mean, unit)
    factor, prefixed = prefix_for(abs(value.mean), unit)
    mean = value.mean / factor
    decimals = _decimals(mean)
    return f"{mean:,.{decimals}f} ± {value.half_width / factor:,.{decimals}f} {prefixed}".rstrip()


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
        _links_table(records),
    ]
    if len(runs) == 1:
        speed = runs[0].packet_hops / runs[0].wall_s if runs[0].wall_s > 0 else None
        parts.append(
            Text(
                f"fingerprint {runs[0].fingerprint}   {runs[0].packet_hops:,} packet-hops in "
                f"{quantity(runs[0].wall_s, 's')} ({quantity(speed, 'packet-hops/s')})",
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
    means = _table("mean" + (" ± 95 % interval" if seeds > 1 else ""))
    for transport in comparison.transports:
        means.add_column(transport, justify="right")
    for metric in METRICS:
        means.add_row(
            metric.label,
            *(
                estimate_text(stats.estimate(comparison.values(transport, metric.key)), metric.unit)
                for transport in comparison.transports
            ),
        )
    differences = _table("paired difference")
    others = [transport for transport in comparison.transports if transport != comparison.baseline]
    for transport in others:
        differences.add_column(f"{transport} - {comparison.baseline}", justify="right")
    verdicts = Text()
    for metric in METRICS:
        of_metric = [one for one in comparison.list_differences() if one.metric is metric]
        differences.add_row(
            metric.label, *(Text(one.interval_text, style=_verdict_style(one.better)) for one in of_metric)
        )
        for one in of_metric:
            mark = {True: "better", False: "worse", None: ""}[one.better]
            verdicts.append(f"  {mark:<7}", style=_verdict_style(one.better))
            verdicts.append(f"{one.verdict}\n")
    verdicts.rstrip()
    note = Text(
        "Differences are taken seed by seed; each interval holds with 95 % on its own, per cent are of the "
        f"{comparison.baseline} mean.",
        style="dim",
    )
    parts: list[RenderableType] = [title, means]
    if seeds > 1:
        parts.append(differences)
    return Group(*parts, Text("verdicts", style="bold"), verdicts, note)


def transports_table(listed: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Every transport with its summary and the names of its parameters."""
    parts: list[RenderableType] = []
    for kind, heading in (
        ("preset", "presets: transport = NAME"),
        ("controller", "congestion control: transport = { cc = NAME }"),
        ("recovery", "loss recovery: transport = { recovery = NAME }"),
    ):
        of_kind = [one for one in listed if one["kind"] == kind]
        if not of_kind:
            continue
        table = _table(heading)
        table.columns[0].no_wrap = True
        table.add_column("what it does", ratio=1)
        table.add_column("parameters")
        for one in of_kind:
            table.add_row(one["name"], one["summary"], ", ".join(p["name"] for p in one["parameters"]) or "-")
        parts.append(table)
    parts.append(Text("'lasthop transports NAME' shows the parameters of one.", style="dim"))
    return Group(*parts)


def transport_table(one: Mapping[str, Any]) -> RenderableType:
    """One transport with help, default and range of each parameter."""
    head = Text.assemble((one["name"], "bold"), f"  {one['kind']}: {one['summary']}")
    if one["kind"] == "preset":
        head.append(f"\ncongestion control {one['controller']}, loss recovery {one['recovery']}")
    if not one["parameters"]:
        return Group(head, Text("no parameters of its own", style="dim"))
    table = _table("parameter")
    for column in ("default", "range"):
        table.add_column(column, justify="right")
    table.add_column("what it does", ratio=1)
    for parameter in one["parameters"]:
        if parameter["switch"]:
            default, allowed = ("true" if parameter["default"] else "false"), "true, false"
        else:
            default = f"{parameter['default']:g}"
            allowed = f"{_bound(parameter['min'])}..{_bound(parameter['max'])}"
        table.add_row(parameter["name"], default, allowed, parameter["help"])
    return Group(head, table)


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


def _totals_table(records: Sequence[Mapping[str, Any]]) -> Table:
    table = _table("all flows")
    row: list[str] = [""]
    for key, label, unit in (
        ("goodput_bit_s", "goodput", "bit/s"),
        ("throughput_bit_s", "throughput", "bit/s"),
        ("jain_index", "Jain index", ""),
        ("retransmitted_packets", "retransmitted", "packets"),
        ("timeouts", "timeouts", ""),
    ):
        table.add_column(label, justify="right")
        row.append(estimate_text(stats.estimate(record["totals"][key] for record in records), unit))
    table.add_column("lost", justify="right")
    row.append(estimate_text(stats.estimate(_sum(r["totals"]["packets_lost"]) for r in records), "packets"))
    table.add_row(*row)
    return table


def _flows_table(records: Sequence[Mapping[str, Any]]) -> Table:
    if len(records[0]["flows"]) > ROWS_MAX:
        return _grouped_flows_table(records)
    table = _table("flow")
    table.add_column("transport")
    for _, label, _unit in FLOW_METRICS:
        table.add_column(label, justify="right")
    for index, flow in enumerate(records[0]["flows"]):
        table.add_row(
            flow["name"],
            flow["transport"],
            *(
                estimate_text(stats.estimate(record["flows"][index][key] for record in records), unit)
                for key, _, unit in FLOW_METRICS
            ),
        )
    return table


def _grouped_flows_table(records: Sequence[Mapping[str, Any]]) -> Table:
    """Per transport: smallest, mean and largest flow, each averaged over the seeds."""
    groups: dict[str, list[int]] = defaultdict(list)
    for index, flow in enumerate(records[0]["flows"]):
        groups[flow["transport"]].append(index)
    table = _table("flows")
    table.add_column("per flow")
    for column in ("min", "mean", "max"):
        table.add_column(column, justify="right")
    for transport, members in groups.items():
        name = f"{transport} ({len(members)})"
        for key, label, unit in FLOW_METRICS:
            values = [[record["flows"][index][key] for index in members] for record in records]
            table.add_row(name, label, *_spread(values, unit))
            name = ""
        table.add_section()
    return table


def _links_table(records: Sequence[Mapping[str, Any]]) -> Table:
    groups: dict[str, list[int]] = defaultdict(list)
    links = records[0]["links"]
    for index, link in enumerate(links):
        name = (
            re.sub(r"-\d+(?= \(reverse\)$|$)", "-*", link["name"]) if len(links) > ROWS_MAX else link["name"]
        )
        groups[name].append(index)
    table = _table("link")
    for _, label, _unit in LINK_METRICS:
        table.add_column(label, justify="right")
    for name, members in groups.items():
        shown = name if len(members) == 1 else f"{name} ({len(members)})"
        cells = [
            estimate_text(
                stats.estimate(
                    _combined(key, [_link_value(record["links"][index], key) for index in members])
                    for record in records
                ),
                unit,
            )
            for key, _, unit in LINK_METRICS
        ]
        table.add_row(shown, *cells)
    if any(len(members) > 1 for members in groups.values()):
        table.caption = "links in groups: mean of the means, max of the maxima, sum of the drops"
    return table


def _combined(key: str, values: list[float | None]) -> float | None:
    """One figure for a group of links."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    if key == "max_queue_packets":
        return max(known)
    return sum(known) if key == "drops" else stats.mean(known)


def _link_value(link: Mapping[str, Any], key: str) -> float | None:
    return _sum(link["drops"]) if key == "drops" else link[key]


def _spread(values: Sequence[Sequence[float | None]], unit: str) -> tuple[str, str, str]:
    """Texts of min, mean and max over the flows; `values` is one list of flows per seed."""
    known = [[value for value in flows if value is not None] for flows in values]

    def over_seeds(summary: Callable[[list[float]], float | None]) -> Estimate | None:
        return stats.estimate(summary(flows) for flows in known if flows)

    smallest, largest = over_seeds(min), over_seeds(max)
    return (
        quantity(smallest.mean if smallest else None, unit),
        estimate_text(over_seeds(stats.mean), unit),
        quantity(largest.mean if largest else None, unit),
    )


def _table(first_column: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, caption_justify="left")
    table.add_column(first_column)
    return table


def _verdict_style(better: bool | None) -> str:  # noqa: FBT001 - the three values are the meaning
    return {True: "green", False: "red", None: "dim"}[better]


def _sum(counts: Mapping[str, int]) -> float:
    return float(sum(counts.values()))


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
