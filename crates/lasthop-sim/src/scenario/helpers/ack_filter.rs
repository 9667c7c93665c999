//! ACK filtering and pacing: its keys and what a scenario may say of it.

use lasthop_net::plan::{AckFilter, Middlebox};

use super::super::diagnostic::ScenarioError;
use super::super::keys::{ANY_TIME, Key, Kind, Table};
use super::super::reader::Reader;
use super::{Helper, PLACED, Site};

type Result<T> = std::result::Result<T, ScenarioError>;

pub(super) const NAME: &str = "ack-filter";

pub(super) static HELPER: Helper = Helper {
    stands: "at the head of a slow link over which ACKs return",
    origin: "RFC 3449; Balakrishnan, Padmanabhan, Katz, MONET 1999",
    source: "crates/lasthop-net/src/device/ack_filter.rs",
    columns: "ack_filter_",
    fit,
};

const DOC: &str = "Withholds ACKs that a newer one makes redundant while they are queued for a slow reverse path, and \
                   can space out the rest.";

/// As an entry of `middleboxes`.
pub(in super::super) static ACK_FILTER: Table =
    Table { title: "ack-filter", doc: DOC, groups: &[ACK_FILTER_KEYS], partial: false };

/// As an entry of `helpers`.
pub(super) static TABLE: Table =
    Table { title: "ack-filter as a helper", doc: DOC, groups: &[ACK_FILTER_KEYS, PLACED], partial: false };

const ACK_FILTER_KEYS: &[Key] = &[
    Key::new(
        "limit",
        Kind::Integer { min: 1, max: 1_000_000 },
        "Maximum number of packets in the queue; more are lost.",
    )
    .default("100"),
    Key::new("filter", Kind::Switch, "Whether redundant ACKs are withheld.").default("true"),
    Key::new("spacing", ANY_TIME, "Minimum time between ACKs of a connection.").default("\"0 s\""),
];

/// What `table`, an entry of either list, says of a filter. Its direction is known when the world is built.
pub(in super::super) fn read(table: &Reader<'_>) -> Result<AckFilter> {
    Ok(AckFilter {
        direction: 0,
        limit: table.integer("limit")? as u32,
        filters: table.switch("filter")?,
        spacing: table.span("spacing")?,
    })
}

/// At the host's end: ACKs come back over the other direction.
fn fit(entry: &Reader<'_>, site: &mut Site<'_>) -> Result<()> {
    site.other.middleboxes.push(Middlebox::AckFilter(read(entry)?));
    Ok(())
}
