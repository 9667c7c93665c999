//! Timers of hosts: one for each host and token, in one heap. Those of one instant fire in the order in which they were
//! set.
//!
//! Transports put their timers off with nearly every packet. Such a timer stays where it stands in the heap, and moves
//! on when it comes to the top.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use lasthop_core::time::Time;
use rustc_hash::FxHashMap;

/// When a timer fires, and how many had been set before it.
type Key = (Time, u64);

/// Of one that was taken away: it never fires.
const NEVER: Key = (Time::MAX, u64::MAX);

#[derive(Clone, Debug)]
struct Armed {
    key: Key,
    /// With which key it stands in the heap: never a later one.
    queued: Key,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Timers {
    /// Key, host, token; one that is not the queued key of its timer was replaced. One that was taken away stays until
    /// it comes to the top: it may be set again before.
    heap: BinaryHeap<Reverse<(Key, u32, u64)>>,
    /// Only looked up.
    armed: FxHashMap<(u32, u64), Armed>,
    order: u64,
}

impl Timers {
    pub(crate) fn set(&mut self, host: u32, token: u64, at: Option<Time>) {
        let Some(at) = at else {
            if let Some(armed) = self.armed.get_mut(&(host, token)) {
                armed.key = NEVER;
            }
            return;
        };
        let key = (at, self.order + 1);
        let armed = self.armed.entry((host, token)).or_insert(Armed { key: NEVER, queued: NEVER });
        if armed.key != NEVER && armed.key.0 == at {
            return;
        }
        self.order += 1;
        armed.key = key;
        if key < armed.queued {
            armed.queued = key;
            self.heap.push(Reverse((key, host, token)));
        }
    }

    /// When the next one fires.
    pub(crate) fn next(&mut self) -> Option<Time> {
        while let Some(&Reverse((key, host, token))) = self.heap.peek() {
            match self.armed.get_mut(&(host, token)) {
                Some(armed) if armed.key == key => return Some(key.0),
                Some(armed) if armed.queued == key && armed.key == NEVER => {
                    self.heap.pop();
                    self.armed.remove(&(host, token));
                }
                Some(armed) if armed.queued == key => {
                    armed.queued = armed.key;
                    if let Some(mut first) = self.heap.peek_mut() {
                        *first = Reverse((armed.key, host, token));
                    }
                }
                _ => {
                    self.heap.pop();
                }
            }
        }
        None
    }

    /// Takes the next one if it is due.
    pub(crate) fn take(&mut self, now: Time) -> Option<(u32, u64)> {
        if self.next()? > now {
            return None;
        }
        let Reverse((_, host, token)) = self.heap.pop()?;
        self.armed.remove(&(host, token));
        Some((host, token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_in_order_and_once() {
        let mut timers = Timers::default();
        timers.set(0, 1, Some(Time(5)));
        timers.set(1, 1, Some(Time(3)));
        timers.set(2, 9, Some(Time(3)));
        timers.set(0, 1, Some(Time(9)));
        timers.set(3, 1, Some(Time(4)));
        timers.set(3, 1, None);
        assert_eq!(timers.next(), Some(Time(3)));
        assert_eq!(timers.take(Time(2)), None);
        let all: Vec<_> = std::iter::from_fn(|| timers.take(Time(9))).collect();
        assert_eq!(all, [(1, 1), (2, 9), (0, 1)]);
        assert_eq!(timers.next(), None);
    }

    /// Beside a list that is walked through: the same timers fire in the same order, however they are put off, brought
    /// forward and taken away.
    #[test]
    fn the_heap_is_that_of_a_list() {
        let mut stream = lasthop_core::random::Stream::new(1, "timers");
        let (mut timers, mut list) = (Timers::default(), Vec::<(Key, u32)>::new());
        let (mut now, mut order) = (0, 0);
        for _ in 0..20_000 {
            let host = stream.below(8) as u32;
            match stream.below(4) {
                0 => {
                    timers.set(host, 7, None);
                    list.retain(|one| one.1 != host);
                }
                1 | 2 => {
                    let at = Time(now + stream.below(12));
                    timers.set(host, 7, Some(at));
                    if !list.iter().any(|&((armed, _), one)| (armed, one) == (at, host)) {
                        list.retain(|one| one.1 != host);
                        order += 1;
                        list.push(((at, order), host));
                    }
                }
                _ => {
                    now += stream.below(3);
                    list.sort_unstable();
                    assert_eq!(timers.next(), list.first().map(|one| one.0.0));
                    let due = list.first().filter(|one| one.0.0 <= Time(now)).map(|one| (one.1, 7));
                    assert_eq!(timers.take(Time(now)), due);
                    if due.is_some() {
                        list.remove(0);
                    }
                }
            }
        }
    }

    /// What is put off again and again takes no more room.
    #[test]
    fn a_timer_that_is_put_off_stands_once() {
        let mut timers = Timers::default();
        for at in 1..1_000 {
            timers.set(0, 0, Some(Time(at)));
        }
        assert_eq!(timers.heap.len(), 1);
        assert_eq!(timers.next(), Some(Time(999)));
        assert_eq!(timers.heap.len(), 1);
    }

    /// Nor does what is taken away and set again, as a transport does that waits for nothing between two packets.
    #[test]
    fn a_timer_that_is_taken_away_stands_once() {
        let mut timers = Timers::default();
        for at in 1..1_000 {
            timers.set(0, 0, Some(Time(1_000_000 + at)));
            timers.set(0, 0, None);
            timers.set(1, 0, Some(Time(1_000_000)));
            timers.set(1, 0, None);
        }
        assert_eq!(timers.heap.len(), 2);
        assert_eq!(timers.next(), None);
        assert!(timers.heap.is_empty() && timers.armed.is_empty());
    }
}
