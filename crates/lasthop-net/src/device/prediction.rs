//! What a base station can know of the queue of a link that stands behind it: what it has handed to it, and what has
//! come through. It predicts how long a packet will wait that arrives now.
//!
//! Helpers use it ([`super::zhuge`], [`super::l4span`]) that have an end at the far end of their link, which stands
//! for the reports that a radio gives of what it has sent (the BlockAck of 802.11, the delivery status of RLC). A
//! report comes when a packet has crossed the link, so what it tells is as old as the delay of the link.
//!
//! The rate is that of the bytes that came through in a window before the newest report, over the time in which
//! something waited: a server that idles says nothing of its rate. The window is a time, or a number of departures; of
//! the latter only those count that waited behind another, since the first of a train also waits for a grant or a turn,
//! and at a thin flow nearly all are first. What was waiting before a packet that has come
//! through and did not come is lost; it took no time of the server as far as is known here.

use std::collections::VecDeque;

use lasthop_core::packet::Packet;
use lasthop_core::time::{Span, Time};

use super::Parcel;

/// Most packets that are remembered. Those that are lost behind all others would stay for ever.
const MOST: usize = 65_536;

/// Which packet it is. Not by its slot in the arena: that is an accident of how a run is computed. Copies that were
/// sent at the same moment are taken in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name {
    flow: u32,
    seq: u64,
    stamp: Time,
}

impl Name {
    fn of(parcel: Parcel, packet: &Packet) -> Name {
        Name { flow: parcel.flow, seq: packet.seq, stamp: packet.stamp }
    }
}

/// A packet that has been handed on and was not heard of since.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    name: Name,
    bytes: u16,
    arrived: Time,
    /// How long it was said to wait before it is sent, if that could be said.
    predicted: Option<Span>,
}

/// Which departures say what the rate is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Recent {
    /// Those in this time.
    Time(Span),
    /// This number of them, each of packets that waited behind another.
    Departures(usize),
}

/// One that has come through.
#[derive(Clone, Copy, Debug)]
struct Service {
    departed: Time,
    bytes: u32,
    /// For how long it was the first of those that waited.
    busy: Span,
}

/// How well it predicted, within the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// Packets of which a wait was predicted and that have come through.
    pub(crate) predicted: u64,
    /// How long they waited until they were sent, together.
    pub(crate) waited: Span,
    /// By how much that was mistaken, together.
    pub(crate) missed: Span,
}

/// What is known of the queue.
#[derive(Clone, Debug)]
pub(crate) struct Prediction {
    /// Of the link.
    delay: Span,
    recent: Recent,
    outstanding: VecDeque<Outstanding>,
    /// In them.
    bytes: u64,
    services: VecDeque<Service>,
    served_bytes: u64,
    busy: Span,
    /// When the newest was sent of which a report has come.
    departed: Time,
    record: Record,
}

impl Prediction {
    /// For a link with this delay, by the rate of these departures.
    pub(super) fn new(delay: Span, recent: Recent) -> Prediction {
        Prediction {
            delay,
            recent,
            outstanding: VecDeque::new(),
            bytes: 0,
            services: VecDeque::new(),
            served_bytes: 0,
            busy: Span::ZERO,
            departed: Time::ZERO,
            record: Record::default(),
        }
    }

    /// A packet is handed on at `now`.
    pub(super) fn hand_on(&mut self, parcel: Parcel, packet: &Packet, now: Time) {
        if self.outstanding.len() >= MOST
            && let Some(oldest) = self.outstanding.pop_front()
        {
            self.bytes -= u64::from(oldest.bytes);
        }
        let predicted = self.rate().map(|_| self.queueing(now));
        let name = Name::of(parcel, packet);
        self.bytes += u64::from(parcel.bytes);
        self.outstanding.push_back(Outstanding { name, bytes: parcel.bytes, arrived: now, predicted });
    }

    /// A packet has come through the link at `now`. `counts`: within the measured time.
    pub(super) fn come_through(&mut self, parcel: Parcel, packet: &Packet, now: Time, counts: bool) {
        let name = Name::of(parcel, packet);
        let Some(place) = self.outstanding.iter().position(|one| one.name == name) else { return };
        for one in self.outstanding.drain(..place) {
            self.bytes -= u64::from(one.bytes);
        }
        let Some(one) = self.outstanding.pop_front() else { return };
        self.bytes -= u64::from(one.bytes);
        let departed = Time(now.0.saturating_sub(self.delay.0)).max(one.arrived);
        let begun = one.arrived.max(self.departed);
        let busy = departed.since(begun.min(departed));
        let behind = one.arrived <= self.departed && self.departed > Time::ZERO;
        self.departed = self.departed.max(departed);
        match self.recent {
            Recent::Time(window) => {
                self.serve(departed, one.bytes, busy);
                self.forget_before(Time(self.departed.0.saturating_sub(window.0)));
            }
            Recent::Departures(most) if behind => {
                self.serve(departed, one.bytes, busy);
                while self.services.len() > most {
                    self.forget_first();
                }
            }
            Recent::Departures(_) => {}
        }
        if let Some(predicted) = one.predicted.filter(|_| counts) {
            let waited = begun.min(departed).since(one.arrived);
            self.record.predicted += 1;
            self.record.waited = self.record.waited + waited;
            self.record.missed = self.record.missed + Span(waited.0.abs_diff(predicted.0));
        }
    }

    /// These bytes have departed. By departures those that leave at the same moment are one; where the first of them
    /// did not wait, the others tell nothing of the rate either.
    fn serve(&mut self, departed: Time, bytes: u16, busy: Span) {
        if let (Recent::Departures(_), Span::ZERO) = (self.recent, busy) {
            let Some(last) = self.services.back_mut().filter(|last| last.departed == departed) else {
                return;
            };
            last.bytes += u32::from(bytes);
        } else {
            self.services.push_back(Service { departed, bytes: bytes.into(), busy });
        }
        self.served_bytes += u64::from(bytes);
        self.busy = self.busy + busy;
    }

    fn forget_before(&mut self, oldest: Time) {
        while self.services.front().is_some_and(|service| service.departed < oldest) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some(service) = self.services.pop_front() {
            self.served_bytes -= u64::from(service.bytes);
            self.busy = Span(self.busy.0 - service.busy.0);
        }
    }

    /// Standard deviation of the rate from departure to departure, in bytes per second.
    pub(super) fn deviation(&self) -> f64 {
        let Some(rate) = self.rate() else { return 0.0 };
        let busy = self.services.iter().filter(|service| service.busy > Span::ZERO);
        let squares = busy.map(|service| {
            let seconds = service.busy.seconds();
            (f64::from(service.bytes) / seconds - rate).powi(2) * seconds
        });
        (squares.sum::<f64>() / self.busy.seconds()).sqrt()
    }

    /// Bytes per second at which the queue is served, if anything has come through that waited.
    pub(super) fn rate(&self) -> Option<f64> {
        (self.busy > Span::ZERO).then(|| self.served_bytes as f64 / self.busy.seconds())
    }

    /// How long what is handed on now waits before it is sent: the bytes before it at the rate of late, less those
    /// that are on their way already. Nothing while nothing is known. By departures it is also taken off how long the
    /// first has been the first: on a slow link a packet is sent for tens of ms.
    pub(super) fn queueing(&self, now: Time) -> Span {
        let Some(rate) = self.rate() else { return Span::ZERO };
        let all = Span::from_seconds(self.bytes as f64 / rate);
        let begun = match (self.recent, self.outstanding.front()) {
            (Recent::Departures(_), Some(first)) => {
                self.head_waits(now).min(Span::from_seconds(f64::from(first.bytes) / rate))
            }
            _ => Span::ZERO,
        };
        Span(all.0.saturating_sub(self.delay.0 + begun.0))
    }

    /// For how long the first of those that wait has been the first, as far as reports tell by `now`.
    pub(super) fn head_waits(&self, now: Time) -> Span {
        let Some(first) = self.outstanding.front() else { return Span::ZERO };
        let begun = first.arrived.max(self.departed).0 + self.delay.0;
        Span(now.0.saturating_sub(begun))
    }

    /// Mean time between two moments at which something is sent while something waits.
    pub(super) fn sending(&self) -> Span {
        let bursts = self.services.iter().filter(|service| service.busy > Span::ZERO).count() as u64;
        Span(self.busy.0.checked_div(bursts).unwrap_or(0))
    }

    /// Packets that were handed on and have not been heard of.
    #[cfg(test)]
    fn waiting(&self) -> u64 {
        self.outstanding.len() as u64
    }

    /// How well it predicted.
    pub(super) fn record(&self) -> Record {
        self.record
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Ecn;

    fn millis(value: u64) -> Time {
        Time::ZERO + Span::from_millis(value)
    }

    fn parcel(packet: u32) -> Parcel {
        let since = Time::ZERO;
        Parcel { packet, hop: 0, flow: 0, bytes: 1000, ecn: Ecn::Incapable, ahead: false, since }
    }

    fn packet(number: u32) -> Packet {
        Packet { seq: u64::from(number), bytes: 1000, ..Packet::default() }
    }

    fn hand_on(prediction: &mut Prediction, number: u32, at: Time) {
        prediction.hand_on(parcel(number), &packet(number), at);
    }

    fn comes(prediction: &mut Prediction, number: u32, at: Time) {
        prediction.come_through(parcel(number), &packet(number), at, true);
    }

    /// TV-32.1: packets of 1000 B leave a server 2 ms each, so 500 kB/s, and arrive 5 ms later. Of four that come at
    /// once the last departs at 8 ms. One that comes at 13 ms, with nothing before it, waits for nothing; behind
    /// three of which nothing has been heard a fourth waits 6 ms, less the 5 that their reports are late.
    #[test]
    fn the_rate_is_that_of_a_busy_server() {
        let mut prediction = Prediction::new(Span::from_millis(5), Recent::Time(Span::from_millis(40)));
        for number in 0..4 {
            hand_on(&mut prediction, number, millis(0));
        }
        assert_eq!((prediction.rate(), prediction.queueing(millis(0))), (None, Span::ZERO));
        for (number, at) in [(0, 7), (1, 9), (2, 11), (3, 13)] {
            comes(&mut prediction, number, millis(at));
        }
        assert_eq!(prediction.rate(), Some(500_000.0));
        assert_eq!((prediction.departed, prediction.queueing(millis(13))), (millis(8), Span::ZERO));
        assert_eq!(prediction.sending(), Span::from_millis(2));
        // Idle time is no time of the server.
        hand_on(&mut prediction, 4, millis(20));
        comes(&mut prediction, 4, millis(27));
        assert_eq!(prediction.rate(), Some(500_000.0));
        for number in 5..8 {
            hand_on(&mut prediction, number, millis(30));
        }
        assert_eq!(prediction.queueing(millis(30)), Span::from_millis(1));
    }

    /// A queue of ten packets is served at 500 kB/s. Then trains of five leave whole, each as soon as it has come:
    /// their heads did not wait, so they add neither bytes nor time.
    #[test]
    fn trains_that_do_not_wait_tell_nothing_of_the_rate() {
        let mut prediction = Prediction::new(Span::ZERO, Recent::Departures(100));
        for number in 0..10 {
            hand_on(&mut prediction, number, millis(0));
        }
        for number in 0..10 {
            comes(&mut prediction, number, millis(u64::from(2 * number + 2)));
        }
        for train in 1..200 {
            let numbers = 5 * train + 10..5 * train + 15;
            for number in numbers.clone() {
                hand_on(&mut prediction, number, millis(u64::from(100 * train)));
            }
            for number in numbers {
                comes(&mut prediction, number, millis(u64::from(100 * train + 1)));
            }
        }
        assert_eq!((prediction.served_bytes, prediction.busy), (9_000, Span::from_millis(18)));
    }

    /// TV-32.2: the first of a queue is the first from its arrival or the departure before it, and this is heard of
    /// as late as all else.
    #[test]
    fn the_head_waits() {
        let mut prediction = Prediction::new(Span::from_millis(5), Recent::Time(Span::from_millis(40)));
        assert_eq!(prediction.head_waits(millis(9)), Span::ZERO);
        hand_on(&mut prediction, 0, millis(10));
        hand_on(&mut prediction, 1, millis(11));
        let at = |prediction: &Prediction, at| prediction.head_waits(millis(at));
        assert_eq!([14, 15, 18].map(|now| at(&prediction, now)), [0, 0, 3].map(Span::from_millis));
        comes(&mut prediction, 0, millis(17));
        assert_eq!([17, 20].map(|now| at(&prediction, now)), [0, 3].map(Span::from_millis));
    }

    /// What is passed by another is lost, whatever slot it is in; what is not known, and comes twice, changes
    /// nothing; what is older than the window before the newest departure is forgotten.
    #[test]
    fn losses_and_the_window() {
        let mut prediction = Prediction::new(Span::ZERO, Recent::Time(Span::from_millis(10)));
        for number in 0..3 {
            hand_on(&mut prediction, number, millis(0));
        }
        comes(&mut prediction, 9, millis(1));
        assert_eq!((prediction.waiting(), prediction.bytes), (3, 3000));
        prediction.come_through(parcel(7), &packet(1), millis(4), true);
        comes(&mut prediction, 1, millis(5));
        assert_eq!((prediction.waiting(), prediction.bytes), (1, 1000));
        assert_eq!(prediction.rate(), Some(250_000.0));
        comes(&mut prediction, 2, millis(15));
        // Of both only the second departed in the last 10 ms, and was first for 11.
        assert_eq!(prediction.rate().map(f64::round), Some(90_909.0));
        assert_eq!((prediction.waiting(), prediction.bytes), (0, 0));
    }

    /// Its record: behind one packet of 4 ms a second was predicted to wait 4 ms, and waited 6.
    #[test]
    fn it_counts_by_how_much_it_is_mistaken() {
        let mut prediction = Prediction::new(Span::ZERO, Recent::Time(Span::from_millis(40)));
        hand_on(&mut prediction, 0, millis(0));
        comes(&mut prediction, 0, millis(4));
        hand_on(&mut prediction, 1, millis(10));
        hand_on(&mut prediction, 2, millis(10));
        comes(&mut prediction, 1, millis(16));
        comes(&mut prediction, 2, millis(20));
        let record = prediction.record();
        assert_eq!((record.predicted, record.waited), (2, Span::from_millis(6)));
        assert_eq!(record.missed, Span::from_millis(2));
    }

    /// TV-32.8: of five packets that come at once and depart after 9, 11, 13, 13 and 17 ms the first says nothing of
    /// the rate: it came to an idle link. The others make three departures of 1000, 2000 and 1000 B in 2, 2 and 4 ms:
    /// 500 kB/s in all, with a variance of (0 x 2 + 500² x 2 + 250² x 4) / 8 = 306². A lone packet changes nothing,
    /// and with room for two departures the oldest is forgotten: 3000 B in 6 ms.
    #[test]
    fn trains_tell_the_rate_and_how_much_it_varies() {
        for (most, rate, deviation) in [(50, 500_000.0, 306_186.0), (2, 500_000.0, 353_553.0)] {
            let mut prediction = Prediction::new(Span::ZERO, Recent::Departures(most));
            for number in 0..5 {
                hand_on(&mut prediction, number, millis(0));
            }
            for (number, at) in [(0, 9), (1, 11), (2, 13), (3, 13), (4, 17)] {
                comes(&mut prediction, number, millis(at));
            }
            hand_on(&mut prediction, 5, millis(30));
            comes(&mut prediction, 5, millis(39));
            assert_eq!(prediction.rate(), Some(rate), "{most}");
            assert_eq!(prediction.deviation().round(), deviation, "{most}");
            // Of 2 ms for a packet one has passed.
            hand_on(&mut prediction, 6, millis(50));
            assert_eq!(prediction.queueing(millis(51)), Span::from_millis(1));
        }
    }

    #[test]
    fn it_remembers_no_more_than_it_may() {
        let mut prediction = Prediction::new(Span::ZERO, Recent::Time(Span::from_millis(40)));
        for number in 0..=MOST as u32 {
            hand_on(&mut prediction, number, millis(0));
        }
        assert_eq!((prediction.waiting(), prediction.bytes), (MOST as u64, 1000 * MOST as u64));
    }
}
