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
use super::super::rate::note_lost;
use super::super::{Action, Connection};
use super::scoreboard::Scoreboard;
use super::{Evidence, RecoveryEngine};
use crate::transport::sack::SackBlocks;
use crate::transport::tcp::segments::Segment;
use crate::transport::wire::Wire;

/// State of the engine.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Sack {
    board: Scoreboard,
    /// Every outstanding segment below this that is not SACKed is lost.
    lost_edge: u64,
    /// Retransmissions of this episode have reached this point (`HighRxt` + 1).
    repaired_to: u64,
    /// The one rescue retransmission of this episode has been used.
    rescued: bool,
}

impl RecoveryEngine for Sack {
    const SCOREBOARD: bool = true;

    /// Takes an ACK under RFC 6675.
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
        if ack < tcp.una {
            return;
        }
        let advances = ack > tcp.una;
        let before = (self.undelivered(tcp), self.lost_edge);
        if advances {
            self.advance(tcp, packet, now, wire);
        }
        let mut news = false;
        if let Some(sack) = sack {
            news = self.note_sacked(tcp, sack);
            if news {
                self.note_lost(tcp, now);
            }
        }
        if !advances && news {
            tcp.dup_acks += 1;
        }
        if tcp.extended {
            let delivered = (before.0 - self.undelivered(tcp)) as u32;
            tcp.note_delivered(delivered);
        }
        if self.found_loss(tcp) {
            if tcp.holds_back(now, wire) {
                tcp.send_limited(self, now, wire);
                return;
            }
            self.enter_recovery(tcp, now, wire);
        } else if tcp.extended && tcp.is_reducing() {
            let safe = advances && self.lost_edge == before.1;
            let pipe = self.board.pipe(tcp.segments.len());
            tcp.apply_prr(pipe, safe);
        } else if !advances && news && tcp.dup_acks < tcp.threshold() {
            tcp.send_limited(self, now, wire);
            return;
        }
        self.fill(tcp, now, wire);
    }

    /// Sends what `cwnd - pipe` allows, in the order of RFC 6675 `NextSeg`.
    #[inline]
    fn fill<W: Wire>(&mut self, tcp: &mut Connection, now: Time, wire: &mut W) {
        let clean = !self.board.in_recovery && self.board.lost_count == 0 && self.board.sacked_count == 0;
        let before = tcp.max_sent;
        if clean || (tcp.extended && tcp.awaits_verdict()) {
            tcp.fill_window_burst(self, u32::MAX, now, wire);
            return;
        }
        if tcp.alarms.is_set(Alarm::Hold) {
            // What looks lost is not to be sent again yet.
            return;
        }
        while self.board.pipe(tcp.segments.len()) < tcp.host.window.cwnd as usize {
            if tcp.extended && tcp.held_back(now, wire) {
                return;
            }
            let una = tcp.una;
            let in_recovery = self.board.in_recovery;
            let position = self.repaired_to.max(una);
            let (lost_edge, highest) =
                (self.lost_edge, self.board.sacked.last().map_or(0, |(start, _)| start));
            // (1) the lowest loss that has not been repaired yet
            if let Some(index) = self.next_hole(tcp, position, lost_edge) {
                self.repair(tcp, index, now, wire);
                continue;
            }
            // (2) new data
            let sent = tcp.max_sent;
            if tcp.has_room() {
                tcp.send_new(self, now, wire);
            }
            if tcp.max_sent > sent {
                continue;
            }
            if !in_recovery {
                // Nothing to send, or the receiver's window is full.
                break;
            }
            // (3) a hole that is not known to be lost
            if let Some(index) = self.next_hole(tcp, position, highest) {
                self.repair(tcp, index, now, wire);
                continue;
            }
            // (4) the rescue retransmission, once per episode
            if self.rescued {
                break;
            }
            self.rescued = true;
            let last = tcp.segments.len().checked_sub(1);
            let unsacked = last
                .and_then(|last| (0..=last).rev().find(|&i| tcp.segments.get(i).is_some_and(|s| !s.sacked)));
            let Some(index) = unsacked else { break };
            // RFC 6675 §4: it does not move HighRxt, so that holes below it are still repaired, and pipe
            // leaves it out.
            tcp.retransmit_index(self, index, now, wire);
        }
        if tcp.max_sent > before || tcp.has_new() {
            let pipe = self.board.pipe(tcp.segments.len()) as u32;
            tcp.note_usage(pipe, false);
        }
    }

    fn enter_recovery<W: Wire>(&mut self, tcp: &mut Connection, now: Time, wire: &mut W) {
        if tcp.extended && tcp.begins_probing(Trigger::DuplicateAcks, now, wire) {
            return;
        }
        if !(tcp.action == Action::Ecn && tcp.una <= tcp.host.recover) {
            let before = tcp.host.window.cwnd;
            let reduction = tcp.answer_loss(self, now, wire);
            tcp.reduce(reduction);
            if !tcp.needs.rate {
                tcp.host.window.cwnd = tcp.host.ceiling();
            }
            tcp.begin_prr(self, before);
        }
        tcp.host.recover = tcp.max_sent;
        tcp.action = Action::DuplicateAcks;
        tcp.timed = None;
        tcp.count_recovery(now);
        self.forget_repairs(tcp);
        let una = tcp.una;
        self.board.in_recovery = true;
        self.rescued = false;
        self.repaired_to = una;
        tcp.set_timer(now, wire);
        let pipe = self.board.pipe(tcp.segments.len());
        tcp.apply_prr(pipe, false);
        if let Some(index) = tcp.segments.find(una) {
            self.repair(tcp, index, now, wire);
        }
    }

    /// Repairs the segment at `una` whatever is known of it, as a new episode if there is none.
    fn repair_first<W: Wire>(&mut self, tcp: &mut Connection, _inflate: bool, now: Time, wire: &mut W) {
        if !self.board.in_recovery {
            self.enter_recovery(tcp, now, wire);
        }
    }

    /// Everything has been acknowledged, whatever was being repaired.
    fn leave_recovery(&mut self, _tcp: &mut Connection) {
        self.board.in_recovery = false;
    }

    /// After a timeout everything that is not SACKed is lost; what is SACKed stays known.
    fn rewind(&mut self, tcp: &mut Connection, now: Time) {
        let max_sent = tcp.max_sent;
        let una = tcp.una;
        for (index, segment) in tcp.segments.iter_mut().enumerate() {
            if !segment.sacked && (!segment.lost || segment.repaired) {
                note_lost(&mut tcp.sampler, &mut tcp.host, index, segment, now);
            }
            segment.lost = !segment.sacked;
            segment.repaired = false;
        }
        self.board.lost_count = tcp.segments.len() - self.board.sacked_count;
        self.board.repaired_count = 0;
        self.lost_edge = max_sent;
        self.repaired_to = una;
        self.board.in_recovery = false;
        tcp.next = max_sent;
    }

    /// What an ACK says while its sender does not act on it.
    fn note(&mut self, tcp: &mut Connection, sack: Option<&SackBlocks>, now: Time) {
        let una = tcp.una;
        self.board.sacked.remove_below(una);
        if let Some(sack) = sack
            && self.note_sacked(tcp, sack)
        {
            self.note_lost(tcp, now);
        }
    }

    /// A repair that was held back is made after all.
    fn end_hold<W: Wire>(&mut self, tcp: &mut Connection, now: Time, wire: &mut W) {
        if self.found_loss(tcp) {
            self.enter_recovery(tcp, now, wire);
            self.fill(tcp, now, wire);
        }
    }

    /// The threshold has fallen: what is SACKed may mean a loss now.
    fn reconsider<W: Wire>(&mut self, tcp: &mut Connection, now: Time, wire: &mut W) {
        self.note_lost(tcp, now);
        if self.found_loss(tcp) && !tcp.holds_back(now, wire) {
            self.enter_recovery(tcp, now, wire);
            self.fill(tcp, now, wire);
        }
    }

    fn on_covered(
        &mut self,
        segment: &Segment,
        _after_timeout: bool,
        _echo: Option<Time>,
        _now: Time,
    ) -> bool {
        self.board.forget(segment);
        false
    }

    fn forget_below(&mut self, ack: u64) {
        self.board.sacked.remove_below(ack);
    }

    /// A recovery that lasts sends on while what was selected is not yet acknowledged: `FlightSize` may then be
    /// several windows, and half of it no reduction at all. A segment more than the window is its fraction.
    fn flight_at_loss(&self, tcp: &Connection) -> f64 {
        (tcp.sent_flight() - f64::from(tcp.limited)).min(tcp.host.window.cwnd + 1.0)
    }

    #[inline]
    fn board(&self) -> Option<&Scoreboard> {
        Some(&self.board)
    }

    fn forget_losses(&mut self, tcp: &mut Connection, _evidence: Evidence) {
        self.board.forget_losses(&mut tcp.segments);
        self.lost_edge = tcp.una;
        self.repaired_to = tcp.una;
        self.rescued = false;
    }
}

impl Sack {
    fn advance<W: Wire>(&mut self, tcp: &mut Connection, packet: &Packet, now: Time, wire: &mut W) {
        let ack = packet.seq;
        let recover = tcp.host.recover;
        self.board.sacked.remove_below(ack);
        if !self.board.in_recovery {
            let spread = tcp.extended && tcp.is_reducing();
            tcp.accept_new_ack(self, packet, now, !spread, wire);
            if spread && tcp.una > recover {
                // The answer to a mark has been carried out.
                tcp.end_prr();
            }
            return;
        }
        tcp.accept_ack_in_recovery(self, packet, now, wire);
        if ack >= recover {
            tcp.end_prr();
            self.board.in_recovery = false;
            tcp.end_kept_window();
            tcp.dup_acks = 0;
            tcp.action = Action::Exited;
        }
    }

    /// Marks what the blocks report; returns whether any of it was new.
    #[inline]
    fn note_sacked(&mut self, tcp: &mut Connection, sack: &SackBlocks) -> bool {
        let una = tcp.una;
        let sampler = &mut tcp.sampler;
        self.board.note(sack.as_slice(), una, &mut tcp.segments, |index, segment| {
            if let Some(sampler) = sampler {
                sampler.on_delivered(index, segment.transmissions == 1);
            }
        })
    }

    /// RFC 6675 `IsLost`: `DupThresh` SACKed ranges above, or more than `DupThresh` - 1 segments' bytes.
    fn note_lost(&mut self, tcp: &mut Connection, now: Time) {
        let threshold = tcp.threshold();
        let enough_bytes = u64::from(threshold - 1) * u64::from(tcp.mss);
        let dup_threshold = threshold as usize;
        let una = tcp.una;
        let mut bytes = 0;
        let edge = self.board.sacked.descending().zip(1..).find_map(|((start, end), ranges)| {
            bytes += end - start;
            (ranges >= dup_threshold || bytes > enough_bytes).then_some(start)
        });
        let Some(edge) = edge.filter(|&edge| edge > self.lost_edge) else { return };
        let Some(mut index) = tcp.segments.find(self.lost_edge.max(una)) else { return };
        while let Some(segment) = tcp.segments.get_mut(index)
            && segment.seq < edge
        {
            if !segment.sacked && !segment.lost {
                segment.lost = true;
                self.board.lost_count += 1;
                note_lost(&mut tcp.sampler, &mut tcp.host, index, segment, now);
            }
            index += 1;
        }
        self.lost_edge = edge;
    }

    /// Whether a new episode begins now.
    fn found_loss(&self, tcp: &Connection) -> bool {
        let (una, dup_acks, threshold) = (tcp.una, tcp.dup_acks, tcp.threshold());
        let after_timeout = una < tcp.timeout_recover;
        if self.board.in_recovery || self.board.sacked.is_empty() {
            return false;
        }
        // Losses from before a timeout are being repaired by the slow start that followed it.
        !after_timeout && (dup_acks >= threshold || una < self.lost_edge)
    }

    /// Retransmissions of an earlier episode no longer count as in the network.
    fn forget_repairs(&mut self, tcp: &mut Connection) {
        if self.board.repaired_count > 0 {
            tcp.segments.iter_mut().for_each(|segment| segment.repaired = false);
            self.board.repaired_count = 0;
        }
    }

    /// Sends a segment again and accounts for it.
    fn repair<W: Wire>(&mut self, tcp: &mut Connection, index: usize, now: Time, wire: &mut W) {
        let end = tcp.retransmit_index(self, index, now, wire);
        if let Some(segment) = tcp.segments.get_mut(index)
            && !segment.repaired
        {
            segment.repaired = true;
            self.board.repaired_count += 1;
        }
        self.repaired_to = self.repaired_to.max(end);
    }

    /// Outstanding segments that are not known to be there.
    #[inline]
    fn undelivered(&self, tcp: &Connection) -> usize {
        tcp.segments.len() - self.board.sacked_count
    }

    /// The first segment from `position` on and below `edge` that is not SACKed.
    fn next_hole(&self, tcp: &Connection, position: u64, edge: u64) -> Option<usize> {
        let start = self.board.sacked.containing(position).map_or(position, |(_, end)| end);
        let index = tcp.segments.find(start)?;
        tcp.segments.get(index).filter(|segment| segment.seq < edge).map(|_| index)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Engine;
    use super::*;
    use crate::transport::extra::Extra;
    use crate::transport::tcp::config::Recovery;
    use crate::transport::tcp::sender::testing::Rig;

    fn sack(rig: &Rig) -> &Sack {
        let Engine::Sack(sack) = &rig.sender.engine else { panic!("not the SACK engine") };
        sack
    }

    fn pipe(rig: &Rig) -> u32 {
        sack(rig).pipe(&rig.sender)
    }

    /// TV-2.5: segments 11 and 13 of 11..=20 are lost.
    #[test]
    fn repairs_both_holes_within_one_round_trip() {
        let mut rig = Rig::rfc(Recovery::Sack).ten_outstanding();
        assert_eq!(rig.sack(11, &[(12, 12)]), [0; 0]);
        assert_eq!(rig.sack(11, &[(14, 14), (12, 12)]), [0; 0]);
        assert_eq!(rig.sack(11, &[(14, 15), (12, 12)]), [11]);
        assert_eq!((rig.window(), pipe(&rig)), ((5.0, 5.0), 7));
        assert_eq!(rig.sack(11, &[(14, 16), (12, 12)]), [0; 0]);
        assert_eq!(pipe(&rig), 5);
        assert_eq!(rig.sack(11, &[(14, 17), (12, 12)]), [13]);
        let sent: Vec<Vec<u64>> = (18..=20).map(|last| rig.sack(11, &[(14, last), (12, 12)])).collect();
        assert_eq!(sent, [vec![21], vec![22], vec![23]]);
        assert_eq!(rig.sack(13, &[(14, 20)]), [24]);
        assert_eq!(rig.ack(21), [25]);
        assert_eq!((rig.window(), rig.sender.flight()), ((5.0, 5.0), 5));
    }

    /// The repair of 11 takes its time, and what was sent meanwhile is selected up to 30 but for 21: when it comes,
    /// eleven segments are outstanding at a window of five. The next reduction starts from the window.
    #[test]
    fn a_reduction_after_a_long_recovery_starts_from_the_window() {
        let mut rig = Rig::rfc(Recovery::Sack).ten_outstanding();
        (12..=20).for_each(|last| drop(rig.sack(11, &[(12, last)])));
        (22..=30).for_each(|last| drop(rig.sack(11, &[(22, last), (12, 20)])));
        assert_eq!(rig.window(), (5.0, 5.0));
        let outstanding = rig.sender.flight();
        rig.sack(21, &[(22, 30)]);
        assert!(outstanding > 20, "{outstanding}");
        assert_eq!(rig.window(), (3.0, 3.0), "of {}", rig.sender.flight());
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

    /// By hand: a block tells of the end of 12 and of 13; 12 is not there before it is reported as a whole, and counts
    /// once.
    #[test]
    fn a_segment_is_reported_whole_or_not() {
        let mut rig = Rig::rfc(Recovery::Sack).ten_outstanding();
        let mut told = |start: u64, end: u64| {
            let mut extra = Extra::default();
            extra.sack.push(start, end);
            rig.answer(11, Some(&extra));
            sack(&rig).board.sacked_count
        };
        assert_eq!([told(11_501, 13_001), told(11_501, 12_001), told(13_001, 13_501)], [1, 1, 1]);
        assert_eq!([told(11_001, 13_001), told(11_001, 13_001), told(10_501, 14_001)], [2, 2, 3]);
    }

    #[test]
    fn pipe_never_counts_what_was_acknowledged() {
        let mut rig = Rig::rfc(Recovery::Sack).ten_outstanding();
        rig.sack(11, &[(12, 15)]);
        rig.ack(21);
        assert_eq!(sack(&rig).board.sacked_count, 0);
        assert!(sack(&rig).board.sacked.is_empty());
        assert_eq!(pipe(&rig), rig.sender.flight());
    }
}
