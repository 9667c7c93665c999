"""What studies say of their scenarios and runs: of those that run, never of the one that they start from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lasthop as lh
from lasthop.studies import Study, remarks, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from typer.testing import Result

BASE = """\
duration = "3 s"
warmup = "1 s"
[topology]
kind = "graph"
nodes = ["a", "b"]
[[topology.links]]
name = "radio"
from = "a"
to = "b"
rate = "5 Mbit/s"
delay = "10 ms"
queue = { kind = "drop-tail", limit = "50 packets" }
arq = { window = 2 }
[[flows]]
source = "a"
sink = "b"
transport = "reno"
"""
STUDY = """\
name = "s"
scenario = "base.toml"
seeds = "1-2"
metrics = ["goodput_bit_s"]
[[axes]]
name = "window"
key = "topology.links.0.arq.window"
values = [1, 3, 64]
"""


@pytest.fixture
def study_file(tmp_path: Path) -> Path:
    (tmp_path / "base.toml").write_text(BASE, encoding="utf-8")
    file = tmp_path / "s.toml"
    file.write_text(STUDY, encoding="utf-8")
    return file


def test_a_remark_is_made_of_what_runs_once_per_kind(
    command: Callable[..., Result], study_file: Path, tmp_path: Path
) -> None:
    """The window of 2 in the file of the scenario is no run; two of three points have too small ones."""
    done = command("study", "run", study_file, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.stderr
    notes = [line for line in done.stderr.splitlines() if "ARQ window" in line]
    assert len(notes) == 1, done.stderr
    assert notes[0].startswith(
        'note: window=1; window=3; at window=1: link "radio": its ARQ window of 1 frames'
    )
    quiet = tmp_path / "quiet.toml"
    quiet.write_text(STUDY.replace("1, 3, 64", "64, 128"), encoding="utf-8")
    assert "ARQ window" not in command("study", "run", quiet, "--out", tmp_path / "quiet").stderr


@pytest.mark.parametrize("way", ["axis", "set", "argument"])
@pytest.mark.parametrize("inline", [False, True])
def test_what_the_points_mend_is_no_error(
    way: str, inline: bool, command: Callable[..., Result], study_file: Path, tmp_path: Path
) -> None:
    wrong = BASE.replace('duration = "3 s"', 'duration = "3"')
    (tmp_path / "base.toml").write_text(wrong, encoding="utf-8")
    text = STUDY
    if inline:
        inner = wrong.replace("[topology]", "[scenario.topology]").replace("[[", "[[scenario.")
        text = STUDY.replace('scenario = "base.toml"\n', "") + "[scenario]\n" + inner
    if way == "axis":
        text += '[[axes]]\nname = "length"\nkey = "duration"\nvalues = ["2 s"]\n'
    if way == "set":
        text += '[set]\nduration = "2 s"\n'
    arguments = ["--set", "duration=2 s"] if way == "argument" else []
    study_file.write_text(text, encoding="utf-8")
    out = tmp_path / "out"
    done = command("study", "run", study_file, "--out", out, *arguments)
    assert done.exit_code == 0, done.stderr
    assert "6 of 6 runs" in done.stderr
    # Read back, and run again, without anything to do.
    assert command("study", "show", out).exit_code == 0
    assert command("study", "run", study_file, "--out", out, "--resume", *arguments).exit_code == 0


@pytest.mark.parametrize("settings", ["", '[set]\nwarmup = "1 s"\n'])
def test_what_no_point_mends_is_told_of_the_scenario(
    settings: str, command: Callable[..., Result], study_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "base.toml").write_text(BASE.replace('"3 s"', '"3"'), encoding="utf-8")
    study_file.write_text(STUDY + settings, encoding="utf-8")
    done = command("study", "run", study_file, "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert 'duration: "3" has no unit' in done.stderr
    assert 'base.toml:1:12\n1 | duration = "3"\n  |            ^^^ did you mean' in done.stderr
    assert f"named by {study_file}: scenario" in done.stderr
    assert not (tmp_path / "out").exists()


def test_remarks_of_runs_name_the_points_that_have_them(tmp_path: Path) -> None:
    """FEC fills the way back of a thin last hop at one point, and data of the warm-up count at others."""
    thin = {"name": "wifi", "from": "base", "to": "phone", "rate": "5 Mbit/s", "delay": "5 ms"}
    scenario: dict[str, Any] = {
        "duration": "4 s",
        "warmup": "1 s",
        "topology": {
            "kind": "graph",
            "nodes": ["server", "base", "phone"],
            "links": [
                {"from": "server", "to": "base", "rate": "50 Mbit/s", "delay": "5 ms"},
                thin
                | {
                    "reverse": {"rate": "200 kbit/s"},
                    "error": {"kind": "bernoulli", "packet_error_rate": 0.02},
                },
            ],
        },
        "flows": [
            {
                "source": "phone",
                "sink": "server",
                "transport": "udp",
                "traffic": {"kind": "cbr", "rate": "150 kbit/s", "packet": "500 B"},
            }
        ],
    }
    content = {
        "name": "fec",
        "scenario": scenario,
        "seeds": "1-2",
        "metrics": ["goodput_bit_s"],
        "axes": [
            {
                "name": "helper",
                "points": [
                    {"name": "none", "set": {}},
                    {
                        "name": "fec",
                        "set": {"topology.links.1.middleboxes": [{"kind": "fec", "k": 2, "n": 6}]},
                    },
                ],
            }
        ],
    }
    study = Study.parse(content)
    assert remarks.of_scenarios(study) == []
    result = run(study, tmp_path / "out")
    filled = [remark for remark in remarks.of_runs(result) if "repairs by fec" in remark]
    assert len(filled) == 1
    assert filled[0].startswith("helper=fec: wifi (reverse) is ")
    assert lh.studies.load(tmp_path / "out").study.name == "fec"
