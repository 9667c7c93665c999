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
//! *Kernel counterpart:* `tcp_dctcp`, which is `rule = "linux"` and what the profile `linux` sets: alpha in
//! whole 1024ths with g = 1/16 down to nothing, windows that end with the ACK of their last byte (with what that
//! delivers in 6.1.192 and from 6.16 on, without it before), and halves of the window instead of the flight at losses.
//! *References:* RFC 8257; Alizadeh et al., SIGCOMM 2010; `tcp_dctcp.c` of Linux 6.1.

use crate::params::{choice, params};
use crate::whole::half;
use crate::{AckSample, Arrival, CongestionControl, LossSample, Needs, Reduction, Window};

pub(crate) const SUMMARY: &str = "Reduces by the share of marked segments (RFC 8257)";

choice! {
    /// In what numbers it is computed.
    Rule {
        /// In those of RFC 8257.
        Rfc = "rfc",
        /// In those of the Linux kernel.
        Linux = "linux",
    }
}

params! {
    /// Weight of the newest window in the average of marks
    g: f64 = 0.0625, 0.0001..=1.0;
    /// The average at the start (RFC 8257: 1; the ns-2 module of the authors: 0)
    initial_alpha: f64 = 1.0, 0.0..=1.0;
    /// Share of the data in flight that is kept after a loss
    beta: f64 = 0.5, 0.01..=0.99;
    /// Arithmetic: as in RFC 8257, or in the integers of the Linux kernel
    rule: Rule = Rule::Rfc, 0.0..=1.0;
    /// Count segments instead of ACKs in congestion avoidance (RFC 3465)
    byte_counting: bool = false, 0.0..=1.0;
    /// Maximum number of segments that one ACK adds in slow start (RFC 5681: 1; RFC 3465: 2)
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

    /// `dctcp_update_alpha`, in 1024ths. Small averages end at zero.
    fn end_window_of_kernel(&mut self) {
        let alpha = (self.alpha * 1024.0) as u64;
        let part = alpha >> 4;
        let kept = alpha - if part == 0 { alpha } else { part };
        let marked = (self.marked << 6) / self.acked.max(1);
        self.alpha = (kept + marked).min(1024) as f64 / 1024.0;
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
        self.marked += arrival.marked;
        if self.params.rule == Rule::Linux {
            if arrival.ack >= self.window_end {
                self.end_window_of_kernel();
                (self.acked, self.marked, self.window_end) = (0, 0, arrival.next);
            }
            return;
        }
        if arrival.ack <= self.window_end {
            return;
        }
        if self.acked > 0 {
            // Marks that duplicate ACKs told of may be more than what was acknowledged with them.
            self.end_window((self.marked as f64 / self.acked as f64).min(1.0));
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

    fn on_loss(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        let kept =
            if self.params.rule == Rule::Linux { half(window.cwnd) } else { loss.flight * self.params.beta };
        Reduction::to(kept, kept)
    }

    fn on_timeout(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        if self.params.rule == Rule::Linux {
            return Reduction::to(half(window.cwnd), 1.0);
        }
        Reduction::to(loss.flight * self.params.beta, 1.0)
    }

    /// RFC 8257 §3.3 step 9. The window, not the flight, is what the law is about.
    fn on_ecn(&mut self, _loss: &LossSample, window: &Window) -> Reduction {
        let mut kept = window.cwnd * (1.0 - self.alpha / 2.0);
        if self.params.rule == Rule::Linux {
            let cwnd = window.cwnd.floor();
            kept = (cwnd - (cwnd * self.alpha / 2.0).floor()).max(2.0);
        }
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
            marked: if ece { ack - una } else { 0 },
            times: None,
            first_sacked: None,
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

    /// TV-11.7, by hand from `tcp_dctcp.c`, in 1024ths: half of a window marked makes 900 - 56 + 640 / 20 =
    /// 876 of 900. Of 20 segments (20 x 876) >> 11 = 8 go.
    #[test]
    fn the_numbers_of_linux() {
        let mut dctcp = Dctcp::new(&Params { rule: Rule::Linux, ..Params::default() });
        let window = Window { cwnd: 20.0, ssthresh: 10.0 };
        dctcp.alpha = 876.0 / 1024.0;
        assert_eq!(dctcp.on_ecn(&loss(15.0), &window), Reduction::to(12.0, 12.0));
        assert_eq!(dctcp.on_loss(&loss(15.0), &window), Reduction::to(10.0, 10.0));
        (dctcp.alpha, dctcp.acked, dctcp.marked) = (15.0 / 1024.0, 20, 0);
        dctcp.end_window_of_kernel();
        assert_eq!(dctcp.alpha, 0.0, "less than a sixteenth of 256 is nothing");
        (dctcp.alpha, dctcp.acked, dctcp.marked) = (900.0 / 1024.0, 20, 10);
        dctcp.end_window_of_kernel();
        assert_eq!(dctcp.alpha * 1024.0, 876.0);
    }

    /// By hand from `dctcp_update_alpha` of 6.1.192: the ACK of the last byte of a window belongs to it. One of four
    /// segments was marked: 1024 - 64 + (1000 x 64) / 4000 = 976.
    #[test]
    fn a_window_of_linux_has_its_last_ack() {
        let mut dctcp = Dctcp::new(&Params { rule: Rule::Linux, ..Params::default() });
        let mut window = Window { cwnd: 4.0, ssthresh: 2.0 };
        dctcp.window_end = 4001;
        for una in [1, 1001, 2001, 3001] {
            assert_eq!(dctcp.alpha, 1.0);
            dctcp.on_arrival(&arrival(una, una + 1000, una + 5000, una == 3001), &mut window);
        }
        assert_eq!((dctcp.alpha * 1024.0, dctcp.window_end, dctcp.acked), (976.0, 8001, 0));
    }

    #[test]
    fn a_loss_halves() {
        let mut dctcp = Dctcp::new(&Params::default());
        let window = Window { cwnd: 20.0, ssthresh: 10.0 };
        assert_eq!(dctcp.on_loss(&loss(20.0), &window), Reduction::to(10.0, 10.0));
    }
}
