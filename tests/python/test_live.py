"""Real packets: what can be said without a kernel that lets us, and what runs where it does.

The second half needs root and /dev/net/tun, and says so where it is skipped. A machine that is busy makes
packets late, which is no fault of ours: a run beyond its budget is repeated, and the test is skipped with
what the run said if none keeps it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.python.real_packets import (
    emulated,
    needs_kernel,
    path,
    run_command,
    scenario_file,
    side_by_side,
    until,
)

import lasthop as lh
from lasthop import live, steer, view
from lasthop.captured import Captured

if TYPE_CHECKING:
    from collections.abc import Callable

    from typer.testing import Result

# ------------------------------------------------------------------------------------------------------------
# Without the kernel's help


def test_a_dry_run_says_what_would_be_done(command: Callable[..., Result], tmp_path: Path) -> None:
    file = scenario_file(tmp_path, path("5 Mbit/s"))
    said = command("emulate", file, "--dry-run", "--beside", "server=iperf3 -s", "--", "iperf3", "--json")
    assert said.exit_code == 0, said.stderr
    assert "server: a network namespace without a name, with a TUN device lasthop0 at 10.0.0.1" in said.stdout
    assert "start at server: iperf3 -s\nstart at phone: iperf3 --json\n" in said.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no scenario"),
        (["FILE", "--dry-run", "--host", "base"], "the hosts of this scenario are server, phone"),
        (["FILE", "--dry-run", "--beside", "iperf3 -s"], "give NODE=COMMAND"),
        (["FILE", "--dry-run", "--beside", "server='iperf3"], "no closing quotation"),
        (["FILE", "--dry-run", "--beside", "moon=iperf3"], "no host 'moon'"),
        (["FILE", "--capture-at", "phone"], "--capture-at writes captures: say where with --out DIR"),
        (
            ["FILE", "--out", "there", "--capture-at", "base"],
            "no host 'base' to capture at: real packets are captured where hosts send and get them: server",
        ),
        (["FILE", "--out", "there", "--capture-at", "phone", "--snaplen", "5"], "5 bytes of each packet"),
    ],
)
def test_what_makes_no_sense_is_refused(
    command: Callable[..., Result], tmp_path: Path, arguments: list[str], message: str
) -> None:
    file = scenario_file(tmp_path, path("5 Mbit/s"))
    said = command("emulate", *(file if word == "FILE" else word for word in arguments))
    assert said.exit_code == 2
    assert message in said.stderr


def test_nothing_to_run_is_refused() -> None:
    with pytest.raises(lh.ArgumentError, match="nothing to run"):
        live.emulate(path("5 Mbit/s"))
    with pytest.raises(lh.ArgumentError, match="more than nothing"):
        live.emulate(path("5 Mbit/s"), kernel="reno", budget_s=0)


def test_the_doctor_says_what_is_needed(command: Callable[..., Result]) -> None:
    said = command("doctor").stdout
    for what in ("live build", "kernel"):
        assert f"live: {what}:" in said
    assert "'lasthop emulate' can" in said


def test_what_a_killed_run_has_left_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal of a process that is gone: its marked processes end, others do not."""
    monkeypatch.setattr(live, "journal_folder", lambda: tmp_path)
    words = [sys.executable, "-c", "import time; time.sleep(60)"]
    marked = subprocess.Popen(words, env={**os.environ, live.MARK: "0123"})
    other = subprocess.Popen(words, env={**os.environ, live.MARK: "4567"})
    try:
        gone = {"mark": "0123", "owner": other.pid, "owner_started": -1, "commands": []}
        (tmp_path / "0123.json").write_text(json.dumps(gone), encoding="utf-8")
        started = live._started(os.getpid())  # noqa: SLF001
        there = {**gone, "mark": "4567", "owner": os.getpid(), "owner_started": started}
        (tmp_path / "4567.json").write_text(json.dumps(there), encoding="utf-8")
        (tmp_path / "broken.json").write_text("{", encoding="utf-8")
        assert live.clean() == (
            ["a run that was killed had left 1 process: ended"] if Path("/proc").is_dir() else []
        )
        assert marked.wait(5) == -signal.SIGTERM
        assert other.poll() is None
        assert sorted(file.name for file in tmp_path.iterdir()) == ["4567.json", "broken.json"]
    finally:
        for process in (marked, other):
            process.kill()
            process.wait()


# ------------------------------------------------------------------------------------------------------------
# With it


@needs_kernel
@pytest.mark.parametrize(("rate", "algorithm"), [("5", "reno"), ("11", "cubic"), ("50", "cubic")])
def test_the_rate_is_that_of_the_link(rate: str, algorithm: str) -> None:
    """A link that is never idle carries its rate, to 0.3 %, whatever the sender."""
    queue = {"kind": "drop-tail", "limit": "600 packets" if rate == "50" else "60 packets"}
    run = emulated(path(f"{rate} Mbit/s", "10 ms", queue=queue), kernel=algorithm)
    link = next(link for link in run.record["links"] if link["name"] == "base-phone")
    if link["utilisation"] < 0.999:
        pytest.skip(f"the sender left the link idle for {1 - link['utilisation']:.2%} of the time")
    flow = run.record["flows"][0]
    assert (flow["name"], flow["transport"]) == ("download", f"kernel:{algorithm}")
    assert 0.997 <= flow["throughput_bit_s"] / (float(rate) * 1e6) <= 1.003
    assert run.record["live"]["tun_dropped"] == 0


@needs_kernel
def test_losses_are_those_of_the_channel() -> None:
    """10 s of 500 datagrams a second over a channel that loses 2 %: a binomial number within 4 sigma."""
    flow = {"transport": "udp", "traffic": {"kind": "cbr", "rate": "1 Mbit/s", "packet": "250 B"}}
    error = {"kind": "bernoulli", "packet_error_rate": 0.02}
    run = emulated(path("5 Mbit/s", duration="12 s", flow=flow, error=error), kernel="reno")
    told = run.record["flows"][0]
    sent, lost = told["packets_sent"], told["packets_lost"]["channel-error"]
    assert told["transport"] == "udp"
    # A socket that was woken late sends what it owes.
    assert 4_800 <= sent <= 5_200
    assert abs(lost - 0.02 * sent) <= 4 * math.sqrt(sent * 0.02 * 0.98)
    # What the host got is what was sent and not lost, but for what was under way at the ends of the window,
    # or owed by a host that slept for half a second there.
    assert abs(told["bytes_delivered"] / 250 - (sent - lost)) <= 250
    assert told["delay_p50_s"] == pytest.approx(0.025 + 278 * 8 / 5e6 + 278 * 8 / 200e6, abs=2e-4)


@needs_kernel
def test_snoop_helps_the_tcp_of_the_kernel() -> None:
    """Reno over 100 Mbit/s and 50 ms, then 5 Mbit/s and 20 ms that lose 1 %: four times the goodput.

    The window is 128 kB: without a bound the overshoot of slow start would decide.
    """
    content = path(
        "5 Mbit/s", duration="22 s", error={"kind": "bernoulli", "packet_error_rate": 0.01}
    ).to_dict()
    content["topology"]["links"][0] |= {"rate": "100 Mbit/s", "delay": "50 ms"}
    content["flows"][0]["transport"] = {"preset": "reno", "receiver_window": "90 packets"}
    plain = lh.Scenario(content)
    content["topology"]["links"][1]["middleboxes"] = [{"kind": "snoop"}]
    # Where losses fall decides much: one run of Reno alone is up to a third above or below the mean.
    found = side_by_side(
        partial(emulated, lh.Scenario(content), kernel="reno"),
        *(partial(emulated, plain, kernel="reno", seed=seed) for seed in (1, 2, 3)),
    )
    helped, *alone = [run.totals["goodput_bit_s"] for run in found]
    assert 4 * sum(alone) / len(alone) <= helped < 5e6, (alone, helped)


@needs_kernel
def test_a_program_runs_at_a_host(tmp_path: Path) -> None:
    """An unmodified program fetches a file from another; its exit status and output are its own."""
    (tmp_path / "file").write_bytes(os.urandom(300_000))
    serve = f"server={sys.executable} -m http.server 8000 --directory {tmp_path}"
    fetch = (
        "import hashlib, urllib.request as web\n"
        "print(hashlib.sha256(web.urlopen('http://server:8000/file').read()).hexdigest())"
    )
    file = scenario_file(tmp_path, path("5 Mbit/s", duration="30 s"))
    results = tmp_path / "run.json"
    done = run_command(file, "--beside", serve, "--json", results, "--", sys.executable, "-c", fetch)
    assert "invalid" in done.stderr or done.returncode == 0, done.stderr
    assert hashlib.sha256((tmp_path / "file").read_bytes()).hexdigest() in done.stdout
    told = json.loads(results.read_text(encoding="utf-8"))["runs"][0]
    flow = told["flows"][0]
    assert flow["name"].startswith("tcp 10.0.0.1:8000 - 10.0.0.3:")
    assert flow["bytes_delivered"] > 300_000
    assert told["live"]["program_status"] == 0
    assert "late: " in done.stdout


@needs_kernel
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["sh", "-c", "exit 0"], 0, ""),
        (["sh", "-c", "exit 7"], 7, "the program ended with status 7; the hosts of this run are "),
        (["sh", "-c", "kill -9 $$"], 137, "the program ended with status -9"),
        (["sleep", "60.5"], 124, "cut off: the program still ran when the scenario ended, after 2 s"),
        (["/no/such/program"], 127, 'cannot start "/no/such/program"'),
        (["/etc/passwd"], 126, 'cannot start "/etc/passwd"'),
    ],
)
def test_the_exit_code_is_that_of_the_program(tmp_path: Path, words: list[str], code: int, said: str) -> None:
    """Or says what came between: the table is printed whatever the program did."""
    file = scenario_file(tmp_path, path("5 Mbit/s"))
    done = run_command("--set", "duration=2 s", "--set", "warmup=0 s", file, "--", *words)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    if code < 126 or code > 127:
        assert "s emulated, in real time, seed 1" in done.stdout
        assert "M/s" not in done.stdout
    # No other test sleeps as long: they run side by side.
    if words[0] == "sleep":
        assert not _processes_with(*words)


@needs_kernel
def test_packets_between_hosts_without_a_flow_say_why(tmp_path: Path) -> None:
    """The report counted 'refused (no-path)' and left it there."""
    link = {"from": "server", "rate": "6 Mbit/s", "delay": "8 ms"}
    topology = {
        "kind": "graph",
        "nodes": ["server", "a", "b"],
        "links": [link | {"to": "a"}, link | {"to": "b"}],
    }
    flows = [{"source": "server", "sink": sink, "transport": "cubic"} for sink in ("a", "b")]
    file = scenario_file(tmp_path, lh.Scenario({"duration": "2 s", "topology": topology, "flows": flows}))
    program = "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('b', 5000))"
    done = run_command(file, "--", sys.executable, "-c", program)
    assert done.returncode == 0, done.stderr
    told = "packets: 1 thrown away because no flow of the scenario joins their two hosts"
    assert told in " ".join(done.stdout.split())


@needs_kernel
def test_what_cannot_be_run_has_a_code_of_its_own(tmp_path: Path) -> None:
    file = scenario_file(tmp_path, path("5 Mbit/s"))
    unknown = run_command(file, "--kernel", "nosuch")
    assert unknown.returncode == 2
    assert 'no congestion control "nosuch"' in unknown.stderr


@needs_kernel
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed")
@pytest.mark.parametrize("verb", ["emulate", "steer"])
def test_without_rights_the_program_is_not_run(tmp_path: Path, verb: str) -> None:
    """With 125, as timeout(1) says that it failed itself: 1 would be a status of the program."""
    named = [str(scenario_file(tmp_path, path("5 Mbit/s")))] if verb == "emulate" else ["--cc", "reno"]
    words = [
        str(shutil.which("setpriv")),
        "--bounding-set=-all",
        sys.executable,
        "-m",
        "lasthop",
        verb,
        *named,
    ]
    ran = tmp_path / "ran"
    done = subprocess.run([*words, "--", "touch", ran], capture_output=True, text=True, check=False)
    assert done.returncode == 125, done.stderr
    assert done.stderr.startswith("error: no ")
    assert not ran.exists()


@needs_kernel
@pytest.mark.parametrize("signalled", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "arguments", [["--kernel", "reno"], ["--", "sleep", "61"]], ids=["kernel", "program"]
)
def test_what_is_interrupted_leaves_results(
    tmp_path: Path, signalled: signal.Signals, arguments: list[str]
) -> None:
    folder = tmp_path / "out"
    file = scenario_file(tmp_path, path("5 Mbit/s", duration="60 s"))
    mark = tmp_path / "started"
    beside = ["--beside", f"server=sh -c 'touch {mark}'"]
    words = [sys.executable, "-m", "lasthop", "emulate", "--budget", "20", "--out", folder, *beside, file]
    run = subprocess.Popen(
        [*map(str, words), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until(mark.exists)
    time.sleep(0.3)
    run.send_signal(signalled)
    table, said = run.communicate(timeout=20)
    assert run.returncode == 128 + signalled, said
    assert "interrupted at" in said
    assert "s emulated, in real time, interrupted, seed 1" in table
    (again,) = lh.load_runs(folder)
    assert again.record["live"]["ended_by"] == "interrupted"
    assert 0 < again.duration_s < 30
    assert not _processes_with("sleep", "61")


@needs_kernel
@pytest.mark.skipif(not (view.PAGE / "index.html").is_file(), reason="make page builds it")
def test_a_run_is_watched_while_it_goes_on(tmp_path: Path) -> None:
    file = scenario_file(tmp_path, path("5 Mbit/s", duration="6 s"))
    words = [
        sys.executable,
        "-m",
        "lasthop",
        "emulate",
        file,
        "--budget",
        "20",
        "--kernel",
        "reno",
        "--watch",
    ]
    run = subprocess.Popen([*map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert run.stderr is not None
    address = next(line for line in run.stderr if line.startswith("watch it at ")).split()[-1]
    growing, states = tmp_path / "growing.pcapng", []
    with suppress(OSError):
        while True:
            # Before the first packets there is no file.
            with (
                suppress(urllib.error.HTTPError),
                urllib.request.urlopen(f"{address}capture") as answer,  # noqa: S310 - our own server
            ):
                growing.write_bytes(answer.read())
                states.append((answer.headers[view.GROWS], growing.stat().st_size))
            time.sleep(0.1)
    run.stderr.close()
    assert run.wait(30) in (0, 123)
    # It grew under our eyes, its end came before the server went, and it holds what a capture holds.
    assert [state for state, _ in states].count("yes") >= 1
    assert states[0][1] < states[-1][1]
    assert states[-1][0] is None
    assert Captured(growing).found["packets"] > 0


@needs_kernel
def test_a_live_run_says_how_far_it_is(tmp_path: Path) -> None:
    """Real time is long: without a terminal there are lines, on standard error."""
    file = scenario_file(tmp_path, path("5 Mbit/s", duration="3 s"))
    program = (
        "from lasthop import progress; progress.LINE_EVERY_S = 0.5; from lasthop.__main__ import main; main()"
    )
    words = [sys.executable, "-c", program, "emulate", str(file), "--kernel", "reno", "--budget", "20"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    times = [float(time) for time in re.findall(r"([\d.]+)/3 s emulated", done.stderr)]
    assert len(times) > 1, done.stderr
    assert times == sorted(times)


needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


@needs_kernel
@needs_curl
@pytest.mark.parametrize("late", [0, 1.5])
def test_a_program_waits_for_its_server(tmp_path: Path, late: float) -> None:
    """A client that asks a hundredth of a second after its start, and a server that needs longer."""
    file = scenario_file(tmp_path, path("5 Mbit/s", duration="30 s"))
    (tmp_path / "file").write_bytes(os.urandom(50_000))
    serve = f"sleep {late}; exec {sys.executable} -m http.server 8000 --directory {tmp_path}"
    beside = f"server={shlex.join(['sh', '-c', serve])}"
    got = tmp_path / "got"
    done = run_command(file, "--beside", beside, "--", "curl", "-sS", "-o", got, "http://server:8000/file")
    assert done.returncode in (0, 123), done.stderr
    assert got.read_bytes() == (tmp_path / "file").read_bytes()
    assert "no server yet" not in done.stdout


@needs_kernel
@needs_curl
def test_the_command_of_the_readme_works() -> None:
    """Its first one with real packets, word by word."""
    root = Path(__file__).parents[2]
    readme = (root / "README.md").read_text(encoding="utf-8")
    lines = readme.replace("\\\n", "").splitlines()
    (line,) = [line for line in lines if "lasthop emulate" in line and "http.server" in line]
    words = shlex.split(line.removeprefix("$ ").removeprefix("sudo ").partition("emulate ")[2])
    done = subprocess.run(
        [sys.executable, "-m", "lasthop", "emulate", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=root,
    )
    assert done.returncode in (0, 123), done.stderr
    assert "Failed to connect" not in done.stderr


@needs_kernel
@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not installed")
def test_root_of_a_user_namespace_is_enough(tmp_path: Path) -> None:
    """The kernel lets it make namespaces and TUN devices, though not set how many packets wait there."""
    as_root = [str(shutil.which("unshare")), "--user", "--map-root-user"]
    if subprocess.run([*as_root, "true"], check=False).returncode:
        pytest.skip("this machine has no user namespaces for us")
    file = scenario_file(tmp_path, path("5 Mbit/s", duration="3 s"))
    words = [sys.executable, "-m", "lasthop", "emulate", "--budget", "20", str(file)]
    done = subprocess.run(
        [*as_root, *words, "--", "getent", "hosts", "server"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in (0, 123), done.stderr
    assert done.stdout.startswith("10.0.0.1")


#: A server that sends what it is asked for, and a client that says how long it took to be heard.
GIVE = """
import socket
listening = socket.create_server(("", 8000))
while True:
    talk, _ = listening.accept()
    talk.sendall(bytes(int(talk.recv(20))))
    talk.close()
"""
ASK = """
import socket, time
began = time.monotonic()
talk = socket.create_connection(("server", 8000))
heard = time.monotonic() - began
talk.sendall(b"300000")
began = time.monotonic()
count = 0
while data := talk.recv(65536):
    count += len(data)
print(count, heard, time.monotonic() - began)
# The last acknowledgement has a way to go.
time.sleep(0.5)
"""


#: Sends single datagrams with each ECN field, then as many with ECT(1) as with ECT(0) at once.
MARKED = """
import socket, time
talk = socket.socket(type=socket.SOCK_DGRAM)
talk.bind(("", 9000))
_, asked = talk.recvfrom(100)
def send(ecn, size):
    talk.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, ecn)
    talk.sendto(bytes([ecn]) + bytes(size), asked)
for ecn in range(4):
    send(ecn, 10)
    time.sleep(0.05)
for ecn in [1, 2] * 20:
    send(ecn, 1000)
time.sleep(2)
"""
#: Counts what has come, by what was sent and what it is now.
COUNTED = """
import socket
talk = socket.socket(type=socket.SOCK_DGRAM)
talk.setsockopt(socket.IPPROTO_IP, 13, 1)  # IP_RECVTOS
talk.settimeout(1)
seen = {}
for _ in range(44):
    talk.sendto(b"?", ("server", 9000)) if not seen else None
    try:
        data, said, _, _ = talk.recvmsg(2000, 100)
    except TimeoutError:
        if seen:
            break
        continue
    pair = f"{data[0]}{said[0][2][0] & 3}"
    seen.setdefault(pair, [0, 0])[len(data) > 100] += 1
print(__import__("json").dumps(seen))
"""


@needs_kernel
def test_ecn_fields_pass_and_dualpi2_marks_them(tmp_path: Path) -> None:
    """ECT(1) is marked where it waits, most of ECT(0) not yet; no code point becomes another."""
    tell, ask = tmp_path / "tell.py", tmp_path / "ask.py"
    tell.write_text(MARKED, encoding="utf-8")
    ask.write_text(COUNTED, encoding="utf-8")
    file = scenario_file(tmp_path, path("5 Mbit/s", duration="20 s", queue={"kind": "dual-pi2"}))
    done = run_command(file, "--beside", f"server={sys.executable} {tell}", "--", sys.executable, ask)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[0])
    assert {pair for pair, (single, _) in seen.items() if single} == {"00", "11", "22", "33"}
    burst = {pair: many for pair, (_, many) in seen.items() if many}
    assert set(burst) <= {"11", "13", "22", "23"}
    # A busy machine sends them less closely.
    assert burst["13"] >= 5
    assert burst["22"] >= 15
    assert sum(burst.values()) == 40


def within(*words: object, to: Path) -> list[str]:
    """Return a run as the program of another."""
    inner = [sys.executable, "-m", "lasthop", "emulate", "--budget", "20", "--json", to, *words]
    return list(map(str, inner))


@needs_kernel
def test_runs_within_runs_add_up(tmp_path: Path) -> None:
    """Packets cross three networks: delays add up, the slowest link decides, each run sees the connection."""
    files = [tmp_path / f"{name}.json" for name in ("outer", "middle", "inner")]
    told = [tmp_path / f"{name}-results.json" for name in ("outer", "middle", "inner")]
    paths = zip(files, [("20 Mbit/s", "50 ms"), ("2 Mbit/s", "20 ms"), ("5 Mbit/s", "10 ms")], strict=True)
    for file, (rate, delay) in paths:
        scenario = path(rate, delay, duration="20 s", queue={"kind": "drop-tail", "limit": "400 packets"})
        file.write_text(json.dumps(scenario.to_dict()), encoding="utf-8")
    give, ask = tmp_path / "give.py", tmp_path / "ask.py"
    give.write_text(GIVE, encoding="utf-8")
    ask.write_text(ASK, encoding="utf-8")
    third = within(files[2], "--", sys.executable, ask, to=told[2])
    second = within(files[1], "--", *third, to=told[1])
    done = run_command(
        files[0], "--beside", f"server={sys.executable} {give}", "--json", told[0], "--", *second
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("'server' is its host 'phone', and packets cross both networks") == 2
    count, heard, took = map(float, done.stdout.split(maxsplit=3)[:3])
    assert count == 300_000
    # Each path begins with 5 ms of wire.
    assert 0.19 <= heard < 0.9
    assert took > 300_000 * 8 / 2e6
    runs = [json.loads(place.read_text(encoding="utf-8"))["runs"][0] for place in told]
    addresses = [run["live"]["hosts"]["phone"] for run in runs]
    # Each network within another has a block of its own; runs beside this one may have the first of them.
    assert addresses[0] == "10.0.0.3"
    assert all(address.startswith("10.") and address.endswith(".0.3") for address in addresses)
    assert len(set(addresses)) == len(addresses)
    for run in runs:
        flow, question = run["flows"]
        assert flow["name"].startswith(f"tcp 10.0.0.1:8000 - {addresses[2]}:")
        assert question["name"].startswith(f"tcp {addresses[2]}:")
        assert question["bytes_delivered"] == len("300000")
        # How often the kernel repeats itself is the machine's affair: that every byte came once is not.
        assert flow["bytes_delivered"] == 300_000
        assert (run["live"]["opaque"], run["live"]["kernel_refused"]) == (0, 0)
    whole, partly, least = (run["flows"][0]["rtt_p50_s"] for run in runs)
    assert whole > partly > 0.06
    assert least < partly


@needs_kernel
def test_runs_within_a_run_at_the_same_time_have_addresses_of_their_own(tmp_path: Path) -> None:
    """Two at one host; and one whose flows the kernel carries, which end at the host of the outer run."""
    file = scenario_file(tmp_path, path("5 Mbit/s", duration="20 s"))
    give, ask, program = tmp_path / "give.py", tmp_path / "ask.py", tmp_path / "all.sh"
    give.write_text(GIVE, encoding="utf-8")
    ask.write_text(ASK, encoding="utf-8")
    told = [tmp_path / f"{name}.json" for name in ("outer", "first", "second", "carried")]
    runs = [within(file, "--", sys.executable, ask, to=place) for place in told[1:3]]
    carried = within("--kernel", "reno", "--set", "duration=2 s", "--set", "warmup=0.5 s", file, to=told[3])
    lines = [
        f"{shlex.join(words)} >{place}.log &" for words, place in zip([*runs, carried], told[1:], strict=True)
    ]
    program.write_text("\n".join([*lines, "wait"]), encoding="utf-8")
    beside = f"server={sys.executable} {give}"
    done = run_command(file, "--beside", beside, "--json", told[0], "--", "sh", program)
    assert done.returncode == 0, done.stderr
    outer, first, second, inside = (
        json.loads(place.read_text(encoding="utf-8"))["runs"][0] for place in told
    )
    phones = [run["live"]["hosts"]["phone"] for run in (first, second, inside)]
    assert len(set(phones)) == 3, phones
    assert all(phone.endswith(".0.3") and phone != "10.0.0.3" for phone in phones)
    answers = [flow for flow in outer["flows"] if flow["name"].startswith("tcp 10.0.0.1:8000 - ")]
    assert {flow["name"].partition(" - ")[2].partition(":")[0] for flow in answers} == set(phones[:2])
    assert [flow["bytes_delivered"] for flow in answers] == [300_000] * 2
    assert [run["flows"][0]["bytes_delivered"] for run in (first, second)] == [300_000] * 2
    assert inside["totals"]["goodput_bit_s"] > 1e6


@needs_kernel
def test_a_run_ends_its_programs_when_its_time_is_over(tmp_path: Path) -> None:
    began = time.monotonic()
    file = scenario_file(tmp_path, path("5 Mbit/s", duration="3 s"))
    done = run_command(file, "--", "sleep", "60.25")
    assert 3 <= time.monotonic() - began < 30
    assert done.returncode in (123, 124)
    assert not _processes_with("sleep", "60.25")


@needs_kernel
def test_a_budget_that_no_machine_keeps_marks_the_run(tmp_path: Path) -> None:
    file = scenario_file(tmp_path, path("5 Mbit/s", duration="3 s"))
    done = run_command("--budget", "0.0001", file, "--kernel", "reno")
    assert done.returncode == 123
    assert "invalid: 1 % of the packets left more than" in done.stderr


#: Children, orphans in sessions of their own, and orphans that have lost the mark.
STRAY = (
    "setsid sleep {0} & (sleep {0} &); "
    "env -i setsid sh -c 'trap \"\" TERM HUP; sleep {0} & sleep {0}' & sleep {0}"
)


@pytest.mark.alone
@needs_kernel
@pytest.mark.parametrize("way", ["plain", "group", "name", "user namespace", "nested", "steer"])
def test_a_killed_run_leaves_nothing(way: str, tmp_path: Path) -> None:
    """Killed without warning: its programs end with it, and all that they have started."""
    file = scenario_file(tmp_path, path("5 Mbit/s", duration="60 s"))
    # A number that no other test sleeps for.
    seconds = f"7700.{os.getpid()}{len(way)}"
    stray = ["sh", "-c", STRAY.format(seconds)]
    lasthop = [sys.executable, "-m", "lasthop"]
    words, sleepers = [*lasthop, "emulate", str(file), "--", *stray], 5
    if way == "plain":
        server = f"{sys.executable} -m http.server 8000 & {STRAY.format(seconds)}"
        words[4:4], sleepers = ["--beside", f"server=sh -c {shlex.quote(server)}"], 10
    if way == "user namespace":
        words = [str(shutil.which("unshare")), "--user", "--map-root-user", *words]
        if subprocess.run([*words[:3], "true"], check=False).returncode:
            pytest.skip("this machine has no user namespaces for us")
    if way == "nested":
        words, sleepers = (
            [*lasthop, "emulate", str(file), "--", *lasthop, "emulate", str(file), "--", *stray],
            5,
        )
    if way == "steer":
        words = [*lasthop, "steer", "--cc", "veno", "--", *stray]
        if steer.lacking():
            pytest.skip("this machine does not steer")
    before = _interfaces()
    run = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=way == "group"
    )
    try:
        until(lambda: len(_processes_with("sleep", seconds)) == sleepers)
        assert _interfaces() == before, "the host's own interfaces"
    finally:
        if way == "group":
            os.killpg(run.pid, signal.SIGKILL)
        elif way == "name":
            same = ["pkill", "-KILL", "-f", f"lasthop emulate {file}"]
            assert subprocess.run(same, check=False).returncode == 0
        else:
            run.kill()
        run.wait()
    killed = time.monotonic()
    until(lambda: not _processes_with("sleep", seconds))
    assert time.monotonic() - killed < 30, "a second, where the machine is not busy"
    assert _interfaces() == before
    if way == "steer":
        assert any("a session of steering that was killed" in line for line in live.clean())
    else:
        assert "a run that was killed had left 0 processes: ended" in run_command("--clean").stdout
        assert "nothing was left" in run_command("--clean").stdout


@needs_kernel
def test_hosts_of_a_dumbbell_have_paths_of_their_own() -> None:
    """Two downloads share the bottleneck; results name both."""
    content = {**lh.EXAMPLE, "duration": "6 s", "warmup": "2 s"}
    content["channel"] = {"error": {"kind": "none"}}
    run = emulated(lh.Scenario(content), kernel="cubic")
    assert [flow["name"] for flow in run.record["flows"]] == ["left", "right"]
    assert all(flow["goodput_bit_s"] > 0.3e6 for flow in run.record["flows"])
    assert 4.5e6 < run.totals["throughput_bit_s"] < 5.1e6


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed")
@pytest.mark.skipif(not Path("/proc/self/status").exists() or os.geteuid() != 0, reason="needs root on Linux")
def test_the_doctor_tries_what_is_done() -> None:
    """Root without capabilities may do nothing, whatever it is called."""
    words = [str(shutil.which("setpriv")), "--bounding-set=-all", sys.executable, "-m", "lasthop", "doctor"]
    said = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False).stdout
    assert "'lasthop emulate' cannot run here" in said
    assert "'lasthop steer' cannot run here" in said
    assert "making a network namespace failed: Operation not permitted" in " ".join(said.split())


def _interfaces() -> list[str]:
    return sorted(place.name for place in Path("/sys/class/net").iterdir())


def _processes_with(*words: str) -> list[int]:
    wanted = "\0".join(words).encode() + b"\0"
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if (place / "cmdline").read_bytes() == wanted:
                found.append(int(place.name))
        except OSError:
            continue
    return found
