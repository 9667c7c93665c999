//! Flows whose results are told by class: `results = "class"`.
//!
//! `flows.rs` asks for the class of a table; [`check`] refuses what tells of flows one by one, and networks that keep
//! something of a flow when its packets are gone.

use std::sync::Arc;

use lasthop_net::plan::{ClassPlan, FlowPlan, HistoryPlan, Transport};

use super::arrivals;
use super::diagnostic::ScenarioError;
use super::flows::{FlowTable, Keys, Table};
use super::keys::{MOST_FLOWS, MOST_OF_CLASS};
use super::reader::Checked;
use super::topology::Network;

type Result<T> = std::result::Result<T, ScenarioError>;

/// Whether the results of the flows of a table are to be told as those of one.
pub(super) fn is_asked_for(keys: &Keys<'_>) -> bool {
    keys.results == "class"
}

/// Most flows of a table.
pub(super) fn most_of(keys: &Keys<'_>) -> u64 {
    if is_asked_for(keys) { MOST_OF_CLASS } else { MOST_FLOWS }
}

/// What else to do about too many flows: ends a remedy.
pub(super) fn remedy(keys: &Keys<'_>) -> &'static str {
    let helps = !is_asked_for(keys) && arrivals::arrive(keys);
    if helps { ", or add results = \"class\"" } else { "" }
}

/// The class of the flows of a table, if they are told as one: `count` of them behind `before` of their name, between
/// these hosts in turn. `varies`: something is drawn for each of them.
pub(super) fn of(
    (table, keys): Table<'_, '_>,
    (count, before): (usize, usize),
    hosts: &[(usize, usize)],
    varies: bool,
) -> Result<Option<Arc<ClassPlan>>> {
    if !is_asked_for(keys) {
        return Ok(None);
    }
    let is_listed = match &keys.start {
        Checked::Table(start) => start.name_if("arrivals")? == Some("listed"),
        _ => false,
    };
    if is_listed || !arrivals::arrive(keys) {
        let message =
            "results by class are for flows that arrive one after another, at random times".to_owned();
        let remedy = "write start = { arrivals = \"poisson\", every = \"50 ms\" }, or leave results out";
        return Err(table.error("results", message, remedy));
    }
    if varies {
        let message = "results by class, and something is drawn for each flow of it".to_owned();
        return Err(table.error("results", message, "leave results out"));
    }
    let (count, before) = (count as u64, before as u64);
    // One is told as itself.
    Ok((count > 1).then(|| Arc::new(ClassPlan { count, before, hosts: hosts.to_vec() })))
}

/// What of a flow is told of it alone.
fn told_alone(flow: &FlowPlan) -> Option<&'static str> {
    let offered = flow.traffic.offered();
    if offered.codec().is_some() || offered.encoder().is_some() || flow.exchange.is_some() {
        return Some("calls, pages and video have results for each flow");
    }
    if flow.realtime.is_some() {
        return Some("real-time metrics are measured of each flow");
    }
    if !flow.reroutes.is_empty() {
        return Some("flows of a class keep their path");
    }
    match &flow.transport {
        Transport::Outside(_) => Some("a stack of others carries each flow by itself"),
        Transport::Tcp(config) if config.kernel().is_some() => Some("the kernel carries each flow by itself"),
        Transport::Tcp(config) if config.needs().signals || !config.mobility.is_plain() => {
            Some("the sender uses signals of links, which refer to single flows")
        }
        _ => None,
    }
}

/// What of a network knows flows longer than their packets are there.
fn known_longer(network: &Network, history: Option<&HistoryPlan>) -> Option<&'static str> {
    if history.is_some() {
        return Some("the history of paths knows each flow");
    }
    if !(network.media.is_empty() && network.cellular.is_empty() && network.roaming.is_empty()) {
        return Some("cells know each flow");
    }
    let mut sides = network.links.iter().flat_map(|link| [&link.forward, &link.reverse]);
    let helps = sides.any(|side| side.arq.is_some() || side.split.is_some() || !side.middleboxes.is_empty());
    helps.then_some("helpers on links keep state for each flow")
}

/// Refuses classes where something knows their flows one by one.
pub(super) fn check(
    tables: &[FlowTable<'_>],
    flows: &[FlowPlan],
    network: &Network,
    history: Option<&HistoryPlan>,
) -> Result<()> {
    let owners = tables.iter().flat_map(|flow| std::iter::repeat_n(&flow.table, flow.count));
    for (flow, table) in flows.iter().zip(owners).filter(|(flow, _)| flow.class.is_some()) {
        if let Some(reason) = told_alone(flow).or_else(|| known_longer(network, history)) {
            return Err(table.error(
                "results",
                format!("no results by class: {reason}"),
                "leave results out",
            ));
        }
    }
    Ok(())
}
