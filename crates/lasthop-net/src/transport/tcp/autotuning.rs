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

/// Buffer that a connection begins with, and that it may grow to (`tcp_rmem`), in bytes of memory.
const FIRST_BUFFER: u64 = 131_072;
const LARGEST_BUFFER: u64 = 6 << 20;
/// Of 256 bytes of memory this many hold data: a full segment of 1448 bytes takes 2304.
const DATA_OF_256: u64 = 160;
/// The window of the SYN-ACK, in bytes: 64 kB.
const FIRST_WINDOW: u64 = 65_536;
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
    /// The least round trip by timestamps.
    rtt: Option<Span>,
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
        }
    }

    /// This many bytes have come in order and are read at once; `echo`: the timestamp that the segment echoes,
    /// `beyond`: bytes between them and the last that is here. Whether the window follows the buffer, so that
    /// the ACK must not wait.
    pub(super) fn arrive(&mut self, bytes: u64, echo: Time, beyond: u64, now: Time) -> bool {
        if echo > Time::ZERO {
            let rtt = now.since(echo);
            self.rtt = Some(self.rtt.map_or(rtt, |least| least.min(rtt)));
        }
        let grows = self.ready < self.allowed;
        self.ready = (self.ready + 2 * bytes.max(self.mss)).min(self.allowed.max(self.ready));
        let since = *self.since.get_or_insert(now);
        if self.rtt.is_some_and(|rtt| now.since(since) >= rtt) {
            self.size(beyond);
            (self.since, self.read) = (Some(now), 0);
        }
        self.read += bytes;
        grows
    }

    /// A round trip is over: the buffer shall hold twice of what was read in it, and as much again as that grew.
    fn size(&mut self, beyond: u64) {
        if self.read <= self.space {
            return;
        }
        let before = std::mem::replace(&mut self.space, self.read);
        let window = 2 * self.read;
        let grown = window.saturating_mul(self.read - before) / before.max(1);
        let wanted = window + 2 * grown + beyond;
        self.allowed = self.allowed.max(wanted.min(LARGEST_BUFFER * DATA_OF_256 / 256));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand, with segments of 1448 bytes: 65,160 bytes are ready and 81,920 are allowed, so that six segments grow.
    /// Ten and then twenty are read in a round trip: 57,920 and twice the same for the growth, 173,760 in all, for
    /// which 32 more segments grow; and then no more, as twenty are read again.
    #[test]
    fn the_window_follows_the_buffer() {
        let mut tuning = Autotuning::new(1448);
        let at = |millis: u64| Time::ZERO + Span::from_millis(millis);
        let mut round = |number: u64, segments: u64| {
            let now = 1000 + 100 * number;
            let arrive = |index| tuning.arrive(1448, at(now + index - 100), 0, at(now + index));
            (0..segments).map(arrive).filter(|grows| *grows).count()
        };
        assert_eq!([round(0, 10), round(1, 20)], [6, 0]);
        // The first segment ends the round trip before it.
        assert_eq!([round(2, 20), round(3, 20), round(4, 20), round(5, 20)], [19, 13, 0, 0]);
    }
}
