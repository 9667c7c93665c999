//! The plan of a world whose ends lie outside: the links of a scenario, and for each pair of hosts that its flows join
//! as many flows as connections shall be told apart.

use std::net::Ipv4Addr;
use std::sync::Arc;

use lasthop_cc::Needs;
use lasthop_cc::host::KERNEL;
use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;
use lasthop_net::plan::{
    Drawn, FlowPlan, LinkPlan, Middlebox, Plan, Profile, Relay, Start, TcpConfig, Traffic, Transport,
};
use lasthop_net::routing::Routes;
use lasthop_sim::pcapng::address;
use thiserror::Error;

use crate::passage::Pair;
use crate::proxy::{CONNECTIONS, ProxyPlan};

/// What the transport of a flow is called whose ends lie outside.
pub const OUTSIDE: &str = "outside";

/// Why a scenario has no live counterpart.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A helper that writes packets of its own.
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
    /// A proxy that splits connections as real ones cannot be split.
    #[error("flow {flow:?} passes a split that cannot help real packets: {why}; {remedy}")]
    Split {
        /// Whose path it stands in.
        flow: String,
        /// What is in the way.
        why: String,
        /// What to do.
        remedy: &'static str,
    },
    /// Flows that are told by class.
    #[error("flow {flow:?} has results by class, which only simulated flows can have: leave out results")]
    Class {
        /// Its name.
        flow: String,
    },
    /// No host.
    #[error("the scenario has no flows, so there are no hosts between which packets could run: add one")]
    NoFlows,
    /// More nodes than a run within another has addresses for.
    #[error("a run within another has addresses for 65,534 nodes, and this scenario has more")]
    TooMany,
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
    /// Proxies that split connections: the pair before each, which the one behind it follows.
    pub proxies: Vec<(usize, ProxyPlan)>,
}

impl LivePlan {
    /// The live counterpart of a scenario's plan.
    pub fn new(scenario: &Plan) -> Result<LivePlan, PlanError> {
        check_helpers(scenario)?;
        let mut nodes: Vec<usize> = Vec::new();
        let mut pairs: Vec<Pair> = Vec::new();
        let mut flows: Vec<FlowPlan> = Vec::new();
        let mut proxies = Vec::new();
        let mut wholes: Vec<Vec<&FlowPlan>> = (0..scenario.flows.len())
            .filter(|&flow| scenario.flows[flow].has_row())
            .map(|flow| halves_of(scenario, flow))
            .collect();
        // Of two flows between the same hosts one may have halves and the other not: datagrams are not split.
        wholes.sort_by_key(|halves| std::cmp::Reverse(halves.len()));
        for halves in wholes {
            let (from, to) = (halves[0].source, halves[halves.len() - 1].sink);
            let (source, sink) = (address(from as u32), address(to as u32));
            let is_known = |pair: &Pair| [(source, sink), (sink, source)].contains(&(pair.source, pair.sink));
            if pairs.iter().any(is_known) {
                continue;
            }
            for (part, &flow) in halves.iter().enumerate() {
                if let Some(relay) = flow.relay {
                    proxies.push((pairs.len() - 1, proxy_of(scenario, (&halves[0].name, flow), relay)?));
                }
                let path = path_of(scenario, flow);
                let mtu = mtu_of(scenario, flow, &path)?;
                let first = flows.len();
                flows.extend((0..=CONNECTIONS).map(|index| outside(flow, index)));
                let part = (part, part + 1 == halves.len());
                pairs.push(Pair { source, sink, flows: first..flows.len(), mtu, rate: rate_of(&path), part });
            }
            nodes.extend([from, to]);
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
            drawn: Drawn { run: scenario.drawn.run.clone(), ..Drawn::default() },
            ..scenario.clone()
        };
        Ok(LivePlan { plan, hosts, pairs, proxies })
    }

    /// Gives its hosts addresses within 10.`block`.0.0/16, which no other run has: it is within one.
    pub fn move_to(&mut self, block: u8) -> Result<(), PlanError> {
        let moved = |address: &mut Ipv4Addr| {
            let [first, high, middle, low] = address.octets();
            *address = Ipv4Addr::new(first, block, middle, low);
            high == 0
        };
        let hosts = self.hosts.iter_mut().map(|host| &mut host.address);
        let ends = self.pairs.iter_mut().flat_map(|pair| [&mut pair.source, &mut pair.sink]);
        if hosts.chain(ends).all(moved) { Ok(()) } else { Err(PlanError::TooMany) }
    }

    /// The host that stands for everything beyond a run whose program is at the node `at`: the other end of this flow,
    /// or its source.
    pub(crate) fn gateway(&self, flow: &FlowPlan, at: Option<usize>) -> usize {
        let node = if at == Some(flow.source) { flow.sink } else { flow.source };
        self.hosts.iter().position(|host| host.node == node).unwrap_or(0)
    }

    /// The longest packet that a host may send.
    pub fn mtu_of(&self, host: &Host) -> usize {
        let own = self.pairs.iter().filter(|pair| pair.source == host.address || pair.sink == host.address);
        own.map(|pair| pair.mtu).min().unwrap_or(MTU)
    }
}

/// A flow and the halves that proxies make of it, in the order in which its data pass them.
fn halves_of(scenario: &Plan, first: usize) -> Vec<&FlowPlan> {
    scenario.halves_of(first).map(|flow| &scenario.flows[flow]).collect()
}

/// The scenario with flows end to end, as if there were no proxies.
pub(crate) fn without_halves(scenario: &Plan) -> Plan {
    let whole = |first: usize| {
        let halves = halves_of(scenario, first);
        let (flow, last) = (halves[0], halves[halves.len() - 1]);
        let mut flow = flow.clone();
        if let (Transport::Tcp(own), Transport::Tcp(far)) = (&mut flow.transport, &last.transport)
            && halves.len() > 1
        {
            let own = Arc::make_mut(own);
            (own.receiver_window, own.reader) = (far.receiver_window, far.reader);
        }
        flow.sink = last.sink;
        flow
    };
    let flows =
        (0..scenario.flows.len()).filter(|&flow| scenario.flows[flow].relay.is_none()).map(whole).collect();
    Plan { flows, ..scenario.clone() }
}

/// What a sender at a proxy is provided with whose receiver is a real host: what the kernel's senders are, and timers
/// of its own; the unit of the host's timestamps is not known.
const PROVIDED: Needs = Needs { timing: true, timestamp_times: false, ..KERNEL };

/// Timeouts in a row after which a proxy gives a connection up, if the scenario does not say: a real host may go
/// without a word. Linux's `tcp_retries2`.
const PATIENCE: u32 = 15;

/// The proxy at which the half `flow` begins.
fn proxy_of(scenario: &Plan, (name, flow): (&str, &FlowPlan), relay: Relay) -> Result<ProxyPlan, PlanError> {
    let refuse = |why: String, remedy| Err(PlanError::Split { flow: name.to_owned(), why, remedy });
    let moves = |nodes: &[usize]| nodes.first() != Some(&flow.source) || nodes.last() != Some(&flow.sink);
    if flow.part.is_some() || flow.reroutes.iter().any(|reroute| moves(&reroute.nodes)) {
        let remedy = "put it at a node that every path passes";
        return refuse("its connections would move from node to node with a host".to_owned(), remedy);
    }
    if relay.zero_windows {
        return refuse("it has no link that fades".to_owned(), "leave out zero_windows");
    }
    let directions = scenario.links.iter().flat_map(|link| [&link.forward, &link.reverse]);
    let (number, toward_wireless) = relay.split;
    let split =
        directions.filter_map(|direction| direction.split.as_ref()).find(|split| split.number == number);
    let Some(split) = split else { unreachable!("a relay is that of a split") };
    let mut towards = [&split.to_wired, &split.to_wireless].map(Arc::clone);
    if !toward_wireless {
        towards.reverse();
    }
    for config in &mut towards {
        let unmet = config.needs().unmet(PROVIDED);
        if config.profile == Profile::Ns2 || !unmet.is_empty() {
            let why = match unmet.join(", ") {
                _ if config.profile == Profile::Ns2 => {
                    "profile \"ns2\" has no TCP that a real host understands".to_owned()
                }
                unmet => format!("{:?} needs what no real host gives ({unmet})", config.name),
            };
            return refuse(why, "give to_wireless and to_wired another sender");
        }
        let segments = u32::try_from(split.buffer / u64::from(config.mss().max(1))).unwrap_or(u32::MAX);
        if segments == 0 {
            let why = format!("a buffer of {} B holds no segment of {} B", split.buffer, config.mss());
            return refuse(why, "raise buffer");
        }
        let config = Arc::make_mut(config);
        (config.receiver_window, config.reader) = (segments, None);
        config.give_up = config.give_up.or(Some(PATIENCE));
    }
    Ok(ProxyPlan { towards, buffer: split.buffer, late: split.late })
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
        traffic: Traffic::ENDLESS,
        start: Start::At(Time::MAX),
        stop: None,
        realtime: None,
        relay: None,
        exchange: None,
        class: None,
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
    if let Some(class) = scenario.flows.iter().find(|flow| flow.class.is_some()) {
        return Err(PlanError::Class { flow: class.name.clone() });
    }
    for link in &scenario.links {
        let refuse = |helper| Err(PlanError::Helper { link: link.name.clone(), helper });
        for side in [&link.forward, &link.reverse] {
            for middlebox in &side.middleboxes {
                match middlebox {
                    Middlebox::Wtcp(_) => return refuse("wtcp"),
                    Middlebox::FastAck(_) => return refuse("fastack"),
                    _ => {}
                }
            }
        }
    }
    Ok(())
}
