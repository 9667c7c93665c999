//! C2TCP: CUBIC with a bound on the delay (Abbasloo, Xu & Chao, IEEE JSAC 37(4), 2019).
//!
//! *What it does.* It keeps the RTT near a setpoint, `alpha` times the minimum RTT, over links whose rate changes
//! faster than losses show. An RTT that stays above the setpoint for an interval of that length is taken for a bad
//! condition: slow start begins anew from one segment, up to CUBIC's threshold, and again after intervals that shrink
//! with the square root of their number, as in CoDel. An RTT below the setpoint adds a segment per window to CUBIC's
//! growth.
//! *Reacts to* the RTT, loss and ECN.
//! *Differs from the paper:* times are exact, not in milliseconds; `alpha` is fixed, where the authors retune it
//! from user space toward a target delay. The RTT of a segment that was alone in flight is not judged: its ACK may have
//! been delayed, and a window of one segment would be answered with one segment for ever.
//! *Validation:* TV-31.1 and TV-31.2 by hand from the authors' rules; a run in `tests/laws_of_today.rs` of
//! `lasthop-sim`.
//! *Limitations:* with a short queue that never holds `alpha` RTTs it is CUBIC with slightly faster growth.
//! *Kernel counterpart:* a patch of the authors, for a kernel of 2015.
//! *References:* Abbasloo, Xu & Chao, "C2TCP: A Flexible Cellular TCP to Meet Stringent Delay Requirements", 2019.

use lasthop_core::time::{Span, Time};

use crate::cubic::{self, Cubic};
use crate::params::params;
use crate::{AckSample, CongestionControl, LossSample, Reduction, Window};

pub(crate) const SUMMARY: &str = "CUBIC that restarts when the RTT stays above a setpoint (C2TCP, 2019)";

params! {
    /// Setpoint of the RTT, relative to the minimum RTT
    alpha: f64 = 1.5, 1.01..=100.0;
}

/// State of C2TCP.
#[derive(Clone, Debug)]
pub struct C2tcp {
    params: Params,
    cubic: Cubic,
    /// Least RTT in seconds.
    least: f64,
    /// When a bad condition is answered, while the RTT is above the setpoint, and how often it has been.
    next: Option<Time>,
    count: f64,
}

impl C2tcp {
    pub(crate) fn new(params: &Params) -> Self {
        C2tcp {
            params: params.clone(),
            cubic: Cubic::new(&cubic::Params::default()),
            least: f64::INFINITY,
            next: None,
            count: 1.0,
        }
    }

    /// The condition of the path after an RTT; `true` if slow start is to begin anew. The RTT of a segment that was
    /// `alone` may be too long, and shows a good condition only.
    fn is_bad(&mut self, rtt: f64, alone: bool, now: Time) -> bool {
        self.least = self.least.min(rtt);
        let setpoint = self.params.alpha * self.least;
        if rtt <= setpoint {
            self.next = None;
            return false;
        }
        if alone {
            return false;
        }
        let Some(next) = self.next else {
            self.next = Some(now + Span::from_seconds(setpoint));
            self.count = 1.0;
            return false;
        };
        if now <= next {
            return false;
        }
        self.next = Some(now + Span::from_seconds(setpoint / self.count.sqrt()));
        self.count += 1.0;
        true
    }
}

impl CongestionControl for C2tcp {
    fn on_ack(&mut self, ack: &AckSample, window: &mut Window) {
        let before = window.cwnd;
        let alone = ack.acked == 1 && ack.next == ack.una;
        if let Some(rtt) = ack.rtt.map(Span::seconds) {
            if self.is_bad(rtt, alone, ack.now) {
                let cut = LossSample { now: ack.now, flight: window.cwnd, retransmitted: false, truth: None };
                window.ssthresh = self.cubic.on_loss(&cut, window).ssthresh.max(2.0);
                window.cwnd = 1.0;
                return;
            }
            if self.next.is_none() && ack.may_grow && !window.in_slow_start() {
                // The authors' integer division: one segment per window with alpha below 2.
                let extra = (self.params.alpha * self.least / rtt).floor();
                window.cwnd += (extra / window.cwnd).min(f64::from(ack.acked) / 2.0);
            }
        }
        self.cubic.on_ack(ack, window);
        // Both together no more than double the window in a round trip.
        window.cwnd = window.cwnd.min(before + f64::from(ack.acked));
    }

    fn on_loss(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        self.cubic.on_loss(loss, window)
    }

    fn on_timeout(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        self.cubic.on_timeout(loss, window)
    }

    fn on_ecn(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        self.cubic.on_ecn(loss, window)
    }

    fn on_idle(&mut self, idle: Span, now: Time) {
        self.cubic.on_idle(idle, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ack_at;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    /// TV-31.1: minimum RTT 40 ms, setpoint and interval 60 ms. Above it from 100 ms on: answered after 160 ms, again
    /// 60 ms later, then after 60/sqrt(2) = 42.4 ms; an RTT at the setpoint ends it.
    #[test]
    fn a_delay_that_stays_is_answered_more_and_more_often() {
        let mut law = C2tcp::new(&Params::default());
        assert!(!law.is_bad(0.04, false, at(0)));
        assert!(!law.is_bad(0.07, false, at(100)), "the first above it");
        assert!(!law.is_bad(0.07, false, at(160)));
        assert!(law.is_bad(0.07, false, at(161)));
        assert!(!law.is_bad(0.07, false, at(221)));
        assert!(law.is_bad(0.07, false, at(222)));
        assert!(!law.is_bad(0.07, false, at(264)));
        assert!(law.is_bad(0.07, false, at(265)));
        assert!(!law.is_bad(0.06, false, at(266)));
        assert!(!law.is_bad(0.07, false, at(400)));
        assert!(!law.is_bad(0.07, false, at(460)));
        assert!(!law.is_bad(0.2, true, at(461)), "its ACK may have been delayed");
        assert!(law.is_bad(0.07, false, at(462)));
    }

    /// TV-31.2: one segment is left, and slow start goes up to CUBIC's 0.7 of 50.
    #[test]
    fn slow_start_begins_anew() {
        let mut law = C2tcp::new(&Params::default());
        let mut window = Window { cwnd: 50.0, ssthresh: 20.0 };
        let ack = |seconds, rtt| {
            let rest = ack_at(seconds, rtt);
            AckSample { rtt: Some(Span::from_seconds(rtt)), next: rest.una + 1000, ..rest }
        };
        law.on_ack(&ack(0.0, 0.04), &mut window);
        assert!(window.cwnd > 50.02, "a segment per window more, and CUBIC's own growth");
        window.cwnd = 50.0;
        law.on_ack(&ack(0.1, 0.07), &mut window);
        window.cwnd = 50.0;
        law.on_ack(&ack(0.2, 0.07), &mut window);
        assert_eq!(window, Window { cwnd: 1.0, ssthresh: 35.0 });
    }
}
