"""What a packet-hop costs, in instructions: a change that makes the engine slower is seen on any machine."""

from __future__ import annotations

import shutil
import sys
import tomllib
from pathlib import Path

import pytest
from bench import cost

#: More is a change of the engine; less than that comes from Python and the library of C.
WITHIN = 0.02

HELD = tomllib.loads(cost.COUNTS.read_text(encoding="utf-8"))


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
@pytest.mark.skipif(cost.compiler() != HELD["compiler"], reason=f"the count is of {HELD['compiler']}")
def test_a_packet_hop_takes_as_many_instructions_as_before() -> None:
    """A wireless dumbbell, counted in the module that Python loads, as `make build` makes it."""
    count = cost.small_count(Path(sys.executable))
    held = HELD["instructions"]
    assert abs(count / held - 1) < WITHIN, (
        f"{count:.1f} instructions per packet-hop, {held} before; if that is meant, say why in the commit: "
        "'make bench-cost' writes the new figures"
    )


def test_every_file_of_the_engine_has_a_part() -> None:
    """What is new in the engine does not hide in the library."""
    root = cost.ROOT / "crates"
    for crate in ("lasthop-core", "lasthop-net", "lasthop-cc"):
        for file in (root / crate / "src").rglob("*.rs"):
            assert cost.part_of(str(file)) != cost.LIBRARY, file
