//! `policer`: a token bucket.

use lasthop_core::units::Rate;
use lasthop_net::plan::{Middlebox, Policer};

use super::super::declare::table;
use super::super::diagnostic::ScenarioError;
use super::super::keys::{Kind, TRANSFER};
use super::super::reader::Reader;

pub(super) const NAME: &str = "policer";
pub(super) const BARE: bool = false;

table! {
    /// A token bucket (RFC 2697): drops what exceeds a rate and a burst, and delays nothing.
    pub(super) static TABLE = "policer";
    struct Keys {
        /// Long-term rate, in bits on the wire.
        rate: Rate = Kind::Rate, required();
        /// Bytes that pass at once after an idle period.
        burst: u64 = TRANSFER, default("\"15000 B\"");
    }
}

pub(super) fn read(device: &Reader<'_>, mtu: u64) -> Result<Middlebox, ScenarioError> {
    let Keys { rate, burst } = Keys::read(device)?;
    if burst < mtu {
        let message = format!("a burst of {burst} B lets no packet of the link's mtu, {mtu} B, pass");
        return Err(device.error("burst", message, &format!("raise burst to {mtu} B, or lower mtu")));
    }
    Ok(Middlebox::Policer(Policer { rate, burst }))
}
