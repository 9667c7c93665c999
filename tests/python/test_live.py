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
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import lasthop as lh
from lasthop import live, outside, parity, steer, view
from lasthop.captured import Captured
from lasthop.scripts import run_script
from lasthop.view import given

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from typer.testing import Result

#: How late 1 % of the packets may be in these runs: none of what is asserted depends on less.
BUDGET_S = 0.01
TRIES = 3

_lacking = "; ".join(f"{need.what}: {need.text}, {need.remedy}" for need in live.lacking())
needs_kernel = pytest.mark.skipif(bool(_lacking), reason=f"no real packets here: {_lacking}")


def path(
    rate: str,
    delay: str = "20 ms",
    *,
    duration: str = "6 s",
    flow: Mapping[str, Any] | None = None,
    **last: Any,
) -> lh.Scenario:
    """Return a wired link and a last hop with one flow over them."""
    last = {"queue": {"kind": "drop-tail", "limit": "60 packets"}, **last}
    return lh.Scenario(
        {
            "name": "path",
            "duration": duration,
            "warmup": "2 s",
            "topology": {
                "kind": "graph",
                "nodes": ["server", "base", "phone"],
                "links": [
                    {"from": "server", "to": "base", "rate": "200 Mbit/s", "delay": "5 ms"},
                    {"from": "base", "to": "phone", "rate": rate, "delay": delay, **last},
                ],
            },
            "flows": [
                {
                    "name": "download",
                    "source": "server",
                    "sink": "phone",
                    "transport": "cubic",
                    "traffic": {"kind": "ftp"},
                    **(flow or {}),
                }
            ],
        }
    )


def emulated(scenario: lh.Scenario, *arguments: Any, **options: Any) -> lh.Run:
    """Run, again if the machine was too busy; skip if it always is."""
    reasons: list[str] = []
    for _ in range(TRIES):
        run = live.emulate(scenario, *arguments, budget_s=BUDGET_S, **options)
        reasons = run.record["live"]["invalid_because"]
        if not reasons:
            return run
    pytest.skip(f"the machine is too busy for real time: {'; '.join(reasons)}")


def side_by_side(*runs: Callable[[], lh.Run]) -> list[lh.Run]:
    """Return runs that went on at the same time: each takes a few percent of a processor, and real time."""
    with ThreadPoolExecutor(len(runs)) as pool:
        return [future.result() for future in [pool.submit(run) for run in runs]]


def run_command(*arguments: object) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "lasthop", "emulate", "--budget", "20", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


def scenario_file(folder: Path, scenario: lh.Scenario) -> Path:
    file = folder / "path.json"
    file.write_text(json.dumps(scenario.to_dict()), encoding="utf-8")
    return file


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
    assert 4_900 <= sent <= 5_050
    assert abs(lost - 0.02 * sent) <= 4 * math.sqrt(sent * 0.02 * 0.98)
    # What the host got is what was sent and not lost, but for what was under way at the ends of the window.
    assert abs(told["bytes_delivered"] / 250 - (sent - lost)) <= 30
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
        (["sh", "-c", "exit 7"], 7, "the program ended with status 7"),
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
    _until(mark.exists)
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
        _until(lambda: len(_processes_with("sleep", seconds)) == sleepers)
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
    _until(lambda: not _processes_with("sleep", seconds))
    assert time.monotonic() - killed < 5, "a second, where the machine is not busy"
    assert _interfaces() == before
    if way == "steer":
        assert any("a session of steering that was killed" in line for line in live.clean())
    else:
        assert "a run that was killed had left 0 processes: ended" in run_command("--clean").stdout
        assert "nothing was left" in run_command("--clean").stdout


def test_parity_refuses_what_has_no_counterpart(command: Callable[..., Result], tmp_path: Path) -> None:
    said = command("parity", scenario_file(tmp_path, path("5 Mbit/s")), "--kernel", "reno,hybla")
    assert said.exit_code == 2
    assert "no counterpart of 'hybla'" in said.stderr


def test_parity_finds_what_lies_beside_the_scenario() -> None:
    scenario = lh.Scenario.load(Path(__file__).parents[2] / "scenarios" / "train-ride.toml")
    assert parity.simulated(scenario, "reno").folder == scenario.folder


READY = sorted((Path(__file__).parents[2] / "scenarios").glob("*.toml"))


@pytest.mark.parametrize("file", READY, ids=lambda file: file.stem)
def test_every_ready_scenario_has_a_counterpart(file: Path) -> None:
    """An entry of a file may stand for many flows, and flows begin at proxies that no entry names."""
    scenario = lh.Scenario.load(file)
    wanted = parity.simulated(scenario, "reno")
    before, after = scenario.transports, wanted.transports
    own = len(scenario.ends)
    assert len(before) == len(after)
    assert [name for name in after[:own] if name not in {"sack", "udp"}] == []
    assert [name == "udp" for name in before[:own]] == [name == "udp" for name in after[:own]]


@needs_kernel
def test_parity_of_an_entry_that_stands_for_several_flows() -> None:
    scenario = lh.Scenario.load(READY[0].parent / "fair-share.toml")
    short = scenario.replace({"duration": "2 s", "warmup": "0.5 s", "flows.0.count": "4"})
    found = parity.parity(short, ["reno"], runs=1, budget_s=BUDGET_S)
    if found.missing:
        pytest.skip(f"the machine is too busy for real time: {'; '.join(found.missing)}")
    assert all(value for value in found.rows[0].simulated.values + found.rows[0].emulated.values)


@needs_kernel
def test_simulation_and_kernel_agree_on_a_clean_path() -> None:
    """CUBIC fills the link on either side, and what waits there is much the same."""
    found = parity.parity(path("5 Mbit/s"), ["cubic"], runs=2, budget_s=BUDGET_S)
    if found.missing:
        pytest.skip(f"the machine is too busy for real time: {'; '.join(found.missing)}")
    rows = {row.metric: row for row in found.rows}
    assert rows["goodput"].ratio == pytest.approx(1, abs=0.05)
    assert rows["mean RTT"].ratio == pytest.approx(1, abs=0.2)
    assert [len(row.emulated.values) for row in found.rows] == [2] * 4


@pytest.mark.parametrize(
    ("middlebox", "message"),
    [
        ({"kind": "wtcp"}, "wtcp cannot help real packets"),
        ({"kind": "split", "to_wireless": "probing"}, '"probing" needs what no real host gives'),
        (
            {"kind": "split", "to_wired": {"preset": "reno", "profile": "ns2"}},
            "no TCP that a real host understands; give to_wireless and to_wired another sender",
        ),
        ({"kind": "split", "zero_windows": True}, "leave out zero_windows"),
    ],
)
def test_helpers_that_no_real_host_understands_are_refused(middlebox: dict[str, Any], message: str) -> None:
    with pytest.raises(lh.ScenarioError, match=re.escape(message)):
        live.plan_text(path("5 Mbit/s", middleboxes=[middlebox]), [], None, [], "reno")


def split_path(**keys: Any) -> lh.Scenario:
    """Return a path of 100 ms of wire and a lossy hop, with a proxy between them."""
    error = {"kind": "bernoulli", "packet_error_rate": 0.02}
    sender = {"preset": "cubic", "profile": "linux"}
    proxy = {"kind": "split", "to_wireless": sender, "to_wired": sender, "buffer": "256 kB", **keys}
    scenario = path("5 Mbit/s", "10 ms", duration="7 s", error=error, middleboxes=[proxy])
    content = scenario.to_dict()
    # With room for what leaves at once when the proxy's window opens.
    queue = {"kind": "drop-tail", "limit": "300 packets"}
    content["topology"]["links"][0] |= {"rate": "100 Mbit/s", "delay": "100 ms", "queue": queue}
    return lh.Scenario(content)


@needs_kernel
def test_a_split_helps_the_tcp_of_the_kernel() -> None:
    """The proxy repeats what the hop loses within 20 ms, and the server, 200 ms away, hears of no loss."""
    scenario = split_path()
    content = scenario.to_dict()
    del content["topology"]["links"][1]["middleboxes"]
    simulated = lh.run(scenario).record["flows"][0]
    found = side_by_side(*(partial(emulated, one, kernel="reno") for one in (scenario, lh.Scenario(content))))
    flow, alone = (run.record["flows"][0] for run in found)
    assert flow["goodput_bit_s"] == pytest.approx(simulated["goodput_bit_s"], rel=0.3)
    assert not any(flow["packets_lost"].values())
    assert simulated["retransmitted_packets"] == 0
    # A timer of the kernel may run out while the machine is busy, and then it repeats a window.
    assert flow["retransmitted_packets"] <= flow["packets_sent"] / 10
    assert flow["rtt_mean_s"] == pytest.approx(0.2, abs=0.01)
    for told in (flow["split"], simulated["split"]):
        assert told["transport"] == "cubic"
        assert told["retransmitted_packets"] == pytest.approx(told["packets_lost"], rel=0.3)
        assert told["rtt_mean_s"] < 0.1
        assert 0 < told["avg_held_bytes"] <= told["max_held_bytes"] <= 256_000
        assert 0 < told["acked_not_delivered_bytes"] <= 256_000
    assert flow["delay_p50_s"] > 0.11, "from the server, not from the proxy"
    assert flow["goodput_bit_s"] > 3 * alone["goodput_bit_s"], (flow["goodput_bit_s"], alone["goodput_bit_s"])


#: A server that answers with as many bytes, reversed, once its peer has closed.
MIRROR = """
import socket
from pathlib import Path
for key, value in SYSCTLS.items():
    Path("/proc/sys/net/ipv4", key).write_text(value)
talk, _ = socket.create_server(("", 8000)).accept()
talk.sendall(b"".join(iter(lambda: talk.recv(65536), b""))[::-1])
"""
LOOK = """
import os, socket
data = os.urandom(150_000)
talk = socket.create_connection(("server", 8000))
talk.sendall(data)
talk.shutdown(socket.SHUT_WR)
answer = b"".join(iter(lambda: talk.recv(65536), b""))
print("whole" if answer == data[::-1] else f"{len(answer)} bytes")
"""
#: A server that breaks off, and then one that is left.
BREAK = """
import socket, struct
listening = socket.create_server(("", 8000))
talk, _ = listening.accept()
talk.recv(1)
talk.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
talk.close()
talk, _ = listening.accept()
try:
    while talk.recv(65536):
        pass
    print("closed", flush=True)
except ConnectionResetError:
    print("server heard of a reset", flush=True)
"""
LEAVE = """
import socket, struct, time
talk = socket.create_connection(("server", 8000))
talk.send(b"x")
try:
    print(f"got {talk.recv(10)!r}")
except ConnectionResetError:
    print("client heard of a reset")
began = time.monotonic()
try:
    socket.create_connection(("server", 9))
except ConnectionRefusedError:
    print(f"refused {'when the server was heard' if time.monotonic() - began > 0.2 else 'early'}")
talk = socket.create_connection(("server", 8000))
talk.send(bytes(1000))
time.sleep(0.3)
talk.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
talk.close()
time.sleep(0.5)
"""


def through_a_split(
    folder: Path, error: dict[str, Any], server: str, client: str
) -> tuple[list[str], str, Any]:
    """Return what a client and a server printed that have a proxy between them, and the run."""
    content = split_path(to_wired={"preset": "newreno", "profile": "linux"}).to_dict()
    for link in content["topology"]["links"]:
        link["error"] = error
    file = scenario_file(folder, lh.Scenario({**content, "duration": "40 s"}))
    serve, fetch, said = folder / "serve.py", folder / "fetch.py", folder / "said"
    serve.write_text(server, encoding="utf-8")
    fetch.write_text(client, encoding="utf-8")
    beside = f"server=sh -c '{sys.executable} {serve} >{said}'"
    results = folder / "run.json"
    done = run_command(file, "--beside", beside, "--json", results, "--", sys.executable, fetch)
    assert results.exists(), done.stderr
    told = json.loads(results.read_text(encoding="utf-8"))["runs"][0]
    return done.stdout.splitlines(), said.read_text(encoding="utf-8"), told


@needs_kernel
@pytest.mark.parametrize(
    "sysctls",
    [{}, {"tcp_sack": "0", "tcp_window_scaling": "0", "tcp_timestamps": "0"}],
    ids=["all options", "no options"],
)
def test_streams_through_a_split_arrive_whole(tmp_path: Path, sysctls: dict[str, str]) -> None:
    """Half-closed, both ways, over two links that lose packets, whatever options the server has."""
    lossy = {"kind": "bernoulli", "packet_error_rate": 0.02}
    lines, _, told = through_a_split(tmp_path, lossy, MIRROR.replace("SYSCTLS", repr(sysctls)), LOOK)
    assert lines[0] == "whole", lines
    # The answer, and the question, which went the other way: each is a row.
    assert [flow["bytes_delivered"] for flow in told["flows"]] == [150_000, 150_000]
    question, answer = sorted(
        (flow["split"] for flow in told["flows"]), key=lambda s: s["acked_not_delivered_bytes"]
    )
    assert question["retransmitted_packets"] > 0
    assert answer["retransmitted_packets"] > 0
    assert question["acked_not_delivered_bytes"] == 0
    # The run ends with the program: the last ACKs of the answer may be on their way to the proxy.
    assert answer["acked_not_delivered_bytes"] <= 15_000


@needs_kernel
def test_refusals_and_resets_go_through_a_split(tmp_path: Path) -> None:
    """Each is said once and never repeated, by a proxy as by a host: nothing may be lost here."""
    lines, said, told = through_a_split(tmp_path, {"kind": "none"}, BREAK, LEAVE)
    assert lines[:2] == ["client heard of a reset", "refused when the server was heard"], lines
    assert said == "server heard of a reset\n"
    assert [flow["split"]["resets"] for flow in told["flows"]] == [1, 1, 1]


@needs_kernel
def test_hosts_of_a_dumbbell_have_paths_of_their_own() -> None:
    """Two downloads share the bottleneck; results name both."""
    content = {**lh.EXAMPLE, "duration": "6 s", "warmup": "2 s"}
    content["channel"] = {"error": {"kind": "none"}}
    run = emulated(lh.Scenario(content), kernel="cubic")
    assert [flow["name"] for flow in run.record["flows"]] == ["left", "right"]
    assert all(flow["goodput_bit_s"] > 0.3e6 for flow in run.record["flows"])
    assert 4.5e6 < run.totals["throughput_bit_s"] < 5.1e6


#: The world: a web server, and a name server that knows one name.
WORLD = """
import http.server, socket, threading
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "9")
        self.end_headers()
        self.wfile.write(b"the world")
    def log_message(self, *_):
        pass
names = socket.socket(type=socket.SOCK_DGRAM)
names.bind(("203.0.113.1", 53))
web = http.server.HTTPServer(("203.0.113.1", 80), Answer)
threading.Thread(target=web.serve_forever, daemon=True).start()
print("ready", flush=True)
while True:
    question, peer = names.recvfrom(512)
    end = question.index(b"\\0", 12) + 5
    is_address = question[end - 4 : end - 2] == b"\\0\\1" and b"example" in question
    code = b"\\x81\\x80" if is_address else b"\\x81\\x83"
    head = question[:2] + code + b"\\0\\1" + bytes([0, is_address])
    answer = b"\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\1\\0\\4" + bytes([203, 0, 113, 1])
    answer = answer if is_address else b""
    names.sendto(head + bytes(4) + question[12:end] + answer, peer)
"""
NEEDED = ("ip", "nsenter", "unshare", "curl")
_means = [name for name in NEEDED if shutil.which(name, path=outside.PLACES) is None]
_tools = [name for name in ("nft", "iptables") if shutil.which(name, path=outside.PLACES)]


@contextmanager
def machine_and_world(folder: Path) -> Iterator[list[str]]:
    """Make a namespace that stands for a machine, and behind its interface one that stands for the world.

    Yields what runs a command on that machine.
    """
    holders = [subprocess.Popen(["unshare", "--net", "sleep", "300"]) for _ in range(2)]  # noqa: S607
    inside = [["nsenter", f"--net=/proc/{holder.pid}/ns/net"] for holder in holders]
    served = None
    try:
        own = Path("/proc/self/ns/net").readlink()
        _until(lambda: all(Path(f"/proc/{one.pid}/ns/net").readlink() != own for one in holders))
        lines = [
            (0, f"ip link add name uplink type veth peer name world netns {holders[1].pid}"),
            (0, "ip address add 203.0.113.2/24 dev uplink"),
            (0, "ip link set uplink up"),
            (0, "ip link set lo up"),
            (1, "ip address add 203.0.113.1/24 dev world"),
            (1, "ip link set world up"),
        ]
        for which, line in lines:
            subprocess.run([*inside[which], *line.split()], check=True)
        world = folder / "world.py"
        world.write_text(WORLD, encoding="utf-8")
        served = subprocess.Popen([*inside[1], sys.executable, world], stdout=subprocess.PIPE, text=True)
        assert served.stdout is not None
        assert served.stdout.readline() == "ready\n"
        yield inside[0]
    finally:
        for process in (*holders, *([served] if served else [])):
            process.kill()
            process.communicate()


@needs_kernel
@pytest.mark.skipif(bool(_means), reason=f"not installed: {', '.join(_means)}")
@pytest.mark.parametrize("tool", ["nft", "iptables"])
def test_the_way_out_leads_through_the_emulated_path(tmp_path: Path, tool: str) -> None:
    """By name, over the links of the scenario, through the interface; and nothing is left on the machine."""
    if tool not in _tools:
        pytest.skip(f"{tool} is not installed")
    only = tmp_path / "bin"
    only.mkdir()
    for name in ("ip", "nsenter", tool, "curl", "cat", "sh"):
        (only / name).symlink_to(str(shutil.which(name, path=outside.PLACES)))
    file = scenario_file(tmp_path, path("5 Mbit/s", "60 ms", duration="30 s"))
    results = tmp_path / "run.json"
    words = ["lasthop", "emulate", "--budget", "50", "--json", results, "--out-through", "uplink"]
    command = [*map(str, words), "--dns", "203.0.113.1", str(file), "--"]
    # As on a machine that has one of the tools alone.
    start = f"from lasthop import __main__, outside; outside.PLACES = {str(only)!r}; __main__.main()"
    fetch = ["curl", "-sS", "-w", "\n%{time_connect}\n", "http://www.example/"]
    with machine_and_world(tmp_path) as inside:
        done = subprocess.run(
            [*inside, sys.executable, "-c", start, *command[1:], *fetch],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode in (0, 123), done.stderr
        text, connected = done.stdout.split("\n")[:2]
        assert text == "the world"
        # Twice there and back, for the name and for the connection, over 65 ms.
        assert float(connected) >= 0.26
        state = ["sh", "-c", "ip -br link; cat /proc/sys/net/ipv4/conf/uplink/forwarding; " + LISTED[tool]]
        left = subprocess.run([*inside, *state], capture_output=True, text=True, check=True).stdout
    assert "lasthop" not in left
    assert "198.18" not in left
    assert "\n0\n" in left
    told = json.loads(results.read_text(encoding="utf-8"))["runs"][0]
    assert any(flow["name"].startswith("tcp 203.0.113.1:80 - 10.0.0.3:") for flow in told["flows"])


#: Shows what a machine translates.
LISTED = {"nft": "nft list ruleset", "iptables": "iptables -t nat -S"}


def test_a_way_out_is_checked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found out before anything is changed is what is done."""
    asked: list[str] = []
    monkeypatch.setattr(outside, "check", lambda interface: asked.append(interface) or "nft")
    monkeypatch.setattr(outside, "_call", lambda *_, **__: "")
    monkeypatch.setattr(outside, "SETTINGS", str(tmp_path))
    monkeypatch.setattr(live, "journal_folder", lambda: tmp_path / "journal")
    (tmp_path / "uplink").mkdir()
    (tmp_path / "uplink" / "forwarding").write_text("1", encoding="utf-8")
    found, _ = live.check_outside("uplink", ["10.9.8.7"], nested=False)
    with live.journal("0123", [], cleans=False, out_through=found) as (_, way):
        assert way is not None
        assert (way.interface, way.tool) == ("uplink", "nft")
    assert asked == ["uplink"]


def test_a_way_out_that_cannot_be_is_refused(command: Callable[..., Result], tmp_path: Path) -> None:
    file = scenario_file(tmp_path, path("5 Mbit/s"))
    said = command("emulate", file, "--out-through", "moon0", "--", "true")
    assert said.exit_code == 2, said.stderr
    assert "--out-through moon0: no such interface; this machine has" in said.stderr
    said = command("emulate", file, "--dns", "192.0.2.1", "--", "true")
    assert said.exit_code == 2
    assert "--dns names servers outside: say by which interface with --out-through" in said.stderr


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


def _until(holds: Callable[[], bool]) -> None:
    asked = time.monotonic()
    while not holds():
        assert time.monotonic() - asked < 20, "it never came"
        time.sleep(0.02)


# ------------------------------------------------------------------------------------------------------------
# Devices of the simulator under real packets: what the same datagrams meet in a simulation

#: 400 datagrams of 250 B in each second: 0.8 Mbit/s with headers.
PROBES = {"transport": "udp", "traffic": {"kind": "cbr", "rate": "0.8 Mbit/s", "packet": "250 B"}}


def both(**last: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the flow of probes over a last hop with these keys, simulated and with real datagrams.

    The sockets of the kernel may be woken late and then send several at once: there is room for them.
    """
    last = {"queue": {"kind": "drop-tail", "limit": "1000 packets"}, **last}
    scenario = path("2 Mbit/s", duration="8 s", flow=PROBES, **last)
    return lh.run(scenario).record["flows"][0], emulated(scenario, kernel="reno").record["flows"][0]


@needs_kernel
def test_a_link_repeats_real_packets() -> None:
    """ARQ over a channel that loses every fifth frame: nothing is lost, delays are as in a simulation."""
    error = {"kind": "bernoulli", "packet_error_rate": 0.2}
    ours, real = both(error=error, arq={"attempts": 12}, reverse={"error": "none"})
    for flow in (ours, real):
        assert flow["packets_lost"]["link-gave-up"] == 0
        assert flow["packets_sent"] == pytest.approx(2400, abs=40)
    assert real["delay_p50_s"] == pytest.approx(ours["delay_p50_s"], rel=0.1)


@needs_kernel
@pytest.mark.parametrize("policy", ["drop", "hold"])
def test_a_handoff_takes_real_packets(policy: str) -> None:
    """Half a second without a link: 200 datagrams are lost with what was under way, or wait."""
    handoff = {"at": ["4 s"], "outage": "500 ms", "policy": policy}
    ours, real = both(handoff=handoff)
    lost = [flow["packets_lost"].get("outage", 0) for flow in (ours, real)]
    assert lost[0] == pytest.approx(208 if policy == "drop" else 0, abs=3)
    assert lost[1] == pytest.approx(lost[0], abs=20)
    if policy == "hold":
        assert real["delay_p99_s"] == pytest.approx(ours["delay_p99_s"], rel=0.1)


@needs_kernel
def test_repairs_bring_real_packets_back() -> None:
    """Reed-Solomon, 4 of 6: of 5 % losses a twentieth is left, and what is rebuilt is what was sent."""
    error = {"kind": "bernoulli", "packet_error_rate": 0.05}
    fec = [{"kind": "fec", "k": 4, "n": 6}]
    ours, real = both(error=error, middleboxes=fec, reverse={"error": "none"})
    for flow in (ours, real):
        missing = 1 - flow["bytes_delivered"] / 250 / flow["packets_sent"]
        assert missing < 0.01, missing


@needs_kernel
@pytest.mark.parametrize("helper", [{"kind": "snoop"}, {"kind": "fec", "k": 4, "n": 6}])
def test_helpers_do_without_sack_and_scaled_windows(helper: dict[str, Any]) -> None:
    """The link loses 3 %, the sender little of its goodput, although its host has switched both off."""
    plain = "echo 0 >/proc/sys/net/ipv4/tcp_sack; echo 0 >/proc/sys/net/ipv4/tcp_window_scaling"
    error = {"kind": "bernoulli", "packet_error_rate": 0.03}
    scenario = path("5 Mbit/s", error=error, middleboxes=[helper], reverse={"error": "none"})
    run = emulated(scenario, kernel="reno", beside=[("server", ["sh", "-c", plain])], trace=True)
    [flow], hops = run.record["flows"], run.hops
    # IP and TCP, MSS and timestamps; a shift of windows would take four bytes, SACK blocks at least twelve.
    assert set(hops.filter(pl.col("kind") == "syn")["wire_bytes"]) == {20 + 20 + 4 + 12}
    assert set(hops.filter(pl.col("kind") == "ack")["wire_bytes"]) == {20 + 20 + 12}
    lost = hops.filter(pl.col("outcome") == "channel-error").height
    assert lost > 20
    assert flow["retransmitted_packets"] < 0.3 * lost, (flow["retransmitted_packets"], lost)
    # FEC spends a third on repairs; Reno alone has half a Mbit/s here.
    assert flow["goodput_bit_s"] > 2.5e6


@needs_kernel
def test_codel_keeps_the_queue_of_the_kernel_short() -> None:
    """CUBIC fills a buffer of 300 packets; CoDel drops early and keeps what waits to some of them."""
    queues = [
        {"kind": "drop-tail", "limit": "300 packets"},
        {"kind": "codel", "limit": "300 packets"},
    ]
    full, short = (
        emulated(path("5 Mbit/s", queue=queue, duration="8 s"), kernel="cubic") for queue in queues
    )
    waiting = [
        next(link for link in run.record["links"] if link["name"] == "base-phone")["avg_queue_packets"]
        for run in (full, short)
    ]
    assert waiting[1] < waiting[0] / 3, waiting
    assert short.record["flows"][0]["packets_lost"]["early-drop"] > 0
    assert short.totals["goodput_bit_s"] > 0.8 * full.totals["goodput_bit_s"]


@needs_kernel
def test_a_run_is_recorded_as_a_simulation_is(tmp_path: Path) -> None:
    """Kernel Reno over a queue of 30 packets: what the tables say fits together and with the summary."""
    queue = {"kind": "drop-tail", "limit": "30 packets"}
    scenario = path("5 Mbit/s", queue=queue, duration="8 s", flow={"name": "file"})
    run = emulated(scenario, kernel="reno", series=True, trace=True)
    (flow,) = run.flows.to_dicts()
    series = run.series.filter(pl.col("time_s") > 3)
    assert set(series["flow"]) == {"file"}
    # Windows by the kernel's word, flights as seen from outside: no more is under way than the window allows.
    windows, flights = series["cwnd_segments"], series["flight_segments"]
    assert windows.null_count() == 0
    assert 5 < windows.mean() < 80
    assert (flights <= windows + 3).mean() > 0.9
    assert series["rtt_s"].mean() == pytest.approx(flow["rtt_mean_s"], rel=0.2)
    bottleneck = run.link_series.filter(pl.col("link") == "base-phone")
    assert 10 < bottleneck["queue_packets"].max() <= 31
    hops = run.hops
    assert set(hops["flow"]) == {"file"}
    data = hops.filter((pl.col("kind") == "data") & (pl.col("link") == "base-phone"))
    arrived = data.filter((pl.col("outcome") == "delivered") & (pl.col("arrive_ns") > 2e9))
    assert arrived["wire_bytes"].sum() * 8 / run.record["measured_s"] == pytest.approx(
        flow["throughput_bit_s"], rel=0.02
    )
    lost = hops.filter((pl.col("outcome") == "queue-overflow") & (pl.col("enqueue_ns") > 2e9))
    assert len(lost) == flow["lost_packets"] > 0
    # Sequence numbers begin with the SYN, and every byte between is there.
    assert data["seq"].min() == 1
    assert data.unique("seq")["payload_bytes"].sum() == data["seq"].max() + data["payload_bytes"].max() - 1
    lh.Runs([run]).save(tmp_path / "live")
    (again,) = lh.load_runs(tmp_path / "live")
    again.plot(tmp_path / "live.png")
    shown = given(str(tmp_path / "live"))
    assert shown is not None
    assert shown["title"].startswith("Scenario of the live run in")
    assert shown["fingerprints"] == {"as written": {}}
    again.write_pcapng(tmp_path / "live.pcapng")
    assert (tmp_path / "live.pcapng").stat().st_size > 100 * len(data)


#: Fields that are no numbers, or not always.
TEXT = ("ip.src", "tcp.payload", "tcp.flags.syn", "_ws.malformed")


def read_capture(file: Path, *fields: str, text: Sequence[str] = ()) -> pl.DataFrame:
    """Return fields of each packet, as tshark reads them."""
    words = ["tshark", "-r", str(file), "-T", "fields", "-E", "header=y", "-E", "separator=;"]
    # Of an ICMP message its own header, and not that of the packet that it is about.
    words += [
        "-E",
        "occurrence=f",
        "-o",
        "tcp.relative_sequence_numbers:FALSE",
        "-o",
        "tcp.check_checksum:TRUE",
    ]
    done = subprocess.run(
        [*words, *(word for field in fields for word in ("-e", field))], capture_output=True, check=True
    )
    return pl.read_csv(
        done.stdout,
        separator=";",
        infer_schema_length=None,
        schema_overrides={name: pl.String for name in fields if name in {*TEXT, *text}},
    )


needs_tshark = pytest.mark.skipif(
    shutil.which("tshark") is None, reason="tshark is not installed (Debian package tshark)"
)


@needs_kernel
@needs_tshark
def test_captures_hold_what_was_on_the_wire(tmp_path: Path) -> None:
    """100,000 bytes from host to host: ports, handshake, every byte of them, and what the link has lost."""
    take = "s = socket.create_server(('', 7777)); c = s.accept()[0]\nwhile c.recv(65536): 0"
    send = "s = socket.create_connection(('phone', 7777)); s.sendall(b'0123456789abcdef' * 6250)"
    send += "; s.shutdown(1); s.recv(1)"
    words = [[sys.executable, "-c", f"import socket; {what}"] for what in (take, send)]
    scenario = path("5 Mbit/s", error={"kind": "bernoulli", "packet_error_rate": 0.05}, duration="30 s")
    run = emulated(
        scenario, words[1], host="server", beside=[("phone", words[0])], capture_at=["senders", "phone"]
    )
    assert [(one["place"], one["missed"]) for one in run.record["live"]["captures"]] == [
        ("senders", 0),
        ("phone", 0),
    ]
    lh.Runs([run]).save(tmp_path / "out")
    fields = ["ip.src", "tcp.srcport", "tcp.dstport", "tcp.flags.syn", "tcp.seq_raw", "tcp.len"]
    fields += ["tcp.checksum.status", "frame.time_epoch", "tcp.payload", "tcp.options.mss_val", "frame.len"]
    sent = read_capture(tmp_path / "out" / "capture.pcapng", *fields)
    came = read_capture(tmp_path / "out" / "capture-at-phone.pcapng", *fields)
    shakes = sent.filter(pl.col("tcp.flags.syn").is_in(["1", "True", "true"]))
    assert shakes["ip.src"].to_list()[:: len(shakes) - 1] == ["10.0.0.1", "10.0.0.3"]
    assert set(shakes["tcp.options.mss_val"]) == {1460}
    # One write of 100,000 bytes: the kernel cuts what it would leave to an interface that cuts by itself.
    assert max(sent["frame.len"]) == 1500
    assert set(sent["tcp.checksum.status"]) | set(came["tcp.checksum.status"]) == {1}, "1 is good"
    # The kernel's own port and first number, no flow's number and zero.
    [near] = set(sent.filter(pl.col("ip.src") == "10.0.0.1")["tcp.srcport"])
    first = shakes["tcp.seq_raw"][0]
    assert near > 30_000
    assert first > 0
    frames = {}
    for name, table in (("sent", sent), ("came", came)):
        data = table.filter((pl.col("ip.src") == "10.0.0.1") & (pl.col("tcp.len") > 0))
        assert set(data["tcp.dstport"]) == {7777}
        stream = bytearray(100_000)
        for seq, payload in data.select("tcp.seq_raw", "tcp.payload").iter_rows():
            part = bytes.fromhex(payload)
            at = (seq - first - 1) % 2**32
            stream[at : at + len(part)] = part
        assert bytes(stream) == b"0123456789abcdef" * 6250
        frames[name] = data
    lost = next(link for link in run.record["links"] if link["name"] == "base-phone")["drops"]
    assert len(frames["sent"]) - len(frames["came"]) in range(lost["channel-error"] + 1)
    # 25 ms away, and each packet takes 2.4 ms at 5 Mbit/s.
    delays = frames["came"]["frame.time_epoch"][0] - frames["sent"]["frame.time_epoch"][0]
    assert 0.0274 <= delays < 0.2
    assert run.record["live"]["captures"][0]["packets"] == len(sent)


@needs_kernel
@needs_tshark
def test_an_interrupted_run_leaves_its_captures(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    file = scenario_file(tmp_path, path("5 Mbit/s", duration="60 s"))
    words = [sys.executable, "-m", "lasthop", "emulate", str(file), "--kernel", "reno", "--out", str(folder)]
    words += ["--capture-at", "phone", "--snaplen", "60"]
    run = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    capture = folder / "capture-at-phone.pcapng"
    _until(lambda: capture.exists() and capture.stat().st_size > 20_000)
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=20)
    assert run.returncode == 130
    assert "interrupted at" in said
    assert (folder / "result.json").exists()
    read = read_capture(capture, "frame.len", "frame.cap_len", "_ws.malformed")
    assert max(read["frame.len"]) == 1500
    assert max(read["frame.cap_len"]) == 60
    assert read["_ws.malformed"].null_count() == len(read)


#: Several programs at once: a download, an upload over another connection, one connection with data both
#: ways, and datagrams that are answered.
SERVE_ALL = """
import socket, threading
def take(listening, act):
    talk = listening.accept()[0]
    act(talk)
    talk.close()
def drain(talk):
    while talk.recv(65536):
        pass
def both(talk):
    writer = threading.Thread(target=lambda: (talk.sendall(bytes(120_000)), talk.shutdown(1)))
    writer.start()
    drain(talk)
    writer.join()
acts = {8000: lambda talk: talk.sendall(bytes(200_000)), 8001: drain, 8002: both}
for port, act in acts.items():
    threading.Thread(target=take, args=(socket.create_server(("", port)), act)).start()
talk = socket.socket(type=socket.SOCK_DGRAM)
talk.bind(("", 8003))
while True:
    data, peer = talk.recvfrom(2000)
    talk.sendto(data[: len(data) // 2], peer)
"""
ASK_ALL = """
import socket, threading, time
def join(port):
    while True:
        try:
            return socket.create_connection(("server", port))
        except ConnectionRefusedError:
            time.sleep(0.02)
def drain(talk):
    while talk.recv(65536):
        pass
def up():
    talk = join(8001)
    talk.sendall(bytes(90_000))
    talk.shutdown(1)
    drain(talk)
def both():
    talk = join(8002)
    talk.sendall(bytes(70_000))
    talk.shutdown(1)
    drain(talk)
def ask():
    talk = socket.socket(type=socket.SOCK_DGRAM)
    talk.connect(("server", 8003))
    for _ in range(100):
        try:
            talk.send(bytes(600))
        except ConnectionRefusedError:
            pass
        time.sleep(0.005)
threads = [threading.Thread(target=act) for act in (lambda: drain(join(8000)), up, both, ask)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
time.sleep(0.3)
"""


def captured(file: Path) -> dict[tuple[str, str], tuple[int, int, int]]:
    """Return packets, bytes and segments sent again, by both ends, as a capture shows them."""
    fields = [
        "ip.src",
        "ip.dst",
        "ip.len",
        "ip.proto",
        "tcp.srcport",
        "tcp.dstport",
        "tcp.seq_raw",
        "tcp.len",
    ]
    table = read_capture(file, *fields, "udp.srcport", "udp.dstport", text=fields[:2])
    found: dict[tuple[str, str], tuple[int, int, int]] = {}
    highest: dict[tuple[str, str], int] = {}
    for row in table.to_dicts():
        kind = {1: "icmp", 6: "tcp", 17: "udp"}[row["ip.proto"]]
        port = {way: "" if kind == "icmp" else f":{row[f'{kind}.{way}port']}" for way in ("src", "dst")}
        ends = tuple(f"{row[f'ip.{way}']}{port[way]}" for way in ("src", "dst"))
        key = (f"{kind} {ends[0]}", ends[1])
        packets, size, again = found.get(key, (0, 0, 0))
        if kind == "tcp" and row["tcp.len"]:
            end = row["tcp.seq_raw"] + row["tcp.len"]
            again += end <= highest.get(key, 0)
            highest[key] = max(end, highest.get(key, 0))
        found[key] = (packets + 1, size + row["ip.len"], again)
    return found


@needs_kernel
@needs_tshark
def test_every_byte_of_a_capture_is_in_one_row(tmp_path: Path) -> None:
    """Both ends lose packets: each direction of each 5-tuple has the row that its sender's capture says."""
    lossy = {"kind": "bernoulli", "packet_error_rate": 0.03}
    scenario = path("4 Mbit/s", "10 ms", duration="30 s", error=lossy, reverse={"error": lossy})
    programs = [[sys.executable, "-c", text] for text in (SERVE_ALL, ASK_ALL)]
    run = live.emulate(
        scenario,
        programs[1],
        beside=[("server", programs[0])],
        capture_at=["server", "phone"],
        budget_s=1.0,
    )
    report = run.record["live"]
    assert report["program_status"] == 0
    assert not any(report["refused"].values())
    lh.Runs([run]).save(tmp_path / "out")
    shown: dict[tuple[str, str], tuple[int, int, int]] = {}
    for host, address in report["hosts"].items():
        sent = captured(tmp_path / "out" / f"capture-at-{host}.pcapng")
        shown |= {
            key: value for key, value in sent.items() if re.match(rf"{address}(:|$)", key[0].split()[1])
        }
    (again,) = lh.load_runs(tmp_path / "out")
    rows = pl.read_parquet(tmp_path / "out" / "flows.parquet").to_dicts()
    report = again.record["live"]
    assert len(rows) == len(report["connections"]) >= 6
    for row, told in zip(rows, report["connections"], strict=True):
        assert row["name"] == told["flow"] == told["tuple"]
        near, far = told["tuple"].split(" - ")
        packets, size, repeated = shown.pop((near, far))
        assert (told["packets"], told["bytes"]) == (packets, size), told
        # Nothing is left out by the warm-up, which programs do not have.
        assert row["packets_sent"] == packets
        kind, _, near = near.partition(" ")
        if kind == "tcp":
            assert row["retransmitted_packets"] == repeated
        else:
            assert row["retransmitted_packets"] is None
        assert row["timeouts"] is None
        # What came back is a row of its own, or counted here.
        if told["bytes_back"] is None:
            assert row["acks_sent"] is None
        else:
            packets, size, _ = shown.pop((f"{kind} {far}", near), (0, 0, 0))
            assert (told["packets_back"], told["bytes_back"]) == (packets, size), told
            assert row["acks_sent"] == packets
    assert shown == {}
    delivered = [
        row["bytes_delivered"] for row in rows if row["name"].startswith("tcp") and row["bytes_delivered"]
    ]
    assert sorted(delivered) == [70_000, 90_000, 120_000, 200_000]
    assert run.record["totals"]["retransmitted_packets"] > 0


@needs_kernel
def test_flows_in_both_directions_between_the_same_hosts_are_all_there(tmp_path: Path) -> None:
    """Datagrams down and up, and TCP down and up: each carries what it does alone in its direction."""
    call = {"transport": "udp", "traffic": {"kind": "cbr", "rate": "0.5 Mbit/s", "packet": "500 B"}}
    ends = {"down": {"source": "server", "sink": "phone"}, "up": {"source": "phone", "sink": "server"}}
    content = path("5 Mbit/s", duration="6 s").to_dict()
    content["flows"] = [
        {**content["flows"][0], **ends[way], "name": f"{name}-{way}", **more}
        for name, more in (("call", call), ("bulk", {}))
        for way in ends
    ]
    run = emulated(lh.Scenario(content), kernel="cubic")
    lh.Runs([run]).save(tmp_path / "out")
    flows = {row["name"]: row for row in pl.read_parquet(tmp_path / "out" / "flows.parquet").to_dicts()}
    assert list(flows) == ["call-down", "call-up", "bulk-down", "bulk-up"]
    for way in ends:
        told = flows[f"call-{way}"]
        assert told["throughput_bit_s"] == pytest.approx(0.5e6 * 528 / 500, rel=0.2)
        assert flows[f"bulk-{way}"]["goodput_bit_s"] > 2e6
        assert told["throughput_bit_s"] + flows[f"bulk-{way}"]["throughput_bit_s"] < 5.01e6


@needs_kernel
def test_a_call_of_real_packets_has_the_quality_of_a_simulated_one() -> None:
    """A path that is busy with losses alone: what is heard, and how late, is what the simulation says."""
    calls = [
        {
            "transport": "udp",
            "source": "server",
            "sink": "phone",
            "start": "100 ms",
            "name": codec,
            "traffic": {"kind": "voice", "codec": codec, "pause": "0 s"},
        }
        for codec in ("g711", "g729")
    ]
    error = {"kind": "bernoulli", "packet_error_rate": 0.05}
    content = path("10 Mbit/s", "60 ms", duration="12 s", error=error).to_dict()
    scenario = lh.Scenario({**content, "flows": calls})
    real = {row["name"]: row for row in emulated(scenario, kernel="cubic").record["flows"]}
    simulated = {row["name"]: row for row in lh.run(scenario).record["flows"]}
    for name, told in real.items():
        expected = simulated[name]["voice"]
        assert told["voice"]["mouth_to_ear_s"] == pytest.approx(expected["mouth_to_ear_s"], abs=0.005)
        # 500 packets, of which 5 % are lost by chance on either side.
        assert told["voice"]["unheard_share"] == pytest.approx(0.05, abs=0.035)
        assert told["voice"]["mos"] == pytest.approx(expected["mos"], abs=0.4)


#: Sends `TOTAL` bytes, the first of them `BEFORE` the end of sequence numbers. TCP_REPAIR and what goes
#: with it are options 19 to 21.
TOTAL, BEFORE = 600_000, 200_000
AROUND_THE_WRAP = f"""
import socket
s = socket.socket()
for option, value in ((19, 1), (20, 2), (21, -{BEFORE}), (19, 0)):
    s.setsockopt(socket.IPPROTO_TCP, option, value)
s.connect(("phone", 7777))
s.sendall(b"".join(n.to_bytes(4, 'big') for n in range({TOTAL // 4})))
s.shutdown(1)
assert s.recv(64) == b"whole", "bytes are missing, doubled or out of order"
"""
TAKEN_IN_ORDER = f"""
import socket
c = socket.create_server(("", 7777)).accept()[0]
came = bytearray()
while some := c.recv(65536):
    came += some
c.sendall(b"whole" if came == b"".join(n.to_bytes(4, 'big') for n in range({TOTAL // 4})) else b"broken")
c.close()
"""


@needs_kernel
@needs_tshark
@pytest.mark.parametrize("helper", [{"kind": "snoop"}, {"kind": "fec", "k": 4, "n": 6}])
def test_helpers_go_on_when_sequence_numbers_wrap(tmp_path: Path, helper: dict[str, Any]) -> None:
    """Every byte arrives once and in order, and the link goes on to repair losses after the wrap."""
    error = {"kind": "bernoulli", "packet_error_rate": 0.04}
    scenario = path("10 Mbit/s", "5 ms", duration="20 s", error=error, middleboxes=[helper])
    words = [[sys.executable, "-c", text] for text in (AROUND_THE_WRAP, TAKEN_IN_ORDER)]
    run = emulated(scenario, words[0], host="server", beside=[("phone", words[1])], trace=True, series=True)
    assert run.record["live"]["program_status"] == 0
    run.write_pcapng(tmp_path / "senders.pcapng", "senders")
    numbers = read_capture(tmp_path / "senders.pcapng", "ip.src", "tcp.seq_raw")
    numbers = numbers.filter(pl.col("ip.src") == "10.0.0.1")["tcp.seq_raw"]
    assert numbers[0] == 2**32 - BEFORE
    assert min(numbers) < TOTAL
    data = run.hops.filter((pl.col("kind") == "data") & (pl.col("seq") > BEFORE))
    wrapped = data["enqueue_ns"].min() / 1e9
    lost = data.filter((pl.col("link") == "base-phone") & (pl.col("outcome") == "channel-error")).height
    sent = data.filter(pl.col("link") == "server-base")["seq"]
    again = len(sent) - sent.n_unique()
    later = run.helper_series.filter(pl.col("time_s") > wrapped + 0.1)
    repairs = later.select(pl.selectors.matches("^snoop_repeats_by_|^fec_rebuilt$")).sum().row(0)
    assert sum(filter(None, repairs)) >= lost / 2
    assert lost >= 3
    assert again < lost / 2, (again, lost)


#: Datagrams as QUIC has them (RFC 9000) and packets of IPsec's ESP (RFC 4303, protocol 50): none but the ends
#: can read them. Sends 100 of each, and asks whether they came as they were.
UNREADABLE = """
import random, socket, time
draw = random.Random(1)
some = [bytes([0xC3]) + draw.randbytes(1199) for _ in range(100)]
esp = [(7).to_bytes(4, "big") + n.to_bytes(4, "big") + draw.randbytes(1000) for n in range(100)]
"""
SEEN_OFF = """
quic, ipsec = socket.socket(type=socket.SOCK_DGRAM), socket.socket(socket.AF_INET, socket.SOCK_RAW, 50)
for datagram, packet in zip(some, esp):
    quic.sendto(datagram, ("phone", 443))
    ipsec.sendto(packet, ("phone", 0))
    time.sleep(0.004)
quic.settimeout(5)
assert quic.recv(64) == b"whole"
"""
MET = """
ipsec, quic = socket.socket(socket.AF_INET, socket.SOCK_RAW, 50), socket.socket(type=socket.SOCK_DGRAM)
quic.bind(("", 443))
whole = True
for datagram, packet in zip(some, esp):
    came, sender = quic.recvfrom(2000)
    # A raw socket shows the IP header.
    whole &= came == datagram and ipsec.recv(2000)[20:] == packet
quic.sendto(b"whole" if whole else b"changed", sender)
time.sleep(1)
"""


@needs_kernel
@pytest.mark.parametrize("helper", [{"kind": "snoop"}, {"kind": "fec", "k": 4, "n": 6}])
def test_helpers_pass_what_they_cannot_read(helper: dict[str, Any]) -> None:
    scenario = path("10 Mbit/s", "5 ms", duration="20 s", middleboxes=[helper])
    words = [[sys.executable, "-c", UNREADABLE + text] for text in (SEEN_OFF, MET)]
    run = emulated(scenario, words[0], host="server", beside=[("phone", words[1])])
    assert run.record["live"]["program_status"] == 0
    assert run.record["live"]["opaque"] == 100


@needs_kernel
@pytest.mark.parametrize(("payload", "together"), [(1472, 1), (222, 6)])
def test_opportunities_of_mahimahi_carry_so_many_bytes(tmp_path: Path, payload: int, together: int) -> None:
    """Each line of the file lets 1500 B go: one packet of 1500 B, or six of 250 B."""
    at = [1, 2, 3, 20, 20, 21, 40, 41, 70, 71, 90, 100]
    (tmp_path / "bursts").write_text("".join(f"{millisecond}\n" for millisecond in at), encoding="utf-8")
    flow = {"transport": "udp", "traffic": {"kind": "cbr", "rate": "4 Mbit/s", "packet": f"{payload} B"}}
    content = path("5 Mbit/s", duration="8 s", flow=flow).to_dict()
    last = content["topology"]["links"][1]
    del last["rate"]
    last["trace"] = {"kind": "mahimahi", "file": "bursts"}
    last["queue"] = {"kind": "drop-tail", "limit": "50 packets"}
    file = tmp_path / "bursts.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    run = emulated(lh.Scenario.load(file), kernel="reno")
    bytes_carried = run.record["flows"][0]["throughput_bit_s"] / 8 * 6
    # 60 rounds of the file in 6 s. What does not fit goes on with the next opportunity.
    opportunities = 60 * len(at)
    assert bytes_carried == pytest.approx(opportunities * 1500, abs=3 * 1500 * together)


@needs_kernel
def test_a_cell_of_802_11_carries_real_packets() -> None:
    """Two stations upload over 802.11b: the kernel's TCP gets what the simulated one gets."""
    content = {
        "name": "cell",
        "duration": "8 s",
        "warmup": "2 s",
        "topology": {
            "kind": "wlan",
            "stations": 2,
            "radius": 10,
            "wire": {"rate": "100 Mbit/s", "delay": "10 ms"},
            "cell": {"phy": "802.11b"},
        },
        "flows": [{"count": 2, "transport": {"preset": "cubic", "profile": "linux"}, "traffic": "ftp"}],
    }
    scenario = lh.Scenario(content)
    ours, real = lh.run(scenario), emulated(scenario, kernel="cubic")
    assert len(real.record["flows"]) == 2
    assert real.totals["goodput_bit_s"] == pytest.approx(ours.totals["goodput_bit_s"], rel=0.15)


def mixed() -> lh.Scenario:
    """Return two flows that the kernel carries and one that it does not."""
    content = path("5 Mbit/s", duration="6 s").to_dict()
    flow = content["flows"][0]
    names = {"one": "kernel:cubic", "two": "kernel:reno", "three": "newreno"}
    content["flows"] = [{**flow, "name": name, "transport": transport} for name, transport in names.items()]
    return lh.Scenario(content)


def test_flows_of_the_kernel_are_not_simulated() -> None:
    scenario = mixed()
    assert scenario.transports == ["kernel:cubic", "kernel:reno", "newreno"]
    with pytest.raises(
        lh.RunError, match='flow "one" has the transport kernel:cubic, which real packets alone'
    ):
        lh.run(scenario)
    told = live.plan_text(scenario, [], None, [], None)
    assert "carry one with sockets of the kernel (cubic)\ncarry two with sockets of the kernel (reno)" in told
    assert "carry three" not in told


@needs_kernel
def test_flows_of_the_kernel_have_congestion_controls_of_their_own() -> None:
    run = emulated(mixed())
    told = {flow["name"]: flow["transport"] for flow in run.record["flows"]}
    assert told == {"one": "kernel:cubic", "two": "kernel:reno"}
    assert all(flow["goodput_bit_s"] > 0.3e6 for flow in run.record["flows"])
    assert run.totals["goodput_bit_s"] > 3e6
    content = mixed().to_dict()
    content["flows"][1]["transport"] = "kernel:nosuch"
    with pytest.raises(lh.ScenarioError, match='the kernel has no congestion control "nosuch"'):
        live.emulate(lh.Scenario(content))


SCRIPTS = sorted((Path(__file__).parents[2] / "scripts").glob("*.script"))


@needs_kernel
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_kernel_does_what_a_script_says(path: Path) -> None:
    """A machine that is busy gets another try: times are real."""
    for _ in range(TRIES):
        try:
            outcome = run_script(path, kernel=True)
        except lh.RunError as error:
            if "has no congestion control" not in str(error):
                raise
            pytest.skip(str(error))
        if not outcome.ran:
            pytest.skip(f"the kernel differs: {outcome.not_on_kernel}")
        if outcome.holds:
            return
    shown = "\n".join(outcome.log)
    pytest.fail(f"{outcome.failure}\n{shown}")
