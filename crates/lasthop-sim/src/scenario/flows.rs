//! Flows: who sends to whom, over which transport, what and when; and whether the network can carry it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;
use lasthop_net::plan::{Exchange, FlowPlan, Ftp, Start, Traffic, Transport};
use lasthop_net::traffic::Pace;
use lasthop_net::traffic::video::Packing;

use crate::shown::number;

use super::arrivals::{self, Load, START, Times};
use super::class;
use super::declare::table;
use super::diagnostic::{ScenarioError, listed, quoted};
use super::input_file::InputFiles;
use super::keys::{ANY_TIME, Kind, MOST_FLOWS, MOST_FRAMES, MOST_OF_CLASS, SOME_TIME};
use super::paths::{A_REROUTE, MOST_REROUTES_OF_ALL, Paths, check_path, check_reroutes, reroutes};
use super::random::Draws;
use super::reader::{Checked, Reader};
use super::realtime::Settings;
use super::split::Splits;
use super::topology::{Network, node_called};
use super::traffic;
use super::transport::Shared;

type Result<T> = std::result::Result<T, ScenarioError>;

table! {
    /// One flow, or `count` equal ones.
    pub(super) static FLOW = "flow";
    pub(super) struct Keys<'n> {
        /// Name in results. If the table stands for several flows, a number is appended: the number of the flow in the
        /// file or, for flows that arrive one after another, among those of this name.
        name: String = Kind::Text, default("\"flow\"");
        /// Number of such flows. Default: 1; with arrivals, as many as there is time for.
        count: Option<u64> = Kind::Integer { min: 1, max: MOST_OF_CLASS }, fixed();
        /// In a dumbbell, wlan or two cells: number of pairs (stations) that these flows use in turn. Default: one for
        /// each flow; with arrivals, one for all.
        hosts: Option<u64> = Kind::Integer { min: 1, max: MOST_FLOWS }, fixed();
        /// The sending node. A dumbbell gives each flow the next free pair, a wlan the next free station, two cells the
        /// next free pair of stations.
        source: Option<String> = Kind::Text;
        /// The receiving node.
        sink: Option<String> = Kind::Text;
        /// In a dumbbell: from source to sink, or back; in a wlan from a station to the server, or back. Default:
        /// forward.
        direction: Option<&'static str> = Kind::Choice(|| vec!["forward", "reverse"]);
        /// In a dumbbell: propagation delay of the source access links of these flows, in both directions, to give
        /// flows different RTTs. Default: that of the topology.
        delay: Option<Span> = ANY_TIME;
        /// The transport.
        transport: Checked<'n> = Kind::Transport, required();
        /// What the application offers.
        traffic: (&'static str, Reader<'n>) = Kind::Tagged(&traffic::TRAFFIC), default("\"ftp\"");
        /// TCP: rate at which the receiving application reads from its buffer of receiver_window. Unread data closes
        /// the window and counts as delivered. Default: it reads at once.
        reader: Option<Rate> = Kind::Rate;
        /// When the application starts.
        start: Checked<'n> = Kind::OrTable(&ANY_TIME, &START), default("{ uniform = [\"0 s\", \"1 s\"] }");
        /// When the application stops. Default: with the run.
        stop: Option<Span> = SOME_TIME;
        /// For flows that arrive at random times: one row in the results for each flow, or one for the class, with sums
        /// of counters and means of other columns. By class, only the length and the completion time of a flow are
        /// kept, up to 10,000,000 flows are allowed instead of 100,000, and series and traces do not show single flows.
        results: &'static str = Kind::Choice(|| vec!["flow", "class"]), default("\"flow\"");
        /// Differentiated services code point of its packets, both ways: the access category in cells of 802.11n and
        /// later follows from it. 46 is EF (voice), 34 AF41 (conferencing), 8 CS1 (background).
        dscp: u8 = Kind::Integer { min: 0, max: 63 }, default("0");
        /// Paths that replace the shortest one during the run, in order of time. Default: none.
        reroute: Option<Vec<Reader<'n>>> = Kind::List(&A_REROUTE);
    }
}

/// One `[[flows]]` table and the number of flows that it stands for.
pub(super) struct FlowTable<'n> {
    pub(super) table: Reader<'n>,
    keys: Keys<'n>,
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
    for item in root.list("flows")? {
        let Checked::Table(table) = item.value else { continue };
        let keys = Keys::read(&table)?;
        let count = keys.count.unwrap_or(1);
        let hosts = match keys.hosts {
            Some(hosts) if keys.count.is_some() && hosts > count => {
                let message = format!("{hosts} pairs of hosts for {count} flows");
                return Err(table.error("hosts", message, "lower hosts, or raise count"));
            }
            Some(hosts) => hosts,
            None if arrivals::arrive(&keys) => 1,
            None => count,
        };
        total += hosts;
        check_number((&table, &keys), total.max(if class::is_asked_for(&keys) { 0 } else { count }))?;
        let (count, hosts) = (count as usize, hosts as usize);
        tables.push(FlowTable { table, keys, count, hosts, delays: Vec::new() });
    }
    Ok((tables, total))
}

/// Refuses more flows, `total` so far, than a run may have.
fn check_number((table, keys): Table<'_, '_>, total: u64) -> Result<()> {
    if total <= MOST_FLOWS {
        return Ok(());
    }
    let remedy = format!("lower count{}", class::remedy(keys));
    Err(table.error("count", format!("more than {MOST_FLOWS} flows"), &remedy))
}

/// A table of flows, and what is read of it.
pub(super) type Table<'t, 'n> = (&'t Reader<'n>, &'t Keys<'n>);

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
    let ends: Vec<Ends> = tables
        .iter()
        .map(|flow| ends((&flow.table, &flow.keys), run.network, &numbers))
        .collect::<Result<_>>()?;
    let mut paths = Paths::new(run.network);
    let mut free = [free_pairs(&ends, run.network), free_pairs(&ends, run.network)];

    let mut flows: Vec<FlowPlan> = Vec::with_capacity(tables.iter().map(|flow| flow.count).sum());
    let mut names = BTreeSet::new();
    let mut arrived: BTreeMap<&str, usize> = BTreeMap::new();
    let mut reroutes_of_all = 0;
    // How many flows of each name there were, for what is drawn for each.
    let mut namesakes: BTreeMap<&str, usize> = BTreeMap::new();
    for (entry, (flow, ends)) in tables.iter_mut().zip(ends).enumerate() {
        let (table, keys) = (&flow.table, &flow.keys);
        let (transport, traffic) = offers((table, keys), shared, files)?;
        let hosts = hosts(table, (ends, flow.hosts, wanted), run.network, &mut free)?;
        check_path(table, &transport, &traffic, hosts[0], &paths)?;
        check_lengths(keys, draws, entry)?;
        flow.delays.extend(keys.delay);
        let slowest = paths.slowest(hosts[0]);
        let load = Load { transport: &transport, traffic: &traffic, slowest };
        let Times { start, stop, count, listed } =
            arrivals::times((table, keys), run.duration, &load, files)?;
        flow.count = count.map_or(flow.count, |count| count as usize);
        check_load(table, (&transport, &traffic), flow.count, (&start, stop), run)?;
        let base = keys.name.as_str();
        let before = arrivals::earlier_flows(keys, flow.count, &mut arrived, flows.len());
        let class = class::of((table, keys), (flow.count, before), &hosts, draws.varies(entry))?;
        flow.count = if class.is_some() { 1 } else { flow.count };
        check_number((table, keys), (flows.len() + flow.count) as u64)?;
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
            take_name(table, &name, &mut names)?;
            let (source, sink) = hosts[copy % hosts.len()];
            let arrival = listed.as_ref().map(|listed| listed[copy]);
            let start = arrival.map_or_else(|| start.clone(), |arrival| Start::At(Time(arrival.after.0)));
            let bytes = arrival.and_then(|arrival| arrival.bytes);
            let traffic =
                bytes.map_or_else(|| traffic.clone(), |bytes| Traffic::Ftp(Ftp { bytes: Some(bytes) }));
            if copy == 0 || (source, sink) != lead {
                lead = (source, sink);
                later = reroutes(table, keys.reroute.as_deref(), lead, &paths, &numbers)?;
                check_reroutes(table, &transport, &traffic, &later, &paths)?;
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
                realtime: run.realtime.of_flow(&traffic),
                traffic,
                start,
                stop,
                first_path: None,
                dscp: keys.dscp,
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
                let own_keys = Keys::read(&own)?;
                vary((&own, &own_keys), &mut plan, arrive, (shared, run, &paths, &numbers), files)?;
                flow.delays.extend(own_keys.delay);
            }
            flows.push(plan);
        }
    }
    run.realtime.check(&flows)?;
    connect(tables, &mut flows, &mut names)?;
    Ok(flows)
}

/// Between which hosts the flows of a table run: `pairs` that are the next ones `free`, of `wanted` by all tables.
/// Pairs that carry flows both ways are free once for each.
fn hosts(
    table: &Reader<'_>,
    (ends, pairs, wanted): (Ends, usize, usize),
    network: &Network,
    free: &mut [impl Iterator<Item = usize>; 2],
) -> Result<Vec<(usize, usize)>> {
    let reverse = match ends {
        Ends::Nodes(source, sink) => return Ok(vec![(source, sink)]),
        Ends::NextPair { reverse } => reverse,
    };
    let free = &mut free[usize::from(reverse && network.both_ways)];
    let mut next = || {
        let pair = free.next().ok_or_else(|| no_free_pair(table, network, wanted))?;
        let (source, sink) = (pair, network.sink(pair));
        Ok(if reverse { (sink, source) } else { (source, sink) })
    };
    (0..pairs).map(|_| next()).collect()
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
    (table, keys): Table<'_, '_>,
    shared: &Shared<'_>,
    files: &mut InputFiles<'_>,
) -> Result<(Transport, Traffic)> {
    let Checked::Transport(node) = keys.transport else { panic!("`transport` is declared as a transport") };
    let transport = with_reader(table, keys.reader, shared.transport(table.source, node)?)?;
    let traffic = traffic::read(table, &keys.traffic, &transport, files)?;
    Ok((transport, traffic))
}

/// Gives a flow what was drawn for it alone: `own` is its table with that. Flows that `arrive` have their times.
fn vary(
    (own, keys): Table<'_, '_>,
    plan: &mut FlowPlan,
    arrive: bool,
    (shared, run, paths, numbers): (&Shared<'_>, &Run<'_>, &Paths<'_>, &BTreeMap<&str, usize>),
    files: &mut InputFiles<'_>,
) -> Result<()> {
    let ends = (plan.source, plan.sink);
    let (transport, traffic) = offers((own, keys), shared, files)?;
    if !arrive {
        let load = Load { transport: &transport, traffic: &traffic, slowest: ("", f64::INFINITY) };
        let times = arrivals::times((own, keys), run.duration, &load, files)?;
        (plan.start, plan.stop) = (times.start, times.stop);
    }
    // A file that lists arrivals may say how long transfers are.
    if own.has("traffic") || !arrive {
        plan.traffic = traffic;
    }
    plan.transport = transport;
    check_path(own, &plan.transport, &plan.traffic, ends, paths)?;
    check_load(own, (&plan.transport, &plan.traffic), 1, (&plan.start, plan.stop), run)?;
    plan.realtime = run.realtime.of_flow(&plan.traffic);
    plan.dscp = keys.dscp;
    plan.reroutes = reroutes(own, keys.reroute.as_deref(), ends, paths, numbers)?;
    check_reroutes(own, &plan.transport, &plan.traffic, &plan.reroutes, paths)
}

/// Refuses a load where the mean length of transfers differs from flow to flow.
fn check_lengths(keys: &Keys<'_>, draws: &Draws<'_>, entry: usize) -> Result<()> {
    if let Checked::Table(start) = &keys.start
        && start.has("load")
        && draws.varies_in(entry, "traffic")
    {
        let message = "load counts on one mean length, and traffic is drawn for each flow".to_owned();
        let remedy = "write every in place of load, or traffic = { kind = \"transfer\", ... }";
        return Err(start.error("load", message, remedy));
    }
    Ok(())
}

/// Adds the connections of clients behind all flows that the scenario names: two flows for each, or one over a stack of
/// others. That of the answers of the first is there already.
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
        // Over a stack of others a connection is one flow, and its requests are no packets of their own.
        let is_outside = matches!(flow.transport, Transport::Outside(_));
        if is_outside {
            flow.realtime = None;
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
            let directions = [Some(answers), Some(requests).filter(|_| !is_outside)];
            for further in directions.into_iter().skip(usize::from(connection == 0)).flatten() {
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
fn with_reader(table: &Reader<'_>, reader: Option<Rate>, mut transport: Transport) -> Result<Transport> {
    let Some(reader) = reader else { return Ok(transport) };
    let Transport::Tcp(config) = &mut transport else {
        let message = "only TCP has a window that a slow reader closes".to_owned();
        return Err(table.error("reader", message, "leave it out, or choose a TCP transport"));
    };
    Arc::make_mut(config).reader = Some(reader);
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

fn ends((table, keys): Table<'_, '_>, network: &Network, numbers: &BTreeMap<&str, usize>) -> Result<Ends> {
    let Keys { direction, .. } = *keys;
    let named = keys.source.is_some() || keys.sink.is_some();
    if network.pairs.is_none() && direction.is_some() {
        let message = "direction is for dumbbells".to_owned();
        return Err(table.error("direction", message, "in a graph, source and sink give the direction"));
    }
    if !named && network.pairs.is_some() {
        return Ok(Ends::NextPair { reverse: direction == Some("reverse") });
    }
    if keys.hosts.is_some() {
        let message = "hosts is for flows without source and sink".to_owned();
        return Err(table.error("hosts", message, "leave it out: all flows run between the same two nodes"));
    }
    if direction.is_some() {
        let message = "direction is for flows without source and sink".to_owned();
        return Err(table.error("direction", message, "leave it out, or exchange source and sink"));
    }
    // A wrong name first: the other end may be missing because a dumbbell gives both.
    let end = |key, name: &Option<String>| {
        name.as_ref().map(|name| node_called(table, (key, name), numbers)).transpose()
    };
    let ends = [("source", end("source", &keys.source)?), ("sink", end("sink", &keys.sink)?)];
    if let Some((key, _)) = ends.iter().find(|(_, node)| node.is_none()) {
        let known: Vec<&str> = network.nodes.iter().map(String::as_str).collect();
        let message = format!("missing key \"{key}\" in flow");
        let remedy = format!("add {key} = \"{}\"; nodes: {}", known[0], listed(&known));
        return Err(table.source.error(table.place, message, &remedy));
    }
    let [source, sink] = ends.map(|(_, node)| node.unwrap_or_default());
    if source == sink {
        let message =
            format!("the flow's source and sink are the same node, {}", quoted(&network.nodes[sink]));
        return Err(table.error("sink", message, "write another node"));
    }
    Ok(Ends::Nodes(source, sink))
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
        let remedy = format!("lower rate: at most {MOST_PACKETS} packets are allowed");
        return Err(table.error("traffic", message, &remedy));
    }
    if frames > MOST_FRAMES as f64 {
        let message = format!("the source would make {} frames, more than {MOST_FRAMES}", number(frames));
        return Err(table.error("traffic", message, "lower frame_rate or count, or shorten duration"));
    }
    Ok(())
}
