//! Stations that have nothing to send, where every station senses every other: what they overhear is noted once for
//! all of them, and each takes it over when something happens to it.
//!
//! A frame that nothing disturbs changes the state of the medium for all others in the same way: since when it is
//! idle and until when it is reserved. A station that counts no slots down has nothing to do. In a cell of many
//! stations few contend at a time, and only they are gone through at every frame.

use lasthop_core::time::Time;

use super::Medium;

/// Who rests, and what they have overheard last.
#[derive(Clone, Debug)]
pub(super) struct Resting {
    /// A bit for each station that does not.
    awake: Vec<u64>,
    idle_since: Time,
    nav: Time,
}

impl Resting {
    /// None of this many stations.
    pub(super) fn none(stations: usize) -> Resting {
        let bits = |word: usize| u64::MAX >> (64 - (stations - 64 * word).min(64));
        let awake = (0..stations.div_ceil(64)).map(bits).collect();
        Resting { awake, idle_since: Time::ZERO, nav: Time::ZERO }
    }

    /// The first station from `station` on that does not rest.
    #[inline]
    pub(super) fn next_awake(&self, station: usize) -> Option<usize> {
        let first = station / 64;
        let mut left = self.awake.get(first)? & (u64::MAX << (station % 64));
        for word in first.. {
            if left != 0 {
                return Some(64 * word + left.trailing_zeros() as usize);
            }
            left = *self.awake.get(word + 1)?;
        }
        None
    }

    /// A station has nothing to send, and has overheard what the others have, this time at least.
    #[inline]
    pub(super) fn add(&mut self, station: usize) {
        self.awake[station / 64] &= !(1 << (station % 64));
    }
}

impl Medium {
    /// Something happens to a station: from here on it goes by what it has overheard.
    #[inline]
    pub(super) fn rouse(&mut self, index: usize) {
        let (word, bit) = (&mut self.resting.awake[index / 64], 1 << (index % 64));
        if *word & bit == 0 {
            *word |= bit;
            let station = &mut self.stations[index];
            station.overhear((self.resting.idle_since, self.resting.nav));
            // It senses the frame of the only one that transmits.
            station.sensed = u32::from(self.lone.is_some());
        }
    }

    /// No station rests any more.
    pub(super) fn rouse_all(&mut self) {
        for index in 0..self.stations.len() {
            self.rouse(index);
        }
    }

    /// A frame for another station ends `now` at all that rest, and reserves the medium until `nav`.
    #[inline]
    pub(super) fn overhear_resting(&mut self, (now, nav): (Time, Time)) {
        // One reservation is remembered. Who has heard the earlier one, and who sent it, is no longer known.
        if self.resting.nav > now {
            self.rouse_all();
        }
        (self.resting.idle_since, self.resting.nav) = (now, nav);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who is awake, in ascending order, over the borders of words.
    #[test]
    fn those_awake_are_found_in_order() {
        let awake = |resting: &Resting| {
            let next = |&station: &usize| resting.next_awake(station + 1);
            std::iter::successors(resting.next_awake(0), next).collect::<Vec<_>>()
        };
        for stations in [1, 63, 64, 65, 128, 130] {
            let mut resting = Resting::none(stations);
            assert_eq!(awake(&resting), (0..stations).collect::<Vec<_>>());
            (0..stations).filter(|station| station % 63 != 0).for_each(|station| resting.add(station));
            assert_eq!(awake(&resting), (0..stations).step_by(63).collect::<Vec<_>>());
        }
    }
}
