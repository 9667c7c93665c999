"""Packages that a plain `pip install lasthop` leaves out: they make most of the weight, and runs need none.

``from lasthop.extras import pl`` gives Polars, or an error that says how to get it. Used by whatever
hands out data frames, draws, or does more statistics than intervals.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from lasthop.errors import ArgumentError

if TYPE_CHECKING:
    from types import ModuleType

    import numpy as np
    import polars as pl
    import scipy

__all__ = ["np", "pl", "scipy"]

PACKAGES = {"np": "numpy", "pl": "polars", "scipy": "scipy"}

#: Which extra brings a package, and what it is for.
EXTRAS = {
    "matplotlib": ("plot", "drawing"),
    "numpy": ("analysis", "analysing results"),
    "plotext": ("plot", "drawing"),
    "plotly": ("plot", "drawing"),
    "polars": ("analysis", "a data frame"),
    "scipy": ("analysis", "analysing results"),
}


def lacking(package: str) -> str:
    """Return what to say of a package that is not there.

    Examples
    --------
    >>> lacking("polars")
    "a data frame needs the package polars: pip install 'lasthop[analysis]'"
    """
    extra, purpose = EXTRAS[package]
    return f"{purpose} needs the package {package}: pip install 'lasthop[{extra}]'"


def __getattr__(name: str) -> ModuleType:
    """Import a package when it is first asked for."""
    package = PACKAGES.get(name)
    if package is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise ArgumentError(lacking(package)) from None
