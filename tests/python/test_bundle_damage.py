"""Foreign and damaged bundles: one kind of error, nothing written, bounded memory and time.

The gate tries a few hundred damaged ones; ``LASTHOP_DAMAGED=4000`` (``make validate``) as many as it says.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import time
import zipfile
from typing import TYPE_CHECKING

import pytest

import lasthop as lh
from lasthop import bundle as bundles
from lasthop.bundle import bundle, unbundle
from lasthop.errors import BundleError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from typer.testing import Result

COUNT = int(os.environ.get("LASTHOP_DAMAGED", "300"))


@pytest.fixture(scope="module")
def genuine(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[str, bytes]]:
    folder = tmp_path_factory.mktemp("genuine")
    short = {**lh.Scenario(lh.EXAMPLE).to_dict(), "duration": "1 s"}
    lh.run_seeds(short, [1]).save(folder / "run", table_format="csv")
    bundle([folder / "run"], folder / "b.zip")
    unbundle(folder / "b.zip", folder / "out")
    return (folder / "b.zip").read_bytes(), content_of(folder / "out")


def content_of(folder: Path) -> dict[str, bytes]:
    return {
        file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()
    }


def damaged(whole: bytes, chance: random.Random) -> bytes:
    raw = bytearray(whole)
    # The directory at the end is small, and what is read first.
    start = chance.choice([0, 0, len(raw) - 400])
    place = chance.randrange(start, len(raw))
    match chance.randrange(6):
        case 0:
            raw[place] ^= 1 << chance.randrange(8)
        case 1:
            raw[place] = chance.randrange(256)
        case 2:
            del raw[place:]
        case 3:
            del raw[place : place + chance.randrange(1, 100)]
        case 4:
            raw[place:place] = chance.randbytes(chance.randrange(1, 100))
        case _:
            for _ in range(20):
                raw[chance.randrange(start, len(raw))] = chance.randrange(256)
    return bytes(raw)


def test_damaged_bundles_are_refused_whole(tmp_path: Path, genuine: tuple[bytes, dict[str, bytes]]) -> None:
    whole, content = genuine
    chance = random.Random(4000)  # noqa: S311 - a sample
    refused = 0
    for number in range(COUNT):
        path, target = tmp_path / "b.zip", tmp_path / f"out-{number}"
        path.write_bytes(damaged(whole, chance))
        try:
            unbundle(path, target)
        except BundleError as error:
            refused += 1
            assert str(error).startswith(f"'{path}' ")  # noqa: PT017 - some are as good as before
            assert not target.exists()
        else:
            # Damage may lie where nothing is said.
            assert content_of(target) == content
    assert refused > COUNT // 2
    assert not list(tmp_path.glob(".lasthop-*"))


def made(
    path: Path,
    files: dict[str, bytes],
    manifest: bytes | None = None,
    method: int = zipfile.ZIP_DEFLATED,
    **entry: object,
) -> Path:
    """Write an archive whose manifest says of its files what is so, but for what is given."""
    listed = {
        name: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)} | entry
        for name, data in files.items()
    }
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("manifest.json", manifest or json.dumps({"format": 1, "files": listed}))
        for name, data in files.items():
            if name:  # The library writes none without a name.
                archive.writestr(name, data)
    return path


NAMES = ["", ".", "x//y", "./x/y", "x/./y", "x/", "/x", "../x", "x/../y", "a\\b", "c:d"]
NAMES += ["a\nb", "a\x1b[2J", "a\u202eb"]


@pytest.mark.parametrize("name", NAMES)
def test_names_that_mean_something_else_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BundleError, match="nothing was unpacked"):
        unbundle(made(tmp_path / "b.zip", {"fine": b"1", name: b"2"}), tmp_path / "out")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["b.zip"]


def test_names_that_meet_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="'x' is a file and a folder; nothing was unpacked"):
        unbundle(made(tmp_path / "b.zip", {"x": b"1", "x/y": b"2"}), tmp_path / "out")


@pytest.mark.parametrize(
    "manifest",
    [
        b"[" * 100_000,
        b"[]",
        b"null",
        b'{"format": 1}',
        b'{"format": 1, "files": []}',
        b'{"format": 1, "files": {"a": 1}}',
        b'{"format": 1, "files": {"a": {"sha256": 1, "bytes": 1}}}',
        b'{"format": 1, "files": {"a": {"sha256": "", "bytes": 1e400}}}',
        b'{"format": 1, "files": {"a": {"sha256": "", "bytes": -1}}}',
        b'{"format": 1, "files": {"a": {"sha256": "", "bytes": 1.0}}}',
        b'{"files": {}}',
        b"\xff\xfe",
    ],
)
def test_unsound_manifests_are_refused(tmp_path: Path, manifest: bytes) -> None:
    with pytest.raises(BundleError, match=r"is not a bundle: it has no sound manifest\.json"):
        unbundle(made(tmp_path / "b.zip", {"a": b"1"}, manifest), tmp_path / "out")


def test_negative_sizes_do_not_pay_for_others(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no sound manifest"):
        unbundle(made(tmp_path / "b.zip", {"a": b"1"}, bytes=-(1 << 60)), tmp_path / "out")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_methods_are_refused(tmp_path: Path, method: int) -> None:
    with pytest.raises(BundleError, match="packed with a method that bundles do not have"):
        unbundle(made(tmp_path / "b.zip", {"a": b"1"}, method=method), tmp_path / "out")


def test_an_encrypted_entry_is_refused(tmp_path: Path) -> None:
    path = made(tmp_path / "b.zip", {"a": b"1"})
    raw = bytearray(path.read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = raw.rfind(mark)
        raw[at + place] |= 1
    path.write_bytes(raw)
    with pytest.raises(BundleError, match="'a' cannot be unpacked"):
        unbundle(path, tmp_path / "out")


def test_a_manifest_without_end_takes_neither_memory_nor_time(tmp_path: Path) -> None:
    path = tmp_path / "b.zip"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("manifest.json", "w", force_zip64=True) as entry,
    ):
        for _ in range(300):
            entry.write(bytes(1 << 20))
    before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(BundleError, match=r"its manifest\.json is too large"):
        unbundle(path, tmp_path / "out")
    assert time.process_time() - begun < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


def test_many_entries_take_no_square_of_time(tmp_path: Path) -> None:
    files = {f"d{number % 100}/{number}": b"" for number in range(20_000)}
    path = made(tmp_path / "b.zip", files, sha256="0" * 64)
    begun = time.process_time()
    with pytest.raises(BundleError, match="is not what it was"):
        unbundle(path, tmp_path / "out")
    assert time.process_time() - begun < 10


def test_a_bundle_that_does_not_fit_is_refused_before_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made(tmp_path / "b.zip", {"a": bytes(2_000_000)})
    room = bundles.shutil.disk_usage(tmp_path)._replace(free=1_500_000)
    monkeypatch.setattr(bundles.shutil, "disk_usage", lambda _: room)
    with pytest.raises(lh.OutputError, match=r"needs 2\.0 MB, and '.*' has 1\.5 MB free: make room"):
        unbundle(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_file_that_changes_meanwhile_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "notes.txt").write_text("first")
    digest = bundles.digest_of

    def then_changed(file: Path) -> str:
        found = digest(file)
        file.write_text("later")
        return found

    monkeypatch.setattr(bundles, "digest_of", then_changed)
    with pytest.raises(lh.OutputError, match="changed while it was bundled"):
        bundle([tmp_path / "r"], tmp_path / "b.zip")
    assert not (tmp_path / "b.zip").exists()


def test_it_unpacks_here_as_unzip_does(
    command: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "far").mkdir()
    made(tmp_path / "far" / "b.zip", {"a": b"1"})
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert command("unbundle", "../far/b.zip").stdout == "checked and written: 1 files in b\n"
    assert (tmp_path / "here" / "b" / "a").read_bytes() == b"1"
