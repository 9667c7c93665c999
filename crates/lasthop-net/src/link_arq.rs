//! Retransmission by the link itself (ARQ): window, timer, attempts limit, order of delivery.
//!
//! `network.rs` hands an [`ArqMachine`] the packets that reach its link, in the order of the clock, and calls
//! [`Link::run_arq`] at every time it asked for. What a frame suffers is settled when its transmission starts, so the
//! packet is handed on at once, with the time of its arrival; whether the frame must be repeated depends on an
//! acknowledgement that lies ahead, so the machine itself cannot run ahead of the clock (decision 0010).
//!
//! One frame carries one packet. A link acknowledgement takes its own transmission time and the propagation delay back,
//! but no room on the other direction: it travels in a slot or a header of its own. The sender's notice that it has
//! given up on a frame (the receiver's permission to skip it) takes the propagation delay and is not lost.

use std::collections::VecDeque;

use lasthop_core::packet::Cause;
use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use crate::link::Link;
use crate::measure::Window;
use crate::plan::{Arq, DiscardUnit};
use crate::trace::link_column;

/// What a machine counted within the measurement window. Transmissions and losses are in the counters of its link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArqStats {
    /// Transmissions beyond the first of each frame.
    pub retransmissions: u64,
    /// Frames that the sender gave up; those whose acknowledgements alone were lost are not lost.
    pub given_up: u64,
    /// Link acknowledgements lost.
    pub acks_lost: u64,
}

/// A packet as the machine sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Content {
    /// Its slot in the arena.
    pub(crate) packet: u32,
    /// Its flow.
    pub(crate) flow: u32,
    /// Its range of the sender's stream; `None` on the way back to the sender.
    pub(crate) range: Option<(u64, u64)>,
    /// Its size.
    pub(crate) bytes: u32,
    /// When it reached the link.
    pub(crate) since: Time,
}

/// A frame between its first transmission and its acknowledgement or the end of all attempts.
#[derive(Clone, Debug)]
struct Frame {
    number: u64,
    content: Content,
    first_start: Time,
    last_start: Time,
    attempts: u32,
    /// The far end has it.
    received: bool,
    /// When its acknowledgement comes.
    acknowledged: Time,
    /// When the present attempt has failed; never while it waits for the next.
    timer: Time,
}

impl Frame {
    fn due(&self) -> Time {
        self.acknowledged.min(self.timer)
    }
}

/// What the far end knows of a frame that has not been handed on.
#[derive(Clone, Debug)]
enum Slot {
    Missing,
    Here { content: Content, started: Time, at: Time },
    Skipped { at: Time },
}

/// What a step of the machine brought about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    /// A packet leaves the link at `at`; its first transmission began at `started`.
    Leaves { content: Content, started: Time, at: Time },
    /// A packet is lost for good, now.
    Lost { content: Content, started: Time },
    /// The far end hears a corrupt frame.
    Corrupt { flow: u32 },
    /// The link acknowledgement of a frame came.
    Acknowledged { content: Content, attempts: u32, delay: Span },
    /// An attempt failed; the link goes on trying unless it was the `last`.
    Failed { content: Content, attempts: u32, last: bool },
}

/// Which sender is to learn what, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listener {
    /// The flow.
    pub(crate) flow: u32,
    /// Its sender gets signals, so long after the fact.
    pub(crate) signals: Option<Span>,
    /// Its sender gets notices of a bad state (EBSN): the first place of their way.
    pub(crate) notices: Option<u32>,
    /// When the last one was sent.
    pub(crate) last_notice: Option<Time>,
}

/// One direction's state beyond its queue limit, rate, delay and errors, which stay with the [`Link`].
#[derive(Clone, Debug)]
pub struct ArqMachine {
    plan: Arq,
    ack_errors: Stream,
    /// Packets that have not been transmitted yet.
    waiting: VecDeque<Content>,
    waiting_bytes: u64,
    /// Frames in the window, in the order of their numbers.
    frames: VecDeque<Frame>,
    /// Numbers of those that wait to be transmitted again.
    retries: VecDeque<u64>,
    next_number: u64,
    /// The transmitter is free from here on, and what it transmits until then.
    free_at: Time,
    in_service: u32,
    /// The far end, in order: frames from number `expected` on.
    expected: u64,
    slots: VecDeque<Slot>,
    /// When the last packet left the link.
    last_left: Time,
    /// Earliest event that is pending.
    armed: Time,
    /// Those who listen, by flow.
    listeners: Vec<Listener>,
    outcomes: Vec<Outcome>,
    /// Counters of the measurement window.
    pub stats: ArqStats,
}

impl ArqMachine {
    /// The machine of the direction called `name`.
    pub fn new(plan: &Arq, name: &str, seed: u64) -> ArqMachine {
        ArqMachine {
            plan: plan.clone(),
            ack_errors: Stream::new(seed, &format!("link acknowledgements of {name}")),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            frames: VecDeque::new(),
            retries: VecDeque::new(),
            next_number: 0,
            free_at: Time::ZERO,
            in_service: 0,
            expected: 0,
            slots: VecDeque::new(),
            last_left: Time::ZERO,
            armed: Time::MAX,
            listeners: Vec::new(),
            outcomes: Vec::new(),
            stats: ArqStats::default(),
        }
    }

    /// What the scenario asked for.
    pub(crate) fn plan(&self) -> &Arq {
        &self.plan
    }

    /// One more who listens; flows come in ascending order.
    pub(crate) fn add_listener(&mut self, listener: Listener) {
        debug_assert!(self.listeners.last().is_none_or(|last| last.flow < listener.flow));
        self.listeners.push(listener);
    }

    /// The listener of a flow.
    pub(crate) fn listener(&mut self, flow: u32) -> Option<&mut Listener> {
        let index = self.listeners.binary_search_by_key(&flow, |listener| listener.flow).ok()?;
        Some(&mut self.listeners[index])
    }

    /// Whether a failure in this unit is a discarded frame of the sending MAC.
    pub(crate) fn discards(&self, last: bool) -> bool {
        last || self.plan.discards == DiscardUnit::Attempt
    }

    /// Puts the emptied list of outcomes back, so that its room is used again.
    pub(crate) fn give_back(&mut self, outcomes: Vec<Outcome>) {
        self.outcomes = outcomes;
    }

    /// Acknowledgements and timers that are due.
    fn settle(&mut self, now: Time, delay: Span, window: &Window) {
        let mut index = 0;
        while let Some(frame) = self.frames.get_mut(index) {
            if frame.due() > now {
                index += 1;
                continue;
            }
            let (number, content, attempts) = (frame.number, frame.content, frame.attempts);
            if frame.acknowledged <= now {
                let delay = frame.last_start.since(frame.first_start);
                self.outcomes.push(Outcome::Acknowledged { content, attempts, delay });
            } else {
                frame.timer = Time::MAX;
                let last = attempts >= self.plan.attempts;
                self.outcomes.push(Outcome::Failed { content, attempts, last });
                if !last {
                    self.retries.push_back(number);
                    index += 1;
                    continue;
                }
                self.stats.given_up += u64::from(window.contains(now));
                if !frame.received {
                    self.outcomes.push(Outcome::Lost { content, started: frame.first_start });
                    if self.plan.in_order {
                        self.slots[(number - self.expected) as usize] = Slot::Skipped { at: now + delay };
                        self.release();
                    }
                }
            }
            self.frames.remove(index);
            self.retries.retain(|&retry| retry != number);
        }
    }

    /// Hands on, in order, what no longer has a gap before it.
    fn release(&mut self) {
        while let Some(slot) = self.slots.front() {
            match *slot {
                Slot::Missing => return,
                Slot::Here { content, started, at } => {
                    self.last_left = self.last_left.max(at);
                    self.outcomes.push(Outcome::Leaves { content, started, at: self.last_left });
                }
                Slot::Skipped { at } => self.last_left = self.last_left.max(at),
            }
            self.slots.pop_front();
            self.expected += 1;
        }
    }

    /// The frame to transmit next, as its index: one that failed first, else the next packet if the window allows.
    fn next_frame(&mut self, now: Time) -> Option<usize> {
        if let Some(number) = self.retries.pop_front() {
            return self.frames.iter().position(|frame| frame.number == number);
        }
        if self.frames.len() >= self.plan.window as usize {
            return None;
        }
        let content = self.waiting.pop_front()?;
        self.waiting_bytes -= u64::from(content.bytes);
        self.frames.push_back(Frame {
            number: self.next_number,
            content,
            first_start: now,
            last_start: now,
            attempts: 0,
            received: false,
            acknowledged: Time::MAX,
            timer: Time::MAX,
        });
        self.next_number += 1;
        if self.plan.in_order {
            self.slots.push_back(Slot::Missing);
        }
        Some(self.frames.len() - 1)
    }

    /// When something happens next.
    fn next_time(&self) -> Time {
        let due = self.frames.iter().map(Frame::due).min().unwrap_or(Time::MAX);
        let may_start = !self.waiting.is_empty() && self.frames.len() < self.plan.window as usize;
        if may_start || !self.retries.is_empty() { due.min(self.free_at) } else { due }
    }
}

impl Link {
    /// The time after which an attempt at `bytes` has failed.
    pub(crate) fn arq_timeout(&self, bytes: u32) -> Option<Span> {
        Some(self.arq.as_ref()?.plan.timeout_for(self.rate, self.delay, bytes.into()))
    }

    /// Takes a packet of a link that retransmits; `false` if the queue has no room for it. [`Link::run_arq`] must have
    /// been called at this time, and must be called after it.
    pub(crate) fn arq_accept(&mut self, content: Content, window: &Window) -> bool {
        let (packets, bytes) = self.arq_occupancy(content.since);
        let Some(arq) = &mut self.arq else { return false };
        if window.contains(content.since) {
            self.found_waiting += arq.waiting.len() as u64;
        }
        let bytes = bytes + u64::from(content.bytes);
        if packets >= u64::from(self.packet_limit) || bytes > self.byte_limit {
            if window.contains(content.since) {
                self.drops[Cause::QueueOverflow as usize] += 1;
            }
            return false;
        }
        arq.waiting.push_back(content);
        arq.waiting_bytes += u64::from(content.bytes);
        true
    }

    /// Packets and bytes that an arrival at `now` finds, the one in service included.
    pub(crate) fn arq_occupancy(&self, now: Time) -> (u64, u64) {
        let Some(arq) = &self.arq else { return (0, 0) };
        let in_service = if arq.free_at > now { Some(arq.in_service) } else { None };
        let packets = arq.waiting.len() as u64 + u64::from(in_service.is_some());
        (packets, arq.waiting_bytes + u64::from(in_service.unwrap_or(0)))
    }

    /// Remembers the longest queue, after an arrival at `now`.
    pub(crate) fn arq_note_queue(&mut self, now: Time, window: &Window) {
        let waiting = self.arq.as_ref().map_or(0, |arq| arq.waiting.len() as u32);
        if waiting > self.max_waiting && window.contains(now) {
            self.max_waiting = waiting;
        }
    }

    /// Does what is to be done at `now`. Returns what came of it, and when to call again if no earlier call is pending.
    pub(crate) fn run_arq(&mut self, now: Time, window: &Window) -> (Vec<Outcome>, Option<Time>) {
        let Some(mut arq) = self.arq.take() else { return (Vec::new(), None) };
        if arq.armed <= now {
            arq.armed = Time::MAX;
        }
        arq.settle(now, self.delay, window);
        while arq.free_at <= now
            && let Some(index) = arq.next_frame(now)
        {
            self.transmit(&mut arq, index, now, window);
        }
        let next = arq.next_time();
        let wake = (next < arq.armed).then_some(next);
        arq.armed = arq.armed.min(next);
        let outcomes = std::mem::take(&mut arq.outcomes);
        self.arq = Some(arq);
        let lost = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Lost { .. })).count();
        if lost > 0 && window.contains(now) {
            self.drops[Cause::LinkGaveUp as usize] += lost as u64;
        }
        (outcomes, wake)
    }

    /// One attempt at the frame at `index`.
    fn transmit(&mut self, arq: &mut ArqMachine, index: usize, now: Time, window: &Window) {
        let bytes = arq.frames[index].content.bytes;
        let departs = now + self.serialisation(bytes);
        let ack_time = self.serialisation(arq.plan.ack_size);
        let frame = &mut arq.frames[index];
        frame.attempts += 1;
        frame.last_start = now;
        frame.timer = now + arq.plan.timeout_for(self.rate, self.delay, bytes.into());
        let again = frame.attempts > 1;
        arq.stats.retransmissions += u64::from(again && window.contains(now));
        arq.free_at = departs;
        arq.in_service = bytes;
        // A packet waits until its first transmission.
        let since = if again { now } else { frame.content.since };
        self.stats.count(since, now, departs, bytes, window);
        if let Some(bins) = &mut self.bins {
            bins.add_span(since, now, link_column::WAITING);
            bins.add_span(now, departs, link_column::BUSY);
            bins.add(now, link_column::BYTES, u64::from(bytes));
        }
        let arrives = departs + self.delay;
        match self.judge_attempt(departs) {
            Some(Cause::ChannelError) => {
                let flow = arq.frames[index].content.flow;
                if arq.frames[index].content.range.is_some() {
                    arq.outcomes.push(Outcome::Corrupt { flow });
                }
            }
            Some(_) => {}
            None => {
                let sent = arrives + ack_time;
                let ack_lost = arq.ack_errors.uniform() < arq.plan.ack_error_rate;
                let frame = &mut arq.frames[index];
                if self.is_down_for_ack(sent) || ack_lost {
                    arq.stats.acks_lost += u64::from(window.contains(sent));
                } else {
                    frame.acknowledged = frame.acknowledged.min(sent + self.delay);
                }
                // A copy of what is already there is acknowledged again and thrown away.
                if !std::mem::replace(&mut frame.received, true) {
                    let (number, content, started) = (frame.number, frame.content, frame.first_start);
                    if arq.plan.in_order {
                        let slot = &mut arq.slots[(number - arq.expected) as usize];
                        *slot = Slot::Here { content, started, at: arrives };
                        arq.release();
                    } else {
                        arq.last_left = arrives;
                        arq.outcomes.push(Outcome::Leaves { content, started, at: arrives });
                    }
                }
            }
        }
    }

    /// The run is over: counts the time that packets have waited for their first transmission and returns those that
    /// have not left the link, with the start of their first transmission.
    pub(crate) fn close_arq(&mut self, window: &Window) -> Vec<(Content, Option<Time>)> {
        let Some(arq) = &mut self.arq else { return Vec::new() };
        let mut kept = Vec::new();
        for slot in std::mem::take(&mut arq.slots) {
            if let Slot::Here { content, started, .. } = slot {
                kept.push((content, Some(started)));
            }
        }
        for frame in std::mem::take(&mut arq.frames) {
            if !frame.received {
                kept.push((frame.content, Some(frame.first_start)));
            }
        }
        for content in std::mem::take(&mut arq.waiting) {
            self.stats.waiting += window.overlap(content.since, window.to);
            if let Some(bins) = &mut self.bins {
                bins.add_span(content.since, window.to, link_column::WAITING);
            }
            kept.push((content, None));
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{
        Direction, ErrorModel, ErrorPosition, OutagePolicy, OutageSchedule, Outages, QueueLimit, Report,
    };
    use lasthop_core::units::Rate;

    const LONG: Window = Window { from: Time::ZERO, to: Time(u64::MAX / 2) };

    /// 5 Mbit/s over 5 ms; link acknowledgements of 40 B.
    fn direction(window: u32, attempts: u32, in_order: bool, error: ErrorModel) -> Direction {
        Direction {
            rate: Rate(5_000_000),
            delay: Span::from_millis(5),
            mtu: 1500,
            queue: QueueLimit::Unlimited,
            mark: None,
            error,
            outages: Outages { schedule: OutageSchedule::None, policy: OutagePolicy::DropAir, warning: None },
            arq: Some(Arq {
                window,
                attempts,
                timeout: None,
                in_order,
                ack_size: 40,
                ack_error_rate: 0.0,
                report: Report::Local,
                discards: DiscardUnit::Attempt,
                ebsn: None,
            }),
        }
    }

    fn lost(packets: &[u64]) -> ErrorModel {
        ErrorModel::List { packets: packets.to_vec(), position: ErrorPosition::AfterTransmission }
    }

    /// What `count` packets of 1000 B, there at once, meet: departures at the far end, losses, and the time of the last
    /// event.
    struct Seen {
        left: Vec<(u32, Time)>,
        lost: Vec<(u32, Time)>,
        failures: Vec<u32>,
        acknowledged: Vec<(u32, Span)>,
        end: Time,
        link: Link,
    }

    fn send(plan: &Direction, count: u32) -> Seen {
        let link = Link::new(plan, "test", 1, Span::from_secs(1), None);
        let mut seen = Seen {
            left: vec![],
            lost: vec![],
            failures: vec![],
            acknowledged: vec![],
            end: Time::ZERO,
            link,
        };
        for packet in 0..count {
            let content = Content { packet, flow: 0, range: Some((0, 0)), bytes: 1000, since: Time::ZERO };
            seen.link.arq_accept(content, &LONG);
        }
        let mut pending = vec![Time::ZERO];
        while let Some(now) = pending.iter().copied().min() {
            pending.retain(|&time| time != now);
            let (outcomes, wake) = seen.link.run_arq(now, &LONG);
            pending.extend(wake);
            seen.end = now;
            for outcome in outcomes {
                match outcome {
                    Outcome::Leaves { content, at, .. } => seen.left.push((content.packet, at)),
                    Outcome::Lost { content, .. } => seen.lost.push((content.packet, now)),
                    Outcome::Failed { attempts, .. } => seen.failures.push(attempts),
                    Outcome::Acknowledged { attempts, delay, .. } => {
                        seen.acknowledged.push((attempts, delay));
                    }
                    Outcome::Corrupt { .. } => {}
                }
            }
        }
        assert!(seen.left.windows(2).all(|pair| pair[0].1 <= pair[1].1), "ahead of the clock, but in order");
        seen
    }

    fn micros(value: u64) -> Time {
        Time(value * 1000)
    }

    /// NV-5.8: one cycle of stop-and-wait.
    #[test]
    fn stop_and_wait_has_its_cycle() {
        let seen = send(&direction(1, 4, true, ErrorModel::None), 3);
        let at: Vec<Time> = seen.left.iter().map(|left| left.1).collect();
        assert_eq!(at, [micros(6_600), micros(6_600 + 11_664), micros(6_600 + 2 * 11_664)]);
        assert_eq!(seen.end, micros(3 * 11_664));
    }

    /// NV-5.8: mean attempts and residual loss, here at an error rate at which they can be counted too.
    #[test]
    fn attempts_and_residual_loss() {
        let bernoulli = |packet_error_rate| ErrorModel::Bernoulli {
            packet_error_rate,
            position: ErrorPosition::AfterTransmission,
        };
        let count = 200_000;
        let seen = send(&direction(1, 4, true, bernoulli(0.05)), count);
        let mean = seen.link.stats.packets as f64 / f64::from(count);
        assert!((mean - 1.052_625).abs() < 0.002, "{mean}");
        assert!(seen.lost.len() <= 6, "6.25e-6 of 200,000 is 1.25: {}", seen.lost.len());
        let seen = send(&direction(1, 4, true, bernoulli(0.3)), count);
        let residual = seen.lost.len() as f64 / f64::from(count);
        assert!((residual - 0.0081).abs() < 0.0008, "{residual}");
        assert_eq!(seen.link.drops[Cause::LinkGaveUp as usize], seen.lost.len() as u64);
        assert_eq!(seen.left.len() + seen.lost.len(), count as usize);
    }

    /// NV-5.9.
    #[test]
    fn order_of_delivery() {
        let numbers = |in_order| {
            let seen = send(&direction(16, 4, in_order, lost(&[1])), 5);
            let numbers: Vec<u32> = seen.left.iter().map(|left| left.0 + 1).collect();
            (numbers, seen.left)
        };
        assert_eq!(numbers(false).0, [1, 3, 4, 5, 2]);
        let (order, left) = numbers(true);
        assert_eq!(order, [1, 2, 3, 4, 5]);
        assert!(left[1..].windows(2).all(|pair| pair[0].1 == pair[1].1), "2 to 5 together: {left:?}");
        // Frame 2 starts at 1.6 ms; its timer of 12.664 ms lets it start again at 14.264 ms.
        assert_eq!(left[1].1, micros(14_264 + 6_600));
    }

    /// After the last attempt the far end is told to skip the frame.
    #[test]
    fn a_frame_given_up_is_skipped() {
        // Of frames 0, 1, 2 the first is lost, and again when it is sent fourth.
        let seen = send(&direction(16, 2, true, lost(&[0, 3])), 3);
        assert_eq!(seen.lost, [(0, micros(2 * 12_664))]);
        assert_eq!(seen.left, [(1, micros(2 * 12_664 + 5_000)), (2, micros(2 * 12_664 + 5_000))]);
        assert_eq!(seen.failures, [1, 2]);
        assert_eq!(seen.link.arq.unwrap().stats.given_up, 1);
    }

    /// Retransmissions go before new frames, and tell what they cost.
    #[test]
    fn retransmissions_go_first() {
        let seen = send(&direction(9, 4, false, lost(&[0])), 12);
        // The window of nine is full from 12.8 ms on, after which only what has failed is sent.
        let first = seen.left.iter().find(|left| left.0 == 0).unwrap();
        assert_eq!(first.1, micros(12_800 + 1_600 + 6_600 - 1_600), "starts when the transmitter is free");
        let repaired: Vec<Span> =
            seen.acknowledged.iter().filter(|ack| ack.0 == 2).map(|ack| ack.1).collect();
        assert_eq!(repaired, [Span(12_800_000)]);
    }

    /// A frame whose acknowledgements are lost is repeated, delivered once and never lost.
    #[test]
    fn lost_acknowledgements_repeat_what_is_there() {
        let mut plan = direction(4, 3, true, ErrorModel::None);
        plan.arq.as_mut().unwrap().ack_error_rate = 1.0;
        let seen = send(&plan, 10);
        assert_eq!((seen.left.len(), seen.lost.len()), (10, 0));
        assert_eq!(seen.link.stats.packets, 30);
        assert_eq!(
            seen.link.arq.unwrap().stats,
            ArqStats { retransmissions: 20, given_up: 10, acks_lost: 30 }
        );
    }

    /// An impatient timer repeats frames whose acknowledgements are under way.
    #[test]
    fn a_short_timeout_wastes_transmissions() {
        let mut plan = direction(1, 4, true, ErrorModel::None);
        plan.arq.as_mut().unwrap().timeout = Some(Span::from_millis(8));
        let seen = send(&plan, 5);
        assert_eq!(seen.left.len(), 5);
        assert_eq!(seen.link.stats.packets, 10);
    }

    /// An attempt during an outage is lost, one after it is not.
    #[test]
    fn attempts_bridge_an_outage() {
        let mut plan = direction(16, 10, true, ErrorModel::None);
        plan.outages.schedule = OutageSchedule::Listed(vec![(Time::ZERO, Span::from_millis(30))]);
        let seen = send(&plan, 3);
        assert_eq!((seen.left.len(), seen.lost.len()), (3, 0));
        // The third round starts at 25.328, 26.928 and 28.528 ms; only the last of it ends after 30 ms.
        assert_eq!(seen.failures, [1, 1, 1, 2, 2, 2, 3, 3]);
    }

    /// The limit counts what waits and what is being transmitted, not what waits for its acknowledgement.
    #[test]
    fn the_queue_limit_holds() {
        let mut plan = direction(2, 4, true, ErrorModel::None);
        plan.queue = QueueLimit::Packets(3);
        let mut link = Link::new(&plan, "test", 1, Span::from_secs(1), None);
        let mut offer = |packet, now: Time| {
            for earlier in [1_600, 3_200].map(micros).into_iter().filter(|&time| time <= now) {
                link.run_arq(earlier, &LONG);
            }
            let content = Content { packet, flow: 0, range: None, bytes: 1000, since: now };
            let accepted = link.arq_accept(content, &LONG);
            link.run_arq(now, &LONG);
            accepted
        };
        assert_eq!((0..5).map(|packet| offer(packet, Time::ZERO)).filter(|&taken| taken).count(), 3);
        // At 3.2 ms both of the window have been transmitted, and one packet waits for the window to open.
        assert!(offer(5, micros(3_200)) && offer(6, micros(3_200)));
        assert!(!offer(7, micros(3_200)));
        assert_eq!(link.drops[Cause::QueueOverflow as usize], 3);
    }
}
