"""Rules about the tree that no formatter knows: leftovers, machine paths, documentation that holds.

Run by `make test` like any other test. It reads the files that git tracks and changes nothing.
"""

import ast
import re
import runpy
import shutil
import subprocess
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

ROOT = Path(__file__).resolve().parents[2]
LONGEST_LINE = 120

MARKERS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|\b(unimplemented|todo)!|[Pp]laceholder|PLACEHOLDER")
MACHINE_PATHS = re.compile(r"(?<![\w.$}~*-])/(work|root|home/\w+|tmp/bash)/")
#: A link knows nothing and a packet is no person; a count, a time and a reader have names.
QUAINT = (
    "whoever",
    "nobody",
    "so many",
    "so long after",
    "knows of",
    "knew of",
    "want to know of",
    "needs to know of",
)
#: Between two words: a blank, or the end of a line with the mark of a comment at the next.
GAP = r"\s+(?:(?:#:?|//[/!]?|\*)\s+)?"
QUAINT_WORDS = re.compile(
    r"\b(" + "|".join(phrase.replace(" ", GAP) for phrase in QUAINT) + r")\b", re.IGNORECASE
)
REGISTRY_HOSTS = re.compile(r"pypi\.org|index\.crates\.io|files\.pythonhosted\.org")


def assert_none(found: list[str]) -> None:
    """Fail with one line for each finding."""
    assert not found, "\n" + "\n".join(found)


def tracked_files() -> list[Path]:
    """Return the files that git tracks, but for lock files and this one, which names what it bans."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listing = subprocess.run([git, "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True)
    names = [name for name in listing.stdout.split("\0") if name and not name.endswith(".lock")]
    paths = [ROOT / name for name in names]
    return [path for path in paths if path.is_file() and path != Path(__file__).resolve()]


def texts(*suffixes: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of every tracked text file with one of these suffixes, or of all."""
    for path in tracked_files():
        if suffixes and path.suffix not in suffixes:
            continue
        try:
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def lines(*suffixes: str) -> Iterator[tuple[str, str]]:
    """Yield `name:number` and the line, for every line of these files."""
    for name, text in texts(*suffixes):
        for number, line in enumerate(text.splitlines(), start=1):
            yield f"{name}:{number}", line


def test_lines_are_short() -> None:
    """The points of a study are inline tables, which TOML keeps in one line."""
    too_long = []
    for place, line in lines(".rs", ".py", ".pyi", ".toml", ".tcl"):
        inline = ".toml:" in place and "{" in line
        if len(line) > LONGEST_LINE and not inline:
            too_long.append(place)
    assert_none(too_long)


def test_lines_of_prose_are_short() -> None:
    """In Markdown, table rows, links and quoted output cannot be broken; everything else can."""
    too_long = []
    for name, text in texts(".md"):
        quoted = False
        for number, line in enumerate(text.splitlines(), start=1):
            if line.lstrip().startswith("```"):
                quoted = not quoted
            if len(line) > LONGEST_LINE and not quoted and not line.startswith("|") and "](" not in line:
                too_long.append(f"{name}:{number}")
    assert_none(too_long)


def test_nothing_is_left_unfinished() -> None:
    assert_none([f"{place} {line.strip()}" for place, line in lines() if MARKERS.search(line)])


def test_words_are_those_of_the_field() -> None:
    """In texts that users read and in comments; a line break is no way around it."""
    assert_none(
        [
            f"{name}:{text.count(chr(10), 0, match.start()) + 1} {match[0]}"
            for name, text in texts()
            for match in QUAINT_WORDS.finditer(text)
        ]
    )


def test_no_paths_of_a_machine_and_no_registry_hosts() -> None:
    found = [
        f"{place} {line.strip()}"
        for place, line in lines()
        if MACHINE_PATHS.search(line) or REGISTRY_HOSTS.search(line)
    ]
    assert_none(found)


def test_no_trailing_blanks() -> None:
    assert_none([place for place, line in lines() if line != line.rstrip()])


def test_every_source_file_opens_with_what_it_is_for() -> None:
    """`//!` in Rust, a docstring in Python, a comment in TOML scenarios and shell."""
    openings = {".rs": ("//!",), ".py": ('"""', 'r"""', "#!"), ".pyi": ('"""',)}
    silent = [
        name
        for name, text in texts(*openings)
        if text.strip() and not text.lstrip().startswith(openings[Path(name).suffix])
    ]
    silent += [
        name for name, text in texts(".toml") if name.startswith("scenarios/") and not text.startswith("#")
    ]
    assert_none(silent)


def make_targets() -> set[str]:
    """Return the targets that `make help` would list."""
    return set(
        re.findall(r"^([a-z][a-z-]*):.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )


def shell_commands() -> Iterator[tuple[str, str]]:
    """Yield file and command for each `$ ` line of a console block, continuations joined."""
    for name, text in texts(".md"):
        for block in re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            for line in block.replace("\\\n", " ").splitlines():
                if line.startswith("$ "):
                    yield name, line[2:]


def test_documented_make_targets_exist() -> None:
    targets = make_targets()
    pages = list(texts(".md"))
    mentioned = [(name, target) for name, text in pages for target in re.findall(r"`make ([a-z-]+)`", text)]
    mentioned += [
        (name, command.split()[1]) for name, command in shell_commands() if command.startswith("make ")
    ]
    assert_none([f"{name}: make {target}" for name, target in mentioned if target not in targets])


def test_documented_commands_name_existing_scenarios() -> None:
    missing = [
        f"{name}: {path}"
        for name, command in shell_commands()
        for path in re.findall(r"\bscenarios/[\w./-]+", command)
        if not (ROOT / path).is_file()
    ]
    assert_none(missing)


def test_vectors_that_sources_name_are_on_their_page() -> None:
    """A search for the name of a vector finds its test and its entry, and a name stands for one vector."""
    name_of = re.compile(r"\b[TN]V-\d+(?:\.\d+)+")
    page = (ROOT / "docs/reference/test-vectors.md").read_text(encoding="utf-8")
    entries = re.findall(r"^(?:\| |.*\*\*)([TN]V-\d+(?:\.\d+)+)(?: \||\*\*)", page, re.MULTILINE)
    known = set(name_of.findall(page))
    found = [
        f"{file}: {vector} is not on the page"
        for file, text in texts(".rs", ".py", ".md")
        for vector in name_of.findall(text)
        if vector not in known and not any(one.startswith(f"{vector}.") for one in known)
    ]
    assert_none(found + [f"{vector} stands twice" for vector in set(entries) if entries.count(vector) > 1])


def test_links_of_the_documentation_lead_somewhere() -> None:
    broken = [
        f"{name}: {target}"
        for name, text in texts(".md")
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
        if "://" not in target and not (ROOT / name).parent.joinpath(target).exists()
    ]
    assert_none(broken)


@pytest.mark.parametrize(
    ("page", "heading"),
    [
        ("README.md", "What is not there yet"),
        ("docs/explanation/how-the-engine-works.md", "What the model leaves out"),
    ],
)
def test_what_is_called_missing_is_missing(page: str, heading: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    missing = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    keys = (ROOT / "docs" / "reference" / "scenario.md").read_text(encoding="utf-8")
    # Names of protocols and mechanisms; a key, or a value of one, is written small.
    names = set(re.findall(r"\b[A-Z][A-Za-z]*[A-Z][\w-]*", missing)) - {"TCP", "QUIC", "LAN"}
    assert "MU-MIMO" in names, "a search that finds no name proves nothing"
    names |= set(re.findall(r"\bno (\w+)", missing))
    for name in sorted(names):
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()
        for written in (words, words + "s", words.replace("-", "_"), words.replace("-", "")):
            assert not re.search(rf'[`"]{re.escape(written)}[`"]', keys), f"{name} is there, as {written}"


def test_tables_of_the_documentation_have_rows() -> None:
    """A generated table that found nothing to show would look like an answer."""
    empty = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}"
        for name, text in texts(".md")
        for match in re.finditer(r"^\|(?:\s*:?-+:?\s*\|)+\n(?!\|)", text, re.MULTILINE)
    ]
    assert_none(empty)


def test_generated_pages_are_fresh() -> None:
    """Output and reference shown in the documentation are what the engine says today."""
    generator = runpy.run_path(str(ROOT / "docs" / "generate.py"))
    pages: dict[str, str] = generator["pages"]()
    stale = [
        name
        for name, text in pages.items()
        if not (ROOT / name).exists() or (ROOT / name).read_text(encoding="utf-8") != text
    ]
    there = (path.relative_to(ROOT).as_posix() for path in (ROOT / generator["SENDERS"]).glob("*.md"))
    stale += [name for name in there if name not in pages]
    assert_none([f"{name}: run make docs" for name in stale])


def test_the_page_of_stacks_is_its_template_with_tables() -> None:
    """Its tables take an hour of runs; its words are compared here."""
    template = ROOT / "crates/lasthop-stacks/src/bin/lasthop-stacks/page.md"
    before, _, after = template.read_text(encoding="utf-8").partition("TABLES\n")
    page = (ROOT / "docs/reference/stacks.md").read_text(encoding="utf-8")
    assert page.startswith(before)
    assert page.endswith(after)
    tables = page.removeprefix(before).removesuffix(after)
    assert all(line.startswith(("|", "### ")) for line in tables.splitlines() if line)


def test_every_sender_says_what_its_page_needs() -> None:
    """The head of each controller has the labelled paragraphs of its reference page."""
    heads = runpy.run_path(str(ROOT / "docs" / "generate.py"))["heads"]()
    wanted = (
        "What it does",
        "Reacts to",
        ("Differs from the paper", "Differs from the RFC"),
        "Validation",
        "Limitations",
        "Kernel counterpart",
        "References",
    )
    missing = [
        f"{head.path.relative_to(ROOT)}: {label if isinstance(label, str) else label[0]}"
        for of_name in heads.values()
        for head in of_name
        for label in wanted
        if not any(head.section(one) for one in ([label] if isinstance(label, str) else label))
    ]
    assert_none(missing)


def test_the_citation_names_the_version_of_the_workspace() -> None:
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    version = cargo["workspace"]["package"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_every_part_of_the_gate_says_what_it_is_at() -> None:
    """And shows its slowest tests: a gate that takes half an hour should not be silent."""
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not installed")
    told = subprocess.run(
        [make, "--dry-run", "test", "lint", "test-page", "wheel"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    tests = ("test-rust", "test-python", "test-live", "test-scenarios", "test-differential")
    for part in (*tests, "lint", "test-page", "wheel"):
        assert f"==> $(date +%H:%M:%S) {part}: " in told
    asked = [line for line in told.splitlines() if "-m pytest" in line]
    assert len(asked) == 5
    assert all("--durations=10" in line for line in asked)


def imports_of(package: Path) -> dict[str, set[str]]:
    """Return what each module of a package imports of it when it runs, in functions too; not for types."""
    root = package.parent
    modules = {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for path in package.rglob("*.py")
    }

    def visit(node: ast.AST) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue
            if isinstance(child, ast.Import):
                yield from (alias.name for alias in child.names)
            if isinstance(child, ast.ImportFrom) and child.module is not None:
                named = (f"{child.module}.{alias.name}" for alias in child.names)
                yield from (name if name in modules else child.module for name in named)
            yield from visit(child)

    found = {name: set(visit(ast.parse(path.read_text("utf-8")))) for name, path in modules.items()}
    return {name: (wanted & modules.keys()) - {name} for name, wanted in found.items()}


def test_no_imports_of_python_go_round_in_a_circle() -> None:
    """Not even by an import inside a function: those are there so that the command starts fast."""
    imports = imports_of(ROOT / "python" / "lasthop")
    # What imports nothing that is left is taken away until only circles are left.
    while done := [name for name, wanted in imports.items() if not wanted & imports.keys()]:
        for name in done:
            del imports[name]
    assert_none([f"{name} imports {', '.join(sorted(imports[name] & imports.keys()))}" for name in imports])


def test_a_circle_of_imports_is_found(tmp_path: Path) -> None:
    package = tmp_path / "of"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "one.py").write_text("def f():\n    from of.two import g\n")
    (package / "two.py").write_text("from of import one\nif TYPE_CHECKING:\n    from of.three import h\n")
    (package / "three.py").write_text("import of.two\n")
    wanted = {"of": set(), "of.one": {"of.two"}, "of.two": {"of.one"}, "of.three": {"of.two"}}
    assert imports_of(package) == wanted


def test_options_that_the_documentation_names_exist() -> None:
    """In prose as well as in blocks, after a verb; options behind ` -- ` are another program's."""
    from lasthop import cli

    def verbs(command: Any, name: str = "") -> Iterator[tuple[str, set[str]]]:
        for word, one in getattr(command, "commands", {}).items():
            yield f"{name}{word}", {option for of in one.params for option in (*of.opts, *of.secondary_opts)}
            yield from verbs(one, f"{name}{word} ")

    known = dict(verbs(typer.main.get_command(cli.app)))
    assert "--capture-at" in known["run"]
    used = re.compile(r"\blasthop ((?:study |history )?[a-z][a-z-]*)((?:[^`\n|]|\\\n)*)")
    unknown = [
        f"{name}: lasthop {match[1]} {option}"
        for name, text in texts(".md")
        for match in used.finditer(text)
        if match[1] in known
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", match[2].partition(" -- ")[0])
        if option not in known[match[1]] | {"--help"}
    ]
    assert_none(unknown)


def test_options_that_commands_share_are_declared_once() -> None:
    """Two declarations of one option would part one day: `commands/options.py` is the place."""
    places = defaultdict(list)
    for path in sorted((ROOT / "python" / "lasthop" / "commands").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("typer.Option", "typer.Argument"):
                named = {one.arg: ast.unparse(one.value) for one in node.keywords}
                flags = tuple(ast.unparse(one) for one in node.args)
                if path.name != "options.py" or not str(named["help"]).endswith("_HELP"):
                    places[flags, named.get("metavar"), named["help"]].append(f"{path.name}:{node.lineno}")
    assert len(places) > 100, "as many as there are, or the search is blind"
    assert_none([f"{what}: {', '.join(where)}" for what, where in places.items() if len(where) > 1])
