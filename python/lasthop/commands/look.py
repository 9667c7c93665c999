"""Looks at what was run: `show`, `plot`, `view` and `traffic`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lasthop import api, files, saved
from lasthop.arguments import parse_numbers, parse_seeds, parse_settings
from lasthop.commands.deliver import check_json, check_plot, measured_files, open_scenario, write_json
from lasthop.commands.options import (
    BesideOption,
    ForceOption,
    JsonOption,
    PlotOption,
    ScenarioFile,
    SeedOption,
    SeedsOption,
    SetOption,
    StyleOption,
    TrustOption,
)
from lasthop.errors import ArgumentError
from lasthop.progress import shown_progress
from lasthop.stand_ins import unexecuted
from lasthop.terminal import doing, note, print_content, say, user_errors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lasthop.results import Run


def show(
    folder: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder written by --out.", show_default=False)
    ],
    beside: BesideOption = None,
) -> None:
    """Show the tables of a saved run or comparison."""
    with user_errors():
        from lasthop import tables

        files = measured_files(beside)
        if saved.is_comparison(folder):
            comparison = saved.load_comparison(folder)
            print_content(tables.comparison_table(comparison))
            simulated = comparison.runs
        else:
            runs = saved.load_runs(folder)
            print_content(tables.runs_table(runs))
            simulated = {"simulated": [run.record for run in runs]}
        if files:
            from lasthop.measured import beside_table

            print_content(beside_table(simulated, files))


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
    style: StyleOption = "screen",
    box: Annotated[
        str | None,
        typer.Option(
            "--box",
            metavar="NAME",
            help="Draw a box of a column of flows for each class: completion (by length, too), goodput.",
        ),
    ] = None,
    beside: BesideOption = None,
    settings: SetOption = None,
    trust: TrustOption = False,
) -> None:
    """Draw window, queue, throughput and RTT over time, or a comparison.

    Without --out, both a PNG and an interactive HTML page are written, for a paper a PDF: into the first
    folder, or for a scenario file into the current one. An existing figure is replaced.
    """
    from lasthop.for_paper import is_paper, styled

    with user_errors(), styled(style):
        from lasthop.drawing import check_paths
        from lasthop.overlay import measured_track, track_of
        from lasthop.plot import plot_distribution, plot_overlay

        first = places[0]
        is_file = first.is_file()
        if len(places) > 1 and any(place.is_file() for place in places):
            raise ArgumentError("several runs are laid over each other by their folders, not by files")
        if box is not None and (cdf is not None or law is not None or beside or len(places) > 1):
            raise ArgumentError("--box draws one run or comparison, without --cdf, --model and --beside")
        if beside and (cdf is not None or law is not None or is_file or saved.is_comparison(first)):
            raise ArgumentError("--beside is drawn over time, over the folders of runs with --series")
        doing("drawing ...")
        drawing = "plot" if len(places) == 1 and not beside else "overlay"
        stem = Path(first.stem) if is_file else first / ("box" if box else drawing if cdf is None else "cdf")
        endings = [".pdf"] if is_paper() else [".png", ".html"]
        paths = (
            check_paths(out or [stem.with_suffix(ending) for ending in endings])
            if out or first.exists()
            else []
        )
        known = {path for path in paths if path.is_file()}
        if not is_file and settings:
            raise ArgumentError("--set changes a scenario: it needs a scenario file, not the folder of a run")
        _check_drawing(law, cdf, alone=len(places) == 1 and (is_file or not saved.is_comparison(first)))
        if len(places) > 1 or beside:
            labels = _labels(places)
            title = " and ".join([*labels.values(), *(path.name for path in beside or [])])
            runs = [_seed_of(place, seed) for place in places]
            _remark_on_scenarios(runs)
            if cdf is not None:
                plot_distribution(runs, list(labels.values()), cdf, title, *paths)
            else:
                tracks = [track_of(run, labels[place]) for run, place in zip(runs, places, strict=True)]
                tracks += [measured_track(path, tracks[0]) for path in beside or []]
                plot_overlay(tracks, title, *paths)
        elif is_file:
            scenario = api.Scenario.load(first, trust=trust, overrides=parse_settings(settings or []))
            with shown_progress("runs") as observer:
                chosen = scenario.seed if seed is None else seed
                drawn = api.run_seeds(
                    scenario, [chosen], series=True, trace=cdf is not None, observer=observer, learn=False
                )
                drawn[0].plot(*paths, law=law, cdf=cdf, box=box)
        elif saved.is_comparison(first):
            saved.load_comparison(first).plot(*paths, cdf=cdf, box=box)
        else:
            _seed_of(first, seed).plot(*paths, law=law, cdf=cdf, box=box)
        for path in paths:
            say(f"written: {path}" + (" (in place of the one before)" if path in known else ""))


def _remark_on_scenarios(runs: Iterable[Run]) -> None:
    """Say that runs over each other are not of one scenario: they look like senders on one path."""
    names = list(dict.fromkeys(str(run.scenario.get("name", "scenario")) for run in runs))
    if len(names) > 1:
        note(f"note: these are runs of different scenarios: {', '.join(names)}")


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
    runs = saved.load_runs(folder)
    chosen = next((one for one in runs if seed in (None, one.seed)), None)
    if chosen is None:
        raise ArgumentError(f"'{folder}' has no seed {seed}: it has {_first_few(runs.seeds)}")
    return chosen


def _labels(places: list[Path]) -> dict[Path, str]:
    """Return what to call each folder: its name, or its path where names are alike."""
    names = [place.name for place in places]
    return {place: place.name if names.count(place.name) == 1 else str(place) for place in places}


def _first_few(seeds: list[int]) -> str:
    shown = ", ".join(str(seed) for seed in seeds[:10])
    return shown if len(seeds) <= 10 else f"{shown} and {len(seeds) - 10} more"  # noqa: PLR2004


def view(
    place: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN|STUDY|PAPER|SCENARIO|CAPTURE",
            help="Folder of results, scenario or study file, capture (pcap, pcapng), log (qlog), name of a "
            "ready scenario, or number of a reproduced paper.",
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
    """Show a run, a comparison, a study, a paper, a scenario or a capture in the browser.

    The page can change, replay and explore it.

    A server on this machine serves the page. It does not accept connections from other machines, and
    Ctrl-C ends it.
    """
    with user_errors():
        from lasthop import view as page

        folder = page.check_page()
        shown = page.given(place, parse_settings(settings or []))
        if out is not None:
            if out.suffix.lower() not in (".html", ".htm"):
                raise ArgumentError(f"cannot write '{out}': a page ends in .html")
            files.check_file(out, replace=force)
            files.write_text(out, page.single_page(folder, shown))
            note(f"written: {out}")
            return
        with page.Server(folder, shown) as server, suppress(KeyboardInterrupt):
            say(server.address)
            note("Ctrl-C ends it")
            if browser:
                import webbrowser

                webbrowser.open(server.address)
            server.serve_forever(poll_interval=0.2)


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
    with user_errors(), unexecuted():
        from lasthop import tables

        scenario = open_scenario(file, settings)
        if seed is not None and seeds is not None:
            raise ArgumentError("--seed and --seeds exclude each other: give one")
        wanted = [scenario.seed if seed is None else seed] if seeds is None else parse_seeds(seeds)
        check_json(file, json_file, force=force)
        lack = None if plot_file is None else check_plot(plot_file)
        video = api.traffic(
            scenario, flow=flow, seeds=wanted, frames=frames, lags=parse_numbers("--lags", lags)
        )
        if plot_file is not None and lack is None:
            video.plot(plot_file)
        if json_file is not None:
            write_json(json_file, video.to_json())
        if json_file != "-":
            print_content(tables.traffic_table(video))
        if lack is not None:
            raise ArgumentError(f"'{plot_file}' is not written: {lack}")
        if plot_file is not None:
            note(f"written: {plot_file}")
