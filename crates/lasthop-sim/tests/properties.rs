//! What must hold on every valid scenario: nothing is lost from the books, the application gets the byte
//! stream, and a run is a function of its plan and its seed.
//!
//! Scenarios are drawn as text, so that the reader of scenarios takes part. `make test-properties` runs this file
//! again, optimised and with every assertion on.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use lasthop_cc::ControllerConfig;
use lasthop_core::packet::{Cause, Kind};
use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;
use lasthop_net::device::Middlebox;
use lasthop_net::plan::{Plan, Profile, RealtimePlan, Transport};
use lasthop_net::realtime::plan::{ArrivalPoint, DelayedOver, Duplicates, Missing, SentCount};
use lasthop_net::trace::{FrameOutcome, FrameRecord, Frames, HopRecord, Recording};
use lasthop_net::transport::endpoint::Endpoint;
use lasthop_net::transport::rate::config::Protocol;
use lasthop_net::transport::tcp::config::{PrrVariant, Recovery, SpuriousResponse, TcpConfig};
use lasthop_net::world::Evaluation;
use lasthop_sim::run::{Progress, Run, RunError, run, run_evaluated};
use lasthop_sim::scenario::{Format, Scenario};
use proptest::prelude::*;

use crate::testkit::{EVERYTHING, TRACE, plan_of, run_plan};

// ---------------------------------------------------------------------------------------------------------------------
// Random scenarios

/// One of `choices` as written in a scenario.
fn one_of(choices: &[&str]) -> impl Strategy<Value = String> + use<> {
    let choices: Vec<String> = choices.iter().map(|&choice| choice.to_owned()).collect();
    prop::sample::select(choices)
}

/// Some of these `key = value` pairs, separated by commas and with one in front.
fn some_of(pairs: Vec<BoxedStrategy<String>>) -> impl Strategy<Value = String> {
    let optional: Vec<_> = pairs.into_iter().map(|pair| prop::option::weighted(0.25, pair)).collect();
    optional.prop_map(|pairs| pairs.into_iter().flatten().fold(String::new(), |all, pair| all + ", " + &pair))
}

fn number(key: &'static str, range: std::ops::Range<u32>, unit: &'static str) -> BoxedStrategy<String> {
    range
        .prop_map(
            move |n| if unit.is_empty() { format!("{key} = {n}") } else { format!("{key} = \"{n} {unit}\"") },
        )
        .boxed()
}

fn switch(key: &'static str) -> BoxedStrategy<String> {
    any::<bool>().prop_map(move |on| format!("{key} = {on}")).boxed()
}

fn queue() -> BoxedStrategy<String> {
    prop_oneof![
        4 => (1u32..80).prop_map(|n| format!("{{ kind = \"drop-tail\", limit = \"{n} packets\" }}")),
        2 => (2000u32..40_000).prop_map(|n| format!("{{ kind = \"drop-tail\", limit = \"{n} B\" }}")),
        1 => Just("\"unlimited\"".to_owned()),
        1 => red(),
    ]
    .boxed()
}

/// RED in all its ways.
fn red() -> BoxedStrategy<String> {
    let keys = some_of(vec![
        one_of(&["std", "ns2"]).prop_map(|profile| format!("profile = \"{profile}\"")).boxed(),
        one_of(&["packets", "bytes"]).prop_map(|unit| format!("measure = \"{unit}\"")).boxed(),
        // Left to the rate of the link, the lower one may lie above an upper one that is given.
        (1u32..5, prop::option::of(15u32..20))
            .prop_map(|(low, high)| {
                let high = high.map_or(String::new(), |high| format!(", max_th = \"{high} packets\""));
                format!("min_th = \"{low} packets\"{high}")
            })
            .boxed(),
        (1u32..100).prop_map(|weight| format!("w_q = 0.{weight:03}")).boxed(),
        (0u32..100).prop_map(|share| format!("max_p = 0.{share:02}")).boxed(),
        switch("gentle"),
        switch("wait"),
        switch("use_mark_p"),
        switch("adaptive"),
    ]);
    (10u32..60, keys)
        .prop_map(|(limit, keys)| format!("{{ kind = \"red\", limit = \"{limit} packets\"{keys} }}"))
        .boxed()
}

fn error(worst: f64) -> BoxedStrategy<String> {
    let position = one_of(&["after-transmission", "before-queue"]);
    let kind = prop_oneof![
        3 => (0.0..=worst).prop_map(|rate| format!("kind = \"bernoulli\", packet_error_rate = {rate:.4}")),
        1 => prop::collection::btree_set(0u32..60, 1..8)
            .prop_map(|numbers| format!("kind = \"list\", packets = {:?}", numbers.into_iter().collect::<Vec<_>>())),
        1 => one_of(&[
            "kind = \"periodic\", every = 30, burst = 2",
            "kind = \"bit-errors\", bit_error_rate = 1e-6, at_least = \"200 B\"",
            "kind = \"exponential\", rate = 0.02, from = \"1 s\"",
            "kind = \"two-state\", packet_error_rate = 0.02, bad = \"20 ms\"",
            "kind = \"two-state-packets\", good = 99, bad = 1, begin = \"good\"",
            "kind = \"gilbert-elliott\", packet_error_rate = 0.02, mean_burst = 3",
            "kind = \"gilbert-elliott-time\", good = \"1 s\", bad = \"30 ms\", loss_bad = 0.5",
            "kind = \"gilbert-elliott-time\", good = \"1 s\", bad = \"30 ms\", bit_error_rate_good = 1e-7, \
             bit_error_rate_bad = 1e-5",
        ]),
    ];
    (kind, position).prop_map(|(kind, position)| format!("{{ {kind}, position = \"{position}\" }}")).boxed()
}

/// Outages that take less than the run.
fn handoff(duration_ms: u32) -> BoxedStrategy<String> {
    let policy = one_of(&["drop-air", "drop", "hold"]);
    let times = prop_oneof![
        (1u32..6, one_of(&["even", "random"]))
            .prop_map(|(count, placement)| format!("count = {count}, placement = \"{placement}\"")),
        Just(format!("at = [\"{} ms\", \"{} ms\"]", duration_ms / 4, duration_ms / 2)),
    ];
    (times, 1u32..15, policy)
        .prop_map(move |(times, percent, policy)| {
            let outage = duration_ms * percent / 100 + 1;
            format!("{{ {times}, outage = \"{outage} ms\", policy = \"{policy}\" }}")
        })
        .boxed()
}

/// Keys of a link, each as `key = value`.
type Keys = Vec<String>;

/// How exact times and rates are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grain {
    /// To the nanosecond and bit per second: two things hardly ever happen at the same moment.
    Fine,
    /// Few round values: many things do.
    Coarse,
}

fn rate_of(least_kbit: u32, most_kbit: u32, grain: Grain) -> BoxedStrategy<String> {
    match grain {
        Grain::Fine => {
            (1000 * least_kbit..1000 * most_kbit).prop_map(|rate| format!("\"{rate} bit/s\"")).boxed()
        }
        // A packet of 1000 B takes 4, 8 or 16 ms.
        Grain::Coarse => prop_oneof![Just("\"500 kbit/s\""), Just("\"1 Mbit/s\""), Just("\"2 Mbit/s\"")]
            .prop_map(str::to_owned)
            .boxed(),
    }
}

fn delay_of(grain: Grain) -> BoxedStrategy<String> {
    match grain {
        Grain::Fine => (0u32..60_000_000).prop_map(|delay| format!("\"{delay} ns\"")).boxed(),
        Grain::Coarse => (0u32..15).prop_map(|delay| format!("\"{} ms\"", 4 * delay)).boxed(),
    }
}

/// Retransmission by the link, with all its options.
fn arq() -> impl Strategy<Value = String> {
    let timeout = prop::option::of(2u32..80);
    let order = one_of(&["in-order", "out-of-order"]);
    let report = one_of(&["off", "local", "proxy"]);
    let discards = one_of(&["attempts", "frames"]);
    let ebsn = one_of(&["true", "false", "{ gap = \"30 ms\" }"]);
    let hybrid =
        one_of(&["true", "false", "false", "{ pieces = 3, parity = 1 }", "{ pieces = 5, parity = 9 }"]);
    ((1u32..40, 1u32..9, 1u32..40), 0u32..30, timeout, (order, report, discards, ebsn, hybrid)).prop_map(
        |((window, attempts, ack_size), ack_errors, timeout, (order, report, discards, ebsn, hybrid))| {
            let timeout = timeout.map_or_else(String::new, |ms| format!(", timeout = \"{ms} ms\""));
            format!(
                "arq = {{ window = {window}, attempts = {attempts}, ack_size = \"{ack_size} B\", \
                 ack_error_rate = 0.{ack_errors:02}, order = \"{order}\", report = \"{report}\", \
                 discards = \"{discards}\", ebsn = {ebsn}, hybrid = {hybrid}{timeout} }}"
            )
        },
    )
}

/// Devices at the head of a link. FEC and ACK filters have properties of their own (`helpers_inside.rs`): what they
/// rebuild and withhold is not in the records of their link.
fn middleboxes() -> impl Strategy<Value = String> {
    let policer = (100u32..5000, 2000u32..30_000).prop_map(|(rate, burst)| {
        format!("{{ kind = \"policer\", rate = \"{rate} kbit/s\", burst = \"{burst} B\" }}")
    });
    let impair = (0u32..20_000, any::<bool>(), 0u32..10).prop_map(|(jitter, reorder, twice)| {
        format!(
            "{{ kind = \"impair\", jitter = \"{jitter} us\", reorder = {reorder}, duplicate = 0.{twice:02} }}"
        )
    });
    let snoop = (
        (one_of(&["std", "paper"]), 1u32..80, 0u32..6, 1u32..4),
        (any::<bool>(), any::<bool>(), one_of(&["off", "eln", "nack"]), one_of(&["move", "fresh", "ignore"])),
        0u32..4,
    )
        .prop_map(|((profile, cache, persist, threshold), (ahead, sack, upward, handoff), delay)| {
            format!(
                "{{ kind = \"snoop\", profile = \"{profile}\", cache = {cache}, persist = {persist}, \
                 threshold = {threshold}, ahead = {ahead}, sack = {sack}, upward = \"{upward}\", \
                 handoff = \"{handoff}\", link_layer_delay = \"{delay} ms\" }}"
            )
        });
    let ns2 = (0u32..4).prop_map(|delay| {
        format!("{{ kind = \"snoop\", profile = \"ns2\", link_layer_delay = \"{delay} ms\" }}")
    });
    let wtcp = (1u32..200, 1u32..20)
        .prop_map(|(buffer, tick)| format!("{{ kind = \"wtcp\", buffer = {buffer}, tick = \"{tick} ms\" }}"));
    let zhuge = (1u32..90, 1u32..200).prop_map(|(window, limit)| {
        format!("{{ kind = \"zhuge\", window = \"{window} ms\", limit = \"{limit} ms\" }}")
    });
    let l4span = (1u32..90, 0u32..20, any::<bool>()).prop_map(|(window, from, ahead)| {
        format!(
            "{{ kind = \"l4span\", window = \"{window} ms\", ramp_from = \"{from} ms\", ahead = {ahead} }}"
        )
    });
    let agents = prop_oneof![6 => snoop, 2 => ns2, 2 => wtcp, 1 => zhuge, 1 => l4span];
    prop::collection::vec(prop_oneof![2 => policer, 2 => impair, 4 => agents], 1..3)
        .prop_map(|list| format!("middleboxes = [{}]", list.join(", ")))
}

/// A plain link: `rate = ..., delay = ..., queue = ...`, and a threshold for marks that lies below any limit.
fn plain_link(least_kbit: u32, most_kbit: u32, grain: Grain) -> BoxedStrategy<Keys> {
    let mark = prop::option::of(1u32..20);
    let mtu = prop::option::weighted(0.1, 1500u32..2000);
    (rate_of(least_kbit, most_kbit, grain), delay_of(grain), queue(), mark, mtu)
        .prop_map(|(rate, delay, queue, mark, mtu)| {
            let mark = mark.filter(|_| !queue.contains("packets") && !queue.contains("red"));
            let mut keys =
                vec![format!("rate = {rate}"), format!("delay = {delay}"), format!("queue = {queue}")];
            keys.extend(mark.map(|packets| format!("mark = \"{packets} packets\"")));
            keys.extend(mtu.map(|bytes| format!("mtu = \"{bytes} B\"")));
            keys
        })
        .boxed()
}

/// A link with everything that may stand in its way.
fn link_with_devices(least_kbit: u32, most_kbit: u32, grain: Grain) -> BoxedStrategy<Keys> {
    let kind = one_of(&["codel", "fq-codel", "fq-codel\", limit = 20, quantum = \"300 B"]);
    let codel = (kind, 1u32..20, 20u32..200, any::<bool>()).prop_map(|(kind, target, interval, ecn)| {
        format!("queue = {{ kind = \"{kind}\", target = \"{target} ms\", interval = \"{interval} ms\", ecn = {ecn} }}")
    });
    let kind = one_of(&["pie", "fq-pie", "fq-pie\", limit = 20, quantum = \"300 B"]);
    let pie = (kind, 1u32..40, 0u32..200, any::<bool>()).prop_map(|(kind, target, burst, ecn)| {
        format!(
            "queue = {{ kind = \"{kind}\", target = \"{target} ms\", burst = \"{burst} ms\", ecn = {ecn} }}"
        )
    });
    let dual = (1u32..40, 1u32..5, any::<bool>()).prop_map(|(target, share, few)| {
        let limit = if few { "20 packets" } else { "10000 packets" };
        format!(
            "queue = {{ kind = \"dual-pi2\", target = \"{target} ms\", classic_share = 0.{share}, \
             limit = \"{limit}\" }}"
        )
    });
    let isolation = one_of(&["triple-isolate", "dual-srchost", "flows", "none"]);
    let tins = one_of(&["diffserv3", "diffserv4", "besteffort"]);
    let filter = one_of(&["off", "conservative", "aggressive"]);
    let cake = (isolation, tins, filter, 10u32..200, any::<bool>()).prop_map(
        |(isolation, tins, filter, rtt, few)| {
            let memory = if few { ", memory = \"20 kB\", framing = \"atm\"" } else { "" };
            format!(
                "queue = {{ kind = \"cake\", isolation = \"{isolation}\", tins = \"{tins}\", \
                 ack_filter = \"{filter}\", rtt = \"{rtt} ms\"{memory} }}"
            )
        },
    );
    let codel = prop_oneof![2 => codel, 1 => pie, 1 => dual, 1 => cake];
    let change = (1u32..4000, rate_of(least_kbit, most_kbit, grain))
        .prop_map(|(at, rate)| format!("rate_changes = [{{ at = \"{at} ms\", rate = {rate} }}]"));
    (
        plain_link(least_kbit, most_kbit, grain),
        prop::option::weighted(0.3, arq()),
        prop::option::weighted(0.15, middleboxes()),
        prop::option::weighted(0.15, codel),
        prop::option::weighted(0.15, change),
    )
        .prop_map(|(mut keys, arq, middleboxes, codel, change)| {
            if let Some(codel) = codel {
                keys.retain(|key| !key.starts_with("queue") && !key.starts_with("mark"));
                keys.push(codel);
            }
            keys.extend([arq, middleboxes, change].into_iter().flatten());
            keys
        })
        .boxed()
}

/// Whether packets of `keys` are retransmitted by the link, or wait in a queue that decides when they leave.
fn keeps(keys: &[String]) -> bool {
    keys.iter().any(|key| {
        let overtakes = key.contains("snoop") && key.contains("ahead = true");
        key.starts_with("arq")
            || key.contains("codel")
            || key.contains("pie")
            || key.contains("dual-pi2")
            || key.contains("\"cake\"")
            || overtakes
    })
}

/// The outage that a link with these keys can have: one that retransmits goes on trying.
fn possible_handoff(handoff: String, keys: &[String]) -> String {
    if !keeps(keys) {
        return handoff;
    }
    handoff
        .replace("policy = \"drop\"", "policy = \"drop-air\"")
        .replace("policy = \"hold\"", "policy = \"drop-air\"")
}

/// Values for `prr`, `tlp`, `frto` and `spurious_response`; `None` leaves the default.
type Repairs = (Option<String>, Option<bool>, Option<bool>, Option<String>);

fn repairs() -> impl Strategy<Value = Repairs> {
    let on = || prop::option::weighted(0.3, any::<bool>());
    (
        prop::option::weighted(0.3, one_of(PrrVariant::NAMES)),
        on(),
        on(),
        prop::option::weighted(0.3, one_of(SpuriousResponse::NAMES)),
    )
}

/// What of it this combination can do.
fn possible(repairs: &Repairs, controller: &str, recovery: &str) -> String {
    let (prr, tlp, frto, response) = repairs;
    let recovery = Recovery::by_name(recovery).unwrap();
    let controller = ControllerConfig::by_name(controller).unwrap();
    let rated = controller.needs().rate;
    let config = TcpConfig::new(Profile::Rfc, controller, recovery);
    let mut text = String::new();
    if let Some(prr) = prr.as_ref().filter(|_| recovery.has_scoreboard() && !rated) {
        let _ = write!(text, ", prr = \"{prr}\"");
    }
    if let Some(tlp) = tlp.filter(|_| recovery == Recovery::Rack) {
        let _ = write!(text, ", tlp = {tlp}");
    }
    if let Some(frto) = frto.filter(|_| config.can_undo()) {
        let _ = write!(text, ", frto = {frto}");
    }
    if let Some(response) = response {
        let _ = write!(text, ", spurious_response = \"{response}\"");
    }
    text
}

/// A TCP: any preset or combination, any of its knobs, any parameter of its controller at a bound.
fn tcp() -> impl Strategy<Value = String> {
    let presets: Vec<&str> = TcpConfig::PRESETS.iter().map(|preset| preset.name).collect();
    let kind = prop_oneof![
        one_of(&presets).prop_map(|preset| format!("preset = \"{preset}\"")),
        (
            (one_of(ControllerConfig::NAMES), one_of(Recovery::NAMES), repairs()),
            any::<prop::sample::Index>(),
            0..6u8
        )
            .prop_map(|((controller, recovery, repairs), index, bound)| {
                // What XJTCP has echoed leaves no room for SACK.
                let crowded = controller == "xjtcp" && Recovery::by_name(&recovery).unwrap().uses_sack();
                let recovery = if crowded { "newreno".to_owned() } else { recovery };
                let mut text = format!("cc = \"{controller}\", recovery = \"{recovery}\"");
                let params = ControllerConfig::by_name(&controller).unwrap().params();
                let param = index.get(&params);
                let mut repairs = repairs;
                if param.name == "loss_filter" {
                    // It makes CUBIC one of the laws that PRR cannot lead.
                    repairs.0 = None;
                }
                text += &possible(&repairs, &controller, &recovery);
                let value = if bound == 0 { param.min } else { param.max };
                if param.name == "echo" {
                    // Its other choice is refused when timestamps are off.
                } else if let Some(choice) = param.choices.get(value as usize) {
                    let _ = write!(text, ", {} = \"{choice}\"", param.name);
                } else if param.switch {
                    let _ = write!(text, ", {} = {}", param.name, value != 0.0);
                } else if bound < 2 {
                    let _ = write!(text, ", {} = {value:?}", param.name);
                }
                text
            }),
    ];
    let delayed = prop_oneof![
        Just("delayed_ack = false".to_owned()),
        (1u32..300, 1u32..5, 0u32..20).prop_map(|(timeout, segments, quick)| {
            format!("delayed_ack = {{ timeout = \"{timeout} ms\", segments = {segments}, quick = {quick} }}")
        }),
        (1u32..300, 1u32..12, 0u32..9, 0u32..5).prop_map(|(timeout, segments, per_rtt, reordering)| {
            format!(
                "delayed_ack = {{ timeout = \"{timeout} ms\", segments = {segments}, per_rtt = {per_rtt}, \
                 reordering = {reordering} }}"
            )
        }),
    ];
    let rto = (10u32..300, 300u32..4000).prop_map(|(min, initial)| {
        format!("rto = {{ min = \"{min} ms\", initial = \"{initial} ms\", max = \"8 s\" }}")
    });
    let knobs = some_of(vec![
        number("packet_size", 100..1400, "B"),
        number("receiver_window", 1..200, "packets"),
        number("initial_window", 1..20, "packets"),
        number("initial_ssthresh", 1..100, "packets"),
        number("sack_blocks", 1..4, ""),
        number("dup_threshold", 1..6, ""),
        switch("timestamps"),
        switch("dsack"),
        switch("ecn"),
        switch("limited_transmit"),
        switch("idle_restart"),
        switch("grow_when_limited_elsewhere"),
        delayed.boxed(),
        rto.boxed(),
    ]);
    let profile = one_of(Profile::NAMES);
    (kind, profile, knobs).prop_map(|(kind, profile, mut knobs)| {
        if profile == "rfc" {
            // Elsewhere marks are echoed.
            let in_bytes = if knobs.contains("dsack") { ", ecn_bytes = true" } else { "" };
            knobs = knobs.replace("ecn = true", &format!("ecn = true, accurate_ecn = true{in_bytes}"));
        }
        format!("{{ {kind}, profile = \"{profile}\"{knobs} }}")
    })
}

/// A rate-based transport.
fn rate_based() -> impl Strategy<Value = String> {
    let plain = (one_of(Protocol::NAMES), one_of(&["rfc", "ns2"]))
        .prop_map(|(name, profile)| format!("{{ rate = \"{name}\", profile = \"{profile}\" }}"));
    let keys = some_of(vec![
        (0u32..50).prop_map(|wait| format!("nack_wait_s = {}", f64::from(wait) / 1e3)).boxed(),
        (5u32..40).prop_map(|rtts| format!("nack_rtts = {}", f64::from(rtts) / 10.0)).boxed(),
        (1u32..12).prop_map(|most| format!("nack_repeats = {most}")).boxed(),
        (1u32..2000).prop_map(|within| format!("nack_within_s = {}", f64::from(within) / 1e3)).boxed(),
    ]);
    let repeated = (one_of(&["nada", "gcc", "scream"]), keys)
        .prop_map(|(name, keys)| format!("{{ rate = \"{name}\", nack = true{keys} }}"));
    let shape = prop_oneof![
        (2u32..20, 0u32..4)
            .prop_map(|(row, adapt)| format!("fec = \"row\", fec_row = {row}, fec_adapt = {adapt}")),
        (one_of(&["column", "both"]), 2u32..8, 2u32..8).prop_map(|(shape, row, column)| {
            format!("fec = \"{shape}\", fec_row = {row}, fec_column = {column}")
        }),
    ];
    let protected = (one_of(&["nada", "gcc", "scream"]), shape, 1u32..1000, any::<bool>()).prop_map(
        |(name, shape, window, nack)| {
            let window = f64::from(window) / 1e3;
            format!("{{ rate = \"{name}\", {shape}, fec_window_s = {window}, nack = {nack} }}")
        },
    );
    prop_oneof![2 => plain, 1 => repeated, 1 => protected]
}

/// Packets at times of the application's own choice.
fn paced_traffic() -> impl Strategy<Value = String> {
    let rate = (10u32..2000, 40u32..1400);
    prop_oneof![
        2 => (rate.clone(), any::<bool>()).prop_map(|((rate, packet), random)| format!(
            "{{ kind = \"cbr\", rate = \"{rate} kbit/s\", packet = \"{packet} B\", random = {random} }}"
        )),
        2 => (rate, 1u32..1000, 0u32..1000).prop_map(|((rate, packet), on, off)| format!(
            "{{ kind = \"on-off\", rate = \"{rate} kbit/s\", packet = \"{packet} B\", on = \"{on} ms\", \
             off = \"{off} ms\" }}"
        )),
        2 => frames(),
        1 => video_call(),
        1 => one_of(&["player", "server"]).prop_map(|side| format!("{{ kind = \"game\", side = \"{side}\" }}")),
    ]
}

/// One direction of a call: a stream of datagrams and nothing else.
fn voice() -> impl Strategy<Value = String> {
    (one_of(&["g711", "g729", "g723", "gsm-efr"]), 1u32..1000, 0u32..1000).prop_map(|(codec, talk, pause)| {
        format!("{{ kind = \"voice\", codec = \"{codec}\", talk = \"{talk} ms\", pause = \"{pause} ms\" }}")
    })
}

/// Lengths of transfers.
fn lengths() -> impl Strategy<Value = String> {
    let mean = || (1u32..100_000).prop_map(|mean| format!("mean = \"{mean} B\""));
    prop_oneof![
        mean().prop_map(|mean| format!("{{ kind = \"exponential\", {mean} }}")),
        (mean(), 101u32..400)
            .prop_map(|(mean, shape)| format!("{{ kind = \"pareto\", {mean}, shape = {shape}e-2 }}")),
        (1u32..50_000, 1u32..30).prop_map(|(median, sigma)| {
            format!("{{ kind = \"log-normal\", median = \"{median} B\", sigma = {sigma}e-1 }}")
        }),
        Just("\"web-search\"".to_owned()),
    ]
}

/// What asks and gets answers over connections that it keeps: a browser, a player of video on demand.
fn clients() -> impl Strategy<Value = String> {
    let common = (1u32..2000, 0u32..300)
        .prop_map(|(request, server)| format!("request = \"{request} B\", server_time = \"{server} ms\""));
    let objects = (1u32..200_000, 1u32..20, 1u32..50_000).prop_map(|(first, count, size)| {
        format!(
            "objects = [{{ size = \"{first} B\" }}, {{ size = \"{size} B\", count = {count}, after = 1 }}]"
        )
    });
    let page = prop_oneof![3 => objects, 1 => one_of(&["home-desktop", "inner-mobile"])
        .prop_map(|name| format!("page = \"{name}\""))];
    let protocol = prop_oneof![
        Just(String::new()),
        (1u32..8).prop_map(|most| format!(", protocol = \"http/1.1\", connections = {most}")),
    ];
    let pages = prop::option::weighted(0.3, 1u32..5)
        .prop_map(|pages| pages.map_or(String::new(), |pages| format!(", pages = {pages}")));
    prop_oneof![
        2 => (common.clone(), page, protocol, (0u32..2000, pages)).prop_map(
            |(common, page, protocol, (think, pages))| {
                format!("{{ kind = \"web\", {page}, {common}, think = \"{think} ms\"{protocol}{pages} }}")
            }
        ),
        1 => (common, one_of(&["bola", "throughput", "fixed"]), 100u32..3000, 2u32..9).prop_map(
            |(common, rule, segment, room)| {
                let buffer = segment * room;
                format!(
                    "{{ kind = \"video-on-demand\", rule = \"{rule}\", segment = \"{segment} ms\", \
                     buffer = \"{buffer} ms\", {common} }}"
                )
            }
        ),
    ]
}

/// Video of a call, in all its ways.
fn video_call() -> impl Strategy<Value = String> {
    let keys = some_of(vec![
        one_of(&["rfc8593", "rfc8867"]).prop_map(|model| format!("model = \"{model}\"")).boxed(),
        number("max_rate", 200..4000, "kbit/s"),
        number("frame_rate", 1..100, ""),
        number("reaction", 0..1000, "ms"),
        number("burst", 10..50_000, "B"),
        number("transient", 1..20, ""),
        number("key_interval", 50..2000, "ms"),
        number("patience", 1..2000, "ms"),
        Just("ladder = [\"300 kbit/s\", \"1 Mbit/s\"]".to_owned()).boxed(),
        Just("pause = [\"500 ms\", \"900 ms\"]".to_owned()).boxed(),
    ]);
    keys.prop_map(|keys| format!("{{ kind = \"video-call\"{keys} }}"))
}

/// Frames of a model or of a list.
fn frames() -> impl Strategy<Value = String> {
    let common = (10u32..4000, 1u32..200, any::<bool>()).prop_map(|(rate, frame_rate, spread)| {
        format!("rate = \"{rate} kbit/s\", frame_rate = {frame_rate}, spread = {spread}")
    });
    let sizes = prop::collection::vec(0u32..20_000, 0..20);
    prop_oneof![
        (common.clone(), one_of(&["independent", "shared"])).prop_map(|(common, background)| format!(
            "{{ kind = \"mpeg4\", {common}, background = \"{background}\" }}"
        )),
        (common, sizes, any::<bool>()).prop_map(|(common, sizes, repeat)| {
            let sizes: Vec<String> = sizes.iter().map(|size| format!("\"{size} B\"")).collect();
            let sizes = sizes.join(", ");
            format!("{{ kind = \"frames\", {common}, repeat = {repeat}, sizes = [\"1 B\", {sizes}] }}")
        }),
    ]
}

fn tcp_traffic() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => Just("\"ftp\"".to_owned()),
        3 => (1u32..300_000).prop_map(|bytes| format!("{{ kind = \"ftp\", bytes = \"{bytes} B\" }}")),
        2 => (1u32..5000, 1u32..50, 1u32..200_000).prop_map(|(write, interval, bytes)| format!(
            "{{ kind = \"paced-ftp\", write = \"{write} B\", interval = \"{interval} ms\", bytes = \"{bytes} B\" }}"
        )),
        1 => lengths().prop_map(|size| format!("{{ kind = \"transfer\", size = {size} }}")),
        1 => clients(),
        1 => paced_traffic(),
    ]
}

/// The keys of a `[[flows]]` table, without its ends.
fn flow(duration_ms: u32) -> BoxedStrategy<String> {
    let transport = prop_oneof![
        6 => (tcp(), (tcp_traffic(), prop::option::weighted(0.2, 8u32..5000)).prop_map(|(traffic, reader)| {
            traffic + &reader.map_or(String::new(), |rate| format!("\nreader = \"{rate} kbit/s\""))
        })),
        1 => (Just("\"udp\"".to_owned()), prop_oneof![4 => paced_traffic().boxed(), 1 => voice().boxed()]),
        1 => (rate_based(), prop_oneof![Just("\"ftp\"".to_owned()), paced_traffic()]),
    ];
    let times = prop_oneof![
        3 => (0..duration_ms / 2).prop_map(|at| format!("start = \"{at} ms\"")),
        3 => (1..duration_ms).prop_map(|to| format!("start = {{ uniform = [\"0 s\", \"{to} ms\"] }}")),
        1 => (0..duration_ms / 2, duration_ms / 2 + 1..duration_ms)
            .prop_map(|(start, stop)| format!("start = \"{start} ms\"\nstop = \"{stop} ms\"")),
    ];
    (transport, times)
        .prop_map(|((transport, traffic), times)| {
            format!("transport = {transport}\ntraffic = {traffic}\n{times}\n")
        })
        .boxed()
}

/// One direction of a call, as a flow.
fn calls(duration_ms: u32) -> impl Strategy<Value = String> {
    (voice(), 0..duration_ms / 2)
        .prop_map(|(voice, at)| format!("transport = \"udp\"\ntraffic = {voice}\nstart = \"{at} ms\"\n"))
}

/// What a flow offers: when its first packet leaves, the length of a transfer, and of datagrams when each leaves and
/// how long it is.
type Offers = (Option<Time>, Option<u64>, Vec<(Time, u16)>);

/// What the flows of the class `name` offer.
fn offered(text: &str, name: &str) -> BTreeMap<String, Offers> {
    let plan = plan_of(text);
    let run = run_of(&plan, EVERYTHING);
    let mut found = BTreeMap::new();
    for (flow, planned) in plan.flows.iter().enumerate() {
        let class = planned.name.split(['-', '.']).next();
        if class != Some(name) {
            continue;
        }
        let leaves_source = |record: &&HopRecord| {
            let link = &plan.links[record.direction as usize / 2];
            let from = if record.direction & 1 == 0 { link.from } else { link.to };
            record.flow as usize == flow && !record.back && from == planned.source
        };
        let sent: Vec<(Time, u16)> = (run.recorded.hops.iter().filter(leaves_source))
            .map(|record| (record.enqueued, record.payload))
            .collect();
        // A client opens further connections when it needs them, which depends on the network.
        let start = if planned.exchange.is_none() { sent.iter().map(|sent| sent.0).min() } else { None };
        let datagrams = if matches!(planned.transport, Transport::Udp(_)) { sent } else { Vec::new() };
        found.insert(planned.name.clone(), (start, run.world.length_of(flow), datagrams));
    }
    found
}

/// Flows that arrive one after another between the same hosts.
fn arrivals(duration_ms: u32) -> BoxedStrategy<String> {
    (flow(duration_ms), one_of(&["poisson", "periodic"]), 2..8u32)
        .prop_map(move |(flow, kind, count)| {
            let every = (duration_ms / (count + 1)).max(1);
            let own: Vec<&str> =
                flow.lines().filter(|line| !line.starts_with("start") && !line.starts_with("stop")).collect();
            format!(
                "{}\ncount = {count}\nstart = {{ arrivals = \"{kind}\", every = \"{every} ms\" }}\n",
                own.join("\n")
            )
        })
        .boxed()
}

fn dumbbell(duration_ms: u32, grain: Grain) -> BoxedStrategy<String> {
    let channel = (prop::option::of(error(0.3)), prop::option::weighted(0.3, handoff(duration_ms)));
    let flow = prop_oneof![6 => flow(duration_ms).boxed(), 1 => arrivals(duration_ms).boxed()];
    let directed = (flow, one_of(&["forward", "reverse"]));
    let links = (link_with_devices(50, 20_000, grain), link_with_devices(50, 5000, grain));
    (links, channel, prop::collection::vec(directed, 1..=8))
        .prop_map(|((bottleneck, access), (error, handoff), flows)| {
            let (in_one, in_other) = (bottleneck.join("\n"), access.join("\n"));
            let mut text = format!(
                "[topology]\nkind = \"dumbbell\"\n[topology.bottleneck]\n{in_one}\n\
                 [topology.access]\n{in_other}\n[channel]\n"
            );
            // The channel is that of the access links.
            let handoff = handoff.map(|handoff| possible_handoff(handoff, &access));
            for (key, value) in [("error", error), ("handoff", handoff)] {
                if let Some(value) = value {
                    let _ = writeln!(text, "{key} = {value}");
                }
            }
            for (number, (flow, direction)) in flows.into_iter().enumerate() {
                let _ = write!(text, "[[flows]]\nname = \"f{number}\"\ndirection = \"{direction}\"\n{flow}");
            }
            text
        })
        .boxed()
}

/// The `[[topology.links]]` and `[[flows]]` tables of a chain with a shortcut; flows between any two of its nodes.
fn graph(duration_ms: u32, grain: Grain) -> BoxedStrategy<(Vec<String>, String, String)> {
    let one_link = (
        link_with_devices(50, 5000, grain),
        prop::option::weighted(0.4, error(0.3)),
        prop::option::weighted(0.2, handoff(duration_ms)),
        prop::option::weighted(0.3, plain_link(50, 5000, grain)),
    );
    let reroute = (1..duration_ms, any::<bool>(), one_of(&["divert", "lose"]));
    let one_flow = (flow(duration_ms), 0usize..64, 0usize..64, prop::option::weighted(0.2, reroute));
    let flows = prop::collection::vec(one_flow, 1..=6);
    (prop::collection::vec(one_link, 1..=5), flows)
        .prop_map(|(links, flows)| {
            let nodes: Vec<String> = (0..=links.len()).map(|number| format!("n{number}")).collect();
            let (mut link_text, mut flow_text) = (String::new(), String::new());
            let last = links.len() - 1;
            for (number, (link, error, handoff, reverse)) in links.into_iter().enumerate() {
                // The last link of a longer chain goes back to the first node: a ring with a tail.
                let to = if number == last && last > 1 { 0 } else { number + 1 };
                let _ = writeln!(
                    link_text,
                    "[[topology.links]]\nfrom = \"n{number}\"\nto = \"n{to}\"\n{}",
                    link.join("\n")
                );
                // Some errors strike behind the retransmissions.
                let behind = link.iter().any(|key| key.starts_with("arq")) && number % 2 == 1;
                let error =
                    error.map(
                        |error| if behind { error.replace("after-transmission", "after-arq") } else { error },
                    );
                let handoff = handoff.map(|handoff| possible_handoff(handoff, &link));
                for (key, value) in [("error", error), ("handoff", handoff)] {
                    if let Some(value) = value {
                        let _ = writeln!(link_text, "{key} = {value}");
                    }
                }
                if let Some(reverse) = reverse {
                    let _ = writeln!(link_text, "reverse = {{ {} }}", reverse.join(", "));
                }
            }
            // In a ring the last node is the one before the closing link.
            let reachable = if last > 1 { nodes.len() - 1 } else { nodes.len() };
            for (number, (flow, from, step, reroute)) in flows.into_iter().enumerate() {
                let from = from % reachable;
                let to = (from + 1 + step % (reachable - 1)) % reachable;
                let reroute = reroute.filter(|_| last > 1).map(|(at, clockwise, under_way)| {
                    // Around the ring, one way or the other.
                    let step = if clockwise { 1 } else { reachable - 1 };
                    let mut path = vec![from];
                    while path.last() != Some(&to) {
                        path.push((path[path.len() - 1] + step) % reachable);
                    }
                    let path: Vec<String> = path.iter().map(|node| format!("n{node}")).collect();
                    format!(
                        "reroute = [{{ at = \"{at} ms\", nodes = {path:?}, under_way = \"{under_way}\" }}]\n"
                    )
                });
                let flow = flow + &reroute.unwrap_or_default();
                let _ = write!(
                    flow_text,
                    "[[flows]]\nname = \"f{number}\"\nsource = \"n{from}\"\nsink = \"n{to}\"\n{flow}"
                );
            }
            (nodes[..reachable].to_vec(), link_text, flow_text)
        })
        .boxed()
}

fn graph_text(nodes: &[String], links: &str, flows: &str) -> String {
    format!("[topology]\nkind = \"graph\"\nnodes = {nodes:?}\n{links}{flows}")
}

/// The radio of a cell.
fn radio() -> BoxedStrategy<String> {
    let rules = one_of(&[
        "",
        "profile = \"ns2\"\nrate = \"11 Mbit/s\"",
        "rts_threshold = \"300 B\"",
        "phy = \"802.11g\"\nprotection = true",
        "phy = \"802.11n\"\nfrequency = 2412\nmcs = 0\nprotection = true",
        "phy = \"802.11ax\"\nfrequency = 2412\nrate_control = \"minstrel-ht\"\naggregation = { tries = 2, \
         window = 16 }",
        "phy = \"802.11a\"\nrate_control = \"minstrel\"\nnoise_figure = 7",
        "sense_threshold = -64.38\nrate_control = \"arf\"\nbeacon = \"50 ms\"",
        "message_in_message = true\ncapture = 3\nprocessing = \"40 us\"",
        "propagation = { kind = \"log-distance\", shadowing = 6 }\nreceive_threshold = -78",
    ]);
    let discards =
        one_of(&["\"attempts\"", "\"frames\"", "\"received\"", "{ rate = \"1 Mbit/s\", size = \"1000 B\" }"]);
    (rules, queue(), prop::option::weighted(0.4, error(0.2)), discards)
        .prop_map(|(rules, queue, error, discards)| {
            let error = error.map(|error| format!("error = {error}\n")).unwrap_or_default();
            format!("{rules}\nqueue = {queue}\n{error}discards = {discards}\n")
        })
        .boxed()
}

/// Two access points on one wire each, with stations around one of them and a host between both that may go from one to
/// the other; flows between a server and any of them.
fn cells(duration_ms: u32) -> BoxedStrategy<String> {
    let station = (-90i32..90, -90i32..90);
    let roaming = (one_of(&["drop", "forward", "hold"]), 1u32..200, 20i32..180, any::<bool>());
    let one_flow = (flow(duration_ms), 0usize..8, any::<bool>());
    let wire = plain_link(500, 20_000, Grain::Fine);
    (
        (radio(), wire, any::<bool>(), any::<bool>()),
        prop::collection::vec(station, 0..5),
        prop::option::of(roaming),
        prop::collection::vec(one_flow, 1..=6),
    )
        .prop_map(move |((radio, wire, shared, acknowledges), stations, roaming, flows)| {
            let walks = roaming.as_ref().map(|&(_, _, to, _)| {
                format!(", track = [{{ at = \"{} ms\", position = [{to}, 0] }}]", duration_ms * 2 / 3)
            });
            let walker = format!("{{ node = \"h0\", position = [90, 0]{} }}", walks.unwrap_or_default());
            let mut members = vec![walker.clone()];
            let mut nodes = vec!["server".to_owned(), "west".to_owned(), "east".to_owned(), "h0".to_owned()];
            for ((x, y), number) in stations.into_iter().zip(1..) {
                members.push(format!("{{ node = \"h{number}\", position = [{x}, {y}] }}"));
                nodes.push(format!("h{number}"));
            }
            let wire = wire.join("\n");
            let helpers = if acknowledges && roaming.is_none() { "helpers = [\"fastack\"]\n" } else { "" };
            let mut text = format!("{helpers}[topology]\nkind = \"graph\"\nnodes = {nodes:?}\n");
            for to in ["west", "east"] {
                let _ = writeln!(text, "[[topology.links]]\nfrom = \"server\"\nto = \"{to}\"\n{wire}");
            }
            let other = if shared { 1 } else { 6 };
            for (name, x, channel, members) in
                [("west", 0, 1, members.join(", ")), ("east", 200, other, walker)]
            {
                let _ = writeln!(
                    text,
                    "[[topology.cells]]\naccess_point = \"{name}\"\nposition = [{x}, 0]\nchannel = {channel}\n\
                     stations = [{members}]\n{radio}"
                );
            }
            if let Some((queue, delay, _, warns)) = roaming {
                let warning = if warns { "warning = \"20 ms\"\n" } else { "" };
                let _ = write!(
                    text,
                    "[[topology.roaming]]\nhost = \"h0\"\nqueue = \"{queue}\"\ndelay = \"{delay} ms\"\n{warning}"
                );
            }
            for (number, (flow, host, upward)) in flows.into_iter().enumerate() {
                let host = format!("h{}", host % (nodes.len() - 3));
                let (source, sink) = if upward { (host.as_str(), "server") } else { ("server", host.as_str()) };
                let _ = write!(
                    text,
                    "[[flows]]\nname = \"f{number}\"\nsource = \"{source}\"\nsink = \"{sink}\"\n{flow}"
                );
            }
            text
        }).boxed()
}

/// A server behind a base station with up to four users whose channels change; flows in both directions.
fn cellular(duration_ms: u32) -> BoxedStrategy<String> {
    let journey = (100u32..duration_ms.max(101), 0u32..100, any::<bool>());
    let user = (0u32..16, prop::option::of((1..duration_ms, 0u32..16)), prop::option::of(journey));
    let one_flow = (flow(duration_ms), 0usize..4, any::<bool>());
    let cell = (
        one_of(&["proportional-fair", "round-robin", "max-ci"]),
        queue(),
        (1u32..101, prop_oneof![Just(500u32), Just(1000), 100u32..3000]),
        (1u32..20, 0u32..20, 0u32..20, 0u32..30),
        (
            one_of(&["[0]", "[0.1, 0.1, 0.1, 0.1]", "[0.5, 0.5]", "[0.9]", "[1, 1]"]),
            one_of(&[
                "\"acknowledged\"",
                "\"unacknowledged\"",
                "{ kind = \"acknowledged\", status_prohibit = \"0 ms\", poll_pdus = 1, max_retransmissions = 2 }",
            ]),
            1u32..12,
            prop::option::of((2u32..60, 1u32..30, 0u32..20)),
        ),
    );
    let wire = plain_link(500, 50_000, Grain::Fine);
    (wire, cell, prop::collection::vec(user, 4), prop::collection::vec(one_flow, 1..=6))
        .prop_map(|(wire, (scheduler, queue, (blocks, tti), times, (errors, rlc, harq, drx)), users, flows)| {
            let users = users.into_iter().zip(0..).map(|((start, change, journey), number)| {
                let journey = journey.map_or_else(String::new, |(every, interruption, forwarding)| {
                    format!(
                        ", handovers = {{ every = \"{every} ms\", interruption = \"{interruption} ms\", \
                         forwarding = {forwarding} }}"
                    )
                });
                let change = change.map(|(at, cqi)| format!(", changes = [{{ at = \"{at} ms\", cqi = {cqi} }}]"));
                let change = change.unwrap_or_default();
                format!("{{ node = \"h{number}\", cqi = {{ start = {start}{change} }}{journey} }}")
            });
            let users = users.collect::<Vec<_>>().join(", ");
            let (interval, delay, request, grant) = times;
            // In TTIs.
            let drx = drx.map_or_else(String::new, |(cycle, on, inactivity)| {
                let [cycle, on, inactivity] = [cycle.max(on + 1), on, inactivity].map(|ttis| ttis * tti);
                format!("drx = {{ cycle = \"{cycle} us\", on = \"{on} us\", inactivity = \"{inactivity} us\" }}")
            });
            let mut text = format!(
                "[topology]\nkind = \"graph\"\nnodes = [\"server\", \"base\", \"h0\", \"h1\", \"h2\", \"h3\"]\n\
                 [[topology.links]]\nfrom = \"server\"\nto = \"base\"\n{}\n\
                 [[topology.cellular]]\nbase = \"base\"\nusers = [{users}]\nscheduler = \"{scheduler}\"\n\
                 queue = {queue}\nresource_blocks = {blocks}\ntti = \"{tti} us\"\n\
                 report_interval = \"{interval} ms\"\nreport_delay = \"{delay} ms\"\n\
                 request_interval = \"{request} ms\"\ngrant_delay = \"{grant} ms\"\n\
                 block_errors = {errors}\nrlc = {rlc}\nharq_delay = \"{harq} ms\"\n{drx}\n",
                wire.join("\n")
            );
            for (number, (flow, host, upward)) in flows.into_iter().enumerate() {
                let host = format!("h{host}");
                let (source, sink) = if upward { (host.as_str(), "server") } else { ("server", host.as_str()) };
                let _ = write!(
                    text,
                    "[[flows]]\nname = \"f{number}\"\nsource = \"{source}\"\nsink = \"{sink}\"\n{flow}"
                );
            }
            text
        })
        .boxed()
}

/// Opening of a scenario; the limits turn a run without end into a failure.
fn head(duration_ms: u32, seed: u64, warmup_ms: u32) -> String {
    format!(
        "duration = \"{duration_ms} ms\"\nseed = {seed}\nwarmup = \"{warmup_ms} ms\"\n\
         limits = {{ events = 30_000_000, wall_time = \"100 s\" }}\n"
    )
}

fn duration_ms() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 500u32..4000, 1 => 4000u32..20_000]
}

fn grain() -> impl Strategy<Value = Grain> {
    prop_oneof![2 => Just(Grain::Fine), 1 => Just(Grain::Coarse)]
}

/// The scenario with a middlebox that does nothing in place of every agent, if one of them stands where it sees no
/// flow, only ends of flows, no ACKs, or no timestamps: such scenarios are refused.
fn standing(text: String) -> String {
    const MISPLACED: [&str; 5] = [
        "at which a snoop stands",
        "a snoop at link",
        "works by timestamps",
        "at which a wtcp stands",
        "a wtcp at link",
    ];
    let error = Scenario::parse(&text, Format::Toml, "test", &[]).err();
    let is_misplaced =
        error.is_some_and(|error| MISPLACED.iter().any(|part| error.to_string().contains(part)));
    if is_misplaced { without_agents(&text) } else { text }
}

fn without_agents(text: &str) -> String {
    let text = text.replace("{ kind = \"wtcp\"", "{ kind = \"snoop\"");
    let mut parts = text.split("{ kind = \"snoop\"");
    let mut replaced = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.split_once('}').map_or("", |(_, rest)| rest);
        replaced += "{ kind = \"impair\" }";
        replaced += rest;
    }
    replaced
}

/// A scenario of any kind.
fn scenario_of(grain: Grain) -> BoxedStrategy<String> {
    duration_ms().prop_flat_map(move |duration| {
        let body = prop_oneof![
            3 => dumbbell(duration, grain),
            1 => cells(duration.min(4000)),
            1 => cellular(duration),
            3 => graph(duration, grain).prop_map(|(nodes, links, flows)| graph_text(&nodes, &links, &flows)),
        ];
        let processing = prop_oneof![2 => Just(0u32), 1 => 1u32..3000];
        (0u64..1000, 0..duration / 2, processing, body).prop_map(move |(seed, warmup, processing, body)| {
            let processing = format!("processing_time = \"{processing} us\"\n");
            standing(head(duration, seed, warmup) + &processing + &body)
        })
    }).boxed()
}

fn scenario() -> BoxedStrategy<String> {
    grain().prop_flat_map(scenario_of).boxed()
}

fn run_of(plan: &Plan, recording: Recording) -> Run {
    run_plan(plan, plan.seed, recording)
}

// ---------------------------------------------------------------------------------------------------------------------
// What must hold at the end of a run

/// A receiver as simple as can be: which bytes are there, and the first that is missing. The SYN is byte 0.
#[derive(Default)]
struct Model {
    next: u64,
    /// Ranges beyond `next`, start to end.
    ahead: BTreeMap<u64, u64>,
    /// One past the FIN.
    fin: Option<u64>,
    /// Payload handed to the application within the measured time.
    delivered: u64,
}

impl Model {
    fn take(&mut self, record: &HopRecord, counts: bool) {
        // A SYN and a FIN take a sequence number each.
        let (syn, fin) = (record.kind == Kind::Syn, record.kind == Kind::Fin);
        let end = record.seq + u64::from(record.payload) + u64::from(syn) + u64::from(fin);
        if fin {
            self.fin = Some(end);
        }
        if end > self.next {
            let known = self.ahead.entry(record.seq).or_insert(end);
            *known = end.max(*known);
        }
        let before = self.next;
        while let Some((&start, &end)) = self.ahead.first_key_value()
            && start <= self.next
        {
            self.next = self.next.max(end);
            self.ahead.remove(&start);
        }
        if counts {
            let no_data = u64::from(before == 0 && self.next > 0)
                + u64::from(before < self.next && self.fin == Some(self.next));
            self.delivered += self.next - before - no_data;
        }
    }

    /// Whether every byte of the range is here.
    fn has(&self, start: u64, end: u64) -> bool {
        let mut at = start;
        if at < self.next {
            at = self.next;
        }
        for (&start, &end) in &self.ahead {
            if start <= at {
                at = at.max(end);
            }
        }
        at >= end
    }
}

/// Frames follow each other in time and in the stream, and nothing is sent before or beyond what was written.
fn check_frames(plan: &Plan, run: &Run, flow: usize, trace: &[HopRecord]) {
    let offered = plan.flows[flow].traffic.offered();
    if offered.video().is_none() && offered.encoder().is_none() {
        return;
    }
    let (name, frames) = (&plan.flows[flow].name, run.world.frames(flow));
    for pair in frames.windows(2) {
        assert!(pair[0].end <= pair[1].end && pair[0].at < pair[1].at, "{name}: {pair:?}");
    }
    // Bytes of TCP are numbered from 1, those of others from 0.
    let first = u64::from(matches!(run.world.senders[flow], Endpoint::TcpSender(_)));
    let is_data = |record: &&HopRecord| matches!(record.kind, Kind::Data | Kind::Fin | Kind::Udp);
    for record in trace.iter().filter(|record| record.flow as usize == flow).filter(is_data) {
        let end = record.seq + u64::from(record.payload) - first;
        let written = frames.partition_point(|frame| frame.at <= record.enqueued);
        let written = written.checked_sub(1).map_or(0, |last| frames[last].end);
        assert!(end <= written, "{name}: byte {end} sent at {}, but {written} written", record.enqueued);
    }
}

/// Whether something stands between a node and the links that leave it. A trace knows links only: what leaves the node
/// then is not what passes there.
fn has_middleboxes(plan: &Plan, node: usize) -> bool {
    let ends = plan.links.iter().flat_map(|link| [(link.from, &link.forward), (link.to, &link.reverse)]);
    ends.into_iter().any(|(from, direction)| from == node && !direction.middleboxes.is_empty())
}

/// What a packet that has crossed a link still takes through the link layers of agents at its far end.
fn behind_link(plan: &Plan, record: &HopRecord) -> Span {
    let link = &plan.links[record.direction as usize / 2];
    let back = if record.direction & 1 == 0 { &link.reverse } else { &link.forward };
    back.middleboxes.iter().fold(Span::ZERO, |sum, middlebox| match middlebox {
        Middlebox::Snoop(agent) => sum + agent.link_layer_delay,
        _ => sum,
    })
}

/// The trace against the model: every ACK says what has arrived, and what was counted as delivered is the
/// stream, once.
fn check_flow(plan: &Plan, run: &Run, flow: usize, trace: &[HopRecord]) {
    let end = Time::ZERO + plan.duration;
    let from = Time::ZERO + plan.warmup;
    let name = &plan.flows[flow].name;
    let sink = plan.flows[flow].sink;
    // Where the direction of a record starts and where it ends.
    let ends = |record: &HopRecord| {
        let link = &plan.links[record.direction as usize / 2];
        if record.direction & 1 == 0 { (link.from, link.to) } else { (link.to, link.from) }
    };
    let is_answer = |record: &&HopRecord| record.back && ends(record).0 == sink;
    let of_flow = || trace.iter().filter(|record| record.flow as usize == flow);
    let mut arrivals: Vec<&HopRecord> = of_flow()
        .filter(|record| matches!(record.kind, Kind::Syn | Kind::Data | Kind::Fin) && ends(record).1 == sink)
        .filter(|record| record.arrived.is_some())
        .collect();
    arrivals.sort_by_key(|record| record.arrived);
    if may_refuse(plan, flow, &arrivals) {
        return check_frames(plan, run, flow, trace);
    }
    let mut answers: Vec<&HopRecord> = of_flow().filter(is_answer).collect();
    // What is under way to a host that changes its access point turns, and may pass the sink once more.
    let turns = plan.roaming.iter().any(|roaming| [sink, plan.flows[flow].source].contains(&roaming.host));
    if has_middleboxes(plan, sink) || turns {
        answers.clear();
    }
    answers.sort_by_key(|record| (record.enqueued, record.packet));

    let mut model = Model::default();
    // What had arrived in order at some time of this instant: a delayed ACK may be due before the packets that come,
    // and a link that keeps order hands over several together.
    let (mut instant, mut reached) = (Time::ZERO, vec![0]);
    let mut arrivals = arrivals.into_iter().peekable();
    for answer in answers {
        if answer.enqueued > instant {
            instant = answer.enqueued;
            reached = vec![model.next];
        }
        while let Some(record) = arrivals.next_if(|record| record.arrived <= Some(instant)) {
            model.take(record, record.arrived >= Some(from) && record.arrived < Some(end));
            if record.arrived < Some(instant) {
                reached.clear();
            }
            reached.push(model.next);
        }
        let ack = answer.ack;
        assert!(reached.contains(&ack), "{name}: ACK {ack}, but {reached:?} has arrived");
        for &(start, end) in answer.sack.as_slice() {
            assert!(start < end && model.has(start, end), "{name}: SACK of {start}..{end} without data");
        }
        reached.retain(|&next| next >= ack);
    }
    for record in arrivals {
        let at = record.arrived.map(|at| at + behind_link(plan, record));
        model.take(record, at >= Some(from) && at < Some(end));
    }
    let delivered = run.world.network.flows[flow].bytes_delivered;
    assert_eq!(delivered, model.delivered, "{name}: bytes that the application got");

    check_frames(plan, run, flow, trace);
    let Endpoint::TcpSender(sender) = &run.world.senders[flow] else { return };
    let Some(written) = plan.flows[flow].traffic.given_length() else { return };
    for record in of_flow().filter(|record| matches!(record.kind, Kind::Data | Kind::Fin)) {
        let last = record.seq + u64::from(record.payload);
        assert!(last <= 1 + written, "{name}: byte {last} of {written} sent");
    }
    if sender.stats.completed.is_some() && plan.flows[flow].stop.is_none() {
        assert!(model.next > written, "{name}: complete, but only {} of {written} arrived", model.next);
    }
}

fn has(plan: &Plan, is_meant: impl Fn(&Middlebox) -> bool) -> bool {
    let directions = plan.links.iter().flat_map(|link| [&link.forward, &link.reverse]);
    directions.flat_map(|direction| &direction.middleboxes).any(is_meant)
}

/// Everything that holds at the end of any run recorded with [`EVERYTHING`].
fn check(plan: &Plan, run: &Run) {
    let network = &run.world.network;
    assert!(network.ledger.balances(), "{:?}", network.ledger);
    for record in &run.recorded.windows {
        // Half a segment after a fast retransmission in ns-2, and none in its Vegas, until the timer expires.
        let transport = &plan.flows[record.flow as usize].transport;
        let ns2 = matches!(transport, Transport::Tcp(config) if config.profile == Profile::Ns2);
        let least = if ns2 { 0.0 } else { 1.0 };
        assert!(record.cwnd >= least && record.cwnd.is_finite(), "{record:?}");
        assert!(record.ssthresh >= 1.0, "{record:?}");
    }
    let trace = &run.recorded.hops;
    let lost = |cause: Cause| trace.iter().filter(|record| record.lost == Some(cause)).count() as u64;
    for cause in
        [Cause::QueueOverflow, Cause::ChannelError, Cause::Outage, Cause::LinkGaveUp, Cause::EarlyDrop]
    {
        let dropped = network.ledger.dropped[cause as usize];
        // WTCP has a buffer of its own, and L4Span drops before the queues of links.
        let may_be_elsewhere = match cause {
            Cause::QueueOverflow => has(plan, |one| matches!(one, Middlebox::Wtcp(_))),
            Cause::EarlyDrop => has(plan, |one| matches!(one, Middlebox::L4Span(_))),
            _ => false,
        };
        let elsewhere = if may_be_elsewhere { dropped.saturating_sub(lost(cause)) } else { 0 };
        assert_eq!(lost(cause) + elsewhere, dropped, "{}", cause.name());
    }
    // What turns at an access point that its host has left has crossed nothing.
    assert!(trace.len() as u64 <= network.packet_hops);
    assert!(trace.len() as u64 == network.packet_hops || !plan.roaming.is_empty());
    for (flow, sender) in run.world.senders.iter().enumerate() {
        if matches!(sender, Endpoint::TcpSender(_)) {
            check_flow(plan, run, flow, trace);
        }
    }
    let summary = &run.summary;
    for link in &summary.links {
        assert!((0.0..=1.000_001).contains(&link.utilisation), "{}: {}", link.name, link.utilisation);
        assert!(link.avg_queue_packets.is_none_or(|queue| queue >= 0.0 && queue.is_finite()));
    }
    assert!(summary.totals.jain_index.is_none_or(|index| (0.0..=1.000_001).contains(&index)));
    // No flow receives more than the links to its sink can carry beside what they held when the measurement began: what
    // was on the way, and the window of a link that retransmits.
    for (flow, planned) in summary.flows.iter().zip(&plan.flows) {
        let ends = plan.links.iter().flat_map(|link| [(link.to, &link.forward), (link.from, &link.reverse)]);
        let into = ends.filter(|&(end, _)| end == planned.sink).map(|(_, direction)| direction);
        let (mut capacity, mut held) = (0.0, 0.0);
        for direction in into {
            let rates = direction.rate_changes.iter().map(|change| change.1.0).chain([direction.rate.0]);
            let rate = rates.max().unwrap_or_default() as f64;
            let frames = direction.arq.as_ref().map_or(1, |arq| arq.window);
            capacity += rate;
            held += rate * direction.delay.seconds() + 8.0 * f64::from(frames) * f64::from(direction.mtu);
        }
        let measured = (plan.duration - plan.warmup).seconds();
        let received = flow.throughput_bit_s * measured;
        assert!(received <= capacity * measured + held, "{}: {received} bits at {capacity} bit/s", flow.name);
    }
}

/// Options of real-time metrics: threshold in ms and the choices.
fn realtime_options() -> impl Strategy<Value = RealtimePlan> {
    let choices = (0..Missing::NAMES.len(), any::<bool>(), any::<bool>(), any::<bool>());
    (1u64..300, choices, prop::option::of(1u64..4_000_000)).prop_map(|(threshold_ms, choices, target)| {
        let (missing, at_application, counted, generated) = choices;
        RealtimePlan {
            threshold: Span::from_millis(threshold_ms),
            missing: Missing::named(Missing::NAMES[missing]).unwrap(),
            arrival: if at_application { ArrivalPoint::Application } else { ArrivalPoint::Transport },
            duplicates: if counted { Duplicates::Counted } else { Duplicates::Ignored },
            sent: if generated { SentCount::Generated } else { SentCount::Transmitted },
            delayed_over: DelayedOver::Sent,
            success: vec![1, 50, 100],
            target: target.map(Rate),
            slot: Span::from_millis(200),
            playout: Span::from_millis(300),
            rebuffer: Span::from_millis(100),
        }
    })
}

/// What arrived at the sink of `flow` and when: first and last byte, first and present transmission.
fn data_arrivals<'a>(plan: &'a Plan, run: &'a Run, flow: usize) -> Vec<&'a HopRecord> {
    let sink = plan.flows[flow].sink;
    let end_of = |record: &HopRecord| {
        let link = &plan.links[record.direction as usize / 2];
        if record.direction & 1 == 0 { link.to } else { link.from }
    };
    let trace = &run.recorded.hops;
    let mut arrivals: Vec<&HopRecord> = trace
        .iter()
        .filter(|record| record.flow as usize == flow && !record.back && record.payload > 0)
        .filter(|record| record.arrived.is_some() && end_of(record) == sink)
        .collect();
    arrivals.sort_by_key(|record| record.arrived);
    arrivals
}

/// Whether a receiver of Linux may have thrown a segment away, because one that was sent more than a tick of the
/// timestamps later had come before (RFC 7323 section 5.3, R1). The models take whatever arrives.
fn may_refuse(plan: &Plan, flow: usize, arrivals: &[&HopRecord]) -> bool {
    let Transport::Tcp(config) = &plan.flows[flow].transport else { return false };
    let mut latest = Time::ZERO;
    config.profile == Profile::Linux
        && config.timestamps
        && arrivals.iter().any(|record| {
            latest = latest.max(record.stamp);
            record.stamp + Span::from_millis(1) < latest
        })
}

/// Algorithm 1 word for word over a trace, at the transport and without duplicates: received and delayed packets.
/// `None` where segments overlap in part, as those have no numbers, and where the receiver may not have taken all.
fn delayed_by_trace(plan: &Plan, run: &Run, flow: usize, options: &RealtimePlan) -> Option<(u64, u64)> {
    let (from, end) = (Time::ZERO + plan.warmup, Time::ZERO + plan.duration);
    let first_byte = plan.flows[flow].transport.first_byte();
    let mut times: BTreeMap<u64, (u64, Time)> = BTreeMap::new();
    let mut first_sent: BTreeMap<u64, Time> = BTreeMap::new();
    let trace = &run.recorded.hops;
    let is_data = |record: &&HopRecord| !record.back && record.payload > 0;
    for record in trace.iter().filter(|record| record.flow as usize == flow).filter(is_data) {
        let sent = first_sent.entry(record.seq).or_insert(record.stamp);
        *sent = record.stamp.min(*sent);
    }
    let (mut received, mut delayed, mut last) = (0, 0, None);
    let arrivals = data_arrivals(plan, run, flow);
    if may_refuse(plan, flow, &arrivals) {
        return None;
    }
    for record in arrivals {
        let (start, behind, now) = (record.seq, record.seq + u64::from(record.payload), record.arrived?);
        if now >= end {
            continue;
        }
        match times.get(&start) {
            Some(&(known, _)) if known == behind => continue,
            Some(_) => return None,
            None => {}
        }
        let below = times.range(..start).next_back().map(|(_, &lower)| lower);
        if below.is_some_and(|(lower_end, _)| lower_end > start)
            || times.range(start..behind).next().is_some()
        {
            return None;
        }
        let predecessor = below.filter(|&(lower_end, _)| lower_end == start).map(|(_, time)| time);
        let neighbour = predecessor.or(match options.missing {
            Missing::NextLower => below.map(|(_, time)| time),
            Missing::Literal => Some(Time::ZERO),
            Missing::LastArrival => last,
        });
        let is_late =
            start != first_byte && neighbour.is_some_and(|then| now.0 - then.0 > options.threshold.0);
        if (from..end).contains(&first_sent[&start]) {
            received += 1;
            delayed += u64::from(is_late);
        }
        times.insert(start, (behind, now));
        last = Some(now);
    }
    Some((received, delayed))
}

/// What a frame says of itself, without the packet in it: one that has been delivered is known from the record of its
/// sender alone. Levels that were never known are no numbers, and not equal.
fn unpacked(frame: &FrameRecord) -> String {
    format!("{:?}", FrameRecord { packet: None, ..*frame })
}

/// What real-time metrics promise, with any options.
fn check_realtime(plan: &Plan, run: &Run, options: &RealtimePlan) {
    for (index, (flow, planned)) in run.summary.flows.iter().zip(&plan.flows).enumerate() {
        let found = flow.realtime.as_ref().unwrap();
        let name = &flow.name;
        assert_eq!(found.timely_packets + found.delayed_packets, found.received_packets, "{name}");
        // Interval by interval, what is in time is a part of what is known.
        let rows = run.recorded.flows.iter();
        for row in rows.filter(|row| row.sample.flow as usize == index) {
            let timely = row.timely.unwrap();
            assert!(timely.arrived <= timely.settled, "{name}: {row:?}");
        }
        assert!(found.transmitted_packets <= found.transmissions, "{name}: {found:?}");
        // Of a packet that a middlebox doubles or repeats, one may be lost and the other arrive.
        let is_doubled = plan.links.iter().flat_map(|link| [&link.forward, &link.reverse]).any(|direction| {
            let doubles = |middlebox: &Middlebox| match middlebox {
                Middlebox::Impair(one) => one.duplicate > 0.0,
                Middlebox::Snoop(_) | Middlebox::Wtcp(_) | Middlebox::FastAck(_) => true,
                _ => false,
            };
            direction.middleboxes.iter().any(doubles)
        });
        assert!(is_doubled || found.lost_transmissions <= found.transmissions, "{name}: {found:?}");
        assert!(found.generated_packets.is_none_or(|count| count >= found.transmitted_packets), "{name}");
        for share in found.success.0.iter().filter_map(|&(_, share)| share) {
            assert!((0.0..=100.0).contains(&share), "{name}: {found:?}");
        }
        if let Some(call) = &flow.call {
            let delays = [call.frame_delay_p50_s, call.frame_delay_p95_s, call.frame_delay_p99_s];
            assert!(delays.is_sorted() && call.frames_lost <= Some(call.frames), "{name}: {call:?}");
            let shown = call.frames_lost.map(|lost| call.frames - lost);
            assert_eq!(shown.is_some_and(|shown| shown > 0), delays[0].is_some(), "{name}: {call:?}");
            assert!(call.freeze_s.is_none_or(|time| time <= run.summary.measured_s), "{name}: {call:?}");
        }
        if let Some(repair) = run.summary.flows[index].repair.as_deref() {
            let known = repair.overtaken_packets
                + repair.repeated_packets
                + repair.recovered_packets
                + repair.given_up_packets;
            assert!(known <= repair.missing_packets, "{name}: {repair:?}");
            assert!(repair.late_packets <= repair.given_up_packets, "{name}: {repair:?}");
        }
        if options.duplicates == Duplicates::Counted {
            continue;
        }
        assert!(found.received_packets <= found.transmitted_packets, "{name}: {found:?}");
        assert!(found.realtime_index.is_none_or(|index| index <= 1.0), "{name}: {found:?}");
        // What FEC makes arrives, and no trace has it.
        let recovers =
            flow.repair.as_ref().is_some_and(|repair| repair.recovered_packets + repair.late_packets > 0);
        if options.arrival == ArrivalPoint::Transport
            && !recovers
            && !(0..plan.nodes.len()).any(|node| has_middleboxes(plan, node))
            && let Some(counts) = delayed_by_trace(plan, run, index, options)
        {
            assert_eq!((found.received_packets, found.delayed_packets), counts, "{name}: Algorithm 1");
        }
        if matches!(planned.transport, Transport::Udp(_)) && !is_doubled {
            let settled = found.received_packets + found.lost_transmissions;
            assert!(settled <= found.transmitted_packets, "{name}: {found:?}");
            if run.world.network.ledger.in_flight == 0 {
                // The window ends before the moment at which the run does.
                let end = Time::ZERO + plan.duration;
                let arrivals = data_arrivals(plan, run, index);
                let at_the_end = arrivals.iter().filter(|record| record.arrived == Some(end)).count() as u64;
                assert_eq!(settled + at_the_end, found.transmitted_packets, "{name}: {found:?}");
            }
        }
    }
}

/// The summary as JSON without the times that the machine took.
fn figures(run: &Run) -> String {
    let mut summary = run.summary.clone();
    (summary.wall_s, summary.set_up_s) = (0.0, 0.0);
    serde_json::to_string(&summary).unwrap()
}

fn cases(count: u32) -> ProptestConfig {
    // `PROPTEST_CASES` searches further.
    let default = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { default.cases } else { count };
    ProptestConfig { cases, max_shrink_iters: 500, failure_persistence: None, ..default }
}

proptest! {
    #![proptest_config(cases(3000))]

    /// No panic, no hang, and everything that [`check`] asks for.
    #[test]
    fn what_holds_on_every_scenario(text in scenario()) {
        let plan = plan_of(&text);
        check(&plan, &run_of(&plan, EVERYTHING));
    }
}

/// The same run twice: links and receivers evaluated as early as possible, and each at its time.
fn check_evaluation(text: &str) {
    let plan = plan_of(text);
    let evaluated = |evaluation| {
        let mut run = run_evaluated(&plan, plan.seed, (TRACE, evaluation), &Progress::default())
            .unwrap_or_else(|error| panic!("{error}\n{text}"));
        // Waiting takes events, and nothing else.
        run.summary.events = 0;
        run
    };
    let [eager, clocked] = [Evaluation::Eager, Evaluation::Clocked].map(evaluated);
    assert_eq!(eager.world.network.ledger, clocked.world.network.ledger, "{text}");
    assert_eq!(eager.summary.fingerprint, clocked.summary.fingerprint, "{text}");
    assert_eq!(figures(&eager), figures(&clocked), "{text}");
}

proptest! {
    #![proptest_config(cases(400))]

    /// Evaluating ahead of the clock is a way to be fast and changes nothing.
    #[test]
    fn eager_evaluation_changes_nothing(text in scenario_of(Grain::Fine)) {
        check_evaluation(&text);
    }

    /// Nor does it when many things happen at the same moment.
    #[test]
    fn eager_evaluation_changes_nothing_in_ties(text in scenario_of(Grain::Coarse)) {
        check_evaluation(&text);
    }
}

proptest! {
    #![proptest_config(cases(1000))]

    /// Real-time metrics are right whatever their options, and measuring them changes nothing.
    #[test]
    fn what_holds_of_real_time_metrics(text in scenario(), options in realtime_options()) {
        let mut plan = plan_of(&text);
        let before = run_of(&plan, Recording::default());
        for flow in &mut plan.flows {
            flow.realtime = Some(Box::new(options.clone()));
        }
        let run = run_of(&plan, EVERYTHING);
        prop_assert_eq!(&run.summary.fingerprint, &before.summary.fingerprint);
        check_realtime(&plan, &run, &options);
    }
}

proptest! {
    #![proptest_config(cases(500))]

    /// Twice in one process, on several threads, and with or without recording: the same run.
    #[test]
    fn same_seed_same_run(text in scenario()) {
        let plan = plan_of(&text);
        let first = run_of(&plan, Recording::default());
        prop_assert_eq!(figures(&first), figures(&run_of(&plan, Recording::default())));
        let recorded = run_of(&plan, Recording { series: false, trace: true, frames: Frames::All });
        prop_assert_eq!(figures(&first), figures(&recorded));
        // Collisions alone are those among all frames.
        let meant = run_of(&plan, Recording { series: false, trace: true, frames: Frames::Collided });
        prop_assert_eq!(figures(&first), figures(&meant));
        let collided = |frame: &&FrameRecord| frame.to == Some(frame.at) && frame.outcome == FrameOutcome::Collided;
        let among: Vec<_> = recorded.recorded.frames.iter().filter(collided).map(unpacked).collect();
        let alone: Vec<_> = meant.recorded.frames.iter().map(unpacked).collect();
        prop_assert_eq!(among, alone);
        let series = run_of(&plan, Recording { series: true, trace: false, frames: Frames::None });
        prop_assert_eq!(&first.summary.fingerprint, &series.summary.fingerprint);
        let on_threads: Vec<String> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..3).map(|_| scope.spawn(|| figures(&run_of(&plan, Recording::default())))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for other in on_threads {
            prop_assert_eq!(figures(&first), other);
        }
    }

    /// A flow on links of its own leaves the others as they were, packet for packet: starting times, clock phases,
    /// losses, random outages and random traffic.
    #[test]
    fn an_added_flow_elsewhere_changes_nothing(
        (duration, (nodes, links, flows), extra, first) in duration_ms().prop_flat_map(|duration| {
            let network = grain().prop_flat_map(move |grain| graph(duration, grain));
            (Just(duration), network, (flow(duration), error(0.3)), any::<bool>())
        }),
        seed in 0u64..1000,
    ) {
        let (flow, error) = extra;
        let network = head(duration, seed, 0) + &graph_text(&nodes, &links, &flows);
        let alone = standing(network.clone());
        let links = if alone == network { links } else { without_agents(&links) };
        let mut more = nodes;
        more.extend(["x".to_owned(), "y".to_owned()]);
        let link = format!(
            "[[topology.links]]\nfrom = \"x\"\nto = \"y\"\nrate = \"1 Mbit/s\"\ndelay = \"5 ms\"\nerror = {error}\n"
        );
        let flow = format!("[[flows]]\nname = \"extra\"\nsource = \"x\"\nsink = \"y\"\n{flow}");
        // In front or behind: the place in the file does not matter either.
        let together = if first {
            graph_text(&more, &(link + &links), &(flow + &flows))
        } else {
            graph_text(&more, &(links + &link), &(flows + &flow))
        };
        let together = head(duration, seed, 0) + &together;
        let occurrences = |text: &str| {
            let plan = plan_of(text);
            let run = run_of(&plan, EVERYTHING);
            let mut hops = BTreeMap::new();
            for record in &run.recorded.hops {
                let link = (plan.links[record.direction as usize / 2].name.clone(), record.direction % 2);
                let flow = &plan.flows[record.flow as usize].name;
                // Connections of a client have its name in front.
                if flow.split('.').next() != Some("extra") {
                    let what = (record.kind, record.seq, record.ack, record.enqueued, record.arrived, record.lost);
                    hops.entry((link, flow.clone())).or_insert_with(Vec::new).push(what);
                }
            }
            hops
        };
        prop_assert_eq!(occurrences(&alone), occurrences(&together));
    }

    /// A class of traffic that shares the way, in front or behind, changes nothing of what the applications of the
    /// others offer: their starts, the lengths of transfers, and the datagrams that leave by a clock of their own.
    #[test]
    fn an_added_class_leaves_what_others_offer_alone(
        (one, two) in (2000u32..6000).prop_flat_map(|duration| {
            let class = || prop_oneof![flow(duration).boxed(), arrivals(duration).boxed(), calls(duration).boxed()];
            (class(), class())
        }),
        count in 1u32..4, seed in 0u64..1000, access in plain_link(500, 5000, Grain::Fine),
    ) {
        let network = head(6000, seed, 0)
            + "[topology]\nkind = \"dumbbell\"\nbottleneck = { rate = \"2 Mbit/s\", delay = \"20 ms\" }\n"
            + &format!("access = {{ {} }}\n", access.join(", "));
        let count = if two.contains("count") { String::new() } else { format!("count = {count}\n") };
        let one = format!("[[flows]]\nname = \"one\"\n{one}");
        let two = format!("[[flows]]\nname = \"two\"\n{count}{two}");
        let alone = offered(&format!("{network}{one}"), "one");
        prop_assert!(!alone.is_empty());
        prop_assert_eq!(&alone, &offered(&format!("{network}{one}{two}"), "one"), "behind");
        prop_assert_eq!(&alone, &offered(&format!("{network}{two}{one}"), "one"), "in front");
    }

    /// A flow that shares the way changes when packets meet the channel, but not which of them, counted in order, the
    /// channel loses.
    #[test]
    fn an_added_flow_leaves_the_channel_as_it_was(
        rate in 0.001..0.3f64, seed in 0u64..1000, transport in tcp(), other in tcp(),
        position in one_of(&["after-transmission", "before-queue"]),
    ) {
        let scenario = |flows: &str| {
            format!(
                "{}[topology]\nkind = \"dumbbell\"\nbottleneck = {{ rate = \"1 Mbit/s\", delay = \"20 ms\" }}\n\
                 access = {{ rate = \"2 Mbit/s\", delay = \"1 ms\" }}\n[channel]\n\
                 error = {{ kind = \"bernoulli\", packet_error_rate = {rate:.4}, position = \"{position}\" }}\n{flows}",
                head(5000, seed, 0)
            )
        };
        let one = format!("[[flows]]\nname = \"one\"\ntransport = {transport}\n");
        let two = format!("[[flows]]\nname = \"two\"\ntransport = {other}\n");
        let judged = |text: &str| {
            let plan = plan_of(text);
            let run = run_of(&plan, EVERYTHING);
            let link = plan.links.iter().position(|link| link.name == "sink-access-1").unwrap() as u32;
            let start = run.recorded.hops.iter()
                .filter(|record| record.flow == 0).map(|record| record.enqueued).min();
            let losses = [2 * link, 2 * link + 1].map(|direction| {
                run.recorded.hops.iter()
                    .filter(|record| record.direction == direction)
                    .filter(|record| position == "before-queue" || record.lost != Some(Cause::QueueOverflow))
                    // At the end of the run the fate of the last packets is open.
                    .filter(|record| record.arrived.is_some() || record.lost.is_some())
                    .map(|record| record.lost == Some(Cause::ChannelError))
                    .collect::<Vec<bool>>()
            });
            (start, losses)
        };
        let (start, alone) = judged(&scenario(&one));
        let (same_start, together) = judged(&scenario(&(one + &two)));
        prop_assert_eq!(start, same_start);
        for (alone, together) in alone.iter().zip(&together) {
            let both = alone.len().min(together.len());
            prop_assert_eq!(&alone[..both], &together[..both]);
        }
    }
}

proptest! {
    #![proptest_config(cases(2000))]

    /// However the channel rages below 10 %, a file gets through in the end, and both ends know it.
    #[test]
    fn a_finite_transfer_completes(
        transport in tcp(), bytes in 1u32..150_000, error in error(0.1),
        link in plain_link(200, 5000, Grain::Fine), seed in 0u64..1000,
    ) {
        let text = format!(
            "duration = \"20000 s\"\nseed = {seed}\nlimits = {{ events = 5_000_000, wall_time = \"100 s\" }}\n\
             [topology]\nkind = \"graph\"\nnodes = [\"a\", \"b\"]\n\
             links = [{{ from = \"a\", to = \"b\", {}, error = {error} }}]\n\
             [[flows]]\nsource = \"a\"\nsink = \"b\"\ntransport = {transport}\n\
             traffic = {{ kind = \"ftp\", bytes = \"{bytes} B\" }}\n",
            link.join(", ")
        );
        let plan = plan_of(&text);
        let run = run_of(&plan, Recording { series: false, trace: true, frames: Frames::All });
        check(&plan, &run);
        let flow = &run.summary.flows[0];
        prop_assert_eq!(flow.bytes_delivered, u64::from(bytes));
        prop_assert!(flow.completion_s.is_some());
        prop_assert_eq!(run.summary.totals.packets_in_flight, 0);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Limits

/// Enough work that the run is looked after a few times.
fn long_plan(limits: &str) -> Plan {
    plan_of(&format!(
        "duration = \"60 s\"\n[limits]\n{limits}\n[topology]\nkind = \"dumbbell\"\n\
         bottleneck = {{ rate = \"20 Mbit/s\", delay = \"5 ms\" }}\n\
         access = {{ rate = \"50 Mbit/s\", delay = \"1 ms\" }}\n\
         [[flows]]\ntransport = \"reno\"\nstart = \"0 s\"\n"
    ))
}

#[test]
fn the_event_limit_names_itself() {
    let plan = long_plan("events = 20_000");
    let error = run(&plan, 1, Recording::default(), &Progress::default()).unwrap_err();
    let RunError::EventLimit { limit, reached, duration, .. } = error else { panic!("{error}") };
    assert_eq!((limit, duration), (20_000, Span::from_secs(60)));
    assert_eq!(
        error.to_string(),
        format!(
            "the run passed its limit of 20000 events at {reached} of 60 s simulated: raise limits.events, or shorten \
             duration or the number of flows"
        )
    );
}

#[test]
fn the_limit_of_wall_time_names_itself() {
    let plan = long_plan("wall_time = \"1 ns\"");
    let error = run(&plan, 1, Recording::default(), &Progress::default()).unwrap_err();
    let RunError::WallTimeLimit { limit, reached, .. } = error else { panic!("{error}") };
    assert_eq!(limit, Span(1));
    assert_eq!(
        error.to_string(),
        format!(
            "the run passed its limit of 1 ns of wall-clock time at {reached} of 60 s simulated: raise \
             limits.wall_time, or shorten duration or the number of flows"
        )
    );
}

#[test]
fn a_cancelled_run_says_how_far_it_came() {
    let progress = Progress::default();
    progress.cancel();
    let error = run(&long_plan(""), 1, Recording::default(), &progress).unwrap_err();
    let RunError::Interrupted { reached, .. } = error else { panic!("{error}") };
    assert_eq!(error.to_string(), format!("interrupted at {reached} of 60 s simulated"));
    assert_eq!(progress.simulated(), reached);
    assert!(progress.events() > 0 && progress.packet_hops() > 0);
}

// ---------------------------------------------------------------------------------------------------------------------
// Pinned runs

/// What ready scenarios do is pinned: a build, a machine or a refactoring that changes one of these changes published
/// results. A change of behaviour on purpose changes them too, and says so in its commit.
#[test]
fn ready_scenarios_keep_their_fingerprints() {
    let fingerprint = |file: &str, transport: &str| {
        let path = format!("{}/../../scenarios/{file}", env!("CARGO_MANIFEST_DIR"));
        let settings = [("duration", "10 s"), ("flows.0.transport", transport)];
        let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let plan = Scenario::load(path, &settings).unwrap_or_else(|error| panic!("{error}")).into_plan();
        run_of(&plan, Recording::default()).summary.fingerprint
    };
    let fingerprints = PINNED.map(|(file, transport, _)| fingerprint(file, transport));
    assert_eq!(fingerprints, PINNED.map(|pinned| pinned.2));
}

const PINNED: [(&str, &str, &str); 4] = [
    ("lossy-last-hop.toml", "newreno", "a4db5e31197b6a7d"),
    ("lossy-last-hop.toml", "vegas", "b02ee59d16b1bda4"),
    ("paced-ftp.toml", "sack", "4bdbe91d410e9bd1"),
    ("many-flows.toml", "cubic", "48845cfee254e384"),
];

/// Scenarios by which a search with other seeds found faults: each says in its first line which.
#[test]
fn what_a_search_found_stays_mended() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/found");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let plan = plan_of(&text);
        check(&plan, &run_of(&plan, EVERYTHING));
        check_evaluation(&text);
    }
}
