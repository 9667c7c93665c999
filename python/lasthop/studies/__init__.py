"""Studies: a scenario over a grid of settings and seeds, run once, kept in a folder, read by anyone.

`Study` is a checked study file; `run` makes what is missing in a folder; `load` reads a folder back. The
command ``lasthop study`` calls nothing else.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lasthop.columns import Metric
    from lasthop.errors import ClusterError, StudyError
    from lasthop.studies.execute import Until, run, run_many
    from lasthop.studies.folder import Failure, StudyResult, load, names_in
    from lasthop.studies.locks import Shard
    from lasthop.studies.parts import Axis, Keep, Point
    from lasthop.studies.study import Study

__all__ = [
    "Axis",
    "ClusterError",
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

#: Where each name is: imported when first asked for, so that the command line starts fast.
PLACES = {
    "Axis": "lasthop.studies.parts",
    "ClusterError": "lasthop.errors",
    "Failure": "lasthop.studies.folder",
    "Keep": "lasthop.studies.parts",
    "Metric": "lasthop.columns",
    "Point": "lasthop.studies.parts",
    "Shard": "lasthop.studies.locks",
    "Study": "lasthop.studies.study",
    "StudyError": "lasthop.errors",
    "StudyResult": "lasthop.studies.folder",
    "Until": "lasthop.studies.execute",
    "load": "lasthop.studies.folder",
    "names_in": "lasthop.studies.folder",
    "run": "lasthop.studies.execute",
    "run_many": "lasthop.studies.execute",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    """Import a public name when it is first asked for."""
    if name in PLACES:
        return getattr(importlib.import_module(PLACES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
