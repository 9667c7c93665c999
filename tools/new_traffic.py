"""Starts a traffic source in Rust: `make new-traffic NAME=x` calls it.

It writes the file of the source and the file of its keys, and registers both. What it writes compiles,
`lasthop run` accepts it, and it has one test that fails: the first vector, which only its author can work
out. It never overwrites anything.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from generator import (
    RefusedError,
    behind,
    check_name,
    check_part,
    code,
    declared,
    filled,
    from_template,
    module_of,
    run,
    write_all,
)

TEMPLATE = Path(__file__).with_name("traffic.rs.template")
KEYS_TEMPLATE = Path(__file__).with_name("traffic_keys.rs.template")
FOLDER = "crates/lasthop-net/src/traffic"
KEYS = "crates/lasthop-sim/src/scenario/traffic"
#: Longer ones would not fit the lines that are written.
LONGEST_NAME = 20

NEXT = """\
written:    {file}
            {keys}
registered: {folder}/mod.rs and {keys_folder}/mod.rs, in two places each

What comes next:
  1. {file}: the head of the file, what a plan says, when it writes how many bytes.
     A source with an end, a client that waits for answers: see `Offered` in {folder}/mod.rs.
  2. Its test `the_first_writes_by_hand` fails until it holds times worked out by hand:
       cargo test -p lasthop-net --lib {module}
  3. {keys}: one key for each field.
  4. `make build`, then:
       .venv/bin/lasthop run scenarios/single-flow.toml --set flows.0.traffic={name}
  5. A test of a whole run in crates/lasthop-sim/tests; a line in CHANGELOG.md; `make docs`."""


def check(name: str, root: Path) -> None:
    """Refuse a name that no source can have, or that something has already."""
    check_name(name, LONGEST_NAME, "traffic", "make new-traffic NAME=telemetry")
    check_part(name, root, FOLDER, TEMPLATE, "sources")
    for path in sorted((root / KEYS).glob("*.rs")):
        if path.stem == module_of(name) or re.search(rf'\bNAME: &str = "{name}"', code(path)):
            raise RefusedError(f"bad name '{name}': {KEYS}/{path.name} has it; choose another name")


def registered(library: str, name: str) -> str:
    """Return the text of `traffic/mod.rs` with the source in its two places."""
    line = filled(
        "    @TYPE@(@MODULE@::@TYPE@) => @MODULE@::@TYPE@State, @MODULE@::@TYPE@State::new;\n", name
    )
    return behind(declared(library, module_of(name), "pub "), r"^sources! \{\n(?:    .*\n)*", line)


def write(name: str, root: Path) -> str:
    """Write the source into the tree at `root`, and return what to do next."""
    check(name, root)
    module = module_of(name)
    library, kinds = f"{FOLDER}/mod.rs", f"{KEYS}/mod.rs"
    before = {path: (root / path).read_text(encoding="utf-8") for path in (library, kinds)}
    new = {
        f"{FOLDER}/{module}.rs": from_template(TEMPLATE, name),
        f"{KEYS}/{module}.rs": from_template(KEYS_TEMPLATE, name),
    }
    changed = {
        library: registered(before[library], name),
        kinds: behind(declared(before[kinds], module), r"^kinds! \{\n(?:    .*\n)*", f"    {module},\n"),
    }
    write_all(root, new, changed)
    return NEXT.format(
        name=name,
        module=module,
        file=f"{FOLDER}/{module}.rs",
        keys=f"{KEYS}/{module}.rs",
        folder=FOLDER,
        keys_folder=KEYS,
    )


if __name__ == "__main__":
    sys.exit(run("new-traffic", write))
