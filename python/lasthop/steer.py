"""Steering: a congestion controller of this package decides for the TCP of the running kernel.

`steer` registers a congestion control with the kernel under a name of its own (``lh_`` and eight digits),
runs a command whose TCP uses it, and takes it away again. Recovery, growth between two decisions and Reno
without decisions are in the kernel (``crates/lasthop-live/bpf``); the controller runs here, the same code
as in a simulation. It is never a default except in namespaces that lasthop made.

Two small controllers can also decide in the kernel itself, on every ACK and without a process beside them
(`TWINS`).
"""

from __future__ import annotations

import json
import shutil
import uuid
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lasthop import _native, live, outside
from lasthop.errors import ArgumentError, RunError, native_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Begins the name of a controller where otherwise the kernel's own is named (``--kernel steer:veno``).
STEERED = "steer:"
#: Begins the name of a controller that shall decide in the kernel itself (``--kernel twin:veno``).
TWIN = "twin:"
#: Controllers that can.
TWINS = ("veno", "westwood+")
#: What stands in a command for the name of the congestion control.
NAME = "{cc}"
#: Where a command runs, in words.
PLACES = {
    "by name": "where you are: the command chooses {cc} itself, and no default changes",
    "emulated": "in the namespace of this emulated host, whose default it becomes meanwhile",
    "own": "in a new network namespace with nothing but a loopback, whose default it becomes",
}


@dataclass(frozen=True, slots=True)
class Session:
    """A registered congestion control, and what was done with it."""

    name: str
    law: str
    process: int
    #: Whether the process that decides is there; without it connections are Reno's.
    alive: bool
    #: Since the beginning, and open now.
    connections: int
    open: int
    #: ACKs that applied a decision.
    applied: int
    #: ACKs after which the kernel's half decided by itself.
    on_its_own: int
    #: Those of them for which there was a decision of an older epoch.
    stale: int
    #: Records told, and those for which there was no room.
    records: int
    missed: int
    #: Time from an ACK to its decision (s); known to the session itself alone.
    decided_p50_s: float | None
    decided_p99_s: float | None


@dataclass(frozen=True, slots=True)
class Twin:
    """A controller that decides in the kernel, as it is registered. What it does is not counted."""

    name: str
    law: str
    process: int
    #: Whether the process that registered it is there; `lasthop.live.clean` takes away what others left.
    alive: bool


@dataclass(frozen=True, slots=True)
class Steered:
    """What a session has done, and the exit status of its command."""

    session: Session | Twin
    status: int | None


def steer(
    law: str,
    command: Sequence[str] = (),
    *,
    resume: str | None = None,
    in_kernel: bool = False,
    told: Callable[[str], None] = lambda _: None,
) -> Steered:
    """Let a controller decide for the TCP of the kernel while a command runs.

    Parameters
    ----------
    law : str
        A controller of ``lasthop transports`` that needs nothing that the kernel does not have.
    command : sequence of str
        A program and its arguments. With ``{cc}`` among them it runs where we are, with the name of the
        congestion control in its place; without, in the namespace of the emulated host where we are, or in
        a new one that has nothing but a loopback. Without a command the session lasts until interrupted.
    resume : str, optional
        The session of a process that has gone. Its connections are steered again.
    in_kernel : bool
        Let the twin of the controller decide, in the kernel and on every ACK; `TWINS` have one.
    told : callable
        Is told the name of the congestion control once it is there.

    Returns
    -------
    Steered
        Counts of what was done; none of what was decided in the kernel.

    Raises
    ------
    lasthop.ScenarioError
        If there is no such controller, or the kernel cannot serve it.
    lasthop.RunError
        If the machine cannot do it; `examine` says why.

    Examples
    --------
    >>> from lasthop import steer
    >>> done = steer.steer("veno", ["iperf3", "-c", "192.0.2.1", "-C", "{cc}"])  # doctest: +SKIP
    >>> done.session.missed  # doctest: +SKIP
    0
    """
    check(law, in_kernel=in_kernel, resume=resume)
    mark = uuid.uuid4().hex
    with live.journal(mark, [command], cleans=resume is None), native_errors():
        text, _ = live.in_thread(
            lambda progress: _native.steer(
                law,
                list(command),
                resume=resume,
                in_kernel=in_kernel,
                mark=mark,
                told=told,
                progress=progress,
            )
        )
    found = json.loads(text)
    session = _known(Twin, found["done"]) if in_kernel else _known(Session, found["done"])
    return Steered(session, found["program_status"])


def check(law: str, *, in_kernel: bool = False, resume: str | None = None) -> None:
    """Refuse a controller that is none, or that the kernel cannot serve; or one without a twin in it.

    Examples
    --------
    >>> check("tcp-real")
    Traceback (most recent call last):
    ...
    lasthop.errors.ScenarioError: tcp-real cannot steer the TCP of the kernel: it needs waves, ...
    >>> check("reno", in_kernel=True)
    Traceback (most recent call last):
    ...
    lasthop.errors.ScenarioError: reno has no twin in the kernel: veno and westwood+ have one; ...
    """
    if in_kernel and resume is not None:
        raise ArgumentError("a controller that runs in the kernel has no session to resume")
    with native_errors():
        _native.check_steer(law, in_kernel=in_kernel)


Report = TypeVar("Report", Session, Twin)


def _known(kind: type[Report], found: dict[str, Any]) -> Report:
    """Return what the engine says as a class; what it has no field for is left out."""
    return kind(**{field.name: found[field.name] for field in fields(kind)})


def sessions() -> list[Session]:
    """Return every session that is registered, also those whose process has gone."""
    with native_errors():
        return [_known(Session, found) for found in json.loads(_native.steer_sessions())]


def twins() -> list[Twin]:
    """Return every controller that is registered to decide in the kernel itself."""
    with native_errors():
        return [_known(Twin, found) for found in json.loads(_native.steer_twins())]


def plan_text(law: str, command: Sequence[str], resume: str | None, *, in_kernel: bool = False) -> str:
    """Return in words what `steer` would do.

    Examples
    --------
    >>> print(plan_text("veno", ["curl", "-C", "{cc}"], None).splitlines()[0])
    register a congestion control lh_ and eight digits with the kernel, which veno decides for
    """
    check(law, in_kernel=in_kernel, resume=resume)
    lines = [f"register a congestion control lh_ and eight digits with the kernel, which {law} decides for"]
    if in_kernel:
        lines = [f"register a congestion control with the kernel that is {law}, and decides there"]
    if resume is not None:
        lines = [f"take over {resume}: {law} decides for its connections again"]
    if command:
        lines += [f"start {' '.join(command)}", PLACES[_native.steer_place(list(command))]]
    else:
        lines += ["wait until interrupted; programs choose it with setsockopt(TCP_CONGESTION)"]
    lines += [f"note in {live.journal_folder()} what was started, and take the note away afterwards"]
    return "\n".join([*lines, "take the congestion control away"])


def examine() -> list[live.Need]:
    """Say what steering needs beyond what `lasthop.live.examine` lists, and has on this machine."""
    return [_bpf_rights(), _bpftool(), _version()]


def lacking() -> list[live.Need]:
    """Return what keeps `steer` from running."""
    needs = [need for need in live.examine() if need.what in {"live build", "BTF"}]
    return [need for need in [*needs, *examine()] if need.remedy]


def refuse_without_means() -> None:
    """Say at once what is missing, before anything has been set up."""
    for need in lacking():
        raise RunError(f"no steering here: {need.what}: {need.text}; {need.remedy}")


def _bpf_rights() -> live.Need:
    """Ask the kernel what is registered; the same rights are needed to register."""
    remedy = "run 'lasthop steer' as root of the machine, with sudo"
    try:
        _native.steer_sessions()
    except RuntimeError as error:
        return live.Need("rights for BPF", f"not enough: {error}", remedy, vital=False)
    return live.Need("rights for BPF", "the kernel answers", vital=False)


def _bpftool() -> live.Need:
    found = shutil.which("bpftool", path=outside.PLACES)
    if found is not None:
        return live.Need("bpftool", found, vital=False)
    remedy = "'lasthop steer' loads with it: apt-get install bpftool, dnf install bpftool"
    return live.Need("bpftool", "not installed", remedy, vital=False)


#: The oldest kernel that has taken the object (that of the virtual machine).
OLDEST = (6, 1)


def _version() -> live.Need:
    text = Path("/proc/sys/kernel/osrelease")
    release = text.read_text(encoding="utf-8").strip() if text.exists() else "none"
    numbers = release.split("-")[0].split(".")[:2]
    if all(number.isdigit() for number in numbers) and tuple(map(int, numbers)) >= OLDEST:
        return live.Need("kernel for steering", release, vital=False)
    return live.Need("kernel for steering", release, "'lasthop steer' needs Linux 6.1 or newer", vital=False)


def report_lines(session: Session | Twin) -> list[str]:
    """Return in words what a session did, or what a controller in the kernel is.

    Examples
    --------
    >>> for line in report_lines(Session("lh_00c0ffee", "veno", 1, True, 2, 1, 90, 10, 4, 50, 0, 2e-5, 6e-5)):
    ...     print(line)
    lh_00c0ffee: veno decides (process 1), connections: 2, open 1
      ACKs: 90 applied a decision, 10 were the kernel's own (4 found an older one); records: 50, missed 0
      from an ACK to its decision: 20 us (median), 60 us (99th percentile)
    >>> report_lines(Twin("lhveno_00c0ffee", "veno", 1, True))
    ['lhveno_00c0ffee: veno decides in the kernel (registered by process 1)']
    """
    if isinstance(session, Twin):
        gone = "" if session.alive else ", which has gone: 'lasthop steer clean' takes it away"
        by = f"registered by process {session.process}{gone}"
        return [f"{session.name}: {session.law} decides in the kernel ({by})"]
    who = (
        f"{session.law} decides (process {session.process})"
        if session.alive
        else f"no process decides, Reno continues ({session.law} did before; process {session.process} ended)"
    )
    own = f"{session.on_its_own:,} were the kernel's own ({session.stale:,} found an older one)"
    records = f"records: {session.records:,}, missed {session.missed:,}"
    lines = [
        f"{session.name}: {who}, connections: {session.connections:,}, open {session.open:,}",
        f"  ACKs: {session.applied:,} applied a decision, {own}; {records}",
    ]
    if session.decided_p50_s is not None and session.decided_p99_s is not None:
        late = [f"{seconds * 1e6:.0f} us" for seconds in (session.decided_p50_s, session.decided_p99_s)]
        lines.append(f"  from an ACK to its decision: {late[0]} (median), {late[1]} (99th percentile)")
    return lines


def to_dict(found: Session | Twin) -> dict[str, Any]:
    """Return a session, or a controller in the kernel, as JSON has it."""
    return asdict(found) | {"in_kernel": isinstance(found, Twin)}


def read_words(law: str | None, words: Sequence[str]) -> str | None:
    """Return "status" or "clean" if that is what is asked for; refuse what makes no sense.

    Examples
    --------
    >>> read_words(None, ["status"])
    'status'
    >>> read_words("veno", ["curl"]) is None
    True
    """
    if law is not None:
        return None
    if len(words) == 1 and words[0] in {"status", "clean"}:
        return words[0]
    raise ArgumentError("no controller: give --cc NAME, or say 'status' or 'clean'")
