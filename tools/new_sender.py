"""Starts a congestion controller in Rust: `make new-sender NAME=x` calls it.

It writes the file of the controller and registers it in `crates/lasthop-cc/src/lib.rs`. What it writes
compiles, keeps to the conformance tests, and has one test that fails: the first vector, which only a
reader of the paper can work out. It never overwrites anything.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from generator import RefusedError, check_name, declared, from_template, module_of, run, type_of, write_all

TEMPLATE = Path(__file__).with_name("sender.rs.template")
CRATE = "crates/lasthop-cc/src"
CONFIG = "crates/lasthop-net/src/transport/tcp/config.rs"
LONGEST_NAME = 30

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


def check(name: str, library: str, folder: Path, config: str) -> None:
    """Refuse a name that no controller can have, or that something has already."""
    check_name(name, LONGEST_NAME, "tcp", "make new-sender NAME=westwood-abse")
    if name == "udp" or f'"{name}" =>' in library or re.search(rf'Preset::\w+\(\s*"{name}"', config):
        raise RefusedError(f"'{name}' exists: `lasthop transports {name}` shows it; choose another name")
    module = module_of(name)
    if (folder / f"{module}.rs").exists():
        raise RefusedError(f"{CRATE}/{module}.rs exists: it is part of the crate; choose another name")


def registered(library: str, name: str) -> str:
    """Return the text of `lib.rs` with the controller in its two places."""
    module = module_of(name)
    lines = library.splitlines(keepends=True)
    close = next(
        number
        for number, line in enumerate(lines)
        if line == "}\n" and any("controllers! {" in before for before in lines[:number])
    )
    lines.insert(close, f'    "{name}" => {module}::{type_of(name)},\n')
    return declared("".join(lines), module)


def write(name: str, root: Path) -> str:
    """Write the controller into the tree at `root`, and return what to do next."""
    library = f"{CRATE}/lib.rs"
    text = (root / library).read_text(encoding="utf-8")
    check(name, text, root / CRATE, (root / CONFIG).read_text(encoding="utf-8"))
    file = f"{CRATE}/{module_of(name)}.rs"
    write_all(root, {file: from_template(TEMPLATE, name)}, {library: registered(text, name)})
    return NEXT.format(name=name, module=module_of(name), file=file, library=library)


if __name__ == "__main__":
    sys.exit(run("new-sender", write))
