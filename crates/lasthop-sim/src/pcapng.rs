//! Packet captures that Wireshark and tshark open: what a node sends and receives, or what links carry, with real
//! IPv4, TCP and UDP headers.
//!
//! A [`Capture`] is a sink: it is written while the run goes on. [`write_trace`] writes that of a trace in memory,
//! [`write`] takes records from anywhere. Addresses are those of the nodes (node 0 is 10.0.0.1), ports tell the flows
//! apart, time 0 of the run is the epoch, and payload is zeros of which only the first bytes are stored.
//!
//! Headers come from `lasthop_net::transport::codec`. A packet is as long as the run counted it, except in the `ns2`
//! profile: ns-2 counts options differently, and its packets are shown as a real stack would send them.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddrV4};

use lasthop_core::packet::{Cause, Kind, flag};
use lasthop_core::time::Time;
use lasthop_core::units::Rate;
use lasthop_net::plan::{Plan, Profile, TcpConfig, Transport};
use lasthop_net::routing::{opposite, start_of};
use lasthop_net::trace::{HopRecord, Sink};
use lasthop_net::transport::codec::{
    self, Ecn, Flags, Header, MAX_HEADERS, MAX_PACKET, Measured, Options, Tcp, WriteError,
};
use lasthop_net::transport::tcp::config::BASE_HEADER;
use lasthop_net::transport::tcp::window::Scale;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness, PcapError};

use crate::scenario::suggest;

/// Bytes stored of each packet: the longest headers (20 and 60) and a little payload.
pub const SNAP_LENGTH: u32 = 96;

/// IP and UDP headers.
const DATAGRAM_HEADER: u16 = 28;
/// Timestamps in units of 10^-9 s.
const NANOSECONDS: u8 = 9;
/// Time to live of what is sent.
const TIME_TO_LIVE: u8 = 64;

/// Where packets are captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vantage {
    /// At the host of each flow's sender: what it sends when it is transmitted, and what comes back when it arrives.
    /// Every packet of a connection appears at most once.
    Senders,
    /// On every link: an interface for each direction, where packets are transmitted. A packet appears on each link of
    /// its path, so look at one interface at a time.
    Links,
    /// On one link, likewise.
    Link(usize),
    /// At a node: an interface for each of its links. What it sends or forwards appears when it is transmitted, and
    /// what is meant for it when it arrives; so every packet appears once.
    Node(usize),
    /// In the air: every frame of radio channels as every station had it. [`crate::air::AirCapture`] writes it.
    Air,
}

impl Vantage {
    /// What those are called that are no single place, unless a node or a link has that name.
    pub const WHOLE: [(&'static str, Vantage); 3] =
        [("senders", Vantage::Senders), ("links", Vantage::Links), ("air", Vantage::Air)];

    /// The node or link called `name`, or one of [`Vantage::WHOLE`].
    pub fn named(plan: &Plan, name: &str) -> Result<Vantage, PcapngError> {
        let node = plan.nodes.iter().position(|node| node == name).map(Vantage::Node);
        let link = plan.links.iter().position(|link| link.name == name).map(Vantage::Link);
        match (node, link) {
            (Some(_), Some(_)) => Err(PcapngError::AmbiguousPlace(name.to_owned())),
            (Some(place), None) | (None, Some(place)) => Ok(place),
            (None, None) => {
                let is_there = |whole: Vantage| whole != Vantage::Air || !plan.media.is_empty();
                let whole = || Vantage::WHOLE.into_iter().filter(|&(_, whole)| is_there(whole));
                if let Some((_, whole)) = whole().find(|(known, _)| *known == name) {
                    return Ok(whole);
                }
                let links = plan.links.iter().map(|link| &link.name);
                let whole = whole().map(|(name, _)| name);
                let known = plan.nodes.iter().chain(links).map(String::as_str).chain(whole);
                let known: Vec<&str> = known.collect();
                Err(PcapngError::NoPlace { name: name.to_owned(), remedy: suggest(name, &known) })
            }
        }
    }

    /// The interfaces, and where packets pass them.
    fn lens(self, plan: &Plan) -> Lens {
        let nowhere = vec![None; 2 * plan.links.len()];
        let mut lens = Lens { interfaces: Vec::new(), near: nowhere.clone(), far: nowhere };
        match self {
            Vantage::Links => (0..plan.links.len()).for_each(|link| lens.add_link(plan, link)),
            Vantage::Link(link) => lens.add_link(plan, link),
            Vantage::Node(node) => lens.add_node(plan, node, &attached(plan, node)),
            Vantage::Senders => {
                let mut ends = vec![Vec::new(); plan.nodes.len()];
                for (link, index) in plan.links.iter().zip(0..) {
                    ends[link.from].push(index);
                    ends[link.to].push(index);
                }
                let sources: BTreeSet<usize> = plan.flows.iter().map(|flow| flow.source).collect();
                for node in sources {
                    lens.add_node(plan, node, &ends[node]);
                }
            }
            Vantage::Air => {}
        }
        lens
    }

    /// When, on which interface and which way a packet passes, if it does.
    fn sees(self, plan: &Plan, lens: &Lens, hop: &HopRecord) -> Option<(Time, u32, Direction)> {
        let direction = hop.direction as usize;
        let (near, far) = ends_of(plan, hop.direction);
        let sent = || Some((hop.transmitted?, lens.near[direction]?, Direction::Outbound));
        let came = || Some((hop.arrived?, lens.far[direction]?, Direction::Inbound));
        let (from, to) = peers(plan, hop);
        match self {
            Vantage::Links | Vantage::Link(_) => sent(),
            Vantage::Node(node) if near == node => sent(),
            Vantage::Node(node) => came().filter(|_| far == node && to == node),
            Vantage::Senders if hop.back => came().filter(|_| far == to),
            Vantage::Senders => sent().filter(|_| near == from),
            Vantage::Air => None,
        }
    }
}

/// The links of a node.
fn attached(plan: &Plan, node: usize) -> Vec<usize> {
    let links = plan.links.iter().enumerate();
    links.filter(|(_, link)| link.from == node || link.to == node).map(|(index, _)| index).collect()
}

/// The interfaces of a capture, and which of them stands at the near and at the far end of each direction of a link.
struct Lens {
    interfaces: Vec<Interface>,
    near: Vec<Option<u32>>,
    far: Vec<Option<u32>>,
}

impl Lens {
    fn add(&mut self, interface: Interface) -> u32 {
        self.interfaces.push(interface);
        self.interfaces.len() as u32 - 1
    }

    /// An interface for each direction of a link.
    fn add_link(&mut self, plan: &Plan, link: usize) {
        let planned = &plan.links[link];
        for (direction, rate) in [(2 * link, planned.forward.rate), (2 * link + 1, planned.reverse.rate)] {
            let (near, far) = ends_of(plan, direction as u32);
            let description = format!("transmitted by {} to {}", plan.nodes[near], plan.nodes[far]);
            let name = planned.direction_name(direction as u32);
            self.near[direction] = Some(self.add(Interface { name, description, rate }));
        }
    }

    /// An interface for each link of a node.
    fn add_node(&mut self, plan: &Plan, node: usize, links: &[usize]) {
        let name = &plan.nodes[node];
        for &index in links {
            let link = &plan.links[index];
            let leaves = link.from == node;
            let interface = self.add(Interface {
                name: format!("{name} ({})", link.name),
                description: format!("sent and received by {name} on {}", link.name),
                rate: if leaves { link.forward.rate } else { link.reverse.rate },
            });
            self.near[2 * index + usize::from(!leaves)] = Some(interface);
            self.far[2 * index + usize::from(leaves)] = Some(interface);
        }
    }
}

/// The nodes at the near and at the far end of a direction of a link.
fn ends_of(plan: &Plan, direction: u32) -> (usize, usize) {
    (start_of(&plan.links, direction), start_of(&plan.links, opposite(direction)))
}

/// The nodes that a packet comes from and goes to.
fn peers(plan: &Plan, hop: &HopRecord) -> (usize, usize) {
    let flow = &plan.flows[hop.flow as usize];
    if hop.back { (flow.sink, flow.source) } else { (flow.source, flow.sink) }
}

/// A capture interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Shown as the interface's name.
    pub name: String,
    /// Says what is captured there.
    pub description: String,
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
    /// Bits of [`flag`].
    pub flags: u8,
    /// Whether the packet travels from the receiver back to the sender of its flow.
    pub back: bool,
    /// First byte of the payload; a SYN has 0.
    pub seq: u64,
    /// Next byte expected.
    pub ack: u64,
    /// Payload bytes.
    pub payload: u32,
    /// Receiver window in bytes.
    pub window: u32,
    /// Shift of the window scale option, the same in all packets of a connection.
    pub window_scale: u8,
    /// Maximum segment size, shown in SYNs.
    pub mss: u16,
    /// Timestamps option: value and echo.
    pub timestamps: Option<(u32, u32)>,
    /// SACK blocks, of which as many are shown as fit. In a SYN any value permits SACK.
    pub sack: Option<Vec<Block>>,
    /// Contents of experimental options.
    pub measured: Measured,
    /// Bytes that the options of TCP take at least; see [`Options::length`].
    pub options_length: u8,
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
    /// A header cannot be as a record asks for it.
    #[error("a packet cannot be written: {0}")]
    Header(#[from] WriteError),
    /// There is no such place to capture at.
    #[error("there is no node or link {name:?} to capture at; {remedy}")]
    NoPlace {
        /// What was asked for.
        name: String,
        /// What there is.
        remedy: String,
    },
    /// A node and a link have the same name.
    #[error("{0:?} is the name of a node and of a link; give one of them another name to capture there")]
    AmbiguousPlace(String),
}

impl From<PcapError> for PcapngError {
    fn from(error: PcapError) -> PcapngError {
        match error {
            PcapError::IoError(error) => PcapngError::Write(error),
            other => PcapngError::Write(io::Error::other(other)),
        }
    }
}

/// Writes a capture of `records` to `writer` and returns how many it holds.
pub fn write<W: Write>(
    writer: W,
    interfaces: &[Interface],
    records: impl IntoIterator<Item = Record>,
) -> Result<u64, PcapngError> {
    let mut out = Writer::new(writer, interfaces, &[])?;
    records.into_iter().try_for_each(|record| out.write(&record))?;
    out.finish()
}

/// What a capture says of itself, as comments at its head: scenario (JSON), seed, version of the engine and the place,
/// under the names that other files of results use. An option of the format has room for 65,535 bytes, so a longer
/// scenario goes on in the next comments.
pub fn about(scenario: &str, seed: u64, place: &str) -> Vec<String> {
    const ROOM: usize = 65_000;
    let mut comments = vec![
        format!("lasthop.engine_version: {}", env!("CARGO_PKG_VERSION")),
        format!("lasthop.seed: {seed}"),
        format!("lasthop.captured_at: {place}"),
    ];
    let (mut key, mut rest) = ("lasthop.scenario", scenario);
    loop {
        let mut end = rest.len().min(ROOM);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (part, more) = rest.split_at(end);
        comments.push(format!("{key}: {part}"));
        if more.is_empty() {
            return comments;
        }
        (key, rest) = ("lasthop.scenario (continued)", more);
    }
}

/// Writes what `vantage` sees of a run whose trace is in memory, as [`Capture`] does while a run goes on.
pub fn write_trace<W: Write>(
    writer: W,
    plan: &Plan,
    trace: &[HopRecord],
    vantage: Vantage,
) -> Result<u64, PcapngError> {
    write_described(writer, plan, trace, vantage, &[])
}

/// The same with `comments` at the head of the file.
pub fn write_described<W: Write>(
    writer: W,
    plan: &Plan,
    trace: &[HopRecord],
    vantage: Vantage,
    comments: &[String],
) -> Result<u64, PcapngError> {
    let mut capture = Capture::new(writer, plan, vantage, comments)?;
    trace.iter().try_for_each(|hop| capture.take(hop))?;
    capture.finish()
}

/// A file that is being written. What comes before the packets is left to the library; packets, of which there are very
/// many, are put together here.
struct Writer<W: Write> {
    out: W,
    interfaces: u32,
    /// The block of the present packet.
    block: Vec<u8>,
    written: u64,
}

impl<W: Write> Writer<W> {
    fn new(writer: W, interfaces: &[Interface], comments: &[String]) -> Result<Writer<W>, PcapngError> {
        Writer::of_type(writer, interfaces, comments, (DataLink::RAW, SNAP_LENGTH))
    }

    fn of_type(
        writer: W,
        interfaces: &[Interface],
        comments: &[String],
        (linktype, snaplen): (DataLink, u32),
    ) -> Result<Writer<W>, PcapngError> {
        let application = SectionHeaderOption::UserApplication(Cow::Borrowed(concat!(
            "lasthop ",
            env!("CARGO_PKG_VERSION")
        )));
        let comments =
            comments.iter().map(|comment| SectionHeaderOption::Comment(Cow::Owned(comment.clone())));
        let options = comments.chain([application]).collect();
        let section =
            SectionHeaderBlock { endianness: Endianness::Big, options, ..SectionHeaderBlock::default() };
        let mut file = PcapNgWriter::with_section_header(writer, section)?;
        for interface in interfaces {
            file.write_pcapng_block(InterfaceDescriptionBlock {
                linktype,
                snaplen,
                options: vec![
                    InterfaceDescriptionOption::IfName(Cow::Borrowed(&interface.name)),
                    InterfaceDescriptionOption::IfDescription(Cow::Borrowed(&interface.description)),
                    InterfaceDescriptionOption::IfSpeed(interface.rate.0),
                    InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
                ],
            })?;
        }
        let interfaces = interfaces.len() as u32;
        Ok(Writer { out: file.into_inner(), interfaces, block: Vec::with_capacity(256), written: 0 })
    }

    fn write(&mut self, record: &Record) -> Result<(), PcapngError> {
        let Record { interface, time_ns, direction, comment, .. } = *record;
        self.write_block(interface, time_ns, direction, comment, |block| packet(record, block))
    }

    /// An Enhanced Packet Block (draft-ietf-opsawg-pcapng, section 4.3), in the byte order of the section. `fill` adds
    /// what is stored of the packet, and returns its whole length.
    fn write_block(
        &mut self,
        interface: u32,
        time_ns: u64,
        direction: Direction,
        comment: Option<&'static str>,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<u32, PcapngError>,
    ) -> Result<(), PcapngError> {
        /// Of the block: type, length, interface, both halves of the time, captured and original length.
        const HEAD: usize = 28;
        const OPTION_COMMENT: u16 = 1;
        const OPTION_FLAGS: u16 = 2;
        if interface >= self.interfaces {
            return Err(PcapngError::NoInterface(interface));
        }
        let block = &mut self.block;
        block.clear();
        block.resize(HEAD, 0);
        let original = fill(block)?;
        let captured = (block.len() - HEAD) as u32;
        pad(block);
        let direction: u32 = match direction {
            Direction::Inbound => 1,
            Direction::Outbound => 2,
        };
        add_option(block, OPTION_FLAGS, &direction.to_be_bytes());
        if let Some(comment) = comment {
            add_option(block, OPTION_COMMENT, comment.as_bytes());
        }
        add_option(block, 0, &[]);
        let length = block.len() as u32 + 4;
        block.extend_from_slice(&length.to_be_bytes());
        let [high, low] = [(time_ns >> 32) as u32, time_ns as u32];
        let head = [6, length, interface, high, low, captured, original];
        for (place, word) in block.chunks_exact_mut(4).zip(head) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        self.out.write_all(block)?;
        self.written += 1;
        Ok(())
    }

    fn finish(mut self) -> Result<u64, PcapngError> {
        self.out.flush()?;
        Ok(self.written)
    }
}

/// Fills the last word of a block with zeros.
fn pad(block: &mut Vec<u8>) {
    block.resize(block.len().next_multiple_of(4), 0);
}

/// Adds an option to a block; number 0 without content ends the list.
fn add_option(block: &mut Vec<u8>, number: u16, content: &[u8]) {
    block.extend_from_slice(&number.to_be_bytes());
    block.extend_from_slice(&(content.len() as u16).to_be_bytes());
    block.extend_from_slice(content);
    pad(block);
}

/// A file of frames with radiotap headers that is being written; `air.rs` makes them.
pub(crate) struct AirWriter<W: Write>(Writer<W>);

impl<W: Write> AirWriter<W> {
    /// With interfaces of these names and descriptions.
    pub(crate) fn new(
        writer: W,
        names: &[(String, String)],
        comments: &[String],
        snaplen: u32,
    ) -> Result<AirWriter<W>, PcapngError> {
        let interface = |(name, description): &(String, String)| Interface {
            name: name.clone(),
            description: description.clone(),
            rate: Rate(0),
        };
        let interfaces: Vec<Interface> = names.iter().map(interface).collect();
        let linktype = DataLink::IEEE802_11_RADIOTAP;
        Ok(AirWriter(Writer::of_type(writer, &interfaces, comments, (linktype, snaplen))?))
    }

    /// Writes a frame: its time and whether the station sent it, what is stored of it and its whole length.
    pub(crate) fn write(
        &mut self,
        interface: u32,
        (time_ns, outbound): (u64, bool),
        (bytes, length): (&[u8], u32),
        comment: Option<&'static str>,
    ) -> Result<(), PcapngError> {
        let direction = if outbound { Direction::Outbound } else { Direction::Inbound };
        self.0.write_block(interface, time_ns, direction, comment, |block| {
            block.extend_from_slice(bytes);
            Ok(length)
        })
    }

    pub(crate) fn finish(self) -> Result<u64, PcapngError> {
        self.0.finish()
    }
}

/// A file of real packets that is being written, byte for byte as an interface had them.
pub struct PacketCapture<W: Write>(Writer<W>);

impl<W: Write> PacketCapture<W> {
    /// With `comments` at its head; `snaplen`: how many bytes of a packet are stored at most.
    pub fn new(
        writer: W,
        interfaces: &[Interface],
        comments: &[String],
        snaplen: u32,
    ) -> Result<PacketCapture<W>, PcapngError> {
        Ok(PacketCapture(Writer::of_type(writer, interfaces, comments, (DataLink::RAW, snaplen))?))
    }

    /// Adds a packet: what is stored of it, from its IP header on, and its whole length.
    pub fn packet(
        &mut self,
        interface: u32,
        (time, direction): (Time, Direction),
        (stored, length): (&[u8], u32),
    ) -> Result<(), PcapngError> {
        self.0.write_block(interface, time.0, direction, None, |block| {
            block.extend_from_slice(stored);
            Ok(length)
        })
    }

    /// Hands on what was added so far.
    pub fn flush(&mut self) -> Result<(), PcapngError> {
        Ok(self.0.out.flush()?)
    }

    /// Completes the file with the statistics of its interfaces at `time` (draft-ietf-opsawg-pcapng, section
    /// 4.6), of which each has missed this many packets; returns how many packets the file holds.
    pub fn finish(mut self, time: Time, missed: &[u64]) -> Result<u64, PcapngError> {
        const OPTION_DROPPED: u16 = 5;
        for (interface, missed) in (0u32..).zip(missed) {
            let mut block = Vec::new();
            for word in [5, 0, interface, (time.0 >> 32) as u32, time.0 as u32] {
                block.extend_from_slice(&word.to_be_bytes());
            }
            add_option(&mut block, OPTION_DROPPED, &missed.to_be_bytes());
            add_option(&mut block, 0, &[]);
            let length = (block.len() as u32 + 4).to_be_bytes();
            block[4..8].copy_from_slice(&length);
            block.extend_from_slice(&length);
            self.0.out.write_all(&block)?;
        }
        self.0.finish()
    }
}

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

/// What `vantage` sees of a run, in the order of time. Packets that were lost in the air after they passed carry a
/// comment with the cause; those that never left a queue were not on the air and are not in the capture.
///
/// Records come in the order of their arrival at links. A packet is transmitted later, and arrives later, so it waits
/// here until the records have come so far: no more of them wait than lie in queues and on links.
pub struct Capture<'a, W: Write> {
    plan: &'a Plan,
    vantage: Vantage,
    lens: Lens,
    out: Writer<W>,
    /// Of each flow.
    closing: Vec<Closing>,
    /// Packets that were seen later than records have come: when, the number of the record, and where it lies. Those of
    /// one instant appear in the order of their records.
    waiting: BinaryHeap<Reverse<(u64, u64, usize)>>,
    records: Vec<Record>,
    /// Places in `records` that are free.
    free: Vec<usize>,
    /// Records so far.
    count: u64,
}

impl<'a, W: Write> Capture<'a, W> {
    /// Starts a capture with `comments` at its head.
    pub fn new(
        writer: W,
        plan: &'a Plan,
        vantage: Vantage,
        comments: &[String],
    ) -> Result<Capture<'a, W>, PcapngError> {
        let lens = vantage.lens(plan);
        let out = Writer::new(writer, &lens.interfaces, comments)?;
        let closing = vec![Closing::default(); plan.flows.len()];
        let (waiting, records, free) = (BinaryHeap::new(), Vec::new(), Vec::new());
        Ok(Capture { plan, vantage, lens, out, closing, waiting, records, free, count: 0 })
    }

    /// Takes the next record.
    fn take(&mut self, hop: &HopRecord) -> Result<(), PcapngError> {
        self.write_until(hop.enqueued)?;
        let closing = &mut self.closing[hop.flow as usize];
        closing.note(self.plan, hop);
        self.count += 1;
        if let Some((time, interface, direction)) = self.vantage.sees(self.plan, &self.lens, hop) {
            let record = Record { time_ns: time.0, interface, direction, ..of_hop(self.plan, hop, *closing) };
            let place = if let Some(place) = self.free.pop() {
                self.records[place] = record;
                place
            } else {
                self.records.push(record);
                self.records.len() - 1
            };
            self.waiting.push(Reverse((time.0, self.count, place)));
        }
        Ok(())
    }

    /// Writes what was seen before `time`.
    fn write_until(&mut self, time: Time) -> Result<(), PcapngError> {
        while let Some(&Reverse((seen, _, place))) = self.waiting.peek()
            && seen < time.0
        {
            self.waiting.pop();
            self.free.push(place);
            self.out.write(&self.records[place])?;
        }
        Ok(())
    }

    /// Writes the rest, and returns how many packets the capture holds.
    pub fn finish(mut self) -> Result<u64, PcapngError> {
        self.write_until(Time::MAX)?;
        self.out.finish()
    }
}

impl<W: Write> Sink for Capture<'_, W> {
    fn hop(&mut self, record: &HopRecord) -> io::Result<()> {
        self.take(record).map_err(io::Error::other)
    }
}

/// What no record says of the end of a connection, because the engine does not need it: when the receiver's FIN was
/// first sent, and when it first reached the sender.
#[derive(Clone, Copy, Debug, Default)]
struct Closing {
    began: Option<Time>,
    heard: Option<Time>,
}

impl Closing {
    /// Learns from a record of its flow.
    fn note(&mut self, plan: &Plan, hop: &HopRecord) {
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
fn of_hop(plan: &Plan, hop: &HopRecord, closing: Closing) -> Record {
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
fn packet(record: &Record, bytes: &mut Vec<u8>) -> Result<u32, PcapngError> {
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
