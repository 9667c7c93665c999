//! What the receiver's window lets a sender do (RFC 9293 sections 3.8.6 and 3.10.7.4): how far it may send, what it
//! does at the right edge, and how it asks again when the window is closed (persist).
//!
//! `ack.rs` calls [`Connection::take_peer_window`] when an ACK advertises another window than the one before, and
//! `send.rs` asks [`Connection::short_of_room`] where a whole segment does not fit. Senders of Freeze-TCP look at
//! windows in `persist.rs`, with the same fields.

use lasthop_core::packet::{Kind, NONE, Packet, flag};
use lasthop_core::time::{Span, Time};

use super::Connection;
use super::alarms::Alarm;
use super::recovery::RecoveryEngine;
use crate::transport::extra::{Extra, Offer};
use crate::transport::tcp::config::TIMESTAMP_OPTION;
use crate::transport::wire::Wire;

/// Longest interval between probes.
const LONGEST_PROBE_INTERVAL: Span = Span::from_secs(60);

/// What a sender stores about its peer's window. Bytes, unless it says otherwise.
#[derive(Clone, Debug)]
pub(super) struct PeerWindow {
    /// As the newest ACK advertised it; `u32::MAX`, which no window can be, before the first.
    pub(super) bytes: u32,
    /// The same in whole segments.
    pub(super) segments: u32,
    /// What may be outstanding for one more whole segment to fit, and one more byte than that.
    pub(super) room: u64,
    /// The largest so far.
    largest: u32,
    /// It comes from a SYN-ACK, whose field is not scaled.
    pub(super) unscaled: bool,
    /// Interval of the next probe; zero while none is needed.
    probe_interval: Span,
    /// When it was closed, if it is.
    closed_at: Option<Time>,
}

impl PeerWindow {
    /// Before anything was heard of it: `segments` is what the configuration says.
    pub(super) fn unknown(segments: u32) -> PeerWindow {
        PeerWindow {
            bytes: u32::MAX,
            segments,
            room: u64::MAX,
            largest: 0,
            unscaled: false,
            probe_interval: Span::ZERO,
            closed_at: None,
        }
    }
}

/// What fits before the right edge when a whole segment does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fits {
    /// Nothing.
    Nothing,
    /// What was sent before.
    Again,
    /// A new segment with at most this many bytes.
    Bytes(u32),
}

impl Connection {
    /// The peer's window is `bytes` from now on.
    pub(super) fn set_peer_window(&mut self, bytes: u32, now: Time) {
        let peer = &mut self.peer;
        peer.bytes = bytes;
        peer.segments = bytes / self.mss;
        peer.room = (u64::from(bytes) + 1).saturating_sub(u64::from(self.mss));
        peer.largest = peer.largest.max(bytes);
        match peer.closed_at {
            None if bytes == 0 => {
                peer.closed_at = Some(now);
                self.stats.zero_windows += u64::from(self.measured.contains(now));
            }
            Some(since) if bytes > 0 => {
                peer.closed_at = None;
                self.stats.zero_window_time += self.measured.overlap(since, now);
            }
            _ => {}
        }
    }

    /// For how much of the measurement window the peer's window was closed; if it still is, until its end.
    pub fn zero_window_time(&self) -> Span {
        let open = self.peer.closed_at.map_or(0, |since| self.measured.overlap(since, self.measured.to));
        Span(self.stats.zero_window_time + open)
    }

    /// What the SYN-ACK answers to the offer of the SYN is in force.
    pub(super) fn take_answer(&mut self, packet: &Packet, extra: Option<&Extra>) {
        let Some(offer) = extra.and_then(|extra| extra.offer) else { return };
        if self.timestamps && !offer.timestamps {
            // RFC 6691 §3: the options that count are those that are sent.
            self.timestamps = false;
            if !self.ns2 {
                self.mss += TIMESTAMP_OPTION;
                self.segments.set_mss(self.mss);
                let shorter = |size: &mut u16| *size -= TIMESTAMP_OPTION as u16;
                [&mut self.data_header, &mut self.ack_size, &mut self.probe_size]
                    .into_iter()
                    .for_each(shorter);
            }
        }
        if self.marks.counted {
            self.take_agreement(packet, extra.and_then(|extra| extra.byte_counts));
        } else {
            // RFC 3168 §6.1.1; in ns-2 the agents agree on their own.
            self.ecn &= self.ns2 || packet.has(flag::ECE);
        }
        self.takes_offer(offer);
    }

    /// RFC 9293 §3.7.1: no segment is longer than the other end takes.
    fn takes_offer(&mut self, offer: Offer) {
        if offer.mss > 0 && u32::from(offer.mss) < self.mss {
            self.mss = offer.mss.into();
            self.segments.set_mss(self.mss);
        }
    }

    /// An ACK advertises another window than the one before; `true` if that was all there is to do about it.
    #[cold]
    pub(super) fn take_peer_window<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        packet: &Packet,
        extra: Option<&Extra>,
        now: Time,
        wire: &mut W,
    ) -> bool {
        if packet.kind == Kind::SynAck {
            if self.una == 0 {
                self.take_answer(packet, extra);
                self.set_peer_window(packet.window, now);
                self.peer.unscaled = true;
            }
            return false;
        }
        if !self.is_newest(packet) {
            return false;
        }
        let was_unscaled = std::mem::take(&mut self.peer.unscaled);
        self.set_peer_window(packet.window, now);
        self.peer.probe_interval = Span::ZERO;
        self.alarms.cancel(Alarm::Persist);
        if packet.window == 0 && self.ns2 {
            // Its timer runs even if nothing is outstanding.
            self.timer = self.timer.filter(|_| packet.seq < self.max_sent);
        }
        // RFC 5681 §2: an ACK that changes the window is no duplicate, but what SACK blocks say counts (RFC 6675 §2).
        // The first scaled window after the SYN-ACK changes nothing at the other end; to Linux it is news, because its
        // sequence number is (`tcp_may_update_window`).
        let has_blocks = E::SCOREBOARD && extra.is_some_and(|extra| !extra.sack.is_empty());
        if (was_unscaled && !self.linux) || has_blocks || packet.seq != self.una {
            return false;
        }
        engine.fill(self, now, wire);
        true
    }

    /// Whether an ACK tells of a later time than all before it (RFC 9293 §3.10.7.4: SND.WL1 and SND.WL2; of two that
    /// acknowledge the same, timestamps tell which is the later).
    pub(super) fn is_newest(&self, packet: &Packet) -> bool {
        packet.seq >= self.una && !(self.timestamps && packet.stamp < self.peer_stamp)
    }

    /// What may be sent at `next` where a whole segment does not fit before the right edge.
    #[cold]
    pub(super) fn short_of_room<W: Wire>(&mut self, now: Time, wire: &mut W) -> Fits {
        let outstanding = self.next - self.una;
        let available = u64::from(self.peer.bytes).saturating_sub(outstanding);
        if self.next < self.max_sent {
            // RFC 1122 §4.2.2.16: what was sent is repeated as far as the window reaches, and the first of it whatever
            // the window: it probes.
            let probes = outstanding == 0 && !self.is_frozen();
            return if available > 0 || probes { Fits::Again } else { Fits::Nothing };
        }
        // The FIN takes a sequence number and no room.
        let left = self.data_end.saturating_sub(self.next).min(self.mss.into());
        if left <= available {
            return Fits::Bytes(self.mss);
        }
        // RFC 1122 §4.2.3.4: less than a segment only if it is half of what the window ever was.
        if available > 0 && 2 * available >= u64::from(self.peer.largest) {
            return Fits::Bytes(available as u32);
        }
        if outstanding == 0 && !self.alarms.is_set(Alarm::Persist) {
            self.peer.probe_interval = self.rtt.timeout();
            self.extended = true;
            self.set_alarm(Alarm::Persist, now + self.peer.probe_interval, wire);
        }
        Fits::Nothing
    }

    /// Whether the receiver's window takes the next new segment as a whole.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        let outstanding = self.next - self.una;
        outstanding < self.peer.room || {
            let left = self.data_end.saturating_sub(self.next);
            outstanding.saturating_add(left) <= u64::from(self.peer.bytes)
        }
    }

    /// The persist timer: nothing is outstanding, and the window has no room. What fits is sent all the same (the
    /// override of RFC 1122 §4.2.3.4); otherwise a segment without data asks for the window, as Linux does. Both go on
    /// at doubled intervals.
    pub(super) fn persist<E: RecoveryEngine, W: Wire>(&mut self, engine: &mut E, now: Time, wire: &mut W) {
        if self.peer.probe_interval == Span::ZERO || self.una < self.max_sent || !self.has_new() {
            return;
        }
        if self.peer.bytes > 0 {
            self.transmit_new(engine, self.peer.bytes, now, wire);
            return;
        }
        self.probe_closed_window(now, wire);
    }

    /// Asks for the window, and will again after twice the time.
    pub(super) fn probe_closed_window<W: Wire>(&mut self, now: Time, wire: &mut W) {
        self.peer.probe_interval = (self.peer.probe_interval * 2).min(LONGEST_PROBE_INTERVAL);
        let next = now + self.peer.probe_interval;
        self.ask_for_window(now, wire);
        self.set_alarm(Alarm::Persist, next, wire);
    }

    /// The first probe of a closed window is due a timeout from now.
    pub(super) fn begin_persisting<W: Wire>(&mut self, now: Time, wire: &mut W) {
        self.peer.probe_interval = self.rtt.timeout();
        self.set_alarm(Alarm::Persist, now + self.peer.probe_interval, wire);
    }

    /// A segment without data, of which the receiver has everything: it answers with an ACK.
    pub(super) fn ask_for_window<W: Wire>(&mut self, now: Time, wire: &mut W) {
        wire.send(
            Packet {
                seq: self.una - 1,
                stamp: now,
                echo: self.peer_stamp,
                window: self.own_window,
                bytes: self.ack_size,
                extra: NONE,
                kind: Kind::Data,
                flags: self.marks.told,
                ..Packet::default()
            },
            now,
        );
    }
}
