//! Pacing: transmissions spread over time, for controllers that ask for it (`Needs::pacing`, `pacing_rate`).
//!
//! Every fill path of the recovery engines asks [`TcpSender::held_back`] before each segment; every transmission moves
//! the earliest time of the next one. There is no credit for time that has passed, so no burst follows a pause. Fast
//! retransmissions and limited transmit go out at once, as they are clocked by ACKs, but count.

use lasthop_cc::CongestionControl;
use lasthop_core::time::{Span, Time};

use super::alarms::Alarm;
use super::sender::{TcpSender, Wire};

/// No transmission is put off for longer, however low the rate: the rate may have risen meanwhile.
const LONGEST_GAP: Span = Span::from_secs(1);

impl TcpSender {
    /// Whether nothing may be sent just now. If it is the pace that forbids it, the alarm rings when the next segment
    /// is due.
    pub(super) fn held_back<W: Wire>(&mut self, now: Time, wire: &mut W) -> bool {
        if self.hold || self.waits_for_timer || self.is_probing() {
            return true;
        }
        if self.paced_until <= now {
            return false;
        }
        // The law, not the application, limits the sender.
        self.window_limited = true;
        if !self.alarms.is_set(Alarm::Pace) {
            self.set_alarm(Alarm::Pace, self.paced_until, wire);
        }
        true
    }

    /// A segment with `payload` bytes leaves now: the next one waits for its share of a second.
    pub(super) fn charge_pace(&mut self, payload: u16, now: Time) {
        let Some(rate) = self.controller.pacing_rate() else { return };
        let segments = f64::from(payload) / f64::from(self.mss);
        let due = self.paced_until.max(now) + Span::from_seconds(segments / rate);
        self.paced_until = due.min(now + LONGEST_GAP);
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::Recovery;
    use super::super::sender::testing::Rig;
    use super::*;

    /// A window that opens by many segments waits for the pace; the alarm then lets the rest go.
    #[test]
    fn every_engine_waits_for_the_pace() {
        for name in Recovery::NAMES {
            let recovery = Recovery::by_name(name).unwrap();
            let mut rig = Rig::rfc(recovery).ten_outstanding();
            rig.sender.extended = true;
            rig.sender.window.cwnd = 20.0;
            let due = rig.now + Span::from_millis(5);
            rig.sender.paced_until = due;
            assert_eq!(rig.ack(12), [0; 0], "{name}");
            assert_eq!(rig.ack(13), [0; 0], "{name}");
            assert_eq!(rig.sender.armed, due, "{name}");
            rig.sender.on_timer(due, &mut rig.tape);
            assert!(rig.tape.sent.starts_with(&[21, 22]), "{name}: {:?}", rig.tape.sent);
        }
    }

    #[test]
    fn whoever_holds_sends_nothing() {
        let mut rig = Rig::rfc(Recovery::NewReno).ten_outstanding();
        rig.sender.extended = true;
        rig.sender.hold = true;
        assert_eq!(rig.ack(12), [0; 0]);
        rig.sender.hold = false;
        assert_eq!(rig.ack(13), [21, 22]);
    }
}
