"""The cases of `make bench` are valid scenarios, as they are and as `--quick` shortens them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lasthop import Scenario

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def bench() -> ModuleType:
    """Load the program, which is no part of a package."""
    spec = importlib.util.spec_from_file_location("bench_run", ROOT / "bench" / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its classes look themselves up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


RUN = bench()
TWINS = [name for names in RUN.TWINS.values() for name in names[:2]]
PATHS = [
    *sorted(RUN.SCENARIOS.glob("*.toml")),
    *(RUN.SCENARIOS / "twins" / f"{name}.toml" for name in dict.fromkeys(TWINS)),
    RUN.DUMBBELL,
]


def test_every_letter_has_a_case() -> None:
    """And every file belongs to a letter."""
    plain = {path.name[0] for path in RUN.SCENARIOS.glob("*.toml")}
    assert plain | set(RUN.TWINS) | {"f", "p", "r"} == set(RUN.CASES)
    assert {path.stem for path in (RUN.SCENARIOS / "twins").glob("*.toml")} == set(TWINS) | {
        "p-short-transfers"
    }
    assert {path.stem for path in RUN.SCENARIOS.glob("*.toml")} >= set(RUN.COUNTED_S)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_cases_are_valid(path: Path) -> None:
    """As they are, and as `--quick` shortens them."""
    case = "b" if path == RUN.DUMBBELL else path.name[0]
    overrides = dict(text.split("=", 1) for text in RUN.shortened(case, quick=True))
    whole, short = Scenario.load(path), Scenario.load(path).overridden(overrides)
    assert 0 < short.duration_s < whole.duration_s
    assert RUN.shortened(case, quick=False) == ()


@pytest.mark.parametrize("path", sorted(RUN.SCENARIOS.glob("*.toml")), ids=lambda path: path.stem)
def test_rivals_can_be_built(path: Path) -> None:
    """ns-2 and ns-3 get the same network."""
    network = RUN.read(RUN.tomllib.loads(path.read_text(encoding="utf-8")))
    assert len(network.flows) == len(Scenario.load(path).flow_names)


@pytest.mark.parametrize("stations", RUN.CELLS)
def test_cells_are_valid(stations: int) -> None:
    """Case (f) has no files."""
    content = RUN.wlan.scenario(RUN.wlan.Cell(stations, "up"), RUN.QUICK_DURATION_S)
    assert len(Scenario(content).flow_names) == stations
