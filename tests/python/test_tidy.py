"""Rules about the tree that no formatter knows: leftovers, machine paths, documentation that holds.

Run by `make test` like any other test. It reads the files that git tracks and changes nothing.
"""

import re
import runpy
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LONGEST_LINE = 120

MARKERS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|\b(unimplemented|todo)!|[Pp]laceholder|PLACEHOLDER")
MACHINE_PATHS = re.compile(r"(?<![\w.$}~*-])/(work|root|home/\w+|tmp/bash)/")
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


def test_links_of_the_documentation_lead_somewhere() -> None:
    broken = [
        f"{name}: {target}"
        for name, text in texts(".md")
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
        if "://" not in target and not (ROOT / name).parent.joinpath(target).exists()
    ]
    assert_none(broken)


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
