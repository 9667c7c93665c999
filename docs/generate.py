"""Writes what the documentation takes from the engine: keys, transports, senders, columns, output shown.

`make docs` calls it; a test calls `pages` and compares, and test_documentation runs the commands whose output
pages show. It holds no fact of its own: defaults, ranges and help texts come from `lasthop.schema()` and
`lasthop.transports()`, columns and metrics from what the engine declares of them, the page of a sender from
the head of its source file, and the output of a command in a block behind `<!-- output -->` is what the
command prints.
"""
# ruff: noqa: INP001 - a script, not a package

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lasthop as lh
from lasthop import columns

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 118
NOTE = "<!-- Written by `make docs` from the engine; changes here are overwritten. -->"

#: A console block that shows the output of its only command, which may go on over several lines.
SHOWN_OUTPUT = re.compile(
    r"(?P<opening><!-- output -->\n```console\n\$ )(?P<command>(?:.*\\\n)*.*)\n(?:(?!```).*\n)*```"
)

#: What the engine declares of columns, causes and metrics, between two comments of a page.
DECLARED = re.compile(
    r"(?P<opening><!-- (?P<what>columns|causes|metrics|fields)(?:: (?P<which>.*))? -->\n)"
    r"(?:.*\n)*?<!-- end -->"
)

#: Where the reference pages of senders lie; nothing else does.
SENDERS = "docs/reference/senders"
#: In place of a number.
RANDOM = "#/$defs/random-value"
#: Where the reference pages of helpers in the network lie; nothing else does.
HELPERS = "docs/reference/helpers"
LAWS = ROOT / "crates" / "lasthop-cc" / "src"
ENDPOINTS = ROOT / "crates" / "lasthop-net" / "src"
VALIDATION = "docs/reference/validation-senders.md"

#: A line of the registry: name, module.
REGISTERED = re.compile(r'^    "([^"]+)" => ([a-z0-9_]+)::', re.MULTILINE)

#: A paragraph of a head that has a label, such as `*Differs from the paper:* nothing.`
LABELLED = re.compile(r"\*([A-Z][^*]+?)[.:]?\*\s+(.*)", re.DOTALL)

Schema = dict[str, Any]


@dataclass(frozen=True)
class Head:
    """What a source file says about itself in its opening comment."""

    path: Path
    title: str
    #: Label and text of each paragraph that has one.
    sections: tuple[tuple[str, str], ...]

    def section(self, label: str) -> str:
        """Return the text behind a label, or nothing."""
        return next((text for known, text in self.sections if known == label), "")


def pages() -> dict[str, str]:
    """Return the text of each page that is generated, wholly or in part, by its path."""
    texts = {
        "docs/reference/scenario.md": scenario_page(lh.schema()),
        "docs/reference/transports.md": transports_page(lh.transports()),
        "docs/reference/ready-files.md": ready_page(),
    }
    texts |= sender_pages(lh.transports())
    texts |= helper_pages(lh.helpers())
    for name in (
        "docs/reference/results.md",
        "docs/reference/studies.md",
        "docs/reference/python-senders.md",
    ):
        texts[name] = DECLARED.sub(with_declared, (ROOT / name).read_text(encoding="utf-8"))
    return texts


def shown() -> dict[str, str]:
    """Return the text of each page that shows what a command prints, by its path; the commands are run."""
    texts = {}
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        if SHOWN_OUTPUT.search(text):
            texts[path.relative_to(ROOT).as_posix()] = SHOWN_OUTPUT.sub(with_output, text)
    return texts


def with_output(block: re.Match[str]) -> str:
    """Return a marked block with what its command prints now."""
    command = shlex.split(block["command"].replace("\\\n", " "))
    command[0] = str(Path(sys.executable).with_name("lasthop"))
    finished = subprocess.run(  # noqa: S603 - the commands of our own pages
        command,
        cwd=ROOT,
        env=os.environ | {"COLUMNS": str(WIDTH), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    # Of a command that succeeds stderr has its progress, which depends on the machine.
    printed = finished.stdout if finished.returncode == 0 else finished.stdout + finished.stderr
    lines = [line.rstrip() for line in printed.strip("\n").splitlines()]
    return "\n".join([block["opening"] + block["command"], *lines, "```"])


def with_declared(block: re.Match[str]) -> str:
    """Return a marked block with what the engine declares."""
    if block["what"] == "causes":
        rows = ["| cause | meaning |", "| --- | --- |"]
        rows += [f"| `{name}` | {meaning} |" for name, meaning in columns.causes().items()]
    elif block["what"] == "metrics":
        rows = metrics_rows()
    elif block["what"] == "fields":
        rows = fields_rows(block["which"])
    else:
        table, _, group = block["which"].partition(" ")
        rows = columns_rows(table, group or None)
    return "\n".join([block["opening"] + "\n".join(rows), "<!-- end -->"])


def columns_rows(table: str, group: str | None) -> list[str]:
    """One row per column of a table, or per pattern that several columns follow."""
    rows = ["| column | in JSON | unit | better | meaning |", "| --- | --- | --- | --- | --- |"]
    seen: set[str] = set()
    for column in columns.declared(table).values():
        # Of rare columns without a key of their own the group is the column itself.
        if (column.group if len(column.path) > 1 else None) != group or column.pattern in seen - {""}:
            continue
        seen.add(column.pattern)
        name = column.pattern or column.name
        path = [*column.path[:-1], "<cause>" if "<cause>" in name else column.path[-1]]
        key = "" if path == [name] else f"`{'.'.join(path)}`"
        unit = "0 to 1" if column.share else column.unit
        better = {True: "higher", False: "lower", None: ""}[column.higher_is_better]
        # What a cause means stands in a table of its own.
        meaning = "the same, by cause" if "<cause>" in name else column.help
        rows.append(f"| `{name}` | {key} | {unit} | {better} | {meaning} |")
    return rows


def metrics_rows() -> list[str]:
    """One row per table and way in which its rows become one figure."""
    kinds = {
        ("totals", ""): "the run",
        ("flows", "sum"): "the flows, added",
        ("flows", "mean"): "the flows, averaged",
        ("links", "sum"): "the links, added",
        ("links", "mean"): "the links, averaged",
        ("links", "bottleneck"): "the link that is the bottleneck",
    }
    rows = ["| of | names |", "| --- | --- |"]
    for (source, by), title in kinds.items():
        known = columns.declared(source)
        names = [one["name"] for one in lh.metrics() if (one["from"], one["by"]) == (source, by)]
        shown = dict.fromkeys(known[name].pattern or name for name in names if name in known)
        rows.append(f"| {title} | {', '.join(f'`{name}`' for name in shown)} |")
    return rows


def fields_rows(name: str) -> list[str]:
    """One row per field of a class that the engine hands to a sender in Python; its stub has the types."""
    stub = ast.parse((ROOT / "python" / "lasthop" / "_native.pyi").read_text(encoding="utf-8"))
    declared = next(one for one in stub.body if isinstance(one, ast.ClassDef) and one.name == name)
    class_ = getattr(lh.senders, name)
    units = {
        "_per_s": "1/s",
        "_s": "s",
        "_dbm": "dBm",
        "_bytes": "B",
        "cwnd": "segments",
        "ssthresh": "segments",
    }
    rows = ["| field | type | unit | meaning |", "| --- | --- | --- | --- |"]
    for one in declared.body:
        annotation: ast.expr | None
        if isinstance(one, ast.AnnAssign):
            field, annotation = ast.unparse(one.target), one.annotation
        elif isinstance(one, ast.FunctionDef) and "property" in map(ast.unparse, one.decorator_list):
            field, annotation = one.name, one.returns
        else:
            continue
        unit = next((unit for end, unit in units.items() if field.endswith(end)), "")
        kind = ast.unparse(annotation).replace(" | ", " or ") if annotation else ""
        meaning = " ".join(getattr(class_, field).__doc__.split())
        rows.append(f"| `{field}` | `{kind}` | {unit} | {meaning} |")
    return rows


def scenario_page(schema: Schema) -> str:
    """Every key of a scenario, one section per table."""
    lines = [
        "# Scenario: every key",
        NOTE,
        "Keys in bold must be given. [Write a scenario](../how-to/write-a-scenario.md) shows them in use.",
        (
            "Nearly every number and quantity may also be a [random value](#random-value). The exceptions "
            "define the run itself: its length, seed, limits and measurements, and the numbers of flows, "
            "hosts and stations."
        ),
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
            if "pattern" in alternative:
                pattern, meaning = alternative["pattern"], alternative["description"]
                lines.append(f"Or a name that matches `{pattern}`: {meaning}")
                continue
            if len(alternatives) > 1:
                lines += [f"### {name}: {alternative['title']}", alternative.get("description", "")]
            lines += keys_table(alternative)
    return page(lines)


def ready_page() -> str:
    """Every file that comes with lasthop to begin with: scenarios, studies, recordings, scripts, papers."""
    ready = ROOT / "python" / "lasthop" / "ready"
    use = (
        "The source tree and every wheel carry these scenarios and studies. `lasthop new NAME` writes one "
        "into the current folder, with the files that it names; in the source tree they are in "
        "`scenarios` and `studies`."
    )
    lines = ["# Files to begin with", NOTE, use]
    for kind in ("scenarios", "studies"):
        lines.append(f"## {kind.capitalize()}")
        for path in sorted((ready / kind).glob("*.toml")):
            about, _, proposed = opening_of(path).partition("Try next:")
            lines += [f"### {path.stem}", *about.strip().split("\n\n")]
            if proposed:
                commands = [line.strip() for line in proposed.strip().splitlines()]
                lines.append("\n".join(["```text", *commands, "```"]))
    others = sorted(path.name for path in (ready / "scenarios").iterdir() if path.suffix != ".toml")
    recordings = (
        f"{', '.join(f'`{name}`' for name in others)}: synthetic recordings of a cellular link, in "
        "Mahimahi's format, for `train-ride`. A recording of your own can take their place."
    )
    scripts = (
        "In the source tree only: `lasthop script scripts/NAME.script` runs one "
        "([script a connection](../how-to/script-a-connection.md))."
    )
    rows = ["| script | what it asserts |", "| --- | --- |"]
    for path in sorted((ROOT / "scripts").glob("*.script")):
        title = re.search('^title = "(.*)"$', path.read_text(encoding="utf-8"), re.MULTILINE)
        rows.append(f"| `{path.stem}` | {title[1] if title else ''} |")
    papers = (
        "`lasthop reproduce` lists five papers; wheels carry their studies and claims. "
        "[What they teach](../papers/README.md)."
    )
    lines += [
        "## Recordings",
        recordings,
        "## Scripts of packets",
        scripts,
        "\n".join(rows),
        "## Papers",
        papers,
    ]
    return page(lines)


def opening_of(path: Path) -> str:
    """Return the opening comment of a TOML file."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").removeprefix(" "))
    return "\n".join(lines)


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
        return f"[{name}](#{name.lower()})"
    if "const" in declared:
        return f'`"{declared["const"]}"`'
    if "enum" in declared:
        return ", ".join(f'`"{one}"`' for one in declared["enum"])
    if "anyOf" in declared:
        # The page says once that nearly any number may be random.
        forms = [one for one in declared["anyOf"] if one.get("$ref") != RANDOM]
        return " or ".join(value_of(one) for one in forms)
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
        "rate": (
            "Rate-based transports",
            '`transport = "NAME"` or `{ rate = "NAME" }`: over UDP, evenly spaced.',
        ),
        "stack": (
            "Real stacks",
            '`transport = "NAME"`, or `{ stack = ..., congestion = ... }`: see [real stacks](stacks.md).',
        ),
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
            shown = f"`{one['name']}`"
            if kind_of(one["name"], listed) == kind:
                shown = f"[{shown}](senders/{file_name(one['name'])})"
            rows.append(f"| {shown} |{pair} {one['summary']} |")
        lines.append("\n".join(rows))
        if kind in {"controller", "rate"}:
            for one in of_kind:
                lines += [f"### {one['name']}: parameters", parameters_table(one["parameters"])]
    return page(lines)


def head_of(path: Path) -> Head:
    """Read the opening comment of a source file."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("//!"):
            break
        lines.append(line.removeprefix("//!").strip())
    blocks: list[list[str]] = [[]]
    for line in lines:
        if not line or LABELLED.match(line) or line.startswith("- "):
            blocks.append([])
        if line:
            blocks[-1].append(line)
    paragraphs = [" ".join(block) for block in blocks if block]
    sections: list[tuple[str, str]] = []
    for paragraph in paragraphs[1:]:
        labelled = LABELLED.match(paragraph)
        if labelled:
            sections.append((labelled[1].rstrip(".:"), labelled[2]))
        elif sections:
            sections[-1] = (sections[-1][0], f"{sections[-1][1]}\n\n{paragraph}")
    return Head(path, paragraphs[0] if paragraphs else "", tuple(sections))


def heads() -> dict[str, list[Head]]:
    """Head of every sender and mechanism by its name: a controller, then what it has at the end points."""
    registry = (LAWS / "lib.rs").read_text(encoding="utf-8")
    found = {name: [head_of(LAWS / f"{module}.rs")] for name, module in REGISTERED.findall(registry)}
    for path in sorted(ENDPOINTS.rglob("*.rs")):
        head = head_of(path)
        # What stands in the network has pages of its own.
        if head.section("What it does") and not {"device", "world"} & set(path.relative_to(ENDPOINTS).parts):
            found.setdefault(path.stem.replace("_", "-"), []).append(head)
    return found


def file_name(name: str) -> str:
    """Name of the page of a sender; a plus would mean a blank in a link."""
    return name.replace("+", "-plus") + ".md"


def sender_pages(listed: list[Schema]) -> dict[str, str]:
    """One page for each sender and mechanism, and their index."""
    known = heads()
    texts = {f"{SENDERS}/{file_name(name)}": sender_page(name, known[name], listed) for name in known}
    texts[f"{SENDERS}/README.md"] = index_page(known, listed)
    return texts


def index_page(known: dict[str, list[Head]], listed: list[Schema]) -> str:
    """Every sender with what it reacts to."""
    lines = [
        "# Senders",
        NOTE,
        "One page for each: what it does, how it differs from its paper, how it was validated, its limits.",
    ]
    kinds = {
        "controller": ("Controllers", '`transport = { cc = "NAME" }`'),
        "rate": ("Rate-based transports", '`transport = "NAME"`'),
        "": ("Mechanisms of the end points", "They belong to a sender, a preset or a key of the transport."),
    }
    for kind, (title, use) in kinds.items():
        names = [name for name in known if kind_of(name, listed) == kind]
        if not names:
            continue
        rows = ["| name | what it is | reacts to |", "| --- | --- | --- |"]
        for name in sorted(names):
            head = known[name][0]
            cells = (head.title.partition(": ")[2] or head.title, head.section("Reacts to"))
            text = " | ".join(plain(cell).replace("\n\n", " ") for cell in cells)
            rows.append(f"| [{name}]({file_name(name)}) | {text} |")
        lines += [f"## {title}", use, "\n".join(rows)]
    return page(lines)


def helper_pages(listed: list[Schema]) -> dict[str, str]:
    """One page for each helper in the network, and their index."""
    rows = ["| name | what it does | where it may stand | from |", "| --- | --- | --- | --- |"]
    texts = {}
    for one in listed:
        name = one["name"]
        texts[f"{HELPERS}/{name}.md"] = helper_page(one)
        rows.append(f"| [{name}]({name}.md) | {one['summary']} | {one['stands']} | {one['origin']} |")
    use = (
        '`helpers = ["NAME"]` in a scenario switches one on at the base station, in front of the link that '
        "loses packets; `at` says where else. `lasthop compare FILE --helpers none,NAME` shows what it does "
        "for a path. [Which help does my path need?](../../how-to/which-help.md) goes through it."
    )
    lines = [
        "# Helpers in the network",
        NOTE,
        use,
        "\n".join(rows),
    ]
    return texts | {f"{HELPERS}/README.md": page(lines)}


def helper_page(one: Schema) -> str:
    """All that is known of one helper."""
    head = head_of(ROOT / one["source"])
    lines = [
        f"# {one['name']}",
        NOTE,
        plain(head.title),
        "## In a scenario",
        f'```toml\nhelpers = ["{one["name"]}"]\n```',
        f"At every link that loses packets or goes down on the path of a flow. It may stand {one['stands']}.",
        "## Keys",
    ]
    rows = ["| key | value | default | meaning |", "| --- | --- | --- | --- |"]
    for key in one["keys"]:
        default = f"`{key['default']}`" if key["default"] else ""
        rows.append(f"| `{key['name']}` | {key['values']} | {default} | {key['help']} |")
    lines.append("\n".join(rows))
    for label, text in head.sections:
        lines.append(f"## {label}")
        lines += [plain(paragraph) for paragraph in text.split("\n\n")]
    counted = [
        column for column in columns.declared("links").values() if column.name.startswith(one["columns"])
    ]
    if counted:
        rows = ["| column of its link | unit | meaning |", "| --- | --- | --- |"]
        rows += [f"| `{column.name}` | {column.unit} | {column.help} |" for column in counted]
        lines += ["## What it counts", "\n".join(rows)]
    lines.append(f"Source: `{one['source']}`")
    return page(lines)


def kind_of(name: str, listed: list[Schema]) -> str:
    """Whether a name is a controller, a rate-based transport or, if empty, part of something else."""
    kinds = {one["kind"] for one in listed if one["name"] == name}
    return next((kind for kind in ("controller", "rate") if kind in kinds), "")


def sender_page(name: str, of_name: list[Head], listed: list[Schema]) -> str:
    """All that is known of one sender."""
    kind = kind_of(name, listed)
    lines = [f"# {name}", NOTE, plain(of_name[0].title)]
    if kind:
        lines += use_of(name, kind, listed)
    for head in of_name:
        if head is not of_name[0]:
            lines += ["## At the end points", plain(head.title)]
        level = "##" if head is of_name[0] else "###"
        for label, text in head.sections:
            lines.append(f"{level} {label}")
            lines += [plain(paragraph) for paragraph in text.split("\n\n")]
            if label == "Validation" and head is of_name[0] and validated(name):
                lines.append(f"Figures beside other implementations: [{name}]({validated(name)}).")
        lines.append(f"Source: `{head.path.relative_to(ROOT).as_posix()}`")
    return page(lines)


def use_of(name: str, kind: str, listed: list[Schema]) -> list[str]:
    """How a scenario names a sender, the presets that use it, and its parameters."""
    presets = [one for one in listed if one["kind"] == "preset" and one["controller"] == name]
    own = next(one for one in listed if one["name"] == name and one["kind"] == kind)
    key = {"controller": "cc", "rate": "rate"}[kind]
    lines = ["## In a scenario", f'```toml\ntransport = {{ {key} = "{name}" }}\n```']
    if kind == "rate":
        lines[-1] = f'```toml\ntransport = "{name}"\n```'
    if presets:
        rows = ["| preset | recovery | recovery in `ns2` |", "| --- | --- | --- |"]
        rows += [f"| `{one['name']}` | {one['recovery']} | {one['recovery_ns2']} |" for one in presets]
        lines.append("\n".join(rows))
    parameters = own["parameters"]
    return [*lines, "## Parameters", parameters_table(parameters) if parameters else "None."]


def validated(name: str) -> str | None:
    """Return the place of a sender in the validation tables, seen from its page, if it is there."""
    path = ROOT / VALIDATION
    headings = (
        re.findall(r"^## (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE) if path.exists() else []
    )
    if name not in headings:
        return None
    anchors = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
    place = headings.index(name)
    # The second of two equal anchors gets a number.
    again = anchors[:place].count(anchors[place])
    return f"../{path.name}#{anchors[place]}" + (f"-{again}" if again else "")


def plain(text: str) -> str:
    """Text of a Rust comment as Markdown: links of its own are mere code, sentences open with a capital."""
    text = re.sub(r"\[(`[^`]+`)\](?!\()", r"\1", text)
    return text[:1].upper() + text[1:]


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
    """Blocks of Markdown, separated by blank lines but for the items of a list; prose is wrapped."""
    text = ""
    for block in filter(None, blocks):
        if block.startswith("- "):
            item = textwrap.fill(
                block, WIDTH, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False
            )
            text += ("\n" if text.rpartition("\n\n")[2].startswith("- ") else "\n\n") + item
        else:
            kept = block[0] in "#|<" or block.startswith("```")
            text += ("\n\n" if text else "") + (block if kept else wrapped(block))
    return text + "\n"


def wrapped(text: str) -> str:
    """Prose on lines of the usual width, none of which would mean something else for its beginning."""
    lines = textwrap.fill(text, WIDTH, break_on_hyphens=False, break_long_words=False).splitlines()
    return "\n".join(re.sub(r"^([-+*>]|\d+[.)])(?=\s)", r"\\\1", line) for line in lines)


def main() -> None:
    """Write the pages, and remove those of senders and helpers that are no more."""
    written = pages() | shown()
    for folder in (ROOT / SENDERS, ROOT / HELPERS):
        folder.mkdir(exist_ok=True)
        for path in folder.glob("*.md"):
            if path.relative_to(ROOT).as_posix() not in written:
                path.unlink()
    for name, text in written.items():
        (ROOT / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
