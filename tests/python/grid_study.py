"""A study of eight runs that the tests of studies share, and how they ask about it; `conftest` makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lasthop as lh

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl
    from typer.testing import Result

STUDY = """\
name     = "grid"
scenario = "small.toml"
seeds    = "1-2"
metrics  = ["goodput_bit_s", "timeouts"]

[set]
"duration" = "2 s"

[[axes]]
name   = "loss"
key    = "channel.error.packet_error_rate"
values = [0, 0.01]

[[axes]]
name   = "proto"
points = [
  { name = "reno", set = { "flows.0.transport" = "reno" } },
  { name = "vegas", set = { "flows.0.transport" = "vegas" } },
]
"""
#: Columns that say when and where a run was made, not what came out.
INCIDENTAL = ["wall_s"]


def outcome(folder: str | Path = "out/grid") -> pl.DataFrame:
    """Return what came out of a study, without what differs from one time to the next."""
    return lh.studies.load(folder).table.drop(INCIDENTAL)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".lock")
    }


def ok(result: Result) -> Result:
    assert result.exit_code == 0, result.output
    return result


def changed(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
