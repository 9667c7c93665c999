//! TCP by smoltcp: one connection that sends in one direction, or asks and is answered, over IPv4, each end with an
//! interface of its own.
//!
//! Its packets are those of the wire, IP header included. smoltcp tells neither its window nor its RTT, so what a
//! report has of losses is counted here: data that leaves a second time.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;

use lasthop::{Ecn, Time};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{self, CongestionControl, Socket, SocketBuffer};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpCidr, Ipv4Packet, TcpPacket, TcpSeqNumber};

use crate::{Carried, Ends, Report, Stack};

/// Buffers that limit nothing up to 100 Mbit/s and 80 ms, in bytes; and of the direction in which no data goes.
const BUFFER: usize = 1 << 20;
const NO_BUFFER: usize = 1 << 10;
/// The longest packet of an Ethernet.
const LONGEST: u32 = 1500;
/// Headers of IPv4 and TCP; smoltcp adds no options to data.
const HEADERS: usize = 40;

/// The congestion controls of smoltcp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// CUBIC (RFC 9438), smoltcp's own default.
    #[default]
    Cubic,
    /// Reno (RFC 5681).
    Reno,
    /// Nothing but the receiver's window.
    None,
}

impl Congestion {
    /// All of them.
    pub const ALL: [Congestion; 3] = [Congestion::Cubic, Congestion::Reno, Congestion::None];

    /// By its name.
    pub fn by_name(name: &str) -> Option<Congestion> {
        Congestion::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Congestion::Cubic => "cubic",
            Congestion::Reno => "reno",
            Congestion::None => "none",
        }
    }
}

/// What a connection is to do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Its congestion control.
    pub congestion: Congestion,
    /// Bytes to transfer; without an end if `None`.
    pub bytes: Option<u64>,
    /// Whether the application writes later what it has to send ([`Stack::write`]).
    pub timed: bool,
    /// Whether the end that opens the connection asks and the other answers ([`Stack::exchange`]).
    pub exchange: bool,
    /// Whether both ends tell what packets carry and what has come.
    pub measured: bool,
}

/// Both ends of a connection, for [`crate::Run::connect`], where the network adds headers of UDP to its packets; in a
/// scenario it adds none.
pub fn pair(settings: &Settings, ends: &Ends) -> (String, Box<dyn Stack>, Box<dyn Stack>) {
    let bytes = if settings.timed { 0 } else { settings.bytes.unwrap_or(u64::MAX) };
    let sender = End::new(settings, ends, Some(bytes), true);
    let receiver = End::new(settings, ends, settings.exchange.then_some(0), false);
    (format!("smoltcp {}", settings.congestion.name()), Box::new(sender), Box::new(receiver))
}

/// smoltcp counts microseconds. Rounded down, so that no time is before it has come.
fn instant(now: Time) -> Instant {
    Instant::from_micros((now.0 / 1000) as i64)
}

/// The network card of an end: a packet waits in it until the driver takes it.
struct Card {
    arrived: VecDeque<Vec<u8>>,
    leaving: VecDeque<Vec<u8>>,
    mtu: usize,
}

struct Arrived(Vec<u8>);

struct Leaving<'a>(&'a mut VecDeque<Vec<u8>>);

impl RxToken for Arrived {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

impl TxToken for Leaving<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        let mut packet = vec![0; length];
        let written = write(&mut packet);
        self.0.push_back(packet);
        written
    }
}

impl Device for Card {
    type RxToken<'a> = Arrived;
    type TxToken<'a> = Leaving<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Arrived, Leaving<'_>)> {
        let packet = self.arrived.pop_front()?;
        Some((Arrived(packet), Leaving(&mut self.leaving)))
    }

    /// One packet at a time: the driver asks again.
    fn transmit(&mut self, _: Instant) -> Option<Leaving<'_>> {
        self.leaving.is_empty().then_some(Leaving(&mut self.leaving))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }
}

struct End {
    card: Card,
    interface: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
    /// When smoltcp was called last.
    called: Time,
    /// What a sending application has not handed over yet; `None` at a receiver.
    left: Option<u64>,
    /// It receives.
    receives: bool,
    /// Requests or answers have come, and were not told.
    has_heard: bool,
    /// Behind the last byte that has left so far.
    sent: Option<TcpSeqNumber>,
    /// The application will write more.
    more: bool,
    /// What the last packet carries.
    carried: Carried,
    /// Ranges that have come and were not taken, if they are told.
    arrived: Option<Vec<Range<u64>>>,
    /// The number of the first byte of data, once it is known.
    first: Option<TcpSeqNumber>,
    /// Whether the connection has been there, or has been asked for.
    is_open: bool,
    report: Report,
}

impl End {
    /// An end that has this much to send, if it sends; whether it opens the connection.
    fn new(settings: &Settings, ends: &Ends, left: Option<u64>, opens: bool) -> End {
        let is_sender = left.is_some();
        let receives = !is_sender || settings.exchange;
        let (own, peer) = if opens { (ends.sender, ends.receiver) } else { (ends.receiver, ends.sender) };
        let mut entropy = if opens { &ends.sender_entropy } else { &ends.receiver_entropy }.clone();
        let mut seed = [0; 8];
        entropy.fill(&mut seed);
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = u64::from_le_bytes(seed);
        let mtu = ends.longest.min(LONGEST) as usize;
        let mut card = Card { arrived: VecDeque::new(), leaving: VecDeque::new(), mtu };
        let mut interface = Interface::new(config, &mut card, instant(ends.at));
        let buffer = |is_used: bool| SocketBuffer::new(vec![0; if is_used { BUFFER } else { NO_BUFFER }]);
        let mut socket = Socket::new(buffer(receives), buffer(is_sender));
        socket.set_congestion_control(match settings.congestion {
            Congestion::Cubic => CongestionControl::Cubic,
            Congestion::Reno => CongestionControl::Reno,
            Congestion::None => CongestionControl::None,
        });
        // What is written now and then leaves at once.
        socket.set_nagle_enabled(!settings.timed);
        let mut report = Report { lost_packets: is_sender.then_some(0), ..Report::default() };
        let opened = match (own, peer) {
            (SocketAddr::V4(own), SocketAddr::V4(peer)) => {
                // The list of addresses has room for two.
                interface.update_ip_addrs(|list| {
                    let _ = list.push(IpCidr::new((*own.ip()).into(), 8));
                });
                if opens {
                    socket.connect(interface.context(), peer, own).map_err(|error| error.to_string())
                } else {
                    socket.listen(own).map_err(|error| error.to_string())
                }
            }
            _ => Err("its addresses are of IPv4".to_owned()),
        };
        report.closed = opened.err().map(|error| (ends.at, error));
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let socket = sockets.add(socket);
        let (called, sent, is_open) = (ends.at, None, opens);
        let arrived = settings.measured.then(Vec::new);
        let (more, carried, first) = (settings.timed, Carried::Nothing, None);
        End {
            card,
            interface,
            sockets,
            socket,
            called,
            left,
            receives,
            has_heard: false,
            sent,
            more,
            carried,
            arrived,
            first,
            is_open,
            report,
        }
    }

    /// The application: writes and reads.
    fn work(&mut self, now: Time) {
        let socket = self.sockets.get_mut::<Socket<'_>>(self.socket);
        if self.report.connected.is_none() && socket.may_send() {
            self.report.connected = Some(now);
            self.is_open = true;
        }
        if let Some(left) = &mut self.left {
            while *left > 0 && socket.can_send() {
                // What the bytes are does not matter: those of the buffer.
                let take = |buffer: &mut [u8]| {
                    let taken = (*left).min(buffer.len() as u64) as usize;
                    (taken, taken)
                };
                match socket.send(take) {
                    Ok(taken @ 1..) => *left -= taken as u64,
                    _ => break,
                }
                if *left == 0 && !self.more {
                    socket.close();
                }
            }
            if *left == 0 && !self.more && socket.send_queue() == 0 {
                self.report.finished.get_or_insert(now);
            }
        }
        if self.receives {
            while socket.can_recv() {
                match socket.recv(|buffer| (buffer.len(), buffer.len())) {
                    Ok(read @ 1..) => {
                        self.report.delivered_bytes += read as u64;
                        self.has_heard = true;
                    }
                    _ => break,
                }
            }
            if self.is_open && socket.state() == tcp::State::CloseWait {
                self.report.finished.get_or_insert(now);
                socket.close();
            }
        }
        if self.is_open && !socket.is_open() && self.report.finished.is_none() {
            self.report.closed.get_or_insert((now, "reset".to_owned()));
        }
    }

    /// Counts data that has left before.
    fn count(&mut self, packet: &[u8]) {
        self.carried = Carried::Nothing;
        let Some((from, length, _)) = segment(packet).filter(|segment| segment.1 > 0) else { return };
        let (end, until) = (self.sent.unwrap_or(from), from + length);
        self.carried = if from < end { Carried::Again } else { Carried::New };
        if from < end {
            self.report.lost_packets = self.report.lost_packets.map(|lost| lost + 1);
            self.report.lost_bytes = Some(self.report.lost_bytes.unwrap_or(0) + length as u64);
        }
        self.sent = Some(if until > end { until } else { end });
    }
}

/// The first sequence number of a packet, its bytes of data, and whether it opens the connection.
fn segment(packet: &[u8]) -> Option<(TcpSeqNumber, usize, bool)> {
    let ip = Ipv4Packet::new_checked(packet).ok()?;
    let segment = TcpPacket::new_checked(ip.payload()).ok()?;
    Some((segment.seq_number(), segment.payload().len(), segment.syn()))
}

impl Stack for End {
    fn next_timeout(&mut self) -> Option<Time> {
        let at = self.interface.poll_at(instant(self.called), &self.sockets)?;
        // It may answer "now", though it has just been asked for all that it has: then it is asked a microsecond later.
        let micros = u64::try_from(at.total_micros()).unwrap_or(0).max(self.called.0 / 1000 + 1);
        Some(Time(micros * 1000))
    }

    fn handle_timeout(&mut self, now: Time) {
        // Timers belong to what is sent.
        self.called = now;
    }

    fn receive(&mut self, now: Time, _: Ecn, data: &mut [u8]) {
        self.called = now;
        if let (Some(arrived), Some((from, length, is_syn))) = (&mut self.arrived, segment(data)) {
            let first = *self.first.get_or_insert(if is_syn { from + 1 } else { from });
            // Sequence numbers come round: it lies near the first byte that is missing.
            let delivered = self.report.delivered_bytes;
            let beyond = from.0.wrapping_sub(first.0).wrapping_sub(delivered as i32);
            if length > 0 && beyond >= 0 {
                let start = delivered + u64::from(beyond.unsigned_abs());
                arrived.push(start..start + length as u64);
            }
        }
        self.card.arrived.push_back(data.to_vec());
        self.interface.poll_ingress_single(instant(now), &mut self.card, &mut self.sockets);
        self.work(now);
    }

    fn transmit(&mut self, now: Time, datagram: &mut Vec<u8>) -> Option<Ecn> {
        self.called = now;
        if self.card.leaving.is_empty() {
            self.interface.poll_egress(instant(now), &mut self.card, &mut self.sockets);
            self.work(now);
        }
        let packet = self.card.leaving.pop_front()?;
        self.count(&packet);
        datagram.extend(packet);
        Some(Ecn::NotEct)
    }

    fn write(&mut self, now: Time, bytes: u64, is_last: bool) {
        self.called = now;
        self.more = !is_last;
        self.left = self.left.map(|left| left + bytes);
        if is_last && self.left == Some(0) {
            self.sockets.get_mut::<Socket<'_>>(self.socket).close();
        }
        self.work(now);
    }

    fn exchange(&mut self, now: Time, _: u32, bytes: u64) {
        self.write(now, bytes, false);
    }

    fn heard(&mut self, all: &mut Vec<(u32, u64)>) {
        if std::mem::take(&mut self.has_heard) {
            all.push((0, self.report.delivered_bytes));
        }
    }

    fn room(&mut self) -> Option<u32> {
        Some((self.card.mtu - HEADERS) as u32)
    }

    fn carried(&mut self) -> Carried {
        self.carried
    }

    fn arrived(&mut self, all: &mut Vec<Range<u64>>) {
        if let Some(arrived) = &mut self.arrived {
            all.append(arrived);
        }
    }

    fn stop(&mut self, now: Time) {
        self.called = now;
        self.left = self.left.map(|_| 0);
        if self.report.finished.is_none() {
            self.sockets.get_mut::<Socket<'_>>(self.socket).abort();
        }
    }

    fn delivered(&mut self) -> u64 {
        self.report.delivered_bytes
    }

    fn report(&mut self) -> Report {
        self.report.clone()
    }
}
