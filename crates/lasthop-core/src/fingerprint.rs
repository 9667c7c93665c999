//! The fingerprint of a run: a hash over what happened where and when. Two runs with the same fingerprint did
//! the same things; the tests compare it between builds, thread counts and repetitions.

/// A running hash. Not cryptographic: it guards against accidents, and costs one multiplication per packet and link.
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
        self.0 = (self.0.rotate_left(23) ^ time ^ what.rotate_left(40)).wrapping_mul(0xff51_afd7_ed55_8ccd);
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

    #[test]
    fn order_time_and_place_matter() {
        let value = |occurrences: &[(u64, u64)]| {
            let mut fingerprint = Fingerprint::default();
            for &(time, what) in occurrences {
                fingerprint.add(time, what);
            }
            fingerprint.value()
        };
        assert_ne!(value(&[(1, 2), (3, 4)]), value(&[(3, 4), (1, 2)]));
        assert_ne!(value(&[(1, 2)]), value(&[(2, 1)]));
        assert_eq!(value(&[(1, 2)]), value(&[(1, 2)]));
    }
}
