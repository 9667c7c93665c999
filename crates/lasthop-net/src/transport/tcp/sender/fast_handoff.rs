//! Fast retransmission after a handoff (Caceres, Iftode, JSAC 13(5), 1995).
//!
//! *What it does.* When a handoff is complete, a sender on the mobile host retransmits its first unacknowledged
//! segment at once and resets the backoff of its timer; a receiver on the mobile host sends duplicate ACKs
//! (`mobile_receiver.rs`), so that the fixed sender does the same. Neither waits for a timeout.
//!
//! *Reacts to* `HandoffDone`, which a link's hosts get at the end of each outage.
//!
//! *Differs from the paper:* the window is reduced as the connection's own recovery engine does after duplicate ACKs;
//! `tahoe = true` gives 4.3BSD-Tahoe's window of one. The receiver sends four duplicates, so that a sender which does
//! not count the first one still counts three.
//!
//! *Validation:* TV-10.3; in simulation against the wait for the timeout (`tests/mobility.rs`).
//!
//! *Limitations:* channel errors are not handled. Duplicate ACKs carry no SACK blocks, so a fixed sender with SACK
//! does not count them (RFC 6675 §2); choose NewReno for a mobile receiver.
//!
//! *Kernel counterpart:* none.
//!
//! *References:* Caceres and Iftode (1995); RFC 5681 §3.2.

use lasthop_core::time::Time;

use super::Connection;
use super::recovery::RecoveryEngine;
use crate::transport::wire::Wire;

impl Connection {
    /// The handoff of this host is complete.
    pub(super) fn on_handoff<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        tahoe: bool,
        now: Time,
        wire: &mut W,
    ) {
        if self.una == 0 || self.una >= self.max_sent || self.is_frozen() {
            return;
        }
        self.rtt.end_backoff();
        if tahoe {
            self.start_over(engine, now, wire);
        } else {
            self.fast_retransmit_now(engine, true, now, wire);
        }
    }

    /// Fast retransmit of the segment at `una`, as if enough duplicate ACKs had come; `inflate`: each of which stood
    /// for a segment that has left the network.
    pub(super) fn fast_retransmit_now<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        inflate: bool,
        now: Time,
        wire: &mut W,
    ) {
        let sent = self.segments.at(self.una).map(|segment| segment.transmissions);
        engine.repair_first(self, inflate, now, wire);
        engine.fill(self, now, wire);
        if self.segments.at(self.una).map(|segment| segment.transmissions) == sent {
            // The window has answered a loss of these data already: only the segment is sent again.
            self.retransmit_una(engine, now, wire);
            self.set_timer(now, wire);
        }
    }

    /// 4.3BSD-Tahoe: half the flight is the threshold, and everything starts again with one segment.
    fn start_over<E: RecoveryEngine, W: Wire>(&mut self, engine: &mut E, now: Time, wire: &mut W) {
        let reduction = self.answer_loss(engine, now, wire);
        self.host.lower_ssthresh(reduction);
        self.count_recovery(now);
        self.host.window.cwnd = 1.0;
        self.inflation = 0;
        self.dup_acks = 0;
        self.host.recover = self.max_sent;
        self.timeout_recover = self.max_sent;
        self.start_again(engine, now, wire);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Rig;
    use crate::transport::profile::Profile;
    use crate::transport::tcp::config::{Recovery, TcpConfig};
    use crate::transport::tcp::mobility::{FastHandoff, Mobility};
    use lasthop_cc::{ControllerConfig, Signal, Window};

    /// W = 16, segments 11 to 20 outstanding, and a handoff ends.
    fn handoff(recovery: Recovery, tahoe: bool) -> (Rig, Vec<u64>) {
        let config = TcpConfig {
            limited_transmit: false,
            timestamps: false,
            delayed_ack: None,
            packet_size: 1040,
            mobility: Mobility {
                fast_handoff: Some(FastHandoff { tahoe, ..FastHandoff::default() }),
                ..Mobility::default()
            },
            ..TcpConfig::new(Profile::Rfc, ControllerConfig::by_name("reno").unwrap(), recovery)
        };
        let mut rig = Rig::new(&config).ten_outstanding();
        // Limited by the application: no more than ten segments are out.
        rig.sender.on_close(true, rig.now, &mut rig.tape);
        rig.sender.host.window = Window { cwnd: 16.0, ssthresh: 8.0 };
        rig.tape.sent.clear();
        rig.sender.on_signal(&Signal::HandoffDone, rig.now, &mut rig.tape);
        let sent = std::mem::take(&mut rig.tape.sent);
        (rig, sent)
    }

    /// TV-10.3.
    #[test]
    fn the_first_segment_is_sent_again_at_once() {
        let (rig, sent) = handoff(Recovery::NewReno, false);
        assert_eq!(sent[0], 11);
        assert_eq!(rig.window(), (8.0, 5.0), "T = W = 5, and 3");
        for recovery in [Recovery::NewReno, Recovery::Reno, Recovery::Sack, Recovery::Sack1, Recovery::Vegas]
        {
            let (rig, sent) = handoff(recovery, true);
            assert_eq!(sent, [11], "{recovery:?}");
            assert_eq!(rig.sender.host.window.cwnd, 1.0, "{recovery:?}");
            assert_eq!(handoff(recovery, false).1[0], 11, "{recovery:?}");
        }
        assert_eq!(handoff(Recovery::NewReno, true).0.window(), (1.0, 5.0));
        let (rig, sent) = handoff(Recovery::Tahoe, false);
        assert_eq!((sent, rig.window()), (vec![11], (1.0, 5.0)));
    }

    /// A second handoff within the window repeats the segment without a second cut.
    #[test]
    fn one_cut_for_one_window() {
        for recovery in [Recovery::NewReno, Recovery::Sack] {
            let (mut rig, _) = handoff(recovery, false);
            let before = rig.sender.host.window;
            rig.sender.on_signal(&Signal::HandoffDone, rig.now, &mut rig.tape);
            assert_eq!(rig.tape.sent.first(), Some(&11), "{recovery:?}");
            assert_eq!(rig.sender.host.window, before, "{recovery:?}");
        }
    }
}
