"""Steering the TCP of the running kernel: what can be said without it, and what runs where the machine can.

The second half needs root, BTF, /dev/net/tun and bpftool, and says so where it is skipped. Nothing of the
machine's own network is touched: namespaces of emulated hosts, and a congestion control that no host has as
its default.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from bench.steer import crowd

import lasthop as lh
from lasthop import live, parity, steer, tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typer.testing import Result

OBJECT = Path(__file__).parents[2] / "crates" / "lasthop-live" / "bpf"
#: None of what is asserted depends on less lateness.
BUDGET_S = 0.02
RATE = 10e6

_missing = [*live.lacking(), *steer.lacking()]
_lacking = "; ".join(f"{need.what}: {need.text}, {need.remedy}" for need in _missing)
needs_kernel = pytest.mark.skipif(bool(_lacking), reason=f"no steering here: {_lacking}")


def path(duration: str = "6 s", **last: Any) -> lh.Scenario:
    """Return a last hop of 10 Mbit/s with one download over it."""
    return lh.Scenario(
        {
            "name": "path",
            "duration": duration,
            "warmup": "1 s",
            "topology": {
                "kind": "graph",
                "nodes": ["server", "phone"],
                "links": [
                    {
                        "from": "server",
                        "to": "phone",
                        "rate": "10 Mbit/s",
                        "delay": "20 ms",
                        "queue": {"kind": "drop-tail", "limit": "60 packets"},
                        **last,
                    }
                ],
            },
            "flows": [
                {
                    "name": "download",
                    "source": "server",
                    "sink": "phone",
                    "transport": "cubic",
                    "traffic": {"kind": "ftp"},
                }
            ],
        }
    )


def session_of(name: str) -> steer.Session:
    """Return the session of this name."""
    return next(found for found in steer.sessions() if found.name == name)


def until(holds: Callable[[], bool]) -> None:
    """Wait for something that comes while the emulation goes on."""
    asked = time.monotonic()
    while not holds():
        assert time.monotonic() - asked < 60, "it never came"
        time.sleep(0.05)


def on_its_own(name: str) -> steer.Session:
    """Return the session when the kernel has gone on without a decision."""
    before = session_of(name)
    until(lambda: session_of(name).on_its_own > before.on_its_own + 20)
    return session_of(name)


def ours(twins: list[steer.Twin]) -> list[steer.Twin]:
    """Return those that this process has registered."""
    return [twin for twin in twins if twin.process == os.getpid()]


@contextmanager
def daemon(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run ``lasthop steer`` without a command; yield it and the name that it has registered."""
    words = [sys.executable, "-m", "lasthop", "steer", *arguments]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if re.search(": [a-z]+ decides", line):
                break
        yield process, line.split(":")[-2].strip()
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.communicate()
        live.clean()


class Emulation(threading.Thread):
    """An emulation that goes on beside the test, for as long as the test needs on this machine."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(daemon=True)
        self.name_of_session = name
        self.seen_enough = folder / "seen-enough"
        self.found: lh.Run | None = None

    def run(self) -> None:
        """Do it."""
        wait = ["sh", "-c", 'until test -e "$0"; do sleep 0.1; done', str(self.seen_enough)]
        self.found = live.emulate(path(), wait, kernel=self.name_of_session, budget_s=BUDGET_S)

    def finish(self) -> lh.Run:
        """End it."""
        self.seen_enough.touch()
        self.join(60)
        assert self.found is not None
        return self.found


# ------------------------------------------------------------------------------------------------------------
# Without the kernel's help


def test_the_object_is_that_of_the_source() -> None:
    """`make steer-object` writes down what it has compiled from what."""
    lines = (OBJECT / "steer.sha256").read_text(encoding="utf-8").splitlines()
    noted = {name: digest for digest, name in (line.split() for line in lines)}
    for name in ("steer.bpf.c", "steer.bpf.o", "laws.h", "twins.bpf.c", "twins.bpf.o"):
        digest = hashlib.sha256((OBJECT / name).read_bytes()).hexdigest()
        assert noted[name] == digest, f"{name} has changed: make steer-object"


@pytest.mark.skipif(not live._native.HAS_LIVE, reason="a build without real packets")  # noqa: SLF001
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cc", "tcp-real"], "tcp-real cannot steer the TCP of the kernel: it needs waves"),
        (["--cc", "dctcp"], "dctcp cannot steer the TCP of the kernel: it needs exact_marks"),
        (["--cc", "moon"], "no controller \"moon\": 'lasthop transports' lists them"),
        ([], "no controller: give --cc NAME, or say 'status' or 'clean'"),
        (["--", "curl"], "no controller: give --cc NAME"),
        (["--cc", "reno", "--twin"], "reno has no twin in the kernel: veno and westwood+ have one"),
        (["--cc", "veno", "--twin", "--resume", "lh_00c0ffee"], "has no session to resume"),
    ],
)
def test_what_makes_no_sense_is_refused(
    command: Callable[..., Result], arguments: list[str], message: str
) -> None:
    said = command("steer", *arguments)
    assert said.exit_code == 2, said.stdout
    assert message in said.stderr


@pytest.mark.skipif(not live._native.HAS_LIVE, reason="a build without real packets")  # noqa: SLF001
def test_a_dry_run_says_what_would_be_done(command: Callable[..., Result]) -> None:
    said = command("steer", "--cc", "veno", "--dry-run", "--", "iperf3", "-C", "{cc}")
    assert said.exit_code == 0, said.stderr
    assert "which veno decides for\nstart iperf3 -C {cc}\nwhere you are: the command chooses" in said.stdout
    said = command("steer", "--cc", "veno", "--dry-run", "--", "curl")
    assert "in a new network namespace with nothing but a loopback" in said.stdout


def test_the_doctor_says_what_is_needed(command: Callable[..., Result]) -> None:
    said = command("doctor").stdout
    for what in ("bpftool", "rights for BPF", "kernel for steering"):
        assert f"live: {what}:" in said
    assert "'lasthop steer' can" in said


# ------------------------------------------------------------------------------------------------------------
# With it


@needs_kernel
@pytest.mark.parametrize("law", ["reno", "cubic", "veno", "westwood+", "vegas", "bbr"])
def test_a_law_fills_the_link(law: str) -> None:
    run = live.emulate(path(), kernel=f"steer:{law}", budget_s=BUDGET_S)
    session = run.record["live"]["steered"][0]
    assert session["law"] == law
    assert session["missed"] <= session["records"] / 100
    assert session["applied"] > 10 * session["on_its_own"]
    assert run.totals["goodput_bit_s"] > 0.9 * RATE * 1448 / 1500
    assert run.record["flows"][0]["transport"] == f"kernel:steer:{law}"
    assert not [found for found in steer.sessions() if found.name == session["name"]]


@needs_kernel
def test_a_command_has_a_namespace_whose_default_is_steered(tmp_path: Path) -> None:
    setting = Path("/proc/sys/net/ipv4/tcp_congestion_control")
    before = setting.read_text(encoding="utf-8")
    place = tmp_path / "said"
    script = f"cat {setting} > {place}; test $(cat {setting}) = $LASTHOP_CC"
    done = steer.steer("veno", ["sh", "-c", script])
    assert done.status == 0
    assert place.read_text(encoding="utf-8").strip() == done.session.name
    assert setting.read_text(encoding="utf-8") == before


@needs_kernel
def test_a_command_chooses_by_name(command: Callable[..., Result], tmp_path: Path) -> None:
    place = tmp_path / "said"
    said = command(
        "steer",
        "--cc",
        "veno",
        "--json",
        str(tmp_path / "session.json"),
        "--",
        "sh",
        "-c",
        f"echo {{cc}} > {place}",
    )
    assert said.exit_code == 0, said.stderr
    session = json.loads((tmp_path / "session.json").read_text(encoding="utf-8"))
    assert place.read_text(encoding="utf-8").strip() == session["name"]
    for words, code in ((["sh", "-c", "exit 3"], 3), (["/no/such/program"], 127), (["/etc/passwd"], 126)):
        assert command("steer", "--cc", "veno", "--", *words).exit_code == code


@needs_kernel
def test_parity_has_a_third_side() -> None:
    """A twin of Veno stands in where the kernel has none; the table says so."""
    found = parity.parity(path("4 s"), ["reno", "veno"], runs=2, steers=True, budget_s=BUDGET_S)
    if found.missing:
        pytest.skip(f"the machine is too busy for real time: {'; '.join(found.missing)}")
    rows = {(row.algorithm, row.metric): row for row in found.rows}
    assert rows["reno", "goodput"].steered_ratio == pytest.approx(1, abs=0.03)
    assert rows["reno", "mean RTT"].steered_ratio == pytest.approx(1, abs=0.05)
    assert rows["veno", "goodput"].steered_ratio == pytest.approx(1, abs=0.05)
    assert rows["veno", "goodput"].ratio == pytest.approx(1, abs=0.05)
    if "veno" not in live.algorithms():
        assert rows["veno", "goodput"].is_twin
        assert "† The kernel has not loaded it" in tables.render(tables.parity_table(found), 140)


@needs_kernel
def test_steered_reno_does_what_the_reno_of_the_kernel_does() -> None:
    """The same losses on both sides."""
    lossy = path("12 s", error={"kind": "bernoulli", "packet_error_rate": 0.01}, reverse={"error": "none"})
    found = parity.parity(lossy, ["reno"], runs=2, steers=True, budget_s=BUDGET_S)
    if found.missing:
        pytest.skip(f"the machine is too busy for real time: {'; '.join(found.missing)}")
    rows = {row.metric: row for row in found.rows}
    assert rows["goodput"].steered_ratio == pytest.approx(1, abs=0.2)


@needs_kernel
def test_a_law_of_delivery_rates_decides_in_recovery() -> None:
    """BBR carries at PER 3 % what it does simulated; with the recovery of others a quarter less."""
    lossy = path("10 s", error={"kind": "bernoulli", "packet_error_rate": 0.03}, reverse={"error": "none"})
    simulated = lh.run(parity.simulated(lossy, "bbr")).totals["goodput_bit_s"]
    steered = live.emulate(lossy, kernel="steer:bbr", budget_s=BUDGET_S).totals["goodput_bit_s"]
    assert steered == pytest.approx(simulated, rel=0.12)


@needs_kernel
@pytest.mark.parametrize("law", steer.TWINS)
def test_a_twin_decides_in_the_kernel(law: str) -> None:
    """The laws of ``laws.h``, loaded as they are shipped: the verifier takes them, and they fill a link."""
    run = live.emulate(path("3 s"), kernel=f"twin:{law}", budget_s=BUDGET_S)
    assert run.totals["goodput_bit_s"] > 0.6 * RATE * 1448 / 1500
    assert run.record["flows"][0]["transport"] == f"kernel:twin:{law}"
    assert run.record["live"]["steered"] == []
    assert ours(steer.twins()) == []


@needs_kernel
def test_a_command_has_a_twin(command: Callable[..., Result], tmp_path: Path) -> None:
    place = tmp_path / "said"
    told = tmp_path / "twin.json"
    order = ["--cc", "westwood+", "--twin", "--json", str(told), "--", "sh", "-c", f"echo {{cc}} > {place}"]
    said = command("steer", *order)
    assert said.exit_code == 0, said.stderr
    name = place.read_text(encoding="utf-8").strip()
    assert name.startswith("lhwest_")
    assert json.loads(told.read_text(encoding="utf-8"))["name"] == name
    assert f"{name}: westwood+ decides in the kernel" in said.stderr
    assert name not in live.algorithms()


@pytest.mark.alone
@needs_kernel
def test_a_twin_goes_when_its_process_was_killed(command: Callable[..., Result]) -> None:
    with daemon("--cc", "veno", "--twin") as (process, name):
        status = command("steer", "status").stdout
        assert f"{name}: veno decides in the kernel (registered by process {process.pid})" in status
        assert name not in command("steer", "clean").stdout
        assert name in live.algorithms()
        process.kill()
        process.wait()
        assert f"{name}: veno decides in the kernel" in command("steer", "status").stdout
        assert f"had left {name}: taken away" in command("steer", "clean").stdout
        assert name not in live.algorithms()


@needs_kernel
def test_a_session_that_is_being_made_is_not_taken_away() -> None:
    """Others that start at the same time clean what was left behind."""
    stop = threading.Event()

    def clean() -> None:
        while not stop.is_set():
            live.clean()

    cleaner = threading.Thread(target=clean)
    cleaner.start()
    try:
        for _ in range(5):
            assert steer.steer("reno", ["sh", "-c", "sleep 0.05"]).session.name
    finally:
        stop.set()
        cleaner.join()


@needs_kernel
def test_a_thousand_connections_are_steered_at_once() -> None:
    found = crowd(1000, 2.0)
    assert found.connections >= 1000
    assert found.applied > 1000
    assert found.missed == 0


@pytest.mark.alone
@needs_kernel
def test_status_and_clean(command: Callable[..., Result]) -> None:
    with daemon("--cc", "reno") as (process, name):
        assert f"{name}: reno decides (process {process.pid})" in command("steer", "status").stdout
        with pytest.raises(lh.ScenarioError, match=f"process {process.pid} has it"):
            steer.steer("reno", resume=name)
        process.kill()
        process.wait()
        assert f"{name}: no process decides, Reno continues" in command("steer", "status").stdout
        assert f"had left {name}: taken away" in command("steer", "clean").stdout
        assert name not in command("steer", "status").stdout


@pytest.mark.alone
@needs_kernel
def test_sigterm_takes_everything_away() -> None:
    with daemon("--cc", "reno") as (process, name):
        process.terminate()
        assert process.wait(10) is not None
        assert name not in {found.name for found in steer.sessions()}


@needs_kernel
def test_connections_go_on_while_the_daemon_is_stopped(tmp_path: Path) -> None:
    with daemon("--cc", "reno") as (process, name):
        emulation = Emulation(name, tmp_path)
        emulation.start()
        until(lambda: session_of(name).applied > 200)
        process.send_signal(signal.SIGSTOP)
        stopped = on_its_own(name)
        until(lambda: session_of(name).on_its_own > stopped.on_its_own + 200)
        later = session_of(name)
        process.send_signal(signal.SIGCONT)
        until(lambda: session_of(name).applied > later.applied + 200)
        run = emulation.finish()
    assert later.applied == stopped.applied
    assert run.totals["goodput_bit_s"] > 0.9 * RATE * 1448 / 1500


@pytest.mark.alone
@needs_kernel
def test_connections_go_on_when_the_daemon_is_killed_and_are_steered_again(
    tmp_path: Path,
) -> None:
    with daemon("--cc", "reno") as (process, name):
        emulation = Emulation(name, tmp_path)
        emulation.start()
        until(lambda: session_of(name).applied > 200)
        process.kill()
        process.wait()
        killed = on_its_own(name)
        until(lambda: session_of(name).on_its_own > killed.on_its_own + 200)
        later = session_of(name)
        assert not later.alive
        with daemon("--cc", "reno", "--resume", name) as (_, again):
            assert again == name
            until(lambda: session_of(name).alive)
            until(lambda: session_of(name).applied > later.applied + 200)
            run = emulation.finish()
    assert later.applied == killed.applied
    assert run.totals["goodput_bit_s"] > 0.9 * RATE * 1448 / 1500


@needs_kernel
def test_the_environment_of_an_emulated_host_is_steered(tmp_path: Path) -> None:
    """`lasthop steer` within `lasthop emulate`: that host's default alone, and its packets cross the path."""
    told = tmp_path / "told.json"
    send = (
        "import socket; s = socket.create_connection(('phone', 7)); s.sendall(bytes(200_000)); s.shutdown(1)"
    )
    take = "import socket; c = socket.create_server(('', 7)).accept()[0]\nwhile c.recv(65536): 0"
    inner = [sys.executable, "-c", f"{send}; s.recv(1)"]
    words = [sys.executable, "-m", "lasthop", "steer", "--cc", "veno", "--json", str(told), "--", *inner]
    run = live.emulate(
        path("20 s"),
        words,
        host="server",
        beside=[("phone", [sys.executable, "-c", take])],
        capture_at=["server"],
        budget_s=BUDGET_S,
    )
    assert run.record["live"]["program_status"] == 0
    (capture,) = run.record["live"]["captures"]
    assert capture["packets"] > 200_000 / 1500
    (flow,) = run.record["flows"]
    assert flow["bytes_delivered"] == 200_000
    session = json.loads(told.read_text(encoding="utf-8"))
    assert session["connections"] >= 1
    assert session["applied"] > 0
    assert os.getpid() not in {found.process for found in steer.sessions()}
