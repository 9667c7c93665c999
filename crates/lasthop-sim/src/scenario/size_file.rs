//! Files with the lengths of transfers: a distribution function, or a sample.
//!
//! `arrivals.rs` asks for a file; one that several flows use is read once.

use std::sync::Arc;

use lasthop_net::traffic::size;

use super::diagnostic::{ScenarioError, Source};
use super::input_file::{InputFiles, Wrong, columns_of, each_line, number};
use super::reader::Reader;

type Result<T> = std::result::Result<T, ScenarioError>;
/// Cumulative probabilities from 0 to 1 and bytes, both rising.
pub(super) type Points = Arc<[(f64, f64)]>;

/// Most lines of a file.
const MOST_POINTS: usize = 10_000_000;
const FORM: &str =
    "bytes and the share of transfers that are no longer, rising to 1, by line; or a length by line";

impl InputFiles<'_> {
    /// The distribution in the file that the key `file` of `table` names.
    pub(super) fn lengths(&mut self, table: &Reader<'_>, file: &str) -> Result<Points> {
        let path = self.path(table, file)?;
        if let Some(points) = self.lengths.get(&path) {
            return Ok(Arc::clone(points));
        }
        let points = self.parsed(table, &path, "the lengths", parse)?;
        self.lengths.insert(path, Arc::clone(&points));
        Ok(points)
    }
}

fn parse(source: &Source<'_>) -> Result<Points> {
    let (mut lengths, mut points, mut last) = (Vec::new(), Vec::new(), None);
    each_line(source, |fields| {
        let columns = last.map_or(fields.len(), |(_, columns)| columns);
        check(fields, columns, lengths.len() + points.len())?;
        last = Some((fields[columns - 1], columns));
        if columns == 1 {
            lengths.push(number(fields[0], "a length", size::LONGEST as f64, FORM)?);
            return Ok(());
        }
        add_point(&mut points, fields)
    })?;
    match last {
        None => {
            let file = source.file.unwrap_or_default();
            let message = "the file holds no length".to_owned();
            Err(ScenarioError::of_file(file, message, &format!("expected {FORM}")))
        }
        Some((_, 1)) => Ok(sample(lengths)),
        Some((last, _)) if points.last().is_some_and(|&(share, _)| share < 1.0) => {
            Err(Wrong::at(last, format!("the last share is {last}"), "it is 1").in_source(source))
        }
        Some(_) => Ok(points.into()),
    }
}

/// Refuses a line with other columns than the first, and a file that is too long.
fn check<'t>(fields: &[&'t str], columns: usize, before: usize) -> std::result::Result<(), Wrong<'t>> {
    if columns > 2 || fields.len() != columns {
        return Err(Wrong::at(fields[0], columns_of(fields), format!("expected {FORM}")));
    }
    if before >= MOST_POINTS {
        return Err(Wrong::at(fields[0], format!("more than {MOST_POINTS} lines"), "shorten the file"));
    }
    Ok(())
}

/// Lengths that were seen: each step between two of them is as likely as the others.
fn sample(mut lengths: Vec<f64>) -> Points {
    lengths.sort_by(f64::total_cmp);
    let steps = (lengths.len() - 1).max(1) as f64;
    let mut points: Vec<(f64, f64)> =
        lengths.iter().enumerate().map(|(index, &bytes)| (index as f64 / steps, bytes)).collect();
    if points.len() == 1 {
        points.push((1.0, points[0].1));
    }
    points.into()
}

/// Adds a point of a distribution function: bytes and the share of transfers that are no longer.
fn add_point<'t>(points: &mut Vec<(f64, f64)>, fields: &[&'t str]) -> std::result::Result<(), Wrong<'t>> {
    let (bytes, share) = (
        number(fields[0], "a length", size::LONGEST as f64, FORM)?,
        number(fields[1], "a share", 1.0, FORM)?,
    );
    let (before, shorter) = points.last().copied().unwrap_or((0.0, 0.0));
    if share < before || bytes < shorter {
        let message = format!("{} after {shorter} {before}", fields.join(" "));
        return Err(Wrong::at(fields[0], message, "lengths and shares rise from line to line"));
    }
    if points.is_empty() && share > 0.0 {
        // As many as this are of the first length.
        points.push((0.0, bytes));
    }
    if points.last() != Some(&(share, bytes)) {
        points.push((share, bytes));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> std::result::Result<Vec<(f64, f64)>, String> {
        let source = Source { file: Some("web.txt"), text, overrides: &[] };
        parse(&source).map(|points| points.to_vec()).map_err(|error| error.to_string())
    }

    #[test]
    fn distributions_and_samples() {
        let expected = vec![(0.0, 1000.0), (0.5, 1000.0), (1.0, 9000.0)];
        assert_eq!(read("bytes share\n1000 0.5\n9000, 1\n"), Ok(expected.clone()));
        assert_eq!(read("1000;0\n1000;0.5 # half\n\n9000;1.0"), Ok(expected));
        assert_eq!(read("300\n100\n200\n"), Ok(vec![(0.0, 100.0), (0.5, 200.0), (1.0, 300.0)]));
        assert_eq!(read("77\n"), Ok(vec![(0.0, 77.0), (1.0, 77.0)]));
    }

    #[test]
    fn wrong_lines_are_shown() {
        for (text, message) in [
            ("1000 0.5\n900 1\n", "900 1 after 1000 0.5"),
            ("1000 0.5\n2000 0.4\n", "2000 0.4 after 1000 0.5"),
            ("1000 0.5\n2000 0.9\n", "the last share is 0.9"),
            ("1000 0.5\n2000 1.5\n", "a share of 1.5"),
            ("1000 0.5\nabc 1\n", "\"abc\" is not a length"),
            ("1000\n2000 1\n", "2 columns"),
            ("1 2 3\n", "3 columns"),
            ("-5\n", "a length of -5"),
            ("inf\n", "a length of inf"),
            ("", "the file holds no length"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(message), "{text:?}: {error}");
            assert!(error.contains("web.txt"), "{error}");
        }
    }
}
