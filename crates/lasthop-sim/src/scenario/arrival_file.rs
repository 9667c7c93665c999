//! Files with the times at which transfers arrive, and how long they are.
//!
//! `arrivals.rs` asks for a file; one that several tables of flows use is read once.

use std::sync::Arc;

use lasthop_core::time::Span;
use lasthop_net::traffic::size;

use super::diagnostic::{ScenarioError, Source};
use super::input_file::{InputFiles, Wrong, columns_of, number, rows_of};
use super::keys::{LONGEST, MOST_FLOWS};
use super::reader::Reader;

type Result<T> = std::result::Result<T, ScenarioError>;

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    /// When it comes, from the first moment of arrivals on.
    pub(super) after: Span,
    /// Bytes to transfer, if the file says it; then every line does.
    pub(super) bytes: Option<u64>,
}

/// The lines of a file, in the order of time.
pub(super) type Listed = Arc<[Arrival]>;

const FORM: &str = "seconds that do not fall, and if you like a length in bytes, by line";

impl InputFiles<'_> {
    /// The arrivals in the file that the key `file` of `table` names.
    pub(super) fn arrivals(&mut self, table: &Reader<'_>, file: &str) -> Result<Listed> {
        let path = self.path(table, file)?;
        if let Some(listed) = self.arrivals.get(&path) {
            return Ok(Arc::clone(listed));
        }
        let listed = self.parsed(table, &path, "the arrivals", parse)?;
        self.arrivals.insert(path, Arc::clone(&listed));
        Ok(listed)
    }
}

fn parse(source: &Source<'_>) -> Result<Listed> {
    Ok(rows_of(source, ("arrival", MOST_FLOWS, FORM), one)?.into())
}

/// A line, behind `before`.
fn one<'t>(fields: &[&'t str], before: Option<Arrival>) -> std::result::Result<Arrival, Wrong<'t>> {
    let columns = before.map(|before| 1 + usize::from(before.bytes.is_some()));
    if fields.len() > 2 || columns.is_some_and(|columns| columns != fields.len()) {
        return Err(Wrong::at(fields[0], columns_of(fields), format!("expected {FORM}, all alike")));
    }
    let seconds = number(fields[0], "a time", LONGEST.seconds(), FORM)?;
    let after = Span::from_seconds(seconds);
    if let Some(before) = before.filter(|before| after < before.after) {
        let message = format!("{} s after {}", fields[0], before.after);
        return Err(Wrong::at(fields[0], message, "write the arrivals in the order of time"));
    }
    let bytes = match fields.get(1) {
        None => None,
        Some(&field) => Some(number(field, "a length", size::LONGEST as f64, FORM)?.round().max(1.0) as u64),
    };
    Ok(Arrival { after, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> std::result::Result<Vec<(f64, Option<u64>)>, String> {
        let source = Source { file: Some("pages.txt"), text, overrides: &[] };
        let listed = parse(&source).map_err(|error| error.to_string())?;
        Ok(listed.iter().map(|one| (one.after.seconds(), one.bytes)).collect())
    }

    #[test]
    fn times_and_lengths() {
        let both = vec![(0.0, Some(1000)), (0.25, Some(20)), (0.25, Some(1))];
        assert_eq!(read("time bytes\n0 1000\n0.25, 20 # a comment\n\n0.25;0\n"), Ok(both));
        assert_eq!(read("1.5\n2\n"), Ok(vec![(1.5, None), (2.0, None)]));
    }

    #[test]
    fn wrong_lines_are_shown() {
        for (text, message) in [
            ("1\n0.5\n", "0.5 s after 1 s"),
            ("1 5\n2\n", "1 column\n"),
            ("1 2 3\n", "3 columns"),
            ("1\nabc\n", "\"abc\" is not a time"),
            ("1 abc\n", "\"abc\" is not a length"),
            ("-1\n", "a time of -1"),
            ("1 1e20\n", "a length of 1e20"),
            ("nan\n", "a time of nan"),
            ("time\n", "the file holds no arrival"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(message), "{text:?}: {error}");
            assert!(error.contains("pages.txt"), "{error}");
        }
    }
}
