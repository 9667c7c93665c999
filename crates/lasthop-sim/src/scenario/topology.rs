//! Nodes and links: dumbbells and graphs, made from tables that may override one another.

use std::collections::{BTreeMap, BTreeSet};

use lasthop_core::time::Span;
use lasthop_net::plan::{Direction, LinkPlan};

use super::diagnostic::{ScenarioError, quoted, suggest};
use super::input_file::InputFiles;
use super::link::LinkReader;
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
pub(super) fn read(root: &Reader<'_>, duration: Span, flows: u64, files: &mut InputFiles) -> Result<Network> {
    let (kind, topology) = root.tagged("topology")?;
    let mut reader = LinkReader { duration, listed: 0, files };
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
    reader: &mut LinkReader<'_>,
    flows: u64,
) -> Result<Network> {
    let pairs = topology.integer_if("pairs")?.unwrap_or(flows);
    let bottleneck = topology.sub("bottleneck")?;
    let access = topology.sub_if("access")?;
    let channel = root.sub_if("channel")?;

    let link = reader.both(&[bottleneck], 1, topology, "bottleneck")?;
    let side = |key: &'static str, channel: Option<Reader<'_>>, reader: &mut LinkReader<'_>| {
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

fn graph(topology: &Reader<'_>, reader: &mut LinkReader<'_>) -> Result<Network> {
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
