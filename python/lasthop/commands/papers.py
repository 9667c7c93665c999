"""Papers: `reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lasthop import files
from lasthop.arguments import complete_papers, parse_seeds
from lasthop.commands.options import JobsOption, SeedsOption, TrustOption
from lasthop.errors import ArgumentError
from lasthop.places import refuse_other
from lasthop.progress import shown_progress
from lasthop.terminal import EXIT_RUN, note, print_content, say, user_errors

if TYPE_CHECKING:
    from lasthop.papers.library import Paper
    from lasthop.papers.reproduce import Plan


def reproduce(
    paper: Annotated[
        str | None,
        typer.Argument(
            metavar="PAPER",
            help="Its number, such as 004, or all; lists them if not given.",
            autocompletion=complete_papers,
        ),
    ] = None,
    figure: Annotated[
        str, typer.Option("--figure", metavar="LIST", help="Figures and tables: 8, 4-9 or fig8,tab1.")
    ] = "all",
    quick: Annotated[
        bool, typer.Option("--quick", help="A quick look: few seeds, and many claims stay inconclusive.")
    ] = False,
    alternatives: Annotated[
        bool | None,
        typer.Option(
            "--alternatives/--no-alternatives",
            help="Also run the other settings of what the paper leaves open; on, unless --quick.",
            show_default=False,
        ),
    ] = None,
    seeds: SeedsOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder of the report and the runs.")
    ] = None,
    jobs: JobsOption = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run everything again.")] = False,
    show: Annotated[bool, typer.Option("--show", help="List the claims; run nothing.")] = False,
    rejudge: Annotated[
        bool, typer.Option("--rejudge", help="Judge again what an earlier report measured; run nothing.")
    ] = False,
    html: Annotated[
        bool,
        typer.Option(
            "--html", help="Write papers.html too: one file with figures to zoom into and claims to search."
        ),
    ] = False,
    trust: TrustOption = False,
) -> None:
    """Run the figures and tables of a paper and judge its claims.

    An interrupted reproduction continues where it stopped. Without --out, everything goes into
    out/papers/PAPER below the current folder. With 'all' in place of a number every paper is run,
    each into a folder of its own, and a page compares them.
    """
    with user_errors():
        from lasthop.papers import library, tables
        from lasthop.papers.reproduce import choose, plan

        if paper is None:
            print_content(tables.papers_table(map(library.load_paper, library.paper_folders())))
            return
        chosen = None if seeds is None else parse_seeds(seeds)
        options = [
            *([f"--figure {figure}"] if figure != "all" else []),
            *(["--quick"] if quick else []),
            *([] if alternatives is None else ["--alternatives" if alternatives else "--no-alternatives"]),
            *([f"--seeds {seeds}"] if seeds is not None else []),
        ]
        also = not quick if alternatives is None else alternatives
        every = paper.strip().lower() == "all"
        if every and figure != "all":
            raise ArgumentError("--figure needs one paper: each has figures of its own")
        found = [
            library.load_paper(folder, trust=trust)
            for folder in (library.paper_folders() if every else [library.find_paper(paper)])
        ]
        if show:
            for one in found:
                wanted = {experiment.id for experiment in choose(one, figure)}
                print_content(tables.claims_table([it for it in one.claims if wanted & set(it.experiments)]))
            return
        root = out or Path("out", "papers")
        folders = {one.number: root / one.number if every or out is None else root for one in found}
        if rejudge:
            if options or fresh or html:
                raise ArgumentError("--rejudge takes the whole report as it is: no other option but --out")
            _rejudge(found, folders, root if every else None)
            return
        # Whatever is wrong is told before anything runs.
        plans = [
            plan(one, choose(one, figure), quick=quick, seeds=chosen, alternatives=also) for one in found
        ]
        _check_places(plans, folders, fresh=fresh)
        failed = 0
        for planned in plans:
            folder = folders[planned.paper.number]
            failed += _reproduce(planned, folder, options, jobs=jobs, fresh=fresh)
        _write_pages(found, folders, root if every else None, html=html)
        if failed:
            raise typer.Exit(EXIT_RUN)


def _write_pages(papers: list[Paper], folders: dict[str, Path], root: Path | None, *, html: bool) -> None:
    """Write the page that compares papers, if there is a root, and the one with figures to zoom into."""
    from lasthop.drawing import missing
    from lasthop.papers import overview, page

    if root is not None:
        note(f"all papers side by side in {overview.write(papers, folders, root)}")
    if html and missing() is not None:
        note(f"no {page.PAGE} without them")
    elif html:
        target = (folders[papers[0].number] if root is None else root) / page.PAGE
        note(f"figures and claims in {page.write(papers, folders, target)}")


def _rejudge(papers: list[Paper], folders: dict[str, Path], root: Path | None) -> None:
    """Judge papers again from the figures of their reports; with a root, write the page on all of them."""
    from lasthop.papers import overview, readings, report, tables

    for paper in papers:
        folder = folders[paper.number]
        print_content(tables.counts_table(paper, report.rejudge(paper, folder)))
        say(readings.in_short(paper, readings.read(paper, folder / readings.READINGS)))
        note(f"report in {folder / report.REPORT}")
    if root is not None:
        note(f"all papers side by side in {overview.write(papers, folders, root)}")


def _check_places(plans: list[Plan], folders: dict[str, Path], *, fresh: bool) -> None:
    """Refuse folders of something else, or of another version of the engine, before any is made."""
    from lasthop.papers.reproduce import check_made_by_this

    for planned in () if fresh else plans:
        check_made_by_this(planned, folders[planned.paper.number])
    for folder in folders.values():
        files.check_folder(folder)
        refuse_other(folder, "reproduction", "study")


def _reproduce(planned: Plan, folder: Path, options: list[str], *, jobs: int | None, fresh: bool) -> int:
    """Run and judge one paper, write its report, and return how many runs failed."""
    from lasthop.drawing import missing
    from lasthop.papers import report, tables
    from lasthop.papers.reproduce import carry_out

    with shown_progress("runs") as observer:
        reproduction = carry_out(planned, folder, jobs=jobs, observer=observer, fresh=fresh, note=note)
    report.write(reproduction, folder, " ".join(["lasthop reproduce", planned.paper.number, *options]))
    print_content(tables.verdicts_table(reproduction))
    note(f"report in {folder / report.REPORT}")
    if (lack := missing()) is not None:
        note(f"it has no figures: {lack}")
    if reproduction.failed:
        note(f"{len(reproduction.failed)} runs failed; {folder / report.REPORT} names them")
    return len(reproduction.failed)
