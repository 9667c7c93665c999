//! The rate of a link as a function of time: when a transmission that starts then is over.
//!
//! Most links have one rate, and one multiplication answers. Scripted changes are a list of times and rates; what is
//! being transmitted when the rate changes goes on at the new one, so that no bit is sent twice and none for free. A
//! rate of zero holds it until the next change. Recorded opportunities are another way to say when a link may send.

use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;

use super::opportunities::{Cursor, Opportunities};

/// The rate of one direction.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    /// The rate from the start on.
    first: Rate,
    /// What changes, if anything does.
    more: Option<Box<More>>,
}

/// What changes.
#[derive(Clone, Debug)]
struct More {
    /// Later rates, ascending in time.
    changes: Box<[(Time, Rate)]>,
    /// When it may send at all, if that is recorded; then the rate is the mean.
    opportunities: Option<Cursor>,
}

/// Nanobits: bits times 10^9, so that a rate of 1 bit/s sends one of them per nanosecond.
fn work_of(bytes: u32) -> u128 {
    u128::from(bytes) * 8 * 1_000_000_000
}

impl Pace {
    pub(super) fn new(first: Rate, changes: &[(Time, Rate)], opportunities: Option<&Opportunities>) -> Pace {
        let opportunities = opportunities.map(Cursor::new);
        let first = opportunities.as_ref().map_or(first, super::opportunities::Cursor::mean_rate);
        let constant = changes.is_empty() && opportunities.is_none();
        Pace { first, more: (!constant).then(|| Box::new(More { changes: changes.into(), opportunities })) }
    }

    /// Whether the rate never changes.
    pub(super) fn is_constant(&self) -> bool {
        self.more.is_none()
    }

    /// Nanoseconds per byte, if that is a whole number which never changes, else 0.
    pub(super) fn whole_nanos_per_byte(&self) -> u32 {
        let per_byte = 8_000_000_000;
        if self.more.is_some() || per_byte % self.first.0 != 0 {
            return 0;
        }
        u32::try_from(per_byte / self.first.0).unwrap_or(0)
    }

    /// Later rates.
    fn changes(&self) -> &[(Time, Rate)] {
        self.more.as_ref().map_or(&[], |more| &more.changes)
    }

    /// The rate at `at`.
    pub(super) fn rate_at(&self, at: Time) -> Rate {
        let begun = self.changes().partition_point(|&(from, _)| from <= at);
        begun.checked_sub(1).map_or(self.first, |index| self.changes()[index].1)
    }

    /// When the last bit of `bytes` leaves, if the first leaves at `start`; rounded up to the nanosecond.
    pub(super) fn finish(&self, start: Time, bytes: u32) -> Time {
        let changes = self.changes();
        let mut index = changes.partition_point(|&(from, _)| from <= start);
        if index == changes.len() && self.rate_at(start).0 > 0 {
            return start + self.rate_at(start).serialisation(bytes.into());
        }
        let (mut at, mut rate, mut work) = (start, self.rate_at(start), work_of(bytes));
        while let Some(&(until, next)) = changes.get(index) {
            let possible = u128::from(until.since(at).0) * u128::from(rate.0);
            if work <= possible && rate.0 > 0 {
                break;
            }
            work -= possible;
            (at, rate) = (until, next);
            index += 1;
        }
        if rate.0 == 0 {
            return Time::MAX;
        }
        at + Span(u64::try_from(work.div_ceil(u128::from(rate.0))).unwrap_or(u64::MAX))
    }
}

impl Pace {
    /// When the last bit of a packet of `bytes` leaves that has waited since `since`, if it is its turn at `start`.
    pub(super) fn serve(&mut self, since: Time, start: Time, bytes: u32) -> Time {
        match self.more.as_mut().and_then(|more| more.opportunities.as_mut()) {
            None => self.finish(start, bytes),
            Some(cursor) => cursor.send(since, start, bytes),
        }
    }

    /// When a transmission can start, at `now` or later.
    pub(super) fn ready_from(&self, now: Time) -> Time {
        let opportunities = self.more.as_ref().and_then(|more| more.opportunities.as_ref());
        opportunities.map_or(now, |cursor| cursor.ready_from(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(value: u64) -> Time {
        Time::ZERO + Span::from_millis(value)
    }

    /// 1000 bytes are 8 ms at 1 Mbit/s and 4 ms at 2 Mbit/s.
    #[test]
    fn a_transmission_goes_on_at_the_new_rate() {
        let changes = [(millis(10), Rate(2_000_000)), (millis(20), Rate(500_000))];
        let pace = Pace::new(Rate(1_000_000), &changes, None);
        assert_eq!(pace.finish(millis(0), 1000), millis(8));
        assert_eq!(pace.finish(millis(2), 1000), millis(10), "done just in time");
        assert_eq!(pace.finish(millis(6), 1000), millis(12), "half at either rate");
        assert_eq!(pace.finish(millis(10), 1000), millis(14));
        // 8,000 bits from 19 ms on: 2,000 until 20 ms, the other 6,000 in 12 ms.
        assert_eq!(pace.finish(millis(19), 1000), millis(32));
        assert_eq!(pace.finish(millis(50), 1000), millis(66));
        assert_eq!((pace.rate_at(millis(9)), pace.rate_at(millis(10))), (Rate(1_000_000), Rate(2_000_000)));
        assert_eq!(pace.whole_nanos_per_byte(), 0);
    }

    /// Three changes within one transmission: 1 ms at 1, 1 ms at 2 and the rest at 4 Mbit/s.
    #[test]
    fn several_changes_within_one_transmission() {
        let changes = [(millis(1), Rate(2_000_000)), (millis(2), Rate(4_000_000))];
        let pace = Pace::new(Rate(1_000_000), &changes, None);
        // 8,000 bits: 1,000 and 2,000 by 2 ms; 5,000 more at 4 Mbit/s take 1.25 ms.
        assert_eq!(pace.finish(Time::ZERO, 1000), Time(3_250_000));
    }

    #[test]
    fn one_rate_is_the_rate() {
        let pace = Pace::new(Rate(3), &[], None);
        assert_eq!(pace.finish(Time(5), 1), Time(5 + 2_666_666_667));
        assert_eq!(Pace::new(Rate(8_000_000), &[], None).whole_nanos_per_byte(), 1_000);
    }

    /// A rate of zero is a pause: 4,000 bits by 4 ms, nothing until 10 ms, the rest by 14 ms; or never.
    #[test]
    fn a_rate_of_zero_is_a_pause() {
        let changes = [(millis(4), Rate(0)), (millis(10), Rate(1_000_000)), (millis(30), Rate(0))];
        let pace = Pace::new(Rate(1_000_000), &changes, None);
        assert_eq!(pace.finish(Time::ZERO, 1000), millis(14));
        assert_eq!(pace.finish(millis(5), 1000), millis(18));
        assert_eq!(pace.finish(millis(4), 0), millis(10), "nothing is sent, not even nothing");
        assert_eq!((pace.finish(millis(29), 1000), pace.finish(millis(31), 1)), (Time::MAX, Time::MAX));
    }
}
