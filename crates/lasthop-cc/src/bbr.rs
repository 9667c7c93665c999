//! BBR version 1: a model of the path in place of a reaction to losses (Cardwell et al., ACM Queue 14(5), 2016).
//!
//! *What it does.* It estimates the bottleneck's rate (the maximum delivery rate of the last ten round trips) and the
//! path's RTT without queueing (the minimum of the last ten seconds), paces at the first and keeps about twice their
//! product in flight. It starts by doubling the rate until that no longer grows, drains the queue this made, then
//! cycles: a round trip 25 % faster to look for more, one 25 % slower, six at the estimate. Every ten seconds it falls
//! to four segments for 200 ms to see the empty path. `extra_acked` compensates for ACKs that are delayed and come in
//! bursts, as on 802.11 links.
//! *Reacts to* the delivery rate and the RTT. After a loss it uses packet conservation for one round trip.
//! *Differs from the paper:* details follow Linux: the pacing margin, `extra_acked`, conservation in the first round
//! of recovery, phase changes by the data that will be in flight when pacing releases the next segment. `start_phase`
//! replaces the random phase with which the gain cycle begins. `policer` is Linux's filter against token buckets that
//! drop what exceeds them: where a fifth is lost in two intervals of four to sixteen round trips, and both deliver at
//! about one rate, it sends at that rate for 48 round trips of the gain cycle and looks again.
//! *Validation:* TV-11.5, TV-11.8; state-machine tests in this file; a run over 10 Mbit/s and 40 ms in `tests/bbr.rs`
//! of `lasthop-sim`. Behind policers of 2, 5 and 15 Mbit/s it retransmits 1 to 9 % more than Linux 6.1 in virtual time,
//! which is within what runs vary.
//! *Limitations:* the first RTT is that of the handshake, whose packets are short. Only a lower one or the end of its
//! ten seconds replaces it, so that a simulated path without noise does enter `ProbeRTT`; without SACK, deliveries
//! during recovery are seen late.
//! *Kernel counterpart:* `tcp_bbr` of Linux 4.9 and later.
//! *References:* Cardwell, Cheng, Gunn, Hassas Yeganeh & Jacobson, ACM Queue 14(5), 2016.

use lasthop_core::time::{Span, Time};

use crate::params::params;
use crate::round_max::RoundMax;
use crate::{
    AckSample, CongestionControl, LossSample, LostSegment, Needs, RateSample, RecoveryKind, Reduction, Start,
    Window, train,
};

pub(crate) const SUMMARY: &str = "Model-based: paces at the measured rate of the bottleneck (BBR v1, 2016)";

params! {
    /// Gain of pacing and window during startup; 2/ln 2 doubles the rate in each round trip
    startup_gain: f64 = 2.885, 1.1..=10.0;
    /// Gain of the congestion window outside startup
    cwnd_gain: f64 = 2.0, 1.0..=10.0;
    /// Pacing gain of the phase that probes for more bandwidth
    probe_gain: f64 = 1.25, 1.0..=3.0;
    /// Pacing gain of the phase that drains the queue of the probe
    drain_gain: f64 = 0.75, 0.1..=1.0;
    /// Pacing rate as a share of the estimated rate (Linux: 1 % below the estimate)
    pacing_margin: f64 = 0.99, 0.5..=1.0;
    /// Seconds after which the minimum RTT expires
    rtt_window: f64 = 10.0, 1.0..=1000.0;
    /// Minimum length of a ProbeRTT phase, in seconds
    probe_rtt: f64 = 0.2, 0.01..=10.0;
    /// Make up for ACKs that come in bursts
    extra_acked: bool = true, 0.0..=1.0;
    /// Segments that the sender's offload may hold, counted three times in the window; 0 takes what Linux hands to it
    /// at once: as many as leave in a millisecond, at least two, or one below 1.2 Mbit/s
    offload: f64 = 1.0, 0.0..=100.0;
    /// Phase of the gain cycle to begin with: 1 probes, 2 drains, 3 to 8 cruise; 0 takes one from the number of
    /// segments delivered
    start_phase: f64 = 0.0, 0.0..=8.0;
    /// Send at the rate that a policer lets through, once losses show one
    policer: bool = true, 0.0..=1.0;
}

/// Round trips over which the greatest rate counts.
const RATE_ROUNDS: u64 = 10;
/// Phases of the gain cycle: probe, drain, and cruising for the rest.
const PHASES: usize = 8;
/// Round trips over which the greatest excess of ACKs counts: two halves of this.
const EXCESS_ROUNDS: u32 = 5;
/// The excess is never credited with more than this much time of the bottleneck.
const MOST_EXCESS_S: f64 = 0.1;
/// Segments in flight while the empty path is measured, and least window at all other times.
const LEAST_WINDOW: f64 = 4.0;
/// The pipe is full when the rate has not grown by this in this many rounds.
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;

/// An interval in which a policer is looked for has at least this many round trips, and at most four times as many.
const POLICED_ROUNDS: u32 = 4;
/// Least share of losses in it, of what was delivered.
const POLICED_LOSS: f64 = 50.0 / 256.0;
/// Two intervals have one rate if theirs differ by no more than this share, or by this many bytes per second.
const POLICED_SHARE: f64 = 0.125;
const POLICED_BYTES: f64 = 500.0;
/// Round trips of the gain cycle after which a policer is looked for again.
const POLICED_FOR: u32 = 48;

/// Segments delivered and found lost so far, and when the last was delivered.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    delivered: u64,
    lost: u64,
    at: Time,
}

/// The search for a policer (`bbr_lt_bw_sampling`).
#[derive(Clone, Debug, Default)]
struct Policer {
    /// Delivery rate of the last interval.
    rate: Option<f64>,
    /// Whether two intervals agreed, so that `rate` is what the policer lets through.
    found: bool,
    /// Where the interval began, with a loss, if one has; its round trips so far.
    from: Option<Progress>,
    rounds: u32,
}

impl Policer {
    /// The interval has ended at `rate`; the next one begins here unless they agree.
    fn end(&mut self, rate: f64, mss: u32, here: Progress) {
        let agrees = |before: f64| {
            let apart = (rate - before).abs();
            apart <= POLICED_SHARE * before || apart * f64::from(mss) <= POLICED_BYTES
        };
        let before = self.rate.filter(|&before| agrees(before));
        self.found = before.is_some();
        self.rate = Some(before.map_or(rate, |before| f64::midpoint(rate, before)));
        (self.from, self.rounds) = (Some(here), 0);
    }
}

/// What the sender is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBandwidth,
    ProbeRtt,
}

/// State of BBR; rates in segments per second.
#[derive(Clone, Debug)]
pub struct Bbr {
    params: Params,
    mode: Mode,
    rate: RoundMax,
    policer: Policer,
    progress: Progress,
    /// A timeout was answered, and its losses are noted before the next ACK.
    timed_out: bool,
    /// Least RTT, in seconds, and when it was measured; infinite before the first sample.
    min_rtt: f64,
    min_rtt_at: Time,
    /// Round trips: a new one starts with the delivery of what was sent after `next_round` deliveries.
    round: u64,
    next_round: u64,
    round_start: bool,
    // Whether the pipe is full.
    full_rate: f64,
    full_count: u32,
    full: bool,
    // The gain cycle.
    phase: usize,
    phase_at: Time,
    // ProbeRTT: when it may end, whether a round has passed at the low window, and the deliveries meanwhile, which say
    // nothing about the rate.
    probe_until: Option<Time>,
    probe_round_done: bool,
    probe_delivered: Option<(u64, u64)>,
    /// Window before ProbeRTT or recovery.
    prior_window: f64,
    idle_restart: bool,
    // Recovery.
    recovery: Option<RecoveryKind>,
    conserve: bool,
    // Excess of ACKs over the estimated rate.
    excess_epoch: Time,
    excess_acked: f64,
    excess: [f64; 2],
    excess_half: usize,
    excess_rounds: u32,
    pacing: f64,
    /// Whether `pacing` rests on an RTT.
    pacing_known: bool,
    initial_window: f64,
    /// Bytes of a segment.
    mss: u32,
}

impl Bbr {
    pub(crate) fn new(params: &Params) -> Self {
        Bbr {
            params: params.clone(),
            mode: Mode::Startup,
            rate: RoundMax::default(),
            policer: Policer::default(),
            progress: Progress::default(),
            timed_out: false,
            min_rtt: f64::INFINITY,
            min_rtt_at: Time::ZERO,
            round: 0,
            next_round: 0,
            round_start: false,
            full_rate: 0.0,
            full_count: 0,
            full: false,
            phase: 0,
            phase_at: Time::ZERO,
            probe_until: None,
            probe_round_done: false,
            probe_delivered: None,
            prior_window: 0.0,
            idle_restart: false,
            recovery: None,
            conserve: false,
            excess_epoch: Time::ZERO,
            excess_acked: 0.0,
            excess: [0.0; 2],
            excess_half: 0,
            excess_rounds: 0,
            pacing: 0.0,
            pacing_known: false,
            initial_window: 10.0,
            mss: 1448,
        }
    }

    /// The rate to send at: that of the path, or what a policer lets through.
    fn bandwidth(&self) -> f64 {
        self.policer.rate.filter(|_| self.policer.found).unwrap_or(self.rate.max())
    }

    fn pacing_gain(&self) -> f64 {
        match self.mode {
            // Not to be dropped.
            Mode::ProbeBandwidth if self.policer.found => 1.0,
            Mode::Startup => self.params.startup_gain,
            Mode::Drain => 1.0 / self.params.startup_gain,
            Mode::ProbeBandwidth => match self.phase {
                0 => self.params.probe_gain,
                1 => self.params.drain_gain,
                _ => 1.0,
            },
            Mode::ProbeRtt => 1.0,
        }
    }

    fn window_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup | Mode::Drain => self.params.startup_gain,
            Mode::ProbeBandwidth => self.params.cwnd_gain,
            Mode::ProbeRtt => 1.0,
        }
    }

    /// Segments to have in flight for `gain` times the product of rate and RTT, and `extra` on top.
    fn inflight(&self, gain: f64, extra: f64) -> f64 {
        self.inflight_at(self.bandwidth(), gain, extra)
    }

    /// The same at another rate.
    fn inflight_at(&self, rate: f64, gain: f64, extra: f64) -> f64 {
        if self.min_rtt.is_infinite() {
            return self.initial_window;
        }
        let product = (gain * rate * self.min_rtt).ceil() + extra;
        // Room for what the hosts' offloads hold back, and an even number so that delayed ACKs come in time.
        let budget = product + 3.0 * self.offload();
        let even = (budget / 2.0).ceil() * 2.0;
        if self.mode == Mode::ProbeBandwidth && self.phase == 0 { even + 2.0 } else { even }
    }

    /// Of `flight` segments, those that will be in the network when pacing lets the next one leave
    /// (`bbr_packets_in_net_at_edt`). A probe counts what leaves then, too.
    fn when_next_leaves(&self, sample: &RateSample, flight: f64) -> f64 {
        let leaves = if self.pacing_gain() > 1.0 { self.offload() } else { 0.0 };
        let delivered = (self.bandwidth() * sample.held_back.seconds()).floor();
        (flight + leaves - delivered).max(0.0)
    }

    /// Segments that the offload may hold.
    fn offload(&self) -> f64 {
        if self.params.offload >= 1.0 {
            return self.params.offload.trunc();
        }
        let shortest = train::shortest(self.pacing * f64::from(self.mss) * 8.0);
        (self.pacing / train::PER_SECOND).floor().clamp(shortest, 127.0)
    }

    fn save_window(&mut self, window: &Window) {
        self.prior_window = if self.recovery.is_none() && self.mode != Mode::ProbeRtt {
            window.cwnd
        } else {
            self.prior_window.max(window.cwnd)
        };
    }

    /// Steps 1 and 2: rounds and rate.
    fn update_rate(&mut self, sample: &RateSample) {
        self.round_start = false;
        let Some((segments, interval)) = sample.rate.filter(|&(_, interval)| interval > Span::ZERO) else {
            return;
        };
        if sample.prior_delivered >= self.next_round {
            self.next_round = sample.delivered;
            self.round += 1;
            self.round_start = true;
            self.conserve = false;
        }
        self.look_for_policer(sample.lost > 0, self.is_app_limited(sample));
        if self.policer.found && self.policer.rounds >= POLICED_FOR {
            self.policer = Policer::default();
            self.start_cycle(sample);
        }
        let rate = segments as f64 / interval.seconds();
        if !self.is_app_limited(sample) || rate >= self.rate.max() {
            self.rate.insert(self.round, rate, RATE_ROUNDS);
        }
    }

    /// What losses tell of a policer. Its interval begins and ends with one: then its bucket is empty.
    fn look_for_policer(&mut self, lost_now: bool, app_limited: bool) {
        if !self.params.policer {
            return;
        }
        let here = self.progress;
        let policer = &mut self.policer;
        if policer.found {
            policer.rounds += u32::from(self.mode == Mode::ProbeBandwidth && self.round_start);
            return;
        }
        if policer.from.is_none() && !lost_now {
            return;
        }
        let from = *policer.from.get_or_insert(here);
        policer.rounds += u32::from(self.round_start);
        if app_limited || policer.rounds > 4 * POLICED_ROUNDS {
            *policer = Policer::default();
            return;
        }
        let arrived = (here.delivered - from.delivered) as f64;
        let gone = (here.lost - from.lost) as f64;
        let interval = here.at.since(from.at);
        let enough = policer.rounds >= POLICED_ROUNDS && arrived > 0.0 && interval >= Span::from_millis(1);
        if enough && lost_now && gone >= POLICED_LOSS * arrived {
            policer.end(arrived / interval.seconds(), self.mss, here);
        }
    }

    /// Whether the sample measures something else than the path: the application, or ProbeRTT's small window.
    fn is_app_limited(&self, sample: &RateSample) -> bool {
        let own =
            self.probe_delivered.is_some_and(|(from, to)| (from..=to).contains(&sample.prior_delivered));
        sample.app_limited || own
    }

    /// Step 3: by how much ACKs have run ahead of the estimated rate.
    fn update_excess(&mut self, sample: &RateSample, window: &Window) {
        if !self.params.extra_acked || sample.acked == 0 || sample.rate.is_none() {
            return;
        }
        if self.round_start {
            self.excess_rounds += 1;
            if self.excess_rounds >= EXCESS_ROUNDS {
                self.excess_rounds = 0;
                self.excess_half ^= 1;
                self.excess[self.excess_half] = 0.0;
            }
        }
        let mut expected = (self.bandwidth() * sample.now.since(self.excess_epoch).seconds()).floor();
        if self.excess_acked <= expected {
            self.excess_acked = 0.0;
            self.excess_epoch = sample.now;
            expected = 0.0;
        }
        self.excess_acked += f64::from(sample.acked);
        let extra = (self.excess_acked - expected).min(window.cwnd);
        let greatest = &mut self.excess[self.excess_half];
        *greatest = greatest.max(extra);
    }

    /// Step 4: the gain cycle.
    fn update_phase(&mut self, sample: &RateSample) {
        if self.mode != Mode::ProbeBandwidth {
            return;
        }
        let long = sample.now.since(self.phase_at).seconds() > self.min_rtt;
        let before = self.when_next_leaves(sample, f64::from(sample.prior_flight));
        let gain = self.pacing_gain();
        let advance = if gain > 1.0 {
            // Until the queue that the probe makes is there, or the buffer overflows.
            long && (sample.lost > 0 || before >= self.inflight(gain, 0.0))
        } else if gain < 1.0 {
            long || before <= self.inflight(1.0, 0.0)
        } else {
            long
        };
        if advance {
            self.phase = (self.phase + 1) % PHASES;
            self.phase_at = sample.now;
        }
    }

    /// Steps 5 and 6: whether the pipe is full, and what follows from that.
    fn check_full(&mut self, sample: &RateSample, window: &mut Window) {
        if !self.full && self.round_start && !self.is_app_limited(sample) {
            if self.rate.max() >= FULL_GROWTH * self.full_rate {
                self.full_rate = self.rate.max();
                self.full_count = 0;
            } else {
                self.full_count += 1;
                self.full = self.full_count >= FULL_ROUNDS;
            }
        }
        if self.mode == Mode::Startup && self.full {
            self.mode = Mode::Drain;
            window.ssthresh = self.inflight_at(self.rate.max(), 1.0, 0.0);
        }
        if self.mode == Mode::Drain
            && self.when_next_leaves(sample, f64::from(sample.flight))
                <= self.inflight_at(self.rate.max(), 1.0, 0.0)
        {
            self.start_cycle(sample);
        }
    }

    fn start_cycle(&mut self, sample: &RateSample) {
        self.mode = Mode::ProbeBandwidth;
        self.phase_at = sample.now;
        self.phase = match self.params.start_phase as usize {
            // Any but the draining one, as the authors do; the number of deliveries differs from flow to flow.
            0 => [0, 2, 3, 4, 5, 6, 7][(sample.delivered % 7) as usize],
            phase => phase - 1,
        };
    }

    /// Step 7: the minimum RTT, and the visits to the empty path.
    fn update_min_rtt(&mut self, sample: &RateSample, window: &mut Window) {
        let now = sample.now;
        let known = self.min_rtt.is_finite();
        let expired = known && now.since(self.min_rtt_at).seconds() > self.params.rtt_window;
        if let Some(rtt) = sample.rtt.map(Span::seconds)
            && (rtt < self.min_rtt || (expired && !sample.maybe_delayed))
        {
            self.min_rtt = rtt;
            self.min_rtt_at = now;
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.save_window(window);
            self.mode = Mode::ProbeRtt;
            self.probe_until = None;
            self.probe_delivered = Some((sample.delivered, sample.delivered));
        }
        if self.mode == Mode::ProbeRtt {
            if let Some((_, until)) = &mut self.probe_delivered {
                *until = sample.delivered + u64::from(sample.flight);
            }
            match self.probe_until {
                None if f64::from(sample.flight) <= LEAST_WINDOW => {
                    self.probe_until = Some(now + Span::from_seconds(self.params.probe_rtt));
                    self.probe_round_done = false;
                    self.next_round = sample.delivered;
                }
                None => {}
                Some(until) => {
                    self.probe_round_done |= self.round_start;
                    if self.probe_round_done && now > until {
                        self.leave_probe_rtt(sample, window);
                    }
                }
            }
        }
        if sample.acked > 0 {
            self.idle_restart = false;
        }
    }

    fn leave_probe_rtt(&mut self, sample: &RateSample, window: &mut Window) {
        self.min_rtt_at = sample.now;
        window.cwnd = window.cwnd.max(self.prior_window);
        if self.full {
            self.start_cycle(sample);
        } else {
            self.mode = Mode::Startup;
        }
    }

    /// Step 8.
    fn update_pacing(&mut self, sample: &RateSample, window: &Window) {
        if !self.pacing_known && sample.srtt > Span::ZERO {
            self.pacing_known = true;
            self.pacing = self.params.startup_gain * window.cwnd / sample.srtt.seconds();
        }
        let rate = self.params.pacing_margin * self.pacing_gain() * self.bandwidth();
        if rate > 0.0 && (self.full || rate > self.pacing) {
            self.pacing = rate;
        }
    }

    /// Step 9.
    fn update_window(&mut self, sample: &RateSample, window: &mut Window) {
        let before = std::mem::replace(&mut self.recovery, sample.recovery);
        let acked = f64::from(sample.acked);
        // What is in flight may exceed the window just after that fell; it is no reason to raise it.
        let conserved = (f64::from(sample.flight) + acked).min(window.cwnd + acked);
        if sample.lost > 0 {
            window.cwnd = (window.cwnd - f64::from(sample.lost)).max(1.0);
        }
        if sample.recovery == Some(RecoveryKind::Fast) && before != sample.recovery {
            self.conserve = true;
            self.next_round = sample.delivered;
            window.cwnd = conserved;
        } else if before.is_some() && sample.recovery.is_none() {
            self.conserve = false;
            window.cwnd = window.cwnd.max(self.prior_window);
        }
        if sample.acked > 0 {
            if self.conserve {
                window.cwnd = window.cwnd.max(conserved);
            } else {
                let most = MOST_EXCESS_S * self.bandwidth();
                let extra =
                    if self.full { self.excess[0].max(self.excess[1]).min(most).floor() } else { 0.0 };
                let target = self.inflight(self.window_gain(), extra);
                if self.full {
                    window.cwnd = (window.cwnd + acked).min(target);
                } else if window.cwnd < target || (sample.delivered as f64) < self.initial_window {
                    window.cwnd += acked;
                }
                window.cwnd = window.cwnd.max(LEAST_WINDOW);
            }
        }
        if self.mode == Mode::ProbeRtt {
            window.cwnd = window.cwnd.min(LEAST_WINDOW);
        }
        window.cwnd = window.cwnd.max(1.0);
    }
}

impl CongestionControl for Bbr {
    fn needs(&self) -> Needs {
        Needs { rate: true, pacing: true, ..Needs::default() }
    }

    fn on_start(&mut self, start: &Start<'_>, window: &mut Window) {
        self.mss = start.mss;
        self.initial_window = window.cwnd;
        // The packets of a handshake are short: its RTT is often the least of all.
        let handshake = start.handshake.seconds();
        self.pacing_known = handshake > 0.0;
        if self.pacing_known {
            self.min_rtt = handshake;
            self.min_rtt_at = start.now;
        }
        // Until the first RTT: as if it were a millisecond.
        let rtt = if self.pacing_known { handshake } else { 0.001 };
        self.pacing = self.params.startup_gain * window.cwnd / rtt;
    }

    fn on_ack(&mut self, _ack: &AckSample, _window: &mut Window) {}

    fn on_lost_segment(&mut self, _lost: &LostSegment, _window: &Window) {
        self.progress.lost += 1;
    }

    fn on_rate(&mut self, sample: &RateSample, window: &mut Window) {
        if std::mem::take(&mut self.timed_out) {
            self.look_for_policer(true, false);
        }
        if sample.delivered > self.progress.delivered {
            (self.progress.delivered, self.progress.at) = (sample.delivered, sample.now);
        }
        self.update_rate(sample);
        self.update_excess(sample, window);
        self.update_phase(sample);
        self.check_full(sample, window);
        self.update_min_rtt(sample, window);
        self.update_pacing(sample, window);
        self.update_window(sample, window);
    }

    /// Losses do not reduce; `on_rate` keeps to packet conservation meanwhile.
    fn on_loss(&mut self, _loss: &LossSample, window: &Window) -> Reduction {
        self.save_window(window);
        Reduction::to(window.ssthresh.min(window.cwnd), window.cwnd)
    }

    /// Nothing is known to be in the network: the next ACKs open the window again.
    fn on_timeout(&mut self, _loss: &LossSample, window: &Window) -> Reduction {
        self.save_window(window);
        self.recovery = Some(RecoveryKind::Timeout);
        self.full_rate = 0.0;
        self.round_start = true;
        self.timed_out = true;
        self.conserve = false;
        Reduction::to(window.ssthresh.min(window.cwnd), 1.0)
    }

    /// BBR v1 does not answer marks.
    fn on_ecn(&mut self, _loss: &LossSample, window: &Window) -> Reduction {
        Reduction::to(window.ssthresh.min(window.cwnd), window.cwnd)
    }

    /// What has been measured meanwhile stays; whether the pipe is full, and whether there is a policer, is asked anew
    /// (`bbr_undo_cwnd`).
    fn on_undo(&mut self, _before: Self) {
        self.full_rate = 0.0;
        self.full_count = 0;
        self.policer = Policer::default();
    }

    fn on_idle(&mut self, _idle: Span, _now: Time) {
        self.idle_restart = true;
        if self.mode == Mode::ProbeBandwidth {
            // No burst above the estimate after the pause.
            self.pacing = self.params.pacing_margin * self.bandwidth();
        }
    }

    fn pacing_rate(&self) -> Option<f64> {
        (self.pacing > 0.0).then_some(self.pacing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path of 10 Mbit/s for packets of 1500 B (833.33 segments/s) and 40 ms.
    const RATE: f64 = 10e6 / 12_000.0;
    const BEGINNING: Start<'_> =
        Start { now: Time::ZERO, history: &[], handshake: Span::from_millis(40), mss: 1448 };

    /// A sender that has measured the path and cruises at `seconds`.
    fn cruising(seconds: u64) -> (Bbr, Window) {
        let mut bbr = Bbr::new(&Params { start_phase: 3.0, extra_acked: false, ..Params::default() });
        let mut window = Window { cwnd: 10.0, ssthresh: f64::INFINITY };
        bbr.on_start(&BEGINNING, &mut window);
        bbr.rate.insert(0, RATE, RATE_ROUNDS);
        bbr.min_rtt = 0.04;
        bbr.min_rtt_at = Time::ZERO;
        bbr.full = true;
        bbr.mode = Mode::Drain;
        bbr.start_cycle(&sample(Time::ZERO + Span::from_secs(seconds)));
        window.cwnd = 70.0;
        (bbr, window)
    }

    /// An ACK of one segment with a rate of [`RATE`] and an RTT of 40 ms, within a round.
    fn sample(now: Time) -> RateSample {
        RateSample {
            now,
            rate: Some((100, Span::from_seconds(100.0 / RATE))),
            app_limited: false,
            prior_delivered: 0,
            delivered: 1000,
            acked: 1,
            lost: 0,
            prior_flight: 34,
            flight: 33,
            rtt: Some(Span::from_millis(40)),
            maybe_delayed: false,
            srtt: Span::from_millis(40),
            recovery: None,
            mss: 1448,
            tx_in_flight: 34,
            lost_since: 0,
            held_back: Span::ZERO,
            window_limited: true,
            selective: true,
        }
    }

    fn millis(value: u64) -> Time {
        Time::ZERO + Span::from_millis(value)
    }

    /// Round trips of 40 ms at 1000 segments per second, of which a policer drops `dropped` of every 50 that are sent;
    /// the losses come with the last ACK of a round.
    fn policed(bbr: &mut Bbr, window: &mut Window, rounds: std::ops::Range<u64>, dropped: u64) {
        for round in rounds {
            let arrived = 50 - dropped;
            bbr.progress.lost += dropped;
            bbr.on_rate(
                &RateSample {
                    rate: Some((arrived, Span::from_millis(40))),
                    prior_delivered: bbr.next_round,
                    delivered: bbr.progress.delivered + arrived,
                    lost: dropped as u32,
                    ..sample(millis(40 * (round + 1)))
                },
                window,
            );
        }
    }

    /// TV-11.8: 12 of 50 lost is more than 50/256 of the 38 that arrive. The first loss begins an interval; four round
    /// trips later it ends, and four later the second: 38 segments in 40 ms both times. From then on that is the rate,
    /// without probes, for 48 round trips.
    #[test]
    fn two_intervals_at_one_rate_show_a_policer() {
        let (mut bbr, mut window) = cruising(0);
        policed(&mut bbr, &mut window, 0..4, 12);
        assert_eq!((bbr.policer.found, bbr.policer.rate), (false, Some(950.0)), "120 ms of 3 round trips");
        policed(&mut bbr, &mut window, 4..8, 12);
        assert!(bbr.policer.found);
        assert!((bbr.bandwidth() - 950.0).abs() < 1e-9 && bbr.rate.max() >= 950.0);
        bbr.phase = 0;
        assert_eq!(bbr.pacing_gain(), 1.0);
        policed(&mut bbr, &mut window, 8..55, 0);
        assert!(bbr.policer.found);
        policed(&mut bbr, &mut window, 55..56, 0);
        assert!(!bbr.policer.found && bbr.policer.rate.is_none());
    }

    /// Losses of a sixth, an interval without them for more than sixteen round trips, or a parameter: no policer.
    #[test]
    fn losses_below_the_threshold_show_none() {
        let (mut bbr, mut window) = cruising(0);
        policed(&mut bbr, &mut window, 0..40, 8);
        assert!(!bbr.policer.found, "8 of 42 is less than 50 of 256");
        policed(&mut bbr, &mut window, 40..41, 12);
        policed(&mut bbr, &mut window, 41..60, 0);
        assert!(bbr.policer.from.is_none(), "too long");
        let (mut bbr, mut window) = cruising(0);
        bbr.params.policer = false;
        policed(&mut bbr, &mut window, 0..40, 12);
        assert!(bbr.policer.rate.is_none());
    }

    /// TV-11.5: 33.33 segments fill the path.
    #[test]
    fn window_and_pace_of_a_known_path() {
        let (mut bbr, _) = cruising(0);
        assert_eq!(bbr.inflight(2.0, 0.0), 70.0, "67 + 3");
        bbr.params.offload = 2.0;
        assert_eq!(bbr.inflight(2.0, 0.0), 74.0, "67 + 6, made even");
        bbr.params.offload = 1.0;
        bbr.phase = 0;
        assert_eq!(bbr.inflight(2.0, 0.0), 72.0, "two more while probing");
        bbr.phase = 2;
        bbr.update_pacing(&sample(millis(0)), &Window { cwnd: 70.0, ssthresh: 70.0 });
        assert!((bbr.pacing * 12_000.0 - 9.9e6).abs() < 1e-3);
    }

    /// Three rounds without a quarter more end startup, the queue is drained, and the cycle begins.
    #[test]
    fn startup_ends_when_the_rate_stops_growing() {
        let mut bbr = Bbr::new(&Params { start_phase: 1.0, ..Params::default() });
        let mut window = Window { cwnd: 10.0, ssthresh: f64::INFINITY };
        bbr.on_start(&BEGINNING, &mut window);
        assert!((bbr.pacing - 721.25).abs() < 1e-6, "2.885 x 10 / 40 ms");
        let mut modes = Vec::new();
        let mut delivered = 0;
        for (round, rate) in [100u64, 200, 400, 800, 830, 830, 830].into_iter().enumerate() {
            let prior_delivered = delivered;
            delivered += rate / 20;
            bbr.on_rate(
                &RateSample {
                    rate: Some((rate, Span::from_secs(1))),
                    prior_delivered,
                    delivered,
                    flight: 90,
                    ..sample(millis(40 * round as u64 + 40))
                },
                &mut window,
            );
            modes.push(bbr.mode);
        }
        assert_eq!(modes[..6], [Mode::Startup; 6]);
        assert_eq!(modes[6], Mode::Drain, "830, 830, 830 after 800");
        assert!((bbr.pacing - 0.99 / 2.885 * 830.0).abs() < 1e-9);
        assert_eq!(window.ssthresh, 38.0, "ceil(33.2) + 3, made even");
        bbr.on_rate(&RateSample { flight: 38, ..sample(millis(400)) }, &mut window);
        assert_eq!((bbr.mode, bbr.phase), (Mode::ProbeBandwidth, 0));
    }

    /// Without an RTT of a handshake the first sample counts.
    #[test]
    fn the_handshake_is_the_first_rtt() {
        let mut window = Window { cwnd: 10.0, ssthresh: f64::INFINITY };
        let mut bbr = Bbr::new(&Params::default());
        bbr.on_start(&BEGINNING, &mut window);
        bbr.on_rate(&RateSample { rtt: Some(Span::from_millis(42)), ..sample(millis(83)) }, &mut window);
        assert_eq!((bbr.min_rtt, bbr.min_rtt_at), (0.04, Time::ZERO));
        let mut window = Window { cwnd: 10.0, ssthresh: f64::INFINITY };
        let mut bbr = Bbr::new(&Params::default());
        bbr.on_start(&Start { handshake: Span::ZERO, ..BEGINNING }, &mut window);
        assert!((bbr.pacing - 28_850.0).abs() < 1e-6, "2.885 x 10 / 1 ms");
        bbr.on_rate(&RateSample { rtt: Some(Span::from_millis(42)), ..sample(millis(42)) }, &mut window);
        assert_eq!(bbr.min_rtt, 0.042);
    }

    /// Samples of a sender that had nothing to send neither end startup nor lower the estimate.
    #[test]
    fn the_application_is_not_taken_for_the_path() {
        let (mut bbr, mut window) = cruising(0);
        bbr.full = false;
        bbr.mode = Mode::Startup;
        for round in 1..20 {
            let slow = RateSample {
                rate: Some((10, Span::from_secs(1))),
                app_limited: true,
                prior_delivered: 1000 * round,
                delivered: 1000 * round + 10,
                ..sample(millis(40 * round))
            };
            bbr.on_rate(&slow, &mut window);
        }
        assert_eq!((bbr.rate.max(), bbr.full_count, bbr.mode), (RATE, 0, Mode::Startup));
    }

    /// The probe lasts until its queue is there, the drain until it is gone, cruising a round trip.
    #[test]
    fn phases_of_the_gain_cycle() {
        let (mut bbr, _) = cruising(0);
        let at =
            |millis_: u64, prior_flight, lost| RateSample { lost, prior_flight, ..sample(millis(millis_)) };
        bbr.phase = 0;
        bbr.update_phase(&at(50, 40, 0));
        assert_eq!(bbr.phase, 0, "ceil(41.7) + 3 + 2, made even, are 48");
        bbr.update_phase(&at(30, 47, 0));
        assert_eq!(bbr.phase, 0, "not before a round trip");
        bbr.update_phase(&at(50, 46, 0));
        assert_eq!(bbr.phase, 0);
        let mut full = bbr.clone();
        full.update_phase(&at(50, 47, 0));
        assert_eq!(full.phase, 1, "the segment that leaves next is the 48th");
        let held_back = Span(2_400_000);
        bbr.update_phase(&RateSample { held_back, ..at(50, 48, 0) });
        assert_eq!(bbr.phase, 0, "two will have arrived when it leaves");
        bbr.update_phase(&at(50, 40, 1));
        assert_eq!(bbr.phase, 1, "a loss ends it");
        bbr.update_phase(&at(60, 40, 0));
        assert_eq!(bbr.phase, 1);
        bbr.update_phase(&at(61, 38, 0));
        assert_eq!(bbr.phase, 2, "ceil(33.3) + 3, made even");
        bbr.update_phase(&at(101, 38, 0));
        assert_eq!(bbr.phase, 2);
        bbr.update_phase(&at(102, 38, 0));
        assert_eq!(bbr.phase, 3);
    }

    /// After ten seconds in which the RTT tied exactly: four segments for 200 ms and a round trip, then the old window.
    #[test]
    fn the_empty_path_is_visited_every_ten_seconds() {
        let (mut bbr, mut window) = cruising(0);
        bbr.on_rate(&sample(millis(10_000)), &mut window);
        assert_eq!(bbr.mode, Mode::ProbeBandwidth);
        bbr.on_rate(&sample(millis(10_001)), &mut window);
        assert_eq!((bbr.mode, window.cwnd), (Mode::ProbeRtt, 4.0));
        bbr.on_rate(&RateSample { flight: 4, ..sample(millis(10_100)) }, &mut window);
        let low = |now, prior_delivered| RateSample {
            rate: Some((4, Span::from_millis(40))),
            flight: 4,
            prior_delivered,
            delivered: prior_delivered + 4,
            ..sample(millis(now))
        };
        bbr.on_rate(&low(10_299, 1000), &mut window);
        assert_eq!((bbr.mode, window.cwnd), (Mode::ProbeRtt, 4.0), "199 ms");
        assert_eq!(bbr.rate.max(), RATE, "the small window is not the path");
        bbr.on_rate(&low(10_301, 1004), &mut window);
        assert_eq!((bbr.mode, window.cwnd), (Mode::ProbeBandwidth, 70.0));
        bbr.on_rate(&sample(millis(20_301)), &mut window);
        assert_eq!(bbr.mode, Mode::ProbeBandwidth);
        bbr.on_rate(&sample(millis(20_302)), &mut window);
        assert_eq!(bbr.mode, Mode::ProbeRtt, "ten seconds after the last visit ended");
    }

    #[test]
    fn a_sender_that_was_idle_does_not_visit_the_empty_path() {
        let (mut bbr, mut window) = cruising(0);
        bbr.on_idle(Span::from_secs(15), Time::ZERO);
        bbr.on_rate(&sample(millis(15_000)), &mut window);
        assert_eq!(bbr.mode, Mode::ProbeBandwidth, "the first RTT after the pause is as good");
        assert_eq!(bbr.min_rtt_at, millis(15_000));
    }

    /// The first round of recovery sends what leaves; then the window returns.
    #[test]
    fn recovery_conserves_packets() {
        let (mut bbr, mut window) = cruising(0);
        let loss = LossSample { now: millis(1), flight: 60.0, retransmitted: false, truth: None };
        assert_eq!(bbr.on_loss(&loss, &window).cwnd, 70.0);
        let fast = |flight, lost, prior_delivered| RateSample {
            flight,
            lost,
            prior_delivered,
            recovery: Some(RecoveryKind::Fast),
            ..sample(millis(2))
        };
        bbr.on_rate(&fast(50, 3, 900), &mut window);
        assert_eq!(window.cwnd, 51.0, "flight and what was acknowledged");
        bbr.on_rate(&fast(50, 2, 900), &mut window);
        assert_eq!(window.cwnd, 51.0, "two lost, but not below the flight");
        bbr.on_rate(&RateSample { delivered: 1100, ..fast(40, 0, 1000) }, &mut window);
        assert_eq!(window.cwnd, 52.0, "a round later it grows again");
        bbr.on_rate(&sample(millis(3)), &mut window);
        assert_eq!(window.cwnd, 70.0, "restored at the end");
    }

    #[test]
    fn a_timeout_starts_from_one_segment() {
        let (mut bbr, mut window) = cruising(0);
        let loss = LossSample { now: millis(1), flight: 60.0, retransmitted: false, truth: None };
        let reduction = bbr.on_timeout(&loss, &window);
        assert_eq!((reduction.cwnd, bbr.full_rate), (1.0, 0.0));
        window.cwnd = 1.0;
        let timeout = RateSample { flight: 1, recovery: Some(RecoveryKind::Timeout), ..sample(millis(2)) };
        bbr.on_rate(&timeout, &mut window);
        assert_eq!(window.cwnd, 4.0);
        bbr.on_rate(&sample(millis(3)), &mut window);
        assert_eq!(window.cwnd, 70.0);
    }

    /// ACKs for 20 segments at once every 24 ms: what comes ahead of the rate is added to the window.
    #[test]
    fn bursts_of_acks_raise_the_window() {
        let (mut bbr, mut window) = cruising(0);
        bbr.params.extra_acked = true;
        for burst in 1..10 {
            let sample = RateSample { acked: 20, ..sample(millis(24 * burst)) };
            bbr.on_rate(&sample, &mut window);
        }
        assert_eq!(bbr.excess, [20.0, 0.0]);
        assert_eq!(window.cwnd, 90.0, "67 + 20 + 3");
    }

    /// At 833 segments/s 2.5 are expected in 3 ms. Whole ones count: ten ahead by then, with two expected.
    #[test]
    fn whole_segments_are_expected() {
        let (mut bbr, mut window) = cruising(0);
        bbr.params.extra_acked = true;
        for (at, acked) in [(24, 6), (27, 6)] {
            bbr.on_rate(&RateSample { acked, ..sample(millis(at)) }, &mut window);
        }
        assert_eq!(bbr.excess[0], 10.0);
    }

    /// Nothing was lost: what was measured meanwhile stays, and the pipe has to be found full anew.
    #[test]
    fn an_undone_loss_leaves_the_model_alone() {
        let (mut bbr, mut window) = cruising(0);
        let before = bbr.clone();
        bbr.full_count = 2;
        for at in 1..40 {
            bbr.on_rate(&sample(millis(at)), &mut window);
        }
        let round = bbr.round;
        bbr.on_undo(before);
        assert_eq!((bbr.round, bbr.full_count, bbr.full_rate, bbr.full), (round, 0, 0.0, true));
    }
}
