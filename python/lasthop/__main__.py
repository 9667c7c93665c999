"""Starts the command: ``lasthop``, and ``python -m lasthop``.

Imports nothing before it can answer for a Ctrl-C, and what it needs for that is there since Python started.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
import sys

#: As `lasthop.terminal` has it, which cannot be imported here.
EXIT_INTERRUPTED = 130


def main() -> None:
    """Run the command, and be silent about where Ctrl-C came."""
    open_what_is_closed()
    waits = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
    if waits:
        # An exception would pass through whatever is being imported, which may hide it or add to it.
        _signal.signal(_signal.SIGINT, _leave)
    try:
        if sys.argv[1:] == ["--version"]:
            # Programs ask it, again and again: nothing else is imported for it.
            from lasthop.terminal import guarded, say_version

            def command() -> None:
                guarded(say_version)
        elif len(sys.argv) == 3 and sys.argv[1] == "run" and sys.argv[2][:1] not in ("", "-"):  # noqa: PLR2004
            # A file and no option: what reads options takes longer to import than a small scenario to run.
            from lasthop.commands.running import run_scenario
            from lasthop.terminal import guarded

            def command() -> None:
                guarded(lambda: run_scenario(sys.argv[2]))
        else:
            from lasthop.cli import main as command
    except KeyboardInterrupt:
        _leave()
    if waits:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    command()


def open_what_is_closed() -> None:
    """Let nothing stand in for standard streams that are closed, as for a service or after ``>&-``.

    Otherwise the first files that are opened would take their place, and be written to in their stead.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
        if getattr(sys, name) is None:
            # Errors of letters are settled with those of the other streams.
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def _leave(*_: object) -> None:
    os.write(sys.stderr.fileno(), b"interrupted\n")
    os._exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
