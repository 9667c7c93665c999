//! SACK-based recovery of RFC 6675.
//!
//! `pipe` and "is lost" are defined per segment in the RFC; recomputing them on every ACK would cost a
//! window's worth of work. Here they are kept up to date: segments carry flags, counters follow the flags,
//! and since everything below a lost segment that was not SACKed is lost too, one edge that only moves up
//! says what is lost.

use lasthop_core::packet::Packet;
use lasthop_core::time::Time;

use super::super::alarms::Alarm;
use super::super::probing::Trigger;
use super::super::receiver::SackBlocks;
use super::super::segments::{Ranges, Segment, Segments};
use super::super::sender::{Action, Engine, TcpSender, Wire};

/// What the receiver is known to hold, and what that says about the rest.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Scoreboard {
    pub(super) sacked: Ranges,
    /// Every outstanding segment below this that is not SACKed is lost.
    lost_edge: u64,
    /// Retransmissions of this episode have reached this point (`HighRxt` + 1).
    repaired_to: u64,
    /// Outstanding segments that are SACKed; not SACKed and lost; not SACKed and sent again in this episode.
    pub(super) sacked_count: usize,
    pub(super) lost_count: usize,
    pub(super) repaired_count: usize,
    /// Between the loss and the ACK of all that was outstanding then.
    pub(super) in_recovery: bool,
    /// The one rescue retransmission of this episode has been used.
    rescued: bool,
}

impl Scoreboard {
    /// Whether holes are being repaired.
    pub(in super::super) fn is_in_recovery(&self) -> bool {
        self.in_recovery
    }

    /// A segment was acknowledged cumulatively.
    pub(in super::super) fn forget(&mut self, segment: &Segment) {
        if segment.sacked {
            self.sacked_count -= 1;
        } else {
            self.lost_count -= usize::from(segment.lost);
            self.repaired_count -= usize::from(segment.repaired);
        }
    }

    /// Segments believed to be in the network, of `outstanding` ones.
    #[inline]
    pub(super) fn pipe(&self, outstanding: usize) -> usize {
        outstanding - self.sacked_count - self.lost_count + self.repaired_count
    }

    /// Whether the blocks tell of data at or above `una` that was not known to be there.
    pub(in super::super) fn has_news(&self, sack: &SackBlocks, una: u64) -> bool {
        sack.as_slice().iter().any(|&(start, end)| {
            let start = start.max(una);
            start < end && !self.sacked.contains_all(start, end)
        })
    }

    /// Marks what the blocks report and shows each segment that is new, with its place, to `on_new`; returns whether
    /// there was any.
    #[inline]
    pub(super) fn note(
        &mut self,
        blocks: &[(u64, u64)],
        una: u64,
        segments: &mut Segments,
        mut on_new: impl FnMut(usize, &Segment),
    ) -> bool {
        let mut news = false;
        for &(start, end) in blocks {
            // Below una: a DSACK, or old news.
            let mut position = start.max(una);
            if position >= end || self.sacked.contains_all(position, end) {
                continue;
            }
            let mut index = segments.find(position);
            while position < end {
                if let Some((_, known)) = self.sacked.containing(position) {
                    position = known;
                    index = segments.find(position);
                    continue;
                }
                let Some(place) = index else { break };
                let Some(segment) = segments.get_mut(place) else { break };
                if segment.end() > end {
                    break;
                }
                self.lost_count -= usize::from(segment.lost);
                self.repaired_count -= usize::from(segment.repaired);
                self.sacked_count += 1;
                on_new(place, segment);
                segment.sacked = true;
                position = segment.end();
                index = Some(place + 1);
                news = true;
            }
            self.sacked.insert(start.max(una), position.min(end));
        }
        news
    }

    /// Forgets what was taken for lost, because nothing was; what is SACKed stays known.
    pub(in super::super) fn forget_losses(&mut self, una: u64, segments: &mut Segments) {
        for segment in segments.iter_mut() {
            segment.lost = false;
            segment.repaired = false;
        }
        self.lost_count = 0;
        self.repaired_count = 0;
        self.lost_edge = una;
        self.repaired_to = una;
        self.in_recovery = false;
        self.rescued = false;
    }
}

impl TcpSender {
    fn scoreboard(&mut self) -> &mut Scoreboard {
        match &mut self.engine {
            Engine::Sack(scoreboard) => scoreboard,
            _ => unreachable!("called for the SACK engine only"),
        }
    }

    /// Takes an ACK under RFC 6675.
    #[inline]
    pub(in super::super) fn sack_on_ack<W: Wire>(
        &mut self,
        packet: &Packet,
        sack: Option<&SackBlocks>,
        now: Time,
        wire: &mut W,
    ) {
        let ack = packet.seq;
        if ack < self.una {
            return;
        }
        let advances = ack > self.una;
        let before = (self.sack_undelivered(), self.scoreboard().lost_edge);
        if advances {
            self.sack_advance(packet, now, wire);
        }
        let mut news = false;
        if let Some(sack) = sack {
            news = self.note_sacked(sack);
            if news {
                self.note_lost();
            }
        }
        if !advances && news {
            self.dup_acks += 1;
        }
        if self.extended {
            let delivered = (before.0 - self.sack_undelivered()) as u32;
            self.note_delivered(delivered);
        }
        if self.sack_found_loss() {
            if self.holds_back(now, wire) {
                self.send_limited(now, wire);
                return;
            }
            self.enter_sack_recovery(now, wire);
        } else if self.extended && self.is_reducing() {
            let safe = advances && self.scoreboard().lost_edge == before.1;
            let pipe = self.pipe();
            self.apply_prr(pipe, safe);
        } else if !advances && news && self.dup_acks < self.threshold() {
            self.send_limited(now, wire);
            return;
        }
        self.sack_fill_window(now, wire);
    }

    fn sack_advance<W: Wire>(&mut self, packet: &Packet, now: Time, wire: &mut W) {
        let ack = packet.seq;
        let recover = self.recover;
        let scoreboard = self.scoreboard();
        scoreboard.sacked.remove_below(ack);
        if !scoreboard.in_recovery {
            let spread = self.extended && self.is_reducing();
            self.accept_new_ack(packet, now, !spread, wire);
            if spread && self.una > recover {
                // The answer to a mark has been carried out.
                self.end_prr();
            }
            return;
        }
        self.accept_ack_in_recovery(packet, now, wire);
        if ack >= recover {
            self.end_prr();
            self.scoreboard().in_recovery = false;
            self.end_kept_window();
            self.dup_acks = 0;
            self.action = Action::Exited;
        }
    }

    /// Everything below `ack` was acknowledged outside the engine.
    pub(in super::super) fn sack_forget_below(&mut self, ack: u64) {
        match &mut self.engine {
            Engine::Sack(scoreboard) => scoreboard.sacked.remove_below(ack),
            Engine::Rack(rack) => rack.board.sacked.remove_below(ack),
            _ => {}
        }
    }

    /// Repairs the segment at `una` whatever is known of it, as a new episode if there is none.
    pub(in super::super) fn repair_first_segment<W: Wire>(&mut self, now: Time, wire: &mut W) {
        if !self.scoreboard().in_recovery {
            self.enter_sack_recovery(now, wire);
        }
    }

    /// Marks what the blocks report; returns whether any of it was new.
    #[inline]
    fn note_sacked(&mut self, sack: &SackBlocks) -> bool {
        let una = self.una;
        let Engine::Sack(scoreboard) = &mut self.engine else { return false };
        let sampler = &mut self.sampler;
        scoreboard.note(sack.as_slice(), una, &mut self.segments, |index, segment| {
            if let Some(sampler) = sampler {
                sampler.on_delivered(index, segment.transmissions == 1);
            }
        })
    }

    /// RFC 6675 `IsLost`: `DupThresh` SACKed ranges above, or more than `DupThresh` - 1 segments' bytes.
    fn note_lost(&mut self) {
        let threshold = self.threshold();
        let enough_bytes = u64::from(threshold - 1) * u64::from(self.mss);
        let dup_threshold = threshold as usize;
        let una = self.una;
        let Engine::Sack(scoreboard) = &mut self.engine else { return };
        let mut bytes = 0;
        let edge = scoreboard.sacked.descending().zip(1..).find_map(|((start, end), ranges)| {
            bytes += end - start;
            (ranges >= dup_threshold || bytes > enough_bytes).then_some(start)
        });
        let Some(edge) = edge.filter(|&edge| edge > scoreboard.lost_edge) else { return };
        let Some(mut index) = self.segments.find(scoreboard.lost_edge.max(una)) else { return };
        while let Some(segment) = self.segments.get_mut(index)
            && segment.seq < edge
        {
            if !segment.sacked && !segment.lost {
                segment.lost = true;
                scoreboard.lost_count += 1;
                if let Some(sampler) = &mut self.sampler {
                    sampler.on_lost(1);
                }
            }
            index += 1;
        }
        scoreboard.lost_edge = edge;
    }

    /// Whether a new episode begins now.
    fn sack_found_loss(&mut self) -> bool {
        let (una, dup_acks, threshold) = (self.una, self.dup_acks, self.threshold());
        let after_timeout = una < self.timeout_recover;
        let scoreboard = self.scoreboard();
        if scoreboard.in_recovery || scoreboard.sacked.is_empty() {
            return false;
        }
        // Losses from before a timeout are being repaired by the slow start that followed it.
        !after_timeout && (dup_acks >= threshold || una < scoreboard.lost_edge)
    }

    /// A repair that was held back is made after all.
    pub(in super::super) fn sack_end_hold<W: Wire>(&mut self, now: Time, wire: &mut W) {
        if self.sack_found_loss() {
            self.enter_sack_recovery(now, wire);
            self.sack_fill_window(now, wire);
        }
    }

    /// The threshold has fallen: what is SACKed may mean a loss now.
    pub(in super::super) fn sack_reconsider<W: Wire>(&mut self, now: Time, wire: &mut W) {
        self.note_lost();
        if self.sack_found_loss() && !self.holds_back(now, wire) {
            self.enter_sack_recovery(now, wire);
            self.sack_fill_window(now, wire);
        }
    }

    /// What an ACK says while its sender does not act on it.
    pub(in super::super) fn sack_note(&mut self, sack: Option<&SackBlocks>) {
        let una = self.una;
        self.scoreboard().sacked.remove_below(una);
        if let Some(sack) = sack
            && self.note_sacked(sack)
        {
            self.note_lost();
        }
    }

    /// Everything has been acknowledged, whatever was being repaired.
    pub(in super::super) fn sack_leave_recovery(&mut self) {
        self.scoreboard().in_recovery = false;
    }

    pub(in super::super) fn enter_sack_recovery<W: Wire>(&mut self, now: Time, wire: &mut W) {
        if self.extended && self.begins_probing(Trigger::DuplicateAcks, now, wire) {
            return;
        }
        if !(self.action == Action::Ecn && self.una <= self.recover) {
            let before = self.window.cwnd;
            let reduction = self.answer_loss(now, wire);
            self.reduce(reduction);
            if !self.needs.rate {
                self.window.cwnd = self.window.ssthresh.min(self.reduced_to);
            }
            self.begin_prr(before);
        }
        self.recover = self.max_sent;
        self.action = Action::DuplicateAcks;
        self.timed = None;
        self.count_recovery(now);
        self.forget_repairs();
        let una = self.una;
        let scoreboard = self.scoreboard();
        scoreboard.in_recovery = true;
        scoreboard.rescued = false;
        scoreboard.repaired_to = una;
        self.set_timer(now, wire);
        let pipe = self.pipe();
        self.apply_prr(pipe, false);
        if let Some(index) = self.segments.find(una) {
            self.repair(index, now, wire);
        }
    }

    /// Retransmissions of an earlier episode no longer count as in the network.
    fn forget_repairs(&mut self) {
        let Engine::Sack(scoreboard) = &mut self.engine else { return };
        if scoreboard.repaired_count > 0 {
            self.segments.iter_mut().for_each(|segment| segment.repaired = false);
            scoreboard.repaired_count = 0;
        }
    }

    /// Sends a segment again and accounts for it.
    fn repair<W: Wire>(&mut self, index: usize, now: Time, wire: &mut W) {
        let end = self.retransmit_index(index, now, wire);
        if let Some(segment) = self.segments.get_mut(index)
            && !segment.repaired
        {
            segment.repaired = true;
            self.scoreboard().repaired_count += 1;
        }
        let scoreboard = self.scoreboard();
        scoreboard.repaired_to = scoreboard.repaired_to.max(end);
    }

    /// Segments believed to be in the network.
    pub(in super::super) fn pipe(&mut self) -> usize {
        let outstanding = self.segments.len();
        self.scoreboard().pipe(outstanding)
    }

    /// Outstanding segments that are not known to be there.
    #[inline]
    fn sack_undelivered(&mut self) -> usize {
        self.segments.len() - self.scoreboard().sacked_count
    }

    /// The first segment from `position` on and below `edge` that is not SACKed.
    fn next_hole(&mut self, position: u64, edge: u64) -> Option<usize> {
        let start = self.scoreboard().sacked.containing(position).map_or(position, |(_, end)| end);
        let index = self.segments.find(start)?;
        self.segments.get(index).filter(|segment| segment.seq < edge).map(|_| index)
    }

    /// Sends what `cwnd - pipe` allows, in the order of RFC 6675 `NextSeg`.
    #[inline]
    pub(in super::super) fn sack_fill_window<W: Wire>(&mut self, now: Time, wire: &mut W) {
        let Engine::Sack(scoreboard) = &self.engine else { return };
        let clean = !scoreboard.in_recovery && scoreboard.lost_count == 0 && scoreboard.sacked_count == 0;
        if clean || (self.extended && self.awaits_verdict()) {
            self.fill_window_burst(u32::MAX, now, wire);
            return;
        }
        self.window_limited = true;
        if self.alarms.is_set(Alarm::Hold) {
            // What looks lost is not to be sent again yet.
            return;
        }
        while self.pipe() < self.window.cwnd as usize {
            if self.extended && self.held_back(now, wire) {
                return;
            }
            let una = self.una;
            let scoreboard = self.scoreboard();
            let in_recovery = scoreboard.in_recovery;
            let position = scoreboard.repaired_to.max(una);
            let (lost_edge, highest) =
                (scoreboard.lost_edge, scoreboard.sacked.last().map_or(0, |(start, _)| start));
            // (1) the lowest loss that has not been repaired yet
            if let Some(index) = self.next_hole(position, lost_edge) {
                self.repair(index, now, wire);
                continue;
            }
            // (2) new data
            let sent = self.max_sent;
            let room = u64::from(self.receiver_window) * u64::from(self.mss);
            if self.next - self.una < room {
                self.send_new(now, wire);
            }
            if self.max_sent > sent {
                continue;
            }
            if !in_recovery {
                // Nothing to send, or the receiver's window is full.
                self.window_limited = false;
                break;
            }
            // (3) a hole that is not known to be lost
            if let Some(index) = self.next_hole(position, highest) {
                self.repair(index, now, wire);
                continue;
            }
            // (4) the rescue retransmission, once per episode
            if self.scoreboard().rescued {
                break;
            }
            self.scoreboard().rescued = true;
            let last = self.segments.len().checked_sub(1);
            let unsacked = last
                .and_then(|last| (0..=last).rev().find(|&i| self.segments.get(i).is_some_and(|s| !s.sacked)));
            let Some(index) = unsacked else { break };
            // RFC 6675 §4: it does not move HighRxt, so that holes below it are still repaired, and pipe
            // leaves it out.
            self.retransmit_index(index, now, wire);
        }
    }

    /// After a timeout everything that is not SACKed is lost; what is SACKed stays known.
    pub(in super::super) fn sack_on_timeout(&mut self) {
        let max_sent = self.max_sent;
        let una = self.una;
        let Engine::Sack(scoreboard) = &mut self.engine else { return };
        for segment in self.segments.iter_mut() {
            segment.lost = !segment.sacked;
            segment.repaired = false;
        }
        scoreboard.lost_count = self.segments.len() - scoreboard.sacked_count;
        scoreboard.repaired_count = 0;
        scoreboard.lost_edge = max_sent;
        scoreboard.repaired_to = una;
        scoreboard.in_recovery = false;
        self.next = max_sent;
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::config::Recovery;
    use super::super::super::sender::testing::Rig;

    /// TV-2.5: segments 11 and 13 of 11..=20 are lost.
    #[test]
    fn repairs_both_holes_within_one_round_trip() {
        let mut rig = Rig::rfc(Recovery::Sack).ten_outstanding();
        assert_eq!(rig.sack(11, &[(12, 12)]), [0; 0]);
        assert_eq!(rig.sack(11, &[(14, 14), (12, 12)]), [0; 0]);
        assert_eq!(rig.sack(11, &[(14, 15), (12, 12)]), [11]);
        assert_eq!((rig.window(), rig.sender.pipe()), ((5.0, 5.0), 7));
        assert_eq!(rig.sack(11, &[(14, 16), (12, 12)]), [0; 0]);
        assert_eq!(rig.sender.pipe(), 5);
        assert_eq!(rig.sack(11, &[(14, 17), (12, 12)]), [13]);
        let sent: Vec<Vec<u64>> = (18..=20).map(|last| rig.sack(11, &[(14, last), (12, 12)])).collect();
        assert_eq!(sent, [vec![21], vec![22], vec![23]]);
        assert_eq!(rig.sack(13, &[(14, 20)]), [24]);
        assert_eq!(rig.ack(21), [25]);
        assert_eq!((rig.window(), rig.sender.flight()), ((5.0, 5.0), 5));
    }

    #[test]
    fn a_timeout_keeps_what_was_sacked() {
        let mut rig = Rig::rfc(Recovery::Sack).ten_outstanding();
        rig.sack(11, &[(12, 12)]);
        assert_eq!(rig.time_out(), [11]);
        assert_eq!(rig.sack(13, &[]), [13, 14], "12 is known to be there");
    }

    #[test]
    fn the_rescue_retransmission_is_used_once() {
        let mut rig = Rig::rfc(Recovery::Sack).ten_outstanding();
        rig.sender.on_close(true, rig.now, &mut rig.tape);
        // 11 is lost and everything else arrives but the FIN (21), which has nothing above it.
        let sent: Vec<u64> = (12..=20).flat_map(|last| rig.sack(11, &[(12, last)])).collect();
        assert_eq!(sent, [11, 21, 21]);
    }

    #[test]
    fn pipe_never_counts_what_was_acknowledged() {
        let mut rig = Rig::rfc(Recovery::Sack).ten_outstanding();
        rig.sack(11, &[(12, 15)]);
        rig.ack(21);
        assert_eq!(rig.sender.scoreboard().sacked_count, 0);
        assert!(rig.sender.scoreboard().sacked.is_empty());
        assert_eq!(rig.sender.pipe(), rig.sender.segments.len());
    }
}
