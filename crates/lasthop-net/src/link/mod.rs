//! One direction of a point-to-point link: a queue, a transmitter, a propagation delay, and what the air does to
//! packets.
//!
//! A FIFO link of known rate needs no event of its own: when a packet is enqueued, its departure and arrival are
//! already known. [`Link::transit`] computes them at once. The only condition is that packets are presented in the
//! order of their arrival; `network/` sees to that. Links that retransmit, and queues that decide when a packet leaves,
//! are devices that use the transmitter of a link: see `device/arq.rs` and `device/queued.rs`.

mod delay;
mod opportunities;
mod rate;
mod stats;

use lasthop_core::packet::{Cause, Drops};
use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;

use crate::channel::{Air, Frame};
use crate::measure::Window;
use crate::network::name_number;
use crate::plan::{Direction, ErrorPosition, OutagePolicy};
use crate::queue::{Arrival, Departures, Found, Gate, Verdict};
use crate::trace::{Bins, link_column};
use delay::Delays;
pub use opportunities::Opportunities;
use rate::Pace;
pub use stats::LinkStats;

/// What became of a packet on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transit {
    /// Transmission starts at `start`; the packet reaches the far end at `at`.
    Arrives {
        /// Start of transmission.
        start: Time,
        /// Arrival of the last bit.
        at: Time,
        /// The queue marked it.
        marked: bool,
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
}

/// What a link lost.
#[derive(Clone, Debug, Default)]
struct Losses {
    drops: Drops,
    /// Packets that found no room because another took the last in the same instant.
    tied: u64,
}

/// One direction of a link. What an idle link needs per packet is its first cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Link {
    busy_until: Time,
    pub(crate) delay: Span,
    /// Counters of the measurement window.
    pub stats: LinkStats,
    /// Nanoseconds per byte when that is a small whole number that never changes, else 0.
    nanos_per_byte: u32,
    /// A number made of the name, by which it draws lots as a feeder.
    pub(crate) number: u32,
    /// Whether anything but the plain queue is to be looked at: a byte limit, a rule, what the air does before a packet
    /// is transmitted, a series, a rate that changes or has a fractional transmission time.
    special: bool,
    /// Whether the air judges what has been transmitted.
    judged: bool,
    /// Either of them, or every packet is recorded.
    guarded: bool,
    /// Whether the queue tells packets apart.
    has_rule: bool,
    /// Several feed it, so that packets from different sides may meet.
    pub(crate) contested: bool,

    pub(crate) gate: Gate,
    /// When the last packet joined the queue.
    joined: Time,
    /// Accepted packets, but the last: that one leaves at `busy_until`. Those that have left are forgotten when the
    /// next one joins the queue.
    ahead: Departures,
    last_bytes: u32,
    pace: Pace,
    /// The propagation delay, if it changes.
    delays: Option<Box<Delays>>,
    air: Option<Box<Air>>,
    /// What was lost within the measurement window, if anything was.
    losses: Option<Box<Losses>>,
    /// What the link did over time, if a series is recorded.
    pub(crate) bins: Option<Box<Bins<3>>>,
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
        let pace = Pace::new(plan.rate, &plan.rate_changes, plan.opportunities.as_ref());
        let delays = Delays::new(plan);
        let nanos_per_byte = pace.whole_nanos_per_byte();
        let gate = Gate::new(&plan.queue, name, seed);
        let air = Air::new(plan, name, seed, duration);
        let bins = series_interval.map(|interval| Box::new(Bins::new(interval, duration)));
        let judged = air.as_ref().is_some_and(|air| air.only_judges());
        let special = gate.is_special()
            || (air.is_some() && !judged)
            || bins.is_some()
            || delays.is_some()
            || nanos_per_byte == 0;
        Link {
            busy_until: Time::ZERO,
            delay: plan.delay,
            stats: LinkStats::default(),
            nanos_per_byte,
            number: name_number(name),
            special,
            judged,
            guarded: special || judged,
            has_rule: gate.has_rule(),
            contested: false,
            gate,
            joined: Time::MAX,
            ahead: Departures::default(),
            last_bytes: 0,
            pace,
            delays,
            air,
            losses: None,
            bins,
        }
    }

    /// When the last bit of `bytes` leaves, if the first leaves at `start`. On a link with opportunities, which this
    /// leaves alone: at its mean rate.
    #[inline]
    pub(crate) fn finish(&self, start: Time, bytes: u32) -> Time {
        if self.nanos_per_byte != 0 {
            return start + Span(u64::from(self.nanos_per_byte) * u64::from(bytes));
        }
        self.pace.finish(start, bytes)
    }

    /// The same for a packet of the queue, which has waited since `since`: it uses opportunities up.
    #[inline]
    fn serve(&mut self, since: Time, start: Time, bytes: u32) -> Time {
        if self.nanos_per_byte != 0 {
            return start + Span(u64::from(self.nanos_per_byte) * u64::from(bytes));
        }
        self.pace.serve(since, start, bytes)
    }

    /// When a packet reaches the far end that leaves at `departs`. Calls must come in the order of `departs`.
    #[inline]
    pub(crate) fn arrival(&mut self, departs: Time) -> Time {
        match &mut self.delays {
            None => departs + self.delay,
            Some(delays) => delays.arrival(departs),
        }
    }

    /// The rate at `at`.
    pub(crate) fn rate_at(&self, at: Time) -> Rate {
        self.pace.rate_at(at)
    }

    /// The run is over: the waiting packets are not needed any more.
    pub(crate) fn forget_departures(&mut self) {
        self.ahead = Departures::default();
    }

    /// Drops by cause within the measurement window.
    pub fn drops(&self) -> Drops {
        self.losses.as_ref().map_or_else(Drops::default, |losses| losses.drops)
    }

    /// Packets within the measurement window that found no room because another took the last in the same instant.
    pub fn tied_drops(&self) -> u64 {
        self.losses.as_ref().map_or(0, |losses| losses.tied)
    }

    /// Packets within the measurement window that arrived in the instant in which another left; `None` if the queue is
    /// not managed.
    pub fn tied_arrivals(&self) -> Option<u64> {
        self.gate.tied_arrivals()
    }

    /// Mean number of waiting packets that the packets found which arrived at the queue, those that it dropped
    /// included; `None` if none arrived.
    pub fn mean_found_waiting(&self) -> Option<f64> {
        self.mean_found_by(self.arrived())
    }

    /// The same if this many packets arrived, over all links that begin at this queue.
    pub fn mean_found_by(&self, arrived: u64) -> Option<f64> {
        (arrived > 0).then(|| self.gate.found_waiting as f64 / arrived as f64)
    }

    /// Packets that arrived at the queue within the measurement window.
    pub fn arrived(&self) -> u64 {
        let drops = self.drops();
        self.stats.packets + drops[Cause::QueueOverflow as usize] + drops[Cause::EarlyDrop as usize]
    }

    /// Most waiting packets that an arriving packet left behind it, itself included.
    pub fn max_waiting(&self) -> u32 {
        self.gate.max_waiting
    }

    /// Packets marked within the measurement window.
    pub fn marks(&self) -> u64 {
        self.gate.marks()
    }

    /// Lets nothing pass unseen any more: [`Link::pass`] always refuses.
    pub fn watch(&mut self) {
        self.guarded = true;
    }

    /// Whether the queue tells packets apart, so that [`Link::transit`] wants to know who may be marked.
    #[inline]
    pub(crate) fn has_rule(&self) -> bool {
        self.has_rule
    }

    /// The short way for a packet that meets nothing out of the ordinary within the measurement window: its arrival at
    /// the far end. `None` says that it must go through [`Link::transit`].
    #[inline]
    pub fn pass(&mut self, now: Time, bytes: u32, window: &Window) -> Option<Time> {
        let span = u64::from(self.nanos_per_byte) * u64::from(bytes);
        let start = self.busy_until.max(now);
        let end = start.0 + span;
        let arrival = Time(end + self.delay.0);
        if self.guarded || now < window.from || arrival > window.to || !self.takes(now) {
            return None;
        }
        self.busy_until = Time(end);
        self.stats.waiting += start.0 - now.0;
        self.stats.busy += span;
        self.stats.packets += 1;
        self.stats.bytes += u64::from(bytes);
        Some(arrival)
    }

    /// Whether the transmitter of a link with nothing but a packet limit takes a packet within the measurement window:
    /// it is idle, or there is room behind those who wait.
    #[inline]
    fn takes(&mut self, now: Time) -> bool {
        if self.busy_until <= now {
            return true;
        }
        self.ahead.expire(now);
        let waiting = self.ahead.len() as u32;
        if waiting + 1 >= self.gate.packet_limit {
            return false;
        }
        self.gate.found_waiting += u64::from(waiting);
        self.gate.max_waiting = self.gate.max_waiting.max(waiting + 1);
        self.joined = now;
        self.ahead.push(self.busy_until, 0);
        true
    }

    /// Takes a packet of `bytes` at `now` and says what becomes of it. Calls must come in the order of `now`.
    /// `ect`: it may be marked instead of dropped. `window` is the measurement window.
    ///
    /// A departure at the very instant of an arrival frees its place first.
    #[inline]
    pub fn transit(&mut self, now: Time, bytes: u32, ect: bool, window: &Window) -> Transit {
        if self.special {
            return self.transit_special(&Arrival { at: now, bytes, ect }, window);
        }
        if self.busy_until > now && !self.join_queue(now, window) {
            return self.lose(now, Cause::QueueOverflow, None, window);
        }
        let start = self.busy_until.max(now);
        self.busy_until = start + Span(u64::from(self.nanos_per_byte) * u64::from(bytes));
        self.stats.count(now, start, self.busy_until, bytes, window);
        if self.judged
            && let Some(cause) = self.judge_attempt(start, self.busy_until, bytes)
        {
            return self.lose(self.busy_until, cause, Some(start), window);
        }
        Transit::Arrives { start, at: self.busy_until + self.delay, marked: false }
    }

    /// The transmitter of a link with nothing but a packet limit is busy: looks for room behind those who wait, and
    /// takes it. [`Gate::judge`] without what such a link does not have.
    fn join_queue(&mut self, now: Time, window: &Window) -> bool {
        self.ahead.expire(now);
        let length = self.ahead.len() as u32 + 1;
        if window.contains(now) {
            self.gate.found_waiting += u64::from(length - 1);
        }
        if length >= self.gate.packet_limit {
            return false;
        }
        self.joined = now;
        self.ahead.push(self.busy_until, 0);
        self.gate.note_waiting(length.into(), now, window);
        true
    }

    /// Forgets the packets that have left by `now`, and remembers an instant that an arrival may share.
    fn expire(&mut self, now: Time) {
        if self.ahead.expire(now) {
            self.gate.note_departure(now);
        }
    }

    /// Puts a packet into the queue of a special link; service may start at `earliest` at the soonest. Returns the
    /// start of transmission and whether the packet is marked, or why the queue refused it.
    fn enqueue(
        &mut self,
        arrival: &Arrival,
        earliest: Time,
        window: &Window,
    ) -> std::result::Result<(Time, bool), Cause> {
        let now = arrival.at;
        let idle = self.busy_until <= now;
        let mut found = Found { idle_since: self.busy_until, ..Found::default() };
        // Until the first packet the link is free from the beginning of time on.
        if self.busy_until == now && now > Time::ZERO {
            self.gate.note_departure(now);
        }
        if idle {
            // An outage may have emptied the queue.
            self.ahead.clear();
        } else {
            self.expire(now);
            let waiting = self.ahead.len() as u64;
            let bytes = self.ahead.bytes() + u64::from(self.last_bytes);
            let in_service = self.ahead.first_bytes().unwrap_or(self.last_bytes);
            let waiting_bytes = bytes - u64::from(in_service);
            found = Found { packets: waiting + 1, bytes, waiting, waiting_bytes, ..found };
        }
        let marked = match self.gate.judge(arrival, &found, window) {
            Verdict::Admit => false,
            Verdict::Mark => true,
            Verdict::Refuse(cause) => return Err(cause),
        };
        if !idle {
            self.joined = now;
            self.ahead.push(self.busy_until, self.last_bytes);
            self.gate.note_waiting(found.packets, now, window);
        }
        let start = self.busy_until.max(earliest);
        self.busy_until = self.serve(now, start, arrival.bytes);
        self.stats.count(now, start, self.busy_until, arrival.bytes, window);
        Ok((start, marked))
    }

    /// Counts a loss.
    pub(crate) fn count_drop(&mut self, cause: Cause, at: Time, window: &Window) {
        if window.contains(at) {
            self.losses.get_or_insert_default().drops[cause as usize] += 1;
        }
    }

    fn lose(&mut self, at: Time, cause: Cause, start: Option<Time>, window: &Window) -> Transit {
        self.count_drop(cause, at, window);
        if cause == Cause::QueueOverflow && self.contested && self.joined == at && window.contains(at) {
            self.losses.get_or_insert_default().tied += 1;
        }
        Transit::Lost { cause, start, at }
    }

    /// As [`Link::transit`], on a link with more than a plain queue.
    fn transit_special(&mut self, arrival: &Arrival, window: &Window) -> Transit {
        let mut air = self.air.take();
        let transit = match &mut air {
            Some(air) => self.transit_through_air(air, arrival, window),
            None => match self.enqueue(arrival, arrival.at, window) {
                Ok((start, marked)) => {
                    self.book(Time::MAX, arrival, start);
                    Transit::Arrives { start, at: self.arrival(self.busy_until), marked }
                }
                Err(cause) => self.lose(arrival.at, cause, None, window),
            },
        };
        self.air = air;
        transit
    }

    /// Remembers the packet that was enqueued last, and enters it into the series up to `until`.
    fn book(&mut self, until: Time, arrival: &Arrival, start: Time) {
        self.last_bytes = arrival.bytes;
        let Some(bins) = &mut self.bins else { return };
        bins.add_span(arrival.at, start.min(until), link_column::WAITING);
        bins.add_span(start.min(until), self.busy_until.min(until), link_column::BUSY);
        if start < until {
            bins.add(start, link_column::BYTES, u64::from(arrival.bytes));
        }
    }

    fn transit_through_air(&mut self, air: &mut Air, arrival: &Arrival, window: &Window) -> Transit {
        let &Arrival { at: now, bytes, .. } = arrival;
        if air.corrupts(ErrorPosition::BeforeQueue, &Frame { start: now, end: now, bytes }) {
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
        let (start, marked) = match self.enqueue(arrival, earliest, window) {
            Ok(taken) => taken,
            Err(cause) => return self.lose(now, cause, None, window),
        };
        let departs = self.busy_until;
        let at = self.arrival(departs);
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
        self.book(until, arrival, start);
        // The error model judges every packet, so that an outage does not shift the losses after it.
        let frame = Frame { start, end: departs, bytes };
        let corrupt = air.corrupts(ErrorPosition::AfterTransmission, &frame);
        if lost_to_outage {
            let started = (start < until).then_some(start);
            return self.lose(departs.min(until), Cause::Outage, started, window);
        }
        if corrupt {
            return self.lose(departs, Cause::ChannelError, Some(start), window);
        }
        Transit::Arrives { start, at, marked }
    }
}

/// What devices need that decide themselves who is transmitted when.
impl Link {
    /// When the link is down.
    pub fn outages(&self) -> &[(Time, Time)] {
        self.air.as_ref().map_or(&[], |air| air.arrivals.all())
    }

    /// Whether a packet of this many bytes that arrives at `now` finds room in the queue. What a rule or a
    /// discipline would make of it is left open.
    pub(crate) fn has_room(&mut self, now: Time, bytes: u32, held: bool) -> bool {
        let found = if held {
            self.gate.held()
        } else if self.busy_until <= now {
            (0, 0)
        } else {
            self.expire(now);
            (self.ahead.len() as u64 + 1, self.ahead.bytes() + u64::from(self.last_bytes))
        };
        self.gate.has_room(bytes.into(), found)
    }

    /// How long a packet of this many bytes that arrives at `now` will take until it has left, behind those
    /// that are there. An estimate where a device decides who leaves when, or the rate changes.
    pub(crate) fn wait(&self, now: Time, bytes: u32, held: bool) -> Span {
        let rate = self.rate_at(now);
        let own = if rate.0 == 0 { Span::ZERO } else { rate.serialisation(bytes.into()) };
        let busy = Span(self.busy_until.0.saturating_sub(now.0)) + own;
        if !held || rate.0 == 0 { busy } else { busy + rate.serialisation(self.gate.held_waiting()) }
    }

    /// Whether [`Link::wait`] is the least that a packet can wait: the rate never changes, and no waiting
    /// packet is overtaken or thrown away.
    pub(crate) fn is_even(&self) -> bool {
        self.pace.is_constant() && self.gate.serves_in_order()
    }

    /// Transmits `bytes` from `now` on and returns the end. The packet has waited since `since`. Counts both.
    pub(crate) fn occupy(&mut self, since: Time, now: Time, bytes: u32, window: &Window) -> Time {
        let departs = self.serve(since, now, bytes);
        self.occupy_until(since, (now, departs), bytes, window);
        departs
    }

    /// The same where the device knows how long it takes: from the first time to the second.
    pub(crate) fn occupy_until(
        &mut self,
        since: Time,
        (now, departs): (Time, Time),
        bytes: u32,
        window: &Window,
    ) {
        self.busy_until = departs;
        self.stats.count(since, now, departs, bytes, window);
        if let Some(bins) = &mut self.bins {
            bins.add_span(since, now, link_column::WAITING);
            bins.add_span(now, departs, link_column::BUSY);
            bins.add(now, link_column::BYTES, u64::from(bytes));
        }
    }

    /// Counts a packet that has waited since `since` and still does when the run ends.
    pub(crate) fn count_unserved(&mut self, since: Time, window: &Window) {
        self.stats.waiting += window.overlap(since, window.to);
        if let Some(bins) = &mut self.bins {
            bins.add_span(since, window.to, link_column::WAITING);
        }
    }

    /// Counts a packet that has waited since `since` and is taken away at `now`.
    pub(crate) fn count_left(&mut self, since: Time, now: Time, window: &Window) {
        self.stats.waiting += window.overlap(since, now);
        if let Some(bins) = &mut self.bins {
            bins.add_span(since, now, link_column::WAITING);
        }
    }

    /// Whether the error model at `position` takes a packet of `bytes` at `at`. Calls must come in the order of `at`.
    pub(crate) fn corrupts(&mut self, position: ErrorPosition, at: Time, bytes: u32) -> bool {
        let frame = Frame { start: at, end: at, bytes };
        self.air.as_mut().is_some_and(|air| air.corrupts(position, &frame))
    }

    /// What the air does to a frame of `bytes` that is transmitted from `start` to `departs`. Calls must come in the
    /// order of time.
    pub(crate) fn judge_attempt(&mut self, start: Time, departs: Time, bytes: u32) -> Option<Cause> {
        let air = self.air.as_mut()?;
        // As on other links, the error model judges every frame.
        let frame = Frame { start, end: departs, bytes };
        let corrupt = air.corrupts(ErrorPosition::AfterTransmission, &frame);
        if air.policy == OutagePolicy::DropAir && air.served.up_again(departs).is_some() {
            return Some(Cause::Outage);
        }
        corrupt.then_some(Cause::ChannelError)
    }

    /// When a transmitter that holds its packets through outages, or has to wait for opportunities, may start, if it
    /// is ready at `now`.
    pub(crate) fn may_start(&mut self, now: Time) -> Time {
        let ready = self.up_from(now);
        self.pace.ready_from(ready)
    }

    /// When a transmitter that holds its packets through outages is ready, at `now` or later.
    pub(crate) fn up_from(&mut self, now: Time) -> Time {
        match &mut self.air {
            Some(air) if air.policy == OutagePolicy::Hold => air.served.up_again(now).unwrap_or(now),
            _ => now,
        }
    }

    /// Whether the link is down at `at`, when a link acknowledgement is sent. Calls must come in the order of `at`.
    pub(crate) fn is_down_for_ack(&mut self, at: Time) -> bool {
        self.air.as_mut().is_some_and(|air| air.arrivals.up_again(at).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::{ErrorModel, List};
    use crate::plan::{OutageSchedule, Outages};
    use crate::queue::{MarkThreshold, QueueLimit, QueuePlan, RulePlan};

    fn direction(rate: u64, delay_ms: u64, limit: u32) -> Direction {
        Direction {
            queue: QueuePlan::packets(limit),
            ..Direction::plain(Rate(rate), Span::from_millis(delay_ms))
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
        let arrival =
            |rate, bytes| match link(&direction(rate, 10, 50)).transit(Time::ZERO, bytes, false, &MINUTE) {
                Transit::Arrives { at, .. } => at,
                other @ Transit::Lost { .. } => panic!("{other:?}"),
            };
        assert_eq!(arrival(5_000_000, 1000), Time(11_600_000));
        assert_eq!(arrival(1_000_000, 40), Time(10_320_000));
    }

    /// NV-1.2: ten packets at once into an idle link with room for four.
    #[test]
    fn drop_tail_counts_the_packet_in_service() {
        let mut link = link(&direction(8_000_000, 0, 4));
        let transits: Vec<Transit> =
            (0..10).map(|_| link.transit(Time::ZERO, 1000, false, &MINUTE)).collect();
        let arrivals: Vec<Time> = transits
            .iter()
            .filter_map(|transit| match transit {
                Transit::Arrives { at, .. } => Some(*at),
                Transit::Lost { .. } => None,
            })
            .collect();
        assert_eq!(arrivals, [millis(1), millis(2), millis(3), millis(4)]);
        assert_eq!(link.drops()[Cause::QueueOverflow as usize], 6);
        assert_eq!(link.max_waiting(), 3);
    }

    #[test]
    fn a_limit_of_one_delivers_one() {
        let mut link = link(&direction(8_000_000, 0, 1));
        assert!(matches!(link.transit(Time::ZERO, 1000, false, &MINUTE), Transit::Arrives { .. }));
        assert!(matches!(link.transit(Time(1), 1000, false, &MINUTE), Transit::Lost { .. }));
        assert!(
            matches!(link.transit(millis(1), 1000, false, &MINUTE), Transit::Arrives { .. }),
            "the departure goes first"
        );
    }

    #[test]
    fn a_byte_limit_counts_bytes() {
        let plan = Direction {
            queue: QueuePlan { limit: QueueLimit::Bytes(2500), ..QueuePlan::default() },
            ..direction(8_000_000, 0, 1)
        };
        let mut link = link(&plan);
        let arrived = (0..4)
            .filter(|_| matches!(link.transit(Time::ZERO, 1000, false, &MINUTE), Transit::Arrives { .. }))
            .count();
        assert_eq!(arrived, 2);
        assert!(matches!(link.transit(Time::ZERO, 500, false, &MINUTE), Transit::Arrives { .. }));
    }

    /// Ten packets at once with a threshold of three: the first three find less and pass, those behind are marked, and
    /// what finds the queue full is lost.
    #[test]
    fn packets_that_find_the_threshold_reached_are_marked() {
        for mark in [MarkThreshold::Packets(3), MarkThreshold::Bytes(3000)] {
            let queue = QueuePlan { rule: RulePlan::Threshold(mark), ..QueuePlan::packets(6) };
            let mut link = link(&Direction { queue, ..direction(8_000_000, 0, 6) });
            let mut marked = |now: Time| {
                matches!(link.transit(now, 1000, true, &MINUTE), Transit::Arrives { marked: true, .. })
            };
            let burst: Vec<bool> = (0..8).map(|_| marked(Time::ZERO)).collect();
            assert_eq!(burst, [false, false, false, true, true, true, false, false], "{mark:?}");
            assert!(marked(millis(3)), "three have left, three are there");
            assert!(!marked(millis(5)), "and now two");
            assert!(!marked(millis(100)), "{mark:?}: none is left");
            assert_eq!((link.marks(), link.drops()[Cause::QueueOverflow as usize]), (4, 2));
        }
    }

    /// Packets of 1 ms: what arrives in the instant in which another leaves is counted, also when two do, or when the
    /// last one leaves; an agent that has looked at the queue in between changes nothing.
    #[test]
    fn arrivals_that_meet_a_departure_are_counted() {
        let rule = RulePlan::Threshold(MarkThreshold::Packets(100));
        let plan =
            Direction { queue: QueuePlan { rule, ..QueuePlan::packets(50) }, ..direction(8_000_000, 0, 50) };
        for looks in [false, true] {
            let mut link = link(&plan);
            let mut tied = |at: Time| {
                assert!(!looks || link.has_room(at, 1000, false));
                link.transit(at, 1000, false, &MINUTE);
                link.tied_arrivals()
            };
            let times = [0, 0, 1_000_000, 1_000_000, 1_500_000, 2_000_000, 6_000_000, 6_999_999, 8_000_000];
            let found: Vec<Option<u64>> = times.into_iter().map(|at| tied(Time(at))).collect();
            assert_eq!(found, [0, 0, 1, 2, 2, 3, 4, 4, 5].map(Some), "looks {looks}");
        }
        let mut plain = link(&direction(8_000_000, 0, 50));
        plain.transit(Time::ZERO, 1000, false, &MINUTE);
        assert_eq!(plain.tied_arrivals(), None, "nothing but the limit and the order");
    }

    /// NV-8.7 by Little's law: no packet waits for 1 s, four for 3 s, two for 2 s.
    #[test]
    fn queue_average_is_the_integral_of_the_waiting() {
        let mut link = link(&Direction { rate: Rate(8), ..direction(8, 0, 50) });
        // In service until 4 s; from 1 s on four wait; at 4 s one starts, and a second follows at once.
        link.transit(millis(0), 4, false, &MINUTE);
        for bytes in [0, 2, 0, 0] {
            link.transit(millis(1000), bytes, false, &MINUTE);
        }
        // At 4 s the empty first leaves at once, the second occupies the link until 6 s, two go on waiting.
        assert_eq!(link.stats.waiting, (4 * 3 + 2 * 2) * 1_000_000_000);
        // The five packets found 0, 0, 1, 2 and 3.
        assert_eq!(link.mean_found_waiting(), Some(6.0 / 5.0));
    }

    #[test]
    fn listed_packets_are_lost() {
        let error = ErrorModel::List(List { packets: vec![1, 3] });
        let plan =
            Direction { error, error_position: ErrorPosition::BeforeQueue, ..direction(8_000_000, 0, 50) };
        let mut link = link(&plan);
        let lost: Vec<bool> = (0..5)
            .map(|_| matches!(link.transit(Time::ZERO, 1000, false, &MINUTE), Transit::Lost { .. }))
            .collect();
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
                    matches!(link.transit(millis(index * 10), 1000, false, &MINUTE), Transit::Lost { .. })
                })
                .count();
            assert!((495..=510).contains(&lost), "{policy:?} lost {lost}");
        }
    }

    #[test]
    fn hold_keeps_packets_until_the_link_returns() {
        let mut link = link(&with_outages(OutagePolicy::Hold));
        let Transit::Arrives { start, at, .. } = link.transit(millis(10_500), 1000, false, &MINUTE) else {
            panic!("lost")
        };
        assert_eq!((start, at), (millis(11_000), Time(11_010_800_000)));
        assert!(matches!(link.transit(millis(10_600), 1000, false, &MINUTE), Transit::Arrives { .. }));
    }

    #[test]
    fn drop_flushes_the_queue() {
        let mut link = link(&with_outages(OutagePolicy::Drop));
        // Ten packets of 0.8 ms just before the outage: those that would arrive at 10 s or later are lost.
        let lost = (0..10)
            .filter(|_| matches!(link.transit(millis(9_986), 1000, false, &MINUTE), Transit::Lost { .. }))
            .count();
        assert_eq!(lost, 6);
        let Transit::Arrives { start, .. } = link.transit(millis(11_000), 1000, false, &MINUTE) else {
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
            .map(|_| match link.transit(millis(12_000), 1000, false, &MINUTE) {
                Transit::Arrives { start, .. } => start,
                other @ Transit::Lost { .. } => panic!("{other:?}"),
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
            link.transit(millis(9_996), 1000, false, &MINUTE);
        }
        assert_eq!((link.stats.packets, link.stats.busy), (5, 4_000_000));
        // The first goes at once; four wait for 0.8, 1.6, 2.4 and 3.2 ms, and 35 until the link goes down.
        assert_eq!(link.stats.waiting, 8_000_000 + 35 * 4_000_000);
    }
}
