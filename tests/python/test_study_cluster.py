"""Studies on a Dask cluster: a real scheduler and workers, which die, disagree or are not there."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from polars.testing import assert_frame_equal

import lasthop as lh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytest.importorskip("distributed")

STUDY = """\
name     = "grid"
scenario = "small.toml"
seeds    = "1-30"
metrics  = ["goodput_bit_s"]
keep     = [{ table = "link_series", links = ["bottleneck"], columns = ["time_s", "queue_packets"] }]

[set]
"duration" = "100 s"
"flows.0.traffic" = { kind = "frames", file = "frames.txt", frame_rate = 25, repeat = true }

[[axes]]
name   = "loss"
key    = "channel.error.packet_error_rate"
values = [0, 0.01]
"""

#: How a message about an address ends: it shows the form of one.
GIVE_ADDRESS = (
    "): start one with 'dask scheduler' and give the address that it prints, such as tcp://10.0.0.1:8786\n"
)


@pytest.fixture
def study_file(scenario_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a study of sixty runs, in the current folder."""
    monkeypatch.chdir(scenario_file.parent)
    path = Path("grid.toml")
    path.write_text(STUDY)
    Path("frames.txt").write_text("1000\n2000\n1500\n")
    return path


class Cluster:
    """A scheduler and its workers, each a process."""

    def __init__(self, folder: Path) -> None:
        # The processes work elsewhere: what a run reads must travel with it.
        self._folder = folder / "elsewhere"
        self._folder.mkdir()
        self._file = self._folder / "scheduler.json"
        self.processes: list[subprocess.Popen[bytes]] = []
        self._start("dask_scheduler", "--port", "0", "--host", "127.0.0.1")
        deadline = time.monotonic() + 60
        while not self._file.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        self.address: str = json.loads(self._file.read_text())["address"]

    def _start(self, module: str, *options: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", f"distributed.cli.{module}", "--scheduler-file", str(self._file)]
        process = subprocess.Popen(
            [*words, "--no-dashboard", *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._folder,
        )
        self.processes.append(process)
        return process

    def worker(self) -> subprocess.Popen[bytes]:
        """Start a worker without a nanny, which would start it again."""
        return self._start("dask_worker", "--no-nanny", "--nthreads", "1", "--host", "127.0.0.1")

    def close(self) -> None:
        """End every process."""
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Return a scheduler without workers."""
    made = Cluster(tmp_path)
    yield made
    made.close()


def wait_for_parts(process: subprocess.Popen[str], folder: str) -> None:
    deadline = time.monotonic() + 60
    while len(list(Path(folder, "runs").glob("*.parquet"))) < 2:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_worker_that_dies_costs_nothing(
    start: Callable[..., subprocess.Popen[str]], cluster: Cluster, study_file: Path
) -> None:
    workers = [cluster.worker(), cluster.worker()]
    process = start("study", "run", study_file, "--cluster", cluster.address)
    wait_for_parts(process, "out/grid")
    workers[0].kill()
    _, message = process.communicate(timeout=120)
    assert process.returncode == 0, message
    assert message.endswith("results in out/grid: 60 of 60 runs\n")
    assert "distributed" not in message
    there = lh.studies.load("out/grid")
    here = lh.studies.run(lh.studies.Study.load(study_file), "out/here")
    assert_frame_equal(there.table.drop("wall_s"), here.table.drop("wall_s"))
    assert_frame_equal(there.series("link_series"), here.series("link_series"))


def test_a_run_whose_workers_keep_dying_is_a_failed_run(
    start: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
    study_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "0")
    cluster = Cluster(tmp_path)
    try:
        workers = [cluster.worker(), cluster.worker()]
        process = start("study", "run", study_file, "--cluster", cluster.address)
        wait_for_parts(process, "out/grid")
        workers[0].kill()
        _, message = process.communicate(timeout=120)
        assert process.returncode == 1, message
        assert "of 60 runs failed; --resume tries them again\n  loss=" in message
        assert "on the cluster: " in message
        assert "Traceback" not in message
        result = lh.studies.load("out/grid")
        assert result.table.height == 60
        assert 1 <= len(result.failed) < 60
        process = start("study", "run", study_file, "--cluster", cluster.address, "--resume")
        _, message = process.communicate(timeout=120)
        assert (process.returncode, message) == (0, "results in out/grid: 60 of 60 runs\n")
    finally:
        cluster.close()


def test_a_cluster_that_cannot_be_used_is_named(
    start: Callable[..., subprocess.Popen[str]], cluster: Cluster, study_file: Path
) -> None:
    worker = cluster.worker()
    other = "from lasthop import _native; _native.__version__ = '9.9.9'; from lasthop.cli import main; main()"
    words = [sys.executable, "-c", other, "study", "run", str(study_file), "--cluster", cluster.address]
    result = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2, result.stderr
    assert f"has engine {lh.__version__}, this is 9.9.9: install the same version everywhere" in result.stderr

    worker.kill()
    hurry = (
        "from lasthop.studies import cluster; cluster.PATIENCE_S = 1; from lasthop.cli import main; main()"
    )
    words[2] = hurry
    result = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2, result.stderr
    assert "has no workers: start some with 'dask worker tcp://127.0.0.1:" in result.stderr

    cluster.close()
    begun = time.monotonic()
    process = start("study", "run", study_file, "--cluster", cluster.address)
    _, message = process.communicate(timeout=60)
    assert process.returncode == 2
    assert message.startswith(f"error: no Dask scheduler answers at '{cluster.address}' (")
    assert message.endswith(GIVE_ADDRESS)
    assert time.monotonic() - begun < 30
    assert not Path("out").exists()


@pytest.mark.parametrize("address", ["nowhere", "odd://127.0.0.1:8786", "tcp://no-such-host.invalid:8786"])
def test_an_address_that_is_none_is_named(
    start: Callable[..., subprocess.Popen[str]], study_file: Path, address: str
) -> None:
    process = start("study", "run", study_file, "--cluster", address)
    _, message = process.communicate(timeout=60)
    assert process.returncode == 2
    assert message.startswith(f"error: no Dask scheduler answers at '{address}' (")
    assert message.endswith(GIVE_ADDRESS)
    assert message.count("\n") == 1
    assert not Path("out").exists()


def test_without_the_extra_the_way_to_install_it_is_said(
    study_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(lh.studies.ClusterError, match=r"pip install 'lasthop\[cluster\]'"):
        lh.studies.run(lh.studies.Study.load(study_file), "out", cluster="tcp://127.0.0.1:1")


def test_an_empty_address_is_refused(start: Callable[..., subprocess.Popen[str]], study_file: Path) -> None:
    process = start("study", "run", study_file, "--cluster", "")
    _, message = process.communicate(timeout=60)
    assert process.returncode == 2
    assert message == "error: --cluster has an empty value: name something, or leave it out\n"
