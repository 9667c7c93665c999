"""Differential fuzzing: random situations are played against the engine, and a kernel is asked.

`situations.py` draws them. A script that parts is cut down to the fewest things that still make it part.
Kernels answer in real time, so a script that parts is asked again, and one that then holds was late.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lasthop import _native
from lasthop.errors import ArgumentError, OutputError, native_errors
from lasthop.scripts import run_script
from lasthop.situations import KINDS, LAWS, draw, script_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from lasthop.scripts import ScriptOutcome

    #: Runs a script on a kernel.
    Judge = Callable[[str], ScriptOutcome]

#: Scripts that a kernel is asked at once: they take real time and hardly any work.
AT_ONCE = 24
#: Times that a script which parts is asked again, to exclude a machine that was late.
AGAIN = 2
#: Numbers of a seed: the first is this number times the seed.
FIRST = 1_000_000
#: Most questions for the smallest form of one script.
MOST_QUESTIONS = 400
#: An event of a script: its time, and what follows.
_EVENT = re.compile(r"^\+?([0-9.]+)")


@dataclass(frozen=True, slots=True)
class Parting:
    """A script that a kernel does not follow.

    Attributes
    ----------
    name : str
        Kind, law and number.
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
    """What came of the situations of one kind with one law.

    Attributes
    ----------
    kind, law : str
        Which.
    asked, alike, late : int
        Scripts, those that the kernel follows, and those of them that it followed only when asked again.
    partings : list of Parting
        The others.
    """

    kind: str
    law: str
    asked: int = 0
    alike: int = 0
    late: int = 0
    partings: list[Parting] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Of the scripts, those that the kernel follows."""
        return self.alike / self.asked if self.asked else 0.0


def on_running_kernel(script: str) -> ScriptOutcome:
    """Ask the running kernel (Linux, root)."""
    return run_script(script, kernel=True)


def fuzz(
    kinds: Sequence[str],
    laws: Sequence[str],
    count: int,
    seed: int,
    *,
    judge: Judge = on_running_kernel,
    least: int | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> list[Share]:
    """Ask a kernel what it does where the engine did something.

    Parameters
    ----------
    kinds, laws : sequence of str
        Names of `lasthop.situations.KINDS` and `LAWS`.
    count : int
        Situations of each kind with each law.
    seed : int
        The first has the number `FIRST` times that.
    judge : callable
        Runs the text of a script on a kernel.
    least : int or None
        How many partings of each kind with each law are cut down; all if `None`.
    progress : callable or None
        Told how many are done, of how many, and how many of them part, in words.

    Returns
    -------
    list of Share
        By kind, then law.

    Raises
    ------
    ArgumentError
        If there is no such kind or law.
    RunError
        If the kernel cannot be asked.
    """
    _refuse_unknown(kinds, laws)
    shares = [Share(kind, law) for kind in kinds for law in laws]
    jobs = [(share, FIRST * seed + number) for number in range(count) for share in shares]
    done = parted = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:

        def one(job: tuple[Share, int]) -> tuple[Share, str, str, ScriptOutcome]:
            share, number = job
            script = script_of(draw(share.kind, share.law, number))
            return share, f"{share.kind}-{share.law}-{number}", script, judge(script)

        suspects = []
        for share, name, script, outcome in pool.map(one, jobs):
            share.asked += 1
            done += 1
            if outcome.holds:
                share.alike += 1
            else:
                parted += 1
                suspects.append((share, name, script, outcome))
            if progress is not None:
                progress(done, len(jobs), f"{parted} part")
        again = list(pool.map(lambda suspect: _repeated(suspect[2], judge, AGAIN), suspects))
        for (share, name, script, _), second in zip(suspects, again, strict=True):
            if second is None:
                share.alike += 1
                share.late += 1
                continue
            share.partings.append(Parting(name, script, second))
    wanted = [(share, place) for share in shares for place in range(len(share.partings[:least]))]
    with ThreadPoolExecutor(AT_ONCE) as pool, ThreadPoolExecutor(max(len(wanted), 1)) as cutters:
        forms = cutters.map(lambda one: smallest(one[0].partings[one[1]].script, judge, pool), wanted)
        for (share, place), form in zip(wanted, forms, strict=True):
            share.partings[place] = replace(share.partings[place], least=form)
    return shares


def _refuse_unknown(kinds: Sequence[str], laws: Sequence[str]) -> None:
    for what, names, known in (("kind", kinds, list(KINDS)), ("law", laws, list(LAWS))):
        for name in names:
            if name not in known:
                raise ArgumentError(f"there is no {what} {name!r}: there are {', '.join(known)}")


def _repeated(script: str, judge: Judge, times: int) -> str | None:
    """Return how a script parts each time it is asked; `None` if it once does not."""
    failure = None
    for _ in range(times):
        outcome = judge(script)
        if outcome.holds:
            return None
        failure = outcome.failure
    return failure


def smallest(script: str, judge: Judge, pool: ThreadPoolExecutor) -> str:
    """Cut a script that parts down to the fewest inputs that make it part (delta debugging, Zeller 2002).

    What is left out never happened: the engine is played anew, and asserts what it does then.
    """
    failure = _repeated(script, judge, 1)
    if failure is None:
        return script
    until = _time_of(script, failure)
    with native_errors():
        kept = list(range(_native.script_inputs(script)))

    def played(places: list[int]) -> str | None:
        return _native.replay_script(script, places, until)

    # Nothing behind the parting matters.
    best = played(kept) or script
    came = failure
    with native_errors():
        kept = kept[: _native.script_inputs(best)]
    if _repeated(best, judge, 2) is None:
        return script
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
        found = list(pool.map(lambda one: _repeated(one[1], judge, AGAIN), candidates))
        parting = [(*one, told) for one, told in zip(candidates, found, strict=True) if told]
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
    count = 0
    for parting in (parting for share in shares for parting in share.partings):
        told = f"# The kernel: {_below_comment(parting.failure)}\n"
        _write_text(folder / f"{parting.name}.script", told + parting.script)
        if parting.least is not None:
            _write_text(folder / f"{parting.name}.least.script", parting.least)
        count += 1
    return count


def _write_text(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OutputError(f"cannot write {path}: {reason}") from None


def write_all(kinds: Sequence[str], laws: Sequence[str], count: int, seed: int, folder: Path) -> int:
    """Write the scripts of `fuzz` into a folder without asking anybody; return how many there are."""
    written = 0
    _refuse_unknown(kinds, laws)
    for kind, law, number in (
        (kind, law, number) for kind in kinds for law in laws for number in range(count)
    ):
        place = FIRST * seed + number
        _write_text(folder / f"{kind}-{law}-{place}.script", script_of(draw(kind, law, place)))
        written += 1
    return written


def table(shares: Sequence[Share]) -> list[str]:
    """Return the shares as lines for a terminal."""
    lines = [f"{'kind':12} {'law':6} {'asked':>5} {'alike':>5} {'share':>6}  late"]
    lines.extend(
        f"{share.kind:12} {share.law:6} {share.asked:5} {share.alike:5} {share.share:6.1%}  {share.late}"
        for share in shares
    )
    return lines


def to_dict(shares: Sequence[Share]) -> dict[str, object]:
    """Return the shares as they are written in JSON."""
    return {
        "shares": [
            {
                "kind": share.kind,
                "law": share.law,
                "asked": share.asked,
                "alike": share.alike,
                "late": share.late,
                "partings": [{"name": one.name, "failure": one.failure} for one in share.partings],
            }
            for share in shares
        ]
    }
