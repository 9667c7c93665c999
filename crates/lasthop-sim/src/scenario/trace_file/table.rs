//! Tables of rate, delay and loss over time: a heading that names the columns, and rows that hold from their time on.
//!
//! `mod.rs` asks for one; what other tools write is in `rates.rs`.

use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;

use super::super::diagnostic::{ScenarioError, Source, quoted};
use super::super::input_file::{MOST_FIELDS, Wrong, columns_of};
use super::super::keys::{FASTEST, LONGEST, MOST_LISTED};
use super::{Recording, Result, Row};

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
    line.split(',').map(str::trim).take(MOST_FIELDS).collect()
}

/// Whether a file with this heading is such a table: its first field is the name of a column.
pub(super) fn begins(heading: &str) -> bool {
    fields_of(heading).first().is_some_and(|field| COLUMNS.iter().any(|(name, _)| name == field))
}

pub(super) fn parse(source: &Source<'_>) -> Result<Recording> {
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
        let message = format!("{}, and {} in the heading", columns_of(&fields), columns.len());
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
            return Err(Wrong::at(shown, message, format!("at most {most} {unit} are allowed")));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(text: &str) -> std::result::Result<Vec<Row>, String> {
        let source = Source { file: Some("train.csv"), text, overrides: &[] };
        parse(&source).map(|rows| rows.to_vec()).map_err(|error| error.to_string())
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
            ("time_s,rate_bit_s\n0\n", ":2:1", "1 column, and 2 in the heading"),
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
}
