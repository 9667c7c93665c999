"""The small languages of the command line."""

from __future__ import annotations

import pytest

from lasthop.arguments import parse_names, parse_seeds, parse_settings
from lasthop.errors import ArgumentError


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("1-10", list(range(1, 11))),
        ("1,3,5-7", [1, 3, 5, 6, 7]),
        (" 4 , 2 ", [4, 2]),
        ("0", [0]),
        ("18446744073709551615", [2**64 - 1]),
    ],
)
def test_seeds(text: str, seeds: list[int]) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1-", "bad --seeds '1-': '1-' is neither a number nor a range; write for example 1-10 or 1,3,5-7"),
        ("a", "bad --seeds 'a': 'a' is neither a number nor a range; write for example 1-10 or 1,3,5-7"),
        ("", "bad --seeds '': '' is neither a number nor a range; write for example 1-10 or 1,3,5-7"),
        ("1,,2", "bad --seeds '1,,2': '' is neither a number nor a range; write for example 1-10 or 1,3,5-7"),
        ("-3", "bad --seeds '-3': '-3' is neither a number nor a range; write for example 1-10 or 1,3,5-7"),
        ("5-3", "bad --seeds '5-3': the range 5-3 runs backwards, write 3-5"),
        ("1-3,2", "seed 2 is given twice: the same seed gives the same run"),
        ("1-100001", "bad --seeds '1-100001': at most 100,000 seeds in one run"),
        ("1-60000,70001-120000", "too many seeds: at most 100,000 in one call"),
        ("18446744073709551616", "bad seed 18446744073709551616: a seed is a whole number from 0 to 2^64-1"),
    ],
)
def test_bad_seeds(text: str, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        parse_seeds(text)
    assert str(caught.value) == message


def test_settings_keep_what_follows_the_first_equals_sign() -> None:
    assert parse_settings(["flows.0.name=a=b", "duration = 5 s"]) == {
        "flows.0.name": "a=b",
        "duration": "5 s",
    }


@pytest.mark.parametrize("setting", ["duration", "=5 s", "duration=", ""])
def test_bad_settings(setting: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        parse_settings([setting])
    assert str(caught.value) == (
        f"bad --set '{setting}': write KEY=VALUE, for example --set flows.0.transport=vegas"
    )


def test_names() -> None:
    assert parse_names("--transport", "reno, vegas") == ["reno", "vegas"]
    with pytest.raises(ArgumentError) as caught:
        parse_names("--transport", "reno,")
    assert (
        str(caught.value)
        == "bad --transport 'reno,': write names with commas between, for example reno,vegas"
    )
