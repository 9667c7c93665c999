//! Accurate ECN feedback (RFC 9768): what the bits AE, CWR and ECE say, in the handshake and after it.
//!
//! The receiver answers SYNs and counts marks in these terms, the sender reads its answer and its counter. Neither
//! knows here what a mark costs. What is not of Accurate ECN (the echo of RFC 3168) is no business of this file.

use lasthop_core::packet::{Packet, flag};

use crate::transport::codec::Ecn;
use crate::transport::extra::ByteCounts;

/// What an end tells the other of marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feedback {
    /// Nothing.
    None,
    /// The echo of RFC 3168: that there was one.
    Classic,
    /// How many there were.
    Accurate,
}

/// Where both counters of marked packets begin (section 3.2.1).
pub(crate) const FIRST: u32 = 5;

/// An ACK is due at this many marks of data that none has told of (section 3.2.2.5.1: n = 2).
pub(crate) const UNTOLD: u8 = 2;

/// The number that AE, CWR and ECE make, AE first.
#[inline]
pub(crate) fn number(flags: u8) -> u32 {
    u32::from((flags & flag::AE) >> 3 | (flags & (flag::CWR | flag::ECE)) >> 2)
}

/// The bits that show the end of a count, or a code of the handshake.
#[inline]
pub(crate) fn flags(count: u32) -> u8 {
    let low = (count & 7) as u8;
    (low & 4) << 3 | (low & 3) << 2
}

/// The bits that tell how a SYN or SYN-ACK has arrived (tables 2 and 3).
pub(crate) fn reflect(arrived: Ecn) -> u8 {
    flags(match arrived {
        Ecn::NotCapable => 0b010,
        Ecn::Capable1 => 0b011,
        Ecn::Capable => 0b100,
        Ecn::Congestion => 0b110,
    })
}

/// What an end that understands all three answers to a SYN, and with which bits (table 2; section 3.1.2 on the five
/// codes that mean nothing yet).
pub(crate) fn answer(syn: &Packet) -> (Feedback, u8) {
    match number(syn.flags) {
        0b000 => (Feedback::None, 0),
        0b011 => (Feedback::Classic, flag::ECE),
        _ => (Feedback::Accurate, reflect(Ecn::of_flags(syn.flags))),
    }
}

/// What the answer to a SYN that asked for Accurate ECN agrees to (table 2). All bits set are those of the SYN, by an
/// end that knows none of them.
pub(crate) fn agreed(answer: u8) -> Feedback {
    match number(answer) {
        0b000 | 0b111 => Feedback::None,
        0b001 => Feedback::Classic,
        _ => Feedback::Accurate,
    }
}

/// Whether the answer tells that the ECN field of a SYN without ECT has been changed on its way (section 3.2.2.3).
pub(crate) fn is_mangled(answer: u8) -> bool {
    matches!(number(answer), 0b011 | 0b100 | 0b110)
}

/// Payload bytes that came under each ECN field, modulo 2^24 (section 3.2.1), in the order ECT(1), CE, ECT(0).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes {
    counts: [u32; 3],
    /// Which of them have ever changed, one bit each.
    changed: u8,
    /// Whether one has since the last option.
    moved: bool,
}

impl Bytes {
    /// What the counters begin with, so that a zero is a sign of a path that wipes options.
    const FIRST: [u32; 3] = [1, 0, 1];

    /// Before anything has come.
    pub(crate) fn new() -> Bytes {
        Bytes { counts: Bytes::FIRST, changed: 0, moved: false }
    }

    /// Counts a packet.
    pub(crate) fn take(&mut self, packet: &Packet) {
        let Some(place) = self.whole().place(Ecn::of_flags(packet.flags)) else { return };
        if packet.payload > 0 {
            self.counts[place] = (self.counts[place] + u32::from(packet.payload)) % BYTES_LAP;
            (self.changed, self.moved) = (self.changed | 1 << place, true);
        }
    }

    /// The whole option, as the handshake has it.
    pub(crate) fn whole(&self) -> ByteCounts {
        ByteCounts { ect1_first: true, present: 3, fields: self.counts }
    }

    /// What the next ACK is to tell: every counter that has ever changed, once one has since the last option (section
    /// 3.2.3.3). ECT(1) comes first where there was any.
    pub(crate) fn due(&self) -> Option<ByteCounts> {
        if !self.moved {
            return None;
        }
        let whole = self.whole();
        let [ect1, ce, ect0] = whole.fields;
        Some(match self.changed {
            0b001 => ByteCounts { present: 1, ..whole },
            0b010 | 0b011 => ByteCounts { present: 2, ..whole },
            0b100 => ByteCounts { ect1_first: false, present: 1, fields: [ect0, ce, ect1] },
            0b110 => ByteCounts { ect1_first: false, present: 2, fields: [ect0, ce, ect1] },
            _ => whole,
        })
    }

    /// An option has told it.
    pub(crate) fn told(&mut self) {
        self.moved = false;
    }

    /// The next one is to tell it.
    pub(crate) fn tell_again(&mut self) {
        self.moved = self.changed != 0;
    }
}

/// Where the counters of bytes begin again.
const BYTES_LAP: u32 = 1 << 24;

/// What a sender makes of the counter that comes back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counter {
    /// Marked packets that the other end has told of (s.cep), modulo 8.
    told: u8,
    /// The path is known to wipe the option with the bytes.
    pub(crate) is_wiped: bool,
    /// An ACK has come without it since the last.
    is_behind: bool,
    /// Marked bytes that it has told of (s.ceb), modulo 2^24.
    bytes: [u8; 3],
    /// Mean number of packets that an ACK acknowledges, in eighths.
    mean: u16,
}

impl Counter {
    /// From this many packets per ACK on, in eighths, ACKs are thinned out so much that a jump is no sign that the
    /// counter has gone round (section 3.2.2.5.2, appendix A.2).
    const THINNED: u16 = 4 * 8;

    /// Before the first ACK, when this many marks have been told of.
    pub(crate) fn after(marks: u32) -> Counter {
        let told = ((FIRST + marks) % 8) as u8;
        Counter { told, is_wiped: false, is_behind: false, bytes: [0; 3], mean: 8 }
    }

    /// Takes the option of a SYN-ACK: counters that begin with 0 have been wiped on the way (section 3.2.3.2.4).
    pub(crate) fn begin(&mut self, counts: ByteCounts) {
        self.is_wiped = [Ecn::Capable, Ecn::Capable1].into_iter().any(|ecn| counts.get(ecn) == Some(0));
    }

    /// Takes the counter of an ACK that acknowledges `packets` for the first time; how many of them were marked. Where
    /// the three bits may have gone round once or more, as many as they can have been (appendix A.2); if the option
    /// tells of bytes in segments of `mss`, what they say of it (appendix A.1).
    pub(crate) fn take(&mut self, number: u32, packets: u32, option: Option<ByteCounts>, mss: u32) -> Taken {
        let least = number.wrapping_sub(u32::from(self.told)) & 7;
        let thinned = self.mean >= Counter::THINNED;
        self.mean = (self.mean - self.mean / 8).saturating_add(u16::try_from(packets).unwrap_or(u16::MAX));
        let most = if packets >= least { packets - ((packets - least) & 7) } else { least };
        self.told = (number & 7) as u8;
        let Some(counts) = option.filter(|_| !self.is_wiped) else {
            self.is_behind = true;
            return Taken { marked: if thinned { least } else { most }, contradicts: false };
        };
        // A field that has never changed may be left out.
        let [a, b, c] = self.bytes;
        let before = u32::from_be_bytes([0, a, b, c]);
        let total = counts.get(Ecn::Congestion).unwrap_or(before) % BYTES_LAP;
        let bytes = total.wrapping_sub(before) % BYTES_LAP;
        let [_, rest @ ..] = total.to_be_bytes();
        self.bytes = rest;
        // After ACKs without the option these are the bytes of more than one, and speak for the most.
        let fits = bytes <= mss * least && 2 * bytes < mss * most;
        let marked = if most > least && fits { least } else { most };
        let is_certain = !std::mem::take(&mut self.is_behind) && packets < 8 && bytes < 8 * mss;
        let contradicts = bytes > 0 && least == 0 && is_certain;
        Taken { marked, contradicts }
    }
}

/// What an ACK says of marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Segments that were marked.
    pub(crate) marked: u32,
    /// Marked bytes came, and for certain no marked packet: one of the two is not what the other end has said.
    pub(crate) contradicts: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(bits: [u8; 3]) -> u8 {
        let all = [flag::AE, flag::CWR, flag::ECE];
        all.into_iter().zip(bits).map(|(bit, set)| bit * set).sum()
    }

    fn syn(bits: [u8; 3], ecn: Ecn) -> Packet {
        Packet { flags: with(bits) | ecn.flags(), ..Packet::default() }
    }

    /// TV-29.1: RFC 9768, tables 2 and 3, with the codes that mean nothing yet.
    #[test]
    fn the_handshake() {
        let arrivals = [
            (Ecn::NotCapable, [0, 1, 0]),
            (Ecn::Capable1, [0, 1, 1]),
            (Ecn::Capable, [1, 0, 0]),
            (Ecn::Congestion, [1, 1, 0]),
        ];
        for asks in [[1, 1, 1], [0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 0, 1], [1, 1, 0]] {
            for (ecn, bits) in arrivals {
                assert_eq!(answer(&syn(asks, ecn)), (Feedback::Accurate, with(bits)), "{asks:?} {ecn:?}");
                assert_eq!(agreed(with(bits)), Feedback::Accurate);
                assert_eq!(is_mangled(with(bits)), ecn != Ecn::NotCapable);
            }
        }
        for (ecn, _) in arrivals {
            assert_eq!(answer(&syn([0, 1, 1], ecn)), (Feedback::Classic, with([0, 0, 1])));
            assert_eq!(answer(&syn([0, 0, 0], ecn)), (Feedback::None, 0));
        }
        assert_eq!(agreed(with([0, 0, 1])), Feedback::Classic);
        assert_eq!(agreed(with([0, 0, 0])), Feedback::None);
        assert_eq!(agreed(with([1, 1, 1])), Feedback::None, "the SYN's own bits come back");
        assert_eq!((agreed(with([1, 0, 1])), is_mangled(with([1, 0, 1]))), (Feedback::Accurate, false));
    }

    /// TV-29.2: the counter begins at 5, which is AE and ECE; after four marks it shows 1.
    #[test]
    fn the_counter_on_the_wire() {
        assert_eq!(flags(FIRST), flag::AE | flag::ECE);
        assert_eq!(flags(FIRST + 4), flag::ECE);
        assert!((0..8).all(|count| number(flags(count)) == count && number(flags(count + 8)) == count));
    }

    /// What an ACK without the option says.
    fn heard(counter: &mut Counter, number: u32, packets: u32) -> u32 {
        counter.take(number, packets, None, 1460).marked
    }

    /// TV-29.3: from 5 to 1 is 4 at least; of 14 packets 12 can have been marked, of 4 or fewer 4.
    #[test]
    fn a_counter_that_may_have_gone_round() {
        for (packets, marked) in [(14, 12), (13, 12), (12, 12), (11, 4), (4, 4), (2, 4), (20, 20)] {
            assert_eq!(heard(&mut Counter::after(0), 1, packets), marked, "{packets}");
        }
        let mut counter = Counter::after(0);
        assert_eq!(heard(&mut counter, 5, 14), 8, "none or eight");
        assert_eq!((counter.told, heard(&mut counter, 6, 1)), (5, 1), "the counter goes on from there");
    }

    /// Where ACKs stand for ten packets each, a jump is none of the counter.
    #[test]
    fn thinned_acks_are_not_taken_for_marks() {
        let mut counter = Counter::after(0);
        let first: Vec<u32> = (0..20).map(|_| heard(&mut counter, 5, 10)).collect();
        assert_eq!(first.iter().position(|&marked| marked == 0), Some(3));
        assert!(first[3..].iter().all(|&marked| marked == 0), "{first:?}");
        assert_eq!(heard(&mut counter, 7, 10), 2);
    }

    #[test]
    fn marks_are_counted_exactly_while_acks_come() {
        let mut counter = Counter::after(0);
        let mut sent = FIRST;
        let mut found = 0;
        for number in 0..1000u32 {
            let marks = [0, 1, 2, 1][number as usize % 4];
            sent += marks;
            found += heard(&mut counter, sent & 7, 2);
        }
        assert_eq!((found, u32::from(counter.told)), (1000, sent & 7));
    }

    fn segment(ecn: Ecn, payload: u16) -> Packet {
        Packet { flags: ecn.flags(), payload, ..Packet::default() }
    }

    /// TV-29.7: RFC 9768 section 3.2.1, what counters begin with; 1448 marked bytes: 1, 1448, 1. Only what has changed
    /// since the connection opened is told, once it has changed since the last option.
    #[test]
    fn bytes_by_field() {
        let mut bytes = Bytes::new();
        assert_eq!(bytes.whole(), ByteCounts { ect1_first: true, present: 3, fields: [1, 0, 1] });
        bytes.take(&segment(Ecn::NotCapable, 1448));
        bytes.take(&segment(Ecn::Capable, 0));
        assert_eq!(bytes.due(), None);
        bytes.take(&segment(Ecn::Congestion, 1448));
        assert_eq!(bytes.whole().fields, [1, 1448, 1]);
        assert_eq!(bytes.due(), Some(ByteCounts { ect1_first: true, present: 2, fields: [1, 1448, 1] }));
        bytes.told();
        assert_eq!(bytes.due(), None);
        bytes.tell_again();
        assert_eq!(bytes.due().map(|counts| counts.present), Some(2));
        for (first, second, size) in [
            (Ecn::Capable, None, 8),
            (Ecn::Capable1, None, 8),
            (Ecn::Capable, Some(Ecn::Congestion), 8),
            (Ecn::Capable1, Some(Ecn::Congestion), 8),
            (Ecn::Capable, Some(Ecn::Capable1), 12),
        ] {
            let mut bytes = Bytes::new();
            bytes.take(&segment(first, 10));
            if let Some(second) = second {
                bytes.take(&segment(second, 20));
            }
            let told = bytes.due().unwrap();
            assert_eq!(told.padded(), size, "{first:?} {second:?}");
            assert_eq!(told.get(first), Some(11));
            if let Some(second) = second {
                assert_eq!(told.get(second), Some(if second == Ecn::Congestion { 20 } else { 21 }));
            }
        }
        bytes.counts[1] = BYTES_LAP - 1;
        bytes.take(&segment(Ecn::Congestion, 3));
        assert_eq!(bytes.whole().fields[1], 2, "modulo 2^24");
    }

    fn option(ce: u32) -> ByteCounts {
        ByteCounts { ect1_first: false, present: 2, fields: [1, ce, 1] }
    }

    /// TV-29.8: appendix A.1 of RFC 9768, MSS 1460. (d, safe, d.ceb): (0, 8, 1460) is 8, (2, 10, 1460) is 2 and (7, 15,
    /// 10,200) is 7; s.ceb 33,554,433 and a field of 1461 are 1460 bytes.
    #[test]
    fn bytes_tell_whether_the_counter_has_gone_round() {
        for (least, packets, bytes, marked) in
            [(0, 8, 1460, 8), (2, 10, 1460, 2), (7, 15, 10_200, 7), (2, 10, 10 * 1460, 10)]
        {
            let taken = Counter::after(0).take(FIRST + least, packets, Some(option(bytes)), 1460);
            assert_eq!(taken, Taken { marked, contradicts: false }, "{least} {packets} {bytes}");
        }
        // Modulo 2^24 s.ceb is 1.
        let mut counter = Counter { bytes: [0, 0, 1], ..Counter::after(0) };
        assert_eq!(counter.take(6, 9, Some(option(1461)), 1460).marked, 1, "1460 of 9 packets");
        // After an ACK without the option its marks are in the bytes of the next, which count for the most.
        let mut counter = Counter::after(0);
        assert_eq!(heard(&mut counter, 6, 1), 1);
        assert_eq!(counter.take(6, 8, Some(option(1460)), 1460), Taken { marked: 8, contradicts: false });
        assert_eq!(counter.take(6, 8, Some(option(1460)), 1460).marked, 0);
    }

    /// Sections 3.2.3.2.4 and 3.2.3.2.5: counters of bytes that begin with 0 have been wiped and are not listened to;
    /// marked bytes without a marked packet are a contradiction.
    #[test]
    fn options_that_cannot_be() {
        let mut counter = Counter::after(0);
        assert!(counter.take(5, 2, Some(option(1460)), 1460).contradicts);
        assert!(!counter.take(5, 2, Some(option(1460)), 1460).contradicts, "nothing new");
        assert!(!counter.take(5, 8, Some(option(2920)), 1460).contradicts, "it may have gone round");
        counter.begin(ByteCounts { ect1_first: true, present: 3, fields: [0; 3] });
        assert!(counter.is_wiped && !counter.take(5, 2, Some(option(5000)), 1460).contradicts);
        counter.begin(ByteCounts { ect1_first: true, present: 3, fields: [1, 0, 1] });
        assert!(!counter.is_wiped);
        counter.begin(ByteCounts { ect1_first: false, present: 1, fields: [1, 0, 0] });
        assert!(!counter.is_wiped, "what is left out says nothing");
    }
}
