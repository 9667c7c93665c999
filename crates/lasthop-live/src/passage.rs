//! What real packets are in the world: which flow they belong to, and what links and helpers may see of them.
//!
//! A [`Passage`] joins pairs of hosts. Each packet between two of them becomes a [`Packet`] of some flow of the world
//! and gets its bytes back when it leaves. Connections are told apart by their 5-tuple; each has a flow of its own, so
//! that helpers and fair queues tell them apart too. What no header explains (ICMP, IPsec, fragments, a TCP header
//! that makes no sense) passes as a datagram that no helper touches, and is counted.
//!
//! **Runs within runs.** A host of this run may stand for hosts of others: those that were started at it, whose packets
//! it passes on, and, where this run itself was started at the host of another, all that lie beyond that. Their
//! addresses are within 10.0.0.0/8 and differ from ours in the second byte.
//!
//! **Directions.** A flow of the world goes from a source to a sink. Helpers at a link help data that travel that way.
//! Data in the other direction travel as they are, and are measured as those that go forward: each direction of a
//! connection has counters of its own ([`Direction`]), and each packet is in those of its direction.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};

use lasthop_core::packet::{Kind, NONE, Note, Packet, flag};
use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;
use lasthop_net::measure::{Durations, FlowStats, Window};
use lasthop_net::plan::Percentiles;
use lasthop_net::transport::codec::{self, Ecn, Header, Layer, ParseError, Tcp, Transport, unwrap};
use lasthop_net::transport::extra::{Extra, first_sent};
use lasthop_net::transport::outside::Departure;

use crate::store::Store;

/// An IPv4 header without options.
const IP_HEADER: u16 = codec::IP_HEADER as u16;
/// Protocol numbers.
const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;

/// Two hosts that a path of the scenario joins, and the flows of the world that run over it. The last of them takes
/// whatever the others have no room for.
#[derive(Clone, Debug)]
pub struct Pair {
    /// Where the flows start.
    pub source: Ipv4Addr,
    /// Where they end.
    pub sink: Ipv4Addr,
    /// Their numbers in the world.
    pub flows: std::ops::Range<usize>,
    /// The longest packet that every link of the path takes.
    pub mtu: usize,
    /// What the path carries: the rate of its slowest link, in the faster direction.
    pub rate: Rate,
    /// Where proxies split connections each part of the path has a pair of its own, one behind another in the list:
    /// which part it is, from the source on, and whether there is none behind it.
    pub part: (usize, bool),
}

/// Why a packet does not enter the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is not a whole IPv4 packet: another version, cut off, or a header that is wrong.
    NotIp,
    /// No flow of the scenario joins its two ends.
    NoPath,
    /// It is longer than the links take.
    TooLong,
}

impl Refusal {
    /// Names in results, in the order of the variants.
    pub const NAMES: [&'static str; 3] = ["not-ipv4", "no-path", "too-long"];
}

/// What tells connections apart: addresses and ports of the side of the source, then of the sink, and the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tuple {
    /// The host at the source of the pair, and its port; 0 if the protocol has none.
    pub source: (Ipv4Addr, u16),
    /// The host at its sink.
    pub sink: (Ipv4Addr, u16),
    /// Number of the protocol in the IP header.
    pub protocol: u8,
}

impl fmt::Display for Tuple {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((source, from), (sink, to)) = (self.source, self.sink);
        match self.protocol {
            TCP => write!(formatter, "tcp {source}:{from} - {sink}:{to}"),
            UDP => write!(formatter, "udp {source}:{from} - {sink}:{to}"),
            1 => write!(formatter, "icmp {source} - {sink}"),
            other => write!(formatter, "protocol {other} {source} - {sink}"),
        }
    }
}

/// The 5-tuple of a TCP segment that comes from the source or, with `back`, from the sink.
pub(crate) fn tuple_of(header: &Header, back: bool) -> Tuple {
    let end = |address: SocketAddrV4| (*address.ip(), address.port());
    let (near, far) = (end(header.source), end(header.destination));
    let (source, sink) = if back { (far, near) } else { (near, far) };
    Tuple { source, sink, protocol: TCP }
}

/// What one end of a TCP connection has sent, and what is known of it.
#[derive(Clone, Debug, Default)]
struct Side {
    /// A recent sequence number, in 64 bits, and one past the highest.
    recent: Option<u64>,
    /// The number of its SYN.
    syn: Option<u32>,
    /// Shift of its windows, from its SYN.
    shift: u8,
    /// The highest acknowledgement of it.
    acknowledged: Option<u64>,
    /// Where it ends, its FIN included.
    fin: Option<u64>,
    /// Ends of the segments that are timed, rising, and when they were sent.
    timed: VecDeque<(u64, Time)>,
}

/// Segments that are timed at once: more than any window has, unless nothing is acknowledged at all.
const MOST_TIMED: usize = 1 << 16;

impl Side {
    /// When the newest segment was sent that an ACK with this number covers for the first time.
    fn time_of(&mut self, wire: u32) -> Option<Time> {
        let number = self.number(wire);
        let mut newest = None;
        while let Some(&(end, sent)) = self.timed.front()
            && end <= number
        {
            newest = Some(sent);
            self.timed.pop_front();
        }
        newest
    }

    /// A sequence number of this direction in 64 bits, whose lower half is that of the wire.
    fn number(&self, wire: u32) -> u64 {
        // Far from 0, so that nothing lies below it.
        self.recent.map_or((1 << 32) + u64::from(wire), |recent| unwrap(recent, wire))
    }

    fn note(&mut self, end: u64) {
        self.recent = Some(self.recent.map_or(end, |recent| recent.max(end)));
    }

    /// Bytes that wait for their acknowledgement.
    fn outstanding(&self) -> u64 {
        let end = self.recent.unwrap_or(0);
        end.saturating_sub(self.acknowledged.unwrap_or(end))
    }
}

/// What was measured of one direction of a connection: of all its packets, those without data included.
#[derive(Clone, Debug)]
pub struct Direction {
    /// Packets that entered, over the whole run.
    pub packets: u64,
    /// Their bytes, from the IP header on.
    pub bytes: u64,
    /// Their payload.
    pub payload: u64,
    /// Packets that entered within the measurement window.
    pub sent: u64,
    /// Segments with data that were sent again, in the measurement window.
    pub retransmitted: u64,
    /// RTT as seen at its source: from a segment to the ACK that covers it, one at a time (RFC 6298 with Karn's rule).
    pub rtt: Durations,
    /// When the first packet entered.
    pub first: Option<Time>,
    /// When the first and the latest data entered, or arrived.
    pub life: Option<(Time, Time)>,
    /// What arrived, and when; of the direction from the source the world keeps this.
    pub arrived: FlowStats,
    /// Time during which data were under way.
    busy: Span,
    /// Since when there are data under way, or when the latest datagram was sent.
    busy_since: Option<Time>,
    /// Bytes of datagrams so far.
    datagrams: u64,
    /// The longest payload.
    segment: u32,
    /// Count and sum of RTTs since the last look, in nanoseconds.
    seen: (u64, u64),
}

/// Datagrams that follow each other more slowly than this are no stream.
const PAUSE: Span = Span::from_secs(1);

impl Direction {
    fn new() -> Direction {
        Direction {
            packets: 0,
            bytes: 0,
            payload: 0,
            sent: 0,
            retransmitted: 0,
            rtt: Durations::new(Percentiles::Sketch),
            first: None,
            life: None,
            arrived: FlowStats::new(Percentiles::Sketch),
            busy: Span::ZERO,
            busy_since: None,
            datagrams: 0,
            segment: 0,
            seen: (0, 0),
        }
    }

    /// A packet of this direction enters.
    fn note_entry(&mut self, packet: &Packet, window: &Window) {
        let now = packet.stamp;
        self.packets += 1;
        self.bytes += u64::from(packet.bytes);
        self.payload += u64::from(packet.payload);
        self.sent += u64::from(window.contains(now));
        self.first = self.first.or(Some(now));
        if packet.payload > 0 {
            self.live_until(now);
        }
    }

    fn live_until(&mut self, now: Time) {
        let since = self.life.map_or(now, |(since, _)| since);
        self.life = Some((since, now));
    }

    /// A datagram of this direction enters.
    fn note_datagram(&mut self, now: Time) {
        if let Some(before) = self.busy_since {
            self.busy = self.busy + Span(now.since(before).0.min(PAUSE.0));
        }
        self.busy_since = Some(now);
    }

    /// There are `outstanding` bytes under way now.
    fn note_outstanding(&mut self, outstanding: u64, now: Time) {
        match self.busy_since {
            None if outstanding > 0 => self.busy_since = Some(now),
            Some(since) if outstanding == 0 => {
                self.busy = self.busy + now.since(since);
                self.busy_since = None;
            }
            _ => {}
        }
    }

    /// For how long data of a connection were under way until `end`.
    pub fn busy_until(&self, end: Time, is_stream: bool) -> Span {
        let rest = self.busy_since.filter(|_| is_stream).map_or(Span::ZERO, |since| end.since(since));
        self.busy + rest
    }
}

/// What is known of a flow in use.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Its 5-tuple; that of its first packet, if it takes several connections.
    pub tuple: Tuple,
    /// It takes whatever came after all others were taken.
    pub is_rest: bool,
    /// What was measured of it: from the source, and from the sink.
    pub directions: [Direction; 2],
    sides: [Side; 2],
}

impl Connection {
    fn new(tuple: Tuple, is_rest: bool) -> Connection {
        Connection {
            tuple,
            is_rest,
            directions: [Direction::new(), Direction::new()],
            sides: <[Side; 2]>::default(),
        }
    }

    /// Whether its ends acknowledge what arrives.
    pub fn is_stream(&self) -> bool {
        self.tuple.protocol == TCP && !self.is_rest
    }

    /// Directions in which it had data: 0 from the source, 1 from the sink. Without any, that of its first packet.
    pub fn used(&self) -> Vec<usize> {
        let used: Vec<usize> = (0..2).filter(|&way| self.directions[way].payload > 0).collect();
        if !used.is_empty() {
            return used;
        }
        let [forward, back] = [0, 1].map(|way: usize| self.directions[way].first.unwrap_or(Time::MAX));
        vec![usize::from(back < forward)]
    }

    /// The 5-tuple, that of the other end first if `way` is 1.
    pub fn tuple_from(&self, way: usize) -> Tuple {
        let Tuple { source, sink, protocol } = self.tuple;
        if way == 0 { self.tuple } else { Tuple { source: sink, sink: source, protocol } }
    }
}

/// A packet that may enter the world.
#[derive(Clone, Copy, Debug)]
pub struct Admitted {
    /// Its flow.
    pub flow: usize,
    /// The packet.
    pub packet: Packet,
    /// What it carries beyond its header.
    pub extra: Extra,
    /// Bytes of the other direction that its acknowledgement says to have reached the application.
    pub delivered: u64,
}

/// What was not understood or could not pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oddities {
    /// Packets refused, by [`Refusal`].
    pub refused: [u64; 3],
    /// Packets that passed although nothing beyond their IP header was understood.
    pub opaque: u64,
    /// Packets of helpers for which there are no bytes.
    pub without_bytes: u64,
    /// Packets whose bytes had to make room: more were on their way than [`crate::store::PLACES`].
    pub overrun: u64,
}

/// Everything between the hosts and the world.
#[derive(Debug)]
pub struct Passage {
    pairs: Vec<Pair>,
    /// Flows of each pair that are in use.
    used: Vec<usize>,
    /// Flows of connections, by pair.
    known: HashMap<(usize, Tuple), usize>,
    connections: HashMap<usize, Connection>,
    store: Store,
    others: Others,
    /// What was not understood or could not pass.
    pub oddities: Oddities,
}

/// Hosts of other runs, by the host of ours behind which they are.
#[derive(Debug)]
struct Others {
    /// The addresses of our own.
    own: BTreeSet<Ipv4Addr>,
    known: HashMap<Ipv4Addr, Ipv4Addr>,
    /// The host of ours that stands for the run around us.
    gateway: Option<Ipv4Addr>,
    /// The host of ours that is the way out to all addresses that no run has.
    exit: Option<Ipv4Addr>,
    /// Runs within ours: the second byte of their addresses.
    runs: BTreeSet<u8>,
    /// The last of them, if it has not been reported.
    news: Option<u8>,
}

/// Whether no run has this address.
fn is_outside(address: Ipv4Addr) -> bool {
    address.octets()[0] != 10
}

/// Hosts of other runs that are remembered: an enemy who makes addresses up shall not take all memory.
const OTHERS: usize = 4096;

impl Others {
    fn new(pairs: &[Pair]) -> Others {
        let own = pairs.iter().flat_map(|pair| [pair.source, pair.sink]).collect();
        Others { own, known: HashMap::new(), gateway: None, exit: None, runs: BTreeSet::new(), news: None }
    }

    /// Whether this may be the address of a host of another run.
    fn is_other(&self, address: Ipv4Addr) -> bool {
        let [first, block, ..] = address.octets();
        first == 10 && !self.own.iter().any(|own| own.octets()[1] == block)
    }

    /// Takes note of who is behind the host `from`, which sends a packet of `source`; returns that host, unless the
    /// packet is none of its own.
    fn learn(&mut self, source: Ipv4Addr, from: Ipv4Addr) -> Option<Ipv4Addr> {
        if self.own.contains(&source) {
            return Some(from).filter(|&from| from == source);
        }
        if is_outside(source) {
            return Some(from).filter(|_| self.exit == Some(from));
        }
        let has_room = self.known.len() < OTHERS || self.known.contains_key(&source);
        if !self.is_other(source) || !has_room {
            return None;
        }
        self.known.insert(source, from);
        let run = source.octets()[1];
        if self.gateway != Some(from) && self.runs.insert(run) {
            self.news = Some(run);
        }
        Some(from)
    }

    /// The host of ours by which packets reach this address.
    fn towards(&self, address: Ipv4Addr) -> Option<Ipv4Addr> {
        if self.own.contains(&address) {
            return Some(address);
        }
        if is_outside(address) {
            return self.exit;
        }
        let beyond = self.gateway.filter(|_| self.is_other(address));
        self.known.get(&address).copied().or(beyond)
    }
}

/// By what way a packet comes.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// From the host with this address, or one behind it.
    Host(Ipv4Addr),
    /// From a proxy, into the part of a path that this pair is.
    Part(usize),
}

impl Passage {
    /// A passage between these pairs.
    pub fn new(pairs: Vec<Pair>, store: Store) -> Passage {
        let used = vec![0; pairs.len()];
        Passage {
            others: Others::new(&pairs),
            pairs,
            used,
            known: HashMap::new(),
            connections: HashMap::new(),
            store,
            oddities: Oddities::default(),
        }
    }

    /// Packets for unknown hosts go to this one of ours: it is also a host of the run around us.
    pub fn set_gateway(&mut self, host: Ipv4Addr) {
        self.others.gateway = Some(host);
    }

    /// Packets for addresses that no run has go to this host of ours, and come from there.
    pub fn set_exit(&mut self, host: Ipv4Addr) {
        self.others.exit = Some(host);
    }

    /// A run within ours that has shown itself since the last time this was asked: the second byte of its addresses.
    /// Comes with the host of ours that the run around us has to send its packets to, if there is one around us.
    pub(crate) fn new_run(&mut self) -> Option<(Ipv4Addr, u8)> {
        self.others.gateway.zip(self.others.news.take())
    }

    /// The flows in use, in the order of their numbers.
    pub fn flows(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.pairs.len()).flat_map(|pair| self.flows_of(pair))
    }

    /// Those of a pair.
    pub fn flows_of(&self, pair: usize) -> std::ops::Range<usize> {
        let first = self.pairs[pair].flows.start;
        first..first + self.used[pair]
    }

    /// The pairs that it joins.
    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// The flow over which a connection runs in this pair's part of the path, if it is known there.
    pub fn flow_in(&self, pair: usize, tuple: &Tuple) -> Option<usize> {
        self.known.get(&(pair, *tuple)).copied()
    }

    /// What is known of a flow.
    pub fn connection(&self, flow: usize) -> Option<&Connection> {
        self.connections.get(&flow)
    }

    /// The same, to look at it.
    pub(crate) fn connection_mut(&mut self, flow: usize) -> Option<&mut Connection> {
        self.connections.get_mut(&flow)
    }

    /// Takes a packet that the `host` with this address sends or passes on at `now`; `window`: what is measured.
    pub fn admit(
        &mut self,
        host: Ipv4Addr,
        bytes: &[u8],
        now: Time,
        window: &Window,
    ) -> Result<Admitted, Refusal> {
        self.admit_by(Way::Host(host), bytes, now, window)
    }

    /// The same of a packet that a proxy sends into this pair's part of the path.
    pub fn admit_to(
        &mut self,
        pair: usize,
        bytes: &[u8],
        now: Time,
        window: &Window,
    ) -> Result<Admitted, Refusal> {
        self.admit_by(Way::Part(pair), bytes, now, window)
    }

    fn admit_by(&mut self, way: Way, bytes: &[u8], now: Time, window: &Window) -> Result<Admitted, Refusal> {
        let admitted = self.try_admit(way, bytes, now, window);
        if let Err(refusal) = admitted {
            self.oddities.refused[refusal as usize] += 1;
        }
        admitted
    }

    fn try_admit(&mut self, way: Way, bytes: &[u8], now: Time, window: &Window) -> Result<Admitted, Refusal> {
        let parsed = match codec::parse(bytes) {
            Ok((header, payload)) => Some((header, payload.len())),
            Err(
                ParseError::Version(_)
                | ParseError::Truncated { layer: Layer::Ip, .. }
                | ParseError::Length { layer: Layer::Ip, .. }
                | ParseError::Checksum(Layer::Ip),
            ) => return Err(Refusal::NotIp),
            Err(_) => None,
        };
        let (Some(&source), Some(&sink), Some(&protocol)) =
            (bytes[12..].first_chunk::<4>(), bytes[16..].first_chunk::<4>(), bytes.get(9))
        else {
            return Err(Refusal::NotIp);
        };
        let ports = parsed.map_or((0, 0), |(header, _)| (header.source.port(), header.destination.port()));
        let near = (Ipv4Addr::from(source), ports.0);
        let far = (Ipv4Addr::from(sink), ports.1);
        let joined = match way {
            Way::Host(host) => self.others.learn(near.0, host).zip(self.others.towards(far.0)),
            Way::Part(_) => self.others.towards(near.0).zip(self.others.towards(far.0)),
        };
        let Some((from, to)) = joined else { return Err(Refusal::NoPath) };
        let place = match way {
            Way::Host(_) => self.pairs.iter().position(|pair| {
                let (part, is_last) = pair.part;
                (part == 0 && (pair.source, pair.sink) == (from, to))
                    || (is_last && (pair.source, pair.sink) == (to, from))
            }),
            Way::Part(pair) => Some(pair),
        };
        let Some(place) = place else { return Err(Refusal::NoPath) };
        // A super-segment of a kernel that leaves the cutting to its interface must not pass as one packet.
        if bytes.len() > self.pairs[place].mtu {
            return Err(Refusal::TooLong);
        }
        let back = self.pairs[place].source != from;
        let (source, sink) = if back { (far, near) } else { (near, far) };
        let flow = self.flow_of(place, Tuple { source, sink, protocol });
        self.oddities.opaque += u64::from(parsed.is_none());
        let Some(connection) = self.connections.get_mut(&flow) else { return Err(Refusal::NoPath) };
        let mut packet = Packet {
            stamp: now,
            extra: NONE,
            bytes: bytes.len() as u16,
            kind: Kind::Udp,
            note: Note::new(back, false),
            ..Packet::default()
        };
        let mut extra = Extra::default();
        let mut delivered = 0;
        match parsed {
            Some((Header { transport: Transport::Tcp(tcp), ecn, .. }, payload)) if !connection.is_rest => {
                packet.payload = payload as u16;
                packet.flags = flags_of(ecn, &tcp);
                delivered = connection.take_segment(&tcp, &mut packet, &mut extra, window);
            }
            _ => {
                let headers = if parsed.is_some() { IP_HEADER + 8 } else { IP_HEADER };
                packet.payload =
                    parsed.map_or(packet.bytes.saturating_sub(headers), |(_, payload)| payload as u16);
                packet.flags = parsed.map_or(0, |(header, _)| header.ecn.flags());
                let direction = &mut connection.directions[usize::from(back)];
                packet.seq = direction.datagrams;
                direction.datagrams += u64::from(packet.payload);
                direction.note_datagram(now);
            }
        }
        connection.directions[usize::from(back)].note_entry(&packet, window);
        extra.bytes_at = Some(self.store.put(bytes));
        Ok(Admitted { flow, packet, extra, delivered })
    }

    /// The flow of a connection, a new one if there is one left.
    fn flow_of(&mut self, place: usize, tuple: Tuple) -> usize {
        if let Some(&flow) = self.known.get(&(place, tuple)) {
            return flow;
        }
        let (flows, used) = (&self.pairs[place].flows, self.used[place]);
        if used == flows.len() {
            // The list of 5-tuples is as long as that of flows: later connections are not remembered.
            return flows.end - 1;
        }
        let flow = flows.start + used;
        let is_rest = flow + 1 == flows.end;
        self.used[place] += 1;
        self.known.insert((place, tuple), flow);
        self.connections.insert(flow, Connection::new(tuple, is_rest));
        flow
    }

    /// The bytes of a packet that leaves the world, with what links and helpers have changed; `None` if it has none: a
    /// helper's message that no real host understands. Counts its arrival.
    pub fn release(
        &mut self,
        flow: usize,
        left: &Departure,
        stats: &mut FlowStats,
        window: &Window,
    ) -> Option<&[u8]> {
        let packet = &left.packet;
        let Some(ticket) = left.extra.as_ref().and_then(|extra| extra.bytes_at) else {
            self.oddities.without_bytes += 1;
            return None;
        };
        let bytes = self.store.get_mut(ticket);
        if let Some(connection) = self.connections.get_mut(&flow) {
            connection.note_arrival((left, bytes.as_deref()), stats, window);
        }
        let Some(bytes) = bytes else {
            self.oddities.overrun += 1;
            return None;
        };
        if packet.has(flag::CE) {
            codec::patch::mark_congestion(bytes);
        }
        if packet.has(flag::ELN) && packet.kind == Kind::Ack {
            codec::patch::mark_loss(bytes);
        }
        if let Some(extra) = left.extra.as_ref().filter(|extra| extra.hides_sack) {
            codec::patch::keep_sack_blocks(bytes, extra.sack.len());
        }
        Some(bytes)
    }
}

fn flags_of(ecn: Ecn, tcp: &Tcp) -> u8 {
    ecn.flags() | tcp.flags.bits()
}

/// The acknowledgement number of a TCP segment in an IPv4 packet.
fn acknowledged_by(bytes: &[u8]) -> Option<u32> {
    let header = usize::from(bytes.first()? & 0x0f) * 4;
    let tcp = bytes.get(header..)?;
    // The flag ACK.
    (tcp.get(13)? & 0x10 != 0).then_some(())?;
    Some(u32::from_be_bytes(*tcp.get(8..)?.first_chunk::<4>()?))
}

impl Connection {
    /// Segments that are not acknowledged, and the mean RTT since the last look, if there was any: of the direction
    /// that carries more.
    pub(crate) fn observe(&mut self) -> (u32, Option<Span>) {
        let way = usize::from(self.directions[1].payload > self.directions[0].payload);
        let direction = &mut self.directions[way];
        let (count, sum) = std::mem::take(&mut direction.seen);
        let flight = self.sides[way].outstanding().div_ceil(u64::from(direction.segment.max(1)));
        (flight as u32, (count > 0).then(|| Span(sum / count.max(1))))
    }

    /// Makes a packet of a TCP segment; returns the bytes of the other direction that its acknowledgement covers anew.
    fn take_segment(&mut self, tcp: &Tcp, packet: &mut Packet, extra: &mut Extra, window: &Window) -> u64 {
        let (back, now) = (packet.note.back, packet.stamp);
        let (from, to) = if back { (1, 0) } else { (0, 1) };
        let flags = tcp.flags;
        let is_new = flags.syn && self.sides[from].syn != Some(tcp.seq);
        if is_new {
            // Numbers of a connection with the same ports before it mean nothing any more.
            self.sides[from] = Side { syn: Some(tcp.seq), ..Side::default() };
            if !flags.ack {
                self.sides[to] = Side::default();
            }
        }
        if flags.syn {
            self.sides[from].shift = tcp.options.window_scale.unwrap_or(0).min(14);
        }
        let seq = self.sides[from].number(tcp.seq);
        let end = seq + u64::from(packet.payload) + u64::from(flags.syn) + u64::from(flags.fin);
        let again = end > seq && self.sides[from].recent.is_some_and(|recent| end <= recent);
        // A number far away is no progress: a stray segment must not move what is known.
        let near = self.sides[from].recent.is_none_or(|recent| end.abs_diff(recent) < 1 << 30);
        if near && !flags.rst {
            self.sides[from].note(end);
        }
        packet.window = u32::from(tcp.window) << if flags.syn { 0 } else { self.sides[from].shift };
        if flags.rst || !near {
            return 0;
        }
        if flags.fin {
            self.sides[from].fin = Some(end);
        }
        let direction = &mut self.directions[from];
        direction.segment = direction.segment.max(u32::from(packet.payload));
        if again && packet.payload > 0 {
            direction.retransmitted += u64::from(window.contains(now));
            // Of a segment sent twice it is not known which one was acknowledged, and what is behind it waits for it.
            self.sides[from].timed.clear();
        } else if packet.payload > 0 && self.sides[from].timed.len() < MOST_TIMED {
            self.sides[from].timed.push_back((end, now));
        }
        let acknowledged = flags.ack.then(|| self.take_acknowledgement(to, tcp.ack)).flatten();
        for way in [from, to] {
            self.directions[way].note_outstanding(self.sides[way].outstanding(), now);
        }
        let (ack, advances, delivered) = acknowledged.unwrap_or((0, false, 0));
        if back {
            if acknowledged.is_some() {
                packet.seq = ack;
                packet.kind = kind_of_answer(tcp, packet.payload, advances);
                // A range that was sent before is told by the time of its first transmission, which is not known.
                extra.first_sent = again.then_some(Time::MAX);
                for &(start, end) in tcp.options.sack.as_slice() {
                    extra.sack.push(self.sides[0].number(start), self.sides[0].number(end));
                }
            }
            return delivered;
        }
        packet.seq = seq;
        packet.note = Note::new(false, again);
        packet.kind = match (flags.syn, flags.fin, packet.payload) {
            (true, ..) => Kind::Syn,
            (_, true, _) => Kind::Fin,
            (_, _, 0) => Kind::Ack,
            _ => Kind::Data,
        };
        delivered
    }

    /// An acknowledgement of the data of one direction: its number, whether it is higher than all before, and the bytes
    /// of the application that it covers anew; nothing if it makes no sense.
    fn take_acknowledgement(&mut self, way: usize, wire: u32) -> Option<(u64, bool, u64)> {
        let side = &mut self.sides[way];
        let ack = side.number(wire);
        // It cannot have what was never sent.
        if side.recent.is_none_or(|recent| ack > recent) {
            return None;
        }
        let before = side.acknowledged;
        if before.is_some_and(|before| ack <= before) {
            return Some((ack, false, 0));
        }
        side.acknowledged = Some(ack);
        // The SYN before and the FIN behind the data are no bytes of the application.
        let own = u64::from(side.fin == Some(ack));
        Some((ack, true, before.map_or(0, |before| ack - before - own)))
    }

    /// Bytes that an acknowledgement from the source covers anew, which enters now.
    pub(crate) fn deliver_back(&mut self, now: Time, bytes: u64, window: &Window) {
        self.directions[1].arrived.deliver(now, bytes, window);
    }

    /// Counts a packet that has crossed the world, and has these bytes; `stats`: of the direction from the source.
    fn note_arrival(
        &mut self,
        (left, bytes): (&Departure, Option<&[u8]>),
        stats: &mut FlowStats,
        window: &Window,
    ) {
        let (packet, at) = (&left.packet, left.at);
        let is_stream = self.is_stream();
        let way = usize::from(packet.note.back);
        let direction = &mut self.directions[way];
        let stats = if way == 1 { &mut direction.arrived } else { stats };
        let sent = first_sent(packet, left.extra.as_ref());
        let is_fresh = !packet.note.again() && packet.payload > 0 && sent != Time::MAX;
        stats.arrive(at, packet, sent, is_fresh, window);
        if !is_stream {
            stats.deliver(at, u64::from(packet.payload), window);
        }
        if packet.payload > 0 {
            direction.live_until(at);
        }
        let other = 1 - way;
        if is_stream
            && let Some(wire) = bytes.and_then(acknowledged_by)
            && let Some(sent) = self.sides[other].time_of(wire)
        {
            let rtt = Span(at.0.saturating_sub(sent.0));
            let direction = &mut self.directions[other];
            direction.seen = (direction.seen.0 + 1, direction.seen.1 + rtt.0);
            if window.contains(at) {
                direction.rtt.add(rtt);
            }
        }
    }
}

/// What helpers see in a segment from the sink.
fn kind_of_answer(tcp: &Tcp, payload: u16, advances: bool) -> Kind {
    match (tcp.flags.syn, tcp.flags.fin) {
        (true, _) => Kind::SynAck,
        (_, true) => Kind::FinAck,
        // A segment with data is no duplicate ACK (RFC 5681 section 2).
        _ if payload > 0 && !advances => Kind::Data,
        _ => Kind::Ack,
    }
}
