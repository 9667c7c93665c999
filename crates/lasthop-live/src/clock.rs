//! The real clock, as the world counts it, and how late things are.

use std::time::{Duration, Instant};

use lasthop_core::time::{Span, Time};
use lasthop_net::measure::Durations;
use lasthop_net::plan::Percentiles;

/// A clock that began with the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock(Instant::now())
    }

    /// The time of the world.
    pub(crate) fn now(&self) -> Time {
        Time(self.0.elapsed().as_nanos() as u64)
    }

    /// How long it is until `at`; zero if that has passed.
    pub(crate) fn until(&self, at: Time) -> Duration {
        Duration::from_nanos(at.0.saturating_sub(self.now().0))
    }
}

/// By how much packets left later than the world wanted them to.
#[derive(Clone, Debug)]
pub(crate) struct Lateness {
    all: Durations,
    largest: Span,
}

impl Default for Lateness {
    fn default() -> Lateness {
        Lateness { all: Durations::new(Percentiles::Sketch), largest: Span::ZERO }
    }
}

impl Lateness {
    pub(crate) fn add(&mut self, late: Span) {
        self.all.add(late);
        self.largest = self.largest.max(late);
    }

    /// Packets.
    pub(crate) fn count(&self) -> u64 {
        self.all.count()
    }

    /// The median, the 99th and the 99.9th percentile, in seconds; `None` without packets.
    pub(crate) fn percentiles_s(&self) -> [Option<f64>; 3] {
        let all = self.all.percentiles_seconds(&[50.0, 99.0, 99.9]);
        [all[0], all[1], all[2]]
    }

    /// The largest.
    pub(crate) fn largest(&self) -> Span {
        self.largest
    }
}
