"""Runs the studies of a paper's figures, gathers what they measured, and has the claims judged.

`lasthop reproduce` calls `choose`, `plan` and `carry_out`, then `report.write`. All studies share one folder
of runs: whatever a figure needs and another one has run already is not run again.
"""

from __future__ import annotations

import difflib
import itertools
import re
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from lasthop.errors import ArgumentError, Interrupted
from lasthop.papers import derived
from lasthop.papers.derived import formula
from lasthop.papers.functions import RULES
from lasthop.papers.judge import MAIN, Judgement, judge
from lasthop.papers.library import Experiment, Paper, PaperError
from lasthop.papers.measurement import Dataset
from lasthop.papers.readings import Judged, judge_readings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import polars as pl

    from lasthop.papers.library import Alternative, Claim, Source, Value
    from lasthop.runner import Snapshot
    from lasthop.studies import Study, StudyResult

#: Folder of the runs, below the folder of the report.
RUNS = "runs"


@dataclass(frozen=True)
class Plan:
    """What is to be run and judged.

    Attributes
    ----------
    paper : Paper
        Whose figures.
    experiments : tuple of Experiment
        The figures wanted.
    studies : dict
        For the main setting and each alternative, the studies by the name of their file.
    claims : tuple of Claim
        Those that rest on the figures wanted alone.
    also : tuple of Claim
        Those that need other figures as well, and are not judged.
    now : dict
        Studies with senders of today, by the name of their file; no claim rests on them.
    quick : bool
        Whether it is a quick look.
    """

    paper: Paper
    experiments: tuple[Experiment, ...]
    studies: Mapping[str, Mapping[str, Study]]
    claims: tuple[Claim, ...]
    also: tuple[Claim, ...]
    now: Mapping[str, Study]
    quick: bool

    @property
    def all_studies(self) -> list[Study]:
        """Every study of every setting, and those with senders of today."""
        of_settings = [study for studies in self.studies.values() for study in studies.values()]
        return [*of_settings, *self.now.values()]

    @property
    def only(self) -> Mapping[str, Sequence[Value]]:
        """The points to which claims are confined."""
        return self.paper.quick.axes if self.quick else {}


@dataclass(frozen=True, slots=True)
class Effort:
    """The distinct runs behind a report: their number, packets sent, packet-hops, and time in s."""

    runs: int = 0
    packets: int = 0
    packet_hops: int = 0
    wall_s: float = 0.0


#: What has been worked out: the figures of a study's result, by series and source.
Figures = dict[tuple[str, str, "Source"], "pl.DataFrame | None"]


@dataclass(frozen=True)
class Reproduction:
    """What came out: tables of the studies, verdicts, and the effort.

    Attributes
    ----------
    plan : Plan
        What was run.
    results : dict
        As `Plan.studies`, the results instead of the studies.
    now : dict
        As `Plan.now`.
    known : dict
        The figures of the runs at the main setting, by study, series and source.
    datasets : dict
        The series of the claims at each setting.
    judgements : list of Judgement
        One for each claim.
    readings : list of Judged
        The readings of the paper whose alternatives were run, each judged as a whole.
    effort : Effort
        What was simulated, now or by earlier calls.
    wall_s : float
        Wall-clock time of running and judging, in s.
    """

    plan: Plan
    results: Mapping[str, Mapping[str, StudyResult]]
    now: Mapping[str, StudyResult]
    known: Figures
    datasets: Mapping[str, Dataset]
    judgements: list[Judgement]
    readings: list[Judged]
    effort: Effort
    wall_s: float

    @property
    def paper(self) -> Paper:
        """Whose figures."""
        return self.plan.paper

    @property
    def failed(self) -> list[str]:
        """What failed, by study and point, with the error."""
        return [
            f"{name}, {failure}"
            for results in self.results.values()
            for name, result in results.items()
            for failure in result.failed
        ] + [f"{name}, {failure}" for name, result in self.now.items() for failure in result.failed]

    def results_of(self, experiment: Experiment) -> dict[str, StudyResult]:
        """Return the results of the studies of an experiment at the main setting, as far as they were run."""
        main = self.results[MAIN]
        return {name: main[name] for name in experiment.studies if name in main}


def choose(paper: Paper, figures: str | None) -> tuple[Experiment, ...]:
    """Return the experiments asked for, such as ``8``, ``fig8,tab1`` or ``all``.

    Raises
    ------
    ArgumentError
        The paper has no such figure; the text lists those it has.
    """
    if figures is None or figures.strip() == "all":
        return tuple(paper.experiments.values())
    by_name = {one.name: one for one in paper.experiments.values()}
    chosen: dict[str, Experiment] = {}
    for word in figures.split(","):
        within = _range(word, by_name)
        if within:
            chosen |= within
            continue
        name = word.strip().lower().removeprefix(f"{paper.id}.").replace(" ", "").replace(".", "")
        name = name.replace("figure", "fig").replace("table", "tab")
        found = by_name.get(name) or by_name.get(f"fig{name}")
        if found is None:
            near = difflib.get_close_matches(
                f"fig{name}" if name[:1].isdigit() else name, by_name, n=1, cutoff=0.8
            )
            hint = f"did you mean '{near[0]}'? " if near else ""
            raise ArgumentError(
                f"paper {paper.number} has no figure '{word.strip()}': {hint}it has {', '.join(by_name)}"
            )
        chosen[found.name] = found
    return tuple(chosen.values())


def _range(word: str, by_name: Mapping[str, Experiment]) -> dict[str, Experiment]:
    """Return the figures, or tables, of a range such as ``4-9`` or ``tab1-3``; empty if it is none."""
    ends = re.fullmatch(r"\s*(fig|tab)?\s*(\d+)\s*-\s*(?:fig|tab)?\s*(\d+)\s*", word.lower())
    if ends is None:
        return {}
    kind, first, last = ends[1] or "fig", int(ends[2]), int(ends[3])
    numbers = {name: re.fullmatch(rf"{kind}(\d+)\w*", name) for name in by_name}
    return {
        name: by_name[name]
        for name, number in numbers.items()
        if number is not None and first <= int(number[1]) <= last
    }


def plan(
    paper: Paper,
    experiments: Sequence[Experiment],
    *,
    quick: bool = False,
    seeds: Sequence[int] | None = None,
    alternatives: bool = False,
) -> Plan:
    """Read the studies of the figures wanted and find the claims that rest on them.

    Parameters
    ----------
    paper : Paper
        Whose figures.
    experiments : sequence of Experiment
        The figures wanted.
    quick : bool
        Whether to run only what the paper's quick look keeps.
    seeds : sequence of int, optional
        Seeds instead of those of the studies.
    alternatives : bool
        Whether to run the alternative settings of what the paper leaves open as well.

    Raises
    ------
    ArgumentError
        None of the figures has a study.
    LasthopError
        A study file makes no sense.
    """
    ready = [one for one in experiments if paper.is_ready(one)]
    if not ready and not any(paper.is_closed_form(one) for one in experiments):
        have = ", ".join(one.name for one in paper.ready) or "no figure yet"
        raise ArgumentError(
            f"there is no study of {', '.join(one.name for one in experiments[:3])}"
            f"{' and others' if len(experiments) > 3 else ''} of paper {paper.number}: "  # noqa: PLR2004
            f"there are studies of {have}"
        )
    settings = {MAIN: _read_studies(paper, ready, None, quick=quick, seeds=seeds)}
    for alternative in paper.alternatives if alternatives else ():
        concerned = [one for one in ready if alternative.concerns(one.name)]
        settings[alternative.name] = _read_studies(paper, concerned, alternative, quick=quick, seeds=seeds)
    wanted = {one.id for one in experiments}
    touching = [claim for claim in paper.claims if wanted & set(claim.experiments)]
    return Plan(
        paper=paper,
        experiments=tuple(experiments),
        studies=settings,
        claims=tuple(claim for claim in touching if set(claim.experiments) <= wanted),
        also=tuple(claim for claim in touching if not set(claim.experiments) <= wanted),
        now=_read_now(paper, quick=quick, seeds=seeds) if len(experiments) == len(paper.experiments) else {},
        quick=quick,
    )


def check_made_by_this(plan: Plan, folder: Path) -> None:
    """Refuse a folder whose runs another version of the engine made, before anything runs.

    Raises
    ------
    OutputError
        The text says which version, and how to go on.
    """
    from lasthop.studies import folder as studies_folder
    from lasthop.studies.execute import Campaign
    from lasthop.studies.store import Store

    runs = folder / RUNS
    if runs.is_dir():
        studies_folder.check_made_by_this(
            Campaign(runs, plan.all_studies, single=False, cells={}), Store(runs)
        )


def carry_out(
    plan: Plan,
    folder: Path,
    *,
    jobs: int | None = None,
    observer: Callable[[Snapshot], None] | None = None,
    fresh: bool = False,
    note: Callable[[str], None] | None = None,
) -> Reproduction:
    """Run what is missing in the folder, then judge.

    Parameters
    ----------
    plan : Plan
        What to run.
    folder : path
        Folder of the report; the runs are kept in its folder ``runs``.
    jobs : int, optional
        Runs at once; one per core if not given.
    observer : callable, optional
        Told how far the runs are.
    fresh : bool
        Whether to run again what is there already.
    note : callable, optional
        Given sentences worth showing.
    """
    from lasthop import studies

    start = time.monotonic()
    campaign: dict[str, StudyResult] = {}
    if plan.all_studies:
        try:
            campaign = studies.run_many(
                plan.all_studies, folder / RUNS, jobs=jobs, observer=observer, fresh=fresh, note=note
            )
        except Interrupted as error:
            # The same command resumes; it has no option for that.
            text = str(error).partition(";")[0]
            raise Interrupted(f"{text}; the same command makes the others") from None
    results = {
        setting: {file: campaign[study.name] for file, study in of_setting.items()}
        for setting, of_setting in plan.studies.items()
    }
    known: Figures = {}
    datasets = {MAIN: gather(plan.paper, plan.experiments, results[MAIN], known)}
    for alternative in plan.paper.alternatives:
        if alternative.name in results:
            standing, given = stand_ins(plan.paper, alternative)
            read_so = read_as(plan.paper, replace(alternative, values=given))
            other = gather(read_so, plan.experiments, results[alternative.name])
            datasets[alternative.name] = datasets[MAIN].updated(other.relabelled(standing))
    judgements = judge(plan.paper, plan.claims, datasets, plan.only)
    judged = judge_readings(plan.paper, judgements, datasets, plan.only)
    effort = _effort(folder / RUNS, campaign.values())
    now = {file: campaign[study.name] for file, study in plan.now.items()}
    wall_s = time.monotonic() - start
    return Reproduction(plan, results, now, known, datasets, judgements, judged, effort, wall_s)


def gather(
    paper: Paper,
    experiments: Iterable[Experiment],
    results: Mapping[str, StudyResult],
    known: Figures | None = None,
) -> Dataset:
    """Make the tables of studies the series of the claims.

    `known` is filled with the figures that were worked out.

    Raises
    ------
    PaperError
        A study varies what the claims do not know.
    """
    known = {} if known is None else known
    data = Dataset(paper.vocabulary)
    _gather_rules(data, paper)
    studies = {file: None for one in experiments for file in one.studies if file in results}
    for file in studies:
        # Worked out once for each study, whatever figures it serves.
        wanted = {name: source for name, source in paper.sources.items() if source.column is None}
        worked_out = from_tables(results[file], wanted.values())
        for name, source in wanted.items():
            known[results[file].study.name, name, source] = figures(results[file], name, source, worked_out)
    # What a figure draws counts more than what its studies measure by the way.
    for drawn in (False, True):
        for experiment in experiments:
            names = [name for name in paper.sources if (name in experiment.y) is drawn]
            for file, more in experiment.studies.items():
                if file in results:
                    _gather(data, paper, {**experiment.fixed, **more}, results[file], names, known)
    return data


def stand_ins(
    paper: Paper, alternative: Alternative
) -> tuple[dict[str, dict[str, Value]], dict[str, dict[str, Value]]]:
    """Return the values that others of the claims stand for, and those for which a point of the studies does.

    What the claims know as well, such as ``vegas`` in the place of ``e_vegas``, stays what it is.
    """
    standing: dict[str, dict[str, Value]] = {}
    given: dict[str, dict[str, Value]] = {}
    for axis, stands_for in alternative.values.items():
        known = paper.vocabulary.axes.get(axis) or ()
        for ours, theirs in stands_for.items():
            (standing if theirs in known else given).setdefault(axis, {})[ours] = theirs
    return standing, given


def read_as(paper: Paper, alternative: Alternative) -> Paper:
    """Return the paper with the sources and values of another reading."""
    values = {
        axis: {**paper.study_values.get(axis, {}), **alternative.values.get(axis, {})}
        for axis in {**paper.study_values, **alternative.values}
    }
    return replace(paper, sources={**paper.sources, **alternative.sources}, study_values=values)


def claim_axes(paper: Paper, study: Study) -> dict[str, str]:
    """Return the axis of the claims for each axis of a study."""
    of_study = {theirs: ours for ours, theirs in paper.study_axes.items()}
    vocabulary = paper.vocabulary
    known = {*vocabulary.axes, *vocabulary.defaults}
    known |= {name for defaults in vocabulary.conditional_defaults.values() for name in defaults}
    axes = {axis.name: of_study.get(axis.name, axis.name) for axis in study.axes}
    for theirs, ours in axes.items():
        if ours not in known:
            raise PaperError(
                f"study {study.name} varies '{theirs}', which is no axis of paper {paper.number}'s claims: "
                "say under [axes] of paper.toml which one it is"
            )
    return axes


def claim_value(paper: Paper, axis: str, value: Any) -> Value:  # noqa: ANN401 - whatever the table holds
    """Return what the claims call a value on an axis of theirs."""
    values = paper.study_values.get(axis, {})
    names = {theirs: ours for ours, theirs in values.items()}
    if value in names:
        return names[value]
    # Another point of the study stands for this value.
    return f"{value} as studied" if value in values else cast("Value", value)


def _settings(paper: Paper, axes: Mapping[str, str], row: Mapping[str, Any]) -> dict[str, Value]:
    return {ours: claim_value(paper, ours, row[theirs]) for theirs, ours in axes.items()}


def _gather_rules(data: Dataset, paper: Paper) -> None:
    """Add the series that need no run: rules that a paper states, worked out."""
    for name, series in paper.vocabulary.series.items():
        rule = RULES.get((paper.number, name))
        if rule is None:
            continue
        grids = [paper.vocabulary.axes[axis] or () for axis in series.axes]
        for point in itertools.product(*grids):
            data.add(name, dict(zip(series.axes, point, strict=True)), 0, rule(*point))


def _gather(
    data: Dataset,
    paper: Paper,
    fixed: Mapping[str, Value],
    result: StudyResult,
    names: Iterable[str],
    known: Figures,
) -> None:
    axes = claim_axes(paper, result.study)
    for name in names:
        source = paper.sources[name]
        if source.column is not None:
            _gather_samples(data, paper, fixed, result, name)
            continue
        key = (result.study.name, name, source)
        table = known[key]
        if table is None:
            continue
        if paper.vocabulary.series[name].sample_axis is not None:
            _add_samples(data, paper, fixed, (name, name), table, axes)
            continue
        for row in table.drop_nulls(name).iter_rows(named=True):
            data.add(name, {**fixed, **_settings(paper, axes, row)}, row["seed"], row[name])


def figures(
    result: StudyResult, name: str, source: Source, worked_out: Mapping[Source, pl.DataFrame] | None = None
) -> pl.DataFrame | None:
    """Return `figures_of` the source, and of what stands in for it for runs that lack it.

    Nothing if the study has neither.
    """
    from lasthop.extras import pl

    if worked_out is None:
        worked_out = from_tables(result, [source])
    table = figures_of(result, name, source, worked_out)
    if source.otherwise is None or (table is not None and not table[name].null_count()):
        return table
    other = figures(result, name, source.otherwise, worked_out)
    if table is None or other is None:
        return other if table is None else table
    keys = [column for column in table.columns if column != name]
    both = table.join(other, on=keys, how="left", suffix=".other", maintain_order="left")
    return both.with_columns(pl.coalesce(name, f"{name}.other").alias(name)).drop(f"{name}.other")


def figures_of(
    result: StudyResult, name: str, source: Source, worked_out: Mapping[Source, pl.DataFrame]
) -> pl.DataFrame | None:
    """Return one figure per run, as a column of this name beside the axes; nothing if the study lacks it.

    Parameters
    ----------
    result : StudyResult
        Of a study.
    name : str
        How the column is called.
    source : Source
        A metric, a formula, or a function of a kept table.
    worked_out : mapping from Source to polars.DataFrame
        What the functions gave: `from_tables`.
    """
    from lasthop.columns import scaled
    from lasthop.extras import pl

    if source.function is not None:
        found = worked_out.get(source)
        return None if found is None else _finite(found.rename({derived.FIGURE: name}), name)
    keys = _keys(result)
    # Claims speak of figures as they are shown.
    table = scaled(result.table, result.study.metrics).filter(pl.col("state") == "done")
    if source.metric is not None:
        expression = pl.col(source.metric)
        used = {source.metric}
    else:
        expression, used = formula(str(source.formula))
    if not used <= set(table.columns):
        return None
    values = table.select(*keys, expression.cast(pl.Float64).alias(f"\0{name}")).rename({f"\0{name}": name})
    return _finite(values, name)


def from_tables(result: StudyResult, sources: Iterable[Source]) -> dict[Source, pl.DataFrame]:
    """Work out the functions of the tables that a study keeps, with those that stand in for others.

    However many functions there are, each table is read once, and some runs at a time, because it may be too
    large to be held.
    """
    from lasthop.extras import pl

    kept = {one.name for one in result.study.keep}
    by_table: dict[str, dict[Source, list[pl.DataFrame]]] = {}
    for source in itertools.chain.from_iterable(map(_chain, sources)):
        if source.function is not None and source.table in kept:
            by_table.setdefault(str(source.table), {})[source] = []
    keys = _keys(result)
    for table, parts in by_table.items():
        columns = {column for one in parts for column in derived.columns_of(str(one.function))}
        for rows in result.series_in_parts(table, sorted(columns)):
            for source, found in parts.items():
                function = derived.find(str(source.function), rows.columns, source.at)
                found.append(function(rows, keys))
    # Tables come as they lie in files.
    places = result.table.select(*keys).with_row_index("\0place")
    return {
        source: pl.concat(found)
        .join(places, on=keys, how="left", nulls_equal=True)
        .sort("\0place", maintain_order=True)
        .drop("\0place")
        for parts in by_table.values()
        for source, found in parts.items()
        if found
    }


def _chain(source: Source) -> Iterator[Source]:
    """Yield a source and what stands in for it."""
    while True:
        yield source
        if source.otherwise is None:
            return
        source = source.otherwise


def _keys(result: StudyResult) -> list[str]:
    """Return the columns that tell the runs of a study apart."""
    return [*(axis.name for axis in result.study.axes), "seed"]


def _finite(table: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return the table with nothing where a figure is no number, as a share of nothing."""
    from lasthop.extras import pl

    return table.with_columns(pl.when(pl.col(name).is_finite()).then(pl.col(name)).alias(name))


def _gather_samples(
    data: Dataset, paper: Paper, fixed: Mapping[str, Value], result: StudyResult, name: str
) -> None:
    source = paper.sources[name]
    if source.table not in {one.name for one in result.study.keep}:
        return
    column = str(source.column)
    axes = claim_axes(paper, result.study)
    for rows in result.series_in_parts(source.table, [column]):
        _add_samples(data, paper, fixed, (name, column), rows, axes)


def _add_samples(
    data: Dataset,
    paper: Paper,
    fixed: Mapping[str, Value],
    names: tuple[str, str],
    table: pl.DataFrame,
    axes: Mapping[str, str],
) -> None:
    """Add the samples of each run; `names` are that of the series and that of the column."""
    series, column = names
    for _, samples in table.group_by([*axes, "seed"], maintain_order=True):
        row = samples.row(0, named=True)
        settings = {**fixed, **_settings(paper, axes, row)}
        data.add(series, settings, row["seed"], samples[column].drop_nulls().to_numpy())


def _read_studies(
    paper: Paper,
    experiments: Iterable[Experiment],
    alternative: Alternative | None,
    *,
    quick: bool,
    seeds: Sequence[int] | None,
) -> dict[str, Study]:
    from lasthop.arguments import parse_seeds

    chosen = list(seeds) if seeds is not None else parse_seeds(paper.quick.seeds) if quick else None
    studies: dict[str, Study] = {}
    names: dict[str, str] = {}
    for file in dict.fromkeys(file for experiment in experiments for file in experiment.studies):
        study = _read_study(paper, file, alternative, quick=quick)
        if study.name in names:
            raise PaperError(
                f"two studies of paper {paper.number} are called '{study.name}': "
                f"{names[study.name]} and {file}; give each its own name"
            )
        claim_axes(paper, study)
        names[study.name] = file
        studies[file] = study if chosen is None else study.with_seeds(chosen)
    return studies


def _read_now(paper: Paper, *, quick: bool, seeds: Sequence[int] | None) -> dict[str, Study]:
    from lasthop.arguments import parse_seeds

    chosen = list(seeds) if seeds is not None else parse_seeds(paper.quick.seeds) if quick else None
    studies = {one.study: _read_study(paper, one.study, None, quick=quick) for one in paper.now}
    return {name: study if chosen is None else study.with_seeds(chosen) for name, study in studies.items()}


def _read_study(paper: Paper, file: str, alternative: Alternative | None, *, quick: bool) -> Study:
    from lasthop.studies import Study
    from lasthop.studies.content import read_content

    path = paper.study_path(file if alternative is None else alternative.studies.get(file, file))
    content = read_content(path)
    settings = dict(content.get("set", {}))
    if alternative is not None:
        settings |= alternative.set
        content["name"] = f"{content.get('name', file)}.{alternative.name}"
    if quick:
        settings |= paper.quick.set
        content["axes"] = [_thinned(axis, paper) for axis in content.get("axes", [])]
    if settings:
        content["set"] = settings
    return Study.parse(content, file=str(path), folder=path.parent, trust=paper.trust)


def _thinned(axis: dict[str, Any], paper: Paper) -> dict[str, Any]:
    """Return an axis of a study file with only the points of a quick look; all if it has none of those."""
    name = str(axis.get("name"))
    ours = next((one for one, theirs in paper.study_axes.items() if theirs == name), name)
    kept = paper.quick.axes.get(ours)
    if kept is None:
        return axis
    if "points" in axis:
        stands = [point.get("name") for point in axis["points"]]
    else:
        stands = axis.get("names") or axis.get("values", [])
    wanted = [at for at, value in enumerate(stands) if claim_value(paper, ours, value) in kept]
    if not wanted:
        return axis
    lists = [key for key in ("points", "values", "names", "labels") if key in axis]
    return axis | {key: [axis[key][at] for at in wanted] for key in lists}


def _effort(folder: Path, results: Iterable[StudyResult]) -> Effort:
    """Add up the distinct runs; those that several studies share count once."""
    from lasthop.arrow import frame_of
    from lasthop.studies.store import Store

    wanted = {run for result in results for run in result.table["run"]}
    if not wanted:
        return Effort()
    columns = ["packets_sent", "packet_hops", "wall_s"]
    runs = frame_of(Store(folder).runs(["run", "state", *columns]))
    runs = runs.filter(runs["run"].is_in(list(wanted)))
    packets, hops, wall_s = (runs[name].sum() if name in runs.columns else 0 for name in columns)
    return Effort(runs.height, int(packets or 0), int(hops or 0), float(wall_s or 0.0))
