"""Starts the command: ``lasthop``, and ``python -m lasthop``.

Imports nothing before it can answer for a Ctrl-C.
"""

from __future__ import annotations

import sys

#: As `lasthop.terminal` has it, which cannot be imported here.
EXIT_INTERRUPTED = 130


def main() -> None:
    """Run the command, and be silent about where Ctrl-C came."""
    try:
        from lasthop.cli import main as command
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(EXIT_INTERRUPTED)
    command()


if __name__ == "__main__":
    main()
