//! TCP Probing: a loss is answered only after two probes have measured the path (Tsaoussidis & Badr, ICNP 2000).
//!
//! *What it does.* At a third duplicate ACK or a timeout the sender stops sending data and exchanges two probes with
//! the receiver (`probing.rs` of the sender in `lasthop-net`). If neither takes longer than `factor` times the minimum
//! RTT, the path is not congested: the window stays unchanged (immediate recovery). Otherwise the response is Reno's:
//! half the window, or one segment after a timeout. Growth is Reno's.
//!
//! *Reacts to* loss, classified by the RTT of probes; to ECN by halving, without a probe cycle.
//!
//! *Differs from the paper:* the published rule and its threshold are known from descriptions only; `factor` is a
//! choice: the smallest value that an uncongested path passes, because a probe is shorter than the packets of the
//! minimum RTT. With 1.2 and more a full buffer of a fifth of the path is never detected: a single flow then uses 0.48
//! of its link (10 Mbit/s, 40 ms) instead of 0.81. With `smoothed` a probe may also take as long as the smoothed RTT
//! before the loss. That RTT includes the queue that has just overflowed, so a probe of that queue seems uncongested:
//! 0.25 of the overflows of eight flows with twenty packets of buffer were recognised instead of 0.98, and two flows
//! with seven packets reached 0.82 of Reno's goodput over handoffs instead of 1.02. It recognises more errors only
//! where RTTs vary for other reasons than queues (0.72 instead of 0.62 on a path that loses 1 %). A probe that is not
//! answered within the retransmission timeout starts the cycle again with twice the time. The description does not say
//! what immediate recovery sends. The path drains during a cycle, so the whole window would leave as a burst. The data
//! after a third duplicate ACK is therefore spread over a round trip; after a timeout two segments from `una` on are
//! sent first and the rest as ACKs return, up to the previous window. A loss in the first slow start ends slow start
//! even on an uncongested path: otherwise it would continue up to the receiver's window.
//!
//! *Validation:* TV-8.3, worked by hand, here and on a running sender; recall and precision in
//! `docs/reference/classifiers.md`; goodput and retransmissions over handoffs against Reno's
//! (`crates/lasthop-sim/tests/classifiers.rs`).
//!
//! *Limitations:* each cycle costs at least two RTTs without data, so short connections and isolated losses lose more
//! than they gain. The path drains before a timeout and within a cycle, so the probes of a single flow always find it
//! uncongested. Errors while other flows fill the queue are taken for congestion. Over ten handoffs of 1 s in 60 s (10
//! Mbit/s, 40 ms; one, two, five and ten flows; three seeds) it reaches 0.96 to 1.05 of Reno's goodput if packets are
//! dropped and 1.03 to 2.18 if they are held, with buffers of 33 and 167 packets; it retransmits no more with 33 and
//! at most 1.9 times as much with 167. With 7 packets it reaches 0.92 to 1.05 and 1.00 to 2.10, and five and ten flows
//! retransmit two to two and a half times as much.
//!
//! *Kernel counterpart:* none.
//!
//! *References:* Tsaoussidis & Badr, ICNP 2000; RFC 6994.

use lasthop_core::time::Span;

use crate::params::params;
use crate::reno::{self, Reno};
use crate::{
    AckSample, CongestionControl, LossKind, LossSample, Needs, ProbeSample, Reduction, Start, Window,
};

pub(crate) const SUMMARY: &str = "Probes the path before it responds to a loss (Tsaoussidis & Badr 2000)";

params! {
    /// Probes may take this many times the best RTT on a path without congestion
    factor: f64 = 1.1, 1.0..=100.0;
    /// Probes may also take as long as the smoothed RTT before the loss
    smoothed: bool = false, 0.0..=1.0;
    /// Count segments instead of ACKs in congestion avoidance (RFC 3465)
    byte_counting: bool = false, 0.0..=1.0;
    /// Maximum number of segments that one ACK adds in slow start (RFC 5681: 1; RFC 3465: 2)
    slow_start_limit: f64 = crate::SLOW_START_LIMIT, 1.0..=1e9;
}

/// State of TCP Probing's window.
#[derive(Clone, Debug)]
pub struct Probing {
    factor: f64,
    smoothed: bool,
    reno: Reno,
    best: Option<Span>,
    /// The threshold before any loss, which says nothing about the path.
    unknown_ssthresh: f64,
    /// What the probes said about the loss that is answered next.
    verdict: Option<LossKind>,
}

impl Probing {
    pub(crate) fn new(params: &Params) -> Self {
        let Params { factor, smoothed, byte_counting, slow_start_limit } = *params;
        Probing {
            factor,
            smoothed,
            reno: Reno::new(&reno::Params { byte_counting, slow_start_limit, ..reno::Params::default() }),
            best: None,
            unknown_ssthresh: f64::INFINITY,
            verdict: None,
        }
    }
}

impl CongestionControl for Probing {
    fn needs(&self) -> Needs {
        Needs { probing: true, pacing: true, classifies: true, ..Needs::default() }
    }

    fn on_start(&mut self, _start: &Start<'_>, window: &mut Window) {
        self.unknown_ssthresh = window.ssthresh;
    }

    #[inline]
    fn on_ack(&mut self, ack: &AckSample, window: &mut Window) {
        if let Some(rtt) = ack.rtt {
            self.best = Some(self.best.map_or(rtt, |best| best.min(rtt)));
        }
        self.reno.on_ack(ack, window);
    }

    fn on_probes(&mut self, probes: &ProbeSample) {
        let usual = self.best.map_or(0.0, |best| best.seconds() * self.factor);
        let limit = if self.smoothed { usual.max(probes.srtt.seconds()) } else { usual };
        let calm = probes.first.max(probes.second).seconds() <= limit;
        self.verdict = Some(if calm { LossKind::Wireless } else { LossKind::Congestion });
    }

    fn on_loss(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        match self.verdict.take().unwrap_or(LossKind::Congestion) {
            LossKind::Wireless => {
                Reduction::none(window, self.unknown_ssthresh).taken_for(LossKind::Wireless)
            }
            LossKind::Congestion => self.reno.on_loss(loss, window).taken_for(LossKind::Congestion),
        }
    }

    fn on_timeout(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        match self.verdict.take().unwrap_or(LossKind::Congestion) {
            LossKind::Wireless => Reduction::none(window, self.unknown_ssthresh)
                .clocked_by_acks()
                .taken_for(LossKind::Wireless)
                .without_backoff(),
            LossKind::Congestion => self.reno.on_timeout(loss, window).taken_for(LossKind::Congestion),
        }
    }

    fn on_ecn(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        self.reno.on_loss(loss, window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack, loss};

    const WINDOW: Window = Window { cwnd: 20.0, ssthresh: 64.0 };

    /// Best RTT 100 ms, smoothed RTT 130 ms, and probes that took so long.
    fn probed(first_ms: u64, second_ms: u64) -> Probing {
        let mut probing = Probing::new(&Params { factor: 1.5, ..Params::default() });
        for rtt in [120, 100, 160] {
            let sample = AckSample { rtt: Some(Span::from_millis(rtt)), may_grow: false, ..ack(1) };
            probing.on_ack(&sample, &mut WINDOW.clone());
        }
        let [first, second, srtt] = [first_ms, second_ms, 130].map(Span::from_millis);
        probing.on_probes(&ProbeSample { first, second, srtt });
        probing
    }

    /// TV-8.3: the limit is max(1.5 * 100, 130) = 150 ms.
    #[test]
    fn both_probes_must_be_quick() {
        let lost = loss(20.0);
        let wireless = Reduction::to(64.0, 20.0).taken_for(LossKind::Wireless);
        let congestion = Reduction::to(10.0, 10.0).taken_for(LossKind::Congestion);
        assert_eq!(probed(120, 140).on_loss(&lost, &WINDOW), wireless);
        assert_eq!(probed(120, 180).on_loss(&lost, &WINDOW), congestion);
        assert_eq!(probed(151, 100).on_loss(&lost, &WINDOW), congestion);
        let repaired = Reduction { cwnd: 2.0, ..wireless.without_backoff() };
        assert_eq!(probed(120, 140).on_timeout(&lost, &WINDOW), repaired, "una first, then as ACKs return");
        assert_eq!(probed(120, 180).on_timeout(&lost, &WINDOW).cwnd, 1.0);
    }

    /// A threshold that no loss has set yet is none: slow start ends at the first, however calm the path.
    #[test]
    fn the_first_loss_ends_slow_start() {
        for unknown in [f64::INFINITY, 64.0] {
            let mut probing = probed(120, 140);
            probing.unknown_ssthresh = unknown;
            let window = Window { cwnd: 20.0, ssthresh: unknown };
            assert_eq!(probing.clone().on_loss(&loss(20.0), &window).ssthresh, 20.0);
            assert_eq!(probing.on_timeout(&loss(20.0), &window).ssthresh, 20.0);
        }
    }

    #[test]
    fn a_verdict_serves_once_and_marks_need_none() {
        let lost = loss(20.0);
        let mut probing = probed(120, 140);
        assert_eq!(probing.on_ecn(&lost, &WINDOW), Reduction::to(10.0, 10.0));
        assert_eq!(probing.on_loss(&lost, &WINDOW).cwnd, 20.0);
        assert_eq!(probing.on_loss(&lost, &WINDOW).cwnd, 10.0);
    }
}
