//! Files with the channel quality of a cellular user over time.
//!
//! `cellular.rs` asks for a file; one that several users have is read once.

use std::sync::Arc;

use lasthop_core::time::{Span, Time};
use lasthop_net::plan::cellular::BEST_CQI;

use super::diagnostic::{ScenarioError, Source};
use super::input_file::{InputFiles, Wrong, columns_of, number, rows_of};
use super::keys::{LONGEST, MOST_LISTED};
use super::reader::Reader;

type Result<T> = std::result::Result<T, ScenarioError>;

/// From when on it is which, ascending, from 0 on.
pub(super) type Qualities = Arc<[(Time, u8)]>;

const FORM: &str = "seconds that rise from 0 on, and a CQI from 0 to 15, by line";

impl InputFiles<'_> {
    /// The CQI in the file that the key `file` of `table` names.
    pub(super) fn cqi(&mut self, table: &Reader<'_>, file: &str) -> Result<Qualities> {
        let path = self.path(table, file)?;
        if let Some(known) = self.qualities.get(&path) {
            return Ok(Arc::clone(known));
        }
        let read = self.parsed(table, &path, "the CQI", parse)?;
        self.qualities.insert(path, Arc::clone(&read));
        Ok(read)
    }
}

fn parse(source: &Source<'_>) -> Result<Qualities> {
    Ok(rows_of(source, ("CQI", MOST_LISTED, FORM), one)?.into())
}

/// A line, behind `before`.
fn one<'t>(fields: &[&'t str], before: Option<(Time, u8)>) -> std::result::Result<(Time, u8), Wrong<'t>> {
    let &[time, cqi] = fields else {
        return Err(Wrong::at(fields[0], columns_of(fields), format!("expected {FORM}")));
    };
    let at = Time::ZERO + Span::from_seconds(number(time, "a time", LONGEST.seconds(), FORM)?);
    let (rises, remedy) = match before {
        None => (at == Time::ZERO, "the first line is of the time 0"),
        Some((before, _)) => (at > before, "write the lines in the order of time"),
    };
    if !rises {
        return Err(Wrong::at(time, format!("a line of {time} s here"), remedy));
    }
    let value = number(cqi, "a CQI", f64::from(BEST_CQI), FORM)?;
    if value.fract() != 0.0 {
        return Err(Wrong::at(cqi, format!("a CQI of {cqi}"), "expected a whole number"));
    }
    Ok((at, value as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> std::result::Result<Vec<(f64, u8)>, String> {
        let source = Source { file: Some("train.csv"), text, overrides: &[] };
        let rows = parse(&source).map_err(|error| error.to_string())?;
        Ok(rows.iter().map(|row| (row.0.seconds(), row.1)).collect())
    }

    #[test]
    fn lines_with_and_without_a_heading() {
        assert_eq!(
            read("time_s,cqi\n0,7\n0.5,12 # tunnel\n\n2;0\n"),
            Ok(vec![(0.0, 7), (0.5, 12), (2.0, 0)])
        );
        assert_eq!(read("0 15"), Ok(vec![(0.0, 15)]));
    }

    #[test]
    fn wrong_lines_are_shown() {
        for (text, message) in [
            ("1 7\n", "a line of 1 s here"),
            ("0 7\n0 8\n", "a line of 0 s here"),
            ("0 16\n", "a CQI of 16"),
            ("0 7.5\n", "a CQI of 7.5"),
            ("0 x\n", "\"x\" is not a CQI"),
            ("0 7 1\n", "3 columns"),
            ("0\n", "1 column\n"),
            ("", "the file holds no CQI"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(message), "{text:?}: {error}");
            assert!(error.contains("train.csv"), "{error}");
        }
    }
}
