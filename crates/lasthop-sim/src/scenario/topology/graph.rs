//! `graph`: any network, node by node and link by link.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lasthop_net::plan::{CellularPlan, LinkPlan};

use super::super::cell::{self, CELL, Cells};
use super::super::cellular::{self, CELLULAR};
use super::super::declare::table;
use super::super::diagnostic::{ScenarioError, quoted};
use super::super::keys::Kind;
use super::super::link::{GRAPH_LINK, LinkReader};
use super::super::reader::{Checked, Item, Reader};
use super::super::roaming::{self, ROAMING, Surroundings};
use super::{Network, make, node};

pub(super) const NAME: &str = "graph";

static A_LINK: Kind = Kind::Table(&GRAPH_LINK);
static A_CELL: Kind = Kind::Table(&CELL);
static A_CELLULAR_CELL: Kind = Kind::Table(&CELLULAR);
static A_HOST: Kind = Kind::Table(&ROAMING);

table! {
    /// Any network: nodes by name and full-duplex links between them.
    pub(super) static TABLE = "graph";
    struct Keys<'n> {
        /// Names of the nodes.
        nodes: Vec<Item<'n>> = Kind::List(&Kind::Text), required_or("add nodes = [\"phone\", \"server\"]");
        /// The links; only a graph with cells may have none.
        links: Option<Vec<Item<'n>>> = Kind::List(&A_LINK),
            or("add a table [[topology.links]] with from, to, rate and delay");
        /// Cells of IEEE 802.11: each joins its stations to an access point, or to one another. Default: none.
        cells: Option<Vec<Item<'n>>> = Kind::List(&A_CELL);
        /// Cellular cells: each joins its users to a base station. Default: none.
        cellular: Option<Vec<Item<'n>>> = Kind::List(&A_CELLULAR_CELL);
        /// Stations of several cells that go from one access point to another. Default: none; the path of a flow then
        /// chooses the cell.
        roaming: Option<Vec<Item<'n>>> = Kind::List(&A_HOST);
    }
}

pub(super) fn read(
    _: &Reader<'_>,
    topology: &Reader<'_>,
    reader: &mut LinkReader<'_, '_>,
    _: u64,
) -> Result<Network, ScenarioError> {
    let keys = Keys::read(topology)?;
    let mut nodes = Vec::new();
    let mut numbers = BTreeMap::new();
    for item in keys.nodes {
        let Checked::Text(name) = item.value else { continue };
        if numbers.insert(name, nodes.len()).is_some() {
            let message = format!("two nodes are called {}", quoted(name));
            return Err(topology.source.error(item.place, message, "give each node its own name"));
        }
        nodes.push(name.to_owned());
    }

    let mut links: Vec<LinkPlan> = Vec::new();
    let mut names = BTreeSet::new();
    if keys.links.is_none() && keys.cells.is_none() && keys.cellular.is_none() {
        return Err(topology.missing(topology.table.key("links")));
    }
    for item in keys.links.unwrap_or_default() {
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
    for (item, number) in keys.cells.unwrap_or_default().into_iter().zip(1..) {
        let Checked::Table(table) = item.value else { continue };
        let plan = cell::members(&table, number, &numbers)?;
        cells.add(&table, &plan, reader, (&nodes, &mut links))?;
    }
    let media = cells.finish();
    let mut cellular: Vec<Arc<CellularPlan>> = Vec::new();
    for (item, number) in keys.cellular.unwrap_or_default().into_iter().zip(1..) {
        let Checked::Table(table) = item.value else { continue };
        let around = (number, cellular.as_slice());
        let cell = cellular::read(&table, around, &numbers, reader, (&nodes, &mut links))?;
        cellular.push(Arc::new(cell));
    }
    let mut roaming = Vec::new();
    for item in keys.roaming.unwrap_or_default() {
        let Checked::Table(table) = item.value else { continue };
        let around = Surroundings { nodes: &nodes, numbers: &numbers, links: &links, media: &media };
        let host = roaming::read(&table, &roaming, &around)?;
        roaming.push(host);
    }
    Ok(Network { cellular, roaming, ..Network::of(nodes, links, media) })
}
