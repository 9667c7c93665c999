//! `ftp`: a file.

use lasthop_net::plan::{Ftp, Traffic};

use super::super::declare::table;
use super::super::diagnostic::ScenarioError;
use super::super::input_file::InputFiles;
use super::super::keys::TRANSFER;
use super::super::reader::Reader;

pub(super) const NAME: &str = "ftp";
pub(super) const BARE: bool = true;

table! {
    /// A file handed to TCP at the start.
    pub(super) static TABLE = "ftp traffic";
    struct Keys {
        /// Length of the file. Default: without end.
        bytes: Option<u64> = TRANSFER;
    }
}

pub(super) fn read(table: &Reader<'_>, _: &mut InputFiles<'_>) -> Result<Traffic, ScenarioError> {
    Ok(Traffic::Ftp(Ftp { bytes: Keys::read(table)?.bytes }))
}
