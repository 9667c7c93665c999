"""What a study is: `Study`, `Axis`, `Keep` and `Point`, which cannot be wrong once they exist.

`reader` makes them of a file, and the engine has parsed the scenario of every point by then. Called by the
commands of ``lasthop study`` and by the Python API; runs nothing and writes nothing.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop.errors import ScenarioError, StudyError
from lasthop.scenario import Scenario, check_seeds, toml_value
from lasthop.studies.parts import Axis, Keep, Point, Value, point_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lasthop.columns import Metric
    from lasthop.scenario import Senders


#: Scenarios of points that a study keeps.
READ_MAX = 4096


@dataclass(frozen=True)
class Study:
    """A checked study.

    Attributes
    ----------
    name, title : str
        For files, and for people.
    scenario : Scenario or None
        What every point starts from, before ``[set]``; `None` in a study read back from a folder, whose
        `content` has it.
    axes : tuple of Axis
        The grid is their product, in this order; without axes there is one point.
    metrics : tuple of Metric
        What the tidy table has a column for.
    seeds : tuple of int
        Every point runs with each of them.
    baseline : dict
        Where some axes stand at the baseline of paired differences; empty if there is none.
    x : str or None
        The axis drawn along x.
    keep : tuple of Keep
        Series kept of every run.
    settings : dict
        Overrides for the whole study (``[set]``).
    content : dict
        What the file says.
    file : str
        Name of the file, for messages.

    Examples
    --------
    >>> import lasthop as lh
    >>> study = lh.studies.Study.parse({
    ...     "name": "races",
    ...     "scenario": lh.EXAMPLE,
    ...     "seeds": "1-3",
    ...     "metrics": ["goodput_bit_s"],
    ...     "axes": [{"name": "loss", "key": "channel.error.packet_error_rate", "values": [0, 0.01]}],
    ... })
    >>> [point.settings for point in study.points()]
    [{'loss': 0}, {'loss': 0.01}]
    """

    name: str
    title: str
    scenario: Scenario | None
    axes: tuple[Axis, ...]
    metrics: tuple[Metric, ...]
    seeds: tuple[int, ...]
    baseline: dict[str, Value]
    x: str | None
    keep: tuple[Keep, ...]
    settings: dict[str, Any]
    content: dict[str, Any]
    file: str
    #: Overrides of the command line: TOML text, as ``lasthop run --set`` takes it.
    arguments: dict[str, str] = field(default_factory=dict)
    #: What is wrong with the scenario that the points start from, if it cannot be run itself: `settings`,
    #: `arguments` and axes have to mend it.
    refusal: ScenarioError | None = field(default=None, repr=False, compare=False)
    #: Scenarios of points that were read: checking a study and running it need the same ones.
    _read: dict[tuple[tuple[str, str], ...], Scenario] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __repr__(self) -> str:
        axes = " x ".join(f"{axis.name} ({len(axis.values)})" for axis in self.axes) or "one point"
        return f"<Study {self.name!r}: {axes}, {len(self.seeds)} seeds, {len(self.metrics)} metrics>"

    def _repr_html_(self) -> str:
        import html

        rows = [
            ("scenario", "" if self.scenario is None else repr(self.scenario_of(self.points()[0]))[1:-1]),
            *((axis.label or axis.name, ", ".join(axis.labels)) for axis in self.axes),
            ("seeds", ", ".join(map(str, self.seeds))),
            ("metrics", ", ".join(metric.label for metric in self.metrics)),
        ]
        cells = "".join(
            f"<tr><th>{html.escape(head)}</th><td>{html.escape(text)}</td></tr>" for head, text in rows
        )
        return f"<p>{html.escape(self.title or self.name)}</p><table>{cells}</table>"

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        arguments: Mapping[str, str] | None = None,
        transports: Senders | None = None,
        trust: bool = False,
    ) -> Study:
        """Read and check a study file (TOML, or JSON of the same structure).

        Parameters
        ----------
        path : path
            The file; ``scenario`` in it is relative to it.
        arguments : mapping, optional
            Overrides as ``lasthop study run --set`` takes them; they apply before the axes.
        transports : mapping, optional
            Senders written in Python: classes that inherit from `lasthop.Sender`, by the names that the
            scenario or the axes have for them. One named ``FILE.py:CLASS`` there need not be here with
            `trust`.
        trust : bool
            Whether senders that the study or its scenario names ``FILE.py:CLASS`` are loaded, which executes
            their files.

        Raises
        ------
        StudyError
            With the file, the key, what was found and what to do.
        ScenarioError
            If the scenario, or that of some point, cannot be run.
        TrustError
            If one of them names Python code, and is not trusted with it.
        """
        from lasthop.studies.content import read_content

        path = Path(path)
        return cls.parse(
            read_content(path),
            file=str(path),
            folder=path.parent,
            arguments=arguments,
            transports=transports,
            trust=trust,
        )

    @classmethod
    def parse(
        cls,
        content: Mapping[str, Any],
        *,
        file: str = "study",
        folder: str | Path = ".",
        arguments: Mapping[str, str] | None = None,
        check: bool = True,
        transports: Senders | None = None,
        trust: bool = False,
    ) -> Study:
        """Check a study that is a mapping with the structure of a study file.

        Parameters
        ----------
        content : mapping
            The study.
        file : str
            How messages call it.
        folder : path
            What the path of the scenario is relative to.
        arguments : mapping, optional
            As for `load`.
        check : bool
            Whether the engine parses the scenario of every point; not for a stored study, which ran once.
        transports : mapping, optional
            As for `load`.
        trust : bool
            As for `load`.
        """
        from lasthop.studies.reader import Reader

        study = Reader(file, check=check, transports=transports, trust=trust).study(
            cls, dict(content), Path(folder), dict(arguments or {})
        )
        if check:
            study.check_points()
        return study

    def points(self) -> list[Point]:
        """Return the grid, the last axis moving fastest."""
        places = [list(zip(axis.values, axis.settings, strict=True)) for axis in self.axes]
        return [
            Point(
                {axis.name: value for axis, (value, _) in zip(self.axes, place, strict=True)},
                self.settings
                | self.arguments
                | {key: value for _, settings in place for key, value in settings.items()},
            )
            for place in itertools.product(*places)
        ]

    def scenario_of(self, point: Point) -> Scenario:
        """Return the scenario of a point.

        Raises
        ------
        ScenarioError
            Naming the axis and the value, if the engine refuses it.
        """
        if self.scenario is None:
            raise StudyError(f"the study {self.name!r} was read from a folder: load its file to run it")
        axes = point_keys(self.axes)
        overrides = {
            # What the command line says is TOML text already; what the file says is a value.
            key: value if key in self.arguments and key not in axes else toml_value(value)
            for key, value in point.overrides.items()
        }
        key = tuple(overrides.items())
        if (known := self._read.get(key)) is not None:
            return known
        of_file = {key for key in overrides if key not in self.arguments or key in axes}
        try:
            scenario = self.scenario.overridden(overrides, of_file=of_file)
        except ScenarioError as error:
            if self.refusal is not None and str(self.refusal).startswith(str(error)):
                # The study does not touch what is wrong.
                raise self.refusal from None
            raise type(error)(self._placed(str(error), point, overrides)) from None
        if len(self._read) < READ_MAX:
            self._read[key] = scenario
        return scenario

    def _placed(self, text: str, point: Point, overrides: Mapping[str, str]) -> str:
        """Say where in the study file the override stands that the engine complains of."""
        for key, value in overrides.items():
            found = f"at --set {key}={value}"
            if found not in text or (key in self.arguments and key not in point_keys(self.axes)):
                continue
            place = f"at {self.file}: {self._place_of(key, point)} ({key} = {value})"
            return text.replace(found, place)
        return f"{text}\n  in {self.file}: the point {point.text}"

    def _place_of(self, key: str, point: Point) -> str:
        for index, axis in reversed(list(enumerate(self.axes))):
            if key in axis.keys:
                position = axis.values.index(point.settings[axis.name])
                kind = "points" if self.content["axes"][index].get("points") else "values"
                return f"axes[{index}].{kind}[{position}]"
        return f"set.{key}"

    def check_points(self) -> None:
        """Parse the scenario of every point: whatever the engine would refuse is refused now.

        So are patterns for names of flows or links that none of them has.
        """
        from lasthop.studies import patterns

        pending = list(patterns.patterns_of(self))
        for point in self.points():
            scenario = self.scenario_of(point)
            pending = [pattern for pattern in pending if not pattern.is_met(scenario)]
        if pending:
            raise patterns.refusal(pending[0], scenario, self.file)

    def axis(self, name: str) -> Axis:
        """Return the axis called `name`."""
        return next(axis for axis in self.axes if axis.name == name)

    def with_seeds(self, seeds: Iterable[int]) -> Study:
        """Return the study with other seeds."""
        chosen = tuple(check_seeds(seeds))
        study = replace(self, seeds=chosen, content=self.content | {"seeds": list(chosen)})
        study._read.update(self._read)  # noqa: SLF001 - the points are the same
        return study

    def to_dict(self) -> dict[str, Any]:
        """Return the study with its scenario inside, so that it can be read without other files."""
        if self.scenario is None:
            return self.content
        if self.refusal is None:
            return self.content | {"scenario": self.scenario.to_dict()}
        given = self.content["scenario"]
        if isinstance(given, dict):
            return self.content
        from lasthop.studies.content import read_content

        return self.content | {"scenario": read_content(self.scenario.folder / Path(given).name)}
