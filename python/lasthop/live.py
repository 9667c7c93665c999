"""Real packets: the network of a scenario between namespaces of a running Linux kernel.

`emulate` runs a program, or sockets of the kernel, over the links, queues, channels and helpers of a
scenario in real time. `clean` ends what a killed run has left, `examine` says what live use needs and has.
The packets themselves are moved by the native module (``crates/lasthop-live``).

**What is left behind.** Namespaces have no names: they go with the process that holds them. Programs go with
it as well, and all that they have started; what escapes that can be found by a mark, which every run notes in
a journal.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import stat
import sys
import tempfile
import threading
import time
import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lasthop import _native, outside
from lasthop.errors import ArgumentError, Interrupted, RunError, native_errors
from lasthop.places import SENDERS, capture_file, not_captured
from lasthop.quantities import time_text
from lasthop.results import NativeTables, Run, Runs
from lasthop.runner import Snapshot
from lasthop.spool import Spool
from lasthop.threads import POLL_INTERVAL_S, signals_held

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from ipaddress import IPv4Address

    from lasthop.outside import WayOut
    from lasthop.scenario import Scenario

T = TypeVar("T")

#: How late 1 % of the packets may be before a run is worth nothing.
BUDGET_S = 1e-3
#: The variable that marks everything that a run has started.
MARK = "LASTHOP_RUN"
#: What ended a run: its program, the end of the scenario, or a signal.
PROGRAM, SCENARIO, INTERRUPTED = "program", "scenario", "interrupted"
#: Says in which network namespace a program was started.
PLACE = "LASTHOP_NETNS"
#: Begins the transport of a flow that sockets of the kernel carry.
KERNEL = "kernel:"
#: How long a program may take to end when it is asked to.
GRACE_S = 2.0
#: Bytes stored of each captured packet: all of it. Less than an IP header is nothing to look at.
SNAPLEN, LEAST_SNAPLEN = 65_535, 20
#: Congestion controls of kernels that are worth naming.
SCHEDULERS = ("reno", "cubic", "bbr", "vegas", "veno", "westwood")
#: The device of a host.
DEVICE = "lasthop0"
#: Runs that may be within others at the same time.
MOST_NESTED = 255


def emulate(  # noqa: PLR0913 - all but two are keywords
    scenario: Scenario,
    command: Sequence[str] = (),
    *,
    host: str | None = None,
    beside: Mapping[str, Sequence[str]] | Sequence[tuple[str, Sequence[str]]] = (),
    kernel: str | None = None,
    seed: int | None = None,
    budget_s: float = BUDGET_S,
    series: bool = False,
    trace: bool = False,
    capture_at: Sequence[str] | None = None,
    snaplen: int = SNAPLEN,
    folder: str | Path | None = None,
    out_through: str | None = None,
    dns: Sequence[str] = (),
    observer: Callable[[Snapshot], None] | None = None,
) -> Run:
    """Run real packets over the network of a scenario.

    Parameters
    ----------
    scenario : Scenario
        Its links, queues, channels and helpers are those of a simulation. Each node at which a flow starts or
        ends becomes a host with a network namespace of its own.
    command : sequence of str
        A program and its arguments. The run ends when it does. Without one it lasts as long as the scenario
        says, and never longer.
    host : str, optional
        The node at which it runs; the sink of the first flow if not given.
    beside : mapping, or pairs of str and sequence
        Programs that run beside it, such as servers: by the nodes at which they run. They start first.
    kernel : str, optional
        Carry the flows of the scenario with sockets of the kernel and this congestion control. If not given,
        the kernel carries those whose transport says so (``transport = "kernel:cubic"``).
    seed : int, optional
        Seed of everything that the channel draws; that of the scenario if not given.
    budget_s : float
        How late 1 % of the packets may leave. A run beyond it is marked invalid.
    series, trace : bool
        Record flows, links and helpers over time; and every packet on every link, for captures. Windows are
        known of sockets that lasthop opened, by the word of the kernel.
    capture_at : sequence of str, optional
        Hosts whose real packets are captured, byte for byte, as they pass their TUN device; ``"senders"``:
        the sources of all connections, where each packet of a connection passes once. With `trace` the
        senders if not given, otherwise none.
    snaplen : int
        Bytes stored of each captured packet, from its IP header on; all of it if not given.
    folder : path, optional
        Where captures are written while the run goes on: what an interrupted run leaves there can be read. A
        folder that goes with the `Run` if not given.
    out_through : str, optional
        An interface of the machine through which hosts reach the world. Packets for other addresses than
        those of hosts go through the emulated network to the far end of the program's flow, and out there.
    dns : sequence of str
        Addresses of the servers that are asked for names then; the machine's if none is given.
    observer : callable, optional
        Is called a few times a second with a `Snapshot` of how far the run is.

    Returns
    -------
    Run
        As of a simulation; a flow is a direction of a connection, by its 5-tuple. ``record["live"]`` says how
        the run kept time. Fields that only a simulated sender knows, such as timeouts, are null.

    Raises
    ------
    RunError
        If the machine cannot do it; `examine` says why.
    Interrupted
        By Ctrl-C or SIGTERM: `finished` holds the run as far as it came.

    Examples
    --------
    >>> import lasthop as lh
    >>> from lasthop import live
    >>> scenario = lh.Scenario(lh.EXAMPLE)
    >>> run = live.emulate(scenario, kernel="cubic")  # doctest: +SKIP
    >>> run.record["live"]["valid"]  # doctest: +SKIP
    True
    """
    if not command and kernel is None and not of_kernel(scenario):
        raise ArgumentError(
            "nothing to run: give a command, or the congestion control of the kernel (--kernel)"
        )
    if not budget_s > 0:
        raise ArgumentError(f"a budget of {time_text(budget_s)}: it has to be more than nothing")
    pairs = beside.items() if hasattr(beside, "items") else beside
    others = [(name, list(words)) for name, words in pairs]
    seed = scenario.seed if seed is None else seed
    main = (host or scenario.ends[0][1], list(command)) if command else None
    files = CaptureFiles(check_captures(scenario, capture_at, trace=trace), folder)
    check_snaplen(snaplen)
    mark = uuid.uuid4().hex
    commands = [words for _, words in [*([main] if main else []), *others]]
    is_nested = outer_host() is not None
    leads_out, servers = check_outside(out_through, dns, nested=is_nested)
    with journal(mark, commands, nested=is_nested, out_through=leads_out) as (block, way), native_errors():
        exit_by = (
            None if way is None else (gateway(scenario, host), [one.packed for one in servers], way.connect)
        )
        (text, native), asked = in_thread(
            lambda progress: _native.emulate(
                scenario.plan,
                seed,
                main=main,
                others=others,
                kernel=kernel,
                budget_s=budget_s,
                mark=mark,
                series=series,
                trace=trace,
                captures=files.wanted(),
                snaplen=snaplen,
                nested=block,
                outside=exit_by,
                progress=progress,
            ),
            watched(scenario, observer),
        )
    told = json.loads(text)
    record = told["summary"] | {"live": told["live"]}
    tables = CapturedTables(native if series or trace else None, files)
    run = Run(record, scenario.to_dict(), _native.__version__, tables)
    if asked is not None:
        # The program may have heard of Ctrl-C as well, and have ended first.
        record["live"]["ended_by"] = INTERRUPTED
        error = Interrupted(f"interrupted at {time_text(record['duration_s'], 3)} of the run")
        error.finished, error.signal = Runs([run]), asked
        raise error
    return run


def watched(
    scenario: Scenario, observer: Callable[[Snapshot], None] | None
) -> Callable[[_native.Progress], None] | None:
    """Return what tells an observer how far a run is."""
    if observer is None:
        return None
    began = time.monotonic()

    def look(progress: _native.Progress) -> None:
        elapsed = time.monotonic() - began
        done, total = progress.simulated_s, scenario.duration_s
        observer(Snapshot(0, 1, done, total, progress.packet_hops, elapsed))

    return look


class CaptureFiles:
    """The files of the captures of a run; those of a temporary folder last as long as this object.

    Parameters
    ----------
    places : sequence of str
        Where packets are captured: a file each.
    folder : path or None
        Where the files are.
    """

    def __init__(self, places: Sequence[str], folder: str | Path | None) -> None:
        self._spool = Spool(Path(tempfile.gettempdir())) if places and folder is None else None
        self._folder = Path(folder or ".") if self._spool is None else self._spool.folder
        self.files = {place: self._folder / capture_file(place) for place in places}

    def wanted(self) -> list[tuple[str, str]]:
        """Return places and files."""
        return [(place, str(file)) for place, file in self.files.items()]


class CapturedTables(NativeTables):
    """The tables of a live run, with its captures of real packets."""

    def __init__(self, native: _native.RunResult | None, captures: CaptureFiles) -> None:
        super().__init__(native)
        self._captures = captures

    def captured_at(self) -> list[str]:
        """Return the places at which real packets were captured."""
        return list(self._captures.files)

    def write_pcapng(self, path: Path, at: str) -> None:
        """Copy a capture; a trace also shows other places, with packets as a simulation has them."""
        file = self._captures.files.get(at)
        if file is not None:
            shutil.copyfile(file, path)
        elif self.has("hops"):
            super().write_pcapng(path, at)
        else:
            raise not_captured(at, self.captured_at())


def check_captures(scenario: Scenario, places: Sequence[str] | None, *, trace: bool) -> list[str]:
    """Return where real packets are to be captured; refuse places that are no hosts."""
    if places is None:
        return [SENDERS] if trace else []
    if isinstance(places, str):
        raise ArgumentError(f"capture_at is a list of places: say capture_at=[{places!r}]")
    for place in places:
        if place != SENDERS and place not in scenario.hosts:
            known = ", ".join(dict.fromkeys([*scenario.hosts, SENDERS]))
            raise ArgumentError(
                f"no host {place!r} to capture at: real packets are captured where hosts send and get them: "
                f"{known}"
            )
    return list(dict.fromkeys(places))


def check_snaplen(snaplen: int) -> None:
    """Refuse captures of less than an IP header."""
    if not LEAST_SNAPLEN <= snaplen <= SNAPLEN:
        raise ArgumentError(
            f"{snaplen} bytes of each packet: store {LEAST_SNAPLEN} to {SNAPLEN} (--snaplen); "
            "96 hold all headers"
        )


def outer_host() -> str | None:
    """Return the host of another run at which we are; `None` if we are not within one."""
    place = os.environ.get(PLACE)
    if place is None or place != str(Path("/proc/thread-self/ns/net").stat().st_ino):
        return None
    return os.environ.get("LASTHOP_HOST")


def gateway(scenario: Scenario, host: str | None) -> str:
    """Return the host that a run within another stands at: the far end of the first flow from its program.

    Parameters
    ----------
    scenario : Scenario
        What is run.
    host : str or None
        The node of its program; the sink of the first flow if not given.
    """
    source, sink = scenario.ends[0]
    return sink if host == source else source


def check_outside(
    interface: str | None, dns: Sequence[str], *, nested: bool
) -> tuple[tuple[str, str] | None, list[IPv4Address]]:
    """Refuse a way out that cannot be; return its interface and tool, and the name servers to ask there."""
    if interface is None:
        if dns:
            raise ArgumentError("--dns names servers outside: say by which interface with --out-through")
        return None, []
    if nested:
        raise ArgumentError(
            "a run within another has no interface of the machine: give --out-through to that one"
        )
    return (interface, outside.check(interface)), outside.name_servers(dns)


def of_kernel(scenario: Scenario) -> dict[str, str]:
    """Return the flows that name a congestion control of the kernel, and which."""
    names = zip(scenario.flow_names, scenario.transports, strict=True)
    return {flow: name.removeprefix(KERNEL) for flow, name in names if name.startswith(KERNEL)}


def in_thread(
    work: Callable[[_native.Progress], T], watch: Callable[[_native.Progress], None] | None = None
) -> tuple[T, int | None]:
    """Do the work in a thread, so that signals get through; the programs of the run end with that thread.

    Returns
    -------
    T
        What came of the work.
    int or None
        The signal that asked it to stop, SIGINT or SIGTERM; `None` if none did.
    """
    progress = _native.Progress()
    found: dict[str, Any] = {}
    # Not ``Thread.join``: before Python 3.13 an interrupt within it may declare a thread dead that goes on.
    over = threading.Event()

    def body() -> None:
        try:
            found["result"] = work(progress)
        except BaseException as error:  # noqa: BLE001 - it is raised where the caller is
            found["error"] = error
        finally:
            over.set()

    thread = threading.Thread(target=body, name="lasthop-live", daemon=True)
    asked = None
    with _sigterm_raises(), signals_held() as signals:
        thread.start()
        ended = False
        while not ended:
            ended = over.wait(POLL_INTERVAL_S)
            if watch is not None and not ended:
                watch(progress)
            try:
                signals.deliver()
            except KeyboardInterrupt as signalled:
                asked = asked or (signal.SIGTERM if isinstance(signalled, _Terminated) else signal.SIGINT)
                progress.cancel()
    if "error" in found:
        raise found["error"]
    result: T = found["result"]
    return result, asked


class _Terminated(KeyboardInterrupt):
    """SIGTERM came."""


@contextmanager
def _sigterm_raises() -> Iterator[None]:
    """Let SIGTERM end a run in good order, as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


# ----------------------------------------------------------------------------------------------------------
# The journal


def journal_folder() -> Path:
    """Return the folder in which runs note what they have started.

    It bears the number of the user outside of any user namespace: inside, everyone is 0.

    Raises
    ------
    RunError
        If the folder is there and another user could have written into it: what it says is acted upon.
    """
    user = outer_user(os.geteuid(), _uid_map())
    own = Path("/run/user") / str(user)
    places = (Path("/run"), own) if os.access("/run", os.W_OK) else (own, Path(tempfile.gettempdir()))
    runtime = next((place for place in places if os.access(place, os.W_OK)), places[-1])
    folder = runtime / f"lasthop-{user}"
    with suppress(FileNotFoundError):
        refuse_foreign(folder)
    return folder


def refuse_foreign(folder: Path) -> None:
    """Refuse a folder that is not this user's alone: its owner and mode count, not its name."""
    found = folder.lstat()
    what = ""
    if not stat.S_ISDIR(found.st_mode):
        what = "is no folder"
    elif found.st_uid != os.geteuid():
        what = f"belongs to another user ({found.st_uid})"
    elif found.st_mode & 0o077:
        what = f"is open to other users (mode {stat.S_IMODE(found.st_mode):04o})"
    if what:
        raise RunError(
            f"what a run starts is noted in '{folder}', which {what}: look at it and remove it, or set "
            "TMPDIR to a folder of your own"
        )


def outer_user(inside: int, uid_map: str) -> int:
    r"""Return a user's number outside of the user namespace that has this map.

    Examples
    --------
    >>> outer_user(0, "0 1000 1\n1 100000 65536\n"), outer_user(5, "0 1000 1\n1 100000 65536\n")
    (1000, 100004)
    >>> outer_user(7, "")
    7
    """
    for line in uid_map.splitlines():
        first, outside, count = map(int, line.split())
        if first <= inside < first + count:
            return outside + inside - first
    return inside


def _uid_map() -> str:
    with suppress(OSError):
        return Path("/proc/self/uid_map").read_text(encoding="ascii")
    return ""


@contextmanager
def journal(
    mark: str,
    commands: Sequence[Sequence[str]],
    *,
    cleans: bool = True,
    nested: bool = False,
    out_through: tuple[str, str] | None = None,
) -> Iterator[tuple[int | None, WayOut | None]]:
    """Undo what earlier runs have left, if asked to, and note this one while it lasts.

    A run within another gets the number of a block of addresses that no other has meanwhile, and one that
    leads out of its network the description of its way, before anything is changed.
    """
    for line in clean() if cleans else []:
        print(f"note: {line}", file=sys.stderr)
    folder = journal_folder()
    # What another user has put there meanwhile is refused as well.
    folder.mkdir(mode=0o700, exist_ok=True)
    refuse_foreign(folder)
    place = folder / f"{mark}.json"
    owner = os.getpid()
    entry = {"mark": mark, "owner": owner, "owner_started": _started(owner), "commands": commands}
    with _alone(folder):
        block = free_block(folder) if nested else None
        way = None
        if out_through is not None:
            way = outside.choose(*out_through, mark, list(outside.noted(folder).values()))
            entry["outside"] = way.to_dict()
        place.write_text(json.dumps(entry | {"block": block}), encoding="utf-8")
    try:
        yield block, way
    finally:
        end_marked(mark)
        forget(place, mark)


def forget(place: Path, mark: str) -> None:
    """Take away a note of the journal, and what the run has changed on the machine."""
    folder = place.parent
    with _alone(folder):
        ways = outside.noted(folder)
        if (way := ways.pop(mark, None)) is not None:
            way.undo(ways.values())
        place.unlink(missing_ok=True)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let no other process write into the folder meanwhile."""
    import fcntl  # where there are real packets

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def free_block(folder: Path) -> int:
    """Return the number of a block of addresses, 10.n.0.0/16, that no run within another has now."""
    taken = set()
    for place in folder.glob("*.json"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            taken.add(json.loads(place.read_text(encoding="utf-8"))["block"])
    for block in range(1, MOST_NESTED + 1):
        if block not in taken:
            return block
    raise RunError(
        f"{MOST_NESTED} runs are within others already, and there are no addresses for one more; "
        "'lasthop emulate --clean' removes what killed runs have left"
    )


def clean() -> list[str]:
    """End what runs have left whose process is gone; return a line for each.

    There is none where nothing was left.

    Examples
    --------
    >>> _ = clean()
    >>> clean()
    []
    """
    done = []
    folder = journal_folder()
    for place in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        try:
            entry = json.loads(place.read_text(encoding="utf-8"))
            mark, owner, started = str(entry["mark"]), int(entry["owner"]), entry["owner_started"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if started is not None and _started(owner) == started:
            continue
        ended = end_marked(mark)
        forget(place, mark)
        processes = "1 process" if ended == 1 else f"{ended} processes"
        done.append(f"a run that was killed had left {processes}: ended")
    # Who may not ask the kernel for them has none either.
    with suppress(RuntimeError):
        names = _native.steer_clean() if _native.HAS_LIVE else []
        done += [f"a session of steering that was killed had left {name}: taken away" for name in names]
    return done


def end_marked(mark: str) -> int:
    """End every process that carries the mark of a run; return how many there were."""
    found = _marked(mark)
    for process in found:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
    asked = time.monotonic()
    left = _marked(mark) if found else []
    while left and time.monotonic() - asked < GRACE_S:
        time.sleep(0.02)
        left = _marked(mark)
    for process in left:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return len(found)


def _marked(mark: str) -> list[int]:
    """Return the processes with the mark, which all that a program starts inherits."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            if wanted in (place / "environ").read_bytes().split(b"\0") and int(place.name) != os.getpid():
                found.append(int(place.name))
    return found


def _started(process: int) -> int | None:
    """Return when a process started, in ticks since the machine did; `None` if there is none."""
    with suppress(OSError, ValueError, IndexError):
        # The name of the program is in parentheses and may hold anything.
        return int(Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19])
    return None


# ----------------------------------------------------------------------------------------------------------
# What it needs


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that live use needs: what there is of it, and what to do if that is not enough."""

    what: str
    text: str
    remedy: str = ""
    #: Without it `emulate` cannot run at all.
    vital: bool = True


def examine() -> list[Need]:
    """Say what live use needs and has on this machine.

    Examples
    --------
    >>> [need.what for need in examine()][:2]
    ['live build', 'kernel']
    """
    system = platform.system()
    if system != "Linux":
        remedy = "real packets need Linux; simulate, or use a virtual machine"
        return [Need("live build", f"no: this is {system}", remedy), Need("kernel", platform.release())]
    built = Need("live build", "yes")
    if not _native.HAS_LIVE:
        built = Need("live build", "no", "build lasthop with the feature 'live', which is on by default")
    return [built, Need("kernel", platform.release()), _rights(), _tun(), _schedulers(), _btf()]


def lacking() -> list[Need]:
    """Return what keeps `emulate` from running."""
    return [need for need in examine() if need.vital and need.remedy]


def _rights() -> Need:
    """Do what every run does first; it shows whether the rights are there."""
    try:
        _native.rehearse_live()
    except RuntimeError as error:
        said = str(error).partition(";")[0]
        remedy = "run it as root, with sudo, or in 'unshare --user --map-root-user'"
        return Need("rights", f"not enough: {said}", remedy)
    return Need("rights", "a network namespace with a TUN device can be made, and a program run in it")


def _tun() -> Need:
    device = Path("/dev/net/tun")
    if not device.exists():
        return Need(
            "TUN", "/dev/net/tun is missing", "modprobe tun, or give the container --device /dev/net/tun"
        )
    if not os.access(device, os.R_OK | os.W_OK):
        return Need("TUN", "/dev/net/tun may not be opened", "run it as root, or chmod 0666 /dev/net/tun")
    return Need("TUN", "/dev/net/tun")


def _schedulers() -> Need:
    known = algorithms()
    missing = [name for name in SCHEDULERS if name not in known]
    text = ", ".join(known) or "unknown"
    remedy = " ".join(["modprobe", "-a", *(f"tcp_{name}" for name in missing)]) if missing else ""
    return Need("congestion controls", text, remedy, vital=False)


def _btf() -> Need:
    if Path("/sys/kernel/btf/vmlinux").exists():
        return Need("BTF", "/sys/kernel/btf/vmlinux", vital=False)
    remedy = "a kernel with CONFIG_DEBUG_INFO_BTF; 'emulate' does without"
    return Need("BTF", "none", remedy, vital=False)


def algorithms() -> list[str]:
    """Return the congestion controls that the kernel has loaded."""
    with suppress(OSError):
        return Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text(encoding="utf-8").split()
    return []


def plan_text(
    scenario: Scenario,
    command: Sequence[str],
    host: str | None,
    beside: Sequence[tuple[str, Sequence[str]]],
    kernel: str | None,
    captures: Sequence[str] = (),
    out_through: str | None = None,
) -> str:
    """Return in words what `emulate` would do; what it would refuse is refused."""
    with native_errors():
        _native.check_live(scenario.plan)
        for algorithm in {kernel} if kernel else set(of_kernel(scenario).values()):
            place, separator, law = algorithm.partition(":")
            if separator and place in {"steer", "twin"}:
                _native.check_steer(law, in_kernel=place == "twin")
    outer = outer_host()
    block = None if outer is None else free_block(journal_folder())
    near = gateway(scenario, host)
    lines = []
    for name, address in scenario.hosts.items():
        if block is None:
            at = f"a network namespace without a name, with a TUN device {DEVICE} at {address}"
        else:
            moved = address.replace("10.0.", f"10.{block}.", 1)
            at = f"a network namespace without a name, with a TUN device {DEVICE} at {moved}"
            if name == near:
                at = f"the host {outer!r} of the run around this one, with one more TUN device, at {moved}"
        lines.append(f"{name}: {at}")
    lines += [f"links: {', '.join(scenario.link_names)}, for at most {time_text(scenario.duration_s)}"]
    if out_through is not None:
        tool = outside.check(out_through)
        lines += [
            f"let {near} pass on packets for other addresses, and out through {out_through} (NAT by {tool})"
        ]
    lines += [f"start at {name}: {' '.join(words)}" for name, words in beside]
    if kernel is None:
        own = of_kernel(scenario).items()
        lines += [f"carry {flow} with sockets of the kernel ({algorithm})" for flow, algorithm in own]
    else:
        # Behind the flows of the scenario come those that begin at proxies.
        names = scenario.flow_names[: len(scenario.ends)]
        lines += [f"carry {', '.join(names)} with sockets of the kernel ({kernel})"]
    if command:
        lines += [f"start at {host or scenario.ends[0][1]}: {' '.join(command)}"]
    lines += [f"capture packets at {place}, into {capture_file(place)}" for place in captures]
    if os.access("/dev/cpu_dma_latency", os.W_OK):
        lines += ["ask for processors that do not sleep while it runs (/dev/cpu_dma_latency)"]
    lines += [f"note in {journal_folder()} what was started, and take the note away afterwards"]
    return "\n".join(lines)


#: Why a packet did not enter the network, in words.
REFUSED = {
    "not-ipv4": "thrown away that were no whole packets of IPv4",
    "no-path": "thrown away because no flow of the scenario joins their two hosts",
    "too-long": "thrown away that were longer than the links take",
}


def report_lines(run: Run) -> list[str]:
    """Return in words how a live run kept time, and what it could not pass."""
    report = run.record["live"]
    late = [report[f"late_{name}_s"] for name in ("p50", "p99", "p999", "max")]
    lines = ["no packet crossed the network (--dry-run shows the addresses of its hosts)"]
    if report["packets"]:
        shown = " / ".join(f"{seconds * 1e3:.3f}" for seconds in late)
        lines = [f"late: {shown} ms (p50 / p99 / p99.9 / largest) of {report['packets']:,} packets"]
    lines[0] += f", {report['scheduling']}, {report['busiest_second']:.0%} of a core in the busiest second"
    counts = {
        "dropped by TUN devices": report["tun_dropped"],
        "not understood beyond their IP header, passed": report["opaque"],
        "of helpers, without bytes": report["without_bytes"],
        "connections that no split understood, passed whole": report["untouched_by_splits"],
        "not taken by the kernel": report["kernel_refused"],
        **{REFUSED.get(why, f"refused ({why})"): count for why, count in report["refused"].items()},
    }
    told = [f"{count:,} {what}" for what, count in counts.items() if count]
    if told:
        lines.append(f"packets: {'; '.join(told)}")
    for program in report["not_listening"]:
        lines.append(f"no server yet when the program started: {program}")
    for capture in report["captures"]:
        missed = capture["missed"]
        lack = f"; {missed:,} are missing because the disk was too slow for them" if missed else ""
        lines.append(f"captured at {capture['place']}: {capture['packets']:,} packets{lack}")
    return lines


def is_cut_off(run: Run) -> bool:
    """Whether the end of the scenario cut the program off."""
    report = run.record["live"]
    return bool(report["program"] and report["ended_by"] == SCENARIO)


def check_hosts(scenario: Scenario, names: Sequence[str | None]) -> None:
    """Refuse nodes that are no hosts."""
    for name in names:
        if name is not None and name not in scenario.hosts:
            known = ", ".join(scenario.hosts)
            raise ArgumentError(f"no host {name!r}: the hosts of this scenario are {known}")


def refuse_without_means() -> None:
    """Say at once what is missing, before anything has been set up."""
    for need in lacking():
        raise RunError(f"no real packets here: {need.what}: {need.text}; {need.remedy}")
