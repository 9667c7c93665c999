//! Marks that both ends count (RFC 9768): what the SYN-ACK agrees to, what the counter of an ACK tells, and which bits
//! segments carry.
//!
//! `ack.rs` hands every ACK to [`Connection::hear_count`] first, which gives it the form that the rest of the sender
//! knows: an echo where marks are told of, and nothing else in the bits of the counter.

use lasthop_core::packet::{Kind, NONE, Packet, flag};
use lasthop_core::time::Time;

use super::Connection;
use super::recovery::RecoveryEngine;
use crate::transport::codec::Ecn;
use crate::transport::extra::{ByteCounts, Extra};
use crate::transport::sack::SackBlocks;
use crate::transport::tcp::accurate::{self, Counter, Feedback};
use crate::transport::wire::Wire;

/// What a sender stores of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    /// Its SYN asks for the count, and later: both ends have agreed to it.
    pub(super) counted: bool,
    /// The bits by which its own segments tell of marked packets of the other end; none before that is agreed.
    pub(super) told: u8,
    counter: Counter,
    /// Its segments of the handshake carry the option of bytes.
    in_bytes: bool,
    /// Duplicate ACKs without SACK blocks, for segments that no ACK has covered yet.
    departed: u16,
    /// Segments that the present ACK tells were marked.
    newly: u16,
}

impl Marks {
    /// `counted`: the SYN will ask for the count; `in_bytes`: and this end tells of bytes.
    pub(super) fn new(counted: bool, in_bytes: bool) -> Marks {
        Marks { counted, told: 0, counter: Counter::after(0), in_bytes, departed: 0, newly: 0 }
    }
}

impl Connection {
    /// What marks have to do with a segment's header.
    #[inline(never)]
    pub(super) fn marks_of(&mut self, kind: Kind, is_new_data: bool) -> u8 {
        if kind == Kind::Syn {
            return match self.marks.counted {
                true => flag::ACE,
                // RFC 3168 §6.1.1; in ns-2 the agents agree on their own.
                false if self.ns2 => 0,
                false => flag::ECE | flag::CWR,
            };
        }
        let mut flags = self.marks.told;
        if is_new_data || self.ns2 {
            // RFC 3168 §6.1.4, §6.1.5: what carries no data and retransmissions are not ECN-capable. In ns-2 they are.
            flags |= self.capable;
            if std::mem::take(&mut self.reduced) && !self.marks.counted {
                flags |= flag::CWR;
            }
        }
        flags
    }

    /// The first SYN-ACK decides what is fed back (RFC 9768 section 3.1.5). Without the count no data carries ECT(1)
    /// (RFC 9331 section 4.1); with a changed ECN field none is ECN-capable (RFC 9768 section 3.2.2.3).
    pub(super) fn take_agreement(&mut self, answer: &Packet, counts: Option<ByteCounts>) {
        if self.marks.told != 0 {
            return;
        }
        match accurate::agreed(answer.flags) {
            Feedback::Accurate => {
                let marked = u32::from(answer.has(flag::CE));
                self.marks.told = accurate::flags(accurate::FIRST + marked);
                if let Some(counts) = counts {
                    self.marks.counter.begin(counts);
                }
                if accurate::is_mangled(answer.flags) {
                    self.capable = 0;
                }
            }
            Feedback::Classic => (self.marks.counted, self.capable) = (false, flag::ECT),
            Feedback::None => (self.marks.counted, self.ecn) = (false, false),
        }
    }

    /// The third segment of the handshake: it tells how the SYN-ACK came (RFC 9768 section 3.2.2.1), and shows the
    /// option, if this end has it.
    pub(super) fn send_third<W: Wire>(&mut self, answer: &Packet, now: Time, wire: &mut W) {
        let flags = accurate::reflect(Ecn::of_flags(answer.flags));
        let counts = Some(accurate::Bytes::new().whole()).filter(|_| self.marks.in_bytes);
        let (bytes, extra) = match counts {
            Some(counts) => {
                let extra = Extra { byte_counts: Some(counts), ..Extra::default() };
                (self.ack_size + counts.padded() as u16, wire.attach(extra))
            }
            None => (self.ack_size, NONE),
        };
        self.send_bare(flags, (bytes, extra), now, wire);
    }

    /// A server hears how its SYN-ACK came, by the bits of an ACK without data (RFC 9768, table 4). Returns those that
    /// an answer to a SYN would have told it with.
    pub(crate) fn hear_third(&mut self, flags: u8) -> u8 {
        match accurate::number(flags) {
            // It feeds marks back, but does not answer them, and sends nothing that could be marked.
            0b000 => self.ecn = false,
            0b110 => self.marks.counter = Counter::after(1),
            _ => {}
        }
        if accurate::is_mangled(flags) { flags & flag::ACE } else { flag::CWR }
    }

    /// The ACK as the rest of the sender knows it.
    #[inline(never)]
    pub(super) fn hear_count<E: RecoveryEngine>(&mut self, packet: &Packet, extra: Option<&Extra>) -> Packet {
        self.marks.newly = 0;
        if !matches!(packet.kind, Kind::Ack | Kind::FinAck | Kind::ProbeAnswer) {
            return *packet;
        }
        let mut heard = *packet;
        heard.flags &= !flag::ACE;
        if self.una == 0 || packet.seq < self.una {
            return heard;
        }
        if packet.has(flag::CE) {
            self.marks.told = accurate::flags(accurate::number(self.marks.told) + 1);
        }
        let delivered = self.newly_acknowledged::<E>(packet, extra.map(|extra| &extra.sack));
        // One that a later one has overtaken tells nothing (appendix A.1).
        if delivered > 0 || self.timestamps && packet.stamp > self.peer_stamp {
            let counts = extra.and_then(|extra| extra.byte_counts);
            let taken = self.marks.counter.take(accurate::number(packet.flags), delivered, counts, self.mss);
            self.marks.newly = u16::try_from(taken.marked).unwrap_or(u16::MAX);
            if taken.contradicts {
                // Section 3.2.3.2.5: nothing of it may be marked any more.
                self.capable = 0;
            }
            heard.flags |= if self.marks.newly > 0 && self.ecn { flag::ECE } else { 0 };
        }
        heard
    }

    /// Segments that an ACK acknowledges for the first time, by SACK blocks too. Without them each duplicate ACK stands
    /// for one.
    fn newly_acknowledged<E: RecoveryEngine>(&mut self, packet: &Packet, sack: Option<&SackBlocks>) -> u32 {
        let ack = packet.seq;
        let covered = self.segments.iter().take_while(|segment| segment.end() <= ack);
        let covered = covered.filter(|segment| !segment.sacked).count() as u32;
        if E::SCOREBOARD {
            let blocks = sack.map_or(&[][..], |sack| sack.as_slice()).iter();
            return covered + blocks.map(|&(start, end)| self.unreported(start.max(ack), end)).sum::<u32>();
        }
        if covered == 0 {
            let departs = ack == self.una && self.una < self.max_sent;
            self.marks.departed = self.marks.departed.saturating_add(departs.into());
            return u32::from(departs);
        }
        // What the ACK covers has been counted, but for the segment whose arrival called for it.
        let counted = self.marks.departed.min(u16::try_from(covered - 1).unwrap_or(u16::MAX));
        self.marks.departed -= counted;
        if self.una < self.timeout_recover { 1 } else { covered - u32::from(counted) }
    }

    /// Whole segments within `[start, end)` that no SACK block has reported yet.
    fn unreported(&self, start: u64, end: u64) -> u32 {
        let Some(first) = self.segments.find(start) else { return 0 };
        let segments = (first..self.segments.len()).filter_map(|index| self.segments.get(index));
        segments.take_while(|segment| segment.end() <= end).filter(|segment| !segment.sacked).count() as u32
    }

    /// Bytes that an ACK tells were marked.
    pub(super) fn marked_bytes(&self, packet: &Packet) -> u64 {
        if self.marks.counted {
            return u64::from(self.marks.newly) * u64::from(self.mss);
        }
        let echoes = packet.has(flag::ECE) && packet.kind != Kind::SynAck;
        if echoes { packet.seq.saturating_sub(self.una) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use lasthop_cc::ControllerConfig;

    use super::super::testing::Rig;
    use super::*;
    use crate::transport::profile::Profile;
    use crate::transport::tcp::config::{Recovery, TcpConfig};

    const CE_SO_FAR: u8 = flag::AE | flag::ECE;

    fn config(recovery: Recovery) -> TcpConfig {
        TcpConfig {
            ecn: true,
            accurate_ecn: true,
            timestamps: false,
            delayed_ack: None,
            packet_size: 1040,
            tlp: false,
            ..TcpConfig::new(Profile::Rfc, ControllerConfig::by_name("reno").unwrap(), recovery)
        }
    }

    /// A sender whose SYN is answered with these bits.
    fn answered(config: &TcpConfig, flags: u8) -> Rig {
        let mut rig = Rig::new(config);
        rig.sender.on_data(None, rig.now, &mut rig.tape);
        assert_eq!(rig.tape.packets[0].flags, flag::ACE, "section 3.1.1");
        rig.tape.packets.clear();
        hear(&mut rig, 1, flags, None);
        rig
    }

    /// An ACK that expects segment `number` next, with these bits.
    fn hear(rig: &mut Rig, number: u64, flags: u8, extra: Option<&Extra>) {
        rig.now += lasthop_core::time::Span::from_millis(1);
        let kind = if number == 1 { Kind::SynAck } else { Kind::Ack };
        let offer = crate::transport::extra::Offer { mss: 1000, sack: true, ..Default::default() };
        let answer = Extra { offer: Some(offer), ..Extra::default() };
        let extra = if number == 1 { Some(&answer) } else { extra };
        let window = rig.sender.own_window;
        let packet = Packet { seq: (number - 1) * 1000 + 1, window, kind, flags, ..Packet::default() };
        rig.sender.on_ack(&packet, extra, rig.now, &mut rig.tape);
    }

    fn sent(rig: &Rig) -> Vec<(Kind, u8)> {
        rig.tape.packets.iter().map(|packet| (packet.kind, packet.flags)).collect()
    }

    /// TV-29.4: an ACK of its own tells how the SYN-ACK came, and data have the counter.
    #[test]
    fn the_third_segment_tells_how_the_second_came() {
        let ect1 = flag::ECT | flag::ECT_1;
        for (ecn, code, count) in [
            (0, flag::CWR, CE_SO_FAR),
            (ect1, flag::CWR | flag::ECE, CE_SO_FAR),
            (flag::ECT, flag::AE, CE_SO_FAR),
            (flag::ECT | flag::CE, flag::AE | flag::CWR, flag::AE | flag::CWR),
        ] {
            let rig = answered(&config(Recovery::Sack), flag::CWR | ecn);
            let sent = sent(&rig);
            assert_eq!((sent[0], sent.len()), ((Kind::Ack, code), 11));
            assert!(sent[1..].iter().all(|&one| one == (Kind::Data, flag::ECT | count)), "{sent:?}");
        }
    }

    /// TV-29.5: the other end knows less, or the path changes what it must not.
    #[test]
    fn fallback() {
        let prague = TcpConfig { ect1: true, ..config(Recovery::Sack) };
        let data = |answer: u8| sent(&answered(&prague, answer))[0].1;
        assert_eq!(data(flag::ECE), flag::ECT, "the echo of RFC 3168, and no ECT(1)");
        assert_eq!((data(0), data(flag::ACE)), (0, 0), "no ECN");
        let mangled = sent(&answered(&prague, flag::AE));
        assert_eq!(mangled[1], (Kind::Data, CE_SO_FAR), "counts, but is not capable");
        let counted = sent(&answered(&prague, flag::CWR));
        assert_eq!(counted[1], (Kind::Data, CE_SO_FAR | flag::ECT | flag::ECT_1));
    }

    /// Marks are told of once, in numbers, whatever the ACK acknowledges; the window falls once per window of data, and
    /// no segment says so (section 3.1.5).
    #[test]
    fn a_count_is_answered_like_an_echo() {
        for recovery in [Recovery::NewReno, Recovery::Sack, Recovery::Rack] {
            let mut rig = answered(&config(recovery), flag::CWR);
            rig.sender.host.window.ssthresh = 5.0;
            hear(&mut rig, 2, CE_SO_FAR, None);
            assert_eq!(rig.sender.marks.newly, 0);
            rig.tape.packets.clear();
            hear(&mut rig, 3, accurate::flags(6), None);
            assert_eq!((rig.sender.marks.newly, rig.sender.host.window.ssthresh), (1, 5.0), "{recovery:?}");
            hear(&mut rig, 5, accurate::flags(8), None);
            assert_eq!(rig.sender.marks.newly, 2);
            hear(&mut rig, 5, accurate::flags(5), None);
            let stands = if recovery == Recovery::NewReno { 5 } else { 0 };
            assert_eq!(rig.sender.marks.newly, stands, "{recovery:?}: overtaken, or a duplicate");
            assert_eq!(rig.sender.host.window.ssthresh, 5.0, "{recovery:?}: once");
            for number in 6..=12 {
                hear(&mut rig, number, accurate::flags(8 + u32::from(stands > 0) * 5), None);
            }
            assert!(sent(&rig).iter().all(|&(_, flags)| flags == CE_SO_FAR | flag::ECT), "{:?}", sent(&rig));
        }
    }

    /// What SACK blocks have reported is not counted again when the cumulative ACK comes: 9 packets in all, so that the
    /// counter cannot have gone round.
    #[test]
    fn reported_segments_count_once() {
        let mut rig = answered(&config(Recovery::Sack), flag::CWR);
        for last in 3..=10 {
            let mut extra = Extra::default();
            extra.sack.push(1001, (last - 1) * 1000 + 1);
            let window = rig.sender.own_window;
            let packet = Packet { seq: 1, window, kind: Kind::Ack, flags: CE_SO_FAR, ..Packet::default() };
            rig.sender.on_ack(&packet, Some(&extra), rig.now, &mut rig.tape);
            assert_eq!(rig.sender.marks.newly, 0);
        }
        hear(&mut rig, 11, CE_SO_FAR, None);
        assert_eq!(rig.sender.marks.newly, 0, "two packets, and no eight marks");
    }
}
