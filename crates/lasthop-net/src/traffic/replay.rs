//! Writes at recorded times: what an application was seen to send.

use std::sync::Arc;

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;

use super::video::Packing;
use super::{Generate, Likeness, Offer, Offered};

/// A list of writes, at least one, in the order of time; each of at least a byte. The first is at zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// Since the first write, and bytes.
    pub writes: Arc<[(Span, u32)]>,
}

impl Replay {
    fn total(&self) -> u64 {
        self.writes.iter().map(|write| u64::from(write.1)).sum()
    }
}

impl Offered for Replay {
    fn mean_length(&self) -> Option<f64> {
        Some(self.total() as f64)
    }

    fn nominal_rate(&self) -> Option<Rate> {
        let length = self.writes.last().map_or(Span::ZERO, |write| write.0);
        (length > Span::ZERO).then(|| Rate((self.total() as f64 * 8.0 / length.seconds()).round() as u64))
    }

    fn largest_write(&self) -> Option<u64> {
        self.writes.iter().map(|write| u64::from(write.1)).max()
    }

    fn likeness(&self) -> Option<Likeness> {
        Some(Likeness { kind: "capture", bytes: Some(self.total()) })
    }
}

/// The writes so far.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    plan: Replay,
    total: u64,
    begun: Time,
    /// The write that comes next.
    next: usize,
}

impl Recorded {
    pub(super) fn new(plan: &Replay, _: Packing, _: Stream) -> Recorded {
        Recorded { plan: plan.clone(), total: plan.total(), begun: Time::ZERO, next: 0 }
    }
}

impl Generate for Recorded {
    fn start(&mut self, now: Time) -> Offer {
        self.begun = now;
        self.next(now)
    }

    fn next(&mut self, _: Time) -> Offer {
        let bytes = self.plan.writes.get(self.next).map_or(0, |write| u64::from(write.1));
        self.next += 1;
        let next = self.plan.writes.get(self.next).map(|write| self.begun + write.0);
        Offer { bytes: Some(bytes), next }
    }

    fn length(&self) -> Option<u64> {
        Some(self.total)
    }

    fn is_exhausted(&self) -> bool {
        self.next >= self.plan.writes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Traffic;
    use crate::traffic::testing::running;

    /// Each write at its time after the start, two at one instant too; then it is over.
    #[test]
    fn writes_at_recorded_times() {
        let at = Span::from_millis;
        let plan = Replay { writes: [(at(0), 100), (at(3), 200), (at(3), 50), (at(10), 7)].into() };
        assert_eq!((plan.largest_write(), plan.mean_length()), (Some(200), Some(357.0)));
        assert_eq!(plan.nominal_rate(), Some(Rate(285_600)));
        let mut source = running(&Traffic::Capture(plan));
        let begin = Time::ZERO + at(5);
        let mut offer = source.start(begin);
        let mut seen = vec![(begin, offer.bytes)];
        while let Some(next) = offer.next {
            assert!(!source.is_exhausted());
            offer = source.next(next);
            seen.push((next, offer.bytes));
        }
        let expected = [(0, 100), (3, 200), (3, 50), (10, 7)];
        assert_eq!(seen, expected.map(|(after, bytes)| (begin + at(after), Some(bytes))));
        assert!(source.is_exhausted());
    }
}
