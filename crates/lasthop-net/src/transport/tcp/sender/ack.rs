//! What an ACK does: the order in which it is processed, and what it says about data, RTT and window.

use lasthop_cc::{AckSample, Arrival, CongestionControl, ReceiveTime, Signal};
use lasthop_core::packet::{Kind, Packet, flag};
use lasthop_core::time::{Span, Time};

use super::alarms::Alarm;
use super::recovery::RecoveryEngine;
use super::{Action, Connection};
use crate::transport::extra::Extra;
use crate::transport::tcp::rtt::{is_stale, ticks_between};
use crate::transport::wire::Wire;

/// What timestamps of Linux tell of a round trip, and no more than there has been.
fn span_of_stamps(echo: Time, now: Time) -> Span {
    ticks_between(echo, now).min(now.since(Time::ZERO))
}

impl Connection {
    /// An ACK arrived.
    #[inline]
    pub(super) fn on_ack<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        packet: &Packet,
        extra: Option<&Extra>,
        now: Time,
        wire: &mut W,
    ) {
        if packet.seq > self.max_sent || self.opened.is_none() || packet.kind == Kind::Reset {
            if packet.kind == Kind::Reset {
                self.abort(false, now, wire);
            }
            return;
        }
        if self.stats.completed.is_some() && !self.ns2 {
            if packet.kind == Kind::FinAck {
                self.send_ack(now, wire);
            }
            return;
        }
        if packet.seq < self.una && self.linux && self.timestamps && is_stale(packet.stamp, self.peer_stamp) {
            // Others have overtaken it by more than a tick (`tcp_paws_discard`).
            return;
        }
        self.usage.barred = false;
        let decoded;
        let packet = if self.marks.counted {
            decoded = self.hear_count::<E>(packet, extra);
            &decoded
        } else {
            packet
        };
        if self.extended && self.before_ack(engine, packet, extra, now, wire) {
            if self.closed {
                self.check_completion(engine, now);
            }
            return;
        }
        if (packet.window != self.peer.bytes || self.peer.unscaled)
            && self.persist.is_none()
            && self.take_peer_window(engine, packet, extra, now, wire)
        {
            self.peer_stamp = self.peer_stamp.max(packet.stamp);
            return;
        }
        self.peer_stamp = self.peer_stamp.max(packet.stamp);
        if self.ecn {
            let marked = if packet.kind == Kind::SynAck {
                if self.marks.counted {
                    self.send_third(packet, now, wire);
                }
                // The bit agrees to the use of ECN. ns-2 takes it for a mark when the SYN was lost.
                self.ns2 && self.action == Action::Timeout
            } else {
                packet.has(flag::ECE)
            };
            self.waits_for_timer = marked && self.waits_for_timer;
            if marked {
                self.on_ecn_echo(engine, packet.seq, now);
            }
        }
        let opens = packet.kind == Kind::SynAck && self.una == 0;
        let is_answered = self.linux && opens && !self.marks.counted;
        if is_answered {
            // `connect` ends with an ACK of its own, and the application writes after that.
            self.send_ack(now, wire);
        }
        let sack = extra.map(|extra| &extra.sack);
        let mut taken = false;
        if self.extended {
            taken = self.probing_on_ack(engine, packet, sack, now, wire);
            self.begin_rate_sample(engine, now);
        }
        if !taken {
            engine.on_ack(self, packet, sack, now, wire);
        }
        if self.extended {
            self.finish_rate_sample(engine, now, wire);
            if self.waits_for_timer {
                // Also when nothing is outstanding any more.
                self.set_timer(now, wire);
            }
        }
        let needs_answer = packet.kind == Kind::SynAck && !self.ns2 && !self.marks.counted && !is_answered;
        if needs_answer && self.next == self.una {
            // Nothing to send yet: the handshake still needs its third segment.
            self.send_ack(now, wire);
        }
        if self.closed {
            self.check_completion(engine, now);
            if packet.kind == Kind::FinAck && self.stats.completed.is_some() {
                self.send_ack(now, wire);
            }
        }
    }

    /// An ACK has arrived and nothing has been done about it yet; `true` if nothing more is to be done.
    pub(super) fn before_ack<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        packet: &Packet,
        extra: Option<&Extra>,
        now: Time,
        wire: &mut W,
    ) -> bool {
        if packet.kind == Kind::BadState {
            if self.mobility.ebsn {
                self.on_bad_state(now, wire);
            }
            if self.needs.signals {
                self.host.signal(&Signal::Ebsn { seq: packet.seq }, now);
            }
            return true;
        }
        if self.undo.is_some() {
            self.look_for_spurious(engine, packet, extra.map(|extra| &extra.sack), now, wire);
        }
        if self.needs.arrivals && self.una > 0 {
            let arrival = Arrival {
                now,
                una: self.una,
                ack: packet.seq,
                next: self.next,
                mss: self.mss,
                srtt: self.rtt.srtt(),
                ece: packet.has(flag::ECE) && packet.kind != Kind::SynAck,
                marked: self.marked_bytes(packet),
                times: self.echoed_times(packet, extra),
                first_sacked: extra.and_then(|extra| extra.sack.as_slice().first().copied()),
                discards: extra.and_then(|extra| extra.discards),
                report: extra.and_then(|extra| extra.report),
            };
            self.host.arrive(&arrival);
        }
        if self.needs.signals && packet.has(flag::ELN) {
            self.host.signal(&Signal::Eln, now);
        }
        if self.persist.is_some() && self.take_window(engine, packet, extra, now, wire) {
            return true;
        }
        match self.mobility.eln {
            Some(threshold) => {
                self.take_nack(engine, packet, extra, now, wire)
                    || self.take_eln(engine, packet, threshold, now, wire)
            }
            None => false,
        }
    }

    /// When the segment that an ACK answers was sent and received, as well as it can be told.
    pub(super) fn echoed_times(&self, packet: &Packet, extra: Option<&Extra>) -> Option<ReceiveTime> {
        if !self.needs.timestamp_times {
            return extra.and_then(|extra| extra.times);
        }
        // RFC 7323 §4.3: a duplicate ACK echoes an older segment than the one that it answers.
        let tells = self.timestamps && packet.seq > self.una;
        tells.then_some(ReceiveTime { sent: packet.echo, received: packet.stamp })
    }

    /// Looks at an ACK; `true` if it was a duplicate with explicit loss notification, and nothing else is to be done
    /// about it.
    pub(super) fn take_eln<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        packet: &Packet,
        threshold: u32,
        now: Time,
        wire: &mut W,
    ) -> bool {
        if !packet.has(flag::ELN) || packet.seq != self.una || self.una == self.max_sent || self.una == 0 {
            return false;
        }
        if self.eln.asks_for(self.una, threshold) {
            self.retransmit_una(engine, now, wire);
        } else {
            engine.fill(self, now, wire);
        }
        true
    }

    /// Takes an ACK that advances `una`: forgets what it covers, measures, restarts the timer. Returns the number of
    /// segments acknowledged and the RTT of the newest if it was sent once.
    #[inline]
    pub(super) fn advance<E: RecoveryEngine>(
        &mut self,
        engine: &mut E,
        packet: &Packet,
        now: Time,
        update_rtt: bool,
    ) -> (u32, Option<Span>) {
        let ack = packet.seq;
        if self.extended {
            self.sample_cumulative(ack);
        }
        let after_timeout = self.una < self.timeout_recover;
        let echo = self.timestamps.then_some(packet.echo);
        let mut acked = 0;
        // When the newest segment covered was last sent, and the most often that one of them was.
        let (mut sent, mut transmissions) = (now, 0);
        // Of those that were neither sent again nor SACKed, when the first and the last one were sent, as Linux has it.
        let mut originals: Option<(Time, Time)> = None;
        // Where the segment ends whose time the ACK echoes.
        let mut timed_end = None;
        while let Some(first) = self.segments.first()
            && first.end() <= ack
        {
            // What had been SACKed was delivered before.
            acked += u32::from(!first.sacked);
            sent = first.last_sent;
            transmissions = first.transmissions.max(transmissions);
            if self.linux && !first.sacked && first.transmissions == 1 {
                originals = Some((originals.map_or(sent, |(oldest, _)| oldest), sent));
            }
            if self.needs.timing && timed_end.is_none() && first.last_sent == packet.echo {
                timed_end = Some(first.end());
            }
            acked += u32::from(engine.on_covered(first, after_timeout, echo, now));
            self.segments.pop_first();
        }
        self.segments.trim();
        // Karn's rule, and Linux's: an ACK that a repair released has waited for the repair, whatever it
        // covers besides.
        let once = transmissions == 1;
        let rtt = if self.linux {
            originals.filter(|_| once).map(|(_, newest)| now.since(newest))
        } else {
            once.then(|| now.since(sent))
        };
        let oldest = originals.filter(|_| once).map(|(oldest, _)| now.since(oldest));
        // The handshake's RTT is measured by the estimator, but it is not a data sample.
        let rtt = rtt.filter(|_| self.una > 0);
        if let Some(rtt) = rtt
            && self.measured.contains(now)
        {
            self.stats.rtt.add(rtt);
        }
        // Linux tells its laws the time of a repair too, by the timestamp that its ACK echoes.
        let told = rtt.or_else(|| {
            (self.linux && self.timestamps && self.una > 0).then(|| span_of_stamps(packet.echo, now))
        });
        self.una = ack;
        self.next = self.next.max(ack);
        self.limited = 0;
        if self.needs.timing {
            self.alarms.cancel(Alarm::Hold);
        }
        if self.linux && !self.needs.timing {
            self.sample_linux(oldest, packet.echo, now);
        } else if update_rtt {
            self.update_rtt(packet, timed_end.unwrap_or(ack), now);
        }
        (acked, told)
    }

    /// Linux takes a sample with every ACK: of the first segment that it covers, if none of them was sent
    /// again; else of the first one that its SACK blocks report; else of the timestamp of an ACK of new data.
    #[inline]
    pub(super) fn sample_linux(&mut self, covered: Option<Span>, echo: Time, now: Time) {
        self.timed = None;
        let sacked = std::mem::replace(&mut self.sacked_rtt, Span::ZERO);
        let rtt = covered
            .or((sacked > Span::ZERO).then_some(sacked))
            .or_else(|| self.timestamps.then(|| span_of_stamps(echo, now)));
        if let Some(rtt) = rtt {
            self.rtt.sample(now - rtt, now, self.una, self.next, false);
            self.rtt.end_backoff();
        }
    }

    /// One RTT sample at most (Karn, or timestamps, whose segment ends at `timed_end`).
    #[inline]
    pub(super) fn update_rtt(&mut self, packet: &Packet, timed_end: u64, now: Time) {
        if self.timestamps {
            let filtered = if self.needs.timing {
                self.host.law_mut().filter_rtt(now.since(packet.echo), timed_end, now)
            } else {
                Some(now.since(packet.echo))
            };
            if let Some(rtt) = filtered {
                self.rtt.sample(now - rtt, now, self.una, self.next, true);
            }
            if !self.ns2 {
                self.rtt.end_backoff();
            }
        }
        if let Some((end, sent)) = self.timed
            && packet.seq >= end
        {
            self.timed = None;
            self.end_backoff(packet);
            if !self.timestamps {
                let filtered = if self.needs.timing {
                    self.host.law_mut().filter_rtt(now.since(sent), end, now)
                } else {
                    Some(now.since(sent))
                };
                if let Some(rtt) = filtered {
                    self.rtt.sample(now - rtt, now, self.una, self.next, false);
                }
            }
        }
    }

    /// New data was acknowledged that had been sent only once. ns-2 goes on backing off while segments sent one at a
    /// time are marked.
    #[inline]
    pub(super) fn end_backoff(&mut self, packet: &Packet) {
        if !(self.marked_at_one && packet.has(flag::ECE)) {
            self.rtt.end_backoff();
            self.marked_at_one = false;
        }
    }

    /// Everything that a plain new ACK does outside recovery: advance, measure, grow.
    #[inline]
    pub(super) fn accept_new_ack<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        packet: &Packet,
        now: Time,
        may_grow: bool,
        wire: &mut W,
    ) {
        self.dup_acks = 0;
        let after_timeout = self.una < self.timeout_recover;
        let (mut acked, rtt) = self.advance(engine, packet, now, true);
        self.restart_timer(now, wire);
        if after_timeout && !E::SCOREBOARD {
            // RFC 3465 §2.3: while go-back-N repeats what is partly there, an ACK that jumps is no sign that
            // as many segments have left.
            acked = acked.min(1);
        }
        self.marked_at_one &= packet.has(flag::ECE) || packet.kind == Kind::SynAck;
        let may_grow = may_grow && self.may_grow(packet);
        self.measure_and_grow(engine, acked, rtt, may_grow, now);
        if self.una == 1 {
            self.begin(now);
        }
    }

    /// What Linux does with a new ACK at first: growth comes when losses have been looked for. Returns the RTT of the
    /// newest segment that it covers.
    #[inline]
    pub(super) fn take_new_ack<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        packet: &Packet,
        now: Time,
        wire: &mut W,
    ) -> Option<Span> {
        self.dup_acks = 0;
        let (_, rtt) = self.advance(engine, packet, now, true);
        self.restart_timer(now, wire);
        if self.una == 1 {
            self.begin(now);
        }
        rtt
    }

    /// What a new ACK does within recovery: the same without growth.
    pub(super) fn accept_ack_in_recovery<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        packet: &Packet,
        now: Time,
        wire: &mut W,
    ) {
        let (acked, rtt) = self.advance(engine, packet, now, true);
        self.restart_timer(now, wire);
        self.measure_and_grow(engine, acked, rtt, false, now);
    }

    /// Whether this ACK may raise the window: no mark, and the window was what held the sender back (RFC 7661).
    #[inline]
    pub(super) fn may_grow(&self, packet: &Packet) -> bool {
        !packet.has(flag::ECE) && (self.uses_window() || self.grow_when_limited_elsewhere)
    }

    /// Tells the controller about an ACK.
    #[inline]
    pub(super) fn measure_and_grow<E: RecoveryEngine>(
        &mut self,
        engine: &E,
        acked: u32,
        rtt: Option<Span>,
        may_grow: bool,
        now: Time,
    ) {
        if self.una == 1 && !(self.ns2 && E::FULL_SYN) && !(self.linux && self.max_sent > 1) {
            // The handshake tells nothing about data, as long as its segments are short. SACK blocks do, before the
            // first data is acknowledged (Linux).
            return;
        }
        let sample = AckSample {
            now,
            elapsed: self.elapsed(now),
            rtt,
            srtt: self.rtt.srtt(),
            acked,
            una: self.una,
            next: self.next,
            mss: self.mss,
            may_grow,
            disordered: engine.sacked().is_some_and(|count| count > 0),
        };
        self.host.grow(&sample);
    }

    /// Tells the controller the RTT of a segment that was reported out of order, as Linux does: while a hole waits for
    /// its repair these are the only samples that there are.
    #[inline]
    pub(super) fn measure_sacked(&mut self, rtt: Span, now: Time) {
        let sample = AckSample {
            now,
            elapsed: self.elapsed(now),
            rtt: Some(rtt),
            srtt: self.rtt.srtt(),
            acked: 0,
            una: self.una,
            next: self.next,
            mss: self.mss,
            may_grow: false,
            disordered: true,
        };
        self.host.sacked(&sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: from 40.9 to 82.1 ms the clock of timestamps has passed 42 ms, from 40.1 to 40.9 ms none, which is one.
    #[test]
    fn timestamps_count_whole_milliseconds() {
        let span = |echo_us: u64, now_us: u64| span_of_stamps(Time(echo_us * 1000), Time(now_us * 1000));
        assert_eq!(span(40_900, 82_100), Span::from_millis(42));
        assert_eq!(span(40_100, 40_900), Span::from_millis(1));
        assert_eq!(span(100, 300), Span::from_nanos(300_000), "no more than there has been");
    }
}
