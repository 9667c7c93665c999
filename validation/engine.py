"""Runs a scenario in lasthop and hands the results over as frames.

Called by the differential tests and `validation.statistics`; the scenario is the structure of its TOML file.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import polars as pl

from lasthop import _native

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from validation.network import Scenario


@dataclass(frozen=True)
class PacketTrace:
    """Every packet on every link, and every window change; times in seconds."""

    hops: pl.DataFrame
    windows: pl.DataFrame


def trace_packets(scenario: Scenario, clock_phases_s: Sequence[float] = ()) -> PacketTrace:
    """Run with a full trace.

    The tick clock of each flow gets the phase that it had in the other simulator, if phases are given.
    """
    tuned = copy.deepcopy(dict(scenario))
    for flow, phase in zip(tuned["flows"] if clock_phases_s else [], clock_phases_s, strict=True):
        transport = flow.get("transport", {})
        table = {"preset": transport} if isinstance(transport, str) else transport
        rto = {**table.get("rto", {}), "clock_phase": f"{round(phase * 1e9)} ns"}
        flow["transport"] = {**table, "rto": rto}
    result = _native.run(plan(tuned), int(tuned.get("seed", 1)), trace=True)
    hops, windows = _frame(result, "hops"), _frame(result, "windows")
    seconds = [(pl.col(f"{name}_ns") / 1e9).alias(f"{name}_s") for name in ("enqueue", "transmit", "arrive")]
    return PacketTrace(
        hops.with_columns(seconds),
        windows.with_columns((pl.col("time_ns") / 1e9).alias("time_s")),
    )


def plan(scenario: Scenario, folder: Path | None = None) -> _native.Plan:
    """The checked plan of a scenario given as data, whose files are in a folder."""
    name = str(scenario.get("name", "validation"))
    return _native.parse_scenario(json.dumps(scenario), "json", name, [], [], folder)


def count_totals(checked: _native.Plan, seed: int) -> dict[str, Any]:
    """Summary of one run: the element of `runs` in `lasthop run --json`."""
    return cast("dict[str, Any]", json.loads(_native.run(checked, seed).to_json()))


def _frame(result: _native.RunResult, name: str) -> pl.DataFrame:
    table = result.table(name)
    if table is None:
        raise ValueError(f"the run has no table {name!r}")
    return pl.DataFrame(table)
