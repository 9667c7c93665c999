"""lasthop: fast, deterministic packet-level simulation of transports over wireless last hops.

Examples
--------
>>> import lasthop as lh
>>> scenario = lh.Scenario(lh.EXAMPLE)
>>> runs = lh.run_seeds(scenario.replace({"flows.0.transport": "vegas"}), range(1, 4))
>>> runs.totals.height
3
"""

# Nothing is imported before it is asked for: `import lasthop` stays below 150 ms, and Ctrl-C finds hardly
# anything to interrupt before the command can answer for itself.

from __future__ import annotations

# As in `typing`, which takes a while to import.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from lasthop import studies
    from lasthop._native import __version__
    from lasthop.api import compare, load_runs, run, run_seeds, traffic
    from lasthop.errors import (
        ArgumentError,
        Interrupted,
        LasthopError,
        OutputError,
        RunError,
        ScenarioError,
        TrustError,
    )
    from lasthop.network import Network
    from lasthop.results import Run, Runs
    from lasthop.scenario import EXAMPLE, Scenario, helpers, metrics, schema, transports
    from lasthop.senders import Sender

__all__ = [
    "EXAMPLE",
    "ArgumentError",
    "Interrupted",
    "LasthopError",
    "Network",
    "OutputError",
    "Run",
    "RunError",
    "Runs",
    "Scenario",
    "ScenarioError",
    "Sender",
    "TrustError",
    "__version__",
    "compare",
    "helpers",
    "load_runs",
    "metrics",
    "run",
    "run_seeds",
    "schema",
    "studies",
    "traffic",
    "transports",
]

#: Where each name is.
PLACES = {
    "_native": ("__version__",),
    "api": (
        *("EXAMPLE", "Scenario", "compare", "helpers", "load_runs", "metrics", "run", "run_seeds"),
        *("schema", "traffic", "transports"),
    ),
    "errors": (
        *("ArgumentError", "Interrupted", "LasthopError", "OutputError", "RunError", "ScenarioError"),
        "TrustError",
    ),
    "network": ("Network",),
    "results": ("Run", "Runs"),
    "senders": ("Sender",),
}
MODULE_OF = {name: f"lasthop.{module}" for module, names in PLACES.items() for name in names}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    """Import a public name when it is first asked for."""
    import importlib

    if name == "studies":
        return importlib.import_module("lasthop.studies")
    if name in MODULE_OF:
        value = getattr(importlib.import_module(MODULE_OF[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
