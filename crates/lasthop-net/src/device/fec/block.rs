//! Blocks of an erasure code, without a byte of payload: which packet belongs to which block, when a block is closed,
//! and which packets can be rebuilt from what has arrived. What a code on real bytes adds is the arithmetic alone.
//!
//! The codes meant are separable by maximum distance: any `k` of the `n` packets of a block give the others. XOR is
//! such a code with one repair, Reed-Solomon over GF(256) one with up to 255 packets.

use std::collections::VecDeque;

use lasthop_core::time::{Span, Time};

/// Most packets of a block: what GF(256) tells apart without zero.
pub const LONGEST_BLOCK: u32 = 255;

/// The place of a packet in its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) block: u64,
    pub(super) index: u8,
}

/// A block that is being filled.
#[derive(Clone, Copy, Debug)]
struct Open {
    block: u64,
    count: u32,
    longest: u16,
    due: Time,
}

/// A block that takes no more packets: its repairs may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Closed {
    pub(super) block: u64,
    /// Source packets in it.
    pub(super) count: u32,
    /// Bytes of the longest.
    pub(super) longest: u16,
}

/// Puts packets into blocks.
#[derive(Clone, Debug)]
pub(super) struct Shaper {
    k: u32,
    close_after: Span,
    /// One per depth of interleaving; packets go to them in turn.
    open: Vec<Option<Open>>,
    turn: usize,
    next: u64,
}

impl Shaper {
    pub(super) fn new(k: u32, depth: u32, close_after: Span) -> Shaper {
        Shaper { k, close_after, open: vec![None; depth.max(1) as usize], turn: 0, next: 0 }
    }

    /// A packet of this many bytes: its place, and the block that it fills.
    pub(super) fn add(&mut self, bytes: u16, now: Time) -> (Tag, Option<Closed>) {
        let turn = self.turn;
        self.turn = (turn + 1) % self.open.len();
        let next = &mut self.next;
        let due = now + self.close_after;
        let open = self.open[turn].get_or_insert_with(|| {
            *next += 1;
            Open { block: *next - 1, count: 0, longest: 0, due }
        });
        let tag = Tag { block: open.block, index: open.count as u8 };
        open.count += 1;
        open.longest = open.longest.max(bytes);
        let full = open.count >= self.k;
        let closed = Closed { block: open.block, count: open.count, longest: open.longest };
        if full {
            self.open[turn] = None;
        }
        (tag, full.then_some(closed))
    }

    /// When the next block is closed although it is not full.
    pub(super) fn due(&self) -> Option<Time> {
        self.open.iter().flatten().map(|open| open.due).min()
    }

    /// Closes a block that is due.
    pub(super) fn close_due(&mut self, now: Time) -> Option<Closed> {
        let open = self.open.iter_mut().find(|open| open.is_some_and(|open| open.due <= now))?.take()?;
        Some(Closed { block: open.block, count: open.count, longest: open.longest })
    }
}

/// What is known of a block at the far end, and what is kept of it.
#[derive(Clone, Debug)]
pub(super) struct Block<T> {
    /// The packets themselves, by their places.
    pub(super) sources: Vec<T>,
    /// Which of them have arrived or have been rebuilt.
    here: [u64; 4],
    /// How many of them arrived.
    arrived: u32,
    /// Repairs sent, and those that arrived.
    sent: u32,
    repairs: u32,
    /// Which these are: a repair that came twice tells no more than one.
    known_repairs: [u64; 4],
    closed: bool,
    /// When the far end last heard of it, or first heard of a later one.
    heard: Option<Time>,
}

impl<T> Block<T> {
    fn has(&self, index: u8) -> bool {
        self.here[usize::from(index) / 64] >> (index % 64) & 1 == 1
    }

    fn set(&mut self, index: u8) {
        self.here[usize::from(index) / 64] |= 1 << (index % 64);
    }

    /// The places that are missing, if what is here suffices to rebuild them.
    fn rebuild(&mut self) -> Vec<u8> {
        let count = self.sources.len() as u32;
        if !self.closed || self.arrived >= count || self.arrived + self.repairs < count {
            return Vec::new();
        }
        let missing: Vec<u8> = (0..count as u8).filter(|&index| !self.has(index)).collect();
        for &index in &missing {
            self.set(index);
        }
        missing
    }

    /// How many of its packets, repairs included, did not arrive, and how many source packets are still missing.
    fn losses(&self) -> (u32, u32) {
        let count = self.sources.len() as u32;
        let here: u32 = self.here.iter().map(|word| word.count_ones()).sum();
        (count + self.sent - self.arrived - self.repairs, count - here)
    }
}

/// What became of a block when it is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Packets of it, repairs included, and how many of them did not arrive.
    pub(super) sent: u32,
    pub(super) lost: u32,
    /// Source packets that were not rebuilt.
    pub(super) missing: u32,
}

/// The blocks that are not forgotten, in the order of their numbers.
#[derive(Clone, Debug)]
pub(super) struct Blocks<T> {
    kept: VecDeque<Block<T>>,
    /// Number of the first.
    first: u64,
    hold: Span,
    most: usize,
}

impl<T> Blocks<T> {
    /// A closed block is forgotten `hold` after its last packet, or when there are more than `most`: the delay of the
    /// link does not matter.
    pub(super) fn new(hold: Span, most: usize) -> Blocks<T> {
        Blocks { kept: VecDeque::new(), first: 0, hold, most }
    }

    /// How many are remembered.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    fn get(&mut self, block: u64) -> Option<&mut Block<T>> {
        self.kept.get_mut(usize::try_from(block.checked_sub(self.first)?).ok()?)
    }

    /// A source packet has been sent.
    pub(super) fn add(&mut self, tag: Tag, source: T) {
        while self.first + self.kept.len() as u64 <= tag.block {
            let empty = Block {
                sources: Vec::new(),
                here: [0; 4],
                arrived: 0,
                sent: 0,
                repairs: 0,
                known_repairs: [0; 4],
                closed: false,
                heard: None,
            };
            self.kept.push_back(empty);
        }
        if let Some(block) = self.get(tag.block) {
            block.sources.push(source);
        }
    }

    /// The repairs of a block are sent.
    pub(super) fn close(&mut self, block: u64, repairs: u32) {
        if let Some(block) = self.get(block) {
            block.closed = true;
            block.sent = repairs;
        }
    }

    /// The far end hears of a block, and so of all that were sent before.
    fn hear(&mut self, block: u64, now: Time) {
        let Some(place) = block.checked_sub(self.first) else { return };
        let place = usize::try_from(place).unwrap_or(usize::MAX).min(self.kept.len().saturating_sub(1));
        if let Some(block) = self.kept.get_mut(place) {
            block.heard = Some(now);
        }
        for earlier in self.kept.range_mut(..place.min(self.kept.len())).rev() {
            if earlier.heard.is_some() {
                break;
            }
            earlier.heard = Some(now);
        }
    }

    /// A source packet has arrived. `None` if it has been rebuilt before; else what can be rebuilt now.
    pub(super) fn source_arrives(&mut self, tag: Tag, now: Time) -> Option<Vec<u8>> {
        self.hear(tag.block, now);
        let Some(block) = self.get(tag.block) else { return Some(Vec::new()) };
        if block.has(tag.index) {
            return None;
        }
        block.set(tag.index);
        block.arrived += 1;
        Some(block.rebuild())
    }

    /// A repair has arrived: what can be rebuilt now.
    pub(super) fn repair_arrives(&mut self, block: u64, index: u8, now: Time) -> Vec<u8> {
        self.hear(block, now);
        let Some(block) = self.get(block) else { return Vec::new() };
        let (word, bit) = (&mut block.known_repairs[usize::from(index) / 64], 1 << (index % 64));
        block.repairs += u32::from(*word & bit == 0);
        *word |= bit;
        block.rebuild()
    }

    /// A source packet of a block that is not forgotten.
    pub(super) fn source(&mut self, tag: Tag) -> Option<&mut T> {
        self.get(tag.block)?.sources.get_mut(usize::from(tag.index))
    }

    /// Forgets the oldest block, if it is time.
    pub(super) fn forget(&mut self, now: Time) -> Option<Outcome> {
        let oldest = self.kept.front()?;
        let over = oldest.closed && oldest.heard.is_some_and(|heard| heard + self.hold <= now);
        if !over && self.kept.len() <= self.most {
            return None;
        }
        let (lost, missing) = oldest.losses();
        let sent = oldest.sources.len() as u32 + oldest.sent;
        self.kept.pop_front();
        self.first += 1;
        Some(Outcome { sent, lost, missing })
    }
}

/// Probability that a source packet is lost for good: it is lost, and so are at least as many of the others as there
/// are repairs. Losses are independent with the probability `p`.
pub fn residual_loss(k: u32, repairs: u32, p: f64) -> f64 {
    let others = k + repairs - 1;
    let mut at_most = 0.0;
    let mut term = (1.0 - p).powi(others as i32);
    for lost in 0..repairs {
        at_most += term;
        term *= f64::from(others - lost) / f64::from(lost + 1) * p / (1.0 - p);
    }
    p * (1.0 - at_most).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NV-5.7.
    #[test]
    fn residual_losses_of_known_codes() {
        let close = |found: f64, expected: f64| (found / expected - 1.0).abs() < 2e-4;
        assert!(close(residual_loss(4, 1, 0.01), 3.940e-4), "{}", residual_loss(4, 1, 0.01));
        assert!(close(residual_loss(4, 1, 0.05), 9.275e-3), "{}", residual_loss(4, 1, 0.05));
        assert!(close(residual_loss(8, 2, 0.05), 3.561e-3), "{}", residual_loss(8, 2, 0.05));
        assert!(close(residual_loss(10, 2, 0.01), 5.180e-5), "{}", residual_loss(10, 2, 0.01));
        assert!(close(residual_loss(16, 4, 0.05), 6.618e-4), "{}", residual_loss(16, 4, 0.05));
    }

    /// Two interleaved blocks of two: packets 0 and 2 are one, 1 and 3 the other.
    #[test]
    fn packets_go_to_blocks_in_turn() {
        let mut shaper = Shaper::new(2, 2, Span::from_millis(20));
        let added: Vec<(u64, u8, Option<u64>)> = (0..5u16)
            .map(|number| {
                let (tag, closed) = shaper.add(100 + number, Time(number.into()));
                (tag.block, tag.index, closed.map(|closed| closed.block))
            })
            .collect();
        assert_eq!(added, [(0, 0, None), (1, 0, None), (0, 1, Some(0)), (1, 1, Some(1)), (2, 0, None)]);
        // The last is alone, and is closed 20 ms after it came.
        assert_eq!((shaper.due(), shaper.close_due(Time(19_999_999))), (Some(Time(20_000_004)), None));
        let closed = shaper.close_due(Time(20_000_004)).unwrap();
        assert_eq!((closed, shaper.due()), (Closed { block: 2, count: 1, longest: 104 }, None));
    }

    /// A block of which nothing arrives is forgotten when a later one has been heard of.
    #[test]
    fn a_block_without_arrivals_goes_with_the_next() {
        let mut blocks: Blocks<u8> = Blocks::new(Span::from_millis(200), 10);
        for block in 0..3 {
            blocks.add(Tag { block, index: 0 }, 0);
            blocks.close(block, 1);
        }
        assert_eq!(blocks.forget(Time(5_000_000_000)), None, "all may be on the way");
        blocks.repair_arrives(1, 0, Time(5_000_000_000));
        assert_eq!(blocks.forget(Time(5_200_000_000)), Some(Outcome { sent: 2, lost: 2, missing: 1 }));
        assert_eq!(blocks.forget(Time(5_200_000_000)), Some(Outcome { sent: 2, lost: 1, missing: 0 }));
        assert_eq!(blocks.forget(Time(5_200_000_000)), None);
    }

    /// Of three sources and two repairs any three give the rest, whatever comes first.
    #[test]
    fn any_k_of_n_give_the_rest() {
        let mut blocks: Blocks<u8> = Blocks::new(Span::from_millis(200), 10);
        let tag = |index| Tag { block: 0, index };
        (0..3).for_each(|index| blocks.add(tag(index), index));
        blocks.close(0, 2);
        // Longer on the way than a block is held.
        let there = Time(900_000_000);
        assert_eq!(blocks.forget(there), None);
        assert_eq!(blocks.repair_arrives(0, 0, there), []);
        assert_eq!(blocks.source_arrives(tag(1), there), Some(vec![]));
        assert_eq!(blocks.repair_arrives(0, 0, there), [], "the same repair again tells nothing");
        assert_eq!(blocks.repair_arrives(0, 1, there), [0, 2]);
        assert_eq!(blocks.source_arrives(tag(2), there), None, "it has been rebuilt");
        assert_eq!(blocks.forget(Time(1_099_999_999)), None);
        assert_eq!(blocks.forget(Time(1_100_000_000)), Some(Outcome { sent: 5, lost: 2, missing: 0 }));
        assert_eq!(
            blocks.source_arrives(tag(0), there),
            Some(vec![]),
            "of a block that is forgotten nothing is known"
        );
    }
}
