"""TOML of others, and what is wrong with a file that should be TOML or JSON, in the words of scenario errors.

Called by what reads studies, papers, measurements and histories, and by what looks into scenarios.
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

from lasthop import _native

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any, Literal

#: Longest text that is looked at once more for the place of a slip.
LONGEST = 1 << 23


def toml(text: str) -> dict[str, Any]:
    """Return what a text says that the engine would read, too.

    Python's parser alone takes the square of the parts of a key, in time and in memory: gigabytes for a line.

    Raises
    ------
    ValueError, RecursionError
        It is not TOML; `slip` says why.
    """
    if (found := _native.syntax_error(text, "toml", "the text")) is not None:
        raise ValueError(found)
    return tomllib.loads(text)


def slip(text: str, kind: Literal["json", "toml"], path: str | Path, error: Exception) -> str:
    r"""Return what is wrong, with the line and what to do, over several lines.

    Parameters
    ----------
    text, kind, path
        What was read, as what, and from where.
    error : Exception
        What the parser of Python says, for the few texts that the engine's would take.

    Examples
    --------
    >>> print(slip("seeds = [1,\nname = 2", "toml", "lab.toml", ValueError("Invalid value")))
    not valid TOML: unexpected `=` in array, expected value, `]`
      at lab.toml:2:6
    2 | name = 2
      |      ^ correct the file at this place
    >>> print(slip("a = {b = 1,}", "toml", "lab.toml", ValueError("Invalid key (at line 1, column 12)")))
    not valid TOML: invalid key (at line 1, column 12)
      at lab.toml
    """
    found = _native.syntax_error(text, kind, str(path)) if len(text) <= LONGEST else None
    if found is not None:
        return found
    why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
    return f"not valid {kind.upper()}: {why[:1].lower()}{why[1:]}\n  at {path}"
