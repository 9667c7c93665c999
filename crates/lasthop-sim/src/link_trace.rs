//! Files of what a link did over time: what is in them, and the same in another format.
//!
//! `lasthop trace` calls it; the files are read by the scenario's own readers, so that what is shown is what a run
//! would do.

use std::fmt::Write as _;
use std::path::Path;

use lasthop_core::time::Span;
use serde_json::{Value, json};

use crate::scenario::ScenarioError;
use crate::scenario::input_file::LONGEST_FILE;
use crate::scenario::trace_file::{Found, Recording, Row, Way, recognise};

/// Bytes of an opportunity where a file does not say it: a full packet, as Mahimahi's manual has it.
pub const OPPORTUNITY: u32 = 1500;
/// A link that sends nothing for this long pauses.
const PAUSE: Span = Span::from_millis(100);
/// Most intervals of equal length.
const MOST_BINS: u64 = 10_000_000;

/// A format to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A heading and rows that hold from their time on.
    Csv,
    /// Opportunities of 1500 B, in whole milliseconds.
    Mahimahi,
    /// Seconds and Mbit/s; a row holds up to its time.
    Pensieve,
}

impl Target {
    /// The names of all.
    pub const NAMES: [&'static str; 3] = ["csv", "mahimahi", "pensieve"];

    /// The format with this name.
    pub fn by_name(name: &str) -> Option<Target> {
        let all = [Target::Csv, Target::Mahimahi, Target::Pensieve];
        all.into_iter().find(|target| Target::NAMES[*target as usize] == name)
    }
}

/// A file of a link, read.
#[derive(Clone, Debug)]
pub struct LinkTrace {
    found: Found,
}

/// A time in which a link has one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    from: Span,
    until: Span,
    rate: f64,
}

impl LinkTrace {
    /// Reads the file at `path`, of whatever layout; `way` says which rate is meant where a row has two.
    pub fn read(path: &Path, way: Way) -> Result<LinkTrace, ScenarioError> {
        Ok(LinkTrace { found: recognise(path, way)? })
    }

    /// The `kind` under which a scenario takes the file.
    pub fn kind(&self) -> &'static str {
        match &self.found {
            Found::Deliveries(_) => "mahimahi",
            Found::Table(_) => "csv",
            Found::Rates(_) => "rates",
        }
    }

    /// What the file was taken for, for people.
    fn layout(&self) -> &'static str {
        match &self.found {
            Found::Deliveries(read) if read.bytes.is_some() => {
                "a log of Mahimahi's mm-link: the opportunities in it"
            }
            Found::Deliveries(_) => "opportunities to send a packet, as Mahimahi has them",
            Found::Table(_) => "a table with a heading; a row holds from its time on",
            Found::Rates(rates) => rates.layout.told(),
        }
    }

    fn rows(&self) -> Option<&Recording> {
        match &self.found {
            Found::Deliveries(_) => None,
            Found::Table(rows) => Some(rows),
            Found::Rates(rates) => Some(&rates.rows),
        }
    }

    fn opportunity(&self) -> u32 {
        match &self.found {
            Found::Deliveries(read) => read.bytes.unwrap_or(OPPORTUNITY),
            _ => OPPORTUNITY,
        }
    }

    /// How long the file lasts.
    pub fn length(&self) -> Span {
        match &self.found {
            Found::Deliveries(read) => read.times.last().copied().unwrap_or(Span::ZERO),
            Found::Table(rows) => rows.last().map_or(Span::ZERO, |row| Span(row.at.0)),
            Found::Rates(rates) => rates.rows.last().map_or(Span::ZERO, |row| Span(row.at.0)),
        }
    }

    /// The rates in the order of time; none if the file has none.
    fn steps(&self) -> Vec<Step> {
        let Some(rows) = self.rows() else { return Vec::new() };
        rows.windows(2)
            .filter_map(|pair| {
                let rate = pair[0].rate?.0 as f64;
                Some(Step { from: Span(pair[0].at.0), until: Span(pair[1].at.0), rate })
            })
            .collect()
    }

    /// Mean rates in bit/s of intervals of `width`, the last of which may be shorter; `None` if there are no rates, or
    /// more than ten million intervals.
    pub fn bins(&self, width: Span) -> Option<Vec<f64>> {
        let length = self.length();
        let count = length.0.div_ceil(width.0.max(1));
        if count == 0 || count > MOST_BINS {
            return None;
        }
        let mut bits = vec![0.0; count as usize];
        if let Found::Deliveries(read) = &self.found {
            // What may leave at an instant leaves in the interval that ends with it.
            for time in read.times.iter() {
                bits[(time.0.saturating_sub(1) / width.0) as usize] += 8.0 * f64::from(self.opportunity());
            }
        } else {
            let steps = self.steps();
            if steps.is_empty() {
                return None;
            }
            for step in steps {
                spread(&mut bits, width, step);
            }
        }
        let seconds =
            |index: u64| length.0.min((index + 1) * width.0).saturating_sub(index * width.0) as f64 / 1e9;
        Some(bits.iter().zip(0..).map(|(bits, index)| bits / seconds(index)).collect())
    }

    /// Bits over the whole length.
    fn bits(&self) -> f64 {
        match &self.found {
            Found::Deliveries(read) => read.times.len() as f64 * 8.0 * f64::from(self.opportunity()),
            _ => self.steps().iter().map(|step| step.rate * (step.until.0 - step.from.0) as f64 / 1e9).sum(),
        }
    }

    /// The times in which nothing is sent for at least [`PAUSE`]: begin and length.
    fn pauses(&self) -> Vec<(Span, Span)> {
        let mut silent: Vec<(Span, Span)> = Vec::new();
        match &self.found {
            Found::Deliveries(read) => {
                let mut before = Span::ZERO;
                for &time in read.times.iter() {
                    silent.push((before, time));
                    before = time;
                }
            }
            _ => {
                for step in self.steps().iter().filter(|step| step.rate == 0.0) {
                    match silent.last_mut() {
                        Some((_, until)) if *until == step.from => *until = step.until,
                        _ => silent.push((step.from, step.until)),
                    }
                }
            }
        }
        silent.retain(|&(from, until)| until.0 - from.0 >= PAUSE.0);
        silent.iter().map(|&(from, until)| (from, Span(until.0 - from.0))).collect()
    }

    /// What the file says, as an object.
    pub fn summary(&self) -> Value {
        let length = self.length();
        let pauses = self.pauses();
        let longest = |spans: &[(Span, Span)]| {
            let longest = spans.iter().copied().max_by_key(|&(from, span)| (span, std::cmp::Reverse(from)));
            longest.map(|(from, span)| json!({ "at_s": seconds(from), "length_s": seconds(span) }))
        };
        let mut summary = json!({
            "kind": self.kind(),
            "layout": self.layout(),
            "both_ways": matches!(&self.found, Found::Rates(rates) if rates.layout.has_both_ways()),
            "length_s": seconds(length),
            "pauses": {
                "count": pauses.len(),
                // A sum of nothing is -0.0.
                "total_s": 0.0 + pauses.iter().map(|(_, span)| seconds(*span)).sum::<f64>(),
                "longest": longest(&pauses),
            },
        });
        if let Found::Deliveries(read) = &self.found {
            summary["opportunities"] = json!(read.times.len());
            summary["opportunity_bytes"] = json!(self.opportunity());
        }
        if let Some(rows) = self.rows() {
            let steps: Vec<(Span, Span)> =
                rows.windows(2).map(|pair| (Span(pair[0].at.0), pair[1].at.since(pair[0].at))).collect();
            let mut spans: Vec<Span> = steps.iter().map(|step| step.1).collect();
            spans.sort_unstable();
            // In rates of other tools the last row only says when the trace ends.
            summary["rows"] = json!(rows.len() - usize::from(matches!(self.found, Found::Rates(_))));
            summary["spacing"] = json!({
                "median_s": spans.get(spans.len() / 2).map(|span| seconds(*span)),
                "longest": longest(&steps),
            });
            // A row holds until the next. How long the last one holds is not known: it has no weight.
            let held: Vec<f64> = steps.iter().map(|step| seconds(step.1)).chain([0.0]).collect();
            let of = |value: &dyn Fn(&Row) -> Option<f64>| {
                spread_of(rows.iter().zip(&held).filter_map(|(row, &held)| Some((value(row)?, held))))
            };
            summary["delay_s"] = of(&|row| row.delay.map(seconds));
            summary["loss"] = of(&|row| row.loss);
        }
        if length > Span::ZERO
            && let Some(mut rates) = self.bins(Span::from_secs(1))
        {
            summary["mean_rate_bit_s"] = json!(self.bits() / seconds(length));
            rates.sort_by(f64::total_cmp);
            let share = |share: f64| rates[((rates.len() - 1) as f64 * share + 0.5) as usize];
            summary["rate_by_second_bit_s"] = json!({
                "min": share(0.0), "p5": share(0.05), "median": share(0.5), "p95": share(0.95), "max": share(1.0),
            });
        }
        summary
    }

    /// The same as a text in another format; opportunities become mean rates of intervals of `width`. Fails with what
    /// is in the way.
    pub fn convert(&self, target: Target, width: Span) -> Result<String, String> {
        if self.length() == Span::ZERO {
            return Err("the trace has a single row and no length: add a row for its end".to_owned());
        }
        match target {
            Target::Csv => self.as_csv(width),
            Target::Pensieve => self.as_two_columns(width),
            Target::Mahimahi => self.as_opportunities(),
        }
    }

    /// Steps of the file, or of its means over `width` where it has opportunities.
    fn steps_or_bins(&self, width: Span) -> Result<Vec<Step>, String> {
        if self.rows().is_some() {
            let steps = self.steps();
            return if steps.is_empty() { Err(NO_RATES.to_owned()) } else { Ok(steps) };
        }
        let Some(bins) = self.bins(width) else {
            return Err(format!("more than {MOST_BINS} intervals: choose a longer one"));
        };
        let length = self.length();
        let step = |(rate, index): (&f64, u64)| {
            let from = index * width.0;
            Step { from: Span(from), until: Span(length.0.min(from + width.0)), rate: *rate }
        };
        Ok(bins.iter().zip(0..).map(step).collect())
    }

    fn as_csv(&self, width: Span) -> Result<String, String> {
        let mut text = String::new();
        if let Some(rows) = self.rows()
            && let Some(first) = rows.first()
        {
            let names = [
                Some("time_s"),
                first.rate.map(|_| "rate_bit_s"),
                first.delay.map(|_| "delay_s"),
                first.loss.map(|_| "loss"),
            ];
            let names: Vec<&str> = names.into_iter().flatten().collect();
            let _ = writeln!(text, "{}", names.join(","));
            for row in rows.iter() {
                let _ = write!(text, "{}", seconds(Span(row.at.0)));
                let values = [row.rate.map(|rate| rate.0 as f64), row.delay.map(seconds), row.loss];
                for value in values.into_iter().flatten() {
                    let _ = write!(text, ",{value}");
                }
                text.push('\n');
            }
            return Ok(text);
        }
        text.push_str("time_s,rate_bit_s\n");
        let steps = self.steps_or_bins(width)?;
        for step in &steps {
            let _ = writeln!(text, "{},{}", seconds(step.from), step.rate.round());
        }
        if let Some(last) = steps.last() {
            let _ = writeln!(text, "{},{}", seconds(last.until), last.rate.round());
        }
        Ok(text)
    }

    fn as_two_columns(&self, width: Span) -> Result<String, String> {
        let mut text = String::new();
        for step in self.steps_or_bins(width)? {
            let _ = writeln!(text, "{}\t{}", seconds(step.until), step.rate.round() / 1e6);
        }
        Ok(text)
    }

    /// An opportunity in the millisecond in which the bytes of one more packet have passed. The last line is the
    /// length, so a packet that is not complete at the end gets its opportunity there.
    fn as_opportunities(&self) -> Result<String, String> {
        let mut times: Vec<u64> = Vec::new();
        let millis = |span: Span| span.0.div_ceil(1_000_000);
        if let Found::Deliveries(read) = &self.found {
            times.extend(read.times.iter().map(|time| millis(*time)));
        } else {
            let steps = self.steps();
            if steps.is_empty() {
                return Err(NO_RATES.to_owned());
            }
            // No line is longer than the last, and a file that is too long to be read is of no use.
            let line = millis(self.length()).to_string().len() + 1;
            let most = LONGEST_FILE as f64 / line as f64;
            if self.bits() / 8.0 / f64::from(OPPORTUNITY) > most {
                return Err(format!(
                    "it would have more than {} million lines, and a file that is read has {} MiB at most: shorten the \
                     trace",
                    (most / 1e6) as u64,
                    LONGEST_FILE >> 20,
                ));
            }
            // Nanobits, so that nothing is lost between steps.
            let packet = u128::from(OPPORTUNITY) * 8 * 1_000_000_000;
            let mut passed: u128 = 0;
            for step in steps {
                let rate = step.rate as u128;
                let nanos = u128::from(step.until.0 - step.from.0);
                let total = passed + rate * nanos;
                let packets = total / packet;
                for number in 1..=packets {
                    let after = (number * packet - passed).div_ceil(rate);
                    times.push(millis(Span(step.from.0 + after as u64)));
                }
                passed = total - packets * packet;
            }
            let end = millis(self.length());
            if times.last() != Some(&end) {
                times.push(end);
            }
        }
        let mut text = String::with_capacity(times.len() * 7);
        for time in times {
            let _ = writeln!(text, "{time}");
        }
        Ok(text)
    }
}

const NO_RATES: &str = "the trace has no rates";

fn seconds(span: Span) -> f64 {
    span.seconds()
}

/// Adds the bits of a step to the intervals that it touches.
fn spread(bits: &mut [f64], width: Span, step: Step) {
    let mut from = step.from.0;
    while from < step.until.0 {
        let index = from / width.0;
        let until = step.until.0.min((index + 1) * width.0);
        bits[index as usize] += step.rate * (until - from) as f64 / 1e9;
        from = until;
    }
}

/// Least, mean over the time and largest of values that hold for some seconds each, or nothing. Where none holds for
/// any time, all count alike.
fn spread_of(values: impl Iterator<Item = (f64, f64)>) -> Value {
    let values: Vec<(f64, f64)> = values.collect();
    if values.is_empty() {
        return Value::Null;
    }
    let length: f64 = values.iter().map(|one| one.1).sum();
    let weight = |held: f64| if length > 0.0 { held / length } else { 1.0 / values.len() as f64 };
    json!({
        "min": values.iter().map(|one| one.0).fold(f64::INFINITY, f64::min),
        "mean": values.iter().map(|&(value, held)| value * weight(held)).sum::<f64>(),
        "max": values.iter().map(|one| one.0).fold(0.0, f64::max),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::trace_file::Found;

    /// A file with this text, under a name of its own.
    fn read(name: &str, text: &str) -> LinkTrace {
        let path = std::env::temp_dir().join(format!("lasthop-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let read = LinkTrace::read(&path, Way::Down);
        std::fs::remove_file(&path).unwrap();
        read.unwrap_or_else(|error| panic!("{error}"))
    }

    /// 4 Mbit/s for 0.1 s, 2 for 1.1 s, none for 1.2 s, 0.5 for 1.1 s: 3.15 Mbit in 3.5 s.
    const BUS: &str = "0.1\t4.0\n1.2\t2.0\n2.4\t0\n3.5\t0.5\n";

    #[test]
    fn what_a_file_says() {
        let bus = read("bus", BUS);
        let summary = bus.summary();
        assert_eq!((bus.kind(), bus.length()), ("rates", Span::from_millis(3500)));
        assert!((summary["mean_rate_bit_s"].as_f64().unwrap() - 3.15e6 / 3.5).abs() < 1e-3);
        assert_eq!(summary["pauses"]["longest"], json!({ "at_s": 1.2, "length_s": 1.2 }));
        assert_eq!(summary["rows"], 4);
        // 0.4 Mbit and 0.9 s of 2; 0.2 s of 2; 0.6 s of 0.5; the last half of a second.
        let bins: Vec<f64> = bus.bins(Span::from_secs(1)).unwrap().iter().map(|rate| rate.round()).collect();
        assert_eq!(bins, [2.2e6, 0.4e6, 0.3e6, 0.5e6]);
        let train = read("train", "0\n5\n5\n300\n");
        assert_eq!((train.kind(), train.summary()["pauses"]["count"].as_u64()), ("mahimahi", Some(1)));
        assert_eq!(train.bins(Span::from_millis(150)), Some(vec![240_000.0, 80_000.0]));
    }

    /// What is written is read as the same: rates exactly, opportunities within one packet at any time.
    #[test]
    fn conversions_are_read_back() {
        let bus = read("bus2", BUS);
        let steps = bus.steps();
        for target in [Target::Csv, Target::Pensieve] {
            let text = bus.convert(target, Span::from_secs(1)).unwrap();
            assert_eq!(read("back", &text).steps(), steps, "{text}");
        }
        let text = bus.convert(Target::Mahimahi, Span::from_secs(1)).unwrap();
        let Found::Deliveries(deliveries) = read("train2", &text).found else { panic!("{text}") };
        assert_eq!(deliveries.times.last(), Some(&Span::from_millis(3500)));
        for millis in 1..3500 {
            let given = deliveries.times.iter().filter(|time| time.0 <= millis * 1_000_000).count() as f64;
            let passed: f64 = steps
                .iter()
                .map(|step| {
                    let until = step.until.0.min(millis * 1_000_000).max(step.from.0);
                    step.rate * (until - step.from.0) as f64 / 1e9 / 12_000.0
                })
                .sum();
            // Within the millisecond of its last bit: less than a packet behind, and one step of 4 Mbit/s.
            assert!(given <= passed + 0.34 && given > passed - 1.34, "{millis}: {given} of {passed}");
        }
    }

    /// 10 ms for nine seconds and 20 ms for one are 11 ms on average; so is a loss of 0.1 and of 0, 0.09.
    #[test]
    fn means_are_over_the_time() {
        let rows = "time_s,rate_mbit_s,delay_ms,loss\n0,1,10,0.1\n9,1,20,0\n10,1,99,1\n";
        let summary = read("uneven", rows).summary();
        let near = |key: &str, mean: f64| (summary[key]["mean"].as_f64().unwrap() - mean).abs() < 1e-12;
        assert!(near("delay_s", 0.011) && near("loss", 0.09), "{summary}");
    }

    /// Opportunities become rates of intervals, and nothing is lost.
    #[test]
    fn opportunities_become_rates() {
        let train = read("train3", "0\n5\n5\n300\n");
        let text = train.convert(Target::Csv, Span::from_millis(100)).unwrap();
        assert_eq!(text, "time_s,rate_bit_s\n0,360000\n0.1,0\n0.2,120000\n0.3,120000\n");
        assert_eq!(train.convert(Target::Mahimahi, Span::from_secs(1)).unwrap(), "0\n5\n5\n300\n");
        let only = read("only", "time_s,delay_ms\n0,20\n1,30\n");
        assert!(only.convert(Target::Mahimahi, Span::from_secs(1)).unwrap_err().contains("no rates"));
        assert_eq!(
            only.convert(Target::Csv, Span::from_secs(1)).unwrap(),
            "time_s,delay_s\n0,0.02\n1,0.03\n"
        );
        assert!(only.bins(Span::from_secs(1)).is_none());
    }
}
