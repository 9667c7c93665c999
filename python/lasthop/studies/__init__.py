"""Studies: a scenario over a grid of settings and seeds, run once, kept in a folder, read by anyone.

`Study` is a checked study file; `run` makes what is missing in a folder; `load` reads a folder back. The
command ``lasthop study`` calls nothing else.
"""

from __future__ import annotations

from lasthop.errors import StudyError
from lasthop.studies.metrics import Metric
from lasthop.studies.study import Axis, Keep, Point, Study

__all__ = ["Axis", "Keep", "Metric", "Point", "Study", "StudyError"]
