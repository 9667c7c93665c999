"""`make new-sender`, `new-device`, `new-queue`, `new-error-model`, `new-traffic`.

What they write is formatted, compiles, runs, fails its one open test alone, and overwrites nothing. One tree
in which each has written a part is compiled for all of them.
"""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from tests.python.copied_tree import ROOT, cargo, copy_tree, generate

if TYPE_CHECKING:
    from pathlib import Path

#: Each generator, what it makes here, and the test that fails until its author has worked out a vector.
PARTS = {
    "sender": ("gentle-reno", "gentle_reno::tests::the_first_vector"),
    "device": ("slow-path", "device::slow_path::tests::two_packets_by_hand"),
    "queue": ("short-wait", "queue::short_wait::tests::three_packets_by_hand"),
    "error_model": ("every-nth", "channel::every_nth::tests::ten_packets_by_hand"),
    "traffic": ("packet-pairs", "traffic::packet_pairs::tests::the_first_writes_by_hand"),
}

#: Runs with the new parts, as an integration test of the copied tree.
RUN = r"""//! The scenario accepts the new parts, and packets meet them.

use lasthop_net::trace::Recording;
use lasthop_sim::run::{Progress, Run, run};
use lasthop_sim::scenario::{Format, Scenario};

const CBR: &str = r#"{ kind = "cbr", rate = "1 Mbit/s", packet = "1000 B" }"#;

/// A run of 2 s with this on its link, and this flow.
fn ran(link: &str, transport: &str, traffic: &str) -> Run {
    let text = format!(
        r#"
duration = "2 s"
[topology]
kind = "dumbbell"
bottleneck = {{ rate = "10 Mbit/s", delay = "5 ms"{link} }}
access = {{ rate = "100 Mbit/s", delay = "1 ms" }}
[[flows]]
transport = "{transport}"
traffic = {traffic}
start = "0 s"
stop = "1.92 s"
"#
    );
    let scenario = Scenario::parse(&text, Format::Toml, "test", &[]).unwrap();
    let run = run(scenario.plan(), 1, Recording::default(), &Progress::default()).unwrap();
    assert!(run.world.network.ledger.balances());
    run
}

#[test]
fn the_new_device_runs() {
    let plain = ran("", "udp", CBR);
    let slow = ran(", middleboxes = [{ kind = \"slow-path\", delay = \"30 ms\" }]", "udp", CBR);
    let counters = slow.world.network.device_counters();
    let name = "slow_path_passed";
    assert_eq!(counters, [(0, name, 240), (1, name, 0)], "one for each direction; nothing comes back");
    assert_eq!(slow.summary.links[0].devices.slow_path.as_ref().unwrap().passed, 240, "its column");
    let delay = |run: &Run| run.summary.flows[0].delay_p50_s.unwrap();
    assert!((delay(&slow) - delay(&plain) - 0.03).abs() < 1e-4);
}

#[test]
fn the_new_queue_runs() {
    let fast = r#"{ kind = "cbr", rate = "12 Mbit/s", packet = "1000 B" }"#;
    let run = ran(", queue = { kind = \"short-wait\", longest_wait = \"20 ms\" }", "udp", fast);
    let flow = &run.summary.flows[0];
    assert!(run.summary.links[0].drops["early-drop"] > 0, "what waits for longer is dropped");
    // 20 ms of waiting, 7 ms of propagation, and less than 2 ms on the wires.
    assert!((0.02..0.03).contains(&flow.delay_p99_s.unwrap()), "{:?}", flow.delay_p99_s);
}

#[test]
fn the_new_error_model_runs() {
    let run = ran(", error = { kind = \"every-nth\", every = 8 }", "udp", CBR);
    assert_eq!(run.summary.links[0].drops["channel-error"], 240 / 8);
}

#[test]
fn the_new_traffic_runs() {
    let run = ran("", "udp", r#"{ kind = "packet-pairs", interval = "40 ms" }"#);
    assert_eq!(run.summary.flows[0].packets_sent, 2 * 1920 / 40);
    let bare = ran("", "udp", r#""packet-pairs""#);
    assert_eq!(bare.summary.flows[0].packets_sent, 2 * 1920 / 20);
}

#[test]
fn the_new_sender_runs() {
    let run = ran("", "gentle-reno", r#""ftp""#);
    let rate = run.summary.flows[0].goodput_bit_s;
    assert!((5e6..10e6).contains(&rate), "{rate}");
}
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a tree in which each generator has written a part."""
    tree = copy_tree(tmp_path_factory.mktemp("whole"))
    for part, (name, _) in PARTS.items():
        written = generate(tree, f"new_{part}", name)
        assert written.returncode == 0, written.stderr
        assert written.stdout.startswith("written:    crates/")
    return tree


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a tree in which nothing may be written."""
    return copy_tree(tmp_path_factory.mktemp("untouched"))


def test_each_part_is_registered_where_the_parts_are(whole: Path) -> None:
    for path, lines in {
        "lasthop-cc/src/lib.rs": ("mod gentle_reno;", '    "gentle-reno" => gentle_reno::GentleReno,\n}'),
        "lasthop-net/src/device/mod.rs": (
            "pub mod slow_path;",
            "    SlowPath(slow_path::SlowPath) => slow_path::SlowPathState,\n}",
        ),
        "lasthop-net/src/queue/mod.rs": (
            "mod short_wait;",
            "    ShortWait(short_wait::ShortWait) => short_wait::ShortWaitState,\n}",
        ),
        "lasthop-net/src/channel/mod.rs": (
            "mod every_nth;",
            "    EveryNth(every_nth::EveryNth) => every_nth::EveryNthState,\n}",
        ),
        "lasthop-sim/src/scenario/error/mod.rs": ("mod every_nth;", "    every_nth,\n}"),
        "lasthop-sim/src/scenario/middlebox/mod.rs": ("mod slow_path;", "    slow_path,\n}"),
        "lasthop-sim/src/scenario/queue/mod.rs": ("mod short_wait;", "    short_wait,\n}"),
        "lasthop-sim/src/scenario/traffic/mod.rs": ("mod packet_pairs;", "    packet_pairs,\n}"),
    }.items():
        text = (whole / "crates" / path).read_text(encoding="utf-8")
        for line in lines:
            assert f"\n{line}\n" in text, f"{path}: {line}"


def test_what_they_write_compiles_runs_and_fails_its_first_vectors_alone(whole: Path) -> None:
    assert cargo(whole, "fmt", "--all", "--check").stdout == ""
    # It need not be fast, but for the conformance of controllers, which plays millions of events.
    cheap = [f"--config=profile.dev.package.lasthop-{crate}.opt-level=0" for crate in ("net", "sim")]
    quick = ("test", "--offline", "--no-fail-fast", *cheap)
    names = [vector.split("::tests::", maxsplit=1)[0] for _, vector in PARTS.values()]
    conformance = re.findall(
        r"^ *fn (\w+)\(",
        (whole / "crates/lasthop-cc/tests/conformance.rs").read_text().split("proptest!", 1)[1],
        re.MULTILINE,
    )
    units = cargo(
        whole,
        *(*quick, "--package=lasthop-cc", "--package=lasthop-net", "--lib", "--test=conformance"),
        *("--", *names, *conformance),
    )
    results = dict(re.findall(r"^test (\S+) \.\.\. (\w+)$", units.stdout, re.MULTILINE))
    failed = {name for name, result in results.items() if result != "ok"}
    assert failed == {vector for _, vector in PARTS.values()}, units.stdout + units.stderr
    assert results["the_window_stays_a_window"] == "ok"
    assert units.stdout.count("that you have worked out in place of MAX") == len(PARTS) - 1
    assert "write the window that the paper gives in place of NaN" in units.stdout
    assert "warning" not in units.stderr

    (whole / "crates/lasthop-sim/tests/new_parts.rs").write_text(RUN, encoding="utf-8")
    manifest = whole / "crates/lasthop-sim/Cargo.toml"
    manifest.write_text(f'{manifest.read_text()}\n[[test]]\nname = "new_parts"\n', encoding="utf-8")
    runs = cargo(whole, *quick, "--package=lasthop-sim", "--test=new_parts")
    assert f"test result: ok. {len(PARTS)} passed" in runs.stdout, runs.stdout + runs.stderr
    assert "warning" not in runs.stderr


@pytest.mark.parametrize("part", PARTS)
def test_any_name_is_formatted(tmp_path: Path, part: str) -> None:
    """First and last of their lists, short ones and the longest."""
    tree = copy_tree(tmp_path)
    for name in ["a-b", "zz", "abcdefghijklmnopqrst", "impair-more", "tunnel"]:
        written = generate(tree, f"new_{part}", name)
        assert written.returncode == 0, written.stderr
    assert cargo(tree, "fmt", "--all", "--check").stdout == ""


def test_what_new_sender_prints_is_true_of_any_controller(tmp_path: Path) -> None:
    """The command that it prints works: a name alone is a transport, with or without a row of presets."""
    printed = generate(copy_tree(tmp_path), "new_sender", "gentle-reno").stdout
    assert "compare scenarios/lossy-last-hop.toml --transport reno,gentle-reno --seeds 1-10\n" in printed
    assert "PRESETS" not in printed
    page = (ROOT / "docs" / "how-to" / "add-a-controller.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| (?:new|edit) \| `([^`]+)`", page, re.MULTILINE)
    assert len(listed) == 4
    assert "You touch four files" in page


REFUSED = {
    ("sender", "Gentle"): "bad name 'Gentle': use lower-case letters and digits, a letter first",
    ("sender", "4ever"): "bad name '4ever': use lower-case letters",
    ("sender", "a--b"): "bad name 'a--b': use lower-case letters",
    ("sender", "match"): "bad name 'match': it is a word of Rust; choose another, such as match-tcp",
    ("sender", "vegas"): "'vegas' exists: `lasthop transports vegas` shows it; choose another name",
    ("sender", "newreno"): "'newreno' exists: `lasthop transports newreno` shows it; choose another name",
    ("sender", "udp"): "'udp' exists",
    ("sender", "params"): "crates/lasthop-cc/src/params.rs exists: it is part of the crate",
    ("device", "Shaper"): "bad name 'Shaper': use lower-case letters and digits, a letter first",
    ("device", "a-device-with-a-long-name"): "bad name 'a-device-with-a-long-name': use lower-case letters",
    ("device", "match"): "bad name 'match': it is a word of Rust; choose another, such as match-box",
    ("device", "policer"): "crates/lasthop-net/src/device/policer.rs exists: it is part of the crate",
    ("device", "link"): "bad name 'link': devices use the type Link; choose another name",
    ("device", "marks"): "bad name 'marks': results have a marks already; choose another name",
    ("device", "mod"): "bad name 'mod': it is a word of Rust; choose another, such as mod-box",
    ("queue", "match"): "bad name 'match': it is a word of Rust; choose another, such as match-queue",
    ("queue", "pie"): "crates/lasthop-net/src/queue/pie.rs exists: it is part of the crate",
    ("queue", "parcel"): "bad name 'parcel': queues use the type Parcel; choose another name",
    ("queue", "drop-tail"): "bad name 'drop-tail': crates/lasthop-sim/src/scenario/queue/drop_tail.rs has it",
    ("error_model", "list"): "crates/lasthop-net/src/channel/list.rs exists: it is part of the crate",
    ("error_model", "frame"): "bad name 'frame': error models use the type Frame; choose another name",
    (
        "error_model",
        "bit-errors",
    ): "bad name 'bit-errors': crates/lasthop-sim/src/scenario/error/bit_errors.rs has it; choose another",
    ("error_model", "none"): "bad name 'none': error models use the type None; choose another name",
    ("traffic", "voice"): "crates/lasthop-net/src/traffic/voice.rs exists: it is part of the crate",
    ("traffic", "offer"): "bad name 'offer': sources use the type Offer; choose another name",
    (
        "traffic",
        "video-on-demand",
    ): "bad name 'video-on-demand': crates/lasthop-sim/src/scenario/traffic/video_on_",
    ("traffic", "on-off"): "crates/lasthop-net/src/traffic/on_off.rs exists",
}
for of_part in PARTS:
    REFUSED[of_part, ""] = "bad name nothing: use lower-case letters and digits, a letter first"
    REFUSED[of_part, "../up"] = "bad name '../up': use lower-case letters"


def test_names_that_cannot_be_are_refused(untouched: Path) -> None:
    before = {path: path.read_bytes() for path in (untouched / "crates").rglob("*.rs")}
    for (part, name), message in REFUSED.items():
        refused = generate(untouched, f"new_{part}", name)
        assert refused.returncode == 2, (part, name)
        assert refused.stderr.startswith(f"new-{part.replace('_', '-')}: {message}"), refused.stderr
        assert "Traceback" not in refused.stderr
    assert {path: path.read_bytes() for path in (untouched / "crates").rglob("*.rs")} == before


@pytest.mark.parametrize("part", PARTS)
def test_make_passes_the_name_on(part: str) -> None:
    target = f"new-{part.replace('_', '-')}"
    refused = subprocess.run(
        ["make", "--silent", target, "NAME=Not A Name"],  # noqa: S607 - whichever make there is
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode != 0
    assert "bad name 'Not A Name'" in refused.stderr
