"""The report of a study: one HTML file with figures, tables and fingerprints, that needs no network.

Called by `lasthop study report`. What it says comes from `digest`; the page is `templates/report.html`, where
everything is escaped but the figures and plotly's own code.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from lasthop import files
from lasthop.errors import ArgumentError
from lasthop.quantities import number_text, quantity
from lasthop.scenario import toml_value
from lasthop.studies.digest import failed_rows, series_columns
from lasthop.studies.plot import PAGE_CONFIG, chart_page

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import polars as pl
    from markupsafe import Markup

    from lasthop.columns import Metric
    from lasthop.studies.charts import Chart
    from lasthop.studies.digest import Digest
    from lasthop.studies.parts import Axis

#: Columns of the list of runs, if the table has them.
RUN_COLUMNS = ("seed", "state", "run", "fingerprint", "packet_hops", "wall_s", "engine_version")
#: Width below which a panel of several is not readable, in CSS pixels.
PANEL_PX = 210
#: More seeds than this are not listed one by one.
SEEDS_MAX = 30
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def write_report(
    digest: Digest,
    path: Path,
    *,
    table: pl.DataFrame | None = None,
    series: Mapping[str, pl.DataFrame] | None = None,
    versions: Mapping[str, str] | None = None,
    wanted: int | None = None,
    remarks: Sequence[str] = (),
) -> None:
    """Write the report, whole or not at all.

    Parameters are those of `report_html`.
    """
    text = report_html(digest, table=table, series=series, versions=versions, wanted=wanted, remarks=remarks)
    files.write_text(path, text)


def report_html(
    digest: Digest,
    *,
    table: pl.DataFrame | None = None,
    series: Mapping[str, pl.DataFrame] | None = None,
    versions: Mapping[str, str] | None = None,
    wanted: int | None = None,
    remarks: Sequence[str] = (),
) -> str:
    """Return the report as the text of one HTML file.

    Parameters
    ----------
    digest : Digest
        What to report on.
    table : polars.DataFrame, optional
        All runs, those included that the digest does not look at; the digest's own if not given.
    series : mapping, optional
        Kept series by name.
    versions : mapping, optional
        What made the results, by name.
    wanted : int, optional
        How many runs the study asks for; points times seeds if not given.
    remarks : sequence of str
        What its runs show that no metric does.
    """
    study = digest.study
    table = digest.table if table is None else table
    failed = failed_rows(table, digest.axes)
    present = [name for name in RUN_COLUMNS if name in table.columns]
    return render(
        "report.html",
        title=study.title,
        subtitle=_subtitle(digest, table),
        warnings=[
            *_warnings(digest, table, wanted or len(study.points()) * len(study.seeds)),
            *remarks,
        ],
        axes=[_axis(axis) for axis in study.axes],
        seeds=_seeds(study.seeds),
        chosen=digest.chosen_text if any(len(study.axis(a).values) > 1 for a in digest.chosen) else "",
        baseline=digest.baseline_text,
        metrics=[_metric(digest, metric, place) for place, metric in enumerate(digest.metrics, start=1)],
        series=_series(digest, series or {}),
        failed=[[_shown(value) for value in row.values()] for row in failed],
        failed_columns=list(failed[0]) if failed else [],
        total=table.height,
        definitions=[_definition(metric) for metric in study.metrics],
        settings=[(key, _toml(value)) for key, value in (study.settings | study.arguments).items()],
        versions=list((versions or {}).items()),
        scenario=scenario_text(study.to_dict()["scenario"]),
        runs_text=_runs_text(table),
        run_columns=[*digest.axes, *present],
        runs=[[_shown(value) for value in row] for row in table.select(*digest.axes, *present).iter_rows()],
    )


def render(template: str, **content: Any) -> str:  # noqa: ANN401 - whatever the template shows
    """Return a page of the package's templates: one HTML file that needs no network.

    Parameters
    ----------
    template : str
        Name of the file. Whatever it shows is escaped, but what comes as markup, such as `figure`.
    content : dict
        What it shows.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    places = ChoiceLoader([PackageLoader("lasthop.studies"), PackageLoader("lasthop.papers")])
    environment = Environment(loader=places, autoescape=True, undefined=StrictUndefined)
    return environment.get_template(template).render(
        **content,
        config=Markup(json.dumps(PAGE_CONFIG)),  # noqa: S704 - our own
        plotly=Markup(get_plotlyjs()),  # noqa: S704 - plotly's own code
    )


def scenario_text(content: Mapping[str, Any] | str) -> str:
    """Write a scenario as TOML that can be read; the name of a file is left as it is.

    Examples
    --------
    >>> print(scenario_text({"duration": "1 s", "tcp": {"mss": 1}, "flows": [{"count": 2}]}))
    duration = "1 s"
    <BLANKLINE>
    [tcp]
    mss = 1
    <BLANKLINE>
    [[flows]]
    count = 2
    """
    if isinstance(content, str):
        return content
    plain: list[str] = []
    tables: list[str] = []
    for key, value in content.items():
        if isinstance(value, dict):
            tables += ["", f"[{_key(key)}]", *_entries(value)]
        elif isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            for one in value:
                tables += ["", f"[[{_key(key)}]]", *_entries(one)]
        else:
            plain.append(f"{_key(key)} = {_toml(value)}")
    return "\n".join([*plain, *tables]).strip("\n")


def _entries(table: Mapping[str, Any]) -> list[str]:
    return [f"{_key(key)} = {_toml(value)}" for key, value in table.items()]


def _toml(value: object) -> str:
    """Write a value, with bare keys where TOML allows them."""
    if isinstance(value, dict):
        return f"{{ {', '.join(_entries(value))} }}" if value else "{}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    return toml_value(value)


def _key(name: str) -> str:
    return name if BARE_KEY.fullmatch(name) else toml_value(name)


def _metric(digest: Digest, metric: Metric, place: int) -> dict[str, Any]:
    chart, problem = None, "No run has a value of this metric."
    if digest.is_drawable(metric):
        try:
            chart = digest.chart(metric)
        except ArgumentError as error:
            problem = f"There is no figure: {error}."
    means, changes = digest.means(metric), digest.changes(metric)
    unit = f" in {means.unit}" if means.unit else ""
    interval = "" if digest.seeds == "one seed" else " ± 95 % interval"
    return {
        "label": metric.label,
        "direction": {True: "higher is better", False: "lower is better", None: ""}[metric.higher_is_better],
        "note": "" if chart is None else chart.note,
        "problem": problem,
        "figure": None if chart is None else _figure(chart, f"figure-{place}"),
        "means": means,
        "means_caption": f"mean{interval}{unit}, {digest.seeds}",
        "changes": changes,
        "changes_caption": "95 % interval of the paired difference, as a share of the baseline's mean",
    }


def _series(digest: Digest, series: Mapping[str, pl.DataFrame]) -> list[dict[str, Any]]:
    drawn: list[dict[str, Any]] = []
    for name, table in series.items():
        for column in series_columns(table, digest.axes):
            if table[column].null_count() == table.height:
                continue
            try:
                chart = digest.series_chart(table, column)
            except ArgumentError as error:
                problem = f"There is no figure: {error}."
                drawn.append({"label": column, "note": "", "figure": None, "problem": problem})
                continue
            figure = _figure(chart, f"series-{len(drawn) + 1}")
            label = chart.title if chart.title == name else f"{chart.title} ({name})"
            drawn.append({"label": label, "note": chart.note, "figure": figure, "problem": ""})
    return drawn


def _figure(chart: Chart, place: str) -> dict[str, Any]:
    """Return the data of a figure as a script that runs nothing, and how wide it must be."""
    return {"script": figure_script(figure_json(chart), place), "width": figure_width(chart)}


def figure_json(chart: Chart) -> str:
    """Return a chart as plotly takes it, as JSON."""
    from plotly.io import to_json

    return str(to_json(chart_page(chart, titled=False), validate=False))


def figure_width(chart: Chart) -> int:
    """Return below which width a figure is scrolled, in CSS pixels."""
    return PANEL_PX * chart.columns + 90 if chart.columns > 1 else 300


def figure_script(text: str, place: str) -> Markup:
    """Return the JSON of a figure as a script that runs nothing, for the element with the id `place`."""
    from markupsafe import Markup

    # Inside a script element nothing is escaped: no character may look like its end.
    safe = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return Markup('<script type="application/json" data-figure="{}">{}</script>').format(
        place,
        Markup(safe),  # noqa: S704 - made safe above
    )


def _axis(axis: Axis) -> dict[str, Any]:
    unit = f" {axis.unit}" if axis.unit else ""
    return {"label": axis.label, "stands_at": ", ".join(axis.labels) + unit, "sets": list(axis.keys)}


def _definition(metric: Metric) -> dict[str, str]:
    of = {"flows": "flows", "links": "links", "totals": "run"}.get(metric.source, metric.source)
    rows = f" whose name fits {metric.where}" if metric.where else ""
    where = f"of the {of}{rows}"
    if metric.source != "totals":
        where = {
            "bottleneck": "of the bottleneck link",
            "jain": f"Jain's index over the {of}{rows}",
            "cv": f"coefficient of variation over the {of}{rows}",
        }.get(metric.by, f"{metric.by} over the {of}{rows}")
    scale = f", times {number_text(metric.scale)}" if metric.scale != 1 else ""
    return {
        "name": metric.name,
        "label": metric.label,
        "unit": metric.unit or "-",
        "what": f"{metric.field}, {where}{scale}",
        "good": {True: "higher", False: "lower", None: "-"}[metric.higher_is_better],
    }


def _subtitle(digest: Digest, table: pl.DataFrame) -> str:
    parts = [f"study {digest.study.name}", _counted(table.height, "run"), digest.seeds + " per point"]
    if "engine_version" in table.columns:
        made = ", ".join(str(one) for one in table["engine_version"].drop_nulls().unique().sort())
        parts.append(f"engine {made}")
    return " · ".join(parts)


def _warnings(digest: Digest, table: pl.DataFrame, wanted: int) -> list[str]:
    warnings = []
    failed = len(failed_rows(table, digest.axes))
    if failed:
        warnings.append(f"{_counted(failed, 'run')} of {table.height} failed: their errors are below.")
    if table.height < wanted:
        warnings.append(
            f"{table.height} of {wanted} runs are there: 'lasthop study run --resume' makes the others."
        )
    if digest.seeds == "one seed":
        warnings.append(
            "There is one seed per point: no intervals, and no difference can be shown. Use more seeds."
        )
    return warnings


def _runs_text(table: pl.DataFrame) -> str:
    parts = [_counted(table.height, "run")]
    if "packet_hops" in table.columns:
        parts.append(f"{int(table['packet_hops'].fill_null(0).sum()):,} packet-hops")
    if "wall_s" in table.columns:
        parts.append(f"{quantity(float(table['wall_s'].fill_null(0.0).sum()), 's')} of computing time")
    return ", ".join(parts) + "."


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _seeds(seeds: Sequence[int]) -> str:
    if len(seeds) > SEEDS_MAX:
        return f"{len(seeds)} seeds from {min(seeds)} to {max(seeds)}"
    return ", ".join(map(str, seeds))


def _shown(value: object) -> str:
    if value is None:
        return "-"
    return number_text(value, 3) if isinstance(value, float) else str(value)
