//! Vectors of CAKE, worked by hand from its paper and from the constants of Linux.

use lasthop_core::packet::Note;

use super::*;
use crate::queue::Ecn;

const PLAN: Cake = Cake {
    bandwidth: None,
    overhead: 0,
    least: 0,
    framing: Framing::None,
    isolation: Isolation::Triple,
    tins: Tins::Three,
    rtt: Span::from_millis(100),
    memory: 15_360_000,
    ack_filter: AckFiltering::Off,
    mtu: 1500,
};
const TEN: Cake = Cake { bandwidth: Some(Rate(10_000_000)), ..PLAN };

/// Flows from node to node, each with a code point.
fn queues(plan: Cake, flows: &[(u32, u32, u8)]) -> Queues {
    let mut queues = Queues::new(&plan, "test", 1);
    let header = |&(source, sink, dscp): &(u32, u32, u8)| FlowHeader { source, sink, dscp };
    queues.know_flows(&KnownFlows {
        names: (0..flows.len() as u32).collect(),
        headers: flows.iter().map(header).collect(),
    });
    queues
}

fn parcel(flow: u32, bytes: u16, since: Time) -> Parcel {
    Parcel { packet: 0, hop: 0, flow, bytes, ecn: Ecn::Incapable, ahead: false, since }
}

fn push(queues: &mut Queues, flow: u32, bytes: u16, at: Time) -> Vec<u32> {
    let mut shed = Vec::new();
    assert_eq!(queues.push(parcel(flow, bytes, at), &mut shed), Verdict::Admit);
    shed.iter().map(|shed| shed.parcel.flow).collect()
}

/// Serves packets as the shaper lets them go, from `now` on, and keeps every flow backlogged: bytes of each.
fn shares(queues: &mut Queues, flows: u32, packets: usize) -> Vec<u64> {
    let mut sent = vec![0; flows as usize];
    let mut now = Time::ZERO;
    (0..flows).for_each(|flow| (0..3).for_each(|_| drop(push(queues, flow, 1500, now))));
    for _ in 0..packets {
        now = now.max(queues.ready());
        let served = queues.pop(now, &mut Vec::new()).unwrap().parcel;
        sent[served.flow as usize] += u64::from(served.bytes);
        push(queues, served.flow, 1500, now);
    }
    sent
}

fn share_of(sent: &[u64], flows: impl IntoIterator<Item = usize>) -> f64 {
    flows.into_iter().map(|flow| sent[flow]).sum::<u64>() as f64 / sent.iter().sum::<u64>() as f64
}

/// By hand: a packet of 1500 B takes 1.2 ms at 10 Mbit/s, of 1000 B at 3 Mbit/s 2 ms and two thirds of one: three
/// of them 8 ms sharp. The first goes at once, and after a pause nothing is made up for.
#[test]
fn the_shaper_is_exact() {
    let mut ten = queues(TEN, &[(0, 1, 0)]);
    let mut three = queues(Cake { bandwidth: Some(Rate(3_000_000)), ..PLAN }, &[(0, 1, 0)]);
    for start in [Time::ZERO, Time::ZERO + Span::from_secs(10)] {
        for (queues, bytes, number, span) in
            [(&mut ten, 1500, 5, 6_000_000), (&mut three, 1000, 3, 8_000_000)]
        {
            (0..=number).for_each(|_| drop(push(queues, 0, bytes, start)));
            for _ in 0..number {
                let at = queues.ready().max(start);
                queues.pop(at, &mut Vec::new()).unwrap();
            }
            assert_eq!(queues.ready(), start + Span(span));
            queues.pop(queues.ready(), &mut Vec::new()).unwrap();
        }
    }
}

/// In any window of a thousand packets of any sizes the shaper is off by less than one packet.
#[test]
fn the_shaper_is_exact_over_any_window() {
    let mut queues = queues(Cake { bandwidth: Some(Rate(7_777_777)), ..PLAN }, &[(0, 1, 0)]);
    let (mut times, mut now) = (vec![(0_u64, 0_u64)], Time::ZERO);
    for number in 0..3000_u64 {
        push(&mut queues, 0, (40 + number * 7919 % 1461) as u16, now);
        if number > 5 {
            now = queues.ready().max(now);
            let bytes = queues.pop(now, &mut Vec::new()).unwrap().parcel.bytes;
            times.push((now.0, times[times.len() - 1].1 + u64::from(bytes)));
        }
    }
    for window in times.windows(1000) {
        let [(from, before), (to, after)] = [window[0], window[999]];
        let allowed = (to - from) as f64 * 7_777_777.0 / 8e9;
        assert!(((after - before) as f64 - allowed).abs() < 1501.0);
    }
}

/// By hand: 1500 B and 40 of overhead are 33 cells, 1749 B; 1500 B in PTM are 24 B more; no frame is below 84 B.
#[test]
fn lines_wrap_packets() {
    let line = |overhead, least, framing, bytes| {
        Queues::new(&Cake { overhead, least, framing, ..PLAN }, "test", 1).on_the_line(bytes)
    };
    assert_eq!(line(0, 0, Framing::None, 1500), 1500);
    assert_eq!(line(40, 0, Framing::Atm, 1500), 1749);
    assert_eq!(line(0, 0, Framing::Atm, 48), 53);
    assert_eq!(line(0, 0, Framing::Ptm, 1500), 1524);
    assert_eq!(line(38, 84, Framing::None, 40), 84);
}

/// By hand, as Linux sets them: at 10 Mbit/s target 5 ms, interval 100, four packets of 1.2 ms, quantum 305 B (a
/// 4096th of a second); the bulk tin has 625 kbit/s, 19.2 ms for a packet: target 28.8, interval 123.8, the least
/// quantum of 300 B. 4 MiB of memory, and 40 MB for a Gbit/s, of which 10,240 packets are less.
#[test]
fn settings_follow_bandwidth_and_rtt() {
    let [best, bulk, voice] = [0, 4, 2].map(|halvings| Tin::new(&TEN, halvings));
    let millis = |target: f64, interval: f64, grace: f64| {
        let [target, interval, grace] = [target, interval, grace].map(|ms| Span::from_seconds(ms / 1e3));
        Bounds { target, interval, grace }
    };
    assert_eq!((best.bounds, best.quantum), (millis(5.0, 100.0, 4.8), 305));
    assert_eq!((bulk.bounds, bulk.quantum), (millis(28.8, 123.8, 76.8), 300));
    assert_eq!((voice.bounds, voice.quantum), (millis(7.2, 102.2, 19.2), 300));
    let memory = |bandwidth| Cake::usual_memory(bandwidth, PLAN.rtt, 1500);
    assert_eq!(memory(TEN.bandwidth), 4 << 20);
    assert_eq!(memory(Some(Rate(100_000_000))), 5_000_000);
    assert_eq!([memory(Some(Rate(1_000_000_000))), memory(None)], [15_360_000; 2]);
}

/// One flow of a host and eight of another, each with a peer of its own: the hosts get a half each, at whichever end
/// they are, if the isolation looks there, and else the flows a ninth each. Where all have the same peer, that one is
/// as busy as can be, and triple isolation does not look further.
#[test]
fn hosts_share_alike() {
    let from_hosts: Vec<_> = (0..9_u32).map(|flow| (1 + flow.min(1), 10 + flow, 0)).collect();
    let to_hosts: Vec<_> = from_hosts.iter().map(|&(source, sink, dscp)| (sink, source, dscp)).collect();
    let one_peer: Vec<_> = from_hosts.iter().map(|&(source, _, dscp)| (source, 10, dscp)).collect();
    let ninth = 1.0 / 9.0;
    for (isolation, shares_of_first) in [
        (Isolation::Triple, [0.5, 0.5, ninth]),
        (Isolation::Sources, [0.5, ninth, 0.5]),
        (Isolation::Sinks, [ninth, 0.5, ninth]),
        (Isolation::Flows, [ninth, ninth, ninth]),
    ] {
        for bandwidth in [None, TEN.bandwidth] {
            for (flows, expected) in [&from_hosts, &to_hosts, &one_peer].into_iter().zip(shares_of_first) {
                // No packet waits long enough for a signal.
                let plan = Cake { isolation, bandwidth, rtt: Span::from_secs(1000), ..PLAN };
                let sent = shares(&mut queues(plan, flows), 9, 9000);
                let found = share_of(&sent, [0]);
                assert!((found - expected).abs() < 0.005, "{isolation:?} {bandwidth:?}: {found}");
                let others = share_of(&sent, [1]) / share_of(&sent, [8]);
                assert!((others - 1.0).abs() < 0.03, "{others}");
            }
        }
    }
}

/// A flow that sends a packet now and then waits for no more than the packet that is being sent, whatever else
/// waits; in a single queue it waits for all.
#[test]
fn flows_that_send_little_go_first() {
    for (isolation, position) in [(Isolation::Triple, 0), (Isolation::None, 30)] {
        let mut queues = queues(Cake { isolation, ..TEN }, &[(0, 9, 0), (1, 9, 0), (2, 9, 0)]);
        let now = Time::ZERO;
        (0..20)
            .for_each(|_| [0, 1].map(|flow| push(&mut queues, flow, 1500, now)).into_iter().for_each(drop));
        let mut next = || queues.pop(now, &mut Vec::new()).unwrap().parcel.flow;
        (0..10).for_each(|_| assert!(next() < 2));
        push(&mut queues, 2, 200, now);
        let order = (0..31).map(|_| queues.pop(now, &mut Vec::new()).unwrap().parcel.flow);
        assert_eq!(order.collect::<Vec<_>>().iter().position(|&flow| flow == 2), Some(position));
    }
}

/// Eight flows of a set find a queue each, where by their hashes alone two of them would share one; a ninth does
/// share, and a flow that comes back finds its own.
#[test]
fn sets_keep_flows_apart() {
    let mut queues = queues(PLAN, &[(0, 1, 0); 1]);
    let hash = |queues: &Queues, name: u32| mix(u64::from(name) ^ queues.salt) as usize % SLOTS;
    let set: Vec<u32> = (0..20_000).filter(|&name| hash(&queues, name) / WAYS == 5).take(9).collect();
    let slots = set[..8].iter().map(|&name| hash(&queues, name)).collect::<std::collections::BTreeSet<_>>();
    assert!(slots.len() < 8, "{slots:?}");
    for &name in &set {
        push(&mut queues, name, 100, Time::ZERO);
    }
    assert_eq!((queues.used.len(), queues.packets()), (8, 9));
    let own = queues.queue_of(0, set[3], (0, 1));
    assert_eq!(queues.queue_of(0, set[3], (0, 1)), own);
    assert_eq!(queues.used.iter().filter(|queue| queue.fifo.packets() == 2).count(), 1);
}

/// By hand, at 10 Mbit/s in three tins: bulk is sure of a sixteenth and voice of a quarter, even if all send what
/// they can; if one is silent, the others have it all. The code points are those of the table of Linux.
#[test]
fn tins_are_sure_of_their_share() {
    let flows = [(0, 9, 0), (1, 9, 8), (2, 9, 46)];
    let plan = Cake { rtt: Span::from_secs(1000), ..TEN };
    let sent = shares(&mut queues(plan, &flows), 3, 16_000);
    for (flow, expected) in [(0, 11.0 / 16.0), (1, 1.0 / 16.0), (2, 4.0 / 16.0)] {
        assert!((share_of(&sent, [flow]) - expected).abs() < 0.005, "{flow}: {sent:?}");
    }
    // Without a bandwidth the weights are 16 : 1 : 4.
    let sent = shares(&mut queues(Cake { bandwidth: None, ..plan }, &flows), 3, 21_000);
    for (flow, expected) in [(0, 16.0 / 21.0), (1, 1.0 / 21.0), (2, 4.0 / 21.0)] {
        assert!((share_of(&sent, [flow]) - expected).abs() < 0.005, "{flow}: {sent:?}");
    }
    let alone = shares(&mut queues(plan, &flows[..1]), 1, 1000);
    assert_eq!(alone, [1_500_000]);
    let tins = |tins: Tins| [0, 1, 8, 10, 18, 26, 32, 34, 40, 44, 46, 48, 56].map(|dscp| tins.of(dscp));
    assert_eq!(tins(Tins::BestEffort), [0; 13]);
    assert_eq!(tins(Tins::Three), [0, 1, 1, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2]);
    assert_eq!(tins(Tins::Four), [0, 1, 1, 0, 2, 2, 3, 2, 3, 3, 3, 3, 3]);
}

/// Beyond the memory the longest queue loses its first packet, and BLUE learns of it. 1000 bytes take 2304.
#[test]
fn the_longest_queue_makes_room() {
    let mut queues = queues(Cake { memory: 20 * 2304, ..PLAN }, &[(0, 9, 0), (1, 9, 0)]);
    (0..14).for_each(|_| assert_eq!(push(&mut queues, 0, 1000, Time::ZERO), []));
    (0..6).for_each(|_| assert_eq!(push(&mut queues, 1, 1000, Time::ZERO), []));
    assert_eq!(push(&mut queues, 1, 1000, Time::ZERO + Span::from_millis(6)), [0]);
    assert_eq!(push(&mut queues, 1, 2500, Time::ZERO + Span::from_millis(6)), [0, 0]);
    assert_eq!((queues.packets(), queues.bytes()), (19, 20_500));
}

/// What `tc -s qdisc` of Linux 6.1 says for a hundred datagrams, over a hundred.
#[test]
fn memory_is_that_of_linux() {
    let sizes = [40, 100, 150, 170, 200, 400, 500, 680, 700, 1000, 1500];
    assert_eq!(sizes.map(in_memory), [768, 768, 768, 1280, 1280, 1280, 1280, 2304, 2304, 2304, 2304]);
}

/// A queue that stands is under COBALT: late from the first packet that has waited 5 ms on, so a packet of it is
/// dropped 100 ms later; a packet that is alone in its queue never is.
#[test]
fn control_is_by_flow() {
    let mut queues = queues(PLAN, &[(0, 9, 0), (1, 9, 0)]);
    let mut shed = Vec::new();
    (0..300).for_each(|_| drop(push(&mut queues, 0, 1500, Time::ZERO)));
    for at in 0..112_u64 {
        let now = Time::ZERO + Span::from_millis(at);
        push(&mut queues, 1, 1500, now - Span::from_millis(50));
        (0..2).for_each(|_| assert!(queues.pop(now, &mut shed).is_some()));
    }
    let dropped: Vec<u32> = shed.iter().map(|shed| shed.parcel.flow).collect();
    assert_eq!(dropped, [0]);
}

/// Pure ACKs of a flow, by what they acknowledge, `flags` with each; what of them is filtered.
fn filtered(ack_filter: AckFiltering, acks: &[(u64, u8)]) -> Vec<u64> {
    let mut queues = queues(Cake { ack_filter, ..PLAN }, &[(0, 1, 0)]);
    let (mut packets, mut shed) = (PacketArena::default(), Vec::new());
    for &(seq, flags) in acks {
        let packet =
            Packet { kind: Kind::Ack, seq, flags, note: Note::BACK, extra: NOTHING, ..Packet::default() };
        let packet = packets.insert(packet);
        queues.arrive(Parcel { packet, ..parcel(0, 40, Time::ZERO) }, &packets, &mut shed);
    }
    assert_eq!(queues.packets() as usize + shed.len(), acks.len());
    assert!(shed.iter().all(|shed| shed.cause == Cause::Withheld));
    shed.iter().map(|shed| packets.get(shed.parcel.packet).seq).collect()
}

/// Conservative keeps two of them, aggressive one. Duplicates stay, and so does the last ACK with an echo of marks.
#[test]
fn newer_acks_replace_older_ones() {
    use AckFiltering::{Aggressive, Conservative, Off};
    let plain = [1, 2, 3, 4, 5].map(|seq| (seq, 0));
    assert_eq!(filtered(Off, &plain), []);
    assert_eq!(filtered(Conservative, &plain), [1, 2, 3]);
    assert_eq!(filtered(Aggressive, &plain), [1, 2, 3, 4]);
    let duplicates = [1, 1, 1, 1].map(|seq| (seq, 0));
    assert_eq!(filtered(Aggressive, &duplicates), []);
    let marked = [(1, 0), (2, flag::ECE), (3, flag::ECE), (4, 0), (5, 0)];
    assert_eq!(filtered(Aggressive, &marked), [2, 4]);
}
