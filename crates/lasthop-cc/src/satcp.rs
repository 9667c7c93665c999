//! SaTCP: CUBIC with advance notice of satellite handovers (Cao & Zhang, INFOCOM 2023).
//!
//! *What it does.* A notice of a handover inhibits congestion control for `inhibition`, counted from the newest
//! notice. During that time a timeout retransmits without a change of window or curve, and after a loss the window
//! recovers in a ninth of CUBIC's time. Everything else is CUBIC.
//! *Reacts to* loss, ECN, and the announcement that the link is going down (`LinkFading`).
//! *Differs from the paper:* the paper was not available; the rules are those of the authors' module for Linux and its
//! documentation. There one notice inhibits all connections of a machine; here each sender gets the notices of its own
//! link.
//! *Validation:* TV-35.1 to TV-35.3 by hand from those rules; a path with a handover each 15 s in
//! `tests/laws_of_today.rs` of `lasthop-sim`. It has not been compared with a run of the authors' module.
//! *Limitations:* the response to queue drops in that time is late, too. A handover that loses the whole window is
//! followed by a burst of the same size.
//! *Kernel counterpart:* a patch of the authors.
//! *References:* Cao & Zhang, "SaTCP: Link-Layer Informed TCP Adaptation for Highly Dynamic LEO Satellite Networks",
//! 2023; RFC 9438.

use lasthop_core::time::{Span, Time};

use crate::cubic::{self, Cubic};
use crate::hystart::HyStartKind;
use crate::params::params;
use crate::{AckSample, CongestionControl, LossKind, LossSample, Needs, Reduction, Signal, Start, Window};

pub(crate) const SUMMARY: &str = "CUBIC, inhibited for a while by handover notices (SaTCP, 2023)";

params! {
    /// How long a notice inhibits congestion control, in seconds
    inhibition: f64 = 2.3, 0.0..=60.0;
    /// Factor by which a window grows back faster that a loss has cut during inhibition
    return_factor: f64 = 9.0, 1.0..=1000.0;
    /// Constant C of CUBIC's curve, in segments/s^3
    c: f64 = 0.4, 0.0001..=100.0;
    /// Share of the window kept after a loss, as CUBIC's
    beta: f64 = 0.7, 0.1..=0.99;
    /// Maximum number of segments that one ACK adds in slow start (RFC 5681: 1; RFC 3465: 2; RFC 9406: 8)
    slow_start_limit: f64 = 8.0, 1.0..=1e9;
    /// Early exit from slow start: off, as in Linux (classic HyStart), HyStart++ (RFC 9406), or SEARCH
    hystart: HyStartKind = HyStartKind::PlusPlus, 0.0..=3.0;
    /// Change the window by whole segments, and evaluate the curve one minimum RTT ahead, as Linux's CUBIC does
    whole_segments: bool = false, 0.0..=1.0;
}

/// State of SaTCP.
#[derive(Clone, Debug)]
pub struct Satcp {
    params: Params,
    cubic: Cubic,
    /// Congestion control is inhibited up to here.
    until: Option<Time>,
}

impl Satcp {
    pub(crate) fn new(params: &Params) -> Self {
        let &Params { c, beta, slow_start_limit, hystart, whole_segments, .. } = params;
        let usual = cubic::Params::default();
        let cubic =
            Cubic::new(&cubic::Params { c, beta, slow_start_limit, hystart, whole_segments, ..usual });
        Satcp { params: params.clone(), cubic, until: None }
    }

    fn is_inhibited(&self, now: Time) -> bool {
        self.until.is_some_and(|until| now <= until)
    }

    /// What it takes a loss at `now` for.
    fn kind(&self, now: Time) -> LossKind {
        if self.is_inhibited(now) { LossKind::Wireless } else { LossKind::Congestion }
    }
}

impl CongestionControl for Satcp {
    fn needs(&self) -> Needs {
        Needs { signals: true, classifies: true, ..Needs::default() }
    }

    fn on_start(&mut self, start: &Start<'_>, window: &mut Window) {
        self.cubic.on_start(start, window);
    }

    fn on_ack(&mut self, ack: &AckSample, window: &mut Window) {
        let faster = if self.is_inhibited(ack.now) { self.params.return_factor } else { 1.0 };
        self.cubic.return_faster(faster);
        self.cubic.on_ack(ack, window);
    }

    fn on_sacked(&mut self, sample: &AckSample, window: &mut Window) {
        self.cubic.on_sacked(sample, window);
    }

    fn on_undo(&mut self, before: Self) {
        self.cubic.on_undo(before.cubic);
    }

    fn on_loss(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        self.cubic.on_loss(loss, window).taken_for(self.kind(loss.now))
    }

    fn on_timeout(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        if self.is_inhibited(loss.now) {
            return Reduction::to(window.ssthresh, window.cwnd).taken_for(LossKind::Wireless);
        }
        self.cubic.on_timeout(loss, window).taken_for(LossKind::Congestion)
    }

    fn on_ecn(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        self.cubic.on_ecn(loss, window)
    }

    fn on_idle(&mut self, idle: Span, now: Time) {
        self.cubic.on_idle(idle, now);
    }

    fn on_signal(&mut self, signal: &Signal, now: Time) {
        if matches!(signal, Signal::LinkFading { .. }) {
            self.until = Some(now + Span::from_seconds(self.params.inhibition));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack_at, close, loss};

    fn at(seconds: f64) -> Time {
        Time::ZERO + Span::from_seconds(seconds)
    }

    fn told(law: &mut Satcp, seconds: f64) {
        law.on_signal(&Signal::LinkFading { warning: Span::from_millis(500) }, at(seconds));
    }

    fn lost(seconds: f64) -> LossSample {
        LossSample { now: at(seconds), ..loss(40.0) }
    }

    /// TV-35.1: told at 10 s, and again at 11 s: a timeout at 13.3 s leaves window and threshold, one at 13.31 s leaves
    /// a segment and 0.7 of the 40 that are outstanding.
    #[test]
    fn a_timeout_at_a_handover_changes_nothing() {
        let mut law = Satcp::new(&Params::default());
        let window = Window { cwnd: 40.0, ssthresh: 30.0 };
        told(&mut law, 10.0);
        told(&mut law, 11.0);
        let inhibited = law.on_timeout(&lost(13.3), &window);
        assert_eq!(inhibited, Reduction::to(30.0, 40.0).taken_for(LossKind::Wireless));
        let after = law.on_timeout(&lost(13.31), &window);
        assert_eq!(after, Reduction::to(28.0, 1.0).taken_for(LossKind::Congestion));
    }

    /// TV-35.2: a loss at a window of 100 leaves the share that CUBIC leaves. From 70 CUBIC's curve takes 4.21716 s to
    /// 100; told before, it takes 0.46857 s: the target after 0.25 s with an RTT of 0.1 s is 99.99933, not 76.86670.
    #[test]
    fn the_window_comes_back_in_a_ninth_of_the_time() {
        for (notice, expected) in [(true, 99.999_333), (false, 76.866_703)] {
            let mut law = Satcp::new(&Params::default());
            if notice {
                told(&mut law, 0.0);
            }
            let cut = law.on_loss(&lost(0.0), &Window { cwnd: 100.0, ssthresh: 1.0 });
            close(cut.cwnd, 28.0, 9);
            let mut window = Window { cwnd: 70.0, ssthresh: 70.0 };
            law.on_ack(&ack_at(0.0, 0.1), &mut window);
            window.cwnd = 70.0;
            law.on_ack(&ack_at(0.25, 0.1), &mut window);
            // One ACK of a window closes a part of the gap to the target.
            close(70.0 + (window.cwnd - 70.0) * 70.0, expected, 3);
        }
    }

    /// TV-35.3: what the kinds of losses are taken for.
    #[test]
    fn losses_are_told_apart_by_the_notice() {
        let mut law = Satcp::new(&Params::default());
        let window = Window { cwnd: 40.0, ssthresh: 30.0 };
        assert_eq!(law.on_loss(&lost(1.0), &window).taken_for, Some(LossKind::Congestion));
        told(&mut law, 2.0);
        assert_eq!(law.on_loss(&lost(2.1), &window).taken_for, Some(LossKind::Wireless));
        assert_eq!(law.on_loss(&lost(5.0), &window).taken_for, Some(LossKind::Congestion));
    }
}
