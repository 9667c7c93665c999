//! Sums over the intervals of a run, of which only those are kept that may still change.
//!
//! Links and receivers add to them, ahead of the clock or behind it; the recorder takes each row when it is final.

use std::collections::VecDeque;

use lasthop_core::time::{Span, Time};

/// Sums over the intervals of a run; occurrences are added in any order.
#[derive(Clone, Debug)]
pub struct Bins<const N: usize> {
    interval: u64,
    /// Intervals of the run; a shorter rest at the end is dropped.
    count: u64,
    /// Number of the first that is kept.
    first: u64,
    rows: VecDeque<[u64; N]>,
}

impl<const N: usize> Bins<N> {
    /// Bins of `interval` that cover `duration`; a shorter rest at the end is dropped.
    pub fn new(interval: Span, duration: Span) -> Bins<N> {
        Bins { interval: interval.0, count: duration.0 / interval.0, first: 0, rows: VecDeque::new() }
    }

    /// Adds `amount` to column `column` at `time`.
    pub fn add(&mut self, time: Time, column: usize, amount: u64) {
        if let Some(bin) = self.row(time.0 / self.interval) {
            bin[column] += amount;
        }
    }

    /// Adds the nanoseconds of `[start, end)` to the bins that they fall into.
    pub fn add_span(&mut self, start: Time, end: Time, column: usize) {
        let mut at = start.0;
        while at < end.0 {
            let index = at / self.interval;
            let until = ((index + 1) * self.interval).min(end.0);
            let Some(bin) = self.row(index) else { return };
            bin[column] += until - at;
            at = until;
        }
    }

    /// The row of an interval; `None` behind the last.
    fn row(&mut self, index: u64) -> Option<&mut [u64; N]> {
        if index >= self.count {
            return None;
        }
        debug_assert!(index >= self.first, "row {index} was taken before it was final");
        let place = index.saturating_sub(self.first) as usize;
        if place >= self.rows.len() {
            self.rows.resize(place + 1, [0; N]);
        }
        self.rows.get_mut(place)
    }

    /// Takes the first row that is left: nothing may be added to it any more.
    pub(super) fn take(&mut self) -> [u64; N] {
        self.first += 1;
        self.rows.pop_front().unwrap_or([0; N])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_spread_over_their_bins() {
        let mut bins: Bins<1> = Bins::new(Span(10), Span(35));
        bins.add_span(Time(5), Time(27), 0);
        bins.add_span(Time(28), Time(90), 0);
        bins.add(Time(12), 0, 100);
        assert_eq!(bins.take(), [5]);
        bins.add(Time(25), 0, 1000);
        bins.add(Time(31), 0, 7);
        let rest = [bins.take(), bins.take(), bins.take()];
        assert_eq!(rest, [[110], [1009], [0]], "the rest beyond the last full interval is dropped");
    }
}
