//! Simulated time: whole nanoseconds, never floating point, so that a run is the same on every machine.
//!
//! Everything that happens carries a [`Time`] (since the start of the run); everything that lasts is a [`Span`].

use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub};

/// Nanoseconds in a second.
const NANOS: u64 = 1_000_000_000;

/// An instant, in nanoseconds since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// A length of time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub u64);

impl Time {
    /// The start of the run.
    pub const ZERO: Time = Time(0);
    /// Later than anything that happens.
    pub const MAX: Time = Time(u64::MAX);

    /// The instant in seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / NANOS as f64
    }

    /// Time elapsed since `earlier`, zero if `earlier` lies ahead.
    #[inline]
    pub fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);

    /// Whole nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Span {
        Span(nanos)
    }

    /// Whole milliseconds.
    pub const fn from_millis(millis: u64) -> Span {
        Span(millis * 1_000_000)
    }

    /// Whole seconds.
    pub const fn from_secs(seconds: u64) -> Span {
        Span(seconds * NANOS)
    }

    /// The nearest nanosecond to `seconds`; negative and not-a-number become zero.
    pub fn from_seconds(seconds: f64) -> Span {
        // `as` saturates at both ends and takes NaN to zero, which is what is wanted here. `round` would be a
        // library call.
        Span((seconds * NANOS as f64 + 0.5) as u64)
    }

    /// The length in seconds.
    #[inline]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / NANOS as f64
    }
}

impl Add<Span> for Time {
    type Output = Time;
    #[inline]
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl Sub<Span> for Time {
    type Output = Time;
    #[inline]
    fn sub(self, span: Span) -> Time {
        Time(self.0.saturating_sub(span.0))
    }
}

impl AddAssign<Span> for Time {
    #[inline]
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Add for Span {
    type Output = Span;
    #[inline]
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl Sub for Span {
    type Output = Span;
    #[inline]
    fn sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}

impl Mul<u64> for Span {
    type Output = Span;
    #[inline]
    fn mul(self, factor: u64) -> Span {
        Span(self.0.saturating_mul(factor))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        Span(self.0).fmt(formatter)
    }
}

impl fmt::Display for Span {
    /// The shortest unit that shows the value exactly: `25 ms`, `1.5 s`, `0 s`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scale, unit) = match self.0 {
            0 => (NANOS, "s"),
            nanos if nanos >= NANOS => (NANOS, "s"),
            nanos if nanos >= 1_000_000 => (1_000_000, "ms"),
            nanos if nanos >= 1_000 => (1_000, "us"),
            _ => (1, "ns"),
        };
        write!(formatter, "{} {unit}", self.0 as f64 / scale as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_round_to_the_nearest_nanosecond() {
        assert_eq!(Span::from_seconds(0.001_000_000_4), Span(1_000_000));
        assert_eq!(Span::from_seconds(f64::NAN), Span::ZERO);
        assert_eq!(Span::from_seconds(-1.0), Span::ZERO);
    }

    #[test]
    fn display_uses_the_natural_unit() {
        assert_eq!(Span::from_millis(25).to_string(), "25 ms");
        assert_eq!(Span::from_seconds(1.5).to_string(), "1.5 s");
        assert_eq!(Span(1_250).to_string(), "1.25 us");
        assert_eq!(Span::ZERO.to_string(), "0 s");
    }

    #[test]
    fn since_never_goes_negative() {
        assert_eq!(Time(5).since(Time(9)), Span::ZERO);
    }
}
