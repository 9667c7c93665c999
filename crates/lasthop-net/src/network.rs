//! Packets on their way: paths, channels, receivers, and the walk of a packet from one place to the next.
//!
//! A link that is fed by a single upstream sees its packets in order whenever they are computed, so it is
//! evaluated as soon as the upstream has decided when a packet arrives. Receivers are fed by one path, so
//! they too are evaluated ahead of the clock, and their ACKs start on the way back at once. Only two things
//! must wait for the clock, in the calendar: a packet that arrives at a link which others feed as well, and
//! one that arrives at a sender. A data packet and its ACK over a dumbbell cross six links with three waits.

use std::collections::HashMap;

use lasthop_cc::{LossKind, Signal};
use lasthop_core::calendar::Calendar;
use lasthop_core::event::{Event, EventQueue, Target};
use lasthop_core::fingerprint::Fingerprint;
use lasthop_core::packet::{Cause, Kind, Ledger, NONE, Packet, PacketArena, flag};
use lasthop_core::time::{Span, Time};

use crate::handoff::HostEvent;
use crate::link::{Link, Transit};
use crate::link_arq::{Content, Listener, Outcome};
use crate::measure::{FlowStats, Window};
use crate::plan::Report;
use crate::routing::{DirectionId, opposite};
use crate::trace::HopRecord;
use crate::transport::extra::Extra;
use crate::transport::rate::receiver::RateReceiver;
use crate::transport::tcp::mobility::Mobility;
use crate::transport::tcp::receiver::TcpReceiver;
use crate::transport::udp;

/// Size of a notice of a bad state: IP and ICMP headers and what is quoted of the packet (Bakshi et al. 1997).
const NOTICE_BYTES: u16 = 56;

/// Kinds of events beside the arrivals of packets.
pub(crate) mod event_kind {
    /// A sender's timer.
    pub(crate) const SENDER: u32 = 1;
    /// A receiver's timer.
    pub(crate) const RECEIVER: u32 = 2;
    /// An application's next write.
    pub(crate) const TRAFFIC: u32 = 3;
    /// An application stops.
    pub(crate) const STOP: u32 = 4;
    /// A sample of the time series.
    pub(crate) const SAMPLE: u32 = 5;
    /// A cross-layer signal reaches a sender.
    pub(crate) const SIGNAL: u32 = 6;
    /// A link with retransmission has something to do.
    pub(crate) const LINK: u32 = 7;
}

/// What stands at a place of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// One direction of a link.
    Link(DirectionId),
    /// The receiver of the flow.
    Receiver,
    /// The sender of the flow.
    Sender,
}

/// A place on the path of a flow, in 8 bytes. Paths lie in one table; the next place is the next entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hop {
    pub(crate) flow: u32,
    /// The direction of a link, or one of the two constants below, with the top bit for `waits`.
    place: u32,
}

impl Hop {
    const WAITS: u32 = 1 << 31;
    const RECEIVER: u32 = Self::WAITS - 1;
    const SENDER: u32 = Self::WAITS - 2;

    /// A place; `waits` if a packet waits for the clock before it meets it.
    fn new(flow: u32, place: Place, waits: bool) -> Hop {
        let place = match place {
            Place::Link(direction) => direction,
            Place::Receiver => Self::RECEIVER,
            Place::Sender => Self::SENDER,
        };
        Hop { flow, place: if waits { place | Self::WAITS } else { place } }
    }

    #[inline]
    pub(crate) fn place(self) -> Place {
        match self.place & !Self::WAITS {
            Self::RECEIVER => Place::Receiver,
            Self::SENDER => Place::Sender,
            direction => Place::Link(direction),
        }
    }

    #[inline]
    fn waits(self) -> bool {
        self.place & Self::WAITS != 0
    }
}

/// What happens next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Next {
    /// A packet reaches the place that it waited for.
    Arrival(Event),
    /// Anything else.
    Timer(Event),
}

/// The receiving end of a flow.
#[derive(Clone, Debug)]
pub(crate) enum Receiver {
    Tcp(Box<TcpReceiver>),
    Udp,
    Rate(Box<RateReceiver>),
}

impl Receiver {
    /// The answer that is due at or before `now`, and when it was due.
    fn overdue(&mut self, now: Time) -> Option<(Kind, Time)> {
        match self {
            Receiver::Tcp(receiver) => receiver.overdue(now),
            Receiver::Rate(receiver) => receiver.overdue(now),
            Receiver::Udp => None,
        }
    }

    /// When the next answer is due, and the earliest timer event that is pending.
    fn timer(&mut self) -> (Option<Time>, Option<&mut Time>) {
        match self {
            Receiver::Tcp(receiver) => (receiver.due(), Some(&mut receiver.armed)),
            Receiver::Rate(receiver) => (receiver.due(), Some(&mut receiver.armed)),
            Receiver::Udp => (None, None),
        }
    }
}

/// What packets on their way carry beyond their headers.
#[derive(Clone, Debug, Default)]
struct ExtraArena {
    extras: Vec<Extra>,
    free: Vec<u32>,
}

impl ExtraArena {
    fn insert(&mut self, extra: Extra) -> u32 {
        if let Some(index) = self.free.pop() {
            self.extras[index as usize] = extra;
            return index;
        }
        self.extras.push(extra);
        (self.extras.len() - 1) as u32
    }

    fn get(&self, index: u32) -> Option<&Extra> {
        self.extras.get(index as usize)
    }

    fn remove(&mut self, index: u32) {
        if index != NONE {
            self.free.push(index);
        }
    }
}

/// What the last loss of a segment was, by the first byte of the segment.
type Truths = HashMap<u64, LossKind>;

/// Everything that packets meet between two senders' decisions.
#[derive(Clone, Debug)]
pub struct Network {
    /// Directions of links: forward of link 0, reverse of link 0, forward of link 1, ...
    pub links: Vec<Link>,
    pub(crate) hops: Vec<Hop>,
    packets: PacketArena,
    extras: ExtraArena,
    /// Signals on their way to senders, by the index of their event.
    signals: Vec<(u32, Signal)>,
    free_signals: Vec<u32>,
    /// What the last loss of each data segment was, for the flows whose senders judge losses.
    truths: Vec<Option<Truths>>,
    /// Arrivals of packets.
    calendar: Calendar,
    /// Everything else that is to happen.
    timers: EventQueue,
    /// Insertion number of the last event, of either kind.
    order: u64,
    pub(crate) receivers: Vec<Receiver>,
    /// First place of the way back of each flow.
    return_paths: Vec<u32>,
    /// What receivers and links counted per flow.
    pub flows: Vec<FlowStats>,
    /// Where every packet went.
    pub ledger: Ledger,
    /// Hash of everything that happened on links.
    pub fingerprint: Fingerprint,
    /// Packets times links.
    pub packet_hops: u64,
    pub(crate) window: Window,
    end: Time,
    /// One record per packet and link, if a trace is recorded.
    pub trace: Option<Vec<HopRecord>>,
}

/// Who hands packets to a place: an upstream link, or the sender or receiver of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Feeder {
    Link(DirectionId),
    Sender(u32),
    Receiver(u32),
    /// The near end of a link with retransmission, which sends notices to senders.
    Station(DirectionId),
}

impl Network {
    /// A network of these links; `paths[flow]` lists the directions from the sender to the receiver, the way back is
    /// the same reversed. Returns it with the first place of each flow's forward path.
    pub(crate) fn new(
        links: Vec<Link>,
        paths: &[Vec<DirectionId>],
        receivers: Vec<Receiver>,
        flows: Vec<FlowStats>,
        window: Window,
    ) -> (Network, Vec<u32>) {
        let mut network = Network {
            links,
            hops: Vec::new(),
            packets: PacketArena::default(),
            extras: ExtraArena::default(),
            signals: Vec::new(),
            free_signals: Vec::new(),
            truths: vec![None; paths.len()],
            calendar: Calendar::default(),
            timers: EventQueue::default(),
            order: 0,
            receivers,
            return_paths: Vec::new(),
            flows,
            ledger: Ledger::default(),
            fingerprint: Fingerprint::default(),
            packet_hops: 0,
            window,
            end: window.to,
            trace: None,
        };
        let shared = network.links_with_several_feeders(paths);
        let mut forward_paths = Vec::with_capacity(paths.len());
        for (path, flow) in paths.iter().zip(0u32..) {
            forward_paths.push(network.hops.len() as u32);
            // A sender acts at the current time, so its own first link has nothing to wait for.
            for (&direction, position) in path.iter().zip(0..) {
                let waits = position > 0 && network.waits_before(direction, &shared);
                network.hops.push(Hop::new(flow, Place::Link(direction), waits));
            }
            network.hops.push(Hop::new(flow, Place::Receiver, false));
            network.return_paths.push(network.hops.len() as u32);
            for direction in path.iter().rev().map(|&direction| opposite(direction)) {
                let waits = network.waits_before(direction, &shared);
                network.hops.push(Hop::new(flow, Place::Link(direction), waits));
            }
            network.hops.push(Hop::new(flow, Place::Sender, true));
        }
        (network, forward_paths)
    }

    /// Whether packets wait for the clock before a link: one that others feed as well, or one that retransmits.
    fn waits_before(&self, direction: DirectionId, shared: &[bool]) -> bool {
        shared[direction as usize] || self.links[direction as usize].arq.is_some()
    }

    /// For each direction whether packets reach it from more than one side.
    fn links_with_several_feeders(&self, paths: &[Vec<DirectionId>]) -> Vec<bool> {
        let mut feeders: Vec<Option<Feeder>> = vec![None; self.links.len()];
        let mut shared = vec![false; self.links.len()];
        let mut note = |direction: DirectionId, feeder: Feeder| {
            let known = feeders[direction as usize].get_or_insert(feeder);
            shared[direction as usize] |= *known != feeder;
        };
        for (path, flow) in paths.iter().zip(0u32..) {
            let mut feeder = Feeder::Sender(flow);
            for &direction in path {
                note(direction, feeder);
                feeder = Feeder::Link(direction);
            }
            feeder = Feeder::Receiver(flow);
            for direction in path.iter().rev().map(|&direction| opposite(direction)) {
                note(direction, feeder);
                feeder = Feeder::Link(direction);
            }
            for pair in path.windows(2) {
                let arq = self.links[pair[1] as usize].arq.as_ref();
                if arq.is_some_and(|arq| arq.plan().ebsn.is_some()) {
                    note(opposite(pair[0]), Feeder::Station(pair[1]));
                }
            }
        }
        shared
    }

    /// Schedules something other than an arrival, after everything that is already scheduled for `time`.
    pub(crate) fn schedule(&mut self, time: Time, target: Target) {
        self.order += 1;
        self.timers.push(Event::new(time, self.order, target));
    }

    /// What happens next.
    #[inline]
    pub(crate) fn next_event(&mut self) -> Option<Next> {
        let timer = self.timers.peek();
        match (self.calendar.peek(&mut self.packets), timer) {
            (Some(arrival), Some(timer)) if timer < arrival => Some(Next::Timer(timer)),
            (Some(arrival), _) => Some(Next::Arrival(arrival)),
            (None, timer) => timer.map(Next::Timer),
        }
    }

    /// Takes the timer that happens next off the list.
    pub(crate) fn take_timer(&mut self) {
        self.timers.pop();
    }

    /// Takes the arrival that happens next off the calendar and returns the packet and the place it has reached.
    #[inline]
    pub(crate) fn take_arrival(&mut self) -> Option<(u32, Hop)> {
        let index = self.calendar.pop()?;
        Some((index, self.hops[self.packets.get(index).hop as usize]))
    }

    /// A sender hands a packet to the first place of its path.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "see `PacketArena::insert`")]
    pub(crate) fn launch(&mut self, packet: Packet, first: u32, now: Time) {
        let id = self.ledger.created as u32;
        self.ledger.created += 1;
        let index = self.packets.insert(Packet { id, hop: first, ..packet });
        self.walk(index, now);
    }

    /// Moves the packet at `index` on from its next place, where it arrives at `at`, as far as it gets
    /// without waiting for the clock, and the receiver's answer likewise. A packet stays in its slot all the
    /// way.
    #[inline]
    pub(crate) fn walk(&mut self, mut index: u32, mut at: Time) {
        let mut next = self.packets.get(index).hop;
        let mut bytes = u32::from(self.packets.get(index).bytes);
        loop {
            let hop = self.hops[next as usize];
            match hop.place() {
                Place::Link(direction) => {
                    self.packet_hops += 1;
                    if let Some(arrival) = self.links[direction as usize].pass(at, bytes, &self.window) {
                        self.fingerprint.add(arrival.0, u64::from(direction) << 2);
                        at = arrival;
                    } else {
                        let Some(arrival) = self.cross(direction, hop.flow, index, bytes, at) else { return };
                        at = arrival;
                    }
                }
                Place::Receiver => {
                    let Some(answer) = self.deliver(hop.flow, index, at) else { return };
                    index = answer;
                    bytes = u32::from(self.packets.get(index).bytes);
                }
                Place::Sender => unreachable!("a packet waits before it meets a sender"),
            }
            if at > self.end {
                self.ledger.in_flight += 1;
                self.discard(index);
                return;
            }
            next += 1;
            if self.hops[next as usize].waits() {
                self.wait(index, next, at);
                return;
            }
        }
    }

    /// Sends a packet over a link that may be busy or worse; returns its arrival at the far end, or `None` if
    /// it is lost.
    fn cross(&mut self, direction: DirectionId, flow: u32, index: u32, bytes: u32, at: Time) -> Option<Time> {
        let link = &mut self.links[direction as usize];
        let transit = link.transit(at, bytes, &self.window);
        if link.marks() && self.packets.get(index).has(flag::ECT) && link.mark(at, transit, &self.window) {
            self.packets.get_mut(index).flags |= flag::CE;
        }
        if self.trace.is_some() {
            self.record(direction, flow, index, at, transit);
        }
        match transit {
            Transit::Arrives { at, .. } => {
                self.fingerprint.add(at.0, u64::from(direction) << 2);
                Some(at)
            }
            Transit::Lost { cause, at: lost_at, start } => {
                self.fingerprint.add(at.0, u64::from(direction) << 2 | (cause as u64 + 1));
                if lost_at > self.end {
                    // Its fate lies beyond the run.
                    self.ledger.in_flight += 1;
                    self.discard(index);
                } else {
                    if cause == Cause::ChannelError && start.is_some() {
                        self.hear_corrupt(flow, index, direction);
                    }
                    self.lose(flow, index, lost_at, cause);
                }
                None
            }
            Transit::Kept => {
                self.enter_arq(direction, flow, index, bytes, at);
                None
            }
        }
    }

    #[cold]
    fn lose(&mut self, flow: u32, index: u32, at: Time, cause: Cause) {
        self.ledger.dropped[cause as usize] += 1;
        let packet = self.packets.get(index);
        let forward = packet.is_forward();
        if forward && let Some(realtime) = self.flows[flow as usize].realtime_mut() {
            realtime.lose(packet);
        }
        let is_notice = packet.kind == Kind::BadState;
        // Probes carry no data that could be lost.
        if forward
            && packet.kind != Kind::Probe
            && let Some(truths) = &mut self.truths[flow as usize]
        {
            let kind = match cause {
                Cause::QueueOverflow => LossKind::Congestion,
                Cause::ChannelError | Cause::Outage | Cause::LinkGaveUp => LossKind::Wireless,
            };
            truths.insert(packet.seq, kind);
        }
        self.discard(index);
        if self.window.contains(at) && !is_notice {
            let stats = &mut self.flows[flow as usize];
            let lost = if forward { &mut stats.lost } else { &mut stats.acks_lost };
            lost[cause as usize] += 1;
        }
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Links that retransmit

    /// A packet has reached a link that retransmits.
    #[cold]
    fn enter_arq(&mut self, direction: DirectionId, flow: u32, index: u32, bytes: u32, now: Time) {
        // A departure at this very instant frees its place first.
        self.run_arq(direction, now);
        let packet = self.packets.get(index);
        let ends = u64::from(packet.kind == Kind::Syn) + u64::from(packet.kind == Kind::Fin);
        let range = packet.is_forward().then(|| (packet.seq, packet.seq + u64::from(packet.payload) + ends));
        let content = Content { packet: index, flow, range, bytes, since: now };
        let window = self.window;
        let (packets, queued) = self.links[direction as usize].arq_occupancy(now);
        if self.links[direction as usize].arq_accept(content, &window) {
            let link = &mut self.links[direction as usize];
            let packet = self.packets.get_mut(index);
            if link.marks() && packet.has(flag::ECT) && link.mark_behind(packets, queued, now, &window) {
                packet.flags |= flag::CE;
            }
            self.run_arq(direction, now);
            self.links[direction as usize].arq_note_queue(now, &window);
        } else {
            self.end_on_arq(direction, content, None, Cause::QueueOverflow, now);
        }
    }

    /// Lets a link that retransmits do what is to be done now.
    pub(crate) fn run_arq(&mut self, direction: DirectionId, now: Time) {
        let window = self.window;
        let (mut outcomes, wake) = self.links[direction as usize].run_arq(now, &window);
        if let Some(wake) = wake {
            self.schedule(wake, Target::new(event_kind::LINK, direction));
        }
        for outcome in outcomes.drain(..) {
            match outcome {
                Outcome::Leaves { content, started, at } => self.leave_arq(direction, content, started, at),
                Outcome::Lost { content, started } => {
                    self.end_on_arq(direction, content, Some(started), Cause::LinkGaveUp, now);
                }
                Outcome::Corrupt { flow } => self.discard_at_receiver(flow, direction),
                Outcome::Acknowledged { content, attempts, delay } => {
                    let Some((seq, end)) = content.range else { continue };
                    let retransmissions = attempts - 1;
                    let signal = Signal::LinkAck { seq, end, retransmissions, delay };
                    self.report(direction, content.flow, signal, now);
                }
                Outcome::Failed { content, attempts, last } => {
                    self.report_failure(direction, content, attempts, last, now);
                }
            }
        }
        if let Some(arq) = &mut self.links[direction as usize].arq {
            arq.give_back(outcomes);
        }
    }

    /// A packet leaves a link that retransmits, perhaps ahead of the clock.
    fn leave_arq(&mut self, direction: DirectionId, content: Content, started: Time, at: Time) {
        let index = content.packet;
        if self.trace.is_some() {
            let arrived = (at <= self.end).then_some(at);
            self.push_record(direction, content.flow, index, content.since, (Some(started), arrived, None));
        }
        self.fingerprint.add(at.0, u64::from(direction) << 2);
        if at > self.end {
            self.ledger.in_flight += 1;
            self.discard(index);
            return;
        }
        let next = self.packets.get(index).hop + 1;
        if self.hops[next as usize].waits() {
            self.wait(index, next, at);
        } else {
            self.packets.get_mut(index).hop = next;
            self.walk(index, at);
        }
    }

    /// A packet ends on a link that retransmits.
    fn end_on_arq(
        &mut self,
        direction: DirectionId,
        content: Content,
        started: Option<Time>,
        cause: Cause,
        now: Time,
    ) {
        if self.trace.is_some() {
            self.push_record(
                direction,
                content.flow,
                content.packet,
                content.since,
                (started, None, Some(cause)),
            );
        }
        self.fingerprint.add(now.0, u64::from(direction) << 3 | (cause as u64 + 1));
        self.lose(content.flow, content.packet, now, cause);
    }

    /// Tells a sender that listens what the link did.
    fn report(&mut self, direction: DirectionId, flow: u32, signal: Signal, now: Time) {
        let arq = self.links[direction as usize].arq.as_mut();
        if let Some(delay) = arq.and_then(|arq| arq.listener(flow)).and_then(|listener| listener.signals) {
            self.signal(flow, signal, now + delay);
        }
    }

    /// Tells a sender that listens that an attempt failed.
    fn report_failure(
        &mut self,
        direction: DirectionId,
        content: Content,
        attempts: u32,
        last: bool,
        now: Time,
    ) {
        let Some((seq, end)) = content.range else { return };
        let Some(arq) = &mut self.links[direction as usize].arq else { return };
        let discards = arq.discards(last);
        let gap = arq.plan().ebsn;
        let Some(listener) = arq.listener(content.flow) else { return };
        let ready = |gap: Span| listener.last_notice.is_none_or(|last| now.since(last) >= gap);
        let notice = listener.notices.filter(|_| gap.is_some_and(ready));
        if notice.is_some() {
            listener.last_notice = Some(now);
        }
        if listener.signals.is_some() {
            if discards {
                self.report(direction, content.flow, Signal::MacDiscard { count: 1 }, now);
            }
            let signal = if last {
                Signal::LinkDrop { seq, end, attempts }
            } else {
                Signal::LinkRetry { seq, end, attempts }
            };
            self.report(direction, content.flow, signal, now);
        }
        if let Some(hop) = notice {
            let id = self.ledger.created as u32;
            self.ledger.created += 1;
            let packet = Packet {
                id,
                seq,
                stamp: now,
                bytes: NOTICE_BYTES,
                extra: NONE,
                kind: Kind::BadState,
                flags: flag::BACK,
                ..Packet::default()
            };
            let index = self.packets.insert(packet);
            self.wait(index, hop, now);
        }
    }

    /// A packet was corrupted on a link: the receiver at its far end, if there is one, hears noise.
    #[cold]
    fn hear_corrupt(&mut self, flow: u32, index: u32, direction: DirectionId) {
        if self.packets.get(index).is_forward() {
            self.discard_at_receiver(flow, direction);
        }
    }

    /// The MAC at the far end of a link has thrown a corrupt frame away. A real one cannot know whose it was; the count
    /// goes to the flow that the frame belonged to.
    fn discard_at_receiver(&mut self, flow: u32, direction: DirectionId) {
        if let Receiver::Tcp(receiver) = &mut self.receivers[flow as usize] {
            // The place before the way back is the receiver, and before it lies the last link of the path.
            let last = self.return_paths[flow as usize].checked_sub(2);
            let last = last.map(|last| self.hops[last as usize].place());
            if last == Some(Place::Link(direction)) {
                receiver.on_discard(1);
            }
        }
    }

    /// Makes the sender of `flow` listen to the links with retransmission on its path. Flows come in ascending order.
    /// `signals`: its controller asked for them; `notices`: it understands EBSN.
    pub(crate) fn listen(&mut self, flow: u32, path: &[DirectionId], signals: bool, notices: bool) {
        let first_back = self.return_paths[flow as usize];
        // The delay of the way from the near end of each link to the sender, for a message of the size of a notice.
        let mut back = Span::ZERO;
        for (&direction, passed) in path.iter().zip(0u32..) {
            if let Some(arq) = &mut self.links[direction as usize].arq {
                let told = match arq.plan().report {
                    Report::Off => false,
                    Report::Local => passed == 0,
                    Report::Proxy => true,
                };
                let signals = (signals && told).then_some(back);
                let hop = first_back + path.len() as u32 - passed;
                let notices = (notices && arq.plan().ebsn.is_some()).then_some(hop);
                if signals.is_some() || notices.is_some() {
                    arq.add_listener(Listener { flow, signals, notices, last_notice: None });
                }
            }
            let link = &self.links[opposite(direction) as usize];
            back = back + link.delay + link.serialisation(u32::from(NOTICE_BYTES));
        }
    }

    /// Tells the receiver of `flow` what will happen to the link of its host.
    pub(crate) fn watch_link(&mut self, flow: u32, mobility: Mobility, events: Vec<(Time, HostEvent)>) {
        let Receiver::Tcp(receiver) = &mut self.receivers[flow as usize] else { return };
        receiver.watch_link(mobility, events);
        if let Some(due) = receiver.due() {
            receiver.armed = due;
            self.schedule(due, Target::new(event_kind::RECEIVER, flow));
        }
    }

    /// The retransmission timeout of the first link of `path` that reports to the sender, for a frame of `bytes`, and
    /// how long the sender waits for the news.
    pub(crate) fn link_timeout(
        &mut self,
        flow: u32,
        path: &[DirectionId],
        bytes: u32,
    ) -> Option<(Span, Span)> {
        path.iter().find_map(|&direction| {
            let link = &mut self.links[direction as usize];
            let delay = link.arq.as_mut()?.listener(flow)?.signals?;
            Some((link.arq_timeout(bytes)?, delay))
        })
    }

    // -----------------------------------------------------------------------------------------------------------------

    /// Frees the slot of a packet and of what hangs off it.
    #[inline]
    fn discard(&mut self, index: u32) {
        let extra = self.packets.get(index).extra;
        if extra != NONE {
            self.extras.remove(extra);
        }
        self.packets.remove(index);
    }

    /// Gives a packet to the receiver of its flow; returns the answer, for the place behind the receiver.
    #[inline]
    fn deliver(&mut self, flow: u32, index: u32, at: Time) -> Option<u32> {
        self.ledger.delivered += 1;
        if let Receiver::Tcp(receiver) = &mut self.receivers[flow as usize]
            && receiver.owes(self.packets.get(index), at)
        {
            self.answer_overdue(flow, at);
        }
        let packet = self.packets.get(index);
        let stats = &mut self.flows[flow as usize];
        let Receiver::Tcp(receiver) = &mut self.receivers[flow as usize] else {
            if let Receiver::Rate(_) = &self.receivers[flow as usize] {
                return self.deliver_paced(flow, index, at);
            }
            udp::receive(packet, at, stats, &self.window);
            self.packets.remove(index);
            return None;
        };
        let answer = receiver.receive(packet, self.extras.get(packet.extra), at, stats, &self.window);
        let wake = receiver.due().filter(|&due| due < receiver.armed);
        if let Some(due) = wake {
            receiver.armed = due;
            self.schedule(due, Target::new(event_kind::RECEIVER, flow));
        }
        self.discard(index);
        answer.map(|kind| self.answer(flow, kind, at))
    }

    /// The same for a rate-based flow.
    fn deliver_paced(&mut self, flow: u32, index: u32, at: Time) -> Option<u32> {
        self.answer_overdue(flow, at);
        let packet = self.packets.get(index);
        let stats = &mut self.flows[flow as usize];
        let Receiver::Rate(receiver) = &mut self.receivers[flow as usize] else { return None };
        let report = receiver.receive(packet, self.extras.get(packet.extra), at, stats, &self.window);
        self.discard(index);
        let answer = report.map(|kind| self.answer(flow, kind, at));
        // Only now: a report moves the time of the next one.
        if let (Some(due), Some(armed)) = self.receivers[flow as usize].timer()
            && due < *armed
        {
            *armed = due;
            self.schedule(due, Target::new(event_kind::RECEIVER, flow));
        }
        answer
    }

    /// Makes the receiver's answer; it stands before the first place of the way back.
    #[inline]
    fn answer(&mut self, flow: u32, kind: Kind, at: Time) -> u32 {
        self.flows[flow as usize].acks_sent += u64::from(self.window.contains(at));
        let id = self.ledger.created as u32;
        self.ledger.created += 1;
        let receiver = match &mut self.receivers[flow as usize] {
            Receiver::Tcp(receiver) => receiver,
            Receiver::Rate(receiver) => {
                let report = receiver.acknowledge(kind, at);
                let extra = self.extras.insert(receiver.extra());
                return self.packets.insert(Packet { id, extra, ..report });
            }
            Receiver::Udp => unreachable!("UDP does not answer"),
        };
        let extra = receiver.extra().map_or(NONE, |extra| self.extras.insert(extra));
        self.packets.insert(Packet { id, extra, ..receiver.acknowledge(kind, at) })
    }

    /// Sends what a receiver has delayed beyond `now`.
    #[cold]
    fn answer_overdue(&mut self, flow: u32, now: Time) {
        while let Some((kind, due)) = self.receivers[flow as usize].overdue(now) {
            let index = self.answer(flow, kind, due);
            let first = self.return_paths[flow as usize];
            if self.hops[first as usize].waits() {
                self.wait(index, first, due);
            } else {
                self.packets.get_mut(index).hop = first;
                self.walk(index, due);
            }
        }
    }

    /// A receiver's timer. It is lazy like a sender's.
    pub(crate) fn on_receiver_timer(&mut self, flow: u32, now: Time) {
        match self.receivers[flow as usize].timer() {
            (_, Some(armed)) if *armed == now => *armed = Time::MAX,
            _ => return,
        }
        self.answer_overdue(flow, now);
        if let (Some(due), Some(armed)) = self.receivers[flow as usize].timer() {
            *armed = due;
            self.schedule(due, Target::new(event_kind::RECEIVER, flow));
        }
    }

    /// Lets a packet wait until `at` for the place `hop`.
    #[inline]
    fn wait(&mut self, index: u32, hop: u32, at: Time) {
        self.order += 1;
        let packet = self.packets.get_mut(index);
        packet.hop = hop;
        packet.at = at;
        packet.order = self.order;
        self.calendar.schedule(&mut self.packets, index);
    }

    /// A packet has reached its sender: takes it and what it carries out of the network.
    #[inline]
    pub(crate) fn receive_at_sender(&mut self, index: u32) -> (Packet, Option<Extra>) {
        self.ledger.delivered += 1;
        let packet = *self.packets.get(index);
        self.packets.remove(index);
        let extra = self.extras.get(packet.extra).copied();
        self.extras.remove(packet.extra);
        (packet, extra)
    }

    /// A sender whose flow has real-time metrics sends a packet.
    pub(crate) fn note_sent(&mut self, flow: u32, packet: &Packet, now: Time) {
        if let Some(realtime) = self.flows[flow as usize].realtime_mut() {
            realtime.send(packet, now);
        }
    }

    /// Stores what a packet carries beyond its header; the index goes into `Packet::extra`.
    pub(crate) fn attach(&mut self, extra: Extra) -> u32 {
        self.extras.insert(extra)
    }

    /// A signal that reaches the sender of `flow` at `at`, not before the present.
    pub(crate) fn signal(&mut self, flow: u32, signal: Signal, at: Time) {
        let index = if let Some(index) = self.free_signals.pop() {
            self.signals[index as usize] = (flow, signal);
            index
        } else {
            self.signals.push((flow, signal));
            (self.signals.len() - 1) as u32
        };
        self.schedule(at, Target::new(event_kind::SIGNAL, index));
    }

    /// The signal of an event and the flow that it is meant for.
    pub(crate) fn take_signal(&mut self, index: usize) -> (u32, Signal) {
        self.free_signals.push(index as u32);
        self.signals[index]
    }

    /// Remembers from now on what the losses of `flow` are.
    pub(crate) fn keep_truths(&mut self, flow: usize) {
        self.truths[flow] = Some(Truths::new());
    }

    /// What the last loss of the segment at `seq` was, if it was lost.
    pub(crate) fn truth(&self, flow: u32, seq: u64) -> Option<LossKind> {
        self.truths[flow as usize].as_ref()?.get(&seq).copied()
    }

    /// Counts what is still waiting when the run ends.
    pub(crate) fn close_ledger(&mut self) {
        self.ledger.in_flight += self.calendar.remaining(&self.packets).len() as u64;
        let window = self.window;
        for direction in 0..self.links.len() as u32 {
            for (content, started) in self.links[direction as usize].close_arq(&window) {
                self.ledger.in_flight += 1;
                if self.trace.is_some() {
                    let Content { packet, flow, since, .. } = content;
                    self.push_record(direction, flow, packet, since, (started, None, None));
                }
            }
        }
    }

    /// Records every packet on every link from now on.
    pub(crate) fn start_trace(&mut self) {
        self.links.iter_mut().for_each(Link::watch);
        self.trace = Some(Vec::new());
    }

    #[cold]
    fn record(&mut self, direction: DirectionId, flow: u32, index: u32, at: Time, transit: Transit) {
        let (transmitted, arrived, lost) = match transit {
            Transit::Arrives { start, at } => {
                ((start <= self.end).then_some(start), (at <= self.end).then_some(at), None)
            }
            Transit::Lost { cause, start, at } => {
                (start.filter(|&start| start <= self.end), None, (at <= self.end).then_some(cause))
            }
            // Its record is made when its fate is known.
            Transit::Kept => return,
        };
        self.push_record(direction, flow, index, at, (transmitted, arrived, lost));
    }

    /// Adds a record: when the packet reached the link, when it was first transmitted, when it left the link at the far
    /// end, why it was lost.
    fn push_record(
        &mut self,
        direction: DirectionId,
        flow: u32,
        index: u32,
        enqueued: Time,
        (transmitted, arrived, lost): (Option<Time>, Option<Time>, Option<Cause>),
    ) {
        let packet = self.packets.get(index);
        let sack = self.extras.get(packet.extra).map_or_else(Default::default, |extra| extra.sack);
        let back = !packet.is_forward();
        let record = HopRecord {
            packet: packet.id,
            flow,
            direction,
            kind: packet.kind,
            flags: packet.flags,
            seq: if back { 0 } else { packet.seq },
            ack: if back { packet.seq } else { 0 },
            payload: packet.payload,
            bytes: packet.bytes,
            stamp: packet.stamp,
            echo: if back { packet.echo } else { Time::ZERO },
            sack,
            enqueued,
            transmitted,
            arrived,
            lost,
        };
        if let Some(trace) = &mut self.trace {
            trace.push(record);
        }
    }
}
