//! Packets of a capture file: pcap and pcapng.
//!
//! The crate pcap-file reads the files, `frame` finds IP in their frames, and etherparse reads it. What is no
//! TCP or UDP over IP is counted and passed over; packets that were stored in part keep the length that they had.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Cursor, ErrorKind, Read};
use std::net::IpAddr;
use std::path::Path;

use etherparse::{LaxNetSlice, LaxSlicedPacket, TcpOptionElement, TransportSlice};
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{PcapError, TsResolution};

use super::frame::Frames;
pub use super::frame::Passed;

/// Most packets of a file.
pub const MOST_PACKETS: usize = 20_000_000;
/// Interfaces that a message names.
const MOST_NAMED: usize = 20;
/// Most connections of a file.
pub const MOST_FLOWS: usize = 1_000_000;

/// Connections that are told one by one. Of a capture with more, those with most payload come first.
pub const FLOWS_TOLD: usize = 10_000;

/// Why a capture cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file cannot be opened.
    #[error("it cannot be opened: {0}")]
    Open(String),
    /// It begins like no capture.
    #[error("it is no capture: it begins neither as pcap nor as pcapng does{0}")]
    Format(&'static str),
    /// It is damaged.
    #[error("it is damaged behind packet {after}: {why}{}", keeping(*.after))]
    Damaged {
        /// Packets that were read.
        after: usize,
        /// What the library says.
        why: String,
    },
    /// There is nothing in it that has a use.
    #[error("it holds no packet of TCP or UDP over IP ({0} other packets{1})")]
    Empty(u64, String),
    /// The interface that was asked for is not in it.
    #[error("it has no interface {asked:?}: use one of {known}")]
    Interface {
        /// Its number or name.
        asked: String,
        /// Numbers and names of those that are there.
        known: String,
    },
    /// It is too long.
    #[error("it has more than {0}: cut it, for example with editcap")]
    TooLong(&'static str),
}

/// How to keep what comes before the damage.
fn keeping(after: usize) -> String {
    if after == 0 {
        String::new()
    } else {
        format!("; to keep what comes before: editcap -r FILE NEW 1-{after}")
    }
}

/// Why frames hold nothing that is read, behind their number.
fn reasons(passed: Passed) -> String {
    let encrypted = match passed.encrypted {
        0 => String::new(),
        1 => "; one of 802.11 is encrypted: decrypt it first, for example with airdecap-ng".to_owned(),
        many => format!("; {many} of 802.11 are encrypted: decrypt them first, for example with airdecap-ng"),
    };
    let unread = passed.unread.map_or(String::new(), |link| format!("; the link type {link} is not read"));
    encrypted + &unread
}

/// What TCP says in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// Sequence number of the first byte.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// SYN.
    pub syn: bool,
    /// ACK.
    pub has_ack: bool,
    /// FIN or RST.
    pub ends: bool,
    /// Timestamp and its echo.
    pub times: Option<(u32, u32)>,
    /// The block of selective acknowledgement that comes first.
    pub sacked: Option<(u32, u32)>,
    /// Whether that block says that the segment came twice (RFC 2883): it lies below the ACK or within the next block.
    pub twice: bool,
    /// Window as it stands in the header, and the shift that a SYN announces for it.
    pub window: u16,
    /// See [`Tcp::window`].
    pub scale: Option<u8>,
}

/// One packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// When, in nanoseconds since 1970 or whatever the file counts from.
    pub at_ns: u64,
    /// Its connection, by number.
    pub flow: u32,
    /// Whether it goes the way of the connection's first packet.
    pub forward: bool,
    /// The interface that saw it, by its number in a section of pcapng.
    pub interface: u32,
    /// Length of the IP packet.
    pub bytes: u32,
    /// Bytes of payload.
    pub payload: u32,
    /// Identification of IPv4, which copies of a packet share and retransmissions do not; 0 where there is none.
    pub id: u16,
    /// Of TCP; `None` for UDP.
    pub tcp: Option<Tcp>,
}

/// The two ends of a connection, the sender of its first packet first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ends {
    /// Who sent the first packet.
    pub from: (IpAddr, u16),
    /// Who did not.
    pub to: (IpAddr, u16),
    /// TCP, else UDP.
    pub tcp: bool,
}

/// What a file holds.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    /// TCP and UDP packets, in the order of time.
    pub packets: Vec<Packet>,
    /// Connections by number: as they came, or by their payload if they are more than [`FLOWS_TOLD`].
    pub flows: Vec<Ends>,
    /// Packets of other protocols.
    pub others: u64,
    /// Of these, frames that are no packets, or cannot be read.
    pub passed: Passed,
    /// Whether the last packet of the file is cut off.
    pub truncated: bool,
}

/// The connections that are known.
#[derive(Default)]
struct Reader {
    capture: Capture,
    numbers: BTreeMap<Ends, u32>,
    frames: Frames,
    /// Number or name of the only interface that counts, if not all do.
    only: Option<String>,
    /// The interfaces that there are.
    known: Vec<String>,
    /// Whether one of them counts.
    has_one: bool,
}

/// An interface of the present section.
#[derive(Clone, Copy)]
struct Interface {
    number: u32,
    link: u32,
    clock: Clock,
    counts: bool,
}

/// Reads the file at `path`: the packets of all interfaces, or of one of them, by its number or name.
pub fn read(path: &Path, only: Option<&str>) -> Result<Capture, CaptureError> {
    let open = |error: std::io::Error| CaptureError::Open(crate::scenario::reason(&error));
    // Before it is opened: a pipe would wait for its writer.
    if !std::fs::metadata(path).map_err(open)?.is_file() {
        return Err(CaptureError::Open("it is not a regular file".to_owned()));
    }
    let file = File::open(path).map_err(open)?;
    read_from(BufReader::with_capacity(1 << 20, file), only)
}

/// Reads a capture from anywhere, likewise.
pub fn read_from(mut file: impl Read, only: Option<&str>) -> Result<Capture, CaptureError> {
    let mut magic = Vec::new();
    let open = |error: std::io::Error| CaptureError::Open(crate::scenario::reason(&error));
    file.by_ref().take(4).read_to_end(&mut magic).map_err(open)?;
    let mut whole = Cursor::new(magic.clone()).chain(file);
    // The formats are read by one piece of code, whatever the file comes from.
    let whole: &mut dyn Read = &mut whole;
    let mut reader = Reader { only: only.map(str::to_owned), ..Reader::default() };
    match magic[..] {
        [0x0a, 0x0d, 0x0d, 0x0a] => reader.read_pcapng(whole)?,
        [0xd4, 0xc3, 0xb2, 0xa1]
        | [0xa1, 0xb2, 0xc3, 0xd4]
        | [0x4d, 0x3c, 0xb2, 0xa1]
        | [0xa1, 0xb2, 0x3c, 0x4d] => {
            reader.read_pcap(whole)?;
        }
        [0x1f, 0x8b, ..] => return Err(CaptureError::Format("; unpack it first (gunzip)")),
        [] => return Err(CaptureError::Format(", it is empty")),
        _ => return Err(CaptureError::Format("")),
    }
    if !reader.has_one
        && let Some(asked) = reader.only
    {
        let known = if reader.known.is_empty() { "none".to_owned() } else { reader.known.join(", ") };
        return Err(CaptureError::Interface { asked, known });
    }
    let mut capture = reader.capture;
    capture.passed = reader.frames.passed;
    if capture.packets.is_empty() {
        return Err(CaptureError::Empty(capture.others, reasons(capture.passed)));
    }
    // Interfaces are written one after another; packets of one instant stay in the file's order.
    capture.packets.sort_by_key(|packet| packet.at_ns);
    if capture.flows.len() > FLOWS_TOLD {
        capture.large_first();
    }
    Ok(capture)
}

/// Packets that must be there before they are taken for copies of one another.
const COPIES_MIN: usize = 3;
/// Copies of a datagram are no further apart; identifications come again.
const COPIES_WITHIN_NS: u64 = 300_000_000;
/// More copies of a packet are none: something else makes it look like the others.
const COPIES_MAX: usize = 4;

/// The interface on which most of these packets with payload are more than once, as where a capture was taken at two
/// places or by all interfaces of a router. Where neither IP nor TCP tells a copy from a retransmission, there is
/// none.
pub fn copied_on<'p>(packets: impl Iterator<Item = &'p Packet>) -> Option<u32> {
    let told = packets
        .filter(|packet| packet.payload > 0)
        .filter(|packet| packet.id > 0 || packet.tcp.is_some_and(|tcp| tcp.times.is_some()));
    let mut told: Vec<_> = told
        .map(|packet| {
            let tcp = packet.tcp.map(|tcp| (tcp.seq, tcp.ack, tcp.times));
            ((packet.interface, packet.flow, packet.forward, packet.id, packet.payload, tcp), packet.at_ns)
        })
        .collect();
    told.sort_unstable();
    let is_near = |first: u64, second: u64| second - first <= COPIES_WITHIN_NS;
    let pairs = told.windows(2).filter(|pair| pair[0].0 == pair[1].0);
    let copies = pairs.filter(|pair| pair[0].0.5.is_some() || is_near(pair[0].1, pair[1].1)).count();
    let packets = told.len() - copies;
    let most = packets >= COPIES_MIN && copies * 2 > packets && copies < packets * COPIES_MAX;
    told.first().filter(|_| most).map(|(key, _)| key.0)
}

impl Capture {
    /// Numbers the connections by their payload.
    fn large_first(&mut self) {
        let mut payload = vec![0; self.flows.len()];
        for packet in &self.packets {
            payload[packet.flow as usize] += u64::from(packet.payload);
        }
        let mut order: Vec<u32> = (0..self.flows.len() as u32).collect();
        order.sort_by_key(|&flow| std::cmp::Reverse(payload[flow as usize]));
        let mut place = vec![0; order.len()];
        for (number, &flow) in (0..).zip(&order) {
            place[flow as usize] = number;
        }
        for packet in &mut self.packets {
            packet.flow = place[packet.flow as usize];
        }
        self.flows = order.iter().map(|&flow| self.flows[flow as usize]).collect();
    }
}

impl Reader {
    fn damaged(&self, error: &PcapError) -> CaptureError {
        let after = self.capture.packets.len() + self.capture.others as usize;
        CaptureError::Damaged { after, why: error.to_string().to_lowercase() }
    }

    /// Adds an interface; one that many sections have is named once.
    fn interface(&mut self, number: u32, name: Option<&str>, link: u32, clock: Clock) -> Interface {
        let said = name.map_or_else(|| number.to_string(), |name| format!("{number} ({name})"));
        if !self.known.contains(&said) && self.known.len() < MOST_NAMED {
            self.known.push(said);
        }
        let counts = self.only.as_deref().is_none_or(|only| only == number.to_string() || Some(only) == name);
        self.has_one |= counts;
        Interface { number, link, clock, counts }
    }

    /// Whether reading may go on behind `error`: a file that was cut while it was written ends before its time.
    fn is_cut(&mut self, error: &PcapError) -> bool {
        let ends = match error {
            PcapError::IncompleteBuffer => true,
            PcapError::IoError(error) => error.kind() == ErrorKind::UnexpectedEof,
            _ => false,
        };
        self.capture.truncated = ends && !self.capture.packets.is_empty();
        self.capture.truncated
    }

    fn read_pcap(&mut self, file: &mut dyn Read) -> Result<(), CaptureError> {
        let mut reader = PcapReader::new(file).map_err(|error| self.damaged(&error))?;
        let ticks =
            if reader.header().ts_resolution == TsResolution::NanoSecond { 1_000_000_000 } else { 1_000_000 };
        let link = u32::from(reader.header().datalink);
        let interface = self.interface(0, None, link, Clock { ticks, offset: 0 });
        loop {
            // Raw: a fraction beyond a second is a fault of some writers that others overlook as well.
            match reader.next_raw_packet() {
                None => return Ok(()),
                Some(Ok(packet)) => {
                    let ticks = u64::from(packet.ts_sec) * ticks + u64::from(packet.ts_frac);
                    self.take(interface, ticks, &packet.data, packet.orig_len)?;
                }
                Some(Err(error)) if self.is_cut(&error) => return Ok(()),
                Some(Err(error)) => return Err(self.damaged(&error)),
            }
        }
    }

    fn read_pcapng(&mut self, file: &mut dyn Read) -> Result<(), CaptureError> {
        let mut reader = PcapNgReader::new(file).map_err(|error| self.damaged(&error))?;
        let mut interfaces: Vec<Interface> = Vec::new();
        while let Some(block) = reader.next_block() {
            let block = match block {
                Ok(block) => block,
                Err(error) if self.is_cut(&error) => return Ok(()),
                Err(error) => return Err(self.damaged(&error)),
            };
            let (number, ticks, data, length) = match &block {
                Block::SectionHeader(_) => {
                    interfaces.clear();
                    continue;
                }
                Block::InterfaceDescription(one) => {
                    let name = one.options.iter().find_map(|option| match option {
                        InterfaceDescriptionOption::IfName(name) => Some(name.as_ref()),
                        _ => None,
                    });
                    let (number, link) = (interfaces.len() as u32, u32::from(one.linktype));
                    interfaces.push(self.interface(number, name, link, Clock::of(&one.options)));
                    continue;
                }
                // The library counts every tick as a nanosecond, whatever the interface says.
                Block::EnhancedPacket(one) => {
                    let ticks = u64::try_from(one.timestamp.as_nanos()).unwrap_or(u64::MAX);
                    (one.interface_id, Some(ticks), &one.data, one.original_len)
                }
                Block::Packet(one) => {
                    (u32::from(one.interface_id), Some(one.timestamp), &one.data, one.original_len)
                }
                Block::SimplePacket(one) => (0, None, &one.data, one.original_len),
                _ => continue,
            };
            let Some(&interface) = interfaces.get(number as usize) else {
                return Err(self.damaged(&PcapError::InvalidInterfaceId(number)));
            };
            match ticks {
                Some(ticks) => self.take(interface, ticks, data, length)?,
                // A simple packet has no time, so nothing can be said of it.
                None => self.capture.others += 1,
            }
        }
        Ok(())
    }

    /// Takes what a frame of an interface holds, of which `data` was stored.
    fn take(&mut self, from: Interface, ticks: u64, data: &[u8], length: u32) -> Result<(), CaptureError> {
        if !from.counts {
            return Ok(());
        }
        let at_ns = from.clock.nanos(ticks);
        let before = self.capture.packets.len();
        let mut frames = std::mem::take(&mut self.frames);
        for &(begin, end) in frames.open(from.link, at_ns, data) {
            let wire = length.saturating_sub(begin as u32);
            if let Some(packet) = decoded(&data[begin..end], wire) {
                self.add(from.number, at_ns, packet)?;
            }
        }
        self.frames = frames;
        self.capture.others += u64::from(self.capture.packets.len() == before);
        Ok(())
    }

    /// Adds a packet of TCP or UDP.
    fn add(&mut self, interface: u32, at_ns: u64, packet: Decoded) -> Result<(), CaptureError> {
        let (ends, bytes, payload, id, tcp) = packet;
        if self.capture.packets.len() == MOST_PACKETS {
            return Err(CaptureError::TooLong("20,000,000 packets"));
        }
        let back = Ends { from: ends.to, to: ends.from, tcp: ends.tcp };
        let (flow, forward) = match (self.numbers.get(&ends), self.numbers.get(&back)) {
            (Some(&flow), _) => (flow, true),
            (None, Some(&flow)) => (flow, false),
            (None, None) => {
                if self.capture.flows.len() == MOST_FLOWS {
                    return Err(CaptureError::TooLong("1,000,000 connections"));
                }
                let flow = self.capture.flows.len() as u32;
                self.numbers.insert(ends, flow);
                self.capture.flows.push(ends);
                (flow, true)
            }
        };
        self.capture.packets.push(Packet { at_ns, flow, forward, interface, bytes, payload, id, tcp });
        Ok(())
    }
}

/// The clock of an interface of pcapng.
#[derive(Clone, Copy)]
struct Clock {
    /// Ticks of a second.
    ticks: u64,
    /// Seconds to add.
    offset: u64,
}

impl Clock {
    fn of(options: &[InterfaceDescriptionOption<'_>]) -> Clock {
        let mut clock = Clock { ticks: 1_000_000, offset: 0 };
        for option in options {
            match option {
                InterfaceDescriptionOption::IfTsResol(code) => {
                    let (base, power) = if code & 0x80 == 0 { (10_u64, *code) } else { (2, code & 0x7f) };
                    clock.ticks = base.checked_pow(u32::from(power)).unwrap_or(u64::MAX);
                }
                InterfaceDescriptionOption::IfTsOffset(seconds) => clock.offset = *seconds,
                _ => {}
            }
        }
        clock
    }

    fn nanos(self, ticks: u64) -> u64 {
        let nanos = u128::from(ticks) * 1_000_000_000 / u128::from(self.ticks);
        u64::try_from(nanos + u128::from(self.offset) * 1_000_000_000).unwrap_or(u64::MAX)
    }
}

/// Ends, length, payload, identification and TCP of a packet.
type Decoded = (Ends, u32, u32, u16, Option<Tcp>);

/// Ends, length, payload, identification and TCP of a packet that was `wire` bytes long from IP on.
fn decoded(data: &[u8], wire: u32) -> Option<Decoded> {
    let sliced = LaxSlicedPacket::from_ip(data).ok()?;
    let (from, to, stated, id): (IpAddr, IpAddr, u32, u16) = match sliced.net.as_ref()? {
        LaxNetSlice::Ipv4(ip) => {
            if ip.header().fragments_offset().value() > 0 {
                return None;
            }
            let header = ip.header();
            let (from, to) = (header.source_addr().into(), header.destination_addr().into());
            (from, to, u32::from(header.total_len()), header.identification())
        }
        LaxNetSlice::Ipv6(ip) => {
            let header = ip.header();
            let length = u32::from(header.payload_length());
            let length = if length == 0 { 0 } else { length + 40 };
            (header.source_addr().into(), header.destination_addr().into(), length, 0)
        }
        LaxNetSlice::Arp(_) => return None,
    };
    // Trains that a network card is to cut have no length in their header; padding of short frames is not counted.
    let bytes = if stated == 0 { wire } else { stated };
    let offset = |part: &[u8]| (part.as_ptr() as usize - data.as_ptr() as usize) as u32;
    let (ports, headers, tcp) = match sliced.transport.as_ref()? {
        TransportSlice::Tcp(segment) => {
            let mut tcp = Tcp {
                seq: segment.sequence_number(),
                ack: segment.acknowledgment_number(),
                syn: segment.syn(),
                has_ack: segment.ack(),
                ends: segment.fin() || segment.rst(),
                times: None,
                sacked: None,
                twice: false,
                window: segment.window_size(),
                scale: None,
            };
            for option in segment.options_iterator().flatten() {
                match option {
                    TcpOptionElement::Timestamp(own, echo) => tcp.times = Some((own, echo)),
                    TcpOptionElement::WindowScale(shift) => tcp.scale = Some(shift),
                    TcpOptionElement::SelectiveAcknowledgement(first, more) => {
                        let not_behind = |one: u32, other: u32| other.wrapping_sub(one) as i32 >= 0;
                        let within =
                            |whole: (u32, u32)| not_behind(whole.0, first.0) && not_behind(first.1, whole.1);
                        tcp.sacked = Some(first);
                        tcp.twice = !not_behind(tcp.ack, first.0) || more[0].is_some_and(within);
                    }
                    _ => {}
                }
            }
            let headers = offset(segment.slice()) + segment.header_slice().len() as u32;
            ((segment.source_port(), segment.destination_port()), headers, Some(tcp))
        }
        TransportSlice::Udp(datagram) => {
            let headers = offset(datagram.slice()) + 8;
            ((datagram.source_port(), datagram.destination_port()), headers, None)
        }
        _ => return None,
    };
    let ends = Ends { from: (from, ports.0), to: (to, ports.1), tcp: tcp.is_some() };
    Some((ends, bytes, bytes.saturating_sub(headers), id, tcp))
}

#[cfg(test)]
mod tests {
    use super::super::follow::tests::SEGMENT;
    use super::*;
    use lasthop_core::random::Stream;
    use pcap_file::DataLink;
    use pcap_file::pcapng::PcapNgWriter;
    use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
    use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionBlock;
    use std::time::Duration;

    /// A segment of TCP over IPv4 with timestamps and 10 bytes of payload.
    fn segment() -> Vec<u8> {
        let builder = etherparse::PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            .tcp(80, 90, 1_000, 4_096)
            .ack(7)
            .options(&[TcpOptionElement::Timestamp(5, 6)])
            .unwrap();
        let mut bytes = Vec::new();
        builder.write(&mut bytes, &[0; 10]).unwrap();
        bytes
    }

    /// pcapng with an interface whose ticks are 2^-20 s, and packets at `ticks`.
    fn pcapng(ticks: &[u64]) -> Vec<u8> {
        let mut writer = PcapNgWriter::new(Vec::new()).unwrap();
        let options = vec![InterfaceDescriptionOption::IfTsResol(0x80 | 0x14)];
        let interface = InterfaceDescriptionBlock { linktype: DataLink::RAW, snaplen: 0, options };
        writer.write_pcapng_block(interface).unwrap();
        for tick in ticks {
            let data = segment();
            let packet = EnhancedPacketBlock {
                interface_id: 0,
                timestamp: Duration::from_nanos(*tick),
                original_len: data.len() as u32,
                data: data.into(),
                options: Vec::new(),
            };
            writer.write_pcapng_block(packet).unwrap();
        }
        writer.into_inner()
    }

    /// The clock is the interface's; packets are sorted; TCP is understood.
    #[test]
    fn the_clock_of_an_interface() {
        let capture = read_from(&pcapng(&[3 << 20, 1 << 19])[..], None).unwrap();
        let times: Vec<u64> = capture.packets.iter().map(|packet| packet.at_ns).collect();
        assert_eq!(times, [500_000_000, 3_000_000_000]);
        let packet = capture.packets[0];
        assert_eq!((packet.bytes, packet.payload, packet.forward), (62, 10, true));
        let tcp = packet.tcp.unwrap();
        assert_eq!((tcp.seq, tcp.ack, tcp.times), (1_000, 7, Some((5, 6))));
    }

    /// Of many connections those with most payload have the first numbers, and keep their packets.
    #[test]
    fn many_connections_are_told_by_their_size() {
        let ends =
            |port| Ends { from: ([10, 0, 0, 1].into(), port), to: ([10, 0, 0, 2].into(), 80), tcp: false };
        let packet = |flow: u32, payload| Packet {
            at_ns: 0,
            flow,
            forward: true,
            interface: 0,
            bytes: payload + 28,
            payload,
            id: 0,
            tcp: None,
        };
        let (flows, packets) =
            (vec![ends(1), ends(2), ends(3)], vec![packet(0, 5), packet(1, 4), packet(1, 3), packet(2, 6)]);
        let mut capture = Capture { packets, flows, ..Capture::default() };
        capture.large_first();
        assert_eq!(capture.flows, [ends(2), ends(3), ends(1)]);
        let flows: Vec<u32> = capture.packets.iter().map(|packet| packet.flow).collect();
        assert_eq!(flows, [2, 0, 0, 1]);
    }

    /// Packets that are there twice share their identification; what TCP repeats has another, and so have datagrams of
    /// one length. A sender that numbers nothing is believed.
    #[test]
    fn copies_are_no_repetitions() {
        let packet = |at_ms: u64, id, payload| Packet {
            at_ns: at_ms * 1_000_000,
            flow: 0,
            forward: true,
            interface: 1,
            bytes: payload + 28,
            payload,
            id,
            tcp: None,
        };
        let calls = |id: fn(u64) -> u16| (0..100).map(move |number| packet(number * 20, id(number), 160));
        let late = |packet: Packet, ms: u64| Packet { at_ns: packet.at_ns + ms * 1_000_000, ..packet };
        let copied = |packets: &[Packet]| copied_on(packets.iter());
        let once: Vec<Packet> = calls(|number| 1 + number as u16).collect();
        assert_eq!(copied(&once), None);
        let twice: Vec<Packet> = once.iter().flat_map(|&one| [one, late(one, 40)]).collect();
        assert_eq!(copied(&twice), Some(1));
        let much_later: Vec<Packet> = once.iter().flat_map(|&one| [one, late(one, 900)]).collect();
        assert_eq!(copied(&much_later), None);
        assert_eq!(copied(&calls(|_| 0).collect::<Vec<_>>()), None);
        assert_eq!(copied(&calls(|_| 7).collect::<Vec<_>>()), None);
        // TCP: each segment sent twice with another identification, or there twice with the same.
        let tcp = Tcp { window: 1, ..SEGMENT };
        let sent = |number: u32, id| {
            let tcp = Tcp { seq: 1 + number * 1000, ..tcp };
            Packet { tcp: Some(tcp), ..packet(u64::from(number), id, 1000) }
        };
        let again = |other: u16| -> Vec<Packet> {
            let both =
                |number: u32| [sent(number, 9 + number as u16), sent(number, 9 + other + number as u16)];
            (0..50).flat_map(both).collect()
        };
        assert_eq!((copied(&again(500)), copied(&again(0))), (None, Some(1)));
    }

    /// Whatever a file holds, reading it ends with packets or an error.
    #[test]
    fn damaged_files_are_no_panic() {
        let whole = pcapng(&[1, 2, 3]);
        let mut draw = Stream::new(1, "damage");
        for _ in 0..20_000 {
            let mut bytes = whole.clone();
            for _ in 0..=draw.below(4) {
                let place = draw.below(bytes.len() as u64) as usize;
                bytes[place] = draw.below(256) as u8;
            }
            bytes.truncate(draw.below(bytes.len() as u64 + 1) as usize);
            if let Ok(capture) = read_from(&bytes[..], None) {
                super::super::estimate::estimate(&capture);
            }
        }
    }
}
