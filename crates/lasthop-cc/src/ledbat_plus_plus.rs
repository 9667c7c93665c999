//! LEDBAT++: bulk transfers that yield to all other traffic (draft-irtf-iccrg-ledbat-plus-plus).
//!
//! *What it does.* It takes the excess of the RTT over the minimum of the last ten minutes for the queueing delay, and
//! keeps it at a target of 60 ms: below, the window grows by a fraction of a segment per round trip (`GAIN`, smaller
//! on short paths); above, it shrinks in proportion to the excess, by at most half per round trip. Two round trips
//! after slow start, and later after nine times the duration of the last slowdown, it slows down: two segments for two
//! round trips, then slow start back to the previous window. Its own queue empties in that time, so that later flows
//! see the true minimum RTT.
//! *Reacts to* the RTT, loss and ECN.
//! *Differs from the paper:* nothing known; only the rules of the current draft were available, not its text.
//! *Validation:* TV-30.1 to TV-30.4, by hand from the rules; runs beside Reno and beside itself in
//! `tests/laws_of_today.rs` of `lasthop-sim`. It was not compared with another implementation.
//! *Limitations:* if the queue is shorter than the target, it competes through losses, as Reno with a smaller gain.
//! *Kernel counterpart:* none; Windows has it.
//! *References:* Balasubramanian, Ertugay, Havey & Bagnulo, draft-irtf-iccrg-ledbat-plus-plus-06, 2026; RFC 6817.

use lasthop_core::time::{Span, Time};

use crate::params::params;
use crate::{AckSample, CongestionControl, LossSample, Reduction, Window};

pub(crate) const SUMMARY: &str =
    "Bulk in the background, by the delay of its own queue (LEDBAT++, draft of 2026)";

params! {
    /// Target of the delay of its own queue, in seconds
    target: f64 = 0.06, 0.001..=10.0;
    /// Largest divisor of the gain
    max_divisor: f64 = 16.0, 1.0..=1000.0;
    /// Weight of the window in the decrease
    constant: f64 = 1.0, 0.0..=100.0;
    /// Share of the target at which the first slow start ends
    slow_start_share: f64 = 0.75, 0.0..=1.0;
    /// Time to the next slowdown, in lengths of the last one; 0: none after the first
    slowdown_spacing: f64 = 9.0, 0.0..=1000.0;
}

/// Least RTTs of this many minutes are kept (RFC 6817, BASE_HISTORY).
const MINUTES: usize = 10;
/// The present RTT is the least of as many samples (RFC 6817, CURRENT_FILTER).
const SAMPLES: usize = 4;
/// The window of a slowdown, and the least of all, in segments.
const LEAST: f64 = 2.0;

/// What is done about the window of others.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Slowdown {
    /// The first slow start is not over.
    None,
    /// Due at this time.
    Due(Time),
    /// Held at two segments until the second time; begun at the first.
    Held(Time, Time),
    /// Slow start back to the window before; begun at this time.
    Back(Time),
}

/// State of LEDBAT++, in segments and seconds.
#[derive(Clone, Debug)]
pub struct LedbatPlusPlus {
    params: Params,
    /// Least RTTs by minute, the newest in the place of `minute`.
    base: [f64; MINUTES],
    minute: u64,
    latest: [f64; SAMPLES],
    place: usize,
    slowdown: Slowdown,
}

impl LedbatPlusPlus {
    pub(crate) fn new(params: &Params) -> Self {
        LedbatPlusPlus {
            params: params.clone(),
            base: [f64::INFINITY; MINUTES],
            minute: 0,
            latest: [f64::INFINITY; SAMPLES],
            place: 0,
            slowdown: Slowdown::None,
        }
    }

    fn measure(&mut self, rtt: f64, now: Time) {
        let minute = now.0 / Span::from_secs(60).0;
        for passed in self.minute + 1..=minute.min(self.minute + MINUTES as u64) {
            self.base[passed as usize % MINUTES] = f64::INFINITY;
        }
        self.minute = minute;
        let least = &mut self.base[minute as usize % MINUTES];
        *least = least.min(rtt);
        self.latest[self.place % SAMPLES] = rtt;
        self.place += 1;
    }

    fn base(&self) -> f64 {
        self.base.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Delay of its own queue; none before the first sample.
    fn queue(&self) -> Option<f64> {
        let present = self.latest.iter().copied().fold(f64::INFINITY, f64::min);
        present.is_finite().then(|| (present - self.base()).max(0.0))
    }

    /// Growth per round trip in segments: 1 from a minimum RTT of two targets on.
    fn gain(&self) -> f64 {
        let base = self.base();
        let steps = if base > 0.0 { (2.0 * self.params.target / base).ceil() } else { f64::INFINITY };
        1.0 / steps.clamp(1.0, self.params.max_divisor)
    }

    /// What a round trip changes of a window at this delay (section on multiplicative decrease).
    fn change(&self, window: f64, queue: f64) -> f64 {
        let excess = queue / self.params.target - 1.0;
        if excess <= 0.0 {
            return self.gain();
        }
        (self.gain() - self.params.constant * window * excess).max(-window / 2.0)
    }

    /// Carries slowdowns out; `true` while the window is held.
    fn slow_down(&mut self, ack: &AckSample, window: &mut Window) -> bool {
        match self.slowdown {
            Slowdown::None if !window.in_slow_start() => {
                self.slowdown = Slowdown::Due(ack.now + Span(2 * ack.srtt.0));
            }
            Slowdown::Due(at) if ack.now >= at && ack.may_grow => {
                window.ssthresh = window.cwnd.max(LEAST);
                window.cwnd = LEAST;
                self.slowdown = Slowdown::Held(ack.now, ack.now + Span(2 * ack.srtt.0));
                return true;
            }
            Slowdown::Held(_, until) if ack.now < until => return true,
            Slowdown::Held(from, _) => self.slowdown = Slowdown::Back(from),
            Slowdown::Back(from) if !window.in_slow_start() => {
                let spacing = self.params.slowdown_spacing;
                let next = ack.now + Span::from_seconds(ack.now.since(from).seconds() * spacing);
                self.slowdown = Slowdown::Due(if spacing > 0.0 { next } else { Time::MAX });
            }
            _ => {}
        }
        false
    }

    fn halve(flight: f64) -> Reduction {
        let kept = (flight / 2.0).max(LEAST);
        Reduction::to(kept, kept)
    }
}

impl CongestionControl for LedbatPlusPlus {
    fn on_ack(&mut self, ack: &AckSample, window: &mut Window) {
        if let Some(rtt) = ack.rtt {
            self.measure(rtt.seconds(), ack.now);
        }
        if self.slow_down(ack, window) || !ack.may_grow {
            return;
        }
        let Some(queue) = self.queue() else { return };
        let acked = f64::from(ack.acked);
        if window.in_slow_start() {
            // Only the first slow start looks at the delay: later ones know where to stop.
            if self.slowdown == Slowdown::None && queue > self.params.slow_start_share * self.params.target {
                window.ssthresh = window.cwnd;
                return;
            }
            let room = window.ssthresh - window.cwnd;
            window.cwnd += (self.gain() * acked).min(room.max(0.0));
            return;
        }
        let change = self.change(window.cwnd, queue);
        window.cwnd = (window.cwnd + change * acked / window.cwnd).max(LEAST);
        // A smaller window is no reason to start slowly again.
        window.ssthresh = window.ssthresh.min(window.cwnd);
    }

    fn on_loss(&mut self, loss: &LossSample, _: &Window) -> Reduction {
        Self::halve(loss.flight)
    }

    fn on_timeout(&mut self, loss: &LossSample, _: &Window) -> Reduction {
        Reduction { cwnd: 1.0, ..Self::halve(loss.flight) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack, close, loss};

    fn law(base: f64) -> LedbatPlusPlus {
        let mut law = LedbatPlusPlus::new(&Params::default());
        law.measure(base, Time::ZERO);
        law
    }

    fn at(seconds: f64, rtt: f64) -> AckSample {
        let rtt = Span::from_seconds(rtt);
        AckSample { now: Time::ZERO + Span::from_seconds(seconds), rtt: Some(rtt), srtt: rtt, ..ack(1) }
    }

    /// TV-30.1.
    #[test]
    fn the_gain_is_that_of_the_least_rtt() {
        for (base, divisor) in
            [(0.005, 16.0), (0.01, 12.0), (0.02, 6.0), (0.03, 4.0), (0.06, 2.0), (0.12, 1.0), (0.2, 1.0)]
        {
            close(law(base).gain(), 1.0 / divisor, 12);
        }
    }

    /// TV-30.2: minimum RTT 60 ms, so GAIN 1/2; window 20. Below the target + 0.5; 5 % above it 0.5 - 20 x 0.05 = -0.5;
    /// at twice the target -19.5, of which half the window, 10, is the most.
    #[test]
    fn above_the_target_it_shrinks_by_the_excess() {
        let law = law(0.06);
        close(law.change(20.0, 0.03), 0.5, 12);
        close(law.change(20.0, 0.06), 0.5, 12);
        close(law.change(20.0, 0.063), -0.5, 9);
        close(law.change(20.0, 0.12), -10.0, 12);
    }

    /// TV-30.3: minimum RTT 100 ms, GAIN 1/2 in slow start; a queue above 45 ms ends it. 200 ms later two segments for
    /// 200 ms, then slow start to 10; that was reached 1 s after the slowdown began, so the next one is due 9 s later.
    #[test]
    fn it_slows_down_for_others() {
        let mut law = LedbatPlusPlus::new(&Params::default());
        let mut window = Window { cwnd: 10.0, ssthresh: 1e9 };
        law.on_ack(&at(0.1, 0.1), &mut window);
        close(window.cwnd, 10.5, 12);
        window.cwnd = 10.0;
        for _ in 0..4 {
            law.on_ack(&at(0.2, 0.146), &mut window);
        }
        assert!(!window.in_slow_start(), "{window:?}");
        for _ in 0..4 {
            law.on_ack(&at(1.0, 0.1), &mut window);
        }
        window.cwnd = 10.0;
        law.on_ack(&at(1.199, 0.1), &mut window);
        assert!(window.cwnd >= 10.0);
        window.cwnd = 10.0;
        law.on_ack(&at(1.2, 0.1), &mut window);
        assert_eq!(window, Window { cwnd: 2.0, ssthresh: 10.0 });
        law.on_ack(&at(1.399, 0.1), &mut window);
        close(window.cwnd, 2.0, 12);
        law.on_ack(&at(1.4, 0.1), &mut window);
        close(window.cwnd, 2.5, 12);
        window.cwnd = 10.0;
        law.on_ack(&at(2.2, 0.1), &mut window);
        assert_eq!(law.slowdown, Slowdown::Due(Time::ZERO + Span::from_seconds(11.2)));
    }

    /// TV-30.4: the minimum RTT of eleven minutes ago is forgotten; a loss halves, a timeout leaves one segment.
    #[test]
    fn what_is_long_ago_is_forgotten() {
        let mut law = law(0.05);
        law.measure(0.08, Time::ZERO + Span::from_secs(599));
        close(law.base(), 0.05, 12);
        law.measure(0.08, Time::ZERO + Span::from_secs(600));
        close(law.base(), 0.08, 12);
        let window = Window { cwnd: 30.0, ssthresh: 20.0 };
        assert_eq!(law.on_loss(&loss(30.0), &window), Reduction::to(15.0, 15.0));
        assert_eq!(law.on_timeout(&loss(30.0), &window), Reduction::to(15.0, 1.0));
    }
}
