"""What the figures of a paper call its axes, their values, its series and its settings.

The page of `lasthop view` has them from `explore`, and a `series.parquet` carries them along (`report`), so
that it says the same when it is opened alone.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lasthop.papers.reproduce import claim_axes, claim_value, read_as

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lasthop.papers.library import Paper
    from lasthop.studies import Study

#: Key of the words among the metadata of a Parquet file.
KEY = "lasthop.words"


def of_axes(paper: Paper, settings: Mapping[str, Mapping[str, Study]]) -> list[dict[str, Any]]:
    """Return what figures call the axes of the claims and their values: as studies, or as ``[words]`` say."""
    alternatives = {one.name: one for one in paper.alternatives}
    found: dict[str, dict[str, Any]] = {}
    for setting, studies in settings.items():
        read_so = read_as(paper, alternatives[setting]) if setting in alternatives else paper
        for study in studies.values():
            names = claim_axes(read_so, study)
            for axis in study.axes:
                name = names[axis.name]
                known = found.setdefault(
                    name, {"name": name, "label": axis.label, "unit": axis.unit, "values": [], "labels": []}
                )
                for value, label in zip(axis.values, axis.labels, strict=True):
                    ours = claim_value(read_so, name, value)
                    # As the kept series have it: numbers are numbers, whatever they were.
                    ours = float(ours) if isinstance(ours, (int, float)) else ours
                    if ours not in known["values"]:
                        known["values"].append(ours)
                        known["labels"].append(label)
    for name, said in paper.words.items():
        entry = {"name": name, "label": said.label, "unit": said.unit}
        found.setdefault(name, entry | {"values": list(said.values), "labels": list(said.values.values())})
    return list(found.values())


def of_series(paper: Paper, settings: Mapping[str, Mapping[str, Study]]) -> list[dict[str, Any]]:
    """Return what the series are called, with their units and what they mean."""
    return [
        {
            "name": one.name,
            "label": _label_of(paper, one.name, settings),
            "unit": "" if one.unit == "count" else one.unit,
            "scale": 1,
            "most": None,
            "help": one.means,
        }
        for one in paper.vocabulary.series.values()
    ]


def _label_of(paper: Paper, name: str, settings: Mapping[str, Mapping[str, Study]]) -> str:
    """Return what a study calls the metric of a series, or else its name in words."""
    source = paper.sources.get(name)
    metrics = (
        metric for studies in settings.values() for study in studies.values() for metric in study.metrics
    )
    label = next((one.label for one in metrics if source is not None and one.name == source.metric), None)
    return label or paper.vocabulary.series[name].in_words


def of_settings(paper: Paper) -> dict[str, str]:
    """Return the titles of the alternative settings."""
    return {one.name: one.title for one in paper.alternatives}


def about(paper: Paper, settings: Mapping[str, Mapping[str, Study]]) -> dict[str, str]:
    """Return what a Parquet file of the series says of them, so that it can be opened alone."""
    said = {
        "paper": paper.number,
        "title": paper.title or paper.subject,
        "axes": of_axes(paper, settings),
        "series": [
            {key: one[key] for key in ("name", "label", "unit", "help")} for one in of_series(paper, settings)
        ],
        "settings": of_settings(paper),
    }
    return {KEY: json.dumps(said, ensure_ascii=False)}
