//! `paced-ftp`: equal writes at equal intervals.

use lasthop_core::time::Span;
use lasthop_net::plan::{PacedFtp, Traffic};

use super::super::diagnostic::ScenarioError;
use super::super::input_file::InputFiles;
use super::super::keys::{Key, Kind, LONGEST, TRANSFER, Table};
use super::super::reader::Reader;

pub(super) const NAME: &str = "paced-ftp";
pub(super) const BARE: bool = false;

pub(super) static TABLE: Table = Table {
    title: "paced-ftp traffic",
    doc: "Equal writes at equal intervals; what cannot be sent yet waits in the sender.",
    groups: &[&[
        Key::new("write", Kind::Size { min: 1, max: 1_000_000_000 }, "Size of one write.").required(),
        Key::new(
            "interval",
            Kind::Duration { min: Span::from_nanos(100), max: LONGEST },
            "Time between writes.",
        )
        .required_or("add interval = \"5 ms\""),
        Key::new("bytes", TRANSFER, "Total length. Default: without end."),
    ]],
    partial: false,
};

pub(super) fn read(table: &Reader<'_>, _: &mut InputFiles<'_>) -> Result<Traffic, ScenarioError> {
    Ok(Traffic::PacedFtp(PacedFtp {
        write: table.size("write")? as u32,
        interval: table.span("interval")?,
        bytes: table.size_if("bytes")?,
    }))
}
