//! Nodes and links: dumbbells and graphs, made from tables that may override one another.

use std::collections::{BTreeMap, BTreeSet};

use lasthop_core::time::{Span, Time};
use lasthop_net::plan::{
    Arq, Direction, DiscardUnit, ErrorModel, ErrorPosition, LinkPlan, MarkThreshold, OutagePolicy,
    OutageSchedule, Outages, QueueLimit, Report, Warning,
};

use super::diagnostic::{ScenarioError, quoted, suggest};
use super::keys::MOST_LISTED;
use super::reader::{Checked, Reader};

type Result<T> = std::result::Result<T, ScenarioError>;

/// The network of a scenario.
pub(super) struct Network {
    pub(super) nodes: Vec<String>,
    pub(super) links: Vec<LinkPlan>,
    /// Number of pairs of a dumbbell; `None` for a graph.
    pub(super) pairs: Option<usize>,
}

impl Network {
    /// The source of pair `pair` of a dumbbell.
    pub(super) fn source(pair: usize) -> usize {
        pair
    }

    /// The sink of pair `pair` of a dumbbell with `pairs` pairs: behind the sources and both routers.
    pub(super) fn sink(pairs: usize, pair: usize) -> usize {
        pairs + 2 + pair
    }
}

/// Reads `[topology]` and `[channel]` for a run of `duration` with `flows` flows.
pub(super) fn read(root: &Reader<'_>, duration: Span, flows: u64) -> Result<Network> {
    let (kind, topology) = root.tagged("topology")?;
    let mut reader = LinkReader { duration, listed: 0 };
    if kind == "dumbbell" {
        return dumbbell(root, &topology, &mut reader, flows);
    }
    if root.has("channel") {
        let message = "[channel] is for dumbbells".to_owned();
        let remedy = "in a graph, write error and handoff in the links";
        return Err(root.error("channel", message, remedy));
    }
    graph(&topology, &mut reader)
}

fn dumbbell(
    root: &Reader<'_>,
    topology: &Reader<'_>,
    reader: &mut LinkReader,
    flows: u64,
) -> Result<Network> {
    let pairs = topology.integer_if("pairs")?.unwrap_or(flows);
    let bottleneck = topology.sub("bottleneck")?;
    let access = topology.sub_if("access")?;
    let channel = root.sub_if("channel")?;

    let link = reader.both(&[bottleneck], 1, topology, "bottleneck")?;
    let side = |key: &'static str, channel: Option<Reader<'_>>, reader: &mut LinkReader| {
        let own = topology.sub_if(key)?;
        // The most specific table comes last and wins.
        let tables: Vec<Reader<'_>> = [access, channel, own].into_iter().flatten().collect();
        reader.both(&tables, pairs, topology, "access")
    };
    let source_access = side("source_access", None, reader)?;
    let sink_access = side("sink_access", channel, reader)?;

    let pairs = usize::try_from(pairs).unwrap_or(usize::MAX);
    let mut nodes: Vec<String> = (1..=pairs).map(|number| format!("source-{number}")).collect();
    nodes.extend(["left".to_owned(), "right".to_owned()]);
    nodes.extend((1..=pairs).map(|number| format!("sink-{number}")));
    let (left, right) = (pairs, pairs + 1);

    let mut links = vec![make("bottleneck".to_owned(), left, right, &link)];
    for pair in 0..pairs {
        let name = format!("source-access-{}", pair + 1);
        links.push(make(name, Network::source(pair), left, &source_access));
    }
    for pair in 0..pairs {
        let name = format!("sink-access-{}", pair + 1);
        links.push(make(name, right, Network::sink(pairs, pair), &sink_access));
    }
    Ok(Network { nodes, links, pairs: Some(pairs) })
}

fn make(name: String, from: usize, to: usize, (forward, reverse): &(Direction, Direction)) -> LinkPlan {
    LinkPlan { name, from, to, forward: forward.clone(), reverse: reverse.clone() }
}

fn graph(topology: &Reader<'_>, reader: &mut LinkReader) -> Result<Network> {
    let mut nodes = Vec::new();
    let mut numbers = BTreeMap::new();
    for item in topology.list("nodes")? {
        let Checked::Text(name) = item.value else { continue };
        if numbers.insert(name, nodes.len()).is_some() {
            let message = format!("two nodes are called {}", quoted(name));
            return Err(topology.source.error(item.place, message, "give each node its own name"));
        }
        nodes.push(name.to_owned());
    }

    let mut links: Vec<LinkPlan> = Vec::new();
    let mut names = BTreeSet::new();
    for item in topology.list("links")? {
        let Checked::Table(table) = item.value else { continue };
        let from = node(&table, "from", &numbers)?;
        let to = node(&table, "to", &numbers)?;
        if from == to {
            let message = format!("a link from {} to itself", quoted(&nodes[from]));
            return Err(table.error("to", message, "write the node at the other end"));
        }
        let name = match table.text_if("name")? {
            Some(name) => name.to_owned(),
            None => format!("{}-{}", nodes[from], nodes[to]),
        };
        if !names.insert(name.clone()) {
            let message = format!("two links are called {}", quoted(&name));
            return Err(table.error("name", message, "give each link its own name"));
        }
        let both = reader.both(&[table], 1, &table, "link")?;
        links.push(make(name, from, to, &both));
    }
    Ok(Network { nodes, links, pairs: None })
}

/// The number of the node that `key` names.
pub(super) fn node(table: &Reader<'_>, key: &str, numbers: &BTreeMap<&str, usize>) -> Result<usize> {
    let name = table.text(key)?;
    numbers.get(name).copied().ok_or_else(|| {
        let known: Vec<&str> = numbers.keys().copied().collect();
        table.error(key, format!("unknown node {}", quoted(name)), &suggest(name, &known))
    })
}

/// Reads links; keeps count of what they list, so that a small file cannot ask for a large plan.
struct LinkReader {
    duration: Span,
    listed: u64,
}

impl LinkReader {
    /// Both directions of a link that stands for `copies`. `tables` may override one another, the most
    /// specific last; `parent` and `name` say where a missing key belongs.
    fn both(
        &mut self,
        tables: &[Reader<'_>],
        copies: u64,
        parent: &Reader<'_>,
        name: &str,
    ) -> Result<(Direction, Direction)> {
        let forward = self.direction(tables, copies, parent, name)?;
        // Table by table: inside a table `reverse` wins, but a more specific table wins over both.
        let mut reversed = Vec::with_capacity(2 * tables.len());
        for table in tables {
            reversed.push(*table);
            if table.table.keys().any(|key| key.name == "reverse") {
                reversed.extend(table.sub_if("reverse")?);
            }
        }
        let reverse = self.direction(&reversed, copies, parent, name)?;
        Ok((forward, reverse))
    }

    fn direction(
        &mut self,
        tables: &[Reader<'_>],
        copies: u64,
        parent: &Reader<'_>,
        name: &str,
    ) -> Result<Direction> {
        let of = |key: &str| tables.iter().rev().find(|table| table.has(key)).copied();
        let full = tables.iter().find(|table| table.table.keys().any(|known| known.name == "rate"));
        let required = |key: &str| {
            of(key).ok_or_else(|| {
                let Some(table) = full else { return no_table(parent, name) };
                table.missing(table.table.key(key))
            })
        };
        let rate = required("rate")?.rate("rate")?;
        let delay = required("delay")?.span("delay")?;
        // A table that has the key, or any that knows its default.
        let or_default = |key: &str| of(key).or(full.copied()).map_or_else(|| required(key), Ok);
        let mtu = or_default("mtu")?.size("mtu")?;
        let queue = queue(&or_default("queue")?, mtu)?;
        // A more specific table that only shortens the queue takes the marks with it; that is no mistake.
        let depth = |key: &str| tables.iter().rposition(|table| table.has(key));
        let limit = if depth("mark") >= depth("queue") { queue } else { QueueLimit::Unlimited };
        let mark = of("mark").map(|table| mark(&table, limit)).transpose()?;
        let error = self.error_model(&or_default("error")?, copies)?;
        let outages = self.outages(&or_default("handoff")?, copies)?;
        let table = or_default("arq")?;
        let arq = arq(&table, |arq| arq.timeout_for(rate, delay, mtu))?;
        if arq.is_some() {
            check_arq(&table, &error, &outages)?;
        }
        Ok(Direction { rate, delay, mtu: mtu as u32, queue, mark, error, outages, arq })
    }

    /// Counts `entries` of a list that is copied to `copies` links, before anything is copied.
    fn count(&mut self, table: &Reader<'_>, key: &str, entries: u64, copies: u64) -> Result<()> {
        self.listed = self.listed.saturating_add(entries.saturating_mul(copies));
        if self.listed <= MOST_LISTED {
            return Ok(());
        }
        let message = format!("more than {MOST_LISTED} outages and listed packets on all links together");
        Err(table.error(key, message, "list fewer, or use fewer links"))
    }

    fn error_model(&mut self, table: &Reader<'_>, copies: u64) -> Result<ErrorModel> {
        let (kind, model) = table.tagged("error")?;
        if kind == "none" {
            return Ok(ErrorModel::None);
        }
        let position = match model.name("position")? {
            "before-queue" => ErrorPosition::BeforeQueue,
            _ => ErrorPosition::AfterTransmission,
        };
        if kind == "bernoulli" {
            let packet_error_rate = model.number("packet_error_rate")?;
            return Ok(ErrorModel::Bernoulli { packet_error_rate, position });
        }
        let listed = model.list("packets")?;
        self.count(&model, "packets", listed.len() as u64, copies)?;
        let mut packets = Vec::with_capacity(listed.len());
        for item in listed {
            if let Checked::Integer(packet) = item.value {
                packets.push(packet);
            }
        }
        packets.sort_unstable();
        packets.dedup();
        Ok(ErrorModel::List { packets, position })
    }

    fn outages(&mut self, table: &Reader<'_>, copies: u64) -> Result<Outages> {
        let Checked::Table(handoff) = table.value("handoff")? else {
            return Ok(Outages {
                schedule: OutageSchedule::None,
                policy: OutagePolicy::DropAir,
                warning: None,
            });
        };
        let policy = match handoff.name("policy")? {
            "drop" => OutagePolicy::Drop,
            "hold" => OutagePolicy::Hold,
            _ => OutagePolicy::DropAir,
        };
        let length = handoff.span("outage")?;
        let schedule = match (handoff.integer_if("count")?, handoff.list_if("at")?) {
            (Some(_), Some(_)) => {
                let message = "count and at exclude each other".to_owned();
                return Err(handoff.error("at", message, "keep one of them"));
            }
            (None, None) => {
                let message = "missing key \"count\" or \"at\" in handoff".to_owned();
                return Err(handoff.source.error(
                    handoff.place,
                    message,
                    "add count = 5, or at = [\"10 s\"]",
                ));
            }
            (Some(count), None) => self.counted(&handoff, count, length, copies)?,
            (None, Some(at)) => {
                if handoff.has("placement") {
                    let message = "placement goes with count, not with at".to_owned();
                    return Err(handoff.error("placement", message, "leave it out"));
                }
                self.count(&handoff, "at", at.len() as u64, copies)?;
                let mut starts = Vec::with_capacity(at.len());
                for item in at {
                    if let Checked::Span(start) = item.value {
                        starts.push((Time(start.0), item.place));
                    }
                }
                starts.sort_by_key(|start| start.0);
                self.listed_at(&handoff, &starts, length)?
            }
        };
        Ok(Outages { schedule, policy, warning: warning(&handoff)? })
    }

    fn counted(
        &mut self,
        handoff: &Reader<'_>,
        count: u64,
        length: Span,
        copies: u64,
    ) -> Result<OutageSchedule> {
        if count == 0 {
            return Ok(OutageSchedule::None);
        }
        let random = handoff.name_if("placement")? == Some("random");
        // Evenly placed outages start at k * duration / (count + 1); the last must end within the run.
        let room = if random { self.duration.0 / count } else { self.duration.0 / (count + 1) };
        if length.0 > room {
            let message = format!("{count} outages of {length} do not fit a run of {}", self.duration);
            let remedy = format!("each may last {} at most", Span(room));
            return Err(handoff.error("outage", message, &remedy));
        }
        if random {
            return Ok(OutageSchedule::Random { count: count as u32, length });
        }
        self.count(handoff, "count", count, copies)?;
        let start = |number: u64| {
            // 128 bits: 10^15 ns times 10^4 outages.
            let nanos = u128::from(number) * u128::from(self.duration.0) / u128::from(count + 1);
            Time(u64::try_from(nanos).unwrap_or(u64::MAX))
        };
        Ok(OutageSchedule::Listed((1..=count).map(|number| (start(number), length)).collect()))
    }

    fn listed_at(
        &self,
        handoff: &Reader<'_>,
        starts: &[(Time, &super::diagnostic::Place)],
        length: Span,
    ) -> Result<OutageSchedule> {
        let mut schedule: Vec<(Time, Span)> = Vec::with_capacity(starts.len());
        for &(start, place) in starts {
            let end = start + length;
            if end.0 > self.duration.0 {
                let message =
                    format!("the outage at {start} ends at {end}, after the run of {}", self.duration);
                return Err(handoff.source.error(place, message, "start it earlier, or make it shorter"));
            }
            if let Some(&(before, _)) = schedule.last()
                && start < before + length
            {
                let message = format!("the outage at {start} begins before the one at {before} ends");
                let remedy = format!("leave at least {length} between starting times");
                return Err(handoff.source.error(place, message, &remedy));
            }
            schedule.push((start, length));
        }
        Ok(OutageSchedule::Listed(schedule))
    }
}

/// How outages are announced.
fn warning(handoff: &Reader<'_>) -> Result<Option<Warning>> {
    let Some(lead) = handoff.span_if("warning")? else {
        let stray = ["miss", "false_alarms"].into_iter().find(|key| handoff.has(key));
        return match stray {
            Some(key) => {
                let message = format!("{key} without a warning");
                Err(handoff.error(key, message, "add warning = \"100 ms\""))
            }
            None => Ok(None),
        };
    };
    Ok(Some(Warning {
        lead,
        miss: handoff.number_if("miss")?.unwrap_or(0.0),
        false_alarms: handoff.integer_if("false_alarms")?.unwrap_or(0) as u32,
    }))
}

/// Retransmission by the link; `timeout` is that of a full frame.
fn arq(table: &Reader<'_>, timeout: impl Fn(&Arq) -> Span) -> Result<Option<Arq>> {
    let Checked::Table(table) = table.value("arq")? else { return Ok(None) };
    let mut arq = Arq {
        window: table.integer("window")? as u32,
        attempts: table.integer("attempts")? as u32,
        timeout: table.span_if("timeout")?,
        in_order: table.name("order")? == "in-order",
        ack_size: table.size("ack_size")? as u32,
        ack_error_rate: table.number("ack_error_rate")?,
        report: match table.name("report")? {
            "off" => Report::Off,
            "proxy" => Report::Proxy,
            _ => Report::Local,
        },
        discards: match table.name("discards")? {
            "frames" => DiscardUnit::Frame,
            _ => DiscardUnit::Attempt,
        },
        ebsn: None,
    };
    arq.ebsn = match table.value("ebsn")? {
        Checked::Table(ebsn) => Some(ebsn.span_if("gap")?.unwrap_or_else(|| timeout(&arq))),
        Checked::Switch(true) => Some(timeout(&arq)),
        _ => None,
    };
    Ok(Some(arq))
}

/// A link that retransmits judges each attempt in the air; errors and outages that act elsewhere have no meaning.
fn check_arq(table: &Reader<'_>, error: &ErrorModel, outages: &Outages) -> Result<()> {
    if let ErrorModel::Bernoulli { position: ErrorPosition::BeforeQueue, .. }
    | ErrorModel::List { position: ErrorPosition::BeforeQueue, .. } = error
    {
        let message = "a link with arq judges every attempt, after its transmission".to_owned();
        return Err(table.error("arq", message, "write position = \"after-transmission\" in error"));
    }
    if outages.schedule != OutageSchedule::None && outages.policy != OutagePolicy::DropAir {
        let message = "a link with arq goes on trying through an outage".to_owned();
        return Err(table.error("arq", message, "write policy = \"drop-air\" in handoff"));
    }
    Ok(())
}

/// The error for a link of which no table says anything.
fn no_table(parent: &Reader<'_>, name: &str) -> ScenarioError {
    let message = format!("missing key \"{name}\" in {}", parent.table.title);
    let remedy = format!("add {name} = {{ rate = \"10 Mbit/s\", delay = \"10 ms\" }}");
    parent.source.error(parent.place, message, &remedy)
}

/// From which queue on packets are marked, on a link with this limit. A packet that finds as much as fits is lost.
fn mark(table: &Reader<'_>, limit: QueueLimit) -> Result<MarkThreshold> {
    let threshold = match table.value("mark")? {
        Checked::Size(bytes) => MarkThreshold::Bytes(bytes),
        Checked::Packets(packets) => MarkThreshold::Packets(packets as u32),
        _ => panic!("`mark` is declared as room"),
    };
    let beyond = match (threshold, limit) {
        (MarkThreshold::Packets(mark), QueueLimit::Packets(limit)) if mark >= limit => {
            Some((format!("{mark} packets"), format!("{limit} packets")))
        }
        (MarkThreshold::Bytes(mark), QueueLimit::Bytes(limit)) if mark >= limit => {
            Some((format!("{mark} B"), format!("{limit} B")))
        }
        _ => None,
    };
    let Some((mark, limit)) = beyond else { return Ok(threshold) };
    let message = format!("nothing would be marked at {mark}: the queue holds {limit} at most");
    Err(table.error("mark", message, "lower mark, or raise the limit of the queue"))
}

fn queue(table: &Reader<'_>, mtu: u64) -> Result<QueueLimit> {
    let (kind, queue) = table.tagged("queue")?;
    if kind == "unlimited" {
        return Ok(QueueLimit::Unlimited);
    }
    match queue.value("limit")? {
        Checked::Size(bytes) if bytes < mtu => {
            let message = format!("a queue of {bytes} B has no room for a packet of the link's mtu, {mtu} B");
            Err(queue.error("limit", message, &format!("raise limit to {mtu} B, or lower mtu")))
        }
        Checked::Size(bytes) => Ok(QueueLimit::Bytes(bytes)),
        Checked::Packets(packets) => Ok(QueueLimit::Packets(packets as u32)),
        _ => panic!("`limit` is declared as room"),
    }
}
