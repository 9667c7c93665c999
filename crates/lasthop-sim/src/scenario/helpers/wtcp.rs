//! WTCP of the base station: its keys and what a scenario may say of it.

use lasthop_net::plan::{AtHandoff, Middlebox, Wtcp};

use super::super::diagnostic::ScenarioError;
use super::super::keys::{Key, Kind, SOME_TIME, Table};
use super::super::reader::Reader;
use super::{Helper, PLACED, Site};

type Result<T> = std::result::Result<T, ScenarioError>;

pub(super) const NAME: &str = "wtcp";

pub(super) static HELPER: Helper = Helper {
    stands: "at the head of any link that TCP with timestamps crosses: a base station",
    origin: "Ratnam, Matta, ISCC 1998",
    source: "crates/lasthop-net/src/device/wtcp.rs",
    columns: "wtcp_",
    fit,
};

const DOC: &str = "Buffers TCP segments ahead of the wireless link, retransmits those that the link loses, and hides \
                   the delay of this from the source.";

/// As an entry of `middleboxes`.
pub(in super::super) static WTCP: Table =
    Table { title: "wtcp", doc: DOC, groups: &[WTCP_KEYS], partial: false };

/// As an entry of `helpers`.
pub(super) static TABLE: Table =
    Table { title: "wtcp as a helper", doc: DOC, groups: &[WTCP_KEYS, PLACED], partial: false };

const WTCP_KEYS: &[Key] = &[
    Key::new(
        "buffer",
        Kind::Integer { min: 1, max: 1_000_000 },
        "Maximum number of segments that are kept for one connection; more are lost.",
    )
    .default("256"),
    Key::new("tick", SOME_TIME, "Granularity of the sources' timestamps.").default("\"1 ms\""),
    Key::new("min_timeout", SOME_TIME, "Minimum local timeout; also the timeout before the first sample.")
        .default("\"100 ms\""),
    Key::new(
        "handoff",
        Kind::Choice(|| vec!["move", "fresh", "ignore"]),
        "What happens when a later path of a flow leads over another agent: its state moves with the host and \
         unacknowledged data is sent once, its state is discarded, or nothing, so that the old agent continues over \
         the old link.",
    )
    .default("\"move\""),
];

/// What `table`, an entry of either list, says of an agent.
pub(in super::super) fn read(table: &Reader<'_>) -> Result<Wtcp> {
    Ok(Wtcp {
        buffer: table.integer("buffer")? as u32,
        tick: table.span("tick")?,
        min_timeout: table.span("min_timeout")?,
        handoff: match table.name("handoff")? {
            "fresh" => AtHandoff::Fresh,
            "ignore" => AtHandoff::Ignore,
            _ => AtHandoff::Move,
        },
    })
}

/// Behind what stands there already: next to the link.
fn fit(entry: &Reader<'_>, site: &mut Site<'_>) -> Result<()> {
    site.direction.middleboxes.push(Middlebox::Wtcp(read(entry)?));
    Ok(())
}
