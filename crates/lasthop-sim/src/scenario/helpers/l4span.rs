//! L4Span: its keys and what a scenario may say of it.

use lasthop_core::time::Span;
use lasthop_net::plan::{L4Span, Middlebox};

use super::super::diagnostic::ScenarioError;
use super::super::keys::{Key, Kind, SOME_TIME, Table};
use super::super::reader::Reader;
use super::{Helper, PLACED, Site};

type Result<T> = std::result::Result<T, ScenarioError>;

pub(super) const NAME: &str = "l4span";

pub(super) static HELPER: Helper = Helper {
    stands: "at the head of any link, before its queue: a cellular base station, an access point",
    origin: "Wan, Jamieson, CoNEXT 2025",
    source: "crates/lasthop-net/src/device/l4span.rs",
    columns: "l4span_",
    fit,
};

const DOC: &str = "Marks packets by the queue at the radio link and its predicted rate, and reports marks at once to \
                   senders with accurate_ecn.";

/// As an entry of `middleboxes`.
pub(in super::super) static L4SPAN: Table =
    Table { title: "l4span", doc: DOC, groups: &[L4SPAN_KEYS], partial: false };

/// As an entry of `helpers`.
pub(super) static TABLE: Table =
    Table { title: "l4span as a helper", doc: DOC, groups: &[L4SPAN_KEYS, PLACED], partial: false };

const L4SPAN_KEYS: &[Key] = &[
    Key::new(
        "departures",
        Kind::Integer { min: 1, max: 10_000 },
        "Number of departures, each of packets that waited behind another, over which the rate of the link and its \
         deviation are measured.",
    )
    .default("50"),
    Key::new(
        "threshold",
        SOME_TIME,
        "Time within which the rate should empty the queue: packets with ECT(1) are marked by the rate that this \
         takes, none while two packets wait.",
    )
    .default("\"10 ms\""),
    Key::new(
        "classic_queue",
        Kind::Size { min: 1, max: 1_000_000_000_000 },
        "Queue above which packets with ECT(0) are marked.",
    )
    .default("\"225 kB\""),
    Key::new(
        "ahead",
        Kind::Switch,
        "Whether ACKs of connections with accurate_ecn report marks before the marked packets have crossed the link; \
         otherwise the packets themselves are marked.",
    )
    .default("true"),
];

/// What `table`, an entry of either list, says of it. The delay of its link is known when the world is built.
pub(in super::super) fn read(table: &Reader<'_>) -> Result<L4Span> {
    Ok(L4Span {
        delay: Span::ZERO,
        departures: table.integer("departures")? as u32,
        threshold: table.span("threshold")?,
        classic_queue: table.size("classic_queue")?,
        ahead: table.switch("ahead")?,
    })
}

/// At the base station.
fn fit(entry: &Reader<'_>, site: &mut Site<'_>) -> Result<()> {
    site.direction.middleboxes.push(Middlebox::L4Span(read(entry)?));
    Ok(())
}
