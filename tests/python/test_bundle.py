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
        (
            ("unbundle", "all"),
            "'all' is a folder, not an archive: name the file that `lasthop bundle` wrote",
        ),
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


def test_what_is_wrong_in_a_scenario_is_said_of_it(command: Command, study_file: Path) -> None:
    """It was looked at as a study next, and told that it is none."""
    (study_file.parent / "wrong.toml").write_text("duration = 5\n")
    refused = command("bundle", "wrong.toml", "--out", "rs.zip")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith("scenario error: ")


@pytest.mark.parametrize("kind", ["file", "folder", "broken"])
def test_links_in_results_are_refused_by_name(command: Command, study_file: Path, kind: str) -> None:
    """What leaves the machine is what was named: not what links that came with results point to."""
    outside = study_file.parent / "private"
    outside.mkdir()
    (outside / "key").write_text("secret")
    lh.run_seeds(lh.EXAMPLE, [1]).save("rs")
    targets = {"file": outside / "key", "folder": outside, "broken": outside / "gone"}
    (study_file.parent / "rs" / "more").mkdir()
    link = study_file.parent / "rs" / "more" / "link"
    link.symlink_to(targets[kind])
    refused = command("bundle", "rs", "--out", "rs.zip")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr == (
        f"error: 'rs/more/link' is a link to '{targets[kind]}': a bundle holds what is named, not "
        "what links point to; put the file itself there, or remove the link\n"
    )
    assert not (study_file.parent / "rs.zip").exists()
    link.unlink()
    # A link that was typed itself is named.
    (study_file.parent / "latest").symlink_to("rs")
    packed = command("bundle", "latest", "--out", "rs.zip")
    assert packed.exit_code == 0, packed.stderr
    assert "results/rs/result.json" in packed.stdout


@pytest.mark.parametrize("how", ["up", "absolute", "link", "folder"])
def test_a_study_takes_nothing_from_elsewhere(
    command: Command, study_file: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A recording that a foreign study names: outside of its folder, or behind a link in it."""
    private = study_file.parent / "private.trace"
    private.write_text("1\n2\n3\n")
    foreign = study_file.parent / "foreign"
    foreign.mkdir()
    names = {
        "up": "../private.trace",
        "absolute": str(private),
        "link": "in.trace",
        "folder": "in/private.trace",
    }
    if how == "link":
        (foreign / "in.trace").symlink_to(private)
    if how == "folder":
        (foreign / "in").symlink_to(private.parent)
    text = (study_file.parent / "scenarios" / "small.toml").read_text()
    (foreign / "small.toml").write_text(text)
    recorded = f'{{ delay = "20 ms", trace = {{ kind = "mahimahi", file = "{names[how]}" }} }}'
    point = f'points = [{{ name = "recorded", set = {{ "topology.bottleneck" = {recorded} }} }}]'
    study = STUDY.replace("scenarios/small.toml", "small.toml").partition("[[axes]]")[0]
    (foreign / "grid.toml").write_text(f'{study}\n[[axes]]\nname = "path"\n{point}\n')
    monkeypatch.chdir(foreign)
    refused = command("bundle", "grid.toml", "--out", "grid.zip")
    assert refused.exit_code == 2, refused.stdout
    assert not (foreign / "grid.zip").exists()
    if how in ("link", "folder"):
        assert "is a link to" in refused.stderr
        return
    place = names[how]
    assert refused.stderr == (
        f"error: 'grid.toml' reads '{place}', which is not in its folder: to bundle it too, name both: "
        f"lasthop bundle grid.toml {place}\n"
    )
    packed = command("bundle", "grid.toml", place, "--out", "grid.zip")
    assert packed.exit_code == 0, packed.stderr
    assert set(zipfile.ZipFile("grid.zip").namelist()) == {
        *("manifest.json", "private.trace", "foreign/grid.toml", "foreign/small.toml"),
    }


def test_every_file_that_a_scenario_names_is_known(tmp_path: Path) -> None:
    """Bundles, studies and the guest take what a scenario says it read, of whatever kind the file is."""
    (tmp_path / "bus.light").write_text("0 23 0 2 2 5\n100 20 0 2\n")
    (tmp_path / "bus.down").write_text("1\n2\n3\n")
    (tmp_path / "bus.sizes").write_text("100 -0.4\n200 -0.2\n")
    (tmp_path / "bunny.txt").write_text("1000 2000\n1500 2500\n")
    trace = {"kind": "cellreplay", "light": "bus.light", "file": "bus.down", "sizes": "bus.sizes"}
    video = {"kind": "video-on-demand", "ladder": ["1 Mbit/s", "2 Mbit/s"], "sizes": "bunny.txt"}
    link = {"from": "a", "to": "b", "delay": "10 ms", "trace": trace}
    reverse = {"from": "b", "to": "a", "delay": "10 ms", "rate": "1 Mbit/s"}
    content = {
        "duration": "2 s",
        "topology": {"kind": "graph", "nodes": ["a", "b"], "links": [link, reverse]},
        "flows": [{"source": "a", "sink": "b", "transport": "cubic", "traffic": video}],
    }
    file = tmp_path / "bus.json"
    file.write_text(json.dumps(content))
    named = {path.name for path in lh.Scenario.load(file).input_files}
    assert named == {"bus.light", "bus.down", "bus.sizes", "bunny.txt"}
