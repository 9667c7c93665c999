//! Pacing: transmissions spread over time, for controllers that ask for it (`Needs::pacing`, `pacing_rate`).
//!
//! Every fill path of the recovery engines asks `held_back` (`send.rs`) before each segment; every transmission moves
//! the earliest time of the next one. There is no credit for time that has passed, so no burst follows a pause. Fast
//! retransmissions and limited transmit go out at once, as they are clocked by ACKs, but count.
//!
//! Linux paces trains (`trains.rs`). It does not pace the first ten segments, and what comes late brings the next
//! forward by as much, at most by half of its gap (`tcp_update_skb_after_send`).

use lasthop_core::time::{Span, Time};

/// No transmission is put off for longer, however low the rate: the rate may have risen meanwhile.
const LONGEST_GAP: Span = Span::from_secs(1);

/// When the next segment may leave.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    next: Time,
    /// By how much what leaves was late, less what the next has gained by that.
    late: Span,
    /// Segments sent, as far as they matter: the first ten.
    sent: u8,
}

/// Linux does not pace as many segments at the beginning of a connection.
const FREE: u8 = 10;

impl Pace {
    /// Nothing is sent before this.
    #[inline]
    pub(super) fn next(self) -> Time {
        self.next
    }

    /// As [`Pace::charge`], by Linux's rules.
    pub(super) fn charge_as_linux(&mut self, segments: f64, rate: f64, now: Time) {
        if self.sent < FREE {
            self.sent += 1;
            return;
        }
        if self.next <= now {
            self.late = now.since(self.next);
        }
        let gap = Span::from_seconds(segments / rate);
        let gained = self.late.min(Span(gap.0 / 2));
        self.late = Span(self.late.0 - gained.0);
        self.put_off(Span(gap.0 - gained.0), now);
    }

    /// This many segments, or a part of one, leave now at `rate` segments per second: the next waits for their
    /// share of a second.
    pub(super) fn charge(&mut self, segments: f64, rate: f64, now: Time) {
        self.put_off(Span::from_seconds(segments / rate), now);
    }

    fn put_off(&mut self, gap: Span, now: Time) {
        self.next = (self.next.max(now) + gap).min(now + LONGEST_GAP);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Rig;
    use super::*;
    use crate::transport::tcp::config::Recovery;

    /// A window that opens by many segments waits for the pace; the alarm then lets the rest go.
    #[test]
    fn every_engine_waits_for_the_pace() {
        for name in Recovery::NAMES {
            let recovery = Recovery::by_name(name).unwrap();
            let mut rig = Rig::rfc(recovery).ten_outstanding();
            rig.sender.extended = true;
            rig.sender.host.window.cwnd = 20.0;
            let due = rig.now + Span::from_millis(5);
            rig.sender.pace.next = due;
            assert_eq!(rig.ack(12), [0; 0], "{name}");
            assert_eq!(rig.ack(13), [0; 0], "{name}");
            assert_eq!(rig.sender.armed, due, "{name}");
            rig.sender.on_timer(due, &mut rig.tape);
            assert!(rig.tape.sent.starts_with(&[21, 22]), "{name}: {:?}", rig.tape.sent);
        }
    }

    #[test]
    fn a_sender_that_holds_sends_nothing() {
        let mut rig = Rig::rfc(Recovery::NewReno).ten_outstanding();
        rig.sender.extended = true;
        rig.sender.hold = true;
        assert_eq!(rig.ack(12), [0; 0]);
        rig.sender.hold = false;
        assert_eq!(rig.ack(13), [21, 22]);
    }
}
