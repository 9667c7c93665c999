//! Veno: Vegas's backlog distinguishes congestion losses from random ones (Fu & Liew, JSAC 21(2) 2003).
//!
//! *What it does.* From the window, the RTT and the minimum RTT it estimates how many of its segments are queued. With
//! fewer than `beta` a loss counts as random and costs a fifth of the window, otherwise half; with `beta` or more the
//! window grows half as fast as Reno's.
//! *Reacts to* loss, classified by delay; to ECN like Reno.
//! *Differs from the paper:* the minimum RTT is kept after a loss (the paper probably resets it: `reset_base`), and
//! with fewer than `min_samples` RTT samples it behaves like Reno. `reduce_from = "flight"` reduces what is in flight,
//! as ns-3 does, instead of the window. RTT samples are raw, not smoothed as in ns-3.
//! *Validation:* TV-5.1, worked by hand. ns-3's Veno is no reference: it forgets its samples at every ACK.
//! *Limitations:* none known beyond those of the method: queues of other flows look like its own.
//! *Kernel counterpart:* `tcp_veno`, which is `rule = "linux"` and what the profile `linux` sets. It counts queued
//! segments in halves, rounded up, so that `beta` of 3 begins above 2.5. It checks them with each ACK that may
//! increase the window, but not while a segment is missing, and takes the first ACK after that for a full path. It
//! adds a segment every round trip, or every second one, and responds to timeouts and marks as to losses.
//! *References:* Fu & Liew, JSAC 21(2) 2003; `tcp_veno.c` of Linux 6.1.

use lasthop_core::time::{Span, Time};

use crate::params::{choice, params};
use crate::whole::{Credit, NO_RTT, Open, Rtts, half};
use crate::{AckSample, CongestionControl, LossKind, LossSample, Needs, Reduction, Window};

pub(crate) const SUMMARY: &str =
    "Reno that recognises random losses by the backlog that it estimates (Fu & Liew 2003)";

choice! {
    /// Whose Veno it is.
    Rule {
        /// Its authors'.
        Paper = "paper",
        /// The Linux kernel's.
        Linux = "linux",
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
    /// The rule of its authors, or that of the Linux kernel
    rule: Rule = Rule::Paper, 0.0..=1.0;
    /// What is reduced: the window or, as in ns-3, the segments in flight
    reduce_from: ReduceFrom = ReduceFrom::Window, 0.0..=1.0;
    /// Forget the minimum RTT at every loss
    reset_base: bool = false, 0.0..=1.0;
    /// With fewer RTT samples it behaves like Reno
    min_samples: f64 = 3.0, 0.0..=1000.0;
    /// Count segments instead of ACKs in congestion avoidance (RFC 3465)
    byte_counting: bool = false, 0.0..=1.0;
    /// Maximum number of segments that one ACK adds in slow start (RFC 5681: 1; RFC 3465: 2)
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

/// The state of the kernel's Veno (`tcp_veno.c`).
#[derive(Clone, Debug)]
struct Kernel {
    /// `least` is that since the last look.
    rtts: Rtts,
    /// Queued segments in halves, at the last look.
    queued: u64,
    /// A full path grows in this round.
    grows: bool,
    open: Open,
    credit: Credit,
}

impl Kernel {
    fn new() -> Kernel {
        let (open, credit) = (Open::new(), Credit::default());
        Kernel { rtts: Rtts::new(), queued: 0, grows: true, open, credit }
    }

    fn is_full(&self, params: &Params) -> bool {
        self.queued as f64 >= 2.0 * params.beta
    }

    /// `tcp_veno_cong_avoid`.
    fn grow(&mut self, params: &Params, ack: &AckSample, window: &mut Window) {
        self.rtts.learn(ack.rtt);
        let (returns, is_open) = self.open.enter(ack);
        if returns {
            self.rtts.least = NO_RTT;
        }
        if !ack.may_grow {
            return;
        }
        if !is_open {
            // Behind a hole it is Reno (`tcp_veno_state`).
            return self.credit.reno(window, ack.acked);
        }
        if f64::from(self.rtts.samples) < params.min_samples {
            self.credit.reno(window, ack.acked);
        } else {
            self.look(params, ack, window);
        }
        self.rtts.least = NO_RTT;
    }

    /// With enough samples.
    fn look(&mut self, params: &Params, ack: &AckSample, window: &mut Window) {
        let cwnd = window.cwnd as u64;
        self.queued = 2 * cwnd - 2 * cwnd * self.rtts.base / self.rtts.least;
        let left = window.slow_start(f64::from(ack.acked), f64::INFINITY);
        if left <= 0.0 {
            return;
        }
        let per = window.cwnd.floor();
        if !self.is_full(params) {
            self.credit.avoid(window, per, left);
        } else if self.credit.0 >= per {
            window.cwnd += f64::from(u8::from(self.grows));
            self.grows = !self.grows;
            self.credit.0 = 0.0;
        } else {
            self.credit.0 += left;
        }
    }

    /// What the last look says a loss is, and what it leaves of the window (`tcp_veno_ssthresh`).
    fn lose(&mut self, params: &Params, cwnd: f64) -> (LossKind, f64) {
        self.open.leave();
        self.credit = Credit::default();
        if self.is_full(params) {
            return (LossKind::Congestion, half(cwnd));
        }
        (LossKind::Wireless, (cwnd.floor() * params.kept).floor().max(2.0))
    }
}

/// State of Veno.
#[derive(Clone, Debug)]
pub struct Veno {
    pub(crate) params: Params,
    pub(crate) backlog: Backlog,
    /// The last ACK did not grow the window because the path is full.
    skipped: bool,
    kernel: Kernel,
}

impl Veno {
    pub(crate) fn new(params: &Params) -> Self {
        Veno { params: params.clone(), backlog: Backlog::new(), skipped: false, kernel: Kernel::new() }
    }

    fn is_kernel(&self) -> bool {
        self.params.rule == Rule::Linux
    }

    /// Whether there are enough samples to judge by.
    fn can_judge(&self) -> bool {
        f64::from(self.backlog.samples) >= self.params.min_samples && self.backlog.base.is_finite()
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
        if self.is_kernel() {
            let (kind, kept) = self.kernel.lose(&self.params, window.cwnd);
            return Reduction::to(kept, kept).taken_for(kind);
        }
        let kind = self.verdict().unwrap_or(LossKind::Congestion);
        self.reduction(kind, loss, window).taken_for(kind)
    }

    /// Reno's: the law says nothing of timeouts.
    fn on_timeout(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        if self.is_kernel() {
            return Reduction::to(self.kernel.lose(&self.params, window.cwnd).1, 1.0);
        }
        if self.params.reset_base {
            self.backlog.base = f64::INFINITY;
        }
        Reduction::to(loss.flight / 2.0, 1.0)
    }

    /// A mark is congestion whatever the backlog.
    fn on_ecn(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        if self.is_kernel() {
            let kept = self.kernel.lose(&self.params, window.cwnd).1;
            return Reduction::to(kept, kept);
        }
        let half = loss.flight.min(window.cwnd) / 2.0;
        Reduction::to(half, half)
    }

    /// The kernel discards its RTTs when it sends with nothing outstanding.
    fn on_idle(&mut self, _idle: Span, _now: Time) {
        if self.is_kernel() {
            let Kernel { rtts: Rtts { samples, .. }, queued, credit, .. } = self.kernel;
            self.kernel = Kernel { rtts: Rtts { samples, ..Rtts::new() }, queued, credit, ..Kernel::new() };
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

    /// The kernel's Veno after a base of 40 000 us, at W = 20 in congestion avoidance, with samples of `rtt_us`.
    fn of_kernel(rtt_us: u64) -> (Veno, Window) {
        let mut veno = Veno::new(&Params { rule: Rule::Linux, ..Params::default() });
        let mut window = FULL;
        for rtt_us in [40_000, rtt_us, rtt_us] {
            let rtt = Some(Span::from_nanos((rtt_us - 1) * 1000));
            veno.on_ack(&AckSample { rtt, acked: 0, ..ack(1) }, &mut window);
        }
        (veno, window)
    }

    /// TV-5.4, by hand from `tcp_veno.c`: 2 x 20 - floor(2 x 20 x 40 000 / RTT) halves. At 45 714 us the quotient is
    /// 35.0006, so that 5 halves are queued; at 45 715 us 34.9995, 6.
    #[test]
    fn the_rule_of_linux_rounds_up() {
        for (rtt_us, queued, kept, kind) in [
            (40_000, 0, 16.0, LossKind::Wireless),
            (45_714, 5, 16.0, LossKind::Wireless),
            (45_715, 6, 10.0, LossKind::Congestion),
        ] {
            let (mut veno, window) = of_kernel(rtt_us);
            assert_eq!(veno.kernel.queued, queued, "at {rtt_us} us");
            assert_eq!(veno.on_loss(&loss(15.0), &window), Reduction::to(kept, kept).taken_for(kind));
            assert_eq!(veno.on_ecn(&loss(15.0), &window), Reduction::to(kept, kept));
            assert_eq!(veno.on_timeout(&loss(15.0), &window), Reduction::to(kept, 1.0));
        }
    }

    /// A segment for every window of ACKs; on a full path one more ACK is waited for, and every second round grows.
    #[test]
    fn the_rule_of_linux_grows_by_round_trips() {
        for (rtt_us, acks) in [(41_000, [20, 21, 22]), (60_000, [21, 22 + 22, 23 + 23])] {
            let (mut veno, mut window) = of_kernel(rtt_us);
            let rtt = Some(Span::from_nanos((rtt_us - 1) * 1000));
            for (grown, acks) in [21.0, 22.0, 23.0].into_iter().zip(acks) {
                for _ in 1..acks {
                    veno.on_ack(&AckSample { rtt, ..ack(1) }, &mut window);
                    assert_eq!(window.cwnd, grown - 1.0, "at {rtt_us} us");
                }
                veno.on_ack(&AckSample { rtt, ..ack(1) }, &mut window);
                assert_eq!(window.cwnd, grown, "at {rtt_us} us");
            }
        }
    }

    /// While a segment is missing nothing is looked at, and the first ACK after that has no RTT to judge by.
    #[test]
    fn the_rule_of_linux_looks_at_no_hole() {
        let (mut veno, mut window) = of_kernel(40_000);
        let rtt = Some(Span::from_millis(80));
        veno.on_sacked(&AckSample { rtt, may_grow: false, ..ack(0) }, &mut window);
        assert_eq!(veno.kernel.queued, 0);
        let before = window.cwnd;
        for _ in 0..20 {
            veno.on_ack(&AckSample { rtt, disordered: true, ..ack(1) }, &mut window);
        }
        assert_eq!((veno.kernel.queued, window.cwnd), (0, before + 1.0), "a segment for a window of 20");
        veno.on_ack(&AckSample { rtt: Some(Span::from_nanos(39_999_000)), ..ack(1) }, &mut window);
        assert_eq!(veno.kernel.queued, 42);
        veno.on_ack(&AckSample { rtt: Some(Span::from_nanos(39_999_000)), ..ack(1) }, &mut window);
        assert_eq!(veno.kernel.queued, 0);
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
