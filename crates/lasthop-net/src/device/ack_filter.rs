//! ACK filtering and pacing: thins out and spaces the ACKs that are queued for a slow reverse path.
//!
//! *What it does.* It is the queue in front of the link, and serves it one packet at a time at its rate. A pure ACK
//! that arrives makes older ones of its connection in the queue redundant: they are withheld. ACKs of a connection may
//! also be spaced, so that a burst of them does not become a burst of data.
//!
//! *Reacts to* pure ACKs that depart over the link and acknowledge something new. Duplicates are kept, since three of
//! them mean a loss, and so are ACKs with SACK blocks, an ECN echo, another count of marks than the newer ACK (RFC
//! 9768), or measurements.
//!
//! *Differs from its paper:* nothing known. The ACK that is left takes the place of the newest.
//!
//! *Validation:* hand-made ACKs below; a return path of 9.6 kbit/s in `tests/helpers_inside.rs`.
//!
//! *Limitations:* it serves at the rate of the link, regardless of outages and retransmissions: it does not see the
//! link's own queue. Fewer ACKs make a sender that counts them grow more slowly.
//!
//! *Cost:* in memory 0.2 kB a flow (a thousand Reno flows over 500 Mbit/s that lose 2 %, with it and without).
//!
//! *Kernel counterpart:* the `ack-filter` of sch_cake.
//!
//! *References:* RFC 3449 sections 5.2.1 and 5.2.2; Balakrishnan, Padmanabhan, Katz (1999).

use std::collections::{BTreeMap, VecDeque};

use lasthop_core::packet::{Cause, Kind, NONE, flag};
use lasthop_core::time::{Span, Time};

use super::{Cx, Element, OUTBOUND, Parcel};
use crate::routing::DirectionId;

/// What it does to ACKs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckFilter {
    /// The direction at whose near end it stands; set when the world is built.
    pub direction: DirectionId,
    /// Most packets that wait.
    pub limit: u32,
    /// Whether redundant ACKs are withheld.
    pub filters: bool,
    /// Minimum time between ACKs of a connection.
    pub spacing: Span,
}

/// A packet that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    parcel: Parcel,
    /// What it acknowledges and how many marks it tells of, if a newer ACK makes it superfluous.
    acknowledges: Option<(u64, u8)>,
}

/// The device at work.
#[derive(Clone, Debug)]
pub(crate) struct Filtering {
    plan: AckFilter,
    queue: VecDeque<Waiting>,
    /// The link takes the next packet from here on.
    free_at: Time,
    /// When the next ACK of a connection may leave.
    next: BTreeMap<u32, Time>,
    /// The newest acknowledgement that has come, by connection.
    newest: BTreeMap<u32, u64>,
    withheld: u64,
    passed: u64,
    most: u64,
}

impl Filtering {
    pub(super) fn new(plan: &AckFilter, _name: &str, _seed: u64) -> Filtering {
        Filtering {
            plan: *plan,
            queue: VecDeque::new(),
            free_at: Time::ZERO,
            next: BTreeMap::new(),
            newest: BTreeMap::new(),
            withheld: 0,
            passed: 0,
            most: 0,
        }
    }

    /// What a packet acknowledges, if it does nothing else and says something new, and the counter of marks in it.
    fn acknowledges(&mut self, parcel: Parcel, cx: &Cx<'_>) -> Option<(u64, u8)> {
        let packet = cx.packets.get(parcel.packet);
        if packet.kind != Kind::Ack || packet.is_forward() || packet.payload > 0 {
            return None;
        }
        let newest = self.newest.entry(parcel.flow).or_insert(0);
        let is_new = packet.seq > *newest;
        *newest = (*newest).max(packet.seq);
        // ACE 1 may be the echo of RFC 3168, which has neither of the other bits on an ACK.
        let marks = packet.flags & flag::ACE;
        (is_new && packet.extra == NONE && marks != flag::ECE && !packet.has(flag::ELN))
            .then_some((packet.seq, marks))
    }

    /// Withholds what an ACK makes superfluous.
    fn filter(&mut self, flow: u32, (ack, marks): (u64, u8), cx: &mut Cx<'_>) {
        let (now, window) = (cx.now, cx.window);
        let withheld = &mut self.withheld;
        self.queue.retain(|waiting| {
            let superfluous = waiting.parcel.flow == flow
                && waiting.acknowledges.is_some_and(|old| old.0 < ack && old.1 == marks);
            if superfluous {
                *withheld += u64::from(window.contains(now));
                cx.drop(waiting.parcel, Cause::Withheld);
            }
            !superfluous
        });
    }

    /// When the packet may leave as far as its own connection is concerned.
    fn may_leave(&self, waiting: &Waiting) -> Time {
        match waiting.acknowledges {
            Some(_) => self.next.get(&waiting.parcel.flow).copied().unwrap_or(Time::ZERO),
            None => Time::ZERO,
        }
    }

    /// Hands on what the link takes, and asks for the time of the next.
    fn run(&mut self, cx: &mut Cx<'_>) {
        while self.free_at <= cx.now {
            let Some(index) = self.queue.iter().position(|waiting| self.may_leave(waiting) <= cx.now) else {
                break;
            };
            let Some(waiting) = self.queue.remove(index) else { break };
            let (now, window) = (cx.now, cx.window);
            self.passed += u64::from(window.contains(now));
            if waiting.acknowledges.is_some() && self.plan.spacing > Span::ZERO {
                self.next.insert(waiting.parcel.flow, now + self.plan.spacing);
            }
            let rate = cx.link(self.plan.direction).rate_at(now);
            self.free_at = now + rate.serialisation(waiting.parcel.bytes.into());
            cx.forward(waiting.parcel);
        }
        if let Some(earliest) = self.queue.iter().map(|waiting| self.may_leave(waiting)).min() {
            cx.wake(earliest.max(self.free_at));
        }
    }
}

impl Element for Filtering {
    fn receive(&mut self, parcel: Parcel, port: u32, cx: &mut Cx<'_>) {
        if port != OUTBOUND {
            return cx.forward(parcel);
        }
        let acknowledges = self.acknowledges(parcel, cx);
        if self.plan.filters
            && let Some(ack) = acknowledges
        {
            self.filter(parcel.flow, ack, cx);
        }
        // A departure at this very instant frees its place first.
        self.run(cx);
        if self.queue.len() >= self.plan.limit as usize {
            return cx.drop(parcel, Cause::QueueOverflow);
        }
        self.queue.push_back(Waiting { parcel, acknowledges });
        self.most = self.most.max(self.queue.len() as u64);
        self.run(cx);
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        self.run(cx);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        for waiting in self.queue.drain(..) {
            cx.keep(waiting.parcel);
        }
    }

    fn holdings(&self) -> Vec<(&'static str, u64)> {
        vec![("ack_filter_waiting", self.queue.len() as u64)]
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("ack_filter_passed", self.passed),
            ("ack_filter_withheld", self.withheld),
            ("ack_filter_most_waiting", self.most),
        ]
    }
}

#[cfg(test)]
mod tests {
    use lasthop_core::packet::{Note, Packet};

    use super::super::testing::Bench;
    use super::super::{Effect, INBOUND};
    use super::*;

    fn bench(filters: bool, spacing: Span) -> Bench<Filtering> {
        // The bench's link takes 40 B in 1 ms.
        let plan = AckFilter { direction: 0, limit: 4, filters, spacing };
        Bench::over_link(Filtering::new(&plan, "filter", 1), 320_000)
    }

    fn millis(value: u64) -> Time {
        Time::ZERO + Span::from_millis(value)
    }

    fn ack(seq: u64) -> Packet {
        Packet { seq, bytes: 40, extra: NONE, kind: Kind::Ack, note: Note::BACK, ..Packet::default() }
    }

    /// Of ACKs 1 to 4 at once the first leaves at once, and the last stands for the two between.
    #[test]
    fn the_newest_stands_for_all() {
        let mut bench = bench(true, Span::ZERO);
        for seq in 1..=4 {
            bench.offer_at(ack(seq), OUTBOUND, 0, millis(0));
        }
        bench.run_until(millis(9));
        assert_eq!(bench.forwarded(), [(0, millis(0)), (3, millis(1))]);
        assert_eq!(bench.dropped(), [(1, Cause::Withheld), (2, Cause::Withheld)]);
    }

    /// Duplicates, echoes of congestion and data wait their turn, and what comes the other way passes.
    #[test]
    fn what_says_more_is_kept() {
        let mut bench = bench(true, Span::ZERO);
        bench.offer_at(ack(5), OUTBOUND, 0, millis(0));
        bench.offer_at(ack(5), OUTBOUND, 0, millis(0));
        bench.offer_at(Packet { flags: flag::ECE, ..ack(6) }, OUTBOUND, 0, millis(0));
        bench.offer_at(Packet { kind: Kind::Data, note: Note::default(), ..ack(1) }, OUTBOUND, 0, millis(0));
        bench.offer_at(ack(7), OUTBOUND, 0, millis(0));
        bench.offer_at(ack(1), INBOUND, 0, millis(0));
        bench.run_until(millis(9));
        assert!(bench.dropped().is_empty());
        let order: Vec<u32> = bench.forwarded().iter().map(|sent| sent.0).collect();
        assert_eq!(order, [0, 5, 1, 2, 3, 4]);
    }

    /// ACKs 5 ms apart; without filtering each waits for its turn, and the fifth that waits finds no room.
    #[test]
    fn acks_are_spaced() {
        let mut bench = bench(false, Span::from_millis(5));
        for seq in 1..=6 {
            bench.offer_at(ack(seq), OUTBOUND, 0, millis(0));
        }
        bench.run_until(millis(99));
        assert_eq!(bench.dropped(), [(5, Cause::QueueOverflow)]);
        let times: Vec<Time> = bench.forwarded().iter().map(|sent| sent.1).collect();
        assert_eq!(times, [0, 5, 10, 15, 20].map(millis));
        assert!(bench.effects.iter().all(|effect| !matches!(effect, Effect::Emit { .. })));
    }

    #[test]
    fn nothing_that_comes_breaks_it() {
        let plan = AckFilter { direction: 0, limit: 9, filters: true, spacing: Span::from_millis(3) };
        let make = || Filtering::new(&plan, "filter", 1);
        super::super::testing::hammer(make, 2, |device| device.queue.len() <= 9);
    }
}
