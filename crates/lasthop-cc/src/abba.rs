//! ABBA: CUBIC that grows fast while the RTT shows that the path is not full (draft-kazuho-ccwg-abba, 2026).
//!
//! *What it does.* It responds to losses and marks exactly as CUBIC does, and fits a line through two points: window
//! and minimum RTT around the last reduction, and window and RTT where the RTT was lowest since. While the RTT lies
//! below that line by more than the window explains, it grows towards the window that the line gives for this RTT, by
//! up to two thirds of the difference per round trip, and never less than CUBIC. So a radio loss costs only a few
//! round trips.
//! *Reacts to* loss, ECN and the RTT.
//! *Differs from the paper:* an RTT below the line's value for an empty window counts as that window, so that growth
//! stays below two thirds of a round trip's segments.
//! *Validation:* TV-26.1 to TV-26.3, the draft's line by hand; a run over a lossy link in `tests/laws_of_today.rs` of
//! `lasthop-sim`.
//! *Limitations:* it does not classify losses. With a small cut for marks the growth in a round may exceed the cut, as
//! the draft notes.
//! *Kernel counterpart:* none.
//! *References:* Oku, draft-kazuho-ccwg-abba; RFC 9438.

use lasthop_core::time::{Span, Time};

use crate::cubic::{self, Cubic};
use crate::params::params;
use crate::{AckSample, CongestionControl, LossSample, Reduction, Window};

pub(crate) const SUMMARY: &str =
    "CUBIC that grows fast while the RTT shows a path that is not full (ABBA, 2026)";

params! {
    /// Minimum rise of the RTT for which a line is drawn, in seconds
    rtt_span: f64 = 0.005, 0.0..=1.0;
    /// Share of the slope between the two points that the line has, and most growth per acknowledged segment
    slope: f64 = 0.666_666_666_666_666_6, 0.01..=1.0;
    /// Share of the window kept after a loss, as CUBIC's
    beta: f64 = 0.7, 0.1..=0.99;
}

/// A window and the minimum RTT that went with it, in seconds.
#[derive(Clone, Copy, Debug)]
struct Point {
    cwnd: f64,
    rtt: f64,
}

/// State of ABBA, in segments and seconds.
#[derive(Clone, Debug)]
pub struct Abba {
    params: Params,
    cubic: Cubic,
    /// Around the last reduction, and where the RTT was lowest since.
    high: Point,
    low: Point,
    /// The line: RTT = a cwnd + b, once it is drawn.
    line: Option<(f64, f64)>,
    /// A reduction is being carried out; for a loss the minimum RTT meanwhile counts.
    reducing: bool,
    measures: bool,
    // Least RTT of this round trip and of the last.
    round_end: u64,
    present: f64,
    before: f64,
}

impl Abba {
    pub(crate) fn new(params: &Params) -> Self {
        let unknown = Point { cwnd: 0.0, rtt: f64::INFINITY };
        Abba {
            cubic: Cubic::new(&cubic::Params { beta: params.beta, ..cubic::Params::default() }),
            params: params.clone(),
            high: unknown,
            low: unknown,
            line: None,
            reducing: false,
            measures: false,
            round_end: 0,
            present: f64::INFINITY,
            before: f64::INFINITY,
        }
    }

    /// Least RTT of the last round trip.
    fn floor(&self) -> f64 {
        self.present.min(self.before)
    }

    fn measure(&mut self, ack: &AckSample, rtt: f64) {
        if ack.una > self.round_end {
            self.round_end = ack.next;
            self.before = self.present;
            self.present = f64::INFINITY;
        }
        self.present = self.present.min(rtt);
    }

    fn on_event(&mut self, window: &Window, rtt: Option<f64>) {
        self.high = Point { cwnd: window.cwnd, rtt: rtt.unwrap_or(f64::INFINITY) };
        self.measures = rtt.is_none();
        self.line = None;
        self.reducing = true;
    }

    fn draw(&mut self) {
        let (high, low) = (self.high, self.low);
        if high.cwnd <= low.cwnd || !high.rtt.is_finite() || !low.rtt.is_finite() {
            return;
        }
        self.line = Some(if high.rtt - low.rtt < self.params.rtt_span {
            (0.0, low.rtt)
        } else {
            let steepest = (high.rtt - low.rtt) / (high.cwnd - low.cwnd);
            let a = self.params.slope * steepest.min(low.rtt / low.cwnd);
            (a, low.rtt - a * low.cwnd)
        });
    }

    /// Follows what the RTT says about the path.
    fn follow(&mut self, ack: &AckSample, rtt: f64, window: &Window) {
        self.measure(ack, rtt);
        if self.reducing {
            if self.measures {
                self.high.rtt = self.high.rtt.min(rtt);
            }
            if ack.may_grow {
                self.reducing = false;
                self.low = Point { cwnd: window.cwnd, rtt: self.high.rtt };
                self.draw();
            }
        } else if rtt < self.low.rtt && self.high.cwnd > 0.0 {
            self.low = Point { cwnd: window.cwnd, rtt };
            self.draw();
        }
        if let Some((a, b)) = self.line
            && b != 0.0
            && window.cwnd > self.high.cwnd * (2.0 - self.params.beta)
        {
            // Far beyond both points the line goes through the origin.
            let target = self.floor().max(a * window.cwnd + b);
            self.line = Some((target / window.cwnd, 0.0));
        }
    }

    /// What the line lets a window grow by.
    fn growth(&self, acked: f64, rtt: f64, cwnd: f64) -> f64 {
        let Some((a, b)) = self.line.filter(|&(a, b)| a > 0.0 && rtt < a * cwnd + b) else { return 0.0 };
        let filled = ((rtt - b) / a).max(0.0);
        (acked * self.params.slope * (1.0 - filled / cwnd)).min(cwnd / 2.0)
    }
}

impl CongestionControl for Abba {
    fn on_ack(&mut self, ack: &AckSample, window: &mut Window) {
        let rtt = ack.rtt.map(Span::seconds);
        if let Some(rtt) = rtt {
            self.follow(ack, rtt, window);
        }
        let before = window.cwnd;
        let avoids = !window.in_slow_start();
        self.cubic.on_ack(ack, window);
        if let Some(rtt) = rtt
            && ack.may_grow
            && avoids
        {
            window.cwnd = window.cwnd.max(before + self.growth(f64::from(ack.acked), rtt, before));
        }
    }

    fn on_loss(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        self.on_event(window, None);
        self.cubic.on_loss(loss, window)
    }

    fn on_timeout(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        self.on_event(window, None);
        self.cubic.on_timeout(loss, window)
    }

    fn on_ecn(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        self.on_event(window, Some(self.floor()));
        self.cubic.on_ecn(loss, window)
    }

    fn on_idle(&mut self, idle: Span, now: Time) {
        self.cubic.on_idle(idle, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack_at, close, loss};

    fn drawn(high: (f64, f64), low: (f64, f64)) -> Abba {
        let mut abba = Abba::new(&Params::default());
        abba.high = Point { cwnd: high.0, rtt: high.1 };
        abba.low = Point { cwnd: low.0, rtt: low.1 };
        abba.draw();
        abba
    }

    /// TV-26.1: through (100, 80 ms) and (70, 60 ms), two thirds of the slope: at 80 segments and 60 ms the line
    /// gives 64.44 ms, and 70 segments for 60 ms: two acknowledged segments add 2 x 2/3 x (1 - 70/80).
    #[test]
    fn grows_towards_the_line() {
        let abba = drawn((100.0, 0.08), (70.0, 0.06));
        let (a, b) = abba.line.unwrap();
        close(a, 0.000_444_44, 8);
        close(b, 0.028_888_89, 8);
        close(a * 80.0 + b, 0.064_444, 6);
        close(80.0 + abba.growth(2.0, 0.06, 80.0), 80.166_67, 5);
        assert_eq!(abba.growth(2.0, 0.065, 80.0), 0.0, "above the line");
        close(abba.growth(2.0, 0.01, 80.0), 4.0 / 3.0, 9);
    }

    /// TV-26.2: the slope is no steeper than that from the origin to the lower point, 60/70.
    #[test]
    fn the_slope_is_bounded() {
        let (a, b) = drawn((100.0, 0.2), (70.0, 0.06)).line.unwrap();
        close(a, 0.000_571_43, 8);
        close(b, 0.02, 8);
    }

    /// TV-26.3: 3 ms between the points are noise.
    #[test]
    fn a_small_rise_draws_nothing_to_grow_by() {
        let abba = drawn((100.0, 0.063), (70.0, 0.06));
        assert_eq!(abba.line, Some((0.0, 0.06)));
        assert_eq!(abba.growth(2.0, 0.05, 80.0), 0.0);
    }

    /// A loss at 100 segments and 80 ms; recovery ends with 70, then the RTT falls to 60 ms: the line is that of
    /// TV-26.1, and the RTT of an empty path lets the window grow faster than CUBIC's.
    #[test]
    fn a_loss_and_an_empty_path() {
        let mut abba = Abba::new(&Params::default());
        let mut window = Window { cwnd: 100.0, ssthresh: 50.0 };
        let reduction = abba.on_loss(&loss(100.0), &window);
        assert_eq!(reduction.cwnd, 70.0, "as CUBIC");
        window = Window { cwnd: 70.0, ssthresh: 70.0 };
        let ack = |seconds, rtt, may_grow| AckSample {
            rtt: Some(Span::from_seconds(rtt)),
            may_grow,
            ..ack_at(seconds, rtt)
        };
        abba.on_ack(&ack(0.0, 0.08, false), &mut window);
        abba.on_ack(&ack(0.1, 0.09, true), &mut window);
        assert!(!abba.reducing && abba.low.rtt == 0.08 && window.cwnd < 70.5);
        let at_low = window.cwnd;
        abba.on_ack(&ack(0.2, 0.06, true), &mut window);
        let (a, _) = abba.line.unwrap();
        close(a, 2.0 / 3.0 * 0.02 / (100.0 - at_low), 12);
        let mut cubic = abba.cubic.clone();
        let mut alone = window;
        cubic.on_ack(&ack(0.3, 0.04, true), &mut alone);
        abba.on_ack(&ack(0.3, 0.04, true), &mut window);
        assert!(window.cwnd >= alone.cwnd);
        let before = abba.clone();
        abba.on_loss(&loss(70.0), &window);
        assert_eq!(abba.line, None);
        abba.on_undo(before);
        assert!(abba.line.is_some(), "spurious");
    }
}
