//! The places of a flow whose path changes while the run goes on.
//!
//! The ways of all its paths lie in the table of places, cut at every node by a port of the flow's router (see
//! `device/router.rs`), which sends each packet on by the path in force. From nodes that only an old path touches,
//! detours are laid to the new one by the fewest links, without those that only paths out of force use: after a handoff
//! they are gone. Where paths follow a host from one access point to another, only its radio links are.

use std::collections::HashMap;

use lasthop_core::time::Time;

use super::Network;
use super::path::{Hop, Place, Ways, Wiring};
use crate::device::router::{Router, Stop};
use crate::device::{Device, DeviceId, Move, NOWHERE, OUTBOUND};
use crate::plan::{LinkPlan, UnderWay};
use crate::routing::{DirectionId, Routes, opposite, start_of};

/// Which way a packet runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Toward {
    Sink,
    Source,
}

/// The paths of a flow, as directions of links.
pub(crate) struct Paths {
    /// All of them, the first one first. One without links stands for none.
    pub(crate) all: Vec<Vec<DirectionId>>,
    /// When which comes into force.
    pub(crate) changes: Vec<(Time, usize, UnderWay)>,
    /// The radio links of hosts that go from one access point to another, if the paths follow them.
    pub(crate) roaming: Vec<u32>,
}

/// A node on a path, with the way that leads on from it.
type Stand = (usize, usize, Toward);

/// Lays the ways of one flow.
struct Layout<'a> {
    network: &'a mut Network,
    wiring: &'a Wiring,
    links: &'a [LinkPlan],
    flow: u32,
    /// First port of the router.
    first_port: u32,
    stops: Vec<(Stop, Stand)>,
    /// The place behind the port at which a path leads on.
    onward: HashMap<Stand, u32>,
    /// Whether the source, or the sink, stands at another node on some path: there packets turn, too.
    moves: (bool, bool),
}

impl Layout<'_> {
    /// The node at which a direction starts.
    fn start_of(&self, direction: DirectionId) -> usize {
        start_of(self.links, direction)
    }

    /// Adds a port of the router, without saying yet where it leads.
    fn add_stop(&mut self, stand: Stand, at_source: bool) {
        let port = self.first_port + self.stops.len() as u32;
        self.network.hops.push(Hop::new(self.flow, Place::Port(port), false));
        self.stops.push((Stop { path: stand.0, at_source, onward: Vec::new() }, stand));
    }

    /// Lays the way over these directions up to its end, or up to a node from which the path leads on already.
    fn lay(&mut self, epoch: usize, toward: Toward, path: &[DirectionId], end: usize, is_detour: bool) {
        for (index, &direction) in path.iter().enumerate() {
            let stand = (epoch, self.start_of(direction), toward);
            self.add_stop(stand, index == 0 && !is_detour);
            if is_detour && self.onward.contains_key(&stand) {
                return;
            }
            self.onward.insert(stand, self.network.hops.len() as u32);
            self.network.add_places(self.wiring, self.flow, direction);
        }
        let moves = if toward == Toward::Sink { self.moves.1 } else { self.moves.0 };
        if moves {
            let stand = (epoch, end, toward);
            self.add_stop(stand, false);
            if self.onward.contains_key(&stand) {
                return;
            }
            self.onward.insert(stand, self.network.hops.len() as u32);
        }
        match toward {
            Toward::Sink => {
                self.network.hops.push(Hop::new(self.flow, Place::Receiver, false));
                // Its answers start here.
                if is_detour {
                    self.add_stop((epoch, end, Toward::Source), true);
                }
            }
            Toward::Source => self.network.hops.push(Hop::new(self.flow, Place::Sender, true)),
        }
    }
}

impl Network {
    /// Adds the ways of the next flow, whose path changes.
    pub(super) fn add_changing_ways(
        &mut self,
        (wiring, routes): (&mut Wiring, &mut Routes),
        links: &[LinkPlan],
        flow: u32,
        paths: &Paths,
    ) {
        let name = format!("router of flow {}", self.known.names[flow as usize]);
        let router = self.add_device(
            wiring,
            (Device::Router(Box::new(Router::new(paths.changes.clone(), !paths.roaming.is_empty()))), &name),
            0,
            NOWHERE,
        );
        // Source and sink of each path; none has those of the first.
        let ends_of = |path: &Vec<DirectionId>| {
            let path = if path.is_empty() { &paths.all[0] } else { path };
            let (first, last) = (path.first().copied(), path.last().copied());
            let node = |direction: Option<DirectionId>| direction.map_or(0, |to| start_of(links, to));
            (node(first), node(last.map(opposite)))
        };
        let ends: Vec<(usize, usize)> = paths.all.iter().map(ends_of).collect();
        let moves = (ends.iter().any(|end| end.0 != ends[0].0), ends.iter().any(|end| end.1 != ends[0].1));
        let mut layout = Layout {
            first_port: self.ports.len() as u32,
            network: self,
            wiring,
            links,
            flow,
            stops: Vec::new(),
            onward: HashMap::new(),
            moves,
        };
        let mut starts = vec![None; paths.all.len()];
        for (path, epoch) in paths.all.iter().zip(0usize..) {
            if path.is_empty() {
                continue;
            }
            let (source, sink) = ends[epoch];
            let forward = layout.network.hops.len() as u32;
            starts[epoch] = Some(forward);
            layout.lay(epoch, Toward::Sink, path, sink, false);
            let back = layout.network.hops.len() as u32;
            let reversed: Vec<DirectionId> =
                path.iter().rev().map(|&direction| opposite(direction)).collect();
            layout.lay(epoch, Toward::Source, &reversed, source, false);
            if epoch == 0 {
                layout.network.ways.push(Ways { forward, back });
            }
        }
        // Where each stop leads under each path; detours add stops of their own.
        let epochs = paths.all.len();
        let links_of =
            |path: &Vec<DirectionId>| path.iter().map(|direction| direction / 2).collect::<Vec<u32>>();
        let used: Vec<Vec<u32>> = paths.all.iter().map(links_of).collect();
        let abandoned = |epoch: usize| -> Vec<u32> {
            // A host leaves its access point, the wires behind that stay.
            let others = if paths.roaming.is_empty() { used.concat() } else { paths.roaming.clone() };
            others.into_iter().filter(|link| !used[epoch].contains(link)).collect()
        };
        let mut next = 0;
        while next < layout.stops.len() {
            let (Stop { at_source, .. }, (_, node, toward)) = layout.stops[next];
            let mut onward = Vec::with_capacity(epochs);
            for (epoch, &(source, sink)) in ends.iter().enumerate() {
                let (start, end) = if toward == Toward::Sink { (source, sink) } else { (sink, source) };
                // What has only just been sent starts where its end stands now.
                let node = if at_source { start } else { node };
                let stand = (epoch, node, toward);
                if !layout.onward.contains_key(&stand)
                    && !paths.all[epoch].is_empty()
                    && let Some(detour) = routes.path_avoiding(node, end, &abandoned(epoch))
                {
                    layout.lay(epoch, toward, &detour, end, true);
                }
                onward.push(layout.onward.get(&stand).copied());
            }
            layout.stops[next].0.onward = onward;
            next += 1;
        }
        let stops: Vec<Stop> = layout.stops.into_iter().map(|(stop, _)| stop).collect();
        self.ports.extend((0..stops.len() as u32).map(|port| (router, port)));
        if let Device::Router(device) = &mut self.devices[router as usize].device {
            device.set_stops(stops);
        }
        self.plan_moves(flow, paths, &starts);
    }

    /// Tells the agents that the host of a flow leaves with each change of its path to which of their kind it comes.
    /// A path without links only parts two others.
    fn plan_moves(&mut self, flow: u32, paths: &Paths, starts: &[Option<u32>]) {
        let kinds: [fn(&Device) -> bool; 2] =
            [|device| matches!(device, Device::Snoop(_)), |device| matches!(device, Device::Wtcp(_))];
        let agents = |start: u32, of_kind: fn(&Device) -> bool| -> Vec<(DeviceId, u32)> {
            let way = self.hops[start as usize..].iter().zip(start..);
            let way = way.take_while(|(hop, _)| hop.place() != Place::Receiver);
            way.filter_map(|(hop, place)| {
                let Place::Port(port) = hop.place() else { return None };
                let (device, port) = self.ports[port as usize];
                let is_agent = of_kind(&self.devices[device as usize].device);
                (is_agent && port == OUTBOUND).then_some((device, place))
            })
            .collect()
        };
        let mut moves: Vec<(DeviceId, Move)> = Vec::new();
        let mut present = starts.first().copied().flatten();
        for &(at, epoch, _) in &paths.changes {
            let Some(next) = starts[epoch] else { continue };
            let Some(last) = present.replace(next) else { continue };
            for of_kind in kinds {
                let (old, new) = (agents(last, of_kind), agents(next, of_kind));
                let stays = |device: DeviceId, others: &[(DeviceId, u32)]| {
                    others.iter().any(|&(other, _)| other == device)
                };
                let left = old.iter().filter(|&&(device, _)| !stays(device, &new));
                let reached = new.iter().filter(|&&(device, _)| !stays(device, &old));
                let pairs = left.zip(reached);
                moves.extend(pairs.map(|(&(from, _), &(to, hop))| (from, Move { at, flow, to, hop })));
            }
        }
        for (from, leaves) in moves {
            self.devices[from as usize].device.add_move(leaves);
        }
    }
}
