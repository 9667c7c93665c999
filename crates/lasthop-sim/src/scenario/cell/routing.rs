//! How packets find their way over a radio channel: the key `routing`.

use lasthop_core::time::Span;
use lasthop_net::device::wlan::dsdv::DsdvPlan;

use super::super::declare::table;
use super::super::diagnostic::ScenarioError;
use super::super::keys::{Kind, SOME_TIME, Table, Tagged, Variant};
use super::super::reader::Reader;

pub(super) static ROUTING: Tagged = Tagged {
    title: "routing",
    doc: "How packets find their way over a radio channel.",
    variants: &[
        Variant { name: "static", table: &STATIC_ROUTING, bare: true },
        Variant { name: "dsdv", table: &DSDV, bare: true },
    ],
};

static STATIC_ROUTING: Table = Table {
    title: "static routing",
    doc: "Paths with the fewest links, without routing messages.",
    groups: &[],
    partial: false,
};

table! {
    /// Destination-sequenced distance vectors (Perkins and Bhagwat, SIGCOMM 1994; as in ns-2.35). Every station
    /// broadcasts what it can reach, and packets go hop by hop.
    static DSDV = "DSDV";
    struct Keys {
        /// A full update follows the last after 0.75 to 1 of this.
        period: Span = Kind::Duration { min: Span::from_millis(1), max: Span::from_secs(100_000) }, default("\"15 s\"");
        /// The first update of each station comes within this time.
        startup: Span = SOME_TIME, default("\"2 s\"");
        /// Minimum time between a triggered update and the one before it.
        gap: Span = SOME_TIME, default("\"1 s\"");
        /// Longest time that an update waits before it is queued.
        jitter: Span = SOME_TIME, default("\"10 ms\"");
        /// Assumed settling time of a new destination; its route is advertised after twice this time.
        settling: Span = SOME_TIME, default("\"6 s\"");
        /// Weight of the past in the average of settling times.
        weight: f64 = Kind::Number { min: 0.0, max: 0.999 }, default("0.875");
        /// A neighbour that has been silent for this many periods is removed.
        silent_periods: u32 = Kind::Integer { min: 1, max: 1_000 }, default("3");
        /// Maximum number of packets that wait for a route at each station, per destination; beyond it the oldest is
        /// dropped.
        waiting: usize = Kind::Integer { min: 0, max: 10_000 }, default("5");
    }
}

/// How stations find their routes, unless routes are static.
pub(super) fn read(table: &Reader<'_>) -> Result<Option<DsdvPlan>, ScenarioError> {
    let (kind, dsdv) = table.tagged("routing")?;
    if kind != "dsdv" {
        return Ok(None);
    }
    let Keys { period, startup, gap, jitter, settling, weight, silent_periods, waiting } = Keys::read(&dsdv)?;
    Ok(Some(DsdvPlan { period, startup, gap, jitter, settling, weight, silent_periods, waiting }))
}
