//! BBR version 3: a model of the path with bounds that losses lower (draft-ietf-ccwg-bbr-06, text of August 2026).
//!
//! *What it does.* It paces at the maximum delivery rate of the last two cycles of probing and keeps twice the product
//! of that and the minimum RTT in flight. A cycle drains (0.9 of the rate), cruises at the rate, refills the pipe for
//! a round trip and then probes (1.25) until the rate no longer grows or more than 2 % of what was in flight is lost.
//! The data in flight at that time is the long-term bound, of which 15 % stay unused while cruising. Losses outside a
//! probe lower a short-term bound of rate and data in flight by 30 % per round trip, until the next probe. After five
//! seconds without a lower RTT the data in flight falls to half the product for 200 ms.
//! *Reacts to* the delivery rate, the RTT, and the share of losses in a round trip.
//! *Differs from the paper:* where the draft contradicts itself, both gains are set on entering any state, as in its
//! table; a drained path is one that holds BBR.bdp, as its prose has it, and not the product with the maximum rate, as
//! its IsTimeToCruise has it; the state to return to is saved once per episode of losses. Random values of the draft
//! come from a hash of time and deliveries, so that flows differ and runs repeat. The draft has no answer to ECN; here
//! a mark counts as a loss of a probe or a round, without repair.
//! *Validation:* TV-24.1 to TV-24.8 by hand from the draft; state machine below; runs in `tests/bbr3.rs` of
//! `lasthop-sim`.
//! *Limitations:* the draft's caution after a probe that was too much acts almost never: it wants the long-term bound
//! in flight when an ACK has been taken, and the window has that bound. The offload budget is one quantum, as for
//! QUIC, unless `offload` says otherwise. A path without noise never shows a lower RTT, so that even an
//! application-limited flow visits `ProbeRTT` every five seconds. Where such a visit begins in the first round trip
//! after a probe, the draft (`AdaptLongTermModel`) does not count that cycle, so that the maximum rate of earlier ones
//! stays: from 100 to 10 Mbit/s with a queue of two products of the first rate, every cycle ended so for 40 s, and the
//! queue stayed at 0.7 s.
//! *Kernel counterpart:* none; version 1 is `tcp_bbr`.
//! *References:* Cardwell, Swett and Beshay, draft-ietf-ccwg-bbr-06.

use lasthop_core::time::{Span, Time};

use crate::params::params;
use crate::round_max::RoundMax;
use crate::{
    AckSample, CongestionControl, Estimates, LossKind, LossSample, LostSegment, Needs, RateSample,
    RecoveryKind, Reduction, Start, Window,
};

pub(crate) const SUMMARY: &str = "Model-based with bounds that losses lower (BBRv3, draft-ietf-ccwg-bbr-06)";

params! {
    /// Pacing gain of startup
    startup_gain: f64 = 2.77, 1.1..=10.0;
    /// Pacing gain of the drain after startup
    drain_gain: f64 = 0.5, 0.1..=1.0;
    /// Gain of the congestion window outside of probes for bandwidth and ProbeRTT
    cwnd_gain: f64 = 2.0, 1.0..=10.0;
    /// Pacing gain of the phase that probes for more bandwidth
    probe_up_gain: f64 = 1.25, 1.0..=3.0;
    /// Gain of the congestion window in the phase that probes for more bandwidth
    probe_up_cwnd_gain: f64 = 2.25, 1.0..=10.0;
    /// Pacing gain of the phase after a probe for bandwidth
    probe_down_gain: f64 = 0.9, 0.1..=1.0;
    /// Pacing rate as a share of the estimated rate
    pacing_margin: f64 = 0.99, 0.5..=1.0;
    /// Loss ratio of the data in flight above which there was too much of it
    loss_threshold: f64 = 0.02, 0.0001..=0.9;
    /// Share of a bound that is kept when losses lower it
    beta: f64 = 0.7, 0.1..=0.99;
    /// Share of the long-term bound that stays free while cruising
    headroom: f64 = 0.15, 0.0..=0.9;
    /// Also lower the short-term bound of the data in flight after losses outside of probes
    short_term_flight: bool = true, 0.0..=1.0;
    /// Seconds after which the minimum RTT expires
    rtt_window: f64 = 10.0, 1.0..=1000.0;
    /// Time between two ProbeRTT phases, in seconds
    probe_rtt_interval: f64 = 5.0, 0.5..=1000.0;
    /// Minimum length of a ProbeRTT phase, in seconds
    probe_rtt: f64 = 0.2, 0.01..=10.0;
    /// Share of the bandwidth-delay product in flight during ProbeRTT
    probe_rtt_cwnd_gain: f64 = 0.5, 0.01..=2.0;
    /// Minimum time between probes for bandwidth, in seconds; up to one more second is added at random
    probe_wait: f64 = 2.0, 0.1..=100.0;
    /// Maximum number of round trips between probes for bandwidth
    probe_rounds: f64 = 63.0, 1.0..=10_000.0;
    /// Quanta that the sender's offload may hold (QUIC: 1; TCP: 3)
    offload: f64 = 1.0, 0.0..=10.0;
}

/// The pipe is full when the rate has not grown by this in this many rounds.
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
/// Startup ends for losses in at least this many separate ranges of a round.
const FULL_LOSS_RANGES: u32 = 6;
/// The drain ends after more rounds than this.
const DRAIN_ROUNDS: u64 = 3;
/// Segments that are always allowed.
const LEAST_WINDOW: f64 = 4.0;
/// Round trips over which the greatest excess of ACKs counts.
const EXCESS_ROUNDS: u64 = 10;
/// The quantum is what leaves in this time, at most this many bytes.
const QUANTUM_S: f64 = 0.001;
const MOST_QUANTUM: f64 = 65_536.0;
/// The bound grows at most by two to this many segments in a round.
const MOST_UP_ROUNDS: u32 = 30;

/// What the sender is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl State {
    /// The draft's name.
    fn name(self) -> &'static str {
        match self {
            State::Startup => "Startup",
            State::Drain => "Drain",
            State::Down => "ProbeBW_DOWN",
            State::Cruise => "ProbeBW_CRUISE",
            State::Refill => "ProbeBW_REFILL",
            State::Up => "ProbeBW_UP",
            State::ProbeRtt => "ProbeRTT",
        }
    }

    fn probes_bandwidth(self) -> bool {
        matches!(self, State::Startup | State::Refill | State::Up)
    }

    fn is_in_cycle(self) -> bool {
        matches!(self, State::Down | State::Cruise | State::Refill | State::Up)
    }
}

/// What ACKs tell of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckPhase {
    Init,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

/// The greatest rate of this cycle and of the one before.
#[derive(Clone, Copy, Debug, Default)]
struct CycleMax {
    cycle: u64,
    present: f64,
    before: f64,
    max: f64,
}

impl CycleMax {
    /// Values age only when another comes in.
    fn insert(&mut self, cycle: u64, rate: f64) {
        if cycle != self.cycle {
            self.before = if cycle == self.cycle + 1 { self.present } else { 0.0 };
            self.present = 0.0;
            self.cycle = cycle;
        }
        self.present = self.present.max(rate);
        self.max = self.present.max(self.before);
    }
}

/// Bounds as they were before losses.
#[derive(Clone, Copy, Debug)]
struct Saved {
    /// What losses ended that is to be gone on with.
    state: Option<State>,
    rate: f64,
    flight_short: f64,
    flight_long: f64,
}

/// State of BBRv3, in segments and seconds.
#[derive(Clone, Debug)]
pub struct Bbr3 {
    params: Params,
    state: State,
    pacing_gain: f64,
    cwnd_gain: f64,
    pacing: f64,
    mss: f64,
    initial_window: f64,
    // Rounds: a new one starts with the delivery of what was sent after `next_round` deliveries.
    round: u64,
    next_round: u64,
    /// What this ACK undid began a round, which starts with what this ACK delivers.
    starts_round: bool,
    round_start: bool,
    delivered: u64,
    flight: f64,
    app_limited: bool,
    drain_round: u64,
    // The model.
    max_rate: CycleMax,
    cycle: u64,
    rate_short: f64,
    rate: f64,
    min_rtt: f64,
    min_rtt_at: Time,
    product: f64,
    flight_long: f64,
    flight_short: f64,
    // Full pipe.
    full_rate: f64,
    full_count: u32,
    full_now: bool,
    full_reached: bool,
    // The cycle of probing.
    phase: AckPhase,
    cycle_at: Time,
    probe_wait: f64,
    rounds_since_probe: u32,
    is_probe_sample: bool,
    up_rounds: u32,
    up_acked: f64,
    acked_per_growth: f64,
    too_high_before: bool,
    precautionary: bool,
    // Losses.
    loss_round: u64,
    loss_round_start: bool,
    lost_in_round: bool,
    latest_rate: f64,
    latest_flight: f64,
    ranges: u32,
    last_lost: u64,
    recovery: Option<RecoveryKind>,
    /// Deliveries when fast recovery began.
    recovery_from: u64,
    in_episode: bool,
    saved: Saved,
    /// Window before an episode of losses or a visit to the empty path, and whether the next ACK restores it.
    prior_window: f64,
    restores: bool,
    // The empty path: the minimum RTT of the last five seconds, when a visit may end, and what is sent meanwhile, which
    // says nothing about the rate.
    recent_rtt: f64,
    recent_rtt_at: Time,
    recent_rtt_expired: bool,
    visit_until: Option<Time>,
    visit_round_done: bool,
    visit_delivered: Option<(u64, u64)>,
    idle_restart: bool,
    // Excess of ACKs over the estimated rate.
    excess: RoundMax,
    excess_from: Time,
    excess_acked: f64,
}

impl Bbr3 {
    pub(crate) fn new(params: &Params) -> Self {
        Bbr3 {
            state: State::Startup,
            pacing_gain: params.startup_gain,
            cwnd_gain: params.cwnd_gain,
            params: params.clone(),
            pacing: 0.0,
            mss: 1448.0,
            initial_window: 10.0,
            round: 0,
            next_round: 0,
            starts_round: false,
            round_start: false,
            delivered: 0,
            flight: 0.0,
            app_limited: false,
            drain_round: 0,
            max_rate: CycleMax::default(),
            cycle: 0,
            rate_short: f64::INFINITY,
            rate: 0.0,
            min_rtt: f64::INFINITY,
            min_rtt_at: Time::ZERO,
            product: 0.0,
            flight_long: f64::INFINITY,
            flight_short: f64::INFINITY,
            full_rate: 0.0,
            full_count: 0,
            full_now: false,
            full_reached: false,
            phase: AckPhase::Init,
            cycle_at: Time::ZERO,
            probe_wait: 0.0,
            rounds_since_probe: 0,
            is_probe_sample: false,
            up_rounds: 0,
            up_acked: 0.0,
            acked_per_growth: f64::INFINITY,
            too_high_before: false,
            precautionary: false,
            loss_round: 0,
            loss_round_start: false,
            lost_in_round: false,
            latest_rate: 0.0,
            latest_flight: 0.0,
            ranges: 0,
            last_lost: u64::MAX,
            recovery: None,
            recovery_from: 0,
            in_episode: false,
            saved: Saved {
                state: None,
                rate: f64::INFINITY,
                flight_short: f64::INFINITY,
                flight_long: f64::INFINITY,
            },
            prior_window: 0.0,
            restores: false,
            recent_rtt: f64::INFINITY,
            recent_rtt_at: Time::ZERO,
            recent_rtt_expired: false,
            visit_until: None,
            visit_round_done: false,
            visit_delivered: None,
            idle_restart: false,
            excess: RoundMax::default(),
            excess_from: Time::ZERO,
            excess_acked: 0.0,
        }
    }

    // ---------------------------------------------------------------------------------------------------------------
    // States

    /// The draft's routines leave the gains of the probing cycle to its table.
    fn enter(&mut self, state: State) {
        let params = &self.params;
        (self.pacing_gain, self.cwnd_gain) = match state {
            State::Startup => (params.startup_gain, params.cwnd_gain),
            State::Drain => (params.drain_gain, params.cwnd_gain),
            State::Down => (params.probe_down_gain, params.cwnd_gain),
            State::Cruise | State::Refill => (1.0, params.cwnd_gain),
            State::Up => (params.probe_up_gain, params.probe_up_cwnd_gain),
            State::ProbeRtt => (1.0, params.probe_rtt_cwnd_gain),
        };
        self.state = state;
    }

    fn start_round(&mut self) {
        self.next_round = self.delivered;
    }

    fn start_down(&mut self, now: Time) {
        self.lost_in_round = false;
        self.latest_rate = 0.0;
        self.latest_flight = 0.0;
        self.acked_per_growth = f64::INFINITY;
        let drawn = mix(now.0 ^ self.delivered.rotate_left(32));
        self.rounds_since_probe = (drawn >> 63) as u32;
        self.probe_wait = self.params.probe_wait + (drawn & 0xffff_ffff) as f64 / 4_294_967_296.0;
        self.cycle_at = now;
        self.phase = AckPhase::Stopping;
        self.start_round();
        self.enter(State::Down);
    }

    fn start_refill(&mut self) {
        self.forget_short_term();
        self.up_rounds = 0;
        self.up_acked = 0.0;
        self.precautionary = false;
        self.phase = AckPhase::Refilling;
        self.start_round();
        self.enter(State::Refill);
    }

    fn start_up(&mut self, rate: f64, window: &Window) {
        self.phase = AckPhase::Starting;
        self.start_round();
        self.restart_full(rate);
        self.enter(State::Up);
        self.raise_slope(window);
    }

    fn forget_short_term(&mut self) {
        self.rate_short = f64::INFINITY;
        self.flight_short = f64::INFINITY;
    }

    fn restart_full(&mut self, rate: f64) {
        self.full_rate = rate;
        self.full_count = 0;
        self.full_now = false;
    }

    // ---------------------------------------------------------------------------------------------------------------
    // Volumes

    fn product(&mut self, gain: f64) -> f64 {
        if self.min_rtt.is_infinite() {
            return self.initial_window;
        }
        self.product = self.rate * self.min_rtt;
        gain * self.product
    }

    fn quantum(&self) -> f64 {
        (self.pacing * QUANTUM_S).min(MOST_QUANTUM / self.mss).max(2.0)
    }

    fn with_budget(&self, flight: f64) -> f64 {
        let least = flight.max(self.params.offload * self.quantum()).max(LEAST_WINDOW);
        if self.state == State::Up { least + 2.0 } else { least }
    }

    /// What the path holds at this gain.
    fn inflight(&mut self, gain: f64) -> f64 {
        let product = self.product(gain);
        self.with_budget(product)
    }

    /// What is wanted in flight: the product, unless congestion has cut the window.
    fn target(&self, window: &Window) -> f64 {
        self.product.min(window.cwnd)
    }

    fn with_headroom(&self) -> f64 {
        if self.flight_long.is_infinite() {
            return f64::INFINITY;
        }
        let free = (self.params.headroom * self.flight_long).max(1.0);
        (self.flight_long - free).max(LEAST_WINDOW)
    }

    // ---------------------------------------------------------------------------------------------------------------
    // Losses

    fn save(&mut self, window: &Window) {
        self.save_window(window);
        self.saved = Saved {
            state: None,
            rate: self.rate_short,
            flight_short: self.flight_short,
            flight_long: self.flight_long,
        };
        self.in_episode = true;
    }

    fn save_window(&mut self, window: &Window) {
        self.prior_window = if self.recovery.is_none() && self.state != State::ProbeRtt {
            window.cwnd
        } else {
            self.prior_window.max(window.cwnd)
        };
    }

    fn note_loss(&mut self, window: &Window) {
        if !self.lost_in_round {
            self.loss_round = self.delivered;
        }
        // Once per episode: a second time would save what the first loss has changed.
        if !self.in_episode {
            self.save(window);
        }
        self.lost_in_round = true;
    }

    fn is_too_high(&self, lost: u32, in_flight: u32, selective: bool) -> bool {
        f64::from(lost) > f64::from(in_flight) * self.params.loss_threshold || (lost > 0 && !selective)
    }

    /// What was in flight when losses passed the threshold, within the last segment.
    fn flight_at_loss(&self, lost: u32, in_flight: u32) -> f64 {
        let threshold = self.params.loss_threshold;
        let (flight_before, lost_before) = (f64::from(in_flight) - 1.0, f64::from(lost) - 1.0);
        flight_before + (threshold * flight_before - lost_before) / (1.0 - threshold)
    }

    /// The probe was too much; `flight` was not.
    fn on_too_high(&mut self, flight: f64, app_limited: bool, now: Time, window: &Window) {
        self.too_high_before = true;
        self.is_probe_sample = false;
        if !app_limited {
            self.flight_long = flight.max(self.params.beta * self.target(window));
        }
        if self.state == State::Up {
            self.saved.state = Some(State::Up);
            self.start_down(now);
        }
    }

    // ---------------------------------------------------------------------------------------------------------------
    // Steps of an ACK, in the draft's order

    /// Whether what was sent after `prior_delivered` deliveries measures something else than the path.
    fn is_own_limit(&self, prior_delivered: u64) -> bool {
        self.visit_delivered.is_some_and(|(from, to)| (from..=to).contains(&prior_delivered))
    }

    fn update_latest(&mut self, seen: &Seen) {
        self.loss_round_start = false;
        self.latest_rate = self.latest_rate.max(seen.rate);
        self.latest_flight = self.latest_flight.max(seen.delivered);
        if seen.acked > 0.0 && seen.prior_delivered >= self.loss_round {
            self.loss_round = self.delivered;
            self.loss_round_start = true;
        }
    }

    fn update_rate(&mut self, seen: &Seen) {
        self.round_start = seen.acked > 0.0 && seen.prior_delivered >= self.next_round;
        if self.round_start {
            self.start_round();
            self.round += 1;
            self.rounds_since_probe += 1;
        }
        if seen.rate > 0.0 && (seen.rate >= self.max_rate.max || !seen.app_limited) {
            self.max_rate.insert(self.cycle, seen.rate);
        }
    }

    fn adapt_to_losses(&mut self, window: &Window) {
        if !self.loss_round_start {
            return;
        }
        if self.lost_in_round && !self.state.probes_bandwidth() {
            let beta = self.params.beta;
            let rate = if self.rate_short.is_infinite() { self.max_rate.max } else { self.rate_short };
            self.rate_short = self.latest_rate.max(beta * rate);
            if self.params.short_term_flight {
                let flight = if self.flight_short.is_infinite() { window.cwnd } else { self.flight_short };
                self.flight_short = self.latest_flight.max(beta * flight);
            }
        }
        self.lost_in_round = false;
    }

    fn update_excess(&mut self, seen: &Seen, window: &Window) {
        let mut expected = self.rate * seen.now.since(self.excess_from).seconds();
        if self.excess_acked <= expected {
            self.excess_acked = 0.0;
            self.excess_from = seen.now;
            expected = 0.0;
        }
        self.excess_acked += seen.acked;
        let extra = (self.excess_acked - expected).min(window.cwnd);
        let rounds = if self.full_reached { EXCESS_ROUNDS } else { 1 };
        self.excess.insert(self.round, extra, rounds);
    }

    fn check_full(&mut self, seen: &Seen) {
        if self.full_now || !self.round_start || seen.app_limited {
            return;
        }
        if seen.rate >= FULL_GROWTH * self.full_rate {
            self.restart_full(seen.rate);
            return;
        }
        self.full_count += 1;
        self.full_now = self.full_count >= FULL_ROUNDS;
        self.full_reached |= self.full_now;
    }

    fn check_startup(&mut self, seen: &Seen) {
        if self.state != State::Startup {
            return;
        }
        if !self.full_reached && self.lost_too_much_in_startup(seen) {
            self.saved.state = Some(State::Startup);
            self.full_reached = true;
            self.full_now = true;
            let product = self.product(1.0);
            self.flight_long = product.max(self.latest_flight);
        }
        if self.full_reached {
            self.enter(State::Drain);
            self.drain_round = self.round;
        }
    }

    fn lost_too_much_in_startup(&mut self, seen: &Seen) -> bool {
        if !seen.selective {
            return seen.lost > 0 && self.recovery == Some(RecoveryKind::Fast);
        }
        if !self.loss_round_start {
            return false;
        }
        let ranges = std::mem::take(&mut self.ranges);
        let a_round = self.recovery == Some(RecoveryKind::Fast) && seen.prior_delivered >= self.recovery_from;
        a_round
            && ranges >= FULL_LOSS_RANGES
            && self.is_too_high(seen.lost_since, seen.tx_in_flight, seen.selective)
    }

    fn check_drain(&mut self, seen: &Seen) {
        if self.state != State::Drain {
            return;
        }
        if seen.flight <= self.inflight(1.0) || self.round > self.drain_round + DRAIN_ROUNDS {
            self.start_down(seen.now);
        }
    }

    fn update_cycle(&mut self, seen: &Seen, window: &Window) {
        if !self.full_reached || self.adapt_long_term(seen, window) {
            return;
        }
        match self.state {
            State::Down => {
                if self.is_time_to_probe(seen.now, window) {
                    self.start_refill();
                } else if seen.flight <= self.with_headroom() && seen.flight <= self.inflight(1.0) {
                    self.enter(State::Cruise);
                }
            }
            State::Cruise if self.is_time_to_probe(seen.now, window) => self.start_refill(),
            State::Refill if self.round_start => {
                self.is_probe_sample = true;
                self.start_up(seen.rate, window);
            }
            State::Up => self.check_up(seen, window),
            _ => {}
        }
    }

    fn is_time_to_probe(&self, now: Time, window: &Window) -> bool {
        let rounds = self.target(window).min(self.params.probe_rounds);
        now.since(self.cycle_at).seconds() > self.probe_wait || f64::from(self.rounds_since_probe) >= rounds
    }

    fn check_up(&mut self, seen: &Seen, window: &Window) {
        if self.is_time_to_go_down(seen, window) {
            self.too_high_before = false;
            self.start_down(seen.now);
        }
    }

    fn is_time_to_go_down(&mut self, seen: &Seen, window: &Window) -> bool {
        if self.too_high_before && seen.flight >= self.flight_long {
            self.precautionary = true;
            return true;
        }
        if seen.window_limited && window.cwnd >= self.flight_long {
            // The rate is held down by the bound, so that it tells nothing of the path.
            self.restart_full(seen.rate);
            return false;
        }
        self.full_now
    }

    /// What ACKs say of the last probe; `true` if the state has been decided by that.
    fn adapt_long_term(&mut self, seen: &Seen, window: &Window) -> bool {
        if self.round_start && self.phase == AckPhase::Starting {
            self.phase = AckPhase::Feedback;
        }
        if self.round_start && self.phase == AckPhase::Stopping {
            self.is_probe_sample = false;
            self.phase = AckPhase::Init;
            if self.state.is_in_cycle() && !seen.app_limited {
                self.cycle += 1;
            }
            if self.state.is_in_cycle() && self.precautionary && !self.too_high_before {
                self.start_refill();
                return true;
            }
        }
        let too_high = self.is_too_high(seen.lost_since, seen.tx_in_flight, seen.selective);
        if !too_high && self.flight_long.is_finite() && seen.acked > 0.0 {
            self.flight_long = self.flight_long.max(f64::from(seen.tx_in_flight));
            if self.state == State::Up {
                self.grow_long_term(seen, window);
            }
        }
        false
    }

    fn raise_slope(&mut self, window: &Window) {
        let growth = (1u64 << self.up_rounds) as f64;
        self.up_rounds = (self.up_rounds + 1).min(MOST_UP_ROUNDS);
        self.acked_per_growth = (window.cwnd / growth).max(1.0);
    }

    fn grow_long_term(&mut self, seen: &Seen, window: &Window) {
        if !seen.window_limited || window.cwnd < self.flight_long {
            return;
        }
        self.up_acked += seen.acked;
        if self.up_acked >= self.acked_per_growth {
            let steps = (self.up_acked / self.acked_per_growth).floor();
            self.up_acked -= steps * self.acked_per_growth;
            self.flight_long += steps;
        }
        if self.round_start {
            self.raise_slope(window);
        }
    }

    fn update_min_rtt(&mut self, seen: &Seen) {
        let now = seen.now;
        self.recent_rtt_expired = now.since(self.recent_rtt_at).seconds() > self.params.probe_rtt_interval;
        if let Some(rtt) = seen.rtt
            && (rtt < self.recent_rtt || self.recent_rtt_expired)
        {
            self.recent_rtt = rtt;
            self.recent_rtt_at = now;
        }
        let expired = now.since(self.min_rtt_at).seconds() > self.params.rtt_window;
        if self.recent_rtt < self.min_rtt || (expired && self.recent_rtt.is_finite()) {
            self.min_rtt = self.recent_rtt;
            self.min_rtt_at = self.recent_rtt_at;
        }
    }

    fn check_probe_rtt(&mut self, seen: &Seen, window: &mut Window) {
        if self.state != State::ProbeRtt && self.recent_rtt_expired && !self.idle_restart {
            self.save_window(window);
            self.enter(State::ProbeRtt);
            self.visit_until = None;
            self.visit_delivered = Some((self.delivered, self.delivered));
            self.phase = AckPhase::Stopping;
            self.start_round();
        }
        if self.state == State::ProbeRtt {
            self.visit(seen);
        }
        if seen.acked > 0.0 {
            self.idle_restart = false;
        }
    }

    fn visit(&mut self, seen: &Seen) {
        if let Some((_, until)) = &mut self.visit_delivered {
            *until = self.delivered + seen.flight as u64;
        }
        if self.visit_until.is_none() {
            if seen.flight <= self.visit_window() {
                self.visit_until = Some(seen.now + Span::from_seconds(self.params.probe_rtt));
                self.visit_round_done = false;
                self.start_round();
            }
            return;
        }
        self.visit_round_done |= self.round_start;
        if self.visit_round_done {
            self.end_visit(seen.now);
        }
    }

    fn visit_window(&mut self) -> f64 {
        self.product(self.params.probe_rtt_cwnd_gain).max(LEAST_WINDOW)
    }

    /// The empty path has been seen for long enough, if it has.
    fn end_visit(&mut self, now: Time) {
        if self.visit_until.is_none_or(|until| now <= until) {
            return;
        }
        self.recent_rtt_at = now;
        self.restores = true;
        self.forget_short_term();
        if self.full_reached {
            self.start_down(now);
            self.enter(State::Cruise);
        } else {
            self.enter(State::Startup);
        }
    }

    fn set_pacing(&mut self, gain: f64) {
        let rate = self.params.pacing_margin * gain * self.rate;
        if rate > 0.0 && (self.full_reached || rate > self.pacing) {
            self.pacing = rate;
        }
    }

    fn set_window(&mut self, seen: &Seen, window: &mut Window) {
        if std::mem::take(&mut self.restores) {
            window.cwnd = window.cwnd.max(self.prior_window);
        }
        let product = self.product(self.cwnd_gain);
        let most = self.with_budget(product + self.excess.max());
        if self.full_reached {
            window.cwnd = (window.cwnd + seen.acked).min(most);
        } else if window.cwnd < most || (self.delivered as f64) < self.initial_window {
            window.cwnd += seen.acked;
        }
        window.cwnd = window.cwnd.max(LEAST_WINDOW);
        if self.state == State::ProbeRtt {
            window.cwnd = window.cwnd.min(self.visit_window());
        }
        let cap = match self.state {
            State::Down | State::Refill | State::Up => self.flight_long,
            State::Cruise | State::ProbeRtt => self.with_headroom(),
            State::Startup | State::Drain => f64::INFINITY,
        };
        window.cwnd = window.cwnd.min(cap.min(self.flight_short).max(LEAST_WINDOW));
    }

    /// What of an episode of losses the sample shows: that it goes on, or that it has ended.
    fn follow_recovery(&mut self, recovery: Option<RecoveryKind>) {
        let before = std::mem::replace(&mut self.recovery, recovery);
        if before != recovery && recovery == Some(RecoveryKind::Fast) {
            self.recovery_from = self.delivered;
        }
        if recovery.is_none() {
            self.restores |= before.is_some();
            self.in_episode = false;
        }
    }
}

/// A sample in the units of the law.
struct Seen {
    now: Time,
    /// 0 if there was none.
    rate: f64,
    /// Delivered since the newest segment was sent.
    delivered: f64,
    prior_delivered: u64,
    app_limited: bool,
    acked: f64,
    lost: u32,
    flight: f64,
    rtt: Option<f64>,
    tx_in_flight: u32,
    lost_since: u32,
    window_limited: bool,
    selective: bool,
}

/// A hash whose bits are all as good (the finaliser of `SplitMix64`).
fn mix(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

impl CongestionControl for Bbr3 {
    fn needs(&self) -> Needs {
        Needs { rate: true, pacing: true, classifies: true, ..Needs::default() }
    }

    fn on_start(&mut self, start: &Start<'_>, window: &mut Window) {
        self.mss = f64::from(start.mss);
        self.initial_window = window.cwnd;
        let handshake = start.handshake.seconds();
        let rtt = if handshake > 0.0 { handshake } else { 0.001 };
        self.pacing = self.params.startup_gain * window.cwnd / rtt;
        if handshake > 0.0 {
            self.min_rtt = handshake;
        }
        self.min_rtt_at = start.now;
        self.recent_rtt_at = start.now;
        self.excess_from = start.now;
    }

    fn on_ack(&mut self, _ack: &AckSample, _window: &mut Window) {}

    fn on_rate(&mut self, sample: &RateSample, window: &mut Window) {
        self.delivered = sample.delivered;
        if std::mem::take(&mut self.starts_round) {
            self.start_round();
        }
        let rate = sample.rate.filter(|&(_, interval)| interval > Span::ZERO);
        let since = if sample.acked > 0 { sample.delivered - sample.prior_delivered } else { 0 };
        let seen = Seen {
            now: sample.now,
            rate: rate.map_or(0.0, |(segments, interval)| segments as f64 / interval.seconds()),
            delivered: since as f64,
            prior_delivered: sample.prior_delivered,
            app_limited: sample.app_limited || self.is_own_limit(sample.prior_delivered),
            acked: f64::from(sample.acked),
            lost: sample.lost,
            flight: f64::from(sample.flight),
            rtt: sample.rtt.map(Span::seconds),
            tx_in_flight: sample.tx_in_flight,
            lost_since: sample.lost_since,
            window_limited: sample.window_limited,
            selective: sample.selective,
        };
        self.flight = seen.flight;
        if sample.acked > 0 {
            self.app_limited = seen.app_limited;
        }
        self.update_latest(&seen);
        self.update_rate(&seen);
        self.adapt_to_losses(window);
        self.update_excess(&seen, window);
        self.check_full(&seen);
        self.check_startup(&seen);
        self.check_drain(&seen);
        self.update_cycle(&seen, window);
        self.update_min_rtt(&seen);
        self.check_probe_rtt(&seen, window);
        if self.loss_round_start {
            self.latest_rate = seen.rate;
            self.latest_flight = seen.delivered;
        }
        self.rate = self.max_rate.max.min(self.rate_short);
        self.follow_recovery(sample.recovery);
        self.set_pacing(self.pacing_gain);
        self.set_window(&seen, window);
    }

    fn on_lost_segment(&mut self, lost: &LostSegment, window: &Window) {
        self.delivered = self.delivered.max(lost.delivered);
        self.note_loss(window);
        if lost.seq != self.last_lost {
            self.ranges += 1;
        }
        self.last_lost = lost.end;
        if self.is_probe_sample && self.is_too_high(lost.lost_since, lost.tx_in_flight, lost.selective) {
            let flight = self.flight_at_loss(lost.lost_since, lost.tx_in_flight);
            let app_limited = lost.app_limited || self.is_own_limit(lost.prior_delivered);
            self.on_too_high(flight, app_limited, lost.now, window);
        }
    }

    /// Losses lower bounds, and `on_rate` the window. While probing a loss below the threshold lowers nothing: it is
    /// not taken for congestion. One above it has ended the probe before this is called.
    fn on_loss(&mut self, _loss: &LossSample, window: &Window) -> Reduction {
        if !self.in_episode {
            self.save(window);
        }
        let kind = if self.state.probes_bandwidth() { LossKind::Wireless } else { LossKind::Congestion };
        Reduction::to(window.ssthresh.min(window.cwnd), window.cwnd).taken_for(kind)
    }

    /// One segment; the next ACKs open the window again.
    fn on_timeout(&mut self, _loss: &LossSample, window: &Window) -> Reduction {
        if !self.in_episode {
            self.save(window);
        }
        self.recovery = Some(RecoveryKind::Timeout);
        Reduction::to(window.ssthresh.min(window.cwnd), 1.0).taken_for(LossKind::Congestion)
    }

    fn on_ecn(&mut self, mark: &LossSample, window: &Window) -> Reduction {
        self.note_loss(window);
        if self.is_probe_sample {
            self.on_too_high(mark.flight.min(window.cwnd), false, mark.now, window);
        }
        Reduction::to(window.ssthresh.min(window.cwnd), window.cwnd)
    }

    fn on_idle(&mut self, _idle: Span, now: Time) {
        self.idle_restart = true;
        self.excess_from = now;
        if self.state.is_in_cycle() {
            self.set_pacing(1.0);
        } else if self.state == State::ProbeRtt {
            self.end_visit(now);
        }
    }

    /// Nothing was lost: what the losses lowered returns, and what they ended goes on.
    fn on_undo(&mut self, _before: Self) {
        self.lost_in_round = false;
        self.restart_full(0.0);
        self.rate_short = self.rate_short.max(self.saved.rate);
        self.flight_short = self.flight_short.max(self.saved.flight_short);
        self.flight_long = self.flight_long.max(self.saved.flight_long);
        match self.saved.state.take() {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_reached = false;
                if self.state != State::ProbeRtt {
                    self.enter(State::Startup);
                }
            }
            Some(State::Up) if !matches!(self.state, State::Up | State::ProbeRtt) => {
                self.start_refill();
                self.starts_round = true;
            }
            _ => {}
        }
        self.in_episode = false;
    }

    fn estimates(&self) -> Option<Estimates> {
        Some(Estimates {
            state: self.state.name(),
            round: self.round,
            pacing: self.pacing,
            pacing_gain: self.pacing_gain,
            cwnd_gain: self.cwnd_gain,
            greatest_rate: self.max_rate.max,
            short_term_rate: self.rate_short,
            least_rtt: self.min_rtt,
            target: self.with_budget(self.product),
            flight: self.flight,
            long_term_flight: self.flight_long,
            short_term_flight: self.flight_short,
            extra_acked: self.excess.max(),
            full_rounds: self.full_count,
            full: self.full_now,
            restarts: self.idle_restart,
            app_limited: self.app_limited,
        })
    }

    fn pacing_rate(&self) -> Option<f64> {
        (self.pacing > 0.0).then_some(self.pacing)
    }
}

#[cfg(test)]
mod tests;
