//! `bit-errors`: independent errors of bits.

use lasthop_net::plan::{BitErrorRate, ErrorModel};

use super::super::declare::table;
use super::super::diagnostic::ScenarioError;
use super::super::keys::{Kind, LARGEST_PACKET};
use super::super::reader::Reader;
use super::{Count, Judged};

pub(super) const NAME: &str = "bit-errors";
pub(super) const BARE: bool = false;

table! {
    /// Each bit is wrong independently, so that a packet is lost with 1 - (1 - rate)^bits.
    pub(super) static TABLE = "bit error model";
    struct Keys {
        /// Probability that a bit is wrong.
        bit_error_rate: f64 = Kind::Probability, required_or("add bit_error_rate = 1e-6");
        /// Bytes of the link that are protected with the IP packet: headers and checksum.
        overhead: u32 = Kind::Size { min: 0, max: LARGEST_PACKET }, default("\"0 B\"");
        ..judged: Judged;
    }
}

pub(super) fn read(model: &Reader<'_>, _: Count<'_>) -> Result<(ErrorModel, Judged), ScenarioError> {
    let Keys { bit_error_rate, overhead, judged } = Keys::read(model)?;
    Ok((ErrorModel::BitErrorRate(BitErrorRate { bit_error_rate, overhead }), judged))
}
