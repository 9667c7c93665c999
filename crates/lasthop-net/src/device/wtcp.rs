//! WTCP at the base station (Ratnam and Matta 1998): local retransmission over the wireless link, with its delay hidden
//! from the source.
//!
//! *What it does.* It buffers each data segment until the mobile host has acknowledged it, retransmits at a duplicate
//! ACK or a timer of its own, and withholds the duplicates. The timestamp of a segment is increased by the time that
//! the segment spent here, so local retransmissions do not enter the source's RTT.
//!
//! *Reacts to* duplicate ACKs: the link is up, so the first missing segment is retransmitted at once, at most once per
//! local round trip. To a timeout: the link may be down, so the window towards the host falls to one segment until an
//! ACK arrives. To an ACK of new data: the window is the host's again. Segments for which the queue of the link has no
//! room are not buffered, so that the source sees these losses. To a change of the path that leads over another agent:
//! with
//! `handoff = "move"` that one takes over the connection, sends once what the host has not acknowledged, and takes no
//! sample of it; with `"fresh"` the state is discarded, unsent segments are lost, and the next agent does not serve the
//! connection; with `"ignore"` the old one continues over the old link, where packets are forwarded to the host or
//! lost, as the change of the path says (`under_way`).
//!
//! *Differs from its paper:* the paper's constants were not available. The timer is that of RFC 6298 with a minimum of
//! its own. The residence is rounded down to whole ticks of the source's clock, so that no timestamp runs ahead of it,
//! and timestamps of a connection never run back (RFC 7323 section 5). An ACK whose ECN echo differs from the one
//! before is never withheld.
//!
//! *Validation:* NV-5.4 and hand-made sequences below; whole runs, of a host that moves as well, in
//! `tests/helpers_inside.rs`.
//!
//! *Limitations:* it needs timestamps, and a path on which data and ACKs pass the same node. It sees one direction
//! of data, that of its link. Withheld duplicates carry SACK blocks that the source then does not see. An outage
//! after which its own link returns is not a handoff: its timer continues meanwhile, and doubles.
//!
//! *Cost:* in memory 9.1 kB a flow, most of it for the packets that it keeps (a thousand Reno flows over 500 Mbit/s
//! that lose 2 %, with it and without).
//!
//! *Kernel counterpart:* none.
//!
//! *References:* Ratnam and Matta (1998).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use lasthop_core::packet::{Cause, Kind, NONE, Packet, flag};
use lasthop_core::time::{Span, Time};

use super::{AtHandoff, Cx, Effect, Element, Move, NOWHERE, OUTBOUND, Parcel};
use crate::routing::DirectionId;
use crate::transport::extra::{Extra, first_sent};

/// Longest local timeout.
const LONGEST_TIMEOUT: Span = Span::from_secs(60);

/// The agent's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wtcp {
    /// Most segments that it keeps for a connection; more are lost.
    pub buffer: u32,
    /// Granularity of the sources' timestamps.
    pub tick: Span,
    /// Minimum local timeout; also the timeout before the first sample.
    pub min_timeout: Span,
    /// What happens when a host goes from one agent to another.
    pub handoff: AtHandoff,
}

/// What one agent hands to the next.
#[derive(Clone, Debug)]
pub(crate) struct Handed {
    connection: Connection,
    hop: u32,
}

/// A segment that the host has not acknowledged.
#[derive(Clone, Debug)]
struct Held {
    seq: u64,
    end: u64,
    /// The packet itself, if it has not been sent yet.
    parcel: Option<Parcel>,
    copy: Packet,
    extra: Option<Box<Extra>>,
    hop: u32,
    came: Time,
    sent: Time,
    /// When it leaves the queue of the link, as well as that can be told.
    leaves: Time,
    times: u32,
}

/// A connection.
#[derive(Clone, Debug)]
struct Connection {
    /// Both ends have agreed on timestamps.
    active: bool,
    una: u64,
    /// The newest ACK that was forwarded, for data that the host has already.
    last_ack: Option<Packet>,
    held: VecDeque<Held>,
    /// Window of the host, and the agent's own, in bytes.
    host_window: u64,
    window: u64,
    newest_stamp: Time,
    srtt: Option<Span>,
    variance: Span,
    timeout: Span,
    timer: Time,
    /// When the timer ran out last: what was sent before is not under way any more.
    timed_out: Time,
}

impl Connection {
    fn new(plan: &Wtcp) -> Connection {
        Connection {
            active: false,
            una: 0,
            last_ack: None,
            held: VecDeque::new(),
            host_window: u64::MAX,
            window: u64::MAX,
            newest_stamp: Time::ZERO,
            srtt: None,
            variance: Span::ZERO,
            timeout: plan.min_timeout,
            timer: Time::MAX,
            timed_out: Time::ZERO,
        }
    }

    /// A round trip of a segment that was sent once (RFC 6298).
    fn sample(&mut self, rtt: Span, plan: &Wtcp) {
        let (srtt, variance) = match self.srtt {
            None => (rtt, Span(rtt.0 / 2)),
            Some(srtt) => {
                let error = srtt.0.abs_diff(rtt.0);
                (Span((7 * srtt.0 + rtt.0) / 8), Span((3 * self.variance.0 + error) / 4))
            }
        };
        self.srtt = Some(srtt);
        self.variance = variance;
        self.timeout = Span(srtt.0 + 4 * variance.0).max(plan.min_timeout).min(LONGEST_TIMEOUT);
    }

    /// Sets the timer. Before the first segment has left the queue there is nothing to wait for.
    fn arm(&mut self, now: Time) {
        let leaves = self.held.front().map_or(now, |first| first.leaves);
        self.timer = now.max(leaves) + self.timeout;
    }

    fn in_flight(&self) -> u64 {
        let under_way = |held: &&Held| held.times > 0 && held.sent >= self.timed_out;
        self.held.iter().filter(under_way).map(|held| held.end - held.seq).sum()
    }
}

/// The device at work.
#[derive(Clone, Debug)]
pub(crate) struct Agent {
    plan: Wtcp,
    /// Whose gate guards the queue of its link, and whether packets wait in a device.
    queue: (DirectionId, bool),
    connections: BTreeMap<u32, Connection>,
    /// Hosts that will leave, the next one last.
    moves: BinaryHeap<Reverse<Move>>,
    kept: u64,
    repeats_by_duplicate: u64,
    repeats_by_timer: u64,
    repeats_at_handoff: u64,
    moved: u64,
    withheld: u64,
    answered: u64,
    hidden: Span,
    without_timestamps: u64,
}

impl Agent {
    pub(super) fn new(plan: &Wtcp, _name: &str, _seed: u64) -> Agent {
        Agent {
            plan: *plan,
            queue: (NOWHERE, false),
            connections: BTreeMap::new(),
            moves: BinaryHeap::new(),
            kept: 0,
            repeats_by_duplicate: 0,
            repeats_by_timer: 0,
            repeats_at_handoff: 0,
            moved: 0,
            withheld: 0,
            answered: 0,
            hidden: Span::ZERO,
            without_timestamps: 0,
        }
    }

    /// Says whose gate guards the queue of its link, and whether packets wait in a device.
    pub(crate) fn stand(&mut self, queue: (DirectionId, bool)) {
        self.queue = queue;
    }

    /// One more host that leaves.
    pub(crate) fn add_move(&mut self, leaves: Move) {
        if self.plan.handoff != AtHandoff::Ignore {
            self.moves.push(Reverse(leaves));
        }
    }

    /// Hosts leave whose time has come.
    fn let_go(&mut self, until: Time, cx: &mut Cx<'_>) {
        while let Some(&Reverse(Move { flow, to, hop, .. })) =
            self.moves.peek().filter(|next| next.0.at <= until)
        {
            self.moves.pop();
            if self.plan.handoff != AtHandoff::Move {
                self.forget(flow, Cause::RouteChanged, cx);
                continue;
            }
            let Some(mut connection) = self.connections.remove(&flow) else { continue };
            for held in &mut connection.held {
                // It goes on from the other agent, as a copy.
                if let Some(parcel) = held.parcel.take() {
                    cx.effects.push(Effect::Absorb { parcel });
                }
            }
            let handed = super::Handed::Wtcp(Box::new(Handed { connection, hop }));
            cx.effects.push(Effect::Hand { to, flow, handed, at: cx.now });
        }
    }

    /// Before its first packet, or the first host that comes over, it has no timer: hosts that left until then
    /// have no effect.
    fn catch_up(&mut self, cx: &mut Cx<'_>) {
        if let Some(before) = cx.now.0.checked_sub(1) {
            self.let_go(Time(before), cx);
        }
    }

    /// A host comes with what another agent stores about it: what it has not acknowledged is sent once, in
    /// order, from the place `hop` on, and then what has not been sent yet.
    pub(crate) fn take_over(&mut self, flow: u32, handed: Handed, cx: &mut Cx<'_>) {
        if self.plan.handoff != AtHandoff::Move {
            return;
        }
        self.catch_up(cx);
        self.forget(flow, Cause::Withheld, cx);
        let counts = u64::from(cx.window.contains(cx.now));
        let Handed { mut connection, hop } = handed;
        let room = self.plan.buffer as usize;
        // A smaller buffer than the last agent's: the source repeats the rest.
        connection.held.truncate(room);
        connection.held.iter_mut().for_each(|held| held.hop = hop);
        // Nothing is under way over the new link, and its timeout has not doubled.
        (connection.timed_out, connection.window, connection.timer) = (cx.now, u64::MAX, Time::MAX);
        connection.timeout = match connection.srtt {
            Some(srtt) => Span(srtt.0 + 4 * connection.variance.0),
            None => Span::ZERO,
        }
        .max(self.plan.min_timeout)
        .min(LONGEST_TIMEOUT);
        let sent: Vec<usize> =
            (0..connection.held.len()).filter(|&index| connection.held[index].times > 0).collect();
        self.connections.insert(flow, connection);
        self.moved += counts;
        self.repeats_at_handoff += counts * sent.len() as u64;
        for index in sent {
            self.send(flow, index, cx);
        }
        self.fill(flow, cx);
        self.ask_for_call(cx);
    }

    fn ask_for_call(&self, cx: &mut Cx<'_>) {
        let timers = self.connections.values().map(|known| known.timer);
        if let Some(next) = timers.chain(self.moves.peek().map(|next| next.0.at)).min() {
            cx.wake(next);
        }
    }

    /// Whether the queue of the link takes this many bytes now, and how long they will lie there.
    fn find(&self, bytes: u16, cx: &mut Cx<'_>) -> (bool, Span) {
        let (now, (queue, holds)) = (cx.now, self.queue);
        if queue == NOWHERE {
            return (true, Span::ZERO);
        }
        let link = cx.link(queue);
        (link.has_room(now, bytes.into(), holds), link.wait(now, bytes.into(), holds))
    }

    /// A packet with data from the source.
    fn take(&mut self, parcel: Parcel, cx: &mut Cx<'_>) {
        let packet = *cx.packets.get(parcel.packet);
        let plan = self.plan;
        let Some(connection) = self.connections.get_mut(&parcel.flow).filter(|known| known.active) else {
            return cx.forward(parcel);
        };
        let end = packet.seq + u64::from(packet.payload) + u64::from(packet.kind == Kind::Fin);
        if end <= packet.seq {
            // A probe of the window: the host answers it.
            return cx.forward(parcel);
        }
        if end <= connection.una {
            // The host has it, and its ACK was lost behind the agent.
            if let Some(ack) = connection.last_ack {
                self.answered += u64::from(cx.window.contains(cx.now));
                let ack = Packet { stamp: cx.now, echo: packet.stamp, ..ack };
                cx.send_back(parcel, ack, None);
                return cx.drop(parcel, Cause::Withheld);
            }
            return cx.forward(parcel);
        }
        let place = connection.held.partition_point(|held| held.seq < packet.seq);
        if let Some(held) = connection.held.get(place)
            && held.seq == packet.seq
        {
            // The source repeats what is held: its own timer ran out, so the segment goes out once more at once.
            if held.times > 0 {
                return cx.forward(parcel);
            }
            return cx.drop(parcel, Cause::Withheld);
        }
        if connection.held.len() >= plan.buffer as usize {
            if place == connection.held.len() {
                return cx.drop(parcel, Cause::QueueOverflow);
            }
            // The host needs what fills a gap before it can use the last, which makes room.
            if let Some(parcel) = connection.held.pop_back().and_then(|last| last.parcel) {
                cx.drop(parcel, Cause::QueueOverflow);
            }
        }
        let extra = if packet.extra == NONE { None } else { cx.extra(parcel.packet) };
        self.kept += u64::from(cx.window.contains(cx.now));
        let held = Held {
            seq: packet.seq,
            end,
            parcel: Some(parcel),
            copy: Packet { extra: NONE, ..packet },
            extra,
            hop: parcel.hop,
            came: cx.now,
            sent: cx.now,
            leaves: cx.now,
            times: 0,
        };
        connection.held.insert(place, held);
        self.fill(parcel.flow, cx);
    }

    /// Sends what the window towards the host allows.
    fn fill(&mut self, flow: u32, cx: &mut Cx<'_>) {
        loop {
            let Some(connection) = self.connections.get_mut(&flow) else { return };
            let in_flight = connection.in_flight();
            let edge = connection.una.saturating_add(connection.host_window);
            let Some(index) = connection.held.iter().position(|held| held.times == 0) else { return };
            let Held { seq, end, .. } = connection.held[index];
            // One segment may always be under way: it asks a closed window. The first of all is what the host waits
            // for.
            let fits = end <= edge && in_flight + (end - seq) <= connection.window;
            if !fits && in_flight > 0 && index > 0 {
                return;
            }
            self.send(flow, index, cx);
        }
    }

    /// Sends a segment, for the first time or again.
    fn send(&mut self, flow: u32, index: usize, cx: &mut Cx<'_>) {
        let (plan, now) = (self.plan, cx.now);
        let bytes = self.connections.get(&flow).map_or(0, |known| known.held[index].copy.bytes);
        let (has_room, wait) = self.find(bytes, cx);
        let Some(connection) = self.connections.get_mut(&flow) else { return };
        if !has_room && connection.held[index].times == 0 {
            // What the queue of the link refuses must look like congestion to the source.
            let held = connection.held.remove(index);
            if let Some(parcel) = held.and_then(|held| held.parcel) {
                cx.forward(parcel);
            }
            return;
        }
        let held = &mut connection.held[index];
        held.leaves = now + wait;
        let resides = now.since(held.came);
        let shift = Span(resides.0 / plan.tick.0.max(1) * plan.tick.0);
        let stamp = (held.copy.stamp + shift).max(connection.newest_stamp);
        connection.newest_stamp = stamp;
        held.times += 1;
        held.sent = now;
        self.hidden =
            self.hidden + if cx.window.contains(now) { stamp.since(held.copy.stamp) } else { Span::ZERO };
        // For those who measure, the segment is as old as it is.
        let first = first_sent(&held.copy, held.extra.as_deref());
        if let Some(parcel) = held.parcel.take() {
            if stamp == held.copy.stamp {
                cx.forward(parcel);
            } else {
                // Its header changes: it goes on as a copy, and the original ends here.
                let extra =
                    Extra { first_sent: Some(first), ..held.extra.as_deref().copied().unwrap_or_default() };
                let packet = Packet { stamp, ..held.copy };
                cx.effects.push(Effect::Absorb { parcel });
                cx.effects.push(Effect::Emit {
                    packet,
                    extra: Some(Box::new(extra)),
                    hop: held.hop + 1,
                    at: now,
                });
            }
        } else {
            let extra =
                Extra { first_sent: Some(first), ..held.extra.as_deref().copied().unwrap_or_default() };
            // What came from another agent may never have been sent.
            let note = held.copy.note;
            let note = if held.times > 1 { note.sent_before() } else { note };
            let packet = Packet { stamp, note, ..held.copy };
            cx.effects.push(Effect::Emit {
                packet,
                extra: Some(Box::new(extra)),
                hop: held.hop + 1,
                at: now,
            });
        }
        if connection.timer == Time::MAX {
            connection.arm(now);
        }
        cx.wake(connection.timer);
    }

    /// A packet from the host.
    fn hear(&mut self, parcel: Parcel, cx: &mut Cx<'_>) {
        let packet = *cx.packets.get(parcel.packet);
        let (plan, now) = (self.plan, cx.now);
        let counts = u64::from(cx.window.contains(now));
        let Some(connection) = self.connections.get_mut(&parcel.flow) else { return cx.forward(parcel) };
        if packet.kind == Kind::SynAck {
            let agreed = cx.extras.get(packet.extra).and_then(|extra| extra.offer);
            connection.active = agreed.is_some_and(|offer| offer.timestamps);
            self.without_timestamps += if connection.active { 0 } else { counts };
            connection.una = connection.una.max(packet.seq);
            return cx.forward(parcel);
        }
        if !connection.active
            || !matches!(packet.kind, Kind::Ack | Kind::FinAck)
            || packet.seq < connection.una
        {
            return cx.forward(parcel);
        }
        let same_window = u64::from(packet.window) == connection.host_window;
        connection.host_window = packet.window.into();
        let echoes = |ack: &Packet| ack.flags & flag::ACE;
        let same_echo = connection.last_ack.as_ref().is_none_or(|last| echoes(last) == echoes(&packet));
        if packet.seq > connection.una {
            connection.una = packet.seq;
            let mut sample = None;
            while let Some(held) = connection.held.front()
                && held.end <= packet.seq
            {
                if let Some(parcel) = held.parcel {
                    // It was never sent from here: the host got it by another way.
                    cx.drop(parcel, Cause::Withheld);
                }
                sample = (held.times == 1).then(|| now.since(held.sent));
                connection.held.pop_front();
            }
            if let Some(rtt) = sample {
                connection.sample(rtt, &plan);
            }
            connection.window = u64::MAX;
            connection.last_ack = Some(Packet { extra: NONE, ..packet });
            let waits = connection.held.iter().any(|held| held.times > 0);
            connection.timer = Time::MAX;
            if waits {
                connection.arm(now);
            }
            cx.forward(parcel);
            if packet.kind == Kind::FinAck {
                // The host has closed its side: what still waits for it goes on as it came, and so does what follows.
                let left = self.connections.remove(&parcel.flow).into_iter().flat_map(|known| known.held);
                left.filter_map(|held| held.parcel).for_each(|parcel| cx.forward(parcel));
                return;
            }
            cx.wake(connection.timer);
            return self.fill(parcel.flow, cx);
        }
        let is_held = connection.held.front().is_some_and(|held| held.seq <= packet.seq && held.times > 0);
        if !is_held || !same_window || !same_echo || packet.kind == Kind::FinAck {
            cx.forward(parcel);
            return self.fill(parcel.flow, cx);
        }
        let patience = connection.srtt.unwrap_or(connection.timeout);
        let asks =
            connection.held.front().is_some_and(|held| now.since(held.sent) >= patience || held.times == 1);
        self.withheld += counts;
        cx.drop(parcel, Cause::Withheld);
        if asks {
            self.repeats_by_duplicate += counts;
            self.send(parcel.flow, 0, cx);
        }
    }

    /// A connection is over, or leaves: what is held of it ends here.
    fn forget(&mut self, flow: u32, cause: Cause, cx: &mut Cx<'_>) {
        for held in self.connections.remove(&flow).into_iter().flat_map(|known| known.held) {
            if let Some(parcel) = held.parcel {
                cx.drop(parcel, cause);
            }
        }
    }

    /// Serves the timers that are due.
    fn run(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now;
        let due: Vec<u32> =
            self.connections.iter().filter(|(_, known)| known.timer <= now).map(|(&flow, _)| flow).collect();
        for flow in due {
            let Some(connection) = self.connections.get_mut(&flow) else { continue };
            connection.timer = Time::MAX;
            // What the host waits for may not have come here: then it is the source's turn.
            let Some(first) = connection.held.front().filter(|held| held.seq <= connection.una) else {
                continue;
            };
            connection.window = first.end - first.seq;
            connection.timeout = (connection.timeout * 2).min(LONGEST_TIMEOUT);
            connection.timed_out = now;
            self.repeats_by_timer += u64::from(cx.window.contains(now));
            self.send(flow, 0, cx);
        }
        self.ask_for_call(cx);
    }
}

impl Element for Agent {
    fn receive(&mut self, parcel: Parcel, port: u32, cx: &mut Cx<'_>) {
        self.catch_up(cx);
        let packet = cx.packets.get(parcel.packet);
        let (kind, forward) = (packet.kind, packet.is_forward());
        // The data of a connection departs over the link; ACKs come back over it.
        match (port == OUTBOUND, forward) {
            (true, true) if kind == Kind::Syn => {
                // A connection opens, or opens anew: what was held of an earlier one ends here.
                self.forget(parcel.flow, Cause::Withheld, cx);
                self.connections.insert(parcel.flow, Connection::new(&self.plan));
                cx.forward(parcel);
            }
            (true, true) if matches!(kind, Kind::Data | Kind::Fin) => self.take(parcel, cx),
            (false, false) if kind != Kind::Reset => self.hear(parcel, cx),
            _ => {
                if kind == Kind::Reset {
                    self.forget(parcel.flow, Cause::Withheld, cx);
                }
                cx.forward(parcel);
            }
        }
        self.ask_for_call(cx);
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        self.let_go(cx.now, cx);
        self.run(cx);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        for held in std::mem::take(&mut self.connections).into_values().flat_map(|known| known.held) {
            if let Some(parcel) = held.parcel {
                cx.keep(parcel);
            }
        }
    }

    fn repairs(&self) -> Option<u64> {
        Some(self.repeats_by_duplicate + self.repeats_by_timer + self.repeats_at_handoff)
    }

    fn holdings(&self) -> Vec<(&'static str, u64)> {
        vec![("wtcp_held", self.connections.values().map(|connection| connection.held.len() as u64).sum())]
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("wtcp_kept", self.kept),
            ("wtcp_repeats_by_duplicate", self.repeats_by_duplicate),
            ("wtcp_repeats_by_timer", self.repeats_by_timer),
            ("wtcp_repeats_at_handoff", self.repeats_at_handoff),
            ("wtcp_withheld", self.withheld),
            ("wtcp_answered", self.answered),
            ("wtcp_hidden_s", self.hidden.0),
            ("wtcp_without_timestamps", self.without_timestamps),
            ("wtcp_moved", self.moved),
        ]
    }
}

#[cfg(test)]
mod tests {
    use lasthop_core::packet::Note;

    use super::super::testing::Bench;
    use super::super::{Effect, INBOUND};
    use super::*;
    use crate::transport::extra::Offer;

    fn millis(value: u64) -> Time {
        Time::ZERO + Span::from_millis(value)
    }

    fn data(number: u64, stamp: Time) -> Packet {
        let seq = 1 + 1000 * number;
        Packet { seq, stamp, bytes: 1040, payload: 1000, kind: Kind::Data, extra: NONE, ..Packet::default() }
    }

    fn ack(number: u64, window: u32) -> Packet {
        let seq = 1 + 1000 * number;
        Packet { seq, window, bytes: 40, kind: Kind::Ack, extra: NONE, note: Note::BACK, ..Packet::default() }
    }

    /// An agent with a clock of 10 ms, and a connection that is open; its first packets are the SYN and its answer.
    fn bench() -> Bench<Agent> {
        open(plan())
    }

    fn plan() -> Wtcp {
        let (tick, min_timeout) = (Span::from_millis(10), Span::from_millis(40));
        Wtcp { buffer: 8, tick, min_timeout, handoff: AtHandoff::Move }
    }

    fn open(plan: Wtcp) -> Bench<Agent> {
        let mut bench = Bench::new(Agent::new(&plan, "agent", 1));
        let offer = Some(Offer { timestamps: true, ..Offer::default() });
        bench.offer_at(
            Packet { kind: Kind::Syn, bytes: 60, extra: NONE, ..Packet::default() },
            OUTBOUND,
            0,
            millis(0),
        );
        let extra = bench.attach(&Extra { offer, ..Extra::default() });
        let answer =
            Packet { seq: 1, kind: Kind::SynAck, bytes: 60, extra, note: Note::BACK, ..Packet::default() };
        bench.offer_at(answer, INBOUND, 0, millis(10));
        bench
    }

    fn emitted(bench: &Bench<Agent>) -> Vec<(u64, Time, Time)> {
        let emitted = |effect: &Effect| match effect {
            Effect::Emit { packet, at, .. } => Some((packet.seq, packet.stamp, *at)),
            _ => None,
        };
        bench.effects.iter().filter_map(emitted).collect()
    }

    /// NV-5.4: a residence of 130 ms moves the timestamp by 13 ticks of 10 ms. The segment waits because the host's
    /// window takes only one.
    #[test]
    fn residence_is_hidden() {
        let mut bench = bench();
        bench.offer_at(data(0, millis(15)), OUTBOUND, 0, millis(20));
        bench.offer_at(ack(1, 1000), INBOUND, 0, millis(30));
        bench.offer_at(data(1, millis(35)), OUTBOUND, 0, millis(40));
        bench.offer_at(data(2, millis(36)), OUTBOUND, 0, millis(41));
        // Its timer would repeat segment 1 before; the ACK comes in time for segment 2 to have waited 130 ms.
        bench.device.connections.get_mut(&0).unwrap().timer = Time::MAX;
        bench.offer_at(ack(2, 1000), INBOUND, 0, millis(171));
        assert_eq!(emitted(&bench), [(2001, millis(36 + 130), millis(171))]);
        assert_eq!(bench.device.hidden, Span::from_millis(130));
    }

    /// A duplicate asks for the first that is missing, once; the source sees none of them.
    #[test]
    fn duplicates_are_answered_here() {
        let mut bench = bench();
        for number in 0..5 {
            bench.offer_at(data(number, millis(20)), OUTBOUND, 0, millis(20 + number));
        }
        bench.offer_at(ack(1, 9000), INBOUND, 0, millis(30));
        for time in [32, 33, 34] {
            bench.offer_at(ack(1, 9000), INBOUND, 0, millis(time));
        }
        // Eleven milliseconds after it came: one tick.
        assert_eq!(emitted(&bench), [(1001, millis(30), millis(32))]);
        assert_eq!(
            bench.device.counters()[1..5],
            [
                ("wtcp_repeats_by_duplicate", 1),
                ("wtcp_repeats_by_timer", 0),
                ("wtcp_repeats_at_handoff", 0),
                ("wtcp_withheld", 3)
            ]
        );
    }

    /// A timeout leaves one segment to the host until an ACK comes.
    #[test]
    fn a_timeout_closes_the_window() {
        let mut bench = bench();
        for number in 0..2 {
            bench.offer_at(data(number, millis(20)), OUTBOUND, 0, millis(20));
        }
        bench.run_until(millis(61));
        assert_eq!(emitted(&bench), [(1, millis(60), millis(60))]);
        bench.offer_at(data(2, millis(65)), OUTBOUND, 0, millis(70));
        assert_eq!(bench.forwarded().len(), 4, "SYN, SYN-ACK and two segments; the third waits");
        bench.offer_at(ack(1, 9000), INBOUND, 0, millis(80));
        assert_eq!(emitted(&bench)[1], (2001, millis(75), millis(80)));
    }

    /// The host leaves at 50 ms. The next agent has the connection: it sends the two segments that were sent but not
    /// acknowledged, and the one that waited for the window, with a residence of 30, 20 and 10 ms; an ACK of the first
    /// is no sample, and the ACK of the last, of which there is one copy, is.
    #[test]
    fn a_connection_moves_with_its_host() {
        let mut old = bench();
        old.device.add_move(Move { at: millis(50), flow: 0, to: 7, hop: 20 });
        for (number, at) in [(0, 20), (1, 30), (2, 40)] {
            // The timer would repeat the first before.
            old.device.connections.get_mut(&0).unwrap().host_window = 2000;
            old.offer_at(data(number, millis(at)), OUTBOUND, 0, millis(at));
        }
        old.run_until(millis(51));
        assert!(old.device.connections.is_empty());
        let Some(Effect::Hand { to: 7, flow: 0, handed: super::super::Handed::Wtcp(handed), at }) =
            old.effects.pop()
        else {
            panic!("the last thing that it does")
        };
        assert_eq!(at, millis(50));
        let mut new = Bench::new(Agent::new(&plan(), "other", 1));
        new.act(at, |device, cx| device.take_over(0, *handed, cx));
        let place = |effect: &Effect| match effect {
            Effect::Emit { packet, hop, .. } => Some((packet.seq, packet.stamp, *hop, packet.note.again())),
            _ => None,
        };
        let sent: Vec<_> = new.effects.iter().filter_map(place).collect();
        assert_eq!(
            sent,
            [
                (1, millis(20 + 30), 21, true),
                (1001, millis(30 + 20), 21, true),
                // The window of two segments is full: the third waits.
            ]
        );
        new.offer_at(ack(1, 9000), INBOUND, 0, millis(55));
        assert_eq!(new.device.connections[&0].srtt, None, "Karn's rule");
        let sent: Vec<_> = new.effects.iter().filter_map(place).collect();
        // Its stamp of 40 ms, and a residence of 15 ms, in whole ticks.
        assert_eq!(sent[2..], [(2001, millis(40 + 10), 21, false)]);
        new.offer_at(ack(3, 9000), INBOUND, 0, millis(62));
        assert_eq!(new.device.connections[&0].srtt, Some(Span::from_millis(7)));
        let count = |name| new.device.counters().into_iter().find(|&(known, _)| known == name).unwrap().1;
        assert_eq!((count("wtcp_moved"), count("wtcp_repeats_at_handoff")), (1, 2));
    }

    /// With nothing to take along, what was not sent is lost, and the next agent has no connection.
    #[test]
    fn a_connection_may_be_forgotten() {
        let plan = Wtcp { handoff: AtHandoff::Fresh, ..plan() };
        let mut bench = open(plan);
        bench.device.add_move(Move { at: millis(45), flow: 0, to: 7, hop: 20 });
        for number in 0..2 {
            bench.device.connections.get_mut(&0).unwrap().host_window = 1000;
            bench.offer_at(data(number, millis(20)), OUTBOUND, 0, millis(20));
        }
        bench.run_until(millis(46));
        assert!(bench.device.connections.is_empty());
        assert_eq!(
            bench.dropped().iter().map(|&(_, cause)| cause).collect::<Vec<_>>(),
            [Cause::RouteChanged]
        );
        assert!(!bench.effects.iter().any(|effect| matches!(effect, Effect::Hand { .. })));
    }

    /// The host closes its side while segments wait for its window: they go on, and nothing gets lost with the agent's
    /// memory of the connection.
    #[test]
    fn what_waits_when_the_host_closes_goes_on() {
        let mut bench = bench();
        bench.offer_at(ack(0, 1000), INBOUND, 0, millis(15));
        for number in 0..3 {
            bench.offer_at(data(number, millis(20)), OUTBOUND, 0, millis(20 + number));
        }
        let before = bench.forwarded().len();
        let closes = Packet { kind: Kind::FinAck, ..ack(1, 1000) };
        bench.offer_at(closes, INBOUND, 0, millis(40));
        assert!(bench.device.connections.is_empty());
        assert!(before < 6, "one segment at a time");
        let total = 2 + 1 + 3 + 1;
        assert_eq!(bench.forwarded().len(), total, "SYN, its answer, two ACKs and three segments");
    }

    #[test]
    fn nothing_that_comes_breaks_it() {
        let plan = plan();
        let make = || Agent::new(&plan, "agent", 1);
        super::super::testing::hammer(make, 2, |device| {
            device.connections.len() <= 5 && device.connections.values().all(|known| known.held.len() <= 8)
        });
    }
}
