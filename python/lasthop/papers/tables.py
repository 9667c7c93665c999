"""What the terminal shows of papers: which there are, their claims, and how the verdicts came out.

Called by `lasthop reproduce` and `lasthop claims` only.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lasthop.papers import readings
from lasthop.papers.judge import Judgement, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType

    from lasthop.papers.library import Claim, Paper
    from lasthop.papers.reproduce import Reproduction

COLOURS = {
    Verdict.REPRODUCED: "green",
    Verdict.NOT_REPRODUCED: "red",
    Verdict.TIE: "yellow",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.CONDITIONAL: "magenta",
    Verdict.NOT_TESTABLE: "dim",
}


def papers_table(papers: Iterable[Paper]) -> RenderableType:
    """List the papers with how much of each is ready."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, justify in (
        ("paper", "left"),
        ("about", "left"),
        ("claims", "right"),
        ("figures ready", "left"),
    ):
        table.add_column(name, justify="right" if justify == "right" else "left")
    for paper in papers:
        # Closed forms need no runs: they are neither ready nor missing.
        total = sum(not paper.is_closed_form(one) for one in paper.experiments.values())
        there = sum(not paper.is_closed_form(one) for one in paper.ready)
        ready = f"{there} of {total}" if there else f"none of {total} yet: no studies"
        table.add_row(paper.number, paper.subject, str(len(paper.claims)), ready)
    return table


def claims_table(claims: Sequence[Claim]) -> RenderableType:
    """List claims: what each says and its formula."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("claim", "where", "says"):
        table.add_column(name, overflow="fold")
    for claim in claims:
        mark = " (headline)" if claim.strength == "headline" else ""
        says = Text(f"{claim.text}{mark}\n").append(claim.predicate, style="dim")
        table.add_row(claim.id, claim.figure, says)
    return table


def verdicts_table(reproduction: Reproduction) -> RenderableType:
    """Show counts, the headline claims, and everything that was not reproduced, with figures."""
    from rich.console import Group
    from rich.text import Text

    judgements = reproduction.judgements
    headlines = [one for one in judgements if one.claim.strength == "headline"]
    others = [
        one
        for one in judgements
        if one.claim.strength != "headline" and one.verdict in {Verdict.NOT_REPRODUCED, Verdict.CONDITIONAL}
    ]
    parts: list[RenderableType] = [
        Text(f"{_effort(reproduction)}\n"),
        counts_table(reproduction.paper, judgements),
    ]
    if judgements:
        parts.append(Text("\n" + readings.in_short(reproduction.paper, reproduction.readings)))
    if headlines:
        parts += [Text("\nheadline claims", style="bold"), _judgements_table(headlines)]
    if others:
        parts += [Text("\nother claims that were not reproduced", style="bold"), _judgements_table(others)]
    return Group(*parts)


def _effort(reproduction: Reproduction) -> str:
    paper, effort = reproduction.paper, reproduction.effort
    return (
        f"paper {paper.number}: {effort.runs:,} runs, {effort.packets / 1e6:,.1f} million packets, "
        f"{effort.packet_hops / 1e6:,.1f} million packet-hops"
    )


def count(judgements: Iterable[Judgement]) -> dict[Verdict, int]:
    """Return how many claims have each verdict."""
    counted = Counter(one.verdict for one in judgements)
    return {verdict: counted[verdict] for verdict in Verdict}


def counts_table(paper: Paper, judgements: Sequence[Judgement]) -> RenderableType:
    """Show how many claims of each strength have each verdict, and of those that no run decides."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("claims")
    for verdict in Verdict:
        table.add_column(verdict.value, justify="right")
    table.add_column("all", justify="right")
    for name, of_row in readings.by_kind(paper, judgements).items():
        cells = [Text(str(number), style=COLOURS[one]) for one, number in count(of_row).items()]
        table.add_row(name, *cells, str(len(of_row)))
    return table


def _judgements_table(judgements: Iterable[Judgement]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("verdict", no_wrap=True)
    table.add_column("claim", no_wrap=True)
    table.add_column("says, and what was measured", overflow="fold")
    for one in judgements:
        verdict = Text(one.verdict.value, style=COLOURS[one.verdict])
        table.add_row(verdict, one.claim.id, Text(f"{one.claim.text}\n").append(one.reason, style="dim"))
    return table
