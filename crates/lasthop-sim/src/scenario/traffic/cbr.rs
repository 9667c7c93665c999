//! `cbr`: packets at constant bit rate.

use lasthop_net::plan::{Cbr, Traffic};

use super::super::diagnostic::ScenarioError;
use super::super::input_file::InputFiles;
use super::super::keys::{Key, Kind, PACKET, Table};
use super::super::reader::Reader;

pub(super) const NAME: &str = "cbr";
pub(super) const BARE: bool = false;

pub(super) static TABLE: Table = Table {
    title: "cbr traffic",
    doc: "Packets of one size at equal intervals.",
    groups: &[&[
        Key::new("rate", Kind::Rate, "Payload rate.").required(),
        Key::new("packet", PACKET, "Payload of one packet.").required(),
        Key::new("random", Kind::Switch, "Multiply each interval by a uniform draw from 0.5 to 1.5.")
            .default("false"),
    ]],
    partial: false,
};

pub(super) fn read(table: &Reader<'_>, _: &mut InputFiles<'_>) -> Result<Traffic, ScenarioError> {
    Ok(Traffic::Cbr(Cbr {
        rate: table.rate("rate")?,
        packet: table.size("packet")? as u32,
        random: table.switch("random")?,
    }))
}
