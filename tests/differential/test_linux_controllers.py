"""The controllers of ns-2's Linux agent: the same windows and goodput, within the bounds of the validation.

`make validate` compares more networks, and with ns-3; its page is docs/reference/validation-senders.md.
"""

from __future__ import annotations

import shutil

import pytest
from validation import senders

pytestmark = pytest.mark.skipif(
    shutil.which("ns") is None, reason="ns-2 is not installed (Debian package ns2)"
)


@pytest.mark.parametrize("pair", senders.LINUX_PAIRS, ids=lambda pair: pair.sender)
def test_windows_and_goodput_agree(pair: senders.Pair) -> None:
    compared = list(senders.against_ns2(pair, random=False))
    assert [one.case for one in compared] == ["one flow", "listed losses"]
    for one in compared:
        assert not one.outside(), f"{one.key}: lasthop {one.ours}, ns-2 {one.theirs}"
