"""Writes what became of a paper: report.md with figures, tables and verdicts, and the verdicts as data.

`lasthop reproduce` calls `write`. But for the lines on versions and time, the report depends on the results
alone.
"""

from __future__ import annotations

import json
import re
import textwrap
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lasthop import _native
from lasthop.files import check_folder, write_text
from lasthop.output import write_table
from lasthop.papers import drawing, page, places, prose, readings, summary, words
from lasthop.papers.evaluation import counted, write_estimate
from lasthop.papers.grammar import Comparison, Number, Series, bracket, format_value, parse
from lasthop.papers.judge import MAIN, Judgement, Verdict, changed_at_99, judge
from lasthop.papers.library import PaperError
from lasthop.papers.readings import LINE_WIDTH
from lasthop.papers.tables import count
from lasthop.scenario import toml_value

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence
    from pathlib import Path

    import polars as pl

    from lasthop.papers.library import Experiment, Paper, Source, Value
    from lasthop.papers.measurement import Dataset
    from lasthop.papers.reproduce import Reproduction
    from lasthop.studies import StudyResult
    from lasthop.studies.charts import Chart

REPORT, VERDICTS, FIGURES = "report.md", "verdicts", "figures"
#: How a bold paragraph on the runs begins, which is none of the notes.
OF_RUNS = re.compile(r"\*\*(?:A quick look\*\*|\d+ runs failed:)")


def write(reproduction: Reproduction, folder: Path, command: str) -> list[Path]:
    """Write the report into a folder and return what was written.

    Parameters
    ----------
    reproduction : Reproduction
        What came out.
    folder : path
        Made if need be.
    command : str
        The command that made it, for the reader who wants to make it again.
    """
    from lasthop.drawing import missing
    from lasthop.studies.plot import draw_chart, save_figure

    check_folder(folder / FIGURES)
    drawn: dict[str, dict[str, Chart]] = {}
    if missing() is None:
        drawn = {one.id: drawing.charts(reproduction, one) for one in reproduction.plan.experiments}
        drawn[page.NOW] = drawing.charts_of_now(reproduction)
    pictures = {of: [f"{FIGURES}/{name}.png" for name in charts] for of, charts in drawn.items()}
    written = []
    for charts in drawn.values():
        for name, chart in charts.items():
            path = folder / FIGURES / f"{name}.png"
            save_figure(draw_chart(chart), path)
            written.append(path)
    for stale in set((folder / FIGURES).glob("*.png")) - set(written):
        # Of an earlier call, with other figures.
        stale.unlink()
    if drawn:
        page.write_charts(folder, drawn)
    else:
        (folder / page.CHARTS).unlink(missing_ok=True)
    # verdicts.json goes last: a folder that has it is whole.
    text = folder / REPORT
    write_text(text, markdown(reproduction, pictures, command))
    write_table(verdicts_frame(reproduction), folder / f"{VERDICTS}.parquet", "parquet")
    left = places.left_to_others(reproduction.paper, reproduction.plan.experiments)
    kept = {name: data.without(left) for name, data in reproduction.datasets.items()}
    write_table(
        summary.series_frame(kept, reproduction.paper.claims),
        folder / summary.SERIES,
        "parquet",
        metadata=words.about(reproduction.paper, reproduction.plan.studies),
    )
    write_text(folder / summary.VERDICTS, summary.verdicts_text(reproduction.judgements))
    write_text(folder / readings.READINGS, readings.text(reproduction.paper, reproduction.readings))
    write_text(folder / f"{VERDICTS}.json", json.dumps(verdicts(reproduction, command), indent=1) + "\n")
    return [text, *written, folder / f"{VERDICTS}.parquet", folder / f"{VERDICTS}.json"]


def _now(reproduction: Reproduction, pictures: Sequence[str]) -> list[str]:
    parts = []
    for one in reproduction.paper.now:
        result = reproduction.now.get(one.study)
        if result is not None:
            parts.append(f"{result.study.title}, in the setting of the paper; nothing here is judged.")
            drawn = [(name, f"{FIGURES}/{one.study}-{name}.png") for name in one.metrics]
            parts += [f"![{name}]({picture})" for name, picture in drawn if picture in pictures]
            parts.append(_means(result, one.metrics))
    return ["## Then and now", *parts] if parts else []


def _means(result: StudyResult, metrics: Sequence[str]) -> str:
    """Return a table of means with half their intervals, a row per point."""
    from lasthop.columns import scaled
    from lasthop.extras import pl
    from lasthop.stats import estimate

    study = result.study
    shown = [metric for metric in study.metrics if metric.name in metrics]
    table = scaled(result.table, study.metrics).filter(pl.col("state") == "done")
    heads = [axis.label for axis in study.axes]
    heads += [f"{metric.label}{f' ({metric.unit})' if metric.unit else ''}" for metric in shown]
    lines = [f"| {' | '.join(heads)} |", "| --- |" + " --- |" * (len(heads) - 1)]
    names = {axis.name: dict(zip(axis.values, axis.labels, strict=True)) for axis in study.axes}
    axes = [axis.name for axis in study.axes]
    for key, rows in table.group_by(axes, maintain_order=True):
        cells = [str(names[axis].get(value, value)) for axis, value in zip(axes, key, strict=True)]
        for metric in shown:
            values = rows[metric.name].drop_nulls().to_list()
            found = estimate(values)
            cells.append("" if found is None else write_estimate(found))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def verdicts(reproduction: Reproduction, command: str) -> dict[str, Any]:
    """Return every verdict with its figures, and how they were come by."""
    return {
        "paper": reproduction.paper.id,
        "title": reproduction.paper.title,
        "command": command,
        "engine_version": _native.__version__,
        "quick": reproduction.plan.quick,
        "figures": [experiment.id for experiment in reproduction.plan.experiments],
        "settings": list(reproduction.results),
        "counts": {verdict.value: number for verdict, number in count(reproduction.judgements).items()},
        "failed_runs": reproduction.failed,
        "notes": prose.filled(reproduction.paper.notes() or "", reproduction.paper, reproduction.datasets),
        "claims": [judgement.to_dict() for judgement in reproduction.judgements],
    }


def verdicts_frame(reproduction: Reproduction) -> pl.DataFrame:
    """Return one row per claim and setting."""
    from lasthop.extras import pl

    schema = ("claim", "figure", "kind", "strength", "verdict", "setting", "outcome", "summary", "text")
    rows = [
        (
            one.claim.id,
            one.claim.figure,
            one.claim.kind,
            one.claim.strength,
            one.verdict.value,
            setting,
            finding.outcome.value,
            finding.summary,
            one.claim.text,
        )
        for one in reproduction.judgements
        for setting, finding in one.findings.items()
    ]
    return pl.DataFrame(rows, schema=dict.fromkeys(schema, pl.String), orient="row")


def markdown(reproduction: Reproduction, pictures: Mapping[str, Sequence[str]], command: str) -> str:
    """Return the text of the report."""
    paper = reproduction.paper
    first, notes = _notes(paper, reproduction.datasets)
    head = [f"# Paper {paper.number}: {paper.title or paper.subject}", _citation(paper)]
    parts = [
        *_headed("\n\n".join([*filter(None, head), *_effort(reproduction, command)]), first),
        *readings.section(paper, reproduction.readings),
        *readings.stated(paper),
        *_summary(reproduction.paper, reproduction.judgements, len(reproduction.plan.also)),
        *_settings(paper, reproduction.results),
        "## Figures and tables",
        *(
            part
            for experiment in reproduction.plan.experiments
            for part in _experiment(reproduction, experiment, pictures.get(experiment.id, ()))
        ),
        *_now(reproduction, pictures.get(page.NOW, ())),
        *notes,
    ]
    return "\n\n".join(_wrapped(part) for part in parts if part) + "\n"


def _wrapped(part: str) -> str:
    """Break a paragraph of one line; tables, headings and pictures stay as they are."""
    if "\n" in part or part.startswith(("|", "#", "![")):
        return part
    return textwrap.fill(part, LINE_WIDTH, break_long_words=False, break_on_hyphens=False)


def _citation(paper: Paper) -> str:
    year = f", {paper.year}" if paper.year else ""
    return f"{', '.join(paper.authors)}{year}." if paper.authors else ""


def _effort(reproduction: Reproduction, command: str) -> list[str]:
    """Say how the report was made; these lines alone differ from one time to the next."""
    effort = reproduction.effort
    seeds = sorted({seed for result in reproduction.results[MAIN].values() for seed in result.study.seeds})
    rows = [
        ("command", f"`{command}`"),
        ("lasthop", _native.__version__),
        ("made", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"),
        ("seeds", _ranges(seeds)),
        ("runs", f"{effort.runs:,}"),
        ("simulated packets", f"{effort.packets:,}"),
        ("packet-hops", f"{effort.packet_hops:,}"),
        ("time of the runs, one after the other", f"{effort.wall_s:,.0f} s"),
        ("time of the last call", f"{reproduction.wall_s:,.0f} s"),
    ]
    lines = ["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows)]
    parts = ["\n".join(lines)]
    if reproduction.plan.quick:
        parts.append("**A quick look**: few seeds, so intervals are wide and much stays inconclusive.")
    if reproduction.failed:
        listed = "\n".join(f"- {failure}" for failure in reproduction.failed)
        parts.append(f"**{len(reproduction.failed)} runs failed:**\n\n{listed}")
    return parts


def _summary(paper: Paper, judgements: Sequence[Judgement], also: int = 0) -> list[str]:
    head = "| claims | " + " | ".join(verdict.value for verdict in Verdict) + " | all |"
    lines = [head, "| --- |" + " ---: |" * (len(Verdict) + 1)]
    kinds = readings.by_kind(paper, judgements)
    for name, of_row in kinds.items():
        cells = " | ".join(str(number) for number in count(of_row).values())
        lines.append(f"| {name} | {cells} | {len(of_row)} |")
    parts = ["## Verdicts", "\n".join(lines)]
    if any(len(one.findings) > 1 for one in judgements):
        parts.append(_at_the_main_setting(kinds["headline"], kinds["supporting"]))
    changed, decided = changed_at_99(judgements), len(judgements) - len(kinds[readings.EMPTY])
    parts.append(
        f"With intervals of 99 % instead of 95, {changed} of {decided} verdicts that runs decide would be "
        f"others ({changed / max(decided, 1):.0%}). The column *effect* has what decides at the main "
        "setting: how far its left side is from its right one or a curve's end from its beginning, with the "
        "interval of 95 %, and in brackets the least size that such runs see four times in five."
    )
    if also:
        parts.append(
            f"{also} more claims rest on these figures and on others as well: they "
            "are judged when all of them are run."
        )
    headlines = [one for one in judgements if one.claim.strength == "headline"]
    if headlines:
        parts += ["### Headline claims", _claims_table(headlines)]
    doubtful = (
        Verdict.NOT_REPRODUCED,
        Verdict.CONDITIONAL,
        Verdict.TIE,
        Verdict.INCONCLUSIVE,
        Verdict.NOT_TESTABLE,
    )
    for verdict in doubtful:
        found = [one for one in judgements if one.verdict is verdict and one.claim.strength != "headline"]
        if found:
            parts += [f"### Supporting claims: {verdict.value}", _claims_table(found)]
    return parts


def _at_the_main_setting(headlines: Sequence[Judgement], others: Sequence[Judgement]) -> str:
    """Say how the claims that runs decide come out when the alternative settings are left aside."""
    told = [counted([one.findings[MAIN] for one in chosen]) for chosen in ([*headlines, *others], headlines)]
    rest = f"; of the headline claims {told[1]}" if headlines else ""
    return (
        f"At the main setting alone, {told[0]}{rest}. Other settings go by their names in the tables of "
        "readings and of alternative settings."
    )


def _settings(paper: Paper, run: Container[str]) -> list[str]:
    alternatives = [one for one in paper.alternatives if one.name in run]
    if not alternatives:
        return []
    lines = ["| setting | what | changes | figures |", "| --- | --- | --- | --- |"]
    for one in alternatives:
        changes = ", ".join(
            [
                *_changes(one.set),
                *(f"{series} is {_told(source)}" for series, source in one.sources.items()),
                *(
                    f"{axis} {ours} is `{format_value(theirs)}`"
                    for axis, values in one.values.items()
                    for ours, theirs in values.items()
                ),
            ]
        )
        where = "all" if one.experiments is None else ", ".join(one.experiments)
        lines.append(f"| {one.name} | {one.title} | {changes} | {where} |")
    return ["## Alternative settings", "\n".join(lines)]


def _changes(overrides: Mapping[str, Any]) -> list[str]:
    """Say what is set; one key of several links, or of several flows, is said once."""
    alike: dict[tuple[str, str], int] = {}
    for key, value in overrides.items():
        text = (re.sub(r"(?<=\.)\d+(?=\.)", "*", key), toml_value(value))
        alike[text] = alike.get(text, 0) + 1
    single = {re.sub(r"(?<=\.)\d+(?=\.)", "*", key): key for key in overrides}
    return [f"`{key if count > 1 else single[key]} = {value}`" for (key, value), count in alike.items()]


def _told(source: Source) -> str:
    """Say where a series comes from."""
    if source.metric is not None:
        return f"the metric `{source.metric}`"
    if source.formula is not None:
        return f"`{source.formula}`"
    return f"{source.function or source.column} of the table {source.table}"


def _experiment(reproduction: Reproduction, experiment: Experiment, pictures: Sequence[str]) -> list[str]:
    return [
        f"### {title_of(reproduction, experiment)}",
        *(f"![{experiment.figure}]({picture})" for picture in pictures),
        *_judged(reproduction.paper, experiment, reproduction.judgements),
    ]


def _judged(paper: Paper, experiment: Experiment, judgements: Sequence[Judgement]) -> list[str]:
    """Return what stands below the pictures of a figure."""
    parts = []
    if not paper.is_ready(experiment) and not paper.is_closed_form(experiment):
        parts.append("There is no study of this figure yet.")
    if experiment.note:
        parts.append(f"Remark: {experiment.note}.")
    concerned = [one for one in judgements if experiment.id in one.claim.experiments]
    cells = _cells(paper, experiment, concerned)
    if cells:
        parts.append(cells)
    others = [one for one in concerned if not (cells and _cell(paper, one))]
    first = [one for one in others if one.claim.experiments[0] == experiment.id]
    elsewhere = [one for one in others if one.claim.experiments[0] != experiment.id]
    if first:
        parts.append(_claims_table(first))
    if elsewhere:
        named = ", ".join(f"{one.claim.id} ({one.verdict.value})" for one in elsewhere)
        parts.append(f"Also: {named}.")
    return parts


def rejudge(paper: Paper, folder: Path) -> list[Judgement]:
    """Judge again from the figures that a report left, and write its verdicts anew; nothing is run.

    Parameters
    ----------
    paper : Paper
        Whose report it is.
    folder : path
        Of a report of all figures.

    Raises
    ------
    PaperError
        There is no such report, or it is of some figures only.
    """
    path = folder / REPORT
    if not path.is_file():
        raise PaperError(f"there is no '{path}': run lasthop reproduce {paper.number} first")
    datasets = summary.read_series(paper, folder / summary.SERIES)
    judgements = judge(paper, paper.claims, datasets)
    judged = readings.judge_readings(paper, judgements, datasets)
    old = _sections(path.read_text(encoding="utf-8"), "## ")
    figures = _sections(old.get("Figures and tables", ""), "### ")
    if len(figures) != len(paper.experiments) + 1:
        raise PaperError(f"'{path}' is not a report of all figures: run lasthop reproduce {paper.number}")
    first, notes = _notes(paper, datasets)
    parts = [*_headed(old[""], first), *readings.section(paper, judged), *readings.stated(paper)]
    parts += [*_summary(paper, judgements), *_settings(paper, datasets), "## Figures and tables"]
    _, *drawn = figures.items()
    for (title, body), experiment in zip(drawn, paper.experiments.values(), strict=True):
        pictures = [line for line in body.splitlines() if line.startswith("![")]
        parts += [f"### {title}", *pictures, *_judged(paper, experiment, judgements)]
    if "Then and now" in old:
        parts.append("## Then and now\n\n" + old["Then and now"])
    parts += notes
    write_text(path, "\n\n".join(_wrapped(part) for part in parts if part) + "\n")
    write_text(folder / summary.VERDICTS, summary.verdicts_text(judgements))
    write_text(folder / readings.READINGS, readings.text(paper, judged))
    return judgements


def _notes(paper: Paper, datasets: Mapping[str, Dataset]) -> tuple[list[str], list[str]]:
    """Return what a reader must know first, and the section of the notes.

    A bold sentence with which the notes begin is what changes how everything else is read: its paragraph
    stands at the top of the report.
    """
    notes = paper.notes()
    if notes is None:
        return [], []
    text = _demoted(prose.filled(notes, paper, datasets))
    opening, _, rest = text.partition("\n\n")
    first = [opening] if _is_bold(opening) else []
    return first, ["## Notes", rest if first else text]


def _is_bold(part: str) -> bool:
    return part.startswith("**")


def _headed(head: str, first: Sequence[str]) -> list[str]:
    """Return what stands above the sections of a report, with what comes first drawn anew below the table."""
    parts = [part for part in head.split("\n\n") if not _is_bold(part) or OF_RUNS.match(part)]
    table = next((at for at, part in enumerate(parts) if part.startswith("|")), 0)
    return [*parts[: table + 1], *first, *parts[table + 1 :]]


def _sections(text: str, mark: str) -> dict[str, str]:
    """Return what stands below each heading of a level, and under "" what stands before the first."""
    found = {"": ""}
    title = ""
    for line in text.splitlines():
        if line.startswith(mark):
            title = line.removeprefix(mark)
            if title in found:
                title += " "
            found[title] = ""
        else:
            found[title] += line + "\n"
    return {title: body.strip("\n") for title, body in found.items()}


def title_of(reproduction: Reproduction, experiment: Experiment) -> str:
    """Return number and title of a figure."""
    titles = (result.study.title for result in reproduction.results_of(experiment).values())
    title = experiment.title or next(titles, "")
    return f"{experiment.figure}: {title}" if title else experiment.figure


def _claims_table(judgements: Iterable[Judgement]) -> str:
    lines = ["| claim | says | verdict | effect | measured |", "| --- | --- | --- | --- | --- |"]
    for one in judgements:
        note = f" *{one.claim.note}*" if one.claim.note else ""
        says = f"{one.claim.text}{note}<br>`{_cell_text(one.claim.predicate)}`"
        lines.append(
            f"| {one.claim.id} | {_cell_text(says)} | **{one.verdict.value}** | {one.effect} | "
            f"{_cell_text(one.reason)} |"
        )
    return "\n".join(lines)


def _cells(paper: Paper, experiment: Experiment, judgements: Sequence[Judgement]) -> str:
    """Return the paper's table with what was measured beside what it prints; empty for a figure."""
    if not experiment.figure.startswith("Table"):
        return ""
    found: dict[Value, dict[Value, Judgement]] = {}
    for one in judgements:
        place = _cell(paper, one)
        if place is not None and (experiment.x is None or experiment.x in place):
            axis, column = place[""], place[experiment.x or "series"]
            found.setdefault(axis, {})[column] = one
    if not found:
        return ""
    columns = list(dict.fromkeys(point for row in found.values() for point in row))
    heads = [f"{experiment.x} {format_value(point)}" if experiment.x else str(point) for point in columns]
    lines = [
        f"| | {' | '.join(heads)} |",
        "| --- |" + " --- |" * len(columns),
    ]
    for row, cells in found.items():
        texts = [_cell_figures(cells[point]) if point in cells else "" for point in columns]
        lines.append(f"| {format_value(row)} | {' | '.join(texts)} |")
    if experiment.x is None:
        means = "; ".join(f"{name}: {_of_series(paper, str(name))}" for name in columns)
    else:
        means = _of_series(paper, experiment.y[0])
    return _wrapped(f"Measured, and what the paper prints; {means}.") + "\n\n" + "\n".join(lines)


def _of_series(paper: Paper, name: str) -> str:
    series = paper.vocabulary.series[name]
    return f"{series.means}, in {series.unit}"


def _cell(paper: Paper, judgement: Judgement) -> dict[str, Value] | None:
    """Return where in a table a claim is a cell: a series at one place, about equal to a number.

    Beside the axes of the bracket: what its first entry says, and the ``series``.
    """
    predicate = parse(judgement.claim.predicate)
    match predicate:
        case Comparison(operator="~=" | "==", left=Series() as series, right=Number()):
            place: dict[str, Value] = {
                axis: item.value if isinstance(item, Number) else item.name
                for axis, item in bracket(series, paper.vocabulary)
            }
            return {**place, "": place[paper.vocabulary.series[series.name].axes[0]], "series": series.name}
        case _:
            return None


def _cell_figures(judgement: Judgement) -> str:
    reference = ", ".join(format_value(value) for value in judgement.claim.reference)
    atoms = judgement.findings[MAIN].atoms
    measured = atoms[0].left if atoms else None
    text = "no data" if measured is None else write_estimate(measured)
    return f"{text} / {reference}, {judgement.verdict.value}"


def _demoted(text: str) -> str:
    """Put headings two levels lower and drop the title."""
    lines = []
    fenced = False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        if line.startswith("# ") and not fenced:
            continue
        lines.append(f"#{line}" if line.startswith("#") and not fenced else line)
    return "\n".join(lines).strip()


def _ranges(numbers: Sequence[int]) -> str:
    if not numbers:
        return "none"
    whole = numbers == list(range(numbers[0], numbers[-1] + 1))
    return f"{numbers[0]}-{numbers[-1]}" if whole and len(numbers) > 1 else ", ".join(map(str, numbers))


def _cell_text(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
