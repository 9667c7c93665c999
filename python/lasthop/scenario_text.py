"""Scenarios as text, with the texts of the files that they name: what a page carries of one.

Called by `view` and `explore`.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from lasthop import starter

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any


#: Longest file that a page takes along.
LONGEST_FILE = 32 << 20


def files_of(scenario: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Return the texts of the files that a scenario names, without those outside its folder."""
    texts = {}
    for name in starter.named_files(scenario):
        path = (folder / name).resolve()
        if (
            not path.is_relative_to(folder.resolve())
            or not path.is_file()
            or path.stat().st_size > LONGEST_FILE
        ):
            continue
        texts[name] = path.read_text(encoding="utf-8", errors="replace")
    return texts


def toml_of(scenario: Mapping[str, Any]) -> str:
    """Write a scenario as TOML, a line per key of a table.

    Examples
    --------
    >>> print(toml_of({"seed": 1, "tcp": {"ecn": True}, "flows": [{"start": {"uniform": ["0 s", "1 s"]}}]}))
    seed = 1
    <BLANKLINE>
    [tcp]
    ecn = true
    <BLANKLINE>
    [[flows]]
    start = { uniform = ["0 s", "1 s"] }
    <BLANKLINE>
    """
    plain = {key: value for key, value in scenario.items() if not _is_section(value)}
    blocks = [_lines(plain)] if plain else []
    for key, value in scenario.items():
        if isinstance(value, dict):
            blocks.append(f"[{_key(key)}]\n{_lines(value)}")
        elif _is_section(value):
            blocks.extend(f"[[{_key(key)}]]\n{_lines(one)}" for one in value)
    return "\n".join(blocks)


def _is_section(value: object) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)
    )


def _lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in table.items())


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)


def _value(value: object) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    # JSON's strings are TOML's, but for two letters of control.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
