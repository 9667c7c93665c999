//! One direction of a point-to-point link: a drop-tail queue, a transmitter, a propagation delay, and what
//! the air does to packets.
//!
//! A FIFO link of known rate needs no event of its own: when a packet is enqueued, its departure and arrival are
//! already known. [`Link::transit`] computes them at once. The only condition is that packets are presented in the
//! order of their arrival; `network.rs` sees to that. A link that retransmits is another matter: see `link_arq.rs`.

use std::collections::VecDeque;

use lasthop_core::packet::{Cause, Drops};
use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;

use crate::link_arq::ArqMachine;
use crate::measure::Window;
use crate::plan::{
    Direction, ErrorModel, ErrorPosition, MarkThreshold, OutagePolicy, OutageSchedule, QueueLimit,
};
use crate::trace::{Bins, link_column};

/// What became of a packet on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transit {
    /// Transmission starts at `start`; the packet reaches the far end at `at`.
    Arrives {
        /// Start of transmission.
        start: Time,
        /// Arrival of the last bit.
        at: Time,
    },
    /// The packet is lost.
    Lost {
        /// Why.
        cause: Cause,
        /// Start of transmission, if it got that far.
        start: Option<Time>,
        /// When.
        at: Time,
    },
    /// The link keeps the packet: it retransmits, and what becomes of the packet is not known yet.
    Kept,
}

/// One packet that has been accepted and has not left yet.
#[derive(Clone, Copy, Debug)]
struct Occupant {
    departs: Time,
    bytes: u32,
}

/// What a link did within the measurement window.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkStats {
    /// Integral of the number of waiting packets, in packet-nanoseconds.
    pub waiting: u64,
    /// Time spent transmitting, in nanoseconds.
    pub busy: u64,
    /// Transmissions started.
    pub packets: u64,
    /// Bytes of those.
    pub bytes: u64,
}

impl LinkStats {
    /// A packet arrived at `now` and is transmitted from `start` to `end`.
    #[inline]
    pub(crate) fn count(&mut self, now: Time, start: Time, end: Time, bytes: u32, window: &Window) {
        if window.from <= now && end <= window.to {
            self.waiting += start.0 - now.0;
            self.busy += end.0 - start.0;
            self.packets += 1;
            self.bytes += u64::from(bytes);
            return;
        }
        // Across an edge of the window.
        self.waiting += window.overlap(now, start);
        self.busy += window.overlap(start, end);
        if window.contains(start) {
            self.packets += 1;
            self.bytes += u64::from(bytes);
        }
    }

    /// The same when the link goes down at `until`, and what waits or is being transmitted is lost then.
    fn count_until(&mut self, until: Time, now: Time, start: Time, end: Time, bytes: u32, window: &Window) {
        self.waiting += window.overlap(now, start.min(until));
        self.busy += window.overlap(start.min(until), end.min(until));
        if start < until && window.contains(start) {
            self.packets += 1;
            self.bytes += u64::from(bytes);
        }
    }
}

/// One direction of a link. What an idle link needs per packet is its first cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Link {
    busy_until: Time,
    pub(crate) delay: Span,
    /// Nanoseconds per byte when that is a small whole number, else 0.
    nanos_per_byte: u32,
    pub(crate) packet_limit: u32,
    /// Counters of the measurement window.
    pub stats: LinkStats,
    /// Most waiting packets that an arriving packet left behind it, itself included.
    pub max_waiting: u32,
    /// Whether anything but the plain queue is to be looked at: a byte limit, losses, outages, a series, a fractional
    /// transmission time.
    special: bool,
    /// Whether somebody wants to see every packet.
    watched: bool,
    /// Whether `occupants` holds anything.
    crowded: bool,
    /// Whether there is a threshold for marks.
    marking: bool,

    /// All accepted packets that have not left, but the last: that one leaves at `busy_until`.
    occupants: VecDeque<Occupant>,
    last_bytes: u32,
    pub(crate) byte_limit: u64,
    byte_length: u64,
    /// Waiting packets that each arriving packet found, summed within the measurement window.
    pub(crate) found_waiting: u64,
    mark: Option<MarkThreshold>,
    /// Packets marked within the measurement window.
    pub marks: u64,
    pub(crate) rate: Rate,
    air: Option<Box<Air>>,
    /// Drops by cause within the measurement window.
    pub drops: Drops,
    /// What the link did over time, if a series is recorded.
    pub bins: Option<Box<Bins<3>>>,
    /// The machine that retransmits, on a link that does.
    pub arq: Option<Box<ArqMachine>>,
}

impl Link {
    /// The link of a plan. `name` keys its random streams; `duration` bounds random outages; `series_interval` asks
    /// for a series.
    pub fn new(
        plan: &Direction,
        name: &str,
        seed: u64,
        duration: Span,
        series_interval: Option<Span>,
    ) -> Link {
        let (packet_limit, byte_limit) = match plan.queue {
            QueueLimit::Packets(limit) => (limit, u64::MAX),
            QueueLimit::Bytes(limit) => (u32::MAX, limit),
            QueueLimit::Unlimited => (u32::MAX, u64::MAX),
        };
        let per_byte = 8_000_000_000;
        let whole = if per_byte % plan.rate.0 == 0 { per_byte / plan.rate.0 } else { 0 };
        let nanos_per_byte = u32::try_from(whole).unwrap_or(0);
        let air = Air::new(plan, name, seed, duration);
        let bins = series_interval.map(|interval| Box::new(Bins::new(interval, duration)));
        Link {
            busy_until: Time::ZERO,
            delay: plan.delay,
            nanos_per_byte,
            packet_limit,
            stats: LinkStats::default(),
            max_waiting: 0,
            special: byte_limit != u64::MAX
                || air.is_some()
                || bins.is_some()
                || nanos_per_byte == 0
                || plan.arq.is_some()
                || plan.mark.is_some(),
            marking: plan.mark.is_some(),
            watched: false,
            crowded: false,
            occupants: VecDeque::new(),
            last_bytes: 0,
            byte_limit,
            byte_length: 0,
            found_waiting: 0,
            mark: plan.mark,
            marks: 0,
            rate: plan.rate,
            air,
            drops: Drops::default(),
            bins,
            arq: plan.arq.as_ref().map(|arq| Box::new(ArqMachine::new(arq, name, seed))),
        }
    }

    /// Time that `bytes` occupy the transmitter.
    #[inline]
    pub(crate) fn serialisation(&self, bytes: u32) -> Span {
        if self.nanos_per_byte != 0 {
            return Span(u64::from(self.nanos_per_byte) * u64::from(bytes));
        }
        self.rate.serialisation(u64::from(bytes))
    }

    /// Mean number of waiting packets that the packets found which arrived at the queue, those that it had no room for
    /// included; `None` if none arrived.
    pub fn mean_found_waiting(&self) -> Option<f64> {
        let arrived = self.stats.packets + self.drops[Cause::QueueOverflow as usize];
        (arrived > 0).then(|| self.found_waiting as f64 / arrived as f64)
    }

    /// Lets nothing pass unseen any more: [`Link::pass`] always refuses.
    pub fn watch(&mut self) {
        self.watched = true;
    }

    /// The short way for a packet that meets an idle transmitter and nothing out of the ordinary: its arrival
    /// at the far end. `None` says that it must go through [`Link::transit`].
    #[inline]
    #[expect(clippy::needless_bitwise_bool, reason = "measured: one branch instead of four")]
    pub fn pass(&mut self, now: Time, bytes: u32, window: &Window) -> Option<Time> {
        let span = u64::from(self.nanos_per_byte) * u64::from(bytes);
        let end = now.0 + span;
        let ordinary = !self.special & !self.watched & !self.crowded & (self.busy_until <= now);
        if !ordinary || now < window.from || end > window.to.0 {
            return None;
        }
        self.busy_until = Time(end);
        self.stats.busy += span;
        self.stats.packets += 1;
        self.stats.bytes += u64::from(bytes);
        Some(Time(end + self.delay.0))
    }

    /// Takes a packet of `bytes` at `now` and says what becomes of it. Calls must come in the order of `now`.
    /// `window` is the measurement window.
    ///
    /// A departure at the very instant of an arrival frees its place first.
    #[inline]
    pub fn transit(&mut self, now: Time, bytes: u32, window: &Window) -> Transit {
        if self.special {
            return self.transit_special(now, bytes, window);
        }
        match self.enqueue(now, now, bytes, window) {
            Some(start) => Transit::Arrives { start, at: self.busy_until + self.delay },
            None => self.lose(now, Cause::QueueOverflow, None, window),
        }
    }

    /// Puts a packet into the queue; service may start at `earliest` at the soonest. Returns the start of
    /// transmission, or `None` if the queue was full.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "half of a busy link's work is in here; the call alone costs a tenth"
    )]
    fn enqueue(&mut self, now: Time, earliest: Time, bytes: u32, window: &Window) -> Option<Time> {
        if self.busy_until <= now {
            if self.crowded {
                self.crowded = false;
                self.occupants.clear();
                self.byte_length = 0;
            }
        } else if !self.join_queue(now, bytes, window) {
            return None;
        }
        let start = self.busy_until.max(earliest);
        self.busy_until = start + self.serialisation(bytes);
        self.stats.count(now, start, self.busy_until, bytes, window);
        Some(start)
    }

    /// The transmitter is busy: looks for room behind those who wait, and takes it.
    #[inline]
    fn join_queue(&mut self, now: Time, bytes: u32, window: &Window) -> bool {
        while let Some(&Occupant { departs, bytes }) = self.occupants.front()
            && departs <= now
        {
            self.occupants.pop_front();
            self.byte_length -= u64::from(bytes);
        }
        let length = self.occupants.len() as u32 + 1;
        if window.contains(now) {
            self.found_waiting += u64::from(length - 1);
        }
        if length >= self.packet_limit
            || self.byte_length + u64::from(self.last_bytes) + u64::from(bytes) > self.byte_limit
        {
            return false;
        }
        self.crowded = true;
        self.occupants.push_back(Occupant { departs: self.busy_until, bytes: self.last_bytes });
        self.byte_length += u64::from(self.last_bytes);
        if length > self.max_waiting && window.contains(now) {
            self.max_waiting = length;
        }
        true
    }

    /// Whether packets may be marked here.
    #[inline]
    pub fn marks(&self) -> bool {
        self.marking
    }

    /// Whether the ECN-capable packet that has just been through [`Link::transit`] at `now` is marked: it was
    /// accepted, and found the threshold reached.
    pub fn mark(&mut self, now: Time, transit: Transit, window: &Window) -> bool {
        let accepted = match transit {
            Transit::Arrives { .. } => true,
            Transit::Lost { start, .. } => start.is_some(),
            Transit::Kept => false,
        };
        // Whoever is accepted leaves those that were there before in `occupants`.
        accepted && self.mark_behind(self.occupants.len() as u64, self.byte_length, now, window)
    }

    /// Whether an ECN-capable packet that found so much in the queue at `now` is marked.
    pub(crate) fn mark_behind(&mut self, packets: u64, bytes: u64, now: Time, window: &Window) -> bool {
        let marked = match self.mark {
            Some(MarkThreshold::Packets(threshold)) => packets >= u64::from(threshold),
            Some(MarkThreshold::Bytes(threshold)) => bytes >= threshold,
            None => false,
        };
        self.marks += u64::from(marked && window.contains(now));
        marked
    }

    fn lose(&mut self, at: Time, cause: Cause, start: Option<Time>, window: &Window) -> Transit {
        if window.contains(at) {
            self.drops[cause as usize] += 1;
        }
        Transit::Lost { cause, start, at }
    }

    /// As [`Link::transit`], on a link with a byte limit, losses, outages, a series or retransmission.
    fn transit_special(&mut self, now: Time, bytes: u32, window: &Window) -> Transit {
        if self.arq.is_some() {
            return Transit::Kept;
        }
        let mut air = self.air.take();
        let transit = match &mut air {
            Some(air) => self.transit_through_air(air, now, bytes, window),
            None => match self.enqueue(now, now, bytes, window) {
                Some(start) => {
                    self.book(Time::MAX, now, start, bytes);
                    Transit::Arrives { start, at: self.busy_until + self.delay }
                }
                None => self.lose(now, Cause::QueueOverflow, None, window),
            },
        };
        self.air = air;
        transit
    }

    /// Remembers the packet that was enqueued last, and enters it into the series up to `until`.
    fn book(&mut self, until: Time, now: Time, start: Time, bytes: u32) {
        self.last_bytes = bytes;
        let Some(bins) = &mut self.bins else { return };
        bins.add_span(now, start.min(until), link_column::WAITING);
        bins.add_span(start.min(until), self.busy_until.min(until), link_column::BUSY);
        if start < until {
            bins.add(start, link_column::BYTES, u64::from(bytes));
        }
    }

    /// When the link is down.
    pub(crate) fn outages(&self) -> &[(Time, Time)] {
        self.air.as_ref().map_or(&[], |air| &air.arrivals.outages)
    }

    /// What the air does to a frame of a link with retransmission whose last bit leaves at `departs`. Calls must come
    /// in the order of `departs`.
    pub(crate) fn judge_attempt(&mut self, departs: Time) -> Option<Cause> {
        let air = self.air.as_mut()?;
        // As on other links, the error model judges every frame.
        let corrupt = air.corrupts();
        if air.served.up_again(departs).is_some() {
            return Some(Cause::Outage);
        }
        corrupt.then_some(Cause::ChannelError)
    }

    /// Whether the link is down at `at`, when a link acknowledgement is sent. Calls must come in the order of `at`.
    pub(crate) fn is_down_for_ack(&mut self, at: Time) -> bool {
        self.air.as_mut().is_some_and(|air| air.arrivals.up_again(at).is_some())
    }

    fn transit_through_air(&mut self, air: &mut Air, now: Time, bytes: u32, window: &Window) -> Transit {
        if air.position == ErrorPosition::BeforeQueue && air.corrupts() {
            return self.lose(now, Cause::ChannelError, None, window);
        }
        let mut earliest = now;
        match air.policy {
            OutagePolicy::DropAir => {}
            OutagePolicy::Hold => {
                // The transmitter rests until the link is back; a transmission under way is finished.
                let start = self.busy_until.max(now);
                earliest = air.served.up_again(start).unwrap_or(start);
            }
            OutagePolicy::Drop => {
                if let Some(down) = air.arrivals.started_by(now).filter(|&down| air.flushed < Some(down)) {
                    // The queue was emptied when the link went down; what has come since then is not in it.
                    air.flushed = Some(down);
                    self.busy_until = self.busy_until.min(down);
                }
                if air.arrivals.up_again(now).is_some() {
                    return self.lose(now, Cause::Outage, None, window);
                }
            }
        }
        let counted = self.stats;
        let Some(start) = self.enqueue(now, earliest, bytes, window) else {
            return self.lose(now, Cause::QueueOverflow, None, window);
        };
        let departs = self.busy_until;
        let at = departs + self.delay;
        let mut until = Time::MAX;
        let lost_to_outage = match air.policy {
            OutagePolicy::DropAir => air.served.up_again(departs).is_some(),
            OutagePolicy::Hold => false,
            OutagePolicy::Drop => {
                until = air.arrivals.next_start(now);
                if until < departs {
                    self.stats = counted;
                    self.stats.count_until(until, now, start, departs, bytes, window);
                }
                until <= at
            }
        };
        self.book(until, now, start, bytes);
        // The error model judges every packet, so that an outage does not shift the losses after it.
        let corrupt = air.position == ErrorPosition::AfterTransmission && air.corrupts();
        if lost_to_outage {
            let started = (start < until).then_some(start);
            return self.lose(departs.min(until), Cause::Outage, started, window);
        }
        if corrupt {
            return self.lose(departs, Cause::ChannelError, Some(start), window);
        }
        Transit::Arrives { start, at }
    }
}

/// What happens to packets in the air: losses and outages.
#[derive(Clone, Debug)]
struct Air {
    errors: Errors,
    position: ErrorPosition,
    policy: OutagePolicy,
    /// Outages as seen by arriving packets, and as seen by the transmitter: two clocks, each moving forward only.
    arrivals: OutageCursor,
    served: OutageCursor,
    /// Start of the last outage that emptied the queue.
    flushed: Option<Time>,
}

#[derive(Clone, Debug)]
enum Errors {
    None,
    Bernoulli { stream: Stream, packet_error_rate: f64 },
    List { packets: Vec<u64>, judged: u64, next: usize },
}

impl Air {
    /// `None` if nothing can happen to a packet on this link.
    fn new(plan: &Direction, name: &str, seed: u64, duration: Span) -> Option<Box<Air>> {
        let (errors, position) = match &plan.error {
            ErrorModel::None => (Errors::None, ErrorPosition::AfterTransmission),
            ErrorModel::Bernoulli { packet_error_rate, position } => {
                let stream = Stream::new(seed, &format!("error model of {name}"));
                (Errors::Bernoulli { stream, packet_error_rate: *packet_error_rate }, *position)
            }
            ErrorModel::List { packets, position } => {
                (Errors::List { packets: packets.clone(), judged: 0, next: 0 }, *position)
            }
        };
        let outages = match &plan.outages.schedule {
            OutageSchedule::None => Vec::new(),
            OutageSchedule::Listed(list) => {
                list.iter().map(|&(start, length)| (start, start + length)).collect()
            }
            OutageSchedule::Random { count, length } => random_outages(
                &mut Stream::new(seed, &format!("outages of {name}")),
                *count,
                *length,
                duration,
            ),
        };
        if matches!(errors, Errors::None) && outages.is_empty() {
            return None;
        }
        let cursor = OutageCursor { outages: outages.into(), next: 0 };
        let policy = plan.outages.policy;
        let arrivals = cursor.clone();
        Some(Box::new(Air { errors, position, policy, arrivals, served: cursor, flushed: None }))
    }

    /// Judges the next packet.
    fn corrupts(&mut self) -> bool {
        match &mut self.errors {
            Errors::None => false,
            Errors::Bernoulli { stream, packet_error_rate } => stream.uniform() < *packet_error_rate,
            Errors::List { packets, judged, next } => {
                let hit = packets.get(*next) == Some(judged);
                *next += usize::from(hit);
                *judged += 1;
                hit
            }
        }
    }
}

/// `count` outages of `length`, uniform over the run and not overlapping: the gaps between them are a uniform
/// partition of the time that is left.
fn random_outages(stream: &mut Stream, count: u32, length: Span, duration: Span) -> Vec<(Time, Time)> {
    let free = duration - length * u64::from(count);
    let mut offsets: Vec<u64> = (0..count).map(|_| stream.below(free.0 + 1)).collect();
    offsets.sort_unstable();
    let starts = offsets.iter().zip(0u64..).map(|(&offset, earlier)| Time(offset) + length * earlier);
    starts.map(|start| (start, start + length)).collect()
}

/// A position in a sorted list of outages `[start, end)`; it only moves forward.
#[derive(Clone, Debug)]
struct OutageCursor {
    outages: Box<[(Time, Time)]>,
    next: usize,
}

impl OutageCursor {
    /// Skips outages that ended by `now`.
    fn advance(&mut self, now: Time) {
        while self.outages.get(self.next).is_some_and(|&(_, end)| end <= now) {
            self.next += 1;
        }
    }

    /// If the link is down at `now`: when it returns.
    fn up_again(&mut self, now: Time) -> Option<Time> {
        self.advance(now);
        self.outages.get(self.next).filter(|&&(start, _)| start <= now).map(|&(_, end)| end)
    }

    /// Start of the last outage that began by `now`, if there was one.
    fn started_by(&mut self, now: Time) -> Option<Time> {
        self.advance(now);
        let current = self.outages.get(self.next).filter(|&&(start, _)| start <= now);
        let past = self.next.checked_sub(1).map(|index| &self.outages[index]);
        current.or(past).map(|&(start, _)| start)
    }

    /// Start of the first outage after `now`; [`Time::MAX`] if there is none.
    fn next_start(&mut self, now: Time) -> Time {
        self.advance(now);
        let mut starts = self.outages[self.next..].iter().map(|&(start, _)| start);
        starts.find(|&start| start > now).unwrap_or(Time::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Outages;

    fn direction(rate: u64, delay_ms: u64, limit: u32) -> Direction {
        Direction {
            rate: Rate(rate),
            delay: Span::from_millis(delay_ms),
            mtu: 1500,
            queue: QueueLimit::Packets(limit),
            mark: None,
            error: ErrorModel::None,
            outages: Outages { schedule: OutageSchedule::None, policy: OutagePolicy::DropAir, warning: None },
            arq: None,
        }
    }

    const MINUTE: Window = Window { from: Time::ZERO, to: Time(60_000_000_000) };

    fn link(plan: &Direction) -> Link {
        Link::new(plan, "test", 1, MINUTE.length(), None)
    }

    fn millis(value: u64) -> Time {
        Time::ZERO + Span::from_millis(value)
    }

    /// NV-1.1.
    #[test]
    fn serialisation_and_propagation() {
        let arrival = |rate, bytes| match link(&direction(rate, 10, 50)).transit(Time::ZERO, bytes, &MINUTE) {
            Transit::Arrives { at, .. } => at,
            other => panic!("{other:?}"),
        };
        assert_eq!(arrival(5_000_000, 1000), Time(11_600_000));
        assert_eq!(arrival(1_000_000, 40), Time(10_320_000));
    }

    /// NV-1.2: ten packets at once into an idle link with room for four.
    #[test]
    fn drop_tail_counts_the_packet_in_service() {
        let mut link = link(&direction(8_000_000, 0, 4));
        let transits: Vec<Transit> = (0..10).map(|_| link.transit(Time::ZERO, 1000, &MINUTE)).collect();
        let arrivals: Vec<Time> = transits
            .iter()
            .filter_map(|transit| match transit {
                Transit::Arrives { at, .. } => Some(*at),
                _ => None,
            })
            .collect();
        assert_eq!(arrivals, [millis(1), millis(2), millis(3), millis(4)]);
        assert_eq!(link.drops[Cause::QueueOverflow as usize], 6);
        assert_eq!(link.max_waiting, 3);
    }

    #[test]
    fn a_limit_of_one_delivers_one() {
        let mut link = link(&direction(8_000_000, 0, 1));
        assert!(matches!(link.transit(Time::ZERO, 1000, &MINUTE), Transit::Arrives { .. }));
        assert!(matches!(link.transit(Time(1), 1000, &MINUTE), Transit::Lost { .. }));
        assert!(
            matches!(link.transit(millis(1), 1000, &MINUTE), Transit::Arrives { .. }),
            "the departure goes first"
        );
    }

    #[test]
    fn a_byte_limit_counts_bytes() {
        let plan = Direction { queue: QueueLimit::Bytes(2500), ..direction(8_000_000, 0, 1) };
        let mut link = link(&plan);
        let arrived = (0..4)
            .filter(|_| matches!(link.transit(Time::ZERO, 1000, &MINUTE), Transit::Arrives { .. }))
            .count();
        assert_eq!(arrived, 2);
        assert!(matches!(link.transit(Time::ZERO, 500, &MINUTE), Transit::Arrives { .. }));
    }

    /// Ten packets at once with a threshold of three: the first three find less and pass, those behind are marked, and
    /// what finds the queue full is lost.
    #[test]
    fn packets_that_find_the_threshold_reached_are_marked() {
        for mark in [MarkThreshold::Packets(3), MarkThreshold::Bytes(3000)] {
            let mut link = link(&Direction { mark: Some(mark), ..direction(8_000_000, 0, 6) });
            let mut marked = |now: Time| {
                let transit = link.transit(now, 1000, &MINUTE);
                link.mark(now, transit, &MINUTE)
            };
            let burst: Vec<bool> = (0..8).map(|_| marked(Time::ZERO)).collect();
            assert_eq!(burst, [false, false, false, true, true, true, false, false], "{mark:?}");
            assert!(marked(millis(3)), "three have left, three are there");
            assert!(!marked(millis(5)), "and now two");
            assert!(!marked(millis(100)), "{mark:?}: nobody");
            assert_eq!((link.marks, link.drops[Cause::QueueOverflow as usize]), (4, 2));
        }
    }

    /// NV-8.7 by Little's law: nobody waits for 1 s, four for 3 s, two for 2 s.
    #[test]
    fn queue_average_is_the_integral_of_the_waiting() {
        let mut link = link(&Direction { rate: Rate(8), ..direction(8, 0, 50) });
        // In service until 4 s; from 1 s on four wait; at 4 s one starts, and a second follows at once.
        link.transit(millis(0), 4, &MINUTE);
        for bytes in [0, 2, 0, 0] {
            link.transit(millis(1000), bytes, &MINUTE);
        }
        // At 4 s the empty first leaves at once, the second occupies the link until 6 s, two go on waiting.
        assert_eq!(link.stats.waiting, (4 * 3 + 2 * 2) * 1_000_000_000);
        // The five packets found 0, 0, 1, 2 and 3.
        assert_eq!(link.mean_found_waiting(), Some(6.0 / 5.0));
    }

    /// NV-2.1.
    #[test]
    fn bernoulli_losses_have_their_rate() {
        let error =
            ErrorModel::Bernoulli { packet_error_rate: 0.01, position: ErrorPosition::AfterTransmission };
        let mut link = link(&Direction { error, ..direction(1_000_000_000, 0, 50) });
        let lost = (0..1_000_000u64)
            .filter(|&index| {
                matches!(link.transit(Time(index * 10_000), 1000, &MINUTE), Transit::Lost { .. })
            })
            .count();
        assert!((9_700..=10_300).contains(&lost), "{lost}");
    }

    #[test]
    fn listed_packets_are_lost() {
        let error = ErrorModel::List { packets: vec![1, 3], position: ErrorPosition::BeforeQueue };
        let mut link = link(&Direction { error, ..direction(8_000_000, 0, 50) });
        let lost: Vec<bool> =
            (0..5).map(|_| matches!(link.transit(Time::ZERO, 1000, &MINUTE), Transit::Lost { .. })).collect();
        assert_eq!(lost, [false, true, false, true, false]);
        assert_eq!(link.busy_until, millis(3), "lost before the queue, so no air time");
    }

    fn with_outages(policy: OutagePolicy) -> Direction {
        let times = (1..=5).map(|tenth| (millis(tenth * 10_000), Span::from_secs(1))).collect();
        Direction {
            outages: Outages { schedule: OutageSchedule::Listed(times), policy, warning: None },
            ..direction(10_000_000, 10, 50)
        }
    }

    /// NV-2.7: 100 packets/s for 60 s.
    #[test]
    fn five_outages_lose_five_hundred_packets() {
        for policy in [OutagePolicy::DropAir, OutagePolicy::Drop] {
            let mut link = link(&with_outages(policy));
            let lost = (0..6000)
                .filter(|&index| {
                    matches!(link.transit(millis(index * 10), 1000, &MINUTE), Transit::Lost { .. })
                })
                .count();
            assert!((495..=510).contains(&lost), "{policy:?} lost {lost}");
        }
    }

    #[test]
    fn hold_keeps_packets_until_the_link_returns() {
        let mut link = link(&with_outages(OutagePolicy::Hold));
        let Transit::Arrives { start, at } = link.transit(millis(10_500), 1000, &MINUTE) else {
            panic!("lost")
        };
        assert_eq!((start, at), (millis(11_000), Time(11_010_800_000)));
        assert!(matches!(link.transit(millis(10_600), 1000, &MINUTE), Transit::Arrives { .. }));
    }

    #[test]
    fn drop_flushes_the_queue() {
        let mut link = link(&with_outages(OutagePolicy::Drop));
        // Ten packets of 0.8 ms just before the outage: those that would arrive at 10 s or later are lost.
        let lost = (0..10)
            .filter(|_| matches!(link.transit(millis(9_986), 1000, &MINUTE), Transit::Lost { .. }))
            .count();
        assert_eq!(lost, 6);
        let Transit::Arrives { start, .. } = link.transit(millis(11_000), 1000, &MINUTE) else {
            panic!("lost")
        };
        assert_eq!(start, millis(11_000), "nothing of the old queue is left");
        // All ten were transmitted in time; six of them were in the air when the link went down.
        assert_eq!((link.stats.packets, link.stats.busy), (10 + 1, 8_800_000));
    }

    /// What comes after an outage queues as ever: the link does not become idle again by itself.
    #[test]
    fn the_queue_is_flushed_once() {
        let mut link = link(&with_outages(OutagePolicy::Drop));
        let starts: Vec<Time> = (0..3)
            .map(|_| match link.transit(millis(12_000), 1000, &MINUTE) {
                Transit::Arrives { start, .. } => start,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(starts, [0, 800_000, 1_600_000].map(|later| millis(12_000) + Span(later)));
    }

    /// A flushed packet takes no transmission time that the link did not have.
    #[test]
    fn flushed_packets_are_counted_up_to_the_outage() {
        let mut link = link(&with_outages(OutagePolicy::Drop));
        // Forty packets of 0.8 ms, 4 ms before the outage: five are transmitted, and none of them arrives in time.
        for _ in 0..40 {
            link.transit(millis(9_996), 1000, &MINUTE);
        }
        assert_eq!((link.stats.packets, link.stats.busy), (5, 4_000_000));
        // The first goes at once; four wait for 0.8, 1.6, 2.4 and 3.2 ms, and 35 until the link goes down.
        assert_eq!(link.stats.waiting, 8_000_000 + 35 * 4_000_000);
    }

    #[test]
    fn random_outages_never_overlap() {
        let mut stream = Stream::new(3, "outages");
        for _ in 0..100 {
            let outages = random_outages(&mut stream, 5, Span::from_secs(1), Span::from_secs(6));
            assert!(outages.windows(2).all(|pair| pair[0].1 <= pair[1].0));
            assert!(outages.iter().all(|outage| outage.1 <= millis(6000)));
        }
    }
}
