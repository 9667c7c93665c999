"""Real packets and the kernel: `emulate`, `steer` and `parity`."""

from __future__ import annotations

import json
import shlex
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lasthop import files
from lasthop.arguments import parse_names
from lasthop.commands.deliver import (
    advise,
    check_json,
    check_recording,
    deliver_runs,
    open_scenario,
    targets,
    write_json,
)
from lasthop.commands.options import (
    DryRunOption,
    ForceOption,
    FormatOption,
    JsonOption,
    OutOption,
    ScenarioFile,
    ScenarioFileIfAny,
    SeedOption,
    SeriesOption,
    SetOption,
    TraceOption,
    TrustOption,
    VirtualOption,
)
from lasthop.errors import ArgumentError, Interrupted
from lasthop.places import SENDERS, capture_file
from lasthop.progress import shown_progress
from lasthop.quantities import time_text
from lasthop.results import Runs
from lasthop.stand_ins import unexecuted
from lasthop.terminal import (
    EXIT_CUT_OFF,
    EXIT_INVALID,
    exit_code_of,
    live_codes,
    note,
    print_content,
    say,
    user_errors,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lasthop.parity import Parity
    from lasthop.results import Run
    from lasthop.scenario import Scenario


#: Bytes of a packet that hold all its headers: what a page that only watches needs.
HEADERS = 128


def emulate(
    file: ScenarioFileIfAny = None,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND...]", help="A program and its arguments.", show_default=False),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            metavar="NODE",
            help="Node at which COMMAND runs; the sink of the first flow if not given.",
        ),
    ] = None,
    beside: Annotated[
        list[str] | None,
        typer.Option(
            "--beside",
            metavar="NODE=COMMAND",
            help="Another program, such as a server, at a node; repeatable.",
        ),
    ] = None,
    kernel: Annotated[
        str | None,
        typer.Option(
            "--kernel",
            metavar="NAME",
            help="Carry the scenario's flows with kernel sockets: cubic, bbr; steer:veno, or twin:veno.",
        ),
    ] = None,
    budget: Annotated[
        float,
        typer.Option(
            "--budget", metavar="MS", help="How late 1 % of the packets may be; otherwise the run is invalid."
        ),
    ] = 1.0,
    seed: SeedOption = None,
    settings: SetOption = None,
    json_file: JsonOption = None,
    out: OutOption = None,
    series: SeriesOption = False,
    trace: TraceOption = False,
    capture_at: Annotated[
        list[str] | None,
        typer.Option(
            "--capture-at",
            metavar="HOST",
            help="With --out: a pcapng of the real packets of a host, or of 'senders'; repeatable.",
        ),
    ] = None,
    snaplen: Annotated[
        int,
        typer.Option(
            "--snaplen", metavar="BYTES", help="Bytes stored of each captured packet; all if not given."
        ),
    ] = 65_535,
    out_through: Annotated[
        str | None,
        typer.Option(
            "--out-through",
            metavar="IFACE",
            help="Give the hosts a way out through this interface of the machine (NAT); off if not given.",
        ),
    ] = None,
    dns: Annotated[
        list[str] | None,
        typer.Option("--dns", metavar="ADDRESS", help="With --out-through: a name server; repeatable."),
    ] = None,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Serve a page that shows the connections while the run goes on."),
    ] = False,
    table_format: FormatOption = "parquet",
    force: ForceOption = False,
    trust: TrustOption = False,
    dry_run: DryRunOption = False,
    clean: Annotated[
        bool, typer.Option("--clean", help="End processes that killed runs have left, and exit.")
    ] = False,
) -> None:
    """Run real programs over the network of a scenario, in real time (Linux, root).

    The run ends with COMMAND, and at the latest when the scenario does. It exits with
    the status of COMMAND, or else with 123 if packets left too late (invalid), 124 if
    the scenario ended first, and 125 if lasthop failed.
    """
    with user_errors(), unexecuted() if dry_run else nullcontext():
        from lasthop import live

        if clean:
            say("\n".join(live.clean() or ["nothing was left"]))
            return
        if file is None:
            raise ArgumentError("no scenario: give a FILE, or --clean")
        scenario = open_scenario(file, settings, trust=trust)
        check_recording(out, series=series, trace=trace, capture_at=capture_at)
        captures = live.check_captures(scenario, capture_at or None, trace=trace)
        if watch:
            captures = list(dict.fromkeys([*captures, SENDERS]))
        live.check_snaplen(snaplen)
        programs, words = _programs(beside or []), command or []
        live.check_hosts(scenario, [host, *(name for name, _ in programs)])
        if dry_run:
            say(live.plan_text(scenario, words, host, programs, kernel, captures, out_through))
            return
        with live_codes():
            live.refuse_without_means()
        with targets(file, json_file, out, table_format, force=force):
            advise(scenario)
            if outer := live.outer_host():
                near = live.gateway(scenario, host)
                note(
                    f"note: this run is within another: {near!r} is its host {outer!r}, "
                    "and packets cross both networks"
                )
            with _watched(out) if watch else nullcontext(out) as folder:
                finished, interruption = _emulated(
                    scenario,
                    words,
                    host=host,
                    beside=programs,
                    kernel=kernel,
                    seed=seed,
                    budget_s=budget / 1e3,
                    series=series,
                    trace=trace,
                    capture_at=captures,
                    snaplen=min(snaplen, HEADERS) if watch and out is None else snaplen,
                    folder=folder,
                    out_through=out_through,
                    dns=dns or (),
                )
            deliver_runs(finished, json_file, out, table_format, finished.seeds)
            shown = json_file != "-"
            _deliver_report(finished[0], scenario.hosts, shown=shown, interruption=interruption)


@contextmanager
def _watched(out: Path | None) -> Iterator[Path]:
    """Serve a page that follows the capture of the senders; yields the folder for captures."""
    from tempfile import TemporaryDirectory

    from lasthop import view

    with (
        TemporaryDirectory(prefix="lasthop-watch-") if out is None else nullcontext(str(out)) as folder,
        view.watched(Path(folder) / capture_file(SENDERS)) as address,
    ):
        note(f"watch it at {address}")
        yield Path(folder)


def _emulated(
    scenario: Scenario,
    words: list[str],
    **options: Any,  # noqa: ANN401 - those of `live.emulate`
) -> tuple[Runs, Interrupted | None]:
    """Emulate; a run that was interrupted counts as far as it came, and its error comes with it."""
    from lasthop import live
    from lasthop.progress import emulated_line

    with live_codes():
        try:
            if words:
                # A program writes to the terminal itself.
                return Runs([live.emulate(scenario, words, **options)]), None
            with shown_progress("runs", emulated_line) as observer:
                return Runs([live.emulate(scenario, observer=observer, **options)]), None
        except Interrupted as error:
            if error.finished is None:
                raise
            return error.finished, error


def _deliver_report(run: Run, hosts: Iterable[str], *, shown: bool, interruption: Interrupted | None) -> None:
    """Say how a live run kept time and ended; exit with the code for that, or with the program's own."""
    from lasthop import live

    for line in live.report_lines(run) if shown else []:
        say(line)
    report = run.record["live"]
    for reason in report["invalid_because"]:
        note(f"invalid: {reason}")
    if interruption is not None:
        raise interruption
    if live.is_cut_off(run):
        note(f"cut off: the program still ran when the scenario ended, after {time_text(run.duration_s)}")
    status = report["program_status"]
    if status:
        # A name that is no host is a common reason, and its own message knows no hosts.
        note(f"the program ended with status {status}; the hosts of this run are {', '.join(hosts)}")
        raise typer.Exit(exit_code_of(status))
    if not report["valid"]:
        raise typer.Exit(EXIT_INVALID)
    if live.is_cut_off(run):
        raise typer.Exit(EXIT_CUT_OFF)


def _programs(texts: list[str]) -> list[tuple[str, list[str]]]:
    """Read ``NODE=COMMAND``."""
    programs = []
    for text in texts:
        name, equals, words = text.partition("=")
        try:
            split = shlex.split(words)
        except ValueError as error:
            raise ArgumentError(f"--beside {text}: {str(error).lower()}") from None
        if not equals or not name or not split:
            raise ArgumentError(f"--beside {text}: give NODE=COMMAND, such as server='iperf3 -s'")
        programs.append((name, split))
    return programs


def steer(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="status | clean | -- COMMAND...",
            help="A program and its arguments; or what is registered; or what killed sessions left.",
            show_default=False,
        ),
    ] = None,
    cc: Annotated[
        str | None, typer.Option("--cc", metavar="NAME", help="The congestion controller: veno, westwood+.")
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume", metavar="SESSION", help="Take over the session lh_..., whose process has ended."
        ),
    ] = None,
    twin: Annotated[
        bool, typer.Option("--twin", help="Run the controller in the kernel, on every ACK: veno, westwood+.")
    ] = False,
    json_file: JsonOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Control the TCP of the running kernel with a congestion controller of this package (Linux, root).

    COMMAND runs in a network namespace of its own; within 'lasthop emulate' in that of its host; and where
    you are if {cc} stands among its words, for the name of the congestion control. Without COMMAND the
    session lasts until Ctrl-C.
    """
    with user_errors():
        from lasthop import live
        from lasthop import steer as steering

        words = command or []
        action = steering.read_words(cc, words)
        if action == "clean":
            say("\n".join(live.clean() or ["nothing was left"]))
            return
        if action == "status" or cc is None:
            steering.refuse_without_means()
            found: list[steering.Session | steering.Twin] = [*steering.sessions(), *steering.twins()]
            lines = [line for one in found for line in steering.report_lines(one)]
            if json_file is not None:
                write_json(json_file, json.dumps([steering.to_dict(one) for one in found]))
            if json_file != "-":
                say("\n".join(lines or ["nothing is registered"]))
            return
        if dry_run:
            say(steering.plan_text(cc, words, resume, in_kernel=twin))
            return
        steering.check(cc, in_kernel=twin, resume=resume)
        with live_codes():
            steering.refuse_without_means()
        if json_file not in {None, "-"}:
            files.check_file(str(json_file), replace=force)
        where = " in the kernel" if twin else ""
        with live_codes():
            done = steering.steer(
                cc,
                words,
                resume=resume,
                in_kernel=twin,
                told=lambda name: note(f"{name}: {cc} decides{where}"),
            )
        if json_file is not None:
            write_json(json_file, json.dumps(steering.to_dict(done.session)))
        for line in steering.report_lines(done.session):
            note(line)
        if done.status:
            note(f"the program ended with status {done.status}")
            raise typer.Exit(exit_code_of(done.status))


def parity(
    file: ScenarioFile,
    kernel: Annotated[
        str, typer.Option("--kernel", metavar="NAMES", help="Congestion controls of the kernel: reno,cubic.")
    ] = "reno,cubic",
    runs: Annotated[int, typer.Option("--runs", min=1, metavar="N", help="Runs of each side.")] = 5,
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget",
            metavar="MS",
            help="How late 1 % of the packets may be: 1, with --virtual 0.2.",
            show_default=False,
        ),
    ] = None,
    stack: Annotated[
        str | None,
        typer.Option(
            "--stack",
            metavar="NAMES",
            help="In place of the kernel, real stacks: in simulated time beside real time: quinn:cubic.",
        ),
    ] = None,
    steer: Annotated[
        bool, typer.Option("--steer", help="Add a third side: the kernel's TCP steered by our controller.")
    ] = False,
    virtual: VirtualOption = False,
    settings: SetOption = None,
    json_file: JsonOption = None,
    trust: TrustOption = False,
    force: ForceOption = False,
) -> None:
    """Compare a simulation in the profile linux with the kernel's own TCP (Linux, root; not with --virtual).

    The scenario runs equally often on both sides: simulated, and in real time with sockets of the kernel
    over the same links. An emulated run whose packets were late is repeated, and left out after three
    attempts.
    With --virtual the kernel is that of a virtual machine whose time does not pass while it waits for the
    computer: it needs no rights, and a run gives the same numbers again.
    With --stack the flows are carried by a real stack on both sides: in simulated time, and by processes
    over UDP sockets.
    """
    with user_errors():
        from lasthop import guest, live
        from lasthop import parity as comparing
        from lasthop.progress import emulated_line

        scenario = open_scenario(file, settings, trust=trust)
        check_json(file, json_file, force=force)
        if stack is not None:
            if steer or virtual:
                raise ArgumentError("--stack has its two sides: leave out --steer and --virtual")
            _deliver_parity(_with_stacks(scenario, stack, runs, budget), json_file)
            return
        names = parse_names("--kernel", kernel)
        for name in names:
            comparing.simulated(scenario, name)
        if virtual:
            guest.find()
        else:
            live.refuse_without_means()
        if steer and not virtual:
            from lasthop import steer as steering

            steering.refuse_without_means()
        usual_s = guest.BUDGET_S if virtual else live.BUDGET_S
        budget_s = usual_s if budget is None else budget / 1e3
        with live_codes(), shown_progress("runs", emulated_line) as observer:
            found = comparing.parity(
                scenario,
                names,
                runs=runs,
                budget_s=budget_s,
                steers=steer,
                virtual=virtual,
                note=note,
                observer=observer,
            )
        _deliver_parity(found, json_file)


def _with_stacks(scenario: Scenario, stack: str, runs: int, budget_ms: float | None) -> Parity:
    """Compare real stacks in simulated and in real time."""
    from lasthop import live, real_stack
    from lasthop.progress import emulated_line

    names = parse_names("--stack", stack)
    for name in names:
        real_stack.carried(scenario, name)
    live.refuse_without_means()
    budget_s = live.BUDGET_S if budget_ms is None else budget_ms / 1e3
    with live_codes(), shown_progress("runs", emulated_line) as observer:
        return real_stack.parity(scenario, names, runs=runs, budget_s=budget_s, note=note, observer=observer)


def _deliver_parity(found: Parity, json_file: str | None) -> None:
    """Print and write the table; runs that are missing make the status."""
    from lasthop import parity as comparing
    from lasthop import tables

    if json_file is not None:
        write_json(json_file, json.dumps(comparing.to_dict(found)))
    if json_file != "-":
        print_content(tables.parity_table(found))
    for line in found.missing:
        note(f"left out: {line}")
    if found.missing:
        raise typer.Exit(EXIT_INVALID)
