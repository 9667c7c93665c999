//! The jitter ratio of a path, by which JTCP and XJTCP tell losses apart (Wu & Chen, JSAC 22(4), 2004).
//!
//! Both controllers feed it the send and receive times that ACKs echo and ask it at a loss. It keeps a bounded ring
//! of them and never allocates after it was made.
//!
//! Which pair of segments judges a drop is no detail. A segment that a full queue drops takes no time at the
//! bottleneck, so what was received behind the hole is one service time early: over a pair that ends there, the
//! growth of the queue by one segment, which is what a single overflow shows, cancels. And the queue grows in steps,
//! one whenever the window has grown by one: the last of them lies one window before the drop, just outside a pair
//! that spans no more than that. Where every second segment is acknowledged it lies two windows before, and every
//! step moves the ACKs from one segment of each pair to the other, whose time differs by just as much: only over two
//! steps, four windows, it evens out.

use lasthop_core::time::{Span, Time};

use crate::params::choice;
use crate::{Arrival, LossKind, ReceiveTime};

choice! {
    /// Where the pair ends whose times are compared at a loss.
    Pair {
        /// With the last segment that was acknowledged before the duplicate ACKs began.
        BeforeLoss = "before-loss",
        /// With the newest segment whose times are known, though it was received behind the hole.
        Latest = "latest",
    }
}

/// Times that are kept.
const SAMPLES: usize = 256;
/// They are kept no closer than this share of the span of a pair, so that two spans always fit in the ring.
const PER_SPAN: u64 = 100;

/// How the ratio is taken and judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JitterConfig {
    /// The threshold is this over the segments that the pair spans.
    pub(crate) k: f64,
    /// Smoothed RTTs between the two segments of a pair.
    pub(crate) span: f64,
    /// Where the pair ends.
    pub(crate) pair: Pair,
    /// Tick to which both clocks are read, in seconds.
    pub(crate) clock: f64,
}

/// The times of recent segments.
#[derive(Clone, Debug)]
pub(crate) struct JitterRatio {
    config: JitterConfig,
    /// Ring, in the order of sending; `newest` is the index of the last one stored.
    ring: Box<[ReceiveTime; SAMPLES]>,
    newest: usize,
    stored: usize,
    latest: Option<ReceiveTime>,
    /// The newest whose ACK moved `una`.
    in_order: Option<ReceiveTime>,
    srtt: Span,
}

impl JitterRatio {
    pub(crate) fn new(config: JitterConfig) -> JitterRatio {
        let none = ReceiveTime { sent: Time::ZERO, received: Time::ZERO };
        JitterRatio {
            config,
            ring: Box::new([none; SAMPLES]),
            newest: 0,
            stored: 0,
            latest: None,
            in_order: None,
            srtt: Span::ZERO,
        }
    }

    /// What the clock shows at `time`.
    fn read(&self, time: Time) -> Time {
        let tick = Span::from_seconds(self.config.clock).0;
        time.0.checked_div(tick).map_or(time, |ticks| Time(ticks * tick))
    }

    /// An ACK has arrived, and may echo times.
    pub(crate) fn note(&mut self, arrival: &Arrival) {
        let Some(times) = arrival.times else { return };
        let times = ReceiveTime { sent: self.read(times.sent), received: self.read(times.received) };
        // What is not newer has been echoed before, or was overtaken on the way.
        if self.latest.is_some_and(|last| times.sent <= last.sent || times.received < last.received) {
            return;
        }
        self.latest = Some(times);
        if arrival.ack > arrival.una {
            self.in_order = Some(times);
        }
        self.srtt = arrival.srtt;
        let spacing = self.span().0 / PER_SPAN;
        if self.stored == 0 || times.sent.since(self.ring[self.newest].sent).0 >= spacing {
            self.newest = (self.newest + 1) % SAMPLES;
            self.ring[self.newest] = times;
            self.stored = (self.stored + 1).min(SAMPLES);
        }
    }

    /// Time between the sending of the two segments of a pair.
    fn span(&self) -> Span {
        Span::from_seconds(self.srtt.seconds() * self.config.span)
    }

    /// `Jr` of the segment j that ends the pair and the newest i that was sent at least one span before it; infinite,
    /// which means congestion, when there is no such pair within two spans.
    pub(crate) fn ratio(&self) -> f64 {
        let last = match self.config.pair {
            Pair::BeforeLoss => self.in_order,
            Pair::Latest => self.latest,
        };
        let Some(last) = last else { return f64::INFINITY };
        let span = self.span();
        if span == Span::ZERO {
            return f64::INFINITY;
        }
        for back in 0..self.stored {
            let first = self.ring[(self.newest + SAMPLES - back) % SAMPLES];
            let sent = last.sent.since(first.sent);
            if sent > span * 2 {
                break;
            }
            let received = last.received.since(first.received);
            if sent >= span && received > Span::ZERO {
                // Equation 1 of Andreadis et al., EURASIP JWCN 2016:191.
                return 1.0 - sent.seconds() / received.seconds();
            }
        }
        f64::INFINITY
    }

    /// What a loss at a window of `cwnd` segments is taken for: equality is no congestion. The threshold of equation
    /// 3, 1 / cwnd, is one segment in the queue of those that a pair of one window spans.
    pub(crate) fn judge(&self, cwnd: f64) -> LossKind {
        let segments = cwnd * self.config.span;
        if self.ratio() <= self.config.k / segments { LossKind::Wireless } else { LossKind::Congestion }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use crate::testing::plain_arrival;

    /// An ACK of new data that echoes these times, on a path of 100 ms.
    pub(crate) fn echo(times: ReceiveTime) -> Arrival {
        Arrival { times: Some(times), srtt: Span::from_millis(100), ack: 1001, una: 1, ..plain_arrival() }
    }

    /// ACKs of eleven segments sent over 100 ms, one RTT, and received over `received_ms`.
    pub(crate) fn echoes(received_ms: f64) -> impl Iterator<Item = Arrival> {
        (0..=10).map(move |number| {
            let at = |milliseconds: f64| Time::ZERO + Span::from_seconds(milliseconds / 1000.0);
            let number = f64::from(number);
            echo(ReceiveTime { sent: at(10.0 * number), received: at(50.0 + received_ms / 10.0 * number) })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{echo, echoes};
    use super::*;

    const RTT: Span = Span::from_millis(100);
    const CONFIG: JitterConfig = JitterConfig { k: 1.0, span: 1.0, clock: 0.0, pair: Pair::BeforeLoss };

    fn after(echoes: impl Iterator<Item = Arrival>, config: JitterConfig) -> JitterRatio {
        let mut jitter = JitterRatio::new(config);
        echoes.for_each(|arrival| jitter.note(&arrival));
        jitter
    }

    /// A bottleneck of 10 ms a segment and a window of ten that has grown to eleven: from the fifth segment on they
    /// wait one service time longer. The twelfth overflows the queue; what follows, three duplicates, is received as
    /// if the queue had not grown.
    fn overflow() -> impl Iterator<Item = Arrival> {
        (0..15u64).filter(|&number| number != 11).map(|number| {
            let waits = if (5..12).contains(&number) { 10 } else { 0 };
            let sent = Time::ZERO + Span::from_millis(10 * number);
            let arrival = echo(ReceiveTime { sent, received: sent + Span::from_millis(50 + waits) });
            if number > 11 { Arrival { ack: arrival.una, ..arrival } } else { arrival }
        })
    }

    /// The segments behind the hole hide the overflow.
    #[test]
    fn a_pair_that_ends_before_the_drop_sees_the_queue_grow() {
        let verdict =
            |pair, span| after(overflow(), JitterConfig { pair, k: 0.9, span, ..CONFIG }).judge(10.0);
        assert_eq!(verdict(Pair::BeforeLoss, 1.0), LossKind::Congestion);
        assert_eq!(verdict(Pair::Latest, 1.0), LossKind::Wireless);
        // Fifty milliseconds reach back to the sixth segment: the step lies outside.
        assert_eq!(verdict(Pair::BeforeLoss, 0.5), LossKind::Wireless);
    }

    /// TV-6.1: W = 20, the segments of a pair sent 100 ms apart.
    #[test]
    fn the_ratio_is_held_against_one_over_the_window() {
        for (received, ratio, kind) in [
            (104.0, 0.038_461_5, LossKind::Wireless),
            (105.3, 0.050_332_4, LossKind::Congestion),
            (106.0, 0.056_603_8, LossKind::Congestion),
            (98.0, -0.020_408_2, LossKind::Wireless),
        ] {
            let jitter = after(echoes(received), CONFIG);
            assert!((jitter.ratio() - ratio).abs() < 5e-8, "{received}: {}", jitter.ratio());
            assert_eq!(jitter.judge(20.0), kind, "{received}");
        }
        let jitter = after(echoes(106.0), JitterConfig { k: 2.0, ..CONFIG });
        assert_eq!(jitter.judge(20.0), LossKind::Wireless, "Th = 0.1");
    }

    #[test]
    fn without_a_pair_it_is_congestion() {
        assert_eq!(after(std::iter::empty(), CONFIG).ratio(), f64::INFINITY);
        assert_eq!(after(echoes(100.0).take(10), CONFIG).ratio(), f64::INFINITY, "90 ms are no window");
        let far = ReceiveTime {
            sent: Time::ZERO + Span::from_millis(301),
            received: Time::ZERO + Span::from_millis(400),
        };
        let jitter = after(echoes(100.0).chain([echo(far)]), CONFIG);
        assert_eq!(jitter.ratio(), f64::INFINITY, "201 ms are more than two");
        let once = after(echoes(0.0), CONFIG);
        assert_eq!(once.ratio(), f64::INFINITY, "received all at once");
    }

    #[test]
    fn repeated_and_overtaken_echoes_are_passed_over() {
        let mut jitter = after(echoes(104.0), CONFIG);
        let ratio = jitter.ratio();
        echoes(300.0).for_each(|arrival| jitter.note(&arrival));
        assert_eq!(jitter.ratio(), ratio);
    }

    #[test]
    fn a_large_window_does_not_outgrow_the_ring() {
        let mut jitter = JitterRatio::new(CONFIG);
        for number in 0..100_000u64 {
            let sent = Time(number * 20_000);
            jitter.note(&echo(ReceiveTime { sent, received: Time(50_000_000 + sent.0 / 100 * 125) }));
        }
        assert!((jitter.ratio() - 0.2).abs() < 1e-3, "{}", jitter.ratio());
        let oldest = jitter.ring[(jitter.newest + 1) % SAMPLES];
        let span = Time(99_999 * 20_000).since(oldest.sent);
        assert!(span >= RTT * 2, "{span}: two spans are kept");
    }

    #[test]
    fn a_coarse_clock_rounds_down() {
        let jitter = after(echoes(105.3), JitterConfig { clock: 0.001, ..CONFIG });
        assert!((jitter.ratio() - (1.0 - 100.0 / 105.0)).abs() < 1e-12, "{}", jitter.ratio());
    }
}
