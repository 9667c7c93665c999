"""Starter scenarios for `lasthop new`."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from lasthop.errors import ArgumentError, OutputError

KINDS = ("dumbbell", "graph")


def starter_text(kind: str, name: str, file: str) -> str:
    """Return a commented scenario of the kind chosen.

    Examples
    --------
    >>> "duration = " in starter_text("graph", "lab", "lab.toml")
    True
    """
    if kind not in KINDS:
        raise ArgumentError(f"unknown topology {kind!r}: use one of {', '.join(KINDS)}")
    text = (files("lasthop") / "starters" / f"{kind}.toml").read_text(encoding="utf-8")
    return text.replace("{name}", name.replace("\\", "\\\\").replace('"', '\\"')).replace("{file}", file)


def write_starter(name: str, kind: str) -> Path:
    """Write ``NAME.toml``; a file that is already there is left alone."""
    path = Path(name if name.endswith(".toml") else f"{name}.toml")
    text = starter_text(kind, path.stem, str(path))
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise OutputError(f"'{path}' is already there and is not overwritten: choose another name") from None
    except OSError as error:
        raise OutputError(f"cannot write '{path}': {(error.strerror or str(error)).lower()}") from None
    return path
