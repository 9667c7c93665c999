//! JTCP: classifies losses by the jitter ratio of the last window (Wu & Chen, JSAC 22(4), 2004).
//!
//! *What it does.* Two segments about `span` windows apart are sent S apart and received R apart. `Jr = 1 - S / R` is
//! the share of the segments that joined a queue between them. If more than `k` of them were queued, which for a pair
//! of one window is `Jr > k / cwnd`, a loss counts as congestion and is answered as in Reno. Otherwise a third
//! duplicate ACK triggers a repair without a change of the window (immediate recovery, `imm_factor`), and a timeout
//! only halves it. Growth is Reno's.
//!
//! *Reacts to* loss, classified by jitter; to ECN by halving, independent of the jitter.
//!
//! *Differs from the paper:* the rules follow the description by Andreadis et al. (EURASIP JWCN 2016:191, equations 1
//! to 3 and Fig. 2). Their text says that JTCP reduces the window "slightly" at a wireless loss, their figure leaves
//! it unchanged: `imm_factor = 0.95` follows the text. It is not stated which two segments form a pair. Here the pair
//! ends with the last segment that was acknowledged before the duplicate ACKs began (`pair = "before-loss"`). Segments
//! that arrive after the hole lack the service time of the dropped one, which hides the growth of the queue that
//! dropped it (`pair = "latest"`).
//!
//! The pair spans 4.25 smoothed RTTs: two increases of a window that delayed ACKs let grow by one in two RTTs, and a
//! margin. A single increase also moves the ACKs from the second segment of each pair to the first, which seems to
//! remove from the queue the segment that the increase adds; the next increase moves them back. Without such a pair
//! the loss counts as congestion. The printed threshold, k = 1, requires more than one queued segment where a growing
//! window queues exactly one; `k = 0.9` is just below this limit. `span = 1` and `k = 1` are the values of the paper.
//! Half of the window is kept, as in their figure (`reduce_from = "flight"` is RFC 5681's half of the data in flight,
//! which is less if the application does not fill the window). `echo = "precise"` takes both times from an option of
//! 12 bytes on every ACK, including duplicates. `"timestamps"` takes them from RFC 7323's option, on ACKs of new data
//! only; with delayed ACKs it pairs the time at which the older segment was sent with the time of the ACK.
//!
//! *Validation:* TV-6.1 and TV-6.2, worked by hand from the equations; no other implementation is public. Recall and
//! precision over loss rates, buffers and loads in `docs/reference/classifiers.md`.
//!
//! *Limitations:* behind a full queue of constant length, shared by many flows, the ratio is near zero, and JTCP takes
//! losses by congestion for wireless ones (its authors' "ineffective jitter ratio"). If there are no wireless losses,
//! it is then unfair to Reno. Delays by link-layer retransmission are jitter as well, and make JTCP take random losses
//! for congestion. A clock of 1 ms makes the ratio useless below an RTT of about 20 ms.
//!
//! *Kernel counterpart:* none. With timestamps in microseconds a module could do what `echo = "timestamps"` does.
//!
//! *References:* Wu & Chen, JSAC 22(4), 2004; Andreadis, Rizzuto & Zambon, EURASIP JWCN 2016:191; RFC 7323.

use crate::jitter::{JitterConfig, JitterRatio, Pair};
use crate::params::{choice, params};
use crate::reno::{self, Reno};
use crate::veno::ReduceFrom;
use crate::{AckSample, Arrival, CongestionControl, LossKind, LossSample, Needs, Reduction, Window};

pub(crate) const SUMMARY: &str = "Classifies losses by the jitter ratio (Wu & Chen 2004)";

choice! {
    /// Where the send and receive times come from.
    Echo {
        /// An option of its own on every ACK.
        Precise = "precise",
        /// The timestamps option.
        Timestamps = "timestamps",
    }
}

params! {
    /// Congestion is assumed when the pair implies more than k queued segments: a jitter ratio above k / (span *
    /// cwnd)
    k: f64 = 0.9, 0.0..=1000.0;
    /// Where the pair of compared segments ends: before the loss, or at the latest known segment
    pair: Pair = Pair::BeforeLoss, 0.0..=1.0;
    /// Share of the window kept after a non-congestion loss that was found by duplicate ACKs
    imm_factor: f64 = 1.0, 0.01..=1.0;
    /// What is halved: the window, or the segments in flight
    reduce_from: ReduceFrom = ReduceFrom::Window, 0.0..=1.0;
    /// Number of smoothed RTTs between the two segments whose times are compared
    span: f64 = 4.25, 0.1..=10.0;
    /// Where send and receive times come from: an option of 12 bytes on every ACK, or timestamps
    echo: Echo = Echo::Precise, 0.0..=1.0;
    /// Tick of the clock of send and receive times, in seconds; 0 is exact
    clock: f64 = 0.0, 0.0..=1.0;
    /// Count segments instead of ACKs in congestion avoidance (RFC 3465)
    byte_counting: bool = false, 0.0..=1.0;
    /// Maximum number of segments that one ACK adds in slow start (RFC 5681: 1; RFC 3465: 2)
    slow_start_limit: f64 = crate::SLOW_START_LIMIT, 1.0..=1e9;
}

/// State of JTCP.
#[derive(Clone, Debug)]
pub struct Jtcp {
    params: Params,
    reno: Reno,
    jitter: JitterRatio,
}

impl Jtcp {
    pub(crate) fn new(params: &Params) -> Self {
        let Params { k, span, clock, pair, byte_counting, slow_start_limit, .. } = *params;
        Jtcp {
            params: params.clone(),
            reno: Reno::new(&reno::Params { byte_counting, slow_start_limit, ..reno::Params::default() }),
            jitter: JitterRatio::new(JitterConfig { k, span, pair, clock }),
        }
    }
}

/// The answer to a loss that duplicate ACKs reported, once it is known for what it is; a reduction starts from `base`.
/// XJTCP shares it.
pub(crate) fn fast_answer(kind: LossKind, imm_factor: f64, base: f64, window: &Window) -> Reduction {
    let kept = match kind {
        LossKind::Wireless => window.cwnd * imm_factor,
        LossKind::Congestion => base / 2.0,
    };
    Reduction::to(kept, kept).taken_for(kind)
}

/// The answer to a timeout likewise.
pub(crate) fn timeout_answer(kind: LossKind, base: f64, window: &Window) -> Reduction {
    let half = base / 2.0;
    let cwnd = match kind {
        LossKind::Wireless => half.max(2.0).min(window.cwnd),
        LossKind::Congestion => 1.0,
    };
    Reduction::to(half, cwnd).taken_for(kind)
}

impl CongestionControl for Jtcp {
    fn needs(&self) -> Needs {
        Needs {
            arrivals: true,
            receive_times: self.params.echo == Echo::Precise,
            timestamp_times: self.params.echo == Echo::Timestamps,
            classifies: true,
            ..Needs::default()
        }
    }

    #[inline]
    fn on_arrival(&mut self, arrival: &Arrival, _window: &mut Window) {
        self.jitter.note(arrival);
    }

    #[inline]
    fn on_ack(&mut self, ack: &AckSample, window: &mut Window) {
        self.reno.on_ack(ack, window);
    }

    fn on_loss(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        let base = self.params.reduce_from.base(loss, window);
        fast_answer(self.jitter.judge(window.cwnd), self.params.imm_factor, base, window)
    }

    fn on_timeout(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        timeout_answer(self.jitter.judge(window.cwnd), self.params.reduce_from.base(loss, window), window)
    }

    fn on_ecn(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        let half = self.params.reduce_from.base(loss, window) / 2.0;
        Reduction::to(half, half)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jitter::testing::echoes;
    use crate::testing::loss;

    const WINDOW: Window = Window { cwnd: 20.0, ssthresh: 64.0 };

    /// A pair of one window and the printed threshold, as the vectors have them.
    fn letter() -> Params {
        Params { k: 1.0, span: 1.0, ..Params::default() }
    }

    /// A sender whose last window was received over `received_ms` instead of 100.
    fn jtcp(received_ms: f64, params: &Params) -> Jtcp {
        let mut jtcp = Jtcp::new(params);
        let mut window = WINDOW;
        for arrival in echoes(received_ms) {
            jtcp.on_arrival(&arrival, &mut window);
        }
        jtcp
    }

    /// TV-6.2: W = 20.
    #[test]
    fn reactions_to_losses() {
        let lost = loss(20.0);
        let (mut calm, mut queued) = (jtcp(104.0, &letter()), jtcp(106.0, &letter()));
        let (wireless, congestion) = (LossKind::Wireless, LossKind::Congestion);
        assert_eq!(calm.on_loss(&lost, &WINDOW), Reduction::to(20.0, 20.0).taken_for(wireless));
        assert_eq!(queued.on_loss(&lost, &WINDOW), Reduction::to(10.0, 10.0).taken_for(congestion));
        assert_eq!(calm.on_timeout(&lost, &WINDOW), Reduction::to(10.0, 10.0).taken_for(wireless));
        assert_eq!(queued.on_timeout(&lost, &WINDOW), Reduction::to(10.0, 1.0).taken_for(congestion));
    }

    /// An application that sends less than the window allows has 8 of 20 in flight.
    #[test]
    fn the_half_is_that_of_the_window() {
        let few = loss(8.0);
        for (reduce_from, half) in [(ReduceFrom::Window, 10.0), (ReduceFrom::Flight, 4.0)] {
            let mut queued = jtcp(106.0, &Params { reduce_from, ..letter() });
            assert_eq!(queued.on_loss(&few, &WINDOW).cwnd, half);
            assert_eq!(queued.on_timeout(&few, &WINDOW).ssthresh, half);
            assert_eq!(queued.on_ecn(&few, &WINDOW).cwnd, half);
        }
    }

    #[test]
    fn a_mark_is_congestion() {
        let mut calm = jtcp(104.0, &letter());
        assert_eq!(calm.on_ecn(&loss(20.0), &WINDOW), Reduction::to(10.0, 10.0));
    }

    #[test]
    fn immediate_recovery_may_cost_a_little() {
        let mut calm = jtcp(104.0, &Params { imm_factor: 0.95, ..letter() });
        assert_eq!(calm.on_loss(&loss(20.0), &WINDOW).cwnd, 19.0);
    }

    #[test]
    fn nothing_measured_means_congestion() {
        let mut jtcp = Jtcp::new(&Params::default());
        assert_eq!(jtcp.on_loss(&loss(20.0), &WINDOW).taken_for, Some(LossKind::Congestion));
    }
}
