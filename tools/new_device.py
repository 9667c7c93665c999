"""Starts a middlebox in Rust: `make new-device NAME=x` calls it.

It writes the file of the device and the file of its keys, registers both, and declares what it counts. What
it writes compiles, `lasthop run` accepts it, and it has one test that fails: the first vector, which only its
author can work out. It never overwrites anything.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from generator import Family, RefusedError, behind, code, filled, module_of, run, type_of

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = "crates/lasthop-sim/src/columns/devices.rs"
SUMMARY = "crates/lasthop-sim/src/summary"

COUNTS = """
    /// What a @NAME@ at the head of a link did, within the measured time; several count together.
    @MODULE@: @TYPE@Summary, "@NAME@: {}" {
        /// packets that a @NAME@ let pass
        passed: u64 = About::new("packets", "packets passed").sum();
    }
"""

NEXT = """\
written:    {file}
            {keys}
registered: {folder}/mod.rs and {keys_folder}/mod.rs, in two places each
counted:    crates/lasthop-sim/src/columns/devices.rs

What comes next:
  1. {file}: the head of the file, what a plan says, what the device does.
  2. Its test `two_packets_by_hand` fails until it holds times worked out by hand:
       cargo test -p lasthop-net --lib {module}
  3. {keys}: one key for each field.
  4. `make build`, then:
       .venv/bin/lasthop run scenarios/single-flow.toml \\
           --set 'topology.bottleneck.middleboxes=["{name}"]'
  5. What else it counts: a counter in {file}, and its column in
     crates/lasthop-sim/src/columns/devices.rs.
  6. A test of a whole run in crates/lasthop-sim/tests/devices.rs; a line in CHANGELOG.md; `make docs`.
docs/how-to/add-a-device.md tells more."""

DEVICES = Family(
    template="device",
    suffix="box",
    noun="devices",
    example="make new-device NAME=shaper",
    folder="crates/lasthop-net/src/device",
    macro="middleboxes",
    line="@TYPE@(@MODULE@::@TYPE@) => @MODULE@::@TYPE@State,",
    keys="crates/lasthop-sim/src/scenario/middlebox",
    keys_macro="devices",
    next=NEXT,
    visibility="pub ",
)


def make(name: str, root: Path) -> str:
    """Write the device into the tree at `root`, and return what to do next."""
    DEVICES.check(name, root)
    taken = rf"^ +(pub struct )?({module_of(name)}|{type_of(name)}Summary)\b"
    summary = "\n".join(code(file) for file in sorted((root / SUMMARY).glob("*.rs")))
    if re.search(taken, summary, re.MULTILINE):
        raise RefusedError(
            f"bad name '{name}': results have a {module_of(name)} already; choose another name"
        )
    counted = r"^devices_count! \{\n(?:    .*\n|\n)*"
    columns = (root / COLUMNS).read_text(encoding="utf-8")
    return DEVICES.make(name, root, {COLUMNS: behind(columns, counted, filled(COUNTS, name))})


if __name__ == "__main__":
    sys.exit(run("new-device", make))
