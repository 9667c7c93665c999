"""Starts a traffic source in Rust: `make new-traffic NAME=x` calls it.

It writes the file of the source and the file of its keys, and registers both. What it writes compiles,
`lasthop run` accepts it, and it has one test that fails: the first vector, which only its author can work
out. It never overwrites anything.
"""

from __future__ import annotations

import sys

from generator import Family, run

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

SOURCES = Family(
    template="traffic",
    suffix="traffic",
    noun="sources",
    example="make new-traffic NAME=telemetry",
    folder="crates/lasthop-net/src/traffic",
    macro="sources",
    line="@TYPE@(@MODULE@::@TYPE@) => @MODULE@::@TYPE@State, @MODULE@::@TYPE@State::new;",
    keys="crates/lasthop-sim/src/scenario/traffic",
    keys_macro="kinds",
    next=NEXT,
    visibility="pub ",
)


if __name__ == "__main__":
    sys.exit(run("new-traffic", SOURCES.make))
