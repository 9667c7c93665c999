//! NADA: Network-Assisted Dynamic Adaptation (RFC 8698).
//!
//! *What it does.* Combines queueing delay, losses and marks into one signal, and changes the rate so that this signal
//! meets a reference that falls with the rate: flows at one queue then have rates in the ratio of their priorities.
//! Without losses and queueing it ramps up by a share that bounds the queue that it may cause. After recent losses it
//! discounts long queues of other flows (delay warping), so that TCP does not starve it.
//! *Reacts to* one-way delay, losses, ECN marks, silence of the receiver.
//! *Differs from the RFC:* all of it runs at the sender, on reports of arrival times, where the RFC's receiver reports
//! one aggregated signal; the base delay is the minimum of the whole run. A silence halves the rate.
//! *Validation:* TV-36.4 to TV-36.8 from the equations of RFC 8698; every case of RFC 8867.
//! *Limitations:* a flow that joins a standing queue takes it for base delay (RFC 8698 section 6.1).
//! *Kernel counterpart:* none.
//! *References:* RFC 8698; RFC 8867.

use std::collections::VecDeque;

use lasthop_core::time::{Span, Time};

use super::{Common, Control, Fate, Outcome, Report, media_params};

pub(crate) const SUMMARY: &str = "Media rate by delay, loss and marks in one signal (NADA, RFC 8698)";

/// Interval of reports, DELTA, and the share of the rate that they may take.
const DEFAULT_FEEDBACK: (f64, f64) = (0.1, 0.0);
/// Weights of the average loss interval (RFC 5348 section 5.4).
const WEIGHTS: [f64; 8] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];
/// Samples of delay whose least counts (RFC 8698 section 5.1).
const DELAYS: usize = 15;
/// Seconds of feedback and encoding that the ramp-up has to bridge beside the RTT.
const FILTER_S: f64 = 0.120;

media_params! {
    /// PRIO: weight of the priority of the flow
    priority: f64 = 1.0, 0.01..=100.0;
    /// XREF: reference congestion signal, in seconds
    xref_s: f64 = 0.010, 0.0001..=1.0;
    /// KAPPA: scaling of the gradual update
    kappa: f64 = 0.5, 0.0..=10.0;
    /// ETA: scaling of the change of the signal
    eta: f64 = 2.0, 0.0..=10.0;
    /// TAU: upper bound of the RTT in the gradual update, in seconds
    tau_s: f64 = 0.5, 0.01..=10.0;
    /// LOGWIN: time over which losses and rates are measured, in seconds
    logwin_s: f64 = 0.5, 0.01..=10.0;
    /// QEPS: delay below which nothing is queued, in seconds
    qeps_s: f64 = 0.010, 0.0..=1.0;
    /// GAMMA_MAX: maximum increase of a ramp-up, as a share of the received rate
    gamma_max: f64 = 0.5, 0.0..=10.0;
    /// QBOUND: maximum delay that a ramp-up may cause, in seconds
    qbound_s: f64 = 0.050, 0.0..=10.0;
    /// MULTILOSS: loss intervals for which delay stays warped
    multiloss: f64 = 7.0, 0.0..=1000.0;
    /// QTH: delay above which the signal is warped, in seconds
    qth_s: f64 = 0.050, 0.001..=10.0;
    /// LAMBDA: how fast warping falls with the delay
    lambda: f64 = 0.5, 0.0..=10.0;
    /// PLRREF: reference loss ratio
    loss_reference: f64 = 0.01, 0.0001..=1.0;
    /// PMRREF: reference marking ratio
    mark_reference: f64 = 0.01, 0.0001..=1.0;
    /// DLOSS: delay equivalent to the reference loss ratio, in seconds
    loss_delay_s: f64 = 0.010, 0.0..=10.0;
    /// DMARK: delay equivalent to the reference marking ratio, in seconds
    mark_delay_s: f64 = 0.002, 0.0..=10.0;
    /// Maximum of the congestion signal, in seconds: a report of the RFC holds 15 bits of 0.1 ms; the authors' own
    /// simulator stops at 0.5
    signal_limit_s: f64 = 3.2767, 0.01..=1000.0;
    /// ALPHA: gain of the filters of loss and marking ratio
    alpha: f64 = 0.1, 0.001..=1.0;
    /// FPS: frame rate in the shaping of the rate
    frame_rate: f64 = 30.0, 1.0..=1000.0;
    /// BETA_S: how far the sending rate rises with the sender's queue
    beta_s: f64 = 0.1, 0.0..=1.0;
    /// BETA_V: how far the encoder's rate falls with the sender's queue
    beta_v: f64 = 0.1, 0.0..=1.0;
}

/// A packet within LOGWIN.
#[derive(Clone, Copy, Debug)]
struct Logged {
    at: Time,
    /// Zero if it was lost.
    bytes: u32,
    /// Delay above the base, in seconds; of a lost packet 0.
    queued: f64,
    marked: bool,
    lost: bool,
}

/// Intervals between losses, in packets (RFC 5348 section 5.4).
#[derive(Clone, Debug, Default)]
struct Losses {
    /// Newest first, the open one not included.
    intervals: VecDeque<f64>,
    /// Number of the packet that began the newest loss event, and when it was sent.
    last: Option<(u64, Time)>,
    /// The packet behind the newest one known.
    next: u64,
}

impl Losses {
    fn lose(&mut self, number: u64, sent: Time, rtt_s: f64) {
        self.next = self.next.max(number + 1);
        if self.last.is_some_and(|(_, begun)| sent.since(begun).seconds() < rtt_s) {
            return;
        }
        let since = self.last.map_or(0, |(first, _)| first);
        self.intervals.push_front(number.saturating_sub(since).max(1) as f64);
        self.intervals.truncate(WEIGHTS.len());
        self.last = Some((number, sent));
    }

    /// Packets since the last loss event began.
    fn since(&self) -> f64 {
        self.last.map_or(f64::INFINITY, |(number, _)| self.next.saturating_sub(number) as f64)
    }

    /// The average: with the open interval if that makes it longer.
    fn mean(&self) -> f64 {
        let average = |lengths: &mut dyn Iterator<Item = f64>| {
            let (sum, weights) = lengths
                .zip(WEIGHTS)
                .fold((0.0, 0.0), |(sum, all), (length, weight)| (sum + length * weight, all + weight));
            if weights > 0.0 { sum / weights } else { 0.0 }
        };
        let closed = average(&mut self.intervals.iter().copied());
        closed.max(average(&mut std::iter::once(self.since()).chain(self.intervals.iter().copied())))
    }
}

/// The sender.
#[derive(Clone, Debug)]
pub(in super::super) struct Sender {
    params: Params,
    common: Common,
    /// r_ref, in bit/s.
    rate: f64,
    /// d_base, in seconds.
    base: f64,
    /// The last delays above the base, in seconds.
    delays: VecDeque<f64>,
    log: VecDeque<Logged>,
    losses: Losses,
    loss_ratio: f64,
    mark_ratio: f64,
    /// x_prev, in seconds.
    before: f64,
    updated: Option<Time>,
}

impl Sender {
    pub(super) fn new(params: &Params) -> Sender {
        let common = params.common();
        Sender {
            params: params.clone(),
            common,
            rate: common.bounded(common.start_rate),
            base: f64::INFINITY,
            delays: VecDeque::with_capacity(DELAYS),
            log: VecDeque::new(),
            losses: Losses::default(),
            loss_ratio: 0.0,
            mark_ratio: 0.0,
            before: 0.0,
            updated: None,
        }
    }

    /// Takes one packet into the measurements (section 5.1).
    fn measure(&mut self, outcome: &Outcome, rtt_s: f64) {
        let newest = self.log.back().map_or(outcome.sent, |logged| logged.at);
        let Fate::Arrived { at, marked } = outcome.fate else {
            self.losses.lose(outcome.number, outcome.sent, rtt_s);
            self.log.push_back(Logged { at: newest, bytes: 0, queued: 0.0, marked: false, lost: true });
            return;
        };
        self.losses.next = self.losses.next.max(outcome.number + 1);
        // The resolution of a report may put an arrival before its departure on a very short path.
        let delay = (at.0 as f64 - outcome.sent.0 as f64) / 1e9;
        self.base = self.base.min(delay);
        let queued = delay - self.base;
        if self.delays.len() == DELAYS {
            self.delays.pop_front();
        }
        self.delays.push_back(queued);
        self.log.push_back(Logged { at: at.max(newest), bytes: outcome.bytes, queued, marked, lost: false });
    }

    /// d_tilde: the queueing delay, less of it while losses are near (section 4.2). Seconds.
    fn warped(&self, delay: f64) -> f64 {
        let (interval, since) = (self.losses.mean(), self.losses.since());
        let expires = self.params.multiloss * interval;
        let warped = warp(&self.params, delay);
        if since < expires {
            warped
        } else if interval > 0.0 && since < expires + interval {
            let share = (since - expires) / interval;
            warped + share * (delay - warped)
        } else {
            delay
        }
    }

    /// x_curr, the aggregate congestion signal (section 4.2). Seconds.
    fn signal(&self) -> f64 {
        let delay = self.delays.iter().copied().fold(f64::INFINITY, f64::min);
        let delay = if delay.is_finite() { delay } else { 0.0 };
        let signal = aggregate(&self.params, self.warped(delay), (self.mark_ratio, self.loss_ratio));
        signal.min(self.params.signal_limit_s)
    }

    /// What LOGWIN holds: r_recv in bit/s, ratios of losses and of marks, and whether nothing was lost or queued.
    fn window(&self) -> (f64, f64, f64, bool) {
        let (mut bytes, mut lost, mut marked, mut clear) = (0_u64, 0_u32, 0_u32, true);
        for logged in &self.log {
            bytes += u64::from(logged.bytes);
            lost += u32::from(logged.lost);
            marked += u32::from(logged.marked);
            clear &= !logged.lost && logged.queued < self.params.qeps_s;
        }
        let count = self.log.len().max(1) as f64;
        let rate = bytes as f64 * 8.0 / self.params.logwin_s;
        (rate, f64::from(lost) / count, f64::from(marked) / count, clear)
    }

    /// What the queue of the sender takes from the encoder and gives to the pace, in bit/s (RFC 8698 section 5.2).
    fn shaping(&self, beta: f64, waiting: u64) -> f64 {
        (0.05 * self.rate).min(beta * 8.0 * waiting as f64 * self.params.frame_rate)
    }
}

/// d_tilde of a delay in seconds while losses are near.
fn warp(params: &Params, delay: f64) -> f64 {
    let beyond = delay / params.qth_s - 1.0;
    if beyond <= 0.0 { delay } else { params.qth_s * (-params.lambda * beyond).exp() }
}

/// The signal of a warped delay and the ratios of marks and losses.
fn aggregate(params: &Params, delay: f64, (marks, losses): (f64, f64)) -> f64 {
    let marked = params.mark_delay_s * (marks / params.mark_reference).powi(2);
    delay + marked + params.loss_delay_s * (losses / params.loss_reference).powi(2)
}

/// The rate behind a gradual update (section 4.3), from the signals now and before, `delta` seconds apart.
fn gradual(params: &Params, rate: f64, (now, before): (f64, f64), delta: f64) -> f64 {
    let tau = params.tau_s;
    let offset = now - params.priority * params.xref_s * params.max_rate / rate;
    let moved = params.kappa * (delta / tau) * (offset / tau) * rate;
    rate - moved - params.kappa * params.eta * ((now - before) / tau) * rate
}

/// gamma: the share by which an accelerated ramp-up exceeds the received rate (section 4.3).
fn ramp(params: &Params, rtt_s: f64) -> f64 {
    params.gamma_max.min(params.qbound_s / (rtt_s + params.feedback_s + FILTER_S))
}

impl Control for Sender {
    fn on_report(&mut self, report: &Report<'_>) {
        for outcome in report.outcomes {
            self.measure(outcome, report.rtt_s);
        }
        let Some(newest) = self.log.back().map(|logged| logged.at) else { return };
        let oldest = Time(newest.0.saturating_sub(Span::from_seconds(self.params.logwin_s).0));
        while self.log.front().is_some_and(|logged| logged.at < oldest) {
            self.log.pop_front();
        }
        let (received, lost, marked, clear) = self.window();
        self.loss_ratio += self.params.alpha * (lost - self.loss_ratio);
        self.mark_ratio += self.params.alpha * (marked - self.mark_ratio);
        let signal = self.signal();
        let delta = self.updated.map_or(self.params.feedback_s, |last| report.now.since(last).seconds());
        self.updated = Some(report.now);
        let rate = if clear {
            self.rate.max((1.0 + ramp(&self.params, report.rtt_s)) * received)
        } else {
            gradual(&self.params, self.rate, (signal, self.before), delta)
        };
        self.before = signal;
        self.rate = self.common.bounded(rate);
    }

    fn on_silence(&mut self, _: Time) -> bool {
        let before = self.rate;
        self.rate = self.common.bounded(self.rate / 2.0);
        self.rate < before
    }

    fn target(&self) -> f64 {
        self.rate
    }

    fn encoder_rate(&self, waiting: u64) -> f64 {
        self.common.bounded(self.rate - self.shaping(self.params.beta_v, waiting))
    }

    fn pacing(&self, waiting: u64) -> f64 {
        self.common.bounded(self.rate + self.shaping(self.params.beta_s, waiting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-4 * expected.abs().max(1e-3), "{found} instead of {expected}");
    }

    /// TV-36.4, in ms.
    #[test]
    fn long_queues_are_warped_while_losses_are_near() {
        let params = Params::default();
        for (delay, warped) in
            [(30.0, 30.0), (50.0, 50.0), (100.0, 30.3265), (200.0, 11.1565), (400.0, 1.5099)]
        {
            close(warp(&params, delay / 1e3) * 1e3, warped);
        }
    }

    /// TV-36.5, in ms.
    #[test]
    fn one_number_of_delay_marks_and_losses() {
        let params = Params::default();
        for ((delay, marks, losses), signal) in
            [((20.0, 0.0, 0.01), 30.0), ((20.0, 0.02, 0.0), 28.0), ((0.0, 0.0, 0.03), 90.0)]
        {
            close(aggregate(&params, delay / 1e3, (marks, losses)) * 1e3, signal);
        }
    }

    /// TV-36.6: rate, signals in ms, and the rate 100 ms later. The second is the equilibrium of section 4.3.
    #[test]
    fn gradual_updates_of_known_signals() {
        let params = Params::default();
        for (rate, now, before, expected) in [
            (1e6, 20.0, 20.0, 999_000.0),
            (1e6, 15.0, 15.0, 1_000_000.0),
            (1e6, 30.0, 20.0, 977_000.0),
            (5e5, 10.0, 30.0, 522_000.0),
        ] {
            close(gradual(&params, rate, (now / 1e3, before / 1e3), 0.1), expected);
        }
    }

    /// TV-36.7.
    #[test]
    fn the_ramp_up_falls_with_the_rtt() {
        let params = Params::default();
        for (rtt, gamma) in [(0.1, 0.15625), (0.2, 0.119_047_6), (0.3, 0.096_153_8)] {
            close(ramp(&params, rtt), gamma);
        }
    }

    /// TV-36.8: 2000 B in the sender's queue move both rates by 48 kbit/s, unless that is a twentieth.
    #[test]
    fn the_queue_of_the_sender_shapes_both_rates() {
        let mut sender = Sender::new(&Params { start_rate: 1.2e6, ..Params::default() });
        close(sender.encoder_rate(2000), 1.152e6);
        close(sender.pacing(2000), 1.248e6);
        sender.rate = 600_000.0;
        close(sender.encoder_rate(2000), 570_000.0);
    }

    fn arrived(number: u64, sent_ms: u64, delay_ms: u64) -> Outcome {
        let fate = Fate::Arrived { at: at(sent_ms + delay_ms), marked: false };
        Outcome { number, sent: at(sent_ms), bytes: 1240, fate }
    }

    fn report(sender: &mut Sender, now_ms: u64, outcomes: &[Outcome]) {
        sender.on_report(&Report { now: at(now_ms), rtt_s: 0.1, outcomes, flight: (0, 0) });
    }

    /// 50 packets of 1240 B in half a second are 992 kbit/s: an idle queue lets it rise to 1.15625 of that.
    #[test]
    fn an_empty_queue_is_filled_by_a_ramp_up() {
        let mut sender = Sender::new(&Params::default());
        let outcomes: Vec<_> = (0..50).map(|number| arrived(number, 10 * number, 50)).collect();
        report(&mut sender, 600, &outcomes);
        close(sender.target(), 992_000.0 * 1.15625);
    }

    /// A queue of 20 ms moves x from 0 to 20 ms: 1 Mbit/s loses 0.5 x 2 x 20/500 of it, and 0.5 x 0.2 x 5/500.
    #[test]
    fn a_queue_moves_the_rate_gradually() {
        let mut sender = Sender::new(&Params { start_rate: 1e6, ..Params::default() });
        sender.updated = Some(at(900));
        sender.base = 0.05;
        let outcomes: Vec<_> = (0..15).map(|number| arrived(number, 900 + number, 70)).collect();
        report(&mut sender, 1000, &outcomes);
        close(sender.target(), 1e6 - 40_000.0 - 1000.0);
    }

    /// Packets 100 and 101 are one event, 300 the next: intervals of 100 and 200.
    #[test]
    fn loss_intervals_are_those_of_tfrc() {
        let mut losses = Losses::default();
        losses.lose(100, at(1000), 0.1);
        losses.lose(101, at(1010), 0.1);
        losses.lose(300, at(3000), 0.1);
        assert_eq!(losses.intervals, [200.0, 100.0]);
        close(losses.mean(), 150.0);
        losses.next = 1000;
        close(losses.mean(), (700.0 + 200.0 + 100.0) / 3.0);
    }
}
