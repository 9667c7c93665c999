"""The history of a path: `history show`, `clear`, `import` and `export`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from lasthop import files
from lasthop.commands.options import ForceOption, HistoryText
from lasthop.errors import ArgumentError
from lasthop.terminal import print_content, say, user_errors
from lasthop.visible import visible

HistoryFile = Annotated[
    Path,
    typer.Argument(
        metavar="HISTORY", help="The file that the table history of a scenario names.", show_default=False
    ),
]


history_app = typer.Typer(
    name="history",
    help="Manage a history of paths: the file that the table history of a scenario names.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


@history_app.command("show")
def show_history(file: HistoryFile) -> None:
    """Show the number of stored windows by host and time."""
    with user_errors():
        from lasthop import history, tables

        print_content(tables.history_table(history.read(file), str(file)))


@history_app.command("clear")
def clear_history(
    file: HistoryFile,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete all stored windows; asks first."""
    with user_errors():
        from lasthop import history

        count = len(history.read(file))
        if not yes:
            if not sys.stdin.isatty():
                raise ArgumentError(f"clear would delete all {count} windows of '{file}': say so with --yes")
            typer.confirm(visible(f"Delete all {count} windows of '{file}'?"), abort=True)
        say(f"deleted: {history.clear(file)} windows of {file}")


@history_app.command("import")
def import_history(
    file: HistoryFile,
    source: HistoryText,
) -> None:
    """Add the windows of a CSV or JSON file; creates the history if there is none."""
    with user_errors():
        from lasthop import history

        entries = history.parse(history.read_text(source), history.format_of(source), str(source))
        history.add(file, entries)
        say(f"imported: {len(entries)} windows into {file}")


@history_app.command("export")
def export_history(
    file: HistoryFile,
    target: HistoryText,
    force: ForceOption = False,
) -> None:
    """Write all stored windows as CSV or JSON."""
    with user_errors():
        from lasthop import history

        file_format = history.format_of(target)
        entries = history.read(file)
        files.check_file(target, replace=force)
        files.write_text(target, history.dump(entries, file_format))
        say(f"written: {target}")
