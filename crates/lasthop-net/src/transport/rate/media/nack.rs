//! The receiver's list of missing packets: when it asks for each (generic NACK, RFC 4585 section 6.2.1), and when it
//! gives one up and asks for a whole picture instead (PLI, section 6.3.1).
//!
//! `rate/receiver.rs` tells it what arrives and sends what it asks for; `media/sender.rs` repeats that from its history
//! (RFC 4588), `media/fec.rs` makes some of it. It never asks for a packet that has arrived, nor for one behind the
//! newest. What asking costs is bounded: by `nack_repeats`, by the time within which an answer is of use, and by the
//! share of the session's rate that RTCP may take (RFC 3550 section 6.2); in between it may report at once, as two
//! parties may (RFC 4585 section 3.4).
//!
//! A PLI may be lost, so it is said five times; the encoder makes one key frame of all.
//!
//! *As in WebRTC's receiver:* the RTT before the first is known, and the most packets that are missing at a time. *Not
//! on the wire:* the RTT, which a receiver learns by extended reports (RFC 3611 section 4.5), comes with each packet;
//! and a PLI names the newest packet that was given up, so that the sender sees whether a key frame has followed it.

use std::collections::VecDeque;

use lasthop_core::packet::{Kind, NONE, Note, Packet};
use lasthop_core::time::{Span, Time};

use super::Common;
use crate::measure::Window;

/// The RTT before one is known.
const FIRST_RTT: Span = Span::from_millis(100);
/// Packets that are missing at a time; beyond them the oldest are given up.
const MOST_MISSING: usize = 1000;
/// What was given up is remembered until this many packets later, to tell those that come late.
const REMEMBERED: u64 = 4096;
/// The share of the session's rate for RTCP.
const RTCP_SHARE: f64 = 0.05;
/// Times that a PLI is said.
const PLI_TIMES: u32 = 5;
/// IP, UDP, header with two SSRCs; a packet and the 16 behind it; a PLI.
const DATAGRAM: u32 = 28;
const NACK: u32 = 12;
const ENTRY: u32 = 4;
const PLI: u32 = 12;
/// Packets that one NACK names, at the most the first and those of the bits.
const REACH: u64 = 128;

/// What a receiver of media asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NackHeader {
    /// Number of the packet that bit 0 of `bits` stands for.
    pub base: u64,
    /// The packets that are asked for.
    pub bits: u128,
    /// The newest packet without which the picture is not whole, and which is not asked for any more (PLI).
    pub given_up: Option<u64>,
}

impl NackHeader {
    /// The packets that are asked for, ascending.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        let NackHeader { base, bits, .. } = *self;
        (0..REACH).filter(move |&bit| bits >> bit & 1 == 1).map(move |bit| base + bit)
    }

    /// Bytes of the RTCP packets as an IP packet.
    fn bytes(&self) -> u32 {
        let (mut entries, mut covered) = (0, 0);
        for number in self.numbers() {
            if entries == 0 || number > covered {
                entries += 1;
                covered = number + 16;
            }
        }
        let nack = if entries > 0 { NACK + ENTRY * entries } else { 0 };
        DATAGRAM + nack + if self.given_up.is_some() { PLI } else { 0 }
    }
}

/// What became of the packets that were found missing in the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepairCounts {
    /// Packets that were missing when a later one came.
    pub missing: u64,
    /// Of these, those that came by themselves, overtaken.
    pub overtaken: u64,
    /// Those that a retransmission brought before they were given up.
    pub repeated: u64,
    /// Those that were made of a parity before they were given up (FEC).
    pub recovered: u64,
    /// Those that were given up.
    pub given_up: u64,
    /// Of those given up: the ones that came after all.
    pub late: u64,
    /// Requests for a packet, repeated ones included.
    pub asked: u64,
}

impl RepairCounts {
    /// Packets of which nothing is known yet.
    pub fn open(&self) -> u64 {
        self.missing - self.overtaken - self.repeated - self.recovered - self.given_up
    }
}

/// How a packet comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By itself.
    Alone,
    /// As a retransmission.
    Repeated,
    /// Made of a parity.
    Recovered,
}

/// A packet that arrives.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    /// Its number among those sent for the first time.
    pub number: u64,
    /// How it came.
    pub way: Way,
    /// The sender's RTT; 0 if it has none.
    pub rtt_s: f64,
}

#[derive(Clone, Copy, Debug)]
struct Missing {
    number: u64,
    found: Time,
    /// When it is asked for, or given up; the end of time once it is.
    due: Time,
    asked: u32,
    /// It was found in the measured time.
    counts: bool,
}

impl Missing {
    fn is_given_up(&self) -> bool {
        self.due == Time::MAX
    }
}

/// What is missing of a flow of media.
#[derive(Clone, Debug)]
pub struct Wanted {
    wait: Span,
    /// FEC alone: how long a parity may come after what overtook it, and below what no more come.
    late: Option<Span>,
    settled: u64,
    rtts: f64,
    repeats: u32,
    within: Span,
    /// What RTCP may take, in bit/s.
    share: f64,
    /// Ascending; those that were given up too, for a while.
    missing: VecDeque<Missing>,
    /// The number behind the highest that arrived.
    next: u64,
    rtt: Span,
    /// The earliest `due` of all, and before when nothing more may be sent.
    due: Time,
    spaced: Time,
    /// The newest that was given up, how often that is still said, and when next.
    picture: (u64, u32),
    picture_due: Time,
    counts: RepairCounts,
}

impl Wanted {
    /// Nothing is missing yet; `None` if the transport does not repair.
    pub(in super::super) fn new(common: &Common) -> Option<Wanted> {
        // FEC alone waits for the parities of the block.
        let wait = if common.nack { common.nack_wait_s } else { common.fec_window_s };
        common.repairs().then(|| Wanted {
            wait: Span::from_seconds(wait),
            late: (!common.nack).then(|| Span::from_seconds(common.nack_wait_s)),
            settled: 0,
            rtts: common.nack_rtts,
            repeats: if common.nack { common.nack_repeats } else { 0 },
            within: Span::from_seconds(common.nack_within_s),
            share: RTCP_SHARE * common.max_rate,
            missing: VecDeque::new(),
            next: 0,
            rtt: FIRST_RTT,
            due: Time::MAX,
            spaced: Time::ZERO,
            picture: (0, 0),
            picture_due: Time::MAX,
            counts: RepairCounts::default(),
        })
    }

    /// What became of what was missing.
    pub fn counts(&self) -> RepairCounts {
        self.counts
    }

    /// A packet arrives.
    pub fn arrive(&mut self, arrived: Arrived, now: Time, window: &Window) {
        if arrived.rtt_s > 0.0 {
            self.rtt = Span::from_seconds(arrived.rtt_s);
        }
        let Arrived { number, way, .. } = arrived;
        if number < self.next {
            self.fill(number, way);
            return;
        }
        self.reach(number, now, window);
        self.next = number + 1;
    }

    /// All below `end` has been sent, and what is not here is missing.
    pub fn reach(&mut self, end: u64, now: Time, window: &Window) {
        if end > self.next {
            self.miss(self.next..end, now, window.contains(now));
            self.next = end;
        }
    }

    /// No parity will bring what is missing below `end`, those excepted that were overtaken.
    pub fn settle_below(&mut self, end: u64, now: Time) {
        if self.settled < end {
            self.settle((self.settled, end), now);
            self.settled = end;
        }
    }

    /// Nor this one.
    pub fn settle_one(&mut self, number: u64, now: Time) {
        self.settle((number, number + 1), now);
    }

    fn settle(&mut self, (from, end): (u64, u64), now: Time) {
        let Some(late) = self.late else { return };
        let first = self.missing.partition_point(|missing| missing.number < from);
        for missing in self.missing.range_mut(first..).take_while(|missing| missing.number < end) {
            if !missing.is_given_up() {
                missing.due = missing.due.min(now + late);
                self.due = self.due.min(missing.due);
            }
        }
    }

    /// These packets are missing.
    fn miss(&mut self, numbers: std::ops::Range<u64>, now: Time, counts: bool) {
        let far = numbers.end.saturating_sub(MOST_MISSING as u64).max(numbers.start);
        let lost = far - numbers.start;
        if counts {
            self.counts.missing += numbers.end - numbers.start;
            self.counts.given_up += lost;
        }
        if lost > 0 {
            self.give_up(far - 1, now);
        }
        let due = now + self.wait;
        self.missing.extend((far..numbers.end).map(|number| Missing {
            number,
            found: now,
            due,
            asked: 0,
            counts,
        }));
        self.due = self.due.min(due);
        let forgotten = numbers.end.saturating_sub(REMEMBERED);
        while let Some(&oldest) = self.missing.front()
            && (self.missing.len() > MOST_MISSING || oldest.is_given_up() && oldest.number < forgotten)
        {
            self.missing.pop_front();
            if !oldest.is_given_up() {
                self.counts.given_up += u64::from(oldest.counts);
                self.give_up(oldest.number, now);
            }
        }
    }

    /// A picture is asked for in place of the packet `number`.
    fn give_up(&mut self, number: u64, now: Time) {
        self.picture = (self.picture.0.max(number), PLI_TIMES);
        self.picture_due = now;
        self.due = self.due.min(now);
    }

    /// A packet below the highest arrives.
    fn fill(&mut self, number: u64, way: Way) {
        let index = self.missing.partition_point(|missing| missing.number < number);
        let Some(&found) = self.missing.get(index).filter(|missing| missing.number == number) else { return };
        self.missing.remove(index);
        if found.counts {
            let count = match way {
                _ if found.is_given_up() => &mut self.counts.late,
                Way::Repeated => &mut self.counts.repeated,
                Way::Recovered => &mut self.counts.recovered,
                Way::Alone => &mut self.counts.overtaken,
            };
            *count += 1;
        }
        if found.due == self.due {
            self.find_due();
        }
    }

    fn find_due(&mut self) {
        self.due = self.missing.iter().map(|missing| missing.due).fold(self.picture_due, Time::min);
    }

    /// When something is to be asked for next.
    pub fn due(&self) -> Option<Time> {
        (self.due < Time::MAX).then(|| self.due.max(self.spaced))
    }

    /// Asks for all that is due, if something is left of it.
    pub fn ask(&mut self, now: Time) -> (NackHeader, u16) {
        let (mut header, mut lost) = (NackHeader::default(), None);
        let again = now + Span::from_seconds(self.rtts * self.rtt.seconds()).max(Span(1));
        for missing in self.missing.iter_mut().filter(|missing| missing.due <= now) {
            // The answer takes an RTT.
            let too_late = (now + self.rtt).since(missing.found) > self.within;
            if too_late || missing.asked >= self.repeats {
                missing.due = Time::MAX;
                self.counts.given_up += u64::from(missing.counts);
                lost = Some(missing.number);
                continue;
            }
            if header.bits == 0 {
                header.base = missing.number;
            }
            let bit = missing.number - header.base;
            if bit >= REACH {
                // In the next one.
                continue;
            }
            header.bits |= 1 << bit;
            missing.asked += 1;
            missing.due = again;
            self.counts.asked += u64::from(missing.counts);
        }
        if let Some(number) = lost {
            self.give_up(number, now);
        }
        if self.picture_due <= now {
            header.given_up = Some(self.picture.0);
            self.picture.1 -= 1;
            self.picture_due = if self.picture.1 > 0 { again } else { Time::MAX };
        }
        self.find_due();
        let bytes = header.bytes();
        self.spaced = now + Span::from_seconds(f64::from(bytes) * 8.0 / self.share);
        (header, bytes as u16)
    }
}

/// The packet that carries what was asked for at `now`.
pub(in super::super) fn packet(bytes: u16, now: Time) -> Packet {
    Packet { stamp: now, bytes, extra: NONE, kind: Kind::Feedback, note: Note::BACK, ..Packet::default() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::config::Protocol;
    use super::super::common;
    use super::*;

    const ALL: Window = Window { from: Time::ZERO, to: Time::MAX };

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    /// A list that waits 10 ms, repeats after 1.5 RTTs of 40 ms at most `repeats` times, and asks within 200 ms.
    fn wanted(repeats: u32) -> Wanted {
        let nada = common(&Protocol::by_name("nada").unwrap()).unwrap();
        let own = Common { nack: true, nack_repeats: repeats, nack_within_s: 0.2, max_rate: 1e6, ..nada };
        Wanted::new(&own).unwrap()
    }

    fn arrive(wanted: &mut Wanted, number: u64, again: bool, millis: u64) {
        let way = if again { Way::Repeated } else { Way::Alone };
        wanted.arrive(Arrived { number, way, rtt_s: 0.04 }, at(millis), &ALL);
    }

    #[test]
    fn a_gap_is_asked_for_until_it_is_filled_or_too_old() {
        let mut list = wanted(10);
        arrive(&mut list, 0, false, 0);
        arrive(&mut list, 3, false, 10);
        assert_eq!(list.due(), Some(at(20)));
        let (first, bytes) = list.ask(at(20));
        assert_eq!((first.numbers().collect::<Vec<_>>(), bytes), (vec![1, 2], 28 + 12 + 4));
        arrive(&mut list, 1, true, 60);
        // The second at 80 ms, the third at 140 ms; one at 200 ms would be answered at 240 ms, 230 ms behind the gap.
        let mut asked = Vec::new();
        while let Some(due) = list.due() {
            let (header, _) = list.ask(due);
            asked.push((due, header.numbers().collect::<Vec<_>>(), header.given_up));
        }
        // And the picture is asked for five times.
        let pictures = (0..5).map(|n| (at(200 + 60 * n), vec![], Some(2)));
        let requests = [(at(80), vec![2], None), (at(140), vec![2], None)];
        assert_eq!(asked, requests.into_iter().chain(pictures).collect::<Vec<_>>());
        arrive(&mut list, 2, true, 210);
        let counts =
            RepairCounts { missing: 2, repeated: 1, given_up: 1, late: 1, asked: 4, ..list.counts() };
        assert_eq!((list.counts(), counts.open()), (counts, 0));
    }

    #[test]
    fn requests_are_counted() {
        let mut list = wanted(1);
        arrive(&mut list, 1, false, 0);
        assert_eq!(list.ask(at(10)).0.numbers().count(), 1);
        let (header, bytes) = list.ask(at(70));
        assert_eq!((header.bits, header.given_up, bytes), (0, Some(0), 28 + 12));
        assert_eq!(list.due(), Some(at(130)), "the picture once more");
    }

    /// Packets 0, 1, 17, 18, 34 and 128: 0 to 16, 17 to 33, 34, and 128; what lies behind comes in the next one, when
    /// RTCP may send again: 68 B at 50 kbit/s are 10.88 ms.
    #[test]
    fn a_request_names_seventeen_packets_in_four_bytes() {
        let mut list = wanted(10);
        let lost = [0, 1, 17, 18, 34, 128];
        (0..131)
            .filter(|number| !lost.contains(number))
            .for_each(|number| arrive(&mut list, number, false, 0));
        let (header, bytes) = list.ask(at(10));
        assert_eq!(header.numbers().collect::<Vec<_>>(), [0, 1, 17, 18, 34]);
        assert_eq!(bytes, 28 + 12 + 3 * 4);
        assert_eq!(list.due(), Some(at(10) + Span(8_320_000)));
        assert_eq!(list.ask(list.due().unwrap()).0.numbers().collect::<Vec<_>>(), [128]);
    }

    #[test]
    fn what_is_overtaken_is_not_asked_for() {
        let mut list = wanted(10);
        arrive(&mut list, 1, false, 0);
        arrive(&mut list, 0, false, 9);
        assert_eq!((list.due(), list.counts().overtaken, list.counts().asked), (None, 1, 0));
    }

    /// Of 5000 missing packets the last 1000 are asked for, and a picture at once.
    #[test]
    fn a_long_gap_is_cut() {
        let mut list = wanted(10);
        arrive(&mut list, 5000, false, 0);
        let (header, _) = list.ask(list.due().unwrap());
        assert_eq!((header.bits, header.given_up), (0, Some(3999)));
        assert_eq!((list.counts().missing, list.counts().given_up), (5000, 4000));
        assert_eq!(list.missing.len(), 1000);
    }

    proptest! {
        /// Whatever comes in whatever order: what is asked for lies below the newest and has not arrived, no more often
        /// than allowed, and each packet that was missing has one fate.
        #[test]
        fn the_ledger_balances_and_nothing_that_arrived_is_asked_for(
            steps in prop::collection::vec((0u64..40, any::<bool>(), 0u64..30), 1..300),
            repeats in 1u32..5,
        ) {
            let mut list = wanted(repeats);
            let (mut now, mut newest) = (0, 0);
            let mut seen = std::collections::BTreeSet::new();
            let mut asked = std::collections::BTreeMap::new();
            for (back, again, gap) in steps {
                now += gap;
                while let Some(due) = list.due().filter(|&due| due <= at(now)) {
                    let (header, _) = list.ask(due);
                    for number in header.numbers() {
                        prop_assert!(number < newest && !seen.contains(&number));
                        let count: &mut u32 = asked.entry(number).or_default();
                        *count += 1;
                        prop_assert!(*count <= repeats);
                    }
                    prop_assert!(header.bits != 0 || header.given_up.is_some(), "an empty request");
                }
                let number = (newest + 20).saturating_sub(back);
                arrive(&mut list, number, again, now);
                seen.insert(number);
                newest = newest.max(number);
            }
            let counts = list.counts();
            let open = list.missing.iter().filter(|missing| !missing.is_given_up()).count() as u64;
            prop_assert_eq!(counts.open(), open);
            prop_assert_eq!(counts.asked, asked.values().map(|&count| u64::from(count)).sum::<u64>());
            let never = (0..newest).filter(|number| !seen.contains(number)).count() as u64;
            prop_assert_eq!(never, open + counts.given_up - counts.late);
        }
    }
}
