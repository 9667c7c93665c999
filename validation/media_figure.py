"""The rate of each sender over the capacity, as `docs/reference/media-rates.svg`, for `validation.media`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib.pyplot as plt

from validation import pictures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

#: Panels beside each other.
COLUMNS = 2


def draw(
    file: Path,
    capacity: Sequence[tuple[float, float]],
    end: float,
    rates: Mapping[str, Mapping[str, Sequence[float]]],
) -> None:
    """Draw a panel for each sender: what each second brought of its videos, and the capacity, in Mbit/s."""
    pictures.begin()
    rows = -(-len(rates) // COLUMNS)
    figure, axes = plt.subplots(rows, COLUMNS, figsize=(8, 1.7 * rows), sharex=True, sharey=True)
    times = [at for at, _ in capacity] + [end]
    steps = [rate for _, rate in capacity] + [capacity[-1][1]]
    for axis, (sender, videos) in zip(axes.flat, rates.items(), strict=False):
        axis.step(times, steps, where="post", color="0.6", linewidth=1.5, label="capacity")
        for name, rate in videos.items():
            axis.plot(range(1, len(rate) + 1), rate, linewidth=1.0, label=name)
        axis.set_title(sender, fontsize=9, loc="left")
        axis.grid(visible=True, color="0.9")
    for axis in list(axes.flat)[len(rates) :]:
        axis.set_axis_off()
    axes.flat[0].legend(fontsize=7)
    figure.supxlabel("time (s)", fontsize=9)
    figure.supylabel("rate (Mbit/s)", fontsize=9)
    figure.tight_layout()
    pictures.save(figure, file)
