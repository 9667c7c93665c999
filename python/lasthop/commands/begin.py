"""First steps: `new`, `demo` and `doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lasthop import api, output
from lasthop.arguments import complete_ready, parse_seeds
from lasthop.commands.deliver import compared, deliver_comparison
from lasthop.commands.options import ForceOption, SeedsOption
from lasthop.places import reserved
from lasthop.terminal import EXIT_RUN, WIDTH_OF_NO_TERMINAL, note, say, user_errors
from lasthop.visible import typed


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
    with user_errors():
        from lasthop import starter

        scenarios, studies = starter.ready("scenarios"), starter.ready("studies")
        if listed:
            for kind, paths in (("scenarios", scenarios), ("studies", studies)):
                say(f"ready {kind}, written by 'lasthop new NAME':")
                for ready, path in paths.items():
                    say(f"  {ready:<20}{starter.summary_of(path)}")
            return
        if topology is None and name in (scenarios | studies):
            written = starter.write_ready(name)
        else:
            written = [starter.write_starter(name, topology or "dumbbell")]
        for path in written:
            say(f"written: {path}")
        verb = "study run" if name in studies and topology is None else "run"
        say(f"next:    lasthop {verb} {typed(written[-1])}")


def demo(
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder of the comparison and the figures.")
    ] = Path("out", "demo"),
    seeds: SeedsOption = "1-10",
    force: ForceOption = False,
) -> None:
    """Compare five senders over a lossy last hop, and show one window over time."""
    with user_errors():
        import shutil

        from lasthop import starter
        from lasthop.demo import ALONE, RACE, SENDERS, lack_of_pictures, window_text
        from lasthop.drawing import check_names

        scenarios = starter.ready("scenarios")
        race, alone = (api.Scenario.load(scenarios[name]) for name in (RACE, ALONE))
        bars, windows = out / "compare.png", out / "window.png"
        lack = lack_of_pictures()
        with reserved(out, force=force):
            check_names([bars, windows])
            comparison, interrupted = compared(race, list(SENDERS), parse_seeds(seeds or "1-10"))
            output.save_comparison(comparison, out, held=True)
            if lack is None:
                comparison.plot(bars)
            deliver_comparison(comparison, None, None)
            if interrupted is not None:
                raise interrupted
            if lack is None:
                single = api.run(alone, series=True)
                single.plot(windows)
                say()
                say(window_text(single, shutil.get_terminal_size((WIDTH_OF_NO_TERMINAL, 24)).columns))
        say(f"\nfigures: {bars} and {windows}" if lack is None else f"\nno figures: {lack}")
        say(
            f"try next:\n  lasthop new {RACE}\n  lasthop run {RACE}.toml --seeds 1-4 "
            f"--set flows.0.transport=vegas\n  lasthop plot {RACE}.toml --out over-time.html\n"
            "  lasthop new --list\n  lasthop transports"
        )


def doctor() -> None:
    """Print versions and machine, and check the engine with a one-second run."""
    with user_errors():
        from lasthop.doctor import examine

        findings = examine()
        width = max(len(finding.what) for finding in findings) + 2
        for finding in findings:
            say(f"{finding.what + ':':<{width}}{finding.text}")
        troubles = [finding for finding in findings if finding.trouble]
        for finding in troubles:
            note(f"trouble with {finding.what}: {finding.trouble}")
        if troubles:
            raise typer.Exit(EXIT_RUN)
        say("all is well")
