"""The `lasthop` command: its verbs in the order of the help text, and how it starts and ends.

The verbs are in `lasthop.commands`: a new one is a function there and a line in `VERBS`. A user's mistake
prints one message on stderr and exits with 2, a failed run with 1, Ctrl-C with 130.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from lasthop.errors import ArgumentError
from lasthop.terminal import guarded, say_version, user_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    # Typer has no public name for what it makes of a function.
    Verb = Any

#: Where each verb is: a module of `lasthop.commands`, and the function or the group in it.
VERBS = {
    "run": "simulate:run",
    "compare": "simulate:compare",
    "plot": "look:plot",
    "show": "look:show",
    "view": "look:view",
    "traffic": "look:traffic",
    "new": "begin:new",
    "demo": "begin:demo",
    "transports": "catalogue:transports",
    "helpers": "catalogue:helpers",
    "metrics": "catalogue:list_metrics",
    "reproduce": "papers:reproduce",
    "bundle": "archive:bundle",
    "unbundle": "archive:unbundle",
    "trace": "files:trace",
    "from-capture": "files:from_capture",
    "schema": "catalogue:schema",
    "emulate": "real:emulate",
    "steer": "real:steer",
    "parity": "real:parity",
    "evaluate": "evaluate:evaluate",
    "check-transport": "checks:check_transport",
    "script": "scripts:script",
    "fuzz": "scripts:fuzz",
    "doctor": "begin:doctor",
    "history": "history:history_app",
    "study": "study:study_app",
}


class Verbs(Mapping[str, "Verb"]):
    """The verbs by name, each imported when it is asked for: a command waits for its own imports alone."""

    def __init__(self) -> None:
        self.made: dict[str, Verb] = {}

    def __getitem__(self, name: str) -> Verb:
        """Return the verb called `name`."""
        if name not in self.made:
            module, attribute = VERBS[name].split(":")
            found = getattr(importlib.import_module(f"lasthop.commands.{module}"), attribute)
            if not isinstance(found, typer.Typer):
                from lasthop.commands.options import JsonCommand

                alone = typer.Typer(add_completion=False)
                alone.command(name, cls=JsonCommand)(found)
                found = alone
            self.made[name] = typer.main.get_command(found)
        return self.made[name]

    def __iter__(self) -> Iterator[str]:
        """Go through the names, in the order of the help text."""
        return iter(VERBS)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(VERBS)


class Group(TyperGroup):
    """The command, which refuses arguments that are empty: as a name of a folder they would mean this one."""

    def __init__(self, **named: Any) -> None:  # noqa: ANN401 - as of the base
        super().__init__(**named)
        # Typer reads them, and adds none.
        self.commands = Verbs()  # type: ignore[assignment]

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
    help="Which transport serves best over a wireless last hop? A packet-level simulator of transports.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with 'lasthop new', then 'lasthop run scenario.toml'.",
)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - the form typer asks for
    if wanted:
        say_version()
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
    guarded(app)
