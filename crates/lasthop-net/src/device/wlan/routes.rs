//! Routes that the stations of a channel find themselves: updates on the air, and packets sent on by tables.
//!
//! A flow crosses the channel from the station at which its path enters it to the one at which it leaves. In its place
//! on the path stands a port of the medium, and after the path lie places for every link of the channel, each followed
//! by the port of the station at its end: `network/path.rs` lays them. At each port the station's table (`dsdv.rs`)
//! chooses the link. An update is a broadcast that goes before the packets of its station, as in ns-2.

use std::collections::VecDeque;

use lasthop_core::packet::Cause;
use lasthop_core::random::Stream;
use lasthop_core::time::Time;

use super::Medium;
use super::dsdv::{Advert, DsdvPlan, Table, update_bytes};
use super::station::{EVERYBODY, Msdu, NEVER, NO_PORT};
use crate::device::{Cx, Parcel};

/// The way of a flow over the channel, in one direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crossing {
    /// The station at which the packets leave the channel.
    pub(super) exit: u16,
    /// Their place behind it.
    pub(crate) behind: u32,
    /// The first of the places of links: two for each port of the medium, its port and the station at its end.
    pub(crate) places: u32,
}

/// What a station has of it.
#[derive(Clone, Debug)]
struct Node {
    table: Table,
    /// Updates that wait a random time before they are queued, in that order.
    delayed: VecDeque<(Time, Vec<Advert>)>,
    /// Packets without a route, and where they are to leave the channel.
    held: VecDeque<(u16, Parcel)>,
}

impl Node {
    fn due(&self) -> Time {
        self.table.due().min(self.delayed.front().map_or(NEVER, |&(at, _)| at))
    }
}

/// The routing of a channel.
#[derive(Clone, Debug)]
pub(super) struct Routing {
    plan: DsdvPlan,
    nodes: Vec<Node>,
    crossings: Vec<Crossing>,
}

impl Routing {
    /// Tables that know nothing, for stations of these names.
    pub(super) fn new<'n>(
        plan: DsdvPlan,
        names: impl ExactSizeIterator<Item = &'n str>,
        seed: u64,
    ) -> Routing {
        let count = names.len();
        let node = |(name, own): (&str, u16)| Node {
            table: Table::new(own, count, &plan, Stream::new(seed, &format!("routing of {name}"))),
            delayed: VecDeque::new(),
            held: VecDeque::new(),
        };
        Routing { plan, nodes: names.zip(0u16..).map(node).collect(), crossings: Vec::new() }
    }

    /// When something is due next.
    pub(super) fn due(&self) -> Time {
        self.nodes.iter().map(Node::due).min().unwrap_or(NEVER)
    }

    /// The crossing that a place of a link belongs to.
    fn crossing_at(&self, hop: u32) -> &Crossing {
        // They were laid one after the other.
        &self.crossings[self.crossings.partition_point(|crossing| crossing.places <= hop) - 1]
    }
}

impl Medium {
    /// Whether its stations find their routes themselves.
    pub(crate) fn finds_routes(&self) -> bool {
        self.routing.is_some()
    }

    /// The stations at which a way over these directions enters and leaves the channel.
    pub(crate) fn ends_of(&self, first: u32, last: u32) -> (u16, u16) {
        let port = |direction| self.ports.iter().find(|port| port.direction == direction);
        let entry = port(first).map_or(EVERYBODY, |port| port.from);
        (entry, port(last).map_or(EVERYBODY, |port| port.to))
    }

    /// Ports at which packets of a crossing stand: one for each station, behind those of links.
    pub(crate) fn stops(&self, crossing: u32) -> std::ops::Range<u32> {
        let (ports, stations) = (self.ports.len() as u32, self.stations.len() as u32);
        let first = ports + crossing * stations;
        first..first + stations
    }

    /// This many crossings are known.
    pub(crate) fn crossings(&self) -> u32 {
        self.routing.as_ref().map_or(0, |routing| routing.crossings.len() as u32)
    }

    /// The station at the end of each port, in their order.
    pub(crate) fn port_ends(&self) -> impl Iterator<Item = u16> {
        self.ports.iter().map(|port| port.to)
    }

    /// Adds a crossing to `exit`; packets go on behind it at the place `behind`, and places of links begin at `places`.
    pub(crate) fn add_crossing(&mut self, exit: u16, behind: u32, places: u32) {
        if let Some(routing) = &mut self.routing {
            routing.crossings.push(Crossing { exit, behind, places });
        }
    }

    /// A packet stands at a station: sends it on by the station's table.
    pub(super) fn send_on(&mut self, stop: u32, parcel: Parcel, cx: &mut Cx<'_>) {
        let count = self.stations.len() as u32;
        let stop = stop - self.ports.len() as u32;
        let Some(routing) = &mut self.routing else { return };
        let (crossing, station) = (routing.crossings[(stop / count) as usize], stop % count);
        let node = &mut routing.nodes[station as usize];
        if let Some((next, _)) = node.table.route(crossing.exit) {
            return self.send_over(station as usize, next, crossing.places, parcel, cx);
        }
        let parcel = Parcel { hop: crossing.places, ..parcel };
        node.held.push_back((crossing.exit, parcel));
        let same = node.held.iter().filter(|held| held.0 == crossing.exit).count();
        if same > routing.plan.waiting
            && let Some(oldest) = node.held.iter().position(|held| held.0 == crossing.exit)
            && let Some((_, parcel)) = node.held.remove(oldest)
        {
            cx.drop(parcel, Cause::RouteChanged);
        }
    }

    fn send_over(&mut self, station: usize, next: u16, places: u32, parcel: Parcel, cx: &mut Cx<'_>) {
        let port = self.between[station * self.stations.len() + usize::from(next)];
        debug_assert!(port != NO_PORT, "only neighbours are heard");
        self.admit(station, Parcel { hop: places + 2 * u32::from(port), ..parcel }, cx);
    }

    /// The place before the one at which a packet goes on that `at` has received over the place `hop`.
    pub(super) fn place_behind(&self, hop: u32, at: u16) -> u32 {
        let crossing = self.routing.as_ref().map(|routing| routing.crossing_at(hop));
        crossing.filter(|crossing| crossing.exit == at).map_or(hop, |crossing| crossing.behind - 1)
    }

    /// Whether a packet at the place `hop` has reached its end of the channel at `at`.
    pub(super) fn ends_at(&self, hop: u32, at: u16) -> bool {
        self.routing.as_ref().is_none_or(|routing| routing.crossing_at(hop).exit == at)
    }

    /// Does what is due in tables.
    pub(super) fn act_on_routes(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now;
        for index in 0..self.stations.len() {
            let Some(routing) = &mut self.routing else { return };
            let node = &mut routing.nodes[index];
            if node.table.due() <= now
                && let Some((update, wait)) = node.table.act(&routing.plan, now)
            {
                let place = node.delayed.partition_point(|&(at, _)| at <= now + wait);
                node.delayed.insert(place, (now + wait, update));
            }
            let mut queued = false;
            while node.delayed.front().is_some_and(|&(at, _)| at <= now)
                && let Some((_, update)) = node.delayed.pop_front()
            {
                self.stations[index].updates.push_back(update);
                queued = true;
            }
            if queued && self.stations[index].current.is_none() {
                self.fetch(index, cx);
                let station = &mut self.stations[index];
                station.reschedule(&self.rules[station.mac], now);
            }
            self.note_due(index);
        }
        self.note_routes_due();
    }

    /// Notes when a table acts next.
    pub(super) fn note_routes_due(&mut self) {
        let place = 2 * self.stations.len() + 2;
        self.agenda.set(place, self.routing.as_ref().map_or(NEVER, |routing| routing.due()));
    }

    /// The next update of a station becomes what it sends.
    pub(super) fn fetch_update(&mut self, index: usize, cx: &Cx<'_>) -> bool {
        let station = &mut self.stations[index];
        let Some(update) = station.updates.pop_front() else { return false };
        let bytes = update_bytes(&update);
        station.sequence = station.sequence.wrapping_add(1) & 0xfff;
        let mpdu = self.plan.macs[station.mac].mpdu(bytes);
        station.current =
            Some(Msdu { to: EVERYBODY, bytes: mpdu, sequence: station.sequence, ..Msdu::default() });
        station.update = Some(update);
        // Counted where the first of its links starts.
        let port = self.ports.iter().position(|port| usize::from(port.from) == index);
        self.count(port.map_or(NO_PORT, |port| port as u16), cx, |stats| {
            stats.updates += 1;
            stats.update_bytes += u64::from(bytes);
        });
        true
    }

    /// A station has read the update of another.
    pub(super) fn hear_update(&mut self, at: u16, from: u16, cx: &mut Cx<'_>) {
        let port = self.between[usize::from(from) * self.stations.len() + usize::from(at)];
        if port == NO_PORT {
            // Stations of another cell on the same channel.
            return;
        }
        let Some(update) = self.stations[usize::from(from)].update.take() else { return };
        self.count(port, cx, |stats| stats.updates_received += 1);
        if let Some(routing) = &mut self.routing {
            let node = &mut routing.nodes[usize::from(at)];
            node.table.hear(from, &update, &routing.plan, cx.now);
            let mut ready = Vec::new();
            let table = &node.table;
            node.held.retain(|&(exit, parcel)| {
                let route = table.route(exit);
                ready.extend(route.map(|(next, _)| (next, parcel)));
                route.is_none()
            });
            for (next, parcel) in ready {
                self.send_over(usize::from(at), next, parcel.hop, parcel, cx);
            }
        }
        self.stations[usize::from(from)].update = Some(update);
        self.note_routes_due();
    }

    /// Packets that still have no route when the run ends.
    pub(super) fn close_routes(&mut self, cx: &mut Cx<'_>) {
        for node in self.routing.iter_mut().flat_map(|routing| &mut routing.nodes) {
            for (_, parcel) in node.held.drain(..) {
                cx.keep(parcel);
            }
        }
    }
}
