//! Hosts that choose among access points: from `[[topology.roaming]]` to plans. Called by `topology.rs`, when the cells
//! are known.

use std::collections::BTreeMap;

use lasthop_core::time::{Span, Time};
use lasthop_net::plan::{Choice, LinkPlan, MediumPlan, OldQueue, RoamingPlan, StationPlan, UnderWay};

use super::diagnostic::{ScenarioError, quoted};
use super::reader::{Checked, Reader};
use super::topology::node;

type Result<T> = std::result::Result<T, ScenarioError>;

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
    let host = node(table, "host", around.numbers)?;
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
    let delay = delay(table)?;
    let warning = table.span_if("warning")?;
    let old_queue = match table.name("queue")? {
        "forward" => OldQueue::Forward,
        "hold" => OldQueue::Hold,
        _ => OldQueue::Drop,
    };
    let under_way = if table.name("under_way")? == "lose" { UnderWay::Lose } else { UnderWay::Divert };
    if old_queue == OldQueue::Forward && under_way == UnderWay::Lose {
        let message = "packets at the old access point are forwarded, and lost because they are on their way"
            .to_owned();
        let remedy = "write under_way = \"divert\", or queue = \"drop\"";
        return Err(table.error("under_way", message, remedy));
    }
    let choice = choice(table, (&name, &access_points), delay, around)?;
    Ok(RoamingPlan { host, choice, delay, old_queue, under_way, warning })
}

/// How long the host is nowhere: `delay`, or what its way to authenticate takes, and a scan before it.
fn delay(table: &Reader<'_>) -> Result<Span> {
    let usual = match table.name_if("authentication")? {
        Some("ft") => Span::from_millis(40),
        Some("psk") => Span::from_millis(80),
        Some(_) => Span::from_millis(300),
        None => Span::from_millis(50),
    };
    let given = table.span_if("delay")?;
    if given.is_some() && table.has("authentication") {
        let message = "a delay is given, and authentication says how long it takes".to_owned();
        return Err(table.error("delay", message, "leave out delay or authentication"));
    }
    Ok(given.unwrap_or(usual) + table.span_if("scan")?.unwrap_or(Span::ZERO))
}

fn choice(
    table: &Reader<'_>,
    (host, access_points): (&str, &[(usize, usize)]),
    delay: Span,
    around: &Surroundings<'_>,
) -> Result<Choice> {
    let (kind, by) = table.tagged("by")?;
    if kind == "strongest" {
        return Ok(Choice::Strongest {
            hysteresis: by.number("hysteresis")?,
            interval: by.span("interval")?,
        });
    }
    if kind == "nearest" {
        return Ok(Choice::Nearest { hysteresis: by.number("hysteresis")?, interval: by.span("interval")? });
    }
    let mut changes: Vec<(Time, usize)> = Vec::new();
    for item in by.list("changes")? {
        let Checked::Table(change) = item.value else { continue };
        let at = Time(change.span("at")?.0);
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
        let access_point = node(&change, "access_point", around.numbers)?;
        if !access_points.iter().any(|&(known, _)| known == access_point) {
            let message =
                format!("{host} is not a station of a cell of {}", quoted(&around.nodes[access_point]));
            return Err(change.error("access_point", message, "name it among the stations of that cell"));
        }
        changes.push((at, access_point));
    }
    Ok(Choice::List(changes))
}
