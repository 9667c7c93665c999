//! The packets of one connection that a Snoop agent keeps, in the order of their sequence numbers.

use std::collections::VecDeque;

use lasthop_core::packet::{Kind, Packet};
use lasthop_core::time::Time;

use crate::transport::extra::Extra;

/// Sequence numbers that are further apart than this belong to nothing that is under way: no window is larger
/// (RFC 7323 section 2.2).
pub(super) const FARTHEST: u32 = 1 << 30;

/// Whether sequence number `a` lies before `b` (RFC 9293 section 3.4).
pub(super) fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// How far two sequence numbers are apart.
pub(super) fn distance(a: u32, b: u32) -> u32 {
    (a.wrapping_sub(b) as i32).unsigned_abs()
}

/// The sequence numbers that a packet from the sender takes, as the wire has them: from the first up to the second.
pub(super) fn range_of(packet: &Packet) -> (u32, u32) {
    let start = packet.seq as u32;
    let ends = u32::from(packet.kind == Kind::Fin) + u32::from(packet.kind == Kind::Syn);
    (start, start.wrapping_add(u32::from(packet.payload) + ends))
}

/// The order in which packets cross the link: when transmission begins, as well as that can be told and if
/// retransmissions overtake what waits, and who was sent first.
pub(super) type Turn = (Time, u64);

/// A packet that is kept.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// As it came, with its marks.
    pub(super) packet: Packet,
    pub(super) extra: Option<Box<Extra>>,
    /// Its place on its path.
    pub(super) hop: u32,
    /// Times that it was sent again from here.
    pub(super) repeats: u32,
    /// When it was last sent.
    pub(super) sent: Time,
    /// When that copy crosses the link, among all that do.
    pub(super) turn: Turn,
    /// When its transmission begins at the earliest.
    pub(super) begins: Time,
    /// When it leaves the queue of the link, as well as that can be told.
    pub(super) leaves: Time,
    /// The sender has sent it again: it counts duplicate ACKs for it.
    pub(super) by_sender: bool,
    /// The other end has it, by a SACK block.
    pub(super) sacked: bool,
}

impl Entry {
    pub(super) fn start(&self) -> u32 {
        self.packet.seq as u32
    }

    pub(super) fn end(&self) -> u32 {
        range_of(&self.packet).1
    }
}

/// The packets, by ascending sequence numbers. All lie within [`FARTHEST`] of one another.
#[derive(Clone, Debug, Default)]
pub(super) struct Cache {
    entries: VecDeque<Entry>,
}

impl Cache {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn first(&self) -> Option<&Entry> {
        self.entries.front()
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Entry> {
        self.entries.get_mut(index)
    }

    pub(super) fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut Entry> {
        self.entries.iter_mut()
    }

    /// The place of the first packet that does not begin before `start`.
    pub(super) fn place_of(&self, start: u32) -> usize {
        // Nearly always what comes is the newest.
        match self.entries.back() {
            Some(last) if before(last.start(), start) => self.entries.len(),
            _ => self.entries.partition_point(|entry| before(entry.start(), start)),
        }
    }

    /// The place of the packet that begins at `start`, if it is here.
    pub(super) fn find(&self, start: u32) -> Option<usize> {
        let place = self.place_of(start);
        self.entries.get(place).is_some_and(|entry| entry.start() == start).then_some(place)
    }

    pub(super) fn insert(&mut self, place: usize, entry: Entry) {
        self.entries.insert(place, entry);
    }

    pub(super) fn push(&mut self, entry: Entry) {
        self.entries.push_back(entry);
    }

    pub(super) fn pop_first(&mut self) -> Option<Entry> {
        self.entries.pop_front()
    }

    /// Packets that crossed the link after the copy at `turn` and may still cause a duplicate ACK for it.
    pub(super) fn after(&self, turn: Turn) -> u32 {
        self.entries.iter().filter(|entry| entry.turn > turn && !entry.sacked).count() as u32
    }

    /// Whether a packet crossed the link after the copy at `turn` that the other end is known to have, or which began
    /// to cross by `latest`.
    pub(super) fn any_after(&self, turn: Turn, latest: Time) -> bool {
        self.entries.iter().any(|entry| entry.turn > turn && (entry.sacked || entry.begins <= latest))
    }

    /// Packets that crossed the link after the copy at `turn` and before that at `until`, and how many of these the
    /// other end is known to have.
    pub(super) fn between(&self, turn: Turn, until: Turn) -> (u32, u32) {
        let there = self.entries.iter().filter(|entry| entry.turn > turn && entry.turn < until);
        there.fold((0, 0), |(all, known), entry| (all + 1, known + u32::from(entry.sacked)))
    }

    /// Packets that crossed the link before the copy at `turn` and may still cause a duplicate ACK for it.
    pub(super) fn before(&self, turn: Turn) -> u32 {
        self.entries.iter().filter(|entry| entry.turn < turn && !entry.sacked).count() as u32
    }
}
