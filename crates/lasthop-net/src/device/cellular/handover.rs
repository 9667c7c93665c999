//! Handovers of a user: when it goes to another cell, and what that does to what is under way (TS 36.300, section
//! 10.1.2).
//!
//! For a while the user hears nothing. HARQ and RLC start anew (TS 36.321, section 5.9; TS 36.322, section 5.4); which
//! packets PDCP sends again, and what becomes of those that wait, is decided in `bearer.rs`. What arrives during the
//! interruption waits at the new cell.

use lasthop_core::time::{Span, Time};

use crate::measure::Window;

/// When a user goes to another cell, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handovers {
    /// When each begins, in the order of time.
    pub at: Box<[Time]>,
    /// How long the user hears and sends nothing.
    pub interruption: Span,
    /// The old cell hands on to the new one what it has for the user; otherwise that is lost.
    pub forwarding: bool,
}

/// Those of one bearer that are still to come.
#[derive(Clone, Debug)]
pub(super) struct Journey {
    plan: Handovers,
    begun: usize,
}

impl Journey {
    pub(super) fn new(plan: &Handovers) -> Journey {
        Journey { plan: plan.clone(), begun: 0 }
    }

    /// When the next one begins.
    pub(super) fn next(&self) -> Time {
        self.plan.at.get(self.begun).copied().unwrap_or(Time::MAX)
    }

    /// One begins at `now`, or should have before: when it ends. `None` if it is over already.
    pub(super) fn begin(&mut self, now: Time) -> Option<Time> {
        let end = self.next() + self.plan.interruption;
        self.begun += 1;
        (end > now).then_some(end)
    }

    /// How many begin within `window`, whether or not there was something to send.
    pub(super) fn within(&self, window: &Window) -> u64 {
        self.plan.at.iter().filter(|&&at| window.contains(at)).count() as u64
    }

    /// Whether the old cell hands on what it has.
    pub(super) fn forwards(&self) -> bool {
        self.plan.forwarding
    }
}
