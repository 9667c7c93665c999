"""Starts a queue discipline in Rust: `make new-queue NAME=x` calls it.

It writes the file of the discipline and the file of its keys, and registers both. What it writes compiles,
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
  1. {file}: the head of the file, what a plan says, which packet is served, dropped or marked.
     It is a discipline: it decides when a packet leaves. One that decides at arrival alone is a rule, which
     costs no events: `impl Rule`, and a line in `rules!` (threshold.rs is an example).
  2. Its test `three_packets_by_hand` fails until it holds what you have worked out by hand:
       cargo test -p lasthop-net --lib {module}
  3. {keys}: one key for each field.
  4. `make build`, then:
       .venv/bin/lasthop run scenarios/single-flow.toml --set topology.bottleneck.queue={name}
  5. A test of a whole run in crates/lasthop-sim/tests/devices.rs; a line in CHANGELOG.md; `make docs`.
docs/how-to/add-a-device.md tells more."""

QUEUES = Family(
    template="queue",
    suffix="queue",
    noun="queues",
    example="make new-queue NAME=blue",
    folder="crates/lasthop-net/src/queue",
    macro="disciplines",
    line="@TYPE@(@MODULE@::@TYPE@) => @MODULE@::@TYPE@State,",
    keys="crates/lasthop-sim/src/scenario/queue",
    keys_macro="queues",
    next=NEXT,
)


if __name__ == "__main__":
    sys.exit(run("new-queue", QUEUES.make))
