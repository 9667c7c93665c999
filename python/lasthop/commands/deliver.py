"""What several verbs do before a run and after it: read a scenario, refuse lost results, write, print."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from lasthop import api, files, output
from lasthop.arguments import parse_settings
from lasthop.errors import ArgumentError, Interrupted, OutputError, RunError
from lasthop.places import reserved
from lasthop.progress import shown_progress
from lasthop.sources import LONGEST_TEXT
from lasthop.terminal import note, print_content, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lasthop.comparison import Comparison
    from lasthop.measured import Measured
    from lasthop.results import Runs


def open_scenario(file: str, settings: list[str] | None, *, trust: bool = False) -> api.Scenario:
    """Read a scenario from a file, or with ``-`` from standard input."""
    from lasthop import starter

    overrides = parse_settings(settings or [])
    if file != "-":
        return api.Scenario.load(starter.not_a_name(file), trust=trust, overrides=overrides)
    # The engine refuses what is longer; a device has no end.
    text = sys.stdin.buffer.read(LONGEST_TEXT + 1)
    return api.Scenario.read(text, name="standard input", trust=trust, overrides=overrides)


def split_names(given: list[str] | None) -> list[str] | None:
    """Take lists of names apart: an option may be repeated, or have commas as others do."""
    words = [word.strip() for text in given or [] for word in text.split(",")]
    return [word for word in words if word] or None


def advise(scenario: api.Scenario) -> None:
    """Say what the author of a scenario may not have meant."""
    for sentence in scenario.advice:
        note(f"note: {sentence}")


@contextmanager
def targets(
    file: str, json_file: str | None, out: Path | None, table_format: str, *, force: bool
) -> Iterator[None]:
    """Refuse, before anything runs, what could not be written or would be lost; hold the folder."""
    output.check_format(table_format)
    check_json(file, json_file, force=force)
    with nullcontext() if out is None else reserved(out, force=force):
        yield


def compared(
    scenario: api.Scenario,
    names: list[str],
    seeds: list[int],
    *,
    baseline: str | None = None,
    jobs: int | None = None,
    metrics: list[str] | None = None,
    series: bool = False,
    helpers: list[str] | None = None,
    at: str | None = None,
    law: str | None = None,
) -> tuple[Comparison, RunError | None]:
    """Compare; if that ends early, return what there is with the error, which is to be raised in the end."""
    try:
        with shown_progress("runs") as observer:
            comparison = api.compare(
                scenario,
                names,
                seeds=seeds,
                baseline=baseline,
                jobs=jobs,
                observer=observer,
                metrics=metrics,
                series=series,
                helpers=helpers or (),
                at=at,
                law=law,
            )
            return comparison, None
    except RunError as error:
        if error.comparison is None:
            raise
        return error.comparison, error


def check_json(file: str, json_file: str | None, *, force: bool) -> None:
    """Refuse a `--json` that would overwrite the scenario or, unasked, a file."""
    if json_file is None or json_file == "-":
        return
    if Path(json_file).resolve() == Path(file).resolve():
        raise OutputError(f"--json would overwrite the scenario '{file}': choose another file")
    files.check_file(json_file, replace=force)


def check_recording(
    out: Path | None, *, series: bool, trace: bool, capture_at: list[str] | None, qlog: bool = False
) -> None:
    """Refuse tables that no folder is named for."""
    if qlog and out is None:
        raise ArgumentError("--qlog writes files: say where with --out DIR")
    if (series or trace) and out is None:
        option = "--series" if series else "--trace"
        raise ArgumentError(f"{option} writes tables: say where with --out DIR")
    if capture_at and out is None:
        raise ArgumentError("--capture-at writes captures: say where with --out DIR")


def check_plot(path: Path) -> str | None:
    """Refuse a figure that cannot be; return what is missing to draw it, which is told behind the results."""
    from lasthop.drawing import check_names, missing

    check_names([path])
    return missing()


def deliver_runs(
    runs: Runs | None,
    json_file: str | None,
    out: Path | None,
    table_format: str,
    wanted: list[int],
    *,
    with_qlog: bool = False,
) -> None:
    """Write and print what has finished, be it all or not."""
    if runs is None:
        return
    missing = sorted(set(wanted) - set(runs.seeds))
    more = {"missing_seeds": missing} if missing else {}
    try:
        if out is not None:
            output.save_runs(runs, out, table_format, held=True, more=more, with_qlog=with_qlog)
    finally:
        # Even if the disk is full, the figures are shown.
        if json_file is not None:
            write_json(json_file, json.dumps(runs.to_dict() | more))
        if json_file != "-":
            from lasthop import tables

            print_content(tables.runs_table(runs))


def measured_files(beside: list[Path] | None) -> list[Measured]:
    """Read files of iperf3 and flent before anything runs."""
    from lasthop import measured

    return [measured.read(path) for path in beside or []]


def deliver_comparison(
    comparison: Comparison, json_file: str | None, table: str | None, beside: Sequence[Measured] = ()
) -> None:
    """Write and print a comparison, or print it as a table for a paper."""
    if json_file is not None:
        write_json(json_file, comparison.to_json())
    if table is not None:
        from lasthop.formats import comparison_text

        say(comparison_text(comparison, table), nl=False)
    elif json_file != "-":
        from lasthop import tables

        print_content(tables.comparison_table(comparison))
    if beside and json_file != "-":
        from lasthop.measured import beside_table

        print_content(beside_table(comparison.runs, beside))


def with_whereabouts(error: RunError, out: Path | None) -> RunError:
    """Say in the message where the finished seeds are."""
    if out is not None and error.finished is not None:
        kept = (
            f" and kept in {out}"
            if isinstance(error, Interrupted)
            else f"; the seeds that finished are in {out}"
        )
        return type(error)(f"{error}{kept}")
    return error


def write_json(target: str, text: str) -> None:
    """Write JSON into a file, or with ``-`` to standard output."""
    if target == "-":
        say(text)
    else:
        files.write_text(target, text + "\n")


def hint(name: str, known: list[str], command: str) -> str:
    """Return the name that was probably meant, or which command lists them."""
    import difflib

    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"'{command}' lists them"
