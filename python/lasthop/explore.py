"""What the page of `lasthop view` needs to explore a study or a reproduced paper.

A study gives its table, its axes and metrics, and what each value of an axis sets in the scenario; a paper
gives the series of its claims, its figures, the claims with their verdicts, and the studies that have each
point. The tables go along as the Parquet files that they are: the page reads them itself. Called by `view`;
it runs nothing.
"""

from __future__ import annotations

import base64
import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop.errors import ArgumentError, OutputError
from lasthop.files import read_at_most, reason_of
from lasthop.scenario import toml_value
from lasthop.scenario_text import files_of, toml_of
from lasthop.syntax import LONGEST as LONGEST_TEXT
from lasthop.syntax import toml
from lasthop.visible import typed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lasthop.papers.library import Claim, Experiment, Paper
    from lasthop.studies import Study

#: Larger tables are not put into a page.
LONGEST_TABLE = 32 << 20
#: Results of a paper: written by `lasthop reproduce`.
PLACES = ("out/papers", "docs/papers")


def of_studies(folder: Path, sources: Sources) -> dict[str, Any]:
    """Return the studies of a folder: what ``lasthop study run`` wrote, one or many.

    Raises
    ------
    OutputError
        There is none, or it is damaged.
    """
    from lasthop import studies
    from lasthop.studies.folder import RESULTS, STUDIES, names_in

    tables = []
    for name in names_in(folder):
        found = studies.load(folder, name)
        inside = folder / STUDIES / name
        path = (inside if inside.is_dir() else folder) / RESULTS
        study = found.study
        scenario = study.content["scenario"]
        tables.append(
            _table(path, "tidy")
            | {
                "title": study.title,
                "about": f"{found.done} of {found.wanted} runs, seeds {_seeds(study)}",
                "axes": [_axis(axis) for axis in study.axes],
                "metrics": [
                    {
                        "name": metric.name,
                        "label": metric.label,
                        "unit": metric.unit,
                        "scale": metric.scale,
                        "most": metric.most,
                        "help": metric.help,
                    }
                    for metric in study.metrics
                ],
                "x": study.x,
                "lines": list(study.baseline),
                "studies": [
                    {
                        "source": sources.add(f"{study.name}.toml", scenario, folder),
                        "set": [
                            *_overrides(study.settings),
                            *([key, value] for key, value in study.arguments.items()),
                        ],
                        "axes": [
                            {
                                "name": axis.name,
                                "values": list(axis.values),
                                "settings": [_overrides(one) for one in axis.settings],
                            }
                            for axis in study.axes
                        ],
                    }
                ],
            }
        )
    if not tables:
        raise OutputError(f"no study at '{folder}': it has no study.json")
    titles = tables[0]["title"] if len(tables) == 1 else f"{len(tables)} studies"
    return {"title": titles, "tables": tables}


def folder_of_study(file: Path) -> Path | None:
    """Return the folder with the results of a study file: ``out/NAME``; `None` if it is no study file.

    Raises
    ------
    ArgumentError
        It is one, and it has not been run.
    """
    from lasthop.studies.folder import has_results

    try:
        content = toml((read_at_most(file, LONGEST_TEXT) or b"").decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not content.keys() >= {"scenario", "metrics"}:
        return None
    folder = Path("out", str(content.get("name", file.stem)))
    if not has_results(folder):
        raise ArgumentError(
            f"'{file}' has not been run: there is no '{folder}'; 'lasthop study run {typed(file)}' makes it"
        )
    return folder


def find_results(paper: str) -> Path | None:
    """Return where the results of a paper are below this folder; `None` if they are not there."""
    for place in PLACES:
        folder = Path(place, paper)
        if (folder / "series.parquet").is_file():
            return folder
    return None


def of_paper(paper: Paper, folder: Path, sources: Sources) -> dict[str, Any]:
    """Return a reproduced paper: its figures, its claims with their verdicts, and the series behind them.

    Parameters
    ----------
    paper : Paper
        Which one.
    folder : path
        With the report, ``series.parquet`` and ``verdicts.csv``.
    sources : Sources
        Gets the scenarios of its studies.
    """
    from lasthop.papers import reproduce, words
    from lasthop.papers.summary import SERIES

    vocabulary = paper.vocabulary
    planned = reproduce.plan(paper, reproduce.choose(paper, None), alternatives=True)
    table = _table(folder / SERIES, "series") | {
        "title": paper.subject,
        "about": "",
        "axes": words.of_axes(paper, planned.studies),
        "metrics": words.of_series(paper, planned.studies),
        "x": None,
        "lines": [],
        "studies": [
            entry
            for setting, of_setting in planned.studies.items()
            for entry in _studies(paper, setting, of_setting, sources)
        ],
    }
    return {
        "title": f"Paper {paper.number}: {paper.title or paper.subject}",
        "tables": [table],
        "paper": {
            "number": paper.number,
            "figures": [_figure(one) for one in paper.experiments.values()],
            "claims": _claims(paper, folder),
            "settings": words.of_settings(paper),
            "defaults": _plain(vocabulary.defaults),
            "conditional": {name: _plain(one) for name, one in vocabulary.conditional_defaults.items()},
        },
    }


class Sources:
    """The scenarios that points start from, each once.

    Attributes
    ----------
    listed : list of dict
        As the page opens them: name, text, and the texts of the files that they name.
    """

    def __init__(self) -> None:
        self.listed: list[dict[str, Any]] = []
        self._known: dict[str, int] = {}

    def add(self, name: str, scenario: Mapping[str, Any], folder: Path) -> int:
        """Return the number of a scenario; its files are looked for in the folder."""
        text = toml_of(scenario)
        if text not in self._known:
            self._known[text] = len(self.listed)
            self.listed.append({"name": name, "text": text, "files": files_of(scenario, folder)})
        return self._known[text]


def _studies(
    paper: Paper, setting: str, studies: Mapping[str, Study], sources: Sources
) -> Iterable[dict[str, Any]]:
    """Say for each study of a setting at which points of the claims it has what."""
    from lasthop.papers.reproduce import claim_axes, claim_value, read_as

    alternative = next((one for one in paper.alternatives if one.name == setting), None)
    read_so = paper if alternative is None else read_as(paper, alternative)
    for file, study in studies.items():
        if study.scenario is None:
            continue
        fixed: list[dict[str, Any]] = []
        for experiment in paper.experiments.values():
            if file in experiment.studies:
                held = _plain({**experiment.fixed, **experiment.studies[file]})
                if held not in fixed:
                    fixed.append(held)
        names = claim_axes(read_so, study)
        entry = {
            "setting": setting,
            "source": sources.add(f"{study.name}.toml", study.scenario.to_dict(), study.scenario.folder),
            "set": _overrides(study.settings),
            "axes": [
                {
                    "name": names[axis.name],
                    "values": [_number(claim_value(read_so, names[axis.name], one)) for one in axis.values],
                    "settings": [_overrides(one) for one in axis.settings],
                }
                for axis in study.axes
            ],
        }
        yield from (entry | {"fixed": held} for held in fixed)


def _figure(experiment: Experiment) -> dict[str, Any]:
    return {
        "id": experiment.id,
        "figure": experiment.figure,
        "title": experiment.title,
        "x": experiment.x,
        "y": list(experiment.y),
        "curves": list(experiment.curves),
        "drawn": [_drawn(name, settings) for name, settings in experiment.drawn.items()],
        "fixed": _plain(experiment.fixed),
        "note": experiment.note,
    }


def _drawn(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Say what a curve has on the axes of the claims, and its series if it has one of its own."""
    from lasthop.papers.library import SERIES_OF_CURVE

    at = {axis: value for axis, value in settings.items() if axis != SERIES_OF_CURVE}
    return {"name": name, "series": settings.get(SERIES_OF_CURVE), "at": _plain(at)}


def _claims(paper: Paper, folder: Path) -> list[dict[str, Any]]:
    """Return the claims with what became of them; judged from the kept series."""
    from lasthop.papers.judge import judge
    from lasthop.papers.summary import SERIES, VERDICTS, read_series

    judged: dict[str, dict[str, str]] = {}
    try:
        with (folder / VERDICTS).open(encoding="utf-8", newline="") as file:
            judged = {row["claim"]: row for row in csv.DictReader(file)}
    except OSError as error:
        raise OutputError(f"cannot read the verdicts in '{folder}': {reason_of(error)}") from None
    except (ValueError, KeyError) as error:
        raise OutputError(f"the verdicts in '{folder}' are damaged: {error}") from None
    # The report has it too, but of numbers of a table only in the cells of that.
    measured = {
        one.claim.id: one.reason for one in judge(paper, paper.claims, read_series(paper, folder / SERIES))
    }
    return [_claim(one, judged.get(one.id, {}), measured.get(one.id)) for one in paper.claims]


def _claim(claim: Claim, verdict: Mapping[str, str], measured: str | None) -> dict[str, Any]:
    return {
        "id": claim.id,
        "figures": list(claim.experiments),
        "figure": claim.figure,
        "text": claim.text,
        "predicate": claim.predicate,
        "strength": claim.strength,
        "note": claim.note,
        "verdict": verdict.get("verdict", "not judged yet"),
        "main": verdict.get("at_the_main_setting"),
        "measured": measured,
    }


def _table(path: Path, form: str) -> dict[str, Any]:
    try:
        size = path.stat().st_size
        if size > LONGEST_TABLE:
            raise OutputError(
                f"'{path}' has {size >> 20} MB, and a page takes {LONGEST_TABLE >> 20} along: "
                "'lasthop study show' and 'lasthop study report' show it"
            )
        content = base64.b64encode(path.read_bytes()).decode("ascii")
    except OSError as error:
        raise OutputError(f"cannot read '{path}': {reason_of(error)}") from None
    return {"file": path.name, "form": form, "parquet": content}


def _axis(axis: Any) -> dict[str, Any]:  # noqa: ANN401 - an axis of a study
    return {
        "name": axis.name,
        "label": axis.label,
        "unit": axis.unit,
        "values": list(axis.values),
        "labels": list(axis.labels),
    }


def _overrides(settings: Mapping[str, Any]) -> list[list[str]]:
    return [[key, toml_value(value)] for key, value in settings.items()]


def _number(value: object) -> object:
    """Return a value as the kept series have it: numbers are numbers, whatever they were."""
    return float(value) if isinstance(value, (int, float)) else value


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _number(value) for name, value in settings.items()}


def _seeds(study: Study) -> str:
    seeds = sorted(study.seeds)
    if len(seeds) > 1 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def paper_of(place: str, path: Path) -> tuple[Paper, Path] | None:
    """Return the paper that is asked for and the folder with its results; `None` if it is no paper.

    Raises
    ------
    ArgumentError
        It is one, and there are no results of it.
    """
    from lasthop.papers.library import find_paper, load_paper, paper_folders

    numbers = [folder.name.partition("-")[0] for folder in paper_folders()]
    if path.is_dir():
        number = path.resolve().name
        if number not in numbers and (path / "verdicts.json").is_file():
            number = _number_in(path / "verdicts.json")
        found: Path | None = path
    else:
        number = place.removeprefix("p")
        found = find_results(number)
    if number not in numbers:
        return None
    if found is None or not (found / "series.parquet").is_file():
        raise ArgumentError(
            f"there are no results of paper {number} here: 'lasthop reproduce {number}' makes them"
        )
    return load_paper(find_paper(number)), found


def _number_in(path: Path) -> str:
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["paper"]).removeprefix("p")
    except (OSError, ValueError, KeyError, TypeError):
        return ""
