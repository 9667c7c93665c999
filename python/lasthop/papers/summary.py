"""The figures behind the verdicts of a paper, small enough to be kept: written with a report, judged again.

`report` writes them, `overview` and the tests read them. Samples over time are many: of them only what the
claims of the paper make of each run is kept, such as ``cv(queue)``.
"""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

from lasthop.papers.grammar import AGGREGATES, Call, Series, children, parse
from lasthop.papers.judge import MAIN, judge
from lasthop.papers.library import PaperError
from lasthop.papers.measurement import Dataset

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    import polars as pl

    from lasthop.papers.grammar import Node
    from lasthop.papers.judge import Judgement
    from lasthop.papers.library import Claim, Paper

#: The files, beside the report.
SERIES, VERDICTS = "series.parquet", "verdicts.csv"
HEADING = ("claim", "strength", "verdict", "at_the_main_setting", "verdict_at_99", "effect")


def aggregates(claims: Iterable[Claim]) -> dict[str, set[str]]:
    """Return what claims make of each series, where it is a single call: ``{"queue": {"cv", "median"}}``."""
    found: dict[str, set[str]] = {}
    pending: list[Node] = [parse(claim.predicate) for claim in claims]
    while pending:
        node = pending.pop()
        pending += children(node)
        if isinstance(node, Call) and node.function in AGGREGATES:
            for argument in node.arguments:
                if isinstance(argument, Series):
                    found.setdefault(argument.name, set()).add(node.function)
    return found


def series_frame(datasets: Mapping[str, Dataset], claims: Iterable[Claim]) -> pl.DataFrame:
    """Return one row per setting, series, point and seed; what is as at the main setting is left out."""
    from lasthop.extras import pl

    rows = []
    wanted = aggregates(claims)
    main: dict[tuple[str, str], dict[int, float]] = {}
    for setting, data in {MAIN: datasets[MAIN], **datasets}.items():
        points: dict[tuple[str, str], dict[int, float]] = {}
        for series, point, seed, value in data.rows(wanted):
            points.setdefault((series, json.dumps(point)), {})[seed] = value
        for key, by_seed in points.items():
            if setting == MAIN or main.get(key) != by_seed:
                rows += [(setting, *key, seed, value) for seed, value in by_seed.items()]
        main = main or points
    schema = {
        "setting": pl.Categorical,
        "series": pl.Categorical,
        "point": pl.Categorical,
        "seed": pl.UInt32,
        "value": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row").sort("setting", "series", "point", "seed")


def read_series(paper: Paper, path: Path) -> dict[str, Dataset]:
    """Return the data of each setting from a file that `series_frame` made.

    Raises
    ------
    PaperError
        The file is not there or no such table.
    """
    from lasthop.extras import pl

    try:
        table = pl.read_parquet(path)
        rows = table.select("setting", "series", "point", "seed", "value").iter_rows()
        datasets: dict[str, Dataset] = {}
        points: dict[str, dict[str, str | float]] = {}
        for setting, series, point, seed, value in rows:
            settings = points.setdefault(point, json.loads(point))
            data = datasets.setdefault(setting, Dataset(paper.vocabulary))
            function, parenthesis, inner = series.partition("(")
            if parenthesis:
                data.add_aggregate(inner.removesuffix(")"), function, settings, seed, value)
            else:
                data.add(series, settings, seed, value)
        main = datasets.pop(MAIN, Dataset(paper.vocabulary))
        found = {MAIN: main} | {name: main.updated(data) for name, data in datasets.items()}
    except (OSError, pl.exceptions.PolarsError) as error:
        raise PaperError(f"cannot read '{path}': {error}") from None
    # Where another point stands for one, the main setting has it already.
    for one in paper.alternatives:
        if one.name not in found and one.values and not (one.set or one.sources or one.studies):
            found[one.name] = main.relabelled(one.values)
    return found


def judged_again(paper: Paper, path: Path) -> list[Judgement]:
    """Return the verdicts that the kept figures give."""
    return judge(paper, paper.claims, read_series(paper, path))


def verdicts_text(judgements: Iterable[Judgement]) -> str:
    """Return the verdicts as CSV, a line per claim: what a review sees change."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADING)
    for one in judgements:
        writer.writerow(
            (
                one.claim.id,
                one.claim.strength,
                one.verdict.value,
                one.findings[MAIN].outcome.value,
                one.at_99.value,
                one.effect,
            )
        )
    return text.getvalue()


def changed_at_99(path: Path) -> int:
    """Return how many verdicts of such a file would be others at 99 %."""
    with path.open(encoding="utf-8", newline="") as file:
        return sum(row["verdict"] != row["verdict_at_99"] for row in csv.DictReader(file))


def read_verdicts(path: Path) -> dict[str, str]:
    """Return the verdict of each claim from a file that `verdicts_text` made."""
    with path.open(encoding="utf-8", newline="") as file:
        return {row["claim"]: row["verdict"] for row in csv.DictReader(file)}
