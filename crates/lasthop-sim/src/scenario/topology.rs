//! Nodes and links: dumbbells, graphs and wireless cells, made from tables that may override one another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lasthop_core::time::Span;
use lasthop_net::plan::{CellularPlan, LinkPlan, MediumPlan, RoamingPlan};
use lasthop_net::propagation::{Position, Track};
use lasthop_net::routing::DirectionId;

use super::cell::{self, Cells, Member, Members};
use super::cellular;
use super::diagnostic::{ScenarioError, quoted, suggest};
use super::input_file::InputFiles;
use super::keys::MOST_STATIONS;
use super::link::{LinkReader, Sides};
use super::reader::{Checked, Reader};
use super::roaming::{self, Surroundings};
use super::transport::Shared;

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
    let mut reader = LinkReader { duration, listed: 0, files, shared, splits: Vec::new() };
    let network = of_kind(root, kind, &topology, &mut reader, flows)?;
    Ok(Network { splits: reader.splits, ..network })
}

fn of_kind(
    root: &Reader<'_>,
    kind: &str,
    topology: &Reader<'_>,
    reader: &mut LinkReader<'_, '_>,
    flows: u64,
) -> Result<Network> {
    if kind == "dumbbell" {
        return dumbbell(root, topology, reader, flows);
    }
    if root.has("channel") {
        let message = "[channel] is for dumbbells".to_owned();
        let remedy = if kind == "graph" {
            "in a graph, write error and handoff in the links"
        } else {
            "write error and handoff in [topology.cell]"
        };
        return Err(root.error("channel", message, remedy));
    }
    if kind == "wlan" {
        return wlan(topology, reader, flows);
    }
    if kind == "wired-cum-wireless" {
        return two_cells(topology, reader, flows);
    }
    graph(topology, reader)
}

fn dumbbell(
    root: &Reader<'_>,
    topology: &Reader<'_>,
    reader: &mut LinkReader<'_, '_>,
    flows: u64,
) -> Result<Network> {
    let pairs = topology.integer_if("pairs")?.unwrap_or(flows);
    let bottleneck = topology.sub("bottleneck")?;
    let access = topology.sub_if("access")?;
    let channel = root.sub_if("channel")?;

    let link = reader.both(&[bottleneck], 1, topology, "bottleneck")?;
    let side = |key: &'static str, channel: Option<Reader<'_>>, reader: &mut LinkReader<'_, '_>| {
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
        links.push(make(name, pair, left, &source_access));
    }
    for pair in 0..pairs {
        let name = format!("sink-access-{}", pair + 1);
        links.push(make(name, right, pairs + 2 + pair, &sink_access));
    }
    let first_sink = pairs + 2;
    Ok(Network { pairs: Some(pairs), first_sink, ..Network::of(nodes, links, Vec::new()) })
}

/// Stations on a circle around an access point, and a server behind it.
fn wlan(topology: &Reader<'_>, reader: &mut LinkReader<'_, '_>, flows: u64) -> Result<Network> {
    let asked = topology.integer_if("stations")?.unwrap_or(flows);
    let stations = few(topology, asked)?;
    let (wire, radius) = (topology.sub("wire")?, topology.number("radius")?);
    let mut nodes: Vec<String> = (1..=stations).map(|number| format!("station-{number}")).collect();
    nodes.extend(["access-point".to_owned(), "server".to_owned()]);
    let mut links =
        vec![make("wire".to_owned(), stations, stations + 1, &reader.both(&[wire], 1, topology, "wire")?)];
    let cell = topology.sub("cell")?;
    let mut cells = Cells::default();
    let members = circle(stations, radius).enumerate().map(|(node, position)| Member {
        node,
        track: Track::fixed(position),
        table: None,
        place: topology.place_of("radius"),
    });
    let plan = Members {
        name: "cell".to_owned(),
        channel: 1,
        access_point: Some((stations, Position::default())),
        stations: members.collect(),
        link_name: Some("radio".to_owned()),
    };
    cells.add(&cell, &plan, reader, (&nodes, &mut links))?;
    let server = Some(stations + 1);
    Ok(Network { pairs: Some(stations), server, ..Network::of(nodes, links, cells.finish()) })
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

/// Two access points with stations on circles around them, joined by wires.
fn two_cells(topology: &Reader<'_>, reader: &mut LinkReader<'_, '_>, flows: u64) -> Result<Network> {
    let stations = few(topology, topology.integer_if("stations")?.unwrap_or(flows))?;
    let (radius, distance) = (topology.number("radius")?, topology.number("distance")?);
    let named = |cell: &'static str| (1..=stations).map(move |number| format!("{cell}-{number}"));
    let mut nodes: Vec<String> = named("a").chain(named("b")).collect();
    nodes.extend(["base-a", "base-b", "router-a", "router-b"].map(str::to_owned));
    let [base_a, base_b, router_a, router_b] = [0, 1, 2, 3].map(|place| 2 * stations + place);
    let (wire, lan) = (topology.sub("wire")?, topology.sub("lan")?);
    let wire = reader.both(&[wire], 2, topology, "wire")?;
    let lan = reader.both(&[lan], 1, topology, "lan")?;
    let mut links = vec![
        make("wire-a".to_owned(), base_a, router_a, &wire),
        make("lan".to_owned(), router_a, router_b, &lan),
        make("wire-b".to_owned(), base_b, router_b, &wire),
    ];
    let cell = topology.sub("cell")?;
    let shared = topology.switch("shared_channel")?;
    let mut cells = Cells::default();
    for (name, base, first, x, channel) in
        [("a", base_a, 0, 0.0, 1), ("b", base_b, stations, distance, if shared { 1 } else { 2 })]
    {
        let members = circle(stations, radius).enumerate().map(|(number, position)| Member {
            node: first + number,
            track: Track::fixed(Position { x: position.x + x, y: position.y }),
            table: None,
            place: topology.place_of("radius"),
        });
        let plan = Members {
            name: name.to_owned(),
            channel,
            access_point: Some((base, Position { x, y: 0.0 })),
            stations: members.collect(),
            link_name: Some(format!("radio-{name}")),
        };
        cells.add(&cell, &plan, reader, (&nodes, &mut links))?;
    }
    let network = Network::of(nodes, links, cells.finish());
    Ok(Network { pairs: Some(stations), first_sink: stations, both_ways: true, ..network })
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

fn graph(topology: &Reader<'_>, reader: &mut LinkReader<'_, '_>) -> Result<Network> {
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
    if !["links", "cells", "cellular"].iter().any(|key| topology.has(key)) {
        return Err(topology.missing(topology.table.key("links")));
    }
    for item in topology.list_if("links")?.unwrap_or_default() {
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
    let mut cells = Cells::default();
    for (item, number) in topology.list_if("cells")?.unwrap_or_default().into_iter().zip(1..) {
        let Checked::Table(table) = item.value else { continue };
        let plan = cell::members(&table, number, &numbers)?;
        cells.add(&table, &plan, reader, (&nodes, &mut links))?;
    }
    let media = cells.finish();
    let mut cellular: Vec<Arc<CellularPlan>> = Vec::new();
    for (item, number) in topology.list_if("cellular")?.unwrap_or_default().into_iter().zip(1..) {
        let Checked::Table(table) = item.value else { continue };
        let around = (number, cellular.as_slice());
        let cell = cellular::read(&table, around, &numbers, reader, (&nodes, &mut links))?;
        cellular.push(Arc::new(cell));
    }
    let mut roaming = Vec::new();
    for item in topology.list_if("roaming")?.unwrap_or_default() {
        let Checked::Table(table) = item.value else { continue };
        let around = Surroundings { nodes: &nodes, numbers: &numbers, links: &links, media: &media };
        let host = roaming::read(&table, &roaming, &around)?;
        roaming.push(host);
    }
    Ok(Network { cellular, roaming, ..Network::of(nodes, links, media) })
}

/// The number of the node that `key` names.
pub(super) fn node(table: &Reader<'_>, key: &str, numbers: &BTreeMap<&str, usize>) -> Result<usize> {
    let name = table.text(key)?;
    numbers.get(name).copied().ok_or_else(|| {
        let known: Vec<&str> = numbers.keys().copied().collect();
        table.error(key, format!("unknown node {}", quoted(name)), &suggest(name, &known))
    })
}
