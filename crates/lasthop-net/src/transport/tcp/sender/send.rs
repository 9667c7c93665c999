//! What is sent: how much fits, what comes next, and how a segment becomes a packet.

use lasthop_cc::CongestionControl;
use lasthop_core::packet::{Kind, NONE, Note, Packet, flag};
use lasthop_core::time::Time;

use super::Connection;
use super::alarms::Alarm;
use super::flow_control::Fits;
use super::recovery::RecoveryEngine;
use crate::transport::extra::Extra;
use crate::transport::tcp::segments::Segment;
use crate::transport::wire::Wire;

/// A segment on its way onto the wire.
#[derive(Clone, Copy, Debug)]
struct Transmission {
    seq: u64,
    payload: u16,
    fin: bool,
    first_sent: Time,
    /// It was sent before.
    again: bool,
}

impl Connection {
    /// What congestion control allows to be outstanding, in segments: floor(cwnd) plus inflation.
    #[inline]
    pub(super) fn allowed(&self) -> u32 {
        (self.host.window.cwnd as u32).saturating_add(self.inflation)
    }

    /// The same as far as the receiver's window lets it be used.
    #[inline]
    pub(super) fn usable(&self) -> u32 {
        self.allowed().min(self.peer.segments)
    }

    /// Segments that count against the window. RFC 5681 counts bytes; Linux counts segments, however short they are
    /// (`tcp_packets_in_flight`), and what is repeated after a timeout by its place.
    #[inline]
    fn out(&self) -> u32 {
        if self.linux && self.next == self.max_sent {
            return self.segments.len() as u32;
        }
        ((self.next - self.una) as u32).div_ceil(self.mss)
    }

    /// Whether a window of `allowed` segments lets one more out.
    #[inline]
    fn is_granted(&self, allowed: u32) -> bool {
        if self.linux && self.next == self.max_sent {
            return (self.segments.len() as u32) < allowed;
        }
        self.next - self.una < u64::from(allowed) * u64::from(self.mss)
    }

    /// Whether there is something at `next` that has never been sent.
    pub(super) fn has_new(&self) -> bool {
        // Data waits for the handshake.
        if self.una == 0 {
            // ns-2's Vegas restarts from a window of two even when only a lost SYN is out.
            let restarted =
                self.ns2 && self.next == 1 && self.next < self.data_end && self.host.window.cwnd >= 2.0;
            return self.max_sent == 0 || restarted;
        }
        self.next < self.data_end || (self.closed && !self.ns2 && self.next == self.data_end)
    }

    /// Whether there is something at `next` to send, new or again.
    #[inline]
    pub(super) fn has_more(&self) -> bool {
        self.next < self.max_sent || self.has_new()
    }

    /// Whether there is data that has never been sent.
    pub(super) fn has_unsent(&self) -> bool {
        self.max_sent < self.data_end || (self.closed && !self.ns2 && self.max_sent == self.data_end)
    }

    /// Sends from `next` on while the window allows, at most `burst` segments.
    #[inline]
    pub(super) fn fill_window_burst<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        burst: u32,
        now: Time,
        wire: &mut W,
    ) {
        let allowed = self.allowed();
        let next = self.next;
        for _ in 0..burst {
            let granted = self.is_granted(allowed);
            let has_more = self.has_more();
            if !granted || self.next - self.una >= self.peer.room || !has_more {
                if has_more && granted {
                    self.fill_to_the_edge(engine, allowed, now, wire);
                }
                if has_more || self.next > next {
                    self.note_usage(self.out(), false);
                }
                return;
            }
            if self.extended {
                let flight = ((self.next - self.una) as u32).div_ceil(self.mss);
                if self.held_back(now, wire) || self.awaits_train(engine, flight, now) {
                    return;
                }
            }
            self.transmit_next(engine, now, wire);
        }
    }

    /// Sends what fits before the right edge of the receiver's window, where a whole segment does not; congestion
    /// control would allow `allowed` segments.
    #[cold]
    fn fill_to_the_edge<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        allowed: u32,
        now: Time,
        wire: &mut W,
    ) {
        while self.has_more() && self.is_granted(allowed) {
            let fits = self.short_of_room(now, wire);
            if fits == Fits::Nothing || (self.extended && self.held_back(now, wire)) {
                return;
            }
            match fits {
                Fits::Bytes(most) => self.transmit_new(engine, most, now, wire),
                _ => self.transmit_next(engine, now, wire),
            }
        }
    }

    /// Whether nothing may be sent just now. If it is the pace that forbids it, the alarm rings when the next segment
    /// is due.
    pub(super) fn held_back<W: Wire>(&mut self, now: Time, wire: &mut W) -> bool {
        if self.hold || self.waits_for_timer || self.is_probing() {
            return true;
        }
        if self.host_time.is_some() && self.waits_for_host(now, wire) {
            return true;
        }
        if self.pace.next() <= now || self.train.is_leaving(now) {
            return false;
        }
        // The law, not the application, limits the sender.
        self.note_usage(0, true);
        if !self.alarms.is_set(Alarm::Pace) {
            self.set_alarm(Alarm::Pace, self.pace.next(), wire);
        }
        true
    }

    /// Sends one new segment if there is one.
    pub(super) fn send_new<E: RecoveryEngine, W: Wire>(&mut self, engine: &mut E, now: Time, wire: &mut W) {
        if self.has_new() {
            self.transmit_next(engine, now, wire);
        }
    }

    /// Limited transmit (RFC 3042): one new segment for each of the first duplicate ACKs. ns-2 takes whatever
    /// is next, during go-back-N an old one.
    pub(super) fn send_limited<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        now: Time,
        wire: &mut W,
    ) {
        let is_new = self.next == self.max_sent;
        if !self.limited_transmit || !self.has_more() || !(is_new || self.ns2) {
            return;
        }
        let outstanding = self.next - self.una;
        let allowed = self.host.window.cwnd + f64::from(self.dup_acks);
        let granted = if self.linux {
            (self.segments.len() + 1) as f64 <= allowed
        } else {
            (outstanding + u64::from(self.mss)) as f64 <= allowed * f64::from(self.mss)
        };
        if outstanding < self.peer.room && granted {
            self.transmit_next(engine, now, wire);
            self.limited += 1;
        }
    }

    /// Sends the segment at `next`, new or again, and moves on.
    #[inline]
    pub(super) fn transmit_next<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        now: Time,
        wire: &mut W,
    ) {
        if self.next < self.max_sent {
            let Some(index) = self.segments.find(self.next) else {
                unreachable!("everything between una and max_sent has a record")
            };
            self.next = self.retransmit_index(engine, index, now, wire);
            return;
        }
        self.transmit_new(engine, self.mss, now, wire);
    }

    /// Sends a new segment with at most `most` bytes, and moves on.
    #[inline]
    pub(super) fn transmit_new<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        most: u32,
        now: Time,
        wire: &mut W,
    ) {
        let nothing_outstanding = self.una == self.max_sent;
        let seq = self.next;
        let (payload, fin) = if seq == 0 {
            (0, false)
        } else {
            let left = self.data_end - seq;
            let payload = left.min(u64::from(most)) as u16;
            (payload, self.closed && !self.ns2 && u64::from(payload) == left)
        };
        let len = payload + u16::from(seq == 0) + u16::from(fin);
        self.segments.push(seq, len, fin, now);
        self.next = seq + u64::from(len);
        self.max_sent = self.next;
        if self.extended {
            self.sample_send(engine, None, nothing_outstanding, now);
        }
        if self.timed.is_none() {
            self.timed = Some((self.next, now));
        }
        let new = Transmission { seq, payload, fin, first_sent: now, again: false };
        self.put_on_wire(engine, new, now, wire);
        if self.timer.is_none() || (nothing_outstanding && E::STARTS_TIMER_ANEW) {
            self.set_timer(now, wire);
        }
    }

    /// Sends the segment at `una` again.
    pub(super) fn retransmit_una<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        now: Time,
        wire: &mut W,
    ) {
        if let Some(index) = self.segments.find(self.una) {
            self.retransmit_index(engine, index, now, wire);
        }
    }

    /// Sends a known segment again and returns the sequence number behind it.
    pub(super) fn retransmit_index<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        index: usize,
        now: Time,
        wire: &mut W,
    ) -> u64 {
        let Some((segment, first_sent)) = self.segments.repeat(index, now) else { return self.next };
        let Segment { seq, len, fin, .. } = segment;
        let payload = len - u16::from(fin) - u16::from(seq == 0);
        self.stats.retransmitted += u64::from(self.measured.contains(now));
        self.copies += 1;
        if let Some(undo) = &mut self.undo {
            undo.on_retransmission(seq, now);
        }
        if self.extended {
            self.sample_send(engine, Some(index), false, now);
        }
        let copy = Transmission { seq, payload, fin, first_sent, again: true };
        self.put_on_wire(engine, copy, now, wire);
        if self.timer.is_none() {
            self.set_timer(now, wire);
        }
        seq + u64::from(len)
    }

    #[inline]
    fn put_on_wire<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        what: Transmission,
        now: Time,
        wire: &mut W,
    ) {
        let Transmission { seq, payload, fin, first_sent, again } = what;
        let (kind, header) = match (seq, fin) {
            (0, _) => (Kind::Syn, self.syn_size),
            (_, true) => (Kind::Fin, self.data_header),
            (_, false) => (Kind::Data, self.data_header),
        };
        let mut flags = if self.ecn { self.marks_of(kind, !again && payload > 0) } else { 0 };
        if self.linux && !again && (self.train.step(now) || seq + u64::from(payload) == self.data_end) {
            flags |= flag::PSH;
        }
        let len = payload + u16::from(seq == 0) + u16::from(fin);
        engine.on_sent(self, seq, seq + u64::from(len), now);
        if self.extended
            && let Some(prr) = &mut self.prr
        {
            prr.on_sent();
        }
        self.last_sent = now;
        if self.extended
            && self.needs.pacing
            && let Some(rate) = self.resuming_rate().or_else(|| self.host.law().pacing_rate())
        {
            let segments = f64::from(payload) / f64::from(self.mss);
            if self.linux {
                self.pace.charge_as_linux(segments, rate, now);
            } else {
                self.pace.charge(segments, rate, now);
            }
        }
        let extra = if again || seq == 0 {
            self.attach_rest(seq, again.then_some(first_sent), wire)
        } else if self.extended && self.needs.waves && payload > 0 {
            self.attach_wave(seq, wire)
        } else {
            NONE
        };
        wire.send(
            Packet {
                seq,
                stamp: now,
                echo: self.peer_stamp,
                window: self.own_window,
                bytes: header + payload,
                payload,
                extra,
                kind,
                flags,
                note: Note::new(false, again),
                ..Packet::default()
            },
            now,
        );
    }

    /// Stores what a SYN or a retransmission carries.
    #[cold]
    fn attach_rest<W: Wire>(&mut self, seq: u64, first_sent: Option<Time>, wire: &mut W) -> u32 {
        let offer = (seq == 0).then_some(self.offer);
        wire.attach(Extra { offer, first_sent, ..Extra::default() })
    }

    /// Stores the wave header of the new segment at `seq`; the index goes into `Packet::extra`.
    pub(super) fn attach_wave<W: Wire>(&mut self, seq: u64, wire: &mut W) -> u32 {
        let window = (self.host.window.cwnd as u32).min(self.peer.segments);
        let wave = self.waves.next(seq, self.una, window, self.rtt.srtt());
        wire.attach(Extra { wave: Some(wave), ..Extra::default() })
    }
}
