//! `wlan`: stations around an access point, and a server behind it.

use lasthop_net::propagation::{Position, Track};

use super::super::cell::{Cells, Member, Members, RADIO_TABLE};
use super::super::declare::table;
use super::super::diagnostic::ScenarioError;
use super::super::keys::{Kind, METRES, MOST_STATIONS};
use super::super::link::{LINK, LinkReader};
use super::super::reader::Reader;
use super::{Network, circle, few, make};

pub(super) const NAME: &str = "wlan";

table! {
    /// A cell of IEEE 802.11 with a wired path behind its access point. Nodes: station-1, ..., access-point, server.
    /// Links: wire (access-point to server), radio-1 (station-1 to access-point), ... A flow without source and sink
    /// goes from the next free station to the server, or back with direction = "reverse".
    pub(super) static TABLE = "wlan";
    struct Keys<'n> {
        /// Number of stations. Default: as many as flows.
        stations: Option<u64> = Kind::Integer { min: 1, max: MOST_STATIONS }, fixed();
        /// Stations stand on a circle of this radius, in metres, around the access point.
        radius: f64 = METRES, default("10");
        /// The link from the access point to the server.
        wire: Reader<'n> = Kind::Table(&LINK), default("{ rate = \"100 Mbit/s\", delay = \"2 ms\" }");
        /// The radio.
        cell: Reader<'n> = Kind::Table(&RADIO_TABLE), default("{}");
    }
}

pub(super) fn read(
    _: &Reader<'_>,
    topology: &Reader<'_>,
    reader: &mut LinkReader<'_, '_>,
    flows: u64,
) -> Result<Network, ScenarioError> {
    let Keys { stations, radius, wire, cell } = Keys::read(topology)?;
    let stations = few(topology, stations.unwrap_or(flows))?;
    let mut nodes: Vec<String> = (1..=stations).map(|number| format!("station-{number}")).collect();
    nodes.extend(["access-point".to_owned(), "server".to_owned()]);
    let mut links =
        vec![make("wire".to_owned(), stations, stations + 1, &reader.both(&[wire], 1, topology, "wire")?)];
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
