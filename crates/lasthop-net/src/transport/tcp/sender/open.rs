//! How a connection begins, gets its data, pauses and ends.

use lasthop_cc::Start;
use lasthop_core::packet::{Kind, NONE, Packet};
use lasthop_core::time::{Span, Time};

use super::recovery::RecoveryEngine;
use super::{Connection, ENDLESS};
use crate::transport::wire::Wire;

impl Connection {
    /// The application wrote `bytes` more (`None`: without end). The first call opens the connection.
    pub(super) fn on_data<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        bytes: Option<u64>,
        now: Time,
        wire: &mut W,
    ) {
        if self.reset().is_some() {
            return;
        }
        if self.extended && self.una > 0 {
            self.note_app_limited(engine, now);
        }
        // An endless file ends beyond anything a run can send, with room to add to it.
        self.data_end = bytes.map_or(ENDLESS, |bytes| self.data_end.saturating_add(bytes).min(ENDLESS));
        if self.opened.is_none() {
            self.opened = Some(now);
            if self.host_time.is_some() {
                engine.fill(self, now, wire);
            } else {
                self.transmit_next(engine, now, wire);
            }
            return;
        }
        if self.idle_restart && self.una == self.max_sent && self.una > 0 {
            self.restart_after_idle(now);
        }
        engine.fill(self, now, wire);
    }

    /// The handshake is done.
    pub(super) fn begin(&mut self, now: Time) {
        let start = Start { now, history: &self.history, handshake: self.elapsed(now), mss: self.mss };
        self.host.start(&start);
        if !self.ns2 {
            self.rtt.end_handshake();
        }
    }

    /// RFC 5681 §4.1: after an idle RTO the ACK clock is gone, start from the initial window.
    pub(super) fn restart_after_idle(&mut self, now: Time) {
        let idle = now.since(self.last_sent);
        self.host.idle(idle, self.rtt.timeout(), now);
    }

    /// The application writes no more. `discard`: what has not been sent yet is withdrawn.
    pub(super) fn on_close<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        discard: bool,
        now: Time,
        wire: &mut W,
    ) {
        if self.closed && !discard || self.reset().is_some() {
            return;
        }
        self.closed = true;
        let sent = self.max_sent.max(1);
        if discard && sent < self.data_end {
            self.data_end = sent;
            self.stats.withdrawn = true;
        }
        if self.opened.is_some() {
            engine.fill(self, now, wire);
            self.check_completion(engine, now);
        }
    }

    /// Records completion once everything, the FIN included, is acknowledged. Of many short flows most are over while
    /// the run goes on: what was kept of their transmissions is given back at once.
    pub(super) fn check_completion<E: RecoveryEngine>(&mut self, engine: &mut E, now: Time) {
        let end = self.data_end + u64::from(!self.ns2);
        if self.closed && self.una >= end && self.stats.completed.is_none() {
            self.stats.completed = Some(now);
            self.timer = None;
            self.segments.clear();
            engine.forget();
        }
    }

    /// A segment without data: the third of the handshake, or the answer to the receiver's FIN.
    pub(super) fn send_ack<W: Wire>(&mut self, now: Time, wire: &mut W) {
        self.send_bare(self.marks.told, (self.ack_size, NONE), now, wire);
    }

    /// The same with these bits of the header, of this size and with what hangs off it.
    pub(super) fn send_bare<W: Wire>(
        &mut self,
        flags: u8,
        (bytes, extra): (u16, u32),
        now: Time,
        wire: &mut W,
    ) {
        wire.send(
            Packet {
                seq: self.next,
                stamp: now,
                echo: self.peer_stamp,
                window: self.own_window,
                bytes,
                extra,
                kind: Kind::Ack,
                flags,
                ..Packet::default()
            },
            now,
        );
    }

    /// Time since the connection was opened.
    #[inline]
    pub(super) fn elapsed(&self, now: Time) -> Span {
        now.since(self.opened.unwrap_or(now))
    }
}
