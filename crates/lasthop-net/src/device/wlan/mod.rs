//! A radio channel of IEEE 802.11 as one device: stations and access points contend for it by the distributed
//! coordination function (802.11-2016 section 10.3), profile `std` or as ns-2 does it.
//!
//! The medium stands at the head of every direction of every radio link (see [`plan`]); each direction is a port. A
//! packet that enters a port waits in the queue of its station, contends, and leaves behind the link when the other
//! station has received it. Who hears whom follows from the received power of each pair: hidden terminals need no code.
//!
//! - `station.rs`: one station's state and its backoff.
//! - `rules.rs`: the constants of a cell, with the times that follow from them.
//! - `phy.rs`: generations of the radio as tables; `errors.rs`: what noise does to frames.
//! - `rate_adaptation.rs`: which rate an attempt uses.
//! - `counters.rs`: what is counted.
//!
//! A frame is two events: it starts, and it ends at all who hear it, one time of flight later than at the sender. The
//! time of flight is one for the whole medium, so that all who count slots count them in step. A station whose
//! countdown ends before it can have heard the frame of another starts as well, and both collide.

pub mod counters;
pub(crate) mod errors;
pub mod phy;
pub mod plan;
pub mod rate_adaptation;
mod rules;
mod station;

use lasthop_cc::Signal;
use lasthop_core::packet::{Cause, Kind};
use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use super::arq::{Listener, mark};
use super::{Crossing, Cx, Effect, Element, Parcel};
use crate::channel::{Air, Frame};
use crate::plan::{Direction, ErrorPosition, LinkPlan};
use crate::propagation::{Fading, dbm, decibels, ratio};
use crate::queue::{Arrival, Served, Service, Shed, Verdict, Waiting};
use crate::routing::DirectionId;
use counters::RadioStats;
use errors::ErrorTable;
use plan::{Discards, Interference, MacPlan, MediumPlan};
use rate_adaptation::{RateAdaptation, RateChoice, RatePlan};
use rules::Rules;
use station::{Answer, Awaited, EVERYBODY, Lock, Msdu, NEVER, NO_PORT, Station};

/// How often the powers of stations that move are computed anew.
const REFRESH: Span = Span::from_millis(10);

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameKind {
    Data,
    Ack,
    Cts,
    Rts,
    Beacon,
}

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
}

/// One direction between two stations.
#[derive(Clone, Debug)]
struct Port {
    direction: DirectionId,
    from: u16,
    to: u16,
    rate: RateChoice,
    stats: RadioStats,
    /// MSDUs received since the last estimate of what is missing.
    received_since: u64,
    /// Those who are told of it, and how long after.
    estimates: Vec<(u32, Span)>,
    /// Those who listen to what the sending station does, by flow.
    listeners: Vec<Listener>,
}

/// Somebody who hears a station.
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
    /// Ends of frames by station, then what each station does next, then the next estimate of what is missing.
    due: Vec<Time>,
    /// Who hears each station.
    hearers: Vec<Vec<Hearer>>,
    /// Received power by sender and receiver.
    powers: Vec<f64>,
    /// Shadowing of each pair, as a ratio.
    shadows: Vec<f64>,
    /// The port from one station to another, by both.
    between: Vec<u16>,
    /// What the air does to frames of pairs without a link of their own.
    others: Vec<Option<Box<Air>>>,
    /// Port by place on a path.
    places: Vec<u16>,
    /// Random numbers of frame errors by pair, if noise makes any.
    luck: Vec<Stream>,
    table: Option<ErrorTable>,
    moves: bool,
    refreshed: Time,
    shed: Vec<Shed>,
}

/// What became of a frame at a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reception {
    Good,
    TooWeak,
    Collided,
    Corrupt,
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
            stations.push(Station::new((station.mac, mac.cw_min), beacon, slots, count));
        }
        let mut medium = Medium {
            rules: plan.macs.iter().map(Rules::new).collect(),
            table: plan.noise.map(|_| ErrorTable::new(plan.macs[0].phy)),
            moves: plan.stations.iter().any(|station| station.track.moves()),
            plan: Box::new(plan.clone()),
            stations,
            ports: Vec::with_capacity(2 * plan.links.len()),
            air: vec![None; count],
            transmitting: Vec::new(),
            due: vec![NEVER; 2 * count + 1],
            hearers: vec![Vec::new(); count],
            powers: vec![0.0; count * count],
            shadows: vec![1.0; count * count],
            between: vec![NO_PORT; count * count],
            others: Vec::new(),
            places: Vec::new(),
            luck: Vec::new(),
            refreshed: Time::ZERO,
            shed: Vec::new(),
        };
        for link in &plan.links {
            medium.add_port(links, (link.from, link.to), 2 * link.link as u32, seed);
            medium.add_port(links, (link.to, link.from), 2 * link.link as u32 + 1, seed);
        }
        medium.draw_pairs(links, (seed, duration));
        medium.look_around(Time::ZERO);
        for mac in &plan.macs {
            if let Discards::RateEstimate { interval, .. } = mac.discards {
                medium.due[2 * count] = medium.due[2 * count].min(Time::ZERO + interval);
            }
        }
        for station in 0..count {
            medium.note_due(station);
        }
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
        if station.gate.is_none() {
            station.gate = Some(direction);
            let name = format!("queue of {}", self.plan.stations[from].name);
            station.queue = Waiting::new(&side.queue.discipline, &name, seed);
        }
        let mac = &self.plan.macs[station.mac];
        let name = format!("{} to {}", self.plan.stations[from].name, self.plan.stations[to].name);
        self.ports.push(Port {
            direction,
            from: from as u16,
            to: to as u16,
            rate: RateChoice::new(&mac.rate, &usable_rates(mac, side.mtu), (&name, seed)),
            stats: RadioStats::default(),
            received_since: 0,
            estimates: Vec::new(),
            listeners: Vec::new(),
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
            if let Fading::LogDistance { shadowing, .. } = plan.propagation.fading
                && shadowing > 0.0
                && from != to
            {
                // The same both ways, whatever other stations there are.
                let name = format!("shadowing of {} and {}", one.min(other), one.max(other));
                self.shadows[from * count + to] = ratio(shadowing * normal(&mut Stream::new(seed, &name)));
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

    /// Its ports: the direction of each.
    pub(crate) fn directions(&self) -> impl Iterator<Item = DirectionId> {
        self.ports.iter().map(|port| port.direction)
    }

    /// Tells it which port the place `hop` on a path is.
    pub(crate) fn note_place(&mut self, hop: u32, port: u32) {
        let hop = hop as usize;
        if self.places.len() <= hop {
            self.places.resize(hop + 1, NO_PORT);
        }
        self.places[hop] = port as u16;
    }

    /// What was counted of a direction, if it is one of this medium.
    pub(crate) fn stats(&self, direction: DirectionId) -> Option<&RadioStats> {
        self.ports.iter().find(|port| port.direction == direction).map(|port| &port.stats)
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
        if matches!(self.plan.macs[station.mac].discards, Discards::RateEstimate { .. }) {
            port.estimates.push((flow, told));
        }
        if local {
            port.listeners.push(Listener { flow, signals: Some(told), notices: false, last_notice: None });
            station.senders.push(flow);
        }
    }

    /// The receiver of `flow` lives at the far end of `direction`, and hears what its MAC throws away.
    pub(crate) fn add_receiver(&mut self, direction: DirectionId, flow: u32) {
        if let Some(port) = self.ports.iter().find(|port| port.direction == direction) {
            self.stations[port.to as usize].receivers.push(flow);
        }
    }

    /// The time after which the MAC repeats a frame that carries `bytes`, on average: DIFS, the mean backoff, the frame
    /// and the timeout of its acknowledgement.
    pub(crate) fn link_timeout(&self, direction: DirectionId, flow: u32, bytes: u32) -> Option<(Span, Span)> {
        let port = self.ports.iter().find(|port| port.direction == direction)?;
        let told = port.listeners.iter().find(|listener| listener.flow == flow)?.signals?;
        let mac = self.mac_of(port);
        let rate = match mac.rate {
            RatePlan::Fixed(rate) => rate,
            _ => mac.phy.rates.len() - 1,
        };
        let slots = Span(mac.slot.0 * u64::from(mac.cw_min) / 2);
        let answer = mac.airtime(mac.ack_bytes, mac.answer_rate(rate));
        let frame = mac.airtime(mac.mpdu(bytes), rate);
        Some((mac.difs() + slots + frame + mac.sifs + answer + mac.answer_slack, told))
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Who hears whom

    /// Computes the powers of all pairs.
    fn look_around(&mut self, now: Time) {
        let plan = &self.plan;
        let count = plan.stations.len();
        self.refreshed = now;
        let places: Vec<_> = plan.stations.iter().map(|station| station.track.at(now)).collect();
        // Weaker frames than these add nothing to what is there anyway.
        let least = match plan.interference {
            Interference::Pairwise => plan.sense_threshold,
            Interference::Summed => plan.noise.map_or(plan.sense_threshold / 100.0, |noise| noise / 10.0),
        };
        for from in 0..count {
            self.hearers[from].clear();
            for to in 0..count {
                let index = from * count + to;
                let power =
                    plan.propagation.received(places[from].distance(places[to])) * self.shadows[index];
                self.powers[index] = power;
                let senses = power >= plan.sense_threshold;
                if from != to && (senses || power >= least) {
                    self.hearers[from].push(Hearer { station: to as u16, power, senses });
                }
            }
        }
    }

    fn power(&self, from: u16, to: u16) -> f64 {
        self.powers[from as usize * self.stations.len() + to as usize]
    }

    /// The interference at `station` of all who transmit, but for `wanted`.
    fn interference(&self, station: u16, wanted: u16) -> f64 {
        let powers = self.transmitting.iter().filter(|&&from| from != wanted && from != station);
        let powers = powers.map(|&from| self.power(from, station));
        match self.plan.interference {
            Interference::Pairwise => {
                let sensed = powers.filter(|&power| power >= self.plan.sense_threshold);
                sensed.fold(0.0, f64::max)
            }
            Interference::Summed => powers.sum(),
        }
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Frames

    /// Notes when a station acts next.
    fn note_due(&mut self, station: usize) {
        let count = self.stations.len();
        self.due[count + station] = self.stations[station].due();
    }

    /// A station starts to transmit.
    fn transmit(
        &mut self,
        from: usize,
        kind: FrameKind,
        (to, rate, bytes, nav): (u16, usize, u32, Span),
        now: Time,
    ) -> Time {
        // Who moves is heard from elsewhere; not while somebody transmits, so that every frame ends as it began.
        if self.moves && self.transmitting.is_empty() && now.since(self.refreshed) >= REFRESH {
            self.look_around(now);
        }
        let flight = self.plan.flight;
        let station = &mut self.stations[from];
        let done = now + self.rules[station.mac].plan.airtime(bytes, rate);
        let end = done + flight;
        let (sequence, retry) =
            station.current.as_ref().map_or((0, false), |msdu| (msdu.sequence, msdu.failures > 0));
        debug_assert!(!station.sending, "one frame at a time");
        station.sending = true;
        station.lock = None;
        station.access = NEVER;
        self.air[from] = Some(OnAir { kind, to, rate, bytes, nav, sequence, retry, start: now });
        self.due[from] = end;
        self.transmitting.push(from as u16);
        let heard = now + flight;
        let hearers = std::mem::take(&mut self.hearers[from]);
        for &Hearer { station: index, power, senses } in &hearers {
            self.hear_start(index, from as u16, (power, senses), (heard, end));
        }
        self.hearers[from] = hearers;
        done
    }

    /// A station begins to hear a frame.
    #[inline]
    fn hear_start(
        &mut self,
        index: u16,
        from: u16,
        (power, senses): (f64, bool),
        (heard, end): (Time, Time),
    ) {
        let plan = &self.plan;
        let station = &mut self.stations[index as usize];
        if senses {
            station.sensed += 1;
            if station.access != NEVER && station.access > heard {
                station.pause(&self.rules[station.mac], heard);
                self.due[self.hearers.len() + index as usize] = station.due();
            }
        }
        if station.sending {
            return;
        }
        let Some(lock) = &mut station.lock else {
            if senses {
                let alone = self.transmitting.len() == 1;
                let interference = if alone { 0.0 } else { self.interference(index, from) };
                let lock = Lock { from, power, interference, until: end, lost: false };
                self.stations[index as usize].lock = Some(lock);
            }
            return;
        };
        let captures = plan.capture;
        if plan.message_in_message && power >= lock.power * captures {
            let interference = self.interference(index, from);
            self.stations[index as usize].lock =
                Some(Lock { from, power, interference, until: end, lost: false });
            return;
        }
        let wanted = lock.from;
        let present = match plan.interference {
            Interference::Pairwise => power,
            Interference::Summed => self.interference(index, wanted),
        };
        let Some(lock) = &mut self.stations[index as usize].lock else { return };
        lock.interference = lock.interference.max(present);
        let survives = plan.noise.is_some() || lock.power >= present * captures;
        let until = lock.until;
        if survives {
            let station = &mut self.stations[index as usize];
            let rules = &self.rules[station.mac];
            // Who is about to send, before it can have heard anything, hears the rest of neither.
            if rules.plan.eifs_as_nav && senses && station.access == NEVER {
                // What it has drowned out keeps it quiet as if it had lost it (ns-2).
                station.nav = station.nav.max(end + rules.eifs);
            }
        } else {
            lock.lost = true;
            // The longer of two frames that are lost keeps the receiver occupied.
            if senses && end > until {
                *lock = Lock { from, power, interference: present, until: end, lost: true };
            }
        }
    }

    /// The frame of `from` ends for all who hear it.
    fn finish(&mut self, from: usize, cx: &mut Cx<'_>) {
        let now = cx.now;
        self.due[from] = NEVER;
        let Some(frame) = self.air[from].take() else { return };
        if let Some(place) = self.transmitting.iter().position(|&station| usize::from(station) == from) {
            self.transmitting.swap_remove(place);
        }
        let station = &mut self.stations[from];
        station.sending = false;
        if station.sensed == 0 {
            station.idle_since = now - self.plan.flight;
        }
        let hearers = std::mem::take(&mut self.hearers[from]);
        for hearer in &hearers {
            self.hear_end(hearer, from as u16, &frame, cx);
        }
        self.hearers[from] = hearers;
        self.after_own_frame(from, &frame, cx);
    }

    /// What a station does when its own frame is over.
    fn after_own_frame(&mut self, from: usize, frame: &OnAir, cx: &mut Cx<'_>) {
        let station = &mut self.stations[from];
        match (frame.kind, frame.to) {
            (FrameKind::Cts, EVERYBODY) => {
                // It has made room for its own data.
                station.answer = Answer::Data;
                station.answer_at = cx.now - self.plan.flight + self.rules[station.mac].sifs;
            }
            (FrameKind::Beacon, _) => {
                self.complete(from, cx.now);
                self.fetch(from, cx);
                let station = &mut self.stations[from];
                station.reschedule(&self.rules[station.mac], cx.now);
            }
            _ => station.reschedule(&self.rules[station.mac], cx.now),
        }
        self.note_due(from);
    }

    /// A frame ends at one who hears it.
    #[inline]
    fn hear_end(&mut self, hearer: &Hearer, from: u16, frame: &OnAir, cx: &mut Cx<'_>) {
        let index = hearer.station as usize;
        let now = cx.now;
        let station = &mut self.stations[index];
        let locked = station.lock.filter(|lock| lock.from == from);
        if hearer.senses {
            station.sensed -= 1;
        }
        if let Some(lock) = locked {
            station.lock = None;
            let outcome = self.judge(hearer.station, from, &lock, frame, cx);
            if outcome == Reception::Good {
                self.stations[index].eifs = false;
                self.receive_frame(hearer.station, from, lock.power, frame, cx);
            } else {
                self.miss_frame(hearer.station, from, outcome, frame, cx);
            }
        }
        let station = &mut self.stations[index];
        if hearer.senses && station.sensed == 0 && !station.sending {
            station.idle_since = now;
            station.reschedule(&self.rules[station.mac], now);
            self.due[self.hearers.len() + index] = station.due();
        }
    }

    /// What becomes of a frame at a receiver that was locked on it.
    fn judge(&mut self, at: u16, from: u16, lock: &Lock, frame: &OnAir, cx: &mut Cx<'_>) -> Reception {
        let plan = &self.plan;
        let count = self.stations.len();
        let pair = usize::from(from) * count + usize::from(at);
        // The error model judges every frame that the receiver is locked on, so that a collision does not shift the
        // losses after it.
        let (start, end, bytes) = (frame.start, cx.now, frame.bytes);
        let corrupt = match self.between[pair] {
            NO_PORT => self.others[pair].as_mut().is_some_and(|air| {
                air.corrupts(ErrorPosition::AfterTransmission, &Frame { start, end, bytes })
            }),
            port => {
                let direction = self.ports[port as usize].direction;
                cx.link(direction).judge_attempt(start, end, bytes).is_some()
            }
        };
        if let (Some(noise), Some(table)) = (plan.noise, &self.table) {
            if lock.power < plan.receive_threshold {
                return Reception::TooWeak;
            }
            if lock.lost {
                return Reception::Collided;
            }
            let sinr = decibels(lock.power / (noise + lock.interference));
            let mac = &plan.macs[self.stations[usize::from(from)].mac];
            let loss = table.loss(mac.phy, frame.rate, frame.bytes, sinr);
            if self.luck[pair].uniform() < loss {
                return if lock.interference > noise { Reception::Collided } else { Reception::Corrupt };
            }
        } else {
            if lock.power < plan.receive_threshold {
                return Reception::TooWeak;
            }
            if lock.lost || lock.power < lock.interference * plan.capture {
                return Reception::Collided;
            }
        }
        if corrupt { Reception::Corrupt } else { Reception::Good }
    }

    /// The port whose counters take what a station hears from another.
    fn heard_port(&self, at: u16, from: u16) -> u16 {
        match self.between[usize::from(from) * self.stations.len() + usize::from(at)] {
            NO_PORT => self.stations[usize::from(at)].inbound,
            port => port,
        }
    }

    /// A station could not read a frame.
    fn miss_frame(&mut self, at: u16, from: u16, outcome: Reception, frame: &OnAir, cx: &mut Cx<'_>) {
        let now = cx.now;
        let station = &mut self.stations[usize::from(at)];
        let rules = &self.rules[station.mac];
        if rules.plan.eifs_as_nav {
            station.nav = station.nav.max(now + rules.eifs);
        } else {
            station.eifs = true;
        }
        let discards = rules.plan.discards;
        let port = self.heard_port(at, from);
        if let Some(port) = self.ports.get_mut(usize::from(port))
            && cx.window.contains(now)
        {
            port.stats.fcs_errors += 1;
            port.stats.collisions += u64::from(outcome == Reception::Collided);
            port.stats.too_weak += u64::from(outcome == Reception::TooWeak);
        }
        if discards != Discards::Received || outcome == Reception::TooWeak {
            return;
        }
        if !self.plan.oracle {
            let flows = self.stations[usize::from(at)].receivers.iter();
            cx.effects.extend(flows.map(|&flow| Effect::Hear { flow, at: now }));
        } else if frame.kind == FrameKind::Data
            && frame.to == at
            && let Some(parcel) = self.stations[usize::from(from)].current.and_then(|msdu| msdu.parcel)
        {
            cx.effects.push(Effect::Noise { hop: parcel.hop, at: now });
        }
    }

    /// A station has read a frame.
    fn receive_frame(&mut self, at: u16, from: u16, power: f64, frame: &OnAir, cx: &mut Cx<'_>) {
        let now = cx.now;
        let index = usize::from(at);
        let station = &mut self.stations[index];
        if frame.to != at {
            station.nav = station.nav.max(now + frame.nav);
            return;
        }
        let rules = &self.rules[station.mac];
        match frame.kind {
            FrameKind::Data => {
                station.answer = Answer::Ack { to: from, rate: rules.answer(frame.rate).rate };
                station.answer_at = now + rules.sifs;
                let processing = rules.plan.processing;
                if !self.stations[index].senders.is_empty() {
                    let signal = Signal::RxRssi { dbm: dbm(power), bytes: frame.bytes };
                    let flows = self.stations[index].senders.iter();
                    cx.effects.extend(flows.map(|&flow| Effect::Signal { flow, signal, at: now }));
                }
                self.deliver(at, from, frame, processing, cx);
            }
            FrameKind::Rts => {
                if station.nav <= now {
                    let answer = rules.answer(frame.rate);
                    let nav = Span(frame.nav.0.saturating_sub((rules.sifs + answer.cts).0));
                    station.answer = Answer::Cts { to: from, rate: answer.rate, nav };
                    station.answer_at = now + rules.sifs;
                }
            }
            FrameKind::Cts => {
                if station.awaited == Awaited::Cts {
                    station.awaited = Awaited::Nothing;
                    station.timeout = NEVER;
                    station.short_retries = 0;
                    station.answer = Answer::Data;
                    station.answer_at = now + rules.sifs;
                    let port = station.current.map_or(NO_PORT, |msdu| msdu.port);
                    self.count(port, cx, |stats| stats.rts_successes += 1);
                }
            }
            FrameKind::Ack => {
                if station.awaited == Awaited::Ack {
                    self.succeed(index, cx);
                }
            }
            FrameKind::Beacon => {}
        }
        self.note_due(index);
    }

    /// Counts something of a port if it falls into the window.
    fn count(&mut self, port: u16, cx: &Cx<'_>, add: impl FnOnce(&mut RadioStats)) {
        if let Some(port) = self.ports.get_mut(usize::from(port))
            && cx.window.contains(cx.now)
        {
            add(&mut port.stats);
        }
    }

    /// A data frame has reached its station: hands the packet on, unless it was here before.
    fn deliver(&mut self, at: u16, from: u16, frame: &OnAir, processing: Span, cx: &mut Cx<'_>) {
        let sequence = u32::from(frame.sequence);
        let last = &mut self.stations[usize::from(at)].heard[usize::from(from)];
        let again = frame.retry && *last == sequence;
        *last = sequence;
        let port = self.between[usize::from(from) * self.stations.len() + usize::from(at)];
        self.count(port, cx, |stats| {
            stats.received_fragments += 1;
            stats.retries_received += u64::from(frame.retry);
            stats.duplicates += u64::from(again);
        });
        let Some(msdu) = &mut self.stations[usize::from(from)].current else { return };
        let Some(parcel) = msdu.parcel.filter(|_| !again && !msdu.delivered) else { return };
        msdu.delivered = true;
        let port = &mut self.ports[usize::from(msdu.port)];
        port.received_since += 1;
        let direction = port.direction;
        let crossing = Some(Crossing { direction, started: Some(msdu.first_start) });
        let (now, window) = (cx.now, cx.window);
        let link = cx.link(direction);
        if link.corrupts(ErrorPosition::AfterArq, now, parcel.bytes.into()) {
            link.count_drop(Cause::ChannelError, now, &window);
            cx.effects.push(Effect::Drop { parcel, cause: Cause::ChannelError, at: now, crossing });
        } else {
            cx.effects.push(Effect::Forward { parcel, at: now + processing, crossing });
        }
    }

    // -----------------------------------------------------------------------------------------------------------------
    // The sending station

    /// The present MSDU is done with: post-backoff, and the next.
    fn complete(&mut self, index: usize, now: Time) {
        let station = &mut self.stations[index];
        let rules = &self.rules[station.mac];
        station.current = None;
        station.freed = now;
        station.awaited = Awaited::Nothing;
        station.timeout = NEVER;
        station.short_retries = 0;
        station.long_retries = 0;
        station.cw = rules.plan.cw_min;
        let from = if rules.plan.difs_after_timeout { now + rules.difs } else { now };
        station.draw(rules, from);
    }

    /// An acknowledgement has come.
    fn succeed(&mut self, index: usize, cx: &mut Cx<'_>) {
        let now = cx.now;
        let Some(msdu) = self.stations[index].current else { return };
        self.count(msdu.port, cx, |stats| {
            stats.transmitted_fragments += 1;
            stats.transmitted_frames += 1;
            stats.retries += u64::from(msdu.failures >= 1);
            stats.multiple_retries += u64::from(msdu.failures >= 2);
        });
        if let Some(port) = self.ports.get_mut(usize::from(msdu.port)) {
            port.rate.report(msdu.rate, true, now);
            if let (Some((seq, end)), Some(parcel)) = (msdu.range, msdu.parcel)
                && let Some(told) = told(&port.listeners, parcel.flow)
            {
                let delay = msdu.last_start.since(msdu.first_start);
                let signal = Signal::LinkAck { seq, end, retransmissions: msdu.failures, delay };
                cx.signal(parcel.flow, signal, told);
            }
        }
        self.complete(index, now);
        // The medium is busy until the acknowledgement is over, which is now: the countdown starts DIFS later anyway.
        self.stations[index].drawn = now;
        self.fetch(index, cx);
    }

    /// An answer has not come.
    fn fail(&mut self, index: usize, cx: &mut Cx<'_>) {
        let now = cx.now;
        let station = &mut self.stations[index];
        let mac = &self.rules[station.mac].plan;
        let discards = mac.discards;
        station.timeout = NEVER;
        let awaited = std::mem::replace(&mut station.awaited, Awaited::Nothing);
        let Some(msdu) = &mut station.current else { return };
        msdu.failures += 1;
        let with_rts = msdu.bytes > mac.rts_threshold;
        let given_up = if awaited == Awaited::Ack && with_rts {
            station.long_retries += 1;
            station.long_retries >= mac.long_retry
        } else {
            station.short_retries += 1;
            station.short_retries >= mac.short_retry
        };
        let msdu = *msdu;
        self.count(msdu.port, cx, |stats| {
            if awaited == Awaited::Cts {
                stats.rts_failures += 1;
            } else {
                stats.ack_failures += 1;
            }
            stats.failed += u64::from(given_up);
        });
        if let Some(port) = self.ports.get_mut(usize::from(msdu.port)) {
            if awaited == Awaited::Ack {
                port.rate.report(msdu.rate, false, now);
            }
            if let (Some((seq, end)), Some(parcel)) = (msdu.range, msdu.parcel)
                && let Some(told) = told(&port.listeners, parcel.flow)
            {
                let attempts = msdu.failures;
                let discarded = match discards {
                    Discards::Attempts => awaited == Awaited::Ack,
                    Discards::Frames => given_up,
                    Discards::Received | Discards::RateEstimate { .. } => false,
                };
                if discarded {
                    cx.signal(parcel.flow, Signal::MacDiscard { count: 1 }, told);
                }
                let signal = if given_up {
                    Signal::LinkDrop { seq, end, attempts }
                } else {
                    Signal::LinkRetry { seq, end, attempts }
                };
                cx.signal(parcel.flow, signal, told);
            }
        }
        if given_up {
            if let Some(parcel) = msdu.parcel.filter(|_| !msdu.delivered) {
                let direction = self.ports[usize::from(msdu.port)].direction;
                let window = cx.window;
                cx.link(direction).count_drop(Cause::LinkGaveUp, now, &window);
                let crossing = Some(Crossing { direction, started: Some(msdu.first_start) });
                cx.effects.push(Effect::Drop { parcel, cause: Cause::LinkGaveUp, at: now, crossing });
            }
            self.complete(index, now);
            self.fetch(index, cx);
        } else {
            let station = &mut self.stations[index];
            let rules = &self.rules[station.mac];
            station.widen(rules);
            let from = if rules.plan.difs_after_timeout { now + rules.difs } else { now };
            station.draw(rules, from);
        }
        let station = &mut self.stations[index];
        station.reschedule(&self.rules[station.mac], now);
    }

    /// Takes the next packet from the queue, if the station has nothing to send.
    fn fetch(&mut self, index: usize, cx: &mut Cx<'_>) {
        let now = cx.now;
        let station = &mut self.stations[index];
        if station.current.is_some() {
            return;
        }
        if std::mem::take(&mut station.beacon_waits) {
            let bytes = self.plan.macs[station.mac].beacon_bytes;
            station.current = Some(Msdu { to: EVERYBODY, bytes, ..Msdu::default() });
            return self.defer(index, now);
        }
        let Some(gate) = station.gate else { return };
        let served = station.queue.pop(now, &mut self.shed);
        self.lose_shed(cx);
        let station = &mut self.stations[index];
        let found = station.queue.found(None, now);
        cx.link(gate).gate.note_held(&found);
        let Some(Served { parcel, marked }) = served else { return };
        if marked {
            mark(parcel, gate, cx);
        }
        let number = self.places[parcel.hop as usize];
        let port = &self.ports[usize::from(number)];
        let mac = &self.plan.macs[station.mac];
        let range = if port.listeners.is_empty() { None } else { range_of(parcel, cx) };
        station.sequence = station.sequence.wrapping_add(1) & 0xfff;
        station.current = Some(Msdu {
            parcel: Some(parcel),
            port: number,
            to: port.to,
            bytes: mac.mpdu(parcel.bytes.into()),
            sequence: station.sequence,
            range,
            ..Msdu::default()
        });
        self.defer(index, now);
    }

    /// Packets that a queue has thrown away just now.
    fn lose_shed(&mut self, cx: &mut Cx<'_>) {
        let (now, window) = (cx.now, cx.window);
        for Shed { parcel, cause } in self.shed.drain(..) {
            let direction = self.ports[usize::from(self.places[parcel.hop as usize])].direction;
            cx.link(direction).count_drop(cause, now, &window);
            let crossing = Some(Crossing { direction, started: None });
            cx.effects.push(Effect::Drop { parcel, cause, at: now, crossing });
        }
    }

    /// A station has something new to send: immediate access, or a backoff.
    fn defer(&mut self, index: usize, now: Time) {
        let station = &mut self.stations[index];
        let rules = &self.rules[station.mac];
        if station.backoff.is_none() {
            if station.is_busy(now) {
                station.draw(rules, now);
            } else if !rules.plan.immediate_access {
                station.draw(rules, now + rules.difs);
            }
        }
    }

    /// The countdown is over: transmits what there is.
    fn access(&mut self, index: usize, cx: &mut Cx<'_>) {
        let now = cx.now;
        let station = &mut self.stations[index];
        let rules = &self.rules[station.mac];
        let mac = &rules.plan;
        debug_assert!(station.nav <= now && !station.sending, "it waits until the medium is free");
        station.access = NEVER;
        station.backoff = None;
        let Some(msdu) = &mut station.current else { return };
        let (to, bytes) = (msdu.to, msdu.bytes);
        if to == EVERYBODY {
            let rate = mac.lowest_basic();
            self.transmit(index, FrameKind::Beacon, (EVERYBODY, rate, bytes, Span::ZERO), now);
            return;
        }
        let rate = self.ports[usize::from(msdu.port)].rate.rate(msdu.attempts, now);
        msdu.rate = rate;
        let shielded = mac.protection && mac.phy.rates[rate].modulation.is_ofdm();
        let with_rts = bytes > mac.rts_threshold;
        if !with_rts && !shielded {
            return self.send_data(index, cx);
        }
        let control = if shielded { mac.protection_rate() } else { rules.answer(rate).rate };
        let cts = rules.answer(control).cts;
        let data = mac.airtime(bytes, rate);
        let rest = data + rules.sifs + rules.answer(rate).ack;
        if with_rts {
            let (nav, timeout) = (rules.sifs * 2 + cts + rest, rules.sifs + cts + mac.answer_slack);
            let done = self.transmit(index, FrameKind::Rts, (to, control, mac.rts_bytes, nav), now);
            let station = &mut self.stations[index];
            station.awaited = Awaited::Cts;
            station.timeout = done + timeout;
        } else {
            let nav = rules.sifs + rest;
            self.transmit(index, FrameKind::Cts, (EVERYBODY, control, mac.cts_bytes, nav), now);
        }
    }

    /// Transmits the present MSDU.
    fn send_data(&mut self, index: usize, cx: &mut Cx<'_>) {
        let (now, window) = (cx.now, cx.window);
        let station = &mut self.stations[index];
        let rules = &self.rules[station.mac];
        let Some(msdu) = &mut station.current else { return };
        msdu.attempts += 1;
        if msdu.attempts == 1 {
            msdu.first_start = now;
        }
        msdu.last_start = now;
        let msdu = *msdu;
        let nav = rules.sifs + rules.answer(msdu.rate).ack;
        let timeout = nav + rules.plan.answer_slack;
        let done = self.transmit(index, FrameKind::Data, (msdu.to, msdu.rate, msdu.bytes, nav), now);
        let station = &mut self.stations[index];
        station.awaited = Awaited::Ack;
        station.timeout = done + timeout;
        self.count(msdu.port, cx, |stats| stats.attempts += 1);
        if let Some(parcel) = msdu.parcel {
            // A packet waits until its first transmission.
            let since = if msdu.attempts == 1 { parcel.since } else { now };
            let link = cx.link(self.ports[usize::from(msdu.port)].direction);
            link.occupy_until(since, (now, done), parcel.bytes.into(), &window);
        }
    }

    /// Sends what is owed SIFS after a frame.
    fn answer(&mut self, index: usize, cx: &mut Cx<'_>) {
        let station = &mut self.stations[index];
        station.answer_at = NEVER;
        if station.sending {
            return;
        }
        let mac = &self.plan.macs[station.mac];
        match station.answer {
            Answer::Ack { to, rate } => {
                let bytes = mac.ack_bytes;
                self.transmit(index, FrameKind::Ack, (to, rate, bytes, Span::ZERO), cx.now);
            }
            Answer::Cts { to, rate, nav } => {
                let bytes = mac.cts_bytes;
                self.transmit(index, FrameKind::Cts, (to, rate, bytes, nav), cx.now);
            }
            Answer::Data => self.send_data(index, cx),
        }
    }

    /// A beacon is due: it goes before what waits, once what is being sent is done.
    fn beacon(&mut self, index: usize, cx: &mut Cx<'_>) {
        let station = &mut self.stations[index];
        let mac = &self.plan.macs[station.mac];
        let Some(every) = mac.beacon else { return };
        station.beacon += every;
        station.beacon_waits = true;
        if station.current.is_none() {
            self.fetch(index, cx);
            let station = &mut self.stations[index];
            station.reschedule(&self.rules[station.mac], cx.now);
        }
    }

    /// What access points miss by the rates that stations have announced.
    fn estimate(&mut self, cx: &mut Cx<'_>) {
        self.due[2 * self.stations.len()] = NEVER;
        for port in &mut self.ports {
            let mac = &self.plan.macs[self.stations[usize::from(port.from)].mac];
            let Discards::RateEstimate { interval, rate, bytes } = mac.discards else { continue };
            let expected = (interval.seconds() * rate.0 as f64 / (8.0 * f64::from(bytes))).round() as u64;
            let received = std::mem::take(&mut port.received_since);
            if expected > received {
                let signal = Signal::MacDiscard { count: (expected - received) as u32 };
                for &(flow, told) in &port.estimates {
                    cx.signal(flow, signal, told);
                }
            }
            self.due[2 * self.stations.len()] = cx.now + interval;
        }
    }

    /// A packet has passed the link layer and reaches the queue.
    fn enqueue(&mut self, index: usize, parcel: Parcel, cx: &mut Cx<'_>) {
        let (now, window) = (cx.now, cx.window);
        let bytes = u32::from(parcel.bytes);
        let number = self.places[parcel.hop as usize];
        let direction = self.ports[usize::from(number)].direction;
        let station = &mut self.stations[index];
        let found = station.queue.found(station.in_service(), station.freed);
        let gate = station.gate.unwrap_or(direction);
        let refused = if cx.link(direction).corrupts(ErrorPosition::BeforeQueue, now, bytes) {
            Some(Cause::ChannelError)
        } else {
            match cx.link(gate).gate.judge(&Arrival { at: now, bytes, ect: parcel.ect }, &found, &window) {
                Verdict::Admit => None,
                Verdict::Mark => {
                    cx.packets.get_mut(parcel.packet).flags |= lasthop_core::packet::flag::CE;
                    None
                }
                Verdict::Refuse(cause) => Some(cause),
            }
        };
        let refused = refused.or_else(|| match self.stations[index].queue.push(parcel, &mut self.shed) {
            Verdict::Admit => None,
            Verdict::Mark => {
                mark(parcel, gate, cx);
                None
            }
            Verdict::Refuse(cause) => Some(cause),
        });
        self.lose_shed(cx);
        if let Some(cause) = refused {
            cx.link(direction).count_drop(cause, now, &window);
            let crossing = Some(Crossing { direction, started: None });
            cx.effects.push(Effect::Drop { parcel, cause, at: now, crossing });
            return;
        }
        if self.stations[index].current.is_none() {
            self.fetch(index, cx);
            let station = &mut self.stations[index];
            station.reschedule(&self.rules[station.mac], now);
        }
        let station = &self.stations[index];
        let found = station.queue.found(station.in_service(), station.freed);
        let waiting = station.queue.packets();
        let gate = &mut cx.link(gate).gate;
        gate.note_held(&found);
        gate.note_waiting(waiting, now, &window);
    }

    // -----------------------------------------------------------------------------------------------------------------

    /// Lets everything happen that is due.
    fn run(&mut self, cx: &mut Cx<'_>) {
        let count = self.stations.len();
        loop {
            let at = self.due.iter().copied().min().unwrap_or(NEVER);
            if at > cx.now {
                if at != NEVER {
                    cx.wake(at);
                }
                return;
            }
            let which = self.due.iter().position(|&due| due == at).unwrap_or(0);
            if which < count {
                self.finish(which, cx);
            } else if which == 2 * count {
                self.estimate(cx);
            } else {
                self.act(which - count, cx);
            }
        }
    }

    /// A station does what is due.
    fn act(&mut self, index: usize, cx: &mut Cx<'_>) {
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
        } else if let Some(&(at, parcel)) = station.entering.front()
            && at <= now
        {
            station.entering.pop_front();
            self.enqueue(index, parcel, cx);
        }
        self.note_due(index);
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
    let modern = mac.phy.rates.iter().any(|rate| rate.modulation.is_ofdm());
    let usable = |&index: &usize| mac.phy.rates[index].modulation.is_ofdm() == modern;
    let timed = |index| (index, mac.airtime(mac.mpdu(mtu), index));
    (0..mac.phy.rates.len()).filter(usable).map(timed).collect()
}

/// A standard normal variable (Box and Muller 1958).
fn normal(stream: &mut Stream) -> f64 {
    let radius = (-2.0 * libm::log(1.0 - stream.uniform())).sqrt();
    radius * libm::cos(2.0 * std::f64::consts::PI * stream.uniform())
}

impl Medium {
    /// The direction whose gate guards the queue that packets of `direction` wait in.
    pub(crate) fn guard_of(&self, direction: DirectionId) -> Option<DirectionId> {
        let port = self.ports.iter().find(|port| port.direction == direction)?;
        self.stations[usize::from(port.from)].gate
    }
}

impl Element for Medium {
    fn receive(&mut self, parcel: Parcel, port: u32, cx: &mut Cx<'_>) {
        self.run(cx);
        let index = usize::from(self.ports[port as usize].from);
        let station = &mut self.stations[index];
        let processing = self.plan.macs[station.mac].processing;
        if processing == Span::ZERO {
            self.enqueue(index, parcel, cx);
        } else {
            station.entering.push_back((cx.now + processing, parcel));
        }
        self.note_due(index);
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
        let window = cx.window;
        for station in &mut self.stations {
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
            for (parcel, started) in held {
                let direction = self.ports[usize::from(self.places[parcel.hop as usize])].direction;
                if started.is_none() {
                    cx.link(direction).count_unserved(parcel.since, &window);
                }
                cx.effects.push(Effect::Keep { parcel, crossing: Some(Crossing { direction, started }) });
            }
        }
    }
}
