//! Helpers in the network: the registry of them, and the list `helpers` of a scenario, which switches them on where a
//! base station is.
//!
//! To add a helper: write `helpers/<name>.rs` with its `NAME`, the keys of its entry in the list (`TABLE`, which ends
//! with [`PLACED`]) and its `HELPER`, and add its line to `helpers!` below. From that follow the key, its checks and
//! messages, `lasthop helpers`, `lasthop compare --helpers`, and the head of its page in docs/reference/helpers/. What
//! the page says beside the keys is the opening comment of the source file that `HELPER.source` names, by the labels
//! that senders use. If it is a middlebox, its kind in `middleboxes` is a line in `middlebox/mod.rs`, with
//! the same keys and the same reader.

mod ack_filter;
mod arq;
mod fast_ack;
mod fec;
mod l4span;
mod snoop;
mod split;
mod wtcp;
mod zhuge;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use lasthop_net::plan::{
    Direction, ErrorModel, FlowPlan, LinkPlan, MediumPlan, Middlebox, OutagePolicy, OutageSchedule, Transport,
};
use lasthop_net::roaming::possible_paths;
use lasthop_net::routing::{DirectionId, Routes, opposite, start_of};
use serde_json::{Value, json};

use super::diagnostic::{ScenarioError, listed, quoted, suggest};
use super::keys::{Key, Kind, Table, Tagged, Variant};
use super::reader::{Checked, Item, Reader};
use super::topology::Network;
use super::transport::Shared;
pub(super) use ack_filter::{ACK_FILTER, read as read_ack_filter};
pub(super) use fast_ack::{FAST_ACK, read as read_fast_ack};
pub(super) use fec::{FEC, read as read_fec};
pub(super) use l4span::{L4SPAN, read as read_l4span};
pub(super) use snoop::{SNOOP, read as read_snoop};
pub(super) use split::{SPLIT, read as read_split};
pub(super) use wtcp::{WTCP, read as read_wtcp};
pub(super) use zhuge::{ZHUGE, read as read_zhuge};

type Result<T> = std::result::Result<T, ScenarioError>;

/// A helper in the network.
pub(super) struct Helper {
    /// Where it may stand.
    pub(super) stands: &'static str,
    /// Whose idea it is.
    pub(super) origin: &'static str,
    /// The source file whose opening comment describes it, from the root of the repository.
    pub(super) source: &'static str,
    /// The columns of results that it counts in begin so.
    pub(super) columns: &'static str,
    /// Switches it on at a site.
    pub(super) fit: fn(&Reader<'_>, &mut Site<'_>) -> Result<()>,
}

/// Where a helper is switched on.
pub(super) struct Site<'a> {
    /// The direction at whose near end it stands: towards the wireless host, if there is one.
    pub(super) direction: &'a mut Direction,
    /// The other direction of the same link.
    pub(super) other: &'a mut Direction,
    /// Name of the link.
    pub(super) link: &'a str,
    /// Whether a radio channel serves the link.
    pub(super) is_radio: bool,
    /// What transports are made of.
    pub(super) shared: &'a Shared<'a>,
    /// What is said of each proxy that splits connections if none passes it.
    pub(super) splits: &'a mut Vec<ScenarioError>,
}

/// The key that all entries of the list have.
pub(super) const PLACED: &[Key] = &[Key::new(
    "at",
    Kind::Text,
    "The link at whose near end it is placed: its name, or the common name of several without their numbers. Default: \
     every link that loses packets or goes down, or is a radio link, on the path of a flow.",
)];

/// Makes the registry: `module` has `NAME`, `TABLE` and `HELPER`.
macro_rules! helpers {
    ($($module:ident),* $(,)?) => {
        /// The kinds of the list `helpers`.
        pub(super) static HELPER: Tagged = Tagged {
            title: "helper",
            doc: "A helper in the network, switched on where a base station is.",
            variants: &[$(Variant { name: $module::NAME, table: &$module::TABLE, bare: true },)*],
        };

        /// Everything that is known of every helper.
        static REGISTRY: &[(&str, &Table, &Helper)] =
            &[$(($module::NAME, &$module::TABLE, &$module::HELPER),)*];
    };
}

helpers!(snoop, arq, split, fec, wtcp, ack_filter, fast_ack, zhuge, l4span);

/// Every helper with its keys, as `lasthop helpers` lists it.
pub(super) fn list() -> Value {
    let rows = REGISTRY.iter().map(|(name, table, helper)| {
        let keys = table.keys().map(|key| {
            json!({ "name": key.name, "help": key.doc, "values": key.kind.expected(), "default": key.default })
        });
        json!({
            "name": name, "summary": table.doc, "stands": helper.stands, "origin": helper.origin,
            "source": helper.source, "columns": helper.columns, "keys": keys.collect::<Vec<_>>(),
        })
    });
    Value::Array(rows.collect())
}

/// Switches on what the list `helpers` of a scenario asks for, and refuses what could not help there.
pub(super) fn fit(
    root: &Reader<'_>,
    network: &mut Network,
    shared: &Shared<'_>,
    flows: &[FlowPlan],
) -> Result<()> {
    let asked = root.list_if("helpers")?.unwrap_or_default();
    if !asked.is_empty() {
        let paths = paths(network, flows);
        for Item { value, place } in asked {
            let Checked::Tagged(name, entry) = value else { continue };
            let Some((_, _, helper)) = REGISTRY.iter().find(|known| known.0 == name) else { continue };
            let refuse = |message: String, remedy: &str| Err(root.source.error(place, message, remedy));
            let found = match entry.text_if("at")? {
                Some(at) => sites_at(&entry, at, network, flows, &paths)?,
                None => lossy_sites(network, flows, &paths),
            };
            if found.is_empty() {
                let message =
                    format!("no link on the path of a flow loses packets: {name} has nothing to repair");
                let names: Vec<&str> = network.links.iter().map(|link| link.name.as_str()).collect();
                return refuse(message, &format!("say where it stands with at; links: {}", listed(&names)));
            }
            for direction in found {
                (helper.fit)(&entry, &mut site(network, shared, direction))?;
            }
            let is_undecided = |link: &LinkPlan| {
                [&link.forward, &link.reverse].into_iter().any(|side| flushes_what_it_holds(side))
            };
            if let Some(link) = network.links.iter().find(|link| is_undecided(link)) {
                let message = format!(
                    "an outage cannot empty the queue of link {}, whose packets {name} overtakes",
                    quoted(&link.name)
                );
                return refuse(message, "write policy = \"drop-air\" or \"hold\" in handoff");
            }
        }
    }
    check(root, network, flows)
}

/// Whether an outage would have to empty a queue that lies in a device.
pub(super) fn flushes_what_it_holds(direction: &Direction) -> bool {
    direction.arq.is_none()
        && direction.holds_packets()
        && direction.outages.schedule != OutageSchedule::None
        && direction.outages.policy == OutagePolicy::Drop
}

fn site<'a>(network: &'a mut Network, shared: &'a Shared<'a>, direction: DirectionId) -> Site<'a> {
    let is_radio = network.is_radio(direction);
    let LinkPlan { name, forward, reverse, .. } = &mut network.links[direction as usize / 2];
    let (direction, other) =
        if direction.is_multiple_of(2) { (forward, reverse) } else { (reverse, forward) };
    let (direction, other) = (Arc::make_mut(direction), Arc::make_mut(other));
    Site { direction, other, link: name, is_radio, shared, splits: &mut network.splits }
}

/// The directions that the data of each flow cross, those of its later paths included, and those over any access point
/// that a host may choose.
fn paths(network: &Network, flows: &[FlowPlan]) -> Vec<Vec<DirectionId>> {
    let mut routes = Routes::new(network.nodes.len(), &network.links);
    let around = (network.media.as_slice(), network.roaming.as_slice());
    let path_of = |flow: &FlowPlan| {
        let mut path = routes.path(flow.source, flow.sink).unwrap_or_default();
        if flow.reroutes.is_empty() {
            let possible = possible_paths(around, &mut routes, flow.source, flow.sink);
            if !possible.is_empty() {
                path = possible.concat();
            }
        }
        for later in &flow.reroutes {
            path.extend(routes.along(&later.nodes).unwrap_or_default());
        }
        path
    };
    flows.iter().map(path_of).collect()
}

/// The direction of the same link at whose near end a base station stands: not the sender itself.
fn from_base_station(network: &Network, flow: &FlowPlan, direction: DirectionId) -> DirectionId {
    let end = start_of(&network.links, opposite(direction));
    let is_first = start_of(&network.links, direction) == flow.source;
    if is_first && end != flow.sink { opposite(direction) } else { direction }
}

/// The sites at a link that has a name, or at several that share one but for their numbers.
fn sites_at(
    entry: &Reader<'_>,
    at: &str,
    network: &Network,
    flows: &[FlowPlan],
    paths: &[Vec<DirectionId>],
) -> Result<Vec<DirectionId>> {
    let is_meant = |name: &str| {
        let number = name.strip_prefix(at).and_then(|rest| rest.strip_prefix('-'));
        name == at || number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let names: Vec<&str> = network.links.iter().map(|link| link.name.as_str()).collect();
    if !names.iter().any(|name| is_meant(name)) {
        return Err(entry.error("at", format!("unknown link {}", quoted(at)), &suggest(at, &names)));
    }
    let found = sites_where(network, flows, paths, |direction| is_meant(names[direction as usize / 2]));
    if found.is_empty() {
        let message = format!("no flow crosses link {}", quoted(at));
        let crossed: BTreeSet<&str> =
            paths.iter().flatten().map(|&direction| names[direction as usize / 2]).collect();
        let crossed: Vec<&str> = crossed.into_iter().collect();
        return Err(entry.error("at", message, &format!("flows cross {}", listed(&crossed))));
    }
    Ok(found)
}

/// The sites where a base station would be: the links on paths that lose packets.
fn lossy_sites(network: &Network, flows: &[FlowPlan], paths: &[Vec<DirectionId>]) -> Vec<DirectionId> {
    let loses = |direction: &Direction| {
        direction.error != ErrorModel::None || direction.outages.schedule != OutageSchedule::None
    };
    let is_lossy: Vec<bool> = (network.links.iter().zip(0u32..))
        .map(|(link, index)| loses(&link.forward) || loses(&link.reverse) || network.is_radio(2 * index))
        .collect();
    sites_where(network, flows, paths, |direction| is_lossy[direction as usize / 2])
}

/// The sites at those links on the paths of flows for which `is_meant` holds, each once.
fn sites_where(
    network: &Network,
    flows: &[FlowPlan],
    paths: &[Vec<DirectionId>],
    is_meant: impl Fn(DirectionId) -> bool,
) -> Vec<DirectionId> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for (flow, path) in flows.iter().zip(paths) {
        for &direction in path.iter().filter(|&&direction| is_meant(direction)) {
            let stands = from_base_station(network, flow, direction);
            if seen.insert(stands) {
                found.push(stands);
            }
        }
    }
    found
}

/// Refuses agents whose connections lack what they work by, and proxies behind agents that would help the wrong half.
/// `flows` are those of the plan: halves of split connections are flows of their own.
pub(super) fn check_connections(root: &Reader<'_>, network: &Network, flows: &[FlowPlan]) -> Result<()> {
    let key = if root.has("helpers") { "helpers" } else { "topology" };
    let at = |direction: DirectionId| {
        let link = &network.links[direction as usize / 2];
        if direction.is_multiple_of(2) { &link.forward } else { &link.reverse }
    };
    let agents = |direction: DirectionId| at(direction).middleboxes.iter();
    let has_any = network
        .links
        .iter()
        .any(|link| !link.forward.middleboxes.is_empty() || !link.reverse.middleboxes.is_empty());
    if !has_any {
        return Ok(());
    }
    check_fast_acks(root, key, network, flows)?;
    let mut routes = Routes::new(network.nodes.len(), &network.links);
    let passed_on: HashSet<usize> =
        flows.iter().filter_map(|flow| flow.relay).map(|relay| relay.of).collect();
    for (flow, number) in flows.iter().zip(0usize..) {
        let Transport::Tcp(config) = &flow.transport else { continue };
        let mut path = match &flow.first_path {
            Some(nodes) => routes.along(nodes).unwrap_or_default(),
            None => routes.path(flow.source, flow.sink).unwrap_or_default(),
        };
        for later in &flow.reroutes {
            path.extend(routes.along(&later.nodes).unwrap_or_default());
        }
        for &direction in path.iter().filter(|&&direction| start_of(&network.links, direction) != flow.source)
        {
            let link = quoted(&network.links[direction as usize / 2].name);
            for agent in agents(direction) {
                let (name, works_by_stamps) = match agent {
                    Middlebox::Snoop(_) => ("snoop", false),
                    Middlebox::Wtcp(_) => ("wtcp", true),
                    _ => continue,
                };
                if works_by_stamps && !config.timestamps {
                    let message = format!(
                        "wtcp at link {link} works by timestamps, and flow {} has none",
                        quoted(&flow.name)
                    );
                    return Err(root.error(
                        key,
                        message,
                        "write timestamps = true in its transport, or use snoop",
                    ));
                }
                if passed_on.contains(&number) {
                    let message = format!(
                        "a split behind the {name} at link {link} ends the connection of flow {} before the wireless \
                         host: the {name} would help the wired half",
                        quoted(&flow.name)
                    );
                    let remedy =
                        format!("put the {name} behind the split, at the wireless link, or leave one out");
                    return Err(root.error(key, message, &remedy));
                }
            }
        }
    }
    Ok(())
}

/// Refuses FastACK where no MAC says what has arrived, and where what it has acknowledged could take another way.
fn check_fast_acks(root: &Reader<'_>, key: &str, network: &Network, flows: &[FlowPlan]) -> Result<()> {
    for (link, index) in network.links.iter().zip(0usize..) {
        for side in [&link.forward, &link.reverse] {
            if !side.middleboxes.iter().any(|one| matches!(one, Middlebox::FastAck(_))) {
                continue;
            }
            let name = quoted(&link.name);
            let is_wlan = network.media.iter().any(|medium| medium.links.iter().any(|one| one.link == index));
            if !is_wlan {
                let message = format!("fastack at link {name} hears no acknowledgements of 802.11");
                return Err(root.error(
                    key,
                    message,
                    "put it at a link of an 802.11 cell, or use snoop or split",
                ));
            }
            if !network.roaming.is_empty() {
                let message =
                    format!("hosts leave the access point, and what fastack at link {name} keeps does not");
                return Err(root.error(key, message, "leave out fastack or roaming, or use snoop"));
            }
            if let Some(flow) = flows.iter().find(|flow| !flow.reroutes.is_empty()) {
                let message = format!(
                    "flow {} changes its path, and what fastack at link {name} keeps does not",
                    quoted(&flow.name)
                );
                return Err(root.error(key, message, "leave out fastack or reroute, or use snoop"));
            }
        }
    }
    Ok(())
}

/// Refuses middleboxes that stand where stations find their routes themselves, unless they stand where flows enter or
/// leave the channel: what is inside, tables decide packet by packet.
pub(super) fn check_crossings(root: &Reader<'_>, network: &Network, flows: &[FlowPlan]) -> Result<()> {
    let key = if root.has("helpers") { "helpers" } else { "topology" };
    let side = |direction: DirectionId| {
        let link = &network.links[direction as usize / 2];
        if direction.is_multiple_of(2) { &link.forward } else { &link.reverse }
    };
    let channel = |direction: DirectionId| {
        let has = |medium: &MediumPlan| medium.links.iter().any(|radio| radio.link == direction as usize / 2);
        network.media.iter().position(|medium| medium.routing.is_some() && has(medium))
    };
    if network.media.iter().all(|medium| medium.routing.is_none()) {
        return Ok(());
    }
    let refuse = |what: &str, direction: DirectionId| {
        let link = quoted(&network.links[direction as usize / 2].name);
        let message = format!("{what} link {link}, and DSDV decides which links packets take");
        Err(root.error(key, message, "write routing = \"static\", or leave the middlebox out"))
    };
    for path in paths(network, flows) {
        for &direction in path.iter().filter(|&&direction| channel(direction).is_some()) {
            let both = side(direction).middleboxes.iter().chain(&side(opposite(direction)).middleboxes);
            if let Some(over) = both.into_iter().find(|middlebox| middlebox.reaches_over()) {
                let name = match over {
                    Middlebox::Zhuge(_) => "zhuge",
                    Middlebox::L4Span(_) => "l4span",
                    _ => "fec",
                };
                return refuse(&format!("{name} stands at both ends of"), direction);
            }
        }
        for pair in
            path.windows(2).filter(|pair| channel(pair[0]).is_some() && channel(pair[0]) == channel(pair[1]))
        {
            for inside in [opposite(pair[0]), pair[1]] {
                if !side(inside).middleboxes.is_empty() {
                    return refuse("a middlebox stands inside the channel, at", inside);
                }
            }
        }
    }
    Ok(())
}

/// An agent that works by ACKs of TCP, and what is said where no flow gives it anything to do.
struct Agent {
    name: &'static str,
    is_one: fn(&Middlebox) -> bool,
    /// What it does for the data that departs where it stands: from a host of its own as well, and not for what comes
    /// the other way. Otherwise it stands anywhere but at the ends of a flow.
    goes_by_departures: bool,
    /// In place of it where only datagrams cross the link.
    without_tcp: &'static str,
    /// Why it is idle where flows of TCP cross the link, and where it belongs.
    idle: (&'static str, &'static str),
}

const AGENTS: [Agent; 2] = [
    Agent {
        name: "snoop",
        is_one: |one| matches!(one, Middlebox::Snoop(_)),
        goes_by_departures: false,
        without_tcp: "use arq, which repairs every packet, or choose a TCP transport",
        idle: (
            "is at an end of every flow that crosses it",
            "put it in front of the lossy link, at the base station",
        ),
    },
    Agent {
        name: "zhuge",
        is_one: |one| matches!(one, Middlebox::Zhuge(_)),
        goes_by_departures: true,
        without_tcp: "leave it out, or choose a TCP transport; reports of calls are not delayed",
        idle: (
            "has nothing to predict: no flow of TCP sends data its way",
            "put it at the direction of the link in which the data goes",
        ),
    },
];

/// Refuses agents that no flow of TCP gives anything to do.
fn check(root: &Reader<'_>, network: &Network, flows: &[FlowPlan]) -> Result<()> {
    AGENTS.iter().try_for_each(|agent| check_agents(root, network, flows, agent))
}

fn check_agents(root: &Reader<'_>, network: &Network, flows: &[FlowPlan], agent: &Agent) -> Result<()> {
    let agents: Vec<DirectionId> = (network.links.iter().zip(0u32..))
        .flat_map(|(link, index)| [(&link.forward, 2 * index), (&link.reverse, 2 * index + 1)])
        .filter(|(direction, _)| direction.middleboxes.iter().any(agent.is_one))
        .map(|(_, direction)| direction)
        .collect();
    let Some(&first) = agents.first() else { return Ok(()) };
    let paths = paths(network, flows);
    let name = quoted(&network.links[first as usize / 2].name);
    let key = if root.has("helpers") { "helpers" } else { "topology" };
    let links: HashSet<u32> = agents.iter().map(|agent| agent / 2).collect();
    let stands: HashSet<DirectionId> = agents.into_iter().collect();
    let mut crossed =
        flows.iter().zip(&paths).filter(|(_, path)| path.iter().any(|one| links.contains(&(one / 2))));
    let mut is_crossed = false;
    let mut only_datagrams = true;
    let helps = |flow: &FlowPlan, path: &[DirectionId]| {
        path.iter().any(|&one| {
            if agent.goes_by_departures {
                return stands.contains(&one);
            }
            let (here, beyond) = (start_of(&network.links, one), start_of(&network.links, opposite(one)));
            (stands.contains(&one) && here != flow.source)
                || (stands.contains(&opposite(one)) && beyond != flow.sink)
        })
    };
    for (flow, path) in crossed.by_ref() {
        is_crossed = true;
        if matches!(flow.transport, Transport::Tcp(_)) {
            only_datagrams = false;
            if helps(flow, path) {
                return Ok(());
            }
        }
    }
    let agent_name = agent.name;
    let (message, remedy) = if !is_crossed {
        let message = format!("no flow crosses link {name}, at which a {agent_name} stands");
        (message, "put it at a link on the path of a flow")
    } else if only_datagrams {
        let message = format!(
            "a {agent_name} at link {name} has no ACKs to read: only UDP or rate-based flows cross it"
        );
        (message, agent.without_tcp)
    } else {
        let (why, remedy) = agent.idle;
        (format!("a {agent_name} at link {name} {why}"), remedy)
    };
    Err(root.error(key, message, remedy))
}
