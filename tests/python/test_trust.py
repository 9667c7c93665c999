"""Files of others execute nothing unasked: each command, on each kind of file, with code that leaves a mark.

The table of docs/reference/trust.md says what each does; these tests hold it to that, and to all commands.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer.main

import lasthop as lh
from lasthop import cli, sources
from lasthop.bundle import bundle
from lasthop.view import given

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typer.testing import Result

    Command = Callable[..., Result]

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "trust.md"
KINDS = ("scenario", "study", "folder of results", "bundle", "folder of a paper", "other data")
EXECUTES, READS, NOT_TAKEN = "executes with `--trust`", "reads", "–"

#: Leaves a mark wherever it is executed, imported or compiled and run.
CODE = """\
import os
from pathlib import Path

if "QUIET" not in os.environ:
    Path(__file__).with_name("MARK").touch()
    Path("MARK").touch()

import lasthop as lh


class Mark(lh.Sender):
    \"\"\"Leaves a mark.\"\"\"

    recovery = "sack"

    def __init__(self, gain=1.5):
        self.gain = gain

    def on_ack(self, ack):
        self.cwnd += 1 / self.cwnd

    def on_loss(self, loss):
        self.ssthresh = self.cwnd = loss.flight / 2
"""
NAME = "mark.py:Mark"
SCENARIO = """\
duration = "1 s"
[topology]
kind = "dumbbell"
bottleneck = { rate = "5 Mbit/s", delay = "20 ms", queue = { kind = "drop-tail", limit = "30 packets" } }
access = { rate = "4 Mbit/s", delay = "5 ms" }
[[flows]]
name = "left"
transport = TRANSPORT
traffic = TRAFFIC
"""
STUDY = """\
name = "grid"
scenario = "plain.toml"
seeds = [1]
metrics = ["goodput_bit_s"]
[[axes]]
name = "sender"
key = "flows.0.transport"
values = ["reno", "mark.py:Mark"]
"""
CLAIMS = """\
version = 1
[axes]
proto = ["reno", "mark"]
n = "number"
[grids]
N = [1]
[series.goodput]
unit = "Mbit/s"
axes = ["proto", "n"]
means = "goodput of all flows"
[[experiment]]
id = "p900.fig1"
figure = "Fig. 1"
x = "n = N"
y = "goodput"
curves = ["reno", "mark"]
[[claim]]
id = "p900.some"
experiment = ["p900.fig1"]
figure = "Section 1"
text = "It is more than nothing."
kind = "ordering"
predicate = "goodput[reno,n=1] > goodput[mark,n=1]"
tolerance = { rel = 0.1, abs = 0.0, reason = "of the test" }
strength = "supporting"
outlook = "open"
basis = "stated"
reference = []
"""
FIGURE = """\
name = "fig1"
scenario = "../plain.toml"
seeds = [1]
[[metrics]]
name = "goodput"
unit = "Mbit/s"
from = "totals"
field = "goodput_bit_s"
scale = 1e-6
[[axes]]
name = "proto"
points = [
  { name = "reno", set = { "flows.0.transport" = "reno" } },
  { name = "mark", set = { "flows.0.transport" = "mark.py:Mark" } },
]
[[axes]]
name = "n"
key = "flows.0.count"
values = [1]
"""


def _scenario(transport: str = f'"{NAME}"', traffic: str = '"ftp"') -> str:
    return SCENARIO.replace("TRANSPORT", transport).replace("TRAFFIC", traffic)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, empty; what is foreign lies in `foreign` below it."""
    folder = tmp_path / "foreign"
    folder.mkdir()
    (folder / "mark.py").write_text(CODE)
    (folder / "plain.toml").write_text(_scenario('"reno"'))
    (folder / "scenario.toml").write_text(_scenario())
    table = f'{{ cc = "{NAME}", recovery = "newreno", gain = 2 }}'
    (folder / "table.toml").write_text(_scenario(table, '"mpeg4"'))
    content = lh.Scenario.load(folder / "plain.toml").to_dict()
    content["flows"][0]["transport"] = NAME
    (folder / "scenario.json").write_text(json.dumps(content))
    (folder / "grid.toml").write_text(STUDY)
    inside = STUDY.replace('scenario = "plain.toml"\n', "").replace('"grid"', '"inside"')
    (folder / "inside.toml").write_text(
        inside.replace(f', "{NAME}"', ', "vegas"')
        + "[scenario]\n"
        + re.sub(r"^\[(\[?)(.*)$", r"[\1scenario.\2", _scenario(), flags=re.MULTILINE)
    )
    (folder / "marked.toml").write_text(
        STUDY.replace("plain.toml", "scenario.toml").replace('"grid"', '"marked"')
    )
    with monkeypatch.context() as quiet:
        quiet.setenv("QUIET", "1")
        _results(folder)
    sources._module.cache_clear()  # noqa: SLF001
    paper = folder / "900-marks"
    (paper / "studies").mkdir(parents=True)
    (paper / "claims.toml").write_text(CLAIMS)
    (paper / "paper.toml").write_text('subject = "marks"\n')
    (paper / "studies" / "fig1.toml").write_text(FIGURE)
    for name in ("mark.py", "plain.toml"):
        shutil.copy(folder / name, paper / name)
    (folder / "packets.toml").write_text(f'title = "{NAME}"\ntransport = "{NAME}"\n')
    for name in ("known.db", "known.csv", "known.json"):
        (folder / name).write_text(NAME)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _results(folder: Path) -> None:
    """Save a run, a comparison, a study and a bundle whose scenarios name the code, without a mark."""
    scenario = lh.Scenario.load(folder / "scenario.toml", trust=True)
    lh.run_seeds(scenario, [1], series=True).save(folder / "run")
    lh.compare(scenario, ["reno", "vegas"], seeds=[1, 2]).save(folder / "comparison")
    study = lh.studies.Study.load(folder / "grid.toml", trust=True)
    lh.studies.run(study, folder / "results")
    bundle([folder / "scenario.toml", folder / "run"], folder / "some.zip")
    for place in ("run", "comparison", "results"):
        shutil.copy(folder / "mark.py", folder / place / "mark.py")


#: How each command is called, and what it is given of each kind that it takes.
CALLS: dict[str, tuple[list[str], ...]] = {
    "run": (["run", "{}"], ["run", "{}", "--set", "seed=2"]),
    "compare": (["compare", "{}", "--transport", "reno,vegas", "--seeds", "1"],),
    "plot": (["plot", "{}", "--out", "drawn.png"],),
    "show": (["show", "{}"],),
    "view": (["view", "{}", "--out", "page.html", "--force"],),
    "traffic": (["traffic", "{}", "--frames", "2000"],),
    "bundle": (["bundle", "{}", "--out", "packed.zip", "--force"],),
    "unbundle": (["unbundle", "{}", "--out", "unpacked"],),
    "study run": (["study", "run", "{}"],),
    "study run --dry-run": (["study", "run", "{}", "--dry-run"],),
    "study merge": (["study", "merge", "{}", "--out", "foreign/results"],),
    "study show": (["study", "show", "{}"],),
    "study plot": (["study", "plot", "{}", "--law", "mathis"], ["study", "plot", "{}"]),
    "study report": (["study", "report", "{}"],),
    "study new": (["study", "new", "{}"],),
    "reproduce": (["reproduce", "{}", "--show"], ["reproduce", "{}", "--seeds", "1", "--no-alternatives"]),
    "emulate": (["emulate", "{}"], ["emulate", "{}", "--", "true"]),
    "emulate --dry-run": (["emulate", "{}", "--dry-run", "--kernel", "reno"],),
    "parity": (["parity", "{}", "--runs", "1"],),
    "steer": (["steer", "{}", "--dry-run"],),
    "script": (["script", "{}"],),
    "trace": (["trace", "{}"], ["trace", "{}", "--to", "csv"]),
    "from-capture": (["from-capture", "{}"],),
    "history show": (["history", "show", "{}"],),
    "history export": (["history", "export", "{}", "out.csv"],),
    "history import": (["history", "import", "new.db", "{}"],),
    "history clear": (["history", "clear", "{}", "--yes"],),
}
PLACES = {
    "scenario": ("scenario.toml", "scenario.json", "table.toml"),
    "study": ("grid.toml", "inside.toml", "marked.toml"),
    "folder of results": ("run", "comparison", "results"),
    "bundle": ("some.zip",),
    "folder of a paper": ("900-marks",),
    "other data": ("packets.toml", "known.db", "known.csv", "known.json"),
}


def _table() -> dict[str, dict[str, str]]:
    """Return what the page says of each command, by kinds of files."""
    text = PAGE.read_text(encoding="utf-8").partition("<!-- commands -->")[2].partition("<!-- end -->")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.strip().splitlines()]
    assert tuple(rows[0][1:]) == KINDS
    return {row[0].strip("`"): dict(zip(KINDS, row[1:], strict=True)) for row in rows[2:]}


def _commands(group: object, before: str = "") -> Iterator[str]:
    for name, one in group.commands.items():  # type: ignore[attr-defined]
        if hasattr(one, "commands"):
            yield from _commands(one, f"{name} ")
        else:
            yield before + name


def _marks(folder: Path) -> list[Path]:
    return list(folder.rglob("MARK"))


def test_what_a_cluster_is_trusted_with_is_said_where_it_is_used() -> None:
    """Dask sends pickles without encryption by itself."""
    page = (PAGE.parents[1] / "how-to" / "run-on-a-cluster.md").read_text(encoding="utf-8")
    for text in (page, PAGE.read_text(encoding="utf-8")):
        assert "tls://" in text


def test_the_page_names_every_command() -> None:
    plain = {name.removesuffix(" --dry-run") for name in _table()}
    assert plain == set(_commands(typer.main.get_command(cli.app)))
    takes_files = {name for name, cells in _table().items() if set(cells.values()) != {NOT_TAKEN}}
    assert takes_files <= CALLS.keys()


@pytest.mark.parametrize("name", CALLS)
def test_no_command_executes_what_a_file_names_unasked(command: Command, here: Path, name: str) -> None:
    """Whatever it is given, of whichever kind, and whether it can do anything with it."""
    # As if this had been run before, so that all there is to look at is looked at.
    shutil.copytree(here / "foreign" / "results", here / "out" / "grid")
    said = _table()[name]
    for kind in KINDS:
        for place in PLACES[kind]:
            for words in CALLS[name]:
                ran = command(*(word.format(f"foreign/{place}") for word in words))
                assert ran.exception is None or isinstance(ran.exception, SystemExit), (words, place)
                assert not _marks(here), (words, place)
                if said[kind] == EXECUTES and "--show" not in words:
                    assert ran.exit_code == 2, (words, place, ran.stderr)
                    for part in (NAME, "mark.py", "Mark", "--trust"):
                        assert part in ran.stderr, (words, place)
                elif said[kind] == NOT_TAKEN and kind in ("scenario", "study") and name != "study new":
                    assert ran.exit_code != 0, (words, place)


@pytest.mark.parametrize("name", [name for name, cells in _table().items() if EXECUTES in cells.values()])
def test_with_trust_they_do(command: Command, here: Path, name: str) -> None:
    """The code of these files does leave a mark, where it is asked for."""
    for kind, cell in _table()[name].items():
        for place in PLACES[kind] if cell == EXECUTES else ():
            words = [word.format(f"foreign/{place}") for word in CALLS[name][-1]]
            at = words.index("--") if "--" in words else len(words)
            # A module that was executed once is not executed again by the same process.
            sources._module.cache_clear()  # noqa: SLF001
            command(*words[:at], "--trust", *words[at:])
            assert _marks(here), (words, place)
            for mark in _marks(here):
                mark.unlink()


def test_what_reads_also_works(command: Command, here: Path) -> None:
    """Without a word: to look at foreign files needs no trust."""
    for words in (
        ["show", "foreign/run"],
        ["show", "foreign/comparison"],
        ["plot", "foreign/run", "--out", "drawn.png"],
        ["traffic", "foreign/table.toml", "--frames", "2000"],
        ["bundle", "foreign/scenario.toml", "foreign/run", "--out", "packed.zip"],
        ["bundle", "foreign/table.toml", "--out", "table.zip"],
        ["bundle", "foreign/grid.toml", "foreign/results", "--out", "study.zip"],
        ["unbundle", "foreign/some.zip"],
        ["study", "show", "foreign/results"],
        ["study", "report", "foreign/results"],
        ["study", "run", "foreign/grid.toml", "--dry-run"],
        ["study", "merge", "foreign/grid.toml", "--out", "foreign/results"],
    ):
        ran = command(*words)
        assert ran.exit_code == 0, (words, ran.stderr)
    assert {"mark.py", "table.toml"} <= {
        line.strip() for line in command("bundle", "foreign/table.toml", "--out", "b.zip").stdout.splitlines()
    }
    for place in ("scenario.toml", "scenario.json", "run", "comparison", "results"):
        assert given(f"foreign/{place}") is not None
    assert given("foreign/scenario.toml", {"duration": "2 s"}) is not None
    assert not _marks(here)


def test_a_dry_run_knows_the_runs_of_trusted_code(command: Command, here: Path) -> None:
    """The code that is only read has the same identity as the one that ran; changed code has another."""
    words = ["study", "run", "foreign/grid.toml", "--out", "foreign/results", "--dry-run"]
    assert "runs    2, of which 2 are in foreign/results" in command(*words).stdout
    (here / "foreign" / "mark.py").write_text(CODE.replace("/ 2", "/ 3"))
    assert "runs    2, of which 1 are in foreign/results" in command(*words).stdout
    assert not _marks(here)


def test_python_refuses_too_and_says_how(here: Path) -> None:
    file = here / "foreign" / "scenario.toml"
    content = json.loads((here / "foreign" / "scenario.json").read_text())
    for use in (
        lambda: lh.run(file),
        lambda: lh.run_seeds(str(file), [1]),
        lambda: lh.compare(file, ["reno", "vegas"]),
        lambda: lh.Scenario.load(file),
        lambda: lh.Scenario.read(file.read_text()),
        lambda: lh.Scenario(content, folder=file.parent),
        lambda: lh.run(content),
        lambda: lh.studies.Study.load(here / "foreign" / "grid.toml"),
        lambda: lh.studies.Study.parse(STUDY_CONTENT, folder=here / "foreign"),
    ):
        with pytest.raises(lh.TrustError, match=r'"mark\.py:Mark": a file names this Python code') as caught:
            use()
        assert "trust=True" in str(caught.value)
    assert not _marks(here)
    assert lh.Scenario.load(file, trust=True).is_trusted
    assert _marks(here)


STUDY_CONTENT = {
    "name": "grid",
    "scenario": "plain.toml",
    "seeds": [1],
    "metrics": ["goodput_bit_s"],
    "set": {"flows.0.transport": NAME},
}


def test_what_is_typed_is_not_what_lies_beside_a_foreign_scenario(command: Command, here: Path) -> None:
    """``mark.py`` is typed: the one in the current folder is meant, and no other of that name."""
    words = ["run", "foreign/plain.toml", "--set", f"flows.0.transport={NAME}"]
    refused = command(*words)
    assert refused.exit_code == 2
    assert "there is no file 'mark.py'" in refused.stderr
    assert not _marks(here)
    (here / "mark.py").write_text(CODE.replace('Path(__file__).with_name("MARK").touch()', "pass"))
    ran = command(*words)
    assert ran.exit_code == 0, ran.stderr
    assert _marks(here) == [here / "MARK"]
    compared = command("compare", "foreign/plain.toml", "--transport", f"reno,{NAME}", "--seeds", "1")
    assert compared.exit_code == 0, compared.stderr
    assert _marks(here) == [here / "MARK"]


LISTED = "0.1\n0.2 7\nkey = of-someone\n"


def _with_arrivals(file: str) -> str:
    start = f'start = {{ arrivals = "listed", file = "{file}" }}'
    return _scenario('"reno"', f'{{ kind = "ftp", bytes = "10 kB" }}\n{start}')


@pytest.mark.parametrize("way", ["above", "absolute", "link"])
def test_files_outside_of_the_folder_are_not_read(command: Command, here: Path, way: str) -> None:
    """A message showed the first line that was no list; files may lie here, or are asked for."""
    secret = here.parent / f"{here.name}-secret.txt"
    secret.write_text(LISTED)
    (here / "foreign" / "link.txt").symlink_to(secret)
    named = {"above": f"../../{secret.name}", "absolute": str(secret), "link": "link.txt"}[way]
    file = here / "foreign" / "reads.toml"
    file.write_text(_with_arrivals(named))
    study = STUDY.replace("plain.toml", "reads.toml").replace(", NAME", "").replace(', "mark.py:Mark"', "")
    (here / "foreign" / "reading.toml").write_text(study)
    for words in (
        ("run", file),
        ("compare", file, "--transport", "reno,vegas"),
        ("study", "run", "foreign/reading.toml"),
    ):
        refused = command(*words)
        assert refused.exit_code == 2, words
        assert "lies outside of the scenario's folder, and is not read" in refused.stderr, words
        assert "--trust" in refused.stderr
        assert "of-someone" not in refused.stderr.replace(secret.name, "")
    secret.write_text("0.1\n0.2\n")
    assert command("run", file, "--trust").exit_code == 0
    typed = f"flows.0.start.file={secret}"
    assert command("run", file, "--set", typed).exit_code == 0
    # A study of others may not name it either, and the current folder is the user's own.
    file.write_text(_with_arrivals("../here.txt"))
    (here / "here.txt").write_text("0.1\n0.2\n")
    assert command("run", file).exit_code == 0
    axis = f'key = "flows.0.start.file"\nvalues = ["{secret}"]'
    (here / "foreign" / "reading.toml").write_text(
        study.replace('key = "flows.0.transport"\nvalues = ["reno"]', axis)
    )
    refused = command("study", "run", "foreign/reading.toml")
    assert (refused.exit_code, "is not read" in refused.stderr) == (2, True)
    assert command("study", "run", "foreign/reading.toml", "--dry-run", "--trust").exit_code == 0


def test_a_study_names_scenarios_only(command: Command, here: Path) -> None:
    """The message showed the line of any file that is no TOML."""
    (here / "secret.txt").write_text("key of-someone\n")
    study = here / "foreign" / "far.toml"
    study.write_text(STUDY.replace("plain.toml", "../secret.txt"))
    refused = command("study", "run", study, "--dry-run")
    assert refused.exit_code == 2
    assert "no scenario by its name" in refused.stderr
    assert "of-someone" not in refused.stderr
