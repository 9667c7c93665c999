//! `wired-cum-wireless`: two access points with stations, joined by wires.

use lasthop_net::propagation::{Position, Track};

use super::super::cell::{Cells, Member, Members, RADIO_TABLE};
use super::super::declare::table;
use super::super::diagnostic::ScenarioError;
use super::super::keys::{Kind, METRES, MOST_STATIONS};
use super::super::link::{LINK, LinkReader};
use super::super::reader::Reader;
use super::{Network, circle, few, make};

pub(super) const NAME: &str = "wired-cum-wireless";

table! {
    /// Two cells of IEEE 802.11 joined by wires. Nodes: a-1, ..., b-1, ..., base-a, base-b, router-a, router-b. Links:
    /// wire-a (base-a to router-a), lan (router-a to router-b), wire-b (base-b to router-b), radio-a-1 (a-1 to base-a),
    /// ..., radio-b-1, ... A flow without source and sink goes from the next free station of the first cell to its
    /// partner in the second, or back with direction = "reverse": each way has its own pairs.
    pub(super) static TABLE = "wired-cum-wireless";
    struct Keys<'n> {
        /// Number of stations of each cell. Default: as many as flows.
        stations: Option<u64> = Kind::Integer { min: 1, max: MOST_STATIONS }, fixed();
        /// Stations stand on a circle of this radius, in metres, around their access point.
        radius: f64 = METRES, default("60");
        /// Metres from one access point to the other.
        distance: f64 = METRES, default("300");
        /// The link from each access point to its router.
        wire: Reader<'n> = Kind::Table(&LINK), default("{ rate = \"1 Mbit/s\", delay = \"1 ms\" }");
        /// The link from one router to the other.
        lan: Reader<'n> = Kind::Table(&LINK), default("{ rate = \"10 Mbit/s\", delay = \"1 ms\" }");
        /// The radio of both cells.
        cell: Reader<'n> = Kind::Table(&RADIO_TABLE), default("{}");
        /// Whether both cells are on one channel.
        shared_channel: bool = Kind::Switch, default("true");
    }
}

pub(super) fn read(
    _: &Reader<'_>,
    topology: &Reader<'_>,
    reader: &mut LinkReader<'_, '_>,
    flows: u64,
) -> Result<Network, ScenarioError> {
    let Keys { stations, radius, distance, wire, lan, cell, shared_channel } = Keys::read(topology)?;
    let stations = few(topology, stations.unwrap_or(flows))?;
    let named = |cell: &'static str| (1..=stations).map(move |number| format!("{cell}-{number}"));
    let mut nodes: Vec<String> = named("a").chain(named("b")).collect();
    nodes.extend(["base-a", "base-b", "router-a", "router-b"].map(str::to_owned));
    let [base_a, base_b, router_a, router_b] = [0, 1, 2, 3].map(|place| 2 * stations + place);
    let wire = reader.both(&[wire], 2, topology, "wire")?;
    let lan = reader.both(&[lan], 1, topology, "lan")?;
    let mut links = vec![
        make("wire-a".to_owned(), base_a, router_a, &wire),
        make("lan".to_owned(), router_a, router_b, &lan),
        make("wire-b".to_owned(), base_b, router_b, &wire),
    ];
    let mut cells = Cells::default();
    for (name, base, first, x, channel) in
        [("a", base_a, 0, 0.0, 1), ("b", base_b, stations, distance, if shared_channel { 1 } else { 2 })]
    {
        let members = circle(stations, radius).enumerate().map(|(number, position)| Member {
            node: first + number,
            track: Track::fixed(Position { x: position.x + x, y: position.y }),
            table: None,
            place: topology.place_of("radius"),
        });
        let plan = Members {
            name: name.to_owned(),
            channel,
            access_point: Some((base, Position { x, y: 0.0 })),
            stations: members.collect(),
            link_name: Some(format!("radio-{name}")),
        };
        cells.add(&cell, &plan, reader, (&nodes, &mut links))?;
    }
    let network = Network::of(nodes, links, cells.finish());
    Ok(Network { pairs: Some(stations), first_sink: stations, both_ways: true, ..network })
}
