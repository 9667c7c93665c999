//! `periodic`: losses at regular distances.

use lasthop_net::plan::{ErrorModel, Periodic};

use super::super::declare::table;
use super::super::diagnostic::ScenarioError;
use super::super::keys::Kind;
use super::super::reader::Reader;
use super::{Count, Judged};

pub(super) const NAME: &str = "periodic";
pub(super) const BARE: bool = false;

table! {
    /// Packets are lost at regular distances.
    pub(super) static TABLE = "periodic error model";
    struct Keys {
        /// Number of packets from the start of one loss to the start of the next.
        every: u64 = Kind::Integer { min: 1, max: u64::MAX >> 1 }, required_or("add every = 100");
        /// Number of the first lost packet; 0 is the first packet in this direction. Default: every - 1.
        first: Option<u64> = Kind::Integer { min: 0, max: u64::MAX >> 1 };
        /// Packets lost in a row.
        burst: u64 = Kind::Integer { min: 1, max: u64::MAX >> 1 }, default("1");
        ..judged: Judged;
    }
}

pub(super) fn read(model: &Reader<'_>, _: Count<'_>) -> Result<(ErrorModel, Judged), ScenarioError> {
    let Keys { every, first, burst, judged } = Keys::read(model)?;
    if burst > every {
        let message = format!("{burst} of every {every} packets cannot be lost");
        return Err(model.error("burst", message, &format!("at most {every} can be lost")));
    }
    Ok((ErrorModel::Periodic(Periodic { every, first: first.unwrap_or(every - 1), burst }), judged))
}
