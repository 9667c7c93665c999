//! Data rates and what follows from them: how long a packet occupies a link.

use std::fmt;

use crate::time::Span;

/// A data rate in bit/s; 1 Mbit/s is 10^6 bit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(pub u64);

impl Rate {
    /// Time that `bytes` take on a link of this rate, rounded up to the nanosecond so that a link never exceeds its
    /// rate. The rate must not be zero; scenarios with one are refused.
    #[inline]
    pub fn serialisation(self, bytes: u64) -> Span {
        if let Some(bits) = bytes.checked_mul(8 * 1_000_000_000) {
            // A division of 64 bits takes a fraction of the time of one of 128.
            return Span(bits.div_ceil(self.0));
        }
        // 10 GB at 1 bit/s would overflow 64 bits.
        let bits = u128::from(bytes) * 8 * 1_000_000_000;
        Span(u64::try_from(bits.div_ceil(u128::from(self.0))).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scale, unit) = match self.0 {
            rate if rate >= 1_000_000_000 => (1e9, "Gbit/s"),
            rate if rate >= 1_000_000 => (1e6, "Mbit/s"),
            rate if rate >= 1_000 => (1e3, "kbit/s"),
            _ => (1.0, "bit/s"),
        };
        write!(formatter, "{} {unit}", self.0 as f64 / scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NV-1.1.
    #[test]
    fn serialisation_times() {
        assert_eq!(Rate(5_000_000).serialisation(1000), Span(1_600_000));
        assert_eq!(Rate(1_000_000).serialisation(40), Span(320_000));
    }

    #[test]
    fn serialisation_rounds_up() {
        assert_eq!(Rate(3).serialisation(1), Span(2_666_666_667));
    }

    #[test]
    fn display_uses_the_natural_unit() {
        assert_eq!(Rate(10_000_000).to_string(), "10 Mbit/s");
        assert_eq!(Rate(64_000).to_string(), "64 kbit/s");
    }
}
