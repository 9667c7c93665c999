"""Simulations: `run` and `compare`."""

from __future__ import annotations

from typing import Annotated

import typer

from lasthop import output
from lasthop.arguments import complete_metrics, parse_names, parse_seeds
from lasthop.commands.deliver import (
    advise,
    check_plot,
    compared,
    deliver_comparison,
    measured_files,
    open_scenario,
    split_names,
    targets,
)
from lasthop.commands.options import (
    BesideOption,
    ForceOption,
    FormatOption,
    JobsOption,
    JsonOption,
    ModelOption,
    OutOption,
    PlotOption,
    ScenarioFile,
    SeedOption,
    SeedsOption,
    SeriesOption,
    SetOption,
    TableOption,
    TraceOption,
    TrustOption,
    complete_helpers,
    complete_transports,
)
from lasthop.commands.running import run_scenario
from lasthop.errors import ArgumentError
from lasthop.terminal import note, user_errors


def run(
    file: ScenarioFile,
    seed: SeedOption = None,
    seeds: SeedsOption = None,
    settings: SetOption = None,
    json_file: JsonOption = None,
    out: OutOption = None,
    series: SeriesOption = False,
    trace: TraceOption = False,
    capture_at: Annotated[
        list[str] | None,
        typer.Option(
            "--capture-at",
            metavar="PLACE",
            help="With --out: a pcapng of a node, a link, 'senders', 'links' or the 'air'; repeatable.",
        ),
    ] = None,
    qlog: Annotated[
        bool,
        typer.Option("--qlog", help="With --out: as --trace, and a qlog of each flow of TCP or QUIC."),
    ] = False,
    jobs: JobsOption = None,
    table_format: FormatOption = "parquet",
    trust: TrustOption = False,
    force: ForceOption = False,
) -> None:
    """Run a scenario and show flows and links.

    Several seeds run on all cores; the table then shows means with 95 % intervals.
    """
    run_scenario(
        file,
        seed=seed,
        seeds=seeds,
        settings=settings,
        json_file=json_file,
        out=out,
        series=series,
        trace=trace,
        capture_at=capture_at,
        qlog=qlog,
        jobs=jobs,
        table_format=table_format,
        trust=trust,
        force=force,
    )


def compare(
    file: ScenarioFile,
    transport: Annotated[
        str | None,
        typer.Option(
            "--transport",
            metavar="NAMES",
            help="Transports: reno,newreno,sack,vegas, or FILE.py:CLASS.",
            show_default=False,
            autocompletion=complete_transports,
        ),
    ] = None,
    helpers: Annotated[
        str | None,
        typer.Option(
            "--helpers",
            metavar="NAMES",
            help="Helpers in the network: none,snoop,arq+snoop; with several transports, every combination.",
            show_default=False,
            autocompletion=complete_helpers,
        ),
    ] = None,
    law: ModelOption = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="LINK",
            help="Where helpers are placed; if not given, before each link that loses packets.",
        ),
    ] = None,
    seeds: SeedsOption = "1-10",
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="NAME",
            help="Baseline of the comparison; the first one if not given.",
        ),
    ] = None,
    beside: BesideOption = None,
    settings: SetOption = None,
    json_file: JsonOption = None,
    out: OutOption = None,
    plot_file: PlotOption = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="Compare by this metric, or by NAME@LINK; may be repeated. 'lasthop metrics' lists them.",
            autocompletion=complete_metrics,
        ),
    ] = None,
    series: Annotated[
        bool,
        typer.Option("--series", help="Also windows over time: stored in --out, drawn by --plot."),
    ] = False,
    table: TableOption = None,
    jobs: JobsOption = None,
    table_format: FormatOption = "parquet",
    trust: TrustOption = False,
    force: ForceOption = False,
) -> None:
    """Compare transports, or helpers in the network (PEPs), over the same channel, seed by seed.

    Every flow that is not UDP uses each transport in turn, with each helper. Differences are paired by
    seed, and have 95 % intervals and a verdict.
    """
    with user_errors():
        files = measured_files(beside)
        scenario = open_scenario(file, settings, trust=trust)
        if transport is None and helpers is None:
            raise ArgumentError("nothing to compare: give --transport reno,vegas, or --helpers none,snoop")
        names = [] if transport is None else parse_names("--transport", transport)
        helped = [] if helpers is None else parse_names("--helpers", helpers)
        if table is not None:
            from lasthop.formats import check_table_format

            check_table_format(table)
        lack = None if plot_file is None else check_plot(plot_file)
        if series and out is None and plot_file is None:
            raise ArgumentError("--series draws and keeps windows over time: say where with --plot or --out")
        with targets(file, json_file, out, table_format, force=force):
            advise(scenario)
            comparison, interrupted = compared(
                scenario,
                names,
                parse_seeds(seeds or "1-10"),
                baseline=baseline,
                jobs=jobs,
                metrics=split_names(metrics),
                series=series,
                helpers=helped,
                at=at,
                law=law,
            )
            if out is not None:
                output.save_comparison(comparison, out, table_format, held=True)
            if plot_file is not None and lack is None:
                comparison.plot(plot_file)
            deliver_comparison(comparison, json_file, table, files)
        for place in (out, plot_file if lack is None else None):
            if place is not None:
                note(f"written: {place}")
        if interrupted is not None:
            raise interrupted
        if lack is not None:
            raise ArgumentError(f"'{plot_file}' is not written: {lack}")
