//! Veno: Vegas's backlog tells losses of congestion from random ones (Fu & Liew, JSAC 21(2) 2003).
//!
//! *What it does.* From the window, the RTT and the least RTT it estimates how many of its segments are queued. With
//! fewer than `beta` a loss is taken for random and costs a fifth of the window, otherwise half; with `beta` or more
//! the window grows half as fast as Reno's.
//! *Reacts to* loss, judged by delay; to ECN like Reno.
//! *Differs from the paper:* the least RTT is kept after a loss (the paper is remembered to forget it: `reset_base`),
//! and with fewer than `least_samples` RTT samples it behaves like Reno. `growth = "rtts"` adds a segment every second
//! round trip, as Linux does, instead of growing on every second ACK; `reduce_from = "flight"` reduces what is in
//! flight, as ns-3 does, instead of the window. RTT samples are raw, not smoothed as in ns-3.
//! *Validation:* TV-5.1, worked by hand. ns-3's Veno is no reference: it forgets its samples at every ACK.
//! *Limitations:* none known beyond the law's own: queues of others look like its own.
//! *Kernel counterpart:* `tcp_veno` (`growth = "rtts"`, which the `linux` profile sets).
//! *References:* Fu & Liew, JSAC 21(2) 2003.

use lasthop_core::time::Span;

use crate::params::{choice, params};
use crate::{AckSample, CongestionControl, LossKind, LossSample, Needs, Reduction, Window};

pub(crate) const SUMMARY: &str =
    "Reno that recognises random losses by the backlog that it estimates (Fu & Liew 2003)";

choice! {
    /// How the window grows while the path is judged full.
    Growth {
        /// On every second ACK.
        Acks = "acks",
        /// By a segment every second round trip.
        Rtts = "rtts",
    }
}

choice! {
    /// What a reduction starts from.
    ReduceFrom {
        /// The congestion window.
        Window = "window",
        /// The segments in flight.
        Flight = "flight",
    }
}

impl ReduceFrom {
    /// The segments that a reduction starts from.
    pub(crate) fn base(self, loss: &LossSample, window: &Window) -> f64 {
        match self {
            ReduceFrom::Window => window.cwnd,
            ReduceFrom::Flight => loss.flight.min(window.cwnd),
        }
    }
}

params! {
    /// Number of queued segments that means congestion
    beta: f64 = 3.0, 0.0..=1000.0;
    /// Share of the window kept after a loss taken for random
    kept: f64 = 0.8, 0.5..=0.99;
    /// Slower growth under congestion: on every second ACK, or a segment every second RTT as in Linux
    growth: Growth = Growth::Acks, 0.0..=1.0;
    /// Reduce the window, or what is in flight as ns-3 does
    reduce_from: ReduceFrom = ReduceFrom::Window, 0.0..=1.0;
    /// Forget the least RTT at every loss
    reset_base: bool = false, 0.0..=1.0;
    /// With fewer RTT samples it behaves like Reno
    least_samples: f64 = 3.0, 0.0..=1000.0;
    /// Count segments instead of ACKs in congestion avoidance (RFC 3465)
    byte_counting: bool = false, 0.0..=1.0;
    /// Most segments that one ACK adds in slow start (RFC 5681: 1; RFC 3465: 2)
    slow_start_limit: f64 = crate::SLOW_START_LIMIT, 1.0..=1e9;
}

/// An estimate of how many of a sender's segments are queued.
#[derive(Clone, Debug)]
pub(crate) struct Backlog {
    /// Least RTT in seconds; infinite before the first sample.
    base: f64,
    /// The estimate at the last sample.
    pub segments: f64,
    /// Samples so far.
    samples: u32,
}

impl Backlog {
    pub(crate) fn new() -> Backlog {
        Backlog { base: f64::INFINITY, segments: 0.0, samples: 0 }
    }

    /// `N = W (RTT - base) / RTT`, which is `(W / base - W / RTT) base`.
    pub(crate) fn learn(&mut self, rtt: Option<Span>, cwnd: f64) {
        let Some(rtt) = rtt.map(Span::seconds).filter(|&rtt| rtt > 0.0) else { return };
        self.base = self.base.min(rtt);
        self.segments = cwnd * (rtt - self.base) / rtt;
        self.samples = self.samples.saturating_add(1);
    }
}

/// State of Veno.
#[derive(Clone, Debug)]
pub struct Veno {
    pub(crate) params: Params,
    pub(crate) backlog: Backlog,
    /// The last ACK did not grow the window because the path is full; or, with growth by RTTs, the last RTT did not.
    skipped: bool,
    /// Segments acknowledged since the last round of growth by RTTs.
    credit: f64,
}

impl Veno {
    pub(crate) fn new(params: &Params) -> Self {
        Veno { params: params.clone(), backlog: Backlog::new(), skipped: false, credit: 0.0 }
    }

    /// Whether there are enough samples to judge by.
    fn can_judge(&self) -> bool {
        f64::from(self.backlog.samples) >= self.params.least_samples && self.backlog.base.is_finite()
    }

    /// What the backlog says of a loss now; nothing with too few samples.
    pub(crate) fn verdict(&self) -> Option<LossKind> {
        self.can_judge().then_some(if self.backlog.segments < self.params.beta {
            LossKind::Wireless
        } else {
            LossKind::Congestion
        })
    }

    /// Whether the backlog has reached `beta`.
    fn is_full(&self) -> bool {
        self.can_judge() && self.backlog.segments >= self.params.beta
    }

    fn grow(&mut self, counted: f64, window: &mut Window) {
        if self.params.growth == Growth::Rtts {
            self.credit += counted;
            if self.credit < window.cwnd {
                return;
            }
            self.credit = 0.0;
            self.skipped = self.is_full() && !self.skipped;
            if !self.skipped {
                window.cwnd += 1.0;
            }
            return;
        }
        self.skipped = self.is_full() && !self.skipped;
        if !self.skipped {
            window.cwnd += counted / window.cwnd;
        }
    }

    /// The reduction after a loss of this kind.
    pub(crate) fn reduction(&mut self, kind: LossKind, loss: &LossSample, window: &Window) -> Reduction {
        if self.params.reset_base {
            self.backlog.base = f64::INFINITY;
        }
        let kept = self.params.reduce_from.base(loss, window)
            * if kind == LossKind::Wireless { self.params.kept } else { 0.5 };
        Reduction::to(kept, kept)
    }
}

impl CongestionControl for Veno {
    fn needs(&self) -> Needs {
        Needs { classifies: true, ..Needs::default() }
    }

    /// As any RTT.
    fn on_sacked(&mut self, sample: &AckSample, window: &mut Window) {
        self.on_ack(sample, window);
    }

    fn on_ack(&mut self, ack: &AckSample, window: &mut Window) {
        self.backlog.learn(ack.rtt, window.cwnd);
        if !ack.may_grow {
            return;
        }
        let left = window.slow_start(f64::from(ack.acked), self.params.slow_start_limit);
        if left > 0.0 {
            self.grow(if self.params.byte_counting { left } else { 1.0 }, window);
        }
    }

    fn on_loss(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        let kind = self.verdict().unwrap_or(LossKind::Congestion);
        self.reduction(kind, loss, window).taken_for(kind)
    }

    /// Reno's: the law says nothing of timeouts.
    fn on_timeout(&mut self, loss: &LossSample, _window: &Window) -> Reduction {
        if self.params.reset_base {
            self.backlog.base = f64::INFINITY;
        }
        Reduction::to(loss.flight / 2.0, 1.0)
    }

    /// A mark is congestion whatever the backlog.
    fn on_ecn(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        let half = loss.flight.min(window.cwnd) / 2.0;
        Reduction::to(half, half)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack, close, loss};

    const FULL: Window = Window { cwnd: 20.0, ssthresh: 10.0 };

    /// Veno at W = 20 after a base RTT of 100 ms and twice this RTT.
    fn after(rtt_ms: f64, params: &Params) -> Veno {
        let mut veno = Veno::new(params);
        for rtt_ms in [100.0, rtt_ms, rtt_ms] {
            let sample =
                AckSample { rtt: Some(Span::from_seconds(rtt_ms / 1000.0)), may_grow: false, ..ack(1) };
            veno.on_ack(&sample, &mut FULL.clone());
        }
        veno
    }

    /// TV-5.1: W = 20, base RTT 100 ms.
    #[test]
    fn the_backlog_decides_what_a_loss_costs() {
        for (rtt_ms, backlog, kept, kind) in [
            (110.0, 1.8182, 16.0, LossKind::Wireless),
            (117.6, 2.9932, 16.0, LossKind::Wireless),
            (118.0, 3.0508, 10.0, LossKind::Congestion),
            (125.0, 4.0, 10.0, LossKind::Congestion),
        ] {
            let mut veno = after(rtt_ms, &Params::default());
            close(veno.backlog.segments, backlog, 4);
            assert_eq!(veno.on_loss(&loss(20.0), &FULL), Reduction::to(kept, kept).taken_for(kind));
            assert_eq!(veno.on_ecn(&loss(20.0), &FULL), Reduction::to(10.0, 10.0));
            assert_eq!(veno.on_timeout(&loss(20.0), &FULL), Reduction::to(10.0, 1.0));
        }
    }

    #[test]
    fn too_few_samples_make_it_reno() {
        let mut veno = Veno::new(&Params::default());
        for _ in 0..2 {
            veno.backlog.learn(Some(Span::from_millis(100)), 20.0);
        }
        let halved = Reduction::to(10.0, 10.0).taken_for(LossKind::Congestion);
        assert_eq!(veno.on_loss(&loss(20.0), &FULL), halved);
        veno.backlog.learn(Some(Span::from_millis(100)), 20.0);
        assert_eq!(veno.on_loss(&loss(20.0), &FULL).cwnd, 16.0);
    }

    #[test]
    fn a_full_path_slows_growth_to_every_second_ack() {
        let grown = |rtt_ms, params| {
            let mut veno = after(rtt_ms, &params);
            let mut window = FULL;
            let sizes: Vec<f64> = (0..4)
                .map(|_| {
                    veno.on_ack(&ack(1), &mut window);
                    window.cwnd
                })
                .collect();
            sizes
        };
        let first = 20.0 + 1.0 / 20.0;
        let second = first + 1.0 / first;
        assert_eq!(grown(125.0, Params::default()), [20.0, first, first, second]);
        assert_eq!(grown(110.0, Params::default())[..2], [first, second]);
    }

    /// Linux: a segment after every window of ACKs, after every second one if the path is full.
    #[test]
    fn growth_by_round_trips() {
        for (rtt_ms, rounds) in [(110.0, [21.0, 22.0, 23.0]), (125.0, [20.0, 21.0, 21.0])] {
            let mut veno = after(rtt_ms, &Params { growth: Growth::Rtts, ..Params::default() });
            let mut window = FULL;
            for expected in rounds {
                let acks = window.cwnd as u32;
                (0..acks).for_each(|_| veno.on_ack(&ack(1), &mut window));
                assert_eq!(window.cwnd, expected, "at {rtt_ms} ms");
            }
        }
    }

    #[test]
    fn reductions_may_start_from_the_flight() {
        let params = Params { reduce_from: ReduceFrom::Flight, ..Params::default() };
        assert_eq!(after(110.0, &params).on_loss(&loss(15.0), &FULL).cwnd, 12.0);
    }

    #[test]
    fn the_base_may_be_forgotten_at_a_loss() {
        let mut veno = after(125.0, &Params { reset_base: true, ..Params::default() });
        veno.on_loss(&loss(20.0), &FULL);
        veno.backlog.learn(Some(Span::from_millis(125)), 20.0);
        assert_eq!(veno.backlog.segments, 0.0);
    }
}
