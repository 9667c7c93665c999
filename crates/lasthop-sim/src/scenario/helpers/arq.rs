//! Link-layer retransmission as a helper: the key `arq` of a link, in both directions of every lossy one.

use super::super::arq::{ArqKeys, read};
use super::super::diagnostic::{ScenarioError, quoted};
use super::super::keys::Table;
use super::super::reader::Reader;
use super::{Helper, PLACED, Site};

pub(super) const NAME: &str = "arq";

pub(super) static HELPER: Helper = Helper {
    stands: "on any link outside a cell, in both directions",
    origin: "Paul, Ayanoglu, LaPorta, Chen, Sabnani, Gitlin, Wireless Networks 1995; RFC 3366",
    source: "crates/lasthop-net/src/device/arq.rs",
    columns: "arq_",
    fit,
};

pub(super) static TABLE: Table = Table {
    title: "arq as a helper",
    doc: "Link-layer ARQ: frames that are not acknowledged are retransmitted, for all packets.",
    groups: &[ArqKeys::KEYS, PLACED],
    partial: false,
};

fn fit(entry: &Reader<'_>, site: &mut Site<'_>) -> Result<(), ScenarioError> {
    let link = quoted(site.link);
    if site.is_radio {
        let message = format!("link {link} is the radio of a cell, which has a link layer of its own");
        return Err(entry.error("at", message, "say which other link with at, or leave arq out"));
    }
    for direction in [&mut *site.direction, &mut *site.other] {
        if direction.arq.is_some() {
            let message = format!("link {link} has arq already");
            return Err(entry.error("at", message, "leave one of them out"));
        }
        let pauses =
            direction.opportunities.is_some() || direction.rate_changes.iter().any(|change| change.1.0 == 0);
        if pauses {
            let message =
                format!("link {link} cannot wait for opportunities, or through a rate of 0, with arq");
            return Err(entry.error("at", message, "say which other link with at, or leave arq out"));
        }
        let (rate, delay, mtu) = (direction.rate, direction.delay, u64::from(direction.mtu));
        direction.arq = Some(read(entry, |arq| arq.timeout_for(rate, delay, mtu))?);
    }
    Ok(())
}
