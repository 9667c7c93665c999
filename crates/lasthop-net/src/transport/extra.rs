//! What a packet carries beyond its header when it is one of the few that carry more: SACK blocks, echoed
//! measurements. It lies in an arena of `network.rs` and hangs off `Packet::extra`; receivers and senders fill and
//! read it.

use lasthop_cc::{ReceiveTime, WaveReport};
use lasthop_core::packet::Packet;
use lasthop_core::time::{Span, Time};

use super::codec::Ecn;
use super::rate::receiver::RateHeader;
use super::sack::SackBlocks;

/// A wave of segments, as the header of each of them names it (TCP-Real).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wave {
    /// Number of the wave.
    pub id: u16,
    /// Segments in it.
    pub size: u16,
    /// Smoothed RTT of the sender. It is not on the wire: a receiver learns its RTT from timestamps (RFC 7323 §4.1),
    /// and this stands in for it.
    pub rtt: Span,
}

/// What an end offers in its SYN or SYN-ACK. What both offer is in force; ECN has flags of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// The longest segment that it takes, in payload bytes (option 2); 0 if it does not say.
    pub mss: u16,
    /// Shift of its windows, if it scales them (RFC 7323 section 2).
    pub window_scale: Option<u8>,
    /// It understands selective acknowledgements (RFC 2018 section 2).
    pub sack: bool,
    /// It uses timestamps (RFC 7323 section 3).
    pub timestamps: bool,
}

/// The option of Accurate ECN: payload bytes that came with ECT(0), ECT(1) and CE (RFC 9768 section 3.2.3). What has
/// not changed since the connection opened may be left out at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteCounts {
    /// The fields are ECT(1), CE, ECT(0) (kind 174), and not ECT(0), CE, ECT(1) (kind 172).
    pub ect1_first: bool,
    /// How many fields there are, from the first on.
    pub present: u8,
    /// Their values modulo 2^24, in this order.
    pub fields: [u32; 3],
}

impl ByteCounts {
    /// Place of a count among the fields.
    pub(crate) fn place(self, ecn: Ecn) -> Option<usize> {
        match (ecn, self.ect1_first) {
            (Ecn::NotCapable, _) => None,
            (Ecn::Congestion, _) => Some(1),
            (Ecn::Capable, false) | (Ecn::Capable1, true) => Some(0),
            (Ecn::Capable, true) | (Ecn::Capable1, false) => Some(2),
        }
    }

    /// The bytes that came with this ECN field, if the option says so.
    pub fn get(self, ecn: Ecn) -> Option<u32> {
        let place = self.place(ecn).filter(|&place| place < usize::from(self.present))?;
        Some(self.fields[place])
    }

    /// Bytes of the option, padded to whole words as all options here are.
    pub fn padded(self) -> u32 {
        (2 + 3 * u32::from(self.present)).next_multiple_of(4)
    }
}

/// The rare parts of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Extra {
    /// ACKs: SACK blocks.
    pub sack: SackBlocks,
    /// ACKs: a helper has taken blocks out. The keeper of the packet's bytes takes them out there.
    pub hides_sack: bool,
    /// ACKs: times of the segment that triggered the ACK.
    pub times: Option<ReceiveTime>,
    /// ACKs: frames discarded by the receiver's MAC so far, modulo 2^32.
    pub discards: Option<u32>,
    /// Data: the wave that the segment belongs to.
    pub wave: Option<Wave>,
    /// ACKs: the newest wave that has been measured.
    pub report: Option<WaveReport>,
    /// ACKs and SYN-ACKs: bytes by ECN field.
    pub byte_counts: Option<ByteCounts>,
    /// SYN and SYN-ACK: what the end offers.
    pub offer: Option<Offer>,
    /// Everything that a packet of a rate-based transport says.
    pub rate: Option<RateHeader>,
    /// When the range of a retransmission, or of what a proxy passes on, was sent for the first time. No wire carries
    /// it: measurements need it.
    pub first_sent: Option<Time>,
    /// Packets from outside: where the driver of the world keeps their bytes. A copy that a helper sends has it too.
    pub bytes_at: Option<u32>,
}

/// When the range of `packet` was sent for the first time.
#[inline]
pub fn first_sent(packet: &Packet, extra: Option<&Extra>) -> Time {
    extra.and_then(|extra| extra.first_sent).unwrap_or(packet.stamp)
}
