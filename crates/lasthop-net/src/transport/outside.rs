//! An end of a flow that lies outside of the world: packets that reach it leave the simulation, and the driver of
//! the world takes them, to a real network for instance, and puts in what comes back (`World::open_end`,
//! `World::depart`, `World::inject`).
//!
//! A [`Gateway`] stands between such an end and the wire: it turns the packets of one TCP connection into headers of
//! real ones and back. `codec.rs` turns those into bytes.
//!
//! **What is lost on the way.** Timestamps count microseconds, so an RTT that is measured by them is up to 1 us too
//! short. What no wire carries (when a range was first sent) is not known of packets from outside. Round trips of
//! waves are those of [`Gateway::rtt`].

use std::net::SocketAddrV4;

use lasthop_core::packet::{Cause, Kind, NONE, Note, Packet, flag};
use lasthop_core::time::{Span, Time};

use super::codec::{Ecn, Flags, Header, MAX_OPTIONS, Measured, Options, Probe, Tcp, Transport, unwrap};
use super::extra::{Extra, Offer};
use super::tcp::config::BASE_HEADER;
use crate::measure::Durations;
use crate::plan::Percentiles;

/// The ends of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The one that sends data.
    Sender,
    /// The one that gets them.
    Receiver,
}

/// The end of the bytes that a ticket ([`Extra::bytes_at`]) stands for, or of a copy of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The ticket.
    pub ticket: u32,
    /// When the packet was lost; it may lie ahead.
    pub at: Time,
    /// Why.
    pub cause: Cause,
    /// On which direction of a link: twice the link's index, plus one for the reverse.
    pub direction: Option<u32>,
}

/// What the driver of the world tells of a sender that it runs, within the measured time.
#[derive(Clone, Debug)]
pub struct Told {
    /// Congestion window in full packets; NaN while it is not known.
    pub cwnd: f64,
    /// Smoothed RTT; zero before the first sample.
    pub srtt: Span,
    /// Packets that the sender took for lost, and whose data it has sent again.
    pub retransmitted: u64,
    /// Times that its controller was told of losses or marks; those within a recovery reduce no window.
    pub fast_recoveries: u64,
    /// RTT.
    pub rtt: Durations,
    /// When everything was acknowledged.
    pub completed: Option<Time>,
    /// When the connection ended before its time.
    pub reset: Option<Time>,
    /// Of datagrams of a call, from one application to the other: their delays, and how many did not come.
    pub call: Option<(Durations, u64)>,
}

impl Told {
    /// Nothing is known yet.
    pub fn new(percentiles: Percentiles) -> Told {
        Told {
            cwnd: f64::NAN,
            srtt: Span::ZERO,
            retransmitted: 0,
            fast_recoveries: 0,
            rtt: Durations::new(percentiles),
            completed: None,
            reset: None,
            call: None,
        }
    }
}

/// A packet that has left the world.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    /// Index of its flow.
    pub flow: u32,
    /// When it reached its end.
    pub at: Time,
    /// The packet.
    pub packet: Packet,
    /// What it carries beyond its header.
    pub extra: Option<Extra>,
}

/// Time to live of what is sent.
pub(super) const TIME_TO_LIVE: u8 = 64;
/// The longest segment of an end that does not say (RFC 9293 section 3.7.1).
pub(super) const DEFAULT_MSS: u16 = 536;
/// A larger shift is taken for this one (RFC 7323 section 2.3).
pub(super) const LARGEST_SHIFT: u8 = 14;
/// Bytes of the timestamps option, with its padding.
pub(super) const TIMESTAMPS: u16 = 12;
/// Bytes of the headers of IPv4 and TCP without options.
const HEADERS: u16 = BASE_HEADER as u16;

/// One direction of a connection, as far as the other needs it.
#[derive(Clone, Copy, Debug)]
struct Side {
    address: SocketAddrV4,
    /// Sequence number of its SYN on the wire.
    initial: u32,
    /// One past the last sequence number that it has sent, in the numbers of the simulation.
    sent: u64,
    /// Shift of its windows, from its SYN.
    shift: u8,
    /// Its SYN offered timestamps.
    timestamps: bool,
    /// Its newest timestamp, in the unit of the wire.
    stamp: u64,
    /// Packets of it that were turned into headers.
    packets: u16,
}

impl Side {
    fn new(address: SocketAddrV4, initial: u32) -> Side {
        Side { address, initial, sent: 0, shift: 0, timestamps: false, stamp: 0, packets: 0 }
    }

    /// A number of this direction on the wire.
    fn on_wire(&self, seq: u64) -> u32 {
        self.initial.wrapping_add(seq as u32)
    }

    /// And back.
    fn of_wire(&self, seq: u32) -> u64 {
        unwrap(self.sent, seq.wrapping_sub(self.initial))
    }
}

/// What a timestamp says of a time: the end of its microsecond. By the beginning an echo would look older than what it
/// echoes, and a repair that was needed spurious (RFC 3522).
pub(super) fn stamp_of(time: Time) -> u32 {
    time.0.div_ceil(1000) as u32
}

/// Turns packets of one TCP connection into real headers and back. One gateway sees all packets of the connection, both
/// those that leave the world and those that enter it.
#[derive(Clone, Copy, Debug)]
pub struct Gateway {
    /// From the sender to the receiver, and back.
    sides: [Side; 2],
    /// What receivers outside take for the round trip of a wave.
    pub rtt: Span,
}

impl Gateway {
    /// A connection that has not been opened, between the sender of data and their receiver: where they are, and the
    /// sequence numbers that their SYNs will have on the wire. That of an end outside is its own choice: it is learned
    /// from its SYN.
    pub fn new(sender: (SocketAddrV4, u32), receiver: (SocketAddrV4, u32)) -> Gateway {
        Gateway { sides: [Side::new(sender.0, sender.1), Side::new(receiver.0, receiver.1)], rtt: Span::ZERO }
    }

    /// The header of a packet that has left the world, and the length of its payload.
    pub fn leave(&mut self, packet: &Packet, extra: Option<&Extra>) -> (Header, usize) {
        let from = usize::from(packet.note.back);
        let kind = packet.kind;
        let (syn, fin) =
            (kind == Kind::Syn || kind == Kind::SynAck, matches!(kind, Kind::Fin | Kind::FinAck));
        let offer = extra.and_then(|extra| extra.offer).filter(|_| syn);
        if let Some(offer) = offer {
            self.sides[from].shift = offer.window_scale.unwrap_or(0).min(LARGEST_SHIFT);
            self.sides[from].timestamps = offer.timestamps;
        }
        // Only the direction that carries data has numbers of its own; the other has a SYN and a FIN.
        let (seq, ack) = match packet.note.back {
            false => (packet.seq, self.sides[1].sent),
            true if syn => (0, packet.seq),
            true if fin => (1, packet.seq),
            true => (self.sides[1].sent.max(1), packet.seq),
        };
        let end = seq + u64::from(packet.payload) + u64::from(syn) + u64::from(fin);
        self.sides[from].sent = self.sides[from].sent.max(end);
        self.sides[from].packets = self.sides[from].packets.wrapping_add(1);
        let (near, far) = (self.sides[from], self.sides[1 - from]);
        let shift = if syn { 0 } else { near.shift };
        let counted = packet.bytes.saturating_sub(packet.payload + HEADERS);
        let length = if usize::from(counted) <= MAX_OPTIONS { counted & !3 } else { 0 };
        let mut options = Options {
            // On the wire it leaves out what options take (RFC 6691); here it is payload.
            mss: offer
                .filter(|offer| offer.mss > 0)
                .map(|offer| offer.mss.saturating_add(if offer.timestamps { TIMESTAMPS } else { 0 })),
            window_scale: offer.and_then(|offer| offer.window_scale),
            sack_permitted: offer.is_some_and(|offer| offer.sack),
            timestamps: (near.timestamps && (far.timestamps || kind == Kind::Syn))
                .then_some((stamp_of(packet.stamp), (packet.echo.0 / 1000) as u32)),
            measured: if syn { Measured::of_opening(extra) } else { Measured::of(packet, extra) },
            length: length as u8,
            ..Options::default()
        };
        let blocks = extra.map(|extra| extra.sack).unwrap_or_default();
        options.sack = blocks
            .as_slice()
            .iter()
            .take(options.block_room())
            .map(|&(start, end)| (u64::from(far.on_wire(start)), u64::from(far.on_wire(end))))
            .collect();
        let tcp = Tcp {
            seq: near.on_wire(seq),
            ack: if kind == Kind::Syn { 0 } else { far.on_wire(ack) },
            window: (packet.window >> shift).min(u16::MAX.into()) as u16,
            flags: Flags {
                syn,
                fin,
                psh: packet.payload > 0,
                ack: kind != Kind::Syn,
                ece: packet.has(flag::ECE),
                cwr: packet.has(flag::CWR),
                ae: packet.has(flag::AE),
                eln: packet.has(flag::ELN),
                ..Flags::default()
            },
            options,
        };
        let ecn = Ecn::of_flags(packet.flags);
        let header = Header {
            source: near.address,
            destination: far.address,
            identification: near.packets,
            time_to_live: TIME_TO_LIVE,
            ecn,
            transport: Transport::Tcp(tcp),
        };
        (header, packet.payload.into())
    }

    /// The packet of a header from outside, of this many bytes in all of which `payload` are data; `None` if it
    /// is not of this connection, resets it, or says nothing that a simulated end understands. `now`: the time
    /// in the world.
    pub fn enter(
        &mut self,
        header: &Header,
        bytes: usize,
        payload: usize,
        now: Time,
    ) -> Option<(Packet, Option<Extra>)> {
        let Transport::Tcp(tcp) = &header.transport else { return None };
        let from = self.sides.iter().position(|side| side.address == header.source)?;
        let back = from == 1;
        let Flags { syn, fin, ack, rst, .. } = tcp.flags;
        if rst || self.sides[1 - from].address != header.destination || ack == (syn && !back) {
            return None;
        }
        let far = &mut self.sides[from];
        if syn {
            far.initial = tcp.seq;
            far.sent = 0;
            far.shift = tcp.options.window_scale.unwrap_or(0).min(LARGEST_SHIFT);
            far.timestamps = tcp.options.timestamps.is_some();
        }
        let seq = far.of_wire(tcp.seq);
        let end = seq + payload as u64 + u64::from(syn) + u64::from(fin);
        let again = end > seq && end <= far.sent;
        let is_next = seq >= far.sent;
        far.sent = far.sent.max(end);
        let stamp = tcp.options.timestamps.map(|(value, _)| unwrap(far.stamp, value));
        far.stamp = far.stamp.max(stamp.unwrap_or(0));
        let shift = if syn { 0 } else { far.shift };
        let near = self.sides[1 - from];
        let kind = match tcp.options.measured.probe {
            Some(Probe::Request) => Kind::Probe,
            Some(Probe::Answer) => Kind::ProbeAnswer,
            None => match (syn, fin, back) {
                (true, _, false) => Kind::Syn,
                (true, _, true) => Kind::SynAck,
                (_, true, false) => Kind::Fin,
                (_, true, true) => Kind::FinAck,
                (_, _, true) => Kind::Ack,
                // A segment without data that lies behind is a question, not an answer (RFC 9293 section 3.8.4).
                (_, _, false) if payload == 0 && is_next => Kind::Ack,
                (_, _, false) => Kind::Data,
            },
        };
        let mut flags = header.ecn.flags();
        flags |= tcp.flags.bits();
        let acknowledged = near.of_wire(tcp.ack);
        let echo = tcp.options.timestamps.map_or(0, |(_, echo)| unwrap(now.0 / 1000, echo));
        let packet = Packet {
            seq: if back { acknowledged } else { seq },
            stamp: stamp.map_or(now, |stamp| Time(stamp.saturating_mul(1000))),
            echo: Time(echo.saturating_mul(1000)),
            window: u32::from(tcp.window) << shift,
            extra: NONE,
            bytes: bytes as u16,
            payload: payload as u16,
            kind,
            flags,
            note: Note::new(back, again && !back),
            ..Packet::default()
        };
        let stamped = tcp.options.timestamps.is_some() && (near.timestamps || !back);
        Some((packet, self.extra(tcp, &near, (syn, stamped), now)))
    }

    /// What a header from outside carries beyond the packet; `stamped`: segments of the connection have timestamps.
    fn extra(&self, tcp: &Tcp, near: &Side, (syn, stamped): (bool, bool), now: Time) -> Option<Extra> {
        let options = &tcp.options;
        let mut extra = Extra::default();
        options.measured.fill(&mut extra, now, self.rtt);
        for &(start, end) in options.sack.as_slice() {
            extra.sack.push(near.of_wire(start), near.of_wire(end));
        }
        extra.offer = syn.then_some(Offer {
            mss: options
                .mss
                .unwrap_or(DEFAULT_MSS)
                .saturating_sub(if stamped { TIMESTAMPS } else { 0 })
                .max(1),
            window_scale: options.window_scale.map(|shift| shift.min(LARGEST_SHIFT)),
            sack: options.sack_permitted,
            timestamps: options.timestamps.is_some(),
        });
        (extra != Extra::default()).then_some(extra)
    }
}
