//! Where packets are captured: which interfaces a capture has, and which packets pass them.

use std::collections::BTreeSet;

use lasthop_core::time::Time;
use lasthop_net::plan::Plan;
use lasthop_net::routing::{opposite, start_of};
use lasthop_net::trace::HopRecord;

use super::{Direction, Interface, PcapngError};
use crate::scenario::suggest;

/// Where packets are captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vantage {
    /// At the host of each flow's sender: what it sends when it is transmitted, and what comes back when it arrives.
    /// Every packet of a connection appears at most once.
    Senders,
    /// On every link: an interface for each direction, where packets are transmitted. A packet appears on each link of
    /// its path, so look at one interface at a time.
    Links,
    /// On one link, likewise.
    Link(usize),
    /// At a node: an interface for each of its links. What it sends or forwards appears when it is transmitted, and
    /// what is meant for it when it arrives; so every packet appears once.
    Node(usize),
    /// In the air: every frame of radio channels as every station had it. [`crate::air::AirCapture`] writes it.
    Air,
}

impl Vantage {
    /// What those are called that are no single place, unless a node or a link has that name.
    pub const WHOLE: [(&'static str, Vantage); 3] =
        [("senders", Vantage::Senders), ("links", Vantage::Links), ("air", Vantage::Air)];

    /// The node or link called `name`, or one of [`Vantage::WHOLE`].
    pub fn named(plan: &Plan, name: &str) -> Result<Vantage, PcapngError> {
        let node = plan.nodes.iter().position(|node| node == name).map(Vantage::Node);
        let link = plan.links.iter().position(|link| link.name == name).map(Vantage::Link);
        match (node, link) {
            (Some(_), Some(_)) => Err(PcapngError::AmbiguousPlace(name.to_owned())),
            (Some(place), None) | (None, Some(place)) => Ok(place),
            (None, None) => {
                let is_there = |whole: Vantage| whole != Vantage::Air || !plan.media.is_empty();
                let whole = || Vantage::WHOLE.into_iter().filter(|&(_, whole)| is_there(whole));
                if let Some((_, whole)) = whole().find(|(known, _)| *known == name) {
                    return Ok(whole);
                }
                let links = plan.links.iter().map(|link| &link.name);
                let whole = whole().map(|(name, _)| name);
                let known = plan.nodes.iter().chain(links).map(String::as_str).chain(whole);
                let known: Vec<&str> = known.collect();
                Err(PcapngError::NoPlace { name: name.to_owned(), remedy: suggest(name, &known) })
            }
        }
    }

    /// The interfaces, and where packets pass them.
    pub(super) fn lens(self, plan: &Plan) -> Lens {
        let nowhere = vec![None; 2 * plan.links.len()];
        let mut lens = Lens { interfaces: Vec::new(), near: nowhere.clone(), far: nowhere };
        match self {
            Vantage::Links => (0..plan.links.len()).for_each(|link| lens.add_link(plan, link)),
            Vantage::Link(link) => lens.add_link(plan, link),
            Vantage::Node(node) => lens.add_node(plan, node, &attached(plan, node)),
            Vantage::Senders => {
                let mut ends = vec![Vec::new(); plan.nodes.len()];
                for (link, index) in plan.links.iter().zip(0..) {
                    ends[link.from].push(index);
                    ends[link.to].push(index);
                }
                let sources: BTreeSet<usize> = plan.flows.iter().map(|flow| flow.source).collect();
                for node in sources {
                    lens.add_node(plan, node, &ends[node]);
                }
            }
            Vantage::Air => {}
        }
        lens
    }

    /// When, on which interface and which way a packet passes, if it does.
    pub(super) fn sees(self, plan: &Plan, lens: &Lens, hop: &HopRecord) -> Option<(Time, u32, Direction)> {
        let direction = hop.direction as usize;
        let (near, far) = ends_of(plan, hop.direction);
        let sent = || Some((hop.transmitted?, lens.near[direction]?, Direction::Outbound));
        let came = || Some((hop.arrived?, lens.far[direction]?, Direction::Inbound));
        let (from, to) = peers(plan, hop);
        match self {
            Vantage::Links | Vantage::Link(_) => sent(),
            Vantage::Node(node) if near == node => sent(),
            Vantage::Node(node) => came().filter(|_| far == node && to == node),
            Vantage::Senders if hop.back => came().filter(|_| far == to),
            Vantage::Senders => sent().filter(|_| near == from),
            Vantage::Air => None,
        }
    }
}

/// The links of a node.
fn attached(plan: &Plan, node: usize) -> Vec<usize> {
    let links = plan.links.iter().enumerate();
    links.filter(|(_, link)| link.from == node || link.to == node).map(|(index, _)| index).collect()
}

/// The interfaces of a capture, and which of them stands at the near and at the far end of each direction of a link.
pub(super) struct Lens {
    pub(super) interfaces: Vec<Interface>,
    near: Vec<Option<u32>>,
    far: Vec<Option<u32>>,
}

impl Lens {
    fn add(&mut self, interface: Interface) -> u32 {
        self.interfaces.push(interface);
        self.interfaces.len() as u32 - 1
    }

    /// An interface for each direction of a link.
    fn add_link(&mut self, plan: &Plan, link: usize) {
        let planned = &plan.links[link];
        for (direction, rate) in [(2 * link, planned.forward.rate), (2 * link + 1, planned.reverse.rate)] {
            let (near, far) = ends_of(plan, direction as u32);
            let description = format!("transmitted by {} to {}", plan.nodes[near], plan.nodes[far]);
            let name = planned.direction_name(direction as u32);
            self.near[direction] = Some(self.add(Interface { name, description, rate }));
        }
    }

    /// An interface for each link of a node.
    fn add_node(&mut self, plan: &Plan, node: usize, links: &[usize]) {
        let name = &plan.nodes[node];
        for &index in links {
            let link = &plan.links[index];
            let leaves = link.from == node;
            let interface = self.add(Interface {
                name: format!("{name} ({})", link.name),
                description: format!("sent and received by {name} on {}", link.name),
                rate: if leaves { link.forward.rate } else { link.reverse.rate },
            });
            self.near[2 * index + usize::from(!leaves)] = Some(interface);
            self.far[2 * index + usize::from(leaves)] = Some(interface);
        }
    }
}

/// The nodes at the near and at the far end of a direction of a link.
pub(super) fn ends_of(plan: &Plan, direction: u32) -> (usize, usize) {
    (start_of(&plan.links, direction), start_of(&plan.links, opposite(direction)))
}

/// The nodes that a packet comes from and goes to.
pub(super) fn peers(plan: &Plan, hop: &HopRecord) -> (usize, usize) {
    let flow = &plan.flows[hop.flow as usize];
    if hop.back { (flow.sink, flow.source) } else { (flow.source, flow.sink) }
}
