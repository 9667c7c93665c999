"""The verdicts in docs/papers follow from the figures that lie beside them."""

from __future__ import annotations

import csv
import importlib
import io
import itertools
import re
import shutil
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lasthop.papers import library, overview, prose, readings, report, summary, teaching, words
from lasthop.papers.decisions import Outcome
from lasthop.papers.judge import Verdict
from lasthop.papers.library import PaperError, Reading, load_paper, paper_folders
from lasthop.studies.content import read_content

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lasthop.papers.library import Alternative, Paper, Stated

ROOT = Path(__file__).parents[2]
REPORTS = Path(__file__).resolve().parents[2] / "docs" / "papers"
#: The largest folder of a report, in bytes.
LARGEST = 5_000_000
PAPERS = [load_paper(folder) for folder in paper_folders()]
FOLDERS = {paper.number: REPORTS / paper.number for paper in PAPERS}
EVIDENCE = teaching.Evidence(PAPERS, FOLDERS)
EXPLANATION = ROOT / "docs" / "explanation"
LESSONS = overview.lessons(PAPERS, FOLDERS)
STORED = [paper for paper in PAPERS if (REPORTS / paper.number / summary.SERIES).is_file()]


@pytest.mark.parametrize("paper", STORED, ids=lambda paper: paper.number)
def test_stored_figures_give_the_stored_verdicts(paper: Paper) -> None:
    folder = REPORTS / paper.number
    stored = summary.read_verdicts(folder / summary.VERDICTS)
    again = summary.judged_again(paper, folder / summary.SERIES)
    assert stored.keys() == {one.claim.id for one in again}
    for one in again:
        assert one.verdict.value == stored[one.claim.id], one.reason


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.number)
def test_reports_are_small(paper: Paper) -> None:
    files = [path for path in (REPORTS / paper.number).rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < LARGEST


def test_the_page_is_that_of_the_reports() -> None:
    page = REPORTS / overview.PAGE
    assert page.read_text(encoding="utf-8") == overview.markdown(PAPERS, FOLDERS, REPORTS)


@pytest.mark.parametrize("paper", STORED, ids=lambda paper: paper.number)
def test_the_report_is_what_judging_again_writes(paper: Paper, tmp_path: Path) -> None:
    folder = REPORTS / paper.number
    names = (report.REPORT, summary.SERIES, summary.VERDICTS, readings.READINGS)
    for name in names:
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    report.rejudge(paper, tmp_path)
    for name in names:
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes(), name


def test_the_joint_reading_of_004_is_its_best() -> None:
    paper = next(one for one in PAPERS if one.number == "004")
    judged = readings.read(paper, REPORTS / "004" / readings.READINGS)
    best = readings.overall(paper, judged).best
    alone = max(one.holding(paper.claims) for one in judged if len(one.reading.choices) <= 1)
    assert len(best.reading.choices) > 1
    assert best.holding(paper.claims) > alone


@pytest.mark.parametrize(
    ("choices", "refused"),
    [
        (("window_20", "both_queues"), "avg_queue"),
        (("literal", "rate_wired_2_5"), "rtpi"),
        (("literal", "letter"), None),
        (("literal", "rate_wired_2_5", "letter_wired_2_5"), None),
        (("letter", "both_queues"), None),
    ],
)
def test_a_union_that_needs_a_run_is_refused(choices: tuple[str, ...], refused: str | None) -> None:
    paper = next(one for one in PAPERS if one.number == "004")
    datasets = summary.read_series(paper, REPORTS / "004" / summary.SERIES)
    reading = Reading("tried", "", choices, None)
    if refused is None:
        readings.laid_over(paper, reading, datasets)
        return
    with pytest.raises(PaperError, match=f"needs a run of its own.*{refused}"):
        readings.laid_over(paper, reading, datasets)


@pytest.mark.parametrize(
    ("claim", "empty"),
    [
        ("p001.fig7.ecn_gain_snoop", True),
        ("p001.fig7.enewreno_gain_4", True),
        ("p001.cited.snoop_20x", True),
        ("p002.eq6.theta_positive", True),
        ("p001.fig2.gain_40", False),
        ("p001.fig3.all_gain", False),
    ],
)
def test_claims_that_no_effect_would_meet_count_apart(claim: str, *, empty: bool) -> None:
    paper = next(one for one in PAPERS if one.id == claim[:4])
    found = next(one for one in paper.claims if one.id == claim)
    assert (readings.decided_by_no_run(paper, found) is not None) == empty


def test_a_setting_that_is_contradicted_decides_no_verdict() -> None:
    for paper in STORED:
        silent = {one.name for one in paper.alternatives if one.no_vote is not None}
        for one in summary.judged_again(paper, REPORTS / paper.number / summary.SERIES):
            outcomes = {of.outcome for name, of in one.findings.items() if name not in silent}
            assert (one.verdict is Verdict.CONDITIONAL) == ({Outcome.HOLDS, Outcome.FAILS} <= outcomes)


#: What holds where a scenario says nothing (docs/reference/scenario.md).
DEFAULTS = {"topology.cell.error.position": "after-transmission"}
STATED = [(paper, one) for paper in PAPERS for one in paper.stated]


def at(place: Any, key: str) -> Any:
    """Return what stands at a path of keys; nothing if there is nothing."""
    for part in key.split("."):
        if isinstance(place, list):
            place = place[int(part)]
        else:
            place = place.get(part) if isinstance(place, dict) else None
    return place


def overrides_of(study: dict[str, Any], alternative: Alternative | None) -> Iterator[tuple[str, Any]]:
    """Return what a study sets over its scenario: everywhere, at an alternative, and at its points."""
    yield from study.get("set", {}).items()
    if alternative is not None:
        yield from alternative.set.items()
    for axis in study.get("axes", []):
        for point in axis.get("points", []):
            yield from point.get("set", {}).items()
        if "path" in axis:
            yield from ((axis["path"], value) for value in axis["values"])


def departures(paper: Paper, stated: Stated) -> list[str]:
    """Return the studies, at the main setting and at alternatives that vote, that have another value."""
    found = []
    for alternative in (None, *(one for one in paper.alternatives if one.no_vote is None and not one.part)):
        for experiment in paper.ready:
            if alternative is not None and not alternative.concerns(experiment.name):
                continue
            for name in experiment.studies:
                file = name if alternative is None else alternative.studies.get(name, name)
                study = read_content(paper.study_path(file))
                scenario = Path(study["scenario"]).stem
                if file in stated.elsewhere or (stated.scenarios and scenario not in stated.scenarios):
                    continue
                text = (paper.folder / "scenarios" / f"{scenario}.toml").read_text(encoding="utf-8")
                values = [at(tomllib.loads(text), stated.key)]
                for key, value in overrides_of(study, alternative):
                    if stated.key == key:
                        values.append(value)
                    elif stated.key.startswith(f"{key}.") and value != "none":
                        values.append(at(value, stated.key.removeprefix(f"{key}.")))
                had = [value for value in values if value is not None] or [DEFAULTS.get(stated.key)]
                allowed = stated.value if isinstance(stated.value, list) else [stated.value]
                where = f"{file} at {'main' if alternative is None else alternative.name}"
                found += [f"{where}: {value}" for value in had if value not in allowed]
    return found


@pytest.mark.parametrize(("paper", "stated"), STATED, ids=[f"{p.number}-{s.setting}" for p, s in STATED])
def test_what_a_paper_states_is_followed_or_said_to_be_not(paper: Paper, stated: Stated) -> None:
    """In every study, with what it sets, at the main setting and at every alternative that votes."""
    found = departures(paper, stated)
    assert bool(found) == (stated.departs is not None), found
    names = {file for experiment in paper.ready for file in experiment.studies}
    assert set(stated.elsewhere) <= names


def test_a_study_that_replaces_what_a_paper_states_is_found(tmp_path: Path) -> None:
    paper = next(one for one in PAPERS if one.number == "001")
    folder = tmp_path / paper.folder.name
    shutil.copytree(paper.folder, folder)
    study = folder / "studies" / "one-way.toml"
    static = '[set]\n"topology.cells.0.routing" = "static"\n\n[[axes]]'
    study.write_text(study.read_text(encoding="utf-8").replace("[[axes]]", static, 1), encoding="utf-8")
    routing = next(one for one in paper.stated if one.setting == "routing")
    assert departures(load_paper(folder), routing)


def test_every_paper_has_its_table_of_stated_settings() -> None:
    assert {paper.number for paper, _ in STATED} == {paper.number for paper in PAPERS}


#: The receiver's window where a paper is silent: what the same authors state elsewhere, or ns-2's default.
WINDOWS = {
    "000": "64 packets",
    "001": "20 packets",
    "002": "20 packets",
    "003": "20 packets",
    "004": "64 packets",
}


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.number)
def test_a_main_setting_beside_the_rule_has_the_rule_as_an_alternative(paper: Paper) -> None:
    ruled = WINDOWS[paper.number]
    for path in (paper.folder / "scenarios").glob("*.toml"):
        window = tomllib.loads(path.read_text(encoding="utf-8"))["tcp"]["receiver_window"]
        changed = [one.set.get("tcp.receiver_window") for one in paper.alternatives]
        assert window == ruled or ruled in changed, (path, window)


def test_the_lessons_count_what_the_reports_say() -> None:
    def counted(kinds: set[str], numbers: set[str]) -> tuple[int, int]:
        outcomes = [
            row["at_the_main_setting"]
            for paper in PAPERS
            if paper.number in numbers
            for row in csv.DictReader(
                io.StringIO((REPORTS / paper.number / summary.VERDICTS).read_text("utf-8"))
            )
            if next(claim.kind for claim in paper.claims if claim.id == row["claim"]) in kinds
        ]
        return outcomes.count("holds"), outcomes.count("holds") + outcomes.count("fails")

    text = " ".join(LESSONS.split())
    directions = re.search(
        r"(\d+) of the (\d+) orderings and trends of 001, 003 and 004 that are decided", text
    )
    values = re.search(r"(\d+) of (\d+) values of 001 and 004", text)
    assert directions is not None
    assert values is not None
    assert tuple(map(int, directions.groups())) == counted({"ordering", "trend"}, {"001", "003", "004"})
    assert tuple(map(int, values.groups())) == counted({"number"}, {"001", "004"})


def test_no_reading_beside_those_that_are_named_has_queue_lengths_of_tcp() -> None:
    """The lessons name three readings that have some of the sixteen cells; "the rest none" is a count."""
    paper = next(one for one in PAPERS if one.number == "004")
    cells = [claim.id for claim in paper.claims if re.search(r"tab[12]\.(reno|vegas)\.\d", claim.id)]
    assert len(cells) == 16
    found = {}
    for one in readings.read(paper, REPORTS / "004" / readings.READINGS):
        if "both_queues" not in {one.reading.name, *one.reading.choices}:
            found[one.reading.name] = sum(one.outcomes[cell] is Outcome.HOLDS for cell in cells)
    named = {name: number for name, number in found.items() if number}
    assert named.keys() == {"staggered", "rto_1s", "starts_10s"}
    text = " ".join(LESSONS.split())
    for name, number in named.items():
        assert re.search(rf"`{name}` (has )?{number}\b", text), name


def test_the_page_of_findings_is_that_of_the_reports() -> None:
    assert (EXPLANATION / teaching.PAGE).read_text(encoding="utf-8") == teaching.page(EVIDENCE)


def test_figures_of_findings_are_drawn_from_the_series_that_lie_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    figures = importlib.import_module("papers_figures")
    page = (EXPLANATION / teaching.PAGE).read_text(encoding="utf-8")
    drawn = {path.stem: figures.drawn_from(path) for path in (EXPLANATION / "papers").glob("*.png")}
    assert drawn.keys() == figures.FIGURES.keys()
    for name, (numbers, *_) in figures.FIGURES.items():
        assert f"](papers/{name}.png)" in page
        assert drawn[name] == figures.digest(numbers(EVIDENCE)), "tools/papers_page.py"


def test_each_finding_has_reading_figure_command_and_what_would_refute_it() -> None:
    text = (library.DATA / teaching.TEXT).read_text(encoding="utf-8")
    findings = [part for part in text.split("\n## ")[1:] if "![" in part]
    assert len(findings) == 5
    for one in findings:
        said = " ".join(one.split())
        for mark in ("*Reading:*", "*Refuted by:*", "{{"):
            assert mark in said
        (command,) = re.findall(r"\*Command:\* `lasthop reproduce (\d+) --figure ([\w,]+)`", said)
        paper = next(paper for paper in PAPERS if paper.number == command[0])
        for figure in command[1].split(","):
            assert f"p{paper.number}.{figure}" in paper.experiments


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ("{{004 both_queues: claims holds tab1.udp.}} of {{004 main: claims all tab1.udp.}}", "4 of 4"),
        ("{{003 main: seeds}}", "40"),
        ("{{003 main: flows[newreno] | .1f}}", "3.0"),
        ("{{003 main: deviation of flows[newreno] | .1f}}", "0.0"),
        ("{{003 main: least of flows[newreno]}} to {{003 main: most of flows[newreno]}}", "3 to 3"),
        ("{{999 main: seeds}}", prose.NOT_RUN),
    ],
)
def test_figures_of_several_papers_are_drawn(told: str, found: str) -> None:
    assert teaching.filled(told, EVIDENCE) == found


#: Numbers in a text, and what is none: code, names of claims, figures and sections, dates.
NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?!\w)")
NO_NUMBER = re.compile(
    r"`[^`]*`|\b[a-z]+\d+[a-z]*\.\w+|\b(?:[Ff]igures?|Tables?|Sections?|Eqs?\.|papers?) [\d., andto-]+|"
    r"November 20\d\d|\bns-2\b|\b802\.\w+|\bRFC \d+"
)
#: Numbers in "What was found" that neither the series of the paper nor its settings have, and what they are:
#: words, or the claim beside which the report has them.
UNDRAWN = {
    "000": {"0.6": "said by the first report"},
    "001": {},
    "002": {},
    "003": {
        **dict.fromkeys(("605", "46.0", "653", "43.9", "46"), "a cell of the paper's own tables"),
        **dict.fromkeys(("4.3", "7.5"), "said by the report with ten seeds"),
    },
    "004": {
        "0.6": "of eight cells of a table in the report",
        **dict.fromkeys(("1.7", "2.1"), "of sixteen cells of a table in the report"),
        "90": "the round trip, from delays that are set",
        **dict.fromkeys(
            ("0.628", "0.966", "0.893", "0.016", "0.849", "0.855", "1.2"), "said by the first report"
        ),
        **dict.fromkeys(("0.870", "0.857"), "p004.fig19.falls"),
        **dict.fromkeys(("1.0", "1.4"), "p004.fig22.reno_most"),
    },
}


def numbers_in(text: str) -> list[str]:
    return NUMBER.findall(NO_NUMBER.sub("", text))


def settings_of(paper: Paper) -> str:
    """Return what is known before a run: what the paper says, and what was set."""
    files = [paper.folder / "claims.toml", paper.folder / "paper.toml"]
    files += sorted(paper.folder.glob("*/*.toml"))
    notes = (paper.folder / "notes.md").read_text(encoding="utf-8")
    return "\n".join(
        [notes.partition("## What was found")[0], *(one.read_text(encoding="utf-8") for one in files)]
    )


def stands_in(number: str, text: str) -> bool:
    """Whether the text has the number, at its digits: in the same unit, in per cent or with a prefix."""
    last = float(number) / int(number.replace(".", "").strip("0"))
    values = [float(one.replace(",", "")) for one in numbers_in(text)]
    units = (1e-3, 1.0, 1e2, 1e3)
    return any(abs(value * unit - float(number)) <= last * 0.5001 for value in values for unit in units)


@pytest.mark.parametrize("paper", STORED, ids=lambda paper: paper.number)
def test_every_figure_in_notes_is_drawn_or_known(paper: Paper) -> None:
    """What was measured is drawn from the series; the rest is set, or stands in a table of the report."""
    found = (paper.folder / "notes.md").read_text(encoding="utf-8").partition("## What was found")[2]
    found, _, now = prose.FIGURE.sub("", found).partition("### Then and now")
    known = set(re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?", settings_of(paper))) | {str(len(paper.claims))}
    undrawn = UNDRAWN[paper.number]
    loose = [one for one in numbers_in(found) if one not in known and one not in undrawn]
    assert not loose, f"write them as {{{{setting: formula}}}}: {loose}"
    assert set(undrawn) <= set(numbers_in(found)), "this list is longer than it must be"
    report_ = (REPORTS / paper.number / report.REPORT).read_text(encoding="utf-8")
    table = report_.partition("## Then and now")[2].partition("## Notes")[0]
    rows = dict.fromkeys(set(numbers_in(now)) - known, table)
    for number, reason in undrawn.items():
        if reason.startswith("p"):
            rows[number] = next(line for line in report_.splitlines() if line.startswith(f"| {reason} |"))
    assert not [number for number, row in rows.items() if not stands_in(number, row)]


#: Numbers in what is said of several papers together that are not drawn, and what they are.
TYPED = {
    "lessons": {
        **dict.fromkeys(("49", "205", "40", "69.8", "0.5"), "printed by a paper"),
        **dict.fromkeys(("4", "5", "8", "10", "13.8"), "gains that papers print, and error rates"),
        **dict.fromkeys(("62", "91", "17", "47"), "test_the_lessons_count_what_the_reports_say"),
        **dict.fromkeys(("1000", "20"), "windows that were set"),
    },
    "teaching": {
        **dict.fromkeys(("49", "35", "40", "1184", "1193", "40.3", "69.8", "98.8"), "printed by a paper"),
        **dict.fromkeys(("4", "5", "8", "10", "13.8", "7", "25"), "gains that papers print, and error rates"),
        **dict.fromkeys(("0.5", "4.8", "1", "100"), "times and rates that were set"),
        "95": "the level of intervals",
        **dict.fromkeys(("1998", "2000", "2003", "2005", "2006", "2010", "2013"), "years"),
    },
}


@pytest.mark.parametrize("name", TYPED)
def test_every_figure_said_of_several_papers_is_drawn_or_known(name: str) -> None:
    file = {"lessons": overview.LESSONS, "teaching": teaching.TEXT}[name]
    text = teaching.FIGURE.sub("", (library.DATA / file).read_text(encoding="utf-8"))
    numbers = {one for one in numbers_in(text) if one not in {paper.number for paper in PAPERS}}
    assert numbers == set(TYPED[name]), "draw it, or say here what it is"


def test_a_loose_figure_would_be_seen() -> None:
    text = "It carries 3.14 Mbit/s (`window_20`, fig5.xj_best, Figures 3 to 5) on 802.11b, and 1,600 of 20 %."
    assert numbers_in(text) == ["3.14", "1,600", "20"]
    table = "| BBR | 0.893 ± 0.075 | 235 ± 24 |"
    assert stands_in("0.89", table)
    assert stands_in("240", table)
    assert not stands_in("0.27", table)
    assert not stands_in("250", table)


def test_lessons_stand_on_figures_and_tables_that_a_command_makes() -> None:
    evidence = re.findall(r"lasthop reproduce (\d+) --figure ([\w,]+)", " ".join(LESSONS.split()))
    assert {number for number, _ in evidence} == {"001", "002", "003", "004"}
    for number, figures in evidence:
        for figure in figures.split(","):
            paper = next(one for one in PAPERS if one.number == number)
            assert f"p{number}.{figure}" in paper.experiments, (number, figure)
    assert LESSONS in (REPORTS / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("paper", STORED, ids=lambda paper: paper.number)
def test_kept_figures_carry_the_names_of_their_axes_and_series(paper: Paper) -> None:
    """Opened alone, they are read in words: no axis and no series has only its name in the claims."""
    import json

    import polars as pl

    path = REPORTS / paper.number / summary.SERIES
    said = json.loads(pl.read_parquet_metadata(path)[words.KEY])
    table = pl.read_parquet(path)
    series = {name.partition("(")[2].removesuffix(")") or name for name in table["series"].unique()}
    assert series <= {one["name"] for one in said["series"]}
    axes = {one["name"]: one for one in said["axes"]}
    points = [json.loads(point) for point in table["point"].unique()]
    for point in points:
        for axis, value in point.items():
            assert axis in axes
            assert isinstance(value, float) or value in axes[axis]["values"], (axis, value)
    assert set(table["setting"].unique()) - {"main"} <= said["settings"].keys()
    assert said["title"] == (paper.title or paper.subject)


def test_words_of_no_axis_are_refused(tmp_path: Path) -> None:
    folder = next(paper.folder for paper in PAPERS if paper.number == "004")
    for path in folder.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    manifest = tmp_path / "paper.toml"
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(text.replace("[words] ", '[words]\nfoo = { label = "bar" }\n#'), encoding="utf-8")
    with pytest.raises(PaperError, match=r"words\.foo is no axis of claims\.toml"):
        load_paper(tmp_path)


def test_the_verdicts_that_changed_are_those_of_the_reports() -> None:
    """Each row of docs/papers/changes.md has the verdict of today, another one before, and one cause."""
    stored = {
        claim: verdict
        for paper in STORED
        for claim, verdict in summary.read_verdicts(REPORTS / paper.number / summary.VERDICTS).items()
    }
    page = (REPORTS / "changes.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (p\d+\.[^ ]+) \| (.+?) \| (.+?) \| (.+?) \|$", page, re.MULTILINE)
    assert len(rows) == len({claim for claim, *_ in rows}) > 0
    for claim, before, now, _ in rows:
        assert before != now == stored[claim], claim


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.number)
def test_what_is_true_by_identity_counts_apart(paper: Paper) -> None:
    """But for a sum of printed cells, of which one reading counts something else."""
    written = tomllib.loads((paper.folder / "claims.toml").read_text(encoding="utf-8"))["claim"]
    identities = {one["id"] for one in written if one.get("outlook") == "identity"}
    solid = [claim.id for claim in paper.claims if readings.decided_by_no_run(paper, claim) is None]
    counted = [one for one in solid if one in identities]
    assert counted == (["p003.tab1.sum"] if paper.number == "003" else [])


def test_an_alternative_that_joins_others_makes_all_their_choices() -> None:
    paper = next(one for one in PAPERS if one.number == "000")
    of = {one.name: one for one in paper.alternatives}
    joined = of["rate_4000_generated"]
    assert joined.set == of["rate_4000"].set
    assert joined.sources == of["generated"].sources
    assert joined.experiments is None, "it concerns all that one of them concerns"
    assert of["fast_and_far"].set == {**of["hop_50ms"].set, **of["rate_4000"].set}
    assert of["fast_and_far"].experiments == of["rate_4000"].experiments


def test_what_stands_for_another_stays_what_it_is() -> None:
    """Vegas in the place of Vegas with ECN is Vegas there too, measured and set as the alternative has it."""
    paper = next(one for one in PAPERS if one.number == "001")
    datasets = summary.read_series(paper, REPORTS / "001" / summary.SERIES)
    names = [one.name for one in paper.alternatives if "variant" in one.values]
    assert len(names) >= 4
    for name in names:
        for snoop, way in itertools.product(("off", "on"), ("uni", "bi")):
            of = [
                datasets[name].find("throughput", {"variant": sender, "snoop": snoop, "dir": way})
                for sender in ("vegas", "e_vegas")
            ]
            assert of[0] == of[1] != {}, (name, snoop, way)
