//! Rates over time as other tools and public data sets write them. In all of them a row is the rate up to its time.
//!
//! | layout | lines | as in |
//! | --- | --- | --- |
//! | two columns | seconds, Mbit/s | Pensieve and papers after it |
//! | one rate per second | a rate and its unit | iperf's reports, NYU-METS |
//! | eight columns | Mbit/s first, one row per second | the multivariate part of NYU-METS |
//! | G-NetTrack | a heading with Timestamp, `DL_bitrate`, `UL_bitrate` in kbit/s | Raca et al., MMSys 2018, 2020 |
//! | downloads | epoch, ms since the start, latitude, longitude, bytes, ms | Riiser et al., MMSys 2013; Ghent 2016 |
//!
//! `mod.rs` asks for one. What a file leaves out is not guessed: a hole in the times is told, and the next rate holds
//! in it.

use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;

use super::super::diagnostic::{ScenarioError, Source, quoted};
use super::super::input_file::{MOST_FIELDS, Wrong, columns_of, split_line};
use super::super::keys::{FASTEST, LONGEST, MOST_LISTED};
use super::{Recording, Result, Row, Way};

type Read<'t, T> = std::result::Result<T, Wrong<'t>>;

/// Rates and where they come from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rates {
    pub(crate) rows: Recording,
    pub(crate) layout: Layout,
}

/// The layout of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Seconds and Mbit/s.
    TwoColumns,
    /// A rate per second and its unit.
    PerSecond,
    /// Mbit/s in the first of eight columns, a row per second.
    EightColumns,
    /// A log of G-NetTrack Pro: number of columns, place of the time and of the rate.
    NetTrack { columns: usize, time: usize, rate: usize },
    /// A log of downloads.
    Downloads,
}

impl Layout {
    /// What it is, for people.
    pub(crate) fn told(self) -> &'static str {
        match self {
            Layout::TwoColumns => {
                "two columns, seconds and Mbit/s (as of Pensieve); a row holds up to its time"
            }
            Layout::PerSecond => "one rate per second with its unit (as of iperf and NYU-METS)",
            Layout::EightColumns => {
                "eight columns, the first Mbit/s, one row per second (as of NYU-METS, multivariate)"
            }
            Layout::NetTrack { .. } => {
                "a log of G-NetTrack Pro (as of the Irish 4G and 5G data sets); a row holds up to its time"
            }
            Layout::Downloads => {
                "a log of downloads: epoch, ms, latitude, longitude, bytes, ms (as of Norway and Ghent)"
            }
        }
    }

    /// Whether rows have a rate for each way.
    pub(crate) fn has_both_ways(self) -> bool {
        matches!(self, Layout::NetTrack { .. })
    }

    /// The layout of a file whose first line with something in it has these fields; and whether that is a heading.
    fn of(fields: &[&str], way: Way) -> Option<(Layout, bool)> {
        let place = |name: &str| fields.iter().position(|field| *field == name);
        let rate = ["DL_bitrate", "UL_bitrate"][way as usize];
        if let (Some(time), Some(rate)) = (place("Timestamp"), place(rate)) {
            return Some((Layout::NetTrack { columns: fields.len(), time, rate }, true));
        }
        let numbers = fields.iter().all(|field| field.parse::<f64>().is_ok());
        let layout = match fields.len() {
            2 if numbers => Layout::TwoColumns,
            2 if unit_of(fields[1]).is_some() => Layout::PerSecond,
            6 if numbers => Layout::Downloads,
            8 if numbers => Layout::EightColumns,
            _ => return None,
        };
        Some((layout, false))
    }
}

const LAYOUTS: &str = "expected seconds and Mbit/s; a rate and its unit per second; a heading with Timestamp, \
                       DL_bitrate and UL_bitrate; six columns of a log of downloads; or, for a heading such as \
                       time_s,rate_mbit_s, kind = \"csv\"; or, for times at which packets may leave, kind = \
                       \"mahimahi\"";

/// The bits per second of a unit.
fn unit_of(unit: &str) -> Option<f64> {
    let prefix = ["bits/sec", "bit/s", "bps"].iter().find_map(|ending| unit.strip_suffix(ending))?;
    match prefix {
        "" => Some(1.0),
        "K" | "k" => Some(1e3),
        "M" => Some(1e6),
        "G" => Some(1e9),
        _ => None,
    }
}

/// A measured rate: it held from `since`, if the file says it, until `until`.
struct Measured {
    since: Option<Time>,
    until: Time,
    bits_per_second: f64,
}

/// The rates of a text.
pub(super) fn parse(source: &Source<'_>, way: Way) -> Result<Rates> {
    let mut layout = None;
    let mut rows = Rows::default();
    let mut fields = Vec::new();
    for line in source.text.lines() {
        split(line, layout, &mut fields);
        if fields.is_empty() {
            continue;
        }
        let Some((known, heading)) = layout.map(|known| (known, false)).or_else(|| Layout::of(&fields, way))
        else {
            let message = format!("no layout of rates begins like this: {}", quoted(line.trim()));
            return Err(Wrong::at(fields[0], message, LAYOUTS).in_source(source));
        };
        layout = Some(known);
        if heading {
            continue;
        }
        let pushed = measured(known, &fields, rows.number).and_then(|measured| match measured {
            Some(measured) => rows.push(fields[0], &measured, known.has_both_ways()),
            None => Ok(()),
        });
        pushed.map_err(|wrong| wrong.in_source(source))?;
    }
    let Some(layout) = layout else {
        let file = source.file.unwrap_or_default();
        return Err(ScenarioError::of_file(file, "the trace is empty".to_owned(), LAYOUTS));
    };
    Ok(Rates { rows: rows.finish(source)?, layout })
}

/// Puts the fields of a line into `fields`. A log of G-NetTrack has commas, and empty fields between them.
fn split<'t>(line: &'t str, layout: Option<Layout>, fields: &mut Vec<&'t str>) {
    let heading = layout.is_none() && line.contains("Timestamp");
    if !heading && !matches!(layout, Some(Layout::NetTrack { .. })) {
        split_line(line, fields);
        return;
    }
    fields.clear();
    if !line.trim().is_empty() {
        fields.extend(line.split(',').map(str::trim).take(MOST_FIELDS));
    }
}

/// What a line measured, if it did; `number` lines stand before it.
fn measured<'t>(layout: Layout, fields: &[&'t str], number: u64) -> Read<'t, Option<Measured>> {
    let columns = match layout {
        Layout::TwoColumns | Layout::PerSecond => 2,
        Layout::EightColumns => 8,
        Layout::NetTrack { columns, .. } => columns,
        Layout::Downloads => 6,
    };
    if fields.len() != columns {
        let message = format!("{}, and {columns} in the lines before", columns_of(fields));
        return Err(Wrong::at(fields[0], message, "every line has the same columns"));
    }
    let second = || Time((number + 1) * 1_000_000_000);
    Ok(Some(match layout {
        Layout::TwoColumns => {
            Measured { since: None, until: time(fields[0], 1e9)?, bits_per_second: rate(fields[1], 1e6)? }
        }
        Layout::PerSecond => {
            let Some(factor) = unit_of(fields[1]) else {
                let message = format!("no unit of a rate: {}", quoted(fields[1]));
                return Err(Wrong::at(
                    fields[1],
                    message,
                    "expected bits/sec, Kbits/sec, Mbits/sec or Gbits/sec",
                ));
            };
            Measured { since: None, until: second(), bits_per_second: rate(fields[0], factor)? }
        }
        Layout::EightColumns => {
            Measured { since: None, until: second(), bits_per_second: rate(fields[0], 1e6)? }
        }
        // What was not measured has a dash there.
        Layout::NetTrack { rate: column, .. } if matches!(fields[column], "-" | "") => return Ok(None),
        Layout::NetTrack { time, rate: column, .. } => Measured {
            since: None,
            until: moment(fields[time])?,
            bits_per_second: rate(fields[column], 1e3)?,
        },
        Layout::Downloads => {
            let until = time(fields[1], 1e6)?;
            let (bytes, lasted) = (number_of(fields[4])?, time(fields[5], 1e6)?);
            if lasted == Time::ZERO {
                return Err(Wrong::at(
                    fields[5],
                    "a measurement of 0 ms".to_owned(),
                    "expected a time above 0",
                ));
            }
            let bits_per_second = bytes * 8e9 / lasted.0 as f64;
            limited(fields[4], bits_per_second)?;
            Measured { since: Some(Time(until.0.saturating_sub(lasted.0))), until, bits_per_second }
        }
    }))
}

fn number_of(field: &str) -> Read<'_, f64> {
    match field.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => {
            let message = format!("no number: {}", quoted(field));
            Err(Wrong::at(field, message, "expected a number of at least 0"))
        }
    }
}

/// A time of a field in a unit of this many nanoseconds.
fn time(field: &str, nanos: f64) -> Read<'_, Time> {
    let scaled = number_of(field)? * nanos;
    if scaled > 1e19 {
        return Err(Wrong::at(field, format!("a time of {field}"), "expected a shorter one"));
    }
    Ok(Time((scaled + 0.5) as u64))
}

fn rate(field: &str, factor: f64) -> Read<'_, f64> {
    let rate = number_of(field)? * factor;
    limited(field, rate)?;
    Ok(rate)
}

fn limited(field: &str, rate: f64) -> Read<'_, ()> {
    if rate <= FASTEST as f64 {
        return Ok(());
    }
    Err(Wrong::at(
        field,
        format!("a rate of {rate:.0} bit/s"),
        format!("at most {FASTEST} bit/s are allowed"),
    ))
}

/// A moment as G-NetTrack writes it, `2019.12.16_13.40.04`, since the year 1970.
fn moment(field: &str) -> Read<'_, Time> {
    let numbers: Vec<Option<u64>> = field
        .split(['.', '_'])
        .map(|part| part.parse().ok().filter(|_| part.bytes().all(|byte| byte.is_ascii_digit())))
        .collect();
    if let [Some(year), Some(month), Some(day), Some(hour), Some(minute), Some(second)] = numbers[..]
        && (1970..2200).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second < 61
    {
        let seconds = ((days_before(year, month) + day - 1) * 24 + hour) * 3600 + minute * 60 + second;
        return Ok(Time(seconds * 1_000_000_000));
    }
    let message = format!("no moment: {}", quoted(field));
    Err(Wrong::at(field, message, "expected a date and a time such as 2019.12.16_13.40.04"))
}

/// Days from 1970 to the first of a month.
fn days_before(year: u64, month: u64) -> u64 {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days: u64 = (1970..year).map(|year| 365 + u64::from(leap(year))).sum();
    let months = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    days + months.iter().take(month as usize - 1).sum::<u64>()
}

/// How many seconds back a row of G-NetTrack may belong: its clock steps back now and then.
const LATE_ROWS: usize = 3;

/// Measured rates on the way to rows.
#[derive(Default)]
struct Rows {
    /// Ends and rates, rising in time; rows with the same end count once, with their mean.
    ends: Vec<(Time, f64, u32)>,
    /// When the first began, if the file says so.
    since: Option<Time>,
    number: u64,
}

impl Rows {
    /// Adds a row, whose time stands in `field`. With `steps_back` one of the second before the last may come late.
    fn push<'t>(&mut self, field: &'t str, measured: &Measured, steps_back: bool) -> Read<'t, ()> {
        let &Measured { since, until, bits_per_second } = measured;
        if self.number == 0 {
            self.since = since;
        }
        self.number += 1;
        let late = if steps_back { LATE_ROWS } else { 1 };
        if let Some((_, sum, count)) =
            self.ends.iter_mut().rev().take(late).find(|(before, ..)| *before == until)
        {
            *sum += bits_per_second;
            *count += 1;
            return self.limited(field);
        }
        match self.ends.last_mut() {
            Some((before, ..)) if *before > until => {
                let message = format!("the row at {until} does not come after the one at {before}");
                return Err(Wrong::at(field, message, "times must rise; sort the file"));
            }
            _ => self.ends.push((until, bits_per_second, 1)),
        }
        self.limited(field)
    }

    fn limited<'t>(&self, field: &'t str) -> Read<'t, ()> {
        if self.number > MOST_LISTED {
            return Err(Wrong::at(field, format!("more than {MOST_LISTED} rows"), "shorten the file"));
        }
        Ok(())
    }

    /// Rows that hold from their time on, the first at 0; the last says when the trace ends.
    fn finish(self, source: &Source<'_>) -> Result<Recording> {
        let file = source.file.unwrap_or_default();
        let refuse =
            |message: &str, remedy: &str| Err(ScenarioError::of_file(file, message.to_owned(), remedy));
        let Some(&(last, ..)) = self.ends.last() else {
            return refuse("the trace has no row below its heading", "add a row");
        };
        let begin = self.begin();
        if last.since(begin) == Span::ZERO {
            return refuse("the trace has no length: its only row is at its beginning", "add a later row");
        }
        if last.since(begin) > LONGEST {
            return refuse("the trace is too long", &format!("at most {LONGEST} is allowed"));
        }
        let row = |at: Time, rate: f64| Row {
            at: Time(at.since(begin).0),
            rate: Some(Rate((rate + 0.5) as u64)),
            delay: None,
            loss: None,
        };
        let mut rows: Vec<Row> = Vec::with_capacity(self.ends.len() + 1);
        let mut at = begin;
        for &(until, sum, count) in self.ends.iter().filter(|(until, ..)| *until > begin) {
            let rate = sum / f64::from(count);
            rows.push(row(at, rate));
            at = until;
        }
        let rate = rows.last().map_or(0.0, |row| row.rate.map_or(0.0, |rate| rate.0 as f64));
        rows.push(row(last, rate));
        Ok(rows.into())
    }

    /// When the first row begins: as the file says; else at 0; but if it counts from some other time, as long before
    /// its end as half of all rows last at most.
    fn begin(&self) -> Time {
        if let Some(since) = self.since {
            return since;
        }
        let first = self.ends[0].0;
        let mut steps: Vec<u64> = self.ends.windows(2).map(|pair| pair[1].0.since(pair[0].0).0).collect();
        steps.sort_unstable();
        let Some(&longest) = steps.last() else { return Time::ZERO };
        if first.0 <= longest.saturating_mul(FROM_ANOTHER_TIME) {
            return Time::ZERO;
        }
        Time(first.0 - steps[steps.len() / 2])
    }
}

/// A first row that would last this many times as long as the longest other one counts from another time than 0.
const FROM_ANOTHER_TIME: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, way: Way) -> std::result::Result<(Vec<(u64, u64)>, Layout), String> {
        let source = Source { file: Some("bus.log"), text, overrides: &[] };
        let rates = parse(&source, way).map_err(|error| error.to_string())?;
        let rows = rates.rows.iter().map(|row| (row.at.0 / 1_000_000, row.rate.unwrap().0)).collect();
        Ok((rows, rates.layout))
    }

    fn rows(text: &str) -> Vec<(u64, u64)> {
        read(text, Way::Down).unwrap().0
    }

    /// A row holds up to its time; one at 0 has none to hold in.
    #[test]
    fn two_columns() {
        let expected = [(0, 4_000_000), (100, 2_000_000), (1200, 1_000_000), (2400, 1_000_000)];
        assert_eq!(rows("0.1\t4.0\n1.2 2.0\n2.4,1.0\n"), expected);
        assert_eq!(rows("0.0\t9.0\n0.1\t4.0\n1.2\t2.0\n2.4\t1.0\n"), expected);
        assert_eq!(rows("# a bus\n5 1.5\n"), [(0, 1_500_000), (5000, 1_500_000)]);
        // Times since 1970: the first row lasts as long as the others.
        let epoch = "1289406399 1\n1289406400 2\n1289406401 0\n";
        assert_eq!(rows(epoch), [(0, 1_000_000), (1000, 2_000_000), (2000, 0), (3000, 0)]);
    }

    #[test]
    fn one_rate_per_second() {
        assert_eq!(rows("0.57,Mbits/sec\n900,Kbits/sec\n"), [(0, 570_000), (1000, 900_000), (2000, 900_000)]);
        let eight = "12.6,9,0,102,13,3,7.37,2100\n3.18,9,0,102,13,3,6.51,2100\n";
        assert_eq!(rows(eight), [(0, 12_600_000), (1000, 3_180_000), (2000, 3_180_000)]);
    }

    /// Two rows of one second count once; both ways have a column; a month and a leap year pass.
    #[test]
    fn logs_of_cells() {
        let log = "Timestamp,Longitude,Operatorname,DL_bitrate,UL_bitrate,State\n2020.02.28_23.59.59,-8.4,,100,3,D\n\
                   2020.02.29_00.00.00,-8.4,B,50,3,D\n2020.02.29_00.00.00,-,B,150,5,D\n\
                   2020.03.01_00.00.00,-8,B,7,1,I\n";
        let (down, layout) = read(log, Way::Down).unwrap();
        assert_eq!(layout, Layout::NetTrack { columns: 6, time: 0, rate: 3 });
        // The first row counts from another time, so it lasts as long as the middle one of the others.
        assert_eq!(down.iter().map(|row| row.1).collect::<Vec<_>>(), [100_000, 100_000, 7_000, 7_000]);
        assert_eq!(down[2].0 - down[1].0, 1000);
        assert_eq!(down[3].0 - down[2].0, 86_400_000);
        let (up, _) = read(log, Way::Up).unwrap();
        assert_eq!(up.iter().map(|row| row.1).collect::<Vec<_>>(), [3_000, 4_000, 1_000, 1_000]);
    }

    /// As in a file of the Irish 5G data set: the clock steps back by a second, and those rows count with it. A dash
    /// is no rate; the next one holds in the gap. Steps of 1, 1, 2 and 3 s: the first row lasts 2 s.
    #[test]
    fn clocks_that_step_back() {
        let seconds =
            [("19", "10"), ("20", "20"), ("21", "30"), ("20", "40"), ("20", "60"), ("21", "50"), ("23", "7")];
        let rows_of = |(second, rate): (&str, &str)| format!("2019.11.27_07.45.{second},{rate},0\n");
        let log = "Timestamp,DL_bitrate,UL_bitrate\n".to_owned()
            + &seconds.map(rows_of).concat()
            + &rows_of(("24", "-"))
            + &rows_of(("26", "9"));
        assert_eq!(
            rows(&log),
            [(0, 10_000), (2000, 40_000), (3000, 40_000), (4000, 7_000), (6000, 9_000), (9000, 9_000)]
        );
    }

    /// 248069 B in 1008 ms, until 549692 ms; the next one lasts from there on.
    #[test]
    fn logs_of_downloads() {
        let log =
            "1289406399 549692 59.851754 10.781778 248069 1008\n1289406400 550772 59.85 10.78 191698 1080\n";
        assert_eq!(rows(log), [(0, 1_968_802), (1008, 1_419_985), (2088, 1_419_985)]);
    }

    #[test]
    fn wrong_lines_are_shown() {
        for (text, place, message) in [
            ("0.1 4.0\n1.2\n", ":2:1", "1 column, and 2 in the lines before"),
            ("0.1 4.0\n0.05 2\n", ":2:1", "the row at 50 ms does not come after the one at 100 ms"),
            ("0.1 4.0\n0.2 -2\n", ":2:5", "no number: \"-2\""),
            ("0.1 4.0\n0.2 nan\n", ":2:5", "no number: \"nan\""),
            ("0.1 4.0\n1e300 2\n", ":2:1", "a time of 1e300"),
            ("0.1 1e9\n", ":1:5", "a rate of 1000000000000000 bit/s"),
            ("1.5\n2.5\n", ":1:1", "no layout of rates begins like this: \"1.5\""),
            ("12 Mbits/sec\n13 furlongs\n", ":2:4", "no unit of a rate: \"furlongs\""),
            ("Timestamp,DL_bitrate,UL_bitrate\n2019.13.16_13.40.04,1,1\n", ":2:1", "no moment"),
            ("Timestamp,DL_bitrate,UL_bitrate\n2019.12.16_13.40.04,?,1\n", ":2:21", "no number: \"?\""),
            (
                "Timestamp,DL_bitrate,UL_bitrate\n2019.12.16_13.40.14,1,1\n2019.12.16_13.40.04,1,1\n",
                ":3:1",
                "does not come after",
            ),
            ("1 5 0 0 100 0\n", ":1:13", "a measurement of 0 ms"),
            ("0 4.0\n", "", "the trace has no length"),
            ("Timestamp,DL_bitrate,UL_bitrate\n", "", "the trace has no row below its heading"),
            ("0 1\n2000000 1\n", "", "the trace is too long"),
            ("", "", "the trace is empty"),
        ] {
            let error = read(text, Way::Down).unwrap_err();
            assert!(
                error.contains(message) && error.contains(&format!("at bus.log{place}")),
                "{text:?}: {error}"
            );
        }
    }
}
