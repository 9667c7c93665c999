//! ns-2's `Sack1`: the pipe counter of Fall & Floyd, CCR 26(3), 1996.
//!
//! `pipe` is a counter that ACKs lower and transmissions raise; what is lost is not taken out of it. A
//! duplicate ACK counts only if it brings SACK news. The scoreboard is forgotten after a timeout and at the
//! end of recovery, and a lost retransmission therefore costs a timeout.

use lasthop_core::packet::Packet;
use lasthop_core::time::Time;

use super::super::probing::Trigger;
use super::super::receiver::SackBlocks;
use super::super::segments::{Ranges, Segment};
use super::super::sender::{Action, Engine, TcpSender, Wire};

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

    /// The sender's timer expired with everything up to `una` acknowledged.
    pub(in super::super) fn on_timeout(&mut self, una: u64) {
        self.clear();
        self.in_recovery = false;
        self.timed_out = true;
        self.last_ack = una;
    }

    /// Merges the blocks; returns whether they or the cumulative ACK brought news.
    fn note(&mut self, una: u64, sack: Option<&SackBlocks>) -> bool {
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

impl TcpSender {
    fn sack1(&mut self) -> &mut Sack1 {
        match &mut self.engine {
            Engine::Sack1(sack1) => sack1,
            _ => unreachable!("called for the Sack1 engine only"),
        }
    }

    /// Takes an ACK under Sack1.
    #[inline]
    pub(in super::super) fn sack1_on_ack<W: Wire>(
        &mut self,
        packet: &Packet,
        sack: Option<&SackBlocks>,
        now: Time,
        wire: &mut W,
    ) {
        let ack = packet.seq;
        let una = self.una;
        let recover = self.recover;
        let state = self.sack1();
        let stale = ack < state.last_ack;
        if state.in_recovery {
            state.pipe -= 1;
            if ack >= recover {
                self.recover = 0;
                self.dup_acks = 0;
                self.accept_ack_in_recovery(packet, now, wire);
                self.leave_sack1_recovery();
            } else if ack > una {
                let (acked, rtt) = self.advance(packet, now, false);
                self.measure_and_grow(acked, rtt, false, now);
                let state = self.sack1();
                state.note(ack, sack);
                // The retransmission that this ACK answers has left the pipe as well.
                state.pipe -= 1;
                self.set_timer(now, wire);
                self.rtt.end_backoff();
            } else if !state.timed_out && state.note(una, sack) && self.dup_acks > 0 {
                self.dup_acks += 1;
            }
            if !stale {
                self.sack1_fill_window(now, wire);
            }
            return;
        }
        if ack > una {
            self.accept_new_ack(packet, now, true, wire);
            self.leave_sack1_recovery();
        } else if ack == una && !state.timed_out && state.note(una, sack) {
            self.dup_acks += 1;
            if self.dup_acks == self.dup_threshold {
                self.enter_sack1_recovery(now, wire);
            } else if self.dup_acks < self.dup_threshold {
                self.send_limited(now, wire);
            }
        }
        if !stale && self.dup_acks == 0 {
            self.sack1_fill_window(now, wire);
        }
    }

    /// All that was outstanding is acknowledged, or there was no recovery: start with a clean scoreboard.
    pub(in super::super) fn leave_sack1_recovery(&mut self) {
        let una = self.una;
        let state = self.sack1();
        state.in_recovery = false;
        state.timed_out = false;
        state.last_ack = una;
        state.clear();
    }

    /// What an ACK says while its sender does not act on it.
    pub(in super::super) fn sack1_note(&mut self, sack: Option<&SackBlocks>) {
        let una = self.una;
        self.sack1().note(una, sack);
    }

    /// The duplicates that began recovery did not stand for segments that have left the network.
    pub(in super::super) fn sack1_keep_in_pipe(&mut self) {
        let threshold = i64::from(self.dup_threshold);
        let state = self.sack1();
        if state.in_recovery {
            state.pipe += threshold;
        }
    }

    pub(in super::super) fn enter_sack1_recovery<W: Wire>(&mut self, now: Time, wire: &mut W) {
        let may = self.una > self.recover || self.una == 1;
        let marked = self.ecn && self.action == Action::Ecn;
        if !may && !marked {
            return;
        }
        if may && self.extended && self.begins_probing(Trigger::DuplicateAcks, now, wire) {
            return;
        }
        self.action = Action::DuplicateAcks;
        if may {
            let reduction = self.answer_loss(now, wire);
            self.recover = self.max_sent;
            self.reduce(reduction);
            self.count_recovery(now);
        }
        let outstanding = (self.max_sent - self.una).div_ceil(u64::from(self.mss));
        let left = i64::from(self.dup_threshold);
        let repaired = self.segments.at(self.una).map_or(self.una, Segment::end);
        let state = self.sack1();
        state.pipe = outstanding as i64 - left;
        state.in_recovery = true;
        state.repaired_to = state.repaired_to.max(repaired);
        self.timed = None;
        self.set_timer(now, wire);
        self.retransmit_una(now, wire);
    }

    /// Sends holes, then data from `next` on, while the window or the pipe allows.
    #[inline]
    pub(in super::super) fn sack1_fill_window<W: Wire>(&mut self, now: Time, wire: &mut W) {
        let Engine::Sack1(state) = &self.engine else { return };
        if !state.in_recovery && state.sacked.is_empty() {
            self.fill_window_burst(u32::MAX, now, wire);
            return;
        }
        let mss = u64::from(self.mss);
        let receiver_room = u64::from(self.receiver_window) * mss;
        loop {
            let window = u64::from(self.usable()) * mss;
            let (next, una, cwnd) = (self.next, self.una, self.window.cwnd as i64);
            let state = self.sack1();
            let room = if state.in_recovery { state.pipe < cwnd } else { next - state.last_ack < window };
            if !room {
                self.window_limited = true;
                return;
            }
            let in_recovery = state.in_recovery;
            if self.extended && self.held_back(now, wire) {
                return;
            }
            let state = self.sack1();
            if let Some(hole) = state.next_hole() {
                if self.recover == 0 || hole - una >= receiver_room {
                    return;
                }
                let Some(index) = self.segments.find(hole) else { return };
                let end = self.retransmit_index(index, now, wire);
                let state = self.sack1();
                state.repaired_to = state.repaired_to.max(end);
                self.next = self.next.max(end);
            } else {
                let limit = if in_recovery { receiver_room } else { window };
                if next - una >= limit || !self.has_more() {
                    return;
                }
                self.transmit_next(now, wire);
            }
            self.sack1().pipe += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::config::Recovery;
    use super::super::super::sender::testing::Rig;

    /// TV-2.6: segments 11 and 13 of 11..=20 are lost; the second hole is repaired one duplicate later than in
    /// RFC 6675.
    #[test]
    fn counts_the_pipe_down() {
        let mut rig = Rig::rfc(Recovery::Sack1).ten_outstanding();
        rig.sack(11, &[(12, 12)]);
        rig.sack(11, &[(14, 14), (12, 12)]);
        assert_eq!(rig.sack(11, &[(14, 15), (12, 12)]), [11]);
        assert_eq!(rig.sender.sack1().pipe, 7);
        let mut steps = Vec::new();
        for last in 16..=20 {
            let sent = rig.sack(11, &[(14, last), (12, 12)]);
            steps.push((sent, rig.sender.sack1().pipe));
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
