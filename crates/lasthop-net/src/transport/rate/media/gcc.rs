//! GCC: Google Congestion Control, as in WebRTC (draft-ietf-rmcat-gcc).
//!
//! *What it does.* Groups packets by send time, estimates the trend of the difference between the spacing of groups at
//! arrival and at departure, and compares it with an adaptive threshold. Above the threshold the rate falls to a share
//! of the arrival rate; otherwise it grows, by a share far from the rate of the last overuse and by half a packet near
//! it. A second controller uses the loss rate; the lower of the two rates is used.
//! *Reacts to* the trend of one-way delay, losses above 10 %, silence of the receiver. Marks are ignored, and ECN is
//! refused.
//! *Differs from the paper:* the trend is that of a line through 20 points, as in WebRTC today, not of a Kalman
//! filter; groups join packets that arrive in a burst, and the arrival rate is estimated as there. The loss-based
//! controller is the draft's (section 6), once per `loss_interval_s`. There are no probes and no padding, so a start
//! from a low rate is slow.
//! *Validation:* TV-36.3, which str0m 0.25 gives as well; the loss rules by hand; every case of RFC 8867; decisions
//! beside pion's on the same arrivals, `docs/reference/validation-gcc.md`: with the same gains of the threshold 232 of
//! 243 are the same.
//! *Limitations:* the newer loss-based controller (maximum likelihood) and the probing of WebRTC are left out.
//! *Kernel counterpart:* none.
//! *References:* draft-ietf-rmcat-gcc-02; Carlucci et al., "Analysis and design of the Google congestion control for
//! web real-time communication (WebRTC)", MMSys 2016.

use std::collections::VecDeque;

use lasthop_core::time::Time;

use super::{Common, Control, Fate, Report, media_params};

pub(crate) const SUMMARY: &str = "Media rate by the trend of delay, as in WebRTC (GCC, draft-ietf-rmcat-gcc)";

/// Interval of reports and share of the rate that they may take.
const DEFAULT_FEEDBACK: (f64, f64) = (0.05, 0.0);
/// Points of the trend line, gain of its smoothing, and the most deltas that count.
const POINTS: usize = 20;
const SMOOTHING: f64 = 0.9;
const MOST_DELTAS: f64 = 60.0;
const MOST_COUNTED: u32 = 1000;
/// A trend is compared after this gain.
const GAIN: f64 = 4.0;
/// Bounds of the threshold, and how far beyond it no sample adapts it, in ms.
const THRESHOLD: (f64, f64) = (6.0, 600.0);
const OUTLIER_MS: f64 = 15.0;
/// A group: packets sent within this time; a burst arrives so densely, and so long at most. In ms.
const GROUP_MS: f64 = 5.0;
const BURST_MS: f64 = 5.0;
const LONGEST_BURST_MS: f64 = 100.0;

media_params! {
    /// Threshold of the trend at the start, in ms
    threshold_ms: f64 = 12.5, 6.0..=600.0;
    /// How fast the threshold rises with a trend above it
    threshold_up: f64 = 0.0087, 0.0..=1.0;
    /// How fast the threshold falls with a trend below it
    threshold_down: f64 = 0.039, 0.0..=1.0;
    /// Shortest over-use that counts, in ms
    overuse_ms: f64 = 10.0, 0.0..=1000.0;
    /// Share of the received rate that over-use leaves
    beta: f64 = 0.85, 0.1..=1.0;
    /// Factor of a second of growth, far from the rate at which the link overflowed
    growth: f64 = 1.08, 1.0..=10.0;
    /// Maximum of the rate, relative to the received rate
    headroom: f64 = 1.5, 1.0..=100.0;
    /// Loss ratio above which the rate falls
    high_loss: f64 = 0.1, 0.0..=1.0;
    /// Loss ratio below which the rate of the loss controller grows
    low_loss: f64 = 0.02, 0.0..=1.0;
    /// Time over which losses are counted, in seconds
    loss_interval_s: f64 = 1.0, 0.01..=100.0;
    /// Pacing rate, relative to the target rate
    pacing: f64 = 1.1, 1.0..=100.0;
}

/// What the trend says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Usage {
    Normal,
    Over,
    Under,
}

/// Packets that were sent together. Times in ms.
#[derive(Clone, Copy, Debug)]
struct Group {
    first_sent: f64,
    last_sent: f64,
    first_arrival: f64,
    last_arrival: f64,
}

/// From packets to differences of the spacing of groups.
#[derive(Clone, Debug, Default)]
struct Groups {
    first_sent: Option<f64>,
    current: Option<Group>,
    before: Option<Group>,
}

impl Groups {
    /// A packet; returns differences of sending and of arrival between the two groups that it completes.
    fn add(&mut self, sent_ms: f64, arrival: f64) -> Option<(f64, f64)> {
        let sent = (sent_ms - *self.first_sent.get_or_insert(sent_ms)).round();
        let fresh =
            Group { first_sent: sent, last_sent: sent, first_arrival: arrival, last_arrival: arrival };
        let Some(group) = &mut self.current else {
            self.current = Some(fresh);
            return None;
        };
        if sent < group.first_sent {
            return None;
        }
        let (gap, arrival_gap) = (sent - group.last_sent, arrival - group.last_arrival);
        let is_burst =
            arrival_gap < gap && arrival_gap <= BURST_MS && arrival - group.first_arrival < LONGEST_BURST_MS;
        if sent - group.first_sent <= GROUP_MS && gap < GROUP_MS || is_burst {
            group.last_sent = group.last_sent.max(sent);
            group.last_arrival = group.last_arrival.max(arrival);
            return None;
        }
        let done = *group;
        self.current = Some(fresh);
        let before = self.before.replace(done)?;
        Some((done.last_sent - before.last_sent, done.last_arrival - before.last_arrival))
    }
}

/// The trend of delay and its threshold (draft section 5.3 and 5.4, with a line for the filter). Times in ms.
#[derive(Clone, Debug)]
struct Trend {
    start: Option<f64>,
    sum: f64,
    smooth: f64,
    points: VecDeque<(f64, f64)>,
    deltas: u32,
    slope: f64,
    threshold: f64,
    adapted: Option<f64>,
    over_time: Option<f64>,
    over_count: u32,
}

impl Trend {
    fn new(threshold: f64) -> Trend {
        Trend {
            start: None,
            sum: 0.0,
            smooth: 0.0,
            points: VecDeque::with_capacity(POINTS),
            deltas: 0,
            slope: 0.0,
            threshold,
            adapted: None,
            over_time: None,
            over_count: 0,
        }
    }

    /// Slope of the line through the points by least squares.
    fn fit(&self) -> Option<f64> {
        let count = self.points.len() as f64;
        let (x, y) = self.points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0, y + point.1));
        let (x, y) = (x / count, y / count);
        let (above, below) = self.points.iter().fold((0.0, 0.0), |(above, below), point| {
            (above + (point.0 - x) * (point.1 - y), below + (point.0 - x).powi(2))
        });
        (below > 0.0).then(|| above / below)
    }

    /// Groups `sent` and `arrived` apart, the later of which arrived at `arrival`.
    fn add(&mut self, params: &Params, (sent, arrived): (f64, f64), arrival: f64) -> Option<Usage> {
        let start = *self.start.get_or_insert(arrival);
        self.deltas = (self.deltas + 1).min(MOST_COUNTED);
        self.sum += arrived - sent;
        self.smooth = SMOOTHING * self.smooth + (1.0 - SMOOTHING) * self.sum;
        if self.points.len() == POINTS {
            self.points.pop_front();
        }
        self.points.push_back((arrival - start, self.smooth));
        if self.points.len() < POINTS {
            return None;
        }
        let slope = self.fit().unwrap_or(self.slope);
        let trend = f64::from(self.deltas).min(MOST_DELTAS) * slope * GAIN;
        let usage = self.judge(params, trend, slope, sent);
        self.slope = slope;
        self.adapt(params, trend, arrival);
        Some(usage)
    }

    fn judge(&mut self, params: &Params, trend: f64, slope: f64, sent: f64) -> Usage {
        if trend > self.threshold {
            let time = self.over_time.map_or(sent / 2.0, |time| time + sent);
            self.over_time = Some(time);
            self.over_count += 1;
            if time > params.overuse_ms && self.over_count > 1 && slope >= self.slope {
                (self.over_time, self.over_count) = (Some(0.0), 0);
                return Usage::Over;
            }
            return Usage::Normal;
        }
        (self.over_time, self.over_count) = (None, 0);
        if trend < -self.threshold { Usage::Under } else { Usage::Normal }
    }

    fn adapt(&mut self, params: &Params, trend: f64, arrival: f64) {
        // In whole ms, as WebRTC counts them.
        let elapsed = (arrival - self.adapted.unwrap_or(arrival)).floor().clamp(0.0, 100.0);
        self.adapted = Some(arrival);
        let distance = trend.abs() - self.threshold;
        if distance > OUTLIER_MS {
            return;
        }
        let gain = if distance < 0.0 { params.threshold_down } else { params.threshold_up };
        self.threshold = (self.threshold + gain * distance * elapsed).clamp(THRESHOLD.0, THRESHOLD.1);
    }
}

/// The rate that arrives, as WebRTC estimates it. Bit/s.
#[derive(Clone, Debug, Default)]
struct Received {
    window: Option<(Time, u64)>,
    estimate: Option<f64>,
    variance: f64,
}

impl Received {
    /// Least estimate.
    const FLOOR: f64 = 40_000.0;

    fn add(&mut self, bytes: u32, at: Time) {
        let (start, sum) = self.window.get_or_insert((at, 0));
        let length = if self.estimate.is_some() { 0.150 } else { 0.500 };
        let elapsed = at.since(at.min(*start)).seconds();
        if elapsed < length {
            *sum += u64::from(bytes);
            return;
        }
        let sample = *sum as f64 * 8.0 / elapsed;
        self.window = Some((at, u64::from(bytes)));
        let Some(estimate) = self.estimate else {
            (self.estimate, self.variance) = (Some(sample.max(Received::FLOOR)), 50.0);
            return;
        };
        // In kbit/s; a sample that is far away is trusted less.
        let (old, new) = (estimate / 1e3, sample / 1e3);
        let doubt = (10.0 * (old - new).abs() / (old + new.min(25.0))).powi(2);
        let predicted = self.variance + 5.0;
        let mixed = (doubt * old + predicted * new) / (doubt + predicted);
        self.variance = doubt * predicted / (doubt + predicted);
        self.estimate = Some((mixed * 1e3).max(Received::FLOOR));
    }
}

/// The rate at which the link overflowed, in kbit/s (draft section 5.5).
#[derive(Clone, Copy, Debug)]
struct Capacity {
    mean: Option<f64>,
    /// Variance over the mean.
    deviation: f64,
}

impl Capacity {
    fn add(&mut self, kbit: f64) {
        let mean = self.mean.map_or(kbit, |mean| 0.95 * mean + 0.05 * kbit);
        let error = kbit - mean;
        self.deviation = (0.95 * self.deviation + 0.05 * error * error / mean.max(1.0)).clamp(0.4, 2.5);
        self.mean = Some(mean);
    }

    /// Lower and upper end of what is near.
    fn near(&self) -> Option<(f64, f64)> {
        let mean = self.mean?;
        let reach = 3.0 * (self.deviation * mean).sqrt();
        Some((mean - reach, mean + reach))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Hold,
    Increase,
}

/// The sender.
#[derive(Clone, Debug)]
pub(in super::super) struct Sender {
    params: Params,
    common: Common,
    groups: Groups,
    trend: Trend,
    received: Received,
    capacity: Capacity,
    state: State,
    /// Estimates of the controllers of delay and of losses, in bit/s.
    by_delay: f64,
    by_loss: f64,
    updated: Option<Time>,
    decreased: Option<Time>,
    /// Since when losses are counted; packets and how many of them were lost.
    counted: (Option<Time>, u64, u64),
}

impl Sender {
    pub(super) fn new(params: &Params) -> Sender {
        let common = params.common();
        Sender {
            params: params.clone(),
            common,
            groups: Groups::default(),
            trend: Trend::new(params.threshold_ms),
            received: Received::default(),
            capacity: Capacity { mean: None, deviation: 0.4 },
            state: State::Increase,
            by_delay: common.bounded(common.start_rate),
            by_loss: f64::INFINITY,
            updated: None,
            decreased: None,
            counted: (None, 0, 0),
        }
    }

    /// The controller of delay (draft section 5.5).
    fn follow(&mut self, usage: Usage, now: Time, rtt_s: f64) {
        let elapsed = self.updated.map_or(0.0, |updated| now.since(updated).seconds());
        self.updated = Some(now);
        match usage {
            Usage::Over => return self.decrease(now, rtt_s),
            Usage::Under => {
                self.state = State::Hold;
                return;
            }
            Usage::Normal if self.state == State::Hold => {
                self.state = State::Increase;
                return;
            }
            Usage::Normal => {}
        }
        let received = self.received.estimate;
        if let (Some(received), Some((_, high))) = (received, self.capacity.near())
            && received / 1e3 > high
        {
            self.capacity.mean = None;
        }
        let grown = if self.capacity.mean.is_some() {
            self.by_delay + self.half_packet(elapsed, rtt_s)
        } else {
            let factor = self.params.growth.powf(elapsed.min(1.0));
            self.by_delay + ((factor - 1.0) * self.by_delay).max(1000.0)
        };
        let most = received.map_or(grown, |received| self.params.headroom * received + 10_000.0);
        self.by_delay = self.common.bounded(grown.min(most.max(self.by_delay)));
    }

    /// What is added near convergence: half a packet per response time (draft section 5.5).
    fn half_packet(&self, elapsed: f64, rtt_s: f64) -> f64 {
        let bits_per_frame = self.by_delay / 30.0;
        let packet_bits = bits_per_frame / (bits_per_frame / (1200.0 * 8.0)).ceil().max(1.0);
        let share = 0.5 * (elapsed / (rtt_s + 0.1)).min(1.0);
        (share * packet_bits).max(1000.0)
    }

    fn decrease(&mut self, now: Time, rtt_s: f64) {
        let received = self.received.estimate.unwrap_or(self.by_delay);
        let rests = |last: Time| now.since(last).seconds() < rtt_s.clamp(0.010, 0.200);
        if self.decreased.is_some_and(rests) && received >= 0.5 * self.by_delay {
            return;
        }
        self.decreased = Some(now);
        self.state = State::Hold;
        self.by_delay = self.common.bounded((self.params.beta * received).min(self.by_delay));
        if self.capacity.near().is_some_and(|(low, _)| received / 1e3 < low) {
            self.capacity.mean = None;
        }
        self.capacity.add(received / 1e3);
    }

    /// The controller of losses (draft section 6).
    fn count(&mut self, report: &Report<'_>) {
        let (since, packets, lost) = &mut self.counted;
        let start = *since.get_or_insert(report.now);
        *packets += report.outcomes.len() as u64;
        *lost += report.outcomes.iter().filter(|outcome| outcome.fate == Fate::Lost).count() as u64;
        if report.now.since(start).seconds() < self.params.loss_interval_s || *packets == 0 {
            return;
        }
        let ratio = *lost as f64 / *packets as f64;
        self.counted = (Some(report.now), 0, 0);
        if ratio > self.params.high_loss {
            self.by_loss = self.common.bounded(self.target() * (1.0 - 0.5 * ratio));
        } else if ratio < self.params.low_loss {
            self.by_loss *= 1.05;
        }
    }
}

impl Control for Sender {
    fn on_report(&mut self, report: &Report<'_>) {
        let mut usage = None;
        for outcome in report.outcomes {
            let Fate::Arrived { at, .. } = outcome.fate else { continue };
            self.received.add(outcome.bytes, at);
            let (sent, arrival) = (outcome.sent.0 as f64 / 1e6, at.0 as f64 / 1e6);
            let Some(apart) = self.groups.add(sent, arrival) else { continue };
            // The packet begins the next group; the one that it ends arrived with the last of its packets.
            let ended = self.groups.before.map_or(arrival, |group| group.last_arrival);
            let found = self.trend.add(&self.params, apart, ended);
            // Over-use within a report is not forgotten by what follows in it.
            if usage != Some(Usage::Over) {
                usage = found.or(usage);
            }
        }
        self.follow(usage.unwrap_or(Usage::Normal), report.now, report.rtt_s);
        self.count(report);
    }

    fn on_silence(&mut self, _: Time) -> bool {
        let before = self.by_delay;
        self.by_delay = self.common.bounded(self.by_delay / 2.0);
        self.by_delay < before
    }

    fn target(&self) -> f64 {
        self.common.bounded(self.by_delay.min(self.by_loss))
    }

    fn pacing(&self, _: u64) -> f64 {
        self.params.pacing * self.target()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;
    use lasthop_core::time::Span;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    /// TV-36.3: groups every 5 ms that arrive every 5.5 ms, in whole ms for the threshold.
    #[test]
    fn a_trend_of_known_groups() {
        let params = Params::default();
        let mut trend = Trend::new(params.threshold_ms);
        let mut over = Vec::new();
        for n in 1..=30 {
            let before = trend.threshold;
            let usage = trend.add(&params, (5.0, 5.5), f64::from(n) * 5.5);
            let m = f64::from(n).min(60.0) * trend.slope * 4.0;
            let close = |found: f64, expected: f64| {
                assert!((found - expected).abs() < 2e-5 * expected, "{n}: {found}");
            };
            match n {
                20 => {
                    close(trend.slope, 0.059_120_9);
                    close(m, 4.729_68);
                    close(before, 12.5);
                }
                25 => {
                    close(m, 7.213_85);
                    close(before, 8.795_74);
                }
                30 => {
                    close(m, 9.579_03);
                    close(before, 8.352_49);
                }
                _ => {}
            }
            if usage == Some(Usage::Over) {
                over.push(n);
            }
        }
        assert_eq!(over, [30]);
    }

    #[test]
    fn groups_are_five_milliseconds_or_a_burst() {
        let mut groups = Groups::default();
        assert_eq!(groups.add(0.0, 50.0), None);
        assert_eq!(groups.add(4.0, 55.0), None, "one group");
        assert_eq!(groups.add(20.0, 90.0), None, "the first group has none before it");
        // Sent 20 ms later, it arrives 1 ms behind: a burst.
        assert_eq!(groups.add(40.0, 91.0), None);
        assert_eq!(groups.add(60.0, 120.0), Some((36.0, 36.0)));
        assert_eq!(groups.add(30.0, 121.0), None, "out of order");
    }

    #[test]
    fn over_use_takes_a_share_of_what_arrives_once_per_round_trip() {
        let mut sender = Sender::new(&Params { start_rate: 1e6, ..Params::default() });
        sender.received.estimate = Some(800_000.0);
        sender.follow(Usage::Over, at(1000), 0.1);
        assert_eq!(sender.by_delay, 680_000.0);
        sender.received.estimate = Some(700_000.0);
        sender.follow(Usage::Over, at(1050), 0.1);
        assert_eq!(sender.by_delay, 680_000.0);
        sender.follow(Usage::Normal, at(1100), 0.1);
        assert_eq!((sender.by_delay, sender.state), (680_000.0, State::Increase), "it holds once");
        // Near convergence: 680000/30 bits in 3 packets, 50 ms of 200 ms.
        sender.follow(Usage::Normal, at(1150), 0.1);
        let expected = 680_000.0 + (0.5 * 0.25 * 680_000.0 / 30.0 / 3.0_f64).max(1000.0);
        assert!((sender.by_delay - expected).abs() < 1e-6);
    }

    #[test]
    fn far_from_it_a_second_grows_by_8_percent_within_what_arrives() {
        let mut sender = Sender::new(&Params { start_rate: 500_000.0, ..Params::default() });
        sender.follow(Usage::Normal, at(0), 0.1);
        sender.by_delay = 500_000.0;
        sender.follow(Usage::Normal, at(1000), 0.1);
        assert!((sender.by_delay - 540_000.0).abs() < 1e-6);
        sender.received.estimate = Some(300_000.0);
        sender.follow(Usage::Normal, at(2000), 0.1);
        assert!(
            (sender.by_delay - 540_000.0).abs() < 1e-6,
            "460 kbit/s are the most, and it keeps what it has"
        );
    }

    /// 20 % lost leave 90 % of the rate; below 2 % five percent come back.
    #[test]
    fn many_losses_lower_the_rate() {
        let mut sender = Sender::new(&Params { start_rate: 1e6, ..Params::default() });
        let outcome = |number: u64| {
            let fate =
                if number % 5 == 4 { Fate::Lost } else { Fate::Arrived { at: at(number), marked: false } };
            Outcome { number, sent: at(number), bytes: 1240, fate }
        };
        let outcomes: Vec<_> = (0..10).map(outcome).collect();
        let report = |now, outcomes| Report { now: at(now), rtt_s: 0.1, outcomes, flight: (0, 0) };
        sender.count(&report(0, &outcomes));
        sender.count(&report(1000, &outcomes));
        assert!((sender.target() - 900_000.0).abs() < 1e-6);
        sender.count(&report(2000, &outcomes[..4]));
        assert!((sender.target() - 945_000.0).abs() < 1e-6);
    }

    #[test]
    fn the_received_rate_follows_what_arrives() {
        let mut received = Received::default();
        (0..1000).for_each(|number| received.add(1250, at(10 * number)));
        assert!((received.estimate.unwrap() - 1e6).abs() < 3e4, "{:?}", received.estimate);
    }
}
