//! Packet captures that Wireshark and tshark open: what a node sends and receives, or what links carry, with real
//! IPv4, TCP and UDP headers.
//!
//! A [`Capture`] is a sink: it is written while the run goes on. [`write_trace`] writes that of a trace in memory,
//! [`write()`] takes records from anywhere. Addresses are those of the nodes (node 0 is 10.0.0.1), ports tell the flows
//! apart, time 0 of the run is the epoch, and payload is zeros of which only the first bytes are stored.
//!
//! Headers come from `lasthop_net::transport::codec`. A packet is as long as the run counted it, except in the `ns2`
//! profile: ns-2 counts options differently, and its packets are shown as a real stack would send them.

use std::io::{self, Write};

use lasthop_core::packet::Kind;
use lasthop_core::units::Rate;
use lasthop_net::transport::codec::{Measured, WriteError};
use pcap_file::PcapError;

use self::file::Writer;

pub use self::capture::{Capture, write_described, write_trace};
pub(crate) use self::file::AirWriter;
pub use self::file::PacketCapture;
pub(crate) use self::packet::PacketBytes;
pub use self::packet::{address, ports};
pub use self::vantage::Vantage;

mod capture;
mod file;
mod packet;
mod vantage;

/// Bytes stored of each packet: the longest headers (20 and 60) and a little payload.
pub const SNAP_LENGTH: u32 = 96;

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
    /// Bits of [`flag`](lasthop_core::packet::flag).
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
    /// Bytes that the options of TCP take at least; see
    /// [`Options::length`](lasthop_net::transport::codec::Options::length).
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
