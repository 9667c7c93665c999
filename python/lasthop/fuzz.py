"""Differential fuzzing: random situations are played against the engine, and a kernel is asked.

`situations.py` draws them. A script that parts is cut down to the fewest things that still make it part.
Kernels answer in real time, so a script that parts is asked again, and one that then holds was late.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, TypeAlias

from lasthop import _native
from lasthop.errors import ArgumentError, native_errors
from lasthop.files import check_folder, write_text
from lasthop.scripts import ScriptOutcome, run_script
from lasthop.situations import KINDS, PRESETS, draw, script_of
from lasthop.threads import in_order

if TYPE_CHECKING:
    from pathlib import Path

#: Runs texts of scripts on a kernel.
Judge: TypeAlias = Callable[[Sequence[str]], list[ScriptOutcome]]

#: Scripts that a kernel is asked at once: they take real time and hardly any work.
AT_ONCE = 24
#: Times that a script which parts is asked again, to exclude a machine that was late.
AGAIN = 2
#: Numbers of a seed: the first is this number times the seed.
FIRST = 1_000_000
#: Scripts that a judge is given together.
BATCH = 100
#: Most questions for the smallest form of one script.
MOST_QUESTIONS = 400
#: How a kernel parts, by the words of the failure.
WAYS = {
    "the stack sent": "sends what the engine does not",
    "nothing was": "does not send what the engine does",
    "it was at": "sends it at another time",
    "another sequence number": "sends another segment",
    "another length": "sends another length",
    "another set of flags": "sets other flags",
    "another ECN field": "sets another ECN field",
}
#: An event of a script: its time, and what follows.
_EVENT = re.compile(r"^\+?([0-9.]+)")


@dataclass(frozen=True, slots=True)
class Parting:
    """A script that a kernel does not follow.

    Attributes
    ----------
    name : str
        Kind, controller and number.
    script : str
        What the engine did.
    failure : str
        What the kernel did instead, with the line of the script.
    least : str or None
        The smallest form that still parts; `None` if it was not asked for.
    """

    name: str
    script: str
    failure: str
    least: str | None = None


@dataclass(slots=True)
class Share:
    """What came of the situations of one kind with one controller.

    Attributes
    ----------
    kind, controller : str
        Which.
    asked, alike, late : int
        Scripts, those that the kernel follows, and those of them that it followed only when asked again.
    partings : list of Parting
        The others.
    """

    kind: str
    controller: str
    asked: int = 0
    alike: int = 0
    late: int = 0
    partings: list[Parting] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Of the scripts, those that the kernel follows."""
        return self.alike / self.asked if self.asked else 0.0


def on_running_kernel(scripts: Sequence[str]) -> list[ScriptOutcome]:
    """Ask the running kernel (Linux, root), several scripts at once: they take time and hardly any work."""
    return list(in_order(lambda script: run_script(script, kernel=True), scripts, AT_ONCE))


def fuzz(  # noqa: PLR0913 (all but four are keywords)
    kinds: Sequence[str],
    controllers: Sequence[str],
    count: int,
    seed: int,
    *,
    judge: Judge = on_running_kernel,
    repeats: int = AGAIN,
    least: int | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> list[Share]:
    """Ask a kernel what it does where the engine did something.

    Parameters
    ----------
    kinds, controllers : sequence of str
        Names of `lasthop.situations.KINDS` and of `lasthop.situations.PRESETS`.
    count : int
        Situations of each kind with each controller.
    seed : int
        The first has the number `FIRST` times that.
    judge : callable
        Runs texts of scripts on a kernel.
    repeats : int
        How often a script that parts is asked again; one that then does not was late.
    least : int or None
        How many partings of each kind with each controller are cut down; all if `None`.
    progress : callable or None
        Told how many are done, of how many, and how many of them part, in words.

    Returns
    -------
    list of Share
        By kind, then controller.

    Raises
    ------
    ArgumentError
        If there is no such kind or controller.
    RunError
        If the kernel cannot be asked.
    """
    _refuse_unknown(kinds, controllers)
    shares = [Share(kind, controller) for kind in kinds for controller in controllers]
    jobs = [(share, FIRST * seed + number) for number in range(count) for share in shares]
    suspects: list[Parting] = []
    of: dict[str, Share] = {}
    for begin in range(0, len(jobs), BATCH):
        batch = jobs[begin : begin + BATCH]
        scripts = [script_of(draw(share.kind, share.controller, number)) for share, number in batch]
        for (share, number), script, outcome in zip(batch, scripts, judge(scripts), strict=True):
            share.asked += 1
            share.alike += outcome.holds
            if outcome.failure is not None:
                name = f"{share.kind}-{share.controller}-{number}"
                of[name] = share
                suspects.append(Parting(name, script, outcome.failure))
        if progress is not None:
            progress(begin + len(batch), len(jobs), f"{len(suspects)} part")
    again = _parts([one.script for one in suspects], judge, repeats)
    for suspect, failure in zip(suspects, again, strict=True):
        share = of[suspect.name]
        if failure is None:
            share.alike += 1
            share.late += 1
        else:
            share.partings.append(replace(suspect, failure=failure))
    wanted = [(share, place) for share in shares for place in range(len(share.partings[:least]))]
    with closing(
        in_order(
            lambda one: smallest(one[0].partings[one[1]].script, judge, repeats), wanted, max(len(wanted), 1)
        )
    ) as forms:
        for done, ((share, place), form) in enumerate(zip(wanted, forms, strict=True), 1):
            share.partings[place] = replace(share.partings[place], least=form)
            if progress is not None:
                progress(done, len(wanted), "cut down")
    return shares


def way_of(failure: str) -> str:
    """Return how a kernel parts."""
    return next((way for words, way in WAYS.items() if words in failure), "does something else")


def _refuse_unknown(kinds: Sequence[str], controllers: Sequence[str]) -> None:
    for what, names, known in (("kind", kinds, list(KINDS)), ("controller", controllers, list(PRESETS))):
        for name in names:
            if name not in known:
                raise ArgumentError(f"there is no {what} {name!r}: there are {', '.join(known)}")


def _parts(scripts: Sequence[str], judge: Judge, repeats: int) -> list[str | None]:
    """Return how each script parts each time that it is asked; `None` if it once does not."""
    failures: list[str | None] = [""] * len(scripts)
    for _ in range(repeats):
        left = [place for place, failure in enumerate(failures) if failure is not None]
        for place, outcome in zip(left, judge([scripts[place] for place in left]), strict=True):
            failures[place] = outcome.failure
    return failures


def smallest(script: str, judge: Judge, repeats: int = AGAIN) -> str:
    """Cut a script that parts down to the fewest inputs that make it part (delta debugging, Zeller 2002).

    What is left out never happened: the engine is played anew, and asserts what it does then. What the kernel
    does instead stands above the script. A script that does not part is returned as it is.
    """
    (failure,) = _parts([script], judge, repeats)
    if failure is None:
        return script
    until = _time_of(script, failure)
    with native_errors():
        kept = list(range(_native.script_inputs(script)))

    def played(places: list[int]) -> str | None:
        return _native.replay_script(script, places, until)

    # Nothing behind the parting matters.
    best = played(kept) or script
    (came,) = _parts([best], judge, repeats)
    if came is None:
        return f"# The kernel: {_below_comment(failure)}\n{script}"
    with native_errors():
        kept = kept[: _native.script_inputs(best)]
    pieces, questions = 2, 0
    while len(kept) > 1 and questions < MOST_QUESTIONS:
        size = -(-len(kept) // pieces)
        candidates = []
        for start in range(0, len(kept), size):
            places = kept[:start] + kept[start + size :]
            text = played(places)
            if text is not None:
                candidates.append((places, text))
        questions += len(candidates)
        found = _parts([text for _, text in candidates], judge, repeats)
        told = zip(candidates, found, strict=True)
        # Another parting than this one is another matter.
        parting = [(*one, how) for one, how in told if how and way_of(how) == way_of(failure)]
        if parting:
            kept, best, came = parting[-1]
            pieces = max(pieces - 1, 2)
        elif size > 1:
            pieces = min(2 * pieces, len(kept))
        else:
            break
    return f"# The kernel: {_below_comment(came)}\n{best}"


def _below_comment(failure: str) -> str:
    """Return what the kernel did, with the number of the line when a line is put above the script."""
    return re.sub(r"^.*?line (\d+)", lambda found: f"line {int(found.group(1)) + 1}", failure)


def _time_of(script: str, failure: str) -> float:
    """Return when the line happens that a failure names, in seconds from the start of the script."""
    named = re.search(r"line (\d+)", failure)
    last = int(named.group(1)) if named else len(script)
    lines = script.split("\n")
    first = lines.index("---") + 1
    events = (_EVENT.match(line) for line in lines[first:last])
    return sum(float(event.group(1)) for event in events if event)


def write(shares: Sequence[Share], folder: Path) -> int:
    """Write every parting, and its smallest form, into a folder; return how many there are.

    Above each stands what the kernel did; the smallest form has ``.least`` before its ending.
    """
    partings = [parting for share in shares for parting in share.partings]
    if partings:
        check_folder(folder)
    for parting in partings:
        told = f"# The kernel: {_below_comment(parting.failure)}\n"
        write_text(folder / f"{parting.name}.script", told + parting.script)
        if parting.least is not None:
            write_text(folder / f"{parting.name}.least.script", parting.least)
    return len(partings)


def write_all(kinds: Sequence[str], controllers: Sequence[str], count: int, seed: int, folder: Path) -> int:
    """Write the scripts of `fuzz` into a folder without asking a kernel; return how many there are."""
    _refuse_unknown(kinds, controllers)
    places = range(FIRST * seed, FIRST * seed + count)
    wanted = list(product(kinds, controllers, places))
    check_folder(folder)
    for kind, controller, place in wanted:
        write_text(folder / f"{kind}-{controller}-{place}.script", script_of(draw(kind, controller, place)))
    return len(wanted)


def table(shares: Sequence[Share]) -> list[str]:
    """Return the shares as lines for a terminal."""
    lines = [f"{'kind':12} {'controller':10} {'asked':>5} {'alike':>5} {'share':>6}  late"]
    lines.extend(
        f"{one.kind:12} {one.controller:10} {one.asked:5} {one.alike:5} {one.share:6.1%}  {one.late}"
        for one in shares
    )
    return lines


def to_dict(shares: Sequence[Share]) -> dict[str, object]:
    """Return the shares as they are written in JSON."""
    return {
        "shares": [
            {
                "kind": share.kind,
                "controller": share.controller,
                "asked": share.asked,
                "alike": share.alike,
                "late": share.late,
                "partings": [{"name": one.name, "failure": one.failure} for one in share.partings],
            }
            for share in shares
        ]
    }
