"""Names that change together: a process that is killed among them leaves what the next reader completes."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lasthop as lh
from lasthop import unfinished

if TYPE_CHECKING:
    from collections.abc import Callable

SHORT = {**lh.Scenario(lh.EXAMPLE).to_dict(), "duration": "1 s"}


def die_at(nth: int) -> Callable[..., Path]:
    """Return a `Path.replace` whose n-th call ends the process before it does anything."""
    replace, calls = Path.replace, []

    def dying(path: Path, target: Path) -> Path:
        calls.append(path)
        if len(calls) == nth:
            os._exit(9)
        return replace(path, target)

    return dying


def killed(act: Callable[[], None], nth: int) -> bool:
    """Do something in a process that ends at its n-th change of a name; whether it came so far."""
    child = os.fork()
    if child == 0:
        Path.replace = die_at(nth)  # type: ignore[method-assign]
        act()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_kill_between_two_names_leaves_old_or_new_results(tmp_path: Path) -> None:
    """At every name: new seeds, fewer tables, other captures."""
    old = lh.run_seeds(SHORT, [9], series=True, trace=True)
    new = lh.run_seeds(SHORT, [1, 2], trace=True)
    seen, nth = set(), 0
    while True:
        nth += 1
        folder = tmp_path / str(nth)
        old.save(folder)
        if not killed(lambda folder=folder: new.save(folder, force=True), nth):
            break
        shown = lh.load_runs(folder)
        assert shown.seeds in ([9], [1, 2]), nth
        seen.add(len(shown))
        assert shown[0].has_table("flow_series") == (shown.seeds == [9])
        assert shown[0].table("hops").height > 0
        captures = {file.name for file in folder.glob("capture*.pcapng")}
        assert captures == (
            {"capture.pcapng"} if shown.seeds == [9] else {"capture-1.pcapng", "capture-2.pcapng"}
        )
        new.save(folder, force=True)
        assert not list(folder.glob(f"{unfinished.PREFIX}*"))
    assert seen == {1, 2}
    assert nth > 4


@pytest.mark.parametrize(
    "plan",
    [
        {"names": {".lasthop-x": "../mine"}, "gone": []},
        {"names": {"notes": "mine"}, "gone": []},
        {"names": {}, "gone": ["../outside"]},
        {"names": {}, "gone": ["/etc/hostname"]},
        {"names": [], "gone": 7},
        "nothing",
    ],
)
def test_the_plan_of_a_foreign_folder_does_nothing_elsewhere(tmp_path: Path, plan: object) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    for file in (tmp_path / "outside", folder / "notes", folder / ".lasthop-x"):
        file.write_text(file.name)
    (folder / unfinished.PLAN).write_text(json.dumps(plan))
    unfinished.finish(folder)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["outside", "results"]
    assert (folder / "notes").read_text() == "notes"


def test_a_plan_counts_where_it_was_made(tmp_path: Path) -> None:
    """A copied or unpacked folder has other numbers: the plan in it, true to the letter, does nothing."""
    folder, copy = tmp_path / "results", tmp_path / "copy"
    folder.mkdir()
    new, old = folder / ".lasthop-abcdefgh.parquet", folder / "old.csv"
    new.write_text("new")
    old.write_text("old")
    with unfinished.Together() as together:
        together._ready[folder / "flows.parquet"] = new  # noqa: SLF001 - as a killed process leaves it
        together._write_plan(folder, [old])  # noqa: SLF001
    shutil.copytree(folder, copy)
    before = sorted(file.name for file in copy.iterdir())
    unfinished.finish(copy)
    assert sorted(file.name for file in copy.iterdir()) == before
    # What stands by a name now is another file than the one that was to go.
    old.rename(tmp_path / "moved")
    old.write_text("mine")
    unfinished.finish(folder)
    assert sorted(file.name for file in folder.iterdir()) == ["flows.parquet", "old.csv"]


def test_what_is_called_much_like_ours_is_left_alone(tmp_path: Path) -> None:
    """Folders of the user, and what never answers."""
    (tmp_path / ".lasthop-mydata").mkdir()
    (tmp_path / ".lasthop-mydata" / "thesis.tex").write_text("mine")
    os.mkfifo(tmp_path / unfinished.PLAN)
    os.mkfifo(tmp_path / ".lasthop-abcdefgh")
    unfinished.sweep(tmp_path)
    assert (tmp_path / ".lasthop-mydata" / "thesis.tex").exists()


def test_the_plan_of_a_process_that_lives_is_left_to_it(tmp_path: Path) -> None:
    with unfinished.Together() as together:
        temporary = together.file(tmp_path / "flows.parquet")
        temporary.write_text("new")
        together._write_plan(tmp_path, [])  # noqa: SLF001 - as `settle` does
        unfinished.finish(tmp_path)
        assert not (tmp_path / "flows.parquet").exists()
        together.settle([])
    assert [file.name for file in tmp_path.iterdir()] == ["flows.parquet"]
