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

const DOC: &str = "Marks packets by their predicted wait at the radio link, by the rule of DualPI2, and reports marks \
                   at once to senders with accurate_ecn.";

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
    Key::new("window", SOME_TIME, "Time over which the rate of the link is measured.").default("\"40 ms\""),
    Key::new(
        "ahead",
        Kind::Switch,
        "Whether ACKs of connections with accurate_ecn report marks before the marked packets have crossed the link; \
         otherwise the packets themselves are marked.",
    )
    .default("true"),
    Key::new("ramp_from", ANY_TIME, "Predicted wait at which marking of packets with ECT(1) begins.")
        .default("\"5 ms\""),
    Key::new("ramp", SOME_TIME, "Predicted wait above ramp_from at which all of them are marked.").default("\"5 ms\""),
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
