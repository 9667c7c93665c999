//! ns-2's `Sack1`: the pipe counter of Fall & Floyd, CCR 26(3), 1996.
//!
//! `pipe` is a counter that ACKs lower and transmissions raise; what is lost is not taken out of it. A
//! duplicate ACK counts only if it brings SACK news. The scoreboard is forgotten after a timeout and at the
//! end of recovery, and a lost retransmission therefore costs a timeout.

use lasthop_core::packet::Packet;
use lasthop_core::time::Time;

use super::super::probing::Trigger;
use super::super::{Action, Connection};
use super::RecoveryEngine;
use crate::transport::sack::SackBlocks;
use crate::transport::tcp::segments::{Ranges, Segment};
use crate::transport::wire::Wire;

/// State of the engine.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Sack1 {
    sacked: Ranges,
    /// Holes below this have been filled or sent again.
    repaired_to: u64,
    /// Cumulative ACK up to which the scoreboard has been trimmed.
    trimmed_to: u64,
    /// Cumulative ACK when recovery began; outside recovery `una`.
    last_ack: u64,
    pipe: i64,
    in_recovery: bool,
    /// Since a timeout: duplicate ACKs say nothing until new data is acknowledged.
    timed_out: bool,
}

impl Sack1 {
    fn clear(&mut self) {
        self.sacked.clear();
        self.repaired_to = 0;
    }

    /// Merges the blocks; returns whether they or the cumulative ACK brought news.
    fn merge(&mut self, una: u64, sack: Option<&SackBlocks>) -> bool {
        let mut news = false;
        if self.trimmed_to < una {
            self.trimmed_to = una;
            news = !self.sacked.is_empty();
            self.sacked.remove_below(una);
        }
        for &(start, end) in sack.map_or(&[][..], SackBlocks::as_slice) {
            news |= self.sacked.insert(start, end);
        }
        news
    }

    /// First byte of the lowest hole with SACKed data above it that has not been sent again.
    fn next_hole(&mut self) -> Option<u64> {
        let position = self.repaired_to.max(self.trimmed_to);
        self.repaired_to = position;
        let mut above = self.sacked.from(position);
        let (start, end) = above.next()?;
        if start > position {
            return Some(position);
        }
        above.next()?;
        self.repaired_to = end;
        Some(end)
    }
}

impl RecoveryEngine for Sack1 {
    /// Takes an ACK under Sack1.
    #[inline]
    fn on_ack<W: Wire>(
        &mut self,
        tcp: &mut Connection,
        packet: &Packet,
        sack: Option<&SackBlocks>,
        now: Time,
        wire: &mut W,
    ) {
        let ack = packet.seq;
        let una = tcp.una;
        let recover = tcp.host.recover;
        let stale = ack < self.last_ack;
        if self.in_recovery {
            self.pipe -= 1;
            if ack >= recover {
                tcp.host.recover = 0;
                tcp.dup_acks = 0;
                tcp.accept_ack_in_recovery(self, packet, now, wire);
                self.leave_recovery(tcp);
            } else if ack > una {
                let (acked, rtt) = tcp.advance(self, packet, now, false);
                tcp.measure_and_grow(self, acked, rtt, false, now);
                self.merge(ack, sack);
                // The retransmission that this ACK answers has left the pipe as well.
                self.pipe -= 1;
                tcp.set_timer(now, wire);
                tcp.rtt.end_backoff();
            } else if !self.timed_out && self.merge(una, sack) && tcp.dup_acks > 0 {
                tcp.dup_acks += 1;
            }
            if !stale {
                self.fill(tcp, now, wire);
            }
            return;
        }
        if ack > una {
            tcp.accept_new_ack(self, packet, now, true, wire);
            self.leave_recovery(tcp);
        } else if ack == una && !self.timed_out && self.merge(una, sack) {
            tcp.dup_acks += 1;
            if tcp.dup_acks == tcp.dup_threshold {
                self.enter_recovery(tcp, now, wire);
            } else if tcp.dup_acks < tcp.dup_threshold {
                tcp.send_limited(self, now, wire);
            }
        }
        if !stale && tcp.dup_acks == 0 {
            self.fill(tcp, now, wire);
        }
    }

    /// Sends holes, then data from `next` on, while the window or the pipe allows.
    #[inline]
    fn fill<W: Wire>(&mut self, tcp: &mut Connection, now: Time, wire: &mut W) {
        if !self.in_recovery && self.sacked.is_empty() {
            tcp.fill_window_burst(self, u32::MAX, now, wire);
            return;
        }
        let mss = u64::from(tcp.mss);
        let receiver_room = u64::from(tcp.peer.segments) * mss;
        loop {
            let window = u64::from(tcp.usable()) * mss;
            let (next, una, cwnd) = (tcp.next, tcp.una, tcp.host.window.cwnd as i64);
            let room = if self.in_recovery { self.pipe < cwnd } else { next - self.last_ack < window };
            if !room {
                return;
            }
            let in_recovery = self.in_recovery;
            if tcp.extended && tcp.held_back(now, wire) {
                return;
            }
            if let Some(hole) = self.next_hole() {
                if tcp.host.recover == 0 || hole - una >= receiver_room {
                    return;
                }
                let Some(index) = tcp.segments.find(hole) else { return };
                let end = tcp.retransmit_index(self, index, now, wire);
                self.repaired_to = self.repaired_to.max(end);
                tcp.next = tcp.next.max(end);
            } else {
                let limit = if in_recovery { receiver_room } else { window };
                if next - una >= limit || !tcp.has_more() {
                    return;
                }
                tcp.transmit_next(self, now, wire);
            }
            self.pipe += 1;
        }
    }

    fn enter_recovery<W: Wire>(&mut self, tcp: &mut Connection, now: Time, wire: &mut W) {
        let may = tcp.una > tcp.host.recover || tcp.una == 1;
        let marked = tcp.ecn && tcp.action == Action::Ecn;
        if !may && !marked {
            return;
        }
        if may && tcp.extended && tcp.begins_probing(Trigger::DuplicateAcks, now, wire) {
            return;
        }
        tcp.action = Action::DuplicateAcks;
        if may {
            let reduction = tcp.answer_loss(self, now, wire);
            tcp.host.recover = tcp.max_sent;
            tcp.reduce(reduction);
            tcp.count_recovery(now);
        }
        let outstanding = (tcp.max_sent - tcp.una).div_ceil(u64::from(tcp.mss));
        let left = i64::from(tcp.dup_threshold);
        let repaired = tcp.segments.at(tcp.una).map_or(tcp.una, Segment::end);
        self.pipe = outstanding as i64 - left;
        self.in_recovery = true;
        self.repaired_to = self.repaired_to.max(repaired);
        tcp.timed = None;
        tcp.set_timer(now, wire);
        tcp.retransmit_una(self, now, wire);
    }

    /// All that was outstanding is acknowledged, or there was no recovery: start with a clean scoreboard.
    fn leave_recovery(&mut self, tcp: &mut Connection) {
        let una = tcp.una;
        self.in_recovery = false;
        self.timed_out = false;
        self.last_ack = una;
        self.clear();
    }

    /// What an ACK says while its sender does not act on it.
    fn note(&mut self, tcp: &mut Connection, sack: Option<&SackBlocks>, _now: Time) {
        let una = tcp.una;
        self.merge(una, sack);
    }

    fn repair_first<W: Wire>(&mut self, tcp: &mut Connection, inflate: bool, now: Time, wire: &mut W) {
        tcp.dup_acks = tcp.dup_threshold;
        self.enter_recovery(tcp, now, wire);
        if !inflate && self.in_recovery {
            // The duplicates that began recovery did not stand for segments that have left the network.
            self.pipe += i64::from(tcp.dup_threshold);
        }
    }

    fn rewind(&mut self, tcp: &mut Connection, _now: Time) {
        self.clear();
        self.in_recovery = false;
        self.timed_out = true;
        self.last_ack = tcp.una;
        tcp.next = tcp.una;
    }

    fn is_in_recovery(&self, tcp: &Connection) -> bool {
        tcp.answers_duplicates()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Engine;
    use crate::transport::tcp::config::Recovery;
    use crate::transport::tcp::sender::testing::Rig;

    fn pipe(rig: &Rig) -> i64 {
        let Engine::Sack1(sack1) = &rig.sender.engine else { panic!("not the Sack1 engine") };
        sack1.pipe
    }

    /// TV-2.6: segments 11 and 13 of 11..=20 are lost; the second hole is repaired one duplicate later than in
    /// RFC 6675.
    #[test]
    fn counts_the_pipe_down() {
        let mut rig = Rig::rfc(Recovery::Sack1).ten_outstanding();
        rig.sack(11, &[(12, 12)]);
        rig.sack(11, &[(14, 14), (12, 12)]);
        assert_eq!(rig.sack(11, &[(14, 15), (12, 12)]), [11]);
        assert_eq!(pipe(&rig), 7);
        let mut steps = Vec::new();
        for last in 16..=20 {
            let sent = rig.sack(11, &[(14, last), (12, 12)]);
            steps.push((sent, pipe(&rig)));
        }
        let expected = [(vec![], 6), (vec![], 5), (vec![13], 5), (vec![21], 5), (vec![22], 5)];
        assert_eq!(steps, expected);
        assert_eq!(rig.sack(13, &[(14, 20)]), [23, 24], "partial ACK: two have left the pipe");
    }

    #[test]
    fn a_duplicate_without_news_does_not_count() {
        let mut rig = Rig::rfc(Recovery::Sack1).ten_outstanding();
        (0..5).for_each(|_| drop(rig.sack(11, &[(12, 12)])));
        assert_eq!(rig.sender.dup_acks, 1);
    }
}
