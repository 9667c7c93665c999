//! `paced-ftp`: equal writes at equal intervals.

use lasthop_core::time::Span;
use lasthop_net::plan::{PacedFtp, Traffic};

use super::super::declare::table;
use super::super::diagnostic::ScenarioError;
use super::super::input_file::InputFiles;
use super::super::keys::{Kind, LONGEST, TRANSFER};
use super::super::reader::Reader;

pub(super) const NAME: &str = "paced-ftp";
pub(super) const BARE: bool = false;

table! {
    /// Equal writes at equal intervals; what cannot be sent yet waits in the sender.
    pub(super) static TABLE = "paced-ftp traffic";
    struct Keys {
        /// Size of one write.
        write: u32 = Kind::Size { min: 1, max: 1_000_000_000 }, required();
        /// Time between writes.
        interval: Span = Kind::Duration { min: Span::from_nanos(100), max: LONGEST },
            required_or("add interval = \"5 ms\"");
        /// Total length. Default: without end.
        bytes: Option<u64> = TRANSFER;
    }
}

pub(super) fn read(table: &Reader<'_>, _: &mut InputFiles<'_>) -> Result<Traffic, ScenarioError> {
    let Keys { write, interval, bytes } = Keys::read(table)?;
    Ok(Traffic::PacedFtp(PacedFtp { write, interval, bytes }))
}
