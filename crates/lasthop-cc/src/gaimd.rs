//! GAIMD: additive increase by alpha, multiplicative decrease to beta (Yang & Lam, ICNP 2000), and TCP(alpha, beta,
//! gamma), which also yields before losses.
//!
//! *What it does.* Like Reno with `alpha` segments per RTT and the share `beta` kept after a loss; the default pair
//! is the one published as friendly to TCP and smoother. With `gamma` above zero it removes that share of the window,
//! at most once per round trip, when congestion builds up: when more than `gamma_queue` of its own segments are
//! queued by Veno's estimate, W (RTT - minimum RTT) / RTT.
//! *Reacts to* loss and ECN alike; to delay if `gamma` is set.
//! *Differs from the paper:* the papers' equations do not say how growing congestion is detected; the estimate of the
//! backlog is a choice, and off by default. Reductions start from the window, not from the data in flight as in RFC
//! 5681 (`reduce_from`): with a beta near one, the fraction of a segment that is not in flight is a large part of the
//! reduction. `ns2_decrease` halves at timeouts and at the first reduction, as ns-2 does whatever its `decrease_num_`.
//! *Validation:* the model's rates in TV-8.1; in simulation 1.1 to 1.3 times TCP at equal loss, and 1.1 to
//! 1.5 times beside SACK in one queue (`tests/laws.rs`).
//! *Limitations:* at low loss rates the pair (0.31, 0.875) carries 1.25 times as much as TCP, by the authors' own
//! equation, which assumes equal loss rates. Beside one SACK flow over 10 Mbit/s and 40 ms (ten seeds, each flow
//! starts within the first second) it carries 1.24 times as much with 33 packets of queue and 1.33 with 100, where
//! SACK beside SACK carries 0.98 and 0.94. Two flows that start at the same instant have different losses in one
//! drop-tail buffer: then it is 1.5 and 2.3 times, and SACK beside SACK 1.9. The queue causes this share (phase
//! effects: Floyd & Jacobson 1992), not the controller.
//! *Kernel counterpart:* none.
//! *References:* Yang & Lam, ICNP 2000.

use crate::params::params;
use crate::veno::{Backlog, ReduceFrom};
use crate::{AckSample, CongestionControl, GrowthStyle, LossSample, Reduction, Window};

pub(crate) const SUMMARY: &str =
    "Additive increase and multiplicative decrease of any size (Yang & Lam 2000)";

params! {
    /// Segments added per RTT in congestion avoidance
    alpha: f64 = 0.31, 0.001..=1000.0;
    /// Share of the window kept after a loss
    beta: f64 = 0.875, 0.01..=0.99;
    /// Share of the window removed when congestion builds up; 0: never
    gamma: f64 = 0.0, 0.0..=0.99;
    /// Number of queued segments that means that congestion builds up
    gamma_queue: f64 = 3.0, 0.0..=1000.0;
    /// What is reduced: the window or, as in RFC 5681, the segments in flight
    reduce_from: ReduceFrom = ReduceFrom::Window, 0.0..=1.0;
    /// Halve at timeouts and at the first reduction, as ns-2 does
    ns2_decrease: bool = false, 0.0..=1.0;
    /// Count segments instead of ACKs in congestion avoidance (RFC 3465)
    byte_counting: bool = false, 0.0..=1.0;
    /// Maximum number of segments that one ACK adds in slow start (RFC 5681: 1; RFC 3465: 2)
    slow_start_limit: f64 = crate::SLOW_START_LIMIT, 1.0..=1e9;
}

/// State of GAIMD.
#[derive(Clone, Debug)]
pub struct Gaimd {
    params: Params,
    backlog: Backlog,
    /// The window has been reduced before.
    reduced: bool,
    /// The window may yield again when a byte beyond this is acknowledged.
    yielded: u64,
}

impl Gaimd {
    pub(crate) fn new(params: &Params) -> Self {
        Gaimd { params: params.clone(), backlog: Backlog::new(), reduced: false, yielded: 0 }
    }

    /// The window that a reduction keeps.
    fn kept(&mut self, timeout: bool, loss: &LossSample, window: &Window) -> f64 {
        let first = !std::mem::replace(&mut self.reduced, true);
        let share = if self.params.ns2_decrease && (timeout || first) { 0.5 } else { self.params.beta };
        share * self.params.reduce_from.base(loss, window)
    }

    /// Gives up the share gamma if too much is queued; returns whether it did.
    fn yields(&mut self, ack: &AckSample, window: &mut Window) -> bool {
        if ack.una <= self.yielded || self.backlog.segments <= self.params.gamma_queue {
            return false;
        }
        self.yielded = ack.next;
        let left = window.cwnd * (1.0 - self.params.gamma);
        window.cwnd = left.max(window.cwnd.min(2.0));
        window.ssthresh = window.ssthresh.min(window.cwnd.max(2.0));
        true
    }
}

impl CongestionControl for Gaimd {
    fn on_ack(&mut self, ack: &AckSample, window: &mut Window) {
        if self.params.gamma > 0.0 {
            self.backlog.learn(ack.rtt, window.cwnd);
        }
        if !ack.may_grow || (self.params.gamma > 0.0 && self.yields(ack, window)) {
            return;
        }
        let Params { alpha, byte_counting, slow_start_limit, .. } = self.params;
        window.grow(ack.acked, alpha, GrowthStyle { byte_counting, slow_start_limit });
    }

    fn on_loss(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        let kept = self.kept(false, loss, window);
        Reduction::to(kept, kept)
    }

    fn on_timeout(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        Reduction::to(self.kept(true, loss, window), 1.0)
    }
}

#[cfg(test)]
mod tests {
    use lasthop_core::time::Span;

    use super::*;
    use crate::testing::{ack, loss};

    const FULL: Window = Window { cwnd: 20.0, ssthresh: 10.0 };

    #[test]
    fn adds_alpha_and_keeps_beta() {
        let mut gaimd = Gaimd::new(&Params::default());
        let mut window = FULL;
        gaimd.on_ack(&ack(1), &mut window);
        assert_eq!(window.cwnd, 20.0155);
        assert_eq!(gaimd.on_loss(&loss(16.0), &FULL), Reduction::to(17.5, 17.5));
        assert_eq!(gaimd.on_ecn(&loss(16.0), &FULL), Reduction::to(17.5, 17.5));
        assert_eq!(gaimd.on_timeout(&loss(16.0), &FULL), Reduction::to(17.5, 1.0));
        let mut gaimd = Gaimd::new(&Params { reduce_from: ReduceFrom::Flight, ..Params::default() });
        assert_eq!(gaimd.on_loss(&loss(16.0), &FULL), Reduction::to(14.0, 14.0));
    }

    #[test]
    fn ns2_halves_first_and_at_timeouts() {
        let mut gaimd = Gaimd::new(&Params { ns2_decrease: true, ..Params::default() });
        let kept: Vec<f64> = (0..2).map(|_| gaimd.on_loss(&loss(20.0), &FULL).cwnd).collect();
        assert_eq!(kept, [10.0, 17.5]);
        assert_eq!(gaimd.on_timeout(&loss(20.0), &FULL), Reduction::to(10.0, 1.0));
    }

    /// W = 20 and an RTT of 125 ms over 100 ms are four queued segments.
    #[test]
    fn gamma_yields_once_per_round_trip() {
        let mut gaimd = Gaimd::new(&Params { gamma: 0.125, ..Params::default() });
        let mut window = FULL;
        let mut sample = |rtt, una, next| {
            let sample = AckSample { rtt: Some(Span::from_millis(rtt)), una, next, ..ack(1) };
            gaimd.on_ack(&sample, &mut window);
            window.cwnd
        };
        let grown = sample(100, 1000, 21_000);
        assert!(grown > 20.0);
        assert_eq!(sample(125, 2000, 22_000), 0.875 * grown);
        assert!(sample(125, 22_000, 40_000) > 0.875 * grown, "the same round trip");
        assert!(sample(125, 23_000, 40_000) < 0.875 * grown, "the next");
    }
}
