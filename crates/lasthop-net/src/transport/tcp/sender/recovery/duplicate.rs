//! Tahoe, Reno and NewReno: losses are found by counting duplicate ACKs.
//!
//! The window is kept as cwnd plus an inflation that counts duplicate ACKs during fast recovery; NewReno's
//! deflation on partial ACKs takes from the inflation first. The sum is what RFC 6582 calls cwnd.

use lasthop_core::packet::Packet;
use lasthop_core::time::Time;

use super::super::probing::Trigger;
use super::super::{Action, Connection};
use super::RecoveryEngine;
use crate::transport::sack::SackBlocks;
use crate::transport::wire::Wire;

/// The three engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum DuplicateAcks {
    /// Slow start from the hole.
    Tahoe,
    /// Fast recovery until the first new ACK.
    Reno,
    /// Fast recovery that repairs one hole per round trip.
    NewReno,
}

impl RecoveryEngine for DuplicateAcks {
    /// Takes an ACK under Tahoe, Reno or NewReno.
    #[inline]
    fn on_ack<W: Wire>(
        &mut self,
        tcp: &mut Connection,
        packet: &Packet,
        _sack: Option<&SackBlocks>,
        now: Time,
        wire: &mut W,
    ) {
        let ack = packet.seq;
        if ack > tcp.una {
            let partial = *self == DuplicateAcks::NewReno
                && tcp.action == Action::DuplicateAcks
                && ack < tcp.host.recover;
            if partial {
                self.on_partial_ack(tcp, packet, now, wire);
            } else {
                self.on_new_ack(tcp, packet, now, wire);
            }
        } else if ack == tcp.una {
            // RFC 5681 §2: it is a duplicate only while data is outstanding. ns-2 counts it anyway.
            if !tcp.ns2 && tcp.una == tcp.max_sent {
                return;
            }
            self.on_duplicate_ack(tcp, now, wire);
        } else if !tcp.ns2 {
            return;
        }
        if *self == DuplicateAcks::Tahoe {
            if ack >= tcp.una {
                self.fill(tcp, now, wire);
            }
            return;
        }
        let repairs = if tcp.needs.timing {
            tcp.action == Action::DuplicateAcks
        } else {
            tcp.dup_acks >= tcp.dup_threshold
        };
        if tcp.dup_acks == 0 {
            self.fill(tcp, now, wire);
        } else if repairs {
            // ns-2's NewReno sends at most two segments per ACK during recovery.
            let burst = if tcp.ns2 && *self == DuplicateAcks::NewReno { 2 } else { u32::MAX };
            tcp.fill_window_burst(self, burst, now, wire);
        }
    }

    /// A fast retransmission that was held back is made after all.
    fn end_hold<W: Wire>(&mut self, tcp: &mut Connection, now: Time, wire: &mut W) {
        if tcp.action != Action::DuplicateAcks {
            self.on_third_duplicate(tcp, now, wire);
            self.fill(tcp, now, wire);
        }
    }

    /// Duplicates that were too few are enough now.
    fn reconsider<W: Wire>(&mut self, tcp: &mut Connection, now: Time, wire: &mut W) {
        if tcp.action != Action::DuplicateAcks && !tcp.holds_back(now, wire) {
            self.on_third_duplicate(tcp, now, wire);
            self.fill(tcp, now, wire);
        }
    }

    fn enter_recovery<W: Wire>(&mut self, tcp: &mut Connection, now: Time, wire: &mut W) {
        // Duplicates that came meanwhile stand for departures, as far as there were any.
        tcp.dup_acks = tcp.dup_acks.clamp(tcp.dup_threshold, tcp.flight().max(tcp.dup_threshold));
        self.on_third_duplicate(tcp, now, wire);
    }

    fn repair_first<W: Wire>(&mut self, tcp: &mut Connection, inflate: bool, now: Time, wire: &mut W) {
        tcp.dup_acks = tcp.dup_threshold;
        self.on_third_duplicate(tcp, now, wire);
        if !inflate {
            tcp.inflation = 0;
        }
    }

    fn counts_across_timeouts(&self, tcp: &Connection) -> bool {
        *self == DuplicateAcks::Tahoe && tcp.ns2
    }

    fn is_in_recovery(&self, tcp: &Connection) -> bool {
        tcp.answers_duplicates()
    }
}

impl DuplicateAcks {
    /// An ACK of new data that leaves no recovery behind.
    #[inline]
    fn on_new_ack<W: Wire>(&mut self, tcp: &mut Connection, packet: &Packet, now: Time, wire: &mut W) {
        let leaves_recovery = tcp.inflation > 0 && tcp.action == Action::DuplicateAcks;
        tcp.inflation = 0;
        tcp.first_partial = false;
        if tcp.action == Action::DuplicateAcks {
            tcp.action = Action::Exited;
        }
        // RFC 6582 §3.2: the ACK that ends recovery does not also grow the window; in ns-2 it does.
        tcp.accept_new_ack(self, packet, now, tcp.ns2 || !leaves_recovery, wire);
        if leaves_recovery && !tcp.ns2 && !tcp.needs.rate {
            let deflated = tcp.host.ceiling();
            tcp.host.window.cwnd = if *self == DuplicateAcks::NewReno {
                // RFC 6582 §3.2 step 3, option 1: no burst after a long recovery.
                let flight = (tcp.next - tcp.una) as f64 / f64::from(tcp.mss);
                deflated.min(flight.max(1.0) + 1.0)
            } else {
                deflated
            };
            if let Some(kept) = tcp.end_kept_window() {
                tcp.host.window = kept;
            }
        }
    }

    fn on_duplicate_ack<W: Wire>(&mut self, tcp: &mut Connection, now: Time, wire: &mut W) {
        tcp.dup_acks += 1;
        if tcp.needs.timing {
            self.on_duplicate_in_motion(tcp, now, wire);
        } else if tcp.dup_acks == tcp.dup_threshold {
            self.on_third_duplicate(tcp, now, wire);
        } else if tcp.dup_acks < tcp.dup_threshold {
            tcp.send_limited(self, now, wire);
        } else if tcp.action == Action::DuplicateAcks && *self != DuplicateAcks::Tahoe {
            tcp.inflation += 1;
        }
    }

    /// The same where the number that means a loss moves: it may rise from one duplicate to the next, and fall below
    /// those that are counted already. ns-2 compares for equality, so there a threshold that falls is missed.
    fn on_duplicate_in_motion<W: Wire>(&mut self, tcp: &mut Connection, now: Time, wire: &mut W) {
        if tcp.action == Action::DuplicateAcks {
            tcp.inflation += u32::from(*self != DuplicateAcks::Tahoe);
            return;
        }
        let threshold = tcp.threshold();
        let due = if tcp.ns2 { tcp.dup_acks == threshold } else { tcp.dup_acks >= threshold };
        if due && !tcp.holds_back(now, wire) {
            self.on_third_duplicate(tcp, now, wire);
        } else if due || tcp.dup_acks < threshold {
            tcp.send_limited(self, now, wire);
        }
    }

    /// Whether a third duplicate ACK means a loss that has not been answered yet.
    fn may_fast_retransmit(self, tcp: &Connection) -> bool {
        // Only the SYN has been acknowledged: there is no earlier window that duplicates could stem from.
        if tcp.una == 1 {
            return true;
        }
        if tcp.action == Action::Ecn && tcp.una <= tcp.host.recover {
            // A mark of this window has been answered already (RFC 3168 §6.1.2).
            return false;
        }
        match self {
            // 4.3BSD's Reno answers every third duplicate, but not those that its own go-back-N after a timeout
            // provokes.
            DuplicateAcks::Reno if !tcp.ns2 => tcp.una > tcp.timeout_recover,
            DuplicateAcks::Reno => tcp.una > tcp.host.recover || tcp.action == Action::DuplicateAcks,
            _ => tcp.una > tcp.host.recover,
        }
    }

    fn on_third_duplicate<W: Wire>(&mut self, tcp: &mut Connection, now: Time, wire: &mut W) {
        let tahoe = *self == DuplicateAcks::Tahoe;
        if self.may_fast_retransmit(tcp) {
            if tcp.extended && tcp.begins_probing(Trigger::DuplicateAcks, now, wire) {
                return;
            }
            let reduction = tcp.answer_loss(self, now, wire);
            tcp.host.recover = tcp.max_sent;
            tcp.action = Action::DuplicateAcks;
            if tahoe {
                tcp.host.lower_ssthresh(reduction);
                tcp.host.window.cwnd = 1.0;
            } else {
                tcp.reduce(reduction);
            }
            tcp.count_recovery(now);
        } else if tcp.ecn && tcp.action == Action::Ecn {
            // The window was already reduced for a mark in this window: repair the loss without a second cut.
            tcp.action = Action::DuplicateAcks;
            if tahoe {
                tcp.host.window.cwnd = 1.0;
            }
        } else {
            return;
        }
        tcp.timed = None;
        tcp.note_first_lost(now);
        tcp.set_timer(now, wire);
        if tahoe {
            tcp.next = tcp.una;
            // What limited transmit sent lies above `next` again: it is not in the flight that a reduction starts from.
            tcp.limited = 0;
            tcp.reduced = tcp.ecn;
            return;
        }
        tcp.retransmit_una(self, now, wire);
        // Each duplicate stands for a segment that has left the network.
        tcp.inflation = tcp.dup_acks;
    }

    /// NewReno: new data was acknowledged, but not all that was outstanding when recovery began.
    fn on_partial_ack<W: Wire>(&mut self, tcp: &mut Connection, packet: &Packet, now: Time, wire: &mut W) {
        // RFC 6582 §3.2, the impatient variant: only the first partial ACK restarts the timer.
        let restart = !tcp.first_partial;
        tcp.first_partial = true;
        if restart && tcp.ns2 {
            tcp.set_timer(now, wire);
        }
        let (acked, _) = tcp.advance(self, packet, now, !tcp.ns2);
        if tcp.ns2
            && let Some((end, _)) = tcp.timed
            && packet.seq >= end
        {
            // ns-2 ends the backoff but takes no sample from a partial ACK.
            tcp.timed = None;
            tcp.end_backoff(packet);
        }
        if restart && !tcp.ns2 {
            tcp.set_timer(now, wire);
        }
        tcp.note_first_lost(now);
        // The window falls by what left the network and rises by the segment that is sent again, unless less than a
        // segment was acknowledged (RFC 6582 section 3.2 step 3).
        if acked > 0 && tcp.inflation > acked {
            tcp.inflation -= acked - 1;
        } else if acked > 0 {
            tcp.host.window.cwnd -= f64::from(acked - tcp.inflation);
            tcp.inflation = 1;
        }
        tcp.host.window.cwnd = tcp.host.window.cwnd.max(1.0);
        tcp.retransmit_una(self, now, wire);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::tcp::config::Recovery;
    use crate::transport::tcp::sender::testing::Rig;

    /// TV-2.4: segments 11 and 13 of 11..=20 are lost.
    #[test]
    fn newreno_repairs_one_hole_per_round_trip() {
        let mut rig = Rig::rfc(Recovery::NewReno).ten_outstanding();
        assert_eq!(rig.ack(11), [0; 0]);
        assert_eq!(rig.ack(11), [0; 0]);
        assert_eq!(rig.ack(11), [11], "third duplicate");
        assert_eq!(rig.window(), (8.0, 5.0));
        let sent: Vec<Vec<u64>> = (4..=8).map(|_| rig.ack(11)).collect();
        assert_eq!(sent, [vec![], vec![], vec![21], vec![22], vec![23]]);
        assert_eq!(rig.window(), (13.0, 5.0));
        assert_eq!(rig.ack(13), [13, 24], "partial ACK");
        assert_eq!(rig.window(), (12.0, 5.0));
        let sent: Vec<Vec<u64>> = (0..3).map(|_| rig.ack(13)).collect();
        assert_eq!(sent, [vec![25], vec![26], vec![27]]);
        rig.ack(24);
        assert_eq!(rig.window(), (5.0, 5.0), "full ACK");
        assert_eq!(rig.sender.stats.fast_recoveries, 1);
    }

    /// RFC 6582 §3.2: a partial ACK of less than a segment neither deflates the window by one nor gives one back.
    #[test]
    fn a_partial_ack_may_lie_within_a_segment() {
        let mut rig = Rig::rfc(Recovery::NewReno).ten_outstanding();
        (1..=3).for_each(|_| drop(rig.ack(11)));
        assert_eq!(rig.window(), (8.0, 5.0));
        assert_eq!(rig.within(11, 400), [11], "what is left of it");
        assert_eq!(rig.window(), (8.0, 5.0));
        assert_eq!(rig.within(13, 400), [13]);
    }

    /// A law whose ssthresh lies above its window (Westwood: the loss was in the air) leaves recovery with its window.
    #[test]
    fn recovery_does_not_end_above_the_window_it_began_with() {
        for recovery in [Recovery::Reno, Recovery::NewReno] {
            let mut rig = Rig::rfc(recovery).ten_outstanding();
            (1..=3).for_each(|_| drop(rig.ack(11)));
            rig.sender.reduce(lasthop_cc::Reduction::to(40.0, 10.0));
            (4..=8).for_each(|_| drop(rig.ack(11)));
            // Everything that W = 18 let out.
            rig.ack(29);
            assert!(rig.window().0 <= 10.0, "{recovery:?}: {:?}", rig.window());
        }
    }

    /// TV-2.2: the same losses under Reno.
    #[test]
    fn reno_halves_again_for_the_second_hole() {
        let mut rig = Rig::rfc(Recovery::Reno).ten_outstanding();
        (1..=8).for_each(|_| drop(rig.ack(11)));
        assert_eq!(rig.ack(13), [0; 0], "stalled with a flight of 11");
        assert_eq!(rig.window(), (5.0, 5.0));
        rig.ack(13);
        rig.ack(13);
        assert_eq!(rig.ack(13), [13]);
        assert_eq!(rig.window(), (8.5, 5.5), "T = F/2 = 5.5, inflated by 3");
        assert_eq!(rig.sender.stats.fast_recoveries, 2);
    }

    /// TV-2.1: the same losses under Tahoe.
    #[test]
    fn tahoe_starts_again_from_the_hole() {
        let mut rig = Rig::rfc(Recovery::Tahoe).ten_outstanding();
        rig.ack(11);
        rig.ack(11);
        assert_eq!(rig.ack(11), [11]);
        assert_eq!(rig.window(), (1.0, 5.0));
        assert_eq!((4..=8).flat_map(|_| rig.ack(11)).count(), 0, "no inflation");
        assert_eq!(rig.ack(13), [13, 14]);
        assert_eq!(rig.window(), (2.0, 5.0));
    }

    /// TV-2.8: limited transmit sends two new segments, which do not count when halving.
    #[test]
    fn limited_transmit() {
        let mut rig = Rig::rfc(Recovery::NewReno).ten_outstanding();
        rig.sender.limited_transmit = true;
        for number in 12..=17 {
            rig.sender.host.window = lasthop_cc::Window { cwnd: 4.0, ssthresh: 2.0 };
            rig.ack(number);
        }
        assert_eq!(rig.sender.flight(), 4);
        assert_eq!(rig.ack(17), [21]);
        assert_eq!(rig.ack(17), [22]);
        assert_eq!(rig.ack(17), [17]);
        assert_eq!(rig.window(), (5.0, 2.0));
    }

    /// What limited transmit sent before Tahoe went back is not taken from the flight after it.
    #[test]
    fn flight_after_limited_transmit_and_going_back() {
        let mut rig = Rig::rfc(Recovery::Tahoe).ten_outstanding();
        rig.sender.limited_transmit = true;
        assert_eq!((0..3).flat_map(|_| rig.ack(11)).collect::<Vec<_>>(), [21, 22, 11]);
        assert_eq!(rig.window(), (1.0, 5.0), "half of the ten");
        assert_eq!(rig.sender.loss_sample(&DuplicateAcks::Tahoe, rig.now).flight, 1.0, "segment 11 alone");
    }

    /// RFC 5681 §3.1: ssthresh falls at the first timeout only, and the timer backs off.
    #[test]
    fn repeated_timeouts_hold_ssthresh() {
        let mut rig = Rig::rfc(Recovery::NewReno).ten_outstanding();
        assert_eq!(rig.time_out(), [11]);
        assert_eq!(rig.window(), (1.0, 5.0));
        let first = rig.now;
        assert_eq!(rig.time_out(), [11]);
        assert_eq!(rig.window(), (1.0, 5.0));
        let second = rig.now;
        rig.time_out();
        assert_eq!(rig.now.since(second).0, 2 * second.since(first).0);
    }

    /// Hazard 12: duplicates of what go-back-N sends again are no new loss.
    #[test]
    fn go_back_n_does_not_trigger_fast_retransmit() {
        for recovery in [Recovery::Tahoe, Recovery::Reno, Recovery::NewReno] {
            let mut rig = Rig::rfc(recovery).ten_outstanding();
            rig.time_out();
            rig.ack(15);
            (0..5).for_each(|_| drop(rig.ack(15)));
            assert_eq!(rig.sender.stats.fast_recoveries, 0, "{recovery:?}");
        }
    }

    #[test]
    fn segment_numbers_match_bytes() {
        let rig = Rig::rfc(Recovery::Reno).ten_outstanding();
        assert_eq!(rig.sender.flight(), 10);
    }
}
