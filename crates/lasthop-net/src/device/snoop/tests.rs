//! Snoop packet by packet, without a network: vectors worked by hand, and random sequences that must do no harm.

use lasthop_core::packet::{Cause, Kind, NONE, Note, Packet, flag};
use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use super::super::testing::Bench;
use super::super::{Effect, INBOUND, OUTBOUND};
use super::*;

const MILLI: u64 = 1_000_000;

/// The profile `std`, with ACKs and packets of 1000 bytes.
fn std_agent() -> Snoop {
    Snoop {
        machine: Machine::Paper,
        cache: 100,
        when_full: WhenFull::Forward,
        persist: 10,
        threshold: 1,
        ahead: true,
        timing: Timing::Deviation,
        min_timeout: Span::from_millis(40),
        delayed_ack: Span::from_millis(200),
        backoff: true,
        sack: false,
        hide_sack: true,
        ecn: true,
        answer: true,
        upward: Upward::Eln,
        handoff: AtHandoff::Move,
        link_layer_delay: Span::ZERO,
    }
}

fn ns2_agent() -> Snoop {
    Snoop {
        machine: Machine::Ns2,
        ahead: false,
        min_timeout: Span::from_millis(100),
        delayed_ack: Span::ZERO,
        backoff: false,
        hide_sack: false,
        ecn: false,
        answer: false,
        handoff: AtHandoff::Ignore,
        ..std_agent()
    }
}

/// A connection through an agent: what it lets pass, withholds and sends, by time in milliseconds.
struct Kit {
    bench: Bench<Snooping>,
    /// Window of the ACKs.
    window: u32,
}

/// What came out, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Out {
    /// To the wireless host: data that begin here.
    Data(u64),
    /// A retransmission.
    Again(u64),
    /// To the sender.
    Ack(u64),
    /// An ACK of the agent's own, to either side.
    Own(u64),
    /// Withheld.
    Kept(u64),
}

impl Kit {
    fn new(plan: Snoop) -> Kit {
        Kit { bench: Bench::new(Snooping::new(&plan, "test", 1)), window: 65_000 }
    }

    fn take(&mut self) -> Vec<(u64, Out)> {
        let out = self.bench.take_effects().into_iter().map(|(effect, packet)| match effect {
            Effect::Forward { at, .. } if packet.note.back => (at.0 / MILLI, Out::Ack(packet.seq)),
            Effect::Forward { at, .. } => (at.0 / MILLI, Out::Data(packet.seq)),
            Effect::Emit { at, .. } => (at.0 / MILLI, Out::Again(packet.seq)),
            Effect::Return { at, .. } => (at.0 / MILLI, Out::Own(packet.seq)),
            Effect::Drop { at, cause, .. } => {
                assert_eq!(cause, Cause::Withheld);
                (at.0 / MILLI, Out::Kept(packet.seq))
            }
            effect => panic!("{effect:?}"),
        });
        out.collect()
    }

    /// Data from the sender, 1000 bytes each.
    fn data(&mut self, millis: u64, seq: u64) -> Vec<(u64, Out)> {
        let packet = Packet { seq, payload: 1000, bytes: 1040, kind: Kind::Data, ..Packet::default() };
        self.down(millis, packet)
    }

    fn down(&mut self, millis: u64, packet: Packet) -> Vec<(u64, Out)> {
        self.bench.offer_packet(OUTBOUND, packet, None, Time(millis * MILLI));
        self.take()
    }

    fn ack_packet(&self, seq: u64) -> Packet {
        Packet { seq, bytes: 40, window: self.window, kind: Kind::Ack, note: Note::BACK, ..Packet::default() }
    }

    /// An ACK from the host.
    fn ack(&mut self, millis: u64, seq: u64) -> Vec<(u64, Out)> {
        self.ack_with(millis, self.ack_packet(seq), &[])
    }

    fn ack_with(&mut self, millis: u64, packet: Packet, blocks: &[(u64, u64)]) -> Vec<(u64, Out)> {
        let mut sack = SackBlocks::default();
        for &(start, end) in blocks {
            sack.push(start, end);
        }
        let extra = (!blocks.is_empty()).then(|| Extra { sack, ..Extra::default() });
        self.bench.offer_packet(INBOUND, packet, extra.as_ref(), Time(millis * MILLI));
        self.take()
    }

    /// The blocks with which an ACK goes on, and whether some are left out.
    fn passing(&mut self, millis: u64, seq: u64, blocks: &[(u64, u64)]) -> (Vec<(u64, u64)>, bool) {
        let packet = self.ack_packet(seq);
        let sack = blocks.iter().fold(SackBlocks::default(), |mut sack, &(start, end)| {
            sack.push(start, end);
            sack
        });
        let extra = Extra { sack, ..Extra::default() };
        self.bench.offer_packet(INBOUND, packet, Some(&extra), Time(millis * MILLI));
        let passes = self.bench.let_through().map(|extra| (extra.sack.as_slice().to_vec(), extra.hides_sack));
        self.take();
        passes.expect("the ACK passes")
    }

    /// What timers do until then.
    fn until(&mut self, millis: u64) -> Vec<(u64, Out)> {
        self.bench.run_until(Time(millis * MILLI));
        self.take()
    }

    /// Segments from 0 up to 6000, one per millisecond from 0 on.
    fn seven(&mut self) {
        for number in 0..7 {
            assert_eq!(self.data(number, number * 1000), [(number, Out::Data(number * 1000))]);
        }
    }
}

/// TV-5.1: segment 2000 is lost, the host answers each arrival 10 ms after it passed here. The sender sees no
/// duplicate.
#[test]
fn one_loss_is_repaired_unseen() {
    let mut kit = Kit::new(std_agent());
    kit.seven();
    assert_eq!(kit.ack(10, 1000), [(10, Out::Ack(1000))]);
    assert_eq!(kit.ack(11, 2000), [(11, Out::Ack(2000))]);
    assert_eq!(kit.ack(13, 2000), [(13, Out::Again(2000)), (13, Out::Kept(2000))]);
    for millis in 14..17 {
        assert_eq!(kit.ack(millis, 2000), [(millis, Out::Kept(2000))]);
    }
    assert_eq!(kit.ack(23, 7000), [(23, Out::Ack(7000))]);
    assert_eq!(kit.until(10_000), [], "nothing is left to repair");
}

/// TV-5.1 in ns-2: the first duplicate passes, the second triggers.
#[test]
fn ns2_lets_the_first_duplicate_pass() {
    let mut kit = Kit::new(ns2_agent());
    kit.seven();
    kit.ack(10, 1000);
    kit.ack(11, 2000);
    assert_eq!(kit.ack(13, 2000), [(13, Out::Ack(2000))]);
    assert_eq!(kit.ack(14, 2000), [(14, Out::Again(2000)), (14, Out::Kept(2000))]);
    assert_eq!(kit.ack(15, 2000), [(15, Out::Kept(2000))]);
    assert_eq!(kit.ack(16, 2000), [(16, Out::Kept(2000))]);
    assert_eq!(kit.ack(23, 7000), [(23, Out::Ack(7000))]);
}

/// TV-5.2: 2000 and 4000 are lost. No duplicate asks for the second: the timer repairs it, 40 ms after the ACK of 23.
#[test]
fn the_timer_repairs_the_second_of_two() {
    let mut kit = Kit::new(std_agent());
    kit.seven();
    kit.ack(10, 1000);
    kit.ack(11, 2000);
    assert_eq!(kit.ack(13, 2000), [(13, Out::Again(2000)), (13, Out::Kept(2000))]);
    assert_eq!(kit.ack(15, 2000), [(15, Out::Kept(2000))]);
    assert_eq!(kit.ack(16, 2000), [(16, Out::Kept(2000))]);
    assert_eq!(kit.ack(23, 4000), [(23, Out::Ack(4000))]);
    assert_eq!(kit.until(1_000)[..1], [(63, Out::Again(4000))]);
}

/// The same with SACK: the blocks of the duplicate of 15 show the second hole.
#[test]
fn sack_shows_both_holes() {
    let mut kit = Kit::new(Snoop { sack: true, ..std_agent() });
    kit.seven();
    kit.ack(10, 1000);
    kit.ack(11, 2000);
    let duplicate = kit.ack_packet(2000);
    assert_eq!(kit.ack_with(13, duplicate, &[(3000, 4000)]), [(13, Out::Again(2000)), (13, Out::Kept(2000))]);
    assert_eq!(
        kit.ack_with(15, duplicate, &[(5000, 6000), (3000, 4000)]),
        [(15, Out::Again(4000)), (15, Out::Kept(2000))]
    );
    assert_eq!(kit.ack_with(16, duplicate, &[(5000, 7000), (3000, 4000)]), [(16, Out::Kept(2000))]);
    assert_eq!(kit.ack(23, 4000), [(23, Out::Ack(4000))]);
    assert_eq!(kit.ack(25, 7000), [(25, Out::Ack(7000))]);
}

/// By hand: 2000 and 4000 are lost. The ACK of the first repair shows three segments above the second hole, which RFC
/// 6675 takes for its loss: the sender learns of them when the agent gives that hole up, or if it does not repair it.
#[test]
fn blocks_above_a_hole_that_is_repaired_here_are_hidden() {
    let above = [(5000, 8000)];
    let of = |plan: Snoop, ack: u64| {
        let mut kit = Kit::new(plan);
        kit.seven();
        kit.data(7, 7000);
        kit.ack(10, 1000);
        kit.ack(11, 2000);
        kit.ack_with(13, kit.ack_packet(2000), &[(3000, 4000)]);
        kit.passing(23, ack, &above)
    };
    assert_eq!(of(std_agent(), 4000), (vec![], true));
    assert_eq!(of(Snoop { sack: true, ..std_agent() }, 4000), (vec![], true));
    assert_eq!(of(Snoop { hide_sack: false, ..std_agent() }, 4000), (above.to_vec(), false));
    assert_eq!(of(Snoop { persist: 0, ..std_agent() }, 4000), (above.to_vec(), false), "nothing is repaired");
    assert_eq!(of(ns2_agent(), 4000), (above.to_vec(), false));
}

/// A block that reports a duplicate (RFC 2883) goes on, and so do those above what the sender itself must repeat.
#[test]
fn a_report_of_a_duplicate_is_not_hidden() {
    let mut kit = Kit::new(std_agent());
    kit.seven();
    kit.ack(10, 1000);
    assert_eq!(kit.passing(11, 2000, &[(0, 1000), (3000, 6000)]), (vec![(0, 1000)], true));
    // The sender repeats 2000, and an ACK asks for it again.
    kit.data(12, 2000);
    let changed = Packet { window: 64_000, ..kit.ack_packet(2000) };
    kit.window = 64_000;
    assert_eq!(changed.window, kit.window);
    assert_eq!(kit.passing(13, 2000, &[(3000, 6000)]), (vec![(3000, 6000)], false));
}

/// The retransmission is lost as well, which packets sent after it show: the next duplicate repeats it.
#[test]
fn a_lost_repetition_is_repeated() {
    let mut kit = Kit::new(std_agent());
    kit.seven();
    kit.ack(10, 1000);
    kit.ack(11, 2000);
    kit.ack(13, 2000);
    kit.data(14, 7000);
    kit.data(15, 8000);
    for millis in 14..17 {
        assert_eq!(kit.ack(millis, 2000), [(millis, Out::Kept(2000))]);
    }
    // Of 7000: two were sent behind the retransmission, and one echo is still to come.
    assert_eq!(kit.ack(24, 2000), [(24, Out::Again(2000)), (24, Out::Kept(2000))]);
    assert_eq!(kit.ack(25, 2000), [(25, Out::Kept(2000))]);
    assert_eq!(kit.ack(26, 2000), [(26, Out::Kept(2000))], "nothing was sent behind the last copy");
}

/// No answer comes: the timeout of 100 ms before the first sample doubles, and ends after ten.
#[test]
fn the_timer_doubles_and_gives_up() {
    let mut kit = Kit::new(std_agent());
    kit.ack(0, 0);
    kit.data(0, 0);
    kit.data(0, 1000);
    let times: Vec<u64> = kit.until(u64::MAX / MILLI).into_iter().map(|(at, _)| at).collect();
    assert_eq!(times[..4], [100, 300, 700, 1500]);
    assert_eq!(times.len(), 10);
    assert_eq!(kit.bench.device.repairs(), Some(10));
}

/// A lone packet whose ACK may be delayed gets 200 ms more, until three ACKs in a row have covered one packet although
/// more were under way.
#[test]
fn the_timer_is_patient_with_delayed_acks() {
    let mut kit = Kit::new(std_agent());
    kit.data(0, 0);
    assert_eq!(kit.until(1_000)[0], (300, Out::Again(0)));
    let mut kit = Kit::new(std_agent());
    (0..7).for_each(|number| drop(kit.data(number, number * 1000)));
    (1..7).for_each(|number| drop(kit.ack(10 + number, number * 1000)));
    assert_eq!(kit.until(1_000)[0], (56, Out::Again(6000)), "40 ms after the last ACK");
    let mut kit = Kit::new(std_agent());
    (0..7).for_each(|number| drop(kit.data(number, number * 1000)));
    (1..4).for_each(|number| drop(kit.ack(10 + 2 * number, 2000 * number)));
    assert_eq!(kit.until(1_000)[0], (256, Out::Again(6000)), "two at a time: the last one may be waiting");
}

/// ns-2 starts with 0.1 s and four times 0.25 s, and never doubles.
#[test]
fn ns2_times_without_doubling() {
    let mut kit = Kit::new(ns2_agent());
    kit.data(0, 0);
    let times: Vec<u64> = kit.until(100_000).into_iter().map(|(at, _)| at).collect();
    assert_eq!(times, (1..=10).map(|number| number * 1100).collect::<Vec<_>>());
}

/// What was lost before it came here is the sender's affair.
#[test]
fn losses_upstream_are_left_to_the_sender() {
    let mut kit = Kit::new(std_agent());
    kit.data(0, 0);
    for number in 2..6 {
        kit.data(number, number * 1000);
    }
    kit.ack(10, 1000);
    for millis in 12..16 {
        assert_eq!(kit.ack(millis, 1000), [(millis, Out::Ack(1000))], "they pass");
    }
    // The sender repeats it; its echoes have passed already, so one more duplicate means that the copy is lost.
    assert_eq!(kit.data(40, 1000), [(40, Out::Data(1000))]);
    kit.data(41, 6000);
    assert_eq!(kit.ack(51, 1000), [(51, Out::Again(1000)), (51, Out::Kept(1000))]);
    assert_eq!(kit.ack(61, 7000), [(61, Out::Ack(7000))]);
}

/// The sender repeats what is here: duplicates for it are its own to count.
#[test]
fn what_the_sender_repeats_it_counts() {
    let mut kit = Kit::new(std_agent());
    kit.seven();
    kit.ack(11, 2000);
    assert_eq!(kit.data(12, 2000), [(12, Out::Data(2000))]);
    for millis in 13..17 {
        assert_eq!(kit.ack(millis, 2000), [(millis, Out::Ack(2000))]);
    }
    assert_eq!(kit.ack(22, 7000), [(22, Out::Ack(7000))]);
}

/// Data that the host has are answered from here, but not a keepalive, which asks the host.
#[test]
fn known_data_are_answered() {
    let mut kit = Kit::new(std_agent());
    kit.seven();
    kit.ack(20, 7000);
    assert_eq!(kit.data(21, 3000), [(21, Out::Own(7000)), (21, Out::Kept(3000))]);
    let keepalive = Packet { seq: 6999, payload: 1, bytes: 41, kind: Kind::Data, ..Packet::default() };
    assert_eq!(kit.down(22, keepalive), [(22, Out::Data(6999))]);
    assert_eq!(kit.ack(30, 7000), [(30, Out::Ack(7000))]);
    assert_eq!(kit.ack(31, 3000), [(31, Out::Kept(3000))], "an ACK that comes late says nothing");
}

/// Changes of the window pass and are no duplicates; while it is closed nothing is kept or repeated.
#[test]
fn windows_are_respected() {
    let mut kit = Kit::new(std_agent());
    kit.seven();
    kit.window = 0;
    assert_eq!(kit.ack(10, 3000), [(10, Out::Ack(3000))]);
    assert_eq!(kit.until(5_000), [], "no timer runs while it is closed");
    let probe = Packet { seq: 7000, payload: 1, bytes: 41, kind: Kind::Data, ..Packet::default() };
    assert_eq!(kit.down(5_000, probe), [(5_000, Out::Data(7000))]);
    for millis in 5_010..5_015 {
        assert_eq!(kit.ack(millis, 3000), [(millis, Out::Ack(3000))], "answers to probes");
    }
    kit.window = 20_000;
    assert_eq!(kit.ack(6_000, 3000), [(6_000, Out::Ack(3000))], "the window opens");
    assert_eq!(kit.until(6_200)[..1], [(6_040, Out::Again(3000))], "what is here counts again");
}

/// The echo of congestion changes on a duplicate that would be withheld: it passes.
#[test]
fn echoes_of_congestion_pass() {
    let mut kit = Kit::new(std_agent());
    kit.seven();
    kit.ack(11, 2000);
    let marked = Packet { flags: flag::ECE, ..kit.ack_packet(2000) };
    assert_eq!(kit.ack_with(13, marked, &[]), [(13, Out::Again(2000)), (13, Out::Ack(2000))]);
    assert_eq!(kit.ack_with(14, marked, &[]), [(14, Out::Kept(2000))]);
    assert_eq!(kit.ack(15, 2000), [(15, Out::Ack(2000))], "and its end");
}

/// A duplicate that reports a copy (DSACK) says nothing of a loss.
#[test]
fn reports_of_copies_pass() {
    let mut kit = Kit::new(std_agent());
    kit.seven();
    kit.ack(11, 2000);
    let packet = kit.ack_packet(2000);
    assert_eq!(kit.ack_with(12, packet, &[(1000, 2000)]), [(12, Out::Ack(2000))]);
}

/// A connection from SYN to FIN across the wrap of sequence numbers, with a loss on either side of it.
#[test]
fn a_whole_connection_wraps() {
    let base = (1u64 << 32) - 3_001;
    let mut kit = Kit::new(std_agent());
    let syn = Packet { seq: base, bytes: 40, kind: Kind::Syn, ..Packet::default() };
    kit.down(0, syn);
    let answer = Packet { kind: Kind::SynAck, ..kit.ack_packet(base + 1) };
    assert_eq!(kit.ack_with(5, answer, &[]), [(5, Out::Ack(base + 1))]);
    for number in 0..6 {
        kit.data(10 + number, base + 1 + number * 1000);
    }
    let fin = Packet { seq: base + 6001, payload: 500, bytes: 540, kind: Kind::Fin, ..Packet::default() };
    kit.down(16, fin);
    // The round trip of the SYN, 5 ms, stands for a first sample. The second is lost, and the FIN.
    kit.ack(20, base + 1001);
    assert_eq!(kit.ack(22, base + 1001)[0], (22, Out::Again(base + 1001)));
    for millis in 23..26 {
        kit.ack(millis, base + 1001);
    }
    assert_eq!(kit.ack(32, base + 6001), [(32, Out::Ack(base + 6001))]);
    assert_eq!(kit.until(500)[0], (272, Out::Again(base + 6001)), "the FIN");
    let closing = Packet { kind: Kind::FinAck, ..kit.ack_packet(base + 6502) };
    assert_eq!(kit.ack_with(501, closing, &[]), [(501, Out::Ack(base + 6502))]);
    assert!(kit.bench.device.places.is_empty(), "it is over, and nothing is remembered");
}

/// The cache is bounded: what exceeds it passes, or takes the place of the lowest.
#[test]
fn a_full_cache_lets_pass() {
    for (when_full, first) in [(WhenFull::Forward, 0), (WhenFull::Evict, 2000)] {
        let mut kit = Kit::new(Snoop { cache: 5, when_full, ..std_agent() });
        kit.seven();
        assert_eq!(kit.bench.device.kept, 5);
        kit.ack(10, first);
        let repaired = kit.until(200);
        assert_eq!(repaired[0].1, Out::Again(first), "{when_full:?}");
    }
}

/// Data from the wireless host: a hole seen here marks the duplicate ACKs for it, one that came before does not.
#[test]
fn losses_of_the_other_way_are_marked() {
    let mut kit = Kit::new(std_agent());
    let up = |kit: &mut Kit, millis: u64, seq: u64| {
        let packet = Packet { seq, payload: 1000, bytes: 1040, kind: Kind::Data, ..Packet::default() };
        kit.bench.offer_packet(INBOUND, packet, None, Time(millis * MILLI));
        assert_eq!(kit.take(), [(millis, Out::Data(seq))]);
    };
    let down = |kit: &mut Kit, millis: u64, seq: u64| {
        let packet = kit.ack_packet(seq);
        kit.bench.offer_packet(OUTBOUND, packet, None, Time(millis * MILLI));
        kit.bench.take_effects().iter().any(|(_, packet)| packet.has(flag::ELN))
    };
    for seq in [1, 1001, 3001, 4001] {
        up(&mut kit, seq / 1000, seq);
    }
    assert!(!down(&mut kit, 20, 1001), "what it asks for has come by");
    assert!(down(&mut kit, 21, 2001) && down(&mut kit, 22, 2001), "2001 has not");
    up(&mut kit, 30, 2001);
    assert!(down(&mut kit, 31, 2001), "the repetition is under way to the far end");
    assert!(!down(&mut kit, 40, 5001) && !down(&mut kit, 41, 5001), "nothing is missing here");
    assert_eq!(kit.bench.device.counts.marked, 3);
}

/// Negative acknowledgements: once per hole, with what has come on both sides of it, if the sender understands them.
#[test]
fn holes_are_told_at_once() {
    for hears in [false, true] {
        let mut kit = Kit::new(Snoop { upward: Upward::Nack, ..std_agent() });
        let flows: Arc<[FlowFacts]> = Arc::new([FlowFacts { pair: 0, hears }]);
        kit.bench.device.stand(NOWHERE, (NOWHERE, false), &flows);
        let syn = Packet { bytes: 40, kind: Kind::Syn, ..Packet::default() };
        kit.bench.offer_packet(INBOUND, syn, None, Time::ZERO);
        let acked = kit.ack_packet(1);
        kit.bench.offer_packet(OUTBOUND, acked, None, Time::ZERO);
        kit.bench.take_effects();
        let mut told = Vec::new();
        for (millis, seq) in [(1, 1), (2, 2001), (3, 3001), (4, 5001)] {
            let packet = Packet { seq, payload: 1000, bytes: 1040, kind: Kind::Data, ..Packet::default() };
            kit.bench.offer_packet(INBOUND, packet, None, Time(millis * MILLI));
            for (effect, packet) in kit.bench.take_effects() {
                if let Effect::Return { extra, .. } = effect {
                    assert!(packet.has(flag::ELN) && packet.note.back && packet.window == 65_000);
                    told.push((millis, packet.seq, extra.unwrap().sack.as_slice().to_vec()));
                }
            }
        }
        // The block that begins with the ACK's own number ends where the hole begins.
        let expected = [(2, 1, vec![(2001, 3001), (1, 1001)]), (4, 1, vec![(5001, 6001), (1, 4001)])];
        assert_eq!(told, if hears { expected.to_vec() } else { Vec::new() });
    }
}

/// Other transports pass untouched.
#[test]
fn datagrams_pass() {
    let mut kit = Kit::new(std_agent());
    let packet = Packet { payload: 1000, bytes: 1028, kind: Kind::Udp, extra: NONE, ..Packet::default() };
    assert_eq!(kit.down(0, packet), [(0, Out::Data(0))]);
    assert!(kit.bench.device.connections.is_empty());
}

/// Random packets in any order, cut, copied, wrapped and hostile: no panic, every packet is let go, and memory stays
/// bounded. `LASTHOP_FUZZ=1000000` makes it as many sequences.
#[test]
fn random_sequences_do_no_harm() {
    let count = std::env::var("LASTHOP_FUZZ").ok().and_then(|text| text.parse().ok()).unwrap_or(3_000);
    let mut stream = Stream::new(7, "random packets");
    for sequence in 0..count {
        let base = match sequence % 3 {
            0 => 0,
            1 => (1u64 << 32) - 20_000,
            _ => stream.below(1 << 33),
        };
        let plan = match stream.below(4) {
            0 => ns2_agent(),
            1 => Snoop { upward: Upward::Nack, timing: Timing::Double, backoff: false, ..std_agent() },
            2 => Snoop { sack: true, when_full: WhenFull::Evict, threshold: 3, ..std_agent() },
            _ => std_agent(),
        };
        let plan = Snoop { cache: 1 + stream.below(20) as u32, persist: stream.below(4) as u32, ..plan };
        let mut kit = Kit::new(plan);
        let flows: Arc<[FlowFacts]> = Arc::new([FlowFacts { pair: 0, hears: true }]);
        kit.bench.device.stand(NOWHERE, (NOWHERE, false), &flows);
        let mut now = Time::ZERO;
        for _ in 0..60 {
            now += Span(stream.below(60 * MILLI));
            let wild = stream.below(20) == 0;
            let number = |stream: &mut Stream| {
                let near = base + 500 * stream.below(60);
                if wild { near ^ (1 << stream.below(40)) } else { near }
            };
            let seq = number(&mut stream);
            let kinds = [
                Kind::Data,
                Kind::Data,
                Kind::Data,
                Kind::Syn,
                Kind::Fin,
                Kind::Probe,
                Kind::Udp,
                Kind::Ack,
                Kind::Reset,
            ];
            let backs =
                [Kind::Ack, Kind::Ack, Kind::Ack, Kind::SynAck, Kind::FinAck, Kind::ProbeAnswer, Kind::Reset];
            let back = stream.below(2) == 1;
            let kind = if back { backs[stream.below(7) as usize] } else { kinds[stream.below(9) as usize] };
            let payload = if back { 0 } else { [0, 1, 499, 500, 1000, 65_000][stream.below(6) as usize] };
            let packet = Packet {
                seq,
                payload,
                bytes: payload.saturating_add(40),
                window: [0, 1, 65_000, u32::MAX][stream.below(4) as usize],
                flags: stream.below(32) as u8,
                kind,
                note: Note::new(back, stream.below(2) == 1),
                ..Packet::default()
            };
            let extra = (stream.below(3) == 0).then(|| {
                let mut sack = SackBlocks::default();
                (0..stream.below(5)).for_each(|_| sack.push(number(&mut stream), number(&mut stream)));
                Extra { sack, ..Extra::default() }
            });
            let port = if stream.below(2) == 0 { OUTBOUND } else { INBOUND };
            kit.bench.offer_packet(port, packet, extra.as_ref(), now);
            let effects = kit.bench.take_effects();
            let gone = effects
                .iter()
                .filter(|(effect, _)| matches!(effect, Effect::Forward { .. } | Effect::Drop { .. }));
            assert_eq!(gone.count(), 1, "{packet:?}");
            assert!(kit.bench.device.kept <= u64::from(plan.cache), "{} kept", kit.bench.device.kept);
            assert!(kit.bench.device.timers.len() <= 200);
        }
        kit.bench.run_until(now + Span::from_secs(1_000_000));
        kit.bench.take_effects();
    }
}

/// Behind a link layer of 2 ms everything that goes on does so 2 ms later, on both sides, and what the agent keeps is
/// what the queue had room for when it came by.
#[test]
fn a_link_layer_delays_what_goes_on() {
    for agent in [std_agent(), ns2_agent()] {
        let mut kit = Kit::new(Snoop {
            link_layer_delay: Span::from_millis(2),
            min_timeout: Span::from_secs(9),
            ..agent
        });
        assert_eq!(kit.data(10, 1), [(12, Out::Data(1))]);
        for n in 1..4 {
            assert_eq!(kit.data(10 + n, 1 + 1000 * n), [(12 + n, Out::Data(1 + 1000 * n))]);
        }
        assert_eq!(kit.ack(30, 1001), [(32, Out::Ack(1001))]);
        // ns-2 lets the first duplicate pass.
        let found: Vec<_> = (31..33).flat_map(|at| kit.ack(at, 1001)).collect();
        assert!(
            found.contains(&(33, Out::Again(1001))) || found.contains(&(34, Out::Again(1001))),
            "{found:?}"
        );
    }
}
