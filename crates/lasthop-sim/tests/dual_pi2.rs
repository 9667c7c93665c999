//! DualPI2 between scalable and classic senders: what RFC 9332 promises for both, and how ECT(1) gets there.
//!
//! DCTCP on ECT(1) stands for a scalable sender; its law is the one that the RFC's coupling is made for (equation 6).

use lasthop_core::packet::{Kind, flag};
use lasthop_net::trace::HopRecord;
use lasthop_sim::run::Run;

use crate::testkit::{SUMMARY, Scene, TRACE, drop_tail, hops};

const SCALABLE: &str = "{ preset = \"dctcp\", ect1 = true }";
const CLASSIC: &str = "{ cc = \"reno\", recovery = \"rack\", ecn = true }";
const QUEUE: &str = "queue = \"dual-pi2\"";

/// One flow of each transport for as long, over a bottleneck of this rate, base RTT and queue.
fn beside(transports: &[&str], mbit: u32, rtt_ms: u32, seconds: u32, queue: &str, trace: bool) -> Run {
    let scene =
        Scene::lasting(&format!("{seconds} s")).with(&format!("warmup = \"{} s\"", seconds / 3)).dumbbell(
            &format!("rate = \"{mbit} Mbit/s\"\ndelay = \"{} us\"\n{queue}", rtt_ms * 250),
            &format!("rate = \"1 Gbit/s\"\ndelay = \"{} us\"\n{}", rtt_ms * 125, drop_tail("10000 packets")),
        );
    transports
        .iter()
        .fold(scene, |scene, transport| {
            scene.flow(&format!("transport = {transport}\nstart = {{ uniform = [\"0 s\", \"100 ms\"] }}"))
        })
        .run(1, if trace { TRACE } else { SUMMARY })
}

/// The data packets that met the queue of the bottleneck.
fn queued(run: &Run) -> impl Iterator<Item = &HopRecord> {
    hops(run).iter().filter(|hop| hop.direction == 0 && hop.kind == Kind::Data)
}

/// From 12 Mbit/s up the short queue holds its packets for less than a millisecond on average, though a classic flow
/// fills the link beside it. What it takes to send the packet that is being sent already is not the queue's.
#[test]
fn the_short_queue_is_short() {
    for mbit in [12, 40, 120] {
        let run = beside(&[SCALABLE, CLASSIC], mbit, 20, 24, QUEUE, true);
        let mut sent: Vec<(u64, u64)> = queued(&run)
            .filter_map(|hop| Some((hop.transmitted?.0, u64::from(hop.bytes) * 8 * 1000 / u64::from(mbit))))
            .collect();
        sent.sort_unstable();
        let waits: Vec<f64> = queued(&run)
            .filter(|hop| hop.flags & flag::ECT_1 != 0 && hop.enqueued.0 > 4_000_000_000)
            .filter_map(|hop| {
                let (from, until) = (hop.enqueued.0, hop.transmitted?.0);
                let before = sent.partition_point(|&(start, _)| start <= from);
                let residual =
                    sent[..before].last().map_or(0, |&(start, takes)| (start + takes).saturating_sub(from));
                Some((until - from).saturating_sub(residual) as f64 / 1e6)
            })
            .collect();
        let mean = waits.iter().sum::<f64>() / waits.len() as f64;
        assert!(waits.len() > 1000 && mean < 1.0, "{mbit} Mbit/s: {mean} ms over {}", waits.len());
        assert!(run.summary.links[0].utilisation > 0.9, "{mbit}: {}", run.summary.links[0].utilisation);
    }
}

/// A scalable and a classic flow get like rates, within 1:2, where the base RTT is at least 10 ms. Beside a single Reno
/// that is so as long as its halved window fills the link: with 50 ms and a queue of 15 ms it does not, and DCTCP takes
/// what it leaves, 2.4 times as much.
#[test]
fn rates_are_alike() {
    let cubic = "{ cc = \"cubic\", recovery = \"rack\", ecn = true }";
    for (classic, rtts) in [(cubic, &[10, 20, 50, 100][..]), (CLASSIC, &[10, 20])] {
        for &rtt_ms in rtts {
            let run = beside(&[SCALABLE, classic], 40, rtt_ms, 60, QUEUE, false);
            let rates: Vec<f64> = run.summary.flows.iter().map(|flow| flow.goodput_bit_s).collect();
            let ratio = rates[0] / rates[1];
            assert!((0.5..=2.0).contains(&ratio), "{classic}, {rtt_ms} ms: {rates:?}");
        }
    }
}

/// Prague beside CUBIC: like rates within 1:2, at RTTs on both sides of its virtual RTT.
#[test]
fn prague_and_cubic_share() {
    let cubic = "{ cc = \"cubic\", recovery = \"rack\", ecn = true }";
    for rtt_ms in [10, 20, 50, 100] {
        let run = beside(&["\"prague\"", cubic], 40, rtt_ms, 60, QUEUE, false);
        let rates: Vec<f64> = run.summary.flows.iter().map(|flow| flow.goodput_bit_s).collect();
        let ratio = rates[0] / rates[1];
        assert!((0.5..=2.0).contains(&ratio), "{rtt_ms} ms: {rates:?}");
        assert!(rates[0] + rates[1] > 0.85 * 40e6, "{rtt_ms} ms: {rates:?}");
    }
}

/// The classic queue alone is held near its target, by drops or by marks.
#[test]
fn the_classic_queue_is_held_near_its_target() {
    for (transport, marked) in [("{ cc = \"reno\", recovery = \"rack\" }", false), (CLASSIC, true)] {
        let run = beside(&[transport; 4], 40, 20, 30, QUEUE, false);
        let link = &run.summary.links[0];
        let delay = link.avg_queue_packets.unwrap() * 0.3;
        assert!((10.0..20.0).contains(&delay), "{transport}: {delay} ms");
        assert!(link.utilisation > 0.95, "{transport}: {}", link.utilisation);
        assert_eq!(link.marks > 0, marked, "{transport}");
        assert_eq!(link.drops.values().sum::<u64>() > 0, !marked, "{transport}: {:?}", link.drops);
    }
}

/// What is not ECN-capable cannot be marked; overload drops of both queues.
#[test]
fn overload_drops_of_both_queues() {
    let scene = Scene::lasting("10 s")
        .dumbbell(
            &format!("rate = \"10 Mbit/s\"\ndelay = \"5 ms\"\n{QUEUE}"),
            &format!("rate = \"100 Mbit/s\"\ndelay = \"1 ms\"\n{}", drop_tail("500 packets")),
        )
        .flow("transport = \"udp\"\ntraffic = { kind = \"cbr\", rate = \"20 Mbit/s\", packet = \"1500 B\" }")
        .flow(&format!("transport = {SCALABLE}"));
    let run = scene.run(1, SUMMARY);
    let lost = |flow: usize| run.summary.flows[flow].retransmitted_packets.unwrap();
    assert!(run.summary.links[0].drops["early-drop"] > 1000, "{:?}", run.summary.links[0].drops);
    assert!(lost(1) > 0, "the scalable flow is dropped too");
}

/// ECT(1) is seen on the way, only on what is ECN-capable, and CE takes its place.
#[test]
fn ect1_is_carried_by_data_that_may_be_marked() {
    let run = beside(&[SCALABLE, CLASSIC], 10, 20, 6, QUEUE, true);
    let is = |hop: &HopRecord, bit: u8| hop.flags & bit != 0;
    assert!(hops(&run).iter().all(|hop| !is(hop, flag::ECT_1) || is(hop, flag::ECT)));
    assert!(queued(&run).filter(|hop| hop.flow == 0 && !hop.again).all(|hop| is(hop, flag::ECT_1)));
    assert!(queued(&run).filter(|hop| hop.flow == 1).all(|hop| !is(hop, flag::ECT_1)));
    assert!(hops(&run).iter().filter(|hop| hop.kind == Kind::Ack).all(|hop| !is(hop, flag::ECT_1)));
}
