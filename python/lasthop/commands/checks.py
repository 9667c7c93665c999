"""`check-transport`: for the tests of those who write a transport."""

from __future__ import annotations

from typing import Annotated

import typer

from lasthop.arguments import parse_seeds
from lasthop.commands.options import JsonOption
from lasthop.errors import ArgumentError
from lasthop.quantities import number_text
from lasthop.terminal import EXIT_RUN, say, user_errors

MOST_JOBS = 256


def check_transport(
    scenarios: Annotated[
        list[str], typer.Argument(metavar="SCENARIO...", help="Scenario files.", show_default=False)
    ],
    old: Annotated[
        str,
        typer.Option(
            "--old",
            metavar="COMMAND",
            help="Runs {scenario} with {seed} and prints its figures as JSON.",
            show_default=False,
        ),
    ],
    new: Annotated[
        str,
        typer.Option("--new", metavar="COMMAND", help="The same for the new version.", show_default=False),
    ],
    seeds: Annotated[
        str, typer.Option("--seeds", metavar="LIST", help="Seeds that both run: 1-10 or 1,3,5-7.")
    ] = "1-10",
    bound: Annotated[
        list[str] | None,
        typer.Option(
            "--bound",
            metavar="FIGURE=±N%",
            help="How much worse a figure may be; repeatable. "
            "If not given: goodput=-5%, delay=+10%, fairness=-5%.",
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Also fail if a figure stays undecided.")] = False,
    jobs: Annotated[
        int, typer.Option("--jobs", metavar="N", min=1, max=MOST_JOBS, help="Parallel commands.")
    ] = 2,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="S", min=0.1, help="Seconds that a command may take.")
    ] = 600.0,
    json_file: JsonOption = None,
) -> None:
    """Compare two versions of a transport over scenarios, seed by seed.

    Each version is a command that runs one scenario with one seed and prints a JSON object of numbers, or
    what 'lasthop run --json -' prints. Exits with 1 if a figure is shown to be worse than its bound: if the
    whole 95 % interval of the paired difference lies beyond it. A failure names the seed that differs most.
    """
    with user_errors():
        from lasthop.regressions import USUAL, Bound, Finding, check, check_command

        for option, command in (("--old", old), ("--new", new)):
            check_command(option, command)
        bounds = [Bound.read(text) for text in bound or USUAL]
        if len({one.figure for one in bounds}) < len(bounds):
            raise ArgumentError("--bound names a figure twice: give each once")
        wide = max(map(len, scenarios))

        def tell(found: Finding) -> None:
            change = found.difference
            shown = "no share of nothing" if change is None else f"{100 * change.mean:+.2f} %"
            if change is not None and change.low is not None and change.high is not None:
                shown += f" ({100 * change.low:+.2f} to {100 * change.high:+.2f})"
            limit = f"bound {100 * found.bound.limit:+g} %"
            figures = f"{found.bound.figure}: {number_text(found.old)} -> {number_text(found.new)}"
            say(f"{found.verdict:9} {found.scenario:{wide}}  {figures}, {shown}, {limit}")
            if found.replay:
                say(f"          $ {found.replay}")

        findings = check(
            old=old,
            new=new,
            scenarios=scenarios,
            seeds=parse_seeds(seeds),
            bounds=bounds,
            jobs=jobs,
            timeout_s=timeout,
            observer=tell if json_file != "-" else lambda _: None,
        )
        if json_file is not None:
            import json
            from dataclasses import asdict

            from lasthop.commands.deliver import write_json

            write_json(json_file, json.dumps({"findings": [asdict(found) for found in findings]}))
        verdicts = [found.verdict for found in findings]
        if "worse" in verdicts or (strict and "undecided" in verdicts):
            raise typer.Exit(EXIT_RUN)
