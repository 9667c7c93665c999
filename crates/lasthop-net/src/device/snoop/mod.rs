//! Snoop: a base station that retransmits packets lost on the wireless link, hidden from the sender (Balakrishnan,
//! Seshan, Amir, Katz, MobiCom 1995; Balakrishnan, Seshan, Katz, Wireless Networks 1995; Balakrishnan, Padmanabhan,
//! Seshan, Katz, ToN 1997).
//!
//! *What it does.* It is placed where packets enter the wireless link, keeps TCP packets until they are
//! acknowledged, and reads the returning ACKs. A duplicate ACK for a packet in its cache triggers a local
//! retransmission, ahead of queued packets. That ACK is withheld, and so are the duplicates that packets in flight will
//! still cause: the sender sees neither the loss nor the repair. A local timer, set to the round trip between agent and
//! host, covers losses without duplicate ACKs. The connection stays end to end; the agent acknowledges nothing that the
//! host has not received. It cannot retransmit data from the wireless host: it reports to that sender which losses were
//! not congestion.
//!
//! An ACK that moves on to a second hole carries the blocks that lie above it. By RFC 6675 section 5 three segments
//! above a hole mean a loss, and a sender with SACK would halve its window for a hole that the agent is repairing; so
//! `std` removes the blocks until the agent gives the hole up (`hide_sack`). SACK is advisory: receivers may renege
//! (RFC 2018 section 8), and the cumulative ACK catches up. No-operations replace the option.
//!
//! *Reacts to* data, FINs and SYNs of TCP, cumulative ACKs, changes of the window (never taken for duplicates), SACK
//! blocks (`sack`), ECE (an ACK whose ECE differs from that of the last one that passed is never withheld), the
//! return of its link after an outage and changes of the path of a flow.
//!
//! *Placed* at the head of a link: a base station, an access point, a router before it. It needs both directions of
//! a flow, which every place of a path sees.
//!
//! *Profiles.* `std` is the protocol with what later RFCs ask for: Karn's rule and the gains of RFC 6298, a timer that
//! doubles, ECN, SACK, a cache that holds a window. `paper` is that of 1995: a timeout of two round trips, a gain of a
//! quarter, no doubling, no ECN, negative acknowledgements, a hundred packets. `ns2` is the agent of ns-2.35 with those
//! of its peculiarities that change results:
//!
//! - duplicate ACKs trigger a retransmission every second time, by one switch that all connections of the base station
//!   share and that nothing resets (bug 2); the first of each pair passes on to the sender;
//! - the round trip is averaged with seven eighths for each new sample and one eighth for its deviation (3), and from
//!   retransmitted packets too (4); it starts at 0.1 s with a deviation of 0.25 s, so that the first timeout is 1.1 s;
//! - the count of expected duplicates wraps at 100 whatever the size of the cache (5), is one too high for the first
//!   loss, and is not counted anew when the timer expires again;
//! - all connections between the same two nodes share one cache (6);
//! - the first packet of a connection, retransmitted, wipes the cache (7);
//! - a packet that the sender has retransmitted is never retransmitted for duplicate ACKs (9);
//! - the timer never doubles, stops when the first packet kept is not the one asked for, and retransmissions go to the
//!   end of the queue (10).
//!
//! `link_layer_delay` is ns-2's `delay_` of the link layer in which the agent sits: data, retransmissions and ACKs
//! that pass take it, and the agent sees the queue as it is before them. Its own default there is 0 too (`LL/LLSnoop
//! set delay_ 0ms`), and `newLan` gives the link layer of every station the delay of the LAN.
//!
//! Not copied: the cache that stops working when it makes room (1), which `when_full = "forward"` avoids as ns-2's own
//! default does; one clock for all connections, and retransmissions for one when data of another pass (`integrate_`,
//! off by default); ACKs with data (8), since data of both directions are two flows here; the crash on the link layer
//! of mobile nodes (11); refusing to retransmit when the queue is long (12), gone since ns-2.1b8.
//!
//! *Differs from its paper:* the timer waits until a packet has left the queue of the link, rests while the link is
//! down, and in `std` is patient with a host that may be delaying the ACK of a lone packet. There is one timer, armed
//! whenever something is kept, in place of a round-trip timer and a persist timer of 200 ms. Duplicates that packets
//! still cause which crossed the link before a retransmission never trigger another one, nor do those that come sooner
//! than any answer could. Packets that the sender retransmits may be retransmitted by the agent once their own
//! duplicates have passed. Packets that the queue of the link would drop are not cached, so that an overflow looks
//! like congestion to the sender. For data that the host has acknowledged already, the agent itself sends a copy of
//! the last ACK.
//!
//! *Validation:* vectors by hand, packet by packet (`device/snoop/tests.rs`); without losses no packet of
//! a connection changes, by a byte or a nanosecond, over random scenarios (`tests/helpers.rs`); 10^6 random sequences
//! of packets, reordered, duplicated, cut, wrapped and hostile. Profile `ns2` against ns-2.35: packet by packet and
//! over senders, flows and loss rates (docs/reference/validation-snoop.md).
//!
//! *Limitations:* losses on the wired part are left to the sender, and packets that an AQM (RED, CoDel) drops after the
//! agent are repaired like wireless losses. With timestamps the repair time enters the sender's RTT, as it should, and
//! a host that checks them as Linux does (PAWS) discards a copy that is older than the timestamp it echoes (RFC 7323
//! section 5.3): this happens after the sender itself has retransmitted an earlier packet. That costs CUBIC 3 % of its
//! goodput where 5 % are lost in the air and 0.5 % on the wire, and 13 % where 15 % are lost. A sender with SACK sees
//! fewer blocks, never wrong ones; in `paper` and `ns2`, which do not use SACK, it sees enough of them to halve its
//! window for every second loss of a round trip. It does not work with encrypted TCP headers. Negative acknowledgements
//! need a sender that understands them (`eln`).
//!
//! *Cost:* in memory 8.4 kB a flow, most of it for the packets that it keeps (a thousand Reno flows over 500 Mbit/s
//! that lose 2 %, with it and without); in time `bench/RESULTS.md`.
//!
//! *References:* Balakrishnan et al. (MobiCom 1995; Wireless Networks 1(4), 1995; ToN 5(6), 1997); RFC 3135 section 3.

mod agent;
mod cache;
mod ns2;
mod reverse;
#[cfg(test)]
mod tests;

use std::cmp;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use lasthop_core::packet::{Cause, Kind, NONE, Note, Packet, flag};
use lasthop_core::time::{Span, Time};

use self::agent::{Agent, Arrived, Tape, Verdict, Why};
use self::cache::Entry;
use self::ns2::{Ns2Agent, Threshold};
use self::reverse::{Hole, Reverse};
use super::{AtHandoff, Cx, Effect, Element, Move, NOWHERE, OUTBOUND, Parcel};
use crate::routing::DirectionId;
use crate::transport::extra::Extra;
use crate::transport::sack::SackBlocks;

/// Size of an ACK with nothing in it.
const ACK_BYTES: u16 = 40;
/// Size of a negative acknowledgement: with a SACK option of two blocks, padded.
const NACK_BYTES: u16 = ACK_BYTES + 20;

/// Whose protocol an agent follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// That of the papers.
    Paper,
    /// That of ns-2.35.
    Ns2,
}

/// How long an answer of the host may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Smoothed round trip and four deviations, with the gains of RFC 6298.
    Deviation,
    /// Two round trips, smoothed with a gain of a quarter.
    Double,
}

/// What happens to a packet when the cache is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// It goes on without being kept.
    Forward,
    /// The lowest makes room.
    Evict,
}

/// What is done about losses of data that come from the wireless host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upward {
    /// Nothing.
    Off,
    /// Duplicate ACKs for them are marked (explicit loss notification).
    Eln,
    /// The wireless host is told at once (negative acknowledgement).
    Nack,
}

/// What an agent does; one for all connections that pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snoop {
    /// Whose protocol it is.
    pub machine: Machine,
    /// Most packets that are kept of a connection, at least 1.
    pub cache: u32,
    /// What happens beyond them.
    pub when_full: WhenFull,
    /// Most times that a packet is sent again from here.
    pub persist: u32,
    /// Which unexpected duplicate ACK triggers a retransmission, at least the first.
    pub threshold: u32,
    /// Whether retransmissions overtake what waits at the head of the link.
    pub ahead: bool,
    /// How long an answer may take.
    pub timing: Timing,
    /// And at least this.
    pub min_timeout: Span,
    /// How much longer it may take while fewer packets are under way than the host may wait for before it
    /// acknowledges.
    pub delayed_ack: Span,
    /// Whether the timeout doubles while nothing is acknowledged.
    pub backoff: bool,
    /// Whether SACK blocks show more holes than the first.
    pub sack: bool,
    /// Whether ACKs lose their SACK blocks while the first hole is repaired here.
    pub hide_sack: bool,
    /// Whether ACKs that change the echo of congestion always pass.
    pub ecn: bool,
    /// Whether data that the host has are answered from here, and ACKs that came late withheld.
    pub answer: bool,
    /// What is done about losses of data from the wireless host.
    pub upward: Upward,
    /// What happens at a handoff.
    pub handoff: AtHandoff,
    /// What a packet takes between the agent and the queue of its link, and an ACK that goes on between the agent and
    /// the network behind it.
    pub link_layer_delay: Span,
}

impl Snoop {
    /// What orders a packet whose transmission begins at `at` among all that cross the link: nothing, if none
    /// overtakes.
    fn begin(&self, at: Time) -> Time {
        if self.ahead { at } else { Time::ZERO }
    }
}

/// What an agent stores about a flow before it comes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlowFacts {
    /// A number for its pair of nodes.
    pub(crate) pair: u32,
    /// Its sender understands negative acknowledgements.
    pub(crate) hears: bool,
}

/// A connection, from the side from which its data come.
#[derive(Clone, Debug)]
enum Role {
    Down(Box<Agent>),
    DownNs2(Box<Ns2Agent>),
    Up(Reverse),
}

#[derive(Clone, Debug)]
struct Connection {
    role: Role,
    /// Its number.
    key: u32,
    /// When its timer is set to, if not later than it should be.
    armed: Time,
}

impl Connection {
    /// Packets that are kept of it.
    fn cached(&self) -> usize {
        match &self.role {
            Role::Down(agent) => agent.cache.len(),
            Role::DownNs2(agent) => agent.cached(),
            Role::Up(_) => 0,
        }
    }
}

/// What an agent did within the measurement window.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    kept: u64,
    /// Packets sent again, by why.
    repeats: [u64; 4],
    withheld: u64,
    hidden: u64,
    answered: u64,
    marked: u64,
    nacks: u64,
    moved: u64,
    /// Most packets kept at once, over the whole run.
    most: u64,
}

/// What one agent hands to the next.
#[derive(Clone, Debug)]
pub(crate) struct Handed {
    agent: Box<Agent>,
    hop: u32,
}

/// Numbers as their own hashes, spread: flows are numbered by the plan, not by strangers.
#[derive(Clone, Copy, Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

/// The agent at work.
#[derive(Clone, Debug)]
pub(crate) struct Snooping {
    plan: Snoop,
    /// The link at whose head it stands.
    direction: DirectionId,
    /// Whose gate guards the queue there, and whether packets wait in a device.
    queue: (DirectionId, bool),
    flows: Arc<[FlowFacts]>,
    /// Connections by their numbers; never iterated.
    places: HashMap<u32, u32, BuildHasherDefault<Spread>>,
    connections: Vec<Connection>,
    free: Vec<u32>,
    /// When connections want to be called, and which.
    timers: BinaryHeap<cmp::Reverse<(Time, u32)>>,
    /// Hosts that will leave, the next one last.
    moves: BinaryHeap<cmp::Reverse<Move>>,
    /// Outages of the link that are over.
    outages: usize,
    /// What all agents of ns-2 share.
    threshold: Threshold,
    kept: u64,
    counts: Counts,
}

/// Sends what agents repeat.
struct Sending<'a, 'b> {
    cx: &'a mut Cx<'b>,
    counts: &'a mut Counts,
    ahead: bool,
    /// How much later they reach the queue.
    delay: Span,
}

impl<'a, 'b> Sending<'a, 'b> {
    fn new(plan: &Snoop, cx: &'a mut Cx<'b>, counts: &'a mut Counts) -> Sending<'a, 'b> {
        Sending { cx, counts, ahead: plan.ahead, delay: plan.link_layer_delay }
    }
}

impl Tape for Sending<'_, '_> {
    fn repeat(&mut self, entry: &Entry, why: Why) {
        self.counts.repeats[why as usize] += u64::from(self.cx.window.contains(self.cx.now));
        let mut packet = entry.packet;
        if self.ahead {
            packet.note = packet.note.ahead();
        }
        let (extra, at) = (entry.extra.clone(), self.cx.now + self.delay);
        self.cx.effects.push(Effect::Emit { packet, extra, hop: entry.hop + 1, at });
    }
}

impl Snooping {
    pub(super) fn new(plan: &Snoop, _name: &str, _seed: u64) -> Snooping {
        Snooping {
            plan: *plan,
            direction: NOWHERE,
            queue: (NOWHERE, false),
            flows: Arc::default(),
            places: HashMap::default(),
            connections: Vec::new(),
            free: Vec::new(),
            timers: BinaryHeap::new(),
            moves: BinaryHeap::new(),
            outages: 0,
            threshold: Threshold::default(),
            kept: 0,
            counts: Counts::default(),
        }
    }

    /// Says where it stands, whose gate guards the queue there, whether packets wait in a device, and what is known of
    /// the flows.
    pub(crate) fn stand(
        &mut self,
        direction: DirectionId,
        queue: (DirectionId, bool),
        flows: &Arc<[FlowFacts]>,
    ) {
        self.direction = direction;
        self.queue = queue;
        self.flows = Arc::clone(flows);
    }

    /// One more host that leaves.
    pub(crate) fn add_move(&mut self, leaves: Move) {
        if self.plan.handoff != AtHandoff::Ignore && self.plan.machine == Machine::Paper {
            self.moves.push(cmp::Reverse(leaves));
        }
    }

    /// The number of the connection that a flow belongs to.
    fn key_of(&self, flow: u32) -> u32 {
        match self.plan.machine {
            Machine::Paper => flow,
            Machine::Ns2 => self.flows.get(flow as usize).map_or(flow, |facts| facts.pair),
        }
    }

    fn find(&self, flow: u32) -> Option<u32> {
        self.places.get(&self.key_of(flow)).copied()
    }

    /// The connection of a flow, which `make` makes if it is new.
    fn find_or(&mut self, flow: u32, make: impl FnOnce(Machine) -> Role) -> u32 {
        let key = self.key_of(flow);
        if let Some(&place) = self.places.get(&key) {
            return place;
        }
        let connection = Connection { role: make(self.plan.machine), key, armed: Time::MAX };
        let place = if let Some(place) = self.free.pop() {
            self.connections[place as usize] = connection;
            place
        } else {
            self.connections.push(connection);
            (self.connections.len() - 1) as u32
        };
        self.places.insert(key, place);
        place
    }

    fn remove(&mut self, place: u32) {
        // Data beyond the end of a connection may still be here.
        self.note_kept(self.connections[place as usize].cached(), 0);
        let connection = &mut self.connections[place as usize];
        self.places.remove(&connection.key);
        connection.role = Role::Up(Reverse::default());
        connection.armed = Time::MAX;
        self.free.push(place);
    }

    /// Keeps the call that a connection wants in the list.
    fn rearm(&mut self, place: u32) {
        let connection = &mut self.connections[place as usize];
        let due = match &connection.role {
            Role::Down(agent) => agent.due,
            Role::DownNs2(agent) => agent.due,
            Role::Up(_) => None,
        };
        // A later call than the one in the list is looked up when that one comes.
        if let Some(due) = due.filter(|&due| due < connection.armed) {
            connection.armed = due;
            self.timers.push(cmp::Reverse((due, place)));
        }
    }

    fn ask_for_call(&self, cx: &mut Cx<'_>) {
        if let Some(&cmp::Reverse((at, _))) = self.timers.peek() {
            cx.wake(at);
        }
        if let Some(cmp::Reverse(next)) = self.moves.peek() {
            cx.wake(next.at);
        }
        if let Some(back) = self.next_return(cx) {
            cx.wake(back);
        }
    }

    /// When the link is back from its next outage, if that matters.
    fn next_return(&self, cx: &mut Cx<'_>) -> Option<Time> {
        if self.plan.handoff == AtHandoff::Ignore || self.direction == NOWHERE {
            return None;
        }
        cx.link(self.direction).outages().get(self.outages).map(|&(_, end)| end)
    }

    /// Until when the link is down, if it is and that matters.
    fn down_until(&self, cx: &mut Cx<'_>) -> Option<Time> {
        if self.plan.handoff == AtHandoff::Ignore || self.direction == NOWHERE {
            return None;
        }
        let &(start, end) = cx.link(self.direction).outages().get(self.outages)?;
        (start <= cx.now && cx.now < end).then_some(end)
    }

    /// Data on their way to the wireless host; whether they go on.
    fn data_down(&mut self, parcel: Parcel, packet: &Packet, cx: &mut Cx<'_>) -> bool {
        let (now, (queue, holds)) = (cx.now, self.queue);
        let role = |machine| match machine {
            Machine::Paper => Role::Down(Box::default()),
            Machine::Ns2 => Role::DownNs2(Box::default()),
        };
        let place = self.find_or(parcel.flow, role);
        let bytes = u32::from(parcel.bytes);
        let mut arrived = Arrived {
            packet,
            hop: parcel.hop,
            has_room: true,
            turn: self.plan.begin(now),
            begins: now,
            wait: Span::ZERO,
            now,
        };
        if queue != NOWHERE {
            let (link, on_the_way) = (cx.link(queue), self.plan.link_layer_delay);
            arrived.has_room = link.has_room(now, bytes, holds);
            // What waits now goes on leaving while it is on its way to the queue.
            let behind = link.wait(now, 0, holds);
            let later = Span(on_the_way.0.saturating_sub(behind.0));
            arrived.wait = link.wait(now, bytes, holds) + later;
            let begins = now + behind + later;
            arrived.turn = self.plan.begin(begins);
            if link.is_even() {
                arrived.begins = begins;
            }
        }
        let connection = &mut self.connections[place as usize];
        let mut verdict = Verdict::Pass;
        let (before, kept, after) = match &mut connection.role {
            Role::Down(agent) => {
                let before = agent.cache.len();
                let mut kept = false;
                if packet.kind == Kind::Syn {
                    agent.open(packet, now);
                } else {
                    (verdict, kept) = agent.data(&self.plan, &arrived);
                }
                (before, kept, agent.cache.len())
            }
            Role::DownNs2(agent) => {
                let before = agent.cached();
                let kept = agent.data(&self.plan, &arrived);
                (before, kept, agent.cached())
            }
            Role::Up(_) => (0, false, 0),
        };
        if kept && packet.extra != NONE {
            let extra = cx.extra(parcel.packet);
            let entry = match &mut connection.role {
                Role::Down(agent) => agent.entry_mut(packet.seq as u32),
                Role::DownNs2(agent) => agent.entry_mut(packet.seq as u32),
                Role::Up(_) => None,
            };
            if let Some(entry) = entry {
                entry.extra = extra;
            }
        }
        self.note_kept(before, after);
        let counts = u64::from(cx.window.contains(now));
        self.counts.kept += u64::from(kept) * counts;
        if verdict == Verdict::Answer {
            if let Role::Down(agent) = &self.connections[place as usize].role {
                let answer = Packet { stamp: now, ..*agent.last_ack() };
                self.send_back(parcel, answer, None, cx);
            }
            self.counts.answered += counts;
            cx.drop(parcel, Cause::Withheld);
        }
        self.rearm(place);
        verdict == Verdict::Pass
    }

    fn note_kept(&mut self, before: usize, after: usize) {
        self.kept = self.kept + after as u64 - before as u64;
        self.counts.most = self.counts.most.max(self.kept);
    }

    /// An ACK from the wireless host; whether it goes on.
    fn ack_down(&mut self, parcel: Parcel, packet: &Packet, cx: &mut Cx<'_>) -> bool {
        let Some(place) = self.find(parcel.flow) else { return true };
        let sack = cx.extras.get(packet.extra).map_or_else(SackBlocks::default, |extra| extra.sack);
        let now = cx.now;
        let mut sending = Sending::new(&self.plan, cx, &mut self.counts);
        let (mut over, mut hides) = (false, false);
        let (before, verdict, after) = match &mut self.connections[place as usize].role {
            Role::Down(agent) => {
                let before = agent.cache.len();
                let verdict = agent.ack(&self.plan, packet, &sack, now, &mut sending);
                over = agent.is_over();
                hides = self.plan.hide_sack && !sack.is_empty() && agent.repairs(&self.plan, packet);
                (before, verdict, agent.cache.len())
            }
            Role::DownNs2(agent) => {
                let before = agent.cached();
                let verdict = agent.ack(&self.plan, packet, &mut self.threshold, now, &mut sending);
                (before, verdict, agent.cached())
            }
            Role::Up(_) => (0, Verdict::Pass, 0),
        };
        self.note_kept(before, after);
        if verdict != Verdict::Pass {
            self.counts.withheld += u64::from(cx.window.contains(now));
            cx.drop(parcel, Cause::Withheld);
        } else if hides && let Some(extra) = cx.extras.get_mut(packet.extra) {
            self.counts.hidden += u64::from(cx.window.contains(now));
            extra.hides_sack = true;
            extra.sack.clear();
            if let Some((start, end)) = sack.duplicate(packet.seq) {
                extra.sack.push(start, end);
            }
        }
        if over {
            self.remove(place);
        } else {
            self.rearm(place);
        }
        verdict == Verdict::Pass
    }

    /// Data from the wireless host.
    fn data_up(&mut self, parcel: Parcel, packet: &Packet, cx: &mut Cx<'_>) {
        if self.plan.upward == Upward::Off {
            return;
        }
        let place = self.find_or(parcel.flow, |_| Role::Up(Reverse::default()));
        let Role::Up(reverse) = &mut self.connections[place as usize].role else { return };
        let hears = self.flows.get(parcel.flow as usize).is_some_and(|facts| facts.hears);
        if let Some(hole) = reverse.data(packet)
            && self.plan.upward == Upward::Nack
            && hears
        {
            let (nack, extra) = nack(packet, reverse, hole, cx.now);
            self.counts.nacks += u64::from(cx.window.contains(cx.now));
            self.send_back(parcel, nack, Some(Box::new(extra)), cx);
        }
    }

    /// Sends a packet of its own against the stream, as [`Cx::send_back`] does, through the link layer.
    fn send_back(&self, parcel: Parcel, packet: Packet, extra: Option<Box<Extra>>, cx: &mut Cx<'_>) {
        let at = cx.now + self.plan.link_layer_delay;
        cx.effects.push(Effect::Return { parcel, packet, extra, at });
    }

    /// Whether what it hands on reaches the queue of its link later.
    pub(crate) fn delays(&self) -> bool {
        self.plan.link_layer_delay > Span::ZERO
    }

    /// An ACK on its way to the wireless host.
    fn ack_up(&mut self, parcel: Parcel, packet: &Packet, cx: &mut Cx<'_>) {
        let Some(place) = self.find(parcel.flow) else { return };
        let Role::Up(reverse) = &mut self.connections[place as usize].role else { return };
        if reverse.ack(packet) && self.plan.upward != Upward::Off {
            self.counts.marked += u64::from(cx.window.contains(cx.now));
            cx.packets.get_mut(parcel.packet).flags |= flag::ELN;
        }
        if packet.kind == Kind::FinAck {
            self.remove(place);
        }
    }

    /// The link is back: the host is at another base station, with or without the caches of the old one.
    fn return_of_link(&mut self, cx: &mut Cx<'_>) {
        while let Some(back) = self.next_return(cx)
            && back <= cx.now
        {
            self.outages += 1;
            for place in 0..self.connections.len() as u32 {
                let Role::Down(agent) = &mut self.connections[place as usize].role else { continue };
                let before = agent.cache.len();
                if self.plan.handoff == AtHandoff::Move {
                    self.counts.moved += u64::from(before > 0 && cx.window.contains(cx.now));
                    let now = cx.now;
                    let mut sending = Sending::new(&self.plan, cx, &mut self.counts);
                    agent.arrive(&self.plan, None, now, &mut sending);
                } else {
                    agent.forget();
                    self.note_kept(before, 0);
                }
                self.rearm(place);
            }
        }
    }

    /// Before its first packet, or the first host that comes over, it has no timer: returns of the link and
    /// hosts that left until then have no effect.
    fn catch_up(&mut self, cx: &mut Cx<'_>) {
        if self.next_return(cx).is_some_and(|back| back < cx.now) {
            self.return_of_link(cx);
        }
        if self.moves.peek().is_some_and(|next| next.0.at < cx.now) {
            self.let_go(cx);
        }
    }

    /// Hosts leave whose time has come.
    fn let_go(&mut self, cx: &mut Cx<'_>) {
        while let Some(&cmp::Reverse(Move { at, flow, to, hop })) = self.moves.peek()
            && at <= cx.now
        {
            self.moves.pop();
            let Some(place) = self.find(flow) else { continue };
            if let Role::Down(agent) = &mut self.connections[place as usize].role {
                let agent = std::mem::take(agent);
                self.note_kept(agent.cache.len(), 0);
                if self.plan.handoff == AtHandoff::Move {
                    let handed = super::Handed::Snoop(Box::new(Handed { agent, hop }));
                    cx.effects.push(Effect::Hand { to, flow, handed, at: cx.now });
                }
            }
            self.remove(place);
        }
    }

    /// A host comes with what another agent stores about it.
    pub(crate) fn take_over(&mut self, flow: u32, handed: Handed, cx: &mut Cx<'_>) {
        if self.plan.handoff != AtHandoff::Move || self.plan.machine != Machine::Paper {
            return;
        }
        self.catch_up(cx);
        let Handed { agent, hop } = handed;
        let place = self.find_or(flow, |_| Role::Down(Box::default()));
        let before = match &self.connections[place as usize].role {
            Role::Down(known) => known.cache.len(),
            _ => 0,
        };
        self.note_kept(before, agent.cache.len());
        self.counts.moved += u64::from(cx.window.contains(cx.now));
        let now = cx.now;
        let mut sending = Sending::new(&self.plan, cx, &mut self.counts);
        let mut agent = agent;
        agent.arrive(&self.plan, Some(hop), now, &mut sending);
        self.connections[place as usize].role = Role::Down(agent);
        self.rearm(place);
        self.ask_for_call(cx);
    }
}

/// A negative acknowledgement: nothing more than the far end has acknowledged, and by SACK blocks what has come by here
/// on both sides of the hole.
fn nack(packet: &Packet, reverse: &Reverse, hole: Hole, now: Time) -> (Packet, Extra) {
    let (start, _) = cache::range_of(packet);
    let full = |wire: u32| packet.seq.wrapping_sub(u64::from(start.wrapping_sub(wire)));
    let ack = reverse.last_ack().unwrap_or(hole.start);
    let mut sack = SackBlocks::default();
    sack.push(packet.seq, packet.seq + u64::from(hole.beyond.wrapping_sub(hole.end)));
    // No receiver selects what it has acknowledged: by this block the sender knows whose word it is.
    sack.push(full(ack), full(hole.start));
    let nack = Packet {
        seq: full(ack),
        stamp: now,
        echo: packet.stamp,
        window: reverse.window(),
        extra: NONE,
        bytes: NACK_BYTES,
        payload: 0,
        kind: Kind::Ack,
        flags: flag::ELN | reverse.echoed(),
        note: Note::BACK,
        ..Packet::default()
    };
    (nack, Extra { sack, ..Extra::default() })
}

impl Element for Snooping {
    fn receive(&mut self, parcel: Parcel, port: u32, cx: &mut Cx<'_>) {
        self.catch_up(cx);
        let packet = *cx.packets.get(parcel.packet);
        let outbound = port == OUTBOUND;
        // Not TCP, or nothing that a cache could help.
        let foreign =
            packet.extra != NONE && cx.extras.get(packet.extra).is_some_and(|extra| extra.rate.is_some());
        let goes_on = match packet.kind {
            _ if foreign => true,
            Kind::Syn | Kind::Data | Kind::Fin if packet.is_forward() => {
                if outbound {
                    self.data_down(parcel, &packet, cx)
                } else {
                    self.data_up(parcel, &packet, cx);
                    true
                }
            }
            Kind::Reset => {
                if let Some(place) = self.find(parcel.flow).filter(|_| self.plan.machine == Machine::Paper) {
                    self.remove(place);
                }
                true
            }
            Kind::SynAck | Kind::Ack | Kind::FinAck if !packet.is_forward() => {
                if outbound {
                    self.ack_up(parcel, &packet, cx);
                    true
                } else {
                    self.ack_down(parcel, &packet, cx)
                }
            }
            _ => true,
        };
        if goes_on {
            let at = cx.now + self.plan.link_layer_delay;
            cx.effects.push(Effect::Forward { parcel, at, crossing: None });
        }
        self.ask_for_call(cx);
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        self.return_of_link(cx);
        self.let_go(cx);
        let now = cx.now;
        let down_until = self.down_until(cx);
        while let Some(&cmp::Reverse((at, place))) = self.timers.peek()
            && at <= now
        {
            self.timers.pop();
            let connection = &mut self.connections[place as usize];
            if connection.armed != at {
                continue;
            }
            connection.armed = Time::MAX;
            if let Role::Down(agent) = &mut connection.role
                && let Some(back) = down_until
            {
                agent.rest_until(back);
            }
            let mut sending = Sending::new(&self.plan, cx, &mut self.counts);
            match &mut connection.role {
                Role::Down(agent) if agent.due.is_some_and(|due| due <= now) => {
                    agent.expire(&self.plan, now, &mut sending);
                }
                Role::DownNs2(agent) if agent.due.is_some_and(|due| due <= now) => {
                    agent.expire(&self.plan, now, &mut sending);
                }
                _ => {}
            }
            self.rearm(place);
        }
        self.ask_for_call(cx);
    }

    fn holdings(&self) -> Vec<(&'static str, u64)> {
        vec![("snoop_cached", self.kept)]
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let Counts { kept, repeats, withheld, hidden, answered, marked, nacks, moved, most } = self.counts;
        vec![
            ("snoop_kept", kept),
            ("snoop_repeats_by_duplicate", repeats[Why::Duplicate as usize]),
            ("snoop_repeats_by_hole", repeats[Why::Hole as usize]),
            ("snoop_repeats_by_timer", repeats[Why::Timer as usize]),
            ("snoop_repeats_at_handoff", repeats[Why::Handoff as usize]),
            ("snoop_withheld", withheld),
            ("snoop_hidden", hidden),
            ("snoop_answered", answered),
            ("snoop_marked", marked),
            ("snoop_nacks", nacks),
            ("snoop_moved", moved),
            ("snoop_most_kept", most),
        ]
    }

    fn repairs(&self) -> Option<u64> {
        Some(self.counts.repeats.iter().sum())
    }
}
