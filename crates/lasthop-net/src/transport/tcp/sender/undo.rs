//! Undoing reductions after spurious timeouts and retransmissions: F-RTO (Sarolahti, Kojo, Yamamoto and Hata, RFC
//! 5682), Eifel (Ludwig and Meyer, RFC 3522; Ludwig and Gurtov, RFC 4015) and DSACK undo (Linux).
//!
//! *What it does.* Saves the window and the controller before a reduction. If later ACKs show that nothing was lost,
//! the reduction is undone and the sender continues from the saved state.
//!
//! *Reacts to* the first two ACKs after a timeout (F-RTO, without and with SACK); an ACK of new data that echoes a
//! timestamp from before the first retransmission (Eifel); as many DSACK blocks as there were retransmissions.
//!
//! *Differs from the paper:* the response either restores everything (Linux) or is that of RFC 4015. In the `linux`
//! profile F-RTO also runs after repeated timeouts of the same data, and undoes all of them; RFC 5682 excludes that.
//! There the first ACK of a segment that was sent only once is enough, as in Linux; RFC 5682 sends new data first. RFC
//! 4015 adapts the timer with the first RTT after the response, here with the RTT of the ACK that revealed the
//! spurious timeout, and only with timestamps.
//!
//! *Validation:* hand-worked cases TV-2.14 below; a delay spike in `crates/lasthop-sim/tests/linux_recovery.rs`.
//!
//! *Limitations:* reductions for ECN are never undone, and a mark ends the chance to undo the one before. Nor is one
//! for a lost SYN. F-RTO needs new data to send. The duplicate threshold is not adapted (RFC 4653).
//!
//! *Kernel counterpart:* `tcp_process_loss`, `tcp_try_undo_loss`, `tcp_try_undo_dsack` and `tcp_packet_delayed`.
//!
//! *References:* RFC 5682 §2.1 and §3.1; RFC 3522 §3.2; RFC 4015 §3.2; RFC 2883; RFC 3708.

use lasthop_cc::host::Memory;
use lasthop_core::packet::{Packet, flag};
use lasthop_core::time::Time;

use super::recovery::{Evidence, RecoveryEngine};
use super::{Action, Connection};
use crate::transport::sack::SackBlocks;
use crate::transport::tcp::config::{SpuriousConfig, SpuriousResponse, TcpConfig};
use crate::transport::tcp::segments::Segment;
use crate::transport::wire::Wire;

/// One tick of the timestamps of Linux, in nanoseconds.
const MILLISECOND: u64 = 1_000_000;

/// Where F-RTO stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Idle,
    /// Waits for the first ACK of new data after the timeout.
    First,
    /// Has sent new data and waits for the ACK that decides.
    Second,
}

/// Before the last reduction.
#[derive(Clone, Debug)]
struct Before {
    timeout: bool,
    kept: Memory,
    /// The larger of flight and ssthresh (`pipe_prev` of RFC 4015).
    pipe: f64,
    /// What was outstanding.
    from: u64,
    to: u64,
    /// When the first retransmission was sent.
    retransmitted: Option<Time>,
    /// The first ACK of new data after it has been looked at.
    judged: bool,
    /// Retransmissions that no DSACK has accounted for.
    unaccounted: u32,
}

/// The memory of one sender.
#[derive(Clone, Debug)]
pub(super) struct Undo {
    config: SpuriousConfig,
    linux: bool,
    before: Option<Before>,
    step: Step,
    /// Segments that DSACKs have told of, and those that the present one tells of, if our copies explain them.
    dsacks: u32,
    heard: u32,
}

impl Undo {
    /// `None` if nothing is to be undone.
    pub(super) fn new(config: &TcpConfig, linux: bool) -> Option<Box<Undo>> {
        let spurious = config.spurious_in_effect();
        let any = spurious.frto || spurious.eifel || spurious.dsack_undo;
        any.then(|| {
            Box::new(Undo { config: spurious, linux, before: None, step: Step::Idle, dsacks: 0, heard: 0 })
        })
    }

    /// A segment is sent again.
    pub(super) fn on_retransmission(&mut self, seq: u64, now: Time) {
        if let Some(before) = &mut self.before
            && seq < before.to
        {
            before.retransmitted.get_or_insert(now);
            before.unaccounted += 1;
        }
    }

    /// The last reduction stands.
    pub(super) fn forget(&mut self) {
        self.before = None;
        self.step = Step::Idle;
    }

    /// What DSACKs tell of is counted. Linux ignores one when they tell of more than it has ever sent again: that is
    /// a copy of the network's (`tcp_dsack_seen`).
    fn hear(&mut self, (start, end): (u64, u64), copies: u32, mss: u32) {
        let segments = if self.linux { end.saturating_sub(start).div_ceil(u64::from(mss)) as u32 } else { 1 };
        self.dsacks = self.dsacks.saturating_add(segments);
        self.heard = if self.linux && self.dsacks > copies { 0 } else { segments };
    }

    /// Counts the DSACK that has been heard; returns whether all retransmissions have turned out to be needless.
    fn on_dsack(&mut self, (start, end): (u64, u64)) -> bool {
        let Some(before) = &mut self.before else { return false };
        // Linux looks only at where the range ends (`tcp_check_dsack`).
        let concerns = if self.linux { end > before.from } else { start >= before.from && end <= before.to };
        if !self.config.dsack_undo || before.unaccounted == 0 || self.heard == 0 || !concerns {
            return false;
        }
        before.unaccounted = before.unaccounted.saturating_sub(self.heard);
        before.unaccounted == 0
    }

    /// Eifel detection: whether an ACK of new data with this echo answers an original.
    fn on_echo(&mut self, echo: Time) -> bool {
        let Some(before) = &mut self.before else { return false };
        let Some(retransmitted) = before.retransmitted else { return false };
        if self.linux {
            // Each ACK of new data is looked at (`tcp_packet_delayed`); timestamps count milliseconds.
            return self.config.eifel && echo.0 / MILLISECOND < retransmitted.0 / MILLISECOND;
        }
        self.config.eifel && !std::mem::replace(&mut before.judged, true) && echo < retransmitted
    }
}

impl Connection {
    /// A reduction is about to be made; `timeout`: because the timer expired.
    pub(super) fn keep_before(&mut self, timeout: bool) {
        let flight = (self.next - self.una) as f64 / f64::from(self.mss);
        let (una, max_sent) = (self.una, self.max_sent);
        let Some(undo) = &mut self.undo else { return };
        undo.step = Step::Idle;
        if let Some(before) = undo.before.as_mut().filter(|before| timeout && una < before.to) {
            // The data of the last reduction is still being repaired.
            if undo.linux {
                // No further reduction, and what is kept stays: a later ACK may still show that there was no loss.
                if std::mem::replace(&mut before.timeout, true) && undo.config.frto {
                    undo.step = Step::First;
                }
            } else if !before.timeout {
                undo.before = None;
            }
            return;
        }
        // Copies of before the reduction may be under way, and their answers must not pass for those of originals.
        let mut copies = 0;
        let (mut retransmitted, mut judged) = (None, false);
        for segment in self.segments.iter().filter(|segment| segment.transmissions > 1 && !segment.sacked) {
            copies += 1;
            judged |= segment.transmissions > 2;
            retransmitted =
                Some(retransmitted.map_or(segment.last_sent, |at: Time| at.min(segment.last_sent)));
        }
        undo.before = Some(Before {
            timeout,
            kept: self.host.remember(),
            pipe: flight.max(self.host.window.ssthresh),
            from: una,
            to: max_sent,
            retransmitted,
            judged,
            unaccounted: copies,
        });
        if timeout && undo.config.frto {
            undo.step = Step::First;
        }
    }

    /// Whether the DSACK of the present ACK tells of a copy of ours.
    pub(super) fn hears_of_copy(&self) -> bool {
        self.undo.as_ref().is_none_or(|undo| undo.heard > 0)
    }

    /// F-RTO has sent new data and retransmits nothing until the next ACK.
    #[inline]
    pub(super) fn awaits_verdict(&self) -> bool {
        self.undo.as_ref().is_some_and(|undo| undo.step == Step::Second)
    }

    /// An ACK has arrived; its recovery engine sees it after this.
    pub(super) fn look_for_spurious<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        packet: &Packet,
        sack: Option<&SackBlocks>,
        now: Time,
        wire: &mut W,
    ) {
        let Some(undo) = &mut self.undo else { return };
        let ack = packet.seq;
        let duplicate = sack.and_then(|sack| sack.duplicate(ack));
        if let Some(duplicate) = duplicate {
            undo.hear(duplicate, self.copies, self.mss);
        }
        let Some(to) = undo.before.as_ref().map(|before| before.to) else { return };
        if self.ecn && packet.has(flag::ECE) {
            // RFC 4015 §3.2: whatever happened, there is congestion.
            undo.forget();
            return;
        }
        if let Some(duplicate) = duplicate
            && undo.on_dsack(duplicate)
        {
            let early = undo.before.as_ref().is_some_and(|before| before.timeout);
            let evidence = if early { Evidence::Early } else { Evidence::Copies };
            self.undo_reduction(engine, packet, evidence, now);
            return;
        }
        if ack > self.una && undo.on_echo(packet.echo) {
            let early = undo.before.as_ref().is_some_and(|before| before.timeout);
            let partial = ack < to;
            if self.linux && !early && partial {
                let copies = self.segments.iter().any(|segment| segment.end() > ack && segment.repaired);
                engine.on_late_original(self, ack, copies);
                if copies {
                    return;
                }
            }
            let evidence = if early { Evidence::Early } else { Evidence::Original { partial } };
            self.undo_reduction(engine, packet, evidence, now);
            return;
        }
        let step = undo.step;
        match step {
            Step::Idle => {}
            Step::First if self.acknowledges_original(engine, ack, sack, to) => {
                self.undo_reduction(engine, packet, Evidence::Early, now);
            }
            Step::First => self.on_first_ack(engine, ack, to),
            Step::Second => self.on_second_ack(engine, packet, sack, to, now, wire),
        }
    }

    /// Whether an ACK tells of a segment that was outstanding at the timeout and was sent but once. To Linux that is
    /// enough: it does not send new data first.
    fn acknowledges_original<E: RecoveryEngine>(
        &self,
        engine: &E,
        ack: u64,
        sack: Option<&SackBlocks>,
        to: u64,
    ) -> bool {
        let linux = self.undo.as_ref().is_some_and(|undo| undo.linux);
        let blocks = sack.map_or(&[][..], SackBlocks::as_slice);
        let arrived = |segment: &Segment| {
            let (seq, end) = (segment.seq, segment.end());
            end <= ack || blocks.iter().any(|&(first, last)| first <= seq && end <= last)
        };
        // Without SACK an ACK that covers a copy may be the answer to it.
        let covers_copy = |segment: &Segment| segment.end() <= ack && segment.transmissions > 1;
        if !engine.reads_sack() && self.segments.first().is_some_and(covers_copy) {
            return false;
        }
        linux
            && E::SCOREBOARD
            && self
                .segments
                .iter()
                .take_while(|segment| segment.end() <= to)
                .any(|segment| segment.transmissions == 1 && !segment.sacked && arrived(segment))
    }

    /// Step 2 of F-RTO.
    fn on_first_ack<E: RecoveryEngine>(&mut self, engine: &E, ack: u64, to: u64) {
        let advances = ack > self.una;
        if !advances && engine.reads_sack() {
            // RFC 5682 §3.1: SACK blocks are noted; the next ACK of new data decides.
            return;
        }
        let mss = u64::from(self.mss);
        let outstanding = (self.max_sent - ack.max(self.una)).div_ceil(mss);
        let room = outstanding < u64::from(self.peer.segments);
        let proceeds = advances && ack < to && room && self.has_unsent();
        let Some(undo) = &mut self.undo else { return };
        if !proceeds {
            undo.step = Step::Idle;
            return;
        }
        undo.step = Step::Second;
        // Two new segments, and nothing else.
        self.next = self.max_sent;
        self.host.window.cwnd = outstanding as f64 + 2.0;
        self.usage.barred = true;
    }

    /// Step 3 of F-RTO.
    fn on_second_ack<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        packet: &Packet,
        sack: Option<&SackBlocks>,
        to: u64,
        now: Time,
        wire: &mut W,
    ) {
        let ack = packet.seq;
        let advances = ack > self.una;
        let scoreboard = engine.reads_sack();
        // RFC 5682 §3.1: if the new data has arrived and older data has not, that is lost.
        let beyond = ack > to || sack.is_some_and(|sack| sack.as_slice().iter().any(|&(_, end)| end > to));
        let spurious = if scoreboard {
            !beyond && (advances || sack.is_some_and(|sack| engine.has_news(sack, self.una)))
        } else {
            advances
        };
        if spurious {
            self.undo_reduction(engine, packet, Evidence::Early, now);
            return;
        }
        let conventional = if scoreboard { beyond } else { ack == self.una };
        if !conventional {
            return;
        }
        if let Some(undo) = &mut self.undo {
            undo.step = Step::Idle;
        }
        self.host.window.cwnd = self.host.window.cwnd.min(3.0);
        if !E::SCOREBOARD {
            self.next = self.una;
        }
        engine.fill(self, now, wire);
    }

    /// The last reduction was a mistake.
    fn undo_reduction<E: RecoveryEngine>(
        &mut self,
        engine: &mut E,
        packet: &Packet,
        evidence: Evidence,
        now: Time,
    ) {
        let Some(undo) = &mut self.undo else { return };
        let response = undo.config.response;
        // F-RTO has inflated the window for the two segments that it sent.
        let inflated = undo.step == Step::Second;
        let Some(before) = undo.before.take() else { return };
        undo.step = Step::Idle;
        let ack = packet.seq.max(self.una);
        let ongoing = self.una < before.to;
        let acked = (ack - self.una) as f64 / f64::from(self.mss);
        match response {
            SpuriousResponse::Restore => {
                if inflated {
                    self.host.window.cwnd = 1.0;
                }
                self.host.undo(before.kept);
            }
            SpuriousResponse::Eifel => {
                let flight = (self.max_sent - ack) as f64 / f64::from(self.mss);
                self.host.window.cwnd = (flight + acked.min(self.host.initial_window())).max(1.0);
                self.host.window.ssthresh = before.pipe;
                self.host.undo_controller(before.kept);
                // This ACK has had its say.
                self.usage.barred = true;
                if before.timeout && self.timestamps && acked > 0.0 {
                    self.rtt.expect_at_least(now.since(packet.echo));
                }
            }
        }
        if let Some(prr) = &mut self.prr {
            prr.abandon();
        }
        if before.timeout {
            self.rtt.end_backoff();
        }
        self.count_undone(now);
        if !ongoing {
            // Recovery is over; only the window was still low.
            return;
        }
        self.inflation = 0;
        self.dup_acks = 0;
        self.first_partial = false;
        self.action = Action::Exited;
        self.next = self.max_sent;
        let una = self.una;
        if E::SCOREBOARD {
            engine.forget_losses(self, evidence);
        } else if before.unaccounted >= self.dup_threshold {
            // These copies provoke enough duplicate ACKs to look like a loss: `recover` stands against them.
            return;
        }
        self.host.recover = una;
        // With a scoreboard nothing is left of a timeout; to the others duplicates of this data mean nothing yet.
        self.timeout_recover = if E::SCOREBOARD { 0 } else { una };
    }
}

#[cfg(test)]
mod tests {
    use lasthop_cc::ControllerConfig;
    use lasthop_core::packet::Kind;

    use super::super::TcpSender;
    use super::super::recovery::with_engine;
    use super::super::testing::Rig;
    use super::*;
    use crate::transport::profile::Profile;
    use crate::transport::tcp::config::Recovery;

    /// Segments 11 to 20 are outstanding, W = 10, T = 5.
    fn rig(recovery: Recovery, change: impl FnOnce(&mut SpuriousConfig)) -> Rig {
        let reno = ControllerConfig::by_name("reno").unwrap();
        let mut config = TcpConfig::new(Profile::Rfc, reno, recovery);
        config.limited_transmit = false;
        config.delayed_ack = None;
        config.tlp = false;
        config.packet_size = 1040;
        config.spurious.response = SpuriousResponse::Restore;
        change(&mut config.spurious);
        config.timestamps = config.spurious.eifel;
        config.packet_size += if config.timestamps { 12 } else { 0 };
        Rig::new(&config).ten_outstanding()
    }

    fn frto(recovery: Recovery) -> Rig {
        rig(recovery, |spurious| spurious.frto = true)
    }

    /// TV-2.14.1: RFC 5682 §2.1. After the first ACK two new segments, after the second the old window.
    #[test]
    fn two_acks_that_advance_undo_a_timeout() {
        for recovery in [Recovery::Reno, Recovery::NewReno, Recovery::Sack, Recovery::Rack] {
            let mut rig = frto(recovery);
            assert_eq!(rig.time_out(), [11], "{recovery:?}");
            assert_eq!(rig.window(), (1.0, 5.0), "{recovery:?}");
            let first = rig.tape.packets.len();
            assert_eq!(rig.ack(12).len(), 2, "{recovery:?}");
            assert!(rig.tape.packets[first..].iter().all(|packet| !packet.note.again()));
            rig.ack(13);
            assert_eq!(rig.sender.stats.undone_reductions, 1, "{recovery:?}");
            assert!((rig.sender.host.window.cwnd - 10.1).abs() < 1e-9, "{recovery:?}: {:?}", rig.window());
            assert_eq!(rig.sender.stats.retransmitted, 1, "{recovery:?}");
        }
    }

    /// TV-2.14.2: a duplicate ACK after the new data: the timeout was right.
    #[test]
    fn a_duplicate_confirms_a_timeout() {
        let mut rig = frto(Recovery::NewReno);
        rig.time_out();
        assert_eq!(rig.ack(12), [21, 22]);
        assert_eq!(rig.ack(12), [12, 13, 14], "W = 3, from the hole on");
        assert_eq!(rig.window(), (3.0, 5.0));
        rig.ack(15);
        assert_eq!(rig.sender.stats.undone_reductions, 0);
    }

    /// TV-2.14.3: RFC 5682 §3.1. SACK blocks before the first ACK of new data decide nothing; news of old data after it
    /// undoes the timeout, news of the new data confirms it.
    #[test]
    fn with_sack_the_blocks_decide() {
        let mut rig = frto(Recovery::Sack);
        rig.time_out();
        assert_eq!(rig.sack(11, &[(15, 15)]), [0; 0]);
        assert_eq!(rig.sack(12, &[(15, 15)]), [21, 22]);
        assert_eq!(rig.sack(12, &[(15, 15)]), [0; 0], "no news");
        rig.sack(12, &[(15, 16)]);
        assert_eq!((rig.sender.stats.undone_reductions, rig.window()), (1, (10.0, 5.0)));

        let mut rig = frto(Recovery::Sack);
        rig.time_out();
        rig.sack(12, &[(15, 15)]);
        assert_eq!(rig.sack(12, &[(21, 21), (15, 15)]), [12]);
        assert_eq!((rig.sender.stats.undone_reductions, rig.window()), (0, (3.0, 5.0)));
    }

    /// RFC 5682 §2.1, step 2a: everything is acknowledged at once, or a second timeout hits the same data.
    #[test]
    fn what_proves_nothing_changes_nothing() {
        let mut rig = frto(Recovery::NewReno);
        rig.time_out();
        rig.ack(21);
        rig.ack(22);
        assert_eq!(rig.sender.stats.undone_reductions, 0);
        let mut rig = frto(Recovery::NewReno);
        rig.time_out();
        rig.time_out();
        rig.ack(12);
        rig.ack(13);
        assert_eq!(rig.sender.stats.undone_reductions, 0);
    }

    /// An ACK that expects `number` and echoes `echo`.
    fn echoing(rig: &mut Rig, number: u64, echo: Time) -> Vec<u64> {
        rig.now += lasthop_core::time::Span::from_millis(1);
        let packet = Packet {
            seq: (number - 1) * 1000 + 1,
            window: rig.sender.own_window,
            kind: Kind::Ack,
            echo,
            ..Packet::default()
        };
        rig.sender.on_ack(&packet, None, rig.now, &mut rig.tape);
        std::mem::take(&mut rig.tape.sent)
    }

    /// TV-2.14.4: RFC 3522: the echo of the original undoes the timeout with the first ACK; RFC 4015: F = 9, one
    /// segment acknowledged, so W = 10 and T = 10.
    #[test]
    fn the_echo_of_an_original_undoes_a_timeout() {
        for (response, window) in
            [(SpuriousResponse::Restore, (10.1, 5.0)), (SpuriousResponse::Eifel, (10.0, 10.0))]
        {
            for recovery in [Recovery::Reno, Recovery::NewReno, Recovery::Sack, Recovery::Rack] {
                let prepared = |spurious: &mut SpuriousConfig| {
                    (spurious.eifel, spurious.response) = (true, response);
                };
                let mut spurious = rig(recovery, prepared);
                let sent = spurious.now;
                assert_eq!(spurious.time_out(), [11]);
                assert_eq!(echoing(&mut spurious, 12, sent), [21], "{recovery:?} {response:?}");
                assert_eq!(spurious.sender.stats.undone_reductions, 1);
                assert!((spurious.window().0 - window.0).abs() < 1e-9, "{:?}", spurious.window());
                assert_eq!(spurious.window().1, window.1, "{recovery:?} {response:?}");
                let mut real = rig(recovery, prepared);
                real.time_out();
                let sent = real.now;
                echoing(&mut real, 12, sent);
                assert_eq!(real.sender.stats.undone_reductions, 0, "{recovery:?} {response:?}");
            }
        }
    }

    /// A copy of before the reduction answers after it: its echo is older than the copies that followed, and yet no
    /// original's.
    #[test]
    fn an_older_copy_does_not_pass_for_an_original() {
        let mut rig = rig(Recovery::Sack, |spurious| spurious.eifel = true);
        let copied = rig.now;
        let TcpSender { connection, engine } = &mut rig.sender;
        with_engine!(engine, engine => connection.retransmit_una(engine, copied, &mut rig.tape));
        rig.sack(11, &[(12, 14)]);
        assert_eq!(rig.sender.stats.fast_recoveries, 1);
        echoing(&mut rig, 15, copied);
        assert_eq!(rig.sender.stats.undone_reductions, 0);
    }

    /// After an undone timeout a real loss in the same window is repaired by duplicate ACKs, not by the next timeout.
    #[test]
    fn an_undone_timeout_does_not_bar_fast_retransmit() {
        let mut rig = rig(Recovery::NewReno, |spurious| spurious.eifel = true);
        let sent = rig.now;
        rig.time_out();
        echoing(&mut rig, 12, sent);
        assert_eq!(rig.sender.stats.undone_reductions, 1);
        let sent: Vec<u64> = (0..3).flat_map(|_| rig.ack(12)).collect();
        assert!(sent.contains(&12), "{sent:?}");
        assert_eq!(rig.sender.stats.fast_recoveries, 1);
    }

    /// TV-2.14.5: the one retransmission was a duplicate.
    #[test]
    fn dsacks_for_all_copies_undo_a_recovery() {
        let mut rig = rig(Recovery::Sack, |spurious| spurious.dsack_undo = true);
        for last in 12..=14 {
            rig.sack(11, &[(12, last)]);
        }
        assert_eq!((rig.window(), rig.sender.stats.retransmitted), ((5.0, 5.0), 1));
        rig.ack(15);
        rig.sack(15, &[(11, 11)]);
        assert_eq!((rig.sender.host.window.cwnd, rig.sender.stats.undone_reductions), (10.0, 1));
    }
}
