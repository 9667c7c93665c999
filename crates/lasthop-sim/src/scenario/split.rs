//! Split connections: a proxy on the path of a flow makes two flows of it, or more, which share one stream of data.
//!
//! A link says that a proxy stands at its near end (`Direction::split`). Which flows it splits, and where their halves
//! run, follows from the paths; `flows.rs` asks once for each flow.

use std::sync::Arc;

use lasthop_core::time::Time;
use lasthop_net::plan::{FlowPlan, LinkPlan, Part, Relay, Reroute, Split, Start, Traffic, Transport};
use lasthop_net::roaming::possible_paths;
use lasthop_net::routing::{DirectionId, Routes, opposite, start_of};

use super::diagnostic::{ScenarioError, quoted};
use super::paths::{largest_packet, narrowest, too_narrow};
use super::reader::Reader;
use super::topology::Network;

type Result<T> = std::result::Result<T, ScenarioError>;

/// The direction of a link as the plan has it.
fn direction(network: &Network, direction: DirectionId) -> (&LinkPlan, &lasthop_net::plan::Direction) {
    let link = &network.links[direction as usize / 2];
    (link, if direction.is_multiple_of(2) { &link.forward } else { &link.reverse })
}

/// A proxy on a path: its node, and the sender with which it goes on.
struct Stand<'n> {
    node: usize,
    split: &'n Split,
    toward_wireless: bool,
}

/// A path: from when on it is in force, its nodes, and the proxies on it.
type Passed<'n> = (Time, Vec<usize>, Vec<Stand<'n>>);

/// How many proxies every path of a flow passes; an error if that differs.
fn same_count(table: &Reader<'_>, flow: &FlowPlan, paths: &[Passed<'_>], roams: bool) -> Result<usize> {
    let count = paths[0].2.len();
    if let Some((at, _, stands)) = paths.iter().find(|path| path.2.len() != count) {
        if roams {
            let message = format!(
                "flow {} passes {count} of the proxies that split connections over one access point and {} over \
                 another: the connection would begin anew",
                quoted(&flow.name),
                stands.len()
            );
            return Err(table.error(
                "sink",
                message,
                "put a split at each access point, or before all of them",
            ));
        }
        let message = format!(
            "the path of {at} passes {} of the proxies that split connections, and the first path {count}: the \
             connection would begin anew",
            stands.len()
        );
        let remedy = "put a split at a node of each path, or lead the later path over the node of the first";
        return Err(table.error("reroute", message, remedy));
    }
    Ok(count)
}

/// Which proxies there are, and which of them have found a flow.
pub(super) struct Splits<'n> {
    network: &'n Network,
    routes: Routes,
    used: Vec<bool>,
}

impl<'n> Splits<'n> {
    pub(super) fn new(network: &'n Network) -> Splits<'n> {
        let used = vec![false; network.splits.len()];
        // Searched only if there is a proxy.
        let links = if used.is_empty() { &[] } else { network.links.as_slice() };
        Splits { network, routes: Routes::new(network.nodes.len(), links), used }
    }

    /// Refuses proxies that no connection passes.
    pub(super) fn check(&self) -> Result<()> {
        match self.used.iter().position(|used| !used) {
            Some(idle) => Err(self.network.splits[idle].clone()),
            None => Ok(()),
        }
    }

    /// The proxy that stands at the near end of a direction, for a flow that has its ends elsewhere. A link that was
    /// written without `reverse` has one at both: the one where the link begins counts, unless the flow ends there.
    fn at_near_end(&self, of: DirectionId, ends: (usize, usize)) -> Option<&'n Split> {
        let split = direction(self.network, of).1.split.as_ref()?;
        let other = opposite(of);
        let beyond = start_of(&self.network.links, other);
        let other_counts =
            direction(self.network, other).1.split.is_some() && beyond != ends.0 && beyond != ends.1;
        (of.is_multiple_of(2) || !other_counts).then_some(split)
    }

    /// The proxies on a path, in order.
    fn stands(&self, path: &[DirectionId]) -> Vec<Stand<'n>> {
        let (Some(&first), Some(&last)) = (path.first(), path.last()) else { return Vec::new() };
        let ends = (start_of(&self.network.links, first), start_of(&self.network.links, opposite(last)));
        let stand = |pair: &[DirectionId]| {
            let (come, go) = (pair[0], pair[1]);
            let node = start_of(&self.network.links, go);
            // The wireless side is the link at whose end it stands, unless that is a wire and the other is not.
            let swapped = |at: DirectionId, other: DirectionId| {
                !self.network.is_radio(at) && self.network.is_radio(other)
            };
            if let Some(split) = self.at_near_end(go, ends) {
                return Some(Stand { node, split, toward_wireless: !swapped(go, come) });
            }
            let split = self.at_near_end(opposite(come), ends)?;
            Some(Stand { node, split, toward_wireless: swapped(come, go) })
        };
        path.windows(2).filter_map(stand).collect()
    }

    /// The paths of a flow, the first and those that follow it when: their nodes, and the proxies on them. Where a host
    /// chooses its access point as it goes, every path that it may choose, and `true`.
    fn paths(&mut self, flow: &FlowPlan) -> (Vec<Passed<'n>>, bool) {
        let mut roams = false;
        let mut found = Vec::new();
        if flow.reroutes.is_empty() {
            let around = (self.network.media.as_slice(), self.network.roaming.as_slice());
            found = possible_paths(around, &mut self.routes, flow.source, flow.sink);
            roams = !found.is_empty();
        }
        if !roams {
            found.extend(self.routes.path(flow.source, flow.sink));
        }
        let over = |path: &Vec<DirectionId>| {
            let starts = path.iter().map(|&direction| start_of(&self.network.links, direction));
            (Time::ZERO, starts.chain([flow.sink]).collect(), self.stands(path))
        };
        let mut paths: Vec<_> = found.iter().map(over).collect();
        for reroute in flow.reroutes.iter().filter(|_| !found.is_empty()) {
            let Ok(path) = self.routes.along(&reroute.nodes) else { continue };
            paths.push((reroute.at, reroute.nodes.clone(), self.stands(&path)));
        }
        (paths, roams)
    }

    /// The halves of a flow, the one that begins at its source first; alone if no proxy stands in its way. `number`:
    /// that of the first, and `next` that of the second, in the plan.
    pub(super) fn halves(
        &mut self,
        table: &Reader<'_>,
        flow: FlowPlan,
        (number, next): (usize, usize),
    ) -> Result<Vec<FlowPlan>> {
        let Transport::Tcp(config) = &flow.transport else { return Ok(vec![flow]) };
        if self.used.is_empty() {
            return Ok(vec![flow]);
        }
        let (paths, roams) = self.paths(&flow);
        if paths.is_empty() {
            return Ok(vec![flow]);
        }
        let count = same_count(table, &flow, &paths, roams)?;
        if count == 0 {
            return Ok(vec![flow]);
        }
        if flow.realtime.is_some() {
            let message =
                "real-time metrics follow packets from end to end, and a proxy splits the connection"
                    .to_owned();
            return Err(table.error("traffic", message, "send files, or leave out the split"));
        }
        for stand in paths.iter().flat_map(|path| &path.2) {
            self.used[stand.split.number] = true;
        }
        let ends = (flow.source, flow.sink);
        let proxies: Vec<usize> = paths.iter().flat_map(|path| &path.2).map(|stand| stand.node).collect();
        // The window that what arrives over a half sees: of the proxy behind it, or of the receiver.
        let own = (u64::from(config.receiver_window) * u64::from(config.mss()), config.reader);
        let mut halves = Vec::with_capacity(count + 1);
        for half in 0..=count {
            let cut = |(_, nodes, stands): &Passed<'_>| -> Vec<usize> {
                let place = |node: usize| nodes.iter().position(|&other| other == node).unwrap_or(0);
                let begin = half.checked_sub(1).map_or(0, |before| place(stands[before].node));
                let end = stands.get(half).map_or(nodes.len() - 1, |stand| place(stand.node));
                nodes[begin..=end].to_vec()
            };
            let before = half.checked_sub(1).map(|before| &paths[0].2[before]);
            let (buffer, reader) = paths[0].2.get(half).map_or(own, |stand| (stand.split.buffer, None));
            let mut tcp = match before {
                None => config.clone(),
                Some(stand) if stand.toward_wireless => stand.split.to_wireless.clone(),
                Some(stand) => stand.split.to_wired.clone(),
            };
            let mss = u64::from(tcp.mss().max(1));
            let segments = u32::try_from(buffer / mss).unwrap_or(u32::MAX);
            if segments == 0 {
                let message = format!("a proxy with a buffer of {buffer} B holds no segment of {mss} B");
                return Err(table.error(
                    "transport",
                    message,
                    "raise buffer in the split, or lower packet_size",
                ));
            }
            let changed = Arc::make_mut(&mut tcp);
            (changed.receiver_window, changed.reader) = (segments, reader);
            let transport = Transport::Tcp(tcp);
            let mut nodes = cut(&paths[0]);
            let (source, sink) = (nodes[0], nodes[nodes.len() - 1]);
            let name = match before {
                None => flow.name.clone(),
                Some(stand) => format!("{}@{}", flow.name, self.network.nodes[stand.node]),
            };
            self.check_packets(table, &transport, paths.iter().map(cut))?;
            let first_path = Some(nodes.clone().into_boxed_slice());
            let mut reroutes = Vec::new();
            for (path, reroute) in paths[1..].iter().zip(&flow.reroutes) {
                let later = cut(path);
                if later != nodes {
                    nodes.clone_from(&later);
                    reroutes.push(Reroute { at: path.0, nodes: later, under_way: reroute.under_way });
                }
            }
            let relay = before.map(|stand| Relay {
                of: if half == 1 { number } else { next + half - 2 },
                late: stand.split.late,
                backhaul: stand.split.backhaul,
                transfer: stand.split.transfer,
                moves: stand.split.moves,
                zero_windows: stand.split.zero_windows && stand.toward_wireless,
                split: (stand.split.number, stand.toward_wireless),
            });
            let part = roams.then(|| Part { ends, proxies: proxies.clone(), number: half });
            let is_first = half == 0;
            halves.push(FlowPlan {
                name,
                source,
                sink,
                transport,
                traffic: if is_first { flow.traffic.clone() } else { Traffic::ENDLESS },
                start: if is_first { flow.start.clone() } else { Start::At(Time::ZERO) },
                stop: flow.stop.filter(|_| is_first),
                realtime: None,
                first_path,
                reroutes,
                dscp: flow.dscp,
                part,
                relay,
                exchange: flow.exchange.filter(|_| is_first),
                class: None,
            });
        }
        Ok(halves)
    }

    /// Refuses a half whose links do not take its largest packet.
    fn check_packets(
        &self,
        table: &Reader<'_>,
        transport: &Transport,
        paths: impl Iterator<Item = Vec<usize>>,
    ) -> Result<()> {
        let largest = largest_packet(transport, &Traffic::ENDLESS);
        for pair in paths.flat_map(|path| path.windows(2).map(|pair| [pair[0], pair[1]]).collect::<Vec<_>>())
        {
            if let Some(link) = too_narrow((self.network, &self.routes), &pair, largest) {
                let (direction_name, direction) = narrowest(link);
                let name = quoted(&format!("{}{direction_name}", link.name));
                let message = format!(
                    "packets of {largest} B of one half of a split connection do not pass link {name}: its mtu is {} B",
                    direction.mtu
                );
                return Err(table.error(
                    "transport",
                    message,
                    "raise mtu, or give the senders a smaller packet_size",
                ));
            }
        }
        Ok(())
    }
}
