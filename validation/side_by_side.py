"""What the grids of single mechanisms beside ns-2 have in common: verdict, table, command line.

`red.py` and `snoop.py` say what a cell is, how both sides run it and what their page tells; the rest is here.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop import _native
from validation import ns2

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from validation.statistics import Comparison

ROOT = Path(__file__).resolve().parent.parent

#: Without any real difference one comparison in this number is outside its 95 % interval.
CHANCE = 20


@dataclass(frozen=True)
class Column:
    """A metric in the table."""

    heading: str
    #: Digits after the point.
    digits: int
    #: Means that are no further apart than this share agree.
    same_mean: float


@dataclass(frozen=True)
class SideBySide:
    """A grid of cells that both simulators run."""

    #: Its module, as in `python -m validation.NAME`.
    name: str
    description: str
    columns: Mapping[str, Column]

    @property
    def path(self) -> Path:
        """The page that the whole grid writes."""
        return ROOT / "docs" / "reference" / f"validation-{self.name}.md"

    def agrees(self, one: Comparison) -> bool:
        """Whether the difference is within chance, or too small to matter."""
        return one.low <= 0.0 <= one.high or one.relative <= self.columns[one.metric].same_mean

    def outside(self, comparisons: Sequence[Comparison]) -> list[Comparison]:
        """Return those that do not agree."""
        return [one for one in comparisons if not self.agrees(one)]

    def means(self, one: Comparison, between: str) -> str:
        """Both means, lasthop's first."""
        digits = self.columns[one.metric].digits
        return f"{one.ours:.{digits}f}{between}{one.theirs:.{digits}f}"

    def facts(self, comparisons: Sequence[Comparison]) -> dict[str, str]:
        """Return what introductions say of their figures, by the names that they use."""
        return {
            "version": _native.__version__,
            "rival": ns2.version(),
            "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
            "count": str(len(comparisons)),
            "differing": str(len(self.outside(comparisons))),
        }

    def table(self, comparisons: Sequence[Comparison]) -> list[str]:
        """One row for each cell, bold where the sides differ."""
        cells: dict[Any, list[str]] = {}
        for one in comparisons:
            text = self.means(one, " / ")
            cells.setdefault(one.cell, []).append(text if self.agrees(one) else f"**{text}**")
        return [
            "| case | " + " | ".join(column.heading for column in self.columns.values()) + " |",
            "| --- |" + " ---: |" * len(self.columns),
            *(f"| {cell.key} | " + " | ".join(entries) + " |" for cell, entries in cells.items()),
        ]

    def main(
        self,
        grid: Sequence[Any],
        few: Sequence[Any],
        compare: Callable[[Any], list[Comparison]],
        page: Callable[[list[Comparison]], str],
    ) -> int:
        """Run `grid`, or `few` of it; 1 if more comparisons differ than chance explains, 2 without ns-2."""
        parser = argparse.ArgumentParser(
            prog=f"python -m validation.{self.name}", description=self.description
        )
        parser.add_argument(
            "--full", action="store_true", help="run the whole grid and write the reference page"
        )
        parser.add_argument(
            "--jobs", type=int, default=os.cpu_count() or 1, help="cells at a time (default: cores)"
        )
        arguments = parser.parse_args()
        cells = grid if arguments.full else few
        comparisons: list[Comparison] = []
        try:
            with ThreadPoolExecutor(max_workers=arguments.jobs) as pool:
                for number, (cell, found) in enumerate(
                    zip(cells, pool.map(compare, cells), strict=True), start=1
                ):
                    comparisons += found
                    metrics = [one.metric for one in self.outside(found)]
                    verdict = "differs in " + ", ".join(metrics) if metrics else "agrees"
                    print(f"[{number}/{len(cells)}] {cell.key}: {verdict}", file=sys.stderr, flush=True)
        except ns2.FailedError as error:
            print(error, file=sys.stderr)
            return 2
        if arguments.full:
            self.path.write_text(page(comparisons), encoding="utf-8")
            print(f"wrote {self.path.relative_to(ROOT)}")
        differing = self.outside(comparisons)
        for one in differing if arguments.full else comparisons:
            print(("   " if self.agrees(one) else "!! ") + describe(one))
        return 1 if len(differing) > len(comparisons) / CHANCE else 0


def describe(one: Comparison) -> str:
    """One line about one comparison."""
    return (
        f"{one.key} lasthop {one.ours:.3f}, ns-2 {one.theirs:.3f}, "
        f"difference {one.low:+.3f} to {one.high:+.3f} ({100 * one.relative:.1f} %)"
    )
