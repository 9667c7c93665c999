//! Timers of hosts: one for each host and token, in one heap. Those of one instant fire in the order in which they were
//! set.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use lasthop_core::time::Time;

#[derive(Clone, Debug, Default)]
pub(crate) struct Timers {
    /// Time, order, host, token; one that does not stand in `armed` was replaced.
    heap: BinaryHeap<Reverse<(Time, u64, u32, u64)>>,
    armed: HashMap<(u32, u64), (Time, u64)>,
    order: u64,
}

impl Timers {
    pub(crate) fn set(&mut self, host: u32, token: u64, at: Option<Time>) {
        let Some(at) = at else {
            self.armed.remove(&(host, token));
            return;
        };
        if self.armed.get(&(host, token)).is_some_and(|&(armed, _)| armed == at) {
            return;
        }
        self.order += 1;
        self.armed.insert((host, token), (at, self.order));
        self.heap.push(Reverse((at, self.order, host, token)));
    }

    /// When the next one fires.
    pub(crate) fn next(&mut self) -> Option<Time> {
        while let Some(&Reverse((at, order, host, token))) = self.heap.peek() {
            if self.armed.get(&(host, token)) == Some(&(at, order)) {
                return Some(at);
            }
            self.heap.pop();
        }
        None
    }

    /// Takes the next one if it is due.
    pub(crate) fn take(&mut self, now: Time) -> Option<(u32, u64)> {
        if self.next()? > now {
            return None;
        }
        let Reverse((.., host, token)) = self.heap.pop()?;
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
}
