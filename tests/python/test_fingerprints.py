"""What runs do is pinned: a change of one fingerprint is a decision with a reason, never a side effect.

The files lie in `tests/pins`; `tools/pins.py` makes and reads them. Here runs what takes seconds: every ready
scenario and study, and the figures of a paper that between them have every sender, wired and wireless. `make
pins-check` compares the rest.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
pins = SimpleNamespace(**runpy.run_path(str(ROOT / "tools" / "pins.py")))

#: Scenarios of which one seed is enough here: each takes seconds.
LONG = {"many-flows"}

#: Wireless senders over error rates, wireless probes over flows, a wired queue over time.
FIGURES = "fig5,fig14,fig24"


def compare(file: str, made: dict[str, list[str]]) -> None:
    assert made
    changed = pins.differences(pins.pinned(file), made)
    remedy = "if this is meant: make pins, and say in the commit why the new runs are right"
    assert not changed, "\n".join([*changed, remedy])


@pytest.mark.parametrize("file", pins.files("scenarios"), ids=lambda file: file.stem)
def test_scenarios_do_what_is_pinned(file: Path) -> None:
    compare("scenarios.txt", pins.of_scenario(file, "1" if file.stem in LONG else pins.SEEDS))


@pytest.mark.parametrize("file", pins.files("studies"), ids=lambda file: file.stem)
def test_studies_do_what_is_pinned(file: Path) -> None:
    compare("studies.txt", pins.of_study(file))


@pytest.mark.parametrize("number", pins.PAPERS)
def test_papers_do_what_is_pinned(number: str) -> None:
    compare(f"paper-{number}.txt", pins.of_paper(number, FIGURES))


def test_a_changed_run_is_named() -> None:
    wanted = {"chain": ["aa", "bb"], "video n=1": ["cc"]}
    assert pins.differences(wanted, {"chain": ["aa"]}) == []
    assert pins.differences(wanted, {"chain": ["aa", "cc"], "new": ["dd"]}) == [
        "chain, seed 2: pinned bb, now cc",
        "new: 1 seeds, but 0 pinned",
    ]


def test_every_pinned_scenario_and_study_is_there() -> None:
    names = {file.stem for folder in ("scenarios", "studies") for file in pins.files(folder)}
    listed = {name.split()[0] for file in ("scenarios.txt", "studies.txt") for name in pins.pinned(file)}
    assert listed == names
