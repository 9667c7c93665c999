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
    waits = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
    if waits:
        # An exception would pass through whatever is being imported, which may hide it or add to it.
        _signal.signal(_signal.SIGINT, _leave)
    try:
        from lasthop.cli import main as command
    except KeyboardInterrupt:
        _leave()
    if waits:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    command()


def _leave(*_: object) -> None:
    os.write(sys.stderr.fileno(), b"interrupted\n")
    os._exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
