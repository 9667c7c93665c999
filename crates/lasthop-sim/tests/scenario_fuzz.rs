//! No text is so odd that reading it as a scenario would panic: random bytes, and valid scenarios with pieces
//! removed, exchanged and replaced.

use lasthop_sim::scenario::{Format, Scenario};
use proptest::prelude::*;

/// A scenario that uses most of the format.
const RICH: &str = r#"
name = "rich"
duration = "60 s"
warmup = "2 s"
seed = 3
[limits]
events = 1_000_000_000
wall_time = "1 h"
[measure]
series_interval = "50 ms"
percentiles = "exact"
[topology]
kind = "dumbbell"
pairs = 30
bottleneck = { rate = "10 Mbit/s", delay = "25 ms", queue = { kind = "drop-tail", limit = "30 packets" } }
access = { rate = "1 Mbit/s", delay = "10 ms", reverse = { rate = "2 Mbit/s", error = "none" } }
sink_access = { queue = { kind = "drop-tail", limit = "40 kB" }, mark = "10 kB", mtu = "1500 B" }
[topology.source_access]
queue = { kind = "codel", limit = "100 packets", target = "5 ms", interval = "100 ms", ecn = true }
middleboxes = [
    { kind = "policer", rate = "2 Mbit/s", burst = "15 kB" },
    { kind = "impair", jitter = "3 ms", reorder = true, duplicate = 0.01 },
]
rate_changes = [{ at = "5 s", rate = "2 Mbit/s" }]
error = { kind = "list", packets = [3, 1, 4], position = "after-arq" }
handoff = { count = 2, outage = "1 s", policy = "drop-air" }
[topology.source_access.arq]
window = 8
attempts = 5
timeout = "50 ms"
order = "out-of-order"
ack_size = "14 B"
ack_error_rate = 0.01
report = "proxy"
discards = "frames"
ebsn = { gap = "40 ms" }
[channel]
error = { kind = "bernoulli", packet_error_rate = 0.01, position = "before-queue" }
handoff = { at = ["10 s", "20 s"], outage = "1 s", policy = "hold" }
[tcp]
profile = "ns2"
packet_size = "1000 B"
receiver_window = "64 kB"
initial_ssthresh = "unlimited"
rto = { min = "200 ms", tick = "10 ms", clock_phase = "1 ms" }
[udp]
header = "8 B"
payload = "1000 B"
[[flows]]
name = "bulk"
count = 20
transport = { cc = "vegas", recovery = "sack", alpha = 2, round_diff = false, delayed_ack = { quick = 4 } }
traffic = { kind = "ftp", bytes = "10 MB" }
start = { uniform = ["0 s", "1 s"] }
stop = "50 s"
[[flows]]
name = "video"
transport = "udp"
direction = "reverse"
traffic = { kind = "on-off", rate = "2.5 Mbit/s", packet = "512 B", on = "1.2 s", off = "1.8 s" }
[[flows]]
name = "voice"
source = "source-30"
sink = "sink-30"
transport = "udp"
traffic = { kind = "cbr", rate = "64 kbit/s", packet = "160 B", random = true }
[[flows]]
name = "rate"
transport = { rate = "tfrc", ecn = true, discount_floor = 0.5 }
traffic = { kind = "cbr", rate = "64 kbit/s", packet = "160 B" }
[[flows]]
name = "film"
transport = "reno"
traffic = { kind = "mpeg4", rate = "650 kbit/s", gop = "IBBP", background = "shared", i = [[0, 500], [1, 9000]] }
[[flows]]
name = "list"
transport = "udp"
traffic = { kind = "frames", sizes = ["4 kB", "0 B", "1 kB"], offset = 1, repeat = false, gop = "IPP", spread = true }
"#;

/// Reads `text`; whatever comes back must be a plan or an error with a place.
fn read(text: &str, format: Format, overrides: &[(String, String)]) {
    if let Err(error) = Scenario::parse(text, format, "fuzz", overrides) {
        let shown = error.to_string();
        assert!(shown.starts_with("scenario error: "), "{shown}");
        assert!(shown.contains("\n  at "), "{shown}");
        assert!(!error.message().is_empty() && !error.place().is_empty(), "{shown}");
    }
}

/// Pieces of a scenario: words, quoted strings, numbers, marks and blanks.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut quoted = false;
    for character in text.chars() {
        let joins = quoted || (character.is_alphanumeric() || "_-.".contains(character));
        match tokens.last_mut() {
            Some(last)
                if joins
                    && (quoted
                        || last.ends_with(|end: char| end.is_alphanumeric() || "_-.".contains(end))) =>
            {
                last.push(character);
            }
            _ => tokens.push(character.to_string()),
        }
        quoted ^= character == '"';
    }
    tokens
}

/// Values that sit at the edge of something.
const ODD: &[&str] = &[
    "0",
    "-1",
    "1e308",
    "nan",
    "inf",
    "\"\"",
    "\"0 s\"",
    "\"1e6 s\"",
    "\"-5 ms\"",
    "\"1 %\"",
    "\"1 B\"",
    "\"68 B\"",
    "\"65535 B\"",
    "\"1e30 packets\"",
    "\"0.1 bit/s\"",
    "\"10 Tbit/s\"",
    "\"unlimited\"",
    "\"none\"",
    "{}",
    "[]",
    "[[]]",
    "true",
    "100000",
    "18446744073709551615",
    "99999999999999999999",
    "\"udp\"",
    "\"cubic\"",
    "\"graph\"",
    "\"ns2\"",
    "\"\\u0000\"",
    "\"source-1\"",
    "2020-01-01",
    "kind",
    "\"kind\"",
    "\n",
    "[",
    "]",
    "{",
    "}",
    "=",
    "[[flows]]\n",
    "'",
    "\"\"\"",
    "\u{7f}",
    "é",
];

/// One random change of a list of tokens.
fn edit(tokens: &mut Vec<String>, (action, at, other): (u8, usize, usize)) {
    if tokens.is_empty() {
        return;
    }
    let at = at % tokens.len();
    match action % 4 {
        0 => drop(tokens.remove(at)),
        1 => ODD[other % ODD.len()].clone_into(&mut tokens[at]),
        2 => tokens.insert(at, ODD[other % ODD.len()].to_owned()),
        _ => {
            let other = other % tokens.len();
            tokens.swap(at, other);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let text = String::from_utf8_lossy(&bytes);
        read(&text, Format::Toml, &[]);
        read(&text, Format::Json, &[]);
    }

    #[test]
    fn random_text_never_panics(text in "[\\[\\]{}=\",.a-z0-9 \n#'\\\\:-]{0,200}") {
        read(&text, Format::Toml, &[]);
        read(&text, Format::Json, &[]);
    }

    #[test]
    fn random_edits_never_panic(edits in prop::collection::vec(any::<(u8, usize, usize)>(), 1..6)) {
        let mut tokens = tokens(RICH);
        for one in edits {
            edit(&mut tokens, one);
        }
        read(&tokens.concat(), Format::Toml, &[]);
    }

    #[test]
    fn random_edits_of_json_never_panic(edits in prop::collection::vec(any::<(u8, usize, usize)>(), 1..4)) {
        let json = Scenario::parse(RICH, Format::Toml, "rich", &[]).unwrap().to_json();
        let mut tokens = tokens(&json);
        for one in edits {
            edit(&mut tokens, one);
        }
        read(&tokens.concat(), Format::Json, &[]);
    }

    #[test]
    fn random_overrides_never_panic(path in "[a-z0-2_.]{0,24}", key in 0_usize..8, odd in 0..ODD.len()) {
        let known = [
            "flows.0.transport", "flows.0.traffic.kind", "topology.bottleneck.queue", "topology.pairs",
            "channel.handoff", "tcp.packet_size", "flows.1.start", "duration",
        ];
        let value = ODD[odd].to_owned();
        read(RICH, Format::Toml, &[(path, value.clone())]);
        read(RICH, Format::Toml, &[(known[key].to_owned(), value)]);
    }
}

#[test]
fn the_rich_scenario_is_valid() {
    Scenario::parse(RICH, Format::Toml, "rich", &[]).unwrap_or_else(|error| panic!("{error}"));
}

/// Deep nesting ends in a message, not in a full stack.
#[test]
fn deep_nesting_never_panics() {
    for depth in [50, 500, 100_000] {
        read(&format!("a = {}{}", "[".repeat(depth), "]".repeat(depth)), Format::Toml, &[]);
        read(&"{\"a\":".repeat(depth), Format::Json, &[]);
        read(&format!("[{}]", vec!["a"; depth].join(".")), Format::Toml, &[]);
        read(&format!("{} = 1", vec!["a"; depth].join(".")), Format::Toml, &[]);
        read(RICH, Format::Toml, &[(vec!["a"; depth].join("."), "1".to_owned())]);
        read(RICH, Format::Toml, &[("name".to_owned(), "[".repeat(depth))]);
    }
}
