//! Links with retransmission under TCP: order, conservation, reports, and what persistence does to the sender's timer.

use std::fmt::Write as _;

use lasthop_core::packet::Kind;
use lasthop_core::time::{Span, Time};
use lasthop_net::trace::HopRecord;
use lasthop_sim::run::Run;
use proptest::prelude::*;

use crate::testkit::{self, EVERYTHING, SUMMARY, Scene};

/// A server, a base station and a mobile host; the second link has these keys.
fn last_hop(duration_s: u32, link: &str, flows: &str) -> Scene {
    let radio = format!("name = \"radio\"\nrate = \"2 Mbit/s\"\ndelay = \"2 ms\"\n{link}");
    Scene::lasting(&format!("{duration_s} s"))
        .chain(["server", "station", "mobile"], &["rate = \"10 Mbit/s\"\ndelay = \"20 ms\"", &radio])
        .with(flows)
}

fn flow(transport: &str) -> String {
    format!("[[flows]]\nsource = \"server\"\nsink = \"mobile\"\nstart = \"0 s\"\ntransport = {transport}\n")
}

const BERNOULLI: &str = "error = { kind = \"bernoulli\", packet_error_rate = 0.1 }\n";

fn hops(run: &Run, link: u32) -> Vec<&HopRecord> {
    let mut hops: Vec<&HopRecord> = testkit::hops(run).iter().filter(|hop| hop.direction == link).collect();
    hops.sort_by_key(|hop| hop.enqueued);
    hops
}

/// Packets that overtook others on the way over a link.
fn overtaken(run: &Run, link: u32) -> usize {
    let arrivals: Vec<u64> = hops(run, link).iter().filter_map(|hop| Some(hop.arrived?.0)).collect();
    arrivals.windows(2).filter(|pair| pair[1] < pair[0]).count()
}

/// The link hides its losses from TCP; in order it hides them altogether.
#[test]
fn retransmission_hides_losses() {
    let plain = last_hop(20, BERNOULLI, &flow("\"newreno\"")).run(1, EVERYTHING);
    let link = format!("{BERNOULLI}arq = {{ attempts = 10 }}");
    let repaired = last_hop(20, &link, &flow("\"newreno\"")).run(1, EVERYTHING);
    let [plain, repaired] = [&plain, &repaired].map(|run| &run.summary.flows[0]);
    assert!(
        repaired.goodput_bit_s > 4.0 * plain.goodput_bit_s,
        "{} {}",
        repaired.goodput_bit_s,
        plain.goodput_bit_s
    );
    assert_eq!(repaired.packets_lost["link-gave-up"] + repaired.acks_lost["link-gave-up"], 0);
}

/// Out of order the same link provokes duplicate ACKs.
#[test]
fn out_of_order_delivery_looks_like_loss() {
    let runs = ["in-order", "out-of-order"].map(|order| {
        let link = format!("{BERNOULLI}arq = {{ attempts = 20, order = \"{order}\" }}");
        last_hop(20, &link, &flow("\"newreno\"")).run(1, EVERYTHING)
    });
    let [ordered, unordered] =
        runs.each_ref().map(|run| (overtaken(run, 2), run.summary.flows[0].retransmitted_packets.unwrap()));
    assert_eq!(ordered.0, 0);
    assert!(unordered.0 > 100 && unordered.1 > ordered.1, "{ordered:?} {unordered:?}");
}

/// What the link reports is what it did.
#[test]
fn the_summary_counts_attempts() {
    let link = format!("{BERNOULLI}arq = {{ attempts = 3, ack_error_rate = 0.05 }}");
    let run = last_hop(20, &link, &flow("\"newreno\"")).run(1, EVERYTHING);
    let radio = &run.summary.links[2];
    let arq = radio.devices.arq.as_ref().unwrap();
    let carried = hops(&run, 2).iter().filter(|hop| hop.transmitted.is_some()).count() as u64;
    assert_eq!(radio.packets_sent, carried + arq.retransmissions);
    assert!(arq.given_up >= radio.drops["link-gave-up"] && radio.drops["link-gave-up"] > 0, "{radio:?}");
    assert!(arq.acks_lost > 0);
    assert!(run.summary.links[0].devices.arq.is_none());
}

/// A run of any ARQ under any traffic.
fn any_arq() -> impl Strategy<Value = (Scene, bool)> {
    let arq = (1u32..20, 1u32..8, any::<bool>(), 0u32..40, prop::option::of(1u32..60));
    let rest = (0u32..40, 1u32..30, prop::option::of((1u32..9, 1u32..8)), any::<bool>());
    (arq, rest).prop_map(
        |((window, attempts, in_order, ack_errors, timeout), (errors, limit, outages, back))| {
            let order = if in_order { "in-order" } else { "out-of-order" };
            let timeout = timeout.map_or(String::new(), |ms| format!(", timeout = \"{ms} ms\""));
            let mut link = format!(
                "error = {{ kind = \"bernoulli\", packet_error_rate = 0.{errors:02} }}\n\
             queue = {{ kind = \"drop-tail\", limit = \"{limit} packets\" }}\n\
             arq = {{ window = {window}, attempts = {attempts}, order = \"{order}\", \
             ack_error_rate = 0.{ack_errors:02}{timeout}, ebsn = true, report = \"proxy\" }}\n"
            );
            if let Some((count, length)) = outages {
                let _ = writeln!(
                    link,
                    "handoff = {{ count = {count}, outage = \"{length}0 ms\", placement = \"random\" }}"
                );
            }
            let mut flows = flow("\"newreno\"") + &flow("{ preset = \"sack\", ecn = true }");
            flows += "[[flows]]\nsource = \"server\"\nsink = \"mobile\"\ntransport = \"udp\"\n\
                  traffic = { kind = \"cbr\", rate = \"300 kbit/s\", packet = \"500 B\" }\n";
            if back {
                flows += "[[flows]]\nsource = \"mobile\"\nsink = \"server\"\ntransport = \"cubic\"\n";
            }
            (last_hop(3, &link, &flows), in_order)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Nothing is lost from the books, the same seed gives the same run, and a link that promises order keeps it.
    #[test]
    fn what_holds_on_every_link_with_retransmission((scene, in_order) in any_arq(), seed in 0u64..1000) {
        let run = scene.run(seed, EVERYTHING);
        let network = &run.world.network;
        prop_assert!(network.ledger.balances(), "{:?}", network.ledger);
        prop_assert_eq!(run.recorded.hops.len() as u64, network.packet_hops);
        let again = scene.run(seed, EVERYTHING);
        prop_assert_eq!(&run.summary.fingerprint, &again.summary.fingerprint);
        for link in [2, 3] {
            if in_order {
                prop_assert_eq!(overtaken(&run, link), 0);
            }
            let hops = hops(&run, link);
            let mut packets: Vec<u32> = hops.iter().map(|hop| hop.packet).collect();
            packets.sort_unstable();
            packets.dedup();
            prop_assert_eq!(packets.len(), hops.len(), "each packet is delivered or lost once");
            for hop in hops {
                prop_assert!(hop.transmitted.is_none_or(|start| start >= hop.enqueued));
                prop_assert!(hop.arrived.is_none_or(|at| Some(at) > hop.transmitted));
            }
            let summary = &run.summary.links[link as usize];
            prop_assert!((0.0..=1.000_001).contains(&summary.utilisation));
        }
        for flow in &run.summary.flows {
            prop_assert!(flow.bytes_delivered > 0 || flow.packets_sent < 100, "{:?}", flow);
        }
    }
}

/// A persistent link, errors in bursts (outages), and a sender whose timer would not wait for it.
fn persistent(transport: &str, ebsn: &str) -> Run {
    let outages: Vec<String> = (1..20).map(|number| format!("\"{number} s\"")).collect();
    let link = format!(
        "handoff = {{ at = [{}], outage = \"500 ms\" }}\n\
         arq = {{ attempts = 100, timeout = \"50 ms\", ebsn = {ebsn} }}\n",
        outages.join(", ")
    );
    let flow = flow(&format!(
        "{{ preset = \"{transport}\", receiver_window = \"30 packets\", rto = {{ min = \"200 ms\" }} }}"
    ));
    last_hop(20, &link, &flow).run(1, EVERYTHING)
}

/// Through bad states the base station keeps the sender's timer from expiring; without notices it does not.
#[test]
fn notices_of_a_bad_state_avoid_timeouts() {
    let silent = persistent("ebsn", "false");
    let noticed = persistent("ebsn", "true");
    let [silent_flow, flow] = [&silent, &noticed].map(|run| &run.summary.flows[0]);
    assert!(silent_flow.timeouts.unwrap() >= 10, "{silent_flow:?}");
    assert_eq!(flow.timeouts.unwrap(), 0, "{flow:?}");
    assert_eq!(flow.retransmitted_packets.unwrap(), 0);
    assert!(flow.goodput_bit_s > silent_flow.goodput_bit_s);
    // They are packets on the way back, one per timeout of the link at most.
    let notices: Vec<Time> =
        hops(&noticed, 1).iter().filter(|hop| hop.kind == Kind::BadState).map(|hop| hop.enqueued).collect();
    assert!(notices.len() > 100 && notices.len() < 250, "{}", notices.len());
    assert!(notices.windows(2).all(|pair| pair[1].since(pair[0]) >= Span::from_millis(50)));
    assert!(hops(&noticed, 1).iter().all(|hop| hop.kind != Kind::BadState || hop.bytes == 56));
}

/// A repair that is lost again waits for the timer, and notices about what is sent meanwhile do not postpone it: with
/// a large window that took half a minute.
#[test]
fn notices_do_not_keep_a_hole_open() {
    let links = [
        "rate = \"100 Mbit/s\"\ndelay = \"20 ms\"\nqueue = { kind = \"unlimited\" }",
        "rate = \"5 Mbit/s\"\ndelay = \"10 ms\"\nqueue = { kind = \"drop-tail\", limit = \"50 packets\" }\n\
         error = { kind = \"bernoulli\", packet_error_rate = 0.2 }\n\
         arq = { attempts = 10, timeout = \"50 ms\", ebsn = true }",
    ];
    for seed in 1..=40 {
        let flow = "[[flows]]\nsource = \"s\"\nsink = \"k\"\ntransport = \"ebsn\"\n";
        let scene = Scene::lasting("60 s").chain(["s", "r", "k"], &links).with(flow);
        let run = scene.run(seed, EVERYTHING);
        let mut arrivals: Vec<u64> = hops(&run, 2)
            .iter()
            .filter(|hop| hop.kind == Kind::Data)
            .filter_map(|hop| Some(hop.arrived?.0))
            .collect();
        arrivals.sort_unstable();
        let longest = arrivals.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!(longest < 5_000_000_000, "seed {seed}: nothing arrives for {longest} ns");
        let flow = &run.summary.flows[0];
        assert!(flow.goodput_bit_s > 1e6, "seed {seed}: {} bit/s", flow.goodput_bit_s);
    }
}

/// Goodput of one flow over a link that repeats frames up to seven times and delivers in order, as a share of the link.
fn over_repeats(transport: &str) -> f64 {
    let links = [
        "rate = \"100 Mbit/s\"\ndelay = \"5 ms\"\nqueue = { kind = \"unlimited\" }",
        "rate = \"10 Mbit/s\"\ndelay = \"15 ms\"\nqueue = { kind = \"drop-tail\", limit = \"167 packets\" }\n\
         error = { kind = \"bernoulli\", packet_error_rate = 0.1 }\nreverse = { error = \"none\" }\n\
         arq = { attempts = 7, window = 32, order = \"in-order\" }",
    ];
    let flow = format!("[[flows]]\nsource = \"s\"\nsink = \"k\"\ntransport = {transport}\n");
    let scene = Scene::lasting("80 s").with("warmup = \"20 s\"").chain(["s", "r", "k"], &links).with(&flow);
    (1..=3).map(|seed| scene.run(seed, SUMMARY).summary.flows[0].goodput_bit_s).sum::<f64>() / 3e7
}

/// The delay of repeated frames is a queue to Vegas, and makes the rates of TCP-Real's waves vary: both leave most of
/// the link empty, TCP-Real for its gamma alone. Their pages have the sizes.
#[test]
fn delay_laws_leave_a_link_that_repeats_frames_empty() {
    assert!(over_repeats("\"newreno\"") > 0.8);
    for transport in ["\"vegas\"", "\"tcp-real\""] {
        let share = over_repeats(transport);
        assert!((0.1..0.35).contains(&share), "{transport}: {share}");
    }
    assert!(over_repeats("{ preset = \"tcp-real\", gamma = 0.0 }") > 0.8);
}

/// A sender that measures only what it sends must not act again and again on one measurement: beside a Reno that fills
/// the queue, over a link that repeats frames, some seeds of `wtcp-rate` begin badly, and all come back.
#[test]
fn a_rate_by_spacing_comes_back_from_a_bad_start() {
    let links = [
        "rate = \"100 Mbit/s\"\ndelay = \"20 ms\"\nqueue = { kind = \"unlimited\" }",
        "rate = \"10 Mbit/s\"\ndelay = \"15 ms\"\nqueue = { kind = \"drop-tail\", limit = \"167 packets\" }\n\
         error = { kind = \"bernoulli\", packet_error_rate = 0.1 }\nreverse = { error = \"none\" }\n\
         arq = { attempts = 7, window = 32, order = \"in-order\" }",
    ];
    let flow = |transport: &str| {
        format!(
            "[[flows]]\nsource = \"s\"\nsink = \"k\"\ntransport = \"{transport}\"\n\
             start = {{ uniform = [\"0 s\", \"1 s\"] }}\n"
        )
    };
    let both = format!("{}{}", flow("wtcp-rate"), flow("reno"));
    let scene = Scene::lasting("120 s").with("tcp = { receiver_window = \"4000 packets\" }");
    let scene = scene.chain(["s", "r", "k"], &links).with(&both);
    for seed in 1..=60 {
        let rate = scene.run(seed, SUMMARY).summary.flows[0].goodput_bit_s;
        assert!(rate > 1e6, "seed {seed}: {rate} bit/s");
    }
}

/// A sender that does not understand notices gets none.
#[test]
fn no_other_flow_is_notified() {
    let run = persistent("newreno", "true");
    assert!(hops(&run, 1).iter().all(|hop| hop.kind != Kind::BadState));
}

/// Datagrams of 1000 B over a link of 2 Mbit/s that sends frames in pieces of which a tenth is lost.
fn hybrid(keys: &str) -> Run {
    let link = format!("{BERNOULLI}reverse = {{ error = \"none\" }}\n{keys}");
    let traffic = "traffic = { kind = \"cbr\", rate = \"400 kbit/s\", packet = \"972 B\" }\n";
    last_hop(200, &link, &(flow("\"udp\"") + traffic)).run(1, EVERYTHING)
}

/// The chance that fewer than `k` of `k + (m - 1) r` pieces have come after `m` transmissions: 0.5695, 0.0702 and
/// 0.0043 for a tenth of loss, eight pieces and two of parity. So of all frames that many are sent a second time, a
/// third time, and given up by a link that tries three times.
#[test]
fn parity_keeps_to_its_closed_form() {
    let run = hybrid("arq = { window = 64, attempts = 3, hybrid = { pieces = 8, parity = 2 } }");
    let (link, flow) = (&run.summary.links[2], &run.summary.flows[0]);
    let arq = link.devices.arq.as_ref().unwrap();
    let frames = flow.packets_sent as f64;
    assert!(frames > 9_000.0, "{frames}");
    let again = arq.retransmissions as f64 / frames;
    assert!((again - (0.5695 + 0.0702)).abs() < 0.015, "{again}");
    let lost = arq.given_up as f64 / frames;
    assert!((lost - 0.0043).abs() < 0.002, "{lost}");
    // A retransmission is a quarter of a frame.
    let bytes = link.bytes_sent as f64 / (frames * 1000.0);
    assert!((bytes - (1.0 + 0.25 * again)).abs() < 0.002, "{bytes}");
}

/// With the same loss of a frame as a whole (57 %), retransmissions of all of it take more of the air, and more of
/// them are given up.
#[test]
fn parity_saves_air() {
    let whole = "error = { kind = \"bernoulli\", packet_error_rate = 0.5695 }\n";
    let traffic = "traffic = { kind = \"cbr\", rate = \"400 kbit/s\", packet = \"972 B\" }\n";
    let link = format!("{whole}reverse = {{ error = \"none\" }}\narq = {{ window = 64, attempts = 3 }}");
    let plain = last_hop(100, &link, &(flow("\"udp\"") + traffic)).run(1, EVERYTHING);
    let parity = hybrid("arq = { window = 64, attempts = 3, hybrid = true }");
    let share = |run: &Run| {
        let (link, sent) = (&run.summary.links[2], run.summary.flows[0].packets_sent as f64);
        (link.bytes_sent as f64 / (1000.0 * sent), link.devices.arq.as_ref().unwrap().given_up as f64 / sent)
    };
    let ((air, lost), (saved, left)) = (share(&plain), share(&parity));
    assert!((air - 1.894).abs() < 0.05 && (lost - 0.185).abs() < 0.02, "{air} {lost}");
    assert!(saved < 0.65 * air && left < 0.05 * lost, "{saved} {left}");
}

/// A file crosses whole, in order, and the ledger balances, which the kit checks.
#[test]
fn parity_under_tcp() {
    let link = format!("{BERNOULLI}arq = {{ attempts = 8, hybrid = true }}");
    let bytes = "traffic = { kind = \"ftp\", bytes = \"2 MB\" }\n";
    let run = last_hop(60, &link, &(flow("\"newreno\"") + bytes)).run(1, EVERYTHING);
    let sender = &run.summary.flows[0];
    assert_eq!(sender.bytes_delivered, 2_000_000);
    assert_eq!(sender.packets_lost["link-gave-up"] + sender.acks_lost["link-gave-up"], 0);
    assert_eq!(overtaken(&run, 2), 0);
    let arq = run.summary.links[2].devices.arq.as_ref().unwrap();
    assert!(arq.retransmissions > 500, "{arq:?}");
}
