"""What the Python tests share: a small scenario, and the command in this process or in one of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.python.grid_study import STUDY
from typer.testing import CliRunner

from lasthop import _native, cli

if TYPE_CHECKING:
    from collections.abc import Callable

    from typer.testing import Result

SCENARIO = """\
name     = "small"
duration = "10 s"

[topology]
kind       = "dumbbell"
bottleneck = { rate = "5 Mbit/s", delay = "20 ms", queue = { kind = "drop-tail", limit = "30 packets" } }
access     = { rate = "4 Mbit/s", delay = "5 ms" }

[channel]
error = { kind = "bernoulli", packet_error_rate = 0.005 }

[[flows]]
name      = "left"
transport = "reno"

[[flows]]
name      = "right"
transport = "vegas"
"""


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_is_heeded() -> None:
    """In the background of a shell script Ctrl-C is ignored, also by whatever is started from there."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def scenario_file(tmp_path: Path) -> Path:
    """Return a small scenario with two flows."""
    path = tmp_path / "small.toml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Return a function that runs the command in this process, in a window of 120 columns."""
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")

    def invoke(*arguments: object) -> Result:
        return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])

    return invoke


@pytest.fixture
def files_up_to() -> Callable[[int], Callable[[], None]]:
    """Return what limits the files of a process to a number of bytes, as a disk that fills up does."""
    resource = pytest.importorskip("resource")
    return lambda most: lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


@pytest.fixture
def start() -> Callable[..., subprocess.Popen[str]]:
    """Return a function that starts the command as a process of its own."""

    def popen(*arguments: object, **options: Any) -> subprocess.Popen[str]:
        words = [sys.executable, "-m", "lasthop", *map(str, arguments)]
        environment = os.environ | {"COLUMNS": "120", "NO_COLOR": "1"} | options.pop("env", {})
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(words, text=True, env=environment, **(pipes | options))

    return popen


@pytest.fixture
def refused(command: Callable[..., Result]) -> Callable[..., str]:
    """Return a function that runs a command which must be refused, and returns what it prints on stderr."""

    def invoke(*arguments: object) -> str:
        result = command(*arguments)
        assert result.exit_code == 2, result.output
        assert result.stdout == ""
        assert "Traceback" not in result.stderr
        return result.stderr

    return invoke


@pytest.fixture
def study_file(scenario_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a study of eight runs, in the current folder."""
    monkeypatch.chdir(scenario_file.parent)
    path = Path("grid.toml")
    path.write_text(STUDY)
    return path


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the seed of every run that is made in this process."""
    seeds: list[int] = []
    native_run = _native.run

    def counting(plan: Any, seed: int, **options: Any) -> Any:
        seeds.append(seed)
        return native_run(plan, seed, **options)

    monkeypatch.setattr("lasthop.runner._native.run", counting)
    return seeds
