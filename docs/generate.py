"""Writes what the documentation takes from the engine: every key of a scenario, transports, and output shown.

`make docs` calls it; a test calls `pages` and compares. It holds no fact of its own: defaults, ranges and
help texts come from `lasthop.schema()` and `lasthop.transports()`, and the output of a command in a block
behind `<!-- output -->` is what the command prints.
"""
# ruff: noqa: INP001 - a script, not a package

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import lasthop as lh

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 118
NOTE = "<!-- Written by `make docs` from the engine; changes here are overwritten. -->"

#: A console block that shows the output of its only command, which may go on over several lines.
SHOWN_OUTPUT = re.compile(
    r"(?P<opening><!-- output -->\n```console\n\$ )(?P<command>(?:.*\\\n)*.*)\n(?:(?!```).*\n)*```"
)

Schema = dict[str, Any]


def pages() -> dict[str, str]:
    """Return the text of each page that is generated, wholly or in part, by its path."""
    texts = {
        "docs/reference/scenario.md": scenario_page(lh.schema()),
        "docs/reference/transports.md": transports_page(lh.transports()),
    }
    for name in ("README.md", "docs/tutorial/first-run.md"):
        texts[name] = SHOWN_OUTPUT.sub(with_output, (ROOT / name).read_text(encoding="utf-8"))
    return texts


def with_output(block: re.Match[str]) -> str:
    """Return a marked block with what its command prints now."""
    command = shlex.split(block["command"].replace("\\\n", " "))
    command[0] = str(Path(sys.executable).with_name("lasthop"))
    finished = subprocess.run(  # noqa: S603 - the commands of our own pages
        command,
        cwd=ROOT,
        env=os.environ | {"COLUMNS": str(WIDTH), "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    lines = [line.rstrip() for line in finished.stdout.strip("\n").splitlines()]
    return "\n".join([block["opening"] + block["command"], *lines, "```"])


def scenario_page(schema: Schema) -> str:
    """Every key of a scenario, one section per table."""
    lines = [
        "# Scenario: every key",
        NOTE,
        "Keys in bold must be given. [Write a scenario](../how-to/write-a-scenario.md) shows them in use.",
        "## Top level",
        *keys_table(schema),
    ]
    for name, definition in sorted(schema["$defs"].items()):
        lines += [f"## {name}", definition["description"]]
        alternatives = definition.get("anyOf", [definition])
        for alternative in alternatives:
            if "enum" in alternative:
                lines.append(f"One of {value_of(alternative)}, or a table:")
                continue
            if len(alternatives) > 1:
                lines += [f"### {name}: {alternative['title']}", alternative.get("description", "")]
            lines += keys_table(alternative)
    return page(lines)


def keys_table(table: Schema) -> list[str]:
    """One row per key of a table, as a single block of Markdown."""
    properties = table.get("properties", {})
    required = table.get("required", [])
    rows = ["| key | value | default | meaning |", "| --- | --- | --- | --- |"]
    for key, declared in sorted(properties.items(), key=lambda item: (item[0] not in required, item[0])):
        shown = f"**`{key}`**" if key in required else f"`{key}`"
        default = declared.get("default")
        written = "" if default in (None, {}) else f"`{lh.api.toml_value(default)}`"
        rows.append(f"| {shown} | {value_of(declared)} | {written} | {declared.get('description', '')} |")
    return ["\n".join(rows)] if properties else []


def value_of(declared: Schema) -> str:  # noqa: PLR0911 - one return for each form of a value
    """Say in a few words what may stand behind a key."""
    if "$ref" in declared:
        name = declared["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name})"
    if "const" in declared:
        return f'`"{declared["const"]}"`'
    if "enum" in declared:
        return ", ".join(f'`"{one}"`' for one in declared["enum"])
    if "anyOf" in declared:
        return " or ".join(value_of(one) for one in declared["anyOf"])
    if "items" in declared:
        return f"list of {value_of(declared['items'])}"
    if "examples" in declared:
        examples = " or ".join(f'`"{one}"`' for one in declared["examples"])
        return f"such as {examples}" + (f", {declared['$comment']}" if "$comment" in declared else "")
    if "minimum" in declared or "maximum" in declared:
        return f"{declared['type']}, {declared.get('minimum', '')} to {declared.get('maximum', '')}"
    kind: str = declared.get("type", "table")
    return "`true` or `false`" if kind == "boolean" else kind


def transports_page(listed: list[Schema]) -> str:
    """Presets, controllers and recovery engines."""
    lines = ["# Transports", NOTE]
    titles = {
        "preset": ("Presets", '`transport = "NAME"` chooses a controller and a recovery engine.'),
        "controller": ("Controllers", '`transport = { cc = "NAME" }`: how much may be in flight.'),
        "recovery": (
            "Recovery engines",
            '`transport = { recovery = "NAME" }`: how losses are found and repaired.',
        ),
    }
    for kind, (title, meaning) in titles.items():
        of_kind = [one for one in listed if one["kind"] == kind]
        lines += [f"## {title}", meaning]
        rows = ["| name | what it does |", "| --- | --- |"]
        if kind == "preset":
            rows = [
                "| name | controller | recovery | recovery in `ns2` | what it does |",
                "| --- | --- | --- | --- | --- |",
            ]
        for one in of_kind:
            pair = ""
            if kind == "preset":
                parts = (one.get("controller"), one.get("recovery"), one.get("recovery_ns2"))
                pair = "".join(f" {part or ''} |" for part in parts)
            rows.append(f"| `{one['name']}` |{pair} {one['summary']} |")
        lines.append("\n".join(rows))
        if kind == "controller":
            for one in of_kind:
                lines += [f"### {one['name']}: parameters", parameters_table(one["parameters"])]
    return page(lines)


def parameters_table(parameters: list[Schema]) -> str:
    """One row per parameter of a controller."""
    rows = ["| parameter | default | range | meaning |", "| --- | --- | --- | --- |"]
    for one in parameters:
        default, span = f"{one['default']:g}", f"{one['min']:g} to {one['max']:g}"
        if one["switch"]:
            default, span = str(bool(one["default"])).lower(), "`true` or `false`"
        elif one["choices"]:
            default = one["choices"][int(one["default"])]
            span = ", ".join(f"`{choice}`" for choice in one["choices"])
        rows.append(f"| `{one['name']}` | {default} | {span} | {one['help']} |")
    return "\n".join(rows)


def page(blocks: list[str]) -> str:
    """Blocks of Markdown, separated by blank lines; prose is wrapped."""
    return (
        "\n\n".join(block if block[0] in "#|<" else textwrap.fill(block, WIDTH) for block in blocks if block)
        + "\n"
    )


def main() -> None:
    """Write the pages."""
    for name, text in pages().items():
        (ROOT / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
