//! Mahimahi's packet delivery opportunities: its traces, and the logs that `mm-link` writes.
//!
//! `mod.rs` asks for one. The bytes of an opportunity stand in a log only; a trace leaves them to the scenario.

use lasthop_core::time::Span;

use super::super::diagnostic::{ScenarioError, Source, quoted};
use super::super::input_file::Wrong;
use super::super::keys::{LARGEST_PACKET, LONGEST};
use super::{Deliveries, Result};

const INSTANTS: &str = "expected a whole number of milliseconds in each line, as Mahimahi writes them";

/// How a log of `mm-link` begins.
const LOG: &str = "# mahimahi";

/// Whether a file with this first line is one of opportunities: of a log, or digits and nothing else.
pub(super) fn begins(line: &str) -> bool {
    line.starts_with(LOG) || whole(line.trim_end_matches('\r')).is_some()
}

/// A trace with times in `unit`, or a log.
pub(super) fn parse(source: &Source<'_>, unit: Span) -> Result<Deliveries> {
    if source.text.starts_with(LOG) { parse_log(source) } else { parse_trace(source, unit) }
}

/// Instants that never fall.
#[derive(Default)]
struct Rising(Vec<Span>);

impl Rising {
    /// Adds the instant `at` of a line.
    fn push<'t>(&mut self, line: &'t str, at: Span) -> std::result::Result<(), Wrong<'t>> {
        // An empty line has no piece to show; the text before it ends where it begins.
        if at > LONGEST {
            return Err(Wrong::at(
                line,
                format!("an opportunity at {at}"),
                format!("{LONGEST} is the latest"),
            ));
        }
        if let Some(&before) = self.0.last()
            && at < before
        {
            let message = format!("the opportunity at {at} comes before the one at {before}");
            return Err(Wrong::at(line, message, "times must not fall; sort the file"));
        }
        if self.0.len() as u64 == MOST_OPPORTUNITIES {
            let message = format!("more than {MOST_OPPORTUNITIES} opportunities");
            return Err(Wrong::at(line, message, "shorten the file"));
        }
        self.0.push(at);
        Ok(())
    }

    /// All of them, if they make a trace.
    fn finish(self, source: &Source<'_>, bytes: Option<u32>, expected: &str) -> Result<Deliveries> {
        let file = source.file.unwrap_or_default();
        match self.0.last() {
            None => Err(ScenarioError::of_file(file, "the trace is empty".to_owned(), expected)),
            Some(&Span::ZERO) => {
                let message = "all opportunities are at zero, so that the trace has no length".to_owned();
                Err(ScenarioError::of_file(file, message, "its last line is its length, above zero"))
            }
            Some(_) => Ok(Deliveries { times: self.0.into(), bytes }),
        }
    }
}

/// Mahimahi's format: one instant a line, in units of `unit`, never falling, the last above zero.
fn parse_trace(source: &Source<'_>, unit: Span) -> Result<Deliveries> {
    let mut instants = Rising::default();
    for line in source.text.lines() {
        let digits = line.trim_end_matches('\r');
        let Some(count) = whole(digits) else {
            let message = format!("no time of an opportunity: {}", quoted(digits));
            return Err(Wrong::at(line, message, INSTANTS).in_source(source));
        };
        instants.push(line, unit * count).map_err(|wrong| wrong.in_source(source))?;
    }
    instants.finish(source, None, INSTANTS)
}

const LINES: &str = "expected lines as mm-link logs them: a time in ms and # BYTES (an opportunity), + BYTES, \
                     - BYTES DELAY or d PACKETS BYTES";

/// A log of `mm-link`: the opportunities in it, from its base timestamp on. What arrived and left does not count.
fn parse_log(source: &Source<'_>) -> Result<Deliveries> {
    let mut instants = Rising::default();
    let (mut base, mut bytes, mut fields) = (0, None, Vec::new());
    for line in source.text.lines() {
        let wrong = |message: String, remedy: &str| Err(Wrong::at(line, message, remedy).in_source(source));
        if let Some(comment) = line.strip_prefix('#') {
            if let Some(time) = comment.trim().strip_prefix("base timestamp:") {
                let Some(time) = whole(time.trim()) else {
                    return wrong(format!("no base timestamp: {}", quoted(time)), LINES);
                };
                base = time;
            }
            continue;
        }
        fields.clear();
        // One more than a line has at most: a very long one is not kept whole.
        fields.extend(line.split_ascii_whitespace().take(5));
        let known = matches!(fields[..], [_, "#" | "+", _] | [_, "-" | "d", _, _]);
        let numbers = fields.iter().enumerate().filter(|(place, _)| *place != 1);
        if !known || !numbers.clone().all(|(_, field)| whole(field).is_some()) {
            return wrong(format!("no line of a log of mm-link: {}", quoted(line)), LINES);
        }
        if fields[1] != "#" {
            continue;
        }
        let (Some(time), Some(size)) = (whole(fields[0]), whole(fields[2])) else { continue };
        let Some(since) = time.checked_sub(base) else {
            return wrong(format!("an opportunity at {time} ms, before the base timestamp {base}"), LINES);
        };
        let Some(size) = u32::try_from(size).ok().filter(|size| (1..=LARGEST_PACKET as u32).contains(size))
        else {
            return wrong(
                format!("an opportunity of {size} B"),
                &format!("expected 1 to {LARGEST_PACKET} B"),
            );
        };
        if *bytes.get_or_insert(size) != size {
            return wrong(format!("an opportunity of {size} B among others"), "all of a log have one size");
        }
        instants.push(line, Span::from_millis(1) * since).map_err(|wrong| wrong.in_source(source))?;
    }
    instants.finish(source, bytes, LINES)
}

/// Most lines of a file of opportunities.
const MOST_OPPORTUNITIES: u64 = 50_000_000;

/// Digits and nothing else.
fn whole(text: &str) -> Option<u64> {
    // What is parsed may have a sign in front and nothing else beside digits.
    text.parse().ok().filter(|_| !text.starts_with('+'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source<'_> {
        Source { file: Some("train.csv"), text, overrides: &[] }
    }

    fn instants(text: &str) -> std::result::Result<Vec<u64>, String> {
        let parsed = parse(&source(text), Span::from_millis(1));
        let times = parsed.map(|read| read.times.iter().map(|instant| instant.0 / 1_000_000).collect());
        times.map_err(|error| error.to_string())
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

    /// What `mm-link --uplink-log` writes: times count from the base timestamp.
    #[test]
    fn logs() {
        let head = "# mahimahi mm-link (uplink) [a.up] > a.log\n# queue: infinite\n# init timestamp: 1400000000000\n\
                    # base timestamp: 20\n# mahimahi config: x\n";
        let log = format!("{head}21 # 1504\n21 + 1500\n24 # 1504\n24 - 1500 3\n25 d 1 1500\n30 # 1504\n");
        let read = parse(&source(&log), Span::from_millis(1)).unwrap();
        assert_eq!(read.times.to_vec(), [1, 4, 10].map(Span::from_millis));
        assert_eq!(read.bytes, Some(1504));
        for (lines, place, message) in [
            ("21 # 1504\n22 ! 1504\n", ":7:1", "no line of a log of mm-link: \"22 ! 1504\""),
            ("19 # 1504\n", ":6:1", "an opportunity at 19 ms, before the base timestamp 20"),
            ("21 # 1504\n22 # 1500\n", ":7:1", "an opportunity of 1500 B among others"),
            ("21 # 0\n", ":6:1", "an opportunity of 0 B"),
            ("25 # 1504\n24 # 1504\n", ":7:1", "comes before"),
            ("21 + 1500\n", "", "the trace is empty"),
            ("x # 1504\n", ":6:1", "no line of a log"),
        ] {
            let error = instants(&format!("{head}{lines}")).unwrap_err();
            assert!(error.contains(message) && error.contains(&format!("at train.csv{place}")), "{error}");
        }
    }
}
