//! `dumbbell`: pairs of source and sink share one bottleneck.

use super::super::arq::ARQ;
use super::super::declare::table;
use super::super::diagnostic::ScenarioError;
use super::super::error::ERROR;
use super::super::keys::{Key, Kind, MOST_FLOWS, NONE, Table};
use super::super::link::{ACCESS, LINK, LinkReader};
use super::super::outages::HANDOFF;
use super::super::reader::Reader;
use super::{Network, make};

pub(super) const NAME: &str = "dumbbell";

table! {
    /// Pairs of source and sink share one bottleneck. Nodes: source-1, ..., left, right, sink-1, ... Links: bottleneck
    /// (left to right), source-access-1 (source-1 to left), sink-access-1 (right to sink-1).
    pub(super) static TABLE = "dumbbell";
    struct Keys<'n> {
        /// The link from left to right.
        bottleneck: Reader<'n> = Kind::Table(&LINK),
            required_or("add bottleneck = { rate = \"10 Mbit/s\", delay = \"25 ms\" }");
        /// The links of the sources and of the sinks.
        access: Option<Reader<'n>> = Kind::Table(&ACCESS);
        /// Overrides single keys of access for the sources.
        source_access: Option<Reader<'n>> = Kind::Table(&ACCESS);
        /// Overrides single keys of access and channel for the sinks.
        sink_access: Option<Reader<'n>> = Kind::Table(&ACCESS);
        /// Number of sources and of sinks. Default: as many as flows.
        pairs: Option<u64> = Kind::Integer { min: 1, max: MOST_FLOWS }, fixed();
    }
}

/// The key `channel` of the scenario.
pub(in super::super) static CHANNEL: Table = Table {
    title: "channel",
    doc: "The wireless channel of a dumbbell: applies to the sink access links, in both directions.",
    groups: &[&[
        Key::new("error", Kind::Tagged(&ERROR), "What loses packets in the air."),
        Key::new("handoff", Kind::OrTable(&NONE, &HANDOFF), "When the links are down."),
        Key::new("arq", Kind::OrTable(&NONE, &ARQ), "Retransmission by the links themselves."),
    ]],
    partial: true,
};

pub(super) fn read(
    root: &Reader<'_>,
    topology: &Reader<'_>,
    reader: &mut LinkReader<'_, '_>,
    flows: u64,
) -> Result<Network, ScenarioError> {
    let Keys { bottleneck, access, source_access, sink_access, pairs } = Keys::read(topology)?;
    let pairs = pairs.unwrap_or(flows);
    let channel = root.sub_if("channel")?;

    let link = reader.both(&[bottleneck], 1, topology, "bottleneck")?;
    // The most specific table comes last and wins.
    let mut side = |tables: [Option<Reader<'_>>; 3]| {
        let tables: Vec<Reader<'_>> = tables.into_iter().flatten().collect();
        reader.both(&tables, pairs, topology, "access")
    };
    let source_access = side([access, None, source_access])?;
    let sink_access = side([access, channel, sink_access])?;

    let pairs = usize::try_from(pairs).unwrap_or(usize::MAX);
    let mut nodes: Vec<String> = (1..=pairs).map(|number| format!("source-{number}")).collect();
    nodes.extend(["left".to_owned(), "right".to_owned()]);
    nodes.extend((1..=pairs).map(|number| format!("sink-{number}")));
    let (left, right) = (pairs, pairs + 1);

    let mut links = vec![make("bottleneck".to_owned(), left, right, &link)];
    for pair in 0..pairs {
        let name = format!("source-access-{}", pair + 1);
        links.push(make(name, pair, left, &source_access));
    }
    for pair in 0..pairs {
        let name = format!("sink-access-{}", pair + 1);
        links.push(make(name, right, pairs + 2 + pair, &sink_access));
    }
    let first_sink = pairs + 2;
    Ok(Network { pairs: Some(pairs), first_sink, ..Network::of(nodes, links, Vec::new()) })
}
