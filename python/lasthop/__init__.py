"""lasthop: fast, deterministic packet-level simulation of transports over wireless last hops.

Examples
--------
>>> import lasthop as lh
>>> scenario = lh.Scenario(lh.EXAMPLE)
>>> runs = lh.run_seeds(scenario.replace({"flows.0.transport": "vegas"}), range(1, 4))
>>> runs.totals.height
3
"""

# Nothing here may import polars, matplotlib, plotly, scipy or rich: they are imported where they are used, so
# that `import lasthop` stays below 150 ms.

from typing import TYPE_CHECKING, Any

from lasthop._native import __version__
from lasthop.api import (
    EXAMPLE,
    Scenario,
    compare,
    load_runs,
    run,
    run_seeds,
    schema,
    traffic,
    transports,
)
from lasthop.errors import (
    ArgumentError,
    Interrupted,
    LasthopError,
    OutputError,
    RunError,
    ScenarioError,
)
from lasthop.results import Run, Runs
from lasthop.senders import Sender

if TYPE_CHECKING:
    from lasthop import studies

__all__ = [
    "EXAMPLE",
    "ArgumentError",
    "Interrupted",
    "LasthopError",
    "OutputError",
    "Run",
    "RunError",
    "Runs",
    "Scenario",
    "ScenarioError",
    "Sender",
    "__version__",
    "compare",
    "load_runs",
    "run",
    "run_seeds",
    "schema",
    "studies",
    "traffic",
    "transports",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module
    """Import `lasthop.studies` when it is first asked for."""
    if name == "studies":
        import importlib

        return importlib.import_module("lasthop.studies")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
