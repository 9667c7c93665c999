//! The receiving end of a BlockAck agreement: what the BlockAck says has arrived, and the buffer that hands packets up
//! in order (IEEE 802.11-2016 sections 10.24.4 and 10.24.7).
//!
//! One per direction and access category. Sequence numbers count modulo 4096; of two, the one less than half of that
//! ahead is the later. It holds packets and decides nothing about the air.

use std::collections::VecDeque;

use lasthop_core::time::{Span, Time};

use crate::queue::Parcel;

/// Sequence numbers there are.
const NUMBERS: u16 = 4096;
/// The widest window of a BlockAck.
pub(super) const WIDEST: u16 = 256;

/// How far `sequence` is ahead of `from`, modulo 4096.
#[inline]
pub(super) fn ahead(sequence: u16, from: u16) -> u16 {
    sequence.wrapping_sub(from) & (NUMBERS - 1)
}

/// The number `steps` behind `sequence`.
#[inline]
pub(super) fn back(sequence: u16, steps: u16) -> u16 {
    sequence.wrapping_sub(steps) & (NUMBERS - 1)
}

/// The number behind `sequence`.
#[inline]
pub(super) fn next(sequence: u16) -> u16 {
    sequence.wrapping_add(1) & (NUMBERS - 1)
}

/// A packet that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrived {
    /// Of its MPDU.
    pub(super) sequence: u16,
    pub(super) parcel: Parcel,
    /// Start of the first transmission of its MPDU.
    pub(super) started: Time,
    /// When it arrived.
    pub(super) at: Time,
}

/// What has arrived, as BlockAcks say it.
#[derive(Clone, Debug)]
pub(super) struct Scoreboard {
    start: u16,
    window: u16,
    bits: [u64; WIDEST as usize / 64],
}

impl Scoreboard {
    fn new(window: u16) -> Scoreboard {
        Scoreboard { start: 0, window, bits: [0; WIDEST as usize / 64] }
    }

    fn place(sequence: u16) -> (usize, u64) {
        let place = usize::from(sequence % WIDEST);
        (place / 64, 1 << (place % 64))
    }

    /// The window starts at `start`: what it leaves behind is forgotten.
    fn move_to(&mut self, start: u16) {
        let steps = ahead(start, self.start).min(WIDEST);
        for step in 0..steps {
            let (word, bit) = Scoreboard::place(self.start.wrapping_add(step));
            self.bits[word] &= !bit;
        }
        self.start = start;
    }

    /// An MPDU has arrived.
    fn note(&mut self, sequence: u16) {
        let distance = ahead(sequence, self.start);
        if distance >= NUMBERS / 2 {
            return;
        }
        if distance >= self.window {
            self.move_to(back(sequence, self.window - 1));
        }
        let (word, bit) = Scoreboard::place(sequence);
        self.bits[word] |= bit;
    }

    /// Whether a BlockAck says that an MPDU has arrived.
    fn has(&self, sequence: u16) -> bool {
        let (word, bit) = Scoreboard::place(sequence);
        ahead(sequence, self.start) < self.window && self.bits[word] & bit != 0
    }
}

/// The receiving end of an agreement.
#[derive(Clone, Debug)]
pub(super) struct Recipient {
    board: Scoreboard,
    /// The first number that is not yet handed up (`WinStartB`).
    start: u16,
    window: u16,
    /// What waits for an earlier number, in order.
    held: VecDeque<Arrived>,
}

impl Recipient {
    /// Nothing has arrived; BlockAcks say this many numbers.
    pub(super) fn new(window: u16) -> Recipient {
        Recipient { board: Scoreboard::new(window), start: 0, window, held: VecDeque::new() }
    }

    /// Whether a BlockAck says that an MPDU has arrived.
    pub(super) fn has(&self, sequence: u16) -> bool {
        self.board.has(sequence)
    }

    /// The start of the bitmap of a BlockAck, and its first 64 or 256 bits.
    pub(super) fn bitmap(&self) -> (u16, [u64; WIDEST as usize / 64]) {
        let mut bits = [0; WIDEST as usize / 64];
        for step in 0..self.window {
            if self.board.has(self.board.start.wrapping_add(step) & (NUMBERS - 1)) {
                bits[usize::from(step / 64)] |= 1 << (step % 64);
            }
        }
        (self.board.start, bits)
    }

    /// Sequence numbers that a BlockAck speaks of.
    pub(super) fn window(&self) -> u16 {
        self.window
    }

    /// Whether a BlockAck needs a bitmap of 256 bits.
    pub(super) fn is_long(&self) -> bool {
        self.window > 64
    }

    /// Packets that wait for an earlier one.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// Everything that it holds, which is taken away.
    pub(super) fn take(&mut self) -> VecDeque<Arrived> {
        std::mem::take(&mut self.held)
    }

    /// An MPDU has arrived with these packets. What can be handed up now goes to `up`, in order; `false` for one that
    /// has been here before, or comes too late.
    pub(super) fn receive(
        &mut self,
        sequence: u16,
        packets: impl Iterator<Item = Arrived>,
        up: &mut Vec<Arrived>,
    ) -> bool {
        self.board.note(sequence);
        let distance = ahead(sequence, self.start);
        if distance >= NUMBERS / 2 {
            return false;
        }
        if distance >= self.window {
            self.release_before(back(sequence, self.window - 1), up);
            self.release_consecutive(up);
        }
        if sequence == self.start {
            // The ordinary case: nothing is missing before it.
            up.extend(packets);
            self.start = next(sequence);
            self.release_consecutive(up);
            return true;
        }
        let start = self.start;
        let place = self.held.partition_point(|held| ahead(held.sequence, start) < ahead(sequence, start));
        if self.held.get(place).is_some_and(|held| held.sequence == sequence) {
            return false;
        }
        for (packet, offset) in packets.zip(0..) {
            self.held.insert(place + offset, packet);
        }
        true
    }

    /// A BlockAckReq says that nothing before `start` will come any more.
    pub(super) fn move_to(&mut self, start: u16, up: &mut Vec<Arrived>) {
        if ahead(start, self.board.start) < NUMBERS / 2 {
            self.board.move_to(start);
        }
        if ahead(start, self.start) < NUMBERS / 2 {
            self.release_before(start, up);
            self.release_consecutive(up);
        }
    }

    /// When the first of those that wait has waited for `timeout`.
    pub(super) fn due(&self, timeout: Span) -> Option<Time> {
        self.held.iter().map(|held| held.at).min().map(|at| at + timeout)
    }

    /// Hands up those that have waited for `timeout`, although earlier numbers are missing, and what follows them.
    pub(super) fn expire(&mut self, now: Time, timeout: Span, up: &mut Vec<Arrived>) {
        while let Some(last) = self.held.iter().rposition(|held| held.at + timeout <= now) {
            let sequence = self.held[last].sequence;
            self.release_before(next(sequence), up);
            self.release_consecutive(up);
        }
    }

    /// Hands up everything before `start`, with gaps.
    fn release_before(&mut self, start: u16, up: &mut Vec<Arrived>) {
        let steps = ahead(start, self.start);
        let count = self.held.partition_point(|held| ahead(held.sequence, self.start) < steps);
        up.extend(self.held.drain(..count));
        self.start = start;
    }

    /// Hands up what has nothing missing before it.
    fn release_consecutive(&mut self, up: &mut Vec<Arrived>) {
        while let Some(&first) = self.held.front() {
            if first.sequence != self.start {
                if ahead(first.sequence, self.start) != NUMBERS - 1 {
                    return;
                }
                // Another packet of the A-MSDU that has just gone.
                up.push(first);
                self.held.pop_front();
                continue;
            }
            up.push(first);
            self.held.pop_front();
            self.start = next(self.start);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::queue::Ecn;

    fn packet(sequence: u16, number: u32, at: u64) -> Arrived {
        let parcel = Parcel {
            packet: number,
            hop: 0,
            flow: 0,
            bytes: 1500,
            ecn: Ecn::Incapable,
            ahead: false,
            since: Time::ZERO,
        };
        Arrived { sequence, parcel, started: Time::ZERO, at: Time(at) }
    }

    /// Receives one packet and says what goes up.
    fn receive(recipient: &mut Recipient, sequence: u16) -> Vec<u16> {
        let mut up = Vec::new();
        recipient.receive(sequence, std::iter::once(packet(sequence, 0, 5)), &mut up);
        up.iter().map(|arrived| arrived.sequence).collect()
    }

    #[test]
    fn a_gap_holds_back_what_follows_until_it_is_filled() {
        let mut recipient = Recipient::new(64);
        assert_eq!(receive(&mut recipient, 0), [0]);
        assert_eq!(receive(&mut recipient, 2), []);
        assert_eq!(receive(&mut recipient, 3), []);
        assert_eq!(receive(&mut recipient, 2), [], "a duplicate");
        assert_eq!(recipient.bitmap().1[0], 0b1101);
        assert_eq!(receive(&mut recipient, 1), [1, 2, 3]);
        assert_eq!(receive(&mut recipient, 1), [], "too late");
    }

    #[test]
    fn a_number_beyond_the_window_moves_it() {
        let mut recipient = Recipient::new(64);
        assert_eq!(receive(&mut recipient, 1), []);
        assert_eq!(receive(&mut recipient, 64), [1]);
        assert_eq!(receive(&mut recipient, 0), []);
        // The window is 1..65 now: 2..=63 are missing.
        assert!(recipient.has(1) && recipient.has(64) && !recipient.has(0));
    }

    #[test]
    fn a_request_and_the_timer_give_up_gaps() {
        let mut recipient = Recipient::new(64);
        receive(&mut recipient, 1);
        receive(&mut recipient, 3);
        let mut up = Vec::new();
        recipient.move_to(1, &mut up);
        assert_eq!(up.iter().map(|arrived| arrived.sequence).collect::<Vec<_>>(), [1]);
        assert_eq!(recipient.due(Span(100)), Some(Time(105)));
        recipient.expire(Time(104), Span(100), &mut up);
        assert_eq!(up.len(), 1);
        recipient.expire(Time(105), Span(100), &mut up);
        assert_eq!(up.iter().map(|arrived| arrived.sequence).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(recipient.due(Span(100)), None);
        assert_eq!(receive(&mut recipient, 4), [4]);
    }

    /// The packets of an A-MSDU share a number and stay together.
    #[test]
    fn packets_of_one_mpdu_go_up_together() {
        let mut recipient = Recipient::new(64);
        let mut up = Vec::new();
        recipient.receive(1, [packet(1, 10, 0), packet(1, 11, 0)].into_iter(), &mut up);
        recipient.receive(2, [packet(2, 12, 0), packet(2, 13, 0)].into_iter(), &mut up);
        assert!(up.is_empty());
        recipient.receive(0, std::iter::once(packet(0, 9, 0)), &mut up);
        assert_eq!(up.iter().map(|arrived| arrived.parcel.packet).collect::<Vec<_>>(), [9, 10, 11, 12, 13]);
    }

    proptest! {
        /// Numbers in any order, with the turn from 4095 to 0 among them: nothing goes up twice or out of order, and
        /// what a BlockAck says to have arrived has.
        #[test]
        fn in_order_and_at_most_once(
            begin in 0..4096_u16,
            steps in prop::collection::vec((0..90_u16, any::<bool>()), 1..400),
        ) {
            let mut recipient = Recipient::new(64);
            recipient.move_to(begin.min(2047), &mut Vec::new());
            recipient.move_to(begin, &mut Vec::new());
            let (mut up, mut sent) = (Vec::new(), std::collections::BTreeSet::new());
            let mut base = 0_u32;
            for (step, requests) in steps {
                let number = base + u32::from(step);
                let sequence = (u32::from(begin) + number) as u16 & (NUMBERS - 1);
                if requests && step > 70 {
                    recipient.move_to(sequence, &mut up);
                } else {
                    sent.insert(number);
                    recipient.receive(sequence, std::iter::once(packet(sequence, number, 0)), &mut up);
                    let late = ahead(sequence, recipient.board.start) >= NUMBERS / 2;
                    prop_assert!(late || recipient.has(sequence));
                }
                base += u32::from(step > 60) * 3;
                prop_assert!(recipient.held() <= 64);
            }
            prop_assert!(up.windows(2).all(|pair| pair[0].parcel.packet < pair[1].parcel.packet));
            prop_assert!(up.iter().all(|arrived| sent.contains(&arrived.parcel.packet)));
        }
    }
}
