//! Equal writes at equal intervals, without or with an end; TCP queues without bound what it cannot send.

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;

use super::video::Packing;
use super::{Generate, Likeness, Offer, Offered, Pace};

/// `write` bytes every `interval`.
#[derive(Clone, Debug, PartialEq)]
pub struct PacedFtp {
    /// Bytes of one write.
    pub write: u32,
    /// Time between writes.
    pub interval: Span,
    /// Total length; `None` never ends.
    pub bytes: Option<u64>,
}

impl Offered for PacedFtp {
    fn mean_length(&self) -> Option<f64> {
        self.bytes.map(|bytes| bytes as f64)
    }

    fn nominal_rate(&self) -> Option<Rate> {
        Some(Rate((f64::from(self.write) * 8.0 / self.interval.seconds()).round() as u64))
    }

    fn largest_write(&self) -> Option<u64> {
        Some(self.write.into())
    }

    fn pace(&self, _: Packing) -> Option<Pace> {
        Some(Pace { gap_ns: self.interval.0 as f64, active: 1.0 })
    }

    fn likeness(&self) -> Option<Likeness> {
        Some(Likeness { kind: "paced-ftp", bytes: self.bytes })
    }
}

/// The writes so far.
#[derive(Clone, Debug)]
pub(super) struct Writes {
    write: u64,
    interval: Span,
    total: Option<u64>,
    /// Bytes left of a bounded transfer.
    left: u64,
}

impl Writes {
    pub(super) fn new(plan: &PacedFtp, _: Packing, _: Stream) -> Writes {
        let left = plan.bytes.unwrap_or(u64::MAX);
        Writes { write: plan.write.into(), interval: plan.interval, total: plan.bytes, left }
    }
}

impl Generate for Writes {
    fn next(&mut self, now: Time) -> Offer {
        let bytes = self.write.min(self.left);
        self.left -= if self.total.is_none() { 0 } else { bytes };
        Offer { bytes: Some(bytes), next: (self.left > 0).then(|| now + self.interval) }
    }

    fn length(&self) -> Option<u64> {
        self.total
    }

    fn is_exhausted(&self) -> bool {
        self.total.is_none() || self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Traffic;
    use crate::traffic::testing::running;

    #[test]
    fn writes_until_it_is_done() {
        let plan = PacedFtp { write: 1024, interval: Span::from_millis(5), bytes: Some(2500) };
        let mut source = running(&Traffic::PacedFtp(plan));
        let mut now = Time::ZERO;
        let mut offers = vec![source.start(now)];
        while let Some(next) = offers.last().and_then(|offer| offer.next) {
            assert!(!source.is_exhausted());
            now = next;
            offers.push(source.next(now));
        }
        assert_eq!(offers.iter().filter_map(|offer| offer.bytes).collect::<Vec<_>>(), [1024, 1024, 452]);
        assert_eq!(now, Time::ZERO + Span::from_millis(10));
        assert!(source.is_exhausted());
    }
}
