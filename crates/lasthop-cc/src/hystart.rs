//! `HyStart`: leaving slow start before it overflows the queue (Ha & Rhee 2011), and `HyStart++` (RFC 9406).
//!
//! *What it does.* The classic one, as in Linux, ends slow start for good when the ACKs of one train span half the
//! minimum RTT, or when the RTT of a round has risen by an eighth. `HyStart++` looks at the RTT only, and first slows
//! down to a quarter of the growth for five rounds (conservative slow start): if the RTT falls again meanwhile it was
//! mistaken, and slow start goes on. SEARCH (`search.rs`) looks at what arrives of what was sent.
//! *Reacts to* the RTT, and to the spacing of ACKs.
//! *Differs from the sources:* Linux allows for the delay of its own segmentation offload in the ACK train; the
//! allowance is always the largest, 1 ms, which it is below 2 Gbit/s.
//! *Validation:* TV-11.4, and tests of each exit in this file.
//! *Limitations:* link-layer retransmissions that add more than the threshold end slow start early, on either: a known
//! cause of small windows on wireless links.
//! *Kernel counterpart:* the `hystart` options of `tcp_cubic`; `HyStart++` is in no Linux.
//! *References:* Ha & Rhee, Computer Networks 55(9), 2011; RFC 9406.

use lasthop_core::time::{Span, Time};

use crate::params::choice;
use crate::search::Search;
use crate::{AckSample, Window};

choice! {
    /// Early exit from slow start.
    HyStartKind {
        /// By a loss.
        Off = "off",
        /// By ACK trains and delay, as Linux does.
        Classic = "classic",
        /// By delay and conservative slow start (RFC 9406).
        PlusPlus = "plusplus",
        /// By what arrives of what was sent (SEARCH).
        Search = "search",
    }
}

/// Samples of a round before its RTT says anything.
const SAMPLES: u32 = 8;
/// The classic one leaves smaller windows alone.
const LOW_WINDOW: f64 = 16.0;
/// ACKs that follow each other within this are one train.
const TRAIN_GAP: Span = Span::from_millis(2);
/// What Linux allows for the bursts of its own segmentation offload, below 2 Gbit/s.
const OFFLOAD: Span = Span::from_millis(1);
/// Conservative slow start grows by a fourth.
const CSS_DIVISOR: f64 = 4.0;
const CSS_ROUNDS: u32 = 5;

/// Rise of the RTT that means a queue: an eighth, between 4 and 16 ms.
fn threshold(rtt: Span) -> Span {
    Span(rtt.0 / 8).max(Span::from_millis(4)).min(Span::from_millis(16))
}

/// The detector of one connection.
#[derive(Clone, Debug)]
pub(crate) struct HyStart {
    kind: HyStartKind,
    /// The round ends when more than this is acknowledged.
    round_end: u64,
    round_start: Time,
    last_ack: Time,
    /// Least RTT of this round and number of samples.
    current: Option<Span>,
    samples: u32,
    /// Classic: minimum RTT ever. Plus: minimum RTT of the last round.
    known: Option<Span>,
    /// Classic: the end was found.
    found: bool,
    /// Plus: minimum RTT when conservative slow start began, while that lasts.
    baseline: Option<Span>,
    css_rounds: u32,
    /// SEARCH, from the first RTT on.
    search: Option<Box<Search>>,
}

impl HyStart {
    pub(crate) fn new(kind: HyStartKind) -> HyStart {
        HyStart {
            kind,
            // The handshake is no round.
            round_end: 1,
            round_start: Time::ZERO,
            last_ack: Time::ZERO,
            current: None,
            samples: 0,
            known: None,
            found: false,
            baseline: None,
            css_rounds: 0,
            search: None,
        }
    }

    /// By how much slow start's growth is to be divided.
    pub(crate) fn divisor(&self) -> f64 {
        if self.baseline.is_some() { CSS_DIVISOR } else { 1.0 }
    }

    /// A new ACK during slow start, before the window grows: lowers ssthresh to the window when slow start is to end.
    pub(crate) fn on_ack(&mut self, ack: &AckSample, window: &mut Window) {
        match self.kind {
            HyStartKind::Off => {}
            HyStartKind::Classic => self.classic(ack, window),
            HyStartKind::PlusPlus => self.plus_plus(ack, window),
            HyStartKind::Search => self.search(ack, window),
        }
    }

    /// A loss or a mark: slow start is over, whatever was found.
    pub(crate) fn on_congestion(&mut self) {
        self.baseline = None;
        self.css_rounds = 0;
    }

    /// A timeout: the classic one looks again.
    pub(crate) fn on_timeout(&mut self) {
        self.on_congestion();
        self.found = false;
        self.round_end = 0;
        self.known = None;
        self.current = None;
        self.search = None;
    }

    fn search(&mut self, ack: &AckSample, window: &mut Window) {
        let rtt = ack.rtt.unwrap_or(ack.srtt);
        if rtt == Span::ZERO {
            return;
        }
        let Some(search) = &mut self.search else {
            self.search = Some(Box::new(Search::new(ack, rtt)));
            return;
        };
        if search.is_full(ack, rtt) {
            window.ssthresh = window.cwnd;
        }
    }

    fn sample(&mut self, ack: &AckSample) {
        if let Some(rtt) = ack.rtt {
            self.current = Some(self.current.map_or(rtt, |least| least.min(rtt)));
            self.samples += 1;
        }
    }

    fn classic(&mut self, ack: &AckSample, window: &mut Window) {
        if ack.una > self.round_end {
            self.round_start = ack.now;
            self.last_ack = ack.now;
            self.round_end = ack.next;
            self.current = None;
            self.samples = 0;
        }
        if let Some(rtt) = ack.rtt {
            self.known = Some(self.known.map_or(rtt, |least| least.min(rtt)));
        }
        let early = self.samples < SAMPLES;
        if early {
            self.sample(ack);
        } else if let Some(rtt) = ack.rtt {
            self.current = Some(self.current.map_or(rtt, |least| least.min(rtt)));
        }
        let Some(known) = self.known else { return };
        if self.found || window.cwnd < LOW_WINDOW {
            return;
        }
        if ack.now.since(self.last_ack) <= TRAIN_GAP {
            self.last_ack = ack.now;
            self.found |= ack.now.since(self.round_start).0 > (known + OFFLOAD).0 / 2;
        }
        if !early && let Some(current) = self.current {
            self.found |= current > known + threshold(known);
        }
        if self.found {
            window.ssthresh = window.cwnd;
        }
    }

    /// RFC 9406 §4.2.
    fn plus_plus(&mut self, ack: &AckSample, window: &mut Window) {
        if ack.una > self.round_end {
            self.round_end = ack.next;
            if self.baseline.is_some() {
                self.css_rounds += 1;
                if self.css_rounds >= CSS_ROUNDS {
                    window.ssthresh = window.cwnd;
                    self.on_congestion();
                    return;
                }
            }
            self.known = self.current.take();
            self.samples = 0;
        }
        self.sample(ack);
        let Some(current) = self.current.filter(|_| self.samples >= SAMPLES) else { return };
        if let Some(baseline) = self.baseline {
            if current < baseline {
                self.on_congestion();
            }
            return;
        }
        if let Some(last) = self.known
            && current >= last + threshold(last)
        {
            self.baseline = Some(current);
            self.css_rounds = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ack;

    /// TV-11.4.
    #[test]
    fn thresholds() {
        for (rtt, rise) in [(10, 4), (40, 5), (200, 16)] {
            assert_eq!(threshold(Span::from_millis(rtt)), Span::from_millis(rise));
        }
    }

    /// A sender in slow start with a window of `cwnd`, whose rounds are made of ACKs.
    struct Rig {
        hystart: HyStart,
        window: Window,
        una: u64,
        now: Time,
    }

    impl Rig {
        fn new(kind: HyStartKind, cwnd: f64) -> Rig {
            let window = Window { cwnd, ssthresh: f64::INFINITY };
            Rig { hystart: HyStart::new(kind), window, una: 1, now: Time::ZERO }
        }

        /// A round of `acks` ACKs, `gap_ms` apart, each with an RTT of `rtt_ms`.
        fn round(&mut self, acks: u64, gap_ms: u64, rtt_ms: u64) -> bool {
            let next = self.una + 2 * acks * 1000;
            for _ in 0..acks {
                self.now += Span::from_millis(gap_ms);
                self.una += 1000;
                let rtt = Some(Span::from_millis(rtt_ms));
                let sample = AckSample { now: self.now, rtt, una: self.una, next, ..ack(1) };
                self.hystart.on_ack(&sample, &mut self.window);
            }
            // The next ACK begins a round.
            self.hystart.round_end = self.una;
            self.window.in_slow_start()
        }
    }

    #[test]
    fn the_classic_one_leaves_at_a_risen_delay() {
        let mut rig = Rig::new(HyStartKind::Classic, 20.0);
        assert!(rig.round(20, 5, 100));
        assert!(rig.round(20, 5, 112), "100 + 12.5 is not exceeded");
        assert!(rig.round(8, 5, 120), "eight samples only");
        assert!(!rig.round(9, 5, 113));
        assert_eq!(rig.window.ssthresh, 20.0);
    }

    #[test]
    fn the_classic_one_leaves_at_a_long_train() {
        let mut rig = Rig::new(HyStartKind::Classic, 20.0);
        assert!(rig.round(25, 2, 100), "48 ms after the first ACK of the round");
        assert!(!rig.round(27, 2, 100), "52 ms exceed half of 100");
        let mut small = Rig::new(HyStartKind::Classic, 15.0);
        assert!(small.round(40, 2, 100), "a window below 16 is left alone");
    }

    /// SACK blocks before the first ACK of data begin no round (`bictcp_hystart_reset`): the round that this ACK begins
    /// ends with what has been sent by then.
    #[test]
    fn the_handshake_is_no_round() {
        let mut rig = Rig::new(HyStartKind::Classic, 20.0);
        for (una, next, end) in [(1, 11_000, 1), (1, 13_000, 1), (5001, 16_000, 16_000)] {
            rig.hystart.on_ack(&AckSample { una, next, ..ack(1) }, &mut rig.window);
            assert_eq!(rig.hystart.round_end, end);
        }
    }

    #[test]
    fn plus_plus_slows_down_first() {
        let mut rig = Rig::new(HyStartKind::PlusPlus, 20.0);
        assert!(rig.round(10, 1, 40));
        assert_eq!(rig.hystart.divisor(), 1.0);
        assert!(rig.round(10, 1, 45), "5 ms more");
        assert_eq!(rig.hystart.divisor(), 4.0);
        for _ in 0..4 {
            assert!(rig.round(10, 1, 46));
        }
        assert!(!rig.round(1, 1, 46), "the fifth round is complete");
        assert_eq!((rig.window.ssthresh, rig.hystart.divisor()), (20.0, 1.0));
    }

    #[test]
    fn plus_plus_goes_on_if_the_delay_falls_again() {
        let mut rig = Rig::new(HyStartKind::PlusPlus, 20.0);
        rig.round(10, 1, 40);
        rig.round(10, 1, 45);
        rig.round(10, 1, 44);
        assert_eq!(rig.hystart.divisor(), 1.0);
        for rtt in [44, 45, 46, 47, 48] {
            assert!(rig.round(10, 1, rtt), "slow growth from round to round is no jump");
        }
        assert_eq!(rig.hystart.divisor(), 1.0);
    }

    #[test]
    fn too_few_samples_say_nothing() {
        let mut rig = Rig::new(HyStartKind::PlusPlus, 4.0);
        rig.round(10, 1, 40);
        rig.round(7, 1, 80);
        assert_eq!(rig.hystart.divisor(), 1.0);
    }
}
