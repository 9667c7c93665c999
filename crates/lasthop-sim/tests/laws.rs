//! Laws that senders must obey in simulation: what theory says of throughput and queues, to the tolerance of theory.
//!
//! The scenarios are those of the equations: one flow, one link, losses that are independent of each other or a queue
//! that overflows. A sender that breaks a law here computes something else than its paper says.

use lasthop_cc::model;
use lasthop_net::transport::rate::config::Protocol;
use lasthop_net::transport::tcp::config::TcpConfig;
use lasthop_sim::summary::{LinkSummary, Summary};

use crate::testkit::{SUMMARY, plan_of, run_plan};

fn summary_of(text: &str) -> Summary {
    let plan = plan_of(text);
    run_plan(&plan, plan.seed, SUMMARY).summary
}

/// Round-trip time and retransmission timeout of the lossy path.
const PATH: model::Path = model::Path { rtt_s: 0.1, rto_s: 0.4, segments_per_ack: 1.0 };

/// Segments per second of one flow on a path that is never full and loses packets with probability `p`: a round-trip
/// time of 0.1 s, a timeout of four, an ACK for every segment. A thousand losses are expected.
fn rate_under_loss(transport: &str, p: f64) -> f64 {
    let seconds = (1000.0 / p / model::padhye(&PATH, p)).ceil();
    let text = format!(
        r#"
        duration = "{} s"
        warmup = "20 s"
        seed = 7

        [topology]
        kind = "graph"
        nodes = ["sender", "receiver"]

        [[topology.links]]
        from = "sender"
        to = "receiver"
        rate = "1 Gbit/s"
        delay = "50 ms"
        queue = "unlimited"
        error = {{ kind = "bernoulli", packet_error_rate = {p} }}
        reverse = {{ error = {{ kind = "none" }} }}

        [tcp]
        packet_size = "1000 B"
        rto = {{ min = "400 ms" }}
        delayed_ack = false

        [[flows]]
        source = "sender"
        sink = "receiver"
        transport = {{ {transport} }}
        start = "0 s"
        "#,
        seconds + 20.0
    );
    // 40 B of headers, 12 B of timestamps.
    let payload_bits = 8.0 * 948.0;
    summary_of(&text).totals.goodput_bit_s / payload_bits
}

const LOSS_RATES: [f64; 3] = [1e-3, 3e-3, 1e-2];

/// Reno with SACK, the sender of the equations.
const TCP: &str = r#"cc = "reno", recovery = "sack""#;

fn assert_between(value: f64, least: f64, most: f64, what: &str) {
    assert!((least..=most).contains(&value), "{what}: {value:.4} is not within {least}..={most}");
}

/// Mathis et al. (1997) to 15 %, and Padhye et al. (1998), which models timeouts, to 5 %.
#[test]
fn tcp_obeys_the_square_root_law() {
    for p in LOSS_RATES {
        let rate = rate_under_loss(TCP, p);
        assert_between(
            rate / model::square_root(PATH.rtt_s, p),
            0.85,
            1.15,
            &format!("square root, p = {p}"),
        );
        assert_between(rate / model::padhye(&PATH, p), 0.95, 1.05, &format!("full equation, p = {p}"));
    }
}

/// Yang & Lam (2000): the friendly pair takes a little more than TCP, as much as their equation says.
#[test]
fn gaimd_obeys_its_equation() {
    for p in LOSS_RATES {
        let rate = rate_under_loss(r#"cc = "gaimd", recovery = "sack""#, p);
        assert_between(rate / rate_under_loss(TCP, p), 1.1, 1.3, &format!("against TCP, p = {p}"));
        assert_between(rate / model::gaimd(&PATH, 0.31, 0.875, p), 0.9, 1.1, &format!("equation, p = {p}"));
    }
}

/// And beside SACK in one queue, when the two do not start in step: their equation says 1.25 at equal loss.
#[test]
fn gaimd_takes_little_more_than_sack_beside_it() {
    let share = |first: &str, packets: u32| {
        let flow = |number: u32, transport: &str| {
            format!(
                "[[flows]]\nsource = \"s{number}\"\nsink = \"receiver\"\ntransport = \"{transport}\"\n\
                 start = {{ uniform = [\"0 s\", \"1 s\"] }}\n"
            )
        };
        let access = |number: u32| {
            format!(
                "[[topology.links]]\nfrom = \"s{number}\"\nto = \"router\"\nrate = \"100 Mbit/s\"\n\
                 delay = \"5 ms\"\nqueue = \"unlimited\"\n"
            )
        };
        let text = format!(
            "duration = \"60 s\"\n[topology]\nkind = \"graph\"\nnodes = [\"s1\", \"s2\", \"router\", \"receiver\"]\n\
             {}{}[[topology.links]]\nfrom = \"router\"\nto = \"receiver\"\nrate = \"10 Mbit/s\"\ndelay = \"15 ms\"\n\
             queue = {{ kind = \"drop-tail\", limit = \"{packets} packets\" }}\n{}{}",
            access(1),
            access(2),
            flow(1, first),
            flow(2, "sack"),
        );
        let plan = plan_of(&text);
        let sums = (1..11).fold([0.0, 0.0], |sums, seed| {
            let flows = run_plan(&plan, seed, SUMMARY).summary.flows;
            [0, 1].map(|flow: usize| sums[flow] + flows[flow].goodput_bit_s)
        });
        sums[0] / sums[1]
    };
    for packets in [33, 100] {
        assert_between(share("gaimd", packets), 1.1, 1.5, &format!("GAIMD, {packets} packets"));
        assert_between(share("sack", packets), 0.85, 1.15, &format!("SACK, {packets} packets"));
    }
}

/// Where no queue ever forms Veno takes every loss for random: it is AIMD with alpha 1 and beta 4/5.
#[test]
fn veno_keeps_four_fifths_at_random_losses() {
    for p in LOSS_RATES {
        let rate = rate_under_loss(r#"cc = "veno", recovery = "sack""#, p);
        assert_between(rate / model::gaimd(&PATH, 1.0, 0.8, p), 0.85, 1.15, &format!("p = {p}"));
    }
}

/// One flow alone: 10 Mbit/s, 40 ms, and room for `packets`; the path holds 33.
fn alone_with(transport: &str, packets: u32) -> Summary {
    summary_of(&format!(
        r#"
        duration = "120 s"
        warmup = "20 s"

        [topology]
        kind = "dumbbell"
        access = {{ rate = "100 Mbit/s", delay = "5 ms", queue = "unlimited" }}
        [topology.bottleneck]
        rate = "10 Mbit/s"
        delay = "10 ms"
        queue = {{ kind = "drop-tail", limit = "{packets} packets" }}

        [[flows]]
        transport = {transport}
        start = "0 s"
        "#
    ))
}

/// Its bottleneck, with room for what the path holds.
fn alone(transport: &str) -> LinkSummary {
    let mut links = alone_with(&format!("\"{transport}\""), 33).links.into_iter();
    links.find(|link| link.name == "bottleneck").expect("a dumbbell has a bottleneck")
}

/// Packets in buffers of a fifth of what the path holds, of as much, and of five times as much.
const BUFFERS: [u32; 3] = [7, 33, 167];

/// The bar: of what headers and options leave of the link.
const BAR: f64 = 0.9;

/// Senders that may stay below the bar: by how much, with which of [`BUFFERS`], and why. The reasons are tests of
/// their own, named here; anything else below the bar is a defect.
const EXCEPTIONS: [(&[&str], [f64; 3]); 10] = [
    // Starts from one segment after every loss: `tahoe_pays_with_slow_start`.
    (&["tahoe"], [0.57, BAR, BAR]),
    // A sender that halves a window of 1.2 paths leaves the link empty until it has grown to one path again. Veno
    // halves here too, as the backlog says, and DCTCP without marks is Reno: `halving_leaves_a_shallow_buffer_empty`.
    (
        &[
            "reno",
            "newreno",
            "sack",
            "wsc",
            "jtcp",
            "xjtcp",
            "e-newreno",
            "veno",
            "venoplus",
            "freeze",
            "ebsn",
            "fast-handoff",
            "eln",
            "dctcp",
            "lda",
        ],
        [0.81, BAR, BAR],
    ),
    // Halves as well, and grows by a whole segment at once: an overflow costs two.
    (&["tcp-real"], [0.75, BAR, BAR]),
    // Halves as well, and rests for two round trips at each loss: `probing_sees_a_shallow_buffer`.
    (&["probing"], [0.75, BAR, BAR]),
    // Halves as well, and paces at its window by RTT. Why it gets less than the others was not found: 0.68.
    (&["prague"], [0.65, BAR, BAR]),
    // Halves as well, and slows down for others: `ledbat_steps_back_for_others_and_shares_with_its_own`.
    (&["ledbat++"], [0.68, BAR, BAR]),
    // Never less than 10 ms between packets (RFC 4828 section 4): 1.2 Mbit/s whatever the link.
    (&["tfrc-sp"], [0.12; 3]),
    // Made for calls: a target of at most 1.5 Mbit/s unless `max_rate` says otherwise. SCReAM paces above its target.
    (&["nada"], [0.14; 3]),
    (&["gcc"], [0.15; 3]),
    (&["scream"], [0.2; 3]),
];

fn least_goodput(name: &str) -> [f64; 3] {
    EXCEPTIONS.iter().find(|(names, _)| names.contains(&name)).map_or([BAR; 3], |(_, least)| *least)
}

/// Share of the link that arrives for the first time: 40 bytes of headers and 12 of options of 1500; datagrams carry as
/// much.
fn share_of(transport: &str, packets: u32) -> f64 {
    alone_with(transport, packets).flows[0].goodput_bit_s / (1e7 * 1448.0 / 1500.0)
}

/// A window law fills the link with any buffer from one path on, and others do with less. What counts is what arrives
/// for the first time: needless retransmissions fill a link, too. An exception that is none any more must go.
#[test]
fn a_lone_flow_fills_the_link() {
    let names = TcpConfig::PRESETS.iter().map(|preset| preset.name);
    let mut wrong = Vec::new();
    for name in names.chain(Protocol::NAMES.iter().copied()) {
        for (packets, least) in BUFFERS.into_iter().zip(least_goodput(name)) {
            let share = share_of(&format!("\"{name}\""), packets);
            if !(least..=1.02).contains(&share) || (least < BAR && share >= BAR) {
                wrong.push(format!("{name} with {packets} packets: {share:.3} of {least}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// With a buffer of `b` paths a window that is halved when path and buffer are full starts again from `(1 + b) / 2` of
/// the path, and the link delivers that share, growing evenly to one while the window grows to the path. In units of
/// the path and its RTT, with the RTT growing with the queue: a cycle takes `(1 - w) + ((1 + b)^2 - 1) / 2` and
/// carries `((1 + b)^2 - w^2) / 2`, where `w = (1 + b) / 2`.
fn share_of_a_halving_sender(buffer: f64) -> f64 {
    let full = 1.0 + buffer;
    let start = full / 2.0;
    let carried = (full * full - start * start) / 2.0;
    let took = (1.0 - start) + (full * full - 1.0) / 2.0;
    carried / took
}

/// Seven packets are a fifth of the path: 0.87 of the link at most, and little more than a twentieth of the link goes
/// into repairs. Who keeps four fifths has 0.96 of a path left and stays above the bar.
#[test]
fn halving_leaves_a_shallow_buffer_empty() {
    let most = share_of_a_halving_sender(7.0 / 33.3);
    assert_between(most, 0.86, 0.88, "by the sum above");
    for name in ["reno", "newreno", "sack", "jtcp", "wsc"] {
        assert_between(share_of(&format!("\"{name}\""), 7), most - 0.055, most + 0.01, name);
    }
    let gentle = share_of(r#"{ cc = "reno", recovery = "sack", beta = 0.8 }"#, 7);
    assert!(gentle >= BAR, "keeping four fifths: {gentle}");
}

/// A full buffer of a fifth of the path makes RTTs of 1.2 times the best. Probes that may take 1.5 times call that
/// calm, and the window stays above what path and buffer hold. By the default most overflows are seen; where the
/// smoothed RTT, which the queue has raised, is a limit as well, half of them.
#[test]
fn probing_sees_a_shallow_buffer() {
    let of = |transport: &str| {
        let verdicts = alone_with(transport, 7).flows[0].loss_verdicts.expect("it tells losses apart");
        (verdicts.congestion.congestion, verdicts.congestion.wireless)
    };
    let patient = r#"{ preset = "probing", factor = 1.5 }"#;
    let (known, missed) = of(patient);
    assert!(missed > 50 && known * 20 < missed, "{known} of overflows known, {missed} not");
    assert!(share_of(patient, 7) < 0.5, "{}", share_of(patient, 7));
    let (known, missed) = of(r#"{ preset = "probing", smoothed = true }"#);
    assert!(known * 10 > 8 * missed && known < 2 * missed, "{known} of overflows known, {missed} not");
    let (known, missed) = of("\"probing\"");
    assert!(known > 3 * missed, "{known} of overflows known, {missed} not");
}

/// After each loss it starts from one segment again, which is all that tells it from Reno where losses are single ones:
/// the link idles while the window is small. As many repairs as losses, none of them by a timeout.
#[test]
fn tahoe_pays_with_slow_start() {
    let flow = &alone_with("\"tahoe\"", 7).flows[0];
    assert_eq!(flow.retransmitted_packets.unwrap(), flow.packets_lost["queue-overflow"]);
    assert!(flow.timeouts.unwrap() <= 1, "{}", flow.timeouts.unwrap());
    assert!(share_of("\"reno\"", 7) > share_of("\"tahoe\"", 7) + 0.15);
}

/// Brakmo & Peterson (1995): between alpha = 1 and beta = 3 segments wait in the queue.
#[test]
fn vegas_holds_one_to_three_packets() {
    let link = alone("vegas");
    assert_between(link.avg_queue_packets.unwrap(), 1.0, 3.0, "in the mean");
}

/// The window swings between half its peak and its peak, three quarters in the mean: with a buffer of one path the
/// queue is half full in the mean.
#[test]
fn the_sawtooth_leaves_the_buffer_half_full() {
    assert_between(alone("sack").avg_queue_packets.unwrap(), 14.0, 19.0, "queue");
}

/// A flow over a last hop of 10 Mbit/s that is down at these times, with room for `packets`; 40 ms, and the path holds
/// 33. What it carries between 20 and 120 s, as a share of what the link could while it is up, and its timeouts.
fn while_up(transport: &str, packets: u32, (every, down): (u32, u32), keys: &str) -> (f64, u64) {
    let times: Vec<String> = (25..120).step_by(every as usize).map(|at| format!("\"{at} s\"")).collect();
    let (at, share_up) = (times.join(", "), 1.0 - f64::from(times.len() as u32 * down) / 100.0);
    let summary = summary_of(&format!(
        r#"
        duration = "120 s"
        warmup = "20 s"
        [topology]
        kind = "graph"
        nodes = ["server", "station", "mobile"]
        [[topology.links]]
        from = "server"
        to = "station"
        rate = "100 Mbit/s"
        delay = "10 ms"
        queue = "unlimited"
        [[topology.links]]
        from = "station"
        to = "mobile"
        rate = "10 Mbit/s"
        delay = "10 ms"
        queue = {{ kind = "drop-tail", limit = "{packets} packets" }}
        handoff = {{ at = [{at}], outage = "{down} s" {keys}
        [[flows]]
        source = "server"
        sink = "mobile"
        transport = "{transport}"
        start = "0 s"
        "#
    ));
    let flow = &summary.flows[0];
    (flow.goodput_bit_s / (1e7 * 1448.0 / 1500.0 * share_up), flow.timeouts.unwrap())
}

/// Senders for mobile hosts meet what they react to: warnings, link timeouts that are notified, the end of a handoff.
/// From a buffer of one path on they fill the link while it is up; Freeze-TCP and EBSN have none of the timeouts that
/// NewReno has in the same outages. A thawed window overflows a buffer of one path or less at once, where Freeze-TCP
/// carries less than NewReno; only with five paths all three carry more.
#[test]
fn mobile_senders_fill_the_link_while_it_is_up() {
    // Longer than the longest buffer takes to drain.
    let warned = ", policy = \"drop-air\", warning = \"250 ms\" }";
    let silent = ", policy = \"drop-air\" }";
    let persistent = " }\narq = { window = 64, attempts = 250, timeout = \"50 ms\", ebsn = true }";
    let cases = [
        // Silent from the warning on, and a full window as soon as the outage is over.
        ("freeze", (5, 1), warned, [0.55, 0.8, 0.95]),
        // Repeats at once, from half a window.
        ("fast-handoff", (5, 1), silent, [0.65, BAR, BAR]),
        // Its timer does not expire while the link goes on trying.
        ("ebsn", (10, 3), persistent, [0.8, 0.98, 0.98]),
    ];
    for (transport, outages, keys, least) in cases {
        for (packets, least) in BUFFERS.into_iter().zip(least) {
            let (share, timeouts) = while_up(transport, packets, outages, keys);
            assert!((least..=1.02).contains(&share), "{transport} with {packets} packets: {share:.3}");
            let (plain, expired) = while_up("newreno", packets, outages, keys);
            assert!(expired >= 10, "NewReno with {packets} packets: {expired}");
            if packets == BUFFERS[2] {
                assert!(share > plain, "{transport} with {packets} packets: {share:.3} {plain:.3}");
            }
            if transport != "fast-handoff" && packets >= BUFFERS[1] {
                assert_eq!(timeouts, 0, "{transport} with {packets} packets");
            }
        }
    }
}
