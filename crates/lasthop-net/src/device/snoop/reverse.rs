//! Data from the wireless host: what of them is missing at the base station was lost in the air.
//!
//! The base station cannot repeat what it has not got. It keeps a list of what has come, and tells the sender which
//! losses are not congestion: by a bit on the duplicate ACKs that the far end sends for them (ELN), or by an
//! acknowledgement of its own as soon as it sees the hole (negative acknowledgement).

use lasthop_core::packet::{Packet, flag};

use super::cache::{FARTHEST, before, distance, range_of};

/// Most intervals that are remembered of one connection. A sender with more holes than that has other troubles.
const MOST: usize = 64;

/// What has come from the wireless host and is not acknowledged by the far end.
#[derive(Clone, Debug, Default)]
pub(super) struct Reverse {
    /// Where what has come ends.
    last: Option<u32>,
    /// What was missing below it when it came, in ascending order: lost in the air, whether it has come since or not.
    holes: Vec<(u32, u32)>,
    /// The last cumulative acknowledgement of the far end.
    last_ack: Option<u32>,
    /// The window of that ACK, and what it told of marks.
    window: u32,
    echoed: u8,
}

/// A hole that a packet has revealed: what has come below it, and the packet's own range above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hole {
    /// Where it begins.
    pub(super) start: u32,
    /// Where what has come goes on.
    pub(super) end: u32,
    /// Where that ends.
    pub(super) beyond: u32,
}

impl Reverse {
    /// Data from the wireless host. The hole before them, if they are the first above it.
    pub(super) fn data(&mut self, packet: &Packet) -> Option<Hole> {
        let (start, end) = range_of(packet);
        let known = self.last.or(self.last_ack);
        if start == end || known.is_some_and(|known| distance(known, start) >= FARTHEST) {
            return None;
        }
        // Nothing is known of what was sent before the first packet that came by.
        let hole = known.filter(|&known| before(known, start));
        if known.is_none_or(|known| before(known, end)) {
            self.last = Some(end);
        }
        let below = hole.filter(|_| self.holes.len() < MOST)?;
        self.holes.push((below, start));
        Some(Hole { start: below, end: start, beyond: end })
    }

    /// An ACK of the far end; whether what it asks for was lost in the air.
    pub(super) fn ack(&mut self, packet: &Packet) -> bool {
        let ack = packet.seq as u32;
        if let Some(last) = self.last_ack
            && (before(ack, last) || distance(ack, last) >= FARTHEST)
        {
            return false;
        }
        self.last_ack = Some(ack);
        (self.window, self.echoed) = (packet.window, packet.flags & flag::ACE);
        if self.last.is_some_and(|last| before(last, ack)) {
            self.last = Some(ack);
        }
        let gone = self.holes.iter().take_while(|hole| !before(ack, hole.1)).count();
        self.holes.drain(..gone);
        self.holes.first().is_some_and(|hole| !before(ack, hole.0))
    }

    /// The last window of the far end.
    pub(super) fn window(&self) -> u32 {
        self.window
    }

    /// What that ACK told of marks.
    pub(super) fn echoed(&self) -> u8 {
        self.echoed
    }

    /// The last cumulative acknowledgement of the far end.
    pub(super) fn last_ack(&self) -> Option<u32> {
        self.last_ack
    }
}
