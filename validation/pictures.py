"""Pictures of the pages: SVG that is the same, byte by byte, whenever it is drawn from the same figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
import matplotlib.pyplot as plt

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure


def begin() -> None:
    """Draw without a screen, and with names of parts that do not change."""
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "lasthop"


def save(figure: Figure, file: Path) -> None:
    """Write it without a date, and close it."""
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)
    # matplotlib ends lines of paths with blanks.
    lines = file.read_text(encoding="utf-8").splitlines()
    file.write_text("".join(f"{line.rstrip()}\n" for line in lines), encoding="utf-8")
