"""The `lasthop` command: reads arguments, calls the API, prints. Commands only; the work is done elsewhere.

A user's mistake prints one message on stderr and exits with 2, a failed run with 1, Ctrl-C with 130.
"""

from __future__ import annotations

import json
import re
import shlex
import signal
import sys
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from lasthop import _native, api, output, terminal
from lasthop.arguments import (
    complete_metrics,
    complete_papers,
    complete_ready,
    complete_tables,
    parse_names,
    parse_numbers,
    parse_seeds,
    parse_settings,
)
from lasthop.errors import ArgumentError, Interrupted, OutputError, RunError
from lasthop.places import refuse_other, reserved
from lasthop.progress import shown_progress
from lasthop.results import Runs
from lasthop.sources import LONGEST_TEXT
from lasthop.stand_ins import unexecuted
from lasthop.studies.command import study_app
from lasthop.terminal import (
    EXIT_CUT_OFF,
    EXIT_INTERRUPTED,
    EXIT_INVALID,
    EXIT_RUN,
    WIDTH_OF_NO_TERMINAL,
    JobsOption,
    SeedsOption,
    SetOption,
    TrustOption,
    drop_lost_notes,
    drop_output,
    exit_code_of,
    heed_lost_interrupts,
    live_codes,
    tell_warnings,
    use_columns_that_make_sense,
    visible,
    write_what_can_be_written,
)
from lasthop.terminal import note as _note
from lasthop.terminal import print_content as _print
from lasthop.terminal import say as _say
from lasthop.terminal import user_errors as _user_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lasthop.api import Scenario
    from lasthop.comparison import Comparison
    from lasthop.papers.reproduce import Plan
    from lasthop.results import Run

#: Files of a bundle that are named.
BUNDLE_SHOWN = 20


class Group(TyperGroup):
    """The command, which refuses arguments that are empty: as a name of a folder they would mean this one."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Refuse empty arguments before ``--``; behind it they are those of another program."""
        own = args[: args.index("--")] if "--" in args else args
        for before, argument in zip(["", *own], own, strict=False):
            named = before if argument == "" else argument.removesuffix("=")
            if argument == "" or re.fullmatch(r"--[a-z-]+=", argument):
                what = f"{named} has an empty value" if named.startswith("-") else "an argument is empty"
                with _user_errors():
                    raise ArgumentError(f"{what}: name something, or leave it out")
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=Group,
    name="lasthop",
    help="Which transport serves best over a wireless last hop? Simulates TCP senders packet by packet.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with 'lasthop new', then 'lasthop run scenario.toml'.",
)


class JsonCommand(TyperCommand):
    """A command whose `--json` may stand alone, which then means standard output."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Insert ``-`` after a `--json` that has no value."""
        complete = []
        # What stands behind a bare -- belongs to another program.
        own = args.index("--") if "--" in args else len(args)
        for index, word in enumerate(args):
            complete.append(word)
            following = args[index + 1] if index + 1 < len(args) else "--"
            if index < own and word == "--json" and following.startswith("-") and following != "-":
                complete.append("-")
        return super().parse_args(ctx, complete)


history_app = typer.Typer(
    name="history",
    help="Manage a history of paths: the file that the table history of a scenario names.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(history_app)
app.add_typer(study_app)


def complete_transports(incomplete: str) -> list[str]:
    """Return what a list of transports may go on with, for the shell.

    Examples
    --------
    >>> complete_transports("reno,veg")
    ['reno,vegas']
    """
    before, comma, begun = incomplete.rpartition(",")
    kinds = ("preset", "rate")
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


HistoryFile = Annotated[
    Path,
    typer.Argument(
        metavar="HISTORY", help="The file that the table history of a scenario names.", show_default=False
    ),
]
ScenarioFile = Annotated[
    str, typer.Argument(metavar="FILE", help="Scenario file (TOML or JSON).", show_default=False)
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


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - the form typer asks for
    if wanted:
        _say(f"lasthop {_native.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take the options that stand before a command."""


@app.command(cls=JsonCommand)
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
    jobs: JobsOption = None,
    table_format: FormatOption = "parquet",
    trust: TrustOption = False,
    force: ForceOption = False,
) -> None:
    """Run a scenario and show flows and links.

    Several seeds run on all cores; the table then shows means with 95 % intervals.
    """
    with _user_errors():
        scenario = _open(file, settings, trust=trust)
        if seed is not None and seeds is not None:
            raise ArgumentError("--seed and --seeds exclude each other: give one")
        wanted = [scenario.seed if seed is None else seed] if seeds is None else parse_seeds(seeds)
        _check_recording(out, series=series, trace=trace, capture_at=capture_at)
        places = capture_at or None
        api.check_seeds(wanted)
        api.check_places(scenario, places, spooled=True, trace=trace)
        with _targets(file, json_file, out, table_format, force=force):
            _advise(scenario)
            try:
                with shown_progress("seeds") as observer:
                    runs = api.run_seeds(
                        scenario,
                        wanted,
                        series=series,
                        trace=trace,
                        jobs=jobs,
                        observer=observer,
                        spool=out,
                        capture_at=places,
                    )
            except RunError as error:
                _deliver_runs(error.finished, json_file, out, table_format, wanted)
                raise _with_whereabouts(error, out) from None
            _deliver_runs(runs, json_file, out, table_format, wanted)
        if out is not None:
            _note(f"results in {out}")


@app.command(cls=JsonCommand)
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
    law: Annotated[
        str | None,
        typer.Option(
            "--model",
            "--law",
            metavar="NAME",
            help="Show a closed-form model beside it: mathis, tfrc, padhye.",
            show_default=False,
        ),
    ] = None,
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
            help="The one that the others are compared with; the first if not given.",
        ),
    ] = None,
    settings: SetOption = None,
    json_file: JsonOption = None,
    out: OutOption = None,
    plot_file: PlotOption = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="Compare by this metric; may be repeated. 'lasthop metrics' lists them.",
            autocompletion=complete_metrics,
        ),
    ] = None,
    series: Annotated[
        bool,
        typer.Option("--series", help="Also windows over time: stored in --out, drawn by --plot."),
    ] = False,
    table: Annotated[
        str | None,
        typer.Option(
            "--table",
            metavar="NAME",
            help="Print a table for a paper: latex, markdown, csv, html.",
            autocompletion=complete_tables,
        ),
    ] = None,
    jobs: JobsOption = None,
    table_format: FormatOption = "parquet",
    trust: TrustOption = False,
    force: ForceOption = False,
) -> None:
    """Compare transports, or helpers in the network (PEPs), over the same channel, seed by seed.

    Every flow that is not UDP uses each transport in turn, with each helper. Differences are paired by
    seed, and have 95 % intervals and a verdict.
    """
    with _user_errors():
        scenario = _open(file, settings, trust=trust)
        if transport is None and helpers is None:
            raise ArgumentError("nothing to compare: give --transport reno,vegas, or --helpers none,snoop")
        names = [] if transport is None else parse_names("--transport", transport)
        helped = [] if helpers is None else parse_names("--helpers", helpers)
        if table is not None:
            from lasthop.formats import check_table_format

            check_table_format(table)
        if plot_file is not None:
            from lasthop.plot import check_paths

            check_paths([plot_file])
        if series and out is None and plot_file is None:
            raise ArgumentError("--series draws and keeps windows over time: say where with --plot or --out")
        with _targets(file, json_file, out, table_format, force=force):
            _advise(scenario)
            comparison, interrupted = _compared(
                scenario,
                names,
                parse_seeds(seeds or "1-10"),
                baseline=baseline,
                jobs=jobs,
                metrics=_split_names(metrics),
                series=series,
                helpers=helped,
                at=at,
                law=law,
            )
            if out is not None:
                output.save_comparison(comparison, out, table_format, held=True)
            if plot_file is not None:
                comparison.plot(plot_file)
            _deliver_comparison(comparison, json_file, table)
        for place in (out, plot_file):
            if place is not None:
                _note(f"written: {place}")
        if interrupted is not None:
            raise interrupted


@app.command()
def plot(
    places: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Folder written by --out, or a scenario file; several folders are drawn in one figure.",
            show_default=False,
        ),
    ],
    out: Annotated[
        list[Path] | None, typer.Option("--out", metavar="FILE", help="Ends in .png, .svg, .pdf or .html.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Which seed; the first if not given.")
    ] = None,
    law: Annotated[
        str | None,
        typer.Option(
            "--model",
            "--law",
            metavar="NAME",
            help="Draw a closed-form model over the throughput: mathis, tfrc, padhye, padhye-approximate.",
        ),
    ] = None,
    cdf: Annotated[
        str | None,
        typer.Option(
            "--cdf",
            metavar="NAME",
            help="Draw a distribution: goodput of flows, rtt over time (--series), packet_delay (--trace).",
        ),
    ] = None,
    settings: SetOption = None,
    trust: TrustOption = False,
) -> None:
    """Draw window, queue, throughput and RTT over time, or a comparison.

    Without --out, both a PNG and an interactive HTML page are written: into the first folder, or for a
    scenario file into the current one. An existing figure is replaced.
    """
    with _user_errors():
        from lasthop.plot import check_paths, plot_distribution, plot_overlay, track_of

        first = places[0]
        is_file = first.is_file()
        if len(places) > 1 and any(place.is_file() for place in places):
            raise ArgumentError("several runs are laid over each other by their folders, not by files")
        drawing = "plot" if len(places) == 1 else "overlay"
        stem = Path(first.stem) if is_file else first / (drawing if cdf is None else "cdf")
        paths = (
            check_paths(out or [stem.with_suffix(".png"), stem.with_suffix(".html")])
            if out or first.exists()
            else []
        )
        known = {path for path in paths if path.is_file()}
        if not is_file and settings:
            raise ArgumentError("--set changes a scenario: it needs a scenario file, not the folder of a run")
        _check_drawing(law, cdf, alone=len(places) == 1 and (is_file or not output.is_comparison(first)))
        if len(places) > 1:
            labels = _labels(places)
            title = " and ".join(labels.values())
            runs = [_seed_of(place, seed) for place in places]
            if cdf is not None:
                plot_distribution(runs, list(labels.values()), cdf, title, *paths)
            else:
                tracks = [track_of(run, labels[place]) for run, place in zip(runs, places, strict=True)]
                plot_overlay(tracks, title, *paths)
        elif is_file:
            scenario = api.Scenario.load(first, trust=trust, overrides=parse_settings(settings or []))
            with shown_progress("runs") as observer:
                chosen = scenario.seed if seed is None else seed
                drawn = api.run_seeds(
                    scenario, [chosen], series=True, trace=cdf is not None, observer=observer, learn=False
                )
                drawn[0].plot(*paths, law=law, cdf=cdf)
        elif output.is_comparison(first):
            output.load_comparison(first).plot(*paths, cdf=cdf)
        else:
            _seed_of(first, seed).plot(*paths, law=law, cdf=cdf)
        for path in paths:
            _say(f"written: {path}" + (" (in place of the one before)" if path in known else ""))


def _check_drawing(law: str | None, cdf: str | None, *, alone: bool) -> None:
    """Refuse what cannot be drawn; `alone` says that there is a single run."""
    if cdf is not None:
        from lasthop.distribution import quantity

        quantity(cdf)
    if law is None:
        return
    from lasthop.laws import find

    find(law)
    if cdf is not None:
        raise ArgumentError("--model and --cdf exclude each other: a model does not predict a distribution")
    if not alone:
        raise ArgumentError(
            "--model is drawn over a single run: give one folder of a run, or a scenario file"
        )


def _seed_of(folder: Path, seed: int | None) -> Run:
    """Return the run of a seed from a folder; the first if none is asked for."""
    runs = output.load_runs(folder)
    chosen = next((one for one in runs if seed in (None, one.seed)), None)
    if chosen is None:
        raise ArgumentError(f"'{folder}' has no seed {seed}: it has {_first_few(runs.seeds)}")
    return chosen


def _labels(places: list[Path]) -> dict[Path, str]:
    """Return what to call each folder: its name, or its path where names are alike."""
    names = [place.name for place in places]
    return {place: place.name if names.count(place.name) == 1 else str(place) for place in places}


@app.command()
def show(
    folder: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder written by --out.", show_default=False)
    ],
) -> None:
    """Show the tables of a saved run or comparison."""
    with _user_errors():
        from lasthop import tables

        if output.is_comparison(folder):
            _print(tables.comparison_table(output.load_comparison(folder)))
        else:
            _print(tables.runs_table(output.load_runs(folder)))


@app.command()
def view(
    place: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN|STUDY|PAPER|SCENARIO",
            help="Folder of results, scenario or study file, name of a ready scenario, or number of "
            "a reproduced paper.",
            show_default=False,
        ),
    ] = None,
    settings: SetOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write one .html file instead, which needs no server."),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")
    ] = True,
    force: ForceOption = False,
) -> None:
    """Show a run, a comparison, a study, a paper or a scenario in the browser.

    The page can change, replay and explore it.

    A server on this machine serves the page. It does not accept connections from other machines, and
    Ctrl-C ends it.
    """
    with _user_errors():
        from lasthop import view as page

        folder = page.check_page()
        shown = page.given(place, parse_settings(settings or []))
        if out is not None:
            if out.suffix.lower() not in (".html", ".htm"):
                raise ArgumentError(f"cannot write '{out}': a page ends in .html")
            output.check_file(out, replace=force)
            output.write_text(out, page.single_page(folder, shown))
            _note(f"written: {out}")
            return
        with page.Server(folder, shown) as server, suppress(KeyboardInterrupt):
            _say(server.address)
            _note("Ctrl-C ends it")
            if browser:
                import webbrowser

                webbrowser.open(server.address)
            server.serve_forever(poll_interval=0.2)


@app.command(cls=JsonCommand)
def traffic(
    file: ScenarioFile,
    flow: Annotated[
        str | None,
        typer.Option("--flow", metavar="NAME", help="Which flow; the first with frames if not given."),
    ] = None,
    frames: Annotated[int, typer.Option("--frames", metavar="N", help="Frames per seed.")] = 60_000,
    lags: Annotated[
        str, typer.Option("--lags", metavar="LIST", help="Lags of the autocorrelation.")
    ] = "1,2,5,10,20,50",
    seed: SeedOption = None,
    seeds: SeedsOption = None,
    settings: SetOption = None,
    json_file: JsonOption = None,
    plot_file: PlotOption = None,
    force: ForceOption = False,
) -> None:
    """Show what a video flow sends: sizes of frames, rate, autocorrelation.

    The frames are those of a run with the same seed; nothing is simulated.
    """
    with _user_errors(), unexecuted():
        from lasthop import tables

        scenario = _open(file, settings)
        if seed is not None and seeds is not None:
            raise ArgumentError("--seed and --seeds exclude each other: give one")
        wanted = [scenario.seed if seed is None else seed] if seeds is None else parse_seeds(seeds)
        _check_json(file, json_file, force=force)
        if plot_file is not None:
            from lasthop.plot import check_paths

            check_paths([plot_file])
        video = api.traffic(
            scenario, flow=flow, seeds=wanted, frames=frames, lags=parse_numbers("--lags", lags)
        )
        if plot_file is not None:
            video.plot(plot_file)
        if json_file is not None:
            _write_json(json_file, video.to_json())
        if json_file != "-":
            _print(tables.traffic_table(video))
        if plot_file is not None:
            _note(f"written: {plot_file}")


@app.command()
def new(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Name of the scenario, or of a ready one.",
            autocompletion=complete_ready,
        ),
    ] = "scenario",
    topology: Annotated[
        str | None,
        typer.Option(
            "--topology", metavar="KIND", help="dumbbell, graph, wlan or wired-cum-wireless; dumbbell."
        ),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the ready scenarios and studies.")] = False,
) -> None:
    """Write a commented scenario to start from, or a ready scenario or study; never overwrites."""
    with _user_errors():
        from lasthop import starter

        scenarios, studies = starter.ready("scenarios"), starter.ready("studies")
        if listed:
            for kind, paths in (("scenarios", scenarios), ("studies", studies)):
                _say(f"ready {kind}, written by 'lasthop new NAME':")
                for ready, path in paths.items():
                    _say(f"  {ready:<20}{starter.summary_of(path)}")
            return
        if topology is None and name in (scenarios | studies):
            written = starter.write_ready(name)
        else:
            written = [starter.write_starter(name, topology or "dumbbell")]
        for path in written:
            _say(f"written: {path}")
        verb = "study run" if name in studies and topology is None else "run"
        _say(f"next:    lasthop {verb} {shlex.quote(str(written[-1]))}")


@app.command()
def demo(
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder of the comparison and the figures.")
    ] = Path("out", "demo"),
    seeds: SeedsOption = "1-10",
    force: ForceOption = False,
) -> None:
    """Compare five senders over a lossy last hop, and show one window over time."""
    with _user_errors():
        import shutil

        from lasthop import starter
        from lasthop.demo import ALONE, RACE, SENDERS, window_text
        from lasthop.plot import check_paths

        scenarios = starter.ready("scenarios")
        race, alone = (api.Scenario.load(scenarios[name]) for name in (RACE, ALONE))
        bars, windows = out / "compare.png", out / "window.png"
        with reserved(out, force=force):
            # Before anything runs: whether it can be drawn.
            check_paths([bars, windows])
            comparison, interrupted = _compared(race, list(SENDERS), parse_seeds(seeds or "1-10"))
            output.save_comparison(comparison, out, held=True)
            comparison.plot(bars)
            _deliver_comparison(comparison, None, None)
            if interrupted is not None:
                raise interrupted
            single = api.run(alone, series=True)
            single.plot(windows)
            _say()
            _say(window_text(single, shutil.get_terminal_size((WIDTH_OF_NO_TERMINAL, 24)).columns))
        _say(f"\nfigures: {bars} and {windows}")
        _say(
            f"try next:\n  lasthop new {RACE}\n  lasthop run {RACE}.toml --seeds 1-4 "
            f"--set flows.0.transport=vegas\n  lasthop plot {RACE}.toml --out over-time.html\n"
            "  lasthop new --list\n  lasthop transports"
        )


@app.command()
def transports(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="Show the parameters of this one.", autocompletion=complete_transports
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List transports, congestion controllers and loss recoveries with their parameters."""
    with _user_errors():
        from lasthop import tables

        listed = api.transports()
        if name is not None:
            listed = [one for one in listed if one["name"] == name] or _refuse_transport(name, listed)
        if as_json:
            _say(json.dumps(listed, indent=1))
        elif name is None:
            _print(tables.transports_table(listed))
        else:
            preset = next((one for one in listed if one["kind"] == "preset"), None)
            for one in listed:
                # A preset that is called like its law shows the law's parameters: once is enough.
                if one["kind"] == "controller" and preset is not None and preset["controller"] == name:
                    continue
                _print(tables.transport_table(one))


@app.command()
def helpers(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Show the keys of this one.", autocompletion=complete_helpers),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List helpers in the network (PEPs): what each does, where it may be placed, its keys."""
    with _user_errors():
        from lasthop import tables

        listed = api.helpers()
        if name is not None:
            known = [one["name"] for one in listed]
            listed = [one for one in listed if one["name"] == name]
            if not listed:
                raise ArgumentError(f"unknown helper {name!r}: {_hint(name, known, 'lasthop helpers')}")
        if as_json:
            _say(json.dumps(listed, indent=1))
        elif name is None:
            _print(tables.helpers_table(listed))
        else:
            _print(tables.helper_table(listed[0]))


@app.command("metrics")
def list_metrics(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Only metrics with this in their name.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List metrics: names for studies, --metric and --until."""
    with _user_errors():
        from lasthop import tables

        listed = [one for one in api.metrics() if name is None or name in one["name"]]
        if not listed:
            raise ArgumentError(f"no metric has {name!r} in its name: 'lasthop metrics' lists all")
        if as_json:
            _say(json.dumps(listed, indent=1))
        else:
            _print(tables.metrics_table(listed))


@history_app.command("show")
def show_history(file: HistoryFile) -> None:
    """Show the number of stored windows by host and time."""
    with _user_errors():
        from lasthop import history, tables

        _print(tables.history_table(history.read(file), str(file)))


@history_app.command("clear")
def clear_history(
    file: HistoryFile,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete all stored windows; asks first."""
    with _user_errors():
        from lasthop import history

        count = len(history.read(file))
        if not yes:
            if not sys.stdin.isatty():
                raise ArgumentError(f"clear would delete all {count} windows of '{file}': say so with --yes")
            typer.confirm(visible(f"Delete all {count} windows of '{file}'?"), abort=True)
        _say(f"deleted: {history.clear(file)} windows of {file}")


@history_app.command("import")
def import_history(
    file: HistoryFile,
    source: Annotated[
        Path, typer.Argument(metavar="FILE", help="Ends in .csv or .json.", show_default=False)
    ],
) -> None:
    """Add the windows of a CSV or JSON file; creates the history if there is none."""
    with _user_errors():
        from lasthop import history

        entries = history.parse(history.read_text(source), history.format_of(source), str(source))
        history.add(file, entries)
        _say(f"imported: {len(entries)} windows into {file}")


@history_app.command("export")
def export_history(
    file: HistoryFile,
    target: Annotated[
        Path, typer.Argument(metavar="FILE", help="Ends in .csv or .json.", show_default=False)
    ],
    force: ForceOption = False,
) -> None:
    """Write all stored windows as CSV or JSON."""
    with _user_errors():
        from lasthop import history

        file_format = history.format_of(target)
        entries = history.read(file)
        output.check_file(target, replace=force)
        output.write_text(target, history.dump(entries, file_format))
        _say(f"written: {target}")


@app.command()
def reproduce(
    paper: Annotated[
        str | None,
        typer.Argument(
            metavar="PAPER",
            help="Its number, such as 004, or all; lists them if not given.",
            autocompletion=complete_papers,
        ),
    ] = None,
    figure: Annotated[
        str, typer.Option("--figure", metavar="LIST", help="Figures and tables: 8, 4-9 or fig8,tab1.")
    ] = "all",
    quick: Annotated[
        bool, typer.Option("--quick", help="A quick look: few seeds, and many claims stay inconclusive.")
    ] = False,
    alternatives: Annotated[
        bool | None,
        typer.Option(
            "--alternatives/--no-alternatives",
            help="Also run the other settings of what the paper leaves open; on, unless --quick.",
            show_default=False,
        ),
    ] = None,
    seeds: SeedsOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder of the report and the runs.")
    ] = None,
    jobs: JobsOption = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run everything again.")] = False,
    show: Annotated[bool, typer.Option("--show", help="List the claims; run nothing.")] = False,
    html: Annotated[
        bool,
        typer.Option(
            "--html", help="Write papers.html too: one file with figures to zoom into and claims to search."
        ),
    ] = False,
    trust: TrustOption = False,
) -> None:
    """Run the figures and tables of a paper and judge its claims.

    An interrupted reproduction continues where it stopped. Without --out, everything goes into
    out/papers/PAPER below the current folder. With 'all' in place of a number every paper is run,
    each into a folder of its own, and a page compares them.
    """
    with _user_errors():
        from lasthop.papers import library, page, tables
        from lasthop.papers.reproduce import choose, plan

        if paper is None:
            _print(tables.papers_table(map(library.load_paper, library.paper_folders())))
            return
        chosen = None if seeds is None else parse_seeds(seeds)
        options = [
            *([f"--figure {figure}"] if figure != "all" else []),
            *(["--quick"] if quick else []),
            *([] if alternatives is None else ["--alternatives" if alternatives else "--no-alternatives"]),
            *([f"--seeds {seeds}"] if seeds is not None else []),
        ]
        also = not quick if alternatives is None else alternatives
        every = paper.strip().lower() == "all"
        if every and figure != "all":
            raise ArgumentError("--figure needs one paper: each has figures of its own")
        found = [
            library.load_paper(folder, trust=trust)
            for folder in (library.paper_folders() if every else [library.find_paper(paper)])
        ]
        if show:
            for one in found:
                wanted = {experiment.id for experiment in choose(one, figure)}
                _print(tables.claims_table([it for it in one.claims if wanted & set(it.experiments)]))
            return
        # Whatever is wrong is told before anything runs.
        plans = [
            plan(one, choose(one, figure), quick=quick, seeds=chosen, alternatives=also) for one in found
        ]
        root = out or Path("out", "papers")
        folders = {one.number: root / one.number if every or out is None else root for one in found}
        _check_places(plans, folders, fresh=fresh)
        failed = 0
        for planned in plans:
            folder = folders[planned.paper.number]
            failed += _reproduce(planned, folder, options, jobs=jobs, fresh=fresh)
        if every:
            from lasthop.papers import overview

            _note(f"all papers side by side in {overview.write(found, folders, root)}")
        if html:
            target = (root if every else folders[found[0].number]) / page.PAGE
            _note(f"figures and claims in {page.write(found, folders, target)}")
        if failed:
            raise typer.Exit(EXIT_RUN)


def _check_places(plans: list[Plan], folders: dict[str, Path], *, fresh: bool) -> None:
    """Refuse folders of something else, or of another version of the engine, before any is made."""
    from lasthop.papers.reproduce import check_made_by_this

    for planned in () if fresh else plans:
        check_made_by_this(planned, folders[planned.paper.number])
    for folder in folders.values():
        output.check_folder(folder)
        refuse_other(folder, "reproduction", "study")


def _reproduce(planned: Plan, folder: Path, options: list[str], *, jobs: int | None, fresh: bool) -> int:
    """Run and judge one paper, write its report, and return how many runs failed."""
    from lasthop.papers import report, tables
    from lasthop.papers.reproduce import carry_out

    with shown_progress("runs") as observer:
        reproduction = carry_out(planned, folder, jobs=jobs, observer=observer, fresh=fresh, note=_note)
    report.write(reproduction, folder, " ".join(["lasthop reproduce", planned.paper.number, *options]))
    _print(tables.verdicts_table(reproduction))
    _note(f"report in {folder / report.REPORT}")
    if reproduction.failed:
        _note(f"{len(reproduction.failed)} runs failed; {folder / report.REPORT} names them")
    return len(reproduction.failed)


@app.command()
def bundle(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE|DIR...",
            help="Scenario or study files, with what they read, and folders of results.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The archive; ends in .zip.")] = Path(
        "bundle.zip"
    ),
    force: ForceOption = False,
) -> None:
    """Pack scenarios, studies, inputs, results and figures into one archive, with hashes and versions."""
    with _user_errors():
        from lasthop.bundle import bundle as pack

        names = pack(sources, out, force=force)
        for name in names[:BUNDLE_SHOWN]:
            _say(f"  {name}")
        if len(names) > BUNDLE_SHOWN:
            _say(f"  and {len(names) - BUNDLE_SHOWN} more")
        _say(f"written: {out}, {len(names)} files")


@app.command()
def unbundle(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="The archive.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="A new folder; the archive's name, here, if not given."),
    ] = None,
) -> None:
    """Check every file of an archive by its hash, and unpack it into a new folder."""
    with _user_errors():
        from lasthop.bundle import unbundle as unpack

        folder = Path(source.stem) if out is None else out
        files = unpack(source, folder)
        _say(f"checked and written: {len(files)} files in {folder}")


@app.command()
def schema() -> None:
    """Print the JSON schema of scenario files, for editors."""
    _say(json.dumps(api.schema(), indent=2))


@app.command(cls=JsonCommand)
def emulate(
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="Scenario file (TOML or JSON).", show_default=False)
    ] = None,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND...]", help="A program and its arguments.", show_default=False),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            metavar="NODE",
            help="Node at which COMMAND runs; the sink of the first flow if not given.",
        ),
    ] = None,
    beside: Annotated[
        list[str] | None,
        typer.Option(
            "--beside",
            metavar="NODE=COMMAND",
            help="Another program, such as a server, at a node; repeatable.",
        ),
    ] = None,
    kernel: Annotated[
        str | None,
        typer.Option(
            "--kernel",
            metavar="NAME",
            help="Carry the scenario's flows with kernel sockets: cubic, bbr; steer:veno, or twin:veno.",
        ),
    ] = None,
    budget: Annotated[
        float,
        typer.Option(
            "--budget", metavar="MS", help="How late 1 % of the packets may be; otherwise the run is invalid."
        ),
    ] = 1.0,
    seed: SeedOption = None,
    settings: SetOption = None,
    json_file: JsonOption = None,
    out: OutOption = None,
    series: SeriesOption = False,
    trace: TraceOption = False,
    capture_at: Annotated[
        list[str] | None,
        typer.Option(
            "--capture-at",
            metavar="HOST",
            help="With --out: a pcapng of the real packets of a host, or of 'senders'; repeatable.",
        ),
    ] = None,
    snaplen: Annotated[
        int,
        typer.Option(
            "--snaplen", metavar="BYTES", help="Bytes stored of each captured packet; all if not given."
        ),
    ] = 65_535,
    out_through: Annotated[
        str | None,
        typer.Option(
            "--out-through",
            metavar="IFACE",
            help="Let hosts reach the world by this interface of the machine (NAT); off if not given.",
        ),
    ] = None,
    dns: Annotated[
        list[str] | None,
        typer.Option("--dns", metavar="ADDRESS", help="With --out-through: a name server; repeatable."),
    ] = None,
    table_format: FormatOption = "parquet",
    force: ForceOption = False,
    trust: TrustOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")
    ] = False,
    clean: Annotated[
        bool, typer.Option("--clean", help="End processes that killed runs have left, and exit.")
    ] = False,
) -> None:
    """Run real programs over the network of a scenario, in real time (Linux, root).

    The run ends with COMMAND, and at the latest when the scenario does. It exits with
    the status of COMMAND, or else with 123 if packets left too late (invalid), 124 if
    the scenario ended first, and 125 if lasthop failed.
    """
    with _user_errors(), unexecuted() if dry_run else nullcontext():
        from lasthop import live

        if clean:
            _say("\n".join(live.clean() or ["nothing was left"]))
            return
        if file is None:
            raise ArgumentError("no scenario: give a FILE, or --clean")
        scenario = _open(file, settings, trust=trust)
        _check_recording(out, series=series, trace=trace, capture_at=capture_at)
        captures = live.check_captures(scenario, capture_at or None, trace=trace)
        live.check_snaplen(snaplen)
        programs, words = _programs(beside or []), command or []
        live.check_hosts(scenario, [host, *(name for name, _ in programs)])
        if dry_run:
            _say(live.plan_text(scenario, words, host, programs, kernel, captures, out_through))
            return
        live.refuse_without_means()
        with _targets(file, json_file, out, table_format, force=force):
            _advise(scenario)
            if outer := live.outer_host():
                near = live.gateway(scenario, host)
                _note(
                    f"note: this run is within another: {near!r} is its host {outer!r}, "
                    "and packets cross both networks"
                )
            finished, interruption = _emulated(
                scenario,
                words,
                host=host,
                beside=programs,
                kernel=kernel,
                seed=seed,
                budget_s=budget / 1e3,
                series=series,
                trace=trace,
                capture_at=captures,
                snaplen=snaplen,
                folder=out,
                out_through=out_through,
                dns=dns or (),
            )
            _deliver_runs(finished, json_file, out, table_format, finished.seeds)
            _deliver_report(finished[0], shown=json_file != "-", interruption=interruption)


def _emulated(
    scenario: Scenario,
    words: list[str],
    **options: Any,  # noqa: ANN401 - those of `live.emulate`
) -> tuple[Runs, Interrupted | None]:
    """Emulate; a run that was interrupted counts as far as it came, and its error comes with it."""
    from lasthop import live
    from lasthop.progress import emulated_line

    with live_codes():
        try:
            if words:
                # A program writes to the terminal itself.
                return Runs([live.emulate(scenario, words, **options)]), None
            with shown_progress("runs", emulated_line) as observer:
                return Runs([live.emulate(scenario, observer=observer, **options)]), None
        except Interrupted as error:
            if error.finished is None:
                raise
            return error.finished, error


@app.command(cls=JsonCommand)
def steer(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="status | clean | -- COMMAND...",
            help="A program and its arguments; or what is registered; or what killed sessions left.",
            show_default=False,
        ),
    ] = None,
    cc: Annotated[
        str | None, typer.Option("--cc", metavar="NAME", help="The congestion controller: veno, westwood+.")
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume", metavar="SESSION", help="Take over the session lh_..., whose process has ended."
        ),
    ] = None,
    twin: Annotated[
        bool, typer.Option("--twin", help="Run the controller in the kernel, on every ACK: veno, westwood+.")
    ] = False,
    json_file: JsonOption = None,
    force: ForceOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")
    ] = False,
) -> None:
    """Control the TCP of the running kernel with a congestion controller of this package (Linux, root).

    COMMAND runs in a network namespace of its own; within 'lasthop emulate' in that of its host; and where
    you are if {cc} stands among its words, for the name of the congestion control. Without COMMAND the
    session lasts until Ctrl-C.
    """
    with _user_errors():
        from lasthop import live
        from lasthop import steer as steering

        words = command or []
        action = steering.read_words(cc, words)
        if action == "clean":
            _say("\n".join(live.clean() or ["nothing was left"]))
            return
        if action == "status" or cc is None:
            steering.refuse_without_means()
            found: list[steering.Session | steering.Twin] = [*steering.sessions(), *steering.twins()]
            lines = [line for one in found for line in steering.report_lines(one)]
            if json_file is not None:
                _write_json(json_file, json.dumps([steering.to_dict(one) for one in found]))
            if json_file != "-":
                _say("\n".join(lines or ["nothing is registered"]))
            return
        if dry_run:
            _say(steering.plan_text(cc, words, resume, in_kernel=twin))
            return
        steering.check(cc, in_kernel=twin, resume=resume)
        steering.refuse_without_means()
        if json_file not in {None, "-"}:
            output.check_file(str(json_file), replace=force)
        where = " in the kernel" if twin else ""
        done = steering.steer(
            cc,
            words,
            resume=resume,
            in_kernel=twin,
            told=lambda name: _note(f"{name}: {cc} decides{where}"),
        )
        if json_file is not None:
            _write_json(json_file, json.dumps(steering.to_dict(done.session)))
        for line in steering.report_lines(done.session):
            _note(line)
        if done.status:
            _note(f"the program ended with status {done.status}")
            raise typer.Exit(exit_code_of(done.status))


def _deliver_report(run: Run, *, shown: bool, interruption: Interrupted | None) -> None:
    """Say how a live run kept time and ended; exit with the code for that, or with the program's own."""
    from lasthop import live

    for line in live.report_lines(run) if shown else []:
        _say(line)
    report = run.record["live"]
    for reason in report["invalid_because"]:
        _note(f"invalid: {reason}")
    if interruption is not None:
        raise interruption
    if live.is_cut_off(run):
        _note(f"cut off: the program still ran when the scenario ended, after {run.duration_s:g} s")
    status = report["program_status"]
    if status:
        _note(f"the program ended with status {status}")
        raise typer.Exit(exit_code_of(status))
    if not report["valid"]:
        raise typer.Exit(EXIT_INVALID)
    if live.is_cut_off(run):
        raise typer.Exit(EXIT_CUT_OFF)


@app.command(cls=JsonCommand)
def parity(
    file: ScenarioFile,
    kernel: Annotated[
        str, typer.Option("--kernel", metavar="NAMES", help="Congestion controls of the kernel: reno,cubic.")
    ] = "reno,cubic",
    runs: Annotated[int, typer.Option("--runs", min=1, metavar="N", help="Runs of each side.")] = 5,
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget",
            metavar="MS",
            help="How late 1 % of the packets may be: 1, with --virtual 0.2.",
            show_default=False,
        ),
    ] = None,
    steer: Annotated[
        bool, typer.Option("--steer", help="Add a third side: the kernel's TCP steered by our controller.")
    ] = False,
    virtual: VirtualOption = False,
    settings: SetOption = None,
    json_file: JsonOption = None,
    trust: TrustOption = False,
    force: ForceOption = False,
) -> None:
    """Compare a simulation in the profile linux with the kernel's own TCP (Linux, root; not with --virtual).

    The scenario runs equally often on both sides: simulated, and in real time with sockets of the kernel
    over the same links. An emulated run whose packets were late is repeated, and left out after three
    attempts.
    With --virtual the kernel is that of a virtual machine whose time does not pass while it waits for the
    computer: it needs no rights, and a run gives the same numbers again.
    """
    with _user_errors():
        from lasthop import guest, live, tables
        from lasthop import parity as comparing
        from lasthop.progress import emulated_line

        scenario = _open(file, settings, trust=trust)
        _check_json(file, json_file, force=force)
        names = parse_names("--kernel", kernel)
        for name in names:
            comparing.simulated(scenario, name)
        if virtual:
            guest.find()
        else:
            live.refuse_without_means()
        if steer and not virtual:
            from lasthop import steer as steering

            steering.refuse_without_means()
        usual_s = guest.BUDGET_S if virtual else live.BUDGET_S
        budget_s = usual_s if budget is None else budget / 1e3
        with live_codes(), shown_progress("runs", emulated_line) as observer:
            found = comparing.parity(
                scenario,
                names,
                runs=runs,
                budget_s=budget_s,
                steers=steer,
                virtual=virtual,
                note=_note,
                observer=observer,
            )
        if json_file is not None:
            _write_json(json_file, json.dumps(comparing.to_dict(found)))
        if json_file != "-":
            _print(tables.parity_table(found))
        for line in found.missing:
            _note(f"left out: {line}")
        if found.missing:
            raise typer.Exit(EXIT_INVALID)


@app.command()
def script(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Scripts.", show_default=False)],
    kernel: Annotated[
        bool, typer.Option("--kernel", help="Run them against the TCP of the running kernel (Linux, root).")
    ] = False,
    virtual: VirtualOption = False,
    log: Annotated[bool, typer.Option("--log", help="Show every packet.")] = False,
) -> None:
    """Run scripts of timed packets and asserted answers against TCP.

    Against the engine they run in virtual time, and every time is exact; against the kernel they run in real
    time, and times may differ by 15 ms. With --virtual the kernel is that of a virtual machine in virtual
    time, which needs no rights. Exits with 1 if a stack does something other than the script asserts.
    """
    with _user_errors():
        from lasthop.scripts import notes, run_script

        if virtual:
            from lasthop import guest

            outcomes = iter(guest.run_scripts(files))
        elif kernel:
            from lasthop import live

            live.refuse_without_means()
        failed = 0
        for file in files:
            for remark in notes(file):
                _note(f"{file}, {remark}")
            outcome = next(outcomes) if virtual else run_script(file, kernel=kernel)
            word = "holds" if outcome.holds else "FAILS" if outcome.ran else "skipped"
            _say(f"{word:8} {file.stem}: {outcome.title} ({', '.join(outcome.sources)})")
            if not outcome.ran:
                _say(f"         the kernel differs: {outcome.not_on_kernel}")
            if outcome.failure is not None:
                failed += 1
                _say(f"         {outcome.failure}")
            for line in outcome.log if log or outcome.failure else ():
                _say(f"         {line}")
        if failed:
            raise typer.Exit(EXIT_RUN)


@app.command()
def fuzz(
    kernel: Annotated[
        bool,
        typer.Option("--kernel", help="Ask the running kernel (Linux, root); else scripts are only written."),
    ] = False,
    virtual: VirtualOption = False,
    kinds: Annotated[
        str, typer.Option("--kinds", metavar="LIST", help="What may happen; 'all', or some of its names.")
    ] = "no-loss,loss,jitter,reordering",
    controllers: Annotated[
        str, typer.Option("--controllers", metavar="LIST", help="Congestion controllers.")
    ] = "reno,cubic",
    laws: Annotated[
        str | None,
        typer.Option("--laws", metavar="LIST", hidden=True, help="The older name of --controllers."),
    ] = None,
    count: Annotated[
        int,
        typer.Option(
            "--count", min=1, max=100_000, metavar="N", help="Scripts of each kind with each controller."
        ),
    ] = 20,
    seed: Annotated[int, typer.Option("--seed", min=0, max=1_000_000, help="Which of them.")] = 1,
    least: Annotated[
        int, typer.Option("--least", min=0, metavar="N", help="Partings of each row that are cut down.")
    ] = 1,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where scripts are kept that part.")
    ] = None,
    json_file: JsonOption = None,
    force: ForceOption = False,
) -> None:
    """Play random situations against the engine, and ask the kernel whether it does the same.

    The same options give the same scripts on every machine. Exits with 0 if the kernel does the same in all
    of them, with 1 if it parts in some, with 2 if it cannot be asked as told.
    """
    with _user_errors():
        from lasthop import fuzz as fuzzing
        from lasthop import live
        from lasthop.progress import shown_count
        from lasthop.situations import KINDS

        named = list(KINDS) if kinds == "all" else parse_names("--kinds", kinds)
        rows = parse_names("--controllers", controllers if laws is None else laws)
        if json_file not in (None, "-"):
            output.check_file(json_file, replace=force)
        if not kernel and not virtual:
            if out is None:
                raise ArgumentError(
                    "give --kernel or --virtual, to ask a kernel, or --out, to write the scripts"
                )
            written = fuzzing.write_all(named, rows, count, seed, out)
            _say(f"{written} scripts in {out}; ask a kernel with: lasthop script --kernel {out}/*.script")
            return
        judge: fuzzing.Judge = fuzzing.on_running_kernel
        repeats = fuzzing.AGAIN
        if virtual:
            from lasthop import guest

            # What it returns repeats.
            judge, repeats = guest.run_scripts, 1
        else:
            live.refuse_without_means()
        with shown_count("scripts") as progress:
            shares = fuzzing.fuzz(
                *(named, rows, count, seed),
                judge=judge,
                repeats=repeats,
                least=least if out else 0,
                progress=progress,
            )
        if json_file != "-":
            for line in fuzzing.table(shares):
                _say(line)
        if out is not None:
            kept = fuzzing.write(shares, out)
            _note(f"{kept} scripts that part: {out}" if kept else "none parts")
        if json_file is not None:
            _write_json(json_file, json.dumps(fuzzing.to_dict(shares)))
        if any(share.partings for share in shares):
            raise typer.Exit(EXIT_RUN)


def _programs(texts: list[str]) -> list[tuple[str, list[str]]]:
    """Read ``NODE=COMMAND``."""
    import shlex

    programs = []
    for text in texts:
        name, equals, words = text.partition("=")
        try:
            split = shlex.split(words)
        except ValueError as error:
            raise ArgumentError(f"--beside {text}: {str(error).lower()}") from None
        if not equals or not name or not split:
            raise ArgumentError(f"--beside {text}: give NODE=COMMAND, such as server='iperf3 -s'")
        programs.append((name, split))
    return programs


@app.command()
def doctor() -> None:
    """Print versions and machine, and check the engine with a one-second run."""
    with _user_errors():
        from lasthop.doctor import examine

        findings = examine()
        width = max(len(finding.what) for finding in findings) + 2
        for finding in findings:
            _say(f"{finding.what + ':':<{width}}{finding.text}")
        troubles = [finding for finding in findings if finding.trouble]
        for finding in troubles:
            _note(f"trouble with {finding.what}: {finding.trouble}")
        if troubles:
            raise typer.Exit(EXIT_RUN)
        _say("all is well")


def main() -> None:
    """Run the command; `lasthop.__main__` calls it."""
    write_what_can_be_written()
    heed_lost_interrupts()
    tell_warnings()
    use_columns_that_make_sense()
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader has gone, as in `lasthop run FILE --json - | head`: there is nothing to report to.
        drop_output()
        sys.exit(EXIT_RUN)
    except OSError as error:
        # A help text on a full disk, or what was still to be written.
        _note(f"error: cannot use standard output: {(error.strerror or str(error)).lower()}")
        drop_output()
        sys.exit(terminal.EXIT_USER)
    except KeyboardInterrupt:
        # Before any command had begun.
        _note("interrupted")
        sys.exit(EXIT_INTERRUPTED)
    finally:
        drop_lost_notes()
        # On the way out another Ctrl-C has nothing to stop, and Python would show where it was.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _open(file: str, settings: list[str] | None, *, trust: bool = False) -> api.Scenario:
    """Read a scenario from a file, or with ``-`` from standard input."""
    from lasthop import starter

    overrides = parse_settings(settings or [])
    if file != "-":
        return api.Scenario.load(starter.not_a_name(file), trust=trust, overrides=overrides)
    # The engine refuses what is longer; a device has no end.
    text = sys.stdin.buffer.read(LONGEST_TEXT + 1)
    return api.Scenario.read(text, name="standard input", trust=trust, overrides=overrides)


def _split_names(given: list[str] | None) -> list[str] | None:
    """Take lists of names apart: an option may be repeated, or have commas as others do."""
    words = [word.strip() for text in given or [] for word in text.split(",")]
    return [word for word in words if word] or None


def _advise(scenario: api.Scenario) -> None:
    """Say what the author of a scenario may not have meant."""
    for sentence in scenario.advice:
        _note(f"note: {sentence}")


@contextmanager
def _targets(
    file: str, json_file: str | None, out: Path | None, table_format: str, *, force: bool
) -> Iterator[None]:
    """Refuse, before anything runs, what could not be written or would be lost; hold the folder."""
    output.check_format(table_format)
    _check_json(file, json_file, force=force)
    with nullcontext() if out is None else reserved(out, force=force):
        yield


def _compared(
    scenario: api.Scenario,
    names: list[str],
    seeds: list[int],
    *,
    baseline: str | None = None,
    jobs: int | None = None,
    metrics: list[str] | None = None,
    series: bool = False,
    helpers: list[str] | None = None,
    at: str | None = None,
    law: str | None = None,
) -> tuple[Comparison, RunError | None]:
    """Compare; if that ends early, return what there is with the error, which is to be raised in the end."""
    try:
        with shown_progress("runs") as observer:
            comparison = api.compare(
                scenario,
                names,
                seeds=seeds,
                baseline=baseline,
                jobs=jobs,
                observer=observer,
                metrics=metrics,
                series=series,
                helpers=helpers or (),
                at=at,
                law=law,
            )
            return comparison, None
    except RunError as error:
        if error.comparison is None:
            raise
        return error.comparison, error


def _check_json(file: str, json_file: str | None, *, force: bool) -> None:
    if json_file is None or json_file == "-":
        return
    if Path(json_file).resolve() == Path(file).resolve():
        raise OutputError(f"--json would overwrite the scenario '{file}': choose another file")
    output.check_file(json_file, replace=force)


def _check_recording(out: Path | None, *, series: bool, trace: bool, capture_at: list[str] | None) -> None:
    if (series or trace) and out is None:
        option = "--series" if series else "--trace"
        raise ArgumentError(f"{option} writes tables: say where with --out DIR")
    if capture_at and out is None:
        raise ArgumentError("--capture-at writes captures: say where with --out DIR")


def _deliver_runs(
    runs: Runs | None, json_file: str | None, out: Path | None, table_format: str, wanted: list[int]
) -> None:
    """Write and print what has finished, be it all or not."""
    if runs is None:
        return
    missing = sorted(set(wanted) - set(runs.seeds))
    more = {"missing_seeds": missing} if missing else {}
    try:
        if out is not None:
            output.save_runs(runs, out, table_format, held=True, more=more)
    finally:
        # Even if the disk is full, the figures are shown.
        if json_file is not None:
            _write_json(json_file, json.dumps(runs.to_dict() | more))
        if json_file != "-":
            from lasthop import tables

            _print(tables.runs_table(runs))


def _deliver_comparison(comparison: Comparison, json_file: str | None, table: str | None) -> None:
    if json_file is not None:
        _write_json(json_file, comparison.to_json())
    if table is not None:
        from lasthop.formats import comparison_text

        _say(comparison_text(comparison, table), nl=False)
    elif json_file != "-":
        from lasthop import tables

        _print(tables.comparison_table(comparison))


def _with_whereabouts(error: RunError, out: Path | None) -> RunError:
    """Say in the message where the finished seeds are."""
    if out is not None and error.finished is not None:
        kept = (
            f" and kept in {out}"
            if isinstance(error, Interrupted)
            else f"; the seeds that finished are in {out}"
        )
        return type(error)(f"{error}{kept}")
    return error


def _write_json(target: str, text: str) -> None:
    if target == "-":
        _say(text)
    else:
        output.write_text(target, text + "\n")


def _first_few(seeds: list[int]) -> str:
    shown = ", ".join(str(seed) for seed in seeds[:10])
    return shown if len(seeds) <= 10 else f"{shown} and {len(seeds) - 10} more"  # noqa: PLR2004


def _refuse_transport(name: str, listed: list[dict[str, object]]) -> list[dict[str, object]]:
    names = [str(one["name"]) for one in listed]
    raise ArgumentError(f"unknown transport {name!r}: {_hint(name, names, 'lasthop transports')}")


def _hint(name: str, known: list[str], command: str) -> str:
    """Return the name that was probably meant, or which command lists them."""
    import difflib

    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"'{command}' lists them"
