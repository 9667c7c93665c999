//! Impairments that are not losses: packets that are delayed by chance, overtake one another, or come twice.
//!
//! A path of wires does this when it balances load over several ways, a radio when it retransmits; here the causes are
//! set directly, to see what a sender makes of them. It looks at departing packets only: what comes back passes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use super::{Cx, Effect, Element, OUTBOUND, Parcel};

/// How delays are distributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// Uniform, from the delay up to the delay and the jitter.
    #[default]
    Uniform,
    /// Normal: the delay is the mean and the jitter the standard deviation; less than nothing is nothing.
    Normal,
    /// Pareto with the tail index 3, as netem's table has it, with this mean and standard deviation.
    Pareto,
    /// By a list: a delay between two that follow each other is as likely as one between any other two.
    Table,
}

impl Shape {
    /// The names in files.
    pub const NAMES: [&'static str; 4] = ["uniform", "normal", "pareto", "table"];

    /// The shape with this name.
    pub fn by_name(name: &str) -> Option<Shape> {
        let all = [Shape::Uniform, Shape::Normal, Shape::Pareto, Shape::Table];
        all.into_iter().find(|shape| Shape::NAMES[*shape as usize] == name)
    }
}

/// What happens to packets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Impair {
    /// Every packet is delayed by this.
    pub delay: Span,
    /// How much delays vary.
    pub jitter: Span,
    /// How they are distributed.
    pub shape: Shape,
    /// The delays of a table, ascending; at least two there.
    pub table: Arc<[Span]>,
    /// Correlation of a packet's delay with that of the one before, of normal variables behind both.
    pub correlation: f64,
    /// Probability that a packet is not delayed at all, and so overtakes those that are.
    pub ahead: f64,
    /// Correlation of this choice with that of the previous packet.
    pub ahead_correlation: f64,
    /// Only one packet of this many may go ahead.
    pub ahead_gap: u64,
    /// Whether a packet may overtake one that was delayed for longer; else it waits behind it.
    pub reorder: bool,
    /// Probability that a packet comes twice, the copy right behind it.
    pub duplicate: f64,
}

/// Longest delay in nanoseconds.
const LONGEST_DELAY: f64 = 1e15;
/// Mean and standard deviation of a Pareto variable with the tail index 3 and the least value 1.
const PARETO_MEAN: f64 = 1.5;
const PARETO_DEVIATION: f64 = 0.866_025_403_784_438_6;

/// Standard normal variables, each correlated with the one before; the distribution of each alone does not change.
#[derive(Clone, Debug)]
struct Correlated {
    stream: Stream,
    correlation: f64,
    last: Option<f64>,
}

impl Correlated {
    fn new(stream: Stream, correlation: f64) -> Correlated {
        Correlated { stream, correlation, last: None }
    }

    fn normal(&mut self) -> f64 {
        let new = self.stream.normal();
        let next = match self.last {
            None => new,
            Some(last) => self.correlation * last + (1.0 - self.correlation * self.correlation).sqrt() * new,
        };
        self.last = Some(next);
        next
    }

    /// A uniform variable from 0 to 1.
    fn uniform(&mut self) -> f64 {
        libm::erfc(-self.normal() / std::f64::consts::SQRT_2) / 2.0
    }
}

/// The device at work.
#[derive(Clone, Debug)]
pub(crate) struct Impairing {
    plan: Impair,
    delays: Correlated,
    heads: Correlated,
    /// Packets since the last that went ahead.
    since_ahead: u64,
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
            plan: plan.clone(),
            delays: Correlated::new(Stream::new(seed, &format!("delays of {name}")), plan.correlation),
            heads: Correlated::new(Stream::new(seed, &format!("heads of {name}")), plan.ahead_correlation),
            since_ahead: 0,
            copies: Stream::new(seed, &format!("copies of {name}")),
            held: BinaryHeap::new(),
            arrived: 0,
            last: Time::ZERO,
            duplicated: 0,
            overtaken: 0,
        }
    }

    /// By how much a packet is delayed.
    fn delay(&mut self) -> Span {
        let Impair { delay, jitter, shape, correlation, ref table, .. } = self.plan;
        if shape == Shape::Table {
            let place = self.delays.uniform() * (table.len() - 1) as f64;
            let index = (place as usize).min(table.len() - 2);
            let (low, high) = (table[index].0 as f64, table[index + 1].0 as f64);
            return delay + Span((low + (place - index as f64) * (high - low)) as u64);
        }
        if jitter == Span::ZERO {
            return delay;
        }
        let (mean, deviation) = (delay.0 as f64, jitter.0 as f64);
        let nanos = match shape {
            Shape::Uniform if correlation == 0.0 => {
                return delay + Span(self.delays.stream.below(jitter.0 + 1));
            }
            Shape::Uniform => mean + deviation * self.delays.uniform(),
            Shape::Normal => mean + deviation * self.delays.normal(),
            Shape::Table | Shape::Pareto => {
                let drawn = libm::pow(1.0 - self.delays.uniform(), -1.0 / 3.0);
                mean + deviation * (drawn - PARETO_MEAN) / PARETO_DEVIATION
            }
        };
        // A conversion from below 0 gives 0; the tail of a Pareto variable ends with the longest run.
        Span(nanos.min(LONGEST_DELAY) as u64)
    }

    /// Whether a packet is not delayed: netem's reorder, with its gap.
    fn goes_ahead(&mut self) -> bool {
        if self.plan.ahead == 0.0 {
            return false;
        }
        self.since_ahead += 1;
        let ahead = self.since_ahead >= self.plan.ahead_gap && self.heads.uniform() < self.plan.ahead;
        if ahead {
            self.since_ahead = 0;
        }
        ahead
    }

    /// When a packet that arrives now leaves.
    fn leaves(&mut self, now: Time) -> Time {
        if self.goes_ahead() {
            return now;
        }
        let mut at = now + self.delay();
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

    fn times(plan: &Impair) -> Vec<Time> {
        let mut device = Impairing::new(plan, "test", 1);
        (0..1_000).map(|number| device.leaves(Time(number * 1_000_000))).collect()
    }

    /// Packets a millisecond apart, delayed by up to 10 ms: in order they never leave before their predecessors.
    #[test]
    fn order_is_kept_if_asked_for() {
        let plan = Impair { jitter: Span::from_millis(10), ..Impair::default() };
        assert!(times(&plan).is_sorted());
        assert!(!times(&Impair { reorder: true, ..plan }).is_sorted());
    }

    /// The delay is uniform: its mean is half of the jitter, and no packet is delayed by more.
    #[test]
    fn delays_are_uniform() {
        let jitter = Span::from_millis(10);
        let times = times(&Impair { jitter, reorder: true, ..Impair::default() });
        let delays: Vec<u64> = times.iter().zip(0..).map(|(at, number)| at.0 - number * 1_000_000).collect();
        let mean = delays.iter().sum::<u64>() as f64 / delays.len() as f64;
        assert!((mean / jitter.0 as f64 - 0.5).abs() < 0.03, "{mean}");
        assert!(delays.iter().all(|&delay| delay <= jitter.0));
    }
    /// A copy follows right behind its packet, on the place behind the device.
    #[test]
    fn copies_follow_their_packets() {
        let plan = Impair { duplicate: 1.0, ..Impair::default() };
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
        let plan = Impair { jitter: Span::from_secs(1), reorder: true, ..Impair::default() };
        let mut bench = Bench::new(Impairing::new(&plan, "test", 1));
        (0..10).for_each(|_| bench.offer(OUTBOUND, 1500, Time::ZERO));
        bench.close(Time(500_000_000));
        let (gone, kept) = (bench.forwarded().len(), bench.kept().len());
        assert!(gone > 0 && kept > 0 && gone + kept == 10, "{gone} gone, {kept} kept");
    }

    /// Delays in milliseconds of packets that are a second apart, so that none waits for another.
    fn delays(plan: &Impair, number: u64) -> Vec<f64> {
        let mut device = Impairing::new(plan, "test", 3);
        let apart = 1_000_000_000;
        (0..number).map(|one| (device.leaves(Time(one * apart)).0 - one * apart) as f64 / 1e6).collect()
    }

    fn moments(values: &[f64]) -> (f64, f64, f64) {
        let number = values.len() as f64;
        let mean = values.iter().sum::<f64>() / number;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / number;
        let products = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>();
        (mean, variance.sqrt(), products / number / variance)
    }

    /// 100 ms and 10 ms: mean and standard deviation of normal and Pareto delays, and the share beyond a point by the
    /// distribution functions: 2.28 % of a normal variable lie two deviations above its mean; a Pareto variable with
    /// the index 3 exceeds x with x^-3, here (1.5 + 2 x 0.866)^-3 = 2.96 %. Correlation changes neither.
    #[test]
    fn delays_have_their_distribution() {
        for (shape, beyond) in [(Shape::Normal, 0.0228), (Shape::Pareto, 0.0296)] {
            for correlation in [0.0_f64, 0.5] {
                let (delay, jitter) = (Span::from_millis(100), Span::from_millis(10));
                let plan = Impair { delay, jitter, shape, correlation, ..Impair::default() };
                let values = delays(&plan, 200_000);
                let (mean, deviation, _) = moments(&values);
                assert!((mean - 100.0).abs() < 0.2, "{shape:?} {mean}");
                // The fourth moment of this Pareto variable is endless, so its deviation settles slowly.
                let tolerance = if shape == Shape::Normal { 0.1 } else { 1.0 };
                assert!((deviation - 10.0).abs() < tolerance, "{shape:?} {deviation}");
                let above =
                    values.iter().filter(|value| **value > 120.0).count() as f64 / values.len() as f64;
                assert!((above - beyond).abs() < 0.002, "{shape:?} {above}");
                // Two neighbours are above the median together with 1/4 + arcsin(correlation) / 2 pi.
                let mut sorted = values.clone();
                sorted.sort_by(f64::total_cmp);
                let median = sorted[values.len() / 2];
                let both = values.windows(2).filter(|pair| pair[0] > median && pair[1] > median).count();
                let expected = 0.25 + correlation.asin() / std::f64::consts::TAU;
                assert!((both as f64 / values.len() as f64 - expected).abs() < 0.004, "{shape:?} {both}");
            }
        }
    }

    /// A correlated uniform delay stays uniform: quarters of it are equally frequent, and none is longer.
    #[test]
    fn correlated_delays_stay_uniform() {
        let jitter = Span::from_millis(8);
        let values = delays(&Impair { jitter, correlation: 0.25, ..Impair::default() }, 100_000);
        for quarter in 0..4 {
            let from = f64::from(quarter) * 2.0;
            let share =
                values.iter().filter(|value| (from..from + 2.0).contains(*value)).count() as f64 / 1e5;
            assert!((share - 0.25).abs() < 0.01, "{quarter}: {share}");
        }
        assert!((moments(&values).2 - 0.24).abs() < 0.02);
        // A delay below 0 is none.
        let plan = Impair { delay: Span::from_millis(1), jitter, shape: Shape::Normal, ..Impair::default() };
        assert!(delays(&plan, 1_000).contains(&0.0));
    }

    /// A table of 1, 2 and 10 ms: half of all delays are below 2 ms, a quarter above 6 ms, whatever the correlation.
    #[test]
    fn delays_by_a_table() {
        let table: Arc<[Span]> = [1, 2, 10].map(Span::from_millis).into();
        for correlation in [0.0, 0.3] {
            let plan =
                Impair { shape: Shape::Table, table: Arc::clone(&table), correlation, ..Impair::default() };
            let values = delays(&plan, 100_000);
            let share =
                |of: &dyn Fn(f64) -> bool| values.iter().filter(|delay| of(**delay)).count() as f64 / 1e5;
            assert!((share(&|delay| delay < 2.0) - 0.5).abs() < 0.01);
            assert!((share(&|delay| delay > 6.0) - 0.25).abs() < 0.01);
            assert!(values.iter().all(|delay| (1.0..=10.0).contains(delay)));
        }
    }

    /// netem's `delay 10ms reorder 25% 50%` and `gap 5`: that share leaves at once, the others after 10 ms.
    #[test]
    fn packets_go_ahead() {
        let plan =
            Impair { delay: Span::from_millis(10), ahead: 0.25, ahead_correlation: 0.5, ..Impair::default() };
        let values = delays(&plan, 100_000);
        let ahead = values.iter().filter(|delay| **delay == 0.0).count() as f64 / 1e5;
        assert!((ahead - 0.25).abs() < 0.01, "{ahead}");
        assert!(values.iter().all(|delay| [0.0, 10.0].contains(delay)));
        let every = Impair { ahead: 1.0, ahead_correlation: 0.0, ahead_gap: 5, ..plan };
        let first: Vec<f64> = delays(&every, 10);
        assert_eq!(first, [10.0, 10.0, 10.0, 10.0, 0.0, 10.0, 10.0, 10.0, 10.0, 0.0]);
        // It overtakes without reorder, which is about the others.
        let mut device = Impairing::new(&every, "test", 1);
        let times: Vec<u64> = (0..5).map(|one| device.leaves(Time(one * 1_000_000)).0 / 1_000_000).collect();
        assert_eq!(times, [10, 11, 12, 13, 4]);
    }
}
