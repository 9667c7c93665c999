//! Between the network's time and the [`Instant`]s that many stacks want.

use std::time::{Duration, Instant};

use lasthop_core::time::Time;

/// Turns times of the network into [`Instant`]s and back.
///
/// An [`Instant`] cannot be made of a number, so a base is taken from the system once. Nothing depends on which it is
/// as long as all [`Instant`]s of a run come from one clock. It lies an hour ahead, so that stacks may subtract from
/// it.
///
/// ```
/// use lasthop::{Clock, Time};
/// let clock = Clock::new();
/// assert_eq!(clock.time(clock.instant(Time(7))), Time(7));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    base: Instant,
}

/// How far ahead the base lies.
const AHEAD: Duration = Duration::from_secs(3600);

impl Clock {
    /// A clock whose time 0 is an hour from now.
    #[expect(clippy::new_without_default, reason = "two clocks differ; a default would hide that")]
    pub fn new() -> Clock {
        Clock { base: Instant::now() + AHEAD }
    }

    /// The instant of a time.
    pub fn instant(&self, time: Time) -> Instant {
        self.base + Duration::from_nanos(time.0)
    }

    /// The time of an instant; 0 for those before the base.
    pub fn time(&self, instant: Instant) -> Time {
        let nanos = instant.saturating_duration_since(self.base).as_nanos();
        Time(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}
