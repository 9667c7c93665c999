//! L4Span: its keys and what a scenario may say of it.

use lasthop_core::time::Span;
use lasthop_net::plan::{DualPi2, L4Span, Middlebox};

use super::super::diagnostic::ScenarioError;
use super::super::keys::{ANY_TIME, Key, Kind, SOME_TIME, Table};
use super::super::queue::Law;
use super::super::reader::Reader;
use super::{Helper, PLACED, Site};

type Result<T> = std::result::Result<T, ScenarioError>;

pub(super) const NAME: &str = "l4span";

pub(super) static HELPER: Helper = Helper {
    stands: "at the head of any link, before its queue: a cellular base station, an access point",
    origin: "Wan, Jamieson, CoNEXT 2025; RFC 9332",
    source: "crates/lasthop-net/src/device/l4span.rs",
    columns: "l4span_",
    fit,
};

const DOC: &str = "Marks packets by how long they will wait before the radio link, by the law of DualPI2, and tells \
    senders that count marks (accurate_ecn) at once.";

/// As an entry of `middleboxes`.
pub(in super::super) static L4SPAN: Table =
    Table { title: "l4span", doc: DOC, groups: &[L4SPAN_KEYS, Law::KEYS], partial: false };

/// As an entry of `helpers`.
pub(super) static TABLE: Table = Table {
    title: "l4span as a helper",
    doc: DOC,
    groups: &[L4SPAN_KEYS, Law::KEYS, PLACED],
    partial: false,
};

const L4SPAN_KEYS: &[Key] = &[
    Key::new("window", SOME_TIME, "The rate of the link is that of this time.").default("\"40 ms\""),
    Key::new(
        "ahead",
        Kind::Switch,
        "Whether the ACKs of connections with accurate_ecn tell of marks before the marked packets have come through; \
         else packets are marked on their way.",
    )
    .default("true"),
    Key::new("ramp_from", ANY_TIME, "Predicted wait from which on packets with ECT(1) are marked.")
        .default("\"5 ms\""),
    Key::new("ramp", SOME_TIME, "Further wait at which all of them are marked.").default("\"5 ms\""),
];

/// What `table`, an entry of either list, says of it. The delay of its link is known when the world is built.
pub(in super::super) fn read(table: &Reader<'_>) -> Result<L4Span> {
    let Law { target, update, alpha, beta, coupling } = Law::read(table)?;
    let law = DualPi2 {
        target,
        update,
        alpha,
        beta,
        coupling,
        ramp_from: table.span("ramp_from")?,
        ramp: table.span("ramp")?,
        // Nothing waits here.
        classic_share: 0.5,
        mtu: 0,
    };
    let (delay, window, ahead) = (Span::ZERO, table.span("window")?, table.switch("ahead")?);
    Ok(L4Span { delay, window, law, ahead })
}

/// At the base station.
fn fit(entry: &Reader<'_>, site: &mut Site<'_>) -> Result<()> {
    site.direction.middleboxes.push(Middlebox::L4Span(read(entry)?));
    Ok(())
}
