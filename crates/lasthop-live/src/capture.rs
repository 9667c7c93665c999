//! Captures of real packets, byte for byte, as they pass the TUN devices of hosts.
//!
//! The loop that moves packets copies them into buffers, whose number is fixed; a separate thread writes these to
//! files. If the disk is slower for so long that no buffer is empty, packets are missing in the capture, counted,
//! and nothing else suffers. Files are whole packets long several times a second, so what an interrupted run leaves
//! can be read.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;
use lasthop_sim::pcapng::{Direction, Interface, PacketCapture, PcapngError};
use serde::Serialize;

use crate::live_error::LiveError;
use crate::passage::Pair;
use crate::plan::Host;

/// The place of a capture that has what the sources of all connections send and get, as in simulations.
pub const SOURCES: &str = "senders";
/// Bytes of a buffer, and how many there are: together what 1 s at 250 Mbit/s takes at one host.
const BUFFER: usize = 1 << 19;
const BUFFERS: usize = 64;
/// How long packets stay in a buffer that is not full.
const INTERVAL: Span = Span::from_millis(100);
/// Of a packet in a buffer: time, length, bytes stored, host, and bits of what it is.
const HEAD: usize = 8 + 4 + 4 + 4 + 1;
/// The host has received it; it is the source of the connection.
const INBOUND: u8 = 1;
const OF_SOURCE: u8 = 2;

/// A capture that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureOrder {
    /// A host, or [`SOURCES`].
    pub place: String,
    /// The file, which is replaced.
    pub file: PathBuf,
    /// What it says of itself at its head.
    pub comments: Vec<String>,
    /// Bytes stored of each packet.
    pub snaplen: u32,
}

/// What a capture holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Captured {
    /// The place.
    pub place: String,
    /// Packets in the file.
    pub packets: u64,
    /// Packets that are missing because the disk was too slow.
    pub missed: u64,
}

/// Packets that are missing, by host: those of which it is not the source, and those of which it is.
type Missed = Vec<[u64; 2]>;

/// What goes to the thread that writes.
enum Message {
    Packets(Vec<u8>),
    /// The run is over, at this time.
    End(Missed, Time),
}

/// The side of the loop. It hands over the rest when it is dropped.
pub(crate) struct Recorder {
    /// Of each host, how much is stored of packets whose source it is not, and is; `None`: no capture wants them.
    wanted: Vec<[Option<usize>; 2]>,
    missed: Missed,
    buffer: Option<Vec<u8>>,
    full: SyncSender<Message>,
    empty: Receiver<Vec<u8>>,
    /// When the buffer goes at the latest.
    next: Time,
    now: Time,
}

impl Recorder {
    /// A packet passes the device of a host.
    pub(crate) fn note(
        &mut self,
        (host, is_source): (usize, bool),
        (at, direction): (Time, Direction),
        bytes: &[u8],
    ) {
        let Some(snaplen) = self.wanted[host][usize::from(is_source)] else { return };
        let stored = &bytes[..bytes.len().min(snaplen)];
        if self.buffer.as_ref().is_some_and(|buffer| buffer.len() + HEAD + stored.len() > BUFFER) {
            self.hand_over();
        }
        if self.buffer.is_none() {
            self.buffer = self.empty.try_recv().ok();
        }
        let Some(buffer) = &mut self.buffer else {
            self.missed[host][usize::from(is_source)] += 1;
            return;
        };
        let bits = if direction == Direction::Inbound { INBOUND } else { 0 };
        buffer.extend_from_slice(&at.0.to_ne_bytes());
        for number in [bytes.len(), stored.len(), host] {
            buffer.extend_from_slice(&(number as u32).to_ne_bytes());
        }
        buffer.push(bits | if is_source { OF_SOURCE } else { 0 });
        buffer.extend_from_slice(stored);
    }

    /// Hands over what has waited long enough.
    pub(crate) fn look(&mut self, now: Time) {
        self.now = now;
        if now >= self.next {
            self.next = now + INTERVAL;
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        if let Some(buffer) = self.buffer.take_if(|buffer| !buffer.is_empty()) {
            // There is room for all buffers; if they are not taken, the end of the run says why.
            let _ = self.full.try_send(Message::Packets(buffer));
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.hand_over();
        let _ = self.full.send(Message::End(std::mem::take(&mut self.missed), self.now));
    }
}

/// A file, and what goes into it.
struct Place {
    order: CaptureOrder,
    /// The interface of each host, if it is there.
    interfaces: Vec<Option<u32>>,
    only_sources: bool,
    file: PacketCapture<BufWriter<File>>,
}

/// The side of the files.
pub(crate) struct Captures {
    thread: JoinHandle<Result<Vec<Captured>, LiveError>>,
}

impl Captures {
    /// Opens the files; `None` if none are asked for. Refuses places that are no hosts.
    pub(crate) fn start(
        orders: &[CaptureOrder],
        (hosts, pairs): (&[Host], &[Pair]),
    ) -> Result<Option<(Recorder, Captures)>, LiveError> {
        if orders.is_empty() {
            return Ok(None);
        }
        let mut wanted = vec![[None; 2]; hosts.len()];
        let mut places = Vec::with_capacity(orders.len());
        for order in orders {
            let place = Place::new(order, (hosts, pairs))?;
            for (wanted, _) in wanted.iter_mut().zip(&place.interfaces).filter(|(_, place)| place.is_some()) {
                let from = usize::from(place.only_sources);
                for snaplen in &mut wanted[from..] {
                    *snaplen = (*snaplen).max(Some(order.snaplen as usize));
                }
            }
            places.push(place);
        }
        let (full, filled) = sync_channel(BUFFERS + 1);
        let (emptied, empty) = channel();
        for _ in 0..BUFFERS {
            let _ = emptied.send(Vec::with_capacity(BUFFER));
        }
        let thread = thread::spawn(move || write(places, &filled, &emptied));
        let missed = vec![[0; 2]; hosts.len()];
        let recorder =
            Recorder { wanted, missed, buffer: None, full, empty, next: Time::ZERO, now: Time::ZERO };
        Ok(Some((recorder, Captures { thread })))
    }

    /// The recorder is gone: returns what was written.
    pub(crate) fn end(self) -> Result<Vec<Captured>, LiveError> {
        self.thread.join().unwrap_or_else(|_| {
            let error = std::io::Error::other("the thread that writes captures ended early");
            Err(LiveError::Kernel { step: "capturing", error })
        })
    }
}

impl Place {
    fn new(order: &CaptureOrder, (hosts, pairs): (&[Host], &[Pair])) -> Result<Place, LiveError> {
        let host = hosts.iter().position(|host| host.name == order.place);
        let only_sources = host.is_none() && order.place == SOURCES;
        if host.is_none() && !only_sources {
            let known: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).chain([SOURCES]).collect();
            return Err(LiveError::NoHost { name: order.place.clone(), known: known.join(", ") });
        }
        let is_source = |host: &Host| pairs.iter().any(|pair| pair.source == host.address);
        let mut described = Vec::new();
        let interfaces = hosts.iter().enumerate().map(|(index, one)| {
            let is_there = if only_sources { is_source(one) } else { host == Some(index) };
            is_there.then(|| {
                let own = pairs.iter().filter(|pair| [pair.source, pair.sink].contains(&one.address));
                described.push(Interface {
                    name: one.name.clone(),
                    description: format!("sent and received by {} ({})", one.name, one.address),
                    rate: own.map(|pair| pair.rate).max().unwrap_or(Rate(0)),
                });
                described.len() as u32 - 1
            })
        });
        let interfaces = interfaces.collect();
        let open = || {
            let file = BufWriter::with_capacity(BUFFER, File::create(&order.file)?);
            let mut file = PacketCapture::new(file, &described, &order.comments, order.snaplen)?;
            file.flush()?;
            Ok(file)
        };
        let file = open().map_err(|error| order.failed(error))?;
        Ok(Place { order: order.clone(), interfaces, only_sources, file })
    }

    /// The interface on which it has packets of a host, if it has.
    fn interface(&self, host: usize, is_source: bool) -> Option<u32> {
        self.interfaces[host].filter(|_| is_source || !self.only_sources)
    }

    fn take(&mut self, mut buffer: &[u8]) -> Result<(), PcapngError> {
        while let Some(packet) = Stored::next(&mut buffer) {
            let Some(interface) = self.interface(packet.host, packet.is_source) else { continue };
            let stored = &packet.bytes[..packet.bytes.len().min(self.order.snaplen as usize)];
            self.file.packet(interface, (packet.at, packet.direction), (stored, packet.length))?;
        }
        // Whole packets are in the file, whatever happens to us.
        self.file.flush()
    }

    fn end(self, missed: &Missed, at: Time) -> Result<Captured, LiveError> {
        let mut by_interface = Vec::new();
        for (host, [of_others, own]) in missed.iter().enumerate() {
            let others = if self.only_sources { 0 } else { *of_others };
            by_interface.extend(self.interfaces[host].map(|_| others + own));
        }
        let Place { order, file, .. } = self;
        let missed = by_interface.iter().sum();
        let packets = file.finish(at, &by_interface).map_err(|error| order.failed(error))?;
        Ok(Captured { place: order.place, packets, missed })
    }
}

impl CaptureOrder {
    fn failed(&self, error: PcapngError) -> LiveError {
        LiveError::Capture { file: self.file.clone(), error }
    }
}

/// A packet in a buffer.
struct Stored<'a> {
    at: Time,
    length: u32,
    host: usize,
    is_source: bool,
    direction: Direction,
    bytes: &'a [u8],
}

impl<'a> Stored<'a> {
    /// Takes the first packet of a buffer.
    fn next(buffer: &mut &'a [u8]) -> Option<Stored<'a>> {
        let (head, rest) = buffer.split_first_chunk::<HEAD>()?;
        let (at, numbers) = head.split_first_chunk()?;
        let number = |place: usize| Some(u32::from_ne_bytes(*numbers[4 * place..].first_chunk()?));
        let bits = head[HEAD - 1];
        let (bytes, rest) = rest.split_at_checked(number(1)? as usize)?;
        *buffer = rest;
        Some(Stored {
            at: Time(u64::from_ne_bytes(*at)),
            length: number(0)?,
            host: number(2)? as usize,
            is_source: bits & OF_SOURCE != 0,
            direction: if bits & INBOUND != 0 { Direction::Inbound } else { Direction::Outbound },
            bytes,
        })
    }
}

/// Writes what comes until the run is over.
fn write(
    mut places: Vec<Place>,
    filled: &Receiver<Message>,
    emptied: &Sender<Vec<u8>>,
) -> Result<Vec<Captured>, LiveError> {
    let (mut missed, mut at) = (Vec::new(), Time::ZERO);
    for message in filled {
        match message {
            Message::Packets(mut buffer) => {
                for place in &mut places {
                    place.take(&buffer).map_err(|error| place.order.failed(error))?;
                }
                buffer.clear();
                // It is not needed any more if the run is over.
                let _ = emptied.send(buffer);
            }
            Message::End(some, end) => (missed, at) = (some, end),
        }
    }
    places.into_iter().map(|place| place.end(&missed, at)).collect()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn started(name: &str, place: &str, snaplen: u32) -> (Recorder, Captures, PathBuf) {
        let file = std::env::temp_dir().join(format!("lasthop-{}-{name}.pcapng", std::process::id()));
        let addresses = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 3)];
        let hosts = [("server", addresses[0]), ("phone", addresses[1])];
        let hosts = hosts.map(|(name, address)| Host {
            node: usize::from(name == "phone"),
            name: name.to_owned(),
            address,
        });
        let pair = Pair {
            source: addresses[0],
            sink: addresses[1],
            flows: 0..1,
            mtu: 1500,
            rate: Rate(5_000_000),
            part: (0, true),
        };
        let order =
            CaptureOrder { place: place.to_owned(), file: file.clone(), comments: Vec::new(), snaplen };
        let started = Captures::start(&[order], (&hosts, &[pair])).unwrap();
        let (recorder, captures) = started.unwrap();
        (recorder, captures, file)
    }

    #[test]
    fn what_was_noted_is_in_the_file_before_the_run_is_over() {
        let (mut recorder, captures, file) = started("early", "phone", 40);
        recorder.note((1, false), (Time(7), Direction::Inbound), &[0xab; 100]);
        recorder.note((0, true), (Time(6), Direction::Outbound), &[0xcd; 100]);
        recorder.look(Time(200_000_000));
        let has = |byte: u8, count: usize| {
            let bytes = std::fs::read(&file).unwrap();
            bytes.windows(count).any(|window| window.iter().all(|&one| one == byte))
        };
        let began = std::time::Instant::now();
        while !has(0xab, 40) && began.elapsed().as_secs() < 5 {
            thread::yield_now();
        }
        assert!(has(0xab, 40) && !has(0xab, 41), "as many bytes as asked for");
        assert!(!has(0xcd, 4), "another host's packet");
        drop(recorder);
        let captured = captures.end().unwrap();
        assert_eq!(captured, [Captured { place: "phone".to_owned(), packets: 1, missed: 0 }]);
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn sources_have_each_packet_once() {
        let (mut recorder, captures, file) = started("sources", SOURCES, 65_535);
        for (host, is_source) in [(0, true), (1, false)] {
            recorder.note((host, is_source), (Time(7), Direction::Outbound), &[1; 100]);
        }
        drop(recorder);
        assert_eq!(captures.end().unwrap()[0].packets, 1);
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn a_disk_that_is_too_slow_costs_packets_of_the_capture_and_no_memory() {
        let (mut recorder, captures, file) = started("slow", "phone", 65_535);
        // The writer keeps all buffers.
        let (_, nothing) = channel();
        recorder.empty = nothing;
        recorder.note((1, false), (Time(1), Direction::Inbound), &[1; 100]);
        drop(recorder);
        assert_eq!(captures.end().unwrap()[0], Captured { place: "phone".to_owned(), packets: 0, missed: 1 });
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn a_place_that_is_no_host_is_refused() {
        let order = CaptureOrder {
            place: "moon".to_owned(),
            file: PathBuf::new(),
            comments: Vec::new(),
            snaplen: 96,
        };
        let refused = Captures::start(&[order], (&[], &[]));
        assert_eq!(
            refused.err().unwrap().to_string(),
            "no host \"moon\": the hosts of this scenario are senders"
        );
    }
}
