"""`lasthop reproduce` end to end on a toy paper of two tiny studies, on the real engine."""

from __future__ import annotations

import json
import re
import shutil
import signal
import time
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from lasthop import _native
from lasthop.errors import Interrupted
from lasthop.papers import library, overview, places, reproduce, summary
from lasthop.papers.grammar import Series, children, parse
from lasthop.papers.judge import MAIN
from lasthop.papers.library import PaperError, load_paper
from lasthop.studies import store

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from typer.testing import Result

    from lasthop.papers.grammar import Node
    from lasthop.papers.library import Claim
    from lasthop.studies import StudyResult

CLAIMS = """
version = 1

[axes]
proto = ["reno", "vegas"]
n = "number"
limit = "number"
t = "number"

[defaults]
limit = 30

[grids]
N = [1, 2]
LIMITS = [10, 30]

[series.goodput]
unit = "Mbit/s"
axes = ["proto", "n", "limit"]
means = "goodput of all flows"

[series.avg_queue]
unit = "packets"
axes = ["proto", "limit", "n"]
means = "time mean of the queue"

[series.queue]
unit = "packets"
axes = ["proto", "limit", "n", "t"]
means = "queue against time"

[series.delay]
unit = "s"
axes = ["proto", "n"]
means = "never measured"

[[experiment]]
id = "p900.fig1"
figure = "Fig. 1"
x = "n = N"
y = "goodput"
curves = ["vegas", "reno"]

[[experiment]]
id = "p900.tab1"
figure = "Table 1"
x = "limit = LIMITS"
y = "avg_queue"
curves = ["reno", "vegas"]
fixed = { n = 2 }

[[experiment]]
id = "p900.fig2"
figure = "Fig. 2"
x = "t"
y = "queue"
curves = ["limit 10", "limit 30"]
fixed = { proto = "reno", n = 2 }

[[experiment]]
id = "p900.fig3"
figure = "Fig. 3"
x = "n = N"
y = "delay"
curves = ["reno"]
"""

CLAIM = """
[[claim]]
id = "p900.{name}"
experiment = {experiments}
figure = "Section 1"
text = "{text}"
kind = "{kind}"
predicate = "{predicate}"
tolerance = {{ rel = {rel}, abs = 0.0, reason = "of the test" }}
strength = "{strength}"
outlook = "open"
basis = "stated"
reference = [{reference}]
"""

# Name, experiments, formula, kind, relative tolerance, strength, reference.
STATEMENTS: list[tuple[str, list[str], str, str, float, str, str]] = [
    ("capacity", ["fig1"], "all p in {reno,vegas}, n in N: goodput[p,n=n] <= 5", "bound", 0, "headline", ""),
    ("flat", ["fig1"], "goodput[reno,n=1] > goodput[reno,n=2]", "ordering", 0, "headline", ""),
    ("cell", ["tab1"], "avg_queue[reno,limit=10] ~= 4.5", "number", 0.9, "supporting", "4.5"),
    ("far", ["tab1"], "avg_queue[vegas,limit=30] ~= 1000", "number", 0.1, "supporting", "1000"),
    ("swing", ["fig2"], "mean(queue[limit=30]) > mean(queue[limit=10])", "ordering", 0, "supporting", ""),
    ("both", ["fig1", "tab1"], "goodput[reno,n=2] > goodput[reno,n=1]", "ordering", 0, "supporting", ""),
    ("never", ["fig3"], "delay[reno,n=1] < 1", "bound", 0, "supporting", ""),
]

PAPER = """
subject = "a toy"
title = "Toys"
authors = ["A. Author"]
year = 1999

[series]
avg_queue = "mean_queue"
queue = { table = "link_series", column = "queue_packets", axis = "t", along = "time_s" }

[axes]
limit = "buffer"

[values.proto]
reno = "reno_sender"

[experiments.fig2]
study = "tab1"
title = "Queue of Reno"

[alternatives.narrow]
title = "a bottleneck of 1 Mbit/s"
set = { "topology.bottleneck.rate" = "1 Mbit/s" }
experiments = ["fig1"]

[alternatives.idle]
title = "never asked for"
set = { "topology.bottleneck.rate" = "2 Mbit/s" }
experiments = ["fig3"]

[quick]
seeds = "1-2"
axes = { n = [1] }
set = { duration = "1 s" }
"""

SCENARIO = """
name     = "toy"
duration = "4 s"

[topology]
kind       = "dumbbell"
bottleneck = { rate = "5 Mbit/s", delay = "10 ms", queue = { kind = "drop-tail", limit = "30 packets" } }
access     = { rate = "10 Mbit/s", delay = "1 ms" }

[[flows]]
name      = "flow"
transport = "reno"
"""

PROTO = """
[[axes]]
name = "proto"
points = [
  { name = "reno_sender", label = "Reno", set = { "flows.0.transport" = "reno" } },
  { name = "vegas", label = "Vegas", set = { "flows.0.transport" = "vegas" } },
]
"""

FIG1 = f"""
name = "fig1"
title = "Goodput"
scenario = "../base.toml"
seeds = "1-3"
x = "n"
{PROTO}
[[axes]]
name = "n"
label = "flows"
key = "flows.0.count"
values = [1, 2]

[[metrics]]
name = "goodput"
label = "goodput"
unit = "Mbit/s"
from = "totals"
field = "goodput_bit_s"
scale = 1e-6
"""

TAB1 = f"""
name = "tab1"
title = "Mean queue"
scenario = "../base.toml"
seeds = "1-3"
keep = [{{ table = "link_series", links = ["bottleneck"], columns = ["time_s", "queue_packets"] }}]

[set]
"flows.0.count" = 2
{PROTO}
[[axes]]
name = "buffer"
points = [
  {{ name = 10, set = {{ "topology.bottleneck.queue.limit" = "10 packets" }} }},
  {{ name = 30, set = {{ "topology.bottleneck.queue.limit" = "30 packets" }} }},
]

[[metrics]]
name = "mean_queue"
label = "mean queue"
unit = "packets"
from = "links"
where = "bottleneck"
field = "avg_queue_packets"
"""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """Write the folder of a toy paper."""
    folder = tmp_path / "900-toy"
    (folder / "studies").mkdir(parents=True)
    claims = CLAIMS + "".join(
        CLAIM.format(
            name=name,
            experiments=json.dumps([f"p900.{one}" for one in experiments]),
            text=f"What {name} says.",
            predicate=predicate,
            kind=kind,
            rel=rel,
            strength=strength,
            reference=reference,
        )
        for name, experiments, predicate, kind, rel, strength, reference in STATEMENTS
    )
    for name, text in (
        ("claims.toml", claims),
        ("paper.toml", PAPER),
        ("base.toml", SCENARIO),
        ("notes.md", "# Notes\n\n## Settings\n\nAll made up.\n"),
        ("studies/fig1.toml", FIG1),
        ("studies/tab1.toml", TAB1),
    ):
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder the current one, where results go by default."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def read(folder: Path) -> dict[str, Any]:
    """Return verdicts.json."""
    content: dict[str, Any] = json.loads((folder / "verdicts.json").read_text(encoding="utf-8"))
    return content


def verdicts(folder: Path) -> dict[str, str]:
    """Return the verdict of each claim, by its name."""
    return {one["claim"].partition(".")[2]: one["verdict"] for one in read(folder)["claims"]}


def test_a_paper_is_run_drawn_and_judged(command: Callable[..., Result], toy: Path, here: Path) -> None:
    result = command("reproduce", toy, "--no-alternatives")
    assert result.exit_code == 0, result.stderr
    out = here / "out" / "papers" / "900"
    assert verdicts(out) == {
        "capacity": "reproduced",
        "flat": "not reproduced",
        "cell": "reproduced",
        "far": "not reproduced",
        "swing": "reproduced",
        "both": "reproduced",
        "never": "not testable",
    }
    assert sorted(path.name for path in (out / "figures").iterdir()) == ["fig1.png", "fig2.png", "tab1.png"]
    for expected in (
        "paper 900: 18 runs, ",
        "headline claims",
        "p900.flat",
        "p900.far",
        "What far says.",
        "1000: fails",
    ):
        assert expected in result.stdout
    assert "p900.cell" not in result.stdout
    assert "report in out/papers/900/report.md" in result.stderr
    frame = pl.read_parquet(out / "verdicts.parquet")
    assert frame.height == len(STATEMENTS)
    assert frame.filter(pl.col("claim") == "p900.never")["summary"].item() == (
        "delay[reno,n=1] < 1: no data of delay[reno,n=1]"
    )


def test_the_report_says_all_that_is_needed(command: Callable[..., Result], toy: Path, here: Path) -> None:
    assert command("reproduce", toy, "--no-alternatives", "--out", "there", "--seeds", "1-2").exit_code == 0
    text = (here / "there" / "report.md").read_text(encoding="utf-8")
    for expected in (
        "# Paper 900: Toys\n\nA. Author, 1999.",
        "| command | `lasthop reproduce 900 --no-alternatives --seeds 1-2` |",
        "| seeds | 1-2 |",
        # Four points of Figure 1 and four of Table 1, of which two are the same.
        "| runs | 12 |",
        "### Fig. 1: Goodput\n\n![Fig. 1](figures/fig1.png)",
        "### Fig. 2: Queue of Reno\n\n![Fig. 2](figures/fig2.png)",
        "### Fig. 3\n\nThere is no study of this figure yet.",
        "Measured, and what the paper prints; time mean of the queue, in packets.",
        "| | limit 10 | limit 30 |",
        "## Notes\n\n### Settings\n\nAll made up.",
    ):
        assert expected in text
    assert re.search(r"\| reno \| [\d.]+ ± [\d.]+ / 4.5, (reproduced|inconclusive) \|  \|", text)
    packets = re.search(r"\| simulated packets \| ([\d,]+) \|", text)
    assert packets is not None
    assert int(packets[1].replace(",", "")) > 1000
    assert str(here) not in text


def test_what_a_reader_must_know_first_stands_first(
    command: Callable[..., Result], toy: Path, here: Path
) -> None:
    """A bold paragraph with which notes begin stands below the table, once; judging again draws it anew."""
    notes = "# Notes\n\n**Two names, one {}.** It is so.\n\nThe rest.\n"
    (toy / "notes.md").write_text(notes.format("sender"), encoding="utf-8")
    assert command("reproduce", toy, "--no-alternatives", "--out", "there", "--quick").exit_code == 0
    report = here / "there" / "report.md"
    for said in ("sender", "report"):
        (toy / "notes.md").write_text(notes.format(said), encoding="utf-8")
        if said == "report":
            assert command("reproduce", toy, "--rejudge", "--out", "there").exit_code == 0
        made = report.read_text(encoding="utf-8")
        below = made.partition("| time of the last call |")[2]
        first, quick, *_ = below.split("\n\n")[1:]
        assert first == f"**Two names, one {said}.** It is so."
        assert quick.startswith("**A quick look**")
        assert made.count("Two names") == 1
        assert made.endswith("## Notes\n\nThe rest.\n")


def test_nothing_runs_twice_and_the_report_stays(
    command: Callable[..., Result], toy: Path, here: Path
) -> None:
    def report() -> str:
        text = (here / "out" / "papers" / "900" / "report.md").read_text(encoding="utf-8")
        return re.sub(r"\| (made|time of the last call) \|.*", "", text)

    assert command("reproduce", toy).exit_code == 0
    parts = sorted((here / "out").rglob("runs/*.parquet"))
    first = report()
    assert command("reproduce", toy).exit_code == 0
    assert sorted((here / "out").rglob("runs/*.parquet")) == parts
    assert report() == first


def test_one_figure_leaves_claims_on_others_alone(
    command: Callable[..., Result], toy: Path, here: Path
) -> None:
    assert command("reproduce", toy, "--figure", "1", "--out", "there").exit_code == 0
    assert set(verdicts(here / "there")) == {"capacity", "flat"}
    assert "1 more claims rest on these figures and on others" in (here / "there" / "report.md").read_text()
    assert command("reproduce", toy, "--figure", "Fig. 1,tab1", "--out", "there").exit_code == 0
    assert set(verdicts(here / "there")) == {"capacity", "flat", "cell", "far", "both"}


def test_a_quick_look_runs_less(command: Callable[..., Result], toy: Path, here: Path) -> None:
    assert command("reproduce", toy, "--quick", "--out", "there").exit_code == 0
    found = {one["claim"]: one for one in read(here / "there")["claims"]}
    # Only n = 1 is run, for a second, with two seeds; claims that name other points lack data.
    assert len(found["p900.capacity"]["settings"]["main"]["comparisons"]) == 2
    assert found["p900.flat"]["verdict"] == "not testable"
    text = (here / "there" / "report.md").read_text(encoding="utf-8")
    assert "**A quick look**" in text
    assert "| seeds | 1-2 |" in text


def test_alternatives_make_claims_conditional(command: Callable[..., Result], toy: Path, here: Path) -> None:
    claims = toy / "claims.toml"
    claims.write_text(claims.read_text().replace("goodput[p,n=n] <= 5", "goodput[p,n=n] <= 2"))
    assert command("reproduce", toy, "--out", "there").exit_code == 0
    found = {one["claim"]: one for one in read(here / "there")["claims"]}
    assert found["p900.capacity"]["verdict"] == "conditional"
    assert found["p900.capacity"]["reason"].startswith("holds at narrow; fails at main. ")
    assert list(found["p900.cell"]["settings"]) == ["main"]
    text = (here / "there" / "report.md").read_text(encoding="utf-8")
    assert '`topology.bottleneck.rate = "1 Mbit/s"`' in text


def test_a_failed_run_is_named_and_the_rest_goes_on(
    command: Callable[..., Result], toy: Path, here: Path
) -> None:
    study = toy / "studies" / "fig1.toml"
    study.write_text(study.read_text().replace("[[metrics]]", '[set]\n"limits.events" = 100\n\n[[metrics]]'))
    result = command("reproduce", toy, "--out", "there")
    assert result.exit_code == 1
    assert "runs failed; there/report.md names them" in result.stderr
    assert "runs failed:**" in (here / "there" / "report.md").read_text(encoding="utf-8")
    assert verdicts(here / "there")["far"] == "not reproduced"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "9999"], "error: unknown paper '9999': there are 000-local-error-control, "),
        (
            ["reproduce", "0003"],
            "error: unknown paper '0003': did you mean '003'? there are 000-",
        ),
        (
            ["reproduce", "al"],
            "error: unknown paper 'al': did you mean 'all'? there are 000-",
        ),
        (
            ["reproduce", "TOY", "--figure", "9"],
            "error: paper 900 has no figure '9': it has fig1, tab1, fig2, fig3",
        ),
        (
            ["reproduce", "TOY", "--figure", "fig3"],
            "error: there is no study of fig3 of paper 900: there are studies of fig1, tab1, fig2",
        ),
        (["reproduce", "TOY", "--seeds", "5-3"], "error: bad --seeds '5-3'"),
        (["reproduce", "TOY", "--out", "TOY/paper.toml"], "it is a file, not a folder"),
    ],
)
def test_mistakes_are_told(
    command: Callable[..., Result], toy: Path, here: Path, arguments: list[str], message: str
) -> None:
    result = command(*[argument.replace("TOY", str(toy)) for argument in arguments])
    assert result.exit_code == 2
    assert message in result.stderr
    assert not list(here.iterdir())


def test_a_study_that_varies_what_the_claims_do_not_know(
    command: Callable[..., Result], toy: Path, here: Path
) -> None:
    study = toy / "studies" / "fig1.toml"
    text = study.read_text().replace('name = "n"', 'name = "crowd"').replace('x = "n"', 'x = "crowd"')
    study.write_text(text)
    result = command("reproduce", toy, "--figure", "1")
    assert result.exit_code == 2
    assert result.stderr == (
        "error: study fig1 varies 'crowd', which is no axis of paper 900's claims: "
        "say under [axes] of paper.toml which one it is\n"
    )
    assert not list(here.iterdir())


def test_two_studies_of_one_name(command: Callable[..., Result], toy: Path, here: Path) -> None:
    study = toy / "studies" / "fig1.toml"
    study.write_text(study.read_text().replace('name = "fig1"', 'name = "tab1"'))
    result = command("reproduce", toy)
    assert result.exit_code == 2
    assert "two studies of paper 900 are called 'tab1': fig1 and tab1" in result.stderr


def test_without_a_paper_it_lists_them(command: Callable[..., Result], here: Path) -> None:
    result = command("reproduce")
    assert result.exit_code == 0
    for number in ("000", "001", "002", "003", "004"):
        assert number in result.stdout
    assert "39 of 39" in result.stdout
    assert not list(here.iterdir())


def test_claims_are_listed_without_a_run(command: Callable[..., Result], toy: Path, here: Path) -> None:
    result = command("reproduce", toy, "--figure", "tab1", "--show")
    assert result.exit_code == 0
    assert "avg_queue[reno,limit=10] ~= 4.5" in result.stdout
    assert "p900.flat" not in result.stdout
    assert command("reproduce", "001", "--show").exit_code == 0
    assert not list(here.iterdir())


def test_interrupted_it_goes_on_with_the_same_command(
    start: Callable[..., subprocess.Popen[str]], command: Callable[..., Result], toy: Path, here: Path
) -> None:
    base = toy / "base.toml"
    base.write_text(base.read_text().replace('duration = "4 s"', 'duration = "60 s"'))
    process = start("reproduce", toy, "--figure", "1", "--seeds", "1-400", "--out", here / "there")
    runs = here / "there" / "runs" / "runs"
    while not (runs.is_dir() and any(runs.iterdir())):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, message = process.communicate(timeout=60)
    assert process.returncode == 130
    told = r"interrupted: (\d+) of 3200 runs are in .*; the same command makes the others\n"
    assert re.fullmatch(told, message), message
    assert not (here / "there" / "verdicts.json").exists()
    result = command("reproduce", toy, "--figure", "1", "--seeds", "1", "--out", here / "there")
    assert result.exit_code == 0, result.stderr


def test_data_are_gathered_under_the_claims_own_names(toy: Path, tmp_path: Path) -> None:
    paper = load_paper(toy)
    plan = reproduce.plan(paper, reproduce.choose(paper, "all"), seeds=[1, 2])
    made = reproduce.carry_out(plan, tmp_path / "a")
    results: dict[str, StudyResult] = dict(made.results[MAIN])
    data = reproduce.gather(paper, made.plan.experiments, results)
    assert set(data.find("goodput", {"proto": "reno", "n": 1})) == {1, 2}
    assert data.points("avg_queue", {"proto": "vegas", "n": 2}, "limit") == [10.0, 30.0]
    samples = data.find("queue", {"proto": "reno", "n": 2, "limit": 10})
    assert len(samples) == 2


def test_fewer_figures_give_no_series_other_values(
    command: Callable[..., Result], toy: Path, tmp_path: Path
) -> None:
    """What another figure draws from other runs is left out, not taken from what a study measures by the way.

    It was found on Table 1 of paper 003: alone, it gave the needless retransmissions of the whole WSC-TCP
    where the figure of single mechanisms has those with all of them off.
    """
    by_the_way = TAB1[TAB1.index("[[metrics]]") :]
    study = f'{FIG1}\n{by_the_way}\n[set]\nduration = "2 s"\n'
    (toy / "studies" / "fig1.toml").write_text(study, encoding="utf-8")
    found = {}
    for asked in ("all", "fig1"):
        told = ("--figure", asked, "--seeds", "1", "--no-alternatives", "--out", tmp_path / asked)
        assert command("reproduce", toy, *told).exit_code == 0
        (data,) = summary.read_series(load_paper(toy), tmp_path / asked / summary.SERIES).values()
        found[asked] = [data.find("avg_queue", {"proto": "reno", "limit": 30, "n": n}) for n in (1, 2)]
        assert data.find("goodput", {"proto": "reno", "n": 2})
    assert found["fig1"] == [found["all"][0], {}]
    assert found["all"][1]


def used_series(claim: Claim) -> set[str]:
    """Return the series that a claim speaks of."""
    pending: list[Node] = [parse(claim.predicate)]
    found = set()
    while pending:
        node = pending.pop()
        pending += children(node)
        if isinstance(node, Series):
            found.add(node.name)
    return found


def test_table_1_of_paper_003_leaves_single_mechanisms_to_their_figure() -> None:
    paper = load_paper(next(one for one in library.paper_folders() if one.name.startswith("003")))
    left = places.left_to_others(paper, reproduce.choose(paper, "tab1"))
    # NewReno runs are the same in both.
    mechanisms = [dict(where) for where in left["spurious_fr"]]
    assert [(one["impl"], one["mech"]) for one in mechanisms] == [("wsc", "none")]
    assert not places.left_to_others(paper, reproduce.choose(paper, "all"))


def test_no_claim_of_paper_003_rests_on_what_its_figures_leave_to_others() -> None:
    paper = load_paper(next(one for one in library.paper_folders() if one.name.startswith("003")))
    left: dict[tuple[str, ...], set[str]] = {}
    for claim in paper.claims:
        if claim.experiments not in left:
            figures = [paper.experiments[name] for name in claim.experiments]
            left[claim.experiments] = set(places.left_to_others(paper, figures))
        assert not left[claim.experiments] & used_series(claim), claim.id


def _check_page(text: str) -> None:
    """Check the page of two papers: every claim, figure and study once, and nothing from elsewhere."""
    for number in ("900", "901"):
        for name in ("flat", "cell", "never"):
            assert text.count(f'<tr id="p{number}.{name}"') == 1
        assert f'<details id="study-{number}-fig1">' in text
        assert f"lasthop reproduce {number} --figure fig1" in text
        for figure in ("fig1", "fig2", "tab1"):
            assert (
                text.count(f'<script type="application/json" data-figure="figure-p{number}-{figure}">') == 1
            )
    figures = re.findall(
        r'<script type="application/json" data-figure="[^"]+">(.*?)</script>', text, re.DOTALL
    )
    assert len(figures) == 6
    assert {"Vegas", "Reno"} == {
        trace["name"] for trace in json.loads(figures[0])["data"] if trace.get("name")
    }
    assert "<h4>Lessons</h4>" in text
    assert not re.search(r"""(?:src|href)=["']?https?:""", text.partition("<script>/*")[0])


def test_curves_are_those_of_the_paper(command: Callable[..., Result], toy: Path, here: Path) -> None:
    """A figure with curves of its own shows these, whatever else its study varies."""
    manifest = toy / "paper.toml"
    text = manifest.read_text(encoding="utf-8")
    drawn_so = text + '\n[experiments.fig1]\ncurves = "alone"\n'
    for wrong, message in (
        (
            '[curves.alone]\n"Reno" = { protocol = "reno" }\n',
            "curves.alone: 'Reno' has protocol, which is no axis",
        ),
        ('[curves.alone]\n"Reno" = { series = "rate" }\n', "curves.alone: 'Reno': rate is no series"),
        ("", "there is no curves.alone"),
    ):
        manifest.write_text(drawn_so + wrong, encoding="utf-8")
        with pytest.raises(PaperError, match=re.escape(message)):
            load_paper(toy)
    manifest.write_text(drawn_so + '[curves.alone]\n"Reno alone" = { proto = "reno" }\n', encoding="utf-8")
    assert command("reproduce", toy, "--figure", "1", "--no-alternatives").exit_code == 0
    charts = json.loads((here / "out" / "papers" / "900" / "charts.json").read_text(encoding="utf-8"))
    drawn = charts["p900.fig1"]["fig1"]["figure"]["data"]
    assert {trace["name"] for trace in drawn if trace.get("name")} == {"Reno alone"}
    assert next(trace["x"] for trace in drawn if trace.get("name")) == [1.0, 2.0]


@pytest.fixture
def toys(toy: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of two papers, which are all there are."""
    shutil.copytree(toy, toy.parent / "901-other")
    other = toy.parent / "901-other"
    other.joinpath("claims.toml").write_text(
        other.joinpath("claims.toml").read_text(encoding="utf-8").replace("p900.", "p901."), encoding="utf-8"
    )
    question = (
        '[[question]]\ntitle = "Is it flat?"\nclaims = ["p900.flat", "p901.cell"]\nremark = "Hardly."\n'
    )
    (toy.parent / overview.TOGETHER).write_text(question, encoding="utf-8")
    (toy.parent / overview.LESSONS).write_text("## Lessons\n\nMany.\n", encoding="utf-8")
    for module in (library, overview):
        monkeypatch.setattr(module, "DATA", toy.parent)
    return toy.parent


def test_a_folder_of_another_version_stops_all_before_anything_runs(
    command: Callable[..., Result], toys: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.versions.cache_clear()
    with monkeypatch.context() as earlier:
        earlier.setattr(_native, "__version__", "0.0.9")
        other = here / "out" / "papers" / "901"
        made = command("reproduce", toys / "901-other", "--figure", "1", "--seeds", "1", "--out", other)
        assert made.exit_code == 0, made.stderr
    store.versions.cache_clear()
    result = command("reproduce", "all", "--seeds", "1", "--no-alternatives")
    assert result.exit_code == 2
    assert "'out/papers/901/runs' was made by engine 0.0.9" in result.stderr
    assert "nothing was changed" in result.stderr
    assert not (here / "out" / "papers" / "900").exists()
    assert command("reproduce", "all", "--seeds", "1", "--no-alternatives", "--fresh").exit_code == 0


def test_all_papers_stop_at_an_interrupt_and_go_on(
    command: Callable[..., Result], toys: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second paper is interrupted: the first is whole, and the same command makes the rest."""
    carry_out = reproduce.carry_out

    def interrupted(plan: reproduce.Plan, *arguments: Any, **options: Any) -> reproduce.Reproduction:
        if plan.paper.number == "901":
            raise Interrupted("interrupted: 0 of 12 runs are in out; the same command makes the others")
        return carry_out(plan, *arguments, **options)

    arguments = ("reproduce", "all", "--seeds", "1-2", "--no-alternatives")
    with monkeypatch.context() as during:
        during.setattr(reproduce, "carry_out", interrupted)
        result = command(*arguments)
    assert result.exit_code == 130
    assert "the same command makes the others" in result.stderr
    papers = here / "out" / "papers"
    assert (papers / "900" / "verdicts.json").exists()
    assert not (papers / "README.md").exists()
    result = command(*arguments)
    assert result.exit_code == 0, result.stderr
    assert "nothing to do: all 12 runs are there" in result.stderr
    assert (papers / "README.md").exists()


def test_all_papers_stop_at_a_full_disk(
    start: Callable[..., subprocess.Popen[str]], files_up_to: Callable[[int], Callable[[], None]], here: Path
) -> None:
    process = start(
        "reproduce", "all", "--quick", "--seeds", "1", "--out", here / "papers", preexec_fn=files_up_to(4096)
    )
    _, message = process.communicate(timeout=120)
    assert process.returncode == 2, message
    assert "Traceback" not in message
    assert re.search(r"error: cannot write '.*papers/000/runs/.*': file too large", message), message


def test_all_papers_are_set_side_by_side(command: Callable[..., Result], toys: Path, here: Path) -> None:
    """Two papers, one page; what was judged can be judged again from the figures that are kept."""
    toy = toys / "900-toy"
    result = command("reproduce", "all", "--no-alternatives", "--html")
    assert result.exit_code == 0, result.stderr
    _check_page((here / "out" / "papers" / "papers.html").read_text(encoding="utf-8"))
    page = (here / "out" / "papers" / "README.md").read_text(encoding="utf-8")
    for expected in (
        "| [900](900/report.md): ",
        "| [901](901/report.md): ",
        "## Lessons\n\nMany.\n\n## Where papers contradict each other",
        "### Is it flat?",
        "| p900.flat | What flat says. | **not reproduced** |",
        "| p901.cell | What cell says. | **reproduced** |",
        "Hardly.",
    ):
        assert expected in page
    folder = here / "out" / "papers" / "900"
    again = {
        one.claim.id: one.verdict.value
        for one in summary.judged_again(load_paper(toy), folder / summary.SERIES)
    }
    stored = summary.read_verdicts(folder / summary.VERDICTS)
    # The claim on samples over time too: what it makes of them is kept.
    assert stored["p900.swing"] == "reproduced"
    assert again == stored
    result = command("reproduce", "all", "--figure", "1")
    assert result.exit_code == 2
    assert "--figure needs one paper" in result.stderr
