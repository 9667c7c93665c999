"""The commands that look at results: `lasthop study show`, `plot` and `report`.

Reads arguments, calls `digest`, `show` and `report`, prints. Registered by `study`. It runs nothing and
writes nothing but the figures and the page that it is asked for.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lasthop.arguments import complete_metrics, complete_tables
from lasthop.commands.options import TABLE_HELP, ModelOption, StyleOption
from lasthop.stand_ins import unexecuted
from lasthop.terminal import doing, note, print_content, say, user_errors

if TYPE_CHECKING:
    from lasthop.studies import StudyResult
    from lasthop.studies.digest import Digest

StudyPlace = Annotated[
    Path,
    typer.Argument(
        metavar="DIR|FILE", help="Folder of a study, or its file: then out/NAME.", show_default=False
    ),
]
NameOption = Annotated[
    str | None, typer.Option("--study", metavar="NAME", help="Which study, in a folder of several.")
]
MetricOption = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        help="This metric only; may be repeated.",
        autocompletion=complete_metrics,
    ),
]
XOption = Annotated[str | None, typer.Option("--x", metavar="AXIS", help="Axis along x.")]
LinesOption = Annotated[
    str | None, typer.Option("--lines", metavar="AXIS", help="Axis whose values are lines, or columns.")
]
WhereOption = Annotated[
    list[str] | None,
    typer.Option("--where", metavar="AXIS=VALUE", help="Only these points; may be repeated."),
]
BaselineOption = Annotated[
    list[str] | None,
    typer.Option("--baseline", metavar="AXIS=VALUE", help="Baseline of the differences: proto=reno."),
]


def show_study(
    place: StudyPlace,
    name: NameOption = None,
    metrics: MetricOption = None,
    x: XOption = None,
    lines: LinesOption = None,
    where: WhereOption = None,
    baseline: BaselineOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: every estimate in full.")] = False,
    table: Annotated[
        str | None,
        typer.Option(
            "--table",
            "--format",
            metavar="NAME",
            help=TABLE_HELP,
            autocompletion=complete_tables,
        ),
    ] = None,
) -> None:
    """Show means with 95 % intervals, and paired differences from the baseline."""
    with user_errors():
        from rich.text import Text

        from lasthop.formats import check_table_format, digest_text
        from lasthop.studies import remarks
        from lasthop.studies.show import digest_tables

        if table is not None:
            check_table_format(table)
        found = _load(place, name)
        made = _digest(found, metrics, x, lines, where, baseline)
        if as_json:
            say(json.dumps(made.to_dict() | {"versions": found.versions}))
        elif table is not None:
            say(digest_text(made, table), nl=False)
        else:
            print_content(digest_tables(made))
            for remark in remarks.of_runs(found):
                print_content(Text(remark, style="yellow"))


def plot_study(
    place: StudyPlace,
    name: NameOption = None,
    metrics: MetricOption = None,
    series: Annotated[
        list[str] | None,
        typer.Option("--series", metavar="NAME", help="This kept table over time; may be repeated."),
    ] = None,
    x: XOption = None,
    lines: LinesOption = None,
    where: WhereOption = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", metavar="N", help="Draw one seed of the series instead of the mean."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR|FILE",
            help="Folder or file of the figures; 'figures' in the study's folder if not given.",
        ),
    ] = None,
    picture_format: Annotated[
        str | None,
        typer.Option("--format", metavar="NAME", help="png, svg, pdf or html; png, for a paper pdf."),
    ] = None,
    style: StyleOption = "screen",
    law: ModelOption = None,
) -> None:
    """Draw a figure per metric, and per kept series, with 95 % intervals.

    The axis of the baseline becomes lines; further axes become panels.
    """
    from lasthop.for_paper import styled

    with user_errors(), unexecuted(), styled(style):
        from dataclasses import replace

        from lasthop.studies.show import write_figures

        if law is not None:
            _check_law(law, place)
        found = _load(place, name)
        made = _digest(found, metrics, x, lines, where, None)
        if law is not None:
            from lasthop.studies import Study

            made = replace(made, study=Study.load(place))
        if series and not metrics:
            made = replace(made, metrics=[])
        wanted = series or ([] if metrics else [keep.name for keep in found.study.keep])
        target = out or _own_folder(found) / "figures"
        kept = {one: found.series(one) for one in wanted}
        for path in write_figures(made, target, picture_format, series=kept, seed=seed, law=law):
            say(f"written: {path}")


def report_study(
    place: StudyPlace,
    name: NameOption = None,
    x: XOption = None,
    lines: LinesOption = None,
    where: WhereOption = None,
    baseline: BaselineOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="The page; report.html in the folder if not given."),
    ] = None,
) -> None:
    """Write one HTML file with figures, tables, settings and fingerprints; it needs no network."""
    with user_errors():
        from lasthop import files
        from lasthop.studies import remarks
        from lasthop.studies.report import write_report

        found = _load(place, name)
        target = out or _own_folder(found) / "report.html"
        files.check_file(target)
        made = _digest(found, None, x, lines, where, baseline)
        kept = {keep.name: found.series(keep.name) for keep in found.study.keep}
        write_report(
            made,
            target,
            table=found.table,
            series=kept,
            versions=found.versions,
            wanted=found.wanted,
            remarks=remarks.of_runs(found),
        )
        say(f"written: {target}")


def register(study_app: typer.Typer) -> None:
    """Add the three commands to ``lasthop study``."""
    study_app.command("show")(show_study)
    study_app.command("plot")(plot_study)
    study_app.command("report")(report_study)


def _load(place: Path, name: str | None) -> StudyResult:
    from lasthop.studies import Study, load
    from lasthop.studies.content import read_content

    doing("reading the results ...")
    if not place.is_file():
        return load(place, name)
    # Only its name is needed: no scenario is read for that, and no sender loaded.
    study = Study.parse(read_content(place), file=str(place), check=False)
    return load(Path("out") / study.name, name or study.name)


def _check_law(law: str, place: Path) -> None:
    from lasthop.errors import ArgumentError
    from lasthop.laws import find

    find(law)
    if not place.is_file():
        raise ArgumentError(
            f"--model needs the scenario of every point, and '{place}' is a folder of results: "
            "give the file of the study"
        )


def _digest(
    found: StudyResult,
    metrics: list[str] | None,
    x: str | None,
    lines: str | None,
    where: list[str] | None,
    baseline: list[str] | None,
) -> Digest:
    from lasthop.studies.digest import make_digest
    from lasthop.studies.show import parse_places

    made = make_digest(
        found.study,
        found.table,
        metrics=metrics or [],
        x=x,
        lines=lines,
        where=parse_places("--where", where or []),
        baseline=parse_places("--baseline", baseline or []),
    )
    missing = found.wanted - found.table.height
    if missing > 0:
        held = found.unfolded
        note(
            f"{missing} of {found.wanted} runs are missing: 'lasthop study run --resume' makes them"
            if not held
            else f"{missing} of {found.wanted} runs are not in the table, of which the folder holds {held}: "
            "'lasthop study merge' puts these in, 'lasthop study run --resume' makes the others"
        )
    return made


def _own_folder(found: StudyResult) -> Path:
    """Return the folder that describes the study: its own, or that inside a folder of many."""
    inside = found.folder / "studies" / found.study.name
    return inside if inside.is_dir() else found.folder
