//! Timers of a sender beside the retransmission timer. Few senders use any; one wake-up serves them all.
//!
//! `timer.rs` rings them; each alarm belongs to the file that is named beside it.

use lasthop_core::time::Time;

/// What a sender waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alarm {
    /// The next paced transmission (`pacing.rs`).
    Pace,
    /// The host has taken its time (`processing.rs`).
    Host,
    /// A fast retransmission that is held back (`timing.rs`).
    Hold,
    /// A probe that has not been answered (`probing.rs`).
    Probe,
    /// The next window probe (`flow_control.rs`, and `persist.rs` for Freeze-TCP).
    Persist,
    /// Segments that others have overtaken are lost now (`recovery/rack.rs`).
    Reordering,
    /// The tail goes unanswered (`recovery/rack.rs`).
    TailProbe,
}

impl Alarm {
    /// In the order in which they ring.
    pub(super) const ALL: [Alarm; 7] = [
        Alarm::Pace,
        Alarm::Host,
        Alarm::Hold,
        Alarm::Probe,
        Alarm::Persist,
        Alarm::Reordering,
        Alarm::TailProbe,
    ];
}

/// When each alarm rings; `Time::MAX` for never.
#[derive(Clone, Debug)]
pub(super) struct Alarms {
    due: [Time; Alarm::ALL.len()],
}

impl Default for Alarms {
    fn default() -> Self {
        Alarms { due: [Time::MAX; Alarm::ALL.len()] }
    }
}

impl Alarms {
    /// When the next one rings.
    #[inline]
    pub(super) fn earliest(&self) -> Time {
        self.due.into_iter().min().unwrap_or(Time::MAX)
    }

    /// Whether `alarm` is set.
    pub(super) fn is_set(&self, alarm: Alarm) -> bool {
        self.due[alarm as usize] != Time::MAX
    }

    /// Sets `alarm` to `at`, whatever it was set to.
    pub(super) fn set(&mut self, alarm: Alarm, at: Time) {
        self.due[alarm as usize] = at;
    }

    /// Whether `alarm` rings by `now`; it is silent afterwards.
    pub(super) fn take_due(&mut self, alarm: Alarm, now: Time) -> bool {
        let due = self.due[alarm as usize] <= now;
        if due {
            self.cancel(alarm);
        }
        due
    }

    /// Silences `alarm`.
    pub(super) fn cancel(&mut self, alarm: Alarm) {
        self.due[alarm as usize] = Time::MAX;
    }
}
