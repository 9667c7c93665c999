"""Collects the licence texts of what a wheel carries beside our own code, as MIT and BSD ask for.

These are the crates compiled into the engine, and the packages of the page. `make wheel` calls it. Equal
texts are written once, with all that have them. Of a package that brings no text, the usual one of Apache-2.0
or MIT is taken, with its authors; a package under anything else without a text is an error.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "python" / "lasthop" / "licences.txt"
#: What the files are called that hold a licence, or what goes with it.
NAMES = ("licen", "copying", "copyright", "notice", "unlicense")
#: What is compiled into the engine of Python, and into that of the page.
ENGINES = (("lasthop-py", None), ("lasthop-web", "wasm32-unknown-unknown"))


class MissingError(Exception):
    """A package whose licence text is not there."""


@dataclass(frozen=True)
class Package:
    """What is carried: name and version, licence, authors, and the folder of its source."""

    name: str
    licence: str
    authors: str
    folder: Path


def crates() -> list[Package]:
    """Return the crates that are compiled in, ours left out."""
    words = ["cargo", "metadata", "--locked", "--format-version", "1"]
    found = json.loads(subprocess.run(words, cwd=ROOT, check=True, capture_output=True).stdout)
    known = {f"{one['name']} {one['version']}": one for one in found["packages"] if one["source"] is not None}
    names = {name for engine, target in ENGINES for name in compiled(engine, target)}
    return [
        Package(name, one["license"] or "", ", ".join(one["authors"]), Path(one["manifest_path"]).parent)
        for name, one in sorted(known.items())
        if name in names
    ]


def compiled(engine: str, target: str | None) -> list[str]:
    """Return name and version of all that a crate of ours is linked with, as cargo says."""
    words = ["cargo", "tree", "--locked", "--package", engine, "--edges", "normal", "--prefix", "none"]
    words += ["--format", "{p}", *(["--target", target] if target else [])]
    told = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    parts = [line.split() for line in told.splitlines()]
    return sorted({f"{part[0]} {part[1].removeprefix('v')}" for part in parts if part})


def packages_of_page() -> list[Package]:
    """Return what the page is built with; nothing where it is not built."""
    lock = json.loads((ROOT / "web" / "package-lock.json").read_text(encoding="utf-8"))
    return [
        Package(f"{Path(place).name} {one['version']}", one.get("license", ""), "", ROOT / "web" / place)
        for place, one in lock["packages"].items()
        if place and not one.get("dev") and (ROOT / "web" / place).is_dir()
    ]


def texts_of(package: Package) -> list[str]:
    """Return the licence texts that a package brings, or the usual one."""
    files = [file for file in sorted(package.folder.iterdir()) if file.name.lower().startswith(NAMES)]
    # Sources in C that a crate compiles lie in a folder of their own.
    files += sorted(package.folder.glob("*/LICENSE*"))
    found = [file.read_text(encoding="utf-8", errors="replace").strip() for file in files if file.is_file()]
    if found:
        return found
    choices = package.licence.replace("/", " OR ").split(" OR ")
    if "Apache-2.0" in choices:
        return [(ROOT / "LICENSE-APACHE").read_text(encoding="utf-8").strip()]
    if "MIT" in choices:
        text = (ROOT / "LICENSE-MIT").read_text(encoding="utf-8").strip()
        owners = package.authors or f"the authors of {package.name}"
        return [re.sub(r"^Copyright .*$", f"Copyright (c) {owners}", text, count=1, flags=re.MULTILINE)]
    raise MissingError(f"{package.name} ({package.licence or 'no licence'}) brings no licence text")


def collected() -> str:
    """Return the whole file."""
    packages = [*crates(), *packages_of_page()]
    owners: dict[str, list[str]] = defaultdict(list)
    for package in packages:
        for text in texts_of(package):
            owners["\n".join(line.rstrip() for line in text.splitlines())].append(package.name)
    listed = "\n".join(f"{package.name}: {package.licence}" for package in packages)
    blocks = [f"{'-' * 80}\n{', '.join(dict.fromkeys(names))}\n\n{text}\n" for text, names in owners.items()]
    opening = (
        "lasthop is under MIT or Apache-2.0. It is compiled with these packages, whose licences follow, and\n"
        "with the standard library of Rust (MIT OR Apache-2.0, The Rust Project Contributors).\n"
    )
    return f"{opening}\n{listed}\n\n" + "\n".join(blocks)


def main() -> int:
    """Write the file, or say whose text is missing."""
    try:
        text = collected()
    except MissingError as error:
        print(f"licences: {error}", file=sys.stderr)
        return 1
    TARGET.write_text(text, encoding="utf-8")
    print(f"{TARGET.relative_to(ROOT)}: {len(text) // 1000} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
