"""The sub-command ``lasthop study``: run a study, fold its shards, write one to start from.

Reads arguments, calls `lasthop.studies`, prints. Registered by `lasthop.cli`.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lasthop import terminal
from lasthop.commands import study_views
from lasthop.commands.options import JobsOption, SeedsOption, SetOption, TrustOption
from lasthop.errors import ArgumentError, OutputError, RunError
from lasthop.stand_ins import unexecuted
from lasthop.terminal import user_errors
from lasthop.visible import typed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lasthop.studies import Study, StudyResult
    from lasthop.studies.execute import Campaign

#: Failed runs that a message names.
NAMED_MAX = 10

study_app = typer.Typer(
    name="study",
    help="Run a scenario over a grid of settings and seeds, with resume, and look at the results.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    epilog="Start with 'lasthop study new', then 'lasthop study run study.toml'.",
)
study_views.register(study_app)

StudyFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="Study file (TOML or JSON).", show_default=False)
]
FolderOption = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Folder of the results; out/NAME if not given."),
]


@study_app.command("run")
def run_study(
    file: StudyFile,
    out: FolderOption = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue in a folder that holds runs already.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Move the existing folder aside and start anew.")
    ] = False,
    jobs: JobsOption = None,
    shard: Annotated[
        str | None,
        typer.Option("--shard", metavar="I/N", help="Run only this part of the study: 1/8 to 8/8."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", metavar="ADDRESS", help="Send the runs to this Dask scheduler."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="TEXT", help='Add seeds until "METRIC SHARE%" holds: "goodput 2%".'),
    ] = None,
    seeds_max: Annotated[
        int | None,
        typer.Option(
            "--max-seeds", min=1, metavar="N", help="With --until: maximum seeds per point; 100 if not given."
        ),
    ] = None,
    seeds: SeedsOption = None,
    settings: SetOption = None,
    trust: TrustOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would run; run and write nothing.")
    ] = False,
) -> None:
    """Run the missing runs of a study on all cores.

    Finished runs are never repeated. After Ctrl-C or a crash, --resume continues. A failed run is kept by
    name while the others continue; the exit code is then 1, and --resume tries it again.
    """
    with user_errors(), unexecuted() if dry_run else nullcontext():
        from lasthop.progress import shown_progress
        from lasthop.studies import Shard, Until, execute, remarks

        if resume and fresh:
            raise ArgumentError("--resume and --fresh exclude each other: give one")
        if seeds_max is not None and until is None:
            raise ArgumentError("--max-seeds limits --until: give both")
        part = None if shard is None else Shard.parse(shard)
        goal = None if until is None else Until.parse(until)
        study = _load(file, seeds, settings, trust=trust)
        _remark_on_one_seed(study)
        for sentence in remarks.of_scenarios(study):
            terminal.note(f"note: {sentence}")
        folder = out or _default_folder(study)
        most = execute.SEEDS_MAX if seeds_max is None else seeds_max
        if dry_run:
            campaign = execute.prepare([study], folder, single=True, until=goal, seeds_max=most)
            _describe_plan(campaign, part)
            return
        with shown_progress("runs") as observer:
            result = execute.run(
                study,
                folder,
                jobs=jobs,
                observer=observer,
                resume=resume,
                fresh=fresh,
                shard=part,
                cluster=cluster,
                until=goal,
                seeds_max=most,
                note=terminal.note,
            )
        _conclude(result, part)


@study_app.command("merge")
def merge_study(
    file: StudyFile,
    out: FolderOption = None,
    seeds: SeedsOption = None,
    settings: SetOption = None,
) -> None:
    """Merge the results of shards into tables; runs nothing.

    The exit code is 1 while runs are missing.
    """
    with user_errors(), unexecuted():
        from lasthop.studies import execute
        from lasthop.studies.folder import has_results

        study = _load(file, seeds, settings)
        folder = out or _default_folder(study)
        if not has_results(folder):
            raise OutputError(
                f"nothing to merge: '{folder}' holds no runs; name the folder of the shards with --out, or "
                "make them with 'lasthop study run'"
            )
        result = execute.run(study, folder, execute=False, note=terminal.note)
        _conclude(result, None)


@study_app.command("new")
def new_study(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the study.")] = "study",
) -> None:
    """Write a commented study and its scenario to start from; never overwrites."""
    with user_errors():
        from lasthop.starter import write_study_starter

        path = write_study_starter(name)
        scenario = path.with_name(f"{path.stem}-scenario.toml")
        terminal.say(f"written: {path}, {scenario}\nnext:    lasthop study run {typed(path)}")


def _load(file: Path, seeds: str | None, settings: list[str] | None, *, trust: bool = False) -> Study:
    from lasthop.arguments import parse_seeds, parse_settings
    from lasthop.studies import Study

    study = Study.load(file, arguments=parse_settings(settings or []), trust=trust)
    return study if seeds is None else study.with_seeds(parse_seeds(seeds))


def _default_folder(study: Study) -> Path:
    return Path("out") / study.name


def _describe_plan(campaign: Campaign, shard: object) -> None:
    """Print how many runs there are, and how many of them the folder holds."""
    from lasthop.studies.execute import adopt_seeds, holdings
    from lasthop.studies.locks import Shard
    from lasthop.studies.store import Store

    study = campaign.studies[0]
    store = Store(campaign.folder)
    further = adopt_seeds(campaign, store)
    grid = " x ".join(f"{axis.name} {len(axis.values)}" for axis in study.axes) or "no axes"
    points = len(campaign.cells[study.name])
    held = holdings(campaign, store)
    terminal.say(f"{study.name}: {study.title}")
    terminal.say(f"  points  {points} ({grid})")
    terminal.say(
        f"  seeds   {len(study.seeds)} each" + (f", and {further} runs of further seeds" if further else "")
    )
    terminal.say(f"  runs    {held.wanted}, of which {held.done} are in {campaign.folder}")
    if held.failed:
        terminal.say(f"  failed  {held.failed}, to be tried again")
    if isinstance(shard, Shard):
        mine = sum(shard.holds(run) for run in campaign.tasks())
        terminal.say(f"  shard   {shard.index}/{shard.count} has {mine} of the runs")
    terminal.say(f"  metrics {', '.join(metric.name for metric in study.metrics)}")


def _remark_on_one_seed(study: Study) -> None:
    """Say what a bare number means, which may have been meant as how many."""
    seed = study.content.get("seeds")
    if isinstance(seed, int) and seed > 1:
        terminal.note(f'note: seeds = {seed} is one seed, number {seed}; {seed} seeds are seeds = "1-{seed}"')


def _conclude(result: StudyResult, shard: object) -> None:
    """Say what is there, and fail if something asked for is not."""
    from lasthop.studies import remarks

    done = result.done
    failed = result.failed
    if shard is not None:
        terminal.note(
            f"shard done: {done} of {result.wanted} runs in {result.folder} are known to it; after the last "
            "shard, 'lasthop study merge' makes the tables"
        )
    else:
        asked = len(result.study.points()) * len(result.study.seeds)
        further = result.wanted - asked
        more = f", {further} of them with seeds that the study does not name" if further > 0 else ""
        terminal.note(f"results in {result.folder}: {done} of {result.wanted} runs{more}")
        for sentence in remarks.of_runs(result):
            terminal.note(f"note: {sentence}")
    troubles = []
    if failed:
        named = "".join(f"\n  {failure}" for failure in failed[:NAMED_MAX])
        more = f"\n  and {len(failed) - NAMED_MAX} more" if len(failed) > NAMED_MAX else ""
        troubles.append(
            f"{len(failed)} of {result.wanted} runs failed; --resume tries them again{named}{more}"
        )
    missing = result.wanted - done - len(failed)
    if missing and shard is None:
        troubles.append(
            f"{missing} of {result.wanted} runs are missing: 'lasthop study run --resume' makes them"
        )
    if result.unmet:
        what = f"--until was not reached at {len(result.unmet)} points"
        troubles.append(what + _listed(result.unmet))
    if troubles:
        sys.stdout.flush()
        raise RunError("\n".join(troubles))


def _listed(lines: Iterable[str]) -> str:
    """Return the first few on lines of their own."""
    named = list(lines)
    more = [f"and {len(named) - NAMED_MAX} more"] if len(named) > NAMED_MAX else []
    return "".join(f"\n  {line}" for line in named[:NAMED_MAX] + more)
