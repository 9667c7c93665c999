//! The sending end of a BlockAck agreement: MPDUs with their sequence numbers and tries, the window, and which of them
//! make the next A-MPDU (IEEE 802.11-2016 sections 9.7, 10.13 and 10.24).
//!
//! One per direction and access category. It holds packets and knows lengths; when they are sent is not its concern.

use std::collections::VecDeque;

use lasthop_core::time::Time;

use super::reorder::{ahead, next};
use crate::queue::Parcel;

/// The delimiter before each MPDU of an A-MPDU.
pub(super) const DELIMITER: u32 = 4;
/// Header of a subframe of an A-MSDU: two addresses and a length.
const SUBFRAME: u32 = 14;

/// What bounds an A-MPDU, all at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Most octets of the PSDU: by the receiver's limit and by time.
    pub(super) octets: u32,
    /// Most MPDUs.
    pub(super) mpdus: usize,
    /// Least octets from the start of one MPDU to the start of the next.
    pub(super) spacing: u32,
    /// Sequence numbers that may be outstanding.
    pub(super) window: u16,
    /// A single MPDU has a delimiter as well (VHT and HE).
    pub(super) always_delimited: bool,
    /// MAC header and check sequence, and LLC header.
    pub(super) headers: (u32, u32),
    /// Most octets of an MPDU with several packets; 0 if MPDUs have one each.
    pub(super) amsdu: u32,
}

impl Bounds {
    /// Octets of the MPDU with these packets.
    fn mpdu(&self, packets: impl ExactSizeIterator<Item = u16>) -> u32 {
        let (header, llc) = self.headers;
        if packets.len() == 1 {
            return header + packets.map(|bytes| llc + u32::from(bytes)).sum::<u32>();
        }
        let last = packets.len() - 1;
        let subframe = |(bytes, place): (u16, usize)| {
            let octets = SUBFRAME + llc + u32::from(bytes);
            if place == last { octets } else { octets.next_multiple_of(4) }
        };
        header + packets.zip(0..).map(subframe).sum::<u32>()
    }
}

/// An MPDU that has been sent, and is neither acknowledged nor given up; or has been, and waits for those before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mpdu {
    /// Octets of the MPDU.
    pub(super) octets: u32,
    /// Packets in it.
    pub(super) packets: u16,
    /// Times sent.
    pub(super) tries: u32,
    /// Start of the first transmission.
    pub(super) first_start: Time,
    /// Start of the last.
    pub(super) last_start: Time,
    /// The other side has it.
    pub(super) delivered: bool,
    /// Acknowledged or given up.
    pub(super) done: bool,
}

/// A packet of an outstanding MPDU, and its range of the stream of its sender, if that is told what becomes of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carried {
    pub(super) parcel: Parcel,
    pub(super) range: Option<(u64, u64)>,
}

/// An MPDU of an A-MPDU under way: its number, and where its subframe begins and ends in the PSDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) sequence: u16,
    pub(super) from: u32,
    pub(super) to: u32,
}

/// The sending end of an agreement.
#[derive(Clone, Debug, Default)]
pub(super) struct Originator {
    /// The first number that is neither acknowledged nor given up (`WinStartO`).
    start: u16,
    /// From `start` on.
    mpdus: VecDeque<Mpdu>,
    /// Packets of these, in order.
    packets: VecDeque<Carried>,
    /// Packets that the driver holds for the first time.
    pub(super) staged: VecDeque<Parcel>,
    /// What each of `packets` and then of `staged` is charged with in microseconds, where airtime limits hold.
    pub(super) charges: VecDeque<u16>,
    /// The receiver must learn that the window has moved past what was given up, or is asked what it has.
    pub(super) owes_request: bool,
    /// It is in the list of those that have something to send.
    pub(super) listed: bool,
}

impl Originator {
    /// The start of the window.
    pub(super) fn start(&self) -> u16 {
        self.start
    }

    /// Whether there is anything to send.
    pub(super) fn has_work(&self) -> bool {
        self.owes_request || !self.staged.is_empty() || !self.mpdus.is_empty()
    }

    /// How often the oldest outstanding MPDU has been sent.
    pub(super) fn tries(&self) -> u32 {
        self.mpdus.front().map_or(0, |mpdu| mpdu.tries)
    }

    /// Adds the numbers of MPDUs that are neither acknowledged nor given up.
    pub(super) fn outstanding(&self, sequences: &mut Vec<u16>) {
        let mut sequence = self.start;
        for mpdu in &self.mpdus {
            if !mpdu.done {
                sequences.push(sequence);
            }
            sequence = next(sequence);
        }
    }

    /// An outstanding MPDU.
    pub(super) fn get(&self, sequence: u16) -> Option<&Mpdu> {
        self.mpdus.get(usize::from(ahead(sequence, self.start)))
    }

    /// An outstanding MPDU.
    pub(super) fn get_mut(&mut self, sequence: u16) -> Option<&mut Mpdu> {
        self.mpdus.get_mut(usize::from(ahead(sequence, self.start)))
    }

    /// The packets of an outstanding MPDU.
    pub(super) fn packets_of(&self, sequence: u16) -> impl Iterator<Item = Carried> + '_ {
        let place = usize::from(ahead(sequence, self.start));
        let before = self.first_packet(place);
        let count = self.mpdus.get(place).map_or(0, |mpdu| usize::from(mpdu.packets));
        self.packets.range(before..before + count).copied()
    }

    /// Packets in MPDUs that were never sent: those of a PPDU that waits for its CTS.
    pub(super) fn untried(&self) -> u64 {
        let newest = self.mpdus.iter().rev().take_while(|mpdu| mpdu.tries == 0);
        newest.map(|mpdu| u64::from(mpdu.packets)).sum()
    }

    /// An outstanding MPDU is sent for another time: what there is of it now.
    pub(super) fn try_again(&mut self, sequence: u16, now: Time) -> Option<Mpdu> {
        let mpdu = self.get_mut(sequence)?;
        mpdu.tries += 1;
        if mpdu.tries == 1 {
            mpdu.first_start = now;
        }
        mpdu.last_start = now;
        Some(*mpdu)
    }

    /// The place among the packets of the first of an outstanding MPDU.
    fn first_packet(&self, place: usize) -> usize {
        if self.packets.len() == self.mpdus.len() {
            place
        } else {
            self.mpdus.iter().take(place).map(|mpdu| usize::from(mpdu.packets)).sum()
        }
    }

    /// What the packets of an outstanding MPDU are charged with in microseconds; they are charged no longer.
    pub(super) fn take_charge(&mut self, sequence: u16) -> u64 {
        if self.charges.is_empty() {
            return 0;
        }
        let place = usize::from(ahead(sequence, self.start));
        let before = self.first_packet(place);
        let count = self.mpdus.get(place).map_or(0, |mpdu| usize::from(mpdu.packets));
        self.charges.range_mut(before..before + count).map(|charge| u64::from(std::mem::take(charge))).sum()
    }

    /// Moves the window past what is done.
    pub(super) fn advance(&mut self) {
        while let Some(first) = self.mpdus.front().filter(|mpdu| mpdu.done) {
            if !self.charges.is_empty() {
                self.charges.drain(..usize::from(first.packets));
            }
            self.packets.drain(..usize::from(first.packets));
            self.mpdus.pop_front();
            self.start = next(self.start);
        }
    }

    /// Everything that it holds and the other side does not, with the start of its first transmission.
    pub(super) fn take(&mut self) -> Vec<(Parcel, Option<Time>)> {
        let mut held = Vec::new();
        let mut packets = self.packets.drain(..);
        for mpdu in self.mpdus.drain(..) {
            let own = packets.by_ref().take(mpdu.packets.into());
            let started = (mpdu.tries > 0).then_some(mpdu.first_start);
            let own = own.map(|carried| (carried.parcel, started));
            // What is delivered or given up is on its way elsewhere, or gone.
            if mpdu.delivered || mpdu.done {
                own.for_each(drop);
            } else {
                held.extend(own);
            }
        }
        drop(packets);
        held.extend(self.staged.drain(..).map(|parcel| (parcel, None)));
        held
    }

    /// The agreement has ended: everything that it holds is taken away, and numbers begin anew.
    pub(super) fn forget(&mut self) -> Vec<(Parcel, Option<Time>)> {
        let held = self.take();
        *self = Originator { listed: self.listed, ..Originator::default() };
        held
    }

    /// Chooses the MPDUs of the next PPDU: first those to be sent again, then new ones, as far as the bounds reach. The
    /// octets of the PSDU.
    pub(super) fn build(
        &mut self,
        bounds: &Bounds,
        mut range: impl FnMut(Parcel) -> Option<(u64, u64)>,
        slices: &mut Vec<Slice>,
    ) -> u32 {
        slices.clear();
        let mut sequence = self.start;
        for mpdu in &self.mpdus {
            let fits = mpdu.done || push(bounds, slices, sequence, mpdu.octets);
            if !fits {
                return finish(bounds, slices);
            }
            sequence = next(sequence);
        }
        while ahead(sequence, self.start) < bounds.window {
            let (count, octets) = self.join(bounds);
            if count == 0 || !push(bounds, slices, sequence, octets) {
                break;
            }
            let carried = self.staged.drain(..count).map(|parcel| Carried { parcel, range: range(parcel) });
            self.packets.extend(carried);
            self.mpdus.push_back(Mpdu {
                octets,
                packets: count as u16,
                tries: 0,
                first_start: Time::MAX,
                last_start: Time::MAX,
                delivered: false,
                done: false,
            });
            sequence = next(sequence);
        }
        finish(bounds, slices)
    }

    /// How many of the staged packets the next MPDU takes, and its octets.
    fn join(&self, bounds: &Bounds) -> (usize, u32) {
        let octets = |count| bounds.mpdu(self.staged.iter().take(count).map(|parcel| parcel.bytes));
        let mut count = self.staged.len().min(1);
        while bounds.amsdu > 0 && count < self.staged.len() && octets(count + 1) <= bounds.amsdu {
            count += 1;
        }
        (count, if count == 0 { 0 } else { octets(count) })
    }
}

/// Adds an MPDU to an A-MPDU unless a bound is reached; the first always goes.
fn push(bounds: &Bounds, slices: &mut Vec<Slice>, sequence: u16, octets: u32) -> bool {
    let from = slices.last().map_or(0, |last: &Slice| {
        let padded = (last.to - last.from).next_multiple_of(4);
        last.from + padded.max(bounds.spacing.next_multiple_of(4))
    });
    let to = from + DELIMITER + octets;
    if !slices.is_empty() && (to > bounds.octets || slices.len() >= bounds.mpdus) {
        return false;
    }
    slices.push(Slice { sequence, from, to });
    true
}

/// The octets of the PSDU; a single MPDU of HT has no delimiter.
fn finish(bounds: &Bounds, slices: &mut [Slice]) -> u32 {
    if let [only] = slices
        && !bounds.always_delimited
    {
        only.to -= DELIMITER;
    }
    slices.last().map_or(0, |last| last.to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Ecn;

    const BOUNDS: Bounds = Bounds {
        octets: 65_535,
        mpdus: 256,
        spacing: 0,
        window: 64,
        always_delimited: true,
        headers: (30, 8),
        amsdu: 0,
    };

    fn packets(count: u32, bytes: u16) -> VecDeque<Parcel> {
        let parcel = |packet| Parcel {
            packet,
            hop: 0,
            flow: 0,
            bytes,
            ecn: Ecn::Incapable,
            ahead: false,
            since: Time::ZERO,
        };
        (0..count).map(parcel).collect()
    }

    /// MPDUs and octets of the first A-MPDU of a backlog of packets of this size.
    fn built(bounds: &Bounds, count: u32, bytes: u16) -> (usize, u32) {
        let mut originator = Originator { staged: packets(count, bytes), ..Originator::default() };
        let mut slices = Vec::new();
        let octets = originator.build(bounds, |_| None, &mut slices);
        (slices.len(), octets)
    }

    /// By hand: an MPDU of 1538 B is a subframe of 1544, 42 of them 64,846 B; of 566 B 572, and the window ends at 64;
    /// two TCP ACKs of 90 B are 96 + 94; a single one has a delimiter in VHT and none in HT.
    #[test]
    fn lengths_add_up() {
        assert_eq!(built(&BOUNDS, 100, 1500), (42, 64_846));
        assert_eq!(built(&Bounds { octets: 43_999, ..BOUNDS }, 100, 1500), (28, 43_230));
        assert_eq!(built(&BOUNDS, 100, 528), (64, 36_606));
        assert_eq!(built(&BOUNDS, 100, 128), (64, 11_006));
        assert_eq!(built(&BOUNDS, 2, 52), (2, 190));
        assert_eq!(built(&BOUNDS, 1, 52), (1, 94));
        assert_eq!(built(&Bounds { always_delimited: false, ..BOUNDS }, 1, 52), (1, 90));
        assert_eq!(built(&Bounds { mpdus: 32, ..BOUNDS }, 100, 52), (32, 31 * 96 + 94));
        // Eight microseconds at 300 Mbit/s: 300 octets from one start to the next.
        assert_eq!(built(&Bounds { spacing: 300, ..BOUNDS }, 3, 52), (3, 600 + 94));
        // One that is longer than all bounds goes alone.
        assert_eq!(built(&Bounds { octets: 100, ..BOUNDS }, 3, 1500), (1, 1542));
    }

    /// Two packets of 1500 B: 26 + (14 + 8 + 1500 + 2) + (14 + 8 + 1500) + 4 = 3076 B.
    #[test]
    fn packets_share_an_mpdu() {
        let bounds = Bounds { amsdu: 3839, ..BOUNDS };
        assert_eq!(built(&bounds, 2, 1500), (1, 3080));
        assert_eq!(built(&bounds, 3, 1500), (2, 3080 + 1542));
    }

    /// What failed goes first and keeps its number; the window ends 64 numbers behind the oldest.
    #[test]
    fn failed_mpdus_go_first_and_hold_the_window() {
        let mut originator = Originator { staged: packets(200, 52), ..Originator::default() };
        let mut slices = Vec::new();
        originator.build(&BOUNDS, |_| None, &mut slices);
        for slice in &slices {
            originator.get_mut(slice.sequence).unwrap().done = !matches!(slice.sequence, 3 | 10);
        }
        originator.advance();
        assert_eq!(originator.start(), 3);
        assert_eq!(originator.packets_of(10).map(|carried| carried.parcel.packet).collect::<Vec<_>>(), [10]);
        originator.build(&BOUNDS, |_| None, &mut slices);
        let numbers: Vec<u16> = slices.iter().map(|slice| slice.sequence).collect();
        assert_eq!(numbers, [3, 10, 64, 65, 66]);
        assert_eq!(originator.take().len(), 200 - 62);
    }
}
