"""Says which places of a series belong to figures that were not asked for.

`report` leaves them out of the series that it keeps. Studies are read, and nothing is run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lasthop.papers import reproduce
from lasthop.papers.judge import MAIN
from lasthop.papers.measurement import place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lasthop.papers.library import Experiment, Paper
    from lasthop.papers.measurement import Place
    from lasthop.studies import Study
    from lasthop.studies.parts import Point

#: What of a scenario decides nothing.
OF_NO_EFFECT = frozenset({"measure", "name"})


def left_to_others(paper: Paper, experiments: Iterable[Experiment]) -> dict[str, set[Place]]:
    """Return the places of series that studies of these figures measure by the way, and others draw.

    A study may give a series at a place at which another figure draws it from runs with other settings. With
    all figures what is drawn counts; with some, the series would have other values at that place.
    """
    asked = tuple(experiments)
    others = [one for one in paper.ready if one not in asked]
    drawn: dict[tuple[str, Place], list[_Setup]] = {}
    for one, where, setup in _setups(paper, others):
        for name in one.y:
            drawn.setdefault((name, where), []).append(setup)
    left: dict[str, set[Place]] = {}
    own: dict[str, set[Place]] = {}
    for one, where, setup in _setups(paper, asked) if drawn else ():
        for name in one.y:
            own.setdefault(name, set()).add(where)
        for name in paper.sources:
            if (found := drawn.get((name, where))) and not any(setup.is_as(other) for other in found):
                left.setdefault(name, set()).add(where)
    return {name: rest for name, places in left.items() if (rest := places - own.get(name, set()))}


@dataclass(frozen=True, slots=True)
class _Setup:
    """What is run at a point of a study."""

    study: Study
    point: Point

    def is_as(self, other: _Setup) -> bool:
        """Whether the other runs the same, whatever is measured."""
        if (self.study.file, self.point.overrides) == (other.study.file, other.point.overrides):
            return True
        return self._said() == other._said()

    def _said(self) -> dict[str, Any]:
        said = self.study.scenario_of(self.point).to_dict()
        return {key: value for key, value in said.items() if key not in OF_NO_EFFECT}


def _setups(paper: Paper, experiments: Iterable[Experiment]) -> Iterator[tuple[Experiment, Place, _Setup]]:
    """Yield each point of the figures' studies at the main setting, and its place on the axes of claims."""
    ready = [one for one in experiments if paper.is_ready(one)]
    studies = reproduce.plan(paper, ready).studies[MAIN] if ready else {}
    for experiment in ready:
        for file, more in experiment.studies.items():
            axes = reproduce.claim_axes(paper, studies[file])
            for point in studies[file].points():
                settings = {
                    ours: reproduce.claim_value(paper, ours, point.settings[theirs])
                    for theirs, ours in axes.items()
                }
                where = place(paper.vocabulary, {**experiment.fixed, **more, **settings})
                yield experiment, where, _Setup(studies[file], point)
