//! What Westwood, Westwood+ and TIBET share: how many segments an ACK stands for, how long it took, and the window
//! that a bandwidth is worth.
//!
//! The laws read every ACK, also duplicates: each of them reports a segment that has left the path, and the cumulative
//! ACK that follows must not report it again (Mascolo et al., MobiCom 2001, procedure `AckedCount`).
//!
//! *References:* Mascolo, Casetti, Gerla, Sanadidi & Wang, MobiCom 2001.

use lasthop_core::time::{Span, Time};

use crate::params::choice;
use crate::{Arrival, Reduction, Window};

choice! {
    /// How many delivered segments an ACK stands for after duplicates.
    Counting {
        /// A partial ACK takes its own segment and what the duplicates have not reported yet.
        Fixed = "fixed",
        /// The published procedure, which counts the segment of a partial ACK once too often. Linux has it too.
        Paper = "paper",
    }
}

/// The settings of a [`Meter`] that are parameters of the laws.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeterStyle {
    pub counting: Counting,
    /// Maximum number of segments that one ACK stands for.
    pub count_limit: f64,
    /// ACKs closer than this (seconds) are one sample.
    pub defer: f64,
}

/// Counts what ACKs deliver and the time between them, and keeps the minimum RTT.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    /// Segments that duplicates have reported and no cumulative ACK has covered yet.
    ahead: u64,
    /// End of the last sample; `None` before the first ACK, which only starts the clock.
    last: Option<Time>,
    /// Segments of ACKs that came too close after the last sample to be one.
    deferred: f64,
    /// Least RTT seen in seconds; infinite before the first.
    pub rtt_min: f64,
    mss: u32,
}

impl Meter {
    pub(crate) fn new() -> Meter {
        Meter { ahead: 0, last: None, deferred: 0.0, rtt_min: f64::INFINITY, mss: 1 }
    }

    /// The segments that this ACK stands for. Old ACKs, and ACKs without anything outstanding, stand for none.
    pub(crate) fn segments(&mut self, arrival: &Arrival, style: MeterStyle) -> f64 {
        self.mss = arrival.mss;
        if arrival.ack < arrival.una {
            return 0.0;
        }
        let covered = (arrival.ack - arrival.una).div_ceil(u64::from(arrival.mss.max(1)));
        let counted = if covered == 0 {
            let duplicate = u64::from(arrival.next > arrival.una);
            self.ahead += duplicate;
            duplicate
        } else if covered > 1 && self.ahead >= covered {
            self.ahead -= if style.counting == Counting::Fixed { covered - 1 } else { covered };
            1
        } else if covered > 1 {
            covered - std::mem::take(&mut self.ahead)
        } else {
            1
        };
        (counted as f64).min(style.count_limit)
    }

    /// Segments and seconds since the last sample, if this ACK makes one.
    pub(crate) fn sample(&mut self, arrival: &Arrival, style: MeterStyle) -> Option<(f64, f64)> {
        let counted = self.segments(arrival, style);
        let Some(last) = self.last else {
            self.last = Some(arrival.now);
            return None;
        };
        if counted == 0.0 {
            return None;
        }
        let seconds = arrival.now.since(last).seconds();
        if seconds < style.defer {
            self.deferred += counted;
            return None;
        }
        self.last = Some(arrival.now);
        Some((counted + std::mem::take(&mut self.deferred), seconds))
    }

    /// Gives the segments of a sample back to the next, which begins `seconds` before `now`.
    pub(crate) fn put_back(&mut self, segments: f64, seconds: f64, now: Time) {
        self.deferred = segments;
        self.last = Some(now - Span::from_seconds(seconds));
    }

    /// Learns the minimum RTT.
    pub(crate) fn learn_rtt(&mut self, rtt: Option<Span>) {
        if let Some(rtt) = rtt.filter(|&rtt| rtt > Span::ZERO) {
            self.rtt_min = self.rtt_min.min(rtt.seconds());
        }
    }

    /// Bits in a segment.
    pub(crate) fn segment_bits(&self) -> f64 {
        8.0 * f64::from(self.mss)
    }

    /// The segments that `bandwidth` (bits per second) keeps in flight on an empty path, at least two.
    pub(crate) fn pipe(&self, bandwidth: f64) -> f64 {
        if bandwidth > 0.0 && self.rtt_min.is_finite() {
            (bandwidth * self.rtt_min / self.segment_bits()).max(2.0)
        } else {
            2.0
        }
    }

    /// ssthresh becomes the pipe, and cwnd falls to it: a loss never raises the window.
    pub(crate) fn reduction(&self, bandwidth: f64, window: &Window) -> Reduction {
        let pipe = self.pipe(bandwidth);
        Reduction::to(pipe, pipe.min(window.cwnd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::arrival;

    const FIXED: MeterStyle = MeterStyle { counting: Counting::Fixed, count_limit: 1e9, defer: 1e-5 };

    /// Segments 11 and 13 of 11..=20 are lost: the ACKs, in highest segments received.
    fn count(style: MeterStyle) -> f64 {
        let acks = [10, 10, 10, 10, 10, 10, 10, 10, 12, 12, 12, 12, 23];
        let mut meter = Meter::new();
        let mut una = 10;
        let mut total = 0.0;
        for ack in acks {
            total += meter.segments(&arrival(0.0, una, ack), style);
            una = ack;
        }
        total
    }

    /// TV-4.1: thirteen segments were delivered; the published procedure counts fourteen.
    #[test]
    fn duplicates_and_partial_acks_are_counted_once() {
        assert_eq!(count(FIXED), 13.0);
        assert_eq!(count(MeterStyle { counting: Counting::Paper, ..FIXED }), 14.0);
    }

    #[test]
    fn an_ack_may_be_kept_from_counting_for_many() {
        let mut meter = Meter::new();
        assert_eq!(meter.segments(&arrival(0.0, 10, 17), MeterStyle { count_limit: 2.0, ..FIXED }), 2.0);
    }

    #[test]
    fn old_acks_and_idle_duplicates_count_for_nothing() {
        let mut meter = Meter::new();
        assert_eq!(meter.segments(&arrival(0.0, 10, 9), FIXED), 0.0);
        let idle = Arrival { next: 10_000, ..arrival(0.0, 10, 10) };
        assert_eq!(meter.segments(&idle, FIXED), 0.0);
    }

    /// ACKs at one instant are one sample with the time up to the next.
    #[test]
    fn simultaneous_acks_are_one_sample() {
        let mut meter = Meter::new();
        assert_eq!(meter.sample(&arrival(1.0, 10, 11), FIXED), None, "starts the clock");
        assert_eq!(meter.sample(&arrival(1.000_005, 11, 13), FIXED), None);
        assert_eq!(meter.sample(&arrival(1.5, 13, 14), FIXED), Some((3.0, 0.5)));
    }

    /// TV-4.4: 1.6 Mbit/s over 100 ms in segments of 1000 B are 20 segments.
    #[test]
    fn a_loss_leaves_what_the_path_holds() {
        let meter = Meter { rtt_min: 0.1, mss: 1000, ..Meter::new() };
        let after = |cwnd| meter.reduction(1.6e6, &Window { cwnd, ssthresh: 64.0 });
        assert_eq!(after(30.0), Reduction::to(20.0, 20.0));
        assert_eq!(after(12.0), Reduction::to(20.0, 12.0), "slow start follows");
        assert_eq!(Meter::new().pipe(1.6e6), 2.0, "no RTT yet");
    }
}
