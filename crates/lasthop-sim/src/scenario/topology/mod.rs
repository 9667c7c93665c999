//! Nodes and links: the key `topology`, and one file for each kind.
//!
//! To add a topology: `topology/<name>.rs` with its `NAME`, its keys (`TABLE`) and `read`, and its line in
//! `topologies!` below. From that follow the kind, its checks and messages, and its part of the reference.

mod dumbbell;
mod graph;
mod two_cells;
mod wlan;

use std::collections::BTreeMap;
use std::sync::Arc;

use lasthop_core::time::Span;
use lasthop_net::plan::{CellularPlan, LinkPlan, MediumPlan, RoamingPlan};
use lasthop_net::propagation::Position;
use lasthop_net::routing::DirectionId;

use super::diagnostic::{ScenarioError, quoted, suggest};
use super::input_file::InputFiles;
use super::keys::{MOST_STATIONS, Tagged, Variant};
use super::link::{LinkReader, Sides};
use super::reader::Reader;
use super::transport::Shared;
pub(super) use dumbbell::CHANNEL;

type Result<T> = std::result::Result<T, ScenarioError>;

/// The network of a scenario.
pub(super) struct Network {
    pub(super) nodes: Vec<String>,
    pub(super) links: Vec<LinkPlan>,
    /// Radio channels.
    pub(super) media: Vec<MediumPlan>,
    /// Cellular cells.
    pub(super) cellular: Vec<Arc<CellularPlan>>,
    /// Hosts that choose among access points.
    pub(super) roaming: Vec<RoamingPlan>,
    /// Number of pairs of a dumbbell or of two cells, or of stations of a wlan; `None` for a graph.
    pub(super) pairs: Option<usize>,
    /// The sink of the first pair.
    pub(super) first_sink: usize,
    /// Each direction has its own free pairs.
    pub(super) both_ways: bool,
    /// The server of a wlan: the sink of every pair.
    pub(super) server: Option<usize>,
    /// What is said of each proxy that splits connections if none passes it.
    pub(super) splits: Vec<ScenarioError>,
}

impl Network {
    /// Whether a radio channel or a cellular cell serves the link of a direction.
    pub(super) fn is_radio(&self, direction: DirectionId) -> bool {
        let link = direction as usize / 2;
        let mut users = self.cellular.iter().flat_map(|cell| &cell.users);
        users.any(|user| user.link == link)
            || self.media.iter().flat_map(|medium| &medium.links).any(|radio| radio.link == link)
    }

    /// Any network, without pairs.
    fn of(nodes: Vec<String>, links: Vec<LinkPlan>, media: Vec<MediumPlan>) -> Network {
        let (roaming, pairs, server) = (Vec::new(), None, None);
        Network {
            nodes,
            links,
            media,
            cellular: Vec::new(),
            roaming,
            pairs,
            first_sink: 0,
            both_ways: false,
            server,
            splits: Vec::new(),
        }
    }

    /// The sink of pair `pair`, whose source has the number of the pair.
    pub(super) fn sink(&self, pair: usize) -> usize {
        self.server.unwrap_or(self.first_sink + pair)
    }

    /// The pair that a node belongs to alone.
    pub(super) fn pair_of(&self, node: usize) -> Option<usize> {
        let pairs = self.pairs?;
        let beyond = || {
            let pair = node.checked_sub(self.first_sink);
            pair.filter(|&pair| self.server.is_none() && pair < pairs)
        };
        if node < pairs { Some(node) } else { beyond() }
    }

    /// The access link of an end of a dumbbell.
    pub(super) fn access_link(&mut self, node: usize) -> Option<&mut LinkPlan> {
        let (pairs, pair) = (self.pairs?, self.pair_of(node)?);
        if self.both_ways || self.server.is_some() {
            return None;
        }
        // Behind the bottleneck come the links of all sources, then those of all sinks.
        self.links.get_mut(1 + pair + if node < pairs { 0 } else { pairs })
    }
}

/// Reads `[topology]` and `[channel]` for a run of `duration` with `flows` flows.
pub(super) fn read(
    root: &Reader<'_>,
    duration: Span,
    flows: u64,
    (shared, files): (&Shared<'_>, &mut InputFiles<'_>),
) -> Result<Network> {
    let (kind, topology) = root.tagged("topology")?;
    if kind != dumbbell::NAME && root.has("channel") {
        let message = "[channel] is for dumbbells".to_owned();
        let remedy = if kind == graph::NAME {
            "in a graph, write error and handoff in the links"
        } else {
            "write error and handoff in [topology.cell]"
        };
        return Err(root.error("channel", message, remedy));
    }
    let mut reader = LinkReader { duration, listed: 0, files, shared, splits: Vec::new() };
    let network = of_kind(root, kind, &topology, &mut reader, flows)?;
    Ok(Network { splits: reader.splits, ..network })
}

/// Makes the registry: `module` has `NAME`, `TABLE` and `read`.
macro_rules! topologies {
    ($($module:ident),* $(,)?) => {
        /// The kinds of the key `topology`.
        pub(super) static TOPOLOGY: Tagged = Tagged {
            title: "topology",
            doc: "Nodes and links.",
            variants: &[$(Variant { name: $module::NAME, table: &$module::TABLE, bare: false },)*],
        };

        fn of_kind(
            root: &Reader<'_>,
            kind: &str,
            topology: &Reader<'_>,
            reader: &mut LinkReader<'_, '_>,
            flows: u64,
        ) -> Result<Network> {
            match kind {
                $($module::NAME => $module::read(root, topology, reader, flows),)*
                kind => panic!("no reader for the topology `{kind}`"),
            }
        }
    };
}

topologies! {
    dumbbell,
    graph,
    wlan,
    two_cells,
}

/// This many stations, if one cell may have them.
fn few(topology: &Reader<'_>, asked: u64) -> Result<usize> {
    if asked > MOST_STATIONS {
        let message = format!("{asked} stations in one cell, more than {MOST_STATIONS}");
        let remedy = "write stations, and name source and sink of the flows";
        return Err(topology.error("stations", message, remedy));
    }
    Ok(asked as usize)
}

/// Points on a circle, from the east counter-clockwise.
fn circle(count: usize, radius: f64) -> impl Iterator<Item = Position> {
    (0..count).map(move |number| {
        let angle = 2.0 * std::f64::consts::PI * number as f64 / count as f64;
        // Portable: the distance between stations decides who hears whom.
        Position { x: radius * libm::cos(angle), y: radius * libm::sin(angle) }
    })
}

pub(super) fn make(name: String, from: usize, to: usize, (forward, reverse): &Sides) -> LinkPlan {
    LinkPlan { name, from, to, forward: forward.clone(), reverse: reverse.clone() }
}

/// The number of the node that `key` names.
pub(super) fn node(table: &Reader<'_>, key: &str, numbers: &BTreeMap<&str, usize>) -> Result<usize> {
    node_called(table, (key, table.text(key)?), numbers)
}

/// The number of the node called `name`, which a key says.
pub(super) fn node_called(
    table: &Reader<'_>,
    (key, name): (&str, &str),
    numbers: &BTreeMap<&str, usize>,
) -> Result<usize> {
    numbers.get(name).copied().ok_or_else(|| {
        let known: Vec<&str> = numbers.keys().copied().collect();
        table.error(key, format!("unknown node {}", quoted(name)), &suggest(name, &known))
    })
}
