//! What both halves of `lasthop steer` share: the structures of bpf/steer.bpf.c, field by field.
//!
//! Each place is asserted here and there when it is compiled, and a test compares both lists: neither half can be
//! changed alone. Nothing here decides; `steer` reads records and writes slots.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicU64};

use lasthop_core::time::{Span, Time};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::bpf::OfAtomics;

/// Connections that can be steered at a time; the rest are Reno's.
pub(crate) const SLOTS: usize = 4096;
/// Bytes for the name of a controller.
pub(crate) const LAW_LENGTH: usize = 24;
/// A threshold that is not known, for the kernel.
pub(crate) const UNKNOWN_SSTHRESH: u32 = 0x7fff_ffff;

/// A structure of C with the place of each field.
macro_rules! shared {
    ($(#[$about:meta])* $name:ident = $of_c:literal, $size:literal bytes {
        $($(#[$meaning:meta])* $field:ident: $type:ty = $place:literal,)*
    }) => {
        $(#[$about])*
        #[repr(C)]
        pub(crate) struct $name {
            $($(#[$meaning])* pub(crate) $field: $type,)*
        }

        const _: () = {
            assert!(size_of::<$name>() == $size);
            $(assert!(offset_of!($name, $field) == $place);)*
        };

        #[cfg(test)]
        impl $name {
            /// How bpf/steer.bpf.c asserts the same.
            const ASSERTED: &[&str] = &[
                concat!("SIZE(", $of_c, ", ", $size, ");"),
                $(concat!("PLACE(", $of_c, ", ", stringify!($field), ", ", $place, ");"),)*
            ];
        }
    };
}

shared! {
    /// What a session says of itself, and what the kernel's half counts.
    #[derive(Debug)]
    Control = "control", 128 bytes {
        heartbeat_ns: AtomicU64 = 0,
        coalesce_ns: AtomicU64 = 8,
        process: AtomicU32 = 16,
        decides_alone: AtomicU32 = 20,
        /// The name of the controller, with a zero behind it.
        law: [AtomicU64; LAW_LENGTH / 8] = 24,
        connections: AtomicU64 = 48,
        applied: AtomicU64 = 56,
        on_its_own: AtomicU64 = 64,
        stale: AtomicU64 = 72,
        records: AtomicU64 = 80,
        missed: AtomicU64 = 88,
        spare: [AtomicU64; 4] = 96,
    }
}

shared! {
    /// A connection: who owns the slot, and what was decided for it.
    #[derive(Debug)]
    Slot = "slot", 112 bytes {
        owner: AtomicU64 = 0,
        kernel_epoch: AtomicU32 = 8,
        cwnd_now: AtomicU32 = 12,
        applied: AtomicU32 = 16,
        on_its_own: AtomicU32 = 20,
        opened_ns: AtomicU64 = 24,
        /// Odd while the rest is being written.
        sequence: AtomicU32 = 32,
        epoch: AtomicU32 = 36,
        cwnd: AtomicU64 = 40,
        slope: AtomicU64 = 48,
        grown_at: AtomicU32 = 56,
        ssthresh: AtomicU32 = 60,
        share: AtomicU32 = 64,
        answers_ns_low: AtomicU32 = 68,
        pacing: AtomicU64 = 72,
        reserved: [AtomicU64; 4] = 80,
    }
}

shared! {
    /// What ACKs said since the record before, as the kernel's half writes it.
    #[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
    Words = "record", 120 bytes {
        id: u64 = 0,
        at_ns: u64 = 8,
        slot: u32 = 16,
        kind: u32 = 20,
        epoch: u32 = 24,
        acked: u32 = 28,
        acks: u32 = 32,
        grown: u32 = 36,
        /// A count: segments that were acknowledged while the window was the limit.
        is_limited: u32 = 40,
        rtt_us: u32 = 44,
        srtt_us: u32 = 48,
        cwnd: u32 = 52,
        ssthresh: u32 = 56,
        in_flight: u32 = 60,
        mss: u32 = 64,
        una: u32 = 68,
        next: u32 = 72,
        delivered: u32 = 76,
        rate_delivered: u32 = 80,
        rate_interval_us: u32 = 84,
        rate_prior_in_flight: u32 = 88,
        rate_losses: u32 = 92,
        is_app_limited: u32 = 96,
        rate_prior_delivered: u32 = 100,
        source: u32 = 104,
        sink: u32 = 108,
        ports: u32 = 112,
        idle_us: u32 = 116,
    }
}

#[expect(unsafe_code, reason = "structures of C that consist of atomics")]
unsafe impl OfAtomics for Control {}
#[expect(unsafe_code, reason = "as above")]
unsafe impl OfAtomics for Slot {}

/// What the kernel's half tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Opened = 1,
    Acked,
    Lost,
    TimedOut,
    Marked,
    Recovered,
    Undone,
    Restarted,
    Closed,
}

impl Kind {
    const ALL: [Kind; 9] = [
        Kind::Opened,
        Kind::Acked,
        Kind::Lost,
        Kind::TimedOut,
        Kind::Marked,
        Kind::Recovered,
        Kind::Undone,
        Kind::Restarted,
        Kind::Closed,
    ];
}

/// A record with times and what is not known. Sequence numbers are those of the kernel, which wrap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) id: u64,
    pub(crate) at: Time,
    pub(crate) slot: usize,
    pub(crate) kind: Kind,
    pub(crate) epoch: u32,
    pub(crate) acked: u32,
    pub(crate) acks: u32,
    pub(crate) grown: u32,
    /// Segments of those that were acknowledged while the window was the limit.
    pub(crate) limited: u32,
    pub(crate) rtt: Option<Span>,
    pub(crate) srtt: Span,
    pub(crate) cwnd: u32,
    pub(crate) ssthresh: f64,
    pub(crate) in_flight: u32,
    pub(crate) mss: u32,
    pub(crate) una: u32,
    pub(crate) next: u32,
    pub(crate) delivered: u32,
    pub(crate) rate: Option<(u64, Span)>,
    pub(crate) prior_in_flight: u32,
    pub(crate) losses: u32,
    pub(crate) app_limited: bool,
    pub(crate) prior_delivered: u32,
}

impl Record {
    /// Words of 32 bits that a record has.
    pub(crate) const WORDS: usize = size_of::<Words>() / 4;

    /// The record that these words are; nothing if they are too few, or of a kind that is not known here.
    pub(crate) fn read(words: &[u32]) -> Option<Record> {
        let (words, _) = Words::read_from_prefix(words.as_bytes()).ok()?;
        let micros = |count: u32| Span::from_nanos(u64::from(count) * 1000);
        let is_rate = words.rate_delivered.cast_signed() > 0 && words.rate_interval_us.cast_signed() > 0;
        let is_known = words.ssthresh < UNKNOWN_SSTHRESH;
        Some(Record {
            id: words.id,
            at: Time(words.at_ns),
            slot: words.slot as usize,
            kind: Kind::ALL.into_iter().find(|&kind| kind as u32 == words.kind)?,
            epoch: words.epoch,
            acked: words.acked,
            acks: words.acks,
            grown: words.grown,
            limited: words.is_limited,
            rtt: (words.rtt_us > 0).then(|| micros(words.rtt_us)),
            srtt: micros(words.srtt_us),
            cwnd: words.cwnd,
            ssthresh: if is_known { f64::from(words.ssthresh) } else { f64::INFINITY },
            in_flight: words.in_flight,
            mss: words.mss.max(1),
            una: words.una,
            next: words.next,
            delivered: words.delivered,
            rate: is_rate.then(|| (u64::from(words.rate_delivered), micros(words.rate_interval_us))),
            prior_in_flight: words.rate_prior_in_flight,
            losses: words.rate_losses,
            app_limited: words.is_app_limited != 0,
            prior_delivered: words.rate_prior_delivered,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = include_str!("../bpf/steer.bpf.c");

    #[test]
    fn both_halves_assert_the_same_places() {
        let is_assertion = |line: &&str| line.starts_with("SIZE(") || line.starts_with("PLACE(");
        let theirs: Vec<&str> = SOURCE.lines().filter(is_assertion).collect();
        assert_eq!(theirs, [Words::ASSERTED, Slot::ASSERTED, Control::ASSERTED].concat());
    }

    #[test]
    fn both_halves_count_kinds_alike() {
        let kinds =
            "enum kind { OPENED = 1, ACKED, LOST, TIMED_OUT, MARKED, RECOVERED, UNDONE, RESTARTED, CLOSED };";
        assert!(SOURCE.contains(kinds));
        for (index, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index + 1);
        }
    }

    /// Each word has another value: none may be taken for its neighbour.
    #[test]
    fn every_word_is_read_from_its_place() {
        let mut words: Vec<u32> = (100..130).collect();
        words[5] = 2;
        let record = Record::read(&words).unwrap();
        assert_eq!(record.id, 100 + 101 * (1 << 32));
        assert_eq!(record.at, Time(102 + 103 * (1 << 32)));
        assert_eq!((record.slot, record.kind, record.epoch), (104, Kind::Acked, 106));
        assert_eq!((record.acked, record.acks, record.grown, record.limited), (107, 108, 109, 110));
        let micros = |count: u64| Span::from_nanos(count * 1000);
        assert_eq!((record.rtt, record.srtt), (Some(micros(111)), micros(112)));
        assert_eq!((record.cwnd, record.ssthresh, record.in_flight, record.mss), (113, 114.0, 115, 116));
        assert_eq!((record.una, record.next, record.delivered), (117, 118, 119));
        assert_eq!(record.rate, Some((120, micros(121))));
        assert_eq!((record.prior_in_flight, record.losses), (122, 123));
        assert_eq!((record.app_limited, record.prior_delivered), (true, 125));
        assert!(Record::read(&words[..29]).is_none(), "a word is missing");
        words[5] = 10;
        assert!(Record::read(&words).is_none(), "no such kind");
    }
}
