//! The receiver's window as it is on the wire: 16 bits and a scale (RFC 7323 section 2).
//!
//! The receiver advertises with it, the codec writes with it. Windows elsewhere are bytes as the other end reads them.

/// The greatest shift that may be offered.
const GREATEST_SHIFT: u8 = 14;

/// How windows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// As numbers that are as large as they need to be: ns-2 has no field that could be too short.
    Exact,
    /// In 16 bits, in units of two to the power of the shift.
    Shift(u8),
}

impl Scale {
    /// The least shift with which a buffer of `bytes` can be advertised, or the greatest that there is.
    pub fn of_buffer(bytes: u64) -> Scale {
        let fits = |shift: &u8| u16::try_from(bytes.div_ceil(1 << shift)).is_ok();
        Scale::Shift((0..GREATEST_SHIFT).find(fits).unwrap_or(GREATEST_SHIFT))
    }

    /// The shift; 0 where there is none.
    pub fn shift(self) -> u8 {
        match self {
            Scale::Exact => 0,
            Scale::Shift(shift) => shift,
        }
    }

    /// What the other end reads if `bytes` are free: whole units, and never more than that.
    pub fn advertised(self, bytes: u64) -> u32 {
        match self {
            Scale::Exact => u32::try_from(bytes).unwrap_or(u32::MAX),
            Scale::Shift(shift) => ((bytes >> shift).min(u64::from(u16::MAX)) as u32) << shift,
        }
    }

    /// The size of a buffer of at least `bytes` that can be advertised whole, as far as there is one.
    pub fn buffer(self, bytes: u64) -> u32 {
        match self {
            Scale::Exact => self.advertised(bytes),
            Scale::Shift(shift) => self.advertised(bytes.div_ceil(1 << shift) << shift),
        }
    }

    /// What a SYN or SYN-ACK says of a window of `bytes`: its field is never scaled (RFC 7323 section 2.2).
    pub fn unscaled(self, bytes: u32) -> u32 {
        match self {
            Scale::Exact => bytes,
            Scale::Shift(_) => bytes.min(u16::MAX.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// By hand: the field holds 65,535 units.
    #[test]
    fn shifts_are_the_least_that_suffice() {
        let shift = |bytes| Scale::of_buffer(bytes).shift();
        assert_eq!((shift(0), shift(65_535), shift(65_536)), (0, 0, 1));
        // 131,070 = 2 * 65,535 is the most with a shift of 1; one byte more takes whole units of 4.
        assert_eq!((shift(131_070), shift(131_071)), (1, 2));
        // 4,096 segments of 1,448 bytes.
        assert_eq!(shift(5_931_008), 7);
        assert_eq!((shift(65_535 << 14), shift(u64::MAX)), (14, 14));
    }

    /// By hand: with a shift of 7 a unit is 128 bytes.
    #[test]
    fn windows_are_whole_units() {
        let scale = Scale::Shift(7);
        assert_eq!((scale.advertised(127), scale.advertised(128), scale.advertised(1_000)), (0, 128, 896));
        assert_eq!(scale.advertised(u64::MAX), 65_535 * 128);
        assert_eq!((scale.buffer(1), scale.buffer(1_000), scale.buffer(1_024)), (128, 1_024, 1_024));
        assert_eq!(scale.buffer(u64::MAX >> 1), 65_535 * 128);
        assert_eq!((scale.unscaled(1_024), scale.unscaled(100_000)), (1_024, 65_535));
        assert_eq!((Scale::Exact.advertised(1_001), Scale::Exact.unscaled(100_000)), (1_001, 100_000));
    }

    proptest! {
        /// A buffer that fits under the greatest shift is advertised whole, and holds what it was asked for.
        #[test]
        fn a_buffer_is_advertised_whole(bytes in 1u64..=65_535 << 14) {
            let scale = Scale::of_buffer(bytes);
            let buffer = u64::from(scale.buffer(bytes));
            prop_assert!(buffer >= bytes && buffer < bytes + (1 << scale.shift()));
            prop_assert_eq!(u64::from(scale.advertised(buffer)), buffer);
        }
    }
}
