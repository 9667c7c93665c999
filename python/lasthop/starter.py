"""Starter scenarios for `lasthop new`, and starter studies for `lasthop study new`."""

from __future__ import annotations

import re
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
    path = _toml(name)
    _write_new({path: starter_text(kind, path.stem, str(path))})
    return path


def study_starter_text(name: str, file: str, scenario: str) -> str:
    """Return a commented study of the scenario in another file.

    Examples
    --------
    >>> "[[axes]]" in study_starter_text("lab", "lab.toml", "lab-scenario.toml")
    True
    """
    text = (files("lasthop") / "starters" / "study.toml").read_text(encoding="utf-8")
    return text.replace("{name}", name).replace("{file}", file).replace("{scenario}", scenario)


def write_study_starter(name: str) -> Path:
    """Write ``NAME.toml`` and its scenario ``NAME-scenario.toml``; files already there are left alone."""
    path = _toml(name)
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,70}", path.stem) is None:
        raise ArgumentError(f"a study cannot be called {path.stem!r}: use letters, digits, '-', '_' and '.'")
    scenario = path.with_name(f"{path.stem}-scenario.toml")
    _write_new(
        {
            scenario: starter_text("dumbbell", path.stem, str(scenario)),
            path: study_starter_text(path.stem, str(path), scenario.name),
        }
    )
    return path


def _toml(name: str) -> Path:
    return Path(name if name.endswith(".toml") else f"{name}.toml")


def _write_new(texts: dict[Path, str]) -> None:
    """Write files, none of which may be there."""
    for path in texts:
        if path.exists():
            raise _refusal(path)
        if not path.parent.is_dir():
            raise OutputError(
                f"cannot write '{path}': the folder '{path.parent}' does not exist; make it first"
            )
    for path, text in texts.items():
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            raise _refusal(path) from None
        except OSError as error:
            raise OutputError(f"cannot write '{path}': {(error.strerror or str(error)).lower()}") from None


def _refusal(path: Path) -> OutputError:
    return OutputError(f"'{path}' is already there and is not overwritten: choose another name")
