//! Headers as they are on the wire: IPv4, TCP with its options, and UDP, to bytes and back.
//!
//! Captures are written with it, and whatever takes real packets into a simulation reads them with it. It knows bytes
//! and nothing else: no connection, no clock, no socket, and no memory but the caller's. Whatever the bytes are, the
//! answer is a header or a [`ParseError`], never a panic.
//!
//! Fixed headers and the sums of checksums come from etherparse. The options of TCP do not: its reader stops at any
//! kind that it does not know, which the experimental ones below are, and so does its writer.
//!
//! **Numbers.** Sequence numbers count on in 64 bits in a simulation and wrap at 2^32 on the wire; [`unwrap`] brings
//! them back. The same goes for times of an option, which count microseconds.
//!
//! Explicit loss notification is the highest of the four reserved bits of the TCP header; its authors name none.

use std::net::{Ipv4Addr, SocketAddrV4};

use etherparse::checksum::Sum16BitWords;
use etherparse::err::{ipv4, tcp};
use etherparse::{IpEcn, IpNumber, Ipv4Header, Ipv4HeaderSlice, TcpHeader, TcpHeaderSlice, UdpHeader};
use lasthop_cc::{ReceiveTime, WaveReport};
use lasthop_core::packet::{Kind, Packet, flag};
use lasthop_core::time::{Span, Time};
use thiserror::Error;

use self::options::OptionWriter;
use super::extra::{ByteCounts, Extra, Wave};
use super::sack::SackBlocks;

mod options;
pub mod patch;

/// Most SACK blocks that fit into a header.
pub const MAX_BLOCKS: usize = 4;
/// Room for options in a TCP header.
pub const MAX_OPTIONS: usize = TcpHeader::MAX_LEN - TcpHeader::MIN_LEN;
/// The longest headers: IPv4 without options, TCP with as many as fit.
pub const MAX_HEADERS: usize = Ipv4Header::MIN_LEN + TcpHeader::MAX_LEN;
/// An IPv4 header without options.
pub const IP_HEADER: usize = Ipv4Header::MIN_LEN;
/// The longest IPv4 packet.
pub const MAX_PACKET: usize = u16::MAX as usize;

/// The reserved bit, in the byte of the data offset, that is explicit loss notification.
const ELN_BIT: u8 = 0b0000_1000;
/// Where that byte is.
const OFFSET_BYTE: usize = 12;
/// Where the checksums are in the headers of TCP and UDP.
const TCP_CHECKSUM: usize = 16;
const IP_CHECKSUM: usize = 10;
const UDP_CHECKSUM: usize = 6;

/// The ECN field of the IP header (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// The transport is not ECN-capable.
    #[default]
    NotCapable,
    /// ECN-capable, the usual code point ECT(0).
    Capable,
    /// ECN-capable, ECT(1).
    Capable1,
    /// Congestion experienced.
    Congestion,
}

impl Ecn {
    /// What the flags of a packet of the world say.
    pub fn of_flags(flags: u8) -> Ecn {
        match flags {
            flags if flags & flag::CE != 0 => Ecn::Congestion,
            flags if flags & flag::ECT == 0 => Ecn::NotCapable,
            flags if flags & flag::ECT_1 != 0 => Ecn::Capable1,
            _ => Ecn::Capable,
        }
    }

    /// The flags of a packet of the world.
    pub fn flags(self) -> u8 {
        match self {
            Ecn::NotCapable => 0,
            Ecn::Capable => flag::ECT,
            Ecn::Capable1 => flag::ECT | flag::ECT_1,
            Ecn::Congestion => flag::ECT | flag::CE,
        }
    }
}

impl From<Ecn> for IpEcn {
    fn from(ecn: Ecn) -> IpEcn {
        match ecn {
            Ecn::NotCapable => IpEcn::NotEct,
            Ecn::Capable => IpEcn::Ect0,
            Ecn::Capable1 => IpEcn::Ect1,
            Ecn::Congestion => IpEcn::CongestionExperienced,
        }
    }
}

impl From<IpEcn> for Ecn {
    fn from(ecn: IpEcn) -> Ecn {
        match ecn {
            IpEcn::NotEct => Ecn::NotCapable,
            IpEcn::Ect0 => Ecn::Capable,
            IpEcn::Ect1 => Ecn::Capable1,
            IpEcn::CongestionExperienced => Ecn::Congestion,
        }
    }
}

/// The headers of a packet. What is not here is always the same in what we send: no options of IP, no fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Who sent it: address and port.
    pub source: SocketAddrV4,
    /// Who shall get it.
    pub destination: SocketAddrV4,
    /// Identification of the IP header.
    pub identification: u16,
    /// Time to live.
    pub time_to_live: u8,
    /// ECN field.
    pub ecn: Ecn,
    /// What follows the ports.
    pub transport: Transport,
}

/// The transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A segment of TCP.
    Tcp(Tcp),
    /// A datagram.
    Udp,
}

/// A TCP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// Sequence number of the first byte, or of the SYN.
    pub seq: u32,
    /// Next byte expected; means something with [`Flags::ack`].
    pub ack: u32,
    /// Receiver window, not yet scaled.
    pub window: u16,
    /// Control bits.
    pub flags: Flags,
    /// Options.
    pub options: Options,
}

/// The control bits of a TCP header, urgent data aside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Opens the connection.
    pub syn: bool,
    /// Closes this direction.
    pub fin: bool,
    /// Ends the connection at once.
    pub rst: bool,
    /// To be given to the application at once.
    pub psh: bool,
    /// The acknowledgement number means something.
    pub ack: bool,
    /// ECN echo.
    pub ece: bool,
    /// Congestion window reduced.
    pub cwr: bool,
    /// Accurate ECN (RFC 9768), in the place of the ECN nonce.
    pub ae: bool,
    /// Explicit loss notification.
    pub eln: bool,
}

impl Flags {
    /// The same with the ECN bits that a packet of the world has.
    #[must_use]
    pub fn with_marks(self, flags: u8) -> Flags {
        let has = |bit| flags & bit != 0;
        Flags { ece: has(flag::ECE), cwr: has(flag::CWR), ae: has(flag::AE), ..self }
    }

    /// Those of them that a packet of the world has.
    pub fn bits(self) -> u8 {
        let bits = [(self.ece, flag::ECE), (self.cwr, flag::CWR), (self.ae, flag::AE), (self.eln, flag::ELN)];
        bits.into_iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum()
    }
}

/// The options of a TCP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size.
    pub mss: Option<u16>,
    /// Shift of the window scale.
    pub window_scale: Option<u8>,
    /// Selective acknowledgements are understood.
    pub sack_permitted: bool,
    /// Timestamps: value and echo.
    pub timestamps: Option<(u32, u32)>,
    /// SACK blocks; the first may report a duplicate (RFC 2883).
    pub sack: Blocks,
    /// What receivers and senders have measured, and tell each other.
    pub measured: Measured,
    /// Bytes that options take at least: a multiple of 4 up to [`MAX_OPTIONS`]. What they do not fill is padding. A
    /// header that was read has the bytes that they took.
    pub length: u8,
}

/// SACK blocks as they are on the wire: first byte, and one past the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    blocks: [(u32, u32); MAX_BLOCKS],
    count: u8,
}

impl Blocks {
    /// Adds a block if there is room.
    pub fn push(&mut self, block: (u32, u32)) {
        if let Some(slot) = self.blocks.get_mut(usize::from(self.count)) {
            *slot = block;
            self.count += 1;
        }
    }

    /// The blocks.
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.count)]
    }

    /// The blocks in the numbers of a simulation, given a recent one of the same direction.
    pub fn unwrap(&self, recent: u64) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        for &(start, end) in self.as_slice() {
            blocks.push(unwrap(recent, start), unwrap(recent, end));
        }
        blocks
    }
}

impl FromIterator<(u64, u64)> for Blocks {
    /// Blocks of a simulation, as many as fit.
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(blocks: I) -> Blocks {
        let mut all = Blocks::default();
        blocks.into_iter().for_each(|(start, end)| all.push((start as u32, end as u32)));
        all
    }
}

/// Contents of the experimental options, and of the one of Accurate ECN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Data: number and size of the wave that the segment belongs to.
    pub wave: Option<(u16, u16)>,
    /// ACKs: when the segment that triggered the ACK was sent and received, in microseconds.
    pub times: Option<(u32, u32)>,
    /// ACKs: frames discarded by the receiver's MAC so far.
    pub discards: Option<u32>,
    /// ACKs: the newest wave that has been measured.
    pub report: Option<Report>,
    /// It is a probe or answers one.
    pub probe: Option<Probe>,
    /// ACKs: bytes by ECN field (RFC 9768).
    pub byte_counts: Option<ByteCounts>,
}

/// What a receiver measured over a wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Number of the wave.
    pub wave: u16,
    /// Segments of it that arrived.
    pub segments: u16,
    /// Rate at which it arrived in bytes per second; 0 if it was too short to tell.
    pub rate: u32,
}

/// A probe of TCP Probing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Asks for an answer.
    Request,
    /// Is the answer.
    Answer,
}

impl Measured {
    /// What a packet of a simulation carries, on the wire.
    pub fn of(packet: &Packet, extra: Option<&Extra>) -> Measured {
        let micros = |time: Time| (time.0 / 1000) as u32;
        let probe = match packet.kind {
            Kind::Probe => Some(Probe::Request),
            Kind::ProbeAnswer => Some(Probe::Answer),
            _ => None,
        };
        let Some(extra) = extra else { return Measured { probe, ..Measured::default() } };
        Measured {
            wave: extra.wave.map(|wave| (wave.id, wave.size)),
            times: extra.times.map(|times| (micros(times.sent), micros(times.received))),
            discards: extra.discards,
            report: extra.report.map(|report| Report {
                wave: report.id,
                segments: report.segments,
                // A rate that is known is never 0, and what does not fit is the most that does.
                rate: report.rate.map_or(0, |rate| (rate.round() as u32).max(1)),
            }),
            probe,
            byte_counts: extra.byte_counts,
        }
    }

    /// What a SYN or SYN-ACK carries: it is shorter than a segment with measurements.
    pub fn of_opening(extra: Option<&Extra>) -> Measured {
        Measured { byte_counts: extra.and_then(|extra| extra.byte_counts), ..Measured::default() }
    }

    /// Puts what came over the wire into the form of a simulation. `now` is a recent time of the clock that stamped
    /// the segments, and `rtt` what the receiver of a wave takes for its round trip.
    pub fn fill(&self, extra: &mut Extra, now: Time, rtt: Span) {
        let time = |micros: u32| Time(unwrap(now.0 / 1000, micros).saturating_mul(1000));
        extra.wave = self.wave.map(|(id, size)| Wave { id, size, rtt });
        extra.times =
            self.times.map(|(sent, received)| ReceiveTime { sent: time(sent), received: time(received) });
        extra.discards = self.discards;
        extra.byte_counts = self.byte_counts;
        extra.report = self.report.map(|report| WaveReport {
            id: report.wave,
            rate: (report.rate > 0).then(|| f64::from(report.rate)),
            segments: report.segments,
        });
    }
}

/// The number with these lower 32 bits that is nearest to `recent`; of two as near, the lower one.
pub fn unwrap(recent: u64, low: u32) -> u64 {
    let ahead = low.wrapping_sub(recent as u32);
    let behind = (recent as u32).wrapping_sub(low);
    if u64::from(behind) <= recent && behind <= ahead {
        return recent - u64::from(behind);
    }
    recent.checked_add(u64::from(ahead)).unwrap_or_else(|| recent - u64::from(behind))
}

/// Which header an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// IPv4.
    Ip,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl std::fmt::Display for Layer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Layer::Ip => "IPv4",
            Layer::Tcp => "TCP",
            Layer::Udp => "UDP",
        })
    }
}

/// Why bytes are not a packet that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The bytes end too early.
    #[error("the packet ends within its {layer} part: {has} bytes of {needs}")]
    Truncated {
        /// Where.
        layer: Layer,
        /// Bytes that its length asks for.
        needs: usize,
        /// Bytes that are there.
        has: usize,
    },
    /// The first four bits are not 4.
    #[error("IP version {0} instead of 4")]
    Version(u8),
    /// A length is less than that of the header itself.
    #[error("the {layer} header says that it is {length} bytes long")]
    Length {
        /// Of which header.
        layer: Layer,
        /// What it says.
        length: usize,
    },
    /// A part of a packet.
    #[error("a fragment of an IPv4 packet")]
    Fragment,
    /// Neither TCP nor UDP.
    #[error("IP protocol {0}, which is neither TCP nor UDP")]
    Protocol(u8),
    /// Some bits have changed on the way.
    #[error("the {0} checksum is wrong")]
    Checksum(Layer),
    /// An option is too short, too long or of a length that its kind cannot have.
    #[error("option {kind} of the TCP header has a length of {length}")]
    Option {
        /// Its kind.
        kind: u8,
        /// The length that it claims; 0 if the header ends before it.
        length: u8,
    },
}

/// Why a header cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// More options than a TCP header has room for.
    #[error("{0} bytes of TCP options; 40 is the most")]
    Options(usize),
    /// Longer than an IPv4 packet can be.
    #[error("a packet of {0} bytes; 65535 is the most of IPv4")]
    Packet(usize),
    /// It does not fit where it should go.
    #[error("{needs} bytes for a place of {has}")]
    Place {
        /// Bytes needed.
        needs: usize,
        /// Bytes there.
        has: usize,
    },
}

impl From<ipv4::HeaderSliceError> for ParseError {
    fn from(error: ipv4::HeaderSliceError) -> ParseError {
        match error {
            ipv4::HeaderSliceError::Len(error) => {
                ParseError::Truncated { layer: Layer::Ip, needs: error.required_len, has: error.len }
            }
            ipv4::HeaderSliceError::Content(error) => match error {
                ipv4::HeaderError::UnexpectedVersion { version_number } => {
                    ParseError::Version(version_number)
                }
                ipv4::HeaderError::HeaderLengthSmallerThanHeader { ihl } => {
                    ParseError::Length { layer: Layer::Ip, length: 4 * usize::from(ihl) }
                }
            },
        }
    }
}

impl From<tcp::HeaderSliceError> for ParseError {
    fn from(error: tcp::HeaderSliceError) -> ParseError {
        match error {
            tcp::HeaderSliceError::Len(error) => {
                ParseError::Truncated { layer: Layer::Tcp, needs: error.required_len, has: error.len }
            }
            tcp::HeaderSliceError::Content(tcp::HeaderError::DataOffsetTooSmall { data_offset }) => {
                ParseError::Length { layer: Layer::Tcp, length: 4 * usize::from(data_offset) }
            }
        }
    }
}

/// Reads a packet: its headers and its payload. Checksums are verified; bytes behind the packet are left out.
pub fn parse(packet: &[u8]) -> Result<(Header, &[u8]), ParseError> {
    let ip = Ipv4HeaderSlice::from_slice(packet)?;
    let (header_length, total) = (ip.slice().len(), usize::from(ip.total_len()));
    if total < header_length {
        return Err(ParseError::Length { layer: Layer::Ip, length: total });
    }
    let Some(content) = packet.get(header_length..total) else {
        return Err(ParseError::Truncated { layer: Layer::Ip, needs: total, has: packet.len() });
    };
    if checksum(ip.slice()) != 0 {
        return Err(ParseError::Checksum(Layer::Ip));
    }
    if ip.is_fragmenting_payload() {
        return Err(ParseError::Fragment);
    }
    let addresses = [ip.source(), ip.destination()];
    let (ports, transport, payload) = match ip.protocol() {
        IpNumber::TCP => parse_tcp(content, addresses)?,
        IpNumber::UDP => parse_udp(content, addresses)?,
        other => return Err(ParseError::Protocol(other.0)),
    };
    let header = Header {
        source: SocketAddrV4::new(ip.source_addr(), ports.0),
        destination: SocketAddrV4::new(ip.destination_addr(), ports.1),
        identification: ip.identification(),
        time_to_live: ip.ttl(),
        ecn: ip.ecn().into(),
        transport,
    };
    Ok((header, payload))
}

/// Ports, header and payload.
type Parsed<'a> = ((u16, u16), Transport, &'a [u8]);

fn parse_tcp(content: &[u8], addresses: [[u8; 4]; 2]) -> Result<Parsed<'_>, ParseError> {
    let header = TcpHeaderSlice::from_slice(content)?;
    if transport_checksum(IpNumber::TCP, addresses, content) != 0 {
        return Err(ParseError::Checksum(Layer::Tcp));
    }
    let tcp = Tcp {
        seq: header.sequence_number(),
        ack: header.acknowledgment_number(),
        window: header.window_size(),
        flags: Flags {
            syn: header.syn(),
            fin: header.fin(),
            rst: header.rst(),
            psh: header.psh(),
            ack: header.ack(),
            ece: header.ece(),
            cwr: header.cwr(),
            ae: header.ns(),
            eln: header.slice()[OFFSET_BYTE] & ELN_BIT != 0,
        },
        options: options::parse(header.options())?,
    };
    let ports = (header.source_port(), header.destination_port());
    Ok((ports, Transport::Tcp(tcp), &content[header.slice().len()..]))
}

fn parse_udp(content: &[u8], addresses: [[u8; 4]; 2]) -> Result<Parsed<'_>, ParseError> {
    let truncated = |needs| ParseError::Truncated { layer: Layer::Udp, needs, has: content.len() };
    let Ok((header, _)) = UdpHeader::from_slice(content) else { return Err(truncated(UdpHeader::LEN)) };
    let length = usize::from(header.length);
    if length < UdpHeader::LEN {
        return Err(ParseError::Length { layer: Layer::Udp, length });
    }
    let Some(datagram) = content.get(..length) else { return Err(truncated(length)) };
    // A sender that computes none says 0 (RFC 768).
    if header.checksum != 0 && transport_checksum(IpNumber::UDP, addresses, datagram) != 0 {
        return Err(ParseError::Checksum(Layer::Udp));
    }
    Ok(((header.source_port, header.destination_port), Transport::Udp, &datagram[UdpHeader::LEN..]))
}

impl Header {
    /// Writes the packet to the beginning of `place` and returns its length.
    pub fn write(&self, payload: &[u8], place: &mut [u8]) -> Result<usize, WriteError> {
        let mut headers = [0; MAX_HEADERS];
        let length = self.write_headers(payload, payload.len(), &mut headers)?;
        let (needs, has) = (length + payload.len(), place.len());
        let Some(place) = place.get_mut(..needs) else { return Err(WriteError::Place { needs, has }) };
        place[..length].copy_from_slice(&headers[..length]);
        place[length..].copy_from_slice(payload);
        Ok(needs)
    }

    /// Writes the headers alone, of a packet with `payload` bytes that are all zero, and returns their length.
    pub fn write_before_zeros(&self, payload: usize, place: &mut [u8]) -> Result<usize, WriteError> {
        let mut headers = [0; MAX_HEADERS];
        let needs = self.write_headers(&[], payload, &mut headers)?;
        let has = place.len();
        let Some(place) = place.get_mut(..needs) else { return Err(WriteError::Place { needs, has }) };
        place.copy_from_slice(&headers[..needs]);
        Ok(needs)
    }

    /// Most payload that the packet has room for.
    pub fn room(&self) -> Result<usize, WriteError> {
        let mut headers = [0; MAX_HEADERS];
        Ok(MAX_PACKET - self.write_headers(&[], 0, &mut headers)?)
    }

    /// Writes the headers of a packet whose payload has `length` bytes: `payload`, and zeros behind it.
    fn write_headers(
        &self,
        payload: &[u8],
        length: usize,
        place: &mut [u8; MAX_HEADERS],
    ) -> Result<usize, WriteError> {
        let (protocol, header_length) = match &self.transport {
            Transport::Tcp(tcp) => (IpNumber::TCP, self.write_tcp(tcp, &mut place[Ipv4Header::MIN_LEN..])?),
            Transport::Udp => (IpNumber::UDP, UdpHeader::LEN),
        };
        let headers = Ipv4Header::MIN_LEN + header_length;
        let total = headers + length;
        let Ok(total_length) = u16::try_from(total) else { return Err(WriteError::Packet(total)) };
        let content = &mut place[Ipv4Header::MIN_LEN..headers];
        if self.transport == Transport::Udp {
            let header = UdpHeader {
                source_port: self.source.port(),
                destination_port: self.destination.port(),
                length: (UdpHeader::LEN + length) as u16,
                checksum: 0,
            };
            content.copy_from_slice(&header.to_bytes());
        }
        let addresses = [self.source.ip().octets(), self.destination.ip().octets()];
        let sum = pseudo_header(protocol, addresses, header_length + length).add_slice(content);
        let sum = sum.add_slice(payload).ones_complement().to_be();
        let (at, sum) = match self.transport {
            Transport::Tcp(_) => (TCP_CHECKSUM, sum),
            // 0 would say that there is none (RFC 768).
            Transport::Udp => (UDP_CHECKSUM, if sum == 0 { u16::MAX } else { sum }),
        };
        content[at..at + 2].copy_from_slice(&sum.to_be_bytes());

        let ip = ip_header(
            [*self.source.ip(), *self.destination.ip()],
            protocol.0,
            total_length,
            (self.identification, self.time_to_live, self.ecn),
        );
        place[..Ipv4Header::MIN_LEN].copy_from_slice(&ip);
        Ok(headers)
    }

    /// Writes a TCP header without its checksum.
    fn write_tcp(&self, tcp: &Tcp, place: &mut [u8]) -> Result<usize, WriteError> {
        let mut header = TcpHeader::new(self.source.port(), self.destination.port(), tcp.seq, tcp.window);
        header.acknowledgment_number = tcp.ack;
        header.syn = tcp.flags.syn;
        header.fin = tcp.flags.fin;
        header.rst = tcp.flags.rst;
        header.psh = tcp.flags.psh;
        header.ack = tcp.flags.ack;
        header.ece = tcp.flags.ece;
        header.cwr = tcp.flags.cwr;
        header.ns = tcp.flags.ae;
        let options = OptionWriter::of(&tcp.options)?;
        // The writer has refused what is too long.
        header.set_options_raw(options.as_slice()).map_err(|_| WriteError::Options(options.length))?;
        let bytes = header.to_bytes();
        place[..bytes.len()].copy_from_slice(&bytes);
        if tcp.flags.eln {
            place[OFFSET_BYTE] |= ELN_BIT;
        }
        Ok(bytes.len())
    }
}

/// An IPv4 header without options, for whatever follows it. `rest`: identification, time to live, ECN.
pub fn ip_header(
    [source, destination]: [Ipv4Addr; 2],
    protocol: u8,
    total_length: u16,
    rest: (u16, u8, Ecn),
) -> [u8; Ipv4Header::MIN_LEN] {
    let mut header = Ipv4Header {
        total_len: total_length,
        identification: rest.0,
        dont_fragment: true,
        time_to_live: rest.1,
        ecn: rest.2.into(),
        protocol: IpNumber(protocol),
        source: source.octets(),
        destination: destination.octets(),
        ..Ipv4Header::default()
    };
    header.header_checksum = header.calc_header_checksum();
    let mut bytes = [0; Ipv4Header::MIN_LEN];
    bytes.copy_from_slice(&header.to_bytes());
    bytes
}

/// The checksum of RFC 1071 over `bytes`: 0 if a right one is among them.
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum16BitWords::new().add_slice(bytes).ones_complement().to_be()
}

/// The sum over what TCP and UDP take from the IP header.
fn pseudo_header(protocol: IpNumber, addresses: [[u8; 4]; 2], length: usize) -> Sum16BitWords {
    Sum16BitWords::new()
        .add_4bytes(addresses[0])
        .add_4bytes(addresses[1])
        .add_2bytes([0, protocol.0])
        .add_2bytes((length as u16).to_be_bytes())
}

/// The checksum over a segment or datagram: 0 if it holds the right one.
fn transport_checksum(protocol: IpNumber, addresses: [[u8; 4]; 2], content: &[u8]) -> u16 {
    pseudo_header(protocol, addresses, content.len()).add_slice(content).ones_complement().to_be()
}

#[cfg(test)]
mod tests;
