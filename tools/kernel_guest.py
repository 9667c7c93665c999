"""Build the virtual machine that `lasthop.guest` asks: `make kernel-guest`.

Takes the newest kernel 6.1 of Debian from its package, without installing it, puts its modules and
``crates/lasthop-guest`` into a RAM disk, boots both under QEMU and keeps the machine as it is after that.
Everything is kept in ``out/kernel``; what is there and still right is not built again. With
``--if-possible``, as the gate calls it, a missing program or package is reported and is no failure; a guest
that does not boot is one.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from lasthop import guest
from lasthop.errors import LasthopError

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "out" / "kernel"
PROGRAM = ROOT / "target" / "release" / "lasthop-guest"
PACKAGE = re.compile(r"linux-image-6\.1\.0-(\d+)-amd64")
#: Modules by their names; reno and cubic are built into the kernel.
MODULES = (
    "tun",
    *(f"tcp_{name}" for name in guest.ALGORITHMS if name not in {"reno", "cubic"}),
    *(f"sch_{name}" for name in guest.DISCIPLINES),
)
#: Load what steers into the kernel, and set up disciplines; they lie where PATH of a user may not lead.
BPFTOOL, TC, PROGRAMS = "bpftool", "tc", "/usr/sbin:/sbin"
#: A library and its file, in what ldd prints.
LIBRARY = re.compile(r"(/\S+) \(0x")
IF_POSSIBLE = "--if-possible"
XZ, ELF = b"\xfd7zXZ\0", b"\x7fELF"


class LackError(Exception):
    """Something is missing; the text says what to install."""


def run(*words: str, folder: Path | None = None) -> str:
    """Run a command; return what it prints."""
    if shutil.which(words[0]) is None:
        raise LackError(f"{words[0]} is missing: the guest is built on Debian and its relatives")
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LackError(f"{' '.join(words)} failed: {(done.stderr.strip() or 'no reason').splitlines()[-1]}")
    return done.stdout


def newest_package() -> str:
    """Return the name of the newest kernel 6.1 that the package lists have."""
    for renews in (False, True):
        if renews:
            run("apt-get", "update", "-qq")
        names = run("apt-cache", "pkgnames", "linux-image-6.1.0-").split()
        found = [(int(match[1]), name) for name in names if (match := PACKAGE.fullmatch(name))]
        if found:
            return max(found)[1]
    raise LackError("no package linux-image-6.1.0-*-amd64: add Debian 12 (bookworm) to the sources of apt")


def unpacked() -> Path:
    """Return the folder with the files of the package."""
    place = FOLDER / "package"
    if not any(place.glob("boot/vmlinuz-*")):
        package = newest_package()
        print(f"fetching {package} (70 MB)")
        run("apt-get", "download", package, folder=FOLDER)
        (archive,) = FOLDER.glob(f"{package}_*.deb")
        shutil.rmtree(place, ignore_errors=True)
        run("dpkg", "-x", str(archive), str(place))
        archive.unlink()
    return place


def elf_of(image: bytes) -> bytes:
    """Return the ELF file within a bzImage: QEMU enters it without unpacking it first."""
    start = image.find(XZ)
    while start >= 0:
        try:
            found = lzma.LZMADecompressor().decompress(image[start:])
        except lzma.LZMAError:
            found = b""
        if found.startswith(ELF):
            return found
        start = image.find(XZ, start + 1)
    raise LackError("the kernel of the package is not packed with XZ, as those of Debian 12 are")


def program(name: str) -> dict[str, bytes]:
    """Return a program and the libraries that it needs, by their paths; nothing if it is not installed."""
    program = shutil.which(name, path=f"{os.environ.get('PATH', '')}:{PROGRAMS}")
    if program is None:
        return {}
    libraries = LIBRARY.findall(run("ldd", program))
    return {f"/usr/sbin/{name}": Path(program).read_bytes()} | {
        path: Path(path).read_bytes() for path in libraries
    }


def disk(files: dict[str, tuple[int, bytes]]) -> bytes:
    """Return a RAM disk with these files (cpio, format newc: early-userspace in the documentation of Linux).

    Parameters
    ----------
    files : dict
        Mode and bytes by path, folders before what is in them. Times and numbers are fixed, so that the same
        files make the same bytes.
    """
    parts = []
    for number, (name, (mode, content)) in enumerate([*files.items(), ("TRAILER!!!", (0, b""))], start=1):
        path = name.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(path), 0)
        entry = b"070701" + b"".join(b"%08X" % field for field in fields) + path
        entry += bytes(-len(entry) % 4)
        parts.append(entry + content + bytes(-len(content) % 4))
    return b"".join(parts)


def main() -> int:
    """Build what is missing."""
    if shutil.which(guest.QEMU) is None:
        raise LackError(f"{guest.QEMU} is missing: apt-get install --no-install-recommends qemu-system-x86")
    FOLDER.mkdir(parents=True, exist_ok=True)
    package = unpacked()
    (image,) = package.glob("boot/vmlinuz-*")
    release = image.name.removeprefix("vmlinuz-")
    kernel = FOLDER / guest.KERNEL
    if not kernel.exists():
        kernel.write_bytes(elf_of(image.read_bytes()))
    folders = dict.fromkeys(("dev", "modules", "proc", "sys", "tmp", "run"), (16877, b""))
    files = {"init": (0o100755, PROGRAM.read_bytes())}
    for place, name in enumerate(MODULES):
        found = list(package.glob(f"lib/modules/{release}/kernel/**/{name}.ko"))
        if not found:
            raise LackError(f"the package of {release} has no module {name}")
        files[f"modules/{place:02}-{name}.ko"] = (0o100644, found[0].read_bytes())
    loader, setter = program(BPFTOOL), program(TC)
    for path, content in (loader | setter).items():
        place = path.lstrip("/")
        folders |= dict.fromkeys(map(str, reversed(Path(place).parents[:-1])), (16877, b""))
        files[place] = (0o100755, content)
    content = disk(folders | files)
    (FOLDER / guest.DISK).write_bytes(content)
    about = {
        "release": release,
        "disk": hashlib.sha256(content).hexdigest(),
        "steers": bool(loader),
        "queues": bool(setter),
    }
    (FOLDER / guest.ABOUT).write_text(json.dumps(about), encoding="utf-8")
    guest.snapshot(guest.Guest(FOLDER, release))
    print(
        f"kernel {release} is ready in {FOLDER.relative_to(ROOT)}: lasthop parity SCENARIO --virtual asks it"
    )
    if not loader:
        print(f"it cannot be steered: {guest.NO_BPFTOOL}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LackError as error:
        print(f"no kernel guest: {error}", file=sys.stderr)
        sys.exit(0 if IF_POSSIBLE in sys.argv else 1)
    except LasthopError as error:
        sys.exit(f"no kernel guest: {error}")
