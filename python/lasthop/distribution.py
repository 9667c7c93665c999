"""Distributions as curves: which share of flows, intervals or packets has at most a value (CDF).

Called by `Run.plot`, `Comparison.plot` and ``lasthop plot`` with ``cdf``. Draws as `lasthop.plot` does.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lasthop import columns
from lasthop.errors import ArgumentError
from lasthop.flow_groups import took_part

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import polars as pl
    from matplotlib.figure import Figure

    from lasthop.comparison import Comparison
    from lasthop.drawing import Picture
    from lasthop.results import Run

#: What transfers took; some do not finish.
COMPLETION = "completion_s"
#: The delay of each packet, which the trace tells.
PACKET_DELAY = "packet_delay_s"
#: How the transport of a flow over a real stack begins.
STACK = "^(quinn|noq|smoltcp)"
#: What a picture without a single value is answered with.
WITHOUT = "no flow has one in what was measured; name another quantity, or measure for longer"
#: What a curve counts, by the table of its column.
COUNTED = {"flows": "flows", "flow_series": "intervals", "hops": "packets"}


@dataclass(frozen=True, slots=True)
class Sample:
    """The values of one curve."""

    label: str
    sender: str
    values: list[float]
    #: Transfers that did not finish: they belong to the whole, and have no value.
    missing: int = 0

    @property
    def named(self) -> str:
        """The label and how many there are."""
        whole = len(self.values) + self.missing
        counted = f"{len(self.values):,} of {whole:,}" if self.missing else f"{whole:,}"
        return f"{self.label} ({counted})"


@dataclass(frozen=True, slots=True)
class Quantity:
    """What is distributed: a column of flows or of their series, or the delay of packets."""

    table: str
    name: str
    label: str
    unit: str


def quantity(name: str) -> Quantity:
    """Return the quantity of a name, with its unit or without.

    Raises
    ------
    ArgumentError
        There is none; the text lists some.

    Examples
    --------
    >>> quantity("goodput").name, quantity("rtt_s").table, quantity("packet_delay").table
    ('goodput_bit_s', 'flow_series', 'hops')
    """
    if name in (PACKET_DELAY, columns.without_unit(PACKET_DELAY)):
        return Quantity("hops", PACKET_DELAY, "one-way delay of packets", "s")
    for table in ("flows", "flow_series"):
        for column in columns.declared(table).values():
            if name in (column.name, columns.without_unit(column.name)) and column.is_number:
                return Quantity(table, column.name, column.label or column.name, column.unit)
    raise ArgumentError(
        f"'{name}' has no distribution: there are the columns of flows, such as goodput and "
        "delay_p95; with --series those of flow_series, such as rtt and throughput; with --trace packet_delay"
    )


def of_run(run: Run, name: str, label: str | None = None) -> list[Sample]:
    """Return the values of a run: a sample per sender, or a single one called `label`."""
    from lasthop.drawing import marks_of
    from lasthop.extras import pl

    wanted = quantity(name)
    flows = run.flows
    if wanted.table == "flows":
        values = _numbers(flows, wanted, run.seed).select(pl.col("name").alias("flow"), wanted.name)
    elif wanted.table == "flow_series":
        after = pl.col("time_s") > marks_of(run.scenario, run.seed).warmup_s
        values = _numbers(run.series, wanted, run.seed).filter(after).select("flow", wanted.name)
    else:
        # The datagrams of a real stack have one kind in both directions.
        stacks = flows.filter(pl.col("transport").str.contains(STACK))["name"].to_list()
        values = _delays(run.hops, stacks)
    late = _unfinished(flows.to_dicts()) if wanted.name == COMPLETION else Counter[str]()
    told = values.drop_nulls().join(
        flows.select(pl.col("name").alias("flow"), "transport"), on="flow", maintain_order="left"
    )
    groups = told.group_by("transport", maintain_order=True)
    if label is not None:
        senders = [sender for (sender,), _ in groups]
        sender = str(senders[0]) if len(senders) == 1 else label
        return [Sample(label, sender, told[wanted.name].cast(pl.Float64).to_list(), late.total())]
    return [
        Sample(str(sender), str(sender), table[wanted.name].cast(pl.Float64).to_list(), late[str(sender)])
        for (sender,), table in groups
    ]


def _unfinished(flows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Count, by transport, the transfers that came and did not finish."""
    return Counter(
        str(flow["transport"])
        for flow in flows
        if flow.get(COMPLETION) is None and flow.get("transfer_bytes") is not None and took_part(flow)
    )


def of_comparison(comparison: Comparison, name: str) -> list[Sample]:
    """Return the values of each transport of a comparison, over its flows and seeds."""
    from lasthop.drawing import marks_of
    from lasthop.extras import pl

    wanted = quantity(name)
    if wanted.table == "hops":
        raise ArgumentError("a comparison keeps no packets: run each with --trace, and give the folders")
    if wanted.table == "flows":
        samples = []
        for transport in comparison.transports:
            flows = [flow for record in comparison.runs[transport] for flow in record["flows"]]
            late = _unfinished(flows).total() if wanted.name == COMPLETION else 0
            samples.append(Sample(transport, transport, _known(flows, wanted.name), late))
        return samples
    after = pl.col("time_s") > marks_of(comparison.scenario, comparison.seeds[0]).warmup_s
    series = comparison.series.filter(after)
    return [
        Sample(
            transport,
            transport,
            series.filter(pl.col("transport") == transport)[wanted.name]
            .drop_nulls()
            .cast(pl.Float64)
            .to_list(),
        )
        for transport in comparison.transports
    ]


def _known(flows: Iterable[Mapping[str, Any]], name: str) -> list[float]:
    values = (flow.get(name) for flow in flows)
    return [float(value) for value in values if isinstance(value, int | float)]


def _numbers(table: pl.DataFrame, wanted: Quantity, seed: int) -> pl.DataFrame:
    if wanted.name not in table.columns:
        raise ArgumentError(f"the run with seed {seed} has no {wanted.name}")
    return table


def _delays(hops: pl.DataFrame, stacks: Sequence[str]) -> pl.DataFrame:
    """Return how long each packet with data was under way, of those that came to their end.

    Datagrams are data, but for those of real stacks.
    """
    from lasthop.extras import pl

    is_datagram = (pl.col("kind") == "udp") & ~pl.col("flow").is_in(stacks)
    data = hops.filter((pl.col("kind") == "data") | is_datagram)
    packets = data.group_by("flow", "packet", maintain_order=True).agg(
        ((pl.col("arrive_ns").max() - pl.col("enqueue_ns").min()) / 1e9).alias(PACKET_DELAY),
        pl.len().alias("hops"),
        (pl.col("outcome") == "delivered").all().alias("whole"),
    )
    # The path of a packet that came to its end is the longest of its flow.
    done = pl.col("whole") & (pl.col("hops") == pl.col("hops").max().over("flow"))
    return packets.filter(done).select("flow", PACKET_DELAY)


def draw(samples: Sequence[Sample], name: str, title: str, *paths: str | Path) -> Picture:
    """Draw a curve per sample."""
    from lasthop import drawing

    wanted = quantity(name)
    full = [sample for sample in samples if sample.values]
    if not full:
        raise ArgumentError(f"there is no value of {name} here: {WITHOUT}")
    figure = _figure(full, wanted, title)
    drawing.draw(paths, lambda: figure, lambda: _page(full, wanted, title))
    return drawing.Picture(figure)


def _steps(sample: Sample, factor: float) -> tuple[list[float], list[float]]:
    """Return the corners of the curve: at each value the share that has at most it.

    Examples
    --------
    >>> _steps(Sample("web", "cubic", [2.0, 1.0], missing=2), 1.0)
    ([1.0, 1.0, 2.0], [0.0, 0.25, 0.5])
    """
    values = sorted(sample.values)
    whole = len(values) + sample.missing
    return [values[0] / factor, *(value / factor for value in values)], [
        step / whole for step in range(len(values) + 1)
    ]


def _scale(samples: Sequence[Sample], wanted: Quantity) -> tuple[float, str]:
    from lasthop.quantities import prefix_for

    factor, unit = prefix_for(max(abs(value) for sample in samples for value in sample.values), wanted.unit)
    return factor, f"{wanted.label} ({unit})" if unit else wanted.label


def _figure(samples: Sequence[Sample], wanted: Quantity, title: str) -> Figure:
    from matplotlib.figure import Figure

    from lasthop.drawing import COLOURS, MATPLOTLIB_DASHES, styles

    factor, label = _scale(samples, wanted)
    chosen = styles(sample.sender for sample in samples)
    figure = Figure(figsize=(7.2, 4.5), layout="constrained")
    axes = figure.subplots()
    for sample in samples:
        style = chosen[sample.sender]
        axes.step(
            *_steps(sample, factor),
            where="post",
            color=COLOURS[style % len(COLOURS)],
            linestyle=MATPLOTLIB_DASHES[style % len(MATPLOTLIB_DASHES)],
            label=sample.named,
        )
    axes.set_xlabel(label)
    axes.set_ylabel(f"share of {COUNTED[wanted.table]} with at most this value")
    axes.set_ylim(0, 1)
    axes.grid(visible=True, color="#e6e6e6", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    figure.suptitle(f"{title}: distribution of {wanted.label}", fontsize=11)
    return figure


def _page(samples: Sequence[Sample], wanted: Quantity, title: str) -> Any:  # noqa: ANN401 - untyped
    import plotly.graph_objects as go

    from lasthop.drawing import COLOURS, styles

    factor, label = _scale(samples, wanted)
    chosen = styles(sample.sender for sample in samples)
    page = go.Figure()
    for sample in samples:
        x, y = _steps(sample, factor)
        colour = COLOURS[chosen[sample.sender] % len(COLOURS)]
        page.add_scatter(x=x, y=y, name=sample.named, line={"shape": "hv", "color": colour})
    share = f"share of {COUNTED[wanted.table]} with at most this value"
    page.update_layout(
        title=f"{title}: distribution of {wanted.label}",
        template="plotly_white",
        xaxis_title=label,
        yaxis_title=share,
    )
    page.update_yaxes(range=[0, 1])
    return page
