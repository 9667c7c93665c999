//! The history of paths: which windows earlier connections to a host kept, at which time of the week and year.
//!
//! `world.rs` keeps one while a run goes on, if the plan asks for it: it looks samples up when a connection opens and
//! adds one when a connection ends. A run begins with the snapshot of its plan, never with what another run adds, so
//! that it stays a function of scenario, seed and snapshot. Files are the business of the Python front.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use lasthop_core::time::{Span, Time};

use crate::plan::Plan;

/// Newest samples kept for each key.
pub const MOST_SAMPLES: usize = 32;
/// A connection must last this many round trips to count.
const LEAST_ROUND_TRIPS: u64 = 10;
/// A connection without a loss must last so long to count.
const LEAST_WITHOUT_LOSS: Span = Span::from_secs(5);
const SECONDS_PER_DAY: u64 = 86_400;

/// A date and a time of day of no particular zone: seconds since the start of 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment(pub u64);

impl Moment {
    /// Reads `2024-03-04`, `2024-03-04T09:30` or `2024-03-04T09:30:00`; a space may stand for the `T`. `None` if it is
    /// no such date of the years 1970 to 9999.
    pub fn parse(text: &str) -> Option<Moment> {
        let (date, time) = text.split_once(['T', 't', ' ']).unwrap_or((text, "00:00"));
        let number = |text: &str, digits: usize| {
            let plain = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| text.parse::<u64>().ok()).flatten()
        };
        let mut date = date.split('-');
        let (year, month, day) = (date.next()?, date.next()?, date.next()?);
        let (year, month, day) = (number(year, 4)?, number(month, 2)?, number(day, 2)?);
        let mut time = time.split(':');
        let (hour, minute) = (number(time.next()?, 2)?, number(time.next()?, 2)?);
        let second = time.next().map_or(Some(0), |second| number(second, 2))?;
        let valid = date.next().is_none()
            && time.next().is_none()
            && year >= 1970
            && (1..=12).contains(&month)
            && (1..=days_of(year, month)).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60;
        let days = (1970..year).map(days_of_year).sum::<u64>()
            + (1..month).map(|month| days_of(year, month)).sum::<u64>()
            + day
            - 1;
        valid.then_some(Moment(days * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second))
    }

    /// The hour (0 to 23), the day of the week (0 is Monday), the month (1 to 12) and the week of the year as ISO 8601
    /// counts it (1 to 53: the first one has the first Thursday).
    fn parts(self) -> (u8, u8, u8, u8) {
        let days = self.0 / SECONDS_PER_DAY;
        let hour = self.0 % SECONDS_PER_DAY / 3600;
        // The first of January 1970 was a Thursday.
        let weekday = (days + 3) % 7;
        let (year, mut left) = year_and_day(days);
        // The week belongs to the year of its Thursday; 1970 begins on a Thursday, so none lies before it.
        let week = year_and_day(days + 3 - weekday).1 / 7 + 1;
        let mut month = 1;
        while left >= days_of(year, month) {
            left -= days_of(year, month);
            month += 1;
        }
        (hour as u8, weekday as u8, month as u8, week as u8)
    }
}

/// The year and the day of it, from 0, of a day since the start of 1970.
fn year_and_day(days: u64) -> (u64, u64) {
    let (mut year, mut left) = (1970, days);
    while left >= days_of_year(year) {
        left -= days_of_year(year);
        year += 1;
    }
    (year, left)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_of_year(year: u64) -> u64 {
    365 + u64::from(is_leap(year))
}

fn days_of(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// One finished connection.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryEntry {
    /// Name of the node at the other end.
    pub endpoint: String,
    /// Hour of the day at which it opened, 0 to 23.
    pub hour: u8,
    /// Day of the week, 0 for Monday to 6.
    pub weekday: u8,
    /// Month, 1 to 12.
    pub month: u8,
    /// The window that it kept, in segments.
    pub window: f64,
    /// Week of the year, 1 to 53 (ISO 8601); 0 if it is not known.
    pub week: u8,
}

/// What a plan says about the history.
#[derive(Clone, Debug)]
pub struct HistoryPlan {
    /// The time at which the run starts.
    pub clock: Moment,
    /// Where the front keeps the history, as the scenario names it.
    pub file: Option<String>,
    /// What is known before the run, oldest first.
    pub snapshot: Arc<[HistoryEntry]>,
}

/// Node, hour, day of the week, month, week of the year: what is more special comes later, so that every level of the
/// fallback is a range of keys.
type Key = (u32, u8, u8, u8, u8);

/// The time average of the second half of a piecewise constant window, without its trace: the integral is noted at up
/// to [`CHECKPOINTS`] times, and when there is no more room at every other one. The middle is interpolated between
/// two notes, which lie at most a thirtieth of the connection apart.
#[derive(Clone, Debug)]
struct Average {
    start: Time,
    last: Time,
    window: f64,
    /// Segments times nanoseconds since the start.
    integral: f64,
    checkpoints: Vec<(Time, f64)>,
    spacing: Span,
}

const CHECKPOINTS: usize = 64;
const FIRST_SPACING: Span = Span::from_millis(10);

impl Average {
    fn new(now: Time, window: f64) -> Average {
        let checkpoints = Vec::with_capacity(CHECKPOINTS);
        Average { start: now, last: now, window, integral: 0.0, checkpoints, spacing: FIRST_SPACING }
    }

    /// The window is `window` from now on.
    fn change(&mut self, now: Time, window: f64) {
        // A long rest is noted on the way: the window was constant, so the notes are exact.
        while now.since(self.last_note()) > self.spacing {
            self.note(self.last_note() + self.spacing);
        }
        self.advance(now);
        self.window = window;
    }

    fn advance(&mut self, to: Time) {
        self.integral += self.window * to.since(self.last).0 as f64;
        self.last = self.last.max(to);
    }

    fn last_note(&self) -> Time {
        self.checkpoints.last().map_or(self.start, |&(time, _)| time)
    }

    fn note(&mut self, at: Time) {
        self.advance(at);
        if self.checkpoints.len() == CHECKPOINTS {
            let mut index = 0;
            self.checkpoints.retain(|_| {
                index += 1;
                index % 2 == 0
            });
            self.spacing = self.spacing * 2;
        }
        self.checkpoints.push((self.last, self.integral));
    }

    /// Mean over the second half of the time until now.
    fn second_half(&mut self, now: Time) -> f64 {
        self.change(now, self.window);
        let half = now.since(self.start).0 / 2;
        let middle = self.start + Span(half);
        let after = self.checkpoints.partition_point(|&(time, _)| time <= middle);
        let (low_time, low) = if after == 0 { (self.start, 0.0) } else { self.checkpoints[after - 1] };
        let (high_time, high) = self.checkpoints.get(after).copied().unwrap_or((now, self.integral));
        let share = middle.since(low_time).0 as f64 / (high_time.since(low_time).0 as f64).max(1.0);
        let until_middle = low + (high - low) * share;
        (self.integral - until_middle) / (now.since(middle).0 as f64).max(1.0)
    }
}

/// An open connection.
#[derive(Clone, Debug)]
struct Open {
    key: Key,
    average: Average,
}

/// The history that a run keeps.
#[derive(Clone, Debug)]
pub(crate) struct Keeper {
    clock: Moment,
    rings: BTreeMap<Key, VecDeque<f64>>,
    /// Names of the nodes, and by flow its receiving node.
    nodes: Vec<String>,
    sinks: Vec<u32>,
    /// By flow.
    open: Vec<Option<Open>>,
    /// What this run has added.
    added: Vec<HistoryEntry>,
}

impl Keeper {
    /// The history of a run of `plan`, if it keeps one.
    pub(crate) fn of(plan: &Plan) -> Option<Box<Keeper>> {
        let sinks = plan.flows.iter().map(|flow| flow.sink as u32).collect();
        plan.history.as_ref().map(|history| Box::new(Keeper::new(history, &plan.nodes, sinks)))
    }

    /// Starts from the snapshot of the plan; `sinks` lists the receiving node of each flow.
    fn new(plan: &HistoryPlan, nodes: &[String], sinks: Vec<u32>) -> Keeper {
        let mut keeper = Keeper {
            clock: plan.clock,
            rings: BTreeMap::new(),
            nodes: nodes.to_vec(),
            open: vec![None; sinks.len()],
            sinks,
            added: Vec::new(),
        };
        // What concerns hosts that no flow of this run sends to is of no use here.
        let used: BTreeMap<&str, u32> =
            keeper.sinks.iter().map(|&sink| (nodes[sink as usize].as_str(), sink)).collect();
        for entry in plan.snapshot.iter() {
            if let Some(&node) = used.get(entry.endpoint.as_str()) {
                keeper.add((node, entry.hour, entry.weekday, entry.month, entry.week), entry.window);
            }
        }
        keeper
    }

    fn add(&mut self, key: Key, window: f64) {
        let ring = self.rings.entry(key).or_default();
        if ring.len() == MOST_SAMPLES {
            ring.pop_front();
        }
        ring.push_back(window);
    }

    fn key(&self, flow: usize, now: Time) -> Key {
        let moment = Moment(self.clock.0 + now.since(Time::ZERO).0 / 1_000_000_000);
        let (hour, weekday, month, week) = moment.parts();
        (self.sinks[flow], hour, weekday, month, week)
    }

    /// The samples for a connection of `flow` that opens now: of the most special of (host, hour, day, month, week),
    /// (host, hour, day, month), (host, hour, day), (host, hour) and (host) that has at least `least` of them; else
    /// none.
    pub(crate) fn samples(&self, flow: usize, now: Time, least: usize) -> Vec<f64> {
        const ANY: u8 = u8::MAX;
        let key = self.key(flow, now);
        let (node, hour, weekday, month, _) = key;
        let levels = [
            (key, key),
            ((node, hour, weekday, month, 0), (node, hour, weekday, month, ANY)),
            ((node, hour, weekday, 0, 0), (node, hour, weekday, ANY, ANY)),
            ((node, hour, 0, 0, 0), (node, hour, ANY, ANY, ANY)),
            ((node, 0, 0, 0, 0), (node, ANY, ANY, ANY, ANY)),
        ];
        let found = levels.into_iter().map(|(first, last)| {
            self.rings.range(first..=last).flat_map(|(_, ring)| ring).copied().collect::<Vec<f64>>()
        });
        found.into_iter().find(|samples| samples.len() >= least.max(1)).unwrap_or_default()
    }

    /// A connection opens.
    pub(crate) fn open(&mut self, flow: usize, now: Time, window: f64) {
        let key = self.key(flow, now);
        self.open[flow] = Some(Open { key, average: Average::new(now, window) });
    }

    /// The window of an open connection is this from now on.
    pub(crate) fn change(&mut self, flow: usize, now: Time, window: f64) {
        if let Some(open) = &mut self.open[flow] {
            open.average.change(now, window);
        }
    }

    /// A connection ends, after which its window counts if it had time to settle.
    pub(crate) fn close(&mut self, flow: usize, now: Time, srtt: Span, has_lost: bool) {
        let Some(mut open) = self.open[flow].take() else { return };
        let length = now.since(open.average.start);
        let settled = srtt > Span::ZERO && length >= srtt * LEAST_ROUND_TRIPS;
        if !settled || !(has_lost || length >= LEAST_WITHOUT_LOSS) {
            return;
        }
        let window = open.average.second_half(now);
        self.add(open.key, window);
        let (node, hour, weekday, month, week) = open.key;
        let endpoint = self.nodes[node as usize].clone();
        self.added.push(HistoryEntry { endpoint, hour, weekday, month, window, week });
    }

    /// What this run has added, oldest first.
    pub(crate) fn added(&self) -> &[HistoryEntry] {
        &self.added
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read() {
        // date -u -d "2024-02-29 23:59:59" +%s
        assert_eq!(Moment::parse("2024-02-29T23:59:59"), Some(Moment(1_709_251_199)));
        assert_eq!(Moment::parse("2024-02-29 23:59"), Some(Moment(1_709_251_140)));
        assert_eq!(Moment::parse("1970-01-01"), Some(Moment(0)));
        for wrong in [
            "",
            "2024",
            "2024-13-01",
            "2023-02-29",
            "1969-12-31",
            "2024-1-1",
            "2024-01-01T24:00",
            "2024-01-01T10",
            "2024-01-01T10:00:00Z",
            "2024-01-01T10:00:00+01:00",
            "2024-01-01T10:60",
            "2024-01-01-01",
            "+024-01-01",
            "2024-01-01T10:00:00:00",
        ] {
            assert_eq!(Moment::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn moments_have_parts() {
        let parts = |text: &str| Moment::parse(text).unwrap().parts();
        // date -u -d "2024-02-29" +%V
        assert_eq!(parts("1970-01-01T00:00"), (0, 3, 1, 1), "a Thursday");
        assert_eq!(parts("2024-02-29T23:59:59"), (23, 3, 2, 9));
        assert_eq!(parts("2024-03-04T09:30"), (9, 0, 3, 10), "a Monday");
        assert_eq!(parts("2100-03-01T12:00"), (12, 0, 3, 9), "2100 is no leap year");
        assert_eq!(parts("1999-12-31T05:00"), (5, 4, 12, 52));
        assert_eq!(parts("2021-01-01T00:00"), (0, 4, 1, 53), "the last week of 2020");
        assert_eq!(parts("2024-12-30T00:00"), (0, 0, 12, 1), "the first week of 2025");
    }

    fn at(seconds: f64) -> Time {
        Time::ZERO + Span::from_seconds(seconds)
    }

    #[test]
    fn the_second_half_is_averaged() {
        // 10 s at 4 and 10 s at 8; then 30 s at 2: the second half of 50 s is all at 2 but nothing else.
        let mut average = Average::new(at(1.0), 4.0);
        average.change(at(11.0), 8.0);
        average.change(at(21.0), 2.0);
        let mut early = average.clone();
        assert!((early.second_half(at(21.0)) - 8.0).abs() < 0.1, "the middle is interpolated");
        assert!((average.second_half(at(51.0)) - 2.0).abs() < 1e-9);
    }

    /// A sawtooth between 10 and 20: 15 on average, whatever its period and the length, to 2 %.
    #[test]
    fn a_sawtooth_is_averaged() {
        for (period, length) in [(0.1, 20.0), (1.0, 100.0), (7.0, 1000.0)] {
            let mut average = Average::new(at(0.0), 10.0);
            for step in 0..(length / period * 10.0) as u32 {
                average.change(at(f64::from(step) * period / 10.0), 10.5 + f64::from(step % 10));
            }
            let mean = average.second_half(at(length));
            assert!((mean - 15.0).abs() < 0.3, "{mean} with {period} s in {length} s");
            assert!(average.checkpoints.len() <= CHECKPOINTS);
        }
    }

    #[test]
    fn a_connection_of_no_length_has_a_window() {
        assert!(Average::new(at(1.0), 4.0).second_half(at(1.0)).is_finite());
    }

    fn keeper(clock: &str, snapshot: &[(&str, u8, u8, u8, u8, f64)]) -> Keeper {
        let entry = |&(endpoint, hour, weekday, month, week, window): &(&str, u8, u8, u8, u8, f64)| {
            HistoryEntry { endpoint: endpoint.to_owned(), hour, weekday, month, window, week }
        };
        let plan = HistoryPlan {
            clock: Moment::parse(clock).unwrap(),
            file: None,
            snapshot: snapshot.iter().map(entry).collect(),
        };
        Keeper::new(&plan, &["a".to_owned(), "b".to_owned(), "c".to_owned()], vec![1, 2])
    }

    /// A Monday in March at nine, in the tenth week.
    const CLOCK: &str = "2024-03-04T09:30";

    #[test]
    fn the_most_special_level_with_enough_samples_is_used() {
        let rows = [
            ("b", 9, 0, 3, 10, 0.0),
            ("b", 9, 0, 3, 11, 1.0),
            ("b", 9, 0, 4, 10, 2.0),
            ("b", 9, 1, 3, 10, 3.0),
            ("b", 10, 0, 3, 10, 4.0),
            ("c", 9, 0, 3, 0, 5.0),
            ("x", 9, 0, 3, 10, 6.0),
        ];
        let keeper = keeper(CLOCK, &rows);
        assert_eq!(keeper.samples(0, Time::ZERO, 1), [0.0], "this very week");
        assert_eq!(keeper.samples(0, Time::ZERO, 2), [0.0, 1.0], "this month");
        assert_eq!(keeper.samples(0, Time::ZERO, 3), [0.0, 1.0, 2.0], "Mondays at nine");
        assert_eq!(keeper.samples(0, Time::ZERO, 4), [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(keeper.samples(0, Time::ZERO, 5), [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(keeper.samples(0, Time::ZERO, 6), [0.0; 0]);
        assert_eq!(keeper.samples(0, at(1800.0), 1), [4.0], "half an hour later it is ten");
        assert_eq!(keeper.samples(1, Time::ZERO, 0), [5.0], "of a week without a record");
    }

    #[test]
    fn only_the_newest_are_kept() {
        let rows: Vec<_> = (0..40).map(|number| ("b", 9, 0, 3, 10, f64::from(number))).collect();
        let samples = keeper(CLOCK, &rows).samples(0, Time::ZERO, 1);
        assert_eq!(samples, (8..40).map(f64::from).collect::<Vec<_>>());
    }

    #[test]
    fn connections_count_when_they_have_settled() {
        for (length, srtt_ms, has_lost, counts) in [
            (1.0, 50, true, true),
            (1.0, 50, false, false),
            (1.0, 101, true, false),
            (5.0, 50, false, true),
            (5.0, 0, true, false),
            (4.9, 50, false, false),
        ] {
            let mut keeper = keeper(CLOCK, &[]);
            keeper.open(0, at(1.0), 20.0);
            keeper.close(0, at(1.0 + length), Span::from_millis(srtt_ms), has_lost);
            assert_eq!(keeper.added().len(), usize::from(counts), "{length} s, {srtt_ms} ms, {has_lost}");
            assert_eq!(keeper.samples(0, at(10.0), 1).len(), usize::from(counts));
            keeper.close(0, at(100.0), Span::from_millis(srtt_ms), has_lost);
            assert_eq!(keeper.added().len(), usize::from(counts), "a connection ends once");
        }
    }
}
