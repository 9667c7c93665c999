//! TFRC: TCP-friendly rate control (Floyd, Handley, Padhye & Widmer, SIGCOMM 2000; RFC 5348).
//!
//! *What it does.* The receiver measures the rate of loss *events*, losses within one round trip counting as one, as a
//! weighted mean over the last eight intervals between them, and reports it once per round trip. The sender uses the
//! rate of a TCP at that loss event rate and round-trip time, and spaces its packets evenly. It responds to congestion
//! in about five round trips instead of one and grows by at most 0.14 packets per round trip, so its rate is smooth.
//! With history discounting the paper bounds the growth by 0.28; while discounting begins it is 0.31 here with the
//! discount floor 0.5, and 0.48 with that of RFC 5348. Before the first loss the rate doubles per round trip.
//! *Reacts to* loss and ECN marks (through the receiver's reports), RTT, silence of the receiver.
//! *Differs from the paper:* RFC 5348 where it revises the paper. A packet that arrives after it was declared lost
//! stays lost. `s` is a running mean of the payloads. The `ns2` profile uses the state machine of `tfrc_ns2.rs`.
//! *Validation:* TV-9.1 to TV-9.4; its increase bound, its halving and its share beside SACK TCP are tested; in the
//! `ns2` profile packets leave at the same microseconds as those of ns-2's `Agent/TFRC`, through losses of packets and
//! reports, up to the ties that `tests/differential/test_tfrc.py` names; with random losses on a dumbbell the goodput
//! of ten runs agrees within 0.1 %.
//! *Limitations:* no persistent congestion control of faulty paths (RFC 8085); one receiver.
//! *Kernel counterpart:* CCID 3 of `net/dccp` (until 2025).
//! *References:* RFC 5348; RFC 4828; Floyd et al., SIGCOMM 2000.

use lasthop_cc::model::{self, Path};
use lasthop_cc::params::params;
use lasthop_core::time::{Span, Time};

pub(crate) const SUMMARY: &str = "The rate that TCP would get at the measured loss event rate (RFC 5348)";

/// Declares the parameters that all kinds of TFRC share, and those that only one has.
macro_rules! tfrc_params {
    ($($own:tt)*) => {
        params! {
            /// Correct the spacing of packets by the change of the RTT (RFC 5348 section 4.5)
            oscillation_control: bool = false, 0.0..=1.0;
            /// Minimum weight of old intervals after a long time without loss; 1 turns history discounting off
            discount_floor: f64 = 0.25, 0.01..=1.0;
            /// Later packets that mean a loss
            loss_packets: f64 = 3.0, 1.0..=100.0;
            /// Loss intervals that are averaged
            intervals: f64 = 8.0, 2.0..=30.0;
            /// Gain of the RTT filter
            rtt_gain: f64 = 0.1, 0.001..=1.0;
            /// Interval of reports, in RTTs
            feedback_rtts: f64 = 1.0, 0.1..=100.0;
            /// Minimum rate, as the number of seconds between two packets
            slowest_s: f64 = 64.0, 1.0..=1000.0;
            /// In the ns2 profile: a loss event needs a new report since the last one
            round_ids: bool = true, 0.0..=1.0;
            /// In the ns2 profile: one loss interval more, with a lower weight
            smooth: bool = true, 0.0..=1.0;
            /// In the ns2 profile: rate before the first report, in bytes per second
            initial_rate: f64 = 300.0, 1.0..=1e9;
            $($own)*
        }

        impl Params {
            /// What all kinds of TFRC share.
            pub(super) fn common(&self) -> $crate::transport::rate::tfrc::Common {
                $crate::transport::rate::tfrc::Common {
                    oscillation_control: self.oscillation_control,
                    discount_floor: self.discount_floor,
                    loss_packets: self.loss_packets as u32,
                    intervals: self.intervals as usize,
                    rtt_gain: self.rtt_gain,
                    feedback_rtts: self.feedback_rtts,
                    slowest_s: self.slowest_s,
                    round_ids: self.round_ids,
                    smooth: self.smooth,
                    initial_rate: self.initial_rate,
                }
            }
        }
    };
}
pub(super) use tfrc_params;

tfrc_params! {}

/// Where ns-2 has other values: the parameters of the `ns2` profile.
pub(super) const NS2_DEFAULTS: &[(&str, f64)] = &[
    ("oscillation_control", 1.0),
    ("discount_floor", 0.5),
    ("loss_packets", 1.0),
    ("rtt_gain", 0.05),
    ("feedback_rtts", 1.5),
    // Of TFRC-SP.
    ("header", 32.0),
];

/// Parameters that all kinds of TFRC share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Common {
    pub(super) oscillation_control: bool,
    pub(super) discount_floor: f64,
    pub(super) loss_packets: u32,
    pub(super) intervals: usize,
    pub(super) rtt_gain: f64,
    pub(super) feedback_rtts: f64,
    pub(super) slowest_s: f64,
    pub(super) round_ids: bool,
    pub(super) smooth: bool,
    pub(super) initial_rate: f64,
}

/// Which packet size stands in the equation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sizing {
    /// That of the flow (RFC 5348).
    Own,
    /// A full TCP segment; the headers count as part of the rate, and packets keep a least distance (RFC 4828).
    Small { reference: f64, header: f64, min_interval_s: f64 },
    /// A nominal one (TFRC-PS).
    Nominal(f64),
}

impl Sizing {
    /// The size in the equation for packets of `own` bytes, and what the result is multiplied with.
    pub(super) fn of(self, own: f64) -> (f64, f64) {
        match self {
            Sizing::Own => (own, 1.0),
            Sizing::Small { reference, header, .. } => (reference, own / (own + header)),
            Sizing::Nominal(size) => (size, 1.0),
        }
    }

    /// The equation of RFC 5348 §3.1 in bytes per second.
    pub(super) fn rate(self, own: f64, rtt_s: f64, p: f64) -> f64 {
        let (size, share) = self.of(own);
        model::rfc5348(&Path::rfc5348(rtt_s), size, p) * share
    }

    /// The loss interval at which [`Sizing::rate`] gives `rate`.
    pub(super) fn interval(self, own: f64, rtt_s: f64, rate: f64) -> f64 {
        let (size, share) = self.of(own);
        1.0 / model::rfc5348_loss_event_rate(&Path::rfc5348(rtt_s), size, rate / share).max(1e-12)
    }
}

/// The rate at which data may leave at the start, in bytes per RTT (RFC 5348 §4.2, RFC 3390).
pub(super) fn initial_window(size: f64) -> f64 {
    (4.0 * size).min((2.0 * size).max(4380.0))
}

/// Entries of [`ReceiveRates`].
const MOST_RATES: usize = 4;

/// `X_recv_set`: receive rates that were reported lately, in bytes per second.
#[derive(Clone, Copy, Debug)]
struct ReceiveRates {
    entries: [(Time, f64); MOST_RATES],
    count: usize,
}

impl ReceiveRates {
    fn only(rate: f64, now: Time) -> ReceiveRates {
        ReceiveRates { entries: [(now, rate); MOST_RATES], count: 1 }
    }

    fn max(&self) -> f64 {
        self.entries[..self.count].iter().map(|entry| entry.1).fold(0.0, f64::max)
    }

    /// Adds `rate` and forgets what is older than `age`.
    fn update(&mut self, rate: f64, now: Time, age: Span) {
        let mut kept = ReceiveRates::only(rate, now);
        for &(time, rate) in self.entries[..self.count].iter().rev() {
            if now.since(time) <= age && kept.count < MOST_RATES {
                kept.entries[kept.count] = (time, rate);
                kept.count += 1;
            }
        }
        kept.entries[..kept.count].reverse();
        *self = kept;
    }

    /// Keeps only the largest of `rate` and the finite entries.
    fn maximize(&mut self, rate: f64, now: Time) {
        let largest = self.entries[..self.count].iter().map(|entry| entry.1).filter(|rate| rate.is_finite());
        *self = ReceiveRates::only(largest.fold(rate, f64::max), now);
    }

    fn halve(&mut self) {
        self.entries[..self.count].iter_mut().for_each(|entry| entry.1 /= 2.0);
    }
}

/// What a report says to a TFRC sender.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    /// When the newest packet that it covers was sent.
    pub(super) sent: Time,
    /// How long the receiver held that packet.
    pub(super) delay: Span,
    /// Bytes per second; 0 if not measured yet.
    pub(super) receive_rate: f64,
    /// Loss event rate.
    pub(super) loss_rate: f64,
}

/// The sender of RFC 5348 §4: everything but queue and spacing.
#[derive(Clone, Debug)]
pub(super) struct TfrcSender {
    common: Common,
    sizing: Sizing,
    /// `s`: mean payload of a packet.
    size: f64,
    /// `X` in bytes per second.
    rate: f64,
    /// What the equation gives.
    equation: f64,
    loss_rate: f64,
    /// `R` in seconds.
    rtt: Option<f64>,
    /// Mean of the square root of the RTT, and the last sample's.
    mean_root: f64,
    last_root: f64,
    rates: ReceiveRates,
    /// `tld`: when the rate was doubled last.
    doubled: Time,
    nofeedback: Time,
    /// A packet left since the nofeedback timer was set.
    sent_since_timer: bool,
    // RFC 5348 §8.2.1: when the sender had more to send than it was allowed to.
    not_limited: [Time; 2],
    /// Sending time of the newest packet in the last report, and when that report arrived.
    covered: Time,
    reported: Time,
    started: bool,
}

impl TfrcSender {
    pub(super) fn new(common: Common, sizing: Sizing, size: f64) -> TfrcSender {
        TfrcSender {
            common,
            sizing,
            size,
            rate: size,
            equation: 0.0,
            loss_rate: 0.0,
            rtt: None,
            mean_root: 0.0,
            last_root: 0.0,
            rates: ReceiveRates::only(f64::INFINITY, Time::ZERO),
            doubled: Time::ZERO,
            nofeedback: Time::MAX,
            sent_since_timer: false,
            not_limited: [Time::ZERO; 2],
            covered: Time::ZERO,
            reported: Time::ZERO,
            started: false,
        }
    }

    /// A packet with `payload` bytes left.
    pub(super) fn on_sent(&mut self, payload: u32, now: Time) {
        if !self.started {
            self.started = true;
            self.size = f64::from(payload);
            // One packet per second until the first report.
            self.rate = self.size;
            self.nofeedback = now + Span::from_secs(2);
            self.not_limited[0] = now;
        }
        // RFC 4828 §4.3 has a running mean; for packets of one size it is that size.
        self.size += (f64::from(payload) - self.size) / 16.0;
        self.sent_since_timer = true;
    }

    /// More data is waiting than may leave at `now`.
    pub(super) fn on_backlog(&mut self, now: Time) {
        if self.not_limited[0] <= self.covered {
            self.not_limited[0] = now;
        } else if self.not_limited[1] <= self.reported {
            self.not_limited[1] = now;
        }
    }

    /// The time between packets of `payload` bytes, in seconds.
    pub(super) fn interval_s(&self, payload: u32) -> f64 {
        let mut rate = self.rate;
        if self.common.oscillation_control && self.last_root > 0.0 {
            rate = (rate * self.mean_root / self.last_root).max(self.slowest());
        }
        let interval = f64::from(payload) / rate;
        match self.sizing {
            Sizing::Small { min_interval_s, .. } => interval.max(min_interval_s),
            _ => interval,
        }
    }

    /// The allowed rate in bytes per second.
    pub(super) fn rate(&self) -> f64 {
        match self.sizing {
            Sizing::Small { min_interval_s, .. } if min_interval_s > 0.0 => {
                self.rate.min(self.size / min_interval_s)
            }
            _ => self.rate,
        }
    }

    /// `R`; `None` before the first report.
    pub(super) fn rtt_s(&self) -> Option<f64> {
        self.rtt
    }

    /// When [`TfrcSender::on_timer`] is due.
    pub(super) fn due(&self) -> Time {
        self.nofeedback
    }

    fn slowest(&self) -> f64 {
        self.size / self.common.slowest_s
    }

    /// A report arrived (RFC 5348 §4.3). Returns the RTT sample.
    pub(super) fn on_report(&mut self, report: &Report, now: Time) -> Span {
        let sample = now.since(report.sent) - report.delay;
        let seconds = sample.seconds().max(1e-9);
        self.last_root = seconds.sqrt();
        let gain = self.common.rtt_gain;
        let first = self.rtt.is_none();
        let rtt = match self.rtt {
            None => {
                self.mean_root = self.last_root;
                seconds
            }
            Some(rtt) => {
                self.mean_root += gain * (self.last_root - self.mean_root);
                rtt + gain * (seconds - rtt)
            }
        };
        self.rtt = Some(rtt);
        let limited = self.was_data_limited(report.sent, now);
        let worse = report.loss_rate > self.loss_rate;
        self.loss_rate = report.loss_rate;
        if first {
            // RFC 5348 §4.2.
            self.rate = initial_window(self.size) / rtt;
            self.doubled = now;
            self.rates = ReceiveRates::only(f64::INFINITY, now);
            if report.loss_rate > 0.0 {
                self.apply(f64::INFINITY, now);
            }
        } else {
            let limit = if !limited {
                self.rates.update(report.receive_rate, now, Span::from_seconds(2.0 * rtt));
                2.0 * self.rates.max()
            } else if worse {
                self.rates.halve();
                self.rates.maximize(0.85 * report.receive_rate, now);
                self.rates.max()
            } else {
                self.rates.maximize(report.receive_rate, now);
                2.0 * self.rates.max()
            };
            self.apply(limit, now);
        }
        self.set_timer(now);
        sample
    }

    /// Step 4 of RFC 5348 §4.3 below the computation of the limit.
    fn apply(&mut self, limit: f64, now: Time) {
        let rtt = self.rtt.unwrap_or(1.0);
        if self.loss_rate > 0.0 {
            self.equation = self.sizing.rate(self.size, rtt, self.loss_rate);
            self.rate = self.equation.min(limit).max(self.slowest());
        } else if now.since(self.doubled).seconds() >= rtt {
            self.rate = (2.0 * self.rate).min(limit).max(initial_window(self.size) / rtt);
            self.doubled = now;
        }
    }

    /// RFC 5348 §8.2.1: whether the sender was data-limited throughout what a report covers.
    fn was_data_limited(&mut self, sent: Time, now: Time) -> bool {
        let before = self.covered;
        self.covered = sent;
        self.reported = now;
        let within = |time: Time| before < time && time <= sent;
        let limited = !self.not_limited.into_iter().any(within);
        if self.not_limited[0] <= sent && self.not_limited[1] > sent {
            self.not_limited[0] = self.not_limited[1];
        }
        limited
    }

    fn set_timer(&mut self, now: Time) {
        let rtt = self.rtt.unwrap_or(0.5);
        self.nofeedback = now + Span::from_seconds((4.0 * rtt).max(2.0 * self.size / self.rate));
        self.sent_since_timer = false;
    }

    /// The nofeedback timer expired (RFC 5348 §4.4). Returns whether the rate was lowered.
    pub(super) fn on_timer(&mut self, now: Time) -> bool {
        let before = self.rate;
        let received = self.rates.max();
        let idle = !self.sent_since_timer;
        match self.rtt {
            None if !idle => self.rate = (self.rate / 2.0).max(self.slowest()),
            None => {}
            Some(rtt) => {
                let recover = initial_window(self.size) / rtt;
                if idle
                    && (self.loss_rate > 0.0 && received < recover
                        || self.loss_rate == 0.0 && self.rate < 2.0 * recover)
                {
                    // Idleness is no reason to fall below the initial rate.
                } else if self.loss_rate == 0.0 {
                    self.rate = (self.rate / 2.0).max(self.slowest());
                } else {
                    let limit = if self.equation > 2.0 * received { received } else { self.equation / 2.0 };
                    let limit = limit.max(self.slowest());
                    self.rates = ReceiveRates::only(limit / 2.0, now);
                    self.apply(limit, now);
                }
            }
        }
        self.set_timer(now);
        self.rate < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(value: f64, expected: f64, digits: i32) {
        assert!((value - expected).abs() <= 0.500_001 * 10f64.powi(-digits), "{value} is not {expected}");
    }

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    /// A sender of packets of 1000 B that has sent one at 0 and got a report at 100 ms.
    fn started() -> TfrcSender {
        let mut sender = TfrcSender::new(Params::default().common(), Sizing::Own, 1000.0);
        sender.on_sent(1000, Time::ZERO);
        sender.on_report(&report(0, 0.0, 0.0), at(100));
        sender
    }

    fn report(sent_ms: u64, receive_rate: f64, loss_rate: f64) -> Report {
        Report { sent: at(sent_ms), delay: Span::ZERO, receive_rate, loss_rate }
    }

    /// Sends with more to send at `now`, and gets a report on that an RTT later.
    fn busy_round(sender: &mut TfrcSender, millis: u64, receive_rate: f64, loss_rate: f64) -> f64 {
        sender.on_sent(1000, at(millis));
        sender.on_backlog(at(millis));
        sender.on_report(&report(millis, receive_rate, loss_rate), at(millis + 100));
        sender.rate()
    }

    /// TV-9.4.
    #[test]
    fn the_equation_and_the_initial_window() {
        close(Sizing::Own.rate(1000.0, 0.1, 0.01), 112_332.2, 1);
        close(Sizing::Own.rate(1000.0, 0.1, 0.001), 383_843.6, 1);
        close(Sizing::Own.rate(1460.0, 0.1, 0.01), 164_005.1, 1);
        assert_eq!((initial_window(1000.0), initial_window(1460.0)), (4000.0, 4380.0));
    }

    /// TV-9.5.
    #[test]
    fn small_packets_get_the_rate_of_full_ones() {
        let small = Sizing::Small { reference: 1460.0, header: 40.0, min_interval_s: 0.01 };
        close(small.rate(160.0, 0.1, 0.01), 131_204.05, 2);
        close(Sizing::Own.rate(160.0, 0.1, 0.01), 17_973.2, 1);
        let mut sender = TfrcSender::new(Params::default().common(), small, 160.0);
        sender.on_sent(160, Time::ZERO);
        sender.on_report(&report(0, 0.0, 0.01), at(100));
        close(sender.rate(), 16_000.0, 9);
        close(sender.interval_s(160), 0.01, 12);
    }

    #[test]
    fn the_rate_starts_with_a_packet_per_second_and_the_initial_window_per_rtt() {
        let mut sender = TfrcSender::new(Params::default().common(), Sizing::Own, 1000.0);
        sender.on_sent(1000, Time::ZERO);
        close(sender.interval_s(1000), 1.0, 12);
        sender.on_report(&report(0, 0.0, 0.0), at(100));
        close(sender.rate(), 40_000.0, 6);
    }

    #[test]
    fn slow_start_doubles_and_stays_below_twice_the_receive_rate() {
        let mut sender = started();
        close(busy_round(&mut sender, 100, 10_000.0, 0.0), 80_000.0, 6);
        close(busy_round(&mut sender, 200, 40_000.0, 0.0), 160_000.0, 6);
        // The infinite entry has been forgotten by now.
        close(busy_round(&mut sender, 301, 75_000.0, 0.0), 150_000.0, 0);
    }

    #[test]
    fn a_loss_event_rate_sets_the_rate_at_once() {
        let mut sender = started();
        busy_round(&mut sender, 100, 10_000.0, 0.0);
        close(busy_round(&mut sender, 200, 60_000.0, 0.01), 112_332.2, 1);
        close(busy_round(&mut sender, 300, 40_000.0, 0.01), 112_332.2, 1);
        close(busy_round(&mut sender, 401, 40_000.0, 0.01), 80_000.0, 1);
    }

    #[test]
    fn a_data_limited_sender_keeps_the_largest_receive_rate() {
        let mut sender = started();
        busy_round(&mut sender, 100, 30_000.0, 0.0);
        busy_round(&mut sender, 210, 60_000.0, 0.01);
        for round in 4..40 {
            // It sends, but never has more than it may send.
            sender.on_sent(1000, at(100 * round));
            sender.on_report(&report(100 * round, 10_000.0, 0.01), at(100 * round + 100));
        }
        close(sender.rate(), 112_332.2, -2);
        // A new loss event while data-limited.
        sender.on_sent(1000, at(4100));
        sender.on_report(&report(4100, 10_000.0, 0.02), at(4200));
        close(sender.rate(), 30_000.0, 0);
    }

    #[test]
    fn silence_halves_the_rate() {
        let mut sender = started();
        busy_round(&mut sender, 100, 40_000.0, 0.0);
        busy_round(&mut sender, 200, 60_000.0, 0.01);
        sender.on_sent(1000, at(310));
        assert_eq!(sender.due(), at(700));
        // Twice the receive rate is more than the equation: half of that.
        assert!(sender.on_timer(at(700)));
        close(sender.rate(), 112_332.2 / 2.0, 1);
        sender.on_sent(1000, at(800));
        assert!(sender.on_timer(sender.due()));
        // The set now holds a quarter of the equation's rate: less than half of it.
        close(sender.rate(), 112_332.2 / 4.0, 1);
    }

    #[test]
    fn an_idle_sender_keeps_the_initial_rate() {
        let mut sender = started();
        assert!(!sender.on_timer(sender.due()), "idle since the report");
        close(sender.rate(), 40_000.0, 6);
        sender.on_sent(1000, at(600));
        assert!(sender.on_timer(sender.due()));
        close(sender.rate(), 20_000.0, 6);
    }

    #[test]
    fn a_growing_rtt_stretches_the_spacing() {
        let params = Params { oscillation_control: true, ..Params::default() };
        let mut sender = TfrcSender::new(params.common(), Sizing::Own, 1000.0);
        sender.on_sent(1000, Time::ZERO);
        sender.on_report(&report(0, 0.0, 0.01), at(100));
        let usual = sender.interval_s(1000);
        sender.on_backlog(at(200));
        sender.on_report(&report(200, 200_000.0, 0.01), at(600));
        // RTT 130 ms; sqrt: mean 0.9 sqrt(0.1) + 0.1 sqrt(0.4), last sqrt(0.4), so the rate is 0.55 of that at 130 ms.
        close(sender.interval_s(1000), usual * 1.3 / 0.55, 6);
    }
}
