//! Copa: a target rate of one segment per share of the queueing delay (Arun & Balakrishnan, NSDI 2018).
//!
//! *What it does.* The window moves towards the rate `1/(delta d)`, where d is the excess of the RTT over its minimum:
//! up while the present rate is below, down while it is above, by `v/(delta cwnd)` for each acknowledged segment, with
//! a velocity v that doubles while the direction stays the same. So about `1/delta` segments of each flow wait at the
//! bottleneck. With `competes`, if the queue is never nearly empty for five round trips, it assumes a competing
//! buffer-filling flow, and `1/delta` follows AIMD like the window of Reno; otherwise delta returns to `delta`.
//! *Reacts to* the RTT; to losses only while it competes, and by timeouts; to ECN by halving.
//! *Differs from the paper:* `competes` is off unless asked for; the paper does not discuss marks; after a timeout the
//! window is one segment, as for every sender; the minimum RTT is that of the last ten seconds, without the paper's
//! reset when routes change.
//! *Validation:* TV-25.1 to TV-25.4 by hand; a run in `tests/laws_of_today.rs` of `lasthop-sim`.
//! *Limitations:* with `competes`, several Copa flows may take each other for competitors: their oscillations empty
//! the queue every four to five round trips, and a single late one is enough. Two flows at 10 Mbit/s and 40 ms kept
//! four segments in the queue for five seconds and then filled it. Without `competes`, Copa gets only what a
//! buffer-filling flow leaves.
//! *Kernel counterpart:* none.
//! *References:* Arun & Balakrishnan, "Copa: Practical Delay-Based Congestion Control for the Internet", NSDI 2018.

use lasthop_core::time::{Span, Time};

use crate::params::params;
use crate::{AckSample, CongestionControl, LossSample, Needs, Reduction, Start, Window};

pub(crate) const SUMMARY: &str =
    "Delay-based: about 1/delta segments of each flow wait at the bottleneck (Copa, 2018)";

params! {
    /// The target rate is one segment per delta times the queueing delay; 1/delta segments wait in equilibrium
    delta: f64 = 0.5, 0.004..=1.0;
    /// Compete with buffer-filling flows when the queue is never nearly empty
    competes: bool = false, 0.0..=1.0;
    /// Seconds after which the minimum RTT expires
    rtt_window: f64 = 10.0, 0.1..=1000.0;
    /// Largest velocity, in segments per RTT and 1/delta
    max_velocity: f64 = 65_536.0, 1.0..=1e9;
}

/// Windows that must have moved one way before the velocity doubles.
const STEADY_ROUNDS: u32 = 3;
/// The queue counts as nearly empty below this share of its greatest delay.
const NEARLY_EMPTY: f64 = 0.1;
/// Round trips without a nearly empty queue that mean company.
const BUSY_ROUNDS: u32 = 5;
/// Greatest delays of this many rounds count.
const GREATEST_ROUNDS: usize = 4;
/// Slots of the windowed minima: of each the least value, so that the oldest are forgotten one by one.
const SLOTS: usize = 8;

/// The least value of a span of time, which is forgotten in steps of an eighth of the span.
#[derive(Clone, Debug)]
struct LeastOf {
    slots: [f64; SLOTS],
    /// The present slot and when it began.
    slot: usize,
    from: Time,
}

impl LeastOf {
    fn new() -> LeastOf {
        LeastOf { slots: [f64::INFINITY; SLOTS], slot: 0, from: Time::ZERO }
    }

    /// Takes a value at `now` of a window of `span` seconds; returns the least that counts.
    fn insert(&mut self, now: Time, span: f64, value: f64) -> f64 {
        let step = (span / SLOTS as f64).max(1e-9);
        let passed = (now.since(self.from).seconds() / step).min(SLOTS as f64) as usize;
        for _ in 0..passed {
            self.slot = (self.slot + 1) % SLOTS;
            self.slots[self.slot] = f64::INFINITY;
        }
        if passed > 0 {
            self.from = now;
        }
        self.slots[self.slot] = self.slots[self.slot].min(value);
        self.slots.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

/// State of Copa; windows in segments, times in seconds.
#[derive(Clone, Debug)]
pub struct Copa {
    params: Params,
    least: LeastOf,
    standing: LeastOf,
    /// What they said last; zero before the first RTT.
    least_rtt: f64,
    standing_rtt: f64,
    slow_start: bool,
    velocity: f64,
    /// Whether the window is to grow, and did in the last whole round.
    up: bool,
    went_up: bool,
    /// Rounds in which the window has moved the same way.
    steady: u32,
    /// The round ends when more than this is acknowledged, and began with this window.
    round_end: u64,
    round_window: f64,
    // Company.
    delta: f64,
    greatest: [f64; GREATEST_ROUNDS],
    round: usize,
    nearly_empty: bool,
    busy: u32,
    lost: bool,
    pacing: f64,
}

impl Copa {
    pub(crate) fn new(params: &Params) -> Self {
        Copa {
            delta: params.delta,
            params: params.clone(),
            least: LeastOf::new(),
            standing: LeastOf::new(),
            least_rtt: 0.0,
            standing_rtt: 0.0,
            slow_start: true,
            velocity: 1.0,
            up: true,
            went_up: true,
            steady: 0,
            round_end: 0,
            round_window: 0.0,
            greatest: [0.0; GREATEST_ROUNDS],
            round: 0,
            nearly_empty: true,
            busy: 0,
            lost: false,
            pacing: 0.0,
        }
    }

    fn measure(&mut self, now: Time, rtt: f64, srtt: f64) {
        self.least_rtt = self.least.insert(now, self.params.rtt_window, rtt);
        self.standing_rtt = self.standing.insert(now, srtt / 2.0, rtt).max(self.least_rtt);
        let slot = &mut self.greatest[self.round % GREATEST_ROUNDS];
        *slot = slot.max(rtt);
        let greatest = self.greatest.iter().copied().fold(0.0, f64::max);
        self.nearly_empty |= self.queueing() < NEARLY_EMPTY * (greatest - self.least_rtt);
    }

    /// Queueing delay of the path, which waves of the RTT do not raise.
    fn queueing(&self) -> f64 {
        self.standing_rtt - self.least_rtt
    }

    /// Whether the present rate is at most the target.
    fn is_below_target(&self, cwnd: f64) -> bool {
        let queueing = self.queueing();
        queueing <= 0.0 || cwnd / self.standing_rtt <= 1.0 / (self.delta * queueing)
    }

    fn end_round(&mut self, cwnd: f64) {
        let up = cwnd > self.round_window;
        self.steady = if up == self.went_up { self.steady + 1 } else { 0 };
        self.went_up = up;
        if up != self.up || self.steady == 0 {
            self.velocity = 1.0;
        } else if self.steady >= STEADY_ROUNDS {
            self.velocity = (2.0 * self.velocity).min(self.params.max_velocity);
        }
        self.round_window = cwnd;
        self.busy = if self.nearly_empty { 0 } else { self.busy + 1 };
        if self.params.competes && self.busy >= BUSY_ROUNDS {
            // One more segment in the queue per round trip without a loss, half as many after one.
            let waiting = if self.lost { 0.5 / self.delta } else { 1.0 + 1.0 / self.delta };
            self.delta = (1.0 / waiting).min(self.params.delta);
        } else {
            self.delta = self.params.delta;
        }
        self.lost = false;
        self.nearly_empty = false;
        self.round += 1;
        self.greatest[self.round % GREATEST_ROUNDS] = 0.0;
    }
}

impl CongestionControl for Copa {
    fn needs(&self) -> Needs {
        Needs { pacing: true, ..Needs::default() }
    }

    fn on_start(&mut self, start: &Start<'_>, window: &mut Window) {
        self.round_window = window.cwnd;
        let rtt = start.handshake.seconds().max(0.001);
        self.pacing = 2.0 * window.cwnd / rtt;
    }

    fn on_ack(&mut self, ack: &AckSample, window: &mut Window) {
        if let Some(rtt) = ack.rtt {
            self.measure(ack.now, rtt.seconds(), ack.srtt.seconds());
        }
        if self.standing_rtt <= 0.0 {
            return;
        }
        let below = self.is_below_target(window.cwnd);
        if self.slow_start && !below {
            self.slow_start = false;
            window.ssthresh = window.cwnd;
        }
        let acked = f64::from(ack.acked);
        if self.slow_start {
            if ack.may_grow {
                window.cwnd += acked;
            }
        } else {
            if below != self.up {
                self.velocity = 1.0;
                self.steady = 0;
                self.up = below;
            }
            let step = acked * self.velocity / (self.delta * window.cwnd);
            if !below {
                window.cwnd = (window.cwnd - step).max(2.0).min(window.cwnd);
            } else if ack.may_grow {
                // No more than doubles in a round trip.
                window.cwnd += step.min(acked);
            }
        }
        if ack.una > self.round_end {
            self.round_end = ack.next;
            self.end_round(window.cwnd);
        }
        self.pacing = 2.0 * window.cwnd / self.standing_rtt;
    }

    /// Losses say nothing, but that a competitor fills the queue.
    fn on_loss(&mut self, _loss: &LossSample, window: &Window) -> Reduction {
        self.lost = true;
        self.slow_start = false;
        Reduction::to(window.cwnd, window.cwnd)
    }

    fn on_timeout(&mut self, loss: &LossSample, _window: &Window) -> Reduction {
        self.lost = true;
        self.slow_start = false;
        self.velocity = 1.0;
        self.steady = 0;
        Reduction::to((loss.flight / 2.0).max(2.0), 1.0)
    }

    /// RFC 3168: a mark is no loss of which the path may be free.
    fn on_ecn(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        self.lost = true;
        self.slow_start = false;
        self.velocity = 1.0;
        self.steady = 0;
        let kept = (loss.flight / 2.0).max(2.0).min(window.cwnd.max(2.0));
        Reduction::to(kept, kept)
    }

    fn on_idle(&mut self, _idle: Span, _now: Time) {
        self.velocity = 1.0;
        self.steady = 0;
    }

    fn pacing_rate(&self) -> Option<f64> {
        (self.pacing > 0.0).then_some(self.pacing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack_at, loss};

    /// A sender out of slow start that has seen a minimum RTT of 50 ms.
    fn steady(cwnd: f64) -> (Copa, Window) {
        let mut copa = Copa::new(&Params::default());
        copa.slow_start = false;
        copa.measure(Time::ZERO, 0.05, 0.05);
        (copa, Window { cwnd, ssthresh: 10.0 })
    }

    fn ack_with(seconds: f64, rtt: f64) -> AckSample {
        AckSample { rtt: Some(Span::from_seconds(rtt)), una: 1, next: 100_000, ..ack_at(seconds, rtt) }
    }

    /// TV-25.1: 10 ms of queueing and delta 0.5 ask for 200 segments/s; at 60 ms that is a window of 12.
    #[test]
    fn the_target_is_the_inverse_of_the_queueing_delay() {
        let (mut copa, _) = steady(12.0);
        copa.round_end = u64::MAX;
        copa.measure(Time::ZERO + Span::from_millis(200), 0.06, 0.06);
        assert!((copa.queueing() - 0.01).abs() < 1e-12);
        assert!(copa.is_below_target(11.9999) && !copa.is_below_target(12.0001));
        copa.standing_rtt = copa.least_rtt;
        assert!(copa.is_below_target(1e9), "no queue at all");
    }

    /// TV-25.2: a segment moves the window by 1/(0.5 x 10) = 0.2 segments, up below the target and down above it.
    #[test]
    fn steps_towards_the_target() {
        for (rtt, cwnd) in [(0.05, 10.2), (0.1, 9.8)] {
            let (mut copa, mut window) = steady(10.0);
            copa.round_end = u64::MAX;
            copa.up = rtt < 0.06;
            copa.on_ack(&ack_with(1.0, rtt), &mut window);
            assert!((window.cwnd - cwnd).abs() < 1e-12, "{}", window.cwnd);
        }
    }

    /// TV-25.3: the velocity doubles from the third round in the same direction on, and falls to 1 when it turns.
    #[test]
    fn the_velocity_doubles_after_three_rounds() {
        let (mut copa, mut window) = steady(10.0);
        let mut velocities = Vec::new();
        for round in 1..=5 {
            window.cwnd += 1.0;
            copa.end_round(window.cwnd);
            velocities.push((round, copa.velocity));
        }
        assert_eq!(velocities, [(1, 1.0), (2, 1.0), (3, 2.0), (4, 4.0), (5, 8.0)]);
        copa.round_end = u64::MAX;
        copa.on_ack(&ack_with(1.0, 0.2), &mut window);
        assert_eq!(copa.velocity, 1.0);
    }

    /// TV-25.4: five rounds without a nearly empty queue, and two segments in the queue become three, four; a loss
    /// halves them; an empty queue brings back the default.
    #[test]
    fn competes_by_aimd() {
        let (mut copa, _) = steady(10.0);
        copa.params.competes = true;
        copa.end_round(10.0);
        let mut waiting = Vec::new();
        for _ in 0..6 {
            copa.nearly_empty = false;
            copa.end_round(10.0);
            waiting.push((1.0 / copa.delta).round());
        }
        assert_eq!(waiting, [2.0, 2.0, 2.0, 2.0, 3.0, 4.0]);
        copa.on_loss(&loss(10.0), &Window { cwnd: 10.0, ssthresh: 10.0 });
        copa.end_round(10.0);
        assert_eq!(copa.delta, 0.5);
        copa.nearly_empty = true;
        copa.end_round(10.0);
        assert_eq!(copa.delta, 0.5);
    }

    #[test]
    fn slow_start_ends_above_the_target_and_losses_do_not_reduce() {
        let mut copa = Copa::new(&Params::default());
        let mut window = Window { cwnd: 10.0, ssthresh: f64::INFINITY };
        copa.on_ack(&ack_with(0.05, 0.05), &mut window);
        assert_eq!(window.cwnd, 11.0);
        copa.on_ack(&ack_with(1.0, 0.2), &mut window);
        assert!(!copa.slow_start && window.cwnd < 11.0);
        assert_eq!(window.ssthresh, 11.0);
        assert_eq!(copa.on_loss(&loss(10.0), &window).cwnd, window.cwnd);
        assert_eq!(copa.on_timeout(&loss(10.0), &window).cwnd, 1.0);
    }

    /// Also while the span changes, as that of the standing RTT does.
    #[test]
    fn least_values_are_forgotten() {
        let mut least = LeastOf::new();
        let at = |seconds| Time::ZERO + Span::from_secs(seconds);
        assert_eq!(least.insert(at(0), 8.0, 3.0), 3.0);
        assert_eq!(least.insert(at(7), 8.0, 5.0), 3.0);
        assert_eq!(least.insert(at(8), 8.0, 6.0), 5.0);
        assert_eq!(least.insert(at(15), 16.0, 7.0), 5.0);
        assert_eq!(least.insert(at(100), 16.0, 9.0), 9.0);
    }
}
