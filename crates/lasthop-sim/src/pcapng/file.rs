//! The blocks of a file: its section, its interfaces and its packets (draft-ietf-opsawg-pcapng). Packets of a
//! run come from [`Capture`](super::Capture), real ones through [`PacketCapture`], frames through `AirWriter`.

use std::borrow::Cow;
use std::io::Write;

use lasthop_core::time::Time;
use lasthop_core::units::Rate;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness};

use super::packet::packet;
use super::{Direction, Interface, PcapngError, Record, SNAP_LENGTH};

/// Timestamps in units of 10^-9 s.
const NANOSECONDS: u8 = 9;

/// A file that is being written. What comes before the packets is left to the library; packets, of which there are very
/// many, are put together here.
pub(super) struct Writer<W: Write> {
    out: W,
    interfaces: u32,
    /// The block of the present packet.
    block: Vec<u8>,
    written: u64,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(
        writer: W,
        interfaces: &[Interface],
        comments: &[String],
    ) -> Result<Writer<W>, PcapngError> {
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

    pub(super) fn write(&mut self, record: &Record) -> Result<(), PcapngError> {
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

    pub(super) fn finish(mut self) -> Result<u64, PcapngError> {
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
