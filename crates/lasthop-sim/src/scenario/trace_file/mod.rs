//! Recordings of links: Mahimahi's packet delivery opportunities, tables of rate, delay and loss over time, and the
//! rates that other tools and public data sets give, and CellReplay's light loads.
//!
//! `trace.rs` asks for a file; one that several links use is read once. `crate::link_trace` shows and converts them.

mod light;
mod opportunities;
mod rates;
mod table;

use std::path::Path;
use std::sync::Arc;

use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;
use lasthop_net::device::two_loads::Train;

use super::diagnostic::{ScenarioError, Source};
use super::input_file::{InputFiles, check_lines, read_file};
use super::reader::Reader;

type Result<T> = std::result::Result<T, ScenarioError>;

/// The instants of a file of opportunities.
pub(crate) type Instants = Arc<[Span]>;

/// Packet delivery opportunities as a file has them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Deliveries {
    pub(crate) times: Instants,
    /// Bytes of each, where the file says it.
    pub(crate) bytes: Option<u32>,
}

/// What a link did from some time on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) at: Time,
    pub(crate) rate: Option<Rate>,
    pub(crate) delay: Option<Span>,
    pub(crate) loss: Option<f64>,
}

/// A table of what a link did over time; every row has the same columns, and the first is at zero.
pub(crate) type Recording = Arc<[Row]>;

/// Which of two rates of a row is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// Towards the device.
    #[default]
    Down,
    /// From the device.
    Up,
}

impl Way {
    /// The names in files.
    pub const NAMES: [&'static str; 2] = ["down", "up"];

    /// The way with this name.
    pub fn by_name(name: &str) -> Option<Way> {
        [Way::Down, Way::Up].into_iter().find(|way| Way::NAMES[*way as usize] == name)
    }
}

impl InputFiles<'_> {
    /// The opportunities of the file that the key `file` of `table` names.
    pub(super) fn opportunities(&mut self, table: &Reader<'_>, file: &str) -> Result<Deliveries> {
        let path = self.path(table, file)?;
        if let Some(known) = self.deliveries.get(&path) {
            return Ok(known.clone());
        }
        let read =
            self.parsed(table, &path, "the trace", |source| opportunities::parse(source, unit_of(&path)))?;
        self.deliveries.insert(path, read.clone());
        Ok(read)
    }

    /// The trains of packets in `file`, which a key of `table` names.
    pub(super) fn trains(&mut self, table: &Reader<'_>, file: &str) -> Result<Arc<[Train]>> {
        let path = self.path_at(table, "light", file)?;
        self.parsed_at((table, "light"), &path, "the light load", |source| {
            light::trains(source, unit_of(&path))
        })
    }

    /// What packets take by their size, in ns, by `file`, which a key of `table` names.
    pub(super) fn size_offsets(&mut self, table: &Reader<'_>, file: &str) -> Result<Arc<[i64]>> {
        let path = self.path_at(table, "sizes", file)?;
        self.parsed_at((table, "sizes"), &path, "the offsets by size", light::size_offsets)
    }

    /// The table in the file that the key `file` of `table` names.
    pub(super) fn recording(&mut self, table: &Reader<'_>, file: &str) -> Result<Recording> {
        self.rows(table, file, (false, Way::Down), table::parse)
    }

    /// The rates of one way in the file that the key `file` of `table` names.
    pub(super) fn rates(&mut self, table: &Reader<'_>, file: &str, way: Way) -> Result<Recording> {
        self.rows(table, file, (true, way), |source| Ok(rates::parse(source, way)?.rows))
    }

    fn rows(
        &mut self,
        table: &Reader<'_>,
        file: &str,
        (other, way): (bool, Way),
        parse: impl FnOnce(&Source<'_>) -> Result<Recording>,
    ) -> Result<Recording> {
        let key = (self.path(table, file)?, other, way);
        if let Some(recording) = self.recordings.get(&key) {
            return Ok(Arc::clone(recording));
        }
        let recording = self.parsed(table, &key.0, "the trace", parse)?;
        self.recordings.insert(key, Arc::clone(&recording));
        Ok(recording)
    }
}

/// The unit of the times in a file of opportunities.
fn unit_of(path: &Path) -> Span {
    let micros = path.extension().is_some_and(|ending| ending == "us");
    Span::from_nanos(if micros { 1_000 } else { 1_000_000 })
}

/// What a file of a link turned out to be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Found {
    Deliveries(Deliveries),
    Table(Recording),
    Rates(rates::Rates),
}

/// Reads a file of whatever layout, and says what it is.
pub(crate) fn recognise(path: &Path, way: Way) -> Result<Found> {
    let shown = path.display().to_string();
    let text = read_file(path).map_err(|(problem, remedy)| {
        ScenarioError::of_file(&shown, format!("cannot be read: {problem}"), &remedy)
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let source = Source { file: Some(&shown), text, overrides: &[] };
    check_lines(&source)?;
    // The first line with something in it.
    let blank = text.len() - text.trim_start().len();
    let begin = text[..blank].rfind('\n').map_or(0, |newline| newline + 1);
    let text = &text[begin..];
    let first = text.lines().next().unwrap_or_default();
    if opportunities::begins(first) {
        return opportunities::parse(&source, unit_of(path)).map(Found::Deliveries);
    }
    let heading =
        text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#')).unwrap_or_default();
    if table::begins(heading) {
        return table::parse(&source).map(Found::Table);
    }
    rates::parse(&source, way).map(Found::Rates)
}

/// The rows of a run of `duration`. If the recording repeats, its last row says only when it begins again.
pub(super) fn rows_until(recording: &[Row], repeat: bool, duration: Span) -> impl Iterator<Item = Row> {
    let period = recording.last().map_or(Span::ZERO, |row| Span(row.at.0));
    let repeat = repeat && period > Span::ZERO;
    let rounds = if repeat { duration.0.div_ceil(period.0) } else { 1 };
    let length = recording.len() - usize::from(repeat);
    (0..rounds).flat_map(move |round| {
        recording[..length].iter().map(move |row| Row { at: row.at + period * round, ..*row })
    })
}

/// How many rows [`rows_until`] gives, at most.
pub(super) fn number_until(recording: &[Row], repeat: bool, duration: Span) -> u64 {
    let period = recording.last().map_or(0, |row| row.at.0);
    let rounds = if repeat && period > 0 { duration.0.div_ceil(period) } else { 1 };
    rounds.saturating_mul(recording.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetition() {
        let row = |seconds: u64| Row {
            at: Time(seconds * 1_000_000_000),
            rate: None,
            delay: None,
            loss: Some(0.1),
        };
        let rows = [row(0), row(1), row(4)];
        let times = |repeat, seconds| {
            let rows = rows_until(&rows, repeat, Span::from_secs(seconds));
            rows.map(|row| row.at.0 / 1_000_000_000).collect::<Vec<_>>()
        };
        assert_eq!(times(true, 9), [0, 1, 4, 5, 8, 9]);
        assert_eq!(times(false, 9), [0, 1, 4]);
        assert_eq!(number_until(&rows, true, Span::from_secs(9)), 9);
    }
}
