//! Flows: who sends to whom, over which transport, what and when; and whether the network can carry it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;
use lasthop_net::plan::{
    Direction, FlowPlan, FramePlan, LinkPlan, Reroute, Start, Traffic, Transport, UnderWay,
};
use lasthop_net::routing::Routes;
use lasthop_net::traffic::video::Packing;

use super::diagnostic::{ScenarioError, listed, quoted, suggest};
use super::input_file::InputFiles;
use super::keys::{MOST_FLOWS, MOST_FRAMES};
use super::reader::{Checked, Item, Reader};
use super::realtime::Settings;
use super::split::Splits;
use super::topology::{Network, node};
use super::transport::Shared;
use super::video;

type Result<T> = std::result::Result<T, ScenarioError>;

/// One `[[flows]]` table and the number of flows that it stands for.
pub(super) struct FlowTable<'n> {
    table: Reader<'n>,
    count: usize,
}

/// Opens the `[[flows]]` tables and counts the flows, before anything is made of them.
pub(super) fn open<'n>(root: &Reader<'n>) -> Result<(Vec<FlowTable<'n>>, u64)> {
    let mut tables = Vec::new();
    let mut total = 0;
    for Item { value, .. } in root.list("flows")? {
        let Checked::Table(table) = value else { continue };
        let count = table.integer("count")?;
        total += count;
        if total > MOST_FLOWS {
            let message = format!("more than {MOST_FLOWS} flows");
            return Err(table.error("count", message, "lower count"));
        }
        tables.push(FlowTable { table, count: count as usize });
    }
    Ok((tables, total))
}

/// What the flows of a scenario have in common.
pub(super) struct Run<'a> {
    pub(super) network: &'a Network,
    pub(super) duration: Span,
    /// Most events of the run.
    pub(super) events: u64,
    pub(super) realtime: &'a Settings<'a>,
}

/// Resolves all flows.
pub(super) fn read<'n>(
    tables: &[FlowTable<'n>],
    shared: &Shared<'n>,
    run: &Run<'_>,
    files: &mut InputFiles<'_>,
) -> Result<Vec<FlowPlan>> {
    let total: usize = tables.iter().map(|flow| flow.count).sum();
    let numbers: BTreeMap<&str, usize> =
        run.network.nodes.iter().enumerate().map(|(number, name)| (name.as_str(), number)).collect();
    let ends: Vec<Ends> =
        tables.iter().map(|flow| ends(&flow.table, run.network, &numbers)).collect::<Result<_>>()?;
    let paths = Paths::new(run.network);
    let mut free = free_pairs(&ends, run.network);
    let mut free_back = free_pairs(&ends, run.network);

    let mut flows: Vec<FlowPlan> = Vec::with_capacity(total);
    let mut names = BTreeSet::new();
    let mut reroutes_of_all = 0;
    for (flow, ends) in tables.iter().zip(ends) {
        let table = &flow.table;
        let transport = match table.value("transport")? {
            Checked::Transport(node) => shared.transport(table.source, node)?,
            _ => panic!("`transport` is declared as a transport"),
        };
        let transport = with_reader(table, transport)?;
        let (start, stop) = times(table, run.duration)?;
        let traffic = traffic(table, &transport, files)?;
        check_load(table, (&transport, &traffic), flow.count, (start, stop), run)?;
        let base = table.text("name")?;
        // Between the same nodes all copies have the same later paths.
        let (mut lead, mut later) = ((0, 0), Vec::new());
        for copy in 0..flow.count {
            let number = flows.len() + 1;
            let lone = flow.count == 1 && (table.has("name") || total == 1);
            let name = if lone { base.to_owned() } else { format!("{base}-{number}") };
            if !names.insert(name.clone()) {
                let message = format!("two flows are called {}", quoted(&name));
                return Err(table.error("name", message, "give each flow its own name"));
            }
            let (source, sink) = match ends {
                Ends::Nodes(source, sink) => (source, sink),
                Ends::NextPair { reverse } => {
                    let free = if reverse && run.network.both_ways { &mut free_back } else { &mut free };
                    let pair = free.next().ok_or_else(|| no_free_pair(table, run.network, total))?;
                    let (source, sink) = (pair, run.network.sink(pair));
                    if reverse { (sink, source) } else { (source, sink) }
                }
            };
            if copy == 0 {
                check_path(table, &transport, &traffic, (source, sink), &paths)?;
            }
            if copy == 0 || (source, sink) != lead {
                lead = (source, sink);
                later = reroutes(table, lead, &paths, &numbers)?;
                check_reroutes(table, &transport, &traffic, &later, &paths)?;
            }
            reroutes_of_all += later.len();
            if reroutes_of_all > MOST_REROUTES_OF_ALL {
                let message = format!("more than {MOST_REROUTES_OF_ALL} changes of paths in all");
                return Err(table.error("reroute", message, "list fewer, or lower count"));
            }
            flows.push(FlowPlan {
                name,
                source,
                sink,
                transport: transport.clone(),
                traffic: traffic.clone(),
                start,
                stop,
                realtime: run.realtime.of_flow(&traffic),
                first_path: None,
                part: None,
                reroutes: later.clone(),
                relay: None,
            });
        }
    }
    run.realtime.check(&flows)?;
    Ok(flows)
}

/// Makes several flows of each whose connection a proxy splits, when it is known where proxies stand.
pub(super) fn split(
    tables: &[FlowTable<'_>],
    network: &Network,
    flows: Vec<FlowPlan>,
) -> Result<Vec<FlowPlan>> {
    if network.splits.is_empty() {
        return Ok(flows);
    }
    let mut splits = Splits::new(network);
    let total = flows.len();
    let mut names: BTreeSet<String> = flows.iter().map(|flow| flow.name.clone()).collect();
    let (mut first, mut relayed) = (Vec::with_capacity(total), Vec::new());
    let tables = tables.iter().flat_map(|flow| std::iter::repeat_n(&flow.table, flow.count));
    for (flow, table) in flows.into_iter().zip(tables) {
        let mut halves = splits.halves(table, flow, (first.len(), total + relayed.len()))?.into_iter();
        first.extend(halves.next());
        for half in halves {
            if !names.insert(half.name.clone()) {
                let name = quoted(&half.name);
                let message = format!("half of a split connection is called {name}, and so is a flow");
                return Err(table.error("name", message, "give the flow another name"));
            }
            relayed.push(half);
        }
    }
    splits.check()?;
    // Behind all flows that the scenario names: their numbers stay what they are.
    first.append(&mut relayed);
    Ok(first)
}

/// The transport with an application at the receiver that takes its time, if the flow has one.
fn with_reader(table: &Reader<'_>, mut transport: Transport) -> Result<Transport> {
    if !table.has("reader") {
        return Ok(transport);
    }
    let Transport::Tcp(config) = &mut transport else {
        let message = "only TCP has a window that a slow reader closes".to_owned();
        return Err(table.error("reader", message, "leave it out, or choose a TCP transport"));
    };
    if let Checked::Rate(rate) = table.value("reader")? {
        Arc::make_mut(config).reader = Some(rate);
    }
    Ok(transport)
}

/// Between which nodes a flow runs.
#[derive(Clone, Copy)]
enum Ends {
    Nodes(usize, usize),
    /// The next pair of a dumbbell that no flow uses.
    NextPair {
        reverse: bool,
    },
}

fn ends(table: &Reader<'_>, network: &Network, numbers: &BTreeMap<&str, usize>) -> Result<Ends> {
    let direction = table.name_if("direction")?;
    let named = table.has("source") || table.has("sink");
    if network.pairs.is_none() && direction.is_some() {
        let message = "direction is for dumbbells".to_owned();
        return Err(table.error("direction", message, "in a graph, source and sink say it all"));
    }
    if !named && network.pairs.is_some() {
        return Ok(Ends::NextPair { reverse: direction == Some("reverse") });
    }
    if direction.is_some() {
        let message = "direction is for flows without source and sink".to_owned();
        return Err(table.error("direction", message, "leave it out, or exchange source and sink"));
    }
    // A wrong name first: the other end may be missing because a dumbbell gives both.
    for key in ["source", "sink"] {
        if table.has(key) {
            node(table, key, numbers)?;
        }
    }
    for key in ["source", "sink"] {
        if !table.has(key) {
            let known: Vec<&str> = network.nodes.iter().map(String::as_str).collect();
            let message = format!("missing key \"{key}\" in flow");
            let remedy = format!("add {key} = \"{}\"; nodes: {}", known[0], listed(&known));
            return Err(table.source.error(table.place, message, &remedy));
        }
    }
    let source = node(table, "source", numbers)?;
    let sink = node(table, "sink", numbers)?;
    if source == sink {
        let message =
            format!("the flow's source and sink are the same node, {}", quoted(&network.nodes[sink]));
        return Err(table.error("sink", message, "write another node"));
    }
    Ok(Ends::Nodes(source, sink))
}

/// Most changes of the path of a flow.
const MOST_REROUTES: usize = 1_000;
/// Of all flows together: each holds its own.
const MOST_REROUTES_OF_ALL: usize = 1_000_000;

/// The later paths of a flow.
fn reroutes(
    table: &Reader<'_>,
    (source, sink): (usize, usize),
    paths: &Paths<'_>,
    numbers: &BTreeMap<&str, usize>,
) -> Result<Vec<Reroute>> {
    let network = paths.network;
    let Some(listed) = table.list_if("reroute")? else { return Ok(Vec::new()) };
    if network.media.iter().any(|medium| medium.routing.is_some()) {
        let message = "a flow changes its path, and a channel finds its routes by DSDV".to_owned();
        return Err(table.error("reroute", message, "write routing = \"static\", or leave out reroute"));
    }
    if listed.len() > MOST_REROUTES {
        let message = format!("{} changes of the path, more than {MOST_REROUTES}", listed.len());
        return Err(table.error("reroute", message, "list fewer"));
    }
    let mut reroutes: Vec<Reroute> = Vec::with_capacity(listed.len());
    for item in listed {
        let Checked::Table(reroute) = item.value else { continue };
        let at = Time(reroute.span("at")?.0);
        if let Some(before) = reroutes.last().map(|before| before.at)
            && at <= before
        {
            let message = format!("the path of {at} does not come after the one of {before}");
            return Err(reroute.error("at", message, "write the paths in the order of time"));
        }
        let nodes = path_nodes(&reroute, (source, sink), paths, numbers)?;
        let under_way = if reroute.name("under_way")? == "lose" { UnderWay::Lose } else { UnderWay::Divert };
        reroutes.push(Reroute { at, nodes, under_way });
    }
    Ok(reroutes)
}

/// The nodes of a path: known, each once, joined by links, from the source to the sink.
fn path_nodes(
    reroute: &Reader<'_>,
    (source, sink): (usize, usize),
    paths: &Paths<'_>,
    numbers: &BTreeMap<&str, usize>,
) -> Result<Vec<usize>> {
    let network = paths.network;
    let quoted_node = |node: usize| quoted(&network.nodes[node]);
    let mut nodes = Vec::new();
    let mut passed = BTreeSet::new();
    for item in reroute.list("nodes")? {
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
fn check_reroutes(
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

/// The pairs of a dumbbell, or stations of a wlan, that no flow names, in order.
fn free_pairs(ends: &[Ends], network: &Network) -> impl Iterator<Item = usize> + use<> {
    let mut used = BTreeSet::new();
    for ends in ends {
        if let Ends::Nodes(source, sink) = *ends {
            used.extend([source, sink].into_iter().filter_map(|node| network.pair_of(node)));
        }
    }
    (0..network.pairs.unwrap_or(0)).filter(move |pair| !used.contains(pair))
}

fn no_free_pair(table: &Reader<'_>, network: &Network, total: usize) -> ScenarioError {
    let pairs = network.pairs.unwrap_or(0);
    if network.server.is_some() {
        let message = format!("no station is left for this flow: {pairs} stations, {total} flows");
        return table.error("count", message, "raise stations in [topology], or name source and sink");
    }
    if network.both_ways {
        let message = format!("no pair of stations is left for this flow: {pairs} pairs, {total} flows");
        return table.error("count", message, "raise stations in [topology], or name source and sink");
    }
    let message = format!("no pair of the dumbbell is left for this flow: {pairs} pairs, {total} flows");
    table.error("count", message, "raise pairs in [topology], or name source and sink")
}

fn times(table: &Reader<'_>, duration: Span) -> Result<(Start, Option<Time>)> {
    let start = match table.value("start")? {
        Checked::Span(start) => Start::At(Time(start.0)),
        Checked::Table(start) => uniform(&start)?,
        _ => panic!("`start` is declared as a time or a table"),
    };
    let latest = match start {
        Start::At(time) | Start::Uniform(_, time) => time,
    };
    if table.has("start") && latest.0 > duration.0 || matches!(start, Start::At(at) if at.0 == duration.0) {
        let message = format!("the flow starts at {latest}, after the run of {duration}");
        return Err(table.error("start", message, "start it earlier, or raise duration"));
    }
    let stop = table.span_if("stop")?.map(|stop| Time(stop.0));
    match stop {
        Some(stop) if stop <= latest => {
            let message = format!("the flow stops at {stop}, before it starts at {latest}");
            Err(table.error("stop", message, &format!("write more than {latest}")))
        }
        _ => Ok((start, stop)),
    }
}

fn uniform(table: &Reader<'_>) -> Result<Start> {
    let times = table.list("uniform")?;
    let [Item { value: Checked::Span(from), .. }, Item { value: Checked::Span(to), .. }] = times[..] else {
        let message = format!("uniform needs two times, not {}", times.len());
        return Err(table.error("uniform", message, "write [\"0 s\", \"1 s\"]"));
    };
    if from >= to {
        let message = format!("the first time, {from}, is not before the second, {to}");
        return Err(table.error("uniform", message, "write the earlier time first"));
    }
    Ok(Start::Uniform(Time(from.0), Time(to.0)))
}

fn traffic(table: &Reader<'_>, transport: &Transport, files: &mut InputFiles<'_>) -> Result<Traffic> {
    let (kind, traffic) = table.tagged("traffic")?;
    if kind == "ftp" && matches!(transport, Transport::Udp(_)) {
        let message = "traffic \"ftp\" needs TCP: nothing would limit the rate of a udp flow".to_owned();
        let remedy = "write traffic = { kind = \"cbr\", rate = \"1 Mbit/s\", packet = \"512 B\" }";
        let key = if table.has("traffic") { "traffic" } else { "transport" };
        return Err(table.error(key, message, remedy));
    }
    let packet = |key| traffic.size(key).map(|size| size as u32);
    Ok(match kind {
        "paced-ftp" => Traffic::PacedFtp {
            write: packet("write")?,
            interval: traffic.span("interval")?,
            bytes: traffic.size_if("bytes")?,
        },
        "cbr" => Traffic::Cbr {
            rate: traffic.rate("rate")?,
            packet: packet("packet")?,
            random: traffic.switch("random")?,
        },
        "on-off" => Traffic::OnOff {
            rate: traffic.rate("rate")?,
            packet: packet("packet")?,
            on: traffic.span("on")?,
            off: traffic.span("off")?,
        },
        "mpeg4" => Traffic::Frames(Arc::new(video::mpeg4(&traffic)?)),
        "frames" => Traffic::Frames(Arc::new(video::listed(&traffic, files)?)),
        _ => Traffic::Ftp { bytes: traffic.size_if("bytes")? },
    })
}

/// Refuses sources that write more often than the run may have events: the run could only end at that limit.
fn check_load(
    table: &Reader<'_>,
    (transport, traffic): (&Transport, &Traffic),
    count: usize,
    (start, stop): (Start, Option<Time>),
    run: &Run<'_>,
) -> Result<()> {
    let start = match start {
        Start::At(start) | Start::Uniform(start, _) => start,
    };
    let end = stop.map_or(run.duration.0, |stop| stop.0.min(run.duration.0));
    let nanos = end.saturating_sub(start.0) as f64 * count as f64;
    let gap = |rate: Rate, packet: u32| f64::from(packet) * 8e9 / rate.0 as f64;
    let (interval, active) = match *traffic {
        Traffic::Ftp { .. } => return Ok(()),
        Traffic::PacedFtp { interval, .. } => (interval.0 as f64, 1.0),
        Traffic::Cbr { rate, packet, .. } => (gap(rate, packet), 1.0),
        Traffic::OnOff { rate, packet, on, off } => {
            (gap(rate, packet), on.seconds() / (on.seconds() + off.seconds()))
        }
        Traffic::Frames(ref frames) => {
            let packing = Packing::of(transport);
            check_frames(table, frames, packing, frames.frame_rate * nanos / 1e9)?;
            // The last packet of a frame is rarely full.
            let packets = frames.mean_rate() / (8.0 * f64::from(packing.payload)) + frames.frame_rate;
            (1e9 / packets, 1.0)
        }
    };
    if interval < 1.0 {
        let message = "the source sends more than one packet in a nanosecond".to_owned();
        return Err(table.error("traffic", message, "lower rate, or raise packet"));
    }
    let writes = nanos / interval * active;
    if writes > run.events as f64 {
        let message = format!(
            "the source would send {writes:.1e} packets, more than the limit of {} events",
            run.events
        );
        let remedy = match traffic {
            Traffic::Frames(_) => "lower rate or frame_rate, or raise limits.events",
            _ => "lower rate, raise packet, or raise limits.events",
        };
        return Err(table.error("traffic", message, remedy));
    }
    Ok(())
}

/// Refuses sources with frames of which one would flood the network at once, or all would flood the memory.
fn check_frames(table: &Reader<'_>, frames: &FramePlan, packing: Packing, number: f64) -> Result<()> {
    const MOST_PACKETS: u64 = 1_000_000;
    let packets = packing.packets(frames.largest());
    if packets > MOST_PACKETS {
        let message =
            format!("the largest frame would be {packets} packets of {} B at once", packing.payload);
        let remedy = format!("lower rate: {MOST_PACKETS} packets are the most");
        return Err(table.error("traffic", message, &remedy));
    }
    if number > MOST_FRAMES as f64 {
        let message = format!("the source would make {number:.1e} frames, more than {MOST_FRAMES}");
        return Err(table.error("traffic", message, "lower frame_rate or count, or shorten duration"));
    }
    Ok(())
}

/// Checks that the network connects both ends, and that every link on a shortest path takes the largest
/// packet.
fn check_path(
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
        Transport::Udp(udp) if matches!(traffic, Traffic::Frames(_)) && udp.payload > excess => {
            let payload = udp.payload - excess;
            ("traffic", format!("write payload = \"{payload} B\" in [udp], or raise mtu"))
        }
        Transport::Udp(_) => ("traffic", format!("send {excess} B less in a packet, or raise mtu")),
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
struct Paths<'a> {
    network: &'a Network,
    routes: Routes,
    neighbours: Vec<Vec<usize>>,
    /// The connected part of the network to which each node belongs.
    parts: Vec<usize>,
    /// Least MTU of all links: what fits it needs no path to be looked for.
    least_mtu: u32,
}

impl Paths<'_> {
    fn new(network: &Network) -> Paths<'_> {
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
            config.largest_packet().max(config.ack_size() + config.sack_size(blocks))
        }
        Transport::Rate(config) => config.largest_packet().max(config.feedback_size()),
        Transport::Udp(udp) => {
            let write = match *traffic {
                Traffic::Ftp { .. } => u32::MAX,
                Traffic::PacedFtp { write, .. } => write,
                Traffic::Cbr { packet, .. } | Traffic::OnOff { packet, .. } => packet,
                Traffic::Frames(ref frames) => frames.largest().min(u64::from(u32::MAX)) as u32,
            };
            write.min(udp.payload) + udp.header
        }
    }
}
