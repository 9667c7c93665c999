"""Reads the arguments of the command line that have a small language of their own: seeds, settings, names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lasthop.errors import ArgumentError
from lasthop.scenario import SEEDS_MAX, check_seeds, metrics

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SEED_PATTERN = re.compile(r"(\d+)(?:-(\d+))?")


def complete_metrics(incomplete: str) -> list[str]:
    """Return the metrics that begin so, for the shell.

    Examples
    --------
    >>> complete_metrics("goodp")
    ['goodput_bit_s']
    """
    return [one["name"] for one in metrics() if one["name"].startswith(incomplete)]


def complete_ready(incomplete: str) -> list[str]:
    """Return the ready scenarios and studies that a name may be of, for the shell.

    Examples
    --------
    >>> complete_ready("single")
    ['single-flow']
    """
    from lasthop import starter

    names = (*starter.ready("scenarios"), *starter.ready("studies"))
    return [name for name in names if name.startswith(incomplete)]


def complete_papers(incomplete: str) -> list[str]:
    """Return the papers that a number may begin, for the shell.

    Examples
    --------
    >>> complete_papers("002")
    ['002']
    """
    from lasthop.papers.library import paper_folders

    numbers = ["all", *(folder.name.partition("-")[0] for folder in paper_folders())]
    return [number for number in numbers if number.startswith(incomplete)]


def complete_tables(incomplete: str) -> list[str]:
    """Return the formats of tables for papers that begin so, for the shell.

    Examples
    --------
    >>> complete_tables("la")
    ['latex']
    """
    from lasthop.formats import FORMATS

    return [name for name in FORMATS if name.startswith(incomplete)]


def parse_seeds(text: str) -> list[int]:
    """Read a list of seeds and ranges.

    Examples
    --------
    >>> parse_seeds("1,3,5-7")
    [1, 3, 5, 6, 7]
    >>> parse_seeds("5-3")
    Traceback (most recent call last):
    lasthop.errors.ArgumentError: bad --seeds '5-3': the range 5-3 runs backwards, write 3-5
    """
    return check_seeds(_seeds(text))


def _seeds(text: str) -> Iterator[int]:
    for part in text.split(","):
        match = SEED_PATTERN.fullmatch(part.strip())
        if match is None:
            raise ArgumentError(
                f"bad --seeds '{text}': '{part.strip()}' is neither a number nor a range; "
                "write for example 1-10 or 1,3,5-7"
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ArgumentError(
                f"bad --seeds '{text}': the range {part.strip()} runs backwards, write {last}-{first}"
            )
        if last - first >= SEEDS_MAX:
            raise ArgumentError(f"bad --seeds '{text}': at most {SEEDS_MAX:,} seeds in one run")
        yield from range(first, last + 1)


def parse_numbers(option: str, text: str) -> list[int]:
    """Read a list of whole numbers.

    Examples
    --------
    >>> parse_numbers("--lags", "1,2,12")
    [1, 2, 12]
    """
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not part.isdecimal():
            raise ArgumentError(
                f"bad {option} '{text}': '{part}' is not a whole number; write for example 1,2,5"
            )
    return [int(part) for part in parts]


def parse_settings(settings: Iterable[str]) -> dict[str, str]:
    """Read ``key=value`` pairs; the last one of a key wins.

    Examples
    --------
    >>> parse_settings(["flows.0.transport=vegas", "duration=5 s"])
    {'flows.0.transport': 'vegas', 'duration': '5 s'}
    """
    overrides: dict[str, str] = {}
    for setting in settings:
        key, sign, value = setting.partition("=")
        if not sign or not key.strip() or not value.strip():
            raise ArgumentError(
                f"bad --set '{setting}': write KEY=VALUE, for example --set flows.0.transport=vegas"
            )
        overrides[key.strip()] = value.strip()
    return overrides


def parse_names(option: str, text: str) -> list[str]:
    """Read a list of names with commas between them."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise ArgumentError(f"bad {option} '{text}': write names with commas between, for example reno,vegas")
    return names
