//! The timers of a sender: the retransmission timer (RFC 6298), and the alarms of those who need others. One wake-up
//! serves them all.

use lasthop_cc::CongestionControl;
use lasthop_core::time::Time;

use super::Connection;
use super::alarms::Alarm;
use super::recovery::RecoveryEngine;
use crate::transport::wire::Wire;

impl Connection {
    /// A wake-up. Timers are lazy: one that was moved is found here to lie ahead, and waits on.
    pub(super) fn on_timer<E: RecoveryEngine, W: Wire>(&mut self, engine: &mut E, now: Time, wire: &mut W) {
        if now < self.armed {
            // A wake-up that an earlier one made superfluous. One that comes late still counts.
            return;
        }
        self.armed = Time::MAX;
        if self.extended {
            self.ring_alarms(engine, now, wire);
        }
        if self.timer.is_some_and(|due| due <= now) {
            self.timer = None;
            if self.stats.completed.is_none() {
                self.time_out(engine, now, wire);
            }
        }
        let next = self.timer.unwrap_or(Time::MAX).min(self.alarms.earliest());
        if next < self.armed {
            self.arm(next, wire);
        }
    }

    /// Acts on every alarm that is due.
    pub(super) fn ring_alarms<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        now: Time,
        wire: &mut W,
    ) {
        for alarm in Alarm::ALL {
            if !self.alarms.take_due(alarm, now) || self.stats.completed.is_some() {
                continue;
            }
            match alarm {
                Alarm::Pace => engine.fill(self, now, wire),
                Alarm::Host => self.end_host_time(engine, now, wire),
                Alarm::Hold => engine.end_hold(self, now, wire),
                Alarm::Probe => self.restart_probing(now, wire),
                Alarm::Persist if !self.is_frozen() => self.persist(engine, now, wire),
                Alarm::Persist => self.probe_window(now, wire),
                Alarm::Reordering => engine.on_reordering_timer(self, now, wire),
                Alarm::TailProbe => engine.on_tail_probe_timer(self, now, wire),
            }
        }
    }

    /// (Re)starts the timer.
    #[inline]
    pub(super) fn set_timer<W: Wire>(&mut self, now: Time, wire: &mut W) {
        let mut due = now + self.rtt.timeout();
        if self.needs.timing {
            due += self.host.law().timer_extension();
        }
        self.timer = Some(due);
        if due < self.armed {
            self.arm(due, wire);
        }
    }

    /// Counts the timeout from when the first outstanding segment was sent last; it is due now if that is over.
    pub(super) fn count_timer_from_first<W: Wire>(&mut self, now: Time, wire: &mut W) {
        if let Some(sent) = self.segments.first().map(|first| first.last_sent) {
            let passed = now.since(sent).min(self.rtt.timeout());
            self.set_timer(now - passed, wire);
        }
    }

    /// After an ACK of new data: restart, or stop if nothing is outstanding. ns-2 lets it run even then.
    #[inline]
    pub(super) fn restart_timer<W: Wire>(&mut self, now: Time, wire: &mut W) {
        if self.una < self.max_sent || self.ns2 {
            self.set_timer(now, wire);
        } else {
            self.timer = None;
        }
    }

    /// Sets `alarm` to `at`, whatever it was set to.
    pub(super) fn set_alarm<W: Wire>(&mut self, alarm: Alarm, at: Time, wire: &mut W) {
        self.alarms.set(alarm, at);
        if at < self.armed {
            self.arm(at, wire);
        }
    }

    pub(super) fn arm<W: Wire>(&mut self, at: Time, wire: &mut W) {
        self.armed = at;
        wire.wake(at);
    }
}
