"""What the generators of code share: names, places, and files that are written as a whole or not at all.

`new_sender.py`, `new_device.py`, `new_queue.py`, `new_error_model.py` and `new_traffic.py` use it.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ROOT = Path(__file__).resolve().parent.parent
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
#: Longer names of parts would not fit the lines that are written.
LONGEST_NAME = 20

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


class RefusedError(Exception):
    """A name that cannot be used; the text says why and what to do."""


def check_name(name: str, longest: int, other: str, example: str) -> None:
    """Refuse a name that nothing can have; `other` is appended to a word of Rust, `example` is a command."""
    if NAME.fullmatch(name) is None or len(name) > longest:
        shown = f"'{name}'" if name else "nothing"
        raise RefusedError(
            f"bad name {shown}: use lower-case letters and digits, a letter first, hyphens between words, at "
            f"most {longest} characters; for example: {example}"
        )
    if module_of(name) in RESERVED:
        raise RefusedError(f"bad name '{name}': it is a word of Rust; choose another, such as {name}-{other}")


def check_part(name: str, root: Path, folder: str, template: Path, what: str) -> None:
    """Refuse a name whose file or type exists among the parts of `folder`."""
    module = module_of(name)
    if (root / folder / f"{module}.rs").exists():
        raise RefusedError(f"{folder}/{module}.rs exists: it is part of the crate; choose another name")
    used = "\n".join([code(root / folder / "mod.rs"), code(template)])
    if re.search(rf"\b{type_of(name)}\b", used):
        raise RefusedError(f"bad name '{name}': {what} use the type {type_of(name)}; choose another name")


def module_of(name: str) -> str:
    """Name of the module."""
    return name.replace("-", "_")


def type_of(name: str) -> str:
    """Name of the type."""
    return "".join(word.capitalize() for word in name.split("-"))


def code(path: Path) -> str:
    """Return the lines of a file that are no comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("//"))


def filled(text: str, name: str) -> str:
    """Return a template with the names of a part."""
    module = module_of(name)
    names = {"NAME": name, "MODULE": module, "TYPE": type_of(name), "STATIC": module.upper()}
    return re.sub("@([A-Z]+)@", lambda match: names[match[1]], text)


def from_template(template: Path, name: str) -> str:
    """Return the file that a template makes."""
    return filled(template.read_text(encoding="utf-8"), name)


def declared(library: str, module: str, visibility: str = "") -> str:
    """Return the text of a `mod.rs` or `lib.rs` with the module among the others, in their order."""
    modules = list(
        re.finditer(r"^(?:#\[cfg\(test\)\]\n)?(?:pub(?:\([a-z]+\))? )?mod (\w+);\n", library, re.MULTILINE)
    )
    after = [match for match in modules if match[1] < module]
    # An attribute belongs to the line below it: insert behind a module, never before one.
    place = after[-1].end() if after else modules[0].start()
    return f"{library[:place]}{visibility}mod {module};\n{library[place:]}"


def behind(text: str, pattern: str, addition: str) -> str:
    """Return a text with an addition behind the only match of a pattern."""
    matches = list(re.finditer(pattern, text, re.MULTILINE))
    if len(matches) != 1:
        raise RefusedError(f"{len(matches)} places match {pattern}, not one: add this by hand:\n{addition}")
    place = matches[0].end()
    return text[:place] + addition + text[place:]


def write_all(root: Path, new: Mapping[str, str], changed: Mapping[str, str]) -> None:
    """Write what is new, unless it exists, and then what has changed."""
    for name, text in new.items():
        with (root / name).open("x", encoding="utf-8") as file:
            file.write(text)
    for name, text in changed.items():
        (root / name).write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class Family:
    """Parts with a file in the engine, a file of keys in the scenario, and a line beside each."""

    #: Name of its templates, and what is appended to a word of Rust.
    template: str
    suffix: str
    #: What its parts are called, and a command that makes one.
    noun: str
    example: str
    #: Where its parts are in `lasthop-net`, the macro with their lines there, and such a line.
    folder: str
    macro: str
    line: str
    #: Where their keys are, and the macro with their lines.
    keys: str
    keys_macro: str
    #: What comes next.
    next: str
    #: How modules are declared in `lasthop-net`.
    visibility: str = ""

    def make(self, name: str, root: Path, also: Mapping[str, str] | None = None) -> str:
        """Write the part into the tree at `root`, and `also` other files; return what to do next."""
        self.check(name, root)
        module = module_of(name)
        file, keys = f"{self.folder}/{module}.rs", f"{self.keys}/{module}.rs"
        new = {
            file: from_template(self._template(""), name),
            keys: from_template(self._template("_keys"), name),
        }
        library, kinds = f"{self.folder}/mod.rs", f"{self.keys}/mod.rs"
        engine = declared((root / library).read_text(encoding="utf-8"), module, self.visibility)
        scenario = declared((root / kinds).read_text(encoding="utf-8"), module)
        lines = r"! \{\n(?:    .*\n)*"
        changed = {
            library: behind(engine, f"^{self.macro}{lines}", filled(f"    {self.line}\n", name)),
            kinds: behind(scenario, f"^{self.keys_macro}{lines}", f"    {module},\n"),
        }
        write_all(root, new, changed | dict(also or {}))
        return self.next.format(
            name=name, module=module, file=file, keys=keys, folder=self.folder, keys_folder=self.keys
        )

    def check(self, name: str, root: Path) -> None:
        """Refuse a name that no part can have, or that something has already."""
        check_name(name, LONGEST_NAME, self.suffix, self.example)
        check_part(name, root, self.folder, self._template(""), self.noun)
        for path in sorted((root / self.keys).glob("*.rs")):
            if path.stem == module_of(name) or re.search(rf'\bNAME: &str = "{name}"', code(path)):
                raise RefusedError(f"bad name '{name}': {self.keys}/{path.name} has it; choose another name")

    def _template(self, part: str) -> Path:
        return Path(__file__).with_name(f"{self.template}{part}.rs.template")


def run(command: str, make: Callable[[str, Path], str]) -> int:
    """Make what the only argument of `command` names, and say what comes next; the exit code."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    try:
        print(make(name, ROOT))
    except (RefusedError, FileExistsError) as error:
        print(f"{command}: {error}", file=sys.stderr)
        return 2
    return 0
