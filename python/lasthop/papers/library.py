"""Finds the papers that lasthop knows and reads a paper's folder: paper.toml, claims.toml, notes.md, studies.

Used by `lasthop reproduce` and `lasthop claims`. The folders lie inside the package, so that every
installation has them; `papers` at the top of the source tree is a link to the same place. Nothing here runs
anything.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from lasthop.errors import ArgumentError, LasthopError
from lasthop.files import read_at_most
from lasthop.syntax import LONGEST as LONGEST_TEXT
from lasthop.syntax import slip, toml

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: A value on an axis: a name or a number.
Value = str | float
Kind = Literal["number", "ordering", "trend", "bound"]
Strength = Literal["headline", "supporting"]

DATA = Path(__file__).parent / "data"
FOLDER_NAME = re.compile(r"(\d{3})-[a-z0-9-]+")
MANIFEST, CLAIMS, NOTES, STUDIES = "paper.toml", "claims.toml", "notes.md", "studies"
#: Keys of an alternative in the manifest.
ALTERNATIVE = "title set series values studies experiments no_vote part"
#: An axis along which one run has many values, such as time; it always runs under an aggregate.
SAMPLE_AXES = frozenset({"t", "i"})
CLAIMS_VERSION = 1


#: What a curve of a figure says beside axes: the series that it shows.
SERIES_OF_CURVE = "series"


class PaperError(LasthopError, ValueError):
    """A paper's folder, claim or formula that makes no sense; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far from the letter a claim may be and still hold: relative, absolute, and why."""

    relative: float
    absolute: float
    reason: str


@dataclass(frozen=True, slots=True)
class Claim:
    """One checkable statement of a paper.

    `outlook` of the file, a forecast, is not read: it must not influence a verdict.
    """

    id: str
    experiments: tuple[str, ...]
    figure: str
    text: str
    kind: Kind
    predicate: str
    tolerance: Tolerance
    strength: Strength
    basis: str
    unit: str | None
    reference: tuple[float, ...]
    note: str | None
    cannot_fail: str | None
    """Why no run could contradict it, where the formula does not show that."""
    about: str | None
    """What it is a statement about ("losses"): a point at which there was none says nothing."""


@dataclass(frozen=True, slots=True)
class Series:
    """What the claims measure, with the axes over which it varies, the main one first."""

    name: str
    unit: str
    axes: tuple[str, ...]
    means: str
    label: str = ""
    """What a figure writes at its axis, where no metric of a study has the name; else the name in words."""

    @property
    def in_words(self) -> str:
        """What it is called in figures."""
        return self.label or self.name.replace("_", " ")

    @property
    def sample_axis(self) -> str | None:
        """The axis along which one run has many values, if there is one."""
        return next((axis for axis in self.axes if axis in SAMPLE_AXES), None)


@dataclass(frozen=True, slots=True)
class Source:
    """Where the studies have a series: one of the forms below.

    Attributes
    ----------
    metric : str or None
        A metric of the studies.
    formula : str or None
        Arithmetic over metrics, as they are shown.
    table : str or None
        The name of a kept table, of which `column` has samples along `axis`, or `function` makes one figure
        of each run.
    column, axis, along : str or None
        Column with the samples, their axis in the claims, and the column that this is in the table.
    function : str or None
        Name in `derived`.
    at : float or None
        Time in s that the function is about.
    otherwise : Source or None
        What stands in where a study lacks this.
    """

    metric: str | None = None
    formula: str | None = None
    table: str | None = None
    column: str | None = None
    axis: str | None = None
    along: str | None = None
    function: str | None = None
    at: float | None = None
    otherwise: Source | None = None

    def __post_init__(self) -> None:
        forms = (self.metric, self.formula, self.table)
        if sum(form is not None for form in forms) != 1:
            raise PaperError("a series is a metric, a formula or something of a kept table")
        if self.table is not None and (self.column is None) == (self.function is None):
            raise PaperError(f"of the table {self.table} a series needs a column or a function")


@dataclass(frozen=True, slots=True)
class Experiment:
    """One figure or table of a paper.

    Attributes
    ----------
    id : str
        With the paper, such as ``p004.fig8``.
    figure : str
        As the paper calls it, such as ``Fig. 8``.
    x : str or None
        The axis along which it is drawn.
    grid : tuple of Value
        The points of that axis; empty where the paper's vocabulary has no grid for it.
    y : tuple of str
        The series drawn.
    curves : tuple of str
        What the curves are, in the paper's order.
    fixed : dict
        The axes and settings that do not vary in it.
    title : str or None
        What is drawn, in words, if paper.toml says it better than the study.
    drawn : dict
        The curves as they are drawn here, by label: what each has on the axes of the claims, and the `series`
        if that differs from curve to curve. Empty if the axes of the studies say it.
    studies : dict
        Names of the files in ``studies`` that measure it, without their ending, each with what is fixed in it
        beside `fixed`.
    """

    id: str
    figure: str
    x: str | None
    grid: tuple[Value, ...]
    y: tuple[str, ...]
    curves: tuple[str, ...]
    fixed: Mapping[str, Value]
    title: str | None
    drawn: Mapping[str, Mapping[str, Value]]
    studies: Mapping[str, Mapping[str, Value]]
    note: str | None

    @property
    def name(self) -> str:
        """The id without the paper."""
        return self.id.partition(".")[2]


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another reading of what the paper leaves open, at which the claims are judged as well.

    Attributes
    ----------
    name, title : str
        In a word, and in words.
    set : dict
        Overrides of the scenarios.
    sources : dict
        Series that are something else of the studies at this reading.
    values : dict
        By axis, values that another point of the studies stands for at this reading.
    studies : dict
        Studies in whose place others are run.
    experiments : tuple of str or None
        Those that it concerns; all if `None`.
    part : bool
        Whether it is measured only for the readings that choose it: no reading alone, decides no verdict.
    """

    name: str
    title: str
    set: Mapping[str, Any]
    sources: Mapping[str, Source]
    values: Mapping[str, Mapping[str, Value]]
    studies: Mapping[str, str]
    experiments: tuple[str, ...] | None
    no_vote: str | None
    """Why it decides no verdict: what the paper, or our report, has against it."""
    part: bool = False

    def concerns(self, experiment: str) -> bool:
        """Whether the experiment of this name is run at the alternative setting."""
        return self.experiments is None or experiment in self.experiments


@dataclass(frozen=True, slots=True)
class Reading:
    """A set of choices under which a paper is judged as a whole.

    Attributes
    ----------
    name, title : str
        In a word, and in words.
    choices : tuple of str
        Alternatives laid over the main setting, a later one over an earlier one.
    no_vote : str or None
        Why it decides nothing, if it does not.
    """

    name: str
    title: str
    choices: tuple[str, ...]
    no_vote: str | None


@dataclass(frozen=True, slots=True)
class Stated:
    """A setting that the paper states.

    Attributes
    ----------
    setting, says, where : str
        What it is, what the paper says, and in which place.
    key : str
        Where the scenarios have it, with numbers for entries of lists.
    value : object
        What they would have to follow the paper.
    scenarios : tuple of str
        Files in ``scenarios`` that it concerns; all if empty.
    departs : str or None
        Why the main setting does not follow it, if it does not.
    elsewhere : dict
        Studies that have another value, each with the reason.
    """

    setting: str
    says: str
    where: str
    key: str
    value: Any
    scenarios: tuple[str, ...]
    departs: str | None
    elsewhere: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Quick:
    """What `--quick` leaves out: seeds, points of an axis, and settings that make a run shorter."""

    seeds: str = "1-2"
    axes: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    set: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Now:
    """A study with senders and queues of today, which is never judged: its file, and metrics to draw."""

    study: str
    metrics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words a paper's formulas may use."""

    axes: Mapping[str, tuple[Value, ...] | None]
    defaults: Mapping[str, Value]
    conditional_defaults: Mapping[str, Mapping[str, Value]]
    grids: Mapping[str, tuple[Value, ...]]
    series: Mapping[str, Series]
    functions: Mapping[str, str]

    def settings(self, chosen: Mapping[str, Value]) -> dict[str, Value]:
        """Return `chosen` completed by the paper's defaults, those that depend on a chosen value included.

        A default table named like an axis value, such as ``wireless = { limit = 30 }``, holds where some axis
        has that value.
        """
        complete = {**self.defaults, **chosen}
        for value in list(complete.values()):
            defaults = self.conditional_defaults.get(str(value), {})
            complete |= {name: default for name, default in defaults.items() if name not in chosen}
        return complete


@dataclass(frozen=True, slots=True)
class Words:
    """What figures call an axis of the claims that no study has, its unit, and its values."""

    label: str
    unit: str
    values: Mapping[str, str]


@dataclass(frozen=True)
class Paper:
    """A paper's folder, read: what it is, what it claims and how its figures are run."""

    folder: Path
    number: str
    subject: str
    title: str | None
    authors: tuple[str, ...]
    year: int | None
    vocabulary: Vocabulary
    experiments: Mapping[str, Experiment]
    claims: tuple[Claim, ...]
    sources: Mapping[str, Source]
    study_axes: Mapping[str, str]
    study_values: Mapping[str, Mapping[str, Value]]
    words: Mapping[str, Words]
    alternatives: tuple[Alternative, ...]
    readings: tuple[Reading, ...]
    stated: tuple[Stated, ...]
    now: tuple[Now, ...]
    quick: Quick
    trust: bool = False
    """Whether senders that its studies name ``FILE.py:CLASS`` are loaded, which executes their files."""

    @property
    def id(self) -> str:
        """The prefix of its claims, such as ``p004``."""
        return f"p{self.number}"

    @cached_property
    def ready(self) -> tuple[Experiment, ...]:
        """The experiments for which there are studies."""
        return tuple(one for one in self.experiments.values() if self.is_ready(one))

    def is_ready(self, experiment: Experiment) -> bool:
        """Whether all studies of an experiment are there."""
        return all(map(self.has_study, experiment.studies))

    def has_study(self, name: str) -> bool:
        """Whether a study is there; closed forms need none."""
        return self.study_path(name).is_file()

    def study_path(self, name: str) -> Path:
        """Where a study is, or would be."""
        return self.folder / STUDIES / f"{name}.toml"

    def is_closed_form(self, experiment: Experiment) -> bool:
        """Whether an experiment needs no simulation."""
        return not any(name in self.vocabulary.series for name in experiment.y)

    def is_rule(self, series: str) -> bool:
        """Whether a series is a rule that the paper states, worked out without a run."""
        from lasthop.papers.functions import RULES

        return (self.number, series) in RULES

    def notes(self) -> str | None:
        """Return the text of notes.md, if there is one."""
        path = self.folder / NOTES
        return path.read_text(encoding="utf-8") if path.is_file() else None


def paper_folders(root: Path | None = None) -> list[Path]:
    """Return the folders of the papers below `root`, by number; the package's own if not given."""
    place = DATA if root is None else root
    if not place.is_dir():
        return []
    return sorted(path for path in place.iterdir() if FOLDER_NAME.fullmatch(path.name) and path.is_dir())


def find_paper(name: str, root: Path | None = None) -> Path:
    """Return the folder of a paper, asked for by number, folder name or path.

    Raises
    ------
    ArgumentError
        There is no such paper; the text lists those there are.
    """
    as_path = Path(name)
    if (as_path / CLAIMS).is_file():
        return as_path
    folders = paper_folders(root)
    for folder in folders:
        if name in {folder.name, folder.name.partition("-")[0], "p" + folder.name.partition("-")[0]}:
            return folder
    known = {one: folder.name for folder in folders for one in (folder.name, folder.name.partition("-")[0])}
    near = difflib.get_close_matches(name.strip().lower(), ["all", *known], n=1)
    if name.strip().isdecimal():
        near = [number for number in known if number.isdecimal() and int(number) == int(name)]
    elif not near and name.strip():
        # What a paper is about, such as a protocol: the one that says the word most often.
        word = re.compile(rf"\b{re.escape(name.strip())}\b", re.IGNORECASE)
        said = {
            folder: len(word.findall((folder / CLAIMS).read_text(encoding="utf-8"))) for folder in folders
        }
        most = max(said, key=lambda folder: said[folder], default=None)
        near = [most.name.partition("-")[0]] if most is not None and said[most] else []
    hint = f"did you mean '{near[0]}'? " if near else ""
    listed = ", ".join(folder.name for folder in folders)
    raise ArgumentError(
        f"unknown paper '{name}': {hint}there are {listed}, or all; or name a folder with a {CLAIMS}"
    )


def load_paper(folder: str | Path, *, trust: bool = False) -> Paper:
    """Read a paper's folder; with `trust` its studies may load senders written in Python.

    Raises
    ------
    PaperError
        A file is missing or makes no sense; the text says which and why.
    """
    path = Path(folder)
    manifest = _read_toml(path / MANIFEST)
    content = _read_toml(path / CLAIMS)
    try:
        return replace(_paper(path, manifest, content), trust=trust)
    except KeyError as error:
        raise PaperError(f"{path}: {error.args[0]!r} is missing in {CLAIMS} or {MANIFEST}") from None
    except PaperError:
        raise
    except (TypeError, AttributeError, ValueError) as error:
        raise PaperError(
            f"{path}: {CLAIMS} or {MANIFEST} has not the form of docs/reference/claims.md: {error}"
        ) from None


def _paper(path: Path, manifest: dict[str, Any], content: dict[str, Any]) -> Paper:
    _check_keys(
        path / MANIFEST,
        manifest,
        "subject title authors year series axes values words curves experiments alternatives readings stated "
        "now quick",
    )
    for key in (
        "series",
        "axes",
        "values",
        "words",
        "curves",
        "experiments",
        "alternatives",
        "readings",
        "now",
        "quick",
    ):
        _check_keys(path / MANIFEST, manifest.get(key, {}), None, f"{key}: ")
    if content.get("version") != CLAIMS_VERSION:
        raise PaperError(f"{path / CLAIMS}: version must be {CLAIMS_VERSION}, found {content.get('version')}")
    vocabulary = _vocabulary(content)
    experiments = _experiments(path, content["experiment"], manifest, vocabulary)
    claims = tuple(_claim(path, entry) for entry in content["claim"])
    for claim in claims:
        for one in claim.experiments:
            if one not in experiments:
                raise PaperError(f"{path / CLAIMS}: {claim.id} names {one}, which is no experiment")
    names = {one.name for one in experiments.values()}
    alternatives = _joined(path, manifest.get("alternatives", {}))
    sources = {name: Source(metric=name) for name in vocabulary.series}
    for name, entry in manifest.get("series", {}).items():
        if name not in vocabulary.series:
            raise PaperError(f"{path / MANIFEST}: series.{name} is no series of {CLAIMS}")
        sources[name] = _source(entry)
    number = FOLDER_NAME.fullmatch(path.resolve().name)
    return Paper(
        folder=path,
        number=number[1] if number else "000",
        subject=manifest["subject"],
        title=manifest.get("title"),
        authors=tuple(manifest.get("authors", ())),
        year=manifest.get("year"),
        vocabulary=vocabulary,
        experiments=experiments,
        claims=claims,
        sources=sources,
        study_axes=manifest.get("axes", {}),
        study_values=manifest.get("values", {}),
        words={
            name: _words(path, name, entry, vocabulary) for name, entry in manifest.get("words", {}).items()
        },
        alternatives=tuple(
            _alternative(path, name, entry, names, vocabulary) for name, entry in alternatives.items()
        ),
        readings=_readings(path, manifest.get("readings", {}), alternatives),
        stated=tuple(_stated(path, entry) for entry in manifest.get("stated", ())),
        now=tuple(_now(path, name, entry) for name, entry in manifest.get("now", {}).items()),
        quick=_quick(path, manifest.get("quick", {})),
    )


def _vocabulary(content: dict[str, Any]) -> Vocabulary:
    defaults = content.get("defaults", {})
    axes = {name: None if values == "number" else tuple(values) for name, values in content["axes"].items()}
    return Vocabulary(
        axes=axes,
        defaults={name: value for name, value in defaults.items() if not isinstance(value, dict)},
        conditional_defaults={name: value for name, value in defaults.items() if isinstance(value, dict)},
        grids={name: tuple(values) for name, values in content.get("grids", {}).items()},
        series={
            name: Series(name, entry["unit"], tuple(entry["axes"]), entry["means"], entry.get("label", ""))
            for name, entry in content.get("series", {}).items()
        },
        functions=content.get("functions", {}),
    )


def _words(path: Path, name: str, entry: dict[str, Any], vocabulary: Vocabulary) -> Words:
    _check_keys(path / MANIFEST, entry, "label unit values", f"words.{name}: ")
    conditional = (axis for defaults in vocabulary.conditional_defaults.values() for axis in defaults)
    if name not in {*vocabulary.axes, *vocabulary.defaults, *conditional}:
        raise PaperError(f"{path / MANIFEST}: words.{name} is no axis of {CLAIMS}")
    return Words(entry.get("label", name), entry.get("unit", ""), entry.get("values", {}))


def _experiments(
    path: Path, entries: Sequence[dict[str, Any]], manifest: dict[str, Any], vocabulary: Vocabulary
) -> dict[str, Experiment]:
    more = manifest.get("experiments", {})
    experiments = {}
    for entry in entries:
        name = entry["id"].partition(".")[2]
        addition = more.get(name, {})
        _check_keys(path / MANIFEST, addition, "study title curves", f"experiments.{name}: ")
        axis, _, grid = entry["x"].partition("=")
        axis, grid = axis.strip(), grid.split("(")[0].strip()
        experiments[entry["id"]] = Experiment(
            id=entry["id"],
            figure=entry["figure"],
            x=axis if axis in vocabulary.axes else None,
            grid=vocabulary.grids.get(grid, ()),
            y=tuple(part for part in re.split(r", | and ", entry["y"]) if part),
            curves=tuple(entry["curves"]),
            fixed=entry.get("fixed", {}),
            title=addition.get("title"),
            drawn=_drawn(path, addition.get("curves"), manifest.get("curves", {}), vocabulary),
            studies=_studies(addition.get("study", name)),
            note=entry.get("note"),
        )
    unknown = set(more) - {one.name for one in experiments.values()}
    if unknown:
        raise PaperError(f"{path / MANIFEST}: experiments.{min(unknown)} is no experiment of {CLAIMS}")
    return experiments


def _drawn(
    path: Path, name: str | None, sets: Mapping[str, Mapping[str, Any]], vocabulary: Vocabulary
) -> Mapping[str, Mapping[str, Value]]:
    """Return the curves of one set of ``[curves]``; none if an experiment names no set."""
    if name is None:
        return {}
    if name not in sets:
        raise PaperError(f"{path / MANIFEST}: there is no curves.{name}")
    for label, settings in sets[name].items():
        for axis, value in settings.items():
            if axis not in {*vocabulary.axes, *vocabulary.defaults, SERIES_OF_CURVE}:
                raise PaperError(f"{path / MANIFEST}: curves.{name}: {label!r} has {axis}, which is no axis")
            if axis == SERIES_OF_CURVE and value not in vocabulary.series:
                raise PaperError(f"{path / MANIFEST}: curves.{name}: {label!r}: {value} is no series")
    return sets[name]


def _studies(named: Any) -> dict[str, Mapping[str, Value]]:  # noqa: ANN401 - as the file has it
    """Return the studies of an experiment: one name, or several, or tables with ``file`` and ``fixed``."""
    listed = named if isinstance(named, list) else [named]
    tables: list[dict[str, Any]] = [{"file": one} if isinstance(one, str) else one for one in listed]
    return {one["file"]: one.get("fixed", {}) for one in tables}


def _claim(path: Path, entry: dict[str, Any]) -> Claim:
    kind, strength = entry["kind"], entry["strength"]
    if kind not in get_args(Kind) or strength not in get_args(Strength):
        raise PaperError(
            f"{path / CLAIMS}: {entry['id']} has the kind {kind!r} and the strength {strength!r}"
        )
    tolerance = entry["tolerance"]
    return Claim(
        id=entry["id"],
        experiments=tuple(entry["experiment"]),
        figure=entry["figure"],
        text=entry["text"],
        kind=cast("Kind", kind),
        predicate=entry["predicate"],
        tolerance=Tolerance(tolerance["rel"], tolerance["abs"], tolerance["reason"]),
        strength=cast("Strength", strength),
        basis=entry["basis"],
        unit=entry.get("unit"),
        reference=tuple(entry.get("reference", ())),
        note=entry.get("note"),
        about=entry.get("about"),
        cannot_fail=entry.get("cannot_fail"),
    )


def _alternative(
    path: Path, name: str, entry: dict[str, Any], experiments: Iterable[str], vocabulary: Vocabulary
) -> Alternative:
    series: dict[str, Any] = entry.get("series", {})
    if not (entry.get("set") or series or entry.get("values") or entry.get("studies")):
        raise PaperError(
            f"{path / MANIFEST}: alternatives.{name} changes nothing: give it set, series, values, studies "
            "or joins"
        )
    for one in entry.get("values", {}):
        if one not in vocabulary.axes:
            raise PaperError(f"{path / MANIFEST}: alternatives.{name}: {one} is no axis of {CLAIMS}")
    for one in series:
        if one not in vocabulary.series:
            raise PaperError(f"{path / MANIFEST}: alternatives.{name}: {one} is no series of {CLAIMS}")
    concerned = entry.get("experiments")
    unknown = set(concerned or ()) - set(experiments)
    if unknown:
        raise PaperError(
            f"{path / MANIFEST}: alternatives.{name} names {min(unknown)}, which is no experiment"
        )
    return Alternative(
        name=name,
        title=entry.get("title", name),
        set=entry.get("set", {}),
        sources={one: _source(source) for one, source in series.items()},
        values=entry.get("values", {}),
        studies=entry.get("studies", {}),
        experiments=None if concerned is None else tuple(concerned),
        no_vote=entry.get("no_vote"),
        part=entry.get("part", False),
    )


def _stated(path: Path, entry: dict[str, Any]) -> Stated:
    _check_keys(
        path / MANIFEST, entry, "setting says where key value scenarios departs elsewhere", "stated: "
    )
    for key in ("setting", "says", "where", "key", "value"):
        if key not in entry:
            raise PaperError(f"{path / MANIFEST}: stated: {entry.get('setting', 'an entry')} lacks {key}")
    if not isinstance(entry.get("elsewhere", {}), dict):
        raise PaperError(
            f"{path / MANIFEST}: stated: {entry['setting']}: elsewhere must be a table of studies and reasons"
        )
    return Stated(
        setting=entry["setting"],
        says=entry["says"],
        where=entry["where"],
        key=entry["key"],
        value=entry["value"],
        scenarios=tuple(entry.get("scenarios", ())),
        departs=entry.get("departs"),
        elsewhere=entry.get("elsewhere", {}),
    )


def _joined(path: Path, entries: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the entries of alternatives, those that join others with the choices of these."""
    whole: dict[str, dict[str, Any]] = {}
    for name, entry in entries.items():
        _check_keys(path / MANIFEST, entry, f"{ALTERNATIVE} joins", f"alternatives.{name}: ")
        joins = entry.get("joins", [])
        if not isinstance(joins, list) or not isinstance(entry.get("part", False), bool):
            raise PaperError(
                f"{path / MANIFEST}: alternatives.{name}: joins is a list of names, and part is true or false"
            )
        unknown = [one for one in joins if one not in whole]
        if unknown:
            raise PaperError(
                f"{path / MANIFEST}: alternatives.{name} joins {unknown[0]}: no alternative before it has "
                "that name"
            )
        whole[name] = _union([whole[one] for one in joins], entry) if joins else entry
    return whole


def _union(joined: Sequence[Mapping[str, Any]], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the choices of several alternatives as one, a later over an earlier one, its own over all."""
    choices: dict[str, Any] = {}
    for part in (*joined, own):
        for key in ("set", "series", "studies"):
            choices[key] = {**choices.get(key, {}), **part.get(key, {})}
        axes = {*choices.get("values", {}), *part.get("values", {})}
        choices["values"] = {
            axis: {**choices.get("values", {}).get(axis, {}), **part.get("values", {}).get(axis, {})}
            for axis in axes
        }
        if "no_vote" in part:
            choices["no_vote"] = part["no_vote"]
    # It concerns what any of them does.
    concerned = [part.get("experiments") for part in joined]
    if None not in concerned:
        choices["experiments"] = list(dict.fromkeys(one for of_part in concerned for one in of_part or ()))
    titles = "; ".join(str(part.get("title", "")) for part in joined)
    kept = {key: own[key] for key in ("title", "experiments", "part") if key in own}
    return {"title": titles, **choices, **kept}


def _readings(
    path: Path, entries: Mapping[str, dict[str, Any]], alternatives: Mapping[str, dict[str, Any]]
) -> tuple[Reading, ...]:
    found = tuple(_reading(path, name, entry, alternatives) for name, entry in entries.items())
    chosen = {choice for reading in found for choice in reading.choices}
    for name, entry in alternatives.items():
        if entry.get("part", False) and name not in chosen:
            raise PaperError(
                f"{path / MANIFEST}: alternatives.{name} is part of readings, but no reading chooses it: "
                "name it in the choices of one, or leave out part"
            )
    return found


def _reading(path: Path, name: str, entry: dict[str, Any], alternatives: Mapping[str, Any]) -> Reading:
    _check_keys(path / MANIFEST, entry, "title choices no_vote", f"readings.{name}: ")
    choices = tuple(entry.get("choices", ()))
    unknown = [one for one in choices if one not in alternatives]
    if unknown or name in alternatives:
        raise PaperError(
            f"{path / MANIFEST}: readings.{name} "
            + (
                f"names {unknown[0]}, which is no alternative"
                if unknown
                else "has the name of an alternative"
            )
        )
    # What does not vote alone does not vote in company.
    against = [alternatives[one]["no_vote"] for one in choices if "no_vote" in alternatives[one]]
    return Reading(name, entry.get("title", name), choices, entry.get("no_vote", next(iter(against), None)))


def _now(path: Path, name: str, entry: dict[str, Any]) -> Now:
    _check_keys(path / MANIFEST, entry, "metrics", f"now.{name}: ")
    if not (path / STUDIES / f"{name}.toml").is_file():
        raise PaperError(f"{path / MANIFEST}: now.{name}: there is no {STUDIES}/{name}.toml")
    return Now(name, tuple(entry["metrics"]))


def _source(entry: str | dict[str, Any] | list[Any]) -> Source:
    """Return a source: the name of a metric, a table with fields of `Source`, or a list of them to try."""
    if isinstance(entry, list):
        first, *others = entry
        return replace(_source(first), otherwise=_source(others) if others else None)
    return Source(metric=entry) if isinstance(entry, str) else Source(**entry)


def _quick(path: Path, entry: dict[str, Any]) -> Quick:
    _check_keys(path / MANIFEST, entry, "seeds axes set", "quick: ")
    axes = {name: tuple(values) for name, values in entry.get("axes", {}).items()}
    return Quick(entry.get("seeds", Quick().seeds), axes, entry.get("set", {}))


def _check_keys(path: Path, entry: object, known: str | None, where: str = "") -> None:
    """Refuse what is no table, and a key that is not among the known ones, if these are given."""
    if not isinstance(entry, dict):
        raise PaperError(f"{path}: {where}it must be a table, found {entry!r}")
    if known is None:
        return
    for key in entry:
        if key not in known.split():
            raise PaperError(f"{path}: {where}unknown key {key!r}; known are {', '.join(known.split())}")


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        raw = read_at_most(path, LONGEST_TEXT)
    except OSError as error:
        raise PaperError(f"cannot read '{path}': {(error.strerror or str(error)).lower()}") from None
    if raw is None:
        raise PaperError(f"cannot read '{path}': it has more than {LONGEST_TEXT} bytes")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise PaperError(f"cannot read '{path}': it is not text in UTF-8") from None
    try:
        return toml(text)
    except (ValueError, RecursionError) as error:
        raise PaperError(slip(text, "toml", path, error)) from None
