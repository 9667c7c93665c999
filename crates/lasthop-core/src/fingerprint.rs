//! The fingerprint of a run: a hash over what happened where and when. Two runs with the same fingerprint did
//! the same things; the tests compare it between builds, thread counts and repetitions.
//!
//! It is a sum over occurrences, so that it does not matter in which order they were computed: links are evaluated
//! ahead of the clock, and a run in which nothing is must have the same fingerprint.

/// Both halves of a product in one: a hash at the cost of one multiplication.
#[inline]
pub(crate) fn fold(value: u64, by: u64) -> u64 {
    let product = u128::from(value) * u128::from(by);
    (product >> 64) as u64 ^ product as u64
}

/// A sum of hashes. Not cryptographic: it guards against accidents, and costs one multiplication per packet and link,
/// which does not wait for the occurrence before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Fingerprint(0x9e37_79b9_7f4a_7c15)
    }
}

impl Fingerprint {
    /// Adds one occurrence: `time` in nanoseconds, and `what` packs place and kind.
    #[inline]
    pub fn add(&mut self, time: u64, what: u64) {
        self.0 = self.0.wrapping_add(fold(time ^ what.rotate_left(40), 0x9e37_79b9_7f4a_7c15));
    }

    /// The hash so far.
    pub fn value(self) -> u64 {
        // The high bits of a multiplicative hash are the good ones; fold them down.
        self.0 ^ (self.0 >> 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(occurrences: &[(u64, u64)]) -> u64 {
        let mut fingerprint = Fingerprint::default();
        for &(time, what) in occurrences {
            fingerprint.add(time, what);
        }
        fingerprint.value()
    }

    #[test]
    fn time_place_and_number_matter() {
        assert_ne!(value(&[(1, 2)]), value(&[(2, 1)]));
        assert_ne!(value(&[(1, 2), (3, 4)]), value(&[(1, 4), (3, 2)]), "who was when");
        assert_ne!(value(&[(1, 2), (1, 2)]), value(&[(1, 2)]));
        assert_ne!(value(&[(1, 2), (1, 2)]), value(&[]));
    }

    #[test]
    fn the_order_of_computing_does_not() {
        assert_eq!(value(&[(1, 2), (3, 4), (5, 6)]), value(&[(5, 6), (1, 2), (3, 4)]));
    }
}
