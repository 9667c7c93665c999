//! What a link did within the measurement window.

use lasthop_core::time::Time;

use crate::measure::Window;

/// What a link did within the measurement window.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkStats {
    /// Integral of the number of waiting packets, in packet-nanoseconds.
    pub waiting: u64,
    /// Time spent transmitting, in nanoseconds.
    pub busy: u64,
    /// Transmissions started.
    pub packets: u64,
    /// Bytes of those.
    pub bytes: u64,
}

impl LinkStats {
    /// A packet arrived at `now` and is transmitted from `start` to `end`.
    #[inline]
    pub(crate) fn count(&mut self, now: Time, start: Time, end: Time, bytes: u32, window: &Window) {
        if window.from <= now && end <= window.to {
            self.waiting += start.0 - now.0;
            self.busy += end.0 - start.0;
            self.packets += 1;
            self.bytes += u64::from(bytes);
            return;
        }
        // Across an edge of the window.
        self.waiting += window.overlap(now, start);
        self.busy += window.overlap(start, end);
        if window.contains(start) {
            self.packets += 1;
            self.bytes += u64::from(bytes);
        }
    }

    /// The same when the link goes down at `until`, and what waits or is being transmitted is lost then.
    pub(super) fn count_until(
        &mut self,
        until: Time,
        now: Time,
        start: Time,
        end: Time,
        bytes: u32,
        window: &Window,
    ) {
        self.waiting += window.overlap(now, start.min(until));
        self.busy += window.overlap(start.min(until), end.min(until));
        if start < until && window.contains(start) {
            self.packets += 1;
            self.bytes += u64::from(bytes);
        }
    }
}
