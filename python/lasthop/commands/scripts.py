"""Scripts of packets: `script` and `fuzz`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from lasthop import files
from lasthop.arguments import parse_names
from lasthop.commands.deliver import write_json
from lasthop.commands.options import ForceOption, JsonOption, VirtualOption
from lasthop.errors import ArgumentError
from lasthop.terminal import EXIT_RUN, note, say, user_errors


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
    with user_errors():
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
                note(f"{file}, {remark}")
            outcome = next(outcomes) if virtual else run_script(file, kernel=kernel)
            word = "holds" if outcome.holds else "FAILS" if outcome.ran else "skipped"
            say(f"{word:8} {file.stem}: {outcome.title} ({', '.join(outcome.sources)})")
            if not outcome.ran:
                say(f"         the kernel differs: {outcome.not_on_kernel}")
            if outcome.failure is not None:
                failed += 1
                say(f"         {outcome.failure}")
            for line in outcome.log if log or outcome.failure else ():
                say(f"         {line}")
        if failed:
            raise typer.Exit(EXIT_RUN)


def fuzz(
    kernel: Annotated[
        bool,
        typer.Option("--kernel", help="Ask the running kernel (Linux, root); otherwise only write scripts."),
    ] = False,
    virtual: VirtualOption = False,
    kinds: Annotated[
        str, typer.Option("--kinds", metavar="LIST", help="Kinds of events on the path, or 'all'.")
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
    seed: Annotated[int, typer.Option("--seed", min=0, max=1_000_000, help="Seed of the situations.")] = 1,
    least: Annotated[
        int, typer.Option("--least", min=0, metavar="N", help="Disagreements of each row to shorten.")
    ] = 1,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder for the scripts that disagree.")
    ] = None,
    json_file: JsonOption = None,
    force: ForceOption = False,
) -> None:
    """Run random scripts against the engine, and check whether the kernel does the same.

    The same options give the same scripts on every machine. Exits with 0 if the kernel does the same in all
    of them, with 1 if it differs in some, and with 2 if it cannot be asked.
    """
    with user_errors():
        from lasthop import fuzz as fuzzing
        from lasthop import live
        from lasthop.progress import shown_count
        from lasthop.situations import KINDS

        named = list(KINDS) if kinds == "all" else parse_names("--kinds", kinds)
        rows = parse_names("--controllers", controllers if laws is None else laws)
        if json_file not in (None, "-"):
            files.check_file(json_file, replace=force)
        if not kernel and not virtual:
            if out is None:
                raise ArgumentError(
                    "give --kernel or --virtual, to ask a kernel, or --out, to write the scripts"
                )
            written = fuzzing.write_all(named, rows, count, seed, out)
            say(f"{written} scripts in {out}; ask a kernel with: lasthop script --kernel {out}/*.script")
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
                say(line)
        if out is not None:
            kept = fuzzing.write(shares, out)
            note(f"{kept} scripts that part: {out}" if kept else "none parts")
        if json_file is not None:
            write_json(json_file, json.dumps(fuzzing.to_dict(shares)))
        if any(share.partings for share in shares):
            raise typer.Exit(EXIT_RUN)
