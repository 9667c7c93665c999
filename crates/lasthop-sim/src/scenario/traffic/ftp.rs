//! `ftp`: a file.

use lasthop_net::plan::{Ftp, Traffic};

use super::super::diagnostic::ScenarioError;
use super::super::input_file::InputFiles;
use super::super::keys::{Key, TRANSFER, Table};
use super::super::reader::Reader;

pub(super) const NAME: &str = "ftp";
pub(super) const BARE: bool = true;

pub(super) static TABLE: Table = Table {
    title: "ftp traffic",
    doc: "A file handed to TCP at the start.",
    groups: &[&[Key::new("bytes", TRANSFER, "Length of the file. Default: without end.")]],
    partial: false,
};

pub(super) fn read(table: &Reader<'_>, _: &mut InputFiles<'_>) -> Result<Traffic, ScenarioError> {
    Ok(Traffic::Ftp(Ftp { bytes: table.size_if("bytes")? }))
}
