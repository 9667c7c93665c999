"""Two versions of a transport over the same scenarios with the same seeds: whether the new one is worse.

Called by ``lasthop check-transport``. A version is a command that runs one scenario with one seed and prints
a JSON object; this module never looks into the versions themselves.
"""

from __future__ import annotations

import json
import math
import shlex
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lasthop import stats
from lasthop.errors import ArgumentError, RunError
from lasthop.threads import in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: What is compared, and how much worse it may become, if nothing else is asked for.
USUAL = ("goodput=-5%", "delay=+10%", "fairness=-5%")
#: Characters of what a failed command said that are shown.
SHOWN = 300


@dataclass(frozen=True)
class Bound:
    """A figure, and the relative difference from which on it is worse; its sign says which way that is."""

    figure: str
    limit: float

    @classmethod
    def read(cls, text: str) -> Bound:
        """Read one as the command line has it.

        Examples
        --------
        >>> Bound.read("delay=+10%")
        Bound(figure='delay', limit=0.1)
        >>> Bound.read("delay=0%")
        Traceback (most recent call last):
        lasthop.errors.ArgumentError: bad bound 'delay=0%': write FIGURE=-5% or FIGURE=+10%
        """
        figure, equals, share = text.partition("=")
        number = share.removesuffix("%")
        try:
            limit = float(number) / 100
        except ValueError:
            limit = 0.0
        if not figure or not equals or number == share or not math.isfinite(limit) or limit == 0:
            raise ArgumentError(f"bad bound {text!r}: write FIGURE=-5% or FIGURE=+10%")
        return cls(figure, limit)

    def verdict(self, difference: stats.Estimate | None) -> str:
        """Return ``worse`` if the whole interval lies beyond the bound, ``undecided`` if a part of it does.

        Examples
        --------
        >>> bound = Bound("goodput", -0.05)
        >>> [bound.verdict(stats.Estimate(mean, mean - 0.02, mean + 0.02, 9)) for mean in (-0.08, -0.04, 0.0)]
        ['worse', 'undecided', 'holds']
        >>> bound.verdict(stats.Estimate(-0.06, None, None, 1)), bound.verdict(None)
        ('worse', 'undecided')
        """
        if difference is None:
            return "undecided"
        sign = math.copysign(1.0, self.limit)
        ends = [
            sign * end
            for end in (difference.mean, difference.low, difference.high)
            if end is not None and not math.isnan(end)
        ]
        if min(ends) > abs(self.limit):
            return "worse"
        return "undecided" if max(ends) > abs(self.limit) else "holds"


@dataclass(frozen=True)
class Finding:
    """A figure of both versions over one scenario.

    Attributes
    ----------
    scenario : str
        Its file.
    bound : Bound
        What may not be exceeded.
    old, new : float
        Means over the seeds.
    difference : Estimate or None
        Relative, paired by the seed; `None` if the old version has nothing to be a share of.
    verdict : str
        ``holds``, ``undecided`` or ``worse``.
    replay : str
        The command of the new version with the seed that differs most, if it is worse.
    """

    scenario: str
    bound: Bound
    old: float
    new: float
    difference: stats.Estimate | None
    verdict: str
    replay: str = ""


def check_command(option: str, command: str) -> None:
    """Refuse a command that could not be run with a scenario and a seed."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ArgumentError(f"{option} {command!r}: {error}") from None
    missing = [place for place in ("{scenario}", "{seed}") if not any(place in word for word in words)]
    if missing:
        raise ArgumentError(
            f"{option} has no {missing[0]}: write the command that runs one scenario with one seed, "
            "with {scenario} and {seed} where they belong"
        )


def words_of(command: str, scenario: str, seed: int) -> list[str]:
    """Return the words of a command for one run.

    Examples
    --------
    >>> words_of("sim {scenario} --seed={seed}", "a b.toml", 7)
    ['sim', 'a b.toml', '--seed=7']
    """
    places = {"{scenario}": scenario, "{seed}": str(seed)}
    words = shlex.split(command)
    for place, value in places.items():
        words = [word.replace(place, value) for word in words]
    return words


def figures_of(printed: Mapping[str, Any]) -> dict[str, float]:
    """Return the figures of a run: numbers under their names, or what ``lasthop run --json -`` prints.

    Examples
    --------
    >>> figures_of({"goodput": 3, "stalls": 2.0, "name": "x", "ok": True})
    {'goodput': 3.0, 'stalls': 2.0}
    """
    if "runs" not in printed:
        return {name: float(value) for name, value in printed.items() if type(value) in (int, float)}
    (run,) = printed["runs"]
    delays = [one["delay_p95_s"] for one in run["flows"] if one["delay_p95_s"] is not None]
    found = {
        "goodput": run["totals"]["goodput_bit_s"],
        "fairness": run["totals"]["jain_index"],
        "delay": stats.mean(delays),
        "completion": run["totals"]["completion_p50_s"],
        "retransmitted": run["totals"]["retransmitted_share"],
    }
    return {name: float(value) for name, value in found.items() if value is not None}


def measure(command: str, scenario: str, seed: int, timeout_s: float) -> dict[str, float]:
    """Run one version once."""
    words = words_of(command, scenario, seed)
    shown = shlex.join(words)
    try:
        done = subprocess.run(  # noqa: S603 - the command of the user
            words, capture_output=True, text=True, check=False, timeout=timeout_s
        )
    except OSError as error:
        raise ArgumentError(f"{words[0]} cannot be run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise RunError(f"$ {shown}\nhad not ended after {timeout_s:g} s: raise --timeout") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-SHOWN:]
        raise RunError(f"$ {shown}\nended with exit code {done.returncode}: {said}")
    try:
        return figures_of(json.loads(done.stdout))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise RunError(
            f"$ {shown}\ndid not print a JSON object of figures, nor what 'lasthop run --json -' prints"
        ) from None


def check(  # noqa: PLR0913 - a call of one command, all by name
    *,
    old: str,
    new: str,
    scenarios: Sequence[str],
    seeds: Sequence[int],
    bounds: Sequence[Bound],
    jobs: int,
    timeout_s: float,
    observer: Callable[[Finding], None],
) -> list[Finding]:
    """Run both versions over every scenario with every seed; `observer` is told each finding."""
    findings = []
    for scenario in scenarios:
        runs = [(command, seed) for seed in seeds for command in (old, new)]

        def made_of(run: tuple[str, int], scenario: str = scenario) -> dict[str, float]:
            return measure(run[0], scenario, run[1], timeout_s)

        made = list(in_order(made_of, runs, jobs))
        for bound in bounds:
            found = _finding(scenario, bound, (made[0::2], made[1::2]), (new, seeds))
            findings.append(found)
            observer(found)
    return findings


def _finding(
    scenario: str,
    bound: Bound,
    made: tuple[list[dict[str, float]], list[dict[str, float]]],
    of_new: tuple[str, Sequence[int]],
) -> Finding:
    for figures in (one for version in made for one in version):
        if bound.figure not in figures:
            there = ", ".join(sorted(figures)) or "none"
            raise ArgumentError(f"a run of {scenario} has no figure {bound.figure!r}: it has {there}")
    before, after = ([figures[bound.figure] for figures in version] for version in made)
    changed: stats.Estimate | None = stats.Estimate(0.0, 0.0, 0.0, len(before))
    if before != after:
        changed = stats.relative_difference(after, before)
    verdict = bound.verdict(changed)
    replay = ""
    if verdict == "worse":
        command, seeds = of_new
        sign = math.copysign(1.0, bound.limit)
        worst = max(range(len(seeds)), key=lambda index: sign * (after[index] - before[index]))
        replay = shlex.join(words_of(command, scenario, seeds[worst]))
    means = [math.fsum(values) / len(values) for values in (before, after)]
    return Finding(scenario, bound, means[0], means[1], changed, verdict, replay)
