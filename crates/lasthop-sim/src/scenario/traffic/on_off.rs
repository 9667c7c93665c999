//! `on-off`: bursts and pauses.

use lasthop_net::plan::{OnOff, Traffic};

use super::super::diagnostic::ScenarioError;
use super::super::input_file::InputFiles;
use super::super::keys::{ANY_TIME, Key, Kind, PACKET, SOME_TIME, Table};
use super::super::reader::Reader;

pub(super) const NAME: &str = "on-off";
pub(super) const BARE: bool = false;

pub(super) static TABLE: Table = Table {
    title: "on-off traffic",
    doc: "Bursts of constant rate with exponential lengths and pauses, as in ns-2.",
    groups: &[&[
        Key::new("rate", Kind::Rate, "Payload rate in a burst.").required(),
        Key::new("packet", PACKET, "Payload of one packet.").required(),
        Key::new("on", SOME_TIME, "Mean length of a burst.").required_or("add on = \"500 ms\""),
        Key::new("off", ANY_TIME, "Mean length of a pause.").required_or("add off = \"500 ms\""),
    ]],
    partial: false,
};

pub(super) fn read(table: &Reader<'_>, _: &mut InputFiles<'_>) -> Result<Traffic, ScenarioError> {
    Ok(Traffic::OnOff(OnOff {
        rate: table.rate("rate")?,
        packet: table.size("packet")? as u32,
        on: table.span("on")?,
        off: table.span("off")?,
    }))
}
