"""Starter scenarios for `lasthop new`, starter studies for `lasthop study new`, and those that come ready."""

from __future__ import annotations

import itertools
import re
import tomllib
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from lasthop import unfinished
from lasthop.errors import ArgumentError, OutputError, ScenarioError
from lasthop.files import output_errors, umask

KINDS = ("dumbbell", "graph", "wlan", "wired-cum-wireless")


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


def ready(kind: str) -> dict[str, Path]:
    """Return the ready ``scenarios`` or ``studies`` that come with lasthop, by their names.

    Examples
    --------
    >>> "lossy-last-hop" in ready("scenarios"), list(ready("studies"))
    (True, ['light-load', 'per-sweep', 'slow-station'])
    """
    folder = Path(str(files("lasthop"))) / "ready" / kind
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def not_a_name(file: str) -> str:
    """Return the path of a scenario; refuse the name of a ready one, of which there is no file here.

    Raises
    ------
    ScenarioError
        With the command that writes it.
    """
    if file in ready("scenarios") and not Path(file).exists():
        raise ScenarioError(
            f"scenario error: there is no such file\n  at {file}\n"
            f"     it is a ready scenario: 'lasthop new {file}' writes {file}.toml, which can be run"
        )
    return file


def summary_of(path: Path) -> str:
    """Return the first sentence of the comment that a ready file opens with.

    Examples
    --------
    >>> summary_of(ready("scenarios")["single-flow"])
    'One TCP flow alone on a clean path of 10 Mbit/s and 40 ms of round-trip time: the textbook picture.'
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    opening = itertools.takewhile(lambda line: line.startswith("# "), lines)
    text = " ".join(line.removeprefix("# ").strip() for line in opening)
    return re.split(r"(?<=[.?])\s", text, maxsplit=1)[0]


def write_ready(name: str) -> list[Path]:
    """Write a ready scenario with the files that it names, or a ready study with its scenario.

    They go into the current folder.

    Raises
    ------
    OutputError
        If one of the files is there already; then none is written.
    """
    scenarios, studies = ready("scenarios"), ready("studies")
    if name in scenarios:
        text = scenarios[name].read_text(encoding="utf-8")
        folder = scenarios[name].parent
        texts = {
            Path(file): (folder / file).read_text(encoding="utf-8")
            for file in named_files(tomllib.loads(text))
        }
        texts[Path(scenarios[name].name)] = text
    else:
        study = studies[name].read_text(encoding="utf-8")
        named = tomllib.loads(study)["scenario"]
        scenario = Path(named)
        texts = {
            Path(scenario.name): scenarios[scenario.stem].read_text(encoding="utf-8"),
            Path(f"{name}.toml"): study.replace(f'"{named}"', f'"{scenario.name}"').replace(
                f"studies/{name}.toml", f"{name}.toml"
            ),
        }
    _write_new(texts)
    return list(texts)


def named_files(value: object) -> list[str]:
    """Return the files that the keys ``file`` of a scenario name, each once."""
    if isinstance(value, dict):
        own = [value["file"]] if isinstance(value.get("file"), str) else []
        found = own + [file for part in value.values() for file in named_files(part)]
    elif isinstance(value, list):
        found = [file for part in value for file in named_files(part)]
    else:
        return []
    return list(dict.fromkeys(found))


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
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ArgumentError("the name is not UTF-8, and it would stand in the file: choose another") from None
    return Path(name if name.endswith(".toml") else f"{name}.toml")


def _write_new(texts: dict[Path, str]) -> None:
    """Write files, none of which may be there.

    A call that was killed between two of them has left the first, word for word: the next one completes them.
    """
    left = {path for path, text in texts.items() if _holds(path, text)}
    missing = texts if len(left) == len(texts) else {path: texts[path] for path in texts if path not in left}
    for path in missing:
        if path.exists():
            raise _refusal(path)
        if not path.parent.is_dir():
            raise OutputError(
                f"cannot write '{path}': the folder '{path.parent}' does not exist; make it first"
            )
    written: list[Path] = []
    try:
        for path, text in missing.items():
            with output_errors(path):
                unfinished.sweep(path.parent)
                with unfinished.file_beside(path) as temporary:
                    temporary.write_text(text, encoding="utf-8")
                    temporary.chmod(0o666 & ~umask())
                    try:
                        unfinished.settle_new(temporary, path)
                    except FileExistsError:
                        raise _refusal(path) from None
            written.append(path)
    except BaseException:
        # All or none: the next try would refuse to overwrite what this one has left.
        for path in written:
            with suppress(OSError):
                path.unlink()
        raise


def _holds(path: Path, text: str) -> bool:
    try:
        return path.read_text(encoding="utf-8") == text
    except (OSError, ValueError):
        return False


def _refusal(path: Path) -> OutputError:
    return OutputError(f"'{path}' is already there and is not overwritten: choose another name")
