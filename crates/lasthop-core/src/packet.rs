//! The packet: one cache line, `Copy`, addressed by index while it waits in a channel.
//!
//! Anything rare (SACK blocks, measurements that a receiver echoes) hangs off an index. Sequence numbers count bytes; a
//! SYN and a FIN take one each.

use crate::event::MAX_PACKETS;
use crate::large_pages::pages_of;
use crate::room::make_room;
use crate::time::Time;

/// No packet, no blocks.
pub const NONE: u32 = u32::MAX;

/// What a packet carries; the order is that of [`Kind::NAMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Kind {
    /// Opens a connection.
    Syn,
    /// Answers a SYN.
    SynAck,
    /// TCP payload.
    #[default]
    Data,
    /// Pure acknowledgement.
    Ack,
    /// Closes a direction, with or without payload.
    Fin,
    /// Answers a FIN and closes the other direction.
    FinAck,
    /// UDP payload.
    Udp,
    /// Asks the receiver for an answer at once (TCP Probing).
    Probe,
    /// Answers a probe.
    ProbeAnswer,
    /// A receiver's report to a rate-based sender.
    Feedback,
    /// A base station's notice to the sender that the wireless link is bad (EBSN).
    BadState,
    /// A repair of an erasure code (FEC): of a link, and of no flow.
    Repair,
    /// Ends a connection at once (RST): one end has given it up, or knows nothing of it.
    Reset,
}

impl Kind {
    /// Names as they appear in traces.
    pub const NAMES: [&'static str; 13] = [
        "syn",
        "syn-ack",
        "data",
        "ack",
        "fin",
        "fin-ack",
        "udp",
        "probe",
        "probe-answer",
        "feedback",
        "bad-state",
        "repair",
        "reset",
    ];

    /// The name in traces.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// ECN field and flags of the TCP header, one bit each.
pub mod flag {
    /// ECN-capable transport.
    pub const ECT: u8 = 1;
    /// Congestion experienced.
    pub const CE: u8 = 2;
    /// ECN echo (receiver to sender).
    pub const ECE: u8 = 4;
    /// Congestion window reduced (sender to receiver).
    pub const CWR: u8 = 8;
    /// Explicit loss notification: the loss that this duplicate ACK reports happened on the wireless link.
    pub const ELN: u8 = 16;
    /// The receiver is to hand on what it has, and acknowledges at once where its profile does (sender to receiver).
    pub const PSH: u8 = 64;
    /// Accurate ECN: with [`CWR`] and [`ECE`] a counter of marks, or a code of the handshake (RFC 9768).
    pub const AE: u8 = 32;
    /// The three of them.
    pub const ACE: u8 = AE | CWR | ECE;
    /// Beside [`ECT`]: the code point is ECT(1), not ECT(0) (RFC 3168 section 5, RFC 9331).
    pub const ECT_1: u8 = 128;
}

/// What a simulation stores about a packet and no wire carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Note {
    /// It is on its way from the receiver to the sender.
    pub back: bool,
    /// Whether it was sent before, goes ahead of others, and is without data of an application, one bit each.
    rest: u8,
}

impl Note {
    const AGAIN: u8 = 1;
    const AHEAD: u8 = 2;
    const BARE: u8 = 4;

    /// That of a packet to the sender.
    pub const BACK: Note = Note::new(true, false);

    /// That of a packet to the sender (`back`) or the receiver, sent before or not.
    #[inline]
    pub const fn new(back: bool, again: bool) -> Note {
        Note { back, rest: if again { Note::AGAIN } else { 0 } }
    }

    /// Its range was sent before. When that was for the first time hangs off [`Packet::extra`].
    #[inline]
    pub fn again(self) -> bool {
        self.rest & Note::AGAIN != 0
    }

    /// The same, and it was.
    #[must_use]
    pub fn sent_before(self) -> Note {
        Note { rest: self.rest | Note::AGAIN, ..self }
    }

    /// The same, without data of an application in what a stack of others has sealed.
    #[must_use]
    pub fn bare(self) -> Note {
        Note { rest: self.rest | Note::BARE, ..self }
    }

    /// Whether it is known to carry no data of an application, however long it is.
    #[inline]
    pub fn is_bare(self) -> bool {
        self.rest & Note::BARE != 0
    }

    /// The same, to be served before those that wait at the head of the next link.
    #[must_use]
    pub fn ahead(self) -> Note {
        Note { rest: self.rest | Note::AHEAD, ..self }
    }

    /// Whether it is to be served before those that wait at this link; at the next one it is not.
    #[inline]
    pub fn take_ahead(&mut self) -> bool {
        let ahead = self.rest & Note::AHEAD != 0;
        self.rest &= !Note::AHEAD;
        ahead
    }
}

/// Where and for what a packet waits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wait {
    /// Arrival at the place where it waits (a deferred link or an endpoint).
    pub at: Time,
    /// What orders it among the arrivals of that instant.
    pub order: u64,
    /// Index into the hop table: the next place on the path, which also knows the flow.
    pub hop: u32,
    /// Next packet of the same list, or [`NONE`].
    pub next: u32,
}

/// A packet on its way: its header, and apart from it what the simulation does with it. 64 bytes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub struct Packet {
    /// First byte of the payload; for ACKs the cumulative acknowledgement.
    pub seq: u64,
    /// When this transmission left the transport (the timestamp option's `TSval`).
    pub stamp: Time,
    /// The newest timestamp of the other end (the timestamp option's `TSecr`).
    pub echo: Time,
    /// Receiver window in bytes, as the other end reads it: scaled, and whole units of the scale.
    pub window: u32,
    /// Index of what else it carries, or [`NONE`].
    pub extra: u32,
    /// Bytes on the wire, headers included.
    pub bytes: u16,
    /// Payload bytes.
    pub payload: u16,
    /// What it carries.
    pub kind: Kind,
    /// Bits of [`flag`].
    pub flags: u8,
    /// What no wire carries.
    pub note: Note,
    /// Where it is.
    pub wait: Wait,
}

impl Packet {
    /// Whether it travels from the sender to the receiver of its flow.
    #[inline]
    pub fn is_forward(&self) -> bool {
        !self.note.back
    }

    /// Whether all bits of `flag` are set.
    #[inline]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag == flag
    }
}

const _: () = assert!(size_of::<Packet>() == 64, "a packet is one cache line");

/// Why a packet ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The queue was full.
    QueueOverflow,
    /// The channel corrupted it.
    ChannelError,
    /// The link was down.
    Outage,
    /// A link with retransmission made its last attempt in vain.
    LinkGaveUp,
    /// A queue dropped it to keep itself short.
    EarlyDrop,
    /// A policer found it beyond what it allows.
    Policed,
    /// Its way was taken away while it was on it, or no route led on.
    RouteChanged,
    /// A helper in the path suppressed it, because it is not needed any more.
    Withheld,
}

impl Cause {
    /// Number of causes.
    pub const COUNT: usize = 8;
    /// Names as they appear in results, in the order of the variants.
    pub const NAMES: [&'static str; Self::COUNT] = [
        "queue-overflow",
        "channel-error",
        "outage",
        "link-gave-up",
        "early-drop",
        "policed",
        "route-changed",
        "withheld",
    ];
    /// What each means, for people.
    pub const HELP: [&'static str; Self::COUNT] = [
        "the queue was full",
        "the error model",
        "the link was down",
        "the link gave up after its last retransmission",
        "dropped early by the AQM (RED, CoDel, PIE, FQ-CoDel)",
        "a policer dropped it in excess of its rate",
        "its route was removed while it was in flight, or no route led on",
        "suppressed by a helper: a duplicate ACK for a loss that it is repairing, or data that the receiver \
         already has",
    ];

    /// The name in results.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// Drops by cause.
pub type Drops = [u64; Cause::COUNT];

/// Where every packet of a run went: created = delivered + dropped + in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Packets handed to the network.
    pub created: u64,
    /// Packets that reached their endpoint.
    pub delivered: u64,
    /// Packets lost, by cause.
    pub dropped: Drops,
    /// Packets on their way when the run ended.
    pub in_flight: u64,
}

impl Ledger {
    /// Whether every packet is accounted for exactly once.
    pub fn balances(&self) -> bool {
        self.created == self.delivered + self.dropped.iter().sum::<u64>() + self.in_flight
    }
}

/// The same of the measured time alone: carried over + created = delivered + dropped + what is on its way at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Packets on their way when the measured time began.
    pub carried_over: u64,
    /// Packets handed to the network.
    pub created: u64,
    /// Packets that reached their endpoint.
    pub delivered: u64,
    /// Packets lost, by cause.
    pub dropped: Drops,
}

impl Measured {
    /// Packets on their way when the measured time ended.
    pub fn in_flight(&self) -> u64 {
        self.carried_over + self.created - self.delivered - self.dropped.iter().sum::<u64>()
    }
}

/// Packets that wait in channels, in one slab with a free list: no allocation once the run has warmed up.
#[derive(Clone, Debug)]
pub struct PacketArena {
    packets: Vec<Packet>,
    free: u32,
}

impl Default for PacketArena {
    fn default() -> Self {
        PacketArena { packets: Vec::new(), free: NONE }
    }
}

impl PacketArena {
    /// Stores a packet and returns its index.
    ///
    /// Always inlined, so that the caller's fields go straight into the slot: a copy of a packet that has just been
    /// written waits for those writes.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "measured: a tenth of the time per packet")]
    pub fn insert(&mut self, packet: Packet) -> u32 {
        if self.free == NONE {
            self.grow();
        }
        let index = self.free;
        let slot = &mut self.packets[index as usize];
        self.free = slot.wait.next;
        *slot = packet;
        index
    }

    /// Adds a free slot. Beyond the number that can be addressed the last slot is used again: what happens then
    /// is wrong, and the driver of a world ends it with an error when [`PacketArena::is_exhausted`].
    #[cold]
    fn grow(&mut self) {
        if self.is_exhausted() {
            self.free = MAX_PACKETS - 1;
            self.get_mut(MAX_PACKETS - 1).wait.next = NONE;
            return;
        }
        self.free = self.packets.len() as u32;
        let wait = Wait { next: NONE, ..Wait::default() };
        make_room(&mut self.packets, 64);
        self.packets.push(Packet { wait, ..Packet::default() });
    }

    /// Whether as many packets are waiting as can be addressed.
    pub fn is_exhausted(&self) -> bool {
        self.packets.len() as u64 >= u64::from(MAX_PACKETS)
    }

    /// Frees the slot at `index`.
    #[inline]
    pub fn remove(&mut self, index: u32) {
        self.get_mut(index).wait.next = self.free;
        self.free = index;
    }

    /// How many packets there were at most.
    pub fn most(&self) -> usize {
        self.packets.len()
    }

    /// The packets that are there.
    pub fn iter(&self) -> impl Iterator<Item = &Packet> {
        let mut taken = vec![true; self.packets.len()];
        let mut free = self.free;
        while free != NONE {
            taken[free as usize] = false;
            free = self.get(free).wait.next;
        }
        self.packets.iter().zip(taken).filter_map(|(packet, taken)| taken.then_some(packet))
    }

    /// Addresses on each page that packets lie on.
    pub fn pages(&self) -> impl Iterator<Item = usize> {
        pages_of(&self.packets)
    }

    /// The packet at `index`.
    #[inline]
    pub fn get(&self, index: u32) -> &Packet {
        &self.packets[index as usize]
    }

    /// The packet at `index`, to be changed.
    #[inline]
    pub fn get_mut(&mut self, index: u32) -> &mut Packet {
        &mut self.packets[index as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arena_reuses_the_last_slot_first() {
        let mut arena = PacketArena::default();
        let first = arena.insert(Packet { seq: 1, ..Packet::default() });
        let second = arena.insert(Packet { seq: 2, ..Packet::default() });
        assert_eq!(arena.get(first).seq, 1);
        arena.remove(first);
        assert_eq!(arena.insert(Packet { seq: 3, ..Packet::default() }), first);
        assert_eq!((arena.get(first).seq, arena.get(second).seq), (3, 2));
        arena.remove(second);
        assert_eq!(arena.iter().map(|packet| packet.seq).collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn a_ledger_that_lost_a_packet_does_not_balance() {
        let mut ledger = Ledger { created: 3, delivered: 1, dropped: [0, 1, 0, 0, 0, 0, 0, 0], in_flight: 1 };
        assert!(ledger.balances());
        ledger.in_flight = 0;
        assert!(!ledger.balances());
    }
}
