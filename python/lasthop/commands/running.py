"""Runs a scenario: what `run` does once its options are read.

Imports nothing that reads options: ``lasthop run FILE``, the form used most, starts without it
(`lasthop.__main__`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lasthop import api
from lasthop.arguments import parse_seeds
from lasthop.commands.deliver import (
    advise,
    check_recording,
    deliver_runs,
    open_scenario,
    targets,
    with_whereabouts,
)
from lasthop.errors import ArgumentError, RunError
from lasthop.progress import shown_progress
from lasthop.terminal import note, user_errors

if TYPE_CHECKING:
    from pathlib import Path


def run_scenario(
    file: str,
    *,
    seed: int | None = None,
    seeds: str | None = None,
    settings: list[str] | None = None,
    json_file: str | None = None,
    out: Path | None = None,
    series: bool = False,
    trace: bool = False,
    capture_at: list[str] | None = None,
    qlog: bool = False,
    jobs: int | None = None,
    table_format: str = "parquet",
    trust: bool = False,
    force: bool = False,
) -> None:
    """Run a scenario, and show or write what it gives."""
    with user_errors():
        scenario = open_scenario(file, settings, trust=trust)
        if seed is not None and seeds is not None:
            raise ArgumentError("--seed and --seeds exclude each other: give one")
        wanted = [scenario.seed if seed is None else seed] if seeds is None else parse_seeds(seeds)
        check_recording(out, series=series, trace=trace, capture_at=capture_at, qlog=qlog)
        trace = trace or qlog
        places = capture_at or None
        api.check_seeds(wanted)
        api.check_places(scenario, places, spooled=True, trace=trace)
        with targets(file, json_file, out, table_format, force=force):
            advise(scenario)
            try:
                with shown_progress("seeds") as observer:
                    runs = api.run_seeds(
                        scenario,
                        wanted,
                        series=series,
                        trace=trace,
                        jobs=jobs,
                        observer=observer,
                        spool=out,
                        capture_at=places,
                    )
            except RunError as error:
                deliver_runs(error.finished, json_file, out, table_format, wanted, with_qlog=qlog)
                raise with_whereabouts(error, out) from None
            deliver_runs(runs, json_file, out, table_format, wanted, with_qlog=qlog)
        if out is not None:
            note(f"results in {out}")
