//! Paths: the places that the packets of a flow meet, in one table for all flows.
//!
//! A place is one direction of a link, a port of a device, or an end of the flow. The next place is the next entry of
//! the table, so that a packet carries one index and knows all of its way. Whether a packet waits for the clock before
//! it meets a place is part of the entry: decision 0002 says when it must.

use std::collections::HashMap;
use std::sync::Arc;

use lasthop_core::packet::NONE;
use lasthop_core::time::Time;

use super::Network;
use crate::device::arq::ArqMachine;
use crate::device::cellular::Cellular;
use crate::device::queued::Queued;
use crate::device::snoop::FlowFacts;
use crate::device::two_loads::TwoLoads;
use crate::device::wlan::Medium;
use crate::device::{Device, DeviceId, Element, FAR, INBOUND, Middlebox, NOWHERE, OUTBOUND, Slot};
use crate::plan::{FlowPlan, Plan, Transport};
use crate::queue::{FlowHeader, KnownFlows};
use crate::roaming::Journey;
use crate::routing::{DirectionId, opposite};

/// What stands at a place of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// One direction of a link.
    Link(DirectionId),
    /// A port of a device, as an index into the table of ports.
    Port(u32),
    /// The receiver of the flow.
    Receiver,
    /// The sender of the flow.
    Sender,
}

/// A place on the path of a flow, in 8 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hop {
    /// The top bit says whether packets wait, the rest whose path it is.
    flow: u32,
    /// Two bits say what stands here, the rest which.
    place: u32,
}

impl Hop {
    const WAITS: u32 = 1 << 31;
    const KIND: u32 = 3 << 30;
    const PORT: u32 = 1 << 30;
    const RECEIVER: u32 = 2 << 30;
    const SENDER: u32 = 3 << 30;
    /// Most links and ports that a place can name.
    pub(super) const MOST: u32 = Self::PORT - 1;

    /// A place; `waits` if a packet waits for the clock before it meets it.
    pub(crate) fn new(flow: u32, place: Place, waits: bool) -> Hop {
        let place = match place {
            Place::Link(direction) => direction,
            Place::Port(port) => Self::PORT | port,
            Place::Receiver => Self::RECEIVER,
            Place::Sender => Self::SENDER,
        };
        Hop { flow: if waits { flow | Self::WAITS } else { flow }, place }
    }

    /// The flow.
    #[inline]
    pub(crate) fn flow(self) -> u32 {
        self.flow & !Self::WAITS
    }

    /// The direction, if a link stands here: the question that is asked most.
    #[inline]
    pub(crate) fn link(self) -> Option<DirectionId> {
        (self.place < Self::PORT).then_some(self.place)
    }

    /// Whether the receiver stands here.
    #[inline]
    pub(crate) fn is_receiver(self) -> bool {
        self.place == Self::RECEIVER
    }

    /// Whether the sender stands here.
    #[inline]
    pub(crate) fn is_sender(self) -> bool {
        self.place == Self::SENDER
    }

    #[inline]
    pub(crate) fn place(self) -> Place {
        let index = self.place & !Self::KIND;
        match self.place & Self::KIND {
            0 => Place::Link(index),
            Self::PORT => Place::Port(index),
            Self::RECEIVER => Place::Receiver,
            _ => Place::Sender,
        }
    }

    #[inline]
    pub(crate) fn waits(self) -> bool {
        self.flow & Self::WAITS != 0
    }
}

/// What queues can know of flows.
pub(super) fn known_flows(flows: &[FlowPlan]) -> KnownFlows {
    let header =
        |flow: &FlowPlan| FlowHeader { source: flow.source as u32, sink: flow.sink as u32, dscp: flow.dscp };
    KnownFlows {
        names: flows.iter().map(|flow| name_number(&flow.name)).collect(),
        headers: flows.iter().map(header).collect(),
    }
}

/// A number for a name (FNV-1a): what draws lots by it draws the same ones whatever else there is.
pub(crate) fn name_number(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Who hands packets to a place: an upstream link, a device, or the sender or receiver of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Feeder {
    Link(DirectionId),
    Device(DeviceId),
    Sender(u32),
    Receiver(u32),
}

/// The two ways of a flow, as indices of their first places.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ways {
    /// From the sender to the receiver.
    pub(crate) forward: u32,
    /// From the receiver to the sender.
    pub(crate) back: u32,
}

/// A crossing of a channel whose stations find their routes themselves, while a way is being laid.
struct Noted {
    device: DeviceId,
    /// The station at which packets leave the channel, and their place behind it.
    exit: u16,
    behind: u32,
    /// The port of the first station.
    first_stop: u32,
}

/// What stands where: needed while ways are laid.
#[derive(Clone, Debug)]
pub(super) struct Wiring {
    /// Middleboxes at the near end of each direction, in the order in which departing packets meet them.
    near: Vec<Vec<DeviceId>>,
    /// Those of them that have an end at the far end, too.
    beyond: Vec<Vec<DeviceId>>,
    /// First port of each device.
    first_ports: Vec<u32>,
}

impl Wiring {
    /// The place of a port.
    fn port(&self, device: DeviceId, port: u32) -> Place {
        Place::Port(self.first_ports[device as usize] + port)
    }

    /// The middleboxes that packets meet before they take `direction`.
    fn before(&self, direction: DirectionId) -> impl Iterator<Item = Place> {
        self.near[direction as usize].iter().map(|&device| self.port(device, OUTBOUND))
    }

    /// The middleboxes that packets meet that have taken `direction`: those of the way back.
    fn behind(&self, direction: DirectionId) -> impl Iterator<Item = Place> {
        self.near[opposite(direction) as usize].iter().rev().map(|&device| self.port(device, INBOUND))
    }

    /// The places of a way over one direction: middleboxes, the link or the port `head` of the device that stands for
    /// it, middleboxes.
    fn places(&self, direction: DirectionId, head: u32) -> impl Iterator<Item = Place> {
        let link = if head == NONE { Place::Link(direction) } else { Place::Port(head) };
        let beyond = self.beyond[direction as usize].iter().rev().map(|&device| self.port(device, FAR));
        self.before(direction).chain([link]).chain(beyond).chain(self.behind(direction))
    }
}

impl Network {
    /// Adds a device with this many ports that stands at the near end of `direction`, if it stands at a link.
    pub(super) fn add_device(
        &mut self,
        wiring: &mut Wiring,
        (device, name): (Device, &str),
        ports: u32,
        direction: DirectionId,
    ) -> DeviceId {
        let id = self.devices.len() as DeviceId;
        wiring.first_ports.push(self.ports.len() as u32);
        self.ports.extend((0..ports).map(|port| (id, port)));
        self.device_names.push(name_number(name));
        self.devices.push(Slot { device, armed: Time::MAX, superseded: Time::MAX, direction });
        id
    }

    /// Puts the devices of a plan to their places.
    pub(super) fn place_devices(&mut self, plan: &Plan, seed: u64, journeys: &[Journey]) -> Wiring {
        let directions = self.links.len();
        let mut wiring = Wiring {
            near: vec![Vec::new(); directions],
            beyond: vec![Vec::new(); directions],
            first_ports: Vec::new(),
        };
        self.heads = vec![NONE; directions];
        self.head_ports = vec![NONE; directions];
        for medium in &plan.media {
            let name = format!("radio channel {}", medium.name);
            let mut device = Medium::new(medium, &plan.links, (seed, plan.duration));
            device.roam(journeys, &plan.links);
            let served: Vec<DirectionId> = device.directions().collect();
            let ports = served.len() as u32;
            let device = (Device::Medium(Box::new(device)), name.as_str());
            let device = self.add_device(&mut wiring, device, ports, NOWHERE);
            for (direction, port) in served.into_iter().zip(wiring.first_ports[device as usize]..) {
                self.heads[direction as usize] = device;
                self.head_ports[direction as usize] = port;
            }
        }
        let mut downlink = NONE;
        for (cell, upwards) in plan.cellular.iter().flat_map(|cell| [(cell, false), (cell, true)]) {
            let mut device = Cellular::new(cell, &plan.links, upwards, seed);
            if upwards && cell.drx.is_some() {
                device.wakes(downlink);
            }
            let served: Vec<DirectionId> = device.directions().collect();
            let ports = served.len() as u32;
            let name = format!("{} of cell {}", if upwards { "uplink" } else { "downlink" }, cell.name);
            let device = (Device::Cellular(Box::new(device)), name.as_str());
            let device = self.add_device(&mut wiring, device, ports, NOWHERE);
            downlink = device;
            for (direction, port) in served.into_iter().zip(wiring.first_ports[device as usize]..) {
                self.heads[direction as usize] = device;
                self.head_ports[direction as usize] = port;
            }
        }
        for (link, index) in plan.links.iter().zip(0u32..) {
            for (side, direction) in [(&link.forward, 2 * index), (&link.reverse, 2 * index + 1)] {
                let name = link.direction_name(direction);
                let head = match &side.arq {
                    _ if self.heads[direction as usize] != NONE => None,
                    Some(arq) => {
                        Some(Device::Arq(Box::new(ArqMachine::new(arq, side, direction, &name, seed))))
                    }
                    None if !side.holds_packets() => None,
                    None => Some(match side.light() {
                        None => Device::Queued(Box::new(Queued::new(side, direction, &name, seed))),
                        Some(light) => {
                            Device::TwoLoads(Box::new(TwoLoads::new((side, light), direction, &name, seed)))
                        }
                    }),
                };
                if let Some(head) = head {
                    let head = self.add_device(&mut wiring, (head, &name), 1, direction);
                    self.heads[direction as usize] = head;
                    self.head_ports[direction as usize] = wiring.first_ports[head as usize];
                }
                for (middlebox, number) in side.middleboxes.iter().zip(1..) {
                    let name = format!("middlebox {number} of {name}");
                    let mut middlebox = middlebox.clone();
                    match &mut middlebox {
                        Middlebox::AckFilter(filter) => filter.direction = direction,
                        Middlebox::Zhuge(zhuge) => zhuge.delay = side.delay,
                        Middlebox::L4Span(span) => span.delay = side.delay,
                        _ => {}
                    }
                    let device = (middlebox.build(&name, seed), name.as_str());
                    let ports = if middlebox.reaches_over() { 3 } else { 2 };
                    let device = self.add_device(&mut wiring, device, ports, direction);
                    let head = self.heads[direction as usize];
                    if matches!(middlebox, Middlebox::FastAck(_))
                        && let Some(Slot { device: Device::Medium(medium), .. }) =
                            self.devices.get_mut(head as usize)
                    {
                        medium.report_to(direction, device);
                    }
                    wiring.near[direction as usize].push(device);
                    if middlebox.reaches_over() {
                        wiring.beyond[direction as usize].push(device);
                    }
                }
            }
        }
        wiring
    }

    /// Tells queues that tell flows apart what they can know of them.
    pub(super) fn know_flows(&mut self) {
        for slot in &mut self.devices {
            match &mut slot.device {
                Device::Arq(machine) => machine.know_flows(&self.known),
                Device::Medium(medium) => medium.know_flows(&self.known),
                Device::Cellular(cell) => cell.know_flows(&self.known),
                other => {
                    if let Some(queue) = other.queue() {
                        queue.know_flows(&self.known);
                    }
                }
            }
        }
    }

    /// Tells radio channels how the packets of each flow are marked.
    pub(super) fn mark_flows(&mut self, plan: &Plan) {
        let marks: Vec<u8> = plan.flows.iter().map(|flow| flow.dscp).collect();
        for slot in &mut self.devices {
            if let Device::Medium(medium) = &mut slot.device {
                medium.mark_flows(&marks);
            }
        }
    }

    /// Tells every agent where it stands, and those properties of the flows that it may see.
    pub(super) fn tell_agents(&mut self, plan: &Plan) {
        if !self.devices.iter().any(|slot| matches!(slot.device, Device::Snoop(_) | Device::Wtcp(_))) {
            return;
        }
        let mut pairs = HashMap::new();
        let facts = plan.flows.iter().map(|flow| {
            let next = pairs.len() as u32;
            let pair = *pairs.entry((flow.source, flow.sink)).or_insert(next);
            let hears = matches!(&flow.transport, Transport::Tcp(config) if config.mobility.eln.is_some());
            FlowFacts { pair, hears }
        });
        let facts: Arc<[FlowFacts]> = facts.collect();
        for index in 0..self.devices.len() {
            let direction = self.devices[index].direction;
            let head = self.heads.get(direction as usize).and_then(|&head| self.devices.get(head as usize));
            let queue = match head.map(|slot| &slot.device) {
                Some(Device::Medium(medium)) => medium.guard_of(direction).unwrap_or(direction),
                _ => direction,
            };
            let holds = head.is_some();
            match &mut self.devices[index].device {
                Device::Snoop(snoop) => snoop.stand(direction, (queue, holds), &facts),
                Device::Wtcp(wtcp) => wtcp.stand((queue, holds)),
                _ => continue,
            }
            let head =
                self.heads.get(direction as usize).and_then(|&head| self.devices.get_mut(head as usize));
            if let Some(queue) = head.and_then(|slot| slot.device.queue()) {
                queue.watch();
            }
        }
    }

    /// Adds the two ways of the next flow. None of its places waits yet; [`Network::settle_waits`] decides that.
    pub(super) fn add_ways(&mut self, wiring: &Wiring, flow: u32, path: &[DirectionId]) {
        let mut crossings = Vec::new();
        let forward = self.hops.len() as u32;
        self.add_way(wiring, flow, path, &mut crossings);
        self.hops.push(Hop::new(flow, Place::Receiver, false));
        let back = self.hops.len() as u32;
        let reversed: Vec<DirectionId> = path.iter().rev().map(|&direction| opposite(direction)).collect();
        self.add_way(wiring, flow, &reversed, &mut crossings);
        self.hops.push(Hop::new(flow, Place::Sender, true));
        self.ways.push(Ways { forward, back });
        if !crossings.is_empty() {
            for crossing in crossings {
                self.lay_crossing(wiring, flow, &crossing);
            }
            // The next way begins with a sender of its own.
            self.hops.push(Hop::new(flow, Place::Sender, true));
        }
    }

    /// Adds the places of one way. Where its links belong to a channel whose stations find their routes themselves, the
    /// port of a station stands for all of them; those crossings are `noted`. Middleboxes at either end of a crossing
    /// see all that enters and leaves the channel there, whichever links it takes.
    fn add_way(&mut self, wiring: &Wiring, flow: u32, path: &[DirectionId], noted: &mut Vec<Noted>) {
        let mut rest = path;
        while let Some(&first) = rest.first() {
            let head = self.heads[first as usize];
            let Some(medium) = self.medium(first).filter(|medium| medium.finds_routes()) else {
                self.add_places(wiring, flow, first);
                rest = &rest[1..];
                continue;
            };
            let links = rest.iter().take_while(|&&next| self.heads[next as usize] == head).count();
            let last = rest[links - 1];
            let (entry, exit) = medium.ends_of(first, last);
            let here = noted.iter().filter(|crossing| crossing.device == head).count() as u32;
            let stops = medium.stops(medium.crossings() + here);
            let first_stop = self.ports.len() as u32;
            self.ports.extend(stops.map(|stop| (head, stop)));
            self.hops.extend(wiring.before(first).map(|place| Hop::new(flow, place, false)));
            self.hops.push(Hop::new(flow, Place::Port(first_stop + u32::from(entry)), false));
            noted.push(Noted { device: head, exit, behind: self.hops.len() as u32, first_stop });
            self.hops.extend(wiring.behind(last).map(|place| Hop::new(flow, place, false)));
            rest = &rest[links..];
        }
    }

    /// Adds the places of all links of a channel, for packets of a crossing.
    fn lay_crossing(&mut self, wiring: &Wiring, flow: u32, noted: &Noted) {
        let places = self.hops.len() as u32;
        let Device::Medium(medium) = &mut self.devices[noted.device as usize].device else { return };
        medium.add_crossing(noted.exit, noted.behind, places);
        for (end, port) in medium.port_ends().zip(0..) {
            self.hops.push(Hop::new(flow, wiring.port(noted.device, port), false));
            let stop = Place::Port(noted.first_stop + u32::from(end));
            self.hops.push(Hop::new(flow, stop, false));
        }
    }

    /// Adds the places of a way over one direction.
    pub(super) fn add_places(&mut self, wiring: &Wiring, flow: u32, direction: DirectionId) {
        let places = wiring.places(direction, self.head_ports[direction as usize]);
        self.hops.extend(places.map(|place| Hop::new(flow, place, false)));
    }

    /// Decides where packets wait for the clock: before devices, before a link or receiver that more than one feeds,
    /// and before senders; before everything if `clocked`. A link behind a middlebox has nothing to wait for. A sender
    /// acts at the current time, so its own first place has nothing to wait for, unless its packets leave `later`. So
    /// does a receiver whose data is passed on: `relayed`, by flow.
    pub(super) fn settle_waits(&mut self, clocked: bool, later: bool, relayed: &[bool]) {
        let shared = self.links_with_several_feeders();
        for (link, &shared) in self.links.iter_mut().zip(&shared) {
            link.contested = shared;
        }
        let moving = self.receivers_with_several_places();
        self.settle_waits_from((0, 0), later, |hop| match hop.place() {
            Place::Link(direction) => clocked || shared[direction as usize],
            Place::Receiver => clocked || moving[hop.flow() as usize] || relayed[hop.flow() as usize],
            Place::Port(_) | Place::Sender => true,
        });
    }

    /// The same for the places from number `first` on, which are those of the flows from number `flow` on.
    pub(super) fn settle_waits_from(
        &mut self,
        (flow, first): (usize, u32),
        later: bool,
        waits: impl Fn(Hop) -> bool,
    ) {
        let mut first_places = self.ways[flow..].iter().map(|ways| ways.forward).peekable();
        // The direction before which the middlebox at the last place stands, and whether packets take time to it.
        let (mut guarded, mut later_there) = (NOWHERE, false);
        for (hop, index) in self.hops[first as usize..].iter_mut().zip(first..) {
            let begins = first_places.next_if_eq(&index).is_some();
            let (behind, on_the_way) = (guarded, later_there);
            (guarded, later_there) = (NOWHERE, false);
            if let Place::Port(port) = hop.place() {
                let (device, port) = self.ports[port as usize];
                if port == OUTBOUND {
                    let slot = &self.devices[device as usize];
                    (guarded, later_there) = (slot.direction, slot.device.delays());
                }
            }
            // All that enters the link comes through its middlebox, in order; one that looks at the queue of the link
            // finds there what it has handed on at the same instant, and nothing that is still on its way there.
            let follows = matches!(hop.place(), Place::Link(direction) if direction == behind);
            let must_wait = if follows { on_the_way } else { waits(*hop) };
            if must_wait && (later || !begins) {
                hop.flow |= Hop::WAITS;
            }
        }
    }

    /// Tells every radio channel which places on paths, from number `first` on, are its ports.
    pub(super) fn tell_media(&mut self, first: u32) {
        // The last stop of a router on the way over the present link, and the flow whose it is.
        let (mut turn, mut flow) = (NONE, NONE);
        for (hop, index) in self.hops[first as usize..].iter().zip(first..) {
            if std::mem::replace(&mut flow, hop.flow()) != hop.flow() {
                turn = NONE;
            }
            let Place::Port(port) = hop.place() else {
                turn = NONE;
                continue;
            };
            let (device, port) = self.ports[port as usize];
            match &mut self.devices[device as usize].device {
                Device::Medium(medium) => medium.note_place(index, port, turn),
                Device::Router(router) => turn = if router.turns { index } else { NONE },
                _ => {}
            }
        }
    }

    /// For each flow whether its receiver stands at the end of more than one way.
    fn receivers_with_several_places(&self) -> Vec<bool> {
        let mut seen = vec![false; self.ways.len()];
        let mut several = vec![false; self.ways.len()];
        for hop in self.hops.iter().filter(|hop| hop.place() == Place::Receiver) {
            several[hop.flow() as usize] |= std::mem::replace(&mut seen[hop.flow() as usize], true);
        }
        several
    }

    /// For each direction whether packets reach it from more than one side.
    fn links_with_several_feeders(&self) -> Vec<bool> {
        let mut feeders: Vec<Option<Feeder>> = vec![None; self.links.len()];
        let mut shared = vec![false; self.links.len()];
        let mut note = |direction: DirectionId, feeder: Feeder| {
            let known = feeders[direction as usize].get_or_insert(feeder);
            shared[direction as usize] |= *known != feeder;
        };
        // Detours of a flow need not end at one of its ends.
        let (mut before, mut flow): (Option<Feeder>, _) = (None, NONE);
        for hop in &self.hops {
            if std::mem::replace(&mut flow, hop.flow()) != hop.flow() {
                before = None;
            }
            let feeder = before.unwrap_or(Feeder::Sender(hop.flow()));
            before = match hop.place() {
                Place::Link(direction) => {
                    note(direction, feeder);
                    Some(Feeder::Link(direction))
                }
                Place::Port(port) => {
                    let device = self.ports[port as usize].0;
                    // What a device sends against the stream starts where the reverse path passes it.
                    let slot = &self.devices[device as usize];
                    if slot.device.emits_back()
                        && let Some(back) = self.way_back_from(hop.flow(), slot.direction)
                        && let Place::Link(direction) = self.hops[back as usize].place()
                    {
                        note(direction, Feeder::Device(device));
                    }
                    Some(Feeder::Device(device))
                }
                Place::Receiver => Some(Feeder::Receiver(hop.flow())),
                Place::Sender => None,
            };
        }
        shared
    }

    /// The first place of the way to the sender of `flow` from the near end of `direction`: behind the other direction
    /// of that link. `None` if the flow does not pass there.
    pub(super) fn way_back_from(&self, flow: u32, direction: DirectionId) -> Option<u32> {
        let reverse = opposite(direction);
        let head = *self.head_ports.get(reverse as usize)?;
        let is_reverse = |place: Place| match place {
            Place::Link(direction) => direction == reverse,
            Place::Port(port) => port == head,
            Place::Receiver | Place::Sender => false,
        };
        let back = self.ways.get(flow as usize)?.back;
        let way = self.hops[back as usize..].iter().take_while(|hop| hop.place() != Place::Sender);
        let passed = way.map(|hop| hop.place()).position(is_reverse)?;
        Some(back + passed as u32 + 1)
    }

    /// The place behind the other port of a middlebox that stands at the place `hop`, on the same flow's way in the
    /// other direction. `None` if that way does not pass it.
    pub(super) fn behind_other_port(&self, device: DeviceId, hop: u32) -> Option<u32> {
        let (hop, flow) = (hop as usize, self.hops[hop as usize].flow());
        let is_its = |port: u32| self.ports[port as usize].0 == device;
        let is_other = |place: usize| {
            place != hop && matches!(self.hops[place].place(), Place::Port(port) if is_its(port))
        };
        // Both ways of a path lie one behind the other, the receiver between them and a sender at either end.
        let ends = |place: &usize| {
            self.hops[*place].flow() == flow && (*place == hop || self.hops[*place].place() != Place::Sender)
        };
        let mut onwards = (hop..self.hops.len()).take_while(ends);
        let mut backwards = (0..=hop).rev().take_while(ends);
        let place =
            onwards.find(|&place| is_other(place)).or_else(|| backwards.find(|&place| is_other(place)))?;
        Some(place as u32 + 1)
    }

    /// Whether the receiver is the next that packets meet behind the place `hop`, middleboxes at its host apart.
    pub(super) fn ends_at_receiver(&self, hop: u32) -> bool {
        let rest = &self.hops[hop as usize + 1..];
        let beyond = rest.iter().map(|hop| hop.place()).find(|place| !matches!(place, Place::Port(_)));
        beyond == Some(Place::Receiver)
    }
}
