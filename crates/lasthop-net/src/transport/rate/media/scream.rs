//! SCReAMv2: Self-Clocked Rate Adaptation for Multimedia, second version (draft-ietf-ccwg-rfc8298bis-screamv2).
//!
//! *What it does.* Keeps a reference window of bytes as TCP does, and computes the target rate from window and RTT.
//! The window grows with acknowledged bytes, slowly near its size at the last congestion and faster far from it.
//! Losses, marks, and a queueing delay above half of its target reduce it, the delay in proportion.
//! *Reacts to* losses, ECN marks, one-way delay, silence of the receiver.
//! *Differs from the paper:* every mark counts as a classic one: L4S (ECT(1)) is left out, and so are the adaptation
//! of the target delay to buffer-filling flows and the frame-size part of the window. What a delay takes off in an RTT
//! is spread over its events of 25 ms, as in the authors' program, which the draft does not say: without that the
//! window falls again and again before a first reduction can show.
//! *Validation:* windows and rates by hand from the draft's rules; every case of RFC 8867; beside the authors' program
//! on the same paths, `docs/reference/validation-scream.md`.
//! *Limitations:* see above.
//! *Kernel counterpart:* none.
//! *References:* draft-johansson-ccwg-rfc8298bis-screamv2; RFC 8298.

use lasthop_core::time::Time;

use super::{Common, Control, Fate, Report, media_params};

pub(crate) const SUMMARY: &str = "Media rate by a window and the delay above a target (SCReAMv2)";

/// Interval of reports, and the share of the rate that they take: 100 ms at 100 kbit/s, 4 ms at 10 Mbit/s.
const DEFAULT_FEEDBACK: (f64, f64) = (0.1, 0.02);
/// A congestion event is at most once in this time, or in an RTT if that is shorter; below it growth is slower.
const VIRTUAL_RTT_S: f64 = 0.025;
/// The size of the window at congestion is noted so often at most.
const NOTED_S: f64 = 0.25;

media_params! {
    /// Queueing delay at which the window halves, in seconds; above half of it the window shrinks
    delay_target_s: f64 = 0.06, 0.001..=10.0;
    /// Smallest reference window, in bytes
    min_window: f64 = 3000.0, 100.0..=1e9;
    /// Size of a segment in the growth of the window, in bytes
    segment: f64 = 1000.0, 100.0..=65535.0;
    /// Share of the window that a loss leaves
    beta_loss: f64 = 0.7, 0.01..=1.0;
    /// Share of the window that a mark leaves
    beta_ecn: f64 = 0.8, 0.01..=1.0;
    /// Gain with which the mean queueing delay rises, applied once per RTT; it falls at once
    delay_gain: f64 = 0.25, 0.01..=1.0;
    /// Time after congestion within which growth rises to its maximum, in seconds
    post_congestion_s: f64 = 4.0, 0.0..=100.0;
    /// Multiplicative part of the growth
    growth: f64 = 0.02, 0.0..=1.0;
    /// Maximum of the bytes in flight, relative to the reference window
    overhead: f64 = 1.5, 1.0..=100.0;
    /// Maximum of the window, relative to the bytes recently in flight
    flight_headroom: f64 = 2.0, 1.0..=100.0;
    /// Pacing rate, relative to the target rate
    pacing: f64 = 1.5, 1.0..=100.0;
}

/// The sender.
#[derive(Clone, Debug)]
pub(in super::super) struct Sender {
    params: Params,
    common: Common,
    /// ref_wnd and ref_wnd_i, in bytes.
    window: f64,
    noted: f64,
    noted_at: Option<Time>,
    rtt: Option<f64>,
    /// Least delay, and the mean of what is above it, in seconds.
    base: f64,
    delay: f64,
    averaged: Option<Time>,
    congested: Option<Time>,
    /// Most bytes under way in this round trip and in the last one, and when this one began.
    flights: (u64, u64),
    round: Option<Time>,
    /// Bytes under way now.
    flight: u64,
}

impl Sender {
    pub(super) fn new(params: &Params) -> Sender {
        Sender {
            params: params.clone(),
            common: params.common(),
            window: params.min_window,
            noted: 1.0,
            noted_at: None,
            rtt: None,
            base: f64::INFINITY,
            delay: 0.0,
            averaged: None,
            congested: None,
            flights: (0, 0),
            round: None,
            flight: 0,
        }
    }

    /// s: how far the window is from where the last congestion found it, squared.
    fn scale(&self) -> f64 {
        (4.0 * (self.window - self.noted) / self.noted).powi(2).clamp(0.1, 1.0)
    }

    /// The window grows by `bytes` that arrived without a mark.
    fn grow(&mut self, bytes: f64, now: Time, rtt_s: f64) {
        let scale = self.scale();
        let segment = self.params.segment;
        let since = self.congested.map_or(f64::INFINITY, |at| now.since(at).seconds());
        let late = (since / self.params.post_congestion_s.max(1e-9)).min(1.0);
        let fast = 1.0 + self.params.growth * self.window / segment * late * scale;
        let slow = (rtt_s / VIRTUAL_RTT_S).min(1.0).powi(2);
        let grown = self.window + bytes * segment / self.window * slow * scale * fast;
        let most = segment + self.params.flight_headroom * self.flights.0.max(self.flights.1) as f64;
        if grown <= most {
            self.window = grown;
        }
    }

    /// Something says that the path is congested: the window keeps this share.
    fn shrink(&mut self, share: f64, now: Time, rtt_s: f64) {
        let soon = rtt_s.min(VIRTUAL_RTT_S);
        if self.congested.is_some_and(|at| now.since(at).seconds() < soon) {
            return;
        }
        self.congested = Some(now);
        if self.noted_at.is_none_or(|at| now.since(at).seconds() >= NOTED_S) {
            (self.noted, self.noted_at) = (self.window, Some(now));
        }
        self.window = (self.window * share).max(self.params.min_window);
    }

    /// Takes the delay of the newest packet, in seconds.
    fn measure(&mut self, delay: f64, now: Time, rtt_s: f64) {
        self.base = self.base.min(delay);
        let queued = delay - self.base;
        if queued < self.delay {
            self.delay = queued;
        } else if self.averaged.is_none_or(|at| now.since(at).seconds() >= rtt_s) {
            self.delay += self.params.delay_gain * (queued - self.delay);
            self.averaged = Some(now);
        }
    }

    /// The share of the window that the delay leaves; 1 below half of the target. There is such an event every 25 ms:
    /// each takes off that part of what an RTT should.
    fn share_by_delay(&self, rtt_s: f64) -> f64 {
        let half = self.params.delay_target_s / 2.0;
        let events = (rtt_s / VIRTUAL_RTT_S).max(1.0);
        1.0 - ((self.delay - half) / half).clamp(0.0, 1.0) / 2.0 / events
    }
}

impl Control for Sender {
    fn on_sent(&mut self, bytes: u32, _: Time) {
        self.flight += u64::from(bytes);
        self.flights.0 = self.flights.0.max(self.flight);
    }

    fn on_report(&mut self, report: &Report<'_>) {
        let rtt = report.rtt_s;
        self.rtt = Some(rtt);
        self.flight = report.flight.1;
        self.flights.0 = self.flights.0.max(report.flight.0);
        let (mut arrived, mut marked, mut lost, mut newest) = (0.0, 0.0, false, None);
        for outcome in report.outcomes {
            match outcome.fate {
                Fate::Lost => lost = true,
                Fate::Arrived { at, marked: is_marked } => {
                    arrived += f64::from(outcome.bytes);
                    marked += if is_marked { f64::from(outcome.bytes) } else { 0.0 };
                    newest = Some((at.0 as f64 - outcome.sent.0 as f64) / 1e9);
                }
            }
        }
        if let Some(delay) = newest {
            self.measure(delay, report.now, rtt);
        }
        if lost {
            self.shrink(self.params.beta_loss, report.now, rtt);
        } else if marked > 0.0 {
            self.shrink(self.params.beta_ecn, report.now, rtt);
        } else if self.share_by_delay(rtt) < 1.0 {
            self.shrink(self.share_by_delay(rtt), report.now, rtt);
        }
        self.grow(arrived - marked, report.now, rtt);
        if self.round.is_none_or(|at| report.now.since(at).seconds() >= rtt) {
            self.round = Some(report.now);
            self.flights = (self.flight, self.flights.0);
        }
    }

    fn on_silence(&mut self, _: Time) -> bool {
        let before = self.window;
        self.flight = 0;
        self.window = (self.window / 2.0).max(self.params.min_window);
        self.window < before
    }

    fn target(&self) -> f64 {
        let Some(rtt) = self.rtt else { return self.common.bounded(self.common.start_rate) };
        let small = (self.params.segment / self.window - 0.1).clamp(0.0, 0.8);
        self.common.bounded(8.0 * self.window / rtt.max(1e-6) * (1.0 - small))
    }

    fn pacing(&self, _: u64) -> f64 {
        self.params.pacing * self.target().max(50_000.0)
    }

    fn window(&self) -> f64 {
        self.params.overhead * self.window
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

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-6 * expected.abs(), "{found} instead of {expected}");
    }

    fn sender(window: f64) -> Sender {
        let mut sender = Sender::new(&Params { max_rate: 1e9, ..Params::default() });
        (sender.window, sender.rtt) = (window, Some(0.1));
        sender
    }

    /// 3000 B at 100 ms: 240 kbit/s less 23.33 %; 20,000 B have nothing taken away.
    #[test]
    fn the_target_is_window_over_rtt() {
        close(sender(3000.0).target(), 240_000.0 * (1.0 - (1.0 / 3.0 - 0.1)));
        close(sender(20_000.0).target(), 1_600_000.0);
        close(sender(20_000.0).window(), 30_000.0);
    }

    /// At the size of the last congestion growth is a tenth; a quarter above it whole, and 2 % of the segments more
    /// once 4 s have passed.
    #[test]
    fn growth_is_slow_near_the_last_congestion() {
        let mut near = sender(10_000.0);
        (near.noted, near.congested, near.flights) = (10_000.0, Some(at(0)), (20_000, 20_000));
        near.grow(10_000.0, at(0), 0.1);
        close(near.window, 10_000.0 + 1000.0 * 0.1);
        let mut far = sender(12_500.0);
        (far.noted, far.congested, far.flights) = (10_000.0, Some(at(0)), (20_000, 20_000));
        far.grow(12_500.0, at(4000), 0.1);
        close(far.window, 12_500.0 + 1000.0 * (1.0 + 0.02 * 12.5));
        // At 12.5 ms a quarter of that.
        let mut short = sender(12_500.0);
        (short.noted, short.congested, short.flights) = (10_000.0, Some(at(0)), (20_000, 20_000));
        short.grow(12_500.0, at(0), 0.0125);
        close(short.window, 12_500.0 + 250.0);
    }

    #[test]
    fn the_window_does_not_outgrow_what_is_sent() {
        let mut sender = sender(10_000.0);
        sender.flights = (4000, 4500);
        sender.grow(10_000.0, at(0), 0.1);
        close(sender.window, 10_000.0);
    }

    /// 45 ms of a target of 60 are half of the way: three quarters stay in an RTT, which at 100 ms has four events.
    #[test]
    fn delay_losses_and_marks_shrink_it_once_in_25_ms() {
        let mut sender = sender(10_000.0);
        sender.delay = 0.045;
        close(sender.share_by_delay(0.02), 0.75);
        close(sender.share_by_delay(0.1), 1.0 - 0.25 / 4.0);
        sender.shrink(0.7, at(0), 0.1);
        sender.shrink(0.7, at(24), 0.1);
        close(sender.window, 7000.0);
        sender.shrink(0.8, at(25), 0.1);
        close(sender.window, 5600.0);
        close(sender.noted, 10_000.0);
        sender.shrink(0.1, at(250), 0.1);
        close(sender.window, 3000.0);
        close(sender.noted, 5600.0);
    }

    /// Up by a quarter of the difference once an RTT, down at once.
    #[test]
    fn the_mean_delay_falls_at_once() {
        let mut sender = sender(10_000.0);
        sender.measure(0.050, at(0), 0.1);
        sender.measure(0.090, at(100), 0.1);
        close(sender.delay, 0.010);
        sender.measure(0.090, at(150), 0.1);
        close(sender.delay, 0.010);
        sender.measure(0.055, at(160), 0.1);
        close(sender.delay, 0.005);
    }

    #[test]
    fn a_report_moves_the_window() {
        let mut sender = sender(10_000.0);
        (sender.noted, sender.flights) = (10_000.0, (20_000, 20_000));
        let arrived = Fate::Arrived { at: at(150), marked: false };
        let mut outcomes = [Outcome { number: 0, sent: at(100), bytes: 1000, fate: arrived }; 2];
        let blank = Report { now: at(200), rtt_s: 0.1, outcomes: &[], flight: (10_000, 8000) };
        sender.on_report(&Report { outcomes: &outcomes, ..blank });
        // 2000 B at a tenth, and 2 % of ten segments a tenth of that more.
        close(sender.window, 10_000.0 + 200.0 * 0.1 * (1.0 + 0.02 * 10.0 * 0.1));
        outcomes[1].fate = Fate::Lost;
        let before = sender.window;
        sender.on_report(&Report { outcomes: &outcomes, ..blank });
        let shrunk = before * 0.7;
        assert!(sender.window > shrunk && sender.window < shrunk + 150.0);
    }
}
