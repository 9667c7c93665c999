//! When waiting packets arrive: a calendar of narrow days whose entries are the packets themselves.
//!
//! Scheduling a packet links it into the list of its day; no comparison is made. Only when a day begins are its few
//! packets sorted by (time, order). Packets beyond the horizon wait in a heap. The cost per packet does not grow
//! with the number that wait.

use crate::event::{Event, EventQueue};
use crate::packet::{NONE, PacketArena};
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
    /// Arrivals beyond the horizon.
    later: EventQueue,
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
fn event_of(packets: &PacketArena, index: u32) -> Event {
    let packet = packets.get(index);
    Event::arrival(packet.wait.at, packet.wait.order, index)
}

impl Calendar {
    /// Schedules the packet at `index`, whose `wait.at` and `wait.order` are set.
    #[inline]
    pub fn schedule(&mut self, packets: &mut PacketArena, index: u32) {
        let day = day_of(packets.get(index).wait.at);
        if day <= self.day {
            self.enter_today(event_of(packets, index));
        } else if day < self.day + DAYS as u64 {
            self.enter(packets, index, day);
        } else {
            self.later.push(event_of(packets, index));
        }
    }

    /// Puts an arrival of the current day in its place.
    fn enter_today(&mut self, event: Event) {
        let place = self.today.partition_point(|&other| other > event);
        self.today.insert(place, event);
    }

    /// Puts a packet into the list of its day.
    #[inline]
    fn enter(&mut self, packets: &mut PacketArena, index: u32, day: u64) {
        let slot = day as usize % DAYS;
        packets.get_mut(index).wait.next = self.days[slot];
        self.days[slot] = index;
        self.busy[slot / 64] |= 1 << (slot % 64);
        self.next_day = self.next_day.min(day);
        self.waiting += 1;
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
            self.busy[slot / 64] &= !(1 << (slot % 64));
            while index != NONE {
                self.today.push(event_of(packets, index));
                index = packets.get(index).wait.next;
            }
            self.waiting -= self.today.len();
            self.ahead = NONE;
            if self.today.len() > 1 {
                self.today.sort_unstable_by(|left, right| right.cmp(left));
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

    /// A packet that arrives on the next day, for whoever wants to prepare for it; each is named once, and those that
    /// were scheduled late are left out. `None` if all were named, and where preparing does not pay.
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

    proptest! {
        /// Against a sorted list: times within a day, across days, and beyond the horizon, scheduled while
        /// time moves on.
        #[test]
        fn agrees_with_a_sorted_list(steps in prop::collection::vec((0u32..4, 0u64..1 << 20, any::<bool>()), 1..300)) {
            let mut calendar = Calendar::default();
            let mut packets = PacketArena::default();
            let mut model: Vec<(u64, u64)> = Vec::new();
            let mut now = 0;
            for ((scale, offset, pop), order) in steps.into_iter().zip(1u64..) {
                if pop && !model.is_empty() {
                    model.sort_unstable();
                    let (at, order) = model.remove(0);
                    let event = calendar.peek(&mut packets);
                    prop_assert_eq!(event.map(Event::time), Some(Time(at)));
                    let index = calendar.pop().unwrap_or(NONE);
                    prop_assert_eq!(packets.get(index).wait.order, order);
                    packets.remove(index);
                    now = at;
                } else {
                    // At most 1 us, 33 us, 1 ms or 34 s from now.
                    let shift = [0, 5, 10, 15][scale as usize];
                    let at = now + (offset >> 10 << shift);
                    let wait = Wait { at: Time(at), order, ..Wait::default() };
                    let index = packets.insert(Packet { wait, ..Packet::default() });
                    calendar.schedule(&mut packets, index);
                    model.push((at, order));
                }
                prop_assert_eq!(calendar.remaining(&packets).len(), model.len());
            }
        }
    }
}
