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
//! **Experimental options** (RFC 6994, kind 253) carry what our receivers and senders tell each other beyond the
//! standard. Their identifiers are not registered:
//!
//! | identifier | length | content |
//! | --- | --- | --- |
//! | `LW` | 8 | data: number and size of the wave (TCP-Real) |
//! | `LT` | 12 | ACK: when the segment was sent and received, in microseconds |
//! | `LD` | 8 | ACK: frames that the receiver's MAC has discarded |
//! | `LR` | 12 | ACK: wave, segments of it that arrived, bytes per second (0: unknown) |
//! | `LP` | 5 | probe (0) or its answer (1) (TCP Probing) |
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

use super::extra::{Extra, Wave};
use super::sack::SackBlocks;

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

/// Kinds of options.
mod kind {
    pub(super) const END: u8 = 0;
    pub(super) const NO_OPERATION: u8 = 1;
    pub(super) const MSS: u8 = 2;
    pub(super) const WINDOW_SCALE: u8 = 3;
    pub(super) const SACK_PERMITTED: u8 = 4;
    pub(super) const SACK: u8 = 5;
    pub(super) const TIMESTAMPS: u8 = 8;
    pub(super) const EXPERIMENT: u8 = 253;
}

/// Identifiers of our experimental options.
mod experiment {
    pub(super) const WAVE: [u8; 2] = *b"LW";
    pub(super) const TIMES: [u8; 2] = *b"LT";
    pub(super) const DISCARDS: [u8; 2] = *b"LD";
    pub(super) const REPORT: [u8; 2] = *b"LR";
    pub(super) const PROBE: [u8; 2] = *b"LP";
}

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
    /// What our receivers and senders tell each other beyond the standard.
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

/// Contents of the experimental options.
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
        }
    }

    /// Puts what came over the wire into the form of a simulation. `now` is a recent time of the clock that stamped
    /// the segments, and `rtt` what the receiver of a wave takes for its round trip.
    pub fn fill(&self, extra: &mut Extra, now: Time, rtt: Span) {
        let time = |micros: u32| Time(unwrap(now.0 / 1000, micros).saturating_mul(1000));
        extra.wave = self.wave.map(|(id, size)| Wave { id, size, rtt });
        extra.times =
            self.times.map(|(sent, received)| ReceiveTime { sent: time(sent), received: time(received) });
        extra.discards = self.discards;
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
        options: parse_options(header.options())?,
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

/// Reads the options of a TCP header. Kinds that are not ours are passed over.
fn parse_options(bytes: &[u8]) -> Result<Options, ParseError> {
    let mut options = Options { length: bytes.len() as u8, ..Options::default() };
    let mut rest = bytes;
    while let Some(&kind) = rest.first() {
        match kind {
            kind::END => break,
            kind::NO_OPERATION => {
                rest = &rest[1..];
                continue;
            }
            _ => {}
        }
        let length = rest.get(1).copied().unwrap_or_default();
        let wrong = ParseError::Option { kind, length };
        let content = rest.get(2..usize::from(length)).ok_or(wrong)?;
        take_option(&mut options, kind, content).ok_or(wrong)?;
        rest = &rest[usize::from(length)..];
    }
    Ok(options)
}

/// Notes what an option says; `None` if its content does not have the size that it must have.
fn take_option(options: &mut Options, kind: u8, content: &[u8]) -> Option<()> {
    match kind {
        kind::MSS => options.mss = Some(u16::from_be_bytes(content.try_into().ok()?)),
        kind::WINDOW_SCALE => options.window_scale = Some(u8::from_be_bytes(content.try_into().ok()?)),
        kind::SACK_PERMITTED if content.is_empty() => options.sack_permitted = true,
        kind::SACK_PERMITTED => return None,
        kind::SACK => {
            if content.is_empty() || content.len() > 8 * MAX_BLOCKS {
                return None;
            }
            options.sack = Blocks::default();
            for block in content.chunks(8) {
                options.sack.push(two_words(block)?);
            }
        }
        kind::TIMESTAMPS => options.timestamps = Some(two_words(content)?),
        kind::EXPERIMENT => {
            // Without room for an identifier it belongs to another experiment (RFC 6994 section 3).
            let Some((&identifier, content)) = content.split_first_chunk::<2>() else { return Some(()) };
            take_experiment(&mut options.measured, identifier, content)?;
        }
        _ => {}
    }
    Some(())
}

fn take_experiment(measured: &mut Measured, identifier: [u8; 2], content: &[u8]) -> Option<()> {
    match identifier {
        experiment::WAVE => {
            let [a, b, c, d] = content.try_into().ok()?;
            measured.wave = Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])));
        }
        experiment::TIMES => measured.times = Some(two_words(content)?),
        experiment::DISCARDS => measured.discards = Some(u32::from_be_bytes(content.try_into().ok()?)),
        experiment::REPORT => {
            let (first, rate) = two_words(content)?;
            measured.report = Some(Report { wave: (first >> 16) as u16, segments: first as u16, rate });
        }
        experiment::PROBE => {
            measured.probe = Some(match content {
                [0] => Probe::Request,
                [1] => Probe::Answer,
                _ => return None,
            });
        }
        _ => {}
    }
    Some(())
}

fn two_words(bytes: &[u8]) -> Option<(u32, u32)> {
    let (first, second) = bytes.split_at_checked(4)?;
    Some((u32::from_be_bytes(first.try_into().ok()?), u32::from_be_bytes(second.try_into().ok()?)))
}

impl Options {
    /// SACK blocks for which there is room beside the other options.
    pub fn block_room(&self) -> usize {
        let others = Options { sack: Blocks::default(), length: 0, ..*self };
        let taken = OptionWriter::of(&others).map_or(MAX_OPTIONS, |writer| writer.length);
        // Kind and length of the option, and two bytes of padding.
        MAX_OPTIONS.saturating_sub(taken + 4) / 8
    }
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

/// Sets the ECN field of an IPv4 packet to congestion experienced, unless its transport is not capable of it. What is
/// too short to be one stays as it is.
pub fn mark_congestion(packet: &mut [u8]) {
    if packet.len() >= Ipv4Header::MIN_LEN && !matches!(packet[1] & 3, 0 | 3) {
        patch(packet, 0, IP_CHECKSUM, |word| word | 3);
    }
}

/// Sets explicit loss notification in an IPv4 packet with a TCP segment. What is none stays as it is.
pub fn mark_loss(packet: &mut [u8]) {
    let Some(&first) = packet.first() else { return };
    let start = 4 * usize::from(first & 15);
    if packet.len() >= start + TcpHeader::MIN_LEN && packet[9] == IpNumber::TCP.0 {
        patch(packet, start + OFFSET_BYTE, start + TCP_CHECKSUM, |word| word | u16::from(ELN_BIT) << 8);
    }
}

/// Leaves the first `keep` blocks in the SACK option of an IPv4 packet with a TCP segment, and no-operations in place
/// of the others. What is none stays as it is.
pub fn keep_sack_blocks(packet: &mut [u8], keep: usize) {
    let Some(&first) = packet.first() else { return };
    let start = 4 * usize::from(first & 15);
    if packet.len() < start + TcpHeader::MIN_LEN || packet[9] != IpNumber::TCP.0 {
        return;
    }
    let end = (start + 4 * usize::from(packet[start + OFFSET_BYTE] >> 4)).min(packet.len());
    let mut at = start + TcpHeader::MIN_LEN;
    while at + 1 < end {
        let (option, length) = match packet[at] {
            kind::END => return,
            kind::NO_OPERATION => (kind::NO_OPERATION, 1),
            option => (option, usize::from(packet[at + 1])),
        };
        if length == 0 || (option != kind::NO_OPERATION && length < 2) || at + length > end {
            return;
        }
        let kept = if keep == 0 { 0 } else { 2 + 8 * keep };
        if option == kind::SACK && kept < length {
            if keep > 0 {
                patch_byte(packet, (start, at + 1), kept as u8);
            }
            for byte in at + kept..at + length {
                patch_byte(packet, (start, byte), kind::NO_OPERATION);
            }
            return;
        }
        at += length;
    }
}

/// Whether the TCP segment in an IPv4 packet that [`parse`] has read carries an option that is not from RFC
/// 9293, 2018 or 7323: one that matters to devices that rewrite headers (multipath, authentication, data in the
/// SYN).
pub fn has_other_options(packet: &[u8]) -> bool {
    let Some(&first) = packet.first() else { return false };
    let start = 4 * usize::from(first & 15);
    let Some(&offset) = packet.get(start + OFFSET_BYTE) else { return false };
    let mut rest =
        packet.get(start + TcpHeader::MIN_LEN..start + 4 * usize::from(offset >> 4)).unwrap_or_default();
    loop {
        let length = match rest {
            [] | [kind::END, ..] => return false,
            [kind::NO_OPERATION, ..] => 1,
            [
                kind::MSS | kind::WINDOW_SCALE | kind::SACK_PERMITTED | kind::SACK | kind::TIMESTAMPS,
                length,
                ..,
            ] => usize::from(*length).max(2),
            _ => return true,
        };
        rest = rest.get(length..).unwrap_or_default();
    }
}

/// Changes the byte at `at` of the TCP segment that starts at `start`, and its checksum.
fn patch_byte(packet: &mut [u8], (start, at): (usize, usize), value: u8) {
    let is_low = (at - start) % 2 == 1;
    patch(packet, at - usize::from(is_low), start + TCP_CHECKSUM, |word| {
        if is_low { word & 0xff00 | u16::from(value) } else { word & 0x00ff | u16::from(value) << 8 }
    });
}

/// Changes the word at `at` and brings the checksum at `sum` up to date (RFC 1624 equation 3).
fn patch(packet: &mut [u8], at: usize, sum: usize, change: impl FnOnce(u16) -> u16) {
    let word = |packet: &[u8], at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let (before, known) = (word(packet, at), word(packet, sum));
    let after = change(before);
    let mut total = u32::from(!known) + u32::from(!before) + u32::from(after);
    while total > u32::from(u16::MAX) {
        total = (total & u32::from(u16::MAX)) + (total >> 16);
    }
    packet[at..at + 2].copy_from_slice(&after.to_be_bytes());
    packet[sum..sum + 2].copy_from_slice(&(!(total as u16)).to_be_bytes());
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

/// Collects the options of a header.
struct OptionWriter {
    bytes: [u8; MAX_OPTIONS],
    length: usize,
}

impl OptionWriter {
    /// The options in the order of Linux, aligned to 4 bytes. All of them together would not fit.
    fn of(options: &Options) -> Result<OptionWriter, WriteError> {
        let mut writer = OptionWriter { bytes: [0; MAX_OPTIONS], length: 0 };
        if let Some(mss) = options.mss {
            writer.put(kind::MSS, &[], &[&mss.to_be_bytes()]);
        }
        // Beside timestamps the two bytes take the place of the padding.
        if options.sack_permitted {
            if options.timestamps.is_none() {
                writer.align(2);
            }
            writer.put(kind::SACK_PERMITTED, &[], &[]);
        }
        if let Some((value, echo)) = options.timestamps {
            if !options.sack_permitted {
                writer.align(2);
            }
            writer.put(kind::TIMESTAMPS, &[], &[&value.to_be_bytes(), &echo.to_be_bytes()]);
        }
        if let Some(shift) = options.window_scale {
            writer.align(1);
            writer.put(kind::WINDOW_SCALE, &[], &[&[shift]]);
        }
        writer.put_blocks(options.sack.as_slice());
        writer.put_measured(&options.measured);
        let length = writer.length.next_multiple_of(4).max(usize::from(options.length).next_multiple_of(4));
        if length > MAX_OPTIONS {
            return Err(WriteError::Options(length));
        }
        writer.length = length;
        Ok(writer)
    }

    fn put_blocks(&mut self, blocks: &[(u32, u32)]) {
        if blocks.is_empty() {
            return;
        }
        self.align(2);
        self.byte(kind::SACK);
        self.byte(2 + 8 * blocks.len() as u8);
        for &(start, end) in blocks {
            start.to_be_bytes().into_iter().chain(end.to_be_bytes()).for_each(|byte| self.byte(byte));
        }
    }

    fn put_measured(&mut self, measured: &Measured) {
        if let Some((number, size)) = measured.wave {
            self.put(kind::EXPERIMENT, &experiment::WAVE, &[&number.to_be_bytes(), &size.to_be_bytes()]);
        }
        if let Some((sent, received)) = measured.times {
            self.put(kind::EXPERIMENT, &experiment::TIMES, &[&sent.to_be_bytes(), &received.to_be_bytes()]);
        }
        if let Some(count) = measured.discards {
            self.put(kind::EXPERIMENT, &experiment::DISCARDS, &[&count.to_be_bytes()]);
        }
        if let Some(Report { wave, segments, rate }) = measured.report {
            let content: [&[u8]; 3] = [&wave.to_be_bytes(), &segments.to_be_bytes(), &rate.to_be_bytes()];
            self.put(kind::EXPERIMENT, &experiment::REPORT, &content);
        }
        if let Some(probe) = measured.probe {
            self.put(kind::EXPERIMENT, &experiment::PROBE, &[&[u8::from(probe == Probe::Answer)]]);
        }
    }

    /// Adds a byte; what does not fit is counted and lost.
    fn byte(&mut self, byte: u8) {
        if let Some(slot) = self.bytes.get_mut(self.length) {
            *slot = byte;
        }
        self.length += 1;
    }

    fn align(&mut self, padding: usize) {
        (0..padding).for_each(|_| self.byte(kind::NO_OPERATION));
    }

    fn put(&mut self, kind: u8, identifier: &[u8], content: &[&[u8]]) {
        let length: usize = 2 + identifier.len() + content.iter().map(|part| part.len()).sum::<usize>();
        self.byte(kind);
        self.byte(length as u8);
        identifier.iter().chain(content.iter().copied().flatten()).for_each(|&byte| self.byte(byte));
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

#[cfg(test)]
mod tests;
