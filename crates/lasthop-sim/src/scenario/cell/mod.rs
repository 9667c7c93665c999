//! Cells of IEEE 802.11: from tables to radio channels and the links that run over them.
//!
//! `topology/` calls it for every cell. Cells of one channel become one medium, in which all of their stations hear one
//! another; every pair that may talk is a link of the network as well, so that routes and results know it. What a radio
//! is stands in `radio.rs`, and what has kinds in a file of its own.

mod propagation;
mod radio;
mod rate_control;
mod routing;

use std::collections::BTreeMap;
use std::sync::Arc;

use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;
use lasthop_net::device::wlan::mode::Format as ModeFormat;
use lasthop_net::device::wlan::rate_adaptation::RatePlan;
use lasthop_net::plan::{Direction, LinkPlan, MacPlan, MediumPlan, Queues, RadioLink, StationPlan};
use lasthop_net::propagation::{Position, Track, flight};

use super::aggregation;
use super::diagnostic::{Place, ScenarioError, quoted};
use super::keys::{Key, Kind, MOST_STATIONS, SOME_TIME, Table};
use super::link::LinkReader;
use super::middlebox;
use super::reader::{Checked, Item, Reader};
use super::topology::{make, node};
pub(super) use radio::RADIO_TABLE;
use radio::{Air, mac, rate_index};

type Result<T> = std::result::Result<T, ScenarioError>;

/// A position in the plane.
static COORDINATE: Kind = Kind::Measured { min: -1e7, max: 1e7, unit: "m" };
const POINT: Kind = Kind::List(&COORDINATE);

pub(super) static CELL: Table = Table {
    title: "cell",
    doc: "A cell of IEEE 802.11. Cells on the same channel share the medium.",
    groups: &[
        &[
            Key::new("name", Kind::Text, "Name of the cell. Default: cell and its number."),
            Key::new(
                "access_point",
                Kind::Text,
                "The node that is the access point; all traffic of the stations goes through it. Default: none, and \
                 stations communicate directly (ad hoc).",
            ),
            Key::new("position", POINT, "Where the access point is, [x, y] in metres.").default("[0, 0]"),
            Key::new("stations", Kind::List(&A_STATION), "The stations.")
                .required_or("add stations = [{ node = \"phone\", position = [10, 0] }]"),
            Key::new("channel", Kind::Integer { min: 1, max: 200 }, "Number of the radio channel.")
                .default("1"),
        ],
        radio::RADIO,
        aggregation::MODES,
    ],
    partial: false,
};

static A_STATION: Kind = Kind::Table(&STATION);

static STATION: Table = Table {
    title: "station",
    doc: "A station of a cell. A node may be a station of several cells; its path chooses among them.",
    groups: &[
        &[
            Key::new("node", Kind::Text, "Its node.").required(),
            Key::new("position", POINT, "Where it is, [x, y] in metres.")
                .required_or("add position = [10, 0]"),
            Key::new(
                "track",
                Kind::List(&A_WAYPOINT),
                "Waypoints after it, in order of time and joined by straight lines. Default: none.",
            ),
            Key::new(
                "rate",
                Kind::Rate,
                "Before 802.11n: rate of data frames to and from it, regardless of rate_control; between two stations \
                 that have one, that of the addressee. Default: as in the cell; of an older station in a cell of \
                 802.11n or later 54 Mbit/s.",
            ),
        ],
        aggregation::STATION,
    ],
    partial: false,
};

static A_WAYPOINT: Kind = Kind::Table(&WAYPOINT);

static WAYPOINT: Table = Table {
    title: "waypoint",
    doc: "A point that a station reaches at a time.",
    groups: &[&[
        Key::new("at", SOME_TIME, "When.").required(),
        Key::new("position", POINT, "Where, [x, y] in metres.").required_or("add position = [10, 0]"),
    ]],
    partial: false,
};

/// A station of a cell, and where the scenario says so.
pub(super) struct Member<'n> {
    pub(super) node: usize,
    pub(super) track: Track,
    /// What the scenario says of it, if there are such keys.
    pub(super) table: Option<Reader<'n>>,
    pub(super) place: &'n Place,
}

/// Who belongs to a cell.
pub(super) struct Members<'n> {
    pub(super) name: String,
    pub(super) channel: u64,
    pub(super) access_point: Option<(usize, Position)>,
    pub(super) stations: Vec<Member<'n>>,
    /// Links are called so, with a number; otherwise by the nodes that they join.
    pub(super) link_name: Option<String>,
}

/// The members of a cell of a graph.
pub(super) fn members<'n>(
    table: &Reader<'n>,
    number: usize,
    numbers: &BTreeMap<&str, usize>,
) -> Result<Members<'n>> {
    let name = table.text_if("name")?.map_or_else(|| format!("cell-{number}"), str::to_owned);
    let mut access_point = None;
    if table.has("access_point") {
        access_point = Some((node(table, "access_point", numbers)?, point(table)?));
    }
    let mut stations: Vec<Member<'n>> = Vec::new();
    for item in table.list("stations")? {
        let Checked::Table(station) = item.value else { continue };
        let member = node(&station, "node", numbers)?;
        let known = stations.iter().any(|other| other.node == member);
        if known || access_point.is_some_and(|(node, _)| node == member) {
            let message = format!("{} is in the cell twice", quoted(station.text("node")?));
            return Err(station.error("node", message, "name each node once"));
        }
        stations.push(Member {
            node: member,
            track: track(&station)?,
            table: Some(station),
            place: station.place,
        });
    }
    if access_point.is_none() && stations.len() < 2 {
        let message = "a cell without an access point has a single station".to_owned();
        return Err(table.error("stations", message, "add access_point, or another station"));
    }
    Ok(Members { name, channel: table.integer("channel")?, access_point, stations, link_name: None })
}

/// The position of a table.
fn point(table: &Reader<'_>) -> Result<Position> {
    let items = table.list("position")?;
    let [Item { value: Checked::Number(x), .. }, Item { value: Checked::Number(y), .. }] = items[..] else {
        let message = format!("a position has two coordinates, not {}", items.len());
        return Err(table.error("position", message, "write [x, y] in metres"));
    };
    Ok(Position { x, y })
}

fn track(station: &Reader<'_>) -> Result<Track> {
    let mut points = vec![(Time::ZERO, point(station)?)];
    for item in station.list_if("track")?.unwrap_or_default() {
        let Checked::Table(waypoint) = item.value else { continue };
        let at = Time(waypoint.span("at")?.0);
        let before = points[points.len() - 1].0;
        if at <= before {
            let message = format!("the point of {at} does not come after the one of {before}");
            return Err(waypoint.error("at", message, "write the points in the order of time"));
        }
        points.push((at, point(&waypoint)?));
    }
    Ok(Track { points })
}

/// The channels that cells have been put on.
#[derive(Default)]
pub(super) struct Cells {
    media: Vec<(u64, MediumPlan)>,
    names: Vec<String>,
}

impl Cells {
    /// Adds a cell with the settings of `table`, and its links.
    pub(super) fn add(
        &mut self,
        table: &Reader<'_>,
        members: &Members<'_>,
        reader: &mut LinkReader<'_, '_>,
        (nodes, links): (&[String], &mut Vec<LinkPlan>),
    ) -> Result<()> {
        if self.names.contains(&members.name) {
            let message = format!("two cells are called {}", quoted(&members.name));
            return Err(table.error("name", message, "give each cell its own name"));
        }
        self.names.push(members.name.clone());
        if members.stations.len() as u64 > MOST_STATIONS {
            let message =
                format!("{} stations in one cell, more than {MOST_STATIONS}", members.stations.len());
            return Err(table.error("stations", message, "use more channels"));
        }
        let mut mac = mac(table)?;
        let (control, _) = table.tagged("rate_control")?;
        let mut own = |member: &Member<'_>| match &member.table {
            Some(station) => {
                aggregation::own_modes(station, mac.aggregation.as_deref_mut(), (mac.phy, control))
            }
            None => Ok(None),
        };
        let modes = members.stations.iter().map(&mut own).collect::<Result<Vec<Option<(usize, usize)>>>>()?;
        if let Some(plan) = mac.aggregation.as_ref().filter(|_| !table.has("protection")) {
            let older = |&(first, _): &(usize, usize)| plan.modes[first].format() == ModeFormat::Legacy;
            mac.protection = modes.iter().flatten().any(older);
        }
        let rates = members.stations.iter().map(|member| own_rate(member, &mac));
        let rates = rates.collect::<Result<Vec<Option<usize>>>>()?;
        let air = Air::read(table)?;
        let radio = air.medium(&members.name);
        check_range(table, members, &radio, nodes)?;
        let index = self.medium_for(table, members, radio, &mac)?;
        let medium = &mut self.media[index].1;
        let rate = initial_rate(&mac);
        let mac_index = medium.macs.len();
        let is_fair = mac.aggregation.as_ref().is_some_and(|plan| matches!(plan.queues, Queues::Fair { .. }));
        medium.macs.push(mac);
        let mut join = |node: usize, track: Track, access_point: bool, (modes, rate)| {
            if let Some(known) = medium.stations.iter().position(|station| station.node == node) {
                medium.stations[known].access_point |= access_point;
                return known;
            }
            medium.stations.push(StationPlan {
                node,
                name: nodes[node].clone(),
                mac: mac_index,
                track,
                access_point,
                modes,
                rate,
            });
            medium.stations.len() - 1
        };
        let hub = members
            .access_point
            .map(|(node, position)| join(node, Track::fixed(position), true, (None, None)));
        let stations: Vec<usize> = members
            .stations
            .iter()
            .zip(modes.into_iter().zip(rates))
            .map(|(member, own)| join(member.node, member.track.clone(), false, own))
            .collect();
        // With routes of their own stations are neighbours of each other, too.
        let peers = hub.is_none() || medium.routing.is_some();
        let after = |index: usize| stations[index + 1..].iter().map(move |&other| (index, other));
        let others = (0..stations.len()).filter(|_| peers).flat_map(after);
        let others = others.map(|(index, other)| (stations[index], other));
        let hubs = hub.iter().flat_map(|&hub| stations.iter().map(move |&station| (station, hub)));
        let pairs: Vec<(usize, usize)> = hubs.chain(others).collect();
        let farthest =
            pairs.iter().map(|&(from, to)| medium.distance(from, to, Time::ZERO)).fold(0.0, f64::max);
        let delay = air.flight.unwrap_or_else(|| flight(farthest)).max(Span::from_nanos(1));
        medium.flight = medium.flight.max(delay);
        let mut direction = reader.radio(table, pairs.len() as u64, (rate, delay))?;
        if is_fair {
            direction.queue = aggregation::fair_queue(direction.mtu);
        }
        let middleboxes = match table.list_if("middleboxes")? {
            Some(_) => middlebox::read(table, direction.mtu.into())?,
            None => Vec::new(),
        };
        if hub.is_none() && !middleboxes.is_empty() {
            let message = "nothing stands between the stations of a cell without an access point".to_owned();
            let remedy = "name an access_point, or leave out middleboxes";
            return Err(table.error("middleboxes", message, remedy));
        }
        let (down, up) = (Arc::new(Direction { middleboxes, ..direction.clone() }), Arc::new(direction));
        for ((from, to), number) in pairs.into_iter().zip(1..) {
            let (one, other) = (medium.stations[from].node, medium.stations[to].node);
            let name = match &members.link_name {
                Some(name) => format!("{name}-{number}"),
                None => format!("{}-{}", nodes[one], nodes[other]),
            };
            if links.iter().any(|link| link.name == name) {
                let message = format!("the cell makes a link {}, and there is one already", quoted(&name));
                return Err(table.error("stations", message, "give the other link a name"));
            }
            medium.links.push(RadioLink { link: links.len(), from, to });
            let back = if hub == Some(to) { &down } else { &up };
            links.push(make(name, one, other, &(up.clone(), back.clone())));
        }
        Ok(())
    }

    /// The medium of a channel: a new one, or that of another cell, which must not contradict.
    fn medium_for(
        &mut self,
        table: &Reader<'_>,
        members: &Members<'_>,
        radio: MediumPlan,
        mac: &MacPlan,
    ) -> Result<usize> {
        let Some(index) = self.media.iter().position(|(channel, _)| *channel == members.channel) else {
            self.media.push((members.channel, radio));
            return Ok(self.media.len() - 1);
        };
        let known = &self.media[index].1;
        let comparable = MediumPlan {
            name: known.name.clone(),
            macs: known.macs.clone(),
            stations: known.stations.clone(),
            links: known.links.clone(),
            flight: known.flight,
            ..radio
        };
        if comparable != *known || known.macs[0].phy.name != mac.phy.name {
            let message = format!(
                "cells {} and {} share channel {} and differ in their PHY, power, thresholds, propagation or routing",
                quoted(&known.name),
                quoted(&members.name),
                members.channel
            );
            return Err(table.error("channel", message, "make them alike, or give one another channel"));
        }
        Ok(index)
    }

    /// The channels.
    pub(super) fn finish(self) -> Vec<MediumPlan> {
        self.media.into_iter().map(|(_, medium)| medium).collect()
    }
}

/// The rate that frames start with, for estimates.
fn initial_rate(mac: &MacPlan) -> Rate {
    if let Some(aggregation) = &mac.aggregation {
        let last = aggregation.common - 1;
        let index = if let RatePlan::Fixed(mode) = mac.rate { mode } else { last };
        return aggregation.modes[index].rate();
    }
    let fastest = mac.phy.rates.len() - 1;
    let index = if let RatePlan::Fixed(rate) = mac.rate { rate } else { fastest };
    mac.phy.rates[index].rate
}

/// Refuses stations that their access point can never have heard at the start.
fn check_range(
    table: &Reader<'_>,
    members: &Members<'_>,
    radio: &MediumPlan,
    nodes: &[String],
) -> Result<()> {
    let Some((hub, position)) = members.access_point else { return Ok(()) };
    if radio.routing.is_some() {
        // Others may send on what the access point cannot read.
        return Ok(());
    }
    for member in &members.stations {
        // Who walks may come into range later.
        let distance = member.track.at(Time::ZERO).distance(position);
        let reach = radio.propagation.range(radio.receive_threshold);
        if member.track.moves() || distance <= reach {
            continue;
        }
        let message = format!(
            "station {} is {distance:.1} m from its access point {}, and frames reach {reach:.1} m",
            quoted(&nodes[member.node]),
            quoted(&nodes[hub])
        );
        let remedy = "move it closer, raise tx_power, or lower receive_threshold";
        return Err(table.source.error(member.place, message, remedy));
    }
    Ok(())
}

/// The rate that a station has for itself, as an index of its PHY.
fn own_rate(member: &Member<'_>, mac: &MacPlan) -> Result<Option<usize>> {
    let Some(station) = &member.table else { return Ok(None) };
    let Some(rate) = station.rate_if("rate")? else { return Ok(None) };
    if mac.aggregation.is_some() && matches!(station.name_if("phy")?, Some("802.11a" | "802.11g")) {
        return Ok(None);
    }
    if mac.aggregation.is_some() {
        let message = format!("{} sends by modes, which are more than a rate", mac.phy.name);
        return Err(station.error("rate", message, "write mcs, and streams, width or guard_interval"));
    }
    rate_index(station, mac.phy, rate, "rate", station.place_of("rate")).map(Some)
}
