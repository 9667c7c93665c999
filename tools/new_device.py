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

from new_sender import NAME, RESERVED, RefusedError, module_of, run, type_of

TEMPLATE = Path(__file__).with_name("device.rs.template")
FOLDER = "crates/lasthop-net/src/device"
KEYS = "crates/lasthop-sim/src/scenario/keys.rs"
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
    if NAME.fullmatch(name) is None or len(name) > LONGEST_NAME:
        shown = f"'{name}'" if name else "nothing"
        raise RefusedError(
            f"bad name {shown}: use lower-case letters and digits, a letter first, hyphens between words, at "
            f"most {LONGEST_NAME} characters; for example: make new-device NAME=shaper"
        )
    module = module_of(name)
    if module in RESERVED:
        raise RefusedError(f"bad name '{name}': it is a word of Rust; choose another, such as {name}-box")
    if (root / FOLDER / f"{module}.rs").exists():
        raise RefusedError(f"{FOLDER}/{module}.rs exists: it is part of the crate; choose another name")
    used = "\n".join([code(root / FOLDER / "mod.rs"), code(TEMPLATE)])
    if re.search(rf"\b{type_of(name)}\b", used):
        raise RefusedError(f"bad name '{name}': devices use the type {type_of(name)}; choose another name")
    if re.search(rf"\b(static|const) {module.upper()}\b", code(root / KEYS)):
        raise RefusedError(f"bad name '{name}': {KEYS} has a table {module.upper()}; choose another name")
    if re.search(
        rf"^ +(pub struct )?({module}|{type_of(name)}Summary)\b", code(root / SUMMARY), re.MULTILINE
    ):
        raise RefusedError(f"bad name '{name}': results have a {module} already; choose another name")


def code(path: Path) -> str:
    """Return the lines of a file that are no comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("//"))


def filled(text: str, name: str) -> str:
    """Return a template with the names of a device."""
    module = module_of(name)
    names = {"NAME": name, "MODULE": module, "TYPE": type_of(name), "STATIC": module.upper()}
    return re.sub("@([A-Z]+)@", lambda match: names[match[1]], text)


def registered(library: str, name: str) -> str:
    """Return the text of `device/mod.rs` with the device in its two places."""
    module = module_of(name)
    declared = r"^(?:#\[cfg\(test\)\]\n)?(?:pub(?:\(crate\))? )?mod (\w+);\n"
    modules = list(re.finditer(declared, library, re.MULTILINE))
    after = [match for match in modules if match[1] < module]
    place = after[-1].end() if after else modules[0].start()
    library = f"{library[:place]}pub mod {module};\n{library[place:]}"
    line = filled("    @TYPE@(@MODULE@::@TYPE@) => @MODULE@::@TYPE@State,\n", name)
    return behind(library, r"^middleboxes! \{\n(?:    .*\n)*", line)


def behind(text: str, pattern: str, addition: str) -> str:
    """Return a text with an addition behind the only match of a pattern."""
    matches = list(re.finditer(pattern, text, re.MULTILINE))
    if len(matches) != 1:
        raise RefusedError(f"{len(matches)} places match {pattern}, not one: add this by hand:\n{addition}")
    place = matches[0].end()
    return text[:place] + addition + text[place:]


def write(name: str, root: Path) -> str:
    """Write the device into the tree at `root`, and return what to do next."""
    check(name, root)
    module = module_of(name)
    library, keys, reader, columns = (root / path for path in (f"{FOLDER}/mod.rs", KEYS, READER, COLUMNS))
    table = r"^static MIDDLEBOX: Tagged = Tagged \{\n(?:    .*\n)*?    variants: &\[\n(?:        .*\n)*"
    texts = {library: registered(library.read_text(encoding="utf-8"), name)}
    declared = behind(keys.read_text(encoding="utf-8"), table, filled(VARIANT, name))
    counted = r"^devices_count! \{\n(?:    .*\n|\n)*"
    texts[columns] = behind(columns.read_text(encoding="utf-8"), counted, filled(COUNTS, name))
    texts[keys] = behind(declared, rf"{table}    \],\n\}};\n", filled(TABLE, name))
    arms = r"^        middleboxes\.push\(match kind \{\n(?:            .*\n)*?(?=            kind => panic!)"
    texts[reader] = behind(reader.read_text(encoding="utf-8"), arms, filled(ARM, name))
    with (root / FOLDER / f"{module}.rs").open("x", encoding="utf-8") as file:
        file.write(filled(TEMPLATE.read_text(encoding="utf-8"), name))
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return NEXT.format(
        name=name,
        module=module,
        file=f"{FOLDER}/{module}.rs",
        folder=FOLDER,
        keys=KEYS,
        reader=READER,
        columns=COLUMNS,
        static=module.upper(),
    )


if __name__ == "__main__":
    sys.exit(run("new-device", write))
