//! The plan of a world whose ends lie outside: the links of a scenario, and for each pair of hosts that its flows join
//! as many flows as connections shall be told apart.

use std::net::Ipv4Addr;
use std::sync::Arc;

use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;
use lasthop_net::plan::{FlowPlan, LinkPlan, Middlebox, Plan, Profile, Start, TcpConfig, Traffic, Transport};
use lasthop_net::routing::Routes;
use lasthop_sim::pcapng::address;
use thiserror::Error;

use crate::passage::Pair;

/// Connections that are told apart between two hosts; one more takes the rest.
pub const CONNECTIONS: usize = 255;
/// What the transport of a flow is called whose ends lie outside.
pub const OUTSIDE: &str = "outside";

/// Why a scenario has no live counterpart.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A helper that ends connections or writes packets of its own.
    #[error(
        "link {link:?}: {helper} cannot help real packets, it writes packets that only simulated hosts understand; \
         take it out, or simulate with 'lasthop run'"
    )]
    Helper {
        /// Where it stands.
        link: String,
        /// What it is.
        helper: &'static str,
    },
    /// No host.
    #[error("the scenario has no flows, so there are no hosts between which packets could run: add one")]
    NoFlows,
    /// The longest packet is too short for IPv4.
    #[error(
        "the links from {source_name:?} to {sink_name:?} take packets of at most {mtu} bytes; IPv4 needs 576"
    )]
    Mtu {
        /// One end.
        source_name: String,
        /// The other.
        sink_name: String,
        /// What the links take.
        mtu: usize,
    },
}

/// A host that has packets of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its node.
    pub node: usize,
    /// The name of that.
    pub name: String,
    /// Its address.
    pub address: Ipv4Addr,
}

/// What a live run is made of.
#[derive(Clone, Debug)]
pub struct LivePlan {
    /// The plan of the world.
    pub plan: Plan,
    /// The hosts, by their nodes.
    pub hosts: Vec<Host>,
    /// Which of them are joined, and by which flows.
    pub pairs: Vec<Pair>,
}

impl LivePlan {
    /// The live counterpart of a scenario's plan.
    pub fn new(scenario: &Plan) -> Result<LivePlan, PlanError> {
        check_helpers(scenario)?;
        let mut nodes: Vec<usize> = Vec::new();
        let mut pairs: Vec<Pair> = Vec::new();
        let mut flows: Vec<FlowPlan> = Vec::new();
        for flow in scenario.flows.iter().filter(|flow| flow.relay.is_none()) {
            let (source, sink) = (address(flow.source as u32), address(flow.sink as u32));
            let is_known = |pair: &Pair| [(source, sink), (sink, source)].contains(&(pair.source, pair.sink));
            if pairs.iter().any(is_known) {
                continue;
            }
            let path = path_of(scenario, flow);
            let mtu = mtu_of(scenario, flow, &path)?;
            let first = flows.len();
            flows.extend((0..=CONNECTIONS).map(|index| outside(flow, index)));
            pairs.push(Pair { source, sink, flows: first..flows.len(), mtu, rate: rate_of(&path) });
            nodes.extend([flow.source, flow.sink]);
        }
        if pairs.is_empty() {
            return Err(PlanError::NoFlows);
        }
        nodes.sort_unstable();
        nodes.dedup();
        let hosts = nodes.into_iter().map(|node| Host {
            node,
            name: scenario.nodes[node].clone(),
            address: address(node as u32),
        });
        let hosts = hosts.collect();
        // Hosts take the time that they take, and connections that are no flows have no history.
        let plan = Plan {
            flows,
            links: scenario.links.iter().map(without_answers).collect(),
            processing_time: Span::ZERO,
            history: None,
            ..scenario.clone()
        };
        Ok(LivePlan { plan, hosts, pairs })
    }

    /// The longest packet that a host may send.
    pub fn mtu_of(&self, host: &Host) -> usize {
        let own = self.pairs.iter().filter(|pair| pair.source == host.address || pair.sink == host.address);
        own.map(|pair| pair.mtu).min().unwrap_or(MTU)
    }
}

/// The longest packet of usual hosts.
const MTU: usize = 1500;
/// What every host of the Internet takes (RFC 791).
const LEAST_MTU: usize = 576;

/// The links between the ends of a flow, as it takes them first.
fn path_of<'a>(scenario: &'a Plan, flow: &FlowPlan) -> Vec<&'a LinkPlan> {
    let mut routes = Routes::new(scenario.nodes.len(), &scenario.links);
    let path = match &flow.first_path {
        Some(nodes) => routes.along(nodes).ok(),
        None => routes.path(flow.source, flow.sink),
    };
    path.unwrap_or_default().iter().map(|&direction| &scenario.links[direction as usize / 2]).collect()
}

/// The rate of the slowest link of a path, in the faster direction.
fn rate_of(path: &[&LinkPlan]) -> Rate {
    path.iter().map(|link| link.forward.rate.max(link.reverse.rate)).min().unwrap_or(Rate(0))
}

/// The longest packet that every link between the ends of a flow takes.
fn mtu_of(scenario: &Plan, flow: &FlowPlan, path: &[&LinkPlan]) -> Result<usize, PlanError> {
    let longest = path.iter().map(|link| link.forward.mtu.min(link.reverse.mtu) as usize);
    let mtu = longest.min().unwrap_or(MTU).min(MTU);
    if mtu < LEAST_MTU {
        let name = |node: usize| scenario.nodes[node].clone();
        return Err(PlanError::Mtu { source_name: name(flow.source), sink_name: name(flow.sink), mtu });
    }
    Ok(mtu)
}

/// A flow over the path of `flow` whose ends lie outside.
fn outside(flow: &FlowPlan, index: usize) -> FlowPlan {
    // The transport of an end outside is whatever runs there; the world asks this one for nothing but its name.
    let config = TcpConfig::preset("newreno", Profile::Linux).unwrap_or_else(|| unreachable!("a preset"));
    FlowPlan {
        name: format!("{} {index}", flow.name),
        transport: Transport::Tcp(TcpConfig { name: OUTSIDE.to_owned(), ..config }.into()),
        traffic: Traffic::Ftp { bytes: None },
        start: Start::At(Time::MAX),
        stop: None,
        realtime: None,
        ..flow.clone()
    }
}

/// A link whose Snoop agents write no ACKs of their own: below a real connection these would need its timestamps. What
/// the host has already goes on to it, and it answers.
fn without_answers(link: &LinkPlan) -> LinkPlan {
    let mut link = link.clone();
    for side in [&mut link.forward, &mut link.reverse] {
        if side.middleboxes.iter().any(|one| matches!(one, Middlebox::Snoop(snoop) if snoop.answer)) {
            for middlebox in &mut Arc::make_mut(side).middleboxes {
                if let Middlebox::Snoop(snoop) = middlebox {
                    snoop.answer = false;
                }
            }
        }
    }
    link
}

/// Refuses helpers whose packets no real host understands.
fn check_helpers(scenario: &Plan) -> Result<(), PlanError> {
    for link in &scenario.links {
        let refuse = |helper| Err(PlanError::Helper { link: link.name.clone(), helper });
        for side in [&link.forward, &link.reverse] {
            if side.split.is_some() {
                return refuse("split");
            }
            if side.middleboxes.iter().any(|middlebox| matches!(middlebox, Middlebox::Wtcp(_))) {
                return refuse("wtcp");
            }
        }
    }
    Ok(())
}
