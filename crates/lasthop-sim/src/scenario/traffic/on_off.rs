//! `on-off`: bursts and pauses.

use lasthop_core::time::Span;
use lasthop_core::units::Rate;
use lasthop_net::plan::{OnOff, Traffic};

use super::super::declare::table;
use super::super::diagnostic::ScenarioError;
use super::super::input_file::InputFiles;
use super::super::keys::{ANY_TIME, Kind, PACKET, SOME_TIME};
use super::super::reader::Reader;

pub(super) const NAME: &str = "on-off";
pub(super) const BARE: bool = false;

table! {
    /// Bursts of constant rate with exponential lengths and pauses, as in ns-2.
    pub(super) static TABLE = "on-off traffic";
    struct Keys {
        /// Payload rate in a burst.
        rate: Rate = Kind::Rate, required();
        /// Payload of one packet.
        packet: u32 = PACKET, required();
        /// Mean length of a burst.
        on: Span = SOME_TIME, required_or("add on = \"500 ms\"");
        /// Mean length of a pause.
        off: Span = ANY_TIME, required_or("add off = \"500 ms\"");
    }
}

pub(super) fn read(table: &Reader<'_>, _: &mut InputFiles<'_>) -> Result<Traffic, ScenarioError> {
    let Keys { rate, packet, on, off } = Keys::read(table)?;
    Ok(Traffic::OnOff(OnOff { rate, packet, on, off }))
}
