"""What the shell offers behind ``--set`` and for names, asked as the three shells ask it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lasthop.completion import known_keys

ROOT = Path(__file__).resolve().parents[2]
TRAIN = "scenarios/train-ride.toml"


def offered(shell: str, *words: str) -> list[str]:
    """Ask for the completions of the last word, as the script of a shell does."""
    line = " ".join(["lasthop", *words])
    asked = {
        "bash": {"COMP_WORDS": line, "COMP_CWORD": str(len(words))},
        "zsh": {"_TYPER_COMPLETE_ARGS": line},
        "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    environment = os.environ | asked | {"_LASTHOP_COMPLETE": f"complete_{shell}"}
    program = "from lasthop.__main__ import main; import sys; sys.argv = ['lasthop']; main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    text = done.stdout.replace("_arguments '*: :((", "").replace("))'", "").replace('"', "")
    return text.split()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_keys_of_the_scenario_that_is_named(shell: str) -> None:
    keys = offered(shell, "run", TRAIN, "--seeds", "1-2", "--set", "flows.1.tr")
    assert keys == [
        "flows.1.transport=",
        "flows.1.traffic.kind=",
        "flows.1.traffic.rate=",
        "flows.1.traffic.packet=",
    ]


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        # What the file does not say comes from the schema, and so does all of it where no file is named.
        (("run", TRAIN, "--set", "tcp.initial_w"), ["tcp.initial_window="]),
        (("run", "--set", "dur"), ["duration="]),
        # A study's scenario.
        (("study", "run", "studies/per-sweep.toml", "--set", "war"), ["warmup="]),
        (("emulate", TRAIN, "--set", "flows.0.so"), ["flows.0.source="]),
        # Files that are none.
        (("run", "no-such-file.toml", "--set", "dur"), ["duration="]),
        (("run", "README.md", "--set", "dur"), ["duration="]),
    ],
)
def test_keys_by_what_is_named(words: tuple[str, ...], keys: list[str]) -> None:
    assert offered("bash", *words) == keys


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("new", "single-"), "single-flow"),
        (("reproduce", "00"), "002"),
        (("transports", "veg"), "vegas"),
        (("helpers", "sn"), "snoop"),
        (("compare", TRAIN, "--transport", "reno,cub"), "reno,cubic"),
        (("compare", TRAIN, "--metric", "good"), "goodput_bit_s"),
    ],
)
def test_names_are_completed(words: tuple[str, ...], name: str) -> None:
    assert name in offered("bash", *words)


def test_of_many_keys_the_next_tables_are_offered() -> None:
    keys = offered("bash", "run", "--set", "flows.0.")
    assert {"flows.0.transport.", "flows.0.transport=", "flows.0.source="} <= set(keys)
    assert len(keys) < 30


def test_every_entry_of_a_list_is_named() -> None:
    content = {"flows": [{"transport": "reno"}, {"transport": "reno"}]}
    assert "flows.1.transport" in known_keys("flows.1.transp", content)
    assert not known_keys("flows.2.", content)


def test_every_key_of_the_ready_files_is_known() -> None:
    """The walk through the schema finds whatever scenarios say."""
    import tomllib

    from lasthop.completion import _keys_of

    for file in sorted((ROOT / "scenarios").glob("*.toml")):
        content = tomllib.loads(file.read_text(encoding="utf-8"))
        known = set(known_keys("", content))
        assert not [key for key in _keys_of(content) if key not in known], file.name
