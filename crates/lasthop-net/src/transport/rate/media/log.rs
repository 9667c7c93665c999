//! The receiver's side of media: which packets arrived when, and what a report says of them.
//!
//! A report names a range of packets and the time at which it was made; the sender reads the outcome of each from the
//! log as it stood at that time, in the resolution of the report's format. So a report has the size and the content of
//! one on the wire, whatever its length, and tells of nothing that has not arrived.

use lasthop_cc::params::choice;
use lasthop_core::time::{Span, Time};

choice! {
    /// Format of the arrival times in reports.
    Format {
        /// RTP Control Protocol Feedback for Congestion Control (RFC 8888): in 1/1024 s before the report, with marks.
        Rfc8888 = "rfc8888",
        /// Transport-wide feedback as WebRTC has it (draft-holmer-rmcat-transport-wide-cc-extensions-01): in 250 us,
        /// without marks.
        TransportWide = "transport-wide",
    }
}

/// Most packets that a report tells of, so that it fits into a packet of 1500 B.
const MOST_REPORTED: u64 = 600;
/// Packets that the log keeps, many more, so that what a report on its way tells of is not overwritten.
const KEPT: u64 = 4096;
/// A report is repeated so often while nothing more arrives: RTCP goes on, and a sender whose window is full must not
/// wait for ever for one that was lost.
const REPEATS: u32 = 10;
/// IP and UDP headers.
const DATAGRAM: u64 = 28;
/// The largest report as an IP packet: two bytes for each packet, or chunks and deltas.
pub const LARGEST_REPORT: u32 = (DATAGRAM + 20 + 2 * (MOST_REPORTED.div_ceil(7) + MOST_REPORTED)) as u32;
/// The time that a report leaves open: 8189/1024 s and more (RFC 8888 section 3.1).
const LONGEST_OFFSET: u64 = 8189;
/// Resolution of transport-wide feedback, and the longest small delta of it (255 steps), in ns.
const STEP: u64 = 250_000;
const SMALL_DELTA: u64 = 255 * STEP;

/// What a report says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Number of the transmission.
    pub number: u64,
    /// When it arrived, if it did.
    pub at: Option<Time>,
    /// It arrived with a congestion mark.
    pub marked: bool,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    number: u64,
    at: Time,
    /// When a copy with a mark arrived first.
    marked: Time,
}

const EMPTY: Slot = Slot { number: u64::MAX, at: Time::MAX, marked: Time::MAX };

/// What has arrived of a flow of media, and when the next report is due.
#[derive(Clone, Debug)]
pub struct ArrivalLog {
    slots: Box<[Slot]>,
    format: Format,
    overlap: u64,
    interval: Span,
    share: f64,
    /// The number behind the highest that arrived, and behind the highest that was reported.
    next: u64,
    reported: u64,
    /// When the last report left, and when the next one may.
    last: Time,
    due: Time,
    /// Packets and bytes since the last report.
    packets: u32,
    bytes: u64,
    /// Reports since the last packet.
    quiet: u32,
    /// Sending time and arrival of the newest packet.
    newest: (Time, Time),
}

/// What a report covers, and how large it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cover {
    /// Number of the last packet, which is the highest that arrived.
    pub highest: u64,
    /// How many up to it.
    pub count: u16,
    /// Bytes of the report as an IP packet.
    pub bytes: u16,
}

impl ArrivalLog {
    /// An empty log. `share`: see the parameter `feedback_share`.
    pub(in super::super) fn new(common: &super::Common) -> ArrivalLog {
        ArrivalLog {
            slots: vec![EMPTY; KEPT as usize].into(),
            format: common.format,
            overlap: common.feedback_overlap,
            interval: Span::from_seconds(common.feedback_s),
            share: common.feedback_share,
            next: 0,
            reported: 0,
            last: Time::ZERO,
            due: Time::ZERO,
            packets: 0,
            bytes: 0,
            quiet: REPEATS,
            newest: (Time::ZERO, Time::ZERO),
        }
    }

    /// A packet arrives; returns whether a report is due at once. Of copies the first counts, and a mark on any
    /// (RFC 8888 section 3.1).
    pub fn arrive(&mut self, number: u64, (sent, bytes): (Time, u16), marked: bool, now: Time) -> bool {
        let slot = &mut self.slots[(number % KEPT) as usize];
        let marked = if marked { now } else { Time::MAX };
        if slot.number == number {
            slot.marked = slot.marked.min(marked);
        } else if slot.number == u64::MAX || slot.number < number {
            *slot = Slot { number, at: now, marked };
        }
        self.next = self.next.max(number + 1);
        self.newest = (sent, now);
        self.packets += 1;
        self.bytes += u64::from(bytes);
        self.due <= now || self.next - self.reported >= MOST_REPORTED
    }

    /// When the next report is due.
    pub fn due(&self) -> Option<Time> {
        (self.packets > 0 || self.quiet < REPEATS && self.overlap > 0).then_some(self.due)
    }

    /// Whether a report is due.
    pub fn is_due(&self, now: Time) -> bool {
        let full = self.packets > 0 && self.next - self.reported >= MOST_REPORTED;
        full || self.due().is_some_and(|due| due <= now)
    }

    /// Sending time of the newest packet, and how long ago it arrived.
    pub fn newest(&self, now: Time) -> (Time, Span) {
        let (sent, arrived) = self.newest;
        (sent, now.since(arrived))
    }

    /// A report leaves.
    pub fn report(&mut self, now: Time) -> Cover {
        let first = self.reported.saturating_sub(self.overlap).max(self.next.saturating_sub(MOST_REPORTED));
        let count = self.next - first;
        let bytes = match self.format {
            // Header with the reporter's SSRC, header of the block, 16 bits for each packet, the report's time.
            Format::Rfc8888 => 8 + 8 + 2 * count.next_multiple_of(2) + 4,
            // Header, two SSRCs, the base, a chunk for seven packets, and deltas.
            Format::TransportWide => {
                (20 + 2 * count.div_ceil(7) + self.deltas(first, now)).next_multiple_of(4)
            }
        };
        if self.share > 0.0 && self.bytes > 0 {
            // RFC 8298bis: reports of 800 bits that take this share of what arrives, 10 to 1000 in a second.
            let elapsed = now.since(self.last).seconds().max(1e-3);
            let rate = self.bytes as f64 * 8.0 / elapsed;
            self.interval = Span::from_seconds((800.0 / (self.share * rate)).clamp(1e-3, 0.1));
        }
        self.quiet = if self.packets > 0 { 0 } else { self.quiet + 1 };
        (self.reported, self.packets, self.bytes, self.last) = (self.next, 0, 0, now);
        self.due = now + self.interval;
        Cover { highest: self.next.saturating_sub(1), count: count as u16, bytes: (DATAGRAM + bytes) as u16 }
    }

    /// Bytes of the deltas between arrivals of transport-wide feedback.
    fn deltas(&self, first: u64, now: Time) -> u64 {
        let mut before = None;
        let mut bytes = 0;
        for number in first..self.next {
            let slot = &self.slots[(number % KEPT) as usize];
            if slot.number != number || slot.at > now {
                continue;
            }
            let is_small =
                before.is_none_or(|before: Time| slot.at >= before && slot.at.0 - before.0 <= SMALL_DELTA);
            bytes += if is_small { 1 } else { 2 };
            before = Some(slot.at);
        }
        bytes
    }

    /// What the report over `count` packets up to `highest`, made at `until`, says: appended to `into`.
    pub fn read(&self, (highest, count): (u64, u16), until: Time, into: &mut Vec<Heard>) {
        for number in (highest + 1).saturating_sub(count.into())..=highest {
            let slot = &self.slots[(number % KEPT) as usize];
            if slot.number != u64::MAX && slot.number > number {
                // Too long ago to be known.
                continue;
            }
            let arrived = slot.number == number && slot.at <= until;
            let at = arrived.then(|| self.format.round(slot.at, until));
            let marked = arrived && slot.marked <= until && self.format == Format::Rfc8888;
            into.push(Heard { number, at, marked });
        }
    }
}

impl Format {
    /// An arrival as a report made at `report` tells it.
    fn round(self, at: Time, report: Time) -> Time {
        match self {
            Format::Rfc8888 => {
                let offset = u128::from(report.since(at).0) * 1024 / 1_000_000_000;
                let offset = (offset as u64).min(LONGEST_OFFSET);
                Time(report.0.saturating_sub(offset * 1_000_000_000 / 1024))
            }
            Format::TransportWide => Time(at.0 / STEP * STEP),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::config::Protocol;
    use super::super::{Common, common};
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn log(format: Format, overlap: u64) -> ArrivalLog {
        ArrivalLog::new(&Common {
            feedback_s: 0.1,
            feedback_share: 0.0,
            feedback_overlap: overlap,
            format,
            ..common(&Protocol::by_name("nada").unwrap()).unwrap()
        })
    }

    /// TV-36.1: ten packets of one source are 40 bytes of RTCP.
    #[test]
    fn reports_have_their_size() {
        let mut log = log(Format::Rfc8888, 0);
        assert!(log.arrive(0, (at(0), 100), false, at(50)), "the first is reported at once");
        assert_eq!(log.report(at(50)), Cover { highest: 0, count: 1, bytes: 28 + 24 });
        (1..10).for_each(|number| assert!(!log.arrive(number, (at(0), 100), false, at(60))));
        assert!(log.arrive(10, (at(0), 100), false, at(150)));
        assert_eq!(log.report(at(150)), Cover { highest: 10, count: 10, bytes: 28 + 40 });
        assert_eq!(log.due(), None, "nothing to tell");
    }

    /// TV-36.2: half a second before the report is an offset of 512.
    #[test]
    fn times_have_the_resolution_of_the_format() {
        assert_eq!(Format::Rfc8888.round(at(500), at(1000)), at(500));
        // 10 ms are 10.24 steps: ten of them are 9.765625 ms.
        assert_eq!(Format::Rfc8888.round(at(990), at(1000)), Time(1_000_000_000 - 9_765_625));
        assert_eq!(Format::TransportWide.round(Time(1_240_000), at(9)), Time(1_000_000));
        assert_eq!(Format::Rfc8888.round(at(0), at(9000)), Time(9_000_000_000 - 7_997_070_312));
    }

    #[test]
    fn a_report_tells_what_had_arrived_when_it_was_made() {
        let mut log = log(Format::Rfc8888, 2);
        log.arrive(0, (at(0), 100), false, at(10));
        log.report(at(10));
        log.arrive(1, (at(0), 100), true, at(20));
        log.arrive(3, (at(0), 100), false, at(30));
        let cover = log.report(at(110));
        // Behind the report.
        log.arrive(2, (at(0), 100), false, at(120));
        assert_eq!((cover.highest, cover.count), (3, 4), "with one of the report before");
        let mut heard = Vec::new();
        log.read((cover.highest, cover.count), at(110), &mut heard);
        let told: Vec<_> =
            heard.iter().map(|heard| (heard.number, heard.at.is_some(), heard.marked)).collect();
        assert_eq!(told, [(0, true, false), (1, true, true), (2, false, false), (3, true, false)]);
    }

    /// The report is repeated ten times, and then there is silence until another packet comes.
    #[test]
    fn reports_go_on_for_a_while() {
        let mut log = log(Format::Rfc8888, 32);
        log.arrive(0, (at(0), 100), false, at(50));
        let mut times = Vec::new();
        let mut now = at(50);
        loop {
            times.push(now);
            assert_eq!(log.report(now).count, 1);
            let Some(due) = log.due() else { break };
            now = due;
        }
        assert_eq!((times.len(), now), (11, at(1050)));
        assert!(log.arrive(1, (at(0), 100), false, at(5000)));
    }

    #[test]
    fn a_copy_changes_no_arrival_and_a_long_gap_is_cut() {
        let mut log = log(Format::TransportWide, 32);
        log.arrive(5, (at(0), 100), false, at(20));
        log.arrive(5, (at(0), 100), false, at(90));
        let mut heard = Vec::new();
        log.read((5, 1), at(100), &mut heard);
        assert_eq!(heard[0].at, Some(at(20)));
        log.report(at(100));
        assert!(log.arrive(10_000, (at(0), 100), false, at(101)), "much is missing");
        let cover = log.report(at(101));
        assert_eq!((cover.highest, u64::from(cover.count)), (10_000, MOST_REPORTED));
    }

    /// SCReAM's intervals: 100 kbit/s 100 ms, 1 Mbit/s 40 ms, 10 Mbit/s 4 ms at a share of 0.02.
    #[test]
    fn a_share_of_the_rate_sets_the_interval() {
        for (bytes, millis) in [(1250, 100), (12_500, 40)] {
            let mut log = ArrivalLog { share: 0.02, ..log(Format::Rfc8888, 0) };
            log.report(at(0));
            log.arrive(0, (at(0), bytes), false, at(50));
            log.report(at(100));
            log.arrive(1, (at(0), bytes), false, at(101));
            assert_eq!(log.due(), Some(at(100 + millis)));
        }
    }

    proptest! {
        /// Whatever arrives, in any order, twice and marked, and however late the sender reads a report: it names a
        /// packet if and only if one had arrived when it was made, and tells the first time in the format's
        /// resolution.
        #[test]
        fn feedback_never_tells_of_what_did_not_arrive(
            steps in prop::collection::vec((0u64..40, any::<bool>(), 0u64..30_000_000), 1..200),
            format in prop_oneof![Just(Format::Rfc8888), Just(Format::TransportWide)],
            overlap in 0u64..100, every in 1usize..20, late in 0usize..30,
        ) {
            let mut log = log(format, overlap);
            let mut arrived: BTreeMap<u64, (Time, Option<Time>)> = BTreeMap::new();
            let mut reports: Vec<(Cover, Time, usize)> = Vec::new();
            let mut now = Time::ZERO;
            for (step, &(back, marked, gap)) in steps.iter().enumerate() {
                now += Span(gap);
                // Around a number that grows, so that some are overtaken, some come twice and some never.
                let number = (step as u64 + 20).saturating_sub(back);
                log.arrive(number, (now, 100), marked, now);
                let known = arrived.entry(number).or_insert((now, None));
                known.1 = known.1.or(marked.then_some(now));
                if step % every == 0 {
                    reports.push((log.report(now), now, step));
                }
                for &(cover, made, _) in reports.iter().filter(|report| report.2 + late == step) {
                    let mut heard = Vec::new();
                    log.read((cover.highest, cover.count), made, &mut heard);
                    prop_assert_eq!(heard.len(), usize::from(cover.count));
                    for told in heard {
                        let first = arrived.get(&told.number).filter(|first| first.0 <= made);
                        prop_assert_eq!(told.at.is_some(), first.is_some(), "{:?}", told);
                        let Some((&(at, mark), said)) = first.zip(told.at) else { continue };
                        let marks = format == Format::Rfc8888 && mark.is_some_and(|mark| mark <= made);
                        prop_assert_eq!(told.marked, marks);
                        let off = said.since(at).0.max(at.since(said).0);
                        prop_assert!(off <= 1_000_000_000 / 1024 + 1, "{at}, but the report says {said}");
                    }
                }
            }
        }
    }
}
