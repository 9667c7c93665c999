//! The event queue: what happens next, ordered by time and, within an instant, by rules that make a run a pure function
//! of its input: timers by insertion, arrivals by [`arrival_order`].
//!
//! A four-ary heap of 16-byte keys: a node's children share one cache line. Timers and applications live in one such
//! heap; packets, of which there are many more, in a [`crate::calendar::Calendar`] that uses two small ones.

use crate::fingerprint::fold;
use crate::time::Time;

/// Bits of the key that hold the target.
const TARGET_BITS: u32 = 26;
/// Bits of the target that hold the index; the rest hold the kind.
const INDEX_BITS: u32 = 23;
/// Bits of the key that order the events of one instant.
const ORDER_BITS: u32 = 46;
/// Bits of the key that hold the time: two years in nanoseconds.
const TIME_BITS: u32 = 128 - ORDER_BITS - TARGET_BITS;

/// Most events that one run can order; beyond this the insertion number would overflow.
pub const MAX_EVENTS: u64 = 1 << ORDER_BITS;
/// Most entities of one kind that can be addressed.
pub const MAX_INDEX: u32 = (1 << INDEX_BITS) - 1;
/// Most packets that can wait.
pub const MAX_PACKETS: u32 = (1 << TARGET_BITS) - 1;

/// Who an event is for: a kind that the caller defines (0..8) and an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target(u32);

impl Target {
    /// The entity `index` of the kind `kind`. Panics beyond [`MAX_INDEX`] and seven kinds: an event for another
    /// entity would be worse. The builder of a world refuses plans that need more.
    #[inline]
    pub fn new(kind: u32, index: u32) -> Target {
        assert!(kind < 1 << (TARGET_BITS - INDEX_BITS) && index <= MAX_INDEX, "target out of range");
        Target(kind << INDEX_BITS | index)
    }

    /// The kind.
    #[inline]
    pub fn kind(self) -> u32 {
        self.0 >> INDEX_BITS
    }

    /// The index within the kind.
    #[inline]
    pub fn index(self) -> usize {
        (self.0 & MAX_INDEX) as usize
    }
}

/// An event: 56 bits of time, 46 that order the events of one instant, 26 of target; comparing the integer compares
/// (time, order) and, where that is the same, the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event(u128);

impl Event {
    #[inline]
    fn pack(time: Time, order: u64, target: u32) -> Event {
        // What lies beyond two years never happens: runs are shorter.
        let time = time.0.min((1 << TIME_BITS) - 1);
        Event(
            u128::from(time) << (ORDER_BITS + TARGET_BITS)
                | u128::from(order) << TARGET_BITS
                | u128::from(target),
        )
    }

    /// The event for `target` at `time` with its insertion number.
    #[inline]
    pub fn new(time: Time, order: u64, target: Target) -> Event {
        Event::pack(time, order, target.0)
    }

    /// The arrival of the packet in slot `packet`; see [`arrival_order`].
    #[inline]
    pub fn arrival(time: Time, order: u64, packet: u32) -> Event {
        Event::pack(time, order, packet)
    }

    /// Whether it happens before `other`, the target apart: of two neither does if only that differs.
    #[inline]
    pub(crate) fn is_before(self, other: Event) -> bool {
        self.0 >> TARGET_BITS < other.0 >> TARGET_BITS
    }

    /// When it happens.
    #[inline]
    pub fn time(self) -> Time {
        Time((self.0 >> (ORDER_BITS + TARGET_BITS)) as u64)
    }

    /// Whom it is for.
    #[inline]
    pub fn target(self) -> Target {
        Target(self.0 as u32 & ((1 << TARGET_BITS) - 1))
    }

    /// The packet that arrives.
    #[inline]
    pub fn packet(self) -> u32 {
        self.0 as u32 & ((1 << TARGET_BITS) - 1)
    }
}

/// Bits of an arrival's order that are drawn.
const LOT_BITS: u32 = ORDER_BITS - 1;

/// What orders the arrivals of one instant (decision 0013).
///
/// Those at an endpoint come `first`, because it may answer within the instant. Arrivals from different
/// `feeder`s follow a hash of the instant and the feeder: it is unbiased, and does not depend on when the
/// arrivals were computed. A feeder is known by a number made of its name, so that it draws the same lot in a
/// larger network. Those of one feeder have the same order: a container must keep the order in which they were
/// scheduled.
#[inline]
pub fn arrival_order(time: Time, feeder: u32, first: bool) -> u64 {
    let mixed = (time.0 ^ u64::from(feeder).rotate_left(32)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let lot = fold(mixed ^ (mixed >> 32), 0xd1b5_4a32_d192_ed03) >> (64 - LOT_BITS);
    u64::from(!first) << LOT_BITS | lot
}

/// Pending events.
#[derive(Clone, Debug, Default)]
pub struct EventQueue {
    heap: Vec<Event>,
}

impl EventQueue {
    /// Number of pending events.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// The next event.
    #[inline]
    pub fn peek(&self) -> Option<Event> {
        self.heap.first().copied()
    }

    /// Adds an event.
    #[inline]
    pub fn push(&mut self, event: Event) {
        let mut place = self.heap.len();
        self.heap.push(event);
        while place > 0 {
            let parent = (place - 1) / 4;
            if self.heap[parent] <= event {
                break;
            }
            self.heap[place] = self.heap[parent];
            place = parent;
        }
        self.heap[place] = event;
    }

    /// Removes the next event.
    #[inline]
    pub fn pop(&mut self) -> Option<Event> {
        let top = *self.heap.first()?;
        let last = self.heap.pop()?;
        if !self.heap.is_empty() {
            self.sift_down(last);
        }
        Some(top)
    }

    /// The pending events in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = Event> {
        self.heap.iter().copied()
    }

    /// Lets `event` sink from the root.
    #[inline]
    fn sift_down(&mut self, event: Event) {
        let heap = self.heap.as_mut_slice();
        let mut place = 0;
        loop {
            let first = 4 * place + 1;
            let (child, least) = if let Some(children) = heap.get(first..first + 4) {
                let left = if children[1] < children[0] { (1, children[1]) } else { (0, children[0]) };
                let right = if children[3] < children[2] { (3, children[3]) } else { (2, children[2]) };
                let (offset, least) = if right.1 < left.1 { right } else { left };
                (first + offset, least)
            } else {
                let Some(rest) = heap.get(first..).filter(|rest| !rest.is_empty()) else { break };
                let mut best = (first, rest[0]);
                for (offset, &candidate) in rest.iter().enumerate().skip(1) {
                    if candidate < best.1 {
                        best = (first + offset, candidate);
                    }
                }
                best
            };
            if event <= least {
                break;
            }
            heap[place] = least;
            place = child;
        }
        heap[place] = event;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn events_of_one_instant_run_in_insertion_order() {
        let mut queue = EventQueue::default();
        for index in 0..100 {
            queue.push(Event::new(Time(5), u64::from(index), Target::new(1, index)));
        }
        for index in 0..100 {
            assert_eq!(queue.pop().map(|event| event.target().index()), Some(index));
        }
        assert!(queue.is_empty());
    }

    #[test]
    fn parts_survive_packing() {
        let event = Event::new(Time(123_456_789_012), MAX_EVENTS - 1, Target::new(7, MAX_INDEX));
        assert_eq!(event.time(), Time(123_456_789_012));
        assert_eq!((event.target().kind(), event.target().index()), (7, MAX_INDEX as usize));
    }

    #[test]
    fn a_packet_survives_packing() {
        let event = Event::arrival(Time(5), MAX_EVENTS - 1, MAX_PACKETS);
        assert_eq!((event.time(), event.packet()), (Time(5), MAX_PACKETS));
        assert_eq!(Event::new(Time::MAX, 1, Target::new(1, 1)).time(), Time((1 << TIME_BITS) - 1));
    }

    /// Whichever two feeders meet, each goes first about as often; endpoints come before all.
    #[test]
    fn lots_favour_no_event() {
        for (one, other) in [(0, 1), (1, 2), (3, 4_000_000), (1 << 29, 7)] {
            let first =
                |time: u64| arrival_order(Time(time), one, false) < arrival_order(Time(time), other, false);
            let lots = if cfg!(miri) { 1_000 } else { 10_000 };
            let won = (0..lots).filter(|&step| first(step * 800_000)).count() as u64;
            // Half of them, within four standard deviations.
            let most = lots.isqrt() * 2;
            assert!(won.abs_diff(lots / 2) <= most, "{one} against {other}: {won} of {lots}");
        }
        assert!((0..100).all(|feeder| {
            arrival_order(Time(9), feeder, true) < arrival_order(Time(9), feeder + 1, false)
        }));
    }

    proptest! {
        /// The heap against a sorted list, with a mixture of pushes and pops.
        #[test]
        fn agrees_with_a_sorted_list(steps in prop::collection::vec((0u64..50, any::<bool>()), 1..200)) {
            let mut queue = EventQueue::default();
            let mut model: Vec<Event> = Vec::new();
            for ((time, pop), order) in steps.into_iter().zip(0u64..) {
                let event = Event::new(Time(time), order, Target::new(0, 3));
                if pop {
                    prop_assert_eq!(queue.pop(), (!model.is_empty()).then(|| model.remove(0)));
                } else {
                    queue.push(event);
                    model.push(event);
                }
                model.sort();
                prop_assert_eq!(queue.peek(), model.first().copied());
                prop_assert_eq!(queue.len(), model.len());
            }
        }
    }
}
