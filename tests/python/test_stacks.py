"""Flows that a real stack carries: refused in a build without it, and run in one that has it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lasthop as lh
from lasthop import _native
from lasthop.comparison import transport_overrides
from lasthop.places import qlog_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from typer.testing import Result

    from lasthop.senders import Ack, Loss

ROOT = Path(__file__).parents[2]
QUIC = "flows.0.transport=quinn:bbr"
TABLE = '{ stack = "quinn", congestion = "newreno" }'

with_stacks = pytest.mark.skipif(not _native.HAS_STACKS, reason="make build FEATURES=stacks has them")


@pytest.mark.skipif(_native.HAS_STACKS, reason="a build with stacks")
@pytest.mark.parametrize("words", [["run"], ["compare", "--transport", "reno,vegas", "--seeds", "1-2"]])
def test_a_build_without_stacks_says_which_has_them(
    refused: Callable[..., str], scenario_file: Path, words: list[str]
) -> None:
    assert refused(words[0], scenario_file, *words[1:], "--set", QUIC) == (
        'error: flow "left" has the transport quinn:bbr, a real stack, which this build does not '
        "have: build lasthop from its source with 'make build FEATURES=stacks', or name a sender of the "
        "simulator\n"
    )


def test_compare_leaves_stacks_alone_beside_others() -> None:
    quic = {"transport": {"stack": "quinn"}}
    assert transport_overrides({"flows": [quic, {"transport": "reno"}]}, "vegas") == {
        "flows.1.transport": "vegas"
    }
    assert transport_overrides({"flows": [quic, {"transport": "udp"}]}, "vegas") == {
        "flows.0.transport": "vegas"
    }
    assert transport_overrides({"flows": [{"transport": "quinn:bbr"}, {"transport": "reno"}]}, "vegas") == {
        "flows.1.transport": "vegas"
    }


@with_stacks
def test_the_same_seed_gives_the_same_run(scenario_file: Path) -> None:
    scenario = lh.Scenario.load(scenario_file, overrides={"flows.0.transport": TABLE})
    runs = [lh.run(scenario, seed=seed, series=True) for seed in (3, 3, 4)]
    assert runs[0].fingerprint == runs[1].fingerprint != runs[2].fingerprint
    flow = runs[0].flows.row(0, named=True)
    assert flow["transport"] == "quinn:newreno"
    assert flow["goodput_bit_s"] > 1e5
    assert flow["rtt_mean_s"] > 0.05


@with_stacks
def test_compare_runs_a_stack(command: Callable[..., Result], scenario_file: Path) -> None:
    done = command("compare", scenario_file, "--transport", "quinn:cubic,cubic", "--seeds", "1-3", "--json")
    assert done.exit_code == 0, done.output
    assert "quinn:cubic" in done.stdout


@with_stacks
def test_the_log_of_a_stack_comes_out_as_that_of_tcp(
    command: Callable[..., Result], scenario_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = ("run", scenario_file, "--set", QUIC, "--out", out)
    assert command(*words, "--qlog").exit_code == 0
    files = [qlog_file(flow) for flow in ("left", "right")]
    assert sorted(path.name for path in out.glob("*.sqlog")) == files
    records = [json.loads(part) for part in (out / files[0]).read_text().split("\x1e")[1:]]
    assert records[0]["title"] == "left (quinn:bbr), seed 1"
    saved = lh.load_runs(out)[0]
    sent = [one for one in records if one.get("name") == "transport:packet_sent"]
    assert sum(one["data"]["raw"]["length"] for one in sent) > 1000 * saved.flows["packets_sent"][0]
    saved.write_qlog(tmp_path / "saved.sqlog", "left")
    run = lh.run(saved.scenario, seed=saved.seed, trace=True)
    run.write_qlog(tmp_path / "memory.sqlog", "left")
    for again in ("saved", "memory"):
        assert (tmp_path / f"{again}.sqlog").read_bytes() == (out / files[0]).read_bytes()
    # Of a trace without --qlog there is the log of TCP, and none of a stack.
    assert command(*words, "--trace", "--force").exit_code == 0
    traced = lh.load_runs(out)[0]
    traced.write_qlog(tmp_path / "right.sqlog", "right")
    with pytest.raises(lh.ArgumentError, match="no flow 'left' sends TCP or kept the log of its stack"):
        traced.write_qlog(tmp_path / "none.sqlog", "left")
    assert not (tmp_path / "none.sqlog").exists()


class Gentle(lh.Sender):
    """Grows by one packet per round trip and gives up a quarter."""

    def on_ack(self, ack: Ack) -> None:
        """Grow."""
        if ack.may_grow:
            self.cwnd += ack.acked if self.cwnd < self.ssthresh else ack.acked / self.cwnd

    def on_loss(self, loss: Loss) -> None:  # noqa: ARG002 - the window is its own
        """Reduce."""
        self.ssthresh = self.cwnd = max(2.0, 0.75 * self.cwnd)


def test_a_law_that_quinn_cannot_drive_is_refused(refused: Callable[..., str], scenario_file: Path) -> None:
    said = refused("run", scenario_file, "--set", "flows.0.transport=quinn:lasthop:jtcp")
    assert "jtcp cannot run in quinn: QUIC does not carry times of arrival" in said
    assert "these run in it: reno, " in said


@with_stacks
def test_a_class_in_python_runs_in_quinn(scenario_file: Path) -> None:
    goodput = {}
    for name in ("quinn:newreno", "quinn:lasthop:reno", "quinn:lasthop:gentle"):
        scenario = lh.Scenario.load(
            scenario_file, overrides={"flows.0.transport": name}, transports={"gentle": Gentle}
        )
        flow = lh.run(scenario, seed=1).flows.row(0, named=True)
        assert flow["transport"] == name
        goodput[name] = flow["goodput_bit_s"]
    assert min(goodput.values()) > 0.5 * max(goodput.values())


@with_stacks
def test_a_fault_of_a_class_in_quinn_is_its_own(scenario_file: Path) -> None:
    class Faulty(Gentle):
        def on_loss(self, loss: Loss) -> None:
            raise ValueError(loss.flight)

    scenario = lh.Scenario.load(
        scenario_file,
        overrides={"flows.0.transport": "quinn:lasthop:faulty"},
        transports={"faulty": Faulty},
    )
    with pytest.raises(lh.RunError, match="on_loss"):
        lh.run(scenario, seed=1)


def test_what_no_stack_can_carry_in_real_time_is_refused(
    refused: Callable[..., str], scenario_file: Path
) -> None:
    words = ("parity", scenario_file, "--stack", "quinn:cubic")
    assert "leave out --steer and --virtual" in refused(*words, "--virtual")
    if not _native.HAS_STACKS:
        assert refused(*words) == (
            "error: this build has no stacks: build lasthop with 'make build FEATURES=stacks'\n"
        )
        return
    assert "no stack 'tcp'" in refused("parity", scenario_file, "--stack", "tcp")
    said = refused("parity", scenario_file, "--stack", "smoltcp:reno")
    assert said.startswith("error: smoltcp:reno runs in simulated time alone: choose one of quinn:cubic, ")
    assert said.rstrip().endswith("noq:lasthop:ledbat++")
    traffic = 'flows.0.traffic={ kind = "cbr", rate = "1 Mbit/s", packet = "512 B" }'
    said = refused(*words, "--set", "flows.0.transport=udp", "--set", traffic)
    assert "flow 'left' is UDP" in said
    said = refused(*words, "--set", "flows.0.transport=quinn", "--set", "flows.0.traffic=web")
    assert "flows.0 carries web, and over sockets a stack carries files alone" in said
    assert "write --set flows.0.traffic=ftp" in said


@with_stacks
@pytest.mark.parametrize(
    ("transport", "peer", "told"),
    [("smoltcp", None, "its stack does not run over UDP"), ("quinn", "no.such.host.invalid", "")],
)
def test_an_end_that_fails_says_so_in_a_line(
    tmp_path: Path, transport: str, peer: str | None, told: str
) -> None:
    job = {
        "scenario": lh.EXAMPLE | {"flows": [{"transport": transport}]},
        "folder": ".",
        "trust": False,
        "seed": 1,
        "flow": 0,
        "port": 4433,
        "peer": peer,
        "lasts_s": 1.0,
        "said": str(tmp_path / "said"),
        "linger_s": 0.0,
    }
    file = tmp_path / "job"
    file.write_text(json.dumps(job), encoding="utf-8")
    words = [sys.executable, "-P", "-m", "lasthop.real_stack", str(file)]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


def test_differences_in_words_are_those_of_the_tables() -> None:
    page = (ROOT / "docs" / "reference" / "stacks.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    cells = {float(number) for row in rows for number in re.findall(r"\| ([+-][\d.]+) ±", row)}
    words = page.partition("## What differs, and why")[2].partition("## Our controllers in quinn")[0]
    told = re.findall(r"[+-]\d+(?:\.\d+)?(?= (?:and [+-][\d.]+ )?%)", " ".join(words.split()))
    assert len(told) >= 15
    for number in told:
        half = 0.5001 * 10.0 ** -len(number.partition(".")[2])
        assert any(abs(cell - float(number)) <= half for cell in cells), f"no table has {number} %"


@with_stacks
@pytest.mark.parametrize(
    ("row", "transports", "lasts_s", "seeds"),
    [
        ("10 Mbit/s, 20 ms, 50 packets", ("smoltcp:cubic", "smoltcp:reno", "smoltcp:none"), 60, 1),
        ("`lasthop:westwood+`", ("quinn:lasthop:westwood+",), 300, 2),
    ],
)
def test_figures_of_the_page_can_be_had_again(
    row: str, transports: tuple[str, ...], lasts_s: int, seeds: int
) -> None:
    link: dict[str, Any] = {"from": "server", "to": "phone", "rate": "10 Mbit/s", "delay": "20 ms"}
    link["queue"] = {"kind": "drop-tail", "limit": "50 packets"}
    if row.startswith("`"):
        link["error"] = {"kind": "bernoulli", "packet_error_rate": 0.01}
        link["reverse"] = {"error": "none"}
    made = []
    for transport in transports:
        scenario = lh.Scenario(
            {
                "duration": f"{lasts_s} s",
                "topology": {"kind": "graph", "nodes": ["server", "phone"], "links": [link]},
                "flows": [{"source": "server", "sink": "phone", "transport": transport, "start": "0 s"}],
            }
        )
        runs = [lh.run(scenario, seed=seed) for seed in range(1, seeds + 1)]
        made.append(sum(run.totals["goodput_bit_s"] for run in runs) / seeds / 1e6)
    page = (ROOT / "docs" / "reference" / "stacks.md").read_text(encoding="utf-8")
    assert f"| {row} | {' | '.join(f'{value:.3f}' for value in made)} |" in page
