//! CellReplay's light load: trains of packets over a quiet link, and what packets take by their size.
//!
//! `mod.rs` asks for both.

use std::sync::Arc;

use lasthop_core::time::Span;
use lasthop_net::device::two_loads::Train;

use super::super::diagnostic::{ScenarioError, Source, quoted};
use super::super::input_file::Wrong;
use super::super::keys::LONGEST;
use super::Result;

const TRAINS: &str = "expected lines of whole numbers with a space between: the time of a train, the delay of its \
                      first packet, and when its packets came after the first, from 0 on";
const SIZES: &str = "expected lines of a size and an offset in ms: 100, then 200 and so on";
/// Most packets of all trains, and of sizes.
const MOST_PACKETS: usize = 20_000_000;
const MOST_SIZES: usize = 655;
/// Largest offset of either sign, in ms.
const MOST_OFFSET: f64 = 1e6;

/// Trains in the order of time, whose times are in `unit`; the last is the end.
pub(super) fn trains(source: &Source<'_>, unit: Span) -> Result<Arc<[Train]>> {
    let mut trains: Vec<Train> = Vec::new();
    let mut packets = 0;
    for line in source.text.lines() {
        let wrong = |message: String, remedy: &str| Err(Wrong::at(line, message, remedy).in_source(source));
        let mut numbers = Vec::new();
        for word in line.split_ascii_whitespace() {
            // What is parsed may have a sign in front and nothing else beside digits.
            let number = word.parse().ok().filter(|_| !word.starts_with('+'));
            let Some(number) = number.filter(|&number: &u64| number <= LONGEST.0 / unit.0) else {
                return wrong(format!("no time: {}", quoted(word)), TRAINS);
            };
            numbers.push(unit * number);
        }
        let [at, delay, offsets @ ..] = &*numbers else {
            return wrong(format!("no train: {}", quoted(line)), TRAINS);
        };
        if offsets.is_empty() {
            return wrong("a train of no packets".to_owned(), "add at least the 0 of its first packet");
        }
        if offsets[0] != Span::ZERO || !offsets.is_sorted() {
            let message = "offsets of a train that do not rise from 0".to_owned();
            return wrong(message, "they are times behind the arrival of the first packet, in order");
        }
        if trains.last().is_some_and(|before| before.at > *at) {
            return wrong(
                format!("a train at {at} behind a later one"),
                "times must not fall; sort the file",
            );
        }
        packets += offsets.len();
        if packets > MOST_PACKETS {
            return wrong(format!("more than {MOST_PACKETS} packets"), "shorten the file");
        }
        trains.push(Train { at: *at, delay: *delay, offsets: offsets.into() });
    }
    let file = source.file.unwrap_or_default();
    if trains.len() < 2 || trains.last().is_some_and(|last| last.at == Span::ZERO) {
        let message = "fewer than two trains, or none behind time 0".to_owned();
        return Err(ScenarioError::of_file(file, message, "the last line is the end of the recording"));
    }
    Ok(trains.into())
}

/// Offsets in ns of packets of 100 B, of 200 B and so on.
pub(super) fn size_offsets(source: &Source<'_>) -> Result<Arc<[i64]>> {
    let mut offsets = Vec::new();
    for line in source.text.lines() {
        let wrong = |message: String| Err(Wrong::at(line, message, SIZES).in_source(source));
        let words: Vec<_> = line.split_ascii_whitespace().take(3).collect();
        let [size, offset] = *words else { return wrong(format!("no offset: {}", quoted(line))) };
        if size.parse() != Ok(100 * (offsets.len() + 1)) || offsets.len() == MOST_SIZES {
            return wrong(format!("a size that does not follow: {}", quoted(size)));
        }
        let Some(millis) = offset.parse().ok().filter(|offset: &f64| offset.abs() <= MOST_OFFSET) else {
            return wrong(format!("no offset: {}", quoted(offset)));
        };
        offsets.push((millis * 1e6).round() as i64);
    }
    if offsets.is_empty() {
        let file = source.file.unwrap_or_default();
        return Err(ScenarioError::of_file(file, "the file is empty".to_owned(), SIZES));
    }
    Ok(offsets.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source<'_> {
        Source { file: Some("train.light"), text, overrides: &[] }
    }

    fn error<T: std::fmt::Debug>(found: Result<T>) -> String {
        found.unwrap_err().to_string()
    }

    #[test]
    fn trains_are_read() {
        let millis = Span::from_millis;
        let found = trains(&source("0 20 0 2 4\n100 30 0\r\n"), millis(1)).unwrap();
        let first = Train { at: Span::ZERO, delay: millis(20), offsets: [0, 2, 4].map(millis).into() };
        let second = Train { at: millis(100), delay: millis(30), offsets: [millis(0)].into() };
        assert_eq!(*found, [first, second]);
        assert_eq!(*size_offsets(&source("100 -1.5\n200 0.25\n")).unwrap(), [-1_500_000, 250_000]);
    }

    #[test]
    fn what_is_no_train_is_told_with_its_place() {
        let millis = Span::from_millis(1);
        for (text, told) in [
            ("", "fewer than two trains"),
            ("0 20 0\n0 20 0\n", "none behind time 0"),
            ("0 20 0\n\n", "no train"),
            ("0 20 0\n5\n", "no train"),
            ("0 20 0\n5 20\n", "a train of no packets"),
            ("0 20 0\n5 -3 0\n", "no time"),
            ("0 20 0\n5 2.5 0\n", "no time"),
            ("0 20 0 4 3\n5 20 0\n", "do not rise from 0"),
            ("0 20 1 4\n5 20 0\n", "do not rise from 0"),
            ("7 20 0\n5 20 0\n", "behind a later one"),
            ("0 99999999999999999999 0\n5 20 0\n", "no time"),
        ] {
            let found = error(trains(&source(text), millis));
            assert!(found.contains(told) && found.contains("train.light"), "{text:?}: {found}");
        }
        for (text, told) in [
            ("", "the file is empty"),
            ("100\n", "no offset"),
            ("200 1\n", "does not follow"),
            ("100 1\n300 1\n", "does not follow"),
            ("100 nan\n", "no offset"),
            ("100 1e9\n", "no offset"),
        ] {
            let found = error(size_offsets(&source(text)));
            assert!(found.contains(told) && found.contains("train.light"), "{text:?}: {found}");
        }
    }
}
