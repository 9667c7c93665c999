//! FEC: forward error correction over a link, packet by packet.
//!
//! *What it does.* The near end of the link puts the packets that pass into blocks of `k`, forwards each at once,
//! and sends `n - k` repairs after the last of a block; a block that is closed before it is full gets a proportional
//! number, at least one. The far end rebuilds the missing packets of a block as soon as any `k` of its `n` packets have
//! arrived. Packets of all flows share blocks.
//!
//! *Reacts to* every packet that departs over the link, ACKs and datagrams included, and to those that arrive. The
//! other direction passes unchanged, unless it has FEC too.
//!
//! *Differs from its paper:* the simulator carries no payload, so no field is computed: a maximum distance separable
//! code rebuilds a block exactly if `k` packets of it are there, whatever the bytes are (RFC 5510 section 8; Rizzo
//! 1997). The number of a packet in its block travels in the link's own header and adds no bytes; a repair packet is
//! two bytes longer than the longest packet of its block.
//!
//! *Validation:* NV-5.7: closed forms in `block.rs`, and in simulation over independent losses (`tests/fec.rs`).
//!
//! *Limitations:* repairs take capacity of the link: a connection that fills it gets `k / n` of it, with or without
//! losses. In order, as RFC 3819 section 15 advises for links, packets after a rebuilt one wait for it, datagrams
//! included. With `order = "out-of-order"` no packet waits, but a TCP sender may have seen three duplicate ACKs before
//! the block is complete, and treats the repaired loss as congestion. A burst longer than `(n - k)` times the depth of
//! interleaving defeats the code. A packet lost on the link counts as lost for the link and its flow even if it was
//! rebuilt: `fec_rebuilt` counts those.
//!
//! *Cost:* in memory 9.6 kB a flow, for what waits in order and the blocks that are not complete (a thousand Reno flows
//! over 500 Mbit/s that lose 2 %, with it and without); in time `bench/RESULTS.md`.
//!
//! *Kernel counterpart:* none for links; SMPTE 2022-1 and RFC 6865 do it for streams.
//!
//! *References:* Rizzo (1997); RFC 5510; RFC 6363.

mod block;
mod order;

use lasthop_core::packet::{Kind, NONE, Note, Packet};
use lasthop_core::time::{Span, Time};

use super::{Cx, Effect, Element, INBOUND, OUTBOUND, Parcel};
use crate::transport::extra::Extra;
use block::{Blocks, Closed, Shaper, Tag};
pub use block::{LONGEST_BLOCK, residual_loss};
use order::Order;

/// Bytes of a repair beyond the longest packet of its block: the length of a packet is part of what is coded.
const LENGTH_BYTES: u16 = 2;
/// Headers of IPv4 and UDP: as datagrams repairs are shown in traces.
const DATAGRAM_HEADERS: u16 = 28;
/// Most blocks that are remembered at once.
const MOST_BLOCKS: usize = 4096;
/// Weight of the newest block in the estimate of the loss rate.
const GAIN: f64 = 1.0 / 16.0;

/// The code.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fec {
    /// Source packets of a block.
    pub k: u32,
    /// Packets of a block, repairs included; at most [`LONGEST_BLOCK`].
    pub n: u32,
    /// Depth of interleaving: neighbours lie in different blocks.
    pub interleave: u32,
    /// Time from the first packet of a block until it is closed.
    pub close_after: Span,
    /// How long the receiver keeps a closed block after its last packet.
    pub hold: Span,
    /// What has crossed the link waits behind what may still be rebuilt, so long at most as a block is held.
    pub in_order: bool,
    /// The redundancy follows the losses: as few repairs as keep the residual loss below this, `n - k` at most.
    pub target: Option<f64>,
}

/// A source packet as the near end remembers it: in place of its bytes at the far end.
#[derive(Clone, Debug)]
struct Copy {
    packet: Packet,
    extra: Option<Box<Extra>>,
    /// Its place before the device.
    hop: u32,
    /// Its number, where order is kept.
    number: u64,
}

/// What waits at the far end for what was sent before it.
#[derive(Clone, Debug)]
enum Waiting {
    Came(Parcel),
    Rebuilt { packet: Packet, extra: Option<Box<Extra>>, hop: u32 },
}

/// Who lies in a slot of the arena: recognised by its header, because slots are used again.
#[derive(Clone, Copy, Debug)]
struct Known {
    seq: u64,
    stamp: Time,
    kind: Kind,
    bytes: u16,
    tag: Tag,
    number: u64,
}

/// The device at work: both ends of the link.
#[derive(Clone, Debug)]
pub(crate) struct Coding {
    plan: Fec,
    /// By which it knows its own repairs.
    salt: u64,
    shaper: Shaper,
    blocks: Blocks<Copy>,
    /// By slot of the packet.
    known: Vec<Option<Known>>,
    /// The place at which the repairs of the newest block were sent.
    last: Option<(Parcel, bool)>,
    /// Places between both ends.
    distance: Option<u32>,
    order: Option<Order<Waiting>>,
    /// Estimate of the loss rate.
    loss: f64,
    sources: u64,
    repairs: u64,
    rebuilt: u64,
    given_up: u64,
    late: u64,
}

impl Coding {
    pub(super) fn new(plan: &Fec, name: &str, _seed: u64) -> Coding {
        let salt = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Coding {
            plan: *plan,
            salt,
            shaper: Shaper::new(plan.k, plan.interleave, plan.close_after),
            blocks: Blocks::new(plan.hold, MOST_BLOCKS),
            known: Vec::new(),
            last: None,
            distance: None,
            order: plan.in_order.then(|| Order::new(plan.hold)),
            loss: 0.0,
            sources: 0,
            repairs: 0,
            rebuilt: 0,
            given_up: 0,
            late: 0,
        }
    }

    /// How many repairs a block of `count` packets gets now. One that was closed before it was full gets its share of
    /// them: a lone ACK with those of a whole block would fill the link with repairs.
    fn redundancy(&self, count: u32) -> u32 {
        let most = ((self.plan.n - self.plan.k) * count).div_ceil(self.plan.k);
        let Some(target) = self.plan.target else { return most };
        let p = self.loss.min(0.99);
        (0..most).find(|&repairs| residual_loss(count, repairs, p) <= target).unwrap_or(most)
    }

    /// Sends the repairs of a block behind its last packet.
    fn send_repairs(&mut self, closed: Closed, cx: &mut Cx<'_>) {
        let Some((parcel, back)) = self.last else { return };
        let repairs = self.redundancy(closed.count);
        self.blocks.close(closed.block, repairs);
        if let Some(order) = &mut self.order {
            for index in 0..closed.count as u8 {
                if let Some(copy) = self.blocks.source(Tag { block: closed.block, index }) {
                    order.close(copy.number);
                }
            }
        }
        for index in 0..repairs {
            self.repairs += u64::from(cx.window.contains(cx.now));
            // Which repair of its block it is travels where others have their window.
            let packet = Packet {
                seq: closed.block,
                stamp: cx.now,
                echo: Time(self.salt),
                bytes: closed.longest.saturating_add(LENGTH_BYTES),
                payload: closed.longest.saturating_add(LENGTH_BYTES).saturating_sub(DATAGRAM_HEADERS),
                extra: NONE,
                window: index,
                kind: Kind::Repair,
                note: Note::new(back, false),
                ..Packet::default()
            };
            cx.effects.push(Effect::Emit { packet, extra: None, hop: parcel.hop + 1, at: cx.now });
        }
    }

    /// A packet is about to enter the link.
    fn depart(&mut self, parcel: Parcel, cx: &mut Cx<'_>) {
        let packet = *cx.packets.get(parcel.packet);
        let extra = if packet.extra == NONE { None } else { cx.extra(parcel.packet) };
        self.last = Some((parcel, packet.note.back));
        self.sources += u64::from(cx.window.contains(cx.now));
        let (tag, closed) = self.shaper.add(parcel.bytes, cx.now);
        let number = self.order.as_mut().map_or(0, Order::send);
        let hop = parcel.hop;
        self.blocks.add(tag, Copy { packet: Packet { extra: NONE, ..packet }, extra, hop, number });
        let slot = parcel.packet as usize;
        if self.known.len() <= slot {
            self.known.resize(slot + 1, None);
        }
        let Packet { seq, stamp, kind, bytes, .. } = packet;
        self.known[slot] = Some(Known { seq, stamp, kind, bytes, tag, number });
        cx.forward(parcel);
        if let Some(closed) = closed {
            self.send_repairs(closed, cx);
        }
    }

    /// The place of a packet that has crossed the link, if it has one.
    fn recognise(&mut self, parcel: Parcel, cx: &Cx<'_>) -> Option<(Tag, u64)> {
        let packet = cx.packets.get(parcel.packet);
        let known = self.known.get_mut(parcel.packet as usize)?.take()?;
        let is_it = (known.seq, known.stamp, known.kind, known.bytes)
            == (packet.seq, packet.stamp, packet.kind, packet.bytes);
        is_it.then_some((known.tag, known.number))
    }

    /// A packet has crossed the link.
    fn arrive(&mut self, parcel: Parcel, cx: &mut Cx<'_>) {
        let packet = cx.packets.get(parcel.packet);
        if packet.kind == Kind::Repair && packet.echo == Time(self.salt) {
            let (block, index) = (packet.seq, packet.window as u8);
            cx.effects.push(Effect::Absorb { parcel });
            let missing = self.blocks.repair_arrives(block, index, cx.now);
            return self.rebuild(block, &missing, cx);
        }
        let Some((tag, number)) = self.recognise(parcel, cx) else { return cx.forward(parcel) };
        if self.distance.is_none() {
            self.distance = self.blocks.source(tag).and_then(|copy| parcel.hop.checked_sub(copy.hop));
        }
        match self.blocks.source_arrives(tag, cx.now) {
            None => {
                self.late += u64::from(cx.window.contains(cx.now));
                cx.effects.push(Effect::Absorb { parcel });
            }
            Some(missing) => {
                self.deliver(number, Waiting::Came(parcel), cx);
                self.rebuild(tag.block, &missing, cx);
            }
        }
    }

    /// Hands on what has been rebuilt of a block.
    fn rebuild(&mut self, block: u64, missing: &[u8], cx: &mut Cx<'_>) {
        for &index in missing {
            let Some(distance) = self.distance else { return };
            let Some(copy) = self.blocks.source(Tag { block, index }) else { continue };
            let (packet, extra, hop) = (copy.packet, copy.extra.take(), copy.hop + distance + 1);
            let number = copy.number;
            self.rebuilt += u64::from(cx.window.contains(cx.now));
            self.deliver(number, Waiting::Rebuilt { packet, extra, hop }, cx);
        }
    }

    /// Hands on what is here, or lets it wait for its turn.
    fn deliver(&mut self, number: u64, what: Waiting, cx: &mut Cx<'_>) {
        let came = matches!(what, Waiting::Came(_));
        let Some(order) = &mut self.order else { return hand_on(what, cx) };
        if let Some(late) = order.arrive(number, what, came) {
            hand_on(late, cx);
        }
        self.release(cx);
    }

    /// Hands on those whose turn it is.
    fn release(&mut self, cx: &mut Cx<'_>) {
        let Some(order) = &mut self.order else { return };
        while let Some(next) = order.release(cx.now) {
            hand_on(next, cx);
        }
        if let Some(due) = order.due() {
            cx.wake(due);
        }
    }

    /// Closes the blocks that are due, forgets the old ones, and asks for the next time.
    fn run(&mut self, cx: &mut Cx<'_>) {
        while let Some(closed) = self.shaper.close_due(cx.now) {
            self.send_repairs(closed, cx);
        }
        while let Some(outcome) = self.blocks.forget(cx.now) {
            self.given_up += if cx.window.contains(cx.now) { u64::from(outcome.missing) } else { 0 };
            if outcome.sent > 0 {
                let share = f64::from(outcome.lost) / f64::from(outcome.sent);
                self.loss += GAIN * (share - self.loss);
            }
        }
        if let Some(due) = self.shaper.due() {
            cx.wake(due);
        }
        self.release(cx);
    }
}

/// Lets a packet go on from the far end.
fn hand_on(what: Waiting, cx: &mut Cx<'_>) {
    match what {
        Waiting::Came(parcel) => cx.forward(parcel),
        Waiting::Rebuilt { packet, extra, hop } => {
            cx.effects.push(Effect::Emit { packet, extra, hop, at: cx.now });
        }
    }
}

impl Element for Coding {
    fn receive(&mut self, parcel: Parcel, port: u32, cx: &mut Cx<'_>) {
        self.run(cx);
        match port {
            OUTBOUND => self.depart(parcel, cx),
            INBOUND => cx.forward(parcel),
            _ => self.arrive(parcel, cx),
        }
        if let Some(due) = self.shaper.due() {
            cx.wake(due);
        }
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        self.run(cx);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        for waiting in self.order.iter_mut().flat_map(Order::drain) {
            if let Waiting::Came(parcel) = waiting {
                cx.keep(parcel);
            }
        }
    }

    fn repairs(&self) -> Option<u64> {
        Some(self.rebuilt)
    }

    fn holdings(&self) -> Vec<(&'static str, u64)> {
        vec![("fec_waiting", self.order.as_ref().map_or(0, Order::here))]
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("fec_sources", self.sources),
            ("fec_repairs", self.repairs),
            ("fec_rebuilt", self.rebuilt),
            ("fec_given_up", self.given_up),
            ("fec_late", self.late),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::super::FAR;
    use super::super::testing::Bench;
    use super::*;

    fn plan(k: u32, n: u32) -> Fec {
        let (close_after, hold) = (Span::from_millis(20), Span::from_millis(200));
        Fec { k, n, interleave: 1, close_after, hold, in_order: false, target: None }
    }

    fn millis(value: u64) -> Time {
        Time::ZERO + Span::from_millis(value)
    }

    /// What is emitted: kind, bytes, place.
    fn emitted(effects: &[Effect]) -> Vec<(Kind, u16, u32)> {
        let emitted = |effect: &Effect| match effect {
            Effect::Emit { packet, hop, .. } => Some((packet.kind, packet.bytes, *hop)),
            _ => None,
        };
        effects.iter().filter_map(emitted).collect()
    }

    /// Packets 0 to 2 of 1000, 1200 and 1100 B, and two repairs of 1202 B; packets 0 and 2 are lost on the way over two
    /// places and come back behind the second repair.
    #[test]
    fn lost_packets_are_rebuilt() {
        let mut bench = Bench::new(Coding::new(&plan(3, 5), "fec", 1));
        for bytes in [1000, 1200, 1100] {
            bench.offer(OUTBOUND, bytes, millis(0));
        }
        assert_eq!(emitted(&bench.effects), [(Kind::Repair, 1202, 1); 2]);
        bench.send_on(1, FAR, 2, millis(10));
        let repair = bench.emitted_packet(0);
        bench.offer_at(repair, FAR, 2, millis(11));
        bench.offer_at(repair, FAR, 2, millis(11));
        assert_eq!(emitted(&bench.effects).len(), 2, "two of five do not suffice, even if one comes twice");
        let other = bench.emitted_packet(1);
        bench.offer_at(other, FAR, 2, millis(12));
        assert_eq!(emitted(&bench.effects)[2..], [(Kind::Data, 1000, 3), (Kind::Data, 1100, 3)]);
        bench.send_on(0, FAR, 2, millis(13));
        assert_eq!(bench.device.late, 1, "the original of what has been rebuilt is not wanted");
        assert_eq!(
            bench.device.counters()[..3],
            [("fec_sources", 3), ("fec_repairs", 2), ("fec_rebuilt", 2)]
        );
    }

    /// A block that does not fill is closed after 20 ms; a quarter of a block gets a quarter of the repairs, and one at
    /// least.
    #[test]
    fn short_blocks_are_closed_in_time() {
        let mut bench = Bench::new(Coding::new(&plan(8, 10), "fec", 1));
        bench.offer(OUTBOUND, 500, millis(0));
        bench.offer(OUTBOUND, 700, millis(5));
        bench.run_until(millis(20));
        assert!(emitted(&bench.effects).is_empty());
        bench.run_until(millis(21));
        assert_eq!(emitted(&bench.effects), [(Kind::Repair, 702, 1)]);
        assert_eq!([1, 4, 5, 8].map(|count| bench.device.redundancy(count)), [1, 1, 2, 2]);
    }

    /// Without losses the adaptive code sends no repairs; at 5 % it sends as many as the target asks for.
    #[test]
    fn redundancy_follows_the_losses() {
        let mut device = Coding::new(&Fec { target: Some(1e-3), ..plan(8, 14) }, "fec", 1);
        assert_eq!(device.redundancy(8), 0);
        device.loss = 0.05;
        let repairs = device.redundancy(8);
        assert!(residual_loss(8, repairs, 0.05) <= 1e-3 && residual_loss(8, repairs - 1, 0.05) > 1e-3);
        device.loss = 0.9;
        assert_eq!(device.redundancy(8), 6, "n - k at most");
    }

    #[test]
    fn nothing_that_comes_breaks_it() {
        for in_order in [false, true] {
            let plan = Fec { interleave: 3, target: Some(0.01), in_order, ..plan(5, 9) };
            super::super::testing::hammer(
                || Coding::new(&plan, "fec", 1),
                3,
                |device| {
                    let waiting = device.order.as_ref().map_or(0, Order::len);
                    device.blocks.len() <= MOST_BLOCKS + 4 && waiting <= 1 << 16
                },
            );
        }
    }
}
