"""Studies that are stopped: processes that die, processes that meet, disks that fill up."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from tests.python.grid_study import changed, ok, outcome

from lasthop import seals
from lasthop.studies.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from typer.testing import Result


def longer(study_file: Path) -> None:
    """Make the study long enough to be stopped in the middle: three seconds of work or more."""
    changed(study_file, '"duration" = "2 s"', '"duration" = "400 s"')
    changed(study_file, '"1-2"', '"1-15"')


def wait_for_parts(process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 30
    while len(list(Path("out/grid/runs").glob("*.parquet"))) < 2:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_after_a_kill_only_what_was_in_flight_is_made_again(
    start: Callable[..., subprocess.Popen[str]],
    command: Callable[..., Result],
    study_file: Path,
    made: list[int],
) -> None:
    longer(study_file)
    process = start("study", "run", study_file, "--jobs", 1)
    wait_for_parts(process)
    process.kill()
    process.communicate()
    stored = Store(Path("out/grid")).runs().height
    assert 0 < stored < 60
    ok(command("study", "run", study_file, "--resume"))
    assert len(made) == 60 - stored
    ok(command("study", "run", study_file, "--out", "out/whole"))
    assert_frame_equal(outcome(), outcome("out/whole"))
    runs = pl.read_parquet("out/grid/runs/*.parquet")
    assert runs["run"].n_unique() == runs.height == 60
    assert pl.read_parquet("out/grid/flows/*.parquet").height == 120
    assert not Path("out/grid/.unfinished").exists()


def test_ctrl_c_keeps_what_has_finished(
    start: Callable[..., subprocess.Popen[str]], command: Callable[..., Result], study_file: Path
) -> None:
    longer(study_file)
    process = start("study", "run", study_file, "--jobs", 1)
    wait_for_parts(process)
    process.send_signal(signal.SIGINT)
    _, message = process.communicate(timeout=60)
    assert process.returncode == 130, message
    match = re.fullmatch(
        r"interrupted: (\d+) of 60 runs are in out/grid; --resume makes the others\n", message
    )
    assert match is not None, message
    assert outcome().height == int(match[1])
    merged = command("study", "merge", study_file)
    assert merged.exit_code == 1
    missing = 60 - int(match[1])
    assert f"{missing} of 60 runs are missing: 'lasthop study run --resume' makes them" in merged.stderr


def test_an_impatient_ctrl_c_keeps_what_has_finished(
    start: Callable[..., subprocess.Popen[str]], command: Callable[..., Result], study_file: Path
) -> None:
    longer(study_file)
    process = start("study", "run", study_file, "--jobs", 1)
    wait_for_parts(process)
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        time.sleep(0.01)
    _, message = process.communicate(timeout=60)
    # The last one may have come when Python was leaving already.
    assert process.returncode in (130, -signal.SIGINT), message
    assert message.startswith("interrupted")
    assert "Traceback" not in message
    stored = Store(Path("out/grid")).runs().height
    assert stored > 0
    ok(command("study", "run", study_file, "--resume"))
    assert outcome().height == 60


def test_a_second_process_is_refused_and_a_dead_one_blocks_no_other(
    start: Callable[..., subprocess.Popen[str]],
    command: Callable[..., Result],
    study_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lasthop.studies.locks.STARTING_S", 0.2)
    longer(study_file)
    process = start("study", "run", study_file, "--jobs", 1, "--set", "warmup=1 s", "--seeds", "1-500")
    wait_for_parts(process)
    for option in ("--resume", "--fresh", "--shard=1/2"):
        result = command("study", "run", study_file, option)
        assert result.exit_code == 2, result.output
        assert re.search(rf"'out/grid' is in use by process {process.pid} on \S+, since ", result.stderr)
        assert "wait for it, or choose another folder with --out" in result.stderr
    process.kill()
    process.communicate()
    ok(command("study", "run", study_file, "--resume", "--seeds", "1"))


def test_shards_work_in_one_folder_at_once(
    start: Callable[..., subprocess.Popen[str]],
    command: Callable[..., Result],
    study_file: Path,
    made: list[int],
) -> None:
    changed(study_file, '"duration" = "2 s"', '"duration" = "20 s"')
    changed(study_file, '"1-2"', '"1-6"')
    shards = [start("study", "run", study_file, "--shard", f"{index}/3") for index in (1, 2, 3)]
    for shard in shards:
        _, said = shard.communicate(timeout=60)
        assert shard.returncode == 0, said
        assert "after the last shard, 'lasthop study merge' makes the tables" in said
    ok(command("study", "merge", study_file))
    assert made == []
    assert len(list(Path("out/grid/runs").glob("*.parquet"))) == 1
    ok(command("study", "run", study_file, "--out", "out/whole"))
    assert_frame_equal(outcome(), outcome("out/whole"))


def test_a_shard_at_work_is_in_the_way_of_the_whole(
    start: Callable[..., subprocess.Popen[str]], command: Callable[..., Result], study_file: Path
) -> None:
    longer(study_file)
    process = start("study", "run", study_file, "--jobs", 1, "--shard", "1/2")
    wait_for_parts(process)
    for words in (["merge", study_file], ["run", study_file, "--shard", "1/2"]):
        result = command("study", *words)
        assert result.exit_code == 2, result.output
        assert f"'out/grid' is in use by process {process.pid}" in result.stderr
        assert "shard 1/2 is at work there; wait for it" in result.stderr
    process.kill()
    process.communicate()


def test_a_file_that_may_not_grow_stops_the_study_and_spares_what_is_stored(
    start: Callable[..., subprocess.Popen[str]],
    files_up_to: Callable[[int], Callable[[], None]],
    command: Callable[..., Result],
    study_file: Path,
) -> None:
    ok(command("study", "run", study_file))
    before = outcome()

    process = start("study", "run", study_file, "--seeds", "1-20", "--resume", preexec_fn=files_up_to(4096))
    _, message = process.communicate(timeout=60)
    assert process.returncode == 2, message
    assert "Traceback" not in message
    assert re.search(r"error: cannot write 'out/grid/.*parquet': file too large", message), message
    assert_frame_equal(outcome(), before)
    ok(command("study", "run", study_file, "--resume", "--seeds", "1-3"))


def test_a_full_disk_stops_the_study_and_spares_what_is_stored(
    start: Callable[..., subprocess.Popen[str]], command: Callable[..., Result], study_file: Path
) -> None:
    mount, umount = shutil.which("mount"), shutil.which("umount")
    small = Path("small-disk").absolute()
    small.mkdir()
    words = [str(mount), "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(small)]
    if mount is None or umount is None or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a small disk")
    try:
        folder = small / "grid"
        ok(command("study", "run", study_file, "--out", folder))
        before = outcome(folder)
        process = start("study", "run", study_file, "--seeds", "1-2000", "--resume", "--out", folder)
        _, message = process.communicate(timeout=60)
        assert process.returncode == 2, message
        assert "no space left on device" in message
        assert "What was stored before is whole; make room: 'lasthop study run' goes on with" in message
        assert "Traceback" not in message
        assert_frame_equal(outcome(folder), before)
        (small / "filler").write_bytes(b"")
        with suppress(OSError), (small / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(1024))
        for seeds in ("1-2", "1-3"):
            full = command("study", "run", study_file, "--seeds", seeds, "--resume", "--out", folder)
            assert full.exit_code == 2, full.output
            assert "no space left on device" in full.stderr
            assert (
                "What was stored before is whole; make room: 'lasthop study run' goes on with" in full.stderr
            )
        (small / "filler").unlink()
        assert_frame_equal(outcome(folder), before)
        kept = Store(folder).runs()
        assert kept.height >= 8
        assert set(before["run"]) <= set(kept["run"])
    finally:
        subprocess.run([str(umount), str(small)], check=True)


def test_after_a_kill_show_counts_what_the_folder_holds(
    command: Callable[..., Result], study_file: Path
) -> None:
    """Runs that were stored after the table was last written are there, and not missing."""
    ok(command("study", "run", study_file, "--seeds", "1"))
    table = Path("out/grid/results.parquet")
    described = Path("out/grid/study.json")
    before, said = table.read_bytes(), described.read_bytes()
    ok(command("study", "run", study_file, "--resume"))
    table.write_bytes(before)
    content, _ = seals.checked(said)
    content["runs"]["wanted"], content["study"]["seeds"] = 8, [1, 2]
    described.write_text(seals.sealed(content))
    shown = ok(command("study", "show", "out/grid"))
    assert shown.stderr == (
        "4 of 8 runs are not in the table, of which the folder holds 4: 'lasthop study merge' puts these in, "
        "'lasthop study run --resume' makes the others\n"
    )
