//! The queue of a plain link: not packets, but the departures that lie ahead.
//!
//! On a first-in first-out link of known rate the departure of a packet is known when it arrives, so the packet itself
//! goes on at once and only the time at which it frees its place stays here.

use std::collections::VecDeque;

use lasthop_core::time::Time;

/// One packet that has been accepted and has not left yet.
#[derive(Clone, Copy, Debug)]
struct Occupant {
    departs: Time,
    bytes: u32,
}

/// All accepted packets that have not left, but the last: that one leaves when the link is free.
#[derive(Clone, Debug, Default)]
pub(crate) struct Departures {
    occupants: VecDeque<Occupant>,
    bytes: u64,
}

impl Departures {
    /// Forgets those that have left by `now`, and says whether one leaves at `now`. A departure at the very instant of
    /// an arrival frees its place first.
    #[inline]
    pub(crate) fn expire(&mut self, now: Time) -> bool {
        let mut last = None;
        while let Some(&Occupant { departs, bytes }) = self.occupants.front()
            && departs <= now
        {
            self.occupants.pop_front();
            self.bytes -= u64::from(bytes);
            last = Some(departs);
        }
        last == Some(now)
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.occupants.clear();
        self.bytes = 0;
    }

    /// One more, behind the others.
    #[inline]
    pub(crate) fn push(&mut self, departs: Time, bytes: u32) {
        if self.occupants.len() == self.occupants.capacity() {
            self.grow();
        }
        self.occupants.push_back(Occupant { departs, bytes });
        self.bytes += u64::from(bytes);
    }

    /// Makes room for a quarter more: there are many links, and most queues are short.
    #[cold]
    fn grow(&mut self) {
        self.occupants.reserve_exact((self.occupants.len() / 4).max(4));
    }

    /// Number of departures.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.occupants.len()
    }

    /// Their bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of the one that leaves first, if there is any.
    pub(crate) fn first_bytes(&self) -> Option<u32> {
        self.occupants.front().map(|occupant| occupant.bytes)
    }
}
