//! Packet captures that Wireshark and tshark open: one interface per direction of a link, real IPv4, TCP and
//! UDP headers.
//!
//! `RunResult.write_pcapng` calls [`write_trace`] with the trace of a run; [`write`] takes records from
//! anywhere. Addresses are those of the nodes (node 0 is 10.0.0.1), ports tell the flows apart, time 0 of the
//! run is the epoch, and payload is zeros of which only the first bytes are stored.
//!
//! Headers are as a real stack would send them, so a packet may differ by some bytes from its size in the
//! run: ns-2 counts options differently.

use std::borrow::Cow;
use std::io::{self, Write};
use std::time::Duration;

use etherparse::{IpEcn, IpNumber, Ipv4Header, TcpHeader, TcpOptionElement, UdpHeader};
use lasthop_core::packet::{Kind, flag};
use lasthop_core::units::Rate;
use lasthop_net::plan::{Plan, TcpConfig, Transport};
use lasthop_net::trace::HopRecord;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, PcapError};

/// Bytes stored of each packet: the longest headers (20 and 60) and a little payload.
pub const SNAP_LENGTH: u32 = 96;

/// IP and UDP headers.
const DATAGRAM_HEADER: u16 = 28;
/// Largest IPv4 packet.
const LARGEST: usize = 65_535;
/// Timestamps in units of 10^-9 s.
const NANOSECONDS: u8 = 9;
/// Payload to compute checksums over.
static ZEROS: [u8; LARGEST] = [0; LARGEST];

/// A direction of a link, shown as a capture interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Shown as the interface's name.
    pub name: String,
    /// Transmission rate.
    pub rate: Rate,
}

/// Which way a packet passed the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It came out of the link at the far end.
    Inbound,
    /// It was transmitted.
    Outbound,
}

/// A SACK block: first byte, and one past the last.
pub type Block = (u64, u64);

/// One packet at one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Nanoseconds since the start of the run.
    pub time_ns: u64,
    /// Index of the interface.
    pub interface: u32,
    /// Which way.
    pub direction: Direction,
    /// Index of the node that sent the packet.
    pub source: u32,
    /// Index of the node that shall receive it.
    pub destination: u32,
    /// Index of the flow.
    pub flow: u32,
    /// Serial number; the IP identification shows its lower half.
    pub packet: u32,
    /// What the packet carries.
    pub kind: Kind,
    /// Bits of [`flag`]: ECN, and whether the packet travels from the receiver back to the sender of its
    /// flow.
    pub flags: u16,
    /// First byte of the payload; a SYN has 0.
    pub seq: u64,
    /// Next byte expected.
    pub ack: u64,
    /// Payload bytes.
    pub payload: u32,
    /// Receiver window in bytes.
    pub window: u64,
    /// Shift of the window scale option, the same in all packets of a connection; see [`window_scale`].
    pub window_scale: u8,
    /// Maximum segment size, shown in SYNs.
    pub mss: u16,
    /// Timestamps option: value and echo.
    pub timestamps: Option<(u32, u32)>,
    /// SACK blocks; three fit beside timestamps, four without. In a SYN any value permits SACK.
    pub sack: Option<Vec<Block>>,
    /// Comment on the packet, such as the reason of its loss.
    pub comment: Option<&'static str>,
}

/// Why a capture could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PcapngError {
    /// The file could not be written.
    #[error("the capture cannot be written: {0}")]
    Write(#[from] io::Error),
    /// A record names an interface that does not exist.
    #[error("the capture has no interface {0}")]
    NoInterface(u32),
}

impl From<PcapError> for PcapngError {
    fn from(error: PcapError) -> PcapngError {
        match error {
            PcapError::IoError(error) => PcapngError::Write(error),
            PcapError::InvalidInterfaceId(interface) => PcapngError::NoInterface(interface),
            other => PcapngError::Write(io::Error::other(other)),
        }
    }
}

/// The least shift with which a window of `bytes` fits the 16 bits of the TCP header.
pub fn window_scale(bytes: u64) -> u8 {
    // RFC 7323 allows 14 at most.
    (0..14).find(|shift| u16::try_from(bytes >> shift).is_ok()).unwrap_or(14)
}

/// Writes a capture of `records` to `writer` and returns how many it holds.
pub fn write<W: Write>(
    writer: W,
    interfaces: &[Interface],
    records: impl IntoIterator<Item = Record>,
) -> Result<u64, PcapngError> {
    let application =
        SectionHeaderOption::UserApplication(Cow::Borrowed(concat!("lasthop ", env!("CARGO_PKG_VERSION"))));
    let section = SectionHeaderBlock { options: vec![application], ..SectionHeaderBlock::default() };
    let mut capture = PcapNgWriter::with_section_header(writer, section)?;
    for interface in interfaces {
        capture.write_pcapng_block(InterfaceDescriptionBlock {
            linktype: DataLink::RAW,
            snaplen: SNAP_LENGTH,
            options: vec![
                InterfaceDescriptionOption::IfName(Cow::Borrowed(&interface.name)),
                InterfaceDescriptionOption::IfSpeed(interface.rate.0),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ],
        })?;
    }
    let mut written = 0;
    let mut bytes = Vec::with_capacity(SNAP_LENGTH as usize);
    for record in records {
        bytes.clear();
        let original_len = packet(&record, &mut bytes);
        let direction = match record.direction {
            Direction::Inbound => 1,
            Direction::Outbound => 2,
        };
        let mut options = vec![EnhancedPacketOption::Flags(direction)];
        options.extend(record.comment.map(|comment| EnhancedPacketOption::Comment(Cow::Borrowed(comment))));
        capture.write_pcapng_block(EnhancedPacketBlock {
            interface_id: record.interface,
            timestamp: Duration::from_nanos(record.time_ns),
            original_len,
            data: Cow::Borrowed(&bytes),
            options,
        })?;
        written += 1;
    }
    capture.into_inner().flush()?;
    Ok(written)
}

/// Writes what was transmitted on every link of a run, in the order of time. Packets that were lost in the
/// air carry a comment with the cause; those that never left a queue were not on the air and are not in the
/// capture.
///
/// A packet appears once on each link of its path. To judge a connection (retransmissions, order), look at
/// one link at a time, with a filter such as `frame.interface_name contains "bottleneck"`. Data segments echo
/// no timestamp: the trace does not keep it.
pub fn write_trace<W: Write>(writer: W, plan: &Plan, trace: &[HopRecord]) -> Result<u64, PcapngError> {
    let interfaces: Vec<Interface> = (plan.links.iter())
        .flat_map(|link| {
            let reverse = format!("{} (reverse)", link.name);
            [
                Interface { name: link.name.clone(), rate: link.forward.rate },
                Interface { name: reverse, rate: link.reverse.rate },
            ]
        })
        .collect();
    let mut order: Vec<(u64, usize)> =
        (trace.iter().enumerate()).filter_map(|(index, hop)| Some((hop.transmitted?.0, index))).collect();
    order.sort_unstable();
    // The last ACK of a connection acknowledges the receiver's FIN.
    let mut closed = vec![false; plan.flows.len()];
    let records = order.into_iter().map(|(time_ns, index)| {
        let hop = &trace[index];
        let closed = &mut closed[hop.flow as usize];
        *closed |= hop.kind == Kind::FinAck;
        of_hop(plan, hop, time_ns, *closed)
    });
    write(writer, &interfaces, records)
}

/// The packet of `hop`. The trace keeps only the numbers of the direction that carries data: in the other a
/// connection has a SYN and a FIN.
fn of_hop(plan: &Plan, hop: &HopRecord, time_ns: u64, closed: bool) -> Record {
    let flow = &plan.flows[hop.flow as usize];
    let back = hop.flags & flag::BACK != 0;
    let (source, destination) = if back { (flow.sink, flow.source) } else { (flow.source, flow.sink) };
    let answered = 1 + u64::from(closed);
    let (seq, ack) = match hop.kind {
        Kind::Syn | Kind::SynAck => (0, hop.ack),
        Kind::FinAck => (1, hop.ack),
        _ if back => (answered, hop.ack),
        _ => (hop.seq, answered),
    };
    let tcp: Option<&TcpConfig> = match &flow.transport {
        Transport::Tcp(config) => Some(config),
        Transport::Udp(_) | Transport::Rate(_) => None,
    };
    // Whatever a rate-based transport sends is the payload of a datagram, its own headers included.
    let (kind, payload) = match &flow.transport {
        Transport::Rate(_) => (Kind::Udp, u32::from(hop.bytes.saturating_sub(DATAGRAM_HEADER))),
        _ => (hop.kind, hop.payload.into()),
    };
    let window = tcp.map_or(0, |tcp| u64::from(tcp.receiver_window) * u64::from(tcp.mss()));
    let opens = matches!(hop.kind, Kind::Syn | Kind::SynAck);
    let blocks = hop.sack.as_slice();
    let millis = |nanos: u64| (nanos / 1_000_000) as u32;
    Record {
        time_ns,
        interface: hop.direction,
        direction: Direction::Outbound,
        source: source as u32,
        destination: destination as u32,
        flow: hop.flow,
        packet: hop.packet,
        kind,
        flags: hop.flags,
        seq,
        ack,
        payload,
        window,
        window_scale: window_scale(window),
        mss: tcp.map_or(0, |tcp| u16::try_from(tcp.mss()).unwrap_or(u16::MAX)),
        timestamps: tcp.filter(|tcp| tcp.timestamps).map(|_| (millis(hop.stamp.0), millis(hop.echo.0))),
        sack: (!blocks.is_empty() || opens && tcp.is_some_and(|tcp| tcp.recovery.uses_sack()))
            .then(|| blocks.to_vec()),
        comment: hop.lost.map(lasthop_core::packet::Cause::name),
    }
}

/// Writes the packet's stored bytes to `bytes` and returns its whole length.
fn packet(record: &Record, bytes: &mut Vec<u8>) -> u32 {
    let addresses = [address(record.source), address(record.destination)];
    let mut ip = Ipv4Header {
        identification: record.packet as u16,
        dont_fragment: true,
        time_to_live: 64,
        source: addresses[0],
        destination: addresses[1],
        ecn: match record.flags {
            flags if flags & flag::CE != 0 => IpEcn::CongestionExperienced,
            flags if flags & flag::ECT != 0 => IpEcn::Ect0,
            _ => IpEcn::NotEct,
        },
        protocol: match record.kind {
            Kind::Udp => IpNumber::UDP,
            Kind::BadState => IpNumber::ICMP,
            _ => IpNumber::TCP,
        },
        ..Ipv4Header::default()
    };
    let ports = ports(record.flow, record.flags & flag::BACK != 0);
    let (transport, payload) = match record.kind {
        Kind::Udp => udp(record, ports, addresses),
        Kind::BadState => (bad_state(record, ports, addresses), 0),
        _ => tcp(record, ports, addresses),
    };
    let length = ip.header_len() + transport.len() + payload;
    ip.total_len = length as u16;
    ip.header_checksum = ip.calc_header_checksum();
    bytes.extend_from_slice(&ip.to_bytes());
    bytes.extend_from_slice(&transport);
    bytes.resize(length.min(SNAP_LENGTH as usize), 0);
    length as u32
}

/// The address of a node: 10.0.0.1 for node 0.
fn address(node: u32) -> [u8; 4] {
    let [_, high, middle, low] = (node + 1).to_be_bytes();
    [10, high, middle, low]
}

/// Ports of a flow, unique for a pair of nodes. They are taken from the dynamic range, so that no dissector
/// takes the zeros for a protocol that it knows.
fn ports(flow: u32, back: bool) -> (u16, u16) {
    const FIRST: u32 = 50_000;
    const COUNT: u32 = 10_000;
    let sender = (FIRST + flow % COUNT) as u16;
    let receiver = (FIRST + COUNT + flow / COUNT % 5_000) as u16;
    if back { (receiver, sender) } else { (sender, receiver) }
}

/// The UDP header, and how much payload follows it.
fn udp(record: &Record, (from, to): (u16, u16), addresses: [[u8; 4]; 2]) -> (Vec<u8>, usize) {
    let payload = (record.payload as usize).min(LARGEST - Ipv4Header::MIN_LEN - UdpHeader::LEN);
    let mut header = UdpHeader {
        source_port: from,
        destination_port: to,
        length: (UdpHeader::LEN + payload) as u16,
        checksum: 0,
    };
    let checksum = header.calc_checksum_ipv4_raw(addresses[0], addresses[1], &ZEROS[..payload]);
    header.checksum = checksum.unwrap_or_default();
    (header.to_bytes().to_vec(), payload)
}

/// A notice of a bad state as an ICMP message of an experimental type (RFC 4727) that quotes the headers of the packet
/// which could not be delivered.
fn bad_state(record: &Record, (from, to): (u16, u16), [sink, source]: [[u8; 4]; 2]) -> Vec<u8> {
    const EXPERIMENTAL: u8 = 253;
    let mut quoted = Ipv4Header {
        dont_fragment: true,
        time_to_live: 64,
        source,
        destination: sink,
        protocol: IpNumber::TCP,
        total_len: Ipv4Header::MIN_LEN as u16 + 20,
        ..Ipv4Header::default()
    };
    quoted.header_checksum = quoted.calc_header_checksum();
    let mut message = vec![EXPERIMENTAL, 0, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(&quoted.to_bytes());
    message.extend_from_slice(&to.to_be_bytes());
    message.extend_from_slice(&from.to_be_bytes());
    message.extend_from_slice(&(record.ack as u32).to_be_bytes());
    // RFC 1071: the complement of the sum of all 16-bit words with end-around carry.
    let mut sum: u32 = message
        .chunks(2)
        .map(|word| u32::from(word[0]) << 8 | word.get(1).map_or(0, |&low| low.into()))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    message[2..4].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    message
}

/// The TCP header with its options, and how much payload follows it.
fn tcp(record: &Record, (from, to): (u16, u16), addresses: [[u8; 4]; 2]) -> (Vec<u8>, usize) {
    let opens = matches!(record.kind, Kind::Syn | Kind::SynAck);
    // The window of a SYN is never scaled (RFC 7323 section 2.2).
    let shift = if opens { 0 } else { record.window_scale };
    let closed = record.flags & flag::ZERO_WINDOW != 0;
    let window = if closed { 0 } else { (record.window >> shift).min(u16::MAX.into()) as u16 };
    // Sequence numbers count on from 0 and wrap at 2^32.
    let mut header = TcpHeader::new(from, to, record.seq as u32, window);
    header.syn = opens;
    header.fin = matches!(record.kind, Kind::Fin | Kind::FinAck);
    header.ack = record.kind != Kind::Syn;
    header.acknowledgment_number = if header.ack { record.ack as u32 } else { 0 };
    header.psh = record.payload > 0;
    header.ece = record.flags & flag::ECE != 0;
    header.cwr = record.flags & flag::CWR != 0;
    let options = tcp_options(record, opens);
    // 40 bytes of options are never exceeded; a header without them would still be right.
    let _ = header.set_options(&options);

    let payload = (record.payload as usize).min(LARGEST - Ipv4Header::MIN_LEN - header.header_len());
    let checksum = header.calc_checksum_ipv4_raw(addresses[0], addresses[1], &ZEROS[..payload]);
    header.checksum = checksum.unwrap_or_default();
    (header.to_bytes().to_vec(), payload)
}

fn tcp_options(record: &Record, opens: bool) -> Vec<TcpOptionElement> {
    use TcpOptionElement::{
        MaximumSegmentSize, Noop, SelectiveAcknowledgement, SelectiveAcknowledgementPermitted, Timestamp,
        WindowScale,
    };
    let mut options = Vec::new();
    if opens {
        options.extend([MaximumSegmentSize(record.mss), Noop, WindowScale(record.window_scale)]);
        if record.sack.is_some() {
            options.extend([Noop, Noop, SelectiveAcknowledgementPermitted]);
        }
    }
    if let Some((value, echo)) = record.timestamps {
        options.extend([Noop, Noop, Timestamp(value, echo)]);
    }
    let room = if record.timestamps.is_some() { 3 } else { 4 };
    let blocks = record.sack.as_deref().filter(|_| !opens).unwrap_or_default();
    let mut blocks = blocks.iter().take(room).map(|&(start, end)| (start as u32, end as u32));
    if let Some(first) = blocks.next() {
        let others = [blocks.next(), blocks.next(), blocks.next()];
        options.extend([Noop, Noop, SelectiveAcknowledgement(first, others)]);
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_fit_their_scale() {
        assert_eq!(window_scale(65_535), 0);
        assert_eq!(window_scale(65_536), 1);
        assert_eq!(window_scale(5_850_112), 7);
        assert_eq!(window_scale(u64::MAX), 14);
    }

    #[test]
    fn nodes_and_flows_are_told_apart() {
        assert_eq!(address(0), [10, 0, 0, 1]);
        assert_eq!(address(65_535), [10, 1, 0, 0]);
        assert_eq!(ports(0, false), (50_000, 60_000));
        assert_eq!(ports(0, true), (60_000, 50_000));
        let mut all: Vec<(u16, u16)> = (0..100_000).map(|flow| ports(flow, false)).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 100_000);
    }
}
