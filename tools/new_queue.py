"""Starts a queue discipline in Rust: `make new-queue NAME=x` calls it.

It writes the file of the discipline, registers it in `crates/lasthop-net/src/queue/mod.rs`, and adds its keys
and their reader to the scenario. What it writes compiles, `lasthop run` accepts it, and it has one test that
fails: the first vector, which only its author can work out. It never overwrites anything.
"""

from __future__ import annotations

import sys
from pathlib import Path

from generator import (
    KEYS,
    behind,
    check_keys,
    check_name,
    check_part,
    declared,
    filled,
    from_template,
    module_of,
    run,
    what_comes_next,
    with_kind,
    write_all,
)

TEMPLATE = Path(__file__).with_name("queue.rs.template")
FOLDER = "crates/lasthop-net/src/queue"
READER = "crates/lasthop-sim/src/scenario/queue.rs"
#: Longer ones would not fit the lines that are written.
LONGEST_NAME = 20

TABLE = """
static @STATIC@: Table = Table {
    title: "@NAME@ queue",
    doc: "Which packets it drops or marks, in one sentence for the reference of all keys.",
    groups: &[&[
        Key::new("limit", Kind::Room, "Most packets or bytes in the queue, counting the packet in service.")
            .default("\\"1000 packets\\""),
        Key::new("longest_wait", SOME_TIME, "Longest time that a packet waits.").default("\\"100 ms\\""),
    ]],
    partial: false,
};
"""

VARIANT = """\
        Variant { name: "@NAME@", table: &@STATIC@, bare: true },
"""

ARM = """\
        "@NAME@" => {
            use lasthop_net::queue::@TYPE@;
            let longest_wait = queue.span("longest_wait")?;
            let discipline = Discipline::@TYPE@(@TYPE@ { longest_wait });
            Ok(QueuePlan { limit: limit(&queue, link)?, discipline, ..QueuePlan::default() })
        }
"""

NEXT = """\
written:    {file}
registered: {folder}/mod.rs, in two places
keys:       {keys}, a table and its line in QUEUE
read:       {reader}

What comes next:
  1. {file}: the head of the file, what a plan says, which packet is served, dropped or marked.
     It is a discipline: it decides when a packet leaves. One that decides at arrival alone is a rule, which
     costs no events: `impl Rule`, a line in `rules!` (threshold.rs is an example), and its arm beside "red".
  2. Its test `three_packets_by_hand` fails until it holds what you have worked out by hand:
       cargo test -p lasthop-net --lib {module}
  3. The table {static} of its keys, and the lines behind "{name}" that read them: one key for each field.
  4. `make build`, then:
       .venv/bin/lasthop run scenarios/single-flow.toml --set topology.bottleneck.queue={name}
  5. A test of a whole run in crates/lasthop-sim/tests/devices.rs; a line in CHANGELOG.md; `make docs`.
docs/how-to/add-a-device.md tells more."""


def check(name: str, root: Path) -> None:
    """Refuse a name that no queue can have, or that something has already."""
    check_name(name, LONGEST_NAME, "queue", "make new-queue NAME=blue")
    check_part(name, root, FOLDER, TEMPLATE, "queues")
    check_keys(name, root)


def registered(library: str, name: str) -> str:
    """Return the text of `queue/mod.rs` with the discipline in its two places."""
    line = filled("    @TYPE@(@MODULE@::@TYPE@) => @MODULE@::@TYPE@State,\n", name)
    return behind(declared(library, module_of(name)), r"^disciplines! \{\n(?:    .*\n)*", line)


def write(name: str, root: Path) -> str:
    """Write the discipline into the tree at `root`, and return what to do next."""
    check(name, root)
    file, library = f"{FOLDER}/{module_of(name)}.rs", f"{FOLDER}/mod.rs"
    before = {path: (root / path).read_text(encoding="utf-8") for path in (library, KEYS, READER)}
    arms = r"^    match kind \{\n(?:        .*\n)*?(?=        _ => Ok)"
    changed = {
        library: registered(before[library], name),
        KEYS: with_kind(before[KEYS], "QUEUE", filled(VARIANT, name), filled(TABLE, name)),
        READER: behind(before[READER], arms, filled(ARM, name)),
    }
    write_all(root, {file: from_template(TEMPLATE, name)}, changed)
    return what_comes_next(NEXT, name, file=file, folder=FOLDER, keys=KEYS, reader=READER)


if __name__ == "__main__":
    sys.exit(run("new-queue", write))
