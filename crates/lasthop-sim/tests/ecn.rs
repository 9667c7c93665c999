//! Marks in place of drops: queues that mark from a threshold on, and senders that answer.
//!
//! One bottleneck of 10 Mbit/s with an RTT of 40 ms; the marks come from the real queue.

use lasthop_core::packet::{Kind, flag};
use lasthop_net::trace::HopRecord;
use lasthop_net::transport::codec::Ecn;
use lasthop_net::transport::extra::ByteCounts;
use lasthop_sim::run::Run;

use crate::testkit::{SUMMARY, Scene, TRACE, drop_tail, hops};

/// `flows` flows of `transport` (TOML) through a bottleneck with this queue and threshold.
fn bottleneck(transport: &str, flows: u32, queue: &str, mark: &str, trace: bool) -> Run {
    Scene::lasting("30 s")
        .with("warmup = \"5 s\"")
        .dumbbell(
            &format!("rate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n{}\n{mark}", drop_tail(queue)),
            &format!("rate = \"100 Mbit/s\"\ndelay = \"5 ms\"\n{}", drop_tail("500 packets")),
        )
        .flow(&format!(
            "count = {flows}\ntransport = {transport}\nstart = {{ uniform = [\"0 s\", \"100 ms\"] }}"
        ))
        .run(1, if trace { TRACE } else { SUMMARY })
}

const MARK: &str = "mark = \"20 packets\"";

/// Every ECN-capable sender is marked where it would have been dropped, and fills the link.
#[test]
fn marks_take_the_place_of_drops() {
    for transport in [
        "\"e-newreno\"",
        "\"dctcp\"",
        "{ preset = \"dctcp\", accurate_ecn = true }",
        "{ preset = \"sack\", ecn = true, accurate_ecn = true }",
        "{ preset = \"cubic\", ecn = true, accurate_ecn = true, profile = \"linux\" }",
        "{ preset = \"cubic\", ecn = true }",
        "{ preset = \"sack\", ecn = true, profile = \"linux\" }",
        "{ preset = \"e-newreno\", profile = \"ns2\", receiver_window = \"500 packets\" }",
    ] {
        let run = bottleneck(transport, 4, "150 packets", MARK, false);
        let link = &run.summary.links[0];
        assert!(link.marks > 50, "{transport}: {} marks", link.marks);
        assert_eq!(link.drops.values().sum::<u64>(), 0, "{transport}: {:?}", link.drops);
        assert_eq!(run.summary.totals.retransmitted_packets.unwrap(), 0, "{transport}");
        assert!(link.utilisation > 0.85, "{transport}: {}", link.utilisation);
        assert!(run.summary.links[1..].iter().all(|link| link.marks == 0), "{transport}");
    }
}

/// Others are not marked: the threshold is no limit to them.
#[test]
fn who_is_not_capable_is_not_marked() {
    let run = bottleneck("\"newreno\"", 2, "60 packets", MARK, false);
    let link = &run.summary.links[0];
    assert_eq!(link.marks, 0);
    assert!(link.drops["queue-overflow"] > 0 && link.max_queue_packets.unwrap() > 40);
}

/// DCTCP keeps the queue near the threshold where Reno's answer to the same marks empties it.
#[test]
fn dctcp_keeps_the_queue_near_the_threshold() {
    let dctcp = bottleneck("\"dctcp\"", 2, "200 packets", MARK, false);
    let link = &dctcp.summary.links[0];
    assert!((8.0..24.0).contains(&link.avg_queue_packets.unwrap()), "{}", link.avg_queue_packets.unwrap());
    assert!(link.max_queue_packets.unwrap() < 40, "{}", link.max_queue_packets.unwrap());
    assert!(link.utilisation > 0.98, "{}", link.utilisation);
    let reno = bottleneck("{ preset = \"sack\", ecn = true }", 2, "200 packets", MARK, false);
    assert!(reno.summary.links[0].avg_queue_packets.unwrap() < link.avg_queue_packets.unwrap());
}

/// E-Vegas holds a few segments in the queue, so a low threshold marks it; each answer leaves a working flow.
#[test]
fn e_vegas_is_marked_at_all() {
    for on_mark in ["halve", "abe", "vegas_soft"] {
        let transport = format!("{{ preset = \"e-vegas\", on_mark = \"{on_mark}\" }}");
        let run = bottleneck(&transport, 4, "50 packets", "mark = \"6 packets\"", false);
        let link = &run.summary.links[0];
        assert!(link.marks > 10, "{on_mark}: {} marks", link.marks);
        assert_eq!(link.drops["queue-overflow"], 0, "{on_mark}");
        assert!(link.utilisation > 0.7, "{on_mark}: {}", link.utilisation);
    }
}

/// TV-2.11 with the real queue: the negotiation, one cut for each window, CWR on the first new segment after it.
#[test]
fn the_dialogue_of_marks_and_echoes() {
    let run = bottleneck("\"e-newreno\"", 1, "150 packets", MARK, true);
    let records = hops(&run);
    let first = |kind| records.iter().find(|hop| hop.kind == kind).unwrap();
    assert_eq!(first(Kind::Syn).flags, flag::ECE | flag::CWR, "asks for ECN");
    assert_eq!(first(Kind::SynAck).flags, flag::ECE, "agrees");
    let ect = |hop: &HopRecord| hop.flags & flag::ECT != 0;
    assert!(records.iter().filter(|hop| hop.kind == Kind::Ack).all(|hop| !ect(hop)), "ACKs are not capable");
    assert!(records.iter().filter(|hop| hop.kind == Kind::Data).all(ect));

    // As the sender sees it: echoes that arrive, and segments that leave. The first link is the source's.
    let source_access = 2;
    let mut outstanding_at_cut = 0;
    let (mut cuts, mut echoes, mut awaited) = (0, 0, false);
    let mut events: Vec<(u64, bool, &HopRecord)> = Vec::new();
    for hop in records {
        if hop.direction == source_access && hop.kind == Kind::Data {
            events.push((hop.enqueued.0, false, hop));
        } else if hop.direction == source_access + 1
            && hop.kind == Kind::Ack
            && let Some(arrived) = hop.arrived
        {
            events.push((arrived.0, true, hop));
        }
    }
    // An ACK releases segments at its own instant: it comes first.
    events.sort_by_key(|&(time, is_ack, _)| (time, !is_ack));
    let mut highest = 0;
    for (_, is_ack, hop) in events {
        if is_ack {
            if hop.flags & flag::ECE != 0 {
                echoes += 1;
                if hop.ack > outstanding_at_cut {
                    assert!(!awaited, "a cut before the last one was told");
                    outstanding_at_cut = highest;
                    cuts += 1;
                    awaited = true;
                }
            }
            continue;
        }
        assert_eq!(
            hop.flags & flag::CWR != 0,
            awaited,
            "CWR on the first new segment after a cut, and on no other"
        );
        awaited = false;
        highest = hop.seq + u64::from(hop.payload);
    }
    assert!(cuts > 5 && echoes > cuts, "{cuts} cuts, {echoes} echoes");
    let windows = &run.recorded.windows;
    let falls = windows.windows(2).filter(|pair| pair[1].cwnd < pair[0].cwnd).count();
    assert_eq!(falls, cuts, "one reduction for each");
}

/// What is marked is written as "congestion experienced" from the link that marked it on.
#[test]
fn marks_are_seen_behind_the_queue_only() {
    let run = bottleneck("\"dctcp\"", 1, "150 packets", MARK, true);
    let marked = |direction| {
        hops(&run).iter().filter(|hop| hop.direction == direction && hop.flags & flag::CE != 0).count()
    };
    assert_eq!(marked(2), 0, "before the bottleneck");
    assert!(marked(0) > 0);
    // All but those that are still between the two.
    assert!(marked(0) - marked(4) < 40, "{} and {}", marked(0), marked(4));
}

/// Every ACK has the number of marked packets that have come to its receiver, modulo 8, from 5 on (RFC 9768), and no
/// segment tells of a reduction.
#[test]
fn acks_count_the_marks() {
    for preset in ["dctcp", "e-newreno"] {
        let transport = format!("{{ preset = \"{preset}\", accurate_ecn = true }}");
        let run = bottleneck(&transport, 1, "150 packets", MARK, true);
        let first = |kind| hops(&run).iter().find(|hop| hop.kind == kind).unwrap().flags;
        assert_eq!((first(Kind::Syn), first(Kind::SynAck)), (flag::ACE, flag::CWR));
        assert!(
            hops(&run)
                .iter()
                .filter(|hop| hop.kind == Kind::Data)
                .all(|hop| { hop.flags & flag::ACE == flag::AE | flag::ECE })
        );
        // The receiver's link, both ways.
        let mut marks: Vec<u64> = hops(&run)
            .iter()
            .filter(|hop| hop.direction == 4 && hop.kind == Kind::Data && hop.flags & flag::CE != 0)
            .filter_map(|hop| hop.arrived.map(|at| at.0))
            .collect();
        marks.sort_unstable();
        assert!(marks.len() > 30, "{preset}: {}", marks.len());
        for ack in hops(&run).iter().filter(|hop| hop.direction == 5 && hop.kind == Kind::Ack) {
            let before = marks.partition_point(|&at| at <= ack.enqueued.0);
            let bits = [flag::AE, flag::CWR, flag::ECE].map(|bit| usize::from(ack.flags & bit != 0));
            assert_eq!(4 * bits[0] + 2 * bits[1] + bits[2], (5 + before) % 8, "{preset}");
        }
    }
}

/// With `ecn_bytes` every ACK that answers data has the option of RFC 9768: the bytes that have come to its receiver
/// with each ECN field, from 1, 0 and 1 on; what it takes is in its size. The law hears the same.
#[test]
fn acks_count_the_bytes() {
    for (preset, size, ecn) in [("dctcp", 60, Ecn::Capable), ("prague", 60, Ecn::Capable1)] {
        let transport = format!("{{ preset = \"{preset}\", accurate_ecn = true, ecn_bytes = true }}");
        let run = bottleneck(&transport, 1, "150 packets", MARK, true);
        let opening = hops(&run).iter().find(|hop| hop.kind == Kind::SynAck).unwrap();
        let whole = ByteCounts { ect1_first: true, present: 3, fields: [1, 0, 1] };
        assert_eq!((opening.measured.byte_counts, opening.bytes), (Some(whole), 72), "{preset}");
        let third = hops(&run).iter().find(|hop| hop.direction == 0 && hop.kind == Kind::Ack).unwrap();
        assert_eq!(third.measured.byte_counts, Some(whole), "{preset}");
        let mut came: Vec<(u64, bool, u64)> = hops(&run)
            .iter()
            .filter(|hop| hop.direction == 4 && hop.kind == Kind::Data)
            .filter_map(|hop| Some((hop.arrived?.0, hop.flags & flag::CE != 0, u64::from(hop.payload))))
            .collect();
        came.sort_unstable();
        let mut told = 0;
        for ack in hops(&run).iter().filter(|hop| hop.direction == 5 && hop.kind == Kind::Ack) {
            let before = &came[..came.partition_point(|&(at, ..)| at <= ack.enqueued.0)];
            let bytes =
                |marked| before.iter().filter(|came| came.1 == marked).map(|came| came.2).sum::<u64>();
            let counts = ack.measured.byte_counts.unwrap();
            assert_eq!(counts.get(ecn).map(u64::from), Some((1 + bytes(false)) % (1 << 24)), "{preset}");
            assert_eq!(u64::from(counts.get(Ecn::Congestion).unwrap_or(0)), bytes(true) % (1 << 24));
            assert_eq!(ack.bytes, size, "{preset}: 40, timestamps 12, the option 8");
            told += 1;
        }
        assert!(told > 1000, "{preset}: {told}");
        let without = bottleneck(&transport.replace(", ecn_bytes = true", ""), 1, "150 packets", MARK, false);
        let goodput = |run: &Run| run.summary.flows[0].goodput_bit_s;
        assert!((goodput(&run) / goodput(&without) - 1.0).abs() < 0.01, "{preset}");
    }
}
