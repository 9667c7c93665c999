"""Every block of README and docs is run as it is written, in the order of its page.

A page is followed in a folder of its own that has what the tree has (`scenarios`, `studies`, `.venv`, ...),
so what a block writes is there for the next one. In `console` blocks each command must succeed, and lines
below a command are what it prints, to the letter; a command whose output opens with an error must exit with
2. Blocks of `python` share their names. Blocks of `toml` must be TOML. A comment above a block says more:

    <!-- output -->         what stands below the command is written anew by `make docs`
    <!-- prints A, B -->    the command prints these, among others
    <!-- file NAME -->      the block is this file, and is written to the folder
    <!-- from FILE -->      the block stands in this file of the tree, line by line
    <!-- link -->, <!-- flow -->, <!-- scenario -->    keys of a link, of a flow, of a scenario; they are run

Commands with `sudo` carry real packets, in real time: `make test-live` runs their blocks, as root, in
namespaces. What is not run here stands in `ELSEWHERE`, with the reason and with the test that runs it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

import lasthop as lh
from lasthop import cli
from lasthop.terminal import EXIT_INVALID

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
BIN = Path(sys.executable).parent
#: Width of the window in which `make docs` writes the output that pages show.
WIDTH = "118"

#: Commands that are not run here: what they match, why, and what runs them.
ELSEWHERE = {
    r"make (demo|build|reproduce)\b": (
        "builds the tree, which tests do not; test_cli and test_reproduce run the commands that it calls"
    ),
    r"make (test|lint|page|wheel)\b": "is a part of the gate itself, `.ci/run`",
    r"aioquic_in_simulated_time": "needs aioquic; test_network runs it where that is installed",
    r"lasthop_c|\./ping": "the test of lasthop-ffi compiles this example and runs it",
    r"cargo ": "`make test-rust` runs these tests",
    r"lasthop transports$|reno,<name>": "test_generators adds a sender, builds it and runs it",
    r"lasthop reproduce \d": "takes minutes; test_reproduce runs a part, `make pins-check` all",
    r"make kernel-guest|--virtual": "needs the virtual machine; test_guest asks it",
    r"lasthop view": "needs the page, which `make test-page` builds; test_view runs it",
    r"-m venv|pip install": "changes an environment; `make wheel` installs the wheel into an empty one",
    r"dask |--cluster": "needs a cluster; test_study_cluster starts one on this machine",
    r"192\.0\.2\.1": "needs a server elsewhere; test_steer connects two hosts instead",
    r"(run|compare) quic.toml": "needs a build with stacks; test_stacks runs such flows in one",
    r"--beside": "needs a file that another tool measured; test_measured lays several beside runs",
    r"script --kernel": "test_live_devices runs each script, again if the machine was busy",
    r"--resume lh_": "needs a killed session; test_steer kills one and resumes it",
}

BLOCK = re.compile(
    r"(?:^<!-- (?P<comment>[^\n]*?) -->\n)?^```(?P<language>console|python|toml|rust|bash)\n"
    r"(?P<body>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
#: What makes a command one of a shell: pipes, redirections, patterns, several programs.
OF_A_SHELL = re.compile(r"[|<>;&*]|\$\(")
OURS = re.compile(r"(?:\.venv/bin/)?lasthop ")

#: Two paths from a server to a host; the keys of an example go where `{link}` or `{flow}` stands.
AROUND = """
duration = "12 s"
[topology]
kind = "graph"
nodes = ["server", "core", "old", "new", "host"]
[[topology.links]]
from = "server"
to = "core"
rate = "100 Mbit/s"
delay = "5 ms"
[[topology.links]]
from = "core"
to = "old"
rate = "10 Mbit/s"
delay = "10 ms"
{link}
[[topology.links]]
from = "old"
to = "host"
rate = "5 Mbit/s"
delay = "5 ms"
[[topology.links]]
from = "core"
to = "new"
rate = "10 Mbit/s"
delay = "10 ms"
[[topology.links]]
from = "new"
to = "host"
rate = "5 Mbit/s"
delay = "5 ms"
[[topology.links]]
from = "old"
to = "new"
rate = "10 Mbit/s"
delay = "1 ms"
[[flows]]
source = "server"
sink = "host"
{flow}
"""


@dataclass(frozen=True)
class Block:
    """One block of a page."""

    page: Path
    line: int
    language: str
    comment: str
    body: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A command of a console block, and what the page shows of its output."""

    text: str
    shown: str

    @property
    def is_root(self) -> bool:
        """Whether it is for the administrator."""
        return self.text.startswith("sudo ")

    @property
    def elsewhere(self) -> str | None:
        """Why it is not run here, if it is not."""
        if self.is_refused:
            return None
        return next((why for what, why in ELSEWHERE.items() if re.search(what, self.text)), None)

    @property
    def is_refused(self) -> bool:
        """Whether the page shows it as a mistake."""
        return re.match(r"(\w+ )?error: ", self.shown) is not None


@dataclass
class Reader:
    """Somebody's folder and names while a page is followed, and the blocks that are done."""

    folder: Path
    names: dict[str, object] = field(default_factory=lambda: {"__name__": "page"})
    done: int = 0


def pages() -> list[Path]:
    """Every page that is written by hand, or from declarations; not the reports of papers."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
    return [page for page in found if page.name != "report.md"]


def blocks_of(page: Path) -> list[Block]:
    """Read the blocks of a page in their order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page,
            text.count("\n", 0, one.start("language")) + 1,
            one["language"],
            one["comment"] or "",
            one["body"],
        )
        for one in BLOCK.finditer(text)
    ]


BLOCKS = [block for page in pages() for block in blocks_of(page)]


def commands_of(block: Block) -> Iterator[Command]:
    """Read the commands of a console block with the lines below them."""
    for part in re.split(r"^\$ ", block.body.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
        text, _, shown = part.partition("\n")
        yield Command(
            " ".join(text.split()) if "'" not in text and '"' not in text else text.strip(), shown.strip("\n")
        )


COMMANDS = [command for block in BLOCKS if block.language == "console" for command in commands_of(block)]


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[Path, bool], Reader]:
    """Keep the folder of each page, once for ordinary users and once for the administrator."""
    kept: dict[tuple[Path, bool], Reader] = {}
    for page in {block.page for block in BLOCKS}:
        for is_root in (False, True):
            folder = tmp_path_factory.mktemp(page.stem)
            for name in ("scenarios", "scripts", "studies", "papers", "examples", "docs"):
                (folder / name).symlink_to(ROOT / name)
            (folder / ".venv").symlink_to(BIN.parent)
            kept[page, is_root] = Reader(folder)
    return kept


def follow(reader: Reader, block: Block, monkeypatch: pytest.MonkeyPatch, *, as_root: bool) -> list[str]:
    """Run a page up to a block, from where it was left; return what of the block was passed over."""
    monkeypatch.chdir(reader.folder)
    monkeypatch.setenv("COLUMNS", WIDTH)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")
    of_page = [one for one in BLOCKS if one.page == block.page]
    passed_over: list[str] = []
    while reader.done <= of_page.index(block):
        reader.done += 1  # a block that fails is not run again for the next one
        passed_over = carry_out(reader, of_page[reader.done - 1], as_root=as_root)
    return passed_over


def carry_out(reader: Reader, block: Block, *, as_root: bool) -> list[str]:
    """Run one block; return why commands of it were passed over."""
    if block.comment.startswith("file "):
        (reader.folder / block.comment.removeprefix("file ")).write_text(block.body, encoding="utf-8")
    if block.language == "console":
        return follow_commands(reader, block, as_root=as_root)
    if as_root:
        return []
    if block.language == "python":
        exec(compile(block.body, str(block), "exec", dont_inherit=True), reader.names)  # noqa: S102 - our own pages
    elif block.language == "toml":
        check_toml(block)
    elif block.language == "bash":
        subprocess.run(["bash", "-n", "-c", block.body], check=True)  # noqa: S607 - whichever bash there is
    elif block.comment.startswith("from "):
        source = (ROOT / block.comment.removeprefix("from ")).read_text(encoding="utf-8")
        # Whole lines: a quotation that begins or ends within a line would hide what it leaves out.
        assert "\n" + block.body in "\n" + source, (
            f"{block}: {block.comment.removeprefix('from ')} does not have this"
        )
    return []


def follow_commands(reader: Reader, block: Block, *, as_root: bool) -> list[str]:
    """Run the commands of a block that are for this user."""
    commands = list(commands_of(block))
    if any(command.is_root for command in commands) != as_root:
        return []
    passed_over = []
    for command in commands:
        if command.elsewhere:
            passed_over.append(f"{command.text}: {command.elsewhere}")
            continue
        code, output = run(command, reader.folder)
        expected = [2 if command.is_refused else 0]
        if as_root:
            # On a busy machine packets leave late, and the command says so; all else holds.
            expected.append(EXIT_INVALID)
        assert code in expected, f"{block}: $ {command.text}\nexit code {code}\n{output}"
        if command.shown:
            printed = "\n".join(line.rstrip() for line in output.strip("\n").splitlines())
            assert printed == command.shown, f"{block}: $ {command.text}"
        if block.comment.startswith("prints "):
            wanted = block.comment.removeprefix("prints ").split(", ")
            assert [one for one in wanted if one not in output] == [], f"{block}: $ {command.text}\n{output}"
    return passed_over


def run(command: Command, folder: Path) -> tuple[int, str]:
    """Run a command: ours in this process where no shell is needed, everything else in a shell.

    Of ours, if it succeeds, only what it prints on stdout counts: stderr has its progress on a slow machine.
    """
    text = command.text.removeprefix("sudo ")
    if (
        OURS.match(text)
        and not command.is_root
        and not OF_A_SHELL.search(re.sub(r"'[^']*'|\"[^\"]*\"", "", text))
    ):
        result = CliRunner().invoke(cli.app, shlex.split(text)[1:])
        return result.exit_code, result.output if result.exit_code else result.stdout
    finished = subprocess.run(
        ["bash", "-c", text],  # noqa: S607 - whichever bash there is
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    return finished.returncode, finished.stdout


def check_toml(block: Block) -> None:
    """Check that a block is TOML; where its comment says what it holds, run it."""
    kind = block.comment if block.comment in ("link", "flow", "scenario") else ""
    keys = tomllib.loads(block.body)
    if not kind and {"duration", "topology", "flows"} <= keys.keys():
        kind = "scenario"
    if not kind and keys.keys() in ({"transport"}, {"reader"}):
        kind = "flow"
    if not kind:
        return
    if kind == "scenario":
        scenario = keys
    else:
        own = block.body if "transport" in keys or kind == "link" else f'transport = "cubic"\n{block.body}'
        flow = own if kind == "flow" else 'transport = "cubic"'
        scenario = tomllib.loads(
            AROUND.replace("{link}", own if kind == "link" else "").replace("{flow}", flow)
        )
    try:
        result = lh.run(scenario, seed=1)
    except lh.ScenarioError as error:
        # Right, and for a build with stacks; test_stacks runs such flows in one.
        if "make build FEATURES=stacks" in str(error):
            return
        raise
    assert result.flows["bytes_delivered"].sum() > 0, str(block)


def parameters(*, as_root: bool) -> list[pytest.param]:
    """Return the blocks for one kind of user."""
    chosen = [
        block
        for block in BLOCKS
        if (
            block.language == "console" and any(one.is_root for one in commands_of(block))
            if as_root
            else True
        )
    ]
    return [pytest.param(block, id=str(block)) for block in chosen]


@pytest.mark.parametrize("block", parameters(as_root=False))
def test_a_block(
    block: Block, readers: dict[tuple[Path, bool], Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    passed_over = follow(readers[block.page, False], block, monkeypatch, as_root=False)
    of_block = list(commands_of(block)) if block.language == "console" else []
    if of_block and len(passed_over) == len(of_block):
        pytest.skip("; ".join(passed_over))
    if of_block and any(one.is_root for one in of_block):
        pytest.skip("carries real packets: make test-live")


@pytest.mark.parametrize("block", parameters(as_root=True))
def test_a_block_with_real_packets(
    block: Block, readers: dict[tuple[Path, bool], Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    _refuse_without_root(block)
    passed_over = follow(readers[block.page, True], block, monkeypatch, as_root=True)
    if len(passed_over) == len(list(commands_of(block))):
        pytest.skip("; ".join(passed_over))


def _refuse_without_root(block: Block) -> None:
    """Skip where real packets cannot be carried, or where a program is missing that the block calls."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("needs root on Linux")
    doctor = CliRunner().invoke(cli.app, ["doctor"]).output
    subject = "steer" if re.search("steer|twin", block.body) else "emulate"
    if f"'lasthop {subject}' can run here" not in doctor:
        pytest.skip(f"'lasthop {subject}' cannot run here; lasthop doctor says why")
    missing = [name for name in ("iperf3", "curl", "tshark") if name in block.body and not shutil.which(name)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


def test_what_is_not_run_here_is_on_a_page() -> None:
    unused = [what for what in ELSEWHERE if not any(re.search(what, one.text) for one in COMMANDS)]
    assert unused == []


#: What scenarios propose to try next, without the remark behind it.
PROPOSED = re.compile(r"^#   lasthop (.*?)(?: \([^)]*\)|, then .*)?$", re.MULTILINE)


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        pytest.param(scenario, words, id=f"{scenario.stem}: {words}")
        for scenario in sorted((ROOT / "scenarios").glob("*.toml"))
        for words in PROPOSED.findall(scenario.read_text(encoding="utf-8"))
    ],
)
def test_what_a_scenario_proposes_to_try_runs(
    scenario: Path, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert f"scenarios/{scenario.name}" in words
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    monkeypatch.chdir(tmp_path)
    # Cut short: here it matters that the command is one, not what comes out of it.
    short = re.sub(r"--seeds \S+", "--seeds 1", words)
    arguments = [*shlex.split(short), "--set", "duration=12 s"]
    result = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == 0, result.output
