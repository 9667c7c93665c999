//! The receive buffer of Linux as far as its ACKs show it.
//!
//! A receiver of Linux begins with a buffer of 128 kB and makes it larger as the application reads more in a round trip
//! (dynamic right-sizing; Fisk and Feng, 2001). The window that it is ready to advertise follows the buffer, by two
//! segments with each one that arrives, and as long as it does every segment is acknowledged at once, whatever delayed
//! ACKs would do. So a sender that counts ACKs grows faster than over a receiver that delays from the beginning, for
//! the first seconds of a connection.
//!
//! The window itself is that of `receiver_window` here as everywhere; what is followed decides about ACKs alone.
//! `receiver.rs` owns it and tells it what arrives in order.
//!
//! *Validation:* beside the receiver of a running kernel in `docs/reference/parity.md`.
//!
//! *References:* Fisk & Feng, "Dynamic Right-Sizing in TCP", LACSI 2001; Linux 6.18,
//! `tcp_rcv_space_adjust` and `tcp_grow_window`, by what they do.

use lasthop_core::time::{Span, Time};

use super::rtt::ticks_between;

/// Buffer that a connection begins with, and that it may grow to (`tcp_rmem`), in bytes of memory.
const FIRST_BUFFER: u64 = 131_072;
const LARGEST_BUFFER: u64 = 6 << 20;
/// Of 256 bytes of memory this many are for data (`tcp_adv_win_scale`).
const DATA_OF_256: u64 = 128;
/// The window of the SYN-ACK, in bytes: 64 kB.
const FIRST_WINDOW: u64 = 65_536;
/// Bytes of memory that a segment of a device takes beside its data.
const HELD: u64 = 856;
/// The same by the rule that sizes the buffer, and the steps in which that is made to suffice.
const OVERHEAD: u64 = 896;
const STEP: u64 = 128;
/// Segments that are allowed beside twice of what was read.
const CUSHION: u64 = 16;
/// Segments of the first window, which are no growth.
const INITIAL_SEGMENTS: u64 = 10;

/// What a receiver stores about its buffer. Bytes, unless it says otherwise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Autotuning {
    mss: u64,
    /// The window that it is ready to advertise, and what the buffer would allow.
    ready: u64,
    allowed: u64,
    /// What was read in the best round trip so far.
    space: u64,
    /// What has been read since `since`.
    read: u64,
    since: Option<Time>,
    /// The round trip by timestamps: the least, or smoothed if it has become longer.
    rtt: Option<Span>,
    /// The newest timestamp that has been used for it.
    echo: Time,
}

impl Autotuning {
    pub(super) fn new(mss: u32) -> Autotuning {
        let mss = u64::from(mss.max(1));
        Autotuning {
            mss,
            ready: FIRST_WINDOW - FIRST_WINDOW % mss,
            allowed: FIRST_BUFFER * DATA_OF_256 / 256,
            space: INITIAL_SEGMENTS * mss,
            read: 0,
            since: None,
            rtt: None,
            echo: Time::ZERO,
        }
    }

    /// This many bytes have come in order and are read at once.
    pub(super) fn read(&mut self, bytes: u64, now: Time) {
        // The application reads segment by segment, and the time is looked at after the first.
        let first = bytes.min(self.mss);
        self.read += first;
        let since = *self.since.get_or_insert(now);
        if self.rtt.is_some_and(|rtt| now.since(since) >= rtt) {
            self.size();
            (self.since, self.read) = (Some(now), 0);
        }
        self.read += bytes - first;
    }

    /// A segment of `bytes` has come, in order or not, that echoes the timestamp `echo`, while `beyond` bytes wait
    /// behind a gap. Whether the window follows the buffer, so that the ACK must not wait.
    pub(super) fn arrive(&mut self, bytes: u64, echo: Time, beyond: u64, now: Time) -> bool {
        if echo > self.echo && bytes >= self.mss {
            self.echo = echo;
            let sample = ticks_between(echo, now);
            let smoothed = |rtt: Span| Span(rtt.0 - rtt.0 / 8 + sample.0 / 8);
            self.rtt = Some(self.rtt.map_or(sample, |rtt| sample.min(smoothed(rtt))));
        }
        // What waits, and the segment itself, is in the buffer just now.
        let held = (1 + beyond / self.mss) * (self.mss + HELD);
        let room = self.allowed.saturating_sub(held * DATA_OF_256 / 256);
        let grows = self.ready < room;
        self.ready = (self.ready + 2 * self.mss).min(room.max(self.ready));
        grows
    }

    /// A round trip is over: the buffer shall hold twice of what was read in it, and as much again as that grew.
    fn size(&mut self) {
        if self.read <= self.space {
            return;
        }
        let before = std::mem::replace(&mut self.space, self.read);
        let window = 2 * self.read + CUSHION * self.mss;
        let grown = window.saturating_mul(self.read - before) / before.max(1);
        let segments = (window + 2 * grown) / self.mss;
        // The memory of a segment: what its buffer takes, and as much as lets half of it hold the segment.
        let mut memory = self.mss + OVERHEAD;
        memory += (2 * self.mss).saturating_sub(memory).div_ceil(STEP) * STEP;
        self.allowed = self.allowed.max((segments * memory).min(LARGEST_BUFFER) * DATA_OF_256 / 256);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux 6.1 was seen to advertise it, with segments of 1448 bytes: 65,160 at the beginning. Eleven segments are
    /// read in the first round trip of 42 ms: 2 x 15,928 + 23,168, and a tenth twice for the growth, are 45 segments of
    /// 2,984 bytes of memory, half of which is for data, less half of the 2,304 of the one that is here: 65,988.
    /// Twenty-one in the next make 163 segments of it: 242,044, to which 60 segments grow by two of their kind each,
    /// and one more by what is left.
    #[test]
    fn the_window_follows_the_buffer() {
        let mut tuning = Autotuning::new(1448);
        let mut segments = |from: u64, count: u64| {
            let mut grown = 0;
            for number in 0..count {
                let now = Time::ZERO + Span::from_millis(from + 2 * number);
                let echo = Time::ZERO + Span::from_millis(from + 2 * number - 42);
                grown += u64::from(tuning.arrive(1448, echo, 0, now));
                tuning.read(1448, now);
            }
            (grown, tuning.ready)
        };
        assert_eq!(segments(100, 10), (0, 65_160));
        assert_eq!(segments(142, 1), (0, 65_160));
        assert_eq!(segments(144, 21), (1, 65_988));
        assert_eq!(segments(186, 15), (15, 65_988 + 15 * 2896));
        assert_eq!(segments(216, 46), (46, 242_044));
    }
}
