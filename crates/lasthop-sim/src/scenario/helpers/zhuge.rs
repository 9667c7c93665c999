//! Zhuge: its keys and what a scenario may say of it.

use lasthop_core::time::Span;
use lasthop_net::plan::{Middlebox, Zhuge};

use super::super::diagnostic::ScenarioError;
use super::super::keys::{Key, SOME_TIME, Table};
use super::super::reader::Reader;
use super::{Helper, PLACED, Site};

type Result<T> = std::result::Result<T, ScenarioError>;

pub(super) const NAME: &str = "zhuge";

pub(super) static HELPER: Helper = Helper {
    stands: "at the head of any link that TCP crosses, before its queue: an access point, a base station",
    origin: "Meng, Guo, Sun, Wang, Sherry, Liu, Xu, SIGCOMM 2022",
    source: "crates/lasthop-net/src/device/zhuge.rs",
    columns: "zhuge_",
    fit,
};

const DOC: &str = "Predicts how long packets will wait at the wireless link, and delays returning ACKs by the \
                   increase, so that the sender sees a queue before its packets have passed it.";

/// As an entry of `middleboxes`.
pub(in super::super) static ZHUGE: Table =
    Table { title: "zhuge", doc: DOC, groups: &[ZHUGE_KEYS], partial: false };

/// As an entry of `helpers`.
pub(super) static TABLE: Table =
    Table { title: "zhuge as a helper", doc: DOC, groups: &[ZHUGE_KEYS, PLACED], partial: false };

const ZHUGE_KEYS: &[Key] = &[
    Key::new(
        "window",
        SOME_TIME,
        "Time over which the rate of the link is measured; an increase that no ACK has carried for this long is \
         discarded.",
    )
    .default("\"40 ms\""),
    Key::new("limit", SOME_TIME, "Maximum delay of an ACK.").default("\"10 ms\""),
];

/// What `table`, an entry of either list, says of it. The delay of its link is known when the world is built.
pub(in super::super) fn read(table: &Reader<'_>) -> Result<Zhuge> {
    Ok(Zhuge { delay: Span::ZERO, window: table.span("window")?, limit: table.span("limit")? })
}

/// At the base station.
fn fit(entry: &Reader<'_>, site: &mut Site<'_>) -> Result<()> {
    site.direction.middleboxes.push(Middlebox::Zhuge(read(entry)?));
    Ok(())
}
