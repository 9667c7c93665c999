//! The loss-interval history of TFRC: which packets are lost, which losses make a new loss event, and the loss event
//! rate (RFC 5348 §5), with the variants of RFC 4828 (short intervals) and Widmer (packets of different sizes).
//!
//! `tfrc_receiver.rs` feeds it with arrivals; it has no clock of its own.

use std::collections::VecDeque;

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

/// Most completed intervals that are kept.
const MOST_INTERVALS: usize = 32;

/// What the length of an interval counts.
#[derive(Clone, Debug)]
pub(super) enum Unit {
    /// Packets (RFC 5348).
    Packets,
    /// Virtual packets of this many bytes, in the order of the bytes; one is lost if any byte of it is.
    Virtual(u64),
    /// Packets, each counted with the probability size / nominal size.
    Sampled(u64, Box<Stream>),
}

/// How the rate is computed.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    /// Later packets that mean a loss (NDUPACK).
    pub(super) loss_packets: u32,
    /// Completed intervals that count (n of RFC 5348 §5.4).
    pub(super) intervals: usize,
    /// Least discount factor; 1 for no discounting.
    pub(super) discount_floor: f64,
    /// Every loss of an interval of at most two RTTs counts, and the open interval only when it is longer (RFC 4828).
    pub(super) short_intervals: bool,
    /// What is counted.
    pub(super) unit: Unit,
}

/// The last packet in order, as far as is known.
#[derive(Clone, Copy, Debug)]
struct Highest {
    number: u64,
    /// One past its last byte.
    end: u64,
    arrived: Time,
    position: u64,
}

/// A packet that has not arrived although later ones have.
#[derive(Clone, Copy, Debug)]
struct Missing {
    number: u64,
    /// When it would have arrived (RFC 5348 §5.2).
    time: Time,
    position: u64,
    /// Whether its loss counts; not so for packets that were not sampled.
    counts: bool,
    /// Packets with a higher number that have arrived.
    later: u32,
}

/// A completed loss interval.
#[derive(Clone, Copy, Debug, Default)]
struct Interval {
    length: f64,
    /// `DF_i` of RFC 5348 §5.5.
    discount: f64,
}

/// The newest loss event, which opened the current interval.
#[derive(Clone, Copy, Debug)]
struct Event {
    position: u64,
    time: Time,
    /// Losses since, the first included.
    losses: u64,
}

/// What an arrival brought to light.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// The packet was not here before.
    pub(super) fresh: bool,
    /// At least one new loss event began.
    pub(super) new_event: bool,
}

/// The history of one receiver.
#[derive(Clone, Debug)]
pub(super) struct LossHistory {
    rules: Rules,
    highest: Option<Highest>,
    missing: VecDeque<Missing>,
    event: Option<Event>,
    intervals: [Interval; MOST_INTERVALS],
    completed: usize,
    /// Discount factor of the open interval.
    discount: f64,
}

impl LossHistory {
    pub(super) fn new(mut rules: Rules) -> LossHistory {
        rules.intervals = rules.intervals.clamp(1, MOST_INTERVALS);
        LossHistory {
            rules,
            highest: None,
            missing: VecDeque::new(),
            event: None,
            intervals: [Interval::default(); MOST_INTERVALS],
            completed: 0,
            discount: 1.0,
        }
    }

    /// Packet `number` with the bytes `[start, end)` arrives; `marked` by a router. `first_interval` gives the length
    /// of the interval before the first loss event (RFC 5348 §6.3.1).
    pub(super) fn arrive(
        &mut self,
        number: u64,
        (start, end): (u64, u64),
        marked: bool,
        now: Time,
        rtt: Span,
        first_interval: impl Fn() -> f64,
    ) -> Outcome {
        let Some(highest) = self.highest else {
            let position = self.position_of(start, end, 0);
            self.highest = Some(Highest { number, end, arrived: now, position });
            let new_event = marked && self.lose(position, now, rtt, &first_interval);
            return Outcome { fresh: true, new_event };
        };
        if number <= highest.number {
            let found = self.missing.iter().position(|missing| missing.number == number);
            let Some(index) = found else { return Outcome::default() };
            // Late, but not lost.
            let missing = self.missing.remove(index);
            self.count_later(number);
            let new_event = match missing {
                Some(missing) if marked => self.lose(missing.position, now, rtt, &first_interval),
                _ => false,
            };
            return Outcome { fresh: true, new_event: self.declare(rtt, &first_interval) || new_event };
        }
        let mut before = highest.position;
        let gap = number - highest.number - 1;
        let bytes = start.saturating_sub(highest.end);
        for step in 0..gap {
            let from = highest.end + bytes * step / gap;
            let to = highest.end + bytes * (step + 1) / gap;
            let position = self.position_of(from, to, before);
            let counts = !matches!(self.rules.unit, Unit::Sampled(..)) || position > before;
            let elapsed = now.since(highest.arrived).0 as f64;
            let share = (step + 1) as f64 / (gap + 1) as f64;
            let time = highest.arrived + Span((elapsed * share) as u64);
            self.missing.push_back(Missing {
                number: highest.number + 1 + step,
                time,
                position,
                counts,
                later: 0,
            });
            before = position;
        }
        let position = self.position_of(start, end, before);
        self.highest = Some(Highest { number, end, arrived: now, position });
        self.count_later(number);
        let declared = self.declare(rtt, &first_interval);
        let new_event = marked && self.lose(position, now, rtt, &first_interval);
        Outcome { fresh: true, new_event: declared || new_event }
    }

    /// The position of the bytes `[start, end)` in the unit of intervals, behind a packet at `before`.
    fn position_of(&mut self, start: u64, end: u64, before: u64) -> u64 {
        match &mut self.rules.unit {
            Unit::Packets => before + 1,
            Unit::Virtual(size) => start / *size,
            Unit::Sampled(size, stream) => {
                let share = (end - start) as f64 / *size as f64;
                before + u64::from(stream.uniform() < share)
            }
        }
    }

    fn count_later(&mut self, number: u64) {
        for missing in self.missing.iter_mut().take_while(|missing| missing.number < number) {
            missing.later += 1;
        }
    }

    /// Gives up what is missing behind enough later packets.
    fn declare(&mut self, rtt: Span, first_interval: &impl Fn() -> f64) -> bool {
        let mut new_event = false;
        while let Some(missing) =
            self.missing.front().copied().filter(|missing| missing.later >= self.rules.loss_packets)
        {
            self.missing.pop_front();
            if missing.counts {
                new_event |= self.lose(missing.position, missing.time, rtt, first_interval);
            }
        }
        new_event
    }

    /// A packet was lost or marked; whether that is a new loss event.
    fn lose(&mut self, position: u64, time: Time, rtt: Span, first_interval: &impl Fn() -> f64) -> bool {
        let length = match &mut self.event {
            None => first_interval(),
            Some(event) => {
                let same = time <= event.time + rtt || position <= event.position;
                if same {
                    event.losses += 1;
                    return false;
                }
                let length = (position - event.position) as f64;
                let short = self.rules.short_intervals && time.since(event.time) <= rtt * 2;
                if short { length / event.losses as f64 } else { length }
            }
        };
        self.update_discount(
            position.saturating_sub(self.event.map_or(position, |event| event.position)) as f64
        );
        let keep = (self.completed + 1).min(self.rules.intervals);
        for index in (1..keep).rev() {
            self.intervals[index] = self.intervals[index - 1];
            self.intervals[index].discount *= self.discount;
        }
        self.intervals[0] = Interval { length: length.max(1.0), discount: 1.0 };
        self.completed = keep;
        self.discount = 1.0;
        self.event = Some(Event { position, time, losses: 1 });
        true
    }

    /// `w_i` of RFC 5348 §5.4.
    fn weight(&self, index: usize) -> f64 {
        let count = self.rules.intervals as f64;
        let index = index as f64;
        if index < count / 2.0 { 1.0 } else { 2.0 * (count - index) / (count + 2.0) }
    }

    /// Sum of the completed intervals with their weights, and of the weights.
    fn completed_sum(&self) -> (f64, f64) {
        let mut total = 0.0;
        let mut weights = 0.0;
        for (index, interval) in self.intervals[..self.completed].iter().enumerate() {
            let weight = self.weight(index) * interval.discount;
            total += interval.length * weight;
            weights += weight;
        }
        (total, weights)
    }

    /// RFC 5348 §5.5: a long interval without losses makes the older ones count less.
    fn update_discount(&mut self, open: f64) {
        if self.completed == 0 || self.rules.discount_floor >= 1.0 {
            return;
        }
        let (total, weights) = self.completed_sum();
        let mean = total / weights;
        self.discount =
            if open > 2.0 * mean { (2.0 * mean / open).max(self.rules.discount_floor) } else { 1.0 };
    }

    /// The loss event rate at `now`; 0 before the first loss.
    pub(super) fn loss_event_rate(&mut self, now: Time, rtt: Span) -> f64 {
        let (Some(event), Some(highest)) = (self.event, self.highest) else { return 0.0 };
        let open = (highest.position.saturating_sub(event.position) + 1) as f64;
        self.update_discount(open);
        let (closed_total, closed_weights) = self.completed_sum();
        let closed = closed_total / closed_weights;
        if self.rules.short_intervals && now.since(event.time) <= rtt * 2 {
            return 1.0 / closed;
        }
        let mut total = open * self.weight(0);
        let mut weights = self.weight(0);
        for (index, interval) in self.intervals[..self.completed.saturating_sub(1)].iter().enumerate() {
            let weight = self.weight(index + 1) * interval.discount * self.discount;
            total += interval.length * weight;
            weights += weight;
        }
        1.0 / (total / weights).max(closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(discount_floor: f64) -> Rules {
        Rules { loss_packets: 3, intervals: 8, discount_floor, short_intervals: false, unit: Unit::Packets }
    }

    /// A history with these intervals, the open one first.
    fn with_intervals(open: u64, closed: &[f64], discount_floor: f64) -> LossHistory {
        let mut history = LossHistory::new(rules(discount_floor));
        for (index, &length) in closed.iter().enumerate() {
            history.intervals[index] = Interval { length, discount: 1.0 };
        }
        history.completed = closed.len();
        history.event = Some(Event { position: 1, time: Time::ZERO, losses: 1 });
        history.highest = Some(Highest { number: open, end: 0, arrived: Time::ZERO, position: open });
        history
    }

    fn rate(open: u64, closed: &[f64], discount_floor: f64) -> f64 {
        with_intervals(open, closed, discount_floor).loss_event_rate(Time::MAX, Span::ZERO)
    }

    fn close(value: f64, expected: f64, digits: i32) {
        assert!((value - expected).abs() <= 0.500_001 * 10f64.powi(-digits), "{value} is not {expected}");
    }

    /// TV-9.3.
    #[test]
    fn loss_event_rates_of_known_intervals() {
        let hundreds = [100.0; 8];
        close(rate(50, &hundreds, 0.25), 0.01, 9);
        close(rate(250, &hundreds, 1.0), 0.008, 9);
        close(rate(250, &hundreds, 0.25), 0.007_692_31, 8);
        close(rate(1000, &hundreds, 0.25), 0.002, 9);
        close(rate(1000, &hundreds, 0.5), 0.0028, 9);
        close(rate(10, &[20.0, 200.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0], 1.0), 0.014_634_1, 7);
    }

    /// Feeds packets of 1000 B, one per millisecond, but for the `lost` ones; the RTT is 20 ms.
    fn feed(history: &mut LossHistory, numbers: std::ops::Range<u64>, lost: &[u64]) -> Vec<u64> {
        let mut events = Vec::new();
        for number in numbers.filter(|number| !lost.contains(number)) {
            let now = Time::ZERO + Span::from_millis(number);
            let bytes = (number * 1000, number * 1000 + 1000);
            if history.arrive(number, bytes, false, now, Span::from_millis(20), || 50.0).new_event {
                events.push(number);
            }
        }
        events
    }

    #[test]
    fn a_loss_is_declared_by_the_third_later_packet() {
        let mut history = LossHistory::new(rules(1.0));
        assert_eq!(feed(&mut history, 0..200, &[100]), [103]);
        // The open interval: packets 100 to 199.
        close(history.loss_event_rate(Time::MAX, Span::ZERO), 1.0 / 100.0, 9);
    }

    #[test]
    fn losses_within_an_rtt_are_one_event() {
        let mut history = LossHistory::new(rules(1.0));
        assert_eq!(feed(&mut history, 0..300, &[100, 105, 119, 121, 200]), [103, 124, 203]);
        assert_eq!([0, 1, 2].map(|index| history.intervals[index].length), [79.0, 21.0, 50.0]);
    }

    #[test]
    fn a_late_packet_is_not_lost() {
        let mut history = LossHistory::new(rules(1.0));
        let mut arrive = |number: u64, at: u64| {
            let bytes = (number * 1000, number * 1000 + 1000);
            history.arrive(number, bytes, false, Time(at), Span(10), || 50.0)
        };
        let fresh = Outcome { fresh: true, new_event: false };
        for (number, at) in [(0, 0), (2, 2), (3, 3), (1, 4), (4, 5), (5, 6)] {
            assert_eq!(arrive(number, at), fresh, "{number}");
        }
        assert_eq!(arrive(3, 7), Outcome::default(), "a duplicate");
    }

    #[test]
    fn a_mark_is_a_loss_at_its_arrival() {
        let mut history = LossHistory::new(rules(1.0));
        feed(&mut history, 0..50, &[]);
        let now = Time::ZERO + Span::from_millis(50);
        let outcome = history.arrive(50, (50_000, 51_000), true, now, Span::from_millis(20), || 40.0);
        assert_eq!(outcome, Outcome { fresh: true, new_event: true });
        close(history.loss_event_rate(Time::MAX, Span::ZERO), 1.0 / 40.0, 9);
    }

    /// An outage longer than an RTT is more than one event: the times of the losses are interpolated.
    #[test]
    fn an_outage_is_an_event_per_rtt() {
        let mut history = LossHistory::new(rules(1.0));
        let lost: Vec<u64> = (100..150).collect();
        assert_eq!(feed(&mut history, 0..200, &lost), [152]);
        assert_eq!([0, 1, 2].map(|index| history.intervals[index].length), [21.0, 21.0, 50.0]);
    }

    /// RFC 4828 §3: a short interval counts every loss, and the open one must be older than two RTTs.
    #[test]
    fn short_intervals_count_every_loss() {
        let mut history = LossHistory::new(Rules { short_intervals: true, ..rules(1.0) });
        feed(&mut history, 0..133, &[100, 104, 108, 130]);
        // 30 packets with 3 losses in 30 ms, less than two RTTs of 20 ms.
        assert_eq!([0, 1].map(|index| history.intervals[index].length), [50.0, 0.0]);
        feed(&mut history, 133..300, &[]);
        assert_eq!([0, 1].map(|index| history.intervals[index].length), [10.0, 50.0]);
        let now = Time::ZERO + Span::from_millis(150);
        close(history.loss_event_rate(now, Span::from_millis(20)), 1.0 / 30.0, 9);
        let later = Time::ZERO + Span::from_millis(299);
        assert!(history.loss_event_rate(later, Span::from_millis(20)) < 1.0 / 60.0);
    }

    /// Packets of 250 B against virtual packets of 1000 B: intervals are a quarter as long.
    #[test]
    fn virtual_packets_collect_small_ones() {
        let mut history = LossHistory::new(Rules { unit: Unit::Virtual(1000), ..rules(1.0) });
        for number in (0..900u64).filter(|number| ![400, 403, 800].contains(number)) {
            let now = Time::ZERO + Span::from_millis(number);
            history.arrive(number, (number * 250, number * 250 + 250), false, now, Span(1), || 50.0);
        }
        assert_eq!(
            [0, 1].map(|index| history.intervals[index].length),
            [100.0, 50.0],
            "packets 400 and 403 are parts of one virtual packet"
        );
    }

    #[test]
    fn sampled_packets_are_a_share_of_all() {
        let unit = Unit::Sampled(1000, Box::new(Stream::new(1, "sampling")));
        let mut history = LossHistory::new(Rules { unit, ..rules(1.0) });
        for number in (0..40_000u64).filter(|number| number % 100 != 50) {
            let now = Time::ZERO + Span::from_millis(number);
            history.arrive(number, (number * 250, number * 250 + 250), false, now, Span(1), || 50.0);
        }
        let kept = &history.intervals[..8];
        let mean = kept.iter().map(|interval| interval.length).sum::<f64>() / 8.0;
        // A quarter of the packets counts, and a quarter of the losses: the interval stays at 100 packets.
        assert!((40.0..250.0).contains(&mean), "{mean}");
    }
}
