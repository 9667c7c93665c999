//! Impairments that are not losses: packets that are delayed by chance, overtake one another, or come twice.
//!
//! A path of wires does this when it balances load over several ways, a radio when it retransmits; here the causes are
//! set directly, to see what a sender makes of them. It looks at departing packets only: what comes back passes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use super::{Cx, Effect, Element, OUTBOUND, Parcel};

/// What happens to packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Impair {
    /// Each packet is delayed by a time drawn uniformly from 0 up to this.
    pub jitter: Span,
    /// Whether a packet may overtake one that was delayed for longer; else it waits behind it.
    pub reorder: bool,
    /// Probability that a packet comes twice, the copy right behind it.
    pub duplicate: f64,
}

/// The device at work.
#[derive(Clone, Debug)]
pub(crate) struct Impairing {
    plan: Impair,
    delays: Stream,
    copies: Stream,
    /// Packets by when they leave, and among equals by their arrival.
    held: BinaryHeap<Reverse<(Time, u64, Parcel)>>,
    arrived: u64,
    /// When the last packet leaves, if none may overtake it.
    last: Time,
    duplicated: u64,
    overtaken: u64,
}

impl Impairing {
    pub(super) fn new(plan: &Impair, name: &str, seed: u64) -> Impairing {
        Impairing {
            plan: *plan,
            delays: Stream::new(seed, &format!("delays of {name}")),
            copies: Stream::new(seed, &format!("copies of {name}")),
            held: BinaryHeap::new(),
            arrived: 0,
            last: Time::ZERO,
            duplicated: 0,
            overtaken: 0,
        }
    }

    /// When a packet that arrives now leaves.
    fn leaves(&mut self, now: Time) -> Time {
        let mut at = now;
        if self.plan.jitter > Span::ZERO {
            at += Span(self.delays.below(self.plan.jitter.0 + 1));
        }
        if !self.plan.reorder {
            at = at.max(self.last);
        }
        self.last = self.last.max(at);
        at
    }

    /// Lets everything go that is due.
    fn release(&mut self, cx: &mut Cx<'_>) {
        while let Some(&Reverse((at, _, parcel))) = self.held.peek() {
            if at > cx.now {
                return cx.wake(at);
            }
            self.held.pop();
            cx.forward(parcel);
            if self.copies.uniform() < self.plan.duplicate {
                self.duplicated += u64::from(cx.window.contains(cx.now));
                let (packet, extra) = (*cx.packets.get(parcel.packet), cx.extra(parcel.packet));
                cx.effects.push(Effect::Emit { packet, extra, hop: parcel.hop + 1, at: cx.now });
            }
        }
    }
}

impl Element for Impairing {
    fn receive(&mut self, parcel: Parcel, port: u32, cx: &mut Cx<'_>) {
        if port != OUTBOUND {
            return cx.forward(parcel);
        }
        let before = self.last;
        let at = self.leaves(cx.now);
        self.overtaken += u64::from(at < before && cx.window.contains(cx.now));
        self.held.push(Reverse((at, self.arrived, parcel)));
        self.arrived += 1;
        self.release(cx);
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        self.release(cx);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        for Reverse((_, _, parcel)) in self.held.drain() {
            cx.keep(parcel);
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("impair_duplicated", self.duplicated), ("impair_reordered", self.overtaken)]
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::*;

    fn times(plan: Impair) -> Vec<Time> {
        let mut device = Impairing::new(&plan, "test", 1);
        (0..1_000).map(|number| device.leaves(Time(number * 1_000_000))).collect()
    }

    /// Packets a millisecond apart, delayed by up to 10 ms: in order they never leave before their predecessors.
    #[test]
    fn order_is_kept_if_asked_for() {
        let plan = Impair { jitter: Span::from_millis(10), reorder: false, duplicate: 0.0 };
        assert!(times(plan).is_sorted());
        assert!(!times(Impair { reorder: true, ..plan }).is_sorted());
    }

    /// The delay is uniform: its mean is half of the jitter, and no packet is delayed by more.
    #[test]
    fn delays_are_uniform() {
        let jitter = Span::from_millis(10);
        let times = times(Impair { jitter, reorder: true, duplicate: 0.0 });
        let delays: Vec<u64> = times.iter().zip(0..).map(|(at, number)| at.0 - number * 1_000_000).collect();
        let mean = delays.iter().sum::<u64>() as f64 / delays.len() as f64;
        assert!((mean / jitter.0 as f64 - 0.5).abs() < 0.03, "{mean}");
        assert!(delays.iter().all(|&delay| delay <= jitter.0));
    }
    /// A copy follows right behind its packet, on the place behind the device.
    #[test]
    fn copies_follow_their_packets() {
        let plan = Impair { jitter: Span::ZERO, reorder: false, duplicate: 1.0 };
        let mut bench = Bench::new(Impairing::new(&plan, "test", 1));
        bench.offer(OUTBOUND, 1500, Time::ZERO);
        bench.offer(OUTBOUND, 1500, Time(5));
        let [
            Effect::Forward { .. },
            Effect::Emit { hop: 1, at: Time(0), .. },
            Effect::Forward { .. },
            Effect::Emit { hop: 1, at: Time(5), .. },
        ] = bench.effects[..]
        else {
            panic!("{:?}", bench.effects)
        };
    }

    /// What it still holds when the run ends is handed over: of ten packets that are delayed by up to a second, those
    /// that have not left after half of one.
    #[test]
    fn held_packets_are_accounted_for() {
        let plan = Impair { jitter: Span::from_secs(1), reorder: true, duplicate: 0.0 };
        let mut bench = Bench::new(Impairing::new(&plan, "test", 1));
        (0..10).for_each(|_| bench.offer(OUTBOUND, 1500, Time::ZERO));
        bench.close(Time(500_000_000));
        let (gone, kept) = (bench.forwarded().len(), bench.kept().len());
        assert!(gone > 0 && kept > 0 && gone + kept == 10, "{gone} gone, {kept} kept");
    }
}
