//! A receiver alone: ACKs, blocks, windows and their times.

use super::*;
use crate::plan::Percentiles;

const ALWAYS: Window = Window { from: Time::ZERO, to: Time::MAX };

/// A receiver whose connection is open, and its clock in milliseconds.
struct Rig {
    receiver: TcpReceiver,
    /// What the SYN offers.
    offer: Extra,
    stats: FlowStats,
}

impl Rig {
    /// SACK blocks as RFC 2018 and RFC 2883 have them, each segment acknowledged at once.
    fn new() -> Rig {
        Rig::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut TcpConfig)) -> Rig {
        Rig::opened(change, 0)
    }

    /// The SYN had these bits.
    fn opened(change: impl FnOnce(&mut TcpConfig), flags: u8) -> Rig {
        let mut config = TcpConfig::preset("sack", Profile::Rfc).unwrap();
        config.delayed_ack = None;
        change(&mut config);
        let offer = Extra { offer: Some(config.offer()), ..Extra::default() };
        let (receiver, stats) = (TcpReceiver::new(&config), FlowStats::new(Percentiles::Exact));
        let mut rig = Rig { receiver, offer, stats };
        let syn = rig.take(Packet { kind: Kind::Syn, flags, ..Packet::default() }, 0);
        assert_eq!(syn.map(|(ack, _)| (ack.kind, ack.seq)), Some((Kind::SynAck, 1)));
        rig
    }

    /// Everything below `seq` has arrived.
    fn up_to(mut self, seq: u64) -> Rig {
        let payload = (seq - 1) as u16;
        self.take(Packet { seq: 1, payload, kind: Kind::Data, ..Packet::default() }, 0);
        self
    }

    fn take(&mut self, packet: Packet, millis: u64) -> Option<(Packet, Vec<(u64, u64)>)> {
        let now = Time::ZERO + Span::from_millis(millis);
        let extra = Some(&self.offer).filter(|_| packet.kind == Kind::Syn);
        let kind = self.receiver.receive(&packet, extra, now, &mut self.stats, &ALWAYS)?;
        let blocks =
            self.receiver.extra(kind, Time::ZERO).map_or(Vec::new(), |extra| extra.sack.as_slice().to_vec());
        Some((self.receiver.acknowledge(kind, now), blocks))
    }

    /// Bytes `seq..seq + 500` arrive: the ACK and its blocks.
    fn data(&mut self, seq: u64) -> Option<(u64, Vec<(u64, u64)>)> {
        let packet = Packet { seq, payload: 500, kind: Kind::Data, ..Packet::default() };
        self.take(packet, 0).map(|(ack, blocks)| (ack.seq, blocks))
    }

    /// The same at `millis`, with the time of sending: whether it is acknowledged, and the echo if it is.
    fn stamped(&mut self, seq: u64, millis: u64) -> Option<u64> {
        let stamp = Time::ZERO + Span::from_millis(millis);
        let packet = Packet { seq, payload: 500, kind: Kind::Data, stamp, ..Packet::default() };
        self.take(packet, millis).map(|(ack, _)| ack.echo.0 / 1_000_000)
    }
}

/// RFC 2018 §5, case 2: the first of eight segments is lost.
#[test]
fn one_block_grows() {
    let mut rig = Rig::new().up_to(5000);
    for number in 1..8 {
        let end = 6000 + 500 * (number - 1);
        assert_eq!(rig.data(5000 + 500 * number), Some((5000, vec![(5500, end)])));
    }
}

/// RFC 2018 §5, case 3: every second segment is lost; then the fourth arrives, then the second.
#[test]
fn the_newest_block_comes_first() {
    let mut rig = Rig::new().up_to(5000);
    assert_eq!(rig.data(5000), Some((5500, vec![])));
    assert_eq!(rig.data(6000), Some((5500, vec![(6000, 6500)])));
    assert_eq!(rig.data(7000), Some((5500, vec![(7000, 7500), (6000, 6500)])));
    assert_eq!(rig.data(8000), Some((5500, vec![(8000, 8500), (7000, 7500), (6000, 6500)])));
    assert_eq!(rig.data(6500), Some((5500, vec![(6000, 7500), (8000, 8500)])));
    assert_eq!(rig.data(5500), Some((7500, vec![(8000, 8500)])));
    assert_eq!(rig.data(7500), Some((8500, vec![])));
    assert_eq!(rig.stats.bytes_delivered, 8499);
}

/// RFC 9293 §3.10.7.4: nothing comes behind a FIN, of two the first is the end, and one below what is here is none.
#[test]
fn nothing_comes_behind_the_end() {
    let fin = |seq, payload| Packet { seq, payload, kind: Kind::Fin, ..Packet::default() };
    let mut rig = Rig::new().up_to(5000);
    rig.take(fin(2000, 500), 0);
    assert_eq!(rig.receiver.in_order(), (4999, true, false));
    rig.data(6000);
    rig.take(fin(7000, 0), 0);
    rig.take(fin(5500, 200), 0);
    assert_eq!(rig.data(5000), Some((5701, vec![])));
    assert_eq!((rig.receiver.in_order(), rig.stats.bytes_delivered), ((5699, true, true), 5699));
    for seq in [5700, 5701, 6500] {
        rig.data(seq);
        rig.take(fin(seq, 500), 0);
    }
    assert_eq!((rig.receiver.in_order(), rig.stats.bytes_delivered), ((5699, true, true), 5699));
}

/// RFC 9293 §3.10.7.4: another SYN in an open connection is answered by an ACK of what is here, a late copy of the
/// first one too.
#[test]
fn another_syn_opens_nothing() {
    let mut rig = Rig::new().up_to(5000);
    for seq in [0, 3000, 5000, 9000] {
        let (answer, _) = rig.take(Packet { seq, kind: Kind::Syn, ..Packet::default() }, 0).unwrap();
        assert_eq!((answer.kind, answer.seq), (Kind::Ack, 5000));
    }
    assert_eq!(rig.stats.bytes_delivered, 4999);
}

#[test]
fn no_more_blocks_than_agreed() {
    let mut rig = Rig::with(|config| config.sack_blocks = 2).up_to(5000);
    rig.data(6000);
    rig.data(7000);
    assert_eq!(rig.data(8000), Some((5000, vec![(8000, 8500), (7000, 7500)])));
    let mut rig = Rig::with(|config| config.recovery = super::super::config::Recovery::NewReno).up_to(5000);
    assert_eq!(rig.data(6000), Some((5000, vec![])));
}

/// RFC 2883 §4.1.1 and §4.1.2: a duplicate, alone and beside a gap.
#[test]
fn a_duplicate_is_reported_first() {
    let mut rig = Rig::new().up_to(3000);
    rig.data(3000);
    rig.data(3500);
    assert_eq!(rig.data(3000), Some((4000, vec![(3000, 3500)])));
    assert_eq!(rig.data(4500), Some((4000, vec![(4500, 5000)])), "a duplicate is reported once");
    assert_eq!(rig.data(3000), Some((4000, vec![(3000, 3500), (4500, 5000)])));
}

/// RFC 2883 §4.1.3: a duplicate of what lies beyond a gap, followed by the block that it belongs to.
#[test]
fn a_duplicate_within_a_block() {
    let mut rig = Rig::new().up_to(4000);
    rig.data(4500);
    assert_eq!(rig.data(5000), Some((4000, vec![(4500, 5500)])));
    assert_eq!(rig.data(5000), Some((4000, vec![(5000, 5500), (4500, 5500)])));
}

#[test]
fn no_dsack_unless_wanted() {
    let mut rig = Rig::with(|config| config.dsack = false).up_to(4000);
    assert_eq!(rig.data(3500), Some((4000, vec![])));
    rig.data(4500);
    assert_eq!(rig.data(4500), Some((4000, vec![(4500, 5000)])));
}

fn delayed() -> Rig {
    Rig::with(|config| config.delayed_ack = Some(DelayedAck::USUAL))
}

fn acked(answer: Option<(u64, Vec<(u64, u64)>)>) -> Option<u64> {
    answer.map(|(ack, _)| ack)
}

/// By hand from `__tcp_ack_snd_check`: of eight segments beyond a gap, with an RTT of 10 ms, three are
/// answered at once and five together, after a twentieth of the RTT and the slack of the timer, 0.6 ms. A
/// duplicate does not wait, and neither does the end of the gap.
#[test]
fn linux_answers_what_is_out_of_order_together() {
    let mut rig = Rig::with(|config| config.profile = Profile::Linux).up_to(5000);
    rig.receiver.quick = 0;
    let at = |micros: u64| Time::ZERO + Span::from_nanos(1000 * micros);
    let data = |seq, micros| Packet {
        seq,
        payload: 500,
        kind: Kind::Data,
        stamp: at(micros),
        echo: at(micros) - Span::from_millis(10),
        ..Packet::default()
    };
    let receive = |rig: &mut Rig, seq, micros| {
        let Rig { receiver, stats, .. } = rig;
        receiver.receive(&data(seq, micros), None, at(micros), stats, &ALWAYS)
    };
    for number in 0..8 {
        let answer = receive(&mut rig, 5500 + 500 * number, 20_000 + 100 * number);
        assert_eq!(answer.is_some(), number < 3, "segment {number}");
        if let Some(kind) = answer {
            rig.receiver.acknowledge(kind, at(20_000));
        }
    }
    assert_eq!(rig.receiver.overdue(at(20_899)), None);
    assert_eq!(rig.receiver.overdue(at(20_900)), Some((Kind::Ack, at(20_900))));
    let extra = rig.receiver.extra(Kind::Ack, at(20_900)).unwrap();
    assert_eq!(extra.sack.as_slice(), [(5500, 9500)]);
    assert_eq!(rig.receiver.acknowledge(Kind::Ack, at(20_900)).seq, 5000);
    assert_eq!(receive(&mut rig, 9500, 22_000), None, "the gap is as it was");
    assert!(receive(&mut rig, 4500, 22_100).is_some(), "a duplicate");
    rig.receiver.acknowledge(Kind::Ack, at(22_100));
    assert_eq!(rig.receiver.overdue(at(30_000)), None, "told of both");
    assert!(receive(&mut rig, 5000, 30_100).is_some(), "the gap is filled");
    assert_eq!(rig.receiver.acknowledge(Kind::Ack, at(30_100)).seq, 10_000);
}

/// RFC 5681 §4.2: every second segment, and whatever is out of order or fills a gap.
#[test]
fn delayed_acks_answer_every_second_segment() {
    let mut rig = delayed();
    assert_eq!(acked(rig.data(1)), None);
    assert_eq!(acked(rig.data(501)), Some(1001));
    assert_eq!(acked(rig.data(1001)), None);
    assert_eq!(acked(rig.data(2001)), Some(1501), "out of order");
    assert_eq!(acked(rig.data(2501)), Some(1501), "beyond a gap");
    assert_eq!(acked(rig.data(1501)), Some(3001), "fills the gap");
    assert_eq!(acked(rig.data(1501)), Some(3001), "a duplicate");
    assert_eq!(acked(rig.data(3001)), None, "in order again");
}

#[test]
fn a_delayed_ack_waits_no_longer_than_its_time() {
    let mut rig = delayed();
    assert_eq!(rig.receiver.due(), None);
    assert_eq!(rig.stamped(1, 30), None);
    let due = Time::ZERO + Span::from_millis(230);
    assert_eq!(rig.receiver.due(), Some(due));
    assert_eq!(rig.receiver.overdue(Time(due.0 - 1)), None);
    assert_eq!(rig.receiver.overdue(due), Some((Kind::Ack, due)));
    assert_eq!(rig.receiver.acknowledge(Kind::Ack, due).seq, 501);
    assert_eq!((rig.receiver.due(), rig.receiver.overdue(due)), (None, None));
}

#[test]
fn quick_acks_come_first() {
    let delay = DelayedAck { timeout: Span::from_millis(40), quick: 3, ..DelayedAck::USUAL };
    let mut rig = Rig::with(|config| config.delayed_ack = Some(delay));
    let answers: Vec<bool> = (0..6).map(|number| rig.data(1 + 500 * number).is_some()).collect();
    assert_eq!(answers, [true, true, true, false, true, false]);
}

/// RFC 7323 §4.3: of delayed segments the earliest is echoed, beyond a gap the last in order, and then the one
/// that filled it.
#[test]
fn the_echo_never_flatters_the_path() {
    let mut rig = delayed();
    assert_eq!(rig.stamped(1, 10), None);
    assert_eq!(rig.stamped(501, 20), Some(10), "(A) the segment that waited");
    assert_eq!(rig.stamped(1501, 30), Some(10), "(B) beyond a gap");
    assert_eq!(rig.stamped(2001, 40), Some(10));
    assert_eq!(rig.stamped(1001, 50), Some(50), "(C) the segment that fills it");
    assert_eq!(rig.stamped(3001, 60), Some(50));
}

/// RFC 3168 §6.1.3: echoed on every ACK until the sender has reacted, also when that segment is marked again.
#[test]
fn congestion_is_echoed_until_the_sender_reacts() {
    let mut rig = Rig::with(|config| config.ecn = true);
    let mut seq = 1;
    let mut echoed = |flags: u8| {
        let packet = Packet { seq, payload: 500, kind: Kind::Data, flags, ..Packet::default() };
        seq += 500;
        rig.take(packet, 0).unwrap().0.has(flag::ECE)
    };
    assert!(!echoed(flag::ECT));
    assert!(echoed(flag::ECT | flag::CE));
    assert!(echoed(flag::ECT));
    assert!(!echoed(flag::ECT | flag::CWR));
    assert!(echoed(flag::ECT | flag::CWR | flag::CE));
    assert!(echoed(flag::ECT));
}

/// TV-29.2 and the handshake of RFC 9768: the SYN-ACK tells how the last SYN came, and ACKs count marked packets
/// from 5 on; repeated data count, the SYN does not, and CWR is a bit of the counter.
#[test]
fn marks_are_counted() {
    let accurate = |config: &mut TcpConfig| (config.ecn, config.accurate_ecn) = (true, true);
    let mut rig = Rig::opened(accurate, flag::ACE);
    let syn = |flags| Packet { kind: Kind::Syn, flags, ..Packet::default() };
    let code = |rig: &mut Rig, flags| rig.take(syn(flags), 0).unwrap().0.flags;
    assert_eq!(code(&mut rig, flag::ACE | flag::ECT | flag::CE), flag::AE | flag::CWR);
    assert_eq!(code(&mut rig, flag::ACE), flag::CWR, "the last one counts");
    let counts: Vec<u32> = [(1, 0), (501, 1), (1001, 1), (501, 1), (1501, 0), (2001, 1)]
        .into_iter()
        .map(|(seq, marked)| {
            let flags = flag::ECT | flag::CWR | (flag::CE * marked);
            let packet = Packet { seq, payload: 500, kind: Kind::Data, flags, ..Packet::default() };
            super::accurate::number(rig.take(packet, 0).unwrap().0.flags)
        })
        .collect();
    assert_eq!(counts, [5, 6, 7, 0, 0, 1]);
    for (asks, agrees) in [(flag::ECE | flag::CWR, flag::ECE), (0, 0)] {
        assert_eq!(code(&mut Rig::opened(accurate, asks), asks), agrees, "RFC 3168, or nothing");
    }
    let classic = &mut Rig::opened(|config| config.ecn = true, flag::ACE);
    assert_eq!(code(classic, flag::ACE), flag::ECE, "an end that knows RFC 3168 alone");
}

/// TV-29.6: ACKs of every fourth segment. Segments 2, 3, 4, 6 are marked: the first of a row is acknowledged, and
/// the second mark since.
#[test]
fn marks_are_told_in_time() {
    let delay = DelayedAck { segments: 4, ..DelayedAck::USUAL };
    for (count, expected) in [
        (true, [None, Some(1001), None, Some(2001), None, Some(3001)]),
        (false, [None, None, None, Some(2001), None, None]),
    ] {
        let change = |config: &mut TcpConfig| {
            (config.ecn, config.accurate_ecn, config.delayed_ack) = (true, count, Some(delay));
        };
        let mut rig = Rig::opened(change, flag::ACE);
        let answers = [0, 1, 1, 1, 0, 1].into_iter().zip(0u64..).map(|(marked, number)| {
            let flags = flag::ECT | (flag::CE * marked);
            let seq = 1 + 500 * number;
            let packet = Packet { seq, payload: 500, kind: Kind::Data, flags, ..Packet::default() };
            rig.take(packet, 0).map(|(ack, _)| ack.seq)
        });
        assert_eq!(answers.collect::<Vec<_>>(), expected);
    }
}

/// Probes are answered at once, by their time, and an ACK that waits goes on waiting.
#[test]
fn probes_are_answered_at_once() {
    let mut rig = delayed();
    assert_eq!(rig.stamped(1, 10), None);
    let at = |millis| Time::ZERO + Span::from_millis(millis);
    let probe = Packet { seq: 501, stamp: at(20), kind: Kind::Probe, ..Packet::default() };
    let (answer, blocks) = rig.take(probe, 70).unwrap();
    assert_eq!((answer.kind, answer.seq, answer.echo), (Kind::ProbeAnswer, 501, at(20)));
    assert_eq!((answer.bytes, answer.payload, blocks), (60, 0, vec![]));
    assert_eq!(rig.receiver.due(), Some(at(210)));
    assert_eq!(rig.stamped(501, 80), Some(10));
}

/// RFC 8257 §3.2: every ACK speaks for segments of one kind. Segments 1, 2 plain, 3 marked, 4 plain, 5, 6 marked.
#[test]
fn dctcp_echoes_each_mark_exactly() {
    let config = TcpConfig { packet_size: 552, ..TcpConfig::preset("dctcp", Profile::Rfc).unwrap() };
    let mut receiver = TcpReceiver::new(&config);
    let mut stats = FlowStats::new(Percentiles::Exact);
    let mut acks = Vec::new();
    let mut arrive = |packet: &Packet, now: Time| {
        let mut sent: Vec<(u64, bool)> = Vec::new();
        if receiver.owes(packet, now)
            && let Some((kind, due)) = receiver.overdue(now)
        {
            let ack = receiver.acknowledge(kind, due);
            sent.push((ack.seq, ack.has(flag::ECE)));
        }
        if let Some(kind) = receiver.receive(packet, None, now, &mut stats, &ALWAYS) {
            let ack = receiver.acknowledge(kind, now);
            sent.push((ack.seq, ack.has(flag::ECE)));
        }
        sent
    };
    let syn = Packet { kind: Kind::Syn, flags: flag::ECE | flag::CWR, ..Packet::default() };
    assert_eq!(arrive(&syn, Time::ZERO), [(1, true)], "agreed");
    for (number, marked) in (0u64..).zip([false, false, true, false, true, true]) {
        let ce = if marked { flag::CE } else { 0 };
        let flags = flag::ECT | ce;
        let packet =
            Packet { seq: 1 + 500 * number, payload: 500, kind: Kind::Data, flags, ..Packet::default() };
        acks.push(arrive(&packet, Time(1 + number)));
    }
    let expected: [&[(u64, bool)]; 6] =
        [&[], &[(1001, false)], &[], &[(1501, true)], &[(2001, false)], &[(3001, true)]];
    assert_eq!(acks, expected);
}

/// The FIN takes a sequence number; the receiver's own is sent again until it is acknowledged.
#[test]
fn the_end_is_answered_until_it_is_acknowledged() {
    let mut rig = Rig::new();
    let fin = Packet { seq: 1, payload: 500, kind: Kind::Fin, ..Packet::default() };
    let (answer, _) = rig.take(fin, 0).unwrap();
    assert_eq!((answer.kind, answer.seq), (Kind::FinAck, 502));
    assert_eq!(rig.stats.bytes_delivered, 500, "the FIN is not data");
    let mut tries = Vec::new();
    while let Some(due) = rig.receiver.due() {
        assert_eq!(rig.receiver.overdue(due), Some((Kind::FinAck, due)));
        assert_eq!(rig.receiver.acknowledge(Kind::FinAck, due).seq, 502);
        tries.push(due.0 / 1_000_000_000);
    }
    assert_eq!(tries.len(), FIN_TRIES as usize, "{tries:?}");

    let mut rig = Rig::new();
    rig.take(fin, 0);
    assert!(rig.take(Packet { seq: 502, kind: Kind::Ack, ..Packet::default() }, 10).is_none());
    assert_eq!(rig.receiver.due(), None);
    assert_eq!(rig.take(fin, 20).map(|(answer, _)| answer.kind), Some(Kind::FinAck), "a FIN sent again");
}

/// The FIN may come before the data that it follows.
#[test]
fn a_fin_beyond_a_gap_waits() {
    let mut rig = Rig::new();
    let fin = Packet { seq: 501, payload: 500, kind: Kind::Fin, ..Packet::default() };
    let (answer, blocks) = rig.take(fin, 0).unwrap();
    assert_eq!((answer.kind, answer.seq, blocks), (Kind::Ack, 1, vec![(501, 1002)]));
    let first = Packet { seq: 1, payload: 500, kind: Kind::Data, ..Packet::default() };
    let (answer, blocks) = rig.take(first, 0).unwrap();
    assert_eq!((answer.kind, answer.seq, blocks), (Kind::FinAck, 1002, vec![]));
}

/// What the SYN does not offer is not done, whatever this host could do.
#[test]
fn only_what_the_syn_offers_is_done() {
    let mut config = TcpConfig::preset("sack", Profile::Rfc).unwrap();
    config.delayed_ack = None;
    config.ecn = true;
    let open = |offer: Option<Offer>, flags: u8| {
        let (receiver, stats) = (TcpReceiver::new(&config), FlowStats::new(Percentiles::Exact));
        let mut rig = Rig { receiver, offer: Extra { offer, ..Extra::default() }, stats };
        let (answer, _) = rig.take(Packet { kind: Kind::Syn, flags, ..Packet::default() }, 0).unwrap();
        let answered = rig.receiver.extra(Kind::SynAck, Time::ZERO).and_then(|extra| extra.offer).unwrap();
        let beyond_a_gap = Packet { seq: 501, payload: 500, kind: Kind::Data, ..Packet::default() };
        let (ack, blocks) = rig.take(beyond_a_gap, 0).unwrap();
        (answer, answered, ack, blocks.len())
    };
    let all = config.offer();
    let asks = flag::ECE | flag::CWR;
    let (answer, answered, ack, blocks) = open(Some(all), asks);
    assert_eq!((answered, blocks, answer.has(flag::ECE)), (all, 1, true));
    assert_eq!((answer.window, ack.window), (65_535, 4096 * 1448));
    // 40 bytes of headers, 12 of timestamps, 12 of a SACK block.
    assert_eq!(ack.bytes, 64);

    let (answer, answered, ack, blocks) = open(Some(Offer { mss: 1448, ..Offer::default() }), 0);
    assert_eq!(answered, Offer { mss: 1448, ..Offer::default() });
    assert_eq!((blocks, answer.has(flag::ECE), answer.window, ack.window), (0, false, 65_535, 65_535));
    assert_eq!(ack.bytes, 40);
}

/// By hand: a buffer of four segments and a reader of one byte per millisecond. The window closes with the fourth
/// segment, is announced when the first has been read, and again when it has doubled.
#[test]
fn a_slow_reader_closes_the_window_and_opens_it_again() {
    let mut rig = Rig::with(|config| {
        config.packet_size = 1052;
        config.receiver_window = 4;
        config.reader = Some(lasthop_core::units::Rate(8_000));
    });
    let mut windows = Vec::new();
    for number in 0..4 {
        let packet = Packet { seq: 1 + 1000 * number, payload: 1000, kind: Kind::Data, ..Packet::default() };
        windows.extend(rig.take(packet, 0).map(|(ack, _)| ack.window));
    }
    assert_eq!(windows, [3000, 2000, 1000, 0]);
    for (millis, window) in [(1000, 1000), (2000, 2000)] {
        let due = Time::ZERO + Span::from_millis(millis);
        assert_eq!(rig.receiver.due(), Some(due));
        assert_eq!(rig.receiver.overdue(due), Some((Kind::Ack, due)));
        let update = rig.receiver.acknowledge(Kind::Ack, due);
        assert_eq!((update.seq, update.window), (4001, window));
    }
    assert_eq!(rig.receiver.due(), None, "half of the buffer is open");
}

fn seldom(segments: u32, per_rtt: u32, reordering: u32) -> Rig {
    let timeout = Span::from_millis(200);
    let delay = DelayedAck { timeout, segments, per_rtt, reordering, ..DelayedAck::USUAL };
    Rig::with(|config| {
        config.packet_size = 552;
        config.delayed_ack = Some(delay);
    })
}

/// TV-33.3: a segment each millisecond with an RTT of 40 ms and four ACKs in one: after the second segment, and every
/// 10 ms from then on; the last segment waits for the timer.
#[test]
fn no_more_acks_than_a_share_of_the_rtt() {
    let mut rig = seldom(2, 4, 1);
    let data = |number: u64, millis: u64| Packet {
        seq: 1 + 500 * number,
        payload: 500,
        kind: Kind::Data,
        stamp: Time::ZERO + Span::from_millis(millis),
        echo: Time::ZERO + Span::from_millis(millis - 40),
        ..Packet::default()
    };
    let answered: Vec<u64> =
        (0..32).filter(|&number| rig.take(data(number, 100 + number), 100 + number).is_some()).collect();
    assert_eq!(answered, [1, 11, 21, 31]);
    assert!(rig.take(data(32, 132), 132).is_none());
    assert_eq!(rig.receiver.due(), Some(Time::ZERO + Span::from_millis(332)));
}

/// TV-33.4: with a threshold of 3 only the sixth segment calls for an ACK, as the draft has it; the timer's ACK shows
/// all that has come. A segment that comes again is answered at once.
#[test]
fn disorder_is_borne_to_a_threshold() {
    let mut rig = seldom(100, 0, 3);
    let answers: Vec<_> = [0, 1, 3, 4, 5, 8].map(|number| rig.data(1 + 500 * number)).into();
    assert_eq!(answers[4], Some((1001, vec![(1501, 3001)])));
    assert_eq!(answers.iter().flatten().count(), 1);
    let at = Time::ZERO + Span::from_millis(200);
    assert_eq!(rig.receiver.overdue(at), Some((Kind::Ack, at)));
    let blocks = rig.receiver.extra(Kind::Ack, at).unwrap();
    assert_eq!(blocks.sack.as_slice(), [(4001, 4501), (1501, 3001)]);
    rig.receiver.acknowledge(Kind::Ack, at);
    assert!(rig.data(1).is_some());
}

/// RFC 7323 §5.3, R1, as Linux has it: a repair of 30 ms has filled the hole, and what was sent at 11 ms comes behind
/// it. It is thrown away, and an ACK tells what is here; one tick is let pass. What came before is reported as ever.
#[test]
fn what_a_repair_has_overtaken_is_thrown_away() {
    let linux = TcpConfig::preset("sack", Profile::Linux).unwrap();
    let change =
        |config: &mut TcpConfig| *config = TcpConfig { delayed_ack: None, timestamps: true, ..linux };
    let mut rig = Rig::with(change).up_to(5000);
    let mut sent = |seq, millis| {
        let stamp = Time::ZERO + Span::from_millis(millis);
        let packet = Packet { seq, payload: 500, kind: Kind::Data, stamp, ..Packet::default() };
        rig.take(packet, 60).map(|(ack, blocks)| (ack.seq, blocks)).unwrap()
    };
    assert_eq!(sent(5500, 10), (5000, vec![(5500, 6000)]));
    assert_eq!(sent(5000, 30), (6000, vec![]));
    assert_eq!(sent(6500, 29), (6000, vec![(6500, 7000)]));
    assert_eq!(sent(6000, 11), (6000, vec![(6500, 7000)]), "sent before the repair");
    assert_eq!(sent(5500, 12), (6000, vec![(5500, 6000), (6500, 7000)]));
    assert_eq!(sent(6000, 50), (7000, vec![]));
}
