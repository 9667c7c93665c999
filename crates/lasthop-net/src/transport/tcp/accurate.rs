//! Accurate ECN feedback (RFC 9768): what the bits AE, CWR and ECE say, in the handshake and after it.
//!
//! The receiver answers SYNs and counts marks in these terms, the sender reads its answer and its counter. Neither
//! knows here what a mark costs. What is not of Accurate ECN (the echo of RFC 3168) is no business of this file.

use lasthop_core::packet::{Packet, flag};

use crate::transport::codec::Ecn;

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

/// What a sender makes of the counter that comes back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counter {
    /// Marked packets that the other end has told of (s.cep), modulo 8.
    told: u8,
    /// Mean number of packets that an ACK acknowledges, in eighths.
    mean: u16,
}

impl Counter {
    /// From this many packets per ACK on, in eighths, ACKs are thinned out so much that a jump is no sign that the
    /// counter has gone round (section 3.2.2.5.2, appendix A.2).
    const THINNED: u16 = 4 * 8;

    /// Before the first ACK, when this many marks have been told of.
    pub(crate) fn after(marks: u32) -> Counter {
        Counter { told: ((FIRST + marks) % 8) as u8, mean: 8 }
    }

    /// Takes the counter of an ACK that acknowledges `packets` for the first time; how many of them were marked. Where
    /// the three bits may have gone round once or more, as many as they can have been (appendix A.2).
    pub(crate) fn take(&mut self, number: u32, packets: u32) -> u32 {
        let least = number.wrapping_sub(u32::from(self.told)) & 7;
        let thinned = self.mean >= Counter::THINNED;
        self.mean = (self.mean - self.mean / 8).saturating_add(u16::try_from(packets).unwrap_or(u16::MAX));
        let marked = if packets >= least && !thinned { packets - ((packets - least) & 7) } else { least };
        self.told = (number & 7) as u8;
        marked
    }
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

    /// TV-29.3: from 5 to 1 is 4 at least; of 14 packets 12 can have been marked, of 4 or fewer 4.
    #[test]
    fn a_counter_that_may_have_gone_round() {
        for (packets, marked) in [(14, 12), (13, 12), (12, 12), (11, 4), (4, 4), (2, 4), (20, 20)] {
            assert_eq!(Counter::after(0).take(1, packets), marked, "{packets}");
        }
        let mut counter = Counter::after(0);
        assert_eq!(counter.take(5, 14), 8, "none or eight");
        assert_eq!((counter.told, counter.take(6, 1)), (5, 1), "the counter goes on from there");
    }

    /// Where ACKs stand for ten packets each, a jump is none of the counter.
    #[test]
    fn thinned_acks_are_not_taken_for_marks() {
        let mut counter = Counter::after(0);
        let first: Vec<u32> = (0..20).map(|_| counter.take(5, 10)).collect();
        assert_eq!(first.iter().position(|&marked| marked == 0), Some(3));
        assert!(first[3..].iter().all(|&marked| marked == 0), "{first:?}");
        assert_eq!(counter.take(7, 10), 2);
    }

    #[test]
    fn marks_are_counted_exactly_while_acks_come() {
        let mut counter = Counter::after(0);
        let mut sent = FIRST;
        let mut found = 0;
        for number in 0..1000u32 {
            let marks = [0, 1, 2, 1][number as usize % 4];
            sent += marks;
            found += counter.take(sent & 7, 2);
        }
        assert_eq!((found, u32::from(counter.told)), (1000, sent & 7));
    }
}
