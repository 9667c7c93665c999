"""What the commands share at their border: options, error messages with exit codes, printing.

Used by `lasthop.cli` and the modules of its sub-commands. Heavy libraries are imported where they are used.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from lasthop.errors import Interrupted, LasthopError, RunError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

EXIT_RUN, EXIT_USER, EXIT_INTERRUPTED = 1, 2, 130
WIDTH_OF_NO_TERMINAL = 110

SeedsOption = Annotated[
    str | None, typer.Option("--seeds", metavar="LIST", help="Several seeds: 1-10 or 1,3,5-7.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a value: flows.0.transport=vegas."),
]
JobsOption = Annotated[
    int | None, typer.Option("--jobs", min=1, metavar="N", help="Runs at once; one per core.")
]


@contextmanager
def user_errors() -> Iterator[None]:
    """Print an error as its message alone, with the exit code of its kind."""
    try:
        yield
    except LasthopError as error:
        text = str(error)
        # The native diagnostics open with what they are, and an interruption is no error.
        opening = text.split("\n", maxsplit=1)[0]
        named = isinstance(error, Interrupted) or "error:" in opening
        typer.echo(text if named else f"error: {text}", err=True)
        raise typer.Exit(_exit_code(error)) from None
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None


def _exit_code(error: LasthopError) -> int:
    if isinstance(error, Interrupted):
        return EXIT_INTERRUPTED
    return EXIT_RUN if isinstance(error, RunError) else EXIT_USER


def print_content(content: RenderableType) -> None:
    """Print a table or the like on standard output."""
    from rich.console import Console

    # A file or a pipe has no width of its own; 80 columns would only break the tables.
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDTH_OF_NO_TERMINAL
    Console(width=width).print(content)


def note(text: str) -> None:
    """Print a line on standard error."""
    typer.echo(text, err=True)
