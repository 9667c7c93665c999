//! RACK-TLP: losses found by time (Cheng, Cardwell, Dukkipati and Jha, RFC 8985).
//!
//! *What it does.* A segment is lost if one that was sent later has been delivered and a reordering window has passed
//! since. Retransmissions are judged by the same rule, so that one that is lost is retransmitted without a timeout. If
//! the tail of a transfer is not acknowledged for two round trips, a probe (TLP) triggers an ACK that shows what is
//! missing.
//!
//! *Reacts to* SACK blocks, cumulative ACKs, DSACK blocks (which widen the reordering window), a reordering timer and
//! a probe timer.
//!
//! *Differs from the paper:* segments acknowledged by a cumulative ACK are distinguished from their retransmissions by
//! timestamps, SACKed ones by the minimum RTT only, because the echo of an ACK with SACK blocks belongs to another
//! segment (as Linux does). After a timeout the window is one segment more than the estimated data in flight (as in
//! Linux). The minimum RTT is that of the connection's life. New data is sent for SACKed data before a loss is found,
//! which is limited transmit. Transmissions of one instant count in the order of their sequence numbers, as the RFC
//! has it (§6.2, step 4): in a network without transmission times new data that left just before a retransmission
//! seems to have left after it, and the retransmission is repeated. The controller and `prr.rs` decide how far and how
//! fast the window falls.
//!
//! *Validation:* TV-2.12 and hand-worked cases below; simulations in `crates/lasthop-sim/tests/linux_recovery.rs`.
//!
//! *Limitations:* no reneging receivers. A reduction for a loss that a probe repaired is applied at once, without PRR.
//!
//! *Kernel counterpart:* `tcp_recovery.c` (RACK), `tcp_send_loss_probe` and `tcp_process_tlp_ack` (TLP).
//!
//! *References:* RFC 8985 §6 (RACK), §7 (TLP), §6.3 (after a timeout).

use std::collections::VecDeque;

use lasthop_cc::LossSample;
use lasthop_core::packet::Packet;
use lasthop_core::time::{Span, Time};

use super::super::alarms::Alarm;
use super::super::probing::Trigger;
use super::super::rate::note_lost;
use super::super::{Action, Connection};
use super::counted::Counting;
use super::scoreboard::Scoreboard;
use super::{Evidence, RecoveryEngine};
use crate::transport::sack::SackBlocks;
use crate::transport::tcp::segments::{Segment, Segments};
use crate::transport::wire::Wire;

/// How many recoveries without DSACK forget the wider reordering window (RFC 8985 §6.2.4).
const PERSISTENCE: u32 = 16;
/// What a receiver may delay an ACK of a single segment (`TLP.max_ack_delay`, RFC 8985 §7.2).
const MOST_ACK_DELAY: Span = Span::from_millis(200);
/// Linux takes no path to reorder by more segments (`tcp_max_reordering`).
pub(super) const MOST_REORDERING: u32 = 300;
/// Linux sets its timers later by this (`TCP_TIMEOUT_MIN_US`).
const LATENESS: Span = Span::from_millis(2);
/// One tick of its timers, with 250 Hz.
const TICK: u64 = 4_000_000;
/// One tick of its timestamps, in nanoseconds.
const STAMP: u64 = 1_000_000;
/// From this many ticks on they ring at every eighth only (`calc_wheel_index`).
const COARSE: u64 = 63;
/// Probe timeout before the first RTT sample (RFC 8985 §7.2).
const FIRST_PROBE: Span = Span::from_secs(1);

/// When a timer of Linux rings that is set now: with the tick behind the one by which the wait is over.
fn rings(wait: Span, now: Time) -> Time {
    let ticks = wait.0.div_ceil(TICK);
    let over = now.0 / TICK + ticks;
    let steps = if ticks < COARSE { 1 } else { 8 };
    Time((over / steps + 1) * steps * TICK)
}

/// One transmission of a segment.
#[derive(Clone, Copy, Debug)]
struct Transmission {
    at: Time,
    seq: u64,
    end: u64,
}

/// What an ACK has told.
#[derive(Clone, Copy, Debug)]
struct Told {
    advances: bool,
    /// It advanced and showed no loss.
    safe: bool,
    /// Segments newly delivered, also a second time.
    delivered: u32,
    /// Some of them were not known to be there.
    news: bool,
    /// The RTT of the newest of them, of those sent once.
    rtt: Option<Span>,
}

/// A tail loss probe on its way.
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// What the probe repeats starts here.
    seq: u64,
    /// End of all that was sent then (`TLP.end_seq`).
    end: u64,
    retransmits: bool,
}

/// What deliveries say about time.
#[derive(Clone, Debug)]
struct Clock {
    /// The transmission that was made last among those that have been delivered, and its RTT (`RACK.xmit_ts`,
    /// `RACK.end_seq`, `RACK.rtt`).
    newest: Option<(Time, u64)>,
    rtt: Span,
    least_rtt: Span,
    /// End of the highest segment delivered (`RACK.fack`).
    highest: u64,
    /// The same before the present ACK.
    reached: u64,
    /// Where the lowest segment begins that the present ACK has delivered after one behind it, sent once.
    late: u64,
    reordering_seen: bool,
    /// An RTT has been measured since the last probe (RFC 8985 §7.3).
    sampled: bool,
    /// Something was delivered since losses were looked for.
    advanced: bool,
    /// When the newest segment was sent that the present ACK delivers, if it delivers any.
    delivered: Option<Time>,
    /// How fine timestamps are, in nanoseconds.
    grain: u64,
}

impl Clock {
    /// RFC 8985 §6.2, steps 1 to 3, for one segment newly delivered, when everything up to `reached` at most was.
    /// `echo` is the timestamp that its own ACK echoes.
    #[inline]
    fn deliver(&mut self, segment: &Segment, echo: Option<Time>, reached: u64, now: Time) {
        let rtt = now.since(segment.last_sent);
        let end = segment.end();
        self.highest = self.highest.max(end);
        self.delivered = self.delivered.max(Some(segment.last_sent));
        if segment.transmissions > 1 {
            // It may be the original that has arrived.
            if echo.is_some_and(|echo| echo.0 / self.grain < segment.last_sent.0 / self.grain)
                || rtt < self.least_rtt
            {
                return;
            }
        } else {
            self.sampled = true;
            self.least_rtt = self.least_rtt.min(rtt);
            if end < reached {
                self.reordering_seen = true;
                self.late = self.late.min(segment.seq);
            }
        }
        // Of whatever was delivered last, also when it is not the newest.
        self.rtt = rtt;
        self.advanced = true;
        let sent = (segment.last_sent, end);
        if self.newest.is_none_or(|newest| sent > newest) {
            self.newest = Some(sent);
        }
    }
}

/// State of the engine.
#[derive(Clone, Debug)]
pub(in super::super) struct Rack {
    pub(super) board: Scoreboard,
    pub(super) counting: Counting,
    clock: Clock,
    /// Transmissions in the order in which they were made. Those that no longer matter are dropped at the front.
    order: VecDeque<Transmission>,
    /// The reordering window in quarters of the minimum RTT, and for how many recoveries that is remembered.
    quarters: u32,
    persistence: u32,
    /// A DSACK has widened the window in the round that ends here.
    dsack_round: Option<u64>,
    /// Linux: a DSACK has come that has not widened it yet, and when one did last.
    dsack_waits: bool,
    widened: Time,
    /// No segment below this waits for its repair.
    repair_from: u64,
    /// By how many segments the path is known to reorder; the duplicate threshold before.
    pub(super) reordering: u32,
    /// The present ACK answers an original while copies are under way.
    waits: bool,
    /// Where that ACK begins, until its blocks have been looked at.
    late_from: Option<u64>,
    pub(super) probing: bool,
    probe: Option<Probe>,
}

impl Rack {
    /// `probing`: send tail loss probes. `linux`: timestamps count milliseconds.
    pub(super) fn new(probing: bool, linux: bool) -> Rack {
        Rack {
            board: Scoreboard::default(),
            counting: Counting::default(),
            clock: Clock {
                newest: None,
                rtt: Span::ZERO,
                least_rtt: Span(u64::MAX),
                highest: 0,
                reached: 0,
                late: u64::MAX,
                reordering_seen: false,
                sampled: true,
                advanced: false,
                delivered: None,
                grain: if linux { STAMP } else { 1 },
            },
            order: VecDeque::new(),
            quarters: 1,
            persistence: 0,
            dsack_round: None,
            dsack_waits: false,
            widened: Time::ZERO,
            repair_from: 0,
            reordering: 0,
            waits: false,
            late_from: None,
            probing,
            probe: None,
        }
    }

    /// A segment was acknowledged cumulatively by an ACK that echoes the timestamp `echo`.
    #[inline]
    fn acknowledge(&mut self, segment: &Segment, echo: Option<Time>, now: Time) {
        self.board.forget(segment);
        if self.counting.on {
            self.take_from_count();
        }
        if !segment.sacked {
            let reached = self.clock.reached;
            self.clock.deliver(segment, echo, reached, now);
        }
    }

    /// Linux widens the window by DSACKs where reordering has been seen, with the next delivery, once per round trip:
    /// what is delivered was sent after the window was widened last (`tcp_rack_update_reo_wnd`).
    #[inline]
    fn widen_as_linux(&mut self, needless: bool, now: Time) {
        self.dsack_waits |= needless && self.clock.reordering_seen;
        let Some(sent) = self.clock.delivered.take() else { return };
        self.dsack_waits &= sent >= self.widened;
        if std::mem::take(&mut self.dsack_waits) {
            self.quarters = (self.quarters + 1).min(255);
            self.widened = now;
            self.persistence = PERSISTENCE;
        } else if self.persistence == 0 {
            self.quarters = 1;
        }
    }

    /// RFC 8985 §6.2.4: a DSACK says that a retransmission was needless.
    fn on_dsack(&mut self, next: u64) {
        if self.dsack_round.is_none() {
            self.dsack_round = Some(next);
            self.quarters = (self.quarters + 1).min(255);
            self.persistence = PERSISTENCE;
        }
    }

    /// A recovery has ended.
    fn on_exit(&mut self, linux: bool) {
        self.persistence = self.persistence.saturating_sub(1);
        if self.persistence == 0 && !linux {
            self.quarters = 1;
        }
    }

    /// How much later than a segment that was sent after it one may arrive without being lost.
    fn reordering_window(&self, srtt: Span, repairing: bool, dup_threshold: usize) -> Span {
        let sure = repairing || self.board.sacked_count >= dup_threshold;
        if self.clock.least_rtt == Span(u64::MAX) || (!self.clock.reordering_seen && sure) {
            return Span::ZERO;
        }
        Span((self.clock.least_rtt.0 / 4).saturating_mul(u64::from(self.quarters))).min(srtt)
    }

    /// Whether a transmission has neither been answered nor been given up.
    fn is_open(sent: &Transmission, segments: &Segments) -> bool {
        let segment = segments.find(sent.seq).and_then(|index| segments.get(index));
        segment.is_some_and(|segment| {
            let waits = !segment.sacked && (!segment.lost || segment.repaired);
            waits && segment.last_sent == sent.at
        })
    }

    /// RFC 8985 §6.2, step 5: marks what is lost by now. Returns how many were, and when to look again.
    fn detect(
        &mut self,
        window: Span,
        segments: &mut Segments,
        mut on_lost: impl FnMut(usize, &Segment),
        now: Time,
    ) -> (u32, Option<Time>) {
        let Some(newest) = self.clock.newest else { return (0, None) };
        let patience = self.clock.rtt + window;
        let mut found = 0;
        while let Some(&sent) = self.order.front() {
            if Self::is_open(&sent, segments) {
                if (sent.at, sent.end) >= newest {
                    return (found, None);
                }
                if sent.at + patience > now {
                    break;
                }
                self.mark(sent.seq, segments, &mut on_lost);
                found += 1;
            }
            self.order.pop_front();
        }
        // All that are still in doubt are judged together.
        let earlier = self.order.partition_point(|sent| sent.at <= newest.0);
        let last = self.order.range(..earlier).rev().find(|sent| {
            (sent.at, sent.end) < newest && sent.at + patience > now && Self::is_open(sent, segments)
        });
        (found, last.map(|sent| sent.at + patience))
    }

    /// The segment at `seq` is lost, or its repair is.
    fn mark(&mut self, seq: u64, segments: &mut Segments, on_lost: &mut impl FnMut(usize, &Segment)) {
        let Some(index) = segments.find(seq) else { return };
        let Some(segment) = segments.get_mut(index) else { return };
        on_lost(index, segment);
        if segment.repaired {
            segment.repaired = false;
            self.board.repaired_count -= 1;
        }
        if !segment.lost {
            segment.lost = true;
            self.board.lost_count += 1;
        }
        self.repair_from = self.repair_from.min(segment.seq);
    }

    /// The first outstanding segment is lost.
    pub(super) fn mark_first(&mut self, tcp: &mut Connection, now: Time) {
        let Connection { sampler, host, segments, una, .. } = tcp;
        let mut on_lost = |index: usize, segment: &Segment| note_lost(sampler, host, index, segment, now);
        self.mark(*una, segments, &mut on_lost);
    }

    /// The lowest lost segment that has not been sent again.
    fn next_lost(&mut self, una: u64, segments: &Segments) -> Option<usize> {
        if self.board.lost_count == self.board.repaired_count {
            return None;
        }
        let mut index = segments.find(self.repair_from.max(una))?;
        while let Some(segment) = segments.get(index) {
            if segment.lost && !segment.repaired && !segment.sacked {
                self.repair_from = segment.seq;
                return Some(index);
            }
            index += 1;
        }
        None
    }

    /// RFC 8985 §6.3: a timeout takes the first segment for lost, and others only if their time has passed too.
    fn mark_after_timeout(
        &mut self,
        una: u64,
        window: Span,
        segments: &mut Segments,
        mut on_lost: impl FnMut(usize, &Segment),
        now: Time,
    ) {
        let patience = self.clock.newest.map(|_| self.clock.rtt + window);
        let (mut lost, mut repaired) = (0, 0);
        for (index, segment) in segments.iter_mut().enumerate().filter(|(_, segment)| !segment.sacked) {
            let expired = patience.is_none_or(|patience| segment.last_sent + patience <= now);
            if expired || segment.seq <= una {
                if !segment.lost || segment.repaired {
                    on_lost(index, segment);
                }
                segment.lost = true;
                segment.repaired = false;
            }
            lost += usize::from(segment.lost);
            repaired += usize::from(segment.repaired);
        }
        self.board.lost_count = lost;
        self.board.repaired_count = repaired;
        self.board.in_recovery = false;
        self.repair_from = una;
        self.probe = None;
    }

    /// Transmissions that memory is kept for.
    pub(in super::super) fn room(&self) -> usize {
        self.order.capacity()
    }
}

impl RecoveryEngine for Rack {
    const SCOREBOARD: bool = true;

    fn reads_sack(&self) -> bool {
        !self.counting.on
    }

    fn forget(&mut self) {
        self.order = VecDeque::new();
    }

    /// Takes an ACK under RACK.
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
            self.on_old_ack(tcp, packet, sack, now, wire);
            return;
        }
        let advances = ack > tcp.una;
        let undelivered = self.undelivered(tcp);
        let reached = self.clock.highest;
        let duplicate = sack.and_then(|sack| sack.duplicate(ack)).filter(|_| tcp.hears_of_copy());
        let sacked_rtt = self.note_sacked(tcp, sack, now);
        let mut rtt = None;
        if advances {
            self.clock.reached = reached;
            rtt = self.advance(tcp, packet, now, wire);
        } else if tcp.linux && sacked_rtt.is_some() {
            Self::sample_sacked(tcp, now, wire);
        } else if self.counting.on {
            self.count_duplicate(tcp);
        }
        self.note_reordering(tcp);
        let (una, next) = (tcp.una, tcp.next);
        self.dsack_round = self.dsack_round.filter(|&round| una < round);
        let probed_twice = self
            .probe
            .is_some_and(|probe| probe.retransmits && duplicate.is_some_and(|(_, end)| end == probe.end));
        if tcp.linux {
            self.widen_as_linux(duplicate.is_some() && !probed_twice, now);
        } else if duplicate.is_some() && !probed_twice {
            self.on_dsack(next);
        }
        let mut delivered = (undelivered - self.undelivered(tcp)) as u32;
        let news = delivered > 0;
        if tcp.linux && duplicate.is_some() {
            // A copy that was delivered is a delivery.
            delivered += 1;
            if let Some(sampler) = &mut tcp.sampler {
                sampler.on_repeated();
            }
        }
        self.on_answer_to_probe(tcp, ack, !advances && sack.is_none(), probed_twice, now, wire);
        let waits = std::mem::take(&mut self.waits);
        let found = if self.counting.on {
            if advances {
                self.settle_count(tcp);
            }
            !waits && self.find_by_count(tcp, advances, now)
        } else if waits {
            false
        } else {
            self.detect_losses(tcp, now, wire)
        };
        tcp.note_delivered(delivered);
        let safe = advances && !found;
        if tcp.linux {
            let told = Told { advances, safe, delivered, news, rtt: sacked_rtt.or(rtt) };
            self.act_as_linux(tcp, packet, told, now, wire);
        } else {
            self.act_on_losses(tcp, safe, now, wire);
        }
        self.fill(tcp, now, wire);
        if delivered > 0 {
            self.arm_probe(tcp, advances, now, wire);
        }
    }

    /// Sends what `cwnd - pipe` allows: losses first, then new data.
    #[inline]
    fn fill<W: Wire>(&mut self, tcp: &mut Connection, now: Time, wire: &mut W) {
        let board = &self.board;
        let clean = !board.in_recovery && board.lost_count == 0 && board.sacked_count == 0;
        let before = tcp.max_sent;
        if clean || tcp.awaits_verdict() {
            tcp.fill_window_burst(self, u32::MAX, now, wire);
        } else {
            loop {
                let pipe = self.board.pipe(tcp.segments.len());
                if pipe >= tcp.host.window.cwnd as usize || tcp.held_back(now, wire) {
                    break;
                }
                if self.repair_next_lost(tcp, now, wire) {
                    continue;
                }
                let sent = tcp.max_sent;
                if tcp.has_room() && !tcp.awaits_train(self, pipe as u32, now) {
                    tcp.send_new(self, now, wire);
                }
                if tcp.max_sent == sent {
                    // Nothing to send, or the receiver's window is full.
                    break;
                }
            }
            if tcp.max_sent > before || tcp.has_new() {
                let pipe = self.board.pipe(tcp.segments.len()) as u32;
                tcp.note_usage(pipe, false);
            }
        }
        if tcp.max_sent > before {
            self.arm_probe(tcp, false, now, wire);
        }
    }

    fn enter_recovery<W: Wire>(&mut self, tcp: &mut Connection, now: Time, wire: &mut W) {
        tcp.alarms.cancel(Alarm::TailProbe);
        if tcp.begins_probing(Trigger::DuplicateAcks, now, wire) {
            return;
        }
        if !(tcp.action == Action::Ecn && tcp.una <= tcp.host.recover) {
            let before = tcp.host.window.cwnd;
            let reduction = tcp.answer_loss(self, now, wire);
            tcp.reduce(reduction);
            tcp.host.window.cwnd = tcp.host.window.cwnd.min(before).max(1.0);
            tcp.begin_prr(self, before);
        }
        tcp.host.recover = tcp.max_sent;
        tcp.action = Action::DuplicateAcks;
        tcp.timed = None;
        tcp.count_recovery(now);
        self.board.in_recovery = true;
        self.probe = None;
        tcp.set_timer(now, wire);
        let pipe = self.board.pipe(tcp.segments.len());
        tcp.apply_prr(pipe, false);
        if pipe >= tcp.host.window.cwnd as usize {
            // The first retransmission does not wait until the window has room.
            self.repair_next_lost(tcp, now, wire);
        }
    }

    /// The segment at `una` is lost, whatever is known of it.
    fn repair_first<W: Wire>(&mut self, tcp: &mut Connection, _inflate: bool, now: Time, wire: &mut W) {
        self.mark_first(tcp, now);
        if !self.board.in_recovery {
            self.enter_recovery(tcp, now, wire);
        }
    }

    /// Everything has been acknowledged, whatever was being repaired (`probing.rs`).
    fn leave_recovery(&mut self, tcp: &mut Connection) {
        tcp.end_prr();
        self.board.in_recovery = false;
    }

    /// After a timeout: see [`Rack::mark_after_timeout`].
    fn rewind(&mut self, tcp: &mut Connection, now: Time) {
        let (una, srtt) = (tcp.una, tcp.rtt.srtt());
        let threshold = tcp.dup_threshold as usize;
        tcp.alarms.cancel(Alarm::Reordering);
        tcp.alarms.cancel(Alarm::TailProbe);
        tcp.next = tcp.max_sent;
        if self.counting.on {
            self.board.sacked_count = 0;
        }
        if tcp.linux && self.board.sacked_count >= threshold {
            self.reordering = self.reordering.min(tcp.dup_threshold);
        }
        // Linux leaves the reordering window out here.
        let window = if tcp.linux { Span::ZERO } else { self.reordering_window(srtt, true, threshold) };
        let Connection { sampler, host, segments, .. } = &mut *tcp;
        let on_lost = |index: usize, segment: &Segment| note_lost(sampler, host, index, segment, now);
        self.mark_after_timeout(una, window, segments, on_lost, now);
        let pipe = self.board.pipe(tcp.segments.len()) as f64;
        tcp.host.window.cwnd = tcp.host.window.cwnd.max(pipe + 1.0);
    }

    /// What an ACK says while its sender does not act on it (`probing.rs`).
    fn note(&mut self, tcp: &mut Connection, sack: Option<&SackBlocks>, now: Time) {
        let una = tcp.una;
        self.board.sacked.remove_below(una);
        self.note_sacked(tcp, sack, now);
    }

    /// The reordering timer: whatever is still missing is lost.
    fn on_reordering_timer<W: Wire>(&mut self, tcp: &mut Connection, now: Time, wire: &mut W) {
        self.clock.advanced = true;
        if !Self::rests(tcp) && self.detect_losses(tcp, now, wire) {
            // Linux enters recovery as if one segment had been delivered.
            tcp.note_delivered(u32::from(tcp.linux && !self.board.in_recovery));
            self.act_on_losses(tcp, false, now, wire);
            self.fill(tcp, now, wire);
        }
    }

    /// RFC 8985 §7.3: the probe timer rang. Sends new data if there is any, else the last segment again.
    fn on_tail_probe_timer<W: Wire>(&mut self, tcp: &mut Connection, now: Time, wire: &mut W) {
        let rests = Self::rests(tcp);
        let busy = rests || self.board.in_recovery || self.probe.is_some();
        if busy || !std::mem::take(&mut self.clock.sampled) {
            if tcp.linux && self.probe.is_some() && !rests {
                // From here on the timer counts from when the first segment was sent (`tcp_rearm_rto`).
                tcp.count_timer_from_first(now, wire);
            }
            return;
        }
        let Some(last) = tcp.segments.len().checked_sub(1) else { return };
        let sent = tcp.max_sent;
        if tcp.has_room() {
            tcp.send_new(self, now, wire);
        }
        let retransmits = tcp.max_sent == sent;
        let mut seq = sent;
        if retransmits {
            seq = tcp.segments.get(last).map_or(seq, |segment| segment.seq);
            tcp.timed = None;
            tcp.retransmit_index(self, last, now, wire);
        }
        let end = tcp.max_sent;
        self.probe = Some(Probe { seq, end, retransmits });
        tcp.set_timer(now, wire);
    }

    /// Takes down a transmission.
    #[inline]
    fn on_sent(&mut self, _tcp: &Connection, seq: u64, end: u64, now: Time) {
        self.order.push_back(Transmission { at: now, seq, end });
    }

    #[inline]
    fn on_covered(&mut self, segment: &Segment, after_timeout: bool, echo: Option<Time>, now: Time) -> bool {
        // SACKed in order to be overtaken, not to be repaired: the window may grow for it now.
        let counts = segment.sacked && !self.board.in_recovery && !after_timeout;
        self.acknowledge(segment, echo, now);
        counts
    }

    fn forget_below(&mut self, ack: u64) {
        self.board.sacked.remove_below(ack);
    }

    fn flight_at_loss(&self, tcp: &Connection) -> f64 {
        // What it sends before it is sure of a loss is limited transmit.
        tcp.sent_flight().min(tcp.host.window.cwnd)
    }

    fn least_rtt(&self) -> Option<Span> {
        (self.clock.least_rtt < Span(u64::MAX)).then_some(self.clock.least_rtt)
    }

    #[inline]
    fn board(&self) -> Option<&Scoreboard> {
        Some(&self.board)
    }

    /// Every outstanding segment is judged afresh.
    fn forget_losses(&mut self, tcp: &mut Connection, evidence: Evidence) {
        self.clock.advanced = true;
        let partial = evidence == Evidence::Original { partial: true };
        if tcp.linux && evidence != Evidence::Early && !partial {
            // `tcp_try_undo_dsack`, `tcp_try_undo_recovery`: what was found lost besides is.
            self.board.in_recovery = false;
            if evidence == Evidence::Copies {
                self.persistence = (self.persistence + 1).min(PERSISTENCE);
            }
            return;
        }
        self.board.forget_losses(&mut tcp.segments);
        self.repair_from = tcp.una;
        if !(tcp.linux && partial) {
            // What was taken for the delivery of a copy was that of an original.
            self.clock.newest = None;
            self.clock.reordering_seen |= evidence != Evidence::Early;
        }
        self.order.clear();
        let unsacked = tcp.segments.iter().filter(|segment| !segment.sacked);
        self.order.extend(unsacked.map(|segment| Transmission {
            at: segment.last_sent,
            seq: segment.seq,
            end: segment.end(),
        }));
        self.order.make_contiguous().sort_by_key(|sent| (sent.at, sent.end));
    }

    /// By how many segments the path reorders (`tcp_check_sack_reordering`).
    fn on_late_original(&mut self, tcp: &Connection, ack: u64, waits: bool) {
        self.waits = waits;
        if !self.counting.on {
            self.late_from = Some(tcp.una);
            return;
        }
        let reached = if self.board.sacked_count > 0 { self.end_of_count(tcp, ack) } else { ack };
        self.note_degree(tcp, tcp.una, reached);
    }
}

impl Rack {
    /// Outstanding segments that are not known to be there.
    fn undelivered(&self, tcp: &Connection) -> usize {
        tcp.segments.len() - self.board.sacked_count
    }

    /// Marks what the blocks report. Returns the RTT of the newest segment among them that was sent once.
    fn note_sacked(&mut self, tcp: &mut Connection, sack: Option<&SackBlocks>, now: Time) -> Option<Span> {
        tcp.sacked_rtt = Span::ZERO;
        let una = tcp.una;
        let sack = sack?;
        let Rack { board, clock, .. } = self;
        // In ascending order: what a lost ACK would have told first must not look like reordering.
        let blocks = sack.ascending();
        let sampler = &mut tcp.sampler;
        // When the first and the last of them were sent, of those that were sent once.
        let mut sent: Option<(Time, Time)> = None;
        board.note(blocks.as_slice(), una, &mut tcp.segments, |index, segment| {
            let reached = clock.highest;
            clock.deliver(segment, None, reached, now);
            if segment.transmissions == 1 {
                sent = Some((sent.map_or(segment.last_sent, |(first, _)| first), segment.last_sent));
            }
            if let Some(sampler) = sampler {
                sampler.on_delivered(index, segment.transmissions == 1);
            }
        });
        let (first, last) = sent?;
        tcp.sacked_rtt = now.since(first);
        Some(now.since(last))
    }

    /// If the present ACK has delivered something late: by how many segments the path reorders.
    #[inline]
    fn note_reordering(&mut self, tcp: &Connection) {
        if let Some(from) = self.late_from.take() {
            let reached = self.board.sacked.last().map_or(tcp.una, |(_, end)| end);
            self.note_degree(tcp, from, reached);
        }
        if self.clock.late == u64::MAX {
            return;
        }
        let late = std::mem::replace(&mut self.clock.late, u64::MAX);
        let reached = if self.board.sacked_count > 0 { self.clock.highest } else { tcp.una };
        self.note_degree(tcp, late, reached);
    }

    /// What begins at `from` came when all up to `reached` may have been here.
    fn note_degree(&mut self, tcp: &Connection, from: u64, reached: u64) {
        let degree = reached.saturating_sub(from).div_ceil(u64::from(tcp.mss)) as u32;
        if degree > 0 {
            self.reordering = self.reordering.max(degree.min(MOST_REORDERING));
            self.clock.reordering_seen = true;
        }
    }

    /// An ACK that SACKs and does not advance measures the RTT (Linux); if what it reports was sent before the oldest
    /// segment was sent last, the timer starts anew.
    fn sample_sacked<W: Wire>(tcp: &mut Connection, now: Time, wire: &mut W) {
        let rtt = std::mem::replace(&mut tcp.sacked_rtt, Span::ZERO);
        tcp.rtt.sample(now - rtt, now, tcp.una, tcp.next, false);
        tcp.rtt.end_backoff();
        if tcp.segments.first().is_some_and(|first| now - rtt < first.last_sent) {
            tcp.set_timer(now, wire);
        }
    }

    /// An ACK below `una`: another has overtaken it, and what its SACK blocks report counts (RFC 6675 §4,
    /// `Update`). With timestamps it is not acceptable (RFC 7323 §5.3, R1); Linux lets one tick pass, and sends what
    /// the window has room for after any: a DSACK may have given it back.
    #[cold]
    fn on_old_ack<W: Wire>(
        &mut self,
        tcp: &mut Connection,
        packet: &Packet,
        sack: Option<&SackBlocks>,
        now: Time,
        wire: &mut W,
    ) {
        let late = !tcp.linux && tcp.timestamps && packet.stamp < tcp.peer_stamp;
        if sack.is_none() || late || Self::rests(tcp) {
            return;
        }
        let undelivered = self.undelivered(tcp);
        self.note_sacked(tcp, sack, now);
        self.note_reordering(tcp);
        let news = self.undelivered(tcp) < undelivered;
        if news && self.detect_losses(tcp, now, wire) {
            tcp.note_delivered((undelivered - self.undelivered(tcp)) as u32);
            self.act_on_losses(tcp, false, now, wire);
        }
        if news || tcp.linux {
            self.fill(tcp, now, wire);
        }
    }

    /// Whether something else than the window keeps the sender from sending.
    fn rests(tcp: &Connection) -> bool {
        tcp.is_probing() || tcp.is_frozen() || tcp.waits_for_timer
    }

    /// Moves `una`. Returns the RTT of the newest segment covered, where growth comes later (Linux).
    fn advance<W: Wire>(
        &mut self,
        tcp: &mut Connection,
        packet: &Packet,
        now: Time,
        wire: &mut W,
    ) -> Option<Span> {
        let recover = tcp.host.recover;
        let board = &mut self.board;
        board.sacked.remove_below(packet.seq);
        let repaired = tcp.una < tcp.timeout_recover && packet.seq >= tcp.timeout_recover;
        let mut rtt = None;
        if tcp.linux {
            rtt = tcp.take_new_ack(self, packet, now, wire);
        } else if self.board.in_recovery {
            tcp.accept_ack_in_recovery(self, packet, now, wire);
        } else {
            let spread = tcp.is_reducing();
            tcp.accept_new_ack(self, packet, now, !spread, wire);
        }
        if !self.board.in_recovery {
            if tcp.is_reducing() && tcp.una > recover {
                // The answer to a mark has been carried out.
                tcp.end_prr();
            }
            if repaired {
                self.on_exit(tcp.linux);
            }
        } else if packet.seq >= recover && !(self.counting.on && packet.seq == recover) {
            tcp.end_prr();
            tcp.end_kept_window();
            self.board.in_recovery = false;
            self.on_exit(tcp.linux);
            tcp.action = Action::Exited;
        }
        rtt
    }

    /// Looks for losses and sets the timer for those that may become some. Returns whether any was found.
    fn detect_losses<W: Wire>(&mut self, tcp: &mut Connection, now: Time, wire: &mut W) -> bool {
        if tcp.linux && !std::mem::take(&mut self.clock.advanced) {
            return false;
        }
        let (srtt, after_timeout) = (tcp.rtt.srtt(), tcp.una < tcp.timeout_recover);
        let threshold = tcp.dup_threshold as usize;
        let window = self.reordering_window(srtt, self.board.in_recovery || after_timeout, threshold);
        let Connection { sampler, host, segments, .. } = tcp;
        let on_lost = |index: usize, segment: &Segment| note_lost(sampler, host, index, segment, now);
        let (found, again) = self.detect(window, segments, on_lost, now);
        match again {
            Some(at) => {
                let at = if tcp.linux { rings(at.since(now) + LATENESS, now) } else { at };
                tcp.set_alarm(Alarm::Reordering, at, wire);
            }
            None => tcp.alarms.cancel(Alarm::Reordering),
        }
        found > 0
    }

    /// Acts on losses in the order of Linux: the law hears the RTT, then of the loss, and what is no repair grows the
    /// window last, so that the ACK that ends a recovery counts.
    #[inline]
    fn act_as_linux<W: Wire>(
        &mut self,
        tcp: &mut Connection,
        packet: &Packet,
        told: Told,
        now: Time,
        wire: &mut W,
    ) {
        let Told { advances, safe, delivered, news, mut rtt } = told;
        if !advances && let Some(rtt) = rtt.take() {
            tcp.measure_sacked(rtt, now);
        }
        let lossy = self.board.lost_count > 0 && tcp.una >= tcp.timeout_recover;
        if self.board.in_recovery || tcp.is_reducing() || lossy {
            if advances {
                tcp.measure_and_grow(self, delivered, rtt, false, now);
            }
            self.act_on_losses(tcp, safe, now, wire);
            return;
        }
        // SACKed segments count at once where they may only be early (`tcp_may_raise_cwnd`).
        if advances || (news && self.reordering > tcp.dup_threshold) {
            let may_grow = tcp.may_grow(packet);
            tcp.measure_and_grow(self, delivered, rtt, may_grow, now);
        }
    }

    /// Begins a recovery if there are losses and none is under way, and sets the window that this ACK allows. `safe`:
    /// it advanced and nothing more was found lost.
    fn act_on_losses<W: Wire>(&mut self, tcp: &mut Connection, safe: bool, now: Time, wire: &mut W) {
        let after_timeout = tcp.una < tcp.timeout_recover;
        let board = &self.board;
        if board.lost_count > 0 && !board.in_recovery && !after_timeout {
            self.enter_recovery(tcp, now, wire);
        } else if tcp.is_reducing() {
            let pipe = self.board.pipe(tcp.segments.len());
            tcp.apply_prr(pipe, safe);
        }
    }

    /// Sends the lowest lost segment again; returns whether there was one.
    fn repair_next_lost<W: Wire>(&mut self, tcp: &mut Connection, now: Time, wire: &mut W) -> bool {
        let una = tcp.una;
        let Some(index) = self.next_lost(una, &tcp.segments) else { return false };
        let end = tcp.retransmit_index(self, index, now, wire);
        if let Some(segment) = tcp.segments.get_mut(index) {
            segment.repaired = true;
        }
        self.board.repaired_count += 1;
        self.repair_from = end;
        true
    }

    /// When the retransmission timer rings, which the probe comes before. If nothing was acknowledged just now, that is
    /// to Linux a timeout behind the last transmission of the first segment, unless that is over (`tcp_rto_delta_us`).
    fn end_of_patience(tcp: &Connection, advances: bool, now: Time) -> Time {
        if !tcp.linux || advances {
            return tcp.timer.unwrap_or(Time::MAX);
        }
        let first = tcp.segments.first().map(|first| first.last_sent + tcp.rtt.timeout());
        first.filter(|&due| due > now).unwrap_or(Time::MAX)
    }

    /// RFC 8985 §7.2: sets the probe timer if a tail may go unanswered. `advances`: something was just acknowledged.
    fn arm_probe<W: Wire>(&mut self, tcp: &mut Connection, advances: bool, now: Time, wire: &mut W) {
        let outstanding = tcp.segments.len();
        let after_timeout = tcp.una < tcp.timeout_recover;
        let srtt = tcp.rtt.srtt();
        // Linux sets a second timer behind a probe, which sends nothing.
        let probed = self.probe.is_some() && !tcp.linux;
        let quiet = !self.board.in_recovery && self.board.sacked_count == 0 && !probed;
        let busy = after_timeout || tcp.una == 0 || outstanding == 0 || Self::rests(tcp);
        if !self.probing || !quiet || busy {
            tcp.alarms.cancel(Alarm::TailProbe);
            return;
        }
        let mut wait = if srtt == Span::ZERO { FIRST_PROBE } else { srtt * 2 };
        if outstanding == 1 && srtt > Span::ZERO {
            wait = wait + MOST_ACK_DELAY;
        } else if tcp.linux {
            wait = wait + LATENESS;
        }
        let due = if tcp.linux { rings(wait, now) } else { now + wait };
        let due = due.min(Self::end_of_patience(tcp, advances, now));
        if tcp.linux && tcp.timer.is_some_and(|timer| timer < due) {
            // Linux has one timer for both.
            tcp.set_timer(now, wire);
        }
        tcp.set_alarm(Alarm::TailProbe, due, wire);
    }

    /// RFC 8985 §7.4: whether an ACK ends the probe, and whether the probe has repaired a loss, which the window must
    /// pay for like for any other. `bare`: it neither advances nor carries SACK blocks. `probed_twice`: the receiver
    /// got original and probe.
    fn on_answer_to_probe<W: Wire>(
        &mut self,
        tcp: &mut Connection,
        ack: u64,
        bare: bool,
        probed_twice: bool,
        now: Time,
        wire: &mut W,
    ) {
        let Some(probe) = self.probe.filter(|probe| ack >= probe.end) else { return };
        let repaired = probe.retransmits && !probed_twice && ack > probe.end;
        if probe.retransmits && !probed_twice && !repaired && !bare {
            // Either the original or the probe has arrived; the next ACK will tell.
            return;
        }
        self.probe = None;
        if repaired {
            let before = tcp.host.window.cwnd;
            // The flight of the tail is not what filled the path: the window is, as Linux has it.
            let sample = LossSample { now, flight: before, retransmitted: false, truth: None };
            let reduction = tcp.answer_loss_of(probe.seq, sample, now, wire);
            tcp.reduce(reduction);
            tcp.host.window.cwnd = tcp.host.window.cwnd.min(before).max(1.0);
            tcp.host.recover = tcp.max_sent;
        }
    }
}

#[cfg(test)]
mod tests;
