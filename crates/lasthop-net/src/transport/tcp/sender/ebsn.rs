//! EBSN: explicit bad state notification (Bakshi, Krishna, Vaidya, Pradhan, ICDCS 1997).
//!
//! *What it does.* A base station that retransmits frames over a bad link notifies the source, and the source restarts
//! its retransmission timer: the packet is late, not lost.
//!
//! *Reacts to* notices of a bad state (`Kind::BadState`, 56 B), which links with `arq = { ebsn = true }` send after a
//! failed attempt. Only the expiry of the timer changes: not its length, cwnd, ssthresh, srtt or the count of
//! duplicates.
//!
//! *Differs from the paper:* one notice per timeout of the link and flow instead of one per failure (`gap = "0 s"`
//! gives the paper's). Notices go only to senders that understand them: a base station does not send unauthenticated
//! messages to hosts that did not ask for them. A notice does not restart the timer while duplicate ACKs show a hole.
//! The paper's source has a small window and then sends little. With a large window every duplicate releases a
//! segment, whose failures would postpone the timer for the whole window, and only that timer can repair a
//! retransmission that is lost again.
//!
//! *Validation:* TV-10.2 and NV-5.3; in simulation over a persistent link (`tests/arq.rs`).
//!
//! *Limitations:* a notice says nothing about a loss, so it does not keep duplicate ACKs from triggering a fast
//! retransmission. Ignored while the window is closed.
//!
//! *Kernel counterpart:* none; it needs a new ICMP type.
//!
//! *References:* Bakshi et al. (1997).

use lasthop_core::time::Time;

use super::Connection;
use crate::transport::wire::Wire;

impl Connection {
    /// The base station could not deliver a packet just now.
    pub(super) fn on_bad_state<W: Wire>(&mut self, now: Time, wire: &mut W) {
        let shows_hole = self.answers_duplicates() || self.dup_acks >= self.threshold();
        if self.una < self.max_sent && self.timer.is_some() && !self.is_frozen() && !shows_hole {
            self.set_timer(now, wire);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Rig;
    use crate::transport::profile::Profile;
    use crate::transport::tcp::config::{Recovery, TcpConfig};
    use crate::transport::tcp::mobility::Mobility;
    use lasthop_cc::ControllerConfig;
    use lasthop_core::packet::{Kind, Note, Packet};
    use lasthop_core::time::{Span, Time};

    fn millis(value: u64) -> Time {
        Time::ZERO + Span::from_millis(value)
    }

    /// A sender whose timer of `rto_ms` was armed at `armed_ms`; notices reach it at these times.
    fn due_after(rto_ms: u64, armed_ms: u64, notices: &[u64]) -> Vec<Time> {
        let mut config = TcpConfig {
            timestamps: false,
            delayed_ack: None,
            mobility: Mobility { ebsn: true, ..Mobility::default() },
            ..TcpConfig::new(Profile::Rfc, ControllerConfig::by_name("reno").unwrap(), Recovery::NewReno)
        };
        config.rto.min = Span::from_millis(rto_ms);
        config.rto.initial = Span::from_millis(rto_ms);
        let mut rig = Rig::new(&config);
        rig.sender.on_data(None, rig.now, &mut rig.tape);
        rig.ack(1);
        rig.sender.set_timer(millis(armed_ms), &mut rig.tape);
        let before = (rig.sender.host.window, rig.sender.dup_acks, rig.sender.rtt.timeout());
        let due = notices.iter().map(|&at| {
            let notice = Packet { kind: Kind::BadState, note: Note::BACK, ..Packet::default() };
            rig.sender.on_ack(&notice, None, millis(at), &mut rig.tape);
            rig.sender.timer.unwrap()
        });
        let due = due.collect();
        assert_eq!((rig.sender.host.window, rig.sender.dup_acks, rig.sender.rtt.timeout()), before);
        due
    }

    /// TV-10.2.
    #[test]
    fn a_notice_restarts_the_timer() {
        assert_eq!(due_after(500, 1000, &[1300, 1700]), [millis(1800), millis(2200)]);
    }

    /// The packet in the hole is lost, not late: what the link says of others does not concern it.
    #[test]
    fn a_hole_that_duplicates_show_is_not_postponed() {
        let config = TcpConfig {
            timestamps: false,
            packet_size: 1040,
            mobility: Mobility { ebsn: true, ..Mobility::default() },
            ..TcpConfig::new(Profile::Rfc, ControllerConfig::by_name("reno").unwrap(), Recovery::NewReno)
        };
        let mut rig = Rig::new(&config).ten_outstanding();
        for _ in 0..3 {
            rig.ack(11);
        }
        let before = rig.sender.timer.unwrap();
        let notice = Packet { kind: Kind::BadState, note: Note::BACK, ..Packet::default() };
        let later = rig.now + Span::from_millis(100);
        rig.sender.on_ack(&notice, None, later, &mut rig.tape);
        assert_eq!(rig.sender.timer.unwrap(), before);
    }

    /// NV-5.3.
    #[test]
    fn the_last_notice_counts() {
        assert_eq!(due_after(1000, 0, &[320, 620, 920]).last(), Some(&millis(1920)));
    }
}
