"""What a study file says, read as TOML or JSON and not looked at: `reader` makes a study of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from lasthop.errors import StudyError
from lasthop.files import read_at_most
from lasthop.syntax import slip, toml

if TYPE_CHECKING:
    from pathlib import Path


#: Bytes of a study file; a device has no end.
LONGEST_TEXT = 1 << 23


def read_content(path: Path) -> dict[str, Any]:
    """Read the file as TOML, or as JSON if its name ends so; nothing is checked but the syntax."""
    try:
        text = _bounded_text(path)
    except FileNotFoundError:
        raise StudyError(
            f"study error: there is no such file\n  at {path}\n"
            "     check the path; 'lasthop study new' writes a study to start from"
        ) from None
    except IsADirectoryError:
        raise StudyError(
            f"study error: it is a folder, not a study file\n  at {path}\n     name a .toml or .json file"
        ) from None
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.strerror:
            reason = error.strerror
        elif isinstance(error, UnicodeDecodeError):
            reason = "it is not text in UTF-8"
        else:
            # A name with a zero byte in it, which no file has.
            reason = str(error)
        raise StudyError(f"study error: it cannot be read: {reason.lower()}\n  at {path}") from None
    try:
        content = json.loads(text) if path.suffix.lower() == ".json" else toml(text)
    except (ValueError, RecursionError) as error:
        kind: Literal["json", "toml"] = "json" if path.suffix.lower() == ".json" else "toml"
        raise StudyError(f"study error: {slip(text, kind, path, error)}") from None
    if not isinstance(content, dict):
        raise StudyError(f'study error: it holds no table\n  at {path}\n     start with {{"name": …}}')
    return content


def _bounded_text(path: Path) -> str:
    raw = read_at_most(path, LONGEST_TEXT)
    if raw is None:
        raise ValueError(f"it is too large: more than {LONGEST_TEXT} bytes")
    return raw.decode("utf-8")
