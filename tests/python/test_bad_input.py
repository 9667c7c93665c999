"""A user's mistake prints one exact message on stderr, nothing on stdout, and exits with 2."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from lasthop import Scenario, ScenarioError, seals

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from typer.testing import Result

#: CPU seconds for a list of 80 MB.
LONG_S = 10.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--seeds", "1-"],
            "bad --seeds '1-': '1-' is neither a number nor a range; write for example 1-10 or 1,3,5-7",
        ),
        (["--seeds", "5-3"], "bad --seeds '5-3': the range 5-3 runs backwards, write 3-5"),
        (
            ["--seeds", "a"],
            "bad --seeds 'a': 'a' is neither a number nor a range; write for example 1-10 or 1,3,5-7",
        ),
        (["--seeds", "1,2,1"], "seed 1 is given twice: the same seed gives the same run"),
        (["--seeds", "0-100000"], "bad --seeds '0-100000': at most 100,000 seeds in one run"),
        (["--seed", "-1"], "bad seed -1: a seed is a whole number from 0 to 2^64-1"),
        (["--seed", "1", "--seeds", "1-3"], "--seed and --seeds exclude each other: give one"),
        (
            ["--set", "duration"],
            "bad --set 'duration': write KEY=VALUE, for example --set flows.0.transport=vegas",
        ),
        (["--trace"], "--trace writes tables: say where with --out DIR"),
        (["--series"], "--series writes tables: say where with --out DIR"),
        (["--format", "xlsx"], "unknown table format 'xlsx': use one of parquet, csv, arrow"),
    ],
)
def test_arguments_of_run(
    refused: Callable[..., str], scenario_file: Path, arguments: list[str], message: str
) -> None:
    assert refused("run", scenario_file, *arguments) == f"error: {message}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--transport", "reno"],
            "give at least two transports to compare, such as reno,vegas, or helpers, such as none,snoop",
        ),
        (
            ["--transport", "reno,,vegas"],
            "bad --transport 'reno,,vegas': write names with commas between, for example reno,vegas",
        ),
        (["--transport", "reno,reno"], "transport 'reno' is given twice"),
        (
            ["--transport", "reno,vegas", "--baseline", "sack"],
            "baseline 'sack' is not among the transports reno, vegas",
        ),
        (
            ["--transport", "reno,vegas", "--seeds", "2-1"],
            "bad --seeds '2-1': the range 2-1 runs backwards, write 1-2",
        ),
        (
            ["--transport", "reno,vegas", "--plot", "bars.jpg"],
            "cannot draw 'bars.jpg': its name must end in .png, .svg, .pdf or .html",
        ),
    ],
)
def test_arguments_of_compare(
    refused: Callable[..., str], scenario_file: Path, arguments: list[str], message: str
) -> None:
    assert refused("compare", scenario_file, *arguments) == f"error: {message}\n"


#: The first of them; the message says how many more there are.
KNOWN = (
    "tahoe, reno, newreno, sack, vegas, cubic, westwood, westwood+, tibet, veno, venoplus, gaimd, wsc, jtcp, "
    "xjtcp, tcp-real, probing, e-newreno, e-vegas, dctcp, prague, bbr, bbr3, ledbat++ and 21 more"
)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "flows.0.transport=vegsa",
            (
                f'unknown transport "vegsa"\n  at --set flows.0.transport=vegsa\n'
                f'     did you mean "vegas"? known: {KNOWN}'
            ),
        ),
        (
            "flows.9.transport=reno",
            (
                'flows has no element "9"\n  at --set flows.9.transport=reno\n'
                "     its elements are flows.0 to flows.1, or by name: left, right"
            ),
        ),
        (
            "duration=60",
            'duration: 60 has no unit\n  at --set duration=60\n     did you mean "60 s" or "60 ms"?',
        ),
        (
            "duration=-1 s",
            (
                'duration is negative: "-1 s"\n  at --set duration=-1 s\n'
                "     it must lie between 1 ns and 1000000 s"
            ),
        ),
    ],
)
def test_settings_that_make_no_scenario(
    refused: Callable[..., str], scenario_file: Path, setting: str, message: str
) -> None:
    assert refused("run", scenario_file, "--set", setting) == f"scenario error: {message}\n"


def test_unknown_transport_of_compare(refused: Callable[..., str], scenario_file: Path) -> None:
    assert refused("compare", scenario_file, "--transport", "reno,vegsa") == (
        'scenario error: unknown transport "vegsa"\n  at --transport vegsa\n'
        f'     did you mean "vegas"? known: {KNOWN}\n'
    )


def test_a_scenario_of_udp_only_cannot_be_compared(refused: Callable[..., str], scenario_file: Path) -> None:
    traffic = '{ kind = "cbr", rate = "1 Mbit/s", packet = "512 B" }'
    settings = [f"flows.{index}.{key}" for index in (0, 1) for key in ("transport=udp", f"traffic={traffic}")]
    udp = [word for setting in settings for word in ("--set", setting)]
    assert refused("compare", scenario_file, "--transport", "reno,vegas", *udp) == (
        "error: scenario 'small' has UDP flows only: there is no transport to compare\n"
    )


def test_files_that_are_no_scenario(refused: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    assert refused("run", path) == (
        f"scenario error: there is no such file\n  at {path}\n"
        "     check the path; `lasthop new` writes a scenario to start from\n"
    )
    assert refused("run", tmp_path) == (
        f"scenario error: this is a directory, not a scenario file\n  at {tmp_path}\n"
        "     name a file in it, such as one ending in .toml\n"
    )
    path.write_bytes(b"")
    assert refused("run", path) == (
        f"scenario error: the scenario is empty\n  at {path}\n"
        "     `lasthop new` writes a scenario to start from\n"
    )
    path.write_bytes(b"\x7fELF\x02\x01\x01\x00")
    assert refused("run", path) == (
        f"scenario error: this is not a text file: byte 7 is zero\n  at {path}\n"
        "     a scenario is TOML text in UTF-8\n"
    )
    with path.open("wb") as file:
        file.truncate(100_000_000)
    assert refused("run", path) == (
        f"scenario error: the file is too large: 100000000 bytes, more than 1048576\n  at {path}\n"
        "     a scenario is a short text; use count for many equal flows\n"
    )


def test_results_in_a_file(refused: Callable[..., str], scenario_file: Path, tmp_path: Path) -> None:
    target = tmp_path / "occupied"
    target.write_text("")
    expected = f"error: cannot write results in '{target}': it is a file, not a folder\n"
    assert refused("run", scenario_file, "--out", target) == expected
    below = target / "below"
    assert refused("run", scenario_file, "--out", below) == (
        f"error: cannot write results in '{below}': not a directory; choose a folder that you may write to\n"
    )


def test_json_where_it_cannot_go(refused: Callable[..., str], scenario_file: Path, tmp_path: Path) -> None:
    missing = tmp_path / "missing" / "result.json"
    assert refused("run", scenario_file, "--json", missing) == (
        f"error: cannot write '{missing}': the folder '{missing.parent}' does not exist\n"
    )
    assert refused("run", scenario_file, "--json", tmp_path) == (
        f"error: cannot write '{tmp_path}': it is a folder, not a file\n"
    )
    before = scenario_file.read_text()
    assert refused("run", scenario_file, "--json", scenario_file) == (
        f"error: --json would overwrite the scenario '{scenario_file}': choose another file\n"
    )
    assert scenario_file.read_text() == before


def test_a_folder_that_may_not_be_written(refused: Callable[..., str], scenario_file: Path) -> None:
    # Not even the superuser can make folders there.
    assert refused("run", scenario_file, "--out", "/proc/results") == (
        "error: cannot write results in '/proc/results': no such file or directory; "
        "choose a folder that you may write to\n"
    )


def test_a_disk_that_fills_up_while_writing(
    start: Callable[..., subprocess.Popen[str]],
    files_up_to: Callable[[int], Callable[[], None]],
    scenario_file: Path,
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    process = start("run", scenario_file, "--out", out, "--format", "csv", preexec_fn=files_up_to(400))
    printed, message = process.communicate(timeout=60)
    assert process.returncode == 2
    assert message == f"error: cannot write '{out / 'flows.csv'}': file too large\n"
    assert "small  10 s simulated, seed 1" in printed
    assert list(out.iterdir()) == []


def test_a_disk_that_fills_up_while_a_trace_is_written(
    start: Callable[..., subprocess.Popen[str]],
    files_up_to: Callable[[int], Callable[[], None]],
    scenario_file: Path,
    tmp_path: Path,
) -> None:
    """The reason stands alone, without what the libraries of tables say before it."""
    out = tmp_path / "out"
    process = start("run", scenario_file, "--out", out, "--trace", preexec_fn=files_up_to(400))
    _, message = process.communicate(timeout=60)
    assert process.returncode == 1
    assert message == "error: seed 1: what the run records cannot be written: file too large\n"
    assert list(out.iterdir()) == []


def test_what_is_no_folder_is_not_called_one(
    refused: Callable[..., str], scenario_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    assert refused("run", scenario_file, "--json", tmp_path / "file" / "a.json") == (
        f"error: cannot write '{tmp_path / 'file' / 'a.json'}': '{tmp_path / 'file'}' is not a folder\n"
    )


def test_nothing_is_run_before_the_output_is_checked(
    refused: Callable[..., str], scenario_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_jobs(*_arguments: object, **_options: object) -> None:
        pytest.fail("the scenario was run")

    monkeypatch.setattr("lasthop.api.run_jobs", run_jobs)
    refused("run", scenario_file, "--out", "/proc/results")


def test_no_run_there(refused: Callable[..., str], tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    for verb in ("show", "plot"):
        assert refused(verb, missing) == f"error: no run at '{missing}': there is no such folder\n"
        assert refused(verb, tmp_path) == (
            f"error: no run at '{tmp_path}': it has no result.json; "
            "'lasthop run FILE --out DIR' makes such a folder\n"
        )


def test_a_damaged_run(refused: Callable[..., str], tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    again = f"'lasthop run FILE --out {tmp_path} --force' makes it anew, with the options that it had"
    result.write_text('{"runs": [')
    assert refused("show", tmp_path) == (
        f"error: '{result}' is damaged (Expecting value: line 1 column 11 (char 10)): {again}\n"
    )
    result.write_text("[]")
    assert refused("show", tmp_path) == (f"error: '{result}' is damaged (it holds no JSON object): {again}\n")
    result.write_text(seals.sealed({}))
    assert refused("show", tmp_path) == (f"error: '{result}' is damaged (it has no 'runs'): {again}\n")
    result.write_bytes(b"\xff\xfe\x00")
    assert refused("show", tmp_path).startswith(f"error: '{result}' is damaged ('utf-8' codec can't decode")


def test_a_damaged_table(
    refused: Callable[..., str], command: Callable[..., Result], scenario_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command("run", scenario_file, "--out", out, "--series", "--set", "duration=1 s")
    (out / "flow_series.parquet").write_bytes(b"not parquet at all")
    message = refused("plot", out)
    assert message.startswith(f"error: '{out / 'flow_series.parquet'}' is damaged (")
    assert message.endswith(
        f"): 'lasthop run FILE --out {out} --force' makes it anew, with the options that it had\n"
    )


def test_a_run_without_series_cannot_be_plotted(
    refused: Callable[..., str], command: Callable[..., Result], scenario_file: Path, tmp_path: Path
) -> None:
    command("run", scenario_file, "--out", tmp_path / "out", "--set", "duration=1 s")
    assert refused("plot", tmp_path / "out") == (
        "error: this run has no flow series: run it with --series (series=True in Python)\n"
    )
    assert refused("plot", tmp_path / "out", "--seed", "9") == (
        f"error: '{tmp_path / 'out'}' has no seed 9: it has 1\n"
    )
    assert refused("plot", tmp_path / "out", "--set", "duration=1 s") == (
        "error: --set changes a scenario: it needs a scenario file, not the folder of a run\n"
    )


def test_new_never_overwrites(refused: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "lab.toml"
    path.write_text("mine")
    expected = f"error: '{path}' is already there and is not overwritten: choose another name\n"
    assert refused("new", tmp_path / "lab") == expected
    assert path.read_text() == "mine"
    assert refused("new", tmp_path / "x", "--topology", "ring") == (
        "error: unknown topology 'ring': use one of dumbbell, graph, wlan, wired-cum-wireless\n"
    )


def test_unknown_transport_has_a_near_name(refused: Callable[..., str]) -> None:
    assert refused("transports", "vegsa") == "error: unknown transport 'vegsa': did you mean 'vegas'?\n"
    assert refused("transports", "zzz") == (
        "error: unknown transport 'zzz': 'lasthop transports' lists them\n"
    )


def test_json_of_a_refused_command_is_empty(refused: Callable[..., str], scenario_file: Path) -> None:
    text = refused("run", scenario_file, "--json", "--set", "duration=0 s")
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)


@pytest.mark.parametrize(
    ("traffic", "start", "message"),
    [
        (
            'kind = "transfer", size = { kind = "measured", file = "long.txt" }',
            '"0 s"',
            "more than 10000000 lines",
        ),
        ('kind = "frames", file = "long.txt"', '"0 s"', 'no size of a frame: "x"'),
        (None, '{ arrivals = "listed", file = "long.txt" }', "more than 100000 lines"),
    ],
)
def test_long_wrong_lists_are_refused_at_once(
    tmp_path: Path, traffic: str | None, start: str, message: str
) -> None:
    """Eighty million bytes, the last line of which is wrong."""
    with (tmp_path / "long.txt").open("w") as file:
        for _ in range(20):
            file.write("1000000\n" * 500_000)
        file.write("1\nx\n")
    lines = (
        'duration = "1 s"',
        '[topology]\nkind = "dumbbell"\nbottleneck = { rate = "1 Mbit/s", delay = "1 ms" }',
        'access = { rate = "1 Mbit/s", delay = "1 ms" }',
        f'[[flows]]\ntransport = "cubic"\nstart = {start}',
        *([f"traffic = {{ {traffic} }}"] if traffic else []),
    )
    path = tmp_path / "long.toml"
    path.write_text("\n".join(lines))
    begun = time.process_time()
    with pytest.raises(ScenarioError, match=message):
        Scenario.load(path)
    # An idle machine needs a second; other work may slow this one down.
    assert time.process_time() - begun < LONG_S


@pytest.mark.parametrize(
    "words",
    ["run", "compare --transport reno,vegas", "study run", "study show", "traffic", "bundle --out x.zip"],
)
def test_keys_of_many_parts_cost_nothing(command: Callable[..., Result], tmp_path: Path, words: str) -> None:
    """The engine refused the key; then Python looked whether it was a study, in 10 s and 3 GB."""
    file = tmp_path / "deep.toml"
    file.write_text("a" + ".b" * 100_000 + " = 1\n")
    begun = time.process_time()
    refused = command(*words.split(), file)
    assert time.process_time() - begun < LONG_S / 5
    assert refused.exit_code == 2
    assert "a key of more than 100 parts" in refused.stderr
