"""Results and measurements of others: whatever their JSON holds, it is shown or refused in one sentence.

A digest does not help here: who changes a file can seal it anew.
"""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.python import test_measured
from typer.testing import CliRunner

import lasthop as lh
from lasthop import seals
from lasthop.cli import app
from lasthop.errors import LasthopError

if TYPE_CHECKING:
    from collections.abc import Iterator

CHANGES = 60
AXIS = {"name": "mss", "key": "tcp.packet_size", "values": ["1000 B", "500 B"]}
SHORT = {**lh.Scenario(lh.EXAMPLE).to_dict(), "duration": "1 s"}
#: A switch to red, and the mark that turns text round.
HOSTILE = ("\x1b[31m", "\u202e")
ODD = [None, True, -1, 0, 10**400, -(2**63) - 1, 2**63, 0.5, 1e308, float("nan"), float("inf")]
ODD += ["", "x" * 1000, "".join(HOSTILE), "1e400", [], {}, [[]], {"a": 1}]


def places(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every place in JSON."""
    if at:
        yield at
    inside = value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())
    for key, one in inside:
        yield from places(one, (*at, key))


def changed(content: Any, rng: random.Random) -> tuple[Any, str]:
    """One place is something else or missing; and what was done."""
    content = copy.deepcopy(content)
    *parents, last = rng.choice(list(places(content)))
    inner = content
    for key in parents:
        inner = inner[key]
    if isinstance(inner, dict) and rng.random() < 0.15:
        del inner[last]
        return content, f"{[*parents, last]} removed"
    inner[last] = rng.choice(ODD)
    return content, f"{[*parents, last]} = {inner[last]!r:.40}"


def shown_or_refused(folder: Path, command: list[str], what: str) -> None:
    """Assert that a command ends with 0, or with 2 and one error, and passes no mark of the file on."""
    told = CliRunner().invoke(app, command)
    odd = told.exception is not None and not isinstance(told.exception, SystemExit)
    assert not odd, f"{command[0]} with {what}: {told.exception!r}"
    assert told.exit_code in (0, 2), f"{command[0]} with {what}: {told.output}"
    assert not any(mark in told.output for mark in HOSTILE), f"{command[0]} with {what}"
    assert "Traceback" not in told.output, folder


@pytest.mark.parametrize("kind", ["run", "comparison", "study"])
def test_results_of_others_are_shown_or_refused(kind: str, tmp_path: Path) -> None:
    """One field of the JSON changed at a time, and sealed anew."""
    folder = tmp_path / kind
    commands = [["show", str(folder)]]
    if kind == "run":
        lh.run_seeds(SHORT, [1]).save(folder)
        file = folder / "result.json"
    elif kind == "comparison":
        lh.compare(SHORT, transports=["newreno", "cubic"], seeds=[1, 2]).save(folder)
        file = folder / "comparison.json"
    else:
        study = {"name": "s", "scenario": SHORT, "seeds": [1], "axes": [AXIS], "metrics": ["goodput_bit_s"]}
        lh.studies.run(lh.studies.Study.parse(study), folder)
        file = folder / "study.json"
        commands = [["study", "show", str(folder)]]
    content, _ = seals.checked(file.read_bytes())
    del content["format"]
    rng = random.Random(1)  # noqa: S311 - a sample
    for command in commands:
        assert CliRunner().invoke(app, command).exit_code == 0
    for _ in range(CHANGES):
        new, what = changed(content, rng)
        file.write_text(seals.sealed(new), encoding="utf-8")
        for command in commands:
            shown_or_refused(folder, command, what)


@pytest.mark.parametrize("table", ["runs", "totals", "flows", "links"])
def test_results_without_a_field_are_shown_or_refused(table: str, tmp_path: Path) -> None:
    """Each field of a run missing in turn, and of each of its rows."""
    folder = tmp_path / "run"
    lh.run_seeds(SHORT, [1]).save(folder)
    file = folder / "result.json"
    content, _ = seals.checked(file.read_bytes())
    del content["format"]
    (record,) = content["runs"]
    rows = {"runs": [record], "totals": [record["totals"]]}.get(table) or record[table]
    for name in list(rows[0]):
        kept = [row.pop(name, None) for row in rows]
        file.write_text(seals.sealed(content), encoding="utf-8")
        shown_or_refused(folder, ["show", str(folder)], f"no {table}.{name}")
        for row, value in zip(rows, kept, strict=True):
            row[name] = value


@pytest.mark.parametrize("scenario", sorted((Path(__file__).parents[2] / "scenarios").glob("*.toml")))
def test_what_runs_save_can_be_read(scenario: Path, tmp_path: Path) -> None:
    """Every field of every ready scenario has the type that is declared."""
    short = lh.Scenario.load(scenario).replace({"duration": "6 s", "warmup": "0 s"})
    lh.run_seeds(short, [1]).save(tmp_path / "run")
    assert lh.load_runs(tmp_path / "run")[0].totals


@pytest.mark.parametrize("tool", ["iperf3", "flent"])
def test_measurements_of_others_are_shown_or_refused(tool: str, tmp_path: Path) -> None:
    """One field of the JSON changed at a time."""
    lh.run_seeds(SHORT, [1]).save(tmp_path / "run")
    content = test_measured.iperf3() if tool == "iperf3" else test_measured.flent()
    file = tmp_path / "measured.json"
    rng = random.Random(1)  # noqa: S311 - a sample
    for _ in range(CHANGES):
        new, what = changed(content, rng)
        file.write_text(json.dumps(new), encoding="utf-8")
        shown_or_refused(tmp_path, ["show", str(tmp_path / "run"), "--beside", str(file)], what)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (
            ("runs", 0, "flows", 0, "goodput_bit_s"),
            10**400,
            r"runs\[0\]: flows\[0\].goodput_bit_s should be a number",
        ),
        (("runs", 0, "links", 0, "drops", "outage"), -1, r"drops.outage should be a whole number"),
        (("runs", 0, "flows", 0, "name"), None, r"it has no 'flows\[0\].name'"),
        (("files",), [], "files should be a JSON object"),
    ],
)
def test_the_error_names_the_field(
    place: tuple[str | int, ...], value: object, message: str, tmp_path: Path
) -> None:
    """And what it should be."""
    lh.run_seeds(SHORT, [1]).save(tmp_path / "run")
    file = tmp_path / "run" / "result.json"
    content, _ = seals.checked(file.read_bytes())
    del content["format"]
    inner: Any = content
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    file.write_text(seals.sealed(content), encoding="utf-8")
    with pytest.raises(LasthopError, match=message):
        lh.load_runs(tmp_path / "run")
