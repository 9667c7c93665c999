//! Split connections: a proxy terminates every TCP connection at its node and opens another one to the far end (I-TCP;
//! RFC 3135).
//!
//! *What it does.* Two flows share one stream of data, and each has its own TCP. The first flow ends at the proxy.
//! In-order data at its receiver is written into the sender of the second flow at once, and occupies the buffer until
//! the far end has acknowledged it; the first sender is advertised the free part as its window. A FIN follows the last
//! byte; a SYN is answered when the connection beyond is open (late), or at once. Each direction of data is split
//! separately, and several proxies in a row add one connection each.
//!
//! *Reacts to* nothing in particular: its two ends are TCP, with the senders that `to_wireless` and `to_wired` name.
//! When a later path of a flow leads over another split, or a host goes to an access point with another one, the state
//! moves there: the buffered data at the rate of the backhaul, plus a fixed time. During the move it receives nothing,
//! and its timers do not expire. With `handoff = "lose"` the state stays behind: packets that reach the new proxy are
//! answered by a RST, and both connections are reset. When one half is given up (`give_up` of its transport) or reset,
//! the other is reset at once. With `zero_windows` the proxy closes the window of the wired half while the link of the
//! wireless host fades or is down, as M-TCP does, and opens it when the link is back.
//!
//! *Differs from its paper:* the proxy's ends take no time for a packet, and what is in flight beyond it counts
//! against its buffer. A connection that was reset is not opened again. M-TCP detects a disconnection by missing ACKs
//! and keeps the last byte unacknowledged, so that an ACK is left to close the window with; here the radio notifies the
//! proxy (how early is `warning` of a handoff), and a receiver may close its window by a separate ACK.
//!
//! *Validation:* NV-5.5 and whole runs in `tests/split.rs`: each half follows its own controller, nothing is lost or
//! reordered, the state moves or is lost, a half that ends takes the other with it, and a closed window stops the
//! source.
//!
//! *Limitations:* data may be acknowledged to the source that the sink never receives:
//! `split_acked_not_delivered_bytes` counts them. Real-time metrics follow packets from end to end and cannot be
//! measured through it. In traces and series the second half is a flow of its own, `FLOW@NODE`.
//!
//! *Cost:* in memory 7.6 kB a flow: it is two connections (a thousand Reno flows over 500 Mbit/s that lose 2 %, with it
//! and without); in time `bench/RESULTS.md`.
//!
//! *Kernel counterpart:* none; transparent proxies (TPROXY) and satellite PEPs do it in user space. In front of real
//! hosts `lasthop-live` does, with the same senders (`proxy.rs` there).
//!
//! *References:* Bakre and Badrinath (1995); Brown and Singh (M-TCP, Computer Communication Review 27(5), 1997); RFC
//! 3135; RFC 9293 section 3.10.7.
//!
//! A receiver that feeds a proxy follows the clock, because a sender acts at the present time; everything else in its
//! path is evaluated as ever. Decision 0017 has the reasons.

use std::collections::VecDeque;

use lasthop_core::event::Target;
use lasthop_core::packet::{Kind, NONE, Packet};
use lasthop_core::time::{Span, Time};

use super::World;
use crate::measure::Window;
use crate::network::{Hop, Paths, event_kind};
use crate::plan::{LinkPlan, Part, Plan, Relay, UnderWay};
use crate::routing::{DirectionId, start_of};
use crate::transport::endpoint::Endpoint;
use crate::transport::extra::first_sent;

/// When the ranges of a stream that lie at a proxy were sent first, by host or proxy.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    /// Beginning, end, time; disjoint and in the order of the stream.
    ranges: VecDeque<(u64, u64, Time)>,
}

impl Origins {
    /// The range of a packet; what is known of it stays.
    pub fn note(&mut self, start: u64, end: u64, sent: Time) {
        if end <= start {
            return;
        }
        let place = self.ranges.partition_point(|range| range.1 <= start);
        match self.ranges.get(place) {
            None => self.ranges.push_back((start, end, sent)),
            Some(next) if end <= next.0 => self.ranges.insert(place, (start, end, sent)),
            // A retransmission that is cut otherwise than the first transmission was.
            Some(_) => {}
        }
    }

    /// When the byte at `seq` was sent first.
    pub fn of(&self, seq: u64) -> Option<Time> {
        let place = self.ranges.partition_point(|range| range.1 <= seq);
        self.ranges.get(place).filter(|range| range.0 <= seq).map(|range| range.2)
    }

    /// Everything below `seq` has left.
    pub fn forget(&mut self, seq: u64) {
        while self.ranges.front().is_some_and(|range| range.1 <= seq) {
            self.ranges.pop_front();
        }
    }
}

/// What a proxy counted within the measurement window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayStats {
    /// Bytes that were written into the second connection.
    pub relayed: u64,
    /// Most bytes that it held at once.
    pub most_held: u64,
    /// Byte-nanoseconds that it held.
    held_time: u128,
    /// Times that its state moved to another node.
    pub moves: u64,
    /// Bytes that moved with it.
    pub moved: u64,
    /// How long nothing reached it meanwhile.
    pub halted: Span,
    /// Connections that ended before their time because one half did, or because their state did not move.
    pub resets: u64,
    /// Bytes that were lost with their state.
    pub lost: u64,
}

impl RelayStats {
    /// Bytes that it held on average.
    pub fn mean_held(&self, window: Window) -> f64 {
        self.held_time as f64 / (window.length().0.max(1)) as f64
    }
}

/// The two halves of a connection at a proxy.
#[derive(Clone, Debug)]
pub struct Half {
    plan: Relay,
    from: u32,
    to: u32,
    /// Bytes that were written into the second connection, and that its far end has acknowledged.
    relayed: u64,
    gone: u64,
    opened: bool,
    established: bool,
    closed: bool,
    /// One half was given up or reset, and the other has been told; or the state is lost.
    over: bool,
    lost: bool,
    pub(super) origins: Origins,
    /// Its state is on its way to another node until then.
    halted_until: Time,
    /// Since when it has held what it holds.
    since: Time,
    /// Counters of the measurement window.
    pub stats: RelayStats,
}

impl Half {
    /// Bytes that it holds, what is under way from it included.
    pub fn held(&self) -> u64 {
        self.relayed - self.gone
    }

    /// Counts what it has held up to now.
    fn settle(&mut self, now: Time, window: &Window) {
        let held = self.held();
        self.stats.held_time += u128::from(held) * u128::from(window.overlap(self.since, now));
        if now > window.from && now > self.since {
            self.stats.most_held = self.stats.most_held.max(held);
        }
        self.since = now;
    }
}

/// The proxies of a world. In most worlds there is none, and the lists are empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Relays {
    pub(super) halves: Vec<Half>,
    /// Which proxy a flow brings data to, and which its sender belongs to; [`NONE`] where there is none.
    after: Vec<u32>,
    before: Vec<u32>,
}

impl Relays {
    pub(super) fn is_empty(&self) -> bool {
        self.halves.is_empty()
    }

    /// The proxy that the sender of `flow` belongs to.
    pub(super) fn before(&self, flow: usize) -> Option<&Half> {
        self.halves.get(*self.before.get(flow)? as usize)
    }

    fn index(list: &[u32], flow: u32) -> Option<usize> {
        list.get(flow as usize).filter(|&&half| half != NONE).map(|&half| half as usize)
    }
}

/// Paths, and when which of them comes into force.
type Ways = (Vec<Vec<DirectionId>>, Vec<(Time, usize, UnderWay)>);

/// The part of every path of a whole connection that one half of it takes, each once, and when which comes into force.
pub(super) fn part_of(
    part: &Part,
    links: &[LinkPlan],
    all: &[Vec<DirectionId>],
    changes: &[(Time, usize, UnderWay)],
) -> Ways {
    let cut = |path: &Vec<DirectionId>| -> Vec<DirectionId> {
        let passes = |&&(_, direction): &&(usize, DirectionId)| {
            let node = start_of(links, direction);
            node != part.ends.0 && part.proxies.contains(&node)
        };
        let places: Vec<(usize, DirectionId)> = path.iter().copied().enumerate().collect();
        let proxies: Vec<usize> = places.iter().filter(passes).map(|&(place, _)| place).collect();
        let begin = part.number.checked_sub(1).and_then(|before| proxies.get(before)).copied().unwrap_or(0);
        let end = proxies.get(part.number).copied().unwrap_or(path.len());
        path[begin..end].to_vec()
    };
    let mut parts: Vec<Vec<DirectionId>> = Vec::new();
    let numbers: Vec<usize> = (all.iter().map(cut))
        .map(|path| {
            parts.iter().position(|known| *known == path).unwrap_or_else(|| {
                parts.push(path);
                parts.len() - 1
            })
        })
        .collect();
    let mut current = numbers[0];
    let mut kept = Vec::new();
    for &(at, path, under_way) in changes {
        let next = numbers[path];
        if std::mem::replace(&mut current, next) != next {
            kept.push((at, next, under_way));
        }
    }
    (parts, kept)
}

impl World {
    /// Puts the proxies of a plan between the flows that they join.
    pub(super) fn join_halves(&mut self, plan: &Plan, paths: &[Paths]) {
        if plan.flows.iter().all(|flow| flow.relay.is_none()) {
            return;
        }
        let none = || vec![NONE; plan.flows.len()];
        self.relays = Relays { halves: Vec::new(), after: none(), before: none() };
        for (flow, to) in plan.flows.iter().zip(0u32..) {
            let Some(relay) = flow.relay else { continue };
            let half = self.relays.halves.len() as u32;
            self.relays.after[relay.of] = half;
            self.relays.before[to as usize] = half;
            self.relays.halves.push(Half {
                plan: relay,
                from: relay.of as u32,
                to,
                relayed: 0,
                gone: 0,
                opened: false,
                established: false,
                closed: false,
                over: false,
                lost: false,
                origins: Origins::default(),
                halted_until: Time::ZERO,
                since: Time::ZERO,
                stats: RelayStats::default(),
            });
            let mss = plan.flows[relay.of].transport.payload();
            if let Endpoint::TcpReceiver(receiver) = &mut self.network.receivers[relay.of] {
                receiver.relay(mss, relay.late);
            }
            // An application never writes to a proxy: this event says that the proxy moves.
            let Paths { all, changes, .. } = &paths[to as usize];
            let source = |path: usize| all[path].first().map(|&direction| start_of(&plan.links, direction));
            let mut node = source(0);
            for &(at, path, _) in changes {
                if let Some(next) = source(path).filter(|&next| node.replace(next) != Some(next)) {
                    debug_assert!(next < plan.nodes.len());
                    self.network.schedule(at, Target::new(event_kind::TRAFFIC, to));
                }
            }
        }
    }

    /// The proxy that passes on the data of a flow, if there is one, and the flow over which it does.
    pub fn half_after(&self, flow: usize) -> Option<(usize, &Half)> {
        let half = &self.relays.halves[Relays::index(&self.relays.after, flow as u32)?];
        Some((half.to as usize, half))
    }

    /// Bytes that the receiver of the flow `first` has acknowledged and that of `last` does not have in order.
    pub fn acked_not_delivered(&self, first: usize, last: usize) -> u64 {
        let receiver = |flow: usize| match &self.network.receivers[flow] {
            Endpoint::TcpReceiver(receiver) => Some(receiver),
            _ => None,
        };
        let acknowledged = receiver(first).map_or(0, |receiver| receiver.acknowledged());
        acknowledged.saturating_sub(receiver(last).map_or(0, |receiver| receiver.in_order().0))
    }

    /// A packet has reached an end of a flow. If a proxy stands there, it is dealt with.
    pub(super) fn arrive_at_half(&mut self, index: u32, (next, hop): (u32, Hop)) -> bool {
        let list = if hop.is_receiver() {
            &self.relays.after
        } else if hop.is_sender() {
            &self.relays.before
        } else {
            return false;
        };
        let Some(half) = Relays::index(list, hop.flow()) else { return false };
        let until = self.relays.halves[half].halted_until;
        if self.now < until {
            self.network.postpone(index, until);
            return true;
        }
        if hop.is_receiver() {
            let (packet, extra) = self.network.look_at(index);
            if packet.kind == Kind::Data || packet.kind == Kind::Fin {
                let Packet { seq, payload, .. } = *packet;
                let sent = first_sent(packet, extra);
                let state = &mut self.relays.halves[half];
                let end = seq + u64::from(payload);
                // What the far end has acknowledged has left: it needs no origin any more.
                if end > state.gone + 1 {
                    state.origins.note(seq, end, sent);
                }
            }
            self.network.walk(index, (next, hop), self.now);
            self.pass_on(half);
        } else {
            let flow = hop.flow() as usize;
            let asks = self.relays.halves[half].lost && self.network.look_at(index).0.kind != Kind::Reset;
            self.arrive_at_sender(index, flow);
            if asks {
                // That connection is not in the table any more.
                self.with_sender(flow, |sender, now, port| sender.refuse(now, port));
            }
            self.note_gone(half);
            self.note_given_up(flow);
        }
        true
    }

    /// A timer of the sender of `flow` (`is_sender`) or of its receiver: postponed, if it belongs to a proxy that is on
    /// the move.
    pub(super) fn postpones(&mut self, flow: usize, target: Target, is_sender: bool) -> bool {
        let list = if is_sender { &self.relays.before } else { &self.relays.after };
        let Some(half) = Relays::index(list, flow as u32) else { return false };
        let until = self.relays.halves[half].halted_until;
        if self.now < until {
            self.network.schedule(until, target);
        }
        self.now < until
    }

    /// Writes what the first connection has in order into the second.
    fn pass_on(&mut self, half: usize) {
        let Half { from, to, relayed, opened, closed, .. } = self.relays.halves[half];
        let Endpoint::TcpReceiver(receiver) = &self.network.receivers[from as usize] else { return };
        let (bytes, has_syn, has_fin) = receiver.in_order();
        let to = to as usize;
        if receiver.is_reset() {
            if !self.relays.halves[half].over {
                self.end_half(half);
                self.with_sender(to, |sender, now, port| sender.abort(true, now, port));
            }
            return;
        }
        let (new, now, window) = (bytes - relayed, self.now, self.network.window);
        let state = &mut self.relays.halves[half];
        state.settle(now, &window);
        state.relayed = bytes;
        state.stats.relayed += if window.contains(now) { new } else { 0 };
        state.opened |= has_syn;
        state.closed |= has_fin;
        if has_syn && !opened {
            self.recall(to);
            self.with_sender(to, |sender, now, port| sender.on_data(Some(0), false, now, port));
        }
        if new > 0 {
            self.with_sender(to, |sender, now, port| sender.on_data(Some(new), false, now, port));
        }
        if has_fin && !closed {
            self.with_sender(to, |sender, now, port| sender.on_close(false, now, port));
        }
    }

    /// The far end of the second connection has acknowledged something, perhaps.
    fn note_gone(&mut self, half: usize) {
        let (now, window) = (self.now, self.network.window);
        let state = &mut self.relays.halves[half];
        let Some(sender) = self.senders[state.to as usize].tcp_sender() else { return };
        let acknowledged = sender.acknowledged();
        let gone = acknowledged.saturating_sub(1).min(state.relayed);
        let from = state.from;
        if acknowledged > 0 && !state.established {
            state.established = true;
            if state.plan.late {
                self.network.answer_withheld(from, now);
            }
        }
        let state = &mut self.relays.halves[half];
        if gone > state.gone {
            state.settle(now, &window);
            state.gone = gone;
            state.origins.forget(acknowledged);
            self.network.take_relayed(from, gone, now);
        }
    }

    /// Neither half goes on.
    fn end_half(&mut self, half: usize) {
        let counts = u64::from(self.network.window.contains(self.now));
        let state = &mut self.relays.halves[half];
        state.over = true;
        state.stats.resets += counts;
    }

    /// The sender of `flow` has given its connection up or heard of its end, perhaps; if it is a proxy's, the other
    /// half is reset.
    pub(super) fn note_given_up(&mut self, flow: usize) {
        let Some(half) = Relays::index(&self.relays.before, flow as u32) else { return };
        let Half { over, from, .. } = self.relays.halves[half];
        if !over && self.senders[flow].tcp_sender().is_some_and(|sender| sender.reset().is_some()) {
            self.end_half(half);
            self.network.reset_relayed(from, self.now);
        }
    }

    /// The proxy of a half forgets the connections that it stands in.
    fn lose_half(&mut self, half: usize) {
        let Half { from, to, relayed, gone, opened, over, .. } = self.relays.halves[half];
        let is_done = self.senders[to as usize].report().completed.is_some();
        if !opened || over || is_done {
            return;
        }
        self.end_half(half);
        let counts = if self.network.window.contains(self.now) { relayed - gone } else { 0 };
        let state = &mut self.relays.halves[half];
        state.lost = true;
        state.stats.lost += counts;
        self.network.forget_relayed(from);
        self.with_sender(to as usize, |sender, now, port| sender.abort(false, now, port));
    }

    /// The proxy that the sender of `flow` belongs to moves to another node.
    pub(super) fn move_half(&mut self, flow: usize) -> bool {
        let Some(half) = Relays::index(&self.relays.before, flow as u32) else { return false };
        let (now, window) = (self.now, self.network.window);
        let state = &mut self.relays.halves[half];
        state.settle(now, &window);
        if !state.plan.moves {
            self.lose_half(half);
            return true;
        }
        let held = state.relayed - state.gone;
        let pause = state.plan.backhaul.serialisation(held) + state.plan.transfer;
        let until = now + pause;
        let counted = Span(window.overlap(now.max(state.halted_until), until));
        state.halted_until = state.halted_until.max(until);
        state.stats.halted = state.stats.halted + counted;
        if window.contains(now) {
            state.stats.moves += 1;
            state.stats.moved += held;
        }
        true
    }

    /// The run is over: counts what the proxies still hold.
    pub(super) fn close_halves(&mut self) {
        let (now, window) = (self.now, self.network.window);
        for half in &mut self.relays.halves {
            half.settle(now, &window);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranges come in any order and again; the first that is known of a byte counts.
    #[test]
    fn origins_are_those_of_the_first_transmission() {
        let mut origins = Origins::default();
        origins.note(1, 1001, Time(10));
        origins.note(2001, 3001, Time(30));
        origins.note(1001, 2001, Time(20));
        origins.note(2001, 3001, Time(99));
        origins.note(1, 3001, Time(99));
        let at = |seq| origins.of(seq).map(|time| time.0);
        assert_eq!(
            [at(0), at(1), at(1000), at(1001), at(2500), at(3001)],
            [None, Some(10), Some(10), Some(20), Some(30), None]
        );
        origins.forget(1500);
        assert_eq!((origins.of(1), origins.of(1501)), (None, Some(Time(20))));
        origins.forget(3001);
        assert!(origins.ranges.is_empty());
    }
}
