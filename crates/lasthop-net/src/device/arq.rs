//! Retransmission by the link itself (ARQ): window, timer, attempts limit, order of delivery.
//!
//! *What it does.* The near end of the link numbers frames, keeps unacknowledged ones, and retransmits those that are
//! not acknowledged in time, ahead of new frames. After `attempts` transmissions it gives a frame up. The far end
//! delivers packets in order, or as they arrive.
//!
//! With `hybrid` it is type II: a frame is sent in pieces, each of which the error model loses on its own; a
//! retransmission consists of a few pieces of parity, the far end keeps all pieces that have arrived, and any set of as
//! many pieces as the frame has rebuilds it (a maximum distance separable code, as for all FEC here).
//!
//! *Reacts to* losses of frames and of link acknowledgements; it looks at no header.
//!
//! *Stands* in place of the head of its link, and uses the link's transmitter and channel. The fate of a frame is
//! decided when its transmission starts, so the packet is forwarded at once, with the time of its arrival; whether the
//! frame must be retransmitted depends on a later acknowledgement, so the device itself follows the clock.
//!
//! *Differs from its paper:* one frame carries one packet. A link acknowledgement takes its own transmission time and
//! the propagation delay back, but no room on the other direction: it travels in a slot or a header of its own. The
//! sender's notice that it has given up on a frame (the receiver's permission to skip it) takes the propagation delay
//! and is not lost.
//!
//! *Validation:* NV-5.8 and NV-5.9 by hand; type II against its closed form, the chance that fewer than `k` of
//! `k + (m - 1) r` pieces come (`laws.hybrid_loss`); in simulation over errors, outages and orders (`tests/arq.rs`).
//!
//! *Limitations:* in order, a retransmission delays everything after it (head-of-line blocking), which senders see as a
//! jump of the RTT; out of order, it looks like reordering to them. An outage never stops it from trying. IEEE 802.11
//! has its own (`cell`).
//!
//! *Cost:* no additional memory per flow: packets that wait for a retransmission would otherwise be in the queue (a
//! thousand Reno flows over 500 Mbit/s that lose 2 %, with it and without).
//!
//! *References:* RFC 3366; Lin and Yu (IEEE Trans. Commun. 1982) for type II; Paul et al. (Wireless Networks 1995).

use std::collections::VecDeque;

use lasthop_cc::Signal;
use lasthop_core::packet::{Cause, Kind, NONE, Note, Packet, flag};
use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use super::queued::{join, lose_shed};
use super::{Crossing, Cx, Effect, Element, Parcel};
use crate::measure::Window;
use crate::plan::{Arq, Direction, DiscardUnit, ErrorPosition, Hybrid};
use crate::queue::{Arrival, Found, KnownFlows, Served, Shed, Verdict, Waiting};
use crate::routing::DirectionId;

/// Size of a notice of a bad state: IP and ICMP headers and what is quoted of the packet (Bakshi et al. 1997).
pub(crate) const NOTICE_BYTES: u16 = 56;

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
struct Content {
    parcel: Parcel,
    /// Its range of the sender's stream; `None` on the reverse path to the sender.
    range: Option<(u64, u64)>,
}

/// A frame between its first transmission and its acknowledgement or the end of all attempts.
#[derive(Clone, Debug)]
struct Frame {
    number: u64,
    content: Content,
    first_start: Time,
    last_start: Time,
    attempts: u32,
    /// Pieces of it that the far end has; without parity it is one piece.
    pieces: u32,
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

/// What the far end stores about a frame that has not been handed on.
#[derive(Clone, Debug)]
enum Slot {
    Missing,
    Here { parcel: Parcel, started: Time, at: Time },
    Skipped { at: Time },
}

/// Which sender is to learn what, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listener {
    /// The flow.
    pub(crate) flow: u32,
    /// Its sender gets signals, this time after the event.
    pub(crate) signals: Option<Span>,
    /// Its sender gets notices of a bad state (EBSN).
    pub(crate) notices: bool,
    /// When the last one was sent.
    pub(crate) last_notice: Option<Time>,
}

/// One direction's state beyond its limit, rate, delay and errors, which stay with its link.
#[derive(Clone, Debug)]
pub struct ArqMachine {
    plan: Arq,
    direction: DirectionId,
    ack_errors: Stream,
    /// Packets that have not been transmitted yet.
    waiting: Waiting,
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
    /// Those who listen, by flow.
    listeners: Vec<Listener>,
    /// What the queue has thrown away just now.
    shed: Vec<Shed>,
    /// Counters of the measurement window.
    pub stats: ArqStats,
}

impl ArqMachine {
    /// The machine of a direction called `name`.
    pub(crate) fn new(
        plan: &Arq,
        queue: &Direction,
        direction: DirectionId,
        name: &str,
        seed: u64,
    ) -> ArqMachine {
        ArqMachine {
            plan: plan.clone(),
            direction,
            ack_errors: Stream::new(seed, &format!("link acknowledgements of {name}")),
            waiting: Waiting::new(&queue.queue.discipline, name, seed),
            frames: VecDeque::new(),
            retries: VecDeque::new(),
            next_number: 0,
            free_at: Time::ZERO,
            in_service: 0,
            expected: 0,
            slots: VecDeque::new(),
            last_left: Time::ZERO,
            listeners: Vec::new(),
            shed: Vec::new(),
            stats: ArqStats::default(),
        }
    }

    /// See [`Waiting::know_flows`].
    pub(crate) fn know_flows(&mut self, known: &KnownFlows) {
        self.waiting.know_flows(known);
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

    fn crossing(&self, started: Option<Time>) -> Crossing {
        Crossing { direction: self.direction, started }
    }

    /// Acknowledgements and timers that are due.
    fn settle(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now;
        let mut index = 0;
        while let Some(frame) = self.frames.get_mut(index) {
            if frame.due() > now {
                index += 1;
                continue;
            }
            let (number, content, attempts) = (frame.number, frame.content, frame.attempts);
            let (received, first_start, last_start) = (frame.received, frame.first_start, frame.last_start);
            if frame.acknowledged <= now {
                self.report_delivery(content, attempts, last_start.since(first_start), cx);
            } else {
                frame.timer = Time::MAX;
                let last = attempts >= self.plan.attempts;
                self.report_failure(content, attempts, last, cx);
                if !last {
                    self.retries.push_back(number);
                    index += 1;
                    continue;
                }
                self.stats.given_up += u64::from(cx.window.contains(now));
                if !received {
                    self.lose(content.parcel, Some(first_start), Cause::LinkGaveUp, cx);
                    if self.plan.in_order {
                        let at = now + cx.link(self.direction).delay;
                        self.slots[(number - self.expected) as usize] = Slot::Skipped { at };
                        self.release(cx);
                    }
                }
            }
            self.frames.remove(index);
            self.retries.retain(|&retry| retry != number);
        }
    }

    /// A packet ends here.
    fn lose(&self, parcel: Parcel, started: Option<Time>, cause: Cause, cx: &mut Cx<'_>) {
        let (now, window) = (cx.now, cx.window);
        cx.link(self.direction).count_drop(cause, now, &window);
        cx.effects.push(Effect::Drop { parcel, cause, at: now, crossing: Some(self.crossing(started)) });
    }

    /// Hands on, in order, what no longer has a gap before it.
    fn release(&mut self, cx: &mut Cx<'_>) {
        while let Some(slot) = self.slots.front() {
            match *slot {
                Slot::Missing => return,
                Slot::Here { parcel, started, at } => {
                    self.last_left = self.last_left.max(at);
                    self.leave(parcel, started, self.last_left, cx);
                }
                Slot::Skipped { at } => self.last_left = self.last_left.max(at),
            }
            self.slots.pop_front();
            self.expected += 1;
        }
    }

    /// A packet leaves the link at `at`, perhaps ahead of the clock.
    fn leave(&self, parcel: Parcel, started: Time, at: Time, cx: &mut Cx<'_>) {
        let crossing = Some(self.crossing(Some(started)));
        if cx.link(self.direction).corrupts(ErrorPosition::AfterArq, at, parcel.bytes.into()) {
            self.lose(parcel, Some(started), Cause::ChannelError, cx);
        } else {
            cx.effects.push(Effect::Forward { parcel, at, crossing });
        }
    }

    /// The frame to transmit next, as its index: one that failed first, else the next packet if the window allows.
    fn next_frame(&mut self, cx: &mut Cx<'_>) -> Option<usize> {
        if let Some(number) = self.retries.pop_front() {
            return self.frames.iter().position(|frame| frame.number == number);
        }
        if self.frames.len() >= self.plan.window as usize {
            return None;
        }
        let served = self.waiting.pop(cx.now, &mut self.shed);
        lose_shed(&mut self.shed, self.direction, cx);
        let Served { parcel, marked } = served?;
        if marked {
            mark(parcel, self.direction, cx);
        }
        self.frames.push_back(Frame {
            number: self.next_number,
            content: content_of(parcel, cx),
            first_start: cx.now,
            last_start: cx.now,
            attempts: 0,
            pieces: 0,
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
        let may_start = self.waiting.packets() > 0 && self.frames.len() < self.plan.window as usize;
        if may_start || !self.retries.is_empty() { due.min(self.free_at) } else { due }
    }

    /// What an arrival at `now` finds.
    fn found(&self, now: Time) -> Found {
        self.waiting.found((self.free_at > now).then_some(self.in_service), self.free_at)
    }

    /// Does what is to be done now.
    fn run(&mut self, cx: &mut Cx<'_>) {
        self.settle(cx);
        // Before the first transmission the transmitter has been free for ever.
        if self.free_at <= cx.now && self.in_service > 0 {
            cx.link(self.direction).gate.note_departure(self.free_at);
        }
        while self.free_at <= cx.now
            && let Some(index) = self.next_frame(cx)
        {
            self.transmit(index, cx);
        }
        let found = self.found(cx.now);
        cx.link(self.direction).gate.note_held(&found);
        cx.wake(self.next_time());
    }

    /// One attempt at the frame at `index`.
    fn transmit(&mut self, index: usize, cx: &mut Cx<'_>) {
        let (now, window, direction) = (cx.now, cx.window, self.direction);
        let link = cx.link(direction);
        let frame = &mut self.frames[index];
        frame.attempts += 1;
        let (pieces, needed, bytes) =
            pieces_of(self.plan.hybrid, frame.attempts, frame.content.parcel.bytes.into());
        frame.last_start = now;
        frame.timer = now + self.plan.timeout_for(link.rate_at(now), link.delay, bytes.into());
        let again = frame.attempts > 1;
        self.stats.retransmissions += u64::from(again && window.contains(now));
        // A packet waits until its first transmission.
        let since = if again { now } else { frame.content.parcel.since };
        let departs = link.occupy(since, now, bytes, &window);
        self.free_at = departs;
        self.in_service = bytes;
        let arrives = link.arrival(departs);
        let (mut came, mut is_corrupt) = (0, false);
        for piece in 0..pieces {
            let edge = |piece: u32| now + Span(departs.since(now).0 * u64::from(piece) / u64::from(pieces));
            match link.judge_attempt(edge(piece), edge(piece + 1), bytes.div_ceil(pieces)) {
                Some(cause) => is_corrupt |= cause == Cause::ChannelError,
                None => came += 1,
            }
        }
        frame.pieces += came;
        let (hop, is_data) = (frame.content.parcel.hop, frame.content.range.is_some());
        if came > 0 && frame.pieces >= needed {
            self.arrive(index, arrives, cx);
        } else if is_corrupt && is_data {
            cx.effects.push(Effect::Noise { hop, at: arrives });
        }
    }

    /// An attempt at the frame at `index` reaches the far end at `arrives`, which acknowledges it.
    fn arrive(&mut self, index: usize, arrives: Time, cx: &mut Cx<'_>) {
        let window: Window = cx.window;
        let link = cx.link(self.direction);
        let sent = link.finish(arrives, self.plan.ack_size);
        let ack_lost = self.ack_errors.uniform() < self.plan.ack_error_rate;
        let frame = &mut self.frames[index];
        if link.is_down_for_ack(sent) || ack_lost {
            self.stats.acks_lost += u64::from(window.contains(sent));
        } else {
            frame.acknowledged = frame.acknowledged.min(sent + link.delay);
        }
        // A copy of what is already there is acknowledged again and thrown away.
        if std::mem::replace(&mut frame.received, true) {
            return;
        }
        let (number, parcel, started) = (frame.number, frame.content.parcel, frame.first_start);
        if self.plan.in_order {
            let slot = &mut self.slots[(number - self.expected) as usize];
            *slot = Slot::Here { parcel, started, at: arrives };
            self.release(cx);
        } else {
            self.last_left = arrives;
            self.leave(parcel, started, arrives, cx);
        }
    }

    /// Tells a sender that listens that its data has crossed the link.
    fn report_delivery(&mut self, content: Content, attempts: u32, delay: Span, cx: &mut Cx<'_>) {
        let Some((seq, end)) = content.range else { return };
        let flow = content.parcel.flow;
        if let Some(told) = self.listener(flow).and_then(|listener| listener.signals) {
            cx.signal(flow, Signal::LinkAck { seq, end, retransmissions: attempts - 1, delay }, told);
        }
    }

    /// Tells a sender that listens that an attempt failed.
    fn report_failure(&mut self, content: Content, attempts: u32, last: bool, cx: &mut Cx<'_>) {
        let Some((seq, end)) = content.range else { return };
        let flow = content.parcel.flow;
        let (now, gap) = (cx.now, self.plan.ebsn);
        let discards = last || self.plan.discards == DiscardUnit::Attempt;
        let Some(listener) = self.listener(flow) else { return };
        let ready = |gap: Span| listener.last_notice.is_none_or(|last| now.since(last) >= gap);
        let notice = listener.notices && gap.is_some_and(ready);
        if notice {
            listener.last_notice = Some(now);
        }
        if let Some(delay) = listener.signals {
            if discards {
                cx.signal(flow, Signal::MacDiscard { count: 1 }, delay);
            }
            let signal = if last {
                Signal::LinkDrop { seq, end, attempts }
            } else {
                Signal::LinkRetry { seq, end, attempts }
            };
            cx.signal(flow, signal, delay);
        }
        if notice {
            let packet = Packet {
                seq,
                stamp: now,
                bytes: NOTICE_BYTES,
                extra: NONE,
                kind: Kind::BadState,
                note: Note::BACK,
                ..Packet::default()
            };
            cx.send_back(content.parcel, packet, None);
        }
    }
}

/// Marks a packet that leaves its queue.
pub(super) fn mark(parcel: Parcel, direction: DirectionId, cx: &mut Cx<'_>) {
    cx.packets.get_mut(parcel.packet).flags |= flag::CE;
    let (now, window) = (cx.now, cx.window);
    cx.link(direction).gate.count_mark(now, &window);
}

/// Asks the gate of a link for a packet that has arrived; `true` if it may stay. What it may not is dropped.
pub(super) fn admit(parcel: Parcel, found: &Found, direction: DirectionId, cx: &mut Cx<'_>) -> bool {
    let (now, window) = (cx.now, cx.window);
    let link = cx.link(direction);
    let bytes = u32::from(parcel.bytes);
    let refused = if link.corrupts(ErrorPosition::BeforeQueue, now, bytes) {
        Some(Cause::ChannelError)
    } else {
        match link.gate.judge(&Arrival { at: now, bytes, ect: parcel.ecn.can_be_marked() }, found, &window) {
            Verdict::Admit => None,
            Verdict::Mark => {
                cx.packets.get_mut(parcel.packet).flags |= flag::CE;
                None
            }
            Verdict::Refuse(cause) => Some(cause),
        }
    };
    if let Some(cause) = refused {
        cx.link(direction).count_drop(cause, now, &window);
        let crossing = Some(Crossing { direction, started: None });
        cx.effects.push(Effect::Drop { parcel, cause, at: now, crossing });
    }
    refused.is_none()
}

fn content_of(parcel: Parcel, cx: &Cx<'_>) -> Content {
    let packet = cx.packets.get(parcel.packet);
    let ends = u64::from(packet.kind == Kind::Syn) + u64::from(packet.kind == Kind::Fin);
    let range = packet.is_forward().then(|| (packet.seq, packet.seq + u64::from(packet.payload) + ends));
    Content { parcel, range }
}

impl Element for ArqMachine {
    fn receive(&mut self, parcel: Parcel, _port: u32, cx: &mut Cx<'_>) {
        // A departure at this very instant frees its place first.
        self.run(cx);
        if admit(parcel, &self.found(cx.now), self.direction, cx)
            && join(&mut self.waiting, parcel, &mut self.shed, self.direction, cx)
        {
            self.run(cx);
            let (now, window, waiting) = (cx.now, cx.window, self.waiting.packets());
            cx.link(self.direction).gate.note_waiting(waiting, now, &window);
        }
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        self.run(cx);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        for slot in std::mem::take(&mut self.slots) {
            if let Slot::Here { parcel, started, .. } = slot {
                cx.effects.push(Effect::Keep { parcel, crossing: Some(self.crossing(Some(started))) });
            }
        }
        for frame in std::mem::take(&mut self.frames) {
            if !frame.received {
                let crossing = Some(self.crossing(Some(frame.first_start)));
                cx.effects.push(Effect::Keep { parcel: frame.content.parcel, crossing });
            }
        }
        super::queued::keep_waiting(&mut self.waiting, self.direction, cx);
    }

    fn holdings(&self) -> Vec<(&'static str, u64)> {
        vec![("arq_outstanding", self.frames.len() as u64)]
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let ArqStats { retransmissions, given_up, acks_lost } = self.stats;
        vec![
            ("arq_retransmissions", retransmissions),
            ("arq_given_up", given_up),
            ("arq_acks_lost", acks_lost),
        ]
    }

    fn repairs(&self) -> Option<u64> {
        Some(self.stats.retransmissions)
    }

    fn emits_back(&self) -> bool {
        self.plan.ebsn.is_some()
    }
}

/// How many pieces an attempt at a frame of `bytes` has, how many of all rebuild the frame, and the bytes sent.
fn pieces_of(hybrid: Option<Hybrid>, attempt: u32, bytes: u32) -> (u32, u32, u32) {
    match hybrid {
        None => (1, 1, bytes),
        Some(Hybrid { pieces, .. }) if attempt == 1 => (pieces, pieces, bytes),
        Some(Hybrid { pieces, parity }) => (parity, pieces, (bytes * parity).div_ceil(pieces)),
    }
}

#[cfg(test)]
mod tests {
    use lasthop_core::packet::PacketArena;
    use lasthop_core::units::Rate;

    use super::*;
    use crate::link::Link;
    use crate::network::extras::ExtraArena;
    use crate::plan::{Bernoulli, ErrorModel, List, OutageSchedule, QueuePlan, Report};
    use crate::queue::Ecn;

    const LONG: Window = Window { from: Time::ZERO, to: Time(u64::MAX / 2) };

    /// 5 Mbit/s over 5 ms; link acknowledgements of 40 B.
    fn direction(window: u32, attempts: u32, in_order: bool, error: ErrorModel) -> Direction {
        Direction {
            error,
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
                hybrid: None,
            }),
            ..Direction::plain(Rate(5_000_000), Span::from_millis(5))
        }
    }

    /// A machine alone on its link, with what it wants done and when it wants to be called again.
    struct Rig {
        arq: ArqMachine,
        links: Vec<Link>,
        packets: PacketArena,
        pending: Vec<Time>,
    }

    impl Rig {
        fn new(plan: &Direction) -> Rig {
            let link = Link::new(plan, "test", 1, Span::from_secs(1), None);
            let mut arq = ArqMachine::new(plan.arq.as_ref().unwrap(), plan, 0, "test", 1);
            // Flow 0 hears everything at once.
            arq.add_listener(Listener {
                flow: 0,
                signals: Some(Span::ZERO),
                notices: false,
                last_notice: None,
            });
            Rig { arq, links: vec![link], packets: PacketArena::default(), pending: Vec::new() }
        }

        fn act(&mut self, now: Time, act: impl FnOnce(&mut ArqMachine, &mut Cx<'_>)) -> Vec<Effect> {
            let mut effects = Vec::new();
            let mut cx = Cx {
                now,
                window: LONG,
                packets: &mut self.packets,
                extras: &mut ExtraArena::default(),
                links: &mut self.links,
                effects: &mut effects,
                wake: Time::MAX,
            };
            act(&mut self.arq, &mut cx);
            let wake = cx.wake;
            self.pending.extend((wake < Time::MAX).then_some(wake));
            effects
        }

        /// A packet of 1000 B arrives; packets number themselves from 0.
        fn offer(&mut self, now: Time) -> Vec<Effect> {
            let packet = self.packets.insert(Packet { bytes: 1000, ..Packet::default() });
            let parcel = Parcel {
                packet,
                hop: 0,
                flow: 0,
                bytes: 1000,
                ecn: Ecn::Incapable,
                ahead: false,
                since: now,
            };
            self.act(now, |arq, cx| arq.receive(parcel, 0, cx))
        }
    }

    fn lost(packets: &[u64]) -> ErrorModel {
        ErrorModel::List(List { packets: packets.to_vec() })
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
        stats: ArqStats,
    }

    fn send(plan: &Direction, count: u32) -> Seen {
        let mut rig = Rig::new(plan);
        let mut seen = Seen {
            left: vec![],
            lost: vec![],
            failures: vec![],
            acknowledged: vec![],
            end: Time::ZERO,
            link: rig.links[0].clone(),
            stats: ArqStats::default(),
        };
        for _ in 0..count {
            let effects = rig.offer(Time::ZERO);
            seen.note(&effects);
        }
        while let Some(now) = rig.pending.iter().copied().min() {
            rig.pending.retain(|&time| time != now);
            let effects = rig.act(now, Element::on_timer);
            seen.note(&effects);
            seen.end = now;
        }
        seen.link = rig.links.remove(0);
        seen.stats = rig.arq.stats;
        assert!(seen.left.windows(2).all(|pair| pair[0].1 <= pair[1].1), "ahead of the clock, but in order");
        seen
    }

    impl Seen {
        fn note(&mut self, effects: &[Effect]) {
            for effect in effects {
                match *effect {
                    Effect::Forward { parcel, at, .. } => self.left.push((parcel.packet, at)),
                    Effect::Drop { parcel, at, .. } => self.lost.push((parcel.packet, at)),
                    Effect::Signal { signal, .. } => match signal {
                        Signal::LinkRetry { attempts, .. } | Signal::LinkDrop { attempts, .. } => {
                            self.failures.push(attempts);
                        }
                        Signal::LinkAck { retransmissions, delay, .. } => {
                            self.acknowledged.push((retransmissions + 1, delay));
                        }
                        _ => {}
                    },
                    _ => {}
                }
            }
        }
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
        let bernoulli = |packet_error_rate| ErrorModel::Bernoulli(Bernoulli { packet_error_rate });
        let count = 200_000;
        let seen = send(&direction(1, 4, true, bernoulli(0.05)), count);
        let mean = seen.link.stats.packets as f64 / f64::from(count);
        assert!((mean - 1.052_625).abs() < 0.002, "{mean}");
        assert!(seen.lost.len() <= 6, "6.25e-6 of 200,000 is 1.25: {}", seen.lost.len());
        let seen = send(&direction(1, 4, true, bernoulli(0.3)), count);
        let residual = seen.lost.len() as f64 / f64::from(count);
        assert!((residual - 0.0081).abs() < 0.0008, "{residual}");
        assert_eq!(seen.link.drops()[Cause::LinkGaveUp as usize], seen.lost.len() as u64);
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
        assert_eq!(seen.stats.given_up, 1);
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
        assert_eq!(seen.stats, ArqStats { retransmissions: 20, given_up: 10, acks_lost: 30 });
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
        plan.queue = QueuePlan::packets(3);
        let mut rig = Rig::new(&plan);
        let mut offer = |now: Time| {
            for earlier in [1_600, 3_200].map(micros).into_iter().filter(|&time| time <= now) {
                rig.act(earlier, Element::on_timer);
            }
            let effects = rig.offer(now);
            (!effects.iter().any(|effect| matches!(effect, Effect::Drop { .. })), rig.links[0].drops())
        };
        assert_eq!((0..5).map(|_| offer(Time::ZERO)).filter(|&(taken, _)| taken).count(), 3);
        // At 3.2 ms both of the window have been transmitted, and one packet waits for the window to open.
        assert!(offer(micros(3_200)).0 && offer(micros(3_200)).0);
        let (taken, drops) = offer(micros(3_200));
        assert!(!taken);
        assert_eq!(drops[Cause::QueueOverflow as usize], 3);
    }

    /// An error model behind the retransmissions takes what the link delivered, and no device repeats it.
    #[test]
    fn errors_behind_the_retransmissions_are_final() {
        let mut plan = direction(4, 3, true, lost(&[1, 4]));
        plan.error_position = ErrorPosition::AfterArq;
        let seen = send(&plan, 6);
        assert_eq!(seen.link.stats.packets, 6, "each was sent once");
        let left: Vec<u32> = seen.left.iter().map(|left| left.0).collect();
        assert_eq!(left, [0, 2, 3, 5]);
        assert_eq!(seen.link.drops()[Cause::ChannelError as usize], 2);
    }
}
