//! Westwood+: Westwood with one bandwidth sample per round trip, which compressed ACKs do not mislead (Grieco &
//! Mascolo, CCR 34(2) 2004).
//!
//! *What it does.* It counts what ACKs deliver, duplicates included, over a round trip; the quotient enters a
//! low-pass filter. At a loss ssthresh becomes bandwidth times the minimum RTT and cwnd falls to it if it is larger;
//! the window grows like Reno's.
//! *Reacts to* loss and ECN, both with the bandwidth.
//! *Differs from the paper:* nothing known with `filter = "paper"`. `filter = "linux"` is the kernel's
//! cascade of two integer filters, in bytes per tick of its clock, with RTTs in whole ticks, and `"averaged"`
//! the filter of ns-3, which takes the mean of two samples; `start = "zero"` begins the filter with nothing
//! instead of the first sample. The `linux` profile turns on what the kernel does.
//! *Validation:* TV-4.5 and TV-4.6, worked by hand; the reductions with Westwood's TV-4.4.
//! *Limitations:* as in Linux, the window is set to the bandwidth-delay product in one step at the end of recovery; if
//! the buffer is much smaller, the burst that this releases overflows it (8 packets at 10 Mbit/s and 40 ms: 5.7
//! instead of 9.5 Mbit/s, with a timeout every four seconds). Under a sender without PRR `decrease = "after-recovery"`
//! acts on the first ACK after recovery that may grow the window. The first ACK only starts the clock. ns-2's module
//! is of a kernel before PRR (3.2), in which the window does not fall below the bandwidth-delay product during
//! recovery; later kernels halve it for that time, as the profile `linux` does. The data delivered in recovery is the
//! next bandwidth sample, so this matters: one flow over 10 Mbit/s and 40 ms with listed losses carries 0.79, 0.57 and
//! 0.37 of ns-2's goodput at 0.003, 0.01 and 0.03 (NewReno's recovery; 0.77, 0.56 and 0.48 with SACK), and with
//! `recovery_floor` and `counting = "paper"` over SACK 0.95, 0.95 and 0.81, where Reno's ratio over the same recovery
//! is 0.91, 0.87 and 0.86.
//! *Kernel counterpart:* `tcp_westwood`, which halves like Reno at a loss and sets ssthresh and cwnd when recovery is
//! complete.
//! *References:* Grieco & Mascolo, CCR 34(2) 2004; Grieco & Mascolo, QoS-IP 2003; Dell'Aera, Grieco & Mascolo, ICC
//! 2004.

use lasthop_core::time::{Span, Time};

use crate::bandwidth::{Counting, Meter, MeterStyle};
use crate::params::{choice, params};
use crate::{AckSample, Arrival, CongestionControl, GrowthStyle, LossSample, Needs, Reduction, Window};

pub(crate) const SUMMARY: &str = "Westwood with one bandwidth sample per RTT (Grieco & Mascolo 2004)";

choice! {
    /// How samples of the bandwidth are smoothed.
    Filter {
        /// A share `memory` of the old estimate, the rest from the sample.
        Paper = "paper",
        /// Two integer filters of 7/8 and 1/8 in a row, in bytes per tick.
        Linux = "linux",
        /// Like the paper's, with the mean of the last two samples.
        Averaged = "averaged",
    }
}

choice! {
    /// What the filter begins with.
    Start {
        /// The first sample.
        Sample = "sample",
        /// Nothing.
        Zero = "zero",
    }
}

choice! {
    /// The round trip over which one sample is taken.
    Round {
        /// The smoothed RTT.
        Smoothed = "srtt",
        /// The last RTT sample.
        Last = "last",
    }
}

choice! {
    /// When the window falls to what the path holds.
    Decrease {
        /// At the loss.
        AtLoss = "at-loss",
        /// Half at the loss, and both windows to what the path holds when recovery is over.
        AfterRecovery = "after-recovery",
    }
}

params! {
    /// Filter of the samples: that of the paper, that of Linux, or with the mean of two samples as in ns-3
    filter: Filter = Filter::Paper, 0.0..=2.0;
    /// Share of the old estimate in the new one
    memory: f64 = 0.9, 0.0..=0.999;
    /// The filter begins with the first sample, or with zero
    start: Start = Start::Sample, 0.0..=1.0;
    /// A sample spans the smoothed RTT, or the last one
    round: Round = Round::Smoothed, 0.0..=1.0;
    /// With `filter = "linux"`: its clock has ticks of this length (s) (1 / HZ: 250 on Debian)
    tick: f64 = 0.004, 0.001..=0.01;
    /// A sample spans at least this (s) (Linux: 0.05)
    round_floor: f64 = 0.0, 0.0..=10.0;
    /// When the window is reduced: at the loss or, as in Linux, at the end of recovery
    decrease: Decrease = Decrease::AtLoss, 0.0..=1.0;
    /// With `after-recovery`, recovery keeps at least what the path holds, as Linux did before PRR
    recovery_floor: bool = false, 0.0..=1.0;
    /// Forget the minimum RTT at a timeout, as Linux does
    forget_rtt: bool = false, 0.0..=1.0;
    /// Segments that an ACK stands for after duplicates: as corrected, or as published
    counting: Counting = Counting::Fixed, 0.0..=1.0;
    /// Count segments instead of ACKs in congestion avoidance (RFC 3465)
    byte_counting: bool = false, 0.0..=1.0;
    /// Maximum number of segments that one ACK adds in slow start (RFC 5681: 1; RFC 3465: 2)
    slow_start_limit: f64 = crate::SLOW_START_LIMIT, 1.0..=1e9;
}

/// No sample spans less, whatever the RTT: there must be something to divide by.
const LEAST_ROUND: Span = Span::from_nanos(10_000);

/// State of Westwood+.
#[derive(Clone, Debug)]
pub struct WestwoodPlus {
    params: Params,
    meter: Meter,
    /// Estimated bandwidth in bits per second, if there has been a sample.
    bandwidth: Option<f64>,
    /// The sample before, for the mean of two.
    last_sample: f64,
    linux: Linux,
    /// When this round began and the segments it has delivered so far.
    round: Option<(Time, f64)>,
    last_rtt: Option<Span>,
    /// The next RTT replaces the least.
    forget: bool,
    /// The window is to be set when recovery is over.
    pending: bool,
    /// It is over; the ACK that has ended it is yet to tell its RTT.
    ended: bool,
}

impl WestwoodPlus {
    pub(crate) fn new(params: &Params) -> Self {
        let bandwidth = (params.start == Start::Zero).then_some(0.0);
        WestwoodPlus {
            params: params.clone(),
            meter: Meter::new(),
            bandwidth,
            last_sample: 0.0,
            linux: Linux::new(params),
            round: None,
            last_rtt: None,
            forget: false,
            pending: false,
            ended: false,
        }
    }

    /// `segments` were delivered in `span`.
    fn learn(&mut self, segments: f64, span: Span) {
        let memory = self.params.memory;
        let sample = segments * self.meter.segment_bits() / span.seconds();
        self.bandwidth = Some(match (self.params.filter, self.bandwidth) {
            (_, None) => sample,
            (Filter::Linux | Filter::Paper, Some(known)) => memory * known + (1.0 - memory) * sample,
            (Filter::Averaged, Some(known)) => {
                memory * known + (1.0 - memory) * (sample + self.last_sample) / 2.0
            }
        });
        self.last_sample = sample;
    }

    fn estimate(&self) -> f64 {
        self.bandwidth.unwrap_or(0.0)
    }

    /// The segments that the path holds without a queue.
    fn pipe(&mut self) -> f64 {
        self.linux.settle();
        if self.params.filter == Filter::Linux { self.linux.pipe() } else { self.meter.pipe(self.estimate()) }
    }
}

/// The state of the kernel's Westwood+ (`tcp_westwood.c`), in bytes and ticks of its clock.
#[derive(Clone, Debug)]
struct Linux {
    tick: u64,
    /// A sample spans more than this.
    floor: u64,
    /// The first filter, and the estimate.
    filters: (u64, u64),
    /// What ACKs have delivered since `began`.
    bytes: u64,
    began: Option<u64>,
    /// The last RTT, rounded up, and the least; the next one replaces the least if `forgets`.
    rtt: u64,
    least: u64,
    forgets: bool,
    mss: u64,
    /// An ACK that the law has not looked at: it wants the RTT of the same ACK first.
    held: Option<(f64, Time, u32)>,
}

impl Linux {
    fn new(params: &Params) -> Linux {
        let tick = Span::from_seconds(params.tick).0.max(1);
        // TCP_WESTWOOD_INIT_RTT
        let rtt = 20_000_000_000 / tick;
        Linux {
            tick,
            floor: Span::from_seconds(params.round_floor).0 / tick,
            filters: (0, 0),
            bytes: 0,
            began: None,
            rtt,
            least: rtt,
            forgets: false,
            mss: 1,
            held: None,
        }
    }

    /// An ACK that delivers this many segments comes. Its RTT is learnt before the law looks at it: the kernel calls
    /// `tcp_westwood_ack` when it has cleaned its queue (6.1.192, 6.16 and later; before it did so first).
    fn hold(&mut self, segments: f64, now: Time, mss: u32) {
        self.settle();
        self.held = Some((segments, now, mss));
    }

    /// What was told of the last ACK is all that there is.
    fn settle(&mut self) {
        if let Some((segments, now, mss)) = self.held.take() {
            self.arrive(segments, now, mss);
        }
    }

    /// An ACK that delivers this many segments (`tcp_westwood_ack`). What it delivers belongs to the next
    /// sample if it ends one.
    fn arrive(&mut self, segments: f64, now: Time, mss: u32) {
        let now = now.0 / self.tick;
        let is_first = self.began.is_none();
        let span = now - *self.began.get_or_insert(now);
        if span > self.rtt.max(self.floor) {
            let rate = self.bytes / span;
            let (first, second) = self.filters;
            self.filters = if self.filters == (0, 0) {
                (rate, rate)
            } else {
                let first = (7 * first + rate) >> 3;
                (first, (7 * second + first) >> 3)
            };
            (self.bytes, self.began) = (0, Some(now));
        }
        self.mss = u64::from(mss.max(1));
        if !is_first {
            self.bytes += segments as u64 * self.mss;
        }
        self.least = if std::mem::take(&mut self.forgets) { self.rtt } else { self.least.min(self.rtt) };
    }

    fn learn(&mut self, rtt: Option<Span>) {
        if let Some(rtt) = rtt.filter(|&rtt| rtt > Span::ZERO) {
            self.rtt = rtt.0.div_ceil(self.tick);
        }
    }

    fn pipe(&self) -> f64 {
        (self.filters.1 * self.least / self.mss).max(2) as f64
    }
}

impl CongestionControl for WestwoodPlus {
    fn needs(&self) -> Needs {
        Needs { arrivals: true, ..Needs::default() }
    }

    fn on_arrival(&mut self, arrival: &Arrival, _window: &mut Window) {
        let style = MeterStyle { counting: self.params.counting, count_limit: f64::INFINITY, defer: 0.0 };
        let counted = self.meter.segments(arrival, style);
        if self.params.filter == Filter::Linux {
            // The kernel tells the law nothing of old ACKs.
            if arrival.ack >= arrival.una {
                self.linux.hold(counted, arrival.now, arrival.mss);
            }
            return;
        }
        let Some((began, delivered)) = &mut self.round else {
            self.round = Some((arrival.now, 0.0));
            return;
        };
        *delivered += counted;
        let rtt = match self.params.round {
            Round::Smoothed => arrival.srtt,
            Round::Last => self.last_rtt.unwrap_or(arrival.srtt),
        };
        let span = arrival.now.since(*began);
        let least = rtt.max(Span::from_seconds(self.params.round_floor)).max(LEAST_ROUND);
        if rtt == Span::ZERO || span < least {
            return;
        }
        let delivered = *delivered;
        self.round = Some((arrival.now, 0.0));
        self.learn(delivered, span);
    }

    /// As any RTT.
    fn on_sacked(&mut self, sample: &AckSample, window: &mut Window) {
        self.on_ack(sample, window);
    }

    fn on_ack(&mut self, ack: &AckSample, window: &mut Window) {
        if ack.rtt.is_some() {
            self.last_rtt = ack.rtt;
            if std::mem::take(&mut self.forget) {
                self.meter.rtt_min = f64::INFINITY;
            }
        }
        self.meter.learn_rtt(ack.rtt);
        self.linux.learn(ack.rtt);
        self.linux.settle();
        let is_over = std::mem::take(&mut self.ended) || ack.may_grow;
        if is_over && std::mem::take(&mut self.pending) {
            let pipe = self.pipe();
            *window = Window { cwnd: pipe, ssthresh: pipe };
        }
        if !ack.may_grow {
            return;
        }
        let Params { byte_counting, slow_start_limit, .. } = self.params;
        window.grow(ack.acked, 1.0, GrowthStyle { byte_counting, slow_start_limit });
    }

    fn on_loss(&mut self, _loss: &LossSample, window: &Window) -> Reduction {
        if self.params.decrease == Decrease::AfterRecovery {
            self.pending = true;
            let half = window.cwnd / 2.0;
            let floor = if self.params.recovery_floor { self.pipe() } else { 0.0 };
            let kept = window.cwnd.min(floor).max(half);
            return Reduction::to(kept, kept);
        }
        let pipe = self.pipe();
        Reduction::to(pipe, pipe.min(window.cwnd))
    }

    fn on_timeout(&mut self, _loss: &LossSample, _window: &Window) -> Reduction {
        self.forget = self.params.forget_rtt;
        self.linux.forgets = self.params.forget_rtt;
        self.pending = false;
        Reduction::to(self.pipe(), 1.0)
    }

    /// `CA_EVENT_COMPLETE_CWR`.
    fn on_reduced(&mut self) {
        self.ended = self.pending;
    }

    /// The kernel gives back the window alone.
    fn on_undo(&mut self, before: Self) {
        if self.params.filter == Filter::Linux {
            self.pending = false;
        } else {
            *self = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack, arrival, close, loss};

    fn of(params: &Params) -> WestwoodPlus {
        let mut law = WestwoodPlus::new(params);
        // The segment size comes with the first ACK.
        law.on_arrival(&arrival(0.0, 10, 11), &mut Window { cwnd: 10.0, ssthresh: 64.0 });
        law
    }

    /// TV-4.5: samples of 1, 2, 2, 2 Mbit/s, which are 12.5 and 25 segments of 1000 B per 100 ms.
    #[test]
    fn filter_of_the_paper() {
        for (start, expected) in [
            (Start::Sample, [1.0e6, 1.1e6, 1.19e6, 1.271e6]),
            (Start::Zero, [0.1e6, 0.29e6, 0.461e6, 0.6149e6]),
        ] {
            let mut law = of(&Params { start, ..Params::default() });
            for (segments, expected) in [12.5, 25.0, 25.0, 25.0].into_iter().zip(expected) {
                law.learn(segments, Span::from_millis(100));
                close(law.estimate(), expected, 6);
            }
        }
    }

    /// TV-4.6, by hand from `tcp_westwood.c` with ticks of 4 ms: 12 and then three times 25 segments of
    /// 1000 B within 25 ticks, that is 480 and 1000 B per tick. An RTT of 41 ms is 11 ticks; the ACK that ends
    /// a sample belongs to the next.
    #[test]
    fn filter_of_linux() {
        let params = Params { filter: Filter::Linux, round_floor: 0.05, ..Params::default() };
        let mut linux = Linux::new(&params);
        linux.learn(Some(Span::from_millis(41)));
        assert_eq!((linux.rtt, linux.floor), (11, 12));
        let expected = [(480, 480), (545, 488), (601, 502), (650, 520)];
        let mut at = 0;
        linux.arrive(1.0, Time(0), 1000);
        linux.arrive(12.0, Time(0), 1000);
        for (segments, expected) in [25.0, 25.0, 25.0, 1.0].into_iter().zip(expected) {
            at += 100_000_000;
            linux.arrive(segments, Time(at), 1000);
            assert_eq!(linux.filters, expected);
        }
        // 520 x 11 / 1000
        assert_eq!(linux.pipe(), 5.0);
        linux.arrive(1.0, Time(at + 48_000_000), 1000);
        assert_eq!(linux.filters, (650, 520), "12 ticks are not more than 12");
    }

    /// By hand from `tcp_westwood.c`: an ACK after 16 ticks with an RTT of 20 ends no sample, though the one before had
    /// an RTT of 11; and the ACK that ends a recovery sets both windows, whether or not it may grow them.
    #[test]
    fn linux_looks_with_the_rtt_of_the_same_ack() {
        let (filter, decrease) = (Filter::Linux, Decrease::AfterRecovery);
        let mut law = of(&Params { filter, decrease, round_floor: 0.05, ..Params::default() });
        let mut window = Window { cwnd: 10.0, ssthresh: 64.0 };
        let mut answer = |law: &mut WestwoodPlus, seconds: f64, una, rtt_ms| {
            law.on_arrival(&arrival(seconds, una, una + 10), &mut window);
            let sample = AckSample { rtt: Some(Span::from_millis(rtt_ms)), may_grow: false, ..ack(10) };
            law.on_ack(&sample, &mut window);
            window
        };
        answer(&mut law, 0.02, 11, 44);
        answer(&mut law, 0.064, 21, 80);
        assert_eq!((law.linux.filters, law.linux.bytes), ((0, 0), 20_000));
        answer(&mut law, 0.088, 31, 44);
        assert_eq!(law.linux.filters, (909, 909), "20 000 B in 22 ticks");
        law.on_loss(&loss(10.0), &Window { cwnd: 10.0, ssthresh: 64.0 });
        assert_eq!(answer(&mut law, 0.09, 41, 44).cwnd, 10.0, "still repairing");
        law.on_reduced();
        let pipe = Window { cwnd: 9.0, ssthresh: 9.0 };
        assert_eq!(answer(&mut law, 0.1, 51, 44), pipe, "909 x 11 / 1000");
    }

    /// A timeout makes the RTT before it the least.
    #[test]
    fn linux_forgets_the_least_rtt() {
        let mut linux = Linux::new(&Params::default());
        for (rtt_ms, least) in [(40, 10), (48, 10), (90, 10)] {
            linux.learn(Some(Span::from_millis(rtt_ms)));
            linux.arrive(1.0, Time(0), 1000);
            assert_eq!(linux.least, least);
        }
        linux.forgets = true;
        linux.arrive(1.0, Time(0), 1000);
        assert_eq!(linux.least, 23);
    }

    /// The mean of 1 and 2 Mbit/s enters with a weight of a tenth.
    #[test]
    fn filter_of_means() {
        let mut law = of(&Params { filter: Filter::Averaged, ..Params::default() });
        law.learn(12.5, Span::from_millis(100));
        law.learn(25.0, Span::from_millis(100));
        close(law.estimate(), 1.05e6, 6);
    }

    /// One sample per smoothed RTT (100 ms), of everything delivered in it.
    #[test]
    fn one_sample_per_round_trip() {
        let mut law = of(&Params::default());
        let mut window = Window { cwnd: 10.0, ssthresh: 64.0 };
        law.on_arrival(&arrival(0.02, 11, 13), &mut window);
        law.on_arrival(&arrival(0.04, 13, 13), &mut window);
        assert_eq!(law.bandwidth, None);
        law.on_arrival(&arrival(0.1, 13, 15), &mut window);
        // Two, one duplicate, and of the last two one that the duplicate reported: four segments in 100 ms.
        close(law.estimate(), 320_000.0, 6);
        law.on_arrival(&arrival(0.15, 15, 19), &mut window);
        close(law.estimate(), 320_000.0, 6);
    }

    /// TV-4.4 with this law's own estimate.
    #[test]
    fn a_loss_leaves_bandwidth_times_rtt() {
        let mut law = of(&Params::default());
        law.bandwidth = Some(1.6e6);
        law.meter.rtt_min = 0.1;
        for (cwnd, kept) in [(30.0, 20.0), (12.0, 12.0)] {
            let window = Window { cwnd, ssthresh: 64.0 };
            assert_eq!(law.on_loss(&loss(cwnd), &window), Reduction::to(20.0, kept));
            assert_eq!(law.on_ecn(&loss(cwnd), &window), Reduction::to(20.0, kept));
            assert_eq!(law.on_timeout(&loss(cwnd), &window), Reduction::to(20.0, 1.0));
        }
    }

    /// Before PRR the window falls to the pipe at most while Linux recovers, and never rises.
    #[test]
    fn recovery_with_a_floor() {
        let params = Params { decrease: Decrease::AfterRecovery, recovery_floor: true, ..Params::default() };
        let mut law = of(&params);
        law.bandwidth = Some(1.6e6);
        law.meter.rtt_min = 0.1;
        for (cwnd, kept) in [(30.0, 20.0), (18.0, 18.0), (50.0, 25.0)] {
            let window = Window { cwnd, ssthresh: 64.0 };
            assert_eq!(law.on_loss(&loss(cwnd), &window), Reduction::to(kept, kept));
        }
    }

    /// Linux halves at the loss and sets both windows after recovery; a timeout makes the next RTT the least.
    #[test]
    fn habits_of_linux() {
        let params = Params { decrease: Decrease::AfterRecovery, forget_rtt: true, ..Params::default() };
        let mut law = of(&params);
        law.bandwidth = Some(1.6e6);
        law.meter.rtt_min = 0.1;
        let mut window = Window { cwnd: 30.0, ssthresh: 64.0 };
        assert_eq!(law.on_loss(&loss(30.0), &window), Reduction::to(15.0, 15.0));
        window = Window { cwnd: 15.0, ssthresh: 15.0 };
        law.on_ack(&AckSample { may_grow: false, ..ack(1) }, &mut window);
        assert_eq!(window.cwnd, 15.0);
        law.on_ack(&ack(1), &mut window);
        assert_eq!(window, Window { cwnd: 20.05, ssthresh: 20.0 });
        law.on_timeout(&loss(20.0), &window);
        law.on_ack(&AckSample { rtt: Some(Span::from_millis(300)), ..ack(1) }, &mut window);
        assert_eq!(law.meter.rtt_min, 0.3);
    }
}
