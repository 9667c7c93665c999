//! FastACK: its keys and what a scenario may say of it.

use lasthop_core::time::Span;
use lasthop_net::plan::{FastAck, Middlebox};

use super::super::declare::keys;
use super::super::diagnostic::ScenarioError;
use super::super::keys::{Kind, SOME_TIME, Table};
use super::super::reader::Reader;
use super::{Helper, PLACED, Site};

type Result<T> = std::result::Result<T, ScenarioError>;

pub(super) const NAME: &str = "fastack";

pub(super) static HELPER: Helper = Helper {
    stands: "at the access point of an 802.11 cell that no host leaves",
    origin: "Bhartia, Chen, Wang, Pallas, Musaloiu-E, Lai, Ma, IMC 2017",
    source: "crates/lasthop-net/src/device/fast_ack.rs",
    columns: "fastack_",
    fit,
};

const DOC: &str = "Acknowledges TCP data as soon as the MAC of the station has received them, withholds the station's \
                   own ACKs, and retransmits what the station still lacks.";

/// As an entry of `middleboxes`.
pub(in super::super) static FAST_ACK: Table =
    Table { title: "fastack", doc: DOC, groups: &[Keys::KEYS], partial: false };

/// As an entry of `helpers`.
pub(super) static TABLE: Table =
    Table { title: "fastack as a helper", doc: DOC, groups: &[Keys::KEYS, PLACED], partial: false };

keys! {
    /// What it has in either list.
    struct Keys {
        /// Maximum number of packets in the cache of a connection; packets beyond it are not acknowledged early.
        cache: u32 = Kind::Integer { min: 1, max: 1_000_000 }, default("4096");
        /// Number of duplicate ACKs of the station that trigger a local retransmission.
        threshold: u32 = Kind::Integer { min: 1, max: 100 }, default("3");
        /// Initial local timeout: how long the station may acknowledge nothing new before a packet is retransmitted.
        timeout: Span = SOME_TIME, default("\"200 ms\"");
    }
}

/// What `table`, an entry of either list, says of it.
pub(in super::super) fn read(table: &Reader<'_>) -> Result<FastAck> {
    let Keys { cache, threshold, timeout } = Keys::read(table)?;
    Ok(FastAck { cache, threshold, timeout })
}

/// At the access point.
fn fit(entry: &Reader<'_>, site: &mut Site<'_>) -> Result<()> {
    site.direction.middleboxes.push(Middlebox::FastAck(read(entry)?));
    Ok(())
}
