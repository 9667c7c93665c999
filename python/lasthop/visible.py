"""Texts as people may see and copy them: control characters written out, and paths as a shell takes them."""

from __future__ import annotations

import os
import re
import shlex

#: Characters that move a cursor, clear a screen, name a window or turn the direction of text.
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    r"""Return a text with the control characters that it holds written out, but for line ends and tabs.

    Whatever goes to a terminal goes through here: titles, names and messages come from files, and files from
    anyone. It is written as JSON writes it, so that JSON stays what it is.

    Examples
    --------
    >>> print(visible("\x1b]0;title\x07 of a\tstudy"))
    \u001b]0;title\u0007 of a	study
    """
    return UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def typed(path: str | os.PathLike[str]) -> str:
    """Return a path as one types it behind a command: quoted where a shell needs it, and never an option.

    Examples
    --------
    >>> print(typed("my run.toml"), typed("-x.toml"), typed("/tmp/a.toml"))
    'my run.toml' ./-x.toml /tmp/a.toml
    """
    text = os.fspath(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)
