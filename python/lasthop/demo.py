"""What `lasthop demo` shows: a race of senders, one sender's window in the terminal, and both as files.

Called by the command line. It draws in text with plotext, so that a terminal on a distant machine will do.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from lasthop.extras import EXTRAS, lacking
from lasthop.quantities import time_text

if TYPE_CHECKING:
    from lasthop.results import Run

#: The scenario of the race, and the one whose single flow shows slow start and saw-tooth.
RACE, ALONE = "lossy-last-hop", "single-flow"
SENDERS = ("reno", "newreno", "sack", "vegas", "cubic")
PICTURE_LINES = 18
WIDTH_MAX = 110


def lack_of_pictures() -> str | None:
    """Return what to do before the demo can draw; `None` if all is there. Its table needs nothing."""
    missing = [name for name in EXTRAS if find_spec(name) is None]
    drawing = [name for name in missing if EXTRAS[name][0] == "plot"]
    # The extra that draws brings what analyses as well.
    return lacking(drawing[0] if drawing else missing[0]) if missing else None


def window_text(run: Run, width: int) -> str:
    """Return a picture of the congestion window over time, in characters.

    Parameters
    ----------
    run : Run
        With series, of one flow.
    width : int
        Columns.
    """
    import plotext

    from lasthop.extras import pl

    flow = run.flows["name"][0]
    rows = run.series.filter((pl.col("flow") == flow) & pl.col("cwnd_segments").is_not_null())
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plot_size(min(width, WIDTH_MAX), PICTURE_LINES)
    plotext.plot(rows["time_s"].to_list(), rows["cwnd_segments"].to_list(), marker="braille")
    plotext.title(f"cwnd of {run.flows['transport'][0]} in segments over {time_text(run.duration_s)}")
    plotext.xlabel("time (s)")
    text: str = plotext.uncolorize(plotext.build())
    return "\n".join(line.rstrip() for line in text.splitlines())
