//! Delivery in order: what has crossed the link waits behind what may still be rebuilt.
//!
//! Sources are numbered as they are sent. A link keeps its order, so a source that was sent after the repairs of a
//! block says that no more of them will come: what is missing of the block then is lost for good, and no packet
//! waits for it any more. When nothing arrives, no packet waits longer than a given time.

use std::collections::VecDeque;

use lasthop_core::time::{Span, Time};

/// Most numbers between the oldest that is awaited and the newest.
const MOST: usize = 1 << 16;

/// What is known of a number.
#[derive(Clone, Debug)]
enum Slot<T> {
    Missing,
    Here(T),
    Gone,
}

/// A number that has not been delivered.
#[derive(Clone, Debug)]
struct Awaited<T> {
    slot: Slot<T>,
    /// The first number that was sent after the repairs of its block.
    closed: u64,
}

/// The far end of a link that delivers in order.
#[derive(Clone, Debug)]
pub(super) struct Order<T> {
    /// The oldest number that is awaited.
    first: u64,
    awaited: VecDeque<Awaited<T>>,
    /// How many of them are here.
    here: usize,
    /// Since when something that is here waits for what is not.
    since: Option<Time>,
    patience: Span,
}

impl<T> Order<T> {
    /// How many packets wait.
    pub(super) fn here(&self) -> u64 {
        self.here as u64
    }

    pub(super) fn new(patience: Span) -> Order<T> {
        Order { first: 0, awaited: VecDeque::new(), here: 0, since: None, patience }
    }

    /// How many numbers are awaited.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.awaited.len()
    }

    fn place(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok()
    }

    /// The next number is sent.
    pub(super) fn send(&mut self) -> u64 {
        if self.awaited.len() >= MOST
            && let Some(oldest) = self.awaited.front_mut()
            && matches!(oldest.slot, Slot::Missing)
        {
            oldest.slot = Slot::Gone;
        }
        self.awaited.push_back(Awaited { slot: Slot::Missing, closed: u64::MAX });
        self.first + self.awaited.len() as u64 - 1
    }

    /// The repairs of the block of `number` are sent.
    pub(super) fn close(&mut self, number: u64) {
        let next = self.first + self.awaited.len() as u64;
        if let Some(awaited) = self.place(number).and_then(|place| self.awaited.get_mut(place)) {
            awaited.closed = next;
        }
    }

    /// A number is here; `came`: over the link, and not out of repairs. Handed back if it is not awaited any more.
    pub(super) fn arrive(&mut self, number: u64, what: T, came: bool) -> Option<T> {
        if came {
            for awaited in &mut self.awaited {
                if awaited.closed > number {
                    break;
                }
                if matches!(awaited.slot, Slot::Missing) {
                    awaited.slot = Slot::Gone;
                }
            }
        }
        match self.place(number).and_then(|place| self.awaited.get_mut(place)) {
            Some(awaited) if matches!(awaited.slot, Slot::Missing) => awaited.slot = Slot::Here(what),
            _ => return Some(what),
        }
        self.here += 1;
        None
    }

    /// The next that may be delivered.
    pub(super) fn release(&mut self, now: Time) -> Option<T> {
        if self.since.is_some_and(|since| since + self.patience <= now) {
            let gap = self.awaited.iter().position(|awaited| matches!(awaited.slot, Slot::Here(_)));
            for awaited in self.awaited.iter_mut().take(gap.unwrap_or(0)) {
                awaited.slot = Slot::Gone;
            }
        }
        while let Some(oldest) = self.awaited.front_mut() {
            match std::mem::replace(&mut oldest.slot, Slot::Missing) {
                Slot::Missing => break,
                slot => {
                    self.awaited.pop_front();
                    self.first += 1;
                    self.since = None;
                    if let Slot::Here(what) = slot {
                        self.here -= 1;
                        return Some(what);
                    }
                }
            }
        }
        if self.since.is_none() && self.here > 0 {
            self.since = Some(now);
        }
        None
    }

    /// When the wait for what is missing ends.
    pub(super) fn due(&self) -> Option<Time> {
        self.since.map(|since| since + self.patience)
    }

    /// Takes all that is here, when the run is over.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.awaited.drain(..).filter_map(|awaited| match awaited.slot {
            Slot::Here(what) => Some(what),
            Slot::Missing | Slot::Gone => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn released(order: &mut Order<u64>, now: u64) -> Vec<u64> {
        std::iter::from_fn(|| order.release(Time(now))).collect()
    }

    /// Numbers 0 to 3 are a block whose second is lost and rebuilt; 4 to 7 one whose second is lost for good, which the
    /// first number behind its repairs says.
    #[test]
    fn what_may_be_rebuilt_is_awaited() {
        let mut order = Order::new(Span(1000));
        for _ in 0..4 {
            order.send();
        }
        (0..4).for_each(|number| order.close(number));
        for number in [0, 2, 3] {
            assert_eq!(order.arrive(number, number, true), None);
        }
        assert_eq!(released(&mut order, 10), [0]);
        assert_eq!(order.arrive(1, 1, false), None);
        assert_eq!(released(&mut order, 20), [1, 2, 3]);
        for _ in 4..8 {
            order.send();
        }
        (4..8).for_each(|number| order.close(number));
        for number in [4, 6, 7] {
            order.arrive(number, number, true);
        }
        assert_eq!(released(&mut order, 30), [4]);
        assert_eq!(order.send(), 8);
        order.arrive(8, 8, true);
        assert_eq!(released(&mut order, 40), [6, 7, 8]);
        assert_eq!(order.arrive(5, 5, true), Some(5), "no packet waits for it any more");
        assert_eq!((order.len(), order.due()), (0, None));
    }

    /// Without anything behind it a gap is awaited for the time that is given.
    #[test]
    fn no_packet_waits_for_ever() {
        let mut order = Order::new(Span(1000));
        (0..2).for_each(|_| {
            order.send();
        });
        order.arrive(1, 1, true);
        assert_eq!((released(&mut order, 50), order.due()), (vec![], Some(Time(1050))));
        assert_eq!(released(&mut order, 1049), []);
        assert_eq!(released(&mut order, 1050), [1]);
    }
}
