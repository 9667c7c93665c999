//! Paths of flows: whether there is one, later ones in its place, and whether their links take the packets.
//!
//! Called by `flows.rs`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use lasthop_core::time::{Span, Time};
use lasthop_net::plan::{Direction, LinkPlan, Reroute, Traffic, Transport, UnderWay};
use lasthop_net::routing::Routes;

use super::declare::table;
use super::diagnostic::{ScenarioError, listed, quoted, suggest};
use super::keys::{Kind, SOME_TIME};
use super::reader::{Checked, Item, Reader};
use super::roaming::UNDER_WAY;
use super::topology::Network;

type Result<T> = std::result::Result<T, ScenarioError>;

pub(super) static A_REROUTE: Kind = Kind::Table(&REROUTE);

table! {
    /// A path and the time from which the flow takes it, in both directions.
    static REROUTE = "reroute";
    struct RerouteKeys<'n> {
        /// From when on.
        at: Span = SOME_TIME, required();
        /// All nodes of the path, from the source to the sink.
        nodes: Vec<Item<'n>> = Kind::List(&Kind::Text), required_or("add nodes = [\"server\", \"router\", \"phone\"]");
        /// What happens to packets in flight on the old path: from the next node on they take the new one, or they are
        /// lost there.
        under_way: UnderWay = UNDER_WAY, default("\"divert\"");
    }
}

/// Most changes of the path of a flow.
const MOST_REROUTES: usize = 1_000;
/// Of all flows together: each holds its own.
pub(super) const MOST_REROUTES_OF_ALL: usize = 1_000_000;

/// The later paths of a flow.
pub(super) fn reroutes(
    table: &Reader<'_>,
    listed: Option<&[Reader<'_>]>,
    (source, sink): (usize, usize),
    paths: &Paths<'_>,
    numbers: &BTreeMap<&str, usize>,
) -> Result<Vec<Reroute>> {
    let network = paths.network;
    let Some(listed) = listed else { return Ok(Vec::new()) };
    if network.media.iter().any(|medium| medium.routing.is_some()) {
        let message = "a flow changes its path, and a channel finds its routes by DSDV".to_owned();
        return Err(table.error("reroute", message, "write routing = \"static\", or leave out reroute"));
    }
    if listed.len() > MOST_REROUTES {
        let message = format!("{} changes of the path, more than {MOST_REROUTES}", listed.len());
        return Err(table.error("reroute", message, "list fewer"));
    }
    let mut reroutes: Vec<Reroute> = Vec::with_capacity(listed.len());
    for reroute in listed {
        let RerouteKeys { at, nodes, under_way } = RerouteKeys::read(reroute)?;
        let at = Time(at.0);
        if let Some(before) = reroutes.last().map(|before| before.at)
            && at <= before
        {
            let message = format!("the path of {at} does not come after the one of {before}");
            return Err(reroute.error("at", message, "write the paths in the order of time"));
        }
        let nodes = path_nodes(reroute, nodes, (source, sink), paths, numbers)?;
        reroutes.push(Reroute { at, nodes, under_way });
    }
    Ok(reroutes)
}

/// The nodes of a path: known, each once, joined by links, from the source to the sink.
fn path_nodes(
    reroute: &Reader<'_>,
    listed: Vec<Item<'_>>,
    (source, sink): (usize, usize),
    paths: &Paths<'_>,
    numbers: &BTreeMap<&str, usize>,
) -> Result<Vec<usize>> {
    let network = paths.network;
    let quoted_node = |node: usize| quoted(&network.nodes[node]);
    let mut nodes = Vec::new();
    let mut passed = BTreeSet::new();
    for item in listed {
        let Checked::Text(name) = item.value else { continue };
        let Some(&node) = numbers.get(name) else {
            let known: Vec<&str> = numbers.keys().copied().collect();
            let message = format!("unknown node {}", quoted(name));
            return Err(reroute.source.error(item.place, message, &suggest(name, &known)));
        };
        if !passed.insert(node) {
            let message = format!("the path passes {} twice", quoted(name));
            return Err(reroute.source.error(item.place, message, "name each node once"));
        }
        nodes.push(node);
    }
    if nodes.first() != Some(&source) || nodes.last() != Some(&sink) {
        let (source, sink) = (quoted_node(source), quoted_node(sink));
        let message = format!("the path does not lead from {source} to {sink}");
        return Err(reroute.error("nodes", message, "begin with the flow's source and end with its sink"));
    }
    if let Err(pair) = paths.routes.along(&nodes) {
        let message = format!("no link joins {} and {}", quoted_node(pair.0), quoted_node(pair.1));
        return Err(reroute.error("nodes", message, "add a link, or name the nodes between them"));
    }
    Ok(nodes)
}

/// Refuses later paths whose links do not take the largest packet.
pub(super) fn check_reroutes(
    table: &Reader<'_>,
    transport: &Transport,
    traffic: &Traffic,
    reroutes: &[Reroute],
    paths: &Paths<'_>,
) -> Result<()> {
    let largest = largest_packet(transport, traffic);
    for pair in reroutes.iter().flat_map(|reroute| reroute.nodes.windows(2)) {
        if let Some(link) = too_narrow((paths.network, &paths.routes), pair, largest) {
            let (direction_name, direction) = narrowest(link);
            let name = quoted(&format!("{}{direction_name}", link.name));
            let message = format!(
                "packets of {largest} B do not fit link {name} of a later path, mtu {} B",
                direction.mtu
            );
            return Err(table.error("reroute", message, "raise its mtu, or send smaller packets"));
        }
    }
    Ok(())
}

/// The first link from one node to another that does not take packets of this many bytes, if there is one.
pub(super) fn too_narrow<'n>(
    (network, routes): (&'n Network, &Routes),
    pair: &[usize],
    largest: u32,
) -> Option<&'n LinkPlan> {
    let joining = routes.joining(pair[0], pair[1]);
    joining
        .map(|direction| &network.links[direction as usize / 2])
        .find(|link| narrowest(link).1.mtu < largest)
}

/// Checks that the network connects both ends, and that every link on a shortest path takes the largest
/// packet.
pub(super) fn check_path(
    table: &Reader<'_>,
    transport: &Transport,
    traffic: &Traffic,
    (source, sink): (usize, usize),
    paths: &Paths<'_>,
) -> Result<()> {
    let nodes = &paths.network.nodes;
    if paths.parts[source] != paths.parts[sink] {
        let reached: Vec<&str> = (nodes.iter().zip(&paths.parts).enumerate())
            .filter(|&(node, (_, part))| node != source && *part == paths.parts[source])
            .map(|(_, (name, _))| name.as_str())
            .collect();
        let (source, sink) = (quoted(&nodes[source]), quoted(&nodes[sink]));
        let remedy = match reached[..] {
            [] => format!("no link touches {source}: add one in [[topology.links]]"),
            _ => format!("add a link; {source} reaches {}", listed(&reached)),
        };
        return Err(table.error("sink", format!("no path leads from {source} to {sink}"), &remedy));
    }
    let largest = largest_packet(transport, traffic);
    let Some(link) = paths.too_narrow(source, sink, largest) else { return Ok(()) };
    let (direction_name, direction) = narrowest(link);
    let name = format!("{}{direction_name}", link.name);
    let (mtu, excess) = (direction.mtu, largest - direction.mtu);
    let message = format!("packets of {largest} B do not pass link {}: its mtu is {mtu} B", quoted(&name));
    let (key, remedy) = match transport {
        Transport::Udp(udp) if traffic.offered().video().is_some() && udp.payload > excess => {
            let payload = udp.payload - excess;
            ("traffic", format!("write payload = \"{payload} B\" in [udp], or raise mtu"))
        }
        Transport::Udp(_) => ("traffic", format!("send {excess} B less in a packet, or raise mtu")),
        Transport::Outside(_) => ("transport", "raise mtu".to_owned()),
        Transport::Tcp(config) => match config.packet_size.checked_sub(excess) {
            Some(size @ 1..) => ("transport", format!("write packet_size = \"{size} B\", or raise mtu")),
            _ => ("transport", "raise mtu".to_owned()),
        },
        Transport::Rate(config) => match config.packet_size.checked_sub(excess) {
            Some(size) if size > config.data_header() => {
                let size =
                    format!("write transport = {{ rate = ..., packet_size = \"{size} B\" }}, or raise mtu");
                ("transport", size)
            }
            _ => ("transport", "raise mtu".to_owned()),
        },
    };
    Err(table.error(key, message, &remedy))
}

/// The network as paths see it, prepared once for all flows.
pub(super) struct Paths<'a> {
    network: &'a Network,
    routes: Routes,
    neighbours: Vec<Vec<usize>>,
    /// The connected part of the network to which each node belongs.
    parts: Vec<usize>,
    /// Least MTU of all links: what fits it needs no path to be looked for.
    least_mtu: u32,
}

impl Paths<'_> {
    pub(super) fn new(network: &Network) -> Paths<'_> {
        let mut neighbours = vec![Vec::new(); network.nodes.len()];
        for link in &network.links {
            neighbours[link.from].push(link.to);
            neighbours[link.to].push(link.from);
        }
        let least_mtu = network.links.iter().map(|link| narrowest(link).1.mtu).min().unwrap_or(u32::MAX);
        let parts = vec![usize::MAX; network.nodes.len()];
        let routes = Routes::new(network.nodes.len(), &network.links);
        let mut paths = Paths { network, routes, neighbours, parts, least_mtu };
        for node in 0..network.nodes.len() {
            if paths.parts[node] == usize::MAX {
                let mut part = vec![node];
                while let Some(reached) = part.pop() {
                    if paths.parts[reached] == usize::MAX {
                        paths.parts[reached] = node;
                        part.extend(&paths.neighbours[reached]);
                    }
                }
            }
        }
        paths
    }

    /// Name and rate in bit/s of the slowest link on the way from one node to another.
    pub(super) fn slowest(&mut self, (source, sink): (usize, usize)) -> (&str, f64) {
        let links = &self.network.links;
        let way = self.routes.path(source, sink).unwrap_or_default();
        let along = way.into_iter().map(|direction| {
            let link = &links[direction as usize / 2];
            let side = if direction % 2 == 0 { &link.forward } else { &link.reverse };
            (link.name.as_str(), side.rate.0 as f64)
        });
        along.min_by(|one, other| one.1.total_cmp(&other.1)).unwrap_or(("", f64::INFINITY))
    }

    /// A link on some shortest path from `source` to `sink` that does not take packets of `largest` bytes.
    fn too_narrow(&self, source: usize, sink: usize, largest: u32) -> Option<&LinkPlan> {
        if largest <= self.least_mtu {
            return None;
        }
        let from_source = self.distances(source);
        let from_sink = self.distances(sink);
        let length = from_source[sink]?;
        let on_path = |link: &LinkPlan| {
            let through = |one: usize, other: usize| match (from_source[one], from_sink[other]) {
                (Some(before), Some(after)) => before + 1 + after == length,
                _ => false,
            };
            through(link.from, link.to) || through(link.to, link.from)
        };
        self.network.links.iter().find(|link| narrowest(link).1.mtu < largest && on_path(link))
    }

    /// Links between `start` and every node; `None` where no path leads.
    fn distances(&self, start: usize) -> Vec<Option<usize>> {
        let mut distances = vec![None; self.neighbours.len()];
        distances[start] = Some(0);
        let mut queue = VecDeque::from([(start, 0)]);
        while let Some((node, distance)) = queue.pop_front() {
            for &next in &self.neighbours[node] {
                if distances[next].is_none() {
                    distances[next] = Some(distance + 1);
                    queue.push_back((next, distance + 1));
                }
            }
        }
        distances
    }
}

/// The direction of `link` with the smaller MTU, and what its name adds to that of the link.
pub(super) fn narrowest(link: &LinkPlan) -> (&'static str, &Direction) {
    if link.reverse.mtu < link.forward.mtu { (" (reverse)", &link.reverse) } else { ("", &link.forward) }
}

/// The largest packet that either end of a flow sends.
pub(super) fn largest_packet(transport: &Transport, traffic: &Traffic) -> u32 {
    match transport {
        Transport::Tcp(config) => {
            let blocks = if config.recovery.uses_sack() { config.sack_blocks } else { 0 };
            config.largest_packet().max(config.largest_ack(blocks))
        }
        Transport::Rate(config) => config.largest_packet().max(config.feedback_size()),
        // A QUIC packet that opens a connection (RFC 9000 section 14.1); longer ones are found to pass, or not.
        Transport::Outside(config) => config.datagram.min(1200) + config.header,
        Transport::Udp(udp) => {
            let write = traffic.offered().largest_write().unwrap_or(u64::MAX).min(u64::from(u32::MAX)) as u32;
            write.min(udp.payload) + udp.header
        }
    }
}
