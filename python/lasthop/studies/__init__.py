"""Studies: a scenario over a grid of settings and seeds, run once, kept in a folder, read by anyone.

`Study` is a checked study file; `run` makes what is missing in a folder; `load` reads a folder back. The
command ``lasthop study`` calls nothing else.
"""

from __future__ import annotations

from lasthop.errors import StudyError
from lasthop.studies.execute import Until, run, run_many
from lasthop.studies.folder import Failure, StudyResult, load, names_in
from lasthop.studies.locks import Shard
from lasthop.studies.metrics import Metric
from lasthop.studies.study import Axis, Keep, Point, Study

__all__ = [
    "Axis",
    "Failure",
    "Keep",
    "Metric",
    "Point",
    "Shard",
    "Study",
    "StudyError",
    "StudyResult",
    "Until",
    "load",
    "names_in",
    "run",
    "run_many",
]
