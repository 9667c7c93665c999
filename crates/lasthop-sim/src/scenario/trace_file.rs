//! Recordings of links: Mahimahi's packet delivery opportunities, and tables of rate, delay and loss over time (CSV).
//!
//! `link.rs` asks for a file; one that several links use is read once.

use std::sync::Arc;

use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;

use super::diagnostic::{ScenarioError, Source, quoted};
use super::input_file::{InputFiles, Wrong};
use super::keys::{FASTEST, LONGEST, MOST_LISTED};
use super::reader::Reader;

type Result<T> = std::result::Result<T, ScenarioError>;

/// The instants of a file of opportunities.
pub(super) type Instants = Arc<[Span]>;

/// What a link did from some time on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) at: Time,
    pub(super) rate: Option<Rate>,
    pub(super) delay: Option<Span>,
    pub(super) loss: Option<f64>,
}

/// A table of what a link did over time; every row has the same columns, and the first is at zero.
pub(super) type Recording = Arc<[Row]>;

impl InputFiles<'_> {
    /// The opportunities of the file that the key `file` of `table` names.
    pub(super) fn opportunities(&mut self, table: &Reader<'_>, file: &str) -> Result<Instants> {
        let path = self.path(file);
        if let Some(instants) = self.instants.get(&path) {
            return Ok(Arc::clone(instants));
        }
        let micros = path.extension().is_some_and(|ending| ending == "us");
        let unit = Span::from_nanos(if micros { 1_000 } else { 1_000_000 });
        let instants = self.parsed(table, &path, "the trace", |source| parse_instants(source, unit))?;
        self.instants.insert(path, Arc::clone(&instants));
        Ok(instants)
    }

    /// The table in the file that the key `file` of `table` names.
    pub(super) fn recording(&mut self, table: &Reader<'_>, file: &str) -> Result<Recording> {
        let path = self.path(file);
        if let Some(recording) = self.recordings.get(&path) {
            return Ok(Arc::clone(recording));
        }
        let recording = self.parsed(table, &path, "the trace", parse_recording)?;
        self.recordings.insert(path, Arc::clone(&recording));
        Ok(recording)
    }
}

const INSTANTS: &str = "expected a whole number of milliseconds in each line, as Mahimahi writes them";

/// Mahimahi's format: one instant a line, in units of `unit`, never falling, the last above zero.
fn parse_instants(source: &Source<'_>, unit: Span) -> Result<Instants> {
    let mut instants: Vec<Span> = Vec::new();
    for line in source.text.lines() {
        let wrong = |message: String, remedy: &str| {
            // An empty line has no piece to show; the text before it ends where it begins.
            Err(Wrong::at(line, message, remedy).in_source(source))
        };
        let digits = line.trim_end_matches('\r');
        let Some(count) = whole(digits) else {
            return wrong(format!("no time of an opportunity: {}", quoted(digits)), INSTANTS);
        };
        let at = unit * count;
        if at > LONGEST {
            return wrong(format!("an opportunity at {at}"), &format!("{LONGEST} is the latest"));
        }
        if let Some(&before) = instants.last()
            && at < before
        {
            let message = format!("the opportunity at {at} comes before the one at {before}");
            return wrong(message, "times must not fall; sort the file");
        }
        if instants.len() as u64 == MOST_OPPORTUNITIES {
            return wrong(format!("more than {MOST_OPPORTUNITIES} opportunities"), "shorten the file");
        }
        instants.push(at);
    }
    let file = source.file.unwrap_or_default();
    match instants.last() {
        None => Err(ScenarioError::of_file(file, "the trace is empty".to_owned(), INSTANTS)),
        Some(&Span::ZERO) => {
            let message = "all opportunities are at zero, so that the trace has no length".to_owned();
            Err(ScenarioError::of_file(file, message, "its last line is its length, above zero"))
        }
        Some(_) => Ok(instants.into()),
    }
}

/// Most lines of a file of opportunities.
const MOST_OPPORTUNITIES: u64 = 50_000_000;

/// Digits and nothing else.
fn whole(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// What a column holds, and the factor that makes its numbers those of the engine: ns, bit/s, a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Time(u32),
    Rate(u32),
    Delay(u32),
    Loss,
}

const COLUMNS: [(&str, Column); 8] = [
    ("time_s", Column::Time(1_000_000_000)),
    ("time_ms", Column::Time(1_000_000)),
    ("rate_bit_s", Column::Rate(1)),
    ("rate_kbit_s", Column::Rate(1_000)),
    ("rate_mbit_s", Column::Rate(1_000_000)),
    ("delay_s", Column::Delay(1_000_000_000)),
    ("delay_ms", Column::Delay(1_000_000)),
    ("loss", Column::Loss),
];

const HEADING: &str = "the first line names the columns: time_s or time_ms, and one or more of rate_bit_s, \
                       rate_kbit_s, rate_mbit_s, delay_s, delay_ms, loss";

/// The fields of a line.
fn fields_of(line: &str) -> Vec<&str> {
    line.split(',').map(str::trim).collect()
}

fn parse_recording(source: &Source<'_>) -> Result<Recording> {
    let file = source.file.unwrap_or_default();
    let mut lines = source.text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let Some(heading) = lines.next() else {
        return Err(ScenarioError::of_file(file, "the trace is empty".to_owned(), HEADING));
    };
    let columns = columns(heading).map_err(|wrong| wrong.in_source(source))?;
    let mut rows: Vec<Row> = Vec::new();
    for line in lines {
        let row = row(line, &columns).map_err(|wrong| wrong.in_source(source))?;
        let wrong = |message, remedy: &str| Err(Wrong::at(line.trim(), message, remedy).in_source(source));
        match rows.last() {
            None if row.at > Time::ZERO => {
                return wrong(format!("the trace begins at {}", row.at), "its first row is at 0");
            }
            Some(before) if row.at <= before.at => {
                let message = format!("the row at {} does not come after the one at {}", row.at, before.at);
                return wrong(message, "times must rise; sort the file");
            }
            _ if rows.len() as u64 == MOST_LISTED => {
                return wrong(format!("more than {MOST_LISTED} rows"), "shorten the file");
            }
            _ => rows.push(row),
        }
    }
    if rows.is_empty() {
        let message = "the trace has no row below its heading".to_owned();
        return Err(ScenarioError::of_file(file, message, "add a row for time 0"));
    }
    Ok(rows.into())
}

fn columns(heading: &str) -> std::result::Result<Vec<Column>, Wrong<'_>> {
    let mut columns = Vec::new();
    for field in fields_of(heading) {
        let Some(&(_, column)) = COLUMNS.iter().find(|(name, _)| *name == field) else {
            let message = format!("no column of a trace: {}", quoted(field));
            return Err(Wrong::at(if field.is_empty() { heading } else { field }, message, HEADING));
        };
        let alike = |other: &Column| std::mem::discriminant(other) == std::mem::discriminant(&column);
        if columns.iter().any(alike) {
            return Err(Wrong::at(
                field,
                format!("a second column of this kind: {field}"),
                "keep one of them",
            ));
        }
        columns.push(column);
    }
    let timed = columns.iter().any(|column| matches!(column, Column::Time(_)));
    if !timed || columns.len() < 2 {
        return Err(Wrong::at(heading, "these columns make no trace".to_owned(), HEADING));
    }
    Ok(columns)
}

fn row<'t>(line: &'t str, columns: &[Column]) -> std::result::Result<Row, Wrong<'t>> {
    let fields = fields_of(line);
    if fields.len() != columns.len() {
        let message = format!("{} columns, and {} in the heading", fields.len(), columns.len());
        return Err(Wrong::at(line.trim(), message, "every line has the columns of the heading"));
    }
    let mut row = Row { at: Time::ZERO, rate: None, delay: None, loss: None };
    for (&field, &column) in fields.iter().zip(columns) {
        let shown = if field.is_empty() { line.trim() } else { field };
        let number = field.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        let Some(number) = number else {
            let message = format!("no number: {}", quoted(field));
            return Err(Wrong::at(shown, message, "expected a number of at least 0"));
        };
        let (scaled, most, unit) = match column {
            Column::Time(factor) | Column::Delay(factor) => {
                (number * f64::from(factor), LONGEST.0 as f64, "ns")
            }
            Column::Rate(factor) => (number * f64::from(factor), FASTEST as f64, "bit/s"),
            Column::Loss => (number, 1.0, "as a probability"),
        };
        if scaled > most {
            let message = format!("{number} is too much");
            return Err(Wrong::at(shown, message, format!("{most} {unit} is the most")));
        }
        let rounded = (scaled + 0.5) as u64;
        match column {
            Column::Time(_) => row.at = Time(rounded),
            Column::Rate(_) => row.rate = Some(Rate(rounded)),
            Column::Delay(_) => row.delay = Some(Span(rounded)),
            Column::Loss => row.loss = Some(scaled),
        }
    }
    Ok(row)
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

    fn source(text: &str) -> Source<'_> {
        Source { file: Some("train.csv"), text, overrides: &[] }
    }

    fn instants(text: &str) -> std::result::Result<Vec<u64>, String> {
        let parsed = parse_instants(&source(text), Span::from_millis(1));
        let times = parsed.map(|instants| instants.iter().map(|instant| instant.0 / 1_000_000).collect());
        times.map_err(|error| error.to_string())
    }

    fn recording(text: &str) -> std::result::Result<Vec<Row>, String> {
        parse_recording(&source(text)).map(|rows| rows.to_vec()).map_err(|error| error.to_string())
    }

    #[test]
    fn opportunities() {
        assert_eq!(instants("0\n5\n5\n10\n"), Ok(vec![0, 5, 5, 10]));
        assert_eq!(instants("1\r\n2"), Ok(vec![1, 2]));
        for (text, place, message) in [
            ("1\n3\n2\n", ":3:1", "the opportunity at 2 ms comes before the one at 3 ms"),
            ("1\n\n2\n", ":2:1", "no time of an opportunity: \"\""),
            ("1\n# two\n", ":2:1", "no time of an opportunity: \"# two\""),
            ("1.5\n", ":1:1", "no time of an opportunity: \"1.5\""),
            ("time_s,rate_bit_s\n", ":1:1", "no time of an opportunity: \"time_s,rate_bit_s\""),
            ("99999999999\n", ":1:1", "an opportunity at 99999999.999 s"),
            ("", "", "the trace is empty"),
            ("0\n0\n", "", "all opportunities are at zero"),
        ] {
            let error = instants(text).unwrap_err();
            assert!(error.contains(message) && error.contains(&format!("at train.csv{place}")), "{error}");
        }
    }

    #[test]
    fn recordings() {
        let rows =
            recording("# from a train\ntime_s, rate_mbit_s, delay_ms, loss\n0,10,20,0\n1.5,0,30,0.5\n")
                .unwrap();
        let row = |at, rate, delay, loss| Row {
            at: Time(at),
            rate: Some(Rate(rate)),
            delay: Some(Span::from_millis(delay)),
            loss: Some(loss),
        };
        assert_eq!(rows, [row(0, 10_000_000, 20, 0.0), row(1_500_000_000, 0, 30, 0.5)]);
        let only = recording("time_ms,loss\n0,0.25\n").unwrap();
        assert_eq!((only[0].rate, only[0].delay, only[0].loss), (None, None, Some(0.25)));
        for (text, place, message) in [
            (
                "time_s,rate_bit_s\n0,1\n2,1\n1,1\n",
                ":4:1",
                "the row at 1 s does not come after the one at 2 s",
            ),
            ("time_s,rate_bit_s\n1,1\n", ":2:1", "the trace begins at 1 s"),
            ("time_s,rate_bit_s\n0,x\n", ":2:3", "no number: \"x\""),
            ("time_s,rate_bit_s\n0,-1\n", ":2:3", "no number: \"-1\""),
            ("time_s,loss\n0,1.5\n", ":2:3", "1.5 is too much"),
            ("time_s,rate_bit_s\n0\n", ":2:1", "1 columns, and 2 in the heading"),
            ("0\n5\n", ":1:1", "no column of a trace: \"0\""),
            ("time_s,rate_bit_s,rate_kbit_s\n", ":1:19", "a second column of this kind: rate_kbit_s"),
            ("rate_bit_s\n1\n", ":1:1", "these columns make no trace"),
            ("time_s,rate_bit_s\n", "", "the trace has no row below its heading"),
            ("# nothing\n", "", "the trace is empty"),
        ] {
            let error = recording(text).unwrap_err();
            assert!(error.contains(message) && error.contains(&format!("at train.csv{place}")), "{error}");
        }
    }

    #[test]
    fn repetition() {
        let rows = recording("time_s,loss\n0,0.1\n1,0.2\n4,0\n").unwrap();
        let times = |repeat, seconds| {
            let rows = rows_until(&rows, repeat, Span::from_secs(seconds));
            rows.map(|row| row.at.0 / 1_000_000_000).collect::<Vec<_>>()
        };
        assert_eq!(times(true, 9), [0, 1, 4, 5, 8, 9]);
        assert_eq!(times(false, 9), [0, 1, 4]);
        assert_eq!(number_until(&rows, true, Span::from_secs(9)), 9);
    }
}
