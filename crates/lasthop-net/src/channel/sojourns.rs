//! A process that is in a good and in a bad state by turns, for times of exponential length.
//!
//! The sojourns follow one another whatever is asked about them, so that the channel is the same for every sender
//! over it. `two_state.rs` and `gilbert_elliott.rs` look at it.

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

/// The process.
#[derive(Clone, Debug)]
pub(super) struct Sojourns {
    stream: Stream,
    /// Mean lengths in nanoseconds: good, bad.
    means: [f64; 2],
    bad: bool,
    /// The end of the present sojourn.
    until: Time,
}

impl Sojourns {
    /// At time zero, in a state drawn by how long either lasts, or in the good one.
    pub(super) fn new(good: Span, bad: Span, stationary: bool, mut stream: Stream) -> Sojourns {
        let means = [good.0 as f64, bad.0 as f64];
        let starts_bad = stationary && stream.uniform() < means[1] / (means[0] + means[1]);
        let mut sojourns = Sojourns { stream, means, bad: starts_bad, until: Time::ZERO };
        sojourns.until = Time::ZERO + sojourns.length();
        sojourns
    }

    /// The share of time that is bad in the long run.
    pub(super) fn bad_share(&self) -> f64 {
        self.means[1] / (self.means[0] + self.means[1])
    }

    /// Probability that a good state goes on for `length`.
    pub(super) fn stays_good(&self, length: Span) -> f64 {
        libm::exp(-(length.0 as f64) / self.means[0])
    }

    /// How long the present state lasts; it has no memory.
    fn length(&mut self) -> Span {
        // A nanosecond at least, so that time goes on.
        Span(self.stream.exponential(self.means[usize::from(self.bad)]).max(1.0) as u64)
    }

    fn turn(&mut self) {
        self.bad = !self.bad;
        let length = self.length();
        self.until += length;
    }

    /// Whether the state is bad at `at`. Times must not run backwards.
    pub(super) fn is_bad_at(&mut self, at: Time) -> bool {
        while self.until <= at {
            self.turn();
        }
        self.bad
    }

    /// Hands the parts of `[start, end)` to `visit`, each with its state, and the instant `start` if there is no more
    /// of it. Starts must not run backwards, and an interval starts where the one before it ended or later.
    pub(super) fn walk(&mut self, start: Time, end: Time, mut visit: impl FnMut(bool, Span)) {
        let mut bad = self.is_bad_at(start);
        let mut at = start;
        while self.until < end {
            visit(bad, self.until.since(at));
            at = self.until;
            self.turn();
            bad = self.bad;
        }
        visit(bad, end.since(at));
    }
}
