//! The jitter ratio of a path, by which JTCP and XJTCP tell losses apart (Wu & Chen, JSAC 22(4), 2004).
//!
//! Both controllers feed it the send and receive times that ACKs echo and ask it at a loss. It keeps a bounded ring of
//! them and never allocates after it was made.

use lasthop_core::time::{Span, Time};

use crate::{LossKind, ReceiveTime};

/// Times that are kept.
const SAMPLES: usize = 256;
/// They are kept no closer than this share of the span of a pair, so that two spans always fit in the ring.
const PER_SPAN: u64 = 100;

/// How the ratio is taken and judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JitterConfig {
    /// The threshold is this over the window.
    pub(crate) k: f64,
    /// Smoothed RTTs between the two segments of a pair.
    pub(crate) span: f64,
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
            srtt: Span::ZERO,
        }
    }

    /// What the clock shows at `time`.
    fn read(&self, time: Time) -> Time {
        let tick = Span::from_seconds(self.config.clock).0;
        time.0.checked_div(tick).map_or(time, |ticks| Time(ticks * tick))
    }

    /// An ACK echoed these times.
    pub(crate) fn note(&mut self, times: ReceiveTime, srtt: Span) {
        let times = ReceiveTime { sent: self.read(times.sent), received: self.read(times.received) };
        // What is not newer has been echoed before, or was overtaken on the way.
        if self.latest.is_some_and(|last| times.sent <= last.sent || times.received < last.received) {
            return;
        }
        self.latest = Some(times);
        self.srtt = srtt;
        let spacing = self.span().0 / PER_SPAN;
        if self.stored == 0 || times.sent.since(self.ring[self.newest].sent).0 >= spacing {
            self.newest = (self.newest + 1) % SAMPLES;
            self.ring[self.newest] = times;
            self.stored = (self.stored + 1).min(SAMPLES);
        }
    }

    /// Time between the sending of the two segments of a pair: about one window.
    fn span(&self) -> Span {
        Span::from_seconds(self.srtt.seconds() * self.config.span)
    }

    /// `Jr` of the newest segment j and the newest i that was sent at least one span before it; infinite, which means
    /// congestion, when there is no such pair within two spans.
    pub(crate) fn ratio(&self) -> f64 {
        let Some(last) = self.latest else { return f64::INFINITY };
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

    /// What a loss at a window of `cwnd` segments is taken for: equality is no congestion (equation 3).
    pub(crate) fn judge(&self, cwnd: f64) -> LossKind {
        if self.ratio() <= self.config.k / cwnd { LossKind::Wireless } else { LossKind::Congestion }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// Eleven segments sent over 100 ms, one RTT, and received over `received_ms`.
    pub(crate) fn echoes(received_ms: f64) -> impl Iterator<Item = ReceiveTime> {
        (0..=10).map(move |number| {
            let at = |milliseconds: f64| Time::ZERO + Span::from_seconds(milliseconds / 1000.0);
            let number = f64::from(number);
            ReceiveTime { sent: at(10.0 * number), received: at(50.0 + received_ms / 10.0 * number) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::testing::echoes;
    use super::*;

    const RTT: Span = Span::from_millis(100);
    const CONFIG: JitterConfig = JitterConfig { k: 1.0, span: 1.0, clock: 0.0 };

    fn after(echoes: impl Iterator<Item = ReceiveTime>, config: JitterConfig) -> JitterRatio {
        let mut jitter = JitterRatio::new(config);
        echoes.for_each(|times| jitter.note(times, RTT));
        jitter
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
        let jitter = after(echoes(100.0).chain([far]), CONFIG);
        assert_eq!(jitter.ratio(), f64::INFINITY, "201 ms are more than two");
        let once = after(echoes(0.0), CONFIG);
        assert_eq!(once.ratio(), f64::INFINITY, "received all at once");
    }

    #[test]
    fn repeated_and_overtaken_echoes_are_passed_over() {
        let mut jitter = after(echoes(104.0), CONFIG);
        let ratio = jitter.ratio();
        echoes(300.0).for_each(|times| jitter.note(times, RTT));
        assert_eq!(jitter.ratio(), ratio);
    }

    #[test]
    fn a_large_window_does_not_outgrow_the_ring() {
        let mut jitter = JitterRatio::new(CONFIG);
        for number in 0..100_000u64 {
            let sent = Time(number * 20_000);
            jitter.note(ReceiveTime { sent, received: Time(50_000_000 + sent.0 / 100 * 125) }, RTT);
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
