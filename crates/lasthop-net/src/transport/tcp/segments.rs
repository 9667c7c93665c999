//! What a sender remembers of its outstanding data: one record per segment, and byte ranges.
//!
//! Used by the sender and its recovery engines only.

use std::collections::VecDeque;

use lasthop_core::prefetch::prefetch;
use lasthop_core::time::Time;

/// One segment between `una` and `max_sent`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    /// First sequence number.
    pub(crate) seq: u64,
    /// Time of the last transmission.
    pub(crate) last_sent: Time,
    /// Length in sequence space: payload bytes, and one for a SYN or FIN.
    pub(crate) len: u16,
    /// Number of transmissions.
    pub(crate) transmissions: u16,
    /// Whether it carries the FIN (after its payload).
    pub(crate) fin: bool,
    /// Selectively acknowledged.
    pub(crate) sacked: bool,
    /// Deemed lost.
    pub(crate) lost: bool,
    /// Retransmitted in the current recovery episode.
    pub(crate) repaired: bool,
}

impl Segment {
    /// One past its last sequence number.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.seq + u64::from(self.len)
    }
}

/// The ring gives room back from this many segments on.
const LARGE: usize = 48;
/// It grows by this many at least.
const GROWTH: usize = 8;

/// The outstanding segments in sequence order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segments {
    ring: VecDeque<Segment>,
    /// When those that were sent more than once were sent first, by their first sequence number: few at any time, and
    /// of the others it is the time of their last transmission. Those below the ring are forgotten at the next one.
    first_sent: VecDeque<(u64, Time)>,
    /// Usual length, for finding a segment by arithmetic.
    mss: u64,
}

impl Segments {
    pub(crate) fn new(mss: u32) -> Segments {
        Segments { mss: u64::from(mss), ..Segments::default() }
    }

    /// Segments are at most this long from now on.
    pub(crate) fn set_mss(&mut self, mss: u32) {
        self.mss = u64::from(mss);
    }

    /// Appends the segment `seq..seq + len`, sent now for the first time.
    #[inline]
    pub(crate) fn push(&mut self, seq: u64, len: u16, fin: bool, now: Time) {
        if self.ring.len() == self.ring.capacity() {
            self.grow();
        }
        self.ring.push_back(Segment {
            seq,
            last_sent: now,
            len,
            transmissions: 1,
            fin,
            sacked: false,
            lost: false,
            repaired: false,
        });
    }

    /// Makes room for a quarter more: doubling would leave most of it empty in most of many flows.
    #[cold]
    fn grow(&mut self) {
        self.ring.reserve_exact((self.ring.len() / 4).max(GROWTH));
    }

    /// Gives room back after segments were forgotten, if little of it is in use: the first slow start of a connection
    /// needs far more than it does later, and there are many connections.
    #[inline]
    pub(crate) fn trim(&mut self) {
        if self.ring.capacity() >= LARGE && self.ring.len() < self.ring.capacity() / 4 {
            self.shrink();
        }
    }

    #[cold]
    fn shrink(&mut self) {
        self.ring.shrink_to((2 * self.ring.len()).max(LARGE / 2));
    }

    /// Counts one more transmission of the segment with this index, now. Returns it and the time of its first one.
    pub(crate) fn repeat(&mut self, index: usize, now: Time) -> Option<(Segment, Time)> {
        let lowest = self.ring.front()?.seq;
        let segment = self.ring.get_mut(index)?;
        while self.first_sent.front().is_some_and(|&(seq, _)| seq < lowest) {
            self.first_sent.pop_front();
        }
        let place = self.first_sent.partition_point(|&(seq, _)| seq < segment.seq);
        if segment.transmissions == 1 {
            self.first_sent.insert(place, (segment.seq, segment.last_sent));
        }
        segment.last_sent = now;
        segment.transmissions = segment.transmissions.saturating_add(1);
        Some((*segment, self.first_sent[place].1))
    }

    /// Forgets all: nothing will be acknowledged any more.
    pub(crate) fn clear(&mut self) {
        self.ring = VecDeque::new();
        self.first_sent = VecDeque::new();
    }

    /// Segments that memory is kept for.
    pub(crate) fn room(&self) -> usize {
        self.ring.capacity() + self.first_sent.capacity()
    }

    /// The first outstanding segment.
    #[inline]
    pub(crate) fn first(&self) -> Option<&Segment> {
        self.ring.front()
    }

    /// Asks for the first and the last segment.
    pub(crate) fn prepare(&self) {
        self.ring.front().into_iter().chain(self.ring.back()).for_each(prefetch);
    }

    /// Where the first one lies.
    pub(crate) fn address(&self) -> Option<usize> {
        self.ring.front().map(|first| std::ptr::from_ref(first).addr())
    }

    /// Forgets the first segment.
    #[inline]
    pub(crate) fn pop_first(&mut self) {
        self.ring.pop_front();
    }

    /// Index of the segment that holds `seq`.
    pub(crate) fn find(&self, seq: u64) -> Option<usize> {
        let first = self.ring.front()?.seq;
        let last = self.ring.len() - 1;
        // Exact when all segments are full; short ones and a SYN make it a near miss that the walk mends.
        let mut index = (usize::try_from(seq.checked_sub(first)? / self.mss).ok()?).min(last);
        while self.ring[index].seq > seq {
            index -= 1;
        }
        while self.ring[index].end() <= seq {
            index += 1;
            if index > last {
                return None;
            }
        }
        Some(index)
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Segment> {
        self.ring.get(index)
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut Segment> {
        self.ring.get_mut(index)
    }

    /// The segment that holds `seq`.
    pub(crate) fn at(&self, seq: u64) -> Option<&Segment> {
        self.find(seq).map(|index| &self.ring[index])
    }

    pub(crate) fn len(&self) -> usize {
        self.ring.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Segment> {
        self.ring.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Segment> {
        self.ring.iter_mut()
    }
}

/// A set of bytes as sorted, disjoint, non-adjacent ranges `[start, end)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges {
    ranges: VecDeque<(u64, u64)>,
}

impl Ranges {
    /// The place of the range that holds `seq`, or of the next one. Mostly it is one of the ends: what comes in order
    /// joins the very last range, and what repairs the first hole comes before all of them.
    #[inline]
    pub(crate) fn place_of(&self, seq: u64) -> usize {
        let (Some(&first), Some(&last)) = (self.ranges.front(), self.ranges.back()) else { return 0 };
        if seq < first.1 {
            return 0;
        }
        if last.0 <= seq {
            return self.ranges.len() - usize::from(seq < last.1);
        }
        self.ranges.partition_point(|&(_, end)| end <= seq)
    }

    /// Bytes in all ranges.
    pub(crate) fn bytes(&self) -> u64 {
        self.ranges.iter().map(|&(start, end)| end - start).sum()
    }

    /// Adds `[start, end)` and returns whether anything in it was new.
    pub(crate) fn insert(&mut self, mut start: u64, mut end: u64) -> bool {
        if start >= end {
            return false;
        }
        // Everything that overlaps or touches is merged; ranges that merely touch end at `start` or begin at `end`.
        let first = self.place_of(start.saturating_sub(1));
        if self.holds(first, start, end) {
            return false;
        }
        let mut last = first;
        while let Some((other_start, other_end)) = self.at(last)
            && other_start <= end
        {
            start = start.min(other_start);
            end = end.max(other_end);
            last += 1;
        }
        if first == last {
            self.ranges.insert(first, (start, end));
        } else {
            self.ranges[first] = (start, end);
            self.ranges.drain(first + 1..last);
        }
        true
    }

    /// Whether every byte of `[start, end)` is in the set.
    pub(crate) fn contains_all(&self, start: u64, end: u64) -> bool {
        self.holds(self.place_of(start), start, end)
    }

    /// The range that holds the byte `seq`.
    pub(crate) fn containing(&self, seq: u64) -> Option<(u64, u64)> {
        self.at(self.place_of(seq)).filter(|&(start, _)| start <= seq)
    }

    /// Whether the range at a place holds every byte of `[start, end)`.
    #[inline]
    pub(crate) fn holds(&self, place: usize, start: u64, end: u64) -> bool {
        self.at(place).is_some_and(|(from, to)| from <= start && end <= to)
    }

    /// The range at a place.
    #[inline]
    pub(crate) fn at(&self, place: usize) -> Option<(u64, u64)> {
        self.ranges.get(place).copied()
    }

    /// Removes everything below `seq`.
    pub(crate) fn remove_below(&mut self, seq: u64) {
        while let Some(first) = self.ranges.front_mut() {
            if first.1 <= seq {
                self.ranges.pop_front();
                continue;
            }
            first.0 = first.0.max(seq);
            break;
        }
    }

    /// Removes and returns the first range if it starts at or below `seq`.
    pub(crate) fn take_first_at(&mut self, seq: u64) -> Option<(u64, u64)> {
        self.ranges.front().filter(|range| range.0 <= seq)?;
        self.ranges.pop_front()
    }

    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The range with the highest bytes.
    pub(crate) fn last(&self) -> Option<(u64, u64)> {
        self.ranges.back().copied()
    }

    /// The ranges from the highest to the lowest.
    pub(crate) fn descending(&self) -> impl Iterator<Item = (u64, u64)> {
        self.ranges.iter().rev().copied()
    }

    /// The ranges that end at or above `seq`, ascending.
    pub(crate) fn from(&self, seq: u64) -> impl Iterator<Item = (u64, u64)> {
        let first = self.place_of(seq.saturating_sub(1));
        self.ranges.range(first..).copied()
    }
}

#[cfg(test)]
mod tests {
    use lasthop_core::time::Span;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn segments_are_found_whatever_their_length() {
        let mut segments = Segments::new(1000);
        segments.push(0, 1, false, Time::ZERO);
        segments.push(1, 1000, false, Time::ZERO);
        segments.push(1001, 10, false, Time::ZERO);
        segments.push(1011, 1000, false, Time::ZERO);
        for (seq, index) in [(0, 0), (1, 1), (1000, 1), (1001, 2), (1010, 2), (1011, 3), (2010, 3)] {
            assert_eq!(segments.find(seq), Some(index), "{seq}");
        }
        assert_eq!(segments.find(2011), None);
        assert_eq!(segments.first().map(|segment| segment.seq), Some(0));
        segments.pop_first();
        assert_eq!(segments.find(0), None);
        assert_eq!(segments.find(1500), Some(2));
    }

    #[test]
    fn a_segment_remembers_when_it_was_sent_first() {
        let mut segments = Segments::new(1000);
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        for number in 0..4 {
            segments.push(number * 1000, 1000, false, at(number));
        }
        for (index, now, first) in [(2, 10, 2), (0, 11, 0), (2, 12, 2), (3, 13, 3)] {
            let (segment, first_sent) = segments.repeat(index, at(now)).unwrap();
            assert_eq!((segment.last_sent, first_sent), (at(now), at(first)), "{index}");
        }
        segments.pop_first();
        segments.pop_first();
        // What was the third is the first now, and was sent twice before.
        let (segment, first_sent) = segments.repeat(0, at(20)).unwrap();
        assert_eq!((segment.seq, segment.transmissions, first_sent), (2000, 4, at(2)));
        assert_eq!(segments.first_sent.len(), 2, "those below are forgotten");
        assert!(segments.repeat(2, at(21)).is_none());
    }

    #[test]
    fn a_ring_gives_room_back() {
        assert_eq!(size_of::<Segment>(), 24);
        let mut segments = Segments::new(1000);
        for number in 0..64 {
            segments.push(number * 1000, 1000, false, Time::ZERO);
        }
        assert!(segments.ring.capacity() >= 64);
        for _ in 0..50 {
            segments.pop_first();
            segments.trim();
        }
        assert!(segments.ring.capacity() <= 40, "{}", segments.ring.capacity());
        assert_eq!(
            segments.iter().map(|segment| segment.seq / 1000).collect::<Vec<_>>(),
            (50..64).collect::<Vec<_>>()
        );
    }

    proptest! {
        /// The ranges against a set of single bytes.
        #[test]
        fn ranges_agree_with_a_set(steps in prop::collection::vec((0u64..60, 0u64..12, any::<bool>()), 1..60)) {
            let mut ranges = Ranges::default();
            let mut model = std::collections::BTreeSet::new();
            for (start, len, insert) in steps {
                if insert {
                    let fresh = (start..start + len).any(|byte| !model.contains(&byte));
                    prop_assert_eq!(ranges.insert(start, start + len), fresh);
                    model.extend(start..start + len);
                } else {
                    ranges.remove_below(start);
                    model.retain(|&byte| byte >= start);
                }
                let listed: Vec<u64> = ranges.from(0).flat_map(|(start, end)| start..end).collect();
                prop_assert_eq!(listed, model.iter().copied().collect::<Vec<_>>());
                prop_assert!(ranges.ranges.iter().zip(ranges.ranges.iter().skip(1)).all(|(a, b)| a.1 < b.0));
            }
        }
    }
}
