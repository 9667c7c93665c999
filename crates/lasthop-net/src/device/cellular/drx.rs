//! Discontinuous reception: when a user that sleeps to spare its battery listens (TS 36.321 and TS 38.321, section
//! 5.7). The downlink of a cell asks it before it sends something new; the uplink tells it when its user was awake.
//!
//! A user listens for `on` at the start of each `cycle`, for `inactivity` after a TTI with something new for it or from
//! it, and from a request for room in the uplink until that is granted. HARQ repeats when it would without DRX: the
//! user knows when that is, and listens.
//!
//! What is told of a TTI counts from the next one on: both directions serve a TTI at the same time, and neither may
//! depend on which of them does so first.

use lasthop_core::time::{Span, Time};

/// How the users of a cell sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drx {
    /// From the start of one on-duration to the next, in TTIs.
    pub cycle: u64,
    /// Length of an on-duration, in TTIs; shorter than the cycle.
    pub on: u64,
    /// How long a user listens after a TTI with something new, in TTIs.
    pub inactivity: u64,
}

/// When one user listens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sleeper {
    drx: Drx,
    tti: Span,
    /// The TTI, by its number, with which the first on-duration begins.
    offset: u64,
    /// When something new was sent last, and when last before that.
    last: Option<Time>,
    before: Option<Time>,
    /// The last request, and when it is granted.
    asks: Option<(Time, Time)>,
}

impl Sleeper {
    /// User `index` of `users`, whose on-durations are spread over the cycle.
    pub(super) fn new(drx: Drx, tti: Span, (index, users): (u64, u64)) -> Sleeper {
        let offset = (u128::from(drx.cycle) * u128::from(index) / u128::from(users)) as u64;
        Sleeper { drx, tti, offset, last: None, before: None, asks: None }
    }

    /// Something new was sent at `at`.
    pub(super) fn note_activity(&mut self, at: Time) {
        if self.last.is_none_or(|last| at > last) {
            (self.before, self.last) = (self.last, Some(at));
        }
    }

    /// At `now` it decides to ask at `at`, which is later, and will be granted room at `granted`. One that had asked
    /// before and waits still keeps listening.
    pub(super) fn note_request(&mut self, now: Time, at: Time, granted: Time) {
        let pending = self.asks.filter(|&(_, until)| until >= now);
        self.asks = Some((pending.map_or(at, |(from, _)| from), granted));
    }

    /// The first TTI from the one at `tti` on in which it listens.
    pub(super) fn listens_from(&self, tti: Time) -> Time {
        let number = tti.0 / self.tti.0;
        let phase = (number + self.drx.cycle - self.offset) % self.drx.cycle;
        if phase < self.drx.on || self.is_kept_awake(tti) {
            return tti;
        }
        let duration = Time((number + self.drx.cycle - phase) * self.tti.0);
        match self.asks {
            Some((from, _)) if from > tti => duration.min(Time(from.0.div_ceil(self.tti.0) * self.tti.0)),
            _ => duration,
        }
    }

    /// Whether it listens in the TTI at `tti`, beside its on-durations.
    fn is_kept_awake(&self, tti: Time) -> bool {
        let activity = if self.last.is_some_and(|last| last < tti) { self.last } else { self.before };
        let linger = Span(self.drx.inactivity * self.tti.0);
        activity.is_some_and(|at| tti <= at + linger)
            || self.asks.is_some_and(|(from, until)| (from..=until).contains(&tti))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Span = Span::from_millis(1);

    fn at(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    /// A cycle of 40 TTIs, of which 10 are on, and 5 after activity.
    fn sleeper(index: u64) -> Sleeper {
        Sleeper::new(Drx { cycle: 40, on: 10, inactivity: 5 }, MS, (index, 2))
    }

    #[test]
    fn it_listens_at_the_start_of_each_cycle() {
        let first = sleeper(0);
        assert_eq!([0, 9, 10, 39, 40].map(|ms| first.listens_from(at(ms))), [0, 9, 40, 40, 40].map(at));
        // The second of two users half a cycle later.
        let second = sleeper(1);
        assert_eq!([0, 20, 29, 30].map(|ms| second.listens_from(at(ms))), [20, 20, 29, 60].map(at));
    }

    #[test]
    fn it_lingers_after_activity() {
        let mut user = sleeper(0);
        user.note_activity(at(9));
        assert_eq!([10, 14, 15].map(|ms| user.listens_from(at(ms))), [10, 14, 40].map(at));
        user.note_activity(at(12));
        assert_eq!([15, 17, 18].map(|ms| user.listens_from(at(ms))), [15, 17, 40].map(at));
    }

    /// Both directions serve the TTI at 20 ms: that the uplink sends then does not wake the downlink before 21 ms.
    #[test]
    fn what_happens_in_a_tti_counts_from_the_next() {
        let mut user = sleeper(0);
        user.note_activity(at(20));
        assert_eq!([20, 21, 25, 26].map(|ms| user.listens_from(at(ms))), [40, 21, 25, 40].map(at));
    }

    #[test]
    fn it_listens_while_it_asks_for_room() {
        let mut user = sleeper(0);
        user.note_request(Time(12_500_000), at(20), at(24));
        assert_eq!([13, 20, 24, 25].map(|ms| user.listens_from(at(ms))), [20, 20, 24, 40].map(at));
        // One more before the grant does not let it sleep meanwhile.
        user.note_request(at(23), at(30), at(34));
        assert_eq!([23, 27, 34, 35].map(|ms| user.listens_from(at(ms))), [23, 27, 34, 40].map(at));
    }
}
