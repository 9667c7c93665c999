//! XJTCP: JTCP that also counts the frames which the MAC discards (Andreadis, Rizzuto & Zambon, EURASIP JWCN 2016).
//!
//! *What it does.* In each monitoring window of `monitor` seconds it counts signs of congestion, C (losses that the
//! jitter ratio takes for congestion), and of a bad channel, N (the other losses, and every frame that a MAC
//! discards). Both are smoothed with the weight `alpha` for the present window and the rest for the one before, and
//! `theta = (N + 1) / (C + 1)`. At a third duplicate ACK the window stays if theta > 1 and is halved if theta < 1; at
//! a timeout it is halved or restarts from one segment. At theta = 1 the jitter ratio decides, as in JTCP. Growth is
//! Reno's.
//!
//! *Reacts to* loss, classified by jitter and by discarded frames; to ECN by halving, which counts as a sign of
//! congestion.
//!
//! *Differs from the paper:* the paper does not give the length of the monitoring window. Equations 4 and 5 as printed
//! weigh the raw counts of two windows; `ewma = "recursive"` smooths as the word EWMA says. Theta is taken at the
//! loss, which itself has been counted (`theta = "live"`), or from the complete windows (`"latched"`), with which
//! theta is 1 throughout the first window.
//!
//! The source of the count follows from the direction of the data (`discard_source = "direction"`): the MAC of a
//! wireless receiver counts corrupt frames, and TCP echoes the count in an option of 8 bytes; on the uplink, where the
//! paper speaks of lost packets, the sender's own MAC counts the packets that it gave up. `receiver` and `given-up`
//! select one of these; `attempts` counts every failed attempt of the sender's MAC, `mac` what that MAC itself calls a
//! discard (the link's key `discards`), `none` nothing. The echoed count is cumulative, so a lost ACK loses no count.
//! For `echo`, `pair`, `span`, `k`, `clock`, `imm_factor` and `reduce_from` see `jtcp`.
//!
//! *Validation:* TV-6.3 to TV-6.5, worked by hand from the equations; no other implementation is public. Recall and
//! precision over loss rates, buffers and loads in `docs/reference/classifiers.md`.
//!
//! *Limitations:* if errors and overflows fall into the same monitoring window, the majority decides: theta exceeds 1
//! as soon as two frames were discarded for one overflow, and the overflow is taken for an error. With two errors a
//! second and an overflow every few seconds XJTCP recognises four in five overflows, and JTCP seven in eight; the
//! paper's buffers of 1000 segments never overflow. N counts frames and C losses, so theta depends on the scale. If a
//! MAC discards frames that it then retransmits (`attempts`, or a receiver behind such a link), theta nearly always
//! exceeds 1, also by collisions with competing stations, and XJTCP hardly ever halves its window. A corrupt frame
//! counts for the flow that it belonged to; a real MAC cannot read the address of a corrupt frame, so every host in
//! range would count it. The paper sketches an estimate from QoS counters for the uplink; here the exact count
//! replaces it.
//!
//! *Kernel counterpart:* none.
//!
//! *References:* Andreadis, Rizzuto & Zambon, EURASIP JWCN 2016:191; Wu & Chen, JSAC 22(4), 2004; RFC 6994.

use lasthop_core::time::{Span, Time};

use crate::jitter::{JitterConfig, JitterRatio, Pair};
use crate::jtcp::{Echo, fast_answer, timeout_answer};
use crate::params::{choice, params};
use crate::reno::{self, Reno};
use crate::veno::ReduceFrom;
use crate::{
    AckSample, Arrival, CongestionControl, LossKind, LossSample, LossSigns, Needs, Reduction, Signal, Window,
};

pub(crate) const SUMMARY: &str = "JTCP with a count of frames that the MAC discarded (Andreadis et al. 2016)";

choice! {
    /// How the counts of the windows are smoothed.
    Ewma {
        /// The raw counts of two windows (equations 4 and 5).
        Printed = "printed",
        /// The count of this window and the smoothed value so far.
        Recursive = "recursive",
    }
}

choice! {
    /// Which windows theta is taken from.
    Theta {
        /// The present one, as far as it has come.
        Live = "live",
        /// The last complete one.
        Latched = "latched",
    }
}

choice! {
    /// Which discarded frames are counted.
    DiscardSource {
        /// What the receiver's MAC discarded and what the sender's gave up: whichever end is wireless.
        Direction = "direction",
        /// Every failed attempt of the sender's MAC.
        Attempts = "attempts",
        /// Every packet that the sender's MAC gave up.
        GivenUp = "given-up",
        /// What the sender's MAC calls a discard.
        Mac = "mac",
        /// What the receiver's MAC discarded.
        Receiver = "receiver",
        /// None.
        None = "none",
    }
}

params! {
    /// Weight of the present monitoring window
    alpha: f64 = 0.8, 0.0..=1.0;
    /// Length of a monitoring window in seconds
    monitor: f64 = 1.0, 0.001..=1000.0;
    /// Smoothing: the raw counts of two windows as printed, or recursive
    ewma: Ewma = Ewma::Printed, 0.0..=1.0;
    /// Theta from the present window (live) or from the last complete one (latched)
    theta: Theta = Theta::Live, 0.0..=1.0;
    /// Which discarded frames count: by direction; failed attempts, packets given up or discards of the own MAC; the
    /// receiver's; none
    discard_source: DiscardSource = DiscardSource::Direction, 0.0..=5.0;
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

/// Signs of congestion and of a bad channel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    congestion: f64,
    channel: f64,
}

impl Counts {
    /// `share` of these and the rest of `past`.
    fn smoothed(self, past: Counts, share: f64) -> Counts {
        let mix = |present: f64, past: f64| share * present + (1.0 - share) * past;
        Counts { congestion: mix(self.congestion, past.congestion), channel: mix(self.channel, past.channel) }
    }

    /// Equation 6.
    fn theta(self) -> f64 {
        (self.channel + 1.0) / (self.congestion + 1.0)
    }
}

/// The counts of successive monitoring windows.
#[derive(Clone, Copy, Debug)]
struct Monitor {
    alpha: f64,
    length: Span,
    recursive: bool,
    /// When the present window ends; `None` before anything happened.
    end: Option<Time>,
    present: Counts,
    last: Counts,
    before_last: Counts,
    /// Recursively smoothed through the last window.
    smoothed: Counts,
}

impl Monitor {
    /// Begins as many new windows as have become due.
    fn roll(&mut self, now: Time) {
        let Some(end) = self.end else {
            self.end = Some(now + self.length);
            return;
        };
        if now < end {
            return;
        }
        let over = now.since(end).0 / self.length.0 + 1;
        self.smoothed = self.present.smoothed(self.smoothed, self.alpha);
        self.before_last = self.last;
        self.last = self.present;
        self.present = Counts::default();
        if over > 1 {
            // Windows in which nothing happened.
            let kept = libm::pow(1.0 - self.alpha, (over - 1) as f64);
            self.smoothed.congestion *= kept;
            self.smoothed.channel *= kept;
            self.before_last = if over == 2 { self.last } else { Counts::default() };
            self.last = Counts::default();
        }
        self.end = Some(end + self.length * over);
    }

    /// Equations 4 and 5 for the present window, or for the last one.
    fn counts(&self, latched: bool) -> Counts {
        match (self.recursive, latched) {
            (false, false) => self.present.smoothed(self.last, self.alpha),
            (false, true) => self.last.smoothed(self.before_last, self.alpha),
            (true, false) => self.present.smoothed(self.smoothed, self.alpha),
            (true, true) => self.smoothed,
        }
    }
}

/// State of XJTCP.
#[derive(Clone, Debug)]
pub struct Xjtcp {
    params: Params,
    reno: Reno,
    jitter: JitterRatio,
    monitor: Monitor,
    /// The receiver's count that the last ACK echoed.
    discards: u32,
}

impl Xjtcp {
    pub(crate) fn new(params: &Params) -> Self {
        let Params { k, span, clock, pair, byte_counting, slow_start_limit, .. } = *params;
        Xjtcp {
            params: params.clone(),
            reno: Reno::new(&reno::Params { byte_counting, slow_start_limit, ..reno::Params::default() }),
            jitter: JitterRatio::new(JitterConfig { k, span, pair, clock }),
            monitor: Monitor {
                alpha: params.alpha,
                length: Span::from_seconds(params.monitor),
                recursive: params.ewma == Ewma::Recursive,
                end: None,
                present: Counts::default(),
                last: Counts::default(),
                before_last: Counts::default(),
                smoothed: Counts::default(),
            },
            discards: 0,
        }
    }

    /// Counts a loss by its jitter and judges it by theta.
    fn judge(&mut self, now: Time, cwnd: f64) -> LossKind {
        let by_jitter = self.jitter.judge(cwnd);
        self.monitor.roll(now);
        let present = &mut self.monitor.present;
        match by_jitter {
            LossKind::Wireless => present.channel += 1.0,
            LossKind::Congestion => present.congestion += 1.0,
        }
        let theta = self.counts().theta();
        if (theta - 1.0).abs() < 1e-9 {
            by_jitter
        } else if theta > 1.0 {
            LossKind::Wireless
        } else {
            LossKind::Congestion
        }
    }

    /// N and C, as the parameters have them smoothed.
    fn counts(&self) -> Counts {
        self.monitor.counts(self.params.theta == Theta::Latched)
    }

    fn count_discards(&mut self, count: u32, now: Time) {
        self.monitor.roll(now);
        self.monitor.present.channel += f64::from(count);
    }
}

impl CongestionControl for Xjtcp {
    fn needs(&self) -> Needs {
        let source = self.params.discard_source;
        Needs {
            arrivals: true,
            receive_times: self.params.echo == Echo::Precise,
            timestamp_times: self.params.echo == Echo::Timestamps,
            discards: matches!(source, DiscardSource::Direction | DiscardSource::Receiver),
            signals: !matches!(source, DiscardSource::Receiver | DiscardSource::None),
            classifies: true,
            ..Needs::default()
        }
    }

    #[inline]
    fn on_arrival(&mut self, arrival: &Arrival, _window: &mut Window) {
        self.monitor.roll(arrival.now);
        self.jitter.note(arrival);
        if let Some(discards) = arrival.discards {
            let news = discards.wrapping_sub(self.discards);
            // An older count comes from an ACK that was overtaken.
            if news < 1 << 31 {
                self.discards = discards;
                self.count_discards(news, arrival.now);
            }
        }
    }

    #[inline]
    fn on_ack(&mut self, ack: &AckSample, window: &mut Window) {
        self.reno.on_ack(ack, window);
    }

    fn on_loss(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        let kind = self.judge(loss.now, window.cwnd);
        fast_answer(kind, self.params.imm_factor, self.params.reduce_from.base(loss, window), window)
    }

    fn on_timeout(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        let base = self.params.reduce_from.base(loss, window);
        timeout_answer(self.judge(loss.now, window.cwnd), base, window)
    }

    fn on_ecn(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        self.monitor.roll(loss.now);
        self.monitor.present.congestion += 1.0;
        let half = self.params.reduce_from.base(loss, window) / 2.0;
        Reduction::to(half, half)
    }

    fn on_signal(&mut self, signal: &Signal, now: Time) {
        let count = match (self.params.discard_source, signal) {
            (DiscardSource::Mac, Signal::MacDiscard { count }) => *count,
            // The attempt at which the link gives up has failed like those before it.
            (DiscardSource::Attempts, Signal::LinkRetry { .. })
            | (
                DiscardSource::Attempts | DiscardSource::GivenUp | DiscardSource::Direction,
                Signal::LinkDrop { .. },
            ) => 1,
            _ => return,
        };
        self.count_discards(count, now);
    }

    fn loss_signs(&self) -> Option<LossSigns> {
        let counts = self.counts();
        Some(LossSigns { theta: counts.theta(), channel: counts.channel, congestion: counts.congestion })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jitter::testing::echoes;
    use crate::testing::{loss, plain_arrival};

    const WINDOW: Window = Window { cwnd: 20.0, ssthresh: 64.0 };

    fn at(seconds: f64) -> Time {
        Time::ZERO + Span::from_seconds(seconds)
    }

    fn counts(congestion: f64, channel: f64) -> Counts {
        Counts { congestion, channel }
    }

    /// A pair of one window and the printed threshold, as the vectors have them.
    fn letter() -> Params {
        Params { k: 1.0, span: 1.0, ..Params::default() }
    }

    /// A sender whose last window was received over `received_ms` instead of 100.
    fn xjtcp(received_ms: f64, params: &Params) -> Xjtcp {
        let mut xjtcp = Xjtcp::new(params);
        let mut window = WINDOW;
        for arrival in echoes(received_ms) {
            xjtcp.on_arrival(&arrival, &mut window);
        }
        xjtcp
    }

    /// TV-6.3: the counts of this window and the last one, and what follows for a third duplicate ACK.
    #[test]
    fn theta_of_two_windows() {
        let mut monitor = Xjtcp::new(&Params::default()).monitor;
        for (present, last, theta) in [
            (counts(1.0, 4.0), counts(2.0, 0.0), 1.909_091),
            (counts(2.0, 1.0), counts(0.0, 1.0), 0.769_231),
            (counts(0.0, 0.0), counts(0.0, 0.0), 1.0),
        ] {
            (monitor.present, monitor.last) = (present, last);
            assert!(
                (monitor.counts(false).theta() - theta).abs() < 5e-7,
                "{}",
                monitor.counts(false).theta()
            );
        }
        // The loss itself is counted first: it raises one of the two counts from one less.
        let mut calm = xjtcp(104.0, &letter());
        (calm.monitor.present, calm.monitor.last) = (counts(1.0, 3.0), counts(2.0, 0.0));
        assert_eq!(calm.on_loss(&loss(20.0), &WINDOW).cwnd, 20.0);
        let mut queued = xjtcp(106.0, &letter());
        (queued.monitor.present, queued.monitor.last) = (counts(1.0, 1.0), counts(0.0, 1.0));
        assert_eq!(queued.on_loss(&loss(20.0), &WINDOW).cwnd, 10.0);
        assert_eq!(queued.monitor.present, counts(2.0, 1.0));
    }

    /// TV-6.4: the first loss of all agrees with the jitter.
    #[test]
    fn a_lone_loss() {
        let mut calm = xjtcp(104.0, &letter());
        let wireless = Reduction::to(20.0, 20.0).taken_for(LossKind::Wireless);
        assert_eq!(calm.on_loss(&loss(20.0), &WINDOW), wireless);
        assert!((calm.monitor.counts(false).theta() - 1.8).abs() < 1e-12);
        assert_eq!(calm.loss_signs().unwrap(), LossSigns { theta: 1.8, channel: 0.8, congestion: 0.0 });
        let mut queued = xjtcp(106.0, &letter());
        let congestion = Reduction::to(10.0, 10.0).taken_for(LossKind::Congestion);
        assert_eq!(queued.on_loss(&loss(20.0), &WINDOW), congestion);
        assert!((queued.monitor.counts(false).theta() - 0.555_556).abs() < 5e-7);
        let mut queued = xjtcp(106.0, &letter());
        assert_eq!(queued.on_timeout(&loss(20.0), &WINDOW).cwnd, 1.0);
    }

    /// TV-6.5: three windows of one second with N = 0, 4, 0 and C = 2, 1, 0.
    #[test]
    fn recursive_and_printed_smoothing() {
        for (ewma, expected) in
            [(Ewma::Recursive, [0.3846, 1.9811, 1.3399]), (Ewma::Printed, [0.3846, 1.9091, 1.5])]
        {
            let mut monitor = Xjtcp::new(&Params { ewma, ..Params::default() }).monitor;
            monitor.roll(at(0.0));
            for (number, (seen, theta)) in
                [counts(2.0, 0.0), counts(1.0, 4.0), counts(0.0, 0.0)].into_iter().zip(expected).enumerate()
            {
                monitor.present = seen;
                assert!(
                    (monitor.counts(false).theta() - theta).abs() < 5e-5,
                    "{number}: {}",
                    monitor.counts(false).theta()
                );
                monitor.roll(at(number as f64 + 1.0));
                assert!(
                    (monitor.counts(true).theta() - theta).abs() < 5e-5,
                    "latched: {}",
                    monitor.counts(true).theta()
                );
            }
        }
    }

    #[test]
    fn windows_in_which_nothing_happens_count() {
        let mut recursive = Xjtcp::new(&Params { ewma: Ewma::Recursive, ..Params::default() }).monitor;
        recursive.roll(at(0.0));
        recursive.present = counts(0.0, 10.0);
        recursive.roll(at(2.5));
        // 8 after the first window, a fifth of it after the second.
        assert!((recursive.smoothed.channel - 1.6).abs() < 1e-12);
        assert_eq!(recursive.end, Some(at(3.0)));
        let mut printed = Xjtcp::new(&Params::default()).monitor;
        printed.roll(at(0.0));
        printed.present = counts(0.0, 10.0);
        printed.roll(at(1.5));
        assert!((printed.counts(false).theta() - 3.0).abs() < 1e-12, "a fifth of 10, and 1");
        printed.roll(at(9.0));
        assert_eq!(printed.counts(false).theta(), 1.0);
    }

    #[test]
    fn latched_theta_leaves_the_first_window_to_the_jitter() {
        let params = Params { theta: Theta::Latched, ..letter() };
        let mut queued = xjtcp(106.0, &params);
        queued.count_discards(100, at(0.0));
        assert_eq!(queued.on_loss(&loss(20.0), &WINDOW).taken_for, Some(LossKind::Congestion));
        let later = LossSample { now: at(1.2), ..loss(20.0) };
        assert_eq!(queued.on_loss(&later, &WINDOW).taken_for, Some(LossKind::Wireless));
    }

    #[test]
    fn discarded_frames_are_counted_where_they_are_asked_for() {
        let signals = [
            Signal::LinkRetry { seq: 1, end: 1001, attempts: 1 },
            Signal::LinkDrop { seq: 1, end: 1001, attempts: 2 },
            Signal::MacDiscard { count: 3 },
            Signal::Eln,
        ];
        for (discard_source, expected) in [
            (DiscardSource::Direction, 1.0),
            (DiscardSource::Attempts, 2.0),
            (DiscardSource::GivenUp, 1.0),
            (DiscardSource::Mac, 3.0),
            (DiscardSource::Receiver, 0.0),
            (DiscardSource::None, 0.0),
        ] {
            let mut xjtcp = Xjtcp::new(&Params { discard_source, ..Params::default() });
            for signal in &signals {
                xjtcp.on_signal(signal, at(0.0));
            }
            assert_eq!(xjtcp.monitor.present.channel, expected, "{discard_source:?}");
        }
    }

    #[test]
    fn the_receivers_count_is_cumulative_and_wraps() {
        for discard_source in [DiscardSource::Receiver, DiscardSource::Direction] {
            let mut xjtcp = Xjtcp::new(&Params { discard_source, ..Params::default() });
            assert!(xjtcp.needs().discards);
            xjtcp.discards = u32::MAX;
            for (echoed, sum) in [(u32::MAX, 0.0), (2, 3.0), (1, 3.0), (5, 6.0)] {
                let arrival = Arrival { discards: Some(echoed), ..plain_arrival() };
                xjtcp.on_arrival(&arrival, &mut WINDOW.clone());
                assert_eq!(xjtcp.monitor.present.channel, sum, "{discard_source:?}: {echoed}");
            }
        }
    }

    #[test]
    fn a_mark_is_congestion_whatever_theta_says() {
        let mut calm = xjtcp(104.0, &letter());
        calm.count_discards(100, at(0.0));
        assert_eq!(calm.on_ecn(&loss(20.0), &WINDOW), Reduction::to(10.0, 10.0));
        assert_eq!(calm.monitor.present, counts(1.0, 100.0));
    }
}
