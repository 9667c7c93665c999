//! Vegas: keep between `alpha` and `beta` segments in the queue of the path (Brakmo & Peterson, JSAC 13(8), 1995).
//!
//! *What it does.* Once per round trip it compares the rate it expects on an empty path, flight / base RTT, with the
//! rate it gets; the difference times base RTT is the number of its own segments queued. It then adds a segment per
//! RTT, holds, or removes one. Slow start doubles every other round and ends when `gamma` segments are queued.
//! *Reacts to* delay; to loss through the recovery engine (its own is `recovery = "vegas"`).
//! *Differs from the paper:* `round_diff` rounds the difference to whole segments as ns-2 does, which moves the
//! thresholds to alpha - 0.5, beta + 0.5 and gamma + 0.5; the `ns2` profile turns it on. Once per round trip is the
//! authors' rule; Papadimitriou & Tsaoussidis, who retell it, compute the difference "whenever an ACK is received",
//! which changes nothing as long as the window moves once per RTT, and would move it by up to its whole size in one if
//! it did not. The flight that is compared includes the segment that the current ACK has just freed, as in ns-2: on a
//! window-limited connection it is the window. In ns-2 Vegas never sets ECT, whatever `ecn_` says, so its queues never
//! mark it: an "E-Vegas" run there is Vegas. The profile `ns2` does set it when `ecn` is on, as there would be no
//! E-Vegas otherwise; with `ecn = false` it is ns-2's. `on_mark` is the reduction at an ECN echo: half the window (RFC
//! 3168), a fifth (RFC 8511), or one segment. The profile `ns2` repeats the faults of ns-2's recovery: after a
//! timeout, or a pause as long as one, four duplicate ACKs close the window altogether until the next timeout;
//! duplicates count although nothing is outstanding, and double the timer; exactly three leave the window inflated;
//! send times are forgotten across the end of an array as long as the receiver's window, and the segment to come is
//! then taken for an old one and sent twice; the window opens a round trip late; after a retransmitted SYN data is
//! sent at once. `vegas_faults = false` in `[tcp]` is the same profile without them. Not repeated: ns-2 also sends a
//! segment that no application has written, and delivers it.
//! *Validation:* TV-3.0 to TV-3.3, worked by hand; in the profile `ns2` it agrees with ns-2 packet for packet,
//! greedy, limited by the application, with lost SYNs and among others in random trees, up to the first segment
//! that no application wrote, or a backlog of half a segment, which ns-2 rounds by the last bit. `timeouts` leaves
//! out the expiries after a pause, which ns-2's `nrexmit_` counts.
//! *Limitations:* a base RTT that includes the queues of others, or was measured before the path became longer, is
//! wrong for the rest of the connection. It yields to senders that fill the queue. It takes the delay of retransmitted
//! frames for a queue: with frame errors of 0.1, seven attempts, delivery in order and 167 packets of buffer (10
//! Mbit/s, 40 ms) it carries 1.9 Mbit/s alone, where NewReno carries 8.7, and 0.2 beside a NewReno that carries 8.5.
//! *Kernel counterpart:* `tcp_vegas`, which is `rule = "linux"` and what the profile `linux` sets, with its
//! `alpha` of 2 and `beta` of 4. It doubles in every round of slow start, takes the minimum RTT of a round
//! instead of the mean, decides in whole numbers from the second round after a loss on, is Reno in rounds
//! with two RTT samples or fewer, halves at losses, and forgets the base RTT when it sends again with nothing
//! outstanding.
//! *References:* Brakmo & Peterson, JSAC 13(8), 1995; Brakmo, O'Malley & Peterson, SIGCOMM 1994;
//! `tcp_vegas.c` of Linux 6.1.

use lasthop_core::time::{Span, Time};

use crate::params::{choice, params};
use crate::whole::{Credit, NO_RTT, Open, Rtts, half, three_quarters};
use crate::{AckSample, CongestionControl, LossSample, Reduction, Window};

pub(crate) const SUMMARY: &str =
    "Delay-based: holds alpha to beta segments in the queue (Brakmo & Peterson 1995)";

choice! {
    /// What an ECN echo costs.
    OnMark {
        /// Half of the window (RFC 3168).
        Halve = "halve",
        /// A fifth of it (RFC 8511).
        Abe = "abe",
        /// One segment, like a round with too much queued.
        Soft = "vegas_soft",
    }
}

choice! {
    /// Whose Vegas it is.
    Rule {
        /// Its authors'.
        Paper = "paper",
        /// The Linux kernel's.
        Linux = "linux",
    }
}

params! {
    /// Fewer queued segments than this: grow by one segment per RTT
    alpha: f64 = 1.0, 0.0..=1000.0;
    /// More queued segments than this: shrink by one segment
    beta: f64 = 3.0, 0.0..=1000.0;
    /// More queued segments than this: leave slow start
    gamma: f64 = 1.0, 0.0..=1000.0;
    /// Round the number of queued segments to an integer before comparing, as ns-2 does
    round_diff: bool = false, 0.0..=1.0;
    /// What an ECN echo costs: half of the window (RFC 3168), a fifth (RFC 8511), or one segment
    on_mark: OnMark = OnMark::Halve, 0.0..=2.0;
    /// The rule of its authors, or that of the Linux kernel
    rule: Rule = Rule::Paper, 0.0..=1.0;
}

/// The state of the kernel's Vegas (`tcp_vegas.c`).
#[derive(Clone, Debug)]
struct Kernel {
    /// `least` and `samples` are those of this round.
    rtts: Rtts,
    /// The round ends when a byte beyond it is acknowledged.
    round_end: u64,
    open: Open,
    credit: Credit,
}

impl Kernel {
    fn new() -> Kernel {
        Kernel { rtts: Rtts::new(), round_end: 1, open: Open::new(), credit: Credit::default() }
    }

    fn begin_round(&mut self, next: u64) {
        (self.round_end, self.rtts.samples, self.rtts.least) = (next, 0, NO_RTT);
    }

    /// `tcp_vegas_cong_avoid`. Vegas itself does not ask whether the window was what limited the sender.
    fn grow(&mut self, params: &Params, ack: &AckSample, window: &mut Window) {
        self.rtts.learn(ack.rtt);
        let (returns, is_open) = self.open.enter(ack);
        if returns {
            self.begin_round(ack.next);
        }
        if !is_open {
            // Behind a hole it is Reno (`tcp_vegas_state`).
            if ack.may_grow {
                self.credit.reno(window, ack.acked);
            }
            return;
        }
        let acked = f64::from(ack.acked);
        if ack.una <= self.round_end {
            if window.in_slow_start() {
                window.slow_start(acked, f64::INFINITY);
            }
            return;
        }
        if self.rtts.samples > 2 {
            self.decide(params, acked, window);
        } else if ack.may_grow {
            self.credit.reno(window, ack.acked);
        }
        self.begin_round(ack.next);
    }

    /// The decision of a round: its minimum RTT tells how many segments are queued.
    fn decide(&self, params: &Params, acked: f64, window: &mut Window) {
        let (cwnd, Rtts { base, least, .. }) = (window.cwnd as u64, self.rtts);
        let queued = (cwnd * (least - base) / base) as f64;
        if window.in_slow_start() {
            if queued > params.gamma {
                // What the path holds, and one for what the division took away.
                let target = (cwnd * base / least) as f64 + 1.0;
                window.cwnd = window.cwnd.min(target);
                window.ssthresh = window.ssthresh.min(window.cwnd);
            } else {
                window.slow_start(acked, f64::INFINITY);
            }
        } else if queued > params.beta {
            window.cwnd -= 1.0;
            window.ssthresh = window.ssthresh.min(window.cwnd);
        } else if queued < params.alpha {
            window.cwnd += 1.0;
        }
        window.cwnd = window.cwnd.max(2.0);
        window.ssthresh = window.ssthresh.max(three_quarters(window.cwnd));
    }

    /// What a loss leaves of a window.
    fn kept(&mut self, cwnd: f64) -> f64 {
        self.open.leave();
        self.credit = Credit::default();
        half(cwnd)
    }
}

/// State of Vegas.
#[derive(Clone, Debug)]
pub struct Vegas {
    params: Params,
    /// Least RTT seen, in seconds; infinite before the first sample.
    base_rtt: f64,
    /// Sum and number of the RTT samples of this round.
    rtt_sum: f64,
    rtt_count: u32,
    /// The round ends when a byte beyond `round_end` is acknowledged; it began `round_start` after the connection.
    round_end: u64,
    round_start: Span,
    /// Added to cwnd by each new ACK of this round.
    increment: f64,
    /// Slow start grows in every other round.
    growth_round: bool,
    kernel: Kernel,
}

impl Vegas {
    pub(crate) fn new(params: &Params) -> Self {
        Vegas {
            params: params.clone(),
            base_rtt: f64::INFINITY,
            rtt_sum: 0.0,
            rtt_count: 0,
            round_end: 0,
            round_start: Span::ZERO,
            increment: 0.0,
            growth_round: true,
            kernel: Kernel::new(),
        }
    }

    fn is_kernel(&self) -> bool {
        self.params.rule == Rule::Linux
    }

    /// The once-per-round decision. `sent` counts the segments sent since the round began.
    fn end_round(&mut self, ack: &AckSample, window: &mut Window, rtt: f64, sent: f64) {
        // ns-2 also raises the base to the RTT of a lone segment, which cannot have queued behind its own flow.
        if rtt < self.base_rtt || sent <= 1.0 {
            self.base_rtt = rtt;
        }
        let actual = sent / rtt;
        let expected = f64::from(ack.flight()) / self.base_rtt;
        let mut diff = (expected - actual) * self.base_rtt;
        if self.params.round_diff {
            diff = (diff + 0.5).trunc();
        }
        if window.in_slow_start() {
            self.growth_round = !self.growth_round;
            if !self.growth_round {
                self.increment = 0.0;
            } else if diff > self.params.gamma {
                window.ssthresh = 2.0;
                window.cwnd = (window.cwnd - window.cwnd / 8.0).max(2.0);
                self.increment = 0.0;
            } else {
                self.increment = 1.0;
            }
        } else if diff > self.params.beta {
            window.cwnd = (window.cwnd - 1.0).max(2.0);
            self.increment = 0.0;
        } else if diff < self.params.alpha {
            self.increment = 1.0 / window.cwnd;
        } else {
            self.increment = 0.0;
        }
    }
}

impl CongestionControl for Vegas {
    /// As any RTT.
    fn on_sacked(&mut self, sample: &AckSample, window: &mut Window) {
        if self.is_kernel() {
            self.kernel.open.leave();
            return self.kernel.rtts.learn(sample.rtt);
        }
        self.on_ack(sample, window);
    }

    fn on_ack(&mut self, ack: &AckSample, window: &mut Window) {
        if self.is_kernel() {
            return self.kernel.grow(&self.params, ack, window);
        }
        if self.base_rtt.is_infinite() {
            // The first estimate: of data, or in ns-2 of the handshake, whose SYN is as long as data.
            let first = ack.rtt.unwrap_or(ack.elapsed);
            self.base_rtt = first.seconds();
            self.round_start = ack.elapsed - first;
        }
        if ack.una > self.round_end {
            let rtt = if self.rtt_count > 0 {
                self.rtt_sum / f64::from(self.rtt_count)
            } else {
                (ack.elapsed - self.round_start).seconds()
            };
            self.rtt_sum = 0.0;
            self.rtt_count = 0;
            // A retransmission may have moved `next` back below the mark.
            let sent = (ack.next.saturating_sub(self.round_end)).div_ceil(u64::from(ack.mss)) as f64;
            if rtt > 0.0 {
                self.end_round(ack, window, rtt, sent);
            }
            self.round_end = ack.next;
            self.round_start = ack.elapsed;
        }
        if self.increment == 1.0 && !window.in_slow_start() {
            self.increment = 0.0;
        }
        if ack.may_grow && self.increment > 0.0 && window.cwnd - f64::from(ack.flight()) <= 2.0 {
            window.cwnd += self.increment;
        }
        if let Some(rtt) = ack.rtt.filter(|&rtt| rtt > Span::ZERO) {
            let rtt = rtt.seconds();
            self.rtt_sum += rtt;
            self.rtt_count += 1;
            self.base_rtt = self.base_rtt.min(rtt);
        }
    }

    /// A quarter less for a first loss, half for a loss of a retransmission, as Vegas's authors do.
    fn on_loss(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        if self.is_kernel() {
            let kept = self.kernel.kept(window.cwnd);
            return Reduction::to(kept, kept);
        }
        let whole = loss.flight.trunc();
        let kept = if whole <= 3.0 {
            2.0
        } else if loss.retransmitted {
            (whole / 2.0).trunc()
        } else {
            whole - (whole / 4.0).trunc()
        };
        Reduction::to(kept, kept)
    }

    fn on_timeout(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        if self.is_kernel() {
            return Reduction::to(self.kernel.kept(window.cwnd), 1.0);
        }
        Reduction::to(loss.flight / 2.0, 2.0)
    }

    /// RFC 3168 §5: a mark calls for the reaction to a loss of the standard, whatever this law answers to losses.
    /// The two milder answers are for studies of Vegas with ECN.
    fn on_ecn(&mut self, _loss: &LossSample, window: &Window) -> Reduction {
        let kept = match self.params.on_mark {
            OnMark::Halve => window.cwnd / 2.0,
            OnMark::Abe => window.cwnd * 0.8,
            OnMark::Soft => window.cwnd - 1.0,
        };
        self.increment = 0.0;
        self.kernel.kept(window.cwnd);
        Reduction::to(kept.floor(), kept.max(1.0))
    }

    /// The kernel discards its RTTs when it sends with nothing outstanding.
    fn on_idle(&mut self, _idle: Span, _now: Time) {
        if self.is_kernel() {
            self.kernel =
                Kernel { round_end: self.kernel.round_end, credit: self.kernel.credit, ..Kernel::new() };
        }
    }

    /// The kernel gives back windows alone.
    fn on_undo(&mut self, before: Self) {
        if !self.is_kernel() {
            *self = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack, loss};

    /// TV-3.1: base 100 ms, W = F = sent = 20; the window after the round's decision and one further RTT of ACKs.
    fn decision(rtt_ms: u64, round_diff: bool) -> (f64, f64) {
        let mut vegas = Vegas::new(&Params { round_diff, ..Params::default() });
        vegas.base_rtt = 0.1;
        vegas.round_end = 1;
        let mut window = Window { cwnd: 20.0, ssthresh: 2.0 };
        let sample = AckSample { una: 1001, next: 20_001, ..ack(1) };
        vegas.rtt_sum = rtt_ms as f64 / 1000.0;
        vegas.rtt_count = 1;
        vegas.on_ack(&AckSample { may_grow: false, ..sample }, &mut window);
        (window.cwnd, vegas.increment)
    }

    #[test]
    fn once_per_round_decisions() {
        let grow = (20.0, 1.0 / 20.0);
        let hold = (20.0, 0.0);
        let shrink = (19.0, 0.0);
        for (rtt, real, rounded) in [
            (102, grow, grow),
            (104, grow, hold),
            (110, hold, hold),
            (118, shrink, hold),
            (125, shrink, shrink),
        ] {
            assert_eq!(decision(rtt, false), real, "real-valued difference at {rtt} ms");
            assert_eq!(decision(rtt, true), rounded, "rounded difference at {rtt} ms");
        }
    }

    /// TV-3.0: without queueing the window doubles in every second round.
    #[test]
    fn slow_start_doubles_every_other_round() {
        let mut vegas = Vegas::new(&Params::default());
        let mut window = Window { cwnd: 2.0, ssthresh: f64::INFINITY };
        let mss = 1000;
        let (mut una, mut next) = (1, 2_001);
        vegas.base_rtt = 0.1;
        vegas.round_end = 1;
        // The handshake was a round without growth.
        vegas.growth_round = false;
        let mut ends = vec![window.cwnd];
        for round in 1..6u64 {
            let mut due = (next - una) / mss;
            while due > 0 {
                una += mss;
                due -= 1;
                let sample = AckSample {
                    una,
                    next,
                    elapsed: Span::from_millis(100 * round),
                    rtt: Some(Span::from_millis(100)),
                    ..ack(1)
                };
                vegas.on_ack(&sample, &mut window);
                while (next - una) / mss < window.cwnd as u64 {
                    next += mss;
                }
            }
            ends.push(window.cwnd);
        }
        assert_eq!(ends, [2.0, 4.0, 4.0, 8.0, 8.0, 16.0]);
    }

    /// TV-3.2: a quarter less at a first loss, half at a second.
    #[test]
    fn cuts_less_than_reno() {
        let mut vegas = Vegas::new(&Params::default());
        let window = Window { cwnd: 20.0, ssthresh: 2.0 };
        assert_eq!(vegas.on_loss(&loss(20.0), &window).cwnd, 15.0);
        assert_eq!(vegas.on_loss(&LossSample { retransmitted: true, ..loss(20.0) }, &window).cwnd, 10.0);
        assert_eq!(vegas.on_loss(&loss(3.0), &window).cwnd, 2.0);
    }

    /// The kernel's Vegas in a round of four samples of `rtt_us`, after a base of 40 ms, with a window of `cwnd`.
    fn of_kernel(rtt_us: u64, cwnd: f64, ssthresh: f64) -> Window {
        let mut vegas = Vegas::new(&Params { rule: Rule::Linux, alpha: 2.0, beta: 4.0, ..Params::default() });
        let mut window = Window { cwnd, ssthresh };
        let sample = |rtt_us, una, next| AckSample {
            rtt: Some(Span::from_nanos(rtt_us * 1000)),
            una,
            next,
            acked: 0,
            ..ack(1)
        };
        // Two rounds: the first has the base and one sample alone, by which Reno goes on.
        vegas.on_ack(&sample(39_999, 1001, 20_001), &mut window);
        for _ in 0..3 {
            vegas.on_ack(&sample(rtt_us - 1, 2001, 20_001), &mut window);
        }
        assert_eq!(window, Window { cwnd, ssthresh }, "no decision within a round");
        vegas.on_ack(&AckSample { acked: 1, ..sample(rtt_us - 1, 21_001, 40_001) }, &mut window);
        window
    }

    /// TV-3.4, by hand from `tcp_vegas.c`, base 40 000 us. With 20 segments: 20 x 4 000 / 40 000 = 2 are
    /// queued at 44 ms, 1 (1.9995) at 43.999, 4 at 49.999 (4.9995), 5 at 50. ssthresh rises to 10 + 5, 9 + 4.
    #[test]
    fn the_rule_of_linux_by_whole_segments() {
        for (rtt_us, cwnd, ssthresh) in
            [(43_999, 21.0, 15.0), (44_000, 20.0, 15.0), (49_999, 20.0, 15.0), (50_000, 19.0, 13.0)]
        {
            assert_eq!(of_kernel(rtt_us, 20.0, 10.0), Window { cwnd, ssthresh }, "at {rtt_us} us");
        }
        // Slow start: 1 queued at 42 ms, 2 at 44 ms. 20 x 40 000 / 44 000 = 18, and one.
        let start = of_kernel(42_000, 20.0, 100.0);
        assert_eq!(start, Window { cwnd: 21.0, ssthresh: 100.0 });
        let end = of_kernel(44_000, 20.0, 100.0);
        assert_eq!(end, Window { cwnd: 19.0, ssthresh: 19.0 });
    }

    /// Half of 21 is left at a loss; the round after it decides nothing, and two samples make a round of Reno's.
    #[test]
    fn the_rule_of_linux_after_a_loss() {
        let mut vegas = Vegas::new(&Params { rule: Rule::Linux, ..Params::default() });
        let mut window = Window { cwnd: 21.0, ssthresh: 30.0 };
        let rtt = Some(Span::from_millis(40));
        vegas.on_ack(&AckSample { rtt, una: 1001, next: 21_001, acked: 0, ..ack(1) }, &mut window);
        assert_eq!(vegas.on_loss(&loss(15.0), &window), Reduction::to(10.0, 10.0));
        assert_eq!(vegas.on_timeout(&loss(15.0), &window), Reduction::to(10.0, 1.0));
        let mut window = Window { cwnd: 10.0, ssthresh: 10.0 };
        let repaired = AckSample { rtt, una: 22_001, next: 30_001, may_grow: false, ..ack(1) };
        vegas.on_ack(&repaired, &mut window);
        vegas.on_ack(&AckSample { una: 23_001, next: 31_001, ..repaired }, &mut window);
        for una in [24_001, 25_001, 26_001, 31_001] {
            vegas.on_ack(&AckSample { rtt, una, next: 31_001, ..ack(1) }, &mut window);
            assert_eq!(window.cwnd, 10.0, "up to what was sent when repairs were over");
        }
        vegas.on_ack(&AckSample { rtt, una: 32_001, next: 42_001, ..ack(1) }, &mut window);
        assert_eq!(window.cwnd, 11.0, "nothing is queued");
    }

    /// ACKs that leave a hole behind grow by a segment per window, whatever the RTT; the first without begins a round.
    #[test]
    fn the_rule_of_linux_behind_a_hole() {
        let mut vegas = Vegas::new(&Params { rule: Rule::Linux, ..Params::default() });
        let mut window = Window { cwnd: 10.0, ssthresh: 5.0 };
        vegas.kernel.rtts.learn(Some(Span::from_millis(40)));
        let rtt = Some(Span::from_millis(80));
        let late = AckSample { rtt, una: 20_001, next: 30_001, ..ack(1) };
        for _ in 0..10 {
            vegas.on_ack(&AckSample { disordered: true, ..late }, &mut window);
        }
        assert_eq!(window.cwnd, 11.0);
        vegas.on_ack(&late, &mut window);
        assert_eq!((vegas.kernel.round_end, vegas.kernel.rtts.samples), (30_001, 0));
        assert_eq!(window.cwnd, 11.0);
    }

    /// Sending again with nothing outstanding forgets the base.
    #[test]
    fn the_rule_of_linux_after_a_pause() {
        let mut vegas = Vegas::new(&Params { rule: Rule::Linux, ..Params::default() });
        vegas.kernel.rtts.learn(Some(Span::from_millis(40)));
        vegas.on_idle(Span::from_millis(1), Time::ZERO);
        vegas.kernel.rtts.learn(Some(Span::from_millis(90)));
        assert_eq!(vegas.kernel.rtts.base, 90_001);
    }

    /// TV-3.3.
    #[test]
    fn a_mark_halves_the_window() {
        let mut vegas = Vegas::new(&Params::default());
        let window = Window { cwnd: 12.0, ssthresh: 20.0 };
        assert_eq!(vegas.on_ecn(&loss(12.0), &window), Reduction::to(6.0, 6.0));
    }

    /// The milder answers to the same mark, and no growth for the rest of the round.
    #[test]
    fn a_mark_may_cost_less() {
        let window = Window { cwnd: 12.0, ssthresh: 20.0 };
        for (on_mark, cwnd, ssthresh) in [(OnMark::Abe, 9.6, 9.0), (OnMark::Soft, 11.0, 11.0)] {
            let mut vegas = Vegas::new(&Params { on_mark, ..Params::default() });
            vegas.increment = 0.1;
            let reduction = vegas.on_ecn(&loss(12.0), &window);
            assert!((reduction.cwnd - cwnd).abs() < 1e-9 && reduction.ssthresh == ssthresh, "{reduction:?}");
            assert_eq!(vegas.increment, 0.0);
        }
    }
}
