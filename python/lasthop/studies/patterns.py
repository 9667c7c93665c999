"""Patterns that a study gives for names of flows and links: each must mean something at some point.

A pattern that matches nothing would leave a metric without values and a kept table without rows, which shows
only when all has run. Called by `Study.check_points`.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lasthop.errors import StudyError
from lasthop.studies.parts import LINK_TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lasthop.scenario import Scenario
    from lasthop.studies.metrics import Metric
    from lasthop.studies.parts import Keep
    from lasthop.studies.study import Study

#: How a link is called in its other direction.
REVERSE = " (reverse)"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern, where it stands in the file, and what it chooses among."""

    place: str
    text: str
    #: ``flow`` or ``link``.
    kind: str
    #: Patterns that a name must match as well, if there are any: those of the table that is chosen from.
    among: tuple[str, ...] = ()

    def names(self, scenario: Scenario) -> list[str]:
        """Return the names that it chooses among in a scenario."""
        names = scenario.flow_names
        if self.kind == "link":
            names = [name + end for name in scenario.link_names for end in ("", REVERSE)]
        return [name for name in names if not self.among or _matches(name, self.among)]

    def is_met(self, scenario: Scenario) -> bool:
        """Whether a flow or link of the scenario is called so."""
        return any(_matches(name, (self.text,)) for name in self.names(scenario))


def patterns_of(study: Study) -> Iterator[Pattern]:
    """Return every pattern of a study."""
    kept = {keep.name: keep for keep in study.keep}
    for index, keep in enumerate(study.keep):
        for text in keep.rows:
            yield Pattern(f"keep[{index}].{keep.column}s", text, keep.column)
    for index, metric in enumerate(study.metrics):
        if metric.where is not None:
            yield _of_metric(f"metrics[{index}].where", metric, metric.where, kept.get(metric.source))


def _of_metric(place: str, metric: Metric, where: str, keep: Keep | None) -> Pattern:
    if keep is None:
        return Pattern(place, where, metric.source.removesuffix("s"))
    # Of a table with both, the link is what a metric looks at.
    kind = "link" if keep.table in LINK_TABLES and "link" in (keep.columns or ("link",)) else keep.column
    return Pattern(place, where, kind, keep.rows if kind == keep.column else ())


def refusal(pattern: Pattern, scenario: Scenario, file: str) -> StudyError:
    """Say that nothing is called so at any point; the scenario is that of one of them."""
    from lasthop.studies.reader import nearest

    known = nearest(pattern.text, pattern.names(scenario))
    return StudyError(
        f'study error: no {pattern.kind} is called "{pattern.text}" at any point\n'
        f"  at {file}: {pattern.place}\n     {known}"
    )


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
