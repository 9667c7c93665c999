//! Enhanced distributed channel access (IEEE 802.11-2016 section 10.22.2): the access functions of a station, one for
//! each category, and when each of them may transmit.
//!
//! `station.rs` asks here in place of its own backoff where a station has these; `exchange.rs` decides what is sent.
//! A function counts a slot at the end of its AIFS already and transmits at a later boundary: with a counter of `c` it
//! starts `c` slots behind the AIFS, and when another starts `j` slots behind it, the counter has lost `j + 1`.

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use super::station::NEVER;
use crate::queue::Waiting;

/// An access category, in ascending order of priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    /// Background.
    Background,
    /// Best effort.
    BestEffort,
    /// Video.
    Video,
    /// Voice.
    Voice,
}

/// Categories there are.
pub(super) const CATEGORIES: usize = 4;
/// The function that sends beacons, before all categories.
pub(super) const BEACONS: usize = CATEGORIES;

impl Category {
    /// All of them, in ascending order of priority.
    pub const ALL: [Category; CATEGORIES] =
        [Category::Background, Category::BestEffort, Category::Video, Category::Voice];

    /// The category of a user priority (table 10-1).
    pub fn of_priority(priority: u8) -> Category {
        match priority {
            1 | 2 => Category::Background,
            4 | 5 => Category::Video,
            6 | 7 => Category::Voice,
            _ => Category::BestEffort,
        }
    }

    /// The traffic identifier that its frames bear: the lowest user priority of the category.
    pub fn traffic_identifier(self) -> u8 {
        match self {
            Category::Background => 1,
            Category::BestEffort => 0,
            Category::Video => 4,
            Category::Voice => 6,
        }
    }

    /// Its name in scenarios and results.
    pub fn name(self) -> &'static str {
        match self {
            Category::Background => "background",
            Category::BestEffort => "best-effort",
            Category::Video => "video",
            Category::Voice => "voice",
        }
    }
}

/// How a code point of differentiated services becomes a user priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// As Linux does it: RFC 8325 where that speaks of the code point, its three highest bits elsewhere.
    Linux,
    /// RFC 8325, and best effort for what it does not speak of.
    Rfc8325,
    /// The three highest bits, as before RFC 8325.
    TopBits,
}

impl Marks {
    /// The user priority of a code point (RFC 8325 section 4.3).
    pub fn priority(self, mark: u8) -> u8 {
        if self == Marks::TopBits {
            return mark >> 3;
        }
        match mark {
            0 | 10 | 12 | 14 | 16 => 0,
            8 => 1,
            18 | 20 | 22 => 3,
            24 | 26 | 28 | 30 | 32 | 34 | 36 | 38 => 4,
            40 => 5,
            44 | 46 => 6,
            48 | 56 => 7,
            _ if self == Marks::Linux => mark >> 3,
            _ => 0,
        }
    }
}

/// By which parameters a category takes its turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessPlan {
    /// Number of slots after SIFS for which the medium must be idle.
    pub aifsn: u32,
    /// Least contention window.
    pub cw_min: u32,
    /// Greatest contention window.
    pub cw_max: u32,
    /// How long a transmission opportunity lasts at most; zero for a single exchange.
    pub txop: Span,
}

/// One access function at work.
#[derive(Clone, Debug)]
pub(super) struct Function {
    pub(super) plan: AccessPlan,
    aifs: Span,
    /// Slots left, if it counts down.
    pub(super) backoff: Option<u32>,
    /// No countdown starts before.
    drawn: Time,
    /// The end of the AIFS from which it counts.
    count_from: Time,
    /// When it transmits, as things stand.
    pub(super) access: Time,
    pub(super) cw: u32,
    /// Failures in a row.
    pub(super) failures: u32,
    /// Packets that wait for the driver, in common for all receivers.
    pub(super) queue: Waiting,
    /// When it was last done with a packet.
    pub(super) freed: Time,
    /// Packets that the driver holds and has not sent yet.
    pub(super) staged: usize,
    /// Ports that have something to send, in the order of their turns.
    pub(super) turns: std::collections::VecDeque<u16>,
    /// Ports whose own queue has something for the driver, in the order of their turns.
    pub(super) asking: std::collections::VecDeque<u16>,
    /// A beacon waits; of the function of beacons only.
    pub(super) beacon: bool,
}

impl Function {
    pub(super) fn new(plan: AccessPlan, (sifs, slot): (Span, Span), queue: Waiting) -> Function {
        Function {
            plan,
            aifs: sifs + slot * u64::from(plan.aifsn),
            backoff: None,
            drawn: Time::ZERO,
            count_from: Time::ZERO,
            access: NEVER,
            cw: plan.cw_min,
            failures: 0,
            queue,
            freed: Time::ZERO,
            staged: 0,
            turns: std::collections::VecDeque::new(),
            asking: std::collections::VecDeque::new(),
            beacon: false,
        }
    }

    /// Whether it wants to transmit.
    #[inline]
    pub(super) fn has_work(&self) -> bool {
        self.beacon || !self.turns.is_empty()
    }

    /// Draws a backoff, which counts from `from` on at the earliest.
    pub(super) fn draw(&mut self, slots: &mut Stream, from: Time) {
        self.backoff = Some(slots.below(u64::from(self.cw) + 1) as u32);
        self.drawn = from;
    }

    /// Doubles the contention window after a failure; behind `limit` of them in a row it begins anew (10.23.2.2).
    pub(super) fn widen(&mut self, limit: u32) {
        if self.failures >= limit {
            self.rest();
        } else {
            self.failures += 1;
            self.cw = (2 * self.cw + 1).min(self.plan.cw_max);
        }
    }

    /// The least contention window again.
    pub(super) fn rest(&mut self) {
        self.failures = 0;
        self.cw = self.plan.cw_min;
    }

    /// When it may transmit if the medium is idle since `idle_since`; `longer` makes AIFS an EIFS.
    #[inline]
    fn reschedule(&mut self, (idle_since, longer): (Time, Span), slot: Span, now: Time) {
        self.access = NEVER;
        let run_from = idle_since + self.aifs + longer;
        if let Some(slots) = self.backoff {
            self.count_from = run_from.max(self.drawn);
            self.access = self.count_from + slot * u64::from(slots);
        } else if self.has_work() {
            self.count_from = run_from;
            self.access = run_from.max(now);
        }
    }

    /// The medium turns busy at `at`; what it would start by then it still starts.
    #[inline]
    fn pause(&mut self, slot: Span, at: Time, slots: &mut Stream) {
        if self.access == NEVER || self.access <= at {
            return;
        }
        self.access = NEVER;
        if let Some(left) = &mut self.backoff {
            if at >= self.count_from {
                let boundaries = at.since(self.count_from).0 / slot.0 + 1;
                *left -= boundaries.min(u64::from(*left)) as u32;
            }
        } else {
            self.draw(slots, at);
        }
    }
}

/// The access functions of a station.
#[derive(Clone, Debug)]
pub(super) struct Functions {
    /// By category, then that of beacons, if it sends any.
    pub(super) list: Vec<Function>,
}

impl Functions {
    /// When the first of them may transmit.
    #[inline]
    pub(super) fn reschedule(&mut self, since: (Time, Span), slot: Span, now: Time) -> Time {
        let mut first = NEVER;
        for function in &mut self.list {
            function.reschedule(since, slot, now);
            first = first.min(function.access);
        }
        first
    }

    /// The medium turns busy at `at`: when the first transmits that does so despite of it, if one does.
    #[inline]
    pub(super) fn pause(&mut self, slot: Span, at: Time, slots: &mut Stream) -> Time {
        let mut first = NEVER;
        for function in &mut self.list {
            function.pause(slot, at, slots);
            first = first.min(function.access);
        }
        first
    }

    /// Whether none of them has anything to send or counts down.
    #[inline]
    pub(super) fn are_idle(&self) -> bool {
        self.list.iter().all(|function| function.backoff.is_none() && !function.has_work())
    }

    /// Those whose time has come `now`: the one of highest priority wins the station's access and is returned. The
    /// others have collided with it inside the station and widen their windows.
    pub(super) fn contend(&mut self, now: Time, limit: u32, slots: &mut Stream) -> Option<usize> {
        let mut winner = None;
        for index in (0..self.list.len()).rev() {
            let function = &mut self.list[index];
            if function.access > now {
                continue;
            }
            function.access = NEVER;
            if !function.has_work() {
                // A backoff behind the last transmission is over.
                function.backoff = None;
            } else if winner.is_none() {
                function.backoff = None;
                winner = Some(index);
            } else {
                function.widen(limit);
                function.draw(slots, now);
            }
        }
        winner
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{Discipline, Waiting};

    const SLOT: Span = Span(9_000);

    fn functions(plans: &[(u32, u32)]) -> Functions {
        let function = |&(aifsn, cw_min): &(u32, u32)| {
            let plan = AccessPlan { aifsn, cw_min, cw_max: 1023, txop: Span::ZERO };
            let mut function =
                Function::new(plan, (Span(16_000), SLOT), Waiting::new(&Discipline::Fifo, "", 0));
            function.turns.push_back(0);
            function
        };
        Functions { list: plans.iter().map(function).collect() }
    }

    /// At 5 GHz best effort with a counter of 3 and voice with 4 both begin 70 us after the medium became idle: voice
    /// wins, and the window of best effort doubles.
    #[test]
    fn the_higher_category_wins_inside_a_station() {
        let mut both = functions(&[(3, 15), (2, 3)]);
        (both.list[0].backoff, both.list[1].backoff) = (Some(3), Some(4));
        let first = both.reschedule((Time::ZERO, Span::ZERO), SLOT, Time::ZERO);
        assert_eq!(first, Time(70_000));
        assert_eq!(both.list[0].access, both.list[1].access);
        let winner = both.contend(first, 7, &mut Stream::new(1, "slots"));
        assert_eq!(winner, Some(1));
        assert_eq!((both.list[0].cw, both.list[1].cw), (31, 3));
        assert!(both.list[0].backoff.is_some());
    }

    /// RFC 8325 section 4.3, and what Linux does with the others.
    #[test]
    fn code_points_become_priorities() {
        let table =
            [(0, 0), (8, 1), (10, 0), (16, 0), (20, 3), (24, 4), (28, 4), (34, 4), (40, 5), (46, 6), (48, 7)];
        for (mark, priority) in table {
            assert_eq!(Marks::Rfc8325.priority(mark), priority, "{mark}");
            assert_eq!(Marks::Linux.priority(mark), priority, "{mark}");
        }
        assert_eq!((Marks::Linux.priority(45), Marks::Rfc8325.priority(45)), (5, 0));
        assert_eq!((Marks::TopBits.priority(46), Marks::TopBits.priority(10)), (5, 1));
        let categories = [0, 1, 2, 3, 4, 5, 6, 7].map(Category::of_priority);
        let [be, bk, vi, vo] = [Category::BestEffort, Category::Background, Category::Video, Category::Voice];
        assert_eq!(categories, [be, bk, bk, be, vi, vi, vo, vo]);
    }

    /// A counter loses one slot at the end of the AIFS, and one at each boundary up to the start of another.
    #[test]
    fn slots_are_counted_at_their_boundaries() {
        let slots = &mut Stream::new(1, "slots");
        for (heard, left) in [(42_999, 5), (43_000, 4), (51_999, 4), (52_000, 3), (70_000, 1)] {
            let mut one = functions(&[(3, 15)]);
            one.list[0].backoff = Some(5);
            one.reschedule((Time::ZERO, Span::ZERO), SLOT, Time::ZERO);
            assert_eq!(one.pause(SLOT, Time(heard), slots), NEVER);
            assert_eq!(one.list[0].backoff, Some(left), "heard at {heard}");
        }
        // At 88 us it starts itself, and collides.
        let mut one = functions(&[(3, 15)]);
        one.list[0].backoff = Some(5);
        one.reschedule((Time::ZERO, Span::ZERO), SLOT, Time::ZERO);
        assert_eq!(one.pause(SLOT, Time(88_000), slots), Time(88_000));
    }

    /// A window that has reached its end begins anew when the failures pass their limit.
    #[test]
    fn windows_double_up_to_the_limit() {
        let mut one = functions(&[(3, 15)]);
        let mut windows = Vec::new();
        for _ in 0..8 {
            one.list[0].widen(7);
            windows.push(one.list[0].cw);
        }
        assert_eq!(windows, [31, 63, 127, 255, 511, 1023, 1023, 15]);
    }
}
