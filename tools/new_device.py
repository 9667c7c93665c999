"""Starts a middlebox in Rust: `make new-device NAME=x` calls it.

It writes the file of the device, registers it in `crates/lasthop-net/src/device/mod.rs`, adds its keys and
their reader to the scenario, and declares what it counts. What it writes compiles, `lasthop run` accepts it,
and it has one test that fails: the first vector, which only its author can work out. It never
overwrites anything.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from generator import (
    KEYS,
    RefusedError,
    behind,
    check_keys,
    check_name,
    check_part,
    code,
    declared,
    filled,
    from_template,
    module_of,
    run,
    type_of,
    what_comes_next,
    with_kind,
    write_all,
)

TEMPLATE = Path(__file__).with_name("device.rs.template")
FOLDER = "crates/lasthop-net/src/device"
READER = "crates/lasthop-sim/src/scenario/link.rs"
COLUMNS = "crates/lasthop-sim/src/columns/devices.rs"
SUMMARY = "crates/lasthop-sim/src/summary.rs"
#: Longer ones would not fit the lines that are written.
LONGEST_NAME = 20

TABLE = """
static @STATIC@: Table = Table {
    title: "@NAME@",
    doc: "What it does to packets, in one sentence for the reference of all keys.",
    groups: &[&[Key::new("delay", ANY_TIME, "How long each packet is kept.").default("\\"10 ms\\"")]],
    partial: false,
};
"""

VARIANT = """\
        Variant { name: "@NAME@", table: &@STATIC@, bare: false },
"""

ARM = """\
            "@NAME@" => {
                use lasthop_net::device::@MODULE@::@TYPE@;
                Middlebox::@TYPE@(@TYPE@ { delay: device.span("delay")? })
            }
"""

COUNTS = """
    /// What a @NAME@ at the head of a link did, within the measured time; several count together.
    @MODULE@: @TYPE@Summary, "@NAME@: {}" {
        /// packets that a @NAME@ let pass
        passed: u64 = About::new("packets", "packets passed").sum();
    }
"""

NEXT = """\
written:    {file}
registered: {folder}/mod.rs, in two places
keys:       {keys}, a table and its line in MIDDLEBOX
read:       {reader}
counted:    {columns}

What comes next:
  1. {file}: the head of the file, what a plan says, what the device does.
  2. Its test `two_packets_by_hand` fails until it holds times worked out by hand:
       cargo test -p lasthop-net --lib {module}
  3. The table {static} of its keys, and the lines behind "{name}" that read them: one key for each field.
  4. `make build`, then:
       .venv/bin/lasthop run scenarios/single-flow.toml \\
           --set 'topology.bottleneck.middleboxes=[{{ kind = "{name}" }}]'
  5. What else it counts: a counter in {file}, and its column in
     {columns}.
  6. A test of a whole run in crates/lasthop-sim/tests/devices.rs; a line in CHANGELOG.md; `make docs`.
docs/how-to/add-a-device.md tells more."""


def check(name: str, root: Path) -> None:
    """Refuse a name that no device can have, or that something has already."""
    check_name(name, LONGEST_NAME, "box", "make new-device NAME=shaper")
    check_part(name, root, FOLDER, TEMPLATE, "devices")
    check_keys(name, root)
    taken = rf"^ +(pub struct )?({module_of(name)}|{type_of(name)}Summary)\b"
    if re.search(taken, code(root / SUMMARY), re.MULTILINE):
        raise RefusedError(
            f"bad name '{name}': results have a {module_of(name)} already; choose another name"
        )


def registered(library: str, name: str) -> str:
    """Return the text of `device/mod.rs` with the device in its two places."""
    line = filled("    @TYPE@(@MODULE@::@TYPE@) => @MODULE@::@TYPE@State,\n", name)
    return behind(declared(library, module_of(name), "pub "), r"^middleboxes! \{\n(?:    .*\n)*", line)


def write(name: str, root: Path) -> str:
    """Write the device into the tree at `root`, and return what to do next."""
    check(name, root)
    file, library = f"{FOLDER}/{module_of(name)}.rs", f"{FOLDER}/mod.rs"
    before = {path: (root / path).read_text(encoding="utf-8") for path in (library, KEYS, READER, COLUMNS)}
    arms = r"^        middleboxes\.push\(match kind \{\n(?:            .*\n)*?(?=            kind => panic!)"
    counted = r"^devices_count! \{\n(?:    .*\n|\n)*"
    changed = {
        library: registered(before[library], name),
        KEYS: with_kind(before[KEYS], "MIDDLEBOX", filled(VARIANT, name), filled(TABLE, name)),
        READER: behind(before[READER], arms, filled(ARM, name)),
        COLUMNS: behind(before[COLUMNS], counted, filled(COUNTS, name)),
    }
    write_all(root, {file: from_template(TEMPLATE, name)}, changed)
    return what_comes_next(NEXT, name, file=file, folder=FOLDER, keys=KEYS, reader=READER, columns=COLUMNS)


if __name__ == "__main__":
    sys.exit(run("new-device", write))
