"""The Linux kernel in virtual time: a virtual machine whose clock counts instructions answers for its TCP.

`run_scripts` plays scripts of one end of a connection to the kernel of the machine, `emulate` runs a scenario
between sockets of that kernel; both need neither root nor a quiet computer, and what they return repeats.
`make kernel-guest` puts a kernel and a RAM disk with ``crates/lasthop-guest`` into a folder
(``tools/kernel_guest.py``); here the machine is started, watched and ended. Whatever happens,
nothing of it is left running.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop import _native
from lasthop.errors import ArgumentError, RunError, ScenarioError, native_errors
from lasthop.files import replacing
from lasthop.quantities import time_text
from lasthop.results import NativeTables, Run
from lasthop.runner import available_cores
from lasthop.scripts import ScriptOutcome, outcome_of, text_of
from lasthop.threads import in_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lasthop.scenario import Scenario

#: Names the folder of the machine, where it is not ``out/kernel`` of the current folder or of the checkout.
VARIABLE = "LASTHOP_GUEST"
QEMU = "qemu-system-x86_64"
#: Files of that folder: what `make kernel-guest` has put there, and the machine as it was after its boot.
KERNEL, DISK, ABOUT, SNAPSHOT, SNAPSHOT_KEY = "vmlinux", "disk.cpio", "about.json", "snapshot", "snapshot.key"
#: How late 1 % of the packets may be: here lateness is the work of the machine itself.
BUDGET_S = 0.2e-3
#: Congestion controls of which the RAM disk has the modules, and those that are built into the kernel.
ALGORITHMS = ("reno", "cubic", "bbr", "dctcp", "vegas", "veno", "westwood", "htcp", "illinois")

#: Queue disciplines of which it has the modules, each behind those that it needs; fq_codel is built in.
DISCIPLINES = ("tbf", "red", "codel", "pie", "fq_pie", "cake")

#: Seconds of CPU that a boot may take, a resumption, each script, and each second of a scenario.
BOOT_S, RESUME_S, SCRIPT_S, SECOND_S = 120.0, 60.0, 10.0, 30.0
#: How long QEMU may take no CPU at all.
STALL_S = 60.0
#: How often it is looked.
LOOK_S = 0.02
#: Scripts for one resumption.
BATCH = 100
#: What the console says when its kernel gives up. QEMU is to end then, and sometimes hangs instead.
PANIC = "Kernel panic"
#: Lines of the console that an error shows.
LINES = 24
#: What a machine lacks that cannot be steered, and the remedy.
NO_BPFTOOL = "bpftool was not there when it was built: apt-get install bpftool, then make kernel-guest"
#: QEMU's exit status when the machine has done its jobs (``crates/lasthop-guest/src/machine.rs``).
DONE = 3
#: Bytes that jobs may have together: QEMU hands them over one by one.
MOST_BYTES = 16 << 20

#: One instruction takes one nanosecond, and time that would be waited is skipped. Seeds are fixed, since
#: ports, initial numbers and hashes come from them.
_MACHINE = (
    *("-M", "pc", "-accel", "tcg", "-cpu", "max,-rdrand,-rdseed", "-seed", "7"),
    *("-icount", "shift=0,sleep=off", "-rtc", "base=2026-01-01,clock=vm", "-m", "512", "-smp", "1"),
    *("-display", "none", "-no-reboot", "-net", "none", "-monitor", "none"),
    *(
        "-device",
        "isa-debug-exit,iobase=0xf4,iosize=4",
        "-device",
        "pvpanic,events=1",
        "-action",
        "panic=pause",
    ),
)
#: What the kernel need not do at its boot, and what would differ from boot to boot.
_COMMAND_LINE = (
    "console=ttyS0 panic=-1 nokaslr edd=off quiet random.trust_cpu=off random.trust_bootloader=off "
    "cryptomgr.notests=1 mitigations=off rodata=off nokprobes audit=0"
)


#: Machines so far: each is put on the next processor.
_STARTED = itertools.count()


@dataclass(frozen=True, slots=True)
class Guest:
    """The machine that is asked.

    Attributes
    ----------
    folder : Path
        Where its files are.
    release : str
        Its kernel, such as ``6.1.0-56-amd64``.
    steers : bool
        Whether our controllers can steer its TCP.
    """

    folder: Path
    release: str
    steers: bool = False


def folder() -> Path:
    """Return the folder of the machine, whether or not it has been built."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    here = Path("out", "kernel")
    checkout = Path(__file__).resolve().parents[2] / here
    return here if (here / ABOUT).exists() else checkout


def lacking() -> str | None:
    """Return in one line what keeps the machine from being started, and the remedy; `None` if nothing."""
    if shutil.which(QEMU) is None:
        return f"{QEMU} is missing: apt-get install --no-install-recommends qemu-system-x86"
    if not (folder() / ABOUT).exists():
        return f"no kernel for the virtual machine in {folder()}: make kernel-guest (or set {VARIABLE})"
    for tool in ("taskset", "setpriv"):
        if shutil.which(tool) is None:
            return f"{tool} is missing: apt-get install util-linux"
    return None


def find() -> Guest:
    """Return the machine.

    Raises
    ------
    RunError
        If there is none; the text says in one line what to install or to build.
    """
    if lack := lacking():
        raise RunError(lack)
    place = folder()
    try:
        about = json.loads((place / ABOUT).read_text(encoding="utf-8"))
        return Guest(place, str(about["release"]), bool(about.get("steers")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"{place / ABOUT} cannot be read ({error}): make kernel-guest builds it anew"
        ) from None


def run_scripts(sources: Sequence[str | Path]) -> list[ScriptOutcome]:
    """Play scripts to the kernel of the machine; there is an outcome for each, in order.

    Parameters
    ----------
    sources : sequence of str or Path
        Files, or texts of scripts, as for `lasthop.scripts.run_script`. Their ``kernel`` names the congestion
        control.

    Raises
    ------
    ScenarioError
        If one is no script.
    RunError
        If the machine cannot be started or does not answer, or its kernel lacks the congestion control.
    """
    guest = find()
    texts = [text_of(source) for source in sources]
    with native_errors():
        heads = [json.loads(_native.check_script(text, name)) for text, name in texts]
    jobs = [{"script": {"name": name, "text": text}} for text, name in texts]
    answers: list[dict[str, Any]] = []
    for first in range(0, len(jobs), BATCH):
        batch = jobs[first : first + BATCH]
        answers += answered(guest, batch, RESUME_S + SCRIPT_S * len(batch))
    outcomes = []
    for (_, name), head, answer in zip(texts, heads, answers, strict=True):
        if "error" in answer:
            raise RunError(f"{name}: {answer['error']} (kernel {guest.release})")
        outcomes.append(outcome_of(head | answer, name))
    return outcomes


def emulate(
    scenario: Scenario,
    *,
    kernel: str | None = None,
    seed: int | None = None,
    budget_s: float = BUDGET_S,
    windows: bool = False,
    capture: str | Path | None = None,
    stop: threading.Event | None = None,
) -> Run:
    """Run a scenario between sockets of the machine's kernel, in virtual time.

    Parameters
    ----------
    scenario : Scenario
        Its links, queues, channels and helpers are those of a simulation.
    kernel : str, optional
        The congestion control of all its flows, or ``steer:`` or ``twin:`` and a controller of ours; if not
        given, that which each flow names (``transport = "kernel:cubic"``).
    seed : int, optional
        Seed of everything that the channel draws; that of the scenario if not given.
    budget_s : float
        How late 1 % of the packets may leave. A run beyond it is marked invalid.
    windows : bool
        Record windows over time, once in each ``measure.series_interval``.
    capture : str or Path, optional
        Write here what the senders sent and received, byte for byte as far as the headers go (pcapng).
    stop : threading.Event, optional
        Ends the run from another thread.

    Returns
    -------
    Run
        As of `lasthop.live.emulate`, without series. With `windows`, ``record["live"]["windows"]`` has rows
        of flow, time (s), cwnd (segments), ssthresh (segments, `None` if unknown) and smoothed RTT (s).

    Raises
    ------
    RunError
        If the machine cannot be started, does not answer, or cannot do it.
    """
    guest = find()
    if not budget_s > 0:
        raise ArgumentError(f"a budget of {time_text(budget_s)}: it has to be more than nothing")
    if kernel is not None and ":" in kernel and not guest.steers:
        raise RunError(f"the kernel of the virtual machine takes no {kernel}: {NO_BPFTOOL}")
    job = emulation(scenario, kernel, seed, budget_s, windows=windows, capture=capture is not None)
    limit = RESUME_S + SECOND_S * scenario.duration_s
    (answer,) = answered(guest, [job], limit, stop)
    if "error" in answer:
        raise RunError(f"{answer['error']} (in the virtual machine, kernel {guest.release})")
    if capture is not None:
        with replacing(Path(capture)) as unfinished:
            unfinished.write_bytes(bytes.fromhex(answer["capture"]))
    about = {"virtual": guest.release} | ({"windows": answer["windows"]} if windows else {})
    record = answer["summary"] | {"live": answer["live"] | about}
    return Run(record, scenario.to_dict(), _native.__version__, NativeTables(None))


def emulate_all(
    orders: Sequence[tuple[Scenario, str | None, int]], *, budget_s: float = BUDGET_S
) -> Iterator[Run]:
    """Run several scenarios, each in a machine of its own, as many at a time as there are processors.

    Parameters
    ----------
    orders : sequence of scenario, congestion control and seed
        As for `emulate`.
    budget_s : float
        As for `emulate`.

    Yields
    ------
    Run
        In the order of the orders.
    """
    guest = find()
    snapshot(guest)
    stop = threading.Event()
    yield from in_order(
        lambda order: emulate(order[0], kernel=order[1], seed=order[2], budget_s=budget_s, stop=stop),
        orders,
        available_cores(),
        cancel=stop.set,
    )


def run_discipline(
    commands: Sequence[str], packets: Sequence[tuple[int, int, int, int]], until_ns: int
) -> dict[str, Any]:
    """Send packets through a queue discipline of the machine's kernel.

    Parameters
    ----------
    commands : sequence of str
        What ``tc`` is told first; ``DEVICE`` stands for the device. The discipline needs a rate of its own.
    packets : sequence of time, flow, DSCP and size
        In ns, a number from 0, 0 to 63, and bytes from 32 to 1500 with the headers of IPv4 and UDP; in the
        order of their times.
    until_ns : int
        When it ends.

    Returns
    -------
    dict
        ``left``: pairs of a packet's place in `packets` and the time in ns at which it left, in this order;
        ``late_ns``: by how much a packet came late, at most; ``said``: what ``tc -s qdisc show`` says at the
        end.

    Raises
    ------
    RunError
        If the machine cannot be started or does not answer, or ``tc`` refuses a command.
    """
    guest = find()
    job = {
        "discipline": {
            "commands": [command.split() for command in commands],
            "packets": [list(packet) for packet in packets],
            "until": until_ns,
        }
    }
    (answer,) = answered(guest, [job], RESUME_S + SECOND_S * until_ns / 1e9)
    if "error" in answer:
        raise RunError(f"{answer['error']} (in the virtual machine, kernel {guest.release})")
    return answer


def emulation(
    scenario: Scenario,
    kernel: str | None,
    seed: int | None = None,
    budget_s: float = BUDGET_S,
    *,
    windows: bool = False,
    capture: bool = False,
) -> dict[str, Any]:
    """Return the job of `answered` that emulates a scenario; the arguments are those of `emulate`."""
    return {
        "emulation": {
            "scenario": scenario.to_json(),
            "files": _files_of(scenario),
            "kernel": kernel,
            "seed": scenario.seed if seed is None else seed,
            "budget_s": budget_s,
            "windows": windows,
            "capture": capture,
        }
    }


def _files_of(scenario: Scenario) -> dict[str, str]:
    """Return the texts of the files that a scenario names, by what it calls them."""
    texts = {}
    for path in scenario.input_files:
        inside = scenario.folder.parts and path.is_relative_to(scenario.folder)
        name = path.relative_to(scenario.folder) if inside else path
        try:
            texts[str(name)] = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ScenarioError(f"cannot read {path}: {error}") from None
    return texts


def answered(
    guest: Guest, jobs: Sequence[dict[str, Any]], limit_s: float, stop: threading.Event | None = None
) -> list[dict[str, Any]]:
    """Continue the machine from its snapshot with these jobs; return an answer for each.

    Parameters
    ----------
    guest : Guest
        What `find` has found.
    jobs : sequence of dict
        As ``crates/lasthop-guest/src/jobs.rs`` reads them.
    limit_s : float
        Seconds of CPU that QEMU may take.
    stop : threading.Event, optional
        Ends it from another thread.

    Raises
    ------
    RunError
        If it takes longer, or ends without an answer to each; with the last lines of its console.
    """
    text = json.dumps(jobs)
    if len(text) > MOST_BYTES:
        raise RunError(f"{len(text)} bytes for the virtual machine: it takes {MOST_BYTES} at a time")
    snapshot(guest)
    with tempfile.TemporaryDirectory(prefix="lasthop-guest-") as name:
        scratch = Path(name)
        (scratch / "job").write_text(text, encoding="utf-8")
        kept = _quoted(guest.folder / SNAPSHOT)
        options = ["-incoming", f"exec:cat {kept}", "-S"]
        options += ["-fw_cfg", f"name=opt/lasthop/job,file={scratch / 'job'}"]
        with _machine(guest, scratch, options, limit_s, stop) as machine:
            machine.until(lambda status: status["status"] != "inmigrate", "continuing from its snapshot")
            machine.command("cont")
            status = machine.ended()
        answers = _answers(scratch / "answers")
        if status != DONE or len(answers) != len(jobs):
            about = f"ended with status {status} after {len(answers)} of {len(jobs)} answers"
            raise _failure(about, scratch)
    return answers


def _answers(file: Path) -> list[dict[str, Any]]:
    """Return the answers that the machine has written, as far as they are whole."""
    lines = file.read_bytes().split(b"\n")[:-1] if file.exists() else []
    return [json.loads(line) for line in lines]


def snapshot(guest: Guest) -> None:
    """Boot the machine and keep it as it is after that, unless this has been done with this QEMU."""
    key = _key(guest)
    kept = guest.folder / SNAPSHOT_KEY
    with contextlib.suppress(OSError):
        if kept.read_text(encoding="utf-8") == key and (guest.folder / SNAPSHOT).exists():
            return
    with tempfile.TemporaryDirectory(prefix="lasthop-guest-") as name:
        scratch = Path(name)
        written = guest.folder / f"{SNAPSHOT}.{os.getpid()}"
        try:
            with _machine(guest, scratch, [], BOOT_S, None) as machine:
                machine.until(lambda status: not status["running"], "booting")
                machine.command("migrate-set-parameters", {"max-bandwidth": 10**10})
                machine.command("migrate", {"uri": f"exec:cat > {_quoted(written)}"})
                machine.until_kept()
                machine.command("quit")
                machine.ended()
            written.replace(guest.folder / SNAPSHOT)
        finally:
            written.unlink(missing_ok=True)
    kept.write_text(key, encoding="utf-8")


def _key(guest: Guest) -> str:
    """Return what a snapshot depends on: QEMU, the machine, and what was booted."""
    command = [QEMU, "--version"]
    version = subprocess.run(command, capture_output=True, text=True, check=False).stdout  # noqa: S603
    parts = [version, *_MACHINE, _COMMAND_LINE, (guest.folder / ABOUT).read_text(encoding="utf-8")]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _quoted(path: Path) -> str:
    """Return a path for the shell that QEMU starts."""
    return "'" + str(path.resolve()).replace("'", "'\\''") + "'"


def _failure(what: str, scratch: Path) -> RunError:
    """Return an error with the last lines of the console, or what QEMU says."""
    lines: list[str] = []
    for file in ("errors", "console"):
        with contextlib.suppress(OSError):
            text = (scratch / file).read_bytes().decode("utf-8", "replace")
            lines += [line.strip() for line in text.splitlines() if line.strip()]
    said = "".join(f"\n  {line[:200]}" for line in lines[-LINES:]) or " (its console is empty)"
    if any(PANIC in line for line in lines):
        what = f"panicked ({what})"
    return RunError(f"the virtual machine {what}; 'make kernel-guest' builds it anew; its last lines:{said}")


@contextlib.contextmanager
def _machine(
    guest: Guest, scratch: Path, options: Sequence[str], limit_s: float, stop: threading.Event | None
) -> Iterator[_Machine]:
    """Start QEMU; it has ended when this is left."""
    ours, theirs = socket.socketpair()
    # On one processor, where its two threads take turns: runs then repeat more often.
    cores = sorted(os.sched_getaffinity(0))
    core = cores[(os.getpid() + next(_STARTED)) % len(cores)]
    words = ["taskset", "-c", str(core), "setpriv", "--pdeathsig", "KILL", QEMU]
    words += [*_MACHINE, "-kernel", str(guest.folder / KERNEL), "-initrd", str(guest.folder / DISK)]
    words += ["-append", _COMMAND_LINE, "-serial", f"file:{scratch / 'console'}"]
    words += ["-chardev", f"file,id=answers,path={scratch / 'answers'}", "-device"]
    words += [
        "isa-debugcon,iobase=0xe9,chardev=answers",
        "-chardev",
        f"socket,id=control,fd={theirs.fileno()}",
    ]
    words += ["-mon", "chardev=control,mode=control", *options]
    with ours, theirs, (scratch / "errors").open("wb") as errors:
        process = subprocess.Popen(  # noqa: S603 - our own words
            words,
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        try:
            theirs.close()
            yield _Machine((process, ours), scratch, limit_s, stop)
        finally:
            # The whole group: what QEMU has started besides reads or writes the snapshot.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class _Machine:
    """A running QEMU: its control connection, and how long it may go on."""

    def __init__(
        self,
        started: tuple[subprocess.Popen[bytes], socket.socket],
        scratch: Path,
        limit_s: float,
        stop: threading.Event | None,
    ) -> None:
        (self._process, self._control), self._scratch = started, scratch
        self._limit_s, self._stop = limit_s, stop
        self._cpu_s, self._moved = 0.0, time.monotonic()
        self._control.settimeout(LOOK_S)
        self._unread = b""
        self._doing = "starting"
        self._read()
        self.command("qmp_capabilities")

    def command(self, name: str, arguments: dict[str, Any] | None = None) -> Any:  # noqa: ANN401 - as QEMU says
        """Give QEMU a command (QMP), and return its answer."""
        wanted = {"execute": name} | ({"arguments": arguments} if arguments else {})
        try:
            self._control.sendall(json.dumps(wanted).encode() + b"\n")
        except OSError:
            raise self._died() from None
        while True:
            told = self._read()
            if "return" in told:
                return told["return"]
            if "error" in told:
                raise _failure(f"refused {name!r}: {told['error'].get('desc')}", self._scratch)

    def _read(self) -> dict[str, Any]:
        """Return the next line that QEMU says; what it is at is looked at while there is none."""
        while b"\n" not in self._unread:
            try:
                more = self._control.recv(1 << 16)
            except TimeoutError:
                self._look()
                continue
            except OSError:
                more = b""
            if not more:
                raise self._died()
            self._unread += more
        line, _, self._unread = self._unread.partition(b"\n")
        told: dict[str, Any] = json.loads(line)
        return told

    def _died(self) -> RunError:
        return _failure(f"ended with status {self._process.wait()}", self._scratch)

    def until(self, is_so: Any, doing: str) -> None:  # noqa: ANN401 - a test of what QEMU says
        """Wait until the status is so."""
        self._doing = doing
        while not is_so(self.command("query-status")):
            self._look()
            time.sleep(LOOK_S)

    def until_kept(self) -> None:
        """Wait until a snapshot has been written."""
        self._doing = "keeping a snapshot"
        while (told := self.command("query-migrate").get("status")) != "completed":
            if told in {"failed", "cancelled"}:
                raise _failure("could not be kept as a snapshot", self._scratch)
            self._look()
            time.sleep(LOOK_S)

    def ended(self) -> int:
        """Wait until it has ended; return its status."""
        self._doing = "doing its jobs"
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self._process.wait(LOOK_S)
            self._look()

    def _look(self) -> None:
        """Give up on a machine that is not wanted, panicked, or takes too much CPU or none for long."""
        if self._stop is not None and self._stop.is_set():
            raise _failure(f"was stopped while {self._doing}", self._scratch)
        console = self._scratch / "console"
        if console.exists() and PANIC.encode() in console.read_bytes():
            raise _failure(f"was ended while {self._doing}", self._scratch)
        cpu_s = _cpu_s(self._process.pid)
        now = time.monotonic()
        if cpu_s is None or cpu_s > self._cpu_s:
            self._cpu_s, self._moved = cpu_s or self._cpu_s, now
        if self._cpu_s > self._limit_s:
            raise _failure(f"was ended after {self._limit_s:g} s of CPU while {self._doing}", self._scratch)
        if now - self._moved > STALL_S:
            raise _failure(f"did nothing for {STALL_S:g} s while {self._doing}", self._scratch)


def _cpu_s(process: int) -> float | None:
    """Return the CPU time of a process, in seconds; `None` if it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
