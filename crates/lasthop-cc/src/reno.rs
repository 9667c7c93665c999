//! Reno: additive increase, multiplicative decrease (Jacobson 1988; RFC 5681).
//!
//! *What it does.* Slow start adds a segment per ACK below ssthresh; congestion avoidance adds `alpha` segments per
//! RTT; after a loss the window is `beta` of the data in flight.
//! *Reacts to* loss and ECN.
//! *Differs from the paper:* nothing; `byte_counting` and `slow_start_limit` choose between per-ACK and byte
//! counting.
//! *Validation:* RFC 5681's rules by hand, below; with Tahoe, Reno, NewReno and SACK recovery it agrees with ns-2
//! packet for packet, and in simulation with the square-root formula.
//! *Limitations:* every loss counts as congestion, so it leaves bandwidth unused over a lossy last hop.
//! *Kernel counterpart:* `tcp_reno`.
//! *References:* RFC 5681; RFC 3465 (byte counting); RFC 8511 (`ecn_beta`).

use crate::params::params;
use crate::{AckSample, CongestionControl, GrowthStyle, LossSample, Reduction, Window};

pub(crate) const SUMMARY: &str = "Additive increase, multiplicative decrease (RFC 5681)";

params! {
    /// Segments added per RTT in congestion avoidance
    alpha: f64 = 1.0, 0.001..=1000.0;
    /// Share of the data in flight that is kept after a loss
    beta: f64 = 0.5, 0.01..=0.99;
    /// Count segments instead of ACKs in congestion avoidance (RFC 3465)
    byte_counting: bool = false, 0.0..=1.0;
    /// Maximum number of segments that one ACK adds in slow start (RFC 5681: 1; RFC 3465: 2)
    slow_start_limit: f64 = crate::SLOW_START_LIMIT, 1.0..=1e9;
    /// Share of the flight kept after a mark; 0 takes that of a loss (RFC 8511: 0.8)
    ecn_beta: f64 = 0.0, 0.0..=0.99;
}

/// State of Reno: none beyond its parameters.
#[derive(Clone, Debug)]
pub struct Reno {
    params: Params,
}

impl Reno {
    pub(crate) fn new(params: &Params) -> Self {
        Reno { params: params.clone() }
    }
}

impl CongestionControl for Reno {
    #[inline]
    fn on_ack(&mut self, ack: &AckSample, window: &mut Window) {
        if ack.may_grow {
            let Params { alpha, byte_counting, slow_start_limit, .. } = self.params;
            window.grow(ack.acked, alpha, GrowthStyle { byte_counting, slow_start_limit });
        }
    }

    fn on_loss(&mut self, loss: &LossSample, _window: &Window) -> Reduction {
        let kept = loss.flight * self.params.beta;
        Reduction::to(kept, kept)
    }

    fn on_timeout(&mut self, loss: &LossSample, _window: &Window) -> Reduction {
        Reduction::to(loss.flight * self.params.beta, 1.0)
    }

    fn on_ecn(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        if self.params.ecn_beta == 0.0 {
            return self.on_loss(loss, window);
        }
        let kept = loss.flight * self.params.ecn_beta;
        Reduction::to(kept, kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack, loss};

    #[test]
    fn slow_start_adds_one_segment_per_ack() {
        let mut reno = Reno::new(&Params::default());
        let mut window = Window { cwnd: 2.0, ssthresh: 64.0 };
        reno.on_ack(&ack(2), &mut window);
        assert_eq!(window.cwnd, 3.0, "RFC 5681: one segment per ACK however much it covers");
    }

    #[test]
    fn byte_counting_credits_every_segment() {
        let params = Params { byte_counting: true, slow_start_limit: 2.0, ..Params::default() };
        let mut reno = Reno::new(&params);
        let mut window = Window { cwnd: 2.0, ssthresh: 64.0 };
        reno.on_ack(&ack(3), &mut window);
        assert_eq!(window.cwnd, 4.0);
        window = Window { cwnd: 10.0, ssthresh: 5.0 };
        reno.on_ack(&ack(2), &mut window);
        assert_eq!(window.cwnd, 10.2);
    }

    #[test]
    fn congestion_avoidance_adds_one_segment_per_window() {
        let mut reno = Reno::new(&Params::default());
        let mut window = Window { cwnd: 10.0, ssthresh: 5.0 };
        reno.on_ack(&ack(1), &mut window);
        assert_eq!(window.cwnd, 10.1);
    }

    #[test]
    fn does_not_grow_when_it_may_not() {
        let mut reno = Reno::new(&Params::default());
        let mut window = Window { cwnd: 10.0, ssthresh: 5.0 };
        reno.on_ack(&AckSample { may_grow: false, ..ack(1) }, &mut window);
        assert_eq!(window.cwnd, 10.0);
    }

    #[test]
    fn halves_the_flight() {
        let mut reno = Reno::new(&Params::default());
        let window = Window { cwnd: 20.0, ssthresh: 64.0 };
        assert_eq!(reno.on_loss(&loss(15.0), &window), Reduction::to(7.5, 7.5));
        assert_eq!(reno.on_ecn(&loss(15.0), &window), Reduction::to(7.5, 7.5));
    }

    /// RFC 8511: less back-off at a mark than at a loss.
    #[test]
    fn a_mark_may_cost_less() {
        let mut reno = Reno::new(&Params { ecn_beta: 0.8, ..Params::default() });
        let window = Window { cwnd: 20.0, ssthresh: 64.0 };
        assert_eq!(reno.on_ecn(&loss(15.0), &window), Reduction::to(12.0, 12.0));
        assert_eq!(reno.on_loss(&loss(15.0), &window), Reduction::to(7.5, 7.5));
    }
}
