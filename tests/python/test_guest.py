"""The kernel in virtual time: what the machine answers, that it repeats, and how it ends when it fails.

Skipped, with what to install, where the machine has not been built (`make kernel-guest`).
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import threading
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import lasthop as lh
from lasthop import guest, parity
from lasthop.errors import RunError, ScenarioError

needs_machine = pytest.mark.skipif(guest.lacking() is not None, reason=guest.lacking() or "")

HEAD = 'title = "A SYN"\nsources = ["RFC 9293"]\ntransport = "newreno"\nkernel = "reno"\n---\n'
HOLDS = HEAD + "0 connect\n+0 > S 0:0(0)\n"
FAILS = HEAD + "0 connect\n+0 > F 0:0(0)\n"


def lossy(duration: str) -> lh.Scenario:
    """Return a path that loses 1 % of its data."""
    return lh.Scenario(
        {
            "name": "one lossy hop",
            "duration": duration,
            "topology": {
                "kind": "dumbbell",
                "bottleneck": {
                    "rate": "5 Mbit/s",
                    "delay": "20 ms",
                    "queue": {"kind": "drop-tail", "limit": "50 packets"},
                    "error": {"kind": "bernoulli", "packet_error_rate": 0.01},
                    "reverse": {"error": "none"},
                },
                "access": {"rate": "1 Gbit/s", "delay": "0 ms", "queue": "unlimited"},
            },
            "flows": [{"start": "0 s", "transport": "cubic"}],
        }
    )


def counts(run: lh.Run) -> list[object]:
    """Return bytes and packets of a run: what does not depend on single nanoseconds."""
    flow = run.record["flows"][0]
    sent = run.record["live"]["packets"]
    return [flow["bytes_delivered"], run.totals["retransmitted_packets"], flow["packets_lost"], sent]


@needs_machine
def test_the_kernel_does_what_the_simulation_does_and_does_it_again() -> None:
    """One virtual comparison: both laws on one path with losses; and a second run has the same counts."""
    scenario = lossy("10 s")
    found = parity.parity(scenario, ["reno", "cubic"], runs=1, budget_s=guest.BUDGET_S, virtual=True)
    assert found.missing == ()
    rows = {(row.algorithm, row.metric): row for row in found.rows}
    for law in ("reno", "cubic"):
        ratio = rows[law, "goodput"].ratio
        assert ratio is not None
        assert abs(ratio - 1) < 0.02
        ours, theirs = (side.values[0] or 0 for side in _sides(rows[law, "retransmitted"]))
        assert abs(ours - theirs) <= max(3, 0.05 * theirs)
    path = parity.simulated(scenario, "cubic")
    first, second = guest.emulate_all([(path, "cubic", 1)] * 2)
    assert counts(first) == counts(second)
    assert first.record["live"]["valid"]


@needs_machine
def test_our_controllers_steer_the_kernel_of_the_machine() -> None:
    """The object is taken by a kernel that is older than four arguments of `cong_control`.

    Steered Reno carries what the kernel's own does, and nearly every ACK is answered by a decision. The twin
    of Veno, which decides in the kernel on every ACK, does what the kernel's Veno does. Most machines agree
    to the packet; one queue that overflows an ACK later moves what is carried by 1 %.
    """
    if not guest.find().steers:
        pytest.skip(guest.NO_BPFTOOL)
    scenario = lossy("10 s")
    found = parity.parity(scenario, ["reno"], runs=1, budget_s=guest.BUDGET_S, steers=True, virtual=True)
    (goodput,) = (row for row in found.rows if row.metric == "goodput")
    assert goodput.steered_ratio is not None
    assert abs(goodput.steered_ratio - 1) < 0.05
    path = parity.simulated(scenario, "veno")
    steered, twin, own = guest.emulate_all([(path, who, 1) for who in ("steer:veno", "twin:veno", "veno")])
    (session,) = steered.record["live"]["steered"]
    assert session["applied"] > 0.9 * (session["applied"] + session["on_its_own"])
    assert abs(twin.totals["goodput_bit_s"] / own.totals["goodput_bit_s"] - 1) < 0.02
    resent = [run.totals["retransmitted_packets"] for run in (twin, own)]
    assert abs(resent[0] - resent[1]) <= 0.1 * resent[1]


def test_a_machine_without_bpftool_is_not_steered(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before the machine is started, with what to install."""
    monkeypatch.setattr(guest, "find", lambda: guest.Guest(Path("nowhere"), "6.1", steers=False))
    with pytest.raises(RunError, match=r"takes no steer:veno: bpftool was not there .* make kernel-guest"):
        guest.emulate(lossy("1 s"), kernel="steer:veno")


def _sides(row: parity.Difference) -> tuple[parity.Side, parity.Side]:
    return row.simulated, row.emulated


@needs_machine
def test_scripts_are_answered_in_their_order() -> None:
    """One call, one machine, an outcome for each."""
    first, second = guest.run_scripts([HOLDS, FAILS])
    assert first.holds
    assert first.log
    assert "S 0:0(0)" in first.log[0]
    assert second.ran
    assert not second.holds
    assert second.failure is not None
    assert second.failure.startswith("script, line 7: ")


@needs_machine
def test_what_the_kernel_lacks_is_said() -> None:
    """A congestion control without a module."""
    with pytest.raises(RunError, match='no congestion control "lp"'):
        guest.emulate(lossy("1 s"), kernel="lp")
    with pytest.raises(RunError, match='no congestion control "lp"'):
        guest.run_scripts([HOLDS.replace('kernel = "reno"', 'kernel = "lp"')])


@needs_machine
def test_a_machine_that_hangs_or_dies_is_ended_and_its_console_shown(tmp_path: Path) -> None:
    """A limit on its CPU, a job that is none, a kernel that does not boot: each ends in one error."""
    machine = guest.find()
    job = guest.emulation(lossy("600 s"), "reno")
    with pytest.raises(RunError, match=r"after 0.5 s of CPU while doing its jobs"):
        guest.answered(machine, [job], 0.5)
    with pytest.raises(RunError, match=r"status 5 after 0 of 1 answers(.|\n)*unknown variant `nothing`"):
        guest.answered(machine, [{"nothing": {}}], 60.0)
    for file in (guest.KERNEL, guest.ABOUT):
        shutil.copyfile(machine.folder / file, tmp_path / file)
    (tmp_path / guest.DISK).write_bytes(b"no RAM disk")
    with pytest.raises(RunError, match=r"machine panicked(.|\n)*Kernel panic"):
        guest.snapshot(dataclasses.replace(machine, folder=tmp_path))
    assert not list(tmp_path.glob("snapshot*"))
    assert machines() == []


@needs_machine
def test_runs_that_are_not_waited_for_end_at_once() -> None:
    """What Ctrl-C does: to the machine of a run that is stopped, and to those of runs not asked for."""
    stop = threading.Event()
    threading.Timer(1.0, stop.set).start()
    asked = time.monotonic()
    with pytest.raises(RunError, match="was stopped while"):
        guest.emulate(lossy("600 s"), kernel="reno", stop=stop)
    runs = guest.emulate_all([(lossy("1 s"), "reno", 1), (lossy("600 s"), "reno", 2)])
    assert next(runs).record["live"]["packets"] > 0
    runs.close()
    assert time.monotonic() - asked < 60
    assert machines() == []


def machines() -> list[str]:
    """Return the machines that this process has left running."""
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = place.read_text().split("(", 1)[1].rsplit(")", 1)
        except OSError:
            continue
        if name.startswith("qemu") and int(rest.split()[1]) == os.getpid():
            found.append(place.parent.name)
    return found


@needs_machine
def test_the_command_line_asks_it(tmp_path: Path) -> None:
    """`lasthop script --virtual` and what `lasthop parity --virtual` refuses."""
    from lasthop.cli import app

    file = tmp_path / "syn.script"
    file.write_text(HOLDS)
    told = CliRunner().invoke(app, ["script", str(file), "--virtual"])
    assert (told.exit_code, told.output) == (0, "holds    syn: A SYN (RFC 9293)\n")


def test_without_a_machine_one_line_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """QEMU that is not installed, a machine that is not built, one whose description is broken."""
    monkeypatch.setenv(guest.VARIABLE, str(tmp_path))
    if shutil.which(guest.QEMU):
        with pytest.raises(RunError, match="make kernel-guest") as told:
            guest.run_scripts([HOLDS])
        assert "\n" not in str(told.value)
        (tmp_path / guest.ABOUT).write_text("{")
        with pytest.raises(RunError, match=r"about.json cannot be read"):
            guest.emulate(lossy("1 s"), kernel="reno")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RunError, match="apt-get install --no-install-recommends qemu-system-x86"):
        guest.emulate(lossy("1 s"), kernel="reno")


@needs_machine
def test_a_script_that_is_none_is_refused_before_the_machine_starts() -> None:
    """With its line."""
    with pytest.raises(ScenarioError, match="script, line 7"):
        guest.run_scripts([HEAD + "0 connect\n+0 ? nothing\n"])
