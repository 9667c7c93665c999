//! Zhuge for TCP: an access point that signals its queue to senders at once, by delaying ACKs.
//!
//! *What it does.* It predicts for every data packet that departs over the wireless link how long it will take: the
//! bytes before it at the recent rate, the time for which the first of them has been waiting, and the mean time between
//! two transmissions. An increase over the previous packet is added to the delay of the next returning ACK of that
//! connection. So the sender sees in its next RTT that the queue grows, and not only when the queued packets are
//! acknowledged. A decrease shortens the delay that ACKs have; the rest of it is kept for a while, and subtracted from
//! later increases. ACKs stay in order.
//!
//! *Reacts to* data of TCP that depart over the link, to what has come through it, and to pure ACKs that come back.
//!
//! *Differs from its paper:* each ACK is delayed by the changes predicted since the last one, within the window; the
//! paper draws for each ACK one of the changes in the window, so that their distribution is right. The times of queue
//! and transmission are exact, not counted in slots of a millisecond, and there is no minimum rate. An ACK is delayed
//! by `limit` at most, as in the authors' simulation, which has 10 ms there and says that the minimum RTT was meant. Of
//! the paper only the abstract could be read: the rules are those of that simulation.
//!
//! *Validation:* predictions and delays by hand (TV-32); the predicted wait of every packet against the one it had, at
//! a link of a known rate; a drop of the rate with and without it (`tests/base_station.rs`).
//!
//! *Limitations:* the sender must be delay-based: a loss-based one does not react to it. A grown RTT persists until
//! the queue falls or the gaps between ACKs exceed their delay. With the `limit` of 10 ms a sender learns little of a
//! queue that grows by hundreds. Only for TCP: the paper also writes the predicted arrivals into the RTP feedback of
//! calls, which is not done here, so a link that no TCP crosses is refused. To delay such reports would do nothing:
//! they carry the times.
//!
//! *Cost:* 80 B for each packet that waits in the link, and 0.2 kB for each connection.
//!
//! *References:* Meng, Guo, Sun, Wang, Sherry, Liu, Xu, SIGCOMM 2022.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use lasthop_core::packet::Kind;
use lasthop_core::time::{Span, Time};

use super::prediction::{Prediction, Recent};
use super::{Cx, Element, FAR, INBOUND, Parcel};

/// What it does to ACKs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zhuge {
    /// Delay of the link at whose near end it stands; set when the world is built.
    pub delay: Span,
    /// The rate is that of this time, and changes that no ACK has told of for as long are forgotten.
    pub window: Span,
    /// No ACK is delayed by more.
    pub limit: Span,
}

/// A change of the predicted time, in nanoseconds, and when it was seen.
type Change = (Time, i64);

/// What is remembered about a connection.
#[derive(Clone, Debug, Default)]
struct Connection {
    /// What was predicted for the last packet.
    predicted: Span,
    /// Changes since the last ACK.
    changes: VecDeque<Change>,
    /// By how much ACKs may be delayed less, and since when.
    saved: Span,
    saved_at: Time,
    /// By how much the last ACK was to be delayed, and when it went on.
    delay: Span,
    went: Time,
}

impl Connection {
    /// A packet of it will take this long.
    fn predict(&mut self, time: Span, now: Time, window: Span) {
        let change = time.0 as i64 - self.predicted.0 as i64;
        self.predicted = time;
        self.forget(now, window);
        if change != 0 {
            self.changes.push_back((now, change));
        }
    }

    fn forget(&mut self, now: Time, window: Span) {
        while self.changes.front().is_some_and(|&(at, _)| now.since(at) > window) {
            self.changes.pop_front();
        }
        if now.since(self.saved_at.min(now)) > window {
            self.saved = Span::ZERO;
        }
    }

    /// When the ACK goes on that has come at `now`.
    fn release(&mut self, now: Time, plan: &Zhuge) -> Time {
        self.forget(now, plan.window);
        let change: i64 = self.changes.drain(..).map(|(_, change)| change).sum();
        // As long as ACKs come before the one before has gone on, each is delayed as that was.
        let mut carried = if now > self.went { Span::ZERO } else { self.delay };
        let mut added = Span(change.max(0).unsigned_abs());
        if change < 0 {
            let fallen = Span(change.unsigned_abs());
            let shorter = carried.min(fallen);
            carried = Span(carried.0 - shorter.0);
            self.saved = self.saved + Span(fallen.0 - shorter.0);
            self.saved_at = now;
        } else {
            let spent = self.saved.min(added);
            self.saved = Span(self.saved.0 - spent.0);
            added = Span(added.0 - spent.0);
        }
        self.delay = (carried + added).min(plan.limit);
        self.went = self.went.max(now + self.delay);
        self.went
    }
}

/// The device at work.
#[derive(Clone, Debug)]
pub(crate) struct Telling {
    plan: Zhuge,
    prediction: Prediction,
    connections: BTreeMap<u32, Connection>,
    /// ACKs that wait, with their times and numbers.
    held: BinaryHeap<Reverse<(Time, u64, Parcel)>>,
    come: u64,
    delayed: u64,
    added: Span,
}

impl Telling {
    pub(super) fn new(plan: &Zhuge, _name: &str, _seed: u64) -> Telling {
        Telling {
            plan: *plan,
            prediction: Prediction::new(plan.delay, Recent::Time(plan.window)),
            connections: BTreeMap::new(),
            held: BinaryHeap::new(),
            come: 0,
            delayed: 0,
            added: Span::ZERO,
        }
    }

    /// A packet departs over the link.
    fn depart(&mut self, parcel: Parcel, cx: &mut Cx<'_>) {
        let packet = *cx.packets.get(parcel.packet);
        if packet.is_forward() && packet.kind == Kind::Data {
            let time = self.prediction.queueing(cx.now)
                + self.prediction.head_waits(cx.now)
                + self.prediction.sending();
            let connection = self.connections.entry(parcel.flow).or_default();
            connection.predict(time, cx.now, self.plan.window);
        }
        self.prediction.hand_on(parcel, &packet, cx.now);
        cx.forward(parcel);
    }

    /// A packet comes back.
    fn come_back(&mut self, parcel: Parcel, cx: &mut Cx<'_>) {
        let packet = cx.packets.get(parcel.packet);
        let is_ack = packet.kind == Kind::Ack && !packet.is_forward() && packet.payload == 0;
        let Some(connection) = self.connections.get_mut(&parcel.flow).filter(|_| is_ack) else {
            return cx.forward(parcel);
        };
        let at = connection.release(cx.now, &self.plan);
        if cx.window.contains(cx.now) && at > cx.now {
            self.delayed += 1;
            self.added = self.added + at.since(cx.now);
        }
        self.held.push(Reverse((at, self.come, parcel)));
        self.come += 1;
        self.let_go(cx);
    }

    /// ACKs that are due go on.
    fn let_go(&mut self, cx: &mut Cx<'_>) {
        while let Some(&Reverse((at, _, parcel))) = self.held.peek() {
            if at > cx.now {
                return cx.wake(at);
            }
            self.held.pop();
            cx.forward(parcel);
        }
    }
}

impl Element for Telling {
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

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        self.let_go(cx);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        for Reverse((_, _, parcel)) in self.held.drain() {
            cx.keep(parcel);
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let record = self.prediction.record();
        vec![
            ("zhuge_delayed", self.delayed),
            ("zhuge_added_s", self.added.0),
            ("zhuge_predicted", record.predicted),
            ("zhuge_waited_s", record.waited.0),
            ("zhuge_missed_s", record.missed.0),
        ]
    }
}

#[cfg(test)]
mod tests {
    use lasthop_core::packet::{Note, Packet};

    use super::super::OUTBOUND;
    use super::super::testing::{Bench, hammer};
    use super::*;

    const PLAN: Zhuge =
        Zhuge { delay: Span::ZERO, window: Span::from_millis(40), limit: Span::from_millis(100) };

    fn millis(value: u64) -> Time {
        Time::ZERO + Span::from_millis(value)
    }

    fn delays(changes: &[(u64, u64)], acks: &[u64], plan: &Zhuge) -> Vec<u64> {
        let mut connection = Connection::default();
        let mut changes = changes.iter().peekable();
        let release = |&at: &u64| {
            while let Some(&&(when, predicted)) = changes.peek().filter(|change| change.0 <= at) {
                connection.predict(Span::from_millis(predicted), millis(when), plan.window);
                changes.next();
            }
            connection.release(millis(at), plan).since(millis(at)).0 / 1_000_000
        };
        acks.iter().map(release).collect()
    }

    /// TV-32.3: predictions of 0, 3, 7, 7 ms in steps of a millisecond, each followed by an ACK: delays of 0, 3, 7
    /// and 7 ms, so all that was added is by how much the queue grew. ACKs that are told nothing new are delayed as
    /// the last one was, until one comes when the last has gone.
    #[test]
    fn the_growth_of_the_queue_is_told() {
        let changes = [(10, 0), (11, 3), (12, 7), (13, 7)];
        assert_eq!(delays(&changes, &[10, 11, 12, 13, 14, 22], &PLAN), [0, 3, 7, 7, 7, 0]);
    }

    /// TV-32.4: one ACK for three packets is told of 5 - 2 + 4 ms. By how much a queue fell is taken off what follows:
    /// of 6 ms more after 4 less, 2 are added; 40 ms later it is forgotten.
    #[test]
    fn what_a_queue_fell_by_is_taken_off() {
        assert_eq!(delays(&[(10, 5), (10, 3), (11, 7)], &[12], &PLAN), [7]);
        assert_eq!(delays(&[(10, 5), (30, 1), (31, 7)], &[10, 30, 31], &PLAN), [5, 0, 2]);
        assert_eq!(delays(&[(10, 5), (30, 1), (71, 7)], &[10, 30, 71], &PLAN), [5, 0, 6]);
        // While ACKs wait, it is taken off what they wait, as far as their order allows: 18, 18, 18 and 19 ms.
        assert_eq!(delays(&[(10, 8), (11, 5)], &[10, 11, 13, 14], &PLAN), [8, 7, 5, 5]);
    }

    /// TV-32.5: no more than the limit, and nothing of a change that no ACK has told of in time.
    #[test]
    fn limits() {
        let plan = Zhuge { limit: Span::from_millis(10), ..PLAN };
        assert_eq!(delays(&[(10, 25), (12, 31)], &[10, 12], &plan), [10, 10]);
        assert_eq!(delays(&[(10, 25)], &[51], &PLAN), [0]);
    }

    fn data(seq: u64) -> Packet {
        Packet { seq, bytes: 1040, payload: 1000, kind: Kind::Data, ..Packet::default() }
    }

    fn ack(seq: u64) -> Packet {
        Packet { seq, bytes: 40, kind: Kind::Ack, note: Note::BACK, ..Packet::default() }
    }

    /// One packet takes 4 ms. Then three come at once: predicted are 4, 4 + 4 and 8 + 4 ms, where it was nothing while
    /// nothing was known. The next ACK is delayed by 12 ms, what is no ACK of the connection not at all.
    #[test]
    fn an_ack_of_a_queue_that_grows_is_late() {
        let mut bench = Bench::new(Telling::new(&PLAN, "zhuge", 1));
        let first = bench.offer_at(data(1), OUTBOUND, 0, millis(0));
        bench.send_on(first, FAR, 2, millis(4));
        for seq in [2, 3, 4] {
            bench.offer_at(data(1000 * seq), OUTBOUND, 0, millis(50));
        }
        let syn_ack = Packet { kind: Kind::SynAck, ..ack(0) };
        bench.offer_at(syn_ack, INBOUND, 5, millis(51));
        bench.offer_at(ack(1001), INBOUND, 5, millis(51));
        assert_eq!(*bench.forwarded().last().expect("the SYN-ACK"), (4, millis(51)));
        bench.run_until(millis(99));
        assert_eq!(*bench.forwarded().last().expect("the ACK"), (5, millis(63)));
        assert_eq!(bench.device.counters()[..2], [("zhuge_delayed", 1), ("zhuge_added_s", 12_000_000)]);
    }

    #[test]
    fn nothing_that_comes_breaks_it() {
        let look = |device: &Telling| device.connections.len() <= 5;
        hammer(|| Telling::new(&PLAN, "zhuge", 1), 3, look);
    }
}
