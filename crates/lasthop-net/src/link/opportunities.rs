//! Links whose transmitter is driven by a recording: at listed instants a link may send this many bytes (Winstein,
//! Sivaraman and Balakrishnan, NSDI 2013; the format and its rules are Mahimahi's, Netravali et al. 2015).
//!
//! What is waiting at such an opportunity goes, byte by byte, in the order of the queue: small packets share one,
//! and a large one takes several. An unused opportunity is lost. A packet that arrives at the very instant comes
//! too late for it. Packets are presented in the order of their service, so the time at which one leaves is known
//! when it is its turn.

use std::sync::Arc;

use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;

use crate::device::two_loads::LightLoad;

/// When a link may send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opportunities {
    /// Instants from the beginning of the recording, never falling, at least one of them.
    pub times: Arc<[Span]>,
    /// Whether the recording begins again at its last instant, which then is an opportunity of its own; otherwise the
    /// link is silent from there on.
    pub repeat: bool,
    /// Bytes that may be sent at each.
    pub bytes: u32,
    /// What the link does while it is not full, if that was recorded as well.
    pub light: Option<Arc<LightLoad>>,
}

impl Opportunities {
    /// The length of the recording, above zero.
    pub fn period(&self) -> Span {
        self.times.last().copied().unwrap_or(Span::ZERO).max(Span::from_nanos(1))
    }

    /// The mean rate, at least 1 bit/s.
    pub fn mean_rate(&self) -> Rate {
        let bits = 8 * self.times.len() as u128 * u128::from(self.bytes);
        let rate = bits * 1_000_000_000 / u128::from(self.period().0);
        Rate(u64::try_from(rate).unwrap_or(u64::MAX).max(1))
    }
}

/// The transmitter: what has been used so far.
#[derive(Clone, Debug)]
pub(super) struct Cursor {
    plan: Opportunities,
    period: u64,
    /// Round and number of the opportunity that comes next.
    next: (u64, usize),
    /// The one that was opened last, and the bytes that it has left.
    at: Time,
    left: u32,
}

impl Cursor {
    pub(super) fn new(plan: &Opportunities) -> Cursor {
        Cursor { plan: plan.clone(), period: plan.period().0, next: (0, 0), at: Time::ZERO, left: 0 }
    }

    /// The mean rate of the recording.
    pub(super) fn mean_rate(&self) -> Rate {
        self.plan.mean_rate()
    }

    /// When an opportunity comes; never after the end of a recording that does not repeat.
    fn time_of(&self, (round, number): (u64, usize)) -> Time {
        if round > 0 && !self.plan.repeat {
            return Time::MAX;
        }
        Time(round.saturating_mul(self.period).saturating_add(self.plan.times[number].0))
    }

    fn after(&self, (round, number): (u64, usize)) -> (u64, usize) {
        if number + 1 < self.plan.times.len() { (round, number + 1) } else { (round + 1, 0) }
    }

    /// The first opportunity at `from` or later that has not been opened.
    fn first_from(&self, from: Time) -> (u64, usize) {
        let following = self.after(self.next);
        if self.time_of(self.next) >= from {
            return self.next;
        }
        if self.time_of(following) >= from {
            return following;
        }
        // The last opportunity of a round falls on the beginning of the next one.
        let round = from.0.saturating_sub(1) / self.period;
        let within = from.0 - round * self.period;
        let number = self.plan.times.partition_point(|time| time.0 < within);
        let found = if number < self.plan.times.len() { (round, number) } else { (round + 1, 0) };
        found.max(self.next)
    }

    /// When the last of `bytes` leaves that have waited since `since` and whose turn it is at `ready`.
    pub(super) fn send(&mut self, since: Time, ready: Time, mut bytes: u32) -> Time {
        if self.left == 0 || self.at <= since || self.at < ready {
            self.open(self.first_from(ready.max(since + Span::from_nanos(1))));
        }
        while bytes > self.left && self.at < Time::MAX {
            bytes -= self.left;
            self.open(self.next);
        }
        self.left = self.left.saturating_sub(bytes);
        self.at
    }

    fn open(&mut self, which: (u64, usize)) {
        self.at = self.time_of(which);
        self.left = self.plan.bytes;
        self.next = self.after(which);
    }

    /// When something can be sent, at `now` or later.
    pub(super) fn ready_from(&self, now: Time) -> Time {
        if self.left > 0 && self.at >= now { self.at } else { self.time_of(self.first_from(now)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(value: u64) -> Time {
        Time::ZERO + Span::from_millis(value)
    }

    fn cursor(times: &[u64], repeat: bool) -> Cursor {
        let times = times.iter().map(|&time| Span::from_millis(time)).collect();
        Cursor::new(&Opportunities { times, repeat, bytes: 1500, light: None })
    }

    /// TV-2.5: `0 5 5 10`, looped, is 0, 5, 5, 10, 10, 15, 15, 20, 20: 4.8 Mbit/s.
    #[test]
    fn opportunities_of_a_loop() {
        let mut link = cursor(&[0, 5, 5, 10], true);
        assert_eq!(link.mean_rate(), Rate(4_800_000));
        // All have waited since before the start, but no packet can have waited before time zero.
        let times: Vec<Time> = (0..10).map(|_| link.send(Time::ZERO, Time::ZERO, 1500)).collect();
        assert_eq!(times, [5, 5, 10, 10, 15, 15, 20, 20, 25, 25].map(millis));
    }

    /// TV-2.6: one opportunity each millisecond; three packets of 1000 B arrive at 0.2 ms.
    #[test]
    fn packets_share_and_span_opportunities() {
        let mut link = cursor(&[1], true);
        let arrived = Time(200_000);
        let mut ready = arrived;
        let mut send = |bytes| {
            ready = link.send(arrived, ready, bytes);
            ready
        };
        assert_eq!([send(1000), send(1000), send(1000)], [1, 2, 2].map(millis));
        assert_eq!(send(4000), millis(5), "three of 1500 B, rounded up");
    }

    /// A packet that arrives at the instant of an opportunity has missed it, and what is left of it is gone.
    #[test]
    fn who_comes_at_the_instant_comes_too_late() {
        let mut link = cursor(&[1], true);
        assert_eq!(link.send(Time::ZERO, Time::ZERO, 100), millis(1));
        assert_eq!(link.send(millis(1), millis(1), 100), millis(2));
        assert_eq!(link.send(Time(1_500_000), millis(2), 100), millis(2), "it waited, and 1400 B are left");
        assert_eq!(link.send(millis(7), millis(7), 100), millis(8));
    }

    /// Without repetition the link stays silent.
    #[test]
    fn a_recording_may_end() {
        let mut link = cursor(&[3, 7], false);
        assert_eq!(link.send(Time::ZERO, Time::ZERO, 1500), millis(3));
        assert_eq!(link.send(Time::ZERO, millis(3), 1600), Time::MAX);
        assert_eq!(link.ready_from(millis(8)), Time::MAX);
    }

    /// Long gaps are skipped at once, in the right round.
    #[test]
    fn gaps_are_skipped() {
        let mut link = cursor(&[2, 9, 10], true);
        assert_eq!(link.ready_from(millis(1_000_000)), millis(1_000_000), "the end of a round");
        assert_eq!(link.send(millis(1_000_000), millis(1_000_000), 10), millis(1_000_002));
        assert_eq!(link.send(millis(1_000_003), millis(1_000_003), 10), millis(1_000_009));
        // A transmitter that is held back until 1,000,011 ms.
        assert_eq!(link.send(millis(1_000_004), millis(1_000_011), 10), millis(1_000_012));
    }
}
