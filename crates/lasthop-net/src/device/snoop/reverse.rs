//! Data from the wireless host: what of them is missing at the base station was lost in the air.
//!
//! The base station cannot repeat what it has not got. It keeps a list of what has come, and tells the sender which
//! losses are not congestion: by a bit on the duplicate ACKs that the far end sends for them (ELN), or by an
//! acknowledgement of its own as soon as it sees the hole (negative acknowledgement).

use lasthop_core::packet::Packet;

use super::cache::{FARTHEST, before, distance, range_of};

/// Most intervals that are remembered of one connection. A sender with more holes than that has other troubles.
const MOST: usize = 64;

/// What has come from the wireless host and is not acknowledged by the far end.
#[derive(Clone, Debug, Default)]
pub(super) struct Reverse {
    /// Intervals in ascending order, none touching another.
    came: Vec<(u32, u32)>,
    /// The last cumulative acknowledgement of the far end.
    last_ack: Option<u32>,
    /// The window of that ACK.
    window: u32,
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
        let reference = self.came.last().map(|last| last.1).or(self.last_ack);
        if start == end || reference.is_some_and(|known| distance(known, start) >= FARTHEST) {
            return None;
        }
        if self.last_ack.is_some_and(|ack| !before(ack, end)) {
            return None;
        }
        let place = self.came.partition_point(|known| before(known.1, start));
        // Everything that it touches becomes one with it.
        let touched = self.came[place..].iter().take_while(|known| !before(end, known.0)).count();
        if touched > 0 {
            let merged = &self.came[place..place + touched];
            let first = if before(start, merged[0].0) { start } else { merged[0].0 };
            let last = merged[touched - 1].1;
            let last = if before(last, end) { end } else { last };
            self.came.splice(place..place + touched, [(first, last)]);
            return None;
        }
        if self.came.len() >= MOST {
            return None;
        }
        self.came.insert(place, (start, end));
        let is_newest = place + 1 == self.came.len();
        let below = if place > 0 { Some(self.came[place - 1].1) } else { self.last_ack };
        // Nothing is known of what was sent before the first packet that came by.
        below.filter(|&below| is_newest && before(below, start)).map(|below| Hole {
            start: below,
            end: start,
            beyond: end,
        })
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
        self.window = packet.window;
        let gone = self.came.iter().take_while(|known| !before(ack, known.1)).count();
        self.came.drain(..gone);
        match self.came.first_mut() {
            Some(first) if before(ack, first.0) => true,
            Some(first) => {
                first.0 = ack;
                false
            }
            None => false,
        }
    }

    /// The last window of the far end.
    pub(super) fn window(&self) -> u32 {
        self.window
    }

    /// The last cumulative acknowledgement of the far end.
    pub(super) fn last_ack(&self) -> Option<u32> {
        self.last_ack
    }
}
