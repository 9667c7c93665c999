//! Timers of a sender beside the retransmission timer. Few senders use any; one wake-up serves them all.
//!
//! `sender.rs` rings them; each alarm belongs to the file that is named beside it.

use lasthop_core::time::Time;

use super::sender::{TcpSender, Wire};

/// What a sender waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alarm {
    /// The next paced transmission (`pacing.rs`).
    Pace,
    /// A fast retransmission that is held back (`timing.rs`).
    Hold,
    /// A probe that has not been answered (`probing.rs`).
    Probe,
    /// The next window probe (`persist.rs`).
    Persist,
    /// Segments that others have overtaken are lost now (`recovery/rack.rs`).
    Reordering,
    /// The tail goes unanswered (`recovery/rack.rs`).
    TailProbe,
}

impl Alarm {
    const ALL: [Alarm; 6] =
        [Alarm::Pace, Alarm::Hold, Alarm::Probe, Alarm::Persist, Alarm::Reordering, Alarm::TailProbe];
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

    /// Silences `alarm`.
    pub(super) fn cancel(&mut self, alarm: Alarm) {
        self.due[alarm as usize] = Time::MAX;
    }
}

impl TcpSender {
    /// Sets `alarm` to `at`, whatever it was set to.
    pub(super) fn set_alarm<W: Wire>(&mut self, alarm: Alarm, at: Time, wire: &mut W) {
        self.alarms.due[alarm as usize] = at;
        if at < self.armed {
            self.arm(at, wire);
        }
    }

    /// Acts on every alarm that is due.
    pub(super) fn ring_alarms<W: Wire>(&mut self, now: Time, wire: &mut W) {
        for alarm in Alarm::ALL {
            if self.alarms.due[alarm as usize] > now {
                continue;
            }
            self.alarms.cancel(alarm);
            if self.stats.completed.is_some() {
                continue;
            }
            match alarm {
                Alarm::Pace => self.fill_window(now, wire),
                Alarm::Hold => self.end_hold(now, wire),
                Alarm::Probe => self.restart_probing(now, wire),
                Alarm::Persist => self.probe_window(now, wire),
                Alarm::Reordering => self.on_reordering_timer(now, wire),
                Alarm::TailProbe => self.on_probe_timer(now, wire),
            }
        }
    }
}
