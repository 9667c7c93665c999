//! The receive buffer of Linux as far as its ACKs show it.
//!
//! A receiver of Linux begins with a buffer of 128 kB and makes it larger as the application reads more in a round trip
//! (dynamic right-sizing; Fisk and Feng, 2001). The window that it is ready to advertise follows the buffer, by two
//! segments with each one that arrives, and as long as it does every segment is acknowledged at once, whatever delayed
//! ACKs would do. So a sender that counts ACKs grows faster than over a receiver that delays from the beginning, for
//! the first seconds of a connection.
//!
//! The window that ACKs advertise is that of Linux too: what the buffer has room for beside the data that wait in it,
//! never less than was advertised before, and at most that of `receiver_window`. Where data wait behind a gap it may
//! hold a sender back in the first seconds. `receiver.rs` owns this and tells it what arrives.
//!
//! *Validation:* beside the receiver of a running kernel in `docs/reference/parity.md`.
//!
//! *References:* Fisk & Feng, "Dynamic Right-Sizing in TCP", LACSI 2001; Linux 6.18,
//! `tcp_rcv_space_adjust`, `tcp_grow_window`, `tcp_select_window` and `tcp_cleanup_rbuf`, by what they do.

use lasthop_core::packet::Packet;
use lasthop_core::time::{Span, Time};

use super::rtt::ticks_between;

/// Buffer that a connection begins with, and that it may grow to (`tcp_rmem`), in bytes of memory.
const FIRST_BUFFER: u64 = 131_072;
const LARGEST_BUFFER: u64 = 6 << 20;
/// Of 256 bytes of memory this many are for data (`tcp_adv_win_scale`).
const DATA_OF_256: u64 = 128;
/// A buffer with less than this share of its room left advertises nothing.
const LEAST_SHARE: u64 = 16;
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
    /// The window that it is ready to advertise, the most that it may be, and what the buffer would allow.
    ready: u64,
    most: u64,
    allowed: u64,
    /// The window of an ACK that leaves before the application has read, and the segments that stay in the buffer
    /// then.
    at_once: Option<u64>,
    stay: u64,
    /// The number behind the window that has been advertised.
    edge: u64,
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
            // Room for a segment is kept back (`tcp_init_buffer_space`).
            ready: (FIRST_BUFFER * DATA_OF_256 / 256).saturating_sub(mss),
            most: (FIRST_BUFFER * DATA_OF_256 / 256).saturating_sub(mss),
            allowed: FIRST_BUFFER * DATA_OF_256 / 256,
            at_once: None,
            stay: 0,
            edge: 0,
            space: INITIAL_SEGMENTS * mss,
            read: 0,
            since: None,
            rtt: None,
            echo: Time::ZERO,
        }
    }

    /// The connection is open: the ACK that completes the handshake has come, or data that stand for it. Here the
    /// first round trip begins (`tcp_init_buffer_space`).
    pub(super) fn open(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    /// This many bytes have come in order and are read at once.
    pub(super) fn read(&mut self, bytes: u64, now: Time) {
        // The application reads segment by segment, and the time is looked at after the first.
        let first = bytes.min(self.mss);
        self.read += first;
        if self.rtt.zip(self.since).is_some_and(|(rtt, since)| now.since(since) >= rtt) {
            self.size();
            (self.since, self.read) = (Some(now), 0);
        }
        self.read += bytes - first;
    }

    /// A segment has come, in order or not, while `beyond` bytes wait behind a gap, of which `stay` go on waiting.
    /// Whether the window follows the buffer, so that the ACK must not wait.
    pub(super) fn arrive(&mut self, packet: &Packet, (beyond, stay): (u64, u64), now: Time) -> bool {
        let (bytes, echo) = (u64::from(packet.payload), packet.echo);
        self.open(now);
        if echo > self.echo && bytes >= self.mss {
            self.echo = echo;
            let sample = ticks_between(echo, now);
            let smoothed = |rtt: Span| Span(rtt.0 - rtt.0 / 8 + sample.0 / 8);
            self.rtt = Some(self.rtt.map_or(sample, |rtt| sample.min(smoothed(rtt))));
        }
        // What waits is in the buffer just now, and so is the segment itself; one beyond a gap is put there afterwards.
        self.stay = stay / self.mss;
        let others = beyond / self.mss;
        let room = self.free(others + u64::from(stay <= beyond)).min(self.most);
        let grows = self.ready < room;
        self.ready = (self.ready + 2 * self.mss).min(room.max(self.ready));
        self.at_once = Some(self.open_with(others + 1));
        grows
    }

    /// Bytes that the buffer has room for while it holds this many segments.
    fn free(&self, segments: u64) -> u64 {
        self.allowed.saturating_sub(segments * (self.mss + HELD) * DATA_OF_256 / 256)
    }

    /// The window that it would advertise.
    fn open_with(&self, segments: u64) -> u64 {
        let free = self.free(segments);
        if free < (self.allowed / LEAST_SHARE).max(self.mss) { 0 } else { free.min(self.ready) }
    }

    /// The application has read what an ACK that waited speaks for.
    pub(super) fn has_read(&mut self) {
        self.at_once = None;
    }

    /// The window of an ACK of all before `next`, in units of `unit` bytes; and whether it is announced anew as soon
    /// as the application has read, because that more than doubles it (`tcp_cleanup_rbuf`).
    pub(super) fn window(&mut self, next: u64, unit: u64) -> (u64, bool) {
        let read = self.open_with(self.stay);
        let open = match self.since {
            Some(_) => self.at_once.unwrap_or(read).next_multiple_of(unit),
            // The SYN-ACK has whole segments of 64 kB.
            None => self.allowed - self.allowed % self.mss,
        };
        let window = open.max(self.edge.saturating_sub(next));
        self.edge = next + window;
        self.at_once = None;
        (window, 2 * window <= self.most && read > 0 && read >= 2 * window)
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
        let allowed = (segments * memory).min(LARGEST_BUFFER) * DATA_OF_256 / 256;
        if allowed > self.allowed {
            (self.allowed, self.most) = (allowed, allowed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that comes at the end of a round trip of 42 ms.
    fn segment(now: Time) -> Packet {
        Packet { payload: 1448, echo: Time(now.0 - Span::from_millis(42).0), ..Packet::default() }
    }

    /// The ACK of the handshake comes 2 ms before the first segment, so that the first round trip of 42 ms is over 40
    /// ms behind that.
    #[test]
    fn the_first_round_begins_with_the_handshake() {
        let at = |ms: u64| Time::ZERO + Span::from_millis(ms);
        let mut tuning = Autotuning::new(1448);
        tuning.open(at(1060));
        for (ms, read) in [(1062, 1), (1101, 2), (1102, 0)] {
            tuning.arrive(&segment(at(ms)), (0, 0), at(ms));
            tuning.read(1448, at(ms));
            assert_eq!(tuning.read, read * 1448, "{ms}");
        }
    }

    /// As Linux 6.1 was seen to advertise it, with segments of 1448 bytes: 64,088 at the beginning. Eleven segments are
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
                grown += u64::from(tuning.arrive(&segment(now), (0, 0), now));
                tuning.read(1448, now);
            }
            (grown, tuning.ready)
        };
        assert_eq!(segments(100, 10), (0, 64_088));
        assert_eq!(segments(142, 1), (0, 64_088));
        assert_eq!(segments(144, 21), (1, 65_988));
        assert_eq!(segments(186, 15), (15, 65_988 + 15 * 2896));
        assert_eq!(segments(216, 46), (46, 242_044));
    }

    /// As Linux 6.1 was seen to advertise it behind a hole of one segment at the beginning, in units of 128 bytes:
    /// 64,128 for the first segment; with ten in the buffer, of 2,304 bytes each, half of what is left of 131,072; and
    /// as much as before once the application has read.
    #[test]
    fn what_waits_takes_room() {
        let mut tuning = Autotuning::new(1448);
        let now = Time::ZERO + Span::from_millis(100);
        tuning.arrive(&segment(now), (0, 0), now);
        assert_eq!(tuning.window(1449, 128), (64_128, false));
        tuning.arrive(&segment(now), (9 * 1448, 0), now);
        assert_eq!(tuning.window(14_481, 128), (54_016, false));
        assert_eq!(tuning.window(14_481, 128), (64_128, false));
        assert_eq!(tuning.window(15_929, 128), (64_128, false));
        tuning.arrive(&segment(now), (48 * 1448, 0), now);
        assert_eq!(tuning.window(100_000, 128), (9_088, true));
    }

    /// What was advertised is not taken back.
    #[test]
    fn the_edge_stays() {
        let mut tuning = Autotuning::new(1448);
        let now = Time::ZERO + Span::from_millis(100);
        tuning.arrive(&segment(now), (0, 0), now);
        tuning.window(1449, 128);
        tuning.arrive(&segment(now), (20 * 1448, 21 * 1448), now);
        assert_eq!(tuning.window(1449, 128), (64_128, false));
        assert_eq!(tuning.window(2897, 128), (64_128 - 1448, false));
    }
}
