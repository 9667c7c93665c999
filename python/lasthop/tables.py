"""Tables for people: runs, comparisons, transports. Drawn with rich; as plain text in a `repr`.

Called by the command line and by the `__repr__` of results. Numbers are shown with SI prefixes; the exact
ones are in the data frames and in the JSON.
"""

from __future__ import annotations

import io
import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from rich import box
from rich.console import Console, Group
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from lasthop import columns, stats
from lasthop.flow_groups import arrived, group_flows, group_mean, rows_of, unfinished
from lasthop.quantities import estimate_text, estimate_texts, number_text, quantity, time_text
from lasthop.remarks import REMARKS, filled_by_repairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rich.console import ConsoleOptions, JustifyMethod, OverflowMethod, RenderableType, RenderResult

    from lasthop.columns import Column, Metric
    from lasthop.comparison import Comparison
    from lasthop.frames import Traffic
    from lasthop.history import Entry
    from lasthop.parity import Parity
    from lasthop.results import Runs
    from lasthop.stats import Estimate

#: More rows than this are grouped.
ROWS_MAX = 12
#: Wider than any screen: what a table would take if it could.
WIDEST = 10_000


def runs_table(runs: Runs) -> RenderableType:
    """Totals, flows and links of runs of one scenario."""
    from lasthop.records import is_same

    records = [run.record for run in runs]
    scenario = runs.scenario.get("name", "scenario")
    which = f"seed {runs[0].seed}" if len(runs) == 1 else f"{len(runs)} seeds: mean ± 95 % interval"
    if is_same(records):
        # Intervals of zero width would look like certainty that was measured.
        records, which = records[:1], f"{stats.SAME}: {len(runs)} seeds, nothing random"
    length = f"{time_text(runs[0].duration_s)} simulated"
    if "live" in records[0]:
        interrupted = ", interrupted" if records[0]["live"].get("ended_by") == "interrupted" else ""
        length = f"{time_text(runs[0].duration_s, 4)} emulated, in real time{interrupted}"
    title = Text.assemble((str(scenario), "bold"), f"  {length}, {which}")
    if "live" in records[0] and not records[0]["live"]["packets"]:
        # The report of the run says so; tables of zeros would say it less well.
        return title
    parts: list[RenderableType] = [
        title,
        _totals_table(records),
        *_length_tables(records),
        _flows_table(records),
        *_part_tables(records),
        *_loss_tables(records),
        _links_table(records),
        *_drawn_tables(records),
        *_remarks(records),
    ]
    # How fast it went is no news of what is as fast as real time, and no such run repeats another.
    if len(runs) == 1 and "live" not in records[0]:
        speed = runs[0].packet_hops / runs[0].wall_s / 1e6 if runs[0].wall_s > 0 else 0.0
        parts.append(
            Text(
                f"fingerprint {runs[0].fingerprint}   {runs[0].packet_hops:,} packet-hops in "
                f"{quantity(runs[0].wall_s, 's')} ({number_text(speed, 3)} M/s)",
                style="dim",
            )
        )
    return Group(*parts)


def _remarks(records: Sequence[dict[str, Any]]) -> list[RenderableType]:
    """Say what the tables alone do not: one paragraph per remark."""
    return [Text(remark, style="yellow") for find in REMARKS for remark in find(records)]


def comparison_table(comparison: Comparison) -> RenderableType:
    """Means per transport, paired differences and a verdict per metric."""
    seeds = len(comparison.seeds)
    title = Text.assemble(
        (str(comparison.scenario.get("name", "scenario")), "bold"),
        f"  {seeds} seed{'s' if seeds > 1 else ''}, the same channel for each transport",
        *([f"; {stats.SAME}"] if comparison.same else []),
    )
    metrics = comparison.metrics
    others = [name for name in comparison.transports if name != comparison.baseline]
    labels = [metric.label for metric in metrics]
    rows = [(metric.label, *_means_of(comparison, metric)) for metric in metrics] + _busiest_rows(comparison)
    heading = "mean" if seeds == 1 or comparison.same else "mean ± 95 % interval"
    means = _matrices(comparison) if comparison.has_matrix else _beside(comparison, heading, rows)
    grouped = _groups_rows(comparison)
    if grouped:
        means = Group(means, _beside(comparison, "mean per flow", grouped))
    changes = {(one.metric.name, one.transport): one for one in comparison.list_differences()}
    differences = Wide(
        [
            TableColumn(f"difference from {comparison.baseline}", labels),
            *(
                TableColumn(
                    name,
                    [
                        Text(one.interval_text, style=verdict_style(one.better))
                        for metric in metrics
                        for one in [changes[metric.name, name]]
                    ],
                    "right",
                )
                for name in others
            ),
        ]
    )
    warnings = [
        Text(f"{name}: {remark}", style="yellow")
        for name, records in comparison.runs.items()
        for remark in filled_by_repairs(records)
    ]
    warnings += [Text(remark, style="yellow") for remark in comparison.idle]
    if seeds == 1:
        alone = "One seed cannot show a difference: use more seeds, such as --seeds 1-10."
        return Group(title, means, *_promises(comparison), *warnings, Text(alone, style="dim"))
    note = Text(
        "The seeds change nothing in this scenario: the differences are exact."
        if comparison.same
        else "Differences are taken seed by seed; each interval holds with 95 % on its own; 100 % is the "
        f"mean {comparison.of_baseline}.",
        style="dim",
    )
    promised = _promises(comparison)
    return Group(title, means, *promised, differences, _verdicts_table(comparison), *warnings, note)


def _means_of(comparison: Comparison, metric: Metric) -> tuple[list[str], str]:
    """Texts of the means of one metric, one per transport, and their unit."""
    estimates = [comparison.estimate(name, metric) for name in comparison.transports]
    texts, unit = estimate_texts(estimates, metric.shown_unit)
    records = [comparison.runs[name] for name in comparison.transports]
    texts = [
        text + _among(one, len(of_one)) for text, one, of_one in zip(texts, estimates, records, strict=True)
    ]
    column = columns.find(metric.source, metric.field)
    if column is None or not column.whole:
        return texts, unit
    wholes = [_of_whole([record[metric.source] for record in of_one], column) for of_one in records]
    if len(set(filter(None, wholes))) == 1:
        return texts, next(filter(None, wholes))
    return [f"{text} {whole}".rstrip() for text, whole in zip(texts, wholes, strict=True)], unit


def _among(value: Estimate | None, seeds: int) -> str:
    """Say how many seeds have a value, if some have none: their mean leaves those out."""
    return "" if value is None or value.n == seeds else f" ({value.n} of {seeds} seeds)"


def _of_whole(rows: Sequence[Mapping[str, Any]], column: Column) -> str:
    """Say of how many a column counts a part, on average over seeds; nothing if no row has it."""
    whole = stats.mean([row.get(column.whole) for row in rows])
    return "" if whole is None else f"of {number_text(whole)}"


def _beside(comparison: Comparison, heading: str, rows: Sequence[tuple[str, list[str], str]]) -> Wide:
    """Table with a column per transport; a row is a label, texts, and their unit."""
    return Wide(
        [
            TableColumn(heading, [label for label, _, _ in rows]),
            *(
                TableColumn(name, [texts[place] for _, texts, _ in rows], "right")
                for place, name in enumerate(comparison.transports)
            ),
            TableColumn("", [unit for _, _, unit in rows]),
        ]
    )


def _busiest_rows(comparison: Comparison) -> list[tuple[str, list[str], str]]:
    """Name the busiest link of each transport where it is not the one whose queue is compared."""
    from lasthop.records import busiest

    found = [busiest(comparison.runs[name]) for name in comparison.transports]
    if all(one is None or one[0] == comparison.bottleneck for one in found):
        return []
    return [
        (
            "busiest link",
            ["-" if one is None else f"{one[0]}, {quantity(one[1], 'share')}" for one in found],
            "",
        )
    ]


def _groups_rows(comparison: Comparison) -> list[tuple[str, list[str], str]]:
    """Show what the flows of each entry of the scenario got, if it has several."""
    records = comparison.runs
    groups = {name: group_flows(of_one[0]["flows"]) for name, of_one in records.items()}
    first = groups[comparison.baseline]
    if not 1 < len(first) <= ROWS_MAX or any(len(one) != len(first) for one in groups.values()):
        return []
    rows = []
    for place, group in enumerate(first):
        count = f" ({len(group.members)} flows)" if len(group.members) > 1 else ""
        for column in _shown("flows"):
            if column.unit not in ("bit/s", "s"):
                continue
            found = [group_mean(records[name], groups[name][place], column) for name in comparison.transports]
            if not any(found):
                continue
            texts, unit = estimate_texts(
                [one and one.exact() if comparison.same else one for one in found], column.shown_unit
            )
            marks = [
                unfinished([column.of_all(rows) for rows in rows_of(records[name], group.members)], column)
                for name in comparison.transports
            ]
            texts = [f"{text}, {mark}" if mark else text for text, mark in zip(texts, marks, strict=True)]
            rows.append((f"{group.name}{count}: {column.heading}", texts, unit))
    return rows


def _promises(comparison: Comparison) -> list[RenderableType]:
    """Return the predictions of a model beside the measured values."""
    from lasthop import laws
    from lasthop.records import metric_value

    if comparison.promises is None:
        return []
    law = laws.find(comparison.promises.law)
    metric = columns.named("goodput_bit_s")
    assert metric is not None  # noqa: S101 - declared by the engine
    table = simple_table("said of")
    for heading in ("goodput said", "measured", "ratio", "loss left", "RTT", "delay", "limit"):
        table.add_column(heading, justify="right")
    for name in comparison.transports:
        said = comparison.promises.said.get(name, {})
        value = comparison.promises.of_metric(name, metric)
        if value is None:
            table.add_row(name, "-", "", "", "", "", "", "")
            continue
        measured = stats.mean(
            [metric_value(record, metric, comparison.bottleneck) for record in comparison.runs[name]]
        )
        shown = [f"{number_text(value * 1e-6, 3)} Mbit/s", "-", "-"]
        if measured is not None:
            shown[1:] = [
                f"{number_text(measured * 1e-6, 3)} Mbit/s",
                f"{measured / value:.2f}" if value else "-",
            ]
        figures = [(one.loss, one.rtt_s, one.delay_s) for one in said.values()]
        loss, trip, delay = (sum(column) / len(figures) for column in zip(*figures, strict=True))
        limits = ", ".join(dict.fromkeys(one.limit for one in said.values()))
        path = (
            f"{number_text(100 * loss, 3)} %",
            f"{number_text(1e3 * trip, 3)} ms",
            f"{number_text(1e3 * delay, 3)} ms",
        )
        table.add_row(name, *shown, *path, limits)
    note = f"Limits: {law.limits}; repairs are perfect, queues empty, ACKs never lost. Delay is one way."
    return [Text(f"What the law says: {law.label}"), table, Text(note, style="dim")]


def _matrices(comparison: Comparison) -> RenderableType:
    """One table per metric: senders downwards, helpers across."""
    axes = comparison.axes
    assert axes is not None  # noqa: S101 - has_matrix says so
    parts = []
    for metric in comparison.metrics:
        table = simple_table(metric.label)
        for helper in axes.helpers:
            table.add_column(helper, justify="right")
        labels = [[axes.label(sender, helper) for helper in axes.helpers] for sender in axes.senders]
        estimates = [[comparison.estimate(label, metric) for label in row] for row in labels]
        texts, unit = estimate_texts([one for row in estimates for one in row], metric.shown_unit)
        table.add_column("")
        width = len(axes.helpers)
        for place, sender in enumerate(axes.senders):
            table.add_row(sender, *texts[place * width : (place + 1) * width], unit)
        if len(comparison.seeds) > 1:
            for sender, row in zip(axes.senders, labels, strict=True):
                changes = [comparison.difference(metric, label, row[0]) for label in row[1:]]
                cells = [Text(one.interval_text, style=verdict_style(one.better)) for one in changes]
                table.add_row(Text(f"  {sender}: change", style="dim"), "", *cells, "")
        parts.append(table)
    return Group(*parts)


def _verdicts_table(comparison: Comparison) -> Table:
    """One sentence per transport and metric; per transport, differences that are shown come first.

    What the baseline, or all others, have no values of needs no sentence: the tables show dashes.
    """
    table = Table.grid(padding=(0, 2))
    differences = [one for one in comparison.list_differences() if one.estimate is not None]
    for transport in comparison.transports:
        of_transport = [one for one in differences if one.transport == transport]
        for one in sorted(of_transport, key=lambda one: one.better is None):
            mark = {True: "better", False: "worse", None: ""}[one.better]
            table.add_row(
                Text(mark, style=verdict_style(one.better)),
                Text(one.verdict, style="dim" if one.better is None else ""),
            )
    return table


def history_table(entries: Sequence[Entry], file: str) -> RenderableType:
    """Per host and time: how many windows are known, their median and their range."""
    from statistics import median

    from lasthop.history import WEEKDAYS

    head = Text.assemble((file, "bold"), f"  {len(entries)} window{'s' if len(entries) != 1 else ''}")
    if not entries:
        return head
    groups: dict[tuple[str, int, int, int, int], list[float]] = defaultdict(list)
    for entry in entries:
        key = (entry.endpoint, entry.month, entry.week, entry.weekday, entry.hour)
        groups[key].append(entry.window_segments)
    table = simple_table("endpoint")
    for column in ("month", "week", "day", "hour", "windows", "median", "least", "most"):
        table.add_column(column, justify="right")
    for (endpoint, month, week, weekday, hour), windows in sorted(groups.items()):
        spread = (f"{value:.1f}" for value in (median(windows), min(windows), max(windows)))
        when = (str(month), str(week) if week else "–", WEEKDAYS[weekday], f"{hour:02}")
        # A name may hold what rich takes for a style.
        table.add_row(Text(endpoint), *when, str(len(windows)), *spread)
    return Group(head, table, Text("Windows are in segments.", style="dim"))


def parity_table(found: Parity) -> RenderableType:
    """Make the table of `lasthop parity`."""
    table = simple_table("congestion control")
    steers = any(row.steered.values for row in found.rows)
    sides = ("simulated", found.beside, *(("steered",) if steers else ()))
    ratios = (f"{found.beside} / simulated", "beyond the spread", *(("steered / kernel",) if steers else ()))
    for heading in ("quantity", *sides, "", *ratios):
        table.add_column(heading, justify="left" if heading in ("quantity", "") else "right")
    verdicts = {True: "yes", False: "no", None: "too few runs"}
    for row in found.rows:
        estimates = [
            row.simulated.estimate,
            row.emulated.estimate,
            *([row.steered.estimate] if steers else []),
        ]
        texts, unit = estimate_texts(estimates, row.unit)
        of_kernel, of_steered = (
            "-" if ratio is None else f"{ratio:.3f}" for ratio in (row.ratio, row.steered_ratio)
        )
        last = [of_steered if row.emulated.values else f"{of_steered} *"] if steers else []
        name = f"{row.algorithm} †" if row.is_twin else row.algorithm
        table.add_row(name, row.metric, *texts, unit, of_kernel, verdicts[row.is_real], *last)
    remarks = []
    if any(row.steered.values and not row.emulated.values for row in found.rows):
        remarks.append("* The kernel does not have it: steered over simulated.")
    if any(row.is_twin for row in found.rows):
        remarks.append("† The kernel has not loaded it: our twin of it decides there (lasthop steer --twin).")
    return Group(table, *(Text(remark, style="dim") for remark in remarks)) if remarks else table


def render(content: RenderableType, width: int = 100) -> str:
    """Return what would be printed, as plain text."""
    from lasthop.visible import visible

    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False, markup=False)
    with console.capture() as capture:
        console.print(content)
    return "\n".join(visible(line.rstrip()) for line in capture.get().split("\n")).rstrip("\n")


def render_traffic(traffic: Traffic) -> str:
    """Return the statistics of a flow's frames as plain text."""
    return render(traffic_table(traffic), 120)


def _totals_table(records: Sequence[Mapping[str, Any]]) -> Table:
    table = simple_table("all flows")
    table.add_column("", justify="right")
    table.add_column("")
    for column in columns.declared("totals").values():
        value = stats.estimate(column.of(record["totals"]) for record in records)
        if not column.shown or value is None:
            continue
        # A flow that is alone shares with none.
        if column.name == "jain_index" and all(len(record["flows"]) < 2 for record in records):  # noqa: PLR2004
            continue
        (text,), prefixed = estimate_texts([value], column.shown_unit)
        if column.whole:
            prefixed = _of_whole([record["totals"] for record in records], column)
        table.add_row(column.heading, text, prefixed + _among(value, len(records)))
    return table


#: Classes of transfers by their length, by their group of columns in the totals.
LENGTHS = {"small": "up to 100 kB", "middle": "up to 1 MB", "large": "above 1 MB"}


def _length_tables(records: Sequence[Mapping[str, Any]]) -> list[RenderableType]:
    """Show completion times by the length of transfers, if they are of several classes."""
    known = [name for name in LENGTHS if any(record["totals"].get(name) for record in records)]
    if not known:
        return []
    parts = [TableColumn("transfers", [LENGTHS[name] for name in known])]
    wanted = {
        "transfers": "number",
        "finished": "finished",
        "completion_p50_s": "median",
        "completion_p95_s": "p95",
        "completion_p99_s": "p99",
    }
    for name, heading in wanted.items():
        found = [column for of in known if (column := columns.find("totals", f"{of}_{name}")) is not None]
        values = [stats.estimate(column.of(record["totals"]) for record in records) for column in found]
        parts.append(_numbers(found[0], values, heading, len(records)))
    return [Wide(parts)]


def _drawn_tables(records: Sequence[Mapping[str, Any]]) -> list[RenderableType]:
    """Show what the scenario left to chance, over seeds and flows."""
    drawn: dict[Column, list[float]] = defaultdict(list)
    for record in records:
        for table, rows in (("totals", [record["totals"]]), ("flows", record["flows"])):
            # Only some flows may have a value. Flows of one kind have the same names.
            known = dict.fromkeys(name for keys in dict.fromkeys(map(tuple, rows)) for name in keys)
            for name in known:
                if name.startswith(columns.DRAWN) and (column := columns.find(table, name)) is not None:
                    drawn[column] += [row[name] for row in rows if name in row]
    if not drawn:
        return []
    names = [column.name.removeprefix(columns.DRAWN) for column in drawn]
    parts = [
        TableColumn("drawn", names),
        TableColumn("values", [f"{len(one)}" for one in drawn.values()], "right"),
    ]
    from statistics import fmean

    figures: dict[str, Callable[[list[float]], float]] = {"least": min, "mean": fmean, "most": max}
    for heading, of in figures.items():
        texts = [quantity(of(values), column.unit) for column, values in drawn.items()]
        parts.append(TableColumn(heading, texts, "right"))
    return [Wide(parts)]


def _shown(table: str, group: str | None = None) -> list[Column]:
    """Columns of a table that are shown: those that every row has, or those of a group."""
    return [one for one in columns.declared(table).values() if one.shown and one.group == group]


def _flows_table(records: Sequence[Mapping[str, Any]]) -> RenderableType:
    flows = records[0]["flows"]
    if len(flows) > ROWS_MAX:
        return _grouped_flows_table(records)
    parts = [
        TableColumn("flow", [flow["name"] for flow in flows]),
        TableColumn("transport", [flow["transport"] for flow in flows]),
    ]
    for column in _shown("flows"):
        values = [
            stats.estimate(column.of(record["flows"][place]) for record in records)
            for place in range(len(flows))
        ]
        # What no flow has needs no column: a datagram has no RTT.
        if any(values):
            parts.append(_numbers(column, values, seeds=len(records)))
    return Wide(parts)


def _grouped_flows_table(records: Sequence[Mapping[str, Any]]) -> Table:
    """Per entry of the scenario: smallest, mean and largest flow, each averaged over the seeds."""
    members = arrived(records, range(len(records[0]["flows"])))
    return _grouped_table(records, members, _shown("flows"))


def _grouped_table(
    records: Sequence[Mapping[str, Any]],
    members: Iterable[int],
    shown: Iterable[Column],
    title: str | None = None,
) -> Table:
    """Smallest, mean and largest of these flows per entry, without what none of its flows has."""
    table = simple_table("flows", title)
    table.add_column("per flow")
    for column in ("min", "mean", "max"):
        table.add_column(column, justify="right")
    table.add_column("")
    for group in group_flows(records[0]["flows"], members):
        name = group.label
        of_seeds = rows_of(records, group.members)
        for one in shown:
            values = [one.of_all(rows) for rows in of_seeds]
            if all(value is None for of_seed in values for value in of_seed):
                continue
            mark = unfinished(values, one)
            heading = f"{one.heading} ({mark})" if mark else one.heading
            table.add_row(name, heading, *_spread(values, one.shown_unit))
            name = ""
        table.add_section()
    return table


#: What only some flows have, by its group of columns: the title of its table.
PARTS = {
    "realtime": "real-time",
    "call": "video calls",
    "voice": "voice calls",
    "repair": "repairs",
    "split": "split connections",
    "player": "video on demand",
    "web": "web pages",
    "class": "flows of a class",
}


def _part_tables(records: Sequence[Mapping[str, Any]]) -> list[RenderableType]:
    """Show what applications say of the flows that have it: a table per kind."""
    return [table for group, title in PARTS.items() for table in _part_table(records, group, title)]


def _part_table(records: Sequence[Mapping[str, Any]], group: str, title: str) -> list[RenderableType]:
    flows = records[0]["flows"]
    measured = [index for index, flow in enumerate(flows) if flow.get(group) is not None]
    if not measured:
        return []

    def values(index: int, column: Column) -> list[float | None]:
        return [column.of(record["flows"][index]) for record in records]

    shown = [
        column
        for column in _shown("flows", group)
        if any(one is not None for index in measured for one in values(index, column))
    ]
    table: Table | Wide
    if len(measured) > ROWS_MAX:
        table = _grouped_table(records, measured, shown, title)
    else:
        parts = [
            TableColumn("flow", [flows[index]["name"] for index in measured]),
            TableColumn("transport", [flows[index]["transport"] for index in measured]),
        ]
        parts += [
            _numbers(
                column, [stats.estimate(values(index, column)) for index in measured], seeds=len(records)
            )
            for column in shown
        ]
        table = Wide(parts, title=title)
    if group == "realtime":
        table.caption = _realtime_caption(flows[measured[0]]["realtime"]["options"])
    return [table]


def _realtime_caption(options: Mapping[str, Any]) -> str:
    """Say by which definitions the packets were told apart."""
    neighbours = {
        "next-lower": "the packet before it that arrived",
        "literal": "the packet before it",
        "last-arrival": "the packet before it, or else the last to arrive",
    }
    neighbour = neighbours.get(options["missing"], options["missing"])
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
    kinds: dict[str, list[Column]] = defaultdict(list)
    for belief in columns.declared("flows").values():
        if belief.group == "loss_verdicts":
            kinds[belief.path[1]].append(belief)
    for transport, members in groups.items():
        name = f"{len(members)} x {transport}" if len(members) > 1 else transport
        for kind, beliefs in kinds.items():
            values = [
                stats.estimate(
                    sum(belief.of(record["flows"][index]) for index in members) for record in records
                )
                for belief in beliefs
            ]
            table.add_row(name, kind, *(estimate_text(value, 1.0) for value in values))
            name = ""
        table.add_section()
    return [table]


def _links_table(records: Sequence[Mapping[str, Any]]) -> RenderableType:
    groups: dict[str, list[int]] = defaultdict(list)
    links = records[0]["links"]
    for index, link in enumerate(links):
        name = link["name"]
        groups[re.sub(r"-\d+(?= \(reverse\)$|$)", "-*", name) if len(links) > ROWS_MAX else name].append(
            index
        )
    parts = [
        TableColumn(
            "link",
            [f"{len(members)} x {name}" if len(members) > 1 else name for name, members in groups.items()],
        )
    ]
    shown = [
        column
        for column in columns.declared("links").values()
        if column.shown
        and (column.group is None or any(link.get(column.group) is not None for link in links))
    ]
    for column in shown:
        values = [
            stats.estimate(
                _combined(column, [column.of(record["links"][index]) for index in members])
                for record in records
            )
            for members in groups.values()
        ]
        parts.append(_numbers(column, values))
    table = Wide(parts)
    notes = _shared_queues(links)
    if len(groups) < len(links):
        notes.append("links in groups: mean of the means, max of the maxima, sum of the drops")
    table.caption = "\n".join(notes) or None
    return table


def _shared_queues(links: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say which row tells of the queue that several links share.

    Examples
    --------
    >>> rows = [{"name": "a"}, {"name": "b", "queue_of": "a"}, {"name": "c", "queue_of": "a"}]
    >>> _shared_queues(rows)
    ['one queue serves a and 2 other links: its mean and its max are in the row of a']
    """
    others = Counter(link["queue_of"] for link in links if link.get("queue_of"))
    return [
        f"one queue serves {told} and {count} other link{'s' if count > 1 else ''}: its mean and its max are "
        f"in the row of {told}"
        for told, count in others.items()
    ]


def _numbers(
    column: Column, values: Sequence[Estimate | None], heading: str | None = None, seeds: int | None = None
) -> TableColumn:
    """Column of estimates in one common unit, which stands in its heading; each should be of `seeds`."""
    texts, prefixed = estimate_texts(values, column.shown_unit)
    if seeds is not None:
        texts = [text + _among(one, seeds) for text, one in zip(texts, values, strict=True)]
    heading = heading or column.heading
    return TableColumn(f"{heading}\n{prefixed}" if prefixed else heading, texts, "right")


def _combined(column: Column, values: list[float | None]) -> float | None:
    """One figure for a group of links."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    if column.name.startswith("max_"):
        return max(known)
    return sum(known) if column.over == "sum" else stats.mean(known)


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
    length = f"{number:,} frames at {number_text(traffic.frame_rate)}/s"
    (rate, deviation), unit = estimate_texts([traffic.rate_bit_s, traffic.rate_sd_bit_s], "bit/s")
    table = simple_table("")
    for series in traffic.series:
        table.add_column(series, justify="right", no_wrap=True)
    counts = [stats.mean(traffic.values(series, "count")) or 0.0 for series in traffic.series]
    table.add_row("number", *(f"{count:,.0f}" for count in counts))
    rows = [*TRAFFIC_ROWS, *((f"acf_{lag}", f"ACF at {lag}", 1.0) for lag in traffic.lags)]
    for column, label, factor in rows:
        estimates = [traffic.estimate(series, column) for series in traffic.series]
        table.add_row(label, *(estimate_text(one, factor) for one in estimates))
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


class TableColumn(NamedTuple):
    """A column of a `Wide` table; numbers stand at the right and are never cut."""

    heading: str | Text
    texts: Sequence[str | Text]
    justify: JustifyMethod = "left"


class Wide:
    """A table that goes on below itself where it is too wide: names may be broken, numbers are whole.

    Parameters
    ----------
    parts : sequence of TableColumn
        Those at the left, which say what a row is, stand in each part of the table; so does a last one of
        units, which has no heading.
    title : str, optional
        Above the table.
    """

    def __init__(self, parts: Sequence[TableColumn], title: str | None = None) -> None:
        self._title = title
        numbers = [place for place, part in enumerate(parts) if part.justify == "right"]
        first, behind = (numbers[0], numbers[-1] + 1) if numbers else (len(parts), len(parts))
        self._head, self._middle, self._tail = parts[:first], parts[first:behind], parts[behind:]
        #: Below the last part.
        self.caption: str | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Give as many tables as the width asks for."""
        wide = options.update(max_width=WIDEST)
        names = Measurement.get(console, wide, self._table([]))
        # Names that leave room for numbers are whole as well; others are broken.
        broken = names.maximum > options.max_width / 2
        saved = names.maximum - names.minimum if broken else 0
        groups: list[list[TableColumn]] = [[]]
        for part in self._middle:
            wanted = self._table([*groups[-1], part], broken=broken)
            least = Measurement.get(console, wide, wanted).maximum - saved
            if groups[-1] and least > options.max_width:
                groups.append([])
            groups[-1].append(part)
        for place, group in enumerate(groups):
            table = self._table(group, broken=broken)
            table.title = self._title if place == 0 else None
            table.caption = self.caption if place == len(groups) - 1 else None
            yield table

    def _table(self, middle: Sequence[TableColumn], *, broken: bool = False) -> Table:
        table = simple_table("")
        shown = [*self._head, *middle, *self._tail]
        for part in shown:
            whole = part.justify == "right" or not broken
            overflow: OverflowMethod = "ellipsis" if part.justify == "right" else "fold"
            table.add_column(part.heading, justify=part.justify, no_wrap=whole, overflow=overflow)
        for row in zip(*(part.texts for part in shown), strict=True):
            table.add_row(*row)
        return table


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
