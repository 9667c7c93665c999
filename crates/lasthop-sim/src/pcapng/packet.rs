//! The packets that a capture shows: what a record of a hop says, as a record of a packet and as its bytes.

use std::net::{Ipv4Addr, SocketAddrV4};

use lasthop_core::packet::{Cause, Kind, flag};
use lasthop_core::time::Time;
use lasthop_net::plan::{Plan, Profile, TcpConfig, Transport};
use lasthop_net::trace::HopRecord;
use lasthop_net::transport::codec::{
    self, Ecn, Flags, Header, MAX_HEADERS, MAX_PACKET, Measured, Options, Tcp,
};
use lasthop_net::transport::tcp::config::BASE_HEADER;
use lasthop_net::transport::tcp::window::Scale;

use super::vantage::{ends_of, peers};
use super::{Direction, PcapngError, Record, SNAP_LENGTH};

/// IP and UDP headers.
const DATAGRAM_HEADER: u16 = 28;

/// Time to live of what is sent.
const TIME_TO_LIVE: u8 = 64;

/// The bytes of packets as captures show them, for frames that carry them.
pub(crate) struct PacketBytes<'a> {
    plan: &'a Plan,
    closing: Vec<Closing>,
    /// Length of the last packet.
    pub(crate) last: usize,
}

impl<'a> PacketBytes<'a> {
    pub(crate) fn new(plan: &'a Plan) -> PacketBytes<'a> {
        PacketBytes { plan, closing: vec![Closing::default(); plan.flows.len()], last: 0 }
    }

    /// Writes what is stored of a packet.
    pub(crate) fn write(&mut self, hop: &HopRecord, bytes: &mut Vec<u8>) -> Result<(), PcapngError> {
        let closing = &mut self.closing[hop.flow as usize];
        closing.note(self.plan, hop);
        self.last = packet(&of_hop(self.plan, hop, *closing), bytes)? as usize;
        Ok(())
    }
}

/// What no record says of the end of a connection, because the engine does not need it: when the receiver's FIN was
/// first sent, and when it first reached the sender.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Closing {
    began: Option<Time>,
    heard: Option<Time>,
}

impl Closing {
    /// Learns from a record of its flow.
    pub(super) fn note(&mut self, plan: &Plan, hop: &HopRecord) {
        if hop.kind != Kind::FinAck {
            return;
        }
        let earliest = |known: Option<Time>, time: Time| Some(known.map_or(time, |known| known.min(time)));
        self.began = earliest(self.began, hop.stamp);
        let is_there = ends_of(plan, hop.direction).1 == plan.flows[hop.flow as usize].source;
        if let Some(arrived) = hop.arrived.filter(|_| is_there) {
            self.heard = earliest(self.heard, arrived);
        }
    }
}

/// The packet of `hop`, without when and where it was seen. The trace keeps only the numbers of the direction that
/// carries data: in the other a connection has a SYN and a FIN.
pub(super) fn of_hop(plan: &Plan, hop: &HopRecord, closing: Closing) -> Record {
    let flow = &plan.flows[hop.flow as usize];
    let back = hop.back;
    let (source, destination) = peers(plan, hop);
    // Each end acknowledges the other's FIN, and counts its own, from when it has received it.
    let since = |event: Option<Time>| 1 + u64::from(event.is_some_and(|event| event <= hop.stamp));
    let (seq, ack) = match hop.kind {
        Kind::Syn | Kind::SynAck => (0, hop.ack),
        Kind::FinAck => (1, hop.ack),
        _ if back => (since(closing.began), hop.ack),
        _ => (hop.seq, since(closing.heard)),
    };
    let tcp: Option<&TcpConfig> = match &flow.transport {
        Transport::Tcp(config) => Some(config),
        Transport::Udp(_) | Transport::Rate(_) | Transport::Outside(_) => None,
    };
    // Whatever a rate-based transport sends is the payload of a datagram, its own headers included.
    let (kind, payload) = match &flow.transport {
        Transport::Rate(_) => (Kind::Udp, u32::from(hop.bytes.saturating_sub(DATAGRAM_HEADER))),
        _ => (hop.kind, hop.payload.into()),
    };
    // ns-2 has no window field; one that is long enough stands for it.
    let scale = tcp.map(|tcp| match tcp.window_scale() {
        Scale::Exact => Scale::of_buffer(tcp.receive_buffer().into()),
        scale @ Scale::Shift(_) => scale,
    });
    let opens = matches!(hop.kind, Kind::Syn | Kind::SynAck);
    let blocks = hop.sack.as_slice();
    let millis = |time: Time| (time.0 / 1_000_000) as u32;
    // Room that the connection keeps for options, also where there is nothing to say yet.
    let counted = u32::from(hop.bytes).saturating_sub(u32::from(hop.payload) + BASE_HEADER);
    let counted = tcp.filter(|tcp| tcp.profile != Profile::Ns2).map_or(0, |_| counted);
    Record {
        time_ns: 0,
        interface: 0,
        direction: Direction::Outbound,
        source: source as u32,
        destination: destination as u32,
        flow: hop.flow,
        packet: hop.packet,
        kind,
        flags: hop.flags,
        back,
        seq,
        ack,
        payload,
        window: hop.window,
        window_scale: scale.map_or(0, Scale::shift),
        mss: tcp.map_or(0, |tcp| u16::try_from(tcp.mss()).unwrap_or(u16::MAX)),
        timestamps: tcp.filter(|tcp| tcp.timestamps).map(|_| (millis(hop.stamp), millis(hop.echo))),
        sack: (!blocks.is_empty() || opens && tcp.is_some_and(|tcp| tcp.recovery.uses_sack()))
            .then(|| blocks.to_vec()),
        measured: if opens {
            Measured { byte_counts: hop.measured.byte_counts, ..Measured::default() }
        } else {
            hop.measured
        },
        options_length: counted as u8,
        comment: hop.lost.map(Cause::name),
    }
}

/// Writes the packet's stored bytes to `bytes` and returns its whole length.
pub(super) fn packet(record: &Record, bytes: &mut Vec<u8>) -> Result<u32, PcapngError> {
    let ports = ports(record.flow, record.back);
    let header = Header {
        source: SocketAddrV4::new(address(record.source), ports.0),
        destination: SocketAddrV4::new(address(record.destination), ports.1),
        identification: record.packet as u16,
        time_to_live: TIME_TO_LIVE,
        ecn: Ecn::of_flags(record.flags),
        transport: match record.kind {
            Kind::Udp | Kind::Repair => codec::Transport::Udp,
            _ => codec::Transport::Tcp(tcp(record)),
        },
    };
    if record.kind == Kind::BadState {
        let notice = bad_state(&header, record.ack as u32);
        bytes.extend_from_slice(&notice);
        return Ok(notice.len() as u32);
    }
    let mut headers = [0; MAX_HEADERS];
    let mut payload = record.payload as usize;
    if payload + MAX_HEADERS > MAX_PACKET {
        payload = payload.min(header.room()?);
    }
    let length = header.write_before_zeros(payload, &mut headers)?;
    let stored = (length + payload).min(SNAP_LENGTH as usize);
    bytes.extend_from_slice(&headers[..length]);
    bytes.resize(bytes.len() + stored.saturating_sub(length), 0);
    Ok((length + payload) as u32)
}

/// The address of a node: 10.0.0.1 for node 0.
pub fn address(node: u32) -> Ipv4Addr {
    let [_, high, middle, low] = (node + 1).to_be_bytes();
    Ipv4Addr::new(10, high, middle, low)
}

/// Ports of a flow, unique for a pair of nodes. They are taken from the dynamic range, so that no dissector
/// takes the zeros for a protocol that it knows.
pub fn ports(flow: u32, back: bool) -> (u16, u16) {
    const FIRST: u32 = 50_000;
    const COUNT: u32 = 10_000;
    let sender = (FIRST + flow % COUNT) as u16;
    let receiver = (FIRST + COUNT + flow / COUNT % 5_000) as u16;
    if back { (receiver, sender) } else { (sender, receiver) }
}

/// A notice of a bad state as an ICMP message of an experimental type (RFC 4727) that quotes the headers of the packet
/// which could not be delivered. `header` is that of a segment to the same place.
fn bad_state(header: &Header, seq: u32) -> Vec<u8> {
    const ICMP: u8 = 1;
    const TCP: u8 = 6;
    const EXPERIMENTAL: u8 = 253;
    let addresses = [*header.source.ip(), *header.destination.ip()];
    let [sink, source] = addresses;
    let plain = (0, TIME_TO_LIVE, Ecn::NotCapable);
    let mut message = vec![EXPERIMENTAL, 0, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(&codec::ip_header([source, sink], TCP, BASE_HEADER as u16, plain));
    message.extend_from_slice(&header.destination.port().to_be_bytes());
    message.extend_from_slice(&header.source.port().to_be_bytes());
    message.extend_from_slice(&seq.to_be_bytes());
    let sum = codec::checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let rest = (header.identification, header.time_to_live, header.ecn);
    let ip = codec::ip_header(addresses, ICMP, (codec::IP_HEADER + message.len()) as u16, rest);
    [&ip[..], &message].concat()
}

/// The TCP header of a record.
fn tcp(record: &Record) -> Tcp {
    let opens = matches!(record.kind, Kind::Syn | Kind::SynAck);
    // The window of a SYN is never scaled (RFC 7323 section 2.2).
    let shift = if opens { 0 } else { record.window_scale };
    let answers = record.kind != Kind::Syn;
    let mut options = Options {
        mss: opens.then_some(record.mss),
        window_scale: opens.then_some(record.window_scale),
        sack_permitted: opens && record.sack.is_some(),
        timestamps: record.timestamps,
        measured: record.measured,
        length: record.options_length,
        ..Options::default()
    };
    if let Some(blocks) = record.sack.as_deref().filter(|blocks| !opens && !blocks.is_empty()) {
        options.sack = blocks.iter().copied().take(options.block_room()).collect();
    }
    Tcp {
        // Sequence numbers count on from 0 and wrap at 2^32.
        seq: record.seq as u32,
        ack: if answers { record.ack as u32 } else { 0 },
        window: (record.window >> shift).min(u16::MAX.into()) as u16,
        flags: Flags {
            syn: opens,
            fin: matches!(record.kind, Kind::Fin | Kind::FinAck),
            rst: record.kind == Kind::Reset,
            psh: record.payload > 0,
            ack: answers,
            ece: record.flags & flag::ECE != 0,
            cwr: record.flags & flag::CWR != 0,
            ae: record.flags & flag::AE != 0,
            eln: record.flags & flag::ELN != 0,
        },
        options,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_flows_are_told_apart() {
        assert_eq!(address(0), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(address(65_535), Ipv4Addr::new(10, 1, 0, 0));
        assert_eq!(ports(0, false), (50_000, 60_000));
        assert_eq!(ports(0, true), (60_000, 50_000));
        let mut all: Vec<(u16, u16)> = (0..100_000).map(|flow| ports(flow, false)).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 100_000);
    }
}
