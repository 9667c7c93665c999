"""Starts an error model in Rust: `make new-error-model NAME=x` calls it.

It writes the file of the model, registers it in `crates/lasthop-net/src/channel/mod.rs`, and adds its keys
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

TEMPLATE = Path(__file__).with_name("error_model.rs.template")
FOLDER = "crates/lasthop-net/src/channel"
READER = "crates/lasthop-sim/src/scenario/error.rs"
#: Longer ones would not fit the lines that are written.
LONGEST_NAME = 20

TABLE = """
static @STATIC@: Table = Table {
    title: "@NAME@ error model",
    doc: "Which packets are lost, in one sentence for the reference of all keys.",
    groups: &[
        &[Key::new(
            "every",
            Kind::Integer { min: 1, max: 1_000_000_000 },
            "Packets from one loss to the next.",
        )
        .required()],
        JUDGED,
    ],
    partial: false,
};
"""

VARIANT = """\
        Variant { name: "@NAME@", table: &@STATIC@, bare: false },
"""

ARM = """\
        "@NAME@" => {
            use lasthop_net::channel::@TYPE@;
            Ok(ErrorModel::@TYPE@(@TYPE@ { every: model.integer("every")? }))
        }
"""

NEXT = """\
written:    {file}
registered: {folder}/mod.rs, in two places
keys:       {keys}, a table and its line in ERROR
read:       {reader}

What comes next:
  1. {file}: the head of the file, what a plan says, which packets are lost.
  2. Its test `ten_packets_by_hand` fails until it holds what you have worked out by hand:
       cargo test -p lasthop-net --lib {module}
  3. The table {static} of its keys, and the lines behind "{name}" that read them: one key for each field.
  4. `make build`, then:
       .venv/bin/lasthop run scenarios/single-flow.toml \\
           --set 'topology.bottleneck.error={{ kind = "{name}", every = 100 }}'
  5. A line in `mean_losses_are_those_of_the_models` ({folder}/mod.rs) if it has a mean loss;
     a test of a whole run in crates/lasthop-sim/tests/devices.rs; a line in CHANGELOG.md; `make docs`.
docs/how-to/add-a-device.md tells more."""


def check(name: str, root: Path) -> None:
    """Refuse a name that no error model can have, or that something has already."""
    check_name(name, LONGEST_NAME, "losses", "make new-error-model NAME=fading")
    check_part(name, root, FOLDER, TEMPLATE, "error models")
    check_keys(name, root)


def registered(library: str, name: str) -> str:
    """Return the text of `channel/mod.rs` with the model in its two places."""
    line = filled("    @TYPE@(@MODULE@::@TYPE@) => @MODULE@::@TYPE@State,\n", name)
    return behind(declared(library, module_of(name)), r"^channels! \{\n(?:    .*\n)*", line)


def write(name: str, root: Path) -> str:
    """Write the model into the tree at `root`, and return what to do next."""
    check(name, root)
    file, library = f"{FOLDER}/{module_of(name)}.rs", f"{FOLDER}/mod.rs"
    before = {path: (root / path).read_text(encoding="utf-8") for path in (library, KEYS, READER)}
    changed = {
        library: registered(before[library], name),
        KEYS: with_kind(before[KEYS], "ERROR", filled(VARIANT, name), filled(TABLE, name)),
        READER: behind(
            before[READER],
            r"^    match kind \{\n(?:        .*\n)*?(?=        kind => panic!)",
            filled(ARM, name),
        ),
    }
    write_all(root, {file: from_template(TEMPLATE, name)}, changed)
    return what_comes_next(NEXT, name, file=file, folder=FOLDER, keys=KEYS, reader=READER)


if __name__ == "__main__":
    sys.exit(run("new-error-model", write))
