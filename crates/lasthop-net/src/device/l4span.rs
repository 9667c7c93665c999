//! L4Span: marks packets at the base station by their predicted wait there, and reports the marks to senders at
//! once.
//!
//! *What it does.* It predicts from what it has handed on and what has come through how many bytes wait in the queue
//! of the bearer, and how fast they leave: mean and standard deviation of the rate over the last `departures`.
//! Packets with ECT(1) are marked by the rate that would empty the queue within `threshold`: never where it is a
//! deviation below the mean, always where it is a deviation above, and in proportion between. Packets with ECT(0)
//! are marked while more than `classic_queue` waits, with the square of 10.2 kB over the queue: the window that
//! takes the whole rate. Nothing is dropped. Packets of a connection with Accurate ECN feedback are not marked on
//! their way: the marks are added to the counter in returning ACKs, and reach the sender one queueing delay earlier.
//!
//! *Reacts to* all packets that depart over the link, to what has come through it, and to the ACKs of connections of
//! which it has seen the handshake.
//!
//! *Differs from its paper:* laws and constants are those of the authors' program. There the rate is that between
//! two reports of the radio, idle time included, so that a thin flow looks like a slow bearer; here only packets
//! that waited behind another count, and means are weighted by time. There everything is marked as soon as a packet
//! takes longer than the threshold; here nothing is marked while no more than two packets of 1500 B wait, as in
//! Linux's dualpi2. Probabilities are added up instead of drawn. The program also sets CE in packets that are not
//! ECN-capable, against RFC 3168, and divides `classic_queue` by the number of users; neither is done here. A
//! connection with the echo of RFC 3168 is marked on its way.
//!
//! *Validation:* predictions (TV-32.1, TV-32.2, TV-32.8), marks and counters by hand (TV-32.6, TV-32.7, TV-32.9). In
//! runs: Prague keeps a cell short, a classic sender keeps about `classic_queue`, every mark made ahead is reported
//! once, and over a bearer of 0.25 Mbit/s calls of seven kinds lose no frame more than without it
//! (`tests/base_station.rs`).
//!
//! *Limitations:* the bearer is one queue: packets with ECT(1) wait behind others. Real connections (`emulate`) are
//! marked on their way. An ACK reports at most as many marks as it acknowledges segments. A sender without ECN is
//! not slowed down, nor is one with ECT(0) at a slow bearer: 225 kB are 7 s of 0.25 Mbit/s, and the longer the queue
//! the fewer the marks. DualPI2 or CoDel in the cell does that. HARQ repairs arrive in bursts, which any law on a
//! queue of 10 ms marks: on the scenario `l4s-on-5g` Prague has 58 % of the rate that it has without marks, with
//! DualPI2 in the cell 58 %, and without block errors 96 %.
//!
//! *Cost:* 80 B for each packet that waits in the link, and 0.1 kB for each connection.
//!
//! *References:* Wan, Jamieson, CoNEXT 2025 (arXiv 2510.02682), and github.com/PrincetonUniversity/L4Span, read at
//! cef83f8; RFC 9332; RFC 9768.

use std::collections::BTreeMap;

use lasthop_core::packet::{Kind, Packet, flag};
use lasthop_core::time::{Span, Time};

use super::prediction::{Prediction, Recent};
use super::{Cx, Element, FAR, INBOUND, Parcel};
use crate::queue::Ecn;
use crate::queue::dual_pi2::Recurring;
use crate::transport::tcp::accurate::{self, Feedback};

/// How it marks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct L4Span {
    /// Delay of the link at whose near end it stands; set when the world is built.
    pub delay: Span,
    /// The rate is that of this number of departures.
    pub departures: u32,
    /// Time within which the rate should empty the queue.
    pub threshold: Span,
    /// Bytes that may wait before packets with ECT(0) are marked.
    pub classic_queue: u64,
    /// Whether ACKs tell of marks before the marked packets have come through.
    pub ahead: bool,
}

/// No mark of ECT(1) while no more than this waits, in bytes: two full packets.
const SHORT: f64 = 2.0 * 1500.0;
/// The window of a classic sender times the root of its marking probability, in bytes: 1.75 / 2 times 8 segments of
/// 1460 B, as the authors have it.
const CLASSIC_BYTES: f64 = 1.75 / 2.0 * 8.0 * 1460.0;

/// What is remembered about a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Connection {
    /// Its SYN asked for the count of marks, and that was agreed to.
    asks: bool,
    counts: bool,
    /// Marks that no ACK has told of, and those that ACKs tell of, modulo 8.
    untold: u32,
    told: u32,
    /// The newest acknowledgement, and the longest payload.
    acknowledged: u64,
    segment: u64,
}

impl Connection {
    fn open(&mut self, packet: &Packet) {
        let asks = packet.flags & flag::ACE == flag::ACE;
        *self = Connection { asks, ..Connection::default() };
    }

    fn answer(&mut self, packet: &Packet) {
        self.counts = self.asks && accurate::agreed(packet.flags) == Feedback::Accurate;
    }

    /// The counter that an ACK is to show: one more for each segment that it acknowledges, as far as there are marks.
    fn tell(&mut self, ack: &Packet) -> u8 {
        let news = ack.seq.saturating_sub(self.acknowledged).div_ceil(self.segment.max(1));
        self.acknowledged = self.acknowledged.max(ack.seq);
        let tells = self.untold.min(u32::try_from(news).unwrap_or(u32::MAX)).min(7);
        self.untold -= tells;
        self.told = (self.told + tells) % 8;
        accurate::flags(accurate::number(ack.flags) + self.told)
    }
}

/// The device at work.
#[derive(Clone, Debug)]
pub(crate) struct Marking {
    plan: L4Span,
    low_due: Recurring,
    classic_due: Recurring,
    prediction: Prediction,
    connections: BTreeMap<u32, Connection>,
    marked: u64,
    ahead: u64,
}

impl Marking {
    pub(super) fn new(plan: &L4Span, _name: &str, _seed: u64) -> Marking {
        Marking {
            plan: *plan,
            low_due: Recurring::default(),
            classic_due: Recurring::default(),
            prediction: Prediction::new(plan.delay, Recent::Departures(plan.departures as usize)),
            connections: BTreeMap::new(),
            marked: 0,
            ahead: 0,
        }
    }

    /// Probability of a mark on ECT(1), and of one on ECT(0), behind what waits now.
    fn probabilities(&self, bytes: u16, now: Time) -> (f64, f64) {
        let Some(rate) = self.prediction.rate() else { return (0.0, 0.0) };
        let deviation = self.prediction.deviation();
        let waiting = self.prediction.queueing(now).seconds() * rate;
        let required = waiting / self.plan.threshold.seconds();
        let low = match required - rate {
            _ if waiting + f64::from(bytes) <= SHORT => 0.0,
            above if above.abs() >= deviation => f64::from(u8::from(above > 0.0)),
            above => (above + deviation) / (2.0 * deviation),
        };
        let is_long = waiting > self.plan.classic_queue as f64;
        let classic = if is_long { (CLASSIC_BYTES / waiting).powi(2).min(1.0) } else { 0.0 };
        (low, classic)
    }

    /// Whether a packet that comes now is to be marked.
    fn marks(&mut self, parcel: Parcel, now: Time) -> bool {
        let (low, classic) = self.probabilities(parcel.bytes, now);
        match parcel.ecn {
            Ecn::Scalable => self.low_due.next(low),
            ecn => ecn.can_be_marked() && self.classic_due.next(classic),
        }
    }

    /// A packet departs over the link.
    fn depart(&mut self, parcel: Parcel, cx: &mut Cx<'_>) {
        let packet = *cx.packets.get(parcel.packet);
        if packet.kind == Kind::Syn && packet.is_forward() && self.plan.ahead {
            self.connections.entry(parcel.flow).or_default().open(&packet);
        }
        if self.marks(parcel, cx.now) {
            self.marked += u64::from(cx.window.contains(cx.now));
            self.mark(parcel, &packet, cx);
        }
        if let Some(connection) = self.connections.get_mut(&parcel.flow) {
            connection.segment = connection.segment.max(packet.payload.into());
        }
        self.prediction.hand_on(parcel, &packet, cx.now);
        cx.forward(parcel);
    }

    fn mark(&mut self, parcel: Parcel, packet: &Packet, cx: &mut Cx<'_>) {
        let counting = self.connections.get_mut(&parcel.flow).filter(|connection| connection.counts);
        // The bytes of ACKs from outside are kept elsewhere, and no counter can be changed in them here.
        let from_outside = cx.extras.get(packet.extra).is_some_and(|extra| extra.bytes_at.is_some());
        let may_wait = packet.is_forward() && !packet.has(flag::CE) && !from_outside;
        if let Some(connection) = counting.filter(|_| may_wait) {
            connection.untold += 1;
            self.ahead += u64::from(cx.window.contains(cx.now));
        } else {
            cx.packets.get_mut(parcel.packet).flags |= flag::CE;
        }
    }

    /// A packet comes back.
    fn come_back(&mut self, parcel: Parcel, cx: &mut Cx<'_>) {
        let packet = cx.packets.get_mut(parcel.packet);
        if let Some(connection) = self.connections.get_mut(&parcel.flow).filter(|_| !packet.is_forward()) {
            match packet.kind {
                Kind::SynAck => connection.answer(packet),
                Kind::Reset => {}
                _ if connection.counts => {
                    packet.flags = packet.flags & !flag::ACE | connection.tell(packet);
                }
                _ => {}
            }
        }
        cx.forward(parcel);
    }
}

impl Element for Marking {
    fn receive(&mut self, parcel: Parcel, port: u32, cx: &mut Cx<'_>) {
        match port {
            FAR => {
                let counts = cx.window.contains(cx.now);
                self.prediction.come_through(parcel, cx.packets.get(parcel.packet), cx.now, counts);
                cx.forward(parcel);
            }
            INBOUND => self.come_back(parcel, cx),
            _ => self.depart(parcel, cx),
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let record = self.prediction.record();
        vec![
            ("l4span_marked", self.marked),
            ("l4span_told_ahead", self.ahead),
            ("l4span_predicted", record.predicted),
            ("l4span_waited_s", record.waited.0),
            ("l4span_missed_s", record.missed.0),
        ]
    }
}

#[cfg(test)]
mod tests {
    use lasthop_core::packet::Note;

    use super::super::testing::{Bench, hammer};
    use super::super::{Effect, OUTBOUND};
    use super::*;

    const PLAN: L4Span = L4Span {
        delay: Span::ZERO,
        departures: 50,
        threshold: Span::from_millis(10),
        classic_queue: 12_000,
        ahead: true,
    };

    fn millis(value: u64) -> Time {
        Time::ZERO + Span::from_millis(value)
    }

    fn data(seq: u64, flags: u8) -> Packet {
        Packet { seq, bytes: 1040, payload: 1000, kind: Kind::Data, flags, ..Packet::default() }
    }

    fn back(kind: Kind, seq: u64, flags: u8) -> Packet {
        Packet { seq, bytes: 40, kind, flags, note: Note::BACK, ..Packet::default() }
    }

    /// The headers of what has gone on, in order, with its slot kept.
    fn passed(bench: &mut Bench<Marking>) -> Vec<Packet> {
        let gone = bench.take_effects().into_iter();
        gone.filter(|(effect, _)| matches!(effect, Effect::Forward { .. }))
            .map(|(_, packet)| packet)
            .collect()
    }

    /// A connection whose link takes 2 ms for each packet: two that come at once show it. Fifteen more come at once
    /// at 10 ms.
    fn rush(asks: u8, agrees: u8, flags: u8) -> Bench<Marking> {
        let mut bench = Bench::new(Marking::new(&PLAN, "l4span", 1));
        let syn = Packet { kind: Kind::Syn, ..data(0, asks) };
        bench.offer_packet(OUTBOUND, Packet { payload: 0, ..syn }, None, millis(0));
        bench.offer_packet(INBOUND, back(Kind::SynAck, 1, agrees), None, millis(0));
        let mut first = Vec::new();
        for (seq, at) in [(1, 3), (1001, 5)] {
            bench.offer_packet(OUTBOUND, data(seq, flags), None, millis(1));
            first.push((bench.forwarded().last().expect("data").0, at));
        }
        for (packet, at) in first {
            bench.send_on(packet, FAR, 2, millis(at));
        }
        for seq in 2..17 {
            bench.offer_packet(OUTBOUND, data(1 + 1000 * seq, flags), None, millis(10));
        }
        bench
    }

    const ECT1: u8 = flag::ECT | flag::ECT_1;

    /// TV-32.6: at 520 kB/s, which has not varied, 5200 B leave within 10 ms. The seventh packet finds 6240 B and
    /// asks for a mark, as all after it do; probabilities are added up, so the eighth is the first to have one. Of
    /// ECT(0) those that find more than 12 kB ask, for 0.67, 0.57 and 0.49 of a mark: one, at the second of them.
    #[test]
    fn marks_follow_from_what_waits() {
        let marks = |bench: &mut Bench<Marking>| -> Vec<usize> {
            let gone = passed(bench);
            let rush = &gone[gone.len() - 15..];
            (0..15).filter(|&index| rush[index].has(flag::CE)).collect()
        };
        let mut plain = rush(0, 0, ECT1);
        assert_eq!(marks(&mut plain), (7..15).collect::<Vec<_>>());
        assert_eq!(plain.device.counters()[..2], [("l4span_marked", 8), ("l4span_told_ahead", 0)]);
        assert_eq!(marks(&mut rush(0, 0, flag::ECT)), [13]);
        assert!(marks(&mut rush(0, 0, 0)).is_empty());
    }

    /// TV-32.9: departures of 1040 B in 2, 2 and 4 ms are 390 kB/s with a deviation of 130 kB/s. To empty 3120 B
    /// within 10 ms takes 312 kB/s, a fifth of the way from 260 to 520 kB/s. Below that nothing is marked, nor while
    /// only two packets wait, however slow the link (`slow_links_are_exempt`).
    #[test]
    fn the_more_the_rate_varies_the_wider_the_ramp() {
        let mut bench = Bench::new(Marking::new(&PLAN, "l4span", 1));
        let offer = |bench: &mut Bench<Marking>, at| {
            bench.offer_packet(OUTBOUND, data(1, ECT1), None, millis(at));
            bench.forwarded().last().expect("data").0
        };
        let first: Vec<u32> = (0..4).map(|_| offer(&mut bench, 0)).collect();
        for (packet, at) in first.into_iter().zip([2, 4, 6, 10]) {
            bench.send_on(packet, FAR, 2, millis(at));
        }
        for expected in [0.0, 0.0, 0.0, 0.2, 0.6, 1.0, 1.0] {
            let (low, classic) = bench.device.probabilities(1040, millis(20));
            assert!((low - expected).abs() < 1e-6 && classic == 0.0, "{low} {expected}");
            offer(&mut bench, 20);
        }
    }

    /// A link that takes 100 ms for a packet: the threshold is a tenth of that, and the third packet is the first to
    /// ask.
    #[test]
    fn slow_links_are_exempt() {
        let mut bench = Bench::new(Marking::new(&PLAN, "l4span", 1));
        for _ in 0..2 {
            bench.offer_packet(OUTBOUND, data(1, ECT1), None, millis(0));
        }
        for ((packet, _), at) in bench.forwarded().into_iter().zip([100, 200]) {
            bench.send_on(packet, FAR, 2, millis(at));
        }
        for expected in [0.0, 0.0, 1.0] {
            assert_eq!(bench.device.probabilities(1040, millis(300)).0, expected);
            bench.offer_packet(OUTBOUND, data(1, ECT1), None, millis(300));
        }
    }

    /// TV-32.7: where marks are counted, nothing is marked on its way. The counter of the receiver stands at 5; ACKs
    /// of one, two and five segments say one, two and five more, modulo 8; a duplicate tells of nothing more.
    /// Handshakes and a connection that did not agree to a count are left alone.
    #[test]
    fn acks_tell_of_marks_ahead() {
        let agrees = flag::CWR;
        let mut bench = rush(flag::ACE, agrees, ECT1);
        assert!(!passed(&mut bench).iter().any(|packet| packet.has(flag::CE)));
        assert_eq!(bench.device.counters()[..2], [("l4span_marked", 8), ("l4span_told_ahead", 8)]);
        bench.device.connections.get_mut(&0).expect("known").acknowledged = 1;
        for (seq, told) in [(1001, 6), (1001, 6), (3001, 0), (8001, 5)] {
            let ack = back(Kind::Ack, seq, accurate::flags(5));
            bench.offer_packet(INBOUND, ack, None, millis(11));
            let shown = passed(&mut bench)[0].flags;
            assert_eq!(accurate::number(shown), told, "{seq}");
        }
        let mut without = rush(flag::ACE, 0, ECT1);
        passed(&mut without);
        without.offer_packet(INBOUND, back(Kind::Ack, 2001, 0), None, millis(11));
        assert_eq!(passed(&mut without)[0].flags, 0);
    }

    #[test]
    fn nothing_that_comes_breaks_it() {
        let look = |device: &Marking| device.connections.len() <= 5;
        hammer(|| Marking::new(&PLAN, "l4span", 1), 3, look);
    }
}
