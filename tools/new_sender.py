"""Starts a congestion controller in Rust: `make new-sender NAME=x` calls it.

It writes the file of the controller and registers it in `crates/lasthop-cc/src/lib.rs`. What it writes
compiles, keeps to the conformance tests, and has one test that fails: the first vector, which only a
reader of the paper can work out. It never overwrites anything.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parent.parent
TEMPLATE = Path(__file__).with_name("sender.rs.template")
CRATE = "crates/lasthop-cc/src"
CONFIG = "crates/lasthop-net/src/transport/tcp/config.rs"

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
LONGEST_NAME = 30

#: Words of Rust that cannot be the name of a module.
# fmt: off
RESERVED = frozenset({
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate",
    "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in",
    "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
    "return", "self", "static", "struct", "super", "trait", "true", "try", "type", "typeof",
    "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
})
# fmt: on

NEXT = """\
written:    {file}
registered: {library}, in two places

What comes next:
  1. {file}: the head of the file, the parameters, the law.
  2. Its test `the_first_vector` fails until it holds a window worked out by hand:
       cargo test -p lasthop-cc {module}
  3. `make build`, then: .venv/bin/lasthop transports {name}
       .venv/bin/lasthop compare scenarios/lossy-last-hop.toml --transport reno,{name} --seeds 1-10
     The name stands for the law with the recovery `newreno`; for another:
       --set 'flows.0.transport={{ cc = "{name}", recovery = "sack" }}'
  4. Its vectors in docs/reference/test-vectors.md, a line in CHANGELOG.md, and `make docs` for its page.
docs/how-to/add-a-controller.md tells more."""


class RefusedError(Exception):
    """A name that cannot be used; the text says why and what to do."""


def check(name: str, library: str, folder: Path, config: str) -> None:
    """Refuse a name that no controller can have, or that something has already."""
    if NAME.fullmatch(name) is None or len(name) > LONGEST_NAME:
        shown = f"'{name}'" if name else "nothing"
        raise RefusedError(
            f"bad name {shown}: use lower-case letters and digits, a letter first, hyphens between words, at "
            f"most {LONGEST_NAME} characters; for example: make new-sender NAME=westwood-abse"
        )
    module = module_of(name)
    if module in RESERVED:
        raise RefusedError(f"bad name '{name}': it is a word of Rust; choose another, such as {name}-tcp")
    if name == "udp" or f'"{name}" =>' in library or re.search(rf'Preset::\w+\(\s*"{name}"', config):
        raise RefusedError(f"'{name}' exists: `lasthop transports {name}` shows it; choose another name")
    if (folder / f"{module}.rs").exists():
        raise RefusedError(f"{CRATE}/{module}.rs exists: it is part of the crate; choose another name")


def module_of(name: str) -> str:
    """Name of the module."""
    return name.replace("-", "_")


def type_of(name: str) -> str:
    """Name of the type."""
    return "".join(word.capitalize() for word in name.split("-"))


def registered(library: str, name: str) -> str:
    """Return the text of `lib.rs` with the controller in its two places."""
    module = module_of(name)
    lines = library.splitlines(keepends=True)
    modules = [number for number, line in enumerate(lines) if re.fullmatch(r"(pub )?mod \w+;\n", line)]
    close = next(
        number
        for number, line in enumerate(lines)
        if line == "}\n" and any("controllers! {" in before for before in lines[:number])
    )
    after = [number for number in modules if lines[number].split()[-1].rstrip(";") < module]
    # An attribute belongs to the line below it: insert behind a module, never before one.
    place = after[-1] + 1 if after else modules[0]
    lines.insert(close, f'    "{name}" => {module}::{type_of(name)},\n')
    lines.insert(place, f"mod {module};\n")
    return "".join(lines)


def write(name: str, root: Path) -> str:
    """Write the controller into the tree at `root`, and return what to do next."""
    folder = root / CRATE
    library = folder / "lib.rs"
    text = library.read_text(encoding="utf-8")
    check(name, text, folder, (root / CONFIG).read_text(encoding="utf-8"))
    module = module_of(name)
    with (folder / f"{module}.rs").open("x", encoding="utf-8") as file:
        file.write(TEMPLATE.read_text(encoding="utf-8").replace("@TYPE@", type_of(name)))
    library.write_text(registered(text, name), encoding="utf-8")
    return NEXT.format(name=name, module=module, file=f"{CRATE}/{module}.rs", library=f"{CRATE}/lib.rs")


def run(command: str, make: Callable[[str, Path], str]) -> int:
    """Make what the only argument of `command` names, and say what comes next; the exit code."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    try:
        print(make(name, ROOT))
    except (RefusedError, FileExistsError) as error:
        print(f"{command}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(run("new-sender", write))
