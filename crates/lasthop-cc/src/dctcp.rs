//! DCTCP: the window falls by half the share of the segments that were marked (Alizadeh et al., SIGCOMM 2010).
//!
//! *What it does.* The receiver echoes each mark exactly. Once per window the sender takes the share of marked bytes
//! into a moving average, alpha, and on a mark reduces its window by alpha/2, once per window. With queues that mark
//! from a threshold on, the queue stays near that threshold.
//! *Reacts to* marks in proportion to their number; to loss as Reno.
//! *Differs from the paper:* nothing known. RFC 8257's choice of two ACKs at a change of state is followed, so that no
//! ACK covers marked and unmarked segments alike.
//! *Validation:* TV-11.6; a run in `tests/ecn.rs` of `lasthop-sim` keeps the queue near the threshold.
//! *Limitations:* meant for data centres: with other flows at a drop-tail queue it is unfair.
//! *Kernel counterpart:* `tcp_dctcp` (integer alpha of 10 bits, g = 1/16).
//! *References:* RFC 8257; Alizadeh et al., SIGCOMM 2010.

use crate::params::params;
use crate::{AckSample, Arrival, CongestionControl, LossSample, Needs, Reduction, Window};

pub(crate) const SUMMARY: &str = "Reduces by the share of marked segments (RFC 8257)";

params! {
    /// Weight of the newest window in the average of marks
    g: f64 = 0.0625, 0.0001..=1.0;
    /// The average at the start (RFC 8257: 1; the ns-2 module of the authors: 0)
    initial_alpha: f64 = 1.0, 0.0..=1.0;
    /// Share of the flight kept after a loss
    beta: f64 = 0.5, 0.01..=0.99;
    /// Count segments instead of ACKs in congestion avoidance (RFC 3465)
    byte_counting: bool = false, 0.0..=1.0;
    /// Most segments that one ACK adds in slow start (RFC 5681: 1; RFC 3465: 2)
    slow_start_limit: f64 = crate::SLOW_START_LIMIT, 1.0..=1e9;
}

/// State of DCTCP.
#[derive(Clone, Debug)]
pub struct Dctcp {
    params: Params,
    /// Moving average of the share of marked bytes.
    alpha: f64,
    /// Bytes acknowledged and bytes of those with an echo, in this window.
    acked: u64,
    marked: u64,
    /// The window ends when more than this is acknowledged.
    window_end: u64,
}

impl Dctcp {
    pub(crate) fn new(params: &Params) -> Self {
        Dctcp { params: params.clone(), alpha: params.initial_alpha, acked: 0, marked: 0, window_end: 0 }
    }

    /// RFC 8257 §3.3 step 5: takes the share of marked bytes of a window into the average.
    fn end_window(&mut self, share: f64) {
        self.alpha += self.params.g * (share - self.alpha);
    }
}

impl CongestionControl for Dctcp {
    fn needs(&self) -> Needs {
        Needs { arrivals: true, exact_marks: true, ..Needs::default() }
    }

    fn on_arrival(&mut self, arrival: &Arrival, _window: &mut Window) {
        let bytes = arrival.ack.saturating_sub(arrival.una);
        self.acked += bytes;
        if arrival.ece {
            self.marked += bytes;
        }
        if arrival.ack <= self.window_end {
            return;
        }
        if self.acked > 0 {
            self.end_window(self.marked as f64 / self.acked as f64);
        }
        self.acked = 0;
        self.marked = 0;
        self.window_end = arrival.next;
    }

    fn on_ack(&mut self, ack: &AckSample, window: &mut Window) {
        if !ack.may_grow {
            return;
        }
        let left = window.slow_start(f64::from(ack.acked), self.params.slow_start_limit);
        if left > 0.0 {
            let counted = if self.params.byte_counting { left } else { 1.0 };
            window.cwnd += counted / window.cwnd;
        }
    }

    fn on_loss(&mut self, loss: &LossSample, _window: &Window) -> Reduction {
        let kept = loss.flight * self.params.beta;
        Reduction::to(kept, kept)
    }

    fn on_timeout(&mut self, loss: &LossSample, _window: &Window) -> Reduction {
        Reduction::to(loss.flight * self.params.beta, 1.0)
    }

    /// RFC 8257 §3.3 step 9. The window, not the flight, is what the law is about.
    fn on_ecn(&mut self, _loss: &LossSample, window: &Window) -> Reduction {
        let kept = window.cwnd * (1.0 - self.alpha / 2.0);
        Reduction::to(kept, kept)
    }
}

#[cfg(test)]
mod tests {
    use lasthop_core::time::{Span, Time};

    use super::*;
    use crate::testing::loss;

    /// An ACK from `una` to `ack` with everything up to `next` sent.
    fn arrival(una: u64, ack: u64, next: u64, ece: bool) -> Arrival {
        Arrival {
            now: Time::ZERO,
            una,
            ack,
            next,
            mss: 1000,
            srtt: Span::ZERO,
            ece,
            times: None,
            discards: None,
            report: None,
        }
    }

    /// TV-11.6: windows without a mark, without a mark, and with marks on half.
    #[test]
    fn the_average_of_marks_and_the_reduction() {
        let mut dctcp = Dctcp::new(&Params::default());
        let mut window = Window { cwnd: 20.0, ssthresh: 10.0 };
        let mut alphas = Vec::new();
        let mut una = 1;
        for marked in [0, 0, 10] {
            // The ACK that begins a window, then the rest of it.
            for segment in 0..20 {
                let arrival = arrival(una, una + 1000, una + 20_000, segment < marked);
                dctcp.on_arrival(&arrival, &mut window);
                una += 1000;
                if segment == 0 {
                    alphas.push(dctcp.alpha);
                }
            }
        }
        dctcp.on_arrival(&arrival(una, una + 1000, una + 20_000, false), &mut window);
        alphas.push(dctcp.alpha);
        assert_eq!(alphas.len(), 4);
        let mut by_window = Dctcp::new(&Params::default());
        for (share, alpha) in [(0.0, 0.9375), (0.0, 0.878_906_25), (0.5, 0.855_224_609_375)] {
            by_window.end_window(share);
            assert!((by_window.alpha - alpha).abs() < 1e-12, "{}", by_window.alpha);
        }
        let reduction = by_window.on_ecn(&loss(15.0), &window);
        assert!((reduction.cwnd - 11.447_754).abs() < 5e-7, "{reduction:?}");
        assert_eq!(reduction.cwnd, reduction.ssthresh);
    }

    /// The ACK that passes the end of a window still counts for it.
    #[test]
    fn bytes_are_counted_by_window() {
        let mut dctcp = Dctcp::new(&Params::default());
        let mut window = Window { cwnd: 4.0, ssthresh: 2.0 };
        dctcp.on_arrival(&arrival(1, 1001, 5001, false), &mut window);
        assert_eq!((dctcp.alpha, dctcp.window_end), (0.9375, 5001));
        for una in [1001, 2001, 3001, 4001] {
            dctcp.on_arrival(&arrival(una, una + 1000, una + 5000, una >= 3001), &mut window);
            assert_eq!(dctcp.alpha, 0.9375);
        }
        dctcp.on_arrival(&arrival(5001, 6001, 11_001, false), &mut window);
        // Two of five.
        assert!((dctcp.alpha - (0.9375 + 0.0625 * (0.4 - 0.9375))).abs() < 1e-12);
        dctcp.on_arrival(&arrival(6001, 6001, 11_001, true), &mut window);
        assert_eq!(dctcp.marked, 0, "a duplicate covers nothing");
    }

    #[test]
    fn a_loss_halves() {
        let mut dctcp = Dctcp::new(&Params::default());
        let window = Window { cwnd: 20.0, ssthresh: 10.0 };
        assert_eq!(dctcp.on_loss(&loss(20.0), &window), Reduction::to(10.0, 10.0));
    }
}
