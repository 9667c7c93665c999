//! What a medium does next.
//!
//! A frame changes the plans of every station that receives it, twice, while few have any at a time: all wait while
//! one transmits. So the earliest is looked for among those that have a plan, and only when the last answer does
//! not hold any more; a heap would be put in order again for each of them.

use lasthop_core::time::Time;

use super::station::NEVER;

/// When each of a few places acts next. Of one instant the first place comes first.
#[derive(Clone, Debug)]
pub(super) struct Agenda {
    due: Vec<Time>,
    /// Places that ever act, a bit each.
    pending: Vec<u64>,
    /// The earliest, unless `stale`.
    next: (Time, usize),
    stale: bool,
}

impl Agenda {
    /// This many places, of which none has anything to do.
    pub(super) fn new(places: usize) -> Agenda {
        Agenda {
            due: vec![NEVER; places],
            pending: vec![0; places.div_ceil(64)],
            next: (NEVER, 0),
            stale: false,
        }
    }

    /// When a place acts next.
    pub(super) fn at(&self, place: usize) -> Time {
        self.due[place]
    }

    /// Notes when a place acts next.
    #[inline]
    pub(super) fn set(&mut self, place: usize, at: Time) {
        if self.due[place] == at {
            return;
        }
        self.due[place] = at;
        let bit = 1 << (place % 64);
        let word = &mut self.pending[place / 64];
        *word = if at == NEVER { *word & !bit } else { *word | bit };
        if (at, place) < self.next {
            self.next = (at, place);
        } else if place == self.next.1 {
            self.stale = true;
        }
    }

    /// The earliest time, and whose it is.
    #[inline]
    pub(super) fn next(&mut self) -> (Time, usize) {
        if self.stale {
            self.look();
        }
        self.next
    }

    /// Looks for the earliest.
    fn look(&mut self) {
        self.stale = false;
        self.next = (NEVER, 0);
        for (&word, number) in self.pending.iter().zip(0..) {
            let mut left = word;
            while left != 0 {
                let place = 64 * number + left.trailing_zeros() as usize;
                left &= left - 1;
                if self.due[place] < self.next.0 {
                    self.next = (self.due[place], place);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever is set and asked for: the answer is that of a search through all.
        #[test]
        fn agrees_with_a_search(steps in prop::collection::vec((0..150_usize, 0..30_u64, any::<bool>()), 1..300)) {
            let mut agenda = Agenda::new(150);
            let mut model = [NEVER; 150];
            for (place, at, asked) in steps {
                let at = if at < 10 { NEVER } else { Time(at) };
                agenda.set(place, at);
                model[place] = at;
                prop_assert_eq!(agenda.at(place), at);
                if asked {
                    let expected = model.iter().copied().zip(0..).min().unwrap_or((NEVER, 0));
                    let found = agenda.next();
                    prop_assert_eq!(found.0, expected.0);
                    prop_assert!(found.0 == NEVER || found == expected);
                }
            }
        }
    }
}
