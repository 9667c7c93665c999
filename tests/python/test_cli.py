"""Every command end to end, on the real engine."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import polars as pl
import pytest

import lasthop as lh

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from typer.testing import Result

RUN_KEYS = {"seed", "fingerprint", "wall_s", "packet_hops", "totals", "flows", "links"}
TOTAL_KEYS = {"goodput_bit_s", "throughput_bit_s", "jain_index", "retransmitted_packets", "timeouts"}
FLOW_KEYS = {
    "name",
    "transport",
    "goodput_bit_s",
    "retransmitted_packets",
    "timeouts",
    "rtt_mean_s",
    "delay_p95_s",
}
LINK_KEYS = {"name", "avg_queue_packets", "max_queue_packets", "utilisation", "drops"}


def test_run_prints_flows_and_links(command: Callable[..., Result], scenario_file: Path) -> None:
    result = command("run", scenario_file, "--seed", "7")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    for expected in (
        "small  10 s simulated, seed 7",
        "left",
        "vegas",
        "bottleneck",
        "sink-access-2 (reverse)",
    ):
        assert expected in result.stdout


def test_several_seeds_print_intervals(command: Callable[..., Result], scenario_file: Path) -> None:
    result = command("run", scenario_file, "--seeds", "1-3")
    assert result.exit_code == 0
    assert "3 seeds: mean ± 95 % interval" in result.stdout
    assert " ± " in result.stdout


def test_many_flows_are_grouped(command: Callable[..., Result], scenario_file: Path) -> None:
    result = command("run", scenario_file, "--set", "flows.0.count=20")
    assert result.exit_code == 0
    assert "left (20 flows, reno)" in result.stdout
    assert "right (vegas)" in result.stdout
    assert "21 x sink-access-* (reverse)" in result.stdout


@pytest.mark.parametrize("form", [["--json", "-"], ["--json"]])
def test_json_is_alone_on_stdout_with_the_promised_names(
    command: Callable[..., Result], scenario_file: Path, form: list[str]
) -> None:
    result = command("run", scenario_file, "--seeds", "1,2", *form)
    assert result.exit_code == 0
    content = json.loads(result.stdout)
    assert list(content) == ["scenario", "engine_version", "runs"]
    assert content["engine_version"] == lh.__version__
    assert [run["seed"] for run in content["runs"]] == [1, 2]
    for run in content["runs"]:
        assert run.keys() >= RUN_KEYS
        assert run["totals"].keys() >= TOTAL_KEYS
        assert all(flow.keys() >= FLOW_KEYS for flow in run["flows"])
        assert all(link.keys() >= LINK_KEYS for link in run["links"])


def test_json_to_a_file_leaves_the_table_on_stdout(
    command: Callable[..., Result], scenario_file: Path, tmp_path: Path
) -> None:
    target = tmp_path / "result.json"
    result = command("run", scenario_file, "--json", target)
    assert result.exit_code == 0
    assert "bottleneck" in result.stdout
    assert json.loads(target.read_text())["runs"][0]["seed"] == 1


def test_settings_are_in_the_recorded_scenario(command: Callable[..., Result], scenario_file: Path) -> None:
    result = command(
        "run", scenario_file, "--set", "flows.0.transport=cubic", "--set", "duration=5 s", "--json"
    )
    content = json.loads(result.stdout)
    assert content["scenario"]["flows"][0]["transport"] == "cubic"
    assert content["runs"][0]["duration_s"] == 5.0
    assert content["runs"][0]["flows"][0]["transport"] == "cubic"


@pytest.mark.parametrize(
    ("table_format", "read"), [("parquet", pl.read_parquet), ("csv", pl.read_csv), ("arrow", pl.read_ipc)]
)
def test_out_writes_every_table(
    command: Callable[..., Result],
    scenario_file: Path,
    tmp_path: Path,
    table_format: str,
    read: Callable[[Path], pl.DataFrame],
) -> None:
    out = tmp_path / "deep" / "out"
    arguments = ("--out", out, "--series", "--trace", "--format", table_format, "--set", "duration=2 s")
    result = command("run", scenario_file, "--seeds", "3,4", *arguments)
    assert result.exit_code == 0, result.stderr
    assert result.stderr == f"results in {out}\n"
    tables = ("flow_series", "flows", "hops", "link_series", "links", "windows")
    assert sorted(path.name for path in out.iterdir()) == sorted(
        [f"{name}.{table_format}" for name in tables]
        + ["capture-3.pcapng", "capture-4.pcapng", "result.json"]
    )
    for name in tables:
        table = read(out / f"{name}.{table_format}")
        assert table.columns[0] == "seed"
        assert set(table["seed"].to_list()) == {3, 4}
    saved = lh.load_runs(out)
    again = lh.run(lh.Scenario.load(scenario_file).replace({"duration": "2 s"}), seed=4, series=True)
    assert saved[1].fingerprint == again.fingerprint
    assert saved[1].series.height == again.series.height


def test_with_force_a_second_run_replaces_the_first(
    command: Callable[..., Result], scenario_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    (tmp_path / "out").mkdir()
    (out / "notes.txt").write_text("mine")
    command("run", scenario_file, "--out", out, "--trace", "--set", "duration=1 s")
    command("run", scenario_file, "--out", out, "--format", "csv", "--set", "duration=1 s", "--force")
    names = sorted(path.name for path in out.iterdir())
    assert names == ["flows.csv", "links.csv", "notes.txt", "result.json"]


def test_show_prints_what_run_printed(
    command: Callable[..., Result], scenario_file: Path, tmp_path: Path
) -> None:
    ran = command("run", scenario_file, "--seeds", "1-3", "--out", tmp_path / "out")
    shown = command("show", tmp_path / "out")
    assert shown.exit_code == 0
    assert shown.stdout == ran.stdout


def test_compare_says_who_is_better(
    command: Callable[..., Result], scenario_file: Path, tmp_path: Path
) -> None:
    out, picture = tmp_path / "out", tmp_path / "bars.svg"
    arguments = ("--transport", "reno,cubic,vegas", "--seeds", "1-4", "--out", out, "--plot", picture)
    result = command("compare", scenario_file, *arguments)
    assert result.exit_code == 0, result.stderr
    assert "small  4 seeds, the same channel for each transport" in result.stdout
    assert "difference from reno" in result.stdout
    assert " than reno (" in result.stdout
    assert picture.stat().st_size > 1000
    assert command("show", out).stdout == result.stdout
    assert command("plot", out).exit_code == 0
    assert (out / "plot.png").exists()


def test_compare_prints_json(command: Callable[..., Result], scenario_file: Path) -> None:
    arguments = ("--transport", "reno,vegas", "--seeds", "1-2", "--baseline", "vegas", "--json")
    content = json.loads(command("compare", scenario_file, *arguments).stdout)
    assert content["baseline"] == "vegas"
    assert {flow["transport"] for run in content["runs"][:2] for flow in run["flows"]} == {"reno"}
    assert {row["transport"] for row in content["differences"]} == {"reno"}


@pytest.mark.parametrize("ending", ["png", "svg", "pdf", "html"])
def test_plot_of_a_saved_run(
    command: Callable[..., Result], scenario_file: Path, tmp_path: Path, ending: str
) -> None:
    command("run", scenario_file, "--out", tmp_path / "out", "--series")
    picture = tmp_path / f"picture.{ending}"
    result = command("plot", tmp_path / "out", "--out", picture)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == f"written: {picture}\n"
    start = {"png": b"\x89png", "svg": b"<?xml", "pdf": b"%pdf", "html": b"<!doctype html>"}[ending]
    assert picture.read_bytes()[:20].lower().startswith(start)


def test_plot_of_a_scenario_runs_it(
    command: Callable[..., Result], scenario_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = command("plot", scenario_file.name)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "written: small.png\nwritten: small.html\n"
    # The page needs no network: the library is in it.
    assert 'src="http' not in (tmp_path / "small.html").read_text()


@pytest.mark.parametrize("kind", ["dumbbell", "graph", "wlan", "wired-cum-wireless"])
def test_new_writes_a_scenario_that_runs(
    command: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = command("new", "lab", "--topology", kind)
    assert result.stdout == "written: lab.toml\nnext:    lasthop run lab.toml\n"
    # The next command is one that works, also where the name looks like an option.
    assert command("new", "--", "-x").stdout == "written: -x.toml\nnext:    lasthop run ./-x.toml\n"
    assert tomllib.loads((tmp_path / "lab.toml").read_text())["name"] == "lab"
    ran = command("run", "lab.toml")
    assert ran.exit_code == 0, ran.stderr
    assert "download" in ran.stdout


def test_transports_lists_parameters(command: Callable[..., Result]) -> None:
    listed = command("transports")
    assert listed.exit_code == 0
    for name in ("tahoe", "reno", "newreno", "sack", "vegas", "cubic"):
        assert name in listed.stdout
    one = command("transports", "vegas")
    assert "alpha" in one.stdout
    assert {entry["name"] for entry in json.loads(command("transports", "vegas", "--json").stdout)} == {
        "vegas"
    }


def test_transports_shows_everything_that_is_registered(command: Callable[..., Result]) -> None:
    registered = json.loads(command("transports", "--json").stdout)
    shown = command("transports").stdout
    assert [one["name"] for one in registered if one["name"] not in shown] == []
    kinds = {one["kind"] for one in registered}
    assert {"preset", "controller", "recovery"} <= kinds
    for one in registered:
        page = command("transports", one["name"])
        assert page.exit_code == 0
        for parameter in one["parameters"]:
            assert parameter["name"] in page.stdout
            # Names that a choice takes, its default among them, are never shown as numbers.
            assert all(choice in page.stdout for choice in parameter["choices"])


def test_schema_is_json(command: Callable[..., Result]) -> None:
    content = json.loads(command("schema").stdout)
    assert {"duration", "topology", "flows"} <= content["properties"].keys()


def test_doctor_checks_the_engine(command: Callable[..., Result]) -> None:
    result = command("doctor")
    assert result.exit_code == 0, result.stderr
    assert "self-check:" in result.stdout
    assert " fingerprint " in result.stdout
    assert result.stdout.endswith("all is well\n")


def test_version(command: Callable[..., Result]) -> None:
    assert command("--version").stdout == f"lasthop {lh.__version__}\n"
    alone = subprocess.run(
        [sys.executable, "-m", "lasthop", "--version"], capture_output=True, text=True, check=True
    )
    assert alone.stdout == f"lasthop {lh.__version__}\n"


def test_a_command_imports_what_it_needs(scenario_file: Path) -> None:
    def imported(*words: str) -> set[str]:
        script = (
            "import sys\nfrom lasthop.__main__ import main\n"
            "try: main()\nexcept SystemExit: pass\nprint(*sys.modules, file=sys.stderr)"
        )
        started = [sys.executable, "-c", script, *words]
        return set(subprocess.run(started, capture_output=True, text=True, check=True).stderr.split())

    assert "typer" not in imported("--version")
    # A file alone needs nothing that reads options.
    assert not {"typer", "pydantic"} & imported("run", str(scenario_file))
    assert "typer" in imported("run", str(scenario_file), "--seed", "1")
    helpers = imported("helpers", "--help")
    assert "lasthop.commands.catalogue" in helpers
    assert "lasthop.commands.real" not in helpers


def test_ready_scenarios_and_studies_are_listed_and_written(
    command: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    listed = command("new", "--list").stdout
    assert "ready scenarios, written by 'lasthop new NAME':\n" in listed
    assert "  single-flow         One TCP flow alone on a clean path of 10 Mbit/s" in listed
    assert "  per-sweep           How do three senders cope with packet errors on the last hop?\n" in listed
    written = command("new", "per-sweep").stdout
    assert written == (
        "written: lossy-last-hop.toml\nwritten: per-sweep.toml\nnext:    lasthop study run per-sweep.toml\n"
    )
    planned = command("study", "run", "per-sweep.toml", "--dry-run")
    assert planned.exit_code == 0, planned.stderr
    again = command("new", "lossy-last-hop")
    assert (again.exit_code, again.stderr) == (
        2,
        "error: 'lossy-last-hop.toml' is already there and is not overwritten: choose another name\n",
    )
    assert command("new", "video").stdout == "written: video.toml\nnext:    lasthop run video.toml\n"


def test_the_demo_ends_in_a_picture(command: Callable[..., Result], tmp_path: Path) -> None:
    out = tmp_path / "demo"
    shown = command("demo", "--out", out, "--seeds", "1-2")
    assert shown.exit_code == 0, shown.stderr
    assert "cwnd of sack in segments over 30 s" in shown.stdout
    assert any(0x2800 < ord(letter) <= 0x28FF for letter in shown.stdout)
    assert "\x1b" not in shown.stdout
    names = ["compare.png", "comparison.json", "differences.parquet", "means.parquet", "window.png"]
    assert sorted(path.name for path in out.iterdir()) == names
    assert command("demo", "--out", out, "--seeds", "1-2").exit_code == 2


def test_a_transport_is_shown_once(command: Callable[..., Result]) -> None:
    shown = command("transports", "vegas").stdout
    assert len([line for line in shown.splitlines() if line.strip().startswith("alpha ")]) == 1
    assert "loss recovery vegas" in shown
    assert "Scoreboard" not in command("transports", "bbr").stdout.splitlines()[0]


def test_a_throttling_arq_is_said(command: Callable[..., Result], tmp_path: Path) -> None:
    path = tmp_path / "radio.toml"
    path.write_text(
        'duration = "1 s"\n[topology]\nkind = "graph"\nnodes = ["a", "b"]\n'
        '[[topology.links]]\nname = "radio"\nfrom = "a"\nto = "b"\n'
        'rate = "20 Mbit/s"\ndelay = "10 ms"\narq = {}\n'
        '[[flows]]\nsource = "a"\nsink = "b"\ntransport = "reno"\n'
    )
    said = command("run", path).stderr
    assert said.startswith(
        'note: link "radio": its ARQ window of 16 frames is less than the 35 frames of 1500 B'
    )
    assert command("run", path, "--set", "topology.links.0.arq.window=64").stderr == ""


IN_STEP = """\
name     = "in step"
duration = "10 s"

[topology]
kind       = "dumbbell"
bottleneck = { rate = "10 Mbit/s", delay = "25 ms", queue = { kind = "drop-tail", limit = "30 packets" } }
access     = { rate = "1 Mbit/s", delay = "10 ms" }

[[flows]]
count     = 20
transport = { preset = "reno", profile = "ns2" }
"""


def test_drops_that_a_tie_decides_are_said(command: Callable[..., Result], tmp_path: Path) -> None:
    path = tmp_path / "step.toml"
    path.write_text(IN_STEP)
    result = json.loads(command("run", path, "--json", "-").stdout)
    links = result["runs"][0]["links"]
    tied = sum(link["tied_drops"] for link in links)
    full = sum(link["drops"]["queue-overflow"] for link in links)
    assert 20 <= tied <= full
    said = " ".join(command("run", path).stdout.split())
    assert (
        f"{tied:,} of {full:,} drops at full queues ({tied / full:.0%}) were decided by a tie: packets met "
        "there in the same instant. A processing_time of about one transmission time at the bottleneck keeps "
        "flows from falling into step."
    ) in said
    assert "decided by a tie" not in command("run", path, "--set", "processing_time=1 ms").stdout


def test_arrivals_that_meet_departures_are_said(command: Callable[..., Result], tmp_path: Path) -> None:
    """RED finds a packet less in each tie; nothing was said of it, whatever the share."""
    path = tmp_path / "step.toml"
    text = IN_STEP.replace('"drop-tail", limit = "30 packets"', '"red"').replace('"1 Mbit/s"', '"10 Mbit/s"')
    path.write_text(text.replace("= 20", "= 10").replace('"10 s"', '"30 s"'))
    (run,) = json.loads(command("run", path, "--json", "-").stdout)["runs"]
    bottleneck = run["links"][0]
    drops = bottleneck["drops"]
    arrived = bottleneck["packets_sent"] + drops["early-drop"] + drops["queue-overflow"]
    tied, found = bottleneck["tied_arrivals"], bottleneck["avg_queue_found_packets"]
    assert tied / arrived > 0.05 * found
    said = " ".join(command("run", path).stdout.split())
    assert (
        f"{tied:,} of {arrived:,} packets ({tied / arrived:.0%}) came to the queue of bottleneck in the same "
        "instant in which another left it. Departures go first: its law finds a packet less each time, on a "
        f"mean of {found:.1f}. A processing_time of about one transmission time ends such ties."
    ) in said
    assert "same instant" not in command("run", path, "--set", "processing_time=1 ms").stdout


def test_people_read_no_powers_of_ten(command: Callable[..., Result], scenario_file: Path) -> None:
    """It was "1e-06 s simulated"."""
    arguments = ("--set", "duration=1 us", "--set", "warmup=0 s", "--set", "flows.0.start=0 s")
    shown = command("run", scenario_file, *arguments)
    assert shown.exit_code == 0, shown.stderr
    assert "1 µs simulated" in shown.stdout
    assert "e-0" not in shown.stdout.splitlines()[0]
