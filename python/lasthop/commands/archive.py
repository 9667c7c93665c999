"""Archives: `bundle` and `unbundle`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lasthop.commands.options import ForceOption
from lasthop.terminal import say, user_errors

#: Files of a bundle that are named.
BUNDLE_SHOWN = 20


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
    with user_errors():
        from lasthop.bundle import bundle as pack

        names = pack(sources, out, force=force)
        for name in names[:BUNDLE_SHOWN]:
            say(f"  {name}")
        if len(names) > BUNDLE_SHOWN:
            say(f"  and {len(names) - BUNDLE_SHOWN} more")
        say(f"written: {out}, {len(names)} files")


def unbundle(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="The archive.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="A new folder; the archive's name, here, if not given."),
    ] = None,
) -> None:
    """Check every file of an archive by its hash, and unpack it into a new folder."""
    with user_errors():
        from lasthop.bundle import unbundle as unpack

        folder = Path(source.stem) if out is None else out
        files = unpack(source, folder)
        say(f"checked and written: {len(files)} files in {folder}")
