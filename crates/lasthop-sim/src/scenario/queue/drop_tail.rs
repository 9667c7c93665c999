//! `drop-tail`: first in, first out, up to a limit.

use lasthop_net::plan::{QueueLimit, QueuePlan};

use super::super::declare::table;
use super::super::diagnostic::ScenarioError;
use super::super::keys::Kind;
use super::super::reader::Reader;
use super::LinkFacts;

pub(super) const NAME: &str = "drop-tail";
pub(super) const BARE: bool = false;

table! {
    /// A packet that finds the queue full is lost.
    pub(super) static TABLE = "drop-tail queue";
    struct Keys {
        /// Maximum number of packets or bytes in the queue, counting the packet in service.
        limit: QueueLimit = Kind::Room, required();
    }
}

pub(super) fn read(queue: &Reader<'_>, link: &LinkFacts) -> Result<QueuePlan, ScenarioError> {
    let limit = link.with_room(queue, Keys::read(queue)?.limit)?;
    Ok(QueuePlan { limit, ..QueuePlan::default() })
}
