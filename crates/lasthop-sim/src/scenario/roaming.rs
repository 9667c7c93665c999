//! Hosts that choose among access points: from `[[topology.roaming]]` to plans. Called by `topology/`, when the cells
//! are known.

use std::collections::BTreeMap;

use lasthop_core::time::{Span, Time};
use lasthop_net::plan::{Choice, LinkPlan, MediumPlan, OldQueue, RoamingPlan, StationPlan, UnderWay};

use super::declare::{choice, keys, table};
use super::diagnostic::{ScenarioError, quoted};
use super::keys::{ANY_TIME, Kind, LONGEST, METRES, SOME_TIME, Tagged, Variant};
use super::reader::{Checked, Item, Reader};
use super::topology::node_called;

type Result<T> = std::result::Result<T, ScenarioError>;

choice! {
    const OLD_QUEUE: OldQueue = "drop" => OldQueue::Drop, "forward" => OldQueue::Forward, "hold" => OldQueue::Hold
}
choice! {
    pub(super) const UNDER_WAY: UnderWay = "divert" => UnderWay::Divert, "lose" => UnderWay::Lose
}

table! {
    /// A host that roams from one access point to another, starting at the strongest. Routes follow it, and both ends
    /// of its TCP connections are notified.
    pub(super) static ROAMING = "roaming";
    struct Keys<'n> {
        /// Its node, a station of several cells.
        host: String = Kind::Text, required();
        /// How it chooses its access point.
        by: (&'static str, Reader<'n>) = Kind::Tagged(&CHOICE_OF_AP), default("\"strongest\"");
        /// Time from leaving the old access point until the new one reaches the station. Packets sent to it meanwhile
        /// wait. Default: what authentication takes.
        delay: Option<Span> = SOME_TIME;
        /// How the host is admitted by the new access point, in place of delay. ft: fast transition (802.11r), 40 ms;
        /// psk: reassociation and a four-way handshake, 80 ms; 802.1x: with a server, 300 ms. Default: none of them, 50
        /// ms.
        authentication: Option<&'static str> = Kind::Choice(|| vec!["ft", "psk", "802.1x"]);
        /// Time that the search for another access point takes before. Default: 0 s, as with neighbour reports
        /// (802.11k).
        scan: Option<Span> = ANY_TIME;
        /// What happens to packets that wait for it at the old access point: they are lost, forwarded when it has
        /// arrived at the new one, or kept until it comes back. The station keeps its own packets.
        queue: OldQueue = OLD_QUEUE, default("\"drop\"");
        /// What happens to packets in flight on the old path when the path changes: from the next node on they take the
        /// new one, or they are lost there.
        under_way: UnderWay = UNDER_WAY, default("\"divert\"");
        /// How long before it leaves the host announces that its link will fade; with strongest and nearest it leaves
        /// that much later. Default: no announcement.
        warning: Option<Span> = SOME_TIME;
    }
}

static CHOICE_OF_AP: Tagged = Tagged {
    title: "choice of an access point",
    doc: "How a host chooses its access point.",
    variants: &[
        Variant { name: "strongest", table: &STRONGEST, bare: true },
        Variant { name: "nearest", table: &NEAREST, bare: true },
        Variant { name: "list", table: &LISTED_CHANGES, bare: false },
    ],
};

keys! {
    struct Looks {
        /// Time between two comparisons of the access points.
        interval: Span = Kind::Duration { min: Span::from_millis(1), max: LONGEST }, default("\"100 ms\"");
    }
}

table! {
    /// The access point with the strongest signal, if it can be received.
    static STRONGEST = "strongest";
    struct Strongest {
        /// The host changes when another is stronger by this many dB.
        hysteresis: f64 = Kind::Measured { min: 0.0, max: 100.0, unit: "dB" }, default("3");
        ..looks: Looks;
    }
}

table! {
    /// The nearest access point, if it can be received.
    static NEAREST = "nearest";
    struct Nearest {
        /// The host changes when another is nearer by this many metres.
        hysteresis: f64 = METRES, default("5");
        ..looks: Looks;
    }
}

static A_CHANGE: Kind = Kind::Table(&LISTED_CHANGE);

table! {
    /// Listed access points at listed times.
    static LISTED_CHANGES = "list";
    struct ListedChanges<'n> {
        /// The changes, in the order of time.
        changes: Vec<Item<'n>> = Kind::List(&A_CHANGE),
            required_or("add changes = [{ at = \"10 s\", access_point = \"ap\" }]");
    }
}

table! {
    /// A change of the access point.
    static LISTED_CHANGE = "change";
    struct Change {
        /// When the host leaves the old one.
        at: Span = ANY_TIME, required();
        /// Node of the new access point.
        access_point: String = Kind::Text, required();
    }
}

/// The parts of the network that the table of a host needs.
pub(super) struct Surroundings<'a> {
    pub(super) nodes: &'a [String],
    pub(super) numbers: &'a BTreeMap<&'a str, usize>,
    pub(super) links: &'a [LinkPlan],
    pub(super) media: &'a [MediumPlan],
}

impl Surroundings<'_> {
    /// The access points of the cells of a host: the node of each, and the link to it.
    fn access_points(&self, host: usize) -> Vec<(usize, usize)> {
        let of = |medium: &MediumPlan| -> Vec<(usize, usize)> {
            let ends = |link: &lasthop_net::plan::RadioLink| {
                (&medium.stations[link.from], &medium.stations[link.to])
            };
            let own = medium.links.iter().filter(|link| {
                let (from, to) = ends(link);
                from.node == host && to.access_point
            });
            own.map(|link| (ends(link).1.node, link.link)).collect()
        };
        self.media.iter().flat_map(of).collect()
    }

    /// The host as a station of each of its channels.
    fn stations(&self, host: usize) -> impl Iterator<Item = &StationPlan> {
        self.media.iter().flat_map(|medium| &medium.stations).filter(move |station| station.node == host)
    }

    /// Whether other links than these lead from one node to another.
    fn joined(&self, from: usize, to: usize, without: &[usize]) -> bool {
        let mut reached = vec![false; self.nodes.len()];
        let mut open = vec![from];
        reached[from] = true;
        while let Some(place) = open.pop() {
            for (link, index) in self.links.iter().zip(0..) {
                let next = if link.from == place {
                    link.to
                } else if link.to == place {
                    link.from
                } else {
                    continue;
                };
                if !without.contains(&index) && !std::mem::replace(&mut reached[next], true) {
                    open.push(next);
                }
            }
        }
        reached[to]
    }
}

/// The host of a table.
pub(super) fn read(
    table: &Reader<'_>,
    known: &[RoamingPlan],
    around: &Surroundings<'_>,
) -> Result<RoamingPlan> {
    let keys = Keys::read(table)?;
    let host = node_called(table, ("host", &keys.host), around.numbers)?;
    let name = quoted(&around.nodes[host]);
    if known.iter().any(|other| other.host == host) {
        return Err(table.error("host", format!("{name} is listed twice"), "name each host once"));
    }
    if around.media.iter().any(|medium| medium.routing.is_some()) {
        let message = format!("{name} chooses its access point, and a channel finds its routes by DSDV");
        return Err(table.error(
            "host",
            message,
            "write routing = \"static\" for every cell, or leave out roaming",
        ));
    }
    let access_points = around.access_points(host);
    if access_points.len() < 2 {
        let cells = if access_points.is_empty() { "no cell" } else { "one cell" };
        let message =
            format!("{name} is a station of {cells} with an access point: there is nothing to choose");
        return Err(table.error("host", message, "name it among the stations of both cells"));
    }
    let mut stations = around.stations(host);
    let first = stations.next();
    if stations.any(|station| first.is_some_and(|first| first.track != station.track)) {
        let message = format!("{name} is at different places in different cells");
        return Err(table.error("host", message, "give it the same position and track in every cell"));
    }
    let own: Vec<usize> = access_points.iter().map(|&(_, link)| link).collect();
    let (hub, _) = access_points[0];
    if let Some(&(apart, _)) = access_points.iter().find(|&&(other, _)| !around.joined(hub, other, &own)) {
        let (one, other) = (quoted(&around.nodes[hub]), quoted(&around.nodes[apart]));
        let message =
            format!("no path joins the access points {one} and {other}: traffic cannot follow {name}");
        return Err(table.error("host", message, "join them by links"));
    }
    let delay = delay(table, &keys)?;
    let Keys { by, queue: old_queue, under_way, warning, .. } = keys;
    if old_queue == OldQueue::Forward && under_way == UnderWay::Lose {
        let message = "packets at the old access point are forwarded, and lost because they are on their way"
            .to_owned();
        let remedy = "write under_way = \"divert\", or queue = \"drop\"";
        return Err(table.error("under_way", message, remedy));
    }
    let choice = choice(&by, (&name, &access_points), delay, around)?;
    Ok(RoamingPlan { host, choice, delay, old_queue, under_way, warning })
}

/// How long the host is nowhere: `delay`, or what its way to authenticate takes, and a scan before it.
fn delay(table: &Reader<'_>, keys: &Keys<'_>) -> Result<Span> {
    let usual = match keys.authentication {
        Some("ft") => Span::from_millis(40),
        Some("psk") => Span::from_millis(80),
        Some(_) => Span::from_millis(300),
        None => Span::from_millis(50),
    };
    if keys.delay.is_some() && keys.authentication.is_some() {
        let message = "a delay is given, and authentication says how long it takes".to_owned();
        return Err(table.error("delay", message, "leave out delay or authentication"));
    }
    Ok(keys.delay.unwrap_or(usual) + keys.scan.unwrap_or(Span::ZERO))
}

fn choice(
    (kind, by): &(&'static str, Reader<'_>),
    (host, access_points): (&str, &[(usize, usize)]),
    delay: Span,
    around: &Surroundings<'_>,
) -> Result<Choice> {
    if *kind == "strongest" {
        let Strongest { hysteresis, looks } = Strongest::read(by)?;
        return Ok(Choice::Strongest { hysteresis, interval: looks.interval });
    }
    if *kind == "nearest" {
        let Nearest { hysteresis, looks } = Nearest::read(by)?;
        return Ok(Choice::Nearest { hysteresis, interval: looks.interval });
    }
    let mut changes: Vec<(Time, usize)> = Vec::new();
    for item in ListedChanges::read(by)?.changes {
        let Checked::Table(change) = item.value else { continue };
        let keys = Change::read(&change)?;
        let at = Time(keys.at.0);
        if let Some(&(before, _)) = changes.last()
            && at <= before + delay
        {
            let message =
                format!("the change of {at} begins before the one of {before} is over, {delay} later");
            return Err(change.error(
                "at",
                message,
                "write the changes in the order of time, or lower delay",
            ));
        }
        let access_point = node_called(&change, ("access_point", &keys.access_point), around.numbers)?;
        if !access_points.iter().any(|&(known, _)| known == access_point) {
            let message =
                format!("{host} is not a station of a cell of {}", quoted(&around.nodes[access_point]));
            return Err(change.error("access_point", message, "name it among the stations of that cell"));
        }
        changes.push((at, access_point));
    }
    Ok(Choice::List(changes))
}
