"""One archive of a scenario or study with its inputs, results and figures; every file is checked by its hash.

`lasthop bundle` writes it and `lasthop unbundle` reads it. It is a ZIP, so that anything can open it, with a
``manifest.json`` that names every other file, its SHA-256, and the versions that made them. Unpacking writes
below one new folder and executes nothing.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import unicodedata
import zipfile
from collections import Counter
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop import seals, unfinished
from lasthop.errors import ArgumentError, BundleError, OutputError, ScenarioError
from lasthop.files import check_file, not_a_pipe, output_errors, reason_of, replacing, umask
from lasthop.places import COMPARISON, RESULT, STUDY
from lasthop.saved import check_saved
from lasthop.stand_ins import unexecuted
from lasthop.visible import UNSEEN, typed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

FORMAT = 1
MANIFEST = "manifest.json"
#: Where what stands in a folder of results goes.
RESULTS = "results"
#: Far beyond any bundle. What is read before anything is known of it takes less than a gigabyte of memory.
FILES_MAX = 100_000
BYTES_MAX = 1 << 40
MANIFEST_MAX = 1 << 25
DIRECTORY_MAX = 1 << 25
NAME_MAX = 1024
PARTS_MAX = 64
NAME_SHOWN = 80
CHUNK = 1 << 20
#: What `bundle` packs with. Of other methods a few bytes can become more than the memory holds at once.
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
#: The ZIP format knows no earlier time; one time for all makes equal bundles equal.
EPOCH = (1980, 1, 1, 0, 0, 0)


def bundle(sources: Sequence[str | Path], target: str | Path, *, force: bool = False) -> list[str]:
    """Write files and folders into one archive, and return the names of what it holds.

    Parameters
    ----------
    sources : sequence of path
        Scenario files, study files (each with the files that it reads), and folders of results.
    target : path
        The archive; its name ends in ``.zip``.
    force : bool
        Replace an archive that is there.

    Raises
    ------
    OutputError
        If something cannot be read or written, results are damaged, or two files would have one name.

    Examples
    --------
    >>> import tempfile, lasthop as lh
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = Path(folder)
    ...     lh.run_seeds(lh.EXAMPLE, [1]).save(place / "run")
    ...     names = bundle([place / "run"], place / "run.zip")
    ...     written = unbundle(place / "run.zip", place / "again")
    ...     names, lh.load_runs(place / "again" / "results" / "run").seeds
    (['results/run/flows.parquet', 'results/run/links.parquet', 'results/run/result.json'], [1])
    """
    path = Path(target)
    if path.suffix.lower() != ".zip":
        raise ArgumentError(f"cannot write '{path}': the name of a bundle ends in .zip")
    check_file(path, replace=force)
    if not sources:
        raise ArgumentError("nothing to bundle: name a scenario, a study, or a folder of results")
    files = _gathered(sources)
    listed = {name: {"sha256": digest_of(file), "bytes": file.stat().st_size} for name, file in files.items()}
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, MANIFEST, json.dumps(_manifest(listed), indent=1).encode())
        for name, file in sorted(files.items()):
            if _add_file(archive, name, file) != listed[name]["sha256"]:
                raise OutputError(f"'{file}' changed while it was bundled: try again when it is complete")
    return sorted(files)


def _gathered(sources: Sequence[str | Path]) -> dict[str, Path]:
    """Return name and file of all that goes into a bundle."""
    files: dict[str, Path] = {}
    named = [Path(source) for source in sources]
    asked = {source.resolve() for source in named if source.is_file()}
    found: dict[Path, list[tuple[str, Path]]] = {}
    with unexecuted():
        # What is neither scenario nor study comes last: it may be what another one reads.
        for source in sorted(named, key=lambda one: one.is_file() and not _describes(one)):
            others = {file.resolve() for listed in found.values() for _, file in listed}
            if not (source.is_file() and source.resolve() in others):
                found[source] = list(_files_of(source, asked))
    for listed in found.values():
        for name, file in listed:
            if files.setdefault(name, file).resolve() != file.resolve():
                raise OutputError(
                    f"'{file}' and '{files[name]}' would both be {name} in the bundle: rename one of them"
                )
    if len(files) > FILES_MAX:
        raise OutputError(f"a bundle holds up to {FILES_MAX:,} files, these are {len(files):,}")
    for name, file in files.items():
        if (why := _unfit(name)) is not None:
            raise OutputError(f"cannot bundle '{file}': its name {why}; rename it")
    return files


def unbundle(source: str | Path, folder: str | Path) -> list[Path]:
    """Unpack an archive into a new folder, whole or not at all; return the files.

    Each file is checked by its hash while it is written beside the folder, under a temporary name.

    Raises
    ------
    BundleError
        If it is no bundle, or damaged.
    OutputError
        If it cannot be read, the folder is there and not empty, or there is no room.
    """
    path, target = Path(source), Path(folder)
    if path.is_dir():
        raise BundleError(f"'{path}' is a folder, not an archive: name the file that `lasthop bundle` wrote")
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise OutputError(f"'{target}' is there and not empty: name a new folder with --out")
    with _opened(path) as archive:
        named = _checked(archive, path)
        with output_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            unfinished.sweep(target.parent)
            _check_room(path, target.parent, sum(size for _, size in named.values()))
            with unfinished.folder_beside(target) as temporary:
                for name, (digest, _) in named.items():
                    if _unpack(archive, path, name, temporary.joinpath(*name.split("/"))) != digest:
                        raise BundleError(
                            f"'{path}' is damaged: '{name}' is not what it was; nothing was unpacked"
                        )
                temporary.chmod(0o777 & ~umask())
                unfinished.settle(temporary, target)
    return [target.joinpath(*name.split("/")) for name in named]


def read_manifest(source: str | Path) -> dict[str, Any]:
    """Return what a bundle says of itself, unchecked."""
    with _opened(Path(source)) as archive:
        return _manifest_in(archive, Path(source))


def digest_of(file: Path) -> str:
    """Return the SHA-256 of a file."""
    try:
        return seals.digest_of(file)
    except OSError as error:
        raise OutputError(f"cannot read '{file}': {(error.strerror or str(error)).lower()}") from None


def _manifest(listed: dict[str, dict[str, Any]]) -> dict[str, Any]:
    from lasthop.studies.store import versions

    return {
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "files": dict(sorted(listed.items())),
    }


def _files_of(source: Path, asked: AbstractSet[Path]) -> Iterator[tuple[str, Path]]:
    """Yield name and file of all that belongs to one source; `asked` are the files that were named."""
    if source.is_dir():
        for plan in list(source.rglob(unfinished.PLAN)):
            unfinished.finish(plan.parent)
        all_ = [file for file in sorted(source.rglob("*")) if not _is_passing(file, source)]
        for file in all_:
            _refuse_link(file)
        found = [file for file in all_ if file.is_file()]
        if not found:
            raise OutputError(f"nothing to bundle: '{source}' is empty")
        _check_results(found)
        name = source.resolve().name
        yield from ((f"{RESULTS}/{name}/{file.relative_to(source).as_posix()}", file) for file in found)
        return
    if not source.is_file():
        raise OutputError(f"nothing to bundle: there is no file or folder '{source}'")
    read = _read_by(source)
    for file in read:
        _refuse_outside(file, source, asked)
    needed = [source, *read]
    root = Path(*_common([file.resolve().parent.parts for file in needed]))
    yield from ((file.resolve().relative_to(root).as_posix(), file) for file in needed)


def _describes(source: Path) -> bool:
    """Whether a file is a scenario or a study, by its name."""
    return source.suffix.lower() in (".toml", ".json")


def _refuse_link(file: Path) -> None:
    """Refuse a symbolic link: what it points to was not named, and may be anything on this machine."""
    if file.is_symlink():
        raise OutputError(
            f"'{file}' is a link to '{file.readlink()}': a bundle holds what is named, not what links "
            "point to; put the file itself there, or remove the link"
        )


def _refuse_outside(file: Path, source: Path, asked: AbstractSet[Path]) -> None:
    """Refuse a file that a scenario or a study reads from elsewhere: it may be anything on this machine."""
    folder = source.parent.resolve()
    place = Path(os.path.normpath(folder / os.path.relpath(file, source.parent)))
    if place.resolve() in asked:
        return
    if not place.is_relative_to(folder):
        raise OutputError(
            f"'{source}' reads '{file}', which is not in its folder: to bundle it too, name both: "
            f"lasthop bundle {typed(source)} {typed(file)}"
        )
    for part in (place, *place.parents):
        if part == folder:
            break
        _refuse_link(part)


def _check_results(found: Sequence[Path]) -> None:
    """Raise `OutputError`, with the remedy, if results could not be read back where they are unpacked."""
    from lasthop._native import ArrowTable
    from lasthop.studies.folder import RESULTS as RESULTS_OF_STUDY
    from lasthop.studies.folder import load, names_in
    from lasthop.studies.store import RUNS, Store, damage_named

    saved = {file.parent for file in found if file.name in (RESULT, COMPARISON)}
    for folder in sorted(saved):
        check_saved(folder)
    studies = [file for file in found if file.name == STUDY]
    for file in studies:
        names_in(file.parent)
        if file.with_name(RESULTS_OF_STUDY).exists():
            load(file.parent)
    # The runs of several studies lie together, beside the folders of the studies.
    for folder in sorted({file.parent.parent for file in found if file.parent.name == RUNS}):
        Store(folder).check(series=True)
    for file in found if studies else ():
        if file.suffix == ".parquet" and file.parent not in saved:
            with damage_named(file):
                ArrowTable.parquet_footer(file)


def _is_passing(file: Path, folder: Path) -> bool:
    """Whether a file is a lock or half written."""
    return any(part.startswith((".lock", ".lasthop-")) for part in file.relative_to(folder).parts)


def _common(paths: Sequence[Sequence[str]]) -> list[str]:
    """Return how all paths begin."""
    common = []
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return common


def _read_by(source: Path) -> list[Path]:
    """Return the files that a scenario or a study reads: frames, histories, senders, the scenario."""
    from lasthop.scenario import Scenario, is_study
    from lasthop.studies import Study

    # What lies elsewhere is packed only if it is named too; nothing is executed. `bundle` sees to both.
    try:
        scenarios = [Scenario.load(source, trust=True)]
        files = []
    except ScenarioError:
        if not is_study(source):
            raise
        study = Study.load(source, trust=True)
        named = study.content.get("scenario")
        files = [source.parent / named] if isinstance(named, str) else []
        scenarios = [study.scenario_of(point) for point in study.points()]
    for scenario in scenarios:
        files += scenario.input_files
        if scenario.history_file is not None and scenario.history_file.is_file():
            files.append(scenario.history_file)
        files += [place for own in scenario.sender_sources.values() for place in own.places]
    return list(dict.fromkeys(files))


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name, EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    archive.writestr(info, content)


def _add_file(archive: zipfile.ZipFile, name: str, file: Path) -> str:
    """Add a file, and return the SHA-256 of what was added."""
    info = zipfile.ZipInfo(name, EPOCH)
    # Tables and captures are large; Parquet and pictures are packed already.
    packed = file.suffix in (".parquet", ".png")
    info.compress_type = zipfile.ZIP_STORED if packed else zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    info.file_size = file.stat().st_size
    whole = hashlib.sha256()
    with not_a_pipe(file).open("rb") as opened, archive.open(info, "w") as entry:
        while chunk := opened.read(CHUNK):
            entry.write(chunk)
            whole.update(chunk)
    return whole.hexdigest()


class _Bounded(io.FileIO):
    """A file of which little is read at once, whatever it says of itself."""

    def read(self, size: int | None = -1, /) -> bytes:
        content = super().read(
            DIRECTORY_MAX + 1 if size is None or size < 0 else min(size, DIRECTORY_MAX + 1)
        )
        if len(content) > DIRECTORY_MAX:
            raise ValueError("its directory is too large")
        return content


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        raw = _Bounded(not_a_pipe(path))
    except FileNotFoundError:
        raise OutputError(f"no bundle at '{path}': there is no such file") from None
    except OSError as error:
        raise OutputError(f"cannot read '{path}': {reason_of(error)}") from None
    with raw:
        with _foreign(path):
            archive = zipfile.ZipFile(raw)
        with archive:
            yield archive


@contextmanager
def _foreign(path: Path, name: str | None = None) -> Iterator[None]:
    """Tell whatever a foreign archive makes the library raise as one kind of error, with the entry's name."""
    try:
        yield
    except BundleError:
        raise
    # Damage makes zipfile, zlib and json raise what none of them promises.
    except Exception as error:  # noqa: BLE001
        why = str(error) or type(error).__name__
        if name is None:
            raise BundleError(f"'{path}' is not a bundle, or it is damaged ({why})") from None
        raise BundleError(
            f"'{path}' is damaged: '{name}' cannot be unpacked ({why}); nothing was unpacked"
        ) from None


def _unpack(archive: zipfile.ZipFile, path: Path, name: str, place: Path) -> str:
    """Write one file, and return its SHA-256."""
    whole = hashlib.sha256()
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("xb") as file:
        with _foreign(path, name):
            packed = archive.open(name)
        with packed:
            while True:
                # It ends where its directory says, which the manifest agrees with.
                with _foreign(path, name):
                    chunk = packed.read(CHUNK)
                if not chunk:
                    return whole.hexdigest()
                file.write(chunk)
                whole.update(chunk)


def _check_room(path: Path, folder: Path, size: int) -> None:
    free = shutil.disk_usage(folder).free
    if size > free:
        raise OutputError(
            f"'{path}' needs {size / 1e6:,.1f} MB, and '{folder}' has {free / 1e6:,.1f} MB free: "
            "make room, or choose another folder with --out"
        )


def _manifest_in(archive: zipfile.ZipFile, path: Path) -> dict[str, Any]:
    if MANIFEST not in archive.namelist():
        raise BundleError(f"'{path}' is not a bundle: it has no {MANIFEST}")
    _check_method(archive.getinfo(MANIFEST), path)
    with _foreign(path, MANIFEST), archive.open(MANIFEST) as packed:
        text = packed.read(MANIFEST_MAX + 1)
    if len(text) > MANIFEST_MAX:
        raise BundleError(f"'{path}' is not a bundle: its {MANIFEST} is too large")
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError):
        manifest = None
    if not isinstance(manifest, dict):
        raise BundleError(f"'{path}' is not a bundle: it has no sound {MANIFEST}")
    return manifest


def _check_method(info: zipfile.ZipInfo, path: Path) -> None:
    if info.compress_type not in METHODS:
        raise BundleError(
            f"'{path}' is not a bundle: '{info.filename}' is packed with a method that bundles do not have"
        )


def _checked(archive: zipfile.ZipFile, path: Path) -> dict[str, tuple[str, int]]:
    """Return SHA-256 and size of each file in a bundle, whose names are safe, listed, and there once."""
    named = _listed(_manifest_in(archive, path), path)
    present = Counter(name for name in archive.namelist() if name != MANIFEST)
    if len(present) > FILES_MAX or sum(size for _, size in named.values()) > BYTES_MAX:
        raise BundleError(f"'{path}' is too large for a bundle")
    folders: set[str] = set()
    for name in sorted({*present, *named}):
        if name.startswith("/") or ".." in name.split("/") or "\\" in name or ":" in name.partition("/")[0]:
            raise BundleError(f"'{path}' names a file outside of it, '{name}': nothing was unpacked")
        if (why := _unfit(name)) is not None:
            raise BundleError(
                f"'{path}' is damaged: the name {name[:NAME_SHOWN]!r} {why}; nothing was unpacked"
            )
        if name not in named or present[name] != 1:
            what = "is not in its manifest" if name not in named else "is missing or there twice"
            raise BundleError(f"'{path}' is damaged: '{name}' {what}; nothing was unpacked")
        info = archive.getinfo(name)
        _check_method(info, path)
        if info.file_size != named[name][1]:
            raise BundleError(f"'{path}' is damaged: '{name}' is not what it was; nothing was unpacked")
        parts = name.split("/")[:-1]
        folders |= {"/".join(parts[:depth]) for depth in range(1, len(parts) + 1)}
    met = next((name for name in named if name in folders), None)
    if met is not None:
        raise BundleError(f"'{path}' is damaged: '{met}' is a file and a folder; nothing was unpacked")
    return dict(sorted(named.items()))


def _listed(manifest: dict[str, Any], path: Path) -> dict[str, tuple[str, int]]:
    """Return SHA-256 and size of each file that a manifest names."""
    if "format" in manifest and manifest["format"] != FORMAT:
        found = str(manifest["format"])[:NAME_SHOWN]
        raise BundleError(f"'{path}' has format {found}, this lasthop reads {FORMAT}")
    named: dict[str, tuple[str, int]] = {}
    with suppress(KeyError, TypeError, AttributeError):
        for name, entry in manifest["files"].items():
            digest, size = entry["sha256"], entry["bytes"]
            if not isinstance(digest, str) or type(size) is not int or size < 0:
                break
            named[name] = (digest, size)
        if "format" in manifest and len(named) == len(manifest["files"]):
            return named
    raise BundleError(f"'{path}' is not a bundle: it has no sound {MANIFEST}")


def _unfit(name: str) -> str | None:
    """Say why a name cannot be that of a file in a bundle, or return nothing.

    Examples
    --------
    >>> _unfit("a/b.toml"), _unfit("a//b"), _unfit("./b")
    (None, "has an empty part or '.'", "has an empty part or '.'")
    """
    parts = name.split("/")
    if len(name) > NAME_MAX or len(parts) > PARTS_MAX:
        return "is too long"
    if {"", ".", ".."} & set(parts):
        return "has an empty part or '.'"
    if UNSEEN.search(name) or any(unicodedata.category(letter) in ("Cc", "Cs") for letter in name):
        return "holds a control character, or is not UTF-8"
    return None
