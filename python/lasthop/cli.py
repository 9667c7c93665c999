"""The `lasthop` command: its verbs in the order of the help text, and how it starts and ends.

The verbs are in `lasthop.commands`: a new one is a function there and a line in `VERBS`. A user's mistake
prints one message on stderr and exits with 2, a failed run with 1, Ctrl-C with 130.
"""

from __future__ import annotations

import re
import signal
import sys
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperGroup

from lasthop import _native, terminal
from lasthop.commands.archive import bundle, unbundle
from lasthop.commands.begin import demo, doctor, new
from lasthop.commands.catalogue import helpers, list_metrics, schema, transports
from lasthop.commands.evaluate import evaluate
from lasthop.commands.files import from_capture, trace
from lasthop.commands.history import history_app
from lasthop.commands.look import plot, show, traffic, view
from lasthop.commands.options import JsonCommand
from lasthop.commands.papers import reproduce
from lasthop.commands.real import emulate, parity, steer
from lasthop.commands.scripts import fuzz, script
from lasthop.commands.simulate import compare, run
from lasthop.commands.study import study_app
from lasthop.errors import ArgumentError
from lasthop.terminal import (
    EXIT_INTERRUPTED,
    EXIT_RUN,
    drop_lost_notes,
    drop_output,
    heed_lost_interrupts,
    note,
    say,
    tell_warnings,
    use_columns_that_make_sense,
    user_errors,
    write_what_can_be_written,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class Group(TyperGroup):
    """The command, which refuses arguments that are empty: as a name of a folder they would mean this one."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Refuse empty arguments before ``--``; behind it they are those of another program."""
        own = args[: args.index("--")] if "--" in args else args
        for before, argument in zip(["", *own], own, strict=False):
            named = before if argument == "" else argument.removesuffix("=")
            if argument == "" or re.fullmatch(r"--[a-z-]+=", argument):
                what = f"{named} has an empty value" if named.startswith("-") else "an argument is empty"
                with user_errors():
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


#: Every verb but the groups, as the help text lists them.
VERBS: dict[str, Callable[..., None]] = {
    "run": run,
    "compare": compare,
    "plot": plot,
    "show": show,
    "view": view,
    "traffic": traffic,
    "new": new,
    "demo": demo,
    "transports": transports,
    "helpers": helpers,
    "metrics": list_metrics,
    "reproduce": reproduce,
    "bundle": bundle,
    "unbundle": unbundle,
    "trace": trace,
    "from-capture": from_capture,
    "schema": schema,
    "emulate": emulate,
    "steer": steer,
    "parity": parity,
    "evaluate": evaluate,
    "script": script,
    "fuzz": fuzz,
    "doctor": doctor,
}
for _name, _verb in VERBS.items():
    app.command(_name, cls=JsonCommand)(_verb)
app.add_typer(history_app)
app.add_typer(study_app)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - the form typer asks for
    if wanted:
        say(f"lasthop {_native.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take the options that stand before a command."""


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
        note(f"error: cannot use standard output: {(error.strerror or str(error)).lower()}")
        drop_output()
        sys.exit(terminal.EXIT_USER)
    except KeyboardInterrupt:
        # Before any command had begun.
        note("interrupted")
        sys.exit(EXIT_INTERRUPTED)
    finally:
        drop_lost_notes()
        # On the way out another Ctrl-C has nothing to stop, and Python would show where it was.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
