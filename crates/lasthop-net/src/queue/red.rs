//! RED: drops or marks arriving packets by chance, the more of them the longer the queue has been on average.
//!
//! Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance" (IEEE/ACM ToN 1(4), 1993); `gentle`
//! is Floyd's note of 2000, `adaptive` Floyd, Gummadi and Shenker (2001), marks are RFC 3168 §5 to 7. The scenario
//! resolves automatic values with [`Red::automatic`]; a [`super::Gate`] asks [`Early`] about every packet.
//!
//! The average is taken at arrivals only. When a packet finds the queue empty, it falls as if small packets had
//! passed in the idle time, so that RED needs neither an event nor a clock of its own.

use lasthop_core::packet::Cause;
use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;

use super::{Arrival, Found, Rule, Verdict};

/// Parameters of RED. Thresholds and the average count waiting packets, or their bytes, without the one in service.
#[derive(Clone, Debug, PartialEq)]
pub struct Red {
    /// Measure the queue in bytes, and drop by size: a packet of twice `mean_packet` is twice as likely.
    pub in_bytes: bool,
    /// Usual size of a packet in bytes.
    pub mean_packet: u32,
    /// Nothing is dropped while the average is below this.
    pub min_threshold: f64,
    /// The probability reaches `max_probability` here.
    pub max_threshold: f64,
    /// Share of a new sample in the average (`w_q`).
    pub weight: f64,
    /// Probability at `max_threshold`, before packets since the last drop are taken into account (`max_p`).
    pub max_probability: f64,
    /// Above `max_threshold` the probability rises to 1 at twice of it; otherwise it is 1 from there on.
    pub gentle: bool,
    /// Wait for `1 / p` packets between two drops, so that their distance is uniform in `1 / p` to `2 / p`.
    pub wait: bool,
    /// Mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
    /// Mark only while the probability is below this, drop beyond. `None`: mark always, but drop every packet
    /// when the average is where the probability is 1.
    pub mark_below: Option<f64>,
    /// Adapts `max_probability`, if it does.
    pub adaptive: Option<Adaptive>,
    /// Most that it holds.
    pub limit: RedLimit,
    /// Rate of the link, by which the average falls while it is idle.
    pub rate: Rate,
    /// As ns-2.35 does: in bytes, a single byte is enough of a queue; `gentle` does not follow `adaptive`.
    pub ns2: bool,
}

/// The limit of a queue with RED.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedLimit {
    /// This many packets, the one in service included.
    Packets(u64),
    /// This many bytes, those of the packet in service included.
    Bytes(u64),
    /// A packet that finds this many waiting is lost (ns-2).
    WaitingPackets(u64),
    /// A packet that finds this many bytes waiting is lost (ns-2), so that one packet may exceed them.
    WaitingBytes(u64),
}

/// How `max_probability` is adapted, so that the average stays in the middle of the thresholds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adaptive {
    /// Added when the average is above the target, but a quarter of `max_probability` at most.
    pub alpha: f64,
    /// Factor when it is below.
    pub beta: f64,
    /// Minimum time between two changes.
    pub interval: Span,
    /// It is not raised from here on, nor lowered from there on.
    pub top: f64,
    /// See `top`.
    pub bottom: f64,
}

/// The values that ns-2.35 derives from a link when a script sets none. Thresholds are in packets of `mean_packet`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Automatic {
    /// Half a target delay of 5 ms, but 5 packets at least.
    pub min_threshold: f64,
    /// A sample counts for ten round trips, which take three times the delay of the link and 0.1 s at least.
    pub weight: f64,
    /// Least `max_probability` when it adapts: one per window of 1000 B packets and 100 ms, 0.01 at most.
    pub bottom: f64,
}

impl Red {
    /// The automatic values for a link of this rate and delay.
    pub fn automatic(rate: Rate, delay: Span, mean_packet: u32) -> Automatic {
        let per_second = packets_per_second(rate, mean_packet);
        let round_trip = (3.0 * (delay.seconds() + 1.0 / per_second)).max(0.1);
        Automatic {
            min_threshold: (0.005 * per_second / 2.0).max(5.0),
            weight: 1.0 - libm::exp(-1.0 / (10.0 * round_trip * per_second)),
            bottom: (80_000.0 / rate.0 as f64).min(0.01),
        }
    }
}

/// The time constant of the link: packets of the usual size that it carries in a second.
fn packets_per_second(rate: Rate, mean_packet: u32) -> f64 {
    rate.0 as f64 / (8.0 * f64::from(mean_packet))
}

/// RED at work.
#[derive(Clone, Debug)]
pub(super) struct Early {
    plan: Red,
    stream: Stream,
    /// Packets of the usual size per second.
    per_second: f64,
    average: f64,
    /// Packets, and their bytes, since the last one that was dropped or marked.
    count: u64,
    count_bytes: u64,
    /// The average was above the lower threshold when the last packet came.
    was_above: bool,
    max_probability: f64,
    /// When `max_probability` was last changed.
    adapted: Time,
}

impl Early {
    pub(super) fn new(plan: &Red, name: &str, seed: u64) -> Early {
        Early {
            plan: plan.clone(),
            stream: Stream::new(seed, &format!("RED of {name}")),
            per_second: packets_per_second(plan.rate, plan.mean_packet),
            average: 0.0,
            count: 0,
            count_bytes: 0,
            was_above: false,
            max_probability: plan.max_probability,
            adapted: Time::ZERO,
        }
    }

    /// What waits, in the unit of the thresholds.
    fn measured(&self, found: &Found) -> f64 {
        if self.plan.in_bytes { found.waiting_bytes as f64 } else { found.waiting as f64 }
    }

    /// Takes a sample into the average; when the packet found the queue empty, after what the idle time was worth.
    fn sample(&mut self, now: Time, found: &Found) {
        if found.packets == 0 {
            let passed = (self.per_second * now.since(found.idle_since).seconds()) as u64;
            self.average *= power(1.0 - self.plan.weight, passed);
        }
        self.average = (1.0 - self.plan.weight) * self.average + self.plan.weight * self.measured(found);
    }

    /// Floyd, Gummadi and Shenker, §4: additive increase, multiplicative decrease of `max_p`.
    fn adapt(&mut self, now: Time) {
        let Some(Adaptive { alpha, beta, interval, top, bottom }) = self.plan.adaptive else { return };
        if now <= self.adapted + interval {
            return;
        }
        let margin = 0.4 * (self.plan.max_threshold - self.plan.min_threshold);
        if self.average < self.plan.min_threshold + margin && self.max_probability > bottom {
            self.max_probability *= beta;
            self.adapted = now;
        } else if self.average > self.plan.max_threshold - margin && self.max_probability < top {
            self.max_probability += alpha.min(0.25 * self.max_probability);
            self.adapted = now;
        }
    }

    /// The probability by the average alone (`p_b`).
    fn probability(&self) -> f64 {
        let &Red { min_threshold, max_threshold, gentle, .. } = &self.plan;
        if self.average < max_threshold {
            return self.max_probability * (self.average - min_threshold) / (max_threshold - min_threshold);
        }
        if !gentle {
            return 1.0;
        }
        let from = if self.plan.ns2 { self.plan.max_probability } else { self.max_probability };
        (from + (1.0 - from) * (self.average - max_threshold) / max_threshold).min(1.0)
    }

    /// The probability for a packet of `bytes`, by how many have come since the last drop (`p_a`).
    fn spread(&self, probability: f64, bytes: u32) -> f64 {
        let &Red { in_bytes, mean_packet, wait, .. } = &self.plan;
        let count = if in_bytes { self.count_bytes / u64::from(mean_packet) } else { self.count };
        let expected = count as f64 * probability;
        let spread = match wait {
            true if expected < 1.0 => 0.0,
            true if expected < 2.0 => probability / (2.0 - expected),
            false if expected < 1.0 => probability / (1.0 - expected),
            _ => 1.0,
        };
        if in_bytes && spread < 1.0 {
            return (spread * f64::from(bytes) / f64::from(mean_packet)).min(1.0);
        }
        spread.min(1.0)
    }

    /// Whether what is there counts as a queue: a packet that waits alone never is one.
    fn is_queue(&self, found: &Found) -> bool {
        if self.plan.ns2 && self.plan.in_bytes { found.waiting_bytes > 1 } else { found.waiting > 1 }
    }

    /// What chance says of a packet that meets a long average.
    fn draw(&mut self, arrival: &Arrival) -> Verdict {
        let probability = self.probability();
        let spread = self.spread(probability, arrival.bytes);
        if self.stream.uniform() > spread {
            return Verdict::Admit;
        }
        self.forget();
        let may_mark = self.plan.mark_below.is_none_or(|below| probability < below);
        if self.plan.ecn && arrival.ect && may_mark {
            Verdict::Mark
        } else {
            Verdict::Refuse(Cause::EarlyDrop)
        }
    }

    /// Counts from here on.
    fn forget(&mut self) {
        (self.count, self.count_bytes) = (0, 0);
    }

    fn judge_average(&mut self, arrival: &Arrival, found: &Found) -> Verdict {
        if self.average < self.plan.min_threshold || !self.is_queue(found) {
            self.was_above = false;
            return Verdict::Admit;
        }
        let hopeless = if self.plan.gentle { 2.0 * self.plan.max_threshold } else { self.plan.max_threshold };
        if self.plan.mark_below.is_none() && self.average >= hopeless {
            self.forget();
            return Verdict::Refuse(Cause::EarlyDrop);
        }
        if !self.was_above {
            // The first above the threshold passes; from it on packets are counted.
            self.was_above = true;
            (self.count, self.count_bytes) = (1, arrival.bytes.into());
            return Verdict::Admit;
        }
        self.draw(arrival)
    }

    fn is_full(&self, arrival: &Arrival, found: &Found) -> bool {
        match self.plan.limit {
            RedLimit::Packets(limit) => found.packets >= limit,
            RedLimit::Bytes(limit) => found.bytes + u64::from(arrival.bytes) > limit,
            RedLimit::WaitingPackets(limit) => found.waiting >= limit,
            RedLimit::WaitingBytes(limit) => found.waiting_bytes >= limit,
        }
    }
}

impl Rule for Early {
    fn judge(&mut self, arrival: &Arrival, found: &Found) -> Verdict {
        self.sample(arrival.at, found);
        self.adapt(arrival.at);
        self.count += 1;
        self.count_bytes += u64::from(arrival.bytes);
        let verdict = self.judge_average(arrival, found);
        if matches!(verdict, Verdict::Refuse(_)) || !self.is_full(arrival, found) {
            return verdict;
        }
        self.forget();
        Verdict::Refuse(Cause::QueueOverflow)
    }
}

/// `base` to a whole power, by squares: the same on every machine, and quick after a long rest.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut result = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classic() -> Red {
        Red {
            in_bytes: false,
            mean_packet: 500,
            min_threshold: 5.0,
            max_threshold: 15.0,
            weight: 0.002,
            max_probability: 0.1,
            gentle: true,
            wait: true,
            ecn: false,
            mark_below: Some(0.1),
            adaptive: None,
            limit: RedLimit::Packets(50),
            rate: Rate(1_000_000),
            ns2: false,
        }
    }

    fn at_work(plan: &Red, average: f64) -> Early {
        Early { average, was_above: true, ..Early::new(plan, "test", 1) }
    }

    fn arrival(millis: u64, bytes: u32, ect: bool) -> Arrival {
        Arrival { at: Time::ZERO + Span::from_millis(millis), bytes, ect }
    }

    fn waiting(packets: u64) -> Found {
        let bytes = packets * 1000;
        Found {
            packets: packets + 1,
            bytes: bytes + 1000,
            waiting: packets,
            waiting_bytes: bytes,
            ..Found::default()
        }
    }

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() <= 1e-9 * right.abs().max(1e-9)
    }

    /// NV-1.3: the automatic values of a link of 1 Mbit/s and 1 ms, and the probability at five averages.
    #[test]
    fn automatic_values_and_the_probability() {
        let automatic = Red::automatic(Rate(1_000_000), Span::from_millis(1), 500);
        assert!((automatic.weight - 0.003_992_010_656).abs() < 5e-13, "{}", automatic.weight);
        assert_eq!((automatic.min_threshold, automatic.bottom), (5.0, 0.01));
        let fast = Red::automatic(Rate(100_000_000), Span::from_millis(20), 500);
        // 25,000 packets/s: 125 of them are 5 ms, and a window of 0.1 s has 1250 of 1000 B.
        assert_eq!((fast.min_threshold, fast.bottom), (62.5, 0.0008));
        let plan = Red { in_bytes: true, min_threshold: 2500.0, max_threshold: 7500.0, ..classic() };
        for (average, expected) in
            [(2500.0, 0.0), (5000.0, 0.05), (7500.0, 0.1), (10_000.0, 0.4), (15_000.0, 1.0)]
        {
            assert!(close(at_work(&plan, average).probability(), expected), "{average}");
        }
        let steep = Red { gentle: false, ..plan };
        assert_eq!(at_work(&steep, 7500.0).probability(), 1.0);
    }

    /// NV-1.4: the probability by the packets since the last drop.
    #[test]
    fn drops_are_spread() {
        let spread = |wait, count| {
            let red = Early { count, ..at_work(&Red { wait, ..classic() }, 10.0) };
            red.spread(0.05, 1000)
        };
        for (count, expected) in [(19, 0.0), (20, 0.05), (30, 0.1), (39, 1.0), (40, 1.0)] {
            assert!(close(spread(true, count), expected), "{count}: {}", spread(true, count));
        }
        for (count, expected) in [(1, 0.05 / 0.95), (10, 0.1), (19, 1.0), (20, 1.0)] {
            assert!(close(spread(false, count), expected), "{count}: {}", spread(false, count));
        }
    }

    /// In bytes the count is in packets of the usual size, and a packet of twice that size is twice as likely.
    #[test]
    fn sizes_count_in_bytes() {
        let plan = Red { in_bytes: true, wait: false, ..classic() };
        let red = Early { count_bytes: 5499, ..at_work(&plan, 0.0) };
        // Ten packets of 500 B: 0.05 / (1 - 0.5), twice for 1000 B, and no more than 1.
        assert!(close(red.spread(0.05, 500), 0.1) && close(red.spread(0.05, 1000), 0.2));
        assert_eq!(red.spread(0.05, 6000), 1.0);
    }

    /// Constant samples by hand: 1 - (1 - w)^n of 8; and one second of idleness at 250 packets/s.
    #[test]
    fn the_average_by_hand() {
        let mut red = Early::new(&classic(), "test", 1);
        (0..100).for_each(|_| red.sample(Time::ZERO, &waiting(8)));
        assert!(close(red.average, 1.451_465_562_5), "{}", red.average);
        let idle = Found { idle_since: Time(500_000_000), ..Found::default() };
        red.sample(Time(1_500_000_000), &idle);
        // 250 packets pass, then the sample of an empty queue: (1 - w)^251.
        assert!(close(red.average, 0.878_157_873_1), "{}", red.average);
    }

    /// The first packet above the threshold passes; the probability counts from it. An average below resets that.
    #[test]
    fn the_first_above_the_threshold_passes() {
        let plan = Red { wait: false, max_probability: 1.0, weight: 1e-12, ..classic() };
        let mut red = Early { was_above: false, ..at_work(&plan, 14.999) };
        assert_eq!(red.judge(&arrival(0, 1000, false), &waiting(10)), Verdict::Admit);
        assert_eq!((red.count, red.was_above), (1, true));
        assert_eq!(red.judge(&arrival(1, 1000, false), &waiting(10)), Verdict::Refuse(Cause::EarlyDrop));
        assert_eq!(red.count, 0);
        assert_eq!(red.judge(&arrival(2, 1000, false), &waiting(1)), Verdict::Admit, "one alone is no queue");
        assert!(!red.was_above);
    }

    /// Marks in place of drops, up to the probability that `mark_p` allows.
    #[test]
    fn marks_stand_in_for_drops_up_to_a_limit() {
        let plan = Red { ecn: true, wait: false, weight: 1e-12, ..classic() };
        let verdict = |average, ect, mark_below| {
            let mut red = Early { count: 1000, ..at_work(&Red { mark_below, ..plan.clone() }, average) };
            red.judge(&arrival(0, 1000, ect), &waiting(20))
        };
        let dropped = Verdict::Refuse(Cause::EarlyDrop);
        assert_eq!(verdict(10.0, true, Some(0.1)), Verdict::Mark);
        assert_eq!(verdict(10.0, false, Some(0.1)), dropped, "not capable");
        assert_eq!(verdict(20.0, true, Some(0.1)), dropped, "p = 0.4");
        assert_eq!(verdict(20.0, true, None), Verdict::Mark, "whatever p is");
        assert_eq!(verdict(30.1, true, None), dropped, "twice the upper threshold");
        assert_eq!(verdict(30.1, true, Some(1.1)), Verdict::Mark, "never hopeless");
    }

    /// The four ways to count a limit: ten packets of 1000 B are there, nine of them wait.
    #[test]
    fn limits_are_counted_as_asked() {
        let full = |limit| {
            let red = Early::new(&Red { limit, ..classic() }, "test", 1);
            red.is_full(&arrival(0, 1000, false), &waiting(9))
        };
        assert!(full(RedLimit::Packets(10)) && !full(RedLimit::Packets(11)));
        assert!(full(RedLimit::Bytes(10_999)) && !full(RedLimit::Bytes(11_000)));
        assert!(full(RedLimit::WaitingPackets(9)) && !full(RedLimit::WaitingPackets(10)));
        assert!(full(RedLimit::WaitingBytes(9000)) && !full(RedLimit::WaitingBytes(9001)));
    }

    /// A packet that finds no room is lost as an overflow, and the count begins anew.
    #[test]
    fn a_full_queue_overflows() {
        let mut red = Early::new(&classic(), "test", 1);
        assert_eq!(red.judge(&arrival(0, 1000, true), &waiting(50)), Verdict::Refuse(Cause::QueueOverflow));
        assert_eq!((red.count, red.count_bytes), (0, 0));
    }

    /// Adaptive RED by hand: target 9 to 11 packets; up by a quarter, by 0.01 at most, down by a tenth.
    #[test]
    fn the_probability_adapts() {
        let adaptive =
            Adaptive { alpha: 0.01, beta: 0.9, interval: Span::from_millis(500), top: 0.05, bottom: 0.02 };
        let plan = Red { adaptive: Some(adaptive), max_probability: 0.02, ..classic() };
        let mut red = at_work(&plan, 12.0);
        let mut seen = Vec::new();
        for millis in [400, 501, 900, 1002, 1503, 2004, 3000] {
            red.adapt(Time::ZERO + Span::from_millis(millis));
            seen.push((red.max_probability * 1e6).round() / 1e6);
        }
        assert_eq!(seen, [0.02, 0.025, 0.025, 0.03125, 0.039_063, 0.048_828, 0.058_828]);
        red.adapt(Time::ZERO + Span::from_millis(4000));
        assert_eq!((red.max_probability * 1e6).round() / 1e6, 0.058_828, "above the top it stays");
        red.average = 8.0;
        red.adapt(Time::ZERO + Span::from_millis(5000));
        assert_eq!((red.max_probability * 1e6).round() / 1e6, 0.052_945);
        red.average = 10.0;
        red.adapt(Time::ZERO + Span::from_millis(6000));
        assert_eq!((red.max_probability * 1e6).round() / 1e6, 0.052_945, "on target");
    }

    /// The paper's §7: at a constant average the distance of drops is uniform, here from 1 to 19 packets, and with
    /// `wait` from 20 to 39: one packet in 10 and in 29.5 is dropped.
    #[test]
    fn drops_have_their_rate() {
        for (wait, expected) in [(false, 1.0 / 10.0), (true, 1.0 / 29.5)] {
            let plan = Red { wait, weight: 1e-15, ..classic() };
            let mut red = at_work(&plan, 10.0);
            let dropped = (0..200_000)
                .filter(|&at| {
                    matches!(red.judge(&arrival(at, 1000, false), &waiting(10)), Verdict::Refuse(_))
                })
                .count();
            let rate = dropped as f64 / 200_000.0;
            assert!((rate / expected - 1.0).abs() < 0.03, "{wait}: {rate}, not {expected}");
        }
    }
}
