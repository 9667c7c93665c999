"""What is refused beside the command line: damaged folders, papers, laws, live runs; one exact message each.

`test_refusals.py` has what commands refuse, `test_claims.py` what formulas and folders of papers may say.
"""

# ruff: noqa: SLF001 - some refusals stand in functions that only a page or a report calls

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np
import pytest

import lasthop as lh
from lasthop import bundle, drawing, explore, history, laws, live, parity, saved, seals, view
from lasthop.papers import derived, grammar, library, measurement, page
from lasthop.studies import cluster, execute, folder, plan

if TYPE_CHECKING:
    from collections.abc import Callable

FILE = Path(__file__).parents[2] / "scenarios" / "single-flow.toml"
SHORT = lh.Scenario.load(FILE).replace({"duration": "1 s"})
STUDY = """
name = "small"
scenario = "single-flow.toml"
seeds = "1"
metrics = ["goodput_bit_s"]
[set]
duration = "1 s"
[[axes]]
name = "sender"
key = "flows.0.transport"
values = ["reno", "vegas"]
"""
CLAIMS = """
version = 1
[axes]
proto = ["reno", "vegas"]
n = "number"
[defaults]
[grids]
N = [1, 2]
[series]
goodput = { unit = "bit/s", axes = ["proto", "n"], means = "goodput" }
[[experiment]]
id = "p900.fig1"
figure = "Fig. 1"
x = "n = N"
y = "goodput"
curves = ["reno", "vegas"]
[[claim]]
id = "p900.one"
experiment = ["p900.fig1"]
figure = "1"
text = "a"
kind = "ordering"
predicate = "goodput[reno] < goodput[vegas]"
tolerance = { rel = 0, abs = 0, reason = "none" }
strength = "headline"
basis = "text"
"""
MANIFEST = 'subject = "a"\ntitle = "b"\n'
BOTH = "reno", "vegas"
#: Files of runs are called after the time.
RUN_AGAIN = "'lasthop run FILE --out run --force' makes it anew, with the options that it had"
COMPARE_AGAIN = "'lasthop compare FILE --out both --force' makes it anew, with the options that it had"
PART = re.compile(r"runs/[^/]+\.parquet")


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def paper(name: str, old: str, new: str) -> object:
    """Read the shortest paper there is after something in one of its files was replaced."""
    place = Path("900-toy")
    place.mkdir()
    for file, content in (("claims.toml", CLAIMS), ("paper.toml", MANIFEST)):
        assert file != name or old in content
        (place / file).write_text(content.replace(old, new) if file == name else content)
    return library.load_paper(place)


def run_without(*names: str, text: str = "") -> object:
    """Read the series of a saved run, some of whose files are gone, or hold another text."""
    lh.run(SHORT, series=True).save("run")
    for name in names:
        Path("run", name).unlink()
        if text:
            Path("run", name).write_text(text)
    return lh.load_runs("run")[0].table("flow_series")


def comparison_without_series() -> object:
    """Read the series of a comparison that lost them after it was read."""
    lh.compare(SHORT, BOTH, seeds=[1], series=True).save("both")
    comparison = saved.load_comparison("both")
    Path("both", "flow_series.parquet").unlink()
    return comparison.table("flow_series")


def comparison_file(text: str) -> object:
    """Read a comparison whose file holds another text."""
    lh.compare(SHORT, BOTH, seeds=[1]).save("both")
    Path("both", "comparison.json").write_text(text)
    return saved.load_comparison("both")


def study(damage: Callable[[Path], object], *, again: bool = False) -> object:
    """Read the results of a study after something happened to its folder, or go on with it."""
    shutil.copy(FILE, "single-flow.toml")
    Path("study.toml").write_text(STUDY)
    lh.studies.run(lh.studies.Study.load("study.toml"), "out")
    damage(Path("out"))
    if again:
        return lh.studies.run(lh.studies.Study.load("study.toml"), "out", resume=True)
    return folder.load("out")


def part(place: Path) -> Path:
    """Return the first file of runs in the folder of a study."""
    return min((place / "runs").glob("*.parquet"))


def own_table(path: Path, metadata: dict[str, str]) -> None:
    """Write a table of our own where a study keeps its own."""
    import polars as pl

    pl.DataFrame({"x": [1]}).write_parquet(path, metadata=metadata)


def older_table(place: Path) -> None:
    """Leave a study as a lasthop did that wrote no digests, with a table of its time."""
    own_table(place / "results.parquet", {})
    content = json.loads((place / "study.json").read_text())
    for key in (seals.FILES_KEY, seals.DIGEST_KEY):
        del content[key]
    (place / "study.json").write_text(json.dumps({**content, seals.FORMAT_KEY: 1}))


def later_part(place: Path) -> None:
    """Leave a part of a study as a later lasthop would."""
    path = part(place)
    own_table(path, {"lasthop": '{"format": 99}'})
    path.write_bytes(b"".join(seals.parquet_parts(path.read_bytes())))


def held_history() -> object:
    """Read a history that another connection holds."""
    history.add("h.db", [])
    with patch.object(history, "BUSY_TIMEOUT_S", 0.1), closing(sqlite3.connect("h.db")) as other:
        other.execute("begin exclusive")
        return history.read("h.db")


def long_history() -> object:
    """Read three windows where two are the most."""
    with patch.object(history, "IMPORT_MAX", 2):
        return history.parse(
            "endpoint,hour,weekday,month,window_segments\n" + 3 * "a,1,1,1,2\n", "csv", "a.csv"
        )


def large_table() -> object:
    """Take a table along that is larger than a page takes."""
    Path("x.parquet").write_bytes(bytes(3 << 20))
    with patch.object(explore, "LONGEST_TABLE", 2 << 20):
        return explore._table(Path("x.parquet"), "a")


def same_name_twice() -> object:
    """Bundle two runs of one name."""
    for place in ("one", "two"):
        lh.run(SHORT).save(Path(place, "run"))
    return bundle.bundle([Path("one", "run"), Path("two", "run")], "x.zip")


def bundled_damage(folder: str, file: str, text: str) -> object:
    """Bundle results after one of their files was cut short."""
    if folder == "out":
        study(lambda _: None)
    elif folder == "both":
        lh.compare(SHORT, BOTH, seeds=[1]).save(folder)
    else:
        lh.run(SHORT).save(folder)
    Path(folder, file).write_text(text)
    return bundle.bundle([folder], "x.zip")


def studies_of_one_name() -> object:
    """Run two studies that are called the same."""
    shutil.copy(FILE, "single-flow.toml")
    Path("study.toml").write_text(STUDY)
    one = lh.studies.Study.load("study.toml")
    return execute.prepare([one, one], Path("out"), single=False)


def read_back() -> object:
    """Run a study that was read from its folder."""
    found = study(lambda _: None)
    return lh.studies.run(found.study, "again")  # type: ignore[attr-defined]


def elementwise(*quantities: object) -> object:
    """Add quantities of a claim."""
    return measurement._elementwise(np.add, *quantities)  # type: ignore[arg-type]


def curve(*points: float) -> measurement.Curve:
    """Return a curve of ones."""
    return measurement.Curve(np.ones((1, len(points))), points)


CASES: list[tuple[str, Callable[[], object], str]] = [
    (
        "a path for a scenario",
        lambda: lh.Scenario(Path("a.toml")),  # type: ignore[arg-type]
        (
            "a scenario is a table of keys, found PosixPath: Scenario.load(path) opens a "
            "file, Scenario.read(text) reads TOML"
        ),
    ),
    (
        "a scenario with an object",
        lambda: lh.Scenario({"name": object()}),
        (
            "a scenario holds text, numbers, booleans, lists and tables only: Object of "
            "type object is not JSON serializable"
        ),
    ),
    (
        "a scenario in Latin-1",
        lambda: lh.Scenario.read(b"\xe9", name="lab"),
        "scenario error: this is not text in UTF-8\n  at lab\n     a scenario is TOML text",
    ),
    (
        "a law beyond losses of 1",
        lambda: laws.mathis(1500, 0.1, 2.0),
        "a loss rate is from 0 to 1, found 2.0",
    ),
    (
        "a law without a round trip",
        lambda: laws.mathis(1500, 0.0, 0.01),
        "a round trip time is above 0 s, found 0.0",
    ),
    (
        "a live run of nothing",
        lambda: live.emulate(SHORT),
        "nothing to run: give a command, or the congestion control of the kernel (--kernel)",
    ),
    (
        "a live run without a budget",
        lambda: live.emulate(SHORT, kernel="reno", budget_s=0),
        "a budget of 0 s: it has to be more than nothing",
    ),
    ("parity without runs", lambda: parity.parity(SHORT, ["reno"], runs=0), "0 runs: at least one is needed"),
    (
        "a page from a picture",
        lambda: drawing._refuse_page("a.html"),
        "cannot write 'a.html': give it to plot() itself, which also draws pages",
    ),
    (
        "an empty bundle",
        lambda: bundle.bundle([], "x.zip"),
        "nothing to bundle: name a scenario, a study, or a folder of results",
    ),
    (
        "a damaged comparison in a bundle",
        partial(bundled_damage, "both", "comparison.json", '{"runs": []}'),
        f"'both/comparison.json' is damaged (it has no 'scenario'): {COMPARE_AGAIN}",
    ),
    (
        "a damaged table of a comparison in a bundle",
        partial(bundled_damage, "both", "means.parquet", "x"),
        (
            "'both/means.parquet' is damaged (it is not what was written: its SHA-256 differs): "
            f"{COMPARE_AGAIN}"
        ),
    ),
    (
        "a damaged run in a bundle",
        partial(bundled_damage, "run", "result.json", "[]"),
        f"'run/result.json' is damaged (it holds no JSON object): {RUN_AGAIN}",
    ),
    (
        "a damaged study in a bundle",
        partial(bundled_damage, "out", "study.json", "{}"),
        (
            "'out/study.json' is damaged (it has no 'study'): move it away and run the study with --resume, "
            "which writes it again; no run is lost"
        ),
    ),
    (
        "a damaged table of a study in a bundle",
        partial(bundled_damage, "out", "results.parquet", "x"),
        (
            "'out/results.parquet' is damaged (it is not what was written: its SHA-256 differs): move it "
            "away and run the study with --resume, which makes its runs again; nothing else was touched"
        ),
    ),
    (
        "two of one name in a bundle",
        same_name_twice,
        (
            "'two/run/flows.parquet' and 'one/run/flows.parquet' would both be "
            "results/run/flows.parquet in the bundle: rename one of them"
        ),
    ),
    (
        "settings for no scenario",
        lambda: view.given(None, {"seed": "1"}),
        "--set changes a scenario: name one",
    ),
    (
        "settings for a folder",
        lambda: view.given(".", {"seed": "1"}),
        "--set changes a scenario: it needs a scenario file, not a folder of results",
    ),
    (
        "no page",
        lambda: view.check_page(Path()),
        (
            "this installation has no page: in the source tree, 'make page' builds it "
            "(with Node and Rust's target wasm32-unknown-unknown); wheels made by 'make "
            "wheel' carry it"
        ),
    ),
    (
        "a page of nothing",
        lambda: (
            Path("index.html").write_text("the page in '.' is incomplete: build it again with 'make page'"),
            view.single_page(Path(), None),
        ),
        "the page in '.' is incomplete: build it again with 'make page'",
    ),
    (
        "a study not run",
        lambda: (Path("s.toml").write_text(STUDY), view.given("s.toml", {})),
        "'s.toml' has not been run: there is no 'out/small'; 'lasthop study run s.toml' makes it",
    ),
    (
        "a paper not reproduced",
        lambda: view.given("004", {}),
        "there are no results of paper 004 here: 'lasthop reproduce 004' makes them",
    ),
    (
        "a large table on a page",
        large_table,
        (
            "'x.parquet' has 3 MB, and a page takes 2 along: 'lasthop study show' and "
            "'lasthop study report' show it"
        ),
    ),
    (
        "verdicts that are gone",
        lambda: explore._claims(library.load_paper(library.find_paper("004")), Path("x")),
        "cannot read the verdicts in 'x': no such file or directory",
    ),
    (
        "a history that is held",
        held_history,
        "cannot use the path history 'h.db': another process has held it for 0.1 s; try again",
    ),
    ("a history that is too long", long_history, "'a.csv' has more than 2 rows"),
    (
        "a run without its result",
        partial(run_without, "result.json"),
        "no run at 'run': it has no result.json; 'lasthop run FILE --out DIR' makes such a folder",
    ),
    (
        "a run with a list",
        partial(run_without, "result.json", text="[]"),
        f"'run/result.json' is damaged (it holds no JSON object): {RUN_AGAIN}",
    ),
    (
        "a run with no runs",
        partial(run_without, "result.json", text='{"scenario": "a"}'),
        f"'run/result.json' is damaged (it has no 'runs'): {RUN_AGAIN}",
    ),
    (
        "a run with half a file",
        partial(run_without, "result.json", text='{"scenario'),
        (
            "'run/result.json' is damaged (Unterminated string starting at: line 1 column "
            f"2 (char 1)): {RUN_AGAIN}"
        ),
    ),
    (
        "a run with broken series",
        partial(run_without, "flow_series.parquet", text="x"),
        (
            "'run/flow_series.parquet' is damaged (it is not what was written: its SHA-256 differs): "
            f"{RUN_AGAIN}"
        ),
    ),
    (
        "a comparison without its series",
        comparison_without_series,
        f"'both' has lost its flow_series: {COMPARE_AGAIN}",
    ),
    (
        "a comparison of nothing",
        partial(comparison_file, '{"runs": []}'),
        f"'both/comparison.json' is damaged (it has no 'scenario'): {COMPARE_AGAIN}",
    ),
    (
        "a comparison of something else",
        partial(comparison_file, '{"scenario": {}, "engine_version": 1, "transports": 1, "runs": []}'),
        f"'both/comparison.json' is damaged (engine_version should be text): {COMPARE_AGAIN}",
    ),
    (
        "half a comparison",
        partial(comparison_file, '{"transports": ["reno",'),
        (f"'both/comparison.json' is damaged (Expecting value: line 1 column 24 (char 23)): {COMPARE_AGAIN}"),
    ),
    (
        "no study",
        lambda: execute.prepare([], Path("out"), single=True),
        "no study given: at least one is needed",
    ),
    (
        "two studies of one name",
        studies_of_one_name,
        "two studies are called 'small': each needs its own name in one folder",
    ),
    (
        "a study that was read from a folder",
        read_back,
        "the study 'small' was read from a folder: load its file to run it",
    ),
    (
        "a study without a table",
        lambda: study(lambda place: (place / "results.parquet").unlink()),
        (
            "'out' has no results.parquet yet but 2 runs: 'lasthop study run FILE --resume' makes what is "
            "missing and writes it"
        ),
    ),
    (
        "a study with an old table",
        lambda: study(older_table),
        (
            "'out/results.parquet' was written by an older lasthop, in units of the study: "
            "'lasthop study run FILE --resume' writes it anew, in those of the SI, and "
            "runs nothing again"
        ),
    ),
    (
        "a study with half a description",
        lambda: study(lambda place: (place / "study.json").write_text("{")),
        (
            "'out/study.json' is damaged (Expecting property name "
            "enclosed in double quotes: line 1 column 2 (char 1)): move it away and run "
            "the study with --resume, which writes it again; no run is lost"
        ),
    ),
    (
        "a study with broken runs",
        lambda: study(lambda place: part(place).write_text("x"), again=True),
        (
            "'out/runs/PART.parquet' is damaged (EOF: Parquet "
            "file too small. Size is 1 but need 8): move it away and run the study with "
            "--resume, which makes its runs again; nothing else was touched"
        ),
    ),
    (
        "a study with runs of another hand",
        lambda: study(lambda place: own_table(part(place), {}), again=True),
        (
            "'out/runs/PART.parquet' is damaged (it was not "
            "written by lasthop): move it away and run the study with --resume, which "
            "makes its runs again; nothing else was touched"
        ),
    ),
    (
        "a study of a later format",
        lambda: study(later_part, again=True),
        (
            "'out/runs/PART.parquet' has format 99, this "
            "lasthop reads 2: read it with the lasthop that wrote it, or choose another "
            "folder"
        ),
    ),
    (
        "an input that is gone",
        lambda: plan._digest_of("gone.csv"),
        "cannot read 'gone.csv', which the scenario names: No such file or directory",
    ),
    (
        "a formula of aggregates",
        lambda: derived.formula("mean(lost)"),
        "'mean(lost)' may hold numbers, metrics, + - * / and abs() only",
    ),
    (
        "no formula",
        lambda: derived.formula("all n in N: n < 3"),
        "bad formula 'all n in N: n < 3 == 0': not understood from column 19 on",
    ),
    (
        "columns not kept",
        lambda: derived.find("delay_min", ["link"]),
        "delay_min needs the columns arrive_ns, enqueue_ns, kind, outcome, packet: keep them in the study",
    ),
    (
        "a paper without a subject",
        partial(paper, "paper.toml", 'subject = "a"\n', ""),
        "900-toy: 'subject' is missing in claims.toml or paper.toml",
    ),
    (
        "claims of a later version",
        partial(paper, "claims.toml", "version = 1", "version = 2"),
        "900-toy/claims.toml: version must be 1, found 2",
    ),
    (
        "a series of nothing",
        partial(paper, "paper.toml", 'title = "b"', "[series]\ngoodput = {}"),
        "a series is a metric, a formula or something of a kept table",
    ),
    (
        "a series of a whole table",
        partial(paper, "paper.toml", 'title = "b"', '[series]\ngoodput = { table = "hops" }'),
        "of the table hops a series needs a column or a function",
    ),
    (
        "a series that no claim knows",
        partial(paper, "paper.toml", 'title = "b"', '[series]\nspeed = "x"'),
        "900-toy/paper.toml: series.speed is no series of claims.toml",
    ),
    (
        "an experiment that no claim knows",
        partial(paper, "paper.toml", 'title = "b"', "[experiments.fig9]"),
        "900-toy/paper.toml: experiments.fig9 is no experiment of claims.toml",
    ),
    (
        "a claim of another kind",
        partial(paper, "claims.toml", '"ordering"', '"guess"'),
        "900-toy/claims.toml: p900.one has the kind 'guess' and the strength 'headline'",
    ),
    (
        "an alternative to nothing",
        partial(paper, "paper.toml", 'title = "b"', "[alternatives.x]\ntitle = 'x'"),
        ("900-toy/paper.toml: alternatives.x changes nothing: give it set, series, values, studies or joins"),
    ),
    (
        "an alternative that joins one that is not there",
        partial(paper, "paper.toml", 'title = "b"', "[alternatives.x]\njoins = ['y']"),
        "900-toy/paper.toml: alternatives.x joins y: no alternative before it has that name",
    ),
    (
        "names to join that are no list",
        partial(paper, "paper.toml", 'title = "b"', "[alternatives.x]\njoins = 'y'"),
        "900-toy/paper.toml: alternatives.x: joins is a list of names, and part is true or false",
    ),
    (
        "a part of no reading",
        partial(paper, "paper.toml", 'title = "b"', "[alternatives.x]\npart = true\nset = {a = 1}"),
        (
            "900-toy/paper.toml: alternatives.x is part of readings, but no reading chooses it: name it in "
            "the choices of one, or leave out part"
        ),
    ),
    (
        "series that are no table",
        partial(paper, "paper.toml", 'title = "b"', "series = 3"),
        "900-toy/paper.toml: series: it must be a table, found 3",
    ),
    (
        "an alternative that is no table",
        partial(paper, "paper.toml", 'title = "b"', "[alternatives]\nx = 'y'"),
        "900-toy/paper.toml: alternatives.x: it must be a table, found 'y'",
    ),
    (
        "an alternative of no axis",
        partial(paper, "paper.toml", 'title = "b"', "[alternatives.x]\nvalues.speed = {}"),
        "900-toy/paper.toml: alternatives.x: speed is no axis of claims.toml",
    ),
    (
        "an alternative of no series",
        partial(paper, "paper.toml", 'title = "b"', '[alternatives.x]\nseries.speed = "y"'),
        "900-toy/paper.toml: alternatives.x: speed is no series of claims.toml",
    ),
    (
        "an alternative of no experiment",
        partial(paper, "paper.toml", 'title = "b"', "[alternatives.x]\nset.seed = 1\nexperiments = ['fig9']"),
        "900-toy/paper.toml: alternatives.x names fig9, which is no experiment",
    ),
    (
        "a formula that stops",
        lambda: grammar.parse("goodput[reno] <* 1"),
        "bad formula 'goodput[reno] <* 1': not understood from column 16 on",
    ),
    (
        "samples in arithmetic",
        lambda: elementwise(measurement.Samples([np.ones(2)]), np.ones(1)),
        "samples over time can only be aggregated, not calculated with",
    ),
    (
        "curves over other points",
        lambda: elementwise(curve(1.0), curve(1.0, 2.0)),
        "curves over different points cannot be calculated with",
    ),
    (
        "a report that is gone",
        lambda: page._paper(library.load_paper(library.find_paper("004")), Path("x")),
        "cannot read the report in 'x': no such file or directory",
    ),
    (
        "a worker of another version",
        lambda: cluster.run_there("", {}, [], 1, [], "0"),
        "this worker has engine 0.1.0, the study needs 0: install the same version everywhere",
    ),
]


# Files that are written by hand have no digests, as those of an older lasthop.
@pytest.mark.filterwarnings("ignore::lasthop.errors.UncheckedWarning")
@pytest.mark.parametrize(("call", "message"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_messages(call: Callable[[], object], message: str) -> None:
    with pytest.raises((lh.LasthopError, RuntimeError)) as caught:
        call()
    assert PART.sub("runs/PART.parquet", str(caught.value)) == message
