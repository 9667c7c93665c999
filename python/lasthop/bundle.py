"""One archive of a scenario or study with its inputs, results and figures; every file is checked by its hash.

`lasthop bundle` writes it and `lasthop unbundle` reads it. It is a ZIP, so that anything can open it, with a
``manifest.json`` that names every other file, its SHA-256, and the versions that made them. Unpacking writes
below one new folder and executes nothing.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from lasthop import seals
from lasthop.errors import ArgumentError, OutputError, ScenarioError
from lasthop.output import check_file, check_saved, output_errors, replacing
from lasthop.places import COMPARISON, RESULT, STUDY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FORMAT = 1
MANIFEST = "manifest.json"
#: Where what stands in a folder of results goes.
RESULTS = "results"
#: Far beyond any bundle, and small enough to be refused before a disk is full.
FILES_MAX = 200_000
BYTES_MAX = 1 << 40
CHUNK = 1 << 20
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
    files: dict[str, Path] = {}
    for source in sources:
        for name, file in _files_of(Path(source)):
            if files.setdefault(name, file).resolve() != file.resolve():
                raise OutputError(
                    f"'{file}' and '{files[name]}' would both be {name} in the bundle: rename one of them"
                )
    listed = {name: {"sha256": digest_of(file), "bytes": file.stat().st_size} for name, file in files.items()}
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, MANIFEST, json.dumps(_manifest(listed), indent=1).encode())
        for name, file in sorted(files.items()):
            _add_file(archive, name, file)
    return sorted(files)


def unbundle(source: str | Path, folder: str | Path) -> list[Path]:
    """Unpack an archive into a new folder, once every file in it has been checked; return the files.

    Raises
    ------
    OutputError
        If it is no bundle, is damaged, or the folder is there and not empty.
    """
    path, target = Path(source), Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise OutputError(f"'{target}' is there and not empty: name a new folder with --out")
    try:
        with zipfile.ZipFile(path) as archive:
            listed = _checked(archive, path)
            with output_errors(target):
                for name in listed:
                    place = target.joinpath(*PurePosixPath(name).parts)
                    place.parent.mkdir(parents=True, exist_ok=True)
                    with archive.open(name) as packed, place.open("xb") as file:
                        while chunk := packed.read(CHUNK):
                            file.write(chunk)
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise OutputError(f"'{path}' is no bundle, or damaged ({error})") from None
    except FileNotFoundError:
        raise OutputError(f"no bundle at '{path}': there is no such file") from None
    return [target.joinpath(*PurePosixPath(name).parts) for name in listed]


def read_manifest(source: str | Path) -> dict[str, Any]:
    """Return what a bundle says of itself, unchecked."""
    with zipfile.ZipFile(source) as archive:
        content: dict[str, Any] = json.loads(archive.read(MANIFEST))
    return content


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


def _files_of(source: Path) -> Iterator[tuple[str, Path]]:
    """Yield name and file of all that belongs to one source."""
    if source.is_dir():
        found = [
            file for file in sorted(source.rglob("*")) if file.is_file() and not _is_passing(file, source)
        ]
        if not found:
            raise OutputError(f"nothing to bundle: '{source}' is empty")
        _check_results(found)
        name = source.resolve().name
        yield from ((f"{RESULTS}/{name}/{file.relative_to(source).as_posix()}", file) for file in found)
        return
    if not source.is_file():
        raise OutputError(f"nothing to bundle: there is no file or folder '{source}'")
    needed = [source, *_read_by(source)]
    root = Path(*_common([file.resolve().parent.parts for file in needed]))
    yield from ((file.resolve().relative_to(root).as_posix(), file) for file in needed)


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
    from lasthop.api import Scenario
    from lasthop.studies import Study

    try:
        scenarios = [Scenario.load(source)]
        files = []
    except ScenarioError:
        study = Study.load(source)
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


def _add_file(archive: zipfile.ZipFile, name: str, file: Path) -> None:
    info = zipfile.ZipInfo(name, EPOCH)
    # Tables and captures are large; Parquet and pictures are packed already.
    packed = file.suffix in (".parquet", ".png")
    info.compress_type = zipfile.ZIP_STORED if packed else zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    info.file_size = file.stat().st_size
    with file.open("rb") as opened, archive.open(info, "w") as entry:
        while chunk := opened.read(CHUNK):
            entry.write(chunk)


def _checked(archive: zipfile.ZipFile, path: Path) -> list[str]:
    """Return the names in a bundle, every one of which is safe, listed, and what its hash says."""
    try:
        manifest = json.loads(archive.read(MANIFEST))
        listed: dict[str, dict[str, Any]] = manifest["files"]
        if manifest["format"] != FORMAT:
            raise OutputError(f"'{path}' has format {manifest['format']}, this lasthop reads {FORMAT}")
        named = {name: (str(entry["sha256"]), int(entry["bytes"])) for name, entry in listed.items()}
    except (KeyError, ValueError, TypeError, AttributeError):
        raise OutputError(f"'{path}' is no bundle: it has no sound {MANIFEST}") from None
    present = [name for name in archive.namelist() if name != MANIFEST]
    if len(present) > FILES_MAX or sum(size for _, size in named.values()) > BYTES_MAX:
        raise OutputError(f"'{path}' is too large for a bundle")
    for name in sorted({*present, *named}):
        pure = PurePosixPath(name)
        if pure.is_absolute() or ".." in pure.parts or "\\" in name or ":" in pure.parts[0]:
            raise OutputError(f"'{path}' names a file outside of it, '{name}': nothing was unpacked")
        if name not in named or present.count(name) != 1:
            what = "is not in its manifest" if name not in named else "is missing or there twice"
            raise OutputError(f"'{path}' is damaged: '{name}' {what}; nothing was unpacked")
        if _digest_in(archive, name, named[name][1]) != named[name][0]:
            raise OutputError(f"'{path}' is damaged: '{name}' is not what it was; nothing was unpacked")
    return sorted(named)


def _digest_in(archive: zipfile.ZipFile, name: str, size: int) -> str:
    """Return the SHA-256 of a file in an archive, or nothing if it is not of the size said."""
    whole, read = hashlib.sha256(), 0
    with suppress(zipfile.BadZipFile), archive.open(name) as packed:
        while chunk := packed.read(CHUNK):
            read += len(chunk)
            # A few bytes can unpack to more than any disk holds.
            if read > size:
                return ""
            whole.update(chunk)
    return whole.hexdigest()
