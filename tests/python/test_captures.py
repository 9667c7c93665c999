"""Captures from the command line and from Python: at which places, and what the files say of themselves."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

import lasthop as lh

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from typer.testing import Result

    Command = Callable[..., Result]

KNOWN = "source-1, source-2, left, right, sink-1, sink-2, bottleneck, source-access-1, source-access-2, "


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.pcapng"))


def test_places_are_chosen_without_a_trace(command: Command, scenario_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    places = ("--capture-at", "left", "--capture-at", "senders", "--capture-at", "bottleneck")
    assert command("run", scenario_file, *places, "--out", out).exit_code == 0
    assert names(out) == ["capture-at-bottleneck.pcapng", "capture-at-left.pcapng", "capture.pcapng"]
    assert not (out / "hops.parquet").exists()
    run = lh.load_runs(out)[0]
    assert sorted(run.captured_at) == ["bottleneck", "left", "senders"]
    again = tmp_path / "again"
    lh.load_runs(out).save(again)
    assert names(again) == names(out)
    assert (again / "capture.pcapng").read_bytes() == (out / "capture.pcapng").read_bytes()
    with pytest.raises(lh.ArgumentError) as caught:
        run.write_pcapng(tmp_path / "right.pcapng", at="right")
    assert str(caught.value) == (
        "this run was not captured at 'right' but at 'bottleneck', 'left', 'senders': run it with "
        "capture_at=['right'] (--capture-at right)"
    )


def test_a_trace_in_memory_is_the_same_from_everywhere(scenario_file: Path, tmp_path: Path) -> None:
    run = lh.run(scenario_file, trace=True)
    places = ["senders", "links", "left", "source-access-1"]
    spooled = lh.run_seeds(scenario_file, [1], spool=tmp_path, capture_at=places)[0]
    assert spooled.captured_at == places
    sizes = []
    for place in places:
        files = [tmp_path / "kept.pcapng", tmp_path / "written.pcapng"]
        run.write_pcapng(files[0], at=place)
        spooled.write_pcapng(files[1], at=place)
        assert files[0].read_bytes() == files[1].read_bytes(), place
        sizes.append(files[0].stat().st_size)
    assert len(set(sizes)) == len(places)
    assert sizes[1] == max(sizes), "a packet appears on every link of its path"


def test_each_seed_has_its_own(command: Command, scenario_file: Path, tmp_path: Path) -> None:
    arguments = ("--seeds", "3,4", "--trace", "--capture-at", "links", "--set", "duration=1 s")
    assert command("run", scenario_file, *arguments, "--out", tmp_path / "out").exit_code == 0
    assert names(tmp_path / "out") == ["capture-3-at-links.pcapng", "capture-4-at-links.pcapng"]
    assert [run.captured_at for run in lh.load_runs(tmp_path / "out")] == [["links"], ["links"]]


def test_places_with_odd_names_have_files(tmp_path: Path) -> None:
    graph = {
        "duration": "1 s",
        "topology": {
            "kind": "graph",
            "nodes": ["a/b", "c"],
            "links": [{"name": "the radio", "from": "a/b", "to": "c", "rate": "1 Mbit/s", "delay": "5 ms"}],
        },
        "flows": [{"source": "a/b", "sink": "c", "transport": "reno"}],
    }
    lh.run_seeds(graph, [1], spool=tmp_path, capture_at=["a/b", "the radio"]).save(tmp_path / "out")
    assert names(tmp_path / "out") == ["capture-at-a%2Fb.pcapng", "capture-at-the%20radio.pcapng"]
    assert lh.load_runs(tmp_path / "out")[0].captured_at == ["a/b", "the radio"]


@pytest.mark.skipif(
    shutil.which("capinfos") is None, reason="capinfos is not installed (Debian package tshark)"
)
def test_a_capture_says_what_it_is_of(command: Command, scenario_file: Path, tmp_path: Path) -> None:
    arguments = ("--seed", "7", "--capture-at", "left", "--set", "duration=2 s", "--out", tmp_path / "out")
    assert command("run", scenario_file, *arguments).exit_code == 0
    words = [str(shutil.which("capinfos")), tmp_path / "out" / "capture-at-left.pcapng"]
    printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    said = dict(
        line.removeprefix("Capture comment:").strip().split(": ", 1)
        for line in printed.splitlines()
        if line.startswith("Capture comment:")
    )
    run = lh.load_runs(tmp_path / "out")[0]
    assert json.loads(said["lasthop.scenario"]) == run.scenario
    assert said["lasthop.seed"] == "7"
    assert said["lasthop.engine_version"] == run.engine_version
    assert said["lasthop.captured_at"] == "left"


def test_places_that_are_not_there(command: Command, scenario_file: Path, tmp_path: Path) -> None:
    refused = command("run", scenario_file, "--capture-at", "lefft", "--out", tmp_path / "out")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith(
        f'error: there is no node or link "lefft" to capture at; did you mean "left"? known: {KNOWN}'
    )
    assert refused.stderr.endswith("senders, links\n")
    assert not (tmp_path / "out").exists(), "nothing was made"
    refused = command("run", scenario_file, "--capture-at", "left")
    assert (refused.exit_code, refused.stderr) == (
        2,
        "error: --capture-at writes captures: say where with --out DIR\n",
    )


def test_from_python_places_need_a_folder(scenario_file: Path, tmp_path: Path) -> None:
    with pytest.raises(lh.ArgumentError) as caught:
        lh.run_seeds(scenario_file, [1], capture_at=["left"])
    assert str(caught.value) == (
        "capture_at writes files while runs go on: say where with spool=, or run with trace=True and choose "
        "the place in write_pcapng"
    )
    with pytest.raises(lh.ArgumentError) as caught:
        lh.run_seeds(scenario_file, [1], spool=tmp_path, capture_at="left")
    assert str(caught.value) == "capture_at is a list of places: say capture_at=['left']"
    run = lh.run(scenario_file, trace=True)
    with pytest.raises(lh.ArgumentError, match=r'there is no node or link "lefft" to capture at'):
        run.write_pcapng(tmp_path / "x.pcapng", at="lefft")
