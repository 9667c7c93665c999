//! A radio channel of IEEE 802.11 as one device: stations and access points contend for it by the distributed
//! coordination function (802.11-2016 section 10.3), profile `std` or as ns-2 does it.
//!
//! The medium stands at the head of every direction of every radio link (see [`plan`]); each direction is a port. A
//! packet that enters a port waits in the queue of its station, contends, and leaves behind the link when the other
//! station has received it. Who hears whom follows from the received power of each pair: hidden terminals need no code.
//!
//! - `air.rs`: frames in the air, and what becomes of them at each receiver; `access.rs`: what a station sends and
//!   when.
//! - `agenda.rs`: who acts next.
//! - `station.rs`: one station's state and its backoff; `resting.rs`: those that only overhear.
//! - `rules.rs`: the constants of a cell, with the times that follow from them.
//! - `mode/`: PPDUs of 802.11n, ac and ax;
//! - `phy.rs`: generations of the radio as tables; `errors.rs`: what noise does to frames.
//! - `exchange.rs`: what stations of 802.11n and later send: aggregates, by category; `burst.rs`: what arrives of them;
//!   `edca.rs`, `aggregate.rs`, `reorder.rs`: the state of each end, as data.
//! - `limits.rs`: what a driver may hold of queues that each receiver has for itself.
//! - `roaming.rs`: links that come and go with a host.
//! - `dsdv.rs`: tables of stations that find their routes themselves; `routes.rs`: updates on the air, and packets sent
//!   on by tables.
//! - `rate_adaptation.rs`: which rate an attempt uses; `minstrel_ht.rs`: one of them.
//! - `fading.rs`: gains of pairs that change with time.
//! - `counters.rs`: what is counted; `frame.rs`: names of frames.
//!
//! A frame is two events: it starts, and it ends at all who hear it, one time of flight later than at the sender. The
//! time of flight is one for the whole medium, so that all who count slots count them in step. A station whose
//! countdown ends before it can have heard the frame of another starts as well, and both collide.

mod access;
mod agenda;
mod aggregate;
mod air;
mod burst;
pub mod counters;
pub mod dsdv;
pub mod edca;
pub(crate) mod errors;
mod exchange;
pub mod fading;
pub mod frame;
mod limits;
pub mod minstrel_ht;
pub mod mode;
pub mod phy;
pub mod plan;
pub mod rate_adaptation;
mod reorder;
mod resting;
mod roaming;
mod routes;
mod rules;
mod station;

use lasthop_core::packet::{Kind, NONE};
use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use super::arq::Listener;
use super::{Crossing, Cx, DeviceId, Effect, Element, Handed, Parcel};
use crate::channel::Air;
use crate::plan::{Direction, ErrorModel, LinkPlan, OutageSchedule};
use crate::queue::{KnownFlows, Served, Shed, Waiting};
use crate::routing::DirectionId;
use crate::trace::Frames;
use agenda::Agenda;
use counters::RadioStats;
use edca::{CATEGORIES, Category};
use errors::ErrorTable;
use exchange::{Agreement, Exchange};
use fading::Fader;
use frame::FrameKind;
use mode::Format;
use plan::{Discards, MacPlan, MediumPlan};
use rate_adaptation::{Choices, RateChoice, RatePlan};
use reorder::Arrived;
use resting::Resting;
use roaming::{Absence, Change};
use routes::Routing;
use rules::Rules;
use station::{NEVER, NO_PORT, Station};

/// How often the powers of stations that move are computed anew.
const REFRESH: Span = Span::from_millis(10);

/// A frame on the air; a station has one at most.
#[derive(Clone, Copy, Debug)]
struct OnAir {
    kind: FrameKind,
    to: u16,
    rate: usize,
    bytes: u32,
    /// How long the medium is reserved behind it.
    nav: Span,
    sequence: u16,
    retry: bool,
    start: Time,
    /// A PPDU of 802.11n or later, with at least one MPDU; the sender's exchange says which.
    burst: bool,
}

/// One direction between two stations.
#[derive(Clone, Debug)]
struct Port {
    direction: DirectionId,
    from: u16,
    to: u16,
    rate: RateChoice,
    /// What that was at the start, if its host comes and goes.
    fresh: Option<Box<RateChoice>>,
    /// Index of the mode of the last aggregate.
    last_mode: u16,
    stats: RadioStats,
    /// Since the last sample of the series, if there is one.
    interval: Option<Box<RadioStats>>,
    /// MSDUs received since the last estimate of what is missing.
    received_since: u64,
    /// Those who are told of it, and how long after.
    estimates: Vec<(u32, Span)>,
    /// Those who listen to what the sending station does, by flow.
    listeners: Vec<Listener>,
    /// A device of the sending station that is told what has been acknowledged, or [`NONE`].
    agent: DeviceId,
    absence: Absence,
}

/// A station in range of another.
#[derive(Clone, Copy, Debug)]
struct Hearer {
    station: u16,
    power: f64,
    /// The medium is busy for it, and not only noisier.
    senses: bool,
}

/// The medium with its stations.
#[derive(Clone, Debug)]
pub(crate) struct Medium {
    plan: Box<MediumPlan>,
    /// By cell.
    rules: Vec<Rules>,
    stations: Vec<Station>,
    ports: Vec<Port>,
    /// The frame of each station that transmits.
    air: Vec<Option<OnAir>>,
    /// Stations that transmit.
    transmitting: Vec<u16>,
    /// The only one that transmits, if no other has done so during its frame: what those who hear it are locked on is
    /// not written down then.
    lone: Option<u16>,
    /// Ends of frames by station, then what each station does next, then the next estimate of what is missing, the next
    /// link that comes or goes, and what tables do next.
    agenda: Agenda,
    /// Who hears each station.
    hearers: Vec<Vec<Hearer>>,
    /// Every station senses every other.
    together: bool,
    /// Those that have nothing to send, if `together`.
    resting: Resting,
    /// All who hear a station at all can read it, as long as nothing disturbs them.
    clear: Vec<bool>,
    /// Who reads nothing of what came with 802.11n, and whether there is one.
    older: Vec<bool>,
    mixed: bool,
    /// Received power by sender and receiver.
    powers: Vec<f64>,
    /// Shadowing of each pair, as a ratio.
    shadows: Vec<f64>,
    /// By sender and receiver, the same both ways, if gains change.
    faders: Vec<Fader>,
    /// The port from one station to another, by both.
    between: Vec<u16>,
    /// What the air does to frames of pairs without a link of their own.
    others: Vec<Option<Box<Air>>>,
    /// Port by place on a path.
    places: Vec<u16>,
    /// By place the one before it at which the path may turn; `NONE` where it cannot.
    turns: Vec<u32>,
    /// Whether hosts leave and arrive, and when, the next last.
    roams: bool,
    changes: Vec<Change>,
    /// How stations find their routes, if they do.
    routing: Option<Box<Routing>>,
    /// Both ends of BlockAck agreements, by port and category; none where frames are not aggregated.
    agreements: Vec<[Agreement; CATEGORIES]>,
    /// Category of each flow's packets by cell; best effort beyond the end.
    categories: Vec<Vec<u8>>,
    /// PPDUs with aggregates so far.
    bursts: u32,
    /// What goes up from a reorder buffer.
    up: Vec<Arrived>,
    /// Random numbers of frame errors by pair, if noise makes any.
    luck: Vec<Stream>,
    table: Option<ErrorTable>,
    /// No error model, no outage and no noise: collisions alone spoil frames.
    flawless: bool,
    moves: bool,
    refreshed: Time,
    shed: Vec<Shed>,
    /// Frames that are recorded.
    traced: Frames,
    /// Index of the channel in the plan.
    number: u32,
}

impl Medium {
    /// The medium of a plan. `links` are the links of the whole network; `duration` bounds random outages.
    pub(crate) fn new(plan: &MediumPlan, links: &[LinkPlan], (seed, duration): (u64, Span)) -> Medium {
        let count = plan.stations.len();
        let mut stations: Vec<Station> = Vec::with_capacity(count);
        for station in &plan.stations {
            let mac = &plan.macs[station.mac];
            let beacon =
                mac.beacon.filter(|_| station.access_point).map_or(NEVER, |every| Time::ZERO + every);
            let slots = Stream::new(seed, &format!("backoff of {}", station.name));
            stations.push(Station::new((station.mac, mac.cw_min), beacon, slots));
        }
        let mut medium = Medium {
            rules: plan.macs.iter().map(Rules::new).collect(),
            table: plan.noise.map(|_| ErrorTable::new(plan.macs[0].phy)),
            flawless: false,
            moves: plan.stations.iter().any(|station| station.track.moves()),
            plan: Box::new(plan.clone()),
            stations,
            ports: Vec::with_capacity(2 * plan.links.len()),
            air: vec![None; count],
            transmitting: Vec::new(),
            lone: None,
            agenda: Agenda::new(2 * count + 3),
            hearers: vec![Vec::new(); count],
            together: false,
            resting: Resting::none(count),
            clear: Vec::new(),
            older: plan.stations.iter().map(|station| plan.is_older(station)).collect(),
            mixed: plan.stations.iter().any(|station| plan.is_older(station)),
            powers: vec![0.0; count * count],
            shadows: vec![1.0; count * count],
            faders: Vec::new(),
            between: vec![NO_PORT; count * count],
            others: Vec::new(),
            places: Vec::new(),
            turns: Vec::new(),
            roams: false,
            changes: Vec::new(),
            routing: plan.routing.map(|routing| {
                let names = plan.stations.iter().map(|station| station.name.as_str());
                Box::new(Routing::new(routing, names, seed))
            }),
            agreements: Vec::new(),
            categories: Vec::new(),
            bursts: 0,
            up: Vec::new(),
            luck: Vec::new(),
            refreshed: Time::ZERO,
            shed: Vec::new(),
            traced: Frames::None,
            number: 0,
        };
        for link in &plan.links {
            medium.add_port(links, (link.from, link.to), 2 * link.link as u32, seed);
            medium.add_port(links, (link.to, link.from), 2 * link.link as u32 + 1, seed);
        }
        medium.draw_pairs(links, (seed, duration));
        medium.flawless = plan.noise.is_none()
            && plan.fading.is_none()
            && medium.ports.iter().all(|port| {
                let side = side_of(links, port.direction);
                side.error == ErrorModel::None && side.outages.schedule == OutageSchedule::None
            });
        medium.look_around(Time::ZERO);
        for mac in &plan.macs {
            if let Discards::RateEstimate { interval, .. } = mac.discards {
                let first = medium.agenda.at(2 * count).min(Time::ZERO + interval);
                medium.agenda.set(2 * count, first);
            }
        }
        for station in 0..count {
            medium.note_due(station);
        }
        medium.note_routes_due();
        medium
    }

    /// Adds the port of a direction.
    fn add_port(
        &mut self,
        links: &[LinkPlan],
        (from, to): (usize, usize),
        direction: DirectionId,
        seed: u64,
    ) {
        let side = side_of(links, direction);
        let number = self.ports.len() as u16;
        self.between[from * self.stations.len() + to] = number;
        let station = &mut self.stations[from];
        let mac = &self.plan.macs[station.mac];
        if station.gate.is_none() {
            station.gate = Some(direction);
            let name = format!("queue of {}", self.plan.stations[from].name);
            let queue = Waiting::new(&side.queue.discipline, &name, seed);
            station.exchange = Exchange::new(mac, &queue);
            station.queue = queue;
        }
        let ends = [&self.plan.stations[to], &self.plan.stations[from]];
        let mut rate = ends.iter().find_map(|end| end.rate).map_or(mac.rate, RatePlan::Fixed);
        let (mut first, mut modes) = (0, &[][..]);
        if let Some(aggregation) = &mac.aggregation {
            let own = ends.iter().find_map(|end| end.modes);
            let (start, count) = own.unwrap_or((0, aggregation.common));
            (first, modes) = (start, &aggregation.modes[start..start + count]);
            // A single one is no choice.
            if count == 1 {
                rate = RatePlan::Fixed(start);
            }
            let long = modes.first().is_some_and(|mode| mode.format() == Format::He);
            let window = if long { aggregation.window } else { aggregation.window.min(64) };
            self.agreements.push(std::array::from_fn(|_| Agreement::new(window)));
        }
        let name = format!("{} to {}", self.plan.stations[from].name, self.plan.stations[to].name);
        let rates = usable_rates(mac, side.mtu);
        let choices = Choices { rates: &rates, modes, first, table: self.table.as_ref() };
        self.ports.push(Port {
            direction,
            from: from as u16,
            to: to as u16,
            rate: RateChoice::new(&rate, choices, (&name, seed)),
            fresh: None,
            last_mode: if let RatePlan::Fixed(mode) = rate { mode as u16 } else { first as u16 },
            stats: RadioStats::default(),
            interval: None,
            received_since: 0,
            estimates: Vec::new(),
            listeners: Vec::new(),
            agent: NONE,
            absence: Absence::never(),
        });
        if self.stations[to].inbound == NO_PORT {
            self.stations[to].inbound = number;
        }
    }

    /// Sets up what each pair of stations has of its own: shadowing, and errors of frames.
    fn draw_pairs(&mut self, links: &[LinkPlan], (seed, duration): (u64, Span)) {
        let count = self.stations.len();
        let plan = &self.plan;
        for (from, to) in (0..count).flat_map(|from| (0..count).map(move |to| (from, to))) {
            let (one, other) = (plan.stations[from].name.as_str(), plan.stations[to].name.as_str());
            self.shadows[from * count + to] = plan.shadow(from, to, seed);
            if let Some(fading) = plan.fading {
                let mut stream =
                    Stream::new(seed, &format!("fading of {} and {}", one.min(other), one.max(other)));
                self.faders.push(Fader::new(fading, plan.propagation.wavelength(), &mut stream));
            }
            if plan.noise.is_some() {
                self.luck.push(Stream::new(seed, &format!("noise from {one} at {other}")));
            }
            // Errors are those of the cell that the receiver belongs to, for frames of every station.
            let linked = self.between[from * count + to] != NO_PORT;
            let errors =
                self.ports.get(usize::from(self.stations[to].inbound)).filter(|_| from != to && !linked);
            self.others.push(errors.and_then(|port| {
                let side = side_of(links, port.direction);
                let outages = Direction::plain(side.rate, Span::ZERO).outages;
                let errors = Direction { outages, ..side.clone() };
                Air::new(&errors, &format!("frames from {one} at {other}"), seed, duration)
            }));
        }
    }

    /// Whether its stations send something before they are given a packet.
    pub(crate) fn begins(&self) -> bool {
        self.routing.is_some() || self.stations.iter().any(|station| station.beacon != NEVER)
    }

    /// Its ports: the direction of each.
    pub(crate) fn directions(&self) -> impl Iterator<Item = DirectionId> {
        self.ports.iter().map(|port| port.direction)
    }

    /// See [`Waiting::know_flows`].
    pub(crate) fn know_flows(&mut self, known: &KnownFlows) {
        for station in &mut self.stations {
            station.queue.know_flows(known);
            if let Some(exchange) = &mut station.exchange {
                exchange.functions.list.iter_mut().for_each(|function| function.queue.know_flows(known));
            }
        }
    }

    /// Packets of each flow bear this code point: their category follows from it, cell by cell.
    pub(crate) fn mark_flows(&mut self, marks: &[u8]) {
        let of_cell = |mac: &MacPlan| {
            let Some(plan) = mac.aggregation.as_ref().filter(|_| marks.iter().any(|&mark| mark != 0)) else {
                return Vec::new();
            };
            let category = |&mark: &u8| Category::of_priority(plan.marks.priority(mark)) as u8;
            marks.iter().map(category).collect()
        };
        self.categories = self.plan.macs.iter().map(of_cell).collect();
    }

    /// Tells it which port the place `hop` on a path is, and the place before it at which the path may turn.
    pub(crate) fn note_place(&mut self, hop: u32, port: u32, turn: u32) {
        if port as usize >= self.ports.len() {
            // A packet stands at a station there, and is not yet on a link.
            return;
        }
        let hop = hop as usize;
        if self.places.len() <= hop {
            self.places.resize(hop + 1, NO_PORT);
            self.turns.resize(hop + 1, NONE);
        }
        self.turns[hop] = turn;
        self.places[hop] = port as u16;
    }

    /// What was counted of a direction, if it is one of this medium.
    pub(crate) fn stats(&self, direction: DirectionId) -> Option<&RadioStats> {
        self.ports.iter().find(|port| port.direction == direction).map(|port| &port.stats)
    }

    /// Counts for the series and records frames from now on, as asked.
    pub(crate) fn record(&mut self, number: u32, series: bool, frames: Frames) {
        (self.number, self.traced) = (number, frames);
        for port in &mut self.ports {
            port.interval = series.then(Box::default);
        }
    }

    /// What was counted of each direction since it was last asked.
    pub(crate) fn take_interval(&mut self) -> impl Iterator<Item = (DirectionId, RadioStats)> {
        self.ports.iter_mut().filter_map(|port| {
            let interval = port.interval.as_deref_mut()?;
            Some((port.direction, std::mem::take(interval)))
        })
    }

    /// The rules by which a direction is served.
    fn mac_of(&self, port: &Port) -> &MacPlan {
        &self.plan.macs[self.stations[port.from as usize].mac]
    }

    /// The sender of `flow` listens to what happens to frames of `direction`. At its own station (`local`) it learns of
    /// it at once; elsewhere only by estimates, `told` after the fact.
    pub(crate) fn listen(&mut self, direction: DirectionId, flow: u32, local: bool, told: Span) {
        let Some(port) = self.ports.iter_mut().find(|port| port.direction == direction) else { return };
        let station = &mut self.stations[usize::from(port.from)];
        if matches!(self.plan.macs[station.mac].discards, Discards::RateEstimate { .. })
            && port.estimates.last().is_none_or(|&(last, _)| last != flow)
        {
            port.estimates.push((flow, told));
        }
        if !local {
            return;
        }
        if station.senders.last() != Some(&flow) {
            station.senders.push(flow);
        }
        let from = port.from;
        // Which of its links it uses, a table may decide.
        let any = self.routing.is_some();
        let used = |port: &&mut Port| port.direction == direction || any && port.from == from;
        for port in self.ports.iter_mut().filter(used) {
            if port.listeners.last().is_none_or(|last| last.flow != flow) {
                port.listeners.push(Listener {
                    flow,
                    signals: Some(told),
                    notices: false,
                    last_notice: None,
                });
            }
        }
    }

    /// A device at the near end of `direction` is told which packets the MAC at its far end has.
    pub(crate) fn report_to(&mut self, direction: DirectionId, agent: DeviceId) {
        if let Some(port) = self.ports.iter_mut().find(|port| port.direction == direction) {
            port.agent = agent;
        }
    }

    /// The receiver of `flow` lives at the far end of `direction`, and hears what its MAC throws away.
    pub(crate) fn add_receiver(&mut self, direction: DirectionId, flow: u32) {
        if let Some(port) = self.ports.iter().find(|port| port.direction == direction) {
            let receivers = &mut self.stations[port.to as usize].receivers;
            if receivers.last() != Some(&flow) {
                receivers.push(flow);
            }
        }
    }

    /// The time after which the MAC repeats a frame that carries `bytes`, on average: DIFS, the mean backoff, the frame
    /// and the timeout of its acknowledgement.
    pub(crate) fn link_timeout(&self, direction: DirectionId, flow: u32, bytes: u32) -> Option<(Span, Span)> {
        let port = self.ports.iter().find(|port| port.direction == direction)?;
        let told = port.listeners.iter().find(|listener| listener.flow == flow)?.signals?;
        let mac = self.mac_of(port);
        if let Some(aggregation) = &mac.aggregation {
            return Some((aggregation.link_timeout(mac, bytes), told));
        }
        let rate = match mac.rate {
            RatePlan::Fixed(rate) => rate,
            _ => mac.phy.rates.len() - 1,
        };
        let slots = Span(mac.slot.0 * u64::from(mac.cw_min) / 2);
        let answer = mac.airtime(mac.ack_bytes, mac.answer_rate(rate));
        let frame = mac.airtime(mac.mpdu(bytes), rate);
        Some((mac.difs() + slots + frame + mac.sifs + answer + mac.answer_slack, told))
    }

    /// Lets everything happen that is due.
    fn run(&mut self, cx: &mut Cx<'_>) {
        let count = self.stations.len();
        loop {
            let (at, which) = self.agenda.next();
            if at > cx.now {
                if at != NEVER {
                    cx.wake(at);
                }
                return;
            }
            if which < count {
                self.finish(which, cx);
            } else if which == 2 * count {
                self.estimate(cx);
            } else if which == 2 * count + 1 {
                self.change_link(cx);
            } else if which == 2 * count + 2 {
                self.act_on_routes(cx);
            } else {
                self.act(which - count, cx);
            }
        }
    }

    /// Hands over packets that are still here when the run ends.
    fn keep(&self, held: Vec<(Parcel, Option<Time>)>, cx: &mut Cx<'_>) {
        let window = cx.window;
        for (parcel, started) in held {
            let direction = self.ports[usize::from(self.places[parcel.hop as usize])].direction;
            if started.is_none() {
                cx.link(direction).count_unserved(parcel.since, &window);
            }
            cx.effects.push(Effect::Keep { parcel, crossing: Some(Crossing { direction, started }) });
        }
    }

    /// A packet reaches the link layer of a station.
    fn admit(&mut self, index: usize, parcel: Parcel, cx: &mut Cx<'_>) {
        self.rouse(index);
        let station = &mut self.stations[index];
        let processing = self.plan.macs[station.mac].processing;
        if processing == Span::ZERO {
            self.enqueue(index, parcel, cx);
        } else {
            station.enter(parcel, cx.now + processing);
        }
        self.note_due(index);
    }

    /// A station does what is due.
    fn act(&mut self, index: usize, cx: &mut Cx<'_>) {
        self.rouse(index);
        let now = cx.now;
        let station = &mut self.stations[index];
        if station.answer_at <= now {
            self.answer(index, cx);
        } else if station.timeout <= now {
            self.fail(index, cx);
        } else if station.access <= now {
            self.access(index, cx);
        } else if station.beacon <= now {
            self.beacon(index, cx);
        } else if station.enters <= now
            && let Some(parcel) = station.take_entering()
        {
            self.enqueue(index, parcel, cx);
        } else if station.reorder <= now {
            self.expire(index, cx);
        }
        self.note_due(index);
    }
}

impl Port {
    /// Whether anything is told what becomes of its packets.
    fn is_listened(&self) -> bool {
        !self.listeners.is_empty() || self.agent != NONE
    }

    /// The MAC at the far end has this range of a flow.
    fn tell_agent(&self, flow: u32, range: Option<(u64, u64)>, cx: &mut Cx<'_>) {
        if let Some(range) = range.filter(|_| self.agent != NONE) {
            let handed = Handed::Arrived(range);
            cx.effects.push(Effect::Hand { to: self.agent, flow, handed, at: cx.now });
        }
    }
}

/// What a listening sender is told, and how long after the fact.
fn told(listeners: &[Listener], flow: u32) -> Option<Span> {
    let index = listeners.binary_search_by_key(&flow, |listener| listener.flow).ok()?;
    listeners[index].signals
}

/// The range of the sender's stream that a packet carries, if it goes to the receiver.
fn range_of(parcel: Parcel, cx: &Cx<'_>) -> Option<(u64, u64)> {
    let packet = cx.packets.get(parcel.packet);
    let ends = u64::from(packet.kind == Kind::Syn) + u64::from(packet.kind == Kind::Fin);
    packet.is_forward().then(|| (packet.seq, packet.seq + u64::from(packet.payload) + ends))
}

/// The plan of a direction.
fn side_of(links: &[LinkPlan], direction: DirectionId) -> &Direction {
    let link = &links[direction as usize / 2];
    if direction.is_multiple_of(2) { &link.forward } else { &link.reverse }
}

/// The rates that adaptation may choose among, in ascending order, with the length of a full frame. Where a PHY has
/// OFDM it uses nothing older.
fn usable_rates(mac: &MacPlan, mtu: u32) -> Vec<(usize, Span)> {
    if let Some(aggregation) = &mac.aggregation {
        let timed =
            |(mode, index): (&mode::Mode, usize)| (index, mode.airtime(mac.mpdu(mtu), &aggregation.habits));
        return aggregation.modes.iter().zip(0..).map(timed).collect();
    }
    let modern = mac.phy.rates.iter().any(|rate| rate.modulation.is_ofdm());
    let usable = |&index: &usize| mac.phy.rates[index].modulation.is_ofdm() == modern;
    let timed = |index| (index, mac.airtime(mac.mpdu(mtu), index));
    (0..mac.phy.rates.len()).filter(usable).map(timed).collect()
}

impl Medium {
    /// The direction whose gate guards the queue that packets of `direction` wait in; none where it has its own.
    pub(crate) fn guard_of(&self, direction: DirectionId) -> Option<DirectionId> {
        let port = self.ports.iter().find(|port| port.direction == direction)?;
        let station = usize::from(port.from);
        self.stations[station].gate.filter(|_| !self.has_fair_queues(station))
    }
}

impl Element for Medium {
    fn receive(&mut self, parcel: Parcel, port: u32, cx: &mut Cx<'_>) {
        if self.agenda.next().0 <= cx.now {
            self.run(cx);
        }
        match self.ports.get(port as usize) {
            Some(link) => self.admit(usize::from(link.from), parcel, cx),
            None => self.send_on(port, parcel, cx),
        }
        self.run(cx);
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        self.run(cx);
    }

    /// Transmissions beyond the first of each frame, up to those of frames that are being sent.
    fn repairs(&self) -> Option<u64> {
        let repeated =
            |stats: &RadioStats| stats.attempts.saturating_sub(stats.transmitted_fragments + stats.failed);
        Some(self.ports.iter().map(|port| repeated(&port.stats)).sum())
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        let left: Vec<_> = self.ports.iter_mut().flat_map(|port| port.absence.take()).collect();
        self.keep(left, cx);
        self.close_routes(cx);
        self.close_exchanges(cx);
        for index in 0..self.stations.len() {
            let station = &mut self.stations[index];
            let sent = station.current.take().filter(|msdu| !msdu.delivered);
            let sent =
                sent.and_then(|msdu| Some((msdu.parcel?, (msdu.attempts > 0).then_some(msdu.first_start))));
            let entering = station.entering.drain(..).map(|(_, parcel)| (parcel, None));
            let mut held: Vec<(Parcel, Option<Time>)> = sent.into_iter().chain(entering).collect();
            // The order of service does not matter any more, and neither does what would have been thrown away.
            while let Some(Served { parcel, .. }) = station.queue.pop(Time::ZERO, &mut self.shed) {
                held.push((parcel, None));
            }
            held.extend(self.shed.drain(..).map(|shed| (shed.parcel, None)));
            held.extend(station.returned.drain(..).map(|parcel| (parcel, None)));
            self.keep(held, cx);
        }
    }
}
