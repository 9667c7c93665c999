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
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import lasthop as lh
from lasthop import live, parity
from lasthop.scripts import run_script
from lasthop.view import given

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
    helped = emulated(lh.Scenario(content), kernel="reno").totals["goodput_bit_s"]
    # Where losses fall decides much: one run of Reno alone is up to a third above or below the mean.
    alone = [emulated(plain, kernel="reno", seed=seed).totals["goodput_bit_s"] for seed in (1, 2, 3)]
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
def test_the_status_of_the_program_counts(tmp_path: Path) -> None:
    file = scenario_file(tmp_path, path("5 Mbit/s"))
    assert run_command(file, "--", "sh", "-c", "exit 3").returncode == 1
    assert run_command(file, "--", "sh", "-c", "exit 0").returncode == 0
    missing = run_command(file, "--", "/no/such/program")
    assert missing.returncode == 1
    assert 'cannot start "/no/such/program"' in missing.stderr
    unknown = run_command(file, "--kernel", "nosuch")
    assert unknown.returncode == 2
    assert "modprobe tcp_nosuch" in unknown.stderr


@needs_kernel
def test_a_run_runs_within_a_run(tmp_path: Path) -> None:
    """The inner one has a network of its own, and leaves the outer one's alone."""
    file = scenario_file(tmp_path, path("5 Mbit/s", duration="20 s"))
    places = [tmp_path / "outer.json", tmp_path / "inner.json"]
    inner = [sys.executable, "-m", "lasthop", "emulate", "--budget", "20", "--kernel", "reno"]
    inner += ["--set", "duration=2 s", "--set", "warmup=0.5 s", "--json", str(places[1]), str(file)]
    done = run_command(file, "--json", places[0], "--", *inner)
    assert done.returncode == 0, done.stderr
    outer, inside = (json.loads(place.read_text(encoding="utf-8"))["runs"][0] for place in places)
    assert outer["live"]["program_status"] == 0
    assert outer["totals"]["goodput_bit_s"] == 0
    assert inside["totals"]["goodput_bit_s"] > 1e6


@needs_kernel
def test_a_run_ends_its_programs_when_its_time_is_over(tmp_path: Path) -> None:
    began = time.monotonic()
    file = scenario_file(tmp_path, path("5 Mbit/s", duration="3 s"))
    done = run_command(file, "--", "sleep", "60")
    assert 3 <= time.monotonic() - began < 30
    assert done.returncode in (0, 1)
    assert not _processes_with("sleep", "60")


@needs_kernel
def test_a_budget_that_no_machine_keeps_marks_the_run(tmp_path: Path) -> None:
    file = scenario_file(tmp_path, path("5 Mbit/s", duration="3 s"))
    done = run_command("--budget", "0.0001", file, "--kernel", "reno")
    assert done.returncode == 1
    assert "invalid: 1 % of the packets left more than" in done.stderr


@needs_kernel
def test_a_killed_run_leaves_nothing(tmp_path: Path) -> None:
    """Killed without warning: its program ends with it; what that has started ends at the next start."""
    file = scenario_file(tmp_path, path("5 Mbit/s", duration="60 s"))
    shell = ["sh", "-c", "sleep 77 & sleep 78; wait"]
    words = [sys.executable, "-m", "lasthop", "emulate", str(file), "--", *shell]
    before = _interfaces()
    run = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _until(lambda: bool(_processes_with("sleep", "78")))
        assert _interfaces() == before, "the host's own interfaces"
    finally:
        run.kill()
        run.wait()
    done = run_command("--clean")
    assert "a run that was killed had left" in done.stdout
    _until(lambda: not _processes_with("sleep", "77") and not _processes_with("sleep", "78"))
    assert _interfaces() == before
    assert "nothing was left" in run_command("--clean").stdout


def test_parity_refuses_what_has_no_counterpart(command: Callable[..., Result], tmp_path: Path) -> None:
    said = command("parity", scenario_file(tmp_path, path("5 Mbit/s")), "--kernel", "reno,hybla")
    assert said.exit_code == 2
    assert "no counterpart of 'hybla'" in said.stderr


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


@needs_kernel
@pytest.mark.parametrize("helper", ["split", "wtcp"])
def test_helpers_that_write_packets_are_refused(helper: str) -> None:
    scenario = path("5 Mbit/s", middleboxes=[{"kind": helper}])
    with pytest.raises(lh.ScenarioError, match=f"{helper} cannot help real packets"):
        live.emulate(scenario, kernel="reno")


@needs_kernel
def test_hosts_of_a_dumbbell_have_paths_of_their_own() -> None:
    """Two downloads share the bottleneck; results name both."""
    content = {**lh.EXAMPLE, "duration": "6 s", "warmup": "2 s"}
    content["channel"] = {"error": {"kind": "none"}}
    run = emulated(lh.Scenario(content), kernel="cubic")
    assert [flow["name"] for flow in run.record["flows"]] == ["left", "right"]
    assert all(flow["goodput_bit_s"] > 0.3e6 for flow in run.record["flows"])
    assert 4.5e6 < run.totals["throughput_bit_s"] < 5.1e6


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
        assert flow["packets_sent"] == pytest.approx(2400, abs=4)
    assert real["delay_p50_s"] == pytest.approx(ours["delay_p50_s"], rel=0.1)


@needs_kernel
@pytest.mark.parametrize("policy", ["drop", "hold"])
def test_a_handoff_takes_real_packets(policy: str) -> None:
    """Half a second without a link: 200 datagrams are lost with what was under way, or wait."""
    handoff = {"at": ["4 s"], "outage": "500 ms", "policy": policy}
    ours, real = both(handoff=handoff)
    lost = [flow["packets_lost"].get("outage", 0) for flow in (ours, real)]
    assert lost[0] == pytest.approx(208 if policy == "drop" else 0, abs=3)
    assert lost[1] == pytest.approx(lost[0], abs=6)
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
