//! The network: hosts, datagrams, timers, and the loop that moves time.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use lasthop_core::packet::{Kind, NONE, Note, Packet};
use lasthop_core::random::Stream;
use lasthop_core::time::Time;
use lasthop_net::plan::{FlowPlan, OutsideConfig, Plan, Start, Traffic, Transport};
use lasthop_net::trace::{Recorded, Recording};
use lasthop_net::transport::codec;
use lasthop_net::transport::extra::Extra;
use lasthop_net::transport::outside::{Departure, Loss};
use lasthop_net::world::{Evaluation, World};
use lasthop_sim::datagrams::Store;
use lasthop_sim::scenario::{Format, Scenario};
use lasthop_sim::summary::Summary;
use rustc_hash::FxHashMap;

use crate::fate::{Fate, Kept};
use crate::timers::Timers;
use crate::{Error, Path, Results, SendError};

/// Headers of IP and UDP.
const HEADERS_V4: usize = 28;
const HEADERS_V6: usize = 48;
/// Most pairs of addresses and ports.
const MOST_CONNECTIONS: usize = 1_000_000;

/// A host that was attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub(crate) u32);

impl HostId {
    /// Hosts are numbered from 0, in the order in which they were attached: for bindings to other languages.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The host of a number.
    pub fn from_number(number: u32) -> HostId {
        HostId(number)
    }
}

/// A datagram that was sent. They are numbered from 0, in the order in which they were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatagramId(pub u64);

/// The ECN field of the IP header (RFC 3168 section 5, RFC 9331).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// The transport is not ECN-capable.
    #[default]
    NotEct,
    /// ECN-capable, for L4S: bits 01.
    Ect1,
    /// ECN-capable: bits 10.
    Ect0,
    /// Congestion experienced: bits 11.
    Ce,
}

impl Ecn {
    /// Of the two bits of the header; others are ignored.
    pub fn from_bits(bits: u8) -> Ecn {
        [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(bits & 3)]
    }

    /// The two bits of the header.
    pub fn bits(self) -> u8 {
        self as u8
    }

    /// The flags that a packet of the engine has for it.
    pub fn flags(self) -> u8 {
        match self {
            Ecn::NotEct => codec::Ecn::NotCapable,
            Ecn::Ect1 => codec::Ecn::Capable1,
            Ecn::Ect0 => codec::Ecn::Capable,
            Ecn::Ce => codec::Ecn::Congestion,
        }
        .flags()
    }

    /// What the flags of a packet of the engine say.
    pub fn of_flags(flags: u8) -> Ecn {
        match codec::Ecn::of_flags(flags) {
            codec::Ecn::NotCapable => Ecn::NotEct,
            codec::Ecn::Capable1 => Ecn::Ect1,
            codec::Ecn::Capable => Ecn::Ect0,
            codec::Ecn::Congestion => Ecn::Ce,
        }
    }
}

/// A datagram to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// The port of the sender.
    pub source_port: u16,
    /// Where it goes: an address that a host has, and a port.
    pub to: SocketAddr,
    /// The ECN field.
    pub ecn: Ecn,
    /// When it leaves its host, for transports that hand packets over early; now if `None` or past.
    pub launch: Option<Time>,
    /// What it carries.
    pub data: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// One that is not ECN-capable and leaves at once.
    pub fn new(source_port: u16, to: SocketAddr, data: &'a [u8]) -> Datagram<'a> {
        Datagram { source_port, to, ecn: Ecn::NotEct, launch: None, data }
    }
}

/// A datagram that has arrived.
#[derive(Debug, PartialEq, Eq)]
pub struct Arrival<'a> {
    /// When.
    pub at: Time,
    /// At which host.
    pub host: HostId,
    /// From where.
    pub from: SocketAddr,
    /// To where.
    pub to: SocketAddr,
    /// The ECN field as it arrived.
    pub ecn: Ecn,
    /// Which datagram it is.
    pub id: DatagramId,
    /// How often it had arrived before: not 0 for what the path has doubled.
    pub copy: u32,
    /// What it carries. It is yours to decrypt in place.
    pub data: &'a mut [u8],
}

/// Why [`Network::next_event`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Datagrams have arrived: [`Network::recv`] has them.
    Arrivals,
    /// A timer has fired.
    Timer {
        /// Whose.
        host: HostId,
        /// Which of them.
        token: u64,
    },
    /// Nothing has happened until the time that was given.
    Until,
    /// The run is over.
    End,
}

#[derive(Clone, Debug)]
struct Host {
    node: usize,
    address: IpAddr,
}

/// A datagram on its way: from where to where, at which host that is, and which one it is.
#[derive(Clone, Copy, Debug)]
struct About {
    ends: (SocketAddr, SocketAddr),
    host: u32,
    id: u64,
}

/// One direction of a connection: a flow of the world.
#[derive(Clone, Copy, Debug)]
struct Way {
    flow: u32,
    host: u32,
    mtu: usize,
}

/// A network in simulated time. See the [crate] for what it is for.
///
/// It is [`Clone`]: a copy goes on by itself from where the original stands.
#[derive(Clone, Debug)]
pub struct Network {
    plan: Plan,
    seed: u64,
    recording: Recording,
    world: World,
    hosts: Vec<Host>,
    by_address: BTreeMap<IpAddr, u32>,
    /// Only looked up, never walked through: its order is not that of a run.
    ways: FxHashMap<(SocketAddr, SocketAddr), Way>,
    store: Store<About>,
    timers: Timers,
    sent: u64,
    fates: Option<Vec<Kept>>,
    /// What has left the world, and how much of it has been received.
    departed: Vec<Departure>,
    received: usize,
    /// The datagram that was received last.
    lent: Vec<u8>,
    damage: Option<Damage>,
}

/// What changes the bytes of datagrams that arrive.
#[derive(Clone, Debug)]
struct Damage {
    stream: Stream,
    cut: f64,
    flip: f64,
}

impl Damage {
    fn befall(&mut self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        if self.stream.uniform() < self.cut {
            bytes.truncate(self.stream.below(bytes.len() as u64) as usize);
        }
        if self.stream.uniform() < self.flip && !bytes.is_empty() {
            let bit = self.stream.below(bytes.len() as u64 * 8) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

impl Network {
    /// The network of a path that is written in code.
    pub fn new(path: &Path, seed: u64) -> Result<Network, Error> {
        match path.links_too_many() {
            0 => Network::from_toml(&path.to_toml(), seed),
            more => Err(Error::Links(more)),
        }
    }

    /// The network of a scenario. It needs no flows; those that it has run beside yours.
    pub fn from_toml(text: &str, seed: u64) -> Result<Network, Error> {
        Network::parse(text, Format::Toml, seed)
    }

    /// The same of a scenario in JSON.
    pub fn from_json(text: &str, seed: u64) -> Result<Network, Error> {
        Network::parse(text, Format::Json, seed)
    }

    fn parse(text: &str, format: Format, seed: u64) -> Result<Network, Error> {
        let files = std::path::Path::new("");
        let scenario = Scenario::parse_network(text, format, ("scenario", files))?;
        Network::of_plan(scenario.seeded(seed)?.into_owned().into_plan(), seed)
    }

    /// The network of a scenario's file, TOML or JSON.
    pub fn open(path: impl AsRef<std::path::Path>, seed: u64) -> Result<Network, Error> {
        Network::of_plan(Scenario::load_network(path)?.seeded(seed)?.into_owned().into_plan(), seed)
    }

    fn of_plan(plan: Plan, seed: u64) -> Result<Network, Error> {
        for flow in &plan.flows {
            if flow.class.is_some() {
                return Err(Error::Class { flow: flow.name.clone() });
            }
            let transport = match &flow.transport {
                Transport::Outside(config) => config.name.clone(),
                Transport::Tcp(config) if config.kernel().is_some() => config.name.clone(),
                _ => continue,
            };
            return Err(Error::Transport { flow: flow.name.clone(), transport });
        }
        let recording = Recording::default();
        Ok(Network {
            world: world(&plan, seed, recording),
            seed,
            recording,
            hosts: Vec::new(),
            by_address: BTreeMap::new(),
            ways: FxHashMap::default(),
            store: Store::new(&plan),
            plan,
            timers: Timers::default(),
            sent: 0,
            fates: None,
            departed: Vec::new(),
            received: 0,
            lent: Vec::new(),
            damage: None,
        })
    }

    /// Records series, or every packet on every link, for [`Network::finish`]. Before the first event; what was sent
    /// before that is forgotten.
    #[must_use]
    pub fn record(mut self, recording: Recording) -> Network {
        self.recording = recording;
        self.world = world(&self.plan, self.seed, recording);
        self
    }

    /// Keeps what becomes of each datagram from now on, for [`Network::fate`]: 32 bytes for each.
    pub fn keep_fates(&mut self) {
        self.fates.get_or_insert_default();
    }

    /// From now on, what arrives is damaged: each datagram is cut short with one probability and has one bit flipped
    /// with the other, whatever its path does. For tests of parsers: a checksum of UDP would drop most of such
    /// datagrams. Probabilities below 0 are 0, those above 1 are 1.
    pub fn damage(&mut self, cut: f64, flip: f64) {
        self.damage = Some(Damage { stream: Stream::new(self.seed, "damage"), cut, flip });
    }

    /// Puts a host with this address at a node of the scenario. A node may have several.
    pub fn attach(&mut self, node: &str, address: IpAddr) -> Result<HostId, Error> {
        let Some(number) = self.plan.nodes.iter().position(|name| name == node) else {
            let known = self.plan.nodes.iter().take(8).map(String::as_str).collect::<Vec<_>>().join(", ");
            return Err(Error::NoNode { name: node.to_owned(), known });
        };
        let host = self.hosts.len() as u32;
        if self.by_address.contains_key(&address) {
            return Err(Error::AddressInUse(address));
        }
        self.by_address.insert(address, host);
        self.hosts.push(Host { node: number, address });
        Ok(HostId(host))
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.world.standing().now
    }

    /// When the run ends: the duration of the scenario.
    pub fn end(&self) -> Time {
        Time(self.plan.duration.0)
    }

    /// Randomness for the code of a host: the stream called `name` of this run. Each call begins it anew.
    pub fn entropy(&self, host: HostId, name: &str) -> Stream {
        let address = self.hosts.get(host.0 as usize).map(|host| host.address.to_string());
        Stream::new(self.seed, &format!("{name} of host {}", address.unwrap_or_default()))
    }

    /// Sends a datagram now, or at its launch time.
    pub fn send(&mut self, from: HostId, datagram: Datagram<'_>) -> Result<DatagramId, SendError> {
        let Some(&Host { address: source, .. }) = self.hosts.get(from.0 as usize) else {
            return Err(SendError::UnknownHost(from.0));
        };
        if self.now() >= self.end() {
            return Err(SendError::Over(self.end()));
        }
        let ends = (SocketAddr::new(source, datagram.source_port), datagram.to);
        let way = match self.ways.get(&ends) {
            Some(&way) => way,
            None => self.open_way(from, ends)?,
        };
        let headers = if source.is_ipv6() { HEADERS_V6 } else { HEADERS_V4 };
        let bytes = datagram.data.len() + headers;
        if bytes > way.mtu {
            return Err(SendError::TooLong { bytes: datagram.data.len(), headers, mtu: way.mtu });
        }
        let now = self.now();
        let at = datagram.launch.unwrap_or(now).max(now);
        let ticket = self.store.keep(About { ends, host: way.host, id: self.sent }, datagram.data);
        let packet = Packet {
            seq: self.sent,
            stamp: at,
            extra: NONE,
            bytes: bytes as u16,
            payload: datagram.data.len() as u16,
            kind: Kind::Udp,
            flags: datagram.ecn.flags(),
            note: Note::default(),
            ..Packet::default()
        };
        let extra = Extra { bytes_at: Some(ticket), ..Extra::default() };
        self.world.inject_at(way.flow as usize, packet, Some(extra), at);
        if let Some(fates) = &mut self.fates {
            fates.resize(self.sent as usize, Kept::Unknown);
            fates.push(Kept::UnderWay);
        }
        self.sent += 1;
        Ok(DatagramId(self.sent - 1))
    }

    /// The first datagram from one address and port to another opens a flow of the world.
    fn open_way(&mut self, from: HostId, ends: (SocketAddr, SocketAddr)) -> Result<Way, SendError> {
        let (source, to) = (ends.0.ip(), ends.1.ip());
        if source.is_ipv6() != to.is_ipv6() {
            return Err(SendError::Versions { from: source, to });
        }
        let host = *self.by_address.get(&to).ok_or(SendError::NoHost(ends.1))?;
        if self.ways.len() >= MOST_CONNECTIONS {
            return Err(SendError::TooManyConnections(MOST_CONNECTIONS));
        }
        let (first, last) = (self.hosts[from.0 as usize].node, self.hosts[host as usize].node);
        let name = format!("{} > {}", ends.0, ends.1);
        let is_v6 = source.is_ipv6();
        let header = if is_v6 { HEADERS_V6 } else { HEADERS_V4 };
        let transport = OutsideConfig {
            name: "datagrams".to_owned(),
            header: header as u32,
            datagram: 1500 - header as u32,
            payload: 1500 - header as u32,
            reliable: false,
            stack: None,
        };
        self.plan.flows.push(FlowPlan {
            name,
            source: first,
            sink: last,
            transport: Transport::Outside(Arc::new(transport)),
            traffic: Traffic::ENDLESS,
            start: Start::At(Time::MAX),
            stop: None,
            realtime: None,
            first_path: None,
            part: None,
            reroutes: Vec::new(),
            relay: None,
            exchange: None,
            class: None,
            dscp: 0,
        });
        let joined = (first != last).then(|| self.world.add_flow(&self.plan, self.seed)).flatten();
        let Some((flow, mtu)) = joined else {
            self.plan.flows.pop();
            return Err(SendError::NoPath { from: source, to });
        };
        let way = Way { flow: flow as u32, host, mtu: (mtu as usize).min(usize::from(u16::MAX)) };
        self.ways.insert(ends, way);
        Ok(way)
    }

    /// Sets the timer `token` of a host, in place of what it was set to; `None` takes it away. A time that has passed
    /// is now.
    pub fn set_timer(&mut self, host: HostId, token: u64, at: Option<Time>) {
        let now = self.now();
        self.timers.set(host.0, token, at.map(|at| at.max(now)));
    }

    /// Moves time to the next instant at which something happens outside: arrivals, a timer, `until`, or the end. What
    /// has arrived and was not received is reported again.
    pub fn next_event(&mut self, until: Time) -> Wake {
        if self.received < self.departed.len() {
            return Wake::Arrivals;
        }
        self.settle();
        let end = self.end();
        let timer = self.timers.next();
        let limit = until.min(end).min(timer.unwrap_or(Time::MAX));
        if self.world.step_until_departure(limit) {
            self.departed.clear();
            self.received = 0;
            self.world.depart(&mut self.departed);
            return Wake::Arrivals;
        }
        // Also when it is asked to stop before: a loop that waits for the end sees it.
        if limit >= end || self.now() >= end {
            return Wake::End;
        }
        match self.timers.take(limit) {
            Some((host, token)) => Wake::Timer { host: HostId(host), token },
            None => Wake::Until,
        }
    }

    /// The same for programs that want to stop at a distance from now.
    pub fn next_event_within(&mut self, span: Duration) -> Wake {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        self.next_event(Time(self.now().0.saturating_add(nanos)))
    }

    /// Frees what is needed no longer, and notes what was lost.
    fn settle(&mut self) {
        let fates = &mut self.fates;
        self.store.settle(&mut self.world, |slot| {
            if let Some(fate) = fates.as_mut().and_then(|fates| fates.get_mut(slot.about.id as usize))
                && *fate == Kept::UnderWay
                && let Some(Loss { at, cause, direction, .. }) = slot.lost
            {
                *fate = Kept::Lost { at, cause, direction };
            }
        });
    }

    /// Takes the next datagram that has arrived at this instant; `None` when there is no more. Its bytes are those that
    /// were sent, unless [`Network::damage`] was asked for.
    pub fn recv(&mut self) -> Option<Arrival<'_>> {
        loop {
            let departure = *self.departed.get(self.received)?;
            self.received += 1;
            let Some(ticket) = departure.extra.and_then(|extra| extra.bytes_at) else { continue };
            let Departure { flow, at, packet, .. } = departure;
            let window = self.world.network.window();
            let stats = &mut self.world.network.flows[flow as usize];
            let slot = self.store.get_mut(ticket);
            let copy = slot.copies;
            slot.copies += 1;
            if copy == 0 {
                stats.deliver(at, u64::from(packet.payload), &window);
            }
            stats.arrive(at, &packet, packet.stamp, copy == 0, &window);
            let ecn = Ecn::of_flags(packet.flags);
            if let Some(fate) = self.fates.as_mut().and_then(|fates| fates.get_mut(slot.about.id as usize)) {
                *fate = match *fate {
                    Kept::Unknown => Kept::Unknown,
                    Kept::Delivered { at, ecn, copies } => Kept::Delivered { at, ecn, copies: copies + 1 },
                    _ => Kept::Delivered { at, ecn, copies: 1 },
                };
            }
            // A copy of it may come later: the receiver changes its own.
            self.lent.clear();
            self.lent.extend_from_slice(&slot.bytes);
            if let Some(damage) = &mut self.damage {
                damage.befall(&mut self.lent);
            }
            let About { ends: (from, to), host, id } = slot.about;
            let (host, id) = (HostId(host), DatagramId(id));
            return Some(Arrival { at, host, from, to, ecn, id, copy, data: &mut self.lent });
        }
    }

    /// What has become of a datagram so far; `None` if it was sent before [`Network::keep_fates`].
    pub fn fate(&mut self, id: DatagramId) -> Option<Fate> {
        if self.received >= self.departed.len() {
            self.settle();
        }
        let now = self.now();
        let kept = *self.fates.as_ref()?.get(usize::try_from(id.0).ok()?)?;
        Some(match kept {
            Kept::Unknown => return None,
            Kept::Delivered { at, ecn, copies } => Fate::Delivered { at, ecn, copies },
            Kept::Lost { at, cause, direction } if at <= now => {
                let name = |direction: u32| self.plan.links[direction as usize / 2].direction_name(direction);
                Fate::Lost { at, cause, link: direction.map(name) }
            }
            Kept::UnderWay | Kept::Lost { .. } => Fate::UnderWay,
        })
    }

    /// Datagrams whose bytes are kept, because they are on their way or have just arrived.
    pub fn under_way(&self) -> usize {
        self.store.under_way()
    }

    /// Ends the run now and returns what it measured. Rates are over the time from the scenario's warm-up to now.
    pub fn finish(mut self) -> Results {
        let now = self.now();
        self.world.cut_short();
        self.world.finish();
        self.plan.duration = lasthop_core::time::Span(now.0.max(self.plan.warmup.0 + 1));
        let mut recorded = Recorded::default();
        // Writing into memory cannot fail.
        let _ = self.world.hand_over(&mut recorded);
        let summary = Summary::new(&self.plan, self.seed, &self.world, Duration::ZERO, Duration::ZERO);
        Results { summary, recorded, plan: self.plan, is_traced: self.recording.trace }
    }
}

fn world(plan: &Plan, seed: u64, recording: Recording) -> World {
    let mut world = World::evaluated(plan, seed, recording, Evaluation::Open);
    world.track_tickets();
    world
}
