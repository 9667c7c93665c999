"""Arguments that several verbs of the command share: options, and what a shell completes.

An option that two verbs have with the same meaning is declared here, once; what a single verb has stands
there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperCommand

from lasthop import api, output
from lasthop.arguments import complete_tables
from lasthop.completion import complete_settings


class JsonCommand(TyperCommand):
    """A command whose `--json` may stand alone, which then means standard output."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Insert ``-`` after a `--json` that has no value, where it takes one."""
        if any("--json" in one.opts and getattr(one, "is_flag", False) for one in self.params):
            return super().parse_args(ctx, args)
        complete = []
        # What stands behind a bare -- belongs to another program.
        own = args.index("--") if "--" in args else len(args)
        for index, word in enumerate(args):
            complete.append(word)
            following = args[index + 1] if index + 1 < len(args) else "--"
            if index < own and word == "--json" and following.startswith("-") and following != "-":
                complete.append("-")
        return super().parse_args(ctx, complete)


def complete_transports(incomplete: str) -> list[str]:
    """Return what a list of transports may go on with, for the shell.

    Examples
    --------
    >>> complete_transports("reno,veg")
    ['reno,vegas']
    """
    before, comma, begun = incomplete.rpartition(",")
    kinds = ("preset", "rate", "stack")
    names = [one["name"] for one in api.transports() if one["kind"] in kinds and one["name"] != "udp"]
    return [f"{before}{comma}{name}" for name in names if name.startswith(begun)]


def complete_helpers(incomplete: str) -> list[str]:
    """Return what a list of helpers may go on with, for the shell.

    Examples
    --------
    >>> complete_helpers("none,sn")
    ['none,snoop']
    """
    before, comma, begun = incomplete.rpartition(",")
    names = ["none", *(one["name"] for one in api.helpers())]
    return [f"{before}{comma}{name}" for name in names if name.startswith(begun)]


def complete_formats(incomplete: str) -> list[str]:
    """Return the formats of stored tables that begin so."""
    return [name for name in output.FORMATS if name.startswith(incomplete)]


SCENARIO_HELP = "Scenario file (TOML or JSON)."

ScenarioFile = Annotated[str, typer.Argument(metavar="FILE", help=SCENARIO_HELP, show_default=False)]

ScenarioFileIfAny = Annotated[
    str | None, typer.Argument(metavar="FILE", help=SCENARIO_HELP, show_default=False)
]

JsonOption = Annotated[
    str | None,
    typer.Option("--json", metavar="FILE|-", help="Write one JSON object to FILE or standard output (-)."),
]

OutOption = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Folder for all results and tables.")
]

PlotOption = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Draw it: .png, .svg, .pdf or .html.")
]

SeedOption = Annotated[
    int | None, typer.Option("--seed", metavar="N", help="Seed; the scenario's own if not given.")
]

FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="NAME",
        help="Tables as parquet, csv or arrow.",
        autocompletion=complete_formats,
    ),
]

SeriesOption = Annotated[
    bool, typer.Option("--series", help="With --out: windows, queues and rates over time.")
]

TraceOption = Annotated[
    bool,
    typer.Option("--trace", help="With --out: every packet, and a pcapng of what the senders' hosts see."),
]

VirtualOption = Annotated[
    bool,
    typer.Option("--virtual", help="The kernel of a virtual machine in virtual time ('make kernel-guest')."),
]

ForceOption = Annotated[bool, typer.Option("--force", help="Replace an existing run, comparison or file.")]

StyleOption = Annotated[
    str,
    typer.Option(
        "--style", metavar="NAME", help="screen, or paper: .pdf or .svg as wide as a journal's column."
    ),
]
BesideOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--beside", metavar="FILE", help="Results of iperf3 (--json) or flent beside it; repeatable."
    ),
]

SeedsOption = Annotated[
    str | None, typer.Option("--seeds", metavar="LIST", help="Seeds to run: 1-10 or 1,3,5-7.")
]

SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a value: flows.0.transport=vegas.",
        autocompletion=complete_settings,
    ),
]

JobsOption = Annotated[
    int | None, typer.Option("--jobs", min=1, metavar="N", help="Parallel runs; one per core if not given.")
]

TrustOption = Annotated[
    bool, typer.Option("--trust", help="Run the Python code that files name: FILE.py:CLASS.")
]

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")]

PrintJsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]

ReplaceFileOption = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]

ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        "--law",
        metavar="NAME",
        help="Show a closed-form model beside it: mathis, tfrc, padhye.",
        show_default=False,
    ),
]

#: What ``--table`` of comparisons and studies says.
TABLE_HELP = "Print a table for a paper: latex, markdown, csv, html."

TableOption = Annotated[
    str | None,
    typer.Option("--table", metavar="NAME", help=TABLE_HELP, autocompletion=complete_tables),
]

HistoryText = Annotated[
    Path, typer.Argument(metavar="FILE", help="Ends in .csv or .json.", show_default=False)
]
