//! Packets on their way: paths, channels, receivers, and the walk of a packet from one place to the next.
//!
//! A link that is fed by a single upstream sees its packets in order whenever they are computed, so it is evaluated as
//! soon as the upstream has decided when a packet arrives. Receivers are fed by one path, so they too are evaluated ahead
//! of the clock, and their ACKs start on the way back at once. Only two things must wait for the clock: a packet
//! that arrives at a link which others feed as well, and one that arrives at a sender. They wait in *channels*, FIFO lists
//! with one pending event each. A data packet and its ACK over a dumbbell cross six links with three events.

use std::collections::HashMap;

use lasthop_core::event::{Event, EventQueue, MAX_INDEX, Target};
use lasthop_core::fingerprint::Fingerprint;
use lasthop_core::packet::{Cause, Ledger, NONE, Packet, PacketArena, flag};
use lasthop_core::time::Time;

use crate::link::{Link, Transit};
use crate::measure::FlowStats;
use crate::routing::{DirectionId, opposite};
use crate::trace::HopRecord;
use crate::transport::tcp::receiver::{SackBlocks, TcpReceiver};
use crate::transport::udp;

/// Kinds of events.
pub(crate) mod event_kind {
    /// The head of a channel arrives.
    pub(crate) const CHANNEL: u32 = 0;
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

/// A place on the path of a flow. Paths lie in one table; the next place is the next entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hop {
    pub(crate) place: Place,
    /// Channel in which a packet waits for the clock before this place, or [`NONE`].
    channel: u32,
    pub(crate) flow: u32,
}

/// Packets that arrive in order at one place from one upstream.
#[derive(Clone, Copy, Debug)]
struct Channel {
    head: u32,
    tail: u32,
}

/// The receiving end of a flow.
#[derive(Clone, Debug)]
pub(crate) enum Receiver {
    Tcp(Box<TcpReceiver>),
    Udp,
}

/// SACK blocks of ACKs on their way.
#[derive(Clone, Debug, Default)]
struct SackArena {
    blocks: Vec<SackBlocks>,
    free: Vec<u32>,
}

impl SackArena {
    fn insert(&mut self, blocks: SackBlocks) -> u32 {
        if let Some(index) = self.free.pop() {
            self.blocks[index as usize] = blocks;
            return index;
        }
        self.blocks.push(blocks);
        (self.blocks.len() - 1) as u32
    }

    fn get(&self, index: u32) -> SackBlocks {
        if index == NONE { SackBlocks::default() } else { self.blocks[index as usize] }
    }

    fn remove(&mut self, index: u32) -> SackBlocks {
        let blocks = self.get(index);
        if index != NONE {
            self.free.push(index);
        }
        blocks
    }
}

/// Everything that packets meet between two senders' decisions.
#[derive(Clone, Debug)]
pub struct Network {
    /// Directions of links: forward of link 0, reverse of link 0, forward of link 1, ...
    pub links: Vec<Link>,
    pub(crate) hops: Vec<Hop>,
    channels: Vec<Channel>,
    packets: PacketArena,
    sacks: SackArena,
    pub(crate) queue: EventQueue,
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
    end: Time,
    /// One record per packet and link, if a trace is recorded.
    pub trace: Option<Vec<HopRecord>>,
}

/// Who hands packets to a place: an upstream link, or the sender or receiver of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Feeder {
    Link(DirectionId),
    Sender(u32),
    Receiver(u32),
}

impl Network {
    /// A network of these links; `paths[flow]` lists the directions from the sender to the receiver, the way back is the
    /// same reversed. Returns it with the first place of each flow's forward path.
    pub(crate) fn new(
        links: Vec<Link>,
        paths: &[Vec<DirectionId>],
        receivers: Vec<Receiver>,
        flows: Vec<FlowStats>,
        end: Time,
    ) -> (Network, Vec<u32>) {
        let mut network = Network {
            links,
            hops: Vec::new(),
            channels: Vec::new(),
            packets: PacketArena::default(),
            sacks: SackArena::default(),
            queue: EventQueue::default(),
            receivers,
            return_paths: Vec::new(),
            flows,
            ledger: Ledger::default(),
            fingerprint: Fingerprint::default(),
            packet_hops: 0,
            end,
            trace: None,
        };
        let shared = network.links_with_several_feeders(paths);
        let mut channels = HashMap::new();
        let mut forward_paths = Vec::with_capacity(paths.len());
        for (path, flow) in paths.iter().zip(0u32..) {
            forward_paths.push(network.hops.len() as u32);
            // A sender acts at the current time, so its own first link needs no channel.
            network.lay_path(path.iter().copied(), Feeder::Sender(flow), flow, &shared, &mut channels);
            network.hops.push(Hop { place: Place::Receiver, channel: NONE, flow });
            network.return_paths.push(network.hops.len() as u32);
            let back = path.iter().rev().map(|&direction| opposite(direction));
            network.lay_path(back, Feeder::Receiver(flow), flow, &shared, &mut channels);
            let channel = network.new_channel();
            network.hops.push(Hop { place: Place::Sender, channel, flow });
        }
        (network, forward_paths)
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
        }
        shared
    }

    fn lay_path(
        &mut self,
        path: impl Iterator<Item = DirectionId>,
        start: Feeder,
        flow: u32,
        shared: &[bool],
        channels: &mut HashMap<(DirectionId, Feeder), u32>,
    ) {
        let mut feeder = start;
        for direction in path {
            let waits = shared[direction as usize] && !matches!(feeder, Feeder::Sender(_));
            let channel = if waits {
                *channels.entry((direction, feeder)).or_insert_with(|| self.new_channel())
            } else {
                NONE
            };
            self.hops.push(Hop { place: Place::Link(direction), channel, flow });
            feeder = Feeder::Link(direction);
        }
    }

    fn new_channel(&mut self) -> u32 {
        self.channels.push(Channel { head: NONE, tail: NONE });
        let index = (self.channels.len() - 1) as u32;
        assert!(index <= MAX_INDEX, "plans with more channels are refused");
        index
    }

    /// A sender hands a packet to the first place of its path.
    #[inline]
    pub(crate) fn launch(&mut self, mut packet: Packet, first: u32, now: Time) {
        packet.id = self.ledger.created as u32;
        packet.hop = first;
        self.ledger.created += 1;
        self.walk(packet, now);
    }

    /// Moves a packet on from `packet.hop`, where it arrives at `at`, as far as it gets without waiting for the clock.
    #[inline]
    pub(crate) fn walk(&mut self, mut packet: Packet, mut at: Time) {
        loop {
            let hop = self.hops[packet.hop as usize];
            match hop.place {
                Place::Link(direction) => {
                    let Some(arrival) = self.cross(direction, hop.flow, &packet, at) else { return };
                    at = arrival;
                    packet.hop += 1;
                }
                Place::Receiver => match self.deliver(hop.flow, &packet, at) {
                    Some(answer) => packet = answer,
                    None => return,
                },
                Place::Sender => unreachable!("a packet waits in a channel before it meets a sender"),
            }
            if at > self.end {
                self.ledger.in_flight += 1;
                self.sacks.remove(packet.sack);
                return;
            }
            let channel = self.hops[packet.hop as usize].channel;
            if channel != NONE {
                self.wait(channel, packet, at);
                return;
            }
        }
    }

    /// Sends a packet over a link; returns its arrival at the far end, or `None` if it is lost.
    #[inline]
    fn cross(&mut self, direction: DirectionId, flow: u32, packet: &Packet, at: Time) -> Option<Time> {
        self.packet_hops += 1;
        let transit = self.links[direction as usize].transit(at, u32::from(packet.bytes));
        if self.trace.is_some() {
            self.record(direction, flow, packet, at, transit);
        }
        match transit {
            Transit::Arrives { at, .. } => {
                self.fingerprint.add(at.0, u64::from(direction) << 2);
                Some(at)
            }
            Transit::Lost { cause, .. } => {
                self.fingerprint.add(at.0, u64::from(direction) << 2 | (cause as u64 + 1));
                self.lose(flow, packet, at, cause);
                None
            }
        }
    }

    #[cold]
    fn lose(&mut self, flow: u32, packet: &Packet, at: Time, cause: Cause) {
        self.ledger.dropped[cause as usize] += 1;
        self.sacks.remove(packet.sack);
        let stats = &mut self.flows[flow as usize];
        if stats.window.contains(at) {
            let lost = if packet.hop < self.return_paths[flow as usize] {
                &mut stats.lost
            } else {
                &mut stats.acks_lost
            };
            lost[cause as usize] += 1;
        }
    }

    /// Gives a packet to the receiver of its flow; returns the answer, placed at the start of the way back.
    #[inline]
    fn deliver(&mut self, flow: u32, packet: &Packet, at: Time) -> Option<Packet> {
        self.ledger.delivered += 1;
        let stats = &mut self.flows[flow as usize];
        match &mut self.receivers[flow as usize] {
            Receiver::Udp => {
                udp::receive(packet, at, stats);
                None
            }
            Receiver::Tcp(receiver) => {
                if receiver.due().is_some_and(|due| due <= at) {
                    self.answer_overdue(flow, at);
                }
                let Receiver::Tcp(receiver) = &mut self.receivers[flow as usize] else { return None };
                let answer = receiver.receive(packet, at, &mut self.flows[flow as usize]);
                if let Some(due) = receiver.due().filter(|&due| due < receiver.armed) {
                    receiver.armed = due;
                    self.queue.schedule(due, Target::new(event_kind::RECEIVER, flow));
                }
                answer.map(|(answer, blocks)| self.send_back(flow, answer, blocks, at))
            }
        }
    }

    /// Registers an answer of the receiver and places it at the start of the way back.
    #[inline]
    fn send_back(&mut self, flow: u32, mut answer: Packet, blocks: SackBlocks, at: Time) -> Packet {
        answer.id = self.ledger.created as u32;
        self.ledger.created += 1;
        answer.hop = self.return_paths[flow as usize];
        if !blocks.as_slice().is_empty() {
            answer.sack = self.sacks.insert(blocks);
        }
        let stats = &mut self.flows[flow as usize];
        stats.acks_sent += u64::from(stats.window.contains(at));
        answer
    }

    /// Sends what a receiver has delayed beyond `now`.
    #[cold]
    fn answer_overdue(&mut self, flow: u32, now: Time) {
        while let Receiver::Tcp(receiver) = &mut self.receivers[flow as usize]
            && let Some((answer, due)) = receiver.overdue(now)
        {
            let answer = self.send_back(flow, answer, SackBlocks::default(), due);
            match self.hops[answer.hop as usize].channel {
                NONE => self.walk(answer, due),
                channel => self.wait(channel, answer, due),
            }
        }
    }

    /// A receiver's timer. It is lazy like a sender's.
    pub(crate) fn on_receiver_timer(&mut self, flow: u32, now: Time) {
        let Receiver::Tcp(receiver) = &mut self.receivers[flow as usize] else { return };
        if receiver.armed != now {
            return;
        }
        receiver.armed = Time::MAX;
        self.answer_overdue(flow, now);
        let Receiver::Tcp(receiver) = &mut self.receivers[flow as usize] else { return };
        if let Some(due) = receiver.due() {
            receiver.armed = due;
            self.queue.schedule(due, Target::new(event_kind::RECEIVER, flow));
        }
    }

    /// Lets a packet wait in a channel until `at`.
    #[inline]
    fn wait(&mut self, channel: u32, mut packet: Packet, at: Time) {
        packet.at = at;
        packet.order = self.queue.next_order();
        packet.next = NONE;
        let index = self.packets.insert(packet);
        let slot = &mut self.channels[channel as usize];
        if slot.head == NONE {
            slot.head = index;
            slot.tail = index;
            self.queue.push(Event::new(at, packet.order, Target::new(event_kind::CHANNEL, channel)));
        } else {
            let tail = std::mem::replace(&mut slot.tail, index);
            self.packets.set_next(tail, index);
        }
    }

    /// Takes the packet whose time has come out of a channel, whose event is the next of the queue, and puts its follower
    /// in its place.
    #[inline]
    pub(crate) fn take_head(&mut self, channel: usize) -> Packet {
        let slot = &mut self.channels[channel];
        let packet = self.packets.remove(slot.head);
        slot.head = packet.next;
        if slot.head == NONE {
            self.queue.pop();
        } else {
            let next = self.packets.get(slot.head);
            let target = Target::new(event_kind::CHANNEL, channel as u32);
            self.queue.replace_top(Event::new(next.at, next.order, target));
        }
        packet
    }

    /// A packet has reached its sender: counts it and hands out its SACK blocks.
    #[inline]
    pub(crate) fn receive_at_sender(&mut self, packet: &Packet) -> SackBlocks {
        self.ledger.delivered += 1;
        if packet.sack == NONE { SackBlocks::default() } else { self.sacks.remove(packet.sack) }
    }

    /// Counts what is still waiting when the run ends.
    pub(crate) fn close_ledger(&mut self) {
        for channel in &self.channels {
            let mut index = channel.head;
            while index != NONE {
                self.ledger.in_flight += 1;
                index = self.packets.get(index).next;
            }
        }
    }

    #[cold]
    fn record(&mut self, direction: DirectionId, flow: u32, packet: &Packet, at: Time, transit: Transit) {
        let sack = self.sacks.get(packet.sack);
        let back = packet.hop >= self.return_paths[flow as usize];
        let (transmitted, arrived, lost) = match transit {
            Transit::Arrives { start, at } => {
                ((start <= self.end).then_some(start), (at <= self.end).then_some(at), None)
            }
            Transit::Lost { cause, start } => (start, None, Some(cause)),
        };
        let record = HopRecord {
            packet: packet.id,
            flow,
            direction,
            kind: packet.kind,
            flags: packet.flags & !flag::CE | (packet.flags & flag::CE),
            seq: if back { 0 } else { packet.seq },
            ack: if back { packet.seq } else { 0 },
            payload: packet.payload,
            bytes: packet.bytes,
            stamp: packet.stamp,
            echo: if back { packet.echo } else { Time::ZERO },
            sack,
            enqueued: at,
            transmitted,
            arrived,
            lost,
        };
        if let Some(trace) = &mut self.trace {
            trace.push(record);
        }
    }
}
