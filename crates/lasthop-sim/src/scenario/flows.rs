//! Flows: who sends to whom, over which transport, what and when; and whether the network can carry it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use lasthop_core::time::{Span, Time};
use lasthop_net::plan::{
    Direction, Exchange, FlowPlan, Ftp, LinkPlan, Reroute, Start, Traffic, Transport, UnderWay,
};
use lasthop_net::routing::Routes;
use lasthop_net::traffic::Pace;
use lasthop_net::traffic::video::Packing;

use crate::shown::number;

use super::arrivals::{self, Load, Times};
use super::class;
use super::diagnostic::{ScenarioError, listed, quoted, suggest};
use super::input_file::InputFiles;
use super::keys::{MOST_FLOWS, MOST_FRAMES};
use super::random::Draws;
use super::reader::{Checked, Item, Reader};
use super::realtime::Settings;
use super::split::Splits;
use super::topology::{Network, node};
use super::traffic;
use super::transport::Shared;

type Result<T> = std::result::Result<T, ScenarioError>;

/// One `[[flows]]` table and the number of flows that it stands for.
pub(super) struct FlowTable<'n> {
    pub(super) table: Reader<'n>,
    /// Of flows that arrive one after another it is known when their times have been read.
    pub(super) count: usize,
    /// How many pairs of hosts they take in turn, where the network has pairs.
    hosts: usize,
    /// The delays of their access links: one for all, or one for each; none if that of the topology stays.
    delays: Vec<Span>,
}

/// Opens the `[[flows]]` tables and counts the pairs of hosts that they want, before anything is made of them.
pub(super) fn open<'n>(root: &Reader<'n>) -> Result<(Vec<FlowTable<'n>>, u64)> {
    let mut tables = Vec::new();
    let mut total = 0;
    for Item { value, .. } in root.list("flows")? {
        let Checked::Table(table) = value else { continue };
        let given = table.integer_if("count")?;
        let count = given.unwrap_or(1);
        let hosts = match table.integer_if("hosts")? {
            Some(hosts) if given.is_some() && hosts > count => {
                let message = format!("{hosts} pairs of hosts for {count} flows");
                return Err(table.error("hosts", message, "lower hosts, or raise count"));
            }
            Some(hosts) => hosts,
            None if arrivals::arrive(&table)? => 1,
            None => count,
        };
        total += hosts;
        check_number(&table, total.max(if class::is_asked_for(&table)? { 0 } else { count }))?;
        tables.push(FlowTable { table, count: count as usize, hosts: hosts as usize, delays: Vec::new() });
    }
    Ok((tables, total))
}

/// Refuses more flows, `total` so far, than a run may have.
fn check_number(table: &Reader<'_>, total: u64) -> Result<()> {
    if total <= MOST_FLOWS {
        return Ok(());
    }
    let remedy = format!("lower count{}", class::remedy(table)?);
    Err(table.error("count", format!("more than {MOST_FLOWS} flows"), &remedy))
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
    tables: &mut [FlowTable<'n>],
    shared: &Shared<'n>,
    run: &Run<'_>,
    draws: &mut Draws<'_>,
    files: &mut InputFiles<'_>,
) -> Result<Vec<FlowPlan>> {
    let wanted: usize = tables.iter().map(|flow| flow.hosts).sum();
    let is_lone = tables.len() == 1;
    let numbers: BTreeMap<&str, usize> =
        run.network.nodes.iter().enumerate().map(|(number, name)| (name.as_str(), number)).collect();
    let ends: Vec<Ends> =
        tables.iter().map(|flow| ends(&flow.table, run.network, &numbers)).collect::<Result<_>>()?;
    let mut paths = Paths::new(run.network);
    let mut free = free_pairs(&ends, run.network);
    let mut free_back = free_pairs(&ends, run.network);

    let mut flows: Vec<FlowPlan> = Vec::with_capacity(tables.iter().map(|flow| flow.count).sum());
    let mut names = BTreeSet::new();
    let mut arrived: BTreeMap<&str, usize> = BTreeMap::new();
    let mut reroutes_of_all = 0;
    // How many flows of each name there were, for what is drawn for each.
    let mut namesakes: BTreeMap<&str, usize> = BTreeMap::new();
    for (entry, (flow, ends)) in tables.iter_mut().zip(ends).enumerate() {
        let table = flow.table;
        let (transport, traffic) = offers(&table, shared, files)?;
        let hosts = match ends {
            Ends::Nodes(source, sink) => vec![(source, sink)],
            Ends::NextPair { reverse } => {
                let free = if reverse && run.network.both_ways { &mut free_back } else { &mut free };
                let mut next = || {
                    let pair = free.next().ok_or_else(|| no_free_pair(&table, run.network, wanted))?;
                    let (source, sink) = (pair, run.network.sink(pair));
                    Ok(if reverse { (sink, source) } else { (source, sink) })
                };
                (0..flow.hosts).map(|_| next()).collect::<Result<_>>()?
            }
        };
        check_path(&table, &transport, &traffic, hosts[0], &paths)?;
        check_lengths(&table, draws, entry)?;
        flow.delays.extend(table.span_if("delay")?);
        let slowest = paths.slowest(hosts[0]);
        let load = Load { transport: &transport, traffic: &traffic, slowest };
        let Times { start, stop, count, listed } = arrivals::times(&table, run.duration, &load, files)?;
        flow.count = count.map_or(flow.count, |count| count as usize);
        check_load(&table, (&transport, &traffic), flow.count, (&start, stop), run)?;
        let base = table.text("name")?;
        let before = arrivals::earlier_flows(&table, flow.count, &mut arrived, flows.len())?;
        let class = class::of(&table, (flow.count, before), &hosts, draws.varies(entry))?;
        flow.count = if class.is_some() { 1 } else { flow.count };
        check_number(&table, (flows.len() + flow.count) as u64)?;
        let earlier = namesakes.entry(base).or_insert(0);
        if draws.varies(entry) {
            flow.delays.clear();
        }
        let arrive = listed.is_some() || matches!(start, Start::After(_));
        // Between the same nodes all copies have the same later paths.
        let (mut lead, mut later) = ((0, 0), Vec::new());
        for copy in 0..flow.count {
            let number = before + copy + 1;
            let lone = class.is_some() || flow.count == 1 && (table.has("name") || is_lone);
            let name = if lone { base.to_owned() } else { format!("{base}-{number}") };
            take_name(&table, &name, &mut names)?;
            let (source, sink) = hosts[copy % hosts.len()];
            let arrival = listed.as_ref().map(|listed| listed[copy]);
            let start = arrival.map_or_else(|| start.clone(), |arrival| Start::At(Time(arrival.after.0)));
            let bytes = arrival.and_then(|arrival| arrival.bytes);
            let traffic =
                bytes.map_or_else(|| traffic.clone(), |bytes| Traffic::Ftp(Ftp { bytes: Some(bytes) }));
            if copy == 0 || (source, sink) != lead {
                lead = (source, sink);
                later = reroutes(&table, lead, &paths, &numbers)?;
                check_reroutes(&table, &transport, &traffic, &later, &paths)?;
            }
            reroutes_of_all += later.len();
            if reroutes_of_all > MOST_REROUTES_OF_ALL {
                let message = format!("more than {MOST_REROUTES_OF_ALL} changes of paths in all");
                return Err(table.error("reroute", message, "list fewer, or lower count"));
            }
            let mut plan = FlowPlan {
                name,
                source,
                sink,
                transport: transport.clone(),
                // How a stack numbers its packets is its own.
                realtime: run.realtime.of_flow(&traffic).filter(|_| transport.stack().is_none()),
                traffic,
                start,
                stop,
                first_path: None,
                dscp: table.integer("dscp")? as u8,
                part: None,
                reroutes: later.clone(),
                relay: None,
                exchange: None,
                class: class.clone(),
            };
            if draws.varies(entry) {
                *earlier += 1;
                let drawn = draws.flow(entry, *earlier, flows.len())?;
                let own = Reader::open(table.source, table.table, "flows", &drawn)?;
                vary(&own, &mut plan, arrive, (shared, run, &paths, &numbers), files)?;
                flow.delays.extend(own.span_if("delay")?);
            }
            flows.push(plan);
        }
    }
    run.realtime.check(&flows)?;
    connect(tables, &mut flows, &mut names)?;
    Ok(flows)
}

fn take_name(table: &Reader<'_>, name: &str, names: &mut BTreeSet<String>) -> Result<()> {
    if names.insert(name.to_owned()) {
        return Ok(());
    }
    let message = format!("two flows are called {}", quoted(name));
    Err(table.error("name", message, "give each flow its own name"))
}

/// What the application of a flow offers, and to which transport.
fn offers(
    table: &Reader<'_>,
    shared: &Shared<'_>,
    files: &mut InputFiles<'_>,
) -> Result<(Transport, Traffic)> {
    let transport = match table.value("transport")? {
        Checked::Transport(node) => shared.transport(table.source, node)?,
        _ => panic!("`transport` is declared as a transport"),
    };
    let transport = with_reader(table, transport)?;
    let traffic = traffic::read(table, &transport, files)?;
    Ok((transport, traffic))
}

/// Gives a flow what was drawn for it alone: `own` is its table with that. Flows that `arrive` have their times.
fn vary(
    own: &Reader<'_>,
    plan: &mut FlowPlan,
    arrive: bool,
    (shared, run, paths, numbers): (&Shared<'_>, &Run<'_>, &Paths<'_>, &BTreeMap<&str, usize>),
    files: &mut InputFiles<'_>,
) -> Result<()> {
    let ends = (plan.source, plan.sink);
    let (transport, traffic) = offers(own, shared, files)?;
    if !arrive {
        let load = Load { transport: &transport, traffic: &traffic, slowest: ("", f64::INFINITY) };
        let times = arrivals::times(own, run.duration, &load, files)?;
        (plan.start, plan.stop) = (times.start, times.stop);
    }
    // A file that lists arrivals may say how long transfers are.
    if own.has("traffic") || !arrive {
        plan.traffic = traffic;
    }
    plan.transport = transport;
    check_path(own, &plan.transport, &plan.traffic, ends, paths)?;
    check_load(own, (&plan.transport, &plan.traffic), 1, (&plan.start, plan.stop), run)?;
    plan.realtime = run.realtime.of_flow(&plan.traffic).filter(|_| plan.transport.stack().is_none());
    plan.dscp = own.integer("dscp")? as u8;
    plan.reroutes = reroutes(own, ends, paths, numbers)?;
    check_reroutes(own, &plan.transport, &plan.traffic, &plan.reroutes, paths)
}

/// Refuses a load where the mean length of transfers differs from flow to flow.
fn check_lengths(table: &Reader<'_>, draws: &Draws<'_>, entry: usize) -> Result<()> {
    if let Checked::Table(start) = table.value("start")?
        && start.has("load")
        && draws.varies_in(entry, "traffic")
    {
        let message = "load counts on one mean length, and traffic is drawn for each flow".to_owned();
        let remedy = "write every in place of load, or traffic = { kind = \"transfer\", ... }";
        return Err(start.error("load", message, remedy));
    }
    Ok(())
}

/// Adds the connections of clients behind all flows that the scenario names: two flows for each, of which the answers
/// of the first are there already.
fn connect(tables: &[FlowTable<'_>], flows: &mut Vec<FlowPlan>, names: &mut BTreeSet<String>) -> Result<()> {
    let owners = tables.iter().flat_map(|flow| std::iter::repeat_n(&flow.table, flow.count));
    let mut parts = Vec::new();
    for ((lead, flow), table) in flows.iter_mut().enumerate().zip(owners) {
        let Some(connections) = flow.traffic.offered().connections() else { continue };
        let total = (parts.len() + lead) as u64 + 2 * u64::from(connections.most);
        if total > MOST_FLOWS {
            let message = format!("more than {MOST_FLOWS} directions of connections");
            return Err(table.error("count", message, "lower count, or let clients open fewer connections"));
        }
        let part = |connection, asks| Some(Exchange { of: lead, connection, asks });
        flow.exchange = part(0, false);
        let whole = flow.clone();
        for connection in 0..connections.most {
            let base = match connection {
                0 => whole.name.clone(),
                further => format!("{}.{}", whole.name, further + 1),
            };
            let answers = FlowPlan {
                name: base.clone(),
                start: Start::At(Time::ZERO),
                realtime: None,
                exchange: part(connection, false),
                ..whole.clone()
            };
            let mut reroutes = whole.reroutes.clone();
            for reroute in &mut reroutes {
                reroute.nodes.reverse();
            }
            let requests = FlowPlan {
                name: format!("{base}.requests"),
                source: whole.sink,
                sink: whole.source,
                reroutes,
                exchange: part(connection, true),
                ..answers.clone()
            };
            for further in [answers, requests].into_iter().skip(usize::from(connection == 0)) {
                if !names.insert(further.name.clone()) {
                    let name = quoted(&further.name);
                    let message =
                        format!("a connection of {} is called {name}, and so is a flow", whole.name);
                    return Err(table.error("name", message, "give the flow another name"));
                }
                parts.push(further);
            }
        }
    }
    flows.append(&mut parts);
    Ok(())
}

/// Gives the access links of sources the delays that their flows name.
pub(super) fn delay(tables: &[FlowTable<'_>], flows: &[FlowPlan], network: &mut Network) -> Result<()> {
    let mut delayed: BTreeMap<usize, Span> = BTreeMap::new();
    let mut rest = flows;
    for flow in tables {
        let (own, behind) = rest.split_at(flow.count);
        rest = behind;
        let error = |message, remedy: &str| Err(flow.table.error("delay", message, remedy));
        // One that all have, or each its own.
        for (plan, &delay) in own.iter().zip(flow.delays.iter().cycle()) {
            let own = [(plan.source, plan.sink)];
            let hosts = plan.class.as_ref().map_or(&own[..], |class| &class.hosts);
            for &(source, _) in hosts {
                let Some(link) = network.access_link(source) else {
                    let message = "delay is for flows between the ends of a dumbbell".to_owned();
                    return error(message, "write it at the links of the network");
                };
                if *delayed.entry(source).or_insert(delay) != delay {
                    let message = format!("link {} has another delay by another flow", quoted(&link.name));
                    return error(message, "give flows of one pair of hosts one delay");
                }
                for side in [&mut link.forward, &mut link.reverse] {
                    if !side.delay_changes.is_empty() {
                        let message = format!("the delay of link {} is recorded", quoted(&link.name));
                        return error(message, "leave it out");
                    }
                    Arc::make_mut(side).delay = delay;
                }
            }
        }
    }
    Ok(())
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
    let owners: Vec<&Reader<'_>> =
        tables.iter().flat_map(|flow| std::iter::repeat_n(&flow.table, flow.count)).collect();
    for (number, flow) in flows.into_iter().enumerate() {
        let table = owners[flow.exchange.map_or(number, |part| part.of)];
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
    if table.has("hosts") {
        let message = "hosts is for flows without source and sink".to_owned();
        return Err(table.error("hosts", message, "leave it out: all flows run between the same two nodes"));
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

/// Refuses sources that write more often than the run may have events: the run could only end at that limit.
fn check_load(
    table: &Reader<'_>,
    (transport, traffic): (&Transport, &Traffic),
    count: usize,
    (start, stop): (&Start, Option<Time>),
    run: &Run<'_>,
) -> Result<()> {
    let start = start.earliest();
    let end = stop.map_or(run.duration.0, |stop| stop.0.min(run.duration.0));
    let nanos = end.saturating_sub(start.0) as f64 * count as f64;
    let packing = Packing::of(transport);
    let film = traffic.offered().video().map(|film| (film.largest(), film.frame_rate));
    let call = traffic.offered().encoder().map(|call| (call.largest(), call.frame_rate));
    if let Some((largest, frame_rate)) = film.or(call) {
        check_frames(table, packing, largest, frame_rate * nanos / 1e9)?;
    }
    let Some(Pace { gap_ns: interval, active }) = traffic.offered().pace(packing) else { return Ok(()) };
    if interval < 1.0 {
        let message = "the source sends more than one packet in a nanosecond".to_owned();
        return Err(table.error("traffic", message, "lower rate, or raise packet"));
    }
    let writes = nanos / interval * active;
    if writes > run.events as f64 {
        let message = format!(
            "the source would send {} packets, more than the limit of {} events",
            number(writes),
            run.events
        );
        let remedy = if film.or(call).is_some() {
            "lower rate or frame_rate, or raise limits.events"
        } else {
            "lower rate, raise packet, or raise limits.events"
        };
        return Err(table.error("traffic", message, remedy));
    }
    Ok(())
}

/// Refuses sources with frames of which one would flood the network at once, or all would flood the memory.
fn check_frames(table: &Reader<'_>, packing: Packing, largest: u64, frames: f64) -> Result<()> {
    const MOST_PACKETS: u64 = 1_000_000;
    let packets = packing.packets(largest);
    if packets > MOST_PACKETS {
        let message =
            format!("the largest frame would be {packets} packets of {} B at once", packing.payload);
        let remedy = format!("lower rate: {MOST_PACKETS} packets are the most");
        return Err(table.error("traffic", message, &remedy));
    }
    if frames > MOST_FRAMES as f64 {
        let message = format!("the source would make {} frames, more than {MOST_FRAMES}", number(frames));
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

    /// Name and rate in bit/s of the slowest link on the way from one node to another.
    fn slowest(&mut self, (source, sink): (usize, usize)) -> (&str, f64) {
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
            config.largest_packet().max(config.ack_size() + config.sack_size(blocks))
        }
        Transport::Rate(config) => config.largest_packet().max(config.feedback_size()),
        // A QUIC packet that opens a connection (RFC 9000 section 14.1); longer ones are found to pass, or not.
        Transport::Outside(config) => config.payload.min(1200) + config.header,
        Transport::Udp(udp) => {
            let write = traffic.offered().largest_write().unwrap_or(u64::MAX).min(u64::from(u32::MAX)) as u32;
            write.min(udp.payload) + udp.header
        }
    }
}
