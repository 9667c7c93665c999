//! `list`: losses by number.

use lasthop_net::plan::{ErrorModel, List};

use super::super::declare::table;
use super::super::diagnostic::ScenarioError;
use super::super::keys::Kind;
use super::super::reader::{Checked, Item, Reader};
use super::{Count, Judged};

pub(super) const NAME: &str = "list";
pub(super) const BARE: bool = false;

table! {
    /// The packets with these numbers are lost.
    pub(super) static TABLE = "list error model";
    struct Keys<'n> {
        /// Numbers of the lost packets; 0 is the first packet in this direction.
        packets: Vec<Item<'n>> = Kind::List(&Kind::Integer { min: 0, max: u64::MAX >> 1 }),
            required_or("add packets = [20, 22]");
        ..judged: Judged;
    }
}

pub(super) fn read(model: &Reader<'_>, count: Count<'_>) -> Result<(ErrorModel, Judged), ScenarioError> {
    let Keys { packets: listed, judged } = Keys::read(model)?;
    count(model, "packets", listed.len() as u64)?;
    let mut packets = Vec::with_capacity(listed.len());
    for item in listed {
        if let Checked::Integer(packet) = item.value {
            packets.push(packet);
        }
    }
    packets.sort_unstable();
    packets.dedup();
    Ok((ErrorModel::List(List { packets }), judged))
}
