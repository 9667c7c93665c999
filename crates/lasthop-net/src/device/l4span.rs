//! L4Span: marks packets at the base station by their predicted wait there, and reports the marks to senders at once.
//!
//! *What it does.* It predicts for every packet that departs over the radio link how long it will wait in the queue of
//! the bearer: the bytes before it, at the recent rate of the link. With this delay in place of that of a queue it
//! applies the law of DualPI2 (RFC 9332): packets with ECT(1) are marked by a ramp over their own delay, or by the
//! coupling; the others are marked, or dropped if they are not ECN-capable, by the square. Packets of a connection with
//! Accurate ECN feedback are not marked on their way: the marks are added to the counter in returning ACKs, and reach
//! the sender one queueing delay earlier.
//!
//! *Reacts to* all packets that depart over the link, to what has come through it, and to the ACKs of connections of
//! which it has seen the handshake.
//!
//! *Differs from its paper:* only the abstract could be read: marks by predicted occupancy for both kinds of flows, at
//! millisecond time scales. The paper has its own laws and thresholds for both kinds; here they are those of RFC 9332,
//! with a ramp from 5 to 10 ms, a choice: the grants of a cell come by the millisecond, and blocks that HARQ repairs
//! are 8 ms late. A connection with the echo of RFC 3168 is marked on its way.
//!
//! *Validation:* predictions (TV-32.1, TV-32.2), marks and counters by hand (TV-32.6, TV-32.7); the law is that of
//! the queue, with its vectors. At a cell, with HARQ and without, RTT and goodput of CUBIC, with ECN and without,
//! within 15 % of those with DualPI2 in the cell; every mark made ahead is reported once (`tests/base_station.rs`).
//!
//! *Limitations:* the bearer is one queue: packets with ECT(1) wait behind others. Real connections (`emulate`) are
//! marked on their way. An ACK reports at most as many marks as it acknowledges segments. HARQ repairs arrive in
//! bursts, which any law on delays marks: at a cell with repairs Prague leaves about half of the rate unused, with
//! DualPI2 in the cell as here; without block errors it has 93 % of it on the scenario `l4s-on-5g`. A bearer of a few
//! hundred kbit/s takes longer than the ramp for one frame of a call, and its predictions are wrong by as much as the
//! wait itself: at six resource blocks and CQI 3 a call with GCC loses 681 of 1,602 frames and one with SCReAM and ECN
//! all of them, with DualPI2 in the cell 56 and 9. Why is not traced.
//!
//! *Cost:* 80 B for each packet that waits in the link, and 0.1 kB for each connection.
//!
//! *References:* Wan, Jamieson, CoNEXT 2025 (arXiv 2510.02682); RFC 9332; RFC 9768.

use std::collections::BTreeMap;

use lasthop_core::packet::{Cause, Kind, Packet, flag};
use lasthop_core::time::Span;

use super::prediction::Prediction;
use super::{Cx, Element, FAR, INBOUND, Parcel};
use crate::queue::Ecn;
use crate::queue::dual_pi2::{DualPi2, Fate, Law};
use crate::transport::tcp::accurate::{self, Feedback};

/// How it marks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct L4Span {
    /// Delay of the link at whose near end it stands; set when the world is built.
    pub delay: Span,
    /// The rate is that of this time.
    pub window: Span,
    /// The law, whose delays are predicted.
    pub law: DualPi2,
    /// Whether ACKs tell of marks before the marked packets have come through.
    pub ahead: bool,
}

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
    law: Law,
    prediction: Prediction,
    connections: BTreeMap<u32, Connection>,
    marked: u64,
    ahead: u64,
    dropped: u64,
}

impl Marking {
    pub(super) fn new(plan: &L4Span, _name: &str, _seed: u64) -> Marking {
        Marking {
            plan: *plan,
            law: Law::new(&plan.law),
            prediction: Prediction::new(plan.delay, plan.window),
            connections: BTreeMap::new(),
            marked: 0,
            ahead: 0,
            dropped: 0,
        }
    }

    /// What becomes of a packet that waits as long as is predicted now.
    fn fate(&mut self, ecn: Ecn, cx: &Cx<'_>) -> Fate {
        let (delay, before) = (self.prediction.queueing(), self.prediction.waiting());
        self.law.catch_up(cx.now, before == 0, |_| delay.seconds());
        match ecn {
            Ecn::Scalable => self.law.fate_of_low(delay, before + 1),
            classic => self.law.fate_of_classic(classic),
        }
    }

    /// A packet departs over the link.
    fn depart(&mut self, parcel: Parcel, cx: &mut Cx<'_>) {
        let packet = *cx.packets.get(parcel.packet);
        if packet.kind == Kind::Syn && packet.is_forward() && self.plan.ahead {
            self.connections.entry(parcel.flow).or_default().open(&packet);
        }
        let counts = u64::from(cx.window.contains(cx.now));
        match self.fate(parcel.ecn, cx) {
            Fate::Drop => {
                self.dropped += counts;
                return cx.drop(parcel, Cause::EarlyDrop);
            }
            Fate::Mark => {
                self.marked += counts;
                self.mark(parcel, &packet, cx);
            }
            Fate::Pass => {}
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
            ("l4span_dropped", self.dropped),
            ("l4span_predicted", record.predicted),
            ("l4span_waited_s", record.waited.0),
            ("l4span_missed_s", record.missed.0),
        ]
    }
}

#[cfg(test)]
mod tests {
    use lasthop_core::packet::Note;
    use lasthop_core::time::Time;

    use super::super::testing::{Bench, hammer};
    use super::super::{Effect, OUTBOUND};
    use super::*;

    const PLAN: L4Span = L4Span {
        delay: Span::ZERO,
        window: Span::from_millis(40),
        law: DualPi2 {
            target: Span::from_millis(15),
            update: Span::from_millis(16),
            alpha: 0.16,
            beta: 3.2,
            coupling: 2.0,
            ramp_from: Span::from_millis(5),
            ramp: Span::from_millis(5),
            classic_share: 0.0625,
            mtu: 1500,
        },
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

    /// A connection whose link takes 2 ms for each packet. A first one shows it; seven more come at once at 10 ms.
    fn rush(asks: u8, agrees: u8, flags: u8) -> Bench<Marking> {
        let mut bench = Bench::new(Marking::new(&PLAN, "l4span", 1));
        let syn = Packet { kind: Kind::Syn, ..data(0, asks) };
        bench.offer_packet(OUTBOUND, Packet { payload: 0, ..syn }, None, millis(0));
        bench.offer_packet(INBOUND, back(Kind::SynAck, 1, agrees), None, millis(0));
        bench.offer_packet(OUTBOUND, data(1, flags), None, millis(1));
        let first = bench.forwarded().last().expect("data").0;
        bench.send_on(first, FAR, 2, millis(3));
        for seq in 1..8 {
            bench.offer_packet(OUTBOUND, data(1 + 1000 * seq, flags), None, millis(10));
        }
        bench
    }

    const ECT1: u8 = flag::ECT | flag::ECT_1;

    /// TV-32.6: the seven wait 0, 2, 4, 6, 8, 10 and 12 ms. The ramp from 5 to 10 ms adds up 0.2, 0.6, 1 and 1: 0.8
    /// is not more than 1, 1.8 is, and so is 1.8 again. Two are marked. ECT(0) is not, as the coupling asks for
    /// nothing yet.
    #[test]
    fn marks_follow_from_the_predicted_wait() {
        let marks = |bench: &mut Bench<Marking>| -> Vec<bool> {
            passed(bench).iter().rev().take(7).rev().map(|packet| packet.has(flag::CE)).collect()
        };
        let mut plain = rush(0, 0, ECT1);
        assert_eq!(marks(&mut plain), [false, false, false, false, false, true, true]);
        assert_eq!(
            plain.device.counters()[..3],
            [("l4span_marked", 2), ("l4span_told_ahead", 0), ("l4span_dropped", 0)]
        );
        assert!(!marks(&mut rush(0, 0, flag::ECT)).contains(&true));
    }

    /// TV-32.7: where marks are counted, nothing is marked on its way. The counter of the receiver stands at 5; ACKs
    /// of one and then two segments say 6 and 7, and go on saying so; a duplicate tells of nothing more. Handshakes
    /// and a connection that did not agree to a count are left alone.
    #[test]
    fn acks_tell_of_marks_ahead() {
        let agrees = flag::CWR;
        let mut bench = rush(flag::ACE, agrees, ECT1);
        assert!(!passed(&mut bench).iter().any(|packet| packet.has(flag::CE)));
        assert_eq!(bench.device.counters()[..2], [("l4span_marked", 2), ("l4span_told_ahead", 2)]);
        bench.device.connections.get_mut(&0).expect("known").acknowledged = 1;
        for (seq, told) in [(1001, 6), (1001, 6), (3001, 7), (8001, 7)] {
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
