"""`make new-device`: what it writes compiles and runs, fails its one open test, and overwrites nothing."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from tests.python.copied_tree import ROOT, cargo, copy_tree, generate

if TYPE_CHECKING:
    from pathlib import Path


#: A run of the new device, as an integration test of the copied tree: it delays one direction, and only that.
RUN = """\
//! The scenario accepts the device, and packets meet it.

use lasthop_net::trace::Recording;
use lasthop_sim::run::{Progress, run};
use lasthop_sim::scenario::{Format, Scenario};

fn delay(middleboxes: &str) -> f64 {
    let text = format!(
        r#"
duration = "2 s"
[topology]
kind = "dumbbell"
bottleneck = {{ rate = "10 Mbit/s", delay = "5 ms"{middleboxes} }}
access = {{ rate = "100 Mbit/s", delay = "1 ms" }}
[[flows]]
transport = "udp"
traffic = {{ kind = "cbr", rate = "1 Mbit/s", packet = "1000 B" }}
start = "0 s"
stop = "1.92 s"
"#
    );
    let scenario = Scenario::parse(&text, Format::Toml, "test", &[]).unwrap();
    let run = run(scenario.plan(), 1, Recording::default(), &Progress::default()).unwrap();
    assert!(run.world.network.ledger.balances());
    if !middleboxes.is_empty() {
        let counters = run.world.network.device_counters();
        let name = "slow_path_passed";
        assert_eq!(counters, [(0, name, 240), (1, name, 0)], "one for each direction; nothing comes back");
        assert_eq!(run.summary.links[0].devices.slow_path.as_ref().unwrap().passed, 240, "its column");
    }
    run.summary.flows[0].delay_p50_s.unwrap()
}

#[test]
fn the_new_device_runs() {
    let plain = delay("");
    let slow = delay(", middleboxes = [{ kind = \\"slow-path\\", delay = \\"30 ms\\" }]");
    assert!((slow - plain - 0.03).abs() < 1e-4, "{slow} beside {plain}");
}
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a copy of what cargo and the generator read."""
    return copy_tree(tmp_path)


def test_a_new_device_runs_and_fails_its_first_vector_alone(tree: Path) -> None:
    written = generate(tree, "new_device", "slow-path")
    assert written.returncode == 0, written.stderr
    assert written.stdout.startswith("written:    crates/lasthop-net/src/device/slow_path.rs\n")
    devices = (tree / "crates/lasthop-net/src/device/mod.rs").read_text(encoding="utf-8")
    assert "\npub mod slow_path;\n" in devices
    assert "    SlowPath(slow_path::SlowPath) => slow_path::SlowPathState,\n}\n" in devices
    assert cargo(tree, "fmt", "--all", "--check").returncode == 0
    (tree / "crates/lasthop-sim/tests/new_device.rs").write_text(RUN, encoding="utf-8")
    tested = cargo(
        tree,
        *("test", "--offline", "--no-fail-fast", "--package=lasthop-net", "--package=lasthop-sim"),
        *("--lib", "--test=new_device", "--", "device"),
        # It need not be fast.
        CARGO_PROFILE_DEV_OPT_LEVEL="0",
    )
    results = dict(re.findall(r"^test (\S+) \.\.\. (\w+)$", tested.stdout, re.MULTILINE))
    assert results.pop("the_new_device_runs", None) == "ok", tested.stdout + tested.stderr
    failed = {name for name, result in results.items() if result != "ok"}
    assert failed == {"device::slow_path::tests::two_packets_by_hand"}, tested.stdout + tested.stderr
    assert "write the times that you have worked out in place of MAX" in tested.stdout
    assert "warning" not in tested.stderr


@pytest.mark.parametrize("name", ["a-b", "abcdefghijklmnopqrst", "impair-more", "tunnel"])
def test_any_name_is_formatted(tree: Path, name: str) -> None:
    assert generate(tree, "new_device", name).returncode == 0
    assert cargo(tree, "fmt", "--all", "--check").returncode == 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "bad name nothing: use lower-case letters and digits, a letter first"),
        ("Shaper", "bad name 'Shaper': use lower-case letters and digits, a letter first"),
        ("../up", "bad name '../up': use lower-case letters"),
        ("a-device-with-a-long-name", "bad name 'a-device-with-a-long-name': use lower-case letters"),
        ("match", "bad name 'match': it is a word of Rust; choose another, such as match-box"),
        ("policer", "crates/lasthop-net/src/device/policer.rs exists: it is part of the crate"),
        ("link", "bad name 'link': devices use the type Link; choose another name"),
        ("marks", "bad name 'marks': results have a marks already; choose another name"),
        ("codel", "bad name 'codel': crates/lasthop-sim/src/scenario/keys.rs has a table CODEL"),
    ],
)
def test_names_that_cannot_be_are_refused(tree: Path, name: str, message: str) -> None:
    before = {path: path.read_bytes() for path in (tree / "crates").rglob("*.rs")}
    refused = generate(tree, "new_device", name)
    assert refused.returncode == 2
    assert refused.stderr.startswith(f"new-device: {message}")
    assert "Traceback" not in refused.stderr
    assert {path: path.read_bytes() for path in (tree / "crates").rglob("*.rs")} == before


def test_make_passes_the_name_on() -> None:
    refused = subprocess.run(
        ["make", "--silent", "new-device", "NAME=Not A Name"],  # noqa: S607 - whichever make there is
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode != 0
    assert "bad name 'Not A Name'" in refused.stderr
