//! Random links: queues, errors, outages and devices. Also what draws any key as text.

use proptest::prelude::*;

/// One of `choices` as written in a scenario.
pub(super) fn one_of(choices: &[&str]) -> impl Strategy<Value = String> + use<> {
    let choices: Vec<String> = choices.iter().map(|&choice| choice.to_owned()).collect();
    prop::sample::select(choices)
}

/// Some of these `key = value` pairs, separated by commas and with one in front.
pub(super) fn some_of(pairs: Vec<BoxedStrategy<String>>) -> impl Strategy<Value = String> {
    let optional: Vec<_> = pairs.into_iter().map(|pair| prop::option::weighted(0.25, pair)).collect();
    optional.prop_map(|pairs| pairs.into_iter().flatten().fold(String::new(), |all, pair| all + ", " + &pair))
}

pub(super) fn number(
    key: &'static str,
    range: std::ops::Range<u32>,
    unit: &'static str,
) -> BoxedStrategy<String> {
    range
        .prop_map(
            move |n| if unit.is_empty() { format!("{key} = {n}") } else { format!("{key} = \"{n} {unit}\"") },
        )
        .boxed()
}

pub(super) fn switch(key: &'static str) -> BoxedStrategy<String> {
    any::<bool>().prop_map(move |on| format!("{key} = {on}")).boxed()
}

pub(super) fn queue() -> BoxedStrategy<String> {
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

pub(super) fn error(worst: f64) -> BoxedStrategy<String> {
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
pub(super) fn handoff(duration_ms: u32) -> BoxedStrategy<String> {
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
pub(super) enum Grain {
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
    let l4span = (1u32..90, 1u32..20, any::<bool>()).prop_map(|(departures, threshold, ahead)| {
        format!(
            "{{ kind = \"l4span\", departures = {departures}, threshold = \"{threshold} ms\", ahead = {ahead} }}"
        )
    });
    let agents = prop_oneof![6 => snoop, 2 => ns2, 2 => wtcp, 1 => zhuge, 1 => l4span];
    prop::collection::vec(prop_oneof![2 => policer, 2 => impair, 4 => agents], 1..3)
        .prop_map(|list| format!("middleboxes = [{}]", list.join(", ")))
}

/// A plain link: `rate = ..., delay = ..., queue = ...`, and a threshold for marks that lies below any limit.
pub(super) fn plain_link(least_kbit: u32, most_kbit: u32, grain: Grain) -> BoxedStrategy<Keys> {
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
pub(super) fn link_with_devices(least_kbit: u32, most_kbit: u32, grain: Grain) -> BoxedStrategy<Keys> {
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
pub(super) fn possible_handoff(handoff: String, keys: &[String]) -> String {
    if !keeps(keys) {
        return handoff;
    }
    handoff
        .replace("policy = \"drop\"", "policy = \"drop-air\"")
        .replace("policy = \"hold\"", "policy = \"drop-air\"")
}
