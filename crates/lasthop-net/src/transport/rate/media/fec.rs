//! Forward error correction of media: packets that hold the XOR of others (FlexFEC, RFC 8627), from which the receiver
//! makes the one that is missing among them.
//!
//! [`Protector`] is the sender's side: it takes each new packet and hands out parities. [`Recoverer`] is the
//! receiver's. A parity covers a row of consecutive packets (section 1.1.1), or a column, packets that are a row apart
//! (section 1.1.2); of both together one repairs what the other cannot (section 1.1.3). What stands in for the bytes is
//! what a packet is known by: the XOR of first bytes, lengths and times of sending, so that a packet that is recovered
//! wrongly would not fit anywhere. A block that is not full in time ends early, with shorter rows and columns.

use std::collections::VecDeque;

use lasthop_cc::params::choice;
use lasthop_core::time::{Span, Time};

use super::Common;

choice! {
    /// What parities cover.
    Shape {
        /// There are none.
        Off = "off",
        /// Rows: each covers consecutive packets.
        Row = "row",
        /// Columns: each covers packets that are the length of a row apart, against losses in bursts.
        Column = "column",
        /// Rows and columns.
        Both = "both",
    }
}

/// The source of what is protected, and the FEC header: recovery fields, base, L and D (RFC 8627 sections 4.2.1 and
/// 4.2.2.2). The RTP header of a parity is as long as that of any packet.
pub(super) const HEADER: u32 = 4 + 12;
/// Packets that the receiver remembers, and parities that wait for more.
const REMEMBERED: u64 = 2048;
const MOST_WAITING: usize = 64;
/// Weight of a packet in the share of losses.
const GAIN: f64 = 1.0 / 128.0;

/// What a packet is known by, or the XOR of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// First byte.
    pub seq: u64,
    /// Length.
    pub payload: u32,
    /// Time of the first transmission.
    pub sent: u64,
}

impl Content {
    fn add(&mut self, other: Content) {
        self.seq ^= other.seq;
        self.payload ^= other.payload;
        self.sent ^= other.sent;
    }
}

/// What a parity covers, and the XOR of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parity {
    /// The first packet.
    pub base: u64,
    /// From one packet to the next, and how many there are.
    pub stride: u16,
    /// See `stride`.
    pub count: u16,
    /// The XOR.
    pub content: Content,
    /// The longest of them: the length of the parity.
    pub longest: u32,
}

impl Parity {
    fn add(&mut self, number: u64, content: Content, stride: u16) {
        if self.count == 0 {
            (self.base, self.stride) = (number, stride);
        }
        self.count += 1;
        self.content.add(content);
        self.longest = self.longest.max(content.payload);
    }

    /// The number behind the last that it covers.
    pub fn end(&self) -> u64 {
        self.numbers().last().map_or(self.base, |last| last + 1)
    }

    fn numbers(&self) -> impl Iterator<Item = u64> + use<> {
        let Parity { base, stride, count, .. } = *self;
        (0..u64::from(count)).map(move |index| base + index * u64::from(stride))
    }
}

/// The sender's side.
#[derive(Clone, Debug)]
pub struct Protector {
    shape: Shape,
    /// Most packets of a row, and of a column.
    most: (u16, u16),
    /// How the share of parities follows that of losses; 0: not at all.
    adapt: f64,
    window: Span,
    loss: f64,
    /// Those of the present block, packets in it, and when it began.
    size: (u16, u16),
    filled: u32,
    began: Time,
    row: Parity,
    columns: Vec<Parity>,
    /// What is to be sent.
    ready: VecDeque<Parity>,
}

impl Protector {
    /// Nothing is protected yet; `None` if nothing shall be.
    pub(super) fn new(common: &Common) -> Option<Protector> {
        (common.fec != Shape::Off).then(|| Protector {
            shape: common.fec,
            most: (common.fec_row, common.fec_column),
            adapt: common.fec_adapt,
            window: Span::from_seconds(common.fec_window_s),
            loss: 0.0,
            size: (0, 0),
            filled: 0,
            began: Time::ZERO,
            row: Parity::default(),
            columns: vec![Parity::default(); usize::from(common.fec_row)],
            ready: VecDeque::new(),
        })
    }

    /// A report says what became of a packet.
    pub(super) fn on_outcome(&mut self, lost: bool) {
        self.loss += GAIN * (f64::from(u8::from(lost)) - self.loss);
    }

    /// The size of the next block: a share of `adapt` times the loss, at least that of the longest row or column and at
    /// most a half.
    fn next_size(&self) -> (u16, u16) {
        let (row, column) = self.most;
        let follow = |most: u16| {
            let wanted = 1.0 / (self.adapt * self.loss).max(1e-9);
            if self.adapt > 0.0 { (wanted.round().min(f64::from(most)) as u16).max(2) } else { most }
        };
        match self.shape {
            Shape::Off | Shape::Row => (follow(row), 1),
            Shape::Column => (row, follow(column)),
            Shape::Both => (row, column),
        }
    }

    /// A packet leaves for the first time.
    pub(super) fn on_sent(&mut self, number: u64, content: Content, now: Time) {
        if self.filled == 0 {
            (self.size, self.began) = (self.next_size(), now);
        }
        let (row, column) = self.size;
        if self.shape != Shape::Column {
            self.row.add(number, content, 1);
        }
        if self.shape != Shape::Row {
            self.columns[self.filled as usize % usize::from(row)].add(number, content, row);
        }
        self.filled += 1;
        if self.filled.is_multiple_of(row.into()) {
            self.end_row();
        }
        if self.filled == u32::from(row) * u32::from(column) {
            self.end_block();
        }
    }

    fn end_row(&mut self) {
        if self.row.count > 0 {
            self.ready.push_back(std::mem::take(&mut self.row));
        }
    }

    fn end_block(&mut self) {
        self.end_row();
        for column in self.columns.iter_mut().filter(|column| column.count > 0) {
            self.ready.push_back(std::mem::take(column));
        }
        self.filled = 0;
    }

    /// When the block must end, full or not.
    pub(super) fn due(&self) -> Time {
        if self.filled > 0 { self.began + self.window } else { Time::MAX }
    }

    /// It is time for that.
    pub(super) fn on_timer(&mut self, now: Time) {
        if self.due() <= now {
            self.end_block();
        }
    }

    /// Whether a parity is to be sent.
    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Takes the next parity.
    pub(super) fn take(&mut self) -> Option<Parity> {
        self.ready.pop_front()
    }

    /// Bytes of the parities that wait.
    pub(super) fn waiting(&self) -> u64 {
        self.ready.iter().map(|parity| u64::from(parity.longest)).sum()
    }

    /// Nothing of what was sent will be known.
    pub(super) fn clear(&mut self) {
        self.ready.clear();
    }
}

/// Up to where no parity will come any more: parities leave in the order of blocks, in a block rows before columns and
/// columns by their first packet, and ahead of packets that are sent after the block.
#[derive(Clone, Copy, Debug)]
struct Passed {
    shape: Shape,
    /// Most packets of a row, and of a block; one that ends early has fewer, and does not say so.
    row: u64,
    block: u64,
    /// The number behind the last packet that a column covered.
    columns_end: u64,
    /// All parities of packets below are here or were overtaken.
    below: u64,
}

impl Passed {
    fn new(common: &Common) -> Passed {
        let (row, column) = (u64::from(common.fec_row), u64::from(common.fec_column));
        let block = if common.fec == Shape::Row { row } else { row * column };
        Passed { shape: common.fec, row, block, columns_end: 0, below: 0 }
    }

    /// A packet of media arrives.
    fn arrive(&mut self, number: u64) {
        let mut below = (number + 1).saturating_sub(self.block);
        // The last packet of a column is in the last row of its block, or in the one before.
        if number + 1 >= self.columns_end + self.row {
            below = below.max(self.columns_end);
        }
        self.below = self.below.max(below);
    }

    /// A parity arrives.
    fn on_parity(&mut self, parity: &Parity) {
        let is_row = parity.stride == 1;
        let new_block = parity.base >= self.columns_end && (is_row || self.shape == Shape::Column);
        let below = match self.shape {
            Shape::Row => parity.end(),
            _ if new_block => self.columns_end,
            _ if is_row => 0,
            // It begins in the first row of its block.
            _ => (parity.base + 1).saturating_sub(self.row),
        };
        self.below = self.below.max(below);
        if !is_row {
            self.columns_end = self.columns_end.max(parity.end());
        }
    }
}

/// The receiver's side.
#[derive(Clone, Debug)]
pub struct Recoverer {
    /// The last packets that are here, by their numbers.
    here: Box<[Option<(u64, Content)>]>,
    /// Parities of which more than one packet is missing, oldest first.
    waiting: VecDeque<Parity>,
    /// What was recovered and not taken.
    found: VecDeque<(u64, Content)>,
    passed: Passed,
}

impl Recoverer {
    /// Nothing is here yet; `None` if nothing is protected.
    pub(in super::super) fn new(common: &Common) -> Option<Recoverer> {
        (common.fec != Shape::Off).then(|| Recoverer {
            here: vec![None; REMEMBERED as usize].into(),
            waiting: VecDeque::new(),
            found: VecDeque::new(),
            passed: Passed::new(common),
        })
    }

    fn slot(&mut self, number: u64) -> &mut Option<(u64, Content)> {
        &mut self.here[(number % REMEMBERED) as usize]
    }

    /// A packet of media is here. [`Recoverer::take`] has what follows from it.
    pub fn arrive(&mut self, number: u64, content: Content) {
        self.passed.arrive(number);
        let slot = self.slot(number);
        if slot.is_none_or(|(held, _)| held < number) {
            *slot = Some((number, content));
            self.look();
        }
    }

    /// A parity arrives.
    pub fn on_parity(&mut self, parity: Parity) {
        if self.waiting.len() == MOST_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(parity);
        self.look();
        self.passed.on_parity(&parity);
    }

    /// What no parity will bring any more if it is not here: all below a number,
    pub fn passed(&self) -> u64 {
        self.passed.below
    }

    /// and what a parity of columns alone covers once it is here.
    pub fn settled_by(&self, parity: &Parity) -> impl Iterator<Item = u64> + use<> {
        (self.passed.shape == Shape::Column).then(|| parity.numbers()).into_iter().flatten()
    }

    /// Makes what can be made, until nothing more follows.
    fn look(&mut self) {
        let mut index = 0;
        while let Some(&parity) = self.waiting.get(index) {
            let (mut content, mut missing, mut count, mut forgotten) = (parity.content, 0, 0, false);
            for number in parity.numbers() {
                match *self.slot(number) {
                    Some((held, one)) if held == number => content.add(one),
                    held => {
                        forgotten |= held.is_some_and(|(held, _)| held > number);
                        (missing, count) = (number, count + 1);
                    }
                }
            }
            if count > 1 && !forgotten {
                index += 1;
                continue;
            }
            self.waiting.remove(index);
            if count == 1 && !forgotten {
                *self.slot(missing) = Some((missing, content));
                self.found.push_back((missing, content));
                // Others may cover it too.
                index = 0;
            }
        }
    }

    /// Takes a packet that was recovered.
    pub fn take(&mut self) -> Option<(u64, Content)> {
        self.found.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::config::Protocol;
    use super::super::common;
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn shaped(shape: Shape, row: u16, column: u16) -> Common {
        let nada = common(&Protocol::by_name("nada").unwrap()).unwrap();
        Common { fec: shape, fec_row: row, fec_column: column, ..nada }
    }

    fn content(number: u64) -> Content {
        Content { seq: 1200 * number, payload: 1000 + number as u32, sent: 1_000_003 * number }
    }

    /// The parities of `count` packets, one each millisecond.
    fn parities(common: &Common, count: u64) -> Vec<Parity> {
        let mut protector = Protector::new(common).unwrap();
        (0..count).for_each(|number| protector.on_sent(number, content(number), at(number)));
        std::iter::from_fn(|| protector.take()).collect()
    }

    fn covered(parities: &[Parity]) -> Vec<Vec<u64>> {
        parities.iter().map(|parity| parity.numbers().collect()).collect()
    }

    #[test]
    fn rows_and_columns_cover_what_the_rfc_draws() {
        assert_eq!(covered(&parities(&shaped(Shape::Row, 3, 2), 7)), [vec![0, 1, 2], vec![3, 4, 5]]);
        let columns = parities(&shaped(Shape::Column, 3, 2), 6);
        assert_eq!(covered(&columns), [vec![0, 3], vec![1, 4], vec![2, 5]]);
        assert_eq!((columns[1].longest, columns[1].end()), (1004, 5));
        let both = parities(&shaped(Shape::Both, 2, 2), 4);
        assert_eq!(covered(&both), [vec![0, 1], vec![2, 3], vec![0, 2], vec![1, 3]]);
        // 2400 is 0x960, 3600 is 0xe10: their XOR is 0x770. That of 1002 and 1003 is 1.
        assert_eq!((both[1].content.seq, both[1].content.payload), (0x770, 1));
    }

    #[test]
    fn a_block_that_is_not_full_ends_in_time() {
        let mut protector = Protector::new(&shaped(Shape::Both, 3, 3)).unwrap();
        (0..4).for_each(|number| protector.on_sent(number, content(number), at(10 + number)));
        assert_eq!(protector.due(), at(210));
        protector.on_timer(at(209));
        assert_eq!(covered(&[protector.take().unwrap()]), [[0, 1, 2]]);
        assert!(!protector.is_ready());
        protector.on_timer(at(210));
        let rest: Vec<Parity> = std::iter::from_fn(|| protector.take()).collect();
        assert_eq!(covered(&rest), [vec![3], vec![0, 3], vec![1], vec![2]]);
        assert_eq!(protector.due(), Time::MAX);
    }

    /// Twice the loss: of 5 % a row of ten, of 20 % one of 2.5, of 50 % one of two, of none the longest.
    #[test]
    fn rows_follow_the_loss() {
        let mut protector = Protector::new(&Common { fec_adapt: 2.0, ..shaped(Shape::Row, 20, 2) }).unwrap();
        for (loss, row) in [(0.0, 20), (0.05, 10), (0.2, 3), (0.5, 2), (0.01, 20)] {
            protector.loss = loss;
            assert_eq!(protector.next_size(), (row, 1), "{loss}");
        }
        protector.loss = 0.0;
        (0..128).for_each(|_| protector.on_outcome(true));
        assert!((protector.loss - (1.0 - (-1.0f64).exp())).abs() < 0.01, "a time constant of 128 packets");
    }

    /// Of a block of 3 x 3 with two lost in a row and two in a column, rows alone repair nothing of the first two; the
    /// columns do, and then the row of the fourth.
    #[test]
    fn what_is_recovered_lets_others_follow() {
        let all = parities(&shaped(Shape::Both, 3, 3), 9);
        let mut recoverer = Recoverer::new(&shaped(Shape::Both, 3, 3)).unwrap();
        let lost = [0, 1, 3];
        (0..9).filter(|number| !lost.contains(number)).for_each(|n| recoverer.arrive(n, content(n)));
        for &parity in &all {
            recoverer.on_parity(parity);
        }
        let mut found: Vec<_> = std::iter::from_fn(|| recoverer.take()).collect();
        found.sort_by_key(|&(number, _)| number);
        assert_eq!(found, lost.map(|number| (number, content(number))));
        // All that is left are parities with nothing missing.
        assert!(recoverer.waiting.is_empty());
    }

    proptest! {
        /// Whatever is lost of what comes in order, wherever blocks end early: what was settled is not recovered.
        #[test]
        fn what_is_settled_stays_as_it_is(
            shape in prop_oneof![Just(Shape::Row), Just(Shape::Column), Just(Shape::Both)],
            (row, column) in (2u16..6, 2u16..6),
            gaps in prop::collection::vec(1u64..40, 200),
            lost in prop::collection::vec(0u8..3, 800),
        ) {
            let common = Common { fec_window_s: 0.15, ..shaped(shape, row, column) };
            let mut protector = Protector::new(&common).unwrap();
            let mut recoverer = Recoverer::new(&common).unwrap();
            let (mut now, mut lost) = (0, lost.into_iter().map(|draw| draw == 0));
            let mut settled = std::collections::BTreeSet::new();
            for (number, gap) in (0u64..).zip(gaps) {
                now += gap;
                protector.on_timer(at(now));
                for fresh in [None, Some(number)] {
                    if let Some(number) = fresh {
                        protector.on_sent(number, content(number), at(now));
                    }
                    if let Some(number) = fresh.filter(|_| !lost.next().unwrap()) {
                        recoverer.arrive(number, content(number));
                    }
                    while let Some(parity) = protector.take() {
                        if lost.next().unwrap() {
                            continue;
                        }
                        recoverer.on_parity(parity);
                        let absent = |one: &u64| recoverer.here[*one as usize].is_none();
                        settled.extend(recoverer.settled_by(&parity).filter(absent));
                    }
                    while let Some((found, _)) = recoverer.take() {
                        prop_assert!(!settled.contains(&found), "{found} at {number}");
                    }
                    let absent = |one: &u64| recoverer.here[*one as usize].is_none();
                    settled.extend((0..recoverer.passed()).filter(absent));
                }
            }
        }

        /// Whatever is lost, in whatever order the rest comes: what is recovered is what was sent, once, and was
        /// missing; and of a row with one loss it is recovered.
        #[test]
        fn only_what_was_sent_is_recovered(
            row in 2u16..6,
            column in 2u16..5,
            shape in prop_oneof![Just(Shape::Row), Just(Shape::Column), Just(Shape::Both)],
            lost in prop::collection::vec(any::<bool>(), 60),
            order in Just((0..60usize).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let common = shaped(shape, row, column);
            let sent = u64::from(row) * u64::from(column);
            let all = parities(&common, sent);
            let mut recoverer = Recoverer::new(&common).unwrap();
            let total = sent as usize + all.len();
            let mut here = std::collections::BTreeSet::new();
            for index in order.into_iter().filter(|&index| index < total && !lost[index]) {
                if let Some(&parity) = all.get(index.wrapping_sub(sent as usize)) {
                    recoverer.on_parity(parity);
                } else {
                    recoverer.arrive(index as u64, content(index as u64));
                    here.insert(index as u64);
                }
                while let Some((number, found)) = recoverer.take() {
                    prop_assert!(number < sent && found == content(number));
                    prop_assert!(lost[number as usize] || !here.contains(&number));
                    here.insert(number);
                }
            }
            for (index, parity) in all.iter().enumerate().filter(|(index, _)| !lost[sent as usize + index]) {
                let missing = parity.numbers().filter(|number| !here.contains(number)).count();
                prop_assert!(missing != 1, "parity {index} repairs it");
            }
        }
    }
}
