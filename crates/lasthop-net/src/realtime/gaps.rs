//! Timely and delayed packets: Algorithm 1 of Tsaoussidis and others, at the receiver.
//!
//! A packet is delayed if it comes more than a threshold after its neighbour, the packet sent before it; so a long way
//! does not make packets late, only an uneven one does. Packets are known by the bytes that they carry: the predecessor
//! of a packet is the one that ends where it begins.

use lasthop_core::time::{Span, Time};

use super::plan::{ArrivalPoint, Duplicates, Missing, RealtimePlan};

/// Bytes that have arrived without a gap.
#[derive(Clone, Copy, Debug)]
struct Range {
    start: u64,
    end: u64,
    /// When the packet arrived that holds the last of these bytes.
    last: Time,
    /// How many of its packets count and still wait for the application.
    waiting: u64,
}

/// How arrivals are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keep {
    /// Ranges as long as possible: the times of packets within are not needed again.
    Ranges,
    /// A range for each packet, as packets may come again.
    Packets,
    /// Ranges beyond the first gap: the rest has gone to the application.
    BeyondGap,
}

/// Counts delayed packets.
#[derive(Clone, Debug)]
pub struct Gaps {
    /// Packets that arrived and count.
    pub received: u64,
    /// How many of these were delayed.
    pub delayed: u64,
    threshold: Span,
    missing: Missing,
    keep: Keep,
    /// First byte of packet 0, which has no neighbour.
    first: u64,
    /// Next byte for the application.
    next: u64,
    /// Time of the last arrival, at the application if that is where packets arrive.
    last: Option<Time>,
    /// Ascending, never overlapping.
    ranges: Vec<Range>,
}

impl Gaps {
    /// Nothing has arrived. `first` is the number of the first byte; a `reliable` transport delivers in order.
    pub fn new(plan: &RealtimePlan, first: u64, reliable: bool) -> Gaps {
        let keep = match (plan.arrival, plan.duplicates) {
            (ArrivalPoint::Application, _) if reliable => Keep::BeyondGap,
            (ArrivalPoint::Transport, Duplicates::Counted) => Keep::Packets,
            // No transport hands anything to its application twice.
            _ => Keep::Ranges,
        };
        Gaps {
            received: 0,
            delayed: 0,
            threshold: plan.threshold,
            missing: plan.missing,
            keep,
            first,
            next: first,
            last: None,
            ranges: Vec::new(),
        }
    }

    /// Packets that arrived, count and were not delayed.
    pub fn timely(&self) -> u64 {
        self.received - self.delayed
    }

    /// The bytes `start..end` arrive at `now`; `fresh` if they were not here before, `counts` if they count.
    #[inline]
    pub fn arrive(&mut self, (start, end): (u64, u64), now: Time, fresh: bool, counts: bool) {
        if self.keep == Keep::BeyondGap {
            if fresh {
                self.take_in_order((start, end), now, counts);
            }
            return;
        }
        if !fresh && self.keep == Keep::Ranges {
            return;
        }
        let above = self.above(start);
        if counts {
            self.received += 1;
            self.delayed += u64::from(self.is_delayed(start, above, now));
        }
        self.last = Some(now);
        self.insert(above, Range { start, end, last: now, waiting: 0 });
    }

    /// Whether a packet with the bytes `start..end` has been here: a datagram that the network doubled comes twice, and
    /// no transport tells. One that delivers in order does.
    pub fn knows(&self, (start, end): (u64, u64)) -> bool {
        let above = self.above(start);
        let covers = |range: &Range| range.start <= start && range.end >= end;
        let near = &self.ranges[above.saturating_sub(1)..(above + 1).min(self.ranges.len())];
        self.keep != Keep::BeyondGap && near.iter().any(covers)
    }

    /// Index of the first range that does not start below `start`: usually there is none.
    #[inline]
    fn above(&self, start: u64) -> usize {
        match self.ranges.last() {
            Some(last) if last.start >= start => self.ranges.partition_point(|range| range.start < start),
            _ => self.ranges.len(),
        }
    }

    /// Whether a packet that starts at `start` and arrives now comes too late after its neighbour; the ranges below it
    /// are those before `above`.
    #[inline]
    fn is_delayed(&self, start: u64, above: usize, now: Time) -> bool {
        if start <= self.first {
            return false;
        }
        let below = above.checked_sub(1).map(|index| &self.ranges[index]);
        let predecessor = below.filter(|range| range.end >= start);
        let neighbour = match (predecessor, self.missing) {
            (Some(predecessor), _) => Some(predecessor.last),
            (None, Missing::NextLower) => below.map(|range| range.last),
            (None, Missing::Literal) => Some(Time::ZERO),
            (None, Missing::LastArrival) => self.last,
        };
        neighbour.is_some_and(|then| now.since(then) > self.threshold)
    }

    /// Adds a range before those from `above` on, and joins what touches it.
    #[inline]
    fn insert(&mut self, above: usize, mut new: Range) {
        if self.keep == Keep::Packets {
            match self.ranges.get_mut(above) {
                Some(again) if again.start == new.start => {
                    *again = Range { end: again.end.max(new.end), ..new }
                }
                _ => self.ranges.insert(above, new),
            }
            return;
        }
        let touching = self.ranges[above..].iter().take_while(|range| range.start <= new.end).count();
        for range in self.ranges.drain(above..above + touching) {
            new.waiting += range.waiting;
            if range.end > new.end {
                (new.end, new.last) = (range.end, range.last);
            }
        }
        match above.checked_sub(1).map(|index| &mut self.ranges[index]) {
            Some(below) if below.end >= new.start => {
                below.waiting += new.waiting;
                if new.end > below.end {
                    (below.end, below.last) = (new.end, new.last);
                }
            }
            _ => self.ranges.insert(above, new),
        }
    }

    /// The same for packets that arrive at the application in order: those behind a gap arrive when it is filled, and
    /// then all at once.
    fn take_in_order(&mut self, (start, end): (u64, u64), now: Time, counts: bool) {
        if start > self.next {
            let above = self.above(start);
            self.insert(above, Range { start, end, last: now, waiting: u64::from(counts) });
            return;
        }
        if counts {
            self.received += 1;
            let is_late = |then| now.since(then) > self.threshold;
            self.delayed += u64::from(start > self.first && self.last.is_some_and(is_late));
        }
        self.last = Some(now);
        self.next = self.next.max(end);
        let reached = self.ranges.iter().take_while(|range| range.start <= self.next).count();
        for range in self.ranges.drain(..reached) {
            self.received += range.waiting;
            self.next = self.next.max(range.end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::{DelayedOver, SentCount};
    use super::*;

    const SIZE: u64 = 1000;

    fn plan() -> RealtimePlan {
        RealtimePlan {
            threshold: Span::from_millis(100),
            missing: Missing::NextLower,
            arrival: ArrivalPoint::Transport,
            duplicates: Duplicates::Ignored,
            sent: SentCount::Transmitted,
            delayed_over: DelayedOver::Sent,
            success: Vec::new(),
            target: None,
            slot: Span::from_secs(1),
            playout: Span::from_secs(1),
            rebuffer: Span::from_millis(500),
        }
    }

    /// Packets of a reliable flow, by number and time in milliseconds; a number that came before is a duplicate.
    fn run(plan: &RealtimePlan, arrivals: &[(u64, u64)]) -> Gaps {
        let mut gaps = Gaps::new(plan, 1, true);
        let mut seen = Vec::new();
        for &(number, millis) in arrivals {
            let start = 1 + number * SIZE;
            let fresh = !seen.contains(&number);
            seen.push(number);
            gaps.arrive((start, start + SIZE), Time::ZERO + Span::from_millis(millis), fresh, true);
        }
        gaps
    }

    fn counts(plan: &RealtimePlan, arrivals: &[(u64, u64)]) -> (u64, u64) {
        let gaps = run(plan, arrivals);
        (gaps.received, gaps.delayed)
    }

    const VECTOR: [(u64, u64); 5] = [(0, 0), (1, 40), (2, 90), (4, 260), (5, 300)];
    const LATE: [(u64, u64); 6] = [(0, 0), (1, 40), (2, 90), (4, 260), (5, 300), (3, 310)];

    /// NV-8.4: packet 3 is lost.
    #[test]
    fn the_gap_over_a_lost_packet() {
        assert_eq!(counts(&plan(), &VECTOR), (5, 1));
        assert_eq!(counts(&RealtimePlan { missing: Missing::Literal, ..plan() }, &VECTOR), (5, 1));
    }

    /// NV-8.5: packet 3 comes after 5, 220 ms after 2.
    #[test]
    fn a_packet_that_comes_late_is_delayed_too() {
        assert_eq!(counts(&plan(), &LATE), (6, 2));
        let gaps = run(&plan(), &LATE);
        assert_eq!(gaps.ranges.len(), 1);
        // And the next one is compared with 5, which holds the last byte, not with 3.
        assert_eq!(gaps.ranges[0].last, Time::ZERO + Span::from_millis(300));
    }

    #[test]
    fn a_gap_of_just_the_threshold_is_timely() {
        assert_eq!(counts(&plan(), &[(0, 0), (1, 100), (2, 201)]), (3, 1));
    }

    #[test]
    fn what_stands_in_for_a_packet_that_has_not_arrived() {
        let with = |missing| RealtimePlan { missing, ..plan() };
        // 1 is lost and 2 comes soon after 0: only a time that was never set makes it late.
        let short = [(0, 500), (2, 550)];
        assert_eq!(counts(&with(Missing::NextLower), &short), (2, 0));
        assert_eq!(counts(&with(Missing::Literal), &short), (2, 1));
        assert_eq!(counts(&with(Missing::LastArrival), &short), (2, 0));
        // 3 comes soon after 5, but long after 0: 1 and 2 have not arrived.
        let overtaken = [(0, 500), (5, 550), (3, 640)];
        assert_eq!(counts(&with(Missing::NextLower), &overtaken), (3, 1));
        assert_eq!(counts(&with(Missing::LastArrival), &overtaken), (3, 0));
        // Nothing below has arrived.
        let headless = [(1, 500), (2, 550)];
        assert_eq!(counts(&with(Missing::NextLower), &headless), (2, 0));
        assert_eq!(counts(&with(Missing::LastArrival), &headless), (2, 0));
        assert_eq!(counts(&with(Missing::Literal), &headless), (2, 1));
        // The start of the run is the time that was never set.
        assert_eq!(counts(&with(Missing::Literal), &[(1, 60), (2, 70)]), (2, 0));
    }

    #[test]
    fn the_first_packet_is_timely() {
        assert_eq!(counts(&RealtimePlan { missing: Missing::Literal, ..plan() }, &[(0, 900)]), (1, 0));
        assert_eq!(
            counts(&RealtimePlan { missing: Missing::LastArrival, ..plan() }, &[(1, 0), (0, 900)]),
            (2, 0)
        );
    }

    #[test]
    fn the_application_gets_packets_behind_a_gap_at_once() {
        let application = RealtimePlan { arrival: ArrivalPoint::Application, ..plan() };
        // 3 fills the gap at 310 ms, 220 ms after 2; 4 and 5 are delivered with it.
        assert_eq!(counts(&application, &LATE), (6, 1));
        // What waits for 3 has not arrived.
        assert_eq!(counts(&application, &VECTOR), (3, 0));
        let gaps = run(&application, &[(0, 0), (2, 20), (1, 30), (3, 131)]);
        assert_eq!((gaps.received, gaps.delayed), (4, 1), "101 ms after the delivery of 2");
        // An unreliable transport delivers what comes.
        let mut datagrams = Gaps::new(&application, 0, false);
        for (number, millis) in VECTOR {
            let start = number * SIZE;
            datagrams.arrive((start, start + SIZE), Time::ZERO + Span::from_millis(millis), true, true);
        }
        assert_eq!((datagrams.received, datagrams.delayed), (5, 1));
    }

    #[test]
    fn duplicates() {
        // 1 comes again 150 ms after 0, and 2 soon after that.
        let twice = [(0, 0), (1, 40), (1, 150), (2, 160)];
        assert_eq!(counts(&plan(), &twice), (3, 1), "2 is 120 ms after the first 1");
        let counted = RealtimePlan { duplicates: Duplicates::Counted, ..plan() };
        assert_eq!(counts(&counted, &twice), (4, 1), "the second 1 is late, 2 is 10 ms after it");
        // A duplicate of a packet within a long run is compared with its own predecessor.
        let old = [(0, 0), (1, 40), (2, 60), (3, 70), (1, 90), (3, 200)];
        assert_eq!(counts(&counted, &old), (6, 1), "1 is 90 ms after 0, the second 3 is 140 ms after 2");
        let application = RealtimePlan { arrival: ArrivalPoint::Application, ..counted };
        assert_eq!(counts(&application, &twice), (3, 1), "the application gets nothing twice");
    }

    #[test]
    fn packets_outside_the_window_are_neighbours_all_the_same() {
        let mut gaps = Gaps::new(&plan(), 0, false);
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        gaps.arrive((0, 10), at(0), true, false);
        gaps.arrive((10, 20), at(150), true, true);
        assert_eq!((gaps.received, gaps.delayed), (1, 1));
    }

    #[test]
    fn segments_of_any_size() {
        let mut gaps = Gaps::new(&plan(), 1, true);
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        gaps.arrive((1, 501), at(0), true, true);
        gaps.arrive((1501, 1600), at(10), true, true);
        // Sent again as one segment that holds what was there and what was not.
        gaps.arrive((1, 1501), at(300), true, true);
        gaps.arrive((1600, 1700), at(320), true, true);
        assert_eq!((gaps.received, gaps.delayed), (4, 1), "310 ms after the segment before it");
        assert_eq!(gaps.ranges.len(), 1);
    }

    #[test]
    fn packets_in_order_take_one_range() {
        let gaps = run(&plan(), &[(0, 0), (1, 10), (2, 20), (3, 30)]);
        assert_eq!((gaps.ranges.len(), gaps.ranges.capacity() <= 4), (1, true));
    }

    /// A datagram that the network doubled is known again, alone and within what has become one range.
    #[test]
    fn doubled_datagrams_are_known() {
        let mut gaps = Gaps::new(&plan(), 0, false);
        for (number, known) in
            [(0, false), (2, false), (2, true), (0, true), (1, false), (1, true), (2, true)]
        {
            let range = (number * SIZE, (number + 1) * SIZE);
            assert_eq!(gaps.knows(range), known, "{number}");
            gaps.arrive(range, Time(number), !known, true);
        }
        assert_eq!(gaps.received, 3);
    }
}
