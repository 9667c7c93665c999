//! When waiting packets arrive: a calendar of narrow days whose entries are the packets themselves.
//!
//! Scheduling a packet links it into the list of its day; no comparison is made. Only when a day begins are its few
//! packets sorted by (time, order). Packets beyond the horizon wait in a heap. The cost per packet does not grow
//! with the number that wait.
//!
//! Packets of the same time and order keep that in which they were scheduled, without a number that says so: lists are
//! last in, first out, as is the current day, the sort is stable, and packets leave the heap before another can be
//! scheduled for their day.

use std::cmp::Ordering;

use crate::event::{Event, EventQueue};
use crate::packet::{NONE, Packet, PacketArena};
use crate::prefetch::prefetch;
use crate::time::Time;

/// A day is 2^14 ns = 16 us long: at the rates of interest it sees a handful of arrivals at most.
const DAY_BITS: u32 = 14;
/// Days in the calendar: a horizon of 134 ms, beyond most one-way delays.
const DAYS: usize = 8192;
/// On days with fewer arrivals everything is in the caches anyway, and preparing for the next day costs more than it
/// saves.
const MANY_ARRIVALS: usize = 4;

/// The calendar of one run.
#[derive(Clone, Debug)]
pub struct Calendar {
    /// Arrivals up to the end of the current day, the next one last.
    today: Vec<Event>,
    /// First packet of each day's list; days are numbered modulo [`DAYS`].
    days: Box<[u32; DAYS]>,
    /// One bit per day that has packets.
    busy: Box<[u64; DAYS / 64]>,
    /// Arrivals beyond the horizon, ordered by time and by how many came here before them.
    later: EventQueue,
    /// How many have come there so far.
    postponed: u64,
    /// Number of the current day.
    day: u64,
    /// Number of the next day with packets in `days`; [`NEVER`] if there is none.
    next_day: u64,
    /// Packets in `days`.
    waiting: usize,
    /// The next packet of that day that [`Calendar::upcoming`] names; [`NONE`] if there is none left.
    ahead: u32,
}

/// No day.
const NEVER: u64 = u64::MAX;

impl Default for Calendar {
    #[expect(clippy::large_stack_arrays, reason = "32 kB once per run, of a length that the compiler knows")]
    fn default() -> Self {
        Calendar {
            today: Vec::new(),
            days: Box::new([NONE; DAYS]),
            busy: Box::new([0; DAYS / 64]),
            later: EventQueue::default(),
            postponed: 0,
            day: 0,
            next_day: NEVER,
            waiting: 0,
            ahead: NONE,
        }
    }
}

/// Number of the day of a time.
#[inline]
fn day_of(time: Time) -> u64 {
    time.0 >> DAY_BITS
}

/// The event of a packet that waits.
#[inline]
fn event_of(packet: &Packet, index: u32) -> Event {
    Event::arrival(packet.wait.at, packet.wait.order, index)
}

impl Calendar {
    /// Schedules the packet at `index`, whose `wait.at` and `wait.order` are set.
    #[inline]
    pub fn schedule(&mut self, packets: &mut PacketArena, index: u32) {
        let packet = packets.get_mut(index);
        let day = day_of(packet.wait.at);
        // One comparison says whether the day lies behind the current one and before the horizon.
        if day.wrapping_sub(self.day + 1) >= DAYS as u64 - 1 {
            self.schedule_elsewhere(packet, index, day);
            return;
        }
        let slot = day as usize % DAYS;
        packet.wait.next = std::mem::replace(&mut self.days[slot], index);
        self.busy[slot / 64] |= 1 << (slot % 64);
        self.next_day = self.next_day.min(day);
        self.waiting += 1;
    }

    /// The same for a packet of the current day, or of one beyond the horizon.
    #[cold]
    fn schedule_elsewhere(&mut self, packet: &Packet, index: u32, day: u64) {
        if day <= self.day {
            let event = event_of(packet, index);
            let place = self.today.partition_point(|&other| event.is_before(other));
            self.today.insert(place, event);
        } else {
            self.postponed += 1;
            self.later.push(Event::arrival(packet.wait.at, self.postponed, index));
        }
    }

    /// The next arrival; moves on to the next busy day if this one is over.
    #[inline]
    pub fn peek(&mut self, packets: &mut PacketArena) -> Option<Event> {
        if self.today.is_empty() {
            self.turn_page(packets);
        }
        self.today.last().copied()
    }

    /// Removes the next arrival and returns the index of its packet. Call after [`Calendar::peek`].
    #[inline]
    pub fn pop(&mut self) -> Option<u32> {
        self.today.pop().map(Event::packet)
    }

    /// Goes to the next day with arrivals.
    #[inline]
    fn turn_page(&mut self, packets: &mut PacketArena) {
        if self.next_day == NEVER {
            // Nothing within the horizon: jump to the first day beyond it.
            let Some(next) = self.later.peek() else { return };
            self.day = day_of(next.time());
        } else {
            self.day = self.next_day;
            let slot = self.day as usize % DAYS;
            let mut index = std::mem::replace(&mut self.days[slot], NONE);
            self.busy[slot / 64] ^= 1 << (slot % 64);
            while index != NONE {
                let packet = packets.get(index);
                self.today.push(event_of(packet, index));
                index = packet.wait.next;
            }
            self.waiting -= self.today.len();
            if self.today.len() > 1 {
                // Stable: of two that are the same the first one scheduled stays behind, and leaves first.
                self.today.sort_by(|left, right| match right.is_before(*left) {
                    true => Ordering::Less,
                    false if left.is_before(*right) => Ordering::Greater,
                    false => Ordering::Equal,
                });
            }
            self.look_ahead(packets);
        }
        while let Some(event) = self.later.peek()
            && day_of(event.time()) < self.day + DAYS as u64
        {
            self.later.pop();
            self.schedule(packets, event.packet());
        }
    }

    /// Finds the next busy day and asks for its first packet.
    #[inline]
    fn look_ahead(&mut self, packets: &PacketArena) {
        self.ahead = NONE;
        if self.waiting == 0 {
            self.next_day = NEVER;
            return;
        }
        let start = (self.day as usize + 1) % DAYS;
        let (mut word, bit) = (start / 64, start % 64);
        let mut bits = self.busy[word] & (u64::MAX << bit);
        while bits == 0 {
            word = (word + 1) % (DAYS / 64);
            bits = self.busy[word];
        }
        let slot = word * 64 + bits.trailing_zeros() as usize;
        self.next_day = self.day + 1 + ((slot + DAYS - start) % DAYS) as u64;
        prefetch(packets.get(self.days[slot]));
        if self.today.len() >= MANY_ARRIVALS {
            self.ahead = self.days[slot];
        }
    }

    /// A packet that arrives on the next day, so that a caller can prefetch it; each is named once, and those
    /// that were scheduled late are left out. `None` if all were named, and where preparing does not pay.
    #[inline]
    pub fn upcoming(&mut self, packets: &PacketArena) -> Option<u32> {
        if self.ahead == NONE {
            return None;
        }
        // Asked for when the packet before it was named.
        let next = packets.get(self.ahead).wait.next;
        if next != NONE {
            prefetch(packets.get(next));
        }
        Some(std::mem::replace(&mut self.ahead, next))
    }

    /// Indices of all packets that still wait, in no particular order.
    pub fn remaining(&self, packets: &PacketArena) -> Vec<u32> {
        let mut indices: Vec<u32> =
            self.today.iter().copied().chain(self.later.iter()).map(Event::packet).collect();
        for &first in self.days.iter() {
            let mut index = first;
            while index != NONE {
                indices.push(index);
                index = packets.get(index).wait.next;
            }
        }
        indices
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packet::{Packet, Wait};

    /// All that wait are listed at each step, which takes an interpreter seconds.
    const STEPS: usize = if cfg!(miri) { 20 } else { 300 };

    proptest! {
        /// Against a sorted list: times within a day, across days, and beyond the horizon, scheduled while time moves
        /// on, many of them the same: then the first one scheduled comes first.
        #[test]
        fn agrees_with_a_sorted_list(
            steps in prop::collection::vec((0u32..4, 0u64..8, 0u64..3, any::<bool>()), 1..STEPS),
        ) {
            let mut calendar = Calendar::default();
            let mut packets = PacketArena::default();
            let mut model: Vec<(u64, u64, u64)> = Vec::new();
            let mut now = 0;
            for ((scale, offset, order, pop), seq) in steps.into_iter().zip(1u64..) {
                if pop && !model.is_empty() {
                    model.sort_unstable();
                    let (at, _, seq) = model.remove(0);
                    let event = calendar.peek(&mut packets);
                    prop_assert_eq!(event.map(Event::time), Some(Time(at)));
                    let index = calendar.pop().unwrap_or(NONE);
                    prop_assert_eq!(packets.get(index).seq, seq);
                    packets.remove(index);
                    now = at;
                } else {
                    // At most 1 us, 33 us, 1 ms or 34 s from the present, on a grid that others meet too.
                    let shift = [7, 12, 17, 32][scale as usize];
                    let at = (((now >> shift) + offset) << shift).max(now);
                    let wait = Wait { at: Time(at), order, ..Wait::default() };
                    let index = packets.insert(Packet { seq, wait, ..Packet::default() });
                    calendar.schedule(&mut packets, index);
                    model.push((at, order, seq));
                }
                prop_assert_eq!(calendar.remaining(&packets).len(), model.len());
            }
        }
    }
}
