"""`lasthop bundle` and `unbundle`: what goes in comes out the same elsewhere, and nothing else does."""

from __future__ import annotations

import json
import shutil
import zipfile
from typing import TYPE_CHECKING

import pytest

import lasthop as lh

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from typer.testing import Result

    Command = Callable[..., Result]

SENDER = """\
import lasthop as lh
from keep import KEEP


class Mine(lh.Sender):
    def on_ack(self, ack):
        self.cwnd += 1 / self.cwnd

    def on_loss(self, loss):
        self.ssthresh = self.cwnd = loss.flight * KEEP
"""
STUDY = """\
name     = "grid"
scenario = "scenarios/small.toml"
seeds    = [1]
metrics  = ["goodput_bit_s"]
set      = { duration = "2 s" }

[[axes]]
name   = "sender"
key    = "flows.0.transport"
values = ["reno", "my.py:Mine"]
"""


@pytest.fixture
def study_file(scenario_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = scenario_file.parent
    (folder / "scenarios").mkdir()
    scenario_file.rename(folder / "scenarios" / "small.toml")
    (folder / "my.py").write_text(SENDER)
    (folder / "keep.py").write_text("KEEP = 0.6\n")
    path = folder / "grid.toml"
    path.write_text(STUDY)
    monkeypatch.chdir(folder)
    return path


def test_a_study_goes_elsewhere_with_all_that_it_needs(
    command: Command, study_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command("study", "run", study_file.name, "--trust").exit_code == 0
    packed = command("bundle", study_file.name, "out/grid", "--out", "all.zip")
    assert packed.exit_code == 0, packed.stderr
    first = lh.studies.load("out/grid").table
    names = [line.strip() for line in packed.stdout.splitlines()]
    assert {"grid.toml", "scenarios/small.toml", "my.py", "keep.py", "results/grid/study.json"} <= set(names)
    other = study_file.parent / "elsewhere"
    other.mkdir()
    shutil.move("all.zip", other)
    monkeypatch.chdir(other)
    unpacked = command("unbundle", "all.zip")
    assert (unpacked.exit_code, unpacked.stderr) == (0, "")
    assert unpacked.stdout == f"checked and written: {len(names) - 1} files in all\n"
    kept = lh.studies.load("all/results/grid").table
    assert kept.equals(first)
    monkeypatch.chdir(other / "all")
    again = command("study", "run", "grid.toml", "--out", "results/grid", "--resume", "--trust")
    assert "nothing to do: all 2 runs are there" in again.stderr


def test_the_same_content_gives_the_same_names_and_hashes(command: Command, study_file: Path) -> None:
    for name in ("one.zip", "two.zip"):
        assert command("bundle", study_file.name, "--out", name).exit_code == 0
    manifests = [json.loads(zipfile.ZipFile(name).read("manifest.json")) for name in ("one.zip", "two.zip")]
    assert manifests[0]["files"] == manifests[1]["files"]
    assert manifests[0]["versions"]["engine_version"] == lh.__version__


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"my.py": b"changed"}, "'bad.zip' is damaged: 'my.py' is not what it was; nothing was unpacked"),
        (
            {"more.py": b"more"},
            "'bad.zip' is damaged: 'more.py' is not in its manifest; nothing was unpacked",
        ),
        ({"my.py": None}, "'bad.zip' is damaged: 'my.py' is missing or there twice; nothing was unpacked"),
        ({"../up.py": b"up"}, "'bad.zip' names a file outside of it, '../up.py': nothing was unpacked"),
        ({"manifest.json": b"{}"}, "'bad.zip' is not a bundle: it has no sound manifest.json"),
    ],
)
def test_a_changed_bundle_is_refused_whole(
    command: Command, study_file: Path, change: dict[str, bytes | None], message: str
) -> None:
    command("bundle", study_file.name, "--out", "good.zip")
    with zipfile.ZipFile("good.zip") as good, zipfile.ZipFile("bad.zip", "w") as bad:
        content = {name: good.read(name) for name in good.namelist()} | change
        for name, data in content.items():
            if data is not None:
                bad.writestr(name, data)
    refused = command("unbundle", "bad.zip", "--out", "there")
    assert (refused.exit_code, refused.stdout, refused.stderr) == (2, "", f"error: {message}\n")
    assert not (study_file.parent / "there").exists()


def test_mistakes_are_said(command: Command, study_file: Path) -> None:
    command("bundle", study_file.name, "--out", "all.zip")
    (study_file.parent / "all").mkdir()
    (study_file.parent / "all" / "mine").write_text("")
    (study_file.parent / "no.zip").write_text("text")
    for arguments, message in (
        (("unbundle", "all.zip"), "'all' is there and not empty: name a new folder with --out"),
        (("unbundle", "none.zip"), "no bundle at 'none.zip': there is no such file"),
        (("unbundle", "no.zip"), "'no.zip' is not a bundle, or it is damaged (File is not a zip file)"),
        (
            ("bundle", study_file.name, "--out", "all.zip"),
            "'all.zip' is already there and would be lost: choose another name, or say --force to replace it",
        ),
        (
            ("bundle", study_file.name, "--out", "all.tar"),
            "cannot write 'all.tar': the name of a bundle ends in .zip",
        ),
        (("bundle", "none", "--out", "x.zip"), "nothing to bundle: there is no file or folder 'none'"),
    ):
        refused = command(*arguments)
        assert (refused.exit_code, refused.stdout, refused.stderr) == (2, "", f"error: {message}\n")
