//! Tahoe, Reno and NewReno: losses are found by counting duplicate ACKs.
//!
//! The window is kept as cwnd plus an inflation that counts duplicate ACKs during fast recovery; NewReno's
//! deflation on partial ACKs takes from the inflation first. The sum is what RFC 6582 calls cwnd.

use lasthop_core::packet::Packet;
use lasthop_core::time::Time;

use super::super::probing::Trigger;
use super::super::sender::{Action, Engine, TcpSender, Wire};

impl TcpSender {
    /// Takes an ACK under Tahoe, Reno or NewReno.
    #[inline]
    pub(in super::super) fn duplicate_on_ack<W: Wire>(&mut self, packet: &Packet, now: Time, wire: &mut W) {
        let ack = packet.seq;
        if ack > self.una {
            let partial = matches!(self.engine, Engine::NewReno)
                && self.action == Action::DuplicateAcks
                && ack < self.recover;
            if partial {
                self.on_partial_ack(packet, now, wire);
            } else {
                self.on_new_ack(packet, now, wire);
            }
        } else if ack == self.una {
            // RFC 5681 §2: it is a duplicate only while data is outstanding. ns-2 counts it anyway.
            if !self.ns2 && self.una == self.max_sent {
                return;
            }
            self.on_duplicate_ack(now, wire);
        } else if !self.ns2 {
            return;
        }
        if matches!(self.engine, Engine::Tahoe) {
            if ack >= self.una {
                self.fill_window(now, wire);
            }
            return;
        }
        let repairs = if self.needs.timing {
            self.action == Action::DuplicateAcks
        } else {
            self.dup_acks >= self.dup_threshold
        };
        if self.dup_acks == 0 {
            self.fill_window(now, wire);
        } else if repairs {
            // ns-2's NewReno sends at most two segments per ACK during recovery.
            let burst = if self.ns2 && matches!(self.engine, Engine::NewReno) { 2 } else { u32::MAX };
            self.fill_window_burst(burst, now, wire);
        }
    }

    /// An ACK of new data that leaves no recovery behind.
    #[inline]
    fn on_new_ack<W: Wire>(&mut self, packet: &Packet, now: Time, wire: &mut W) {
        let leaves_recovery = self.inflation > 0 && self.action == Action::DuplicateAcks;
        self.inflation = 0;
        self.first_partial = false;
        if self.action == Action::DuplicateAcks {
            self.action = Action::Exited;
        }
        // RFC 6582 §3.2: the ACK that ends recovery does not also grow the window; in ns-2 it does.
        self.accept_new_ack(packet, now, self.ns2 || !leaves_recovery, wire);
        if leaves_recovery && !self.ns2 && !self.needs.rate {
            let deflated = self.window.ssthresh.min(self.reduced_to);
            self.window.cwnd = if matches!(self.engine, Engine::NewReno) {
                // RFC 6582 §3.2 step 3, option 1: no burst after a long recovery.
                let flight = (self.next - self.una) as f64 / f64::from(self.mss);
                deflated.min(flight.max(1.0) + 1.0)
            } else {
                deflated
            };
            if let Some(kept) = self.end_kept_window() {
                self.window = kept;
            }
        }
    }

    fn on_duplicate_ack<W: Wire>(&mut self, now: Time, wire: &mut W) {
        self.dup_acks += 1;
        if self.needs.timing {
            self.on_duplicate_in_motion(now, wire);
        } else if self.dup_acks == self.dup_threshold {
            self.on_third_duplicate(now, wire);
        } else if self.dup_acks < self.dup_threshold {
            self.send_limited(now, wire);
        } else if self.action == Action::DuplicateAcks && !matches!(self.engine, Engine::Tahoe) {
            self.inflation += 1;
        }
    }

    /// The same where the number that means a loss moves: it may rise from one duplicate to the next, and fall below
    /// those that are counted already. ns-2 compares for equality, so there a threshold that falls is missed.
    fn on_duplicate_in_motion<W: Wire>(&mut self, now: Time, wire: &mut W) {
        if self.action == Action::DuplicateAcks {
            self.inflation += u32::from(!matches!(self.engine, Engine::Tahoe));
            return;
        }
        let threshold = self.threshold();
        let due = if self.ns2 { self.dup_acks == threshold } else { self.dup_acks >= threshold };
        if due && !self.holds_back(now, wire) {
            self.on_third_duplicate(now, wire);
        } else if due || self.dup_acks < threshold {
            self.send_limited(now, wire);
        }
    }

    /// A fast retransmission that was held back is made after all.
    pub(in super::super) fn duplicate_end_hold<W: Wire>(&mut self, now: Time, wire: &mut W) {
        if self.action != Action::DuplicateAcks {
            self.on_third_duplicate(now, wire);
            self.fill_window(now, wire);
        }
    }

    /// Duplicates that were too few are enough now.
    pub(in super::super) fn duplicate_reconsider<W: Wire>(&mut self, now: Time, wire: &mut W) {
        if self.action != Action::DuplicateAcks && !self.holds_back(now, wire) {
            self.on_third_duplicate(now, wire);
            self.fill_window(now, wire);
        }
    }

    /// Whether a third duplicate ACK means a loss that has not been answered yet.
    fn may_fast_retransmit(&self) -> bool {
        // Only the SYN has been acknowledged: there is no earlier window that duplicates could stem from.
        if self.una == 1 {
            return true;
        }
        if self.action == Action::Ecn && self.una <= self.recover {
            // A mark of this window has been answered already (RFC 3168 §6.1.2).
            return false;
        }
        match self.engine {
            // 4.3BSD's Reno answers every third duplicate, but not those that its own go-back-N after a timeout
            // provokes.
            Engine::Reno if !self.ns2 => self.una > self.timeout_recover,
            Engine::Reno => self.una > self.recover || self.action == Action::DuplicateAcks,
            _ => self.una > self.recover,
        }
    }

    pub(in super::super) fn on_third_duplicate<W: Wire>(&mut self, now: Time, wire: &mut W) {
        let tahoe = matches!(self.engine, Engine::Tahoe);
        if self.may_fast_retransmit() {
            if self.extended && self.begins_probing(Trigger::DuplicateAcks, now, wire) {
                return;
            }
            let reduction = self.answer_loss(now, wire);
            self.recover = self.max_sent;
            self.action = Action::DuplicateAcks;
            if tahoe {
                self.lower_ssthresh(reduction);
                self.window.cwnd = 1.0;
            } else {
                self.reduce(reduction);
            }
            self.count_recovery(now);
        } else if self.ecn && self.action == Action::Ecn {
            // The window was already reduced for a mark in this window: repair the loss without a second cut.
            self.action = Action::DuplicateAcks;
            if tahoe {
                self.window.cwnd = 1.0;
            }
        } else {
            return;
        }
        self.timed = None;
        if let Some(sampler) = &mut self.sampler {
            sampler.on_lost(1);
        }
        self.set_timer(now, wire);
        if tahoe {
            self.next = self.una;
            // What limited transmit sent lies above `next` again: it is not in the flight that a reduction starts from.
            self.limited = 0;
            self.reduced = self.ecn;
            return;
        }
        self.retransmit_una(now, wire);
        // Each duplicate stands for a segment that has left the network.
        self.inflation = self.dup_acks;
    }

    /// NewReno: new data was acknowledged, but not all that was outstanding when recovery began.
    fn on_partial_ack<W: Wire>(&mut self, packet: &Packet, now: Time, wire: &mut W) {
        // RFC 6582 §3.2, the impatient variant: only the first partial ACK restarts the timer.
        let restart = !self.first_partial;
        self.first_partial = true;
        if restart && self.ns2 {
            self.set_timer(now, wire);
        }
        let (acked, _) = self.advance(packet, now, !self.ns2);
        if self.ns2
            && let Some((end, _)) = self.timed
            && packet.seq >= end
        {
            // ns-2 ends the backoff but takes no sample from a partial ACK.
            self.timed = None;
            self.rtt.end_backoff();
        }
        if restart && !self.ns2 {
            self.set_timer(now, wire);
        }
        if let Some(sampler) = &mut self.sampler {
            sampler.on_lost(1);
        }
        // The window falls by what left the network and rises by the segment that is sent again.
        if self.inflation > acked {
            self.inflation -= acked - 1;
        } else {
            self.window.cwnd = (self.window.cwnd - f64::from(acked - self.inflation)).max(1.0);
            self.inflation = 1;
        }
        self.retransmit_una(now, wire);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::config::Recovery;
    use super::super::super::sender::testing::Rig;

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
            rig.sender.window = lasthop_cc::Window { cwnd: 4.0, ssthresh: 2.0 };
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
        assert_eq!(rig.sender.loss_sample(rig.now).flight, 1.0, "segment 11 alone");
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
