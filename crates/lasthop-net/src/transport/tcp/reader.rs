//! A receiving application that reads at a rate of its own, and the buffer that fills when it is too slow.
//!
//! Data in order wait in the receive buffer until the application has read them. The window is what is free of the
//! buffer, so a reader that is slower than the path closes it. The right edge never moves back, and moves on only
//! by `min(buffer / 2, MSS)` or more (silly window avoidance, RFC 9293 section 3.8.6.2.2, RFC 1122 section
//! 4.2.3.3). A window that the reader opens again is announced without waiting for data once it is at least twice
//! what the sender has been told, as Linux does: few announcements, and none is needed while more than half of the
//! buffer is open.
//!
//! The reader is a fluid: it takes bytes as soon as its rate allows, without a system call that would take some at
//! once. Or it is the other half of a proxy, which says itself what it has taken: bytes that the far end of its own
//! connection has acknowledged. `receiver.rs` owns it and asks it for every window.

use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;

use super::window::Scale;

/// Bits times nanoseconds per second.
const NANOBITS: u128 = 8_000_000_000;

/// The reader and its buffer. Bytes are counted from the first of data.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    /// How fast it reads; `None`: it says itself what it has taken.
    rate: Option<Rate>,
    /// Size of the buffer in bytes.
    buffer: u64,
    /// The least step of the right edge.
    step: u64,
    scale: Scale,
    /// Bytes that arrived in order.
    arrived: u64,
    /// Bytes that had been read at `since`; since then the reader has not paused.
    read: u64,
    since: Time,
    /// The right edge: bytes below it may be sent.
    edge: u64,
}

impl Reader {
    pub(super) fn new(rate: Option<Rate>, buffer: u32, mss: u32, scale: Scale) -> Reader {
        let buffer = u64::from(buffer);
        let step = (buffer / 2).min(u64::from(mss)).max(1);
        Reader { rate, buffer, step, scale, arrived: 0, read: 0, since: Time::ZERO, edge: buffer }
    }

    /// The scale that both ends agreed to.
    pub(super) fn agree(&mut self, scale: Scale) {
        self.scale = scale;
    }

    /// Bytes that have been read by `now`.
    fn read_by(&self, now: Time) -> u64 {
        let Some(rate) = self.rate else { return self.read };
        let bits = u128::from(now.since(self.since).0) * u128::from(rate.0);
        let more = u64::try_from(bits / NANOBITS).unwrap_or(u64::MAX);
        self.read.saturating_add(more).min(self.arrived)
    }

    /// When the byte before `count` will have been read, if no more arrives; `None` if it is not there.
    fn time_of(&self, count: u64) -> Option<Time> {
        let Some(rate) = self.rate else { return (count <= self.read).then_some(self.since) };
        if count > self.arrived {
            return None;
        }
        let bits = u128::from(count.saturating_sub(self.read)) * NANOBITS;
        let nanos = bits.div_ceil(u128::from(rate.0.max(1)));
        Some(self.since + Span(u64::try_from(nanos).unwrap_or(u64::MAX / 4).min(u64::MAX / 4)))
    }

    /// This many bytes more are there in order.
    pub(super) fn arrive(&mut self, bytes: u64, now: Time) {
        if self.rate.is_some() && self.read_by(now) == self.arrived {
            // It had paused.
            self.read = self.arrived;
            self.since = now;
        }
        self.arrived += bytes;
    }

    /// It has taken the first `count` bytes, by `now`.
    pub(super) fn take(&mut self, count: u64, now: Time) {
        if count > self.read {
            self.read = count.min(self.arrived);
            self.since = now;
        }
    }

    /// The window that an ACK sent at `now` advertises.
    pub(super) fn window(&mut self, now: Time) -> u32 {
        let edge = self.read_by(now) + self.buffer;
        if edge >= self.edge + self.step {
            self.edge = edge;
        }
        self.known()
    }

    /// The window as the sender knows it.
    fn known(&self) -> u32 {
        self.scale.advertised(self.edge.saturating_sub(self.arrived))
    }

    /// When the window must be announced although no data call for an ACK, if that time is known.
    pub(super) fn due(&self) -> Option<Time> {
        let known = u64::from(self.known());
        // Without a scale less than the buffer can be advertised.
        if 2 * known >= u64::from(self.scale.advertised(self.buffer)) {
            return None;
        }
        let wanted = self.step.max(2 * known).max(1 << self.scale.shift());
        let edge = (self.arrived + wanted).max(self.edge + self.step);
        self.time_of(edge.saturating_sub(self.buffer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    /// 8 kbit/s are a byte per millisecond.
    fn reader(buffer: u32) -> Reader {
        Reader::new(Some(Rate(8_000)), buffer, 1_000, Scale::Shift(0))
    }

    /// By hand: a buffer of 4,000 bytes, segments of 1,000, a byte read per millisecond from the first arrival on.
    #[test]
    fn the_window_closes_and_opens_by_whole_segments() {
        let mut reader = reader(4_000);
        assert_eq!(reader.window(at(0)), 4_000);
        reader.arrive(2_000, at(10));
        assert_eq!((reader.window(at(10)), reader.due()), (2_000, None), "half of it is open");
        reader.arrive(2_000, at(20));
        // Ten bytes are read: less than a segment moves no edge.
        assert_eq!(reader.window(at(20)), 0);
        // The first segment is read at 10 + 1,000 ms.
        assert_eq!(reader.due(), Some(at(1_010)));
        assert_eq!(reader.window(at(1_009)), 0);
        assert_eq!(reader.window(at(1_010)), 1_000);
        // The next announcement doubles the window.
        assert_eq!(reader.due(), Some(at(2_010)));
        assert_eq!(reader.window(at(2_010)), 2_000);
        assert_eq!(reader.due(), None);
        assert_eq!(reader.window(at(9_000)), 4_000, "all is read");
        assert_eq!(reader.due(), None);
    }

    /// A reader that had nothing to do starts when data arrive; what it could have read before is gone.
    #[test]
    fn a_pause_is_no_credit() {
        let mut reader = reader(2_000);
        reader.arrive(500, at(0));
        reader.arrive(2_000, at(5_000));
        assert_eq!((reader.read_by(at(5_000)), reader.read_by(at(5_100))), (500, 600));
    }

    /// A buffer of less than two segments opens by half of itself, and fractions of a byte are not lost.
    #[test]
    fn small_buffers_open_by_halves() {
        let mut reader = Reader::new(Some(Rate(12_000)), 1_000, 1_000, Scale::Shift(0));
        reader.arrive(1_000, at(0));
        assert_eq!((reader.window(at(0)), reader.due()), (0, Some(Time(333_333_334))));
        assert_eq!(reader.window(Time(333_333_333)), 0);
        assert_eq!(reader.window(Time(333_333_334)), 500);
    }

    /// A proxy's other half: what is not taken keeps its place, however long it waits, and the window is announced at
    /// the instant in which enough has been taken.
    #[test]
    fn what_is_not_taken_keeps_its_place() {
        let mut reader = Reader::new(None, 4_000, 1_000, Scale::Shift(0));
        reader.arrive(4_000, at(10));
        assert_eq!((reader.window(at(5_000)), reader.due()), (0, None));
        reader.take(999, at(5_001));
        assert_eq!((reader.window(at(5_001)), reader.due()), (0, None), "less than a segment moves no edge");
        reader.take(1_000, at(5_002));
        assert_eq!(reader.due(), Some(at(5_002)));
        assert_eq!(reader.window(at(5_002)), 1_000);
        reader.take(9_000, at(5_003));
        assert_eq!(reader.window(at(5_003)), 4_000, "no more than has arrived");
    }
}
