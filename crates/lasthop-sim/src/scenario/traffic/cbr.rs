//! `cbr`: packets at constant bit rate.

use lasthop_core::units::Rate;
use lasthop_net::plan::{Cbr, Traffic};

use super::super::declare::table;
use super::super::diagnostic::ScenarioError;
use super::super::input_file::InputFiles;
use super::super::keys::{Kind, PACKET};
use super::super::reader::Reader;

pub(super) const NAME: &str = "cbr";
pub(super) const BARE: bool = false;

table! {
    /// Packets of one size at equal intervals.
    pub(super) static TABLE = "cbr traffic";
    struct Keys {
        /// Payload rate.
        rate: Rate = Kind::Rate, required();
        /// Payload of one packet.
        packet: u32 = PACKET, required();
        /// Multiply each interval by a uniform draw from 0.5 to 1.5.
        random: bool = Kind::Switch, default("false");
    }
}

pub(super) fn read(table: &Reader<'_>, _: &mut InputFiles<'_>) -> Result<Traffic, ScenarioError> {
    let Keys { rate, packet, random } = Keys::read(table)?;
    Ok(Traffic::Cbr(Cbr { rate, packet, random }))
}
