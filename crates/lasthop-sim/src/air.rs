//! Captures of radio channels that Wireshark and tshark open: what every station sent and had in its receiver, as IEEE
//! 802.11 frames behind radiotap headers.
//!
//! An interface for each station of each channel. A frame appears at its sender and at every station that received it;
//! one that could not be read has a wrong check sequence, and says so. `pcapng` makes the packets inside, and shows
//! them as they are behind the MAC. A frame is as long as the run counted it; where the scenario gives headers other
//! lengths than the standard's, or the packet inside is unknown (a retransmission of one that was delivered), the rest
//! is cut off.

use std::io::{self, Write};

use lasthop_core::time::Time;
use lasthop_net::device::wlan::mode::Format;
use lasthop_net::plan::Plan;
use lasthop_net::trace::{FrameKind, FrameOutcome, FrameRecord, Sink};

use crate::pcapng::{self, PacketBytes, PcapngError};

mod modes;

/// Flags of radiotap (radiotap.org): the check sequence is there, it is wrong, the preamble was short.
const HAS_FCS: u8 = 0x10;
const BAD_FCS: u8 = 0x40;
const SHORT_PREAMBLE: u8 = 0x02;
/// Channel flags of radiotap.
const CCK: u16 = 0x0020;
const OFDM: u16 = 0x0040;
const TWO_GHZ: u16 = 0x0080;
const FIVE_GHZ: u16 = 0x0100;
/// Bytes stored of a frame with its radiotap header.
const SNAP_LENGTH: usize = 160;
/// From here on frequencies are those of 802.11a.
const FIVE: f64 = 5_000.0;

/// A capture of all radio channels of a run, written while it goes on.
pub struct AirCapture<'a, W: Write> {
    plan: &'a Plan,
    out: pcapng::AirWriter<W>,
    /// First interface of each channel.
    first: Vec<usize>,
    packets: PacketBytes<'a>,
    bytes: Vec<u8>,
}

impl<'a, W: Write> AirCapture<'a, W> {
    /// Starts a capture with these comments at its head.
    pub fn new(writer: W, plan: &'a Plan, comments: &[String]) -> Result<AirCapture<'a, W>, PcapngError> {
        let (mut names, mut first) = (Vec::new(), Vec::new());
        for medium in &plan.media {
            first.push(names.len());
            names.extend(medium.stations.iter().map(|station| {
                let name = format!("{} ({})", station.name, medium.name);
                (name, format!("what {} sends and receives on the channel of {}", station.name, medium.name))
            }));
        }
        let out = pcapng::AirWriter::new(writer, &names, comments, SNAP_LENGTH as u32)?;
        Ok(AirCapture { plan, out, first, packets: PacketBytes::new(plan), bytes: Vec::new() })
    }

    /// Takes the next frame.
    fn take(&mut self, frame: &FrameRecord) -> Result<(), PcapngError> {
        let medium = &self.plan.media[frame.medium as usize];
        let place = |node: u32| medium.stations.iter().position(|station| station.node == node as usize);
        let Some(station) = place(frame.at) else { return Ok(()) };
        self.bytes.clear();
        let mut inside = Vec::new();
        let mut known = true;
        if frame.kind == FrameKind::Data {
            known = frame.packet.is_some();
            if let Some(packet) = &frame.packet {
                self.packets.write(packet, &mut inside)?;
            }
        }
        let sender = place(frame.from).unwrap_or(station);
        let mut mpdu = Vec::with_capacity(SNAP_LENGTH);
        let addresses = [frame.to.map_or([0xff; 6], address), address(frame.from), self.far_end(frame)];
        header(frame, addresses, medium.stations[sender].access_point, &mut mpdu);
        if frame.kind == FrameKind::Data {
            // LLC and SNAP (RFC 1042): IPv4.
            mpdu.extend_from_slice(&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0]);
        }
        let headers = mpdu.len();
        mpdu.append(&mut inside);
        if frame.kind == FrameKind::Beacon {
            fill(&mut mpdu, frame.bytes.saturating_sub(4) as usize);
        }
        // What is stored of the packet is its beginning; zeros follow.
        let body = frame.bytes.saturating_sub(4) as usize;
        let sole = frame.ppdu.is_none_or(|ppdu| ppdu.packets == 1);
        let whole = known
            && sole
            && mpdu.len() <= body
            && (frame.kind != FrameKind::Data || self.packets.last == body - headers);
        let damaged = !matches!(frame.outcome, FrameOutcome::Sent | FrameOutcome::Read);
        self.radiotap(frame, whole, damaged);
        let length = self.bytes.len()
            + if whole { frame.bytes as usize } else { mpdu.len().max(frame.bytes as usize) };
        if whole && body <= SNAP_LENGTH - self.bytes.len() - 4 {
            mpdu.resize(body, 0);
            let sum = crc32(&mpdu) ^ if damaged { u32::MAX } else { 0 };
            mpdu.extend_from_slice(&sum.to_le_bytes());
        }
        self.bytes.append(&mut mpdu);
        self.bytes.truncate(SNAP_LENGTH);
        let comment = damaged.then(|| frame.outcome.name());
        let outbound = frame.outcome == FrameOutcome::Sent;
        let interface = (self.first[frame.medium as usize] + station) as u32;
        self.out.write(interface, (frame.end.0, outbound), (&self.bytes, length as u32), comment)
    }

    /// Where the packet in a data frame comes from or goes to, beyond the two stations: their access point stands for
    /// it.
    fn far_end(&self, frame: &FrameRecord) -> [u8; 6] {
        let Some(packet) = &frame.packet else { return address(frame.from) };
        let flow = &self.plan.flows[packet.flow as usize];
        let (source, sink) = if packet.back { (flow.sink, flow.source) } else { (flow.source, flow.sink) };
        let medium = &self.plan.media[frame.medium as usize];
        let sends =
            medium.stations.iter().any(|station| station.node == frame.from as usize && station.access_point);
        address(if sends { source } else { sink } as u32)
    }

    /// The radiotap header: flags, rate or mode, channel, and at receivers the power. Each field stands at a multiple
    /// of
    /// its size.
    fn radiotap(&mut self, frame: &FrameRecord, has_fcs: bool, damaged: bool) {
        let medium = &self.plan.media[frame.medium as usize];
        let mac = &medium.macs[0];
        let ofdm = frame.ppdu.is_some()
            || mac.phy.rate_index(frame.rate).is_some_and(|rate| mac.phy.rates[rate].modulation.is_ofdm());
        let frequency = medium.propagation.frequency / 1e6;
        let band = if frequency >= FIVE { FIVE_GHZ } else { TWO_GHZ };
        let mut flags = if mac.short_preamble { SHORT_PREAMBLE } else { 0 };
        flags |= if has_fcs { HAS_FCS } else { 0 } | if damaged && has_fcs { BAD_FCS } else { 0 };
        let mut present: u32 = 1 << 1 | 1 << 3;
        let head = self.bytes.len();
        let bytes = &mut self.bytes;
        bytes.extend_from_slice(&[0; 8]);
        bytes.push(flags);
        // What is older than 802.11n has a rate and no field of its own.
        if frame.ppdu.is_none_or(|ppdu| ppdu.mode.format() == Format::Legacy) {
            present |= 1 << 2;
            bytes.push((frame.rate.0 / 500_000).min(255) as u8);
        }
        align(bytes, head, 2);
        bytes.extend_from_slice(&(frequency.clamp(0.0, 65_535.0) as u16).to_le_bytes());
        bytes.extend_from_slice(&(band | if ofdm { OFDM } else { CCK }).to_le_bytes());
        if !frame.dbm.is_nan() {
            present |= 1 << 5;
            bytes.push(frame.dbm.round().clamp(-128.0, 127.0) as i8 as u8);
        }
        if let (Some(ppdu), Some(aggregation)) = (&frame.ppdu, &mac.aggregation) {
            present |= modes::write(ppdu, &aggregation.habits, bytes, head);
        }
        let length = (bytes.len() - head) as u16;
        bytes[head + 2..head + 4].copy_from_slice(&length.to_le_bytes());
        bytes[head + 4..head + 8].copy_from_slice(&present.to_le_bytes());
    }

    /// Writes the rest, and returns how many frames the capture holds.
    pub fn finish(self) -> Result<u64, PcapngError> {
        self.out.finish()
    }
}

impl<W: Write> Sink for AirCapture<'_, W> {
    fn frame(&mut self, record: &FrameRecord) -> io::Result<()> {
        self.take(record).map_err(io::Error::other)
    }
}

/// Fills up to the next multiple of `size` behind `head`.
fn align(bytes: &mut Vec<u8>, head: usize, size: usize) {
    bytes.resize(head + (bytes.len() - head).next_multiple_of(size), 0);
}

/// The MAC header (IEEE 802.11-2016 section 9.2), without the check sequence. `addresses`: of the receiver, of the
/// sender, and where the packet comes from or goes to.
fn header(frame: &FrameRecord, addresses: [[u8; 6]; 3], from_access_point: bool, bytes: &mut Vec<u8>) {
    let [to, from, far] = addresses;
    let (control, direction) = match frame.kind {
        FrameKind::Data if frame.ppdu.is_some() => (0x88, if from_access_point { 0x02 } else { 0x01 }),
        FrameKind::Data if from_access_point => (0x08, 0x02),
        FrameKind::Data => (0x08, 0x01),
        FrameKind::Ack => (0xd4, 0),
        FrameKind::Cts => (0xc4, 0),
        FrameKind::Rts => (0xb4, 0),
        FrameKind::Beacon => (0x80, 0),
        FrameKind::BlockAck => (0x94, 0),
        FrameKind::BlockAckRequest => (0x84, 0),
        FrameKind::End => (0xe4, 0),
    };
    let retry = if frame.retry { 0x08 } else { 0 };
    bytes.extend_from_slice(&[control, direction | retry]);
    let micros = frame.duration.0.div_ceil(1_000).min(32_767) as u16;
    bytes.extend_from_slice(&micros.to_le_bytes());
    match frame.kind {
        FrameKind::Ack => bytes.extend_from_slice(&to),
        // A CTS to itself bears the address of its sender.
        FrameKind::Cts => bytes.extend_from_slice(if frame.to.is_some() { &to } else { &from }),
        FrameKind::Rts | FrameKind::BlockAck | FrameKind::BlockAckRequest | FrameKind::End => {
            bytes.extend_from_slice(&to);
            bytes.extend_from_slice(&from);
        }
        FrameKind::Data | FrameKind::Beacon => {
            bytes.extend_from_slice(&to);
            bytes.extend_from_slice(&from);
            bytes.extend_from_slice(if frame.kind == FrameKind::Beacon { &from } else { &far });
            bytes.extend_from_slice(&(frame.sequence << 4).to_le_bytes());
        }
    }
    if let Some(ppdu) = &frame.ppdu {
        let shared = if ppdu.packets > 1 { 0x80 } else { 0 };
        bytes.extend_from_slice(&[ppdu.tid | shared, 0]);
        if ppdu.packets > 1 {
            // Of an A-MSDU the first packet is stored.
            bytes.extend_from_slice(&to);
            bytes.extend_from_slice(&from);
            let first = frame.packet.as_ref().map_or(0, |packet| packet.bytes + 8);
            bytes.extend_from_slice(&first.to_be_bytes());
        }
    }
    if let Some(block) = &frame.block {
        modes::write_block(block, frame.kind == FrameKind::BlockAck, bytes);
    }
    if frame.kind == FrameKind::Beacon {
        // Timestamp in us, interval in units of 1024 us, capabilities (ESS), and the name of the network.
        let micros: u64 = frame.start.since(Time::ZERO).0 / 1_000;
        bytes.extend_from_slice(&micros.to_le_bytes());
        bytes.extend_from_slice(&[100, 0, 1, 0, 0, 7]);
        bytes.extend_from_slice(b"lasthop");
    }
}

/// Fills a beacon up to this length with elements of a vendor.
fn fill(bytes: &mut Vec<u8>, length: usize) {
    const VENDOR: u8 = 221;
    while length.saturating_sub(bytes.len()) >= 2 {
        let room = length - bytes.len() - 2;
        // What is left over must take another element.
        let taken = if room == 256 { 254 } else { room.min(255) };
        bytes.extend_from_slice(&[VENDOR, taken as u8]);
        bytes.resize(bytes.len() + taken, 0);
    }
}

/// A locally administered address for a node.
fn address(node: u32) -> [u8; 6] {
    let [_, high, middle, low] = node.to_be_bytes();
    [0x02, 0, 0, high, middle, low]
}

/// The check sequence of IEEE 802 (CRC-32).
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of CRC-32.
    #[test]
    fn check_sequence() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }
}
