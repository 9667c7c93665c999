"""Scripts of one end of a TCP connection: what it gets and when, and what it has to send and when.

The same script examines the engine in virtual time, where every time is exact, and a running Linux kernel,
where times have a tolerance. The notation is described in ``docs/how-to/script-a-connection.md``.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lasthop import _native
from lasthop.errors import ArgumentError, native_errors
from lasthop.files import read_at_most

#: Ending of scripts of packetdrill, which are turned into ours.
PACKETDRILL = ".pkt"
#: Longest script in bytes; those that people write are a thousand times shorter.
LONGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class ScriptOutcome:
    """What came of a script.

    Attributes
    ----------
    title : str
        What it asserts.
    sources : tuple of str
        Where that is written.
    ran : bool
        `False` if it was to run against the kernel and says that the kernel does something else.
    failure : str or None
        Where the stack did something else: line of the script, what was asserted, what was.
    log : tuple of str
        A line for each packet, in the notation of scripts, with its time in seconds.
    not_on_kernel : str or None
        Why the kernel does something else.
    """

    title: str
    sources: tuple[str, ...]
    ran: bool
    failure: str | None
    log: tuple[str, ...]
    not_on_kernel: str | None

    @property
    def holds(self) -> bool:
        """Whether everything was as asserted."""
        return self.ran and self.failure is None


def run_script(source: str | Path, *, kernel: bool = False) -> ScriptOutcome:
    r"""Run a script against the engine, or against the kernel.

    Parameters
    ----------
    source : str or Path
        A file, or the text of a script (a string with more than one line).
    kernel : bool
        Against the TCP of the running kernel, in real time (Linux, root).

    Returns
    -------
    ScriptOutcome
        Whether the stack did what the script asserts, and every packet.

    Raises
    ------
    ScenarioError
        If it is no script; the text says the line and what would be right.
    RunError
        If the machine cannot run it against the kernel.

    Examples
    --------
    >>> head = 'title = "A SYN"\nsources = ["RFC 9293"]\ntransport = "newreno"\nkernel = "reno"\n'
    >>> run_script(head + "---\n0 connect\n+0 > S 0:0(0)\n").holds
    True
    """
    text, name = text_of(source)
    with native_errors():
        return outcome_of(json.loads(_native.run_script(text, name, kernel=kernel)), name)


def outcome_of(told: dict[str, Any], name: str) -> ScriptOutcome:
    """Return what the native module, or the virtual machine, tells of a script that is called `name`."""
    failure = told["failure"] and f"{name}, line {told['failure']['line']}: {told['failure']['text']}"
    return ScriptOutcome(
        told["title"],
        tuple(told["sources"]),
        told["ran"],
        failure,
        tuple(told["log"] or ()),
        told["not_on_kernel"],
    )


def text_of(source: str | Path) -> tuple[str, str]:
    """Return the text of a script, and what it is called in messages."""
    if isinstance(source, str) and "\n" in source:
        return source, "script"
    text, name = _content(Path(source))
    if Path(source).suffix != PACKETDRILL:
        return text, name
    from lasthop.packetdrill import translate

    return translate(text, name).text, name


def notes(path: Path) -> tuple[str, ...]:
    """Return what of a script of packetdrill is not looked at, each with its line; of ours nothing."""
    if path.suffix != PACKETDRILL:
        return ()
    from lasthop.packetdrill import translate

    return translate(*_content(path)).notes


def _content(path: Path) -> tuple[str, str]:
    """Return the text of a file, and what it is called in messages."""
    try:
        raw = read_at_most(path, LONGEST)
        if raw is None:
            raise ArgumentError(f"{path}: more than 1 MiB, which is too long for a script")
        text = raw.decode("utf-8")
    except OSError as error:
        raise ArgumentError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise ArgumentError(f"{path}: not a text in UTF-8, which scripts are") from None
    # The engine takes names as text; one that is not UTF-8 is shown as well as can be.
    return text, os.fsencode(path).decode(errors="replace")
