//! What the laws of the Linux kernel share: whole segments, whole microseconds, and the states of its sender.
//!
//! The profile `linux` uses it. `tcp_cong.c` and `tcp_input.c` of Linux 6.1 are what it follows.

use lasthop_core::time::Span;

use crate::{AckSample, Window};

/// A minimum RTT before the first sample.
pub(crate) const NO_RTT: u64 = 0x7fff_ffff;

/// An RTT as the kernel's delay-based laws have it: whole microseconds, and one more, so that it is never zero.
pub(crate) fn micros(rtt: Span) -> u64 {
    rtt.0 / 1000 + 1
}

/// Half of a window (`tcp_reno_ssthresh`).
pub(crate) fn half(cwnd: f64) -> f64 {
    (cwnd / 2.0).floor().max(2.0)
}

/// Three quarters of a window, a half and a quarter in whole segments each (`tcp_current_ssthresh`).
pub(crate) fn three_quarters(cwnd: f64) -> f64 {
    (cwnd / 2.0).floor() + (cwnd / 4.0).floor()
}

/// RTTs as the delay-based laws keep them, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtts {
    /// The least of the connection.
    pub base: u64,
    /// The least since the law looked last.
    pub least: u64,
    /// How many there were.
    pub samples: u32,
}

impl Rtts {
    pub(crate) fn new() -> Rtts {
        Rtts { base: NO_RTT, least: NO_RTT, samples: 0 }
    }

    pub(crate) fn learn(&mut self, rtt: Option<Span>) {
        let Some(rtt) = rtt.map(micros) else { return };
        self.base = self.base.min(rtt);
        self.least = self.least.min(rtt);
        self.samples = self.samples.saturating_add(1);
    }
}

/// Congestion avoidance by counting acknowledged segments up to the next one of the window (`snd_cwnd_cnt`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Credit(pub f64);

impl Credit {
    /// A segment for every `per` segments acknowledged (`tcp_cong_avoid_ai`).
    pub(crate) fn avoid(&mut self, window: &mut Window, per: f64, acked: f64) {
        // What was saved up for a slower growth counts for one segment.
        if self.0 >= per {
            self.0 = 0.0;
            window.cwnd += 1.0;
        }
        self.0 += acked;
        let steps = (self.0 / per).floor();
        self.0 -= steps * per;
        window.cwnd += steps;
    }

    /// Slow start, and of what it leaves congestion avoidance (`tcp_reno_cong_avoid`).
    pub(crate) fn reno(&mut self, window: &mut Window, acked: u32) {
        let left = window.slow_start(f64::from(acked), f64::INFINITY);
        if left > 0.0 {
            let per = window.cwnd.floor();
            self.avoid(window, per, left);
        }
    }
}

/// Whether the kernel's sender is in its state Open: nothing is reported out of order, repaired or answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open(bool);

impl Open {
    pub(crate) fn new() -> Open {
        Open(true)
    }

    /// A segment was reported out of order, or there was a loss, a mark or a timeout.
    pub(crate) fn leave(&mut self) {
        self.0 = false;
    }

    /// An ACK of new data: whether the sender is back in that state with it, and whether it is in it at all. An ACK
    /// that may not grow the window does not end what the sender left it for, nor does one behind which a hole is left.
    pub(crate) fn enter(&mut self, ack: &AckSample) -> (bool, bool) {
        let before = self.0;
        self.0 = (before || ack.may_grow) && !ack.disordered;
        (self.0 && !before, self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ack;

    /// 40 ms and half a microsecond; a credit of 12 that was for 20 is worth one segment of a window of 10.
    #[test]
    fn whole_numbers() {
        assert_eq!(micros(Span::from_nanos(40_000_500)), 40_001);
        assert_eq!((half(11.0), half(3.0)), (5.0, 2.0));
        let mut window = Window { cwnd: 10.0, ssthresh: 5.0 };
        let mut credit = Credit(12.0);
        credit.avoid(&mut window, 10.0, 2.0);
        assert_eq!((window.cwnd, credit.0), (11.0, 2.0));
        credit.avoid(&mut window, 10.0, 19.0);
        assert_eq!((window.cwnd, credit.0), (13.0, 1.0));
        let mut window = Window { cwnd: 8.0, ssthresh: 10.0 };
        credit.reno(&mut window, 5);
        assert_eq!((window.cwnd, credit.0), (10.0, 4.0), "two in slow start, three towards the next");
    }

    #[test]
    fn what_a_sender_left_ends_with_an_ack_that_may_grow() {
        let mut open = Open::new();
        assert_eq!(open.enter(&ack(1)), (false, true));
        open.leave();
        assert_eq!(open.enter(&AckSample { may_grow: false, ..ack(1) }), (false, false));
        assert_eq!(open.enter(&AckSample { disordered: true, ..ack(1) }), (false, false));
        assert_eq!(open.enter(&ack(1)), (true, true));
        assert_eq!(open.enter(&AckSample { disordered: true, ..ack(1) }), (false, false));
    }
}
